"""The exercises of chapter 7."""

import functools
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..data.translation import draw_sentences, encode_english, encode_italian
from ..layers import MultiHeadAttention
from ..models.patients import FAULTS, Patient, exchange, translators_with
from ..models.transformer import BEGIN, PAD, Transformer
from .reading import explain_weights
from .results import mask, number, numbers, random, same_shape, tensor
from .running import Mistake, call
from .table import Case, Exercise, Read, Slip

# ---- decoder_input --------------------------------------------------------------------------------------------------


def _begun(target: Tensor, begin: int) -> Tensor:
    return torch.cat([torch.full_like(target[:, :1], begin), target[:, :-1]], dim=1)


DECODER_INPUT = Exercise(
    name="decoder_input",
    asks="What a decoder reads in training: the target (batch, m) moved by one, with an id before it.",
    right=_begun,
    returns=tensor("(batch, m)", "the ids"),
    rounding=False,
    cases=[
        Case((torch.tensor([[5, 7, 4, 2, 0], [6, 8, 9, 3, 2]]), 1)),
        Case((torch.tensor([[3, 9, 2], [4, 2, 0]]), 11)),
    ],
    slips=[
        Slip(
            "that is the target itself: at each position the decoder would read the very word it must say",
            lambda target, begin: target,
            mistake=14,
        ),
        Slip(
            "nothing was dropped: with an id before it the target is one too long; leave its last id out",
            lambda target, begin: torch.cat([torch.full_like(target[:, :1], begin), target], dim=1),
            like=same_shape,
        ),
        Slip(
            "you moved the other way: the decoder would read the word after the one it must say",
            lambda target, begin: torch.cat([target[:, 1:], torch.full_like(target[:, :1], begin)], dim=1),
        ),
        Slip(
            "moved round: the last id came back to the front; put the id `begin` there",
            lambda target, begin: target.roll(1, 1),
        ),
        Slip(
            "0 stands before the target, which is padding; put the id `begin` there",
            lambda target, begin: _begun(target, 0),
        ),
        Slip(
            "nothing was moved: `begin` took the place of the first word",
            lambda target, begin: torch.cat([torch.full_like(target[:, :1], begin), target[:, 1:]], dim=1),
        ),
    ],
)

# ---- cached_numbers -------------------------------------------------------------------------------------------------

CACHED_NUMBERS = Exercise(
    name="cached_numbers",
    asks="How many numbers a decoder keeps for a source of n positions and m words written.",
    right=lambda layers, d_model, n, m: layers * 2 * d_model * (n + m),
    returns=number("the count"),
    rounding=False,
    cases=[Case((1, 64, 7, 3)), Case((6, 512, 11, 5)), Case((2, 48, 9, 0))],
    slips=[
        Slip("keys and values are kept, two vectors a position", lambda a, d, n, m: a * d * (n + m)),
        Slip("every layer keeps its own", lambda a, d, n, m: 2 * d * (n + m)),
        Slip("the keys and values of the source are kept too, n positions", lambda a, d, n, m: a * 2 * d * m),
        Slip(
            "the keys and values of the words written are kept too, m positions, and change with each step",
            lambda a, d, n, m: a * 2 * d * n,
        ),
        Slip("queries are not kept: nobody asks again", lambda a, d, n, m: a * d * (2 * n + 3 * m)),
        Slip(
            "weights (m, n) are not kept; keys and values are vectors of d_model numbers, n + m of each",
            lambda a, d, n, m: a * 2 * d * n * m,
        ),
    ],
)

# ---- cross_weights --------------------------------------------------------------------------------------------------


def _cross_scores(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor) -> Tensor:
    return (x @ w_q) @ (memory @ w_k).mT


def _weights(
    scores: Callable[..., Tensor] = _cross_scores, dim: int = -1, power: float = 0.5
) -> Callable[..., Tensor]:  # fmt: skip
    return lambda x, memory, w_q, w_k: torch.softmax(scores(x, memory, w_q, w_k) / w_k.size(1) ** power, dim=dim)


def _explain_cross(given: Tensor, right: Tensor, x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor) -> str | None:
    scores = _cross_scores(x, memory, w_q, w_k)
    sizes = {"batch": x.size(0), "m": x.size(1), "n": memory.size(1), "d": x.size(2), "d_k": w_k.size(1)}
    return explain_weights(given, scores, sizes=sizes)


