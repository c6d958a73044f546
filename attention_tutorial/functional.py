"""Attention as pure functions of tensors.

Axes are named the same everywhere: ``m`` queries, ``n`` keys (and as many values), ``d_k`` features of a query and a
key, ``d_v`` features of a value; ``...`` stands for any leading axes, such as batch and heads. Every attention
returns ``(output, weights)``: the output (..., m, d_v) and the weights (..., m, n), whose rows sum to 1.

A public function checks its arguments. Where others of the package compute with arguments that are checked already, a
private function of the same name does the computing, such as ``_masked_softmax``; it checks nothing.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

from ._validation import (
    HALF_PRECISION,
    autocast_casts,
    broadcasts_to,
    check_attention_inputs,
    check_flag,
    check_float_tensor,
    check_mask,
    check_pair,
    check_parameter,
    check_same_kind,
    check_scale,
    shape_of,
)
from .masks import join

__all__ = [
    "additive_attention",
    "additive_scores",
    "dot_product_scores",
    "fused_attention",
    "general_scores",
    "masked_softmax",
    "multiplicative_attention",
    "scaled_dot_product_attention",
]

MANY_KEYS = 512  # beyond them a causal mask and one of whole keys are not joined to one of n x n
MANY_SCORES = 16_384  # beyond them a processor adds minus infinity some times as quickly as it writes it


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    r"""Turn each row of scores into weights over the keys that the mask leaves open.

    .. math:: a_{ij} = \frac{\exp s_{ij}}{\sum_{l \text{ open}} \exp s_{il}}
        \text{ for open } j, \quad 0 \text{ otherwise}

    The sum runs over the last axis, the keys. A row in which no key is open gets zero weights and zero gradients,
    not NaN.

    Args:
        scores: (..., m, n).
        mask: boolean, True = may attend, or float, added to the scores; broadcasts to (..., m, n), where it may bring
            leading axes of its own.

    Returns:
        Weights (..., m, n), in the dtype of the scores. Each row sums to 1, or to 0 if it has no open key.

    Raises:
        TypeError: if ``scores`` is not a float tensor, or ``mask`` neither boolean nor float.
        ValueError: if ``mask`` does not broadcast to the scores.

    Example:
        >>> scores = torch.tensor([[0.0, 0.0, 5.0], [1.0, 2.0, 3.0]])
        >>> mask = torch.tensor([[True, True, False], [False, False, False]])
        >>> masked_softmax(scores, mask).tolist()
        [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]

    Source:
        Vaswani et al. (2017), section 3.2.3: "setting to minus infinity" before the softmax.
    """
    check_float_tensor("scores", scores)
    if mask is not None:
        check_mask(mask, shape_of(scores), scores.device, more_axes=True)
    return _masked_softmax(scores, mask, overwrite=False)


def _masked_softmax(
    scores: Tensor, mask: Tensor | None = None, *, is_causal: bool = False, overwrite: bool = True
) -> Tensor:
    """Compute :func:`masked_softmax`. With ``overwrite`` the scores are for this one use, and may be written over."""
    dtype, scores = scores.dtype, _widen(scores)
    mask, empty = _prepare_mask(mask, scores.shape, scores, is_causal=is_causal)
    if mask is not None:
        scores = _hide(scores, mask, in_place=overwrite and empty is None)
    weights = torch.softmax(scores, dim=-1)
    if empty is not None:
        weights = weights.masked_fill(empty, 0.0)
    return _narrow(weights, dtype)


def _hide(scores: Tensor, mask: Tensor, *, in_place: bool) -> Tensor:
    """Put minus infinity where a boolean mask is False, or add a float mask.

    Where it may, it writes into the scores themselves: a copy of them would take as long as the softmax.
    """
    in_place = in_place and broadcasts_to(mask.shape, scores.shape)
    if mask.dtype != torch.bool:
        scores = scores.add_(mask) if in_place else scores.add(mask)
        if _is_seen(~scores.detach().sum().isnan()):
            return scores
        return scores.masked_fill(mask == -torch.inf, -torch.inf)  # a NaN there stayed NaN
    closed = ~mask
    if not in_place:
        return scores.masked_fill(closed, -torch.inf)
    if scores.is_cpu and scores.numel() > max(MANY_SCORES, 4 * mask.numel()):
        scores = scores.add_(torch.zeros(mask.shape, dtype=scores.dtype).masked_fill_(closed, -torch.inf))
        if _is_seen(~scores.detach().amax().isnan()):
            return scores
    return scores.masked_fill_(closed, -torch.inf)  # it also hides NaN, which stays NaN whatever is added


def _prepare_mask(
    mask: Tensor | None, shape: tuple[int, ...], like: Tensor, *, is_causal: bool, open_empty: bool = True
) -> tuple[Tensor | None, Tensor | None]:
    """Make one mask for scores of a shape (..., m, n), with the dtype and on the device of the tensor it is ``like``.

    Returns it with its empty rows opened, and those rows, as :func:`_open_empty_rows` does; ``None`` for no mask.
    Without ``open_empty`` they stay as they are, for a kernel that gives zeros there.
    """
    has_open = False  # is every query seen to have an open key? A look at the first, open as a rule, is quick
    if mask is not None:
        mask = _cast(mask, like.dtype)
        if open_empty and mask.dtype == torch.bool and mask.dim() and mask.numel():
            has_open = _is_seen(mask.select(-1, 0).all())
    if is_causal and shape[-2] != 1:  # a single query is the newest: it sees every key
        m, n = shape[-2:]
        past = torch.ones(m, n, dtype=torch.bool, device=like.device).tril(n - m)  # `causal_mask`, not checked again
        if not torch.compiler.is_compiling():  # (what is compiled takes any m and n)
            has_open = (has_open or mask is None) and m <= n  # every query sees the first key
        mask = past if mask is None else join(mask, past)
    return (mask, None) if mask is None or has_open or not open_empty else _open_empty_rows(mask)


def _cast(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Give a float mask the dtype of the scores. What was finite stays so: float16 makes minus infinity of -1e9."""
    if mask.dtype in (torch.bool, dtype):
        return mask
    limit = min(torch.finfo(dtype).max, torch.finfo(mask.dtype).max)
    return torch.where(mask.isinf(), mask, mask.clamp(-limit, limit)).to(dtype)


