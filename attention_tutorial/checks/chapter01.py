"""Checkers of chapter 1's exercises. Each returns None for a right answer, else a diagnosis in words."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..functional import additive_scores
from ..models.seq2seq import Seq2Seq
from . import Mistake, exercise
from ._tools import (
    call,
    close,
    expect_number,
    expect_numbers,
    expect_pair,
    expect_tensor,
    explain_weights,
    first_match,
    random,
    rounded,
    times,
)


def _double(numbers: Any) -> Tensor:
    return torch.as_tensor(numbers, dtype=torch.float64)


def _rnn(
    inputs: Sequence[float], w: float, u: float, step: Callable[[float, float], float] | None = None, h: float = 0.0
) -> list[float]:
    """States, each from the input's part w x and the state's part u h; a mistake may combine them in another way."""
    states = []
    for x in inputs:
        h = step(w * x, u * h) if step else math.tanh(w * x + u * h)
        states.append(h)
    return states


@exercise("1.1")
def rnn_by_hand(answer: Callable[[list[float], float, float], Sequence[float]]) -> str | None:
    """States of the RNN with one feature, for a list of numbers, and then for a second list."""
    first, second = [1.0, -1.5, 0.25, 0.0], [-0.5, 2.0]
    found = _explain_states(call(answer, first, 0.9, 0.6), first, 0.9, 0.6)
    if found:
        return found
    found = _explain_states(call(answer, second, 1.4, -0.7), second, 1.4, -0.7)
    return f"right at the first call, but not at a second one with other inputs: {found}" if found else None


def _explain_states(given: Any, inputs: list[float], w: float, u: float) -> str | None:
    right = _rnn(inputs, w, u)
    if isinstance(given, (int, float)) or (isinstance(given, Tensor) and given.dim() == 0):
        if close(float(given), right[-1]):
            return "that is the last state; return the list of all of them"
        return f"return a list of {len(inputs)} states; got one number"
    states = expect_numbers(given, "the list of states")
    if states.shape != (len(inputs),):
        extra = " (h_0 is not among them)" if states.shape == (len(inputs) + 1,) else ""
        return f"there is one state for each input{extra}; expected {len(inputs)}, got shape {tuple(states.shape)}"
    if close(states, right):
        return None
    inexact = rounded(states, _double(right))
    if inexact:
        return f"the states are {inexact}"
    found = first_match(states, {words: _double(wrong) for words, wrong in _wrong_states(inputs, w, u, right).items()})
    return found or _explain_start(states, inputs, w, u)


def _wrong_states(inputs: list[float], w: float, u: float, right: list[float]) -> dict[str, list[float]]:
    return {
        "the old state does not enter; add u times the state before": _rnn(inputs, w, 0.0),
        "the tanh is missing; each state is the tanh of the sum": _rnn(inputs, w, u, lambda x, h: x + h),
        "w and u are swapped: w multiplies the input, u the old state": _rnn(inputs, u, w),
        "u is missing: it multiplies the old state": _rnn(inputs, w, 1.0),
        "w is missing: it multiplies the input": _rnn(inputs, 1.0, u),
        "the old state is added, not subtracted": _rnn(inputs, w, -u),
        "the tanh takes the whole sum; you left the old state outside": _rnn(
            inputs, w, u, lambda x, h: math.tanh(x) + h
        ),
        "the tanh takes the whole sum; you left the input outside": _rnn(inputs, w, u, lambda x, h: x + math.tanh(h)),
        "the old state that enters is already a tanh; you carry the sum along without it": [
            math.tanh(h) for h in _rnn(inputs, w, u, lambda x, h: x + h)
        ],
        "the squashing function here is tanh, not the sigmoid": _rnn(
            inputs, w, u, lambda x, h: 1 / (1 + math.exp(-x - h))
        ),
        "the squashing function here is tanh, not ReLU": _rnn(inputs, w, u, lambda x, h: max(0.0, x + h)),
        "it is the state before that enters besides the input; you took the input before": [
            math.tanh(w * x + u * old) for x, old in zip(inputs, [0.0, *inputs], strict=False)
        ],
        "append each state after its step: your list starts with h_0 and lacks the last state": [0.0, *right[:-1]],
        "the order is turned around: the first state belongs to the first input": right[::-1],
        "you read the inputs backwards; begin with the first": _rnn(inputs[::-1], w, u),
    }


def _explain_start(states: Tensor, inputs: list[float], w: float, u: float) -> str:
    """The first state tells what was taken for h_0; do the others follow?"""
    if close(states[0].item(), math.tanh(w * inputs[0])):
        return "the first state is right and a later one is not; check which state goes into each step"
    if abs(states[0]) < 1:
        start = (math.atanh(states[0].item()) - w * inputs[0]) / u
        if close(states, _rnn(inputs, w, u, h=start)):
            return f"your states start from h_0 = {start:.3g}; the first is tanh(w x_1), since h_0 = 0"
    return "the first state is tanh(w x_1), since h_0 = 0; yours is another number"


@exercise("1.2")
def bits(answer: Callable[[int, int], float]) -> str | None:
    """Bits of a random sequence: length times the logarithm of the number of symbols."""
    given = expect_number(call(answer, 12, 10))
    right = 12 * math.log2(10)
    if close(given, right):
        others = ((1, 2, 1.0), (5, 4, 10.0), (7, 3, 7 * math.log2(3)))
        wrong = [(n, k) for n, k, expected in others if not close(expect_number(call(answer, n, k)), expected)]
        return f"right for 12 letters out of 10, but not for {wrong[0][0]} out of {wrong[0][1]}" if wrong else None
    if rounded(_double([given]), _double([right])) or given in (math.floor(right), math.ceil(right)):
        return "no need to round: return the number as it is, with all its digits"
    found = first_match(
        _double(given),
        {
            "that counts in natural units; bits need the logarithm to base 2": lambda: _double(12 * math.log(10)),
            "that counts decimal digits; bits need the logarithm to base 2": lambda: _double(12.0),
            "there are num_symbols ** length sequences, not num_symbols * length": lambda: _double(math.log2(120)),
            "length and num_symbols are swapped: there are num_symbols ** length sequences": (
                lambda: _double(10 * math.log2(12))
            ),
            "those are the bits of one letter; the sequence has length of them": lambda: _double(math.log2(10)),
            "those are whole bits for each letter; taken together, the letters need fewer": (
                lambda: _double(12.0 * math.ceil(math.log2(10)))
            ),
            "the sign is turned around: that is the logarithm of the probability of one sequence": (
                lambda: _double(-right)
            ),
            "the logarithm of num_symbols ** length is a product, not a sum": (lambda: _double(12 + math.log2(10))),
            "that is the number of sequences; how many bits tell them apart?": lambda: _double(10.0**12),
        },
    )
    return found or f"for 12 letters out of 10 the answer is between 39 and 40 bits; yours is {given:.4g}"


@exercise("1.3")
def one_step_of_attention(answer: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> str | None:
    """Context (d,) and weights (n,) for a decoder state (d,) and encoder states (n, d)."""
    return _one_step(answer, n=5, d=3) or _one_step(answer, n=2, d=5)


def _one_step(answer: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], n: int, d: int) -> str | None:
    s, h = random(d), random(n, d)
    context, weights = expect_pair(call(answer, s, h), "the context", "the weights")
    if isinstance(context, Tensor) and isinstance(weights, Tensor) and context.shape == (n,) and weights.shape == (d,):
        return "return the context first and the weights second"
    weights = expect_tensor(weights, (n,), "(n,), one for each encoder state", "the weights")
    context = expect_tensor(context, (d,), "(d,), as many features as a state", "the context")
    sizes = {"d": d, "n": n}
    found = explain_weights(weights[None], (h @ s)[None], sizes=sizes, divide_by=None)
    return found or _explain_context(context[None], weights[None], h, sizes)


def _explain_context(context: Tensor, weights: Tensor, h: Tensor, sizes: Mapping[str, int]) -> str | None:
    """Say what the contexts (..., m, d) are, if not the states (..., n, d) averaged by the weights, which are right."""
    right = weights @ h
    if close(context, right):
        return None
    factor, inexact = times(context, right, sizes), rounded(context, right)
    if factor:
        return f"the weights are right; your context is {factor} weights @ h, but an average needs no further factor"
    if inexact:
        return f"the weights are right; your context is {inexact}"
    best = torch.nn.functional.one_hot(weights.argmax(dim=-1), h.size(-2)).double() @ h
    wrong = {
        "not the plain average": h.mean(dim=-2, keepdim=True).expand_as(right),
        "not the plain sum": h.sum(dim=-2, keepdim=True).expand_as(right),
        "not the best one alone": best,
    }
    found = first_match(context, wrong)
    if found:
        return f"the weights are right; a context is the weighted sum of all states, {found}"
    return "the weights are right, the context is not; it is weights @ h"


@exercise("1.4")
def additive_scores_of_one_query(answer: Callable[..., Tensor]) -> str | None:
    """Additive scores (n,) of one query."""
    n, d_q, d_k, d_a = 5, 3, 4, 7
    q, k, w, u, v = random(d_q), random(n, d_k), random(d_a, d_q), random(d_a, d_k), random(d_a)
    given = call(answer, q, k, w, u, v)
    if isinstance(given, Tensor) and given.shape == (n, d_a):
        return "those are the hidden features of each pair; v turns them into one score for each key"
    given = expect_tensor(given, (n,), "(n,), one score for each key", "the result")
    right = additive_scores(q[None], k, w, u, v)[0]
    if close(given, right):
        return None
    from_q, from_k = w @ q, k @ u.T
    found = first_match(
        given,
        {
            "these are weights; return the scores, before the softmax": right.softmax(0),
            "the tanh is missing": (from_q + from_k) @ v,
            "the tanh belongs inside: apply it before multiplying by v": ((from_q + from_k) @ v).tanh(),
            "apply tanh once: the scores themselves are not squashed": right.tanh(),
            "v comes after the tanh: it weighs the squashed features": torch.tanh((from_q + from_k) * v).sum(1),
            "that is a dot product of query and key features; here they are added, squashed and weighed by v": (
                from_k @ from_q
            ),
            "your scores add up from key to key; begin anew for each key": right.cumsum(0),
            "your keys add up from key to key; add u @ k[j] to a fresh w @ q": (
                torch.tanh(from_q + from_k.cumsum(0)) @ v
            ),
            "the order is turned around: score j belongs to key j": right.flip(0),
            "these are exponentials; return the scores themselves": right.exp(),
            "apply tanh once, to the sum, not to each part": (torch.tanh(from_q) + torch.tanh(from_k)) @ v,
            "apply tanh to the sum; you left the query's part outside": (from_q + torch.tanh(from_k)) @ v,
            "apply tanh to the sum; you left the keys' part outside": (torch.tanh(from_q) + from_k) @ v,
            "the query does not enter; add w @ q": torch.tanh(from_k) @ v,
            "the keys do not enter; add k @ u.T": (torch.tanh(from_q) @ v).expand(n),
            "the query's and the key's features are added here, not multiplied": torch.tanh(from_q * from_k) @ v,
            "the query's and the key's features are added here, not subtracted": torch.tanh(from_q - from_k) @ v,
            "v is missing: it weighs the hidden features before they are summed": torch.tanh(from_q + from_k).sum(1),
            "that is the mean over the hidden features; v weighs them": torch.tanh(from_q + from_k).mean(1),
            "the sign is turned around": -right,
            "the squashing function here is tanh, not the sigmoid": torch.sigmoid(from_q + from_k) @ v,
            "the squashing function here is tanh, not ReLU": torch.relu(from_q + from_k) @ v,
        },
    )
    if found:
        return found
    factor = times(given, right, {"d_a": d_a, "d_k": d_k, "d_q": d_q, "n": n})
    if factor:
        return f"your scores are {factor} the right ones; additive scores are not scaled"
    inexact = rounded(given, right)
    if inexact:
        return f"your scores are {inexact}"
    return "the shape is right, the numbers are not; score j is v @ tanh(w @ q + u @ k[j])"


class _Recorder(Seq2Seq):
    """A small network that keeps the masks it is given, and in which a step acts on all later ones."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        super().__init__(6, d_embedding=5, d_hidden=8, attention="dot", generator=generator)
        with torch.no_grad():
            for parameter in self.double().parameters():
                parameter.mul_(4)  # untrained, but sharp enough for edges to matter
        self.masks: list[Tensor | None] = []

    def forward(self, source: Tensor, target_in: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        self.masks.append(mask)
        logits, weights = super().forward(source, target_in, mask)
        return logits.cumsum(dim=1), weights


@exercise("1.5")
def effect_of_an_edge(answer: Callable[..., float]) -> str | None:
    """Share of sequences whose token at step i changes when position j is closed to that step."""
    for i, j in ((1, 2), (4, 0), (3, 5)):
        found = _explain_effect(answer, i, j)
        if found:
            return found
    return None


def _explain_effect(answer: Callable[..., float], i: int, j: int) -> str | None:
    model, generator = _Recorder(), torch.Generator().manual_seed(1)
    source = torch.randint(1, 6, (400, 6), generator=generator)
    target_in = torch.randint(0, 6, (400, 5), generator=generator)
    edge = torch.zeros(5, 6, dtype=torch.bool)
    edge[i, j] = True
    with torch.no_grad():
        before, after = model(source, target_in)[0], model(source, target_in, ~edge)[0]
    model.masks.clear()
    given = expect_number(call(answer, model, source, target_in, i, j))
    closed = [_closed(mask, edge) for mask in model.masks]
    if not any(keys.equal(edge.expand_as(keys)) for keys in closed):
        return _explain_mask(closed, edge, i, j)
    changed = before.argmax(dim=-1) != after.argmax(dim=-1)
    right = changed[:, i].double().mean().item()
    if close(given, right):
        return None
    if not any(not keys.any() for keys in closed):
        return "the mask is right, but you never called the model without it; compare with and without the mask"
    found = first_match(_double(given), _wrong_effects(before, after, target_in, i, j))
    inexact = rounded(_double([given]), _double([right]))
    return (
        found
        or (inexact and f"the share is {inexact}")
        or f"the mask is right, but for i={i}, j={j} the share should be {right:.4f}; yours is {given:.4f}"
    )


def _closed(mask: Tensor | None, edge: Tensor) -> Tensor:
    """Return where a mask, boolean or added to the scores, lets no step look, (..., m, n)."""
    if mask is None:
        return torch.zeros_like(edge)
    if mask.dtype != torch.bool and not mask.isinf().any():
        raise Mistake(f"the mask must be boolean, True where looking is allowed; got {mask.dtype}")
    return (~mask if mask.dtype == torch.bool else mask.isinf()).expand(*mask.shape[:-2], *edge.shape)


def _explain_mask(closed: list[Tensor], edge: Tensor, i: int, j: int) -> str:
    some = [keys.reshape(-1, *edge.shape) for keys in closed if keys.any()]
    if not some:
        return f"no mask of yours closes anything; for i={i}, j={j} it must be False there and True elsewhere"
    given = next(keys for keys in some[-1] if not keys.equal(edge))
    if not given.any():
        return "your mask closes the edge in some sequences only; close it in all of them"
    row_only = edge.any(dim=1, keepdim=True) & ~edge
    if given.equal(~edge) or given.equal(row_only):
        return "the mask is the wrong way round, so that step i sees only position j; True means may look"
    step, position = (given & ~edge).nonzero()[0].tolist()
    if given.equal(edge.any(dim=1, keepdim=True).expand_as(edge)):
        return "you forbade step i every position; forbid only j"
    swapped = "i and j are swapped: " if j < len(given) and given[j, i] and i != j else ""
    words = f"for i={i}, j={j} your mask closes position {position} to step {step}"
    if given[i, j]:
        return f"{words} as well; only position j is closed, and only to step i"
    return (
        f"{swapped}{words}, and leaves the edge open; rows of the mask are steps (i), columns are source positions (j)"
    )


def _wrong_effects(before: Tensor, after: Tensor, target_in: Tensor, i: int, j: int) -> dict[str, Tensor]:
    """Shares that one may take for the right one, with the right mask, by the diagnosis for each."""
    changed = (before.argmax(dim=-1) != after.argmax(dim=-1)).double()  # (batch, m)
    share = changed[:, i].mean()
    wrong = {
        "that is the share of tokens that stay the same; return the share that changes": 1 - share,
        "that is the number of sequences; divide by how many there are": share * len(changed),
        "that is in percent; return the share itself, between 0 and 1": share * 100,
        "you compared all steps; compare only step i, which is column i": changed.mean(),
        "you asked whether any step changes; compare only step i, which is column i": changed.amax(dim=1).mean(),
        "you compared the steps from i on; compare only step i": changed[:, i:].mean(),
        "you compared the step before i; steps are counted from 0": changed[:, i - 1].mean(),
        "you compared step j; i is the step, j the source position": changed[:, min(j, 4)].mean(),
        "you compared the last step; compare step i": changed[:, -1].mean(),
        "you picked sequence i; axis 0 is the batch, so step i is column i": changed[i].mean(),
        "you compared with the decoder's inputs; compare with the model's own tokens without the mask": (
            (after.argmax(dim=-1) != target_in)[:, i].double().mean()
        ),
    }
    informative = {words: value for words, value in wrong.items() if value not in (0.0, 1.0)}
    always = "that says that every sequence changes; the logits always do, their argmax over the last axis seldom"
    never = "that says that no sequence changes; compare the argmax of the logits at step i, which is column i"
    return informative | {always: torch.ones(()), never: torch.zeros(())}


@exercise("1.6")
def debug_the_batch(answer: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> str | None:
    """Contexts (batch, m, d) and weights (batch, m, n) of all decoder steps."""
    for batch, m, n, d in ((2, 3, 7, 5), (3, 5, 5, 2)):
        s, h = random(batch, m, d) / 2, random(batch, n, d)
        context, weights = expect_pair(call(answer, s, h), "the contexts", "the weights")
        if getattr(context, "shape", None) == (batch, m, n) and getattr(weights, "shape", None) == (batch, m, d):
            return "return the contexts first and the weights second"
        weights = expect_tensor(weights, (batch, m, n), "(batch, m, n)", "the weights")
        context = expect_tensor(context, (batch, m, d), "(batch, m, d)", "the contexts")
        sizes = {"d": d, "n": n, "m": m, "batch": batch}
        instead = {"every sequence of the batch looks at the states of the first; each has its own": s @ h[:1].mT}
        found = explain_weights(weights, s @ h.mT, sizes=sizes, divide_by=None, instead=instead)
        found = found or _explain_context(context, weights, h, sizes)
        if found:
            return found
    return None
