"""The package on the device under test (`pytest --device cuda`), in every float type that devices are used with.

The oracle is always float64 on the CPU, fed the same numbers. What a result may differ by follows from the rounding of
its own type: `eps` is the gap between 1 and the next number, and rounding once moves a number by at most half of it.

That nothing is forgotten on the CPU is also tested where there is no other device, on a pretended one.
"""

import copy

import pytest
import torch
from oracles import BATCH, D_HIDDEN, D_K, D_Q, D_V, HEADS, M, N, draw, draw_bool
from pretended_device import PretendedDevice
from torch.testing import assert_close

from attention_tutorial import (
    AdditiveAttention,
    MultiHeadAttention,
    additive_attention,
    causal_mask,
    combine_masks,
    functional,
    fused_attention,
    masked_softmax,
    multiplicative_attention,
    padding_mask,
    scaled_dot_product_attention,
    sliding_window_mask,
    to_torch_mha_mask,
)
from attention_tutorial.analysis.influence import find_influence
from attention_tutorial.analysis.probe import linear_probe
from attention_tutorial.analysis.weights import entropy
from attention_tutorial.data.cards import card_rows
from attention_tutorial.data.copying import CopyBatches, copy_examples
from attention_tutorial.data.sentences import who_where
from attention_tutorial.exercises import exercises, judge, random
from attention_tutorial.models.seq2seq import ATTENTION_KINDS, Seq2Seq
from attention_tutorial.models.tasks.who_where_reader import Reader, reader_accuracy
from attention_tutorial.models.training import token_accuracy, train
from attention_tutorial.positions import (
    LearnedPositions,
    RotaryMultiHeadAttention,
    alibi_bias,
    apply_rotary,
    shift_matrix,
    sinusoidal_positions,
)
from attention_tutorial.tiled import tiled_attention

D_MODEL, VOCAB = 24, 11
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
every_path = pytest.mark.parametrize("is_fast", [False, True], ids=["step by step", "fused"])


def eps(dtype):
    return torch.finfo(dtype).eps


def exactly(tensor):
    """The same numbers in float64 on the CPU."""
    return tensor.detach().cpu().double()


def noise(exact):
    """What float32 may lose in sums of this size, measured by the largest number."""
    return 32 * eps(torch.float32) * exact.abs().max().item()


def assert_rounded_once(actual, exact):
    """Half precision is computed in float32 and rounded at the end: half a gap."""
    assert_close(exactly(actual), exact, rtol=0.51 * eps(actual.dtype), atol=noise(exact))


def assert_rounded_often(actual, exact):
    """Half precision is rounded at every step on the way: some gaps of the largest number."""
    furthest = (exactly(actual) - exact).abs().max().item()
    assert furthest <= 8 * eps(actual.dtype) * exact.abs().max().item() + noise(exact)


def inputs(generator, device, dtype, m=M, n=N):
    shapes = (m, D_K), (n, D_K), (n, D_V)
    return [draw(generator, BATCH, HEADS, *shape, dtype=dtype, device=device) for shape in shapes]


def gradients(output, tensors, upstream):
    return torch.autograd.grad(output, tensors, upstream.to(output))


def some_rows_empty(generator):
    """A boolean mask that leaves two queries nothing."""
    mask = draw_bool(generator, M, N)
    mask[[1, 3]] = False
    return mask


MASKS = {
    "none": lambda g, dtype: None,
    "bool": lambda g, dtype: draw_bool(g, BATCH, 1, M, N),
    "padding": lambda g, dtype: padding_mask([3, 6], n=N),
    "empty rows": lambda g, dtype: some_rows_empty(g),
    "float": lambda g, dtype: draw(g, HEADS, M, N, dtype=dtype),
    "float with empty rows": lambda g, dtype: draw(g, M, N, dtype=dtype).masked_fill(~some_rows_empty(g), -torch.inf),
}
every_mask = pytest.mark.parametrize("make_mask", MASKS.values(), ids=MASKS.keys())
causal_or_not = pytest.mark.parametrize("is_causal", [False, True], ids=["", "causal"])


def to(device, *tensors):
    return [None if tensor is None else tensor.to(device) for tensor in tensors]


# Masks


