"""nbgrader's side of a course: its gradebook and formgrader, for marks that a person gives.

Releases come from the masters, marks from the engine's results. ``nbgrader_config.py`` of a course calls `configure`,
after which formgrader shows the course, and nbgrader's own autograder finds nothing to run. All that nbgrader is told
stands here.
"""

import contextlib
import hashlib
import json
import logging
import math
import os
import re
import shutil
import sys
import warnings
from collections.abc import Container
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import GenerateAssignment
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import CheckCellMetadata, ComputeChecksums, GetGrades, NbGraderPreprocessor, SaveCells
from sqlalchemy.exc import SAWarning
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from .assignment import PLAIN, load, variant_for
from .course import Course, CourseError, open_course, write
from .grading import is_ungraded
from .rebuild import EXTRA, METADATA
from .release import make_release

__all__ = [
    "MissingEntry",
    "attempt_time",
    "configure",
    "forget",
    "open_gradebook",
    "record",
    "register",
    "renew_penalties",
]

Converted = tuple[NotebookNode, dict[str, Any]]
KEY = "attention_classroom"  # in an autograded notebook's metadata: its result, and what its cells looked like
FOR_INFORMATION = {"common", "duplicate", "error", "ids", "missing"}  # flags that need nobody's eyes


def configure(c: Config, root: str | Path | None = None) -> None:
    """Tell nbgrader how a course of this book is released and shown.

    Args:
        c: nbgrader's configuration, ``get_config()`` in ``nbgrader_config.py``.
        root: the course's folder; without it, the folder that nbgrader is started in.
    """
    if root is not None:
        c.CourseDirectory.root = str(Path(root).resolve())
    c.GenerateAssignment.preprocessors = [MakeRelease, CheckCellMetadata, ComputeChecksums, SaveCells]
    c.Autograde.sanitize_preprocessors = c.Autograde.autograde_preprocessors = [Refuse]
    c.GenerateFeedback.preprocessors = [GetGrades, CSSHTMLHeaderPreprocessor]


# ---- Releasing ------------------------------------------------------------------------------------------------------


def register(course: Course, name: str) -> None:
    """Write the common release of an assignment, and tell the gradebook its cells, its students and when it is due.

    Raises:
        CourseError: if nbgrader refuses, such as for cells added after students handed in.
    """
    _generate(course, name)
    with open_gradebook(course) as gradebook:
        due = course.due(name)
        gradebook.update_or_create_assignment(name, duedate=due and due.astimezone(UTC).replace(tzinfo=None))
        for student in course.students.values():
            names = {column: _shown(getattr(student, column)) for column in ("last_name", "first_name", "email")}
            gradebook.update_or_create_student(student.id, **names)


def _shown(text: str) -> str:
    """Return a text in which nbgrader's pages, some of which show names raw, find no HTML."""
    return text.translate(str.maketrans('<>"&', "‹›”＆"))


def _generate(course: Course, name: str) -> None:
    """Have nbgrader make the release, with the course's own configuration."""
    _find_programs()
    loader = PyFileConfigLoader("nbgrader_config.py", path=str(course.root))
    config = loader.load_config() if (course.root / "nbgrader_config.py").is_file() else Config()
    if "GenerateAssignment" not in config:
        configure(config)
    config.CourseDirectory.root = str(course.root)
    coursedir = CourseDirectory(config=config)
    coursedir.assignment_id = name
    converter = GenerateAssignment(coursedir=coursedir, config=config)
    converter.force = True
    messages = ErrorLog()
    converter.log = logging.Logger("nbgrader")
    converter.log.addHandler(messages)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of nbgrader and its database: nothing that a teacher could change
            converter.start()
    except NbGraderException as error:
        raise CourseError(f"nbgrader cannot release {name}: {messages.text() or error}") from error


class ErrorLog(logging.Handler):
    """Keeps the errors that nbgrader logs; the last line of a traceback says most."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        lines = record.getMessage().strip().splitlines()
        if lines and not lines[-1].startswith(("There was an error", "Please see")):
            self.lines.append(lines[-1])

    def text(self) -> str:
        return "; ".join(dict.fromkeys(self.lines))


class MakeRelease(NbGraderPreprocessor):
    """Makes the common release from the master, without solutions and with checks as plain data."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        """Replace the master by its release; nbgrader has changed into the course's folder."""
        course = open_course(Path.cwd())
        assignment = load(course.hidden(resources["nbgrader"]["assignment"]))
        return make_release(nb, assignment, variant_for(assignment, PLAIN, course.secret)), resources


