"""Recognise how an attention computes: which steps, right or known to be wrong, give the output that came.

The steps are the right answers and the wrong ones of the chapters' tables, each with its words.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..layers import repeat_heads
from ..masks import causal_mask
from .chapter04 import SPLIT
from .chapter05 import CAUSAL, SURVIVING_SOFTMAX

__all__ = ["WRONG_WAY", "Heads", "Reading", "Step", "recognise"]

WRONG_WAY = "the mask is read the wrong way round: what should be hidden is seen, and nothing else"

Weigh = Callable[[Tensor, Tensor], Tensor]  # scores (..., m, n), what is allowed -> weights


class Step(NamedTuple):
    """A step of an attention: what is wrong with it, and its number in `MISTAKES`; nothing, if it is right."""

    words: str = ""
    mistake: int | None = None
    alone: bool = False  # not tried together with another fault


class Heads(NamedTuple):
    """Queries, keys and values (batch, n, heads * d_head), keys perhaps of fewer heads, and what came of them."""

    q: Tensor
    k: Tensor
    v: Tensor
    got: Tensor
    d_head: int

    def split(self, cuts: Sequence[Callable[[Tensor, int], Tensor]] = (SPLIT.right,) * 3) -> list[Tensor]:
        """Return queries, keys and values, each (batch, heads, n, d_head)."""
        of = zip(cuts, (self.q, self.k, self.v), strict=True)
        parts = [cut(x, x.size(-1) // self.d_head) for cut, x in of]
        return [repeat_heads(x, parts[0].size(1)) for x in parts]

    def expected(self, allowed: Tensor, scale: float) -> Tensor:
        """Return what PyTorch's function gives for them."""
        q, k, v = self.split()
        heads = F.scaled_dot_product_attention(q, k, v, allowed.expand(*q.shape[:-1], k.size(-2)), scale=scale)
        return _join(heads)


class Reading(NamedTuple):
    """A way of computing that gives what came, and the factor of its scores."""

    heads: Step
    roles: Step
    weighing: Step
    factor: float

    @property
    def steps(self) -> tuple[Step, Step, Step]:
        """Its steps alone."""
        return self[:3]


def _join(heads: Tensor) -> Tensor:
    return heads.transpose(-3, -2).flatten(-2)


def _reshaped(heads: Tensor) -> Tensor:
    return heads.reshape(*heads.shape[:-3], heads.size(-2), -1)


def _collected(heads: Tensor) -> Tensor:
    return heads.movedim(-3, -1).flatten(-2)


_SCRAMBLED, _, _NOT_SWAPPED, _DEALT = (wrong.answer for wrong in SPLIT.wrong_answers)
_JOINED = Step("the heads are joined without transposing back, so each row holds pieces of several words", 9)
_CUT = Step(str(SPLIT.wrong_answers[0].message), 9)
_ACROSS = Step("at each word the heads look at one another, not the words: the axis of the heads must come before that "
               "of the words (swap axes 1 and 2; or does axes= say something else?)", 9)  # fmt: skip
_PARTS = ("queries", "keys", "values", "output")
Cut = Callable[[Tensor, int], Tensor]
HEADS: list[tuple[Step, tuple[Cut, ...], Callable[[Tensor], Tensor]]] = [
    (Step(), (SPLIT.right,) * 3, _join),
    (_JOINED, (SPLIT.right,) * 3, _reshaped),
    *((_CUT, (_SCRAMBLED,) * 3, join) for join in (_join, _reshaped)),
    (_ACROSS, (_NOT_SWAPPED,) * 3, lambda x: x.flatten(-2)),
]
for dealt in itertools.product((False, True), repeat=4):  # which of them are cut as (d h), others as (h d)
    if any(dealt):
        those = " and ".join(part for part, so in zip(_PARTS, dealt, strict=True) if so)
        step = (
            Step()
            if all(dealt)
            else Step(f"the features of {those} are split as (d h), the others as (h d)", alone=True)
        )
        cuts = tuple(_DEALT if so else SPLIT.right for so in dealt[:3])
        HEADS.append((step, cuts, _collected if dealt[3] else _join))
