"""The exercises of chapter 7."""

import functools
import math
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
from ..models.faulty import FAULTS, FaultyModel, swap_keys_and_values, train_faulty
from ..models.transformer import BEGIN, PAD, Transformer
from .parse import mask, number, numbers, random, tensor
from .runner import Mistake, call
from .table import Case, Exercise, WrongAnswer, quick_question

LENGTH_OF_A_PLACE = quick_question(
    "A position vector has 64 features: 32 pairs of a sine and a cosine of one angle. How long is it?",
    32**0.5,
    {
        8: "that would be so if each of the 64 features were 1; a sine and a cosine of one angle together give 1",
        32: "that is the squared length; take the root",
        64: "that is the number of features; the squares of each pair sum to 1",
        1: "that is the length of one pair; there are 32 of them",
        2**0.5: "each sine is at most 1, but a pair has the length 1, and there are 32 pairs",
    },
)


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _some_part(x: Tensor) -> Tensor:
    return (x @ random(5, 7, seed=1)).relu() @ random(7, 5, seed=2)


NORM_LAST = Exercise(
    prompt="A step on the residual path, with the norm last.",
    right=lambda x, norm, f: norm(x + f(x)),
    returns=tensor("(batch, n, d)"),
    cases=[Case((random(2, 3, 5), _norm, _some_part))],
    wrong_answers=[
        WrongAnswer(
            "that is the norm first, as in `step`; apply the norm to the sum", lambda x, norm, f: x + f(norm(x))
        ),
        WrongAnswer("the path is missing: x must be added to what f gives", lambda x, norm, f: norm(f(x))),
        WrongAnswer("x is added after the norm; apply the norm to the sum", lambda x, norm, f: x + norm(f(x))),
        WrongAnswer("the norm is missing", lambda x, norm, f: x + f(x)),
        WrongAnswer(
            "in yours f reads the normalised x; it must read x itself", lambda x, norm, f: norm(x + f(norm(x)))
        ),
        WrongAnswer(
            "yours adds x twice, once inside the norm and once after it", lambda x, norm, f: x + norm(x + f(x))
        ),
        WrongAnswer("path and norm are missing", lambda x, norm, f: f(x)),
    ],
)

KEYS_OF_BOTH = quick_question(
    "The source has 9 positions, 2 of them padding. Of 5 target words, how many keys may the third see "
    "in self-attention, and how many in cross-attention?",
    [3, 7],
    {
        (5, 7): "in self-attention the future is hidden: the third word sees itself and the two before it",
        (2, 7): "a word may see itself too",
        (3, 9): "the two padded keys of the source are hidden",
        (3, 3): "the causal mask belongs to self-attention alone: the source is all there from the beginning",
        (5, 9): "nothing is hidden in yours: neither the future nor the padding",
        (3, 2): "two are padding: these are hidden, and the seven words are not",
        (7, 3): "these are the two numbers in the other order: self-attention comes first",
        (3, 5): "the keys of cross-attention come from the source",
    },
)

LOSS_AT_THE_START = quick_question(
    "An untrained machine gives each of 125 ids the same probability. What is its loss?",
    math.log(125),
    {
        math.log2(125): "that is in bits, with the logarithm to the base 2; a nat has the base e",
        math.log10(125): "that is the logarithm to the base 10; a nat has the base e",
        1 / 125: "that is the probability of each id; the loss is minus its logarithm",
        -math.log(125): "the sign: the loss is *minus* the logarithm of the probability",
        125: "that is the number of ids; the loss is minus the logarithm of a probability",
        0: "a loss of 0 needs probability 1 for the right id",
    },
)

_BEGIN, _END = 1, 2


def _logits_after(written: Any, seed: int) -> Tensor:
    """Return scores for the next id, which depend on all ids written so far."""
    ids = [int(i) for i in torch.as_tensor(written).flatten()]
    mixed = functools.reduce(lambda a, b: (31 * a + b + 1) % 9973, ids, seed)
    return 2 * random(7, seed=mixed)


def _ask_writer(answer: Callable[..., Any], seed: int, *sizes: int) -> Any:
    return call(answer, functools.partial(_logits_after, seed=seed), *sizes)


