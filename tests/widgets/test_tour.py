"""Laws of the guided tours: short cards, from outside in, that light up what they speak of and say what is shown."""

import re

import pytest
import torch
from website import hard_to_tap, press, put, serious_findings

from attention_tutorial.models.code_model import load_code_model
from attention_tutorial.models.translator import load_translator
from attention_tutorial.widgets import CodeReader, Translator

TOURED = {"translator": Translator, "code_reader": CodeReader}
CARDS = {Translator: 12, CodeReader: 10}


@pytest.fixture(params=TOURED, scope="module")
def toured(request, pages):
    """A page with one of the widgets, and the class of the widget."""
    page = pages.take(viewport={"width": 390, "height": 780}, reduced_motion="reduce")
    put(page, TOURED[request.param]())
    yield page, TOURED[request.param]
    failures = [what for kind, what in page.heard if kind == "failure"]
    pages.give_back(page)
    assert failures == []


def card(page):
    return page.locator(".bw-card [role=status]").inner_text()


def walk(page, cards):
    """Open the tour and read all cards."""
    press(page, "tour")
    read = []
    for place in range(cards):
        read.append(card(page))
        assert read[-1].startswith(f"{place + 1} of {cards}")
        press(page, "card-next")
    assert page.locator(".bw-card").count() == 0, "the last button ends the tour"
    return read


def numbers(text):
    return [float(number.replace(",", "").replace("−", "-")) for number in re.findall(r"−?\d[\d,]*\.?\d*", text)]


def test_each_card_lights_up_one_part_and_it_is_in_sight(toured):
    page, widget = toured
    cards = CARDS[widget]
    before = page.locator(".bw-panel").inner_text()
    press(page, "tour")
    titles = set()
    for place in range(cards):
        titles.add(card(page).split(":", 1)[1].split("\n")[0])
        assert card(page).startswith(f"{place + 1} of {cards}: ")
        lit = page.locator(".bw-lit")
        assert lit.count() == 1
        part, panel = lit.bounding_box(), page.locator(".bw-card").bounding_box()
        seen = min(part["y"] + part["height"], panel["y"]) - max(part["y"], 0)
        assert seen >= 0.85 * min(part["height"], panel["y"]), (place, part, panel)
        assert page.evaluate("document.activeElement.id").endswith("-card-next")
        assert page.locator(".bw-panel").count() == 1, "the card takes the panel's place"
        if place == 0:
            assert serious_findings(page, ".bw-card", thorough=False) == []
            page.set_viewport_size({"width": 390, "height": 780})
        if place < cards - 1:
            press(page, "card-next")
    assert len(titles) == cards
    assert hard_to_tap(page, ".bw-card .bw-button") == []
    press(page, "card-next")
    assert page.locator(".bw-card, .bw-lit").count() == 0
    assert page.locator(".bw-panel").inner_text() == before


def test_a_tour_goes_by_keyboard_and_ends_at_any_time_where_it_began(toured):
    page, widget = toured
    page.focus("[id$='-tour']")
    page.keyboard.press("Enter")
    for key, place in (("ArrowRight", 2), ("Enter", 3), ("ArrowLeft", 2), ("ArrowLeft", 1), ("ArrowLeft", 1)):
        page.keyboard.press(key)
        assert card(page).startswith(f"{place} of {CARDS[widget]}: ")
    page.keyboard.press("Escape")
    assert page.locator(".bw-card").count() == 0
    assert page.evaluate("document.activeElement.id").endswith("-tour")
    press(page, "tour")
    press(page, "card-next")
    page.focus("[id$='-card-leave']")
    page.keyboard.press("Enter")
    assert page.locator(".bw-card, .bw-lit").count() == 0
    assert page.evaluate("document.activeElement.id").endswith("-tour")
    press(page, "tour")
    assert card(page).startswith("1 of "), "another tour begins anew"


def test_the_translators_cards_say_what_the_machine_computes(pages):
    page = pages.take(viewport={"width": 390, "height": 780}, reduced_motion="reduce")
    widget = Translator("the idea was praised in 2020", closed=[("cross", -1, "idea")], step=2)
    put(page, widget)
    cards, matrices, model = walk(page, 12), widget.matrices(), load_translator()
    lengths = [len(one.partition("\n")[2].split()) for one in cards]
    assert max(lengths) <= 30, "a card is read at a glance"
    assert numbers(cards[0])[2:] == [6, sum(parameter.numel() for parameter in model.state_dict().values())]
    word = widget.written().replace("'", "' ").split()[1]
    assert all(f"“{word}”" in cards[place] for place in (1, 2, 4, 7, 8))
    assert numbers(cards[3])[2] == model.source_embedding.weight.size(1)
    best = matrices["probabilities"][1].topk(2).values
    assert numbers(cards[2])[4:] == pytest.approx(best.tolist(), abs=5.1e-4)
    heads = [matrices[f"decoder.0.cross_attention.weights.{h}"][1] for h in range(1, 5)]
    assert numbers(cards[5])[2:] == [1, 1], "layers"
    assert numbers(cards[7])[-1] == pytest.approx(torch.stack(heads).mean(0).max().item(), abs=5.1e-4)
    told = [float(weight) for weight in re.findall(r"\((\d\.?\d*)\)", cards[8])]
    assert told == pytest.approx([head.max().item() for head in heads], abs=5.1e-4)
    assert numbers(cards[9])[2] == 1
    assert "Done so far: 1." in cards[11]
    matrix = matrices["decoder.0.cross_attention.q.1"]
    assert f"{matrix.size(0)} rows and {matrix.size(1)} columns" in cards[10]
    assert abs(numbers(cards[10])[-1]) == pytest.approx(matrix.abs().max().item(), abs=5.1e-4)
    pages.give_back(page)


def test_the_code_models_cards_say_what_it_computes(pages):
    page = pages.take(viewport={"width": 390, "height": 780}, reduced_motion="reduce")
    widget = CodeReader("for i in range(len(names)):\n    print(na", heads_off=[(2, 1)])
    put(page, widget)
    cards, model, read = walk(page, 10), load_code_model(torch.float64), widget.read()
    assert numbers(cards[0])[-1] == sum(parameter.numel() for parameter in model.parameters())
    tokens = read.logits.size(1)
    assert numbers(cards[1])[2:4] == [tokens, read.logits.size(2)]
    assert numbers(cards[2])[-2] == pytest.approx(read.logits[0, -1].softmax(-1).max().item(), abs=5.1e-4)
    weights = read.weights[widget.head[0] - 1][0, widget.head[1] - 1, -1]
    assert numbers(cards[5])[-2:] == pytest.approx([weights.max().item(), 1], abs=5.1e-4)
    assert numbers(cards[6])[2] == (weights >= 0.05).sum()
    assert f"{tokens} rows" in cards[7]
    assert "Without head 2.1" in cards[9]
    pages.give_back(page)
