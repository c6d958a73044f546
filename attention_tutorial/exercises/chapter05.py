"""The exercises of chapter 5."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..analysis.influence import find_influence
from ..functional import masked_softmax
from ..masks import causal_mask
from .parse import mask, number, random, same, tensor
from .runner import Mistake, call
from .table import Case, Exercise, WrongAnswer, quick_question

TARGET_AT_SAT = quick_question(
    "The inputs are the cat sat on the, the targets cat sat on the mat. Which word has to be predicted at sat?",
    "on",
    {
        "sat": "that is the word which goes in there; the target is the word after it",
        "cat": "that is the word before; the targets are shifted by one so that the next word stands there",
        "mat": "that is the last target, and it stands at the second the",
    },
    choices=("the", "cat", "sat", "on", "mat"),
)

SAT_UNDER_THE_MASK = quick_question(
    "Under the causal mask sat sees the, cat and sat, with the scores 0, 2.83 and 0. What weight does it give cat?",
    16.92 / 18.92,
    {
        0.772: "that is the weight without the mask: only three exponentials are left in the sum",
        16.92 / 19.92: "that is with four words in the sum: on comes after sat, so it is masked",
        16.92 / 17.92: "that is with two words in the sum: sat sees itself too",
        16.92: "that is the exponential of the score; divide it by the sum of the three exponentials",
    },
)

SHAPE_OF_CROSS_WEIGHTS = quick_question(
    "A batch of 2, 3 heads, a target of 5 words and a source of 6. What shape do the weights of cross-attention have?",
    (2, 3, 5, 6),
    {
        (2, 3, 6, 5): "a row is a query, and queries come from the target: 5 rows, 6 columns",
        (2, 3, 5, 5): "the keys come from the source, which has 6 words",
        (2, 3, 6, 6): "the queries come from the target, which has 5 words",
        (2, 5, 6): "each head has weights of its own: one axis is missing",
    },
)

KEYS_OF_A_NEW_WORD = quick_question(
    "Keys of 3 words are in the cache, and 2 new words go in together. How many keys may the first new word see?",
    4,
    {
        1: "that is the mask aligned at the upper left, as if the cache came after the new words",
        3: "it may see itself too",
        5: "the fifth key is that of the second new word, which comes later",
    },
)

# Boolean masks

WRONG_WAY_ROUND = "your mask is the wrong way round: it is True where a key must be hidden; here True means may attend"


def _ones(m: int, n: int) -> Tensor:
    return torch.ones(m, n, dtype=torch.bool)


IDS = [  # token ids, and the padding's; 0 may be a token, and padding stands right or left
    Case((torch.tensor([[7, 7, 4, 0, 6], [5, 2, 7, 7, 7], [9, 0, 5, 2, 7]]), 7)),
    Case((torch.tensor([[4, 3, 6, 0, 0, 0], [0, 5, 2, 1, 1, 8]]), 0)),
]


def _keys(ids: Tensor, pad: int) -> Tensor:
    return (ids != pad)[:, None, None, :]


def _queries_too(ids: Tensor, pad: int) -> Tensor:
    return _keys(ids, pad) & _keys(ids, pad).mT


PADDING_FROM_IDS = Exercise(
    prompt="The padding mask (batch, 1, 1, n) of ids (batch, n).",
    right=_keys,
    returns=mask("(batch, 1, 1, n)"),
    cases=IDS,
    wrong_answers=[
        WrongAnswer(
            "you masked the padding as queries too: those rows may see no key and become NaN; mask it as keys only, "
            "(batch, 1, 1, n)",
            _queries_too,
            mistake=12,
        ),
        WrongAnswer(WRONG_WAY_ROUND, lambda ids, pad: ~_keys(ids, pad), mistake=7),
        WrongAnswer(
            "you compared with 0; the padding's id is an argument, and 0 may be a token",
            lambda ids, pad: _keys(ids, 0),
        ),
        WrongAnswer(
            "you counted the tokens and allowed the first positions; padding may also stand on the left",
            lambda ids, pad: (torch.arange(ids.size(1)) < (ids != pad).sum(dim=1, keepdim=True))[:, None, None, :],
        ),
    ],
)

CAUSAL = Exercise(
    prompt="The causal mask (m, n), aligned lower right.",
    right=causal_mask,
    returns=mask("(m, n)"),
    cases=[Case((m, n), f"{{found}} (here m={m}, n={n})") for m, n in ((5, 7), (5, 5), (7, 3), (1, 5))],
    wrong_answers=[
        WrongAnswer(WRONG_WAY_ROUND, lambda m, n: ~causal_mask(m, n), mistake=7),
        WrongAnswer(
            "off by one: each query sees one key of the future, the very token that it has to predict",
            lambda m, n: _ones(m, n).tril(n - m + 1),
            mistake=14,
        ),
        WrongAnswer(
            "off by one: a query does not see its own position; the diagonal belongs to the mask",
            lambda m, n: _ones(m, n).tril(n - m - 1),
        ),
        WrongAnswer(
            "you kept the upper triangle: each query sees itself and the future", lambda m, n: _ones(m, n).triu(n - m)
        ),
        WrongAnswer(
            "aligned upper left: query i stands at position i + (n - m), not at i", lambda m, n: _ones(m, n).tril()
        ),
    ],
)

DECODER_MASK = Exercise(
    prompt="The mask of a decoder's self-attention, (batch, 1, n, n), from ids (batch, n).",
    right=lambda ids, pad: _keys(ids, pad) & causal_mask(ids.size(1)),
    returns=mask("(batch, 1, n, n)"),
    cases=IDS,
    wrong_answers=[
        WrongAnswer(
            "you joined the two by OR; a key must be allowed under both: AND",
            lambda ids, pad: _keys(ids, pad) | causal_mask(ids.size(1)),
        ),
        WrongAnswer(
            "the future is visible: the causal mask is missing",
            lambda ids, pad: _keys(ids, pad).expand(-1, -1, ids.size(1), -1),
            mistake=14,
        ),
        WrongAnswer(
            "padding is visible: the padding mask is missing",
            lambda ids, pad: causal_mask(ids.size(1)).expand(len(ids), 1, -1, -1),
        ),
        WrongAnswer(
            "you masked the padding as queries too; that leaves rows that may see no key",
            lambda ids, pad: _queries_too(ids, pad) & causal_mask(ids.size(1)),
            mistake=12,
        ),
        WrongAnswer(
            "the causal mask is the wrong way round: only the future is visible",
            lambda ids, pad: _keys(ids, pad) & ~causal_mask(ids.size(1)),
            mistake=7,
        ),
    ],
)

FROM_TORCHS_MODULE = Exercise(
    prompt="A mask (batch * heads, m, n) of torch's module, True = blocked, as (batch, heads, m, n), True = allowed.",
    right=lambda blocked, heads: ~blocked.unflatten(0, (-1, heads)),
    returns=mask("(batch, heads, m, n)"),
    cases=[Case((random(6, 5, 7) > 0, 2)), Case((random(6, 7, 5) > 0, 3)), Case((random(4, 3, 3) > 0, 4))],
    wrong_answers=[
        WrongAnswer("batch and heads still share one axis: give them one each", lambda blocked, heads: ~blocked),
        WrongAnswer(
            "not inverted: torch's module blocks where the mask is True",
            lambda blocked, heads: blocked.unflatten(0, (-1, heads)),
            mistake=7,
        ),
        WrongAnswer(
            "the masks stand in the wrong order: all heads of the first text come first",
            lambda blocked, heads: ~blocked.unflatten(0, (heads, -1)).transpose(0, 1),
            mistake=10,
        ),
    ],
)

# Weights and outputs under a mask

NAN_ROWS = (
    "a row that may see no key came out as NaN: its scores are all minus infinity; allow all keys of such a row before "
    "the softmax, and set its weights to zero afterwards"
)
EQUAL_ROWS = (
    "a row that may see no key got equal weights: a large finite number, such as -1e9, is the same for all its keys; "
    "set the weights of such a row to zero"
)
AFTER_SOFTMAX = (
    "you set the weights of masked keys to zero after the softmax, so rows do not sum to 1; give masked keys the score "
    "minus infinity before it"
)
IN_EVALUATION = "right in training, but not in evaluation (torch.no_grad() and eval()): "
NO_GRADIENT = "the numbers are right, but no gradient gets through them; do not detach, and do not convert to lists"
NAN_GRADIENTS = (
    "the numbers are right, but the gradients are NaN: zeros written over NaN do not stop it on the way back; "
    "allow the keys of empty rows before the softmax"
)
OVERFLOW = "right for small scores, but large ones overflow: exp(1000) is infinite; torch.softmax avoids it"
OUTSHONE = (
    "right as long as masked keys have moderate scores, but where one is 2000 above the allowed ones, the row is "
    "lost (0 / 0): mask the keys before the softmax, not after it"
)
FINITE_FILL = (
    "where the allowed scores are very low (-3e10 here), the masked keys win: your fill is a finite number; "
    "use -torch.inf"
)
HALF_FILL = "right in float64, but your fill does not fit into float16 (up to 65504): use -torch.inf"

Weigh = Callable[[Tensor, Tensor], Tensor]


def _inputs_of_softmax(empty: bool) -> tuple[Tensor, Tensor]:
    """Scores, and a mask with allowed and masked keys in every row and column, except for an empty row."""
    scores = (64 * random(2, 3, 5, 7)).round() / 64  # so that float32 can hold them + 2000
    mask = random(2, 1, 5, 7) > -0.5
    mask[..., 0] = True
    mask &= ~torch.eye(7, dtype=torch.bool).roll(1, dims=1)[:5]
    mask[0, 0, 3] &= not empty
    return scores, mask


def _filled(fill: float, axis: int = -1) -> Weigh:
    return lambda scores, mask: scores.masked_fill(~mask, fill).softmax(axis)


def _renormalised(weights: Tensor, mask: Tensor) -> Tensor:
    weights = weights * mask
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)


def _trained(scores: Tensor, mask: Tensor) -> Tensor:
    """Weights whose mask is dropped in evaluation."""
    return masked_softmax(scores, mask if torch.is_grad_enabled() else None)


def _gradients(answer: Callable[..., Any], *, right: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> str | None:
    """The result is right; are its gradients to all inputs but the last, a mask?"""
    *others, mask = inputs
    leaves = [x.clone().requires_grad_() for x in others]
    result = call(lambda mask: answer(*leaves, mask), mask)  # it would copy the leaves
    if not result.requires_grad:
        return NO_GRADIENT
    got, wanted = (
        torch.autograd.grad(x.square().sum(), leaves, allow_unused=True, materialize_grads=True)
        for x in (result, right(*leaves, mask))
    )
    if any(x.isnan().any() for x in got):
        return NAN_GRADIENTS
    return None if all(map(same, got, wanted)) else "the numbers are right, but their gradients are not"


def _extreme_scores(answer: Callable[..., Any]) -> str | None:
    scores, mask = _inputs_of_softmax(empty=True)
    extremes = {
        OVERFLOW: scores + 2000,
        OUTSHONE: torch.where(mask, scores, scores + 2000),
        FINITE_FILL: torch.where(mask, -3e10, scores),
    }
    wrong = (said for said, x in extremes.items() if not same(call(answer, x, mask), masked_softmax(x, mask)))
    return next(wrong, None)


SURVIVING_SOFTMAX = Exercise(
    prompt="The masked softmax of scores (..., m, n), which gives zeros in rows that may see no key.",
    right=masked_softmax,
    returns=tensor("(..., m, n)", "the weights", finite=False),
    cases=[
        Case(_inputs_of_softmax(empty=False)),
        Case(_inputs_of_softmax(empty=True)),
        Case(
            tuple(x[0, 0] for x in _inputs_of_softmax(empty=True)),
            "right for four axes, but not for a single matrix (m, n): {found}; count the axes from the end, dim=-1",
        ),
    ],
    in_evaluation=True,
    wrong_answers=[
        WrongAnswer(
            "your softmax runs over the queries (down the columns); it must run over the keys, along each row",
            _filled(-math.inf, -2),
            mistake=5,
        ),
        WrongAnswer(NAN_ROWS, _filled(-math.inf), mistake=11),
        WrongAnswer(EQUAL_ROWS, _filled(-1e9), mistake=13),
        WrongAnswer(
            "masked keys got the score 0 (1e-9 is nearly 0), and exp(0) is 1, so they still get weight; put minus "
            "infinity there",
            _filled(1e-9),
            mistake=13,
        ),
        WrongAnswer(AFTER_SOFTMAX, lambda scores, mask: scores.softmax(-1) * mask, mistake=6),
        WrongAnswer(
            "your mask is the wrong way round: True means may attend",
            lambda scores, mask: masked_softmax(scores, ~mask),
            mistake=7,
        ),
        WrongAnswer(
            "you added a boolean mask to the scores: True counts as 1 and False as 0; use masked_fill",
            lambda scores, mask: (scores + mask).softmax(-1),
            mistake=8,
        ),
        WrongAnswer(
            "NaN everywhere: 0 times infinity is NaN; use masked_fill in place of a product",
            lambda scores, mask: (scores + ~mask * -math.inf).softmax(-1),
            mistake=11,
        ),
        WrongAnswer(
            NAN_GRADIENTS,
            lambda scores, mask: (scores + torch.where(mask, 0.0, -math.inf)).softmax(-1).nan_to_num(),
            mistake=11,
        ),
        WrongAnswer(FINITE_FILL, lambda scores, mask: _filled(-1e9)(scores, mask) * mask, mistake=13),
        WrongAnswer(OVERFLOW, lambda scores, mask: _renormalised(scores.exp(), mask)),
        WrongAnswer(OUTSHONE, lambda scores, mask: _renormalised(scores.softmax(-1), mask), mistake=6),
        WrongAnswer(NO_GRADIENT, lambda scores, mask: masked_softmax(scores.detach(), mask)),
        WrongAnswer(IN_EVALUATION, _trained, mistake=14),
    ],
    extra_checks=[partial(_gradients, right=masked_softmax, inputs=_inputs_of_softmax(empty=True)), _extreme_scores],
)


def _inputs_of_attention(batch: int, heads: int) -> tuple[Tensor, ...]:
    m, n, d_k, d_v = 5, 7, 11, 13
    query, key, value = random(batch, heads, m, d_k), random(batch, heads, n, d_k), random(batch, heads, n, d_v)
    allowed = random(batch, m, n) > 0
    allowed[..., 0] = True  # no empty row, and ...
    allowed[..., 1] = False  # ... none either when it is turned around ...
    allowed[0, 2] = False  # ... but for this one
    return query, key, value, allowed


def _attention(weigh: Weigh = masked_softmax) -> Callable[..., Tensor]:
    """Return an answer that makes its weights from scaled scores and the mask (batch, 1, m, n)."""

    def answer(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Tensor:
        return weigh(query @ key.mT / math.sqrt(key.size(-1)), allowed[:, None]) @ value

    return answer


def _in_half_precision(answer: Callable[..., Any]) -> str | None:
    *inputs, allowed = _inputs_of_attention(2, 3)
    try:
        result = call(answer, *(x.half() for x in inputs), allowed)
    except Mistake as mistake:
        return HALF_FILL if "overflow" in str(mistake) else f"right in float64, but with float16 {mistake}"
    right = same(result.double(), _attention()(*inputs, allowed), 0.05)
    return None if right else "right in float64, but with float16 the output holds NaN, or is wrong"


REPAIRED_ATTENTION = Exercise(
    prompt="Masked attention whose mask is (batch, m, n); with as many heads as texts, and with more.",
    right=_attention(),
    returns=tensor("(batch, heads, m, d_v)", finite=False),
    cases=[Case(_inputs_of_attention(3, 3)), Case(_inputs_of_attention(2, 3))],
    in_evaluation=True,
    wrong_answers=[
        WrongAnswer(
            "your mask is the wrong way round: masked_fill fills where its mask is True, so only masked keys are left",
            _attention(lambda scores, mask: masked_softmax(scores, ~mask)),
            mistake=7,
        ),
        WrongAnswer(
            "the mask's first axis meets the heads: (batch, m, n) broadcasts to (1, heads, m, n), which only runs "
            "because there are as many heads as texts; write allowed[:, None]",
            _attention(lambda scores, mask: masked_softmax(scores, mask.transpose(0, 1))),
            mistake=15,
        ),
        WrongAnswer(EQUAL_ROWS, _attention(_filled(-1e9)), mistake=13),
        WrongAnswer(NAN_ROWS, _attention(_filled(-math.inf)), mistake=11),
        WrongAnswer(HALF_FILL, _attention(lambda scores, mask: _filled(-1e9)(scores, mask) * mask), mistake=13),
        WrongAnswer(NAN_GRADIENTS, lambda *inputs: _attention(_filled(-math.inf))(*inputs).nan_to_num(), mistake=11),
        WrongAnswer(AFTER_SOFTMAX, _attention(lambda scores, mask: scores.softmax(-1) * mask), mistake=6),
        WrongAnswer(IN_EVALUATION, _attention(_trained), mistake=14),
    ],
    extra_checks=[partial(_gradients, right=_attention(), inputs=_inputs_of_attention(2, 3)), _in_half_precision],
)

# A test that finds leaks

Model = Callable[[Tensor], Tensor]
LeakTest = Callable[[Model, Tensor], Any]


def _changing(
    look: Callable[[Tensor, int], Any], change: Callable[[Tensor], Tensor] = lambda x: random(*x.shape), first: int = 1
) -> LeakTest:
    """Return a test that changes one position j (batch, d) at a time, and looks at the outputs' difference."""

    def test(model: Model, x: Tensor) -> bool:
        for j in range(first % x.size(1), x.size(1)):
            changed = x.clone()
            changed[:, j] = change(changed[:, j])
            if look((model(changed) - model(x)).detach().abs(), j):
                return True
        return False

    return test


