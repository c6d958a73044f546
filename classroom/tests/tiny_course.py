"""A course with one small assignment, and results as the engine would write them, for tests that need no engine."""

import json
import os

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from attention_classroom import batch
from attention_classroom.assignment import load, variant_for
from attention_classroom.course import open_course
from attention_classroom.release import answers, make_release
from attention_classroom.sandbox import SANDBOXES

NAME = "tiny"
# A picture of one pixel.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

SOLVED = """def times(x):
    ### BEGIN SOLUTION
    product = FACTOR * x
    return product
    ### END SOLUTION"""

HIDDEN = (
    f"""
SOLVED = {SOLVED!r}
"""
    + """
from attention_classroom.assignment import Assignment, Check, Task
from attention_tutorial.exercises import Case, Exercise, WrongAnswer, number

def tasks(variant):
    n = variant["factor"]
    times = Exercise(
        name="times", prompt="A number times a factor.", right=lambda x: n * x, returns=number("the product"),
        cases=[Case((2.0,)), Case((3.0,))],
        wrong_answers=[WrongAnswer("that adds the factor; multiply by it", lambda x: n + x, 4)],
    )
    return [
        Task(id="times", title="A product", kind="code", table=times, checks=[
            Check(points=1, cases=[Case((5.0,))], says="a positive number"),
            Check(points=3, cases=[Case((-5.0,)), Case((0.0,))], says="a negative number, and zero"),
        ]),
        Task(id="why", title="Why", kind="written", rubric=[(2, "says why it commutes")]),
    ]

ASSIGNMENT = Assignment(
    name="tiny", title="A tiny assignment", chapter=1, minutes=5, tasks=tasks,
    cells=lambda variant: {
        "asked": f"Write `times(x)`, which returns {variant['factor']} times a number.",
        "times": SOLVED.replace("FACTOR", str(variant["factor"])),
    },
    draw=lambda random: {"factor": random.randint(2, 90)},
)
"""
)


def master():
    def about(grade_id, *, grade=False, solution=False, points=None, kind="code"):
        metadata = {
            "grade_id": grade_id,
            "grade": grade,
            "solution": solution,
            "locked": grade and not solution,
            "task": False,
        }
        return {
            "nbgrader": {**metadata, "schema_version": 3, "cell_type": kind} | ({"points": points} if grade else {})
        }

    hidden = {"tags": ["not-when-graded"]}
    return new_notebook(
        cells=[
            new_markdown_cell("# A tiny assignment", id="title"),
            new_code_cell("import math", id="setup", metadata=about("setup") | {}),
            new_code_cell("use_hidden('x')", id="visible-checks", metadata=hidden),
            new_markdown_cell("", id="asked", metadata={"tags": ["variant"]}),
            new_code_cell(
                SOLVED,
                id="times",
                metadata=about("times", solution=True) | {"tags": ["variant"]},
            ),
            new_code_cell(
                'check("times", times)', id="times-check", metadata=about("times-check", grade=True, points=4) | hidden
            ),
            new_markdown_cell(
                "### BEGIN SOLUTION\nBecause multiplication commutes.\n### END SOLUTION",
                id="why",
                metadata=about("why", grade=True, solution=True, points=2, kind="markdown"),
            ),
        ],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )


def make_course(root, students=("s1", "s2", "s3")):
    (root / "source" / NAME).mkdir(parents=True)
    nbformat.write(master(), root / "source" / NAME / f"{NAME}.ipynb")
    (root / "hidden").mkdir()
    (root / "hidden" / f"{NAME}.py").write_text(HIDDEN)
    (root / "course.toml").write_text('title = "A course"\n')
    (root / "secret").write_text("0" * 40 + "\n")
    rows = [f"{student},Last{i},First{i},{student}@example.org" for i, student in enumerate(students, 1)]
    (root / "students.csv").write_text("id,last_name,first_name,email\n" + "\n".join(rows) + "\n")
    return open_course(root)


def variant(course, student):
    return variant_for(load(course.hidden(NAME)), student, course.secret)


def release(course, student):
    notebook = nbformat.read(course.master(NAME), as_version=4)
    return make_release(notebook, load(course.hidden(NAME)), variant(course, student))


def solved(course, student, **sources):
    """The solved notebook of a student, with other sources for some cells."""
    notebook = answers(
        nbformat.read(course.master(NAME), as_version=4), load(course.hidden(NAME)), variant(course, student)
    )
    for cell in notebook.cells:
        cell.source = sources.get(cell.id, cell.source).replace("FACTOR", str(variant(course, student)["factor"]))
    return notebook


def hand_in(course, student, notebook, when="2027-01-02T030405Z"):
    attempt = course.received(NAME, student) / when
    attempt.mkdir(parents=True)
    nbformat.write(notebook, attempt / f"{NAME}.ipynb")
    path = course.rebuilt(NAME, student)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def write_result(course, student, points=(1, 3), **more):
    """Write a result as the engine does: (points of the first check, of the second)."""
    checks = [
        {"says": "a positive number", "points": points[0], "max": 1, "words": "" if points[0] else "it is not right"},
        {"says": "a negative number, and zero", "points": points[1], "max": 3, "words": "" if points[1] else "off"},
    ]
    mistakes, newest = more.pop("mistakes", []), course.newest(NAME, student)
    result = {
        "student": student,
        "assignment": NAME,
        "key": batch._key(course, NAME, student, newest, SANDBOXES["limits"], batch.limits_of(course)),
        "sandbox": "bubblewrap",
        "seconds": 1.5,
        "flags": [],
        "tasks": {
            "times": {
                "points": sum(points),
                "max": 4,
                "by_hand": 0,
                "words": [],
                "mistakes": mistakes,
                "checks": checks,
            },
            "why": {"points": 0, "max": 2, "by_hand": 2, "words": [], "mistakes": [], "checks": []},
        },
        "cells": {"times": [{"text": "printed\n"}, {"png": PNG}]},
        **more,
    }
    path = course.result(NAME, student)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result))
    os.replace(part, path)
