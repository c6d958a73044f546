"""Laws of the code model in the page: its tokens are the package's, its numbers PyTorch's, whatever is taken away."""

import itertools
import random
import re

import pytest
import torch
from bs4 import BeautifulSoup
from website import CROSSINGS, DRESS, bytes_sent, put, state_in

from attention_tutorial.models.code_model import held_out_files, load_code_model
from attention_tutorial.widgets import CodeReader
from attention_tutorial.widgets.base import STATIC
from attention_tutorial.widgets.code_reader import EXAMPLES, INVENTED, MOST_CHARACTERS

CLOSE = 1e-6

IN_NODE = """
const model = widget.theModel();
return given.map(([text, off]) => {
  const places = widget.read(model, widget.encode(text, model), off);
  return {
    likely: places.map((place) => [...widget.likely(model, place)]),
    weights: places.map(({ weights }) => weights.map((heads) => heads.map((row) => [...row]))),
  };
});
"""


TOKENS = "return given.map((text) => widget.encode(text, widget.theModel()));"


@pytest.fixture(scope="module")
def model():
    return load_code_model(torch.float64)


def code(file, length):
    return held_out_files()[file][:length]


STRANGE = [
    "", " ", "\n", "\n\n\n  \n", "\t\tif x:\r\n\t\t\ty\r\n", "x  =   1" + " " * 40 + "# far", " " * 60,
    "naïve = 'Ærøskøbing' + \"日本語\"", "🦜 = '🏳️‍🌈👩‍👩‍👧'", "e\u0301 \u00a0\u2009\ufeff\u200bx",
    "\x00\x07\x7f\u0085\u2028",
    "\ud83d alone, \udc9a and \ud800\ud800 \udc00\ud83d", "____init____ ===== ((((((([[[{{{", "a" * 300, "=" * 500,
    "print(\"don't\") ;; 3.14159e-10 @@ %% \\\\ `", "İıſK ǅ",
]  # fmt: skip


def test_strange_texts_have_the_tokens_of_python(run_in_node, model):
    dice = random.Random(3)
    letters = "ab_ \n\t()[]{}=.,:'\"#019é🦜\r\u00a0"
    texts = [*STRANGE, *("".join(dice.choices(letters, k=dice.randrange(60))) for _ in range(200)), code("trace", 900)]
    for text, ids in zip(texts, run_in_node("code_reader", TOKENS, texts), strict=True):
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        expected = [0, *model.tokens.encode(whole)]
        assert ids == expected[: model.context + 1], text


def test_no_text_that_is_cut_would_fit(model):
    assert max(map(len, model.tokens.contents)) * model.context < MOST_CHARACTERS


TEXTS = [
    "",
    "def f(x):\n    return x",
    code("copyreg", 550),
    "The quick brown fox. " * 12,
    "é🦜\t\r\n",
    code("sched", 400),
]


def test_every_number_is_pytorchs_with_all_heads_and_without_some(run_in_node, model):
    offs = [
        [],
        [[2, 1]],
        [[1, 1]],
        [[1, 3], [2, 2], [2, 4]],
        [list(head) for head in itertools.product((1, 2), range(1, 5))],
    ]
    cases = [*zip(TEXTS, itertools.cycle(offs)), *((TEXTS[1], off) for off in offs)]
    worst = 0.0
    for (text, off), answer in zip(cases, run_in_node("code_reader", IN_NODE, cases), strict=True):
        with torch.no_grad():
            read = model(model.encode(text), [tuple(head) for head in off])
        likely = torch.tensor(answer["likely"], dtype=torch.float64)
        worst = max(worst, (likely - read.logits[0].softmax(dim=-1)).abs().max().item())
        for i, layers in enumerate(answer["weights"]):
            for layer, heads in enumerate(layers):
                row = torch.tensor(heads, dtype=torch.float64)
                worst = max(worst, (row - read.weights[layer][0, :, i, : i + 1]).abs().max().item())
    print(f"\nlargest difference: {worst:.1e}")
    assert worst <= CLOSE


