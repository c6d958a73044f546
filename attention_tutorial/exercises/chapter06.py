"""The exercises of chapter 6."""

import math
from functools import partial

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
        2.0: "that is the angle between the two, in radians; take its cosine",
    },
)

FOUR_STEPS_FURTHER = quick_question(
    "ALiBi with slope ½. Two keys match equally well, one is 4 steps further away. What is its weight multiplied by?",
    math.exp(-2),
    {
        2.0: "that is how much lower its score is; the softmax makes a factor of it",
        math.exp(2): "that is the factor of the nearer key; the further one loses weight",
        math.exp(-0.5): "that is the factor of one step",
        2**-4: "½ is subtracted from the score at each step; it does not halve the weight",
    },
)

# What people take for 10000 ** (-2i / d), by the base that gives the same speeds
WRONG_EXPONENTS = {
    "your exponent is i/d; it is 2i/d": 10000.0**0.5,
    "your exponent is 4i/d; it is 2i/d: torch.arange(0, d, 2) holds 2i already": 10000.0**2,
}


def _dot(distance: int, d: int, base: float = 10000.0) -> float:
    return (distance * frequencies(d, base)).cos().sum().item()


DOT = Exercise(
    prompt="The dot product of two sinusoidal positions with d features that stand a distance apart.",
    right=_dot,
    returns=number("the dot product"),
    cases=[Case((5, 10)), Case((0, 6)), Case((-3, 14), "right for distances of 0 and more; {found}")],
    wrong_answers=[
        WrongAnswer("there are d/2 pairs; you summed over d features", lambda s, d: 2 * _dot(s, d)),
        WrongAnswer("that is the cosine of the distance alone: each pair has its own speed", lambda s, d: math.cos(s)),
        *(WrongAnswer(words, partial(_dot, base=base)) for words, base in WRONG_EXPONENTS.items()),
    ],
    fallback_message="that is another number; the dot product is the sum of cos(distance * omega) over the pairs",
)


def _biased(slopes: Tensor, distance: Tensor) -> Tensor:
    return -slopes[:, None, None] * distance


def _before(m: int, n: int) -> Tensor:
    """How far key j stands before query i, (m, n); negative where it comes after."""
    return torch.arange(n - m, n)[:, None] - torch.arange(n)


_SLOPES = torch.tensor([0.713, 0.311, 0.1234], dtype=torch.float64)

PRICE = Exercise(
    prompt="ALiBi's float mask (heads, m, n) for given slopes, aligned lower right.",
    right=lambda m, n, slopes: _biased(slopes, _before(m, n).abs()),
    returns=tensor("(heads, m, n)", "the bias"),
    cases=[Case((5, 5, _SLOPES)), Case((5, 7, _SLOPES)), Case((1, 7, _SLOPES))],
    wrong_answers=[
        WrongAnswer(
            "the sign is wrong: distance must lower the score",
            lambda m, n, slopes: -_biased(slopes, _before(m, n).abs()),
        ),
        WrongAnswer(
            "keys after the query get a bonus; take the distance without its sign",
            lambda m, n, slopes: _biased(slopes, _before(m, n)),
        ),
        WrongAnswer(
            "aligned upper left: with fewer queries than keys, query i stands at position i + (n - m)",
            lambda m, n, slopes: _biased(slopes, _before(n, n)[:m].abs()),
        ),
    ],
)


def _steps(x: Tensor) -> Tensor:
    """From each query at t to each key at s, s - t, (n, n)."""
    t = torch.arange(len(x))
    return t - t[:, None]


def _scored(q: Tensor, k: Tensor, turns: Tensor) -> Tensor:
    """Scores of unturned queries and keys that are turned (n, n)."""
    return (q[:, None] * apply_rotary(k.expand(len(q), *k.shape), turns)).sum(dim=-1)


