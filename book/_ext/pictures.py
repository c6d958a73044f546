"""Make pictures light without changing a pixel, and load them when they are needed.

When all pages are written, each PNG of the site is packed again as lossless WebP, and replaced by it if that is
smaller. A picture on a page gets its size, so that nothing moves when it comes, and is loaded when a reader is near it.
"""

import re
from pathlib import Path

from PIL import Image
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

PICTURE = re.compile(r'(?P<before><img\b[^>]*?\bsrc=")(?P<address>[^"]*?_images/(?P<name>[^"/]+))"(?P<after>[^>]*>)')
ADDRESS = re.compile(r'(?<=")([^"]*_images/[^"/]+)\.png(?=")')


def pack(folder: Path) -> dict[str, str]:
    """Pack the PNG files of a folder as lossless WebP where that is smaller; return {old name: new name}."""
    packed = {}
    for source in sorted(folder.glob("*.png")):
        target = source.with_suffix(".webp")
        with Image.open(source) as picture:
            picture.save(target, lossless=True, quality=75, method=4, exact=True)
        larger = source if source.stat().st_size > target.stat().st_size else target
        larger.unlink()
        if larger == source:
            packed[source.name] = target.name
    return packed


def size_of(picture: Path) -> tuple[int, int] | None:
    """Return (width, height) of a picture made of pixels; None for others, such as SVG."""
    if picture.suffix not in (".png", ".webp", ".jpg"):
        return None
    with Image.open(picture) as opened:
        return opened.size


def describe(page: str, folder: Path) -> str:
    """Give every picture in the HTML of a page its size and have it loaded when it is near."""

    def add(match: re.Match[str]) -> str:
        size = size_of(folder / match["name"])
        if size is None or "loading=" in match[0]:
            return match[0]
        sized = f' width="{size[0]}" height="{size[1]}" loading="lazy" decoding="async"'
        return f'{match["before"]}{match["address"]}"{sized}{match["after"]}'

    return PICTURE.sub(add, page)


def rename(page: str, folder: Path) -> str:
    """Point a page at the packed pictures that have taken the place of others."""
    return ADDRESS.sub(
        lambda match: match[0] if (folder / f"{Path(match[1]).name}.png").is_file() else f"{match[1]}.webp", page
    )


def lighten(app: Sphinx, exception: Exception | None) -> None:
    """Pack the pictures of the site and renew the pages that show them."""
    if exception is not None or not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    site = Path(app.outdir)
    folder = site / "_images"
    if not folder.is_dir():
        return
    pack(folder)
    for path in site.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        renewed = describe(rename(page, folder), folder)
        if renewed != page:
            path.write_text(renewed, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, object]:
    """Register the extension with Sphinx."""
    app.connect("build-finished", lighten)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
