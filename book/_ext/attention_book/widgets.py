"""Run the book's widgets on its pages, where there is no kernel.

A cell that shows a widget leaves an element behind that holds the widget's state (`attention_tutorial.widgets`). A page
with such an element loads the first widget's bundle (as text, in a script) and style sheet, and a small host that
mounts it, and the others when a reader comes near them. A heavy bundle waits for a sign of a reader even if it is the
first. It works without a network, and also where a page is opened as a file. Other pages load nothing.

A page that is not a notebook can show a chapter's widget too, as the chapter's own cell left it:

    ```{chapter-widget} notebooks/04_several_heads
    58896d1b
    ```

The second line is the id of the cell. Of a widget that says `later` a page does not load the bundle: without a script
it shows a still or a table, and with one also a button that fetches it.

A widget may ask for the whole encoder of chapter 10. Where its weights are installed, they are written as scripts,
which a page that was opened as a file may load; the widget's own script then says that they are there.
"""

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attention_tutorial import widgets
from attention_tutorial.widgets.base import BookWidget
from attention_tutorial.widgets.encoder import page_model

WIDGETS: list[type[BookWidget]] = [getattr(widgets, name) for name in widgets.__all__]
HOST = Path(__file__).with_name("widgets_host.js")
MARK = re.compile(r'data-widget="(\w+)"')
LATER = "data-later-widget="
HEAVY = 100_000  # letters of a bundle
ANY = re.compile(r'data-(?:later-)?widget="\w+"')


def script(widget: type[BookWidget]) -> str:
    """Return the script that hands a widget's bundle to the host."""
    source = json.dumps(widget.bundle("js"), ensure_ascii=False)
    return f"(window.attentionWidgets ??= {{}}).{widget.module} = {source};\n"


def write_files(app: Sphinx) -> None:
    """Write scripts and style sheets into the build's static folder, before a page refers to them."""
    folder = Path(app.outdir) / "_static" / "widgets"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "host.js").write_text(HOST.read_text(encoding="utf-8"), encoding="utf-8")
    models = {} if app.tags.has("draft") else {"encoder": write_encoder(folder / "encoder")}
    for widget in WIDGETS:
        text = script(widget)
        if widget.module in models:
            text += f"window.attentionModels = {{{models[widget.module]}}};\n"
        (folder / f"{widget.module}.js").write_text(text, encoding="utf-8")
        (folder / f"{widget.module}.css").write_text(widget.bundle("css"), encoding="utf-8")


PART = 1_500_000  # bytes of a script of the model, before they are letters
LICENCE = Path(__file__).with_name("apache-2.0.txt")
ORIGIN = (
    "/* From all-MiniLM-L6-v2 (https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2), its numbers rounded.\n"
    "   Apache License, Version 2.0: see LICENSE.txt beside this file. */\n"
)


def write_encoder(folder: Path) -> str:
    """Write the scripts that hold the whole encoder, if its weights are installed; return what the widget must know."""
    try:
        packed = zlib.compress(page_model())
    except FileNotFoundError:
        return ""
    letters = [base64.b64encode(packed[at : at + PART]).decode() for at in range(0, len(packed), PART)]
    parts = [f'{ORIGIN}attentionModels.encoder.take("{part}");\n' for part in letters]
    folder.mkdir(exist_ok=True)
    (folder / "LICENSE.txt").write_bytes(LICENCE.read_bytes())
    for number, text in enumerate(parts, start=1):
        (folder / f"{number}.js").write_text(text, encoding="utf-8")
    size = sum(len(text) for text in parts) * 3 // 4  # what a server sends that packs letters again
    return (
        f'encoder: {{ home: new URL("encoder/", document.currentScript.src).href, parts: {len(parts)}, bytes: {size} }}'
    )


def add_to_page(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Have a page load what its widgets need."""
    pieces = [raw.astext() for raw in doctree.findall(nodes.raw)] if doctree else []
    used = [name for piece in pieces for name in MARK.findall(piece)]
    if not used and not any(LATER in piece for piece in pieces):
        return
    for name in used[:1]:
        app.add_css_file(f"widgets/{name}.css")
        if len(next(widget for widget in WIDGETS if widget.module == name).bundle("js")) < HEAVY:
            app.add_js_file(f"widgets/{name}.js")
    app.add_js_file("widgets/host.js")


class ChapterWidget(SphinxDirective):
    """Show a widget of a chapter: the argument is the chapter, the content is the id of the cell that shows it."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Take the widget's HTML out of the executed notebook."""
        path = Path(self.env.doc2path(self.arguments[0]))
        self.env.note_dependency(str(path))
        wanted = self.content[0].strip()
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", []):
                page = "".join(output.get("data", {}).get("text/html", ""))
                if cell["id"] == wanted and ANY.search(page):
                    return [nodes.raw("", page, format="html")]
        raise self.error(f"{self.arguments[0]} has no cell {wanted!r} that shows a widget")
