"""Laws of the mask builder: its masks, weights and leaks are those of the package and of torch."""

import itertools
import math
import random
import re

import pytest
import torch
import torch.nn.functional as F
from bs4 import BeautifulSoup
from website import put, slide

from attention_tutorial import (
    causal_mask,
    combine_masks,
    masked_softmax,
    padding_mask,
)
from attention_tutorial.widgets import MaskBuilder
from attention_tutorial.widgets.mask_builder import EMPTY, MASKS, SCORES, TASKS, USUAL, made_mask

NAMES = sorted({name for task in TASKS.values() for name in task["masks"]})


def rows(mask):
    return ["".join(str(int(cell)) for cell in row) for row in mask]


def by_hand(name, m, n, padding, window, first):
    """A named mask, cell by cell, from what the chapter says about it."""

    def is_allowed(i, j):
        place = i + (n - m)  # the queries are the newest
        past, real, same = j <= place, j not in padding, (place < first) == (j < first)
        hand = {
            "none": True,
            "causal": past,
            "one_too_far": j <= place + 1,
            "without_self": j < place,
            "upper_left": j <= i,
            "padding": real,
            "both_tokens": real and place not in padding,
            "causal_and_padding": past and real,
            "causal_or_padding": past or real,
            "window": place - window < j <= place,
            "block": same,
            "block_and_causal": same and past,
            "prefix": past or j < first,
        }
        assert name in hand, f"work out the mask {name!r} by hand here, from what the chapter says about it"
        return hand[name]

    return torch.tensor([[is_allowed(i, j) for j in range(n)] for i in range(m)])


def allowed(task, m, n, padding, first):
    """Which keys each task lets its queries see, and which queries' outputs are read."""
    read = torch.tensor([task == "translate" or i + n - m not in padding for i in range(m)])
    lawful = {
        "write": by_hand("causal_and_padding", m, n, padding, 1, first),
        "read": by_hand("padding", m, n, padding, 1, first),
        "translate": by_hand("padding", m, n, padding, 1, first),
        "pack": by_hand("block", m, n, [], 1, first),
        "answer": by_hand("prefix", m, n, [], 1, first),
    }[task]
    return lawful, read


def random_sizes(draw, task):
    n = draw.randint(1, 8)
    m = {"write": draw.randint(1, n), "translate": draw.randint(1, 8)}.get(task, n)
    padding = [] if task in ("pack", "answer") else sorted(draw.sample(range(n), draw.randint(0, n)))
    return {"m": m, "n": n, "padding": padding, "window": draw.randint(1, n), "first": draw.randint(1, max(1, n - 1))}


def random_states():
    """Yield states of every task and every answer to empty rows, with named and random masks and scores of any size."""
    draw = random.Random(0)
    for number, (task, empty) in enumerate(itertools.product(list(TASKS) * 12, EMPTY)):
        sizes = random_sizes(draw, task)
        m, n = sizes.pop("m"), sizes.pop("n")
        preset = draw.choice([*TASKS[task]["masks"], "hand", "hand"])
        if preset == "hand":
            share = draw.choice([0.2, 0.5, 0.9])
            mask = [[draw.random() < share for _ in range(n)] for _ in range(m)]
        else:
            mask = by_hand(preset, m, n, **sizes)
        largest = (3, 40, 1000)[number % 3]
        scores = [[round(draw.uniform(-largest, largest), 3) for _ in range(8)] for _ in range(8)]
        yield {"task": task, "preset": preset, "cells": rows(mask), "scores": scores, "empty": empty, **sizes}


STATES = list(random_states())
STROKES = [[[i, j], [r, c]] for i, j, r, c in itertools.product((0, 3, 7), (1, 4), (0, 2, 7), (0, 4, 5))]
SIZES = [random_sizes(random.Random(seed), task) for task in TASKS for seed in range(20)]