def test_a_text_that_grows_or_changes_is_read_as_if_it_were_new(run_in_node, model):
    """What an earlier reading had in common is used again."""
    text = code("secrets", 160)
    grown = [text[:100], text[:150], text[:140], text, "x" + text[1:], text, text[:60] + "!" + text[60:]]
    cases = [[step, off] for step in grown for off in ([], [[2, 1]])]
    for (step, off), answer in zip(cases, run_in_node("code_reader", IN_NODE, cases), strict=True):
        with torch.no_grad():
            expected = model(model.encode(step), [tuple(head) for head in off]).logits[0].softmax(dim=-1)
        assert torch.allclose(torch.tensor(answer["likely"], dtype=torch.float64), expected, atol=CLOSE, rtol=0)


PARTS_IN_NODE = """
const model = widget.theModel();
return given.map(([text, id, off]) => {
  const places = widget.read(model, widget.encode(text, model), off);
  return widget.partsOf(model, places, id, off);
});
"""


@torch.no_grad()
def parts_of(model, text, token, off):
    """Return what the token's own vector, the heads, and the norm's bias add to a logit, as PyTorch has it."""
    ids = model.encode(text)
    read = model(ids, off)
    own, heads = model.embedding(ids)[0, -1], torch.stack(read.added)[:, 0, :, -1]
    for layer, head in off:
        heads[layer - 1, head - 1] = 0.0
    parts = torch.cat([own[None], heads.flatten(0, 1)])
    deviation = (parts.sum(dim=0).var(correction=0) + model.last_norm.eps).sqrt()
    normed = (parts - parts.mean(dim=1, keepdim=True)) / deviation * model.last_norm.weight
    return [
        *(normed @ model.embedding.weight[token]),
        model.last_norm.bias @ model.embedding.weight[token],
    ], read.logits


def test_the_parts_of_a_logit_are_pytorchs_and_sum_to_it(run_in_node, model):
    cases = [
        [text, id, off] for text, id in ((TEXTS[1], 33), (TEXTS[2], 500)) for off in ([], [[2, 1]], [[1, 3], [2, 2]])
    ]
    for (text, id, off), answer in zip(cases, run_in_node("code_reader", PARTS_IN_NODE, cases), strict=True):
        expected, logits = parts_of(model, text, id, [tuple(head) for head in off])
        parts = [answer["own"], *itertools.chain(*answer["heads"]), answer["bias"]]
        assert parts == pytest.approx([float(part) for part in expected], abs=1e-5)
        assert sum(parts) == pytest.approx(float(logits[0, -1, id]), abs=1e-5)


KNOBS_IN_NODE = """
const model = widget.theModel();
const p = widget.likely(model, widget.read(model, widget.encode(given.text, model)).at(-1));
const odds = widget.knobsTurned(model, p, given.temperature, given.most);
return [[...odds], given.numbers.map((number) => widget.draw(odds, number))];
"""


@pytest.mark.parametrize(("temperature", "most"), [(1.0, 1024), (0.5, 5), (2.0, 20), (1.0, 1)])
def test_a_token_is_drawn_at_the_temperature_among_the_likeliest_that_are_text(run_in_node, model, temperature, most):
    text, numbers = TEXTS[1], [0.0, 0.3, 0.9, 0.999999, 1.0]
    given = {"text": text, "temperature": temperature, "most": most, "numbers": numbers}
    odds, drawn = run_in_node("code_reader", KNOBS_IN_NODE, given)
    with torch.no_grad():
        logits = model(model.encode(text)).logits[0, -1]
    is_text = torch.tensor([i > 0 and "\ufffd" not in model.tokens.text(i) for i in range(len(logits))])
    logits = logits.masked_fill(~is_text, -torch.inf)
    least = logits.topk(min(most, int(is_text.sum()))).values[-1]
    expected = (logits.masked_fill(logits < least, -torch.inf) / temperature).softmax(dim=-1)
    assert odds == pytest.approx(expected.tolist(), abs=CLOSE)
    for number, token in zip(numbers, drawn, strict=True):
        before = float(expected[:token].sum())
        assert before - CLOSE <= number <= before + float(expected[token]) + CLOSE
        assert expected[token] > 0


# ---- The class ----------------------------------------------------------------------------------------------------


def test_a_head_may_be_named_by_its_job():
    reader = CodeReader("x", head="copy")
    assert tuple(reader.head) in {tuple(job["head"]) for job in reader.jobs if job["job"] == "copy"}


