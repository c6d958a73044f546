"""Laws of the widgets: what a cell leaves behind, that the browser's numbers are the package's, and the page itself.

The maths of a widget's ES module is tested in Node against the package; the widget as a reader has it, in Chromium on a
page that Jupyter Book built, over http and from a file (tests/website.py).
"""

import math
import re

import pytest
import torch
from bs4 import BeautifulSoup

from attention_tutorial import scaled_dot_product_attention
from attention_tutorial.data.examples import THE_CAT
from attention_tutorial.widgets import AttentionSteps
from attention_tutorial.widgets.attention_steps import SENTENCES, STEPS

ON_THE_PAGE = {"q": "q", "k": "k", "v": "v", "raw": "scores", "scaled": "scaled", "masked": "masked",
               "weights": "softmax", "output": "output"}  # matrix -> the step that shows it  # fmt: skip


def close(actual, expected):
    """Whether nested lists hold a tensor's numbers to 1e-6; JSON has no infinity, so null stands for minus infinity."""
    numbers = [[-torch.inf if x is None else float(x) for x in row] for row in actual]
    return torch.allclose(torch.tensor(numbers, dtype=torch.float64), expected, rtol=1e-6, atol=1e-6)


# ---- What a cell leaves behind ------------------------------------------------------------------------------------


def test_the_html_holds_the_weights():
    widget = AttentionSteps("the bank of the river", causal=True, padding=[4], step="output")
    soup = BeautifulSoup(widget.to_html(), "html.parser")
    assert [th.text for th in soup.select("thead th")] == ["the", "bank", "of", "the", "river"]
    shown = [[float(td.text) for td in tr.select("td")] for tr in soup.select("tbody tr")]
    assert torch.allclose(torch.tensor(shown).double(), widget.steps()["weights"], atol=5e-4)


def test_the_worked_example_is_that_of_chapter_2():
    made = AttentionSteps("worked example of chapter 2").steps()
    assert torch.allclose(made["weights"], torch.tensor([[0.264458, 0.264458, 0.471083]]).double(), atol=1e-6)
    assert torch.allclose(made["output"], torch.tensor([[3.413249, 4.413249]]).double(), atol=1e-6)


def test_the_running_example_of_the_book_is_shown_as_it_is():
    made = AttentionSteps("the cat sat on the mat").steps()
    output, weights = scaled_dot_product_attention(*(THE_CAT.X @ w for w in (THE_CAT.W_Q, THE_CAT.W_K, THE_CAT.W_V)))
    assert torch.equal(made["weights"], weights) and torch.equal(made["output"], output)
    assert [weights[2, 1].item(), weights[3, 5].item()] == pytest.approx([0.7719] * 2, abs=5e-5)


def sentence_of(widget):
    (sentence,) = (sentence for sentence in widget.sentences if sentence["name"] == widget.sentence)
    return sentence


def test_the_columns_of_the_running_example_have_names(run_in_node):
    body = """
const { state, sentence } = given;
const shown = ["w_q", "kT", "v", "output"];
const namesOf = (state) => shown.map((name) => widget.labels(name, sentence, widget.compute(state)));
const w_k = state.numbers.w_k.map((row, i) => (i ? row : [1, 1]));
return [namesOf(state), namesOf({ ...state, numbers: { ...state.numbers, w_k } })];
"""
    widget = AttentionSteps("the cat sat on the mat")
    inputs = {"state": widget.state(), "sentence": sentence_of(widget)}
    own, changed = run_in_node("attention_steps", body, inputs)
    wanted, learned = list(THE_CAT.wanted), list(THE_CAT.learned)
    assert [own[0][1], own[1][0], own[2][1], own[3][1]] == [wanted, wanted, learned, learned]
    assert [changed[0][1], changed[1][0], changed[2][1]] == [["1", "2"], ["1", "2"], learned]


def test_one_word_gets_two_meanings_unless_it_cannot_see_what_follows():
    def output_of_bank(sentence, causal):
        return AttentionSteps(sentence, causal=causal).steps()["output"][1]

    river, money = "the bank of the river", "the bank lends us money"
    assert SENTENCES[river]["x"][1] == SENTENCES[money]["x"][1]
    assert output_of_bank(river, False)[0] > 3 * output_of_bank(river, False)[1]
    assert output_of_bank(money, False)[1] > 3 * output_of_bank(money, False)[0]
    assert torch.equal(output_of_bank(river, True), output_of_bank(money, True))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"sentence": "nobody wrote this"}, ValueError, "sentence must be one of .*; got 'nobody wrote this'"),
        ({"step": "last"}, ValueError, "step must be one of .*; got 'last'"),
        ({"padding": [5]}, ValueError, r"padding must hold positions from 0 to 4; got \[5\]"),
    ],
)
def test_a_mistake_is_explained(arguments, error, message):
    with pytest.raises(error, match=message):
        AttentionSteps(**arguments)


