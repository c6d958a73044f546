"""Tell search engines and social networks what each page is.

Each page gets a description of its own: a chapter that of its card on the start page, any other page its first
sentences. The head of the page repeats it for search engines and social networks, with a card (a picture) and, for
programs that collect literature, authors and licence.
"""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from docutils import nodes
from sphinx.application import Sphinx

from .citation import authors, read_citation
from .social_cards import SIZE, draw_card

LONGEST = 200  # characters of a description; search engines show about so many
CARDS = "_static/cards"
CHAPTERS = "notebooks/"
LICENCE = "https://creativecommons.org/licenses/by/4.0/"


def plain(paragraph: nodes.Element) -> str:
    """Return the text of a paragraph on one line, with the root of d_k as a reader would type it."""
    text = " ".join(paragraph.astext().split())
    return re.sub(r"\\sqrt\{d_k\}", "√d_k", text)


def first_sentences(text: str, longest: int = LONGEST) -> str:
    """Return as many whole sentences as fit; at least one, cut between words if it is too long.

    Example:
        >>> first_sentences("One. Two is longer. Three.", longest=20)
        'One. Two is longer.'
    """
    beginning = ""
    for sentence in re.split(r"(?<=[.?!]) (?=[A-Z*“])", text):
        if len(beginning) + len(sentence) > longest:
            break
        beginning = f"{beginning} {sentence}".strip()
    return beginning or text[:longest].rpartition(" ")[0].rstrip(",;:") + " …"


def cards_of_chapters(start: nodes.document) -> dict[str, str]:
    """Return {page: the words on its card} from the cards of the start page."""
    words = {}
    for card in (part for part in start.findall(nodes.container) if "sd-card" in part["classes"]):
        link = next((part for part in card.findall(nodes.Element) if "reftarget" in part), None)
        body = next((part for part in card.findall(nodes.paragraph) if "sd-card-text" in part["classes"]), None)
        if link is not None and body is not None:
            words[str(link["reftarget"]).removeprefix("../").removeprefix("/")] = plain(body)
    return words


def opening(doctree: nodes.document) -> str:
    """Return the first sentences of a page."""
    paragraphs = (part for part in doctree.findall(nodes.paragraph) if isinstance(part.parent, nodes.section))
    return first_sentences(" ".join(plain(part) for part, _ in zip(paragraphs, range(2), strict=False)))


def meta(name: str, content: str, key: str = "name") -> str:
    """Return a meta element."""
    return f'<meta {key}="{name}" content="{html.escape(content)}" />'


def learning_resource(page: str, title: str, words: str, address: str, about: dict[str, Any]) -> dict[str, Any]:
    """Return what a page is, in the words of schema.org."""
    result = {
        "@context": "https://schema.org",
        "@type": ["LearningResource", "Article"] if page.startswith(CHAPTERS) else "WebPage",
        "name": title,
        "description": words,
        "url": address,
        "inLanguage": "en",
        "isAccessibleForFree": True,
        "license": LICENCE,
        "author": [{"@type": "Organization", "name": name} for name in authors(about)],
    }
    if page == about["root"]:
        return {**result, "@type": "Book", "bookFormat": "https://schema.org/EBook", "keywords": about["keywords"]}
    return {**result, "isPartOf": {"@type": "Book", "name": about["title"], "url": about["address"]}}


def head(app: Sphinx, page: str, title: str, words: str) -> Iterator[str]:
    """Yield the elements that tell what a page is."""
    site = app.config.html_baseurl
    address = urljoin(site, app.builder.get_target_uri(page))
    about = {**read_citation(), "root": app.config.root_doc, "address": site}
    yield meta("description", words)
    shared = {
        "title": title,
        "description": words,
        "type": "article" if page.startswith(CHAPTERS) else "website",
        "site_name": app.config.html_title,
        "url": address,
        "image": urljoin(site, f"{CARDS}/{card_name(page)}"),
        "image:width": str(SIZE[0]),
        "image:height": str(SIZE[1]),
        "image:alt": f"{title}: {words}",
    }
    yield from (meta(f"og:{name}", content, key="property") for name, content in shared.items())
    yield meta("twitter:card", "summary_large_image")
    if page.startswith(CHAPTERS) or page == app.config.root_doc:
        yield meta("citation_title", title)
        yield from (meta("citation_author", name) for name in authors(about))
        yield meta("citation_publication_date", app.config.copyright)
        yield meta("citation_language", "en")
        yield meta("citation_public_url", address)
    data = json.dumps(learning_resource(page, title, words, address, about), ensure_ascii=False).replace("<", "\\u003c")
    yield f'<script type="application/ld+json">{data}</script>'


def card_name(page: str) -> str:
    """Return the file name of a page's card."""
    return f"{page.rpartition('/')[2]}.png"


def describe_page(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Add to the head of a page what it is, and draw its card."""
    if doctree is None:
        return
    title = app.env.titles[pagename].astext()
    card = app.env.metadata[app.config.root_doc]["cards"].get(pagename)
    words = first_sentences(card) if card else app.env.metadata[pagename]["opening"]
    context["metatags"] += "\n".join(head(app, pagename, title, words))
    path = Path(app.outdir) / CARDS / card_name(pagename)
    draw_card(path, title, words, app.config.html_title, urlsplit(app.config.html_baseurl).netloc)


def note_descriptions(app: Sphinx, doctree: nodes.document) -> None:
    """Note how a page that has been read describes itself, and the start page the chapters."""
    app.env.metadata[app.env.docname] |= {"opening": opening(doctree), "cards": cards_of_chapters(doctree)}
