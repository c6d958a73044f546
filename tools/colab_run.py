"""Run every chapter as a reader's first visit to Colab would, and say where its results differ from the stored ones.

    python -m tools.colab_run [--python PATH] [NOTEBOOK ...]

The interpreter has Colab's versions and not the book's package: this one, in Colab's own image, or the one that `make
test-colab` makes. Each notebook runs alone, in an empty folder with an empty home. Its own first cell has to install
the package, from a git server on this machine and then from a wheel. Afterwards the package is taken away again, and
no other version may have moved. Nothing but nbclient, nbformat and PyYAML is needed, which Colab's image has.
"""

import argparse
import contextlib
import copy
import functools
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from tools import colab
from tools.book import SANITISING, chapters, copy_of_the_working_tree, git, read
from tools.serve import serve

PACKAGE = "attention-tutorial"
CONTROLS = "application/vnd.jupyter.widget-view+json"
WIDGET = re.compile(r"data-(?:later-)?widget=")
# What surrounds the person who runs this, and no reader.
PRIVATE = ("ATTENTION_TUTORIAL_", "PYTHON", "JUPYTER", "IPYTHON", "VIRTUAL_ENV", "MPL", "XDG_")
INSTALLED = """
import importlib.metadata, json, re
name = lambda distribution: re.sub("[-_.]+", "-", distribution.metadata["Name"]).lower()
print(json.dumps({name(each): each.version for each in importlib.metadata.distributions() if each.metadata["Name"]}))
"""


