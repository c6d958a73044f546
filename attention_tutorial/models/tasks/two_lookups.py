"""Two look-ups at once: eight people hold one thing each, and a model must answer what two of them hold."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..._validation import check_generator, check_size
from ...layers import MultiHeadAttention
from ..training import share_right, train_ensemble

__all__ = ["LookUp", "Rounds", "draw_rounds", "learn_look_up", "look_up_scores"]

NAMES, THINGS = 8, 6


class Rounds(NamedTuple):
    """Rounds of the game, for several models.

    Attributes:
        held: what each person holds, int64 (models, size, people).
        asked: the two persons asked for, int64 (models, size, 2).
        right: what they hold, int64 (models, size, 2), each counted within its kind.
    """

    held: Tensor
    asked: Tensor
    right: Tensor


def draw_rounds(models: int, size: int, generator: torch.Generator, *, kinds: int = 1) -> Rounds:
    """Draw what everybody holds, the two persons asked for, and the two right answers.

    Args:
        models: how many models.
        size: rounds for each.
        generator: source of randomness, on the CPU.
        kinds: with 1 the two persons are different ones of eight, who hold things of one kind. With 2 the second is one
            of eight further persons, who hold things of another kind.

    Returns:
        The rounds.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if a number is below 1, or ``kinds`` above 2.

    Example:
        >>> [tuple(part.shape) for part in draw_rounds(5, 64, torch.Generator().manual_seed(0))]
        [(5, 64, 8), (5, 64, 2), (5, 64, 2)]
    """
    check_size("models", models, minimum=1)
    check_size("size", size, minimum=1)
    check_size("kinds", kinds, minimum=1)
    check_generator(generator)
    if kinds > 2:
        raise ValueError(f"kinds must be 1 or 2; got {kinds}")

    def whole(high: int, *more: int) -> Tensor:
        return torch.randint(high, (models, size, *more), generator=generator)

    held, one, other = whole(THINGS, NAMES * kinds), whole(NAMES), whole(NAMES - 1)
    other = (one + 1 + other) % NAMES if kinds == 1 else (one + other) % NAMES
    asked = torch.stack([one, other], dim=-1)
    right = held.gather(-1, asked + torch.tensor([0, NAMES * (kinds - 1)]))
    if kinds == 2:
        held[..., NAMES:] += THINGS
    return Rounds(held, asked, right)


class LookUp(nn.Module):
    r"""Answer both questions through one attention layer: names make the keys, things the values.

    The query is the sum of two learned vectors, one for the person asked for first and one for the second. A linear map
    reads both answers from the layer's output. The queries' matrix starts at zero, so that every head begins as a plain
    average.

    Args:
        seed: of the start.
        heads: number of heads; each has ``d_model // heads`` features.
        kinds: as in :func:`draw_rounds`.
        hidden: width of a hidden layer before the read-out; none if 0.
        d_model: features of names, things and queries.

    Raises:
        TypeError: if an argument is no int.
        ValueError: if a size is below 1, or ``hidden`` below 0.

    Example:
        >>> held, asked, _ = (part[0] for part in draw_rounds(1, 5, torch.Generator().manual_seed(0)))
        >>> logits, weights = LookUp(seed=0, heads=2)(held, asked)
        >>> logits.shape, weights.shape
        (torch.Size([5, 2, 6]), torch.Size([5, 2, 8]))
    """

    def __init__(self, seed: int, heads: int, *, kinds: int = 1, hidden: int = 0, d_model: int = 32) -> None:
        super().__init__()
        check_size("kinds", kinds, minimum=1)
        check_size("hidden", hidden)
        torch.manual_seed(seed)
        self.asks_first, self.asks_second, self.names, self.things = (
            nn.Parameter(torch.randn(count, d_model)) for count in (NAMES, NAMES, NAMES * kinds, THINGS * kinds)
        )
        self.attention = MultiHeadAttention(d_model, heads)
        nn.init.zeros_(self.attention.w_q.weight)
        behind = [nn.Linear(d_model, hidden), nn.ReLU()] if hidden else []
        self.read = nn.Sequential(*behind, nn.Linear(hidden or d_model, 2 * THINGS))

    def forward(self, held: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits and the weights.

        Args:
            held: what each person holds (batch, people).
            asked: the persons asked for (batch, 2).

        Returns:
            ``(logits, weights)``: (batch, 2, things) and (batch, heads, people).
        """
        query = self.asks_first[asked[:, 0]] + self.asks_second[asked[:, 1]]
        key = self.names.expand(len(held), -1, -1)
        output, weights = self.attention(query[:, None], key, self.things[held])
        assert weights is not None
        return self.read(output[:, 0]).unflatten(-1, (2, THINGS)), weights[:, :, 0]


def learn_look_up(models: Sequence[LookUp], *, steps: int = 150, batch: int = 64, kinds: int = 1) -> list[LookUp]:
    """Train models side by side, in place.

    Args:
        models: models that differ in their parameters alone.
        steps: how many.
        batch: rounds at a step.
        kinds: as in :func:`draw_rounds`.

    Returns:
        The models.
    """
    generator = torch.Generator().manual_seed(0)
    return train_ensemble(models, [draw_rounds(len(models), batch, generator, kinds=kinds) for _ in range(steps)])


def look_up_scores(models: Sequence[LookUp], *, kinds: int = 1) -> Tensor:
    """Measure how often models answer correctly, in 1000 new rounds.

    Args:
        models: the models.
        kinds: as in :func:`draw_rounds`.

    Returns:
        The share of right answers, (models, 2 questions).
    """
    generator = torch.Generator().manual_seed(1)
    held, asked, right = (part[0] for part in draw_rounds(1, 1000, generator, kinds=kinds))
    return torch.stack([share_right(model, (held, asked), right) for model in models])
