"""Laws of the widget on tiles: block by block it computes the package's softmax, and its mistakes are mistakes."""

import math
import random
import re

import pytest
import torch
from bs4 import BeautifulSoup
from website import press, put, serious_findings, slide

from attention_tutorial.widgets import Tiles
from attention_tutorial.widgets.tiles import ROWS

MISTAKES = ("forget", "no_maximum", "careless")
KEPT = ("t", "factor", "l", "u", "o")


def same(actual, expected):
    """Whether two numbers agree, with NaN and the infinities each equal to itself; JSON has null for all three."""
    if actual is None:
        return not math.isfinite(expected)
    actual = float(actual)
    if math.isnan(expected) or math.isinf(expected):
        return repr(actual) == repr(expected)
    return actual == pytest.approx(expected, rel=1e-9, abs=1e-12)


# ---- The class ----------------------------------------------------------------------------------------------------


def own(scores, values, block=2, **state):
    """A row as a reader types it."""
    widget = Tiles()
    widget.scores, widget.values, widget.block = scores, values, block
    for name, value in state.items():
        setattr(widget, name, value)
    return widget


def random_rows():
    """Rows of 1 to 12 scores of every size, some masked, in blocks of every size."""
    draw = random.Random(2)
    made = []
    for number in range(120):
        n = number % 12 + 1
        size = [0.1, 1.0, 10.0, 1000.0, 90_000.0][number % 5]
        masked = [j for j in range(n) if draw.random() < [0.0, 0.3, 0.8, 1.0][number % 4]]
        scores, values = ([draw.uniform(-most, most) for _ in range(n)] for most in (size, 5))
        made.append(own(scores, values, masked=masked, block=draw.randint(1, n)))
    return made


def test_block_by_block_is_softmax_whatever_the_row():
    for widget in random_rows():
        steps = widget.steps()
        scores = torch.tensor(widget.scores, dtype=torch.float64)
        scores[widget.masked] = -torch.inf
        weights = torch.softmax(scores, dim=0).nan_to_num()  # no open key: the package answers with zeros
        assert torch.allclose(steps["naive_weights"], weights)
        assert torch.allclose(steps["weights"][-1], weights)
        assert torch.allclose(steps["o"][-1], (weights * torch.tensor(widget.values)).sum(), atol=1e-12)
        assert torch.allclose(steps["o"][-1], steps["naive"], atol=1e-12)
        for b, so_far in enumerate(steps["weights"]):
            end = (b + 1) * widget.block
            assert torch.allclose(so_far[:end], torch.softmax(scores[:end], 0).nan_to_num()), "of the keys read so far"
            assert not so_far[end:].any()


def test_the_mistakes_do_what_the_chapter_says():
    def last(row, **mistakes):
        steps = Tiles(row, **mistakes).steps()
        return steps["o"][-1].item(), steps["naive"].item()

    for row in ROWS:
        got, right = last(row)
        assert got == pytest.approx(right), row
    for row, mistake in [("ordinary", "forget"), ("ragged tail", "forget"), ("all far below zero", "no_maximum")]:
        got, right = last(row, **{mistake: True})
        assert abs(got - right) > 0.5, "wrong, and finite: nothing warns"
    assert last("largest first", forget=True)[0] == pytest.approx(last("largest first")[1]), "nobody notices"
    for row, mistake in [("one score of 10,000", "no_maximum"), ("first block masked", "careless"),
                         ("all masked", "careless")]:  # fmt: skip
        assert math.isnan(last(row, **{mistake: True})[0]), (row, mistake)
    assert math.isnan(last("all far below zero", no_maximum=True, careless=True)[0]), "0 / 0"


def test_a_computation_by_hand():
    """Scores 0 and ln 2 in one block, then ln 4: sums 3/2 and 1/2 * 3/2 + 1, weights 1/7, 2/7, 4/7."""
    widget = own([0.0, math.log(2), math.log(4)], [7.0, 14.0, 21.0])
    steps = widget.steps()
    assert steps["t"].tolist() == pytest.approx([math.log(2), math.log(4)])
    assert steps["factor"].tolist() == pytest.approx([0, 0.5])
    assert steps["l"].tolist() == pytest.approx([1.5, 1.75])
    assert steps["u"].tolist() == pytest.approx([17.5, 29.75])
    assert steps["o"].tolist() == pytest.approx([35 / 3, 17])
    assert steps["weights"][-1].tolist() == pytest.approx([1 / 7, 2 / 7, 4 / 7])
    forgot = own([0.0, math.log(2), math.log(4)], [7.0, 14.0, 21.0], forget=True).steps()
    assert forgot["o"][-1].item() == pytest.approx((17.5 + 21) / 2.5)


