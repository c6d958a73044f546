"""The exercises of chapter 5."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..functional import masked_softmax
from ..masks import causal_mask
from .parse import mask, numbers, random, same, tensor
from .runner import Mistake, call
from .table import Case, Exercise, WrongAnswer, quick_question

Masking = Callable[[Tensor, int], Tensor]  # token ids (batch, n), the padding's id -> a mask

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
        1 / 3: "that would be so if all three scores were equal; the score of cat is 2.83",
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
        (3, 2, 5, 6): "the batch comes before the heads",
    },
)

KEYS_OF_A_NEW_WORD = quick_question(
    "Keys of 3 words are in the cache, and 2 new words go in together. How many keys may the first new word see?",
    4,
    {
        1: "that is the mask aligned at the upper left, as if the cache came after the new words",
        3: "it may see itself too",
        5: "the fifth key is that of the second new word, which comes later",
        2: "the three words in the cache come before it: it may see them, and itself",
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


def _queries(ids: Tensor, pad: int) -> Tensor:
    return (ids != pad)[:, None, :, None]


def _first_positions(ids: Tensor, pad: int) -> Tensor:
    lengths = (ids != pad).sum(dim=1, keepdim=True)
    return (torch.arange(ids.size(1)) < lengths)[:, None, None, :]


MISREAD: dict[str, Masking] = {  # what people take for the padding mask (batch, 1, 1, n)
    "you compared with 0; the padding's id is an argument, and 0 may be a token": lambda ids, pad: _keys(ids, 0),
    "you compared with > ; a token's id may be smaller than the padding's: use !=": (
        lambda ids, pad: (ids > pad)[:, None, None, :]
    ),
    "you compared with < ; a token's id may be larger than the padding's: use !=": (
        lambda ids, pad: (ids < pad)[:, None, None, :]
    ),
    "you counted the tokens and allowed the first positions; padding may also stand on the left": _first_positions,
    "every text got the padding of the first text": lambda ids, pad: _keys(ids[:1], pad).repeat(len(ids), 1, 1, 1),
}

PADDING_FROM_IDS = Exercise(
    prompt="The padding mask (batch, 1, 1, n) of ids (batch, n).",
    right=_keys,
    returns=mask("(batch, 1, 1, n)"),
    cases=IDS,
    wrong_answers=[
        WrongAnswer(
            lambda ids, pad: (
                f"two axes are missing, for the heads and the queries: {tuple(ids.shape)} must become "
                f"{(len(ids), 1, 1, ids.size(1))}"
            ),
            lambda ids, pad: ids != pad,
        ),
        WrongAnswer(
            "this masks queries: the positions stand on the axis of the queries; they belong on the last axis", _queries
        ),
        WrongAnswer(
            "you masked the padding as queries too: those rows may see no key and become NaN; mask it as keys only, "
            "(batch, 1, 1, n)",
            lambda ids, pad: _keys(ids, pad) & _queries(ids, pad),
            mistake=12,
        ),
        WrongAnswer(
            "right, but written out for every query; leave the queries' axis at size 1, it broadcasts",
            lambda ids, pad: _keys(ids, pad).expand(-1, 1, ids.size(1), -1),
        ),
        WrongAnswer(WRONG_WAY_ROUND, lambda ids, pad: ~_keys(ids, pad), mistake=7),
        *(WrongAnswer(words, answer) for words, answer in MISREAD.items()),
        WrongAnswer("your mask hides nothing", lambda ids, pad: torch.ones_like(_keys(ids, pad))),
        WrongAnswer("the mask holds the numbers 0 and 1", lambda ids, pad: _keys(ids, pad).double()),
        WrongAnswer(
            "that is a float mask of 0 and minus infinity",
            lambda ids, pad: torch.where(_keys(ids, pad), 0.0, -math.inf),
        ),
    ],
)

CAUSAL = Exercise(
    prompt="The causal mask (m, n), aligned lower right.",
    right=lambda m, n: _ones(m, n).tril(n - m),
    returns=mask("(m, n)"),
    cases=[Case((m, n), f"{{found}} (here m={m}, n={n})") for m, n in ((5, 7), (5, 5), (7, 3), (1, 5))],
    in_evaluation=True,
    wrong_answers=[
        WrongAnswer(
            "queries and keys are swapped: the mask has a row for each query and a column for each key, (m, n)",
            lambda m, n: causal_mask(n, m),
        ),
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
        WrongAnswer(
            "the shift has the wrong sign: query i stands at position i + (n - m)", lambda m, n: _ones(m, n).tril(m - n)
        ),
        WrongAnswer("True where blocked, and aligned upper left: two faults at once", lambda m, n: ~_ones(m, n).tril()),
        WrongAnswer(
            "you allowed keys to queries that come before all keys; these must see nothing",
            lambda m, n: causal_mask(m, n) | ~causal_mask(m, n).any(dim=-1, keepdim=True),
        ),
        WrongAnswer("your mask hides nothing", _ones, mistake=14),
        WrongAnswer("your mask hides everything", lambda m, n: ~_ones(m, n)),
        WrongAnswer("the mask holds the numbers 0 and 1", lambda m, n: torch.ones(m, n).tril(n - m)),
        WrongAnswer(
            "right in training, but not in evaluation (torch.no_grad() and eval()): your mask hides nothing",
            lambda m, n: causal_mask(m, n) if torch.is_grad_enabled() else _ones(m, n),
            mistake=14,
        ),
    ],
)


def _decoder_mask(keys: Masking = _keys, past: Callable[[int], Tensor] = causal_mask) -> Masking:
    """Return an answer that joins a mask of padding and one of the future."""
    return lambda ids, pad: keys(ids, pad) & past(ids.size(1))


DECODER_MASK = Exercise(
    prompt="The mask of a decoder's self-attention, (batch, 1, n, n), from ids (batch, n).",
    right=_decoder_mask(),
    returns=mask("(batch, 1, n, n)"),
    cases=IDS,
    in_evaluation=True,
    wrong_answers=[
        WrongAnswer(
            "the axis of the heads is missing: (batch, n, n) would be read as (heads, n, n); put in an axis of 1",
            lambda ids, pad: _decoder_mask()(ids, pad)[:, 0],
        ),
        WrongAnswer(
            "the mask must differ from text to text: the padding does not stand at the same places",
            lambda ids, pad: causal_mask(ids.size(1)),
        ),
        WrongAnswer(WRONG_WAY_ROUND, lambda ids, pad: ~_decoder_mask()(ids, pad), mistake=7),
        WrongAnswer(
            "you joined the two by OR; a key must be allowed under both: AND",
            lambda ids, pad: _keys(ids, pad) | causal_mask(ids.size(1)),
        ),
        WrongAnswer(
            "the future is visible: the causal mask is missing", _decoder_mask(past=lambda n: _ones(n, n)), mistake=14
        ),
        WrongAnswer(
            "padding is visible: the padding mask is missing",
            _decoder_mask(lambda ids, pad: torch.ones_like(_keys(ids, pad))),
        ),
        WrongAnswer(
            "you masked the padding as queries too; that leaves rows that may see no key",
            _decoder_mask(lambda ids, pad: _keys(ids, pad) & _queries(ids, pad)),
            mistake=12,
        ),
        WrongAnswer("you masked the padding's queries in place of its keys", _decoder_mask(_queries)),
        WrongAnswer(
            "the padding mask is the wrong way round: only padding is visible",
            _decoder_mask(lambda ids, pad: ~_keys(ids, pad)),
            mistake=7,
        ),
        WrongAnswer(
            "the causal mask is the wrong way round: only the future is visible",
            _decoder_mask(past=lambda n: ~causal_mask(n)),
            mistake=7,
        ),
        WrongAnswer(
            "you kept the upper triangle: each query sees itself and the future",
            _decoder_mask(past=lambda n: causal_mask(n).mT),
        ),
        WrongAnswer(
            "off by one: each query sees one key of the future",
            _decoder_mask(past=lambda n: _ones(n, n).tril(1)),
            mistake=14,
        ),
        WrongAnswer(
            "off by one: a query does not see its own position", _decoder_mask(past=lambda n: _ones(n, n).tril(-1))
        ),
        WrongAnswer(
            "queries and keys are swapped: a row is a query, a column a key",
            lambda ids, pad: _decoder_mask()(ids, pad).mT,
        ),
        WrongAnswer(
            "you allowed the diagonal again; padding is no key, not even for itself",
            lambda ids, pad: _decoder_mask()(ids, pad) | torch.eye(ids.size(1)).bool(),
        ),
        WrongAnswer(
            "you filled the rows that may see no key; leave them empty, since the softmax has to settle them",
            lambda ids, pad: _decoder_mask()(ids, pad) | ~_decoder_mask()(ids, pad).any(dim=-1, keepdim=True),
        ),
        *(WrongAnswer(words, _decoder_mask(answer)) for words, answer in MISREAD.items()),
        WrongAnswer(
            "right in training, but not in evaluation (torch.no_grad() and eval()): the future is visible",
            lambda ids, pad: _decoder_mask(past=causal_mask if torch.is_grad_enabled() else lambda n: _ones(n, n))(
                ids, pad
            ),
            mistake=14,
        ),
    ],
)


def _apart(blocked: Tensor, heads: int) -> Tensor:
    return blocked.unflatten(0, (-1, heads))


def _apart_in_turn(blocked: Tensor, heads: int) -> Tensor:
    return blocked.unflatten(0, (heads, -1)).transpose(0, 1)


FROM_TORCHS_MODULE = Exercise(
    prompt="A mask (batch * heads, m, n) of torch's module, True = blocked, as (batch, heads, m, n), True = may attend.",
    right=lambda blocked, heads: ~_apart(blocked, heads),
    returns=mask("(batch, heads, m, n)"),
    cases=[Case((random(6, 5, 7) > 0, 2)), Case((random(6, 7, 5) > 0, 3)), Case((random(4, 3, 3) > 0, 4))],
    wrong_answers=[
        WrongAnswer("batch and heads still share one axis: give them one each", lambda blocked, heads: ~blocked),
        WrongAnswer(
            "the axis of the heads is missing; each head may have a mask of its own",
            lambda blocked, heads: ~blocked[::heads],
        ),
        WrongAnswer(
            "batch comes before heads: the first two axes are the wrong way round",
            lambda blocked, heads: ~_apart(blocked, heads).transpose(0, 1),
        ),
        WrongAnswer("not inverted: torch's module blocks where the mask is True", _apart, mistake=7),
        WrongAnswer(
            "the masks stand in the wrong order: all heads of the first text come first",
            lambda blocked, heads: ~_apart_in_turn(blocked, heads),
            mistake=10,
        ),
        WrongAnswer(
            "not inverted, and the masks stand in the wrong order: two faults at once", _apart_in_turn, mistake=10
        ),
        WrongAnswer(
            "all heads have the mask of the first; each may have one of its own",
            lambda blocked, heads: ~_apart(blocked, heads)[:, :1].expand(-1, heads, -1, -1),
        ),
        WrongAnswer(
            "that is a float mask of 0 and minus infinity",
            lambda blocked, heads: torch.where(_apart(blocked, heads), -math.inf, 0.0),
            mistake=8,
        ),
    ],
)

NAN_GRADIENTS = (
    "the gradients are NaN: zeros written over NaN do not stop it on the way back; "
    "allow the keys of empty rows before the softmax"
)
OVERFLOW = "right for small scores, but large ones overflow: exp(1000) is infinite; torch.softmax avoids it"
OUTSHONE = (
    "right as long as masked keys have moderate scores, but where one is 2000 above the allowed ones, the row is "
    "lost (0 / 0): mask the keys before the softmax, not after it"
)


def _inputs_of_softmax(empty: bool) -> Case:
    """Scores, and a mask with allowed and masked keys in every row and column, except for an empty row."""
    scores = (64 * random(2, 3, 5, 7)).round() / 64  # so that float32 can hold them + 2000
    mask = random(2, 1, 5, 7) > -0.5
    mask[..., 0] = True
    mask &= ~torch.eye(7, dtype=torch.bool).roll(1, dims=1)[:5]
    mask[0, 0, 3] &= not empty
    return Case((scores, mask))


def _filled(fill: float, axis: int = -1) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, mask: scores.masked_fill(~mask, fill).softmax(axis)


def _added(scores: Tensor, mask: Tensor) -> Tensor:
    return (scores + torch.where(mask, 0.0, -math.inf)).softmax(-1)


def _exponentials(scores: Tensor, mask: Tensor) -> Tensor:
    exps = scores.exp() * mask
    return exps / exps.sum(-1, keepdim=True).clamp(min=1e-300)


def _renormalised(scores: Tensor, mask: Tensor) -> Tensor:
    weights = scores.softmax(-1) * mask
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)


def _explain_leak(answer: Callable[..., Any]) -> str | None:
    scores, mask = _inputs_of_softmax(empty=False).inputs
    left = call(answer, scores, mask)[~mask.expand_as(scores)].max()
    return f"masked keys must get exactly 0; yours get up to {left:.1g}: use -torch.inf" if left > 0 else None


def _explain_gradient(answer: Callable[..., Any]) -> str | None:
    """The weights are right; are their gradients?"""
    scores, mask = _inputs_of_softmax(empty=True).inputs
    leaf, expected = (scores.clone().requires_grad_() for _ in range(2))
    towards = random(*scores.shape, seed=1)
    result = call(lambda _, mask: answer(leaf, mask), scores, mask)  # it would copy the leaf
    if not result.requires_grad:
        return "the weights are right, but no gradient gets through them: do not detach, and do not convert to lists"
    (got,) = torch.autograd.grad((result * towards).sum(), leaf)
    (right,) = torch.autograd.grad((masked_softmax(expected, mask) * towards).sum(), expected)
    if got.isnan().any():
        return f"the weights are right, but {NAN_GRADIENTS}"
    return None if same(got, right) else "the weights are right, but their gradients are not"


def _explain_extremes(answer: Callable[..., Any]) -> str | None:
    """The weights are right for these scores; are they for very large and very low ones, and for a single matrix?"""
    scores, mask = _inputs_of_softmax(empty=True).inputs
    other = {
        OVERFLOW: (scores + 2000, mask),
        OUTSHONE: (torch.where(mask, scores, scores + 2000), mask),
        "where the allowed scores are very low (-3e10 here), the masked keys win: your fill is a finite number; "
        "use -torch.inf": (torch.where(mask, -3e10, scores), mask),
        "right for four axes, but not for a single matrix (m, n); count the axes from the end: dim=-1": (
            scores[0, 0],
            mask[0, 0],
        ),
    }
    return next((words for words, hard in other.items() if not same(call(answer, *hard), masked_softmax(*hard))), None)


SURVIVING_SOFTMAX = Exercise(
    prompt="The masked softmax of scores (..., m, n), which gives zeros in rows that may see no key.",
    right=masked_softmax,
    returns=tensor("(..., m, n)", "the weights", finite=False),
    cases=[_inputs_of_softmax(empty=False), _inputs_of_softmax(empty=True)],
    in_evaluation=True,
    wrong_answers=[
        WrongAnswer("these are the scores, the softmax is missing", lambda scores, mask: scores),
        WrongAnswer(
            "these are the masked scores, the softmax is missing",
            lambda scores, mask: scores.masked_fill(~mask, -math.inf),
        ),
        WrongAnswer(
            "these are the scores with zeros at the masked keys; the softmax is missing",
            lambda scores, mask: scores * mask,
            mistake=6,
        ),
        WrongAnswer(
            "these are the logarithms of the weights (log_softmax); the softmax itself is asked for",
            lambda scores, mask: scores.masked_fill(~mask, -math.inf).log_softmax(-1),
        ),
        *(
            WrongAnswer(
                f"your softmax runs over {name}; it must run over the keys, along each row",
                _filled(-math.inf, axis),
                mistake=5,
            )
            for axis, name in ((2, "the queries (down the columns)"), (1, "the second axis"), (0, "the first axis"))
        ),
        WrongAnswer("came out as NaN", _filled(-math.inf), mistake=11),
        WrongAnswer("got equal weights: a large finite number", _filled(-1e9), mistake=13),
        WrongAnswer("masked keys got the score 0, and exp(0) is 1", _filled(1e-9), mistake=13),
        WrongAnswer(
            "you set the weights of masked keys to zero after the softmax",
            lambda scores, mask: scores.softmax(-1) * mask,
            mistake=6,
        ),
        WrongAnswer("your mask is the wrong way round", lambda scores, mask: masked_softmax(scores, ~mask), mistake=7),
        WrongAnswer("True counts as 1 and False as 0", lambda scores, mask: (scores + mask).softmax(-1), mistake=8),
        WrongAnswer(
            "you added the inverted boolean mask", lambda scores, mask: (scores + ~mask).softmax(-1), mistake=8
        ),
        WrongAnswer("your mask has no effect", lambda scores, mask: scores.softmax(-1)),
        WrongAnswer(
            "NaN everywhere: 0 times infinity",
            lambda scores, mask: (scores + ~mask * -math.inf).softmax(-1),
            mistake=11,
        ),
        WrongAnswer("the gradients are NaN", lambda scores, mask: _added(scores, mask).nan_to_num(), mistake=11),
        WrongAnswer(
            "where the allowed scores are very low", lambda scores, mask: _filled(-1e9)(scores, mask) * mask, mistake=13
        ),
        WrongAnswer("large ones overflow", _exponentials),
        WrongAnswer("where one is 2000 above the allowed ones", _renormalised, mistake=6),
        WrongAnswer("no gradient gets through", lambda scores, mask: masked_softmax(scores.detach(), mask)),
        WrongAnswer(
            "right in training, but not in evaluation",
            lambda scores, mask: masked_softmax(scores, mask if torch.is_grad_enabled() else None),
            mistake=14,
        ),
    ],
    extra_checks=[_explain_leak, _explain_gradient, _explain_extremes],
)


def _inputs_of_attention(batch: int, heads: int) -> Case:
    m, n, d_k, d_v = 5, 7, 11, 13
    query, key, value = random(batch, heads, m, d_k), random(batch, heads, n, d_k), random(batch, heads, n, d_v)
    allowed = random(batch, m, n) > 0
    allowed[..., 0] = True  # no empty row, and ...
    allowed[..., 1] = False  # ... none either when it is turned around ...
    allowed[0, 2] = False  # ... but for this one
    return Case((query, key, value, allowed))


Weigh = Callable[[Tensor, Tensor], Tensor]


def _attention(weigh: Weigh = masked_softmax, of: Callable[[Tensor], Tensor] = lambda allowed: allowed[:, None]) -> Any:
    """Return an answer that makes its weights from scaled scores and a mask `of` what is allowed."""

    def answer(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Tensor:
        return weigh(query @ key.mT / math.sqrt(key.size(-1)), of(allowed)) @ value

    return answer


def _turned(words: str, of: Callable[[Tensor], Tensor], mistake: int | None = None) -> WrongAnswer:
    return WrongAnswer(words, _attention(of=of), mistake)


def _explain_gradients(answer: Callable[..., Any]) -> str | None:
    *inputs, allowed = _inputs_of_attention(2, 3).inputs
    leaves = [x.clone().requires_grad_() for x in inputs]
    result = call(lambda _, allowed: answer(*leaves, allowed), 0, allowed)  # it would copy the leaves
    if not result.requires_grad:
        return "the output is right, but no gradient gets through it"
    gradients = torch.autograd.grad(result.sum(), leaves, allow_unused=True)
    if any(g is None or g.isnan().any() for g in gradients):
        return f"the output is right, but {NAN_GRADIENTS}"
    return None


def _explain_large(answer: Callable[..., Any]) -> str | None:
    """The answer is right for small scores; is it where all are 2000 higher, or those of key 1, masked for all?"""
    query, key, value, allowed = _inputs_of_attention(2, 3).inputs
    for diagnosis, loud in ((OVERFLOW, slice(None)), (OUTSHONE, 1)):
        query, key = query.clone(), key.clone()
        query[..., 0], key[..., 0] = 2000 * math.sqrt(key.size(-1)), 0.0
        key[..., loud, 0] = 1.0
        result = call(answer, query, key, value, allowed)
        if not same(result.double(), _attention()(query, key, value, allowed), 0.01):  # float32 has few digits left
            return diagnosis
    return None


def _explain_half(answer: Callable[..., Any]) -> str | None:
    """The answer is right in float64; is it in float16?"""
    *inputs, allowed = _inputs_of_attention(2, 3).inputs
    try:
        result = call(answer, *(x.half() for x in inputs), allowed)
    except Mistake as mistake:
        if "overflow" in str(mistake):
            return "right in float64, but your fill does not fit into float16 (up to 65504): use -torch.inf"
        return f"right in float64, but with float16 {mistake}"
    if not isinstance(result, Tensor) or result.isnan().any():
        return "right in float64, but with float16 the output holds NaN"
    if not same(result.double(), _attention()(*inputs, allowed), 0.05):
        return "right in float64, but with float16 the numbers are wrong"
    return None


REPAIRED_ATTENTION = Exercise(
    prompt="Masked attention whose mask is (batch, m, n); with as many heads as texts, and with more.",
    right=_attention(),
    returns=tensor("(batch, heads, m, d_v)", finite=False),
    cases=[_inputs_of_attention(3, 3), _inputs_of_attention(2, 3)],
    in_evaluation=True,
    wrong_answers=[
        _turned(
            "your mask is the wrong way round: masked_fill fills where its mask is True, so only masked keys are left",
            lambda allowed: ~allowed[:, None],
            mistake=7,
        ),
        _turned(
            "the mask's first axis meets the heads: (batch, m, n) broadcasts to (1, heads, m, n), which only runs "
            "because there are as many heads as texts; write allowed[:, None]",
            lambda allowed: allowed[None],
            mistake=15,
        ),
        _turned(
            "two faults at once: the mask is the wrong way round, and its first axis meets the heads",
            lambda allowed: ~allowed[None],
        ),
        WrongAnswer("averages all values: that is what a finite fill", _attention(_filled(-1e9)), mistake=13),
        WrongAnswer("a row that may see no key came out as NaN", _attention(_filled(-math.inf)), mistake=11),
        WrongAnswer(
            "your fill does not fit into float16",
            _attention(lambda scores, mask: _filled(-1e9)(scores, mask) * mask),
            mistake=13,
        ),
        WrongAnswer("the gradients are NaN", lambda *inputs: _attention(_added)(*inputs).nan_to_num(), mistake=11),
        WrongAnswer(
            "you did not scale them", lambda q, k, v, allowed: masked_softmax(q @ k.mT, allowed[:, None]) @ v, mistake=2
        ),
        WrongAnswer(
            "you set the weights of masked keys to zero after the softmax",
            _attention(lambda scores, mask: scores.softmax(-1) * mask),
            mistake=6,
        ),
        WrongAnswer("large ones overflow", _attention(_exponentials)),
        WrongAnswer("where one is 2000 above the allowed ones", _attention(_renormalised), mistake=6),
        WrongAnswer(
            "NaN everywhere: 0 times infinity",
            _attention(lambda scores, mask: (scores + ~mask * -math.inf).softmax(-1)),
            mistake=11,
        ),
        WrongAnswer("no gradient gets through", torch.no_grad()(_attention())),
        WrongAnswer(
            "you added a boolean mask to the scores",
            _attention(lambda scores, mask: (scores + mask).softmax(-1)),
            mistake=8,
        ),
        WrongAnswer(
            "right in training, but not in evaluation (torch.no_grad() and eval()): your mask has no effect",
            _attention(lambda scores, mask: masked_softmax(scores, mask if torch.is_grad_enabled() else None)),
            mistake=14,
        ),
    ],
    extra_checks=[_explain_gradients, _explain_large, _explain_half],
)

Model = Callable[[Tensor], Tensor]


def _attend(x: Tensor, mask: Tensor | None) -> Tensor:
    return masked_softmax(x @ x.mT / math.sqrt(x.size(-1)), mask) @ x


def _zero_after(x: Tensor) -> Tensor:
    return (x @ x.mT / math.sqrt(x.size(-1))).softmax(dim=-1) * causal_mask(x.size(1)) @ x


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
    "it misses a model that normalises its inputs first (layer normalisation) and has no mask: a number added to all "
    "features of a position is taken out again; put random numbers there": lambda x: (
        x + _attend(torch.nn.functional.layer_norm(x, x.shape[-1:]), None)
    ),
}


def _ask_for_verdicts(answer: Callable[..., Any]) -> list[bool]:
    """What the answer says about each model, the leaky ones first."""
    x = random(2, 7, 5)
    leaky = [_verdict(call(answer, model, x)) for model in LEAKY.values()]
    return leaky + [_verdict(call(_told(answer), model, x)) for model in HONEST.values()]


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


Look = Callable[[Tensor, int], Any]


def _all_features(x: Tensor) -> Tensor:
    return random(*x.shape)


def _looking(look: Look, change: Callable[[Tensor], Tensor] = _all_features) -> Callable[[Model, Tensor], bool]:
    """Return an answer that changes one position j (batch, d) at a time, and looks at the outputs' difference."""

    def answer(model: Model, x: Tensor) -> bool:
        for j in range(1, x.size(1)):
            changed = x.clone()
            changed[:, j] = change(changed[:, j])
            if look((model(changed) - model(x)).detach(), j):
                return True
        return False

    return answer


