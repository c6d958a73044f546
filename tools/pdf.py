"""Print the book as a tagged PDF with bookmarks: `make pdf`.

    python -m tools.pdf [--site _build/html] [--out _build/book.pdf]

The chapters, what leads to them, the glossary and the references are put one after another, below a title and a list
of contents. Links lead to places in the book, else to the site. Solutions and answers stand open; folded code is left
out; a demonstration is shown as it stands when the page is opened, and one that the site fetches on demand is named.
"""

import argparse
import html
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lxml.html import HtmlElement, document_fromstring, tostring
from lxml.html.builder import E
from playwright.sync_api import Browser

from tools.book import pages, settings
from tools.browser import built_site, chromium, serve, visit


def of_class(*names: str) -> str:
    """Return the condition of XPath that an element has one of these classes."""
    return " or ".join(f"contains(concat(' ', normalize-space(@class), ' '), ' {name} ')" for name in names)


ALSO = {f"book/{name}" for name in ("why", "notation", "where_attention_went", "glossary", "references")}
# What is of no use on paper: folded code, claims that are no findings, places for answers and what a check says to them
SCREEN_ONLY = (
    f".//details[{of_class('above-input')} and not(ancestor::*[{of_class('tag_answer')}])] | "
    f".//details[{of_class('claim-group')}] | .//script | .//button | .//*[@id='jb-print-docs-body'] | "
    f".//*[{of_class('tag_turn', 'tag_answer')}]//*[{of_class('cell_output')}] | .//*[{of_class('tag_exercise')}] | "
    f".//*[{of_class('headerlink', 'copybtn', 'prev-next-area', 'toggle-details__summary', 'you-are-here')}]"
)
NAMES = ("id", "name", "href", "for", "aria-labelledby", "aria-describedby")
FOOTER = (
    '<div style="width: 100%; font: 8px sans-serif; text-align: center; color: #57606a">'
    '<span class="pageNumber"></span></div>'
)
STYLE = """
@page { size: A4; margin: 20mm 24mm; }
html { font-size: 9.6pt; scroll-padding: 0; }
body { background: #fff; color: #1b2129; counter-reset: none; }
main.bd-content { display: block !important; max-width: none; }
article { break-before: page; padding: 0 !important; line-height: 1.5 !important; }
header.book-title { padding-top: 30%; text-align: center; }
nav.book-contents { break-before: page; font-family: var(--book-sans); font-size: 0.9rem; }
/* Letters that rise above their line at the top of a page count for two pages, and a bookmark would say them twice. */
:is(header.book-title, nav.book-contents) h1 { font-family: var(--book-text); font-weight: 400; line-height: 1.6; }
nav.book-contents > ul { columns: 2; padding: 0; }
nav.book-contents ul { list-style: none; padding-left: 1.2rem; margin: 0.1rem 0; }
nav.book-contents > ul > li { margin-top: 0.5rem; font-weight: 600; }
nav.book-contents li li { font-weight: 400; break-before: avoid; }
nav.book-contents a { color: inherit; text-decoration: none; }
h1, h2, h3, h4, summary { break-after: avoid; }
pre, img, tr, blockquote, details, .claim, .math, .cell_input, .highlight, .bw { break-inside: avoid; }
p:has(+ :is(.math, .cell, ul, ol, pre)), dt, .cell_output img { break-after: avoid; }
.figure-caption { break-before: avoid; break-inside: avoid; }
summary, summary > * { list-style: none !important; }
summary::before, summary::after { content: none !important; }
pre, .highlight pre { white-space: pre-wrap; font-size: 7.8pt !important; overflow: visible !important; }
.cell_output, .cell_input, div.math { overflow: visible !important; }
img { width: auto !important; height: auto !important; max-width: 100% !important; max-height: 125mm; }
.bd-article p, .bd-article li { orphans: 3; widows: 3; }
"""


def printed_pages() -> list[str]:
    """Return the pages of the printed book in their order: the chapters, and what one needs to read them."""
    return [page for page in pages() if page.startswith("notebooks/") or page in ALSO]


def prefix(page: str) -> str:
    """Return what stands before every name of a page, so that no two pages share one."""
    return page.replace("/", "-") + "--"


def led_into_the_book(href: str, page: str, pages: list[str], site: str = "") -> str:
    """Return a link of a page as it is within the book; one to what the book lacks leads to the site."""
    parts = urlsplit(href)
    if parts.scheme or parts.netloc:
        return href
    path = re.sub(r"[^/]+/\.\./", "", f"{Path(page).parent}/{unquote(parts.path)}") if parts.path else f"{page}.html"
    target = path.removesuffix(".html")
    if target not in pages:
        return site + path + (f"#{parts.fragment}" if parts.fragment else "")
    return f"#{prefix(target)}{unquote(parts.fragment) or 'page'}"


