"""Laws of the check, whatever the exercise. The tables themselves are tested in test_tables.py."""

import builtins
import contextvars
import html
import json
import math
import re
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from IPython.core.formatters import DisplayFormatter

from attention_tutorial import exercises as package
from attention_tutorial import masked_softmax
from attention_tutorial.exercises import (
    Case,
    Diagnosis,
    Exercise,
    Mistake,
    Outcome,
    WrongAnswer,
    check,
    diagnose,
    exercises,
    judge,
    number,
    numbers,
    quick_question,
    random,
    runner,
    same,
    tensor,
)
from attention_tutorial.exercises.diagnosis import explain, explain_rounding, first_wrong_place
from attention_tutorial.exercises.parse import expect_mask, expect_number, expect_numbers, expect_pair, expect_tensor
from attention_tutorial.exercises.runner import call
from attention_tutorial.exercises.verdict import Verdict

DOUBLED = Exercise(
    name="nine_1",
    prompt="Twice a number.",
    right=lambda x: 2 * x,
    returns=number(),
    cases=[Case((3,)), Case((-1,), "right for 3, but not for -1: {found}")],
    wrong_answers=[
        WrongAnswer("that is the number itself", lambda x: x),
        WrongAnswer(lambda x: f"that is {x} squared", lambda x: x * x, mistake=3),
        WrongAnswer("it is one too large", lambda x: 2 * x + 1),
    ],
    fallback_message="it does not double",
)
NUMBER = Exercise(
    name="nine_2",
    prompt="No number.",
    right=0,
    returns=number("the number"),
    wrong_answers=[WrongAnswer("not one", 1)],
)


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


def test_the_books_own_answer_is_told_from_the_readers_and_must_be_right(capsys):
    check("nine_1", lambda x: 2 * x, ours=True)
    assert capsys.readouterr().out == "nine_1: the book's answer is right.\n"
    assert "Right." not in Verdict("nine_1", None, ours=True)._repr_html_()
    with pytest.raises(AssertionError, match=r"nine_1: not yet\. It is one too large\."):
        check("nine_1", lambda x: 7, ours=True)


def test_a_notebook_gets_one_card_with_the_words_and_no_line_of_a_log(monkeypatch, capsys):
    shown = []
    monkeypatch.setattr(builtins, "get_ipython", lambda: None, raising=False)
    monkeypatch.setattr("IPython.display.display", shown.append)
    for answer in (lambda x: 2 * x, lambda x: 7, lambda x: x * x, ...):
        assert check("nine_1", answer) is None
    cards = [DisplayFormatter().format(each)[0] for each in shown]
    assert [set(card) for card in cards] == [{"text/plain", "text/html"}] * 4
    right, wrong, common, empty = (html.unescape(re.sub(r"<[^>]+>", "", card["text/html"])) for card in cards)
    assert (right, wrong) == ("Right.", "Not yet. It is one too large.")
    assert common.startswith("Not yet. That is 3 squared.How to find it")
    assert empty == "Your answer goes in place of the dots; then run this cell."
    assert cards[1]["text/plain"] == "nine_1: not yet. It is one too large."
    assert capsys.readouterr().out == ""


def test_a_card_takes_the_letters_colour_from_what_is_around_it():
    """So it can be read by day and by night; its words are text, never markup."""
    card = Verdict("x", Diagnosis("a < b & <i>c</i>"))._repr_html_()
    assert not re.search(r"(?<!-)\b(color|background|class)\b", card)
    assert "A &lt; b &amp; &lt;i&gt;c&lt;/i&gt;." in card


def test_a_common_mistake_leads_to_the_page_of_symptoms(capsys):
    assert '"It differs from PyTorch" on the page "My model misbehaves"' in said(capsys, "nine_1", lambda x: x * x)
    assert "My model misbehaves" not in said(capsys, "nine_1", lambda x: x)


