"""Models of one kind, trained side by side from different starts, so that a result can be told with its spread."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from .._validation import check_positive
from .training import copy_back

__all__ = ["share_right", "train_team"]


def train_team(
    models: Sequence[nn.Module],
    batches: Iterable[Sequence[Tensor]],
    *,
    learning_rate: float = 1e-2,
    weight_decay: float = 0.0,
) -> list[Any]:
    """Train models of one kind side by side, in place, with AdamW and a one-cycle schedule.

    A model returns ``(logits, weights)``, and its loss is the cross-entropy of the logits.

    Args:
        models: models that differ in their parameters alone.
        batches: for each step the tensors that a model takes, then the right answers; each tensor has an axis in front
            for the models.
        learning_rate: the highest of the schedule.
        weight_decay: of AdamW.

    Returns:
        The models.

    Raises:
        TypeError: if ``learning_rate`` is no number.
        ValueError: if ``learning_rate`` is not above 0, or there is no model or no batch.
    """
    check_positive(learning_rate=learning_rate)
    models, batches = list(models), list(batches)
    if not models or not batches:
        raise ValueError(f"models and batches must not be empty; got {len(models)} and {len(batches)}")
    parameters, _ = stack_module_state(models)
    optimizer = torch.optim.AdamW(parameters.values(), lr=learning_rate, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=len(batches))
    device = next(iter(parameters.values())).device

    def loss(parameters: dict[str, Tensor], *batch: Tensor) -> Tensor:
        *inputs, right = batch
        logits, _ = functional_call(models[0], parameters, tuple(inputs))
        return F.cross_entropy(logits.flatten(0, -2), right.flatten())

    for batch in batches:
        total = vmap(loss)(parameters, *(x.to(device) for x in batch)).sum()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        schedule.step()
    copy_back(parameters, models)
    return models


@torch.no_grad()
def share_right(model: nn.Module, inputs: Sequence[Tensor], right: Tensor) -> Tensor:
    """Return the share of right answers to each question.

    Args:
        model: returns ``(logits, weights)``, the logits of shape (size, questions, answers).
        inputs: what it takes.
        right: the right answers (size, questions).

    Returns:
        The shares (questions,), on the CPU.
    """
    device = next(model.parameters()).device
    logits, _ = model(*(x.to(device) for x in inputs))
    return (logits.argmax(-1).cpu() == right.cpu()).double().mean(dim=0)
