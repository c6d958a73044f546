"""Laws of the widget Heads: it shows the weights that it was given, on the page and in words, and takes no other."""

import itertools
import re

import pytest
import torch
from bs4 import BeautifulSoup
from website import contrast, put, state_in

from attention_tutorial import MultiHeadAttention, causal_mask, plotting
from attention_tutorial.widgets import Heads
from attention_tutorial.widgets.heads import MOST_HEADS
from tools.book import ROOT

SHEET = (ROOT / "js" / "widgets" / "heads" / "style.css").read_text(encoding="utf-8")
ONE_CASE = {"m": {"s": (["a"], torch.ones(1, 1, 1))}}
LONG = ["on", "wednesday", "ryan", "needed", "to", "transfer", "money", "to", "the", "bank"]


def drawn(heads, m, n, seed=0, size=3.0):
    """Draw weights, (heads, m, n)."""
    scores = size * torch.randn(heads, m, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return scores.softmax(dim=-1)


def names(n, start="w"):
    return [f"{start}{j}" for j in range(n)]


# ---- The class ----------------------------------------------------------------------------------------------------


def test_it_shows_what_a_layer_returns():
    layer = MultiHeadAttention(12, 3, dtype=torch.float64)
    x = torch.randn(1, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    _, weights = layer(x, mask=causal_mask(5))
    widget = Heads.of(["a", "bird", "in", "the", "hand"], weights)
    assert torch.equal(widget.weights(), weights[0])
    assert widget.state()["cases"][0]["positions"] == [0, 1, 2, 3, 4]


def test_queries_may_be_others_or_some_of_the_words():
    asked = Heads.of(names(7), drawn(2, 3, 7), ["x", "y", "z"]).state()["cases"][0]
    assert (asked["queries"], asked["positions"]) == (["x", "y", "z"], None)
    some = Heads.of(names(7), drawn(2, 2, 7), [6, 1]).state()["cases"][0]
    assert (some["queries"], some["positions"]) == (["w6", "w1"], [6, 1])


def test_the_static_table_holds_the_weights_of_the_chosen_query():
    weights = drawn(3, 5, 5)
    soup = BeautifulSoup(Heads.of(names(5), weights, query=2).to_html(), "html.parser")
    assert [th.text for th in soup.select("thead th")] == names(5)
    assert [th.text for th in soup.select("tbody th")] == ["head 1", "head 2", "head 3"]
    shown = [[float(td.text) for td in tr.select("td")] for tr in soup.select("tbody tr")]
    assert torch.allclose(torch.tensor(shown).double(), weights[:, 2], atol=5e-4)


def test_the_heads_set_by_hand_do_what_is_said_of_them():
    widget = Heads()
    for case in widget.cases:
        widget.model, widget.sentence = case["model"], case["sentence"]
        tokens, weights = case["tokens"], widget.weights()
        n = len(tokens)
        same = torch.tensor([[a == b for b in tokens] for a in tokens])
        previous = torch.eye(n, dtype=torch.bool).roll(-1, dims=1)
        previous[0] = torch.arange(n) == 0  # the first word has none before it
        opened = causal_mask(n) if "causal" in case["model"] else torch.ones(n, n, dtype=torch.bool)
        looked_for = [previous, same, torch.ones_like(same)] if case["heads"] == 3 else [previous | same]
        for head, wanted in zip(weights, looked_for, strict=True):
            wanted = (wanted & opened).double()
            if case["heads"] == 3:
                assert torch.allclose(head, wanted / wanted.sum(dim=1, keepdim=True), atol=0.12), case
        if case["heads"] == 1:  # for the first word both are the word itself, which then wins over its like
            (wanted,) = looked_for
            assert (weights[0][~wanted] < 0.03).all()
            assert (weights[0, 1:][wanted[1:]] > 0.3).all()
        assert (weights[:, ~opened] == 0).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"cases": {}}, ValueError, "at least one model"),
        ({"cases": {"m": {}}}, ValueError, "at least one model"),
        ({"tokens": ["a"], "weights": [[[1.0]]]}, TypeError, "weights must be a torch.Tensor; got list"),
        ({"tokens": ["a"], "weights": torch.ones(1, 1, 1).int()}, TypeError, "weights must hold real floating-point"),
        ({"tokens": ["a"], "weights": torch.ones(1, 1)}, ValueError, r"weights must be \(heads, m, n\).*got \(1, 1\)"),
        ({"tokens": ["a"], "weights": torch.ones(2, 1, 1, 1)}, ValueError, r"got \(2, 1, 1, 1\)"),
        ({"tokens": ["a"], "weights": torch.ones(9, 1, 1)}, ValueError, "1 to 8 heads; got 9"),
        ({"tokens": ["a", "b"], "weights": torch.ones(1, 1, 1)}, ValueError, "each of the 1 keys; got 2"),
        ({"tokens": names(41), "weights": drawn(1, 1, 41)}, ValueError, "1 to 40 queries and keys; got 1 and 41"),
        ({"tokens": names(3), "weights": drawn(1, 2, 3)}, ValueError, "queries must be given if m ≠ n"),
        ({"tokens": names(3), "weights": drawn(1, 2, 3), "queries": ["a"]}, ValueError, "each of the 2 queries"),
        ({"tokens": names(3), "weights": drawn(1, 2, 3), "queries": [0, 3]}, ValueError, r"from 0 to 2; got \[0, 3\]"),
        ({"tokens": names(3), "weights": drawn(1, 2, 3), "queries": [1, 1]}, ValueError, r"different positions"),
        ({"tokens": names(2), "weights": torch.tensor([[[0.5, 0.2], [0.5, 0.5]]])}, ValueError, "sum to 1.*got 0.7"),
        ({"tokens": names(2), "weights": torch.tensor([[[1.5, -0.5], [0.5, 0.5]]])}, ValueError, "negative; got -0.5"),
        ({"tokens": names(2), "weights": torch.full((1, 2, 2), torch.nan)}, ValueError, "finite"),
        ({"cases": ONE_CASE, "answers": {"n": {"s": "x"}}}, ValueError, r"got one to \('n', 's'\), cases are"),
        ({"cases": ONE_CASE, "answers": {"m": {"t": "x"}}}, ValueError, r"got one to \('m', 't'\), cases are"),
        ({"cases": ONE_CASE, "answers": {"m": {"s": 3}}}, TypeError, r"texts; got int for \('m', 's'\)"),
        ({"query": 6}, ValueError, "query must be from 0 to 5; got 6"),
        ({"head": 4}, ValueError, "head must be from 0 to 3; got 4"),
        ({"cases": ONE_CASE, "choices": ("Model",)}, ValueError, "choices must be two texts"),
    ],
)  # fmt: skip
def test_a_mistake_is_explained(arguments, error, message):
    make = Heads.of_cases if "cases" in arguments else Heads.of if "tokens" in arguments else Heads
    with pytest.raises(error, match=message):
        make(**arguments)


