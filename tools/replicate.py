"""Run the chapters on fresh random numbers, and say in how many runs each claim holds.

    python -m tools.replicate                     every chapter on 20 fresh draws (this is `make replicate`)
    python -m tools.replicate PATH ...            only these; the others keep what was found for them
    python -m tools.replicate --runs 40 --first 100    other draws, none of them looked at before

A chapter draws all its random numbers from generators with a seed. Here each seed is moved by an offset, the same for
the whole chapter, so that nothing in the chapter has to know of it; offset 0 is the chapter as it stands. A statement
that fails is noted, and the chapter goes on. What was run is kept in `_build/replication`: a run that was stopped goes
on where it was. The result is `book/replication.json`, from which the page of claims says what held how often.

A claim varies if its measurement differs between offsets; of times it says how far they differ between runs.
"""

import argparse
import ast
import contextlib
import datetime
import io
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from tqdm import tqdm

from tools.book import ROOT, chapters, read, syntax
from tools.colab import INSTALL
from tools.profiles import mark_of_texts, sources_of

RESULTS = ROOT / "book" / "replication.json"
KEPT = ROOT / "_build" / "replication"
RUNS = 20  # the least number that tells 95 % from less
APART = 1000  # between the seeds of two offsets; no chapter uses seeds so far apart
SAME = 1e-6  # relative: what rounding leaves between two orders of a sum
LIMIT = 900  # seconds for one run of a chapter
SHOWN = {"finding", "stable", "digits"}  # arguments of a claim that say how it is shown, not what is measured


# ---- One run: in a process of its own -------------------------------------------------------------------------------


def move_seeds(offset: int) -> None:
    """Move every seed that is set from now on."""
    import torch

    set_seed = torch.manual_seed

    class Moved(torch.Generator):
        def manual_seed(self, seed: int) -> torch.Generator:
            return super().manual_seed(seed + APART * offset)

    torch.Generator = Moved  # type: ignore[misc]
    torch.manual_seed = lambda seed: set_seed(seed + APART * offset)
    set_seed(APART * offset)


def run(notebook: NotebookNode, offset: int) -> dict[str, Any]:
    """Run a chapter's statements one after the other; return its claims and what failed.

    Returns:
        ``{"claims": {id: [measured, held]}, "failed": {cell id: message}}``
    """
    move_seeds(offset)
    from attention_tutorial import notebook as package

    claims: dict[str, list[Any]] = {}
    failed: dict[str, str] = {}
    assert_claim = package.claim

    def claim(id: str, sentence: str, measured: Any, **bounds: Any) -> None:
        value = measured.item() if hasattr(measured, "item") else measured
        try:
            assert_claim(id, sentence, measured, **bounds)
            held = True
        except AssertionError:
            held = False
        claims[id] = [value, held]

    package.claim = claim
    # A module, as a notebook's kernel has one: PyTorch's compiler looks up there what a function of the chapter names.
    sys.modules["__main__"] = chapter = types.ModuleType("__main__")
    space = vars(chapter)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        for statement in ast.parse(cell.source).body:
            code = compile(ast.Module([statement], []), f"cell {cell.id}", "exec")
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(code, space)
            except Exception as error:
                line = ast.unparse(statement).partition("\n")[0][:100]
                failed.setdefault(cell.id, f"{line}: {type(error).__name__} {error}"[:300])
    return {"claims": claims, "failed": failed}


def run_alone(path: Path, offset: int, target: Path) -> None:
    """Run a chapter in its folder, as a process of its own, and keep what it found."""
    os.environ |= {"MPLBACKEND": "agg", "ATTENTION_TUTORIAL_PROGRESS": "0", "ATTENTION_TUTORIAL_WIDGETS": "static"}
    notebook = read(path)
    target = target.resolve()
    os.chdir(path.parent)
    warnings.simplefilter("ignore")
    record = run(notebook, offset)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.with_suffix(".new").write_text(json.dumps(record), encoding="utf-8")
    target.with_suffix(".new").replace(target)


# ---- All runs -------------------------------------------------------------------------------------------------------


def code_of(notebook: NotebookNode) -> str:
    """Return what a chapter computes: its code, without comments, layout, and how claims are worded and shown.

    The installing cell, exercises, widgets, and what shows the package's source compute nothing that a claim measures.
    """
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.get("id") != INSTALL]
    trees = [ast.parse(cell.source) for cell in cells if "exercise" not in cell.metadata.get("tags", [])]
    trees = [tree for tree in trees if not all(map(_only_shows, tree.body))]
    for tree in trees:
        tree.body = [statement for statement in tree.body if not _imports_widgets(statement)]
    for node in itertools.chain.from_iterable(map(ast.walk, trees)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "claim" and node.args[1:]:
            node.args[1] = ast.Constant("")
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in SHOWN]
    return "\n".join(map(syntax, trees))


def _only_shows(statement: ast.stmt) -> bool:
    from attention_tutorial import widgets

    call = statement.value if isinstance(statement, ast.Expr) else None
    shown = {"show_source", *widgets.__all__}
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in shown