IN_NODE = """
const { states, sizes, first, strokes } = given;
const { tasks, masks: named } = first;
const made = states.map((given) => {
  const state = { ...first, ...given };
  const all = widget.audit(state);
  const offer = tasks.find((task) => task.name === state.task);
  const words = widget.labels(offer, all);
  return {
    ...all, judged: widget.verdict(state, all, words), words,
    told: all.allowed.map((row, i) => row.map((_, j) => widget.aboutCell(i, j, state, all, words))),
    lines: widget.describe(all, words), tiles: widget.aboutSpread(all), empty: widget.aboutEmptyRows(state, all),
    known: widget.recognise(state.cells, offer.masks.map((name) => named.find((mask) => mask.name === name)), all),
  };
});
const masks = sizes.map((one) => Object.fromEntries(named.map(({ name, rule }) => [name, widget.makeMask(rule, one)])));
return { made, masks, passed: strokes.map(([from, to]) => widget.between(from, to)) };
"""


@pytest.fixture(scope="module")
def node(run_in_node):
    """What the ES module computes and says in Node."""
    inputs = {"states": STATES, "sizes": SIZES, "first": MaskBuilder().state(), "strokes": STROKES}
    return run_in_node("mask_builder", IN_NODE, inputs)


@pytest.fixture
def pairs(node):
    """Each state with what the ES module made of it."""
    return list(zip(STATES, node["made"], strict=True))


def given(state):
    """A state's mask and scores, as tensors."""
    mask = torch.tensor([[cell == "1" for cell in row] for row in state["cells"]])
    m, n = mask.shape
    return mask, torch.tensor(state["scores"], dtype=torch.float64)[:m, :n]


def numbers(matrix):
    """A matrix from Node, where JSON's null stands for NaN."""
    return torch.tensor([[math.nan if x is None else x for x in row] for row in matrix], dtype=torch.float64)


# ---- The masks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_named_mask_is_what_the_chapter_says_in_python_and_in_the_browser(node, name):
    for sizes, masks in zip(SIZES, node["masks"], strict=True):
        if sizes["m"] > sizes["n"] and name in ("both_tokens", "block", "block_and_causal"):
            continue  # masks of self-attention only
        expected = by_hand(name, **sizes)
        assert torch.equal(torch.tensor(masks[name]), expected), sizes
        assert torch.equal(made_mask(name, **sizes), expected), sizes


def test_causal_padding_and_their_combination_are_the_packages_masks(node):
    for sizes, masks in zip(SIZES, node["masks"], strict=True):
        m, n, padding = sizes["m"], sizes["n"], sizes["padding"]
        ids = [[0 if j in padding else 7 for j in range(n)]]
        real = padding_mask(ids, pad_id=0)
        assert torch.equal(torch.tensor(masks["causal"]), causal_mask(m, n))
        assert torch.equal(torch.tensor(masks["padding"]), real[0, 0].expand(m, n))
        assert torch.equal(torch.tensor(masks["causal_and_padding"]), combine_masks(causal_mask(m, n), real)[0, 0])


def test_upper_left_is_torchs_own_flag(node):
    for sizes, masks in zip(SIZES, node["masks"], strict=True):
        m, n = sizes["m"], sizes["n"]
        zeros = torch.zeros(1, 1, m, 2), torch.zeros(1, 1, n, 2)
        weights = F.scaled_dot_product_attention(*zeros, torch.eye(n)[None, None], is_causal=True)
        assert torch.equal(torch.tensor(masks["upper_left"]), weights[0, 0] > 0)


def test_every_mask_is_offered_by_a_task():
    assert sorted(MASKS) == NAMES


def test_a_fast_stroke_passes_every_cell_on_its_way(node):
    for (start, end), passed in zip(STROKES, node["passed"], strict=True):
        way = [start, *passed]
        assert way[-1] == end
        assert all(max(abs(a - c), abs(b - d)) == 1 for (a, b), (c, d) in itertools.pairwise(way)), (
            "no cell is left out"
        )
        assert len(passed) == max(abs(end[0] - start[0]), abs(end[1] - start[1])), "and none is passed twice"