def _differ_before(difference: Tensor, j: int) -> bool:
    return bool((difference[:, :j].abs() > 1e-9).any())


def _by_gradients(model: Model, x: Tensor) -> bool:
    jacobian = torch.autograd.functional.jacobian(model, x)  # (batch, n, d, batch, n, d)
    return bool((jacobian.abs().sum(dim=(0, 2, 3, 5)).triu(1) > 0).any())


def _last_changed(model: Model, x: Tensor) -> bool:
    changed = x.clone()
    changed[:, -1] = _all_features(changed[:, -1])
    return _differ_before(model(changed) - model(x), x.size(1) - 1)


def _puts_in_nan(model: Model, x: Tensor) -> bool:
    at = torch.arange(x.size(1))[:, None]
    return any(bool(model(x.masked_fill(at == j, math.nan))[:, :j].isnan().any()) for j in range(1, x.size(1)))


FINDS_LEAKS = Exercise(
    prompt="A function that tells models in which a position sees the future from those in which none does.",
    right=_looking(_differ_before),
    returns=numbers("the verdicts", "there is one for each model"),
    call=_ask_for_verdicts,
    cases=[Case()],
    wrong_answers=[
        WrongAnswer(
            "your function finds no leak in any model, not even in attention without a mask", lambda model, x: False
        ),
        WrongAnswer(
            "your function finds a leak in every model, also in attention with a causal mask", lambda model, x: True
        ),
        WrongAnswer(
            "your function says True for the honest models and False for the leaky ones; turn it around",
            lambda model, x: not _looking(_differ_before)(model, x),
        ),
        WrongAnswer("it misses a leak that passes through detach()", _by_gradients),
        WrongAnswer("it misses a leak between two positions in the middle", _last_changed),
        WrongAnswer(
            "only from the last position to the first", _looking(lambda d, j: (d[:, j - 1].abs() > 1e-9).any())
        ),
        WrongAnswer("it misses a weak leak", _looking(lambda d, j: (d[:, :j].abs() > 1e-2).any())),
        WrongAnswer("it calls a running sum leaky", _looking(lambda d, j: (d[:, : j + 1].abs() > 1e-9).any())),
        WrongAnswer("it calls attention with a causal mask leaky", _puts_in_nan),
        WrongAnswer("normalises its inputs first", _looking(_differ_before, lambda x: x + 1.0)),
        WrongAnswer("through one of the d features", _looking(_differ_before, lambda x: x + torch.eye(x.size(1))[0])),
        WrongAnswer("whose differences cancel in a sum", _looking(lambda d, j: d[:, :j].sum() > 1e-9)),
        WrongAnswer("one diagonal too wide", _looking(lambda d, j: (d[:, : j - 1].abs() > 1e-9).any())),
    ],
)
