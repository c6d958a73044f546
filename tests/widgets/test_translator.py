"""Laws of the translator in the page: its numbers are PyTorch's, whatever is done to it; its words are the package's.

`trace` and `generate_with` of the package are the oracle; tests/analysis/test_intervention.py holds them against the
model itself. Differences stay below 1e-9 throughout, of numbers up to some hundreds.
"""

import random
import re

import pytest
import torch
from bs4 import BeautifulSoup
from website import bytes_sent, press, put

from attention_tutorial.analysis.intervention import Intervention, generate_with, trace
from attention_tutorial.data.translation import (
    ENGLISH,
    ITALIAN,
    draw_sentences,
    encode_english,
    read_sentence,
    split_words,
)
from attention_tutorial.models.transformer import BEGIN, Transformer
from attention_tutorial.models.translator import load_translator
from attention_tutorial.widgets import Translator
from attention_tutorial.widgets.base import STATIC
from attention_tutorial.widgets.translator import EXAMPLES

CLOSE = 1e-9

IN_NODE = """
const { machine, cases } = given;
const whole = widget.machineOf(machine);
return cases.map(({ source, target, given, most }) => {
  const patient = widget.encode(whole, source, { ...widget.NOTHING, ...given });
  const trace = widget.decode(patient, target);
  const wrote = most ? widget.write(patient, most) : null;
  const matrices = Object.fromEntries([...trace].map(([name, x]) => [name, [x.rows, x.columns, [...x.data]]]));
  return { matrices, wrote };
});
"""


def fields(given):
    """An intervention as the page has it."""
    return {name: [list(item) if isinstance(item, tuple) else item for item in value]
            if not isinstance(value, int) else value for name, value in vars(given).items()}  # fmt: skip


def compare(run_in_node, model, cases, machine=""):
    """Assert that every matrix in the page is PyTorch's; return the largest difference."""
    inputs = [
        {"source": s.tolist(), "target": t.tolist(), "given": fields(given), "most": most}
        for s, t, given, most in cases
    ]
    answers = run_in_node("translator", IN_NODE, {"machine": machine, "cases": inputs})
    worst = 0.0
    for (source, target, given, most), answer in zip(cases, answers, strict=True):
        expected = trace(model, source, target, given)
        assert list(answer["matrices"]) == list(expected), "the same matrices, in the same order"
        for name, (rows, columns, numbers) in answer["matrices"].items():
            assert (rows, columns) == tuple(expected[name].shape), name
            matrix = torch.tensor(numbers, dtype=torch.float64).reshape(rows, columns)
            difference = (matrix - expected[name]).abs().max().item()
            assert difference <= CLOSE, (name, given, difference)
            worst = max(worst, difference)
        if most:
            ids, sure = generate_with(model, source, given, most)
            assert answer["wrote"]["ids"] == ids.tolist(), given
            assert answer["wrote"]["sure"] == pytest.approx(sure.tolist(), abs=CLOSE)
    return worst


@pytest.fixture(scope="module")
def model():
    return load_translator(torch.float64)


