"""What an assignment is made of: its tasks, their tables of visible cases, the hidden checks that give the points.

And its variants: what differs between students, drawn from a course's secret and a student's id.
"""

import copy
import functools
import hashlib
import hmac
import itertools
import json
import math
import random
import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from attention_tutorial.exercises import Case, Exercise, WrongAnswer, float64_by_default, same
from attention_tutorial.exercises import random as random_tensor

from .course import Course

__all__ = [
    "KINDS", "PLAIN", "TAG", "TEMPLATE_SECRET", "Assignment", "Check", "Task", "Variant", "answer",
    "distinguishing_cases", "draw_tensors", "fill", "judged_task", "load", "plain_variant", "variant_for",
]  # fmt: skip

PLAIN = ""  # the student whose variant is the common release
TEMPLATE_SECRET = b"the masters as stored"  # no secret at all: the variant that the masters of the repository show
TAG = "variant"  # on the master's cells that vary
KINDS = ("code", "debug", "measure", "written")


@dataclass(frozen=True)
class Variant:
    """One student's numbers, shapes, tokens and planted bug.

    Attributes:
        assignment: its name.
        student: the id; `PLAIN` for the common release.
        values: plain data, as JSON holds them.
    """

    assignment: str
    student: str
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def mark(self) -> str:
        """Return a short name for the values that a student sees. It is the same for the same, and made of them alone.

        Values called ``hidden...`` have no part in it. A hash of them could be searched through: a student knows all
        the others.
        """
        shown = {name: value for name, value in self.values.items() if not name.startswith("hidden")}
        text = json.dumps([self.assignment, shown], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One hidden check of a task.

    Attributes:
        points: what an answer earns that is right in all its cases.
        cases: inputs, judged by the task's table.
        says: what it looks at, in words that a student may read.
    """

    points: float
    cases: Sequence[Case]
    says: str


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task of an assignment, for one variant.

    In the master its answer's cell has nbgrader's grade_id ``id``, and the cell that is graded ``id-check``. A written
    answer is one cell, ``id``; the figure of a measurement, which is marked by hand, is ``id-plot``.

    Attributes:
        id: as in the cells' ids.
        title: in words.
        kind: one of `KINDS`.
        table: visible cases, right and wrong answers; its name is that of the answer in the student's notebook.
        checks: hidden; they decide.
        rubric: (points, for what), for marking by hand.
        seconds: how long an answer may take, on all cases of one check.
        numbers: the name, in the student's notebook, of numbers that the answer is to be judged with.
        with_numbers: makes of the answer and these numbers what is judged.
    """

    id: str
    title: str
    kind: str
    table: Exercise | None = None
    checks: Sequence[Check] = ()
    rubric: Sequence[tuple[float, str]] = ()
    seconds: float = 10.0
    numbers: str = ""
    with_numbers: Callable[[Any, Any], Any] = lambda answer, numbers: answer

    def __post_init__(self) -> None:
        faults = {
            f"kind must be one of {', '.join(KINDS)}; got {self.kind!r}": self.kind not in KINDS,
            "what is judged needs a table and checks": bool(self.table) != bool(self.checks),
            "a written answer is marked by hand": self.kind == "written" and bool(self.table),
        }
        for words, fault in faults.items():
            if fault:
                raise ValueError(f"task {self.id}: {words}")

    @property
    def name(self) -> str:
        """What is judged, a function or a value, by its name in the student's notebook; "" for a written answer."""
        return self.table.name if self.table else ""

    @property
    def by_hand(self) -> float:
        """The points that are given by hand."""
        return sum(points for points, _ in self.rubric)

    @property
    def points(self) -> float:
        """All points."""
        return self.automatic + self.by_hand

    @property
    def automatic(self) -> float:
        """The points that the hidden checks give."""
        return sum(check.points for check in self.checks)


def judged_task(
    *,
    name: str,
    title: str,
    kind: str,
    checks: Sequence[Check],
    rubric: Sequence[tuple[float, str]] = (),
    seconds: float = 10.0,
    numbers: str = "",
    with_numbers: Callable[[Any, Any], Any] = lambda answer, numbers: answer,
    **table: Any,
) -> Task:
    """Return a task with the table of its visible checks.

    Args:
        name: of the answer in the student's notebook, and the task's id.
        title: as in `Task`.
        kind: as in `Task`.
        checks: as in `Task`.
        rubric: as in `Task`.
        seconds: as in `Task`.
        numbers: as in `Task`.
        with_numbers: as in `Task`.
        table: all other fields of the `Exercise`.

    Returns:
        The task.
    """
    exercise = Exercise(name=name, **table)
    more: dict[str, Any] = {"rubric": rubric, "seconds": seconds, "numbers": numbers, "with_numbers": with_numbers}
    return Task(id=name, title=title, kind=kind, table=exercise, checks=checks, **more)


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """An assignment: one master for everybody, and what varies in it.

    Attributes:
        name: of its files.
        title: in words.
        chapter: of the book.
        minutes: how long it takes.
        tasks: the tasks of a variant.
        cells: the sources of the master's cells that vary, by their ids.
        draw: draws the values of a variant: plain data.
        source: the file it was loaded from.
        questions: of the course's own, as points and words, by the ids of their answers.
    """

    name: str
    title: str
    chapter: int
    minutes: int
    tasks: Callable[[Variant], Sequence[Task]]
    cells: Callable[[Variant], Mapping[str, str]]
    draw: Callable[[random.Random], Mapping[str, Any]]
    source: Path | None = None
    questions: Mapping[str, tuple[float, str]] = field(default_factory=dict)

    def points(self, variant: Variant) -> float:
        """Return the points of all tasks."""
        return sum(task.points for task in self.tasks(variant))


def load(path: Path) -> Assignment:
    """Load an assignment from its module in ``hidden/``.

    Args:
        path: of ``hidden/<name>.py``. It is run: load only what you would run.

    Returns:
        Its ``ASSIGNMENT``.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it raises, or holds no `Assignment` of the file's name.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no assignment at {path}")
    try:
        assignment = runpy.run_path(str(path), run_name=f"attention_classroom_hidden_{path.stem}").get("ASSIGNMENT")
    except Exception as error:
        raise ValueError(f"{path.name} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(assignment, Assignment):
        raise ValueError(f"{path.name} must set ASSIGNMENT to an Assignment; got {type(assignment).__name__}")
    if assignment.name != path.stem:
        raise ValueError(f"{path.name} holds the assignment {assignment.name!r}; file and name must be the same")
    return _with_questions(replace(assignment, source=path), path.parents[1] / "course.toml")


def _with_questions(assignment: Assignment, settings: Path) -> Assignment:
    """Add the course's own questions, which are marked by hand."""
    course = Course(settings.parent)
    own = (
        {f"own-{i}": asked for i, asked in enumerate(course.questions(assignment.name), 1)}
        if settings.is_file()
        else {}
    )
    if not own:
        return assignment
    rubric = "answers the question"
    more = [Task(id=id, title=words, kind="written", rubric=((points, rubric),)) for id, (points, words) in own.items()]
    return replace(assignment, questions=own, tasks=lambda variant: [*assignment.tasks(variant), *more])


def answer(source: str, *changes: tuple[str, str]) -> Callable[..., Any]:
    """Return the function of a master's answer, so that its code stands in one place; changed, it is a wrong answer.

    Args:
        source: of the answer's cell; its first function is the answer.
        changes: pieces of the source, each in it once, and what stands there in their place.

    Returns:
        The function. A list comes as a tensor, so that a release does not hold its digits as text.

    Raises:
        ValueError: if a piece is not in the source once.
    """
    for piece, other in changes:
        if source.count(piece) != 1:
            raise ValueError(f"a piece must be in the source once; got {source.count(piece)} times {piece!r}")
        source = source.replace(piece, other)
    names: dict[str, Any] = {"torch": torch, "math": math}
    exec(source, names)
    function = names[source.partition("def ")[2].partition("(")[0]]

    @functools.wraps(function)
    def tensors(*inputs: Any) -> Any:
        result = function(*inputs)
        return torch.tensor(result) if isinstance(result, list) else result

    return tensors


def draw_tensors(seed: int, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    """Draw a tensor of each shape, the first from ``seed``, the next from ``seed + 1``, and so on.

    Args:
        seed: of the first.
        shapes: one for each tensor.

    Returns:
        The tensors, in float64.
    """
    return [random_tensor(*shape, seed=seed + k) for k, shape in enumerate(shapes)]


def distinguishing_cases(
    draw: Callable[[int], Sequence[Case]], seed: int, right: Any, wrong_answers: Sequence[WrongAnswer]
) -> Sequence[Case]:
    """Draw cases until the first tells all wrong answers apart, which may be the same or NaN by chance.

    Args:
        draw: makes cases from a seed.
        seed: the first to be tried.
        right: the right answer.
        wrong_answers: the wrong ones.

    Returns:
        The cases.

    Raises:
        ValueError: if 200 seeds do not do; then two answers are the same.
    """
    for attempt in range(200):
        cases = draw(seed + 1000 * attempt)
        with float64_by_default():
            results = [given(*cases[0].inputs) for given in (right, *(wrong.answer for wrong in wrong_answers))]
        if not any(map(_has_nan, results)) and not any(same(a, b) for a, b in itertools.combinations(results, 2)):
            return cases
    raise ValueError("wrong answers must give results of their own on some inputs; two of these never do")


def _has_nan(result: Any) -> bool:
    if isinstance(result, list | tuple):
        return any(map(_has_nan, result))
    return bool(torch.as_tensor(result).isnan().any())


# ---- Variants --------------------------------------------------------------------------------------------------------


def variant_for(assignment: Assignment, student: str, secret: bytes) -> Variant:
    """Draw a student's variant; the same for the same assignment, student and secret, on every machine.

    Args:
        assignment: whose `draw` is called.
        student: the id, as in the list of students.
        secret: the course's. Whoever has it can draw every variant.

    Returns:
        The variant.

    Raises:
        TypeError: if ``secret`` is no bytes, or ``draw`` returns other than plain data.
    """
    if not isinstance(secret, bytes):
        raise TypeError(f"secret must be bytes; got {type(secret).__name__}")
    seed = hmac.new(secret, f"{assignment.name}\0{student}".encode(), hashlib.sha256).digest()
    drawn = assignment.draw(random.Random(seed))
    try:
        values = json.loads(json.dumps(dict(drawn), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(f"draw of {assignment.name} must return plain data, as JSON holds them: {error}") from error
    return Variant(assignment.name, student, values)


def plain_variant(assignment: Assignment) -> Variant:
    """Return the variant that the master shows as it is stored."""
    return variant_for(assignment, PLAIN, TEMPLATE_SECRET)


def fill(master: NotebookNode, assignment: Assignment, variant: Variant) -> NotebookNode:
    """Return a copy of a master whose cells marked ``variant`` hold what a variant says.

    Raises:
        ValueError: if the cells marked in the master are not those that the assignment fills.
    """
    filled = copy.deepcopy(master)
    sources = dict(assignment.cells(variant))
    marked = {cell.id for cell in filled.cells if TAG in cell.metadata.get("tags", [])}
    if marked != set(sources):
        raise ValueError(
            f"{assignment.name}: the cells tagged {TAG} must be those that `cells` fills; tagged "
            f"{', '.join(sorted(marked)) or 'none'}, filled {', '.join(sorted(sources)) or 'none'}"
        )
    for cell in filled.cells:
        cell.source = sources.get(cell.id, cell.source)
    for name, (points, words) in assignment.questions.items():
        about = {"grade_id": name, "grade": True, "solution": True, "locked": False, "points": points, "task": False}
        asked = new_markdown_cell(f"## A question of the course ({points:g} points more)\n\n{words}", id=f"{name}-task")
        answer = {"nbgrader": {**about, "schema_version": 3, "cell_type": "markdown"}}
        filled.cells += [asked, new_markdown_cell("", id=name, metadata=answer)]
    return filled