class Refuse(NbGraderPreprocessor):
    """Stands where nbgrader would run what students wrote, if somebody puts a notebook where nbgrader looks."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        """Refuse."""
        raise CourseError("nbgrader runs students' code without a sandbox; use attention-classroom grade")


# ---- Recording ------------------------------------------------------------------------------------------------------


def record(course: Course, name: str, *, everybody: bool = False) -> dict[str, str]:
    """Take the engine's results into nbgrader's gradebook; ``everybody``: also those that are in it already.

    Returns:
        Whose result could not be taken, and why. Those on whom the grader failed are left out: they have no marks.
    """
    failed = {}
    with open_gradebook(course) as gradebook, warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # of nbgrader's own code
        for path in sorted((course.root / "results" / name).glob("*.json")):
            student = path.stem
            try:
                result = json.loads(path.read_bytes())
                if is_ungraded(result) or not course.rebuilt(name, student).is_file():
                    continue
                if everybody or _recorded(course, name, student).get("result") != result["key"]:
                    _record(gradebook, course, name, student, result)
            except (CourseError, MissingEntry, ValueError) as error:
                gradebook.db.rollback()
                failed[student] = str(error)
    renew_penalties(course, name)
    return failed


def _record(gradebook: Gradebook, course: Course, name: str, student: str, result: dict[str, Any]) -> None:
    """Write a student's notebook as formgrader shows it, and its marks.

    A mark that was given or confirmed by hand asks for another look only if what it was for has changed: the answer,
    what the checks say about it, or a flag.
    """
    notebook = nbformat.read(course.rebuilt(name, student), as_version=4)
    when = attempt_time(course, name, student)
    if when is not None:  # formgrader compares the times; there is no notebook beside, which nbgrader would run
        write(course.root / "submitted" / student / name / "timestamp.txt", f"{when:%Y-%m-%d %H:%M:%S} UTC\n")
    gradebook.update_or_create_student(student)
    gradebook.update_or_create_submission(name, student, **({"timestamp": when} if when else {}))
    seen, now = _recorded(course, name, student).get("seen", {}), {}
    for number, cell in enumerate(notebook.cells, 1):
        about = cell.metadata.get("nbgrader", {})
        grade_id = about.get("grade_id", "")
        flags = _flags(result, grade_id)
        is_empty = about.get("checksum") == utils.compute_checksum(cell) if utils.is_solution(cell) else False
        if cell.cell_type == "code":
            cell.outputs = [_output(output) for output in result["cells"].get(grade_id or cell.get("id", ""), [])]
            cell.execution_count = number
        if utils.is_grade(cell):
            grade = gradebook.find_grade(grade_id, name, name, student)
            if utils.is_solution(cell):
                grade.auto_score = 0.0 if is_empty else None
            else:
                task = result["tasks"].get(grade_id.removesuffix("-check"))
                if task is None:
                    raise CourseError(f"the result of {student} says nothing about {grade_id}; grade again")
                grade.auto_score = max(0.0, min(float(task["points"]), float(about["points"])))
                cell.outputs = [_told(task)]
            now[grade_id] = _fingerprint(cell, flags)
            if seen.get(grade_id) != now[grade_id]:
                by_hand = grade.auto_score is None or grade.manual_score is not None
                grade.needs_manual_grade = by_hand or bool(_flags(result, grade_id, FOR_INFORMATION))
        if utils.is_solution(cell):
            comment = gradebook.find_comment(grade_id, name, name, student)
            said = ["No response."] * is_empty + [f"Flagged: {flags}."] * bool(flags)
            comment.auto_comment = defuse(" ".join(said)) or None
        if cell.cell_type != "code" and (utils.is_solution(cell) or cell.metadata.get(METADATA, {}).get(EXTRA)):
            cell.source = defuse(cell.source)
    notebook.metadata[KEY] = {"result": result["key"], "seen": now}
    gradebook.db.commit()
    write(_autograded(course, name, student), nbformat.writes(notebook))


def forget(course: Course, name: str, student: str) -> None:
    """Remove what was made of a submission that is not there any more, from the gradebook too."""
    course.rebuilt(name, student).unlink(missing_ok=True)
    for folder in ("submitted", "autograded", "feedback"):
        shutil.rmtree(course.root / folder / student / name, ignore_errors=True)
    with open_gradebook(course) as gradebook, contextlib.suppress(MissingEntry):
        gradebook.remove_submission(name, student)


def _autograded(course: Course, name: str, student: str) -> Path:
    return course.root / "autograded" / student / name / f"{name}.ipynb"


def _recorded(course: Course, name: str, student: str) -> dict[str, Any]:
    """Return which result of a student is in the gradebook, and fingerprints of its graded cells."""
    try:
        recorded: dict[str, Any] = json.loads(_autograded(course, name, student).read_bytes())["metadata"][KEY]
    except (OSError, ValueError, KeyError):
        return {}
    return recorded


def attempt_time(course: Course, name: str, student: str) -> datetime | None:
    """Return when the newest attempt was handed in, as the name of its folder says; None where nothing was."""
    attempts = course.attempts(name, student)
    match = re.match(r"\d{4}-\d\d-\d\dT\d{6}Z", attempts[-1].name) if attempts else None
    return datetime.strptime(match[0], "%Y-%m-%dT%H%M%SZ").replace(tzinfo=UTC) if match else None


def penalty(course: Course, score: float, seconds_late: float) -> float:
    """Return the points that lateness costs, as course.toml says.

    Example:
        >>> from attention_classroom.course import Course
        >>> course = Course(Path())
        >>> course.__dict__["settings"] = {"late": {"grace_minutes": 10, "percent_a_day": 20}}
        >>> [penalty(course, 10, seconds) for seconds in (300, 3600, 25 * 3600, 1e9)]
        [0.0, 2.0, 4.0, 10.0]
    """
    late = course.settings["late"]
    if seconds_late <= 60 * late["grace_minutes"]:
        return 0.0
    return min(float(score), score * late["percent_a_day"] / 100 * math.ceil(seconds_late / 86400))


def renew_penalties(course: Course, name: str) -> None:
    """Compute what lateness costs from the present marks: nbgrader does it before anything is marked by hand."""
    with open_gradebook(course) as gradebook:
        for submission in gradebook.assignment_submissions(name):
            for notebook in submission.notebooks:
                cost = penalty(course, notebook.score, submission.total_seconds_late)
                notebook.late_submission_penalty = cost or None
        gradebook.db.commit()


def open_gradebook(course: Course) -> Gradebook:
    """Open a course's gradebook; to be used in a ``with``."""
    _find_programs()
    logging.getLogger("tornado.application").disabled = True  # nbgrader logs there, at length, what it raises as well
    return Gradebook(f"sqlite:///{course.root / 'gradebook.db'}")


