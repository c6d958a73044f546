"""The predictions that the chapters ask for."""

import re
from typing import NamedTuple

from nbformat import NotebookNode

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