def drawn(count, seed):
    """Sentences of the grammar, held out and not, and nonsense from its words: source ids, target ids read so far."""
    generator = torch.Generator().manual_seed(seed)
    sentences = [
        *draw_sentences(count, generator=generator),
        *draw_sentences(count, generator=generator, held_out=True),
    ]
    pairs = [(encode_english([sentence.english])[0], sentence.italian) for sentence in sentences]
    samples = []
    for source, italian in pairs:
        ids = [ITALIAN.index(word) for word in split_words(italian)]
        samples.append((source, torch.tensor([BEGIN, *ids])))
    for length in (1, 3, 17, 40):
        samples.append((torch.randint(1, len(ENGLISH), (length,), generator=generator),
                      torch.cat([torch.tensor([BEGIN]), torch.randint(3, len(ITALIAN), (length // 2,),
                                                                      generator=generator)])))  # fmt: skip
    return samples


def test_every_matrix_of_the_unchanged_machine_is_pytorchs(run_in_node, model):
    cases = [(source, target, Intervention(), 24) for source, target in drawn(3, 31)]
    print(f"\nlargest difference: {compare(run_in_node, model, cases):.1e}")


# Kinds of interventions, each drawn for a source of n words and a target of m; h heads, the layers of either side
MATRICES = ("source.words", "source.embedded", "encoder.0.attention.k.2", "encoder.0.attention.weights.1",
            "encoder_norm", "encoder.0.feed_forward.hidden", "target.positions", "decoder.0.attention.v.1",
            "decoder.0.attention.scores.2", "decoder.0.after_attention", "decoder.0.cross_attention.q.1",
            "decoder.0.cross_attention.heads.2", "decoder.0.cross_attention.output", "decoder_norm",
            "logits")  # fmt: skip
PARAMETERS = ("source_embedding.weight", "encoder.0.attention.w_q.weight", "encoder.0.attention.w_v.bias",
              "decoder.0.cross_attention.w_o.weight", "decoder.0.feed_forward.w_1.weight", "decoder_norm.weight",
              "encoder.0.feed_forward_norm.bias", "readout.weight", "readout.bias")  # fmt: skip


def drawn_intervention(kind, dice, n, m, *, heads=4, layers=1, width=8):
    part = dice.choice(["encoder", "decoder", "cross"])
    layer = dice.randrange(layers)

    def edge(some, head=None):
        high, wide = {"encoder": (n, n), "decoder": (m, m), "cross": (m, n)}[some]
        return (some, dice.randrange(layers), dice.randrange(heads + 1) if head is None else head,
                dice.choice([-1, *range(high)]), dice.choice([-1, *range(wide)]))  # fmt: skip

    if kind == "closed":
        return Intervention(closed=[edge(some) for some in ("encoder", "decoder", "cross", part)])
    if kind == "one edge":
        return Intervention(closed=[edge(part, head=dice.randrange(1, heads + 1))])
    if kind == "heads":
        return Intervention(
            heads_off=[(part, layer, head) for head in dice.sample(range(1, heads + 1), dice.randrange(1, heads + 1))]
        )
    if kind == "swapped":
        return Intervention(swapped=[(part, layer)])
    if kind == "shifted on":
        return Intervention(shift=1)
    if kind == "shifted back":
        return Intervention(shift=-1)
    if kind == "padding":
        return Intervention(
            padding=dice.randrange(1, 9), unmasked=dice.choice([[], ["encoder"], ["cross"], ["encoder", "cross"]])
        )
    if kind == "changed":
        return Intervention(
            changes=[
                (
                    dice.choice(MATRICES),
                    dice.randrange(min(m, n)),
                    dice.randrange(min(width, m, n)),
                    dice.uniform(-4, 4),
                )
                for _ in range(2)
            ]
        )
    if kind == "parameter":
        names = [
            (name, 0 if name.endswith("bias") or "norm" in name else dice.randrange(width))
            for name in dice.sample(PARAMETERS, 3)
        ]
        return Intervention(changes=[(name, row, dice.randrange(width), dice.uniform(-2, 2)) for name, row in names])
    sizes = {"heads": heads, "layers": layers, "width": width}
    every = [vars(drawn_intervention(part_kind, dice, n, m, **sizes)) for part_kind in KINDS[:-1]]
    joined = {name: [given[name] for given in every if given[name]] for name in every[0]}
    return Intervention(**{name: dice.choice(some) for name, some in joined.items() if some})


KINDS = (
    "closed",
    "one edge",
    "heads",
    "swapped",
    "shifted on",
    "shifted back",
    "padding",
    "changed",
    "parameter",
    "all",
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_matrix_of_the_changed_machine_is_pytorchs(run_in_node, model, kind):
    dice = random.Random(f"intervention {kind}")
    cases = [(s, t, drawn_intervention(kind, dice, len(s), len(t)), 5) for s, t in drawn(1, 50)]
    compare(run_in_node, model, cases)
    plain = [trace(model, s, t)["logits"] for s, t, *_ in cases]
    changed = [trace(model, s, t, given)["logits"] for s, t, given, _ in cases]
    if kind != "padding":
        assert max((a - b).abs().max().item() for a, b in zip(plain, changed, strict=True)) > 0.01, "it did something"


def test_a_machine_of_ones_own_with_more_layers_is_computed_too(run_in_node):
    sizes = {"d_model": 12, "num_heads": 3, "d_ff": 10, "encoder_layers": 2, "decoder_layers": 3}
    own = Transformer(len(ENGLISH), len(ITALIAN), **sizes, generator=torch.Generator().manual_seed(8)).float()
    machine = Translator.of(own).machine
    dice = random.Random(9)
    cases = [
        (source, target, drawn_intervention(kind, dice, len(source), len(target), heads=3, layers=2), 6)
        for kind, (source, target) in zip(("closed", "heads", "swapped", "all"), drawn(2, 60), strict=False)
    ]
    compare(run_in_node, own.double(), [*cases, (*drawn(1, 61)[0], Intervention(), 6)], machine)


def test_the_bundle_holds_the_numbers_of_the_package(run_in_node, model):
    body = "return [...widget.machineOf('').parameters].map(([name, x]) => [name, [...x.data]]);"
    actual = run_in_node("translator", body)
    for (name, numbers), (expected, tensor) in zip(actual, model.state_dict().items(), strict=True):
        assert name == expected
        assert numbers == tensor.flatten().tolist(), name


# ---- The language -------------------------------------------------------------------------------------------------

LANGUAGE = """
const { texts, halves } = given;
const machine = widget.machineOf("");
return {
  read: texts.map((text) => {
    const words = widget.wordsOf(text);
    const trouble = widget.troubleIn(text, machine);
    const ids = trouble ? null : widget.idsOf(text, machine);
    return { split: widget.splitWords(text), trouble, ids, parsed: widget.parse(words, machine.grammar) };
  }),
  halves: halves.map(widget.half),
};
"""


def test_sentences_are_cut_encoded_and_translated_by_the_grammar_as_in_python(run_in_node):
    generator = torch.Generator().manual_seed(12)
    sentences = [*draw_sentences(150, generator=generator), *draw_sentences(150, generator=generator, held_out=True)]
    answers = run_in_node("translator", LANGUAGE, {"texts": [s.english for s in sentences], "halves": []})["read"]
    for sentence, answer in zip(sentences, answers, strict=True):
        assert answer["split"] == split_words(sentence.english)
        assert answer["ids"] == encode_english([sentence.english])[0].tolist()
        assert answer["parsed"]["italian"] == split_words(sentence.italian)
        assert answer["parsed"]["heldOut"] == sentence.is_held_out
        assert (answer["parsed"]["noun"], answer["parsed"]["verb"]) == (sentence.subject.english, sentence.verb)


OTHER_TEXTS = [
    "The Network of the Model will be TESTED in 2030.", "  the   idea was praised in 2020 !",
    "what about the rule? it was changed in 2010",
    "what about the rule it was changed in 2010", "the rule ? it was changed in 2010", "the idea was praised in 2030",
    "the idea will be praised in 2020",
    "the idea was praised in 2025", "idea the praised",
    "the idea of the map of the law was praised in 2020", "after the law the idea was praised in 2020",
    "the l’idea was naïve_ly ☕ 東京", "", "...", "the netwrk was tested", "the the the", "?", "\u00e8 vero",
    "architecture's", "what about the model ? it it was built in 2011",
]  # fmt: skip


def test_other_texts_are_judged_as_python_judges_them(run_in_node):
    answers = run_in_node("translator", LANGUAGE, {"texts": OTHER_TEXTS, "halves": []})["read"]
    for text, answer in zip(OTHER_TEXTS, answers, strict=True):
        assert answer["split"] == split_words(text), text
        words = [word for word in split_words(text) if word not in ".!"]
        unknown = sorted(set(words) - set(ENGLISH[1:]))
        if not words:
            assert answer["trouble"] == {"kind": "empty"}
            continue
        if unknown:
            assert sorted(trouble["word"] for trouble in answer["trouble"]["words"]) == unknown
            assert all(set(trouble["near"]) <= set(ENGLISH[1:]) for trouble in answer["trouble"]["words"])
            continue
        try:
            italian = split_words(read_sentence(" ".join(words)).italian)
        except ValueError:
            italian = None
        assert (answer["parsed"] and answer["parsed"]["italian"]) == italian, text


def test_a_word_that_is_nearly_right_is_found(run_in_node):
    nearly = {
        "netwrk": "network",
        "architecturr": "architecture",
        "introducd": "introduced",
        "teh": "the",
        "1999": "2008",
        "2025": "2027",
        "2050": "2042",
        "transformers": "transformer",
        "modeel": "model",
    }
    answers = run_in_node("translator", LANGUAGE, {"texts": [f"the {word} was" for word in nearly], "halves": []})
    for (word, near), answer in zip(nearly.items(), answers["read"], strict=True):
        (unknown,) = answer["trouble"]["words"]
        assert unknown["word"] == word and unknown["near"][0] == near and len(unknown["near"]) <= 3


def test_words_like_nothing_get_no_suggestion_and_long_texts_are_refused(run_in_node):
    texts = ["the " * 41, "the " * 40, "the xyzzyqvw was", "my dog", "a tree on", "paper is", "attention, he wrote"]
    long, longest, *strange = run_in_node("translator", LANGUAGE, {"texts": texts, "halves": []})["read"]
    assert [word["near"] for one in strange for word in one["trouble"]["words"]] == [[]] * 11
    assert long["trouble"] == {"kind": "long", "words": 41}
    assert longest["trouble"] is None and longest["parsed"] is None


def test_half_precision_is_read_bit_by_bit(run_in_node):
    bits = [*range(0, 0x7C00, 37), 0, 1, 0x03FF, 0x0400, 0x7BFF, *range(0x8000, 0xFC00, 91)]
    actual = run_in_node("translator", LANGUAGE, {"texts": [], "halves": bits})["halves"]
    expected = torch.tensor(bits, dtype=torch.int32).to(torch.int16).view(torch.float16).double().tolist()
    assert actual == expected


# ---- The class ----------------------------------------------------------------------------------------------------

STORY = "the transformer architecture was introduced in 2017"
ITALIAN_STORY = "l'architettura transformer è stata introdotta nel 2017"


def test_edges_may_be_named_by_words():
    by_words = Translator(
        closed=[("cross", 2, "stata", "architecture"), ("decoder", "stata", "l'"), ("encoder", "the", "was")]
    )
    assert by_words.closed == [["cross", 0, 2, 4, 2], ["decoder", 0, 0, 4, 1], ["encoder", 0, 0, 0, 3]]
    assert Translator(step="stata").step == 5
    assert by_words.intervention() == Intervention(closed=tuple(tuple(edge) for edge in by_words.closed))
    assert Translator().intervention() == Intervention()


def test_what_the_chapter_says_of_its_cases_holds():
    assert Translator(closed=[("cross", "stata", "architecture")]).written() == ITALIAN_STORY
    assert (
        Translator(closed=[("cross", -1, "architecture")]).written()
        == "l'immagine transformer è stata introdotta nel 2017"
    )
    letter = "the letter of the method was improved in 2013"
    assert Translator(letter).written() == "la lettera del metodo è stata migliorata nel 2013"
    informants = [("decoder", "stata", "la"), ("decoder", "stata", "lettera")]
    assert " stato " in Translator(letter, closed=informants).written()
    answer = "what about the model ? it was introduced in 2017"
    cut = [("cross", -1, "model")]
    way_round = [("encoder", row, "model") for row in range(10) if row != 3]
    assert Translator(answer, closed=cut).written() == Translator(answer).written() == "è stato introdotto nel 2017"
    assert Translator(answer, closed=[*cut, *way_round]).written() == "è stata introdotta nel 2017"


def test_the_table_without_a_script_says_what_both_write():
    table = Translator(closed=[("cross", -1, "architecture")]).static_html()
    assert "immagine transformer" in table and "Unchanged, the machine writes" in table and ITALIAN_STORY[2:] in table
    assert "Unchanged" not in Translator().static_html()


def test_a_model_of_ones_own_is_shown():
    own = Transformer(
        len(ENGLISH), len(ITALIAN), d_model=8, num_heads=2, d_ff=8, generator=torch.Generator().manual_seed(0)
    )
    widget = Translator.of(own, "the idea was praised in 2020", closed=[("cross", 0, "idea")], head=2)
    assert all(
        a.equal(b.float()) for a, b in zip(own.state_dict().values(), widget.model().state_dict().values(), strict=True)
    )
    assert widget.head == 2 and widget.closed == [["cross", 0, 0, 0, 1]]
    small = Translator.of(own, compact=True, note="mine", examples={"one": "the idea was praised in 2020"})
    assert (small.compact, small.note, len(small.examples)) == (True, "mine", 1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"sentence": "the netwrk was tested"}, ValueError, "got 'netwrk'; near: network"),
        ({"sentence": ""}, ValueError, "1 to 40 words; got 0"),
        ({"sentence": "the " * 41}, ValueError, "1 to 40 words; got 41"),
        ({"closed": [("cross", "gatto", 0)]}, ValueError, "row must be a word of .*; got 'gatto'"),
        ({"closed": [("cross", 0)]}, ValueError, "an edge must be"),
        ({"closed": [("cross", 5, 0, 0)]}, ValueError, "head must be from 0 to 4; got 5"),
        ({"closed": [("sideways", 0, 0)]}, ValueError, "attention must be one of 'encoder', 'decoder', 'cross'"),
        ({"closed": [("cross", 1.5, 0)]}, TypeError, "row must be an int or a word; got float"),
        ({"closed": [("cross", -2, 0)]}, ValueError, "row must be at least -1; got -2"),
        ({"heads_off": [("cross", 0)]}, ValueError, "head must be at least 1; got 0"),
        ({"heads_off": [("cross", 5)]}, ValueError, "head must be from 1 to 4; got 5"),
        ({"swapped": ["all"]}, ValueError, "swapped must be one of 'encoder', .*; got 'all'"),
        ({"shift": 2}, ValueError, "shift must be -1, 0 or 1; got 2"),
        ({"padding": 9}, ValueError, "padding must be at most 8; got 9"),
        ({"unmasked": ["decoder"]}, ValueError, "unmasked must be one of 'encoder', 'cross'"),
        ({"changes": [("nothing", 0, 0, 1.0)]}, ValueError, "changes must be of a matrix .*; got 'nothing'"),
        ({"changes": [("logits", 0, 125, 1.0)]}, ValueError, "column must be below 125"),
        ({"head": 5}, ValueError, "head must be from 0 to 4; got 5"),
        ({"examples": {"one": {"phrase": STORY}}}, ValueError, "there is no phrase; choose from"),
    ],
)
def test_a_mistake_is_explained(arguments, error, message):
    with pytest.raises(error, match=message):
        Translator(**arguments)


