"""nbgrader's side of a course: releases come from the masters, marks from the engine's results; nothing is run again.

``nbgrader_config.py`` of a course calls `configure`. After that nbgrader's own commands and its formgrader do the right
thing with the course: ``generate_assignment`` writes a release without solutions, ``autograde`` records results, and
neither runs a student's code in nbgrader's way. All that nbgrader is told stands here.
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
from collections.abc import Container, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearOutput,
    ComputeChecksums,
    GetGrades,
    LimitOutput,
    NbGraderPreprocessor,
    OverwriteKernelspec,
    SaveAutoGrades,
    SaveCells,
)
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from .assignment import load
from .course import Course, CourseError, open_course
from .grading import is_ungraded
from .rebuild import EXTRA, METADATA
from .release import make_release
from .variants import PLAIN, variant_for

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
KEY = "attention_tutorial_result"  # in a notebook's metadata: which result it shows
FOR_INFORMATION = {"common", "duplicate", "error", "ids", "missing"}  # flags that need nobody's eyes


def configure(c: Config, root: str | Path | None = None) -> None:
    """Tell nbgrader how a course of this book is released, graded and shown.

    Args:
        c: nbgrader's configuration, ``get_config()`` in ``nbgrader_config.py``.
        root: the course's folder; without it, the folder that nbgrader is started in.
    """
    if root is not None:
        c.CourseDirectory.root = str(Path(root).resolve())
    c.GenerateAssignment.preprocessors = [MakeRelease, CheckCellMetadata, ComputeChecksums, SaveCells]
    c.Autograde.sanitize_preprocessors = [ClearOutput, OverwriteKernelspec, CheckCellMetadata]
    recording = [InjectResults, LimitOutput, SaveAutoGrades, SaveFlags, AssignLatePenalties, Defuse, CheckCellMetadata]
    c.Autograde.autograde_preprocessors = recording
    c.AssignLatePenalties.plugin_class = LatePolicy
    c.GenerateFeedback.preprocessors = [Defuse, GetGrades, CSSHTMLHeaderPreprocessor]


# ---- nbgrader's own steps, called by the course's program -----------------------------------------------------------


def register(course: Course, name: str) -> None:
    """Write the common release of an assignment, and tell the gradebook its cells, its students and when it is due.

    Raises:
        CourseError: if nbgrader refuses, such as for cells added after students handed in.
    """
    _convert(course, name, GenerateAssignment)
    with open_gradebook(course) as gradebook:
        due = course.due(name)
        gradebook.update_or_create_assignment(name, duedate=due and due.astimezone(UTC).replace(tzinfo=None))
        for student in course.students.values():
            names = {column: _shown(getattr(student, column)) for column in ("last_name", "first_name", "email")}
            gradebook.update_or_create_student(student.id, **names)


def _shown(text: str) -> str:
    """Return a text in which nbgrader's pages, some of which show names raw, find no HTML."""
    return text.translate(str.maketrans('<>"&', "‹›”＆"))


def record(course: Course, name: str, *, everybody: bool = False) -> dict[str, str]:
    """Take the engine's results into nbgrader's gradebook; ``everybody``: also those that are in it already.

    Returns:
        Whose result could not be taken, and why. Those on whom the grader failed are left out: they have no marks.
    """

    def is_recorded(student: str) -> bool:
        return _recorded_key(course, name, student) == read_result(course, name, student)["key"]

    students = [path.stem for path in sorted((course.root / "results" / name).glob("*.json"))]
    students = [student for student in students if course.submitted(name, student).is_file()]
    students = [student for student in students if not is_ungraded(read_result(course, name, student))]
    todo = [student for student in students if everybody or not is_recorded(student)]
    for student in todo:
        when = attempt_time(course, name, student)
        if when is not None:
            text = f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC\n"
            (course.submitted(name, student).parent / "timestamp.txt").write_text(text, encoding="ascii")
    if not todo:
        return {}
    there = {path.name for path in (course.root / "submitted").iterdir()}
    messages = _convert(course, name, Autograde, leave_out=there - set(todo))
    return {student: messages or "nbgrader did not say why" for student in todo if not is_recorded(student)}


def forget(course: Course, name: str, student: str) -> None:
    """Remove what was made of a submission that is not there any more, from the gradebook too."""
    _seen_path(course, name, student).unlink(missing_ok=True)
    for folder in ("submitted", "autograded", "feedback"):
        shutil.rmtree(course.root / folder / student / name, ignore_errors=True)
    with open_gradebook(course) as gradebook, contextlib.suppress(MissingEntry):
        gradebook.remove_submission(name, student)