def test_a_wrong_answer_is_known_by_its_result_and_its_message_may_be_made_from_the_inputs():
    itself, squared, larger = DOUBLED.wrong_answers
    for answer, message, wrong_answer in (
        (lambda x: x + 0.0, "that is the number itself", itself),
        (lambda x: x**2, "that is 3 squared", squared),
        (lambda x: x + x + 1, "it is one too large", larger),
        (lambda x: 5, "it does not double; for the inputs 3 your result is 5; expected 6", None),
        (lambda x: x * x if x < 0 else 2 * x, "right for 3, but not for -1: that is -1 squared", squared),
    ):
        diagnosis = judge(DOUBLED, answer)
        assert (diagnosis.message, diagnosis.wrong_answer) == (message, wrong_answer)


def test_other_inputs_may_be_judged_than_those_of_the_table():
    hidden = [Case((10,), "hidden: {found}")]
    assert judge(DOUBLED, lambda x: 2 * min(x, 9)) is None
    assert judge(DOUBLED, lambda x: 2 * min(x, 9), cases=hidden) == Diagnosis(
        "hidden: it does not double; for the inputs 10 your result is 18; expected 20"
    )


def test_an_answer_that_runs_elsewhere_is_only_called():
    class Proxy:
        """Its inputs and results are data that cross to another process and back."""

        def __call__(self, *inputs):
            return json.loads(json.dumps([2 * x for x in inputs]))[0]

    assert judge(DOUBLED, Proxy()) is None


PAIR = Exercise(
    name="nine_3",
    prompt="An output and weights.",
    right=lambda x: (x.sum(), x / x.sum()),
    returns=(tensor("()"), tensor("(n,)", "the weights")),
    cases=[Case((torch.arange(1.0, 4.0, dtype=torch.float64),))],
    wrong_answers=[
        WrongAnswer("the output is doubled", lambda x: (2 * x.sum(), x / x.sum())),
        WrongAnswer("that is x itself", lambda x: (x.sum(), x)),
        WrongAnswer("several outputs", lambda x: (x, x / x.sum())),
        WrongAnswer("0/0 is not a number", lambda x: (x.sum(), torch.stack([x[0], x[0] * torch.nan, x[0]]))),
    ],
)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x: (x.sum(), x / x.sum()), None),
        (lambda x: (2 * x.sum(), x / x.sum()), "the output is doubled"),
        (lambda x: (2 * x.sum(), x), "that is x itself"),  # the last part first, and it alone
        (lambda x: (1 * x, x / x.sum()), "several outputs"),  # also where the shape is wrong
        (lambda x: (x.sum(), torch.tensor([1.0, torch.nan, 1.0])), "0/0 is not a number"),
        (lambda x: (x, torch.tensor([torch.nan, 1.0, 1.0])), "the weights hold NaN"),
        (lambda x: (x.sum(), x / x.sum() / 2), "the output is right, the weights not: each row must sum to 1"),
        (
            lambda x: (x.sum(), (x / x.sum()).round(decimals=2)),
            "the output is right, the weights not: your weights are right, but rounded to 2 decimals",
        ),
        (lambda x: (x / x.sum(), x.sum()), "return the output first and the weights second"),
        (lambda x: x.sum(), "return two things, the output and the weights; got Tensor"),
    ],
)
def test_of_two_things_the_last_is_compared_first(answer, message):
    diagnosis = judge(PAIR, answer)
    assert diagnosis is None if message is None else diagnosis.message.startswith(message), diagnosis


def test_an_answer_that_is_right_is_checked_further():
    checks = [lambda answer: None, lambda answer: "too slow: 7 s" if answer(1) == 2 else None]
    slow = WrongAnswer("too slow", lambda x: 2 * x)
    checked = replace(DOUBLED, extra_checks=checks, wrong_answers=[*DOUBLED.wrong_answers, slow])
    assert judge(checked, lambda x: 2 * x) == Diagnosis("too slow: 7 s", slow)
    assert judge(checked, lambda x: x).message == "that is the number itself"


def test_a_wrong_answer_that_is_right_in_a_case_is_not_seen_in_it():
    ones, twos = torch.ones(2), torch.full((2,), 2.0)
    about = Exercise(
        prompt="The same again.",
        right=lambda x: x,
        returns=tensor("(n,)"),
        cases=[Case((ones,)), Case((twos,))],
        wrong_answers=[WrongAnswer("you return ones", torch.ones_like)],
    )
    assert judge(about, lambda x: x.tolist()).message.startswith("the output must be a tensor; got list")
    first, second = (Case((x,), f"{name}: {{found}}") for x, name in ((ones, "ones"), (twos, "twos")))
    told = judge(replace(about, cases=[first, second]), lambda x: x if x[0] == 1 else x.tolist())
    assert told.message.startswith("twos: the output must be a tensor")  # of the first case it is said without its name
    assert judge(replace(about, cases=[first]), lambda x: x.tolist()).message.startswith("the output must be a tensor")
    assert judge(about, torch.ones_like).message == "you return ones"


