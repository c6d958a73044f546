"""Laws of attention by tiles. The oracles are the naive attention of the package, PyTorch's own, and counted bytes."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import BATCH, D_K, D_V, HEADS, M, N, assert_raises, draw, draw_bool, mistakes
from torch.testing import assert_close

from attention_tutorial import (
    MultiHeadAttention,
    combine_masks,
    merge_heads,
    padding_mask,
    scaled_dot_product_attention,
    sliding_window_mask,
    split_heads,
)
from attention_tutorial.analysis.cost import flops, largest_tensor_bytes, moved_bytes, peak_bytes, saved_bytes
from attention_tutorial.tiled import merge_states, softmax_state, tiled_attention

TIGHT = {"rtol": 1e-11, "atol": 1e-11}
MASKS = {
    "none": lambda g, b, h, m, n: None,
    "every pair": lambda g, b, h, m, n: draw_bool(g, b, h, m, n),
    "rows": lambda g, b, h, m, n: draw_bool(g, m, 1),
    "one row for all": lambda g, b, h, m, n: draw_bool(g, n),
    "padding": lambda g, b, h, m, n: draw_bool(g, b, 1, 1, n),
    "first block masked": lambda g, b, h, m, n: torch.arange(n).expand(m, n) >= 4,
    "all masked": lambda g, b, h, m, n: torch.zeros(m, n, dtype=torch.bool),
    "added": lambda g, b, h, m, n: draw(g, h, m, n),
    "added, some minus infinity": lambda g, b, h, m, n: draw(g, m, n).masked_fill(~draw_bool(g, m, n), -torch.inf),
}


def inputs(generator, m=M, n=N, dtype=torch.float64):
    """Query, key and value whose leading axes broadcast in three ways."""
    shapes = (BATCH, HEADS, m, D_K), (1, HEADS, n, D_K), (BATCH, 1, n, D_V)
    return [draw(generator, *shape, dtype=dtype).requires_grad_() for shape in shapes]


def assert_same(actual, wanted):
    for a, b in zip(actual, wanted, strict=True):
        assert_close(a, b, **TIGHT)


# ---- States ---------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    scores=st.lists(st.one_of(st.floats(-700, 700), st.just(-torch.inf)), min_size=1, max_size=9),
    cuts=st.lists(st.integers(0, 9), max_size=3),
)
def test_states_merge_to_the_softmax_wherever_one_cuts_and_in_any_order(scores, cuts):
    row = torch.tensor([scores], dtype=torch.float64)
    value = torch.linspace(-1, 1, 2 * len(scores), dtype=torch.float64).reshape(-1, 2)
    weights = row.softmax(-1).nan_to_num(0.0) if (row == -torch.inf).all() else row.softmax(-1)
    edges = sorted({0, len(scores), *(min(c, len(scores)) for c in cuts)})
    states = [softmax_state(row[:, a:b], value[a:b]) for a, b in itertools.pairwise(edges)]
    for order in (states, states[::-1]):
        merged = order[0]
        for state in order[1:]:
            merged = merge_states(merged, state)
        assert_close(merged.output, weights @ value, **TIGHT)


def test_a_state_of_no_keys_changes_nothing(generator):
    scores, value = draw(generator, M, N), draw(generator, N, D_V)
    state, nothing = softmax_state(scores, value), softmax_state(scores[:, :0], value[:0])
    assert not nothing.output.any()
    for merged in (merge_states(state, nothing), merge_states(nothing, state)):
        assert all(map(torch.equal, merged, state))


def test_nan_is_hidden_by_no_maximum():
    value = torch.ones(1, 1, dtype=torch.float64)
    broken, fine, masked = (softmax_state(torch.full((1, 1), s).double(), value) for s in (torch.nan, 5.0, -torch.inf))
    for other in (fine, masked):
        assert merge_states(broken, other).output.isnan().all() and merge_states(other, broken).output.isnan().all()


# ---- Equal to the naive attention -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("m", "n"), [(M, N), (N, M), (1, N), (9, 9), (M, 0), (0, N)])
def test_values_and_gradients_are_those_of_the_naive_attention(generator, kind, m, n):
    q, k, v = inputs(generator, m, n)
    mask = MASKS[kind](generator, BATCH, HEADS, m, n)
    learned = [mask.requires_grad_()] if kind == "added" else []
    for is_causal, size in itertools.product((False, True), (1, 3, 4, 100)):
        naive, _ = scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal)
        tiled = tiled_attention(q, k, v, mask, is_causal=is_causal, block_size=size)
        assert_close(tiled, naive, **TIGHT)
        upstream = draw(generator, *naive.shape)
        wanted = torch.autograd.grad(naive, [q, k, v, *learned], upstream)
        assert_same(torch.autograd.grad(tiled, [q, k, v, *learned], upstream), wanted)


@pytest.mark.parametrize("alone", range(3), ids=["query", "key", "value"])
def test_one_input_alone_may_have_leading_axes(alone, generator):
    shapes = [(M, D_K), (N, D_K), (N, D_V)]
    shapes[alone] = (BATCH, HEADS, *shapes[alone])
    tensors = [draw(generator, *shape).requires_grad_() for shape in shapes]
    actual, wanted = tiled_attention(*tensors, block_size=3), scaled_dot_product_attention(*tensors)[0]
    upstream = draw(generator, *wanted.shape)
    assert_close(actual, wanted, **TIGHT)
    assert_same(torch.autograd.grad(actual, tensors, upstream), torch.autograd.grad(wanted, tensors, upstream))


@settings(max_examples=40)
@given(st.data())
def test_any_shape_mask_and_block_size(data):
    m, n, size = (data.draw(st.integers(1, top)) for top in (20, 20, 25))
    g = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    factor = data.draw(st.sampled_from([1.0, 100.0, 1e4]))
    q, k, v = draw(g, 2, m, 3) * factor, draw(g, 2, n, 3), draw(g, n, 4)
    mask = MASKS[data.draw(st.sampled_from(sorted(MASKS)))](g, 1, 2, m, n)
    mask = mask[0] if mask is not None and mask.dim() == 4 else mask
    is_causal, scale = data.draw(st.booleans()), data.draw(st.sampled_from([None, 0.1, -1.0, 0.0]))
    naive, _ = scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, scale=scale)
    assert_close(tiled_attention(q, k, v, mask, is_causal=is_causal, scale=scale, block_size=size), naive,
                 rtol=1e-9, atol=1e-9)  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "of_value", "of_gradient"),
    [(torch.float32, 1e-5, 1e-4), (torch.bfloat16, 2e-2, 6e-2), (torch.float16, 2e-3, 1e-2)],
)
def test_smaller_types_stay_near_to_float64(generator, dtype, of_value, of_gradient):
    exact = [x.detach().to(dtype).double().requires_grad_() for x in inputs(generator, 33, 45)]
    rough = [x.detach().to(dtype).requires_grad_() for x in exact]
    wanted, _ = scaled_dot_product_attention(*exact, is_causal=True)
    actual = tiled_attention(*rough, is_causal=True, block_size=16)
    assert actual.dtype == dtype
    assert_close(actual.double(), wanted, rtol=of_value, atol=of_value)
    upstream = draw(generator, *wanted.shape).to(dtype)
    for a, b in zip(torch.autograd.grad(actual, rough, upstream),
                    torch.autograd.grad(wanted, exact, upstream.double()), strict=True):  # fmt: skip
        assert_close(a.double(), b, rtol=of_gradient, atol=of_gradient * b.abs().max().item())


def test_what_arrives_at_a_row_without_an_allowed_key_goes_no_further(generator):
    tensors, mask = inputs(generator), torch.arange(M)[:, None] != 2
    output = tiled_attention(*tensors, mask, block_size=3)
    upstream = draw(generator, *output.shape)
    actual, wanted = (
        torch.autograd.grad(output, tensors, upstream.index_fill(-2, torch.tensor(2), number), retain_graph=True)
        for number in (torch.nan, 0.0)
    )
    assert all(map(torch.equal, actual, wanted))


def test_gradients_of_gradients_and_functional_ones_are_refused(generator):
    query, key, value = inputs(generator)
    (first,) = torch.autograd.grad(tiled_attention(query, key, value).square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.grad(lambda q: tiled_attention(q, key, value).sum())(query)


@pytest.mark.skipif(torch.__version__.startswith("2.6."), reason="torch 2.6 cannot compile what writes into a slice")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, as it compiles
def test_it_compiles_whole_with_its_gradients(generator):
    torch.compiler.reset()
    fast = torch.compile(tiled_attention, fullgraph=True, backend="aot_eager")
    tensors, mask = inputs(generator, 4, 6), draw(generator, HEADS, 4, 6).requires_grad_()
    actual, wanted = (f(*tensors, mask, is_causal=True, block_size=4) for f in (fast, tiled_attention))
    upstream = draw(generator, *wanted.shape)
    assert_close(actual, wanted, **TIGHT)
    assert_same(*(torch.autograd.grad(output, [*tensors, mask], upstream) for output in (actual, wanted)))


# ---- Adversaries -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("top", [1e4, -1e4, 1e8])
def test_large_scores_overflow_nowhere(generator, top):
    q, k, v = torch.full((3, 1), top), torch.ones(7, 1), draw(generator, 7, 2).float()
    result = tiled_attention(q, k, v, scale=1.0, block_size=2)
    assert_close(result, v.mean(0).expand(3, 2), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("where", ["query", "key", "value"])
@pytest.mark.parametrize("position", range(7))
def test_nan_in_an_allowed_place_comes_out_as_in_the_naive_attention(generator, where, position):
    tensors = {name: draw(generator, 7, 2) for name in ("query", "key", "value")}
    tensors[where][position, 0] = torch.nan
    naive, _ = scaled_dot_product_attention(*tensors.values())
    for size in (1, 3, 7):
        assert tiled_attention(*tensors.values(), block_size=size).isnan().equal(naive.isnan())


@pytest.mark.parametrize("score", [torch.inf, -torch.inf])
def test_infinite_scores_are_what_they_are_to_a_softmax(score):
    key, value = torch.ones(5, 1), torch.arange(5.0)[:, None]
    for spoilt in ([1], [3, 4], [0, 1, 2, 3, 4]):
        k = key.clone()
        k[spoilt] = score
        naive, _ = scaled_dot_product_attention(torch.ones(2, 1), k, value)
        for size in (1, 2, 5):
            assert_close(tiled_attention(torch.ones(2, 1), k, value, block_size=size), naive, equal_nan=True)


@pytest.mark.parametrize("masked", [slice(3), slice(3, None)], ids=["first keys", "last keys"])
def test_an_allowed_score_of_minus_infinity_is_remembered_past_masked_blocks(masked):
    """Of six keys three are masked. The others score minus infinity: the softmax of that is NaN, not a row of zeros."""
    query, key, value = torch.ones(2, 1), torch.full((6, 1), -torch.inf), torch.arange(6.0)[:, None]
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[:, masked] = False
    naive, _ = scaled_dot_product_attention(query, key, value, mask)
    assert naive.isnan().all()
    for size in (1, 2, 3, 6):
        assert tiled_attention(query, key, value, mask, block_size=size).isnan().all()


def test_what_a_masked_block_holds_is_not_read(generator):
    q, k, v = (draw(generator, 8, 2) for _ in range(3))
    wanted = tiled_attention(q, k, v, is_causal=True, block_size=2)
    k[6:], v[6:] = torch.nan, torch.inf
    actual = tiled_attention(q, k, v, is_causal=True, block_size=2)
    assert_close(actual[:6], wanted[:6], rtol=0, atol=0)


# ---- Memory and work ------------------------------------------------------------------------------------------------


def test_nothing_of_m_times_n_is_ever_made_forward_or_backward(generator):
    def run(n, attend):
        x = torch.ones(n, 4, requires_grad=True)
        return lambda: attend(x).sum().backward()

    def tiled(x):
        return tiled_attention(x, x, x, is_causal=True, block_size=16)

    sizes = [64, 128, 256]
    largest = [largest_tensor_bytes(run(n, tiled)) for n in sizes]
    assert largest == [max(16 * 16, n * 4) * 4 for n in sizes]  # a tile of float32, or an input
    peaks = [peak_bytes(run(n, tiled)) for n in sizes]
    assert peaks[2] - peaks[1] == pytest.approx(2 * (peaks[1] - peaks[0]), rel=0.1)  # a straight line
    naive = [peak_bytes(run(n, lambda x: scaled_dot_product_attention(x, x, x, is_causal=True)[0])) for n in sizes]
    assert naive[2] > 3.5 * naive[1]


def test_an_added_mask_that_learns_nothing_has_no_gradient_made_for_it():
    def peak(learns):
        x, mask = torch.ones(64, 4, requires_grad=True), torch.zeros(64, 64, requires_grad=learns)
        return peak_bytes(lambda: tiled_attention(x, x, x, mask, block_size=8).sum().backward())

    assert peak(True) - peak(False) == 64 * 64 * 4


def test_what_is_kept_for_the_backward_pass_is_linear(generator):
    saved = []
    for n in (100, 200, 400):
        x = torch.ones(n, 4, requires_grad=True)
        saved.append(saved_bytes(lambda x=x: tiled_attention(x, x, x, block_size=8)))
    assert saved == [n * 4 * (4 + 4 + 1) for n in (100, 200, 400)]  # x, output, one number a query


def test_masked_blocks_cost_nothing():
    x = torch.ones(64, 4)
    whole = flops(lambda: tiled_attention(x, x, x, block_size=8))
    assert whole == 4 * 64 * 64 * 4
    assert flops(lambda: tiled_attention(x, x, x, is_causal=True, block_size=8)) == whole * 36 // 64
    windowed = flops(lambda: tiled_attention(x, x, x, window=8, block_size=8))
    assert windowed == whole * 15 // 64  # two blocks for each row of blocks, one for the first


def test_moved_and_peak_bytes_by_hand():
    x = torch.ones(1000)
    assert moved_bytes(lambda: x.view(10, 100).t()) == 0
    assert moved_bytes(lambda: x[:1].expand(1000) + x) == 4 + 4000 + 4000
    assert moved_bytes(lambda: torch.empty(1000)) == 0
    assert moved_bytes(lambda: x.clone().add_(1)) == 8000 + 8000
    assert peak_bytes(lambda: x.view(10, 100).sum()) == 4
    assert peak_bytes(lambda: [x + 1, x + 2]) == 8000
    assert peak_bytes(lambda: (x + 1).sum()) == 4004


# ---- Windows and sinks ----------------------------------------------------------------------------------------------


@given(m=st.integers(0, 9), n=st.integers(0, 9), window=st.integers(1, 11), sinks=st.integers(0, 11))
def test_a_sliding_window_by_its_rule(m, n, window, sinks):
    mask = sliding_window_mask(m, n, window, sinks)
    assert mask.shape == (m, n) and mask.dtype == torch.bool
    assert sliding_window_mask(m, n, window, sinks, device="meta").is_meta
    for i, j in itertools.product(range(m), range(n)):
        place = i + n - m
        assert mask[i, j].item() == (j <= place and (place - j < window or j < sinks))


@settings(max_examples=40)
@given(st.data())
def test_windows_and_sinks_by_tiles_are_those_of_the_mask(data):
    m, n, size = (data.draw(st.integers(1, top)) for top in (16, 16, 20))
    window, sinks = data.draw(st.integers(1, 17)), data.draw(st.integers(0, 17))
    g = torch.Generator().manual_seed(m + 100 * n)
    q, k, v = draw(g, m, 3), draw(g, n, 3), draw(g, n, 2)
    real = padding_mask([max(1, n - 2)], n=n)[0, 0]
    naive, _ = scaled_dot_product_attention(q, k, v, combine_masks(sliding_window_mask(m, n, window, sinks), real))
    assert_close(tiled_attention(q, k, v, real, window=window, sinks=sinks, block_size=size), naive, **TIGHT)


# ---- Grouped heads --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
@pytest.mark.parametrize("need_weights", [False, True])
def test_grouped_heads_are_those_of_torch(generator, kv_heads, need_weights):
    attention = MultiHeadAttention(D_K, 6, d_head=5, num_kv_heads=kv_heads, bias=True, dtype=torch.float64)
    x = draw(generator, BATCH, N, D_K)
    q, k, v = (
        split_heads(w(x), h) for w, h in ((attention.w_q, 6), (attention.w_k, kv_heads), (attention.w_v, kv_heads))
    )
    theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    result, weights = attention(x, is_causal=True, need_weights=need_weights)
    assert_close(result, attention.w_o(merge_heads(theirs)), **TIGHT)
    assert weights is None or weights.shape == (BATCH, 6, N, N)


# ---- Mistakes -------------------------------------------------------------------------------------------------------

x, GROUPED = torch.ones(4, 2), MultiHeadAttention(8, 4, num_kv_heads=2)
MISTAKES = {
    TypeError: [
        (lambda: tiled_attention(x, x, x, is_causal=1), "is_causal must be True or False; got int"),
        (lambda: softmax_state(x, x.double()[:2]),
         "scores and value must have the same dtype; got scores torch.float32, value torch.float64"),
    ],
    ValueError: [
        (lambda: tiled_attention(x, x, x, block_size=0), "block_size must be at least 1; got 0"),
        (lambda: tiled_attention(x, x, x, window=0), "window must be at least 1; got 0"),
        (lambda: tiled_attention(x, x, x, sinks=2), "sinks go with a window; got sinks=2 and no window"),
        (lambda: sliding_window_mask(4, sinks=-1), "sinks must be at least 0; got -1"),
        (lambda: tiled_attention(x, x, x, torch.ones(3, 4, dtype=torch.bool)),
         "mask must broadcast to the scores (..., m, n); expected something that broadcasts to (4, 4), got (3, 4)"),
        (lambda: softmax_state(x[0], x), "scores needs at least two axes (..., m, n); got shape (2,)"),
        (lambda: softmax_state(x, x[0]), "value needs at least two axes (..., n, d_v); got shape (2,)"),
        (lambda: softmax_state(torch.ones(2, 3, 4), torch.ones(2, 3, 5)),
         "scores and value need the same number of keys n; got scores (2, 3, 4), value (2, 3, 5)"),
        (lambda: softmax_state(x, x[:1]),
         "scores and value need the same number of keys n; got scores (4, 2), value (1, 2)"),
        (lambda: MultiHeadAttention(8, 4, num_kv_heads=3), "num_kv_heads must divide num_heads=4; got 3"),
        (lambda: GROUPED.attend(torch.ones(1, 1, 8), torch.ones(1, 4, 3, 2), torch.ones(1, 2, 3, 2)),
         "keys must have shape (batch, kv_heads, n, d_head); expected (1, 2, 3, 2), got (1, 4, 3, 2)"),
    ],
}  # fmt: skip


@mistakes(MISTAKES)
def test_mistakes_are_named(call, error, message):
    assert_raises(call, error, message)
