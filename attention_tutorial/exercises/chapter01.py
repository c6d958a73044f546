"""The exercises of chapter 1."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..functional import additive_scores
from ..models.seq2seq import Seq2Seq
from .parse import number, numbers, random, tensor
from .runner import Mistake, call
from .table import Case, Exercise, WrongAnswer, quick_question

ONE_RECURRENT_STEP = quick_question(
    "W = 1, U = 1/2, b = 0. The states so far are 0.762 and 0.363, the third input is -1. What is the third state?",
    math.tanh(-1 + 0.5 * 0.3634),
    {
        math.tanh(-1): "that is tanh(-1): the old state does not enter; add 1/2 times the state before",
        math.tanh(-1 + 0.3634): "U is missing: the old state is multiplied by 1/2 before it is added",
        -1 + 0.5 * 0.3634: "the tanh is missing: take it of the whole sum",
        math.tanh(-1 + 0.5 * 0.7616): "that takes the first state; the third comes from the second, 0.363",
        math.tanh(1 + 0.5 * 0.3634): "the input is -1, not 1",
        math.tanh(-1) + 0.5 * 0.3634: "the tanh takes the whole sum; you left the old state outside",
        math.tanh(-0.5 + 0.3634): "U and W are swapped: 1/2 multiplies the old state, not the input",
        math.tanh(0.5 * 0.3634): "the input does not enter: add W times -1",
        math.tanh(1 - 0.5 * 0.3634): "the sign is turned around: the sum is -1 + 0.18",
    },
    fallback_message="the third state is the tanh of W times the third input plus U times the second state",
)

WEIGHT_OF_H3 = quick_question(
    "The states are (1, 0), (0, 1) and (3, 0), the decoder's state is (ln 4, 0). What weight does the third state get?",
    64 / 69,
    {
        4 / 69: "that is the weight of the first state; the third is three times as long, so its score is 3 ln 4",
        1 / 69: "that is the weight of the second state, at a right angle to the decoder's state",
        4 / 9: "the score of the third state is 3 ln 4, not ln 4: it is three times as long as the first",
        12 / 17: "the exponential of 3 ln 4 is 4 to the power 3, which is 64, not 3 times 4",
        3 / 4: "you divided the score by the sum of the scores; take the exponential of each first",
        64.0: "that is the exponential of the score; divide it by the sum of all three exponentials",
        3 * math.log(4): "that is the score; take its exponential, and divide by the sum of all three exponentials",
        64 / 68: "the score of the second state is 0, but its exponential is 1; it belongs to the sum",
        64 / 5: "divide by the sum of all three exponentials, that of the third included",
        1 / 6: "that is its weight for the decoder's state (0, ln 4); here it is (ln 4, 0)",
        1 / 3: "that is the plain average; take the exponential of each score",
    },
    fallback_message="the scores are ln 4, 0 and 3 ln 4; take their exponentials and divide the third by the sum",
)


def _rnn(
    inputs: Sequence[float], w: float, u: float, step: Callable[[float, float], float] | None = None, h: float = 0.0
) -> list[float]:
    """States, each from the input's part w x and the state's part u h; a slip may combine them in another way."""
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
        WrongAnswer("u is missing: it multiplies the old state", lambda x, w, u: _rnn(x, w, 1.0)),
        WrongAnswer("w is missing: it multiplies the input", lambda x, w, u: _rnn(x, 1.0, u)),
        WrongAnswer("the old state is added, not subtracted", lambda x, w, u: _rnn(x, w, -u)),
        WrongAnswer(
            "the tanh takes the whole sum; you left the old state outside",
            lambda x, w, u: _rnn(x, w, u, lambda new, old: math.tanh(new) + old),
        ),
        WrongAnswer(
            "the tanh takes the whole sum; you left the input outside",
            lambda x, w, u: _rnn(x, w, u, lambda new, old: new + math.tanh(old)),
        ),
        WrongAnswer(
            "the old state that enters is already a tanh; you carry the sum along without it",
            lambda x, w, u: [math.tanh(h) for h in _rnn(x, w, u, lambda new, old: new + old)],
        ),
        WrongAnswer(
            "the squashing function here is tanh, not the sigmoid",
            lambda x, w, u: _rnn(x, w, u, lambda new, old: 1 / (1 + math.exp(-new - old))),
        ),
        WrongAnswer(
            "the squashing function here is tanh, not ReLU",
            lambda x, w, u: _rnn(x, w, u, lambda new, old: max(0.0, new + old)),
        ),
        WrongAnswer(
            "it is the state before that enters besides the input; you took the input before",
            lambda x, w, u: [math.tanh(w * new + u * old) for new, old in zip(x, [0.0, *x], strict=False)],
        ),
        WrongAnswer(
            "append each state after its step: your list starts with h_0 and lacks the last state",
            lambda x, w, u: [0.0, *_rnn(x, w, u)[:-1]],
        ),
        WrongAnswer(
            "the order is reversed: the first state belongs to the first input", lambda x, w, u: _rnn(x, w, u)[::-1]
        ),
        WrongAnswer("you read the inputs backwards; begin with the first", lambda x, w, u: _rnn(x[::-1], w, u)),
        WrongAnswer("your states start from h_0 = 1", lambda x, w, u: _rnn(x, w, u, h=1.0)),
    ],
    fallback_message="the states are not right",
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
            "that counts decimal digits; bits need the logarithm to base 2", lambda length, k: length * math.log10(k)
        ),
        WrongAnswer(
            "there are num_symbols ** length sequences, not num_symbols * length",
            lambda length, k: math.log2(k * length),
        ),
        WrongAnswer(
            "length and num_symbols are swapped: there are num_symbols ** length sequences",
            lambda length, k: _bits(k, length),
        ),
        WrongAnswer(
            "those are the bits of one letter; the sequence has length of them", lambda length, k: math.log2(k)
        ),
        WrongAnswer(
            "those are whole bits for each letter; taken together, the letters need fewer",
            lambda length, k: length * math.ceil(math.log2(k)),
        ),
        WrongAnswer(
            "the sign is wrong: that is the logarithm of the probability of one sequence",
            lambda length, k: -_bits(length, k),
        ),
        WrongAnswer(
            "the logarithm of num_symbols ** length is a product, not a sum", lambda length, k: length + math.log2(k)
        ),
        WrongAnswer("that is the number of sequences; how many bits tell them apart?", lambda length, k: k**length),
    ],
)


def _attend(s: Tensor, h: Tensor, weigh: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Contexts (..., d) and weights (..., n) of decoder states s (..., d) over encoder states h (..., n, d)."""
    scores = s @ h.mT
    weights = weigh(scores) if weigh else scores.softmax(-1)
    return weights @ h, weights