def test_of_several_right_answers_each_is_right_if_call_gets_the_same_from_all():
    even = replace(NUMBER, call=lambda answer: answer % 2)
    assert judge(even, 6) is None and judge(even, 7).message == "not one"


def test_to_a_typed_question_the_check_says_what_the_page_can_say():
    several = quick_question("How much?", [0.25, 0.5], {(0.5, 0.25): "order"})
    assert judge(several, (0.254, 0.5)) is None and judge(several, [0.5, 0.25]).message == "order"
    assert judge(several, [0.5, 1.0]).message == "it is not the right result"
    assert judge(quick_question("Which shape?", (2, 3), {}), [2.004, 3]).message == "it is not the right result"


def test_the_right_value_is_not_given_away():
    about = Exercise(prompt="Two.", right=[1.0, 2.5], returns=numbers("the two"), wrong_answers=[])
    assert judge(about, [1.0, 4.0]).message == "it is not the right result"
    assert judge(replace(about, right=lambda: [1.0, 2.5]), lambda: [1.0, 4.0]).message.endswith(
        "1 of the 2 entries of your two is wrong; at 1, counted from 0, yours has 4; expected 2.5"
    )


def test_what_pytorch_loads_at_first_use_is_not_the_answers_time():
    def loads(answer):
        if not loaded:
            time.sleep(0.3)
        loaded.append(answer)

    loaded = []
    slow = replace(DOUBLED, extra_checks=[loads])
    assert judge(slow, lambda x: 2 * x, seconds=0.2) is judge(slow, lambda x: x + x, seconds=0.2) is None
    assert [answer is DOUBLED.right for answer in loaded] == [True, False, False]


def test_what_an_answer_uses_is_loaded_before_its_time_begins():
    order = []
    exercise = replace(DOUBLED, extra_checks=[lambda answer: order.append("loaded")])
    judge(exercise, lambda x: order.append("answered") or 2 * x)
    assert order[:2] == ["loaded", "answered"]


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
    assert judge(replace(DOUBLED, extra_checks=[loaded.append]), dots).kind is Outcome.NOT_FILLED_IN
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

    assert judge(replace(DOUBLED, call=raises), 1).message.startswith(words)


def test_float64_is_the_default_while_an_answer_runs_and_only_then():
    seen = []

    def looks(answer, *inputs):
        seen.append(torch.ones(1).dtype)
        raise answer

    for answer in (Mistake("no"), KeyError(), SystemExit()):
        judge(replace(DOUBLED, call=looks, wrong_answers=[]), answer)
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

    monkeypatch.setattr(runner.threading, "Thread", Interrupted)
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
        "from attention_tutorial.exercises import number\n"
        "SEVEN = Exercise(name='seven', prompt='Seven.', right=7, returns=number(), wrong_answers=[])\n"
    )
    monkeypatch.setattr(package, "__path__", [str(tmp_path)])
    assert list(exercises.__wrapped__()) == ["seven"]


# ---- Running an answer ---------------------------------------------------------------------------------------------


def test_a_function_that_only_prints_is_told_to_return():
    def without_return(x):
        y = [x]  # noqa: F841 (the mistake: no return)

    for answer in (without_return, lambda x: print(end=""), torch.no_grad()(without_return)):
        with pytest.raises(Mistake, match="your function returns nothing"):
            call(answer, 1)
    with pytest.raises(NotImplementedError):
        call(lambda x: None, 1)


def test_call_tells_a_stub_from_an_operation_that_torch_does_not_have():
    def not_for_integers(x):
        return x.softmax(0)

    with pytest.raises(Mistake, match=r"raised NotImplementedError: .*\(in the line `return x.softmax\(0\)`\)"):
        call(not_for_integers, torch.arange(3))


