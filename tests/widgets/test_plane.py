"""Laws of the plane: weights and outputs are PyTorch's, outputs stay among the values, and hands move all of it."""

import math

import numpy as np
import pytest
import torch
from bs4 import BeautifulSoup
from website import phone_faults, press, put, serious_findings

from attention_tutorial.data.examples import THE_CAT
from attention_tutorial.widgets import AttentionPlane

POWERS = {"none": 0.0, "sqrt(d_k)": 0.5, "d_k": 1.0}


def oracle(state):
    """Compute output and weights of a state with PyTorch's softmax alone."""
    query, keys, values = (torch.tensor(state[name], dtype=torch.float64) for name in ("query", "keys", "values"))
    scores = keys @ query / 2.0 ** POWERS[state["divisor"]]
    scores[state["masked"]] = -torch.inf
    weights = torch.softmax(scores, dim=0).nan_to_num()  # nothing is left: zeros
    return weights @ values, weights


def random_states():
    """States that a hand could reach: points within the limits, any words masked."""
    generator = np.random.default_rng(3)
    states = [AttentionPlane(word, divisor=divisor).state() for word in ("sat", "on", "the") for divisor in POWERS]
    for number in range(60):
        state = AttentionPlane(divisor=[*POWERS][number % 3]).state()
        state["query"] = generator.uniform(-1.5, 4.5, 2).round(2).tolist()
        state["keys"] = generator.uniform(-1.5, 4.5, (6, 2)).round(2).tolist()
        state["values"] = generator.uniform(-0.25, 1.25, (6, 2)).round(2).tolist()
        state["masked"] = [j for j in range(6) if generator.random() < [0, 0.3, 0.8, 1][number % 4]]
        state["word"] = number % 6
        states.append(state)
    return states


# ---- The class ----------------------------------------------------------------------------------------------------


def test_it_begins_with_the_numbers_of_chapter_2():
    for word, key in (("sat", "cat"), ("on", "mat")):
        output, weights = AttentionPlane(word).attend()
        assert weights[THE_CAT.words.index(key)].item() == pytest.approx(math.exp(8**0.5) / (math.exp(8**0.5) + 5))
        whole = weights @ (THE_CAT.X @ THE_CAT.W_V)
        assert torch.allclose(output, whole[:2]), "what is left out changes nothing of the rest"
    assert AttentionPlane("the").attend()[1].tolist() == pytest.approx([1 / 6] * 6), "who asks nothing gets the average"


def test_the_class_computes_what_torch_does():
    for state in random_states():
        widget = AttentionPlane(divisor=state["divisor"])
        for name in ("query", "keys", "values", "masked"):
            setattr(widget, name, state[name])
        for actual, expected in zip(widget.attend(), oracle(state), strict=True):
            assert torch.allclose(actual, expected, atol=1e-12)


def test_the_html_holds_keys_weights_and_values():
    soup = BeautifulSoup(AttentionPlane("on", masked=[5]).to_html(), "html.parser")
    assert soup.caption.text == "A query (animal 0.000, place 4.000) among six words. Output: furry 0.200, flat 0.000."
    rows = [[cell.text for cell in row.select("th, td")] for row in soup.select("tbody tr")]
    assert rows[1] == ["cat", "1.000", "0.000", "0.200", "1.000", "0.000"]
    assert rows[5] == ["mat", "0.000", "1.000", "0.000", "0.000", "1.000"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"asks": "dog"}, ValueError, "asks must be one of 'the', 'cat', .*; got 'dog'"),
        ({"divisor": "2"}, ValueError, "divisor must be one of 'none', .*; got '2'"),
        ({"masked": [6]}, ValueError, r"masked must hold positions from 0 to 5; got \[6\]"),
    ],
)
def test_a_mistake_is_explained(arguments, error, message):
    with pytest.raises(error, match=message):
        AttentionPlane(**arguments)


# ---- The maths, in Node -------------------------------------------------------------------------------------------

IN_NODE = """
const { states, rubbish, drawings } = given;
return {
  made: states.map((state) => ({
    ...widget.compute(widget.settle(state)),
    hull: widget.hull(state.values.filter((_, j) => !state.masked.includes(j))),
    foot: widget.footOf(state.keys[state.word], state.query),
    told: widget.arithmetic(state, widget.compute(state), state.word),
  })),
  settled: rubbish.map(widget.settle),
  boxes: drawings.map((all) => widget.placeLabels(all, 320, 240)),
  beside: widget.placeLabels([{ at: [160, 60], radius: 8, width: 40 }], 320, 240, [[150, 70], [140, 80], [130, 90]]),
  clusters: widget.clustersOf([[0, 0], [100, 0], [3, 4], [0, 12], [0, 13], [101, 1]]),
};
"""

