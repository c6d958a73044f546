"""Laws of the bottleneck widget: its letters, words and weights are those that networks returned, in each place.

Networks here are random ones with large parameters, so that weights reach from nearly 0 to nearly 1. What the trained
networks of chapter 1 returned is looked at in the notebook as it is stored, and on the site's page.
"""

import itertools
import json
import re

import pytest
import torch
import traitlets
from bs4 import BeautifulSoup
from website import CROSSINGS, layouts_while_sliding, put, slide

from attention_tutorial.data.copying import copy_examples, spell
from attention_tutorial.data.translation import GLOSSES, draw_sentences, read_sentence
from attention_tutorial.models.seq2seq import Seq2Seq
from attention_tutorial.models.training import token_accuracy
from attention_tutorial.widgets import Bottleneck
from tools.record import RECORDED, record_of, stored_states

TRAINED_TO = 12
DIGITS = 5.1e-4  # weights are kept and shown to three decimals


def network(kind, seed=0, size=4.0, **options):
    """A random network; the larger its parameters, the sharper its weights."""
    model = Seq2Seq(11, d_hidden=8, attention=kind, generator=torch.Generator().manual_seed(seed), **options).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(size)
    return model


def draw_set(n, count=5, m=None):
    source, _ = copy_examples(count, n, generator=torch.Generator().manual_seed(n))
    target, _ = copy_examples(count, m or n, generator=torch.Generator().manual_seed(50 + n))
    return source, target


TEST_SETS = {1: draw_set(1), 20: draw_set(20), 7: draw_set(7, m=3), 3: draw_set(3, m=11), 12: draw_set(12, count=9)}
KINDS = [("dot", 4.0), ("additive", 4.0), ("dot", 0.1), ("dot", 40.0)]


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}", scope="module")
def made(request):
    """A widget of two networks, and the networks."""
    plain, attentive = network("none", 1), network(request.param[0], 2, request.param[1])
    return Bottleneck.of(plain, attentive, TEST_SETS, trained_to=7, examples=5), plain, attentive


def returned(attentive, n):
    source, target = TEST_SETS[n]
    return attentive.generate(source, target.size(1))


# ---- What the class keeps -----------------------------------------------------------------------------------------


def test_texts_and_weights_are_what_the_networks_returned(made):
    widget, plain, attentive = made
    assert [case["length"] for case in widget.cases] == [1, 3, 7, 12, 20]
    for case in widget.cases:
        n = case["length"]
        source, target = TEST_SETS[n]
        tokens, weights = returned(attentive, n)
        alone, _ = plain.generate(source, target.size(1))
        for name, ids in [("read", source), ("wanted", target), ("plain", alone), ("attentive", tokens)]:
            assert case[name] == [spell(row) for row in ids[:5]]
        for k in range(5):
            assert torch.allclose(widget.weights(n, k + 1), weights[k], rtol=0, atol=DIGITS)
        expected = [token_accuracy(model, source, target).mean().item() for model in (plain, attentive)]
        assert case["accuracy"] == pytest.approx(expected, abs=1e-12)
        assert case["total"] == len(source)


def test_the_networks_that_are_shown_by_default_are_called_untrained():
    widget = Bottleneck()
    assert "untrained" in widget.note
    assert widget.trained_to is None
    assert all(share < 0.4 for case in widget.cases for share in case["accuracy"])
    assert Bottleneck().state() == widget.state()


def test_without_a_script_the_page_has_tables(made):
    widget, *_ = made
    soup = BeautifulSoup(widget.to_html(), "html.parser")
    by_length, texts = soup.select("table")
    for row, case in zip(by_length.select("tbody tr"), widget.cases, strict=True):
        assert row.th.text == str(case["length"])
        assert [float(td.text) for td in row.select("td")] == pytest.approx(case["accuracy"], abs=5.1e-4)
    shown = [td.text for td in texts.select("td") if td.text]
    assert shown == [widget.cases[-1][name][0] for name in ("read", "wanted", "plain", "attentive")]
    assert "untrained" in Bottleneck().static_html()


