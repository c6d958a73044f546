"""Files for Moodle and Canvas: notebooks and feedback for a whole class as one zip, and their own tables of grades."""

import csv
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from .collect import platform_names, same_name
from .course import Course, CourseError, Student, read_table, write
from .report import GRADED, LOOK, NOT_GRADED, Row, read_rows, report

__all__ = ["Filled", "feedback", "fill_in", "handout"]

DAY = (1980, 1, 1, 0, 0, 0)  # of every file in a zip, so that the same course gives the same bytes


# ---- A file for each student, in one zip ----------------------------------------------------------------------------


def handout(course: Course, name: str, worksheet: Path, to: Path) -> tuple[Path, list[str], list[tuple[str, str]]]:
    """Write the zip that gives each student of a Moodle its own notebook, as a feedback file.

    Args:
        course: whose students they are.
        name: of an assignment that was released.
        worksheet: the assignment's grading worksheet, which says the number of each participant.
        to: the new zip.

    Returns:
        The zip, who is in it, and who is not and why.

    Raises:
        CourseError: if the table is no worksheet with names, or nothing was released.
    """
    head, lines, _ = _table(worksheet)
    if "Identifier" not in head or not {"Full name", "Email address"} & set(head):
        raise CourseError(
            f"{worksheet} must be Moodle's grading worksheet, with Identifier and Full name or Email address; got "
            f"{', '.join(head[:8])}. While submissions are anonymous it has no names"
        )
    files: dict[str, Path] = {}
    left, there = [], []
    rows = [dict(zip(head, line, strict=False)) for line in lines[1:] if any(line)]
    for cells, who in zip(rows, _owners(course, rows, "Moodle"), strict=True):
        number = re.search(r"\d+", cells.get("Identifier", ""))
        if not isinstance(who, Student) or number is None:
            left.append((cells.get("Full name") or "a row", who if isinstance(who, str) else "no number"))
            continue
        full = re.sub(r"[_/\\]", " ", who.name)  # Moodle counts by the underscores
        files[f"{full}_{number[0]}_assignsubmission_file_/{name}.ipynb"] = course.handout(name, who.id)
        there.append(who.id)
    left += [(student, "not in the worksheet") for student in course.students if student not in there]
    return _packed(files, to, f"first run: attention-classroom release {name}"), there, left


def feedback(course: Course, name: str, to: Path) -> tuple[Path, list[str], list[tuple[str, str]]]:
    """Write the zip that gives each student's page back, as Moodle and Canvas take it.

    The pages are written anew, and go where the newest attempt came from: Moodle's number of a participant, or Canvas's
    of a file, stood in the names of the download that was collected.

    Returns:
        The zip, who is in it, and who is not and why.

    Raises:
        CourseError: if nothing came from a platform.
    """
    came = platform_names(course, course.named(name))
    status = {row.student.id: row.status for row in read_rows(course, name) if row.attempts}
    if came.keys().isdisjoint(status):
        raise CourseError(f"nothing was collected for {name} from a download of Moodle or Canvas")
    report(course, name)
    there = [student for student in status if student in came and status[student] != NOT_GRADED]
    moodle = "{}/feedback.html", "_assignsubmission_file_"
    pages = {student: course.reports(name) / "feedback" / f"{student}.html" for student in there}
    files = {
        moodle[0].format(came[s]) if came[s].endswith(moodle[1]) else f"{came[s]}_feedback.html": pages[s]
        for s in there
    }
    left = [(s, status[s] if s in came else "came from no platform") for s in status if s not in there]
    return _packed(files, to, ""), there, left