def _open_empty_rows(mask: Tensor) -> tuple[Tensor, Tensor | None]:
    """Find the rows in which no key is open, and open them, so that a softmax over them stays finite.

    Returns the mask with those rows opened, and ``empty`` (..., m or 1, 1), True for them. The caller sets their
    results to zero, which also stops their gradients. ``empty`` is ``None`` where there is no such row.
    """
    is_bool = mask.dtype == torch.bool
    some_open = (mask if is_bool else mask != -torch.inf).any(dim=-1, keepdim=True)
    if _is_seen(some_open.all()):
        return mask, None
    empty = ~some_open
    return mask | empty if is_bool else mask.masked_fill(empty, 0.0), empty


def _is_seen(fact: Tensor) -> bool:
    """Say whether a fact is seen to hold. One looks where that costs nothing: not on a GPU, nor while torch records."""
    if not fact.is_cpu or torch.compiler.is_compiling() or torch._C._is_tracing():
        return False
    try:
        return bool(fact)
    except RuntimeError:  # `torch.func.vmap` holds many facts at once, a fake tensor none
        return False


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Average the values, weighted by how well each key matches the query.

    .. math:: \operatorname{Attention}(Q, K, V) = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V

    Args:
        query: Q, (..., m, d_k).
        key: K, (..., n, d_k).
        value: V, (..., n, d_v). The leading axes of the three broadcast.
        mask: boolean, True = may attend, or float, added to the scaled scores; broadcasts to (..., m, n).
        is_causal: also apply :func:`~attention_tutorial.masks.causal_mask` (lower right), joined to ``mask`` by AND.
        scale: factor on the scores; 1/sqrt(d_k) when left out.

    Returns:
        ``(output, weights)``: output (..., m, d_v) and weights (..., m, n), where n keys share each row's sum of 1. A
        row with nothing to attend to gives zero weights, zero output and finite gradients. Half precision is computed
        in float32 and returned in the dtype of the query.

    Raises:
        TypeError: if an input is not a float tensor, or dtypes differ.
        ValueError: if shapes or devices do not fit together.

    Example:
        >>> query = torch.tensor([[1.0, 0.0, 1.0]])
        >>> key = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
        >>> value = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> output, weights = scaled_dot_product_attention(query, key, value)
        >>> [round(w, 3) for w in weights[0].tolist()], [round(o, 3) for o in output[0].tolist()]
        ([0.264, 0.264, 0.471], [3.413, 4.413])

    Source:
        Vaswani et al. (2017), equation (1).
    """
    check_attention_inputs(query, key, value, mask)
    check_flag("is_causal", is_causal)
    scale = check_scale(scale)
    return _scaled_dot_product_attention(query, key, value, mask, is_causal=is_causal, scale=scale)


def _scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, is_causal: bool, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Compute :func:`scaled_dot_product_attention`."""
    dtype = query.dtype
    query, key, value = _widen(query), _widen(key), _widen(value)
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = (query * scale) @ key.transpose(-2, -1)  # (..., m, n)
    weights = _masked_softmax(scores, mask, is_causal=is_causal)  # (..., m, n)
    output = weights @ value  # (..., m, d_v)
    return _narrow(output, dtype), _narrow(weights, dtype)


