"""Laws of interventions: without any, the trace is what the model computes, and each does what it says.

Every intervention is compared with a second way to it: masks of the model's own, hooks of PyTorch, changed parameters.
"""

import copy

import pytest
import torch

from attention_tutorial.analysis.gender_agreement import close
from attention_tutorial.analysis.intervention import Intervention, generate_with, trace
from attention_tutorial.analysis.weights import largest_difference
from attention_tutorial.data.translation import ENGLISH, ITALIAN, draw_sentences, encode_english
from attention_tutorial.models.decoding import greedy
from attention_tutorial.models.transformer import BEGIN, Transformer
from attention_tutorial.models.translator import load_translator

SIZES = {"d_model": 12, "num_heads": 3, "d_ff": 10, "encoder_layers": 2, "decoder_layers": 2}


@pytest.fixture(scope="module")
def model():
    """A random translator of two layers whose weights are far from even."""
    model = Transformer(len(ENGLISH), len(ITALIAN), **SIZES, generator=torch.Generator().manual_seed(3)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1).add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(4)))
    return model.eval()


SOURCE, TARGET = torch.tensor([5, 9, 3, 7, 2, 60]), torch.tensor([BEGIN, 8, 40, 30, 5])


def logits_by(model, **masks):
    with torch.no_grad():
        return model(SOURCE[None], TARGET[None], **masks)


def test_without_an_intervention_it_computes_what_the_model_computes(model):
    traced, (logits, weights) = trace(model, SOURCE, TARGET), logits_by(model)
    assert largest_difference(traced["logits"], logits[0]) < 1e-12
    for layer in range(2):
        for name, saved in (
            (f"encoder.{layer}.attention", weights.encoder),
            (f"decoder.{layer}.attention", weights.decoder),
            (f"decoder.{layer}.cross_attention", weights.cross),
        ):
            ours = torch.stack([traced[f"{name}.weights.{head}"] for head in (1, 2, 3)])
            assert largest_difference(ours, saved[layer][0]) < 1e-12
    assert torch.allclose(traced["probabilities"].sum(dim=1), torch.ones(5).double())
    assert (traced["probabilities"][:, :2] == 0).all()


def test_without_an_intervention_it_generates_what_greedy_decodes():
    translator = load_translator(torch.float64)
    for sentence in draw_sentences(12, generator=torch.Generator().manual_seed(900), held_out=True):
        source = encode_english([sentence.english])
        ids, sure = generate_with(translator, source[0])
        written = greedy(translator, source, max_length=30)
        assert ids.tolist() == written.tokens[0].tolist()
        assert sure.log().sum().item() == pytest.approx(written.log_probs.item(), abs=1e-9)


def attention_of(model, kind, layer):
    part = (model.encoder if kind == "encoder" else model.decoder)[layer]
    return part.cross_attention if kind == "cross" else part.attention


def with_mask(model, kind, layer, mask):
    """A copy of the model in which one attention has another mask besides its own."""
    other = copy.deepcopy(model)
    part = attention_of(other, kind, layer)
    attend = part.attend
    part.attend = lambda query, keys, values, own=None, **more: attend(
        query, keys, values, mask if own is None else own & mask, **more
    )
    return other


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize(("kind", "shape"), [("encoder", (6, 6)), ("decoder", (5, 5)), ("cross", (5, 6))])
@pytest.mark.parametrize(("head", "row", "column"), [(0, 3, 1), (2, 4, 2), (3, -1, 1), (0, 2, -1), (0, -1, 3)])
def test_a_closed_edge_is_another_mask_of_that_attention(model, layer, kind, shape, head, row, column):
    mask = torch.ones(1, 3, *shape, dtype=torch.bool)
    rows, columns = (slice(None) if at < 0 else at for at in (row, column))
    mask[0, :, rows, columns] = False
    if head:
        mask[0, [h for h in range(3) if h != head - 1]] = True
    logits, _ = logits_by(with_mask(model, kind, layer, mask))
    traced = trace(model, SOURCE, TARGET, Intervention(closed=[(kind, layer, head, row, column)]))
    assert largest_difference(traced["logits"], logits[0]) < 1e-12
    assert largest_difference(traced["logits"], trace(model, SOURCE, TARGET)["logits"]) > 1e-6


def test_two_closed_edges_are_both_closed(model):
    mask = close(torch.tensor([3]), torch.tensor([1]), 5, 6) & close(torch.tensor([4]), torch.tensor([0]), 5, 6)
    logits, _ = logits_by(model, cross_mask=mask)
    closed = [("cross", layer, 0, row, column) for layer in (0, 1) for row, column in ((3, 1), (4, 0))]
    assert largest_difference(trace(model, SOURCE, TARGET, Intervention(closed=closed))["logits"], logits[0]) < 1e-12


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_a_removed_head_has_no_columns_in_the_last_matrix_and_swapped_parts_are_swapped_matrices(model, kind, layer):
    removed, swapped = copy.deepcopy(model), copy.deepcopy(model)
    with torch.no_grad():
        attention_of(removed, kind, layer).w_o.weight[:, 4:8] = 0
    part = attention_of(swapped, kind, layer)
    part.w_k, part.w_v = part.w_v, part.w_k
    for intervention, other in (
        (Intervention(heads_off=[(kind, layer, 2)]), removed),
        (Intervention(swapped=[(kind, layer)]), swapped),
    ):
        assert largest_difference(trace(model, SOURCE, TARGET, intervention)["logits"], logits_by(other)[0][0]) < 1e-12


