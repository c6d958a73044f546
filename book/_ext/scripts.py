"""Offer each chapter as a plain Python script as well.

The theme's menu of downloads holds the notebook and a way to print. This adds the chapter as a script, in the form that
editors show as cells, made by jupytext when the site is built.
"""

from pathlib import Path
from typing import Any

import jupytext
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

FOLDER = "downloads"


def write_script(notebook: Path, target: Path) -> None:
    """Write a notebook as a script in the percent format."""
    target.parent.mkdir(parents=True, exist_ok=True)
    jupytext.write(jupytext.read(notebook), target, fmt="py:percent")


def offer_script(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Write the script of a chapter, and add it to the menu of downloads."""
    if doctree is None or not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    source = Path(app.env.doc2path(pagename))
    if source.suffix != ".ipynb":
        return
    script = f"{FOLDER}/{source.stem}.py"
    write_script(source, Path(app.outdir) / script)
    for button in context.get("header_buttons", []):
        if button.get("label") == "download-buttons":
            button["buttons"].insert(
                1,
                {
                    "type": "link",
                    "url": context["pathto"](script, 1),
                    "text": ".py",
                    "tooltip": "Download as a Python script",
                    "icon": "fas fa-code",
                    "label": "download-script-button",
                },
            )


def setup(app: Sphinx) -> dict[str, object]:
    """Register the extension with Sphinx."""
    app.connect("html-page-context", offer_script, priority=502)  # behind the theme's own buttons, which have 501
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
