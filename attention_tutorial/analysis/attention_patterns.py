"""Patterns in attention maps: measures that say whether a head is diagonal, vertical, block or sparse.

A measure takes the weights (batch, heads, n, n) that a model computed, and gives one number from 0 to 1 for each head.
Rows and columns of padding are left out.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .._validation import check_float_tensor, shape_of
from .weights import entropy

__all__ = [
    "HeadPattern",
    "block_share",
    "describe_heads",
    "diagonal_share",
]


def diagonal_share(weights: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    r"""Measure how diagonal heads are: the mean weight on the best fixed offset.

    .. math:: \max_\delta \operatorname{mean}_i\, a_{i,\, i + \delta}

    The mean runs over the real queries whose key ``i + offset`` is real too. Offsets that fewer than half of the
    queries have are not considered.

    Args:
        weights: (batch, heads, n, n).
        real: boolean, (batch, n), False at padding.

    Returns:
        ``(share, offset)``, each (heads,). The offset is j - i: -1 is the position before.

    Raises:
        TypeError: if ``weights`` is not a float tensor, or ``real`` not boolean.
        ValueError: if the shapes do not fit together.

    Example:
        >>> one_back = torch.eye(4).roll(-1, dims=1)[None, None]  # position i looks at i - 1
        >>> share, offset = diagonal_share(one_back, torch.ones(1, 4, dtype=torch.bool))
        >>> share.item(), offset.item()
        (1.0, -1)
    """
    _check_maps(weights, real)
    pairs = real[:, :, None] & real[:, None, :]
    shares, offsets = [], []
    for offset in range(1 - weights.size(-1), weights.size(-1)):
        there = pairs.diagonal(offset, -2, -1)  # (batch, n - |offset|)
        if 2 * there.sum() >= real.sum():
            on_it = weights.diagonal(offset, -2, -1) * there[:, None]
            shares.append(on_it.sum(dim=(0, 2)) / there.sum())
            offsets.append(offset)
    share, best = torch.stack(shares).max(dim=0)
    return share, torch.tensor(offsets, device=best.device)[best]


def block_share(weights: Tensor, group: Tensor, real: Tensor) -> Tensor:
    r"""Measure how much heads gather evenly within groups: the overlap with even weights on the query's own group.

    .. math:: \operatorname{mean}_i \sum_j \min(a_{ij}, e_{ij}), \qquad
        e_{ij} = \frac{1}{\text{size of } i\text{'s group}} \text{ within the group, 0 outside}

    Weight outside the group counts for nothing, and so does weight on one key beyond its even part. A row that looks
    at one key only reaches 1 / size.

    Args:
        weights: (batch, heads, n, n).
        group: the number of each position's group, (batch, n).
        real: boolean, (batch, n), False at padding.

    Returns:
        The overlap, (heads,).

    Raises:
        TypeError: as :func:`diagonal_share`.
        ValueError: as :func:`diagonal_share`.

    Example:
        >>> weights = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])[None, None]
        >>> block_share(weights, torch.tensor([[0, 0, 1]]), torch.ones(1, 3, dtype=torch.bool)).item()
        1.0
    """
    _check_maps(weights, real)
    if group.shape != real.shape:
        raise ValueError(f"group must be (batch, n) like real, {shape_of(real)}; got {shape_of(group)}")
    same = ((group[:, :, None] == group[:, None, :]) & real[:, None, :]).to(weights.dtype)
    even = same / same.sum(dim=-1, keepdim=True).clamp(min=1)
    return _mean_row(torch.minimum(weights, even[:, None]).sum(dim=-1), real)


@dataclass(frozen=True)
class HeadPattern:
    r"""What the measures say about one head.

    Attributes:
        name: "diagonal", "vertical", "block", "sparse" or "mixed".
        diagonal: :func:`diagonal_share`, with its ``offset``.
        vertical: the mean weight on the best fixed ``column``, :math:`\max_j \operatorname{mean}_i a_{ij}`.
        block: :func:`block_share`.
        largest: how sharp the head is, wherever it looks, :math:`\operatorname{mean}_i \max_j a_{ij}`.
        keys: how many keys it looks at in effect, :math:`\operatorname{mean}_i \exp(-\sum_j a_{ij} \ln a_{ij})`: 1
            where all weight lies on one key, k where k keys share it evenly.
    """

    name: str
    diagonal: float
    offset: int
    vertical: float
    column: int
    block: float
    largest: float
    keys: float


def describe_heads(weights: Tensor, group: Tensor, real: Tensor, threshold: float = 0.5) -> list[HeadPattern]:
    """Measure every head, and name it by a rule that is fixed beforehand.

    A head is named after the largest of its diagonal, vertical and block measures, if that reaches the threshold. If
    none does, but the mean largest weight does, the head is sparse: it looks at few keys, at no fixed place. Otherwise
    it is mixed.

    Args:
        weights: (batch, heads, n, n).
        group: the number of each position's group, (batch, n).
        real: boolean, (batch, n), False at padding.
        threshold: the least share that gives a name.

    Returns:
        One :class:`HeadPattern` for each head.

    Raises:
        TypeError: as :func:`diagonal_share`.
        ValueError: as :func:`diagonal_share`.

    Example:
        >>> even = torch.full((1, 1, 4, 4), 0.25)
        >>> real = torch.ones(1, 4, dtype=torch.bool)
        >>> describe_heads(even, torch.tensor([[0, 1, 2, 3]]), real)[0].name
        'mixed'
    """
    diagonal, offset = diagonal_share(weights, real)
    column_means = (weights * real[:, None, :, None]).sum(dim=(0, 2)) / real.sum()  # (heads, n)
    vertical, column = column_means.max(dim=-1)
    largest = _mean_row(weights.amax(dim=-1), real)
    keys = _mean_row(entropy(weights).exp(), real)
    numbers = [diagonal, offset, vertical, column, block_share(weights, group, real), largest, keys]
    heads = []
    for d, o, v, c, b, most, k in zip(*(x.tolist() for x in numbers), strict=True):
        name = max((d, "diagonal"), (v, "vertical"), (b, "block"))[1]
        if max(d, v, b) < threshold:
            name = "sparse" if most >= threshold else "mixed"
        heads.append(HeadPattern(name, d, o, v, c, b, most, k))
    return heads


def _mean_row(values: Tensor, real: Tensor) -> Tensor:
    """Average (batch, heads, n) over the real queries of all examples."""
    return (values * real[:, None]).sum(dim=(0, 2)) / real.sum()


def _check_maps(weights: Tensor, real: Tensor) -> None:
    check_float_tensor("weights", weights)
    if weights.dim() != 4 or weights.size(-1) != weights.size(-2):
        raise ValueError(f"weights must be (batch, heads, n, n); got {shape_of(weights)}")
    if not isinstance(real, Tensor) or real.dtype != torch.bool:
        raise TypeError(f"real must be a boolean tensor; got {getattr(real, 'dtype', type(real).__name__)}")
    if real.shape != (weights.size(0), weights.size(-1)):
        raise ValueError(f"real must be (batch, n) = {(weights.size(0), weights.size(-1))}; got {shape_of(real)}")
    if not real.any():
        raise ValueError("real must have at least one real position; got none")