def _recorded_key(course: Course, name: str, student: str) -> str | None:
    """Return which result of a student is in the gradebook, or None."""
    path = course.root / "autograded" / student / name / f"{name}.ipynb"
    try:
        return str(json.loads(path.read_bytes())["metadata"][KEY])
    except (OSError, ValueError, KeyError):
        return None


def read_result(course: Course, name: str, student: str) -> dict[str, Any]:
    """Read what the engine found, or raise a `CourseError` that says to grade first."""
    try:
        result: dict[str, Any] = json.loads(course.result(name, student).read_bytes())
    except (OSError, ValueError) as error:
        raise CourseError(f"there is no result for {student} in {name}; run `grade {name}` first ({error})") from error
    return result


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


def _convert(course: Course, name: str, kind: type[Any], *, leave_out: Iterable[str] = ()) -> str:
    """Run one of nbgrader's converters on an assignment of a course, with the course's own configuration.

    Returns:
        What it had to say about submissions that failed, or nothing.
    """
    _find_programs()
    loader = PyFileConfigLoader("nbgrader_config.py", path=str(course.root))
    config = loader.load_config() if (course.root / "nbgrader_config.py").is_file() else Config()
    if "GenerateAssignment" not in config:
        configure(config)
    config.CourseDirectory.root = str(course.root)
    coursedir = CourseDirectory(config=config)
    coursedir.assignment_id = name
    coursedir.student_id_exclude = ",".join(sorted(leave_out))
    converter = kind(coursedir=coursedir, config=config)
    converter.force = True
    messages = ErrorLog()
    converter.log = logging.Logger(kind.__name__)
    converter.log.addHandler(messages)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of nbgrader and its database: nothing that a teacher could change
            converter.start()
    except NbGraderException as error:
        if kind is GenerateAssignment:
            raise CourseError(f"nbgrader cannot release {name}: {messages.text() or error}") from error
        return messages.text() or str(error)
    return ""


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


# ---- Preprocessors --------------------------------------------------------------------------------------------------


class _Step(NbGraderPreprocessor):
    """A step that knows its course: nbgrader changes into the course's folder before it converts."""

    def where(self, resources: dict[str, Any]) -> tuple[Course, str, str]:
        """Return the course, the assignment's name and the student's id."""
        about = resources["nbgrader"]
        return open_course(Path.cwd()), about["assignment"], about["student"]


class MakeRelease(_Step):
    """Makes the common release from the master, without solutions and with checks as plain data."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        """Replace the master by its release."""
        course, name, _ = self.where(resources)
        assignment = load(course.hidden(name))
        return make_release(nb, assignment, variant_for(assignment, PLAIN, course.secret)), resources


class InjectResults(_Step):
    """Puts the engine's result where nbgrader would run the cells: outputs, and the points of each graded cell."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        """Fill in outputs and points. Without a result of just this notebook it fails: no mark is made up."""
        course, name, student = self.where(resources)
        result = read_result(course, name, student)
        if result.get("rebuilt") != hashlib.sha256(course.submitted(name, student).read_bytes()).hexdigest():
            raise CourseError(f"what {student} has in submitted/ is not what was graded; run `grade {name}`")
        resources["classroom"] = result
        resources["classroom_waiting"] = _waiting(resources["nbgrader"]["db_url"], name, student)
        nb.metadata[KEY] = result["key"]
        for i, cell in enumerate(nb.cells):
            if cell.cell_type != "code":
                continue
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
            cell.outputs = [_output(output) for output in result["cells"].get(grade_id or cell.get("id", ""), [])]
            cell.execution_count = i + 1
            if utils.is_grade(cell) and not utils.is_solution(cell):
                task = result["tasks"].get(grade_id.removesuffix("-check"))
                if task is None:
                    raise CourseError(f"the result of {student} says nothing about {grade_id}; grade again")
                cell.outputs = _told(task, float(cell.metadata.nbgrader.points), i + 1)
        return nb, resources


def _waiting(database: str, name: str, student: str) -> dict[str, bool]:
    """Return which of a student's cells waited for a person so far."""
    with Gradebook(database) as gradebook:
        try:
            grades = gradebook.find_submission_notebook(name, name, student).grades
        except MissingEntry:
            return {}
        return {grade.name: grade.needs_manual_grade for grade in grades}


def _output(plain: dict[str, str]) -> NotebookNode:
    """Make an output of plain data; there is no way to anything but text and PNG."""
    if "png" in plain:
        return nbformat.v4.new_output("display_data", {"image/png": plain["png"], "text/plain": "a figure"})
    if "error" in plain:
        last = plain["error"].strip().splitlines()[-1:] or ["an error"]
        name, _, words = last[0].partition(": ")
        return nbformat.v4.new_output("error", ename=name, evalue=words, traceback=plain["error"].splitlines())
    return nbformat.v4.new_output("stream", name="stdout", text=plain.get("text", ""))


def _told(task: dict[str, Any], most: float, count: int) -> list[NotebookNode]:
    """Make the outputs of a graded cell: what each check says, then the points, as nbgrader reads partial credit."""
    lines = [words for words in task["words"] if words not in [check["words"] for check in task["checks"]]]
    for check in task["checks"]:
        lines.append(f"{check['points']:g} of {check['max']:g} points: {check['says']}")
        lines += [f"    {check['words']}"] if check["words"] else []
    told = [line for line in dict.fromkeys(lines) if line.strip()]
    points = max(0.0, min(float(task["points"]), most))
    return [
        nbformat.v4.new_output("stream", name="stdout", text="\n".join(told) + "\n"),
        nbformat.v4.new_output("execute_result", {"text/plain": repr(points)}, execution_count=count),
    ]


class SaveFlags(_Step):
    """Writes flags into comments, and asks for a look by hand at what they are about.

    A mark that was given or confirmed by hand asks for another look only if what it was for has changed: the answer,
    what the checks say about it, or a flag.
    """

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> Converted:
        """Save the flags of a notebook, and what its graded cells look like now."""
        course, name, student = self.where(resources)
        seen, now = _seen(course, name, student), {}
        with Gradebook(resources["nbgrader"]["db_url"]) as gradebook:
            for cell in nb.cells:
                grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
                words = _flags(resources["classroom"], grade_id)
                if utils.is_grade(cell):
                    now[grade_id] = _fingerprint(cell, words)
                    grade = gradebook.find_grade(grade_id, name, name, student)
                    if seen.get(grade_id) == now[grade_id]:
                        grade.needs_manual_grade = resources["classroom_waiting"].get(grade_id, False)
                    elif _flags(resources["classroom"], grade_id, FOR_INFORMATION):
                        grade.needs_manual_grade = True
                if utils.is_solution(cell) and words:
                    comment = gradebook.find_comment(grade_id, name, name, student)
                    comment.auto_comment = defuse(" ".join(filter(None, [comment.auto_comment, f"Flagged: {words}."])))
            gradebook.db.commit()
        path = _seen_path(course, name, student)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(now, indent=1), encoding="utf-8")
        return nb, resources


def _flags(result: dict[str, Any], grade_id: str, without: Container[str] = ()) -> str:
    """Return the words of the flags that are about a cell's task, or about all of a submission."""
    task = re.sub(r"-(check|plot)$", "", grade_id)
    flags = [flag for flag in result["flags"] if flag["task"] in {"", task} and flag["kind"] not in without]
    return "; ".join(dict.fromkeys(f"{flag['kind']}: {flag['words']}" for flag in flags))


def _seen_path(course: Course, name: str, student: str) -> Path:
    return course.root / "results" / name / "seen" / f"{student}.json"


def _seen(course: Course, name: str, student: str) -> dict[str, str]:
    """Return the fingerprints of a student's graded cells when they were last recorded."""
    try:
        seen: dict[str, str] = json.loads(_seen_path(course, name, student).read_bytes())
    except (OSError, ValueError):
        return {}
    return seen


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


class Defuse(NbGraderPreprocessor):
    """Makes written answers and their attachments harmless where nbgrader shows them as web pages."""

    def preprocess_cell(self, cell: NotebookNode, resources: dict[str, Any], cell_index: int) -> Converted:
        """Defuse a cell that a student could write: an answer, or one that was added."""
        added = cell.metadata.get(METADATA, {}).get(EXTRA)
        if cell.cell_type != "code" and (added or utils.is_solution(cell)):
            cell.source = defuse(cell.source)
            cell.pop("attachments", None)
        return cell, resources


# ---- Lateness -------------------------------------------------------------------------------------------------------


class LatePolicy(LateSubmissionPlugin):
    """Lateness costs what course.toml says."""

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """Return the points that it costs."""
        return penalty(open_course(Path.cwd()), score, total_seconds_late) or None