def test_the_html_holds_every_block():
    widget = Tiles("first block masked", careless=True)
    soup = BeautifulSoup(widget.to_html(), "html.parser")
    rows = [[cell.text for cell in row.select("td")] for row in soup.select("tbody tr")]
    assert rows[0] == ["−∞", "NaN", "NaN", "NaN", "NaN"]
    assert rows[-1] == ["", "", "", "", "6.194"]
    assert len(rows) == 5


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Tiles("flat"), ValueError, "row must be one of 'ordinary', .*; got 'flat'"),
        (lambda: Tiles(block=0), ValueError, "block must be at least 1; got 0"),
        (lambda: Tiles(block=9), ValueError, "block must be at most the number of scores, 8; got 9"),
        (lambda: Tiles(step=5), ValueError, "step must be at most the number of blocks, 4; got 5"),
    ],
)
def test_a_mistake_is_explained(make, error, message):
    with pytest.raises(error, match=message):
        make()


# ---- The maths, in Node -------------------------------------------------------------------------------------------

IN_NODE = """
return {
  made: given.map((state) => {
    const all = widget.compute(state);
    const told = all.steps.map((step) => widget.arithmetic(step, state));
    const { options } = widget.question(state);
    return { ...all, told, options, said: widget.diagnose(state, all), words: widget.describe(all.steps, all.whole) };
  }),
  brief: [0, -0, 1, 2.5, 0.3678794, -1000, 10000, 1.3e-7, 4.4e250, NaN, Infinity, -Infinity, 1234.56].map(widget.brief),
  parsed: ["10000", "1e4", "100001"].map((text) => widget.settle({ ...given[0], block: 99, step: 99 }).block),
};
"""


def all_widgets():
    """Every row with every set of mistakes, and random ones, each with some mistakes."""
    draw = random.Random(4)
    sets = [dict(zip(MISTAKES, on, strict=True)) for on in [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]]
    made = [Tiles(row, **{name: bool(on) for name, on in mistakes.items()}) for row in ROWS for mistakes in sets]
    for widget in random_rows():
        for name in MISTAKES:
            setattr(widget, name, draw.random() < 0.4)
        made.append(widget)
    return made


@pytest.fixture(scope="module")
def node(run_in_node):
    """What the ES module computes and says in Node."""
    return run_in_node("tiles", IN_NODE, [widget.state() for widget in all_widgets()])


def test_the_browsers_numbers_are_torchs(node):
    for widget, made in zip(all_widgets(), node["made"], strict=True):
        steps = widget.steps()
        assert len(made["steps"]) == len(steps["t"])
        for b, step in enumerate(made["steps"]):
            for name in KEPT:
                assert same(step[name], steps[name][b].item()), (widget.state(), b, name)
            for j, weight in enumerate(step["weights"]):
                assert same(weight, steps["weights"][b, j].item()), (widget.state(), b, j)
        assert all(map(same, made["whole"]["weights"], steps["naive_weights"].tolist()))
        assert same(made["whole"]["output"], steps["naive"].item())


def test_what_is_said_fits_the_numbers(node):
    for widget, made in zip(all_widgets(), node["made"], strict=True):
        steps = widget.steps()
        output, right = steps["o"][-1].item(), steps["naive"].item()
        answer = [option["label"] for option in made["options"] if option["right"]]
        if math.isnan(output):
            assert answer == ["NaN"]
            assert "NaN" in made["said"], widget.state()
        elif abs(output - right) <= 1e-9 * max(1, abs(right)):
            assert answer == ["The softmax's"]
            assert not re.search("Wrong|NaN|Overflow|Underflow", made["said"]), widget.state()
        else:
            assert answer == ["Another number"]
            assert re.search("Wrong by|Underflow", made["said"]), widget.state()
        if "Overflow" in made["said"]:
            assert max(made["steps"], key=lambda s: s["end"])["l"] is None
            assert not steps["l"][-1].isfinite()
        if "−∞ − (−∞)" in made["said"]:
            assert widget.careless and steps["t"][0] == -math.inf
        if "by luck" in made["said"] or "nobody notices" in made["said"]:
            assert widget.forget
        assert len(made["words"]) == len(steps["t"]) + 1


def test_the_arithmetic_ends_in_the_number_it_explains(node):
    for made in node["made"]:
        for step, told in zip(made["steps"], made["told"], strict=True):
            lines = dict(told)
            assert [*lines][::5] == ["t", "o"]
            if step["l"] is not None and 0.01 < step["l"] < 1000:
                shown = float(lines["l"].rsplit("= ", 1)[1].replace("−", "-"))
                assert shown == pytest.approx(step["l"], abs=5.1e-4)


def test_numbers_are_told_in_few_letters(node):
    assert node["brief"] == ["0", "0", "1", "2.5", "0.368", "−1000", "10000", "1.3 · 10⁻⁷", "4.4 · 10²⁵⁰", "NaN", "∞",
                            "−∞", "1234.6"]  # fmt: skip
    assert node["parsed"] == [8, 8, 8], "a block is no longer than the row"


# ---- The page, in Chromium ----------------------------------------------------------------------------------------


@pytest.fixture
def show(pages):
    """Return a way to put the widget on a page of its own; no script may fail."""
    opened = []

    def open_page(width=1280, **options):
        opened.append(pages.take(viewport={"width": width, "height": 900}, **options))
        put(opened[-1], Tiles())
        return opened[-1]

    yield open_page
    failures = [what for page in opened for kind, what in page.heard if kind in ("failure", "error")]
    for page in opened:
        pages.give_back(page)
    assert failures == []


