"""Grading: a submission's cells run in a sandbox, its answers are judged here.

`grade` grades one notebook. The child runs the cells and answers calls; the tables, right answers and hidden cases stay
in this process, where `judge` asks a `Remote` as if it were the answer itself. `batch` grades a whole course.

Flags say what a teacher should know beside the points. Their kinds:

    error      a cell raised, or an answer lacks a name     missing    what a task asks for is not in the notebook
    timeout    stopped after its time                       memory     more memory than allowed
    crash      the code ended Python itself                 files      more files than allowed
    output     more output than is kept                     broken     an answer that is no plain data
    common     the notebook for everybody, judged as such    ungraded   the grader failed: not the student's fault
    beside     handed in beside the notebook, not graded
    and those of `rebuild`: tampered, edited, duplicate, guessed, ids, picture, variant, unreadable
"""

import base64
import struct
import sys
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypedDict

import torch

from attention_tutorial.exercises import Mistake, Outcome, judge

from . import protocol
from .assignment import Assignment, Check, Task, Variant
from .rebuild import EXTRA, METADATA, NOT_WHEN_GRADED, Flag, defined
from .sandbox import PICTURES, Child, Died, Limits, NoSandbox, Sandbox, TooLong

if TYPE_CHECKING:
    from nbformat import NotebookNode

__all__ = ["Flag", "Limits", "Result", "grade"]