CROSS_WEIGHTS = Exercise(
    name="cross_weights",
    asks="The weights of cross-attention, (batch, m, n), one head without a mask.",
    right=_weights(),
    returns=tensor("(batch, m, n)", "the weights"),
    cases=[Case((random(2, 5, 11), random(2, 7, 11, seed=1), random(11, 3, seed=2), random(11, 3, seed=3)))],
    slips=[
        Slip(
            "the source asked and the target answered: queries come from x, keys from memory",
            _weights(lambda x, memory, w_q, w_k: _cross_scores(memory, x, w_q, w_k)),
            like=same_shape,
        ),
        Slip(
            "that is self-attention of the target: keys come from memory",
            _weights(lambda x, memory, w_q, w_k: _cross_scores(x, x, w_q, w_k)),
            like=same_shape,
        ),
        Slip(
            "that is self-attention of the source: queries come from x",
            _weights(lambda x, memory, w_q, w_k: _cross_scores(memory, memory, w_q, w_k)),
            like=same_shape,
        ),
        Slip(
            "w_q and w_k are exchanged: w_q makes the queries, of x",
            _weights(lambda x, memory, w_q, w_k: _cross_scores(x, memory, w_k, w_q)),
        ),
        Read("your softmax runs over the queries", _weights(dim=-2), mistake=5),
        Read("you did not scale", _weights(power=0), mistake=2),
        Read("you divided by d_k", _weights(power=1), mistake=3),
    ],
    explain=_explain_cross,
)

# ---- feed_forward_step ----------------------------------------------------------------------------------------------


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


FEED_FORWARD_STEP = Exercise(
    name="feed_forward_step",
    asks="A feed-forward step on the residual path, with the norm first.",
    right=lambda x, w_1, w_2: x + (_norm(x) @ w_1).relu() @ w_2,
    returns=tensor("(batch, n, d)"),
    cases=[Case((random(2, 3, 5), random(5, 7, seed=1), random(7, 5, seed=2)))],
    slips=[
        Slip(
            "the path is missing: x must be added to what the step gives", lambda x, a, b: (_norm(x) @ a).relu() @ b
        ),
        Slip("the norm is missing: the step reads norm(x)", lambda x, a, b: x + (x @ a).relu() @ b),
        Slip(
            "that is the norm last, as in the paper; here the step reads norm(x), and the sum is left as it is",
            lambda x, a, b: _norm(x + (x @ a).relu() @ b),
        ),
        Slip(
            "you normalised the path too: what goes past the step is x itself",
            lambda x, a, b: _norm(x) + (_norm(x) @ a).relu() @ b,
        ),
        Slip("the ReLU is missing: without it the two matrices are one", lambda x, a, b: x + _norm(x) @ a @ b),
        Slip(
            "the ReLU stands behind the second matrix; it belongs between",
            lambda x, a, b: x + (_norm(x) @ a @ b).relu(),
        ),
        Slip("you normalised the sum as well", lambda x, a, b: _norm(x + (_norm(x) @ a).relu() @ b)),
    ],
)  # fmt: skip

# ---- share_right ----------------------------------------------------------------------------------------------------


def _cut(ids: Tensor) -> Tensor:
    ended_before = (ids == 2).cumsum(dim=1) - (ids == 2).long() > 0
    return ids.masked_fill(ended_before, 0)