# ---- The page, in Chromium ----------------------------------------------------------------------------------------


@pytest.fixture
def page(visit):
    return visit()


def written(page):
    """What the page shows as written by the unchanged and by the changed machine."""
    words = page.locator(".tr-step").all_inner_texts()
    return page.get_attribute("[data-untouched]", "data-untouched"), [word for word in words if word != "(end)"]


def italian(sentence, **options):
    return split_words(Translator(sentence, **options).written())


def agrees(page, widget):
    """Assert that words, probabilities and all weights in sight are PyTorch's."""
    source = encode_english([widget.sentence.replace(".", "")])[0]
    ids, _ = generate_with(widget.model(), source, widget.intervention())
    assert written(page) == (widget.written(changed=False), [ITALIAN[i] for i in ids.tolist() if i != 2])
    matrices = widget.matrices()
    heads = torch.stack([matrices[f"decoder.0.cross_attention.weights.{h}"] for h in (1, 2, 3, 4)])
    cells = page.eval_on_selector_all(".tr-map [data-row]", "all => all.map(x => Number(x.dataset.value))")
    shown = torch.tensor(cells, dtype=torch.float64).reshape(heads.shape[1:])
    assert torch.allclose(shown, heads.mean(dim=0), atol=CLOSE, rtol=0)
    step = int(page.locator(".tr-step[aria-pressed=true]").get_attribute("data-written"))
    rows = page.eval_on_selector_all(
        "[data-candidate]",
        "all => all.map(x => [x.dataset.candidate, x.querySelector('.bw-now').dataset.value].map(Number))",
    )
    assert len(rows) == 5
    read = torch.cat([torch.tensor([BEGIN]), ids[:step]])
    likely = trace(widget.model(), source, read, widget.intervention())["probabilities"][-1]
    for word, value in rows:
        assert value == pytest.approx(likely[int(word)].item(), abs=CLOSE)