def _find_programs() -> None:
    """Let nbgrader find `alembic`, which it starts by name, where the interpreter's environment is not activated."""
    scripts = str(Path(sys.executable).parent)
    if scripts not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([scripts, os.environ.get("PATH", "")])


def _output(plain: dict[str, str]) -> NotebookNode:
    """Make an output of plain data; there is no way to anything but text and PNG."""
    if "png" in plain:
        return nbformat.v4.new_output("display_data", {"image/png": plain["png"], "text/plain": "a figure"})
    if "error" in plain:
        last = plain["error"].strip().splitlines()[-1:] or ["an error"]
        name, _, words = last[0].partition(": ")
        return nbformat.v4.new_output("error", ename=name, evalue=words, traceback=plain["error"].splitlines())
    return nbformat.v4.new_output("stream", name="stdout", text=plain.get("text", ""))


def _told(task: dict[str, Any]) -> NotebookNode:
    """Make the output of a graded cell: what each check says."""
    lines = [words for words in task["words"] if words not in [check["words"] for check in task["checks"]]]
    for check in task["checks"]:
        lines.append(f"{check['points']:g} of {check['max']:g} points: {check['says']}")
        lines += [f"    {check['words']}"] if check["words"] else []
    told = [line for line in dict.fromkeys(lines) if line.strip()]
    return nbformat.v4.new_output("stream", name="stdout", text="\n".join(told) + "\n")


def _flags(result: dict[str, Any], grade_id: str, without: Container[str] = ()) -> str:
    """Return the words of the flags that are about a cell's task, or about all of a submission."""
    task = re.sub(r"-(check|plot)$", "", grade_id)
    flags = [flag for flag in result["flags"] if flag["task"] in {"", task} and flag["kind"] not in without]
    return "; ".join(dict.fromkeys(f"{flag['kind']}: {flag['words']}" for flag in flags))


def _fingerprint(cell: NotebookNode, flags: str) -> str:
    """Return what changes when a mark for a cell would: the answer of one marked by hand, else what checks said."""
    content = cell.source if utils.is_solution(cell) else json.dumps(cell.get("outputs", []), sort_keys=True)
    return hashlib.sha256(f"{content}\0{flags}".encode()).hexdigest()[:16]


# ---- What students wrote is shown, and does nothing -----------------------------------------------------------------

TAGS = re.compile(r"<(?=[a-zA-Z/!?])")
MACROS = re.compile(
    r"\\(?=(?:href|url|class|style|cssId|require|unicode|def|let|newcommand|renewcommand|html\w*|csname)\b)"
)


def defuse(markdown: str) -> str:
    """Return Markdown that shows as before, formulas included, and in which no HTML, link or picture works.

    Example:
        >>> defuse('$a < b$, <script>x</script> and [me](javascript:x)')
        '$a < b$, < script>x< /script> and [me] (javascript:x)'
    """
    text = TAGS.sub("< ", markdown)
    text = re.sub(r"\](?=[(\[:])", "] ", text)
    return MACROS.sub(r"\\ ", text)
