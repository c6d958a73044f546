"""Set every formula when the site is built, so that a page needs no script for its mathematics.

MathJax itself does it, in V8 inside of Python: its files come from the package `sphinx-mathjax-offline`, so the
repository holds no third-party code, and neither Node nor a browser is needed. A page gets the finished HTML with
MathML for screen readers beside it; the site gets one style sheet, and MathJax's fonts cut down to the characters in
use. Formulas in the cards of claims are set too. A formula that MathJax does not understand is a warning, which fails a
strict build.
"""

import functools
import html
import json
import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from docutils import nodes
from fonts import write_subset
from py_mini_racer import JSEvalException, MiniRacer
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

PACKAGE = "sphinx-mathjax-offline"
PARTS = (
    "loader",
    "core",
    "adaptors/liteDOM",
    "input/tex-base",
    "input/tex/extensions/ams",
    "output/chtml",
    "output/chtml/fonts/tex",
    "a11y/assistive-mml",
)
PROGRAM = Path(__file__).with_suffix(".js")
FOLDER = "formulas"  # below the static folder
# MathJax in a browser sizes its letters to those around them; this fits the theme's fonts.
SIZE = '\nmjx-container[jax="CHTML"] { font-size: 118%; }\n'
FONT_FILE = re.compile(r'url\("\./([\w-]+\.woff)"\)')
CHARACTERS = re.compile(r'content: "((?:[^"\\]|\\.)*)"')
CLAIM_FORMULA = re.compile(r"\$([^$]+)\$")


class FormulaError(ValueError):
    """A formula that MathJax does not understand."""


def mathjax_files() -> Path:
    """Find the folder with MathJax in the installed package."""
    return Path(str(distribution(PACKAGE).locate_file(f"{PACKAGE}/static/mathjax")))


class Typesetter:
    """MathJax in V8: sets formulas, and knows the style sheet for those it has set."""

    def __init__(self) -> None:
        self._engine = MiniRacer()
        self._engine.eval("var global = globalThis; var MathJax = {loader: {load: []}}; 0")
        for part in PARTS:
            source = (mathjax_files() / f"{part}.js").read_text(encoding="utf-8")
            self._engine.eval(f"(() => {{{source}\n}})(); 0")
        self._engine.eval(f"{PROGRAM.read_text(encoding='utf-8')}; 0")

    @functools.cache  # noqa: B019 - one typesetter lives as long as a build
    def set(self, tex: str, display: bool) -> str:
        """Return the HTML of a formula.

        Raises:
            FormulaError: if MathJax does not understand it.
        """
        try:
            return str(self._engine.eval(f"setFormula({json.dumps(tex)}, {json.dumps(display)})"))
        except JSEvalException as error:
            raise FormulaError(str(error).partition("Error: ")[2].partition("\n")[0]) from error

    def style_sheet(self) -> str:
        """Return the style sheet for all formulas that were set until now."""
        return str(self._engine.eval("styleSheet()"))

    def close(self) -> None:
        """End the engine, whose thread would outlive the program."""
        self._engine.close()


@functools.cache
def typesetter() -> Typesetter:
    """Return the build's typesetter, made when it is first needed."""
    return Typesetter()


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


def formulas_of(doctree: nodes.document) -> Iterator[tuple[str, bool, nodes.Node]]:
    """Yield (TeX, whether displayed, node) for every formula of a page."""
    for formula in doctree.findall(nodes.math):
        yield formula.astext(), False, formula
    for block in doctree.findall(nodes.math_block):
        yield displayed(block), True, block
    for raw in filter(is_claim, doctree.findall(nodes.raw)):
        for tex in claim_formulas(raw.astext()):
            yield tex, False, raw


def characters(sheet: str) -> set[int]:
    """Return the code points that a style sheet writes with `content`."""
    text = " ".join(CHARACTERS.findall(sheet))
    codes = {int(code, 16) for code in re.findall(r"\\([0-9A-Fa-f]{2,6})", text)}
    return codes | {ord(letter) for letter in re.sub(r"\\[0-9A-Fa-f]{2,6} ?", "", text)}


def write_style(sheet: str, folder: Path) -> None:
    """Write the style sheet, and beside it the fonts that it names with the characters that it uses."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "formulas.css").write_text(f"{sheet}{SIZE}", encoding="utf-8")
    fonts = mathjax_files() / "output" / "chtml" / "fonts" / "woff-v2"
    for name in set(FONT_FILE.findall(sheet)):
        write_subset(fonts / name, characters(sheet), folder / name)


def set_all(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Set the formulas of all pages before the first page is written, so that one style sheet serves them all."""
    if isinstance(app.builder, StandaloneHTMLBuilder):
        for docname in sorted(env.found_docs):
            for tex, display, node in formulas_of(env.get_doctree(docname)):
                try:
                    typesetter().set(tex, display)
                except FormulaError as error:
                    logger.warning("formula %r: %s", tex, error, location=node, type="formulas")
        write_style(typesetter().style_sheet(), Path(app.outdir) / "_static" / FOLDER)
    return []


def set_or_quote(tex: str, display: bool) -> str:
    """Return the HTML of a formula; its TeX if MathJax does not understand it, which has been reported."""
    try:
        return typesetter().set(tex, display)
    except FormulaError:
        return html.escape(tex)


def visit_math(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in the text."""
    tag = translator.starttag(node, "span", "", CLASS="math notranslate nohighlight")
    translator.body.append(f"{tag}{set_or_quote(node.astext(), False)}</span>")
    raise nodes.SkipNode


def visit_math_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own, with its number if it has one."""
    translator.body.append(translator.starttag(node, "div", CLASS="math notranslate nohighlight"))
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append(f"{set_or_quote(displayed(node), True)}</div>\n")
    raise nodes.SkipNode


def set_claims(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Set the formulas in the cards of claims."""
    if not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    for raw in list(filter(is_claim, doctree.findall(nodes.raw))):
        card = CLAIM_FORMULA.sub(lambda match: set_or_quote(html.unescape(match[1]), False), raw.astext())
        raw.replace_self(nodes.raw("", card, format="html"))


def add_to_page(app: Sphinx, pagename: str, templatename: str, context: dict[str, object], doctree: object) -> None:
    """Have a page with a formula load the style sheet."""
    if "<mjx-container" in str(context.get("body", "")):
        app.add_css_file(f"{FOLDER}/formulas.css")


def end(app: Sphinx, exception: Exception | None) -> None:
    """End the engine when the build is over."""
    if typesetter.cache_info().currsize:
        typesetter().close()
        typesetter.cache_clear()


def setup(app: Sphinx) -> dict[str, object]:
    """Register the extension with Sphinx."""
    app.add_html_math_renderer("formulas", (visit_math, None), (visit_math_block, None))
    app.connect("config-inited", lambda app, config: setattr(config, "html_math_renderer", "formulas"))
    app.connect("env-updated", set_all)
    app.connect("doctree-resolved", set_claims)
    app.connect("html-page-context", add_to_page)
    app.connect("build-finished", end)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}
