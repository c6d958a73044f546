r"""Four synthetic tasks for one layer of attention, and the random numbers that they are drawn from.

What is trained both in PyTorch and in a page of the book needs the same random numbers in both. Those of
:func:`uniform_numbers` are made by counting: number :math:`i` is a hash of :math:`i`, so that a whole tensor of them is
computed at once.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .._validation import check_size

__all__ = ["SYNTHETIC_TASKS", "SyntheticTask", "normal_numbers", "uniform_numbers"]

_LOW = 0xFFFFFFFF  # the lowest 32 bits
_STRIDE = 0x6D2B79F5


def _hash(x: Tensor) -> Tensor:
    """Hash whole numbers from 0 to 2^32 - 1 to such numbers: the output of mulberry32."""
    x = (x ^ x >> 15) * (x | 1) & _LOW
    x = x ^ x + ((x ^ x >> 7) * (x | 61) & _LOW) & _LOW
    return x ^ x >> 14


def uniform_numbers(*shape: int, seed: int, stream: int = 0) -> Tensor:
    r"""Draw numbers that are uniform on [0, 1).

    .. math:: u_i = 2^{-32}\, f\bigl(s + (i + 1)\, c \bmod 2^{32}\bigr), \qquad s = f(f(\text{seed}) + \text{stream})

    Args:
        shape: how many along each axis; the last one runs first.
        seed: the seed, from 0 to 2^32 - 1.
        stream: numbers of one seed that are to be independent have different streams.

    Returns:
        float64, of the shape.

    Raises:
        TypeError: if an argument is not an int.
        ValueError: if one is negative.

    Example:
        >>> [round(u, 4) for u in uniform_numbers(3, seed=0).tolist()]
        [0.2664, 0.0003, 0.2233]

    Source:
        The function f and the constant c are those of mulberry32 (Tommy Ettinger, 2017, public domain).
    """
    for name, value in [("seed", seed), ("stream", stream), *(("shape", size) for size in shape)]:
        check_size(name, value)
    state = _hash((_hash(torch.tensor(seed)) + stream) & _LOW)
    counter = torch.arange(1, 1 + math.prod(shape))
    return (_hash((state + counter * _STRIDE) & _LOW).double() / 2**32).view(shape)


def normal_numbers(*shape: int, seed: int, stream: int = 0) -> Tensor:
    r"""Draw numbers from the standard normal distribution, each from two that are uniform.

    .. math:: z_i = \sqrt{-2 \ln(1 - u_{2i})}\, \cos(2 \pi\, u_{2i+1})

    Args:
        shape: how many along each axis; the last one runs first.
        seed: the seed, from 0 to 2^32 - 1.
        stream: as of :func:`uniform_numbers`.

    Returns:
        float64, of the shape.

    Raises:
        TypeError: if an argument is not an int.
        ValueError: if one is negative.

    Example:
        >>> abs(normal_numbers(1000, seed=0).var().item() - 1) < 0.1
        True

    Source:
        Box and Muller (1958), "A Note on the Generation of Random Normal Deviates".
    """
    radius, angle = uniform_numbers(*shape, 2, seed=seed, stream=stream).unbind(-1)
    return (-2 * (1 - radius).log()).sqrt() * (2 * math.pi * angle).cos()


class SyntheticTask(NamedTuple):
    """A task for a model that reads a sequence of tokens and answers at some of them.

    Attributes:
        words: what each token is called.
        answers: what each class of the output is called.
        length: tokens in a sequence.
        draws: how many random numbers make a sequence.
        make: makes sequences from numbers that are uniform on [0, 1), (size, draws): their ids and the right answers,
            both int64 (size, length), -1 where nothing is asked.
    """

    words: list[str]
    answers: list[str]
    length: int
    draws: int
    make: Callable[[Tensor], tuple[Tensor, Tensor]]


def _below(u: Tensor, count: int) -> Tensor:
    """Turn uniform numbers into whole numbers from 0 to count - 1."""
    return (u * count).long()


def _shuffled(u: Tensor) -> Tensor:
    """Turn rows of uniform numbers into permutations: which is the smallest, the next, and so on."""
    return u.argsort(dim=-1, stable=True)


def _at(position: int, answer: Tensor, length: int) -> Tensor:
    """Return targets (size, length): the answer (size,) at one position, -1 at all others."""
    targets = torch.full((len(answer), length), -1)
    targets[:, position] = answer
    return targets


def _look_up(keys: int = 8, values: int = 4, pairs: int = 6) -> SyntheticTask:
    def make(u: Tensor) -> tuple[Tensor, Tensor]:
        key, value = _shuffled(u[:, :keys])[:, :pairs], _below(u[:, keys:-1], values)
        asked = _below(u[:, -1:], pairs)
        ids = torch.cat([key * values + value, keys * values + key.gather(1, asked)], dim=1)
        return ids, _at(pairs, value.gather(1, asked)[:, 0], pairs + 1)

    letters, digits = "abcdefgh"[:keys], "123456789"[:values]
    words = [f"{k}={v}" for k in letters for v in digits] + [f"{k}=?" for k in letters]
    return SyntheticTask(words, list(digits), pairs + 1, keys + pairs + 1, make)


def _two_look_ups(keys: int = 6, values: int = 6) -> SyntheticTask:
    def make(u: Tensor) -> tuple[Tensor, Tensor]:
        key, value = _shuffled(u[:, :keys]), _below(u[:, keys : 2 * keys], values)
        asked = _shuffled(u[:, 2 * keys :])[:, :2]
        first, second = key.gather(1, asked).unbind(1)
        query = first * (keys - 1) + second - (second > first).long()
        ids = torch.cat([key * values + value, keys * values + query[:, None]], dim=1)
        one, other = value.gather(1, asked).unbind(1)
        return ids, _at(keys, one * values + other, keys + 1)

    letters, digits = "abcdefgh"[:keys], "123456789"[:values]
    words = [f"{k}={v}" for k in letters for v in digits]
    words += [f"{first},{second}=?" for first in letters for second in letters if first != second]
    return SyntheticTask(words, [f"{v},{w}" for v in digits for w in digits], keys + 1, 3 * keys, make)


def _bites() -> SyntheticTask:
    animals = ["dog", "cat", "man", "snake", "shark", "horse", "goose", "mouse"]

    def make(u: Tensor) -> tuple[Tensor, Tensor]:
        one, other = _shuffled(u)[:, :2].unbind(1)
        bites = torch.full_like(one, len(animals))
        return torch.stack([one, bites, other], dim=1), _at(1, one, 3)

    return SyntheticTask([*animals, "bites"], animals, 3, len(animals), make)


def _write_on(letters: str = "abcdefgh", period: int = 3, length: int = 12) -> SyntheticTask:
    def make(u: Tensor) -> tuple[Tensor, Tensor]:
        t = torch.arange(length)
        text = (_below(u, len(letters))[:, t % period] + t // period) % len(letters)
        return text, F.pad(text[:, 1:], (0, 1), value=-1)

    return SyntheticTask(list(letters), list(letters), length, period, make)


#: The tasks by name.
#:
#: - ``look_up``: six keys with a value each, then one of the keys: which value has it?
#: - ``two_look_ups``: the last token asks for two keys, and the answer is the ordered pair of their values.
#: - ``bites``: who bites? It is asked at the verb.
#: - ``write_on``: the next letter of a text, asked at every letter but the last: three letters, and then the same
#:   three, each one further in the alphabet, again and again.
#:
#: :meta hide-value:
SYNTHETIC_TASKS = {
    "look_up": _look_up(),
    "two_look_ups": _two_look_ups(),
    "bites": _bites(),
    "write_on": _write_on(),
}