def test_what_is_typed_is_translated_at_once_and_agrees_with_pytorch(page):
    field = page.get_by_label("Type an English sentence")
    for sentence in (
        "The museum of the formula was changed in 2015.",
        "what about the law? it will be copied in 2030",
        "the the was",
    ):
        field.fill(sentence)
        agrees(page, Translator(sentence))
    assert "a guess" in page.text_content(".tr-said")
    field.fill("the map was copied in 2010")
    assert "grammar" in page.text_content(".tr-said") and "a guess" not in page.text_content(".tr-said")


def test_rubbish_unknown_words_and_long_texts_get_a_clear_answer_and_nothing_is_lost(page):
    field = page.get_by_label("Type an English sentence")
    before = written(page)
    for text, message in [
        ("the netwrk was tested in 2020", "It does not know “netwrk”"),
        ("%$ §§ 🦜 ''' <b>x</b>", "It does not know “%”"),
        ("", "Type some words"),
        ("the " * 60, "These are 60 words"),
        ("the model was tested in 1999", "Years near it: 2008"),
        ("the xyzzyqvw was", "It knows nothing like it"),
    ]:
        field.fill(text)
        assert message in page.text_content(".tr-said")
        assert written(page) == before, "the last sentence stays"
        assert field.input_value() == text
    field.fill("The modeel of the netwrk was tested in 2020")
    page.get_by_role("button", name="model", exact=True).click()
    assert field.input_value() == "The model of the netwrk was tested in 2020"
    page.get_by_role("button", name="network", exact=True).click()
    agrees(page, Translator("The model of the network was tested in 2020"))


