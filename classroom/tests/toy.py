"""A small assignment, and submissions to it, for the tests of the engine."""

import copy
import dataclasses
import functools
import json
from pathlib import Path

import pytest
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from attention_classroom import batch
from attention_classroom.assignment import Assignment, Check, Task, Variant
from attention_classroom.confinement import landlock_version
from attention_classroom.release import make_release
from attention_classroom.sandbox import SANDBOXES, Limits, why_not
from attention_tutorial.exercises import Case, Exercise, WrongAnswer, random, tensor

QUICK = Limits(cell_s=2.0, call_s=2.0, memory_mb=600)  # for what never ends; what does takes a tenth of that

WEIGH = "def weigh(q, k):\n    return (q @ k.T / math.sqrt(k.size(-1))).softmax(-1)"
DOUBLE = "def double(x):\n    return 2 * x"
TEXT = "Because the scores grow with the width."
STUBS = {
    "weigh": "def weigh(q, k):\n    # YOUR CODE HERE\n    ...",
    "double": "def double(x):\n    # YOUR CODE HERE\n    ...",
    "why": "*Your answer here.*",
}
FULL = {"weigh": 4.0, "double": 2.0}


def _weights(q, k):
    return (q @ k.T / k.size(-1) ** 0.5).softmax(-1)


WEIGHTS = Exercise(
    name="weigh",
    prompt="The weights.",
    right=_weights,
    returns=tensor("(m, n)", "the weights"),
    cases=[Case((random(3, 5), random(7, 5)))],
    wrong_answers=[WrongAnswer("you did not scale the scores", lambda q, k: (q @ k.T).softmax(-1), mistake=2)],
)
DOUBLED = Exercise(
    name="double",
    prompt="Twice the input.",
    right=lambda x: 2 * x,
    returns=tensor("(n,)", "the result", finite=False),
    cases=[Case((random(4),))],
    wrong_answers=[WrongAnswer("that is the square", lambda x: x * x)],
)


def tasks(variant):
    def case(m, n, d, scale=1.0):
        return Case((random(m, d, seed=5), scale * random(n, d, seed=6)))

    return [
        Task(
            id="weigh",
            title="Weigh",
            kind="code",
            table=WEIGHTS,
            checks=[
                Check(
                    points=1,
                    cases=[Case((torch.zeros(2, 3, dtype=torch.float64), random(5, 3)))],
                    says="queries of zeros",
                ),
                Check(points=3, cases=[case(3, 7, 5), case(2, 11, 13, 50.0)], says="large scores"),
            ],
        ),
        Task(
            id="double",
            title="Double",
            kind="code",
            table=DOUBLED,
            checks=[Check(points=2, cases=[Case((random(5, seed=3),))], says="other numbers")],
        ),
        Task(id="why", title="Why", kind="written", rubric=[(2, "says why")]),
    ]


ASSIGNMENT = Assignment(
    name="toy",
    title="A toy",
    chapter=1,
    minutes=1,
    tasks=tasks,
    cells=lambda variant: {"yours": f"**Yours.** The number is {variant['number']}."},
    draw=lambda source: {"number": source.randrange(10**6)},
)
VARIANT = Variant("toy", "ann", {"number": 7})


def master(answers=((4, WEIGH), (2, DOUBLE))):
    """The notebook of an assignment, with solutions: (points, source), each called as the function in its source."""
    notebook = new_notebook()

    def add(make, name, source, tags=(), **about):
        cell = make(source)
        cell.id = name
        if about:
            about = {"grade": False, "solution": False, "locked": True, "task": False, "schema_version": 3} | about
            cell.metadata["nbgrader"] = {"grade_id": name, **about}
        if tags:
            cell.metadata["tags"] = list(tags)
        notebook.cells.append(cell)

    skipped = ["not-when-graded"]
    add(new_markdown_cell, "title", "# A toy")
    add(new_code_cell, "visible-checks", "...", skipped, locked=True)
    add(new_code_cell, "setup", "import math\n\nimport torch", locked=True)
    add(new_markdown_cell, "yours", "...", ["variant"], locked=True)
    for points, source in answers:
        name = source[4 : source.index("(")]
        add(new_markdown_cell, f"{name}-task", f"Write `{name}`.")
        first, rest = source.split("\n", 1)
        solved = f"{first}\n    ### BEGIN SOLUTION\n{rest}\n    ### END SOLUTION"
        add(new_code_cell, name, solved, solution=True, locked=False)
        add(new_code_cell, f"{name}-check", f'check("{name}", {name})', skipped, grade=True, points=points)
    add(new_markdown_cell, "why-task", "Why?")
    add(new_markdown_cell, "why", TEXT, solution=True, grade=True, locked=False, points=2)
    return notebook


