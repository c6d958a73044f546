"""A course's folder: where each thing is, its students, its secret and its settings."""

import csv
import io
import os
import re
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["Course", "CourseError", "Limits", "Student", "open_course", "read_table", "write"]

# What may be the name of a folder on every system and on a command line.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,80}")
COLUMNS = ("id", "last_name", "first_name", "email")
ALL_COLUMNS = (*COLUMNS, "canvas_id")
CANVAS = re.compile(
    r"(?P<name>[^_]+)_(?:LATE_)?(?P<number>\d+)_(?P<upload>\d+)_(?P<file>.+)", re.DOTALL
)  # as Canvas calls files


@dataclass(frozen=True)
class Limits:
    """What a submission may use."""

    start_s: float = 300.0  # until a child must be ready
    cell_s: float = 20.0  # for one cell
    call_s: float = 8.0  # for one call of an answer
    total_s: float = 120.0  # for the whole submission
    memory_mb: int = 2048  # beyond what a fresh child has
    output_kb: int = 200  # of text from one cell
    files_mb: int = 64  # on its own disk


# The settings of course.toml, with what stands for one that is not there.
SETTINGS: Mapping[str, Any] = {
    "title": "A course on attention",
    "limits": asdict(Limits()),
    "late": {"grace_minutes": 10.0, "percent_a_day": 0.0},
    "due": {},
    "extensions": {},  # for each assignment, when it is due for some students
    "questions": {},  # the course's own, for each assignment
}


class CourseError(ValueError):
    """Something in a course's folder, or asked of it, that is not as it must be; the message says what to do."""


@dataclass(frozen=True)
class Student:
    """One row of students.csv."""

    id: str  # the name of this student in folders and files
    last_name: str = ""
    first_name: str = ""
    email: str = ""
    canvas_id: str = ""  # the number in the names of Canvas's downloads

    @property
    def name(self) -> str:
        """The name as people say it; the id where there is none.

        Example:
            >>> Student("s1", "Noether", "Emmy").name
            'Emmy Noether'
        """
        return f"{self.first_name} {self.last_name}".strip() or self.id