@pytest.mark.parametrize(("m", "n"), [(M, N), (N, M), (M, M), (1, N)])
def test_masks_are_the_same_on_every_device(m, n, device, generator):
    expected, made = causal_mask(m, n), causal_mask(m, n, device)
    assert made.device.type == causal_mask(m, n, str(device)).device.type == device.type
    assert torch.equal(made.cpu(), expected)
    padding, bias = padding_mask([1, n], n=n), draw(generator, m, n, dtype=torch.float32)
    lengths = torch.tensor([1, n], device=device)
    assert torch.equal(padding_mask(lengths, n=n).cpu(), padding)
    assert torch.equal(combine_masks(made, padding.to(device)).cpu(), combine_masks(expected, padding))
    joined = combine_masks(made, padding.to(device), bias.to(device))
    assert torch.equal(joined.cpu(), combine_masks(expected, padding, bias))
    assert torch.equal(to_torch_mha_mask(made).cpu(), to_torch_mha_mask(expected))


# Functions


@every_path
@every_dtype
@every_mask
@causal_or_not
def test_values_and_gradients_are_those_of_float64_on_the_cpu(make_mask, is_causal, dtype, is_fast, device, generator):
    """Those agree with loops over single numbers: test_functional.py."""
    tensors, mask = inputs(generator, device, dtype), make_mask(generator, dtype)
    exact_mask = mask if mask is None or mask.dtype == torch.bool else exactly(mask)
    exact_tensors = [exactly(tensor).requires_grad_() for tensor in tensors]
    exact_output, exact_weights = scaled_dot_product_attention(*exact_tensors, exact_mask, is_causal=is_causal)
    arguments = [*(tensor.requires_grad_() for tensor in tensors), *to(device, mask)]
    if is_fast:
        output, assert_rounded = fused_attention(*arguments, is_causal=is_causal), assert_rounded_often
    else:
        (output, weights), assert_rounded = (
            scaled_dot_product_attention(*arguments, is_causal=is_causal),
            assert_rounded_once,
        )
        assert (weights.device.type, weights.dtype) == (device.type, dtype)
        assert_rounded_once(weights, exact_weights)
    assert (output.device.type, output.dtype) == (device.type, dtype)
    assert_rounded(output, exact_output)
    upstream = draw(generator, BATCH, HEADS, M, D_V, dtype=dtype)
    expected = gradients(exact_output, exact_tensors, upstream)
    for gradient, exact in zip(gradients(output, tensors, upstream), expected, strict=True):
        assert gradient.isfinite().all()
        assert_rounded(gradient, exact)


@every_dtype
@pytest.mark.parametrize(("m", "n"), [(130, 300), (300, 300), (37, 1031)])
def test_many_keys_agree_too(m, n, dtype, device, generator):
    """More than one block of a fused kernel on either axis; of the last, whole blocks are masked for some rows."""
    tensors, mask = inputs(generator, device, dtype, m, n), torch.ones(m, n, dtype=torch.bool)
    if m < 100:
        mask[:17, :600], mask[5], mask[9, :1030] = False, False, False
    exact_output = scaled_dot_product_attention(*map(exactly, tensors), mask, is_causal=m > 100)[0]
    mask = mask.to(device) if m < 100 else None
    assert_rounded_once(scaled_dot_product_attention(*tensors, mask, is_causal=m > 100)[0], exact_output)
    assert_rounded_often(fused_attention(*tensors, mask, is_causal=m > 100), exact_output)


@every_dtype
def test_the_other_scores_agree(dtype, device, generator):
    shapes = (M, D_Q), (N, D_K), (N, D_V), (D_HIDDEN, D_Q), (D_HIDDEN, D_K), (D_HIDDEN,), (D_Q, D_K)
    query, key, value, w_query, w_key, v, w = (
        draw(generator, *shape, dtype=dtype, device=device) / 3 for shape in shapes
    )
    mask = some_rows_empty(generator)
    additive, multiplicative = (query, key, value, w_query, w_key, v), (query, key, value)
    for actual, exact in zip(additive_attention(*additive, mask.to(device)),
                            additive_attention(*map(exactly, additive), mask), strict=True):  # fmt: skip
        assert actual.dtype == dtype
        assert_rounded_often(actual, exact)
    expected = multiplicative_attention(*map(exactly, multiplicative), mask, w=exactly(w))
    for actual, exact in zip(multiplicative_attention(*multiplicative, mask.to(device), w=w), expected, strict=True):
        assert actual.dtype == dtype
        assert_rounded_once(actual, exact)


@every_dtype
def test_masked_softmax_agrees(dtype, device, generator):
    scores, mask = draw(generator, BATCH, M, N, dtype=dtype, device=device), some_rows_empty(generator)
    assert_rounded_once(masked_softmax(scores, mask.to(device)), masked_softmax(exactly(scores), mask))


# Modules


