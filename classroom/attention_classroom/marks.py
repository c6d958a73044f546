"""Marks that a person gives, as the file of an assignment keeps them: ``marks/NAME.csv``.

It has one row for each marker, student and question. A mark is for the answer that was marked: it stays when one grades
again, and where the answer has changed since, it counts no more.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .course import Course, CourseError, read_table

__all__ = ["FLAGS", "Given", "Marks", "count", "fingerprint", "marks_file", "read_file", "read_marks"]

FLAGS = "flags"  # the question whose mark says that somebody has looked at a submission's flags


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
    path = marks_file(course, name)
    found: dict[tuple[str, str], list[Given]] = defaultdict(list)
    for row in read_file(path) if path.is_file() else ():
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


def marks_file(course: Course, name: str) -> Path:
    """Return where the marks of an assignment are kept."""
    return course.root / "marks" / f"{name}.csv"


def read_file(path: Path) -> Iterator[Given]:
    """Yield the marks of a file: what the page saved, or was written in a spreadsheet."""
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
