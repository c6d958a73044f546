"""What the site does otherwise than its theme: light fonts, scripts that let the text come first, one menu.

The theme loads Font Awesome whole, as a script and as three fonts (800 kB). The template `static/webpack-macros.html`
loads `icons.css` instead, which names the icons in use; here its font is cut down to them, and the fonts of text and
formulas to the letters that the pages have.
"""

import datetime
import functools
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Set
from pathlib import Path
from typing import Any

from docutils import nodes
from fontTools import subset
from sphinx.application import Sphinx
from sphinx.config import Config

from .citation import read_citation

STATIC = Path(__file__).parents[2] / "_static"
ICONS = "fa-solid-900"
# What the pages use of a font: no other letters, no arrows made of - and >
FEATURES = ["kern", "liga", "ccmp", "mark", "tnum"]
TYPED = range(0x20, 0x7F)  # what a reader may type into a widget
ESCAPED = re.compile(r"\\(f[0-9a-f]{3}|e[0-9a-f]{3})\b")
# A script in the page itself writes into the object that this one makes.
NEEDED_AT_ONCE = "documentation_options.js"
HIGHLIGHTER = "sphinx_highlight.js"  # it would colour a word all over the page that a search leads to
# What extensions load on every page, and the class without which a page has no use for it
ONLY_WITH = {
    "clipboard": "highlight",
    "copybutton.js": "highlight",
    "sphinx-design": "sd-",
    "design-tabs": "sd-tab-",
    "mystnb": "cell",
    "katex": "katex",
}
# The theme's scripts fail where a browser keeps nothing or its store is full: then a choice lasts as long as the page.
STORE = """<script>
try {
  localStorage.setItem("theme", localStorage.getItem("theme") ?? "");
} catch {
  const kept = {};
  const store = {
    getItem: (key) => kept[key] ?? null,
    setItem: (key, value) => { kept[key] = value; },
    removeItem: (key) => { delete kept[key]; },
  };
  Object.defineProperty(window, "localStorage", { value: store });
}
</script>"""
# Faces come beside the style sheets, not after them, when they would be too late (custom.css: "optional"). A page that
# is a file may not ask so: it waits for them (layout.html).
FACES = """<script>
if (location.protocol !== "file:") for (const face of %s) document.head.append(Object.assign(
  document.createElement("link"),
  { rel: "preload", as: "font", type: "font/woff2", crossOrigin: "" },
  { href: `${document.documentElement.dataset.content_root}_static/${face}.woff2` },
));
</script>"""
FIRST_FACES = {  # and an expression for what in a page's body needs them
    "fonts/literata-latin-400-normal": "",
    "fonts/literata-latin-400-italic": r"<em\b",
    "fonts/literata-latin-600-normal": r"<(?:strong|b|dt|h3|h4)\b",
    "fonts/inter-latin-400-normal": "",
    "fonts/inter-latin-600-normal": "",
    "fonts/jetbrains-mono-latin-400-normal": "<(?:pre|code)",
    "katex/fonts/KaTeX_Main-Regular": "mord mathnormal",
    "katex/fonts/KaTeX_Math-Italic": "mord mathnormal",
}
SHEETS = ("theme.css", "custom.css", "mystnb*.css", "sphinx-design*.css")
# What every page has comes as one sheet: a page is seen when its last sheet is there, and of many some wait for others.
JOINED = [
    *("basic", "styles/bootstrap", "styles/pydata-sphinx-theme", "icons", "pygments", "styles/sphinx-book-theme"),
    *("copybutton", "colours"),
]
UNUSED = ("**/*.map", "**/*webpack-macros.html", "locales/**/*", "styles/*.css")


def write_subset(source: Path, codes: Set[int], target: Path) -> None:
    """Write the glyphs of some code points from a font into a WOFF2 file; the same input gives the same bytes.

    Args:
        source: A font file.
        codes: The code points to keep. Those that the font lacks are left out; a font that lacks all stays whole.
        target: The file to write.
    """
    options = subset.Options(flavor="woff2", notdef_outline=True, recalc_timestamp=False, layout_features=FEATURES)
    options.drop_tables += ["FFTM"]  # the date of a font editor
    font = subset.load_font(str(source), options)
    if not set(codes) & set(font.getBestCmap()):
        shutil.copyfile(source, target)  # browsers reject a font without characters
        return
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=codes)
    cutter.subset(font)
    subset.save_font(font, str(target), options)