def test_a_mask_painted_by_hand_is_recognised(pairs):
    known = set()
    for state, made in pairs:
        mask, _ = given(state)
        sizes = {key: made[key] for key in ("m", "n", "padding", "window", "first")}
        same = [name for name in TASKS[state["task"]]["masks"] if torch.equal(by_hand(name, **sizes), mask)]
        assert made["known"] == (same[0] if same else "hand")
        known.add(made["known"])
    assert {"hand", "causal", "padding", "block", "prefix"} <= known


# ---- The weights --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", EMPTY)
def test_the_weights_are_those_of_the_package_and_of_torch(pairs, empty):
    empty_rows = 0
    for state, made in pairs:
        if state["empty"] != empty:
            continue
        mask, scores = given(state)
        expected = {
            "zeros": masked_softmax(scores, mask),
            "nan": torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1),
            "sentinel": torch.softmax(scores.masked_fill(~mask, -1e9), dim=-1),
        }[empty]
        assert torch.allclose(numbers(made["weights"]), expected, rtol=1e-6, atol=1e-6, equal_nan=True), state
        assert torch.equal(torch.tensor(made["emptyRows"]), ~mask.any(dim=-1))
        empty_rows += int((~mask.any(dim=-1)).sum())
    assert empty_rows >= 10


def test_nan_gets_as_far_as_in_torch(pairs):
    generator = torch.Generator().manual_seed(0)
    reached = 0
    for state, made in pairs:
        if state["task"] == "translate" or made["m"] != made["n"]:
            assert made["spread"]["second"] is None, "queries and keys of the next layer are not the same positions"
            continue
        if state["empty"] != "nan":
            continue
        mask, scores = given(state)

        def layer(x, scores, mask=mask):
            return torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1) @ x

        value = torch.randn(made["n"], 3, generator=generator).double().requires_grad_()
        first = layer(value, scores)
        second = layer(first, first @ first.mT)
        first[mask.any(dim=-1)].sum().backward()  # a loss that leaves the empty rows out
        spread = made["spread"]
        assert spread["output"] == first.isnan().any(dim=-1).tolist()
        assert spread["second"] == second.isnan().any(dim=-1).tolist()
        assert spread["gradients"] == value.grad.isnan().any(dim=-1).tolist()
        tiles = {tile["name"]: tile["lost"] for tile in made["tiles"]}
        assert tiles["second layer"] == spread["second"]
        reached += any(spread["output"])
    assert reached >= 5


def test_only_the_softmax_of_minus_infinity_gives_nan(pairs):
    for state, made in pairs:
        lost = any(
            itertools.chain(*(made["spread"][name] or [] for name in ("weights", "output", "second", "gradients")))
        )
        assert lost == (state["empty"] == "nan" and any(made["emptyRows"]))


# ---- Leaks --------------------------------------------------------------------------------------------------------


def test_a_leak_is_an_open_key_that_the_task_forbids_and_takes_its_weight(pairs):
    counted = 0
    for state, made in pairs:
        mask, _ = given(state)
        lawful, read = allowed(state["task"], made["m"], made["n"], made["padding"], made["first"])
        sees = mask | (~mask.any(dim=-1, keepdim=True) & (state["empty"] == "sentinel"))
        leaks = sees & ~lawful & read[:, None]
        assert torch.equal(torch.tensor(made["leaks"]), leaks), state
        assert torch.equal(torch.tensor(made["hidden"]), ~mask & lawful & read[:, None])
        taken = numbers(made["weights"]).masked_fill(~leaks, 0.0).sum(dim=-1)
        assert torch.allclose(torch.tensor(made["leaked"]).double(), taken)
        counted += int(leaks.sum())
    assert counted > 300


