"""Run the chapters on fresh random numbers, and say in how many runs each claim holds.

    python -m tools.replicate                     every chapter whose record is old (this is `make replicate`)
    python -m tools.replicate PATH ...            only these; the others keep what was found for them
    python -m tools.replicate --runs 40 --first 100    all of them on other draws, none of them looked at before

A chapter draws all its random numbers from generators with a seed. Here each seed is moved by an offset, the same for
the whole chapter, so that nothing in the chapter has to know of it; offset 0 is the chapter as it stands. A statement
that fails is noted, and the chapter goes on. What was run is kept in `_build/replication`: a run that was stopped goes
on where it was. The result is `book/replication.json`, from which the page of claims says what held how often.

What is kept are the measured values, not verdicts: whether they are within a claim's bounds is judged where they are
read, so that another bound costs no run. A record is old where its chapter's code is another (computation.py). Then its
first and last draw are run again: if they measure what they did, to the last digit that is kept, only the code has
changed and not what it computes, and the record stays. Otherwise all draws are run.
"""

import argparse
import ast
import contextlib
import datetime
import io
import json
import math
import multiprocessing
import os
import sys
import types
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from tqdm import tqdm

from tools.book import ROOT, chapters, read
from tools.computation import fingerprint

RESULTS = ROOT / "book" / "replication.json"
KEPT = ROOT / "_build" / "replication"
RUNS = 20  # the least number that tells 95 % from less
APART = 1000  # between the seeds of two offsets; no chapter uses seeds so far apart
DIGITS = 6  # of a measured number
LIMIT = 900  # seconds for one run of a chapter


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
        ``{"claims": {id: measured}, "failed": {cell id: message}}``
    """
    move_seeds(offset)
    from attention_tutorial import notebook as package

    claims: dict[str, Any] = {}
    failed: dict[str, str] = {}

    def claim(id: str, sentence: str, measured: Any, **bounds: Any) -> None:
        claims[id] = measured.item() if hasattr(measured, "item") else measured

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


def run_alone(path: Path, offset: int, target: Path, log: Path) -> None:
    """Run a chapter in its folder, in a process of its own, and keep what it found, and in a log what it said."""
    sys.stdout = sys.stderr = log.open("w", encoding="utf-8", buffering=1)
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


def run_all(path: Path, offsets: Sequence[int], jobs: int) -> list[dict[str, Any]]:
    """Run a chapter on all offsets that are still to do; return what each run measured."""
    state = fingerprint(read(path))
    paths = {offset: KEPT / path.stem / f"{state}-{offset}.json" for offset in offsets}
    os.environ["OMP_NUM_THREADS"] = "1"
    processes = multiprocessing.get_context("forkserver")  # each is new, and need not import what all of them need
    processes.set_forkserver_preload(["torch", "torch.nn.functional", "matplotlib.pyplot", "ipywidgets", "IPython"])

    def start(offset: int) -> str:
        log = KEPT / path.stem / f"{offset}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        process = processes.Process(target=run_alone, args=(path, offset, paths[offset], log))
        process.start()
        process.join(LIMIT)
        process.kill()
        return "" if paths[offset].is_file() else f"offset {offset}: {log.read_text(encoding='utf-8')[-1000:]}"

    todo = [offset for offset in offsets if not paths[offset].is_file()]
    with ThreadPoolExecutor(jobs) as pool:
        problems = list(filter(None, tqdm(pool.map(start, todo), path.stem, len(todo), disable=not todo)))
    if problems:
        raise SystemExit("\n".join([f"{path.name} did not run:", *problems]))
    return [json.loads(path_of_run.read_text(encoding="utf-8")) for path_of_run in paths.values()]


def replicate(path: Path, offsets: Sequence[int], jobs: int) -> dict[str, Any]:
    """Return a new record of a chapter."""
    return {"offsets": [offsets[0], offsets[-1]], **gather(run_all(path, offsets, jobs))}


def confirms(record: dict[str, Any], run: dict[str, Any], place: int) -> bool:
    """Return whether a run measured again what the record has at its place among the draws."""
    before = {id: values[place] if isinstance(values, list) else values for id, values in record["claims"].items()}
    now = {id: _rounded(value) for id, value in run["claims"].items()}
    same = now.keys() == {id for id, value in before.items() if value is not None}
    return (
        same
        and not any(varies([before[id], value]) for id, value in now.items())
        and run["failed"].keys() <= record["failed"].keys()
    )


def renew(path: Path, record: dict[str, Any], jobs: int) -> dict[str, Any]:
    """Return the record of a chapter whose code has changed: as it is, if two of its draws confirm it, or a new one."""
    first, last = record["offsets"]
    both = run_all(path, (first, last), jobs)
    if all(confirms(record, run, place) for run, place in zip(both, (0, -1), strict=True)):
        return record
    return replicate(path, range(first, last + 1), jobs)


def gather(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Put the runs of a chapter together.

    Args:
        runs: what `run` returned, for each offset.

    Returns:
        ``{"claims": {id: values}, "failed": {cell id: {"runs", "message"}}}``. Values are a list with one for each run
        (None where a run did not reach the claim), or a single one where all are the same but for rounding.
    """
    claims: dict[str, Any] = {}
    for id in dict.fromkeys(id for run in runs for id in run["claims"]):
        values = [_rounded(run["claims"].get(id)) for run in runs]
        claims[id] = values if varies(values) else values[0]
    failed: dict[str, dict[str, Any]] = {}
    for run in runs:
        for cell, message in run["failed"].items():
            failed.setdefault(cell, {"runs": 0, "message": message})["runs"] += 1
    return {"claims": claims, "failed": failed}