RESTARTS = 10  # of a child, in one submission; how long it takes is limited besides
STOPS = 2  # of an answer; after that its other checks are not tried, so that there is time for the other answers
KEPT = 24_000_000  # characters of all that one submission shows, its figures among them
FLAGS = 30  # of one kind, so that many of one do not hide another
PIXELS = 4000  # of a figure, in each direction
DRAWS = {b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"}  # chunks of a PNG; all others are left out
LACKS = ("FileNotFoundError", "ImportError", "ModuleNotFoundError", "NameError")  # raised where something is not there
NOT_THERE = "is not there when you are graded"  # in any error of a package that is not there
FOR_ADDED = 0.5  # of a submission's time, for the cells that the student added; the answers keep the rest
SHORT = 1.0  # seconds that an added cell has after that, until half of the rest is used too
TIME_UP = "TimeUp"  # as the worker says that it stopped a cell
GRACE = 1.0  # seconds until a child is killed that does not stop a cell itself
JUDGE_S = 20.0  # beyond an answer's own time: for what is computed here


class CheckResult(TypedDict):
    """What a hidden check gave."""

    says: str
    points: float
    max: float
    words: str


class TaskResult(TypedDict):
    """What a task gave: points of the hidden checks, of at most ``max``; ``by_hand`` more are given by hand."""

    points: float
    max: float
    by_hand: float
    words: list[str]
    mistakes: list[str]
    checks: list[CheckResult]


class Result(TypedDict):
    """What grading a submission gave, as it is stored."""

    student: str
    assignment: str
    key: str  # of all that it depends on
    sandbox: str
    seconds: float
    flags: list[Flag]
    tasks: dict[str, TaskResult]
    cells: dict[str, list[dict[str, str]]]


# ---- One submission's child, through its restarts --------------------------------------------------------------------


class _OutOfTime(Exception):
    """A submission has used all its time, or all its restarts."""


@dataclass
class _Session:
    """A child for one submission, started again without what stopped it."""

    sandbox: Sandbox
    limits: Limits
    private: Sequence[Path] = ()
    child: Child | None = None
    starts: int = 0
    used: float = 0.0
    for_added: float = 0.0  # how much of the time may be used before added cells have a short one only
    done: list[tuple[dict[str, Any], float]] = field(default_factory=list)  # for a new child; an added cell's seconds

    def __post_init__(self) -> None:
        self.for_added = FOR_ADDED * self.limits.total_s

    def ready(self) -> Child:
        """Return a living child in which all is done that was done, but for long cells that no time is left for."""
        while self.child is None:
            if self.starts > RESTARTS:
                raise _OutOfTime(f"it was started again {RESTARTS} times")
            self.starts += 1
            self.child = self.sandbox.start(self.limits, private=self.private)
            for entry in list(self.done):
                request, seconds = entry
                if seconds > SHORT and self.used + seconds > self.for_added:
                    continue
                try:
                    self._send(request, self.limits.cell_s + GRACE)
                except (TooLong, Died):  # it went well the first time: not again, then
                    self.done.remove(entry)
                    break
        return self.child

    def request(self, seconds: float, *, keep: bool = False, added: bool = False, **request: Any) -> Mapping[str, Any]:
        """Have the child do something; ``keep`` what has to be done again by the next child."""
        self.ready()
        before = self.used
        reply = self._send(request, seconds)
        if keep:
            self.done.append((request, added * (self.used - before)))
        return reply

    def _send(self, request: dict[str, Any], seconds: float) -> Mapping[str, Any]:
        assert self.child is not None
        left = self.limits.total_s - self.used
        if left <= 0:
            raise _OutOfTime(f"all its cells and answers together took more than {self.limits.total_s:g} seconds")
        begun = time.monotonic()
        try:
            return self.child.request(seconds=min(seconds, left), **request)
        except (TooLong, Died):
            self.child = None
            raise
        finally:
            self.used += time.monotonic() - begun

    def close(self) -> None:
        """End the child."""
        if self.child is not None:
            self.child.close()
            self.child = None


# ---- An answer that runs elsewhere -----------------------------------------------------------------------------------


def _not_filled_in() -> NoReturn:
    raise NotImplementedError  # `call` sees by this line that it is a stub


@dataclass(eq=False)
class Remote:
    """A student's function in a child, to be called like any other."""

    session: _Session
    task: Task
    parameters: Sequence[str] = ()
    does: bool = True
    until: float = 0.0  # has its check time
    flags: dict[str, str] = field(default_factory=dict)
    numbers: Any = None  # with which it is judged

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Call the function.

        Raises:
            Mistake: in the words of `attention_tutorial.exercises`, if it raises, ends Python or changes its arguments.
            NotImplementedError: if it is a stub.
        """
        if self.session.child is None:
            raise Mistake("your code was stopped")
        reply = self._ask(inputs, named)
        if reply.get("too_much") is True:
            self.flags["output"] = "the function prints more than is kept"
        if reply.get("exit") is True:
            raise Mistake("your code called exit(); return the result instead")
        error = reply.get("error")
        if isinstance(error, dict):
            if error.get("stub") is True:
                _not_filled_in()
            if error.get("memory") is True:
                self.flags["memory"] = f"more than {self.session.limits.memory_mb} MB of memory were asked for"
            raise Mistake(_raised(error), Outcome.RAISED, _text(error.get("type"), 60))
        result = reply.get("value")
        if result is None or result is Ellipsis:
            if self.does:
                raise Mistake("your function returns nothing; hand the result back with return (print only shows it)")
            _not_filled_in()
        after = reply.get("args")
        for i, (old, new) in enumerate(zip(inputs, after if isinstance(after, list) else inputs, strict=False)):
            if protocol.pack(old, grads=False) != protocol.pack(new, strict=False, grads=False):
                name = self.parameters[i] if i < len(self.parameters) else f"number {i + 1}"
                raise Mistake(f"your function changed its arguments ({name}); work on new tensors")
        return result

    def _ask(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
        limits = self.session.limits
        seconds = min(limits.call_s, self.until - time.monotonic())
        try:
            return self.session.request(
                max(seconds, 0.01),
                do="call",
                task=self.task.id,
                args=list(inputs),
                named=dict(named),
                dtype=str(torch.get_default_dtype()).removeprefix("torch."),
                grad=torch.is_grad_enabled(),
            )
        except TooLong as error:
            self.flags["timeout"] = "the answer was still running after its time and was stopped"
            raise Mistake(
                f"your code was still running after {max(seconds, 0):.0f} seconds and was stopped: one call may take "
                f"{limits.call_s:g} seconds, all calls of one check together {self.task.seconds:g}, and all cells and "
                f"calls of your notebook {limits.total_s:g}; look for a loop that never ends or is very long",
                Outcome.TOO_SLOW,
            ) from error
        except Died as error:
            self.flags[error.kind] = f"while the answer ran: {error}"
            raise Mistake(f"your code ended Python itself while it was judged: {error}") from error
        except _OutOfTime as error:
            self.flags["timeout"] = str(error)
            raise Mistake(f"your notebook has used all its time: {error}") from error


def _raised(error: Mapping[str, Any]) -> str:
    """Say what was raised, as `attention_tutorial.exercises.runner.raised` does."""
    kind, message, line = (_text(error.get(key), size) for key, size in (("type", 60), ("message", 300), ("line", 200)))
    words = f"your code raised {kind or 'an error'}{f': {message}' if message else ''}"
    return f"{words.rstrip('.')} (in the line `{line}`)" if line else words


def _text(x: Any, size: int) -> str:
    """Return a text that a child sent: short, and without what a terminal or a page could take for a command."""
    if not isinstance(x, str):
        return ""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in x[:size])


def _texts(x: Any) -> list[str]:
    return [_text(item, 80) for item in x[:20]] if isinstance(x, list) else []


# ---- One submission --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cell:
    """A cell of code, and what it is there for."""

    id: str
    source: str
    kind: str  # "answer", "extra", "released" or "check"


def _cells(notebook: "NotebookNode", tasks: Sequence[Task]) -> list[_Cell]:
    checks = {f"{task.id}-check" for task in tasks}
    cells = []
    for i, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        about = cell.metadata.get("nbgrader") or {}
        name = str(about.get("grade_id") or cell.get("id") or f"cell-{i}")
        if name in checks or (about.get("grade") and not about.get("solution")):
            kind = "check"
        elif NOT_WHEN_GRADED in cell.metadata.get("tags", ()) and not about.get("solution"):
            continue
        elif about.get("solution"):
            kind = "answer"
        else:
            kind = "extra" if cell.metadata.get(METADATA, {}).get(EXTRA) else "released"
        cells.append(_Cell(name, str(cell.source), kind))
    return cells


@dataclass
class _Grading:
    """One submission while it is graded."""

    tasks: Sequence[Task]
    session: _Session
    limits: Limits
    flags: list[Flag] = field(default_factory=list)
    newer: str = ""  # said of what is no Python here, if the notebook was written with a newer one
    results: dict[str, TaskResult] = field(default_factory=dict)
    shown: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)  # of cells
    open: list[Task] = field(default_factory=list)  # not filled in, or in need of what comes later
    kept: int = 0  # letters of what was shown so far
    early: list[_Cell] = field(default_factory=list)  # cells that use a name which was not there yet, or had no time
    lacking: dict[str, str] = field(default_factory=dict)  # by tasks: what an answer said that needs what is not there
    elsewhere: dict[str, list[str]] = field(default_factory=dict)  # by tasks: added cells that define the answer too

    def flag(self, kind: str, task: str, words: str) -> None:
        """Add a flag, once."""
        flag: Flag = {"kind": kind, "task": task, "words": words}
        if flag not in self.flags and sum(other["kind"] == kind for other in self.flags) < FLAGS:
            self.flags.append(flag)

    def task_of(self, cell: str) -> str:
        """Return the task that a cell belongs to, or nothing."""
        return next((task.id for task in self.tasks if cell in (task.id, f"{task.id}-plot")), "")

    def run(self, cells: Sequence[_Cell]) -> None:
        """Run the cells; judge each task where its check stands.

        What needs a name that comes further down is tried again at the end: in a notebook the cells may have been run
        in another order. So are added cells for which there was no time before the answers had theirs.
        """
        judged = [task for task in self.tasks if task.table is not None]
        waiting = {f"{task.id}-check": task for task in judged}
        below: list[Task] = []  # what is defined again below its check
        for cell in cells:
            if cell.kind != "check":
                self.run_cell(cell)
            elif cell.id in waiting:
                self.judge(waiting.pop(cell.id))
            for task in judged if cell.kind == "extra" else ():
                if task.name in defined(cell.source):
                    self.elsewhere.setdefault(task.id, []).append(cell.id)
                    below += [task] * (f"{task.id}-check" not in waiting and task not in [*below, *self.open])
        left = self.limits.total_s - self.session.used
        self.session.for_added = self.limits.total_s - (1 - FOR_ADDED) * left
        for cell in sorted(self.early, key=lambda cell: cell.id in self.errors):  # first what only had no time
            self.run_cell(cell)
        for task in [*waiting.values(), *self.open]:
            self.judge(task, last=True)
        for task in below:
            if self.results[task.id]["points"] < task.automatic:
                self.judge(task, last=True)
        for task in judged:
            if self.lacking[task.id]:
                self.flag("error", task.id, f"the answer needs what is not there: {self.lacking[task.id]}")
            if task.id in self.elsewhere and self.results[task.id]["points"] < task.automatic:
                where = ", ".join(self.elsewhere[task.id][:5])
                words = f"`{task.name}` is defined in other cells too ({where}); what earned most counts"
                self.flag("guessed", task.id, words)

    def run_cell(self, cell: _Cell) -> None:
        """Run a cell. If it does not end, or ends Python, the others go on without it."""
        task = self.task_of(cell.id)
        added = cell.kind == "extra"
        left, kept = self.limits.total_s - self.session.used, self.limits.total_s - self.session.for_added
        late = added and (left < kept / 2 or self.session.starts > RESTARTS / 2)
        short = late or (added and left < kept)
        seconds = 0.0 if late else SHORT if short else self.limits.cell_s
        too_long = f"was stopped after {seconds:g} second{'s' * (seconds != 1)}" if seconds else "was not run"
        if short:
            too_long += (
                f": the answers keep half of your notebook's {self.limits.total_s:g} seconds and of its restarts"
            )
        request = {"cell": cell.id, "source": cell.source, "stop_s": seconds}
        try:
            reply: Mapping[str, Any] = {"error": {"type": TIME_UP}}
            if seconds:
                reply = self.session.request(seconds + GRACE, keep=True, added=added, do="run", **request)
        except TooLong:
            reply = {"error": {"type": TIME_UP}}
        except Died as error:
            words = f"ended Python itself: {error}"
            self.stopped(cell, error.kind, words)
            return
        except _OutOfTime as error:
            self.stopped(cell, "timeout", f"was not run any more: {error}")
            return
        begun = time.monotonic()
        outputs = _outputs(reply.get("shown"), self.limits.output_kb) if self.kept < KEPT else []
        self.session.used += time.monotonic() - begun
        self.kept += sum(len(text) for output in outputs for text in output.values())
        if self.kept >= KEPT:
            outputs = [{"text": "(not kept, since the notebook shows too much in all)"}]
            self.flag("output", "", f"its cells show more than {KEPT // 10**6} MB in all; the rest is not kept")
        raised = reply.get("error")
        if isinstance(raised, dict) and raised.get("type") == TIME_UP:
            if short and cell not in self.early:
                self.early.append(cell)
            else:
                self.stopped(cell, "timeout", too_long, outputs)
        elif isinstance(raised, dict):
            kind, message = _text(raised.get("type"), 60), _text(raised.get("message"), 300)
            self.errors[cell.id] = f"{kind}: {message}".strip(": ")
            if kind == "SyntaxError":
                self.errors[cell.id] += self.newer
            outputs.append({"error": "\n".join([*_texts(raised.get("lines")), self.errors[cell.id]])})
            if kind == "NameError" and cell.kind != "released" and cell not in self.early:
                self.early.append(cell)
            if cell.kind != "released":
                self.flag(
                    "memory" if raised.get("memory") is True else "error",
                    task,
                    f"cell {cell.id}: {self.errors[cell.id]}",
                )
        if reply.get("too_much") is True:
            words = f"cell {cell.id} shows more than {self.limits.output_kb} kB or {PICTURES} figures"
            self.flag("output", task, words)
        self.shown[cell.id] = outputs

    def stopped(self, cell: _Cell, kind: str, words: str, outputs: list[dict[str, str]] | None = None) -> None:
        """Note that a cell did not end as cells do, behind what it showed."""
        self.errors[cell.id] = words
        self.shown[cell.id] = outputs = [] if outputs is None else outputs
        outputs.append({"error": f"This cell {words}"})
        self.flag(kind, self.task_of(cell.id), f"cell {cell.id} {words}")

    # -- judging

    def judge(self, task: Task, *, last: bool = False) -> None:
        """Judge a task's answer as it is now. What is not filled in is asked for again at the end."""
        answer = None
        try:
            answer = self.take(task)
            checks = self.checks(task, answer)
        except _OutOfTime as error:
            self.flag("timeout", task.id, str(error))
            words = f"not judged: {error}"
            checks = [_Checked(_no_points(check, words)) for check in task.checks]
        missing = all(judged.kind is Outcome.NOT_FILLED_IN for judged in checks) or isinstance(answer, _Missing)
        if not last and (missing or any(judged.error == "NameError" for judged in checks)):
            self.open.append(task)
            if missing:
                return
        if isinstance(answer, _Missing):
            self.flag("missing", task.id, answer.words)
        if isinstance(answer, Remote):
            for kind, words in answer.flags.items():
                self.flag(kind, task.id, words)
        result = _judged(task, checks)
        if task.id not in self.results or self.results[task.id]["points"] < result["points"]:
            self.results[task.id] = result
            said = [(checked.error, checked.result["words"]) for checked in checks]
            lacking = (words for error, words in said if error in LACKS or NOT_THERE in words)
            self.lacking[task.id] = next(lacking, "")

    def take(self, task: Task) -> Any:
        """Return what a task's name stands for now: a value, a `Remote`, or that there is none."""
        try:
            reply = self.session.request(self.limits.cell_s, keep=True, do="take", task=task.id, name=task.name)
        except (TooLong, Died) as error:
            return _Missing(f"what `{task.name}` is cannot be found out: {error or 'it takes too long'}")
        kind = _text(reply.get("kind"), 20)
        if kind == "value":
            return reply.get("value")
        if kind == "function":
            remote = Remote(self.session, task, _texts(reply.get("parameters")), reply.get("does") is True)
            if task.numbers:
                name = f"{task.id}-numbers"
                reply = self.session.request(self.limits.cell_s, do="take", task=name, name=task.numbers)
                remote.numbers = reply.get("value")
            return remote
        if task.id in self.errors:
            return _Missing(f"there is no `{task.name}`, since its cell stops: {self.errors[task.id]}")
        return _Missing(f"there is no `{task.name}` in your notebook; keep the name that the task gives")

    def checks(self, task: Task, answer: Any) -> list["_Checked"]:
        """Judge an answer by all hidden checks, until it had to be stopped too often."""
        results: list[_Checked] = []
        stops = 0
        for check in task.checks:
            if stops == STOPS:
                results.append(_Checked(_no_points(check, "not tried, since your code had to be stopped before")))
                continue
            results.append(self.check(task, check, answer))
            stops += isinstance(answer, Remote) and self.session.child is None
        return results

    def check(self, task: Task, check: Check, answer: Any) -> "_Checked":
        """Judge an answer by one hidden check."""
        assert task.table is not None
        if isinstance(answer, _Missing):
            return _Checked(_no_points(check, answer.words))
        if isinstance(answer, Remote):
            self.session.ready()
            answer.until = time.monotonic() + task.seconds
        numbers = answer.numbers if isinstance(answer, Remote) else None
        judged = task.with_numbers(answer, numbers)
        diagnosis = judge(task.table, judged, cases=check.cases, seconds=task.seconds + JUDGE_S)
        if diagnosis is not None and diagnosis.kind is Outcome.TOO_SLOW:
            self.session.close()  # the judge may have left a thread behind that still speaks to this child
        if diagnosis is None:
            return _Checked({"says": check.says, "points": check.points, "max": check.points, "words": ""})
        mistake = None
        wrong = diagnosis.wrong_answer
        if wrong is not None:
            number, message = wrong.mistake, wrong.message
            mistake = f"mistake:{number}" if number else message if isinstance(message, str) else diagnosis.message
        return _Checked(_no_points(check, _text(diagnosis.message, 1000)), mistake, diagnosis.kind, diagnosis.error)


class _Checked(NamedTuple):
    """What one hidden check found: the result, the mistake that was recognized, and the diagnosis's kind and error."""

    result: CheckResult
    mistake: str | None = None
    kind: Outcome = Outcome.WRONG
    error: str = ""


def _judged(task: Task, checks: Sequence[_Checked]) -> TaskResult:
    results = [checked.result for checked in checks]
    return {
        "points": sum(result["points"] for result in results),
        "max": task.automatic,
        "by_hand": task.by_hand,
        "words": list(dict.fromkeys(result["words"] for result in results if result["words"])),
        "mistakes": list(dict.fromkeys(checked.mistake for checked in checks if checked.mistake)),
        "checks": results,
    }


@dataclass(frozen=True)
class _Missing:
    words: str


def _no_points(check: Check, words: str) -> CheckResult:
    return {"says": check.says, "points": 0.0, "max": check.points, "words": words}


def _outputs(shown: Any, kilobytes: int) -> list[dict[str, str]]:
    """Make plain outputs of what a child says that a cell showed. It may say more than it was told to."""
    outputs: list[dict[str, str]] = []
    letters = (kilobytes + 1) * 1024
    pictures = 0
    for event in shown if isinstance(shown, list) else ():
        if not isinstance(event, dict):
            continue
        if isinstance(event.get("png"), str):
            pictures += 1
            if pictures <= PICTURES:
                picture = _picture(event["png"])
                outputs.append({"png": picture} if picture else {"text": "(a figure that cannot be read)"})
        elif letters > 0:
            outputs.append({"text": _text(event.get("text"), letters)})
            letters -= len(outputs[-1]["text"]) + 1
    return outputs


def _picture(data: str) -> str:
    """Return a PNG with no more than what draws it, or nothing if it is none. It is decoded by browsers alone."""
    try:
        raw = base64.b64decode(data)
        width, height = struct.unpack_from(">II", raw, 16)
        if not raw.startswith(b"\x89PNG\r\n\x1a\n") or not 0 < width <= PIXELS or not 0 < height <= PIXELS:
            return ""
        kept, at, kind = bytearray(raw[:8]), 8, b""
        while kind != b"IEND":
            size, kind = struct.unpack_from(">I4s", raw, at)
            kept += raw[at : at + size + 12] if kind in DRAWS else b""  # in place, however many there are
            at += size + 12
    except (ValueError, struct.error):
        return ""
    return base64.b64encode(kept).decode()


def grade(
    notebook: "NotebookNode",
    assignment: Assignment,
    variant: Variant,
    *,
    sandbox: Sandbox,
    limits: Limits | None = None,
    flags: Iterable[Flag] = (),
    private: Sequence[Path] = (),
) -> Result:
    """Grade one notebook.

    Args:
        notebook: as `rebuild` makes it: the release's cells with the student's answers.
        assignment: what it is.
        variant: the student's.
        sandbox: where the cells run.
        limits: what the submission may use.
        flags: what is known of it already.
        private: files and folders that must not be readable in the sandbox.

    Returns:
        The result: always one, whatever the notebook does, except for `NoSandbox` where no child starts.
    """
    begun = time.monotonic()
    limits = limits or Limits()
    tasks = list(assignment.tasks(variant))
    session = _Session(sandbox, limits, private)
    grading = _Grading(tasks, session, limits, list(flags), _newer(notebook))
    try:
        grading.run(_cells(notebook, tasks))
    except NoSandbox:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        words = f"the grader failed ({type(error).__name__}: {error}; {Path(where.filename).name}, line {where.lineno})"
        grading.flag("ungraded", "", words)
    finally:
        session.close()
    return {
        "student": variant.student,
        "assignment": assignment.name,
        "key": "",
        "sandbox": sandbox.name,
        "seconds": round(time.monotonic() - begun, 2),
        "flags": grading.flags,
        "tasks": {task.id: grading.results.get(task.id) or _not_judged(task, "not judged") for task in tasks},
        "cells": grading.shown,
    }


def _newer(notebook: "NotebookNode") -> str:
    """Say that a notebook was written with a newer Python than grades it, or nothing."""
    theirs = notebook.metadata.get(METADATA, {}).get("python", "3.0")
    here = ".".join(map(str, sys.version_info[:2]))
    if tuple(map(int, theirs.split(".")[:2])) <= sys.version_info[:2]:
        return ""
    return f" (it was written with Python {theirs}; this is {here}: grade it with the newer one)"


def _not_judged(task: Task, words: str) -> TaskResult:
    return _judged(task, [_Checked(_no_points(check, words)) for check in task.checks])


def not_graded(assignment: Assignment, variant: Variant, sandbox: Sandbox, flag: Flag, words: str) -> Result:
    """Return the result of what no sandbox has seen, with a flag and what is said at each task."""
    return {
        "student": variant.student,
        "assignment": assignment.name,
        "key": "",
        "sandbox": sandbox.name,
        "seconds": 0.0,
        "flags": [flag],
        "tasks": {task.id: _not_judged(task, words) for task in assignment.tasks(variant)},
        "cells": {},
    }


def is_ungraded(result: Mapping[str, Any]) -> bool:
    """Whether the grader failed, so that the points of a result mean nothing."""
    return any(flag["kind"] == "ungraded" for flag in result["flags"])
