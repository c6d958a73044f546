"""The exercises of chapter 9."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

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
    "A loss is 2.77 nats per token, and a token has 2.5 bytes. With ln 2 = 0.693, how many bits per byte is that?",
    1.6,
    {
        4.0: "those are bits per token; a token has 2.5 bytes",
        1.11: "those are nats per byte; divide by ln 2",
        9.99: "more bytes in a token make fewer bits per byte; divide by 2.5",
    },
    fallback_message="divide by ln 2 for bits per token, then by 2.5 for bits per byte",
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
    ],
)

VECTORS_IN_THE_STREAM = quick_question(
    "A model has two layers of four heads and nothing else. How many vectors add up in the stream of a token?",
    9,
    {
        8: "those are the heads; the stream begins with the token's own vector",
        3: "a layer adds one vector for each of its heads",
        5: "there are two layers of four heads",
    },
    fallback_message="count the token's own vector, and one for each head of each layer",
)

FACTOR_OF_NATS = quick_question(
    "The loss of a token is -ln p. Without a head it is 1.6 nats higher. What has p been multiplied by?",
    math.exp(-1.6),
    {
        math.exp(1.6): "a higher loss means a lower probability: that is how many times larger it was before",
        2**-1.6: "a nat belongs to the natural logarithm: take powers of e, not of 2",
        1 / 1.6: "a difference of logarithms is a ratio of probabilities: raise e to it",
    },
    fallback_message="if -ln p grows by 1.6, ln p falls by 1.6",
)

PREVIOUS_SCORE = Exercise(
    prompt="Each head's mean weight on the token before, over all places that have one.",
    right=lambda weights: weights.diagonal(-1, -2, -1).mean(-1),
    returns=tensor("(heads,)", "the scores"),
    cases=[Case((random(3, 6, 6).tril().masked_fill(torch.ones(6, 6).triu(1) > 0, -torch.inf).softmax(-1),))],
    wrong_answers=[
        WrongAnswer(
            "that is each token's weight on itself; the token before stands one column to the left",
            lambda weights: weights.diagonal(0, -2, -1).mean(-1),
        ),
        WrongAnswer(
            "those are weights on the next token, which are 0; rows are queries",
            lambda weights: weights.diagonal(1, -2, -1).mean(-1),
        ),
        WrongAnswer(
            "the first token has none before it: divide by n - 1",
            lambda weights: weights.diagonal(-1, -2, -1).sum(-1) / weights.size(-1),
        ),
    ],
)

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
    ],
)


def _pair_loss(train: list[int], test: list[int], size: int, added: float = 1.0, end: int | None = -1) -> float:
    """The loss. `added` is added to each count; the tokens of `train` before `end` begin pairs."""
    counts, firsts = Counter(pairwise(train)), Counter(train[:end])
    p = [(counts[a, b] + added) / (firsts[a] + size) for a, b in pairwise(test)]
    return float(-torch.tensor(p, dtype=torch.float64).log2().mean())


PAIR_LOSS = Exercise(
    prompt="The loss, in bits per token, of a model that counts pairs of tokens.",
    right=_pair_loss,
    returns=number("the loss"),
    cases=[
        Case(([0, 1, 0, 2, 0, 1, 1, 0, 1, 2, 2, 1, 0], [0, 1, 2, 1, 0, 0, 1, 1], 4)),
        Case(([3, 1, 3, 3], [1, 2, 1, 3, 3], 5), "where a pair was never counted: {found}"),
    ],
    wrong_answers=[
        WrongAnswer("that is in nats; take logarithms to base 2", lambda *inputs: _pair_loss(*inputs) * math.log(2)),
        WrongAnswer(
            "add 1 to each count, or a new pair costs infinitely much",
            lambda train, test, size: _pair_loss(train, test, 0, added=0.0),
        ),
        WrongAnswer(
            "1 is added to the count of each of `size` pairs, so add `size` below",
            lambda train, test, size: _pair_loss(train, test, 0),
        ),
        WrongAnswer("the last token of `train` begins no pair; do not count it below", partial(_pair_loss, end=None)),
    ],
)


def _bracket_score(texts: Sequence[str], weights: Tensor, *, later: int = 0, matching: bool = False) -> Tensor:
    opened: list[int] = []
    chosen = []
    for i, text in enumerate(texts):
        if text in (")", "]", "}"):
            chosen.append(weights[:, i - 1 + later, opened[-1]])
            if matching:
                opened.pop()
        elif text in ("(", "[", "{"):
            opened.append(i)
    return torch.stack(chosen).mean(0)


_CODE = ["f", "(", "g", "(", "a", ")", ", ", "[", "b", "]", " + ", "c", ")", "{", "d", "}"]

BRACKET_SCORE = Exercise(
    prompt="Each head's mean weight, before a closing bracket, on the last opening one.",
    right=_bracket_score,
    returns=tensor("(heads,)", "the scores"),
    cases=[Case((_CODE, random(3, len(_CODE), len(_CODE), seed=1).softmax(-1)))],
    wrong_answers=[
        WrongAnswer(
            "the query is the token before the closing bracket, which has to predict it",
            partial(_bracket_score, later=1),
        ),
        WrongAnswer(
            "that is the matching bracket; take the last one, closed or not", partial(_bracket_score, matching=True)
        ),
        WrongAnswer("rows are queries, columns are keys", lambda texts, weights: _bracket_score(texts, weights.mT)),
    ],
)


def _copying_score(weights: Tensor, *, by: int = 1, first: int = 1) -> Tensor:
    """The weight `by` places after the same token last time, from the place `first` of the second copy."""
    half = weights.size(-1) // 2
    places = torch.arange(half + first, 2 * half + 1)
    return weights[:, places, places - half + by].mean(-1)


COPYING_SCORE = Exercise(
    prompt="Each head's mean weight on what followed last time, in a text written twice.",
    right=_copying_score,
    returns=tensor("(heads,)", "the scores"),
    cases=[Case((random(3, 13, 13, seed=1).softmax(-1),)), Case((random(2, 9, 9, seed=2).softmax(-1),))],
    wrong_answers=[
        WrongAnswer(
            "that is the same token last time; what followed it stands one place later", partial(_copying_score, by=0)
        ),
        WrongAnswer("begin with the first token of the second copy, one place later", partial(_copying_score, first=0)),
        WrongAnswer("rows are queries, columns are keys", lambda weights: _copying_score(weights.mT)),
    ],
)


def _weights(queries: Tensor, keys: Tensor, w_q: Tensor, w_k: Tensor) -> Tensor:
    scores = (queries @ w_q) @ (keys @ w_k).mT / w_q.size(-1) ** 0.5
    return scores.masked_fill(torch.ones(scores.shape).triu(1) > 0, -torch.inf).softmax(-1)


KEYS_WITHOUT = Exercise(
    prompt="A head's causal weights, with what another head added taken out of its keys alone.",
    right=lambda x, added, w_q, w_k: _weights(x, x - added, w_q, w_k),
    returns=tensor("(n, n)", "the weights"),
    cases=[Case((random(5, 7, seed=1), random(5, 7, seed=2), random(7, 3, seed=3), random(7, 3, seed=4)))],
    wrong_answers=[
        WrongAnswer(
            "you took it out of the queries; take it out of the keys", lambda x, a, q, k: _weights(x - a, x, q, k)
        ),
        WrongAnswer(
            "you took it out of the queries too; they are made of x", lambda x, a, q, k: _weights(x - a, x - a, q, k)
        ),
        WrongAnswer(
            "your tokens see the future; fill its scores with minus infinity before the softmax",
            lambda x, a, q, k: ((x @ q) @ ((x - a) @ k).mT / q.size(-1) ** 0.5).softmax(-1),
        ),
    ],
)


def _parts_of_logit(parts: Tensor, gain: Tensor, token: Tensor, *, centred: bool = True, scaled: bool = True) -> Tensor:
    """What each part adds to the logit, after the last norm, whose deviation is that of the whole stream."""
    if centred:
        parts = parts - parts.mean(-1, keepdim=True)
    deviation = parts.sum(0).std(correction=0) if scaled else 1.0
    return (parts / deviation * gain) @ token


def _parts_each_normed(parts: Tensor, gain: Tensor, token: Tensor) -> Tensor:
    centred = parts - parts.mean(-1, keepdim=True)
    return (centred / parts.std(-1, correction=0, keepdim=True) * gain) @ token


PARTS_OF_LOGIT = Exercise(
    prompt="What each part of the stream adds to the logit of a token, through the last norm.",
    right=_parts_of_logit,
    returns=tensor("(k,)", "the parts of the logit"),
    cases=[
        Case((random(4, 8, seed=1), random(8, seed=2), random(8, seed=3))),
        Case((random(9, 6, seed=4) + 1, random(6, seed=5), random(6, seed=6))),
    ],
    wrong_answers=[
        WrongAnswer(
            "you divide each part by its own deviation; there is one for the whole stream, or the parts do not add up",
            _parts_each_normed,
        ),
        WrongAnswer(
            "the last norm centres the stream: subtract from each part its mean",
            partial(_parts_of_logit, centred=False),
        ),
        WrongAnswer(
            "the last norm divides by the deviation of the whole stream; yours does not divide",
            partial(_parts_of_logit, scaled=False),
        ),
        WrongAnswer(
            "the norm's gain is missing: it multiplies each feature before the product",
            lambda parts, gain, token: _parts_of_logit(parts, torch.ones_like(gain), token),
        ),
    ],
)
