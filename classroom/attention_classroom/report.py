"""What came of an assignment: a table of grades, a page of feedback for each student, and a page for the teacher.

Points, words, flags and times come from the engine's results, marks given by hand from ``marks/``. What is not marked
yet, or was not handed in, stands there as such and never as a noop 0.
"""

import csv
import io
import json
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from attention_tutorial.exercises import MISTAKES

from .assignment import PLAIN, Task, load, variant_for
from .batch import is_of_now
from .course import Course, Student, write
from .grading import is_ungraded
from .marks import FLAGS, Given, Marks, count, fingerprint, read_marks
from .pages import TEMPLATES, points, unhidden
from .release import METADATA, checksum, own_answers
from .similar import Pair, like_the_master, similar_pairs

__all__ = ["Row", "read_rows", "report"]

SAME = 0.9995  # likeness that is told as "the same"
MOST_PAIRS = 100  # shown, of those that are nearly the same
UNREADABLE = "unreadable"  # the flag of what earns nothing, whatever marks say
FOR_INFORMATION = {"common", "duplicate", "error", "ids", "missing"}  # flags that need nobody's eyes
MISSING, NOT_GRADED, WAITING, LOOK, GRADED = "missing", "not graded", "to mark by hand", "look at it", "graded"


@dataclass
class Mark:
    """What one graded cell has earned."""

    score: float | None  # None while it waits for a mark by hand
    most: float
    comment: str = ""  # what a person wrote about it
    answer: str = ""  # the fingerprint of what is marked by hand; "" of what is not
    given: list[Given] = field(default_factory=list)  # all marks for it, those for earlier answers too
    empty: bool = False  # whether nothing was answered
    html: str = ""  # of the sheet: what was asked, and the answer


@dataclass
class Row:
    """One student and one assignment."""

    student: Student
    status: str = MISSING
    result: dict[str, Any] = field(default_factory=dict)  # nothing where there is none
    marks: dict[str, Mark] = field(default_factory=dict)
    penalty: float = 0.0
    attempts: int = 0
    when: datetime | None = None
    hours_late: float = 0.0
    flags: list[dict[str, str]] = field(default_factory=list)
    notebook: NotebookNode | None = None
    flagged: Mark | None = None  # whether somebody has looked at the flags that ask for it
    sheet: dict[str, Mark] = field(default_factory=dict)  # the answers on paper

    @property
    def answers(self) -> dict[str, NotebookNode]:
        """The cells of the notebook by their ids."""
        return {cell.id: cell for cell in self.notebook.cells} if self.notebook else {}

    def of_sheet(self) -> "Row":
        """Return the same student's row, with the sheet in place of the assignment."""
        waits = any(mark.score is None for mark in self.sheet.values())
        return Row(self.student, (WAITING if waits else GRADED) if self.sheet else MISSING, marks=self.sheet)

    def of(self, task: Task) -> Mark:
        """Return what a task has earned in all its cells."""
        marks = [mark for cell, mark in self.marks.items() if re.sub(r"-(check|plot)$", "", cell) == task.id]
        known = [mark.score for mark in marks if mark.score is not None]
        score = sum(known) if marks and len(known) == len(marks) else None
        comment = "\n".join(mark.comment for mark in marks if mark.comment)
        return Mark(score, task.points, comment)

    def found(self, task: Task) -> dict[str, Any]:
        """Return what the engine says about a task."""
        found: dict[str, Any] = self.result.get("tasks", {}).get(task.id, {})
        return found

    def found_points(self, task: str) -> float:
        """Return the points that the engine gave a task."""
        return float(self.result["tasks"].get(task, {}).get("points", 0.0))

    @property
    def score(self) -> float | None:
        """The points so far, less what lateness costs; None where nothing was graded."""
        if not self.marks:
            return None
        return max(0.0, sum(mark.score or 0.0 for mark in self.marks.values()) - self.penalty)

    @property
    def most(self) -> float:
        """The most there is."""
        return sum(mark.most for mark in self.marks.values())

    @property
    def waiting(self) -> list[str]:
        """The cells that wait for a mark by hand."""
        return [cell for cell, mark in self.marks.items() if mark.score is None]


