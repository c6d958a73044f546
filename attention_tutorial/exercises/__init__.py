"""Exercises that are checked on the spot.

``check("2.1", my_answer)`` runs the learner's answer on inputs that tell right from wrong, and says in words what it
found. It never raises on a wrong answer and never hangs: a notebook with open exercises still runs from top to bottom.

Each exercise is one table (`Exercise`): its inputs, its right answer, and the slips that people make, each with its
words. The modules ``chapter01`` and so on hold them. The check, its tests and the page "What the checks find" are made
from these tables.
"""

import functools
import importlib
import pkgutil
from typing import Any

from .judging import NOT_FILLED_IN, SECONDS, Diagnosis, judge, sentence
from .running import Mistake
from .table import MISTAKES, Case, Exercise, Read, Slip

__all__ = [
    "MISTAKES",
    "Case",
    "Diagnosis",
    "Exercise",
    "Mistake",
    "Read",
    "Slip",
    "check",
    "diagnose",
    "exercises",
    "judge",
]


@functools.cache
def exercises() -> dict[str, Exercise]:
    """Return the table of every exercise by its number, in the order of the book.

    Example:
        >>> list(exercises())[:3]
        ['1.1', '1.2', '1.3']
    """
    chapters = [
        importlib.import_module(f"{__name__}.{found.name}")
        for found in pkgutil.iter_modules(__path__)
        if found.name.startswith("chapter")
    ]
    tables = {x.number: x for chapter in chapters for x in vars(chapter).values() if isinstance(x, Exercise)}
    return dict(sorted(tables.items(), key=lambda item: [int(part) for part in item[0].split(".")]))


def diagnose(exercise_id: str, answer: Any, *, seconds: float = SECONDS) -> str | None:
    """Run an answer on the inputs of an exercise and say what is wrong with it.

    Args:
        exercise_id: such as ``"2.1"``, the exercise's number in the book.
        answer: what the exercise asks for: a value, a function or a class.
        seconds: an answer that takes longer is stopped.

    Returns:
        ``None`` if the answer is right, ``"not filled in yet"`` for a stub, else a diagnosis in words.

    Raises:
        ValueError: if there is no such exercise.
    """
    known = exercises()
    if exercise_id not in known:
        raise ValueError(f"exercise_id must be one of {', '.join(known)}; got {exercise_id!r}")
    found = judge(known[exercise_id], answer, seconds=seconds)
    return None if found is None else found.words


def check(exercise_id: str, answer: Any) -> None:
    """Print what there is to say about an answer to an exercise.

    Args:
        exercise_id: such as ``"2.1"``, the exercise's number in the book.
        answer: what the exercise asks for: a value, a function or a class.

    Raises:
        ValueError: if there is no such exercise.

    Example:
        >>> check("2.1", None)
        Exercise 2.1: not filled in yet.
        >>> check("2.1", [0.1, 0.4, 0.6])
        Exercise 2.1: not yet. Weights sum to 1; yours sum to 1.100.
    """
    found = diagnose(exercise_id, answer)
    if found is None:
        print(f"Exercise {exercise_id}: right.")
    elif found == NOT_FILLED_IN:
        print(f"Exercise {exercise_id}: {found}.")
    else:
        print(f"Exercise {exercise_id}: not yet. {sentence(found)}")
