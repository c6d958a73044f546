"""The exercises of chapter 4."""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..functional import masked_softmax
from .reading import explain_weights, recover_weights, weights_alike
from .results import (
    Returned,
    alike,
    close,
    expect_tensor,
    explain_rounding,
    number,
    numbers,
    random,
    same_shape,
    tensor,
    times,
)
from .running import Mistake, call
from .table import Case, Exercise, Read, Slip, shaped
from .turns import turn

Answer = Callable[..., Any]
Cut = Callable[[Tensor, int], Tensor]  # (..., n, h * d_head), h -> (..., h, n, d_head)


def _parameters(d: int, h: int, d_head: int | None = None) -> int:
    return 4 * d * h * (d // h if d_head is None else d_head)


def _counted(words: str, count: Callable[[int, int, int], int], like: Callable[..., bool] | None = None) -> Slip:
    """A wrong count(d_model, h, d_head), where the default d_head is right."""
    return Slip(words, lambda d, h, d_head: count(d, h, d // h if d_head is None else d_head), like=like)


def _some_biases(got: Any, wrong: int, d: int, h: int, d_head: int | None) -> bool:
    """Whether a count has biases too: of all matrices or some, for their rows or their columns."""
    right = _parameters(d, h, d_head)
    inner = right // (4 * d)
    return any(alike(got, right + biases) for biases in (3 * inner + d, 3 * inner, d, 4 * inner, 4 * d))


def _explain_count(got: Tensor, right: int, d: int, h: int, d_head: int | None) -> str:
    return (
        f"for d_model={d}, num_heads={h}, d_head={d_head} there are four matrices of {d} times "
        f"{right // (4 * d)} numbers; yours makes {got:.10g}"
    )


PARAMETERS = Exercise(
    asks="The number of parameters of multi-head attention without biases, where d_head may be left out.",
    right=_parameters,
    returns=number("the number of parameters"),
    cases=[Case(sizes) for sizes in ((11, 5, 7), (7, 2, 13), (24, 4, None), (50, 8, None), (55, 8, None))],
    slips=[
        Slip(
            lambda d, h, k: f"d_head is rounded down when it is not given: {d} // {h} is {d // h}",
            lambda d, h, k: 4 * d * h * (d / h if k is None else k),
        ),
        Slip(
            lambda d, h, k: f"you rounded d_head up to {d // h + 1}; {d} // {h} rounds down to {d // h}",
            lambda d, h, k: 4 * d * h * (math.ceil(d / h) if k is None else k),
        ),
        Slip(
            lambda d, h, k: f"without a d_head each head is d_model // num_heads wide, here {d // h}, not d_model",
            lambda d, h, k: 4 * d * h * (d if k is None else k),
        ),
        Slip("you ignore the d_head that is given", lambda d, h, k: 4 * d * h * (d // h)),
        _counted(
            "you left d_head out: the matrices map to h * d_head features, which need not be d_model",
            lambda d, h, k: 4 * d * d,
        ),
        _counted(
            "you counted biases; there are none here", lambda d, h, k: 4 * d * h * k + 3 * h * k + d, _some_biases
        ),
        _counted("you counted w_q, w_k and w_v; the output projection w_o is missing", lambda d, h, k: 3 * d * h * k),
        _counted("you counted w_o alone; w_q, w_k and w_v are missing", lambda d, h, k: d * h * k),
        _counted("you counted two matrices; there are four: w_q, w_k, w_v and w_o", lambda d, h, k: 2 * d * h * k),
        _counted("you counted one head; there are num_heads of them", lambda d, h, k: 4 * d * k),
        _counted(
            "you counted w_o once for each head; it is one matrix for all, (h * d_head, d_model)",
            lambda d, h, k: 3 * d * h * k + h * d * h * k,
        ),
        _counted(
            "each head's projections start from all d_model features, not from d_head of them",
            lambda d, h, k: 3 * h * k * k + d * h * k,
        ),
        _counted(
            "all heads share one d_head x d_head projection in your count; each has its own, from d_model features",
            lambda d, h, k: 3 * k * k + d * h * k,
        ),
        _counted(
            "w_o maps from h * d_head features to d_model; yours is d_model by d_model",
            lambda d, h, k: 3 * d * h * k + d * d,
        ),
        _counted("that is a sum of sizes; a matrix has rows times columns numbers", lambda d, h, k: 4 * (d + h * k)),
    ],
    explain=_explain_count,
)

HEAD_ONE_GIVES_SHE = turn(
    "Saw asks (4, 0), d_head is 2. Keys: she (1, 0), saw (0, 0), him (0, 1). What weight does saw give she?",
    0.8943,
    {
        0.9647: "that is the weight without the root: divide the score 4 by √2 before the softmax",
        0.787: "you divided the score by 2; the root of d_head = 2 is √2 = 1.41",
        0.7495: "you divided by √5, the root of d_model; the scores of a head are divided by the root of d_head = 2",
        0.4856: "that is the one head that asks (4, 4); this one does not ask for him",
        0.9442: "two other words have an exponential of 1 each; count both of them",
        8.46: "divide by the sum of all three exponentials, that of she included",
        2.828: "that is the score; take its exponential, and divide by the sum of all three exponentials",
        16.92: "that is the exponential of the score; divide it by the sum of all three",
        0.0529: "that is the weight of each of the other words",
        1 / 3: "that is the plain average; the scores differ",
    },
)

JOINED_SHAPE = turn(
    "For 2 sentences of 10 words, d_model 300, 8 heads of d_head 37: what shape do the joined heads have, before W^O?",
    (2, 10, 296),
    {
        (2, 10, 300): "that is the shape after W^O; joined heads have h * d_head features, which need not be d_model",
        (2, 80, 37): "heads are joined side by side, along the features: each word keeps one row",
        (2, 10, 37): "that is one head; all eight are joined",
        (16, 10, 37): "the heads' outputs are not further sentences: they are joined along the features",
        (2, 37, 80): "each word keeps one row: positions come before features",
        (2, 296, 10): "positions come before features: one row for each word",
        (2, 8, 10, 37): "those are the heads before they are joined",
        (10, 296): "that is one sentence; the axis of the batch stays",
    },
)

# Cutting features into heads, and joining them


def _split(x: Tensor, h: int) -> Tensor:
    return x.unflatten(-1, (h, -1)).transpose(-3, -2)


def _scrambled(x: Tensor, h: int) -> Tensor:
    n, width = x.shape[-2:]
    return x.reshape(*x.shape[:-2], h, n, width // h)


def _dealt(x: Tensor, h: int) -> Tensor:
    """Head 0 gets features 0, h, 2 h and so on."""
    return x.unflatten(-1, (-1, h)).movedim(-1, -3)


def _join(heads: Tensor) -> Tensor:
    return heads.transpose(-3, -2).flatten(-2)  # (..., n, h * d_head)


def _reshaped(heads: Tensor) -> Tensor:
    """Heads that are joined without transposing back."""
    return heads.reshape(*heads.shape[:-3], heads.size(-2), -1)


def _origins(got: Tensor, source: Tensor) -> Tensor | None:
    """Find out which number of `source` each number of `got` is: its indices, (..., axes of source).

    None if not all stand there. The numbers of `source` must all be different.
    """
    off, place = (got[..., None] - source.flatten()).abs().min(dim=-1)
    return torch.stack(torch.unravel_index(place, source.shape), dim=-1) if (off < 1e-6).all() else None


def _explain_near(got: Tensor, right: Tensor) -> str | None:
    """Say so if a result is right up to one factor, or one added number."""
    factor = times(got, right, {})
    if factor:
        return f"your numbers are {factor} what they should be"
    off = (got - right).flatten()[0]
    return f"every number is too large by {off:.4g}" if close(got, right + off) else None


def _mix_sentences(x: Tensor, h: int) -> Tensor:
    cut = x.unflatten(-1, (h, -1)).permute(2, 0, 1, 3)
    return cut.reshape(x.size(0), h, x.size(1), -1)


def _explain_split(got: Tensor, right: Tensor, x: Tensor, h: int) -> str | None:
    """Every number tells where in x it comes from; is it there where it should be?"""
    origins, expected = _origins(got, x), _origins(right, x)
    if origins is None or expected is None:
        return None
    mixed_sentence, mixed_word, _ = (origins != expected).unbind(-1)
    if mixed_sentence.any():
        return "sentences of the batch are mixed up: numbers of one sentence stand in another"
    if mixed_word.any():
        b, i, word, f = mixed_word.nonzero()[0].tolist()
        source = int(origins[b, i, word, f, 1])
        return (
            f"words are mixed up: head {i} holds features of word {source} in the row of word {word} (counted from 0)"
        )
    feature, d_head = origins[..., 2], got.size(-1)
    if feature.equal(feature[:, :1].expand_as(feature)):
        return "all your heads hold the same features; each owns d_head features of its own"
    first = feature[..., :1] // d_head * d_head  # that each head has
    if feature.equal(first + torch.arange(d_head)):
        i, head = next((i, j) for i, j in enumerate((feature[0, :, 0, 0] // d_head).tolist(), 1) if j + 1 != i)
        return f"your heads are in the wrong order: head {i} holds the features of head {head + 1} (counted from 1)"
    return "rows and words are right, but the features are in the wrong order inside the heads"


SPLIT = Exercise(
    asks="The heads (batch, h, n, d_head) of x (batch, n, h * d_head).",
    right=_split,
    returns=tensor("(batch, h, n, d_head)"),
    cases=[Case((random(2, 5, 3 * 7), 3))],
    slips=[
        Slip(
            lambda x, h: f"you return {h} pieces; make one tensor of them, with an axis for the heads (torch.stack)",
            lambda x, h: x.chunk(h, dim=-1),
            like=lambda got, wrong, *_: isinstance(got, tuple | list) and len(got) == len(wrong),
        ),
        shaped(
            "the features are cut, but the heads must stand before the positions: swap axes 1 and 2",
            lambda x, h: x.unflatten(-1, (h, -1)),
            mistake=9,
        ),
        shaped(
            "you cut the features into d_head parts of h; cut them into h parts, then swap axes",
            lambda x, h: x.unflatten(-1, (-1, h)),
        ),
        shaped(
            "you cut the features into d_head parts of h, then swapped axes; cut them into h parts",
            lambda x, h: x.unflatten(-1, (-1, h)).transpose(1, 2),
        ),
        shaped(
            "you joined the heads along the positions; give them an axis of their own, the second",
            lambda x, h: torch.cat(x.chunk(h, dim=-1), dim=1),
        ),
        shaped(
            "every head holds all features; each owns d_head of them", lambda x, h: x[:, None].expand(-1, h, -1, -1)
        ),
        shaped("positions and features are swapped: the last axis must be d_head", lambda x, h: _split(x, h).mT),
        shaped("the batch must stay first: (batch, h, n, d_head)", lambda x, h: _split(x, h).transpose(0, 1)),
        shaped("keep batch and heads as two axes: (batch, h, n, d_head)", lambda x, h: _split(x, h).flatten(0, 1)),
        Slip(
            "your heads are scrambled: one reshape to (batch, h, n, d_head) cuts words into pieces; "
            "cut the features first, then transpose",
            _scrambled,
            mistake=9,
        ),
        Slip(
            "you dealt the features out in turn (the first head gets features 0, 3, 6, ...); "
            "the first head owns the first d_head features, the second the next",
            _dealt,
        ),
        Read("sentences of the batch are mixed up", _mix_sentences),
        Read("words are mixed up: head 0 holds features of word 4", lambda x, h: _split(x, h).roll(1, dims=2)),
        Read("all your heads hold the same features", lambda x, h: _split(x, h)[:, :1].expand(-1, h, -1, -1)),
        Read("your heads are in the wrong order", lambda x, h: _split(x, h).flip(1)),
        Read("the features are in the wrong order inside the heads", lambda x, h: _split(x, h).flip(-1)),
    ],
    explain=_explain_split,
    rest="the shape is right, but the numbers are not those of x, rearranged",
)

ROWS = "head i has rows i * d_v to (i + 1) * d_v"


def _terms(heads: Tensor, w_o: Tensor) -> Tensor:
    """What each head adds to the output: head i times its block of w_o, (h, n, d_model)."""
    return heads @ _blocks(w_o, len(heads))


def _blocks(w_o: Tensor, h: int) -> Tensor:
    return w_o.unflatten(0, (h, -1))  # (h, d_v, d_model)


def _output(heads: Tensor, w_o: Tensor) -> Tensor:
    return _join(heads) @ w_o


def _explain_join(got: Tensor, heads: Tensor, w_o: Tensor) -> str | None:
    """Say how an output differs from the joined heads times w_o, if it was made of these heads."""
    return (
        _explain_blocks(got, heads, w_o)
        or _explain_order(got @ torch.linalg.pinv(w_o), heads)
        or _explain_near(got, _output(heads, w_o))
    )


def _explain_blocks(got: Tensor, heads: Tensor, w_o: Tensor) -> str | None:
    """Solve output = the sum of c[i, j] * head i @ block j of w_o, where c should be the identity, and look at c."""
    h = len(heads)
    terms = torch.einsum("ind,jdm->nmij", heads, _blocks(w_o, h)).flatten(2).flatten(0, 1)
    solution = torch.linalg.lstsq(terms, got.reshape(-1, 1)).solution
    if not close(terms @ solution, got.reshape(-1, 1)):
        return None
    met = solution.reshape(h, h).abs() > 1e-4
    others = (met & ~torch.eye(h, dtype=torch.bool)).nonzero().tolist()
    if not others:
        missing = (~met.diagonal()).nonzero().flatten().tolist()
        return f"these heads are missing from your output: {missing} (from 0)" if missing else None
    if (met.sum(0) == 1).all() and (met.sum(1) == 1).all():
        return "you joined the heads in the wrong order: the first head comes first"
    i, j = others[0]
    return f"head {i} goes through block {j} of w_o (counted from 0); {ROWS}"


def _explain_order(joined: Tensor, heads: Tensor) -> str | None:
    """Say what is wrong with joined heads (n, h * d_v), if they are the numbers of the heads in another order."""
    origins = _origins(joined, heads)
    if origins is None:
        return None
    mixed = (origins[..., 1] != torch.arange(len(joined))[:, None]).nonzero().tolist()
    if mixed:
        i, j = mixed[0]
        return f"words are mixed up: the row of word {i} holds a feature of word {int(origins[i, j, 1])} (from 0)"
    return "each row holds the right word, but heads or features are in the wrong order; the first head comes first"


# Wrong outputs (n, d_model) of heads (h, n, d_v) and w_o (h * d_v, d_model), by what is said about them.
JOINS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "you joined feature by feature (or took every h-th row of w_o); "
    "all features of the first head come first, then those of the second": lambda heads, w_o: (
        heads.permute(1, 2, 0).flatten(1) @ w_o
    ),
    "you averaged the heads; they are joined, and w_o adds them up": lambda heads, w_o: (
        _output(heads, w_o) / len(heads)
    ),
    f"every head goes through the first block of w_o; {ROWS}": lambda heads, w_o: heads.sum(0) @ w_o[: heads.size(2)],
    f"every head goes through all blocks of w_o; {ROWS}": lambda heads, w_o: (
        heads.sum(0) @ _blocks(w_o, len(heads)).sum(0)
    ),
}

Weigh = Callable[[Tensor, int, int], Tensor]  # raw scores (..., h, n, n), d_model, d_head -> weights


def _multi_head(
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    h: int,
    mask: Tensor | None = None,
    *,
    cuts: Sequence[Cut] = (_split, _split, _split),  # of queries, keys and values
    join: Callable[[Tensor], Tensor] = _join,
    weigh: Weigh | None = None,
) -> tuple[Tensor, Tensor]:
    """The output and the weights of multi-head attention; a slip may do one of its steps in another way."""
    q, k, v = (cut(x @ w, h) for cut, w in zip(cuts, (w_q, w_k, w_v), strict=True))
    if weigh:
        weights = weigh(q @ k.mT, x.size(-1), q.size(-1))
    else:
        weights = masked_softmax(q @ k.mT / math.sqrt(q.size(-1)), None if mask is None else mask[:, None])
    return join(weights @ v) @ w_o, weights


def _weighing(weigh: Weigh) -> Answer:
    return partial(_multi_head, weigh=weigh)


def _scaled(factor: Callable[[int, int, int], float]) -> Answer:
    """Return an answer whose scores are multiplied by factor(d_model, num_heads, d_head)."""
    return _weighing(lambda scores, d_model, d_head: (scores * factor(d_model, len(scores), d_head)).softmax(-1))


def _of_model_width(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, h: int) -> tuple[Tensor, Tensor]:
    width = x.size(-1) // h
    q, k, v = ((x @ w).split(width, dim=-1) for w in (w_q, w_k, w_v))
    weights = [(q[i] @ k[i].T / math.sqrt(width)).softmax(-1) for i in range(h)]
    return torch.cat([weights[i] @ v[i] for i in range(h)], dim=-1) @ w_o, torch.stack(weights)


OUTPUT = "the weights are right, the output is not"
NOT_D_HEAD = "d_model // num_heads"


def _scored(words: str, answer: Answer, mistake: int | None = None) -> Slip:
    """A slip that is known by the scores its weights come from, whatever their factor."""
    return Slip(words, answer, mistake, like=weights_alike)


def _combined(words: str, combine: Callable[[Tensor, Tensor, int], Tensor], mistake: int | None = None) -> Slip:
    """Right weights, but w_o gets combine(weights (h, n, n), x @ w_v, h) in place of the joined heads."""

    def answer(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, h: int) -> tuple[Tensor, Tensor]:
        weights = _multi_head(x, w_q, w_k, w_v, w_o, h)[1]
        return combine(weights, x @ w_v, h) @ w_o, weights

    return Slip(f"{OUTPUT}: {words}", answer, mistake)


def _joined(join: Callable[[Tensor, Tensor], Tensor]) -> Answer:
    """Return an answer with the right heads, but the output join(heads, w_o)."""

    def answer(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, h: int) -> tuple[Tensor, Tensor]:
        weights = _multi_head(x, w_q, w_k, w_v, w_o, h)[1]
        return join(weights @ _split(x @ w_v, h), w_o), weights

    return answer


def _explain_multi_head(
    got: tuple[Tensor, Tensor], right: Any, x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, h: int
) -> str:
    output, weights = got
    n, d_model = x.shape
    sizes = {"d_head": w_q.size(1) // h, "d_model": d_model, "num_heads": h, "n": n, NOT_D_HEAD: d_model // h}
    scores = _split(x @ w_q, h) @ _split(x @ w_k, h).mT
    heads = weights @ _split(x @ w_v, h)
    return explain_weights(weights, scores, sizes=sizes, divide_by="d_head") or (
        f"{OUTPUT}: {_explain_join(output, heads, w_o) or 'check the values, and how the heads are joined'}"
    )


def _projected(n: int, d_model: int, h: int, d_head: int) -> Case:
    w_q, w_k, w_v = (random(d_model, h * d_head, seed=i) for i in (1, 2, 3))
    return Case((random(n, d_model), w_q, w_k, w_v, random(h * d_head, d_model), h))


MULTI_HEAD = Exercise(
    asks="Multi-head attention of x (n, d_model): the output (n, d_model) and each head's weights (h, n, n).",
    right=_multi_head,
    returns=(tensor("(n, d_model)"), tensor("(h, n, n)", "the weights")),
    cases=[_projected(5, 7, 3, 2), _projected(7, 11, 2, 3)],  # d_model // h is d_head; then it is not
    slips=[
        shaped(
            "the heads are joined, (n, h * d_head), but the product with w_o is missing",
            _joined(lambda heads, w_o: _join(heads)),
        ),
        shaped(
            "return each head's own weights, (h, n, n); yours are one matrix, as if averaged over the heads",
            lambda *inputs: (_multi_head(*inputs)[0], _multi_head(*inputs)[1].mean(0)),
            mistake=15,
        ),
        _scored(
            "your heads are scrambled: a reshape to (h, n, d_head) cuts words into pieces; "
            "reshape to (n, h, d_head) first, then transpose",
            partial(_multi_head, cuts=[_scrambled] * 3),
            mistake=9,
        ),
        _scored(
            "you dealt the features out to the heads in turn; the first head owns the first d_head of them",
            partial(_multi_head, cuts=[_dealt] * 3),
        ),
        _scored(
            "you used w_q for the keys too; keys need w_k",
            lambda x, w_q, w_k, *others: _multi_head(x, w_q, w_q, *others),
        ),
        _scored(
            "you used w_k for the queries too; queries need w_q",
            lambda x, w_q, w_k, *others: _multi_head(x, w_k, w_k, *others),
        ),
        _scored(
            "your keys were made with w_v; keys need w_k",
            lambda x, w_q, w_k, w_v, *others: _multi_head(x, w_q, w_v, w_v, *others),
        ),
        _scored(
            "every head got the scores of all features; each has features of its own",
            _weighing(lambda scores, d_model, d_head: (scores.sum(0) / d_head**0.5).softmax(-1).expand_as(scores)),
        ),
        _scored(
            "all your heads use the features of head 0; each has features of its own",
            _weighing(lambda scores, d_model, d_head: (scores[0] / d_head**0.5).softmax(-1).expand_as(scores)),
        ),
        _scored(
            "your heads are d_model // num_heads wide; the width of w_q is h * d_head, so d_head is w_q.size(1) // "
            "num_heads",
            _of_model_width,
        ),
        Slip(
            f"{OUTPUT}: you averaged the keys; the values are made with w_v",
            lambda x, w_q, w_k, w_v, *others: _multi_head(x, w_q, w_k, w_k, *others),
        ),
        Slip(
            f"{OUTPUT}: you averaged the queries; the values are made with w_v",
            lambda x, w_q, w_k, w_v, *others: _multi_head(x, w_q, w_k, w_q, *others),
        ),
        Slip(
            f"{OUTPUT}: you added x to it; that comes outside of attention",
            lambda x, *others: (x + _multi_head(x, *others)[0], _multi_head(x, *others)[1]),
        ),
        _combined(
            "your values are scrambled: cut the features first, then transpose",
            lambda weights, v, h: _join(weights @ _scrambled(v, h)),
        ),
        _combined(
            "you averaged the values over the queries: weights @ v, not weights.T @ v",
            lambda weights, v, h: _join(weights.mT @ _split(v, h)),
        ),
        _combined(
            "the heads were averaged before their features were taken apart (the weights, or weights @ v with all "
            "features of v); split the values, too, and let each head use its own weights",
            lambda weights, v, h: weights.mean(0) @ v,
        ),
        _combined("all heads use the weights of head 0; each uses its own", lambda weights, v, h: weights[0] @ v),
        _combined(
            "all heads use the values of head 0; each uses its own",
            lambda weights, v, h: _join(weights @ _split(v, h)[0]),
        ),
        _combined("the weights are not used: it must be weights @ v, head by head", lambda weights, v, h: v),
        _combined(
            "you joined the heads without transposing back, so each row holds pieces of several words",
            lambda weights, v, h: _reshaped(weights @ _split(v, h)),
            mistake=9,
        ),
        _combined(
            "values and output are scrambled: transpose when you split and when you join",
            lambda weights, v, h: _reshaped(weights @ _scrambled(v, h)),
        ),
        _combined(
            "every head averaged all features of v, and the heads were summed; split the values, too",
            lambda weights, v, h: (weights @ v).sum(0),
        ),
        *(Slip(f"{OUTPUT}: {words}", _joined(join)) for words, join in JOINS.items()),
        Read("these heads are missing from your output", _joined(lambda heads, w_o: _terms(heads, w_o)[-1])),
        Read("every number is too large by 1", _joined(lambda heads, w_o: _output(heads, w_o) + 1)),
        Read("you divided by sqrt(d_model)", _scaled(lambda d_model, h, d_head: d_model**-0.5), mistake=1),
        Read("you did not scale them", _scaled(lambda d_model, h, d_head: 1.0), mistake=2),
        Read("you divided by num_heads", _scaled(lambda d_model, h, d_head: 1 / h), mistake=2),
        Read("you divided by sqrt(num_heads);", _scaled(lambda d_model, h, d_head: h**-0.5), mistake=2),
        Read(
            "you divided by d_head, not by its square root", _scaled(lambda d_model, h, d_head: 1 / d_head), mistake=3
        ),
        Read("you multiplied by sqrt(d_model)", _scaled(lambda d_model, h, d_head: d_model**0.5), mistake=4),
        Read("you divided by sqrt(d_model // num_heads", _scaled(lambda d_model, h, d_head: (d_model // h) ** -0.5)),
        Read("runs over the queries", _weighing(lambda scores, *_: scores.softmax(-2)), mistake=5),
        Read("runs over axis 0", _weighing(lambda scores, *_: scores.softmax(0)), mistake=5),
        Read("queries and keys are swapped", lambda x, w_q, w_k, *others: _multi_head(x, w_k, w_q, *others)),
    ],
    explain=_explain_multi_head,
)

Layer = Callable[[Tensor], Tensor]  # (n, d_model) -> (n, d_model)

_WORDS, _ORDER = 5, torch.tensor([3, 0, 4, 2, 1])
_ROUNDING = 1e-14 * torch.arange(_WORDS, dtype=torch.float64)[:, None]  # as the order of a sum may leave it
_W_Q, _W_K, _W_V, _W_O = (random(6, 6, seed=seed) / 2 for seed in range(4))

# A sound layer; one with scrambled heads; one that never looks at its input; one that tells every word the same.
LAYERS: tuple[Layer, ...] = (
    lambda x: _multi_head(x, _W_Q, _W_K, _W_V, _W_O, 2)[0] + _ROUNDING,
    lambda x: _multi_head(x, _W_Q, _W_K, _W_V, _W_O, 2, cuts=[_scrambled] * 3, join=_reshaped)[0],
    lambda x: random(*x.shape, seed=1),
    lambda x: x.mean(dim=0).expand_as(x) + _ROUNDING,
)


def _verdict(result: Any) -> float:
    """Read whether a layer passed."""
    if isinstance(result, Tensor) and result.dtype == torch.bool and result.numel() > 1:
        raise Mistake("that is a truth value for each number; one for the layer is asked for: torch.allclose")
    if not isinstance(result, bool) and getattr(result, "dtype", None) not in (torch.bool, np.dtype(bool)):
        raise Mistake(f"return True or False; got {type(result).__name__}")
    return float(result)


def _ask_about_layers(answer: Answer, x: Tensor, order: Tensor) -> list[float]:
    """The verdict on each layer."""
    return [_verdict(call(answer, layer, x, order)) for layer in LAYERS]


def _same_outputs(left: Tensor, right: Tensor) -> bool:
    return torch.allclose(left, right)


SHUFFLE_TEST = Exercise(
    asks="Whether the outputs of a layer are shuffled as its words are: True or False.",
    right=lambda layer, x, order: _same_outputs(layer(x[order]), layer(x)[order]),
    returns=numbers("the verdicts", "there is one for each layer"),
    ask=_ask_about_layers,
    rounding=False,
    cases=[Case((random(_WORDS, 6), _ORDER))],
    slips=[
        Slip(
            "you shuffle the words and compare with outputs in the old order; shuffle these, too: layer(x)[order]",
            lambda layer, x, order: _same_outputs(layer(x[order]), layer(x)),
        ),
        Slip(
            "even sound layers fail your test: it compares outputs of different words; the words go in as x[order], "
            "and the outputs of x are put in the same order",
            lambda layer, x, order: _same_outputs(layer(x), layer(x)[order]),
        ),
        Slip(
            "no layer passes, not even a sound one: the two sides agree only up to rounding, so use torch.allclose",
            lambda layer, x, order: torch.equal(layer(x[order]), layer(x)[order]),
        ),
        Slip(
            "all layers pass: compare the numbers, not their shapes",
            lambda layer, x, order: layer(x[order]).shape == layer(x)[order].shape,
        ),
        Slip(
            "a layer that never looks at its input passes your test: a mean or a sum hides which word got what",
            lambda layer, x, order: _same_outputs(layer(x[order]).mean(), layer(x).mean()),
        ),
        Slip(
            "your answer is reversed: return True for a layer that passes",
            lambda layer, x, order: not _same_outputs(layer(x[order]), layer(x)[order]),
        ),
    ],
    rest="your test does not tell a sound layer from a scrambled one",
)


TURNED = "the mask is the wrong way round: in torch's module True means blocked"
IN_TURN = (
    "your masks are repeated in the wrong order (sentences 0, 1, 0, 1, 0, 1): the heads of one sentence follow each "
    "other"
)


def _explain_mask(got: Tensor, right: Tensor, mask: Tensor, h: int) -> str:
    known = torch.cat([~mask, mask])  # each sentence's mask, inverted as it should be, and as it was
    same = (got[:, None] == known).flatten(2).all(-1)  # (batch * h, 2 * batch)
    if not same.any(dim=1).all():
        return "some of your masks are those of no sentence: repeat whole (m, n) masks, and invert them"
    source, expected = same.int().argmax(dim=1), torch.arange(len(mask)).repeat_interleave(h)
    order, turned = source % len(mask), (source >= len(mask)).any()
    if order.equal(expected):
        return f"the order is right, but for some {TURNED}"
    also = f", and {TURNED}" if turned else ""
    return f"your masks belong to the sentences {order.tolist()}; they should belong to {expected.tolist()}{also}"


MASK_FOR_TORCH = Exercise(
    asks="The mask (batch * h, m, n) of torch's module, True = blocked, from one (batch, m, n) with True = may attend.",
    right=lambda mask, h: ~mask.repeat_interleave(h, dim=0),
    returns=Returned(
        "the mask",
        lambda got, right: expect_tensor(
            got, tuple(right.shape), "(batch * num_heads, m, n)", "the mask", boolean=True
        ),
    ),
    cases=[Case((random(2, 5, 7) > 0, 3))],
    slips=[
        Slip(
            "batch and heads must share one axis, (batch * num_heads, m, n); yours has four axes",
            lambda mask, h: ~mask[:, None].expand(-1, h, -1, -1),
            like=lambda got, *_: isinstance(got, Tensor) and got.dim() == 4,
        ),
        Slip(
            "the mask must be boolean, True = blocked; yours holds floating-point numbers",
            lambda mask, h: torch.where(mask.repeat_interleave(h, dim=0), 0.0, -math.inf),
            mistake=8,
            like=lambda got, *_: isinstance(got, Tensor) and got.is_floating_point(),
        ),
        Slip(f"the order is right, but {TURNED}", lambda mask, h: mask.repeat_interleave(h, dim=0), mistake=7),
        Slip(IN_TURN, lambda mask, h: ~mask.repeat(h, 1, 1), mistake=10),
        Slip(f"{IN_TURN}, and {TURNED}", lambda mask, h: mask.repeat(h, 1, 1), mistake=10),
        Read("some of your masks are those of no sentence", lambda mask, h: ~mask.flip(-1).repeat_interleave(h, dim=0)),
        Read(
            "your masks belong to the sentences [1, 1, 1, 0, 0, 0]",
            lambda mask, h: ~mask.flip(0).repeat_interleave(h, dim=0),
        ),
    ],
    explain=_explain_mask,
)


def _measured(words: str, measure: Callable[[Tensor, Tensor], Tensor], like: Callable[..., bool] | None = None) -> Slip:
    """The right change (n, d_model) of the right output, but not its length: measure(change, output)."""
    return Slip(words, lambda heads, w_o, i: measure(_terms(heads, w_o)[i], _output(heads, w_o)), like=like)


def _moved(words: str, change: Callable[[Tensor, Tensor, int], Tensor], mistake: int | None = None) -> Slip:
    """The length of another change(heads, w_o, i), (n, features)."""
    return Slip(words, lambda heads, w_o, i: change(heads, w_o, i).norm(dim=-1), mistake)


def _rows_of(j: int) -> Slip:
    return Slip(
        lambda heads, w_o, i: f"you took the rows of head {j} in w_o for head {i}; {ROWS}",
        lambda heads, w_o, i: (heads[i] @ _blocks(w_o, len(heads))[j]).norm(dim=-1),
    )


def _effect_of(j: int) -> Slip:
    return Slip(
        lambda heads, w_o, i: f"that is the effect of head {j}; the question is about head {i} (counted from 0)",
        lambda heads, w_o, i: _terms(heads, w_o)[j].norm(dim=-1),
    )


def _zeroed(x: Tensor, axis: int, i: int) -> Tensor:
    return x.index_fill(axis, torch.tensor(i), 0.0)


def _behind_moved_up(heads: Tensor, w_o: Tensor, i: int) -> Tensor:
    others = torch.cat([heads[:i], heads[i + 1 :]])
    return _output(heads, w_o) - _output(others, w_o[: -heads.size(2)])


def _shorter(change: Tensor, output: Tensor) -> Tensor:
    """By how much the output's length shrinks."""
    return output.norm(dim=-1) - (output - change).norm(dim=-1)


NORM = "the Euclidean norm is the root of the sum of squares"

WITHOUT_A_HEAD = Exercise(
    asks="How far each word's output moves when head i is removed, (n,), for heads (h, n, d_v) and w_o.",
    right=lambda heads, w_o, i: _terms(heads, w_o)[i].norm(dim=-1),
    returns=tensor("(n,)", "the result"),
    cases=[Case((random(3, 5, 2), random(6, 7), i)) for i in range(3)],
    slips=[
        _measured(
            "return one number for each word: the length of the difference, not the output or the difference",
            lambda change, output: change,
            like=same_shape,
        ),
        _measured(
            "you took the norm over the words; take it over the features, one number for each word",
            lambda change, output: change.norm(dim=0),
            like=same_shape,
        ),
        _measured(
            "that is one number for all words; return one for each",
            lambda change, output: change.norm(),
            like=same_shape,
        ),
        _measured("that is the square of the length; take its square root", lambda change, _: change.square().sum(-1)),
        _measured(f"that is the sum of absolute values; {NORM}", lambda change, _: change.abs().sum(-1)),
        _measured(f"that is the mean of absolute values; {NORM}", lambda change, _: change.abs().mean(-1)),
        _measured(f"that is the largest change of a feature; {NORM}", lambda change, _: change.abs().amax(-1)),
        _measured(f"you took the mean of the squares; {NORM}", lambda change, _: change.square().mean(-1)),
        _measured(
            f"you took the root of the mean of the squares; {NORM}", lambda change, _: change.square().mean(-1).sqrt()
        ),
        _measured(f"that is the sum of the changes; {NORM}", lambda change, _: change.sum(-1)),
        _measured("that is the change of the length; take the length of the change", _shorter),
        _measured(
            "that is the change of the length, with the opposite sign; take the length of the change",
            lambda change, output: -_shorter(change, output),
        ),
        _measured(
            "that is the change of the length, without its sign; take the length of the change",
            lambda change, output: _shorter(change, output).abs(),
        ),
        _measured(
            "that is the change relative to the output; do not divide",
            lambda change, output: change.norm(dim=-1) / output.norm(dim=-1),
        ),
        _measured(
            "that is the length of what is left without head i; return the length of the difference",
            lambda change, output: (output - change).norm(dim=-1),
        ),
        _measured(
            "that is the length of the whole output; return the length of the difference that head i makes",
            lambda change, output: output.norm(dim=-1),
        ),
        _moved(
            "that is the length of head i's own output; multiply by its block of w_o first",
            lambda heads, w_o, i: heads[i],
        ),
        _moved(
            "you took every h-th row of w_o; the block of head i is rows i * d_v to (i + 1) * d_v",
            lambda heads, w_o, i: heads[i] @ w_o[i :: len(heads)],
        ),
        _moved(
            "you removed one row of w_o; those of head i are i * d_v to (i + 1) * d_v",
            lambda heads, w_o, i: _output(heads, w_o - _zeroed(w_o, 0, i)),
        ),
        _moved(
            "you scaled up the other heads to make up for the missing one; leave them as they are",
            lambda heads, w_o, i: _output(heads - _zeroed(heads, 0, i) * len(heads) / (len(heads) - 1), w_o),
        ),
        _moved(
            "you removed word i from every head; remove head i",
            lambda heads, w_o, i: _output(heads - _zeroed(heads, 1, i), w_o),
        ),
        _moved(
            "you removed one feature of every head; remove head i, all of its features",
            lambda heads, w_o, i: _output(heads - _zeroed(heads, 2, i % heads.size(2)), w_o),
        ),
        _moved(
            "you removed columns of the output, where w_o has mixed the heads; remove head i before w_o",
            lambda heads, w_o, i: _output(heads, w_o)[:, i * heads.size(2) : (i + 1) * heads.size(2)],
        ),
        _moved(
            "you joined the heads by a reshape, which mixes words; move the heads after the positions first",
            lambda heads, w_o, i: _reshaped(heads - _zeroed(heads, 0, i)) @ w_o,
            mistake=9,
        ),
        _moved("the heads after head i moved up to other rows of w_o; each keeps its own rows", _behind_moved_up),
        _moved(
            "you put the average of the heads in place of head i; put zero there",
            lambda heads, w_o, i: _terms(heads - heads.mean(0), w_o)[i],
        ),
        _moved(
            "you put head i's average over the words in its place; put zero there",
            lambda heads, w_o, i: _terms(heads - heads.mean(1, keepdim=True), w_o)[i],
        ),
        *map(_rows_of, range(3)),
        *map(_effect_of, range(3)),
        Read("your numbers are 0.5 times what they should be", lambda *a: _terms(*a[:2])[a[2]].norm(dim=-1) / 2),
    ],
    explain=lambda got, right, *_: _explain_near(got, right),
    rest="one number for each word, but not the right ones: the difference is head i times its block of w_o",
)

BUGS = {  # words, and the number of the mistake
    "split": ("the heads are still scrambled by the reshape", 9),
    "scale": ("the scores are still divided by sqrt(d_model)", 1),
    "mask": ("the mask still comes after the softmax", 6),
}
CUTS: dict[Cut, str] = {
    _split: "cut correctly",
    _scrambled: "still scrambled by the reshape",
    _dealt: "dealt out feature by feature (the first head owns the first d_head of them)",
}
UNCUTS: dict[Cut, str] = {  # what is wrong with joined heads that are taken apart so
    _split: "",
    _scrambled: "the heads are joined without transposing back: a row holds pieces of several words",
    _dealt: "the heads are joined feature by feature; all features of the first head come first",
}


def _masked(*inputs: Any, **steps: Any) -> Tensor:
    return _multi_head(*inputs, **steps)[0]


def _masked_weighing(weigh: Callable[[Tensor, Tensor, int, int], Tensor], cut: Cut = _split) -> Answer:
    """Return an answer with the weights weigh(raw scores, mask, d_model, d_head)."""

    def answer(*inputs: Any) -> Tensor:
        mask = inputs[-1][:, None]
        return _masked(*inputs, cuts=[cut] * 3, weigh=lambda scores, *sizes: weigh(scores, mask, *sizes))

    return answer


def _left(*bugs: str) -> Slip:
    """The answer that still has some bugs."""

    def weigh(scores: Tensor, mask: Tensor, d_model: int, d_head: int) -> Tensor:
        scores = scores / math.sqrt(d_model if "scale" in bugs else d_head)
        return scores.softmax(-1) * mask if "mask" in bugs else masked_softmax(scores, mask)

    left = ("one bug is left", "two bugs are left", "all three bugs are still there")[len(bugs) - 1]
    return Slip(
        f"{left}: {'; '.join(BUGS[bug][0] for bug in bugs)}",
        _masked_weighing(weigh, _scrambled if "split" in bugs else _split),
        BUGS[bugs[0]][1] if len(bugs) == 1 else None,
    )


def _explain_masked(
    got: Tensor, right: Tensor, x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, h: int, mask: Tensor
) -> str | None:
    """Work back from the output to the heads, and from them to the weights, however they were cut and joined."""
    joined = got @ torch.linalg.pinv(w_o)  # (batch, n, h * d_head)
    for cut, uncut in itertools.product(CUTS, UNCUTS) if close(joined @ w_o, got) else ():
        weights = recover_weights(uncut(joined, h), cut(x @ w_v, h))
        if weights is not None:
            weights = weights.masked_fill(weights.abs() < 1e-9, 0.0)  # what rounding left
            diagnosis = _explain_cuts(weights, x @ w_q, x @ w_k, mask[:, None], cut, x.size(-1))
            return "; ".join(filter(None, [diagnosis, UNCUTS[uncut]]))
    inexact = explain_rounding(got, right)
    return f"your output is {inexact}" if inexact else _explain_near(got, right)


def _explain_cuts(weights: Tensor, q: Tensor, k: Tensor, mask: Tensor, cut: Cut, d_model: int) -> str | None:
    """Say how queries and keys were cut into heads, when the values were cut so, and what else the weights show."""
    h = weights.size(1)
    sizes = {"d_head": q.size(-1) // h, "d_model": d_model, "num_heads": h, NOT_D_HEAD: d_model // h}

    def explain(cut_q: Cut, cut_k: Cut) -> str | None:
        return explain_weights(weights, cut_q(q, h) @ cut_k(k, h).mT, sizes=sizes, divide_by="d_head", mask=mask)

    scrambled = None if cut is _split else f"the heads are {CUTS[cut]}"
    for cut_q, cut_k in itertools.product(CUTS, repeat=2):
        if explain(cut_q, cut_k) is None:
            names = f"the queries are {CUTS[cut_q]}, the keys {CUTS[cut_k]}, the values {CUTS[cut]}"
            return scrambled if cut_q is cut_k is cut else names
    diagnosis = explain(cut, cut)
    return f"{scrambled}; besides, {diagnosis}" if scrambled else diagnosis


def _case_to_debug(batch: int, n: int, d_model: int, h: int, d_head: int) -> Case:
    """Masks that differ from sentence to sentence; every row of them has an allowed key and a masked one."""
    w_q, w_k, w_v = (0.2 * random(d_model, h * d_head, seed=i) for i in (1, 2, 3))
    away = (torch.arange(n) - torch.arange(n)[:, None]) % n  # how far key j stands from query i
    mask = torch.stack([away < 2 - b % 2 if b < 3 else away != 1 + b % 2 for b in range(batch)])
    return Case((random(batch, n, d_model), w_q, w_k, w_v, random(h * d_head, d_model), h, mask))


DEBUG_THE_HEADS = Exercise(
    asks="Multi-head attention of x (batch, n, d_model) under a mask (batch, n, n), without the three bugs.",
    right=_masked,
    returns=tensor("(batch, n, d_model)"),
    rounding=False,  # masked keys may have little weight; `explain` looks for that first
    in_evaluation=True,
    cases=[_case_to_debug(7, 3, 13, 2, 5)],
    slips=[
        *(_left(*bugs) for count in (1, 2, 3) for bugs in itertools.combinations(BUGS, count)),
        Slip(
            "the output holds NaN; every query may attend to some key, so an infinity is in the wrong place: "
            "masked keys get the score minus infinity (masked_fill), then comes a softmax over the keys",
            _masked_weighing(lambda scores, mask, *_: scores.softmax(-1).masked_fill(~mask, -math.inf)),
            like=lambda got, *_: isinstance(got, Tensor) and bool(got.isnan().any()),
        ),
        Slip(
            "your mask is transposed: row i of it belongs to query i",
            lambda *inputs: _masked(*inputs[:-1], inputs[-1].mT),
        ),
        Slip("you used the mask of the first sentence for all", lambda *inputs: _masked(*inputs[:-1], inputs[-1][:1])),
        Slip(
            "you took the softmax twice; mask the scores, then take it once",
            _masked_weighing(
                lambda scores, mask, d_model, d_head: masked_softmax((scores / d_head**0.5).softmax(-1), mask)
            ),
        ),
        Slip(
            "you used w_q for the keys too; keys need w_k", lambda x, w_q, w_k, *others: _masked(x, w_q, w_q, *others)
        ),
        Slip(
            "you used w_k for the queries too; queries need w_q",
            lambda x, w_q, w_k, *others: _masked(x, w_k, w_k, *others),
        ),
        Slip(
            "you averaged the keys; the values are made with w_v",
            lambda x, w_q, w_k, w_v, *others: _masked(x, w_q, w_k, w_k, *others),
        ),
        Slip("you added x to the output; that comes outside of attention", lambda x, *others: x + _masked(x, *others)),
        Read(
            "by the reshape; the heads are joined without transposing back",
            partial(_masked, cuts=[_scrambled] * 3, join=_reshaped),
            mistake=9,
        ),
        Read("joined without transposing back", partial(_masked, join=_reshaped), mistake=9),
        Read(
            "the queries are cut correctly, the keys still scrambled",
            partial(_masked, cuts=[_split, _scrambled, _scrambled]),
            mistake=9,
        ),
        Read(
            "the keys cut correctly, the values still scrambled",
            partial(_masked, cuts=[_split, _split, _scrambled]),
            mistake=9,
        ),
        Read("the heads are dealt out feature by feature", partial(_masked, cuts=[_dealt] * 3)),
        Read(
            "you did not scale them", _masked_weighing(lambda scores, mask, *_: masked_softmax(scores, mask)), mistake=2
        ),
        Read(
            "you divided by sqrt(d_model // num_heads",
            _masked_weighing(
                lambda scores, mask, d_model, _: masked_softmax(scores / (d_model // scores.size(1)) ** 0.5, mask)
            ),
        ),
        Read("your mask is the wrong way round", lambda *inputs: _masked(*inputs[:-1], ~inputs[-1]), mistake=7),
        Read("your mask has no effect", lambda *inputs: _masked(*inputs[:-1], None)),
        Read(
            "masked keys got the score 0",
            _masked_weighing(
                lambda scores, mask, d_model, d_head: (scores / d_head**0.5).masked_fill(~mask, 0.0).softmax(-1)
            ),
            mistake=6,
        ),
    ],
    explain=_explain_masked,
    rest="the shape is right, but the numbers are not; compare each tensor's shape with the table of section 4.3",
)