def test_read_gives_what_is_shown_also_of_a_text_that_a_reader_has_typed():
    reader = CodeReader("for i in ra", heads_off=[(2, 1), (1, 2)])
    model = load_code_model(torch.float64)
    assert torch.equal(reader.read().logits, model(model.encode("for i in ra"), [(1, 2), (2, 1)]).logits)
    reader.text = "x = 1\n" * 200 + "\ud800"
    ids = model.tokens.encode("x = 1\n" * 200)[:255]
    assert torch.equal(reader.read().logits[0], model(torch.tensor([[0, *ids]]), [(1, 2), (2, 1)]).logits[0])


def test_the_table_says_what_the_model_expects_and_where_the_head_looks():
    reader = CodeReader("for i in ra", head=(1, 1))
    read = reader.read()
    likeliest = read.logits[0, -1].softmax(-1).max(dim=-1)
    guess = load_code_model().tokens.text(int(likeliest.indices))
    cells = f"<td>{guess} ({likeliest.values:.3f})</td><td>· ({read.weights[0][0, 0, -1].max():.3f})</td>"
    assert f'<th scope="row">ra</th>{cells}' in reader.static_html()
    assert "without head 2.1" in CodeReader("x", heads_off=[(2, 1)]).static_html()


def along(path):
    """Return points along a curve of the still, as complex numbers."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
    a, b, c, d = (x + 1j * y for x, y in zip(numbers[::2], numbers[1::2], strict=True))
    steps = [t / 20 for t in range(21)]
    return [(1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d for t in steps]


@pytest.mark.parametrize(("text", "head"), [(INVENTED, (2, 1)), ("f(a,\n  <b>)", (1, 1)), ("go gogo", (2, 1))])
def test_the_still_draws_where_heads_look_step_by_step_past_all_tokens_and_what_follows(model, text, head):
    reader, ids = CodeReader(text, head=head), model.encode(text)[0].tolist()
    read, texts = reader.read(), [model.tokens.text(i) for i in ids]
    soup = BeautifulSoup(reader.static_html(), "html.parser").select_one(".attention-widget-still")
    chance, likeliest = read.logits[0, -1].softmax(-1).max(dim=-1)
    letters = soup.select("text[textlength]")
    parts = [text.split("\n")[-1] for text in [*texts, model.tokens.text(int(likeliest))]]
    assert [letter.text.strip() for letter in letters] == [part.strip() for part in parts if part]
    sides = [
        [float(box[side]) for side in ("x", "y", "width", "height")] for box in soup.select("rect[stroke-opacity]")
    ]
    boxes = {token: (x, x + width, y, y + height) for token, (x, y, width, height) in enumerate(sides, start=1)}
    for letter in letters[: len(list(filter(None, parts[:-1])))]:
        x, y, length = (float(letter[name]) for name in ("x", "y", "textlength"))
        assert [a < x and x + length < b and c < y < d for a, b, c, d in boxes.values()].count(True) == 1

    start, steps = len(ids) - 1, []
    for layer, number in [head, (1, 1)][: head[0]]:
        weight, to = read.weights[layer - 1][0, number - 1, start, 1:].max(dim=-1)
        steps.append((start, int(to) + 1, f"head {layer}.{number}", f"{weight:.2f}"))
        start = int(to) + 1
    labels = [label.text for label in soup.select("text[text-anchor]")]
    assert labels == [f"{chance:.2f}", *(f"{by}: {weight}" for _, _, by, weight in steps)]
    assert all(f"{by} looks at “{texts[to].strip() or '·'}” ({weight})" in soup.p.text for _, to, by, weight in steps)
    for (start, to, *_), arrow in zip(steps, soup.select("path[fill=none]"), strict=True):
        points = along(arrow["d"])
        (a, b, c, _), (left, right, top, bottom) = boxes[start], boxes[to]
        assert points[0] == (a + b) / 2 + 1j * c
        assert points[-1] == (left + right) / 2 + 1j * (top - 7 if top == c else bottom + 7)
        assert not [z for z in points for a, b, c, d in boxes.values() if a < z.real < b and c < z.imag < d]


def test_halves_of_surrogate_pairs_do_not_reach_a_page():
    reader = CodeReader("x = '\ud83d'")
    assert reader.text == "x = '\ufffd'"
    reader.to_html().encode()


def test_what_the_button_says_of_the_weight_is_so():
    said = float(re.search(r"\((.*) MB\)", CodeReader.later)[1])
    assert said == round(sum(bytes_sent(STATIC / f"code_reader.{kind}") for kind in ("js", "css")) / 1e6, 1)
    assert (STATIC / "code_reader.js").stat().st_size < 1.2e6


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"text": 3}, TypeError, "text must be a str; got int"),
        ({"text": "x" * 3000}, ValueError, "text must have at most 255 tokens; got"),
        ({"text": "x", "head": (3, 1)}, ValueError, r"head must be .* from \(1, 1\) to \(2, 4\); got \(3, 1\)"),
        ({"text": "x", "head": "juggling"}, ValueError, "head must be .* or one of 'previous', .*; got 'juggling'"),
        ({"text": "x", "token": 2}, ValueError, "token must be from -2 to 1; got 2"),
        ({"text": "x", "token": "x"}, TypeError, "token must be an int; got str"),
        ({"text": "x", "heads_off": [(1, 5)]}, ValueError, r"heads_off must be .*; got \(1, 5\)"),
        ({"text": "x", "examples": {"a": {"words": "y"}}}, ValueError, "examples may have .*; got words"),
    ],
)  # fmt: skip
def test_a_mistake_is_explained(arguments, error, message):
    with pytest.raises(error, match=message):
        CodeReader(**arguments)


# ---- The page, in Chromium ----------------------------------------------------------------------------------------


@pytest.fixture
def page(visit):
    return visit()


ENDS_OF_ARCS = """() => {
  const tokens = [...document.querySelectorAll("[data-token]")].map((x) => x.getBoundingClientRect());
  const { left, top } = document.querySelector(".cr-arcs").getBoundingClientRect();
  const touched = ({ x, y }) => tokens.findIndex((box) =>
    left + x > box.left && left + x < box.right && top + y > box.top - 2 && top + y < box.bottom + 2);
  const thick = (arc) => Number(arc.style.strokeWidth);
  return [...document.querySelectorAll(".cr-arcs path")].sort((a, b) => thick(b) - thick(a)).map((arc) =>
    [touched(arc.getPointAtLength(0)), touched(arc.getPointAtLength(arc.getTotalLength()))]);
}"""


def agrees(page, reader):
    """Assert that tokens, weights, and probabilities after it are PyTorch's, and that arcs cross no token."""
    read, plain = reader.read(), CodeReader()
    plain.text = reader.text
    whole = plain.read().logits
    layer, head = reader.head
    shown = page.eval_on_selector_all("[data-token]", "all => all.map(x => [x.ariaPressed, x.dataset.weight])")
    at = [pressed for pressed, _ in shown].index("true")
    assert len(shown) == read.logits.size(1) and at == reader.token % len(shown)
    weights = [float(weight) for _, weight in shown if weight is not None]
    assert weights == pytest.approx(read.weights[layer - 1][0, head - 1, at, : at + 1].tolist(), abs=CLOSE)
    least = [weight for weight in weights if weight >= 0.05]
    assert page.evaluate(ENDS_OF_ARCS) == [[at, weights.index(weight)] for weight in sorted(least, reverse=True)]
    assert page.evaluate(CROSSINGS, [".cr-arcs path", "[data-token]"]) == 0
    values_of = "x => [x, ...x.querySelectorAll('[data-value]')].map(y => y.dataset.candidate ?? y.dataset.value)"
    rows = page.eval_on_selector_all("table:not(.cr-looks) [data-candidate]", f"all => all.map({values_of})")
    columns = [whole, read.logits] if reader.heads_off else [whole]
    likely = torch.stack([logits[0, at].softmax(dim=-1) for logits in columns])
    assert len(rows) == 5
    assert likely[-1].argmax() == int(rows[0][0])
    for token, *values in rows:
        assert [float(value) for value in values] == pytest.approx(likely[:, int(token)].tolist(), abs=CLOSE)


