"""Exercises that are checked on the spot.

``check("2.1", my_answer)`` runs the learner's answer on inputs that tell right from wrong, and says in words what it
found. It never raises on a wrong answer: a notebook with open exercises still runs from top to bottom.
"""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

__all__ = ["check", "diagnose", "exercise"]

_CHECKERS: dict[str, Callable[[Any], str | None]] = {}


def exercise(exercise_id: str) -> Callable[[Callable[[Any], str | None]], Callable[[Any], str | None]]:
    """Register a checker: a function of the answer that returns None when it is right, else a diagnosis in words."""

    def register(checker: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
        _CHECKERS[exercise_id] = checker
        return checker

    return register


def diagnose(exercise_id: str, answer: Any) -> str | None:
    """Run the checker of an exercise on an answer.

    Args:
        exercise_id: such as ``"2.1"``, the exercise's number in the book.
        answer: what the exercise asks for: a value or a function.

    Returns:
        ``None`` if the answer is right, ``"not filled in yet"`` for a stub, else a diagnosis in words.

    Raises:
        ValueError: if there is no such exercise.
    """
    for chapter in pkgutil.iter_modules(__path__, prefix=f"{__name__}."):
        importlib.import_module(chapter.name)
    if exercise_id not in _CHECKERS:
        raise ValueError(f"exercise_id must be one of {', '.join(sorted(_CHECKERS))}; got {exercise_id!r}")
    stub = "not filled in yet"
    if answer is None or answer is Ellipsis:
        return stub
    try:
        return _CHECKERS[exercise_id](answer)
    except NotImplementedError:
        return stub
    except Exception as error:
        return f"your code raised {type(error).__name__}{f': {error}' if str(error) else ''}"


def check(exercise_id: str, answer: Any) -> None:
    """Print what the checker of an exercise has to say about an answer.

    Args:
        exercise_id: such as ``"2.1"``, the exercise's number in the book.
        answer: what the exercise asks for: a value or a function.

    Raises:
        ValueError: if there is no such exercise.

    Example:
        >>> check("2.1", None)
        Exercise 2.1: not filled in yet.
    """
    found = diagnose(exercise_id, answer)
    if found is None:
        print(f"Exercise {exercise_id}: right.")
    elif found == "not filled in yet":
        print(f"Exercise {exercise_id}: {found}.")
    else:
        print(f"Exercise {exercise_id}: not yet. {found[0].upper()}{found[1:].rstrip('.')}.")