def _greedily(
    logits_of: Callable[[Any], Tensor], longest: int, *, keep: bool = True, stop: bool = True, least: bool = False
) -> list[int]:
    written = [_BEGIN]
    for _ in range(longest):
        logits = -logits_of(written) if least else logits_of(written)
        best = int(logits.argmax())
        if best == _END and not keep:
            break
        written = [*written, best]
        if best == _END and stop:
            break
    return written


WRITES_GREEDILY = Exercise(
    prompt="A greedy writer that stops at the end.",
    right=_greedily,
    returns=numbers("the ids"),
    call=_ask_writer,
    cases=[Case((2, 12)), Case((0, 6))],
    wrong_answers=[
        WrongAnswer(
            "it goes on after the end: break where the id 2 was written", lambda f, n: _greedily(f, n, stop=False)
        ),
        WrongAnswer(
            "the end itself is missing: it is one of the ids written", lambda f, n: _greedily(f, n, keep=False)
        ),
        WrongAnswer(
            "you took the least likely id; `argmax` gives the likeliest", lambda f, n: _greedily(f, n, least=True)
        ),
        WrongAnswer(
            "`logits_of` must read all ids written so far, not only the newest",
            lambda f, n: _greedily(lambda written: f(written[-1:]), n),
        ),
        WrongAnswer("only the newest id came back; append it to those before", lambda f, n: _greedily(f, n)[-1:]),
        WrongAnswer("only one id was written", lambda f, n: _greedily(f, 1)),
        WrongAnswer("keep the id `BEGIN` at the front", lambda f, n: _greedily(f, n)[1:]),
    ],
)


def _size(
    d: int, wide: int, layers: int, english: int, italian: int, *, bias: int = 1, cross: int = 1, norms: int = 1,
    last: int = 1, tables: int = 2,
) -> int:  # fmt: skip
    attention = 4 * (d * d + bias * d)
    feed = 2 * d * wide + bias * (wide + d)
    encoder = attention + feed + norms * 2 * 2 * d
    decoder = (1 + cross) * attention + feed + norms * (2 + cross) * 2 * d
    words = (english + italian) * d if tables == 2 else english * d
    return words + layers * (encoder + decoder) + last * norms * 4 * d + d * italian + bias * italian


MACHINE_SIZE = Exercise(
    prompt="The number of parameters of the chapter's machine.",
    right=_size,
    returns=number("the count"),
    cases=[Case((64, 128, 1, 102, 125)), Case((32, 48, 3, 19, 23))],
    wrong_answers=[
        WrongAnswer("the biases are missing: each nn.Linear has one for each output", functools.partial(_size, bias=0)),
        WrongAnswer("a decoder layer has two attentions, and three norms", functools.partial(_size, cross=0)),
        WrongAnswer(
            "the norms are missing: each has two parameters for each feature", functools.partial(_size, norms=0)
        ),
        WrongAnswer("the two norms at the end of encoder and decoder are missing", functools.partial(_size, last=0)),
        WrongAnswer(
            "the Italian words have a table, and the read-out has a matrix of its own",
            functools.partial(_size, tables=1),
        ),
        WrongAnswer(
            "that is without the read-out, which has d_model numbers and a bias for each Italian word",
            lambda d, wide, layers, english, italian: _size(d, wide, layers, english, italian) - (d + 1) * italian,
        ),
        WrongAnswer(
            "you counted one layer; there are `layers` of each kind",
            lambda d, wide, layers, english, italian: _size(d, wide, 1, english, italian),
        ),
    ],
)


def _smoothed(
    logits: Tensor, target: Tensor, epsilon: float, *, others: bool = False, pads: bool = False, total: bool = False,
    share: float = 1.0,
) -> float:  # fmt: skip
    log_p = torch.log_softmax(logits, dim=-1)
    right = -log_p.gather(2, target[..., None])[..., 0]
    spread = -log_p.sum(dim=-1)
    count = logits.size(-1)
    mean = (spread - right) / (count - 1) if others else spread / count
    loss = (1 - share * epsilon) * right + epsilon * mean
    counted = loss.flatten() if pads else loss[target != 0]
    return (counted.sum() if total else counted.mean()).item()


_TARGET = torch.tensor([[5, 7, 4, 2, 0], [6, 8, 2, 0, 0], [9, 3, 10, 8, 2]])

