"""The book as one page, which `make pdf` prints. Printing itself takes minutes and is left to that command."""

import pytest
from bs4 import BeautifulSoup
from test_site import TOC

from tools.pdf import book, led_into_the_book, prefix


@pytest.fixture(scope="module")
def printed(site):
    """Parse the book as one page."""
    return BeautifulSoup(book(site), "lxml")


def test_the_printed_book_holds_every_page_in_order(printed):
    assert [article["id"] for article in printed.select("main > article")] == [f"{prefix(name)}page" for name in TOC]


def test_links_of_the_printed_book_lead_to_places_in_it(printed):
    ids = [element["id"] for element in printed.find_all(id=True)]
    inside = {link["href"][1:] for link in printed.select("a[href^='#']")}
    assert len(inside) > 200
    assert inside <= set(ids)
    assert not {each for each in inside if ids.count(each) > 1}


def test_everything_that_the_printed_book_shows_is_in_the_site(site, printed):
    addresses = [image["src"] for image in printed.find_all("img")] + [
        link["href"] for link in printed.find_all("link")
    ]
    local = [address.partition("?")[0] for address in addresses if not address.startswith(("data:", "http"))]
    assert len(local) > 40
    assert not [address for address in local if not (site / address).is_file()]


def test_solutions_are_open_on_paper(printed):
    assert printed.select("details")
    assert not printed.select("details:not([open])")


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("#sum", "#notebooks-one--sum"),
        ("../book/notation.html", "#book-notation--page"),
        ("two.html#section-2-1", "#notebooks-two--section-2-1"),
        ("https://example.org/two.html", "https://example.org/two.html"),
        ("../search.html", "../search.html"),
    ],
)
def test_a_link_is_led_to_its_place_in_the_book(href, expected):
    assert led_into_the_book(href, "notebooks/one", ["notebooks/one", "notebooks/two", "book/notation"]) == expected
