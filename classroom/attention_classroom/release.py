"""From a master to what a student gets: solutions and hidden checks taken out, visible checks put in as plain data.

`make_release` makes the notebook, `answers` the same one solved, `leaks` searches a release for what must not be in it,
and `validate` tries all of it on one variant.
"""

import ast
import base64
import contextlib
import copy
import functools
import hashlib
import io
import json
import re
import sys
import traceback
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from nbformat import NotebookNode

from attention_tutorial.exercises import judge, visible

from .assignment import Assignment, Check, Task, Variant, fill, load, plain_variant
from .course import CANVAS
from .rebuild import METADATA, NOT_WHEN_GRADED, Flag, add_modules, is_common, read, rebuild

__all__ = [
    "METADATA", "NOT_WHEN_GRADED", "VISIBLE", "answers", "beside", "checksum", "copied", "earned", "leaks",
    "make_release", "overlay", "own_answers", "run", "solve", "use_hidden", "validate",
]  # fmt: skip

MODULES, MODULE = 20, 200_000  # how many come along with a notebook; bytes of each
VISIBLE = "visible-checks"  # the cell that loads the packed tables
STUB = "# YOUR CODE HERE\n..."
TEXT_STUB = "*Your answer here.*"
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"

VISIBLE_SOURCE = '''# @title Run this cell: it holds the inputs on which `check` tries your answers
from attention_tutorial.exercises.visible import check, load

load(
    """
{text}
"""
)'''


# ---- The notebooks ---------------------------------------------------------------------------------------------------


def make_release(master: NotebookNode, assignment: Assignment, variant: Variant) -> NotebookNode:
    """Make the notebook that a student gets: no solutions, no hidden checks; the visible checks as plain data."""
    release = fill(master, assignment, variant)
    tasks = assignment.tasks(variant)
    debug = {task.id for task in tasks if task.kind == "debug"}
    for cell in release.cells:
        _clear_solution(cell, "" if cell.id in debug else STUB)
        if cell.id == VISIBLE:
            text = visible.pack({task.id: task.table for task in tasks if task.table is not None})
            cell.source = VISIBLE_SOURCE.format(text=text)
            cell.metadata["cellView"] = "form"
            cell.metadata["jupyter"] = {"source_hidden": True}
    return _finish(release, assignment, variant)


def answers(master: NotebookNode, assignment: Assignment, variant: Variant) -> NotebookNode:
    """Make what a student would hand in who knows everything: the release with the master's answers in it."""
    return solve(make_release(master, assignment, variant), master, assignment, variant)


def own_answers(master: NotebookNode, assignment: Assignment, variant: Variant) -> NotebookNode:
    """Return the master filled with a variant, without the lines that mark solutions."""
    full = fill(master, assignment, variant)
    for cell in full.cells:
        cell.source = "\n".join(line for line in cell.source.splitlines() if line.strip() not in (BEGIN, END))
    return full


def solve(release: NotebookNode, master: NotebookNode, assignment: Assignment, variant: Variant) -> NotebookNode:
    """Return a copy of a release with the master's answers in it."""
    solved = copy.deepcopy(release)
    full = {cell.id: cell.source for cell in own_answers(master, assignment, variant).cells}
    for cell in solved.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = full[cell.id]
    return solved


def overlay(
    received: Path, master: NotebookNode, assignment: Assignment, own: Variant, common: Variant
) -> tuple[Variant, NotebookNode, list[Flag]]:
    """Put what a student handed in into this student's own release, or the common one if it was made from that.

    Modules that lie beside the notebook come along; of other files it is said that they are there.

    Returns:
        The variant by which it is to be judged, the notebook, and what a teacher should know.

    Raises:
        Unreadable: if it is no notebook, or none of this assignment.
    """
    handed_in = read(received.read_bytes())
    release = make_release(master, assignment, own)
    everybodys = functools.cache(lambda: make_release(master, assignment, common))
    used = own
    if is_common(handed_in, release, everybodys):
        used, release = common, everybodys()
    notebook, flags = rebuild(handed_in, release)
    if used is common:
        words = "it is the notebook for everybody, not this student's own, and was judged as such"
        flags = [{"kind": "common", "task": "", "words": words}, *flags]
    kept, others = beside(received)
    add_modules(notebook, {name: path.read_bytes() for name, path in kept.items()})
    if others:
        words = f"handed in beside {received.name}, and not graded: {', '.join(others[:10])}"
        flags.append({"kind": "beside", "task": "", "words": words})
    return used, notebook, flags