def test_the_judgement_follows_from_the_cells(pairs):
    kinds = set()
    for state, made in pairs:
        judged = made["judged"]
        leaks, hidden = (sum(itertools.chain(*made[name])) for name in ("leaks", "hidden"))
        empty = sum(made["emptyRows"])
        read = allowed(state["task"], made["m"], made["n"], made["padding"], made["first"])[1].any()
        expected = "leak" if leaks else "empty" if empty else "blind" if hidden else "fits" if read else "nothing"
        behind = state["padding"] == list(range(made["n"] - len(state["padding"]), made["n"]))
        assert behind or "comes after every word" not in judged["text"]
        assert judged["kind"] == expected
        count = {"leak": leaks, "empty": empty, "blind": hidden}.get(expected)
        assert count is None or str(count) in judged["headline"]
        masked = re.findall(r"(\d+) cells? (?:is|are) masked without need", f"{judged['headline']}. {judged['text']}")
        assert masked == [str(hidden)] * (hidden > 0), "said once, beside a leak or an empty row too"
        unpadded = "padding" in state["preset"] or state["preset"] == "both_tokens"
        assert ("No key is padded yet" in judged["text"]) == (unpadded and not state["padding"])
        if leaks:
            worst = max(range(made["m"]), key=lambda i: made["leaked"][i])
            assert f"“{made['words']['query'][worst]}” sees" in judged["text"]
            (share,) = re.findall(r"takes? ([\d.]+\d|\d) of its weight", judged["text"])
            assert float(share) == pytest.approx(made["leaked"][worst], abs=5.1e-4)
        kinds.add(expected)
    assert kinds == {"leak", "empty", "blind", "fits", "nothing"}


def test_of_one_key_nobody_says_all(pairs):
    sentences = [made["empty"] for _, made in pairs if made["n"] == 1 and any(made["emptyRows"])]
    assert sentences
    assert not [text for text in sentences if text.startswith("All")]


def test_each_task_has_one_of_its_masks_that_fits(pairs):
    for name, task in TASKS.items():
        lawful, read = allowed(name, task["m"], task["n"], task["padding"], 3)
        fitting = [
            mask
            for mask in task["masks"]
            if torch.equal(by_hand(mask, task["m"], task["n"], task["padding"], 2, 3)[read], lawful[read])
        ]
        assert fitting
        assert "none" not in fitting, "the reader begins with something to find"


def test_every_cell_is_told_with_its_numbers(pairs):
    for state, made in pairs:
        mask, _ = given(state)
        for i, row in enumerate(made["told"]):
            for j, told in enumerate(row):
                assert told["title"].endswith("allowed" if mask[i, j] else "masked")
                assert told["text"].startswith("A leak") == (made["leaks"][i][j] and not made["emptyRows"][i])
                numbers = re.findall(r"weight (\d\.\d+)|takes (\d\.\d+)", told["text"])
                for number in filter(None, itertools.chain(*numbers)):
                    assert float(number) == pytest.approx(made["weights"][i][j], abs=5.1e-4)


def test_mask_and_weights_can_be_read_as_text(pairs):
    for _, made in pairs:
        assert len(made["lines"]) == made["m"]
        for i, line in enumerate(made["lines"]):
            assert ("sees nothing" in line) == made["emptyRows"][i]
            assert ("Leak" in line) == any(made["leaks"][i])
            listed = line.split("Weights: ")[1].split(". Leak")[0]
            assert listed.count("NaN") == sum(weight is None for weight in made["weights"][i])


# ---- In Python ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("empty", EMPTY)
def test_python_has_the_mask_and_the_weights(task, empty):
    for name in TASKS[task]["masks"]:
        widget = MaskBuilder(task, name, empty=empty)
        m, n = TASKS[task]["m"], TASKS[task]["n"]
        assert torch.equal(widget.mask, by_hand(name, m, n, widget.padding, widget.window, widget.first))
        assert widget.mask.dtype == torch.bool
        some = widget.mask.any(dim=-1)
        expected = masked_softmax(torch.tensor(SCORES, dtype=torch.float64)[:m, :n], widget.mask)
        assert torch.equal(widget.weights[some], expected[some])
        row = {"zeros": 0.0, "nan": torch.nan, "sentinel": 1 / n}[empty]
        assert torch.allclose(widget.weights[~some], torch.tensor(row).double(), equal_nan=True)


