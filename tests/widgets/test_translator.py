"""Laws of the translator in the page: its numbers are PyTorch's, whatever is done to it, and its words are the package's.

`trace` and `write_touched` of the package are the measure; tests/analysis/test_touch.py holds them against the model
itself. Differences stay below 1e-9 throughout, of numbers up to some hundreds.
"""

import random

import pytest
import torch

from attention_tutorial.analysis.touch import Touch, trace, write_touched
from attention_tutorial.data.translation import (
    ENGLISH,
    ITALIAN,
    draw_sentences,
    encode_english,
    read_sentence,
    spell_italian,
    split_words,
)
from attention_tutorial.models.transformer import BEGIN, Transformer
from attention_tutorial.models.translator import load_translator, pack_translator
from attention_tutorial.widgets import Translator

CLOSE = 1e-9

IN_NODE = """
import { readFileSync } from "node:fs";
import * as t from "./widget.mjs";
const { machine, cases } = JSON.parse(readFileSync(0, "utf8"));
const whole = t.machineOf(machine);
const out = cases.map(({ source, target, touch, most }) => {
  const patient = t.encode(whole, source, { ...t.NOTHING, ...touch });
  const trace = t.decode(patient, target);
  const wrote = most ? t.write(patient, most) : null;
  return { matrices: Object.fromEntries([...trace].map(([name, x]) => [name, [x.rows, x.columns, [...x.data]]])), wrote };
});
console.log(JSON.stringify(out));
"""


def fields(touch):
    """A touch as the page has it."""
    return {name: [list(each) if isinstance(each, tuple) else each for each in value]
            if not isinstance(value, int) else value for name, value in vars(touch).items()}  # fmt: skip


def compare(run_in_node, model, cases, machine=""):
    """Assert that every matrix in the page is PyTorch's; return the largest difference."""
    given = [
        {"source": s.tolist(), "target": t.tolist(), "touch": fields(touch), "most": most}
        for s, t, touch, most in cases
    ]
    answers = run_in_node("translator", IN_NODE, {"machine": machine, "cases": given})
    worst = 0.0
    for (source, target, touch, most), answer in zip(cases, answers, strict=True):
        expected = trace(model, source, target, touch)
        assert list(answer["matrices"]) == list(expected), "the same matrices, in the same order"
        for name, (rows, columns, numbers) in answer["matrices"].items():
            assert (rows, columns) == tuple(expected[name].shape), name
            found = torch.tensor(numbers, dtype=torch.float64).reshape(rows, columns)
            difference = (found - expected[name]).abs().max().item()
            assert difference <= CLOSE, (name, touch, difference)
            worst = max(worst, difference)
        if most:
            ids, sure = write_touched(model, source, touch, most)
            assert answer["wrote"]["ids"] == ids.tolist(), touch
            assert answer["wrote"]["sure"] == pytest.approx(sure.tolist(), abs=CLOSE)
    return worst


@pytest.fixture(scope="module")
def model():
    return load_translator(torch.float64)


