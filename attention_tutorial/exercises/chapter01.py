"""The exercises of chapter 1."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..functional import additive_scores
from ..models.seq2seq import Seq2Seq
from .parse import number, numbers, random, tensor
from .runner import call
from .table import Case, Exercise, WrongAnswer, quick_question

ONE_RECURRENT_STEP = quick_question(
    "W = 1, U = 1/2, b = 0. The states so far are 0.762 and 0.363, the third input is -1. What is the third state?",
    math.tanh(-1 + 0.5 * 0.3634),
    {
        math.tanh(-1): "that is tanh(-1): the old state does not enter; add 1/2 times the state before",
        math.tanh(-1 + 0.3634): "U is missing: the old state is multiplied by 1/2 before it is added",
        -1 + 0.5 * 0.3634: "the tanh is missing: take it of the whole sum",
        math.tanh(-1 + 0.5 * 0.7616): "that takes the first state; the third comes from the second, 0.363",
        math.tanh(-1) + 0.5 * 0.3634: "the tanh takes the whole sum; you left the old state outside",
    },
    fallback_message="the third state is the tanh of W times the third input plus U times the second state",
)

WEIGHT_OF_H3 = quick_question(
    "The states are (1, 0), (0, 1) and (3, 0), the decoder's state is (ln 4, 0). What weight does the third state get?",
    64 / 69,
    {
        4 / 9: "the score of the third state is 3 ln 4, not ln 4: it is three times as long as the first",
        12 / 17: "the exponential of 3 ln 4 is 4 to the power 3, which is 64, not 3 times 4",
        3 / 4: "you divided the score by the sum of the scores; take the exponential of each first",
        64.0: "that is the exponential of the score; divide it by the sum of all three exponentials",
        3 * math.log(4): "that is the score; take its exponential, and divide by the sum of all three exponentials",
        64 / 68: "the score of the second state is 0, but its exponential is 1; it belongs to the sum",
    },
    fallback_message="the scores are ln 4, 0 and 3 ln 4; take their exponentials and divide the third by the sum",
)


def _rnn(
    inputs: Sequence[float], w: float, u: float, step: Callable[[float, float], float] | None = None, h: float = 0.0
) -> list[float]:
    """States, each from the input's part w x and the state's part u h, which `step` may combine otherwise."""
    states = []
    for x in inputs:
        h = step(w * x, u * h) if step else math.tanh(w * x + u * h)
        states.append(h)
    return states


RNN_BY_HAND = Exercise(
    prompt="The states of an RNN with one feature, for a list of numbers.",
    right=_rnn,
    returns=numbers("the states", "there is one state for each input"),
    cases=[
        Case(([1.0, -1.5, 0.25, 0.0], 0.9, 0.6)),
        Case(([-0.5, 2.0], 1.4, -0.7), "right at the first call, but not at a second one with other inputs: {found}"),
    ],
    wrong_answers=[
        WrongAnswer("that is the last state; return the list of all of them", lambda x, w, u: _rnn(x, w, u)[-1]),
        WrongAnswer(
            "there is one state for each input, and h_0 is not among them", lambda x, w, u: [0.0, *_rnn(x, w, u)]
        ),
        WrongAnswer("the old state does not enter; add u times the state before", lambda x, w, u: _rnn(x, w, 0.0)),
        WrongAnswer(
            "the tanh is missing; each state is the tanh of the sum",
            lambda x, w, u: _rnn(x, w, u, lambda new, old: new + old),
        ),
        WrongAnswer("w and u are swapped: w multiplies the input, u the old state", lambda x, w, u: _rnn(x, u, w)),
        WrongAnswer(
            "the tanh takes the whole sum; you left the old state outside",
            lambda x, w, u: _rnn(x, w, u, lambda new, old: math.tanh(new) + old),
        ),
    ],
    fallback_message="each state is tanh(w * x + u * h), where h is the state before, and h_0 = 0",
)


def _bits(length: int, num_symbols: int) -> float:
    return length * math.log2(num_symbols)


BITS = Exercise(
    prompt="The bits of a random sequence: its length times the logarithm of the number of symbols.",
    right=_bits,
    returns=number(),
    cases=[
        Case((12, 10)),
        *(
            Case((n, k), f"right for 12 letters from an alphabet of 10, but not for {n} from one of {k}")
            for n, k in ((1, 2), (5, 4), (7, 3))
        ),
    ],
    wrong_answers=[
        *(
            WrongAnswer(f"no need to round {name}: return the number as it is, with all its digits", answer)
            for name, answer in (
                ("down", lambda length, k: math.floor(_bits(length, k))),
                ("up", lambda length, k: math.ceil(_bits(length, k))),
            )
        ),
        WrongAnswer(
            "that counts in natural units; bits need the logarithm to base 2", lambda length, k: length * math.log(k)
        ),
        WrongAnswer(
            "those are the bits of one letter; the sequence has length of them", lambda length, k: math.log2(k)
        ),
        WrongAnswer("that is the number of sequences; how many bits tell them apart?", lambda length, k: k**length),
    ],
)


def _attend(s: Tensor, h: Tensor, weigh: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Contexts (..., d) and weights (..., n) of decoder states s (..., d) over encoder states h (..., n, d)."""
    scores = s @ h.mT
    weights = weigh(scores) if weigh else scores.softmax(-1)
    return weights @ h, weights


