"""The exercises of chapter 2."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..functional import scaled_dot_product_attention
from .reading import explain_output, recover_weights, weights_alike
from .results import alike, close, expect_number, numbers, random, same_shape, tensor, within
from .running import call
from .table import Case, Exercise, Read, Slip, shaped
from .turns import turn

SAT_GIVES_CAT = turn(
    "The score of sat and cat is 4/√2 = 2.83, all five others are 0. What weight does sat give cat?",
    0.772,
    {
        0.916: "that is the weight without the root: divide the score 4 by √2 before the softmax",
        1 / 6: "that is the plain average; the softmax takes the exponential of each score first",
        2.828: "that is the score; take its exponential, and divide by the sum of all six exponentials",
        16.92: "that is the exponential of the score; divide it by the sum of all six exponentials",
        16.92 / 5: "divide by the sum of all six exponentials, that of cat included",
        0.046: "that is the weight of each of the other words",
    },
)

SECOND_QUERY = turn(
    "The query (0, 1, 0) asks the keys (1, 1, 0), (0, 1, 1) and (1, 0, 1). What weight does it give the third?",
    0.219,
    {
        1 / (1 + 2 * math.e): "that is the weight without the root: divide the dot products by √3 before the softmax",
        1 / (1 + 2 * math.exp(1 / 3)): "you divided by d_k, which is 3; divide by its square root",
        0.0: "the score of the third key is 0, but its exponential is 1; divide that by the sum of all three",
        1.0: "that is the exponential of the score; divide it by the sum of all three exponentials",
        0.39: "that is the weight of the first key, and of the second; the third key is at a right angle to the query",
        1 / 3: "that is the plain average; the first two keys match the query, and the third does not",
        0.471: "that is what the query (1, 0, 1) gives the third key; here the query is (0, 1, 0)",
    },
)

WEIGHTED_AVERAGE = Exercise(
    asks="What sat learns (furry, flat, soft) with the weight 3/4 on cat and 1/20 on each of the other five words.",
    right=[0.75, 0.05, 0.4],
    returns=numbers("the output", "a word learns three features: furry, flat, soft"),
    same=within(5e-3),
    like=within(5e-3),
    rounding=False,
    slips=[
        Slip("that is the plain average, with the weight 1/6 on each word", [1 / 6, 1 / 6, 1 / 6]),
        Slip("that is the sum without weights; multiply each word's numbers by its weight first", [1, 1, 1]),
        Slip("you left out mat: it has the weight 1/20, and its numbers are 0, 1 and 1/2", [0.75, 0, 0.375]),
        Slip("those are the numbers of cat; multiply them by 3/4, and add 1/20 of those of mat", [1, 0, 0.5]),
        Slip("that gives mat the weight 3/4 and cat 1/20; it is the other way round", [0.05, 0.75, 0.4]),
        Slip("both cat and mat are soft by 1/2, not by 1", [0.75, 0.05, 0.8]),
        Slip("the weights sum to 1 already: do not divide by 6 as well", [0.125, 0.05 / 6, 0.4 / 6]),
    ],
    rest="each number is 3/4 of that of cat plus 1/20 of that of mat; the other words have zeros",
)

THE_MAT_SAT = Exercise(
    asks="What sat learns (furry, flat, soft) in the sentence: the mat sat on the cat.",
    right=[0.7719, 0.0456, 0.4088],
    returns=numbers("the output", "a word learns three features: furry, flat, soft"),
    same=within(5.1e-3),
    like=within(5.1e-3),
    rounding=False,
    slips=[
        Slip("sat asks for an animal, not for the word before it; that is still cat", [0.0456, 0.7719, 0.4088]),
        Slip("that is the plain average; sat still asks for an animal", [1 / 6, 1 / 6, 1 / 6]),
        Slip("those are the numbers of cat; the other five words keep a little weight each", [1, 0, 0.5]),
        Slip("those are the numbers of mat; sat asks for an animal, and gives cat the most weight", [0, 1, 0.5]),
        Slip("divide the scores by √d_k, which is √2, before the softmax", [0.9161, 0.0168, 0.4664]),
        Slip("you left out mat: it keeps a weight of 0.05, and is flat and soft", [0.7719, 0, 0.386]),
    ],
    rest="embed the new sentence, project it, and take row 2 of the output",
)

SCORES = [0.0, math.log(3), math.log(4)]


def _explain_weights_by_hand(got: Tensor, right: Any) -> str | None:
    if got[0] == 0:
        return "the first weight is not 0: the exponential of 0 is 1"
    if (got < 0).any():
        return "weights are never negative: an exponential is above 0"
    if abs(got.sum() - 1) > 5e-3:
        return f"weights sum to 1; yours sum to {got.sum():.3f}"
    return None


WEIGHTS_BY_HAND = Exercise(
    asks="The weights for the scores 0, ln 3 and ln 4: their exponentials are 1, 3 and 4, which sum to 8.",
    right=[1 / 8, 3 / 8, 4 / 8],
    returns=numbers("the weights", "there are three scores, so there are three weights"),
    same=within(5e-4),
    like=within(5e-3),
    slips=[
        Slip("these are the exponentials; divide each by their sum", [1, 3, 4]),
        Slip("these are the scores; take the exponential of each, then divide by their sum", SCORES),
        Slip(
            "you divided the scores themselves by their sum; take the exponential of each first",
            [0, math.log(3) / math.log(12), math.log(4) / math.log(12)],
        ),
        Slip("the order is reversed: the largest score gets the largest weight", [12 / 19, 4 / 19, 3 / 19]),
        Slip(
            "no scaling is needed here: the scores are given, and only the softmax is asked for",
            [weight / (1 + 3**3**-0.5 + 4**3**-0.5) for weight in (1, 3**3**-0.5, 4**3**-0.5)],
        ),
        Slip(
            "these are the right numbers in the wrong order; weight j belongs to score j",
            [1 / 2, 3 / 8, 1 / 8],
            like=lambda got, wrong: not isinstance(got, float | int) and alike(sorted(got), sorted(wrong)),
        ),
        Read("the first weight is not 0: the exponential of 0 is 1", [0, 3 / 7, 4 / 7]),
        Read("weights are never negative: an exponential is above 0", [-0.1, 0.5, 0.6]),
        Read("weights sum to 1; yours sum to 1.100", [0.1, 0.4, 0.6]),
    ],
    explain=_explain_weights_by_hand,
    rest="the sum is right but the weights are not; exp(ln 3) is 3 and exp(ln 4) is 4",
)


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(torch.atleast_2d(q), k, v)[0].view(*q.shape[:-1], v.size(-1))


def _weighing(weigh: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return an answer whose weights are weigh(raw scores, key, value)."""
    return lambda q, k, v: weigh((k @ q[..., None])[..., 0] if q.dim() == 1 else q @ k.mT, k, v) @ v