# ---- The maths, in Node -------------------------------------------------------------------------------------------

IN_NODE = """
const { states, sentences } = given;
const made = states.map((state) => widget.compute(state));
const told = sentences.map(({ state, sentence }) => {
  const all = widget.compute(state);
  const cells = [];
  for (const name of ["q", "k", "v", "kT", "raw", "scaled", "masked", "weights", "output"])
    all[name].forEach((row, i) => row.forEach((value, j) => {
      const { title, parts } = widget.arithmetic([name, i, j], state, all, sentence);
      const from = widget.origins([name, i, j], state.source, all).map(([m, r, c]) => all[m][r][c]);
      cells.push({ name, i, j, title, text: parts.map((p) => (p.sup ? `^(${p.text})` : p.text)).join(""),
                   value: widget.show(value), from });
    }));
  const questions = Object.fromEntries(
    state.step_names.map((step) => [step, widget.question(step, state, all, sentence)]),
  );
  const words = Object.fromEntries(state.step_names.filter((step) => step !== "x" || sentence.x)
    .map((step) => [step, widget.describe(step, state, all, sentence)]));
  return { cells, questions, words };
});
const typed = ["1", "-2.5", "−3", ".5", "1,5", "", "-", "1e9", "1e3", "1001", "NaN", "abc"]
  .map((text) => widget.parseNumber(text));
return { made, told, typed };
"""