def _widen(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in HALF_PRECISION else tensor


def _narrow(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if dtype in HALF_PRECISION else tensor


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    r"""Compute the output of :func:`scaled_dot_product_attention` by torch's fused kernels, without the weights.

    The fused kernels take four axes, (batch, heads, positions, features), and never store the m x n weights; torch
    treats other inputs step by step. With ``is_causal`` and as many queries as keys (or one query) not even a mask of
    m x n is made, without a mask or with a boolean one that hides whole keys, such as
    :func:`~attention_tutorial.masks.padding_mask` makes; with any other shape or mask it is. (Up to 512 keys these two
    are joined, which is quicker, and so they are with a scale of one's own and while torch compiles.)

    Args:
        query: Q, (..., m, d_k).
        key: K, (..., n, d_k).
        value: V, (..., n, d_v).
        mask: as in :func:`scaled_dot_product_attention`.
        is_causal: as in :func:`scaled_dot_product_attention`; lower right, also where torch's own flag is upper left.
        scale: factor on the scores; 1/sqrt(d_k) when left out.

    Returns:
        The output (..., m, d_v); zero in rows with nothing to attend to, on every backend. Queries, keys and values are
        to be finite, also where a mask closes them, and so are open scores: to NaN the fused kernels add minus
        infinity, which stays NaN. Elsewhere than on a processor, beyond 512 keys under a causal and a padding mask,
        scores before scaling are to stay below 1e8 in float16. Torch's kernels for processors can be differentiated
        once; derivatives in forward mode (``jvp``) are those of the step-by-step attention, with its memory.

    Raises:
        TypeError: as :func:`scaled_dot_product_attention`.
        ValueError: as :func:`scaled_dot_product_attention`.

    Example:
        >>> x = torch.ones(1, 4, 2)
        >>> fused_attention(x, x, x, is_causal=True).shape
        torch.Size([1, 4, 2])

    Source:
        Dao et al. (2022), arXiv:2205.14135; ``torch.nn.functional.scaled_dot_product_attention``.
    """
    check_attention_inputs(query, key, value, mask)
    check_flag("is_causal", is_causal)
    scale = check_scale(scale)
    if mask is not None:
        mask = mask[(None,) * (2 - mask.dim())]  # at least (m or 1, n or 1)
    others = [x.shape[:-2] for x in (key, value, mask) if x is not None]
    if any(leading != query.shape[:-2] for leading in others):  # torch's kernels stretch no query to a mask's axes
        query = query.expand(*torch.broadcast_shapes(query.shape[:-2], *others), *query.shape[-2:])
    if autocast_casts(query, key, value):  # as torch would, but before the mask gets their dtype
        query, key, value = (x.to(torch.get_autocast_dtype(x.device.type)) for x in (query, key, value))
    return _fused_attention(query, key, value, mask, is_causal=is_causal, scale=scale)


def _fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, is_causal: bool, scale: float | None = None
) -> Tensor:
    """Compute :func:`fused_attention` with a mask whose leading axes the query has, too."""
    if forward_ad._current_level >= 0:  # torch's kernels have no derivative in forward mode
        return _scaled_dot_product_attention(query, key, value, mask, is_causal=is_causal, scale=scale)[0]
    if is_causal and query.size(-2) == key.size(-2):
        if mask is None:
            return F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
        if scale is None and _is_long_and_hides_whole_keys(mask, key) and _has_small_scores(query, key):
            return _causal_without_some_keys(query, key, value, mask)
    shape = (query.size(-2), key.size(-2))
    open_empty = not query.is_cpu or torch.compiler.is_compiling()  # on a CPU torch's kernels give zeros themselves
    mask, empty = _prepare_mask(mask, shape, query, is_causal=is_causal, open_empty=open_empty)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    return output if empty is None else output.masked_fill(empty, 0.0)


def _is_long_and_hides_whole_keys(mask: Tensor, key: Tensor) -> bool:
    """Say whether a mask (..., 1, n) is to be told to the keys. With few of them an n x n mask is quicker."""
    if torch.compiler.is_compiling() or key.size(-2) <= MANY_KEYS:  # (what is compiled takes any n)
        return False
    return mask.dtype == torch.bool and mask.dim() >= 2 and mask.size(-2) == 1 and mask.size(-1) > 1


def _hiding(dtype: torch.dtype) -> float:
    """Return a number whose square, taken from a score, hides its key."""
    return 3e4 if dtype == torch.float16 else torch.finfo(dtype).max ** 0.5 / 8


def _has_small_scores(query: Tensor, key: Tensor) -> bool:
    """Say whether every score is small beside what hides a key; elsewhere than on a processor it is taken to be so."""
    if not query.is_cpu:
        return True
    largest = [torch.linalg.vector_norm(x.detach(), torch.inf).double() for x in (query, key)]
    return _is_seen(query.size(-1) * largest[0] * largest[1] < _hiding(key.dtype) ** 2 / 8)


def _causal_without_some_keys(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Compute causal attention under a boolean mask (..., 1, n) without a mask of n x n.

    Torch's kernels take ``is_causal`` or a mask. So the mask becomes one more feature: of size c in a query, -c in a
    hidden key and 0 in an open one. That takes c * c from each score of a hidden key, to which no other score may come
    near. A query whose keys are all hidden has 0 there, too, so that its softmax stays finite.
    """
    d_k, d_v, dtype = query.size(-1), value.size(-1), key.dtype
    c = _hiding(dtype)
    width = 1 if key.is_cpu else 8  # on a GPU the kernels take features by the eight
    leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    some_open = (mask.cumsum(dim=-1) > 0).mT  # (..., n, 1), among the keys up to each query
    asks = some_open.to(dtype).mul(c)  # (..., n, 1)
    hidden = (~mask).to(dtype).mul(-c).mT  # (..., n, 1)
    query = torch.cat([query.expand(*leading, -1, -1), asks.expand(*leading, -1, width)], dim=-1)
    key = torch.cat([key.expand(*leading, -1, -1), hidden.expand(*leading, -1, width)], dim=-1)
    value = F.pad(value, (0, width)) if d_v == d_k else value  # (only equal widths have a fused kernel)
    output = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=1.0 / math.sqrt(d_k))
    return output[..., :d_v].masked_fill(~some_open, 0.0)


def dot_product_scores(query: Tensor, key: Tensor) -> Tensor:
    r"""Score every query against every key by their dot product.

    .. math:: s_{ij} = q_i^\top k_j, \qquad S = Q K^\top

    Args:
        query: (..., m, d_k).
        key: (..., n, d_k).

    Returns:
        Scores (..., m, n).

    Raises:
        TypeError: if an input is not a float tensor, or dtypes differ.
        ValueError: if the numbers of features differ.

    Example:
        >>> dot_product_scores(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]])).tolist()
        [[11.0, 2.0]]

    Source:
        Luong et al. (2015), equation (8), "dot".
    """
    check_pair(query, key)
    return query @ key.transpose(-2, -1)


def general_scores(query: Tensor, key: Tensor, w: Tensor) -> Tensor:
    r"""Score every query against every key through a learned matrix.

    .. math:: s_{ij} = q_i^\top W k_j, \qquad S = Q W K^\top

    Args:
        query: (..., m, d_q).
        key: (..., n, d_k); ``d_q`` and ``d_k`` may differ.
        w: W, (d_q, d_k).

    Returns:
        Scores (..., m, n).

    Raises:
        TypeError: if an input is not a float tensor, or dtypes differ.
        ValueError: if ``w`` is not (d_q, d_k).

    Example:
        >>> w = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # swaps the two features
        >>> general_scores(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), w).tolist()
        [[10.0]]

    Source:
        Luong et al. (2015), equation (8), "general".
    """
    check_pair(query, key, same_features=False)
    check_parameter("w", w, (query.size(-1), key.size(-1)), "(d_q, d_k)", query=query)
    return query @ w @ key.transpose(-2, -1)


def multiplicative_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, w: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""Attend with Luong's multiplicative scores, which are not scaled.

    .. math:: s_{ij} = q_i^\top k_j \;\text{("dot")} \quad\text{or}\quad q_i^\top W k_j \;\text{("general")}

    Args:
        query: (..., m, d_q).
        key: (..., n, d_k).
        value: (..., n, d_v).
        mask: boolean, True = may attend, or float, added to the scores; broadcasts to (..., m, n).
        w: W, (d_q, d_k), for "general"; ``None`` for "dot", which needs d_q = d_k.

    Returns:
        ``(output, weights)``: (..., m, d_v) and (..., m, n).

    Raises:
        TypeError: if an input is not a float tensor, or dtypes differ.
        ValueError: if shapes do not fit together.

    Example:
        >>> one_hot = torch.eye(2)
        >>> output, weights = multiplicative_attention(100 * one_hot, one_hot, one_hot)
        >>> weights.round().tolist()
        [[1.0, 0.0], [0.0, 1.0]]

    Source:
        Luong et al. (2015), equations (7) and (8).
    """
    check_attention_inputs(query, key, value, mask, same_features=w is None)
    if w is not None:
        check_parameter("w", w, (query.size(-1), key.size(-1)), "(d_q, d_k)", query=query)
    dtype = query.dtype
    query, key, value = _widen(query), _widen(key), _widen(value)
    if w is not None:
        query = query @ _widen(w)  # (..., m, d_k)
    scores = query @ key.transpose(-2, -1)  # (..., m, n)
    weights = _masked_softmax(scores, mask)  # (..., m, n)
    output = weights @ value  # (..., m, d_v)
    return _narrow(output, dtype), _narrow(weights, dtype)


