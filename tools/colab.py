"""Give every chapter the two cells that let it run in Colab: the link that opens it there, and the installing cell.

    python -m tools.colab                     every chapter (then run `make notebooks`: the new cells need executing),
                                              and the installing cell of every assignment
    python -m tools.colab PATH ...            only these
    python -m tools.colab --check [PATH ...]  write nothing; name the notebooks whose cells are missing or old

Both cells are made from the address of the repository, which is written once, in _config.yml. They keep their ids, and
where nothing has changed the file stays as it is, outputs included. The link comes first, and is left out on the site,
whose pages have launch buttons; the installing cell comes before the first code cell and prints nothing.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from tools.book import ROOT, chapters, read, settings

LINK = "open-in-colab"
# What single chapters import besides, and what comes with it: only their own installing cell asks for it.
ALSO = {"sacrebleu": ("colorama", "lxml", "portalocker", "regex", "tabulate")}
INSTALL = "install-the-package"
NOT_ON_THE_SITE = "remove-cell"

INSTALL_SOURCE = """
# Installs this book's package where it is missing, as in Colab, and what it needs.
import os
import subprocess
import sys
from importlib.util import find_spec

if not find_spec("attention_tutorial"):
    source = os.environ.get(
        "ATTENTION_TUTORIAL_SOURCE",
        "git+{url}@{branch}",
    )
    pip = [sys.executable, "-m", "pip", "install", "-qq"]
    needed = ["torch", "matplotlib", "tqdm", "anywidget"]
    missing = [name for name in needed if not find_spec(name)]
    failed = subprocess.call([*pip, "--no-deps", source])
    if failed or (missing and subprocess.call([*pip, *missing])):
        raise RuntimeError(
            "The book's package could not be installed; pip says why above. "
            "Is this runtime connected to the internet? Then run this cell again."
        )
""".strip()


@dataclass(frozen=True)
class Address:
    """Where the repository is, as _config.yml says."""

    url: str
    branch: str
    colab: str

    @classmethod
    def read(cls, root: Path = ROOT) -> "Address":
        """Return the address that is written in _config.yml."""
        config = settings(root)
        repository = config["repository"]
        return cls(repository["url"].rstrip("/"), repository["branch"], config["launch_buttons"]["colab_url"])

    def in_colab(self, path: str) -> str:
        """Return the address at which Colab opens a file of the repository."""
        repository = self.url.removeprefix("https://github.com/")
        if repository == self.url:
            raise ValueError(f"repository.url must begin with https://github.com/, which Colab reads; got {self.url}")
        return f"{self.colab}/github/{repository}/blob/{self.branch}/{path}"


def also_imported(notebook: NotebookNode) -> list[str]:
    """Return which packages of `ALSO` a notebook imports."""
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code" and cell.get("id") != INSTALL)
    return [name for name in ALSO if re.search(rf"^\s*(?:import|from) {name}\b", code, re.MULTILINE)]


def own_cells(path: str, address: Address, also: Sequence[str] = ()) -> tuple[NotebookNode, NotebookNode]:
    """Return the link and the installing cell for the notebook at `path`, relative to the repository's root."""
    link = new_markdown_cell(f"[Open this notebook in Colab]({address.in_colab(path)})", id=LINK)
    source = INSTALL_SOURCE.format(url=address.url, branch=address.branch)
    source = source.replace('"anywidget"]', ", ".join(f'"{name}"' for name in ("anywidget", *also)) + "]")
    install = new_code_cell(source, id=INSTALL)
    for cell in (link, install):
        cell.metadata.tags = [NOT_ON_THE_SITE]
    return link, install


def put_own_cells(notebook: NotebookNode, path: str, address: Address) -> None:
    """Put the two cells where they belong, in place; one that is right already keeps its execution count."""
    there = {cell.get("id"): cell for cell in notebook.cells}
    link, install = (
        there[cell.id] if cell.id in there and _same(there[cell.id], cell) else cell
        for cell in own_cells(path, address, also_imported(notebook))
    )
    others = [cell for cell in notebook.cells if cell.get("id") not in (LINK, INSTALL)]
    first_code = next((number for number, cell in enumerate(others) if cell.cell_type == "code"), len(others))
    notebook.cells = [link, *others[:first_code], install, *others[first_code:]]


def _same(first: NotebookNode, other: NotebookNode) -> bool:
    return all(first[part] == other[part] for part in ("cell_type", "source", "metadata"))


def refresh(path: Path, root: Path, address: Address, *, check: bool = False) -> bool:
    """Bring one notebook's cells up to date, unless `check` is set; return whether they were not."""
    notebook = read(path)
    before = list(notebook.cells)
    put_own_cells(notebook, path.resolve().relative_to(root).as_posix(), address)
    stale = notebook.cells != before
    if stale and not check:
        path.write_text(nbformat.v4.writes(notebook) + "\n", encoding="utf-8")
    return stale


def refresh_master(path: Path, address: Address, *, check: bool = False) -> bool:
    """Bring an assignment's installing cell up to date, unless `check` is set; return whether it was not."""
    notebook = read(path)
    (cell,) = (cell for cell in notebook.cells if cell.get("id") == INSTALL)
    source = INSTALL_SOURCE.format(url=address.url, branch=address.branch)
    stale: bool = cell.source != source
    if stale and not check:
        cell.source = source  # its other cells and their metadata belong to nbgrader
        path.write_text(nbformat.v4.writes(notebook) + "\n", encoding="utf-8")
    return stale


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line; with --check, return 1 if a notebook's cells are not up to date."""
    parser = argparse.ArgumentParser(description="Give every chapter the cells that let it run in Colab.")
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks (default: all chapters)")
    parser.add_argument("--check", action="store_true", help="write nothing; name what is not up to date")
    options = parser.parse_args(arguments)
    address = Address.read(root)
    paths = options.paths or chapters(root)
    masters = [] if options.paths else sorted(root.glob("classroom/masters/source/*/*.ipynb"))
    stale = [path for path in paths if refresh(path, root, address, check=options.check)]
    old = [path for path in masters if refresh_master(path, address, check=options.check)]
    for path in (*stale, *old):
        done = "updated; now run make notebooks" if path in stale else "updated"
        print(f"{path.name}: {'not up to date; run python -m tools.colab' if options.check else done}")
    return 1 if (stale or old) and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