def random_states():
    """Yield states of every combination of switches, with sizes that no transposition can hide."""
    generator = torch.Generator().manual_seed(0)

    def draw(rows, columns, size=2.0):
        return (torch.randn(rows, columns, generator=generator).double() * size).tolist()

    for number in range(64):
        scaling, causal, from_x, padded = (bool(number >> bit & 1) for bit in range(4))
        large = 300.0 if number >= 48 else 2.0
        if from_x:
            n = (2, 3, 5, 7)[number // 16]
            numbers = {"x": draw(n, 3, large), "w_q": draw(3, 5), "w_k": draw(3, 5), "w_v": draw(3, 2)}
        else:
            m, n = [(1, 3), (5, 5), (2, 7), (7, 3)][number // 16]
            numbers = {"q": draw(m, 5, large), "k": draw(n, 5), "v": draw(n, 2)}
        positions = torch.randperm(n, generator=generator)[: 1 + number % n].tolist() if padded else []
        yield {"numbers": numbers, "source": "x" if from_x else "qkv", "scaling": scaling, "causal": causal,
               "padding": sorted(positions)}  # fmt: skip
    # rows without an allowed key: padding on the left with a causal mask, and nothing but padding
    numbers = {"q": draw(3, 2), "k": draw(3, 2), "v": draw(3, 2)}
    for causal, padding in [(True, [0]), (True, [0, 1]), (False, [0, 1, 2]), (True, [0, 1, 2])]:
        yield {"numbers": numbers, "source": "qkv", "scaling": True, "causal": causal, "padding": padding}


def by_the_package(state):
    numbers = {name: torch.tensor(rows, dtype=torch.float64) for name, rows in state["numbers"].items()}
    if state["source"] == "x":
        query, key, value = (numbers["x"] @ numbers[w] for w in ("w_q", "w_k", "w_v"))
    else:
        query, key, value = numbers["q"], numbers["k"], numbers["v"]
    mask = torch.ones(len(key), dtype=torch.bool)
    mask[state["padding"]] = False
    scale = None if state["scaling"] else 1.0
    output, weights = scaled_dot_product_attention(query, key, value, mask, is_causal=state["causal"], scale=scale)
    return {"q": query, "k": key, "v": value, "raw": query @ key.T, "weights": weights, "output": output}


STATES = list(random_states())
TOLD = [
    (name, {"causal": causal, "padding": padding, "scaling": scaling})
    for name in SENTENCES
    for causal, padding, scaling in [(False, [], True), (True, [1], True), (False, [0, 1, 2], False)]
]


told = pytest.mark.parametrize("number", range(len(TOLD)), ids=["-".join(map(str, (n, *s.values()))) for n, s in TOLD])


@pytest.fixture(scope="module")
def node(run_in_node):
    """What the ES module computes and says in Node."""
    widgets = [AttentionSteps(name, **switches) for name, switches in TOLD]
    sentences = [{"state": widget.state(), "sentence": sentence_of(widget)} for widget in widgets]
    return run_in_node("attention_steps", IN_NODE, {"states": STATES, "sentences": sentences})


@pytest.mark.parametrize("source", ["x", "qkv"])
@pytest.mark.parametrize("causal", [False, True], ids=["open", "causal"])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("scaling", [False, True], ids=["raw", "scaled"])
def test_the_browsers_numbers_are_the_packages(node, source, causal, padded, scaling):
    compared = 0
    for state, made in zip(STATES, node["made"], strict=True):
        switches = (state["source"], state["causal"], bool(state["padding"]), state["scaling"])
        if switches == (source, causal, padded, scaling):
            for name, expected in by_the_package(state).items():
                compared += 1
                assert close(made[name], expected), (name, state)
    assert compared >= 24


@told
def test_every_example_has_the_numbers_of_its_python_twin(node, number):
    name, switches = TOLD[number]
    expected = AttentionSteps(name, **switches).steps()
    shown = {(c["name"], c["i"], c["j"]): c["value"] for c in node["told"][number]["cells"]}
    for matrix, tensor in expected.items():
        for i, row in enumerate(tensor.tolist()):
            for j, value in enumerate(row):
                text = shown[matrix, i, j].replace("−", "-").replace("∞", "inf")
                assert float(text) == pytest.approx(value, abs=5.1e-4)


def calculate(text):
    """Work out arithmetic as a reader would: "3 × 1 + 0 × (−1)", "3 ÷ √3", "e^(1.5) ÷ (e^(1.5) + e^(0))"."""
    for sign, python in [("−∞", "-math.inf"), ("−", "-"), ("×", "*"), ("÷", "/"), ("e^", "math.e**")]:
        text = text.replace(sign, python)
    return eval(re.sub(r"√(\d+)", r"math.sqrt(\1)", text), {"math": math})


@told
def test_the_arithmetic_of_a_cell_gives_its_number(node, number):
    counted = 0
    for cell in node["told"][number]["cells"]:
        assert cell["title"]
        assert cell["value"] in cell["text"]
        *sums, result = cell["text"].split(" = ")
        for part in sums:
            counted += 1
            assert calculate(part) == pytest.approx(calculate(result), abs=5e-3), cell
    assert counted


@told
def test_the_cells_that_light_up_are_those_that_made_the_number(node, number):
    for cell in node["told"][number]["cells"]:
        half = len(cell["from"]) // 2
        if cell["name"] in ("raw", "output"):
            made = sum(a * b for a, b in zip(cell["from"][:half], cell["from"][half:], strict=True))
            assert float(cell["value"].replace("−", "-")) == pytest.approx(made, abs=5.1e-4)


@told
def test_predictions_are_marked_by_the_numbers(node, number):
    name, switches = TOLD[number]
    made, focus = AttentionSteps(name, **switches).steps(), SENTENCES[name]["focus"]
    questions = node["told"][number]["questions"]

    def right(step):
        return [j for j, option in enumerate(questions[step]["options"]) if option["right"]]

    assert right("scores") == (made["raw"][focus] >= made["raw"][focus].max() - 1e-9).nonzero().flatten().tolist()
    assert right("masked") == [int((made["masked"][focus] > -torch.inf).sum())]
    assert len(right("scaled")) == 1
    nearest = torch.linalg.vector_norm(made["v"] - made["output"][focus], dim=-1)
    assert right("output") == (nearest <= nearest.min() + 1e-9).nonzero().flatten().tolist()
    weight = made["weights"][focus].max().item()
    assert all(weight - 0.25 <= 0.25 * (c + 1e-6) and weight >= 0.25 * c - 1e-6 for c in right("softmax"))
    assert right("softmax")
    labels = [option["label"] for option in questions["scores"]["options"]]
    assert len(set(labels)) == len(labels), "words that stand twice are told apart"
    assert questions["x"] is None


@told
def test_every_step_can_be_read_as_text(node, number):
    words = node["told"][number]["words"]
    rows = AttentionSteps(TOLD[number][0]).steps()["raw"].size(0)
    assert set(words) == set(STEPS) - (set() if "x" in SENTENCES[TOLD[number][0]] else {"x"})
    for step in ("scores", "scaled", "masked", "softmax", "output"):
        assert len(words[step]) == rows
        assert all(re.search(r"\d|masked", line) for line in words[step])


def test_only_numbers_of_moderate_size_can_be_typed(node):
    assert node["typed"] == [1, -2.5, -3, 0.5, 1.5, *[None] * 7]


# ---- The page, in Chromium ----------------------------------------------------------------------------------------


def step(page, name):
    page.click(f"[id$='-step-{name}']")


def numbers_of(page, matrix):
    """The numbers in full of a matrix on the page, None for minus infinity."""
    rows = page.eval_on_selector_all(
        f"[data-matrix={matrix}]", "cells => cells.map(c => [c.dataset.row, c.dataset.column, c.dataset.value])"
    )
    numbers = {(int(i), int(j)): None if value == "-Infinity" else float(value) for i, j, value in rows}
    m, n = (1 + max(place[axis] for place in numbers) for axis in (0, 1))
    return [[numbers[i, j] for j in range(n)] for i in range(m)]


def agrees(page, widget):
    """Assert that every matrix on the page has the numbers of the widget's Python twin."""
    for matrix, expected in widget.steps().items():
        step(page, "projections" if matrix in "qkv" else ON_THE_PAGE[matrix])
        assert close(numbers_of(page, matrix), expected), matrix
        shown = page.text_content(f"[data-matrix={matrix}][data-row='0'][data-column='0']")
        if shown:  # not a field to type into
            assert float(shown.replace("−", "-").replace("∞", "inf")) == pytest.approx(
                expected[0, 0].item(), abs=5.1e-4
            )


def test_the_page_shows_torchs_numbers_through_every_change(visit):
    page, widget = visit("http"), AttentionSteps()
    agrees(page, widget)

    step(page, "x")
    page.fill("[data-matrix=x][data-row='2'][data-column='1'] input", "-1.75")
    x = [list(row) for row in widget.numbers["x"]]
    x[2][1] = -1.75
    widget.numbers = {**widget.numbers, "x": x}
    agrees(page, widget)

    page.check("[id$='-causal']")
    widget.causal = True
    agrees(page, widget)

    page.check("[id$='-padding']")
    page.check("[id$='-padding-0']")
    widget.padding = [0, 4]
    assert not widget.steps()["weights"][0].any(), "the first query has no allowed key"
    agrees(page, widget)

    page.uncheck("[id$='-scaling']")
    widget.scaling = False
    agrees(page, widget)


def test_queries_keys_and_values_can_be_changed_directly(visit):
    page, widget = visit(), AttentionSteps()
    page.select_option("[id$='-source']", "qkv")
    agrees(page, widget)
    step(page, "projections")
    page.fill("[data-matrix=k][data-row='4'][data-column='0'] input", "2")
    made = {name: widget.steps()[name].tolist() for name in "qkv"}
    made["k"][4][0] = 2.0
    widget.source, widget.numbers = "qkv", {**widget.numbers, **made}
    agrees(page, widget)
    page.click("[id$='-reset']")
    assert page.input_value("[id$='-source']") == "qkv", "what is changed directly stays so"
    agrees(page, AttentionSteps())


def test_what_a_reader_changed_is_there_on_the_way_back_to_an_example(visit):
    page, widget = visit(), AttentionSteps()
    page.fill("[data-matrix=x][data-row='0'][data-column='1'] input", "2.5")
    x = [list(row) for row in widget.numbers["x"]]
    x[0][1] = 2.5
    page.select_option("[id$='-sentence']", "the bank of the river")
    agrees(page, AttentionSteps("the bank of the river"))
    page.select_option("[id$='-sentence']", widget.sentence)
    widget.numbers = {**widget.numbers, "x": x}
    agrees(page, widget)
    page.click("[id$='-reset']")
    agrees(page, AttentionSteps())


def test_features_name_the_columns_only_while_a_projection_keeps_their_meaning(visit):
    page = visit()
    step(page, "projections")
    heads = "table[aria-label^='V,'] thead th"
    assert page.locator(heads).all_text_contents() == ["noun", "verb", "place"]
    page.fill("[data-matrix=w_v][data-row='0'][data-column='1'] input", "2")
    assert page.locator(heads).all_text_contents() == ["1", "2", "3"]


def test_a_field_is_as_wide_as_its_number(visit):
    page = visit(width=360)
    cell = page.locator("[data-matrix=x][data-row='1'][data-column='0'] input")
    cell.fill("-999.999")
    assert cell.evaluate("input => input.scrollWidth <= input.clientWidth")


def test_what_is_no_number_changes_nothing_and_says_so(visit):
    page = visit()
    cell = "[data-matrix=x][data-row='1'][data-column='0'] input"
    page.fill(cell, "abc")
    assert page.get_attribute(cell, "aria-invalid") == "true"
    assert "Type a number" in page.text_content(".bw-panel")
    page.focus("[id$='-next']")
    assert page.input_value(cell) == "1"
    assert "Type a number" not in page.text_content(".bw-panel"), "the warning goes with what it is about"
    agrees(page, AttentionSteps())


def test_a_cell_says_how_it_was_made_when_pointed_at_or_reached_by_keys(visit):
    page = visit()
    step(page, "scores")
    page.hover("[data-matrix=raw][data-row='2'][data-column='1']")
    assert "query “sat” with key “cat”" in page.text_content(".bw-panel")
    assert "3 × 1 + 0 × 0 + 0 × 0 = 3" in page.text_content(".bw-panel")
    lit = page.eval_on_selector_all(".ats-from", "c => c.map(x => [x.dataset.matrix, x.dataset.row, x.dataset.column])")
    assert sorted(lit) == sorted([["q", "2", str(j)] for j in range(3)] + [["kT", str(j), "1"] for j in range(3)])


@pytest.mark.parametrize("width", [1280, 360])
def test_the_way_on_keeps_its_place_and_the_focus_to_the_last_step(visit, width):
    page = visit(width=width)
    button = page.locator("[id$='-next']")
    button.focus()
    places = set()
    for _ in STEPS:
        places.add((round(button.bounding_box()["y"]), page.evaluate("scrollY")))
        page.keyboard.press("Enter")
        assert button.evaluate("x => x === document.activeElement")
    assert len(places) == 1 and button.get_attribute("aria-disabled") == "true"


def test_a_matrix_is_one_stop_and_arrows_lead_from_cell_to_cell(visit):
    page = visit()
    page.focus("[id$='-step-softmax']")
    for key in ("Enter", *["Tab"] * 6, "ArrowDown", "ArrowRight"):  # past the last step and the way on
        page.keyboard.press(key)
    assert page.evaluate("({ ...document.activeElement.dataset })").items() >= {
        "matrix": "weights", "row": "1", "column": "1"}.items()  # fmt: skip
    assert "Weight of query “cat” on key “cat”" in page.text_content(".bw-panel")


def test_arrow_keys_move_between_the_numbers_and_typing_replaces_one(visit):
    page = visit()
    page.focus("[data-matrix=x][data-row='0'][data-column='0'] input")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.type("2.5")
    page.keyboard.press("Enter")
    assert numbers_of(page, "x")[1][1] == 2.5
    assert page.evaluate("document.activeElement.closest('td').dataset.row") == "2"
    page.keyboard.type("13")
    typed = (("ArrowLeft", "2", "123"), ("ArrowRight", "4", "1234"), ("Home", "5", "51234"), ("End", "6", "512346"))
    for key, digit, number in typed:  # while a number is typed, these keys move within it
        page.keyboard.press(key)
        page.keyboard.type(digit)
        assert page.evaluate("document.activeElement.value") == number
    page.keyboard.press("ArrowRight")  # from its end it leads on
    assert page.evaluate("document.activeElement.closest('td').dataset.column") == "2"


def test_a_result_is_hidden_until_it_was_predicted(visit):
    page = visit()
    page.check("[id$='-predict']")
    step(page, "scores")
    assert set(page.locator("[data-matrix=raw]").all_text_contents()) == {"?"}
    assert page.get_attribute("[data-matrix=raw] >> nth=0", "aria-label").endswith("hidden until you predict")
    assert "Hidden" in page.text_content(".bw-words")
    page.hover("[data-matrix=raw] >> nth=0")
    assert "Predict first" in page.text_content(".bw-panel")
    page.click(".bw-options button:text-is('cat')")
    assert page.text_content(".bw-right").startswith("Yes: cat.")
    assert close(numbers_of(page, "raw"), AttentionSteps().steps()["raw"])
    step(page, "softmax")
    page.click(".bw-options button >> nth=0")
    assert page.text_content(".bw-wrong").startswith("Not quite. The answer: 0.5 to 0.75.")
    step(page, "output")
    page.click("text=Show me")
    assert page.text_content(".bw-wrong").startswith("The answer: cat.")