def beside(received: Path) -> tuple[dict[str, Path], list[str]]:
    """Return the modules that lie beside a notebook, by the names that it imports, and the names of all other files."""
    modules: dict[str, Path] = {}
    others = []
    for path in sorted(path for path in received.parent.iterdir() if path.is_file() and path != received):
        name = re.sub(r"([ -]\(?\d+\)?)?\.py$", ".py", path.name)  # platforms count what comes twice
        canvas = CANVAS.fullmatch(name)
        name = canvas["file"] if canvas else name
        if re.fullmatch(r"[A-Za-z_]\w*\.py", name) and path.stat().st_size < MODULE and len(modules) < MODULES:
            modules[name] = path
        else:
            others.append(path.name)
    return modules, others


def _clear_solution(cell: NotebookNode, stub: str) -> None:
    """Put the stub in the place of each solution, or of all of an answer that marks none."""
    is_answer = cell.metadata.get("nbgrader", {}).get("solution", False)
    stub = stub if cell.cell_type == "code" else TEXT_STUB
    parts = re.split(rf"(?ms)^([ \t]*){BEGIN}\s*?\n.*?^[ \t]*{END}[ \t]*(?:\n|\Z)", cell.source)
    if BEGIN in "".join(parts) or END in "".join(parts) or (len(parts) > 1 and not is_answer):
        raise ValueError(f"the cell {cell.id} must have {BEGIN} and {END} in turns, each on a line, in an answer")
    if len(parts) > 1:
        indents = [*parts[1::2], ""]
        stubs = ("".join(f"{indent}{line}\n" for line in stub.splitlines()) for indent in indents[:-1])
        cell.source = "".join(piece for pair in zip(parts[::2], [*stubs, ""], strict=True) for piece in pair)
    elif is_answer:
        cell.source = stub
    cell.source = cell.source.rstrip()


def _finish(release: NotebookNode, assignment: Assignment, variant: Variant) -> NotebookNode:
    """Take out outputs, lock what is no answer, and keep of each answer how it is before it is filled in."""
    for cell in release.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        about = cell.metadata.get("nbgrader")
        if about is not None:
            cell.metadata["deletable"] = False
            if not about["solution"]:
                cell.metadata["editable"] = False
            about["checksum"] = checksum(cell)
    release.metadata[METADATA] = {"assignment": assignment.name, "variant": variant.mark}
    return release


def checksum(cell: NotebookNode) -> str:
    """Return what changes with a cell's source."""
    return hashlib.sha256(cell.source.strip().encode()).hexdigest()[:16]


def use_hidden(path: str | Path) -> None:
    """Load the visible checks of the plain variant straight from the hidden module, for a master that is run."""
    assignment = load(Path(path))
    tasks = assignment.tasks(plain_variant(assignment))
    visible.load(visible.pack({task.id: task.table for task in tasks if task.table is not None}))


# ---- Leaks -----------------------------------------------------------------------------------------------------------

SHORTEST_LINE = 12  # characters without blanks; what is shorter stands in any notebook


def leaks(release: NotebookNode, master: NotebookNode, assignment: Assignment, variant: Variant) -> list[str]:
    """Search a release for solutions, hidden checks and rubrics: also in its metadata and in what is packed.

    Returns:
        What was found, in words.
    """
    texts = list(dict.fromkeys(_texts(release)))
    texts += [unpacked for text in texts for unpacked in _unpacked(text)]
    faults = [f"the marker {marker!r}" for marker in (BEGIN, END) if any(marker in text for text in texts)]
    faults += [f"outputs of the cell {cell.id}" for cell in release.cells if cell.get("outputs")]
    squeezed = _squeeze("\n".join(texts))
    allowed = _squeeze("\n".join(_shown(master, assignment, variant)))
    for secret, where in _secrets(master, assignment, variant):
        needle = _squeeze(secret)
        if len(needle) >= SHORTEST_LINE and needle not in allowed and needle in squeezed:
            faults.append(where)
    return list(dict.fromkeys(faults))


