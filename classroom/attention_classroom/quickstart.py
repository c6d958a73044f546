"""A new course: the masters, a secret, a list of students, and made-up people to try everything with."""

import json
import os
import re
import secrets
import shutil
import zipfile
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from .assignment import load, variant_for
from .course import COLUMNS, Course, CourseError, open_course
from .release import make_release, solve
from .sandbox import MASTERS

__all__ = ["examples", "quickstart"]

SETTINGS = """# Settings of this course. Every line may be left out.
title = "Attention"

[limits]             # of one submission, while it is graded
cell_s = 20          # seconds for one cell
call_s = 8           # seconds for one call of an answer
total_s = 120        # seconds for all of it
memory_mb = 2048
output_kb = 200      # of text from one cell

[late]
grace_minutes = 10
percent_a_day = 0    # of the points, for each day begun; 0: lateness is only told

[due]                # with the time zone; what is not listed is never late
# bottleneck = 2027-01-31T23:59:00+01:00

[extensions]         # for one student
# bottleneck.rita = 2027-02-03T23:59:00+01:00

[questions]          # of your own, marked by hand: the points, and what is asked
# bottleneck = ["3: What would one vector cost in your own project?"]
"""

NOT_KEPT = """# What is personal or secret stays out of a repository.
secret
students.csv
received/
undone/
marks/
results/
reports/
handout/
sheets/
exports/
"""


class Example(NamedTuple):
    """A made-up student."""

    id: str
    last_name: str
    does: str


# Each is called by what they do.
EXAMPLES = (
    Example("rita", "Right", "hands in the right answers"),
    Example("hal", "Half", "answers every other task"),
    Example("wanda", "Wrong", "returns what comes in"),
    Example("lou", "Loop", "writes a loop that never ends"),
    Example("bo", "Broken", "hands in half a file"),
    Example("mia", "Missing", "hands in nothing"),
)


def quickstart(folder: Path, *, masters: Path | None = None, empty: bool = False) -> Course:
    """Make a course's folder.

    Args:
        folder: a new one, or an empty one.
        masters: the folder with ``source`` and ``hidden``; without it, that of the copy of the repository that this
            package is in.
        empty: whether to leave out the made-up students.

    Raises:
        CourseError: if the folder is in use, or there are no masters.
    """
    masters = MASTERS if masters is None else masters
    if not (masters / "source").is_dir() or not (masters / "hidden").is_dir():
        raise CourseError(
            f"--masters must be a folder with source/ and hidden/; got {masters}. The masters hold the solutions, so "
            "they come with a copy of the repository and not with `pip install`: clone it, and run this there, or "
            "name its folder classroom/masters/"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CourseError(f"folder must be new or empty; {folder} is not, and nothing in it was changed")
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("source", "hidden"):
        shutil.copytree(
            masters / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        )
    (folder / "course.toml").write_text(SETTINGS, encoding="utf-8")
    (folder / ".gitignore").write_text(NOT_KEPT, encoding="utf-8")
    people = [] if empty else [f"{e.id},{e.last_name},{e.id.capitalize()},{e.id}@example.org" for e in EXAMPLES]
    (folder / "students.csv").write_text("\n".join([",".join(COLUMNS), *people, ""]), encoding="utf-8")
    descriptor = os.open(folder / "secret", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32) + "\n")
    course = open_course(folder)
    if not course.assignments:
        raise CourseError(f"--masters must hold assignments, source/NAME/NAME.ipynb with hidden/NAME.py; got {masters}")
    if not empty:
        for name in course.assignments:
            examples(course, name)
    return course


def examples(course: Course, name: str) -> Path:
    """Write what the made-up students hand in, as one downloads it from Moodle."""
    assignment = load(course.hidden(name))
    master = nbformat.read(course.master(name), as_version=4)
    path = course.root / "examples" / f"{name}.zip"
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, example in enumerate(EXAMPLES, start=4711):
            variant = variant_for(assignment, example.id, course.secret)
            if example.last_name == "Missing":
                continue
            release = make_release(master, assignment, variant)
            solved = solve(release, master, assignment, variant)
            text = json.dumps(_handed_in(example.last_name, solved, release), indent=1)
            if example.last_name == "Broken":
                text = text[: len(text) // 2]
            person = f"{example.id.capitalize()} {example.last_name}_{number}_assignsubmission_file_"
            archive.writestr(f"{person}/{name}.ipynb", text)
    return path


def _handed_in(does: str, solved: NotebookNode, release: NotebookNode) -> NotebookNode:
    """Return the notebook of a made-up student."""
    unfilled = {cell.id: cell.source for cell in release.cells}
    answers = [cell for cell in solved.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    functions = [cell for cell in answers if re.search(r"^def \w+\(", cell.source, re.MULTILINE)]
    for number, cell in enumerate(answers):
        match = re.search(r"^def (\w+)\(", cell.source, re.MULTILINE)
        if does != "Right" and cell.cell_type == "markdown":
            cell.source = f"I think that it has to be so. {does} says it."
        elif does == "Half" and number % 2:
            cell.source = unfilled[cell.id]
        elif does == "Wrong" and match:
            cell.source = f"def {match[1]}(*what_comes_in):\n    return what_comes_in[0]"
        elif does == "Loop" and cell is functions[-1] and match:
            cell.source = f"def {match[1]}(*what_comes_in):\n    while True:\n        pass"
    return solved
