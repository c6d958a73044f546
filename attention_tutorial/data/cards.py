"""Rows of cards and four questions about them, each best answered with one pattern of attention.

The patterns, diagonal, vertical, block and sparse, are measured by
:mod:`attention_tutorial.analysis.attention_patterns`.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from .._validation import check_generator, check_size

__all__ = ["LETTERS", "QUESTIONS", "CardRows", "card_rows"]

LETTERS = "abcdef"
QUESTIONS = ("left", "first", "group", "friend")


@dataclass(frozen=True)
class CardRows:
    """Rows of cards, and the answers to four questions at each card.

    Attributes:
        letter: the letter on each card, (rows, n), 0 to 5 for ``LETTERS``.
        name: the card's own name, (rows, n); no two cards of a row share one.
        wanted: the name of the card's friend, (rows, n).
        group: the number of the card's group, (rows, n); the cards of a group lie side by side.
        friend: the position at which the friend lies, (rows, n). It is not shown on the card.
        real: (rows, n), False where a shorter row was filled up.
        answers: the letters asked for, (rows, n, 4), in the order of ``QUESTIONS``.
        asked: (rows, n, 4), False at padding, and for the left neighbour of the first card, which has none.
    """

    letter: Tensor
    name: Tensor
    wanted: Tensor
    group: Tensor
    friend: Tensor
    real: Tensor
    answers: Tensor
    asked: Tensor

    def at(self, rows: Tensor) -> "CardRows":
        """Return some of the rows."""
        return CardRows(*(getattr(self, field.name)[rows] for field in fields(self)))

    def to(self, device: torch.device | str) -> "CardRows":
        """Return the rows on another device."""
        return CardRows(*(getattr(self, field.name).to(device) for field in fields(self)))


def card_rows(size: int, *, generator: torch.Generator, fewest: int = 12, most: int = 16) -> CardRows:
    """Draw rows of cards, and ask at every card for the letter on four others.

    Every card shows a letter, its name, the name of its friend and the number of its group. The questions: which letter
    is on the card to the left; on the first card; on most cards of the group; on the friend's card? Groups have 3 to 5
    cards (the last may be cut short), and one letter is on more than half of them.

    Args:
        size: number of rows.
        generator: source of randomness, on the CPU.
        fewest: cards in the shortest row.
        most: cards in the longest row; shorter ones are filled up to it.

    Returns:
        The rows as :class:`CardRows`.

    Raises:
        TypeError: if a size is not an int, or ``generator`` not a ``torch.Generator``.
        ValueError: if ``size`` is below 1, ``fewest`` below 2, ``most`` below ``fewest``, or ``generator`` is not on
            the CPU.

    Example:
        >>> drawn = card_rows(1, generator=torch.Generator().manual_seed(0), fewest=3, most=3)
        >>> drawn.letter.shape, drawn.answers.shape
        (torch.Size([1, 3]), torch.Size([1, 3, 4]))
    """
    check_size("size", size, minimum=1)
    check_size("fewest", fewest, minimum=2)
    check_size("most", most)
    check_generator(generator)
    if most < fewest:
        raise ValueError(f"most must be at least fewest; got most={most}, fewest={fewest}")

    def shuffled() -> Tensor:  # (size, most): numbers in random order, in each row
        return torch.rand(size, most, generator=generator, device="cpu", dtype=torch.float64)

    count = torch.randint(fewest, most + 1, (size, 1), generator=generator, device="cpu")
    position = torch.arange(most, device="cpu")
    real = position < count  # (size, most)
    ends = torch.randint(3, 6, (size, most // 3 + 1), generator=generator, device="cpu").cumsum(dim=1)
    group = (position[:, None] >= ends[:, None, :]).sum(dim=-1)
    # In each group, the cards that come first in a random order carry its letter, the others any letter.
    order = shuffled()
    same = (group[:, :, None] == group[:, None, :]) & real[:, None, :]
    place = (same & (order[:, None, :] < order[:, :, None])).sum(dim=-1)
    of_group = torch.randint(len(LETTERS), (size, most // 3 + 1), generator=generator, device="cpu").gather(1, group)
    any_letter = torch.randint(len(LETTERS), (size, most), generator=generator, device="cpu")
    letter = torch.where(place <= same.sum(dim=-1) // 2, of_group, any_letter)
    name = shuffled().argsort(dim=1)
    step = torch.randint(1, 10**6, (size, most), generator=generator, device="cpu") % (count - 1) + 1
    friend = torch.where(real, (position + step) % count, 0)  # any real card but the card itself
    left = torch.cat([letter[:, :1], letter[:, :-1]], dim=1)
    answers = torch.stack([left, letter[:, :1].expand_as(letter), of_group, letter.gather(1, friend)], dim=-1)
    asked = real[:, :, None].repeat(1, 1, len(QUESTIONS))
    asked[:, 0, QUESTIONS.index("left")] = False
    return CardRows(letter, name, name.gather(1, friend), group, friend, real, answers, asked)
