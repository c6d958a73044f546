"""Run notebooks as other processors would: what they print must not depend on the order of a sum.

    python -m tools.profiles              every notebook whose record is old (this is `make profiles`)
    python -m tools.profiles --all        every notebook
    python -m tools.profiles PATH ...     these

A notebook runs once under each of PROFILES and is compared, letter by letter, with what is stored. What passes is noted
in `book/profiles.json` beside a mark of the notebook and of the code that it imports; tests/chapters/test_profiles.py
fails where a mark is old. `make notebooks` does the same with every notebook before it is written.

The translator that the package ships is checked in the same way: under each profile it must write the same sentences,
and one trained anew must pass the same exam.
"""

import argparse
import ast
import concurrent.futures
import copy
import difflib
import functools
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from modulefinder import ModuleFinder
from pathlib import Path

import nbformat
import torch
from nbformat import NotebookNode

from tools import notebooks as tool
from tools.book import ROOT, chapters, read, syntax

RECORD = ROOT / "book" / "profiles.json"
TRANSLATOR = "translator"  # its name in the record

# What a processor may do otherwise. PyTorch's own kernels and MKL's are chosen by variables; the last one, which stands
# for processors that this machine is not, is a module that Python imports first.
PROFILES: dict[str, dict[str, str]] = {
    "native": {},
    "no vector instructions": {"ATEN_CPU_CAPABILITY": "default"},
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "compatible, one thread": {"MKL_CBWR": "COMPATIBLE", "OMP_NUM_THREADS": "1"},
    "sums reversed": {"PYTHONPATH": str(ROOT / "tools" / "reversed_sums")},
}
WITHOUT_NUMBERS = ("widgets", "exercises")  # parts of the package that no stored number comes from
# Data, and the name whose import reads it: a notebook's results may come from it if it imports this ("": in any way).
DATA = {
    "models/trained/translator.json": "",
    "widgets/recorded/bottleneck.json": "Bottleneck",
    "models/trained/code_model.json": "code_model",
    "models/trained/code_model_runs.json": "code_model_runs",
}


