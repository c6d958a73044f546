"""Laws of the widget on positions: its scores are the package's, in Python, in Node and on the page."""

import functools
import math
import random

import pytest
import torch
from bs4 import BeautifulSoup
from website import hard_to_tap, phone_faults, press, put, serious_findings, slide

from attention_tutorial.positions import apply_rotary
from attention_tutorial.widgets import MoveAWord
from attention_tutorial.widgets.move_a_word import BASES, CONTENTS, KINDS, LENGTHS, ROWS, WIDTHS

EXACT = ["none", "rotary", "alibi"]  # what depends on the distance only


def close(actual, expected, tolerance=1e-9):
    """Compare numbers of the browser, None where there are none, with a tensor that has NaN there."""
    tensor = torch.tensor([math.nan if x is None else x for x in actual], dtype=torch.float64)
    return torch.allclose(tensor, expected.flatten(), rtol=0, atol=tolerance, equal_nan=True)


# ---- The class ----------------------------------------------------------------------------------------------------


def test_scores_are_what_the_formulas_say():
    """Worked out pair by pair, without the package's positions."""
    widget = MoveAWord("man bites dog", places=[3, 50, 9], d_k=8, base=100.0, pairing="interleaved", head=2)
    x, scores = widget.features(), widget.scores()
    omega = 100.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    for i, t in enumerate(widget.places):
        for j, s in enumerate(widget.places):
            plain = (x[i] @ x[j]).item() / math.sqrt(8)
            assert scores["none"][i, j] == pytest.approx(plain)
            assert scores["alibi"][i, j] == pytest.approx(plain - 0.25 * abs(t - s))
            waves = [torch.stack([(p * omega).sin(), (p * omega).cos()], 1).flatten() for p in (t, s)]
            assert scores["sinusoidal"][i, j] == pytest.approx(((x[i] + waves[0]) @ (x[j] + waves[1])).item() / 8**0.5)
            a, b = (torch.view_as_complex(z.view(4, 2).contiguous()) for z in (x[i], x[j]))
            turned = (a * torch.exp(1j * t * omega)).conj() * (b * torch.exp(1j * s * omega))
            assert scores["rotary"][i, j] == pytest.approx(turned.real.sum().item() / 8**0.5)


@pytest.mark.parametrize("pairing", ["halves", "interleaved"])
def test_what_the_widget_is_to_show_is_so(pairing):
    widget = MoveAWord("dog bites man", pairing=pairing)
    widgets_ranges = {kind: (most - least).max() for kind, (least, most) in widget.ranges().items() if kind in EXACT}
    assert max(widgets_ranges.values()) < 1e-9, "the same at each distance, wherever the pair stands"
    widget.places, widget.shift = [24, 32, 40], 20
    changes = widget.changes()
    assert max(changes[kind] for kind in EXACT) < 1e-9
    assert min(changes["sinusoidal"], changes["learned"]) > 0.5
    widget.content = 0.0
    assert widget.changes()["sinusoidal"] < 1e-9, "without words, sinusoidal scores know the distance only"
    assert widget.changes()["learned"] > 0.5
    line = widget.curves()["alibi"]
    assert torch.allclose(line[:32].diff(), torch.tensor(1 / 16).double()), "a straight line"
    assert MoveAWord().curves()["none"].std() < 1e-12, "flat"


def test_learned_positions_end_with_their_table():
    widget = MoveAWord(length=256, places=[10, 63, 64])
    learned = widget.scores()["learned"]
    assert learned.isnan().tolist() == [[False, False, True], [False, False, True], [True, True, True]]
    assert not learned[:2, :2].isnan().any()
    assert widget.curves()["learned"].isnan().sum() == 256 - ROWS
    assert "no row" in MoveAWord(length=256, places=[100, 120, 130]).static_html()


def test_equal_words_are_equal_and_ask_for_themselves():
    widget = MoveAWord("dog bites dog", places=[7, 20, 7])
    scores = widget.scores()["rotary"]
    assert scores[0, 2] == pytest.approx(scores[0, 0].item())
    assert torch.allclose(scores, scores.T), "positions 7 and 7 are the same for both"


