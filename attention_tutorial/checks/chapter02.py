"""Checkers of chapter 2's exercises. Each returns None for a right answer, else a diagnosis in words."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..functional import scaled_dot_product_attention
from . import exercise

Attention = Callable[[Tensor, Tensor, Tensor], Any]


def _close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a.double(), b.double(), atol=1e-6)


def _random(*shape: int) -> Tensor:
    """Draw numbers that are the same at every call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def _not_a_result(result: Any, shape: tuple[int, ...], axes: str) -> str | None:
    """Say what is wrong with the kind of thing that came back, before its numbers are looked at."""
    if result is None or result is Ellipsis:
        raise NotImplementedError
    if isinstance(result, tuple):
        return "return the output alone, not a tuple"
    if not isinstance(result, Tensor):
        return f"return a tensor; got {type(result).__name__}"
    if tuple(result.shape) != shape:
        return f"the output must have shape {axes}, here {shape}; got {tuple(result.shape)}"
    if not torch.isfinite(result).all():
        return "the output holds NaN or infinity"
    return None


@exercise("2.1")
def weights_by_hand(answer: Sequence[float]) -> str | None:
    """Weights for the scores [0, ln 3, ln 4]: the exponentials are 1, 3 and 4, their sum is 8."""
    given = torch.as_tensor(answer, dtype=torch.float64)
    if given.shape != (3,):
        return f"there are three scores, so there are three weights; got shape {tuple(given.shape)}"
    scores = torch.tensor([0.0, math.log(3), math.log(4)], dtype=torch.float64)
    if torch.allclose(given, torch.softmax(scores, 0), atol=5e-4):
        return None
    if torch.allclose(given, scores.exp(), atol=5e-3):
        return "these are the exponentials; divide each by their sum"
    if torch.allclose(given, scores / scores.sum(), atol=5e-3):
        return "you divided the scores themselves by their sum; take the exponential of each first"
    if abs(given.sum() - 1) > 5e-3:
        return f"weights sum to 1; yours sum to {given.sum():.3f}"
    return "the sum is right but the weights are not; exp(ln 3) is 3 and exp(ln 4) is 4"


