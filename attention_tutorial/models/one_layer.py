"""One layer of attention that learns a small task: the model that the book's page trains, in PyTorch.

The page computes forward, backward and Adam's steps by hand; here PyTorch does. First weights and data are drawn alike
(:mod:`attention_tutorial.data.synthetic`), everything is in float64, and so the numbers are the same, but for rounding.
"""

import math
from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._validation import check_flag, check_ids, check_positive, check_size
from ..data.synthetic import SYNTHETIC_TASKS, normal_numbers, uniform_numbers
from ..functional import scaled_dot_product_attention
from ..positions import sinusoidal_positions

__all__ = ["OneLayer", "OneLayerTraining", "evaluate_one_layer", "train_one_layer", "write_on"]

D_MODEL = 32
BATCH, HELD_OUT = 32, 512  # sequences in a step, and those that all models of a task are tested on
# The streams of random numbers, so that a model with another size or switch has the rest alike.
EMBEDDING, QUERY, KEY, VALUE, OUTPUT, POSITIONS, BATCHES, TEST = range(8)

Divisor = Literal["one", "root", "width"]
Positions = Literal["none", "sines", "learned"]


class OneLayer(nn.Module):
    r"""Embeddings, one attention of h heads, and a matrix that gives the answer. No residual connection, no bias.

    .. math:: X = E_{\text{ids}} + P, \qquad \text{logits} = [H_1, \ldots, H_h]\, W^O

    .. math:: H_i = \operatorname{softmax}\!\left(\frac{X W^Q_i (X W^K_i)^\top}{\text{divisor}}\right) X W^V_i

    At the start the entries of E and of learned positions have variance 1/2, as those of sines and cosines have, and
    the entries of the matrices have variance one over the number of their rows.

    Args:
        task: one of ``SYNTHETIC_TASKS``.
        heads: number of heads h.
        d_head: features of a query, a key and a value of one head.
        divisor: what the scores are divided by: 1 (``"one"``), the square root of d_head (``"root"``) or d_head
            (``"width"``).
        causal: mask the future.
        positions: ``"none"``, ``"sines"`` or ``"learned"``.
        seed: of the first weights.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if a size is below 1, or ``task``, ``divisor`` or ``positions`` unknown.

    Example:
        >>> model = OneLayer("bites", heads=2, positions="learned")
        >>> logits, weights = model(torch.tensor([[0, 8, 2]]))  # dog bites man
        >>> logits.shape, weights.shape
        (torch.Size([1, 3, 8]), torch.Size([1, 2, 3, 3]))

    Source:
        Vaswani et al. (2017), section 3.2.2.
    """

    def __init__(
        self,
        task: str,
        *,
        heads: int = 1,
        d_head: int = 16,
        divisor: Divisor = "root",
        causal: bool = False,
        positions: Positions = "none",
        seed: int = 0,
    ) -> None:
        super().__init__()
        _check_choice("task", task, tuple(SYNTHETIC_TASKS))
        _check_choice("divisor", divisor, get_args(Divisor))
        _check_choice("positions", positions, get_args(Positions))
        check_size("heads", heads, minimum=1)
        check_size("d_head", d_head, minimum=1)
        check_flag("causal", causal)
        self.task, self.heads, self.causal = SYNTHETIC_TASKS[task], heads, causal
        self.divisor = {"one": 1.0, "root": math.sqrt(d_head), "width": float(d_head)}[divisor]

        def matrix(rows: int, columns: int, stream: int) -> Tensor:
            return normal_numbers(rows, columns, seed=seed, stream=stream)

        n, width = self.task.length, heads * d_head
        self.embedding = nn.Parameter(matrix(len(self.task.words), D_MODEL, EMBEDDING) * math.sqrt(0.5))
        # Drawn feature by feature, so that more features begin with the same ones as fewer.
        self.w_q, self.w_k, self.w_v = (
            nn.Parameter(matrix(width, D_MODEL, stream).T / math.sqrt(D_MODEL)) for stream in (QUERY, KEY, VALUE)
        )
        self.w_o = nn.Parameter(matrix(width, len(self.task.answers), OUTPUT) / math.sqrt(width))
        if positions == "learned":
            self.positions = nn.Parameter(matrix(n, D_MODEL, POSITIONS) * math.sqrt(0.5))
        else:
            sines = sinusoidal_positions(n, D_MODEL, dtype=torch.float64)
            self.register_buffer("positions", sines if positions == "sines" else torch.zeros_like(sines))

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits (batch, n, answers) and the weights (batch, heads, n, n) of sequences (batch, n)."""
        x = self.embedding[ids] + self.positions[: ids.size(1)]  # (batch, n, d_model)
        query, key, value = (
            (x @ w).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (batch, heads, n, d_head)
            for w in (self.w_q, self.w_k, self.w_v)
        )
        output, weights = scaled_dot_product_attention(query, key, value, is_causal=self.causal, scale=1 / self.divisor)
        return output.transpose(1, 2).flatten(2) @ self.w_o, weights


class OneLayerTraining(NamedTuple):
    """A trained model, and what was measured in each step, before it was taken.

    Attributes:
        model: the model.
        loss: the mean cross-entropy of the step's sequences in nats, (steps,).
        accuracy: the share of right answers, (steps,).
        query_gradient: the length of the gradient of W^Q, (steps,).
    """

    model: OneLayer
    loss: Tensor
    accuracy: Tensor
    query_gradient: Tensor


def train_one_layer(
    task: str,
    *,
    steps: int = 400,
    rate: float = 0.01,
    heads: int = 1,
    d_head: int = 16,
    divisor: Divisor = "root",
    causal: bool = False,
    positions: Positions = "none",
    seed: int = 0,
) -> OneLayerTraining:
    """Train one layer of attention by Adam, each step on 32 fresh sequences.

    Args:
        task: one of ``SYNTHETIC_TASKS``.
        steps: how many.
        rate: Adam's learning rate.
        heads: as are the next four, of :class:`OneLayer`.
        d_head: features of a head.
        divisor: of the scores.
        causal: mask the future.
        positions: how positions are told.
        seed: of the first weights and of the sequences.

    Returns:
        The model, and what was measured.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if a size is below 1, ``rate`` not above 0, or a choice unknown.

    Example:
        >>> trained = train_one_layer("bites", positions="learned", steps=200)
        >>> bool(trained.accuracy[0] < 0.5), bool(trained.accuracy[-1] > 0.9)
        (True, True)

    Source:
        Adam: Kingma & Ba (2015).
    """
    check_size("steps", steps, minimum=1)
    check_positive(rate=rate)
    model = OneLayer(
        task, heads=heads, d_head=d_head, divisor=divisor, causal=causal, positions=positions, seed=seed
    )  # fmt: skip
    draws = uniform_numbers(steps * BATCH, model.task.draws, seed=seed, stream=BATCHES)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    measured = []
    for ids, targets in zip(*(part.split(BATCH) for part in model.task.make(draws)), strict=True):
        loss, accuracy = _compare(model, ids, targets)
        optimizer.zero_grad()
        loss.backward()
        gradient = model.w_q.grad
        assert gradient is not None
        measured.append(torch.stack([loss.detach(), accuracy, gradient.norm()]))
        optimizer.step()
    return OneLayerTraining(model, *torch.stack(measured, dim=1))


def _compare(model: OneLayer, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss and the share of right answers, where a target is asked for."""
    logits, _ = model(ids)
    asked = targets >= 0
    correct = logits.detach()[asked].argmax(dim=-1) == targets[asked]
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1), correct.double().mean()


