"""Give every chapter the two cells that let it run in Colab: the link that opens it there, and the installing cell.

    python -m tools.colab

Both cells are made from the address of the repository, which is written once, in _config.yml. So are the installing
cell of every assignment, and [project.urls]. The cells keep their ids, and where nothing has changed the file stays as
it is, outputs included. The link comes first, and is left out on the site, whose pages have launch buttons. The
installing cell comes before the first code cell and prints nothing; new ones need executing, by `make notebooks`.
"""

import copy
import re
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
URLS = {"Source": "{url}", "Issues": "{url}/issues", "Changelog": "{url}/blob/{branch}/CHANGELOG.md"}

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
    needed = ["torch", "matplotlib", "tqdm", "ipywidgets"]
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
    source = source.replace('"ipywidgets"]', ", ".join(f'"{name}"' for name in ("ipywidgets", *also)) + "]")
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


def stale(root: Path = ROOT) -> dict[Path, str]:
    """Return the files whose parts are not as the address makes them, with the text that each should have."""
    address, found = Address.read(root), {}
    masters = sorted(root.glob("classroom/masters/source/*/*.ipynb"))
    for path in (*chapters(root), *masters):
        notebook = read(path)
        before = copy.deepcopy(notebook)
        if path in masters:  # its other cells and their metadata belong to nbgrader
            (cell,) = (cell for cell in notebook.cells if cell.get("id") == INSTALL)
            cell.source = own_cells("", address)[1].source
        else:
            put_own_cells(notebook, path.relative_to(root).as_posix(), address)
        if notebook != before:
            found[path] = nbformat.v4.writes(notebook) + "\n"
    for path in (*root.glob("pyproject.toml"), *root.glob("classroom/pyproject.toml")):
        after = before = path.read_text(encoding="utf-8")
        for name, url in URLS.items():
            line = f'{name} = "{url.format(url=address.url, branch=address.branch)}"'
            after = re.sub(rf'^{name} = ".*"$', line, after, flags=re.MULTILINE)
        if after != before:
            found[path] = after
    return found


def main(root: Path = ROOT) -> None:
    """Write what is not up to date."""
    files = stale(root)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(root)}: updated")
    if any(path.parent.name == "notebooks" for path in files):
        print("Now run: make notebooks")


if __name__ == "__main__":
    main()
