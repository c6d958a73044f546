"""The exercises of chapter 4."""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..analysis.influence import follows_order
from ..functional import masked_softmax
from .parse import mask, number, numbers, random, tensor
from .runner import Mistake, call
from .table import Case, Exercise, WrongAnswer, quick_question

Answer = Callable[..., Any]
Cut = Callable[[Tensor, int], Tensor]  # (..., n, h * d_head), h -> (..., h, n, d_head)


def _parameters(d: int, h: int, d_head: int | None = None) -> int:
    return 4 * d * h * (d // h if d_head is None else d_head)


def _counted(message: str, count: Callable[[int, int, int], int]) -> WrongAnswer:
    """A wrong count(d_model, h, d_head), where the default d_head is right."""
    return WrongAnswer(message, lambda d, h, d_head: count(d, h, d // h if d_head is None else d_head))


PARAMETERS = Exercise(
    prompt="The number of parameters of multi-head attention without biases, where d_head may be left out.",
    right=_parameters,
    returns=number("the number of parameters"),
    cases=[Case(sizes) for sizes in ((11, 5, 7), (7, 2, 13), (24, 4, None), (50, 8, None), (55, 8, None))],
    wrong_answers=[
        WrongAnswer(
            lambda d, h, k: f"d_head is rounded down when it is not given: {d} // {h} is {d // h}",
            lambda d, h, k: 4 * d * h * (d / h if k is None else k),
        ),
        _counted(
            "you left d_head out: the matrices map to h * d_head features, which need not be d_model",
            lambda d, h, k: 4 * d * d,
        ),
        _counted("you counted biases; there are none here", lambda d, h, k: 4 * d * h * k + 3 * h * k + d),
        _counted("you counted w_q, w_k and w_v; the output projection w_o is missing", lambda d, h, k: 3 * d * h * k),
        _counted("you counted one head; there are num_heads of them", lambda d, h, k: 4 * d * k),
    ],
)

HEAD_ONE_GIVES_SHE = quick_question(
    "Saw asks (2, 0), d_head is 2. Keys: she (1, 0), saw (0, 0), him (0, 1). What weight does saw give she?",
    0.6728,
    {
        0.787: "that is the weight without the root: divide the score 2 by √2 before the softmax",
        0.5761: "you divided the score by 2; the root of d_head = 2 is √2 = 1.41",
        0.5502: "you divided by √5, the root of d_model; the scores of a head are divided by the root of d_head = 2",
        0.8943: "that is the weight for the query (4, 0); this one asks (2, 0)",
        0.4458: "that is one head that asks (2, 2); this one does not ask for him",
        1.414: "that is the score; take its exponential, and divide by the sum of all three exponentials",
        0.1636: "that is the weight of each of the other words",
    },
)

JOINED_SHAPE = quick_question(
    "For 2 sentences of 10 words, d_model 300, 8 heads of d_head 37: what shape do the joined heads have, before W^O?",
    (2, 10, 296),
    {
        (2, 10, 300): "that is the shape after W^O; joined heads have h * d_head features, which need not be d_model",
        (2, 80, 37): "heads are joined side by side, along the features: each word keeps one row",
        (2, 10, 37): "that is one head; all eight are joined",
        (2, 8, 10, 37): "those are the heads before they are joined",
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


SPLIT = Exercise(
    prompt="The heads (batch, h, n, d_head) of x (batch, n, h * d_head).",
    right=_split,
    returns=tensor("(batch, h, n, d_head)"),
    cases=[Case((random(2, 5, 3 * 7), 3))],
    wrong_answers=[
        WrongAnswer(
            "your heads are scrambled: one reshape to (batch, h, n, d_head) cuts words into pieces; "
            "cut the features first, then transpose",
            _scrambled,
            mistake=9,
        ),
        WrongAnswer(
            lambda x, h: f"you return {h} pieces; make one tensor of them, with an axis for the heads (torch.stack)",
            lambda x, h: x.chunk(h, dim=-1),
        ),
        WrongAnswer(
            "the features are cut, but the heads must stand before the positions: swap axes 1 and 2",
            lambda x, h: x.unflatten(-1, (h, -1)),
            mistake=9,
        ),
        WrongAnswer(
            "you dealt the features out in turn (the first head gets features 0, 3, 6, ...); "
            "the first head owns the first d_head features, the second the next",
            _dealt,
        ),
    ],
    fallback_message="the numbers are not those of x, rearranged: cut the features into heads, then swap axes",
)


def _terms(heads: Tensor, w_o: Tensor) -> Tensor:
    """What each head adds to the output: head i times its block of w_o, (h, n, d_model)."""
    return heads @ w_o.unflatten(0, (len(heads), -1))


def _output(heads: Tensor, w_o: Tensor) -> Tensor:
    return _join(heads) @ w_o


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
    """The output and the weights of multi-head attention; a wrong answer may do one of its steps in another way."""
    q, k, v = (cut(x @ w, h) for cut, w in zip(cuts, (w_q, w_k, w_v), strict=True))
    if weigh:
        weights = weigh(q @ k.mT, x.size(-1), q.size(-1))
    else:
        weights = masked_softmax(q @ k.mT / math.sqrt(q.size(-1)), None if mask is None else mask[:, None])
    return join(weights @ v) @ w_o, weights


def _weighing(weigh: Weigh) -> Answer:
    return partial(_multi_head, weigh=weigh)


def _scaled(message: str, factor: Callable[[int, int, int], float], mistake: int) -> WrongAnswer:
    """Scores that are multiplied by factor(d_model, num_heads, d_head)."""
    return WrongAnswer(
        f"{message}; divide the scores by sqrt(d_head)",
        _weighing(lambda scores, d_model, d_head: (scores * factor(d_model, len(scores), d_head)).softmax(-1)),
        mistake,
    )


OUTPUT = "the weights are right, the output is not"


def _combined(
    message: str, combine: Callable[[Tensor, Tensor, int], Tensor], mistake: int | None = None
) -> WrongAnswer:
    """Right weights, but w_o gets combine(weights (h, n, n), x @ w_v, h) in place of the joined heads."""

    def answer(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, h: int) -> tuple[Tensor, Tensor]:
        weights = _multi_head(x, w_q, w_k, w_v, w_o, h)[1]
        return combine(weights, x @ w_v, h) @ w_o, weights

    return WrongAnswer(f"{OUTPUT}: {message}", answer, mistake)


def _without_w_o(*inputs: Any) -> tuple[Tensor, Tensor]:
    x, w_q, w_k, w_v, w_o, h = inputs
    return _multi_head(x, w_q, w_k, w_v, torch.eye(len(w_o), dtype=w_o.dtype), h)


def _projected(n: int, d_model: int, h: int, d_head: int) -> Case:
    w_q, w_k, w_v = (random(d_model, h * d_head, seed=i) for i in (1, 2, 3))
    return Case((random(n, d_model), w_q, w_k, w_v, random(h * d_head, d_model), h))


MULTI_HEAD = Exercise(
    prompt="Multi-head attention of x (n, d_model): the output (n, d_model) and each head's weights (h, n, n).",
    right=_multi_head,
    returns=(tensor("(n, d_model)"), tensor("(h, n, n)", "the weights")),
    cases=[_projected(5, 7, 3, 2), _projected(7, 11, 2, 3)],  # d_model // h is d_head; then it is not
    wrong_answers=[
        WrongAnswer("the heads are joined, (n, h * d_head), but the product with w_o is missing", _without_w_o),
        WrongAnswer(
            "return each head's own weights, (h, n, n); yours are one matrix, as if averaged over the heads",
            lambda *inputs: (_multi_head(*inputs)[0], _multi_head(*inputs)[1].mean(0)),
            mistake=15,
        ),
        WrongAnswer(
            "your heads are scrambled: a reshape to (h, n, d_head) cuts words into pieces; "
            "reshape to (n, h, d_head) first, then transpose",
            partial(_multi_head, cuts=[_scrambled] * 3),
            mistake=9,
        ),
        WrongAnswer(
            "you used w_q for the keys too; keys need w_k",
            lambda x, w_q, w_k, *others: _multi_head(x, w_q, w_q, *others),
        ),
        WrongAnswer(
            "queries and keys are swapped: row i of the weights belongs to query i",
            lambda x, w_q, w_k, *others: _multi_head(x, w_k, w_q, *others),
        ),
        WrongAnswer(
            "every head got the scores of all features; each has features of its own",
            _weighing(lambda scores, d_model, d_head: (scores.sum(0) / d_head**0.5).softmax(-1).expand_as(scores)),
        ),
        WrongAnswer(
            f"{OUTPUT}: you averaged the keys; the values are made with w_v",
            lambda x, w_q, w_k, w_v, *others: _multi_head(x, w_q, w_k, w_k, *others),
        ),
        WrongAnswer(
            f"{OUTPUT}: you added x to it; that comes outside of attention",
            lambda x, *others: (x + _multi_head(x, *others)[0], _multi_head(x, *others)[1]),
        ),
        _combined(
            "your values are scrambled: cut the features first, then transpose",
            lambda weights, v, h: _join(weights @ _scrambled(v, h)),
        ),
        _combined("all heads use the weights of head 0; each uses its own", lambda weights, v, h: weights[0] @ v),
        _combined(
            "you joined the heads without transposing back, so each row holds pieces of several words",
            lambda weights, v, h: _reshaped(weights @ _split(v, h)),
            mistake=9,
        ),
        _combined(
            "every head averaged all features of v, and the heads were summed; split the values, too",
            lambda weights, v, h: (weights @ v).sum(0),
        ),
        _scaled("you divided by sqrt(d_model)", lambda d_model, h, d_head: d_model**-0.5, mistake=1),
        _scaled("you did not scale them", lambda d_model, h, d_head: 1.0, mistake=2),
        _scaled("you divided by num_heads", lambda d_model, h, d_head: 1 / h, mistake=2),
        _scaled("you divided by d_head, not by its square root", lambda d_model, h, d_head: 1 / d_head, mistake=3),
        _scaled("you multiplied by sqrt(d_model)", lambda d_model, h, d_head: d_model**0.5, mistake=4),
        WrongAnswer(
            "your softmax runs over the queries (down the columns); it must run over the keys, along each row",
            _weighing(lambda scores, *_: scores.softmax(-2)),
            mistake=5,
        ),
    ],
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
    prompt="Whether the outputs of a layer are shuffled as its words are: True or False.",
    right=follows_order,
    returns=numbers("the verdicts", "there is one for each layer"),
    call=_ask_about_layers,
    cases=[Case((random(_WORDS, 6), _ORDER))],
    wrong_answers=[
        WrongAnswer(
            "you shuffle the words and compare with outputs in the old order; shuffle these, too: layer(x)[order]",
            lambda layer, x, order: _same_outputs(layer(x[order]), layer(x)),
        ),
        WrongAnswer(
            "even sound layers fail your test: it compares outputs of different words; the words go in as x[order], "
            "and the outputs of x are put in the same order",
            lambda layer, x, order: _same_outputs(layer(x), layer(x)[order]),
        ),
        WrongAnswer(
            "no layer passes, not even a sound one: the two sides agree only up to rounding, so use torch.allclose",
            lambda layer, x, order: torch.equal(layer(x[order]), layer(x)[order]),
        ),
        WrongAnswer(
            "a layer that never looks at its input passes your test: a mean or a sum hides which word got what",
            lambda layer, x, order: _same_outputs(layer(x[order]).mean(), layer(x).mean()),
        ),
    ],
    fallback_message="your test does not tell a sound layer from a scrambled one",
)

TURNED = "the mask is the wrong way round: in torch's module True means blocked"
IN_TURN = (
    "your masks are repeated in the wrong order (sentences 0, 1, 0, 1, 0, 1): the heads of one sentence follow each "
    "other"
)

MASK_FOR_TORCH = Exercise(
    prompt="The mask (batch * h, m, n) of torch's module, True = blocked, from one (batch, m, n) with True = may "
    "attend.",
    right=lambda mask, h: ~mask.repeat_interleave(h, dim=0),
    returns=mask("(batch * num_heads, m, n)"),
    cases=[Case((random(2, 5, 7) > 0, 3))],
    wrong_answers=[
        WrongAnswer(
            "batch and heads must share one axis, (batch * num_heads, m, n); yours has four axes",
            lambda mask, h: ~mask[:, None].expand(-1, h, -1, -1),
        ),
        WrongAnswer(
            "the mask must be boolean, True = blocked; yours holds floating-point numbers",
            lambda mask, h: torch.where(mask.repeat_interleave(h, dim=0), 0.0, -math.inf),
            mistake=8,
        ),
        WrongAnswer(f"the order is right, but {TURNED}", lambda mask, h: mask.repeat_interleave(h, dim=0), mistake=7),
        WrongAnswer(IN_TURN, lambda mask, h: ~mask.repeat(h, 1, 1), mistake=10),
    ],
)


def _moved(message: str, measure: Callable[[Tensor, Tensor, int], Tensor], mistake: int | None = None) -> WrongAnswer:
    """The length of another change(heads, w_o, i), (n, features)."""
    return WrongAnswer(message, lambda *inputs: measure(*inputs).norm(dim=-1), mistake)


WITHOUT_A_HEAD = Exercise(
    prompt="How far each word's output moves when head i is removed, (n,), for heads (h, n, d_v) and w_o.",
    right=lambda heads, w_o, i: _terms(heads, w_o)[i].norm(dim=-1),
    returns=tensor("(n,)", "the result"),
    cases=[Case((random(3, 5, 2), random(6, 7), i)) for i in range(3)],
    wrong_answers=[
        WrongAnswer(
            "return one number for each word: the length of the difference, not the difference",
            lambda heads, w_o, i: _terms(heads, w_o)[i],
        ),
        WrongAnswer(
            "that is the change of the length; take the length of the change",
            lambda heads, w_o, i: (
                _output(heads, w_o).norm(dim=-1) - (_output(heads, w_o) - _terms(heads, w_o)[i]).norm(dim=-1)
            ),
        ),
        _moved(
            "that is the length of what is left without head i; return the length of the difference",
            lambda heads, w_o, i: _output(heads, w_o) - _terms(heads, w_o)[i],
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
            "you joined the heads by a reshape, which mixes words; move the heads after the positions first",
            lambda heads, w_o, i: (
                _reshaped(heads.index_fill(0, torch.tensor([j for j in range(3) if j != i]), 0.0)) @ w_o
            ),
            mistake=9,
        ),
    ],
    fallback_message="the difference is head i times its block of w_o; take its length for each word",
)

BUGS = {  # message, and the number of the mistake
    "split": ("the heads are still scrambled by the reshape", 9),
    "scale": ("the scores are still divided by sqrt(d_model)", 1),
    "mask": ("the mask still comes after the softmax", 6),
}


def _masked(*inputs: Any, **steps: Any) -> Tensor:
    return _multi_head(*inputs, **steps)[0]


def _masked_weighing(weigh: Callable[[Tensor, Tensor, int, int], Tensor], cut: Cut = _split) -> Answer:
    """Return an answer with the weights weigh(raw scores, mask, d_model, d_head)."""

    def answer(*inputs: Any) -> Tensor:
        mask = inputs[-1][:, None]
        return _masked(*inputs, cuts=[cut] * 3, weigh=lambda scores, *sizes: weigh(scores, mask, *sizes))

    return answer


def _left(*bugs: str) -> WrongAnswer:
    """The answer that still has some bugs."""

    def weigh(scores: Tensor, mask: Tensor, d_model: int, d_head: int) -> Tensor:
        scores = scores / math.sqrt(d_model if "scale" in bugs else d_head)
        return scores.softmax(-1) * mask if "mask" in bugs else masked_softmax(scores, mask)

    left = ("one bug is left", "two bugs are left", "all three bugs are still there")[len(bugs) - 1]
    return WrongAnswer(
        f"{left}: {'; '.join(BUGS[bug][0] for bug in bugs)}",
        _masked_weighing(weigh, _scrambled if "split" in bugs else _split),
        BUGS[bugs[0]][1] if len(bugs) == 1 else None,
    )


def _case_to_debug(batch: int, n: int, d_model: int, h: int, d_head: int) -> Case:
    """Masks that differ from sentence to sentence; every row of them has an allowed key and a masked one."""
    w_q, w_k, w_v = (0.2 * random(d_model, h * d_head, seed=i) for i in (1, 2, 3))
    away = (torch.arange(n) - torch.arange(n)[:, None]) % n  # how far key j stands from query i
    mask = torch.stack([away < 2 - b % 2 if b < 3 else away != 1 + b % 2 for b in range(batch)])
    return Case((random(batch, n, d_model), w_q, w_k, w_v, random(h * d_head, d_model), h, mask))


DEBUG_THE_HEADS = Exercise(
    prompt="Multi-head attention of x (batch, n, d_model) under a mask (batch, n, n), without the three bugs.",
    right=_masked,
    returns=tensor("(batch, n, d_model)"),
    in_evaluation=True,
    cases=[_case_to_debug(7, 3, 13, 2, 5)],
    wrong_answers=[
        *(_left(*bugs) for count in (1, 2, 3) for bugs in itertools.combinations(BUGS, count)),
        WrongAnswer(
            "the output holds NaN; every query may attend to some key, so an infinity is in the wrong place: "
            "masked keys get the score minus infinity (masked_fill), then comes a softmax over the keys",
            _masked_weighing(lambda scores, mask, *_: scores.softmax(-1).masked_fill(~mask, -math.inf)),
        ),
        WrongAnswer(
            "the heads are joined without transposing back: a row holds pieces of several words",
            partial(_masked, join=_reshaped),
            mistake=9,
        ),
        WrongAnswer(
            "you did not scale the scores; divide by sqrt(d_head)",
            _masked_weighing(lambda scores, mask, *_: masked_softmax(scores, mask)),
            mistake=2,
        ),
        WrongAnswer(
            "your mask is the wrong way round: True means the query may attend",
            lambda *inputs: _masked(*inputs[:-1], ~inputs[-1]),
            mistake=7,
        ),
        WrongAnswer("your mask has no effect", lambda *inputs: _masked(*inputs[:-1], None)),
        WrongAnswer(
            "masked keys got the score 0, and exp(0) is 1, so they still get weight; put minus infinity there",
            _masked_weighing(
                lambda scores, mask, d_model, d_head: (scores / d_head**0.5).masked_fill(~mask, 0.0).softmax(-1)
            ),
            mistake=6,
        ),
    ],
    fallback_message="the shape is right, but the numbers are not; compare each tensor's shape with the table of "
    "section 4.3",
)
