"""The exercises of chapter 7."""

import functools
import math
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

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
        1: "that is the length of one pair; there are 32 of them",
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
        (3, 5): "the keys of cross-attention come from the source",
    },
)

LOSS_AT_THE_START = quick_question(
    "An untrained machine gives each of 125 ids the same probability. What is its loss?",
    math.log(125),
    {
        math.log2(125): "that is in bits, with the logarithm to the base 2; a nat has the base e",
        1 / 125: "that is the probability of each id; the loss is minus its logarithm",
        -math.log(125): "the sign: the loss is minus the logarithm of the probability",
    },
)

_BEGIN, _END = 1, 2
Logits = Callable[[Any], Tensor]  # the ids so far -> scores for the next


def _logits_after(written: Any, seed: int) -> Tensor:
    """Return scores for the next id, which depend on all ids written so far."""
    ids = [int(i) for i in torch.as_tensor(written).flatten()]
    mixed = functools.reduce(lambda a, b: (31 * a + b + 1) % 9973, ids, seed)
    return 2 * random(7, seed=mixed)


def _ask_writer(answer: Callable[..., Any], seed: int, *sizes: int) -> Any:
    return call(answer, partial(_logits_after, seed=seed), *sizes)


def _greedily(logits_of: Logits, longest: int, end: int = _END) -> list[int]:
    written = [_BEGIN]
    for _ in range(longest):
        written = [*written, int(logits_of(written).argmax())]
        if written[-1] == end:
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
            "it goes on after the end: break where the id 2 was written",
            partial(_greedily, end=-1),
        ),
        WrongAnswer(
            "the end itself is missing: it is one of the ids written",
            lambda f, n: [i for i in _greedily(f, n) if i != _END],
        ),
        WrongAnswer(
            "`logits_of` must read all ids written so far, not only the newest",
            lambda f, n: _greedily(lambda written: f(written[-1:]), n),
        ),
        WrongAnswer("only the newest id came back; append it to those before", lambda f, n: _greedily(f, n)[-1:]),
    ],
)


def _size(
    d: int, wide: int, layers: int, english: int, italian: int, *, bias: int = 1, cross: int = 1, norm: int = 1
) -> int:
    attention = 4 * (d * d + bias * d)
    feed = 2 * d * wide + bias * (wide + d)
    encoder = attention + feed + norm * 2 * 2 * d
    decoder = (1 + cross) * attention + feed + norm * (2 + cross) * 2 * d
    return (english + italian) * d + layers * (encoder + decoder) + norm * 2 * 2 * d + d * italian + bias * italian


MACHINE_SIZE = Exercise(
    prompt="The number of parameters of the chapter's machine.",
    right=_size,
    returns=number("the count"),
    cases=[Case((64, 128, 1, 102, 125)), Case((32, 48, 3, 19, 23))],
    wrong_answers=[
        WrongAnswer("the biases are missing: each nn.Linear has one for each output", partial(_size, bias=0)),
        WrongAnswer("a decoder layer has two attentions, and three norms", partial(_size, cross=0)),
        WrongAnswer("the norms are missing: each has two parameters for each feature", partial(_size, norm=0)),
        WrongAnswer(
            "that is without the read-out, which has d_model numbers and a bias for each Italian word",
            lambda d, *others: _size(d, *others) - (d + 1) * others[-1],
        ),
        WrongAnswer(
            "you counted one layer; there are `layers` of each kind",
            lambda d, wide, layers, *words: _size(d, wide, 1, *words),
        ),
    ],
)


def _smoothed(
    logits: Tensor, target: Tensor, epsilon: float, *, others: bool = False, pads: bool = False, total: bool = False
) -> float:
    log_p = torch.log_softmax(logits, dim=-1)
    right = -log_p.gather(2, target[..., None])[..., 0]
    spread = -log_p.mean(dim=-1)
    if others:
        spread += (spread - right) / (logits.size(-1) - 1)
    loss = (1 - epsilon) * right + epsilon * spread
    counted = loss if pads else loss[target != 0]
    return (counted.sum() if total else counted.mean()).item()