def test_a_mistake_among_cases_says_where_it_is():
    cases = {"good": {"one": (["a"], torch.ones(1, 1, 1))}, "bad": {"two": (["a"], torch.ones(1, 1, 2) / 2)}}
    with pytest.raises(ValueError, match="in 'bad', 'two'"):
        Heads.of_cases(cases)


def answering():
    """Two models, two sentences; all but one pair say what the model answers."""
    cases = {m: {s: (names(3, s), drawn(2, 3, 3)) for s in ("one", "two")} for m in ("m", "n")}
    answers = {"m": {"one": "who: <b>ryan</b> ✓"}, "n": {"one": "who: alma ✗", "two": "who: emma ✓"}}
    return Heads.of_cases(cases, answers=answers), answers


def test_answers_stand_with_their_case_and_in_the_table():
    widget, answers = answering()
    for case in widget.cases:
        widget.model, widget.sentence = case["model"], case["sentence"]
        wanted = answers[widget.model].get(widget.sentence)
        assert case.get("answers") == (wanted and f"The model answers: {wanted}.")
        caption = BeautifulSoup(widget.to_html(), "html.parser").select_one("caption").text
        assert caption.endswith(f" The model answers: {wanted}." if wanted else "each column a key.")


def test_words_that_look_like_markup_stay_words():
    tokens = ["<script>alert(1)</script>", "\"&amp;'"]
    page = Heads.of(tokens, drawn(1, 2, 2)).to_html()
    assert "<script" not in page
    assert state_in(page)["cases"][0]["tokens"] == tokens
    assert [th.text for th in BeautifulSoup(page, "html.parser").select("thead th")] == tokens


