"""What to ask in class: the predictions that the chapters ask for, with links to where they stand.

    ```{predictions}
    ```

stands for a list for each chapter, made from the notebooks when the site is built.
"""

import re
from typing import NamedTuple

from docutils import nodes
from nbformat import NotebookNode
from sphinx.util.docutils import SphinxDirective

from .anchors import lasting_id
from .notebooks import headings, read_chapters, title_of
from .tables import inline

PREDICTION = re.compile(
    r"^> \*\*Predict first\.?\*\*(?P<asked>[^\n]*(?:\n>[^\n]*)*)"
    r"(?:\s*<details><summary>Answer</summary>\n\n(?P<answer>.*?)\n\n</details>)?",
    re.MULTILINE | re.DOTALL,
)
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


class Prediction(NamedTuple):
    """What a reader is asked to predict: the section, the words, and the folded answer, which may be empty."""

    section: str
    asked: str
    answer: str


def predictions(notebook: NotebookNode) -> list[Prediction]:
    r"""Return every prediction that a chapter asks for.

    Example:
        >>> from nbformat.v4 import new_markdown_cell, new_notebook
        >>> cell = new_markdown_cell("## 1.2 Two\n\n> **Predict first.** Which\n> one?\n\nIt goes on.")
        >>> predictions(new_notebook(cells=[cell]))
        [Prediction(section='1.2 Two', asked='Which\none?', answer='')]
    """
    found = []
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
                found.append(Prediction(section, asked, (match["answer"] or "").strip()))
    return found


class PredictionsDirective(SphinxDirective):
    """Set what every chapter asks its readers to predict."""

    def run(self) -> list[nodes.Node]:
        """Return a section for each notebook that asks for predictions: these, and where its questions are."""
        return [self._chapter(name, notebook) for name, notebook in read_chapters(self.env) if predictions(notebook)]

    def _chapter(self, docname: str, notebook: NotebookNode) -> nodes.Node:
        page = self.env.app.builder.get_relative_uri(self.env.docname, docname)
        title = title_of(notebook, docname)
        asked = nodes.bullet_list()
        for section, words, _ in predictions(notebook):
            address = f"{page}#{lasting_id(section) or nodes.make_id(section)}"
            link = nodes.reference("", "", *inline(section), refuri=address, internal=True)
            asked += nodes.list_item(
                "",
                nodes.paragraph(
                    "",
                    "",
                    link,
                    nodes.Text(" " if section[-1:] in {"?", "!"} else ": "),
                    *inline(" ".join(words.split())),
                ),
            )
        questions = nodes.reference("", "questions with folded answers", refuri=f"{page}#questions", internal=True)
        rest = nodes.paragraph("", "", nodes.Text("At its end are "), questions, nodes.Text("."))
        ids = [nodes.make_id(f"to-ask-in-{title}")]
        has_questions = any(text == "Questions" for _, text in headings(notebook))
        return nodes.section("", nodes.title("", "", *inline(title)), asked, *[rest] * has_questions, ids=ids)
