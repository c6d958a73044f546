"""Marks that a person gives: a page that marks by question, and the file of an assignment that keeps its marks.

`marking_page` writes the page. It works in a browser without a network, and saves what one marker gave as a CSV. `join`
takes such files into ``marks/NAME.csv``, which has one row for each marker, student and question. A mark is for the
answer that was marked: it stays when one grades again, and where the answer has changed since, it counts no more.
"""

import csv
import hashlib
import io
import json
import math
import re
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from .assignment import Task, load, variant_for
from .course import Course, CourseError, read_table, write
from .pages import TEMPLATES, is_png

if TYPE_CHECKING:
    from .report import Row

__all__ = ["FLAGS", "Given", "Marks", "fingerprint", "join", "marking_page", "read_marks"]

FLAGS = "flags"  # the question whose mark says that somebody has looked at a submission's flags
RIGHT, IDEA = (2.0, "right"), (1.0, "a right idea")  # of an answer of the sheet


class Given(NamedTuple):
    """One mark, as a row of the file has it."""

    student: str
    question: str  # the graded cell, such as ``leaked-plot``; ``sheet-1``; or `FLAGS`
    points: str  # "" takes a mark back
    comment: str
    boxes: str  # the places of those that were ticked, from 1
    answer: str  # the fingerprint of what was marked; "": whatever the answer is
    marker: str
    when: str
    over: str  # the markers whose mark it was given over


class Marks(NamedTuple):
    """What counts for one answer: points, if markers agree, and what they wrote."""

    points: float | None
    comment: str
    given: list[Given]  # that stand

    @property
    def differ(self) -> bool:
        """Whether two markers gave other points, and neither knew of the other."""
        return len({row.points for row in self.given}) > 1