@torch.no_grad()
def evaluate_one_layer(model: OneLayer) -> tuple[float, float]:
    """Return the loss and the share of right answers, of 512 sequences drawn for this alone.

    They are the same for every model of a task. Where a task has few different sequences, training has seen them too.

    Args:
        model: the model.

    Returns:
        ``(loss, accuracy)``: the mean cross-entropy in nats, and a number from 0 to 1.

    Example:
        >>> loss, accuracy = evaluate_one_layer(OneLayer("bites"))
        >>> accuracy < 0.5
        True
    """
    draws = uniform_numbers(HELD_OUT, model.task.draws, seed=0, stream=TEST)
    loss, accuracy = _compare(model, *model.task.make(draws))
    return loss.item(), accuracy.item()


@torch.no_grad()
def write_on(model: OneLayer, prompt: Tensor, count: int) -> Tensor:
    r"""Let a model write on, one token after the other: each is the likeliest after those before it.

    .. math:: y_{t+1} = \arg\max_y\; p(y \mid y_1, \ldots, y_t)

    It reads only as many of the last tokens as a sequence of its task has.

    Args:
        model: a model whose answers are tokens, such as that of the task ``"write_on"``.
        prompt: int64, (batch, n).
        count: how many tokens to write.

    Returns:
        The tokens written, (batch, count).

    Raises:
        TypeError: if ``prompt`` is not an int64 tensor, or ``count`` not an int.
        ValueError: if ``count`` is negative.

    Example:
        >>> write_on(OneLayer("write_on", causal=True), torch.tensor([[0, 1, 2]]), 9).shape
        torch.Size([1, 9])
    """
    check_ids("prompt", prompt)
    check_size("count", count)
    text = prompt
    for _ in range(count):
        logits, _ = model(text[:, -model.task.length :])
        text = torch.cat([text, logits[:, -1:].argmax(dim=-1)], dim=1)
    return text[:, prompt.size(1) :]


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
