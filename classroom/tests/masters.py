"""The assignments of this repository, for the tests: each master with its hidden module, and some of its variants."""

import copy
import functools

import nbformat

from attention_classroom import load, variant_for
from attention_classroom.assignment import plain_variant
from attention_classroom.release import answers, make_release
from tools.book import ROOT

FOLDER = ROOT / "classroom" / "masters"
ALL = sorted(path.stem for path in (FOLDER / "hidden").glob("*.py"))
NAMES = [name for name in ALL if name != "project"]
SECRET = b"a secret of the tests"


@functools.cache
def assignment(name):
    return load(FOLDER / "hidden" / f"{name}.py")


def path_of(name):
    return FOLDER / "source" / name / f"{name}.ipynb"


def master(name):
    return nbformat.v4.reads(path_of(name).read_text(encoding="utf-8"))


def variant(name, student=""):
    """Return a student's variant, or without one that of the master as it is stored."""
    return variant_for(assignment(name), student, SECRET) if student else plain_variant(assignment(name))


@functools.cache
def tasks(name, student=""):
    return {task.id: task for task in assignment(name).tasks(variant(name, student))}


def judged(name, student=""):
    """Return the tasks that have a table."""
    return [task for task in tasks(name, student).values() if task.table is not None]


@functools.cache
def _made(make, name, student):
    return make(master(name), assignment(name), variant(name, student))


def release(name, student=""):
    return copy.deepcopy(_made(make_release, name, student))


def solved(name, student=""):
    return copy.deepcopy(_made(answers, name, student))