def test_half_precision_and_rows_without_an_open_key_are_taken():
    weights = drawn(2, 3, 3).bfloat16()
    weights[:, 0] = 0
    assert torch.equal(Heads.of(names(3), weights).weights(), weights.double())


def test_each_head_has_a_colour_and_a_line_of_its_own_that_can_be_seen():
    pairs = re.findall(r"--hds-head: light-dark\((#\w+), (#\w+)\);", SHEET)
    for colours, ground in zip(zip(*pairs, strict=True), ("#ffffff", "#14181e"), strict=True):
        assert len(colours) == len(set(colours)) == MOST_HEADS
        assert not set(colours) & {c.lower() for c in (plotting.QUERY, plotting.KEY, plotting.VALUE)}
        assert all(contrast(colour, ground) >= 3 for colour in colours)
    dashes = re.findall(r"--hds-dash: ([^;]+);", SHEET)
    assert len(dashes) == len(set(dashes)) == MOST_HEADS


# ---- The maths, in Node -------------------------------------------------------------------------------------------

IN_NODE = """
const { cases, rows, sentences, crowds } = given;
const made = cases.map((one) => {
  const weights = widget.weightsOf(one);
  return {
    weights, mean: widget.meanOfHeads(weights),
    common: weights.map((a) => weights.map((b) => widget.inCommon(a[0], b[0]))),
    alike: weights.length > 1 ? widget.alike(weights, 0) : null,
    favourites: weights.map((head) => head.map(widget.favourites)),
    said: widget.describeAll(weights, weights.map((_, h) => h), widget.labelsOf(one)),
    compared: widget.compareHeads(weights, 0),
  };
});
const told = rows.map(([row, keys]) => widget.describeRow(row, "q", keys));
const placed = sentences.map(([tokens, width, asks]) => {
  const widths = widget.columnWidths(tokens, width, asks);
  return widths && { widths, middles: widget.middles(widths) };
});
const fitted = crowds.map(([one, width]) => {
  const weights = widget.weightsOf(one);
  const shown = weights.map((_, h) => h);
  const layout = widget.layOut(one.tokens, shown.length, one.queries.length > 1, width);
  return one.queries.map((_, i) => widget.drawArcs(weights, shown, i, one.positions?.[i] ?? null, layout))
    .map((drawn) => ({ ...drawn, at: layout.at, turned: layout.turned, columns: layout.columns, row: layout.row }));
});
const turn = (along, away) => [along, 100 - away];
const arcs = [[20, 220, 60], [220, 20, 60], [50, 50, 30]].map((arc) => widget.arc(...arc, turn));
return { made, told, placed, fitted, arcs };
"""
SIZES = [(1, 1, 1), (1, 1, 8), (2, 3, 3), (3, 1, 13), (4, 7, 7), (8, 5, 11), (2, 40, 40), (5, 2, 3)]
GIVEN = [drawn(*sizes, seed=seed, size=size) for seed, sizes in enumerate(SIZES) for size in (0.0, 2.0, 50.0)]
GIVEN.append(torch.tensor([[[0.0, 0.0], [1.0, 0.0]], [[0.5, 0.5], [0.0, 0.0]]], dtype=torch.float64))
ROWS = [
    ([0.05, 0.71, 0.12, 0.12], "a b c d", "“q” looks at “b” 0.710, “c” 0.120, “d” 0.120; one other has 0.050"),
    ([0.01, 0.97, 0.02], "a b c", "“q” looks at “b” 0.970; 2 others share 0.030"),
    ([0.0, 1.0, 0.0], "a b c", "“q” looks only at “b”"),
    ([0.0001, 0.9997, 0.0002], "a b c", "“q” looks only at “b”"),
    ([0.0006, 0.9994, 0.0], "a b c", "“q” looks at “b” 0.999; one other has 0.001"),
    ([0.4999, 0.4999, 0.0001, 0.0001], "a b c d", "“q” looks at “a” 0.500, “b” 0.500"),
    ([0.25] * 4, "a b c d", "“q” looks equally at 4 words, 0.250 each"),
    ([0.5, 0.5, 0.0], "a b c", "“q” looks at “a” 0.500, “b” 0.500"),
    ([0.0, 0.0], "a b", "“q” looks nowhere: every key is masked for it, and all its weights are 0"),
    ([0.09] * 10 + [0.1], "a b c d e f g h i j k", "“q” looks at “k” 0.100; 10 others share 0.900"),
]  # fmt: skip
SENTENCES = [
    (["the", "cat", "sat"], 700, True),
    (LONG, 700, False),
    (LONG, 300, False),
    (["a"], 400, True),
]
CROWDS = [
    ((arguments, weights), width)
    for arguments, weights in [
        (["the", "cat", "sat", "on", "the", "mat"], drawn(3, 6, 6, size=1.0)),
        (names(4), drawn(8, 4, 4, size=0.3)),  # all heads look at every word
        (LONG, drawn(2, 10, 10, size=5.0)),
    ]
    for width in (238, 700)
]