SMOOTHED_LOSS = Exercise(
    prompt="The loss with label smoothing, without the padding.",
    right=_smoothed,
    returns=number("the loss"),
    cases=[Case((random(3, 5, 11), _TARGET, 0.1)), Case((random(3, 5, 11, seed=1), _TARGET, 0.3))],
    wrong_answers=[
        WrongAnswer("that is the loss without smoothing", lambda logits, target, epsilon: _smoothed(logits, target, 0.0)),
        WrongAnswer("padding counts in yours; leave out where the target is 0", functools.partial(_smoothed, pads=True)),
        WrongAnswer("yours spreads epsilon over the other ids, not over all", functools.partial(_smoothed, others=True)),
        WrongAnswer("that is the sum; divide by the number of positions that count", functools.partial(_smoothed, total=True)),
        WrongAnswer("the correct id gets 1 - epsilon, not 1", functools.partial(_smoothed, share=0.0)),
        WrongAnswer(
            "the two weights are exchanged: 1 - epsilon belongs to the correct id",
            lambda logits, target, epsilon: _smoothed(logits, target, 1 - epsilon),
        ),
    ],
)  # fmt: skip


def _with_beams(
    logits_of: Callable[[Any], Tensor], width: int, longest: int, *, logs: bool = True, last: bool = False,
    keep: bool = True, worst: bool = False,
) -> list[int]:  # fmt: skip
    beams: list[tuple[list[int], float]] = [([_BEGIN], 0.0)]
    for _ in range(longest):
        longer: list[tuple[list[int], float]] = []
        for ids, score in beams:
            if ids[-1] == _END:
                longer += [(ids, score)] if keep else []
                continue
            logits = logits_of(ids)
            gains = torch.log_softmax(logits, dim=-1) if logs else logits
            longer += [([*ids, i], gain + (0.0 if last else score)) for i, gain in enumerate(gains.tolist())]
        if not longer:
            break
        beams = sorted(longer, key=lambda beam: -beam[1])[:width]
    return beams[-1 if worst else 0][0]


WRITES_WITH_BEAMS = Exercise(
    prompt="The likeliest of several beginnings that are kept side by side.",
    right=_with_beams,
    returns=numbers("the ids"),
    call=_ask_writer,

    cases=[Case((seed, 3, 8)) for seed in (18, 83)],
    wrong_answers=[
        WrongAnswer("that is greedy writing: only one beginning was kept", lambda f, width, n: _with_beams(f, 1, n)),
        WrongAnswer("yours adds logits; take their log-softmax first", functools.partial(_with_beams, logs=False)),
        WrongAnswer("only the newest id counts in yours; add up all logarithms", functools.partial(_with_beams, last=True)),
        WrongAnswer("a beginning that has ended must stay among the others", functools.partial(_with_beams, keep=False)),
        WrongAnswer("return the likeliest of those kept, not the least likely", functools.partial(_with_beams, worst=True)),
    ],
)  # fmt: skip


def _cut(ids: Tensor) -> Tensor:
    ended_before = (ids == 2).cumsum(dim=1) - (ids == 2).long() > 0
    return ids.masked_fill(ended_before, 0)


SHARE_RIGHT = Exercise(
    prompt="The share of sentences that are correct up to their end, the id 2.",
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
    wrong_answers=[
        WrongAnswer(
            "you compared the ids after the end too; they do not count",
            lambda written, asked: (written == asked).all(dim=1).double().mean().item(),
        ),
        WrongAnswer(
            "that is the share of correct ids; a sentence with one wrong id is wrong",
            lambda written, asked: (written == asked).double().mean().item(),
        ),
        WrongAnswer(
            "that is the share of correct ids up to the ends; a sentence with one wrong id is wrong",
            lambda written, asked: (_cut(written) == _cut(asked)).double().mean().item(),
        ),
        WrongAnswer(
            "one correct id is not enough: all ids of a sentence must be correct",
            lambda written, asked: (_cut(written) == _cut(asked)).any(dim=1).double().mean().item(),
        ),
        WrongAnswer(
            "that counts the correct sentences; divide by the number of all sentences",
            lambda written, asked: (_cut(written) == _cut(asked)).all(dim=1).double().sum().item(),
        ),
        WrongAnswer(
            "you compared only the first id of each sentence",
            lambda written, asked: (written[:, 0] == asked[:, 0]).double().mean().item(),
        ),
    ],
)