def test_state_from_a_page_chooses_the_weights():
    widget = Bottleneck(length=4)
    first = widget.weights()
    widget.length, widget.sequence = 8, 3
    assert widget.weights().shape == (8, 8)
    assert torch.equal(widget.weights(), widget.weights(8, 3))
    assert torch.equal(widget.weights(4, 1), first)
    with pytest.raises(ValueError, match="no sequence 9 of length 8"):
        widget.weights(8, 9)


def models(**changes):
    return {"plain": network("none"), "attentive": network("dot"), "test_sets": {3: draw_set(3)}} | changes


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"length": 5}, ValueError, "length must be one of 1, 2, 4, 8, 12, 16, 20; got 5"),
        ({"length": 4, "step": 5}, ValueError, "step must lie between 1 and 4; got 5"),
        ({"sequence": 5}, ValueError, "sequence must lie between 1 and 4; got 5"),
        (models(examples=0), ValueError, "examples must be at least 1"),
        (models(trained_to=0), ValueError, "trained_to must be at least 1"),
        (models(plain="none"), TypeError, "plain must be a Seq2Seq; got str"),
        (models(plain=network("dot")), ValueError, "plain must be a network without attention; got attention='dot'"),
        (models(attentive=network("none")), ValueError, "attentive must be a network with attention; got attention='n"),
        (models(test_sets=[draw_set(3)]), TypeError, "test_sets must map each length to .source, target.; got list"),
        (models(test_sets={}), ValueError, "test_sets must hold at least one length"),
        (models(test_sets={"3": draw_set(3)}), TypeError, "a length in test_sets must be an int; got str"),
        (
            models(test_sets={4: draw_set(3)}),
            ValueError,
            r"test_sets\[4\] must be source .batch, 4.*got \(5, 3\) and \(5, 3\)",
        ),
        (models(test_sets={3: (draw_set(3)[0], draw_set(3, 4)[1])}), ValueError, r"got \(5, 3\) and \(4, 3\)"),
        (
            models(test_sets={3: draw_set(3, count=2)}),
            ValueError,
            r"test_sets\[3\] must hold at least 4 sequences.*got 2",
        ),
    ],
)
def test_a_mistake_is_explained(arguments, error, message):
    make = Bottleneck.of if "plain" in arguments else Bottleneck
    with pytest.raises(error, match=message):
        make(**arguments)


SENTENCE = ("the idea was praised in 2020", "l'idea è stata lodata nel 2020")  # 6 words, and 7


