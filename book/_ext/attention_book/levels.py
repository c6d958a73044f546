"""Two levels: a chapter is a main notebook, and may have deep ones behind it.

`03_name` is the main notebook of chapter 3; `03a_other` and `03b_third` are deep notebooks of it. In _toc.yml they
stand as sections of their chapter, so the order of file names is the order of the book. Who reads on at the foot of a
main notebook comes to the next chapter; who reads on in a deep one comes to the next page, deep or not.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

from .notebooks import read_notebook

TIME = re.compile(r"\*\*Time[.:]\*\*(?: about)?\s+(\d+)\s+minutes")
NAME = re.compile(r"(?:.*/)?(\d+)([a-z]?)_[^/]*")


def number_of(page: str) -> str:
    """Return the number of a notebook as its title has it, from its name; nothing for a page that is no notebook.

    Example:
        >>> number_of("notebooks/03_square_root_of_d_k"), number_of("03b_start"), number_of("book/claims")
        ('3', '3b', '')
    """
    match = NAME.fullmatch(page)
    return f"{int(match[1])}{match[2]}" if match else ""


def is_deep(page: str) -> bool:
    """Tell whether a page is a deep notebook.

    Example:
        >>> is_deep("notebooks/03b_start"), is_deep("notebooks/03_square_root_of_d_k"), is_deep("book/claims")
        (True, False, False)
    """
    return number_of(page)[-1:].isalpha()


def chapter_of(page: str) -> int:
    """Return the chapter that a notebook belongs to.

    Example:
        >>> chapter_of("notebooks/03b_start")
        3
    """
    return int(re.sub(r"\D", "", number_of(page)))


def minutes(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None, content: Any = ()
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Set how long a chapter takes to read, as it says at its top: {minutes}`notebooks/03_name`, "37 minutes"."""
    env = inliner.document.settings.env
    path = Path(env.doc2path(text))
    env.note_dependency(str(path))
    found = TIME.search("\n".join(cell.source for cell in read_notebook(path).cells[:3]))
    if not found:
        return [], [
            inliner.reporter.warning(f"{path.name} does not say its time, as in **Time:** 37 minutes", line=lineno)
        ]
    return [nodes.Text(f"{found[1]} minutes")], []


def neighbours(page: str, pages: Iterable[str]) -> tuple[str | None, str | None]:
    """Return the pages before and after one: of a main page those that are not deep.

    Example:
        >>> book = ["start", "01_one", "01a_deep", "02_two"]
        >>> neighbours("01_one", book), neighbours("01a_deep", book), neighbours("02_two", book)
        (('start', '02_two'), ('01_one', '02_two'), ('01_one', None))
    """
    way = [other for other in pages if other == page or is_deep(page) or not is_deep(other)]
    place = way.index(page)
    return way[place - 1] if place else None, way[place + 1] if place + 1 < len(way) else None


def set_prev_next(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Have the links to the pages before and after keep to the reader's depth."""
    order = list(app.env.collect_relations())
    if doctree is None or pagename not in order or not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    for name, page in zip(("prev", "next"), neighbours(pagename, order), strict=True):
        if page:
            title = app.builder.render_partial(app.env.titles[page])["title"]
            context[name] = {"link": app.builder.get_relative_uri(pagename, page), "title": title}