def modules_here_and_exact(module, device, dtype):
    """A module on the device and its twin in float64 on the CPU, with the same, rounded numbers."""
    here = module.to(device, dtype)
    return here, copy.deepcopy(here).cpu().double()


@every_dtype
@pytest.mark.parametrize("attention", ATTENTION_KINDS)
def test_the_encoder_decoder_agrees_and_writes_what_scores_best(attention, dtype, device, generator):
    model = Seq2Seq(VOCAB, d_embedding=5, d_hidden=D_HIDDEN, attention=attention, generator=generator)
    here, twin = modules_here_and_exact(model, device, dtype)
    source = torch.randint(1, VOCAB, (BATCH, N), generator=generator)
    written, weights = here.generate(source.to(device), M)
    assert written.device.type == device.type
    assert (weights is None) == (attention == "none")
    target_in = torch.cat([torch.zeros(BATCH, 1, dtype=torch.long), written.cpu()[:, :-1]], dim=1)
    actual, exact = here(source.to(device), target_in.to(device))[0], twin(source, target_in)[0]
    assert_rounded_often(actual, exact)
    lost = exact.amax(dim=-1) - exact.gather(-1, written.cpu()[..., None])[..., 0]
    assert lost.max() <= 2 * (8 * eps(dtype) * exact.abs().max() + noise(exact))


# Nothing is forgotten on the CPU


@pytest.fixture
def pretended():
    with PretendedDevice():
        yield torch.device("cuda")


MIXTURES = {
    "sum": lambda here, there: here + there,
    "in place": lambda here, there: there.mul_(here),
    "stack": lambda here, there: torch.stack([here, there]),
    "comparison": torch.equal,
    "index on the device": lambda here, there: here[there.long()],
    "value on the CPU": lambda here, there: there.index_put((torch.tensor([0, 1]),), here[:2]),
    "numpy": lambda here, there: there.numpy(),
    "generator": lambda here, there: torch.rand(3, device="cuda", generator=torch.Generator()),
    "generator in place": lambda here, there: there.uniform_(generator=torch.Generator()),
    "to float64": lambda here, there: there.double(),
    "float64 moved": lambda here, there: here.double().to("cuda"),
    "made in float64": lambda here, there: torch.arange(3, dtype=torch.float64, device="cuda"),
}


@pytest.mark.parametrize("mix", MIXTURES.values(), ids=MIXTURES.keys())
def test_the_pretended_device_refuses_the_cpu_s_tensors_and_float64(mix, pretended):
    here, there = torch.zeros(3), torch.zeros(3, device=pretended)
    with pytest.raises((RuntimeError, TypeError)):
        mix(here, there)


@pytest.mark.parametrize("n", [M, N])
def test_functions_stay_on_the_device(n, pretended, generator):
    tensors = inputs(generator, pretended, torch.float32, M, n)
    bias = draw(generator, M, n, dtype=torch.float32, device=pretended)
    for mask in (None, causal_mask(M, n, pretended), padding_mask(torch.tensor([1, n], device=pretended), n=n), bias):
        for is_causal in (False, True):
            for result in (*scaled_dot_product_attention(*tensors, mask, is_causal=is_causal),
                           fused_attention(*tensors, mask, is_causal=is_causal)):  # fmt: skip
                assert result.device.type == "cuda"
    assert entropy(scaled_dot_product_attention(*tensors)[1]).device.type == "cuda"


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"window": 3, "sinks": 1}], ids=str)
def test_tiles_and_their_gradients_stay_on_the_device(options, pretended, generator):
    tensors = [x.requires_grad_() for x in inputs(generator, pretended, torch.float32)]
    bias = draw(generator, M, N, dtype=torch.float32, device=pretended)
    for mask in (None, padding_mask(torch.tensor([1, N], device=pretended), n=N), bias):
        output = tiled_attention(*tensors, mask, block_size=3, **options)
        gradients = torch.autograd.grad(output.square().sum(), tensors)
        assert {x.device.type for x in (output, *gradients)} == {"cuda"}


@every_mask
@causal_or_not
def test_a_kernel_elsewhere_is_given_no_empty_row(make_mask, is_causal, pretended, generator, monkeypatch):
    """Kernels of a GPU may make NaN of one; those of a CPU give zeros."""
    masks, kernel = [], functional.F.scaled_dot_product_attention

    def recorded(*args, **kwargs):
        masks.append(kwargs.get("attn_mask"))
        return kernel(*args, **kwargs)

    monkeypatch.setattr(functional.F, "scaled_dot_product_attention", recorded)
    tensors, mask = inputs(generator, "cpu", torch.float32), make_mask(generator, torch.float32)
    here = fused_attention(*tensors, mask, is_causal=is_causal)
    there = fused_attention(*to(pretended, *tensors, mask), is_causal=is_causal)
    assert_close(there.cpu(), here, rtol=1e-5, atol=1e-5)
    if masks[-1] is not None:
        allowed = masks[-1] if masks[-1].dtype == torch.bool else masks[-1] > -torch.inf
        assert allowed.cpu().any(dim=-1).all()


