"""Laws of all tables of exercises: the right answer passes, and each wrong one gets its own message."""

import functools
import re

import pytest
import torch
from bank import bank

from attention_tutorial import exercises as package
from attention_tutorial.exercises import MISTAKES, exercises, float64_by_default

diagnose, judge = (functools.partial(f, seconds=120) for f in (package.diagnose, package.judge))  # for busy machines

TABLES = exercises()
WRONG = [(exercise, wrong) for exercise in TABLES.values() for wrong in exercise.wrong_answers]
BANK = bank()
RIGHT = [(exercise, name) for exercise, answers in BANK.items() for name in answers.right]
BANK_WRONG = [(exercise, wrong) for exercise, answers in BANK.items() for wrong in answers.wrong]
FUNCTIONS = {
    number: exercise.right
    for number, exercise in TABLES.items()
    if callable(exercise.right) and not isinstance(exercise.right, type)
}


@pytest.mark.parametrize("name", TABLES)
def test_the_right_answer_of_a_table_is_right(name):
    assert diagnose(name, TABLES[name].right) is None


@pytest.mark.parametrize(
    ("exercise", "wrong"),
    WRONG,
    ids=[
        f"{e.name} {e.wrong_answers.index(w)} {w.message:.60}"
        if isinstance(w.message, str)
        else f"{e.name} {e.wrong_answers.index(w)}"
        for e, w in WRONG
    ],
)
def test_a_wrong_answer_gets_its_own_message(exercise, wrong):
    """And not that of another: the inputs tell all wrong answers apart."""
    diagnosis = judge(exercise, wrong.answer)
    assert diagnosis is not None, "this answer is right"
    assert diagnosis.wrong_answer is wrong, diagnosis.message
    assert any(wrong.message_for(case) in diagnosis.message for case in exercise.cases), diagnosis.message


def test_different_wrong_answers_of_an_exercise_have_different_messages():
    for name, exercise in TABLES.items():
        messages = [wrong.message_for(exercise.cases[0]) for wrong in exercise.wrong_answers]
        assert len(set(messages)) == len(messages), name


def test_messages_are_plain_text_without_the_asterisks_of_markdown():
    messages = [wrong.message_for(exercise.cases[0]) for exercise, wrong in WRONG]
    messages += [text for exercise in TABLES.values() for text in (exercise.prompt, exercise.fallback_message)]
    assert not [message for message in messages if re.search(r"\*\w[^*]*\w\*", message)]


def test_each_common_mistake_is_a_wrong_answer_of_some_exercise():
    assert {wrong.mistake for _, wrong in WRONG} - {None} == set(MISTAKES)


def test_every_table_says_what_is_asked_for_and_has_several_wrong_answers():
    for exercise in TABLES.values():
        ends = ".?" if exercise.typed else "."
        assert exercise.prompt[-1] in ends and not exercise.prompt[0].islower(), exercise.name
        least = 2 if exercise.typed else 3
        assert len(exercise.wrong_answers) >= least, f"{exercise.name}: give {least} wrong answers that people give"


@pytest.mark.parametrize(("exercise", "name"), RIGHT)
def test_a_right_answer_may_be_written_in_other_ways(exercise, name):
    assert diagnose(exercise, BANK[exercise].right[name]) is None


def test_every_exercise_has_right_answers_written_in_several_ways():
    functions = [name for name, exercise in TABLES.items() if not exercise.typed]
    few = [name for name in functions if name not in BANK or len(BANK[name].right) < 2]
    assert not few, f"tests/exercises/bank: give two right answers, written in other ways, to {few}"


def test_the_bank_answers_exercises_that_there_are():
    assert not BANK.keys() - TABLES.keys(), "tests/exercises/bank: no table has these names"


@pytest.mark.parametrize(
    ("exercise", "wrong"), BANK_WRONG, ids=[f"{exercise} {wrong.says}" for exercise, wrong in BANK_WRONG]
)
def test_wrong_answers_of_the_bank_are_told_what_is_wrong(exercise, wrong):
    diagnosis = diagnose(exercise, wrong.answer)
    assert diagnosis is not None and wrong.says in diagnosis, diagnosis


# ---- What can go wrong with any function -------------------------------------------------------------------------


def leaves(result):
    """Yield the parts of what an answer takes or returns that are no tuple or list."""
    if isinstance(result, tuple | list):
        for part in result:
            yield from leaves(part)
    else:
        yield result


