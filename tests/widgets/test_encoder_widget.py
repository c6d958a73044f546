"""Laws of the encoder in the page: its pieces are the package's, its numbers PyTorch's with the same rounded weights.

Most of them look at small models with drawn weights, which are packed, opened and read as the whole one is. What needs
the whole one's weights is left out where they are not installed.
"""

import copy
import json
import random
import re
import types
import zlib
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
import torch
from attention_book import widgets as on_site
from sphinx.util.tags import Tags
from website import CROSSINGS, DRESS, PHONE, bytes_sent, phone_faults, put, serious_findings

from attention_tutorial.data.senses import SECOND_SENTENCES, SENTENCES
from attention_tutorial.models.encoder import Encoder, WordPieces, load_encoder
from attention_tutorial.models.packed_encoder import pack_encoder, unpack_encoder
from attention_tutorial.widgets import SentenceReader
from attention_tutorial.widgets.encoder import (
    FEW,
    MOST_PIECES,
    READY,
    SENSE_LAYER,
    group_pieces,
    page_model,
    record_sentences,
)
from tools.models import is_installed
from tools.record import RECORDED

REFERENCE = json.loads((Path(__file__).parents[1] / "models" / "encoder_reference.json").read_text(encoding="utf-8"))
RIVER, MONEY = READY[:2]
weights = pytest.mark.model("encoder")
CLOSE = 1e-5  # of numbers of single precision

# The thread of the page, in this one: what it is sent, and what it answers.
IN_NODE = """
const answers = [];
globalThis.postMessage = (answer) => answers.push(answer);
new Function(widget.THREAD)();
const packed = readFileSync(given.file, "latin1");
const texts = given.asked.map(([text, off, hidden]) => ({ kind: "read", text, off, hidden }));
const half = Math.floor(packed.length / 8) * 4;
const parts = [packed.slice(0, half), packed.slice(half)].map((text) => ({ kind: "part", text }));
"""
ANSWERS = """
for (const data of [...parts, { kind: "open" }, ...texts]) await globalThis.onmessage({ data });
const failed = answers.find(({ kind }) => kind === "failed");
if (failed) throw new Error(failed.why);
const [opened, ...read] = answers;
return read.map((answer) => ({ ...answer, weights: [...answer.weights], states: [...answer.states], ...BESIDE }));
"""


@pytest.fixture(scope="module")
def read_in_node(run_in_node, tmp_path_factory):
    """Return a function: what the page's thread makes of texts with a packed model, (text, heads off, words hidden)."""

    def read(packed, asked, beside="{}"):
        file = tmp_path_factory.mktemp("model") / "model"
        file.write_bytes(b64encode(zlib.compress(packed)))
        body = IN_NODE + f"return (async () => {{ {ANSWERS.replace('BESIDE', beside)} }})();"
        return run_in_node("encoder", body, {"file": str(file), "asked": asked})

    return read


def numbers(text):
    """Read what `encode_floats` wrote."""
    return torch.frombuffer(bytearray(b64decode(text.removeprefix("f32:")) or bytes(4)), dtype=torch.float32).double()


def drawn(vocabulary, seed=0, **sizes):
    """A small model with drawn weights, norms and biases too."""
    torch.manual_seed(seed)
    sizes = {"d_model": 48, "num_heads": 12, "num_layers": 6, "d_ff": 80, "context": 64} | sizes
    model = Encoder(WordPieces(list(dict.fromkeys([*WordPieces.SPECIAL, *vocabulary]))), **sizes).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    return model


SENTENCES_ALL = [
    text for of in (SENTENCES, SECOND_SENTENCES) for _, *both in of.values() for two in both for text in two
]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = sorted({word for text in SENTENCES_ALL for word in WordPieces(WordPieces.SPECIAL).words(text)})


@pytest.fixture(scope="module")
def small():
    """A model that knows the words of the chapter's sentences, all letters and a few more pieces."""
    return drawn([*WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "transform", "##er", "!", "?"])


def first_words(pieces, most):
    """Return the pieces that are read of a text: all, or those of its first whole words."""
    if len(pieces) <= most:
        return pieces
    end = next((at for at in range(most - 1, 1, -1) if not pieces[at].startswith("##")), most - 1)
    return [*pieces[:end], "[SEP]"]