def _context_slip(words: str, weigh: Callable[[Tensor], Tensor]) -> WrongAnswer:
    """A context from other weights than those that are returned, which are right."""

    def answer(s: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        weights = _attend(s, h)[1]
        return weigh(weights) @ h, weights

    return WrongAnswer(f"the weights are right; a context is the weighted sum of all states, {words}", answer)


def _best(weights: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(weights.argmax(-1), weights.size(-1)).double()


def _weights_read(words: str, weigh: Callable[[Tensor], Tensor], mistake: int | None = None) -> WrongAnswer:
    return WrongAnswer(words, lambda s, h: _attend(s, h, weigh), mistake)


CONTEXT_SLIPS = [
    WrongAnswer(
        "the weights are right, but your context uses the raw scores; it is weights @ h",
        lambda s, h: (s @ h.mT @ h, _attend(s, h)[1]),
    ),
    _context_slip("not the plain average", lambda weights: torch.full_like(weights, 1 / weights.size(-1))),
    _context_slip("not the plain sum", torch.ones_like),
    _context_slip("not the best one alone", _best),
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
        *CONTEXT_SLIPS,
        _weights_read("these are the raw scores, the softmax is missing", lambda scores: scores),
        _weights_read("these are the exponentials; divide each by the sum", torch.exp),
        _weights_read("take the exponential of each first", lambda scores: scores / scores.sum()),
        _weights_read("the logarithms of weights (log_softmax)", lambda scores: scores.log_softmax(0)),
        _weights_read("you took the softmax twice", lambda scores: scores.softmax(0).softmax(0)),
        _weights_read("you gave all weight to one key", _best),
        _weights_read("the sign of your scores is turned around", lambda scores: (-scores).softmax(0)),
        WrongAnswer(
            "you divided by sqrt(d); leave the scores as they are",
            lambda s, h: _attend(s, h, lambda scores: (scores / math.sqrt(len(s))).softmax(0)),
        ),
        WrongAnswer(
            "your context is 0.2 = 1/n times weights @ h", lambda s, h: (_attend(s, h)[0] / len(h), _attend(s, h)[1])
        ),
    ],
    fallback_message="the weights are right, the context is not; it is weights @ h",
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
        *CONTEXT_SLIPS,
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
        _weights_read("your softmax runs over the queries", lambda scores: scores.softmax(1), mistake=5),
        _weights_read("your softmax runs over axis 0", lambda scores: scores.softmax(0), mistake=5),
        WrongAnswer(
            "your context is 0.143 = 1/n times weights @ h",
            lambda s, h: (_attend(s, h)[0] / h.size(1), _attend(s, h)[1]),
        ),
        WrongAnswer(
            "you divided by sqrt(d)",
            lambda s, h: _attend(s, h, lambda scores: (scores / math.sqrt(s.size(2))).softmax(-1)),
        ),
        _weights_read(
            "in effect another number was added to the scores of each key",
            lambda scores: scores.softmax(1) / scores.softmax(1).sum(2, keepdim=True),
        ),
    ],
    fallback_message="the weights are right, the context is not; it is weights @ h",
)