def test_call_keeps_gradients_and_hands_over_copies():
    x = random(3).requires_grad_()
    gradient = call(lambda a: torch.autograd.grad(a.sum(), a)[0], x)
    assert gradient.tolist() == [1.0] * 3 and x.grad is None
    with pytest.raises(Mistake):
        call(lambda a: a.mul_(2), x.detach())
    assert x.detach().equal(random(3))
    assert call(lambda a, b: 1, torch.tensor([math.nan, 1.0]), [math.nan, 2]) == 1


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda a, b: a.unsqueeze_(0).sum(), "a"),
        (lambda a, b: a.mul_(1 + 1e-9).sum(), "a"),
        (lambda a, b: a[0].fill_(math.nan), "a"),
        (lambda a, b: b.sort() or 1, "b"),
        (lambda *a: a[1].append(1) or 1, "number 2"),
    ],
)
def test_every_change_of_an_argument_is_seen_and_named(change, name):
    with pytest.raises(Mistake, match=rf"changed its arguments \({name}\)"):
        call(change, torch.ones(3, dtype=torch.float64), [2, 1])


# ---- What came back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (torch.ones(2), r"must have shape \(m, n\), here \(1, 2\); got \(2,\)"),
        ([1, 2], "must be a tensor; got list of int; torch.tensor makes a tensor of it"),
        ([torch.ones(2)], "must be a tensor; got list of Tensor; torch.stack"),
        (np.array([["a", "b"]]), "must be a tensor; got ndarray of <U1"),
        ((torch.ones(1, 2), 0), "return the output alone; got a tuple of 2"),
        (torch.full((1, 2), math.nan), "holds NaN"),
        (torch.full((1, 2), math.inf), "holds infinity"),
    ],
)
def test_the_kind_of_result_is_said(result, words):
    with pytest.raises(Mistake, match=words):
        expect_tensor(result, (1, 2), "(m, n)")


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64, np.uint8])
def test_an_array_is_as_good_as_a_tensor(kind):
    got = expect_tensor(np.arange(3, dtype=kind)[::-1], (3,), "(n,)")
    assert torch.equal(got, torch.tensor([2, 1, 0], dtype=torch.float64))


def test_a_tensor_is_taken_in_float64_and_may_be_infinite_where_that_is_right():
    assert expect_tensor(torch.ones(2), (2,), "(n,)").dtype == torch.float64
    for x in (math.nan, math.inf):
        assert expect_tensor(torch.tensor([x]), (1,), "(n,)", finite=False).dtype == torch.float64


def test_booleans_pairs_and_numbers_are_asked_for():
    for ask, words in (
        (lambda: expect_pair(3, "a", "b"), "return two things, a and b; got int"),
        (lambda: expect_pair((1, 2, 3), "a", "b"), "got 3 things"),
        (lambda: expect_number(torch.ones(2)), r"must be one number; got Tensor of shape \(2,\)"),
        (lambda: expect_number(math.nan), "is NaN"),
        (lambda: expect_number("3"), "must be one number; got str"),
        (lambda: expect_number(10**400), "too large"),
        (lambda: expect_numbers("ab"), "must be numbers; got str"),
        (lambda: expect_numbers([math.nan]), "holds NaN"),
        (lambda: expect_numbers([1, "two", 3]), "must be numbers; got list of int and str"),
        (lambda: expect_numbers([math.nan], "the weights"), "the weights hold NaN"),
    ):
        with pytest.raises(Mistake, match=words):
            ask()
    assert expect_pair([1, 2], "a", "b") == (1, 2)
    assert expect_number(torch.tensor(2.0)) == 2.0
    assert expect_numbers((1, 2)).tolist() == [1.0, 2.0]


def test_a_mask_says_of_which_kind_it_is():
    assert expect_mask(torch.tensor([True]), (1,), "(n,)").tolist() == [True]
    for mask, words in (
        (torch.ones(1), "numbers 0 and 1"),
        (torch.tensor([-math.inf]), "a float mask of 0 and minus infinity"),
        (torch.tensor([3]), "must be boolean; got int64"),
        (torch.tensor([[True]]), r"must have shape \(n,\)"),
    ):
        with pytest.raises(Mistake, match=words):
            expect_mask(mask, (1,), "(n,)")