@torch.no_grad()
def expected(model, text, off=(), hidden=(), most=MOST_PIECES):
    """Return what PyTorch computes: pieces, weights (layers, heads, n, n) and states (layers + 1, n, d_model)."""
    pieces = model.pieces.cut(text)
    pieces = first_words(pieces, most)
    mask = torch.ones(len(pieces), len(pieces), dtype=torch.bool)
    words = group_pieces(pieces)
    mask[:, [place for word in hidden for place in words[word]]] = False
    ids = torch.tensor([[model.pieces.ids[piece] for piece in pieces]])
    output = model(ids, mask, without=[tuple(head) for head in off])
    return pieces, torch.stack(output.weights)[:, 0], torch.stack(output.states)[:, 0]


def differences(model, asked, answers):
    """Return the largest differences of weights and states, of all texts."""
    worst = [0.0, 0.0]
    for one, answer in zip(asked, answers, strict=True):
        pieces, *numbers = expected(model, *one)
        assert answer["pieces"] == pieces
        for place, (name, right) in enumerate(zip(("weights", "states"), numbers, strict=True)):
            found = torch.tensor(answer[name], dtype=torch.float64).view(right.shape)
            worst[place] = max(worst[place], (found - right).abs().max().item())
    return worst


# ---- Pieces -------------------------------------------------------------------------------------------------------

STRANGE = [
    "", " ", "\n\t \r\n", "The BANK, of (the) river?!", "naïve Ærøskøbing façade coöperate",
    "e\u0301 \u00a0\u2009x\ufeff\u200by z",
    "I İ ı ſ ẞ ß ΑΣ Ǆ ﬁ Å Å K", "日本語 bank 中国", "한국어 ภาษาไทย हिन्दी עברית العربية", "🦜🏳️‍🌈👩‍👩‍👧 ok",
    "\x00a\x07b\x7fc\x85d\u2028e\u2029f", "[CLS] [SEP][MASK]x[UNK] [PAD [pad] [unused5]",
    "a" * 100, "a" * 101, "aé" * 60,
    "don't e-mail me@x.org $5.00 50% a_b #tag ^ ~ ` | + = < >", "##er # ## ###", "\ud83d alone, \udc9a",
    "\u3000全角１２３ＡＢＣ",
    "xyzzy" * 15, "\U00020000\U0002b740 x", "−×÷≠ € £ ™ © № ½", "\ufffdx\ufffd", "a\u0300\u0301\u0302b",
]  # fmt: skip


@pytest.fixture(scope="module")
def vocabulary():
    """All pieces of the model; where it is not installed, those that the reference's record has."""
    if is_installed("encoder"):
        return list(load_encoder(dtype=torch.float32).pieces.ids)
    return sorted({piece for cut in REFERENCE["pieces"].values() for piece in cut.split()})


def test_texts_of_many_kinds_have_the_pieces_of_python(read_in_node, vocabulary):
    pieces = [*vocabulary, "\U00010428", "##\U00010428"]  # a letter of two units in JavaScript
    model = drawn(pieces, d_model=4, num_heads=1, num_layers=1, d_ff=4)
    dice = random.Random(1)
    letters = "abcdefgh'.,-# \n\u00a0éÈñçİßΣ\u0301\u0327中日한🦜١²Ⅷ"
    invented = ["".join(dice.choices(letters, k=dice.randrange(70))) for _ in range(300)]
    longest = [piece.removeprefix("##") for piece in sorted(vocabulary, key=len)[-50:]]
    texts = [*STRANGE, *REFERENCE["pieces"], *SENTENCES_ALL, *invented, *longest, "\U00010428" * 60]
    answers = read_in_node(
        pack_encoder(model, more={"senses": torch.zeros(1)}, about={"most": 64}), [(t, [], []) for t in texts]
    )
    used = WordPieces([piece for piece in model.pieces.ids if not piece.startswith("[unused")])
    for text, answer in zip(texts, answers, strict=True):
        pieces = used.cut(text)
        assert answer["all"] == len(pieces), text
        assert answer["pieces"] == first_words(pieces, 64), text


# ---- Numbers ------------------------------------------------------------------------------------------------------

ASKED = [
    (RIVER, [], []),
    (RIVER, [[1, 5]], []),
    (MONEY, [[2, 1], [2, 2], [6, 12]], [6]),
    (MONEY, [], [0, 3, 9]),
    ("bank", [[layer, head] for layer in range(1, 7) for head in range(1, 13)], []),
    ("", [], []),
    ("transformers bank", [], [1]),
    ("a bank " * 40, [], []),
    ("bank", [], [0, 1, 2]),  # nothing is left to look at
]