def test_sizes_follow_from_what_is_given():
    assert MaskBuilder("write", m=2).mask.shape == (2, 5), "two new queries and a cache"
    assert MaskBuilder("read", n=3).mask.shape == (3, 3)
    assert MaskBuilder("translate", m=7, n=2).mask.shape == (7, 2)
    assert torch.equal(MaskBuilder("write", causal_mask(2, 5)).mask, causal_mask(2, 5))
    assert MaskBuilder("write", causal_mask(2, 5)).preset == "hand"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"task": "sing"}, ValueError, "task must be one of 'write', .*; got 'sing'"),
        ({"mask": "prefix"}, ValueError, "mask must be one of 'none', .*; got 'prefix'"),
        ({"empty": "none"}, ValueError, "empty must be one of 'zeros', 'nan', 'sentinel'; got 'none'"),
        ({"mask": torch.zeros(2, 2)}, TypeError, "mask must be a name or a boolean tensor.*; got torch.float32"),
        ({"mask": [[True]]}, TypeError, "mask must be a name or a boolean tensor.*; got list"),
        ({"mask": torch.ones(2, dtype=torch.bool)}, ValueError, r"mask must have two axes \(m, n\); got shape \(2,\)"),
        ({"mask": causal_mask(3), "m": 2}, ValueError, r"m and n must be those of the mask, \(3, 3\); got m=2"),
        ({"mask": causal_mask(9)}, ValueError, "m must be at most 8; got 9"),
        ({"m": 4, "n": 3}, ValueError, "m must be at most n; got m=4, n=3"),
        ({"task": "read", "m": 2, "n": 5}, ValueError, "m must equal n; got m=2, n=5"),
        ({"padding": [5]}, ValueError, r"padding must hold positions from 0 to 4; got \[5\]"),
        ({"task": "pack", "padding": [1]}, ValueError, r"the task 'pack' has no padding; got padding=\[1\]"),
        ({"padding": 5}, TypeError, "padding must be a sequence of positions; got 5"),
        ({"padding": [True]}, ValueError, r"padding must hold positions from 0 to 4; got \[True\]"),
        ({"n": 3, "m": 3, "window": 4}, ValueError, "window must be at most 3 with so many keys; got 4"),
        ({"task": "pack", "m": 3, "n": 3, "first": 3}, ValueError, "first must be at most 2 with so many keys; got 3"),
    ],
)
def test_a_mistake_is_explained(arguments, error, message):
    with pytest.raises(error, match=message):
        MaskBuilder(**arguments)


def test_the_html_holds_the_weights_as_a_table():
    widget = MaskBuilder("translate", "padding")
    soup = BeautifulSoup(widget.to_html(), "html.parser")
    assert [th.text for th in soup.select("thead th")] == ["le", "chat", "noir", "dort", "pad", "pad"]
    assert [th.text for th in soup.select("tbody th")] == ["<start>", "the", "black", "cat"]
    cells = [[td.text for td in tr.select("td")] for tr in soup.select("tbody tr")]
    assert torch.equal(torch.tensor([["×" not in cell for cell in row] for row in cells]), widget.mask)
    shown = torch.tensor([[float(cell.strip("× ")) for cell in row] for row in cells]).double()
    assert torch.allclose(shown, widget.weights, atol=5.1e-4)
    assert len(widget.to_html()) < 12_000, "a chapter's file has to stay small"


# ---- The page, in Chromium ----------------------------------------------------------------------------------------


def cell(i, j):
    return f".mb-cell[data-row='{i}'][data-column='{j}']"


def mask_on(page):
    cells = page.eval_on_selector_all(
        ".mb-cell",
        "all => all.map(c => [c.dataset.row, c.dataset.column, c.ariaPressed ?? c.getAttribute('aria-pressed')])",
    )
    m, n = (1 + max(int(cell[axis]) for cell in cells) for axis in (0, 1))
    assert len(cells) == m * n
    return torch.tensor([cell[2] == "true" for cell in cells]).reshape(m, n)


