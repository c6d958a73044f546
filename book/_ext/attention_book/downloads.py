"""Offer each chapter as a plain Python script as well.

The theme's menu of downloads holds the notebook and a way to print. This adds the chapter as a script, in the form that
editors show as cells ("# %%"), written when the site is built.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from sphinx.application import Sphinx

from .notebooks import read_notebook

FOLDER = "downloads"


def script_cells(notebook: NotebookNode) -> Iterator[str]:
    """Yield each cell of a notebook as it stands in a script: code as it is, text as comments."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            yield f"# %%\n{cell.source}\n"
        else:
            lines = (f"# {line}".rstrip() for line in cell.source.splitlines())
            yield "\n".join(["# %% [markdown]", *lines, ""])


def offer_script(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Write the script of a chapter, and add it to the menu of downloads."""
    source = Path(app.env.doc2path(pagename))
    if doctree is None or source.suffix != ".ipynb":
        return
    script = Path(app.outdir) / FOLDER / f"{source.stem}.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text("\n".join(script_cells(read_notebook(source))), encoding="utf-8")
    words = {"text": ".py", "tooltip": "Download as a Python script", "label": "download-script-button"}
    offer(context, 1, f"{FOLDER}/{script.name}", icon="fas fa-code", **words)


def offer(context: dict[str, Any], place: int, file: str, **button: str) -> None:
    """Put a file of the site at a place of the menu of downloads."""
    for menu in context.get("header_buttons", []):
        if menu.get("label") == "download-buttons":
            menu["buttons"].insert(place, {"type": "link", "url": context["pathto"](file, 1), **button})