def _weighing(message: str, weigh: Callable[[Tensor], Tensor], mistake: int | None = None) -> WrongAnswer:
    """Weights that are weigh(scores), and a context that they give."""
    return WrongAnswer(message, lambda s, h: _attend(s, h, weigh), mistake)


WRONG_CONTEXTS = [
    WrongAnswer(
        "the weights are right, but your context uses the raw scores; it is weights @ h",
        lambda s, h: (s @ h.mT @ h, _attend(s, h)[1]),
    ),
    WrongAnswer(
        "the weights are right; a context is the weighted sum of all states, not the plain average",
        lambda s, h: (h.mean(-2, keepdim=s.dim() > 1).expand_as(s), _attend(s, h)[1]),
    ),
]

ONE_STEP_OF_ATTENTION = Exercise(
    prompt="The context (d,) and the weights (n,) for a decoder state (d,) and encoder states (n, d).",
    right=_attend,
    returns=(
        tensor("(d,), as many features as a state", "the context"),
        tensor("(n,), one for each encoder state", "the weights"),
    ),
    cases=[Case((random(3), random(5, 3))), Case((random(5), random(2, 5)))],
    wrong_answers=[
        *WRONG_CONTEXTS,
        _weighing("these are the raw scores, the softmax is missing", lambda scores: scores),
        _weighing("these are the exponentials; divide each by their sum", torch.exp),
        _weighing(
            "you divided the scores by their sum; take the exponential of each first (that is the softmax)",
            lambda scores: scores / scores.sum(),
        ),
        _weighing("you took the softmax twice", lambda scores: scores.softmax(0).softmax(0)),
        WrongAnswer(
            "you divided by sqrt(d); leave the scores as they are",
            lambda s, h: _attend(s, h, lambda scores: (scores / math.sqrt(len(s))).softmax(0)),
        ),
    ],
    fallback_message="the weights are the softmax of the scores s @ h.mT, and the context is weights @ h",
)


def _exponentials(scores: Tensor, largest: Tensor | float) -> Tensor:
    powers = (scores - largest).exp()
    return powers / powers.sum(-1, keepdim=True)


def _one_loud_step(batch: int, m: int, n: int, d: int) -> Case:
    """Decoder states of which the first asks 400 times as loudly: its scores lie far above those of the others."""
    s = random(batch, m, d)
    s[:, 0] *= 400
    return Case((s, random(batch, n, d)), "right where scores are small, but where some are in the hundreds: {found}")


DEBUG_THE_CONTEXTS = Exercise(
    prompt="The contexts (batch, m, d) and the weights (batch, m, n) of all decoder steps.",
    right=_attend,
    returns=(tensor("(batch, m, d)", "the contexts"), tensor("(batch, m, n)", "the weights")),
    cases=[
        *(Case((random(batch, m, d) / 2, random(batch, n, d))) for batch, m, n, d in ((2, 3, 7, 5), (3, 5, 5, 2))),
        _one_loud_step(2, 3, 7, 5),
    ],
    wrong_answers=[
        *WRONG_CONTEXTS,
        WrongAnswer(
            "in a row far below the largest score of all, every exponential is 0, and 0/0 is NaN; "
            "subtract from each row its own largest score",
            lambda s, h: _attend(s, h, lambda scores: _exponentials(scores, scores.max())),
        ),
        WrongAnswer(
            "exponentials of large scores are infinite, and infinity over infinity is NaN; "
            "subtract from each row its own largest score first",
            lambda s, h: _attend(s, h, lambda scores: _exponentials(scores, 0.0)),
        ),
        WrongAnswer(
            "every sequence of the batch looks at the states of the first; each has its own",
            lambda s, h: _attend(s, h[:1].expand_as(h)),
        ),
        _weighing(
            "your softmax runs over the queries (down the columns); it must run over the keys, along each row",
            lambda scores: scores.softmax(1),
            mistake=5,
        ),
        _weighing(
            "your softmax runs over axis 0, the batch; it must run over the keys, the last",
            lambda scores: scores.softmax(0),
            mistake=5,
        ),
    ],
    fallback_message="the weights are the softmax of the scores s @ h.mT, and the context is weights @ h",
)


