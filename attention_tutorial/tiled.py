"""Attention tile by tile: the same output, and no tensor of m x n on the way.

A softmax over many keys can be put together from softmaxes over some of them. What one group of keys leaves behind is
a :class:`Part`, three tensors whose size has nothing to do with the number of keys; :func:`merge_parts` makes one part
of two. :func:`tiled_attention` goes over the keys in blocks, merges their parts, and forgets each block's scores. The
backward pass computes them again.

Axes are named as in ``attention_tutorial.functional``. A query at row ``i`` of ``m`` stands at the position
``i + (n - m)`` among the keys: the last query meets the last key.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._validation import (
    autocast_casts,
    check_attention_inputs,
    check_axes,
    check_flag,
    check_same_kind,
    check_scale,
    check_size,
    shape_of,
)
from .functional import _widen, scaled_dot_product_attention
from .masks import cast_mask, causal_mask, check_window, join, sliding_window_mask

__all__ = ["Part", "merge_parts", "part_of", "tiled_attention"]


class Part(NamedTuple):
    r"""What a softmax has to remember of the keys it has seen, for each query.

    Attributes:
        top: t, (..., m, 1), the largest score; minus infinity where no key was allowed.
        total: (..., m, 1), :math:`\sum_j e^{s_j - t}`.
        summed: (..., m, d_v), :math:`\sum_j e^{s_j - t} v_j`.

    Example:
        >>> part = Part(torch.tensor([[3.0]]), torch.tensor([[2.0]]), torch.tensor([[8.0, 4.0]]))
        >>> part.output.tolist()
        [[4.0, 2.0]]
    """

    top: Tensor
    total: Tensor
    summed: Tensor

    @property
    def output(self) -> Tensor:
        """The average of the values over these keys, (..., m, d_v); zero where no key was allowed."""
        return self.summed / self.total.masked_fill(self.total == 0, 1.0)

    @property
    def log_total(self) -> Tensor:
        r"""The logarithm of the sum of all :math:`e^{s_j}`, (..., m, 1); minus infinity where no key was allowed."""
        return _finite(self.top) + self.total.log()


def part_of(scores: Tensor, value: Tensor) -> Part:
    r"""Make the part of one group of keys.

    .. math:: t_i = \max_j s_{ij}, \qquad \ell_i = \sum_j e^{s_{ij} - t_i}, \qquad u_i = \sum_j e^{s_{ij} - t_i} v_j

    Args:
        scores: (..., m, n) for a group of n keys; minus infinity masks a key.
        value: (..., n, d_v).

    Returns:
        t, :math:`\ell` and u as a :class:`Part`. NaN in an allowed score is NaN in the part: a maximum hides none.

    Raises:
        TypeError: if an input is not a float tensor, or dtypes differ.
        ValueError: if the numbers of keys differ.

    Example:
        >>> part = part_of(torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0], [4.0]]))
        >>> part.top.item(), part.total.item(), part.output.item()
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
    top = scores.amax(dim=-1, keepdim=True)  # (..., m, 1)
    weights = (scores - _finite(top)).exp()  # (..., m, n), the largest is 1, or all are 0
    return Part(top, weights.sum(dim=-1, keepdim=True), weights @ value)


def merge_parts(a: Part, b: Part) -> Part:
    r"""Make one part of two, whose keys are different ones.

    .. math:: t = \max(t_a, t_b), \qquad \ell = e^{t_a - t} \ell_a + e^{t_b - t} \ell_b, \qquad
        u = e^{t_a - t} u_a + e^{t_b - t} u_b

    It does not matter in which order parts are merged, up to rounding.

    Args:
        a: the part of some keys.
        b: the part of others, for the same queries.

    Returns:
        The part of all of them.

    Example:
        >>> value = torch.tensor([[2.0], [4.0]])
        >>> scores = torch.tensor([[0.0, 1000.0]])
        >>> one, other = part_of(scores[:, :1], value[:1]), part_of(scores[:, 1:], value[1:])
        >>> merge_parts(one, other).output.item()
        4.0

    Source:
        Milakov & Gimelshein (2018), arXiv:1805.02867, section 3.1.
    """
    top = torch.maximum(a.top, b.top)  # NaN stays NaN
    old, new = (a.top - _finite(top)).exp(), (b.top - _finite(top)).exp()  # one of them is 1, or both are 0
    return Part(top, old * a.total + new * b.total, old * a.summed + new * b.summed)


