"""Judging an answer by the table of its exercise."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from .diagnosis import explain, explain_missing_decimals, first_wrong_place
from .parse import expect_pair, is_plural, same
from .runner import Mistake, Outcome, does_something, float64_by_default, in_time
from .table import Case, Exercise, Known, WrongAnswer

__all__ = ["SECONDS", "Diagnosis", "judge"]

SECONDS = 10.0  # for one answer, on all inputs; right answers take a fraction of a second


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with an answer.

    Attributes:
        message: to be read.
        wrong_answer: that of the table which gives the same result, or whose message is part of this one.
        kind: of what kind it is.
        error: the name of the exception's class, if the answer raised one.
    """

    message: str
    wrong_answer: WrongAnswer | None = None
    kind: Outcome = Outcome.WRONG
    error: str = ""


NOT_FILLED_IN = Diagnosis("not filled in yet", kind=Outcome.NOT_FILLED_IN)


def _diagnosis(mistake: Mistake) -> Diagnosis:
    return Diagnosis(str(mistake), None, mistake.kind, mistake.error)


def judge(
    exercise: Exercise, answer: Any, *, cases: Sequence[Case] | None = None, seconds: float = SECONDS
) -> Diagnosis | None:
    """Judge an answer. It never raises and never hangs.

    The inputs are float64, so float64 is the default type while an answer runs.

    Args:
        exercise: its table.
        answer: a value, a function or a class. A function may run elsewhere: it is only called.
        cases: other inputs than those of the table.
        seconds: an answer that takes longer is stopped: on all inputs together, and once more in all extra checks.

    Returns:
        What is wrong with the answer; None if it is right.
    """
    if answer is None or answer is Ellipsis:
        return NOT_FILLED_IN
    try:
        with float64_by_default():
            if does_something(answer) or exercise.call is not None:  # a call may load what takes seconds
                _load(exercise)
            diagnosis = in_time(lambda: _in_all(exercise, answer, exercise.cases if cases is None else cases), seconds)
            if diagnosis is None and exercise.extra_checks:
                _load(exercise)
                diagnosis = in_time(lambda: _extra(exercise, answer), seconds)
    except NotImplementedError:
        return NOT_FILLED_IN
    except Mistake as mistake:
        diagnosis = _diagnosis(mistake)
    except SystemExit:
        diagnosis = Diagnosis("your code called exit(); return the result instead")
    except Exception as error:  # not from calling the answer: that is told in `call`
        kind = f"{type(error).__name__}: {error}".rstrip(".: ")
        diagnosis = Diagnosis(
            f"the check cannot make sense of this answer ({kind}); compare what you return with what is asked for"
        )
    return diagnosis and _identified(exercise, diagnosis)


def _identified(exercise: Exercise, diagnosis: Diagnosis) -> Diagnosis:
    """Name the wrong answer of the table whose message was said in another way than by its result."""
    if diagnosis.wrong_answer is not None:
        return diagnosis
    said = [w for w in exercise.wrong_answers if isinstance(w.message, str) and w.message in diagnosis.message]
    return replace(
        diagnosis, wrong_answer=min(said, key=lambda w: diagnosis.message.index(str(w.message)), default=None)
    )


@functools.cache
def _load(exercise: Exercise) -> None:
    """Have PyTorch load what the exercise uses (seconds), which does not count as the answer's time."""
    _expected(exercise, exercise.cases[0])
    for check in exercise.extra_checks:
        check(exercise.right)


def _extra(exercise: Exercise, answer: Any) -> Diagnosis | None:
    messages = (check(answer) for check in exercise.extra_checks)
    return next((Diagnosis(message) for message in messages if message), None)


def _in_all(exercise: Exercise, answer: Any, cases: Sequence[Case]) -> Diagnosis | None:
    """Return the first diagnosis of any case, in training and, where that counts, in evaluation."""
    diagnosis = _in_cases(exercise, answer, cases)
    return _in_evaluation(exercise, answer, cases) if diagnosis is None and exercise.in_evaluation else diagnosis


def _in_cases(exercise: Exercise, answer: Any, cases: Sequence[Case]) -> Diagnosis | None:
    for case in cases:
        try:
            diagnosis = _in_one(exercise, answer, case)
        except Mistake as mistake:
            if case is cases[0] or mistake.kind is not Outcome.WRONG:  # what is no result is none in any case
                raise
            diagnosis = _diagnosis(mistake)
        if diagnosis is not None:
            return replace(diagnosis, message=case.message.replace("{found}", diagnosis.message))
    return None


def _in_evaluation(exercise: Exercise, answer: Any, cases: Sequence[Case]) -> Diagnosis | None:
    """Judge a second time as in evaluation: without gradients, and a module in evaluation mode."""
    module = answer if isinstance(answer, nn.Module) else nn.Module()
    was_training = module.training
    try:
        module.eval()
        with torch.no_grad():
            diagnosis = _in_cases(exercise, answer, cases)
    except Mistake as mistake:
        diagnosis = _diagnosis(mistake)
    finally:
        module.train(was_training)
    words = "right in training, but not in evaluation (torch.no_grad() and eval())"
    return diagnosis and replace(diagnosis, message=f"{words}: {diagnosis.message}", wrong_answer=None)


