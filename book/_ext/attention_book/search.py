"""The search, whose results are sections: an index that Pagefind makes from what the pages say.

Each section is a record of its own, with its title, its page and its words; so is each term of the glossary and each
function of the package. `book/_static/search.js` asks the index. A browser may not read an index beside a page that was
opened as a file: there Sphinx's own search answers.
"""

import html
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

FOLDER = "pagefind"
PLACES = (nodes.section, nodes.definition_list_item, addnodes.desc)  # what may have an address of its own
SILENT = (nodes.raw, nodes.comment, nodes.image, nodes.title, nodes.term, addnodes.desc_signature)
# By a part of the address: the glossary says what a word means, other pages only list what the chapters explain.
WEIGHTS = {"book/glossary": 2, "book/api": 0.1, "book/package": 0.1} | dict.fromkeys(
    ("book/references", "book/cards", "book/claims", "book/mistakes", "classroom/", "#further-reading"), 0.3
)
WEIGHTS |= dict.fromkeys(("#exercise-", "#questions", "#common-mistakes"), 0.5)
# How a formula is typed by someone who looks for it
SPOKEN = (
    (r"\\(?:left|right|[bB]igg?[lr]?|frac|operatorname|text|math\w+|displaystyle|q?quad|begin\{\w+\}|end\{\w+\})", " "),
    (r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)"),
    (r"\\(?:cdot|times)\b", "·"),
    (r"\\infty\b", "∞"),
    (r"\^\\top\b", "T"),
    (r"\\[,;:!]", " "),
    (r"\\([A-Za-z]+)", r"\1 "),
    (r"[\\{}&$]", ""),
)


@dataclass(frozen=True)
class Record:
    """A place of the book that the search can find."""

    address: str  # within the site
    title: str
    page: str  # the title of its page; nothing if that is its own
    prose: str
    code: str
    is_code: bool  # whether the title is a name in the package

    def as_html(self) -> str:
        """Return the record as a page of its own: this is what Pagefind reads. A word of a title counts 7 times.

        Pagefind lets a match in a title count more, whatever the place's weight: so titles of lists have another name.
        """
        title, page, prose, code = map(html.escape, (self.title, self.page, self.prose, self.code))
        weight = next((weight for part, weight in WEIGHTS.items() if part in self.address), 1)
        kind = "name" if self.is_code else "title" if weight >= 1 else "entry"
        return (
            f'<html lang="en"><body><main data-pagefind-body data-pagefind-weight="{weight}">'
            f'<p data-pagefind-meta="{kind}" data-pagefind-weight="{7 * min(weight, 1)}">{title}</p>'
            f'<p data-pagefind-meta="page" data-pagefind-ignore>{page}</p>'
            f'<p>{prose}</p><pre data-pagefind-weight="{0.3 * weight}">{code}</pre></main></body></html>'
        )


def spoken(tex: str) -> str:
    r"""Return a formula as one would type it.

    Example:
        >>> spoken(r"Q K^\top / \sqrt{d_k}")
        'Q KT / sqrt(d_k)'
    """
    for pattern, words in SPOKEN:
        tex = re.sub(pattern, words, tex)
    return " ".join(tex.split())


def address_of(place: nodes.Element) -> tuple[str, str]:
    """Return (id, title) of a place; two empty strings where it has no address of its own."""
    match place:
        case nodes.section():
            return place["ids"][0], place[0].astext()
        case nodes.definition_list_item() if place[0].get("ids"):
            return place[0]["ids"][0], place[0].astext()
        case addnodes.desc() if place[0].get("ids"):
            return place[0]["ids"][0], place[0]["fullname"]
    return "", ""


def _fails(cell: nodes.Element) -> bool:
    """Tell whether a cell prints the text of an error, for which people search."""
    return "except " in cell[0].astext()


def words_of(node: nodes.Node) -> Iterator[tuple[bool, str]]:
    """Yield (whether it is code, text) for what a node says itself, without the places in it."""
    for child in node.children:
        if isinstance(child, nodes.literal_block):
            yield True, f"{child.astext()}\n"
        elif isinstance(child, nodes.math | nodes.math_block):
            yield False, spoken(child.astext())
        elif isinstance(child, nodes.Text):
            yield False, child.astext()
        elif isinstance(child, PLACES) and address_of(child)[0]:
            continue
        elif not isinstance(child, SILENT) and ("cell_output" not in child.get("classes", []) or _fails(node)):
            yield from words_of(child)
            if not isinstance(child, nodes.Inline):
                yield False, " "


def records_of(doctree: nodes.document, page: str) -> Iterator[Record]:
    """Yield the places of a page; its first section is the page itself."""
    title = ""
    for place in doctree.findall(lambda node: isinstance(node, PLACES)):
        name, heading = address_of(place)
        if not name:
            continue
        words = list(words_of(place))
        prose, code = ("".join(text for is_code, text in words if is_code is wanted) for wanted in (False, True))
        address = f"{page}#{name}" if title else page
        yield Record(address, heading, title, " ".join(prose.split()), code.strip(), isinstance(place, addnodes.desc))
        title = title or heading


def write(records: list[Record], folder: Path) -> None:
    """Have Pagefind write its index.

    It reads a folder with a file for each record, since handed over one by one each takes a tenth of a second. A file's
    place is its record's address with ".page" for ".html" and "/" for "#"; `search.js` turns it back. (Folders that end
    in ".html" Pagefind tries to read as files, again and again, for ten seconds.)
    """
    with tempfile.TemporaryDirectory() as pages:
        for record in records:
            path = Path(pages, record.address.replace(".html", ".page").replace("#", "/"), "index.html")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(record.as_html(), encoding="utf-8")
        # (As a program, not by its interface for Python, which stops it before the last file is surely written)
        command = [sys.executable, "-m", "pagefind", "--site", pages, "--output-path", str(folder), "--quiet"]
        subprocess.run(command, check=True)


def write_words(records: list[Record], folder: Path) -> None:
    """Write the words of the book into a file of the index, the most frequent first: one of no use is known by it."""
    words: Counter[str] = Counter()
    for record in records:
        words.update(re.findall(r"\w+", f"{record.title} {record.prose} {record.code}".lower()))
    (folder / "words.txt").write_text("\n".join(word for word, _ in words.most_common()), encoding="utf-8")


def leave_out_of_drafts(app: Sphinx) -> None:
    """Have Sphinx make no index of a draft of single pages."""
    if app.tags.has("draft"):
        app.builder.search = False  # type: ignore[attr-defined]


def note_records(app: Sphinx, doctree: nodes.document) -> None:
    """Note the places of a page that has been read."""
    page = app.env.docname
    app.env.metadata[page]["places"] = list(records_of(doctree, f"{page}.html"))


def write_index(app: Sphinx) -> None:
    """Write the index of the site."""
    site = Path(app.outdir)
    shutil.rmtree(site / FOLDER, ignore_errors=True)
    records = [place for page in sorted(app.env.found_docs) for place in app.env.metadata[page]["places"]]
    write(records, site / FOLDER)
    write_words(records, site / FOLDER)
    for unused in (*(site / FOLDER).glob("pagefind-*ui*"), *(site / FOLDER).glob("pagefind-highlight*")):
        unused.unlink()  # Pagefind's own looks