def _finite(top: Tensor) -> Tensor:
    """Put 0 for a top of minus infinity, so that every difference from it is minus infinity, not NaN."""
    return top.masked_fill(top == -torch.inf, 0.0)


def _empty(like: Tensor, value: Tensor) -> Part:
    """Make the part of no keys at all, for the queries of a tensor (..., m, something)."""
    top = like.new_full((*like.shape[:-1], 1), -torch.inf)
    return Part(top, torch.zeros_like(top), like.new_zeros(*like.shape[:-1], value.size(-1)))


@dataclass(frozen=True)
class _Rule:
    """Which pairs positions alone allow; known without a tensor of m x n."""

    m: int
    n: int
    is_causal: bool
    window: int | None
    sinks: int

    def blocks(self, rows: slice, size: int) -> Iterator[slice]:
        """Yield the blocks of keys in which some query of these rows may have an allowed one."""
        first, last = self._positions(rows)
        for columns in _blocks(self.n, size):
            future = self.is_causal and columns.start > last
            too_old = self.window is not None and columns.stop <= first - self.window + 1
            if not future and not (too_old and columns.start >= self.sinks):
                yield columns

    def open(self, rows: slice, columns: slice, device: torch.device) -> Tensor | None:
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

    .. math:: o_i = u_i / \ell_i \quad\text{of the part of all keys, merged from blocks of keys}

    The largest tensor that it makes has ``block_size`` x ``block_size`` numbers for each leading axis, or is as large
    as an input or the output, stretched over the leading axes. What is kept for the backward pass is the inputs, the
    output and one number for each query; the backward pass computes the weights again, block by block. Gradients of
    gradients are left to the naive attention, with its memory.

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
    rule = _Rule(query.size(-2), key.size(-2), is_causal or window is not None, window, sinks)
    leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query, key, value = (x.expand(*leading, *x.shape[-2:]) for x in (query, key, value))
    if autocast_casts(query, key, value):  # to one dtype, as torch's own operation; the blocks stay in float32
        query, key, value = (x.to(torch.get_autocast_dtype(x.device.type)) for x in (query, key, value))
    mask = mask if mask is None else torch.atleast_2d(mask)
    with _without_autocast(query):
        output, _ = _Tiled.apply(query, key, value, mask, rule, scale, block_size)
    return output


def _without_autocast(tensor: Tensor) -> AbstractContextManager[Any]:
    return torch.autocast(tensor.device.type, enabled=False) if autocast_casts(tensor) else nullcontext()


class _Tiled(torch.autograd.Function):
    """The output, and the logarithm of each row's total; the gradients compute the weights again."""

    @staticmethod
    def forward(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, rule: _Rule, scale: float, size: int
    ) -> tuple[Tensor, Tensor]:
        return _forward(query, key, value, mask, rule, scale, size)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        *tensors, ctx.rule, ctx.scale, ctx.size = inputs
        ctx.save_for_backward(*tensors, *output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, Tensor], int]:
        return _Tiled.apply(*_in_front(info.batch_size, in_dims, inputs)), 0

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        with_mask = ctx.needs_input_grad[3]
        d_query, d_key, d_value, *d_mask = _TiledGradients.apply(
            given[0], *ctx.saved_tensors, ctx.rule, ctx.scale, ctx.size, with_mask
        )
        return d_query, d_key, d_value, *(d_mask or [None]), None, None, None


