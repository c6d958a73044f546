"""Laws of the widget on temperature and width: its numbers are torch's, in Python, in Node and on the page."""

import math

import pytest
import torch
from bs4 import BeautifulSoup
from website import layouts_while_sliding, press, slide

from attention_tutorial.analysis.weights import entropy, softmax_jacobian
from attention_tutorial.widgets import TemperatureAndWidth
from attention_tutorial.widgets.temperature import (
    DIVISORS,
    KEYS,
    LARGEST,
    LEAST,
    LETTERS,
    QUERIES,
    WIDTHS,
    draw_features,
    read_features,
)

CHOICES = [*DIVISORS, 0.25, 5.0, 1024.0]


def norms(weights):
    return torch.linalg.eigvalsh(softmax_jacobian(weights))[..., -1]


def close(actual, expected, tolerance=1e-6):
    return torch.allclose(torch.tensor(actual, dtype=torch.float64), expected, rtol=tolerance, atol=tolerance)


# ---- The class ----------------------------------------------------------------------------------------------------


def test_features_are_normal_numbers_drawn_with_a_seed_and_rounded():
    features = read_features(draw_features())
    drawn = torch.randn(QUERIES + KEYS, WIDTHS[-1], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    inside = drawn.abs() < 63 / 16
    assert (features - drawn)[inside].abs().max() <= 1 / 16 + 1e-12
    assert torch.equal(features[~inside], drawn[~inside].sign() * 63 / 16)
    assert features.mean().abs() < 0.02
    assert features.var() == pytest.approx(1, abs=0.02)


def test_letters_stand_for_odd_sixteenths_in_order():
    values = read_features(LETTERS * ((QUERIES + KEYS) * WIDTHS[-1] // len(LETTERS)))
    assert torch.equal(values[0, :64] * 16, torch.arange(-63.0, 64.0, 2.0).double())


@pytest.mark.parametrize("d_k", [1, 12, 256])
@pytest.mark.parametrize("divisor", CHOICES)
def test_the_twin_measures_what_the_definitions_say(d_k, divisor):
    measured = TemperatureAndWidth(d_k, divisor=divisor).measure()
    features = read_features(draw_features())
    raw = features[:QUERIES, :d_k] @ features[QUERIES:, :d_k].T
    tau = {"none": 1, "sqrt(d_k)": math.sqrt(d_k), "d_k": d_k}.get(divisor, divisor)
    weights = torch.softmax(raw / tau, dim=-1)
    assert torch.equal(measured["raw"], raw)
    assert torch.allclose(measured["scores"] * tau, raw)
    assert torch.allclose(measured["weights"], weights)
    assert torch.allclose(measured["largest"], weights.max(dim=-1).values)
    assert torch.allclose(measured["entropy"], -(weights * weights.clamp_min(1e-300).log()).sum(dim=-1))
    by_torch = torch.func.vmap(torch.func.jacrev(lambda s: torch.softmax(s, dim=0)))(raw / tau)
    assert torch.allclose(measured["norm"], torch.linalg.matrix_norm(by_torch, ord=2), atol=1e-9)


def test_the_lesson_of_chapter_3_is_in_these_numbers():
    def typical(d_k, divisor):
        measured = TemperatureAndWidth(d_k, divisor=divisor).measure()
        return [measured[name].median().item() for name in ("largest", "entropy", "norm")]

    assert typical(256, "none")[0] > 0.99
    assert typical(256, "none")[2] < 0.01
    assert typical(16, "none")[2] > 1.1 * typical(4, "none")[2], "at first the Jacobian grows"
    for narrow, other in zip(typical(8, "sqrt(d_k)"), typical(256, "sqrt(d_k)"), strict=True):
        assert narrow == pytest.approx(other, rel=0.1)
    assert TemperatureAndWidth(256, divisor="d_k").measure()["largest"].max() < 1.6 / KEYS


def test_the_html_holds_the_medians():
    widget = TemperatureAndWidth(64, divisor="sqrt(d_k)", query=3)
    soup = BeautifulSoup(widget.to_html(), "html.parser")
    assert len(widget.to_html()) < 60_000
    cells = [[float(td.text) for td in row.select("td")] for row in soup.select("tbody tr")]
    heads = [row.select_one("th").text for row in soup.select("tbody tr")]
    for head, shown in zip(heads, cells, strict=True):
        d_k, divisor = head.removeprefix("d_k = ").split(", divided by ")
        measured = TemperatureAndWidth(int(d_k), divisor="none" if divisor == "1" else divisor).measure()
        expected = [measured["scores"].std(), *(measured[name].median() for name in ("largest", "entropy", "norm"))]
        assert shown == pytest.approx([x.item() for x in expected], abs=5.1e-3)
    assert len(heads) == 12


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"d_k": 5}, ValueError, "d_k must be one of 1, 2, 3, 4, .*, 256; got 5"),
        ({"query": 0}, ValueError, "query must be from 1 to 49; got 0"),
        ({"query": 50}, ValueError, "query must be from 1 to 49; got 50"),
        ({"divisor": "heads"}, ValueError, r"divisor must be one of 'none', 'sqrt\(d_k\)', 'd_k', .*; got 'heads'"),
        ({"divisor": "own"}, ValueError, "divisor must be one of .*; got 'own'"),
        ({"divisor": 0}, ValueError, "or a number from 0.25 to 1024; got 0"),
        ({"divisor": math.nan}, ValueError, "got nan"),
        ({"divisor": 2000}, ValueError, "got 2000"),
        ({"divisor": True}, TypeError, "divisor must be a name or a number; got bool"),
    ],
)
def test_a_mistake_is_explained(arguments, error, message):
    with pytest.raises(error, match=message):
        TemperatureAndWidth(**arguments)