def test_a_mask_shifted_back_is_a_narrower_mask(model):
    logits, weights = logits_by(model, decoder_mask=torch.ones(5, 5, dtype=torch.bool).tril(-1))
    traced = trace(model, SOURCE, TARGET, Intervention(shift=-1))
    assert largest_difference(traced["logits"], logits[0]) < 1e-12
    assert (weights.decoder[0][0, :, 0] == 0).all()
    assert (traced["decoder.0.attention.weights.1"][0] == 0).all(), "the first position sees nothing"


def test_a_mask_shifted_on_lets_each_position_see_the_next_one_and_no_more(model):
    traced, plain = trace(model, SOURCE, TARGET, Intervention(shift=1)), trace(model, SOURCE, TARGET)
    weights = traced["decoder.0.attention.weights.2"]
    assert (weights.triu(2) == 0).all() and (weights.diagonal(1) > 0).all()
    scores = plain["decoder.0.attention.scores.2"]
    by_hand = scores.masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(1), -torch.inf).softmax(dim=1)
    assert largest_difference(weights, by_hand) < 1e-12


def test_masked_padding_changes_nothing_and_open_padding_does(model):
    plain = trace(model, SOURCE, TARGET)["logits"]
    assert largest_difference(trace(model, SOURCE, TARGET, Intervention(padding=4))["logits"], plain) < 1e-12
    memory = model.encode(torch.nn.functional.pad(SOURCE, (0, 4))[None])
    memory = memory._replace(mask=torch.ones_like(memory.mask))
    with torch.no_grad():
        opened = model.decode_step(TARGET[None], memory, model.init_cache(memory))[0][0]
    traced = trace(model, SOURCE, TARGET, Intervention(padding=4, unmasked=["cross"]))["logits"]
    assert largest_difference(traced, opened) < 1e-12
    both = trace(model, SOURCE, TARGET, Intervention(padding=4, unmasked=["cross", "encoder"]))["logits"]
    assert largest_difference(both, opened) > 1e-6


@pytest.mark.parametrize(
    ("name", "hooked"),
    [
        ("encoder.1.attention_norm", lambda m: m.encoder[1].attention_norm),
        ("encoder.0.attention.output", lambda m: m.encoder[0].attention.w_o),
        ("encoder_norm", lambda m: m.encoder_norm),
        ("decoder.1.cross_norm", lambda m: m.decoder[1].cross_norm),
        ("decoder.0.feed_forward.before", lambda m: m.decoder[0].feed_forward.w_1),
        ("decoder.0.feed_forward.output", lambda m: m.decoder[0].feed_forward),
        ("decoder_norm", lambda m: m.decoder_norm),
        ("logits", lambda m: m.readout),
    ],
)
def test_a_changed_matrix_is_what_a_hook_would_make_of_it(model, name, hooked):
    def place(module, inputs, output):
        output = output.clone()
        output[0, 2, 3] = 1.25
        return output

    other = copy.deepcopy(model)
    hooked(other).register_forward_hook(place)
    traced = trace(model, SOURCE, TARGET, Intervention(changes=[(name, 2, 3, 1.25)]))
    assert traced[name][2, 3] == 1.25
    assert largest_difference(traced["logits"], logits_by(other)[0][0]) < 1e-12


def test_a_changed_parameter_is_a_changed_parameter(model):
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.decoder[1].cross_attention.w_q.weight[3, 2] = -2.0
        other.encoder_norm.bias[5] = 3.0
    changes = [("decoder.1.cross_attention.w_q.weight", 3, 2, -2.0), ("encoder_norm.bias", 0, 5, 3.0)]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    traced = trace(model, SOURCE, TARGET, Intervention(changes=changes))
    assert largest_difference(traced["logits"], logits_by(other)[0][0]) < 1e-12
    assert all(tensor.equal(before[name]) for name, tensor in model.state_dict().items()), "the model stays as it was"


def test_weights_and_heads_that_are_changed_by_hand_are_mixed_as_they_are(model):
    name = "decoder.0.cross_attention"
    traced = trace(model, SOURCE, TARGET, Intervention(changes=[(f"{name}.weights.2", 4, 1, 1.5)]))
    mixed = traced[f"{name}.weights.2"] @ traced[f"{name}.v.2"]
    assert largest_difference(traced[f"{name}.heads.2"], mixed) < 1e-12
    scored = trace(model, SOURCE, TARGET, Intervention(changes=[(f"{name}.scores.2", 4, 1, 9.0)]))
    expected = scored[f"{name}.scores.2"].softmax(dim=1)
    assert largest_difference(scored[f"{name}.weights.2"], expected) < 1e-12


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda m: trace("model", SOURCE, TARGET), TypeError, "model must be a Transformer; got str"),
        (lambda m: trace(m, SOURCE, TARGET, {}), TypeError, "intervention must be an Intervention; got dict"),
        (lambda m: trace(m, SOURCE[None], TARGET), ValueError, "source must have one axis"),
        (lambda m: trace(m, SOURCE, TARGET[:0]), ValueError, "target_in must have one axis with at least one id"),
        (lambda m: trace(m, SOURCE.double(), TARGET), TypeError, "source must hold token ids"),
        (lambda m: generate_with(m, SOURCE, max_length=0), ValueError, "max_length must be at least 1"),
        (
            lambda m: trace(Transformer(9, 9, d_model=8, num_heads=2, d_ff=8, norm_first=False), SOURCE, TARGET),
            ValueError,
            "norm_first=True",
        ),
    ],
)
def test_a_mistake_is_explained(model, make, error, message):
    with pytest.raises(error, match=message):
        make(model)
