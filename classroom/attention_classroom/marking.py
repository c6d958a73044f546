"""Marking by hand: a page that goes by question, and the joining of what several markers saved.

The page works in a browser without a network, and saves what one marker gave as a CSV.
"""

import csv
import io
import json
import math
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from .assignment import Task, load, variant_for
from .course import Course, CourseError, write
from .marks import FLAGS, Given, count, fingerprint, marks_file, read_file
from .pages import TEMPLATES, is_png
from .report import NOT_GRADED, UNREADABLE, Mark, Row, read_rows

__all__ = ["join", "marking_page"]

RIGHT, IDEA = (2.0, "right"), (1.0, "a right idea")  # of an answer of the sheet


def join(course: Course, name: str, files: Iterable[Path]) -> tuple[int, list[str]]:
    """Take markers' files into the marks of an assignment; of one marker's marks the newest counts.

    Returns:
        How many marks there are now; and in words where markers differ, and what was left out.

    Raises:
        CourseError: if a file is none of these, or gives points that there are not. Then nothing was taken.
    """
    before, left = read_rows(course, name), []
    there, not_graded = _there(before), {row.student.id for row in before if row.status == NOT_GRADED}
    path = marks_file(course, name)
    kept = {_key(row): row for row in (read_file(path) if path.is_file() else ())}
    for file in files:
        for row in read_file(file):
            if not row.marker:
                raise CourseError(f"{file}: marker must say who gave the mark of {row.student}, {row.question}")
            mark = there.get((row.student, row.question))
            if mark is None:
                why = "is not graded yet" if row.student in not_graded else "there is nothing to mark"
                left.append(f"{row.student}, {row.question}: {why}; not taken")
                continue
            if row.points and not 0 <= _number(row, file) <= mark.most:
                who = f"{row.student}, {row.question}"
                raise CourseError(f"{file}: points must be from 0 to {mark.most:g}; got {row.points} for {who}")
            row = row._replace(points=f"{float(row.points):g}" if row.points else "", answer=row.answer or mark.answer)
            if _key(row) not in kept or row.when >= kept[_key(row)].when:
                kept[_key(row)] = row
    table = io.StringIO(newline="")
    csv.writer(table).writerows([Given._fields, *sorted(kept.values(), key=_key)])
    write(path, table.getvalue())
    differ = [flag["words"] for row in read_rows(course, name) for flag in row.flags if flag["kind"] == "marks"]
    return len(kept), differ + left


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


def _there(rows: Iterable[Row]) -> dict[tuple[str, str], Mark]:
    """Return all that may be marked, by student and question."""
    there: dict[tuple[str, str], Mark] = {}
    for row in rows:
        unreadable = any(flag["kind"] == UNREADABLE for flag in row.flags)
        for cell, mark in {**({} if unreadable else row.marks), **row.sheet}.items():
            there[row.student.id, cell] = mark
        if row.flagged is not None:
            there[row.student.id, FLAGS] = row.flagged
    return there


# ---- The page --------------------------------------------------------------------------------------------------------


def marking_page(course: Course, name: str) -> Path:
    """Write the page on which an assignment is marked by question.

    It has every answer that waits for a mark or has one, the answers of the printed sheet, and the submissions whose
    flags ask for a look. What cannot be read is there to be looked at only.
    """
    assignment = load(course.hidden(course.named(name)))
    found: dict[str, dict[str, Any]] = {}

    def put(row: Row, question: str, title: str, rubric: Sequence[tuple[float, str]], **item: Any) -> None:
        entry = found.setdefault(question, {"id": question, "title": title, "items": []})
        entry["items"].append({"student": row.student.id, "name": row.student.name, "rubric": rubric, **item})

    rows = read_rows(course, name)
    for row in rows:
        unreadable = any(flag["kind"] == UNREADABLE for flag in row.flags)
        tasks = assignment.tasks(variant_for(assignment, row.student.id, course.secret)) if row.notebook else ()
        for task in tasks:
            for cell in _cells(row, task):
                mark = row.marks.get(cell)
                if mark is not None and not unreadable and not mark.empty:
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
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    page = TEMPLATES.get_template("marks.html").render(
        title=f"{assignment.title}: marks", data=Markup(text), nonce=secrets.token_urlsafe(12)
    )
    path = course.root / "marks" / f"{name}.html"
    write(path, page)
    return path


def _cells(row: Row, task: Task) -> list[str]:
    """Return the ids of a task's answer cells, as far as they are there."""
    return [cell for cell in (task.id, f"{task.id}-plot") if cell in row.answers]


def _shown(row: Row, cells: Iterable[str]) -> dict[str, Any]:
    """Return what a marker sees of cells: the source, what they printed, the figures."""
    texts, figures = [], []
    for cell in cells:
        outputs: list[Mapping[str, str]] = row.result["cells"].get(cell, [])
        texts.append("\n".join([row.answers[cell].source, *(f"→ {_said(x)}" for x in outputs if "png" not in x)]))
        figures += [x["png"] for x in outputs if "png" in x and is_png(x["png"])]
    return {"text": "\n\n".join(texts), "figures": figures}


def _said(output: Mapping[str, str]) -> str:
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", output.get("error") or output.get("text", ""))[:5000]


def _given(mark: Mark) -> dict[str, Any]:
    before = [row._asdict() for row in mark.given if row.answer not in ("", mark.answer)]
    now = [row._asdict() for row in count(mark.given, mark.answer).given]
    return {"answer": mark.answer, "given": now, "before": before[-1:]}