class _WithoutTheOption(TorchFunctionMode):
    """While it is on, `cross_entropy` does not take its option for this."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("label_smoothing"):
            raise Mistake("that is PyTorch's option `label_smoothing`; compute the loss from the log-softmax instead")
        return func(*args, **kwargs)


def _by_the_formula(answer: Callable[..., Any], *inputs: Any) -> Any:
    with _WithoutTheOption():
        return call(answer, *inputs)


_TARGET = torch.tensor([[5, 7, 4, 2, 0], [6, 8, 2, 0, 0], [9, 3, 10, 8, 2]])

SMOOTHED_LOSS = Exercise(
    prompt="The loss with label smoothing, without the padding.",
    right=_smoothed,
    returns=number("the loss"),
    call=_by_the_formula,
    cases=[Case((random(3, 5, 11), _TARGET, 0.1)), Case((random(3, 5, 11, seed=1), _TARGET, 0.3))],
    wrong_answers=[
        WrongAnswer(
            "that is the loss without smoothing", lambda logits, target, epsilon: _smoothed(logits, target, 0.0)
        ),
        WrongAnswer("padding counts in yours; leave out where the target is 0", partial(_smoothed, pads=True)),
        WrongAnswer("yours spreads epsilon over the other ids, not over all", partial(_smoothed, others=True)),
        WrongAnswer("that is the sum; divide by the number of positions that count", partial(_smoothed, total=True)),
    ],
)


def _with_beams(
    logits_of: Logits, width: int, longest: int, *, logs: bool = True, keep: bool = True, past: float = 1.0
) -> list[int]:
    beams: list[tuple[float, list[int]]] = [(0.0, [_BEGIN])]
    for _ in range(longest):
        longer = [beam for beam in beams if beam[1][-1] == _END and keep]
        for score, ids in beams:
            if ids[-1] != _END:
                gains = logits_of(ids).log_softmax(-1) if logs else logits_of(ids)
                longer += [(past * score + gain, [*ids, i]) for i, gain in enumerate(gains.tolist())]
        beams = sorted(longer, reverse=True)[:width] or beams
    return beams[0][1]


WRITES_WITH_BEAMS = Exercise(
    prompt="The likeliest of several beginnings that are kept side by side.",
    right=_with_beams,
    returns=numbers("the ids"),
    call=_ask_writer,
    cases=[Case((seed, 3, 8)) for seed in (18, 83)],
    wrong_answers=[
        WrongAnswer("that is greedy writing: only one beginning was kept", lambda f, width, n: _with_beams(f, 1, n)),
        WrongAnswer("yours adds logits; take their log-softmax first", partial(_with_beams, logs=False)),
        WrongAnswer("only the newest id counts in yours; add up all logarithms", partial(_with_beams, past=0.0)),
        WrongAnswer("a beginning that has ended must stay among the others", partial(_with_beams, keep=False)),
    ],
)


def _matches(written: Tensor, asked: Tensor) -> Tensor:
    """Whether ids are the same, (batch, m); those after the end count as the same."""
    a, b = (ids.masked_fill((ids == _END).cumsum(dim=1) - (ids == _END).long() > 0, 0) for ids in (written, asked))
    return a == b


SHARE_RIGHT = Exercise(
    prompt="The share of sentences that are correct up to their end, the id 2.",
    right=lambda written, asked: _matches(written, asked).all(dim=1).double().mean(),
    returns=number("the share"),
    cases=[
        Case((torch.tensor(written), torch.tensor(asked)))
        for written, asked in (
            ([[5, 7, 2, 9, 9], [4, 6, 8, 2, 0], [5, 2, 0, 0, 0]], [[5, 7, 2, 0, 0], [4, 6, 8, 2, 7], [4, 2, 0, 0, 0]]),
            ([[5, 7, 4, 2], [6, 2, 0, 0], [6, 6, 8, 2]], [[5, 7, 4, 3], [6, 2, 0, 3], [9, 6, 8, 2]]),
        )
    ],
    wrong_answers=[
        WrongAnswer(
            "you compared the ids after the end too; they do not count",
            lambda written, asked: (written == asked).all(dim=1).double().mean(),
        ),
        WrongAnswer(
            "that is the share of correct ids; a sentence with one wrong id is wrong",
            lambda written, asked: _matches(written, asked).double().mean(),
        ),
        WrongAnswer(
            "that counts the correct sentences; divide by the number of all sentences",
            lambda written, asked: _matches(written, asked).all(dim=1).sum(),
        ),
    ],
)


def _edge(rows: Tensor, columns: Tensor, m: int, n: int) -> Tensor:
    return (torch.arange(m) == rows[:, None])[:, :, None] & (torch.arange(n) == columns[:, None])[:, None]


CLOSED_EDGE = Exercise(
    prompt="A mask (batch, m, n) that hides one position from another in each sentence.",
    right=lambda *inputs: ~_edge(*inputs),
    returns=mask("(batch, m, n)"),
    cases=[Case((torch.tensor([1, 4, 0]), torch.tensor([5, 0, -1]), 5, 7))],
    wrong_answers=[
        WrongAnswer(
            "your mask is inverted: it is True where the edge is; here True means may attend", _edge, mistake=7
        ),
        WrongAnswer(
            "rows and columns are exchanged: a row is a position that looks",
            lambda rows, columns, m, n: ~_edge(columns, rows, m, n),
        ),
        WrongAnswer(
            "you masked the whole column: every position lost the word, not only the one in the row",
            lambda rows, columns, m, n: ~(torch.arange(n) == columns[:, None])[:, None].expand(-1, m, -1),
        ),
        WrongAnswer(
            "you masked the whole row: the position lost every word, and a row that sees nothing has no weights",
            lambda rows, columns, m, n: ~(torch.arange(m) == rows[:, None])[:, :, None].expand(-1, -1, n),
            mistake=11,
        ),
        WrongAnswer(
            "-1 masked the last column; it means that nothing is masked",
            lambda rows, columns, m, n: ~_edge(rows, columns % n, m, n),
        ),
    ],
)


def _pieces(text: str, order: int) -> list[str]:
    return [text[i : i + order] for i in range(len(text) - order + 1)]


def _chrf(
    written: str, asked: str, *, beta: float = 2.0, blank: str = "", count: Callable[[Any], Counter[str]] = Counter
) -> float:
    written, asked = written.replace(" ", blank), asked.replace(" ", blank)
    precisions, recalls = [], []
    for order in range(1, 1 + min(6, len(written), len(asked))):
        ours, theirs = count(_pieces(written, order)), count(_pieces(asked, order))
        precisions.append((ours & theirs).total() / ours.total())
        recalls.append((ours & theirs).total() / theirs.total())
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * (1 + beta**2) * precision * recall / (beta**2 * precision + recall or 1.0)


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
        WrongAnswer("precision and recall weigh the same in yours; beta is 2", partial(_chrf, beta=1.0)),
        WrongAnswer("blanks count in yours; chrF removes them first", partial(_chrf, blank=" ")),
        WrongAnswer(
            "a piece that occurs twice counts twice: count pieces, do not make sets of them",
            partial(_chrf, count=lambda pieces: Counter(set(pieces))),
        ),
        WrongAnswer("yours lies between 0 and 1; multiply by 100", lambda *texts: _chrf(*texts) / 100),
    ],
)


def _second_layer_alone(network: Transformer) -> None:
    network.decoder[0].attention.__class__ = MultiHeadAttention


def _no_output_in_cross_attention(network: Transformer) -> None:
    network.decoder[0].cross_attention.w_o = torch.nn.Identity()  # type: ignore[union-attr]


# What is said of a function that is wrong about a translator; what the translator has; a test that such a function
# skips; how the translator is made, where it is not as all others
WARD: dict[str, tuple[str, str, dict[str, Any]]] = {
    "it misses a translator whose decoder reads the very word it must predict, though the network itself sees no later "
    "word: change a word of the target and compare what `step` predicts for that word": ("no shift", "step", {}),
    "it misses a network that sees one word too far: change a word of what it reads, and compare the logits before "
    "it": ("mask too far", "network", {}),
    "it misses a leak that sits in the second of two decoder layers: compare the network's logits at every position "
    "before the changed one": ("mask too far", "", {"decoder_layers": 2, "change": _second_layer_alone}),
    "it misses a translator that sees padding: put zeros after the source, and nothing may change": (
        "padding open",
        "padding",
        {},
    ),
    "it misses a translator without W^O: silence one head, and see how many features of the attention's output move": (
        "W^O missing",
        "heads",
        {},
    ),
    "it misses a translator that lacks W^O in its cross-attention alone: look at every attention it has": (
        "W^O missing",
        "cross",
        {"fault": "healthy", "change": _no_output_in_cross_attention},
    ),
    "it misses a translator that was spoilt after its training: compare its loss now with the end of its log, on "
    "sentences like those of training": ("keys and values exchanged", "log", {"steps": 80}),
    "it finds a fault in a translator with nothing wrong; compare the loss with its own log, not with a number": (
        "healthy",
        "its own log",
        {"steps": 80},
    ),
    "it finds a fault in a translator that had only five steps of training; to have learned little is no fault in the "
    "code": ("healthy", "", {"steps": 5}),
    "it finds a fault in a translator whose keys and values were exchanged before training, which is only a change "
    "of names": ("healthy", "", {"steps": 80, "change": swap_keys_and_values}),
}


@functools.cache
def _ward() -> list[FaultyModel]:
    """Train the ward, once for all answers."""
    small = {"steps": 20, "batch_size": 16, "d_model": 16, "num_heads": 2}
    trained = [
        train_faulty(**{"fault": fault, "seeds": (70 + i,), "batches": 70 + i, **small, **others})[0]
        for i, (fault, _, others) in enumerate(WARD.values())
    ]
    return [replace(model, name=f"patient {i}") for i, model in enumerate(trained)]  # not named by its fault


def _examine_ward(answer: Callable[..., Any]) -> int:
    """Return of how many patients the answer says what they have: all, or it is told about the first it gets wrong."""
    for patient, (message, (fault, *_)) in zip(_ward(), WARD.items(), strict=True):
        verdict = call(answer, replace(patient, network=deepcopy(patient.network)))  # the answer may change it
        if verdict not in FAULTS:
            raise Mistake(f"return one of {', '.join(map(repr, FAULTS))}; got {verdict!r}")
        if verdict != fault:
            raise Mistake(f"{message} (your function says {verdict!r})")
    return len(WARD)


def _reach(attention: MultiHeadAttention) -> int:
    x = random(1, 5, attention.d_model)
    k, v = attention.project(x)
    quiet = torch.cat([torch.zeros_like(v[:, :1]), v[:, 1:]], dim=1)
    difference = attention.attend(x, k, v)[0] - attention.attend(x, k, quiet)[0]
    return int((difference.abs().amax(dim=(0, 1)) > 1e-9).sum())


@torch.no_grad()
def _examine(patient: FaultyModel, *, skip: str = "") -> str:
    """Examine a patient by every test but one."""
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
    before = 0.0 if skip == "its own log" else patient.losses[-5:].mean().item()
    if skip != "log" and loss > before + 0.35:
        return "keys and values exchanged"
    return "healthy"


DOCTOR = Exercise(
    prompt="A function that says what is wrong with a translator, or that nothing is.",
    right=_examine,
    returns=number("the number of patients"),
    call=_examine_ward,
    wrong_answers=[
        WrongAnswer(message, partial(_examine, skip=test)) for message, (_, test, _) in WARD.items() if test
    ],
)
