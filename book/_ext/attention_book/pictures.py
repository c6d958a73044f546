"""Make pictures light without changing a pixel, and load them when they are needed.

Each PNG on a page is packed again as lossless WebP, and replaced by it if that is smaller. A picture gets its size, so
that nothing moves when it comes, and is loaded when a reader is near it.
"""

from pathlib import Path

from docutils import nodes
from PIL import Image
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator

PIXELS = (".png", ".webp", ".jpg", ".jpeg", ".gif")


def pack(source: Path, target: Path) -> bool:
    """Write a picture as lossless WebP; return whether that is smaller."""
    with Image.open(source) as picture:
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


def visit_image(translator: HTML5Translator, node: nodes.image) -> None:
    """Write a picture with its size, to be loaded when it is near."""
    path = Path(translator.builder.srcdir) / node["uri"]
    place = len(translator.body)
    HTML5Translator.visit_image(translator, node)
    if path.suffix in PIXELS and path.is_file():
        with Image.open(path) as picture:
            width, height = picture.size
        size = f'<img width="{width}" height="{height}" loading="lazy" decoding="async" '
        translator.body[place] = translator.body[place].replace("<img ", size, 1)


def depart_image(translator: HTML5Translator, node: nodes.image) -> None:
    """End a picture."""
    HTML5Translator.depart_image(translator, node)