# ---- The maths, in Node -------------------------------------------------------------------------------------------

IN_NODE = """
const { state, cases, rows, two, points, samples } = given;
const { divisors, widths, temperatures } = state;
const pool = widget.readFeatures(state.features, Math.max(...widths), state.letters);
const rawAt = (d) => widget.rawScores(pool, state.query_count, d);
const at = (d, divisor) => widget.measure(rawAt(d), widget.temperatureOf(divisors, divisor, d));
return {
  made: cases.map(([d, divisor, own]) => {
    const temperature = widget.temperatureOf(divisors, divisor, d, own);
    const all = { raw: rawAt(d), ...widget.measure(rawAt(d), temperature) };
    return { ...all, hill: widget.histogram(all.scores, Math.sqrt(d) / temperature, 49) };
  }),
  any: rows.map((row) => widget.measure([row], 1)),
  two: two.map((lead) => widget.measure([[lead, 0]], 1)),
  below: points.map(widget.normalBelow),
  sampled: samples.map((numbers) => [widget.median(numbers), widget.deviation(numbers)]),
  widths: [...divisors.map((one) => one.name), "own"].map(
    (name) => widget.curve(widths.map((d) => [rawAt(d), widget.temperatureOf(divisors, name, d, 5)]))),
  positions: temperatures.map(widget.positionFor),
  slider: [-8, 40].map(widget.temperatureAt),
  temperatures: widget.curve([0.25, 1, 8, 64, 1024].map((tau) => [rawAt(64), tau])),
  questions: widget.questions(at, 16),
  verdicts: [[1, 0.01], [0.9, 0.1], [0.89, 0.2], [0.3, 0.96], [0.07, 0.97]].map((pair) => widget.verdict(...pair)),
  brief: [0, 1, 0.0004, -0.25, 1.2e-12, 0.001].map(widget.brief),
};
"""
CASES = [[d_k, divisor, 1.0] for d_k in WIDTHS for divisor in DIVISORS]
CASES += [[d_k, "own", tau] for d_k in (1, 6, 96, 128, 256) for tau in (LEAST, 3.7, LARGEST)]


