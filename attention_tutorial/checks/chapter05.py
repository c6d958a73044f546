"""Checkers of chapter 5's exercises. Each returns None for a right answer, else a diagnosis in words."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..functional import masked_softmax
from ..masks import causal_mask
from . import exercise
from ._tools import (
    Mistake,
    also_in_evaluation,
    call,
    close,
    expect_tensor,
    explain_weights,
    first_match,
    random,
    recover_weights,
    rounded,
)

Model = Callable[[Tensor], Tensor]


# ---- Boolean masks -------------------------------------------------------------------------------------------------


def _explain_mask(given: Tensor, right: Tensor, mistakes: Mapping[str, Tensor]) -> str | None:
    """Say how a boolean mask differs from the right one."""
    if given.equal(right):
        return None
    if given.equal(~right):
        return "your mask is the wrong way round: it is True where a key is closed; here True means may attend"
    for diagnosis, wrong in mistakes.items():
        if given.equal(wrong.expand_as(right)):
            return diagnosis
    if given.all():
        return "your mask closes nothing: it is True everywhere"
    if not given.any():
        return "your mask closes everything: it is False everywhere"
    cell = (given != right).nonzero()[0].tolist()
    place = f"at {tuple(cell)}, counted from 0, the mask must be {right[tuple(cell)].item()}"
    return f"the shape is right, but {int((given != right).sum())} cells are not: {place}"


def _boolean(result: Any, shape: tuple[int, ...], axes: str) -> Tensor:
    """Take a mask of the right shape; if it holds numbers, say which kind of mask that is."""
    given = expect_tensor(
        result, shape, axes, "the mask", finite=False, boolean=getattr(result, "dtype", 0) == torch.bool
    )
    if given.dtype == torch.bool:
        return given
    values = set(given.unique().tolist())
    if values <= {0.0, 1.0}:
        raise Mistake("the mask holds the numbers 0 and 1; make it boolean, or it will be added to the scores as it is")
    if values <= {0.0, -math.inf}:
        raise Mistake("that is a float mask of 0 and minus infinity, to be added; the exercise asks for a boolean one")
    raise Mistake(f"the mask must be boolean; got {str(result.dtype).removeprefix('torch.')}")


def _ids() -> list[tuple[Tensor, int]]:
    """Token ids of two shapes with their padding's id. 0 may be a token, and padding stands right or left."""
    first = torch.tensor([[7, 7, 4, 0, 6], [5, 2, 7, 7, 7], [9, 0, 5, 2, 7]])
    second = torch.tensor([[4, 3, 6, 0, 0, 0], [0, 5, 2, 1, 1, 8]])
    return [(first, 7), (second, 0)]


def _misread(ids: Tensor, pad_id: int) -> dict[str, Tensor]:
    """Wrong padding masks (batch, 1, 1, n), by what is wrong with them."""
    batch, n = ids.shape
    lengths = (ids != pad_id).sum(dim=1, keepdim=True)
    masks = {
        "you compared with 0; the padding's id is an argument, and 0 may be a token": ids != 0,
        "you compared with > ; a token's id may be smaller than the padding's: use !=": ids > pad_id,
        "you compared with < ; a token's id may be larger than the padding's: use !=": ids < pad_id,
        "you counted the tokens and opened the first positions; padding may also stand on the left": (
            torch.arange(n) < lengths
        ),
        "every text got the padding of the first": (ids[:1] != pad_id).expand(batch, n),
    }
    return {diagnosis: mask[:, None, None, :] for diagnosis, mask in masks.items()}


@exercise("5.1")
def padding_from_ids(answer: Callable[..., Any]) -> str | None:
    """Make the padding mask (batch, 1, 1, n) from ids (batch, n)."""
    for ids, pad_id in _ids():
        batch, n = ids.shape
        real = ids != pad_id
        keys, queries = real[:, None, None, :], real[:, None, :, None]
        result = call(answer, ids, pad_id)
        if isinstance(result, Tensor):
            shape = tuple(result.shape)
            if shape == (batch, n):
                return f"two axes are missing, for the heads and the queries: {shape} must become {(batch, 1, 1, n)}"
            if shape == (batch, 1, n, 1):
                return "this closes queries: the positions stand on the axis of the queries; they belong on the last"
            if shape == (batch, 1, n, n) and result.dtype == torch.bool:
                if result.equal(keys & queries):
                    return (
                        "you closed the padding as queries too: those rows have no open key and become NaN; "
                        "close it as keys only, (batch, 1, 1, n)"
                    )
                if result.equal(keys.expand(shape)):
                    return "right, but written out for every query; leave the queries' axis at size 1, it broadcasts"
        given = _boolean(result, (batch, 1, 1, n), "(batch, 1, 1, n)")
        wrong = _explain_mask(given, keys, _misread(ids, pad_id))
        if wrong:
            return wrong
    return None


