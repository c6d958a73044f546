"""Give pages the icons that they show, out of the theme's thousands.

The theme loads Font Awesome whole, as a script and as three fonts. The template `static/webpack-macros.html` loads a
style sheet of the site's own instead, made here when all pages are written: Font Awesome's rules for the icons that the
site's pages, scripts and style sheets name, and its fonts cut down to them. The rest of it is taken out of the site.
"""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from fonts import write_subset
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

FONTS = {"solid": "fa-solid-900", "regular": "fa-regular-400", "brands": "fa-brands-400"}
ICON = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"\\([0-9a-f]+)"\}')
RULE = re.compile(r'(?:\.fa-[\w-]+:before,?)+\{content:"[^"]*"\}')
OLD_NAMES = re.compile(r"@font-face\{[^}]*font-family:Font(?:Awesome|\\? ?Awesome\\ 5)[^}]*\}")
ANIMATIONS = re.compile(r"@(?:-webkit-)?keyframes [\w-]+\{(?:[^{}]*\{[^{}]*\})*\}")
SOURCES = re.compile(r'url\(\.\./webfonts/([\w-]+)\.woff2\) format\("woff2"\),url\([^)]*\) format\("truetype"\)')
NAME = re.compile(r"fa-[a-z0-9-]+")
CODE = re.compile(r"""["']\\(f[0-9a-f]{3}|e[0-9a-f]{3})["']""")


def icons_in(texts: Iterable[str]) -> tuple[set[str], set[int]]:
    """Return the names of icons, and the code points of the fonts, that some texts mention."""
    names: set[str] = set()
    codes: set[int] = set()
    for text in texts:
        names.update(NAME.findall(text))
        codes.update(int(code, 16) for code in CODE.findall(text))
    return names, codes


def cut_rules(sheet: str, names: set[str]) -> tuple[str, set[int]]:
    """Return Font Awesome's style sheet with the rules of some icons only, and these icons' code points."""
    rules, codes = [], set()
    for selectors, code in ICON.findall(sheet):
        if names & set(NAME.findall(selectors)):
            rules.append(f'{selectors}{{content:"\\{code}"}}')
            codes.add(int(code, 16))
    frame = ANIMATIONS.sub("", OLD_NAMES.sub("", RULE.sub("", sheet)))
    return SOURCES.sub(r'url(\1.woff) format("woff")', frame) + "".join(rules), codes


def write_icons(site: Path, vendor: Path) -> None:
    """Write the style sheet and the fonts of the icons that a site uses."""
    texts = (path.read_text(encoding="utf-8") for kind in ("html", "js", "css") for path in site.rglob(f"*.{kind}"))
    names, codes = icons_in(texts)
    sheet, more = cut_rules((vendor / "css" / "all.min.css").read_text(encoding="utf-8"), names)
    folder = site / "_static" / "icons"
    folder.mkdir(exist_ok=True)
    (folder / "icons.css").write_text(sheet, encoding="utf-8")
    for name in FONTS.values():
        write_subset(vendor / "webfonts" / f"{name}.ttf", codes | more, folder / f"{name}.woff")
    shutil.copyfile(vendor / "LICENSE.txt", folder / "LICENSE.txt")


def replace_font_awesome(app: Sphinx, exception: Exception | None) -> None:
    """Put the cut icons in the place of the theme's copy of Font Awesome."""
    copies = list((Path(app.outdir) / "_static" / "vendor" / "fontawesome").glob("*/"))
    if exception is None and isinstance(app.builder, StandaloneHTMLBuilder) and copies:
        aside = Path(app.doctreedir) / "fontawesome"  # so that its own rules do not count as uses
        shutil.rmtree(aside, ignore_errors=True)
        shutil.move(copies[0], aside)
        shutil.rmtree(Path(app.outdir) / "_static" / "vendor")
        (Path(app.outdir) / "_static" / "icons" / "icons.css").unlink(missing_ok=True)
        write_icons(Path(app.outdir), aside)


def setup(app: Sphinx) -> dict[str, object]:
    """Register the extension with Sphinx."""
    app.connect("build-finished", replace_font_awesome)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