def random_rows():
    """Scores of 2 to 20 keys, from nearly equal to far apart, some with ties."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for number in range(200):
        n = 2 + number % 19
        row = torch.randn(n, generator=generator, dtype=torch.float64) * 10 ** (number % 7 - 3)
        if number % 3 == 0:
            row[-1] = row.max()
        if number % 5 == 0:
            row = row.round()
        rows.append(row.tolist())
    return [*rows, [0.0] * 16, [0.0, 0.0], [1000.0, 0.0, -1000.0], [5.0, 5.0, -900.0]]


POINTS = [x / 8 for x in range(-80, 81)]
SAMPLES = [torch.randn(n, generator=torch.Generator().manual_seed(n)).tolist() for n in (2, 5, 8, 49)]


@pytest.fixture(scope="module")
def node(run_in_node):
    """What the ES module computes and says in Node."""
    inputs = {"state": TemperatureAndWidth().state(), "cases": CASES, "rows": random_rows(), "two": list(range(41)),
             "points": POINTS, "samples": SAMPLES}  # fmt: skip
    return run_in_node("temperature", IN_NODE, inputs)


def twin(d_k, divisor, own=1.0):
    return TemperatureAndWidth(d_k, divisor=own if divisor == "own" else divisor).measure()


def test_the_browsers_numbers_are_the_packages(node):
    for case, made in zip(CASES, node["made"], strict=True):
        expected = twin(*case)
        assert torch.equal(torch.tensor(made["raw"]).double(), expected["raw"]), "exact, by the choice of the features"
        for name, tensor in expected.items():
            assert close(made[name], tensor), (name, case)


def test_any_scores_give_torchs_weights_entropy_and_norm(node):
    for row, made in zip(random_rows(), node["any"], strict=True):
        weights = torch.softmax(torch.tensor(row, dtype=torch.float64), dim=0)
        assert close(made["weights"][0], weights)
        assert close(made["entropy"], entropy(weights)[None])
        assert close(made["norm"], norms(weights)[None], 1e-9), row
        largest = weights.max().item()
        product = largest * (1 - largest)
        n = len(row)
        assert n / (n - 1) * product - 1e-12 <= made["norm"][0] <= 2 * product + 1e-12


def test_the_norm_of_two_keys_is_right_however_small(node):
    for lead, made in enumerate(node["two"]):
        largest, smallest = 1 / (1 + math.exp(-lead)), 1 / (1 + math.exp(lead))
        assert made["norm"][0] == pytest.approx(2 * largest * smallest, rel=1e-9, abs=0)


def test_normal_shares_histogram_median_and_deviation_are_torchs(node):
    assert close(node["below"], torch.special.ndtr(torch.tensor(POINTS, dtype=torch.float64)), 2e-7)
    for numbers, (middle, spread) in zip(SAMPLES, node["sampled"], strict=True):
        sample = torch.tensor(numbers, dtype=torch.float64)
        assert middle == pytest.approx(sample.median().item())
        assert spread == pytest.approx(sample.std().item())
    for case, made in zip(CASES, node["made"], strict=True):
        measured = twin(*case)
        tau = TemperatureAndWidth(case[0], divisor=case[2] if case[1] == "own" else case[1]).temperature
        hill = made["hill"]
        edges = torch.linspace(-49, 49, 50, dtype=torch.float64)
        below = torch.special.ndtr(edges * tau / math.sqrt(case[0]))
        assert close(hill["normal"], below.diff())
        inside = (measured["scores"].abs() <= 49).sum().item()
        assert round(sum(hill["shares"]) * QUERIES * KEYS) == inside == QUERIES * KEYS - hill["outside"]
        scores = measured["scores"].flatten()
        on_an_edge = ((scores[:, None] - edges).abs() < 1e-9).any(dim=1).sum()  # rounding decides between two bins
        counts = torch.histogram(scores, edges).hist
        assert (torch.tensor(hill["shares"]) * QUERIES * KEYS - counts).abs().sum() <= 2 * on_an_edge + 0.01


def test_curves_are_medians_of_the_twin(node):
    def medians(measured):
        return torch.stack([measured[name].median() for name in ("largest", "entropy", "norm")])

    for divisor, curve in zip([*DIVISORS, "own"], node["widths"], strict=True):
        for d_k, point in zip(WIDTHS, curve, strict=True):
            assert close(list(point.values()), medians(twin(d_k, divisor, 5.0))), (divisor, d_k)
    for tau, point in zip([0.25, 1, 8, 64, 1024], node["temperatures"], strict=True):
        assert close(list(point.values()), medians(twin(64, "own", tau)))
    assert node["slider"] == [LEAST, LARGEST]
    assert node["positions"] == [-8, 40]


def test_predictions_are_marked_by_torchs_numbers(node):
    for question in node["questions"]:
        assert [option["right"] for option in question["options"]].count(True) == 1, question["text"]
    right = [next(o["label"] for o in q["options"] if o["right"]) for q in node["questions"]]
    largest = [twin(*state)["largest"].median().item() for state in ((4, "none"), (256, "none"), (256, "d_k"))]
    assert largest[1] > 0.95
    assert right[0] == "It goes to nearly 1"
    assert twin(16, "none")["norm"].median() > 1.1 * twin(4, "none")["norm"].median()
    assert right[1] == "It grows"
    ratio = twin(256, "sqrt(d_k)")["entropy"].median() / twin(4, "sqrt(d_k)")["entropy"].median()
    assert 0.9 < ratio < 1.1
    assert right[2] == "It stays about the same"
    assert largest[2] == pytest.approx(1 / KEYS, abs=0.03)
    assert right[3] == "It goes to about 1/16"
    assert twin(256, "none")["norm"].mean() > 3 * twin(256, "none")["norm"].median()
    assert right[4] == "Many times larger"
    assert f"from {largest[0]:.3f} to {largest[1]:.3f}" in node["questions"][0]["why"]


def test_a_row_is_described_by_its_weights(node):
    first = [text.split()[0] for text in node["verdicts"]]
    assert first == ["saturated,", "saturated,", "some", "some", "nearly"]
    assert node["brief"] == ["0.000", "1.000", "4 · 10⁻⁴", "−0.250", "1 · 10⁻¹²", "0.001"]


# ---- The page, in Chromium ----------------------------------------------------------------------------------------


def number(page, name, of=None):
    return float(page.get_attribute(f"[data-number={name}]" + (f"[data-of={of}]" if of else ""), "data-value"))


def unfold(page):
    """Open the part with the entropy and the Jacobian."""
    page.click("summary:has-text('Jacobian')")


def agrees(page, widget):
    """Assert that all that the page shows are the numbers of the widget's Python twin."""
    measured = widget.measure()
    chosen = widget.query - 1
    measured["share"] = measured["entropy"] / math.log(KEYS)
    for name in ("largest", "entropy", "share", "norm"):
        values = {"query": measured[name][chosen], "median": measured[name].median(), "mean": measured[name].mean()}
        for of, value in values.items():
            assert number(page, name, of) == pytest.approx(value.item(), abs=1e-6), (name, of)
            shown = page.text_content(f"[data-number={name}][data-of={of}]")
            if "·" not in shown:
                assert float(shown) == pytest.approx(value.item(), abs=5.1e-4)
    bars = page.eval_on_selector_all("[data-weight]", "bars => bars.map(bar => Number(bar.dataset.weight))")
    assert close(bars, measured["weights"][chosen])
    heights = page.eval_on_selector_all("[data-weight]", "bars => bars.map(bar => Number(bar.getAttribute('height')))")
    assert close([height / 116 for height in heights], measured["weights"][chosen])
    assert number(page, "measured") == pytest.approx(measured["scores"].std().item(), abs=1e-6)
    assert number(page, "predicted") == pytest.approx(math.sqrt(widget.d_k) / widget.temperature, abs=1e-6)
    assert number(page, "saturated") == (measured["largest"] >= 0.9).sum()
    assert number(page, "dead") == (measured["norm"] < 0.01).sum()
    dots = page.eval_on_selector_all(".tw-here", "dots => dots.map(dot => Number(dot.dataset.value))")
    assert close(dots, torch.stack([measured["entropy"].median(), measured["norm"].median()]))