@exercise("5.2")
@also_in_evaluation
def causal(answer: Callable[..., Any]) -> str | None:
    """Make the causal mask (m, n), aligned lower right."""
    for m, n in ((5, 5), (3, 7), (7, 3), (1, 5)):
        result = call(answer, m, n)
        if m != n and isinstance(result, Tensor) and tuple(result.shape) == (n, m):
            return "queries and keys are swapped: the mask has a row for each query and a column for each key, (m, n)"
        everything, right = torch.ones(m, n, dtype=torch.bool), causal_mask(m, n)
        shift = n - m
        wrong = _explain_mask(
            _boolean(result, (m, n), "(m, n)"),
            right,
            {
                "off by one: each query sees one key of the future, the very token it is to guess": (
                    everything.tril(shift + 1)
                ),
                "off by one: a query does not see its own position; the diagonal belongs to the mask": (
                    everything.tril(shift - 1)
                ),
                "you kept the upper triangle: each query sees itself and the future": everything.triu(shift),
                "aligned upper left: query i stands at position i + (n - m), not at i": everything.tril(),
                "the shift has the wrong sign: query i stands at position i + (n - m)": everything.tril(-shift),
                "True where blocked, and aligned upper left: two faults at once": ~everything.tril(),
                "you opened the rows of queries that come before all keys; they see nothing": (
                    right | ~right.any(dim=-1, keepdim=True)
                ),
            },
        )
        if wrong:
            return wrong if m == n else f"{wrong} (here m={m}, n={n})"
    return None


@exercise("5.4")
@also_in_evaluation
def decoder_mask(answer: Callable[..., Any]) -> str | None:
    """Make the mask of a decoder's self-attention, (batch, 1, n, n), from ids (batch, n)."""
    for ids, pad_id in _ids():
        batch, n = ids.shape
        real = ids != pad_id
        keys, queries, past = real[:, None, None, :], real[:, None, :, None], causal_mask(n)
        result = call(answer, ids, pad_id)
        if isinstance(result, Tensor) and tuple(result.shape) == (batch, n, n):
            return "the axis of the heads is missing: (batch, n, n) would be read as (heads, n, n); put in an axis of 1"
        if isinstance(result, Tensor) and tuple(result.shape) == (n, n):
            return "the mask must differ from text to text: the padding does not stand at the same places"
        right = keys & past
        wrong = _explain_mask(
            _boolean(result, (batch, 1, n, n), "(batch, 1, n, n)"),
            right,
            {
                "you joined the two by OR; a key must be open under both: AND": keys | past,
                "the future is open: the causal mask is missing": keys,
                "padding is open: the padding mask is missing": past,
                "you closed the padding as queries too; that leaves rows without any open key": keys & queries & past,
                "you closed the padding's queries in place of its keys": queries & past,
                "the padding mask is the wrong way round: only padding is open": ~keys & past,
                "the causal mask is the wrong way round: only the future is open": keys & ~past,
                "you kept the upper triangle: each query sees itself and the future": keys & past.mT,
                "off by one: each query sees one key of the future": keys & torch.ones(n, n).tril(1).bool(),
                "off by one: a query does not see its own position": keys & past.tril(-1),
                "queries and keys are swapped: a row is a query, a column a key": right.mT,
                "you opened the diagonal again; a padding is no key, not even to itself": right | past & past.mT,
                "you opened the rows without any open key; leave them empty, the softmax has to settle them": (
                    right | ~right.any(dim=-1, keepdim=True)
                ),
            }
            | {diagnosis: mask & past for diagnosis, mask in _misread(ids, pad_id).items()},
        )
        if wrong:
            return wrong
    return None


