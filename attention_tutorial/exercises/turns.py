"""*Your turn*: a question whose answer is a number or more, a shape or a choice, in a cell or typed on the page."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .results import Returned, expect_numbers, number
from .running import Mistake
from .table import Exercise, Slip, Typed


def turn(
    asks: str,
    right: float | list[float] | tuple[float, ...] | str,
    wrong: Mapping[Any, str],
    *,
    choices: Sequence[str] = (),
    tolerance: float = 0.0051,
    rest: str = "it is not the right result",
) -> Exercise:
    """Return the table of a *Your turn*.

    Args:
        asks: the question, a sentence that stands alone.
        right: a number, several of them, a shape (whole numbers), or one of the choices.
        wrong: the answers of those who err, each with what is said to them.
        choices: what can be chosen, where the answer is a text.
        tolerance: how far a number may be off, so that two digits after the point are enough.
        rest: what is said to any other wrong answer.

    Returns:
        An exercise without inputs.
    """
    if isinstance(right, str):
        returns, same, tolerance = _choice(choices), _is_chosen(choices), 0.0
    elif isinstance(right, list | tuple):
        right = list(right)  # a tuple would be several results
        returns = Returned("the answer", lambda got, right: expect_numbers(got, "the answer"))
        tolerance = 0.0 if all(isinstance(x, int) for x in right) else tolerance
        same = _near(tolerance)
    else:
        returns, same = number("the answer"), _near(tolerance)
    return Exercise(
        asks=asks,
        right=right,
        returns=returns,
        slips=[Slip(words, answer) for answer, words in wrong.items()],
        same=same,
        like=_is_equal if isinstance(right, str) else same,
        rounding=False,
        rest=rest,
        typed=Typed(choices, tolerance),
    )


def _near(tolerance: float) -> Callable[[Any, Any], bool]:
    def like(got: Any, other: Any) -> bool:
        try:
            a, b = (torch.as_tensor(x, dtype=torch.float64) for x in (got, other))
        except (TypeError, ValueError, RuntimeError):
            return False  # not numbers
        return a.shape == b.shape and bool(((a - b).abs() <= tolerance).all())

    return like


def _choice(choices: Sequence[str]) -> Returned:
    def read(got: Any, right: Any) -> Tensor:
        if got not in choices:
            raise Mistake(f"choose one of {', '.join(map(repr, choices))}; got {got!r}")
        return torch.tensor(choices.index(got))

    return Returned("the choice", read)


def _is_chosen(choices: Sequence[str]) -> Callable[[Any, Any], bool]:
    return lambda got, right: bool(choices[int(got)] == right)


def _is_equal(got: Any, wrong: Any) -> bool:
    return bool(got == wrong)
