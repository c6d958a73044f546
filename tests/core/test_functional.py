"""Laws of the attention functions. The oracles are hand arithmetic, loops over single numbers and torch's own op."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles import BATCH, D_HIDDEN, D_K, D_Q, D_V, HEADS, M, N, draw, draw_bool, loop_attention, loop_gradients
from torch.autograd import gradcheck, gradgradcheck
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close

from attention_tutorial import (
    additive_attention,
    combine_masks,
    fused_attention,
    masked_softmax,
    multiplicative_attention,
    padding_mask,
    scaled_dot_product_attention,
)
from attention_tutorial.tiled import tiled_attention

TIGHT = {"rtol": 1e-11, "atol": 1e-11}
# About the rounding of one number in each dtype, with room for what is summed up.
TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
DTYPES = list(TOLERANCE)
# The `device` fixture holds no state that examples could share.
with_device = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def eager(*args, **kwargs):
    return scaled_dot_product_attention(*args, **kwargs)[0]


both_paths = pytest.mark.parametrize("attend", [eager, fused_attention], ids=["eager", "fused"])


def torch_attention(query, key, value, mask=None, *, is_causal=False, scale=None):
    """Torch's own op, its plain arithmetic, on inputs and a mask spelt out in full."""
    leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query, key, value = (x.expand(*leading, *x.shape[-2:]) for x in (query, key, value))
    m, n = query.size(-2), key.size(-2)
    if mask is not None:
        mask = mask.expand(*leading, m, n)
    if is_causal:
        allowed = torch.tensor([[j <= i + n - m for j in range(n)] for i in range(m)]).reshape(m, n).to(query.device)
        if mask is None or mask.dtype == torch.bool:
            mask = allowed if mask is None else mask & allowed
        else:
            mask = mask.masked_fill(~allowed, -math.inf)
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(query, key, value, mask, scale=scale)


def inputs(generator, device="cpu", dtype=torch.float64, m=M, n=N):
    """Query, key and value with batch and heads, every axis of another size."""
    return (
        draw(generator, BATCH, HEADS, m, D_K, dtype=dtype, device=device),
        draw(generator, BATCH, HEADS, n, D_K, dtype=dtype, device=device),
        draw(generator, BATCH, HEADS, n, D_V, dtype=dtype, device=device),
    )


def gradients(output, tensors):
    """Gradients of a sum in which every number of the output counts differently."""
    counts = torch.arange(output.numel(), device=output.device, dtype=torch.float64).cos().reshape(output.shape)
    return torch.autograd.grad((output.double() * counts).sum(), tensors)


# By hand


def test_two_keys_by_hand(device):
    def matrix(rows):
        return torch.tensor(rows, dtype=torch.float64, device=device)

    value = matrix([[10, 0], [0, 20]])
    output, weights = scaled_dot_product_attention(matrix([[1]]), matrix([[0], [1]]), value)  # weights 1 : e
    assert_close(weights, matrix([[1, math.e]]) / (1 + math.e), **TIGHT)
    assert_close(output, matrix([[10, 20 * math.e]]) / (1 + math.e), **TIGHT)


@both_paths
@pytest.mark.parametrize("scale", [math.log(2), 0, -math.log(2), 3, Fraction(1, 2), np.float32(0.25)])
def test_scale_replaces_the_factor_on_the_scores(attend, scale):
    query, key = torch.ones(1, 3).double(), torch.tensor([[1.0, 0, 0], [0, 0, 0]]).double()
    first = 1 / (1 + math.exp(-scale))
    expected = torch.tensor([[first, 1 - first]], dtype=torch.float64)
    assert_close(attend(query, key, torch.eye(2).double(), scale=scale), expected, **TIGHT)