@exercise("5.5")
def for_torchs_module(answer: Callable[..., Any]) -> str | None:
    """Turn (batch, m, n), True = may attend, into (batch * heads, m, n), True = blocked."""
    for batch, heads, m, n in ((3, 2, 5, 7), (2, 3, 7, 5)):
        mask = random(batch, m, n) > 0
        result = call(answer, mask, heads)
        if isinstance(result, Tensor):
            shape = tuple(result.shape)
            if shape == (batch, m, n):
                return "the heads are missing: each text's mask must be there once for each head"
            if shape in ((batch, heads, m, n), (heads, batch, m, n)):
                return f"batch and heads must share one axis: {shape} must become {(batch * heads, m, n)}"
            if shape == (batch, 1, m, n):
                return "repeat each text's mask for every head, and join batch and heads in one axis"
        in_place, in_turn = mask.repeat_interleave(heads, dim=0), mask.repeat(heads, 1, 1)
        wrong = _explain_mask(
            _boolean(result, (batch * heads, m, n), "(batch * heads, m, n)"),
            ~in_place,
            {
                "the texts stand in the wrong order: all heads of the first come first (repeat_interleave)": ~in_turn,
                "not inverted, and the texts stand in the wrong order: two faults at once": in_turn,
            },
        )
        if wrong and "wrong way round" in wrong:
            return "not inverted: torch's module blocks where the mask is True"
        if wrong:
            return wrong
    return None


# ---- Weights -------------------------------------------------------------------------------------------------------


NAN_EVERYWHERE = (
    "NaN everywhere: 0 times infinity gives NaN, and so does a score of plus infinity; "
    "fill in -torch.inf with masked_fill"
)
NAN_GRADIENTS = (
    "the gradients are NaN: zeros written over NaN do not stop it on the way back; "
    "open the empty rows before the softmax"
)
OVERFLOW = "right for small scores, but large ones overflow: exp(1000) is infinite; torch.softmax avoids it"
OUTSHONE = (
    "right as long as closed keys have moderate scores, but where one is 2000 above the open ones, the row is "
    "lost (0 / 0): close the keys before the softmax, not after it"
)


@exercise("5.3")
def surviving_softmax(answer: Callable[..., Any]) -> str | None:
    """Masked softmax of scores (2, 3, 5, 7) with a mask (2, 1, 5, 7) that has an empty row."""
    scores = (64 * random(2, 3, 5, 7)).round() / 64  # so that float32 can hold them + 2000
    mask = random(2, 1, 5, 7) > -0.5
    mask[..., 0] = True
    mask &= ~torch.eye(7, dtype=torch.bool).roll(1, dims=1)[:5]  # every row has open and closed keys, every column too

    def weights_of(scores: Tensor, mask: Tensor) -> Tensor:
        return expect_tensor(
            call(answer, scores, mask), tuple(scores.shape), "(..., m, n)", "the weights", finite=False
        )

    weights = weights_of(scores, mask)
    if weights.isnan().all():
        return f"your weights are {NAN_EVERYWHERE}"
    wrong = _explain_no_weights(weights, scores, mask) or explain_weights(
        weights, scores, sizes={"n": 7, "m": 5}, divide_by=None, mask=mask
    )
    if wrong:
        return wrong
    left = weights[~mask.expand_as(weights)].max()
    if left > 0:
        return (
            f"closed keys must get exactly 0; yours get up to {left:.1g}: your fill is a finite number; use -torch.inf"
        )
    mask[0, 0, 3] = False
    wrong = explain_weights(weights_of(scores, mask), scores, sizes={}, divide_by=None, mask=mask)
    wrong = wrong or _explain_gradient(answer, scores, mask)
    if wrong:
        return wrong
    stress = {
        OVERFLOW: scores + 2000,
        OUTSHONE: torch.where(mask, scores, scores + 2000),
        "where the open scores are very low (-3e10 here), the closed keys win: your fill is a finite number; "
        "use -torch.inf": torch.where(mask, -3e10, scores),
    }
    for diagnosis, hard in stress.items():
        if not close(weights_of(hard, mask), masked_softmax(hard, mask)):
            return diagnosis
    with torch.no_grad():
        if not close(weights_of(scores, mask), masked_softmax(scores, mask)):
            return "right in training, but not in evaluation (torch.no_grad()): a mask holds in both"
    matrix = scores[0, 0], mask[0, 0]
    if not close(weights_of(*matrix), masked_softmax(*matrix)):
        return "right for four axes, but not for a single matrix (m, n); count the axes from the end: dim=-1"
    return None