@dataclass(frozen=True)
class Course:
    """A course's folder."""

    root: Path

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What course.toml says, with defaults for the rest."""
        path = self.root / "course.toml"
        settings = _settings(path)
        for table in ("due", "extensions", "questions"):
            for name in settings[table]:
                _must_be_known(name, self.assignments, f"{path}: [{table}] must name an assignment")
        students = list(self.students) if (self.root / "students.csv").is_file() else []
        for name, extended in settings["extensions"].items():
            for student in extended if students else ():
                _must_be_known(
                    student,
                    students,
                    f"{path}: [extensions] {name} must name an id of students.csv, in quotes if it has a dot",
                )
        return settings

    @cached_property
    def students(self) -> dict[str, Student]:
        """The students by their ids, in the order of students.csv."""
        return _students(self.root / "students.csv")

    @cached_property
    def secret(self) -> bytes:
        """What variants are drawn from."""
        path = self.root / "secret"
        secret = path.read_text(encoding="ascii").strip() if path.is_file() else ""
        if len(secret) < 32:
            raise CourseError(
                f"{path} must hold the course's secret, at least 32 letters; got {len(secret)}. Put back the file that "
                "the handouts were made with: another secret gives other variants"
            )
        return secret.encode("ascii")

    @property
    def assignments(self) -> list[str]:
        """The names of the assignments: those with a master and a hidden module."""
        return sorted(path.stem for path in (self.root / "hidden").glob("*.py") if self.master(path.stem).is_file())

    def student(self, student: str) -> Student:
        """Return a student of the list, or raise a `CourseError` that names it."""
        if student not in self.students:
            raise CourseError(f"student must be an id of {self.root / 'students.csv'}; got {student!r}")
        return self.students[student]

    def named(self, name: str) -> str:
        """Return an assignment's name, or raise a `CourseError` that lists those there are."""
        if name not in self.assignments:
            there = ", ".join(self.assignments) or "none"
            raise CourseError(
                f"assignment must be one of {there} (the masters in {self.root / 'source'}); got {name!r}"
            )
        return name

    def due(self, name: str, student: str = "") -> datetime | None:
        """When an assignment is due, for this student, with its time zone; None where course.toml does not say."""
        extended = self.settings["extensions"].get(name, {})
        due: datetime | None = extended.get(student) or self.settings["due"].get(name)
        return due

    def questions(self, name: str) -> list[tuple[float, str]]:
        """The questions that the course adds to an assignment: points, and what is asked."""
        found = []
        for text in self.settings["questions"].get(name, []):
            match = re.fullmatch(r"(\d+(?:\.\d+)?): *(.+)", str(text), re.DOTALL)
            if match is None:
                raise CourseError(f"{self.root / 'course.toml'}: a question must be 'POINTS: WORDS'; got {text!r}")
            found.append((float(match[1]), match[2]))
        return found

    def handed_in(self, name: str, student: str) -> datetime | None:
        """When the newest attempt was handed in, as the name of its folder says; None where nothing was."""
        attempts = self.attempts(name, student)
        match = re.match(r"\d{4}-\d\d-\d\dT\d{6}Z", attempts[-1].name) if attempts else None
        return datetime.strptime(match[0], "%Y-%m-%dT%H%M%SZ").replace(tzinfo=UTC) if match else None

    def master(self, name: str) -> Path:
        """The notebook with solutions."""
        return self.root / "source" / name / f"{name}.ipynb"

    def hidden(self, name: str) -> Path:
        """The module with hidden checks."""
        return self.root / "hidden" / f"{name}.py"

    def release(self, name: str) -> Path:
        """The notebook that all students may have."""
        return self.root / "release" / name / f"{name}.ipynb"

    def handout(self, name: str, student: str) -> Path:
        """The notebook of one student, with this student's variant."""
        return self.root / "handout" / name / f"{student}.ipynb"

    def received(self, name: str, student: str) -> Path:
        """The folder of all that a student handed in, one folder for each attempt."""
        return self.root / "received" / name / student

    def rebuilt(self, name: str, student: str) -> Path:
        """What a student handed in, put into the release."""
        return self.root / "results" / name / f"{student}.ipynb"

    def result(self, name: str, student: str) -> Path:
        """What the engine found."""
        return self.root / "results" / name / f"{student}.json"

    def reports(self, name: str) -> Path:
        """The folder of an assignment's reports."""
        return self.root / "reports" / name

    def attempts(self, name: str, student: str) -> list[Path]:
        """Return the folders of a student's attempts, the oldest first."""
        return sorted(path for path in self.received(name, student).glob("[!.]*") if path.is_dir())

    def newest(self, name: str, student: str) -> Path | None:
        """Return the file of the newest attempt that is to be graded, or None if nothing was handed in.

        Among several files that is a notebook, and of several notebooks one with the assignment's name, the last as
        Canvas numbers them, else the largest. If there is no notebook it is whatever was handed in, so that it can be
        said that this is none.
        """
        attempts = self.attempts(name, student)
        files = sorted(path for path in attempts[-1].rglob("*") if path.is_file()) if attempts else []

        def likeness(path: Path) -> tuple[bool, bool, int, int]:
            file = path.name.lower()
            number = re.search(r"-(\d{1,3})\.ipynb", file)
            return ".ipynb" in file, name.lower() in file, int(number[1]) if number else 0, path.stat().st_size

        return max(files, key=likeness, default=None)

    def received_from(self, name: str) -> list[str]:
        """Return the ids of those of students.csv who handed something in, in its order."""
        attempts = (self.root / "received" / name).glob("*/[!.]*")
        there = {path.parent.name for path in attempts if path.is_dir()}
        return [student for student in self.students if student in there]


