"""The exercises of chapter 6."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..positions import apply_rotary, frequencies, permute_rotary, sinusoidal_positions
from .parse import number, random, tensor
from .table import Case, Exercise, WrongAnswer, quick_question

BAG_OF_WORDS = quick_question(
    "One causal layer without positions reads dog bites man, then bites dog man. Whose output is the same in both?",
    "man",
    {
        "dog": "in the first it sees itself alone, in the second bites as well",
        "bites": "in the second it stands first and sees itself alone; in the first it sees dog as well",
        "none": "man sees the same three words in both, itself among them, and their order does not count",
    },
    choices=("dog", "bites", "man", "none"),
)

TURNED_PRODUCT = quick_question(
    "Let q = k = (1, 0) and omega = 1. The query at position 5 and the key at position 3 are turned. What is q · k?",
    math.cos(2),
    {
        1.0: "that is without turning (or in degrees: omega is in radians); the angle between the two is now 2",
        math.cos(8): "you added the positions; the angle between the two is their difference",
        math.cos(5): "only the query is turned in yours; the key turns as well",
        math.cos(3): "only the key is turned in yours; the query turns as well",
        math.sin(2): "that is the sine of the angle between the two; a dot product has the cosine",
        -math.sin(2): "that is the sine of the angle between the two; a dot product has the cosine of it, always",
        -math.cos(2): "the sign is wrong: an angle of 2 radians is larger than a right angle",
        -2.0: "that is the angle between the two; take its cosine",
        2.0: "that is the angle between the two, in radians; take its cosine",
    },
)

FOUR_STEPS_FURTHER = quick_question(
    "ALiBi with slope ½. Two keys match equally well, one is 4 steps further away. What is its weight multiplied by?",
    math.exp(-2),
    {
        2.0: "that is how much lower its score is; the softmax makes a factor of it",
        -2.0: "that is the difference of the scores; the softmax takes its exponential",
        math.exp(2): "that is the factor of the nearer key; the further one loses weight",
        math.exp(-0.5): "that is the factor of one step",
        math.exp(-4): "that is four steps with slope 1; the slope is ½",
        2**-4: "½ is subtracted from the score at each step; it does not halve the weight",
        math.exp(-8): "you divided the distance by the slope; multiply",
    },
)

Speeds = Callable[[int], Tensor]  # d -> by how many radians each of d/2 pairs turns a position

# What people take for 10000 ** (-2i / d); the words say what is wrong.
WRONG_SPEEDS: dict[str, Speeds] = {
    "your exponent is i/d; it is 2i/d": lambda d: 10000.0 ** (-torch.arange(d // 2) / d),
    "your exponent is 4i/d; it is 2i/d: torch.arange(0, d, 2) holds 2i already": (
        lambda d: 10000.0 ** (-2 * torch.arange(0, d, 2) / d)
    ),
    "your exponent is 2i/(d-2), which gives the last pair 1/10000; it is 2i/d": (
        lambda d: 10000.0 ** (-torch.arange(0, d, 2) / (d - 2))
    ),
    "your exponent begins at 2/d; pairs count from 0, and the first turns by 1": (
        lambda d: 10000.0 ** (-torch.arange(2, d + 1, 2) / d)
    ),
    "the slowest pair comes first in yours; the first turns by 1": lambda d: frequencies(d).flip(0),
    "the sign of your exponent is wrong: the first pair is the fastest": lambda d: 1 / frequencies(d),
    "all pairs turn equally fast in yours; pair i turns by 10000^(-2i/d)": lambda d: torch.ones(d // 2),
}


def _dot(distance: int, d: int, speeds: Speeds = frequencies) -> float:
    return (distance * speeds(d)).cos().sum().item()


DOT = Exercise(
    prompt="The dot product of two sinusoidal positions with d features that stand a distance apart.",
    right=_dot,
    returns=number("the dot product"),
    cases=[Case((5, 10)), Case((0, 6)), Case((-3, 14), "right for distances of 0 and more; {found}")],
    wrong_answers=[
        WrongAnswer("there are d/2 pairs; you summed over d features", lambda s, d: 2 * _dot(s, d)),
        WrongAnswer("a dot product is a sum; you took the mean", lambda s, d: _dot(s, d) / (d // 2)),
        WrongAnswer("you divided by the square root of d; return the plain product", lambda s, d: _dot(s, d) / math.sqrt(d)),
        WrongAnswer("that is the cosine of the distance alone: each pair has its own speed", lambda s, d: math.cos(s)),
        WrongAnswer(
            "you summed sines; the two products of a pair add up to a cosine",
            lambda s, d: (s * frequencies(d)).sin().sum().item(),
        ),
        WrongAnswer(
            "that is the sum of all features of one position vector; a dot product needs two vectors",
            lambda s, d: sinusoidal_positions(1, d, start=s).sum().item(),
        ),
        *(WrongAnswer(words, lambda s, d, speeds=speeds: _dot(s, d, speeds)) for words, speeds in WRONG_SPEEDS.items()
          if "slowest" not in words),
    ],
    fallback_message="that is another number; the dot product is the sum of cos(distance * omega) over the pairs",
)  # fmt: skip


def _price(m: int, n: int, slopes: Tensor, first: int | None = None) -> Tensor:
    distance = (torch.arange(m)[:, None] + (n - m if first is None else first) - torch.arange(n)).abs()
    return -slopes[:, None, None] * distance


def _signed(m: int, n: int, slopes: Tensor) -> Tensor:
    return -slopes[:, None, None] * (torch.arange(n - m, n)[:, None] - torch.arange(n))


_SLOPES = torch.tensor([0.713, 0.311, 0.1234], dtype=torch.float64)

PRICE = Exercise(
    prompt="ALiBi's float mask (heads, m, n) for given slopes, aligned lower right.",
    right=_price,
    returns=tensor("(heads, m, n)", "the bias"),
    cases=[Case((5, 5, _SLOPES)), Case((5, 7, _SLOPES)), Case((1, 7, _SLOPES))],
    wrong_answers=[
        WrongAnswer("the heads come first: (heads, m, n)", lambda m, n, slopes: _price(m, n, slopes).movedim(0, -1)),
        WrongAnswer("queries and keys are swapped: a row for each query, (heads, m, n)",
               lambda m, n, slopes: _price(n, m, slopes)),
        WrongAnswer("the axis of the heads is missing: each head has its own slope",
               lambda m, n, slopes: _price(m, n, slopes)[0]),
        WrongAnswer("the sign is wrong: distance must lower the score", lambda m, n, slopes: -_price(m, n, slopes)),
        WrongAnswer("keys after the query get a bonus; take the distance without its sign", _signed),
        WrongAnswer(
            "keys before the query get a bonus; take the distance without its sign, and subtract it",
            lambda m, n, slopes: -_signed(m, n, slopes),
        ),
        WrongAnswer(
            "aligned upper left: with fewer queries than keys, query i stands at position i + (n - m)",
            lambda m, n, slopes: _price(m, n, slopes, first=0),
        ),
        WrongAnswer(
            "you penalise only keys before the query; the distance to later keys counts too",
            lambda m, n, slopes: _price(m, n, slopes).tril(n - m),
        ),
        WrongAnswer(
            "you squared the distance", lambda m, n, slopes: -_price(m, n, slopes.sqrt()).square()
        ),
        WrongAnswer(
            "these are the factors on the weights; the mask is added to the scores, before the softmax",
            lambda m, n, slopes: _price(m, n, slopes).exp(),
        ),
    ],

)  # fmt: skip


def _clamped(q: Tensor, k: Tensor, most: float, least: float | None = None, sign: int = 1) -> Tensor:
    t = torch.arange(len(q))
    distance = (t - t[:, None]).clamp(-most if least is None else least, most)  # s - t
    return (q[:, None] * apply_rotary(k.expand(len(q), *k.shape), sign * distance)).sum(dim=-1)


def _beyond(q: Tensor, most: int) -> Tensor:
    t = torch.arange(len(q))
    return (t - t[:, None]).abs() > most


CLAMPED_SCORES = Exercise(
    prompt="Rotary scores (n, n) of q and k (n, d), not divided, with every distance above `most` counted as `most`.",
    right=_clamped,
    returns=tensor("(n, n)", "the scores"),
    cases=[Case((random(7, 6), random(7, 6, seed=1), 3)), Case((random(5, 4), random(5, 4, seed=1), 1))],
    wrong_answers=[
        WrongAnswer("you clamp no distance", lambda q, k, most: apply_rotary(q) @ apply_rotary(k).mT),
        WrongAnswer("you turn nothing", lambda q, k, most: q @ k.mT),
        WrongAnswer(
            "you clamped the positions; clamp the distance between the two",
            lambda q, k, most: (
                apply_rotary(q, torch.arange(len(q)).clamp(max=most))
                @ apply_rotary(k, torch.arange(len(k)).clamp(max=most)).mT
            ),
        ),
        WrongAnswer(
            "the rows are queries, the columns are keys; yours are the other way round",
            lambda q, k, most: _clamped(q, k, most).mT,
        ),
        WrongAnswer("you turn by t - s; a key at s, seen from t, is turned by s - t",
             lambda q, k, most: _clamped(q, k, most, sign=-1)),
        WrongAnswer("the distance has lost its sign: keys before and after the query turn in opposite directions",
             lambda q, k, most: torch.where(torch.ones(len(q), len(q)).tril().bool(), _clamped(q, k, most, sign=-1),
                                            _clamped(q, k, most))),
        WrongAnswer("you clamp only keys after the query; clamp those before it too",
             lambda q, k, most: _clamped(q, k, most, least=-math.inf)),
        WrongAnswer("you clamp only keys before the query; clamp those after it too",
             lambda q, k, most: _clamped(q, k, math.inf, least=-most)),
        WrongAnswer("beyond that distance your scores are those of unturned vectors; turn by `most`",
             lambda q, k, most: torch.where(_beyond(q, most), q @ k.mT, _clamped(q, k, most))),
        WrongAnswer("keys further away must not be masked; they count as if they were `most` away",
             lambda q, k, most: _clamped(q, k, most).masked_fill(_beyond(q, most), -math.inf)),
        WrongAnswer("do not divide by the square root of d here", lambda q, k, most: _clamped(q, k, most) / q.size(1) ** 0.5),
        WrongAnswer("you clamp one step too early: the distance `most` itself stays",
             lambda q, k, most: _clamped(q, k, most - 1)),
        WrongAnswer("you clamp one step too late: the distance `most` + 1 counts as `most`",
             lambda q, k, most: _clamped(q, k, most + 1)),
    ],

)  # fmt: skip


def _turned(speeds: Speeds = frequencies, start: float = 0.0, sign: int = 1, apart: bool = True) -> Any:
    def answer(x: Tensor) -> Tensor:
        angles = sign * torch.outer(torch.arange(len(x)) + start, speeds(x.size(1)).double())
        a, b = x.chunk(2, dim=1) if apart else (x[:, 0::2], x[:, 1::2])
        pairs = a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()
        return torch.cat(pairs, dim=1) if apart else torch.stack(pairs, dim=-1).flatten(1)

    return answer


TURN = Exercise(
    prompt="Rotary positions: row t of x (n, d) turned to position t, pairing feature i with i + d/2.",
    right=lambda x: apply_rotary(x),
    returns=tensor("(n, d)", "the turned rows"),
    cases=[Case((random(7, 10),)), Case((random(5, 6),))],
    wrong_answers=[
        WrongAnswer(
            "features 2i and 2i + 1 are turned correctly, but written into two halves: keep them in their places",
            lambda x: _turned(apart=False)(x).unflatten(1, (-1, 2)).transpose(1, 2).flatten(1),
        ),
        WrongAnswer(
            "the second half has a wrong sign: a sin + b cos",
            lambda x: torch.cat([1.0 * _turned()(x)[:, : x.size(1) // 2], -_turned(sign=-1)(
                torch.cat([-x[:, : x.size(1) // 2], x[:, x.size(1) // 2 :]], 1))[:, x.size(1) // 2 :]], 1),
        ),
        WrongAnswer(
            "you added the positions to x; they must turn it", lambda x: x + sinusoidal_positions(*x.shape)
        ),
        WrongAnswer(
            "each feature is multiplied by a cosine alone: the part with the sine is missing",
            lambda x: x * torch.outer(torch.arange(len(x)).double(), frequencies(x.size(1))).cos().repeat(1, 2),
        ),
        WrongAnswer("your pairs are interleaved", _turned(apart=False)),
        WrongAnswer("you turn backwards", _turned(sign=-1)),
        WrongAnswer("you count positions from 1;", _turned(start=1.0)),
        *(WrongAnswer(words, _turned(speeds)) for words, speeds in WRONG_SPEEDS.items() if "sign of your" not in words),
        WrongAnswer("your speeds are those of a base of 500", _turned(lambda d: frequencies(d, 500.0))),
        WrongAnswer("nothing is turned", lambda x: x.clone()),
        WrongAnswer("are left as they are", lambda x: torch.cat([_turned()(x[:, :4]), x[:, 4:]], dim=1)),
    ],

    fallback_message="the rows are not those of x with pairs of features turned: a turned pair keeps its length",
)  # fmt: skip


def _convert(weight: Tensor, heads: int) -> Tensor:
    return permute_rotary(weight, heads, to="halves")


CONVERT = Exercise(
    prompt="W^Q or W^K as nn.Linear stores it, trained with interleaved pairs, for use with halves.",
    right=_convert,
    returns=tensor("(heads * d_head, d_model)", "the weight"),
    cases=[Case((random(30, 7), 3)), Case((random(16, 5), 2))],
    wrong_answers=[
        WrongAnswer(
            "that is the way back, from halves to interleaved pairs",
            lambda w, heads: permute_rotary(w, heads, to="interleaved"),
        ),
        WrongAnswer(
            "each head has halves of its own; you cut the whole matrix into two",
            lambda w, heads: permute_rotary(w, 1, to="halves"),
        ),
        WrongAnswer("nothing is changed", lambda w, heads: w.clone()),
        WrongAnswer(
            "you reversed the order of the heads, and left the rows inside them as they were",
            lambda w, heads: w.unflatten(0, (heads, -1)).flip(0).flatten(0, 1),
        ),
        WrongAnswer(
            "that is for a matrix whose heads alternate row by row; here all rows of head 1 come first",
            lambda w, heads: w.unflatten(0, (-1, heads)).transpose(0, 1).flatten(0, 1),
        ),
        WrongAnswer(
            "the odd features come first in yours; the even ones must",
            lambda w, heads: w.unflatten(0, (heads, -1, 2)).flip(2).transpose(1, 2).flatten(0, 2),
        ),
        WrongAnswer(
            "the result must have the shape of the given matrix; yours has an axis for the heads",
            lambda w, heads: _convert(w, heads).unflatten(0, (heads, -1)),
        ),
        WrongAnswer("your rows come in the order", lambda w, heads: w.roll(1, 0)),
    ],
)


def _slow(n: int, d: int, base: float) -> int:
    return sum(2 * math.pi / speed > n for speed in frequencies(d, base).tolist())


SLOW = Exercise(
    prompt="How many of d/2 rotary pairs have a wavelength longer than n positions, for a base.",
    right=_slow,
    returns=number("the number of pairs"),
    cases=[Case((100, 64, 10000.0)), Case((2048, 128, 500000.0)), Case((300, 16, 100.0)), Case((6, 8, 10.0))],

    wrong_answers=[
        WrongAnswer("you counted the pairs that come round; count the others",
             lambda n, d, base: d // 2 - _slow(n, d, base)),
        WrongAnswer("you counted features; a pair has two", lambda n, d, base: 2 * _slow(n, d, base)),
        WrongAnswer("a full turn is 2 pi radians; you took 1 / omega for the wavelength",
             lambda n, d, base: sum(1 / s > n for s in frequencies(d, base).tolist())),
        WrongAnswer("you took 10000 as the base; the base is an argument", lambda n, d, base: _slow(n, d, 10000.0)),
        WrongAnswer("that is their share of all pairs; return their number", lambda n, d, base: _slow(n, d, base) / (d // 2)),
        WrongAnswer("a full turn is 2 pi radians; you took pi, half a turn",
             lambda n, d, base: sum(math.pi / s > n for s in frequencies(d, base).tolist())),
        WrongAnswer("your exponent is i/d; it is 2i/d, with i from 0 to d/2 - 1",
             lambda n, d, base: sum(2 * math.pi * base ** (i / d) > n for i in range(d // 2))),
    ],
    fallback_message="that is another number of pairs; pair i has the wavelength 2 pi base^(2i/d)",
)  # fmt: skip
