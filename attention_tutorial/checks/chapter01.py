"""Checkers of chapter 1's exercises. Each returns None for a right answer, else a diagnosis in words."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..functional import additive_scores, multiplicative_attention
from ..seq2seq import Seq2Seq
from . import exercise


def _random(*shape: int) -> Tensor:
    """Draw numbers that are the same at every call."""
    return torch.rand(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64) * 4 - 2


def _filled_in(result: Any) -> Any:
    if result is None or result is Ellipsis:
        raise NotImplementedError
    return result


def _close(a: Any, b: Any) -> bool:
    return torch.allclose(_double(a), _double(b), rtol=0, atol=1e-6)


def _double(numbers: Any) -> Tensor:
    return torch.as_tensor(numbers, dtype=torch.float64)


def _first_match(given: Tensor, mistakes: dict[str, Callable[[], Tensor]]) -> str | None:
    """Return what to say about the first mistake whose result is the one given."""
    for diagnosis, mistake in mistakes.items():
        wrong = mistake()
        if wrong.shape == given.shape and torch.allclose(wrong, given, rtol=0, atol=1e-6):
            return diagnosis
    return None


def _rnn(inputs: Sequence[float], w: float, u: float, squeeze: Callable[[float], float] = math.tanh) -> list[float]:
    h, states = 0.0, []
    for x in inputs:
        h = squeeze(w * x + u * h)
        states.append(h)
    return states


@exercise("1.1")
def rnn_by_hand(answer: Callable[[list[float], float, float], Sequence[float]]) -> str | None:
    """States of the RNN with one feature, for a list of numbers."""
    inputs, w, u = [1.0, -0.5, 0.25, 0.0], 0.9, 0.6
    given = _filled_in(answer(list(inputs), w, u))
    right = _rnn(inputs, w, u)
    if isinstance(given, (int, float)) or (isinstance(given, Tensor) and given.dim() == 0):
        if _close(float(given), right[-1]):
            return "that is the last state; return the list of all of them"
        return f"return a list of {len(inputs)} states; got one number"
    states = _double(given)
    if states.shape != (len(inputs),):
        extra = " (h_0 is not among them)" if states.shape == (len(inputs) + 1,) else ""
        return f"there is one state for each input{extra}; expected {len(inputs)}, got shape {tuple(states.shape)}"
    if _close(states, right):
        return None
    found = _first_match(
        states,
        {
            "the old state does not enter; add u times the state before": lambda: _double(_rnn(inputs, w, 0.0)),
            "the tanh is missing; each state is the tanh of the sum": lambda: _double(
                _rnn(inputs, w, u, squeeze=lambda x: x)
            ),
            "w and u are swapped: w multiplies the input, u the old state": lambda: _double(_rnn(inputs, u, w)),
        },
    )
    if found:
        return found
    if not _close(states[0].item(), right[0]):
        return "the first state is tanh(w x_1), since h_0 = 0; yours is another number"
    return "the first state is right and a later one is not; check which state goes into each step"


@exercise("1.2")
def bits(answer: Callable[[int, int], float]) -> str | None:
    """Bits of a random sequence: length times the logarithm of the number of symbols."""
    given = float(_filled_in(answer(12, 10)))
    right = 12 * math.log2(10)
    if _close(given, right):
        others = ((1, 2, 1.0), (5, 4, 10.0), (7, 3, 7 * math.log2(3)))
        wrong = [(n, k) for n, k, expected in others if not _close(float(answer(n, k)), expected)]
        return f"right for 12 letters out of 10, but not for {wrong[0][0]} out of {wrong[0][1]}" if wrong else None
    found = _first_match(
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
            "no need to round: return the number as it is": lambda: _double(float(math.ceil(right))),
            "that is the number of sequences; how many bits tell them apart?": lambda: _double(10.0**12),
        },
    )
    return found or f"for 12 letters out of 10 the answer is between 39 and 40 bits; yours is {given:.4g}"


@exercise("1.3")
def one_step_of_attention(answer: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> str | None:
    """Context (d,) and weights (n,) for a decoder state (d,) and encoder states (n, d)."""
    n, d = 5, 3
    s, h = _random(d), _random(n, d)
    given = _filled_in(answer(s.clone(), h.clone()))
    if not isinstance(given, tuple) or len(given) != 2:
        return "return two things, the context and the weights"
    context, weights = (_double(part) for part in given)
    if context.shape == (n,) and weights.shape == (d,):
        return "return the context first and the weights second"
    if weights.shape != (n,):
        return f"there is one weight for each encoder state, shape ({n},) here; got {tuple(weights.shape)}"
    right_context, right_weights = (part[0] for part in multiplicative_attention(s[None], h, h))
    if not torch.allclose(weights, right_weights, rtol=0, atol=1e-6):
        scores = h @ s
        found = _first_match(
            weights,
            {
                "these are the scores; softmax is still to come": lambda: scores,
                "these are the exponentials; divide them by their sum": lambda: scores.exp(),
                "you divided the scores by their sum; take the exponential of each first": lambda: (
                    scores / scores.sum()
                ),
                "the scores were divided by sqrt(d); here there is no scaling yet": lambda: (scores / d**0.5).softmax(
                    0
                ),
                "only the best position got a weight; softmax gives every position a share": (
                    lambda: torch.nn.functional.one_hot(scores.argmax(), n).double()
                ),
                "all weights are equal; they must depend on the scores": lambda: torch.full((n,), 1 / n).double(),
            },
        )
        if found:
            return found
        if abs(weights.sum() - 1) > 1e-6:
            return f"the weights must sum to 1; yours sum to {weights.sum():.3g}"
        return "the weights sum to 1 but are not the softmax of the scores h @ s"
    if context.shape != (d,):
        return f"the context has as many features as a state, shape ({d},) here; got {tuple(context.shape)}"
    if not torch.allclose(context, right_context, rtol=0, atol=1e-6):
        found = _first_match(
            context,
            {
                "the weights are right; the context is their weighted sum of the states, not the plain average": (
                    lambda: h.mean(0)
                ),
                "the weights are right; the context is the weighted sum of all states, not the best one": (
                    lambda: h[right_weights.argmax()]
                ),
                "the weights are right; a weighted average needs no further division by n": lambda: right_context / n,
            },
        )
        return found or "the weights are right, the context is not; it is weights @ h"
    return None


@exercise("1.4")
def additive_scores_of_one_query(answer: Callable[..., Tensor]) -> str | None:
    """Additive scores (n,) of one query."""
    n, d_q, d_k, d_a = 5, 3, 4, 7
    q, k, w, u, v = _random(d_q), _random(n, d_k), _random(d_a, d_q), _random(d_a, d_k), _random(d_a)
    given = _double(_filled_in(answer(q, k, w, u, v)))
    right = additive_scores(q[None], k, w, u, v)[0]
    if given.shape == (n, d_a):
        return "those are the hidden features of each pair; v turns them into one score for each key"
    if given.shape != (n,):
        return f"there is one score for each key, shape ({n},) here; got {tuple(given.shape)}"
    if torch.allclose(given, right, rtol=0, atol=1e-6):
        return None
    found = _first_match(
        given,
        {
            "these are weights; return the scores, before the softmax": lambda: right.softmax(0),
            "the tanh is missing": lambda: (w @ q + k @ u.T) @ v,
            "the tanh belongs inside: apply it before multiplying by v": lambda: ((w @ q + k @ u.T) @ v).tanh(),
            "apply tanh once, to the sum, not to each part": lambda: (torch.tanh(w @ q) + torch.tanh(k @ u.T)) @ v,
            "the query does not enter; add w @ q": lambda: torch.tanh(k @ u.T) @ v,
            "the keys do not enter; add k @ u.T": lambda: (torch.tanh(w @ q) @ v).expand(n),
            "the query's and the key's features are added here, not multiplied": (
                lambda: torch.tanh((w @ q) * (k @ u.T)) @ v
            ),
            "v is missing: it weighs the hidden features before they are summed": lambda: torch.tanh(
                w @ q + k @ u.T
            ).sum(1),
        },
    )
    return found or "the shape is right, the numbers are not; score j is v @ tanh(w @ q + u @ k[j])"


@exercise("1.5")
def effect_of_an_edge(answer: Callable[..., float]) -> str | None:
    """Share of sequences whose token at step i changes when position j is closed to that step."""
    generator = torch.Generator().manual_seed(0)
    model = Seq2Seq(6, d_embedding=5, d_hidden=8, attention="dot", generator=generator).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # untrained, but sharp enough for edges to matter
    source = torch.randint(1, 6, (400, 5), generator=generator)
    target_in = torch.randint(0, 6, (400, 4), generator=generator)
    before = _tokens(model, source, target_in, None)

    def share(mask: Tensor, i: int, whole: bool = False) -> float:
        changed = before != _tokens(model, source, target_in, mask)
        return (changed if whole else changed[:, i]).double().mean().item()

    for i, j in ((1, 3), (3, 0), (2, 4)):
        given = float(_filled_in(answer(model, source.clone(), target_in.clone(), i, j)))
        open_but_edge = torch.ones(4, 5, dtype=torch.bool)
        open_but_edge[i, j] = False
        right = share(open_but_edge, i)
        if _close(given, right):
            continue
        row, swapped = (torch.ones(4, 5, dtype=torch.bool) for _ in range(2))
        row[i, :], swapped[min(j, 3), i] = False, False
        mistakes = {
            "that is the share of tokens that stay the same; return the share that changes": 1 - right,
            "that is the number of sequences; divide by how many there are": 400 * right,
            "you compared all steps; only step i was touched, so compare column i": share(open_but_edge, i, whole=True),
            "the mask is the wrong way round, so that step i sees only position j; True means may look": (
                share(~open_but_edge, i)
            ),
            "you forbade step i every position; forbid only j": share(row, i),
            "i and j are swapped: rows of the mask are steps, columns are source positions": share(swapped, i),
        }
        for diagnosis, wrong in mistakes.items():
            if _close(given, wrong):
                return diagnosis
        return f"for i={i}, j={j} the share should be {right:.4f}; yours is {given:.4f}"
    return None


@torch.no_grad()
def _tokens(model: Seq2Seq, source: Tensor, target_in: Tensor, mask: Tensor | None) -> Tensor:
    return model(source, target_in, mask)[0].argmax(dim=-1)
