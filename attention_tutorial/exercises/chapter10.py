"""Tables of chapter 10: pieces of words, weights of all heads, and what they find between words."""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from .parse import number, numbers, random, tensor
from .table import Case, Exercise, WrongAnswer, quick_question

PIECES_OF_PLAYFULLY = quick_question(
    "The list of pieces holds play, ##ful, ##ly, ##fully and every letter. Into how many pieces is playfully cut?",
    2.0,
    {
        3.0: "after play the longest piece is ##fully, so it wins over ##ful",
        1.0: "playfully as a whole is not in the list",
        9.0: "single letters are taken only where no longer piece fits",
    },
)


SHARE_OF_CLS = quick_question(
    "A query gives [CLS] the weight 0.6, with length 0.1 for each unit of weight; all other pieces have length 1. "
    "Which share of the lengths has [CLS]?",
    0.06 / 0.46,
    {
        0.6: "that is its share of the weight; multiply each weight by its length",
        0.06: "that is what [CLS] carries; divide by what all carry, 0.06 + 0.4",
        0.15: "that is what [CLS] carries against the others; divide by the sum of both",
        0.1: "that is the length for a unit of weight; [CLS] has 0.6 of the weight",
    },
    fallback_message="[CLS] carries 0.6 times 0.1, the others carry 0.4 times 1; divide the first by the sum",
)


def _weights(query: Tensor, key: Tensor, scale: float | None = None, dim: int = -1) -> Tensor:
    return (query @ key.mT / (query.size(-1) ** 0.5 if scale is None else scale)).softmax(dim)


WORD_BEFORE = quick_question(
    "A word has three pieces, and a head gives all its weight to the piece before. Which weight does the word give the "
    "word before it, if the rows of its pieces are averaged?",
    1 / 3,
    {
        1.0: "that is the first piece alone; the second and third look at their own word",
        0.0: "the first piece does look at the word before; take the mean of three rows",
        3.0: "each row sums to 1, and so must their mean",
        0.6667: "that stays inside the word: two of its three pieces look at their own word",
    },
)


WEIGHTS_OF_HEADS = Exercise(
    prompt="The weights of all heads, from their queries and keys, without a mask.",
    right=_weights,
    returns=tensor("(h, n, n)", "the weights"),
    cases=[Case((2 * random(3, 5, 4), random(3, 5, 4, seed=1)))],
    wrong_answers=[
        WrongAnswer("you did not scale the scores", lambda q, k: _weights(q, k, 1.0), 2),
        WrongAnswer(
            "you divided by sqrt(d_model); a score is a product over the d_head features of one head",
            lambda q, k: _weights(q, k, (q.size(0) * q.size(-1)) ** 0.5),
            1,
        ),
        WrongAnswer("you divided by d_head in place of its square root", lambda q, k: _weights(q, k, q.size(-1)), 3),
        WrongAnswer(
            "each query's weights must sum to 1 over the keys, the last axis", lambda q, k: _weights(q, k, dim=-2), 5
        ),
        WrongAnswer("rows are queries: the product is Q @ K.mT", lambda q, k: _weights(k, q)),
    ],
)


def _cut(word: str, pieces: set[str], *, mark: bool = True, shortest: bool = False) -> list[str]:
    cut, start = [], 0
    while start < len(word):
        before = "##" if start and mark else ""
        ends = range(start + 1, len(word) + 1) if shortest else range(len(word), start, -1)
        end = next((end for end in ends if before + word[start:end] in pieces), None)
        if end is None:
            return ["[UNK]"]
        cut.append(before + word[start:end])
        start = end
    return cut


def _ids(cut: Sequence[str], pieces: Sequence[str]) -> Tensor:
    return torch.tensor([float(pieces.index(piece)) if piece in pieces else -1.0 for piece in cut])


_PIECES = ["[UNK]", "play", "p", "##ful", "##fully", "##l", "##ly", "##y", "fully", "ful", "ly", "##f", "##u"]


def _cut_ids(word: str, pieces: list[str], **how: bool) -> Tensor:
    return _ids(_cut(word, set(pieces), **how), pieces)


CUT_A_WORD = Exercise(
    prompt="The numbers of the pieces into which a word is cut.",
    right=_cut_ids,
    returns=numbers("the numbers", "one for each piece"),
    cases=[Case(("playfully", _PIECES)), Case(("playing", _PIECES), "of a word with no pieces for a part: {found}")],
    wrong_answers=[
        WrongAnswer(
            "at each place the longest piece that fits comes first; you took the shortest",
            lambda word, pieces: _cut_ids(word, pieces, shortest=True),
        ),
        WrongAnswer("inside a word a piece has ## before it", lambda word, pieces: _cut_ids(word, pieces, mark=False)),
        WrongAnswer(
            "a word with a part for which there is no piece becomes [UNK] as a whole",
            lambda word, pieces: (
                _ids([*_cut("play", set(pieces)), "[UNK]"], pieces) if word == "playing" else _cut_ids(word, pieces)
            ),
        ),
    ],
)


NEXT_SCORE = Exercise(
    prompt="Each head's mean weight on the piece after, over all positions that have one.",
    right=lambda weights: weights.diagonal(1, -2, -1).mean(-1),
    returns=tensor("(heads,)", "the scores"),
    cases=[Case((random(3, 6, 6).softmax(-1),))],
    wrong_answers=[
        WrongAnswer("that is the weight on the piece before", lambda weights: weights.diagonal(-1, -2, -1).mean(-1)),
        WrongAnswer("that is the weight on the piece itself", lambda weights: weights.diagonal(0, -2, -1).mean(-1)),
        WrongAnswer(
            "the last position has no piece after it: divide by n - 1",
            lambda weights: weights.diagonal(1, -2, -1).sum(-1) / weights.size(-1),
        ),
    ],
)


