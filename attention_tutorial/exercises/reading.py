"""Reading a mistake off attention weights, and off outputs, by the weights they must have come from.

If w = softmax(c s) along a row, then ln w = c s + a constant of the row. So the factor c on the scores can be read
off the weights, whatever it is, and so can the score that a masked key must have had.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..functional import masked_softmax
from ..masks import causal_mask
from .results import close, explain_rounding, name_factor, near, times


def sums_to_one(weights: Tensor, axis: int | tuple[int, ...]) -> bool:
    """Whether all sums of weights along some axes are 1."""
    sums = weights.sum(dim=axis)
    return close(sums, torch.ones_like(sums))


def explain_weights(
    weights: Tensor,
    scores: Tensor,
    *,
    sizes: Mapping[str, int],
    divide_by: str | None = "d_k",
    mask: Tensor | None = None,
) -> str | None:
    """Say how weights differ from the masked softmax of the scaled scores.

    Args:
        weights: (..., m, n), what the answer computed.
        scores: (..., m, n), the raw scores.
        sizes: every size that a learner may have divided by, by its name; best all different primes.
        divide_by: the name of the size whose square root is right; None if the scores must not be scaled.
        mask: (..., m, n), True = may attend. Rows without an allowed key must get zero weights.

    Returns:
        A diagnosis, or None if the weights are right.
    """
    weights = weights.detach().cpu().double()
    right = 1.0 if divide_by is None else sizes[divide_by] ** -0.5
    mask = None if mask is None else mask.expand(scores.shape)
    if close(weights, masked_softmax(scores * right, mask)):
        return None
    return (
        _explain_masked(weights, scores, right, mask)
        or _explain_rounded(weights, masked_softmax(scores * right, mask))
        or _explain_rows(weights, scores, right, sizes)
        or _explain_scale(weights, scores, right, sizes, divide_by, mask)
        or _explain_places(weights, scores * right, mask)
        or "your weights sum to 1 along each row, but they are not the softmax of the scores; check the scores"
    )


def _explain_rounded(weights: Tensor, right: Tensor) -> str | None:
    rounding = explain_rounding(weights, right)
    return rounding and f"your weights are {rounding}"


def _explain_masked(weights: Tensor, scores: Tensor, right: float, mask: Tensor | None) -> str | None:
    if mask is None:
        return "your weights hold NaN" if weights.isnan().any() else None
    shifted = _explain_shift(weights.nan_to_num(0.0), mask)
    if shifted:
        return shifted
    some = mask.any(dim=-1)  # rows with at least one allowed key
    if weights[some].isnan().any():
        return "your weights hold NaN in rows that have allowed keys"
    rows, row_scores, row_mask = weights[some], scores[some], mask[some]  # (rows, n)
    blocked = rows[~row_mask]
    if not some.all() and close(rows, masked_softmax(row_scores * right, row_mask)):
        return _explain_empty(weights[~some])
    if blocked.numel() == 0:
        return None
    if not (rows[row_mask].abs() > 1e-7).any() and blocked.any():
        return (
            "your mask is the wrong way round: all weight lies on the keys that are masked; True means the query may "
            "attend"
        )
    leaks = blocked.abs() > 1e-7
    if not leaks.any():
        return _explain_closed(rows, row_scores, row_mask)
    if close(rows.abs().sum(-1), torch.ones(len(rows))) and (rows > 0).all():
        return _explain_leak(rows, row_scores, row_mask, right)
    i, j = ((weights.abs() > 1e-7) & ~mask & some[..., None]).nonzero()[0, -2:].tolist()
    return f"masked keys get weight: query {i} attends to key {j}, which the mask blocks"


def _explain_empty(rows: Tensor) -> str:
    if rows.isnan().any():
        return (
            "a row without an allowed key came out as NaN: the softmax of nothing but minus infinity is 0/0; "
            "such a row must get zero weights"
        )
    if close(rows, torch.full_like(rows, 1 / rows.size(-1))):
        return (
            "a row without an allowed key got equal weights: a large finite number in place of minus infinity does "
            "that; such a row must get zero weights"
        )
    return "a row without an allowed key must get zero weights; yours gets others"


def _explain_closed(rows: Tensor, scores: Tensor, mask: Tensor) -> str | None:
    """The masked keys get nothing; are the allowed ones right?"""
    missing = mask & (rows.abs() < 1e-12)
    sums = rows.sum(-1)
    if (sums < 1 - 1e-5).any() and not missing.any() and (rows >= 0).all():
        slope = _slope(rows, scores, mask)
        if slope is not None:
            return (
                "you set the weights of masked keys to zero after the softmax, so the rows no longer sum to 1; "
                "set their scores to minus infinity before it"
            )
    if missing.any() and close(sums, torch.ones(len(rows))):
        j = int(missing.nonzero()[0, 1])
        if bool((missing.sum(-1) < mask.sum(-1) - 1).all()):
            return f"a key that is allowed gets no weight (key {j}): your mask blocks more than it should"
    return None


def _explain_leak(rows: Tensor, scores: Tensor, mask: Tensor, right: float) -> str | None:
    """Every key got weight: what score must the masked ones have had?"""
    logs = rows.log()
    offset = _mean(logs - right * scores, mask)  # the row's constant, from its allowed keys
    if ((logs - right * scores - offset)[mask].abs() > 1e-4).any():
        slope = _slope(rows, scores, torch.ones_like(mask))
        return None if slope is None else "your mask has no effect: masked keys get weight like the others"
    implied = (logs - offset)[~mask]
    normal = (right * scores)[~mask]
    if close(implied, normal, 1e-4):
        return "your mask has no effect: masked keys get weight like the others"
    if close(implied, normal - 1, 1e-4):
        return (
            "you added a boolean mask to the scores: True counts as 1 and False as 0, so masked keys stay in; "
            "put minus infinity where it is False"
        )
    if close(implied, normal + 1, 1e-4):
        return (
            "you added the inverted boolean mask to the scores: that adds 1 to the masked keys; "
            "they need minus infinity"
        )
    if implied.abs().max() < 1e-3:
        return (
            "masked keys got the score 0, and exp(0) is 1, so they still get weight; "
            "minus infinity is what makes exp zero (-1e9 does too, 1e-9 does not)"
        )
    if (implied - implied.mean()).abs().max() < 1e-3:
        return f"masked keys got the score {implied.mean():.4g}, which is not low enough: they still get weight"
    return f"masked keys still get weight, up to {rows[~mask].max():.3g}"


def _explain_shift(weights: Tensor, mask: Tensor) -> str | None:
    m, n = mask.shape[-2:]
    used = weights.abs() > 1e-12
    if used.shape[-2:] != (m, n) or not bool((mask == causal_mask(m, n)).all()):
        return None
    for shift in (-1, 1):
        if bool((used == torch.ones(m, n, dtype=torch.bool).tril(n - m + shift)).all()):
            sees = "misses the last key it may see" if shift < 0 else "sees one key of the future"
            return f"your causal mask is off by one: each query {sees}"
    return None


def _explain_rows(weights: Tensor, scores: Tensor, right: float, sizes: Mapping[str, int]) -> str | None:
    """Are these weights at all: not negative, and 1 in sum over the keys?"""
    for factor, words in ((1.0, "raw"), (right, "scaled")):
        if close(weights, scores * factor):
            return f"your weights do not sum to 1: these are the {words} scores, the softmax is missing"
    if (weights < -1e-7).any():
        if close(weights, scores / scores.sum(dim=-1, keepdim=True)):
            return "you divided the scores by their sum; take the exponential of each first (that is the softmax)"
        if sums_to_one(weights.exp(), -1):
            return "these are the logarithms of weights (log_softmax); weights come from the softmax itself"
        return "some of your weights are negative; weights come from a softmax and never are"
    if sums_to_one(weights, -1):
        return None
    if close(weights, torch.ones_like(weights)):
        return (
            "all your weights are 1, so the values are summed; the softmax must run over the n keys "
            "(over an axis with one entry it gives 1)"
        )
    return _explain_factor(weights, scores, right, sizes) or _explain_axis(weights, scores)


def _explain_factor(weights: Tensor, scores: Tensor, right: float, sizes: Mapping[str, int]) -> str | None:
    """Is each row a softmax times something?"""
    slope = _slope(weights, scores, torch.ones_like(scores, dtype=torch.bool))
    if slope is None:
        return None
    if close(weights, torch.exp(scores * slope)):
        return "these are the exponentials; divide each by the sum of its row"
    total = weights.sum(dim=-1).flatten()[0]
    if not close(weights.sum(dim=-1), total.expand(weights.shape[:-1])):
        return None
    words = f"each row sums to {name_factor(total.item(), sizes)} in place of 1"
    if near(slope, 1.0) and near(total.item(), right):
        return f"{words}: you divided after the softmax; divide the scores before it"
    return f"{words}; the softmax divides each exponential by the sum of its row, and no further factor is needed"


def _explain_axis(weights: Tensor, scores: Tensor) -> str:
    """The rows do not sum to 1; do the columns, or something else?"""
    everything = torch.ones_like(scores, dtype=torch.bool)
    if sums_to_one(weights, -2):
        if scores.size(-1) == scores.size(-2) and _slope(weights.mT, scores, everything) is not None:
            return "your weights are transposed: row i holds what the others give to position i, not what it gives"
        return "your softmax runs over the queries (down the columns); it must run over the keys, along each row"
    if sums_to_one(weights, (-2, -1)):
        return "your softmax runs over the whole matrix at once; each row must sum to 1 by itself"
    for axis in range(weights.dim() - 2):
        if weights.size(axis) > 1 and sums_to_one(weights, axis):
            return f"your softmax runs over axis {axis} of {tuple(weights.shape)}; it must run over the keys, the last"
    low, high = (f"{x:.3g}" for x in weights.sum(dim=-1).aminmax())
    return f"each row of weights must sum to 1; yours sum to {low if low == high else f'between {low} and {high}'}"


def _explain_scale(
    weights: Tensor, scores: Tensor, right: float, sizes: Mapping[str, int], divide_by: str | None, mask: Tensor | None
) -> str | None:
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    n_open = mask.sum(dim=-1, keepdim=True)
    if close(weights, mask / n_open.clamp(min=1)):
        return "you averaged evenly: all your weights are equal; the weights must come from the scores"
    slope = _slope(weights, scores, mask)
    if slope is not None:
        return describe_scale(slope, right, sizes, divide_by)
    if scores.size(-1) == scores.size(-2) and close(weights, torch.eye(scores.size(-1)).expand_as(weights)):
        return "each query takes its own value alone: the positions are never mixed"
    best = weights.amax(dim=-1)[mask.any(-1)]
    if close(best, torch.ones_like(best)):
        return "you gave all weight to one key and left the others out; softmax gives every key a share"
    return None


def recover_weights(output: Tensor, value: Tensor) -> Tensor | None:
    """Solve output = weights @ value for the weights (..., m, n); None if no weights give this output.

    It takes values (..., n, d_v) whose n rows are independent, so n <= d_v.
    """
    weights = output @ torch.linalg.pinv(value)
    return weights if close(weights @ value, output) else None


def describe_scale(slope: float, right: float, sizes: Mapping[str, int], divide_by: str | None) -> str:
    """Say what it means that the scores were multiplied by `slope` in place of `right`."""
    should = "leave the scores as they are" if divide_by is None else f"divide by sqrt({divide_by})"
    if slope < 0:
        return "the sign of your scores is turned around: the key that matches least gets the most weight"
    ratio = slope / right
    by = max(ratio, 1 / ratio)
    square = f" = sqrt({round(by**2)})" if abs(by**2 - round(by**2)) < 1e-3 * by**2 and not _integer(by) else ""
    words = (
        f"your weights are {'sharper' if ratio > 1 else 'flatter'} than they should be: "
        f"your scores are too {'large' if ratio > 1 else 'small'} by a factor of {by:.3g}{square}"
    )
    done = _factor_name(slope, right, sizes, divide_by) or _unnamed(slope)
    return f"{words}; {done}; {should}"


def _unnamed(slope: float) -> str:
    by = 1 / slope if slope < 1 else slope
    square = "" if _integer(by) or not _integer(by**2) else f" = sqrt({round(by**2)})"
    return f"in effect you {'divided' if slope < 1 else 'multiplied'} by {by:.3g}{square}"


def _factor_name(slope: float, right: float, sizes: Mapping[str, int], divide_by: str | None) -> str | None:
    def is_(x: float) -> bool:
        return near(slope, x)

    if is_(1.0):
        return "you did not scale them"
    if is_(right * math.log(2)):
        return "you took powers of 2 where exp takes powers of e"
    for name, size in sizes.items():
        if is_(size**-0.5):
            return f"you divided by sqrt({name})"
        if is_(1 / size):
            return f"you divided by {name}{', not by its square root' if name == divide_by else ''}"
        if is_(size**0.5):
            return f"you multiplied by sqrt({name})"
        if is_(size):
            return f"you multiplied by {name}"
        if is_(size**-0.25):
            return f"you divided by the fourth root of {name} (by sqrt(sqrt({name})))"
        if is_(size**-2.0):
            return f"you divided by the square of {name}"
        if is_(right * size**-0.5):
            return f"you divided by sqrt({name}) as well"
        if is_(right * size**0.5):
            return f"you multiplied by sqrt({name}) as well"
        if is_(right / size):
            return f"you divided by {name} as well"
    return None


def _integer(x: float) -> bool:
    return abs(x - round(x)) < 1e-3


def _explain_places(weights: Tensor, scaled: Tensor, mask: Tensor | None) -> str | None:
    """The numbers are weights, but not of these scores in these places."""
    everything = torch.ones_like(scaled, dtype=torch.bool) if mask is None else mask
    if scaled.size(-1) == scaled.size(-2) and _slope(weights, scaled.mT, everything) is not None:
        return "queries and keys are swapped: row i of the weights belongs to query i"
    expected = masked_softmax(scaled, mask)
    if mask is None and ((weights.abs() < 1e-12) & (expected > 1e-6)).any():
        i, j = ((weights.abs() < 1e-12) & (expected > 1e-6)).nonzero()[0, -2:].tolist()
        return f"some keys get no weight, such as key {j} from query {i}; no key is masked here"
    if scaled.size(-2) > 1 and close(weights, weights[..., :1, :].expand_as(weights)):
        return "all queries get the same weights; each query has scores of its own, a row of them"
    if _slope(weights, expected, everything) is not None:
        return "you took the softmax twice; the second one flattens the weights"
    if mask is None and _same_in_each_row(weights.log() - scaled):
        return (
            "in effect another number was added to the scores of each key (the largest score of its column?); "
            "only the same number for a whole row changes nothing"
        )
    if close(weights.sort(dim=-1).values, expected.sort(dim=-1).values):
        return "your rows hold the right weights in the wrong order; weight j belongs to key j"
    if close(weights.flatten(0, -2).sort(dim=0).values, expected.flatten(0, -2).sort(dim=0).values):
        return "your weights are right but in the wrong rows (queries, heads or batch were mixed up)"
    return None


def _same_in_each_row(x: Tensor) -> bool:
    """Whether all rows are alike, up to a constant of the row."""
    x = x - x.mean(dim=-1, keepdim=True)
    return x.size(-2) > 1 and close(x, x[..., :1, :].expand_as(x), 1e-4)


def _slope(weights: Tensor, scores: Tensor, mask: Tensor) -> float | None:
    """Find c such that in each row the weights of allowed keys are proportional to exp(c s); None if no c does it.

    Weights that are nearly 0 tell little about their scores, so c is read off the others, and has to explain all.
    """
    if weights.shape != scores.shape or bool((weights[mask] < -1e-7).any()):
        return None
    large = mask & (weights > 1e-9)
    logs = torch.where(large, weights.clamp(min=1e-300).log(), 0.0)
    centred = torch.where(large, logs - _mean(logs, large), 0.0)
    against = torch.where(large, scores - _mean(scores, large), 0.0)
    size = against.square().sum()
    if size == 0:
        return None
    slope = (centred * against).sum() / size
    sums = torch.where(mask, weights, 0.0).sum(dim=-1, keepdim=True)
    explained = masked_softmax(slope * scores, mask) * sums
    fits = (centred - slope * against).abs().max() < 1e-3 and close(explained, torch.where(mask, weights, 0.0))
    return slope.item() if fits and abs(slope) > 1e-9 else None


def _mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean over the allowed keys of each row, (..., m, 1); 0 for rows without any."""
    return torch.where(mask, x, 0.0).sum(dim=-1, keepdim=True) / mask.sum(dim=-1, keepdim=True).clamp(min=1)


def weights_alike(got: Any, other: Any, *inputs: Any) -> bool:
    """Whether two weights (..., m, n) were made from the same scores, up to a factor on all of them."""
    return factor_on_scores(got, other) is not None


def factor_on_scores(got: Any, other: Any) -> float | None:
    """Find c such that the weights given come from c times the scores of the other weights; None if no c does it."""
    if not (isinstance(got, Tensor) and isinstance(other, Tensor)) or got.shape != other.shape or (other < 0).any():
        return None
    got, other = got.detach().cpu().double(), other.detach().cpu().double()
    return _slope(got, other.log(), other > 0)


def explain_output(
    output: Tensor, right: Tensor, query: Tensor, key: Tensor, value: Tensor, sizes: Mapping[str, int]
) -> str | None:
    """Say what is wrong with an output (..., m, d_v), by the weights on the values that it must have come from."""
    weights = recover_weights(output, value)
    if weights is not None:
        return explain_weights(weights, query @ key.mT, sizes=sizes)
    factor = times(output, right, sizes)
    if factor:
        return f"your output is {factor} the right one; a weighted average needs no further factor"
    return (
        "the shape is right, but no weights on the values give these numbers; the largest difference is "
        f"{(output - right).abs().max():.3g}"
    )
