"""Serve MathJax from the site itself.

The files come from the package `sphinx-mathjax-offline` and are copied into the build, so that the repository holds
no third-party code and a page asks no other server for anything. Only pages with a formula load them.
"""

import shutil
from importlib.metadata import distribution
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

PACKAGE = "sphinx-mathjax-offline"
SCRIPT = "mathjax/tex-chtml.js"

# What tex-chtml.js may load later: fonts, TeX macros on demand, and what a reader can switch on for a screen reader.
PARTS = (
    "tex-chtml.js",
    "a11y",
    "input/tex/extensions",
    "output/chtml/fonts/woff-v2",
    "sre/mathmaps/base.json",
    "sre/mathmaps/en.json",
)


def mathjax_files() -> Path:
    """Find the folder with MathJax in the installed package."""
    return Path(str(distribution(PACKAGE).locate_file(f"{PACKAGE}/static/mathjax")))


def copy_mathjax(app: Sphinx) -> None:
    """Copy the parts of MathJax that pages can need into the build's static folder."""
    if not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    source, target = mathjax_files(), Path(app.outdir) / "_static" / "mathjax"
    for part in PARTS:
        if (target / part).exists():
            continue
        (target / part).parent.mkdir(parents=True, exist_ok=True)
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part)
        else:
            shutil.copyfile(source / part, target / part)


def use_local_script(app: Sphinx, config: object) -> None:
    """Point Sphinx's math pages at the copy; the path is relative to the static folder."""
    app.config.mathjax_path = SCRIPT


def setup(app: Sphinx) -> dict[str, object]:
    """Register the extension with Sphinx."""
    app.connect("config-inited", use_local_script)
    app.connect("builder-inited", copy_mathjax)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