SHARE_RIGHT = Exercise(
    name="share_right",
    asks="The share of sentences written right up to their end, the id 2.",
    right=lambda written, asked: (_cut(written) == _cut(asked)).all(dim=1).double().mean().item(),
    returns=number("the share"),
    cases=[
        Case(
            (
                torch.tensor([[5, 7, 2, 9, 9], [4, 6, 8, 2, 0], [5, 2, 0, 0, 0]]),
                torch.tensor([[5, 7, 2, 0, 0], [4, 6, 8, 2, 7], [4, 2, 0, 0, 0]]),
            )
        ),
        Case(
            (
                torch.tensor([[5, 7, 4, 2], [6, 2, 0, 0], [6, 6, 8, 2]]),
                torch.tensor([[5, 7, 4, 3], [6, 2, 0, 3], [9, 6, 8, 2]]),
            )
        ),
    ],
    slips=[
        Slip(
            "you compared what stands behind the end too; it does not count",
            lambda written, asked: (written == asked).all(dim=1).double().mean().item(),
        ),
        Slip(
            "that is the share of ids; a sentence with one wrong id is wrong",
            lambda written, asked: (written == asked).double().mean().item(),
        ),
        Slip(
            "that is the share of ids up to the ends; a sentence with one wrong id is wrong",
            lambda written, asked: (_cut(written) == _cut(asked)).double().mean().item(),
        ),
        Slip(
            "one id that is right is not enough: all must be",
            lambda written, asked: (_cut(written) == _cut(asked)).any(dim=1).double().mean().item(),
        ),
        Slip(
            "that counts the right sentences; divide by their number",
            lambda written, asked: (_cut(written) == _cut(asked)).all(dim=1).double().sum().item(),
        ),
        Slip(
            "only the first ids were compared",
            lambda written, asked: (written[:, 0] == asked[:, 0]).double().mean().item(),
        ),
    ],
)

# ---- closed_edge ----------------------------------------------------------------------------------------------------


def _marked(places: Tensor, size: int) -> Tensor:
    return torch.arange(size) == places[:, None]


def _explain_edges(given: Tensor, right: Tensor, *inputs: object) -> str:
    wrong = tuple((given != right).nonzero()[0].tolist())
    return f"{int((given != right).sum())} cells are not right; at {wrong}, counted from 0, it must be {right[wrong]}"


CLOSED_EDGE = Exercise(
    name="closed_edge",
    asks="A mask (batch, m, n) that hides one word from one position in each sentence.",
    right=lambda rows, columns, m, n: ~(_marked(rows, m)[:, :, None] & _marked(columns, n)[:, None, :]),
    returns=mask("(batch, m, n)"),
    cases=[Case((torch.tensor([1, 4, 0]), torch.tensor([5, 0, -1]), 5, 7))],
    slips=[
        Slip(
            "your mask is inverted: it is True where the edge is; here True means may attend",
            lambda rows, columns, m, n: _marked(rows, m)[:, :, None] & _marked(columns, n)[:, None, :],
            mistake=7,
        ),
        Slip(
            "rows and columns are exchanged: a row is a position that looks",
            lambda rows, columns, m, n: ~(_marked(columns, m)[:, :, None] & _marked(rows, n)[:, None, :]),
        ),
        Slip(
            "you masked the whole column: every position lost the word, not only the one in the row",
            lambda rows, columns, m, n: ~_marked(columns, n)[:, None, :].expand(-1, m, -1),
        ),
        Slip(
            "you masked the whole row: the position lost every word, and a row that sees nothing has no weights",
            lambda rows, columns, m, n: ~_marked(rows, m)[:, :, None].expand(-1, -1, n),
            mistake=11,
        ),
        Slip(
            "row and column are joined by OR: a whole row and a whole column are masked",
            lambda rows, columns, m, n: ~(_marked(rows, m)[:, :, None] | _marked(columns, n)[:, None, :]),
        ),
        Slip(
            "-1 masked the last column; it means that nothing is masked",
            lambda rows, columns, m, n: ~(_marked(rows, m)[:, :, None] & _marked(columns % n, n)[:, None, :]),
        ),
        Slip(
            "every sentence got the edge of the first",
            lambda rows, columns, m, n: ~(
                _marked(rows, m)[:1, :, None] & _marked(columns, n)[:1, None, :]
            ).expand(len(rows), -1, -1),
        ),
    ],
    explain=_explain_edges,
)  # fmt: skip

# ---- chrf_by_hand ---------------------------------------------------------------------------------------------------


def _pieces(text: str, order: int) -> Counter[str]:
    return Counter(text[i : i + order] for i in range(len(text) - order + 1))