def fingerprint(*parts: str) -> str:
    """Return what changes with an answer."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def read_marks(course: Course, name: str) -> dict[tuple[str, str], list[Given]]:
    """Return the marks of an assignment, by student and question."""
    path = _file(course, name)
    found: dict[tuple[str, str], list[Given]] = defaultdict(list)
    for row in _read(path) if path.is_file() else ():
        found[row.student, row.question].append(row)
    return found


def count(rows: Iterable[Given], answer: str) -> Marks:
    """Return what counts of the marks for a question, where the answer is the one with this fingerprint.

    Example:
        >>> ann, bob = (Given("s1", "why", p, "", "", "a", who, p, "") for p, who in (("2", "ann"), ("1", "bob")))
        >>> count([ann, bob], "a").points, count([ann, bob], "a").differ, count([ann], "b").points
        (None, True, None)
        >>> count([ann, bob._replace(over="ann")], "a").points
        1.0
    """
    rows = [row for row in rows if row.answer in ("", answer)]
    gone = {(marker, row.marker) for row in rows for marker in row.over.split(";")}
    given = [row for row in rows if row.points and not any(marker == row.marker for marker, _ in gone)]
    agreed = {row.points for row in given}
    comments = dict.fromkeys(row.comment for row in given if row.comment)
    return Marks(float(given[0].points) if len(agreed) == 1 else None, "\n".join(comments), given)


def join(course: Course, name: str, files: Iterable[Path]) -> tuple[int, list[str]]:
    """Take markers' files into the marks of an assignment; of one marker's marks the newest counts.

    Returns:
        How many marks there are now; and in words where markers differ, and what was left out.

    Raises:
        CourseError: if a file is none of these, or gives points that there are not. Then nothing was taken.
    """
    most, left = _most(course, name), []
    path = _file(course, name)
    kept = {_key(row): row for row in (_read(path) if path.is_file() else ())}
    for file in files:
        for row in _read(file):
            if not row.marker:
                raise CourseError(f"{file}: marker must say who gave the mark of {row.student}, {row.question}")
            if (row.student, row.question) not in most:
                left.append(f"{row.student}, {row.question}: there is nothing to mark; not taken")
                continue
            top = most[row.student, row.question]
            if row.points and not 0 <= _number(row, file) <= top:
                raise CourseError(
                    f"{file}: points must be from 0 to {top:g}; got {row.points} for {row.student}, {row.question}"
                )
            row = row._replace(points=f"{float(row.points):g}" if row.points else "")
            if _key(row) not in kept or row.when >= kept[_key(row)].when:
                kept[_key(row)] = row
    table = io.StringIO(newline="")
    csv.writer(table).writerows([Given._fields, *sorted(kept.values(), key=_key)])
    write(path, table.getvalue())
    from .report import read_rows

    differ = [flag["words"] for row in read_rows(course, name) for flag in row.flags if flag["kind"] == "marks"]
    return len(kept), differ + left


def _file(course: Course, name: str) -> Path:
    return course.root / "marks" / f"{name}.csv"


def _key(row: Given) -> tuple[str, str, str]:
    return row.student, row.question, row.marker


def _number(row: Given, file: Path) -> float:
    try:
        number = float(row.points.replace(",", "."))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise CourseError(f"{file}: points must be a number; got {row.points!r} for {row.student}, {row.question}")
    return number


def _read(path: Path) -> Iterator[Given]:
    if not path.is_file():
        raise CourseError(f"marks must be a file that the page saved; there is no {path}")
    lines, _ = read_table(path.read_bytes())
    if not lines or not {"student", "question", "points"} <= set(lines[0]):
        raise CourseError(
            f"{path} must have the columns {', '.join(Given._fields)}; got {', '.join((lines or [[]])[0])}"
        )
    for line in lines[1:]:
        cells = dict(zip(lines[0], line, strict=False))
        if any(line):
            row = Given(*(cells.get(field, "").strip() for field in Given._fields))
            yield row._replace(points=row.points.replace(",", "."), comment=row.comment.removeprefix("'"))


def _most(course: Course, name: str) -> dict[tuple[str, str], float]:
    """Return the most points of all that may be marked, by student and question."""
    from .report import UNREADABLE, read_rows

    most: dict[tuple[str, str], float] = {}
    for row in read_rows(course, name):
        unreadable = any(flag["kind"] == UNREADABLE for flag in row.flags)
        for cell, mark in {**({} if unreadable else row.marks), **row.sheet}.items():
            most[row.student.id, cell] = mark.most
        most[row.student.id, FLAGS] = 0.0
    return most


# ---- The page --------------------------------------------------------------------------------------------------------


def marking_page(course: Course, name: str) -> Path:
    """Write the page on which an assignment is marked by question.

    It has every answer that waits for a mark or has one, the answers of the printed sheet, and the submissions whose
    flags ask for a look. What cannot be read is there to be looked at only.
    """
    from .report import UNREADABLE, read_rows

    assignment = load(course.hidden(course.named(name)))
    found: dict[str, dict[str, Any]] = {}

    def put(row: "Row", question: str, title: str, rubric: Sequence[tuple[float, str]], **item: Any) -> None:
        entry = found.setdefault(question, {"id": question, "title": title, "items": []})
        entry["items"].append({"student": row.student.id, "name": row.student.name, "rubric": rubric, **item})

    rows = read_rows(course, name)
    for row in rows:
        unreadable = any(flag["kind"] == UNREADABLE for flag in row.flags)
        tasks = assignment.tasks(variant_for(assignment, row.student.id, course.secret)) if row.notebook else ()
        for task in tasks:
            for cell in _cells(row, task):
                mark = row.marks.get(cell)
                if mark is not None and mark.answer and not unreadable and not mark.empty:
                    put(row, cell, task.title, task.rubric, most=mark.most, **_shown(row, [cell]), **_given(mark))
        for question, mark in row.sheet.items():
            html = str(mark.html)
            put(row, question, f"Sheet, {question}", [RIGHT, IDEA], most=mark.most, html=html, **_given(mark))
        if row.notebook and row.flagged is not None:
            words = [f"{flag['kind']} {flag['task']}: {flag['words']}" for flag in row.flags]
            about = _shown(row, [] if unreadable else [cell for task in tasks for cell in _cells(row, task)])
            about["note"] = "\n".join(words)
            put(row, FLAGS, "Flags: look at them", [(0, "looked at")], most=0, **about, **_given(row.flagged))
    asked = [found[key] for key in sorted(found)]
    for entry in asked:  # in an order that no name gives
        entry["items"].sort(key=lambda item: fingerprint(name, item["student"]))
    data = {"course": fingerprint(course.secret.decode()), "name": name, "questions": asked}
    text = json.dumps(data).replace("<", "\\u003c")
    page = TEMPLATES.get_template("marks.html").render(
        title=f"{assignment.title}: marks", data=Markup(text), nonce=secrets.token_urlsafe(12)
    )
    path = course.root / "marks" / f"{name}.html"
    write(path, page)
    return path


def _cells(row: "Row", task: Task) -> list[str]:
    """Return the ids of a task's answer cells, as far as they are there."""
    return [cell for cell in (task.id, f"{task.id}-plot") if cell in row.answers]


def _shown(row: "Row", cells: Iterable[str]) -> dict[str, Any]:
    """Return what a marker sees of cells: the source, what they printed, the figures."""
    texts, figures = [], []
    for cell in cells:
        outputs: list[Mapping[str, str]] = row.result["cells"].get(cell, [])
        texts.append("\n".join([row.answers[cell].source, *(f"→ {_said(x)}" for x in outputs if "png" not in x)]))
        figures += [x["png"] for x in outputs if "png" in x and is_png(x["png"])]
    return {"text": "\n\n".join(texts), "figures": figures}


def _said(output: Mapping[str, str]) -> str:
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", output.get("error") or output.get("text", ""))[:5000]


def _given(mark: Any) -> dict[str, Any]:
    before = [row._asdict() for row in mark.given if row.answer not in ("", mark.answer)]
    now = [row._asdict() for row in count(mark.given, mark.answer).given]
    return {"answer": mark.answer, "given": now, "before": before[-1:]}
