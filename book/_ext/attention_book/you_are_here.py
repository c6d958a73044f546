"""The map of the whole model below a chapter's summary, with the parts marked that the chapter is about.

The page "Why attention" draws the map; here it is one line of parts, each with links to the chapters that open it.
"""

import html

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

from .levels import chapter_of, is_deep, number_of

PARTS = {  # as the picture of book/why.md has them
    "text, cut into tokens": (9,),
    "a vector for each token": (0, 6),
    "attention": (1, 2, 3, 4, 5, 8, 10),
    "feed-forward part": (7,),
    "how likely is each token next?": (7, 9),
}


def strip(here: int, addresses: dict[int, str], map_page: str) -> str:
    """Return the map as a list: the parts that a chapter opens are marked, and every chapter is linked.

    Example:
        >>> strip(7, {7: "", 9: "09.html"}, "why.html").split("?")[-1].removesuffix("</li></ol></nav>")
        '<span>chapters <b aria-current="page">7</b>, <a href="09.html">9</a></span>'
    """

    def link(chapter: int) -> str:
        if chapter == here:
            return f'<b aria-current="page">{chapter}</b>'
        return f'<a href="{html.escape(addresses[chapter])}">{chapter}</a>'

    items = ""
    for name, chapters in PARTS.items():
        links = ", ".join(link(chapter) for chapter in chapters if chapter in addresses)
        mark = ' class="here"' if here in chapters else ""
        chapter_s = "chapters" if ", " in links else "chapter"
        items += f"<li{mark}>{name}<span>{chapter_s} {links}</span></li>"
    title = f'You are here, on <a href="{html.escape(map_page)}">the map of a language model</a>:'
    label = "Where this chapter is in the model"
    return f'<nav class="you-are-here" aria-label="{label}"><p>{title}</p><ol>{items}</ol></nav>'


def set_map(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put the map at the end of a main chapter's summary."""
    builder = app.builder
    if not isinstance(builder, StandaloneHTMLBuilder) or not number_of(docname) or is_deep(docname):
        return
    mains = [page for page in app.env.found_docs if number_of(page) and not is_deep(page)]
    addresses = {chapter_of(page): builder.get_relative_uri(docname, page) for page in mains}
    for section in doctree.findall(nodes.section):
        if "summary" in section["ids"]:
            content = strip(chapter_of(docname), addresses, builder.get_relative_uri(docname, "book/why"))
            section.append(nodes.raw("", content, format="html"))