def _marked(places: Tensor, size: int) -> Tensor:
    return torch.arange(size) == places[:, None]


CLOSED_EDGE = Exercise(
    prompt="A mask (batch, m, n) that hides one position from another in each sentence.",
    right=lambda rows, columns, m, n: ~(_marked(rows, m)[:, :, None] & _marked(columns, n)[:, None, :]),
    returns=mask("(batch, m, n)"),
    cases=[Case((torch.tensor([1, 4, 0]), torch.tensor([5, 0, -1]), 5, 7))],
    wrong_answers=[
        WrongAnswer(
            "your mask is inverted: it is True where the edge is; here True means may attend",
            lambda rows, columns, m, n: _marked(rows, m)[:, :, None] & _marked(columns, n)[:, None, :],
            mistake=7,
        ),
        WrongAnswer(
            "rows and columns are exchanged: a row is a position that looks",
            lambda rows, columns, m, n: ~(_marked(columns, m)[:, :, None] & _marked(rows, n)[:, None, :]),
        ),
        WrongAnswer(
            "you masked the whole column: every position lost the word, not only the one in the row",
            lambda rows, columns, m, n: ~_marked(columns, n)[:, None, :].expand(-1, m, -1),
        ),
        WrongAnswer(
            "you masked the whole row: the position lost every word, and a row that sees nothing has no weights",
            lambda rows, columns, m, n: ~_marked(rows, m)[:, :, None].expand(-1, -1, n),
            mistake=11,
        ),
        WrongAnswer(
            "row and column are joined by OR: a whole row and a whole column are masked",
            lambda rows, columns, m, n: ~(_marked(rows, m)[:, :, None] | _marked(columns, n)[:, None, :]),
        ),
        WrongAnswer(
            "-1 masked the last column; it means that nothing is masked",
            lambda rows, columns, m, n: ~(_marked(rows, m)[:, :, None] & _marked(columns % n, n)[:, None, :]),
        ),
        WrongAnswer(
            "every sentence got the edge of the first",
            lambda rows, columns, m, n: ~(
                _marked(rows, m)[:1, :, None] & _marked(columns, n)[:1, None, :]
            ).expand(len(rows), -1, -1),
        ),
    ],

)  # fmt: skip


def _pieces(text: str, order: int) -> Counter[str]:
    return Counter(text[i : i + order] for i in range(len(text) - order + 1))


def _chrf(
    written: str, asked: str, *, orders: int = 6, beta: float = 2.0, blanks: bool = False, by_order: bool = False,
    sets: bool = False,
) -> float:  # fmt: skip
    if not blanks:
        written, asked = written.replace(" ", ""), asked.replace(" ", "")
    shares: list[tuple[float, float]] = []
    for order in range(1, orders + 1):
        ours, theirs = _pieces(written, order), _pieces(asked, order)
        if sets:
            ours, theirs = Counter(set(ours)), Counter(set(theirs))
        if ours and theirs:
            both = (ours & theirs).total()
            shares.append((both / ours.total(), both / theirs.total()))
    if by_order:
        return 100 * sum(_f(p, r, beta) for p, r in shares) / len(shares)
    return 100 * _f(sum(p for p, _ in shares) / len(shares), sum(r for _, r in shares) / len(shares), beta)


def _f(precision: float, recall: float, beta: float) -> float:
    below = beta**2 * precision + recall
    return (1 + beta**2) * precision * recall / below if below else 0.0


CHRF_BY_HAND = Exercise(
    prompt="The chrF of a written text against the reference, from 0 to 100.",
    right=_chrf,
    returns=number("the score"),
    cases=[
        Case(("la rete è stato provato", "la rete è stata provata")),
        Case(("la legge della scuola verrà lodata", "la mappa verrà lodata nel 2030")),
        Case(("lode", "la lode del lodo"), "right for longer texts, but not where one is shorter than six characters"),
        Case(("zzz", "aaa"), "right, but not where two texts have nothing in common: {found}"),
    ],
    wrong_answers=[
        WrongAnswer("precision and recall weigh the same in yours; beta is 2", lambda w, a: _chrf(w, a, beta=1)),
        WrongAnswer(
            "precision counts more in yours, or the texts are exchanged: recall, of the reference, must count more",
            lambda w, a: _chrf(w, a, beta=0.5),
        ),
        WrongAnswer("blanks count in yours; chrF removes them first", lambda w, a: _chrf(w, a, blanks=True)),
        WrongAnswer(
            "yours stops at another length: pieces of 1 to 6 characters count", lambda w, a: _chrf(w, a, orders=4)
        ),
        WrongAnswer(
            "you averaged the F-scores of the lengths; average the precisions and the recalls first",
            lambda w, a: _chrf(w, a, by_order=True),
        ),
        WrongAnswer(
            "a piece that occurs twice counts twice: count pieces, do not make sets of them",
            lambda w, a: _chrf(w, a, sets=True),
        ),
        WrongAnswer("yours lies between 0 and 1; multiply by 100", lambda w, a: _chrf(w, a) / 100),
    ],
)

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
     {"steps": 80, "change": swap_keys_and_values}),
]  # fmt: skip