def _texts(x: Any) -> Iterator[str]:
    """Yield every text of a notebook, its keys included."""
    if isinstance(x, Mapping):
        for key, value in x.items():
            yield str(key)
            yield from _texts(value)
        return
    yield str(x)
    if isinstance(x, list | tuple):
        for value in x:
            yield from _texts(value)


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _unpacked(text: str) -> Iterator[str]:
    """Yield what long runs of letters and digits are unpacked, as the visible checks are packed."""
    for run in re.findall(r"[A-Za-z0-9+/=]{24,}", re.sub(r"\s*\n\s*", "", text)):
        with contextlib.suppress(ValueError, zlib.error):
            yield zlib.decompress(base64.b64decode(run)).decode("utf-8", "replace")


def _solutions(cell: NotebookNode) -> tuple[list[str], list[str]]:
    """Return the lines of a cell outside and inside its solution."""
    lines = cell.source.splitlines()
    is_answer = cell.metadata.get("nbgrader", {}).get("solution", False)
    if is_answer and BEGIN not in cell.source:
        return [], lines
    outside: list[str] = []
    inside: list[str] = []
    within = False
    for line in lines:
        if line.strip() in (BEGIN, END):
            within = line.strip() == BEGIN
        else:
            (inside if within else outside).append(line)
    return outside, inside


def _shown(master: NotebookNode, assignment: Assignment, variant: Variant) -> list[str]:
    """Return what a release may show: the master outside its solutions."""
    cells = [cell for cell in fill(master, assignment, variant).cells if cell.id != VISIBLE]
    return ["\n".join(_solutions(cell)[0]) for cell in cells]


def _secrets(master: NotebookNode, assignment: Assignment, variant: Variant) -> Iterator[tuple[str, str]]:
    """Yield lines of solutions and of the hidden module's functions, rubrics, hidden inputs, and where each is from."""
    for cell in fill(master, assignment, variant).cells:
        for line in _solutions(cell)[1]:
            yield line, f"a line of the solution of {cell.id}: {line.strip()}"
    for name, value in variant.values.items():
        if name.startswith("hidden"):
            yield f"{value}", f"the value {name}"
    for task in assignment.tasks(variant):
        for _, words in task.rubric:
            yield words, f"the rubric of {task.id}: {words}"
        seen = [json.dumps(visible.encode(case.inputs)) for case in task.table.cases] if task.table else []
        for check in task.checks:
            for inputs in (json.dumps(visible.encode(case.inputs)) for case in check.cases):
                if inputs not in seen:
                    yield inputs, f"an input of the hidden check {check.says!r} of {task.id}"
    if assignment.source is not None:
        for line in _lines_of_functions(assignment.source.read_text(encoding="utf-8")):
            yield line, f"a line of the hidden module: {line}"


@functools.lru_cache(maxsize=1)
def _lines_of_functions(source: str) -> list[str]:
    bodies = [node.body for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    statements = [statement for body in bodies for statement in (body if isinstance(body, list) else [body])]
    lines = ast.expr | ast.Return | ast.Assign | ast.AugAssign
    return [ast.unparse(statement) for statement in statements if isinstance(statement, lines)]


# ---- Trying it -------------------------------------------------------------------------------------------------------


def run(notebook: NotebookNode, *, skip: Iterable[str] = ()) -> tuple[dict[str, Any], dict[str, str]]:
    """Run a notebook's code in this process, as the master's author: never what a student sent.

    Returns:
        Its names, and what its cells printed, by their ids. A cell that raises is told by a `RuntimeError`.
    """
    default = torch.get_default_dtype()
    names: dict[str, Any] = {"__name__": "__main__"}
    printed: dict[str, str] = {}
    try:
        for cell in notebook.cells:
            if cell.cell_type != "code" or cell.id in set(skip):
                continue
            try:
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(cell.source, f"<cell {cell.id}>", "exec"), names)
            except Exception as error:
                raise RuntimeError(f"the cell {cell.id} raised\n{traceback.format_exc()}") from error
            printed[cell.id] = out.getvalue()
    finally:
        torch.set_default_dtype(default)
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
    return names, printed


def earned(tasks: Iterable[Task], names: Mapping[str, Any]) -> dict[str, float]:
    """Return the automatic points of each task, judged in this process."""
    return {
        task.id: sum(
            check.points
            for check in task.checks
            if _passes(task, check, task.with_numbers(names.get(task.name), names.get(task.numbers)))
        )
        for task in tasks
    }


def _passes(task: Task, check: Check, answer: Any) -> bool:
    assert task.table is not None
    return judge(task.table, answer, cases=check.cases, seconds=task.seconds) is None


