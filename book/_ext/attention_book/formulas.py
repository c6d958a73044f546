"""Set every formula when the site is built, so that a page needs no script for its mathematics.

MathJax itself does it, in the Node that comes with Playwright; its files come from the package `django-static-mathjax`,
which needs no Django. So the repository holds no third-party code, and nobody has to install Node. A page gets the
finished HTML with MathML for screen readers beside it; the site gets one style sheet, and MathJax's fonts cut down to
the characters in use. Formulas in claims are set too (claim_lines.py). A formula that MathJax does not understand is a
warning, which fails a strict build.
"""

import html
import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path

from docutils import nodes
from playwright._impl._driver import compute_driver_executable
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.logging import get_node_location
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

from .fonts import write_subset

logger = logging.getLogger(__name__)

Formula = tuple[str, bool]  # its TeX, and whether it stands on a line of its own

PROGRAM = Path(__file__).with_suffix(".js")
MATHJAX = Path(str(files("mathjax"))) / "static" / "mathjax"
FONTS = MATHJAX / "es5" / "output" / "chtml" / "fonts" / "woff-v2"
FOLDER = "formulas"  # below the static folder
RENDERER = "mathjax-at-build-time"
# MathJax in a browser sizes its letters to those around them; this fits the theme's fonts.
SIZE = '\nmjx-container[jax="CHTML"] { font-size: 118%; }\n'
FONT_FILE = re.compile(r'url\("\./([\w-]+\.woff)"\)')
CHARACTERS = re.compile(r'content: "((?:[^"\\]|\\.)*)"')
CLAIM_FORMULA = re.compile(r"\$([^$]+)\$")

done: dict[Formula, str] = {}  # the HTML of the formulas that were set


def set_formulas(formulas: Iterable[Formula]) -> tuple[dict[Formula, str], dict[Formula, str], str]:
    """Have MathJax set formulas.

    Returns:
        The HTML of each, what is wrong with those that MathJax does not understand, and the style sheet for all.
    """
    wanted = list(dict.fromkeys(formulas))
    node, _ = compute_driver_executable()
    command = [str(node), str(PROGRAM), str(MATHJAX / "js")]
    run = subprocess.run(command, input=json.dumps(wanted), capture_output=True, encoding="utf-8", check=True)
    answer = json.loads(run.stdout)
    answers = list(zip(wanted, answer["formulas"], strict=True))
    right = {formula: reply["html"] for formula, reply in answers if "html" in reply}
    wrong = {formula: reply["error"] for formula, reply in answers if "error" in reply}
    return right, wrong, answer["sheet"]


# ---- Which formulas there are -------------------------------------------------------------------------------------


def claim_formulas(card: str) -> Iterator[str]:
    """Yield the formulas between dollar signs in the HTML of a claim."""
    return (html.unescape(match[1]) for match in CLAIM_FORMULA.finditer(card))


def is_claim(raw: nodes.raw) -> bool:
    """Tell whether a node is the card of a claim."""
    return 'class="claim"' in raw.astext()


def displayed(block: nodes.math_block) -> str:
    """Return the TeX of a displayed formula; lines of one that has several are aligned, as Sphinx does."""
    tex = block.astext()
    several = "\\\\" in tex and not block.get("nowrap") and "amsmath" not in block["classes"] and "\\begin{" not in tex
    return f"\\begin{{split}}{tex}\\end{{split}}" if several else tex


def formulas_of(doctree: nodes.document) -> Iterator[tuple[Formula, nodes.Node]]:
    """Yield (formula, node) for every formula of a page."""
    for formula in doctree.findall(nodes.math):
        yield (formula.astext(), False), formula
    for block in doctree.findall(nodes.math_block):
        yield (displayed(block), True), block
    for raw in filter(is_claim, doctree.findall(nodes.raw)):
        for tex in claim_formulas(raw.astext()):
            yield (tex, False), raw


# ---- The style sheet and its fonts --------------------------------------------------------------------------------


def characters(sheet: str) -> set[int]:
    """Return the code points that a style sheet writes with `content`."""
    text = " ".join(CHARACTERS.findall(sheet))
    codes = {int(code, 16) for code in re.findall(r"\\([0-9A-Fa-f]{2,6})", text)}
    return codes | {ord(letter) for letter in re.sub(r"\\[0-9A-Fa-f]{2,6} ?", "", text)}


def write_style(sheet: str, folder: Path) -> None:
    """Write the style sheet, and beside it the fonts that it names with the characters that it uses."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "formulas.css").write_text(f"{sheet}{SIZE}", encoding="utf-8")
    for name in set(FONT_FILE.findall(sheet)):
        write_subset(FONTS / name, characters(sheet), folder / name)


# ---- In the build -------------------------------------------------------------------------------------------------


def choose_renderer(app: Sphinx, config: Config) -> None:
    """Have Sphinx write formulas as this module does."""
    config["html_math_renderer"] = RENDERER


def note_formulas(app: Sphinx, doctree: nodes.document) -> None:
    """Note the formulas of a page that has been read, with their places."""
    formulas = [(formula, get_node_location(node)) for formula, node in formulas_of(doctree)]
    app.env.metadata[app.env.docname]["formulas"] = formulas


def set_all(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Set the formulas of all pages before the first page is written, so that one style sheet serves them all."""
    if isinstance(app.builder, StandaloneHTMLBuilder):
        noted = [entry for page in sorted(env.found_docs) for entry in env.metadata[page]["formulas"]]
        right, wrong, sheet = set_formulas(formula for formula, _ in noted)
        for formula, place in noted:
            if formula in wrong:
                logger.warning("formula %r: %s", formula[0], wrong[formula], location=place, type="formulas")
        done.update(right)
        write_style(sheet, Path(app.outdir) / "_static" / FOLDER)
    return []


def html_of(tex: str, display: bool) -> str:
    """Return the HTML of a formula; its TeX if MathJax does not understand it, which has been reported."""
    return done.get((tex, display), html.escape(tex))


def visit_math(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in the text."""
    tag = translator.starttag(node, "span", "", CLASS="math notranslate nohighlight")
    translator.body.append(f"{tag}{html_of(node.astext(), False)}</span>")
    raise nodes.SkipNode


def visit_math_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own, with its number if it has one."""
    translator.body.append(translator.starttag(node, "div", CLASS="math notranslate nohighlight"))
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append(f"{html_of(displayed(node), True)}</div>\n")
    raise nodes.SkipNode


def add_to_page(app: Sphinx, pagename: str, templatename: str, context: dict[str, object], doctree: object) -> None:
    """Have a page with a formula load the style sheet."""
    if "<mjx-container" in str(context.get("body", "")):
        app.add_css_file(f"{FOLDER}/formulas.css")