def test_a_tap_closes_an_edge_another_opens_it_and_undo_takes_all_back(page):
    for column in range(7):
        page.locator(f'.tr-map [data-row="1"][data-column="{column}"]').click()
    agrees(page, Translator(closed=[("cross", 1, column) for column in range(7)]))
    assert page.locator(".tr-done li").count() == 7
    page.locator('.tr-map [data-row="1"][data-column="3"]').click()
    agrees(page, Translator(closed=[("cross", 1, column) for column in (0, 1, 2, 4, 5, 6)]))
    page.locator(".tr-done li button").first.click()
    assert page.locator(".tr-done li").count() == 5
    page.get_by_role("button", name="Undo everything").click()
    agrees(page, Translator())
    page.locator('[data-read="2"]').click()
    agrees(page, Translator(closed=[("cross", -1, "architecture")]))
    assert written(page)[1] == split_words("l'immagine transformer è stata introdotta nel 2017")


def test_heads_swaps_masks_and_padding_do_what_they_do_in_pytorch(page):
    page.get_by_role("checkbox", name="head 2").click()
    page.get_by_label("Swap keys and values").click()
    agrees(page, Translator(heads_off=[("cross", 2)], swapped=["cross"]))
    page.get_by_role("button", name="Undo everything").click()
    page.get_by_label("Padding is masked").click()
    page.get_by_label("Padding after the sentence").fill("8")
    agrees(page, Translator(padding=8, unmasked=["cross"]))
    page.get_by_role("button", name="Undo everything").click()
    page.get_by_role("button", name="decoder, itself").click()
    page.get_by_role("button", name="not itself").click()
    page.get_by_role("button", name="cross", exact=True).click()
    agrees(page, Translator(shift=-1))
    page.get_by_role("button", name="decoder, itself").click()
    page.get_by_role("button", name="the next one too").click()
    assert "a leak" in page.text_content(".tr-operations")
    page.get_by_role("button", name="cross", exact=True).click()
    agrees(page, Translator(shift=1))