def _gap(first: Tensor, second: Tensor, *, own: bool = False, unit: bool = True, across: bool = True) -> float:
    first, second = (normalize(x, dim=-1) if unit else x for x in (first, second))
    within = []
    for x in (first, second):
        pairs = [(x[i] @ x[j]).item() for i, j in combinations(range(len(x)), 2)]
        pairs += [(row @ row).item() / 2 for row in x] if own else []
        within.append(sum(pairs) / (len(x) ** 2 / 2 if own else len(pairs)))
    return sum(within) / 2 - ((first @ second.mT).mean().item() if across else 0.0)


GAP_OF_SENSES = Exercise(
    prompt="The gap of a word: the mean cosine within a sense, less that across the two senses.",
    right=_gap,
    returns=number("the gap"),
    cases=[Case((2 + random(4, 6), 2 + 3 * random(4, 6, seed=1)))],
    wrong_answers=[
        WrongAnswer("each vector has cosine 1 with itself; leave these pairs out", lambda a, b: _gap(a, b, own=True)),
        WrongAnswer("those are dot products; divide by both lengths", lambda a, b: _gap(a, b, unit=False)),
        WrongAnswer("that is the mean within a sense; subtract that across", lambda a, b: _gap(a, b, across=False)),
        WrongAnswer("turn it around: within a sense, less across", lambda a, b: -_gap(a, b)),
    ],
)


def _between(weights: Tensor, words: Sequence[int], rows: str = "mean", columns: str = "sum") -> Tensor:
    one = torch.nn.functional.one_hot(torch.tensor(words)).to(weights.dtype).mT  # (words, pieces)
    by = {"sum": one, "mean": one / one.sum(-1, keepdim=True)}
    return by[rows] @ weights @ by[columns].mT


BETWEEN_WORDS = Exercise(
    prompt="The weights between words, where a word may have several pieces.",
    right=_between,
    returns=tensor("(words, words)", "the weights"),
    cases=[Case((random(6, 6).softmax(-1), [0, 1, 1, 1, 2, 2]))],
    wrong_answers=[
        WrongAnswer(
            "a word that is looked at gets the weights of all its pieces: add them",
            lambda a, w: _between(a, w, "mean", "mean"),
        ),
        WrongAnswer(
            "a word that looks has several rows, each of which sums to 1: take their mean",
            lambda a, w: _between(a, w, "sum", "sum"),
        ),
        WrongAnswer(
            "that is turned around: add over the pieces of a key, take the mean over those of a query",
            lambda a, w: _between(a, w, "sum", "mean"),
        ),
    ],
)


def _shares(weights: Tensor, values: Tensor, w_o: Tensor, *, signed: bool = False, joined: bool = True) -> Tensor:
    carried = values @ w_o if joined else values
    lengths = carried.sum(-1) if signed else carried.norm(dim=-1)
    found = weights * lengths[:, None, :]
    return found / found.sum(-1, keepdim=True)


SHARES_OF_LENGTH = Exercise(
    prompt="Which share each key has in the lengths of what a query receives, for each head.",
    right=_shares,
    returns=tensor("(h, m, n)", "the shares"),
    cases=[Case((random(2, 3, 5).softmax(-1), random(2, 5, 4, seed=1), random(2, 4, 8, seed=2)))],
    wrong_answers=[
        WrongAnswer("those are the weights; each value has a length of its own", lambda a, v, w: a),
        WrongAnswer(
            "you took the values before W^O, which makes some of them longer than others",
            lambda a, v, w: _shares(a, v, w, joined=False),
        ),
        WrongAnswer(
            "those are lengths; divide each row by its sum", lambda a, v, w: a * (v @ w).norm(dim=-1)[:, None, :]
        ),
        WrongAnswer(
            "each query shares among the keys: rows must sum to 1",
            lambda a, v, w: (s := a * (v @ w).norm(dim=-1)[:, None, :]) / s.sum(-2, keepdim=True),
        ),
    ],
)


def _by_the_mean(found: Tensor, head: int, mean: Tensor) -> Tensor:
    changed = found.clone()
    changed[:, head] = mean
    return changed


BY_THE_MEAN = Exercise(
    prompt="What the heads find, with one head replaced by its mean over the real pieces of other texts.",
    right=lambda found, head, other, real: _by_the_mean(found, head, other[:, head][real].mean(0)),
    returns=tensor("(texts, h, n, d_head)", "what the heads find"),
    cases=[
        Case(
            (
                random(2, 3, 4, 5),
                1,
                random(3, 3, 6, 5, seed=1),
                torch.arange(6) < torch.tensor([6, 4, 5])[:, None],
            )
        )
    ],
    wrong_answers=[
        WrongAnswer(
            "you put a zero in its place; that also takes away what the head adds to every text alike",
            lambda found, head, other, real: _by_the_mean(found, head, torch.zeros(())),
        ),
        WrongAnswer(
            "your mean counts the padding too; take the vectors at which real is True",
            lambda found, head, other, real: _by_the_mean(found, head, other[:, head].mean((0, 1))),
        ),
        WrongAnswer(
            "that is the mean over these texts; take it over the other ones",
            lambda found, head, other, real: _by_the_mean(found, head, found[:, head].mean((0, 1))),
        ),
    ],
)
