"""The page of figures: each small, with its number, caption and place in the book, and its SVG and PNG to take away.

    ```{figures}
    ```

lists what the cells of the notebooks have drawn. The files are written beside the site as the notebooks store them. A
card shows one of them small: {thumbnail}`notebooks/03_name 2`, the second figure of that notebook.
"""

import base64
import html
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from nbformat import NotebookNode
from PIL import Image
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from .figures import EMPHASIS, SENTENCE_END, caption
from .levels import number_of
from .notebooks import read_chapters, read_notebook, title_of

FOLDER = "figures"
SMALL = (400, 250)  # pixels of a thumbnail, at most


class Figure(NamedTuple):
    """A figure as its notebook stores it."""

    number: str
    description: str
    pictures: dict[str, bytes]  # by the ending of a file: svg, where the notebook has one, and png

    def file(self, ending: str) -> str:
        """Where the site has it."""
        return f"{FOLDER}/figure-{self.number.replace('.', '-')}.{ending}"


def figures_in(page: str, notebook: NotebookNode) -> Iterator[Figure]:
    """Yield the figures of a notebook, numbered as on its page."""
    drawn = [
        (cell.metadata.get("mystnb", {}).get("image", {}).get("alt", ""), output.data)
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    for place, (description, data) in enumerate(drawn, start=1):
        svg = {"svg": "".join(data["image/svg+xml"]).encode()} if "image/svg+xml" in data else {}
        pictures = svg | {"png": base64.b64decode("".join(data["image/png"]))}
        yield Figure(f"{number_of(page)}.{place}", description, pictures)


def small(env: BuildEnvironment, figure: Figure) -> str:
    """Write a figure small, as a WebP of its own, and return its element: it is loaded when a reader is near it."""
    file = Path(figure.file("webp"))
    target = Path(env.app.outdir) / file
    target.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(io.BytesIO(figure.pictures["png"])) as picture:
        shown = picture.convert("RGB")
    shown.thumbnail(SMALL)
    shown.save(target, quality=70, method=6)
    source = f"{'../' * env.docname.count('/')}{file.as_posix()}"
    words = html.escape(EMPHASIS.sub(r"\1", SENTENCE_END.split(figure.description.strip())[0]))
    size = f'width="{shown.width}" height="{shown.height}" loading="lazy" decoding="async"'
    return f'<img class="thumbnail" src="{source}" alt="{words}" {size}>'


class FiguresDirective(SphinxDirective):
    """List the figures of all notebooks."""

    def run(self) -> list[nodes.Node]:
        """Return a section for each notebook that has figures."""
        self.env.note_dependency(self.env.relfn2path("/_toc.yml")[1])  # a new chapter
        uri = self.env.app.builder.get_relative_uri
        sections: list[nodes.Node] = []
        for page, notebook in read_chapters(self.env):
            items = nodes.bullet_list(classes=["figure-list"])
            for figure in figures_in(page, notebook):
                name, *words = caption(figure.number, figure.description).children
                place = f"{uri(self.env.docname, page)}#figure-{figure.number.replace('.', '-')}"
                link = nodes.reference("", "", name, refuri=place, internal=True)
                line = nodes.paragraph("", "", nodes.raw("", small(self.env, figure), format="html"), link, *words)
                for ending in figure.pictures:
                    file = f"{'../' * self.env.docname.count('/')}{figure.file(ending)}"
                    download = f' <a href="{file}">{ending.upper()}</a>'
                    line += nodes.raw("", download, format="html")  # which the search leaves out
                items += nodes.list_item("", line)
            if items.children:
                title = title_of(notebook, page)
                id = nodes.make_id(f"figures-of-{number_of(page)}")
                sections.append(nodes.section("", nodes.title("", title), items, ids=[id]))
        return sections


def thumbnail(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None, content: Any = ()
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Set a figure small."""
    env = inliner.document.settings.env
    page, place = text.split()
    path = Path(env.doc2path(page))
    env.note_dependency(str(path))
    figures = list(figures_in(page, read_notebook(path)))
    if not 1 <= int(place) <= len(figures):
        return [], [inliner.reporter.warning(f"{path.name} has {len(figures)} figures, not {place}", line=lineno)]
    return [nodes.raw("", small(env, figures[int(place) - 1]), format="html")], []


def write_files(app: Sphinx) -> None:
    """Write the pictures beside the pages."""
    folder = Path(app.outdir) / FOLDER
    folder.mkdir(exist_ok=True)
    paths = {page: Path(app.env.doc2path(page)) for page in app.env.found_docs if number_of(page)}
    for page, path in paths.items():
        for figure in figures_in(page, read_notebook(path)):
            for ending, picture in figure.pictures.items():
                (folder.parent / figure.file(ending)).write_bytes(picture)
