"""What an exercise is made of. Everything that a check, a test or a page knows about one stands in its table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .parse import Returned, number, numbers
from .runner import call

__all__ = ["MISTAKES", "SYMPTOMS", "Case", "Exercise", "Known", "WrongAnswer", "quick_question"]

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
    13: "a finite fill in place of minus infinity, such as -1e9, or 1e-9 by a slip",
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
class Known:
    """What the answers of a table give in a case, as plain data.

    Attributes:
        expected: the right result.
        wrong: the message and the result of each wrong answer; its result is None if it gives none here.
    """

    expected: Any
    wrong: Sequence[tuple[str, Any]]


@dataclass(frozen=True, eq=False)
class Case:
    """Inputs on which answers are run.

    Attributes:
        inputs: what an answer is called with.
        message: how a diagnosis is told that was found here.
        known: what is known of the case, where the answers themselves are not there, as in a student's notebook.
    """

    inputs: tuple[Any, ...] = ()
    message: str = "{found}"
    known: Known | None = None


@dataclass(frozen=True, eq=False)
class WrongAnswer:
    """A wrong answer that people give, and what is said to whoever gives one with the same result.

    Attributes:
        message: what is said, or a function of the inputs that makes it. If the exercise's own `call` or an extra
            check says it, it is part of what they say.
        answer: what a learner would hand in: a function, a class or a value.
        mistake: its number in `MISTAKES`, if it is one of those.
    """

    message: str | Callable[..., str]
    answer: Any
    mistake: int | None = None

    def message_for(self, case: Case) -> str:
        """Return the message for the inputs of a case."""
        return self.message if isinstance(self.message, str) else self.message(*case.inputs)


@dataclass(frozen=True, kw_only=True, eq=False)
class Exercise:
    """The table of an exercise.

    An answer is run on each case and compared with the right answer there. Where it differs, the message is that of the
    first wrong answer with the same result; else what the numbers show (`diagnosis`); else `fallback_message` and the
    first place that is wrong. The inputs must tell all wrong answers apart; a test sees to it.

    Attributes:
        name: by which `check` knows it: for a chapter's table, its variable in small letters. It lasts; the number,
            which may change, stands in the book's heading alone.
        prompt: what is asked for, in a sentence.
        right: the right answer: a function, a class or a value.
        returns: what an answer returns. Of two things the second is compared first, as weights come before outputs.
        cases: the inputs, one case after another. A value is asked for without any.
        wrong_answers: those that people give.
        fallback_message: what is said where nothing else is.
        tolerance: how far apart two numbers may be that are the same.
        typed: whether its answer, a number, a shape or a choice, can be typed on the page.
        call: ``call(answer, *inputs)`` gets the result that is compared from an answer. It may raise a `Mistake`.
        in_evaluation: whether all must hold again without gradients, and in evaluation mode.
        extra_checks: asked about an answer that is right in all cases, such as for its memory. Each returns a message
            or None.
    """

    name: str = ""
    prompt: str
    right: Any
    returns: Returned | tuple[Returned, Returned]
    cases: Sequence[Case] = (Case(),)
    wrong_answers: Sequence[WrongAnswer]
    fallback_message: str = "it is not the right result"
    tolerance: float = 1e-5
    typed: bool = False
    call: Callable[..., Any] | None = None
    in_evaluation: bool = False
    extra_checks: Sequence[Callable[[Any], str | None]] = ()

    def result(self, answer: Any, case: Case) -> Any:
        """Return what an answer gives in a case: a function is called, a value is what it is."""
        if self.call is not None:
            return self.call(answer, *case.inputs)
        return call(answer, *case.inputs) if callable(self.right) else answer

    @property
    def parts(self) -> tuple[Returned, ...]:
        """What an answer returns, also where it is one thing."""
        return self.returns if isinstance(self.returns, tuple) else (self.returns,)

    @property
    def choices(self) -> Sequence[str]:
        """What can be chosen, where the answer is a text."""
        return self.returns.about if isinstance(self.returns, Returned) and self.returns.kind == "choice" else ()


def quick_question(
    prompt: str,
    right: float | list[float] | tuple[float, ...] | str,
    wrong: Mapping[Any, str],
    *,
    choices: Sequence[str] = (),
    fallback_message: str = "it is not the right result",
) -> Exercise:
    """Return the table of a *Your turn*: a question whose answer is typed, in a cell or on the page.

    Of a number, two digits after the point are enough.

    Args:
        prompt: the question, a sentence that stands alone.
        right: a number, several of them, a shape (whole numbers), or one of the choices.
        wrong: the answers of those who err, each with what is said to them.
        choices: what can be chosen, where the answer is a text.
        fallback_message: what is said to any other wrong answer.

    Returns:
        An exercise without inputs.
    """
    several = isinstance(right, list | tuple)
    if isinstance(right, str):
        returns = Returned("choice", "the choice", choices)
    else:
        returns = numbers("the answer") if several else number("the answer")
    whole = isinstance(right, list | tuple) and all(isinstance(x, int) for x in right)
    return Exercise(
        prompt=prompt,
        right=list(right) if isinstance(right, list | tuple) else right,  # a tuple would be several results
        returns=returns,
        wrong_answers=[WrongAnswer(message, answer) for answer, message in wrong.items()],
        fallback_message=fallback_message,
        tolerance=0.0 if whole or isinstance(right, str) else 0.0051,
        typed=True,
    )