RUBBISH = [
    {"query": ["four", None]},
    {"query": [1e300, -1e300], "keys": [[9, 9]], "values": "nothing"},
    {"divisor": "half", "masked": [9, -1, 1, 1], "word": 2.5},
]


def drawings():
    """Seven labelled points each, anywhere in a drawing of 320 by 240 pixels."""
    generator = np.random.default_rng(5)
    for _ in range(40):
        places = generator.uniform([10, 10], [310, 230], (7, 2)).round(1).tolist()
        yield [{"at": at, "radius": 6, "width": 30 + 5 * i} for i, at in enumerate(places)]


@pytest.fixture(scope="module")
def node(run_in_node):
    """What the ES module computes and says in Node."""
    rubbish = [{**AttentionPlane().state(), **wrong} for wrong in RUBBISH]
    return run_in_node("plane", IN_NODE, {"states": random_states(), "rubbish": rubbish, "drawings": [*drawings()]})


def test_the_browsers_weights_and_outputs_are_torchs(node):
    for state, made in zip(random_states(), node["made"], strict=True):
        output, weights = oracle(state)
        assert made["weights"] == pytest.approx(weights.tolist(), abs=1e-12)
        assert made["output"] == pytest.approx(output.tolist(), abs=1e-12)


def inside(point, corners):
    """Whether a point is in a convex area with these corners, which may be a line or a single point."""
    if len(corners) == 1:
        return math.dist(point, corners[0]) < 1e-9
    turns = []
    for (ax, ay), (bx, by) in zip(corners, [*corners[1:], corners[0]], strict=True):
        turns.append((bx - ax) * (point[1] - ay) - (by - ay) * (point[0] - ax))
    return min(turns) >= -1e-9


def test_the_output_is_within_the_hull_of_the_values_that_are_open(node):
    for state, made in zip(random_states(), node["made"], strict=True):
        opened = [value for j, value in enumerate(state["values"]) if j not in state["masked"]]
        assert all(corner in opened for corner in made["hull"])
        assert all(inside(value, made["hull"]) for value in opened), "it is the hull of all"
        if opened:
            assert inside(made["output"], made["hull"])


def test_the_foot_of_a_key_is_where_its_score_says(node):
    """The dot product is the length of the query times how far the key reaches along it."""
    for state, made in zip(random_states(), node["made"], strict=True):
        (a, b), key = state["query"], state["keys"][state["word"]]
        if made["foot"] is None:
            assert a == b == 0
            continue
        (x, y) = made["foot"]
        assert a * y - b * x == pytest.approx(0, abs=1e-9), "on the line of the query"
        assert a * (key[0] - x) + b * (key[1] - y) == pytest.approx(0, abs=1e-9), "at a right angle"
        assert a * x + b * y == pytest.approx(made["raw"][state["word"]], abs=1e-9)


