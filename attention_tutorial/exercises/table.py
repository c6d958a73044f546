"""What an exercise is made of. Everything that a check, a test or a page knows about one stands in its table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .results import Returned, alike, same_shape
from .running import call

__all__ = ["MISTAKES", "SYMPTOMS", "Case", "Exercise", "Read", "Slip", "shaped"]

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
    11: "rows without an allowed key that become NaN",
    12: "masking the queries of padding as well as the keys",
    13: "a fill that half precision cannot hold, or 1e-9 where -1e9 was meant",
    14: "a causal mask that is missing, off by one, or dropped in evaluation",
    15: "weights averaged over heads, or one axis in front taken for another",
}

# Which of them are found by a test of the page "My model misbehaves": the heading that it stands under
SYMPTOMS = {
    1: "It differs from PyTorch",
    2: "The loss does not fall",
    3: "It differs from PyTorch",
    7: "The output is the same for every input",
    9: "It differs from PyTorch",
    11: "The loss is NaN",
    13: "The loss is NaN",
    14: "The loss is too good",
}


@dataclass(frozen=True, eq=False)
class Case:
    """Inputs on which answers are run.

    Attributes:
        inputs: what an answer is called with.
        words: how a diagnosis is told that was found here.
    """

    inputs: tuple[Any, ...] = ()
    words: str = "{found}"


@dataclass(frozen=True, eq=False)
class Slip:
    """A wrong answer that people give, and what is said to whoever gives one with the same result.

    Attributes:
        words: what is said, or a function of the inputs that makes it.
        answer: what a learner would hand in: a function, a class or a value.
        mistake: its number in `MISTAKES`, if it is one of those.
        like: ``like(got, wrong, *inputs)`` says whether what came back, which may be anything, is the same as what
            this slip gives; None: as the exercise compares.
    """

    words: str | Callable[..., str]
    answer: Any
    mistake: int | None = None
    like: Like | None = None

    def told(self, case: Case) -> str:
        """Return the words for the inputs of a case."""
        return self.words if isinstance(self.words, str) else self.words(*case.inputs)


def shaped(words: str | Callable[..., str], answer: Any, mistake: int | None = None) -> Slip:
    """Return a slip that is known by the shape of its result.

    Args:
        words: what is said, or a function of the inputs that makes it.
        answer: what a learner would hand in.
        mistake: its number in `MISTAKES`, if it is one of those.

    Returns:
        The slip.
    """
    return Slip(words, answer, mistake, like=same_shape)


@dataclass(frozen=True, eq=False)
class Read(Slip):
    """A wrong answer that is not looked up: `explain` reads it off the result, in words of which these are a part."""

    words: str


@dataclass(frozen=True)
class Typed:
    """How the answer of an exercise can be typed on the page.

    Attributes:
        choices: what can be chosen, where the answer is a text.
        tolerance: how far a number may be off.
    """

    choices: Sequence[str] = ()
    tolerance: float = 0.0051


@dataclass(frozen=True, kw_only=True, eq=False)
class Exercise:
    """The table of an exercise.

    An answer is run on each case and compared with the right answer there. Where it differs, the words are those of the
    first slip with the same result; else that it is right but rounded; else what `explain` reads off the result; else
    `rest`. The inputs must tell all slips apart; a test sees to it.

    Attributes:
        name: by which `check` knows it: for a chapter's table, its variable in small letters. It lasts; the number,
            which may change, stands in the book's heading alone.
        asks: what for, in a sentence.
        right: the right answer: a function, a class or a value.
        returns: what an answer returns. Of two things the second is compared first, as weights come before outputs.
        cases: the inputs, one case after another. A value is asked for without any.
        slips: the wrong answers that people give.
        explain: ``explain(got, right, *inputs)`` reads off a result what is wrong with it.
        rest: what is said where nothing else is.
        ask: ``ask(answer, *inputs)`` gets a result from an answer. It may raise a `Mistake`.
        same: ``same(got, right, *inputs)`` says whether a result is right.
        like: compares with every slip that does not say otherwise.
        rounding: whether a result may be called right but rounded. Counts and masks never are.
        in_evaluation: whether all must hold again without gradients, and in evaluation mode.
        further: asked about an answer that is right in all cases, such as for its memory. Each returns words or None.
        typed: how its answer can be typed on the page, where it is a number, a shape or a choice.
    """

    name: str = ""
    asks: str
    right: Any
    returns: Returned | tuple[Returned, ...]
    cases: Sequence[Case] = (Case(),)
    slips: Sequence[Slip]
    explain: Callable[..., str | None] | None = None
    rest: str = "it is not the right result"
    ask: Callable[..., Any] = call
    same: Like = alike
    like: Like = alike
    rounding: bool = True
    in_evaluation: bool = False
    further: Sequence[Callable[[Any], str | None]] = ()
    typed: Typed | None = None

    def result(self, answer: Any, case: Case) -> Any:
        """Return what an answer gives in a case."""
        return self.ask(answer, *case.inputs) if callable(self.right) else answer

    def parts(self) -> tuple[Returned, ...]:
        """Return what an answer returns, also where it is one thing."""
        return self.returns if isinstance(self.returns, tuple) else (self.returns,)

    def otherwise(self, got: Any, right: Any, name: str, fine: str = "") -> str:
        """Return what is said of a part of a result where nothing else is; `fine` names the other part if right."""
        return self.rest