def test_what_is_typed_is_read_at_once_and_of_a_long_text_the_start(page):
    field = page.get_by_label("Type Python")
    agrees(page, CodeReader())
    field.press("Control+End")
    field.press_sequentially("u")
    agrees(page, CodeReader(EXAMPLES["an invented name"] + "u"))
    field.press_sequentially("g)\n")
    agrees(page, CodeReader(EXAMPLES["an invented name"] + "ug)\n"))
    for text in ("", "  ", "%$ §§ 🦜 ''' <b>x</b>\n\n\t", code("chunk", 300)):
        field.fill(text)
        agrees(page, CodeReader(text))
    long = "value = 3 + 4\n" * 90
    field.fill(long)
    assert "at most 255 tokens" in page.text_content(".bw-trouble")
    assert field.input_value() == long
    shown = CodeReader()
    shown.text = long
    assert shown.read().logits.size(1) == 256
    agrees(page, shown)
    field.fill("x")
    assert page.locator(".bw-trouble").count() == 0


def test_a_tap_and_the_arrow_keys_choose_a_token(page):
    page.locator("[data-token='9']").click()
    agrees(page, CodeReader(token=9))
    last = CodeReader().read().logits.size(1) - 1
    for key, token in (("ArrowRight", 10), ("ArrowLeft", 9), ("Home", 0), ("End", last)):
        page.keyboard.press(key)
        agrees(page, CodeReader(token=token))
    square = page.locator(".cr-map").bounding_box()["height"] / (last + 1)
    page.locator(".cr-map").click(position={"x": 1, "y": 20.5 * square})
    agrees(page, CodeReader(token=20))