def icons_in(sheet: str) -> set[int]:
    r"""Return the code points that a style sheet draws as icons: those that Unicode leaves to private use.

    Example:
        >>> [hex(code) for code in icons_in('.fa-sun::before { content: "\\\\f185"; }')]
        ['0xf185']
    """
    return {int(code, 16) for code in ESCAPED.findall(sheet)} | {
        ord(letter) for letter in sheet if 0xE000 <= ord(letter) <= 0xF8FF
    }


def cut_icons(app: Sphinx) -> None:
    """Put a font of the icons in use in the place of the theme's copy of Font Awesome."""
    static = Path(app.outdir) / "_static"
    vendor = static / "vendor"
    if vendor.is_dir():
        (copy,) = (vendor / "fontawesome").glob("*/")
        sheets = (path for path in static.rglob("*.css") if vendor not in path.parents)
        codes = set().union(*(icons_in(sheet.read_text(encoding="utf-8")) for sheet in sheets))
        folder = static / "icons"
        folder.mkdir(exist_ok=True)
        write_subset(copy / "webfonts" / f"{ICONS}.ttf", codes, folder / f"{ICONS}.woff2")
        shutil.copyfile(copy / "LICENSE.txt", folder / "LICENSE.txt")
        shutil.rmtree(vendor)


def cut_fonts(app: Sphinx) -> None:
    """Leave in the fonts of text and formulas the characters that the pages have, and those that one types."""
    pages = Path(app.outdir).rglob("*.html")
    codes = {ord(letter) for page in pages for letter in page.read_text(encoding="utf-8")}.union(TYPED)
    for font in STATIC.rglob("*.woff2"):
        write_subset(font, codes, Path(app.outdir) / "_static" / font.relative_to(STATIC))


def join_sheets(app: Sphinx) -> None:
    """Write what every page has as one sheet, which the template `static/webpack-macros.html` loads."""
    static = Path(app.outdir) / "_static"
    sheets = [static / f"{name}.css" for name in JOINED]
    if all(sheet.is_file() for sheet in sheets):  # else no page was out of date, and the joined sheet is there
        texts = [sheet.read_text(encoding="utf-8") for sheet in sheets]
        (static / "theme.css").write_text("\n".join(texts), encoding="utf-8")


def cut_sheets(app: Sphinx) -> None:
    """Take out of style sheets comments but licences, and the classes and variables that nothing has or reads."""
    static = Path(app.outdir) / "_static"
    pages = "".join(path.read_text(encoding="utf-8") for path in Path(app.outdir).rglob("*.html"))
    scripts = "".join(path.read_text(encoding="utf-8") for path in static.rglob("*.js"))
    classes = set(re.findall(r"[\w-]+", " ".join([*re.findall(r'class="([^"]*)"', pages), scripts])))
    sheets = {path: path.read_text(encoding="utf-8") for pattern in SHEETS for path in static.glob(pattern)}
    others = "".join(path.read_text(encoding="utf-8") for path in static.rglob("*.css") if path not in sheets)
    reads = functools.partial(re.findall, r"(--[\w-]+)(?!\s*:|[\w-])")
    outside = set(reads(pages + scripts + others))

    def cut(rule: re.Match[str]) -> str:
        each = re.split(r",(?![^(]*\))", rule[1])  # a comma within brackets parts nothing
        named = {part: re.findall(r"\.([A-Za-z][\w-]*)", re.sub(r":not\([^)]*\)", "", part)) for part in each}
        used = [part for part in each if classes.issuperset(named[part])]
        return f"{','.join(used)}{{{rule[2]}}}" if used and rule[2].strip() else ""

    def cut_all(sheet: str, read: set[str]) -> str:
        declared = r'(--[\w-]+)\s*:(?:[^;{}"]|"[^"]*")*(?:;|(?=\}))'
        sheet = re.sub(declared, lambda one: one[0] if one[1] in read else "", sheet)
        return re.sub(r"([^{}]+)\{([^{}]*)\}", cut, sheet)

    sheets = {path: re.sub(r"/\*(?!!).*?\*/|\s+", " ", text, flags=re.DOTALL) for path, text in sheets.items()}
    before = None
    while sheets != before:  # a variable may be read by another alone, which nothing reads
        before = sheets
        read = outside.union(*map(reads, sheets.values()))
        sheets = {path: cut_all(text, read) for path, text in sheets.items()}
    for path, text in sheets.items():
        path.write_text(text, encoding="utf-8")


