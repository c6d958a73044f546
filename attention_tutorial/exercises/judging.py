"""Judging an answer by the table of its exercise."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from .both import besides, both_masks
from .results import alike, expect_pair, explain_rounding
from .running import Mistake, Outcome, float64_by_default, in_time
from .table import Case, Exercise, Read, Slip

__all__ = ["SECONDS", "Diagnosis", "judge", "slip_of"]

SECONDS = 10.0  # for one answer, on all inputs; right answers take a fraction of a second


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with an answer.

    Attributes:
        words: to be read.
        slip: the slip of the table that gives the same result, if one does.
        kind: of what kind it is.
        error: the name of the exception's class, if the answer raised one.
    """

    words: str
    slip: Slip | None = None
    kind: Outcome = Outcome.WRONG
    error: str = ""


NOT_FILLED_IN = Diagnosis("not filled in yet", kind=Outcome.NOT_FILLED_IN)


def _diagnosis(mistake: Mistake) -> Diagnosis:
    return Diagnosis(str(mistake), None, mistake.kind, mistake.error)


def sentence(words: str) -> str:
    """Write a diagnosis as a sentence, as `check` prints it.

    Example:
        >>> sentence("weights sum to 1; yours sum to 1.1")
        'Weights sum to 1; yours sum to 1.1.'
    """
    if re.match(r"(a|[a-z]{2,})([ ,:;'.]|$)", words):  # a word; names of code and symbols stay as they are
        words = words[0].upper() + words[1:]
    return words if words.endswith("?") else f"{words.rstrip('.')}."


def verdict(name: str, diagnosis: Diagnosis | None) -> str:
    """Say how it stands with an exercise, as `check` prints it.

    Example:
        >>> verdict("bits", None), verdict("bits", NOT_FILLED_IN), verdict("bits", Diagnosis("that counts digits"))
        ('bits: right.', 'bits: not filled in yet.', 'bits: not yet. That counts digits.')
    """
    if diagnosis is None:
        return f"{name}: right."
    if diagnosis.kind is Outcome.NOT_FILLED_IN:
        return f"{name}: {diagnosis.words}."
    return f"{name}: not yet. {sentence(diagnosis.words)}"


def judge(
    exercise: Exercise, answer: Any, *, cases: Sequence[Case] | None = None, seconds: float = SECONDS
) -> Diagnosis | None:
    """Judge an answer. It never raises and never hangs.

    The inputs are float64, so float64 is the default type while an answer runs.

    Args:
        exercise: its table.
        answer: a value, a function or a class. A function may run elsewhere: it is only called.
        cases: other inputs than those of the table.
        seconds: an answer that takes longer, on all inputs together, is stopped.

    Returns:
        What is wrong with the answer; None if it is right.
    """
    if answer is None or answer is Ellipsis or _is_empty(answer):
        return NOT_FILLED_IN
    try:
        with float64_by_default():
            _load(exercise)
            return in_time(lambda: _judge(exercise, answer, exercise.cases if cases is None else cases), seconds)
    except NotImplementedError:
        return NOT_FILLED_IN
    except Mistake as mistake:
        return _diagnosis(mistake)
    except SystemExit:
        return Diagnosis("your code called exit(); return the result instead")
    except Exception as error:  # not from calling the answer: that is told in `call`
        kind = f"{type(error).__name__}: {error}".rstrip(".: ")
        return Diagnosis(
            f"the check cannot make sense of this answer ({kind}); compare what you return with what is asked for"
        )


def _is_empty(answer: Any) -> bool:
    """Say whether a function does nothing and returns ``None``: then there is no need to prepare the exercise."""
    code, empty = getattr(answer, "__code__", None), (lambda: None).__code__
    return code is not None and code.co_code[::2] == empty.co_code[::2] and code.co_consts[-1] is None


@functools.cache
def _load(exercise: Exercise) -> None:
    """Have PyTorch load what `further` uses (seconds), which does not count as the answer's time."""
    for hook in exercise.further:
        hook(exercise.right)


def slip_of(exercise: Exercise, diagnosis: Diagnosis) -> Slip | None:
    """Return which slip of the table a diagnosis is, also one that is read off a result and told in the same words.

    For that each of the latter is judged once. It may take a while, so no check waits for it.

    Args:
        exercise: its table.
        diagnosis: what :func:`judge` said of an answer.

    Returns:
        The slip; None if it is none of the table's.
    """
    return diagnosis.slip or _read_off(exercise).get(diagnosis.words)


@functools.cache
def _read_off(exercise: Exercise) -> dict[str, Slip]:
    judged = ((judge(exercise, slip.answer), slip) for slip in exercise.slips if isinstance(slip, Read))
    return {diagnosis.words: slip for diagnosis, slip in judged if diagnosis is not None}


def _judge(exercise: Exercise, answer: Any, cases: Sequence[Case]) -> Diagnosis | None:
    diagnosis = _in_all(exercise, answer, cases)
    if diagnosis is None and exercise.in_evaluation:
        diagnosis = _in_evaluation(exercise, answer, cases)
    if diagnosis is not None:
        return diagnosis
    further = (hook(answer) for hook in exercise.further)
    return next((Diagnosis(words) for words in further if words), None)


def _in_all(exercise: Exercise, answer: Any, cases: Sequence[Case]) -> Diagnosis | None:
    """Return the first diagnosis of any case."""
    for case in cases:
        try:
            diagnosis = _in_one(exercise, answer, case)
        except Mistake as mistake:
            if case is cases[0] or mistake.kind is not Outcome.WRONG:
                raise
            diagnosis = _diagnosis(mistake)
        if diagnosis is not None:
            return replace(diagnosis, words=case.words.replace("{found}", diagnosis.words))
    return None