@pytest.mark.parametrize("need_weights", [True, False])
def test_modules_stay_on_the_device(need_weights, pretended, generator):
    x = draw(generator, BATCH, M, D_MODEL, dtype=torch.float32, device=pretended)
    module = MultiHeadAttention(D_MODEL, HEADS).to(pretended)
    output, _ = module(x, mask=padding_mask([3, 5], n=M).to(pretended), is_causal=True, need_weights=need_weights)
    output.sum().backward()
    assert {parameter.grad.device.type for parameter in module.parameters()} == {"cuda"}
    assert AdditiveAttention(D_MODEL, D_MODEL, D_HIDDEN).to(pretended)(x, x)[0].device.type == "cuda"


def test_positions_need_no_float64_on_the_device(pretended, generator):
    x = draw(generator, BATCH, N, D_MODEL, dtype=torch.float32, device=pretended)
    for positions in (None, torch.arange(N), torch.arange(N, device=pretended), torch.rand(N, device=pretended)):
        turned = apply_rotary(x, positions)
        assert turned.device.type == "cuda"
        assert torch.equal(turned.cpu(), apply_rotary(x.cpu(), None if positions is None else positions.cpu()))
    module = RotaryMultiHeadAttention(D_MODEL, HEADS).to(pretended)
    bias = alibi_bias(N, N, HEADS, device=pretended)
    output, _ = module(x + sinusoidal_positions(N, D_MODEL, device=pretended), mask=bias, is_causal=True)
    output.sum().backward()
    assert {parameter.grad.device.type for parameter in module.parameters()} == {"cuda"}


@pytest.mark.parametrize("make", [
    lambda **device: sinusoidal_positions(N, D_MODEL, **device), lambda **device: alibi_bias(M, N, HEADS, **device),
    lambda **device: causal_mask(M, N, **device), lambda **device: sliding_window_mask(M, N, window=2, **device),
])  # fmt: skip
def test_what_is_made_is_made_on_the_default_device_or_the_one_that_is_named(make):
    with torch.device("meta"):
        assert make().is_meta
        assert torch.equal(make(device="cpu"), make(device="cpu").cpu())
    assert torch.equal(make(), make(device="cpu"))


def test_what_is_drawn_does_not_depend_on_the_default_device(generator):
    def drawn():
        draws = torch.Generator().manual_seed(1)
        cards = card_rows(3, fewest=3, most=5, generator=draws)
        copied = copy_examples(2, 3, generator=draws)
        return [random(2, 3), find_influence(lambda x: x.cumsum(dim=-2), x), cards.answers, cards.friend, *copied]

    x = draw(generator, M, D_MODEL)
    expected, right = drawn(), exercises()["jacobian"]
    with torch.device("meta"):
        assert all(map(torch.equal, drawn(), expected))
        assert judge(right, right.right) is None
        assert LearnedPositions(N, D_MODEL, generator=generator).vectors.is_meta and shift_matrix(1, 4).is_meta


def test_a_reader_s_accuracy_needs_no_float64_on_the_device(pretended, generator):
    sentences, reader = who_where(8, generator=generator), Reader(generator)
    here = reader_accuracy(reader, sentences)
    assert reader_accuracy(reader.to(pretended), sentences) == here


@pytest.mark.skipif(torch.__version__.startswith("2.6."), reason="torch 2.6 cannot say what lies below a `vmap`")
@pytest.mark.parametrize("attention", ATTENTION_KINDS)
def test_training_happens_on_the_device(attention, pretended, generator):
    team = [Seq2Seq(4, d_hidden=5, attention=attention, generator=generator).to(pretended) for _ in range(2)]
    assert train(team, CopyBatches(2, max_length=3, num_symbols=3, num_models=2)).device.type == "cpu"
    assert train(team[0], CopyBatches(2, max_length=3, num_symbols=3)).device.type == "cpu"
    source = torch.ones(BATCH, N, dtype=torch.long)
    assert token_accuracy(team[0], source, source).device.type == "cpu"
    states, _ = team[0].encode(source.to(pretended))
    assert linear_probe(states[0], source[0].to(pretended), num_train=3) == 1.0