def _additive(q: Tensor, k: Tensor, w: Tensor, u: Tensor, v: Tensor) -> Tensor:
    return additive_scores(q[None], k, w, u, v)[0]


def _hidden(words: str, combine: Callable[[Tensor, Tensor, Tensor], Tensor]) -> WrongAnswer:
    """Scores that combine the query's features (d_a,), the keys' (n, d_a) and v in another way."""
    return WrongAnswer(words, lambda q, k, w, u, v: combine(w @ q, k @ u.T, v))


ADDITIVE_SCORES = Exercise(
    prompt="The additive scores (n,) of one query.",
    right=_additive,
    returns=tensor("(n,), one score for each key", "the scores"),
    cases=[Case((random(3), random(5, 4), random(7, 3), random(7, 4), random(7)))],
    wrong_answers=[
        WrongAnswer(
            "those are the hidden features of each pair; v turns them into one score for each key",
            lambda q, k, w, u, v: torch.tanh(w @ q + k @ u.T),
        ),
        WrongAnswer("these are weights; return the scores, before the softmax", lambda *a: _additive(*a).softmax(0)),
        _hidden("the tanh is missing", lambda q, k, v: (q + k) @ v),
        _hidden("the tanh belongs inside: apply it before multiplying by v", lambda q, k, v: ((q + k) @ v).tanh()),
        WrongAnswer("apply tanh once: the scores themselves are not squashed", lambda *a: _additive(*a).tanh()),
        _hidden(
            "v comes after the tanh: it weighs the squashed features", lambda q, k, v: torch.tanh((q + k) * v).sum(1)
        ),
        _hidden(
            "that is a dot product of query and key features; here they are added, squashed and weighed by v",
            lambda q, k, v: k @ q,
        ),
        WrongAnswer("your scores add up from key to key; start again for each key", lambda *a: _additive(*a).cumsum(0)),
        _hidden(
            "your keys add up from key to key; add u @ k[j] to a fresh w @ q",
            lambda q, k, v: torch.tanh(q + k.cumsum(0)) @ v,
        ),
        WrongAnswer("the order is reversed: score j belongs to key j", lambda *a: _additive(*a).flip(0)),
        WrongAnswer("these are exponentials; return the scores themselves", lambda *a: _additive(*a).exp()),
        _hidden("apply tanh once, to the sum, not to each part", lambda q, k, v: (torch.tanh(q) + torch.tanh(k)) @ v),
        _hidden("apply tanh to the sum; you left the query's part outside", lambda q, k, v: (q + torch.tanh(k)) @ v),
        _hidden("apply tanh to the sum; you left the keys' part outside", lambda q, k, v: (torch.tanh(q) + k) @ v),
        _hidden("the query does not enter; add w @ q", lambda q, k, v: torch.tanh(k) @ v),
        _hidden("the keys do not enter; add k @ u.T", lambda q, k, v: (torch.tanh(q) @ v).expand(len(k))),
        _hidden(
            "the query's and the key's features are added here, not multiplied", lambda q, k, v: torch.tanh(q * k) @ v
        ),
        _hidden(
            "the query's and the key's features are added here, not subtracted", lambda q, k, v: torch.tanh(q - k) @ v
        ),
        _hidden(
            "v is missing: it weighs the hidden features before they are summed",
            lambda q, k, v: torch.tanh(q + k).sum(1),
        ),
        _hidden("that is the mean over the hidden features; v weighs them", lambda q, k, v: torch.tanh(q + k).mean(1)),
        WrongAnswer("the sign is wrong", lambda *a: -_additive(*a)),
        _hidden("the squashing function here is tanh, not the sigmoid", lambda q, k, v: torch.sigmoid(q + k) @ v),
        _hidden("the squashing function here is tanh, not ReLU", lambda q, k, v: torch.relu(q + k) @ v),
        WrongAnswer(
            "your scores are 0.378 = 1/sqrt(d_a) times the right ones", lambda *a: _additive(*a) / math.sqrt(7)
        ),
    ],
    fallback_message="the shape is right, the numbers are not; score j is v @ tanh(w @ q + u @ k[j])",
)


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


