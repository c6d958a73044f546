"""The book as its files say: where it stands, its settings, its pages in their order, its chapters, all its files.

Tools and tests ask here, so that each file is found and read in one way.
"""

import ast
import shutil
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
SANITISING = ROOT / "tests" / "nbval_sanitize.cfg"  # what the comparison of outputs overlooks


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


def syntax(node: Any) -> str:
    """Return a text for a syntax tree that is the same on every Python; `ast.dump` writes what is empty on some."""
    if isinstance(node, ast.JoinedStr):
        node = ast.JoinedStr([part for part in node.values if syntax(part) != "Constant(value='')"])
    if isinstance(node, list):
        return f"[{', '.join(map(syntax, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = (f"{name}={syntax(value)}" for name, value in ast.iter_fields(node) if value not in (None, []))
    return f"{type(node).__name__}({', '.join(fields)})"


def git(*arguments: str | Path, folder: Path) -> str:
    """Run git, in a folder whoever it belongs to, and return what it prints."""
    options = ["-c", "safe.directory=*", "-c", "user.name=test", "-c", "user.email=test@localhost"]
    command = ["git", *options, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def files_of_the_working_tree() -> list[str]:
    """Return the files that git has or would take, as far as they are there."""
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", folder=ROOT).split("\0")
    return sorted(name for name in set(names) if name and (ROOT / name).is_file())


def copy_of_the_working_tree(folder: Path) -> Path:
    """Copy these files, as they are now."""
    for name in files_of_the_working_tree():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder
