"""What came of an assignment: a table of grades, a page of feedback for each student, and a page for the teacher.

Points come from nbgrader's gradebook, which has the marks given by hand too; words, flags and times from the engine's
results. What is not marked yet, or was not handed in, stands there as such and never as a silent 0.
"""

import csv
import io
import json
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from attention_tutorial.exercises import MISTAKES

from .assignment import Task, load
from .batch import write
from .course import Course, Student
from .gradebook import MissingEntry, attempt_time, open_gradebook, renew_penalties
from .grading import is_ungraded
from .pages import bars, escape, page, picture, pre, table
from .similar import Pair, similar_pairs
from .variants import PLAIN, variant_for

__all__ = ["Row", "read_rows", "report"]

SAME = 0.9995  # likeness that is told as "the same"
MOST_PAIRS = 100  # shown, of those that are nearly the same
MISSING, NOT_GRADED, WAITING, LOOK, GRADED = "missing", "not graded", "to mark by hand", "look at it", "graded"


@dataclass
class Mark:
    """What one graded cell has earned."""

    score: float | None  # None while it waits for a mark by hand
    most: float
    look: bool = False  # whether a person should look at it
    comment: str = ""  # what a person wrote about it


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

    def of(self, task: Task) -> Mark:
        """Return what a task has earned in all its cells."""
        marks = [mark for cell, mark in self.marks.items() if re.sub(r"-(check|plot)$", "", cell) == task.id]
        known = [mark.score for mark in marks if mark.score is not None]
        score = sum(known) if marks and len(known) == len(marks) else None
        comment = "\n".join(mark.comment for mark in marks if mark.comment)
        return Mark(score, task.points, any(mark.look for mark in marks), comment)

    def found(self, task: Task) -> dict[str, Any]:
        """Return what the engine says about a task."""
        found: dict[str, Any] = self.result.get("tasks", {}).get(task.id, {})
        return found

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
    tasks = assignment.tasks(variant_for(assignment, PLAIN, course.secret))
    rows = read_rows(course, name)
    answers = {row.student.id: row.notebook for row in rows if row.notebook is not None}
    common = course.release(name)
    released = nbformat.read(common, as_version=4) if common.is_file() else nbformat.v4.new_notebook()
    pairs = similar_pairs(answers, released)
    _flag_pairs(rows, pairs)
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
    """Return what is known of each student of the list, in its order, and of whoever else handed something in."""
    renew_penalties(course, name)
    rows = []
    ids = [*course.students, *(s for s in course.received_from(name) if s not in course.students)]
    due = course.due(name)
    with open_gradebook(course) as gradebook:
        for student in ids:
            row = Row(course.students.get(student, Student(student)))
            rows.append(row)
            row.attempts, row.when = len(course.attempts(name, student)), attempt_time(course, name, student)
            if due is not None and row.when is not None:
                row.hours_late = max(0.0, (row.when - due).total_seconds() / 3600)
            if row.hours_late * 60 > course.settings["late"]["grace_minutes"]:
                row.flags.append({"kind": "late", "task": "", "words": f"{row.hours_late:.1f} hours late"})
            newest = course.newest(name, student)
            if newest is not None and re.fullmatch(r"[^_]+_LATE_\d+_\d+_.*", newest.name):
                row.flags.append({"kind": "late", "task": "", "words": "Canvas says so"})
            if not row.attempts:
                continue
            row.status = NOT_GRADED
            try:
                row.result = json.loads(course.result(name, student).read_bytes())
                row.notebook = nbformat.read(course.submitted(name, student), as_version=4)
            except (OSError, ValueError):
                continue
            row.flags = [*row.result["flags"], *row.flags]
            try:
                submission = gradebook.find_submission_notebook(name, name, student)
            except MissingEntry:
                if not is_ungraded(row.result):
                    row.flags.append({"kind": "gradebook", "task": "", "words": "nbgrader has not taken this result"})
                continue
            comments = {comment.name: comment.manual_comment or "" for comment in submission.comments}
            for grade in submission.grades:
                unmarked = grade.manual_score is None and grade.auto_score is None
                score = None if unmarked else float(grade.score)
                comment = comments.get(grade.name.removesuffix("-check"), "")
                row.marks[grade.name] = Mark(score, float(grade.max_score), grade.needs_manual_grade, comment)
            row.penalty = float(submission.late_submission_penalty or 0.0)
            looks = any(mark.look and mark.score is not None for mark in row.marks.values())
            row.status = LOOK if looks else WAITING if row.waiting else GRADED
    return rows


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


def _points(points: float | None) -> str:
    """Write points for people and spreadsheets; nothing where there are none."""
    return "" if points is None else f"{points:.4g}"


def _cell(text: str) -> str:
    """Write a text so that no spreadsheet takes it for a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


def _flag_words(row: Row) -> str:
    about = ((f"{flag['kind']} of {flag['task']}".removesuffix(" of "), flag["words"]) for flag in row.flags)
    return "; ".join(f"{kind}: {words}" for kind, words in about)


def _grades(rows: Iterable[Row], tasks: Sequence[Task]) -> Iterator[list[str]]:
    """Yield the table of grades: a header, then one row for each student."""
    head = ["student_id", "last_name", "first_name", "email", "status", "score", "max_score", "late_penalty"]
    yield [
        *head, *(f"{task.id} (of {task.points:g})" for task in tasks), "waiting", "flags", "attempts", "handed_in",
        "hours_late", "seconds", "sandbox",
    ]  # fmt: skip
    for row in rows:
        student, result = row.student, row.result
        yield [
            *map(_cell, (student.id, student.last_name, student.first_name, student.email)),
            row.status,
            _points(row.score),
            _points(sum(task.points for task in tasks)),
            _points(row.penalty or None),
            *(_points(row.of(task).score) for task in tasks),
            " ".join(row.waiting),
            _cell(" ".join(_flag_words(row).split())),
            str(row.attempts),
            row.when.isoformat() if row.when else "",
            f"{row.hours_late:.1f}" if row.hours_late else "",
            f"{result['seconds']:.1f}" if result else "",
            result.get("sandbox", ""),
        ]


# ---- For a student --------------------------------------------------------------------------------------------------


def _feedback(course: Course, title: str, row: Row, tasks: Iterable[Task]) -> str:
    """Return a student's page. What other students did is not in it."""
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{escape(row.student.name)}, {escape(course.settings['title'])}</p>"]
    if not row.marks:
        words = "Nothing was handed in." if row.status == MISSING else "What was handed in is not graded yet."
        return page(title, "\n".join([*parts, f"<p>{words}</p>"]))
    score = f"<strong>{_points(row.score)} of {_points(row.most)} points</strong>"
    rest = " so far; some answers are still to be marked by hand" if row.waiting else ""
    late = f", {row.penalty:g} points less for lateness" if row.penalty else ""
    parts.append(f"<p>{score}{rest}{late}.</p>")
    parts += [_box(f) for f in row.flags if not f["task"] and f["kind"] not in {"similar", "gradebook", "common"}]
    for task in tasks:
        parts += _feedback_on(task, row)
    return page(f"{title}: {row.student.name}", "\n".join(parts))


def _box(flag: dict[str, str]) -> str:
    return f'<p class="box"><strong>{escape(flag["kind"].capitalize())}:</strong> {escape(flag["words"])}</p>'


def _feedback_on(task: Task, row: Row) -> Iterator[str]:
    mark, score = row.of(task), row.found(task)
    points = "to be marked by hand" if mark.score is None else f"{_points(mark.score)} of {task.points:g} points"
    yield f"<h2>{escape(task.title)} ({points})</h2>"
    yield from (_box(flag) for flag in row.flags if flag["task"] == task.id)
    in_checks = {check["words"] for check in score.get("checks", [])}
    more = [words for words in score.get("words", []) if words.strip() and words not in in_checks]
    yield from (f"<p>{escape(_sentence(words))}</p>" for words in more)
    checks = [
        f'<li><span class="{"good" if check["points"] >= check["max"] else "bad"}">'
        f"{check['points']:g} of {check['max']:g}</span> {escape(check['says'])}"
        f"{': ' + escape(check['words']) if check['words'] else ''}</li>"
        for check in score.get("checks", [])
    ]
    if checks:
        yield f"<ul>{''.join(checks)}</ul>"
    if task.rubric and not row.waiting:
        marked = (f"<li>{points:g} points: {escape(words)}</li>" for points, words in task.rubric)
        yield f"<p>Marked by hand, for:</p><ul>{''.join(marked)}</ul>"
    if mark.comment:
        yield f"<p>Your teacher writes:</p>{pre(mark.comment)}"
    for cell in row.notebook.cells if row.notebook else []:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if grade_id in {task.id, f"{task.id}-plot"}:
            outputs = "".join(map(_output, row.result["cells"].get(grade_id, [])))
            yield f"<details><summary>Your answer</summary>{pre(cell.source)}{outputs}</details>"


def _output(plain: dict[str, str]) -> str:
    if "png" in plain:
        return picture(plain["png"], "a figure that this answer drew")
    return pre(plain.get("error", plain.get("text", "")))


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:].rstrip('.')}."


# ---- For the teacher ------------------------------------------------------------------------------------------------


def _for_the_teacher(course: Course, title: str, rows: list[Row], tasks: Sequence[Task], pairs: list[Pair]) -> str:
    graded = [row for row in rows if row.score is not None]
    most = sum(task.points for task in tasks)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(course.settings['title'])}. {_counts(rows)}</p>",
        *_unsafe(rows),
        '<p><a href="grades.csv">grades.csv</a> has all grades by question.</p>',
    ]
    if graded:
        scores = [row.score or 0.0 for row in graded]
        middle = f"Mean {statistics.fmean(scores):.3g}, median {statistics.median(scores):.3g} of {most:g} points."
        waiting = sum(bool(row.waiting) for row in graded)
        rest = f" {waiting} have answers that wait for a mark by hand; these count nothing so far." if waiting else ""
        parts += ["<h2>Points</h2>", f"<p>{middle}{rest}</p>", bars(_spread(scores, most), "points", "Students")]
        parts += ["<h2>Questions</h2>", _questions(graded, tasks)]
        parts += ["<h2>Mistakes</h2>", _mistakes(graded, tasks)]
        parts += ["<h2>Time</h2>", *_times(graded)]
    parts += ["<h2>Answers that are alike</h2>", _alike(pairs)]
    parts += ["<h2>Flags</h2>", _all_flags(rows), "<h2>Students</h2>", _list(rows, tasks)]
    return page(f"{title}: report", "\n".join(parts))


def _counts(rows: list[Row]) -> str:
    counts = Counter(row.status for row in rows)
    parts = [f"{counts[status]} {status}" for status in (GRADED, LOOK, WAITING, NOT_GRADED, MISSING) if counts[status]]
    return f"{len(rows)} students: {', '.join(parts)}."


def _unsafe(rows: list[Row]) -> Iterator[str]:
    sandboxes = Counter(row.result["sandbox"] for row in rows if row.result)
    used = ", ".join(f"{sandbox} ({count})" for sandbox, count in sandboxes.items())
    if used:
        yield f"<p>Answers ran in the sandbox: {escape(used)}.</p>"
    if "limits" in sandboxes:
        yield (
            '<p class="box">Some answers ran with limits only: they could read files of this computer and use its '
            "network. Read the page on safety before you trust these marks.</p>"
        )


def _spread(values: list[float], most: float, bins: int = 10) -> list[tuple[str, int]]:
    """Return how many values are in each of so many equal parts of 0 to most."""
    step = most / bins if most else 1.0
    counts = Counter(min(int(value / step), bins - 1) for value in values)
    return [(f"{i * step:.3g}–{(i + 1) * step:.3g}", counts[i]) for i in range(bins)]


def _questions(rows: list[Row], tasks: Sequence[Task]) -> str:
    cells = []
    for task in tasks:
        scores = [score for row in rows if (score := row.of(task).score) is not None]
        full, none = sum(score >= task.points for score in scores), scores.count(0)
        shown = [f"{statistics.fmean(scores) / task.points:.0%}", str(full), str(none)] if scores else ["", "", ""]
        cells.append([escape(task.title), task.kind, f"{task.points:g}", *shown, str(len(rows) - len(scores))])
    head = ["question", "kind", "points", "mean", "full marks", "nothing", "waiting"]
    return table(head, cells, numbers=range(2, 7))


def _mistakes(rows: list[Row], tasks: Sequence[Task]) -> str:
    """Count what the checks found: the mistakes by their names, and which checks were not passed."""
    named: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    asked: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for task in tasks:
            score = row.found(task)
            named.update({(task.title, _mistake(mistake)) for mistake in score.get("mistakes", [])})
            for check in score.get("checks", []):
                asked[task.title, check["says"]] += 1
                failed[task.title, check["says"]] += check["points"] < check["max"]
    by_name = [[escape(words), escape(task), str(n)] for (task, words), n in named.most_common()]
    by_check = [
        [escape(says), escape(task), f"{n} of {asked[task, says]}"] for (task, says), n in failed.most_common() if n
    ]
    first = table(["mistake", "question", "students"], by_name, numbers=[2]) if by_name else "<p>None has a name.</p>"
    second = table(["check not passed", "question", "students"], by_check, numbers=[2]) if by_check else ""
    return f"{first}{second}"


def _mistake(words: str) -> str:
    number = re.fullmatch(r"mistake:(\d+)", words)
    return MISTAKES.get(int(number[1]), words) if number else words


def _times(rows: list[Row]) -> Iterator[str]:
    seconds = [row.result["seconds"] for row in rows if row.result]
    middle, most = statistics.median(seconds), max(seconds)
    yield f"<p>To run and judge a submission took {middle:.1f} s (the median), at most {most:.1f} s.</p>"
    yield bars(_spread(seconds, 8 * math.ceil(most / 8), 8), "seconds", "Submissions")


def _alike(pairs: list[Pair]) -> str:
    """Return the groups whose answers are the same, and the pairs that are nearly so."""
    if not pairs:
        return "<p>None.</p>"
    groups: list[tuple[str, set[str]]] = []
    near = []
    for pair in pairs:  # those that are the same come first
        both = {pair.first, pair.second}
        joined = [group for group in groups if group[0] == pair.what and group[1] & both]
        if pair.likeness < SAME:
            if not any(both <= group[1] for group in joined):
                near.append(pair)
            continue
        groups = [group for group in groups if group not in joined]
        groups.append((pair.what, both.union(*(group[1] for group in joined))))
    rows = [[escape(", ".join(sorted(group))), kind, "the same"] for kind, group in groups]
    rows += [[escape(f"{p.first}, {p.second}"), p.what, f"{p.likeness:.0%}"] for p in near[:MOST_PAIRS]]
    more = f"<p>And {len(near) - MOST_PAIRS} more pairs.</p>" if len(near) > MOST_PAIRS else ""
    note = "The same but for names, numbers, comments and layout: that is a question to ask, not an answer."
    return f"<p>{note}</p>{table(['students', 'what', 'alike'], rows, numbers=[2])}{more}"


def _all_flags(rows: list[Row]) -> str:
    cells = [
        [_link(row), escape(flag["kind"]), escape(flag["task"]), escape(flag["words"])]
        for row in rows
        for flag in row.flags
    ]
    return table(["student", "flag", "question", "what"], cells) if cells else "<p>None.</p>"


def _link(row: Row) -> str:
    return f'<a href="feedback/{escape(row.student.id)}.html">{escape(row.student.id)}</a>'


def _list(rows: list[Row], tasks: Sequence[Task]) -> str:
    cells = [
        [
            _link(row),
            escape(row.student.name),
            escape(row.status),
            _points(row.score),
            *(_points(row.of(task).score) for task in tasks),
            " ".join(dict.fromkeys(escape(flag["kind"]) for flag in row.flags)),
        ]
        for row in rows
    ]
    head = ["student", "name", "status", "points", *(task.id for task in tasks), "flags"]
    return table(head, cells, numbers=range(3, 4 + len(tasks)))
