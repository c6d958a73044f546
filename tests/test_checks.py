"""Laws of the exercises' checks, whatever the exercise. The exercises themselves are tested chapter by chapter."""

import pytest

from attention_tutorial import checks
from attention_tutorial.checks import check, diagnose, exercise


@pytest.fixture(autouse=True)
def only_our_exercises(monkeypatch):
    """An empty register, and no chapter that would fill it."""
    monkeypatch.setattr(checks, "_CHECKERS", {})
    monkeypatch.setattr(checks, "__path__", [])

    @exercise("9.1")
    def doubled(answer):
        return None if answer(3) == 6 else "it does not double: 3 must become 6"

    @exercise("9.2")
    def number(answer):
        return None if answer == 0 else f"it must be 0, not {answer}"


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


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (broken, "Your code raised IndexError: no third row."),
        (lambda: 6, "Your code raised TypeError: "),
        (lambda x: x @ x, "Your code raised TypeError: unsupported operand type(s) for @: 'int' and 'int'."),
        (6, "Your code raised TypeError: 'int' object is not callable."),
    ],
)
def test_an_answer_that_raises_is_told_so_and_stops_nothing(answer, words, capsys):
    assert said(capsys, "9.1", answer).startswith(f"Exercise 9.1: not yet. {words}")


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