def mark_of_static_files(app: Sphinx, config: Config) -> None:
    """Have all pages written again when a style sheet, a script or a template has changed: they name its checksum.

    By itself, Sphinx looks at the pages' own files alone: after a change of the looks it would say that all is done.
    """
    digest = hashlib.sha256()
    for folder in (*config.html_static_path, *config.templates_path):
        for path in sorted(file for file in (Path(app.confdir) / folder).rglob("*") if file.is_file()):
            digest.update(path.read_bytes())
    config.book_static_files = digest.hexdigest()


def count_no_figures(app: Sphinx, config: Config) -> None:
    """Have Sphinx number no figure: `figures.py` does. Jupyter Book has it count them, a twentieth of a build."""
    config.numfig = False


def wanted(asset: Any, body: str) -> bool:
    """Tell whether a page with this body needs a style sheet or script."""
    name = str(asset.filename)
    joined = name.removeprefix("_static/").removesuffix(".css") in JOINED
    marks = (mark for part, mark in ONLY_WITH.items() if part in name)
    there = all(re.search(rf'class="(?:[^"]* )?{mark}', body) for mark in marks)
    return there and not joined and HIGHLIGHTER not in name


def deferred(script: Any) -> Any:
    """Return a script that waits for the text; as it is, if it stands in the page itself or is needed at once."""
    if not script.filename or NEEDED_AT_ONCE in str(script.filename):
        return script
    return type(script)(script.filename, priority=script.priority, **{"defer": "defer", **script.attributes})


SECTION = re.compile(r'(?=<section id="[^"]+">\n(?:<span id="[^"]*"></span>)*<h2>)')
FOLDED = re.compile(r'<(details).*?</details>|<span class="katex-mathml">.*?</math></span>', re.DOTALL)
PRINTED = re.compile(r"<pre.*?</pre>", re.DOTALL)
DEMONSTRATION = re.compile(r'data-(?:later-)?widget="(?!your_turn)')


def count_content(body: str) -> str:
    r"""Note at each section of a chapter how many letters, lines and figures are in sight, for its height (custom.css).

    A fold counts as two lines, a demonstration as two figures.

    Example:
        >>> section = '<section id="a">\n<h2>One</h2><details>...</details><pre>1\n</pre></section>'
        >>> count_content(section).partition(">")[0]
        '<section style="--letters: 3; --lines: 3; --figures: 0" id="a"'
    """
    opening, *sections = SECTION.split(body)
    for section in sections:
        shown = FOLDED.sub(lambda fold: "<pre>\n\n</pre>" if fold[1] else "", section)
        lines = sum(code.count("\n") for code in PRINTED.findall(shown))
        letters = len(" ".join(re.sub("<[^>]*>", " ", PRINTED.sub("", shown)).split()))
        figures = shown.count("<img ") + 2 * len(DEMONSTRATION.findall(shown))
        counts = f"--letters: {letters}; --lines: {lines}; --figures: {figures}"
        opening += section.replace("<section", f'<section style="{counts}"', 1)
    return opening


