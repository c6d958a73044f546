"""Photograph every page of the built site at three sizes, light and dark, and every widget by itself.

    python -m tools.screenshots [--site _build/html] [--out _build/screenshots] [PAGE ...]

The pictures and a page that shows them side by side, index.html, go into the output folder. Pages are photographed as a
reader first meets them: nothing unfolded, every widget in its first state.
"""

import argparse
import html
import itertools
from pathlib import Path

from playwright.sync_api import Browser

from tools.browser import built_site, chromium, serve, visit

SIZES = {"desktop": (1280, 900), "tablet": (768, 1024), "phone": (360, 780)}
THEMES = ("light", "dark")
SHEET = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Screenshots</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 1rem; }}
section div {{ display: flex; gap: 1rem; overflow-x: auto; align-items: flex-start; }}
figure {{ margin: 0; flex: none; }}
img {{ height: 26rem; max-width: 24rem; object-fit: cover; object-position: top; border: 1px solid #999; }}
</style>
<h1>Screenshots</h1>
{sections}
</html>
"""


def site_pages(site: Path) -> list[str]:
    """Return the site's pages, by their addresses in it; slides are no pages."""
    files = (path.relative_to(site) for path in site.rglob("*.html"))
    return sorted(path.as_posix() for path in files if path.parts[0] not in ("_static", "slides"))


def photograph(browser: Browser, address: str, pages: list[str], out: Path, size: str, theme: str) -> list[Path]:
    """Write the pictures of all pages at one size in one theme, full length; return their files."""
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    pictures = []
    for name in pages:
        page = context.new_page()
        visit(page, f"{address}/{name}")
        stem = name.removesuffix(".html").replace("/", "_")
        pictures.append(out / f"{stem}-{size}-{theme}.png")
        page.screenshot(path=pictures[-1], full_page=True)
        for number, widget in enumerate(page.locator("[data-widget]").all(), start=1):
            pictures.append(out / f"{stem}-widget{number}-{size}-{theme}.png")
            widget.screenshot(path=pictures[-1])
        page.close()
    context.close()
    return pictures


def contact_sheet(pictures: list[Path]) -> str:
    """Return a page with all pictures, one row for each page or widget."""
    sections = []
    for subject, row in itertools.groupby(sorted(pictures), key=lambda path: path.stem.rsplit("-", 2)[0]):
        figures = "".join(
            f'<figure><a href="{path.name}"><img src="{path.name}" alt="{html.escape(path.stem)}" loading="lazy"></a>'
            f"<figcaption>{' '.join(path.stem.rsplit('-', 2)[1:])}</figcaption></figure>"
            for path in row
        )
        sections.append(f"<section><h2>{html.escape(subject)}</h2><div>{figures}</div></section>")
    return SHEET.format(sections="\n".join(sections))


def main() -> None:
    """Read the command line, take the pictures, write the contact sheet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="such as book/notation.html; all pages when left out")
    parser.add_argument("--site", type=built_site, default="_build/html", help="the built site")
    parser.add_argument("--out", type=Path, default=Path("_build/screenshots"), help="where the pictures go")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    pages = options.pages or [name for name in site_pages(options.site) if name not in ("index.html", "404.html")]
    pictures = []
    with serve(options.site) as address, chromium() as browser:
        for size, theme in itertools.product(SIZES, THEMES):
            pictures += photograph(browser, address, pages, options.out, size, theme)
    (options.out / "index.html").write_text(contact_sheet(pictures), encoding="utf-8")
    print(f"{len(pictures)} pictures of {len(pages)} pages; open {options.out / 'index.html'}")


if __name__ == "__main__":
    main()