def report(course: Course, name: str) -> Path:
    """Write the report of an assignment.

    Returns:
        The folder: ``grades.csv``, ``index.html`` for the teacher, ``feedback/<student>.html``.
    """
    assignment = load(course.hidden(course.named(name)))
    everybodys = variant_for(assignment, PLAIN, course.secret)
    tasks = assignment.tasks(everybodys)
    rows = read_rows(course, name)
    answers = {row.student.id: row.notebook for row in rows if row.notebook is not None}
    release = course.release(name)
    released = nbformat.read(release, as_version=4) if release.is_file() else nbformat.v4.new_notebook()
    pairs = similar_pairs(answers, released)
    _flag_pairs(rows, pairs)
    master = nbformat.read(course.master(name), as_version=4)
    for row in rows:
        if row.notebook is not None:
            common = (row.notebook.metadata.get(METADATA) or {}).get("variant") == everybodys.mark
            variant = everybodys if common else variant_for(assignment, row.student.id, course.secret)
            for kind, likeness in like_the_master(row.notebook, own_answers(master, assignment, variant), released):
                words = f"{kind} like the published solution ({likeness:.0%})"
                row.flags.append({"kind": "master", "task": "", "words": words})
    _pass_over_common(rows)
    folder = course.reports(name)
    grades = io.StringIO(newline="")
    csv.writer(grades).writerows(_grades(rows, tasks))
    write(folder / "grades.csv", grades.getvalue())
    for row in rows:
        own = assignment.tasks(variant_for(assignment, row.student.id, course.secret)) if row.result else tasks
        write(folder / "feedback" / f"{row.student.id}.html", _feedback(course, assignment.title, row, own))
    write(folder / "index.html", _for_the_teacher(course, assignment.title, rows, tasks, pairs))
    return folder


# ---- What there is to tell ------------------------------------------------------------------------------------------


def read_rows(course: Course, name: str) -> list[Row]:
    """Return what is known of each student of the list, in its order."""
    given = read_marks(course, name)
    asked = _sheets(course, name)
    assignment = load(course.hidden(name))
    tasks = assignment.tasks(variant_for(assignment, PLAIN, course.secret))
    questions = {task.id: json.dumps([task.title, *task.rubric]) for task in tasks}
    rows = []
    for student in course.students.values():
        row = Row(student)
        rows.append(row)
        for question, html in asked.get(student.id, {}).items():
            row.sheet[question] = _marked(row, question, 2.0, None, fingerprint(html), given, html=html)
        row.attempts, row.when = len(course.attempts(name, student.id)), course.handed_in(name, student.id)
        due = course.due(name, student.id)
        if due is not None and row.when is not None:
            row.hours_late = max(0.0, (row.when - due).total_seconds() / 3600)
        if row.hours_late * 60 > course.settings["late"]["grace_minutes"]:
            row.flags.append({"kind": "late", "task": "", "words": f"{row.hours_late:.1f} hours late"})
        newest = course.newest(name, student.id)
        if newest is not None and re.fullmatch(r"[^_]+_LATE_\d+_\d+_.*", newest.name):
            row.flags.append({"kind": "late", "task": "", "words": "Canvas says so"})
        if row.attempts:
            _read_result(course, name, row, given, questions)
    return rows


def _read_result(
    course: Course,
    name: str,
    row: Row,
    given: dict[tuple[str, str], list[Given]],
    questions: Mapping[str, str],
) -> None:
    """Add what the engine found, and the marks for it. A mark is for one answer to one question."""
    row.status = NOT_GRADED
    try:
        row.result = json.loads(course.result(name, row.student.id).read_bytes())
        row.notebook = nbformat.read(course.rebuilt(name, row.student.id), as_version=4)
    except (OSError, ValueError):
        return
    if not is_of_now(course, name, row.student.id, row.result) and not is_ungraded(row.result):
        row.result, row.notebook = {}, None  # of another attempt, or of questions or checks that have changed since
        return
    look = [flag for flag in row.result["flags"] if flag["kind"] not in FOR_INFORMATION]
    row.flags = [*row.result["flags"], *row.flags]
    if is_ungraded(row.result):
        return
    unreadable = any(flag["kind"] == UNREADABLE for flag in look)
    for cell in row.notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        if not about.get("grade"):
            continue
        grade_id, most = about["grade_id"], float(about["points"])
        if unreadable:
            row.marks[grade_id] = Mark(0.0, most)
        elif about["solution"]:
            empty = about.get("checksum") == checksum(cell)
            answer = fingerprint(cell.source, questions.get(grade_id.removesuffix("-plot"), ""))
            row.marks[grade_id] = _marked(row, grade_id, most, 0.0 if empty else None, answer, given, empty=empty)
        else:
            found = max(0.0, min(row.found_points(grade_id.removesuffix("-check")), most))
            row.marks[grade_id] = _marked(
                row, grade_id, most, found, fingerprint(row.result["key"].split(" ")[0]), given
            )
    row.penalty = penalty(course, row.score or 0.0, row.hours_late)
    if look:
        earned = [[flag["kind"], flag["task"], flag["words"]] for flag in look], row.result["tasks"]
        answer = fingerprint(json.dumps(earned), *(cell.source for cell in row.notebook.cells))
        row.flagged = _marked(row, FLAGS, 0.0, None, answer, given)
    unseen = row.flagged is not None and row.flagged.score is None
    row.status = LOOK if unseen else WAITING if row.waiting else GRADED