def number(text):
    """Read a number as it is shown, with a power of ten where it has one."""
    digits, _, power = text.replace("−", "-").partition(" · 10")
    return float(digits) * 10 ** int(power.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")) or 0)


def test_the_arithmetic_ends_in_the_numbers_that_it_explains(node):
    for state, made in zip(random_states(), node["made"], strict=True):
        word, told = state["word"], {line["name"]: line for line in made["told"]}
        assert [*told] == ["qᵀk", "score", "e", "weight"]
        end = {name: line["sum"].rsplit("= ", 1)[-1] for name, line in told.items()}
        assert number(end["qᵀk"]) == pytest.approx(made["raw"][word], abs=5.1e-3)
        if word in state["masked"]:
            assert told["score"]["sum"].startswith("−∞") and told["e"]["sum"] == "0"
            continue
        assert number(end["score"]) == pytest.approx(made["scores"][word], abs=5.1e-3)
        assert number(told["e"]["power"]) == pytest.approx(made["scores"][word], abs=5.1e-3)
        assert number(end["e"]) == pytest.approx(math.exp(made["scores"][word]), rel=0.06, abs=5.1e-3)
        assert number(end["weight"]) == pytest.approx(made["weights"][word], rel=0.06, abs=5.1e-3)


def test_of_rubbish_a_state_is_left(node):
    first = AttentionPlane().state()
    words, limits, other = node["settled"]
    assert words["query"] == [0, 0]
    assert limits["query"] == [4.5, -1.5]
    assert limits["keys"] == [[4.5, 4.5], *first["keys"][1:]] and limits["values"] == first["values"]
    assert (other["divisor"], other["masked"], other["word"]) == ("none", [1], 0)


def test_labels_cover_no_other_and_stay_in_the_drawing(node):
    for boxes in node["boxes"]:
        for i, one in enumerate(boxes):
            assert 0 <= one["left"] <= 320 - one["width"] and 0 <= one["top"] <= 240 - one["height"]
            for other in boxes[:i]:
                apart = [one[s] + one[w] <= other[s] or other[s] + other[w] <= one[s]
                         for s, w in (("left", "width"), ("top", "height"))]  # fmt: skip
                assert any(apart), (one, other)
    (beside,) = node["beside"]
    assert beside["left"] >= 160 or beside["top"] + beside["height"] <= 60, "not on the arrow that leads to its point"
    assert node["clusters"] == [[0, 2, 3], [1, 5], [4]]


# ---- Hands, in Chromium -------------------------------------------------------------------------------------------


@pytest.fixture
def open_plane(pages):
    """Return a way to put the plane on a page of its own; no script may fail."""
    opened = []

    def show(width=1280, **options):
        opened.append(pages.take(viewport={"width": width, "height": 900}, **options))
        put(opened[-1], AttentionPlane())
        return opened[-1]

    yield show
    failures = [what for page in opened for kind, what in page.heard if kind in ("failure", "error")]
    for page in opened:
        pages.give_back(page)
    assert failures == []


def state_of(page):
    """Read the state of the widget from what it says of its points."""
    found = page.evaluate("""() => {
      const all = (part) => [...document.querySelectorAll(part)];
      const said = Object.fromEntries(all("[role=slider]").map((x) => [x.ariaLabel, x.ariaValueText]));
      const masked = all("[id*='-mask-']").flatMap((x, j) => x.ariaPressed === "true" ? [j] : []);
      return { said, masked, divisor: all("[id*='-divisor-'][aria-pressed=true]")[0].id.split("-divisor-")[1] };
    }""")
    said = {of: [float(part.split()[1].replace("−", "-")) for part in text.split(", ")]
            for of, text in found.pop("said").items()}  # fmt: skip
    names = ("the (1)", "cat", "sat", "on", "the (5)", "mat")
    points = {f"{kind}s": [said[f"{kind} of {name}"] for name in names] for kind in ("key", "value")}
    return {"query": said["query"], **points, **found}


def handle(page, label):
    return page.locator(f"[role=slider][aria-label='{label}']")


def agrees(page):
    """Assert that the weights and the output on the page are PyTorch's; return the state that they are of."""
    state = state_of(page)
    output, weights = oracle(state)
    told = page.eval_on_selector_all("[data-weight]", "all => all.map(x => Number(x.dataset.weight))")
    assert told == pytest.approx(weights.tolist(), abs=1e-9)
    title = page.locator(".pl-title").nth(1).text_content()
    if len(state["masked"]) < 6:
        said = [float(part.replace("−", "-")) for part in title.split("(")[1].split(")")[0].split(", ")]
        assert said == pytest.approx(output.tolist(), abs=5.1e-3)
    return state


def drag(page, label, by):
    """Drag a point with the mouse, held a little beside its middle."""
    box = handle(page, label).bounding_box()
    x, y = box["x"] + box["width"] / 2 + 3, box["y"] + box["height"] / 2 - 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + by[0], y + by[1], steps=4)
    page.mouse.up()
    page.mouse.move(x, y)


def pixels(page, label, axis=0):
    """How many pixels a unit is: measured between two points that are one apart."""
    lefts = [handle(page, name).evaluate("x => parseFloat(x.style.left)") for name in label]
    return lefts[1] - lefts[0]


def test_a_mouse_moves_the_query_and_every_point(open_plane):
    page = open_plane()
    first = agrees(page)
    assert first["query"] == [4, 0] and page.text_content("[id$='-mask-1']") == "cat"
    unit = pixels(page, ["key of mat", "key of cat"])
    drag(page, "query", (-2 * unit, -3 * unit))
    assert agrees(page)["query"] == pytest.approx([2, 3], abs=0.02)
    assert page.locator("[id*='-asks-'][aria-pressed=true]").count() == 0, "nobody's query any more"
    drag(page, "key of cat", (unit, -unit))
    drag(page, "value of mat", (30, 20))
    moved = agrees(page)
    assert moved["keys"][1] == pytest.approx([2, 1], abs=0.02)
    assert moved["values"][5] != first["values"][5] and moved["values"][:5] == first["values"][:5]
    drag(page, "query", (4000, 4000))
    assert agrees(page)["query"] == [4.5, -1.5], "it stays in the plane"
    press(page, "reset")
    assert agrees(page) == first