def _in_evaluation(exercise: Exercise, answer: Any, cases: Sequence[Case]) -> Diagnosis | None:
    """Judge a second time as in evaluation: without gradients, and a module in evaluation mode."""
    module = answer if isinstance(answer, nn.Module) else nn.Module()
    was_training = module.training
    try:
        module.eval()
        with torch.no_grad():
            diagnosis = _in_all(exercise, answer, cases)
    except Mistake as mistake:
        diagnosis = _diagnosis(mistake)
    finally:
        module.train(was_training)
    words = "right in training, but not in evaluation (torch.no_grad() and eval())"
    return diagnosis and replace(diagnosis, words=f"{words}: {diagnosis.words}", slip=None)


@functools.lru_cache(maxsize=256)
def _right(exercise: Exercise, case: Case) -> Any:
    return exercise.result(exercise.right, case)


def _in_one(exercise: Exercise, answer: Any, case: Case) -> Diagnosis | None:
    result = exercise.result(answer, case)
    right = _right(exercise, case)
    try:
        got = _read(exercise, result, right)
    except Mistake:
        diagnosis = _first_slip(exercise, case, result, right, None)
        if diagnosis is not None:
            return diagnosis
        raise
    expected = right if isinstance(right, tuple) else (right,)
    wrong = [i for i in range(len(got)) if not exercise.same(got[i], expected[i], *case.inputs)]
    if not wrong:
        return None
    last = wrong[-1]
    diagnosis = _first_slip(exercise, case, result[last] if len(got) > 1 else result, expected[last], last)
    return diagnosis or Diagnosis(_explain(exercise, got, expected, last, case))


def _read(exercise: Exercise, result: Any, right: Any) -> tuple[Tensor, ...]:
    """Take the parts of a result, the last one first."""
    parts = exercise.parts()
    if len(parts) == 1:
        return (parts[0].read(result, right),)
    first, second = parts
    pair = expect_pair(result, first.name, second.name)
    shapes, swapped = ([getattr(x, "shape", None) for x in some] for some in (right, pair[::-1]))
    if shapes == swapped != shapes[::-1]:
        raise Mistake(f"return {first.name} first and {second.name} second")
    read = second.read(pair[1], right[1])
    return first.read(pair[0], right[0]), read


def _first_slip(exercise: Exercise, case: Case, got: Any, right: Any, part: int | None) -> Diagnosis | None:
    """Return the first slip that gives the same as a part of a result, or as a whole that could not be read."""
    for slip in exercise.slips:
        like = slip.like or exercise.like
        wrong = None if isinstance(slip, Read) else _result_of(exercise, slip, case)
        if part is not None and isinstance(exercise.returns, tuple):
            wrong = wrong[part] if isinstance(wrong, tuple | list) else None
        if wrong is not None and not exercise.like(wrong, right, *case.inputs) and like(got, wrong, *case.inputs):
            return Diagnosis(slip.told(case), slip)
    return None


@functools.lru_cache(maxsize=256)
def _result_of(exercise: Exercise, slip: Slip, case: Case) -> Any:
    """Return what a slip gives in a case; None where it fits other cases only."""
    try:
        return exercise.result(slip.answer, case)
    except Exception:
        return None


def _explain(exercise: Exercise, got: tuple[Tensor, ...], right: tuple[Any, ...], wrong: int, case: Case) -> str:
    """Say what is wrong with a part of a result that no slip gives."""
    part, name = got[wrong], exercise.parts()[wrong].name.removeprefix("the ")
    counted = isinstance(right[wrong], int) or (isinstance(right[wrong], Tensor) and right[wrong].dtype == torch.bool)
    exact = counted or not exercise.rounding
    inexact = None if exact else explain_rounding(part, torch.as_tensor(right[wrong], dtype=torch.float64))
    if inexact:
        return f"your {name} {'are' if name.endswith('s') and not name.endswith('ss') else 'is'} {inexact}"
    explained = None
    if exercise.explain is not None:
        explained = exercise.explain(*((got, right) if len(got) > 1 else (part, right[0])), *case.inputs)
    explained = explained or _explain_two(exercise, part, right[wrong], wrong, case)
    others = [i for i in range(len(got)) if i != wrong and exercise.same(got[i], right[i], *case.inputs)]
    fine = exercise.parts()[others[0]].name if others else ""
    return explained or exercise.otherwise(part, right[wrong], name, fine)


def _explain_two(exercise: Exercise, got: Tensor, right: Any, part: int, case: Case) -> str | None:
    """Say which two mistakes together give a part of a result."""
    if alike(got, right):
        return None
    known = []
    for slip in exercise.slips:
        wrong = _result_of(exercise, slip, case)
        wrong = wrong[part] if isinstance(exercise.returns, tuple) and isinstance(wrong, tuple | list) else wrong
        if isinstance(wrong, Tensor) and wrong.shape == got.shape and wrong.dtype == torch.as_tensor(right).dtype:
            known.append((slip.told(case), wrong))
    for words, wrong in known:
        more = besides(got, wrong)
        if more:
            return f"two things: {words}; and {more}"
    if got.dtype == torch.bool and isinstance(right, Tensor) and got.shape == right.shape:
        pair = both_masks(got, right, [wrong for _, wrong in known])
        if pair:
            return f"two things: {known[pair[0]][0]}; and {known[pair[1]][0]}"
    return None
