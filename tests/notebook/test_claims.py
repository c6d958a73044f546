"""Laws of the claims: what they assert, and what a notebook and the page of claims get to see."""

import builtins
import json
import math
import re
from dataclasses import replace

import IPython.display
import pytest
import torch
from IPython.core.formatters import DisplayFormatter

from attention_tutorial.notebook.claims import MEASURED, PREDICTED, Claim, Kind, claim


def printed(capsys, *args, **kwargs):
    claim(*args, **kwargs)
    return capsys.readouterr().out


def test_a_claim_that_holds_prints_what_was_predicted_and_measured(capsys):
    out = printed(capsys, "X1a", "Two and two make four", 2 + 2, equals=4)
    assert out == f"✓ Two and two make four — {MEASURED} 4 ({PREDICTED} 4)\n"


def test_a_claim_that_fails_raises_with_both_and_prints_nothing(capsys):
    with pytest.raises(AssertionError) as caught:
        claim("X1a", "Two and two make five", 2 + 2, equals=5)
    assert str(caught.value) == f"claim X1a (Two and two make five) does not hold: {MEASURED} 4, {PREDICTED} 5"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("measured", "prediction", "holds"),
    [
        (1.0, {"equals": 1}, True),
        (1.0 + 1e-12, {"equals": 1}, False),
        (1.25, {"equals": 1, "atol": 0.25}, True),  # the tolerance itself still holds
        (0.75, {"equals": 1, "atol": 0.25}, True),
        (0.7, {"equals": 1, "atol": 0.25}, False),
        (-5.0, {"equals": -4, "rtol": 0.25}, True),
        (-5.6, {"equals": -4, "rtol": 0.25, "atol": 0.5}, False),
        (3, {"at_least": 3}, True),
        (2.999, {"at_least": 3}, False),
        (3, {"at_most": 3}, True),
        (3.001, {"at_most": 3}, False),
        (3, {"at_least": 2, "at_most": 4}, True),
        (1, {"at_least": 2, "at_most": 4}, False),
        (0, {"at_least": 0}, True),  # a bound of zero is a bound
        (-1, {"at_least": 0}, False),
        (math.nan, {"equals": math.nan}, False),  # what is no number holds nowhere
        (math.nan, {"at_least": 0}, False),
        (math.inf, {"at_most": 9}, False),
        (True, {"equals": True}, True),
        (False, {"equals": True}, False),
        (1, {"equals": True}, False),  # a bool is a bool and not a number
        (True, {"equals": 1}, False),
        ("left", {"equals": "left"}, True),
        ("left", {"equals": "right"}, False),
        ("1", {"equals": 1}, False),
    ],
)
def test_a_claim_holds_exactly_within_its_prediction(measured, prediction, holds, capsys):
    if holds:
        assert claim("X1a", "s", measured, **prediction) is None, "it is shown, and not returned too"
        return
    with pytest.raises(AssertionError, match=re.escape("claim X1a (s) does not hold: measured ")):
        claim("X1a", "s", measured, **prediction)


@pytest.mark.parametrize("measured", [torch.tensor(0.5), torch.tensor([[0.5]]), torch.tensor(0.5).numpy()])
def test_a_measurement_may_be_a_tensor_of_one_number(measured, capsys):
    assert f"{MEASURED} 0.5 (" in printed(capsys, "X1a", "s", measured, equals=0.5)
    assert f"{MEASURED} true (" in printed(capsys, "X1a", "s", torch.tensor(True), equals=True)


@pytest.mark.parametrize(
    ("measured", "options", "shown"),
    [
        (1 / 3, {}, "0.333"),
        (1 / 3, {"digits": 5}, "0.33333"),
        (1234.5678, {"digits": 2}, "1.2e+03"),
        (123456789, {}, "123456789"),  # whole numbers in full
        (4096.0, {}, "4096"),
        (1e-12, {}, "1e-12"),
        (0.0, {}, "0"),
        (-2.5, {}, "-2.5"),
        (1e300, {}, "1e+300"),
    ],
)
def test_numbers_are_shown_with_the_digits_asked_for(measured, options, shown, capsys):
    assert f"— {MEASURED} {shown} (" in printed(capsys, "X1a", "s", measured, at_least=-3, **options)


@pytest.mark.parametrize(
    ("prediction", "shown", "bounds"),
    [
        ({"equals": 0.5, "atol": 0.05}, "0.5 ± 0.05", (None, 0.45, 0.55)),
        ({"equals": 0.5, "rtol": 0.1}, "0.5 ± 0.05", (None, 0.45, 0.55)),
        ({"equals": 0.5}, "0.5", (None, 0.5, 0.5)),
        ({"at_least": 0.25}, "at least 0.25", (None, 0.25, None)),
        ({"at_most": 1e-9 + 0.5}, "at most 0.5", (None, None, 1e-9 + 0.5)),
        ({"at_least": 0, "at_most": torch.tensor(1)}, "at least 0 and at most 1", (None, 0, 1)),
        ({"equals": "0.5"}, "0.5", ("0.5", None, None)),
    ],
)
def test_what_is_accepted_is_shown_in_words_and_recorded_in_full(prediction, shown, bounds, monkeypatch):
    made = []
    monkeypatch.setattr("attention_tutorial.notebook.claims.show", made.append)
    claim("X1a", "s", prediction["equals"] if isinstance(prediction.get("equals"), str) else 0.5, **prediction)
    assert made[0].predicted == shown
    assert (made[0].equals, made[0].at_least, made[0].at_most) == bounds
    json.dumps(DisplayFormatter().format(made[0]))


