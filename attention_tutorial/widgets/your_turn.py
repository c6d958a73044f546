"""Your turn: a question on the page, whose answer is typed or chosen and told at once whether it is right."""

import html
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import traitlets

from .base import BookWidget

__all__ = ["YourTurn"]

Answer = float | Sequence[float] | str


class YourTurn(BookWidget):
    """Ask a question, and say of a wrong answer what went wrong.

    An answer is a number (typed as 0.25 or 1/4), several numbers, a shape (whole numbers, typed as 3, 4), or one of
    several choices. Numbers count as right within the tolerance. Nothing is sent anywhere.

    Args:
        question: a sentence that stands alone.
        right: the right answer.
        wrong: wrong answers that people give, each with what is said to whoever gives it.
        choices: what can be chosen, where the answer is a text.
        tolerance: of a number.
        rest: what is said to any other wrong answer.

    Raises:
        ValueError: if an answer is a text and none of the choices.

    Example:
        >>> YourTurn("What is one half of 3?", 1.5, {6.0: "that is twice as much"})
        YourTurn('What is one half of 3?')
    """

    module = "your_turn"
    html_class: ClassVar[str] = "attention-turn"

    question = traitlets.Unicode()
    kind = traitlets.Enum(["number", "numbers", "shape", "choice"])
    choices = traitlets.List(traitlets.Unicode())
    right = traitlets.List(traitlets.Float())
    wrong: "traitlets.List[dict[str, Any]]" = traitlets.List()
    tolerance = traitlets.Float()
    rest = traitlets.Unicode()
    given = traitlets.Unicode()  # what the reader has typed or chosen

    def __init__(
        self,
        question: str = "The softmax of 2 equal scores: what weight does each get?",
        right: Answer = 0.5,
        wrong: Mapping[Any, str] = {1.0: "the two weights sum to 1"},
        *,
        choices: Sequence[str] = (),
        tolerance: float = 0.0051,
        rest: str = "it is not the right result",
    ) -> None:
        for answer in (right, *wrong):
            if isinstance(answer, str) and answer not in choices:
                raise ValueError(f"answers must be among choices {list(choices)}; got {answer!r}")
        self._answer = right if isinstance(right, str) else ", ".join(f"{x:.4g}" for x in _numbers(right, choices))
        whole = isinstance(right, Sequence) and all(isinstance(x, int) for x in right)
        several = "shape" if whole else "numbers"
        super().__init__(
            question=question,
            kind="choice" if isinstance(right, str) else several if isinstance(right, Sequence) else "number",
            choices=list(choices),
            right=_numbers(right, choices),
            wrong=[{"answer": _numbers(answer, choices), "words": words} for answer, words in wrong.items()],
            tolerance=0.0 if whole or isinstance(right, str) else tolerance,
            rest=rest,
        )

    def __repr__(self) -> str:
        return f"YourTurn({self.question!r})"

    def static_html(self) -> str:
        """Return the question with its answer folded, for pages on which no script runs."""
        answer = f"<details><summary>Answer</summary>{html.escape(self._answer)}</details>"
        return f"<table>\n<caption>{html.escape(self.question)}</caption>\n<tr><td>{answer}</td></tr>\n</table>"


def _numbers(answer: Answer, choices: Sequence[str]) -> list[float]:
    """Return an answer as the page compares it: a choice by its place."""
    if isinstance(answer, str):
        return [float(choices.index(answer))]
    return [float(x) for x in (answer if isinstance(answer, Sequence) else (answer,))]