def copied(master: NotebookNode, assignment: Assignment, variants: Sequence[Variant]) -> float:
    """Return the share of the automatic points that each variant's student earns with the answers of the one before."""
    gained = most = 0.0
    for i, variant in enumerate(variants):
        theirs = fill(master, assignment, variants[i - 1])
        theirs.cells = [cell for cell in theirs.cells if NOT_WHEN_GRADED not in cell.metadata.get("tags", [])]
        tasks = [task for task in assignment.tasks(variant) if task.table is not None]
        names, _ = run(theirs, skip=[f"{task.id}-plot" for task in tasks])
        gained += sum(earned(tasks, names).values())
        most += sum(task.automatic for task in tasks)
    return gained / most


def validate(master: NotebookNode, assignment: Assignment, variant: Variant) -> list[str]:
    """Try an assignment: solved it earns everything, unfilled nothing, no wrong answer passes, and nothing leaks.

    Returns:
        What is wrong, in words.
    """
    tasks = assignment.tasks(variant)
    faults = list(_wrong_cells(master, tasks))
    release = make_release(master, assignment, variant)
    faults += [f"the release holds {leaked}" for leaked in leaks(release, master, assignment, variant)]
    solved = solve(release, master, assignment, variant)
    for notebook, name in ((release, "unfilled release"), (solved, "solved notebook")):
        try:
            names, printed = run(notebook)
        except RuntimeError as error:
            faults.append(f"the {name} does not run to the end: {error}")
            continue
        for task in tasks:
            wanted = 0.0 if notebook is release else task.automatic
            points = earned([task], names)[task.id]
            if points != wanted:
                faults.append(f"the {name} earns {points:g} points for {task.id}; expected {wanted:g}")
            output = printed.get(f"{task.id}-check", "")
            if task.table is not None and ("right on all inputs" in output) != (notebook is not release):
                faults.append(f"the check of {task.id} in the {name} says {output.strip()!r}")
    for task in tasks:
        faults += _wrongly_told(task)
    return faults


def _wrong_cells(master: NotebookNode, tasks: Iterable[Task]) -> Iterator[str]:
    """Yield where the master's cells are not those of the tasks."""
    there = {cell.id: cell for cell in master.cells}
    wanted: dict[str, tuple[bool, bool, float]] = {}  # grade, solution, points
    for task in tasks:
        written = task.kind == "written"
        if not written:
            wanted |= {task.id: (False, True, 0.0), f"{task.id}-check": (True, False, task.automatic)}
        if written or task.by_hand:
            wanted[task.id if written else f"{task.id}-plot"] = (True, True, task.by_hand)
    for name, (grade, solution, points) in wanted.items():
        if name not in there:
            yield f"the master has no cell {name}"
            continue
        about = there[name].metadata.get("nbgrader", {})
        got = (about.get("grade"), about.get("solution"), float(about.get("points", 0)))
        if got != (grade, solution, points) or about.get("grade_id") != name:
            yield f"the cell {name} must have grade, solution and points {(grade, solution, points)}; got {got}"
    for name, cell in there.items():
        about = cell.metadata.get("nbgrader", {})
        if (about.get("grade") or about.get("solution")) and name not in wanted:
            yield f"the cell {name} belongs to no task"
        if (name.endswith("-check") or name == VISIBLE) and NOT_WHEN_GRADED not in cell.metadata.get("tags", []):
            yield f"the cell {name} must be tagged {NOT_WHEN_GRADED}"


def _wrongly_told(task: Task) -> Iterator[str]:
    """Yield the wrong answers that are told as others, by the table or by what is packed of it, or that pass."""
    if task.table is None:
        return
    packed = visible.from_data(visible.to_data(task.table))
    for number, wrong in enumerate(task.table.wrong_answers):
        diagnosis = judge(task.table, wrong.answer)
        again = judge(packed, wrong.answer)
        message = wrong.message if isinstance(wrong.message, str) else "a message made from the inputs"
        name = f"wrong answer {number} of {task.id} ({message})"
        if diagnosis is None or diagnosis.wrong_answer is not wrong:
            yield f"{name} is told as {'right' if diagnosis is None else repr(diagnosis.message)}"
        elif again is None or again.message != diagnosis.message:
            yield f"{name} is told otherwise when packed: {again and again.message!r}, not {diagnosis.message!r}"
        if all(_passes(task, check, wrong.answer) for check in task.checks):
            yield f"{name} earns full marks"