def test_the_page_shows_torchs_numbers_through_every_change(visit):
    page, widget = visit("http"), TemperatureAndWidth()
    agrees(page, widget)
    slide(page, "width", WIDTHS.index(256))
    widget.d_k = 256
    agrees(page, widget)
    slide(page, "query", 17)
    widget.query = 17
    agrees(page, widget)
    for divisor in ("sqrt(d_k)", "d_k"):
        press(page, f"divisor-{divisor}")
        widget.divisor = divisor
        agrees(page, widget)
    slide(page, "width", WIDTHS.index(12))
    widget.d_k = 12
    agrees(page, widget)
    unfold(page)
    press(page, "along-temperature")
    agrees(page, widget)
    slide(page, "tau", 9)
    widget.divisor, widget.own = "own", 2 ** (9 / 4)
    agrees(page, widget)


def test_a_rule_follows_the_width_and_a_temperature_of_ones_own_stays(visit):
    page = visit()

    def shown():
        pressed = page.locator(":is([id*='-divisor-'], [id*='-along-'])[aria-pressed=true]")
        return page.text_content("output[for$='-tau']"), pressed.all_text_contents()

    assert shown() == ("1", ["1", "along dk"])
    press(page, "divisor-sqrt(d_k)")
    slide(page, "width", WIDTHS.index(64))
    assert shown() == ("8 = √dₖ", ["√dk", "along dk"])
    slide(page, "tau", 20)
    slide(page, "width", WIDTHS.index(256))
    assert shown() == ("32", ["along dk"])
    press(page, "divisor-d_k")
    assert shown()[0] == "256 = dₖ"
    assert page.get_attribute("[id$='-tau']", "aria-valuetext") == "256 = dₖ"


