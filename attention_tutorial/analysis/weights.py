"""Measure attention weights: how spread out they are, how they answer to the scores, how far two tensors differ."""

import torch
from torch import Tensor

from .._validation import check_float_tensor

__all__ = ["entropy", "jacobian_norm", "largest_difference", "softmax_jacobian"]


def largest_difference(a: Tensor, b: Tensor) -> float:
    r"""Return the largest difference between two tensors of one shape.

    .. math:: \max_i |a_i - b_i|

    Args:
        a: one tensor.
        b: the other.

    Returns:
        The largest absolute difference.

    Raises:
        ValueError: if the shapes differ, which broadcasting would hide.

    Example:
        >>> largest_difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
        0.5
    """
    if a.shape != b.shape:
        raise ValueError(f"a and b must have the same shape; got {tuple(a.shape)} and {tuple(b.shape)}")
    return (a - b).abs().max().item()


def entropy(weights: Tensor) -> Tensor:
    r"""Measure how spread out each row of weights is, in nats.

    .. math:: H(a) = -\sum_j a_j \ln a_j, \qquad 0 \ln 0 = 0

    Args:
        weights: (..., n), not negative; each row sums to 1.

    Returns:
        The entropies (...): 0 where one weight is 1, ln n where all n are equal.

    Raises:
        TypeError: if ``weights`` is not a float tensor.

    Example:
        >>> spread_out, one_hot = [0.25, 0.25, 0.25, 0.25], [0.0, 1.0, 0.0, 0.0]
        >>> [round(h, 4) for h in entropy(torch.tensor([spread_out, one_hot])).tolist()]  # ln 4 and 0
        [1.3863, 0.0]
    """
    check_float_tensor("weights", weights)
    return torch.special.entr(weights).sum(dim=-1)


def softmax_jacobian(weights: Tensor) -> Tensor:
    r"""Return the derivatives of the weights by the scores they are the softmax of.

    .. math:: J_{jl} = \frac{\partial a_j}{\partial s_l} = a_j \delta_{jl} - a_j a_l,
        \qquad J = \operatorname{diag}(a) - a\, a^\top

    Args:
        weights: a, (..., n), the softmax of some scores.

    Returns:
        J, (..., n, n): symmetric, each row with sum 0.

    Raises:
        TypeError: if ``weights`` is not a float tensor.

    Example:
        >>> softmax_jacobian(torch.tensor([0.5, 0.5])).tolist()
        [[0.25, -0.25], [-0.25, 0.25]]
    """
    check_float_tensor("weights", weights)
    return torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]


def jacobian_norm(weights: Tensor) -> Tensor:
    r"""Return the largest factor by which the softmax's Jacobian stretches a vector, its operator norm.

    .. math:: \lVert J \rVert = \max_{x \ne 0} \frac{\lVert J x \rVert}{\lVert x \rVert}

    Since J is symmetric and :math:`x^\top J x` never negative, this is its largest eigenvalue.

    Args:
        weights: a, (..., n), the softmax of some scores.

    Returns:
        The norms (...), from 0, where one weight is 1, to 1/2, where two are 1/2.

    Raises:
        TypeError: if ``weights`` is not a float tensor.

    Example:
        >>> [round(norm, 2) for norm in jacobian_norm(torch.tensor([[0.5, 0.5], [0.9, 0.1]])).tolist()]
        [0.5, 0.18]
    """
    return torch.linalg.eigvalsh(softmax_jacobian(weights))[..., -1]
