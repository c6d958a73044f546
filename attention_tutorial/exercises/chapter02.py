"""The exercises of chapter 2."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..functional import scaled_dot_product_attention
from .parse import expect_numbers, number, numbers, random, same, tensor
from .runner import Mistake, call
from .table import Case, Exercise, WrongAnswer, quick_question

SAT_GIVES_CAT = quick_question(
    "The score of sat and cat is 4/√2 = 2.83, all five others are 0. What weight does sat give cat?",
    0.772,
    {
        0.916: "that is the weight without the root: divide the score 4 by √2 before the softmax",
        1 / 6: "that is the plain average; the softmax takes the exponential of each score first",
        2.828: "that is the score; take its exponential, and divide by the sum of all six exponentials",
        16.92: "that is the exponential of the score; divide it by the sum of all six exponentials",
        0.046: "that is the weight of each of the other words",
    },
)

SECOND_QUERY = quick_question(
    "The query (0, 1, 0) asks the keys (1, 1, 0), (0, 1, 1) and (1, 0, 1). What weight does it give the third?",
    0.219,
    {
        1 / (1 + 2 * math.e): "that is the weight without the root: divide the dot products by √3 before the softmax",
        1 / (1 + 2 * math.exp(1 / 3)): "you divided by d_k, which is 3; divide by its square root",
        0.0: "the score of the third key is 0, but its exponential is 1; divide that by the sum of all three",
        1.0: "that is the exponential of the score; divide it by the sum of all three exponentials",
        1 / 3: "that is the plain average; the first two keys match the query, and the third does not",
    },
)

WEIGHTED_AVERAGE = quick_question(
    "Sat gives cat the weight 3/4 and each of the other five words 1/20. What does it receive: furry, flat, soft?",
    [0.75, 0.05, 0.4],
    {
        (1 / 6, 1 / 6, 1 / 6): "that is the plain average, with the weight 1/6 on each word",
        (0.75, 0, 0.375): "you left out mat: it has the weight 1/20, and its numbers are 0, 1 and 1/2",
        (1, 0, 0.5): "those are the numbers of cat; multiply them by 3/4, and add 1/20 of those of mat",
        (0.05, 0.75, 0.4): "that gives mat the weight 3/4 and cat 1/20; it is the other way round",
        (0.75, 0.05, 0.8): "cat and mat are only half soft: multiply 3/4 and 1/20 by 1/2 before you add them",
    },
    fallback_message="each number is 3/4 of that of cat plus 1/20 of that of mat; the other words have zeros",
)

THE_MAT_SAT = quick_question(
    "In the sentence: the mat sat on the cat, what does sat receive: furry, flat, soft?",
    [0.7719, 0.0456, 0.4088],
    {
        (0.0456, 0.7719, 0.4088): "sat asks for an animal, not for the word before it; that is still cat",
        (1, 0, 0.5): "those are the numbers of cat; the other five words keep a little weight each",
        (0.9161, 0.0168, 0.4664): "divide the scores by √d_k, which is √2, before the softmax",
        (0.7719, 0, 0.386): "you left out mat: it keeps a weight of 0.05, and is flat and soft",
        (1 / 6, 1 / 6, 1 / 6): "that is the plain average; sat still asks for an animal, and finds one",
    },
    fallback_message="which word is an animal, and what weight did sat give it before? Where it stands plays no part",
)

WEIGHTS_BY_HAND = quick_question(
    "What weights does the softmax give to the scores 0, ln 3 and ln 4? Their exponentials are 1, 3 and 4.",
    [1 / 8, 3 / 8, 4 / 8],
    {
        (1, 3, 4): "these are the exponentials; divide each by their sum",
        (0, 1.0986, 1.3863): "these are the scores; take the exponential of each, then divide by their sum",
        (0, 0.4421, 0.5579): "you divided the scores themselves by their sum; take the exponential of each first",
        (0.1956, 0.3689, 0.4355): "no scaling is needed here: the scores are given, and only the softmax is asked for",
        (1 / 2, 3 / 8, 1 / 8): "these are the right numbers in the wrong order; weight j belongs to score j",
        (0, 3 / 7, 4 / 7): "the first weight is not 0: the exponential of 0 is 1",
    },
    fallback_message="the exponentials of the scores are divided by their sum; exp(ln 3) is 3 and exp(ln 4) is 4",
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


SCALES = [
    WrongAnswer("you did not scale the scores; divide them by sqrt(d_k)", _scaled(lambda k, v: 1.0), mistake=2),
    WrongAnswer(
        "you divided the scores by d_k; divide by its square root", _scaled(lambda k, v: 1 / k.size(-1)), mistake=3
    ),
]


def _large_scores(answer: Any) -> str | None:
    query, key, value = MANY_QUERIES.cases[-1].inputs
    query, key = 200 * query, 100 * key
    large = torch.as_tensor(call(answer, query, key, value), dtype=torch.float64)
    if same(large, _attend(query, key, value), 1e-2):  # rough: the answer may be in float32
        return None
    return (
        f"right for small scores, but large ones {'give NaN' if large.isnan().any() else 'give another result'}: "
        "there exp(1000) overflows to infinity and exp(-1000) is 0; subtract the largest score of each row first, "
        "as torch.softmax does"
    )


MANY_QUERIES = Exercise(
    prompt="Attention of queries (m, d_k) over keys (n, d_k) and values (n, d_v).",
    right=_attend,
    returns=tensor("(m, d_v)"),
    cases=[
        Case((random(m, d_k) / 2, random(n, d_k) + 0.1, random(n, d_v)))
        for m, n, d_k, d_v in ((13, 7, 5, 11), (5, 5, 3, 7))
    ],
    wrong_answers=[
        *SCALES,
        WrongAnswer(
            "your softmax runs over the queries (down the columns); it must run over the keys, along each row",
            _weighing(lambda scores, k, v: (scores / _root(k)).softmax(0)),
            mistake=5,
        ),
        WrongAnswer(
            "right for small scores, but large ones give NaN",
            _weighing(lambda s, k, v: (s / _root(k)).exp() / (s / _root(k)).exp().sum(1, keepdim=True)),
        ),
    ],
    extra_checks=[_large_scores],
)


def _leading_axes(*leading: int) -> Case:
    m, n, d_k, d_v = 13, 7, 5, 11
    inputs = random(*leading, m, d_k) / 2, random(*leading, n, d_k), random(*leading, n, d_v)
    return Case(inputs, f"with {len(leading)} {'axis' if len(leading) == 1 else 'axes'} in front, {{found}}")


DEBUG_THE_BATCH = Exercise(
    prompt="Attention with any number of axes in front of the queries, keys and values.",
    right=_attend,
    returns=tensor("(..., m, d_v)"),
    cases=[_leading_axes(2), _leading_axes(), _leading_axes(2, 3), _leading_axes(1)],
    wrong_answers=[
        *SCALES,
        WrongAnswer(
            "your softmax runs over axis 1; with axes in front the keys are axis -1",
            _weighing(lambda scores, k, v: (scores / _root(k)).softmax(1)),
            mistake=5,
        ),
    ],
)


MULTIPLICATIONS = Exercise(
    prompt="The number of multiplications of Q Kᵀ and A V for m queries and n keys.",
    right=lambda m, n, d_k, d_v: m * n * (d_k + d_v),
    returns=number("the count"),
    cases=[Case((2, 3, 5, 7)), Case((11, 13, 19, 17))],
    wrong_answers=[
        WrongAnswer(
            "that is Q Kᵀ alone; the product with V costs m * n * d_v more", lambda m, n, d_k, d_v: m * n * d_k
        ),
        WrongAnswer(
            "that is twice the right number; count each product of two numbers once, and no additions",
            lambda m, n, d_k, d_v: 2 * m * n * (d_k + d_v),
        ),
        WrongAnswer(
            "queries and keys may differ in number: use m * n, not n * n", lambda m, n, d_k, d_v: n * n * (d_k + d_v)
        ),
    ],
)


def _self_attention(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor) -> Tensor:
    return _attend(x @ w_q, x @ w_k, x @ w_v) @ w_o


def _self_weighing(weigh: Callable[[Tensor, int, int], Tensor]) -> Callable[..., Tensor]:
    """Return an answer whose weights are weigh(raw scores, d_k, d_model)."""

    def answer(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor) -> Tensor:
        return weigh(x @ w_q @ (x @ w_k).T, w_k.size(1), x.size(1)) @ (x @ w_v) @ w_o

    return answer


SELF_ATTENTION = Exercise(
    prompt="Self-attention of x (n, d_model) through w_q, w_k (d_model, d_k), w_v (d_model, d_v), w_o (d_v, d_model).",
    right=_self_attention,
    returns=tensor("(n, d_model)"),
    cases=[Case((random(3, 11), random(11, 5) / 4, random(11, 5, seed=1) / 4 + 0.1, random(11, 7), random(7, 11)))],
    wrong_answers=[
        WrongAnswer(
            "the output has d_v features; w_o is missing, which maps it back to d_model",
            lambda x, w_q, w_k, w_v, w_o: _attend(x @ w_q, x @ w_k, x @ w_v),
        ),
        WrongAnswer(
            "you used w_q for the keys too; keys need w_k",
            lambda x, w_q, w_k, w_v, w_o: _self_attention(x, w_q, w_q, w_v, w_o),
        ),
        WrongAnswer(
            "you swapped w_q and w_k: queries need w_q, keys w_k",
            lambda x, w_q, w_k, w_v, w_o: _self_attention(x, w_k, w_q, w_v, w_o),
        ),
        WrongAnswer(
            "you added x itself to the result (a residual connection); it is not asked for here",
            lambda x, *w: x + _self_attention(x, *w),
        ),
        WrongAnswer(
            "you averaged x itself; the values are x @ w_v, and w_o maps their average back",
            lambda x, w_q, w_k, w_v, w_o: _attend(x @ w_q, x @ w_k, x),
        ),
        WrongAnswer(
            "you divided the scores by sqrt(d_model); divide by sqrt(d_k)",
            _self_weighing(lambda scores, d_k, d_model: (scores / math.sqrt(d_model)).softmax(-1)),
            mistake=1,
        ),
        WrongAnswer(
            "you did not scale the scores; divide them by sqrt(d_k)",
            _self_weighing(lambda scores, d_k, d_model: scores.softmax(-1)),
            mistake=2,
        ),
        WrongAnswer(
            "you divided the scores by d_k; divide by its square root",
            _self_weighing(lambda scores, d_k, d_model: (scores / d_k).softmax(-1)),
            mistake=3,
        ),
        WrongAnswer(
            "your softmax runs over the queries (down the columns); it must run over the keys, along each row",
            _self_weighing(lambda scores, d_k, d_model: (scores / math.sqrt(d_k)).softmax(0)),
            mistake=5,
        ),
    ],
)

KEYS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)


ASTRAY = "your query points at another key"
SHORT = "the direction is right, but the weight is below 0.99: make the query longer"
INFINITE = "the query must be finite; the weight only has to reach 0.99, not 1"


def _weights_for(query: Tensor) -> Tensor:
    return scaled_dot_product_attention(query[None], KEYS, KEYS)[1][0]


def _aim(query: Any) -> list[float]:
    """Return the right query for any that aims well; raise the `Mistake` that says where another points."""
    aimed = expect_numbers(query, "the query", (2,), "a query has as many features as a key, two")
    if not aimed.isfinite().all():
        raise Mistake(INFINITE)
    weights = _weights_for(aimed)
    if weights.argmax() != 1 or aimed.norm() == 0:
        raise Mistake(f"{ASTRAY}: the weights are {', '.join(f'{w:.3f}' for w in weights)}")
    if weights[1] < 0.99:
        raise Mistake(f"{SHORT}; the second key gets {weights[1]:.4f}")
    return [0.0, 10.0]


AIM = Exercise(
    prompt="A query that gives the second of the keys (1, 0), (0, 1) and (-1, 0) at least 0.99 of the weight.",
    right=[0, 10],
    returns=numbers("the query", "a query has as many features as a key, two"),
    call=_aim,
    wrong_answers=[
        WrongAnswer(SHORT, [0.0, 3.0]),
        WrongAnswer(ASTRAY, [9.0, 1.0]),
        WrongAnswer(INFINITE, [0.0, math.inf]),
    ],
)