@pytest.fixture(scope="module")
def node(run_in_node):
    cases = []
    for weights in GIVEN:
        _, m, n = weights.shape
        widget = Heads.of(names(n), weights, None if m == n else names(m, "q"))
        cases.append(widget.state()["cases"][0])
    rows = [[row, keys.split()] for row, keys, _ in ROWS]
    crowds = [[Heads.of(*arguments).state()["cases"][0], width] for arguments, width in CROWDS]
    return run_in_node("heads", IN_NODE, {"cases": cases, "rows": rows, "sentences": SENTENCES, "crowds": crowds})


def equal(actual, expected):
    return torch.allclose(torch.tensor(actual, dtype=torch.float64), expected, rtol=0, atol=1e-6)


def test_the_browsers_weights_are_those_of_torch(node):
    for weights, made in zip(GIVEN, node["made"], strict=True):
        assert equal(made["weights"], weights)
        assert equal(made["mean"], weights.mean(dim=0))


def test_the_weight_in_common_is_the_sum_of_the_smaller_ones(node):
    for weights, made in zip(GIVEN, node["made"], strict=True):
        rows = weights[:, 0]
        common = torch.minimum(rows[:, None], rows[None]).sum(dim=-1)
        assert equal(made["common"], common)
        if len(weights) > 1:
            values = [common[a, b].item() for a, b in itertools.combinations(range(len(weights)), 2)]
            (a, b, most), (c, d, least) = made["alike"]["most"], made["alike"]["least"]
            assert abs(most - max(values)) < 1e-6 and abs(least - min(values)) < 1e-6
            assert abs(common[a, b] - most) < 1e-6 and abs(common[c, d] - least) < 1e-6
            assert f"{most:.3f}" in made["compared"]
            assert len(weights) == 2 or f"{least:.3f}" in made["compared"]
        else:
            assert made["compared"] == ""


def test_favourites_and_the_rest_are_the_whole_row(node):
    for weights, made in zip(GIVEN, node["made"], strict=True):
        for head, rows in zip(weights, made["favourites"], strict=True):
            for row, favourites in zip(head, rows, strict=True):
                listed = [row[j].item() for j, _ in favourites["listed"]]
                assert listed == sorted(listed, reverse=True)
                assert all(abs(row[j] - weight) < 1e-6 for j, weight in favourites["listed"])
                assert abs(sum(listed) + favourites["rest"] - row.sum()) < 1e-5
                assert not listed or abs(max(listed) - row.max()) < 1e-6


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_where_a_row_looks_in_words(node, number):
    assert node["told"][number] == ROWS[number][2]