def test_any_matrix_opens_and_a_number_in_it_can_be_changed(page):
    page.get_by_text("Open any matrix").click()
    page.locator("[id$='-part']").select_option("encoder.0.attention")
    page.locator("[id$='-matrix']").select_option("encoder.0.attention.v.3")
    shown = page.eval_on_selector_all(".tr-matrix td[data-value]", "all => all.map(x => Number(x.dataset.value))")
    expected = Translator().matrices()["encoder.0.attention.v.3"][:10, :8]
    assert torch.allclose(torch.tensor(shown).double().reshape(expected.shape), expected, atol=1e-6)
    page.locator('.tr-matrix [data-row="2"][data-column="1"] input').fill("-9.5")
    page.keyboard.press("Tab")
    changes = [("encoder.0.attention.v.3", 2, 1, -9.5)]
    agrees(page, Translator(changes=changes))
    page.locator("[id$='-part']").select_option("out")
    page.locator("[id$='-matrix']").select_option("readout.bias")
    page.locator('.tr-matrix [data-row="0"][data-column="5"] input').fill("40")
    agrees(page, Translator(changes=[*changes, ("readout.bias", 0, 5, 40.0)]))
    assert "It comes to no end" in page.text_content(".bw")
    page.locator('.tr-matrix [data-row="0"][data-column="5"] input').fill("much")
    assert "Type a number" in page.text_content(".bw-panel")
    page.get_by_role("button", name="Undo everything").click()
    agrees(page, Translator())