def choose_assets(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Have a page load what it needs, and its scripts run, in their order, when its text is there."""
    body = str(context.get("body", ""))
    if body:  # Sphinx's class for what is not to be translated is read by some browsers, the attribute by all
        context["body"] = re.sub(r'(<\w+ class="[^"]*\bnotranslate\b[^"]*")', r'\1 translate="no"', body)
    if pagename.startswith("notebooks/"):
        context["body"] = count_content(context["body"])
    letters = body or "<strong><code>"  # of a list that Sphinx makes
    first = [face for face, mark in FIRST_FACES.items() if re.search(mark, letters)]
    context["metatags"] = f"{context.get('metatags', '')}{STORE}{FACES % json.dumps(first)}"
    context["css_files"] = [sheet for sheet in context["css_files"] if wanted(sheet, body)]
    context["script_files"] = [deferred(script) for script in context["script_files"] if wanted(script, body)]


# What the buttons of the theme are called in the menu of a page, in its order
MENU = {
    "Colab": "Open in Colab",
    "Slides": "Slides",
    ".ipynb": "Notebook (.ipynb)",
    ".py": "Script (.py)",
    ".md": "Source (.md)",
    ".pdf": "Print",
    "Repository": "Repository",
    "Open issue": "Report an error",
}


def make_one_menu(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Put what the theme's menus hold into one, by names; the template `article-header-buttons.html` writes it."""
    groups = [group.get("buttons", []) for group in context.get("header_buttons", [])]
    buttons = {button["text"]: button for group in groups for button in group}
    context["header_buttons"] = [{**buttons[text], "text": name} for text, name in MENU.items() if text in buttons]


@functools.cache
def date_of(folder: str) -> str:
    """Return the day of a repository's last change, in words; nothing for a folder that git does not know."""
    command = ["git", "log", "-1", "--format=%cs"]
    try:
        printed = subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout
        day = datetime.date.fromisoformat(printed.strip())
    except (OSError, ValueError):
        return ""
    return f", {day.day} {day:%B %Y}"


def name_edition(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Say at the foot of a page which version of the book it is, and of what day."""
    edition = f"Version {read_citation()['version']}{date_of(str(app.srcdir))}."
    context["theme_extra_footer"] = f"<p>{edition}</p>{app.config.html_theme_options['extra_footer']}"


def remove_unused(app: Sphinx) -> None:
    """Remove files that the theme brings and no page loads."""
    for pattern in UNUSED:
        for path in (Path(app.outdir) / "_static").glob(pattern):
            if path.is_file():
                path.unlink()


OURS = ("custom.js", "progress.js", "search.js", "widgets/host.js")
COMMENT_OR_INDENT = re.compile(r"^ *(?://.*\n|/\*(?:(?!\*/)[\s\S])*\*/ *\n)?", re.MULTILINE)


def cut_scripts(app: Sphinx) -> None:
    """Take comments on lines of their own, and indents, out of the scripts of every page: a third of their letters."""
    for name in OURS:
        path = Path(app.outdir) / "_static" / name
        path.write_text(COMMENT_OR_INDENT.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")


FACTS = ("What you need", "You need", "Time", "Deeper")


def mark_facts(app: Sphinx, doctree: nodes.document) -> None:
    """Give the lines above a chapter's first section that say what it needs and takes the class of a quiet line."""
    title = doctree.next_node(nodes.section)
    for paragraph in (node for node in (title or ()) if isinstance(node, nodes.paragraph)):
        opening = next((child for child in paragraph if child.astext().strip()), None)
        if isinstance(opening, nodes.strong) and opening.astext().rstrip(":.") in FACTS:
            paragraph["classes"].append("chapter-facts")


def mark_callouts(app: Sphinx, doctree: nodes.document) -> None:
    """Give a quote that opens with a bold word, "> **Predict first.** ...", the classes of a call-out for its looks."""
    for quote in doctree.findall(nodes.block_quote):
        paragraph = quote.next_node(nodes.paragraph)
        opening = next((child for child in paragraph or () if child.astext()), None)  # the parser leaves empty texts
        if paragraph is not None and paragraph is quote[0] and isinstance(opening, nodes.strong):
            name = re.sub(r"[^a-z0-9]+", "-", opening.astext().lower()).strip("-")
            quote["classes"] += ["callout", f"callout-{name}"]
