"""Laws of *Your turn*: what is typed on the page gets the words of the check, from the same table."""

import math
import re
from dataclasses import replace

import pytest

from attention_tutorial.exercises import check, exercises, judge, quick_question
from attention_tutorial.exercises.verdict import Verdict, sentence
from attention_tutorial.widgets import YourTurn

TURNS = [
    *(exercise for exercise in exercises().values() if exercise.typed),
    quick_question("Which shape?", (2, 3), {(3, 2): "that is the transpose", (2,): "that is a vector"}),
    quick_question("How much of each?", [0.25, 0.5, 0.25], {(0.5, 0.25, 0.25): "order", (0.25, 0.5): "how many?"}),
    quick_question(
        "Which?", "cat", {"mat": "that is a place"}, choices=["the", "cat", "mat"], fallback_message="no animal"
    ),
    quick_question("How much?", -1.5, {1.5: "the sign is wrong", math.pi: "that is π"}),
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


@pytest.mark.parametrize("exercise", [x for x in TURNS if isinstance(x.right, float)], ids=lambda x: x.prompt)
def test_who_gives_too_few_decimals_is_told_so_on_the_page_and_in_a_cell(exercise, replies, monkeypatch):
    state = widget_of(exercise, monkeypatch).state()
    cut = [math.trunc(exercise.right * 10**n) / 10**n for n in range(3)]
    answers = [x for x in (*cut, *(round(exercise.right, n) for n in range(3))) if x and judge(exercise, x)]
    shown = replies([state | {"given": str(x)} for x in answers])
    for answer, reply in zip(answers, shown, strict=True):
        diagnosis = judge(exercise, answer)
        known = diagnosis.wrong_answer is not None or abs(exercise.right) < 1 == abs(answer)
        assert known or diagnosis.message == "right so far; give 2 decimals, rounded", answer
        assert (reply["right"] is None) == (diagnosis.message.startswith("right so far")), answer
        assert sentence(diagnosis.message) == reply["words"].removeprefix("Not yet. ")


QUESTIONS = {
    "5.657": YourTurn("How long?", 5.657, {2.75: "known"}),
    "-0.674": YourTurn("Which state?", -0.674),
    "9/4": YourTurn("How much?", 2.25, {2.75: "known"}),
    "0.2": YourTurn("Which weight?", 0.2),
    "3/4": YourTurn("Which part?", 0.75),
    "64": YourTurn("How many?", 64),
    "1920": YourTurn("How many bytes?", 1920),
    "0.25, -0.5": YourTurn("How much of each?", [0.25, -0.5], {}),
    "8, 5, 7": YourTurn("Which shape?", (8, 5, 7), {}),
    "3, 7": YourTurn("How many keys of each?", (3, 7), {}),
    "cat": YourTurn("Which?", "cat", {}, choices=["cat", "mat"]),
}
# What people type, for each of the answers above
RIGHT = {
    "5.657": "5.657 5,657 5.66 5,66 +5.657 =5.657 5.657. √32=5.657 (5.657) tensor(5.657) $5.657$ ５．６６ 565.7%",
    "-0.674": "-0.674 −0.674 –0.674 -0,674 -.674 -,674 -6.74e-1 -67.4% ≈-0.67 －0.67",
    "9/4": "9/4 2.25 2,25 2,250 2¼ +2¼ 225% 4.5/2 4,5/2 9÷4 9⁄4 2.25e0",
    "0.2": "0.2 0,2 .2 1/5 ⅕ 20% 2e-1 2E-1 ≈0.2 ~0.2 =0.2 x=0.2 0.200 '0.2'",
    "3/4": "¾ 0.75 75% 3/4 7.5e-1",
    "64": "64 64.0 6.4e1 128/2 64,0",
    "1920": "1920 1,920 1.920 1'920 1’920 1_920 1,920.0 1.920,0 1.92e3",
    "0.25, -0.5": "0.25,-0.5 0,25;-0,5 0.25;-½ [0.25,-1/2] tensor([0.25,-0.5]) ¼,-½ 25%,-50%",
    "8, 5, 7": "8,5,7 8;5;7 (8,5,7) [8,5,7] torch.Size([8,5,7]) 8x5x7 8X5X7 Size([8,5,7]) 8×5×7 8*5*7 shape=(8,5,7)",
    "3, 7": "3,7 3;7 [3,7] (3,7)",
    "cat": "cat",
}
RIGHT_WITH_BLANKS = [
    *[("9/4", given) for given in ("2 1/4", " 9 / 4 ", "2 ¼", "2\u00a01/4", "ℓ = 9/4")],
    *[("-0.674", given) for given in ("- 0.674", "≈ −0.67", "-67 %", "–\u20090,674")],
    *[("0.2", given) for given in ("20 %", "20 percent", "1 / 5", "\u200b0.2")],
    *[("1920", given) for given in ("1 920", "1\u202f920", "2 · 5 · 3 · 16 · 4 = 1,920")],
    *[
        ("0.25, -0.5", given)
        for given in ("0.25, -1/2", "[0.25 −0.5]", "0,25; -0,5", "0,25 -0,5", "tensor([0.25, -0.5])")
    ],
    *[("8, 5, 7", given) for given in ("8 5 7", "(8, 5, 7).", "8 x 5 x 7", "torch.Size([8, 5, 7])", "8; 5; 7")],
]
SO_FAR = {"5.657": "5.7 5,7 5.6 5.65 6 5 5.70", "-0.674": "-0.7 −0,7 -0.6 –.7", "9/4": "2.2 2.3 2"}
WRONG = {
    "5.657": "5.5 5.67 -5.7 56.57 5,657,000 32 1e9",
    "-0.674": "0.67 -1 0.7",
    "9/4": "2.75 2,750 1/4 21/4 25 2250",
    "0.2": "20 0.3 1 0 2%",
    "64": "63 6e1 64% 60 1/64",
    "1920": "192 1.92 1,92 1,920,000",
    "0.25, -0.5": "0.25 -0.5,0.25 0.25,-0.5,0",
    "8, 5, 7": "8,7,5 (8,) 8,5 8,57",
    "3, 7": "7,3 3 3,7,1",
    "cat": "mat",
}
NO_ANSWERS = [
    *[
        ("5.657", given)
        for given in ("√32", "sqrt(32)", "32^0.5", "32**.5", "one", "1.2.3", "1/0", "5.657.1", "<b>1</b>")
    ],
    *[("5.657", given) for given in ("1e999", "NaN", "∞", "...", "=", "%", "/", "-", "2²", "0x10", "1 2 3", "5,65,7")],
    *[("-0.674", given) for given in ("tanh(-0.82)", "-", "−", "--1", "0.674-", "cos(2)")],
    *[("9/4", given) for given in ("2 + 1/4", "9/4/1", "1 920/4", "9:4", "2 1/0")],
    *[("0.2", given) for given in ("0.2 or 0.3", "a fifth", "0.2 nats", "1-0.8", "2·10^-1")],
    *[("64", given) for given in ("64 ops", "64ops", "about 64", "8*8", "d/2")],
    *[("1920", given) for given in ("1920 bytes", "1.92 kB", "2*5*3*16*4", "19,20,0")],
    *[("0.25, -0.5", given) for given in ("0.25, x", "0.25 and -0.5", ",", "[]")],
    *[("8, 5, 7", given) for given in ("8, 5, m", "(8, 5, 1*7)", "8, 5, 7.5", "()", "8 by 5 by 7", "8/5/7")],
    *[("3, 7", given) for given in ("3 and 7", "3 keys, 7 keys", "3/7", "3.7", "three, seven")],
    ("cat", "dog"),
]


def test_answers_are_read_as_people_type_them(replies):
    def each(table):
        return [(answer, given) for answer, line in table.items() for given in line.split()]

    tables = [
        ([*each(RIGHT), *RIGHT_WITH_BLANKS], True, r"Right\.$"),
        (each(SO_FAR), None, r"Right so far; give 2 decimals, rounded\.$"),
        (each(WRONG), False, r"Not yet\. "),
        (NO_ANSWERS, None, r"(Type|Choose) "),
    ]
    for pairs, right, words in tables:
        said = replies([QUESTIONS[answer].state() | {"given": given} for answer, given in pairs])
        for pair, reply in zip(pairs, said, strict=True):
            assert (reply["right"], bool(re.match(words, reply["words"]))) == (right, True), (pair, reply)


def test_the_words_of_a_mistake_are_found_whichever_way_it_is_spelt(replies):
    said = replies([QUESTIONS["9/4"].state() | {"given": given} for given in ("2.75", "2,750", "2 3/4", "275%")])
    assert {reply["words"] for reply in said} == {"Not yet. Known."}


def test_the_field_says_which_kind_of_answer_belongs_in_it_and_nothing_of_the_answer(run_in_node):
    kinds = {
        "a number with 3 decimals": YourTurn("How much?", 0.125, tolerance=0.0005),
        "a number with 2 decimals": YourTurn("How much?", -0.25),
        "a whole number": YourTurn("How many times as many weights?", 4, {0.25: "that is the inverse"}),
        "numbers with 2 decimals": YourTurn("How much of each?", [0.25, -0.5]),
        "whole numbers": YourTurn("How many of each?", [2.0, 4.0]),
        "whole numbers, such as 2, 3": YourTurn("Which shape?", (8, 5, 7)),
    }
    states = [turn.state() for turn in kinds.values()]
    assert run_in_node("your_turn", "return given.map(widget.wanted);", states) == list(kinds)


def test_nothing_is_said_before_an_answer_and_an_empty_field_that_is_checked_says_so(replies):
    state = QUESTIONS["8, 5, 7"].state()
    nothing, blank = replies([state, state | {"given": " "}])
    assert nothing is None
    assert blank["right"] is None
    assert blank["words"].startswith("The field is empty: type the whole numbers")


@pytest.mark.parametrize("width", [390, 1280])
def test_by_hand(visit_widget, width):
    page = visit_widget("your_turn", width=width)
    field, status = page.get_by_placeholder("a number with 2 decimals"), page.locator(".bw [role=status]")
    button = page.get_by_role("button", name="Check")
    assert status.inner_text() == ""
    plain = status.evaluate("x => getComputedStyle(x).color")
    field.press("Tab")
    assert status.inner_text() == "", "who passes by is told nothing"
    for press in (button.click, lambda: field.press("Enter")):
        press()
        assert status.inner_text().startswith("The field is empty: type the number itself")
        assert field.input_value() == ""
        field.fill("rubbish")
        field.press("Enter")
        assert status.inner_text().startswith("Type the number itself")
        assert field.input_value() == "rubbish", "nothing is lost"
        assert status.evaluate("x => getComputedStyle(x).color") == plain, "it is no mistake"
        field.fill("1")
        button.click()
        assert status.inner_text() == "Not yet. The two weights sum to 1."
        assert status.evaluate("x => getComputedStyle(x).color") != plain
        field.fill("1/2")
        field.press("Tab")
        assert status.inner_text() == "Right."
        field.fill("")
        field.press("Tab")
        assert status.inner_text() == "", "and one can begin again"


def test_a_filled_cell_gets_words_and_an_empty_one_the_widget(capsys):
    shown = check("sat_without_cat", ...)
    assert isinstance(shown, YourTurn)
    assert capsys.readouterr().out == ""
    assert check("sat_without_cat", 0.2) is None
    assert capsys.readouterr().out == "sat_without_cat: right.\n"
    with pytest.raises(AssertionError, match="sat_without_cat: not filled in yet"):
        check("sat_without_cat", ..., ours=True)
    assert check("one_step_of_attention", ...) is None, "code is not typed on the page"


def test_an_answer_that_cannot_be_chosen_is_an_error():
    with pytest.raises(ValueError, match=r"answers must be among choices \['a', 'b'\]; got 'c'"):
        YourTurn("Which?", "c", {}, choices=["a", "b"])
    with pytest.raises(ValueError, match="got 'd'"):
        YourTurn("Which?", "a", {"d": "no"}, choices=["a", "b"])


def test_a_choice_that_is_none_is_told_in_a_cell_too():
    (choice,) = (exercise for exercise in TURNS if exercise.prompt == "Which?")
    assert judge(choice, "dog").message == "choose one of 'the', 'cat', 'mat'; got 'dog'"
    assert judge(replace(choice, fallback_message="that is no animal"), "the").message == "that is no animal"
