"""Taking an assignment, or its grades, elsewhere: Gradescope, the CSV of Canvas or Moodle.

What is exported for Gradescope holds the solutions, and is for the teacher's upload alone.
"""

import csv
import io
import json
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .assignment import PLAIN, load, variant_for
from .collect import same_name
from .course import Course, CourseError, Student, read_table
from .report import GRADED, LOOK, WAITING, Row
from .sandbox import needed_files

__all__ = ["Filled", "fill_in", "gradescope"]

TEMPLATES = Path(__file__).with_name("templates")
NEEDED = ("torch>=2.6", "numpy>=1.26", "matplotlib>=3.8", "tqdm>=4.66")
FOR_GRADING = ("nbformat", "safetensors", "ipython")
DAY = (1980, 1, 1, 0, 0, 0)  # of every file in a zip, so that the same course gives the same bytes


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


# ---- Gradescope -----------------------------------------------------------------------------------------------------


def gradescope(course: Course, name: str, to: Path, *, unsafe: bool = False) -> Path:
    """Write the zip that Gradescope takes as an autograder, with the solutions and the hidden checks in it.

    Where ``unsafe`` and no sandbox starts there, it grades with limits only: a student's code can then read the checks.
    ``to`` is the zip, or a folder for it.
    """
    assignment = load(course.hidden(course.named(name)))
    students = [PLAIN, *course.students]
    variants = {student: dict(variant_for(assignment, student, course.secret).values) for student in students}
    keys = {key.casefold(): s.id for s in course.students.values() for key in (s.id, s.email) if key}
    settings = {"assignment": name, "students": keys, "variants": variants, "unsafe": unsafe}
    contents: dict[str, bytes | str] = {
        "setup.sh": _template("setup.sh"),
        "run_autograder": _template("run_autograder"),
        "requirements.txt": "\n".join([*NEEDED, *FOR_GRADING, ""]),
        "settings.json": json.dumps(settings, indent=1, sort_keys=True),
        f"hidden/{name}.py": course.hidden(name).read_bytes(),
        f"source/{name}/{name}.ipynb": course.master(name).read_bytes(),
    }
    contents |= {inside: path.read_bytes() for inside, path in needed_files().items()}
    target = to / f"{name}-gradescope.zip" if to.is_dir() or not to.suffix else to
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside_name, data in contents.items():
            entry = zipfile.ZipInfo(inside_name, DAY)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if inside_name in {"setup.sh", "run_autograder"} else 0o100644) << 16
            archive.writestr(entry, data)
    return target


# ---- The CSV of a learning platform ---------------------------------------------------------------------------------

CANVAS_COLUMNS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Integration ID", "Root Account", "Section")


@dataclass
class Filled:
    """What became of a platform's table."""

    path: Path
    column: str
    given: list[str] = field(default_factory=list)  # whose grade stands in it
    converted: tuple[float, float] | None = None  # the assignment's points and the platform's, where these differ
    left: list[tuple[str, str]] = field(default_factory=list)  # (row or student, why it has none)