def _chrf(
    written: str, asked: str, *, orders: int = 6, beta: float = 2.0, blanks: bool = False, each: bool = False,
    sets: bool = False,
) -> float:  # fmt: skip
    if not blanks:
        written, asked = written.replace(" ", ""), asked.replace(" ", "")
    found: list[tuple[float, float]] = []
    for order in range(1, orders + 1):
        ours, theirs = _pieces(written, order), _pieces(asked, order)
        if sets:
            ours, theirs = Counter(set(ours)), Counter(set(theirs))
        if ours and theirs:
            both = (ours & theirs).total()
            found.append((both / ours.total(), both / theirs.total()))
    if each:
        return 100 * sum(_f(p, r, beta) for p, r in found) / len(found)
    return 100 * _f(sum(p for p, _ in found) / len(found), sum(r for _, r in found) / len(found), beta)


def _f(precision: float, recall: float, beta: float) -> float:
    below = beta**2 * precision + recall
    return (1 + beta**2) * precision * recall / below if below else 0.0


CHRF_BY_HAND = Exercise(
    name="chrf_by_hand",
    asks="The chrF of a written text against the reference, from 0 to 100.",
    right=_chrf,
    returns=number("the score"),
    cases=[
        Case(("la rete è stato provato", "la rete è stata provata")),
        Case(("la legge della scuola verrà lodata", "la mappa verrà lodata nel 2030")),
        Case(("lode", "la lode del lodo"), "right for longer texts, but not where one is shorter than six characters"),
        Case(("zzz", "aaa"), "right, but not where two texts have nothing in common: {found}"),
    ],
    slips=[
        Slip("precision and recall weigh the same in yours; beta is 2", lambda w, a: _chrf(w, a, beta=1)),
        Slip(
            "precision counts more in yours, or the texts are exchanged: recall, of the reference, must count more",
            lambda w, a: _chrf(w, a, beta=0.5),
        ),
        Slip("blanks count in yours; chrF removes them first", lambda w, a: _chrf(w, a, blanks=True)),
        Slip("yours stops at another length: pieces of 1 to 6 characters count", lambda w, a: _chrf(w, a, orders=4)),
        Slip(
            "you averaged the F-scores of the lengths; average the precisions and the recalls first",
            lambda w, a: _chrf(w, a, each=True),
        ),
        Slip(
            "a piece that occurs twice counts twice: count pieces, do not make sets of them",
            lambda w, a: _chrf(w, a, sets=True),
        ),
        Slip("that lies between 0 and 1; multiply by 100", lambda w, a: _chrf(w, a) / 100),
    ],
)

# ---- doctor ---------------------------------------------------------------------------------------------------------

_few = {"steps": 20, "batch_size": 16, "d_model": 16, "num_heads": 2}


def _second_layer_alone(network: Transformer) -> None:
    network.decoder[0].attention.__class__ = MultiHeadAttention


def _no_output_in_cross_attention(network: Transformer) -> None:
    network.decoder[0].cross_attention.w_o = torch.nn.Identity()  # type: ignore[union-attr]


# What a fresh translator has, what it is called, what is said of whoever calls it otherwise, and how it is made.
WARD: list[tuple[str, str, dict[str, Any]]] = [
    ("no shift", "a translator whose decoder reads the very word it must predict, though the network itself sees no "
     "later word: change a word of the *target* and compare what `step` predicts for that word", {}),
    ("mask too far", "a network that sees one word too far: change a word of what it *reads*, and compare the logits "
     "before it", {}),
    ("mask too far", "a leak that sits in the second of two decoder layers: compare the network's logits at "
     "every position before the changed one", {"decoder_layers": 2, "change": _second_layer_alone}),
    ("padding open", "a translator that sees padding: put zeros after the source, and nothing may change", {}),
    ("W^O missing", "a translator without W^O: silence one head, and see how many features of the attention's output "
     "move", {}),
    ("W^O missing", "a translator that lacks W^O in its cross-attention alone: look at every attention it has",
     {"fault": "healthy", "change": _no_output_in_cross_attention}),
    ("keys and values exchanged", "a translator that was spoilt after its training: compare its loss now with the end "
     "of its log, on sentences like those of training", {"steps": 80}),
    ("healthy", "a translator with nothing wrong", {"steps": 80}),
    ("healthy", "a translator that had only five steps of training; to have learned little is no fault in the code",
     {"steps": 5}),
    ("healthy", "a translator whose keys and values were exchanged *before* training, which is only a change of names",
     {"steps": 80, "change": exchange}),
]  # fmt: skip


