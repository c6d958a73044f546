"""The book as one page, which `make pdf` prints. Printing itself takes minutes and is left to that command."""

from collections import Counter

import pytest
from lxml.html import document_fromstring
from test_site import TOC

from tools.pdf import book, led_into_the_book, prefix


@pytest.fixture(scope="module")
def printed(site):
    """Parse the book as one page."""
    return document_fromstring(book(site))


def test_the_printed_book_holds_every_page_in_order(printed):
    assert printed.xpath("//main/article/@id") == [f"{prefix(name)}page" for name in TOC]


def test_links_of_the_printed_book_lead_to_places_in_it(printed):
    ids = Counter(printed.xpath("//@id"))
    inside = {href[1:] for href in printed.xpath("//a/@href") if href.startswith("#")}
    assert len(inside) > 200
    assert not {place for place in inside if ids[place] != 1}


def test_everything_that_the_printed_book_shows_is_in_the_site(site, printed):
    addresses = printed.xpath("//img/@src | //link/@href")
    local = [address.partition("?")[0] for address in addresses if not address.startswith(("data:", "http"))]
    assert len(local) > 40
    assert not [address for address in local if not (site / address).is_file()]


def test_solutions_are_open_on_paper(printed):
    assert printed.xpath("//details")
    assert not printed.xpath("//details[not(@open)]")


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
