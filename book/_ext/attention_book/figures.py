"""Figures: a number and a line under each of a chapter, light files, and a place that is kept until they come.

An author writes the description for those who do not see the figure, in the metadata of the cell that draws it; its
first sentence stands under the figure. A deep notebook counts its own: "Figure 3a.1". A figure is shown as its SVG,
which is sharp at any size. Where a notebook stores a PNG alone, it is packed again as WebP of at most 256 colours, and
replaced by it if that is smaller. A picture has its size, so that nothing moves when it comes, and is loaded when a
reader is near it.
"""

import re
from pathlib import Path

from docutils import nodes
from PIL import Image
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator

from .levels import number_of

SENTENCE_END = re.compile(r"(?<=[.?!])\s+(?=[A-Z])")
EMPHASIS = re.compile(r"\*([^*]+)\*")  # as in the text
PIXELS = (".png", ".webp", ".jpg", ".jpeg", ".gif")
VIEW = re.compile(r'<svg [^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"')
PIXELS_A_POINT = 120 / 72  # as the PNGs are drawn, so that letters have one size on all figures


def caption(number: str, description: str) -> nodes.paragraph:
    """Return the line under a figure.

    Example:
        >>> line = caption("3.2", "Two curves of *sat*. The upper one falls.")
        >>> line.astext(), line["ids"], [word.astext() for word in line.findall(nodes.emphasis)]
        ('Figure 3.2. Two curves of sat.', ['figure-3-2'], ['sat'])
    """
    parts = EMPHASIS.split(SENTENCE_END.split(description.strip())[0])  # every second one between asterisks
    words = [nodes.emphasis("", part) if k % 2 else nodes.Text(part) for k, part in enumerate(parts)]
    name, place = nodes.strong("", f"Figure {number}."), f"figure-{number.replace('.', '-')}"
    return nodes.paragraph("", "", name, nodes.Text(" "), *words, ids=[place], classes=["figure-caption"])


def number_figures(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put a line under each figure that a cell of a chapter draws."""
    number = number_of(docname)
    if not number or not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    outputs = [node for node in doctree.findall(nodes.container) if node.get("nb_element") == "cell_code_output"]
    figures = [image for output in outputs for image in output.findall(nodes.image) if image.get("alt")]
    for place, image in enumerate(figures, start=1):
        image.parent.insert(image.parent.index(image) + 1, caption(f"{number}.{place}", image["alt"]))
        image["alt"] = EMPHASIS.sub(r"\1", image["alt"])


def pack(source: Path, target: Path) -> bool:
    """Write a picture as WebP, with its 256 nearest colours if it is opaque; return whether that is smaller."""
    with Image.open(source) as opened:
        picture = opened.convert("RGBA")
    if picture.getchannel("A").getextrema() == (255, 255):
        picture = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).convert("RGB")
    picture.save(target, lossless=True, quality=75, method=4, exact=True)
    return target.stat().st_size < source.stat().st_size


class PackedPictures(SphinxPostTransform):
    """Have a page show packed pictures in the place of PNGs."""

    default_priority = 200

    def run(self, **arguments: object) -> None:
        """Pack the pictures of a page."""
        if not isinstance(self.app.builder, StandaloneHTMLBuilder):
            return
        folder = Path(self.app.doctreedir) / "packed"
        folder.mkdir(exist_ok=True)
        for image in self.document.findall(nodes.image):
            source = Path(self.app.srcdir) / image["uri"]
            if source.suffix == ".png" and image["uri"] in self.env.images:
                target = folder / source.with_suffix(".webp").name
                if pack(source, target):
                    image["uri"] = image["candidates"]["*"] = str(target)
                    self.env.images.add_file(self.env.docname, str(target))


def size_of(path: Path) -> tuple[int, int]:
    """Return the width and height of a picture, in pixels."""
    if path.suffix == ".svg":
        found = VIEW.search(path.read_text(encoding="utf-8"))
        if not found:
            raise ValueError(f"{path.name} must have a viewBox that begins at 0 0")
        return round(float(found[1]) * PIXELS_A_POINT), round(float(found[2]) * PIXELS_A_POINT)
    with Image.open(path) as picture:
        return picture.size


def visit_image(translator: HTML5Translator, node: nodes.image) -> None:
    """Write a picture with its size, to be loaded when it is near."""
    path = Path(translator.builder.srcdir) / node["uri"]
    place = len(translator.body)
    HTML5Translator.visit_image(translator, node)
    if path.suffix in (*PIXELS, ".svg") and path.is_file():
        width, height = size_of(path)
        size = f'<img width="{width}" height="{height}" loading="lazy" decoding="async" '
        translator.body[place] = translator.body[place].replace("<img ", size, 1)


def depart_image(translator: HTML5Translator, node: nodes.image) -> None:
    """End a picture."""
    HTML5Translator.depart_image(translator, node)
