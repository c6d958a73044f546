"""Exercises that are checked on the spot.

``check("weights_by_hand", my_answer)`` runs the learner's answer on inputs that tell right from wrong, and says what it
found. It never raises on a wrong answer and never hangs: a notebook with open exercises still runs to its end.

Each exercise is one table (`Exercise`): its inputs, its right answer, and the slips that people make, each with its
words. The modules ``chapter01`` and so on hold them. The check, its tests and the page "What the checks find" are made
from these tables.
"""

import functools
import importlib
import pkgutil
from dataclasses import replace
from typing import Any

from .judging import SECONDS, Diagnosis, judge, slip_of, verdict
from .running import Mistake, Outcome
from .table import MISTAKES, SYMPTOMS, Case, Exercise, Read, Slip

__all__ = [
    "MISTAKES",
    "SYMPTOMS",
    "Case",
    "Diagnosis",
    "Exercise",
    "Mistake",
    "Outcome",
    "Read",
    "Slip",
    "check",
    "diagnose",
    "exercises",
    "judge",
    "slip_of",
]


@functools.cache
def exercises() -> dict[str, Exercise]:
    """Return the table of every exercise by its name: its variable in a module, in small letters.

    Example:
        >>> list(exercises())[:3]
        ['shape_of_scores', 'sat_without_cat', 'rows_to_one']
    """
    chapters = [
        importlib.import_module(f"{__name__}.{name}")
        for name in sorted(module.name for module in pkgutil.iter_modules(__path__))
        if name.startswith("chapter")
    ]
    return {
        (name := variable.lower()): replace(table, name=name)
        for chapter in chapters
        for variable, table in vars(chapter).items()
        if isinstance(table, Exercise)
    }


def diagnose(name: str, answer: Any, *, seconds: float = SECONDS) -> str | None:
    """Run an answer on the inputs of an exercise and say what is wrong with it.

    Args:
        name: such as ``"weights_by_hand"``, the exercise's name.
        answer: what the exercise asks for: a value, a function or a class.
        seconds: an answer that takes longer is stopped.

    Returns:
        ``None`` if the answer is right, ``"not filled in yet"`` for a stub, else a diagnosis in words.

    Raises:
        ValueError: if there is no such exercise.
    """
    diagnosis = judge(_exercise(name), answer, seconds=seconds)
    return None if diagnosis is None else diagnosis.words


def check(name: str, answer: Any) -> Any:
    """Print what there is to say about an answer to an exercise.

    Where a *Your turn* is not filled in, there is a widget instead. Its answer can be typed there, on the site too.

    Args:
        name: such as ``"weights_by_hand"``, the exercise's name.
        answer: what the exercise asks for: a value, a function or a class.

    Returns:
        The widget of a *Your turn* that is not filled in; else nothing.

    Raises:
        ValueError: if there is no such exercise.

    Example:
        >>> check("weights_by_hand", None)
        weights_by_hand: not filled in yet.
        >>> check("weights_by_hand", [0.1, 0.4, 0.6])
        weights_by_hand: not yet. Weights sum to 1; yours sum to 1.100.
    """
    exercise = _exercise(name)
    diagnosis = judge(exercise, answer)
    if exercise.typed is not None and diagnosis is not None and diagnosis.kind is Outcome.NOT_FILLED_IN:
        from ..widgets import YourTurn

        wrong = {slip.answer: slip.told(exercise.cases[0]) for slip in exercise.slips}
        return YourTurn(exercise.asks, exercise.right, wrong, rest=exercise.rest, **vars(exercise.typed))
    print(verdict(name, diagnosis))
    slip = diagnosis and diagnosis.slip
    if slip and slip.mistake in SYMPTOMS:
        print(f'How to find it in a model of your own: "{SYMPTOMS[slip.mistake]}" on the page "My model misbehaves".')
    return None


def _exercise(name: str) -> Exercise:
    if name not in exercises():
        raise ValueError(f"name must be one of {', '.join(exercises())}; got {name!r}")
    return exercises()[name]