def test_every_number_is_pytorchs_with_heads_taken_away_and_words_hidden(read_in_node, small):
    packed = page_model(small)
    worst = differences(unpack_encoder(packed, torch.float64), ASKED, read_in_node(packed, ASKED))
    print(f"\nlargest differences: weights {worst[0]:.1e}, states {worst[1]:.1e}")
    assert max(worst) <= CLOSE


@pytest.mark.parametrize("sizes", [
    {"d_model": 36, "num_heads": 3, "num_layers": 2, "d_ff": 8},
    {"d_model": 32, "num_heads": 1, "num_layers": 1, "d_ff": 4},
    {"d_model": 8, "num_heads": 2, "num_layers": 3, "d_ff": 132},
])  # fmt: skip
def test_models_of_other_sizes_are_read_too(read_in_node, sizes):
    model = drawn(["a", "bank", "##er"], seed=1, **sizes)
    packed = pack_encoder(model, more={"senses": torch.zeros(2)}, about={"most": MOST_PIECES})
    asked = [
        (text, [[1, 1]] * off, []) for text in ("", "a", "a bank", "a banker a", "a bank a banker") for off in (0, 1)
    ]
    assert max(differences(unpack_encoder(packed, torch.float64), asked, read_in_node(packed, asked))) <= CLOSE


def test_packing_rounds_to_within_half_a_step_and_keeps_all_else(small):
    again = unpack_encoder(pack_encoder(small), torch.float32)
    assert list(again.pieces.ids) == list(small.pieces.ids)
    for (name, before), after in zip(small.state_dict().items(), again.state_dict().values(), strict=True):
        if before.dim() == 2 and name.startswith(("layers", "embedding")):
            most, share = (31, 64) if name.startswith("embedding") else (127, 32)
            rows = before.reshape(-1, share if before.size(1) % share == 0 else 16)
            steps = (rows.abs().amax(dim=1, keepdim=True) / most).expand_as(rows).reshape(before.shape)
            assert ((after - before).abs() <= steps * (0.5 + most / 2000)).all(), name
        else:
            assert torch.allclose(after, before, rtol=1e-3, atol=1e-4), name


def test_pieces_that_no_text_has_are_left_out():
    model = drawn(["[unused0]", "a", "[unused1]", "bank"], d_model=4, num_heads=1, num_layers=1, d_ff=4)
    again = unpack_encoder(pack_encoder(model))
    assert list(again.pieces.ids) == [*WordPieces.SPECIAL, "a", "bank"]
    assert torch.allclose(again.embedding.weight[-1], model.embedding.weight[-1], atol=0.05)


@pytest.fixture(scope="module")
def full():
    return load_encoder(dtype=torch.float64)


@torch.no_grad()
def all_weights(model):
    """Return the weights of the chapter's sentences, (layers, texts, heads, n, n), and which rows are pieces."""
    rows = [model.pieces.encode(text)[0] for text in SENTENCES_ALL]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
    there = ids >= 0
    return torch.stack(model(ids.clamp(min=0), there[:, None, None]).weights), there


def model_of(folder):
    """Read the whole model out of the scripts that a site has of it."""
    parts = sorted((folder / "_static" / "widgets" / "encoder").glob("*.js"), key=lambda path: int(path.stem))
    texts = [re.search(r'take\("([^"]*)"\)', part.read_text(encoding="utf-8"))[1] for part in parts]
    return zlib.decompress(b"".join(map(b64decode, texts)))


@weights
def test_the_whole_model_computes_as_pytorch_does_and_is_as_near_the_full_one_as_the_page_says(
    read_in_node, full, widget_pages
):
    single, packed = copy.deepcopy(full).float(), model_of(widget_pages)
    rounded = unpack_encoder(packed, torch.float64)
    asked = [(RIVER, [[1, 5]], [8]), ("The transformer's inventors drank crème brûlée.", [], [])]
    worst = differences(rounded, asked, read_in_node(packed, asked))
    print(f"\nlargest differences: weights {worst[0]:.1e}, states {worst[1]:.1e}")
    assert max(worst) <= 1e-5
    (one, there), (other, _) = all_weights(rounded.float()), all_weights(single)
    off = (one - other).abs().transpose(2, 3)[:, there]
    print(f"rounded against full: at most {off.max():.4f}, on average {off.mean():.5f}")
    said = float(re.search(r"off by more than (\d\.\d+)", SentenceReader.bundle("js"))[1])
    assert said / 1.5 <= off.max() <= said