# ---- What is known of a case: plain data, made when it is needed, or packed with a student's notebook ----------------


def compile_case(exercise: Exercise, case: Case) -> Known:
    """Run the right answer and the wrong ones on the inputs of a case, and keep what they give."""
    return case.known or Known(_expected(exercise, case), tuple(_wrong(exercise, case)))


@functools.lru_cache(maxsize=256)
def _expected(exercise: Exercise, case: Case) -> Any:
    return case.known.expected if case.known else exercise.result(exercise.right, case)


@functools.lru_cache(maxsize=256)
def _wrong(exercise: Exercise, case: Case) -> Sequence[tuple[str, Any]]:
    """Return the message and the result of each wrong answer; no result where it fits other cases only."""
    if case.known:
        return case.known.wrong
    wrong = []
    for wrong_answer in exercise.wrong_answers:
        try:
            result = exercise.result(wrong_answer.answer, case)
        except Exception:
            result = None
        wrong.append((wrong_answer.message_for(case), result))
    return wrong


# ---- One case --------------------------------------------------------------------------------------------------------


def _in_one(exercise: Exercise, answer: Any, case: Case) -> Diagnosis | None:
    result, expected = exercise.result(answer, case), _expected(exercise, case)
    try:
        got = _read(exercise, result, expected)
    except Mistake:
        known = _known_wrong(exercise, case, result, expected)
        if known is not None:
            return known
        raise
    if not isinstance(exercise.returns, tuple):
        if same(got, expected, exercise.tolerance):
            return None
        return _known_wrong(exercise, case, result, expected) or Diagnosis(_explain(exercise, case, got, expected))
    right = [same(a, b, exercise.tolerance) for a, b in zip(got, expected, strict=True)]
    if all(right):
        return None
    i = 0 if right[1] else 1  # the second is looked at first, as weights come before outputs
    known = _known_wrong(exercise, case, result[i], expected[i], part=i)
    return known or Diagnosis(_explain(exercise, case, got[i], expected[i], part=i, other_is_right=any(right)))


def _read(exercise: Exercise, result: Any, expected: Any) -> Any:
    """Take a result, or both parts of it, the second first."""
    if not isinstance(exercise.returns, tuple):
        return exercise.returns.read(result, expected)
    first, second = exercise.returns
    pair = expect_pair(result, first.name, second.name)
    shapes, swapped = ([getattr(x, "shape", None) for x in some] for some in (expected, pair[::-1]))
    if shapes == swapped != shapes[::-1]:
        raise Mistake(f"return {first.name} first and {second.name} second")
    read = second.read(pair[1], expected[1])
    return first.read(pair[0], expected[0]), read


def _known_wrong(exercise: Exercise, case: Case, got: Any, expected: Any, part: int | None = None) -> Diagnosis | None:
    """Return the first wrong answer of the table that gives the same result, or the same part of it."""
    for wrong_answer, (message, wrong) in zip(exercise.wrong_answers, _wrong(exercise, case), strict=True):
        if part is not None:
            wrong = wrong[part] if isinstance(wrong, tuple | list) else None
        if wrong is None or same(wrong, expected, exercise.tolerance):
            continue
        if same(got, wrong, exercise.tolerance):
            return Diagnosis(message, wrong_answer)
    return None


def _explain(
    exercise: Exercise, case: Case, got: Any, expected: Any, part: int | None = None, other_is_right: bool = False
) -> str:
    """Say what is wrong with a result that no wrong answer of the table gives."""
    if isinstance(got, str):
        return exercise.fallback_message
    name = exercise.parts[part or 0].name.removeprefix("the ")
    expected = torch.as_tensor(expected)
    expected = expected if got.dtype == torch.bool else expected.double()
    if exercise.typed:
        return explain_missing_decimals(got, expected, exercise.tolerance) or exercise.fallback_message
    message = explain(got, expected, name, exercise.tolerance)
    if message is None:
        place = _place(exercise, case, got, expected, name)
        message = f"{exercise.fallback_message}; {place}" if place else exercise.fallback_message
    if other_is_right and part is not None:
        fine = exercise.parts[1 - part].name
        message = f"{fine} {'are' if is_plural(fine) else 'is'} right, the {name} not: {message}"
    return message


def _place(exercise: Exercise, case: Case, got: Tensor, expected: Tensor, name: str) -> str | None:
    """Show what is wrong and what is right, of a function: of a value that would be the answer."""
    if not callable(exercise.right):
        return None
    place = first_wrong_place(got, expected, name, exercise.tolerance)
    inputs = ", ".join(map(str, case.inputs))
    if place is None and got.shape == expected.shape and len(inputs) < 60:
        return f"for the inputs {inputs} your {name} is {got.item():.6g}; expected {expected.item():.6g}"
    return place