def additive_scores(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, v: Tensor) -> Tensor:
    r"""Score every query against every key by a small feed-forward network.

    .. math:: s_{ij} = v^\top \tanh(W q_i + U k_j)

    Args:
        query: (..., m, d_q).
        key: (..., n, d_k); ``d_q`` and ``d_k`` may differ.
        w_query: W, (d_hidden, d_q).
        w_key: U, (d_hidden, d_k).
        v: (d_hidden,).

    Returns:
        Scores (..., m, n). On the way a tensor (..., m, n, d_hidden) is made: ``d_hidden`` times the memory of a dot
        product's scores.

    Raises:
        TypeError: if an input is not a float tensor, or dtypes differ.
        ValueError: if a parameter has the wrong shape.

    Example:
        >>> one = torch.ones(1, 1)
        >>> additive_scores(one, -one, w_query=one, w_key=one, v=torch.ones(1)).tolist()
        [[0.0]]

    Source:
        Bahdanau et al. (2015), section 3.1 and appendix A.1.2 (their names: v_a, W_a, U_a).
    """
    check_pair(query, key, same_features=False)
    check_float_tensor("v", v)
    if v.dim() != 1:
        raise ValueError(f"v must have one axis (d_hidden,); got shape {shape_of(v)}")
    check_parameter("w_query", w_query, (v.size(0), query.size(-1)), "(d_hidden, d_q)", query=query)
    check_parameter("w_key", w_key, (v.size(0), key.size(-1)), "(d_hidden, d_k)", query=query)
    check_same_kind("query", query, "v", v)
    from_query = F.linear(query, w_query).unsqueeze(-2)  # (..., m, 1, d_hidden)
    from_key = F.linear(key, w_key).unsqueeze(-3)  # (..., 1, n, d_hidden)
    return torch.tanh(from_query + from_key) @ v  # (..., m, n)


