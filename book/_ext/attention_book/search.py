"""The search, whose results are sections: an index that Pagefind makes from what the pages say.

Each section is a record of its own, with its title, its page and its words; so is each question in bold that opens a
paragraph, each term of the glossary and each function of the package. `book/aliases.toml` adds the names that people
type and the book does not use. `book/_static/search.js` asks the index. Where a browser cannot, as on a page that was
opened as a file, Sphinx's own search answers.
"""

import html
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

FOLDER = "pagefind"
ALIASES = "book/aliases.toml"
UNLISTED = ("book/figures.html#", "book/cards.html#")  # the chapters show the same
PLACES = (nodes.section, nodes.paragraph, nodes.definition_list_item, addnodes.desc)  # what may have an own address
SILENT = (nodes.raw, nodes.comment, nodes.image, nodes.title, nodes.term, addnodes.desc_signature)
# By a part of the address: the glossary says what a word means, other pages only list what the chapters explain.
WEIGHTS = {"book/glossary": 2, "book/api": 0.1, "book/package": 0.1} | dict.fromkeys(
    ("book/references", "book/claims", "book/mistakes", "classroom/", "#further-reading"), 0.3
)
WEIGHTS |= dict.fromkeys(("#exercise-", "#questions", "#common-mistakes"), 0.5)
# What a command of TeX looks like to a reader; others, such as Greek letters, are written by their names.
SIGNS = {"top": "T", "cdot": " · ", "times": " × ", "odot": " ⊙ ", "infty": "∞", "partial": "∂", "nabla": "∇"}
SIGNS |= {"le": " ≤ ", "ge": " ≥ ", "ne": " ≠ ", "neq": " ≠ ", "approx": " ≈ ", "pm": "±", "to": " → ", "mapsto": " → "}
SIGNS |= {"leftarrow": " ← ", "lVert": "‖", "rVert": "‖", "lvert": "|", "rvert": "|", "square": "□", "cup": " ∪ "}
SIGNS |= {"mid": " | ", "ell": "l", "quad": " ", "qquad": " "} | dict.fromkeys(("dots", "ldots", "cdots"), "…")
SIGNS |= dict.fromkeys("left right big Big bigl bigr lfloor rfloor underbrace bar tilde".split(), "")
INNER = r"\{([^{}]*)\}"


@dataclass(frozen=True)
class Record:
    """A place of the book that the search can find."""

    address: str  # within the site
    title: str
    page: str  # the title of its page; nothing if that is its own
    prose: str
    code: str
    is_code: bool  # whether the title is a name in the package
    aliases: str = ""  # by which it is found too; nobody sees them

    def as_html(self) -> str:
        """Return the record as a page of its own: this is what Pagefind reads. A word of a title counts 7 times.

        Pagefind lets a match in a title count more, whatever the place's weight: so titles of lists have another name.
        """
        title, page, prose, code, aliases = map(
            html.escape, (self.title, self.page, self.prose, self.code, self.aliases)
        )
        weight = next((weight for part, weight in WEIGHTS.items() if part in self.address), 1)
        kind = "name" if self.is_code else "title" if weight >= 1 else "entry"
        return (
            f'<html lang="en"><body><main data-pagefind-body data-pagefind-weight="{weight}">'
            f'<p data-pagefind-meta="{kind}" data-pagefind-weight="{7 * min(weight, 1)}">{title}</p>'
            f'<p data-pagefind-meta="page" data-pagefind-ignore>{page}</p>'
            f'<p data-pagefind-meta="aliases" data-pagefind-ignore>{aliases}</p>'
            f'<p>{prose}</p><pre data-pagefind-weight="{0.3 * weight}">{code}</pre></main></body></html>'
        )


def spoken(tex: str) -> str:
    r"""Return a formula as one would type it.

    Example:
        >>> spoken(r"\operatorname{softmax}(Q K^\top / \sqrt{d_k})")
        'softmax(QK^T / sqrt(d_k))'
        >>> spoken(r"w_j = \frac{e^{s_j}}{\sum_{l=1}^n e^{s_l}}, \quad X W^Q")
        'w_j = e^(s_j) / sum e^(s_l), X W_Q'
    """
    tex = re.sub(r"\\(?:begin|end)\{\w+\}|\\[,;:!\\ ]|[&$]", " ", tex)
    tex = re.sub(r"(?<=[A-Za-z0-9])\\(?=[A-Za-z])", r" \\", tex)
    tex = re.sub(r"\\(?:text|operatorname|math\w+)" + INNER, r"\1", tex)
    tex = re.sub(r"\\[dt]?frac(?: ?(\w)(\w))?", lambda ratio: f"{ratio[1]}/{ratio[2]}" if ratio[1] else r"\\frac", tex)
    tex = re.sub(r"\\(?!frac|sqrt)([A-Za-z]+)", lambda command: SIGNS.get(command[1], command[1]), tex)
    tex = re.sub(r"\b(sum|max|min)_(\w+|\{[^{}]*\})(\^(\w|\{[^{}]*\}))?", r"\1", tex)
    before = ""
    while tex != before:  # from the innermost braces outwards
        before = tex
        tex = re.sub("_" + INNER, lambda index: "_" + _in_brackets(index[1], r"[^\W_]*|\W"), tex)
        tex = re.sub(r"\^" + INNER, lambda power: "^" + _in_brackets(power[1], r"\w?|\d*|\W|\(.*\)"), tex)
        tex = re.sub(r"\\sqrt\s*" + INNER, r"sqrt(\1)", tex)
        tex = re.sub(r"\\frac" + 2 * (r"\s*" + INNER), lambda ratio: " / ".join(map(_in_brackets, ratio.groups())), tex)
    tex = re.sub(r"\bQ\s+K\^T", "QK^T", re.sub(r"[\\{}]", "", tex))
    return re.sub(r" (?=[,.;)])", "", _plain(tex))


