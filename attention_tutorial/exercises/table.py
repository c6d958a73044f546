"""What an exercise is made of. Everything that a check, a test or a page knows about one stands in its table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .results import Part, alike
from .running import call

__all__ = ["MISTAKES", "Case", "Exercise", "Read", "Slip"]

Like = Callable[..., bool]

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
class Case:
    """Inputs on which answers are run."""

    inputs: tuple[Any, ...] = ()
    words: str = "{found}"  # how a diagnosis is told that was found here


@dataclass(frozen=True)
class Slip:
    """A wrong answer that people give, and what is said to whoever gives one with the same result."""

    words: str | Callable[..., str]  # or a function of the inputs that makes them
    answer: Any
    mistake: int | None = None  # its number in MISTAKES, if it is one of those
    like: Like | None = (
        None  # like(given, wrong, *inputs): whether two results are the same; None: as the exercise says
    )

    def told(self, case: Case) -> str:
        """Return the words for the inputs of a case."""
        return self.words if isinstance(self.words, str) else self.words(*case.inputs)


@dataclass(frozen=True)
class Read(Slip):
    """A wrong answer that is not looked up: the exercise's `explain` reads it off the result. It says these words."""

    words: str


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """The table of an exercise.

    An answer is run on each case and compared with the right answer there. Where it differs, the words are those of the
    first slip with the same result; else what `explain` reads off the result; else `rest`. Inputs must tell all slips
    apart.
    """

    number: str
    asks: str  # what for, in a sentence
    right: Any  # the right answer: a function, a class or a value
    returns: Part | tuple[Part, ...]  # several are compared from the last to the first
    cases: Sequence[Case] = (Case(),)
    slips: Sequence[Slip]
    explain: Callable[..., str | None] | None = None  # explain(given, right, *inputs)
    rest: str = "it is not the right result"  # what is said where nothing else is
    ask: Callable[..., Any] = call  # ask(answer, *inputs): how a result is got from an answer
    same: Like = alike  # same(given, right, *inputs): whether a result is right
    like: Like = alike  # of every slip that does not say otherwise
    rounding: bool = True  # whether a result may be called right but rounded (counts and masks never are)
    in_evaluation: bool = False  # whether all must hold again without gradients, and in evaluation mode
    further: Sequence[Callable[[Any], str | None]] = ()  # asked about an answer that is right in all cases

    def result(self, answer: Any, case: Case) -> Any:
        """Return what an answer gives in a case."""
        return self.ask(answer, *case.inputs) if callable(self.right) else answer

    def parts(self) -> tuple[Part, ...]:
        """Return what an answer returns, also where it is one thing."""
        return self.returns if isinstance(self.returns, tuple) else (self.returns,)