@pytest.mark.parametrize("measured", [3e-9, -3e-9, 0.0, 4e-7])
def test_what_rounding_leaves_of_zero_is_shown_as_zero(measured, capsys):
    assert printed(capsys, "X1a", "s", measured, equals=0, atol=1e-6).endswith(f"— {MEASURED} 0 (accepted 0 ± 1e-06)\n")
    assert f"— {MEASURED} 0.04 (" in printed(capsys, "X1a", "s", 0.04, equals=0, atol=0.05)


@pytest.mark.parametrize(("measured", "options", "recorded"), [
    (3.8e-6, {"equals": 0, "atol": 1e-5}, "3.8e-06"),
    (0.0, {"equals": 0, "atol": 1e-5}, "0"),
    (0.5, {"equals": 0.5, "atol": 1e-5}, ""),
    (0, {"equals": 0}, ""),
])  # fmt: skip
def test_what_was_rounded_away_is_recorded_but_not_compared(measured, options, recorded, monkeypatch):
    shown = []
    monkeypatch.setattr("attention_tutorial.notebook.claims.show", shown.append)
    claim("X1a", "s", measured, **options)
    data, metadata = DisplayFormatter().format(shown[0])
    assert metadata["attention_tutorial_claim"].get("unrounded", "") == recorded
    assert "3.8" not in str(data)


@pytest.mark.parametrize(
    ("measured", "prediction", "kind"),
    [
        (0.5, {"at_least": 0.25}, Kind.BOUND),
        (1.0, {"equals": 1.0, "atol": 1e-12}, Kind.IDENTITY),
        (-2e6, {"equals": -2e6, "atol": 2}, Kind.IDENTITY),
        (-2.0, {"equals": -2, "atol": 2}, Kind.VALUE),
        (1.0, {"equals": 1.0, "rtol": 0.05}, Kind.VALUE),
        (1, {"equals": 1}, Kind.VALUE),
        (True, {"equals": True}, Kind.VALUE),
    ],
)
def test_a_tolerance_that_is_there_for_rounding_alone_makes_an_identity(measured, prediction, kind, monkeypatch):
    shown = []
    monkeypatch.setattr("attention_tutorial.notebook.claims.show", shown.append)
    claim("X1a", "s", measured, **prediction)
    assert shown[0].kind is kind


def test_a_record_is_read_as_it_was_written():
    for written in (Claim("X1a", "s", "1", "1"), Claim("X1a", "s", "0 ± 1", "0", Kind.IDENTITY, False, True, "0.1")):
        data, metadata = DisplayFormatter().format(written)
        assert Claim.from_output({"data": data, "metadata": metadata}) == written


def test_a_failure_shows_more_digits_than_the_claim():
    with pytest.raises(AssertionError, match=re.escape(f"{MEASURED} 0.333333333, {PREDICTED} 0.333")):
        claim("X1a", "s", 1 / 3, equals=0.333)


@pytest.mark.parametrize("prediction", [{}, {"equals": 1, "at_least": 0}, {"equals": 1, "at_most": 2}, {"atol": 1.0}])
def test_a_claim_needs_one_kind_of_prediction(prediction):
    with pytest.raises(ValueError, match="give either equals, or at_least and/or at_most; got equals="):
        claim("X1a", "s", 1, **prediction)


SHOWN = Claim("X1a", "Scores < 1 & > 0, in $d_k$", "at most 1", "0.5", Kind.BOUND)


def test_a_notebook_gets_a_sentence_that_reads_well_everywhere_and_metadata():
    """In Markdown: every front end sets it with formulas, in its own colours, and GitHub's viewer strips nothing."""
    data, metadata = DisplayFormatter().format(SHOWN)
    values = "measured 0.5 (accepted if at most 1)"
    assert data == {
        "text/plain": f"✓ Scores < 1 & > 0, in $d_k$ — {values}",
        "text/markdown": f'✓ Scores &lt; 1 & > 0, in $d_k$ — <small title="claim X1a">{values}</small>',
    }
    assert metadata["attention_tutorial_claim"] == {
        "id": "X1a",
        "sentence": SHOWN.sentence,
        "predicted": "at most 1",
        "measured": "0.5",
        "kind": "bound",
    }


def test_the_sentence_of_a_finding_has_more_weight():
    plain, finding = (DisplayFormatter().format(replace(SHOWN, finding=weight))[0] for weight in (False, True))
    assert finding["text/plain"] == plain["text/plain"]
    assert finding["text/markdown"] == plain["text/markdown"].replace("✓ Scores", "✓ **Scores").replace(" — ", "** — ")


def test_what_is_bounded_was_accepted_and_never_predicted():
    for kind, words in ((Kind.BOUND, "accepted if 1"), (Kind.IDENTITY, "accepted 1"), (Kind.VALUE, "predicted 1")):
        assert repr(Claim("X1a", "s", "1", "1", kind)).endswith(f"({words})")


def test_an_unstable_claim_marks_its_digits():
    data, metadata = DisplayFormatter().format(Claim("X1a", "s", "1", "0.97", stable=False))
    assert all(f"{MEASURED} ≈ 0.97 (" in text for text in data.values())
    assert metadata["attention_tutorial_claim"]["measured"] == "0.97"


def test_inside_a_notebook_a_claim_is_displayed_once_and_not_printed(monkeypatch, capsys):
    displayed = []
    monkeypatch.setattr(builtins, "get_ipython", lambda: None, raising=False)
    monkeypatch.setattr(IPython.display, "display", displayed.append)
    claim("X1a", "One is one", 1, equals=1)
    assert displayed == [Claim("X1a", "One is one", "1", "1", at_least=1, at_most=1)]
    assert capsys.readouterr().out == ""