def test_words_come_one_by_one_and_each_can_be_looked_at(page):
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    page.get_by_role("button", name="Play").click()
    in_sight = "all => all.filter(x => getComputedStyle(x.querySelector('span')).visibility === 'visible').length"
    for count in (1, 2, 3):
        assert page.eval_on_selector_all(".tr-step", in_sight) == count
        page.clock.run_for(750)
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(3000)
    assert page.eval_on_selector_all(".tr-step", in_sight) == 4
    assert page.locator(".tr-map tbody tr").count() == 4, "the maps grow with the sentence"
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(9000)
    agrees(page, Translator())


def test_the_keyboard_closes_edges_and_chooses_words(page):
    page.locator('.tr-map [data-row="0"][data-column="0"]').focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", " "):
        page.keyboard.press(key)
    agrees(page, Translator(closed=[("cross", 1, 2)]))
    page.locator(".tr-step[aria-pressed=true]").focus()
    for key in ("End", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    assert page.locator(".tr-step[aria-pressed=true]").get_attribute("data-written") == "7"


def test_examples_bring_their_case_and_one_head_is_closed_alone(page):
    page.get_by_role("button", name="an answer").click()
    agrees(page, Translator("what about the architecture? it was introduced in 2017"))
    page.get_by_role("button", name="the story").click()
    page.get_by_role("button", name="head 3").click()
    page.locator('.tr-map [data-row="1"][data-column="2"]').click()
    page.get_by_role("button", name="mean of all heads").click()
    agrees(page, Translator(closed=[("cross", 3, 1, 2)]))
    assert "masked in some heads" in page.locator('.tr-map [data-row="1"][data-column="2"]').get_attribute("aria-label")


@pytest.mark.parametrize("width", [360, 1280])
def test_the_small_form_fits_a_phone_and_hides_words(browser, width):
    context = browser.new_context(viewport={"width": width, "height": 780}, has_touch=True)
    page = context.new_page()
    put(page, Translator(compact=True))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator('[data-read="2"]').tap()
    assert written(page)[1] == split_words("l'immagine transformer è stata introdotta nel 2017")
    context.close()


def test_the_small_form_is_a_still_with_a_button_until_it_is_asked_for():
    small = Translator("the method was tested in 2010", step=3, compact=True)
    looks = torch.stack([small.matrices()[f"decoder.0.cross_attention.weights.{head}"][2] for head in (1, 2, 3, 4)])
    weights = dict(enumerate(looks.mean(dim=0).tolist()))
    soup = BeautifulSoup(small.to_html(), "html.parser")
    drawn = soup.select_one("[data-later-widget=translator] > .attention-widget-still")
    english, italian = small.sentence.split(), ["il", "metodo", "è", "stato", "provato", "nel", "2010"]
    assert [text.text for text in drawn.select("text")] == [*english, *italian]
    words = {(int(text["x"]), int(text["y"])): text.text for text in drawn.select("text")}
    chosen, *boxes = [(words[int(box["x"]), int(box["y"]) + 16], box) for box in drawn.select("rect")]
    assert chosen[0] == "è" and all(int(box["width"]) == 9 * len(word) for word, box in (chosen, *boxes))
    seen = {english[j]: weight for j, weight in weights.items() if weight >= 0.1}
    assert {word: float(box["fill-opacity"]) for word, box in boxes} == {w: round(a, 2) for w, a in seen.items()}
    assert 0 < len(seen) < len(english) and all(f"“{word}” {a:.2f}" in drawn.p.text for word, a in seen.items())
    long = BeautifulSoup(Translator(EXAMPLES["a long one"], compact=True).to_html(), "html.parser")
    assert all(int(text["x"]) + int(text["textlength"]) <= 9 * 56 for text in long.select("text"))
    assert soup.select_one("table") and not Translator().later and "still" not in Translator().to_html()


def test_what_the_button_says_of_the_weight_is_so():
    said = float(re.search(r"\((.*) MB\)", Translator(compact=True).later)[1])
    assert said == round(sum(bytes_sent(STATIC / f"translator.{kind}") for kind in ("js", "css")) / 1e6, 1)


RING = """() => {
  const lit = document.querySelector(".bw-lit"), box = lit.getBoundingClientRect(), look = getComputedStyle(lit);
  const room = parseFloat(look.outlineWidth) + parseFloat(look.outlineOffset);
  const near = [...document.querySelectorAll(".translator :is(p, .bw-button)")].filter((one) => !lit.contains(one)
    && one.checkVisibility() && !one.closest(".bw-card"));
  return [lit.dataset.part, [box.top - room, box.bottom + room],
    near.map((one) => one.getBoundingClientRect()).map(({ top, bottom }) => [top, bottom])];
}"""


def test_the_small_form_has_the_part_of_the_tour_that_it_can_show(browser):
    page = browser.new_page(viewport={"width": 390, "height": 780})
    put(page, Translator(compact=True))
    press(page, "tour")
    lit = []
    for place in range(6):
        assert page.locator(".bw-card [role=status]").inner_text().startswith(f"{place + 1} of 6: ")
        part, ring, near = page.evaluate(RING)
        lit.append(part)
        assert all(bottom <= ring[0] or top >= ring[1] for top, bottom in near), "the ring covers nothing beside it"
        press(page, "card-next")
    assert (
        lit == ["typing", "writing", "typing", "writing", "reading", "reading"] and not page.locator(".bw-card").count()
    )
    page.context.close()