_IN_TURN = Step("keys and values are repeated over the heads as 0, 1, 0, 1 and not as 0, 0, 1, 1", 10)
ROLES = (
    (Step(), (0, 1, 2)),
    (Step("the keys are averaged, not the values"), (0, 1, 1)),
    (Step("queries and keys are swapped: row i of the weights belongs to query i"), (1, 0, 2)),
    (Step("the queries serve as keys, too"), (0, 0, 2)),
)
_NOT_RESCALED = {"sum": "the output is", "output": "the sum is", "": "output and sum are"}
_AXIS = "your softmax runs over {}; it must run over the keys, along each row"


def _over(*axes: int, fill: float = -1e9) -> Weigh:
    """A softmax over several axes at once."""
    return lambda scores, allowed: ((s := scores.masked_fill(~allowed, fill)) - s.logsumexp(axes, keepdim=True)).exp()


def _in_blocks(size: int, rescaled: str) -> Weigh:
    """Blocks of keys, one after another, where only one of sum and output is rescaled to a new maximum, or neither."""

    def weigh(scores: Tensor, allowed: Tensor) -> Tensor:
        s = scores.masked_fill(~allowed, -1e9)
        tops = torch.cat([x.amax(-1, keepdim=True).expand_as(x) for x in s.split(size, -1)], -1).cummax(-1).values
        right, wrong = (s - tops[..., -1:]).exp(), (s - tops).exp()
        return (right if rescaled == "output" else wrong) / (right if rescaled == "sum" else wrong).sum(-1, True)

    return weigh


def _under(mask: Tensor) -> Weigh:
    """The right softmax under another mask."""
    return lambda scores, _: SURVIVING_SOFTMAX.right(scores, mask)


def _weighings(allowed: Tensor) -> Iterator[tuple[Step, Weigh]]:
    """Yield the right softmax, and those of the exercises, of the right mask and of those of the exercises."""
    right, n = SURVIVING_SOFTMAX.right, allowed.size(-1)
    yield Step(), right
    yield Step("the fill is added to the scores, so in a row that may see no key nothing is hidden; set the weights of "
               "such a row to zero", 13, alone=True), _under(allowed | ~allowed.any(-1, keepdim=True))  # fmt: skip
    wrong_masks = []
    if (~allowed & allowed.any(-1, keepdim=True)).any():
        causal = allowed.equal(causal_mask(n).expand_as(allowed))
        yield Step("the mask has no effect", 14 if causal else None), lambda scores, _: scores.softmax(-1)
        wrong_masks = [(wrong, wrong.answer(n, n)) for wrong in CAUSAL.wrong_answers] if causal else []
    if allowed.equal(allowed.tril()):
        wrong_masks.append((CAUSAL.wrong_answers[1], allowed | torch.ones_like(allowed).triu(1).tril(1)))
    for wrong, mask in wrong_masks:
        if not mask.expand_as(allowed).equal(allowed):
            yield Step(WRONG_WAY if wrong.mistake == 7 else str(wrong.message), wrong.mistake), _under(mask)
    for wrong in SURVIVING_SOFTMAX.wrong_answers:
        yield Step(WRONG_WAY if wrong.mistake == 7 else str(wrong.message), wrong.mistake), wrong.answer
    yield Step("the mask hides words as queries, not as keys: its last axis is that of keys", 12), _under(allowed.mT)
    for fill in (-1e9, -torch.inf):
        yield Step(_AXIS.format("the heads"), 5), _over(-3, fill=fill)
        yield Step(_AXIS.format("the texts of the batch"), 5), _over(-4, fill=fill)
        yield Step(_AXIS.format("the whole matrix at once"), 5), _over(-2, -1, fill=fill)
    for size, (rescaled, part) in itertools.product((1, 2, 3, 4), _NOT_RESCALED.items()):
        words = f"keys come in blocks, and {part} not rescaled when a larger maximum comes"
        yield Step(words, alone=True), _in_blocks(size, rescaled)
    yield Step("the softmax is taken twice"), lambda scores, mask: right(scores, mask).softmax(-1)
    yield Step("there is no softmax: the scores themselves are the weights"), lambda scores, mask: scores * mask
    yield Step("there is no softmax: scores are divided by their sum"), lambda s, a: s * a / (s * a).sum(-1, True)


