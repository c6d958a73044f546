"""Fold live what the site folds: the metadata and the title of a code cell, derived from the author's tags alone.

The author writes the tags of Jupyter Book, `hide-input`, `hide-cell` and so on. A live front end knows others:

* JupyterLab and Notebook 7 read `jupyter.source_hidden` and `jupyter.outputs_hidden`, as nbformat defines them.
  JupyterLab keeps `collapsed` equal to the second; Colab stores `collapsed` where a reader hides an output.
* Colab shows a cell with `cellView: form` as the title in its first line, `# @title` (its own notebook "Forms").
* Kaggle's editor writes and reads `_kg_hide-input` and `_kg_hide-output`.
* Deepnote's converter takes metadata over, among them `is_code_hidden` and `is_output_hidden` of its blocks.
* VS Code reads none of them (microsoft/vscode#158716). In place of code that a reader folds, it shows the first line,
  as JupyterLab does: the title again.

`make notebooks` writes all this. The site, its scripts and its slides show no title (book/_ext/attention_book).
"""

import re

from nbformat import NotebookNode

TITLE = "# @title "
CODE = {"hide-input", "remove-input", "hide-cell", "remove-cell"}  # the tags that fold a cell's code
OUTPUT = {"hide-output", "remove-output", "hide-cell"}
HIDES_CODE = {"cellView": "form", "_kg_hide-input": True, "is_code_hidden": True}
HIDES_OUTPUT = {"collapsed": True, "_kg_hide-output": True, "is_output_hidden": True}
METADATA = ("jupyter", *HIDES_CODE, *HIDES_OUTPUT)

# The title of a cell whose author gave it none: by its first tag of these, or because it draws, or the last.
TITLES = {
    "setup": "Set up",
    "claims": "What is claimed here",
    "answer": "Answer",
    "remove-input": "Show the demonstration",
}
OF_A_FIGURE = "Draw the figure"
OF_ANY_CODE = "Run the code"


def split(source: str) -> tuple[str, str]:
    """Return the title of a cell, without its mark, and the rest; the title is empty where there is none."""
    title, rest = re.fullmatch(rf"(?:{TITLE}(.*)\n)?((?s:.*))", source).groups("")
    return title, rest


def title(cell: NotebookNode) -> str:
    """Return the title of a folded cell: its author's own, or the one for its kind."""
    own = split(cell.source)[0]
    if own and own not in {*TITLES.values(), OF_A_FIGURE, OF_ANY_CODE}:
        return own
    drawn = OF_A_FIGURE if "image" in cell.metadata.get("mystnb", {}) else OF_ANY_CODE
    return next((words for tag, words in TITLES.items() if tag in cell.metadata.get("tags", [])), drawn)


def fold(cell: NotebookNode) -> None:
    """Give a code cell, in place, the title and the metadata that follow from its tags; take others away."""
    tags = set(cell.metadata.get("tags", []))
    code, output = bool(tags & CODE), bool(tags & OUTPUT)
    cell.source = (f"{TITLE}{title(cell)}\n" if code else "") + split(cell.source)[1]
    for name in METADATA:
        cell.metadata.pop(name, None)
    if code or output:
        cell.metadata |= (HIDES_CODE if code else {}) | (HIDES_OUTPUT if output else {})
        cell.metadata["jupyter"] = {"source_hidden": True} if code else {}
        cell.metadata["jupyter"] |= {"outputs_hidden": True} if output else {}
