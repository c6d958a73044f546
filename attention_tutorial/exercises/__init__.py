"""Exercises that are checked on the spot.

``check("weights_by_hand", my_answer)`` runs the learner's answer on inputs that tell right from wrong, and says what it
found. It never raises on a wrong answer and never hangs: a notebook with open exercises still runs to its end.

Each exercise is one table (`Exercise`): its inputs, its right answer, and the wrong answers that people give, each with
its message. The modules ``chapter01`` and so on hold them. The check, its tests and the page "What the checks find" are
made from these tables. `visible` packs tables as plain data for a student's notebook; the same judge reads them there.
"""

import functools
import importlib
import pkgutil
from dataclasses import replace
from typing import Any

import torch

from ..notebook.display import show
from .judging import SECONDS, Diagnosis, judge
from .parse import Returned, mask, number, numbers, random, same, tensor
from .runner import Mistake, Outcome, float64_by_default
from .table import MISTAKES, SYMPTOMS, Case, Exercise, WrongAnswer, quick_question
from .verdict import Verdict

__all__ = [
    "MISTAKES",
    "SYMPTOMS",
    "Case",
    "Diagnosis",
    "Exercise",
    "Mistake",
    "Outcome",
    "Returned",
    "WrongAnswer",
    "check",
    "diagnose",
    "exercises",
    "float64_by_default",
    "judge",
    "mask",
    "number",
    "numbers",
    "quick_question",
    "random",
    "same",
    "tensor",
]


@functools.cache
def exercises() -> dict[str, Exercise]:
    """Return the table of every exercise by its name: its variable in a module, in small letters.

    Example:
        >>> list(exercises())[:3]
        ['shape_of_scores', 'sat_without_cat', 'rows_to_one']
    """
    with torch.device("cpu"):  # their inputs are made there, whatever the default is
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
        ``None`` if the answer is right, ``"not filled in yet"`` for a stub, else a message.

    Raises:
        ValueError: if there is no such exercise.
    """
    diagnosis = judge(_exercise(name), answer, seconds=seconds)
    return None if diagnosis is None else diagnosis.message


def check(name: str, answer: Any, *, ours: bool = False) -> Any:
    """Show what there is to say about an answer to an exercise.

    Where a *Your turn* is not filled in, there is a widget instead. Its answer can be typed there, on the site too.

    Args:
        name: such as ``"weights_by_hand"``, the exercise's name.
        answer: what the exercise asks for: a value, a function or a class.
        ours: whether it is the book's own answer, which has to be right.

    Returns:
        The widget of a *Your turn* that is not filled in; else nothing.

    Raises:
        AssertionError: if the book's own answer is wrong.
        ValueError: if there is no such exercise.

    Example:
        >>> check("one_step_of_attention", ...)
        one_step_of_attention: not filled in yet.
        >>> check("sat_without_cat", 0.2)
        sat_without_cat: right.
    """
    exercise = _exercise(name)
    diagnosis = judge(exercise, answer)
    verdict = Verdict(name, diagnosis, ours)
    if ours and diagnosis is not None:
        raise AssertionError(verdict)
    if exercise.typed and diagnosis is not None and diagnosis.kind is Outcome.NOT_FILLED_IN:
        from ..widgets import YourTurn

        return YourTurn(
            exercise.prompt,
            exercise.right,
            {wrong.answer: wrong.message_for(exercise.cases[0]) for wrong in exercise.wrong_answers},
            choices=exercise.choices,
            tolerance=exercise.tolerance,
            rest=exercise.fallback_message,
        )
    show(verdict)
    return None


def _exercise(name: str) -> Exercise:
    if name not in exercises():
        raise ValueError(f"name must be one of {', '.join(exercises())}; got {name!r}")
    return exercises()[name]