def test_words_fit_into_their_columns_or_the_sentence_is_turned(node):
    for (tokens, width, asks), placed in zip(SENTENCES, node["placed"], strict=True):
        if width < 400:
            assert placed is None
            continue
        assert sum(placed["widths"]) <= width
        assert all(column >= 7 * len(token) for column, token in zip(placed["widths"], tokens, strict=True))
        assert not asks or min(placed["widths"]) >= 44
        edges = [0, *itertools.accumulate(placed["widths"])]
        assert placed["middles"] == [(a + b) / 2 for a, b in itertools.pairwise(edges)]


def test_an_arc_goes_from_the_query_to_the_key(node):
    there, back, loop = ([float(x) for x in re.findall(r"-?[\d.]+", path)] for path in node["arcs"])
    assert (there[:2], there[-2:]) == ([20, 100], [220, 100])
    assert (back[:2], back[-2:]) == ([220, 100], [20, 100])
    assert there[3] == there[5] == 100 - 60 / 0.75, "the guides of a curve whose top is 60 above its ends"
    assert loop[0] < 50 == loop[-2], "a loop ends at the word as well"


def test_what_a_word_gets_the_most_of_ends_at_its_middle_side_by_side(node):
    """The numbers of heads that look at a word stand centred on it, in it, and none covers another."""
    seen = 0
    for drawing in itertools.chain(*node["fitted"]):
        along = 1 if drawing["turned"] else 0
        room = [drawing["row"]] * len(drawing["at"]) if drawing["turned"] else drawing["columns"][1:]
        for key, middle in enumerate(drawing["at"]):
            places = [mark["at"][along] for mark in drawing["marks"] if mark["key"] == key]
            heads = [mark["head"] for mark in drawing["marks"] if mark["key"] == key]
            wanted = [arc["head"] for arc in drawing["arcs"] if arc["key"] == key and arc["weight"] >= 0.1]
            assert heads == (sorted(wanted) if drawing["marks"] else []), "numbers at all strong arcs, or at none"
            assert not places or abs(sum(places) / len(places) - middle) < 1e-6
            assert all(abs(place - middle) <= room[key] / 2 - 3 for place in places)
            assert all(b - a >= 9 for a, b in itertools.pairwise(places))
            for arc in (arc for arc in drawing["arcs"] if arc["key"] == key):
                end = float(arc["path"].split()[-2 + along])
                assert abs(end - middle) < 0.06 or arc["weight"] >= 0.1
                assert not places or arc["head"] not in heads or abs(end - places[heads.index(arc["head"])]) < 0.06
            seen += len(places)
    assert seen > 100
    assert any(not drawing["marks"] for drawings in node["fitted"] for drawing in drawings), (
        "some have no room for them"
    )


# ---- The page -----------------------------------------------------------------------------------------------------


def table(page):
    """Every number of the table: {(head, key): value}, and what is written there."""
    cells = page.eval_on_selector_all(
        ".hds-cell", "all => all.map(x => [x.dataset.head, Number(x.dataset.key), x.dataset.value, x.textContent])"
    )
    for _, _, value, text in cells:
        dot = "·" if float(value) < 0.005 else ""  # a dot says its number to those who hear it
        digits = 3 if dot else 2
        assert text.startswith(dot) and abs(float(text.removeprefix(dot)) - float(value)) <= 0.5001 * 10**-digits
    return {(head, key): float(value) for head, key, value, _ in cells}