def _rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def varies(values: list[Any]) -> bool:
    """Return whether values differ by more than what rounding leaves between two orders of a sum."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return not all(math.isclose(value, values[0], rel_tol=10.0**-DIGITS, abs_tol=1e-9) for value in values)
    return any(value != values[0] for value in values)


def write(results: dict[str, Any]) -> None:
    """Write the record of all chapters, one line for each claim."""
    chapters = []
    for name, record in sorted(results.items()):
        claims = ",\n".join(f"   {json.dumps(id)}: {json.dumps(value)}" for id, value in record["claims"].items())
        fields = {key: json.dumps(value) for key, value in sorted(record.items())}
        fields |= {"claims": f"{{\n{claims}\n  }}"} if claims else {}
        chapters.append(f' "{name}": {{\n' + ",\n".join(f'  "{key}": {text}' for key, text in fields.items()) + "\n }")
    RESULTS.write_text("{\n" + ",\n".join(chapters) + "\n}\n", encoding="utf-8")


def main() -> None:
    """Replicate the chapters and write the result."""
    parser = argparse.ArgumentParser(description="Run the chapters on fresh random numbers.")
    parser.add_argument("paths", nargs="*", type=Path, help="chapters; all if none is named")
    parser.add_argument("--runs", type=int, help=f"how many draws (default {RUNS}, or as many as before)")
    parser.add_argument("--first", type=int, help="the first offset (default 1, or as before)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time (default: all cores)")
    options = parser.parse_args()
    runs, first = options.runs or RUNS, 1 if options.first is None else options.first
    if runs < RUNS:
        parser.error(f"--runs must be at least {RUNS}, so that 95 % can be told from less; got {runs}")
    if first < 1:
        parser.error(f"--first must be at least 1 (offset 0 is the chapter as it stands); got {first}")
    for path in map(Path.resolve, options.paths or chapters()):
        records = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
        before, state = records.get(path.stem), fingerprint(read(path))
        if before is None or options.runs or options.first:
            record = replicate(path, range(first, first + runs), options.jobs)
        elif before["state"] != state:
            record = renew(path, before, options.jobs)
        else:
            continue
        dated = {} if record is before else {"date": datetime.date.today().isoformat()}
        write({**records, path.stem: {**record, **dated, "state": state}})
        varying = sum(isinstance(values, list) for values in record["claims"].values())
        kept = ", as before" if record is before else ""
        print(f"{path.stem}: {varying} of {len(record['claims'])} claims vary with the draw{kept}", flush=True)
        for cell, failure in record["failed"].items():
            print(f"    cell {cell}: {failure['message']} (in {failure['runs']} runs)")


if __name__ == "__main__":
    main()