# ---- Words --------------------------------------------------------------------------------------------------------

BY_WORD = """((reading) => ({
  words: reading.words,
  looks: reading.words.map((_, word) => [[1, 1], [2, 3]].map((head) => reading.looks(word, head))),
  vectors: reading.words.map((_, word) => reading.vectors(word).map((x) => [...x])),
  senses: reading.words.map((_, word) => reading.senses(word)),
}))(widget.readingOf(texts[read.indexOf(answer)].text, answer, opened))"""


def test_words_add_up_their_pieces_and_have_the_cosines_with_the_senses_of_the_other_list(read_in_node, small):
    texts = ["The transformers bank!", RIVER, SECOND_SENTENCES["mouse"].second[0], "constructor toString"]
    packed = page_model(small)
    model = unpack_encoder(packed, torch.float64)
    for text, answer in zip(texts, read_in_node(packed, [(t, [], []) for t in texts], BY_WORD), strict=True):
        pieces, looks, states = expected(model, text)
        words = group_pieces(pieces)
        assert answer["words"] == words
        belongs = torch.tensor([[float(i in word) for word in words] for i in range(len(pieces))], dtype=torch.float64)
        between = (belongs / belongs.sum(dim=0)).mT @ looks @ belongs
        for word, (one, other) in enumerate(answer["looks"]):
            assert torch.allclose(torch.tensor(one).double(), between[0, 0, word], atol=CLOSE)
            assert torch.allclose(torch.tensor(other).double(), between[1, 2, word], atol=CLOSE)
            mean = states[:, words[word]].mean(dim=1)
            assert torch.allclose(torch.tensor(answer["vectors"][word]).double(), mean, atol=CLOSE)
        spelled = ["".join(pieces[i].removeprefix("##") for i in places) for places in words]
        assert {spelled[i] for i, found in enumerate(answer["senses"]) if found} == set(spelled) & set(SENTENCES)
        for word, found in enumerate(answer["senses"]):
            if found:
                record = record_sentences(small, [text], spelled[word])[0]
                path = torch.tensor(found["path"])
                assert found["names"] == list(SENTENCES[spelled[word]].names)
                unrounded = numbers(record["path"]).view(-1, 2).float()
                assert torch.allclose(path, unrounded, atol=0.03) and not torch.allclose(path, unrounded, atol=1e-9)


# ---- The class ----------------------------------------------------------------------------------------------------


@weights
def test_the_record_is_what_the_model_computes(full):
    stored = json.loads((RECORDED / "encoder.json").read_text(encoding="utf-8"))
    fresh = record_sentences(full, READY, "bank")

    def agree(one, other):
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(agree(one[key], other[key]) for key in one)
        if isinstance(one, str) and one.startswith("f32:"):
            return torch.allclose(numbers(one), numbers(other), rtol=0, atol=1e-6)
        return one == other

    assert len(stored) == len(fresh) and all(map(agree, stored, fresh)), "run `python -m tools.record`"
    record, (_, looks, states) = fresh[0], expected(full, RIVER)
    assert record["pieces"][record["word"]] == "bank"
    assert torch.allclose(numbers(record["weights"]["1.5"]), looks[0, 4, record["word"]], atol=1e-6)
    other = expected(full, MONEY)
    cosine = torch.cosine_similarity(states[3, record["word"]], other[2][3, other[0].index("bank")], dim=0)
    assert numbers(record["between"])[7 + 3].item() == pytest.approx(cosine.item(), abs=1e-6)


@weights
def test_sentences_of_ones_own_are_read_in_python(full, monkeypatch):
    monkeypatch.setattr("attention_tutorial.widgets.encoder.load_encoder", lambda dtype: full.to(dtype))
    widget = SentenceReader(["The transformers hum.", "Two transformers!"], word="Transformers", head=(2, 9))
    assert repr(widget) == "SentenceReader('transformers', head=(2, 9))"
    record = widget.sentences[0]
    pieces, looks, _ = expected(full, record["text"])
    places = group_pieces(pieces)[record["word"]]
    assert [pieces[i] for i in places] == ["transformers"]
    assert torch.allclose(numbers(record["weights"]["2.9"]), looks[1, 8, places].mean(dim=0), atol=1e-6)
    assert record["names"] == [] and record["path"] == "f32:" and "none stored" in widget.static_html()
    with pytest.raises(ValueError, match="sentences must each hold the word 'cat'; got 'A dog'"):
        SentenceReader(["A dog"], word="cat")
    with pytest.raises(ValueError, match="sentences must have at most 40 pieces each; got 52 in"):
        SentenceReader(["cat " * 50], word="cat")