def open_course(folder: str | Path) -> Course:
    """Open a course's folder, from inside it too."""
    start = Path(folder).resolve()
    for root in (start, *start.parents):
        if (root / "course.toml").is_file() and (root / "hidden").is_dir():
            return Course(root)
    raise CourseError(
        f"course must be a folder that `quickstart` made, with course.toml in it; got {start}. "
        "To make one: attention-classroom quickstart my-course"
    )


def write(path: Path, text: str | bytes) -> None:
    """Put a file in its place, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=".part")
    try:
        with open(number, "wb") as file:
            file.write(text.encode("utf-8") if isinstance(text, str) else text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_table(data: bytes) -> tuple[list[list[str]], str]:
    """Read a CSV as spreadsheets write it: with commas, semicolons or tabs, with or without a byte order mark.

    Returns:
        The rows, and what stands between their cells.
    """
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")
    delimiter = max(",;\t", key=(text.splitlines() or [""])[0].count)
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)), delimiter


def _students(path: Path) -> dict[str, Student]:
    if not path.is_file():
        raise CourseError(
            f"{path} must list the students, with the columns {', '.join(COLUMNS)}; there is no such file"
        )
    rows = [row for row in read_table(path.read_bytes())[0] if any(map(str.strip, row))]
    if not rows:
        raise CourseError(f"{path} must begin with a row of column names; it is empty")
    header = [column.strip() for column in rows[0]]
    if "id" not in header:
        raise CourseError(f"{path} must have a column 'id' (and may have {', '.join(ALL_COLUMNS[1:])}); got {header}")
    known = [column for column in header if column in ALL_COLUMNS]
    students: dict[str, Student] = {}
    seen: set[str] = set()
    for line, row in enumerate(rows[1:], start=2):
        values = {column: row[header.index(column)].strip() for column in known if header.index(column) < len(row)}
        student = Student(**{"id": "", **values})
        if not NAME.fullmatch(student.id):
            raise CourseError(
                f"{path}, line {line}: id must be letters, digits and . _ @ -, as it names folders; got {student.id!r}"
            )
        if student.id.lower() in seen:
            raise CourseError(f"{path}, line {line}: id must be there once; got {student.id!r} twice")
        seen.add(student.id.lower())
        students[student.id] = student
    return students


def _must_be_known(name: str, known: Iterable[str], rule: str) -> None:
    near = {other.casefold(): other for other in known}
    if name not in near.values():
        meant = get_close_matches(name.casefold(), near, n=1)
        raise CourseError(f"{rule}; got {name}{f'. Did you mean {near[meant[0]]}?' if meant else ''}")


def _settings(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise CourseError(f"{path} must be TOML; {error}") from error
    settings: dict[str, Any] = {}
    for key, default in SETTINGS.items():
        value = content.pop(key, default)
        if type(value) is not type(default):
            kind = "a text" if isinstance(default, str) else "a table"
            raise CourseError(f"{path}: {key} must be {kind}; got {value!r}")
        if isinstance(default, dict) and default:
            unknown = set(value) - set(default)
            if unknown:
                raise CourseError(f"{path}: [{key}] may have {', '.join(default)}; got {', '.join(sorted(unknown))}")
            for part, number in value.items():
                if isinstance(number, bool) or not isinstance(number, int | float) or number < 0:
                    raise CourseError(f"{path}: {part} of [{key}] must be a number, 0 or more; got {number!r}")
            value = {**default, **value}
        settings[key] = value
    if content:
        raise CourseError(f"{path} may have {', '.join(SETTINGS)}; got {', '.join(sorted(content))}")
    dues = list(settings["due"].items())
    for name, students in settings["extensions"].items():
        if not isinstance(students, dict):
            raise CourseError(f"{path}: [extensions] must have lines such as masking.rita = TIME; got {name}")
        dues += [(f"{name}.{student}", due) for student, due in students.items()]
    for name, due in dues:
        if not isinstance(due, datetime) or due.tzinfo is None:
            raise CourseError(
                f"{path}: {name} must be due at a time with its zone, such as 2027-01-31T23:59:00+01:00; got {due!r}"
            )
    return settings
