"""Run notebooks as other processors would: what they print must not depend on the order of a sum.

    python -m tools.profiles              every notebook, and the translator (this is `make test-portable`)
    python -m tools.profiles PATH ...     these notebooks

A notebook runs once under each of PROFILES and is compared, letter by letter, with what is stored. `make notebooks`
does so under two of them with whatever changed, before it writes.

The translator that the package ships is checked in the same way: under each profile it must write the same sentences,
and one trained anew must pass the same exam.
"""

import argparse
import concurrent.futures
import copy
import difflib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import nbformat
import torch
from nbformat import NotebookNode

from tools import execution
from tools.book import ROOT, chapters, read

# What a processor may do otherwise. PyTorch's own kernels and MKL's are chosen by variables; the last one, which stands
# for processors that this machine is not, is a module that Python imports first.
PROFILES: dict[str, dict[str, str]] = {
    "native": {},
    "no vector instructions": {"ATEN_CPU_CAPABILITY": "default"},
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "compatible, one thread": {"MKL_CBWR": "COMPATIBLE", "OMP_NUM_THREADS": "1"},
    "sums reversed": {"PYTHONPATH": str(ROOT / "tools" / "reversed_sums")},
}
# The two that find the most: random normal numbers are drawn in another order without vector instructions, and every
# sum, product of matrices and softmax rounds otherwise when it is reversed. The others change part of that.
QUICK = ("sums reversed", "no vector instructions")


def environment(profile: str) -> dict[str, str]:
    """Return the variables of a profile; what stands on the caller's PYTHONPATH stays, behind the profile's own."""
    variables = dict(PROFILES[profile])
    if "PYTHONPATH" in variables and os.environ.get("PYTHONPATH"):
        variables["PYTHONPATH"] += os.pathsep + os.environ["PYTHONPATH"]
    return variables


def printed(cell: NotebookNode) -> str:
    """Return what a cell left behind, as far as it must be the same on every machine; pictures are not compared."""
    bare = copy.deepcopy(cell)
    if "nbval-ignore-output" in cell.metadata.get("tags", []):  # the few, each with its reason, that no test compares
        bare.outputs = []
    for output in bare.get("outputs", []):
        for kind in (execution.PICTURE, execution.DRAWN):
            output.get("data", {}).pop(kind, None)
            output.get("metadata", {}).pop(kind, None)
    return execution.without_what_varies(nbformat.v4.new_notebook(cells=[bare]))


def differences(notebook: NotebookNode, folder: Path, profile: str) -> list[str]:
    """Run a notebook under a profile; say which cells do not print what the notebook holds, and what they print."""
    fresh = copy.deepcopy(notebook)
    try:
        execution.execute(fresh, folder, environment(profile))
    except execution.CellFailed as error:
        return [f"{profile}: {error}"]
    execution.normalise(fresh)
    differing = []
    for new, old in zip(fresh.cells, notebook.cells, strict=True):
        execution.snap_outputs(new.get("outputs", []), old.get("outputs", []))
        if printed(new) != printed(old):
            lines = difflib.ndiff(_lines(old), _lines(new))
            differing.append("\n".join([f"{profile}: cell {old.id}", *(line for line in lines if line[0] in "-+")]))
    return differing


def _lines(cell: NotebookNode) -> list[str]:
    outputs = cell.get("outputs", [])
    return [line for o in outputs for line in o.get("text", o.get("data", {}).get("text/plain", "")).splitlines()]


def distinct(profiles: Iterable[str] = PROFILES) -> list[str]:
    """Return the profiles without those that change nothing on this processor."""
    same_as_native = {"no vector instructions": "DEFAULT", "AVX2": "AVX2"}
    here = torch.backends.cpu.get_cpu_capability()
    return [profile for profile in profiles if same_as_native.get(profile) != here]


def check(notebook: NotebookNode, folder: Path, profiles: Iterable[str] = PROFILES) -> list[str]:
    """Run a notebook under profiles, as many at a time as there are cores; return every difference."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        slowest_first = reversed(distinct(profiles))
        runs = [pool.submit(differences, notebook, folder, profile) for profile in slowest_first]
        return [line for run in runs for line in run.result()]


def verify(notebook: NotebookNode, folder: Path) -> None:
    """Let a notebook pass that prints the same under the two quick profiles.

    Raises:
        CellFailed: if it does not.
    """
    if differing := check(notebook, folder, QUICK):
        raise execution.CellFailed("\n".join(["it prints something else under other profiles:", *differing]))


def check_translator() -> list[str]:
    """Let the shipped translator write, and train one anew, under each profile; return what differs."""

    def run(profile: str) -> str:
        command = [sys.executable, "-m", "tools.translator", "--check"]
        variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment(profile)}  # several run side by side
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr[-1000:] * bool(done.returncode)

    profiles = distinct()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        printed = dict(zip(profiles, pool.map(run, profiles), strict=True))
    return [
        f"{profile}: {words}" for profile, words in printed.items() if words != printed["native"] or "True" not in words
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 0 when everything passed."""
    parser = argparse.ArgumentParser(description="Run notebooks as other processors would.")
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks (default: every one, and the translator)")
    paths = parser.parse_args(arguments).paths
    jobs: dict[str, Callable[[], list[str]]] = {
        path.stem: partial(check, read(path), path.parent) for path in map(Path.resolve, paths or chapters())
    }
    if not paths:
        jobs["the translator"] = check_translator
    failures = 0
    for name, run in jobs.items():
        start = time.perf_counter()
        print(f"{name} ... ", end="", flush=True)
        faults = run()
        failures += bool(faults)
        verdict = "\n".join(["DIFFERS", *faults]) if faults else "the same"
        print(f"{time.perf_counter() - start:.0f} s, {verdict}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
