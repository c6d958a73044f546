"""Checkers of chapter 2's exercises. Each returns None for a right answer, else a diagnosis in words."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..functional import scaled_dot_product_attention
from . import exercise
from ._tools import (
    call,
    close,
    expect_number,
    expect_numbers,
    expect_tensor,
    explain_weights,
    random,
    recover_weights,
    rounded,
    times,
)

Attention = Callable[[Tensor, Tensor, Tensor], Any]


@exercise("2.1")
def weights_by_hand(answer: Sequence[float]) -> str | None:
    """Weights for the scores [0, ln 3, ln 4]: the exponentials are 1, 3 and 4, their sum is 8."""
    given = expect_numbers(answer, "the answer")
    if given.shape != (3,):
        return f"there are three scores, so there are three weights; got shape {tuple(given.shape)}"
    scores = torch.tensor([0.0, math.log(3), math.log(4)], dtype=torch.float64)
    right = torch.softmax(scores, 0)
    if torch.allclose(given, right, atol=5e-4):
        return None
    inexact = rounded(given, right)
    if inexact:
        return f"your weights are {inexact}"
    if torch.allclose(given, scores.exp(), atol=5e-3):
        return "these are the exponentials; divide each by their sum"
    if torch.allclose(given, scores, atol=5e-3):
        return "these are the scores; take the exponential of each, then divide by their sum"
    if torch.allclose(given, scores / scores.sum(), atol=5e-3):
        return "you divided the scores themselves by their sum; take the exponential of each first"
    if torch.allclose(given, torch.softmax(-scores, 0), atol=5e-3):
        return "the order is turned around: the largest score gets the largest weight"
    if torch.allclose(given, torch.softmax(scores / math.sqrt(3), 0), atol=5e-3):
        return "there is nothing to scale here: the scores are given, only the softmax is asked for"
    if torch.allclose(given.sort().values, right, atol=5e-4):
        return "these are the right numbers in the wrong order; weight j belongs to score j"
    if given[0] == 0:
        return "the first weight is not 0: the exponential of 0 is 1"
    if (given < 0).any():
        return "weights are never negative: an exponential is above 0"
    if abs(given.sum() - 1) > 5e-3:
        return f"weights sum to 1; yours sum to {given.sum():.3f}"
    return "the sum is right but the weights are not; exp(ln 3) is 3 and exp(ln 4) is 4"


def _explain_output(
    output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sizes: dict[str, int],
    instead: dict[str, Tensor] | None = None,
) -> str | None:
    """Say what is wrong with an output (..., m, d_v), by the weights it must have come from."""
    right, _ = scaled_dot_product_attention(query, key, value)
    if close(output, right):
        return None
    scores = query @ key.mT
    weights = recover_weights(output, value) if rounded(output, right) is None else None
    found = None if weights is None else explain_weights(weights, scores, sizes=sizes, instead=instead)
    if found:
        return found
    factor, inexact = times(output, right, sizes), rounded(output, right)
    if factor:
        return f"your output is {factor} the right one; a weighted average needs no further factor"
    if inexact:
        return f"your output is {inexact}"
    return (
        "the shape is right, but no weights on the values give these numbers; the largest difference is "
        f"{(output - right).abs().max():.3g}"
    )


@exercise("2.7")
def debug_the_batch(answer: Attention) -> str | None:
    """Attend with any number of axes in front of the queries, keys and values."""
    m, n, d_k, d_v = 13, 7, 5, 11
    for leading in ((2,), (), (2, 3), (1,)):
        sizes = {"d_k": d_k, "d_v": d_v, "n": n, "m": m, "batch": leading[0] if leading else 1}
        query, key, value = random(*leading, m, d_k) / 2, random(*leading, n, d_k), random(*leading, n, d_v)
        shape, where = (*leading, m, d_v), f"with {len(leading)} {'axis' if len(leading) == 1 else 'axes'} in front, "
        output = expect_tensor(call(answer, query, key, value), shape, "(..., m, d_v)")
        found = _explain_output(output, query, key, value, sizes)
        if found:
            return where + found
    return None


def _attend_and_explain(answer: Attention, query: Tensor, key: Tensor, value: Tensor, axes: str) -> str | None:
    shape = (*query.shape[:-1], value.size(-1))
    output = torch.atleast_2d(expect_tensor(call(answer, query, key, value), shape, axes))
    query = torch.atleast_2d(query)
    sizes = {"d_k": key.size(-1), "d_v": value.size(-1), "n": key.size(0), "m": query.size(0)}
    return _explain_output(output, query, key, value, sizes)


@exercise("2.2")
def one_query(answer: Attention) -> str | None:
    """Attend with one query (d_k,), keys (n, d_k) and values (n, d_v)."""
    sizes = ((7, 5, 11), (2, 3, 5))
    wrong = (
        _attend_and_explain(answer, random(d_k) / 2, random(n, d_k), random(n, d_v), "(d_v,)") for n, d_k, d_v in sizes
    )
    return next(filter(None, wrong), None)


@exercise("2.3")
def many_queries(answer: Attention) -> str | None:
    """Attend with queries (m, d_k), keys (n, d_k) and values (n, d_v), and with m = n too."""
    for m, n, d_k, d_v in ((13, 7, 5, 11), (5, 5, 3, 7)):
        query, key, value = random(m, d_k) / 2, random(n, d_k) + 0.1, random(n, d_v)
        wrong = _attend_and_explain(answer, query, key, value, "(m, d_v)")
        if wrong:
            return wrong
    query, key = 200 * query, 100 * key
    large = torch.as_tensor(call(answer, query, key, value), dtype=torch.float64)
    if close(large, scaled_dot_product_attention(query, key, value)[0], 1e-2):  # rough: the answer may be in float32
        return None
    return (
        f"right for small scores, but large ones {'give NaN' if large.isnan().any() else 'give another result'}: "
        "there exp(1000) overflows to infinity and exp(-1000) is 0; subtract the largest score of each row first, "
        "as torch.softmax does"
    )


@exercise("2.4")
def multiplications(answer: Callable[[int, int, int, int], Any]) -> str | None:
    """Count the multiplications of Q Kᵀ and A V for m queries and n keys."""

    def count(*sizes: int) -> float:
        return expect_number(call(answer, *sizes), "the count")

    examples = ((2, 3, 5, 7), (11, 13, 19, 17))
    counts = [count(*sizes) for sizes in examples]
    if all(given == m * n * (d_k + d_v) for given, (m, n, d_k, d_v) in zip(counts, examples, strict=True)):
        return None
    for diagnosis, wrong in _WRONG_COUNTS.items():
        if all(given == wrong(*sizes) for given, sizes in zip(counts, examples, strict=True)):
            return diagnosis
    m, n, d_k, d_v = examples[0]
    first = count(m, n, d_k + 1, d_v) - counts[0] == m * n
    second = count(m, n, d_k, d_v + 1) - counts[0] == m * n
    words = f"for m={m}, n={n}, d_k={d_k}, d_v={d_v} the count is not {counts[0]:g}"
    if first and second:
        return f"{words}: both products are counted, but something else is too, or is left out"
    if first:
        return f"{words}; Q Kᵀ is counted well, A V is not: it has m * d_v entries of n products each"
    if second:
        return f"{words}; A V is counted well, Q Kᵀ is not: it has m * n entries of d_k products each"
    return f"{words}; count the entries of each result, and the products in each entry"


_WRONG_COUNTS: dict[str, Callable[[int, int, int, int], int]] = {
    "that is Q Kᵀ alone; the product with V costs m * n * d_v more": lambda m, n, d_k, d_v: m * n * d_k,
    "that is A V alone; the product Q Kᵀ costs m * n * d_k more": lambda m, n, d_k, d_v: m * n * d_v,
    "that is twice too many; an addition is no multiplication, so count each product of two numbers once": (
        lambda m, n, d_k, d_v: 2 * m * n * (d_k + d_v)
    ),
    "that counts additions too; count the multiplications alone": (
        lambda m, n, d_k, d_v: m * n * (2 * d_k - 1) + m * d_v * (2 * n - 1)
    ),
    "those are the additions; a sum of d_k products takes d_k multiplications": (
        lambda m, n, d_k, d_v: m * n * (d_k - 1) + m * d_v * (n - 1)
    ),
    "that counts the entries of the two results; each entry takes a whole dot product": (
        lambda m, n, d_k, d_v: m * n + m * d_v
    ),
    "both products are costed with d_k; the values have d_v features": lambda m, n, d_k, d_v: 2 * m * n * d_k,
    "both products are costed with d_v; queries and keys have d_k features": lambda m, n, d_k, d_v: 2 * m * n * d_v,
    "queries and keys may differ in number: use m * n, not n * n": lambda m, n, d_k, d_v: n * n * (d_k + d_v),
    "queries and keys may differ in number: use m * n, not m * m": lambda m, n, d_k, d_v: m * m * (d_k + d_v),
    "the two products are done one after the other: add their counts, do not multiply them": (
        lambda m, n, d_k, d_v: m * n * d_k * m * n * d_v
    ),
    "d_k and d_v never meet in one product: add the counts of the two products": (
        lambda m, n, d_k, d_v: m * n * d_k * d_v
    ),
    "there is one dot product for each pair of a query and a key, m * n of them, not m + n": (
        lambda m, n, d_k, d_v: (m + n) * (d_k + d_v)
    ),
    "both products are counted, and the scaling or the softmax too; count the two products alone": (
        lambda m, n, d_k, d_v: m * n * (d_k + d_v + 1)
    ),
}


@exercise("2.5")
def self_attention(answer: Callable[..., Any]) -> str | None:
    """Self-attention of x (n, d_model) through w_q, w_k (d_model, d_k), w_v (d_model, d_v), w_o (d_v, d_model)."""
    n, d_model, d_k, d_v = 3, 11, 5, 7
    x, w_q, w_k = random(n, d_model), random(d_model, d_k) / 4, random(d_model, d_k, seed=1) / 4 + 0.1
    w_v, w_o = random(d_model, d_v), random(d_v, d_model)
    result = call(answer, x, w_q, w_k, w_v, w_o)
    if isinstance(result, Tensor) and tuple(result.shape) == (n, d_v):
        return "the output has d_v features; w_o is missing, which maps it back to d_model"
    result = expect_tensor(result, (n, d_model), "(n, d_model)")
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    sizes = {"d_k": d_k, "d_model": d_model, "d_v": d_v, "n": n}
    instead = {
        "you used w_q for the keys too; keys need w_k": q @ q.T,
        "you used w_k for the queries too; queries need w_q": k @ k.T,
        "you swapped w_q and w_k": k @ q.T,
        "you scored x against itself; project it to queries and keys first": x @ x.T,
    }
    found = _explain_output(result, q, k, v @ w_o, sizes, instead)
    if found and recover_weights(result, v @ w_o) is None:
        return _explain_values(result, x, scaled_dot_product_attention(q, k, v @ w_o)[0]) or found
    return found


def _explain_values(result: Tensor, x: Tensor, right: Tensor) -> str | None:
    """The result is no mix of x @ w_v @ w_o; what else is it?"""
    if close(result, right + x):
        return "you added x itself to the result (a residual connection); it is not asked for here"
    if recover_weights(result, x) is not None:
        return "you averaged x itself; the values are x @ w_v, and w_o maps their average back"
    return None


@exercise("2.6")
def aim(answer: Sequence[float]) -> str | None:
    """Choose a query that gives the second of the keys (1, 0), (0, 1), (-1, 0) at least 0.99 of the weight."""
    key = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    query = expect_numbers(answer, "the query")
    if query.shape != (2,):
        return f"a query has as many features as a key, two; got shape {tuple(query.shape)}"
    if not torch.isfinite(query).all():
        return "the query must be finite; the weight only has to reach 0.99, not 1"
    weights = scaled_dot_product_attention(query[None], key, key)[1][0]
    got = weights[1].item()
    if got >= 0.99:
        return None
    if query.norm() == 0:
        return "the zero query scores all keys alike; point it at the second key"
    if weights.argmax() != 1:
        return f"your query points at another key: the weights are {', '.join(f'{w:.3f}' for w in weights)}"
    if query[0].abs() > 0.1 * query[1].abs():
        return f"the second key gets the most, {got:.4f}, but part of your query points at another key"
    return f"the direction is right, but the weight is only {got:.4f}: make the query longer"
