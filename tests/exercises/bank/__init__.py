"""The bank of answers: other spellings of right ones, and wrong ones that no table of an exercise holds.

What people get wrong stands in the tables (`attention_tutorial.exercises`), and is tested from there. Here is what
tests the readers of results, the words for what is no result at all, and the machinery. A module for each chapter holds
``RIGHT``, ``{exercise: {name: answer}}``, and ``WRONG``, a list of `Wrong`.
"""

import importlib
import pkgutil
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Wrong:
    """A wrong answer to an exercise, and what the check must say about it."""

    exercise: str
    says: str  # part of the diagnosis
    answer: Any
    is_slip: bool = False  # whether it is a slip of the table, written otherwise, and told as that


def right_answers() -> dict[str, dict[str, Any]]:
    """Return every right answer, ``{exercise: {name: answer}}``."""
    return {exercise: answers for module in _modules() for exercise, answers in module.RIGHT.items()}


def wrong_answers() -> list[Wrong]:
    """Return every wrong answer, chapter by chapter."""
    return [wrong for module in _modules() for wrong in module.WRONG]


def _modules():
    return [importlib.import_module(found.name) for found in pkgutil.iter_modules(__path__, f"{__name__}.")]