def drawn(count, seed):
    """Sentences of the grammar, held out and not, and nonsense from its words: source ids, and target ids read so far."""
    generator = torch.Generator().manual_seed(seed)
    sentences = [*draw_sentences(count, generator=generator), *draw_sentences(count, generator=generator, held_out=True)]
    pairs = [(encode_english([one.english])[0], one.italian) for one in sentences]
    found = []
    for source, italian in pairs:
        ids = [ITALIAN.index(word) for word in split_words(italian)]
        found.append((source, torch.tensor([BEGIN, *ids])))
    for length in (1, 3, 17, 40):
        found.append((torch.randint(1, len(ENGLISH), (length,), generator=generator),
                      torch.cat([torch.tensor([BEGIN]), torch.randint(3, len(ITALIAN), (length // 2,),
                                                                      generator=generator)])))  # fmt: skip
    return found


def test_every_matrix_of_the_untouched_machine_is_pytorchs(run_in_node, model):
    cases = [(source, target, Touch(), 30) for source, target in drawn(6, 31)]
    print(f"\nlargest difference: {compare(run_in_node, model, cases):.1e}")


# Kinds of touches, each drawn for a source of n words and a target of m; h heads, the layers of either side
MATRICES = ("source.words", "source.embedded", "encoder.0.attention.k.2", "encoder.0.attention.weights.1", "encoder_norm",
            "encoder.0.feed_forward.hidden", "target.positions", "decoder.0.attention.v.1",
            "decoder.0.attention.scores.2", "decoder.0.after_attention", "decoder.0.cross_attention.q.1",
            "decoder.0.cross_attention.heads.2", "decoder.0.cross_attention.output", "decoder_norm", "logits")  # fmt: skip
PARAMETERS = ("source_embedding.weight", "encoder.0.attention.w_q.weight", "encoder.0.attention.w_v.bias",
              "decoder.0.cross_attention.w_o.weight", "decoder.0.feed_forward.w_1.weight", "decoder_norm.weight",
              "encoder.0.feed_forward_norm.bias", "readout.weight", "readout.bias")  # fmt: skip


def touch_of(kind, dice, n, m, *, heads=4, layers=1, width=8):
    part = dice.choice(["encoder", "decoder", "cross"])
    layer = dice.randrange(layers)

    def edge(some, head=None):
        high, wide = {"encoder": (n, n), "decoder": (m, m), "cross": (m, n)}[some]
        return (some, dice.randrange(layers), dice.randrange(heads + 1) if head is None else head,
                dice.choice([-1, *range(high)]), dice.choice([-1, *range(wide)]))  # fmt: skip

    if kind == "closed":
        return Touch(closed=[edge(some) for some in ("encoder", "decoder", "cross", part)])
    if kind == "one edge":
        return Touch(closed=[edge(part, head=dice.randrange(1, heads + 1))])
    if kind == "heads":
        return Touch(heads_off=[(part, layer, head) for head in dice.sample(range(1, heads + 1), dice.randrange(1, heads + 1))])
    if kind == "swapped":
        return Touch(swapped=[(part, layer)])
    if kind == "shifted on":
        return Touch(shift=1)
    if kind == "shifted back":
        return Touch(shift=-1)
    if kind == "padding":
        return Touch(padding=dice.randrange(1, 9), unmasked=dice.choice([[], ["encoder"], ["cross"], ["encoder", "cross"]]))
    if kind == "changed":
        return Touch(changes=[(dice.choice(MATRICES), dice.randrange(min(m, n)), dice.randrange(min(width, m, n)), dice.uniform(-4, 4))
                              for _ in range(2)])
    if kind == "parameter":
        names = [(name, 0 if name.endswith("bias") or "norm" in name else dice.randrange(width)) for name in dice.sample(PARAMETERS, 3)]
        return Touch(changes=[(name, row, dice.randrange(width), dice.uniform(-2, 2)) for name, row in names])
    everything = [touch_of(one, dice, n, m, heads=heads, layers=layers, width=width) for one in KINDS[:-1]]
    found = {name: [getattr(each, name) for each in everything if getattr(each, name)] for name in vars(Touch())}
    return Touch(**{name: dice.choice(some) for name, some in found.items() if some})


KINDS = ("closed", "one edge", "heads", "swapped", "shifted on", "shifted back", "padding", "changed", "parameter", "all")


@pytest.mark.parametrize("kind", KINDS)
def test_every_matrix_of_the_touched_machine_is_pytorchs(run_in_node, model, kind):
    dice = random.Random(f"touch {kind}")
    cases = [(source, target, touch_of(kind, dice, len(source), len(target)), 16) for source, target in drawn(4, 50)]
    compare(run_in_node, model, cases)
    plain = [trace(model, s, t)["logits"] for s, t, *_ in cases]
    touched = [trace(model, s, t, touch)["logits"] for s, t, touch, _ in cases]
    if kind != "padding":
        assert max((a - b).abs().max().item() for a, b in zip(plain, touched, strict=True)) > 0.01, "it did something"


def test_a_machine_of_ones_own_with_more_layers_is_computed_too(run_in_node):
    sizes = {"d_model": 12, "num_heads": 3, "d_ff": 10, "encoder_layers": 2, "decoder_layers": 3}
    own = Transformer(len(ENGLISH), len(ITALIAN), **sizes, generator=torch.Generator().manual_seed(8)).float()
    machine = Translator.of(own).machine
    dice = random.Random(9)
    cases = [
        (source, target, touch_of(kind, dice, len(source), len(target), heads=3, layers=2), 6)
        for kind, (source, target) in zip(("closed", "heads", "swapped", "all"), drawn(2, 60), strict=False)
    ]
    compare(run_in_node, own.double(), [*cases, (*drawn(1, 61)[0], Touch(), 6)], machine)


def test_the_bundle_holds_the_numbers_of_the_package(run_in_node, model):
    program = (
        'import * as t from "./widget.mjs";'
        "console.log(JSON.stringify([...t.machineOf('').parameters].map(([name, x]) => [name, [...x.data]])));"
    )
    found = run_in_node("translator", program, None)
    for (name, numbers), (expected, tensor) in zip(found, model.state_dict().items(), strict=True):
        assert name == expected
        assert numbers == tensor.flatten().tolist(), name


# ---- The language -------------------------------------------------------------------------------------------------

LANGUAGE = """
import { readFileSync } from "node:fs";
import * as t from "./widget.mjs";
const { texts, halves } = JSON.parse(readFileSync(0, "utf8"));
const machine = t.machineOf("");
console.log(JSON.stringify({
  read: texts.map((text) => {
    const words = t.wordsOf(text);
    const trouble = t.troubleIn(text, machine);
    return { split: t.splitWords(text), trouble, ids: trouble ? null : t.idsOf(text, machine), parsed: t.parse(words, machine.grammar) };
  }),
  halves: halves.map(t.half),
}));
"""


def test_sentences_are_cut_encoded_and_translated_by_the_grammar_as_in_python(run_in_node):
    generator = torch.Generator().manual_seed(12)
    sentences = [*draw_sentences(150, generator=generator), *draw_sentences(150, generator=generator, held_out=True)]
    answers = run_in_node("translator", LANGUAGE, {"texts": [one.english for one in sentences], "halves": []})["read"]
    for sentence, answer in zip(sentences, answers, strict=True):
        assert answer["split"] == split_words(sentence.english)
        assert answer["ids"] == encode_english([sentence.english])[0].tolist()
        assert answer["parsed"]["italian"] == split_words(sentence.italian)
        assert answer["parsed"]["heldOut"] == sentence.is_held_out
        assert (answer["parsed"]["noun"], answer["parsed"]["verb"]) == (sentence.subject.english, sentence.verb)


OTHER_TEXTS = [
    "The Network of the Model will be TESTED in 2030.", "  the   idea was praised in 2020 !", "what about the rule? it was changed in 2010",
    "what about the rule it was changed in 2010", "the rule ? it was changed in 2010", "the idea was praised in 2030", "the idea will be praised in 2020",
    "the idea was praised in 2025", "idea the praised", "the idea of the map of the law was praised in 2020", "after the law the idea was praised in 2020",
    "the l’idea was naïve_ly ☕ 東京", "", "...", "the netwrk was tested", "the the the", "?", "\u00e8 vero", "architecture's", "what about the model ? it it was built in 2011",
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
            assert sorted(each["word"] for each in answer["trouble"]["words"]) == unknown
            assert all(set(each["near"]) <= set(ENGLISH[1:]) for each in answer["trouble"]["words"])
            continue
        try:
            italian = split_words(read_sentence(" ".join(words)).italian)
        except ValueError:
            italian = None
        assert (answer["parsed"] and answer["parsed"]["italian"]) == italian, text


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("netwrk", "network"), ("architectur", "architecture"), ("introducd", "introduced"), ("teh", "the"),
        ("1999", "2008"), ("2025", "2027"), ("2050", "2042"), ("transformers", "transformer"), ("modle", "model"),
    ],
)  # fmt: skip
def test_a_word_that_is_nearly_right_is_found(run_in_node, word, near):
    answer = run_in_node("translator", LANGUAGE, {"texts": [f"the {word} was"], "halves": []})["read"][0]
    (unknown,) = answer["trouble"]["words"]
    assert unknown["word"] == word and unknown["near"][0] == near and len(unknown["near"]) <= 3


def test_words_like_nothing_get_no_suggestion_and_long_texts_are_refused(run_in_node):
    texts = ["the xyzzyqvw was", "the " * 41, "the " * 40]
    strange, long, longest = run_in_node("translator", LANGUAGE, {"texts": texts, "halves": []})["read"]
    assert strange["trouble"] == {"kind": "unknown", "words": [{"word": "xyzzyqvw", "near": []}]}
    assert long["trouble"] == {"kind": "long", "words": 41}
    assert longest["trouble"] is None and longest["parsed"] is None


def test_half_precision_is_read_bit_by_bit(run_in_node):
    bits = [*range(0, 0x7C00, 37), 0, 1, 0x03FF, 0x0400, 0x7BFF, *range(0x8000, 0xFC00, 91)]
    found = run_in_node("translator", LANGUAGE, {"texts": [], "halves": bits})["halves"]
    expected = torch.tensor(bits, dtype=torch.int32).to(torch.int16).view(torch.float16).double().tolist()
    assert found == expected
