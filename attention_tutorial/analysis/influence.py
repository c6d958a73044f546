"""Laws that hold for every attention, whatever its weights, as questions to a model of vectors.

A model takes (..., n, d) and returns (..., m, features). The clinic (5b), the exercises and
:mod:`attention_tutorial.testing` all ask these questions.
"""

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["find_influence", "follows_order"]

Model = Callable[[Tensor], Tensor]


def find_influence(model: Model, x: Tensor, *, tolerance: float = 1e-6) -> Tensor:
    """Find which inputs each output depends on, by changing one input after another.

    Under a mask, this must be the mask: what is masked has no influence, also where it is loud (sections 5.3 and 5.4).

    Args:
        model: from (..., n, d) to (..., m, features).
        x: its input.
        tolerance: changes up to here are rounding.

    Returns:
        Booleans (..., m, n), where True in row i and column j says: output i changes when input j does.

    Example:
        >>> find_influence(lambda x: x.cumsum(dim=-2), torch.ones(3, 1)).int().tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    before = model(x)
    columns = []
    for j in range(x.size(-2)):
        generator = torch.Generator().manual_seed(j)
        other = torch.randn(x[..., j, :].shape, generator=generator, dtype=torch.float64, device="cpu")
        changed = x.clone()
        changed[..., j, :] = 3.0 * other.to(x)
        columns.append(~((model(changed) - before).abs().amax(dim=-1) <= tolerance))  # NaN is a change
    return torch.stack(columns, dim=-1)


def follows_order(layer: Model, x: Tensor, order: Tensor, *, tolerance: float = 1e-6) -> bool:
    """Say whether shuffled inputs give the same outputs, shuffled: a layer that does not know the order (2.10).

    Args:
        layer: from (..., n, d) to (..., n, features).
        x: its input.
        order: the positions 0 to n - 1 in another order.
        tolerance: how far apart two equal numbers may be.

    Returns:
        Whether it does.

    Example:
        >>> x, order = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 0, 1])
        >>> follows_order(lambda x: x - x.mean(), x, order), follows_order(lambda x: x.cumsum(dim=0), x, order)
        (True, False)
    """
    return torch.allclose(layer(x[..., order, :]), layer(x)[..., order, :], atol=tolerance)
