"""Laws of the check, whatever the exercise. The tables themselves are tested in test_tables.py."""

import contextvars
import json
import threading
import time
from dataclasses import replace

import pytest
import torch

from attention_tutorial import exercises as package
from attention_tutorial import masked_softmax
from attention_tutorial.exercises import (
    Case,
    Diagnosis,
    Exercise,
    Mistake,
    Outcome,
    Read,
    Slip,
    check,
    diagnose,
    exercises,
    judge,
    running,
)
from attention_tutorial.exercises.judging import slip_of
from attention_tutorial.exercises.results import number, same_shape, tensor

DOUBLED = Exercise(
    name="nine_1",
    asks="Twice a number.",
    right=lambda x: 2 * x,
    returns=number(),
    cases=[Case((3,)), Case((-1,), "right for 3, but not for -1: {found}")],
    slips=[
        Slip("that is the number itself", lambda x: x),
        Slip(lambda x: f"that is {x} squared", lambda x: x * x, mistake=3),
        Read("it is one too large", lambda x: 2 * x + 1),
    ],
    explain=lambda got, right, x: "it is one too large" if got == right + 1 else None,
    rest="it does not double",
)
NUMBER = Exercise(name="nine_2", asks="No number.", right=0, returns=number("the number"), slips=[Slip("not one", 1)])


@pytest.fixture(autouse=True)
def only_our_exercises(monkeypatch):
    """A book of two exercises."""
    monkeypatch.setattr(package, "exercises", lambda: {x.name: x for x in (DOUBLED, NUMBER)})


def said(capsys, *args):
    assert check(*args) is None
    return capsys.readouterr().out


def test_a_right_answer_is_called_right(capsys):
    assert diagnose("nine_1", lambda x: 2 * x) is None
    assert said(capsys, "nine_1", lambda x: 2 * x) == "nine_1: right.\n"


def test_a_right_answer_may_be_a_false_value(capsys):
    for answer in (0, False, 0.0):
        assert said(capsys, "nine_2", answer) == "nine_2: right.\n"
    assert said(capsys, "nine_2", 2) == "nine_2: not yet. It is not the right result.\n"


def test_a_wrong_answer_gets_its_diagnosis_as_a_sentence(capsys):
    assert diagnose("nine_1", lambda x: 7) == "it is one too large"
    assert said(capsys, "nine_1", lambda x: 7) == "nine_1: not yet. It is one too large.\n"


def test_a_common_mistake_leads_to_the_page_of_symptoms(capsys):
    assert '"It differs from PyTorch" on the page "My model misbehaves"' in said(capsys, "nine_1", lambda x: x * x)
    assert "My model misbehaves" not in said(capsys, "nine_1", lambda x: x)


def test_a_slip_is_told_by_its_result_and_words_may_be_made_from_the_inputs():
    for answer, words, slip in (
        (lambda x: x + 0.0, "that is the number itself", DOUBLED.slips[0]),
        (lambda x: x**2, "that is 3 squared", DOUBLED.slips[1]),
        (lambda x: x + x + 1, "it is one too large", DOUBLED.slips[2]),
        (lambda x: 5, "it does not double", None),
        (lambda x: abs(2 * x), "right for 3, but not for -1: it does not double", None),
        (lambda x: x * x if x < 0 else 2 * x, "right for 3, but not for -1: that is -1 squared", DOUBLED.slips[1]),
    ):
        diagnosis = judge(DOUBLED, answer)
        assert (diagnosis.words, slip_of(DOUBLED, diagnosis)) == (words, slip)


def test_other_inputs_may_be_judged_than_those_of_the_table():
    hidden = [Case((10,), "hidden: {found}")]
    assert judge(DOUBLED, lambda x: 2 * min(x, 9)) is None
    assert judge(DOUBLED, lambda x: 2 * min(x, 9), cases=hidden) == Diagnosis("hidden: it does not double")


def test_an_answer_that_runs_elsewhere_is_only_called():
    class Proxy:
        """Its inputs and results are data that cross to another process and back."""

        def __call__(self, *inputs):
            return json.loads(json.dumps([2 * x for x in inputs]))[0]

    assert judge(DOUBLED, Proxy()) is None


