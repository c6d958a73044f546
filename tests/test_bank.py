"""Every check accepts every right answer of the bank, and tells every wrong one what is wrong with it."""

import functools
import time

import pytest
import torch
from bank import MISTAKES, right_answers, takes_inputs, wrong_answers

from attention_tutorial import checks
from attention_tutorial.checks import diagnose, exercises

RIGHT = right_answers()
WRONG = wrong_answers()
FUNCTIONS = {exercise: answer for exercise, answers in RIGHT.items() for answer in list(answers.values())[:1]}
FUNCTIONS = {exercise: answer for exercise, answer in FUNCTIONS.items() if takes_inputs(answer)}


@pytest.mark.parametrize(("exercise", "name"), [(i, name) for i, answers in RIGHT.items() for name in answers])
def test_right_answers_are_accepted(exercise, name):
    assert diagnose(exercise, RIGHT[exercise][name]) is None


@pytest.mark.parametrize("wrong", WRONG, ids=[f"{wrong.exercise} {wrong.says}" for wrong in WRONG])
def test_wrong_answers_are_told_what_is_wrong(wrong):
    found = diagnose(wrong.exercise, wrong.answer)
    assert found is not None and wrong.says in found, found


def test_every_exercise_has_right_answers_and_several_wrong_ones():
    for exercise in exercises():
        assert len(RIGHT[exercise]) >= 2, exercise
        assert sum(wrong.exercise == exercise for wrong in WRONG) >= 4, exercise


def test_each_common_mistake_is_in_the_bank():
    assert {wrong.mistake for wrong in WRONG} - {None} == set(MISTAKES)


def test_different_mistakes_get_different_words():
    for exercise in exercises():
        found = [diagnose(exercise, wrong.answer) for wrong in WRONG if wrong.exercise == exercise]
        repeated = {words for words in found if found.count(words) > 1}
        assert not repeated, (exercise, repeated)


# ---- What can go wrong with any function -------------------------------------------------------------------------


def stub(*inputs, **named):
    raise NotImplementedError


STUBS = {"raises": stub, "none": lambda *a, **k: None, "dots": lambda *a, **k: ..., "no answer": None, "ellipsis": ...}


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("kind", STUBS)
def test_a_stub_is_not_filled_in_yet(exercise, kind):
    assert diagnose(exercise, STUBS[kind]) == "not filled in yet"


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_an_exception_is_told_with_the_line_it_came_from(exercise):
    def answer(*inputs, **named):
        raise IndexError("no third row")

    expected = 'your code raised IndexError: no third row (in the line `raise IndexError("no third row")`)'
    assert diagnose(exercise, answer) == expected


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_an_answer_that_takes_no_inputs_is_told_so(exercise):
    assert "your code raised TypeError" in diagnose(exercise, lambda: 1)


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_an_infinite_loop_is_stopped(exercise, monkeypatch):
    monkeypatch.setattr(checks, "SECONDS", 0.2)

    def answer(*inputs, **named):
        while True:
            time.sleep(0.001)

    assert "look for a loop that never ends" in diagnose(exercise, answer)


# What the answers to an exercise are, where the tests below have nothing to spoil.
NO_FLOATS = {"2.4", "4.1", "4.5", "5.1", "5.2", "5.4", "5.5", "5.6"}  # counts, boolean masks, a verdict
NO_TENSORS = {"1.1", "1.2", "1.5", "2.4", "3.1", "3.5", "3.7", "4.1", "5.6"}  # numbers, a verdict
TAKES_NO_TENSORS = {"1.1", "1.2", "2.4", "3.1", "3.5", "4.1", "5.2"}


def spoilt(exercise, how, kind):
    """Return a right answer that changes every part of its results that is of a kind, and the parts it changed."""
    answer, changed = FUNCTIONS[exercise], []

    def spoil(result):
        if isinstance(result, tuple | list):
            return type(result)(map(spoil, result))
        if not kind(result):
            return result
        changed.append(result)
        return how(result)

    return functools.wraps(answer)(lambda *inputs, **named: spoil(answer(*inputs, **named))), changed


def is_float(result):
    return isinstance(result, float) or (torch.is_tensor(result) and result.is_floating_point())


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_nan_is_named(exercise):
    answer, changed = spoilt(exercise, lambda x: x * torch.nan, is_float)
    found = diagnose(exercise, answer)
    assert bool(changed) == (exercise not in NO_FLOATS)
    assert not changed or "nan" in found.lower(), found


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_a_wrong_shape_is_told(exercise):
    answer, changed = spoilt(exercise, lambda x: torch.stack([x, x]), torch.is_tensor)
    found = diagnose(exercise, answer)
    assert bool(changed) == (exercise not in NO_TENSORS)
    assert not changed or "shape" in found or "return" in found or "axis" in found, found


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_an_argument_that_is_changed_is_named(exercise):
    answer, changed = FUNCTIONS[exercise], []

    @functools.wraps(answer)
    def spiteful(*inputs, **named):
        result = answer(*inputs, **named)
        for x in inputs:
            if isinstance(x, torch.Tensor):
                with torch.no_grad():
                    x.copy_(~x if x.dtype == torch.bool else x + 1)
                changed.append(x)
        return result

    found = diagnose(exercise, spiteful)
    assert bool(changed) == (exercise not in TAKES_NO_TENSORS)
    assert not changed or "changed its arguments" in found, found
