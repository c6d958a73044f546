"""Laws of *Your turn*: what is typed on the page gets the words of the check, from the same table."""

import math
from dataclasses import replace

import pytest

from attention_tutorial.exercises import check, exercises, judge, quick_question
from attention_tutorial.exercises.verdict import Verdict
from attention_tutorial.widgets import YourTurn

TURNS = [
    *(exercise for exercise in exercises().values() if exercise.typed),
    quick_question("Which shape?", (2, 3), {(3, 2): "that is the transpose", (2,): "that is a vector"}),
    quick_question("How much of each?", [0.25, 0.5, 0.25], {(0.5, 0.25, 0.25): "order", (0.25, 0.5): "how many?"}),
    quick_question(
        "Which?", "cat", {"mat": "that is a place"}, choices=["the", "cat", "mat"], fallback_message="no animal"
    ),
    quick_question("How much?", -1.5, {1.5: "the sign is wrong", math.pi: "that is π"}, tolerance=0.01),
]


def typed(answer):
    """Return an answer as a reader types it."""
    return ", ".join(map(str, answer)) if isinstance(answer, tuple | list) else str(answer)


def widget_of(exercise, monkeypatch):
    monkeypatch.setattr("attention_tutorial.exercises._exercise", lambda name: exercise)
    return check(exercise.name, ...)


@pytest.fixture
def replies(run_in_node):
    """Return `say(states)`: what the page replies to each."""
    return lambda states: run_in_node("your_turn", "return given.map(widget.reply);", states)


@pytest.mark.parametrize("exercise", TURNS, ids=lambda exercise: exercise.prompt)
def test_the_page_says_what_the_check_says(exercise, replies, monkeypatch):
    answers = [exercise.right, *(wrong.answer for wrong in exercise.wrong_answers)]
    answers += exercise.choices or [(7, 7, 7, 7) if isinstance(exercise.right, list) else 123.25]
    state = widget_of(exercise, monkeypatch).state()
    shown = replies([state | {"given": typed(answer)} for answer in answers])
    for answer, reply in zip(answers, shown, strict=True):
        diagnosis = judge(exercise, answer)
        assert reply["right"] == (diagnosis is None)
        said = reply["words"].replace("Not yet", "not yet").replace("Right.", "right.")
        assert f"x: {said}" == repr(Verdict("x", diagnosis)).split("\n")[0], answer
    assert not shown[0]["words"].startswith("Not yet")
    assert (
        len({reply["words"] for reply in shown[: len(exercise.wrong_answers) + 1]}) == len(exercise.wrong_answers) + 1
    )


@pytest.mark.parametrize("exercise", [x for x in TURNS if isinstance(x.right, float)], ids=lambda x: x.prompt)
def test_two_digits_are_enough_and_the_next_number_is_wrong(exercise, replies, monkeypatch):
    state = widget_of(exercise, monkeypatch).state()
    near, far = round(exercise.right, 2), exercise.right + 2.1 * exercise.tolerance
    assert [reply["right"] for reply in replies([state | {"given": str(x)} for x in (near, far)])] == [True, False]
    assert judge(exercise, near) is None
    assert judge(exercise, far) is not None


@pytest.mark.parametrize(
    ("kind", "given", "right"),
    [
        ("number", "-1.5", True),
        ("number", " −1,5 ", True),
        ("number", "-3/2", True),
        ("number", "-1,500", False),
        ("number", "-3 / 2", True),
        ("number", "1.5", False),
        ("number", "1/0", None),
        ("number", "one", None),
        ("number", "1.2.3", None),
        ("number", "<b>1</b>", None),
        ("number", "1e9", None),
        ("numbers", "0.25, -1/2", True),
        ("numbers", "[0.25 −0.5]", True),
        ("numbers", "tensor([0.25, -0.5])", True),
        ("numbers", "0.25", False),
        ("numbers", "0.25, x", None),
        ("shape", "2, 3", True),
        ("shape", "(2, 3)", True),
        ("shape", "torch.Size([2, 3])", True),
        ("shape", "2 x 3", True),
        ("shape", "2×3", True),
        ("shape", "3, 2", False),
        ("shape", "(2,)", False),
        ("shape", "2, m", None),
        ("choice", "cat", True),
        ("choice", "mat", False),
        ("choice", "dog", None),
    ],
)
def test_answers_are_read_as_people_type_them(kind, given, right, replies):
    widget = {
        "number": YourTurn("How much?", -1.5),
        "numbers": YourTurn("How much of each?", [0.25, -0.5], {}),
        "shape": YourTurn("Which shape?", (2, 3), {}),
        "choice": YourTurn("Which?", "cat", {}, choices=["cat", "mat"]),
    }[kind]
    (reply,) = replies([widget.state() | {"given": given}])
    assert reply["right"] == (right is True)
    assert reply["words"].startswith({True: "Right.", False: "Not yet.", None: ("Type", "Choose")}[right])


def test_nothing_is_said_before_an_answer(replies):
    assert replies([YourTurn().state(), YourTurn().state() | {"given": "  "}]) == [None, None]


def test_by_hand(visit_widget):
    page = visit_widget("your_turn")
    field, status = page.get_by_role("textbox"), page.locator(".bw [role=status]")
    assert status.inner_text() == ""
    field.fill("rubbish")
    field.press("Enter")
    assert status.inner_text() == "Type a number, such as 0.25 or 1/4."
    assert field.input_value() == "rubbish", "nothing is lost"
    field.fill("1")
    page.get_by_role("button", name="Check").click()
    assert status.inner_text() == "Not yet. The two weights sum to 1."
    field.fill("1/2")
    field.press("Tab")
    assert status.inner_text() == "Right."
    field.fill("")
    field.press("Enter")
    assert status.inner_text() == "", "and one can begin again"


def test_a_filled_cell_gets_words_and_an_empty_one_the_widget(capsys):
    shown = check("sat_without_cat", ...)
    assert isinstance(shown, YourTurn)
    assert capsys.readouterr().out == ""
    assert check("sat_without_cat", 0.2) is None
    assert capsys.readouterr().out == "sat_without_cat: right.\n"
    with pytest.raises(AssertionError, match="sat_without_cat: not filled in yet"):
        check("sat_without_cat", ..., ours=True)
    assert check("weights_by_hand", ...) is None, "several numbers are not typed on the page"


def test_an_answer_that_cannot_be_chosen_is_an_error():
    with pytest.raises(ValueError, match=r"answers must be among choices \['a', 'b'\]; got 'c'"):
        YourTurn("Which?", "c", {}, choices=["a", "b"])
    with pytest.raises(ValueError, match="got 'd'"):
        YourTurn("Which?", "a", {"d": "no"}, choices=["a", "b"])


def test_a_choice_that_is_none_is_told_in_a_cell_too():
    (choice,) = (exercise for exercise in TURNS if exercise.prompt == "Which?")
    assert judge(choice, "dog").message == "choose one of 'the', 'cat', 'mat'; got 'dog'"
    assert judge(replace(choice, fallback_message="that is no animal"), "the").message == "that is no animal"