PAIR = Exercise(
    name="nine_3",
    asks="An output and weights.",
    right=lambda x: (x.sum(), x / x.sum()),
    returns=(tensor("()"), tensor("(n,)", "the weights")),
    cases=[Case((torch.arange(1.0, 4.0, dtype=torch.float64),))],
    slips=[
        Slip("the output is doubled", lambda x: (2 * x.sum(), x / x.sum())),
        Slip("that is x itself", lambda x: (x.sum(), x)),
        Slip("several outputs", lambda x: (x, x / x.sum()), like=same_shape),
    ],
    explain=lambda got, right, x: f"{len(got)} of {len(right)} read" if got[0] > 99 else None,
)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x: (x.sum(), x / x.sum()), None),
        (lambda x: (2 * x.sum(), x / x.sum()), "the output is doubled"),
        (lambda x: (2 * x.sum(), x), "that is x itself"),  # the last part first, and it alone
        (lambda x: (7 * x, x / x.sum()), "several outputs"),
        (lambda x: (100 * x.sum(), x / x.sum()), "2 of 2 read"),
        (lambda x: (3 * x.sum(), x / x.sum()), "it is not the right result"),
        (lambda x: (x.sum(), (x / x.sum()).round(decimals=2)), "your weights are right, but rounded to 2 decimals"),
        (lambda x: (x / x.sum(), x.sum()), "return the output first and the weights second"),
        (lambda x: x.sum(), "return two things, the output and the weights; got Tensor"),
    ],
)
def test_of_two_things_the_last_is_compared_first(answer, words):
    diagnosis = judge(PAIR, answer)
    assert diagnosis is None if words is None else diagnosis.words.startswith(words), diagnosis


def test_an_answer_that_is_right_is_asked_further():
    asked = replace(DOUBLED, further=[lambda answer: None, lambda answer: "too slow" if answer(1) == 2 else None])
    assert judge(asked, lambda x: 2 * x) == Diagnosis("too slow")
    assert judge(asked, lambda x: x).words == "that is the number itself"


def test_what_pytorch_loads_at_first_use_is_not_the_answers_time():
    def loads(answer):
        if not loaded:
            time.sleep(0.3)
        loaded.append(answer)

    loaded = []
    slow = replace(DOUBLED, further=[loads])
    assert judge(slow, lambda x: 2 * x, seconds=0.2) is judge(slow, lambda x: x + x, seconds=0.2) is None
    assert [answer is DOUBLED.right for answer in loaded] == [True, False, False]


def stub(x):
    raise NotImplementedError


@pytest.mark.parametrize("answer", [None, ..., stub])
def test_a_stub_is_not_filled_in_yet(answer, capsys):
    assert diagnose("nine_1", answer) == "not filled in yet"
    assert said(capsys, "nine_1", answer) == "nine_1: not filled in yet.\n"


def dots(x):
    """A docstring is nothing to judge either."""


def test_an_empty_function_is_not_filled_in_and_nothing_is_loaded_for_it():
    loaded = []
    assert judge(replace(DOUBLED, further=[loaded.append]), dots).kind is Outcome.NOT_FILLED_IN
    assert not loaded


@pytest.mark.parametrize("answer", [lambda x: x, lambda x: 5, lambda x: ()])
def test_a_function_of_one_line_is_judged(answer):
    assert judge(DOUBLED, answer).kind is not Outcome.NOT_FILLED_IN


def broken(x):
    raise IndexError("no third row.")


def squared(x):
    return x @ x


def silent(x):
    raise ValueError


def nested(x):
    return broken(x)


def through_torch(x):
    return torch.nn.Linear(x, 5)(torch.ones(2, 7))


def through_us(x):
    return masked_softmax(x)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (broken, 'Your code raised IndexError: no third row (in the line `raise IndexError("no third row.")`).'),
        (lambda: 6, "Your code raised TypeError: "),
        (
            squared,
            "Your code raised TypeError: unsupported operand type(s) for @: 'int' and 'int' (in the line `return x",
        ),
        (6, "Hand over the function itself; got int."),
        (silent, "Your code raised ValueError (in the line `raise ValueError`)."),
        (nested, "Your code raised IndexError: no third row (in the line `raise Index"),
        (through_torch, "Your code raised RuntimeError: mat1 and mat2"),
        (through_us, "Your code raised TypeError: scores must be"),
    ],
)
def test_an_answer_that_raises_is_told_so_and_stops_nothing(answer, words, capsys):
    assert said(capsys, "nine_1", answer).startswith(f"nine_1: not yet. {words}")


def test_the_line_is_the_answers_own_though_a_library_or_the_package_raises():
    assert diagnose("nine_1", through_torch).endswith("(in the line `return torch.nn.Linear(x, 5)(torch.ones(2, 7))`)")
    assert diagnose("nine_1", through_us).endswith("(in the line `return masked_softmax(x)`)")