def _plain(text: str) -> str:
    """Return a text in one line, and its symbols as code writes them: W_Q and d_k."""
    return " ".join(re.sub(r"\bW\^\(?([QKVO]+)\b\)?", r"W_\1", text).replace("ₖ", "_k").split())


def _in_brackets(part: str, simple: str = r"(?:sum )?[\w^]*(?:\([^()]*\))?") -> str:
    """Return a part of a formula, in brackets unless it is so simple that it cannot run into what stands beside it."""
    return part if re.fullmatch(simple, part.strip()) else f"({part})"


def question_of(paragraph: nodes.paragraph) -> nodes.strong | None:
    """Return the question in bold that opens a paragraph of a section, but a page's own question and a numbered one."""
    start = next((part for part in paragraph if part.astext()), None)
    is_question = isinstance(start, nodes.strong) and re.fullmatch(r"\D.*\?", start.astext(), re.DOTALL)
    return start if is_question and isinstance(paragraph.parent.parent, nodes.section) else None


def address_of(place: nodes.Element) -> tuple[str, str]:
    """Return (id, title) of a place; two empty strings where it has no address of its own."""
    match place:
        case nodes.section():
            return place["ids"][0], "".join(text for _, text in words_of(place[0]))
        case nodes.paragraph() if place.get("ids") and (question := question_of(place)):
            return place["ids"][0], "".join(text for _, text in words_of(question))
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
        heading = _plain(heading)
        words = list(words_of(place))
        prose, code = ("".join(text for is_code, text in words if is_code is wanted) for wanted in (False, True))
        prose = _plain(prose).removeprefix(heading).strip()  # of a question, which opens what it asks in
        address = f"{page}#{name}" if title else page
        yield Record(address, heading, title, prose, code.strip(), isinstance(place, addnodes.desc))
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
        words.update(re.findall(r"\w+", f"{record.title} {record.aliases} {record.prose} {record.code}".lower()))
    (folder / "words.txt").write_text("\n".join(word for word, _ in words.most_common()), encoding="utf-8")


def leave_out_of_drafts(app: Sphinx) -> None:
    """Have Sphinx make no index of a draft of single pages."""
    if app.tags.has("draft"):
        app.builder.search = False  # type: ignore[attr-defined]


def note_records(app: Sphinx, doctree: nodes.document) -> None:
    """Note the places of a page that has been read."""
    page = app.env.docname
    for paragraph in doctree.findall(nodes.paragraph):
        if question := question_of(paragraph):
            paragraph["ids"].append(nodes.make_id(question.astext()))
    app.env.metadata[page]["places"] = list(records_of(doctree, f"{page}.html"))


def with_aliases(records: list[Record], table: Path) -> list[Record]:
    """Return the records with the names that people type; warn of those whose place no record has."""
    pages = tomllib.loads(table.read_text(encoding="utf-8"))
    aliases = {f"{page}#{id}".rstrip("#"): names for page, places in pages.items() for id, names in places.items()}
    for address in sorted(aliases.keys() - {record.address for record in records}):
        getLogger(__name__).warning("%s names %s, but the book has no such place", table.name, address)
    return [replace(record, aliases=aliases.get(record.address, "")) for record in records]


def write_index(app: Sphinx) -> None:
    """Write the index of the site."""
    site = Path(app.outdir)
    shutil.rmtree(site / FOLDER, ignore_errors=True)
    places = [place for page in sorted(app.env.found_docs) for place in app.env.metadata[page]["places"]]
    listed = [place for place in places if not place.address.startswith(UNLISTED)]
    records = with_aliases(listed, Path(app.srcdir, ALIASES))
    write(records, site / FOLDER)
    write_words(records, site / FOLDER)
    for unused in (*(site / FOLDER).glob("pagefind-*ui*"), *(site / FOLDER).glob("pagefind-highlight*")):
        unused.unlink()  # Pagefind's own looks