def _imports_widgets(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "attention_tutorial.widgets"


def state_of(notebook: NotebookNode) -> str:
    """Return the mark of a chapter's code and of what it measured: it changes where a replication is out of date."""
    return mark_of_texts(code_of(notebook), *measured_in(notebook))


def measured_in(notebook: NotebookNode) -> list[str]:
    """Return what the claims of a chapter measured, as far as it is the same on every machine."""
    from attention_tutorial.notebook import Claim

    return [f"{claim.id} {claim.measured}" for claim in Claim.stored_in(notebook) if claim.stable]


def kept_at(path: Path, notebook: NotebookNode, offset: int) -> Path:
    """Return where a run of a chapter is kept."""
    return KEPT / path.stem / f"{mark_of_texts(code_of(notebook), *sources_of(notebook))}-{offset}.json"


def replicate(path: Path, offsets: list[int], jobs: int) -> dict[str, Any]:
    """Run a chapter on all offsets that are still to do, and sum up."""
    notebook = read(path)
    paths = {offset: kept_at(path, notebook, offset) for offset in offsets}

    def start(offset: int) -> str:
        command = [sys.executable, "-m", "tools.replicate", "--one", str(path), str(offset), str(paths[offset])]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT)
        return "" if paths[offset].is_file() else f"offset {offset}: {done.stderr[-1000:]}"

    todo = [offset for offset in offsets if not paths[offset].is_file()]
    with ThreadPoolExecutor(jobs) as pool:
        problems = list(filter(None, tqdm(pool.map(start, todo), path.stem, len(todo), disable=not todo)))
    if problems:
        raise SystemExit("\n".join([f"{path.name} did not run:", *problems]))
    runs = [json.loads(path_of_run.read_text(encoding="utf-8")) for path_of_run in paths.values()]
    return {"state": state_of(notebook), "offsets": [offsets[0], offsets[-1]], **summary(runs)}


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum up the runs of a chapter: for each claim whether it varies, in how many runs it held, and what was measured.

    Args:
        runs: what `run` returned, for each offset.

    Returns:
        ``{"claims": {id: {"runs", "held", and where it varies: "values" or "median", "least", "most"}}, "failed":
        {cell id: {"runs", "message"}}}``. A claim that a run did not reach did not hold in it.
    """
    ids = list(dict.fromkeys(id for run in runs for id in run["claims"]))
    claims = {}
    for id in ids:
        results = [run["claims"][id] for run in runs if id in run["claims"]]
        values, held = [result[0] for result in results], [result[1] for result in results]
        claims[id] = {"runs": len(runs), "held": sum(held), **spread(values)}
    failed: dict[str, dict[str, Any]] = {}
    for run in runs:
        for cell, message in run["failed"].items():
            failed.setdefault(cell, {"runs": 0, "message": message})["runs"] += 1
    return {"claims": claims, "failed": failed}


def spread(values: list[Any]) -> dict[str, Any]:
    """Return the median and the range of numbers that differ, or each word with how often it came; else nothing."""
    if all(isinstance(x, int | float) and not isinstance(x, bool) for x in values):
        if all(math.isclose(x, values[0], rel_tol=SAME, abs_tol=1e-9) for x in values):
            return {}
        middle, least, most = (float(f"{f(values):.4g}") for f in (statistics.median, min, max))
        return {"median": middle, "least": least, "most": most}
    words = [str(x) for x in values]
    return {} if len(set(words)) == 1 else {"values": {word: words.count(word) for word in sorted(set(words))}}


def report(name: str, record: dict[str, Any]) -> str:
    """Say which claims and statements of a chapter fell short."""
    claims = record["claims"].items()
    varying = [id for id, claim in claims if claim.keys() & {"median", "values"}]
    lines = [f"{name}: {len(varying)} of {len(claims)} claims vary with the draw"]
    lines += [
        f"    {id}: held in {claim['held']} of {claim['runs']} runs; "
        + ", ".join(f"{key} {value}" for key, value in claim.items() if key not in ("held", "runs"))
        for id, claim in claims
        if claim["held"] < claim["runs"]
    ]
    lines += [
        f"    cell {cell}: {claim['message']} (in {claim['runs']} runs)" for cell, claim in record["failed"].items()
    ]
    return "\n".join(lines)


def main() -> None:
    """Replicate the chapters and write the result."""
    if sys.argv[1:2] == ["--one"]:
        path, offset, target = sys.argv[2:]
        run_alone(Path(path), int(offset), Path(target))
        return
    parser = argparse.ArgumentParser(description="Run the chapters on fresh random numbers.")
    parser.add_argument("paths", nargs="*", type=Path, help="chapters; all if none is named")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"how many draws (default {RUNS})")
    parser.add_argument("--first", type=int, default=1, help="the first offset (default 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time (default: all cores)")
    options = parser.parse_args()
    if options.runs < RUNS:
        parser.error(f"--runs must be at least {RUNS}, so that 95 % can be told from less; got {options.runs}")
    if options.first < 1:
        parser.error(f"--first must be at least 1 (offset 0 is the chapter as it stands); got {options.first}")
    offsets = list(range(options.first, options.first + options.runs))
    for path in map(Path.resolve, options.paths or chapters()):
        record = replicate(path, offsets, options.jobs)
        results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
        results[path.stem] = {"date": datetime.date.today().isoformat(), **record}
        RESULTS.write_text(
            json.dumps(dict(sorted(results.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        print(report(path.stem, record))


if __name__ == "__main__":
    main()