def test_no_check_waits_for_answers_that_are_read_off_a_result():
    called = []
    exercise = replace(DOUBLED, slips=[Read("seven", lambda x: called.append(x) or 7)])
    diagnosis = judge(exercise, lambda x: 7)
    assert diagnosis is not None and not called
    assert slip_of(exercise, diagnosis) is exercise.slips[0] and called


def endless(x):
    while True:
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("answer", "kind", "error"),
    [
        (None, Outcome.NOT_FILLED_IN, ""),
        (lambda x: ..., Outcome.NOT_FILLED_IN, ""),
        (lambda x: 7, Outcome.WRONG, ""),
        (lambda x: missing, Outcome.RAISED, "NameError"),  # noqa: F821
        (endless, Outcome.TOO_SLOW, ""),
    ],
)
def test_a_diagnosis_has_its_kind(answer, kind, error):
    diagnosis = judge(DOUBLED, answer, seconds=0.2 if kind is Outcome.TOO_SLOW else 60)
    assert (diagnosis.kind, diagnosis.error) == (kind, error)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("x"), "the check cannot make sense of this answer (KeyError: 'x'); compare what you return with"),
        (ValueError("a: b.:"), "the check cannot make sense of this answer (ValueError: a: b); compare"),
        (ValueError(), "the check cannot make sense of this answer (ValueError); compare"),
        (SystemExit(), "your code called exit(); return the result instead"),
        (Mistake("it is odd"), "it is odd"),
        (NotImplementedError(), "not filled in yet"),
    ],
)
def test_what_is_raised_beside_the_answer_is_told(error, words):
    def raises(answer, *inputs):
        raise error

    assert judge(replace(DOUBLED, ask=raises), 1).words.startswith(words)


def test_float64_is_the_default_while_an_answer_runs_and_only_then():
    seen = []

    def looks(answer, *inputs):
        seen.append(torch.ones(1).dtype)
        raise answer

    for answer in (Mistake("no"), KeyError(), SystemExit()):
        judge(replace(DOUBLED, ask=looks, slips=[]), answer)
        assert torch.get_default_dtype() == torch.float32
    assert seen == [torch.float64] * 3


def test_an_answer_sees_the_context_that_it_was_made_in():
    variable = contextvars.ContextVar("variable", default=1)
    variable.set(2)
    assert diagnose("nine_1", lambda x: x * variable.get()) is None


def swallow(kind, times):
    """Return an answer that never ends, and catches exceptions of a kind so many times."""

    def answer(x):
        caught = 0
        while True:
            try:
                time.sleep(0.001)
            except kind:
                caught += 1
                if caught > times:
                    raise

    return answer


@pytest.mark.parametrize("answer", [swallow(Exception, 99), swallow(BaseException, 2)])
def test_an_answer_that_catches_exceptions_is_stopped_all_the_same(answer):
    stopped = (
        "your code was still running after 0.1 seconds and was stopped; look for a loop that never ends or is very long"
    )
    assert diagnose("nine_1", answer, seconds=0.1) == stopped


def test_an_answer_that_cannot_be_stopped_is_left_behind():
    released = threading.Event()
    assert diagnose("nine_1", lambda x: released.wait(60), seconds=0.1).endswith("stopped: restart the kernel)")
    released.set()


def test_an_interrupt_stops_the_answer_too(monkeypatch):
    class Interrupted(threading.Thread):
        def join(self, timeout=None):
            if timeout == 10.0:
                raise KeyboardInterrupt
            super().join(timeout)

    monkeypatch.setattr(running.threading, "Thread", Interrupted)
    ended = threading.Event()

    def answer(x):
        try:
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        diagnose("nine_1", answer)
    assert ended.is_set()


def test_an_unknown_exercise_is_an_error_that_names_the_known():
    for ask in (check, diagnose):
        with pytest.raises(ValueError, match=r"^name must be one of nine_1, nine_2; got 'nine_3'$"):
            ask("nine_3", None)


def test_a_table_in_a_new_chapter_is_found(monkeypatch, tmp_path):
    (tmp_path / "chapter77.py").write_text(
        "from attention_tutorial.exercises import Exercise\n"
        "from attention_tutorial.exercises.results import number\n"
        "SEVEN = Exercise(name='seven', asks='Seven.', right=7, returns=number(), slips=[])\n"
    )
    monkeypatch.setattr(package, "__path__", [str(tmp_path)])
    assert list(exercises.__wrapped__()) == ["seven"]