def with_sentences(*written, rows=7):
    weights = torch.rand(rows, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    sentence = (*SENTENCE, *written, weights)
    widget = Bottleneck.of(**models(), sentences=[sentence])
    return Bottleneck._showing(**widget.state() | {"unit": "word", "length": 6}), weights


@pytest.mark.parametrize(
    ("written", "shown", "share"),
    [
        (SENTENCE[1], "l' idea è stata lodata nel 2020", 1),
        ("il libro è stato lodato nel 2020", "il libro è stato lodato nel 2020", 3 / 7),
        ("la rete dell'idea è stata lodata nel 2020", "la rete dell' idea è stata lodata", 0),
        ("idea", "idea – – – – – –", 0),
    ],
)
def test_a_sentence_is_shown_as_far_as_its_right_translation_goes(written, shown, share):
    widget, weights = with_sentences(written, SENTENCE[1])
    case = widget.cases[-1]
    texts = [case[name] for name in ("unit", "length", "read", "wanted", "plain", "attentive")]
    right = "l' idea è stata lodata nel 2020"
    assert texts == ["word", 6, [SENTENCE[0]], [right], [shown], [right]]
    assert case["accuracy"] == pytest.approx([share, 1])
    assert torch.allclose(widget.weights(), weights, rtol=0, atol=DIGITS)
    assert shown in widget.static_html() or "&#x27;" in widget.static_html()


def test_each_italian_word_has_its_english_from_the_dictionary():
    widget, _ = with_sentences("la rete è stata lodata nel 2020", "un' idea")
    case = widget.cases[-1]
    assert case["glosses"] == {word: GLOSSES[word] for word in "l' idea è stata lodata nel 2020 la rete".split()}
    soup = BeautifulSoup(widget.static_html(), "html.parser")
    english = [row.select("td")[1].text for row in soup.select("table")[1].select("tbody tr")]
    right = "the idea has been praised in 2020"
    assert english == [SENTENCE[0], right, "the network has been praised in 2020", "un' idea – – – – –"]


@pytest.mark.parametrize("rows", [3, 9])
def test_weights_of_a_sentence_end_with_what_is_shown(rows):
    widget, weights = with_sentences("idea", SENTENCE[1], rows=rows)
    expected = torch.cat([weights, torch.zeros(7, 6)])[:7] if rows < 7 else weights[:7]
    assert torch.allclose(widget.weights(), expected.double(), rtol=0, atol=DIGITS)


def test_sentences_that_do_not_fit_are_refused():
    sentence = (*SENTENCE, *SENTENCE[1:] * 2)
    with pytest.raises(ValueError, match=r"the weights of 'the idea.*' must be .words written, 6.; got .7, 5."):
        Bottleneck.of(**models(), sentences=[(*sentence, torch.rand(7, 5))])
    with pytest.raises(TypeError, match=r"the weights of a sentence must .*; got list"):
        Bottleneck.of(**models(), sentences=[(*sentence, [[0.5]])])
    with pytest.raises(ValueError, match=r"sentences must differ in length; got sentences of .6, 6. words"):
        Bottleneck.of(**models(), sentences=[(*sentence, torch.rand(7, 6))] * 2)


# ---- What the module makes of it, in Node -------------------------------------------------------------------------

IN_NODE = """
const { cases, names, widths } = given;
const seen = cases.map((one) => one.read.map((_, k) => {
  const look = widget.look(one, k + 1);
  const told = look.wanted.map((_, i) => widget.describeStep(look, i + 1, names));
  const words = look.wanted.map((_, i) => widget.weightsInWords(look, i + 1));
  return { ...look, told, words, largest: look.weights.map(widget.argmax) };
}));
const places = widths.map((width) => [1, 2, 10, 20, 40].map((n) => widget.layOut(Array(n).fill("a"), "letter", width)));
return { seen, places };
"""


WIDTHS = [234, 310, 360, 560]  # of drawings, in pixels: from a phone of 320 to the book on a desk


@pytest.fixture(scope="module")
def node(made, run_in_node):
    widget, _, attentive = made
    inputs = {"cases": widget.cases, "names": widget.networks, "widths": WIDTHS}
    return run_in_node("bottleneck", IN_NODE, inputs), widget, attentive


def test_the_browser_reads_the_weights_that_the_network_returned(node):
    told, widget, attentive = node
    for case, seen in zip(widget.cases, told["seen"], strict=True):
        _, weights = returned(attentive, case["length"])
        for k, picture in enumerate(seen):
            shown = torch.tensor(picture["weights"], dtype=torch.float64)
            assert shown.shape == weights[k].shape
            assert torch.allclose(shown, weights[k], rtol=0, atol=DIGITS)
            chosen = weights[k].gather(1, torch.tensor(picture["largest"])[:, None])
            assert torch.allclose(chosen, weights[k].amax(dim=1, keepdim=True), rtol=0, atol=2 * DIGITS)


def test_right_letters_are_counted_as_the_accuracy_counts_them(node):
    told, widget, _ = node
    for case, seen in zip(widget.cases, told["seen"], strict=True):
        for network_index, name in enumerate(("plain", "attentive")):
            for shown in seen:
                assert shown[name]["right"] == [
                    a == b for a, b in zip(shown[name]["wrote"], shown["wanted"], strict=True)
                ]
            if case["total"] == len(seen):  # every sequence of the exam is shown
                share = sum(shown[name]["count"] for shown in seen) / sum(len(shown["wanted"]) for shown in seen)
                assert case["accuracy"][network_index] == pytest.approx(share, abs=1e-12)


def test_sentences_tell_the_letters_and_the_weights(node):
    told, *_ = node
    for shown in (shown for seen in told["seen"] for shown in seen):
        for i, sentence in enumerate(shown["told"]):
            assert f"the letter to write is {shown['wanted'][i]}." in sentence["wanted"]
            for name in ("plain", "attentive"):
                verdict = "right" if shown[name]["right"][i] else "wrong"
                assert f"writes {shown[name]['wrote'][i]}, which is {verdict}." in sentence[name]
            number, letter, weight = re.search(
                r"at letter (\d+), (.), with weight ([\d.]+)\.$", sentence["attentive"]
            ).groups()
            assert shown["read"][int(number) - 1] == letter
            assert float(weight) == pytest.approx(max(shown["weights"][i]), abs=5.1e-4)
            pairs = re.findall(r"([·a-z]) (\d(?:\.\d+)?)", shown["words"][i].partition(": ")[2])
            assert [letter for letter, _ in pairs] == shown["read"]
            assert [float(weight) for _, weight in pairs] == pytest.approx(shown["weights"][i], abs=5.1e-4)


def test_letters_stand_side_by_side_inside_the_drawing_and_can_be_read(node):
    for width, rows in zip(WIDTHS, node[0]["places"], strict=True):
        for row in rows:
            places, font = [spot["x"] for spot in row["spots"]], row["font"]
            steps = [b - a for a, b in itertools.pairwise(places)]
            assert steps == pytest.approx(steps[:1] * len(steps))
            assert row["rows"] == 1 and 0 < places[0] <= places[-1] < width
            assert places[0] + places[-1] == pytest.approx(width)
            assert font >= 11 or len(places) > 20
            assert 0.65 * font < min(steps, default=width), "a letter is about two thirds as wide as high"


WORDS = "the transformer formula that the engine needs was discovered in 2009".split()


@pytest.mark.parametrize("width", WIDTHS)
def test_words_fill_as_few_rows_as_hold_them_in_their_order(run_in_node, width):
    layout = run_in_node("bottleneck", 'return widget.layOut(given[0], "word", given[1])', [WORDS, width])
    rows = [[spot for spot in layout["spots"] if spot["row"] == row] for row in range(layout["rows"])]
    assert [spot["x"] for row in rows for spot in row] == [spot["x"] for spot in layout["spots"]]
    for row in rows:
        ends = [end for spot in row for end in (spot["x"] - spot["box"] / 2, spot["x"] + spot["box"] / 2)]
        assert ends == sorted(ends) and ends[0] >= 0 and ends[-1] <= width, "none covers another or leaves the drawing"
        assert ends[0] + ends[-1] == pytest.approx(width), "each row stands in the middle"
    taken = sum(spot["box"] + 4 for spot in layout["spots"])
    assert taken / width <= len(rows) <= taken / width + 1.5 and layout["font"] >= 11


# ---- The page, in Chromium ----------------------------------------------------------------------------------------


def agrees(page, widget, step, until=None):
    """Assert that letters, marks and weights on the page are those of the widget at a step.

    Only so many of the letters are written, if it is said how many.
    """
    case = next(case for case in widget.cases if (case["unit"], case["length"]) == (widget.unit, widget.length))
    read, wanted, *wrote = (case[key][widget.sequence - 1].split() for key in ("read", "wanted", "plain", "attentive"))
    weights = widget.weights()
    for name, text in zip(("plain", "attentive"), wrote, strict=True):
        text = text[:until]
        count = sum(map(str.__eq__, text, wanted))
        assert page.text_content(f".bot-score[data-network={name}]") == f"{count} of {len(text)} right"
        panel = page.locator(".bot-network-panel").nth(("plain", "attentive").index(name))
        marks = panel.locator("[data-right]").evaluate_all("all => all.map(one => one.dataset.right === 'true')")
        assert marks == list(map(str.__eq__, text, wanted))
        signs = panel.locator(".bot-sign").all_text_contents()
        glosses = [case.get("glosses", {}).get(word, "") for word in text]
        pairs = zip(marks, glosses, strict=True)
        assert signs == [(gloss or "✓") if right else f"✕ {gloss}".strip() for right, gloss in pairs]
        letters = panel.locator(".bot-letter").all_text_contents()
        assert [letter for letter in letters if letter != "one vector"] == read + text
        assert panel.locator("rect.bot-now").get_attribute("data-written") == str(step - 1)
    row = page.eval_on_selector_all(".bot-read[data-value]", "all => all.map(one => Number(one.dataset.value))")
    assert row == weights[step - 1].tolist()
    cells = page.eval_on_selector_all(
        ".bot-matrix [data-row]",
        "all => all.map(one => [one.dataset.row, one.dataset.column, one.dataset.value].map(Number))",
    )
    assert len(cells) == weights.numel()
    assert all(value == weights[int(i), int(j)].item() for i, j, value in cells)
    said = f"Step {step} of {len(wanted)}: the {widget.unit} to write is {wanted[step - 1]}."
    assert said in page.text_content(".bw-panel")


def test_every_control_is_followed_by_letters_and_weights(visit):
    page = visit("http")
    agrees(page, Bottleneck(), 1)
    slide(page, "step", 17)
    agrees(page, Bottleneck(), 17, until=17)
    slide(page, "length", 3)
    agrees(page, Bottleneck(length=8), 8)
    page.select_option("[id$='-sequence']", "3")
    agrees(page, Bottleneck(length=8, sequence=3), 8)
    slide(page, "length", 0)
    agrees(page, Bottleneck(length=1, sequence=3), 1)


def test_time_goes_on_from_the_first_letter_read_to_the_last_one_written(visit):
    page, widget = visit(), Bottleneck(length=8)
    slide(page, "length", 3)
    shown = "all => all.map(x => !x.classList.contains('bot-later'))"
    for taken in (0, 3, 8):
        slide(page, "step", taken - 8)
        for panel in page.locator(".bot-network-panel").all():
            assert panel.locator(".bot-read").evaluate_all(shown) == [j < taken for j in range(8)]
            assert panel.locator("[data-written], .bot-flow").count() == 0, "nothing is written while it reads"
        assert page.locator(".bot-in").evaluate_all(shown) == [j < taken for j in range(8)]
        assert page.locator(".bot-going").count() == (taken > 0)
        filled, whole = (page.locator(part).get_attribute("width") for part in (".bot-full", ".bot-neck"))
        assert float(filled) == pytest.approx(float(whole) * taken / 8), "the vector has taken in so many"
    assert "Letter 8 of 8 is read: " in page.text_content(".bw-panel")
    for step in (1, 5, 8):
        slide(page, "step", step)
        agrees(page, widget, step, until=step)
        assert page.locator(".bot-row:not(.bot-later)").count() == step


def test_a_row_can_be_pointed_at(visit):
    page = visit()
    page.locator(".bot-row").nth(6).click()
    agrees(page, Bottleneck(), 7)


def test_drawings_and_tables_say_in_words_what_they_show(visit):
    page = visit()
    slide(page, "step", 3)
    names = page.eval_on_selector_all(
        ".bottleneck svg[role=img]", "all => all.map(one => one.getAttribute('aria-label'))"
    )
    assert len(names) == 3
    assert names[0].startswith("One vector: writes")
    assert names[1].startswith("Attention: writes")
    assert "Row 3" in names[2]
    page.click(".bw-words summary")
    rows = page.locator(".bw-words tbody tr").all_inner_texts()
    cases = Bottleneck().cases
    assert [re.split(r"\s+", row)[0] for row in rows] == [str(case["length"]) for case in cases]
    shares = [[float(share) for share in re.split(r"\s+", row)[1:]] for row in rows]
    assert shares == [pytest.approx(case["accuracy"], abs=5.1e-4) for case in cases]
    assert "untrained" in page.text_content(".bw-note")


@pytest.mark.parametrize("width", [1280, 640, 360, 320])  # 640: a desk at 200 %
def test_letters_and_numbers_can_be_read_and_stand_whole(visit, width):
    page = visit(width=width)
    for length in range(7):
        slide(page, "length", length)
        small = page.eval_on_selector_all(
            ".bottleneck svg text",
            "all => all.filter(x => parseFloat(getComputedStyle(x).fontSize) * x.getScreenCTM().a < 10.95)"
            ".map(x => x.outerHTML)",
        )
        assert small == []
        cut = page.eval_on_selector_all(
            ".bottleneck p > *, .bottleneck svg text",
            "all => all.filter(x => x.getBoundingClientRect().right > "
            "x.closest('.bw-pair > div, .bw > *').getBoundingClientRect().right + 1).map(x => x.outerHTML)",
        )
        assert cut == []


@pytest.mark.parametrize("width", [830, 390, 320])
def test_words_can_be_read_and_stand_whole_in_their_boxes(browser, width):
    page = browser.new_page(viewport={"width": width, "height": 844})
    put(page, Bottleneck.recorded(unit="word", length=11, step=2))
    outside = page.eval_on_selector_all(
        ".bot-network rect:is(.bot-read, [data-written])",
        """all => all.filter((box, k) => {
          const apart = (a, b) => a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top;
          const others = all.filter((one, l) => l > k && one.ownerSVGElement === box.ownerSVGElement);
          const [out, word] = [box, box.nextElementSibling].map(x => x.getBoundingClientRect());
          const sign = box.nextElementSibling.nextElementSibling, wide = box.matches("[data-written]")
            && sign.getBoundingClientRect().width > out.width + 4;
          const svg = box.ownerSVGElement.getBoundingClientRect();
          const size = parseFloat(getComputedStyle(box.nextElementSibling).fontSize) * box.getScreenCTM().a;
          return size < 10.95 || wide || word.left < out.left || word.right > out.right
            || out.left < svg.left || out.right > svg.right || out.bottom > svg.bottom
            || others.some(one => !apart(out, one.getBoundingClientRect()));
        }).map(x => x.nextElementSibling.textContent)""",
    )
    assert outside == []
    heights = page.locator("svg.bot-network").evaluate_all("all => all.map(x => Math.round(x.clientHeight))")
    assert len(set(heights)) == 1, "both drawings are as high"
    page.close()


def test_nothing_moves_while_one_slides_through_the_steps(visit):
    for width in (1280, 360):
        page = visit(width=width)
        assert layouts_while_sliding(page, "step") == 1


# ---- Chapter 1, as it is stored and as the site shows it ----------------------------------------------------------


@pytest.fixture(scope="module")
def chapter():
    """The widget of chapter 1, with the state that the notebook holds."""
    (state,) = (state for state in stored_states() if not state["compact"])
    assert len(json.dumps(state)) < 40_000
    return Bottleneck._showing(**state)


def test_the_recording_is_of_the_networks_that_the_chapter_trained():
    record = RECORDED / "bottleneck.json"
    assert json.loads(record.read_text(encoding="utf-8")) == record_of(), "run `python -m tools.record`"
    assert record.stat().st_size < 12_000
    (opening,) = (state for state in stored_states() if state["compact"])
    assert opening == Bottleneck.recorded(unit="word", length=11, step=2).state()


def test_the_recording_shows_what_the_opening_says():
    cases = {(case["unit"], case["length"]): case for case in Bottleneck.recorded().cases}
    wanted, plain, attentive = (cases["word", 11][name][0] for name in ("wanted", "plain", "attentive"))
    assert attentive == wanted
    assert plain == read_sentence("the simple sentence of the rule will be introduced in 2030").italian
    wanted, *wrote = (cases["letter", 12][name][0].split() for name in ("wanted", "plain", "attentive"))
    assert [sum(map(str.__eq__, wanted, letters)) for letters in wrote] == [3, 12]
    for unit, length, offered in (("letter", 5, "1, 2, 4, .*"), ("word", 12, "7, 11")):
        with pytest.raises(ValueError, match=rf"length must be one of {offered}; got {length}"):
            Bottleneck.recorded(unit=unit, length=length)
    with pytest.raises(ValueError, match="unit must be one of 'letter', 'word'; got 'token'"):
        Bottleneck.recorded(unit="token")
    with pytest.raises(ValueError, match="step must lie between 1 and 9; got 10"):
        Bottleneck.recorded(unit="word", length=11, step=10)


def test_the_opening_shows_what_was_written_and_its_english_before_anything_is_pressed(browser):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    put(page, Bottleneck.recorded(unit="word", length=11, step=2))
    assert page.locator(".bot-score").all_text_contents() == ["5 of 9 right", "9 of 9 right"]
    english = [
        [
            sign.removeprefix("✕ ")
            for sign in page.locator(".bot-network-panel").nth(k).locator(".bot-sign").all_text_contents()
        ]
        for k in range(2)
    ]
    assert english[0] == "the/sentence/simple/of the/rule/will be/introduced/in/2030".split("/")
    assert english[1] == "the/engine/simple/of the/sentence/will be/introduced/in/2030".split("/")
    names = page.locator("svg.bot-network").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert all(f"word by word: {' '.join(words)};" in name for words, name in zip(english, names, strict=True))
    assert "5 of 9 right" in names[0] and "9 of 9 right" in names[1]
    tops = [page.locator(one).first.bounding_box()["y"] for one in ("svg.bot-network", ".bw-player", ".bw-controls")]
    assert tops == sorted(tops), "what they wrote stands before what one can press"
    for moment in (-11, -6, 0, 1, 7, 9):  # on a phone both networks and what moves them fit on one screen
        slide(page, "step", moment)
        drawn = [one.bounding_box() for one in page.locator("svg.bot-network").all()]
        player, time = page.locator(".bw-player").bounding_box(), page.get_by_text("Time", exact=True).bounding_box()
        assert drawn[0]["y"] == drawn[1]["y"] and drawn[0]["x"] + drawn[0]["width"] <= drawn[1]["x"]
        assert player["y"] + player["height"] - drawn[0]["y"] < 664 and time["width"] > 20
        kept = page.locator(".bot-kept").count()
        assert kept == (max(11 + moment, 0) if moment <= 0 else 11)
        assert page.locator(".bot-open, [data-written]").count() == 18, "what is still to be written has its place"
        texts = ":is([data-read], [data-written]) + text, .bot-sign, .bot-side"
        assert page.evaluate(CROSSINGS, [".bot-in, .bot-flow", texts]) == 0, "no line crosses a letter"
    page.close()


def test_on_a_phone_both_networks_are_in_sight_while_it_plays(browser):
    page = browser.new_page(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    put(page, Bottleneck.recorded(unit="word", length=11))
    page.add_style_tag(content="body { padding-block: 50rem }")
    page.locator(".bw-player").evaluate("(player) => player.scrollIntoView()")
    tops = "[...document.querySelectorAll('.bot-network')].map((one) => one.getBoundingClientRect().top)"
    assert min(page.evaluate(tops)) < 0
    page.get_by_role("button", name="Play").click()
    assert min(page.evaluate(tops)) > 56  # below the head of the page
    assert page.locator(".bot-network").last.evaluate("(one) => one.getBoundingClientRect().bottom") < 844
    assert page.get_by_role("button", name="Pause").bounding_box()["y"] < 800, "and it can be paused"
    page.close()


def test_the_sentences_are_the_first_of_the_exam_by_their_rule(chapter):
    exam = draw_sentences(300, generator=torch.Generator().manual_seed(9), held_out=True)
    plain = [s for s in exam if s.adjective and f"{s.english}{s.italian}".replace(" ", "").isalnum()]
    shown = {case["length"]: case for case in chapter.cases if case["unit"] == "word"}
    assert list(shown) == [7, 11]
    for n, case in shown.items():
        first = next(s for s in plain if len(s.english.split()) == n)
        assert [case["read"], case["wanted"]] == [[first.english], [first.italian]]


def test_the_small_form_without_a_script_has_the_texts_alone_what_is_shown_first():
    for unit, length, order in (("letter", 4, "4l 12l 7w 11w"), ("word", 11, "7w 11w 4l 12l")):
        soup = BeautifulSoup(Bottleneck.recorded(unit=unit, length=length).to_html(), "html.parser")
        captions = re.findall(r"Sequence 1 of (\d+) ([lw])", " ".join(one.text for one in soup.select("caption")))
        assert " ".join(map("".join, captions)) == order


def test_the_small_form_counts_what_is_right(browser):
    page = browser.new_page()
    put(page, Bottleneck.recorded(unit="word", length=11))
    for unit in ("word", "letter"):
        page.click(f"[id$='-unit-{unit}']")
        for place, case in enumerate(case for case in Bottleneck.recorded().cases if case["unit"] == unit):
            wanted, *written = (case[name][0].split() for name in ("wanted", "plain", "attentive"))
            right = [sum(map(str.__eq__, wanted, text)) for text in written]
            slide(page, "length", place)
            said = f"Of {len(wanted)} {unit}s, one vector gets {right[0]} right, attention {right[1]}."
            said += " Below each Italian word is its English." if unit == "word" else ""
            assert page.locator(".bw-said > div > :first-child").inner_text() == said.replace(
                "Of 1 letters", "Of 1 letter"
            )
    page.close()


def test_letters_begin_with_the_longest_that_were_practised(browser):
    page = browser.new_page()
    put(page, Bottleneck.recorded(unit="word", length=11))
    assert page.get_attribute("[id$='-length'][type=range]", "aria-valuetext") == "11 words"
    page.click("[id$='-unit-letter']")
    assert page.get_attribute("[id$='-length'][type=range]", "aria-valuetext") == "12 letters"
    page.close()


def test_the_chapter_shows_its_own_test_sequences_unpicked(chapter):
    copies = [case for case in chapter.cases if case["unit"] == "letter"]
    assert [case["length"] for case in copies] == [1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
    assert chapter.trained_to == TRAINED_TO
    assert chapter.note == ""
    for case in copies:
        n = case["length"]
        source, target = copy_examples(200, n, generator=torch.Generator().manual_seed(100 + n))
        shown = len(case["read"])
        assert shown >= 4
        assert case["read"] == [spell(row) for row in source[:shown]]
        assert case["wanted"] == [spell(row) for row in target[:shown]]
        for k in range(shown):
            weights = chapter.weights(n, k + 1)
            assert torch.allclose(weights.sum(dim=1), torch.ones(n).double(), atol=n * DIGITS)
            assert (weights >= 0).all()


def test_the_chapters_networks_show_the_bottleneck(chapter):
    accuracy = {case["length"]: case["accuracy"] for case in chapter.cases if case["unit"] == "letter"}
    assert accuracy[12][0] < 0.55 < 0.85 < accuracy[12][1]
    assert accuracy[20][0] < 0.4 < 0.5 < accuracy[20][1] < accuracy[12][1]


def test_the_sites_page_shows_what_the_notebook_holds(chapter, site, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto((site / "notebooks" / "01_bottleneck.html").as_uri())
    page.wait_for_selector("[data-widget=bottleneck][data-mounted=yes]")
    page.locator("[data-widget=bottleneck]").first.evaluate("small => small.remove()")  # the opening has its own test
    page.wait_for_selector("[data-widget=bottleneck][data-mounted=yes]")
    agrees(page, chapter, chapter.step)
    slide(page, "length", 10)
    chapter.length = 20
    agrees(page, chapter, chapter.step)
    assert page.get_attribute("[id$='-length'][type=range]", "aria-valuetext") == "20 letters, not practised"
    page.click("[id$='-unit-word']")
    shown = Bottleneck._showing(**chapter.state() | {"unit": "word", "length": 11})
    agrees(page, shown, chapter.step)
    context.close()


def test_a_length_that_was_not_handed_over_is_refused():
    widget = Bottleneck(length=8)
    with pytest.raises(traitlets.TraitError, match="length must be one of"):
        widget.length = 5
    assert widget.length == 8
    assert "of 8 letters" in widget.static_html()
