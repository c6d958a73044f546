"""Data sets made on the spot: integers drawn on the CPU from a ``torch.Generator``, the same bits on every machine."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .._validation import check_flag, check_generator, check_ids, check_size, shape_of

__all__ = ["START", "SYMBOLS", "CopyBatches", "copy_examples", "shift_right", "spell"]

START = 0  # the id that stands before the first token of a target
SYMBOLS = "·abcdefghijklmnopqrstuvwxyz"


def copy_examples(
    num_examples: int,
    length: int,
    *,
    num_symbols: int = 10,
    reverse: bool = False,
    num_models: int | None = None,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Draw sequences to be copied: the target is the source, or the source backwards.

    Every symbol is drawn by itself, with equal chances, from the ids 1 to ``num_symbols``. Id 0 is the start token.

    Args:
        num_examples: number of sequences.
        length: symbols in each.
        num_symbols: number of different symbols.
        reverse: ask for the source backwards.
        num_models: draw this many sets at once, for as many models.
        generator: source of randomness, on the CPU.

    Returns:
        ``(source, target)``, both int64 of shape (num_examples, length), or (num_models, num_examples, length).

    Raises:
        TypeError: if a size is not an int, ``reverse`` not a bool, or ``generator`` not a ``torch.Generator``.
        ValueError: if a size is below 1, or ``generator`` is not on the CPU.

    Example:
        >>> source, target = copy_examples(1, 4, reverse=True, generator=torch.Generator().manual_seed(0))
        >>> spell(source[0]), spell(target[0])
        ('e j d a', 'a d j e')
    """
    check_size("num_examples", num_examples, minimum=1)
    check_size("length", length, minimum=1)
    check_size("num_symbols", num_symbols, minimum=1)
    check_flag("reverse", reverse)
    check_generator(generator)
    shape: tuple[int, ...] = (num_examples, length)
    if num_models is not None:
        check_size("num_models", num_models, minimum=1)
        shape = (num_models, *shape)
    source = torch.randint(1, num_symbols + 1, shape, generator=generator, device="cpu")
    return source, source.flip(-1) if reverse else source.clone()


class SeededBatches:
    """A run of training batches; each time through, it draws the same from a new generator of one seed."""

    def __init__(self, num_batches: int, seed: int) -> None:
        check_size("num_batches", num_batches, minimum=1)
        check_size("seed", seed)
        self.num_batches, self.seed = num_batches, seed

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw one batch."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        generator = torch.Generator().manual_seed(self.seed)
        return (self.draw(generator) for _ in range(self.num_batches))


class CopyBatches(SeededBatches):
    """A run of training batches for the copy task; each batch has one length, drawn anew.

    Going through it twice gives the same batches twice, since the generator is made from ``seed`` each time.

    Args:
        num_batches: how many batches to give.
        batch_size: sequences in a batch.
        min_length: shortest length.
        max_length: longest length; all between are equally likely.
        num_symbols: number of different symbols.
        reverse: ask for the source backwards.
        num_models: give every batch this many independent sets, for as many models trained side by side.
        seed: what the batches follow from.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a size is below 1, or ``max_length`` below ``min_length``.

    Example:
        >>> batches = CopyBatches(3, batch_size=2, max_length=5, seed=0)
        >>> [tuple(source.shape) for source, target in batches]
        [(2, 5), (2, 2), (2, 2)]
    """

    def __init__(
        self,
        num_batches: int,
        *,
        batch_size: int = 32,
        min_length: int = 1,
        max_length: int = 12,
        num_symbols: int = 10,
        reverse: bool = False,
        num_models: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(num_batches, seed)
        check_size("batch_size", batch_size, minimum=1)
        check_size("min_length", min_length, minimum=1)
        check_size("max_length", max_length, minimum=1)
        check_size("num_symbols", num_symbols, minimum=1)
        check_flag("reverse", reverse)
        if num_models is not None:
            check_size("num_models", num_models, minimum=1)
        if max_length < min_length:
            raise ValueError("max_length must be at least min_length; "
                             f"got max_length={max_length}, min_length={min_length}")  # fmt: skip
        self.lengths = min_length, max_length
        self.drawing: dict[str, Any] = {
            "num_examples": batch_size,
            "num_symbols": num_symbols,
            "reverse": reverse,
            "num_models": num_models,
        }

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw one batch."""
        shortest, longest = self.lengths
        length = int(torch.randint(shortest, longest + 1, (1,), generator=generator, device="cpu"))
        return copy_examples(length=length, generator=generator, **self.drawing)


def shift_right(target: Tensor, start: int = START) -> Tensor:
    r"""Put the start token before the target and drop its last token: what the decoder reads while it is trained.

    .. math:: (y_1, \ldots, y_m) \mapsto (\text{start}, y_1, \ldots, y_{m-1})

    Args:
        target: token ids (..., m).
        start: the id that stands before the first token.

    Returns:
        Token ids (..., m), a new tensor.

    Raises:
        TypeError: if ``target`` is not an int64 tensor, or ``start`` not an int.
        ValueError: if the target has no position.

    Example:
        >>> shift_right(torch.tensor([[3, 1, 2]])).tolist()
        [[0, 3, 1]]
    """
    check_ids("target", target)
    check_size("start", start)
    if target.dim() == 0 or target.size(-1) == 0:
        raise ValueError(f"target must be (..., m) with at least one position; got shape {tuple(target.shape)}")
    return torch.cat([torch.full_like(target[..., :1], start), target[..., :-1]], dim=-1)


def spell(ids: Tensor) -> str:
    """Write a row of token ids as letters: 1 is a, 2 is b, and the start token is a dot.

    Args:
        ids: token ids (n,), each from 0 to 26.

    Returns:
        The letters, with spaces between.

    Raises:
        TypeError: if ``ids`` is not an int64 tensor.
        ValueError: if it has not one axis, or an id has no letter.

    Example:
        >>> spell(torch.tensor([0, 3, 1, 2]))
        '· c a b'
    """
    return " ".join(SYMBOLS[i] for i in listed_ids(ids, len(SYMBOLS)))


def listed_ids(ids: Tensor, size: int) -> list[int]:
    """Return the ids (n,) of one sentence as a list, each from 0 to ``size - 1``."""
    check_ids("ids", ids)
    if ids.dim() != 1:
        raise ValueError(f"ids must have one axis (n,); got shape {shape_of(ids)}")
    listed: list[int] = ids.tolist()
    if any(not 0 <= i < size for i in listed):
        raise ValueError(f"ids must lie between 0 and {size - 1}; got {listed}")
    return listed