def test_on_a_phone_too_arcs_keep_clear_of_the_tokens_and_it_is_said_where_the_head_looks(page):
    for width, head, token in itertools.product((1366, 390), ((2, 1), (2, 4)), (27, 28)):
        page.locator(f"[data-token='{token}']").dispatch_event("click")
        page.get_by_role("button", name=f"Look at head {head[0]}.{head[1]}").click()
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(DRESS, ["light", width])
        agrees(page, CodeReader(head=head, token=token))
        start, *others = CodeReader().read().weights[head[0] - 1][0, head[1] - 1, token].tolist()
        said = page.text_content(".bw-panel .bw-title")
        assert f"(token {others.index(max(others)) + 1}) with {max(others):.3f}" in said
        assert (f"(start), which only begins the text, gets {start:.3f}" in said) == (start > max(others))


def test_a_head_is_taken_away_with_wavy_lines_where_it_is_missed_put_back_and_chosen(page):
    reader = CodeReader()
    layer, head = reader.head
    copying = f"{layer}.{head}"
    page.get_by_role("button", name=f"Take away head {copying}, which copies").click()
    without = CodeReader(heads_off=[(layer, head)])
    agrees(page, without)
    ids = load_code_model().encode(without.text)[0]
    now, whole = (x.read().logits[0].softmax(-1)[torch.arange(len(ids) - 1), ids[1:]] for x in (without, reader))
    harder = (torch.nonzero(now < whole / 2).flatten() + 1).tolist()
    assert page.eval_on_selector_all(".cr-harder", "all => all.map(x => Number(x.dataset.token))") == harder
    assert f"{len(harder)} tokens of this text are less than half as likely" in page.text_content(".cr-price")
    page.get_by_role("button", name=f"Put head {copying} back").click()
    agrees(page, CodeReader())
    page.get_by_role("checkbox", name="1.3").click()
    page.get_by_role("checkbox", name="2.2").click()
    page.get_by_role("button", name="Look at head 2.4").click()
    agrees(page, CodeReader(head=(2, 4), heads_off=[(1, 3), (2, 2)]))
    page.get_by_role("button", name="Undo").click()
    agrees(page, CodeReader(head=(2, 4), heads_off=[(1, 3)]))


def test_examples_and_the_likeliest_token_can_be_undone(page):
    field = page.get_by_label("Type Python")
    field.fill("mine = 1")
    page.get_by_role("button", name="brackets in brackets").click()
    agrees(page, CodeReader(**EXAMPLES["brackets in brackets"]))
    page.get_by_role("button", name="Write its likeliest token").click()
    assert field.input_value() == "value = outer(first[index]"
    page.get_by_role("button", name="Undo").click()
    assert field.input_value() == "value = outer(first[index"
    page.get_by_role("button", name="Undo").click()
    assert field.input_value() == "mine = 1"
    assert page.get_by_role("button", name="Undo").is_disabled()


