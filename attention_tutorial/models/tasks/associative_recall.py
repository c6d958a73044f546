"""Associative recall by one attention: a task that shows what the divisor of the scores and the first weights do.

A question shows some symbols, each with a content, and asks for the content of one of them. The asked symbol gives the
query, the shown ones give the keys, and the contents are the values. Several attentions are trained side by side from
different first weights, so that a result can be reported with its spread.
"""

import functools
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..._validation import check_generator, check_positive, check_size

__all__ = ["STARTS", "Questions", "Recall", "Trained", "learn_recall", "recall_questions"]

STARTS = 8  # attentions side by side, each from other first weights
SYMBOLS, SHOWN, CONTENTS = 32, 16, 8
BATCH, TESTED = 64, 500  # questions at a step, and after the training


class Questions(NamedTuple):
    """Questions for every start.

    Attributes:
        order: the symbols shown, int64 (starts, size, 16).
        content: their contents, int64 (starts, size, 16).
        place: which of the 16 is asked for, int64 (starts, size, 1).
    """

    order: Tensor
    content: Tensor
    place: Tensor


def recall_questions(size: int, generator: torch.Generator) -> Questions:
    """Draw questions: 16 different symbols of 32, each with one of 8 contents, and the place of the one asked for.

    Args:
        size: how many, for each start.
        generator: the randomness.

    Returns:
        The questions.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if ``size`` is below 1.

    Example:
        >>> [tuple(part.shape) for part in recall_questions(5, torch.Generator().manual_seed(0))]
        [(8, 5, 16), (8, 5, 16), (8, 5, 1)]
    """
    check_size("size", size, minimum=1)
    check_generator(generator)
    order = torch.rand(STARTS, size, SYMBOLS, generator=generator).argsort(dim=-1)
    content = torch.randint(CONTENTS, (STARTS, size, SHOWN), generator=generator)
    place = torch.randint(SHOWN, (STARTS, size, 1), generator=generator)
    return Questions(order[..., :SHOWN], content, place)


@functools.lru_cache(maxsize=1)
def _practice(seed: int, steps: int) -> tuple[Questions, ...]:
    """Return the questions of every step, and those of the test: the same for every model with this seed."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(recall_questions(size, generator) for size in [*[BATCH] * steps, TESTED])


class Recall:
    r"""Eight attentions side by side, each with one query a question.

    .. math:: s_j = \frac{(x_i W^Q)(x_j W^K)^\top}{\text{divisor}}

    Symbol :math:`i` is asked for and :math:`j` shown. The symbols' vectors :math:`x` are normal and stay. At the start
    the entries of :math:`W^Q` and :math:`W^K` have variance ``start**2 / features``, so that those of queries and keys
    have variance ``start**2``; the read-out, an 8 x 8 matrix after the weighted average, is three times the identity.

    Args:
        d_k: features of queries and keys.
        divisor: what the scores are divided by.
        start: the standard deviation of the entries of queries and keys at the start.
        features: those of a symbol's vector.
        seed: of the random numbers.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if a size is below 1, or ``divisor`` or ``start`` not above 0.

    Example:
        >>> Recall(64, 8.0).table().shape
        torch.Size([8, 32, 32])
    """

    def __init__(self, d_k: int, divisor: float, *, start: float = 1.0, features: int = 64, seed: int = 0) -> None:
        check_size("d_k", d_k, minimum=1)
        check_size("features", features, minimum=1)
        check_positive(divisor=divisor, start=start)
        generator = torch.Generator().manual_seed(seed)
        self.divisor = divisor
        self.x = torch.randn(STARTS, SYMBOLS, features, generator=generator)
        self.w_q, self.w_k = (
            torch.randn(STARTS, features, d_k, generator=generator) * (start / math.sqrt(features)) for _ in range(2)
        )
        self.readout = 3 * torch.eye(CONTENTS).repeat(STARTS, 1, 1)
        for w in (self.w_q, self.w_k, self.readout):
            w.requires_grad_()

    def table(self) -> Tensor:
        """Return the scores of every symbol, asked for, against every symbol, shown: (starts, 32, 32)."""
        return (self.x @ self.w_q) @ (self.x @ self.w_k).mT / self.divisor

    def answer(self, questions: Questions) -> tuple[Tensor, Tensor]:
        """Return the logits of the contents (starts, size, 8), and the scores (starts, size, 16) of each question."""
        order, content, place = questions
        asked = order.gather(-1, place).expand(-1, -1, SYMBOLS)
        scores = self.table().gather(1, asked).gather(2, order)  # of the asked symbol against the shown
        weights = scores.softmax(dim=-1)
        nothing = weights.new_zeros(*weights.shape[:2], CONTENTS)
        by_content = nothing.scatter_add(-1, content, weights)  # values are one-hot: weights with one content add up
        return by_content @ self.readout, scores

    def loss(self, questions: Questions) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss of each question (starts, size), whether it was answered right, and its scores."""
        logits, scores = self.answer(questions)
        wanted = questions.content.gather(-1, questions.place)[..., 0]
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
        return loss.view(wanted.shape), logits.argmax(-1) == wanted, scores

    def cosines(self) -> Tensor:
        """Return the cosine of the angle between each symbol's query and its own key, (starts, 32)."""
        return F.cosine_similarity(self.x @ self.w_q, self.x @ self.w_k, dim=-1).detach()


class Trained(NamedTuple):
    """The result of a training.

    Attributes:
        model: the attentions.
        history: share of right answers at each step, (starts, steps).
        accuracy: share of right answers to 500 new questions, (starts,).
    """

    model: Recall
    history: Tensor
    accuracy: Tensor


def learn_recall(
    d_k: int,
    divisor: float,
    rate: float,
    *,
    start: float = 1.0,
    rate_qk: float | None = None,
    features: int = 64,
    steps: int = 200,
    adam: bool = False,
    seed: int = 0,
) -> Trained:
    """Train the eight attentions by plain stochastic gradient descent, each step on 64 fresh questions.

    Args:
        d_k: features of queries and keys.
        divisor: what the scores are divided by.
        rate: the learning rate.
        start: the standard deviation of the entries of queries and keys at the start.
        rate_qk: the learning rate of the projections to queries and keys, if it is another one.
        features: those of a symbol's vector.
        steps: how many.
        adam: use Adam instead of plain gradient descent.
        seed: of the random numbers.

    Returns:
        The trained attentions, and how many questions they answered right.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if a size is below 1, or a rate, ``divisor`` or ``start`` not above 0.

    Example:
        >>> learn_recall(4, 2.0, 0.2, steps=1).accuracy.shape
        torch.Size([8])
    """
    check_size("steps", steps, minimum=1)
    check_positive(rate=rate, rate_qk=rate if rate_qk is None else rate_qk)
    model = Recall(d_k, divisor, start=start, features=features, seed=seed)
    *practice, test = _practice(seed + 1, steps)
    groups = [
        {"params": [model.w_q, model.w_k], "lr": rate if rate_qk is None else rate_qk},
        {"params": [model.readout], "lr": rate},
    ]
    optimizer: torch.optim.Optimizer = torch.optim.Adam(groups) if adam else torch.optim.SGD(groups)
    history = []
    for questions in practice:
        loss, right, _ = model.loss(questions)
        optimizer.zero_grad()
        loss.mean(dim=1).sum().backward()
        optimizer.step()
        history.append(right.double().mean(dim=1))
    with torch.no_grad():
        _, right, _ = model.loss(test)
    return Trained(model, torch.stack(history, dim=1), right.double().mean(dim=1))