def _edge(i: int, j: int) -> Tensor:
    """What hides source position j from step i, (m, n)."""
    edge = torch.zeros(5, 6, dtype=torch.bool)
    edge[i, j] = True
    return edge


def _ask_for_effect(answer: Callable[..., Any], i: int, j: int) -> Any:
    """Hand over a network and data, and look at the masks that the answer uses before the number it returns."""
    model, generator = _Recorder(), torch.Generator().manual_seed(41)  # tells all slips apart
    source = torch.randint(1, 6, (400, 6), generator=generator)
    target_in = torch.randint(0, 6, (400, 5), generator=generator)
    result = call(answer, model, source, target_in, i, j)
    edge = _edge(i, j)
    closed = [_closed(mask, edge) for mask in model.masks]
    if not any(keys.equal(edge.expand_as(keys)) for keys in closed):
        raise Mistake(_explain_mask(closed, edge, i, j))
    if all(keys.any() for keys in closed):
        raise Mistake("the mask is right, but you never called the model without it; compare with and without the mask")
    return result


def _closed(mask: Tensor | None, edge: Tensor) -> Tensor:
    """Return what a mask, boolean or added to the scores, hides, (..., m, n)."""
    if mask is None:
        return torch.zeros_like(edge)
    if mask.dtype != torch.bool and not mask.isinf().any():
        raise Mistake(f"the mask must be boolean, True where looking is allowed; got {mask.dtype}")
    return (~mask if mask.dtype == torch.bool else mask.isinf()).expand(*mask.shape[:-2], *edge.shape)


def _explain_mask(closed: list[Tensor], edge: Tensor, i: int, j: int) -> str:
    some = [keys.reshape(-1, *edge.shape) for keys in closed if keys.any()]
    if not some:
        return f"none of your masks hides anything; for i={i}, j={j} it must be False there and True elsewhere"
    got = next(keys for keys in some[-1] if not keys.equal(edge))
    if not got.any():
        return "your mask hides position j in some sequences only; hide it in all of them"
    row_only = edge.any(dim=1, keepdim=True) & ~edge
    if got.equal(~edge) or got.equal(row_only):
        return "the mask is the wrong way round, so that step i sees only position j; True means may look"
    step, position = (got & ~edge).nonzero()[0].tolist()
    if got.equal(edge.any(dim=1, keepdim=True).expand_as(edge)):
        return "you hid every position from step i; hide only j"
    swapped = "i and j are swapped: " if j < len(got) and got[j, i] and i != j else ""
    words = f"for i={i}, j={j} your mask hides position {position} from step {step}"
    if got[i, j]:
        return f"{words} as well; hide only position j, and only from step i"
    return (
        f"{swapped}{words}, but not position j from step i; "
        "rows of the mask are steps (i), columns are source positions (j)"
    )