def kinds_of(number):
    """Return the kinds of what a function takes and returns: the machinery sees nothing else of an exercise."""
    exercise = TABLES[number]
    case = exercise.cases[0]
    with float64_by_default():
        sides = {"takes": list(case.inputs), "returns": exercise.result(exercise.right, case)}
    kinds = {(way, leaf.dtype if torch.is_tensor(leaf) else type(leaf)) for way in sides for leaf in leaves(sides[way])}
    return kinds | {("pair", isinstance(exercise.returns, tuple))}


@functools.cache
def of_every_kind():
    """Choose functions that together take and return all kinds of things that any does, quick ones first.

    To run them all takes a while, so it is done when a test asks, not while the tests are collected.
    """
    kinds = {number: kinds_of(number) for number in FUNCTIONS}
    chosen, left = [], set().union(*kinds.values())
    while left:
        chosen.append(
            max(FUNCTIONS, key=lambda number: len(kinds[number] & left) / (1 + len(TABLES[number].extra_checks)))
        )
        left -= kinds[chosen[-1]]
    return chosen


def stub(*inputs, **named):
    raise NotImplementedError


def broken(*inputs, **named):
    raise IndexError("no third row")


def printing(right):
    return lambda *inputs: print(right(*inputs))


def test_an_answer_without_a_result_is_told_what_it_lacks():
    """test_judge.py has more of these, which do not depend on the exercise."""
    for exercise in of_every_kind():
        for answer, words in (
            (stub, "not filled in yet"),
            (lambda *a, **k: None, "not filled in yet"),
            (broken, 'your code raised IndexError: no third row (in the line `raise IndexError("no third row")`)'),
            (lambda: 1, "your code raised TypeError"),
            (printing(FUNCTIONS[exercise]), "your function returns nothing"),
        ):
            assert diagnose(exercise, answer).startswith(words), exercise


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


def is_number(result):
    return isinstance(result, int | float) and not isinstance(result, bool)


def rounded(x):
    return x.round(decimals=2) if torch.is_tensor(x) else round(x, 2)


def narrow(x):
    return x.half().double() if torch.is_tensor(x) else x * (1 + 2e-3)


SPOILT = {
    "rounded": (rounded, is_float, "right, but rounded to 2 decimals"),
    "half precision": (narrow, is_float, "nearly right, but off by up to"),
    "NaN": (lambda x: x * torch.nan, is_float, "nan"),
    "a list": (list, torch.is_tensor, "must be a tensor; got list of Tensor; torch.stack makes a tensor of it"),
    "a text": (str, is_number, "str"),
    "a wrong shape": (lambda x: torch.stack([x, x]), torch.is_tensor, ("shape", "return", "axis")),
}


@pytest.mark.parametrize("way", SPOILT)
def test_a_result_that_is_spoilt_is_told_how(way):
    how, kind, words = SPOILT[way]
    told = []
    for number in of_every_kind():
        answer, changed = spoilt(number, how, kind)
        diagnosis = diagnose(number, answer)
        if changed:
            assert any(word.lower() in diagnosis.lower() for word in ([words] if isinstance(words, str) else words)), (
                diagnosis
            )
            told.append(number)
    assert len(told) >= 2, "some of the chosen functions return what this spoils"


PAIRS = [number for number in FUNCTIONS if isinstance(TABLES[number].returns, tuple)]


@pytest.mark.parametrize("exercise", PAIRS)
def test_one_thing_in_place_of_two_and_the_wrong_order_are_told(exercise):
    right, (first, second) = FUNCTIONS[exercise], [part.name for part in TABLES[exercise].returns]
    assert diagnose(exercise, lambda *a: right(*a)[0]) == f"return two things, {first} and {second}; got Tensor"
    assert diagnose(exercise, lambda *a: right(*a)[::-1]) == f"return {first} first and {second} second"


def test_an_argument_that_is_changed_is_named():
    told = []
    for exercise in of_every_kind():
        answer, changed = FUNCTIONS[exercise], []

        @functools.wraps(answer)
        def spiteful(*inputs, answer=answer, changed=changed, **named):
            result = answer(*inputs, **named)
            for x in inputs:
                if isinstance(x, torch.Tensor):
                    with torch.no_grad():
                        x.copy_(~x if x.dtype == torch.bool else x + 1)
                    changed.append(x)
            return result

        diagnosis = diagnose(exercise, spiteful)
        if changed:
            assert "changed its arguments" in diagnosis, diagnosis
            told.append(exercise)
    assert len(told) >= 2, "some of the chosen functions take tensors"