def test_as_many_numbers_are_asked_for_as_there_are():
    asked = numbers("the states", "there is one for each input")
    assert asked.read((1, 2), [3, 4]).tolist() == [1, 2]
    for answer, words in (([1], r"one for each input; expected 2, got shape \(1,\)"), (5, "2, got one number")):
        with pytest.raises(Mistake, match=words):
            asked.read(answer, [3, 4])


# ---- In evaluation --------------------------------------------------------------------------------------------------

SEEN = Exercise(
    name="nine_1",
    prompt="Whether it is True.",
    right=lambda: True,
    returns=number("it"),
    cases=[Case()],
    wrong_answers=[],
    fallback_message="it is False",
    in_evaluation=True,
)


def test_an_answer_is_judged_again_as_in_evaluation():
    def raises():
        if not torch.is_grad_enabled():
            raise ValueError("it is gone")
        return True

    assert judge(SEEN, lambda: True) is None
    assert judge(SEEN, lambda: False).message.startswith("it is False")
    again = "right in training, but not in evaluation (torch.no_grad() and eval()): "
    assert judge(SEEN, torch.is_grad_enabled).message.startswith(f"{again}it is False")
    assert judge(SEEN, raises).message.startswith(f"{again}your code raised ValueError: it is gone")
    assert torch.is_grad_enabled()


def test_what_is_wrong_in_evaluation_alone_is_known_as_that():
    false, dropped = WrongAnswer("it is False", lambda: False), WrongAnswer("right in training", torch.is_grad_enabled)
    exercise = replace(SEEN, wrong_answers=[false, dropped])
    assert judge(exercise, lambda: 1 > 2).wrong_answer is false
    assert judge(exercise, torch.is_grad_enabled).wrong_answer is dropped


@pytest.mark.parametrize("training", [True, False])
def test_a_module_is_handed_back_in_the_mode_it_came_in(training):
    modes = []

    class Module(torch.nn.Module):
        def forward(self):
            modes.append(self.training)
            return True

    module = Module().train(training)
    assert judge(SEEN, module) is None
    assert modes == [training, False]
    assert module.training is training


# ---- Whether two results are the same, and what a wrong one shows ----------------------------------------------------


def test_results_are_the_same_in_any_container_and_booleans_are_no_numbers():
    assert same([1, 2], torch.tensor([1.0, 2.0])) and same(np.ones(2), (1, 1)) and same(2, torch.tensor(2.0))
    assert same(torch.ones(2, dtype=torch.float32), torch.ones(2).double())
    assert same((torch.ones(2), torch.zeros(3)), [torch.ones(2), torch.zeros(3)])
    assert not same((torch.ones(2), torch.zeros(3)), (torch.ones(2), torch.ones(3)))
    assert not same(torch.ones(2), (torch.ones(2), torch.ones(2)))
    assert not same((torch.ones(2), torch.zeros(3)), (torch.ones(2),))
    assert not same(torch.tensor([True]), torch.tensor([1.0])) and same(torch.tensor([True]), torch.tensor([True]))
    assert same([math.nan, 1.0], [math.nan, 1.0]) and not same([math.nan, 1.0], [1.0, math.nan])
    for nothing in (None, object(), 10**400, {}):
        assert not same(nothing, nothing)
    assert same("cat", "cat") and not same("cat", "mat") and not same("1", 1)


def test_results_are_the_same_up_to_rounding_in_float32_and_no_more():
    assert same(1.0, 1 + 1.9e-5) and not same(1.0, 1 + 2.1e-5)  # relative and absolute
    assert same(0.0, 9e-6) and not same(0.0, 1.1e-5)
    assert same(1.0, 1.05, 0.1) and not same(1.0, 1.05) and not same(1000.0, 1001.0, 0.1)


def test_random_numbers_depend_on_seed_and_shape():
    assert random(3, 5).equal(random(3, 5)) and random(3).dtype == torch.float64
    first = [x.flatten()[0].item() for x in (random(3), random(5), random(3, 5), random(3, seed=1), random(5, seed=2))]
    assert len(set(first)) == len(first)