@functools.cache
def _ward() -> list[Patient]:
    """Train the ward, once for all answers."""
    found = []
    for seed, (name, _, others) in enumerate(WARD):
        how = {"fault": name, "seeds": (70 + seed,), "batches": 70 + seed, **_few, **others}
        team = translators_with(how.pop("fault"), **how)  # who name each other by their faults
        found += [replace(patient, name=f"patient {seed}") for patient in team]
    return found


def _verdicts(answer: Callable[..., Any]) -> list[int]:
    found = []
    for patient in _ward():
        verdict = call(answer, replace(patient, network=deepcopy(patient.network)))  # who treats it, may
        if verdict not in FAULTS:
            raise Mistake(f"return one of {', '.join(map(repr, FAULTS))}; got {verdict!r}")
        found.append(FAULTS.index(verdict))
    return found


def _reach(attention: MultiHeadAttention) -> int:
    x = random(1, 5, attention.d_model)
    k, v = attention.project(x)
    quiet = torch.cat([torch.zeros_like(v[:, :1]), v[:, 1:]], dim=1)
    difference = attention.attend(x, k, v)[0] - attention.attend(x, k, quiet)[0]
    return int((difference.abs().amax(dim=(0, 1)) > 1e-9).sum())


@torch.no_grad()
def _examine(patient: Patient, *, skip: str = "", at: int = 4, worst: float = 0.35) -> str:
    """Examine a patient by every instrument but one."""
    drawn = draw_sentences(24, generator=torch.Generator().manual_seed(41))
    source = encode_english([each.english for each in drawn])
    target = encode_italian([each.italian for each in drawn])
    read = patient.reads(target, BEGIN)
    said = patient.network(source, read)[0]
    if skip != "padding" and not torch.allclose(patient.network(F.pad(source, (0, 9)), read)[0], said, atol=1e-8):
        return "padding open"
    for place in range(1, at + 1):
        later = read.clone()
        later[:, place:] = target.roll(1, 0)[:, place:]
        differs = (patient.network(source, later)[0] - said)[:, :place].abs().amax() > 1e-9
        if skip != "network" and differs:
            return "mask too far"
        others = target.clone()
        others[:, place:] = target.roll(1, 0)[:, place:]
        differs = (patient.step(source, others) - patient.step(source, target))[:, : place + 1].abs().amax() > 1e-9
        if skip != "step" and differs:
            return "no shift"
    attentions = [module for module in patient.network.modules() if isinstance(module, MultiHeadAttention)]
    reached = [_reach(attention) < attention.d_model for attention in attentions]
    if skip != "heads" and (any(reached) if skip != "cross" else reached[0]):
        return "W^O missing"
    loss = F.cross_entropy(said.flatten(0, 1), target.flatten(), ignore_index=PAD).item()
    if skip != "log" and loss > (worst if skip == "loss" else patient.losses[-5:].mean().item() + worst):
        return "keys and values exchanged"
    return "healthy"


def _explain_doctor(given: Tensor, right: Any) -> str:
    first = int((given != torch.tensor(right)).nonzero()[0, 0])
    return f"it says {FAULTS[int(given[first])]!r} of {WARD[first][1]}"


def _prepared(answer: Any) -> None:
    _ward()  # its training is no part of an answer's time


DOCTOR = Exercise(
    name="doctor",
    asks="A function that says what is wrong with a translator, or that nothing is.",
    right=_examine,
    returns=numbers("the verdicts", "there is one for each patient"),
    ask=_verdicts,
    rounding=False,
    slips=[
        Slip("your function calls every translator healthy", lambda patient: "healthy"),
        Read("whose decoder reads the very word it must predict", lambda patient: _examine(patient, skip="step")),
        Read("a network that sees one word too far", lambda patient: _examine(patient, skip="network")),
        Read("that sees padding", lambda patient: _examine(patient, skip="padding")),
        Read("a translator without W^O", lambda patient: _examine(patient, skip="heads")),
        Read("lacks W^O in its cross-attention alone", lambda patient: _examine(patient, skip="cross")),
        Read("spoilt after its training", lambda patient: _examine(patient, skip="log")),
        Read("a translator with nothing wrong", lambda patient: _examine(patient, skip="loss")),
    ],
    explain=_explain_doctor,
    further=[_prepared],
)
