"""Run the book's widgets on its pages, where there is no kernel.

A cell that shows a widget leaves an element behind that holds the widget's state (`attention_tutorial.widgets`). A page
with such an element loads one script, made here of the widgets' own ES modules and a small host that mounts them, and
their style sheets. It works without a network, and also where a page is opened as a file. Other pages load nothing.
"""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

MODULES = Path(__file__).parents[2] / "attention_tutorial" / "widgets"
HOST = Path(__file__).with_name("widgets_host.js")
MARK = 'data-widget="'


def script(modules: Path = MODULES) -> str:
    """Return the script that mounts the widgets of a page: the host, with the source of every module inside."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(modules.glob("*.js"))}
    return HOST.read_text(encoding="utf-8").replace("SOURCES;", f"{json.dumps(sources)};")


def style(modules: Path = MODULES) -> str:
    """Return the style sheets of all widgets, joined."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(modules.glob("*.css")))


def write_files(app: Sphinx) -> None:
    """Write the script and the style sheet into the build's static folder, before a page refers to them."""
    if not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    folder = Path(app.outdir) / "_static" / "widgets"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "widgets.js").write_text(script(), encoding="utf-8")
    (folder / "widgets.css").write_text(style(), encoding="utf-8")


def add_to_page(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Have a page load the two files if it has a widget."""
    if doctree is not None and any(MARK in raw.astext() for raw in doctree.findall(nodes.raw)):
        app.add_css_file("widgets/widgets.css")
        app.add_js_file("widgets/widgets.js")


def setup(app: Sphinx) -> dict[str, object]:
    """Register the extension with Sphinx."""
    app.connect("builder-inited", write_files)
    app.connect("html-page-context", add_to_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
