"""The bank of answers: other spellings of right ones, and wrong ones that no table of an exercise holds.

What people get wrong stands in the tables (`attention_tutorial.exercises`), and is tested from there. Here is what an
exercise's own `call` and extra checks say besides. A module for each chapter holds
``BANK``, ``{exercise: Answers}``.
"""

import importlib
import pkgutil
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False)
class Wrong:
    """A wrong answer, and what the check must say about it."""

    says: str  # part of the diagnosis
    answer: Any


@dataclass(frozen=True)
class Answers:
    """Answers to one exercise: right ones by name, and wrong ones."""

    right: dict[str, Any] = field(default_factory=dict)
    wrong: list[Wrong] = field(default_factory=list)


def bank() -> dict[str, Answers]:
    """Return the answers to all exercises, by the exercise's name."""
    modules = (importlib.import_module(module.name) for module in pkgutil.iter_modules(__path__, f"{__name__}."))
    return {exercise: answers for module in modules for exercise, answers in module.BANK.items()}
