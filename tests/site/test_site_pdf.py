"""The book as one page, which `make pdf` prints. Printing all of it takes minutes and is left to that command."""

from collections import Counter

import pytest
from lxml.html import document_fromstring
from test_site import TOC
from website import soup_of

from tools import pdf
from tools.pdf import book, led_into_the_book, prefix

LISTS = ("claims", "mistakes", "sayings", "figures", "names", "api", "package/", "benchmark")


@pytest.fixture(scope="module")
def printed(site):
    """Parse the book as one page."""
    return document_fromstring(book(site))


def test_the_printed_book_holds_the_chapters_and_no_lists_of_the_site(printed):
    ids = printed.xpath("//main/article/@id")
    assert ids == [f"{prefix(name)}page" for name in TOC if f"{prefix(name)}page" in ids], "in their order"
    assert {f"{prefix(name)}page" for name in TOC if name.startswith("notebooks/")} < set(ids)
    assert {"book-glossary--page", "book-references--page"} < set(ids)
    assert not [id for id in ids for name in LISTS if id.startswith(prefix(f"book/{name}").removesuffix("--"))]


def test_turns_have_their_answers_and_folded_code_is_gone(printed, site):
    chapters = [soup_of(site / f"{name}.html") for name in TOC if name.startswith("notebooks/")]
    turns = sum(len(chapter.select(".tag_turn [data-widget=your_turn]")) for chapter in chapters)
    assert len(printed.xpath("//p[em[.='Answer: ']]")) == turns > 20
    assert not printed.xpath("//*[@data-widget='your_turn'] | //button")
    folded = printed.xpath("//details[contains(@class, 'above-input')]/summary")
    assert folded and {summary.text_content() for summary in folded} == {"An answer"}


def test_a_chapter_prints_tagged_and_with_bookmarks(browser, site, tmp_path, monkeypatch):
    monkeypatch.setattr(pdf, "printed_pages", lambda: ["book/why", "book/references"])
    pdf.print_book(site, tmp_path / "book.pdf", browser)
    made = (tmp_path / "book.pdf").read_bytes()
    assert b"/MarkInfo <</Type /MarkInfo\n/Marked true" in made and b"/StructTreeRoot" in made
    assert made.count(b"/Type /Page\n") > 3
    bookmarks = made[made.index(b"/Outlines") - 20_000 :]
    assert b"(Why attention)" in bookmarks and b"(Contents)" in bookmarks  # each once: no (ContentsContents)


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
        ("../search.html#box", "https://here.org/search.html#box"),
    ],
)
def test_a_link_is_led_to_its_place_in_the_book(href, expected):
    pages = ["notebooks/one", "notebooks/two", "book/notation"]
    assert led_into_the_book(href, "notebooks/one", pages, "https://here.org/") == expected
