"""Laws of the masks. The oracles are loops over single positions and torch's own modules."""

import itertools
import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import BATCH, HEADS, M, N, assert_raises, draw, draw_bool, mistakes
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from attention_tutorial import (
    MultiHeadAttention,
    causal_mask,
    combine_masks,
    padding_mask,
    sliding_window_mask,
    to_torch_mha_mask,
)
from attention_tutorial.positions import alibi_bias, sinusoidal_positions

sizes = st.integers(0, 7)


@given(m=sizes, n=sizes | st.none())
def test_causal_mask_allows_what_lies_no_later_counted_from_the_end(m, n):
    mask = causal_mask(m, n)
    n = m if n is None else n
    assert mask.dtype == torch.bool
    assert mask.shape == (m, n)
    # "how far from the end" is the position that queries and keys share
    assert mask.tolist() == [[n - j >= m - i for j in range(n)] for i in range(m)]


@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5), more=st.integers(0, 3))
def test_padding_mask_of_lengths_allows_the_first_positions(lengths, more):
    n = max(lengths) + more
    assert torch.equal(padding_mask(lengths), padding_mask(lengths, n=max(lengths)))
    assert padding_mask(torch.tensor(lengths)[:0], n=n).shape == (0, 1, 1, n)
    for given_lengths in (lengths, torch.tensor(lengths), torch.tensor(lengths, dtype=torch.int32)):
        mask = padding_mask(given_lengths, n=n)
        assert mask.dtype == torch.bool
        assert mask.shape == (len(lengths), 1, 1, n)
        assert mask[:, 0, 0].tolist() == [[j < length for j in range(n)] for length in lengths]


@given(
    ids=st.lists(st.lists(st.integers(-2, 4), min_size=3, max_size=3), min_size=1, max_size=4), pad=st.integers(-2, 4)
)
def test_padding_mask_of_ids_hides_the_pad_id_wherever_it_stands(ids, pad):
    mask = padding_mask(torch.tensor(ids), pad_id=pad)
    assert mask.shape == (len(ids), 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[token != pad for token in row] for row in ids]


def test_lengths_are_read_where_nothing_can_look_at_them():
    lengths = torch.tensor([[3, 1], [2, 4]])
    mask = partial(padding_mask, n=4)
    each = torch.stack([mask(row) for row in lengths])
    assert torch.equal(torch.func.vmap(mask)(lengths), each)
    for mode in ("real", "fake", "symbolic"):
        assert torch.equal(make_fx(mask, tracing_mode=mode)(lengths[0])(lengths[1]), each[1])
    assert torch.equal(torch.compile(mask, backend="eager", fullgraph=True)(lengths[1]), each[1])
    with FakeTensorMode() as fake:
        for nowhere in (torch.empty(2, dtype=torch.long, device="meta"), fake.from_tensor(torch.tensor([3, 1]))):
            assert mask(nowhere).shape == (2, 1, 1, 4)