Compare = Callable[[Tensor, int, int], Tensor]  # of what changed, (batch, m), at step i and position j


def _effect(compare: Compare = lambda changed, i, j: changed[:, i], hide: Callable[..., Tensor] = _edge) -> Any:
    """Return an answer that compares the model's tokens (batch, m) with and without a mask (m, n), in some way."""

    def answer(model: Seq2Seq, source: Tensor, target_in: Tensor, i: int, j: int) -> float:
        with torch.no_grad():
            before, after = (model(source, target_in, mask)[0].argmax(dim=-1) for mask in (None, ~hide(i, j)))
        return compare((before != after).double(), i, j).mean().item()

    return answer


def _compared_with_inputs(model: Seq2Seq, source: Tensor, target_in: Tensor, i: int, j: int) -> float:
    with torch.no_grad():
        model(source, target_in)
        return (model(source, target_in, ~_edge(i, j))[0].argmax(dim=-1) != target_in)[:, i].double().mean().item()


EFFECT_OF_AN_EDGE = Exercise(
    prompt="The share of sequences whose token at step i changes when position j is masked at that step.",
    right=_effect(),
    returns=number("the share"),
    call=_ask_for_effect,
    cases=[Case((1, 2)), Case((4, 0)), Case((3, 5))],
    wrong_answers=[
        WrongAnswer(
            "that says that every sequence changes; the logits always do, their argmax over the last axis seldom",
            _effect(lambda changed, i, j: torch.ones(())),
        ),
        WrongAnswer(
            "that says that no sequence changes; compare the argmax of the logits at step i, which is column i "
            "(steps are counted from 0)",
            _effect(lambda changed, i, j: torch.zeros(())),
        ),
        WrongAnswer(
            "that is the share of tokens that stay the same; return the share that changes",
            _effect(lambda changed, i, j: 1 - changed[:, i]),
        ),
        WrongAnswer(
            "that is the number of sequences; divide by how many there are",
            _effect(lambda changed, i, j: changed[:, i].sum()),
        ),
        WrongAnswer(
            "that is in percent; return the share itself, between 0 and 1",
            _effect(lambda changed, i, j: 100 * changed[:, i]),
        ),
        WrongAnswer(
            "you compared all steps; compare only step i, which is column i", _effect(lambda changed, i, j: changed)
        ),
        WrongAnswer(
            "you asked whether any step changes; compare only step i, which is column i",
            _effect(lambda changed, i, j: changed.amax(1)),
        ),
        WrongAnswer(
            "you compared the steps from i on; compare only step i", _effect(lambda changed, i, j: changed[:, i:])
        ),
        WrongAnswer(
            "you compared step j; i is the step, j the source position",
            _effect(lambda changed, i, j: changed[:, min(j, changed.size(1) - 1)]),
        ),
        WrongAnswer("you compared the last step; compare step i", _effect(lambda changed, i, j: changed[:, -1])),
        WrongAnswer(
            "you picked sequence i; axis 0 is the batch, so step i is column i",
            _effect(lambda changed, i, j: changed[i]),
        ),
        WrongAnswer(
            "you compared with the decoder's inputs; compare with the model's own tokens without the mask",
            _compared_with_inputs,
        ),
        WrongAnswer(
            "the mask is the wrong way round, so that step i sees only position j",
            _effect(hide=lambda i, j: ~_edge(i, j)),
        ),
        WrongAnswer(
            "you hid every position from step i; hide only j",
            _effect(hide=lambda i, j: _edge(i, j).any(1, True).expand(5, 6)),
        ),
        WrongAnswer(
            "hide only position j, and only from step i", _effect(hide=lambda i, j: _edge(i, j).any(0).expand(5, 6))
        ),
        WrongAnswer("i and j are swapped", _effect(hide=lambda i, j: _edge(min(j, 4), i))),
    ],
)