def additive_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    w_query: Tensor,
    w_key: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Attend with Bahdanau's additive scores.

    .. math:: c_i = \sum_j a_{ij} v_j, \qquad a_i = \operatorname{softmax}_j\big(v^\top \tanh(W q_i + U k_j)\big)

    Args:
        query: (..., m, d_q); in a recurrent translator, the decoder's states.
        key: (..., n, d_k); there, the encoder's states.
        value: (..., n, d_v); there, the encoder's states again.
        w_query: W, (d_hidden, d_q).
        w_key: U, (d_hidden, d_k).
        v: (d_hidden,).
        mask: boolean, True = may attend, or float, added to the scores; broadcasts to (..., m, n).

    Returns:
        ``(output, weights)``: (..., m, d_v) and (..., m, n).

    Raises:
        TypeError: if an input is not a float tensor, or dtypes differ.
        ValueError: if shapes do not fit together.

    Example:
        >>> query, key, value = torch.zeros(2, 5), torch.zeros(3, 4), torch.ones(3, 7)
        >>> output, weights = additive_attention(query, key, value, torch.ones(6, 5), torch.ones(6, 4), torch.ones(6))
        >>> output.shape, weights.shape
        (torch.Size([2, 7]), torch.Size([2, 3]))

    Source:
        Bahdanau et al. (2015), equations (5) and (6).
    """
    check_attention_inputs(query, key, value, mask, same_features=False)
    scores = additive_scores(query, key, w_query, w_key, v)  # (..., m, n)
    weights = _masked_softmax(scores, mask)  # (..., m, n)
    output = weights @ value  # (..., m, d_v)
    return output, weights
