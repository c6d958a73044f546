"""Attention tile by tile: the same output, and no tensor of m x n on the way.

A softmax over many keys can be put together from softmaxes over some of them. What one group of keys leaves behind is
a :class:`SoftmaxState`, three tensors whose size has nothing to do with the number of keys; :func:`merge_states` makes
one state of two. :func:`tiled_attention` goes over the keys in blocks, merges their states, and forgets each block's
scores. The backward pass computes them again.

Axes are named as in ``attention_tutorial.functional``. A query at row ``i`` of ``m`` stands at the position
``i + (n - m)`` among the keys: the last query meets the last key.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._validation import (
    check_attention_inputs,
    check_axes,
    check_flag,
    check_same_kind,
    check_scale,
    check_size,
    shape_of,
)
from .functional import upcast
from .masks import cast_mask, check_window

__all__ = ["SoftmaxState", "merge_states", "softmax_state", "tiled_attention"]


class SoftmaxState(NamedTuple):
    r"""What a softmax has to remember of the keys it has seen, for each query, under FlashAttention's names.

    Attributes:
        m: t, (..., m, 1), the largest score; minus infinity where no key was allowed.
        l: (..., m, 1), :math:`\sum_j e^{s_j - t}`.
        acc: u, (..., m, d_v), :math:`\sum_j e^{s_j - t} v_j`.

    Example:
        >>> state = SoftmaxState(m=torch.tensor([[3.0]]), l=torch.tensor([[2.0]]), acc=torch.tensor([[8.0, 4.0]]))
        >>> state.output.tolist()
        [[4.0, 2.0]]

    Source:
        Dao et al. (2022), arXiv:2205.14135, section 3.1 (m and :math:`\ell`).
    """

    m: Tensor
    l: Tensor  # noqa: E741
    acc: Tensor

    @property
    def output(self) -> Tensor:
        """The average of the values over these keys, (..., m, d_v); zero where no key was allowed."""
        is_empty = self.l == 0
        return (self.acc / self.l.masked_fill(is_empty, 1.0)).masked_fill(is_empty, 0.0)

    @property
    def logsumexp(self) -> Tensor:
        r"""The logarithm of the sum of all :math:`e^{s_j}`, (..., m, 1); minus infinity where no key was allowed."""
        return _finite(self.m) + self.l.log()


def softmax_state(scores: Tensor, value: Tensor) -> SoftmaxState:
    r"""Make the state that one group of keys leaves.

    .. math:: t_i = \max_j s_{ij}, \qquad \ell_i = \sum_j e^{s_{ij} - t_i}, \qquad u_i = \sum_j e^{s_{ij} - t_i} v_j

    Args:
        scores: (..., m, n) for a group of n keys; minus infinity masks a key.
        value: (..., n, d_v).

    Returns:
        t, :math:`\ell` and u as a :class:`SoftmaxState`. NaN in an allowed score is NaN there: no maximum hides it.

    Raises:
        TypeError: if an input is not a float tensor, or dtypes differ.
        ValueError: if the numbers of keys differ.

    Example:
        >>> state = softmax_state(torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0], [4.0]]))
        >>> state.m.item(), state.l.item(), state.output.item()
        (1.0, 2.0, 3.0)

    Source:
        Milakov & Gimelshein (2018), arXiv:1805.02867, section 3; with values Rabe & Staats (2021), arXiv:2112.05682.
    """
    check_axes("scores", scores, "(..., m, n)")
    check_axes("value", value, "(..., n, d_v)")
    check_same_kind("scores", scores, "value", value)
    if scores.size(-1) != value.size(-2):
        raise ValueError("scores and value need the same number of keys n; "
                         f"got scores {shape_of(scores)}, value {shape_of(value)}")  # fmt: skip
    if scores.size(-1) == 0:
        return _empty(scores, value)
    largest = scores.amax(dim=-1, keepdim=True)  # (..., m, 1)
    weights = (scores - _finite(largest)).exp()  # (..., m, n), the largest is 1, or all are 0
    return SoftmaxState(largest, weights.sum(dim=-1, keepdim=True), weights @ value)


def merge_states(a: SoftmaxState, b: SoftmaxState) -> SoftmaxState:
    r"""Make one state of two, whose keys are different ones.

    .. math:: t = \max(t_a, t_b), \qquad \ell = e^{t_a - t} \ell_a + e^{t_b - t} \ell_b, \qquad
        u = e^{t_a - t} u_a + e^{t_b - t} u_b

    It does not matter in which order states are merged, up to rounding.

    Args:
        a: the state after some keys.
        b: the state after others, for the same queries.

    Returns:
        The state after all of them.

    Example:
        >>> value = torch.tensor([[2.0], [4.0]])
        >>> scores = torch.tensor([[0.0, 1000.0]])
        >>> one, other = softmax_state(scores[:, :1], value[:1]), softmax_state(scores[:, 1:], value[1:])
        >>> merge_states(one, other).output.item()
        4.0

    Source:
        Milakov & Gimelshein (2018), arXiv:1805.02867, section 3.1.
    """
    largest = torch.maximum(a.m, b.m)  # NaN stays NaN
    of_a, of_b = (a.m - _finite(largest)).exp(), (b.m - _finite(largest)).exp()  # one of them is 1, or both are 0
    return SoftmaxState(largest, of_a * a.l + of_b * b.l, of_a * a.acc + of_b * b.acc)


def _finite(x: Tensor) -> Tensor:
    """Replace minus infinity, where no key was allowed, by 0, so that subtracting it gives no NaN."""
    return x.masked_fill(x == -torch.inf, 0.0)


def _empty(like: Tensor, value: Tensor) -> SoftmaxState:
    """Make the state of no keys at all, for the queries of a tensor (..., m, something)."""
    nothing = like.new_full((*like.shape[:-1], 1), -torch.inf)
    return SoftmaxState(nothing, torch.zeros_like(nothing), like.new_zeros(*like.shape[:-1], value.size(-1)))


@dataclass(frozen=True)
class BlockMask:
    """Which pairs positions alone allow, block by block; known without a tensor of m x n."""

    m: int
    n: int
    is_causal: bool
    window: int | None = None
    sinks: int = 0

    def blocks(self, rows: slice, size: int) -> Iterator[slice]:
        """Yield the blocks of keys in which some query of these rows may have an allowed one."""
        first, last = self._positions(rows)
        for columns in _blocks(self.n, size):
            future = self.is_causal and columns.start > last
            too_old = self.window is not None and columns.stop <= first - self.window + 1
            if not future and not (too_old and columns.start >= self.sinks):
                yield columns

    def allowed(self, rows: slice, columns: slice, device: torch.device) -> Tensor | None:
        """Return which pairs of a block are allowed, or None where all are."""
        first, last = self._positions(rows)
        in_past = not self.is_causal or columns.stop - 1 <= first
        if in_past and (self.window is None or last - columns.start < self.window or columns.stop <= self.sinks):
            return None
        i = torch.arange(first, last + 1, device=device)[:, None]
        j = torch.arange(columns.start, columns.stop, device=device)
        seen = j <= i
        return seen if self.window is None else seen & ((i - j < self.window) | (j < self.sinks))

    def _positions(self, rows: slice) -> tuple[int, int]:
        return rows.start + self.n - self.m, rows.stop - 1 + self.n - self.m


def _blocks(n: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def tiled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    window: int | None = None,
    sinks: int = 0,
    scale: float | None = None,
    block_size: int = 128,
) -> Tensor:
    r"""Compute the output of attention block by block, without ever holding its m x n weights.

    .. math:: o_i = u_i / \ell_i \quad\text{of the state after all keys, merged from blocks of keys}

    The largest tensor that it makes has ``block_size`` x ``block_size`` numbers for each leading axis, or is as large
    as an input or the output, stretched over the leading axes. What is kept for the backward pass is the inputs, the
    output and one number for each query; the backward pass computes the weights again, block by block. Autograd
    and ``torch.compile`` are supported. Gradients of gradients, derivatives forward and ``torch.func`` raise an error,
    and autocast rounds the products within a block; for these there is ``scaled_dot_product_attention``.

    Causal, window and sinks are worked out for each block from the positions. Blocks that they mask whole are not read.

    Args:
        query: Q, (..., m, d_k).
        key: K, (..., n, d_k).
        value: V, (..., n, d_v). The leading axes of the three broadcast.
        mask: boolean, True = may attend, or float, added to the scaled scores; broadcasts to (..., m, n).
        is_causal: as in :func:`~attention_tutorial.functional.scaled_dot_product_attention`, lower right.
        window: each query sees only so many keys, the last at its own position; this is causal.
        sinks: with a window, the first so many keys stay allowed too.
        scale: factor on the scores; 1/sqrt(d_k) when left out.
        block_size: how many queries, and how many keys, one block has.

    Returns:
        The output (..., m, d_v), as that of ``scaled_dot_product_attention`` up to rounding: zero in rows with nothing
        to attend to, NaN where an allowed score is (a float mask's minus infinity masks a key, and hides its NaN). Half
        precision is computed in float32.

    Raises:
        TypeError: as ``scaled_dot_product_attention``, or if a size is not an int.
        ValueError: as there, or if ``window`` or ``block_size`` is below 1, or ``sinks`` come without a window.

    Example:
        >>> x = torch.rand(1, 300, 8)
        >>> naive = torch.softmax(x @ x.mT / 8**0.5, dim=-1) @ x
        >>> torch.allclose(tiled_attention(x, x, x, block_size=64), naive, atol=1e-6)
        True

    Source:
        Rabe & Staats (2021), arXiv:2112.05682; Dao et al. (2022), arXiv:2205.14135, algorithms 1 and 4; the loop over
        queries outside as in Dao (2023), arXiv:2307.08691.
    """
    check_attention_inputs(query, key, value, mask)
    check_flag("is_causal", is_causal)
    check_window(window, sinks)
    check_size("block_size", block_size, minimum=1)
    scale = check_scale(scale)
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    block_mask = BlockMask(query.size(-2), key.size(-2), is_causal or window is not None, window, sinks)
    leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query, key, value = (x.expand(*leading, *x.shape[-2:]) for x in (query, key, value))
    mask = mask if mask is None else torch.atleast_2d(mask)
    output: Tensor = _Tiled.apply(query, key, value, mask, block_mask, scale, block_size)
    return output


class _Tiled(torch.autograd.Function):
    """The output; the gradients compute the weights again."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
        block_mask: BlockMask, scale: float, size: int,
    ) -> Tensor:  # fmt: skip
        output, logsumexp = _forward(query, key, value, mask, block_mask, scale, size)
        ctx.save_for_backward(query, key, value, mask, output, logsumexp)
        ctx.options = block_mask, scale, size
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        with_mask = ctx.needs_input_grad[3]
        gradients = attention_gradients(grad, *ctx.saved_tensors, *ctx.options, with_mask=with_mask)
        return *gradients, *(() if with_mask else (None,)), None, None, None