@functools.cache
def _ward() -> list[FaultyModel]:
    """Train the ward, once for all answers."""
    patients = []
    for seed, (name, _, others) in enumerate(WARD):
        how = {"fault": name, "seeds": (70 + seed,), "batches": 70 + seed, **_few, **others}
        team = train_faulty(how.pop("fault"), **how)  # who name each other by their faults
        patients += [replace(patient, name=f"patient {seed}") for patient in team]
    return patients


def _verdicts(answer: Callable[..., Any]) -> list[int]:
    verdicts = []
    for patient in _ward():
        verdict = call(answer, replace(patient, network=deepcopy(patient.network)))  # who treats it, may
        if verdict not in FAULTS:
            raise Mistake(f"return one of {', '.join(map(repr, FAULTS))}; got {verdict!r}")
        verdicts.append(FAULTS.index(verdict))
    return verdicts


def _reach(attention: MultiHeadAttention) -> int:
    x = random(1, 5, attention.d_model)
    k, v = attention.project(x)
    quiet = torch.cat([torch.zeros_like(v[:, :1]), v[:, 1:]], dim=1)
    difference = attention.attend(x, k, v)[0] - attention.attend(x, k, quiet)[0]
    return int((difference.abs().amax(dim=(0, 1)) > 1e-9).sum())


@torch.no_grad()
def _examine(patient: FaultyModel, *, skip: str = "") -> str:
    """Examine a patient by every instrument but one."""
    drawn = draw_sentences(24, generator=torch.Generator().manual_seed(41))
    source = encode_english([pair.english for pair in drawn])
    target = encode_italian([pair.italian for pair in drawn])
    read = patient.reads(target, BEGIN)
    logits = patient.network(source, read)[0]
    if skip != "padding" and not torch.allclose(patient.network(F.pad(source, (0, 9)), read)[0], logits, atol=1e-8):
        return "padding open"
    for place in range(1, 5):
        later = read.clone()
        later[:, place:] = target.roll(1, 0)[:, place:]
        differs = (patient.network(source, later)[0] - logits)[:, :place].abs().amax() > 1e-9
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
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD).item()
    if skip != "log" and loss > (0.35 if skip == "loss" else patient.losses[-5:].mean().item() + 0.35):
        return "keys and values exchanged"
    return "healthy"


def _prepared(answer: Any) -> None:
    _ward()  # its training is no part of an answer's time


DOCTOR = Exercise(
    prompt="A function that says what is wrong with a translator, or that nothing is.",
    right=_examine,
    returns=numbers("the verdicts", "there is one for each patient"),
    call=_verdicts,
    wrong_answers=[
        WrongAnswer("your function calls every translator healthy", lambda patient: "healthy"),
        WrongAnswer(
            "whose decoder reads the very word it must predict", lambda patient: _examine(patient, skip="step")
        ),
        WrongAnswer("a network that sees one word too far", lambda patient: _examine(patient, skip="network")),
        WrongAnswer("that sees padding", lambda patient: _examine(patient, skip="padding")),
        WrongAnswer("a translator without W^O", lambda patient: _examine(patient, skip="heads")),
        WrongAnswer("lacks W^O in its cross-attention alone", lambda patient: _examine(patient, skip="cross")),
        WrongAnswer("spoilt after its training", lambda patient: _examine(patient, skip="log")),
        WrongAnswer("a translator with nothing wrong", lambda patient: _examine(patient, skip="loss")),
    ],
    extra_checks=[_prepared],
)