def test_a_press_on_several_at_one_place_takes_the_chosen_one(open_plane):
    page = open_plane()
    page.focus("[id$='-mask-3']")
    unit = pixels(page, ["key of mat", "key of cat"])
    x, y = (handle(page, "key of on").evaluate(f"x => x.getBoundingClientRect().{side}") + 22 for side in ("x", "y"))
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - unit, y, steps=3)
    page.mouse.up()
    assert agrees(page)["keys"] == [[0, 0], [1, 0], [0, 0], pytest.approx([-1, 0], abs=0.02), [0, 0], [0, 1]]
    assert page.text_content(".bw-panel .bw-title").startswith("on: weight")


def test_arrow_keys_move_what_has_the_focus(open_plane):
    page = open_plane()
    handle(page, "query").focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowLeft", "Home", "Control+ArrowUp"):
        page.keyboard.press(key)
    assert agrees(page)["query"] == [3.75, 0.5]
    assert handle(page, "query").evaluate("x => x === document.activeElement")
    page.focus("[id$='-mask-1']")
    for key in ("ArrowRight", "End"):  # along the words
        page.keyboard.press(key)
    handle(page, "value of mat").focus()
    page.keyboard.press("ArrowRight")
    assert agrees(page)["values"][5] == [0.05, 1]
    stops = page.eval_on_selector_all(".pl-handle[tabindex='0']", "all => all.map(x => x.ariaLabel)")
    assert stops == ["key of mat", "query", "value of mat"]


def test_a_finger_drags_the_query_and_the_page_does_not_scroll_with_it(open_plane):
    page = open_plane(width=360, has_touch=True)
    handle(page, "query").scroll_into_view_if_needed()
    box = handle(page, "query").bounding_box()
    x, y, unit = box["x"] + 22, box["y"] + 22, pixels(page, ["key of mat", "key of cat"])
    touch, before = page.context.new_cdp_session(page), page.evaluate("scrollY")
    for kind, points in (("touchStart", [(x, y)]), *(("touchMove", [(x, y - unit * n / 2)]) for n in (1, 2, 3, 4)),
                         ("touchEnd", [])):  # fmt: skip
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": a, "y": b} for a, b in points]})
    assert agrees(page)["query"] == pytest.approx([4, 2], abs=0.05)
    assert page.evaluate("scrollY") == before
    assert not phone_faults(page)


def test_words_are_masked_until_none_is_left_and_come_back(open_plane):
    page = open_plane()
    press(page, "mask-1")
    assert agrees(page)["masked"] == [1]
    assert "−∞ in place of 2.83" in page.text_content(".bw-panel")
    for j in (0, 2, 3, 4, 5):
        press(page, f"mask-{j}")
    assert agrees(page)["masked"] == [0, 1, 2, 3, 4, 5]
    assert "nothing is left to attend to" in page.text_content(".bw-panel")
    assert page.locator(".pl-output").count() == 0
    assert serious_findings(page, ".bw", thorough=False) == []
    press(page, "reset")
    assert agrees(page)["masked"] == []


def test_the_divisor_sharpens_and_flattens(open_plane):
    page, largest = open_plane(), {}
    for name in ("none", "sqrt(d_k)", "d_k"):
        page.click(f"[id$='-divisor-{name}']")
        assert agrees(page)["divisor"] == name
        largest[name] = float(page.locator("[data-weight]").nth(1).get_attribute("data-weight"))
    assert largest["none"] > largest["sqrt(d_k)"] > largest["d_k"]


TIP = "document.querySelector('.pl-query').getAttribute('x2')"


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_the_arrow_swings_to_who_asks_and_the_numbers_are_there_at_once(open_plane, motion):
    page = open_plane(reduced_motion=motion)
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    before = page.evaluate(TIP)
    page.click("[id$='-asks-3']")
    assert agrees(page)["query"] == [0, 4]
    on_its_way = page.evaluate(TIP)
    page.clock.run_for(1000)
    there = page.evaluate(TIP)
    assert there != before
    assert on_its_way == (there if motion == "reduce" else before)
    handle(page, "query").focus()
    page.keyboard.press("ArrowRight")
    drawn = handle(page, "query").evaluate("x => parseFloat(x.style.left)")
    assert float(page.evaluate(TIP)) == pytest.approx(drawn), "under a hand it does not lag"


def test_on_a_slide_of_another_size_a_point_follows_the_hand(open_plane):
    page = open_plane()
    page.evaluate(
        "document.querySelector('[data-widget]').style.cssText = 'transform: scale(.5); transform-origin: 0 0'"
    )
    unit = pixels(page, ["key of mat", "key of cat"])
    box = handle(page, "query").bounding_box()
    x, y = box["x"] + 11, box["y"] + 11
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - unit / 2, y, steps=3)
    page.mouse.up()
    assert agrees(page)["query"] == pytest.approx([3, 0], abs=0.05)