def _forward(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, block_mask: BlockMask, scale: float, size: int
) -> tuple[Tensor, Tensor]:
    """Return the output (..., m, d_v), and the logarithm of each row's sum of exponentials (..., m, 1)."""
    output = query.new_empty(*query.shape[:-1], value.size(-1))
    logsumexp = upcast(query.new_empty(*query.shape[:-1], 1))
    for rows in _blocks(block_mask.m, size):
        q = upcast(query[..., rows, :]) * scale
        state, has_allowed_key = _empty(q, value), torch.zeros_like(q[..., :1], dtype=torch.bool)
        for columns in block_mask.blocks(rows, size):
            scores, allowed_here = _scores(q, key, mask, block_mask, rows, columns)
            state = merge_states(state, softmax_state(scores, upcast(value[..., columns, :])))
            has_allowed_key |= allowed_here
        lost = has_allowed_key & (state.l == 0)  # all allowed scores are minus infinity: NaN, as a softmax has it
        output[..., rows, :] = state.output.masked_fill(lost, torch.nan).to(output.dtype)
        logsumexp[..., rows, :] = state.logsumexp.masked_fill(lost, torch.nan)
    return output, logsumexp


def _scores(
    q: Tensor, key: Tensor, mask: Tensor | None, block_mask: BlockMask, rows: slice, columns: slice
) -> tuple[Tensor, Tensor]:
    """Return the scores of one block with minus infinity at masked keys, and which rows have an allowed one."""
    scores = q @ upcast(key[..., columns, :]).mT
    allowed = block_mask.allowed(rows, columns, scores.device)
    if mask is not None:
        tile = _tile(mask, rows, columns)
        if tile.dtype != torch.bool:
            tile = cast_mask(tile, scores.dtype)
            scores = scores + tile
            tile = tile != -torch.inf
        allowed = tile if allowed is None else allowed & tile
    if allowed is None:
        return scores, scores.new_ones((), dtype=torch.bool)
    return scores.masked_fill_(~allowed, -torch.inf), allowed.any(dim=-1, keepdim=True)