def test_the_html_holds_three_places():
    widget = MoveAWord("dog bites man")
    soup = BeautifulSoup(widget.to_html(), "html.parser")
    assert len(widget.to_html()) < 9_000
    assert [th.text for th in soup.select("tbody th")] == list(KINDS.values())
    assert [th.text for th in soup.select("thead th")] == [f"at {t} and {t - 8}" for t in (8, 12, 55)]
    rows = {tr.th.text: [td.text for td in tr.select("td")] for tr in soup.select("tbody tr")}
    assert len(set(rows["rotary"])) == len(set(rows["ALiBi"])) == 1 < len(set(rows["sinusoidal"]))
    assert "learned" not in MoveAWord(compact=True).static_html()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"sentence": "dog"}, ValueError, "sentence must have 2 to 4 words; got 1: 'dog'"),
        ({"places": [1, 2]}, ValueError, r"places must say where each of the 3 words stands; got \[1, 2\]"),
        ({"places": [1, 2, 64]}, ValueError, "places must be from 0 to 63"),
        ({"query": 3}, ValueError, "query must be from 0 to 2; got 3"),
        ({"query": 1, "key": 1}, ValueError, "query and key must be two words; both are 1"),
        ({"d_k": 5}, ValueError, "d_k must be one of 2, 4, 8, 16, 32, 64; got 5"),
        ({"base": 7}, ValueError, "base must be one of 10, 100, .*; got 7"),
        ({"pairing": "thirds"}, ValueError, "pairing must be one of 'halves', 'interleaved'; got 'thirds'"),
        ({"head": 9}, ValueError, "head must be from 1 to 8; got 9"),
        ({"content": 3}, ValueError, "content must be one of 0, 0.25, .*; got 3"),
        ({"length": 100}, ValueError, "length must be one of 64, 256; got 100"),
    ],
)
def test_a_mistake_is_explained(arguments, error, message):
    with pytest.raises(error, match=message):
        MoveAWord(**arguments)


# ---- The maths, in Node -------------------------------------------------------------------------------------------

IN_NODE = """
const { states, turns } = given;
return {
  made: states.map((state) => {
    const x = widget.featuresOf(state);
    const setting = widget.settingOf(state);
    const { kinds, distance } = widget.compute(state);
    return { distance, kinds: Object.fromEntries(kinds.map((one) => [one.kind, {
      ...one, all: widget.scores(one.kind, [x, state.places], [x, state.places], setting).flat(),
    }])) };
  }),
  turned: turns.map(([x, place, pairing, base]) => widget.rotate(x, place, pairing, base)),
  questions: widget.questions(states[0]),
  said: [0, 0.25, 3e-16, 0.0005].map(widget.showChange).concat([3, 0, -12].map(widget.signed)),
  settled: [[9, 70, 3], [5], [1, 2, 3, 4]].map((places) => widget.settle({ ...states[0], places, shift: 2 })),
  moved: [[1, -5], [1, 99], [0, 7.4]].map(([word, to]) => widget.moveWord(states[0], word, to)),
  together: [0, 50, 200].map((to) => widget.moveAll(states[0], to)),
};
"""