def weights_on(page):
    values = page.eval_on_selector_all("[data-matrix=weights]", "all => all.map(c => c.dataset.value)")
    return torch.tensor([float(value) for value in values], dtype=torch.float64).reshape(mask_on(page).shape)


def agrees(page, widget):
    """Assert that the page shows the mask and the weights of the widget's Python twin."""
    assert torch.equal(mask_on(page), widget.mask)
    assert torch.allclose(weights_on(page), widget.weights, rtol=1e-6, atol=1e-6, equal_nan=True)


def choose(page, name):
    page.click(f"[data-mask={name}]")
    assert page.get_attribute(f"[data-mask={name}]", "aria-pressed") == "true"


def test_the_page_shows_torchs_numbers_through_every_control(visit):
    page = visit("http")
    agrees(page, MaskBuilder())
    choose(page, "causal")
    agrees(page, MaskBuilder(mask="causal"))
    page.click(cell(1, 2))
    mask = causal_mask(5)
    mask[1, 2] = True
    agrees(page, MaskBuilder(mask=mask))
    assert page.get_attribute("[data-mask=causal]", "aria-pressed") == "false"
    choose(page, "window")
    slide(page, "window", 3)
    agrees(page, MaskBuilder(mask="window", window=3))
    slide(page, "n", 8)
    agrees(page, MaskBuilder(mask="window", window=3, n=8))
    slide(page, "m", 2)
    agrees(page, MaskBuilder(mask="window", window=3, m=2, n=8))
    choose(page, "upper_left")
    agrees(page, MaskBuilder(mask="upper_left", m=2, n=8))
    choose(page, "causal_and_padding")
    page.check("[id$='-padding-0']")
    agrees(page, MaskBuilder(mask="causal_and_padding", m=2, n=8, padding=[0]))
    page.select_option("[id$='-task']", "read")
    choose(page, "both_tokens")
    for empty in EMPTY:
        page.select_option("[id$='-empty']", empty)
        agrees(page, MaskBuilder("read", "both_tokens", empty=empty))
        assert page.locator(".mb-spread li").count() == (4 if empty == "nan" else 0)


def test_a_drag_paints_what_it_passes_and_nothing_after(visit):
    page = visit()
    centre = {}
    for j in range(1, 5):
        box = page.locator(cell(0, j)).bounding_box()
        centre[j] = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*centre[1])
    page.mouse.down()
    page.mouse.move(*centre[3])  # in one leap
    page.mouse.up()
    page.mouse.move(*centre[4], steps=4)
    assert rows(mask_on(page)) == ["10001", *["11111"] * 4]
    page.keyboard.press("Space")  # the focus is on the first cell of the drag
    assert rows(mask_on(page))[0] == "11001"


@pytest.mark.parametrize("width", [1280, 360])
def test_the_grid_stands_still_while_it_is_painted(visit, width):
    page = visit(width=width)
    page.add_style_tag(content="html { scroll-behavior: auto !important; }")
    page.locator(cell(4, 0)).scroll_into_view_if_needed()

    def place():
        return page.locator(".mb-mask").bounding_box()

    for mask in ("causal", "window"):
        page.locator(f"[data-mask={mask}]").evaluate("chip => chip.click()")  # without scrolling to it
        first = place()
        box = page.locator(cell(1, 1)).bounding_box()
        page.mouse.move(box["x"] + 20, box["y"] + 2)
        page.mouse.down()
        for j in range(2, 5):
            page.mouse.move(page.locator(cell(1, j)).bounding_box()["x"] + 20, box["y"] + 2)
            assert place() == first
        page.mouse.up()
        page.keyboard.press("ArrowDown")
        assert place() == first


