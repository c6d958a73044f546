"""Old addresses lead to where their words are now.

`book/first_edition.json` lists what had an address in the first edition: sections and exercises by their headings,
claims by their ids. `book/moved.yml` says of a section, or of a claim that is no more, where to read about it now;
exercises and claims keep their numbers, so the notebooks say where they are. Each page gets its own old addresses as
data, and `moved.js` leads there. A number that another section has now cannot lead away: who comes to it from outside
finds a line that says where the old one went.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

from attention_tutorial.notebook import Claim

from .anchors import lasting_id
from .notebooks import headings, read_notebook

SCRIPT = "moved.js"
OLD = "first_edition.json"
NEW = "moved.yml"
NUMBERED_ID = re.compile(r"(section|exercise|claim)-")  # others are made of words, and mean what they say
Place = tuple[str, str]  # page, id


def read_old(book: Path) -> dict[str, dict[str, list[str]]]:
    """Return what had an address: ``{page: {"headings": [...], "claims": [...]}}``."""
    return json.loads((book / OLD).read_text(encoding="utf-8"))


def read_moved(book: Path) -> dict[Place, Place]:
    """Return where places went, as `moved.yml` says."""
    written = yaml.safe_load((book / NEW).read_text(encoding="utf-8")) or {}
    return {place(old): place(new) for old, new in written.items()}


def place(address: str) -> Place:
    """Take an address of the site apart.

    Example:
        >>> place("notebooks/01_one.html#section-1-2")
        ('notebooks/01_one', 'section-1-2')
    """
    page, _, name = address.partition("#")
    return page.removesuffix(".html"), name


def ids_of(heading: str) -> list[str]:
    """Return the ids of a heading: the lasting one, if it has a number, then the one made of its words.

    Example:
        >>> ids_of("3.1 How large is it?"), ids_of("Summary")
        (['section-3-1', 'how-large-is-it'], ['summary'])
    """
    return [name for name in (lasting_id(heading), nodes.make_id(heading)) if name]


def places_now(notebooks: dict[str, Path]) -> dict[str, str]:
    """Return on which page each exercise and each claim stands: ``{"exercise-3-2": page, "claim-V1a": page}``."""
    found: dict[str, str] = {}
    for page, path in notebooks.items():
        notebook = read_notebook(path)
        names = [lasting_id(text) or "" for _, text in headings(notebook)]
        names += [f"claim-{claim.id}" for claim in Claim.stored_in(notebook)]
        found |= {name: page for name in names if name.startswith(("exercise-", "claim-"))}
    return found


def old_places(
    page: str, old: dict[str, list[str]], moved: dict[Place, Place], now: dict[str, str]
) -> Iterator[tuple[str, Place, str]]:
    """Yield (id, the place that it leads to now, the old heading) for each old address of a page."""
    for heading in old["headings"]:
        names = ids_of(heading)
        target = moved.get((page, names[0]), (now.get(names[0], page), names[0]))
        yield from ((name, target, heading) for name in names)
    for claim in old["claims"]:
        name = f"claim-{claim}"
        yield name, moved.get((page, name), (now.get(name, page), name)), ""


def add_to_page(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Give a page its old addresses that lead elsewhere, and the script that follows them."""
    if doctree is None or not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    book = Path(app.srcdir) / "book"
    if not (book / OLD).is_file():
        return  # a small book of the tests
    old = read_old(book).get(pagename)
    if old is None:
        return
    there = {name for element in doctree.findall(nodes.Element) for name in element.get("ids", [])}
    data = {}
    for name, (page, target), heading in old_places(pagename, old, read_moved(book), _now(app)):
        stays = (pagename, name) == (page, target) or (name in there and not NUMBERED_ID.match(name))
        if not stays:
            address = f"#{target}" if page == pagename else f"{app.builder.get_relative_uri(pagename, page)}#{target}"
            data[name] = [address, heading] if heading and name in there else [address]
    if data:
        text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
        context["body"] += f'<script type="application/json" id="moved">{text}</script>'
        app.add_js_file(SCRIPT)


def _now(app: Sphinx) -> dict[str, str]:
    """Return `places_now` of the book, read once a build."""
    kept = getattr(app, "_attention_book_places", None)
    if kept is None:
        paths = {page: Path(app.env.doc2path(page)) for page in sorted(app.env.found_docs)}
        kept = places_now({page: path for page, path in paths.items() if path.suffix == ".ipynb"})
        app._attention_book_places = kept  # type: ignore[attr-defined]
    return kept