def installed(python: Path) -> dict[str, str]:
    """Return {name: version} of all that an interpreter has."""
    done = subprocess.run([python, "-I", "-c", INSTALLED], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def take_away(python: Path, before: dict[str, str]) -> Iterator[str]:
    """Uninstall what the first cells bring; yield what else is not as it was before."""
    also = {*colab.ALSO, *itertools.chain(*colab.ALSO.values()), *(model["package"] for model in colab.MODELS.values())}
    brought = {PACKAGE, *also} - before.keys()
    pip = [python, "-m", "pip", "-qq", "--disable-pip-version-check", "uninstall", "--yes", "--root-user-action=ignore"]
    subprocess.run([*pip, *sorted(brought & installed(python).keys())], check=True)
    after = installed(python)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{name} was {before.get(name, 'missing')} and is {after.get(name, 'missing')}"


@contextlib.contextmanager
def sources(branch: str, scratch: Path) -> Iterator[dict[str, str]]:
    """Publish the working tree; yield for pip the address of a git server and the path of a wheel."""
    tree = copy_of_the_working_tree(scratch / "tree")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", scratch, tree]
    subprocess.run(build, check=True)
    (wheel,) = scratch.glob("*.whl")
    git("init", "--quiet", "--initial-branch", branch, folder=tree)
    git("add", "--all", folder=tree)
    git("commit", "--quiet", "--message", "The working tree", folder=tree)
    git("clone", "--quiet", "--bare", tree, scratch / "book.git", folder=scratch)
    git("update-server-info", folder=scratch / "book.git")  # so that a plain server of files will do
    with serve(scratch) as address:
        yield {"git": f"git+{address}/book.git@{branch}", "wheel": str(wheel)}


def execute(notebook: NotebookNode, python: Path, source: str) -> None:
    """Run a notebook in place, with a kernel of this interpreter, where nothing of the repository is around it."""
    with tempfile.TemporaryDirectory(prefix="colab-", ignore_cleanup_errors=True) as scratch:
        folder, home, kernel = (Path(scratch, name) for name in ("content", "home", "kernels/colab"))
        for each in (folder, home, kernel):
            each.mkdir(parents=True)
        command = [str(python), "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": [*command, "--log-level=ERROR"], "display_name": "Colab", "language": "python"}
        (kernel / "kernel.json").write_text(json.dumps(spec))
        specs = KernelSpecManager(kernel_dirs=[str(kernel.parent)], ensure_native_kernel=False)
        manager = AsyncKernelManager(kernel_name="colab", kernel_spec_manager=specs)
        client = NotebookClient(notebook, km=manager, timeout=600, resources={"metadata": {"path": str(folder)}})
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE)}
        fonts = Path(tempfile.gettempdir(), "colab-matplotlib")  # listing them takes long, so it is done once
        environment |= {"HOME": str(home), "ATTENTION_TUTORIAL_SOURCE": source, "MPLCONFIGDIR": str(fonts)}
        client.execute(env=environment, cleanup_kc=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def texts(cell: NotebookNode, rules: list[tuple[str, str]]) -> list[str]:
    """Return what a cell says, less what may differ: pictures, progress bars, and what nbval is told to overlook."""
    said = ["".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stdout")]
    for output in cell.outputs:
        if output.output_type == "error":
            said.append(f"{output.ename}: {output.evalue}")
        data = output.get("data", {})
        said += [data[kind] for kind in ("text/plain", "text/markdown") if kind in data]
        said += [data["text/html"]] if "text/html" in data and "image/png" not in data else []
    return [functools.reduce(lambda text, rule: re.sub(*rule, text), rules, text) for text in said]


def widgets(cell: NotebookNode) -> list[str]:
    """Return the HTML of a cell's widgets."""
    pages = (output.get("data", {}).get("text/html", "") for output in cell.outputs)
    return [page for page in pages if WIDGET.search(page)]


def chapter(path: Path, address: colab.Address, python: Path, source: str) -> Iterator[str]:
    """Run one notebook, with what it has or will have for Colab, and say where it is not as stored."""
    rules = re.findall(r"^regex: (.*)\nreplace: (.*)$", SANITISING.read_text(encoding="utf-8"), re.MULTILINE)
    rules.append((r"(?m)^Install(ing|ed).*\n", ""))  # what the first cell says where it has to install
    stored = read(path)
    colab.put_own_cells(stored, path.name, address)
    fresh = copy.deepcopy(stored)
    execute(fresh, python, source)
    for old, new in zip(stored.cells, fresh.cells, strict=True):
        if old.cell_type != "code":
            continue
        live, static = widgets(new), widgets(old)
        if any("<script>" not in page for page in live) or len(live) < len(static):
            yield f"cell {old.id}: a widget is stored, and did not come up live"
        controls = any(CONTROLS in output.get("data", {}) for output in new.outputs)
        if not (live or static or controls) and (before := texts(old, rules)) != (after := texts(new, rules)):
            yield "\n".join([f"cell {old.id} says something else than is stored:", "-", *before, "+", *after])


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 1 if a chapter failed."""
    parser = argparse.ArgumentParser(description="Run the chapters as a reader's first visit to Colab would.")
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks (default: all chapters)")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with Colab's versions (default: this)")
    options = parser.parse_args(arguments)
    python, address, failed = Path(os.path.abspath(options.python)), colab.Address.read(), 0
    before = installed(python)
    if PACKAGE in before:
        print(f"{python} has {PACKAGE} already, and the chapters are to install it: uninstall it first")
        return 1
    print(*(f"{name} {before.get(name)}" for name in ("torch", "numpy", "ipykernel")), sep=", ", flush=True)
    with tempfile.TemporaryDirectory(prefix="colab-") as scratch, sources(address.branch, Path(scratch)) as places:
        for name, source in places.items():
            for path in options.paths or chapters():
                start = time.perf_counter()
                try:
                    faults = list(chapter(path, address, python, source))
                except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                    faults = [re.sub(r"\x1b\[[\d;]*m", "", str(error))]
                faults += take_away(python, before)
                result = "FAILED" if faults else "as stored"
                print(f"{path.name} from {name}: {result}, {time.perf_counter() - start:.0f} s", flush=True)
                print(*(textwrap.indent(f"{fault}\n", "    ") for fault in faults), sep="", end="", flush=True)
                failed += bool(faults)
    print(f"{failed} failed" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