def _tile(mask: Tensor, rows: slice, columns: slice) -> Tensor:
    """Cut a block out of a mask (..., m or 1, n or 1)."""
    everything = slice(None)
    return mask[..., everything if mask.size(-2) == 1 else rows, everything if mask.size(-1) == 1 else columns]


def attention_gradients(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, output: Tensor, logsumexp: Tensor,
    block_mask: BlockMask, scale: float, size: int, *, with_mask: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the gradients of query, key, value and, if asked for, of a float mask, block by block."""
    inputs = (query, key, value) if mask is None or not with_mask else (query, key, value, mask)
    d_query, d_key, d_value, *d_mask = grads = tuple(upcast(torch.zeros_like(x)) for x in inputs)
    for rows in _blocks(block_mask.m, size):
        q = upcast(query[..., rows, :]) * scale
        row_sum = logsumexp[..., rows, :]
        is_empty = row_sum == -torch.inf  # no allowed key: no gradient
        d_out = upcast(grad[..., rows, :]).masked_fill(is_empty, 0.0)
        along = (d_out * upcast(output[..., rows, :])).sum(dim=-1, keepdim=True)
        for columns in block_mask.blocks(rows, size):
            k, v = upcast(key[..., columns, :]), upcast(value[..., columns, :])
            scores, _ = _scores(q, key, mask, block_mask, rows, columns)
            weights = (scores - _finite(row_sum)).exp()  # the softmax again, at once: its sum is known
            d_scores = (weights * (d_out @ v.mT - along)).masked_fill(is_empty, 0.0)
            d_value[..., columns, :] += weights.mT @ d_out
            d_key[..., columns, :] += d_scores.mT @ q
            d_query[..., rows, :] += d_scores @ k * scale
            for d_added in d_mask:
                tile = _tile(d_added, rows, columns)
                tile += d_scores.sum_to_size(tile.shape)
    return tuple(d_x.to(x.dtype) for d_x, x in zip(grads, inputs))  # noqa: B905  (as in `_validation`)