class _TiledGradients(torch.autograd.Function):
    """The gradients of query, key, value and, if asked for, of a float mask; their own are those of the naive ones."""

    @staticmethod
    def forward(
        grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
        output: Tensor, log_total: Tensor, rule: _Rule, scale: float, size: int, with_mask: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        with _without_autocast(query):
            return _backward(grad, query, key, value, mask, output, log_total, rule, scale, size, with_mask=with_mask)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, _, _, ctx.rule, ctx.scale, _, ctx.with_mask = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], int]:
        return _TiledGradients.apply(*_in_front(info.batch_size, in_dims, inputs)), 0

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        grad, query, key, value, mask = ctx.saved_tensors
        inputs = (query, key, value, mask) if ctx.with_mask else (query, key, value)

        def attend(query: Tensor, key: Tensor, value: Tensor, added: Tensor | None = mask) -> Tensor:
            return _naive(query, key, value, added, ctx.rule, ctx.scale)

        def gradients(grad: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
            return torch.func.vjp(attend, *inputs)[1](grad)

        with _without_autocast(query):
            d_grad, d_query, d_key, d_value, *d_mask = torch.func.vjp(gradients, grad, *inputs)[1](given)
        return d_grad, d_query, d_key, d_value, *(d_mask or [None]), None, None, None, None, None, None


def _in_front(batch_size: int, axes: tuple[int | None, ...], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Make the axis that `vmap` maps over the first leading axis of every tensor."""
    placed = []
    for x, axis in zip(inputs, axes, strict=True):
        if isinstance(x, Tensor):
            x = x.expand(batch_size, *x.shape) if axis is None else x.movedim(axis, 0)
        placed.append(x)
    most = max(x.dim() for x in placed if isinstance(x, Tensor))  # a mask may have fewer axes than the others
    return tuple(
        x.reshape(batch_size, *[1] * (most - x.dim()), *x.shape[1:]) if isinstance(x, Tensor) else x for x in placed
    )


def _forward(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, rule: _Rule, scale: float, size: int
) -> tuple[Tensor, Tensor]:
    """Return the output (..., m, d_v), and the logarithm of each row's total (..., m, 1)."""
    output = query.new_empty(*query.shape[:-1], value.size(-1))
    log_total = _widen(query.new_empty(*query.shape[:-1], 1))
    for rows in _blocks(rule.m, size):
        q = _widen(query[..., rows, :]) * scale
        part, some_open = _empty(q, value), torch.zeros_like(q[..., :1], dtype=torch.bool)
        for columns in rule.blocks(rows, size):
            scores, is_open = _scores(q, key, mask, rule, rows, columns)
            part = merge_parts(part, part_of(scores, _widen(value[..., columns, :])))
            some_open |= is_open
        lost = some_open & (part.total == 0)  # open scores, all of them minus infinity: NaN, as a softmax has it
        output[..., rows, :] = part.output.masked_fill(lost, torch.nan).to(output.dtype)
        log_total[..., rows, :] = part.log_total.masked_fill(lost, torch.nan)
    return output, log_total


def _scores(
    q: Tensor, key: Tensor, mask: Tensor | None, rule: _Rule, rows: slice, columns: slice
) -> tuple[Tensor, Tensor]:
    """Return the scores of one block with minus infinity at masked keys, and which rows have an allowed one."""
    scores = q @ _widen(key[..., columns, :]).mT
    allowed = rule.open(rows, columns, scores.device)
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


def _backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    output: Tensor,
    log_total: Tensor,
    rule: _Rule,
    scale: float,
    size: int,
    *,
    with_mask: bool,
) -> tuple[Tensor, ...]:
    """Return the gradients of query, key, value and, if asked for, of a float mask."""
    inputs = (query, key, value) if mask is None or not with_mask else (query, key, value, mask)
    d_query, d_key, d_value, *d_mask = grads = tuple(_widen(torch.zeros_like(x)) for x in inputs)
    for rows in _blocks(rule.m, size):
        q = _widen(query[..., rows, :]) * scale
        total = log_total[..., rows, :]
        d_out = _widen(grad[..., rows, :]).masked_fill(total == -torch.inf, 0.0)  # nothing open: no gradient
        along = (d_out * _widen(output[..., rows, :])).sum(dim=-1, keepdim=True)
        for columns in rule.blocks(rows, size):
            k, v = _widen(key[..., columns, :]), _widen(value[..., columns, :])
            scores, _ = _scores(q, key, mask, rule, rows, columns)
            weights = (scores - _finite(total)).exp()  # the softmax again, at once: its total is known
            d_scores = weights * (d_out @ v.mT - along)
            d_value[..., columns, :] += weights.mT @ d_out
            d_key[..., columns, :] += d_scores.mT @ q
            d_query[..., rows, :] += d_scores @ k * scale
            for d_added in d_mask:
                part = _tile(d_added, rows, columns)
                part += d_scores.sum_to_size(part.shape)
    return tuple(d_x.to(x.dtype) for d_x, x in zip(grads, inputs))  # noqa: B905  (as in `_validation`)


def _naive(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, rule: _Rule, scale: float) -> Tensor:
    """Return the output once more, by operations that autograd can differentiate twice."""
    places = None
    if rule.window is not None:
        places = sliding_window_mask(rule.m, rule.n, rule.window, rule.sinks, query.device)
    elif rule.is_causal:
        places = causal_mask(rule.m, rule.n, query.device)
    if mask is not None and places is not None:
        mask = join(mask, places)
    return scaled_dot_product_attention(
        query, key, value, places if mask is None else mask, is_causal=False, scale=scale
    )[0]