def test_the_table_says_where_the_head_looks_and_which_sense_is_nearest():
    widget = SentenceReader()
    record = widget.sentences[0]
    looks, path = numbers(record["weights"]["1.5"]), numbers(record["path"]).view(-1, 2)[SENSE_LAYER]
    page = widget.static_html()
    assert f"<td>river ({looks[record['pieces'].index('river')]:.2f})" in page
    assert f"<td>river ({path[0]:.2f}), money ({path[1]:.2f})</td>" in page


def test_the_small_form_has_two_sentences_and_few_heads():
    widget = SentenceReader(head=(2, 9), compact=True)
    assert [one["text"] for one in widget.sentences] == [RIVER, MONEY]
    assert [list(one["weights"]) for one in widget.sentences] == [["2.9", *(f"{a}.{b}" for a, b in FEW)]] * 2
    assert len(SentenceReader(compact=True).to_html()) < 6000
    three = SentenceReader(head=(1, 3), heads=[(1, 3), (2, 9), (1, 11)], compact=True)
    assert [list(one["weights"]) for one in three.sentences] == [["1.3", "2.9", "1.11"]] * 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"sentences": "a bank"}, TypeError, "sentences must be a sequence of one or more texts; got 'a bank'"),
        ({"sentences": []}, TypeError, "sentences must be a sequence of one or more texts"),
        ({"word": 3}, TypeError, "word must be a str; got int"),
        ({"word": "cat"}, ValueError, "word must be 'bank' where no sentences are given; got 'cat'"),
        ({"head": (7, 1)}, ValueError, r"head must be \(layer, head\) from \(1, 1\) to \(6, 12\); got \(7, 1\)"),
        ({"head": 5}, TypeError, r"head must be \(layer, head\); got 5"),
        ({"heads": (1, 3)}, TypeError, r"heads must be a sequence of \(layer, head\); got \(1, 3\)"),
        ({"heads": [(1, 13)]}, ValueError, r"heads must be .* from \(1, 1\) to \(6, 12\); got \(1, 13\)"),
        ({"compact": 1}, TypeError, "compact must be True or False; got int"),
    ],
)
def test_a_mistake_is_explained(arguments, error, message):
    with pytest.raises(error, match=message):
        SentenceReader(**arguments)


# ---- The site -----------------------------------------------------------------------------------------------------


def build_widgets(folder, monkeypatch, model):
    """Write the files of all widgets as the site's build does, with a model in place of the whole one, or with none."""

    def packed():
        if model is None:
            raise FileNotFoundError
        return page_model(model)

    monkeypatch.setattr(on_site, "page_model", packed)
    monkeypatch.setattr(on_site, "PART", 3 * 4000)
    on_site.write_files(types.SimpleNamespace(outdir=str(folder), tags=Tags()))
    return folder / "_static" / "widgets"


@weights
def test_the_site_has_the_whole_model_in_parts_and_says_how_large_it_is(widget_pages):
    folder = widget_pages / "_static" / "widgets"
    parts = sorted((folder / "encoder").glob("*.js"), key=lambda path: int(path.stem))
    said = re.search(r"parts: (\d+), bytes: (\d+)", (folder / "encoder.js").read_text(encoding="utf-8"))
    assert [path.name for path in parts] == [f"{number}.js" for number in range(1, int(said[1]) + 1)]
    share = bytes_sent(parts[0]) / parts[0].stat().st_size
    sent = share * sum(path.stat().st_size for path in parts)
    assert int(said[2]) == pytest.approx(sent, rel=0.03) and sent <= 20.2e6
    assert "Apache License" in (folder / "encoder" / "LICENSE.txt").read_text(encoding="utf-8")
    assert all("Apache License, Version 2.0" in path.read_text(encoding="utf-8")[:300] for path in parts)


def test_without_the_weights_the_site_builds_and_the_widget_says_so(browser, tmp_path, monkeypatch):
    folder = build_widgets(tmp_path, monkeypatch, None)
    assert not (folder / "encoder").exists()
    page = browser.new_page()
    show(page, tmp_path)
    assert "This copy of the site was built without the whole model" in page.text_content(".enc-opening")
    assert page.get_by_role("button", name="Open the whole model").count() == 0
    page.close()