def slide(page, label, position):
    page.get_by_label(label).evaluate(
        "(x, value) => { x.value = value; x.dispatchEvent(new Event('input', { bubbles: true })); }", str(position)
    )


def test_two_knobs_change_what_is_drawn_and_say_how_likely_that_is(page, model):
    page.evaluate("() => { Math.random = () => 0.001; }")
    text, field = CodeReader().text, page.get_by_label("Type Python")
    columns = page.locator("table:not(.cr-looks):not(.cr-parts) thead th")
    assert columns.all_inner_texts() == ["probability"]
    slide(page, "Top-k", 0)
    assert columns.all_inner_texts() == ["probability", "as drawn"]
    page.get_by_role("button", name="Draw a token").click()
    assert field.input_value() == text + "u", "only the likeliest is left"
    page.get_by_role("button", name="Undo").click()
    slide(page, "Top-k", 1)
    slide(page, "Temperature", 20)
    with torch.no_grad():
        best = model(model.encode(text)).logits[0, -1].topk(2)
    odds = (best.values / 2).softmax(dim=-1).tolist()
    shown = page.locator("table:not(.cr-looks) [data-candidate] td:last-child")
    values = shown.evaluate_all("all => all.map((x) => Number(x.dataset.value))")
    assert values == pytest.approx([*odds, 0, 0, 0], abs=CLOSE)
    page.get_by_role("button", name="Draw a token").click()
    assert field.input_value() == text + model.tokens.text(int(best.indices.min())), "the first of the two by id"


def test_bars_show_what_each_head_adds_to_the_next_token_and_to_the_likeliest_after_the_last(page, model):
    def shown():
        return page.locator("[data-adds]").evaluate_all("all => all.map((x) => Number(x.dataset.adds))")

    text = CodeReader().text
    ids = model.encode(text)[0].tolist()
    likeliest = CodeReader().read().logits[0, -1].argmax()
    assert shown() == pytest.approx([float(part) for part in parts_of(model, text, likeliest, [])[0][:-1]], abs=1e-5)
    page.locator("[data-token='9']").click()
    before = model.tokens.decode(ids[1:10])
    assert shown() == pytest.approx([float(part) for part in parts_of(model, before, ids[10], [])[0][:-1]], abs=1e-5)
    page.get_by_role("button", name="Take away head 2.1, which copies").click()
    parts = parts_of(model, before, ids[10], [(2, 1)])[0]
    assert shown() == pytest.approx([float(part) for part in parts[:-1]], abs=1e-5)
    assert shown()[5] == 0


def test_on_a_page_the_bundle_comes_when_a_reader_asks_for_it_and_paper_gets_the_table(pages, widget_addresses):
    page = pages.take(viewport={"width": 360, "height": 900})
    page.goto(f"{widget_addresses['http']}/code_reader.html")
    assert not [url for _, url in page.heard if "widgets/code_reader" in url]
    still, table = (
        page.locator(f"[data-later-widget=code_reader] {part}") for part in (".attention-widget-still", "table")
    )
    assert still.is_visible() and not table.is_visible()
    page.emulate_media(media="print")
    assert table.is_visible() and not page.get_by_role("button", name=CodeReader.later).is_visible()
    page.emulate_media(media="screen")
    page.get_by_role("button", name=CodeReader.later).click()
    page.wait_for_selector("[data-mounted=yes]")
    assert not still.is_visible()
    agrees(page, CodeReader())
    pages.give_back(page)


def test_a_note_stands_above_and_a_state_of_ones_own_is_shown(browser):
    page = browser.new_page()
    reader = CodeReader("a = [b", head=(1, 2), token=2, heads_off=[(2, 3)], note="Watch the bracket.")
    put(page, reader)
    assert page.text_content(".bw-note") == "Watch the bracket."
    assert state_in(reader.to_html())["token"] == 2
    agrees(page, reader)
    page.close()
