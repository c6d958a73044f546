"""What a wrong result shows when it is compared with the right one, whatever the exercise."""

import math

import torch
from torch import Tensor

from .parse import is_plural, same

__all__ = ["explain"]


def explain(got: Tensor, expected: Tensor, name: str, tolerance: float = 1e-5) -> str | None:
    """Say how a result differs from the right one, if there is a simple word for it.

    Args:
        got: the result, float64 or bool.
        expected: the right one.
        name: such as "weights".
        tolerance: how far two equal numbers may be apart.

    Returns:
        That it is rounded, that its rows do not sum to 1, that all of it is multiplied by one factor, or turned; None
        if it is none of these.
    """
    if got.shape != expected.shape or got.numel() == 0 or not (got.isfinite().all() and expected.isfinite().all()):
        return None
    your = f"your {name}"
    your_are = f"{your} {'are' if is_plural(name) else 'is'}"
    if got.dtype == torch.bool:
        return f"{your_are} the opposite everywhere: True and False are swapped" if got.equal(~expected) else None
    inexact = explain_rounding(got, expected, tolerance)
    if inexact:
        return f"{your_are} {inexact}"
    if _are_weights(expected):
        return _explain_sums(got, expected) or _explain_scores(got, expected, your_are)
    if got.numel() == 1:
        return None  # any number is a multiple of another
    factor = multiple(got, expected)
    if factor is not None:
        return f"{your_are} {factor:.3g} times what is right"
    if expected.dim() >= 2 and expected.size(-1) == expected.size(-2) and same(got, expected.mT):
        return f"{your_are} transposed: rows and columns are swapped"
    off = (got - expected).flatten()[0]
    return f"{your_are} off by {off:.4g} everywhere" if same(got, expected + off) else None


def first_wrong_place(got: Tensor, expected: Tensor, name: str, tolerance: float = 1e-5) -> str | None:
    """Say how many entries are wrong, and what the first holds; None of one number, or of another shape."""
    if got.shape != expected.shape or got.dim() == 0:
        return None
    if got.dtype == torch.bool:
        wrong = got != expected
    else:
        wrong = ~torch.isclose(got, expected.double(), rtol=1e-5, atol=tolerance)
    at = tuple(wrong.nonzero()[0].tolist())
    count = (
        f"{int(wrong.sum())} of the {got.numel()} entries of your {name} {'is' if wrong.sum() == 1 else 'are'} wrong"
    )
    place = at[0] if len(at) == 1 else at
    return f"{count}; at {place}, counted from 0, yours has {_show(got[at])}; expected {_show(expected[at])}"


def _show(x: Tensor) -> str:
    return str(bool(x)) if x.dtype == torch.bool else f"{x.item():.4g}"


def explain_rounding(got: Tensor, expected: Tensor, tolerance: float = 1e-5) -> str | None:
    """Say that the numbers given are the right ones, but rounded or otherwise inexact; None if they are not.

    Counts, which are whole, are never right but inexact.
    """
    got, expected = got.detach().double(), expected.detach().double()
    if got.shape != expected.shape or same(got, expected, tolerance) or got.numel() == 0 or _whole(expected):
        return None
    off, largest = (got - expected).abs().max(), expected.abs().max()
    for decimals in range(5):
        half = 0.51 * 10**-decimals  # the most that rounding changes; less than the numbers themselves
        if off < half < 0.5 * largest and (got - got.round(decimals=decimals)).abs().max() < 1e-6:
            places = f"{decimals} decimal{'' if decimals == 1 else 's'}" if decimals else "a whole number"
            return f"right, but rounded to {places}; compute with all digits and round only what is shown"
    if off < 5e-3 * largest:
        return f"nearly right, but off by up to {off:.1g}, more than rounding in float32 explains; keep full precision"
    return None


def explain_missing_decimals(got: Tensor, expected: Tensor, tolerance: float) -> str | None:
    """Say that the numbers given are the right ones with fewer decimals than asked for, or cut off; None if not."""
    if got.shape != expected.shape or _whole(expected):
        return None
    most, off = math.ceil(-math.log10(2 * tolerance)), (expected - got) * expected.sign()
    fits = off.abs() <= tolerance
    for step, rounded in ((10.0**-n, got.round(decimals=n)) for n in range(most + 1)):
        known = (got == rounded) & (got * expected > 0) & (expected.abs() >= step)
        fits |= known & (off > -0.5 * step - 1e-9) & (off < step - 1e-9)
    return f"right so far; give {most} decimals, rounded" if fits.all() else None


def _whole(x: Tensor) -> bool:
    return bool((x == x.round()).all())


def multiple(got: Tensor, other: Tensor) -> float | None:
    """Find c such that got = c * other; None if no c does it."""
    c = (got * other).sum() / other.square().sum()
    return c.item() if c != 0 and same(got, c * other) else None


# ---- Where each row of the right result sums to 1 -------------------------------------------------------------------


def _are_weights(x: Tensor) -> bool:
    """Whether rows are weights; some may be all zeros, where no key is allowed."""
    sums = x.sum(-1) if x.dim() else x
    rows = sums > 0
    return x.dim() > 0 and x.size(-1) > 1 and bool((x >= 0).all() and rows.any()) and _are_one(sums[rows])


def _are_one(sums: Tensor) -> bool:
    return same(sums, torch.ones_like(sums))


def _explain_sums(got: Tensor, expected: Tensor) -> str | None:
    """Say that rows do not sum to 1, and along which axis they do."""
    sums = got.sum(-1)[expected.sum(-1) > 0]
    if _are_one(sums):
        return None
    for axis in range(got.dim() - 1):
        if got.size(axis) > 1 and _are_one(got.sum(axis)):
            along = "your columns do" if axis == got.dim() - 2 else f"yours do along axis {axis}"
            return f"each row must sum to 1; {along}: the softmax runs over the wrong axis"
    low, high = (f"{x:.3g}" for x in sums.aminmax())
    return f"each row must sum to 1; yours sum to {low if low == high else f'between {low} and {high}'}"


def _explain_scores(got: Tensor, expected: Tensor, your_are: str) -> str | None:
    """Say how the scores behind weights differ, if by one factor: ln w = c s + a constant of the row."""
    if same(got, torch.full_like(got, 1 / got.size(-1))):
        return f"{your_are} all equal; they must come from the scores"
    allowed = expected > 0
    if not (got > 0).equal(allowed):
        return None

    def scores(weights: Tensor) -> Tensor:
        logs = weights.masked_fill(~allowed, 1.0).log()
        mean = logs.sum(-1, keepdim=True) / allowed.sum(-1, keepdim=True).clamp(min=1)
        return (logs - mean).masked_fill(~allowed, 0.0)

    factor = multiple(scores(got), scores(expected))
    if factor is None:
        return None
    if factor < 0:
        return "the sign of your scores is turned around: the key that matches least gets the most weight"
    how = "sharper" if factor > 1 else "flatter"
    return f"{your_are} {how} than they should be: your scores are {factor:.3g} times what is right"
