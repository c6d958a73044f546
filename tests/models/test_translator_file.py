"""Laws of the trained translator that the package ships: its file is what the tool makes, and it still translates."""

import json

import pytest
import torch

from attention_tutorial.data.translation import ENGLISH, ITALIAN
from attention_tutorial.models.transformer import Transformer
from attention_tutorial.models.translator import load_translator, pack_translator, trained_record, unpack_translator
from tools.translator import RECORD, exact_match, logits_of

SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 8}


def test_the_file_is_small_and_is_what_the_tool_makes_of_its_numbers():
    assert RECORD.stat().st_size < 400_000
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert record == trained_record()
    loss = record.pop("loss_of_precision")
    assert pack_translator(load_translator(torch.float64)) == record
    assert loss["largest_difference_of_a_logit"] <= 0.02
    assert loss["exact_match"]["as it is kept"] >= loss["exact_match"]["in double precision"] - 0.002


def test_it_translates_sentences_whose_pairs_of_words_it_never_met():
    model = load_translator()
    assert model.readout.weight.dtype == torch.get_default_dtype() and not model.training
    assert exact_match(model, 300) >= 0.98


def test_half_precision_moves_no_logit_far():
    """The numbers before rounding are not kept; those between them and the next half number are as far away."""
    model = load_translator(torch.float64)
    moved = load_translator(torch.float64)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in moved.parameters():  # what rounding can have taken: up to half a last digit of eleven bits
            digit = 2.0 ** (torch.log2(parameter.abs().clamp_min(2**-14)).floor() - 11)
            parameter.add_(digit * (2 * torch.rand(parameter.shape, generator=generator).double() - 1))
    assert (logits_of(model, 100) - logits_of(moved, 100)).abs().max() < 0.02


def test_single_precision_loses_nothing_that_float32_has():
    model = Transformer(len(ENGLISH), len(ITALIAN), **SIZES)
    again = unpack_translator(pack_translator(model, "float32"))
    for name, tensor in model.state_dict().items():
        assert tensor.equal(again.state_dict()[name]), name
    assert unpack_translator(pack_translator(model), torch.float64).readout.weight.dtype == torch.float64


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: pack_translator("model"), TypeError, "model must be a Transformer; got str"),
        (lambda: pack_translator(Transformer(9, 9, **SIZES)), ValueError, "English and 125 Italian ids; got .9, 9."),
        (lambda: pack_translator(load_translator(), "float8"), ValueError, "precision must be one of float16, float32"),
        (
            lambda: pack_translator(Transformer(len(ENGLISH), len(ITALIAN), **SIZES, norm_first=False)),
            ValueError,
            "norm_first=True",
        ),
        (lambda: unpack_translator({"english": [], "italian": []}), ValueError, "must have the vocabularies"),
    ],
)
def test_a_mistake_is_explained(make, error, message):
    with pytest.raises(error, match=message):
        make()
