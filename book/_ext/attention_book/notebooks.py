"""Read the chapters as they are stored: what the site, the tests and the tools ask a notebook for."""

import functools
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

PREDICTION = re.compile(
    r"^> \*\*Predict first\.?\*\*(?P<asked>[^\n]*(?:\n>[^\n]*)*)"
    r"(?:\s*<details><summary>Answer</summary>\n\n(?P<answer>.*?)\n\n</details>)?",
    re.MULTILINE | re.DOTALL,
)
REPLICATION = "book/replication.json"  # what fresh runs measured, kept by tools/replicate.py
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
# The title of a folded cell, which tools/folds.py writes, and the lines that install the package, of tools/colab.py
TITLE = re.compile(r"\A# @title .*\n")
INSTALLING = re.compile(r"\A# Installs this book's package.*?\nif not find_spec\(.*?\n(?=\S)", re.DOTALL)
# What `check` says below a cell with dots, and its words where no cell can be run: with a link to the cell in Colab
TO_RUN = "Your answer goes in place of the dots; then run this cell."
IN_COLAB = re.compile(r"\[Open this notebook in Colab\]\((.*?)\)")
TO_OPEN = 'This is answered in code: fill in the dots in <a href="{}#scrollTo={}">this cell in Colab</a>, and run it.'


def read_notebook(path: Path) -> NotebookNode:
    """Return the notebook as it stands in the file, less its titles (`nbformat.read` would quietly repair it)."""
    notebook = nbformat.v4.reads(path.read_text(encoding="utf-8"))
    for cell in notebook.cells:
        cell.source = TITLE.sub("", cell.source)
    return notebook


def read_replication(path: Path) -> dict[str, dict[str, list[Any]]]:
    """Return what fresh runs measured, for each chapter and claim; nothing where nothing was drawn.

    What is the same in every run is recorded once; here it comes as often as it was measured.
    """
    chapters = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    values = {}
    for name, record in chapters.items():
        runs = record["offsets"][1] - record["offsets"][0] + 1
        claims = record["claims"].items()
        values[name] = {id: found if isinstance(found, list) else [found] * runs for id, found in claims}
    return values


def show_own_code(app: Sphinx, docname: str, source: list[str]) -> None:
    """Have the page of a notebook show neither titles nor the lines that install the package.

    The cell of a turn that can be answered on the page folds; another says where it is answered.
    """
    if app.env.doc2path(docname).endswith(".ipynb"):
        notebook = json.loads(source[0])
        colab, *_ = [*IN_COLAB.findall(source[0]), ""]
        for cell in notebook["cells"]:
            cell["source"] = INSTALLING.sub("", TITLE.sub("", "".join(cell["source"])))
            for output in cell.get("outputs", []):
                shown = "".join(output.get("data", {}).get("text/html", ""))
                if TO_RUN in shown:
                    output["data"]["text/html"] = shown.replace(TO_RUN, TO_OPEN.format(colab, cell["id"]))
            tags = cell["metadata"].get("tags", [])
            if "turn" in tags and "attention-turn" in json.dumps(cell["outputs"]):
                cell["metadata"]["tags"] = [*tags, "hide-input"]
        source[0] = json.dumps(notebook)
        app.env.note_dependency(REPLICATION)  # which a page shows beside its claims


@functools.cache
def markdown_parser() -> MarkdownIt:
    """Return a parser for what a chapter is written in: CommonMark with tables and $math$."""
    return MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)


def headings(notebook: NotebookNode) -> Iterator[tuple[int, str]]:
    r"""Yield (level, text) of every heading, in order; a "#" in a block of code is none.

    Example:
        >>> from nbformat.v4 import new_markdown_cell, new_notebook
        >>> list(headings(new_notebook(cells=[new_markdown_cell("# 1. One\n\n## 1.1 Two")])))
        [(1, '1. One'), (2, '1.1 Two')]
    """
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for opening, inline in itertools.pairwise(markdown_parser().parse(cell.source)):
                if opening.type == "heading_open":
                    yield int(opening.tag[1]), inline.content


def title_of(notebook: NotebookNode, default: str) -> str:
    """Return the notebook's first heading; the default if it has none."""
    return next((text for _, text in headings(notebook)), default)


def read_chapters(env: BuildEnvironment) -> Iterator[tuple[str, NotebookNode]]:
    """Yield (page, notebook) for the pages of a book that are notebooks; the page being read depends on them."""
    for page in sorted(name for name in env.found_docs if name.startswith("notebooks/")):
        path = Path(env.doc2path(page))
        if path.suffix == ".ipynb":
            env.note_dependency(str(path))
            yield page, read_notebook(path)


class Prediction(NamedTuple):
    """What a reader is asked to predict: the section, the words, and the folded answer, which may be empty."""

    section: str
    asked: str
    answer: str


def predictions(notebook: NotebookNode) -> list[Prediction]:
    r"""Return every prediction that a chapter asks for.

    Example:
        >>> from nbformat.v4 import new_markdown_cell, new_notebook
        >>> cell = new_markdown_cell("## 1.1 One\n\n## 1.2 Two\n\n> **Predict first.** Which\n> one?\n\nIt goes on.")
        >>> predictions(new_notebook(cells=[cell]))
        [Prediction(section='1.2 Two', asked='Which\none?', answer='')]
    """
    collected = []
    section = ""
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        places = [
            (match.start(), match) for pattern in (HEADING, PREDICTION) for match in pattern.finditer(cell.source)
        ]
        for _, match in sorted(places, key=lambda place: place[0]):
            if match.re is HEADING:
                section = match[1]
            else:
                asked = re.sub(r"^> ?", "", match["asked"], flags=re.MULTILINE).strip()
                collected.append(Prediction(section, asked, (match["answer"] or "").strip()))
    return collected