def _differ_before(difference: Tensor, j: int) -> bool:
    return bool((difference[:, :j] > 1e-9).any())


def _attend(x: Tensor, mask: Tensor | None) -> Tensor:
    return masked_softmax(x @ x.mT / math.sqrt(x.size(-1)), mask) @ x


def _leak(to: int, of: int) -> Model:
    """A running sum, to which one position adds the input of another."""
    return lambda x: x.cumsum(dim=1) + torch.nn.functional.one_hot(torch.tensor(to), x.size(1))[:, None] * x[:, [of]]


# What is said of a test that gets a model wrong; the model; a test that gets it wrong
LEAKY: dict[str, tuple[Model, LeakTest]] = {
    "your function finds no leak in attention without a mask; change a later position and compare what came before": (
        lambda x: _attend(x, None),
        lambda model, x: False,
    ),
    "it misses a leak that passes through detach(), which gradients do not see; change the input and compare": (
        lambda x: x.cumsum(dim=1) + x.sum(dim=1, keepdim=True).detach(),
        lambda model, x: torch.autograd.functional.jacobian(model, x).abs().sum((0, 2, 3, 5)).triu(1).any(),
    ),
    "it misses a causal mask that is one diagonal too wide; compare all outputs before the changed position": (
        lambda x: _attend(x, torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril(1)),
        _changing(lambda difference, j: _differ_before(difference, j - 1)),
    ),
    "it misses a leak that goes only from the last position to the first; compare all outputs before the changed "
    "position, and return False only after the last": (
        _leak(0, -1),
        _changing(lambda difference, j: (difference[:, j - 1] > 1e-9).any()),
    ),
    "it misses a leak between two positions in the middle; change each position in turn and look at all before it": (
        _leak(4, 5),
        _changing(_differ_before, first=-1),
    ),
    "it misses a model that normalises its inputs first (layer normalisation) and has no mask: a number added to "
    "all features of a position is taken out again; put random numbers there": (
        lambda x: x + _attend(torch.nn.functional.layer_norm(x, x.shape[-1:]), None),
        _changing(_differ_before, lambda x: x + 1.0),
    ),
}
HONEST: dict[str, tuple[Model, LeakTest]] = {
    "your function finds a leak even in a shift to the right, which only looks back; return False if nothing "
    "before the changed position differs": (
        lambda x: torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1),
        lambda model, x: True,
    ),
    "it calls a running sum leaky; position j may depend on inputs up to j, so only outputs before the changed "
    "position count": (
        lambda x: x.cumsum(dim=1),
        _changing(lambda difference, j: _differ_before(difference, j + 1)),
    ),
    "it calls attention with a causal mask leaky, and no simpler model; put in ordinary numbers (0 times NaN is "
    "NaN), and allow for rounding": (
        lambda x: _attend(x, causal_mask(x.size(1))),
        _changing(lambda difference, j: difference[:, :j].isnan().any(), lambda x: x * math.nan),
    ),
}


def _judge_models(answer: Callable[..., Any]) -> int:
    """Return how many models the answer judges rightly: all, or it is told about the first that it does not."""
    for message, (model, _) in (LEAKY | HONEST).items():
        verdict = call(answer, model, random(2, 7, 5))
        if verdict not in (True, False):
            raise Mistake(f"return True or False; got {type(verdict).__name__}")
        if verdict != (message in LEAKY):
            raise Mistake(message)
    return len(LEAKY | HONEST)


FINDS_LEAKS = Exercise(
    prompt="A function that tells models in which a position sees the future from those in which none does.",
    right=lambda model, x: bool(find_influence(model, x).triu(1).any()),
    returns=number("the number of models"),
    call=_judge_models,
    wrong_answers=[WrongAnswer(message, test) for message, (_, test) in (LEAKY | HONEST).items()],
)