def _scaled(factor: Callable[[Tensor, Tensor], float]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return an answer whose scores are multiplied by factor(key, value)."""
    return _weighing(lambda scores, k, v: (scores * factor(k, v)).softmax(-1))


def _root(k: Tensor) -> float:
    return math.sqrt(k.size(-1))


# Read off the weights, in all of these exercises.
SCALES = [
    Read("you did not scale them", _scaled(lambda k, v: 1.0), mistake=2),
    Read("you divided by d_k, not by its square root", _scaled(lambda k, v: 1 / k.size(-1)), mistake=3),
    Read("you multiplied by sqrt(d_k)", _scaled(lambda k, v: _root(k))),
    Read("you divided by sqrt(d_v)", _scaled(lambda k, v: v.size(-1) ** -0.5)),
    Read("you divided by sqrt(n)", _scaled(lambda k, v: k.size(-2) ** -0.5), mistake=2),
    Read("in effect you divided by 8", _scaled(lambda k, v: 1 / 8)),
]


def _explain_attention(output: Tensor, right: Tensor, q: Tensor, k: Tensor, v: Tensor) -> str | None:
    q, output, right = torch.atleast_2d(q), torch.atleast_2d(output), torch.atleast_2d(right)
    sizes = {"d_k": k.size(-1), "d_v": v.size(-1), "n": k.size(-2), "m": q.size(-2)}
    if k.dim() > 2:
        sizes["batch"] = len(k)
    return explain_output(output, right, q, k, v, sizes)


def _explain_large_scores(answer: Any) -> str | None:
    query, key, value = MANY_QUERIES.cases[-1].inputs
    query, key = 200 * query, 100 * key
    large = torch.as_tensor(call(answer, query, key, value), dtype=torch.float64)
    if close(large, _attend(query, key, value), 1e-2):  # rough: the answer may be in float32
        return None
    return (
        f"right for small scores, but large ones {'give NaN' if large.isnan().any() else 'give another result'}: "
        "there exp(1000) overflows to infinity and exp(-1000) is 0; subtract the largest score of each row first, "
        "as torch.softmax does"
    )


MANY_QUERIES = Exercise(
    asks="Attention of queries (m, d_k) over keys (n, d_k) and values (n, d_v).",
    right=_attend,
    returns=tensor("(m, d_v)"),
    cases=[
        Case((random(m, d_k) / 2, random(n, d_k) + 0.1, random(n, d_v)))
        for m, n, d_k, d_v in ((13, 7, 5, 11), (5, 5, 3, 7))
    ],
    slips=[
        *SCALES,
        Read("down the columns", _weighing(lambda scores, k, v: (scores / _root(k)).softmax(0)), mistake=5),
        Read(
            "your softmax runs over the whole matrix at once",
            _weighing(lambda scores, k, v: (scores / _root(k)).flatten().softmax(0).view_as(scores)),
            mistake=5,
        ),
        Read(
            "all queries get the same weights",
            _weighing(lambda scores, k, v: (scores / _root(k)).softmax(-1)[:1].expand_as(scores)),
        ),
        Read(
            "in effect another number was added to the scores of each key",
            _weighing(lambda scores, k, v: ((scores - scores.amax(0)) / _root(k)).softmax(-1)),
        ),
        Read(
            "some keys get no weight",
            lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        ),
        Read(
            "large ones give NaN",
            _weighing(lambda s, k, v: (s / _root(k)).exp() / (s / _root(k)).exp().sum(1, keepdim=True)),
        ),
        Read("large ones give another result", _weighing(lambda s, k, v: (s / _root(k)).clamp(max=50).softmax(-1))),
    ],
    explain=_explain_attention,
    further=[_explain_large_scores],
)


def _leading_axes(*leading: int) -> Case:
    m, n, d_k, d_v = 13, 7, 5, 11
    inputs = random(*leading, m, d_k) / 2, random(*leading, n, d_k), random(*leading, n, d_v)
    return Case(inputs, f"with {len(leading)} {'axis' if len(leading) == 1 else 'axes'} in front, {{found}}")


DEBUG_THE_BATCH = Exercise(
    asks="Attention with any number of axes in front of the queries, keys and values.",
    right=_attend,
    returns=tensor("(..., m, d_v)"),
    cases=[_leading_axes(2), _leading_axes(), _leading_axes(2, 3), _leading_axes(1)],
    slips=[
        *SCALES[:2],
        Read(
            "with 1 axis in front, your softmax runs over the queries",
            _weighing(lambda scores, k, v: (scores / _root(k)).softmax(1)),
            mistake=5,
        ),
        Read(
            "with 2 axes in front, your softmax runs over",
            _weighing(lambda scores, k, v: (scores / _root(k)).softmax(min(2, scores.dim() - 1))),
            mistake=5,
        ),
        Read(
            "your softmax runs over axis 0", _weighing(lambda scores, k, v: (scores / _root(k)).softmax(0)), mistake=5
        ),
        Read("you divided by sqrt(batch)", _scaled(lambda k, v: len(k) ** -0.5)),
        Read("you divided by sqrt(m)", lambda q, k, v: _scaled(lambda k, v: q.size(-2) ** -0.5)(q, k, v)),
    ],
    explain=_explain_attention,
)


def _ask_for_counts(answer: Callable[..., Any], m: int, n: int, d_k: int, d_v: int) -> list[float]:
    """The count; what it grows to with one feature more of queries and keys, or of values; and with the two swapped."""
    sizes = ((m, n, d_k, d_v), (m, n, d_k + 1, d_v), (m, n, d_k, d_v + 1), (m, n, d_v, d_k))
    return [expect_number(call(answer, *some), "the count") for some in sizes]


def _explain_count(got: Tensor, right: Any, m: int, n: int, d_k: int, d_v: int) -> str:
    words = f"for m={m}, n={n}, d_k={d_k}, d_v={d_v} the count is not {got[0]:g}"
    scores, averages = (got[1:3] - got[0] == m * n).tolist()
    if scores and averages:
        return f"{words}: both products are counted, but something else is too, or is left out"
    if scores:
        return f"{words}; Q Kᵀ is counted correctly, A V is not: it has m * d_v entries of n products each"
    if averages:
        return f"{words}; A V is counted correctly, Q Kᵀ is not: it has m * n entries of d_k products each"
    return f"{words}; count the entries of each result, and the products in each entry"


MULTIPLICATIONS = Exercise(
    asks="The number of multiplications of Q Kᵀ and A V for m queries and n keys.",
    right=lambda m, n, d_k, d_v: m * n * (d_k + d_v),
    returns=numbers("the counts", "there is one count"),
    ask=_ask_for_counts,
    cases=[Case((2, 3, 5, 7)), Case((11, 13, 19, 17))],
    slips=[
        Slip("that is Q Kᵀ alone; the product with V costs m * n * d_v more", lambda m, n, d_k, d_v: m * n * d_k),
        Slip("that is A V alone; the product Q Kᵀ costs m * n * d_k more", lambda m, n, d_k, d_v: m * n * d_v),
        Slip(
            "that is twice the right number; count each product of two numbers once, and no additions",
            lambda m, n, d_k, d_v: 2 * m * n * (d_k + d_v),
        ),
        Slip(
            "that counts additions too; count the multiplications alone",
            lambda m, n, d_k, d_v: m * n * (2 * d_k - 1) + m * d_v * (2 * n - 1),
        ),
        Slip(
            "those are the additions; a sum of d_k products takes d_k multiplications",
            lambda m, n, d_k, d_v: m * n * (d_k - 1) + m * d_v * (n - 1),
        ),
        Slip(
            "that counts the entries of the two results; each entry takes a whole dot product",
            lambda m, n, d_k, d_v: m * n + m * d_v,
        ),
        Slip(
            "both products are counted with d_k; the values have d_v features", lambda m, n, d_k, d_v: 2 * m * n * d_k
        ),
        Slip(
            "both products are counted with d_v; queries and keys have d_k features",
            lambda m, n, d_k, d_v: 2 * m * n * d_v,
        ),
        Slip("queries and keys may differ in number: use m * n, not n * n", lambda m, n, d_k, d_v: n * n * (d_k + d_v)),
        Slip("queries and keys may differ in number: use m * n, not m * m", lambda m, n, d_k, d_v: m * m * (d_k + d_v)),
        Slip(
            "the two products are done one after the other: add their counts, do not multiply them",
            lambda m, n, d_k, d_v: m * n * d_k * m * n * d_v,
        ),
        Slip(
            "d_k and d_v never meet in one product: add the counts of the two products",
            lambda m, n, d_k, d_v: m * n * d_k * d_v,
        ),
        Slip(
            "there is one dot product for each pair of a query and a key, m * n of them, not m + n",
            lambda m, n, d_k, d_v: (m + n) * (d_k + d_v),
        ),
        Slip(
            "both products are counted, and the scaling or the softmax too; count the two products alone",
            lambda m, n, d_k, d_v: m * n * (d_k + d_v + 1),
        ),
        Read("A V is not: it has m * d_v entries", lambda m, n, d_k, d_v: m * n * d_k + m * d_v),
        Read("Q Kᵀ is not: it has m * n entries", lambda m, n, d_k, d_v: m * n * max(d_k, d_v)),
    ],
    explain=_explain_count,
)


def _self_attention(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor) -> Tensor:
    return _attend(x @ w_q, x @ w_k, x @ w_v) @ w_o


def _self_weighing(weigh: Callable[[Tensor, int, int], Tensor]) -> Callable[..., Tensor]:
    """Return an answer whose weights are weigh(raw scores, d_k, d_model)."""

    def answer(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor) -> Tensor:
        return weigh(x @ w_q @ (x @ w_k).T, w_k.size(1), x.size(1)) @ (x @ w_v) @ w_o

    return answer


def _explain_self_attention(
    output: Tensor, right: Tensor, x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor
) -> str | None:
    if recover_weights(output, x @ w_v @ w_o) is None and recover_weights(output, x) is not None:
        return "you averaged x itself; the values are x @ w_v, and w_o maps their average back"
    sizes = {"d_k": w_k.size(1), "d_model": x.size(1), "d_v": w_v.size(1), "n": len(x)}
    return explain_output(output, right, x @ w_q, x @ w_k, x @ w_v @ w_o, sizes)


def _same_weights(got: Tensor, wrong: Tensor, x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor) -> bool:
    """Whether two outputs come from the same scores, whatever the factor on them."""
    return same_shape(got, wrong) and weights_alike(
        *(recover_weights(output, x @ w_v @ w_o) for output in (got, wrong))
    )


SELF_ATTENTION = Exercise(
    asks="Self-attention of x (n, d_model) through w_q, w_k (d_model, d_k), w_v (d_model, d_v) and w_o (d_v, d_model).",
    right=_self_attention,
    returns=tensor("(n, d_model)"),
    cases=[Case((random(3, 11), random(11, 5) / 4, random(11, 5, seed=1) / 4 + 0.1, random(11, 7), random(7, 11)))],
    slips=[
        shaped(
            "the output has d_v features; w_o is missing, which maps it back to d_model",
            lambda x, w_q, w_k, w_v, w_o: _attend(x @ w_q, x @ w_k, x @ w_v),
        ),
        Slip(
            "you used w_q for the keys too; keys need w_k",
            lambda x, w_q, w_k, w_v, w_o: _self_attention(x, w_q, w_q, w_v, w_o),
            like=_same_weights,
        ),
        Slip(
            "you used w_k for the queries too; queries need w_q",
            lambda x, w_q, w_k, w_v, w_o: _self_attention(x, w_k, w_k, w_v, w_o),
            like=_same_weights,
        ),
        Slip(
            "you swapped w_q and w_k",
            lambda x, w_q, w_k, w_v, w_o: _self_attention(x, w_k, w_q, w_v, w_o),
            like=_same_weights,
        ),
        Slip(
            "you scored x against itself; project it to queries and keys first",
            lambda x, w_q, w_k, w_v, w_o: _attend(x, x, x @ w_v) @ w_o,
            like=_same_weights,
        ),
        Slip(
            "you added x itself to the result (a residual connection); it is not asked for here",
            lambda x, *w: x + _self_attention(x, *w),
        ),
        Read("you averaged x itself", lambda x, w_q, w_k, w_v, w_o: _attend(x @ w_q, x @ w_k, x)),
        Read(
            "you divided by sqrt(d_model)",
            _self_weighing(lambda scores, d_k, d_model: (scores / math.sqrt(d_model)).softmax(-1)),
            mistake=1,
        ),
        Read("you did not scale them", _self_weighing(lambda scores, d_k, d_model: scores.softmax(-1)), mistake=2),
        Read(
            "you divided by d_k, not by its square root",
            _self_weighing(lambda scores, d_k, d_model: (scores / d_k).softmax(-1)),
            mistake=3,
        ),
        Read(
            "your softmax runs over the queries",
            _self_weighing(lambda scores, d_k, d_model: (scores / math.sqrt(d_k)).softmax(0)),
            mistake=5,
        ),
        Read("the positions are never mixed", lambda x, w_q, w_k, w_v, w_o: x @ w_v @ w_o),
        Read(
            "your weights are transposed",
            _self_weighing(lambda scores, d_k, d_model: (scores / math.sqrt(d_k)).softmax(1).T),
        ),
        Read("each row sums to 0.333 = 1/n in place of 1", lambda x, *w: _self_attention(x, *w) / len(x)),
    ],
    explain=_explain_self_attention,
)

KEYS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)


def _weights_for(query: Tensor) -> Tensor:
    return scaled_dot_product_attention(query[None], KEYS, KEYS)[1][0]


def _aimed(query: Tensor, right: Any) -> bool:
    return bool(query.isfinite().all() and _weights_for(query)[1] >= 0.99)


def _explain_aim(query: Tensor, right: Any) -> str:
    if not query.isfinite().all():
        return "the query must be finite; the weight only has to reach 0.99, not 1"
    if query.norm() == 0:
        return "the zero query scores all keys alike; point it at the second key"
    weights = _weights_for(query)
    if weights.argmax() != 1:
        return f"your query points at another key: the weights are {', '.join(f'{w:.3f}' for w in weights)}"
    if query[0].abs() > 0.1 * query[1].abs():
        return f"the second key gets the most, {weights[1]:.4f}, but part of your query points at another key"
    return f"the direction is right, but the weight is only {weights[1]:.4f}: make the query longer"


AIM = Exercise(
    asks="A query that gives the second of the keys (1, 0), (0, 1) and (-1, 0) at least 0.99 of the weight.",
    right=[0, 10],
    returns=numbers("the query", "a query has as many features as a key, two"),
    same=_aimed,
    rounding=False,
    slips=[
        Read("make the query longer", [0.0, 3.0]),
        Read("the zero query scores all keys alike", [0.0, 0.0]),
        Read("your query points at another key: the weights are", [9.0, 1.0]),
        Read("part of your query points at another key", [4.0, 8.0]),
        Read("the query must be finite", [0.0, math.inf]),
    ],
    explain=_explain_aim,
)
