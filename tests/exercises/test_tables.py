"""Laws of all tables of exercises: the right answer passes, and each slip its own words. The bank has rarer ones."""

import functools

import pytest
import torch
from bank import bank

from attention_tutorial import exercises as package
from attention_tutorial.exercises import MISTAKES, exercises
from attention_tutorial.exercises.judging import slip_of
from attention_tutorial.exercises.running import float64_by_default

diagnose, judge = (functools.partial(f, seconds=120) for f in (package.diagnose, package.judge))  # for busy machines

TABLES = exercises()
SLIPS = [(exercise, slip) for exercise in TABLES.values() for slip in exercise.slips]
BANK = bank()
RIGHT = [(exercise, name) for exercise, answers in BANK.items() for name in answers.right]
WRONG = [(exercise, wrong) for exercise, answers in BANK.items() for wrong in answers.wrong]
FUNCTIONS = {
    number: exercise.right
    for number, exercise in TABLES.items()
    if callable(exercise.right) and not isinstance(exercise.right, type)
}


def named(slips):
    """Say which slip a test is about."""
    return [f"{e.name} {s.words if isinstance(s.words, str) else f'slip {e.slips.index(s)}'}" for e, s in slips]


@pytest.mark.parametrize("number", TABLES)
def test_the_right_answer_of_a_table_is_right(number):
    assert diagnose(number, TABLES[number].right) is None


@functools.cache
def judged(number, place):
    """Judge a slip of a table, once for all tests."""
    return judge(TABLES[number], TABLES[number].slips[place].answer)


@pytest.mark.parametrize(("exercise", "slip"), SLIPS, ids=named(SLIPS))
def test_a_slip_is_wrong_and_gets_its_own_words(exercise, slip):
    """And not those of another: the inputs tell all slips apart."""
    diagnosis = judged(exercise.name, exercise.slips.index(slip))
    assert diagnosis is not None, "this answer is right"
    assert slip_of(exercise, diagnosis) is slip, diagnosis.words
    assert any(slip.told(case) in diagnosis.words for case in exercise.cases), diagnosis.words


@functools.cache
def told(exercise, wrong):
    """Diagnose a wrong answer of the bank, once for all tests."""
    return diagnose(exercise, wrong.answer)


def test_different_slips_of_an_exercise_have_different_words():
    for name, exercise in TABLES.items():
        diagnoses = [judged(name, place).words for place in range(len(exercise.slips))]
        # those of the bank that are to be told the same are one
        rare = [wrong for wrong in BANK[name].wrong if not wrong.is_slip] if name in BANK else []
        diagnoses += {wrong.says: told(name, wrong) for wrong in rare}.values()
        repeated = {words for words in diagnoses if diagnoses.count(words) > 1}
        assert not repeated, (name, repeated)


def test_each_common_mistake_is_a_slip_of_some_exercise():
    assert {slip.mistake for _, slip in SLIPS} - {None} == set(MISTAKES)


def test_every_table_says_what_is_asked_for_and_has_several_slips():
    for exercise in TABLES.values():
        assert exercise.asks[-1] in (".?" if exercise.typed else ".") and not exercise.asks[0].islower(), exercise.name
        assert len(exercise.slips) >= (2 if exercise.typed else 4), exercise.name


@pytest.mark.parametrize(("exercise", "name"), RIGHT)
def test_a_right_answer_may_be_written_in_other_ways(exercise, name):
    assert diagnose(exercise, BANK[exercise].right[name]) is None


def test_every_exercise_has_right_answers_written_in_several_ways():
    functions = [name for name, exercise in TABLES.items() if not exercise.typed]
    few = [name for name in functions if name not in BANK or len(BANK[name].right) < 2]
    assert not few, f"tests/exercises/bank: give two right answers, written in other ways, to {few}"


def test_the_bank_answers_exercises_that_there_are():
    assert not BANK.keys() - TABLES.keys(), "tests/exercises/bank: no table has these names"


@pytest.mark.parametrize(("exercise", "wrong"), WRONG, ids=[f"{exercise} {wrong.says}" for exercise, wrong in WRONG])
def test_wrong_answers_of_the_bank_are_told_what_is_wrong(exercise, wrong):
    diagnosis = told(exercise, wrong)
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
    return kinds | {("pair", isinstance(exercise.returns, tuple)), ("rounding", exercise.rounding)}


@functools.cache
def of_every_kind():
    """Choose functions that together take and return all kinds of things that any does, quick ones first.

    To run them all takes a while, so it is done when a test asks, not while the tests are collected.
    """
    kinds = {number: kinds_of(number) for number in FUNCTIONS}
    chosen, left = [], set().union(*kinds.values())
    while left:
        chosen.append(max(FUNCTIONS, key=lambda number: len(kinds[number] & left) / (1 + len(TABLES[number].further))))
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
        if changed and (TABLES[number].rounding or "right" not in words):
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