def recognise(
    heads: Heads, allowed: Tensor, scale: float, *, again: Heads | None = None, like: Reading | None = None,
    tolerance: float = 1e-4,
) -> Reading | None:  # fmt: skip
    """Find the way of computing, with the fewest faults and at most two, that gives the output that came.

    Args:
        heads: queries, keys, values, and what came of them.
        again: the same for another input: the way must give this output, too.
        allowed: who may look at whom, (batch, 1, m, n).
        scale: the factor that scores should have.
        like: how it computes under another mask: then only its weights can differ.
        tolerance: how far the outputs may be apart, relative to the largest number.

    Returns:
        The way; None if no known one gives this output.
    """
    expected = heads.expected(allowed, scale)
    if heads.got.shape != expected.shape or not heads.got.isfinite().all():
        return None
    q, k, _ = heads.split()
    weighings: dict[bytes, Any] = {}  # those that can be told apart here
    for step, weigh in _weighings(allowed):
        weights = weigh((scale * q @ k.mT)[None], allowed).nan_to_num()
        weighings.setdefault(weights.float().numpy().tobytes(), (step, weigh))
    shared = heads.k.size(-1) < heads.q.size(-1)
    kinds = [kind for kind in HEADS if kind[0] is not _ACROSS or (allowed.all() and not shared)]
    if shared:
        in_turn = (SPLIT.right, *(lambda x, h: SPLIT.right(x, h).repeat(1, k.size(1) // h, 1, 1),) * 2)
        kinds.append((_IN_TURN, in_turn, _join))
    ways = [
        way for way in itertools.product(kinds, ROLES, weighings.values())
        if (_faults(way) < 3 if like is None else (like.heads, like.roles) == (way[0][0], way[1][0]))
    ]  # fmt: skip
    for way in sorted(ways, key=_faults):
        errors = [_errors(x, way, allowed, expected.abs().max()) for x in (heads, again or heads)]
        factor = _least(errors[0], scale, tolerance)
        if factor is not None and errors[1](torch.tensor([factor]).double()) <= tolerance:
            return Reading(way[0][0], way[1][0], way[2][0], factor)
    return None


def _errors(heads: Heads, way: Any, allowed: Tensor, size: Tensor) -> Callable[[Tensor], Tensor]:
    """How far the output of a way is from what came, for each of some factors of the scores."""
    (head, cuts, join), (_, role), (_, weigh) = way
    parts = heads.split(cuts)
    raw, v = parts[role[0]] @ parts[role[1]].mT, parts[role[2]]
    seen = allowed[:, :, :1, :1] if head is _ACROSS else allowed

    def errors(factors: Tensor) -> Tensor:
        output = join(weigh(factors.view(-1, 1, 1, 1, 1) * raw, seen).nan_to_num() @ v)
        return (output - heads.got).abs().flatten(1).amax(dim=1) / size

    return errors


def _faults(way: Any) -> int:
    return sum(bool(step.words) + step.alone for step, *_ in way)


def _least(errors: Callable[[Tensor], Tensor], scale: float, tolerance: float) -> float | None:
    """Find the factor of the scores with no error: the right one, if it has none."""
    up = torch.logspace(-2, 2, 33, dtype=torch.float64)
    factors = scale * torch.cat([torch.ones(1), up, -up[12:21], torch.zeros(1)]).double()
    off = errors(factors)
    if off[0] <= tolerance:
        return scale
    best, step = factors[off.argmin()], 0.34
    for _ in range(7 if off.min() <= 0.5 else 0):  # else none of the list is near
        factors = best * torch.linspace(1 - step, 1 + step, 21, dtype=torch.float64)
        off, step = errors(factors), step / 6
        best = factors[off.argmin()]
    return best.item() if off.min() <= tolerance else None