def fill_in(
    course: Course,
    rows: Sequence[Row],
    table: Path,
    to: Path,
    *,
    column: str = "",
    called: Sequence[str] = (),
    so_far: bool = False,
) -> Filled:
    """Fill grades into the CSV that the teacher's own Canvas or Moodle exported.

    Args:
        course: whose students they are.
        rows: of the report.
        table: Canvas's gradebook or Moodle's grading worksheet; it is not changed.
        to: the new file.
        column: the beginning of the name of the assignment's column, where the platform has several.
        called: what the assignment may be called there, if no column is given.
        so_far: whether to fill in what still waits for marks by hand, or for a look at its flags.

    Returns:
        Who has a grade, and who has none and why. The rows stay in order, and what says whose they are as it is.

    Raises:
        CourseError: if the table is not one of these, has no such column.
    """
    if to.resolve() == table.resolve():
        raise CourseError(f"--to must be another file than the platform's own; got {to} twice")
    data = table.read_bytes() if table.is_file() else b""
    lines, delimiter = read_table(data)
    if not lines:
        raise CourseError(f"table must be the CSV that Canvas or Moodle exported; {table} is empty or not there")
    head = [name.strip() for name in lines[0]]
    if {"Student", "ID"} <= set(head):
        kind, there = "Canvas", [name for name in head if re.search(r"\(\d+\)$", name)]
    elif "Grade" in head and {"Email address", "Full name", "Identifier"} & set(head):
        kind, there = "Moodle", ["Grade"]
    else:
        raise CourseError(
            f"{table} must be Canvas's gradebook (with columns Student and ID) or Moodle's grading worksheet (with "
            f"Identifier, Full name, Email address and Grade); got {', '.join(head[:8])}"
        )
    target = _column(head, column, there, table, called)
    keep = [i for i, name in enumerate(head) if kind == "Moodle" or name in CANVAS_COLUMNS or i == target]
    filled = Filled(to, head[target])
    known = {row.student.id: row for row in rows}
    for line in lines[1:]:
        line += [""] * (len(head) - len(line))
        cells = dict(zip(head, line, strict=False))
        first = cells.get("Student", "x").strip()
        if not any(map(str.strip, line)) or first in {"", "Student, Test"} or first.startswith("Points Possible"):
            continue
        who = _who(course, cells, kind)
        name = cells.get("Student") or cells.get("Full name") or cells.get("Identifier") or "a row"
        if not isinstance(who, Student):
            filled.left.append((name, who))
            continue
        row = known.pop(who.id, None)
        why = _no_grade(row, so_far)
        if row is None or why:
            filled.left.append((who.id, why))
            continue
        most = _maximum(lines, cells, target, kind)
        if most is not None and abs(most - row.most) > 1e-6:
            filled.converted = (row.most, most)
        score = round((row.score or 0.0) * (1 if most is None else most / row.most), 2)
        line[target] = f"{score:g}".replace(".", "," if delimiter == ";" else ".")
        filled.given.append(who.id)
    filled.left += [(student, f"not in {kind}'s table") for student, row in known.items() if row.score is not None]
    out = io.StringIO(newline="")
    end = "\r\n" if b"\r\n" in data else "\n"
    csv.writer(out, delimiter=delimiter, lineterminator=end).writerows(
        [line[i] for i in keep if i < len(line)] for line in lines
    )
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(mark + out.getvalue().encode("utf-8"))
    return filled


def _column(head: list[str], column: str, there: Sequence[str], table: Path, called: Sequence[str]) -> int:
    fits = [name for name in there if name.casefold().startswith(column.casefold())]
    if not column and len(fits) > 1:
        known = [_plain(name) for name in called]
        fits = [name for name in there if any(f" {title} " in f" {_plain(name)} " for title in known)]
    if len(fits) != 1:
        raise CourseError(
            f"--column must begin the name of one column of {table} ({', '.join(there) or 'it has none'}); "
            f"got {column!r}"
        )
    return head.index(fits[0])


def _plain(name: str) -> str:
    return " ".join(re.findall(r"\w+", name.casefold().replace("_", " ")))


def _who(course: Course, cells: dict[str, str], kind: str) -> Student | str:
    """Find the student of a row, by numbers and addresses first, by the name last."""
    columns = ("SIS User ID", "SIS Login ID") if kind == "Canvas" else ("Email address", "ID number", "Username")
    keys = {cells.get(column, "").strip().casefold() for column in columns} - {""}
    number, name = cells.get("ID", "").strip(), cells.get("Student" if kind == "Canvas" else "Full name", "")
    students = list(course.students.values())
    fitting = [s for s in students if kind == "Canvas" and number and s.canvas_id == number]
    fitting = fitting or [s for s in students if {s.id.casefold(), s.email.casefold() or "-"} & keys]
    fitting = fitting or [s for s in students if same_name(s, name)]
    if len(fitting) == 1:
        return fitting[0]
    return f"several students fit: {', '.join(s.id for s in fitting)}" if fitting else "no student of students.csv"


def _no_grade(row: Row | None, so_far: bool) -> str:
    if row is None:
        return "is there twice"
    if row.score is None:
        return row.status
    if row.waiting and not so_far:
        return f"waits for a mark by hand: {', '.join(row.waiting)}"
    if row.status == LOOK and not so_far:
        return f"look at it first: {', '.join(dict.fromkeys(flag['kind'] for flag in row.flags)) or 'flags'}"
    return "" if row.status in {GRADED, LOOK, WAITING} else row.status


def _maximum(lines: list[list[str]], cells: dict[str, str], target: int, kind: str) -> float | None:
    """Return the platform's own maximum of points, if the table says it."""
    if kind == "Moodle":
        text = cells.get("Maximum Grade", cells.get("Maximum grade", ""))
    else:
        rows = [line for line in lines[1:4] if line and line[0].strip().startswith("Points Possible")]
        text = rows[0][target] if rows and target < len(rows[0]) else ""
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return None