def _wrong_recipes(query: Tensor, key: Tensor, value: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Tempting wrong outputs for query (m, d_k), key (n, d_k), value (n, d_v), by what to say about them."""
    scores = query @ key.T
    (m, d_k), n, d_v = query.shape, key.size(0), value.size(1)
    scaled = scores / math.sqrt(d_k)
    return {
        "your scores are too large by a factor of sqrt(d_k): divide them by sqrt(d_k) before the softmax": lambda: (
            scores.softmax(-1) @ value
        ),
        "your weights are too flat: you divided by d_k, divide by its square root": lambda: (
            (scores / d_k).softmax(-1) @ value
        ),
        "you multiplied by sqrt(d_k), divide by it": lambda: (scores * math.sqrt(d_k)).softmax(-1) @ value,
        "you divided by sqrt(d_v); it is the width of queries and keys, d_k, that counts": lambda: (
            (scores / math.sqrt(d_v)).softmax(-1) @ value
        ),
        "you divided by the square root of the number of keys; it is d_k that counts": lambda: (
            (scores / math.sqrt(n)).softmax(-1) @ value
        ),
        "your softmax runs over the queries (down the columns); it must run over the keys, along each row": lambda: (
            scaled.softmax(0) @ value
        ),
        "your softmax runs over the whole matrix at once; each row must sum to 1 by itself": lambda: (
            scaled.flatten().softmax(0).view(m, n) @ value
        ),
        "your weights do not sum to 1: the softmax is missing": lambda: scaled @ value,
        "you took the one best value; attention blends all of them by their weights": lambda: value[scaled.argmax(-1)],
        "you averaged the values evenly; the weights must come from the scores": lambda: value.mean(
            0, keepdim=True
        ).expand(m, d_v),
        "you divided after the softmax; divide the scores before it": lambda: (
            scores.softmax(-1) / math.sqrt(d_k) @ value
        ),
        "you divided the exponentials by their sum over the queries": lambda: (
            scaled.exp() / scaled.exp().sum(0) @ value
        ),
    }


def _diagnose_output(result: Tensor, query: Tensor, key: Tensor, value: Tensor) -> str | None:
    expected, _ = scaled_dot_product_attention(query, key, value)
    if _close(result, expected):
        return None
    for diagnosis, recipe in _wrong_recipes(query, key, value).items():
        if _close(result, recipe()):
            return diagnosis
    error = (result - expected).abs().max().item()
    return f"the shape is right, but the numbers are not; the largest difference is {error:.3g}"


def _diagnose_attention(answer: Attention, query: Tensor, key: Tensor, value: Tensor, axes: str) -> str | None:
    """Run an answer on one input and say what is wrong with what came back."""
    inputs = query, key, value
    before = [x.clone() for x in inputs]
    result = answer(*inputs)
    wrong = _not_a_result(result, (*query.shape[:-1], value.size(-1)), axes)
    if wrong:
        return wrong
    if not all(torch.equal(a, b) for a, b in zip(inputs, before, strict=True)):
        return "your function changed its arguments; work on new tensors"
    return _diagnose_output(torch.atleast_2d(result), torch.atleast_2d(query), key, value)


@exercise("2.2")
def one_query(answer: Attention) -> str | None:
    """Attend with one query (d_k,), keys (n, d_k) and values (n, d_v)."""
    return _diagnose_attention(answer, _random(5), _random(7, 5), _random(7, 3), "(d_v,)")


@exercise("2.3")
def many_queries(answer: Attention) -> str | None:
    """Attend with queries (m, d_k), keys (n, d_k) and values (n, d_v), and with m = n too."""
    for m, n, d_k, d_v in ((3, 7, 5, 2), (5, 5, 5, 3)):
        query, key, value = _random(m, d_k), _random(n, d_k) + 0.1, _random(n, d_v)
        wrong = _diagnose_attention(answer, query, key, value, "(m, d_v)")
        if wrong:
            return wrong
    query, key = 100 * query, 100 * key
    if not _close(answer(query, key, value), scaled_dot_product_attention(query, key, value)[0]):
        return "right for small scores, but large ones overflow: exp(1000) is infinite; torch.softmax avoids it"
    return None


@exercise("2.4")
def multiplications(answer: Callable[[int, int, int, int], Any]) -> str | None:
    """Count the multiplications of Q Kᵀ and A V for m queries and n keys."""
    for m, n, d_k, d_v in ((2, 3, 5, 7), (11, 13, 17, 19)):
        result = answer(m, n, d_k, d_v)
        if result is None or result is Ellipsis:
            raise NotImplementedError
        right = m * n * d_k + m * n * d_v
        wrong = {
            "that is Q Kᵀ alone; the product with V costs m * n * d_v more": m * n * d_k,
            "that is A V alone; the product Q Kᵀ costs m * n * d_k more": m * n * d_v,
            "that counts additions too; count each multiplication once": 2 * right,
            "that counts the entries of the two results; each entry takes a whole dot product": m * n + m * d_v,
            "both products are costed with d_k; the values have d_v features": 2 * m * n * d_k,
            "queries and keys may differ in number: use m * n, not n * n": n * n * (d_k + d_v),
        }
        if result != right:
            for diagnosis, number in wrong.items():
                if result == number:
                    return diagnosis
            return f"for m={m}, n={n}, d_k={d_k}, d_v={d_v} the count is not {result}"
    return None


@exercise("2.5")
def self_attention(answer: Callable[..., Any]) -> str | None:
    """Self-attention of x (n, d_model) through w_q, w_k (d_model, d_k), w_v (d_model, d_v), w_o (d_v, d_model)."""
    n, d_model, d_k, d_v = 7, 5, 3, 2
    x, w_q, w_k = _random(n, d_model), _random(d_model, d_k), _random(d_model, d_k) + 0.3
    w_v, w_o = _random(d_model, d_v), _random(d_v, d_model)
    result = answer(x, w_q, w_k, w_v, w_o)
    if isinstance(result, Tensor) and tuple(result.shape) == (n, d_v):
        return "the output has d_v features; w_o is missing, which maps it back to d_model"
    wrong = _not_a_result(result, (n, d_model), "(n, d_model)")
    if wrong:
        return wrong

    def attend(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
        return scaled_dot_product_attention(q, k, v, scale=scale)[0] @ w_o

    q, k, v = x @ w_q, x @ w_k, x @ w_v
    if _close(result, attend(q, k, v)):
        return None
    wrong_outputs = {
        "you divided by sqrt(d_model); queries and keys have d_k features, divide by sqrt(d_k)": attend(
            q, k, v, scale=d_model**-0.5
        ),
        "you did not divide the scores by sqrt(d_k)": attend(q, k, v, scale=1.0),
        "you divided by d_k; divide by its square root": attend(q, k, v, scale=1 / d_k),
        "you used w_q for the keys too; keys need w_k": attend(q, q, v),
        "you used w_k for the queries too; queries need w_q": attend(k, k, v),
        "you swapped w_q and w_k": attend(k, q, v),
        "you divided by sqrt(d_v); divide by sqrt(d_k)": attend(q, k, v, scale=d_v**-0.5),
        "your softmax runs over the queries; it must run over the keys": (
            (q @ k.T / math.sqrt(d_k)).softmax(0) @ v @ w_o
        ),
    }
    for diagnosis, output in wrong_outputs.items():
        if _close(result, output):
            return diagnosis
    return "the shape is right, but the numbers are not; check each projection in turn"


@exercise("2.6")
def aim(answer: Sequence[float]) -> str | None:
    """Choose a query that gives the second of the keys (1, 0), (0, 1), (-1, 0) at least 0.99 of the weight."""
    key = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    query = torch.as_tensor(answer, dtype=torch.float64)
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
        return f"the second key gets the most, {got:.3f}, but part of your query points at another key"
    return f"the direction is right, but the weight is only {got:.3f}: make the query longer"