def shows(page, weights, query, heads, mean=True):
    """Assert that table and arcs hold these weights, and no others."""
    rows = table(page)
    wanted = {(str(h + 1), j): weights[h, query, j].item() for h in heads for j in range(weights.size(2))}
    if len(heads) > 1 and mean:
        wanted |= {("mean", j): weight for j, weight in enumerate(weights.mean(dim=0)[query].tolist())}
    assert rows.keys() == wanted.keys()
    assert all(abs(rows[place] - wanted[place]) < 1e-6 for place in wanted)
    arcs = page.eval_on_selector_all(
        ".hds-arcs path", "all => all.map(x => [Number(x.dataset.head) - 1, Number(x.dataset.key), "
        "Number(x.dataset.value), parseFloat(x.style.strokeWidth), parseFloat(x.style.opacity)])"
    )  # fmt: skip
    assert {(h, j) for h, j, *_ in arcs} == {
        (h, j) for h in heads for j in range(weights.size(2)) if weights[h, query, j] >= 0.005
    }
    for h, j, weight, width, opacity in arcs:
        assert abs(weight - weights[h, query, j]) < 1e-6
        assert abs(width - (1 + 8 * weight)) < 0.01 and abs(opacity - (0.25 + 0.75 * weight)) < 0.01


def test_the_page_shows_the_given_weights_of_every_model_sentence_query_and_head(visit):
    widget, page = Heads(), visit("http")
    shows(page, widget.weights(), 4, [0, 1, 2])
    for case in widget.cases[1:]:
        widget.model, widget.sentence = case["model"], case["sentence"]
        page.click(f".bw-choice button:text-is('{case['model']}')")
        page.select_option("select", case["sentence"])
        weights = widget.weights()
        for query in (0, len(case["tokens"]) - 1):
            page.click(f".hds-ask >> nth={query}")
            shows(page, weights, query, range(case["heads"]))
        if case["heads"] > 1:
            page.click("button:has-text('head 2')")
            shows(page, weights, query, [1])
            assert page.locator(".hds-row figure").count() == 1
        maps = page.eval_on_selector_all(
            ".hds-row rect[data-value]",
            "all => all.map(x => [Number(x.dataset.query), Number(x.dataset.key), Number(x.dataset.value)])"
        )  # fmt: skip
        assert len(maps) == weights[0].numel()
        head = 1 if case["heads"] > 1 else 0
        assert all(abs(value - weights[head, i, j]) < 1e-6 for i, j, value in maps)


def test_the_panel_and_the_status_say_where_the_query_looks(visit):
    page, weights = visit(), Heads().weights()
    text = page.text_content(".hds-panel")
    assert f"head 1 “the (5)” looks at “on” {weights[0, 4, 3]:.3f}; 5 others share" in text
    assert "head 3 “the (5)” looks equally at 6 words, 0.167 each" in text
    page.click(".hds-ask >> nth=1")
    assert "head 1 “cat” looks at “the (1)”" in page.text_content(".hds-panel")
    status = page.wait_for_selector("[role=status]:not(:empty)").text_content()
    assert status.startswith("Query “cat”. Head 1: most on “the (1)”, 0.92. Head 2: most on “cat”, 0.92.")
    assert "head 1: “cat” looks at “the (1)”" in page.get_attribute(".hds-arcs", "aria-label")
    assert page.locator(".bw-words li").count() == 18


def test_the_mouse_shows_a_word_without_choosing_it(visit):
    page, weights = visit(), Heads().weights()
    page.hover(".hds-ask >> nth=1")
    shows(page, weights, 1, [0, 1, 2])
    assert page.get_attribute(".hds-ask >> nth=1", "aria-pressed") == "false"
    page.hover(".bw-heading")
    shows(page, weights, 4, [0, 1, 2])


def test_the_answers_follow_the_model_and_the_sentence(browser):
    widget, answers = answering()
    page = browser.new_page()
    put(page, widget)
    for model, sentence in itertools.product(("m", "n"), ("one", "two")):
        page.click(f".bw-choice button:text-is('{model}')")
        page.select_option("select", sentence)
        wanted = f"The model answers: {answers[model][sentence]}." if sentence in answers[model] else None
        assert page.locator(".hds-answers").all_text_contents() == ([wanted] if wanted else [])
        assert ((wanted or "The model answers") in page.text_content("[role=status]")) == bool(wanted)
        assert page.locator(".bw-words li").all_text_contents()[6:] == ([wanted] if wanted else [])
    page.close()


