"""The exercises of chapter 9."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from .parse import number, random, tensor
from .table import Case, Exercise, WrongAnswer, quick_question

NEXT_PAIR = quick_question(
    "In a text, self occurs 5 times, else 4, elif 3, select 2. First e and l are joined. Which pair is joined next?",
    "s + el",
    {
        "s + e": "s and e stood together 11 times before; in self and select that e now belongs to el, so 4 are left",
        "el + f": "that pair stands in self alone, 5 times; count the other pairs of self too",
        "el + s": "that pair stands in else alone, 4 times",
    },
    choices=("s + e", "s + el", "el + f", "el + s"),
)

BITS_A_BYTE = quick_question(
    "A loss is 2.77 nats a token, and a token has 2.5 bytes. With ln 2 = 0.693, how many bits a byte is that?",
    1.6,
    {
        4.0: "those are bits a token; a token has 2.5 bytes",
        1.11: "those are nats a byte; divide by ln 2",
        9.99: "more bytes in a token make fewer bits a byte; divide by 2.5",
        0.77: "a bit is ln 2 = 0.693 nats, so divide by it",
        4.8: "divide, both by ln 2 and by the bytes of a token",
    },
    fallback_message="divide by ln 2 for bits a token, then by 2.5 for bits a byte",
)


def _top(logits: Tensor, top_k: int) -> Tensor:
    return logits.masked_fill(logits < logits.topk(top_k).values[-1], -torch.inf)


NEXT_PROBABILITIES = Exercise(
    prompt="The probabilities of the next token at a temperature, among the k largest logits.",
    right=lambda logits, temperature, top_k: _top(logits / temperature, top_k).softmax(-1),
    returns=tensor("(tokens,)", "the probabilities"),
    cases=[Case((random(7, seed=1), 0.5, 3)), Case((random(9, seed=2), 2.0, 9), "where all tokens are kept: {found}")],
    wrong_answers=[
        WrongAnswer("the temperature is missing: divide the logits by it", lambda x, t, k: _top(x, k).softmax(-1)),
        WrongAnswer("divide the logits by the temperature; you multiplied", lambda x, t, k: _top(x * t, k).softmax(-1)),
        WrongAnswer(
            "all tokens are still possible; only the `top_k` largest may be", lambda x, t, k: (x / t).softmax(-1)
        ),
        WrongAnswer(
            "mask before the softmax, so that what is left sums to 1",
            lambda x, t, k: (x / t).softmax(-1) * (_top(x, k) > -torch.inf),
        ),
        WrongAnswer(
            "a logit of 0 is not impossible; fill with minus infinity",
            lambda x, t, k: _top(x / t, k).nan_to_num(neginf=0.0).softmax(-1),
        ),
        WrongAnswer(
            "you keep one token too few: the smallest of the `top_k` stays",
            lambda x, t, k: _top(x / t, k - 1).softmax(-1),
        ),
        WrongAnswer(
            "return probabilities: the softmax is missing", lambda x, t, k: _top(x / t, k).nan_to_num(neginf=-1e9)
        ),
        WrongAnswer(
            "you keep the smallest logits; keep the largest",
            lambda x, t, k: (x / t).masked_fill(_top(-x, k).isinf(), -torch.inf).softmax(-1),
        ),
    ],
)


def _diagonal(offset: int) -> Callable[[Tensor], Tensor]:
    return lambda weights: weights.diagonal(offset, -2, -1).mean(-1)


PREVIOUS_SCORE = Exercise(
    prompt="Each head's mean weight on the token before, over all places that have one.",
    right=_diagonal(-1),
    returns=tensor("(heads,)", "the scores"),
    cases=[Case((random(3, 6, 6).tril().masked_fill(torch.ones(6, 6).triu(1) > 0, -torch.inf).softmax(-1),))],
    wrong_answers=[
        WrongAnswer("that is each token's weight on itself", _diagonal(0)),
        WrongAnswer("those are weights on the next token, which are 0; rows are queries", _diagonal(1)),
        WrongAnswer("that is two tokens back", _diagonal(-2)),
        WrongAnswer("take the mean; you took the sum", lambda weights: weights.diagonal(-1, -2, -1).sum(-1)),
        WrongAnswer(
            "the first token has none before it: divide by n - 1",
            lambda weights: weights.diagonal(-1, -2, -1).sum(-1) / weights.size(-1),
        ),
        WrongAnswer("keep the heads apart", lambda weights: _diagonal(-1)(weights).mean()),
    ],
)  # fmt: skip

TEMPERATURE_OF_ODDS = Exercise(
    prompt="The temperature at which a token is so many times as probable as another.",
    right=lambda difference, times: difference / math.log(times),
    returns=number(),
    cases=[Case((3.0, 10.0)), Case((0.7, 1.5))],
    wrong_answers=[
        WrongAnswer("turn it around: the higher the temperature, the closer the two", lambda d, r: math.log(r) / d),
        WrongAnswer("odds are exponentials of differences; take the logarithm of `times`", lambda d, r: d / r),
        WrongAnswer(
            "the softmax has base e; take the natural logarithm, not that to base 2", lambda d, r: d / math.log2(r)
        ),
        WrongAnswer(
            "the softmax has base e; take the natural logarithm, not that to base 10", lambda d, r: d / math.log10(r)
        ),
        WrongAnswer("logits are divided by the temperature, so divide by the logarithm", lambda d, r: d * math.log(r)),
        WrongAnswer("that is how many times as probable it is at temperature 1", lambda d, r: math.exp(d)),
    ],
)

_Ids = Sequence[int]


def _pair_loss(
    train: _Ids, test: _Ids, size: int, *, above: float = 1.0, below: float | None = None, ending: int = 0
) -> Tensor:
    counts = Counter(pairwise(train))
    firsts = Counter(train[: len(train) - 1 + ending])
    below = above * size if below is None else below
    p = [(counts[pair] + above) / (firsts[pair[0]] + below) for pair in pairwise(test)]
    return torch.tensor(p, dtype=torch.float64)


def _bits(p: Tensor) -> float:
    return float(-p.log2().mean())


def _single(train: _Ids, test: _Ids, size: int) -> float:
    counts = Counter(train)
    p = [(counts[i] + 1) / (len(train) + size) for i in test[1:]]
    return _bits(torch.tensor(p, dtype=torch.float64))


PAIR_LOSS = Exercise(
    prompt="The loss, in bits a token, of a model that counts pairs of tokens.",
    right=lambda train, test, size: _bits(_pair_loss(train, test, size)),
    returns=number("the loss"),
    cases=[
        Case(([0, 1, 0, 2, 0, 1, 1, 0, 1, 2, 2, 1, 0], [0, 1, 2, 1, 0, 0, 1, 1], 4)),
        Case(([3, 1, 3, 3], [1, 2, 1, 3, 3], 5), "where a pair was never counted: {found}"),
    ],
    wrong_answers=[
        WrongAnswer("that is in nats; take logarithms to base 2", lambda *a: float(-_pair_loss(*a).log().mean())),
        WrongAnswer(
            "add 1 to each count, or a new pair costs infinitely much", lambda *a: _bits(_pair_loss(*a, above=0.0))
        ),
        WrongAnswer(
            "1 is added to the count of each of `size` pairs, so add `size` below",
            lambda *a: _bits(_pair_loss(*a, below=0.0)),
        ),
        WrongAnswer("`size` tokens could follow; you added 1 below", lambda *a: _bits(_pair_loss(*a, below=1.0))),
        WrongAnswer(
            "the last token of `train` begins no pair; do not count it below",
            lambda *a: _bits(_pair_loss(*a, ending=1)),
        ),
        WrongAnswer(
            "your pairs are turned around: the first token is given, the second predicted",
            lambda train, test, size: _bits(_pair_loss(train[::-1], test[::-1], size)),
        ),
        WrongAnswer("you count single tokens; count pairs", _single),
        WrongAnswer(
            "take the mean over the pairs of `test`; you took the sum", lambda *a: float(-_pair_loss(*a).log2().sum())
        ),
        WrongAnswer("take logarithms first, then the mean", lambda *a: float(-_pair_loss(*a).mean().log2())),
    ],
)

OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")


def _bracket_score(
    texts: Sequence[str],
    weights: Tensor,
    *,
    later: int = 0,
    place: int = -1,
    matching: bool = False,
    opening: Sequence[str] = OPENING,
    closing: Sequence[str] = CLOSING,
) -> Tensor:
    opened: list[int] = []
    chosen = []
    for i, text in enumerate(texts):
        if text in closing:
            chosen.append(weights[:, i - 1 + later, opened[place]])
            if matching:
                opened.pop()
        elif text in opening:
            opened.append(i)
    return torch.stack(chosen)


def _brackets(**change: Any) -> Callable[[Sequence[str], Tensor], Tensor]:
    return lambda texts, weights: _bracket_score(texts, weights, **change).mean(0)


_CODE = ["f", "(", "g", "(", "a", ")", ", ", "[", "b", "]", " + ", "c", ")", "{", "d", "}"]

BRACKET_SCORE = Exercise(
    prompt="Each head's mean weight, before a closing bracket, on the last opening one.",
    right=_brackets(),
    returns=tensor("(heads,)", "the scores"),
    cases=[Case((_CODE, random(3, len(_CODE), len(_CODE), seed=1).softmax(-1)))],
    wrong_answers=[
        WrongAnswer("the query is the token before the closing bracket, which has to predict it", _brackets(later=1)),
        WrongAnswer("that is the first opening bracket; take the last", _brackets(place=0)),
        WrongAnswer("that is the opening bracket before the last one", _brackets(place=-2)),
        WrongAnswer("that is the matching bracket; take the last one, closed or not", _brackets(matching=True)),
        WrongAnswer("count square brackets and braces too", _brackets(opening="(", closing=")")),
        WrongAnswer("take the mean; you took the sum", lambda texts, weights: _bracket_score(texts, weights).sum(0)),
        WrongAnswer("rows are queries, columns are keys", lambda texts, weights: _brackets()(texts, weights.mT)),
    ],
)


def _shifted(by: int, start: int | None = None) -> Callable[[Tensor], Tensor]:
    def answer(weights: Tensor) -> Tensor:
        half = weights.size(-1) // 2
        places = torch.arange(half + 1 if start is None else half + start, 2 * half + 1)
        return weights[:, places, places - half + by].mean(-1)

    return answer


COPYING_SCORE = Exercise(
    prompt="Each head's mean weight on what followed last time, in a text written twice.",
    right=_shifted(1),
    returns=tensor("(heads,)", "the scores"),
    cases=[Case((random(3, 13, 13, seed=1).softmax(-1),)), Case((random(2, 9, 9, seed=2).softmax(-1),))],
    wrong_answers=[
        WrongAnswer("that is the same token last time; what followed it stands one place later", _shifted(0)),
        WrongAnswer("that is what stood before the token last time", _shifted(-1)),
        WrongAnswer("that is two places after the token last time", _shifted(2)),
        WrongAnswer("begin with the first token of the second copy, one place later", _shifted(1, start=0)),
        WrongAnswer("the first token of the second copy counts too", _shifted(1, start=2)),
        WrongAnswer("rows are queries, columns are keys", lambda weights: _shifted(1)(weights.mT)),
        WrongAnswer("take the mean; you took the sum", lambda weights: _shifted(1)(weights) * (weights.size(-1) // 2)),
        WrongAnswer("that is the weight on the token before", lambda w: w.diagonal(-1, -2, -1).mean(-1)),
    ],
)


def _weights(x: Tensor, y: Tensor, w_q: Tensor, w_k: Tensor, *, scale: float | None = None) -> Tensor:
    scores = (x @ w_q) @ (y @ w_k).mT / (w_q.size(-1) ** 0.5 if scale is None else scale)
    return scores.masked_fill(torch.ones(scores.shape).triu(1) > 0, -torch.inf).softmax(-1)


KEYS_WITHOUT = Exercise(
    prompt="A head's causal weights, with what another head added taken out of its keys alone.",
    right=lambda x, added, w_q, w_k: _weights(x, x - added, w_q, w_k),
    returns=tensor("(n, n)", "the weights"),
    cases=[Case((random(5, 7, seed=1), random(5, 7, seed=2), random(7, 3, seed=3), random(7, 3, seed=4)))],
    wrong_answers=[
        WrongAnswer("you took it out of the queries", lambda x, a, q, k: _weights(x - a, x, q, k)),
        WrongAnswer("you took it out of the queries too", lambda x, a, q, k: _weights(x - a, x - a, q, k)),
        WrongAnswer("you took nothing out", lambda x, a, q, k: _weights(x, x, q, k)),
        WrongAnswer("your keys have it twice; subtract", lambda x, a, q, k: _weights(x, x + a, q, k)),
        WrongAnswer("your keys are made of it alone; take it out of x", lambda x, a, q, k: _weights(x, a, q, k)),
        WrongAnswer("divide the scores by the square root of d_head", lambda x, a, q, k: _weights(x, x - a, q, k, scale=1.0)),
        WrongAnswer("the root is that of d_head, not of d_model",
             lambda x, a, q, k: _weights(x, x - a, q, k, scale=x.size(-1) ** 0.5)),
        WrongAnswer("mask the future", lambda x, a, q, k: ((x @ q) @ ((x - a) @ k).mT / q.size(-1) ** 0.5).softmax(-1)),
        WrongAnswer("mask before the softmax, so that each row sums to 1",
             lambda x, a, q, k: ((x @ q) @ ((x - a) @ k).mT / q.size(-1) ** 0.5).softmax(-1).tril()),
    ],
)  # fmt: skip
