"""Checkers of chapter 3's exercises. Each returns None for a right answer, else a diagnosis in words."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..analysis.cost import largest_tensor_bytes
from ..analysis.weights import entropy
from ..analysis.weights import softmax_jacobian as jacobian_of
from ..layers import merge_heads, split_heads
from . import exercise
from ._tools import (
    Mistake,
    call,
    close,
    describe_scale,
    expect_number,
    expect_pair,
    expect_tensor,
    explain_weights,
    first_match,
    multiple,
    near,
    random,
    rounded,
    times,
)


def _first_number(given: float, mistakes: dict[str, float]) -> str | None:
    return next((words for words, wrong in mistakes.items() if near(given, wrong)), None)


def _rounded(given: list[float], right: list[float]) -> str | None:
    for places in range(1, 5):
        if all(near(g, round(r, places)) for g, r in zip(given, right, strict=True)):
            return f"right, but rounded to {places} decimal{'s' * (places > 1)}; compute with all digits"
    return None


def _variance(d: int, mq: float, a: float, mk: float, b: float) -> float:
    return d * (a**2 * b**2 + mq**2 * b**2 + a**2 * mk**2)


@exercise("3.1")
def dot_product_variance(answer: Callable[..., Any]) -> str | None:
    """Variance of a dot product of d_k features whose entries have given means and standard deviations."""

    def ask(d: int, mean_q: float, std_q: float, mean_k: float, std_k: float) -> float:
        return expect_number(call(answer, d, mean_q, std_q, mean_k, std_k), "the variance")

    d, mq, a, mk, b = 5, 1.5, 2.0, 0.7, 3.0
    given = ask(d, mq, a, mk, b)
    if given != ask(d, mq, a, mk, b):
        return "the same inputs gave two different answers: draw no random numbers, compute the variance"
    if near(given, d * mq * mk):
        return "that is the mean of the dot product; the variance is asked for"
    return _without_means(ask) or _with_one_mean(ask) or _with_both_means(ask)


def _not_the_variance(given: float, case: tuple[int, float, float, float, float], so_far: str = "") -> str:
    (d, mq, a, mk, b), right = case, _variance(*case)
    if near(given, math.floor(right)) or near(given, math.ceil(right)):
        return "right, but rounded to a whole number; compute with all digits"
    return _rounded([given], [right]) or (
        f"{so_far}with means {mq:g} and {mk:g}, standard deviations {a:g} and {b:g} and d_k = {d} the variance is "
        f"{right:.5g}; yours is {given:.4g}"
    )


def _without_means(ask: Callable[..., float]) -> str | None:
    d, a, b = 5, 2.0, 3.0
    case = (d, 0.0, a, 0.0, b)
    given, right = ask(*case), _variance(*case)
    if near(given, right):
        return None
    return _first_number(
        given,
        {
            "you used the standard deviations where the variances belong: square them": d * a * b,
            "that is the standard deviation of the dot product; the variance is its square": math.sqrt(right),
            "the variance grows like d_k, not like its square: independent products cancel in part": d**2 * a**2 * b**2,
            "you left d_k out: each of the d_k products adds its own variance": a**2 * b**2,
            "you added the two variances; for a product of independent numbers of mean 0 they multiply": d
            * (a**2 + b**2),
            "you squared only the query's standard deviation": d * a**2 * b,
            "you squared only the key's standard deviation": d * a * b**2,
            "you squared the variances once more": d * a**4 * b**4,
            "you multiplied by sqrt(d_k); the variance has d_k": math.sqrt(d) * a**2 * b**2,
        },
    ) or _not_the_variance(given, case)


def _with_one_mean(ask: Callable[..., float]) -> str | None:
    d, mean, a, b = 5, 1.5, 2.0, 3.0
    for name, other, inputs in (("query", "key", (mean, a, 0.0, b)), ("key", "query", (0.0, b, mean, a))):
        given, base = ask(d, *inputs), d * a**2 * b**2
        if near(given, _variance(d, *inputs)):
            continue
        return _first_number(
            given,
            {
                f"a mean of the {name} alone changes nothing in your answer; with it every product varies more": base,
                f"square the mean of the {name}": base + d * mean * b**2,
                f"the squared mean of the {name} meets the variance of the {other}, not its own": base
                + d * mean**2 * a**2,
                f"multiply the part with the mean of the {name} by d_k as well": base + mean**2 * b**2,
                f"in the part with the mean of the {name}, square the standard deviation of the {other}": base
                + d * mean**2 * b,
                f"the mean of the {name} adds to the variance, it takes nothing away": base - d * mean**2 * b**2,
            },
        ) or _not_the_variance(given, (d, *inputs), "right when both means are 0; ")
    return None


def _with_both_means(ask: Callable[..., float]) -> str | None:
    d, mq, mk = 5, 1.5, 0.7
    case = (d, mq, 2.0, mk, 3.0)
    given, right, both = ask(*case), _variance(*case), mq**2 * mk**2
    square = right + d * both
    if near(given, right):
        return _with_other_numbers(ask)
    return _first_number(
        given,
        {
            "these are the mean squares of the products; subtract the square of each product's mean": square,
            "subtract the squared mean of *each* product, d_k times mean_q² mean_k²; you subtracted the square of the "
            "whole mean, which has d_k squared": square - d**2 * both,
            "you subtracted the squared mean only once; every one of the d_k products has it": square - both,
            "subtract the *square* of each product's mean": square - d * mq * mk,
            "with both means nothing is to be subtracted from the three parts": square - 2 * d * both,
        },
    ) or _not_the_variance(given, case, "right when one mean is 0; ")


def _with_other_numbers(ask: Callable[..., float]) -> str | None:
    for sign in (1, -1):  # small numbers show rounding; 7 shows a d_k that was taken for granted
        case = (7, sign * 0.123, 0.21, sign * 0.07, 0.33)
        given = ask(*case)
        if not near(given, _variance(*case)):
            words = "negative means count like positive ones; " if sign < 0 else "right for d_k = 5 and large numbers; "
            return _not_the_variance(given, case, words)
    return None


@exercise("3.2")
def jacobian(answer: Callable[[Tensor], Any]) -> str | None:
    """Jacobian of the softmax at some scores."""
    n = 7
    scores = random(n)
    a, one = scores.softmax(0), torch.ones(n, dtype=torch.float64)
    right, outer = jacobian_of(a), torch.outer(a, a)
    given = expect_tensor(call(answer, scores), (n, n), "(n, n)", "the Jacobian")
    if not close(given, right, 1e-7):
        e = scores.exp()
        return first_match(
            given,
            {
                "the sign is turned around: it is diag(a) - a aᵀ": -right,
                "a aᵀ is missing: every weight falls when another score rises": torch.diag(a),
                "diag(a) is missing: a score must raise its own weight": -outer,
                "diag(a) is missing, and the minus": outer,
                "that is the diagonal alone; the entries a_j a_l off it are missing": torch.diag(a * (1 - a)),
                "subtract a aᵀ, do not add it": torch.diag(a) + outer,
                "you took a aᵀ from the identity matrix; take it from diag(a)": torch.eye(n) - outer,
                "you put the scores in place of the weights: the softmax is missing": torch.diag(scores)
                - torch.outer(scores, scores),
                "you put the exponentials in place of the weights: divide them by their sum": torch.diag(e)
                - torch.outer(e, e),
                "the weights belong on the diagonal only; broadcasting put them into every row": a[None] - outer,
                "the weights belong on the diagonal only; broadcasting put them into every column": a[:, None] - outer,
                "off the diagonal the sign is plus; it is minus a_j a_l": right.abs(),
                "that is the derivative of the logarithms of the weights, I - 1 aᵀ; multiply row j by a_j": torch.eye(n)
                - torch.outer(one, a),
                "you applied the softmax twice": jacobian_of(a.softmax(0)),
                "that is for scores divided by sqrt(n); nothing is to be scaled": jacobian_of(
                    (scores / math.sqrt(n)).softmax(0)
                ),
            },
        ) or _explain_jacobian(given, right)
    for large in ((1000.0 + scores).round(), 1000.0 * scores):
        given = expect_tensor(call(answer, large), (n, n), "(n, n)", "the Jacobian", finite=False)
        if not given.isfinite().all():
            return "right for small scores, but large ones overflow: exp(1000) is infinite; torch.softmax avoids it"
        if not close(given, jacobian_of(large.softmax(0)), 1e-7):
            return (
                "right for small scores, but not for large ones; torch.softmax subtracts the largest score before exp"
            )
    return None


def _explain_jacobian(given: Tensor, right: Tensor) -> str:
    off = rounded(given, right)
    if off:
        return f"your Jacobian is {off}"
    diagonal = torch.eye(len(right), dtype=torch.bool)
    if close(given[~diagonal], right[~diagonal]):
        return "off the diagonal all is right; the diagonal is not: it is a_j (1 - a_j)"
    if close(given[diagonal], right[diagonal]):
        return "the diagonal is right; off it the entry is -a_j a_l"
    factor = times(given, right, {"n": len(right)})
    if factor:
        return f"your Jacobian is {factor} the right one"
    if not close(given, given.T):
        return "the Jacobian of the softmax is symmetric; yours is not"
    sums = given.sum(1)
    if not close(sums, torch.zeros_like(sums)):
        return f"each row of the Jacobian sums to 0; yours sum to between {sums.min():.3g} and {sums.max():.3g}"
    return "the shape is right, but the entries are not; entry (j, l) is a_j - a_j² for j = l, and -a_j a_l otherwise"


@exercise("3.3")
def through_softmax(answer: Callable[[Tensor, Tensor], Any]) -> str | None:
    """Gradient of the scores from the weights and the gradient of the weights, in linear memory."""
    n = 7
    a, u = random(n).softmax(0), random(n, seed=1)
    right = a * (u - a @ u)
    given = expect_tensor(call(answer, a, u), (n,), "(n,)", "the gradient")
    if not close(given, right, 1e-7):
        return first_match(
            given,
            {
                "the sign is turned around: it is a (u - aᵀu), with u for the upstream gradient": -right,
                "that is diag(a) u alone; subtract a (aᵀu)": a * u,
                "that is -a (aᵀu) alone; diag(a) u is missing": -a * (a @ u),
                "that is a (aᵀu) alone; diag(a) u is missing": a * (a @ u),
                "multiply by the weights once more: J u = a (u - aᵀu)": u - a @ u,
                "that is the diagonal of the Jacobian alone: every score moves the other weights too": a * (1 - a) * u,
                "subtract the average under the weights, aᵀu, not the plain average": a * (u - u.mean()),
                "subtract the average under the weights, aᵀu, not the plain sum": a * (u - u.sum()),
                "subtract aᵀu, do not add it": a * (u + a @ u),
                "you took u² where the upstream gradient u belongs": a * (u**2 - a @ u**2),
                "the weights are given already: there is no softmax to apply": (a.softmax(0) * (u - a.softmax(0) @ u)),
                "you multiplied by the weights twice": a * right,
                "multiply aᵀu by the weights before you subtract it from a * u": a * u - a @ u,
                "aᵀu is the *sum* of the products a * u; you divided it by n": a * (u - (a * u).mean()),
                "you swapped the two: the weights a come first, then the upstream gradient u": u * (a - a @ u),
                "that is the way back through the *logarithm* of the softmax": u - a * u.sum(),
                "that is a (1 - a) times the sum of u; the product of J with u is asked for": a * (1 - a) * u.sum(),
            },
        ) or _explain_gradient(given, right)
    n = 1009
    a, u = random(n).softmax(0), random(n, seed=1)
    kept: list[Any] = []
    largest = largest_tensor_bytes(lambda: kept.append(call(answer, a, u)))
    if not close(kept[0], a * (u - a @ u), 1e-7):
        return "right for 7 keys, but not for 1009"
    if largest >= 4 * n * n:
        return (
            f"right, but with {n} keys you make a tensor of {largest:,} bytes, an n x n matrix; "
            "a * u and the number aᵀu are all you need"
        )
    return None


def _explain_gradient(given: Tensor, right: Tensor) -> str:
    off, factor = rounded(given, right), times(given, right, {"n": len(right)})
    if off or factor:
        return f"your gradient is {off or f'{factor} the right one'}"
    words = "the shape is right, but the numbers are not"
    if not close(given.sum(), 0.0):
        return f"{words}; the entries must sum to 0, yours sum to {given.sum():.3g}"
    return f"{words}; the largest difference is {(given - right).abs().max():.3g}"


def _sizes(d_model: int, heads: int, d_head: int, n: int) -> dict[str, int]:
    """What a learner may divide by the root of. All must differ, and none be the root of another, rounded or not."""
    return {
        "d_head": d_head,
        "d_model": d_model,
        "num_heads": heads,
        "num_heads * d_head": heads * d_head,
        "d_model // num_heads": d_model // heads,
        "n": n,
    }


@exercise("3.4")
def head_scores(answer: Callable[..., Any]) -> str | None:
    """Scaled scores of all heads."""
    batch, n, d_model, heads, d_head = 2, 13, 37, 5, 11
    x = random(batch, n, d_model)
    w_q, w_k = (random(d_model, heads * d_head, seed=i) / math.sqrt(d_model) for i in (0, 1))
    q, k = split_heads(x @ w_q, heads), split_heads(x @ w_k, heads)
    raw, factor = q @ k.mT, d_head**-0.5
    given = expect_tensor(call(answer, x, w_q, w_k, heads), (batch, heads, n, n), "(batch, num_heads, n, n)")
    if close(given, raw * factor):
        return None
    sizes = _sizes(d_model, heads, d_head, n) | {"batch": batch}
    if close(given.sum(-1), torch.ones(batch, heads, n)):
        found = explain_weights(given, raw, sizes=sizes, divide_by="d_head")
        return f"these are weights; only the scores are asked for{f' (and {found})' if found else ''}"
    off = rounded(given, raw * factor)
    if off:
        return f"your scores are {off}"
    slope = multiple(given, raw)
    if slope is not None:
        words = describe_scale(slope, factor, sizes, "d_head")
        return words.removeprefix("your weights are ").split(": ", 1)[-1]
    for words, other in _other_scores(x @ w_q, x @ w_k, heads, d_model // heads).items():
        slope = multiple(given, other)
        if slope is not None:
            return words if near(slope, factor) else f"{words} (and the factor is not 1/sqrt(d_head) either)"
    return "the shape is right, but the numbers are not; check the projections, then the split into heads"


def _other_scores(query: Tensor, key: Tensor, heads: int, narrow: int) -> dict[str, Tensor]:
    """Raw scores that come out wrong, from the projected (batch, n, heads * d_head), by the diagnosis for them."""
    q, k = split_heads(query, heads), split_heads(key, heads)
    by_view = [x.reshape(q.shape) for x in (query, key)]
    by_stride = [x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2) for x in (query, key)]
    cut = [split_heads(x[..., : heads * narrow], heads) for x in (query, key)]
    return {
        "queries and keys are swapped: row i of the scores belongs to query i": k @ q.mT,
        "you used w_q for the keys too; keys need w_k": q @ q.mT,
        "you used w_k for the queries too; queries need w_q": k @ k.mT,
        "the heads are scrambled: a reshape straight to (batch, num_heads, n, d_head) mixes positions and features; "
        "make (batch, n, num_heads, d_head) first, then swap the two axes": by_view[0] @ by_view[1].mT,
        "head 1 owns the first d_head features, head 2 the next, and so on; you gave each head every num_heads-th "
        "feature": by_stride[0] @ by_stride[1].mT,
        "a head has w_q.size(1) // num_heads features; you gave it d_model // num_heads": cut[0] @ cut[1].mT,
        "your heads are in the reverse order": (q @ k.mT).flip(1),
        "each head gets the same scores, those of all features together": (query @ key.mT)[:, None].expand(
            -1, heads, -1, -1
        ),
    }


@exercise("3.5")
def initial_std(answer: Callable[..., Any]) -> str | None:
    """Standard deviation of the entries of W^Q and W^K for which scaled scores have variance 1."""
    cases = ((101, 7, 1.0), (59, 13, 3.0), (211, 5, 0.25))
    given = [expect_number(call(answer, *case), "the standard deviation") for case in cases]
    right = [d_model**-0.5 / std_x for d_model, _, std_x in cases]
    if all(map(near, given, right)):
        return None
    off = _rounded(given, right)
    if off:
        return off
    wrong: dict[str, Callable[[int, int, float], float]] = {
        "that is the variance; the standard deviation is its square root": lambda m, d, s: 1 / (m * s * s),
        "the size of the input counts too: larger inputs need smaller matrices (you did not use std_x)": (
            lambda m, d, s: m**-0.5
        ),
        "larger inputs need *smaller* matrices: divide by std_x": lambda m, d, s: m**-0.5 * s,
        "divide by std_x once: a query is linear in the input": lambda m, d, s: m**-0.5 / s**2,
        "divide by std_x, not by its square root": lambda m, d, s: (m * s) ** -0.5,
        "that gives the *raw* scores variance 1; dividing by sqrt(d_k) takes care of d_k already": (
            lambda m, d, s: m**-0.5 / s * d**-0.25
        ),
        "each entry of a query is a sum of d_model terms, not of d_k": lambda m, d, s: d**-0.5 / s,
        "d_k does not occur: the scaling takes care of it": lambda m, d, s: (m * d) ** -0.5 / s,
        "that is Xavier's rule for one matrix; it ignores the size of the input and gives variance 1 only if "
        "d_k = d_model": lambda m, d, s: math.sqrt(2 / (m + d)),
        "that is what nn.Linear does, 1/sqrt(3 d_model): it gives scores of variance 1/9": lambda m, d, s: (
            (3 * m) ** -0.5
        ),
        "divide by the square root of d_model, not by d_model": lambda m, d, s: 1 / (m * s),
        "the fourth root belongs to (d_model std_x²)²; you left out the square inside": (
            lambda m, d, s: (m * s * s) ** -0.25
        ),
        "that is the bound of a uniform distribution; its standard deviation is smaller by sqrt(3)": (
            lambda m, d, s: (3 / m) ** 0.5 / s
        ),
        "that is what nn.MultiheadAttention does, Xavier for three matrices at once: it gives scores of variance 1/4": (
            lambda m, d, s: (2 / (4 * m)) ** 0.5
        ),
        "one number does not fit every width": lambda m, d, s: given[0],
        "invert it: matrices of wide inputs must be small": lambda m, d, s: m**0.5 * s,
        "d_k does not occur: the scaling by sqrt(d_k) takes care of it (you have a factor sqrt(d_k) too many)": (
            lambda m, d, s: (d / m) ** 0.5 / s
        ),
        "d_k does not occur: the scaling by sqrt(d_k) takes care of it (you have a factor of its fourth root too "
        "many)": lambda m, d, s: d**0.25 * m**-0.5 / s,
    }
    for words, formula in wrong.items():
        if all(near(g, formula(*case)) for g, case in zip(given, cases, strict=True)):
            return words
    for g, (d_model, d_k, std_x) in zip(given, cases, strict=True):
        if g <= 0:
            return f"a standard deviation is above 0; yours is {g:.4g}"
        variance = g**4 * d_model**2 * std_x**4
        if not near(variance, 1.0):
            return (
                f"with d_model={d_model}, d_k={d_k}, std_x={std_x:g} your {g:.4g} gives scaled scores of variance "
                f"{variance:.3g} in place of 1"
            )
    return None


@exercise("3.6")
def repair(answer: Callable[..., Any]) -> str | None:
    """Weights for scores divided by sqrt(d_head), from weights for scores divided by sqrt(d_model)."""
    for leading in ((2, 3), ()):
        n, d_model, d_head = 7, 13, 5
        raw = 3 * random(*leading, n)
        weights = (raw / math.sqrt(d_model)).softmax(-1)
        shape, axes = tuple(raw.shape), "(..., n)"
        given = expect_tensor(call(answer, weights, d_model, d_head), shape, axes, "the repaired weights")
        found = _explain_repair(given, weights, raw, d_model, d_head)
        if found:
            return found
    return None


def _explain_repair(given: Tensor, weights: Tensor, raw: Tensor, d_model: int, d_head: int) -> str | None:
    if close(given, (raw / math.sqrt(d_head)).softmax(-1)):
        return None
    root, logs = math.sqrt(d_model / d_head), weights.log()
    mistakes = {
        "the logarithms of the weights are the scores; you used the weights themselves": (weights * root).softmax(-1),
        "the weights must sum to 1 again: divide by the sum of the row": weights**root,
        "these are scores; turn them into weights with a softmax": logs * root,
        "these are the scores as they were; multiply them by sqrt(d_model / d_head), then take the softmax": logs,
        "you multiplied the weights by the factor: they no longer sum to 1": weights * root,
    }
    if raw.dim() > 1:
        wrong_axis = "your softmax runs over the first axis; it must run over the keys, the last"
        mistakes[wrong_axis] = (logs * root).softmax(0)
        mistakes["your softmax runs over the rows, not along each row"] = (logs * root).softmax(-2)
    by_row = given.reshape(-1, raw.size(-1)), raw.reshape(-1, raw.size(-1))
    return (
        first_match(given, mistakes)
        or _explain_power(given, logs, d_model, d_head)
        or explain_weights(*by_row, sizes={"d_head": d_head, "d_model": d_model}, divide_by="d_head")
    )


def _explain_power(given: Tensor, logs: Tensor, d_model: int, d_head: int) -> str | None:
    """If the answer is softmax(c * logs), say what is wrong with c."""
    if (given <= 0).any():
        return None
    centred, against = (x - x.mean(dim=-1, keepdim=True) for x in (given.log(), logs))
    c = ((centred * against).sum() / against.square().sum()).item()
    root = math.sqrt(d_model / d_head)
    if c < 1e-6 or abs(c - root) < 1e-2 or not close(given, (c * logs).softmax(-1)):
        return None
    factors = {
        "these are the weights as they came, still too flat; multiplying all of them by a number and dividing by the "
        "sum changes nothing": 1.0,
        "multiply the logarithms by sqrt(d_model / d_head), you divided by it: the weights must get sharper": 1 / root,
        "the divisors are square roots: multiply the logarithms by sqrt(d_model / d_head), not by d_model / d_head": (
            root**2
        ),
        "you multiplied by sqrt(d_model) and stopped there: these are the weights without any scaling; divide by "
        "sqrt(d_head)": math.sqrt(d_model),
        "you divided by sqrt(d_head) on top of sqrt(d_model); first undo the wrong divisor": d_head**-0.5,
        "you multiplied by sqrt(d_head); it is sqrt(d_model / d_head) that is missing": d_head**0.5,
        "you took the logarithm to base 2; the softmax takes powers of e, so take the natural one": root / math.log(2),
        "you took the logarithm to base 10; the softmax takes powers of e, so take the natural one": (
            root / math.log(10)
        ),
        "divide sqrt(d_model) by sqrt(d_head); you subtracted": d_model**0.5 - d_head**0.5,
    }
    return _first_number(c, factors) or (
        f"your weights are too {'sharp' if c > root else 'flat'}: in effect you multiplied the logarithms by {c:.3g}; "
        f"sqrt(d_model / d_head) is {root:.3g} here"
    )


@exercise("3.7")
def temperature_for(answer: Callable[[Tensor, float], Any]) -> str | None:
    """Temperature at which the softmax of some scores has a wanted entropy."""
    n = 11
    scores = 3 * random(n)

    def entropy_at(tau: float) -> float:
        return entropy((scores / tau).softmax(0)).item()

    def ask(wanted: float, scale: float = 1.0, shift: float = 0.0) -> float:
        """The temperature, for the scores as they are."""
        return expect_number(call(answer, scale * scores + shift, wanted), "the temperature") / scale

    def wrong(tau: float, wanted: float) -> bool:
        return not 0 < tau < math.inf or abs(entropy_at(tau) - wanted) > 2e-3

    given = {wanted: ask(wanted) for wanted in (1.5, 0.7, 2.2)}
    for wanted, tau in given.items():
        if not 0 < tau < math.inf:
            return f"a temperature is above 0 and finite; yours is {tau:.4g}"
        if wrong(tau, wanted):
            return _explain_temperature(given, wanted, entropy_at, n)
    for wanted in (0.05, math.log(n) - 0.01):
        if wrong(ask(wanted), wanted):
            return (
                f"right in the middle, but not for a wanted entropy of {wanted:.3g}, near the "
                f"{'lower' if wanted < 1 else 'upper'} end: search from much colder to much warmer, and long enough"
            )
    if wrong(ask(1.5, shift=50.0), 1.5):
        return "right for these scores, but adding 50 to all of them changed your answer; only differences count"
    for scale in (100.0, 0.01):
        if wrong(ask(1.5, scale), 1.5):
            return (
                f"right for these scores, but not for {scale:g} times them, which need {scale:g} times the "
                "temperature: search from much colder to much warmer, and long enough"
            )
    return None


def _explain_temperature(given: dict[float, float], wanted: float, entropy_at: Callable[[float], float], n: int) -> str:
    tau = given[wanted]
    found = entropy_at(tau)
    readings: dict[str, Callable[[float], float]] = {
        "you returned the factor 1/temperature: the scores are *divided* by the temperature": (
            lambda t: entropy_at(1 / max(t, 1e-9))
        ),
        "your entropy is in bits (logarithm to base 2); it is wanted in nats (natural logarithm)": (
            lambda t: entropy_at(t) / math.log(2)
        ),
        "you returned the square of the temperature": lambda t: entropy_at(math.sqrt(max(t, 0.0))),
        "you returned the square root of the temperature": lambda t: entropy_at(t * t),
        "you returned the logarithm of the temperature": lambda t: entropy_at(math.exp(min(t, 50.0))),
        "your temperature gives ln n less the wanted entropy": lambda t: math.log(n) - entropy_at(t),
        "you returned the entropy in place of the temperature": lambda t: t,
    }

    def fits(reading: Callable[[float], float], tolerance: float) -> bool:
        return all(abs(reading(t) - want) <= tolerance for want, t in given.items())

    for words, reading in readings.items():
        if fits(reading, 3e-3):
            return words
    if found < 1e-3 or found > math.log(n) - 1e-3:
        return (
            f"your search for an entropy of {wanted:g} ended much too {'cold' if found < 1 else 'warm'}, at the "
            f"temperature {tau:.4g}: is a comparison turned around, or your entropy NaN (0 ln 0), not in nats, or not "
            "that of softmax(s / temperature)?"
        )
    if len({f"{t:.6g}" for t in given.values()}) == 1:
        return f"you return {tau:.4g} whatever entropy is wanted"
    side = "too sharp, go warmer" if found < wanted else "too flat, go colder"
    near = " (close, but not to within 0.001: too few steps, too narrow a search, or a rounded result?)"
    return (
        f"wanted was an entropy of {wanted:g}; at your temperature {tau:.4g} it is {found:.4g}: {side}"
        f"{near if fits(entropy_at, 0.05) else ''}"
    )


@exercise("3.8")
def debug_the_scales(answer: Any) -> str | None:
    """Attention from word ids, with the embedding's factor and the scores' divisor put right."""
    vocab_size, d_model, heads, d_head, batch, n = 23, 17, 3, 7, 2, 11
    if isinstance(answer, nn.Module):
        raise Mistake("hand over the class itself, not an object of it")
    model = call(answer, vocab_size, d_model, heads, d_head)
    if not isinstance(model, nn.Module):
        raise Mistake(f"hand over a class made from nn.Module; calling it gave {type(model).__name__}")
    found = _give_weights(model, vocab_size, d_model, heads * d_head)
    if found:
        return found
    ids = (torch.arange(batch * n) * 5 % vocab_size).view(batch, n)
    output, weights = expect_pair(call(model, ids), "the output", "the weights")
    if isinstance(output, Tensor) and tuple(output.shape) == (batch, heads, n, n):
        return "return the output first, then the weights"
    weights = expect_tensor(weights, (batch, heads, n, n), "(batch, num_heads, n, n)", "the weights")
    output = expect_tensor(output, (batch, n, heads * d_head), "(batch, n, num_heads * d_head)")
    again, _ = expect_pair(call(model, ids), "the output", "the weights")
    if not close(again.detach(), output):
        return "a second call on the same words gives something else: forward must change nothing and draw nothing"

    x = _embedding(vocab_size, d_model)[ids]
    projected = [x @ random(heads * d_head, d_model, seed=i).T for i in (1, 2, 3)]
    q, k, v = (split_heads(y, heads) for y in projected)
    sizes = _sizes(d_model, heads, d_head, n)
    instead = {
        "you used w_q for the keys too; keys need w_k": q @ q.mT,
        "you used w_k for the queries too; queries need w_q": k @ k.mT,
        "you used w_v for the keys; keys need w_k": q @ v.mT,
    }
    found = explain_weights(weights, d_model * (q @ k.mT), sizes=sizes, divide_by="d_head", instead=instead)
    one = weights.sum(-1)
    if not close(one, torch.ones_like(one)):
        return found
    # The values are linear in the embedding, so the output tells its factor, whatever the weights are.
    factor = multiple(output, merge_heads(weights @ v))
    if factor is None:
        return _explain_output(output, weights, q, k, projected[2])
    if near(factor, math.sqrt(d_model)):
        return found
    if found is None:
        return "the weights are right, but the values must come from the embedding times sqrt(d_model) as well"
    return _explain_embedding(factor, d_model)


def _explain_output(output: Tensor, weights: Tensor, q: Tensor, k: Tensor, projected: Tensor) -> str:
    """The output is not the weights times the values; from what else could it come?"""
    v = split_heads(projected, q.size(1))
    others = {
        "the heads are scrambled: merge_heads was right, a reshape without the transpose is not": (weights @ v).reshape(
            output.shape
        ),
        "the heads are scrambled: split_heads was right, a reshape without the transpose is not": merge_heads(
            weights @ projected.reshape(v.shape)
        ),
        "you averaged the keys; the output averages the values": merge_heads(weights @ k),
        "you averaged the queries; the output averages the values": merge_heads(weights @ q),
    }
    for words, other in others.items():
        if multiple(output, other) is not None:
            return words
    return "the output is not the weighted average of the values under the weights you returned"


def _embedding(vocab_size: int, d_model: int) -> Tensor:
    return random(vocab_size, d_model) / math.sqrt(d_model)


def _give_weights(model: nn.Module, vocab_size: int, d_model: int, width: int) -> str | None:
    """Put known numbers into the parts of the model, after a look at how its embedding was drawn."""
    for name, shape in {
        "embedding": (vocab_size, d_model),
        **dict.fromkeys(("w_q", "w_k", "w_v"), (width, d_model)),
    }.items():
        part = getattr(model, name, None)
        weight = getattr(part, "weight", None)
        if not isinstance(weight, Tensor):
            return f"keep the names of the parts: there is no {name} with a weight"
        if tuple(weight.shape) != shape:
            return f"leave __init__ as it is: {name}.weight must have shape {shape}; got {tuple(weight.shape)}"
        if getattr(part, "bias", None) is not None:
            return f"leave __init__ as it is: {name} had no bias"
    embedding: Any = model.embedding
    drawn = embedding.weight.detach().std().item() * math.sqrt(d_model)
    if not 0.8 < drawn < 1.2:
        return (
            f"leave __init__ as it is: the embedding was drawn with standard deviation 1/sqrt(d_model), yours has "
            f"{drawn:.2g} times that"
        )
    model.double()
    with torch.no_grad():
        embedding.weight.copy_(_embedding(vocab_size, d_model))
        for i, name in enumerate(("w_q", "w_k", "w_v"), start=1):
            getattr(model, name).weight.copy_(random(width, d_model, seed=i))
    return None


def _explain_embedding(factor: float, d_model: int) -> str:
    variance = factor**2 / d_model
    done = _first_number(
        factor,
        {
            "the embedding is still divided by sqrt(d_model)": d_model**-0.5,
            "the embedding's factor is gone": 1.0,
            "you multiplied the embedding by d_model": d_model,
            "you divided the embedding by d_model": 1 / d_model,
        },
    )
    return (
        f"{done or f'you multiplied the embedding by {factor:.4g}'}: its entries now have variance {variance:.3g}; "
        "they are drawn with variance 1/d_model, so times sqrt(d_model) makes it 1"
    )
