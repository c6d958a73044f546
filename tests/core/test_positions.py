"""Laws of positions. The oracles are loops over single numbers, complex numbers, and what the papers print."""

import cmath
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import BATCH, HEADS, M, N, assert_raises, draw, fill, mistakes
from torch.testing import assert_close

from attention_tutorial import MultiHeadAttention, causal_mask, scaled_dot_product_attention
from attention_tutorial.positions import (
    LearnedPositions,
    RotaryMultiHeadAttention,
    alibi_bias,
    alibi_slopes,
    apply_rotary,
    permute_rotary,
    shift_matrix,
    sinusoidal_positions,
)

TIGHT = {"rtol": 1e-11, "atol": 1e-11}
D = 14  # seven pairs
D_MODEL, D_HEAD = 18, 6  # with three heads
pairings = pytest.mark.parametrize("pairing", ["halves", "interleaved"])


# ---- Sines and cosines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("base", "start"), [(10_000.0, 0), (50.1, 9)])  # (a base that float32 does not hold, too)
def test_sinusoidal_positions_are_the_sines_and_cosines_of_the_paper(base, start):
    made = sinusoidal_positions(N, D, base=base, start=start, dtype=torch.float64)
    for t, i in itertools.product(range(N), range(D // 2)):
        angle = (start + t) / base ** (2 * i / D)
        assert made[t, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-12)
        assert made[t, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(steps=st.integers(-40, 40), first=st.integers(40, 3000), base=st.sampled_from([10.0, 500.0, 10_000.0]))
def test_one_matrix_moves_every_position_on_by_the_same_steps(steps, first, base):
    before = sinusoidal_positions(5, D, base=base, start=first, dtype=torch.float64)
    after = sinusoidal_positions(5, D, base=base, start=first + steps, dtype=torch.float64)
    moved = before @ shift_matrix(steps, D, base=base, dtype=torch.float64)
    assert_close(moved, after, rtol=0, atol=1e-10)


def test_angles_do_not_lose_digits_far_from_the_start():
    far = sinusoidal_positions(1, 4, start=1_000_003, dtype=torch.float32)[0]
    assert far[0].item() == pytest.approx(math.sin(1_000_003), abs=1e-6)
    half = sinusoidal_positions(1, 4, start=2_001, dtype=torch.bfloat16)[0]
    assert half[0].item() == pytest.approx(math.sin(2_001), abs=4e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, None])
def test_positions_are_made_where_and_of_what_they_are_asked_to_be(dtype):
    made = [
        sinusoidal_positions(3, 4, dtype=dtype),
        shift_matrix(3, 4, dtype=dtype),
        alibi_bias(2, 3, 4, dtype=dtype),
        LearnedPositions(3, 4, dtype=dtype).vectors,
    ]
    assert {x.dtype for x in made} == {dtype or torch.float32}
    elsewhere = [
        sinusoidal_positions(3, 4, device="meta", dtype=dtype),
        alibi_bias(2, 3, 4, device="meta", dtype=dtype),
    ]
    assert {(x.device.type, x.dtype) for x in elsewhere} == {("meta", dtype or torch.float32)}
    x = torch.empty(2, 3, 4, device="meta")
    assert apply_rotary(x).device.type == apply_rotary(x, torch.arange(3, device="meta")).device.type == "meta"
    module = RotaryMultiHeadAttention(8, 2, 6, device="meta", dtype=dtype)
    assert {(p.device.type, p.dtype) for p in module.parameters()} == {("meta", dtype or torch.float32)}
    output, weights = module(torch.empty(2, 3, 8, device="meta", dtype=dtype))
    assert output.device.type == weights.device.type == "meta"


# ---- Learned --------------------------------------------------------------------------------------------------------


def test_learned_positions_are_rows_that_learn():
    positions = LearnedPositions(N, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(positions(3, start=2), positions.vectors[2:5])
    positions(3, start=2).sum().backward()
    assert positions.vectors.grad.sum(1).tolist() == [0, 0, 4, 4, 4, 0, 0]
    again = LearnedPositions(N, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again.vectors, positions.vectors)
    many = LearnedPositions(400, 50, std=0.5, generator=torch.Generator().manual_seed(1))
    assert many.vectors.std().item() == pytest.approx(0.5, rel=0.02)
    usual = LearnedPositions(400, 50, generator=torch.Generator().manual_seed(1))
    assert usual.vectors.std().item() == pytest.approx(0.02, rel=0.02)
    assert torch.equal(positions(N), positions.vectors)  # to the very last, and from the first on
    assert LearnedPositions(1, 1)(1).shape == (1, 1)
    assert repr(positions) == "LearnedPositions(max_length=7, d_model=4)"


# ---- Rotary ---------------------------------------------------------------------------------------------------------


@pairings
def test_rotation_is_multiplication_by_a_complex_number(generator, pairing):
    x = draw(generator, BATCH, N, D)
    places = torch.tensor([0, 3, 4, 11, 2, 50, 7])
    turned = apply_rotary(x, places, pairing=pairing, base=500.0)
    for b, (j, t), i in itertools.product(range(BATCH), enumerate(places.tolist()), range(D // 2)):
        first, second = (2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + D // 2)
        number = complex(x[b, j, first], x[b, j, second]) * cmath.exp(1j * t * 500.0 ** (-2 * i / D))
        assert turned[b, j, first].item() == pytest.approx(number.real, abs=1e-12)
        assert turned[b, j, second].item() == pytest.approx(number.imag, abs=1e-12)


def test_positions_default_to_counting_and_may_differ_in_a_batch(generator):
    x = draw(generator, BATCH, HEADS, N, D)
    assert torch.equal(apply_rotary(x), apply_rotary(x, torch.arange(N)))
    assert apply_rotary(x[:, :, :0]).shape == (BATCH, HEADS, 0, D)
    places = torch.tensor([[[0, 1, 2, 3, 4, 5, 6]], [[0, 0, 0, 1, 2, 3, 4]]])  # padded on the left
    turned = apply_rotary(x, places)
    assert torch.equal(turned[0], apply_rotary(x[0]))
    assert torch.equal(turned[1, :, 2:], apply_rotary(x[1, :, 2:]))


def test_reordered_rows_make_the_one_pairing_of_the_other(generator):
    theirs = RotaryMultiHeadAttention(D_MODEL, HEADS, bias=True, pairing="interleaved", dtype=torch.float64)
    ours = RotaryMultiHeadAttention(D_MODEL, HEADS, bias=True, pairing="halves", dtype=torch.float64)
    state = {name: draw(generator, *tensor.shape) for name, tensor in theirs.state_dict().items()}
    theirs.load_state_dict(state)
    for name in ("w_q.weight", "w_k.weight", "w_q.bias", "w_k.bias"):
        state[name] = permute_rotary(state[name], HEADS, to="halves")
        assert torch.equal(permute_rotary(state[name], HEADS, to="interleaved"), theirs.state_dict()[name])
    ours.load_state_dict(state)
    x = draw(generator, BATCH, N, D_MODEL)
    for mine, other in zip(ours(x, is_causal=True), theirs(x, is_causal=True), strict=True):
        assert_close(mine, other, **TIGHT)


def rotary(generator, **options):
    return fill(RotaryMultiHeadAttention(D_MODEL, HEADS, dtype=torch.float64, **options), generator)


@pairings
def test_rotary_attention_turns_queries_and_keys_and_nothing_else(generator, pairing):
    module = rotary(generator, pairing=pairing, base=100.0, bias=True)
    x = draw(generator, BATCH, N, D_MODEL)
    q, k, v = (w(x).unflatten(-1, (HEADS, D_HEAD)).transpose(1, 2) for w in (module.w_q, module.w_k, module.w_v))
    q, k = apply_rotary(q, pairing=pairing, base=100.0), apply_rotary(k, pairing=pairing, base=100.0)
    heads, weights = scaled_dot_product_attention(q, k, v, causal_mask(N))
    output, ours = module(x, is_causal=True)
    assert_close(ours, weights, **TIGHT)
    assert_close(output, module.w_o(heads.transpose(1, 2).flatten(2)), **TIGHT)
    assert_close(module(x, is_causal=True, need_weights=False)[0], output, **TIGHT)


@pytest.mark.parametrize("make", [
    rotary, lambda g: rotary(g, num_kv_heads=1), lambda g: MultiHeadAttention(D_MODEL, HEADS, dtype=torch.float64),
], ids=["rotary", "one kv head", "plain"])  # fmt: skip
@pytest.mark.parametrize("sizes", [(1,) * N, (3, 1, 1, 2), (N,)])
def test_what_is_kept_gives_the_outputs_of_the_whole(generator, make, sizes):
    module, x = make(generator), draw(generator, BATCH, N, D_MODEL)
    whole, weights = module(x, is_causal=True)
    keys, values, done = [], [], 0
    for size in sizes:
        new = x[:, done : done + size]
        k, v = module.project(new, start=done)
        assert k.shape == v.shape == (BATCH, module.num_kv_heads, size, D_HEAD)
        keys, values, done = [*keys, k], [*values, v], done + size
        for need_weights in (True, False):
            output, rows = module.attend(
                new, torch.cat(keys, 2), torch.cat(values, 2), is_causal=True, need_weights=need_weights
            )
            assert_close(output, whole[:, done - size : done], **TIGHT)
            assert (rows is None) != need_weights
        assert_close(module.attend(new, torch.cat(keys, 2), torch.cat(values, 2), is_causal=True)[1],
                     weights[:, :, done - size : done, :done], **TIGHT)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rotation_keeps_the_dtype_and_its_precision_far_out(generator, dtype):
    x = draw(generator, 2, D)
    places = torch.tensor([100_000, 100_001])
    turned = apply_rotary(x.to(dtype), places)
    assert turned.dtype == dtype
    assert_close(turned.double(), apply_rotary(x.to(dtype).double(), places), rtol=0, atol=4 * torch.finfo(dtype).eps)


@pairings
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_turned_in_float32_and_rounded_once(generator, dtype, pairing):
    x = draw(generator, 200, D).to(dtype)
    exact = apply_rotary(x.double(), pairing=pairing)
    assert_close(apply_rotary(x, pairing=pairing).double(), exact, rtol=0.501 * torch.finfo(dtype).eps, atol=1e-6)


def test_rotary_attention_takes_its_sizes_as_told():
    module = RotaryMultiHeadAttention(10, 2, 6, pairing="interleaved", base=50.0)
    assert (module.d_head, module.w_q.weight.shape, module.w_q.bias) == (6, (12, 10), None)
    assert RotaryMultiHeadAttention(8, 2, bias=True).w_o.bias is not None
    assert "d_model=10, num_heads=2, d_head=6, pairing='interleaved', base=50" in repr(module)


def test_rotation_can_be_compiled_and_mapped(generator):
    x = draw(generator, BATCH, N, D)
    assert_close(torch.func.vmap(apply_rotary)(x), apply_rotary(x), **TIGHT)
    compiled = torch.compile(apply_rotary, backend="eager", fullgraph=True)
    assert_close(compiled(x), apply_rotary(x), **TIGHT)


# ---- ALiBi ----------------------------------------------------------------------------------------------------------


def test_slopes_are_those_of_the_paper():
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]  # section 3
    assert alibi_slopes(16).tolist() == pytest.approx([2 ** (-i / 2) for i in range(1, 17)], rel=1e-14)
    # the published code, for 12 heads: those of 8, then every other one of 16
    twelve = [*(2.0**-i for i in range(1, 9)), *(2 ** -(i + 0.5) for i in range(4))]
    assert alibi_slopes(12).tolist() == pytest.approx(twelve, rel=1e-14)
    assert alibi_slopes(1).tolist() == [2.0**-8]


@pytest.mark.parametrize(("m", "n"), [(M, N), (N, M), (1, N), (N, N), (0, N)])
def test_the_bias_is_the_distance_times_the_slope(m, n):
    bias = alibi_bias(m, n, HEADS, dtype=torch.float64)
    assert bias.shape == (1, HEADS, m, n)
    slopes = alibi_slopes(HEADS).tolist()
    for h, i, j in itertools.product(range(HEADS), range(m), range(n)):
        assert bias[0, h, i, j].item() == pytest.approx(-slopes[h] * abs(i + n - m - j))


def test_the_bias_moves_with_the_sequence_and_serves_as_a_mask(generator):
    module = MultiHeadAttention(D_MODEL, HEADS, dtype=torch.float64)
    x = draw(generator, BATCH, N, D_MODEL)
    whole, weights = module(x, mask=alibi_bias(N, N, HEADS, dtype=torch.float64), is_causal=True)
    last, row = module(x[:, -1:], x, mask=alibi_bias(1, N, HEADS, dtype=torch.float64), is_causal=True)
    assert_close(last, whole[:, -1:], **TIGHT)
    assert_close(row, weights[:, :, -1:], **TIGHT)


# ---- Mistakes -------------------------------------------------------------------------------------------------------

X = torch.zeros(2, 4)


@mistakes({
    TypeError: [
        (lambda: sinusoidal_positions(2, 4, dtype=torch.int64),
         "dtype must be a floating-point type (float64, float32, bfloat16 or float16); got torch.int64"),
        (lambda: shift_matrix("2", 4), "steps must be a real number; got str"),
        (lambda: apply_rotary(X.long()),
         "x must hold real floating-point numbers (float64, float32, bfloat16 or float16); got torch.int64"),
        (lambda: shift_matrix(True, 4), "steps must be a real number; got bool"),
        (lambda: LearnedPositions(3, 4, generator=7), "generator must be a torch.Generator or None; got int"),
        (lambda: permute_rotary([1], 1, to="halves"), "weight must be a torch.Tensor; got list"),
        (lambda: apply_rotary(X, [0, 1]), "positions must be a torch.Tensor; got list"),
        (lambda: apply_rotary(X, torch.tensor([True, False])),
         "positions must hold integers or real numbers; got torch.bool"),
    ],
    ValueError: [
        (lambda: sinusoidal_positions(-1, 4), "n must be at least 0; got -1"),
        (lambda: sinusoidal_positions(2, 5), "d_model must be even, since features come in pairs; got 5"),
        (lambda: sinusoidal_positions(2, 4, base=0), "base must be above 0; got 0"),
        (lambda: sinusoidal_positions(2, 4, start=-3), "start must be at least 0; got -3"),
        (lambda: LearnedPositions(0, 4), "max_length must be at least 1; got 0"),
        (lambda: LearnedPositions(3, 4)(2, start=2), "positions must be below max_length=3; got positions 2 to 3"),
        (lambda: apply_rotary(torch.zeros(2, 5)),
         "x needs an even number of features d, at least 2 (axis -1); got shape (2, 5)"),
        (lambda: apply_rotary(X[0]), "x needs at least two axes (..., n, d); got shape (4,)"),
        (lambda: apply_rotary(X[:, :0]),
         "x needs an even number of features d, at least 2 (axis -1); got shape (2, 0)"),
        (lambda: apply_rotary(X, base=-1.0), "base must be above 0; got -1.0"),
        (lambda: apply_rotary(X[None], torch.zeros(2, 1, 2)),
         "positions must broadcast to (..., n); expected something that broadcasts to (1, 2), got (2, 1, 2)"),
        (lambda: apply_rotary(X, torch.zeros(2, device="meta")),
         "positions must be on the CPU or the device of x, cpu; got meta"),
        (lambda: shift_matrix(2, 5), "d_model must be even, since features come in pairs; got 5"),
        (lambda: shift_matrix(2, 4, base=0), "base must be above 0; got 0"),
        (lambda: LearnedPositions(3, 0), "d_model must be at least 1; got 0"),
        (lambda: LearnedPositions(3, 4, std=0), "std must be above 0; got 0"),
        (lambda: LearnedPositions(3, 4)(-1), "n must be at least 0; got -1"),
        (lambda: LearnedPositions(3, 4)(1, start=-1), "start must be at least 0; got -1"),
        (lambda: permute_rotary(X, 0, to="halves"), "num_heads must be at least 1; got 0"),
        (lambda: permute_rotary(X, 1, to="half"), "to must be 'halves' or 'interleaved'; got 'half'"),
        (lambda: permute_rotary(torch.tensor(1.0), 1, to="halves"),
         "weight must have heads * d_head rows with an even d_head; got num_heads=1 and shape ()"),
        (lambda: permute_rotary(X[:0], 1, to="halves"),
         "weight must have heads * d_head rows with an even d_head; got num_heads=1 and shape (0, 4)"),
        (lambda: RotaryMultiHeadAttention(8, 2, pairing="half"),
         "pairing must be 'halves' or 'interleaved'; got 'half'"),
        (lambda: RotaryMultiHeadAttention(8, 2, base=0), "base must be above 0; got 0"),
        (lambda: alibi_bias(-1, 2, 2), "m must be at least 0; got -1"),
        (lambda: apply_rotary(X, pairing="half"), "pairing must be 'halves' or 'interleaved'; got 'half'"),
        (lambda: permute_rotary(torch.zeros(6, 4), 2, to="halves"),
         "weight must have heads * d_head rows with an even d_head; got num_heads=2 and shape (6, 4)"),
        (lambda: RotaryMultiHeadAttention(6, 2), "d_head must be even, since features come in pairs; got 3"),
        (lambda: alibi_slopes(0), "num_heads must be at least 1; got 0"),
        (lambda: alibi_bias(2, -1, 2), "n must be at least 0; got -1"),
        (lambda: MultiHeadAttention(4, 2).attend(X[None], torch.zeros(1, 2, 3, 2), torch.zeros(1, 2, 4, 2)),
         "values must have shape (batch, heads, n, d_head); expected (1, 2, 3, 2), got (1, 2, 4, 2)"),
        (lambda: MultiHeadAttention(4, 2).attend(torch.zeros(1, 2, 4), torch.zeros(1, 3, 4), torch.zeros(1, 3, 4)),
         "keys must have shape (batch, heads, n, d_head); expected (1, 2, 0, 2), got (1, 3, 4)"),
        (lambda: MultiHeadAttention(4, 2).project(torch.zeros(1, 2, 4), start=-1), "start must be at least 0; got -1"),
    ],
})  # fmt: skip
def test_a_mistake_gets_an_error_that_names_it(call, error, message):
    assert_raises(call, error, message)