def _packed(files: dict[str, Path], to: Path, advice: str) -> Path:
    """Write a zip, whole or not at all."""
    missing = [path.name for path in files.values() if not path.is_file()]
    if missing:
        raise CourseError(f"there is no {', '.join(missing[:5])}; {advice}")
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, path in files.items():
            entry = zipfile.ZipInfo(inside, DAY)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            archive.writestr(entry, path.read_bytes())
    write(to, memory.getvalue())
    return to


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
    came: Mapping[str, str] = MappingProxyType({}),
) -> Filled:
    """Fill grades into the CSV that the teacher's own Canvas or Moodle exported.

    Args:
        course: whose students they are.
        rows: of the report.
        table: Canvas's gradebook or Moodle's grading worksheet; it is not changed.
        to: the new file.
        column: the beginning of the name of the assignment's column, where the platform has several.
        called: what the assignment may be called there, if no column is given.
        came: the names of Moodle's folders by student, for a worksheet without names.

    Returns:
        Who has a grade, and who has none and why. The rows stay in order, and what says whose they are as it is.

    Raises:
        CourseError: if the table is not one of these, has no such column.
    """
    if to.resolve() == table.resolve():
        raise CourseError(f"--to must be another file than the platform's own; got {to} twice")
    head, lines, delimiter = _table(table)
    data = table.read_bytes()
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
    numbers = {} if kind == "Canvas" else {_moodle_number(path): who for who, path in came.items()}
    known = {row.student.id: row for row in rows}
    table_rows = []
    for line in lines[1:]:
        line += [""] * (len(head) - len(line))
        cells = dict(zip(head, line, strict=False))
        first = cells.get("Student", "x").strip()
        if any(map(str.strip, line)) and first not in {"", "Student, Test"} and not first.startswith("Points Possible"):
            table_rows.append((line, cells))
    owners = _owners(course, [cells for _, cells in table_rows], kind, numbers)
    for (line, cells), who in zip(table_rows, owners, strict=True):
        name = cells.get("Student") or cells.get("Full name") or cells.get("Identifier") or "a row"
        if not isinstance(who, Student):
            filled.left.append((name, who))
            continue
        row = known.pop(who.id, None)
        why = _no_grade(row)
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
    write(to, mark + out.getvalue().encode("utf-8"))
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


def _table(table: Path) -> tuple[list[str], list[list[str]], str]:
    lines, delimiter = read_table(table.read_bytes() if table.is_file() else b"")
    if not lines:
        raise CourseError(f"table must be the CSV that Canvas or Moodle exported; {table} is empty or not there")
    return [name.strip() for name in lines[0]], lines, delimiter


def _moodle_number(path: str) -> str:
    """Return a participant's number, as the name of a folder has it."""
    return path.removesuffix("_assignsubmission_file_").rpartition("_")[2]


def _owners(
    course: Course, rows: Sequence[Mapping[str, str]], kind: str, numbers: Mapping[str, str] = MappingProxyType({})
) -> list[Student | str]:
    """Find whose each row is, or say why nobody's: by numbers and addresses, else by a name that no other row has."""
    keyed = [_by_key(course, cells, kind) for cells in rows]
    names = [cells.get("Student" if kind == "Canvas" else "Full name", "") for cells in rows]
    owners: list[Student | str] = []
    for cells, by_key, name in zip(rows, keyed, names, strict=True):
        if not {"Student", "Full name", "Email address"} & set(cells):  # submissions are anonymous there
            student = numbers.get(re.sub(r"\D", "", cells.get("Identifier", "")), "")
            owners.append(course.students.get(student, "no submission that was collected has this number"))
            continue
        fitting = by_key or [s for s in course.students.values() if same_name(s, name)]
        if len(fitting) != 1:
            several = f"several students fit: {', '.join(s.id for s in fitting)}"
            owners.append(several if fitting else "no student of students.csv")
        elif not by_key and sum(same_name(fitting[0], other) for other in names) + (fitting in keyed) > 1:
            owners.append(f"another row may be that of {fitting[0].id}, too")
        else:
            owners.append(fitting[0])
    return owners


def _by_key(course: Course, cells: Mapping[str, str], kind: str) -> list[Student]:
    """Return who fits the numbers and addresses of a row."""
    columns = ("SIS User ID", "SIS Login ID") if kind == "Canvas" else ("Email address", "ID number", "Username")
    keys = {cells.get(column, "").strip().casefold() for column in columns} - {""}
    number = cells.get("ID", "").strip() if kind == "Canvas" else ""
    students = list(course.students.values())
    fitting = [s for s in students if number and s.canvas_id == number]
    return fitting or [s for s in students if {s.id.casefold(), s.email.casefold() or "-"} & keys]


def _no_grade(row: Row | None) -> str:
    if row is None:
        return "is there twice"
    if row.score is None:
        return row.status
    if row.waiting:
        return f"waits for a mark by hand: {', '.join(row.waiting)}"
    if row.status == LOOK:
        return f"look at it first: {', '.join(dict.fromkeys(flag['kind'] for flag in row.flags)) or 'flags'}"
    return "" if row.status == GRADED else row.status


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