def _explain_no_weights(weights: Tensor, scores: Tensor, mask: Tensor) -> str | None:
    """Is it something else than a softmax over the keys?"""
    closed = scores.masked_fill(~mask, -math.inf)
    missing = {
        "these are the scores, the softmax is missing": scores,
        "these are the masked scores, the softmax is missing": closed,
        "these are the scores with zeros at the closed keys; the softmax is missing": scores * mask,
        "these are the logarithms of the weights (log_softmax); the softmax itself is asked for": closed.log_softmax(
            -1
        ),
    }
    other_axis = {
        f"your softmax runs over {axis}; it must run over the keys, along each row": (
            closed.softmax(dim).masked_fill(~mask, 0.0)  # a softmax over closed cells alone is NaN
        )
        for dim, axis in ((2, "the queries (down the columns)"), (1, "the second axis"), (0, "the first axis"))
    }
    return first_match(weights, missing) or first_match(weights.masked_fill(~mask, 0.0), other_axis)


def _explain_gradient(answer: Callable[..., Any], scores: Tensor, mask: Tensor) -> str | None:
    """The weights are right; are their gradients?"""
    leaf, expected = (scores.clone().requires_grad_() for _ in range(2))
    towards = random(*scores.shape, seed=1)
    result = call(lambda _, mask: answer(leaf, mask), scores, mask)  # it would copy the leaf
    if not result.requires_grad:
        return "the weights are right, but no gradient gets through them: do not detach, and do not convert to lists"
    (given,) = torch.autograd.grad((result * towards).sum(), leaf)
    (right,) = torch.autograd.grad((masked_softmax(expected, mask) * towards).sum(), expected)
    if given.isnan().any():
        return f"the weights are right, but {NAN_GRADIENTS}"
    return None if close(given, right) else "the weights are right, but their gradients are not"


@exercise("5.7")
def repaired_attention(answer: Callable[..., Any]) -> str | None:
    """Masked attention whose mask is (batch, m, n); with as many heads as texts, and with more."""
    wrong = _repaired_outputs(answer)
    if wrong:
        return wrong
    inputs = _inputs(2, 3)
    allowed = inputs[3]
    leaves = [x.clone().requires_grad_() for x in inputs[:3]]
    result = call(lambda _, allowed: answer(*leaves, allowed), 0, allowed)  # it would copy the leaves
    if not result.requires_grad:
        return "the output is right, but no gradient gets through it"
    gradients = torch.autograd.grad(result.sum(), leaves, allow_unused=True)
    if any(g is None or g.isnan().any() for g in gradients):
        return f"the output is right, but {NAN_GRADIENTS}"
    return _explain_large(answer, *inputs) or _explain_half(answer, *inputs)


@also_in_evaluation
def _repaired_outputs(answer: Callable[..., Any]) -> str | None:
    for batch, heads in ((3, 3), (2, 3)):
        inputs = _inputs(batch, heads)
        shape, axes = (*inputs[0].shape[:-1], inputs[2].size(-1)), "(batch, heads, m, d_v)"
        output = expect_tensor(call(answer, *inputs), shape, axes, finite=False)
        wrong = _explain_repair(output, *inputs)
        if wrong:
            return wrong
    return None


