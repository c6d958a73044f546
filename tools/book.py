"""The book as its files say: where it stands, its settings, its pages in their order, its chapters.

Tools and tests ask here, so that each file is found and read in one way.
"""

from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent


def settings(root: Path = ROOT) -> dict[str, Any]:
    """Return what _config.yml says."""
    return yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))


def pages(root: Path = ROOT) -> list[str]:
    """Return the pages in the order of _toc.yml, the start page first: `book/index`, `notebooks/01_bottleneck`, ..."""
    from sphinx_external_toc.parsing import parse_toc_yaml  # only here: Colab's image has no Sphinx

    return list(parse_toc_yaml(root / "_toc.yml"))


def chapters(root: Path = ROOT) -> list[Path]:
    """Return the notebooks, in their order; tests/project/test_one_place.py holds that _toc.yml lists the same."""
    return sorted((root / "notebooks").glob("*.ipynb"))


def read(notebook: Path) -> NotebookNode:
    """Return the notebook as it stands in the file (`nbformat.read` would quietly repair it)."""
    return nbformat.v4.reads(notebook.read_text(encoding="utf-8"))