def test_masked_softmax_by_hand():
    scores = torch.tensor([[0.0, math.log(3), 99.0], [1.0, 2.0, 3.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    expected = torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    assert_close(masked_softmax(scores, mask), expected, **TIGHT)
    added = torch.tensor([[math.log(2), 0.0, -math.inf], [-math.inf] * 3], dtype=torch.float64)
    expected = torch.tensor([[0.4, 0.6, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    assert_close(masked_softmax(scores, added), expected, **TIGHT)


def test_a_mask_of_scores_may_bring_axes_of_its_own(generator):
    scores, mask = draw(generator, M, N), draw_bool(generator, BATCH, HEADS, 1, N)
    assert_close(masked_softmax(scores, mask), masked_softmax(scores.expand(BATCH, HEADS, M, N), mask), **TIGHT)


# Against loops and torch

MASKS = {
    "none": lambda g: None,
    "bool (m, n)": lambda g: draw_bool(g, M, N),
    "bool (n,)": lambda g: draw_bool(g, N),
    "bool ()": lambda g: torch.tensor(True),
    "nothing allowed ()": lambda g: torch.tensor(False),
    "bool (m, 1)": lambda g: draw_bool(g, M, 1),
    "bool padding": lambda g: padding_mask([3, 6], n=N),
    "bool one head": lambda g: draw_bool(g, BATCH, 1, M, N),
    "bool all": lambda g: draw_bool(g, BATCH, HEADS, M, N, share=0.3),
    "float (m, n)": lambda g: draw(g, M, N),
    "float (n,)": lambda g: draw(g, N),
    "float (1, heads, 1, n)": lambda g: draw(g, 1, HEADS, 1, N),
    "float with -inf": lambda g: draw(g, BATCH, 1, M, N).masked_fill(~draw_bool(g, BATCH, 1, M, N), -math.inf),
    "float -inf rows": lambda g: draw(g, HEADS, M, 1).masked_fill(~draw_bool(g, HEADS, M, 1), -math.inf),
    "float () -inf": lambda g: torch.tensor(-math.inf),
}
all_masks = pytest.mark.parametrize("make_mask", MASKS.values(), ids=MASKS.keys())


@all_masks
@pytest.mark.parametrize("is_causal", [False, True], ids=["", "causal"])
def test_output_and_weights_agree_with_the_loop(make_mask, is_causal, device, generator):
    query, key, value = inputs(generator, device)
    mask = make_mask(generator)
    mask = mask if mask is None else mask.to(device)
    output, weights = scaled_dot_product_attention(query, key, value, mask, is_causal=is_causal, scale=0.7)
    expected_output, expected_weights = loop_attention(query, key, value, mask, is_causal=is_causal, scale=0.7)
    assert_close(output.cpu(), expected_output, **TIGHT)
    assert_close(weights.cpu(), expected_weights, **TIGHT)
    fused = fused_attention(query, key, value, mask, is_causal=is_causal, scale=0.7)
    assert_close(fused.cpu(), expected_output, **TIGHT)


@both_paths
@pytest.mark.parametrize("shape", [(M, N), (M, M), (N, M)], ids=["m < n", "m = n", "m > n"])
def test_gradients_agree_with_the_chain_rule_by_hand(attend, shape, generator):
    m, n = shape
    query, key = draw(generator, m, D_K).requires_grad_(), draw(generator, n, D_K).requires_grad_()
    value, upstream = draw(generator, n, D_V).requires_grad_(), draw(generator, m, D_V)
    mask = draw(generator, m, n).masked_fill(~draw_bool(generator, m, n), -math.inf).requires_grad_()
    output = attend(query, key, value, mask, is_causal=True)
    actual = torch.autograd.grad(output, (query, key, value, mask), upstream)
    weights = loop_attention(query, key, value, mask, is_causal=True)[1]
    expected = loop_gradients(query, key, value, weights, upstream, scale=1 / math.sqrt(D_K))
    for f, e in zip(actual, expected, strict=True):
        assert_close(f, e, **TIGHT)


@st.composite
def problems(draw_):
    """Shapes whose leading axes broadcast, a mask of any shape that fits, and the options."""
    sizes, axis = st.integers(1, 4), st.sampled_from([1, 2, 3])
    joint = draw_(st.lists(axis, max_size=3))

    def part_of(shape):
        axes = shape[draw_(st.integers(0, len(shape))) :]
        return tuple(1 if draw_(st.booleans()) else size for size in axes)

    m, n, d_k, d_v = draw_(sizes), draw_(sizes), draw_(sizes), draw_(sizes)
    leading = [part_of(joint) for _ in range(3)]
    shapes = [(*leading[0], m, d_k), (*leading[1], n, d_k), (*leading[2], n, d_v)]
    mask_shape = part_of((*torch.broadcast_shapes(*leading), m, n))
    kind = draw_(st.sampled_from(["none", "bool", "float", "float with -inf"]))
    options = {"is_causal": draw_(st.booleans()), "scale": draw_(st.sampled_from([None, 1.0, 0.3]))}
    return shapes, mask_shape, kind, options, draw_(st.integers(0, 2**32))


@given(problem=problems())
@with_device
def test_values_and_gradients_agree_with_torch_for_all_shapes_and_masks(problem, device):
    shapes, mask_shape, kind, options, seed = problem
    generator = torch.Generator().manual_seed(seed)
    tensors = [draw(generator, *shape, device=device).requires_grad_() for shape in shapes]
    query, key, value = tensors
    mask = None
    if kind == "bool":
        mask = draw_bool(generator, *mask_shape, device=device)
    elif kind != "none":
        mask = draw(generator, *mask_shape, device=device)
        if kind == "float with -inf":
            mask = mask.masked_fill(~draw_bool(generator, *mask_shape, device=device), -math.inf)
        tensors.append(mask.requires_grad_())
    expected = torch_attention(query, key, value, mask, **options)
    output, weights = scaled_dot_product_attention(query, key, value, mask, **options)
    fused = fused_attention(query, key, value, mask, **options)
    assert_close(output, expected, **TIGHT)
    assert_close(fused, expected, **TIGHT)
    assert_close(weights @ value, output, **TIGHT)
    expected_gradients = gradients(expected, tensors)
    for actual in (gradients(output, tensors), gradients(fused, tensors)):
        for f, e in zip(actual, expected_gradients, strict=True):
            assert f.isfinite().all()
            assert_close(f, e, **TIGHT)


# Derivatives


FIXED_MASK = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [0, 1, 1, 1, 1]], dtype=torch.bool)


@pytest.mark.parametrize("is_causal", [False, True], ids=["", "causal"])
def test_second_derivatives_agree_with_differences_also_of_a_learned_mask(is_causal, generator):
    def attend(query, key, value, mask):
        blocked = mask.masked_fill(~FIXED_MASK, -math.inf)
        return scaled_dot_product_attention(query, key, value, blocked, is_causal=is_causal)

    shapes = (2, 3, 2), (2, 5, 2), (5, 3), (3, 5)
    assert gradgradcheck(attend, [draw(generator, *shape).requires_grad_() for shape in shapes])


def test_derivatives_of_the_other_scores_agree_with_differences(generator):
    query, key, value = (draw(generator, *s).requires_grad_() for s in ((2, 3, 3), (5, 2), (5, 2)))
    w, w_query, w_key, v = (draw(generator, *s).requires_grad_() for s in ((3, 2), (7, 3), (7, 2), (7,)))
    assert gradcheck(lambda q, k, v, w: multiplicative_attention(q, k, v, FIXED_MASK, w=w), (query, key, value, w))
    assert gradcheck(lambda *x: additive_attention(*x, FIXED_MASK), (query, key, value, w_query, w_key, v))
    assert gradcheck(
        masked_softmax, (draw(generator, 2, 3, 5).requires_grad_(), draw(generator, 3, 5).requires_grad_())
    )


# Rows with nothing to attend to


def empty_rows(kind, device):
    """A mask that leaves queries 1 and 3 nothing, of two kinds."""
    allowed = torch.ones(M, N, dtype=torch.bool, device=device)
    allowed[1] = allowed[3] = False
    return allowed if kind == "bool" else torch.zeros(M, N, device=device).masked_fill(~allowed, -math.inf)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_causal", [False, True], ids=["", "causal"])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_row_without_an_allowed_key_gives_zeros_and_zero_gradients(kind, is_causal, dtype, device, generator):
    tensors = [x.requires_grad_() for x in inputs(generator, device, dtype)]
    output, weights = scaled_dot_product_attention(*tensors, empty_rows(kind, device), is_causal=is_causal)
    fused = fused_attention(*tensors, empty_rows(kind, device), is_causal=is_causal)
    assert not weights[..., [1, 3], :].any()
    assert_close(
        weights.double().sum(-1)[..., [0, 2, 4]].cpu(), torch.ones(BATCH, HEADS, 3).double(), rtol=0, atol=0.02
    )
    for out in (output, fused):
        assert not out[..., [1, 3], :].any()
        assert out[..., [0, 2, 4], :].any(-1).all()
        with torch.autograd.set_detect_anomaly(True):  # no NaN on the way either
            query_gradient, *others = gradients(out, tensors)
        assert not query_gradient[..., [1, 3], :].any()
        assert all(x.isfinite().all() for x in (query_gradient, *others))


# Laws of the weights


@both_paths
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_masked_key_stays_masked_however_low_the_allowed_scores_are(attend, dtype, device):
    query = torch.full((1, 1), -1e6, dtype=dtype, device=device)
    key = torch.tensor([[1e6], [0.0]], dtype=dtype, device=device)  # the allowed key scores -1e12, the masked one 0
    value = torch.eye(2, dtype=dtype, device=device)
    for mask in (torch.tensor([True, False]), torch.tensor([0.0, -math.inf])):
        assert attend(query, key, value, mask.to(device)).tolist() == [[1.0, 0.0]]


# Precision


@both_paths
@pytest.mark.parametrize("dtype", DTYPES)
def test_huge_scores_choose_the_best_key(attend, dtype, device):
    # dot products of up to 640 000, ten times what float16 can hold
    rows = torch.tensor([[100.0], [99.0], [-100.0]], dtype=dtype, device=device).expand(3, 64)
    query, value = rows[:2], torch.eye(3, dtype=dtype, device=device)
    for scale in (None, 1.0):
        output = attend(query, rows, value, scale=scale)
        assert_close(output, torch.eye(3, dtype=dtype, device=device)[[0, 0]])
        assert_close(attend(-query, rows, value, scale=scale), torch.eye(3, dtype=dtype, device=device)[[2, 2]])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_huge_dot_products_do_not_overflow_without_a_scale(dtype):
    rows = torch.tensor([[100.0], [50.0], [-100.0]], dtype=dtype).expand(3, 64)
    identity = torch.eye(3, dtype=dtype)
    for w in (None, torch.eye(64, dtype=dtype)):
        output, weights = multiplicative_attention(rows[:1], rows, identity, w=w)
        assert_close(output, identity[:1])
        assert_close(weights, identity[:1])


@both_paths
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lowest", [-1e4, -1e9, "dtype", "float32"])
def test_a_large_negative_number_masks_a_key_and_never_a_whole_row(attend, lowest, dtype, device, generator):
    fill = {"dtype": torch.finfo(dtype).min, "float32": torch.finfo(torch.float32).min}.get(lowest, lowest)
    query, key, value = inputs(generator, device, dtype)
    allowed = draw_bool(generator, M, N, device=device)
    allowed[:, 0] = True
    mask = torch.zeros(M, N, device=device, dtype=torch.float64).masked_fill(~allowed, fill)
    assert_close(attend(query, key, value, mask), attend(query, key, value, allowed))
    mask[2] = fill  # finite: a shift of the row, which loses digits but sums to one
    ones = attend(query, key, torch.ones_like(value), mask)
    assert_close(ones, torch.ones_like(ones), rtol=0.01, atol=0.01)


@both_paths
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_large_number_chooses_a_key(attend, dtype, device, generator):
    query, key, value = inputs(generator, device, dtype)
    mask = torch.zeros(M, N, device=device, dtype=torch.float64).index_fill(1, torch.tensor(2, device=device), 1e9)
    assert_close(
        attend(query, key, value, mask), value[..., 2:3, :].expand(*query.shape[:-1], -1), rtol=0.01, atol=0.01
    )


def test_the_lowest_number_of_half_precision_does_not_overflow_in_a_softmax():
    scores = torch.tensor([[-40.0, -50.0, -20.0]], dtype=torch.float16)
    mask = torch.full((1, 3), torch.finfo(torch.float16).min, dtype=torch.float16)
    assert masked_softmax(scores, mask).dtype == torch.float16
    assert_close(masked_softmax(scores, mask), torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float16))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("make_mask", [MASKS["none"], MASKS["bool all"], MASKS["float with -inf"]])
def test_autocast_works_and_both_paths_return_its_dtype(dtype, make_mask, device, generator):
    query, key, value = inputs(generator, device, torch.float32)
    mask = make_mask(generator)
    mask = mask if mask is None else mask.to(device)
    expected = loop_attention(query, key, value, mask)[0]
    mixed = query.to(dtype), key, value
    for tensors in ((query, key, value), mixed):
        with torch.autocast(device.type, dtype=dtype):
            actual = eager(*tensors, mask), fused_attention(*tensors, mask)
        for f in actual:
            assert f.dtype == dtype
            assert_close(f.double().cpu(), expected, rtol=TOLERANCE[dtype], atol=2 * TOLERANCE[dtype])


def test_a_mask_of_another_float_dtype_is_cast(generator):
    query, key, value = inputs(generator, dtype=torch.float32)
    mask = draw(generator, M, N).requires_grad_()
    for attend in (eager, fused_attention):
        output = attend(query, key, value, mask)
        assert output.dtype == torch.float32
        assert_close(output, attend(query, key, value, mask.float()))
        assert gradients(output, [mask])[0].dtype == torch.float64


# Memory layout and side effects


def layouts(generator):
    """Query, key and value whose numbers do not lie in a row in memory."""
    yield [draw(generator, BATCH, size, HEADS, d).transpose(1, 2) for size, d in ((M, D_K), (N, D_K), (N, D_V))]
    yield [draw(generator, BATCH, HEADS, d, size).mT for size, d in ((M, D_K), (N, D_K), (N, D_V))]
    yield [draw(generator, HEADS, 1, d).expand(BATCH, HEADS, size, d) for size, d in ((M, D_K), (N, D_K), (N, D_V))]
    yield [draw(generator, BATCH, HEADS, 2 * s, 3 * d)[..., ::2, ::3] for s, d in ((M, D_K), (N, D_K), (N, D_V))]
    yield [draw(generator, *s).flip(-1, -2) for s in ((M, D_K), (N, D_K), (N, D_V))]


@both_paths
def test_the_memory_layout_does_not_matter(attend, device, generator):
    for mask in (draw_bool(generator, N, M).T, draw(generator, N, M).T, draw(generator, 1, N).expand(M, N)):
        mask = mask.to(device)
        for tensors in layouts(generator):
            tensors = [x.to(device) for x in tensors]
            packed = [x.contiguous() for x in tensors]
            assert_close(attend(*tensors, mask), attend(*packed, mask.contiguous()), **TIGHT)
            assert_close(attend(*tensors, is_causal=True), attend(*packed, is_causal=True), **TIGHT)


@all_masks
def test_no_argument_is_changed(make_mask, generator):
    mask, tensors, scores = make_mask(generator), inputs(generator), draw(generator, BATCH, HEADS, M, N)
    arguments = [x for x in (*tensors, scores, mask) if x is not None]
    before = [x.clone() for x in arguments]
    versions = [x._version for x in arguments]
    for is_causal in (False, True):
        scaled_dot_product_attention(*tensors, mask, is_causal=is_causal)
        fused_attention(*tensors, mask, is_causal=is_causal)
        masked_softmax(scores, mask)
        multiplicative_attention(*tensors, mask=mask)
    assert all(torch.equal(a, b) for a, b in zip(arguments, before, strict=True))
    assert [x._version for x in arguments] == versions


@pytest.mark.parametrize("where", [torch.nan, torch.inf, -torch.inf], ids=str)
def test_what_a_masked_key_holds_is_hidden(where, generator):
    query, key, value = (x.requires_grad_() for x in inputs(generator))
    mask = torch.arange(N) != 2
    clean = scaled_dot_product_attention(query, key, value, mask)
    broken = key.detach().index_fill(-2, torch.tensor(2), where)
    result = scaled_dot_product_attention(query, broken, value, mask)
    for a, b in zip(result, clean, strict=True):
        assert_close(a, b, **TIGHT)
    assert result[1][..., 2].count_nonzero() == 0
    assert gradients(result[0], [value])[0].isfinite().all()
    shown = scaled_dot_product_attention(query, broken, value, ~mask)[0]  # and in an allowed place it is not hidden
    assert shown.isnan().any()


tracing_warns = pytest.mark.filterwarnings("ignore:.*torch.jit.trace", "ignore::torch.jit.TracerWarning")
RECORDERS = {
    "compile": lambda f, args: compiled(f, backend="eager"),
    "export": lambda f, args: torch.export.export(AsModule(f), args, strict=False).module(),
    "make_fx": lambda f, args: make_fx(f)(*args),
    "trace": torch.jit.trace,
}


class AsModule(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@tracing_warns
@pytest.mark.parametrize("record", RECORDERS.values(), ids=RECORDERS.keys())
@both_paths
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_what_torch_records_without_empty_rows_is_right_with_them(record, attend, kind, generator):
    tensors = [x.float() for x in inputs(generator)]
    full = torch.ones(M, N, dtype=torch.bool) if kind == "bool" else torch.zeros(M, N)
    recorded = record(lambda q, k, v, a: attend(q, k, v, a), (*tensors, full))
    for mask in (full, empty_rows(kind, "cpu")):
        assert_close(recorded(*tensors, mask), attend(*tensors, mask))


@pytest.mark.skipif(torch.__version__.startswith("2.6."), reason="torch 2.6 writes n - m into the program as a number")
@tracing_warns
def test_a_recorded_causal_attention_takes_any_number_of_queries_and_keys(generator):
    shapes = ({2: torch.export.Dim("m", min=2)}, {2: torch.export.Dim("n", min=2)})
    query, key = draw(generator, 1, HEADS, M, D_K), draw(generator, 1, HEADS, N, D_K)
    attend = AsModule(lambda q, k: eager(q, k, k, is_causal=True))
    exported = torch.export.export(attend, (query, key), dynamic_shapes=(shapes,), strict=False).module()
    traced = torch.jit.trace(attend, (query, key))
    for m, n in ((M, N), (N, M), (M, M)):
        query, key = draw(generator, 1, HEADS, m, D_K), draw(generator, 1, HEADS, n, D_K)
        expected = eager(query, key, key, is_causal=True)
        assert_close(exported(query, key), expected, **TIGHT)
        assert_close(traced(query, key), expected, **TIGHT)


@pytest.mark.parametrize("spoilt", [math.nan, math.inf, 3e200])
@pytest.mark.parametrize("is_causal", [False, True])
def test_minus_infinity_in_a_float_mask_hides_what_false_hides(spoilt, is_causal, generator):
    """3e200 overflows in the scores."""
    query, key, value = inputs(generator)
    key[..., 1, :], query[..., 2, :] = spoilt, 3e200 if spoilt == 3e200 else query[..., 2, :]
    allowed = torch.arange(N) != 1
    added = torch.zeros(N, dtype=torch.float64).masked_fill(~allowed, -torch.inf)
    learned = [x.clone().requires_grad_() for x in (query, key, value)]
    actual, wanted = (
        scaled_dot_product_attention(*learned, mask, is_causal=is_causal) for mask in (added.requires_grad_(), allowed)
    )
    assert not wanted[0].isnan().any()
    for a, b in zip(actual, wanted, strict=True):
        assert_close(a, b, **TIGHT)
    for a, b in zip(gradients(actual[0], learned), gradients(wanted[0], learned), strict=True):
        assert_close(a, b, **TIGHT, equal_nan=True)  # 0 times the NaN in the key
    assert masked_softmax(torch.tensor([[math.nan, 1.0]]), torch.tensor([[-math.inf, 0.0]])).tolist() == [[0.0, 1.0]]


@both_paths
@pytest.mark.parametrize("is_causal", [False, True], ids=["", "causal"])
@pytest.mark.parametrize(
    ("q", "k", "v", "shape"),
    [
        ((2, 0, 4), (2, 5, 4), (2, 5, 6), (2, 0, 6)),
        ((2, 0, 4), (2, 0, 4), (2, 0, 6), (2, 0, 6)),
        ((2, 3, 4), (2, 0, 4), (2, 0, 6), (2, 3, 6)),
        ((0, 3, 4), (0, 5, 4), (0, 5, 6), (0, 3, 6)),
        ((1, 3, 4), (0, 5, 4), (0, 5, 6), (0, 3, 6)),
        ((1, 2, 3, 4), (5, 1, 0, 4), (5, 2, 0, 6), (5, 2, 3, 6)),
        ((1, 2, 3, 4), (5, 1, 7, 4), (5, 2, 7, 0), (5, 2, 3, 0)),
    ],
)
def test_empty_axes_give_empty_axes_and_zeros(attend, is_causal, q, k, v, shape, device):
    tensors = [torch.ones(size, device=device, requires_grad=True) for size in (q, k, v)]
    masks = (
        torch.ones(q[-2], k[-2], dtype=torch.bool),
        torch.ones(q[-2], 1, dtype=torch.bool),
        torch.zeros(q[-2], k[-2]),
    )
    for mask in (None, *masks, torch.zeros(1)):
        output = attend(*tensors, mask if mask is None else mask.to(device), is_causal=is_causal)
        assert output.shape == shape
        assert k[-2] or not (output.any() or gradients(output, tensors)[0].any())


def additive(query, key, value, mask):
    return additive_attention(query, key, value, torch.ones(3, D_K), torch.ones(3, D_K), torch.ones(3), mask)[0]


EVERY_PATH = {
    "eager": eager,
    "fused": fused_attention,
    "tiled": partial(tiled_attention, block_size=2),
    "additive": additive,
    "multiplicative": lambda *args: multiplicative_attention(*args)[0],
}


@pytest.mark.parametrize("attend", EVERY_PATH.values(), ids=EVERY_PATH.keys())
@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("spoilt", [math.nan, math.inf])
def test_a_row_without_an_allowed_key_is_zero_whatever_the_values_hold(attend, kind, spoilt, generator):
    query, key, value = inputs(generator, dtype=torch.float32)
    value[:, :, 1] = spoilt
    mask = torch.ones(M, N, dtype=torch.bool)
    mask[2] = False
    mask = mask if kind == "bool" else torch.zeros(M, N).masked_fill(~mask, -math.inf)
    query.requires_grad_()
    output = attend(query, key, value, mask)
    assert not output[..., 2, :].any() and not output[..., [0, 1, 3, 4], :].isfinite().any()
    if attend is not fused_attention:  # its kernels want finite values
        assert not torch.autograd.grad(output[..., 2, :].sum(), query)[0][..., 2, :].any()


@pytest.mark.parametrize("lowest", [torch.finfo(torch.float32).min, -1e9])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_a_large_finite_mask_leaves_no_row_empty(lowest, dtype, generator):
    query, key, value = (x.float() for x in inputs(generator))
    mask = torch.full((M, N), lowest)
    for attend in (fused_attention, eager):
        with torch.autocast("cpu", dtype=dtype):
            ones = attend(query, key, torch.ones_like(value), mask)
        assert_close(ones.float(), torch.ones_like(value[..., :1, :]).expand(ones.shape), rtol=0.01, atol=0.01)


# Compiling and transforming


def compiled(fn, **kwargs):
    torch.compiler.reset()
    return torch.compile(fn, fullgraph=True, **kwargs)


def test_compiled_functions_give_the_same(generator):
    tensors = [x.requires_grad_() for x in inputs(generator)]
    mask = combine_masks(padding_mask([0, 4], n=N), draw(generator, M, N))
    for attend in (eager, fused_attention):
        actual = compiled(attend, backend="aot_eager")(*tensors, mask, is_causal=True)
        expected = attend(*tensors, mask, is_causal=True)
        assert_close(actual, expected, **TIGHT)
        for f, e in zip(gradients(actual, tensors), gradients(expected, tensors), strict=True):
            assert_close(f, e, **TIGHT)


@both_paths
def test_vmap_over_any_argument_equals_a_loop(attend, generator):
    query, key, value = (draw(generator, BATCH, *s) for s in ((M, D_K), (N, D_K), (N, D_V)))
    for mask in (draw_bool(generator, BATCH, M, N), draw(generator, BATCH, M, N), torch.zeros(BATCH, 1) - math.inf):
        for axes in ((0, 0, 0, 0), (None, 0, 0, 0), (0, None, None, 0), (None, None, None, 0), (0, 0, 0, None)):
            picked = [x if a == 0 else x[0] for x, a in zip((query, key, value, mask), axes, strict=True)]
            result = torch.func.vmap(lambda q, k, v, a: attend(q, k, v, a, is_causal=True), in_dims=axes)(*picked)
            for b in range(BATCH):
                slices = [x[b] if a == 0 else x for x, a in zip(picked, axes, strict=True)]
                assert_close(result[b], attend(*slices, is_causal=True), **TIGHT)


@both_paths
def test_a_compiled_attention_takes_any_scale(attend, generator):
    query, key, value = inputs(generator)
    fast = compiled(lambda s: attend(query, key, value, scale=s), backend="eager")
    for scale in (0.5, 0.7, -2.0):
        assert_close(fast(scale), attend(query, key, value, scale=scale), **TIGHT)


# Additive and multiplicative attention


def other_inputs(generator):
    """Query, key, value with leading axes that broadcast, and the parameters of both scores."""
    shapes = {
        "query": (BATCH, 1, M, D_Q),
        "key": (HEADS, N, D_K),
        "value": (BATCH, 1, N, D_V),
        "w": (D_Q, D_K),
        "w_query": (D_HIDDEN, D_Q),
        "w_key": (D_HIDDEN, D_K),
        "v": (D_HIDDEN,),
    }
    return {name: draw(generator, *shape) / 3 for name, shape in shapes.items()}


def score_general(w):
    w = w.double().cpu().tolist()
    return lambda q, k: math.fsum(q[a] * w[a][b] * k[b] for a in range(len(q)) for b in range(len(k)))


def score_additive(w_query, w_key, v):
    w_query, w_key, v = (x.double().cpu().tolist() for x in (w_query, w_key, v))

    def score(q, k):
        return math.fsum(
            v[h]
            * math.tanh(
                math.fsum(a * b for a, b in zip(w_query[h], q, strict=True))
                + math.fsum(a * b for a, b in zip(w_key[h], k, strict=True))
            )
            for h in range(len(v))
        )

    return score


@all_masks
def test_additive_and_multiplicative_attention_agree_with_the_loop(make_mask, generator):
    x, mask = other_inputs(generator), make_mask(generator)
    query, key, value = x["query"], x["key"], x["value"]
    cases = [
        (
            additive_attention(query, key, value, x["w_query"], x["w_key"], x["v"], mask),
            score_additive(x["w_query"], x["w_key"], x["v"]),
            query,
        ),
        (multiplicative_attention(query, key, value, mask, w=x["w"]), score_general(x["w"]), query),
        (
            multiplicative_attention(query[..., :D_K], key, value, mask=mask),
            score_general(torch.eye(D_K)),
            query[..., :D_K],
        ),
    ]
    for (output, weights), score, q in cases:
        expected_output, expected_weights = loop_attention(q, key, value, mask, score=score)
        assert_close(output, expected_output, **TIGHT)
        assert_close(weights, expected_weights, **TIGHT)


def test_additive_and_multiplicative_attention_of_no_keys_give_zeros(generator):
    x = other_inputs(generator)
    key, value = x["key"][:, :0], x["value"][..., :0, :]
    for output, weights in (
        additive_attention(x["query"], key, value, x["w_query"], x["w_key"], x["v"]),
        multiplicative_attention(x["query"], key, value, w=x["w"]),
    ):
        assert output.shape == (BATCH, HEADS, M, D_V)
        assert weights.shape == (BATCH, HEADS, M, 0)
        assert not output.any()