def _inputs(
    batch: int, heads: int, m: int = 5, n: int = 7, d_k: int = 11, d_v: int = 13
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    query, key, value = random(batch, heads, m, d_k), random(batch, heads, n, d_k), random(batch, heads, n, d_v)
    allowed = random(batch, m, n) > 0
    allowed[..., 0] = True  # no empty row, and ...
    allowed[..., 1] = False  # ... none either when it is turned around ...
    allowed[0, 2] = False  # ... but for this one
    return query, key, value, allowed


def _explain_repair(output: Tensor, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> str | None:
    batch, heads = query.shape[:2]
    raw = query @ key.mT
    scaled = raw / math.sqrt(key.size(-1))
    lost = output.isnan().any(dim=-1)
    if lost.all():
        return f"the output is {NAN_EVERYWHERE}"
    weights = recover_weights(torch.where(lost[..., None], 0.0, output), value)
    if weights is None:
        nearly = rounded(output, masked_softmax(scaled, allowed[:, None]) @ value)
        return nearly or "no weights on the values give this output: it must be weights @ value"
    weights = torch.where(weights.abs() < 1e-12, 0.0, weights)  # what solving for them left behind
    empty = ~allowed.any(dim=-1)[:, None].expand_as(lost)
    masks = {
        "right": allowed[:, None],
        "your mask is the wrong way round: masked_fill fills where its mask is True, so closed keys alone are left": (
            ~allowed[:, None]
        ),
    }
    if batch == heads:
        masks |= {
            "the mask's first axis meets the heads: (batch, m, n) broadcasts to (1, heads, m, n), which only runs "
            "because there are as many heads as texts; write allowed[:, None]": allowed[None],
            "two faults at once: the mask is the wrong way round, and its first axis meets the heads": ~allowed[None],
        }
    for diagnosis, mask in masks.items():
        rows = mask.any(dim=-1).expand_as(lost)
        if lost[rows].any() or not close(weights[rows], masked_softmax(scaled, mask)[rows]):
            continue
        if diagnosis != "right":
            return diagnosis
        if lost[empty].any():
            return "a row without an open key came out as NaN; it must give 0"
        if close(weights[empty], torch.full_like(weights[empty], 1 / weights.size(-1))):
            return (
                "a row without an open key averages all values: that is what a finite fill such as -1e9 does; "
                "it must give 0"
            )
        if not close(output[empty], torch.zeros_like(output[empty])):
            return "a row without an open key must give 0; yours gives something else"
        return None
    if lost.any():
        return "the output holds NaN in rows that have open keys; does the softmax run over the keys, the last axis?"
    sizes = {"d_k": key.size(-1), "d_v": value.size(-1), "n": key.size(-2), "m": query.size(-2)}
    mask = allowed[:, None].expand_as(raw)
    return explain_weights(weights[~empty], raw[~empty], sizes=sizes, mask=mask[~empty])


def _explain_large(
    answer: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor, allowed: Tensor
) -> str | None:
    """The answer is right for small scores; is it where all are 2000 higher, or those of key 1, closed to everyone?"""
    for diagnosis, loud in ((OVERFLOW, slice(None)), (OUTSHONE, 1)):
        query, key = query.clone(), key.clone()
        query[..., 0], key[..., 0] = 2000 * math.sqrt(key.size(-1)), 0.0
        key[..., loud, 0] = 1.0
        expected = masked_softmax(query @ key.mT / math.sqrt(key.size(-1)), allowed[:, None]) @ value
        result = call(answer, query, key, value, allowed)
        if not close(result.double(), expected, 0.01):  # float32 has few digits left
            return diagnosis
    return None


def _explain_half(answer: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> str | None:
    """The answer is right in float64; is it in float16?"""
    try:
        result = call(answer, query.half(), key.half(), value.half(), allowed)
    except Mistake as mistake:
        if "overflow" in str(mistake):
            return "right in float64, but your fill does not fit into float16 (up to 65504): use -torch.inf"
        return f"right in float64, but with float16 {mistake}"
    if not isinstance(result, Tensor) or result.isnan().any():
        return "right in float64, but with float16 the output holds NaN"
    expected = masked_softmax(query @ key.mT / math.sqrt(key.size(-1)), allowed[:, None]) @ value
    if not close(result.double(), expected, 0.05):
        return "right in float64, but with float16 the numbers are wrong"
    return None


# ---- The leak ------------------------------------------------------------------------------------------------------


def _attend(x: Tensor, mask: Tensor | None) -> Tensor:
    return masked_softmax(x @ x.mT / math.sqrt(x.size(-1)), mask) @ x


def _zero_after(x: Tensor) -> Tensor:
    weights = torch.softmax(x @ x.mT / math.sqrt(x.size(-1)), dim=-1)
    return weights * causal_mask(x.size(1)) @ x


def _add_at(x: Tensor, to: int, of: int, factor: float = 1.0) -> Tensor:
    """Honest running sums, to which one position adds another one's input."""
    sums = x.cumsum(dim=1)
    if x.size(1) <= of:
        return sums
    return torch.cat([sums[:, :to], sums[:, to : to + 1] + factor * x[:, of : of + 1], sums[:, to + 1 :]], dim=1)


def _next(x: Tensor) -> Tensor:
    return torch.cat([x[:, 1:], torch.zeros_like(x[:, :1])], dim=1)


HONEST: dict[str, Model] = {
    "it calls a running sum leaky; position j may depend on inputs up to j, so only outputs before the changed "
    "position count": lambda x: x.cumsum(dim=1),
    "it calls a layer leaky that treats each position by itself": lambda x: torch.tanh(x[..., :3]),
    "it calls a shift to the right leaky, which only looks back": lambda x: torch.cat(
        [torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1
    ),
    "it calls attention with a causal mask leaky, and no simpler honest model; put in ordinary numbers (0 times NaN "
    "is NaN), and allow for rounding": lambda x: _attend(x, causal_mask(x.size(1))),
}
LEAKY: dict[str, Model] = {  # what only one kind of answer misses comes first
    "it misses attention without a mask": lambda x: _attend(x, None),
    "it misses a leak that passes through detach(), which gradients do not see; change the input and compare": (
        lambda x: x.cumsum(dim=1) + x.sum(dim=1, keepdim=True).detach()
    ),
    "it misses a leak from all positions whose differences cancel in a sum; take abs() before you add or average": (
        lambda x: x.cumsum(dim=1) + x[..., :1].sum(dim=1, keepdim=True) * torch.tensor([1.0, -2.0, 1.0, -2.0, 2.0])
    ),
    "it misses a causal mask that is one diagonal too wide; change each position in turn": lambda x: _attend(
        x, torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril(1)
    ),
    "it misses a leak that goes only from the last position to the first; compare all outputs before the changed "
    "position, and return False only after the last": lambda x: _add_at(x, 0, x.size(1) - 1),
    "it misses a leak between two positions in the middle; change each position in turn and look at all before it": (
        lambda x: _add_at(x, 4, 5)
    ),
    "it misses a leak through one of the d features; change all numbers of a position": lambda x: (
        x.cumsum(dim=1) + _next(x) * (torch.arange(x.size(2)) == x.size(2) - 1)
    ),
    "it misses weights zeroed after the softmax: the future stays in the denominator": _zero_after,
    "it misses a weak leak, a ten-thousandth of the next input; any difference counts": lambda x: _add_at(
        x, 4, 5, 1e-4
    ),
}


@exercise("5.6")
def finds_leaks(answer: Callable[..., Any]) -> str | None:
    """Judge honest and leaky models."""
    x = random(2, 7, 5)
    verdicts = {}
    for leaky, models in ((True, LEAKY), (False, HONEST)):
        for diagnosis, model in models.items():
            verdicts[diagnosis] = (_verdict(call(answer if leaky else _told(answer), model, x)), leaky)
    if not any(verdict for verdict, _ in verdicts.values()):
        return "your function finds no leak in any model, not even in attention without a mask"
    if all(verdict for verdict, _ in verdicts.values()):
        return "your function finds a leak in every model, also in attention with a causal mask"
    if all(verdict != leaky for verdict, leaky in verdicts.values()):
        return "your function says True for the honest models and False for the leaky ones; turn it around"
    return next((diagnosis for diagnosis, (verdict, leaky) in verdicts.items() if verdict != leaky), None)


def _told(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The answer, which said something about leaky models; it must also about honest ones."""

    @functools.wraps(answer)
    def told(model: Model, x: Tensor) -> Any:
        result = answer(model, x)
        if result is None:
            raise Mistake("your function returns nothing where it finds no leak; it must end with return False")
        return result

    return told


def _verdict(result: Any) -> bool:
    if hasattr(result, "item") and math.prod(result.shape) == 1:  # torch's and NumPy's
        result = result.item()
    if not isinstance(result, bool | int) or result not in (0, 1):
        raise Mistake(f"return True or False; got {type(result).__name__}")
    return bool(result)