@functools.cache
def random_widgets():
    """Widgets in states that a reader can reach, of every width, base, slope and length."""
    draw = random.Random(1)
    made = [MoveAWord(places=[24, 32, 40])]
    made[0].shift = 20
    for number in range(18):
        count = draw.randint(2, 4)
        sentence = " ".join(draw.choice(["dog", "bites", "man", "old"]) for _ in range(count))
        length = LENGTHS[number % 2]
        places = [draw.randrange(length) for _ in range(count)]
        query, key = draw.sample(range(count), 2)
        widget = MoveAWord(
            sentence,
            places=places,
            query=query,
            key=key,
            d_k=WIDTHS[number % len(WIDTHS)],
            base=BASES[number // 2 % len(BASES)],
            pairing=draw.choice(["halves", "interleaved"]),
            head=number % 8 + 1,
            content=draw.choice(CONTENTS),
            length=length,
        )
        widget.shift = draw.randint(max(places) - length + 1, min(places))
        made.append(widget)
    return made


def random_turns():
    generator = torch.Generator().manual_seed(3)
    return [
        [torch.randn(d, generator=generator, dtype=torch.float64).tolist(), place, pairing, base]
        for d in (2, 6, 64)
        for place in (0, 1, 17, 255)
        for pairing in ("halves", "interleaved")
        for base in (10.0, 10_000.0)
    ]


@pytest.fixture(scope="module")
def node(run_in_node):
    """What the ES module computes and says in Node."""
    return run_in_node(
        "move_a_word", IN_NODE, {"states": [w.state() for w in random_widgets()], "turns": random_turns()}
    )


def test_the_browsers_scores_are_the_packages(node):
    for widget, made in zip(random_widgets(), node["made"], strict=True):
        scores, curves, ranges, changes = widget.scores(), widget.curves(), widget.ranges(), widget.changes()
        assert made["distance"] == widget.places[widget.key] - widget.places[widget.query]
        for kind in KINDS:
            kind_scores = made["kinds"][kind]
            assert close(kind_scores["all"], scores[kind]), (widget, kind)
            assert close([kind_scores["score"]], scores[kind][widget.query, widget.key]), (widget, kind)
            assert close(kind_scores["curve"], curves[kind]), (widget, kind)
            least, most = ranges[kind]
            assert close([None if pair is None else pair[0] for pair in kind_scores["band"]], least), (widget, kind)
            assert close([None if pair is None else pair[1] for pair in kind_scores["band"]], most), (widget, kind)
            assert kind_scores["change"] == pytest.approx(changes[kind], abs=1e-9), (widget, kind)
            before = widget.scores([place - widget.shift for place in widget.places])[kind]
            assert close([kind_scores["before"]], before[widget.query, widget.key]), (widget, kind)


def test_the_browser_turns_as_the_package_does(node):
    for (x, place, pairing, base), turned in zip(random_turns(), node["turned"], strict=True):
        expected = apply_rotary(
            torch.tensor([x], dtype=torch.float64), torch.tensor([place]), pairing=pairing, base=base
        )
        assert close(turned, expected, 1e-12), (place, pairing, base)


def test_predictions_are_marked_by_the_packages_numbers(node):
    rights = []
    for question in node["questions"]:
        right = [option["label"] for option in question["options"] if option["right"]]
        assert len(right) == 1, question["text"]
        rights += right
        pair = []
        for state in (question["before"], question["after"]):
            widget = MoveAWord(state["sentence"], places=state["places"], content=state["content"])
            widget.head = state.get("head", widget.head)
            pair.append({kind: scores[1, 0].item() for kind, scores in widget.scores().items()})
        moved = {kind for kind in KINDS if abs(pair[0][kind] - pair[1][kind]) > 1e-9}
        rights[-1] = (rights[-1], moved, pair[1]["alibi"] - pair[0]["alibi"])
    assert rights[0][:2] == ("sinusoidal and learned", {"sinusoidal", "learned"})
    assert rights[1][:2] == ("no positions only", {"sinusoidal", "learned", "rotary", "alibi"})
    assert rights[2][:2] == ("no", {"learned"})
    assert (rights[3][0], rights[3][2]) == ("by 2", pytest.approx(-2))


def test_words_stay_in_the_text_and_changes_are_said_in_few_letters(node):
    assert node["said"] == ["0", "0.250", "10⁻¹⁶", "0.001", "+3", "0", "−12"]
    assert [settled["places"] for settled in node["settled"]] == [[9, 63, 3], [5, 12, 20], [1, 2, 3]]
    assert [settled["shift"] for settled in node["settled"]] == [0, 0, 0], "nothing was before"
    assert [settled["places"][1] for settled in node["moved"][:2]] == [0, 63]
    assert node["moved"][2] == {"places": [7, 32, 40], "shift": 0}
    assert [settled["places"][0] for settled in node["together"]] == [0, 47, 47]
    assert [settled["shift"] for settled in node["together"]] == [-4, 43, 43]


# ---- The page, in Chromium ----------------------------------------------------------------------------------------


def word(page, number):
    return page.locator(".mw-word").nth(number)


def place_width(page, one=0, other=1):
    """How many pixels a place is wide: measured on two words that stand 8 apart."""
    left = "x => parseFloat(x.style.left)"
    return (word(page, other).evaluate(left) - word(page, one).evaluate(left)) / 8


def agrees(page, widget):
    """Assert that what the page shows are the numbers of the widget's Python twin."""
    scores, changes, ranges = widget.scores(), widget.changes(), widget.ranges()
    for kind in KINDS:
        plot = page.locator(f"[data-kind={kind}]")
        value = scores[kind][widget.query, widget.key].item()
        assert float(plot.locator("[data-score]").get_attribute("data-value")) == pytest.approx(value, abs=1e-9)
        assert float(plot.locator(".mw-title b").text_content().replace("−", "-")) == pytest.approx(value, abs=5.1e-4)
        change = page.locator(f"[data-change={kind}]")
        assert float(change.get_attribute("data-value")) == pytest.approx(changes[kind], abs=1e-9)
        least, most = ranges[kind]
        width = float(plot.locator(".mw-band").get_attribute("data-width"))
        assert width == pytest.approx((most - least).nan_to_num().max().item(), abs=1e-9)
    assert [int(place) for place in page.locator(".mw-word span").all_text_contents()] == widget.places


def test_the_page_shows_the_packages_numbers_through_every_change(visit):
    page, widget = visit(), MoveAWord()
    agrees(page, widget)
    slide(page, "together", 24)
    widget.places, widget.shift = [24, 32, 40], 20
    agrees(page, widget)
    assert page.locator(".mw-plot > .bw-good").all_text_contents() == ["stays"] * 3
    page.click("summary >> text=Loudness")
    for name, position, trait, value in [("content", 0, "content", 0.0), ("width", 2, "d_k", 8),
                                         ("base", 1, "base", 100.0), ("slope", 1, "head", 1)]:  # fmt: skip
        slide(page, name, position)
        setattr(widget, trait, value)
        agrees(page, widget)
    slide(page, "content", 4)
    widget.content = 1.0
    press(page, "pairing-interleaved")
    widget.pairing = "interleaved"
    agrees(page, widget)
    press(page, "key-2")
    widget.key = 2
    press(page, "query-2")
    widget.query, widget.key = 2, 1
    agrees(page, widget)
    page.select_option("[id$='-sentence']", "dog bites dog")
    widget.sentence, widget.shift = "dog bites dog", 0
    agrees(page, widget)
    press(page, "length-256")
    widget.length = 256
    agrees(page, widget)


@pytest.mark.parametrize("width", [1280, 360])
def test_a_word_is_dragged_and_walked(visit, width):
    page, widget = visit(width=width), MoveAWord()
    word(page, 0).scroll_into_view_if_needed()
    box, step = word(page, 0).bounding_box(), place_width(page)
    x, y = box["x"] + box["width"] / 2 + 3, box["y"] + box["height"] / 2  # not held in the very middle
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 20 * step, y + 30, steps=4)
    page.mouse.up()
    page.mouse.move(x, y)
    widget.places = [24, 12, 20]
    agrees(page, widget)
    word(page, 1).focus()
    for key, place in [
        ("ArrowRight", 13),
        ("PageUp", 21),
        ("ArrowLeft", 20),
        ("Home", 0),
        ("ArrowLeft", 0),
        ("End", 63),
    ]:
        page.keyboard.press(key)
        assert word(page, 1).get_attribute("aria-valuenow") == str(place)
        assert word(page, 1).evaluate("x => x === document.activeElement")
    widget.places = [24, 63, 20]
    agrees(page, widget)
    assert word(page, 1).get_attribute("aria-label") == "place of bites, asks"
    assert not hard_to_tap(page, ".mw-lane")
    assert not phone_faults(page)


