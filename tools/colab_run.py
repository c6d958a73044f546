"""Run every chapter as a reader's first visit to Colab would, and say where its results differ from the stored ones.

    python -m tools.colab_run --python PATH [NOTEBOOK ...]   with an interpreter that has Colab's versions
    python -m tools.colab_run --here [NOTEBOOK ...]          with this interpreter, as in Colab's own image
    python -m tools.colab_run --compare FREEZE               only compare a list of versions ("-": standard input)
                                                             with tools/colab_versions.txt

`make test-colab` makes the environment and runs all of it. Each notebook runs alone, in an empty folder with an empty
home, and without the book's package: its own first cell has to install it, from a git server on this machine and from a
wheel. Afterwards the package is taken away again and no other version may have moved. Two notebooks that are no
chapters ask what Colab's widgets do, and what a reader sees without a network. What students get of the assignments
runs too, as it is handed out and solved.

Nothing but nbclient, nbformat and PyYAML is needed, which Colab's image has; for the assignments also nbgrader, and
they are left out where it is missing.
"""

import argparse
import contextlib
import copy
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from tools import colab
from tools.book import ROOT, SANITISING, chapters, copy_of_the_working_tree, git, read
from tools.serve import serve

VERSIONS = ROOT / "tools" / "colab_versions.txt"
PACKAGE = "attention-tutorial"
WIDGET = "application/vnd.jupyter.widget-view+json"

# Cells whose results differ with Colab's versions, (notebook, cell id) -> why that is as it should be.
KNOWN_DIFFERENCES: dict[tuple[str, str], str] = {}

# A kernel in Colab has this module, and anywidget asks it to let widgets of other packages in.
IN_COLAB = """
def stand_in_for_colab():
    import sys, types

    google, colab, output = (types.ModuleType(name) for name in ("google", "google.colab", "google.colab.output"))
    output._widgets = types.SimpleNamespace(_installed_url=None)
    output.enable_custom_widget_manager = lambda: setattr(output._widgets, "_installed_url", "https://colab.invalid/")
    google.colab, colab.output = colab, output
    sys.modules.update({module.__name__: module for module in (google, colab, output)})

try:
    import google.colab.output
except ImportError:
    stand_in_for_colab()
del stand_in_for_colab
"""
INSTALLED = """
import importlib.metadata, json, re
name = lambda distribution: re.sub("[-_.]+", "-", distribution.metadata["Name"]).lower()
print(json.dumps({name(each): each.version for each in importlib.metadata.distributions() if each.metadata["Name"]}))
"""


class Unfit(Exception):
    """A run cannot begin; the message says why."""


def plain(text: str) -> str:
    """Return a text without the colours of a terminal."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)


# ---- Versions ----------------------------------------------------------------------------------------------------


def installed(python: Path) -> dict[str, str]:
    """Return {name: version} of all that an interpreter has."""
    done = subprocess.run([python, "-I", "-c", INSTALLED], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def listed(text: str) -> dict[str, str]:
    """Return {name: version} of a list as `pip freeze` writes it: `name==1.2`, or `name @ .../name-1.2-more`."""
    pinned = re.findall(r"^([\w.-]+)(?:==([^\s+]+)| @ \S*/[^/\s]+?-(\d+(?:\.\d+)*))", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): exact or in_the_file for name, exact, in_the_file in pinned}


def moved(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Say which packages of the old list have another version in the new one, or none."""
    return [
        f"{name}: {version} -> {new.get(name, 'missing')}"
        for name, version in sorted(old.items())
        if new.get(name) != version
    ]


# ---- Where the package comes from --------------------------------------------------------------------------------