def ready_for_paper(article: HtmlElement) -> None:
    """Take out what is of no use on paper, open the folds, and have a turn show its answer."""
    for turn in article.xpath(f".//*[{of_class('tag_turn')}]//*[@data-widget='your_turn']"):
        cell = turn.xpath(f"ancestor::*[{of_class('cell')}][1]")[0]
        following = cell.getnext()
        if following is not None and "tag_answer" in following.get("class", ""):
            following.drop_tree()
        answer = turn.find(".//details")
        answer.find("summary").drop_tree()
        cell.getparent().replace(cell, E.p(E.em("Answer: "), answer.text_content()))
    for element in article.xpath(SCREEN_ONLY):
        element.drop_tree()
    for details in article.iter("details"):
        details.set("open", "")
        if "above-input" in details.get("class", ""):
            details.replace(details.find("summary"), E.summary("An answer"))


def article_of(tree: HtmlElement, page: str, pages: list[str]) -> HtmlElement:
    """Return the article of a page, ready for the book."""
    site = tree.xpath("string(//link[@rel='canonical']/@href)").removesuffix(f"{page}.html")
    (article,) = tree.xpath(f"//article[{of_class('bd-article')}]")
    ready_for_paper(article)
    for element in article.iter("*"):
        for name in NAMES:
            value = element.get(name)
            if value is not None and name == "href":
                element.set(name, led_into_the_book(value, page, pages, site))
            elif value is not None:  # one id, or several
                element.set(name, " ".join(prefix(page) + word for word in value.split()))
        if element.get("src") and not urlsplit(element.get("src")).scheme:
            element.set("src", re.sub(r"^(\.\./)+", "", element.get("src")))
        element.attrib.pop("loading", None)
    article.set("id", f"{prefix(page)}page")
    return article


def contents(articles: list[HtmlElement]) -> str:
    """Return the list of contents: every page with its numbered sections."""

    def item(id: str, heading: HtmlElement, inner: str = "") -> str:
        return f'<li><a href="#{id}">{html.escape(heading.text_content())}</a>{inner}</li>'

    items = []
    for article in articles:
        places = [(part.get("id"), part.find("h2")) for part in article.xpath(".//section[@id][h2]")]
        sections = "".join(item(*place) for place in places if place[1].text_content()[0].isdigit())
        items.append(item(article.get("id"), article.find(".//h1"), f"<ul>{sections}</ul>"))
    return f'<nav class="book-contents"><h1>Contents</h1><ul>{"".join(items)}</ul></nav>'


def loaded(parsed: Iterable[HtmlElement], query: str) -> list[str]:
    """Return the addresses of what the pages load, each once."""
    found = [address for tree in parsed for address in tree.xpath(query)]
    return list(dict.fromkeys(re.sub(r"^(\.\./)+", "", address) for address in found))


def book(site: Path) -> str:
    """Return the whole book as one page of the site."""
    config, order = settings(), printed_pages()
    parsed = {page: document_fromstring((site / f"{page}.html").read_text(encoding="utf-8")) for page in order}
    sheets = loaded(parsed.values(), "//link[contains(@rel, 'stylesheet')]/@href")
    scripts = loaded(parsed.values(), "//script[contains(@src, '_static/widgets/')]/@src")
    articles = [article_of(tree, page, order) for page, tree in parsed.items()]
    body = "".join(tostring(article, encoding="unicode", with_tail=False) for article in articles)
    links = "".join(f'<link rel="stylesheet" href="{sheet}">' for sheet in sheets)
    scripts.sort(key=lambda script: "host.js" in script)  # it comes last
    widgets = "".join(f'<script src="{script}"></script>' for script in scripts)
    title = (
        f'<header class="book-title"><h1>{html.escape(config["title"])}</h1>'
        f"<p>{html.escape(config['author'])}, {config['copyright']}</p></header>"
    )
    return (
        f'<!doctype html><html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8">'
        f"<title>{html.escape(config['title'])}</title>{links}<style>{STYLE}</style>"
        '<script>for (const face of document.fonts) face.display = "swap";</script></head>'
        f'<body><main class="bd-content">{title}{contents(articles)}{body}</main>{widgets}</body></html>'
    )


def print_book(site: Path, out: Path, browser: Browser) -> None:
    """Print the book of a built site into a PDF."""
    page_of_book = site / "book-for-print.html"
    page_of_book.write_text(book(site), encoding="utf-8")
    try:
        with serve(site) as address:
            page = browser.new_page(viewport={"width": 794, "height": 1123})  # an A4 sheet
            visit(page, f"{address}/{page_of_book.name}")
            out.parent.mkdir(parents=True, exist_ok=True)
            page.pdf(
                path=out,
                prefer_css_page_size=True,
                print_background=True,
                display_header_footer=True,
                header_template="<span></span>",
                footer_template=FOOTER,
                tagged=True,
                outline=True,
            )
            page.close()
    finally:
        page_of_book.unlink()


def main() -> None:
    """Read the command line and print the book."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", type=built_site, default="_build/html", help="the built site")
    parser.add_argument("--out", type=Path, default=Path("_build/book.pdf"), help="the file to write")
    options = parser.parse_args()
    with chromium() as browser:
        print_book(options.site, options.out, browser)
    print(f"The book is ready: {options.out}, {options.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