INTEGERS = [getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("n", [None, 3, 200, 512, 70_000])
def test_lengths_of_any_integer_type_are_read_beside_any_n(dtype, n):
    lengths = [3, 0, 1]
    mask = padding_mask(torch.tensor(lengths, dtype=dtype), n=n)
    assert mask.size(-1) == (n or 3) and mask.sum(dim=-1).flatten().tolist() == lengths
    assert_raises(lambda: padding_mask(torch.tensor(lengths, dtype=dtype), n=2), ValueError,
                  "lengths must lie between 0 and n=2; got [3, 0, 1]")  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("make", [
    causal_mask, partial(sliding_window_mask, window=2, sinks=1), lambda n: sinusoidal_positions(n, 4),
    lambda n: alibi_bias(n, n, 2), lambda n: padding_mask([1, 0], n=n),
])  # fmt: skip
def test_what_is_made_for_a_size_is_traced_for_any(make):
    traced = torch.jit.trace(lambda x: make(x.size(0)), torch.zeros(N))
    assert torch.equal(traced(torch.zeros(M)), make(M))


def test_two_masks_by_hand():
    for a, b in itertools.product((False, True), repeat=2):
        assert combine_masks(torch.tensor(a), torch.tensor(b)).item() == (a and b)
    added, allowed = torch.tensor([0.0, 1.5, -math.inf, -math.inf]), torch.tensor([True, False, True, False])
    assert combine_masks(added, torch.tensor([2.0, -0.5, 3.0, -math.inf])).tolist() == [2.0, 1.0, -math.inf, -math.inf]
    for joined in (combine_masks(allowed, added), combine_masks(added, allowed)):
        assert joined.tolist() == [0.0, -math.inf, -math.inf, -math.inf]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_joined_float_mask_keeps_its_dtype(dtype):
    assert combine_masks(causal_mask(3), torch.zeros(3, 3, dtype=dtype)).dtype == dtype


def test_joining_many_masks_broadcasts_and_does_not_depend_on_their_order(generator):
    masks = [
        causal_mask(M, N),
        padding_mask([3, 6], n=N),
        draw_bool(generator, BATCH, HEADS, M, 1),
        draw(generator, 1, HEADS, 1, N),
    ]
    joined = combine_masks(*masks)
    assert joined.shape == (BATCH, HEADS, M, N)
    for b, h, i, j in itertools.product(*map(range, joined.shape)):
        allowed = j <= i + N - M and j < (3, 6)[b] and bool(masks[2][b, h, i, 0])
        assert joined[b, h, i, j].item() == (masks[3][0, h, 0, j].item() if allowed else -math.inf)
    assert torch.equal(combine_masks(*reversed(masks)), joined)


def test_none_means_no_restriction():
    mask = causal_mask(3)
    assert combine_masks() is None
    assert combine_masks(None, None) is None
    assert torch.equal(combine_masks(None, mask, None), mask)


def test_a_learned_float_mask_gets_gradients_through_a_join():
    learned = torch.zeros(3, 3, requires_grad=True)
    combine_masks(causal_mask(3), learned).masked_fill(~causal_mask(3), 0.0).sum().backward()
    assert learned.grad.tolist() == causal_mask(3).float().tolist()


def test_torch_module_convention_is_the_opposite_for_booleans_and_the_same_for_floats(generator):
    allowed, added = draw_bool(generator, M, N), draw(generator, M, N)
    assert to_torch_mha_mask(allowed).tolist() == [[not x for x in row] for row in allowed.tolist()]
    assert torch.equal(to_torch_mha_mask(added), added)
    assert to_torch_mha_mask(None) is None
    assert torch.equal(to_torch_mha_mask(to_torch_mha_mask(allowed)), allowed)


@pytest.mark.parametrize("axes", [
    (M, N), (1, N), (M, 1), (BATCH, M, N), (1, M, N), (BATCH, 1, N), (BATCH, 1, 1, N), (1, 1, M, N), (1, HEADS, M, N),
    (BATCH, HEADS, M, N),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_torchs_module_takes_the_converted_mask_and_reads_it_as_ours_is_meant(axes, kind, generator):
    mask = draw_bool(generator, *axes) if kind == "bool" else draw(generator, *axes)
    if kind == "bool":
        mask[..., 0] = True  # torch's module makes NaN of an empty row
    theirs = nn.MultiheadAttention(4 * HEADS, HEADS, batch_first=True, dtype=torch.float64)
    query, key = draw(generator, BATCH, M, 4 * HEADS), draw(generator, BATCH, N, 4 * HEADS)
    converted = to_torch_mha_mask(mask, (BATCH, HEADS, M, N))
    got = theirs(query, key, key, attn_mask=converted, average_attn_weights=False)
    for actual, expected in zip(got, MultiHeadAttention.from_torch(theirs)(query, key, mask=mask), strict=True):
        torch.testing.assert_close(actual, expected)


def test_no_mask_is_changed_by_joining_or_converting(generator):
    allowed, added = draw_bool(generator, M, N), draw(generator, M, N)
    before = allowed.clone(), added.clone()
    combine_masks(allowed, added, causal_mask(M, N))
    combine_masks(allowed, allowed)
    to_torch_mha_mask(allowed)
    assert torch.equal(allowed, before[0])
    assert torch.equal(added, before[1])
    assert allowed._version == added._version == 0


INT = torch.ones(2, 2, dtype=torch.int64)
ERRORS = {
    TypeError: [
        (lambda: causal_mask(2.0), "m must be an int; got float"),
        (lambda: causal_mask(True), "m must be an int; got bool"),
        (lambda: causal_mask(2, "3"), "n must be an int; got str"),
        (lambda: padding_mask(torch.tensor([1.0])), "ids_or_lengths must hold integers; got torch.float32"),
        (lambda: padding_mask([True, False]), "ids_or_lengths must hold integers; got torch.bool"),
        (lambda: padding_mask(None), "ids_or_lengths must hold integers; got NoneType"),
        (lambda: padding_mask(torch.nested.nested_tensor([INT, INT], layout=torch.jagged), pad_id=0),
         "ids_or_lengths must not be nested; pad it by torch.nested.to_padded_tensor, and hide the padding by a mask, "
         "padding_mask(lengths)"),
        (lambda: padding_mask("abc"), "ids_or_lengths must hold integers; got str"),
        (lambda: padding_mask([[1, 2]], pad_id=0.0), "pad_id must be an int; got float"),
        (lambda: padding_mask([1, 2], n=3.0), "n must be an int; got float"),
        (lambda: combine_masks(None, INT),
         "masks[1] must be boolean (True = may attend) or floating point (added to the scores); got torch.int64"),
        (lambda: combine_masks([True]), "masks[0] must be a torch.Tensor or None; got list"),
        (lambda: to_torch_mha_mask(INT),
         "mask must be boolean (True = may attend) or floating point (added to the scores); got torch.int64"),
        (lambda: to_torch_mha_mask(torch.ones(2, 7, 7), 3), "shape must be a tuple (batch, heads, m, n); got 3"),
        (lambda: to_torch_mha_mask(torch.ones(2, 7, 7), (3, 7, 7)),
         "shape must be a tuple (batch, heads, m, n); got (3, 7, 7)"),
    ],
    ValueError: [
        (lambda: causal_mask(-1), "m must be at least 0; got -1"),
        (lambda: causal_mask(2, -3), "n must be at least 0; got -3"),
        (lambda: padding_mask([[1, 2], [3]], pad_id=0),
         "ids_or_lengths must have rows of equal length; expected sequence of length 2 at dim 1 (got 1)"),
        (lambda: padding_mask([[1, 2, 3]]),
         "pad_id is needed with ids (batch, n); got ids of shape (1, 3) and no pad_id"),
        (lambda: padding_mask([[1, 2, 3]], pad_id=0, n=3),
         "n goes with lengths (batch,); got n=3 with ids of shape (1, 3)"),
        (lambda: padding_mask([1, 2], pad_id=0), "pad_id goes with ids (batch, n); got pad_id=0 with lengths (2,)"),
        (lambda: padding_mask(torch.ones(2, 3, 5, dtype=torch.int64), pad_id=0),
         "ids_or_lengths must be ids (batch, n) or lengths (batch,); got shape (2, 3, 5)"),
        (lambda: padding_mask(3), "ids_or_lengths must be ids (batch, n) or lengths (batch,); got shape ()"),
        (lambda: padding_mask([5, 2], n=4), "lengths must lie between 0 and n=4; got [5, 2]"),
        (lambda: padding_mask([-1, 2]), "lengths must lie between 0 and n=2; got [-1, 2]"),
        (lambda: combine_masks(causal_mask(2, 3), causal_mask(2, 5)),
         "masks must broadcast with each other; got (2, 3) and (2, 5)"),
        (lambda: combine_masks(causal_mask(2), causal_mask(2, device="meta")),
         "masks must be on the same device; got cpu and meta"),
        (lambda: to_torch_mha_mask(torch.ones(2, 5, 7, 7), (2, 3, 7, 7)),
         "mask must be (m, n), (batch, m, n) or (batch or 1, heads or 1, m, n), three axes meaning batch, with "
         "batch=2, heads=3, m=7, n=7; got (2, 5, 7, 7)"),
        (lambda: to_torch_mha_mask(torch.ones(7), (2, 3, 7, 7)),
         "mask must be (m, n), (batch, m, n) or (batch or 1, heads or 1, m, n), three axes meaning batch, with "
         "batch=2, heads=3, m=7, n=7; got (7,)"),
    ],
}  # fmt: skip


@mistakes(ERRORS)
def test_a_wrong_argument_is_named_with_the_rule_and_what_came(call, error, message):
    assert_raises(call, error, message)


@pytest.mark.parametrize(("dtype", "ids", "pad_id"), [
    (torch.uint8, [1, 255], -1), (torch.uint8, [0, 44], 300), (torch.int8, [0, 1], 256), (torch.int64, [0, 1], 2**70),
    (torch.uint64, [0, 1], -1), (torch.uint64, [0, 1], 2**64 - 1),
])  # fmt: skip
def test_an_id_that_no_token_can_have_hides_none(dtype, ids, pad_id):
    assert padding_mask(torch.tensor([ids], dtype=dtype), pad_id=pad_id).all()