def _additive(q: Tensor, k: Tensor, w: Tensor, u: Tensor, v: Tensor) -> Tensor:
    return additive_scores(q[None], k, w, u, v)[0]


def _hidden(message: str, combine: Callable[[Tensor, Tensor, Tensor], Tensor]) -> WrongAnswer:
    """Scores that combine the query's features (d_a,), the keys' (n, d_a) and v in another way."""
    return WrongAnswer(message, lambda q, k, w, u, v: combine(w @ q, k @ u.T, v))


ADDITIVE_SCORES = Exercise(
    prompt="The additive scores (n,) of one query.",
    right=_additive,
    returns=tensor("(n,), one score for each key", "the scores"),
    cases=[Case((random(3), random(5, 4), random(7, 3), random(7, 4), random(7)))],
    wrong_answers=[
        WrongAnswer("these are weights; return the scores, before the softmax", lambda *a: _additive(*a).softmax(0)),
        _hidden("the tanh is missing: it squashes the sum, before v", lambda q, k, v: (q + k) @ v),
        _hidden("the tanh belongs inside: apply it before multiplying by v", lambda q, k, v: ((q + k) @ v).tanh()),
        _hidden(
            "that is a dot product of query and key features; here they are added, squashed and weighed by v",
            lambda q, k, v: k @ q,
        ),
        _hidden("apply tanh once, to the sum, not to each part", lambda q, k, v: (torch.tanh(q) + torch.tanh(k)) @ v),
    ],
    fallback_message="the shape is right, the numbers are not; score j is v @ tanh(w @ q + u @ k[j])",
)


class _Summing(Seq2Seq):
    """A small network in which a step acts on all later ones, so that one edge more or less changes many tokens."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        super().__init__(6, d_embedding=5, d_hidden=8, attention="dot", generator=generator)
        with torch.no_grad():
            for parameter in self.double().parameters():
                parameter.mul_(4)  # untrained, but sharp enough for edges to matter

    def forward(self, source: Tensor, target_in: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, weights = super().forward(source, target_in, mask)
        return logits.cumsum(dim=1), weights


def _edge(i: int, j: int) -> Tensor:
    """What hides source position j from step i, (m, n)."""
    edge = torch.zeros(5, 6, dtype=torch.bool)
    edge[i, j] = True
    return edge


def _ask_for_effect(answer: Callable[..., Any], i: int, j: int) -> Any:
    """Hand over a network and data."""
    generator = torch.Generator().manual_seed(41)  # tells all wrong answers apart
    source = torch.randint(1, 6, (400, 6), generator=generator)
    target_in = torch.randint(0, 6, (400, 5), generator=generator)
    return call(answer, _Summing(), source, target_in, i, j)


Compare = Callable[[Tensor, int, int], Tensor]  # of what changed, (batch, m), at step i and position j


def _effect(compare: Compare = lambda changed, i, j: changed[:, i], hide: Callable[..., Tensor] = _edge) -> Any:
    """Return an answer that compares the model's tokens (batch, m) with and without a mask (m, n), in some way."""

    def answer(model: Seq2Seq, source: Tensor, target_in: Tensor, i: int, j: int) -> float:
        with torch.no_grad():
            before, after = (model(source, target_in, mask)[0].argmax(dim=-1) for mask in (None, ~hide(i, j)))
        return compare((before != after).double(), i, j).mean().item()

    return answer


EFFECT_OF_AN_EDGE = Exercise(
    prompt="The share of sequences whose token at step i changes when position j is masked at that step.",
    right=_effect(),
    returns=number("the share"),
    call=_ask_for_effect,
    cases=[Case((1, 2)), Case((4, 0)), Case((3, 5))],
    fallback_message="the mask (m, n) is False at (i, j) alone; compare the tokens of step i with it and without",
    wrong_answers=[
        WrongAnswer(
            "that is the share of tokens that stay the same; return the share that changes",
            _effect(lambda changed, i, j: 1 - changed[:, i]),
        ),
        WrongAnswer(
            "you compared all steps; compare only step i, which is column i", _effect(lambda changed, i, j: changed)
        ),
        WrongAnswer(
            "the mask is the wrong way round, so that step i sees only position j; True means may look",
            _effect(hide=lambda i, j: ~_edge(i, j)),
        ),
        WrongAnswer(
            "i and j are swapped: rows of the mask are steps (i), columns are source positions (j)",
            _effect(hide=lambda i, j: _edge(min(j, 4), i)),
        ),
    ],
)
