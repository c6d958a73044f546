"""Functions to repair: one right source and a table of faults, of which each variant has one.

A debug task is data. With a `BugFixTask` called ``COOLED`` in the hidden module:

- ``draw`` chooses the fault, ``"bug": rng.choice(list(COOLED.faults))``, and a number of eight or more for the source,
  such as ``{base}``. So a repaired function is wrong for most others; a cell ``cooled-yours`` says the number.
- the task is ``COOLED.task(v, ...)``, and its cell ``COOLED.cell(v)``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attention_tutorial.exercises import Case, Returned, WrongAnswer

from .assignment import Check, Task, judged_task

__all__ = ["STILL_THERE", "BugFixTask", "Fault"]

STILL_THERE = "it still returns what the function that you were given returns, so the fault is still in it"


@dataclass(frozen=True)
class Fault:
    """One fault of a function.

    Attributes:
        right: a piece of the right source that is in it once; it may be several lines.
        wrong: what stands there in its place.
        words: what is said to whoever makes this mistake.
        mistake: its number in `MISTAKES`, if it is one of those.
    """

    right: str
    wrong: str
    words: str
    mistake: int | None = None


@dataclass(frozen=True)
class BugFixTask:
    """A function of which every variant has a fault.

    Attributes:
        source: of the right function, which comes first in it. Values of the variant stand in braces, as in
            `str.format`; so a brace of Python's is written twice, here and in the faults.
        faults: by the names that `draw` chooses the variant's ``"bug"`` from.
        more: faults that no variant has, but that a repair may bring in.
    """

    source: str
    faults: Mapping[str, Fault]
    more: Sequence[Fault] = ()

    def __post_init__(self) -> None:
        for fault in (*self.faults.values(), *self.more):
            count = self.source.count(fault.right)
            if count != 1:
                raise ValueError(
                    f"right of a fault must be in the source once; got {count} times {fault.right!r} ({fault.words})"
                )

    def code(self, values: Mapping[str, Any], fault: Fault | None = None) -> str:
        """Return the source for the values of a variant, with one fault or right."""
        source = self.source.replace(fault.right, fault.wrong) if fault else self.source
        return source.format(**values)

    def cell(self, values: Mapping[str, Any]) -> str:
        """Return the master's cell: the function with the variant's fault, and the right one as the solution."""
        broken, right = self.code(values, self.faults[values["bug"]]), self.code(values)
        return f"{broken}\n\n\n### BEGIN SOLUTION\n{right}\n\n\n### END SOLUTION"

    def function(self, values: Mapping[str, Any], fault: Fault | None = None) -> Callable[..., Any]:
        """Return the function of a variant, with one fault or right."""
        names: dict[str, Any] = {}
        exec(self.code(values, fault), {"torch": torch, "math": math}, names)
        function: Callable[..., Any] = next(iter(names.values()))
        return function

    def wrong_answers(self, values: Mapping[str, Any]) -> list[WrongAnswer]:
        """Return a wrong answer for each fault. What is said of the variant's own does not name it.

        It is known by what it returns, so neither other names nor other lines with the same result bring more to light.
        """
        own = self.faults[values["bug"]]
        return [WrongAnswer(STILL_THERE, self.function(values, own))] + [
            WrongAnswer(fault.words, self.function(values, fault), fault.mistake)
            for fault in (*self.faults.values(), *self.more)
            if fault is not own
        ]

    def task(
        self,
        values: Mapping[str, Any],
        *,
        title: str,
        prompt: str,
        returns: Returned,
        cases: Sequence[Case],
        fallback_message: str,
        checks: Sequence[Check],
    ) -> Task:
        """Return the task of a variant: to repair the function, with all its faults as wrong answers.

        Args:
            values: of the variant.
            title: of the task, which has the function's name.
            prompt: what the function gives, in a sentence.
            returns: what it returns.
            cases: visible inputs.
            fallback_message: what is said where nothing else is.
            checks: the hidden ones.

        Returns:
            The task.
        """
        right = self.function(values)
        return judged_task(
            name=right.__name__,
            title=title,
            kind="debug",
            prompt=prompt,
            right=right,
            returns=returns,
            cases=cases,
            wrong_answers=self.wrong_answers(values),
            fallback_message=fallback_message,
            checks=checks,
        )