def test_a_finger_drags_a_word_and_scrolls_the_page_past_it(visit):
    page = visit(width=360, has_touch=True)
    assert word(page, 0).evaluate("x => getComputedStyle(x).touchAction") == "pan-y"
    drag = """(x) => {
      const { left, top, width, height } = x.getBoundingClientRect();
      const [from, y] = [left + width / 2, top + height / 2];
      const fire = (kind, at) => x.dispatchEvent(new PointerEvent(kind, { bubbles: true, pointerId: 1,
        pointerType: "touch", isPrimary: true, clientX: at, clientY: y }));
      x.setPointerCapture = () => {}; // no finger is there
      fire("pointerdown", from); fire("pointermove", from + 60); fire("pointercancel", from + 60);
      fire("pointermove", from + 120);
    }"""
    word(page, 0).evaluate(drag)
    assert int(word(page, 0).locator("span").text_content()) == round(4 + 60 / place_width(page, 1, 2))


def test_beyond_the_table_there_is_no_learned_score(visit):
    page = visit()
    page.click("summary >> text=Loudness")
    press(page, "length-256")
    slide(page, "together", 100)
    learned = page.locator("[data-kind=learned]")
    assert learned.locator(".mw-title b").text_content() == "no row"
    assert learned.locator("[data-score]").count() == 0


def test_a_prediction_comes_before_the_answer(visit):
    page = visit("http")
    page.check("[id$='-predict']")
    assert not page.locator(".mw-plots").is_visible()
    for label in ("sinusoidal and learned", "no positions only", "no", "by 2"):
        page.click(f".bw-options button:text-is('{label}')")
        assert page.text_content(".bw-right").startswith(f"Yes: {label}.")
        assert page.locator(".mw-plots").is_visible()
        page.click(".bw-options button")
    assert "1 of 4" in page.text_content(".bw-question")
    page.click(".bw-options button >> nth=2")
    assert page.text_content(".bw-wrong").startswith("Not quite. The answer: sinusoidal and learned.")
    assert serious_findings(page, ".bw") == []


def test_the_small_form_shows_the_same(browser):
    page = browser.new_page()
    put(page, MoveAWord(compact=True))
    slide(page, "together", 24)
    widget = MoveAWord(compact=True, places=[24, 32, 40])
    widget.shift = 20
    for kind in ("none", "sinusoidal", "rotary", "alibi"):
        shown = page.locator(f"[data-score={kind}]").get_attribute("data-value")
        assert float(shown) == pytest.approx(widget.scores()[kind][1, 0].item(), abs=1e-9)
        assert page.locator(f"[data-change={kind}]").count() == 1
    assert page.locator("[data-kind]").count() == 4
    assert "moved by +20" in page.locator(".bw [role=status]").text_content()
    page.close()