SCORES = random(2, 3, 11)
WEIGHTS = SCORES.softmax(-1)
SOME = (random(3, 11, seed=1) > -0.5) & torch.tensor([[True], [False], [True]])  # the second query may see no key
SQUARE = random(4, 4, seed=3)


@pytest.mark.parametrize(
    ("got", "expected", "message"),
    [
        ((3 * SCORES).softmax(-1), WEIGHTS, "sharper than they should be: your scores are 3 times what is right"),
        ((SCORES / 5).softmax(-1), WEIGHTS, "flatter than they should be: your scores are 0.2 times what is right"),
        ((-SCORES).softmax(-1), WEIGHTS, "the sign of your scores is turned around"),
        (masked_softmax(2 * SCORES, SOME), masked_softmax(SCORES, SOME), "your scores are 2 times what is right"),
        (torch.where(SOME.any(-1, True), WEIGHTS, 0.0), masked_softmax(SCORES, SOME), None),
        (SCORES.softmax(-2), WEIGHTS, "each row must sum to 1; your columns do: the softmax runs over the wrong axis"),
        (SCORES.softmax(0), WEIGHTS, "each row must sum to 1; yours do along axis 0: the softmax runs over the wrong"),
        (WEIGHTS / 2, WEIGHTS, "each row must sum to 1; yours sum to 0.5"),
        (SCORES.sigmoid(), WEIGHTS, "each row must sum to 1; yours sum to between"),
        (torch.full_like(WEIGHTS, 1 / 11), WEIGHTS, "your weights are all equal; they must come from the scores"),
        (WEIGHTS.round(decimals=2), WEIGHTS, "your weights are right, but rounded to 2 decimals"),
        (WEIGHTS.flip(-1), WEIGHTS, None),
        (WEIGHTS * math.nan, WEIGHTS, None),
        (SQUARE / 2, SQUARE, "your weights are 0.5 times what is right"),
        (SQUARE.mT, SQUARE, "your weights are transposed: rows and columns are swapped"),
        (SQUARE + 2, SQUARE, "your weights are off by 2 everywhere"),
        (SQUARE.abs() ** 0.5, SQUARE, None),
        (SQUARE[:2], SQUARE, None),
        (SQUARE < 0, SQUARE >= 0, "your weights are the opposite everywhere: True and False are swapped"),
    ],
)
def test_what_the_numbers_show_is_said(got, expected, message):
    said = explain(got, expected, "weights")
    assert said is None if message is None else message in said, said


@pytest.mark.parametrize(
    ("got", "message"),
    [
        (
            SQUARE + 7 * (torch.arange(4) == 2),
            "4 of the 16 entries of your output are wrong; at (0, 2), counted from 0",
        ),
        (
            SQUARE.index_put((torch.tensor(1), torch.tensor(2)), torch.tensor(9.0).double()),
            "1 of the 16 entries of your "
            f"output is wrong; at (1, 2), counted from 0, yours has 9; expected {SQUARE[1, 2].item():.4g}",
        ),
    ],
)
def test_the_first_wrong_place_is_shown(got, message):
    assert message in first_wrong_place(got, SQUARE, "output")


def test_inexact_numbers_are_told_from_wrong_ones():
    right = random(9)
    assert explain_rounding(right, right) is None
    assert explain_rounding(right.float(), right) is None
    assert explain_rounding(right + 0.1, right) is None
    assert explain_rounding(torch.zeros(2), torch.tensor([0.02, 0.04])) is None  # says nothing of where it came from
    assert explain_rounding(torch.tensor([10_001.0]), torch.tensor([10_000.0])) is None  # a count is right or wrong
    assert "rounded to 1 decimal;" in explain_rounding(right.round(decimals=1), right)
    assert "rounded to 3 decimals;" in explain_rounding(right.float().round(decimals=3), right)
    assert "rounded to 4 decimals;" in explain_rounding(right.round(decimals=4), right)
    assert "nearly right" in explain_rounding(right.half(), right)
    ripple = right.abs().max() * torch.linspace(-1, 1, 9)
    assert "off by up to 0.00" in explain_rounding(right + 0.004 * ripple, right)
    assert explain_rounding(right + 0.006 * ripple, right) is None
