"""Reading two mistakes off one result: what a known slip gives, and what was done besides."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from .reading import factor_on_scores, sums_to_one
from .results import close, multiple

__all__ = ["besides", "both_masks"]


def besides(got: Tensor, wrong: Tensor) -> str | None:
    """Say what was done besides, to get a result where a slip gives another.

    Args:
        got: the result.
        wrong: what the slip gives.

    Returns:
        The words; None if nothing simple leads from the one to the other.
    """
    if got.shape != wrong.shape or got.numel() < 3:
        return None
    if torch.bool in (got.dtype, wrong.dtype):
        return "allowed and masked are swapped" if got.dtype == wrong.dtype and got.equal(~wrong) else None
    wrong = wrong.double()
    if close(got, wrong):
        return None  # nothing was
    if bool((wrong - wrong.flatten()[0]).abs().max() < 1e-5):
        return None  # any two constants are multiples of each other
    factor = multiple(got, wrong)
    if factor is not None:
        return f"all of it is multiplied by {factor:.3g}"
    if close(got, 1 - wrong):
        return "it is 1 minus that"
    if got.dim() < 2 or not bool((got > 0).all() and (wrong > 0).all()):
        return None
    factor = factor_on_scores(got, wrong)
    if factor is not None and sums_to_one(wrong, -1):
        return f"the scores are multiplied by {factor:.3g}" if sums_to_one(got, -1) else "the rows do not sum to 1"
    return _down_the_columns(got, wrong) if got.size(-1) > 1 and got.size(-2) > 1 else None


def _down_the_columns(got: Tensor, wrong: Tensor) -> str | None:
    """Compare scores without what a softmax along any axis takes off them."""
    if not sums_to_one(got, -2):
        return None
    first, other = (x.log() for x in (got, wrong))
    first, other = (
        x - x.mean(-1, keepdim=True) - x.mean(-2, keepdim=True) + x.mean((-1, -2), True) for x in (first, other)
    )
    return "the softmax runs down the columns" if multiple(first, other) is not None else None


def both_masks(got: Tensor, right: Tensor, wrongs: Sequence[Tensor]) -> tuple[int, int] | None:
    """Find two slips that together explain a mask.

    Args:
        got: the mask.
        right: the right one.
        wrongs: what the slips give.

    Returns:
        The places of the two among the slips: every entry that is wrong is wrong in one of them, and no other. None if
        no two do that.
    """
    for (i, first), (j, other) in itertools.combinations(enumerate(wrongs), 2):
        if got.equal(right ^ ((first ^ right) | (other ^ right))):
            return i, j
    return None