def finger(page, *places):
    """Put a finger on a cell, move it over others and lift it."""
    touch = page.context.new_cdp_session(page)
    points = []
    for i, j in places:
        box = page.locator(cell(i, j)).bounding_box()
        points.append({"x": box["x"] + 20, "y": box["y"] + 20})
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [points[0]]})
    for point in points[1:]:
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_finger_that_goes_sideways_paints(visit):
    page = visit(width=360, has_touch=True)
    page.locator(cell(4, 0)).scroll_into_view_if_needed()
    finger(page, (0, 1), (0, 2), (0, 4), (3, 4))
    assert rows(mask_on(page)) == ["10000", "11110", "11110", "11110", "11111"]


def test_a_finger_that_goes_down_scrolls_and_paints_nothing(visit):
    page = visit(width=360, has_touch=True)
    page.locator(cell(4, 0)).scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    finger(page, (4, 1), (3, 1), (2, 1), (1, 1), (0, 1))
    page.wait_for_function("(before) => scrollY !== before", arg=before)
    assert rows(mask_on(page)) == ["11111"] * 5


def test_a_finger_turns_a_cell_once(visit):
    page = visit(width=360, has_touch=True)
    page.tap(cell(0, 1))
    assert rows(mask_on(page)) == ["10111", *["11111"] * 4]
    page.tap(cell(0, 1))
    assert rows(mask_on(page)) == ["11111"] * 5