def test_curves_show_every_divisor_or_every_temperature(visit):
    page = visit()
    assert page.locator(".tw-line").count() == 6, "three divisors, twice"
    slide(page, "tau", 8)
    assert page.locator(".tw-line").count() == 8, "and one's own"
    unfold(page)
    press(page, "along-temperature")
    assert page.locator(".tw-line").count() == 2
    assert page.locator(".tw-mark").count() == 6


def test_a_prediction_comes_before_the_answer(visit):
    page = visit()
    slide(page, "width", 12)
    page.check("[id$='-predict']")
    assert not page.locator(".bw-cover svg, .bw-cover table").first.is_visible(), "the curves are answers"
    agrees(page, TemperatureAndWidth(4))
    assert page.locator(".bw-right, .bw-wrong").count() == 0
    page.keyboard.press("Tab")
    page.click(".bw-options button:text-is('It goes to nearly 1')")
    assert page.text_content(".bw-right").startswith("Yes: It goes to nearly 1.")
    assert page.evaluate("document.activeElement.className") == "bw-right", "a screen reader reads the answer"
    agrees(page, TemperatureAndWidth(256))
    page.click("text=Next question")
    agrees(page, TemperatureAndWidth(4))
    page.click(".bw-options button:text-is('It shrinks')")
    assert page.text_content(".bw-wrong").startswith("Not quite. The answer: It grows.")
    agrees(page, TemperatureAndWidth(16))
    for label in ("It stays about the same", "It goes to about 1/16", "Many times larger"):
        page.click("text=Next question")
        page.click(f".bw-options button:text-is('{label}')")
        assert page.locator(".bw-right").count() == 1
    page.click("text=Once more from the first")
    assert "1 of 5" in page.text_content(".bw-question")
    page.uncheck("[id$='-predict']")
    assert page.locator(".bw-question").count() == 0


def test_pictures_have_names_and_their_numbers_stand_in_words(visit):
    page, widget = visit(), TemperatureAndWidth(4)
    names = page.eval_on_selector_all(".bw svg", "all => all.map(svg => [svg.role, svg.ariaLabel])")
    assert [role for role, _ in names] == ["img"] * 4
    measured = widget.measure()
    best = measured["weights"][0].argmax().item()
    assert f"the largest is {measured['largest'][0]:.3f}, at key {best + 1}" in names[1][1]
    assert f"now {measured['norm'].median():.3f}" in names[3][1]
    words = page.locator(".bw-words li").all_text_contents()
    for j in range(KEYS):
        raw, weight = measured["raw"][0, j].item(), measured["weights"][0, j].item()
        assert words[j].startswith(f"key {j + 1}: score {raw:.3f}".rstrip("0").rstrip(".").replace("-", "−"))
        assert f"weight {weight:.3f}" in words[j]
    assert len(words) == KEYS + len(WIDTHS)
    assert f"median norm {measured['norm'].median():.3f}" in words[KEYS + WIDTHS.index(4)]
    assert page.get_attribute(".bw-panel", "role") == "status"


@pytest.mark.parametrize("width", [1280, 360])
def test_what_stands_below_a_slider_keeps_its_place_while_one_slides(visit, width):
    page = visit(width=width)
    unfold(page)
    for view, divisor in zip(("along-d_k", "along-temperature", "along-d_k"), DIVISORS, strict=True):
        press(page, view)
        press(page, f"divisor-{divisor}")
        assert layouts_while_sliding(page, "query", "width", "tau") == 1, (view, divisor)
