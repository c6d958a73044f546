"""Re-execute the chapters in place, so that what the book shows is what its code prints.

    python -m tools.notebooks                     every chapter, in order (this is `make notebooks`)
    python -m tools.notebooks PATH ...            only these
    python -m tools.notebooks --check [PATH ...]  execute and compare with what is stored; write nothing
    python -m tools.notebooks --force [PATH ...]  write also where only digits differ that vary by nature (below)
    python -m tools.notebooks --draft [PATH ...]  do not run what changed under other profiles (below)

The same code gives the same bytes (tools/execution.py). A notebook is written only when all its cells ran, and, if more
than its pictures changed, when they print the same under two numeric profiles (QUICK in tools/profiles.py), as other
processors would run them; `make test-portable` runs all.

Some results vary by nature, above all times. Such digits stand after "measured ≈" (`claim(..., stable=False)`), and a
cell that draws them has the metadata `{"attention_tutorial": {"measures_time": true}}`. Where a notebook's fresh
outputs differ in nothing else, the file stays as it is.

A code cell with the metadata `{"attention_tutorial": {"figure": "NAME"}}` also has its picture written to
`book/images/NAME.svg`, which is how the README and the start page show a figure without a drawing of their own.
"""

import argparse
import copy
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.book import ROOT, chapters, read
from tools.execution import CellFailed, execute, normalise, render, snap_outputs, without_what_varies
from tools.profiles import printed, verify

IMAGES = ROOT / "book" / "images"


def figures(notebook: NotebookNode) -> dict[str, bytes]:
    """Return the drawing of every cell that names one in its metadata, by name."""
    named = {}
    for cell in notebook.cells:
        name = cell.metadata.get("attention_tutorial", {}).get("figure")
        if name is None:
            continue
        pictures = [o.data["image/svg+xml"] for o in cell.get("outputs", []) if "image/svg+xml" in o.get("data", {})]
        if len(pictures) != 1 or name in named:
            raise ValueError(f"figure {name!r} needs one cell with one picture; cell {cell.id} has {len(pictures)}")
        named[name] = "".join(pictures[0]).encode()
    return named


def refresh(
    path: Path,
    images: Path = IMAGES,
    *,
    check: bool = False,
    force: bool = False,
    verify: Callable[[NotebookNode, Path], None] = lambda notebook, folder: None,
) -> bool:
    """Execute one notebook and bring the file and its named figures up to date; return whether anything differed.

    With `check`, nothing is written; with `force`, what varies by nature counts as a difference too. Before anything is
    written, `verify` may raise CellFailed; it is asked where more than pictures changed.
    """
    stored = read(path)
    notebook = normalise(copy.deepcopy(stored))
    execute(notebook, path.parent)
    normalise(notebook)
    if not force and len(notebook.cells) == len(stored.cells):
        for fresh, old in zip(notebook.cells, stored.cells, strict=True):
            snap_outputs(fresh.get("outputs", []), old.get("outputs", []))
    if not force and without_what_varies(notebook) == without_what_varies(stored):
        notebook = stored
    wanted = {path: render(notebook).encode()}
    wanted |= {images / f"{name}.svg": picture for name, picture in figures(notebook).items()}
    stale = {file: data for file, data in wanted.items() if not file.exists() or file.read_bytes() != data}
    if stale and not check:
        if [printed(cell) for cell in notebook.cells] != [printed(cell) for cell in stored.cells]:  # more than pictures
            verify(notebook, path.parent)
        for file, data in stale.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            scratch = file.with_suffix(".partial")  # a stop half-way through leaves the old file whole
            scratch.write_bytes(data)
            scratch.replace(file)
    return bool(stale)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 0 when every notebook ran (and, with --check, was up to date)."""
    parser = argparse.ArgumentParser(description="Re-execute the chapters in place, deterministically.")
    parser.add_argument("paths", nargs="*", type=Path, help="notebooks (default: all chapters, in order)")
    parser.add_argument("--check", action="store_true", help="compare with what is stored; write nothing")
    parser.add_argument("--force", action="store_true", help="write also where only unstable digits differ")
    parser.add_argument("--draft", action="store_true", help="do not run what changed under other profiles")
    parser.add_argument("--images", type=Path, default=IMAGES, help="where the named figures go (default: book/images)")
    options = parser.parse_args(arguments)

    import matplotlib.font_manager  # noqa: F401  the font cache is built here, not with a warning inside a chapter

    switches = {"check": options.check, "force": options.force}
    switches |= {} if options.draft else {"verify": verify}
    failures = 0
    for path in options.paths or chapters():
        print(f"{path.name} ... ", end="", flush=True)
        start = time.perf_counter()
        try:
            changed = refresh(path.resolve(), options.images, **switches)
        except (CellFailed, ValueError, nbformat.ValidationError) as error:
            failures += 1
            print(f"failed; the file is as it was\n{error}\n")
            continue
        if changed and options.check:
            failures += 1
        verdict = ("differs from what is stored" if options.check else "updated") if changed else "unchanged"
        print(f"{time.perf_counter() - start:.1f} s, {verdict}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
