"""Attention as pure functions of tensors.

Axes are named the same everywhere: ``m`` queries, ``n`` keys (and as many values), ``d_k`` features of a query and a
key, ``d_v`` features of a value; ``...`` stands for any leading axes, such as batch and heads. Every attention
returns ``(output, weights)``: the output (..., m, d_v) and the weights (..., m, n), whose rows sum to 1.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ._validation import (
    HALF_PRECISION,
    autocast_casts,
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
from .masks import allowed_keys, cast_mask, with_causal_mask

__all__ = [
    "additive_attention",
    "additive_scores",
    "fused_attention",
    "masked_softmax",
    "multiplicative_attention",
    "scaled_dot_product_attention",
]


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    r"""Turn each row of scores into weights over the keys that the mask allows.

    .. math:: a_{ij} = \frac{\exp s_{ij}}{\sum_{l \text{ allowed}} \exp s_{il}}
        \text{ for allowed } j, \quad 0 \text{ otherwise}

    The sum runs over the last axis. A row without an allowed key gets zero weights and zero gradients, not NaN.

    Args:
        scores: (..., m, n).
        mask: boolean, True = may attend, or float, added to the scores; broadcasts to (..., m, n), where it may bring
            leading axes of its own.

    Returns:
        Weights (..., m, n), in the dtype of the scores. Each row sums to 1, or to 0 if it has no allowed key.

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
    return torch.softmax(scores, dim=-1) if mask is None else _masked_softmax(scores, mask)[0]


def _masked_softmax(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Compute :func:`masked_softmax` of a mask that has been checked, and say which of its rows are empty."""
    dtype, scores = scores.dtype, upcast(scores)
    allowed, is_empty = allowed_keys(mask)
    if mask.is_floating_point():
        scores = scores + cast_mask(mask, scores.dtype).masked_fill(~allowed, 0.0)
    scores = torch.where(allowed | is_empty, scores, -torch.inf)  # empty rows stay as they are: no NaN
    return downcast(torch.where(is_empty, 0.0, torch.softmax(scores, dim=-1)), dtype), is_empty


def upcast(tensor: Tensor) -> Tensor:
    """Compute in float32 what comes in half precision."""
    return tensor.float() if tensor.dtype in HALF_PRECISION else tensor


def downcast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a result in the half precision in which the input came."""
    return tensor.to(dtype) if dtype in HALF_PRECISION else tensor


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
    return unchecked_attention(query, key, value, mask, is_causal=is_causal, scale=check_scale(scale))


def unchecked_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, is_causal: bool, scale: float | None
) -> tuple[Tensor, Tensor]:
    """Compute :func:`scaled_dot_product_attention` of arguments that have been checked."""
    if is_causal:
        mask = with_causal_mask(mask, query.size(-2), key.size(-2), query.device)
    dtype = query.dtype
    query, key, value = upcast(query), upcast(key), upcast(value)
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = (query * scale) @ key.transpose(-2, -1)  # (..., m, n)
    output, weights = _average(scores, value, mask)  # (..., m, d_v), (..., m, n)
    return downcast(output, dtype), downcast(weights, dtype)


def _average(scores: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the average of the values and its weights; in rows without an allowed key both are zero."""
    if mask is None:
        weights = torch.softmax(scores, dim=-1)  # (..., m, n)
        return weights @ value, weights
    weights, is_empty = _masked_softmax(scores, mask)
    output = weights @ value  # (..., m, d_v)
    return torch.where(is_empty, 0.0, output), weights  # 0 times NaN would be NaN


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

    The kernels take four axes, (batch, heads, positions, features), and never store the m x n weights; torch treats
    other inputs step by step, on a GPU also some whose d_k or d_v is no multiple of 8. They take one mask, of m x n,
    or none: with ``is_causal`` alone and as many queries as keys not even that is made.

    Args:
        query: Q, (..., m, d_k).
        key: K, (..., n, d_k).
        value: V, (..., n, d_v).
        mask: as in :func:`scaled_dot_product_attention`.
        is_causal: as in :func:`scaled_dot_product_attention`; lower right, also where torch's own flag is upper left.
        scale: factor on the scores; 1/sqrt(d_k) when left out.

    Returns:
        The output (..., m, d_v); zero in rows with nothing to attend to. Queries, keys and values are to be finite,
        also where a mask hides them. Torch's kernels for processors can be differentiated once, backwards.

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
    return unchecked_fused_attention(query, key, value, mask, is_causal=is_causal, scale=check_scale(scale))


def unchecked_fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, is_causal: bool, scale: float | None
) -> Tensor:
    """Compute :func:`fused_attention` of arguments that have been checked."""
    if autocast_casts(query, key, value):  # as torch would, but before the mask gets their dtype
        query, key, value = (x.to(torch.get_autocast_dtype(x.device.type)) for x in (query, key, value))
    leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query = query.expand(*leading, *query.shape[-2:])  # the kernels stretch keys and values alone
    if mask is None and (not is_causal or query.size(-2) == key.size(-2)):
        return F.scaled_dot_product_attention(query, key, value, is_causal=is_causal, scale=scale)
    if is_causal:
        mask = with_causal_mask(mask, query.size(-2), key.size(-2), query.device)
    return _with_mask(query, key, value, torch.atleast_2d(mask), scale)


def _with_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float | None) -> Tensor:
    """Call torch's kernels with rows that have no allowed key unmasked, so that nothing is NaN; zero their results."""
    _, is_empty = allowed_keys(mask)
    is_bool = mask.dtype == torch.bool
    mask = mask | is_empty if is_bool else torch.where(is_empty, 0.0, cast_mask(mask, query.dtype))
    return torch.where(is_empty, 0.0, F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale))


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
    dtype = query.dtype
    if w is not None:
        check_parameter("w", w, (query.size(-1), key.size(-1)), "(d_q, d_k)", query=query)
        query, key, value = upcast(query) @ upcast(w), upcast(key), upcast(value)  # query (..., m, d_k)
    output, weights = unchecked_attention(query, key, value, mask, is_causal=False, scale=1.0)
    return downcast(output, dtype), downcast(weights, dtype)


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
    check_pair(query, key)
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
    query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, v: Tensor, mask: Tensor | None = None
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
    return _average(scores, value, mask)