SHOWN = """() => {
  const all = (part) => [...document.querySelectorAll(part)].map((x) => x.dataset);
  return {
    steps: all("[data-step]").map((x) => [x.step, x.of, x.value]),
    bars: all("[data-weight]").map((x) => Number(x.weight)),
    weights: all("[data-whole]").map((x) => Number(x.whole)),
    output: Number(all("[data-number=whole]")[0].value),
  };
}"""


def agrees(page, widget):
    """Assert that what the page shows are the numbers of the widget's Python twin, and nothing of blocks ahead."""
    steps, shown = widget.steps(), page.evaluate(SHOWN)
    assert len(shown["steps"]) == widget.step * len(KEPT)
    for b, name, value in shown["steps"]:
        assert same(value, steps[name][int(b)].item()), (b, name)
    reached = min(widget.step * widget.block, len(widget.scores))
    if widget.step:
        weights = steps["weights"][widget.step - 1][:reached]
        assert all(map(same, shown["bars"], weights[~weights.isnan()].tolist()))
    assert shown["weights"] == pytest.approx(steps["naive_weights"].tolist())
    assert shown["output"] == pytest.approx(steps["naive"].item())


def test_the_page_shows_torchs_numbers_step_by_step(show):
    page, widget = show(), Tiles()
    agrees(page, widget)
    for step in range(1, 5):
        press(page, "next")
        widget.step = step
        agrees(page, widget)
    assert float(page.get_attribute("[data-number=difference]", "data-value")) < 1e-12
    assert "the same output" in page.text_content(".tl-verdict .bw-good")
    for name in MISTAKES:
        page.check(f"[id$='-{name}']")
        setattr(widget, name, True)
        agrees(page, widget)
    for row in ("one score of 10,000", "first block masked", "all masked", "ragged tail"):
        page.select_option("[id$='-row']", row)
        fresh = Tiles(row, forget=True, no_maximum=True, careless=True)
        while fresh.step < -(-len(fresh.scores) // fresh.block):
            press(page, "next")
            fresh.step += 1
        agrees(page, fresh)


def test_numbers_and_masks_are_changed_in_the_row(show):
    page, widget = show(), Tiles()
    page.fill("[aria-label='score of key 3']", "10000")
    page.fill("[aria-label='value of key 3']", "−2.5")
    page.click("[aria-label='key 1 masked']")
    slide(page, "block", 3)
    widget.scores = [*widget.scores[:2], 10_000.0, *widget.scores[3:]]
    widget.values = [*widget.values[:2], -2.5, *widget.values[3:]]
    widget.masked, widget.block = [0], 3
    for step in (1, 2, 3):
        press(page, "next")
        widget.step = step
        agrees(page, widget)
    page.fill("[aria-label='score of key 3']", "ten")
    assert "Type a number" in page.text_content(".bw-panel")
    agrees(page, widget)
    slide(page, "moment", 0)
    assert page.locator("[data-step]").count() == 0, "back to where nothing is read"


def test_a_button_that_cannot_be_pressed_again_keeps_the_focus(show):
    page = show()
    press(page, "next")
    page.focus("[id$='-back']")
    page.keyboard.press("Enter")
    agrees(page, Tiles())
    assert page.evaluate("document.activeElement.id").endswith("-back")


def test_it_plays_on_request_and_stops_at_the_end(show):
    page, widget = show(), Tiles(block=4)
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    slide(page, "block", 4)
    page.clock.run_for(5000)
    agrees(page, widget)
    press(page, "play")
    for widget.step, button in ((0, "Pause"), (1, "Pause"), (2, "Play"), (2, "Play")):
        agrees(page, widget)
        assert page.text_content("[id$='-play']") == button
        page.clock.run_for(1300)


def test_a_prediction_comes_before_the_answer(visit):
    page = visit("http", width=360)
    page.check("[id$='-predict']")
    assert not page.locator(".tl-ledger").is_visible()
    assert not page.locator(".bw-player").is_visible()
    page.click(".bw-options button:text-is('NaN')")
    assert page.text_content(".bw-wrong").startswith("Not quite. The answer: The softmax's.")
    agrees(page, Tiles(step=4))
    page.check("[id$='-forget']")
    assert not page.locator(".tl-ledger").is_visible(), "another question"
    page.click(".bw-options button:text-is('Another number')")
    assert page.text_content(".bw-right").startswith("Yes: Another number. Wrong by 1.427")
    assert serious_findings(page, ".bw") == []


def test_pictures_and_cells_say_what_they_are(show):
    page, steps = show(), Tiles(step=1).steps()
    press(page, "next")
    label = page.get_attribute(".tl-bars svg", "aria-label")
    assert label.startswith(f"Weights so far: {steps['weights'][0, 0]:.3f}, {steps['weights'][0, 1]:.3f}. Weights of")
    assert page.get_attribute(".bw-panel", "role") == "status"
    words = page.locator(".bw-words li").all_text_contents()
    assert len(words) == 5
    assert f"output {steps['naive']:.3f}" in words[-1]