def test_the_grid_is_one_stop_and_shift_with_arrows_paints(visit):
    page = visit()
    page.focus(cell(0, 0))
    for key in ("ArrowRight", "Space", "Shift+ArrowRight", "Shift+ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert rows(mask_on(page)) == ["10001", "11101", "11111", "11111", "11111"]
    assert "Query “the”, key “sat”: masked" in page.text_content(".bw-panel")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "bw-scroll", "the weights, beside it"


def test_cells_painted_to_the_causal_mask_are_called_so(visit):
    page = visit()
    for i in range(5):
        for j in range(i + 1, 5):
            page.click(cell(i, j))
    assert page.get_attribute("[data-mask=causal]", "aria-pressed") == "true"
    assert "mb-fits" in page.get_attribute(".mb-verdict", "class")


def test_a_leak_is_said_and_marked(visit):
    page = visit()
    choose(page, "one_too_far")
    assert "Leak: 4 cells" in page.text_content(".mb-verdict")
    assert "the word to be predicted" in page.text_content(".mb-verdict")
    assert page.locator(".mb-cell.mb-leaks").count() == 4
    page.hover(cell(1, 2))
    weight = MaskBuilder(mask="one_too_far").weights[1, 2].item()
    assert f"It takes {weight:.3f} of the weight of “the”" in page.text_content(".bw-panel")
    leaked = page.eval_on_selector_all("[data-leaked]", "all => all.map(c => Number(c.dataset.leaked))")
    expected = [*MaskBuilder(mask="one_too_far").weights.diagonal(1).tolist(), 0.0]
    assert leaked == pytest.approx(expected, abs=1e-9)


def test_a_cell_closed_without_need_is_marked_beside_a_leak(visit):
    page = visit()
    page.select_option("[id$='-task']", "translate")
    choose(page, "causal")
    verdict = page.text_content(".mb-verdict")
    assert "Leak: 3 cells" in verdict
    assert "1 cell is masked without need" in verdict
    signs = page.eval_on_selector_all(".mb-cell", "all => all.map(c => c.textContent || '.').join('')")
    assert signs == "...○××" + "....××" + "....!×" + "....!!"
    assert page.get_attribute(cell(0, 3), "aria-label") == "query <start>, key dort: masked without need"


def test_a_mask_for_padding_pads_nothing_by_itself(visit):
    page = visit()
    for name in ("padding", "causal_or_padding", "causal_and_padding"):
        choose(page, name)
        assert page.locator(".bw-boxes input:checked").count() == 0
        assert "No key is padded yet" in page.text_content(".mb-verdict")
    page.check("[id$='-padding-4']")
    assert "No key is padded yet" not in page.text_content(".mb-verdict")
    agrees(page, MaskBuilder(mask="causal_and_padding", padding=[4]))


def test_a_padded_key_is_called_so_in_its_box_and_in_the_grids(visit):
    page = visit()
    page.select_option("[id$='-task']", "translate")
    assert page.locator(".bw-boxes label").all_text_contents() == [
        "le (1)", "chat", "noir", "dort", "sur → pad", "le (6) → pad"]  # fmt: skip
    for grid in page.locator(".mb-stage table").all():
        assert grid.locator("th.key").all_text_contents() == ["le", "chat", "noir", "dort", "pad", "pad"]


def test_mask_and_weights_stand_side_by_side_in_equal_columns(visit):
    page = visit("http")
    for task in TASKS:
        page.select_option("[id$='-task']", task)
        choose(page, "causal")
        mask, weights = (box.bounding_box() for box in page.locator(".mb-box").all())
        assert mask["y"] == weights["y"]
        assert mask["x"] + mask["width"] < weights["x"]
        for grid in page.locator(".mb-stage table").all():
            widths = grid.locator("th.key").evaluate_all("all => all.map(th => th.getBoundingClientRect().width)")
            assert max(widths) - min(widths) < 0.5
            assert min(widths) >= (44 if len(widths) < 6 else 40)


def test_one_button_empties_a_row_and_opens_it_again(visit):
    page = visit()
    choose(page, "causal")
    page.select_option("[id$='-empty']", "nan")
    page.click("[id$='-row']")
    assert rows(mask_on(page)) == ["10000", "11000", "00000", "11110", "11111"]
    counts = page.eval_on_selector_all("[data-spread]", "all => all.map(t => [t.dataset.spread, t.dataset.count])")
    assert counts == [["weights", "1"], ["output", "1"], ["second layer", "5"], ["gradients of the values", "5"]]
    assert "NaN" in page.text_content("[data-matrix=weights][data-row='2'][data-column='0']")
    page.click("[id$='-row']")
    agrees(page, MaskBuilder(mask="causal"))


def test_to_start_again_is_to_start_with_everything(visit):
    page = visit()
    page.select_option("[id$='-empty']", "nan")
    slide(page, "window", 4)
    page.check("[id$='-padding-2']")
    page.click("[id$='-reset']")
    agrees(page, MaskBuilder())
    assert page.input_value("[id$='-empty']") == "zeros"
    assert page.input_value("input[id$='-window']") == str(USUAL["window"])


def test_lengths_are_cut_to_the_next_tasks_size(visit):
    page = visit()
    page.select_option("[id$='-task']", "pack")
    slide(page, "n", 8)
    slide(page, "first", 7)
    page.select_option("[id$='-task']", "answer")
    assert page.input_value("[id$='-first']") == "5"
    assert page.text_content(".mb-verdict").startswith("✗Leak"), "the last word is not part of the question"


# ---- The small form, which chapter 5 opens with ---------------------------------------------------------------------


def test_the_small_form_is_for_writing_and_its_three_masks():
    assert MaskBuilder(compact=True).few == ["none", "one_too_far", "causal"]
    assert MaskBuilder().few == []
    for arguments in (("read",), ("write", "window"), ("write", causal_mask(5))):
        with pytest.raises(
            ValueError, match=r"compact form has the task 'write' and the masks none, one_too_far, causal"
        ):
            MaskBuilder(*arguments, compact=True)


def test_the_small_form_judges_its_masks(browser):
    page = browser.new_page()
    put(page, MaskBuilder(compact=True))
    for name, sentence in (
        ("one_too_far", "Leak: 4 cells. “the” gives 0.68"),
        ("causal", "This mask fits the task"),
        ("none", "Leak: 10 cells. “<start>” gives 0.75"),
    ):
        choose(page, name)
        assert sentence in page.locator(".mb-verdict").first.inner_text().replace("\n", " ")
        values = page.eval_on_selector_all("[data-matrix=weights]", "all => all.map(c => Number(c.dataset.value))")
        assert values == pytest.approx(MaskBuilder("write", name).weights.flatten().tolist(), abs=1e-6)
    page.close()