def _marked(
    row: Row,
    question: str,
    most: float,
    score: float | None,
    answer: str,
    given: dict[tuple[str, str], list[Given]],
    **about: Any,
) -> Mark:
    """Return what a question has earned: what was given by hand, if somebody gave it, else this score."""
    rows = given.get((row.student.id, question), [])
    marks: Marks = count(rows, answer)
    if marks.differ:
        row.flags.append({"kind": "marks", "task": question, "words": _differ(row, question, marks)})
        score = None
    elif marks.points is not None:
        score = marks.points
    elif score is not None and not about.get("empty") and (old := [mark for mark in rows if mark.points]):
        words = f"{row.student.id}, {question}: {old[-1].marker} gave {old[-1].points} for what has changed since"
        row.flags.append({"kind": "marks", "task": question, "words": words})
        score = None
    return Mark(score, most, marks.comment, answer, rows, **about)


def _differ(row: Row, question: str, marks: Marks) -> str:
    gave = ", ".join(f"{mark.marker} gave {mark.points}" for mark in marks.given)
    return f"{row.student.id}, {question}: {gave}"


def _sheets(course: Course, name: str) -> dict[str, dict[str, str]]:
    """Return what the printed sheets asked, with the answers, by student and question."""
    try:
        asked: dict[str, dict[str, str]] = json.loads((course.root / "sheets" / name / "asked.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return asked


def penalty(course: Course, score: float, hours_late: float) -> float:
    """Return the points that lateness costs, as course.toml says.

    Example:
        >>> from attention_classroom.course import Course
        >>> course = Course(Path())
        >>> course.__dict__["settings"] = {"late": {"grace_minutes": 10, "percent_a_day": 20}}
        >>> [penalty(course, 10, hours) for hours in (0.1, 1, 25, 1e9)]
        [0.0, 2.0, 4.0, 10.0]
    """
    late = course.settings["late"]
    if hours_late * 60 <= late["grace_minutes"]:
        return 0.0
    return min(float(score), score * late["percent_a_day"] / 100 * math.ceil(hours_late / 24))


def _flag_pairs(rows: Iterable[Row], pairs: Iterable[Pair]) -> None:
    others: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for pair in pairs:
        others[pair.first, pair.what].append((-pair.likeness, pair.second))
        others[pair.second, pair.what].append((-pair.likeness, pair.first))
    for row in rows:
        for kind in ("code", "words"):
            alike = sorted(others[row.student.id, kind])
            if alike:
                shown = ", ".join(f"{other} ({-likeness:.0%})" for likeness, other in alike[:4])
                more = f" and {len(alike) - 4} more" if len(alike) > 4 else ""
                row.flags.append({"kind": "similar", "task": "", "words": f"{kind} like {shown}{more}"})


def _pass_over_common(rows: Iterable[Row]) -> None:
    """Where most handed in the notebook that is the same for everybody, that is what was handed out: nobody's flag."""
    graded = [row for row in rows if row.result]
    have = [row for row in graded if any(flag["kind"] == "common" for flag in row.flags)]
    if 2 * len(have) > len(graded):
        for row in have:
            row.flags = [flag for flag in row.flags if flag["kind"] != "common"]


def _cell(text: str) -> str:
    """Write a text so that no spreadsheet takes it for a formula, and nothing in it is hidden."""
    text = unhidden(text)
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


def _flag_words(row: Row) -> str:
    about = ((f"{flag['kind']} of {flag['task']}".removesuffix(" of "), flag["words"]) for flag in row.flags)
    return "; ".join(f"{kind}: {words}" for kind, words in about)


def _grades(rows: Iterable[Row], tasks: Sequence[Task]) -> Iterator[list[str]]:
    """Yield the table of grades: a header, then one row for each student."""
    head = [
        "student_id",
        "last_name",
        "first_name",
        "email",
        "status",
        "score",
        "max_score",
        "late_penalty",
        "sheet",
        "sheet_max",
    ]
    yield [
        *head, *(f"{task.id} (of {task.points:g})" for task in tasks), "waiting", "flags", "attempts", "handed_in",
        "hours_late", "seconds", "sandbox",
    ]  # fmt: skip
    for row in rows:
        student, result = row.student, row.result
        yield [
            *map(_cell, (student.id, student.last_name, student.first_name, student.email)),
            row.status,
            points(row.score),
            points(sum(task.points for task in tasks)),
            points(row.penalty or None),
            points(row.of_sheet().score),
            points(row.of_sheet().most or None),
            *(points(row.of(task).score) for task in tasks),
            " ".join(row.waiting),
            _cell(" ".join(_flag_words(row).split())),
            str(row.attempts),
            row.when.isoformat() if row.when else "",
            f"{row.hours_late:.1f}" if row.hours_late else "",
            f"{result['seconds']:.1f}" if result else "",
            result.get("sandbox", ""),
        ]


# ---- The pages -------------------------------------------------------------------------------------------------------


def _feedback(course: Course, title: str, row: Row, tasks: Iterable[Task]) -> str:
    """Return a student's page. What other students did is not in it."""

    def answers(task: Task) -> Iterator[tuple[str, list[dict[str, str]]]]:
        for cell in row.notebook.cells if row.notebook else []:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
            if grade_id in {task.id, f"{task.id}-plot"}:
                yield cell.source, row.result["cells"].get(grade_id, [])

    return TEMPLATES.get_template("feedback.html").render(
        title=f"{title}: {row.student.name}",
        assignment=title,
        course=course.settings["title"],
        row=row,
        tasks=[(task, row.of(task), {"words": [], "checks": [], **row.found(task)}, answers(task)) for task in tasks],
    )


def _for_the_teacher(course: Course, title: str, rows: list[Row], tasks: Sequence[Task], pairs: list[Pair]) -> str:
    graded = [row for row in rows if row.score is not None]
    counts = Counter(row.status for row in rows)
    scores, most = [row.score or 0.0 for row in graded], sum(task.points for task in tasks)
    content: dict[str, Any] = {}
    if graded:
        seconds = [row.result["seconds"] for row in graded if row.result]
        mistakes, failed = _mistakes(graded, tasks)
        content = {
            "mean": statistics.fmean(scores),
            "median": statistics.median(scores),
            "most": most,
            "waiting": sum(bool(row.waiting) for row in graded),
            "questions": _questions(graded, tasks),
            "mistakes": mistakes,
            "failed": failed,
            "middle": statistics.median(seconds),
            "longest": max(seconds),
            "times": _spread(seconds, 8 * math.ceil(max(seconds) / 8), 8),
        }
    return TEMPLATES.get_template("report.html").render(
        title=f"{title}: report",
        assignment=title,
        course=course.settings["title"],
        rows=rows,
        tasks=tasks,
        statuses=[f"{counts[s]} {s}" for s in (GRADED, LOOK, WAITING, NOT_GRADED, MISSING) if counts[s]],
        sandboxes=Counter(row.result["sandbox"] for row in rows if row.result),
        scores=_spread(scores, most) if graded else [],
        alike=_alike(pairs),
        **content,
    )


def _spread(values: list[float], most: float, bins: int = 10) -> list[tuple[str, int]]:
    """Return how many values are in each of so many equal parts of 0 to most."""
    step = most / bins if most else 1.0
    counts = Counter(min(int(value / step), bins - 1) for value in values)
    return [(f"{i * step:.3g}–{(i + 1) * step:.3g}", counts[i]) for i in range(bins)]


def _questions(rows: list[Row], tasks: Sequence[Task]) -> Iterator[list[object]]:
    for task in tasks:
        scores = [score for row in rows if (score := row.of(task).score) is not None]
        full, none = sum(score >= task.points for score in scores), scores.count(0)
        shown = [f"{statistics.fmean(scores) / task.points:.0%}", full, none] if scores else ["", "", ""]
        yield [task.title, task.kind, points(task.points), *shown, len(rows) - len(scores)]


def _mistakes(rows: list[Row], tasks: Sequence[Task]) -> tuple[list[list[object]], list[list[object]]]:
    """Count what the checks found: the mistakes by their names, and which checks were not passed."""
    named: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    asked: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for task in tasks:
            found = row.found(task)
            named.update({(_mistake(mistake), task.title) for mistake in found.get("mistakes", [])})
            for check in found.get("checks", []):
                asked[check["says"], task.title] += 1
                failed[check["says"], task.title] += check["points"] < check["max"]
    return (
        [[*mistake, n] for mistake, n in named.most_common()],
        [[*check, f"{n} of {asked[check]}"] for check, n in failed.most_common() if n],
    )


def _mistake(words: str) -> str:
    number = re.fullmatch(r"mistake:(\d+)", words)
    return MISTAKES.get(int(number[1]), words) if number else words


def _alike(pairs: list[Pair]) -> list[list[str]]:
    """Return the groups whose answers are the same, and the pairs that are nearly so."""
    groups: list[tuple[str, set[str]]] = []
    near = []
    for pair in pairs:  # those that are the same come first
        both = {pair.first, pair.second}
        joined = [group for group in groups if group[0] == pair.what and group[1] & both]
        if pair.likeness < SAME:
            if not any(both <= group[1] for group in joined):
                near.append([f"{pair.first}, {pair.second}", pair.what, f"{pair.likeness:.0%}"])
            continue
        groups = [group for group in groups if group not in joined]
        groups.append((pair.what, both.union(*(group[1] for group in joined))))
    return [[", ".join(sorted(group)), kind, "the same"] for kind, group in groups] + near[:MOST_PAIRS]
