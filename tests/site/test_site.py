"""The built site: every page is there, complete, and asks no other server for anything.

The site is built once, strictly, into a temporary folder; the tests then read its HTML. Nothing here needs a browser.
"""

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from attention_book.address import pythons_in_words
from attention_book.you_are_here import PARTS
from notebook_rules import BOOK
from website import soup_of

from attention_tutorial.notebook import Claim
from attention_tutorial.widgets import Laboratory
from tools.book import ROOT, read, settings
from tools.book import pages as pages_of_the_book

CSS_URL = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")
# Links in a page's head that a browser does not load
UNLOADED = {"canonical", "index", "search", "next", "prev", "author", "copyright", "license", "top", "up"}


TOC = pages_of_the_book()


@pytest.fixture(scope="module")
def pages(site):
    """Parse every page once: {path in the site: soup}."""
    files = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.relative_to(site).parts]
    return {path.relative_to(site).as_posix(): soup_of(path) for path in files}


def content(soup):
    """Return a page's own content, without the theme's frame; None for pages that have none, such as the search."""
    return soup.select_one("article.bd-article")


def outside(url):
    """Tell whether loading this address would ask another server."""
    return urlsplit(url).scheme in ("http", "https", "ws", "wss", "ftp") or url.startswith("//")


def loaded_urls(soup):
    """Yield what a browser loads for this page."""
    for attribute in ("src", "srcset", "poster", "data"):
        for element in soup.find_all(attrs={attribute: True}):
            for candidate in element[attribute].split(",") if attribute == "srcset" else [element[attribute]]:
                yield candidate.split()[0] if candidate.split() else ""
    for link in soup.find_all("link", href=True):
        if not UNLOADED & set(link.get("rel", [])):
            yield link["href"]
    for use in soup.select("use[href], image[href]"):
        yield use["href"]
    for style in soup.find_all("style"):
        yield from CSS_URL.findall(style.get_text())
    for element in soup.find_all(style=True):
        yield from CSS_URL.findall(element["style"])


def test_the_site_builds_without_warnings(build):
    _, status, printed = build
    warnings = [line for line in printed.splitlines() if "WARNING" in line or "ERROR" in line]
    assert not warnings
    assert status == 0, printed[-3000:]


@pytest.mark.parametrize("name", TOC)
def test_every_page_of_the_contents_is_built(pages, name):
    soup = pages[f"{name}.html"]
    assert len(content(soup).find_all("h1")) == 1, "a page has one title"
    assert soup.title.get_text(strip=True)
    assert soup.html.get("lang")
    assert not content(soup).find_all(class_=["system-message", "problematic"])


def test_a_quote_that_opens_with_a_bold_word_is_a_call_out(pages):
    opened = [
        quote
        for soup in pages.values()
        for quote in soup.select("article blockquote")
        if (first := quote.select_one("p > strong:first-child")) and quote.get_text(strip=True).startswith(first.text)
    ]
    assert len(opened) > 20 and all("callout" in quote.get("class", []) for quote in opened)


def test_the_front_door_leads_to_the_start_page(site, pages):
    target = re.search(r"url=([^\"']+)", str(pages["index.html"])).group(1)
    assert target == f"{TOC[0]}.html"
    assert (site / target).is_file()


def place_in(site, page, url):
    """Return the file that an address leads to from a page of the site."""
    path = unquote(urlsplit(url).path)
    return Path(os.path.normpath(site / Path(page).parent / path)) if path else site / page


def test_style_sheets_load_nothing_from_other_servers(site):
    sheets = list(site.rglob("*.css"))
    loads = {(sheet.name, url) for sheet in sheets for url in CSS_URL.findall(sheet.read_text(encoding="utf-8"))}
    assert sheets
    assert not {load for load in loads if outside(load[1])}


def test_what_pages_load_is_in_the_site_and_on_no_other_server(site, pages):
    loads = {(page, url) for page, soup in pages.items() for url in loaded_urls(soup) if not url.startswith("data:")}
    assert not {load for load in loads if outside(load[1]) or not place_in(site, *load).is_file()}


def test_links_and_anchors_resolve(site, pages):
    anchors = {
        page: {element[key] for key in ("id", "name") for element in soup.find_all(attrs={key: True})}
        for page, soup in pages.items()
    }
    broken = set()
    for page, soup in pages.items():
        for link in soup.find_all("a", href=True):
            href = link["href"]
            parts = urlsplit(href)
            if parts.scheme or href in ("#", ""):
                continue
            target = place_in(site, page, href)
            known = anchors.get(target.relative_to(site).as_posix()) if target.is_relative_to(site) else None
            if not target.is_file() or (parts.fragment and known and unquote(parts.fragment) not in known):
                broken.add((page, href))
    assert not broken