# ---- What a notebook's outputs depend on ----------------------------------------------------------------------------


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@functools.cache
def code_of(module: Path) -> str:
    """Return what a module computes: its code without docstrings, comments and layout."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return syntax(tree)


@functools.cache
def imported_by(source: str) -> frozenset[Path]:
    """Return the modules of the package that import statements lead to, directly or by way of others."""
    left_out = ["tools", *(f"attention_tutorial.{part}" for part in WITHOUT_NUMBERS)]
    finder = ModuleFinder(path=[str(ROOT)], excludes=left_out)
    finder.scan_code(compile(source, "imports", "exec"), finder.add_module("imports"))
    files = (Path(module.__file__) for module in finder.modules.values() if module.__file__)
    return frozenset(file for file in files if file.is_relative_to(ROOT / "attention_tutorial"))


def sources_of(notebook: NotebookNode) -> list[str]:
    """Return what the notebook's results come from outside it: code of the package, data, versions."""
    imports = "\n".join(
        ast.unparse(node)
        for cell in notebook.cells
        if cell.cell_type == "code"
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    package = ROOT / "attention_tutorial"
    data = [(package / name).read_text(encoding="utf-8") for name, reader in DATA.items() if reader in imports]
    return [*map(code_of, sorted(imported_by(imports))), *data, *pinned()]


def pinned() -> Iterable[str]:
    """Return the lines of the requirements that say which torch and numpy compute."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [line.split("#")[0].strip() for line in lines if line.startswith(("torch==", "numpy=="))]


def mark_of(notebook: NotebookNode) -> str:
    """Return a short mark of a notebook's code and outputs and of what they come from; prose does not count."""
    bare = copy.deepcopy(notebook)
    bare.cells = [cell for cell in bare.cells if cell.cell_type == "code"]
    return mark_of_texts(tool.without_what_varies(bare), *sources_of(notebook))


def mark_of_translator() -> str:
    """Return a short mark of the shipped translator and of what trains it."""
    source = (ROOT / "tools" / "translator.py").read_text(encoding="utf-8")
    package = ROOT / "attention_tutorial"
    code = map(code_of, sorted(imported_by(source)))
    return mark_of_texts(source, *code, (package / next(iter(DATA))).read_text(encoding="utf-8"), *pinned())


def mark_of_texts(*texts: str) -> str:
    """Return a short mark of some texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


# ---- The record -----------------------------------------------------------------------------------------------------


def recorded() -> dict[str, str]:
    """Return what passed under all profiles: {name: mark}."""
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    return record.get("marks", {}) if record.get("profiles") == list(PROFILES) else {}


def note(name: str, mark: str) -> None:
    """Write down that a notebook, or the translator, passed under all profiles."""
    names = [*(path.stem for path in chapters()), TRANSLATOR]
    marks = {key: old for key, old in recorded().items() if key in names} | {name: mark}
    record = {"profiles": list(PROFILES), "marks": dict(sorted(marks.items()))}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


# ---- Runs -----------------------------------------------------------------------------------------------------------


def printed(cell: NotebookNode) -> str:
    """Return what a cell left behind, as far as it must be the same on every machine; pictures are not compared."""
    bare = copy.deepcopy(cell)
    if "nbval-ignore-output" in cell.metadata.get("tags", []):  # the few, each with its reason, that no test compares
        bare.outputs = []
    for output in bare.get("outputs", []):
        output.get("data", {}).pop("image/png", None)
    return tool.without_what_varies(nbformat.v4.new_notebook(cells=[bare]))


def differences(notebook: NotebookNode, folder: Path, profile: str) -> list[str]:
    """Run a notebook under a profile; say which cells do not print what the notebook holds, and what they print."""
    fresh = copy.deepcopy(notebook)
    try:
        tool.execute(fresh, folder, PROFILES[profile])
    except tool.CellFailed as error:
        return [f"{profile}: {error}"]
    tool.normalise(fresh)
    differing = []
    for new, old in zip(fresh.cells, notebook.cells, strict=True):
        tool.settle_outputs(new.get("outputs", []), old.get("outputs", []))
        if printed(new) != printed(old):
            lines = difflib.ndiff(_lines(old), _lines(new))
            differing.append("\n".join([f"{profile}: cell {old.id}", *(line for line in lines if line[0] in "-+")]))
    return differing


def _lines(cell: NotebookNode) -> list[str]:
    outputs = cell.get("outputs", [])
    return [line for o in outputs for line in o.get("text", o.get("data", {}).get("text/plain", "")).splitlines()]


def distinct() -> list[str]:
    """Return the profiles without those that change nothing on this processor."""
    same_as_native = {"no vector instructions": "DEFAULT", "AVX2": "AVX2"}
    here = torch.backends.cpu.get_cpu_capability()
    return [profile for profile in PROFILES if same_as_native.get(profile) != here]


def check(notebook: NotebookNode, folder: Path, *, without: str = "") -> list[str]:
    """Run a notebook under all profiles but one, as many at a time as there are cores; return every difference."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        slowest_first = [profile for profile in reversed(distinct()) if profile != without]
        runs = [pool.submit(differences, notebook, folder, profile) for profile in slowest_first]
        return [line for run in runs for line in run.result()]


def accept(notebook: NotebookNode, path: Path) -> None:
    """Let a chapter pass that prints the same under every other profile, and note it.

    Raises:
        CellFailed: if it does not.
    """
    if path not in chapters() or recorded().get(path.stem) == (mark := mark_of(notebook)):
        return
    if differing := check(notebook, path.parent, without="native"):
        raise tool.CellFailed("\n".join(["it prints something else under other profiles:", *differing]))
    note(path.stem, mark)


def check_translator() -> list[str]:
    """Let the shipped translator write, and train one anew, under each profile; return what differs."""

    def run(environment: dict[str, str]) -> str:
        command = [sys.executable, "-m", "tools.translator", "--check"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}  # several run side by side
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr[-1000:] * bool(done.returncode)

    profiles = distinct()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        printed = dict(zip(profiles, pool.map(run, map(PROFILES.get, profiles)), strict=True))
    return [
        f"{profile}: {words}" for profile, words in printed.items() if words != printed["native"] or "True" not in words
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 0 when everything passed."""
    parser = argparse.ArgumentParser(description="Run notebooks as other processors would.")
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks (default: those whose record is old)")
    parser.add_argument("--all", action="store_true", help="every notebook, and the translator")
    options = parser.parse_args(arguments)
    jobs = {path.stem: (mark_of(read(path)), functools.partial(check, read(path), path.parent))
            for path in map(Path.resolve, options.paths or chapters())}  # fmt: skip
    if not options.paths:
        jobs[TRANSLATOR] = mark_of_translator(), check_translator
    old = {} if options.all or options.paths else recorded()
    failures = 0
    for name, (mark, run) in jobs.items():
        if old.get(name) == mark:
            continue
        start = time.perf_counter()
        print(f"{name} ... ", end="", flush=True)
        faults = run()
        verdict = "\n".join(["DIFFERS", *faults]) if faults else "the same"
        print(f"{time.perf_counter() - start:.0f} s, {verdict}", flush=True)
        if faults:
            failures += 1
        else:
            note(name, mark)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