def test_in_a_notebook_it_says_where_the_model_opens(browser):
    page = browser.new_page()
    put(page, SentenceReader())
    page.evaluate("delete window.attentionModels")
    assert "On the book’s site the whole model opens here" in page.text_content(".enc-opening")
    page.close()


# ---- The page, in Chromium, opened as a file ----------------------------------------------------------------------


def show(page, folder, **options):
    """Open a page of its own with the widget."""
    scripts = "".join(f"<script src=_static/widgets/{name}.js></script>" for name in ("encoder", "host"))
    sheet = "<link rel=stylesheet href=_static/widgets/encoder.css>"
    text = f"<!doctype html><meta charset=utf-8>{sheet}<body>{SentenceReader(**options).to_html()}{scripts}"
    (folder / "page.html").write_text(text, encoding="utf-8")
    page.goto((folder / "page.html").as_uri())
    page.wait_for_selector("[data-mounted=yes]")


@pytest.fixture(scope="module")
def copy_of_site(tmp_path_factory, small):
    """A folder with the widgets' files and the small model in place of the whole one."""
    folder = tmp_path_factory.mktemp("copy")
    with pytest.MonkeyPatch.context() as patch:
        build_widgets(folder, patch, small)
    return folder


@pytest.fixture(scope="module")
def rounded(small):
    return unpack_encoder(page_model(small), torch.float64)