def test_the_page_of_claims_lists_every_claim_of_the_chapters(pages):
    recorded = [
        claim.id
        for name in TOC
        if (ROOT / f"{name}.ipynb").is_file()
        for claim in Claim.stored_in(read(ROOT / f"{name}.ipynb"))
    ]
    rows = content(pages["book/claims.html"]).select("table.claims tbody tr")
    assert recorded
    assert [row.td.get_text(strip=True) for row in rows] == recorded


def test_every_public_module_has_its_place_on_a_page_of_the_package(pages):
    files = (path.relative_to(ROOT / "attention_tutorial") for path in (ROOT / "attention_tutorial").rglob("*.py"))
    parts = [path.with_suffix("").parts for path in files if not any(part.startswith("_") for part in path.parts)]
    shown = {}
    for name in {first for first, *_ in parts}:
        page = pages.get(f"book/package/{name}.html")
        assert page, f"book/package/{name}.md must show the module {name}, and stand in _toc.yml"
        shown[name] = {mark["id"] for mark in content(page).select("[id^='module-attention_']")}
    for first, *rest in parts:
        package = f"module-attention_tutorial.{first}"
        assert {package, ".".join([package, *rest])} & shown[first], f"book/package/{first}.md must show it"
    assert content(pages["classroom/pages/api.html"]).select("#module-attention_classroom")


def test_pages_hold_the_address_and_the_pythons_in_place_of_their_placeholders(pages):
    text = content(pages["book/how_to_use.html"]).get_text()
    assert f"git+{settings()['repository']['url']}" in text and f"Python {pythons_in_words()}," in text
    for page, soup in pages.items():
        assert not re.search("://REPOSITORY|://SITE|PYTHONS", soup.get_text()), page


def test_where_no_cell_can_be_run_a_page_says_where_code_is_answered(pages):
    asked = [(f"notebooks/{path.name}", cell.id) for path, notebook in BOOK.items() for cell in notebook.cells
             if "then run this cell" in str(cell.get("outputs"))]  # fmt: skip
    links = [link["href"] for name, soup in pages.items() if name.startswith("notebooks/")
             for link in soup.select('.cell_output a[href*="#scrollTo="]')]  # fmt: skip
    assert sorted(link.partition("/blob/main/")[2] for link in links) == sorted(f"{p}#scrollTo={id}" for p, id in asked)
    assert asked and not any("then run this cell" in soup.get_text() for soup in pages.values())


def test_each_chapter_ends_on_the_map_that_the_page_why_draws(pages):
    drawn = {}
    for part in pages["book/why.html"].select(".machine-map .end, .machine-map .part"):
        name, where = (text.get_text() for text in part.select("text"))
        first, *last = map(int, re.findall(r"\d+", where.partition(",")[0]))
        between = range(first, last[-1] + 1) if " to " in where else [first, *last]
        drawn[name] = {*between, *map(int, re.findall(r"\d+", where.partition(",")[2]))}
    assert drawn == {name: set(chapters) for name, chapters in PARTS.items()}
    mains = {name: soup for name, soup in pages.items() if re.match(r"notebooks/\d+_", name)}
    for name, soup in mains.items():
        (strip,) = soup.select("#summary > .you-are-here")
        chapter = int(re.search(r"\d+", name)[0])
        assert {current.get_text() for current in strip.select("b")} == {str(chapter)}, name
        assert [len(part.select("b")) for part in strip.select("li")] == [chapter in PARTS[p] for p in PARTS], name
        assert len(strip.select("li.here")) == len(strip.select("b")) > 0, name
    assert mains and not any(s.select(".you-are-here") for name, s in pages.items() if name not in mains)


def test_only_the_live_notebooks_hold_the_titles_of_folded_cells(site):
    texts = (path for path in site.rglob("*") if path.suffix in {".html", ".js", ".json", ".py", ".txt", ".xml"})
    assert not [path.name for path in texts if "@title" in path.read_text(encoding="utf-8")]
    assert "@title" in (site / "_sources" / "notebooks" / "01_bottleneck.ipynb").read_text(encoding="utf-8")


def test_the_laboratorys_links_lead_to_sections_that_are_there(site):
    text = (site / "book" / "laboratory.html").read_text(encoding="utf-8")
    links = re.findall(r"&quot;\w+&quot;:&quot;(\.\./notebooks/[\w.]+)#([\w-]+)&quot;", text)
    assert len(links) == len(Laboratory().switches) - 1, "all but the seed"
    for address, section in links:
        assert f'id="{section}"' in (site / "book" / address).read_text(encoding="utf-8")