@functools.cache
def _release(number):
    variant = VARIANT if number == VARIANT["number"] else Variant("toy", "bob", {"number": number})
    return make_release(master(), ASSIGNMENT, variant)


def release(variant=VARIANT):
    return copy.deepcopy(_release(variant["number"]))


def submission(weigh=WEIGH, double=DOUBLE, why=TEXT, *, variant=VARIANT, extra=(), behind="setup"):
    """A handed-in notebook; ``extra`` cells of code stand after the cell of that id."""
    notebook = release(variant)
    sources = {"weigh": weigh, "double": double, "why": why}
    cells = []
    for cell in notebook.cells:
        cell.source = sources.get(cell.id, cell.source)
        cells.append(cell)
        if cell.id == behind:
            cells += [new_code_cell(source) for source in extra]
    notebook.cells = cells
    return notebook


def many(answers, extra=(), change=lambda notebook: None):
    """An assignment with a task for each of these answers, its release, and a notebook in which they are handed in.

    An answer is to `weigh` or to `double`, written so; its task has another name, and so has its function. Behind them
    stand the ``extra`` cells.
    """
    asked = {task.id: task for task in tasks(VARIANT)}
    made, solutions, sources = [], [], {}
    for name, source in answers.items():
        task = asked["weigh" if "weigh" in source else "double"]
        made.append(dataclasses.replace(task, id=name, table=dataclasses.replace(task.table, name=name)))
        solutions.append((task.automatic, {"weigh": WEIGH, "double": DOUBLE}[task.id].replace(task.id, name)))
        sources[name] = source.replace(task.id, name)
    assignment = dataclasses.replace(ASSIGNMENT, tasks=lambda variant: made)
    given = make_release(master(solutions), assignment, VARIANT)
    notebook = copy.deepcopy(given)
    for cell in notebook.cells:
        cell.source = sources.get(cell.id, cell.source)
    notebook.cells += [new_code_cell(source) for source in extra]
    change(notebook)
    return assignment, given, notebook


def named(notebook, name):
    return next(cell for cell in notebook.cells if cell.get("id") == name)


def changed(change, **sources):
    """A handed-in notebook after ``change(notebook)``."""
    notebook = copy.deepcopy(submission(**sources))
    change(notebook)
    return notebook


def written(notebook):
    return json.dumps(notebook).encode()


def kinds(flags, *but):
    return {flag["kind"] for flag in flags} - set(but)


def course(folder, received):
    """A course's folder in which these bytes were handed in, by student: (file's name, contents)."""
    here = Path(__file__).parent
    files = {
        "course.toml": 'title = "A course"\n[limits]\ncell_s = 3\ncall_s = 3\n',
        "secret": "5" * 40,
        "students.csv": "id,last_name,first_name,email\n" + "".join(f"{name},,,\n" for name in received),
        "hidden/toy.py": f"import sys\nsys.path.insert(0, {str(here)!r})\nfrom toy import ASSIGNMENT\n",
        "source/toy/toy.ipynb": json.dumps(master()),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for student, (name, contents) in received.items():
        hand_in(folder, student, name, contents)
    return folder


def hand_in(folder, student, name, contents, when="2026-11-01T10-00-00"):
    place = folder / "received" / "toy" / student / when
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(contents)


def needs(name):
    """Skip a test where the machine has no such sandbox. Where the kernel has Landlock, it has to work."""
    if name == "landlock" and landlock_version() > 0:
        return
    if fault := why_not(SANDBOXES[name]):
        pytest.skip(f"{name} does not work here ({fault}); the other sandbox is tried")


def grade_here(monkeypatch):
    """Have `grade_all` grade in this process: a worker takes seconds to import what it needs."""

    def grade_these(course, name, sandbox, students, jobs):
        return ((student, batch.grade_one(course, name, student, sandbox) and None) for student in students)

    monkeypatch.setattr(batch, "_grade_these", grade_these)
