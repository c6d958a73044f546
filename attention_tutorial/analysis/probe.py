"""A linear probe: how well a linear map can read a label from features."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .._validation import check_float_tensor, check_ids, check_positive, check_size, shape_of

__all__ = ["linear_probe"]


@torch.no_grad()
def linear_probe(features: Tensor, labels: Tensor, *, num_train: int, penalty: float = 1e-3) -> float:
    r"""Measure how well a linear map can read a label from features.

    A linear map from features to labels (one-hot) is fitted to the first ``num_train`` examples by ridge regression,
    in float64, and scored on the others. It has a closed form, so there is nothing to tune:

    .. math:: B = (X^\top X + \lambda N I)^{-1} X^\top Y

    Args:
        features: (examples, d); a column of ones is added for the offset.
        labels: class ids (examples,).
        num_train: number of examples N to fit; the rest are for the score.
        penalty: lambda.

    Returns:
        The share of held-out examples whose label comes out right.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if the shapes do not fit, or no example is left for the score.

    Example:
        >>> corners = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(4, 1)
        >>> linear_probe(corners, torch.tensor([0, 1]).repeat(4), num_train=6)
        1.0

    Source:
        Alain & Bengio (2016).
    """
    check_float_tensor("features", features)
    check_size("num_train", num_train, minimum=1)
    check_positive(penalty=penalty)
    check_ids("labels", labels, "class ids")
    if features.dim() != 2 or labels.shape != features.shape[:1]:
        raise ValueError("features must be (examples, d) and labels (examples,); "
                         f"got features {shape_of(features)}, labels {shape_of(labels)}")  # fmt: skip
    if num_train >= features.size(0):
        raise ValueError(f"num_train must leave examples for the score; got {num_train} of {features.size(0)}")
    x = F.pad(features.cpu().double(), (0, 1), value=1.0)  # (examples, d + 1)
    labels = labels.cpu()
    y = F.one_hot(labels).double()[:num_train]
    fit, rest = x[:num_train], x[num_train:]
    gram = fit.T @ fit + penalty * num_train * torch.eye(x.size(1), dtype=x.dtype)
    guesses = (rest @ torch.linalg.solve(gram, fit.T @ y)).argmax(dim=1)
    return (guesses == labels[num_train:]).double().mean().item()