@contextlib.contextmanager
def git_server(tree: Path, branch: str, scratch: Path) -> Iterator[str]:
    """Serve a folder as a repository, the plain way that needs no program behind it; yield pip's address for it."""
    git("init", "--quiet", "--initial-branch", branch, folder=tree)
    git("add", "--all", folder=tree)
    git("commit", "--quiet", "--message", "The working tree", folder=tree)
    git("clone", "--quiet", "--bare", tree, scratch / "book.git", folder=scratch)
    git("update-server-info", folder=scratch / "book.git")
    with serve(scratch) as address:
        yield f"git+{address}/book.git@{branch}"


def wheel(tree: Path, scratch: Path) -> str:
    """Build the package's wheel and return its path."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(scratch), str(tree)]
    subprocess.run(command, check=True)
    (path,) = scratch.glob("*.whl")
    return str(path)


# ---- One notebook ------------------------------------------------------------------------------------------------


@dataclass
class Runtime:
    """An interpreter that stands for Colab's, and a scratch folder."""

    python: Path
    scratch: Path
    before: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        looked_for = "from importlib.util import find_spec; print(find_spec('attention_tutorial'))"
        if subprocess.check_output([self.python, "-I", "-c", looked_for], text=True) != "None\n":
            raise Unfit(f"{self.python} has {PACKAGE} already, and the chapters are to install it: uninstall it first")
        self.before = installed(self.python)
        startup = self.scratch / "in_colab.py"
        startup.write_text(IN_COLAB)
        kernel = [self.python, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        options = ["--log-level=ERROR", f"--IPKernelApp.exec_files={startup}"]
        spec = {"argv": [str(part) for part in kernel + options], "display_name": "Colab", "language": "python"}
        (self.scratch / "kernels" / "colab").mkdir(parents=True)
        (self.scratch / "kernels" / "colab" / "kernel.json").write_text(json.dumps(spec))

    def client(self, notebook: NotebookNode, folder: Path) -> NotebookClient:
        """Return a client that will run a notebook in a folder, with a kernel of this interpreter."""
        specs = KernelSpecManager(kernel_dirs=[str(self.scratch / "kernels")], ensure_native_kernel=False)
        manager = AsyncKernelManager(kernel_name="colab", kernel_spec_manager=specs)
        return NotebookClient(notebook, km=manager, timeout=600, resources={"metadata": {"path": str(folder)}})

    def start(self, home: Path, **variables: str) -> dict[str, Any]:
        """Return how a kernel is run: silent, ended afterwards, with nothing of the person who runs this around it."""
        private = ("ATTENTION_TUTORIAL_", "PYTHON", "JUPYTER", "IPYTHON", "VIRTUAL_ENV", "MPL", "XDG_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(private)}
        path = f"{self.python.parent}{os.pathsep}{environment['PATH']}"
        places = {"HOME": str(home), "PATH": path, "MPLCONFIGDIR": str(self.scratch / "matplotlib")}
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return {"env": environment | places | variables, "cleanup_kc": True, **silent}

    def clean(self) -> list[str]:
        """Take the package away again; say which other versions have moved since the beginning."""
        pip = [self.python, "-m", "pip", "-qq", "--disable-pip-version-check"]
        theirs = {name for package, others in colab.ALSO.items() for name in (package, *others)}
        brought = sorted(theirs & (installed(self.python).keys() - self.before.keys()))
        subprocess.run([*pip, "uninstall", "--yes", "--root-user-action=ignore", PACKAGE, *brought], check=True)
        after = installed(self.python)
        return moved(self.before, after) + [f"{name} is new" for name in sorted(after.keys() - self.before.keys())]


@contextlib.contextmanager
def empty_folder(runtime: Runtime) -> Iterator[tuple[Path, Path]]:
    """Make an empty folder and an empty home, beside nothing of the repository."""
    with tempfile.TemporaryDirectory(dir=runtime.scratch, ignore_cleanup_errors=True) as scratch:
        folder, home = Path(scratch, "content"), Path(scratch, "home")
        folder.mkdir()
        home.mkdir()
        yield folder, home


def execute(runtime: Runtime, notebook: NotebookNode, **variables: str) -> NotebookClient:
    """Run a notebook alone, in place; return the client, which knows the widgets that were opened."""
    with empty_folder(runtime) as (folder, home):
        client = runtime.client(notebook, folder)
        client.execute(**runtime.start(home, **variables))
        return client


def texts(cell: NotebookNode, rules: list[tuple[str, str]]) -> list[str]:
    """Return what a cell says, less what may differ: pictures, progress bars, and what nbval is told to overlook."""
    printed_texts = [printed(cell)]
    for output in cell.outputs:
        if output.output_type == "error":
            printed_texts.append(f"{output.ename}: {output.evalue}")
        data = output.get("data", {})
        printed_texts += [data[kind] for kind in ("text/plain", "text/markdown", "text/html") if kind in data]
    return [functools.reduce(lambda text, rule: re.sub(*rule, text), rules, text) for text in printed_texts]


def differences(stored: NotebookNode, fresh: NotebookNode) -> Iterator[tuple[str, str, str]]:
    """Yield (cell id, stored text, fresh text) of every cell whose results differ; live widgets are looked at apart."""
    rules = re.findall(r"^regex: (.*)\nreplace: (.*)$", SANITISING.read_text(encoding="utf-8"), re.MULTILINE)
    for old, new in zip(stored.cells, fresh.cells, strict=True):
        if old.cell_type == "code" and not views(new) and texts(old, rules) != texts(new, rules):
            yield old.id, "\n".join(texts(old, rules)), "\n".join(texts(new, rules))


def views(cell: NotebookNode) -> list[NotebookNode]:
    """Return a cell's outputs that are live widgets."""
    return [output for output in cell.get("outputs", []) if WIDGET in output.get("data", {})]


def widget_faults(stored: NotebookNode, client: NotebookClient) -> Iterator[str]:
    """Say which widgets Colab could not show."""
    for old, new in zip(stored.cells, client.nb.cells, strict=True):
        pages = [output.get("data", {}).get("text/html", "") for output in old.get("outputs", [])]
        static = [page for page in pages if re.search("data-(later-)?widget=", page)]
        if len(static) > len(views(new)):
            yield f"cell {old.id}: {len(static)} widgets are stored, and {len(views(new))} came up live"
        for view in views(new):
            model = client.widget_state.get(view.data[WIDGET]["model_id"])
            if model is None:
                yield f"cell {old.id}: a widget was shown whose channel to the browser was never opened"
            elif "_esm" in model and not view.metadata.get(WIDGET, {}).get("colab", {}).get("custom_widget_manager"):
                yield f"cell {old.id}: Colab was not told where to find a widget of another package"
            if "text/html" in view.data:
                yield f"cell {old.id}: Colab may show the static table in the place of the widget"


def chapter(runtime: Runtime, path: Path, address: colab.Address, source: str) -> Iterator[str]:
    """Run one notebook, with the cells for Colab that it has or will have, and say where it is not as stored."""
    stored = read(path)
    colab.put_own_cells(stored, path.name, address)
    fresh = copy.deepcopy(stored)
    client = execute(runtime, fresh, ATTENTION_TUTORIAL_SOURCE=source)
    yield from widget_faults(stored, client)
    for cell_id, old, new in differences(stored, fresh):
        if not KNOWN_DIFFERENCES.get((path.name, cell_id)):
            yield f"cell {cell_id} says something else than is stored:\n- {old}\n+ {new}"


# ---- Assignments -------------------------------------------------------------------------------------------------

A_MINUTE = 60  # in which an assignment opens, runs and can be checked


def assignment(runtime: Runtime, path: Path, source: str) -> Iterator[str]:
    """Run what students get of a master, as it is handed out and solved; say what its checks find wrong."""
    from attention_classroom import load
    from attention_classroom.release import answers, make_release
    from attention_classroom.variants import plain_variant

    hidden = load(path.parents[2] / "hidden" / f"{path.stem}.py")
    for make, expected in ((make_release, "not"), (answers, "right")):
        notebook = make(read(path), hidden, plain_variant(hidden))
        start = time.perf_counter()
        execute(runtime, notebook, ATTENTION_TUTORIAL_SOURCE=source)
        if (seconds := time.perf_counter() - start) > A_MINUTE:
            yield f"it took {seconds:.0f} s"
        yield from unexpected(notebook, expected)


def unexpected(notebook: NotebookNode, expected: str) -> Iterator[str]:
    """Yield what checks said of answers that was not expected: "right", or "not" (filled in) yet."""
    lines = [line for cell in notebook.cells if cell.cell_type == "code" for line in printed(cell).splitlines()]
    lines = [line for line in lines if re.match(r"\w+: (not|right) ", line)]
    if not lines:
        yield "no check said anything"
    yield from (line for line in lines if f": {expected} " not in line)


# ---- Widgets and controls ----------------------------------------------------------------------------------------

PROBE = [
    "from attention_tutorial import widgets\nshown = {name: getattr(widgets, name)() for name in widgets.__all__}",
    "display(*shown.values())\nprint(len(shown))",
    "from attention_tutorial.notebook import controls\n\n"
    "calls = []\n\n\ndef note(number=1):\n    calls.append(number)\n\n\ncontrols(note, number=(1, 9))",
    "print(calls)",
]


def probe(runtime: Runtime, source: str, install: NotebookNode) -> Iterator[str]:
    """Open every widget and a panel of controls, move its slider as a browser would, and say what did not work."""
    notebook = new_notebook(cells=[install, *map(new_code_cell, PROBE)])
    _, _, widgets, panel, after = notebook.cells
    with empty_folder(runtime) as (folder, home):
        client = runtime.client(notebook, folder)
        with client.setup_kernel(**runtime.start(home, ATTENTION_TUTORIAL_SOURCE=source)):
            for number, cell in enumerate(notebook.cells[:-1]):
                client.execute_cell(cell, number)
            for model, state in client.widget_state.items():
                if state["_model_name"] == "IntSliderModel":
                    moved_to = {"method": "update", "state": {"value": 4}, "buffer_paths": []}
                    message = client.kc.session.msg("comm_msg", {"comm_id": model, "data": moved_to})
                    client.kc.shell_channel.send(message)
            client.execute_cell(after, len(notebook.cells) - 1)
    yield from widget_faults(notebook, client)
    if (number := len(views(widgets))) != int(printed(widgets)):
        yield f"{number} of {printed(widgets).strip()} widgets came up live"
    if not views(panel):
        yield "the controls did not come up"
    if printed(after) != "[1, 4]\n":
        yield f"the controls did not answer when the slider went to 4; the function was called with {printed(after)}"


def printed(cell: NotebookNode) -> str:
    """Return what a cell printed."""
    return "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stdout")


# ---- Without a network -------------------------------------------------------------------------------------------

NOWHERE = "http://127.0.0.1:9"  # the port of the discard protocol, where nobody listens


def without_network(runtime: Runtime, install: NotebookNode) -> tuple[str, list[str]]:
    """Run the installing cell where no address can be reached; return what a reader sees, and what is wrong with it."""
    notebook = new_notebook(cells=[install, new_code_cell("import attention_tutorial")])
    proxies = dict.fromkeys(["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"], NOWHERE)
    with empty_folder(runtime) as (folder, home):
        client = runtime.client(notebook, folder)
        client.allow_errors = True
        client.execute(**runtime.start(home, **proxies, no_proxy="", NO_PROXY=""))
    seen = [text for cell in notebook.cells for text in texts_of_errors(cell)]
    faults = []
    if len(seen) != 2 or "Is this runtime connected to the internet?" not in seen[0].splitlines()[-1]:
        faults.append("the message does not ask for the network in its last line")
    if len(seen) != 2 or "No module named 'attention_tutorial'" not in seen[1]:
        faults.append("the next cell does not say that the package is missing")
    if len("\n".join(seen[:1]).splitlines()) > 30:
        faults.append("the traceback is too long to be read")
    return "\n".join(seen), faults


def texts_of_errors(cell: NotebookNode) -> list[str]:
    """Return the tracebacks that a cell shows, without colours."""
    errors = (output for output in cell.outputs if output.output_type == "error")
    return [plain("\n".join(error.traceback)) for error in errors]


# ---- All of it ---------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """Prints a line for each part, and counts what failed."""

    failures: int = 0

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[list[str]]:
        """Time one part; the list that is yielded takes its faults."""
        print(f"{name} ... ", end="", flush=True)
        faults: list[str] = []
        start = time.perf_counter()
        try:
            yield faults
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            faults.append(plain(str(error)))
        print(f"{time.perf_counter() - start:.0f} s, {'FAILED' if faults else 'as stored'}", flush=True)
        for fault in faults:
            print(textwrap.indent(fault, "    "), flush=True)
        self.failures += bool(faults)


def run(python: Path, paths: list[Path], masters: list[Path]) -> int:
    """Run all parts; return 1 if one failed."""
    report = Report()
    address = colab.Address.read()
    _, install = colab.own_cells("", address)
    with tempfile.TemporaryDirectory(prefix="colab-") as temporary, contextlib.ExitStack() as stack:
        scratch = Path(temporary)
        runtime = Runtime(python, scratch)
        tree = copy_of_the_working_tree(scratch / "tree")
        repository = stack.enter_context(git_server(tree, address.branch, scratch))
        places = {"git": repository, "wheel": wheel(tree, scratch)}
        versions = ", ".join(f"{name} {runtime.before.get(name)}" for name in ("torch", "numpy", "ipykernel"))
        print(f"{subprocess.check_output([python, '--version'], text=True).strip()}, {versions}", flush=True)
        parts = [
            (f"{path.name} from {name}", functools.partial(chapter, runtime, path, address, place))
            for name, place in places.items()
            for path in paths
        ]
        if masters and not find_spec("nbgrader"):
            print("The assignments are left out: nbgrader is missing here.")
            masters = []
        parts += [
            (f"assignment {path.name}", functools.partial(assignment, runtime, path, repository)) for path in masters
        ]
        parts += [
            ("the widgets and controls", functools.partial(probe, runtime, repository, install)),
            ("without a network", lambda: without_network(runtime, install)[1]),
        ]
        for name, part in parts:
            with report.part(name) as faults:
                try:
                    faults.extend(part())
                finally:
                    faults.extend(f"a version was changed: {change}" for change in runtime.clean())
    print(f"{report.failures} of {len(parts)} failed" if report.failures else f"all {len(parts)} passed")
    return 1 if report.failures else 0


def compare(freeze: str) -> int:
    """Print where a list of Colab's versions differs from the one that is kept; return 1 if it does."""
    text = sys.stdin.read() if freeze == "-" else Path(freeze).read_text(encoding="utf-8")
    changes = moved(listed(VERSIONS.read_text(encoding="utf-8")), listed(text))
    print("\n".join(changes) or f"the same as in {VERSIONS.name}")
    return 1 if changes else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Run the chapters as a reader's first visit to Colab would.")
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks (default: all chapters)")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--python", type=Path, help="an interpreter with Colab's versions, without the package")
    where.add_argument("--here", action="store_true", help="this interpreter stands for Colab's")
    where.add_argument("--compare", metavar="FREEZE", help="compare a list of versions with the one that is kept")
    options = parser.parse_args(arguments)
    if options.compare:
        return compare(options.compare)
    python = Path(sys.executable) if options.here else Path(os.path.abspath(options.python))
    try:
        masters = [] if options.paths else sorted(ROOT.glob("classroom/masters/source/*/*.ipynb"))
        return run(python, options.paths or chapters(), masters)
    except Unfit as error:
        print(error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
