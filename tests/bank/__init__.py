"""The bank of answers: right ones that every check must accept, and wrong ones that it must tell apart.

A module for each chapter holds ``RIGHT``, ``{exercise: {name: answer}}``, and ``WRONG``, a list of `Wrong`.
test_bank.py runs all of them; the page "What the checks find" of the book is made from them (attention_book).
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# The mistakes that people really make, whatever the chapter.
MISTAKES = {
    1: "dividing the scores by √d_model in place of √d_k",
    2: "not scaling the scores, or scaling by the number of heads or keys",
    3: "dividing the scores by d_k in place of its square root",
    4: "confusing the factor √d_model on embeddings with the division by √d_k",
    5: "softmax over the wrong axis",
    6: "masking after the softmax, or multiplying the scores by 0",
    7: "a boolean mask read the wrong way round",
    8: "mixing masks that are added with masks that are boolean",
    9: "splitting or merging heads by a reshape without the transpose",
    10: "repeating a mask over the heads in another order than the tensors",
    11: "rows without an open key that become NaN",
    12: "masking the queries of padding as well as the keys",
    13: "a fill that half precision cannot hold, or 1e-9 where -1e9 was meant",
    14: "a causal mask that is missing, off by one, or dropped in evaluation",
    15: "weights averaged over heads, or one axis in front taken for another",
}


@dataclass(frozen=True)
class Wrong:
    """A wrong answer to an exercise, and what the check must say about it."""

    exercise: str
    says: str  # part of the diagnosis
    answer: Any
    mistake: int | None = None  # its number in MISTAKES, if it is one of those


def right_answers() -> dict[str, dict[str, Any]]:
    """Return every right answer, ``{exercise: {name: answer}}``."""
    return {exercise: answers for module in _modules() for exercise, answers in module.RIGHT.items()}


def wrong_answers() -> list[Wrong]:
    """Return every wrong answer, chapter by chapter."""
    return [wrong for module in _modules() for wrong in module.WRONG]


def takes_inputs(answer: Any) -> bool:
    """Whether an exercise asks for a function (not for a value or a class)."""
    return isinstance(answer, Callable) and not isinstance(answer, type)  # type: ignore[arg-type]


def _modules():
    return [importlib.import_module(found.name) for found in pkgutil.iter_modules(__path__, f"{__name__}.")]