@pytest.fixture
def page(pages, copy_of_site):
    page = pages.take(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(20000)
    show(page, copy_of_site)
    yield page
    failures = [what for kind, what in page.heard if kind == "failure"]
    pages.give_back(page)
    assert failures == []


def open_model(page):
    page.get_by_role("button", name="Open the whole model").click()
    page.wait_for_selector(".enc-buttons")
    settle(page)


def settle(page):
    page.wait_for_function("document.querySelectorAll('.enc-figure[aria-busy=true]').length === 0")


def shown(page, place=0):
    """Return words, weights and the pressed word of a sentence in the page."""
    return (
        page.locator(".enc-figure")
        .nth(place)
        .evaluate(
            """figure => [
          [...figure.querySelectorAll(".enc-ask")].map(x => x.textContent),
          [...figure.querySelectorAll(".enc-weight")].map(x => Number(x.dataset.value)),
          [...figure.querySelectorAll(".enc-word")].findIndex(x => x.className.includes("enc-looks")),
          [...figure.querySelectorAll("path")].map(x =>
            [Number(x.dataset.to), x.getPointAtLength(x.getTotalLength()).x]),
        ]"""
        )
    )


def agrees(page, model, text, word, head=(1, 5), *, place=0, off=(), hidden=()):
    """Assert that the page shows, of a text of whole words, what PyTorch computes, and arcs that end at their words."""
    settle(page)
    words, found, at, arcs = shown(page, place)
    pieces, looks, states = expected(model, text, off, hidden)
    assert words == pieces and pieces[at] == word
    right = looks[head[0] - 1, head[1] - 1, at]
    assert found == pytest.approx(right.tolist(), abs=CLOSE)
    assert sorted(to for to, _ in arcs) == [i for i, weight in enumerate(right.tolist()) if weight >= 0.02]
    middles = (
        page.locator(".enc-figure")
        .nth(place)
        .locator("[data-word]")
        .evaluate_all("all => all.map(x => x.offsetLeft + x.offsetWidth / 2)")
    )
    assert all(abs(end - middles[to]) < 9 for to, end in arcs)
    return states[:, at]


def test_before_it_is_opened_it_shows_the_record(page):
    for place, record in enumerate(SentenceReader().sentences[:2]):
        words, found, at, _ = shown(page, place)
        assert words == record["pieces"] and at == record["word"]
        assert found == pytest.approx(numbers(record["weights"]["1.5"]).tolist(), abs=CLOSE)
    page.set_viewport_size({"width": 390, "height": 844})
    looked_at, chosen = page.get_by_text("river", exact=True).first, page.locator("select").first
    assert looked_at.bounding_box()["y"] - page.locator(".bw").bounding_box()["y"] < 220, (
        "chapter 10's first screen ends"
    )
    assert chosen.bounding_box()["y"] > looked_at.bounding_box()["y"]
    assert "is nearest to river (0.93; money 0.86)" in page.text_content(".bw-sums")
    page.get_by_role("button", name="Head 1.11:").click()
    assert shown(page)[1] == pytest.approx(
        numbers(SentenceReader().sentences[0]["weights"]["1.11"]).tolist(), abs=CLOSE
    )
    page.locator("select").nth(1).select_option(READY[3])
    assert shown(page, 1)[0][1] == "robbers"
    between = numbers(SentenceReader().sentences[0]["between"]).view(-1, 7)[3, SENSE_LAYER]
    assert f"have the cosine {between:.2f}" in page.text_content(".bw-sums")


def test_opened_from_a_file_it_reads_what_is_typed_takes_heads_away_hides_words_and_undoes(page, rounded):
    open_model(page)
    one = agrees(page, rounded, RIVER, "bank")
    other = agrees(page, rounded, MONEY, "bank", place=1)
    cosine = torch.cosine_similarity(one[SENSE_LAYER], other[SENSE_LAYER], dim=0)
    assert f"The two vectors have the cosine {cosine:.2f}" in page.text_content(".bw-sums")
    page.get_by_role("button", name="Take head 1.5 away").click()
    page.get_by_role("button", name="Head 3.2:").click()
    agrees(page, rounded, RIVER, "bank", (3, 2), off=[(1, 5)])
    page.get_by_role("button", name="hide “river”").click()
    agrees(page, rounded, RIVER, "bank", (3, 2), off=[(1, 5)], hidden=[8])
    agrees(page, rounded, MONEY, "bank", (3, 2), place=1, off=[(1, 5)])
    said = page.text_content(".bw-sums")
    assert "without head 1.5" in said and "with “river” hidden" in said and said.count("was") == 4
    page.get_by_role("button", name="Undo").click()
    agrees(page, rounded, RIVER, "bank", (3, 2), off=[(1, 5)])
    page.get_by_role("button", name="Undo").click()
    agrees(page, rounded, RIVER, "bank", (3, 2))
    page.get_by_role("checkbox", name="Two sentences").click()
    assert page.locator(".enc-figure").count() == 1
    field = page.get_by_label("type one in English")
    field.fill("The match ended at the bank of the lake.")
    agrees(page, rounded, "The match ended at the bank of the lake.", "match", (3, 2))
    page.get_by_role("button", name="bank", exact=True).click()
    agrees(page, rounded, "The match ended at the bank of the lake.", "bank", (3, 2))
    page.get_by_label("or take one").select_option(SENTENCES["mouse"].first[0])
    agrees(page, rounded, SENTENCES["mouse"].first[0], "mouse", (3, 2))
    page.get_by_role("button", name="Undo").click()
    assert field.input_value() == "The match ended at the bank of the lake."


# What is typed after a sentence with "bank" at place 5, the word that asks then, and its place
TYPED = [
    ("The bat flew out of the cave at night", "bat", 2),
    ("He left his palm tree in the sun", "palm", 4),
    ("I put the mouse next to the keyboard", "mouse", 4),
    ("The BAT sat on a bank.", "bat", 2),
    ("Two bats flew out of the dark cave", "bats", 2),
    ("The bank, the bank, the bank", "bank", 2),
    ("It is made of wood!", "wood", 5),
    ("mydog", "mydog", 1),
    ("! ?", "[CLS]", 0),
    ("", "[CLS]", 0),
    ("a bat " + "z" * 60, "bat", 2),
    ("z " * 37 + "batman", "z", 37),  # only "bat" of its last word would fit
    ("The next word is typed", "typed", 5),
]


def test_a_typed_sentence_asks_from_its_first_word_with_senses(page, rounded):
    open_model(page)
    field = page.get_by_label("Sentence 1: type one in English")
    for text, word, place in TYPED:
        field.fill(text)
        settle(page)
        words, _, at, _ = shown(page)
        assert (words[at].replace("##", ""), at) == (word, place), text
        said = page.text_content(".bw-sums")
        assert ("The two vectors have the cosine" in said) == (word == "bank"), text
        assert ("no stored senses" in said) == (word not in SENTENCES), text
    field.fill("The bat flew out to the bank")
    settle(page)
    for word, says in (("out", "no stored senses (“bat” has)"), ("bank", "“bank” is")):  # whichever a reader presses
        page.locator(".enc-figure").first.get_by_role("button", name=word, exact=True).click()
        assert says in page.text_content(".bw-sums")


def test_the_keyboard_keeps_its_place(page):
    open_model(page)

    def acts(key, *places):
        page.keyboard.press(key)
        settle(page)
        here = page.evaluate("document.activeElement.id + ' ' + document.activeElement.ariaLabel")
        assert any(place in here for place in places), (key, here)

    acts("Enter", "take-away")  # the place of the button that opened the model
    page.keyboard.press("Tab")
    acts("Enter", "undo")
    acts("Enter", "undo")
    acts("Tab", "second")
    acts("Space", "second")
    acts("Space", "second")
    page.get_by_label("Sentence 1: type one in English").focus()
    for key in ("End", "a", "Enter", "Backspace", "Control+a", "m", "y", " ", "b", "a", "t"):
        acts(key, "text-0")
    page.get_by_role("button", name="bat", exact=True).focus()
    acts("Enter", " null")
    acts("ArrowDown", "hide “bat”")
    acts("Enter", "hide “bat”")
    page.get_by_role("button", name="Head 1.5:").focus()
    acts("ArrowDown", "head-2-5")
    acts("Enter", "head-2-5")


def test_rubbish_is_answered_in_words_and_stays_as_it_was_typed(page, rounded):
    open_model(page)
    page.get_by_role("checkbox", name="Two sentences").click()
    field = page.get_by_label("type one in English")
    long = "the bank of the river and " * 12
    for text, words in (
        ("", "Type a word"),
        ("   ", "Type a word"),
        (long, "has 74 pieces, and the page reads the first 39"),
    ):
        field.fill(text)
        settle(page)
        page.wait_for_selector(".bw-trouble")
        assert words in page.text_content(".bw-trouble") and field.input_value() == text
        assert shown(page)[0] == expected(rounded, text)[0]
    for text in ("<b>bank</b> &amp; %$§ 🦜 '''", "日本 bank", "[SEP] bank [MASK]"):
        field.fill(text)
        settle(page)
        assert page.locator(".bw-trouble").count() == 0
        assert "".join(shown(page)[0]).replace("##", "") == "".join(expected(rounded, text)[0]).replace("##", "")


def test_the_keys_lead_from_word_to_word_and_to_their_weights(page, rounded):
    open_model(page)
    page.get_by_role("button", name="bank", exact=True).first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    agrees(page, rounded, RIVER, "bank", hidden=[8])
    for key in ("ArrowUp", "Home", "End", "ArrowLeft", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    agrees(page, rounded, RIVER, "fished", hidden=[8])
    page.get_by_role("button", name="Head 1.5:").focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    agrees(page, rounded, RIVER, "fished", (2, 6), hidden=[8])


def test_opened_it_has_no_serious_fault_by_day_and_night_and_fits_a_phone(page):
    open_model(page)
    page.get_by_role("button", name="Take head 1.5 away").click()
    page.get_by_role("button", name="hide “river”").click()
    page.get_by_label("Sentence 2: type one in English").fill("incomprehensibilities of the bank, " * 9)
    settle(page)
    page.evaluate("document.querySelector('.bw details').open = true")
    assert serious_findings(page, ".bw") == []
    page.get_by_role("button", name="Head 1.11:").click()
    page.locator(".enc-ask").last.click()
    settle(page)
    for width in (PHONE, 320):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(DRESS, ["light", width])
        assert phone_faults(page) == []
        assert page.locator(".enc-arcs path").count() > 5
        assert page.evaluate(CROSSINGS, [".enc-arcs path", "[data-word]"]) == 0


def test_a_part_that_does_not_come_is_told_and_can_be_asked_for_again(page, copy_of_site, rounded):
    part = copy_of_site / "_static" / "widgets" / "encoder" / "2.js"
    away = part.rename(part.with_suffix(".away"))
    page.get_by_role("button", name="Open the whole model").click()
    page.get_by_text("The model did not come").wait_for()
    assert shown(page)[0] == SentenceReader().sentences[0]["pieces"]
    away.rename(part)
    open_model(page)
    agrees(page, rounded, RIVER, "bank")


def test_after_a_reload_it_opens_again_where_its_reader_left_it(page, rounded):
    open_model(page)
    page.get_by_label("Sentence 1: type one in English").fill("The crane sat on the bank.")
    page.get_by_role("button", name="Head 2.4:").click()
    page.reload()
    page.wait_for_selector(".enc-buttons")
    agrees(page, rounded, "The crane sat on the bank.", "crane", (2, 4))
    agrees(page, rounded, MONEY, "bank", (2, 4), place=1)