CLAMPED_SCORES = Exercise(
    prompt="Rotary scores (n, n) of q and k (n, d), not divided, with every distance above `most` counted as `most`.",
    right=lambda q, k, most: _scored(q, k, _steps(q).clamp(-most, most)),
    returns=tensor("(n, n)", "the scores"),
    cases=[Case((random(7, 6), random(7, 6, seed=1), 3)), Case((random(5, 4), random(5, 4, seed=1), 1))],
    wrong_answers=[
        WrongAnswer(
            "you clamp no distance; none counts as more than `most`", lambda q, k, most: _scored(q, k, _steps(q))
        ),
        WrongAnswer(
            "you clamped the positions; clamp the distance between the two",
            lambda q, k, most: (
                apply_rotary(q, torch.arange(len(q)).clamp(max=most))
                @ apply_rotary(k, torch.arange(len(k)).clamp(max=most)).mT
            ),
        ),
        WrongAnswer(
            "you turn by t - s; a key at s, seen from t, is turned by s - t",
            lambda q, k, most: _scored(q, k, -_steps(q).clamp(-most, most)),
        ),
        WrongAnswer(
            "the distance has lost its sign: keys before and after the query turn in opposite directions",
            lambda q, k, most: _scored(q, k, _steps(q).abs().clamp(max=most)),
        ),
        WrongAnswer(
            "keys further away must not be masked; they count as if they were `most` away",
            lambda q, k, most: _scored(q, k, _steps(q)).masked_fill(_steps(q).abs() > most, -math.inf),
        ),
    ],
)


TURN = Exercise(
    prompt="Rotary positions: row t of x (n, d) turned to position t, pairing feature i with i + d/2.",
    right=lambda x: apply_rotary(x),
    returns=tensor("(n, d)", "the turned rows"),
    cases=[Case((random(7, 10),)), Case((random(5, 6),))],
    wrong_answers=[
        WrongAnswer(
            "your pairs are features 2i and 2i + 1 (interleaved); here feature i is turned with feature i + d/2",
            partial(apply_rotary, pairing="interleaved"),
        ),
        WrongAnswer(
            "you turn backwards: the first half is a cos - b sin, the second a sin + b cos",
            lambda x: apply_rotary(x, -torch.arange(len(x))),
        ),
        WrongAnswer(
            "you count positions from 1; the first row stands at position 0",
            lambda x: apply_rotary(x, torch.arange(len(x)) + 1),
        ),
        WrongAnswer("you added the positions to x; they must turn it", lambda x: x + sinusoidal_positions(*x.shape)),
        *(WrongAnswer(words, partial(apply_rotary, base=base)) for words, base in WRONG_EXPONENTS.items()),
    ],
    fallback_message="the rows are not those of x with pairs of features turned: a turned pair keeps its length",
)

CONVERT = Exercise(
    prompt="W^Q or W^K as nn.Linear stores it, trained with interleaved pairs, for use with halves.",
    right=partial(permute_rotary, to="halves"),
    returns=tensor("(heads * d_head, d_model)", "the weight"),
    cases=[Case((random(30, 7), 3)), Case((random(16, 5), 2))],
    wrong_answers=[
        WrongAnswer(
            "that is the way back, from halves to interleaved pairs", partial(permute_rotary, to="interleaved")
        ),
        WrongAnswer(
            "each head has halves of its own; you cut the whole matrix into two",
            lambda w, heads: permute_rotary(w, 1, to="halves"),
        ),
        WrongAnswer(
            "that is for a matrix whose heads alternate row by row; here all rows of head 1 come first",
            lambda w, heads: w.unflatten(0, (-1, heads)).transpose(0, 1).flatten(0, 1),
        ),
    ],
)


def _slow(n: int, d: int, base: float, turn: float = 2 * math.pi) -> int:
    return sum(turn / speed > n for speed in frequencies(d, base).tolist())


SLOW = Exercise(
    prompt="How many of d/2 rotary pairs have a wavelength longer than n positions, for a base.",
    right=_slow,
    returns=number("the number of pairs"),
    cases=[Case((100, 64, 10000.0)), Case((2048, 128, 500000.0)), Case((300, 16, 100.0)), Case((6, 8, 10.0))],
    wrong_answers=[
        WrongAnswer(
            "you counted the pairs that come round; count the others",
            lambda n, d, base: d // 2 - _slow(n, d, base),
        ),
        WrongAnswer("you counted features; a pair has two", lambda n, d, base: 2 * _slow(n, d, base)),
        WrongAnswer("a full turn is 2 pi radians; you took 1 / omega for the wavelength", partial(_slow, turn=1.0)),
        WrongAnswer("you took 10000 as the base; the base is an argument", lambda n, d, base: _slow(n, d, 10000.0)),
        WrongAnswer(
            "your exponent is i/d; it is 2i/d, with i from 0 to d/2 - 1",
            lambda n, d, base: sum(2 * math.pi * base ** (i / d) > n for i in range(d // 2)),
        ),
    ],
    fallback_message="that is another number of pairs; pair i has the wavelength 2 pi base^(2i/d)",
)
