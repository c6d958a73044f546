"""Laws of the check, whatever the exercise. The tables themselves are tested in test_tables.py."""

import contextvars
import threading
import time

import pytest
import torch

from attention_tutorial import exercises as package
from attention_tutorial import masked_softmax
from attention_tutorial.exercises import Case, Exercise, Mistake, Read, Slip, _run, check, diagnose, exercises, judge
from attention_tutorial.exercises._results import number, tensor

DOUBLED = Exercise(
    number="9.1",
    asks="Twice a number.",
    right=lambda x: 2 * x,
    returns=number(),
    cases=[Case((3,)), Case((-1,), "right for 3, but not for -1: {found}")],
    slips=[
        Slip("that is the number itself", lambda x: x),
        Slip(lambda x: f"that is {x} squared", lambda x: x * x, mistake=3),
        Read("it is one too large", lambda x: 2 * x + 1),
    ],
    explain=lambda given, right, x: "it is one too large" if given == right + 1 else None,
    rest="it does not double",
)
NUMBER = Exercise(number="9.2", asks="No number.", right=0, returns=number("the number"), slips=[Slip("not one", 1)])


@pytest.fixture(autouse=True)
def only_our_exercises(monkeypatch):
    """A book of two exercises."""
    monkeypatch.setattr(package, "exercises", lambda: {x.number: x for x in (DOUBLED, NUMBER)})


def said(capsys, *args):
    assert check(*args) is None
    return capsys.readouterr().out


def test_a_right_answer_is_called_right(capsys):
    assert diagnose("9.1", lambda x: 2 * x) is None
    assert said(capsys, "9.1", lambda x: 2 * x) == "Exercise 9.1: right.\n"


def test_a_right_answer_may_be_a_false_value(capsys):
    for answer in (0, False, 0.0):
        assert said(capsys, "9.2", answer) == "Exercise 9.2: right.\n"
    assert said(capsys, "9.2", []) == "Exercise 9.2: not yet. It must be 0, not [].\n"


def test_a_wrong_answer_gets_its_diagnosis_as_a_sentence(capsys):
    assert diagnose("9.1", lambda x: x) == "it does not double: 3 must become 6"
    assert said(capsys, "9.1", lambda x: x) == "Exercise 9.1: not yet. It does not double: 3 must become 6.\n"


def stub(x):
    raise NotImplementedError


@pytest.mark.parametrize("answer", [None, ..., stub])
def test_a_stub_is_not_filled_in_yet(answer, capsys):
    assert diagnose("9.1", answer) == "not filled in yet"
    assert said(capsys, "9.1", answer) == "Exercise 9.1: not filled in yet.\n"


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
    assert said(capsys, "9.1", answer).startswith(f"Exercise 9.1: not yet. {words}")


def test_the_line_is_the_answers_own_though_a_library_or_the_package_raises():
    assert diagnose("9.1", through_torch).endswith("(in the line `return torch.nn.Linear(x, 5)(torch.ones(2, 7))`)")
    assert diagnose("9.1", through_us).endswith("(in the line `return masked_softmax(x)`)")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (KeyError("x"), "the check cannot make sense of this answer (KeyError: 'x'); compare what you return with"),
        (ValueError("a: b.:"), "the check cannot make sense of this answer (ValueError: a: b); compare"),
        (ValueError(), "the check cannot make sense of this answer (ValueError); compare"),
        (SystemExit(), "your code called exit(); return the result instead"),
        (Mistake("it is odd"), "it is odd"),
        (NotImplementedError(), "not filled in yet"),
    ],
)
def test_what_a_checker_raises_is_told(answer, words):
    @exercise("9.3")
    def raises(error):
        raise error

    assert diagnose("9.3", answer).startswith(words)


def test_float64_is_the_default_while_an_answer_runs_and_only_then():
    seen = []

    @exercise("9.3")
    def looks(answer):
        seen.append(torch.ones(1).dtype)
        raise answer

    for answer in (Mistake("no"), KeyError(), SystemExit()):
        diagnose("9.3", answer)
        assert torch.get_default_dtype() == torch.float32
    assert seen == [torch.float64] * 3


def test_an_answer_sees_the_context_that_it_was_made_in():
    variable = contextvars.ContextVar("variable", default=1)
    variable.set(2)
    assert diagnose("9.1", lambda x: x * variable.get()) is None


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
def test_an_answer_that_catches_exceptions_is_stopped_all_the_same(answer, monkeypatch):
    monkeypatch.setattr(checks, "SECONDS", 0.1)
    stopped = "your code was still running after 0.1 seconds and was stopped; look for a loop that never ends"
    assert diagnose("9.1", answer) == stopped


def test_an_answer_that_cannot_be_stopped_is_left_behind(monkeypatch):
    monkeypatch.setattr(checks, "SECONDS", 0.1)
    released = threading.Event()
    assert diagnose("9.1", lambda x: released.wait(60)).endswith("stopped: restart the kernel)")
    released.set()


def test_an_interrupt_stops_the_answer_too(monkeypatch):
    class Interrupted(threading.Thread):
        def join(self, timeout=None):
            if timeout == checks.SECONDS:
                raise KeyboardInterrupt
            super().join(timeout)

    monkeypatch.setattr(checks.threading, "Thread", Interrupted)
    ended = threading.Event()

    def answer(x):
        try:
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        diagnose("9.1", answer)
    assert ended.is_set()


def test_exercises_are_in_the_order_of_the_book():
    for number in ("10.1", "9.10", "2.3"):
        exercise(number)(lambda answer: None)
    assert exercises() == ["2.3", "9.1", "9.2", "9.10", "10.1"]


def test_an_unknown_exercise_is_an_error_that_names_the_known():
    for ask in (check, diagnose):
        with pytest.raises(ValueError, match=r"^exercise_id must be one of 9\.1, 9\.2; got '9\.3'$"):
            ask("9.3", None)


def test_a_checker_stays_an_ordinary_function():
    def checker(answer):
        return None

    assert exercise("9.9")(checker) is checker


def test_the_chapters_are_found_without_being_imported_by_hand(monkeypatch, tmp_path, capsys):
    (tmp_path / "chapter77.py").write_text(
        "from attention_tutorial.checks import exercise\n"
        "@exercise('77.1')\n"
        "def seven(answer):\n"
        "    return None if answer == 7 else 'it is not 7'\n"
    )
    monkeypatch.setattr(checks, "__path__", [str(tmp_path)])
    assert said(capsys, "77.1", 7) == "Exercise 77.1: right.\n"
    assert said(capsys, "77.1", 8) == "Exercise 77.1: not yet. It is not 7.\n"