def test_a_map_lets_one_choose_the_query(visit):
    page = visit()
    page.click(".hds-row rect[data-head='2'][data-query='3'][data-key='0']")
    shows(page, Heads().weights(), 3, [0, 1, 2])
    assert page.get_attribute(".hds-ask >> nth=3", "aria-pressed") == "true"


def test_the_words_are_one_stop_and_arrows_ask(visit):
    page, weights = visit(), Heads().weights()
    page.focus(".hds-ask[aria-pressed=true]")
    for key, query in (("ArrowLeft", 3), ("Home", 0), ("ArrowUp", 0), ("End", 5)):
        page.keyboard.press(key)
        shows(page, weights, query, [0, 1, 2])
    assert page.evaluate("document.activeElement.textContent") == "mat"


SHOWN = {
    "long sentence": lambda: Heads.of(LONG, drawn(3, 10, 10)),
    "one word asks": lambda: Heads.of(LONG, drawn(3, 1, 10), [9]),
    "cross-attention": lambda: Heads.of(names(8, "person "), drawn(4, 6, 8), names(6, "query ")),
    "eight heads": lambda: Heads.of(names(13, "word"), drawn(8, 13, 13)),
    "answers": lambda: answering()[0],
    "as long as it may be": lambda: Heads.of(names(40, "longer"), drawn(2, 40, 40)),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_nothing_is_wider_than_a_phone_and_all_can_be_tapped(browser, name):
    page = browser.new_page(viewport={"width": 360, "height": 800})
    widget = SHOWN[name]()
    put(page, widget)
    weights = widget.weights()
    for heads in ([*range(len(weights))], [1]):
        if len(heads) == 1:
            page.click("button:has-text('head 2')")
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert page.evaluate("(f => f.scrollWidth <= f.clientWidth + 1)(document.querySelector('.hds-figure'))")
        small = page.eval_on_selector_all(
            ".heads button, .heads select",
            "all => all.filter(x => x.offsetHeight < 44 || x.offsetWidth < 44).map(x => x.outerHTML)"
        )  # fmt: skip
        assert not small, "a target that is hard to tap"
        shows(page, weights, 0, heads, mean=len(weights) < 4)
    page.close()


def test_the_sentence_turns_with_the_width(browser):
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    widget = SHOWN["long sentence"]()
    put(page, widget)
    assert page.locator(".hds-flat").count() == 1
    page.click(".hds-ask >> nth=7")
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_selector(".hds-turned")
    shows(page, widget.weights(), 7, [0, 1, 2])
    page.close()


@pytest.mark.parametrize("width", [1280, 360])
def test_arcs_end_at_their_words(visit, width):
    page = visit(width=width)
    page.click("button:has-text('three heads') >> nth=0")
    ends = page.evaluate(
        """() => [...document.querySelectorAll(".hds-arcs path")].map((path) => {
          const end = path.getPointAtLength(path.getTotalLength()).matrixTransform(path.getScreenCTM());
          const word = document.querySelector(`th[data-key="${path.dataset.key}"]`).getBoundingClientRect();
          return { end: [end.x, end.y], word: [word.left, word.right, word.top, word.bottom] };
        })"""
    )
    assert len(ends) == 18
    for end in ends:
        (x, y), (left, right, top, bottom) = end["end"], end["word"]
        across, along = ((left, x, right), top - y) if width > 400 else ((top, y, bottom), left - x)
        assert across[0] < across[1] < across[2]
        assert 0 <= along < 30


def test_a_shorter_sentence_chosen_later_shows_its_first_query():
    long, short = torch.eye(6)[None], torch.eye(2)[None]
    widget = Heads.of_cases({"model": {"long": (list("abcdef"), long), "short": (["x", "y"], short)}}, query=5)
    widget.sentence = "short"
    assert "Attention weights of “x”" in widget.static_html()
    widget.model = "none such"
    assert torch.equal(widget.weights(), short.double())
