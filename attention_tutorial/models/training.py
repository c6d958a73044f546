"""One training loop for all models of the chapters, one model alone or several side by side, and their accuracy."""

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from .._validation import check_float_tensor, check_ids, check_positive, check_size, shape_of
from ..data.copying import START, shift_right
from .seq2seq import Seq2Seq

__all__ = ["sequence_loss", "share_right", "token_accuracy", "train", "train_ensemble"]

Batch = tuple[Tensor, Tensor]


class Batches(Protocol):
    """What `train` iterates over: a list of batches, or anything else with a length."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Batch]: ...


def sequence_loss(logits: Tensor, target: Tensor, *, padding: int | None = None) -> Tensor:
    r"""Average the surprise at the right tokens (the cross-entropy, in nats).

    .. math:: L = -\frac{1}{m} \sum_{i=1}^{m} \log p_i(y_i), \qquad p_i = \operatorname{softmax}(\text{logits}_i)

    Args:
        logits: (batch, m, vocab_size).
        target: token ids (batch, m).
        padding: the id that fills up short targets; its positions do not count. ``None`` counts all.

    Returns:
        One number, the mean over positions and sequences; 0 where no position counts.

    Raises:
        TypeError: if ``logits`` is not a float tensor, or ``target`` not an int64 tensor.
        ValueError: if the shapes do not fit together.

    Example:
        >>> round(sequence_loss(torch.zeros(1, 2, 10), torch.tensor([[3, 7]])).item(), 4)  # ln 10
        2.3026
    """
    check_float_tensor("logits", logits)
    check_ids("target", target)
    if logits.shape[:-1] != target.shape:
        raise ValueError("logits must be (batch, m, vocab_size) for target (batch, m); "
                         f"got logits {shape_of(logits)}, target {shape_of(target)}")  # fmt: skip
    ignored = -100 if padding is None else padding  # (-100 is no id)
    loss = F.cross_entropy(logits.flatten(0, -2), target.flatten(), ignore_index=ignored)
    return loss.masked_fill((target == ignored).all(), 0.0)


def train(
    models: nn.Module | Sequence[nn.Module],
    batches: Batches,
    *,
    learning_rate: float = 1e-2,
    max_norm: float = 1.0,
    start: int = START,
    padding: int | None = None,
    reads: Callable[[Tensor, int], Tensor] = shift_right,
    description: str = "training",
) -> Tensor:
    """Train one model, or several of one architecture side by side, to predict each next token of the target.

    Each model sees its own data and takes its own steps, just as if it were trained alone; side by side they share
    the cost of Python. The steps are Adam's (Kingma & Ba, 2015), with a learning rate that rises and falls once
    and gradients clipped to the norm ``max_norm`` (Pascanu et al., 2013). The decoder reads the right tokens,
    whatever it would have predicted itself ("teacher forcing").

    Args:
        models: one model, or a sequence of models of one class and size; trained in place.
        batches: a sized collection of ``(source, target)``: token ids (batch, n) and (batch, m), for several models
            (models, batch, n) and (models, batch, m).
        learning_rate: the highest one.
        max_norm: largest norm of one model's gradient.
        start: the id that stands before the first token of a target.
        padding: the id that fills up short targets; the model learns nothing from its positions. ``None`` for none.
        reads: makes what the decoder reads of the target and ``start``; all but ``shift_right`` are mistakes to learn
            from.
        description: the words beside the progress bar.

    Returns:
        The losses before each step, (steps,) for one model, (steps, models) for several; on the CPU.

    Raises:
        TypeError: if ``models`` or ``batches`` is of another kind.
        ValueError: if there is no model or batch, a rate is not above 0, or a batch does not fit the models.

    Example:
        >>> from attention_tutorial.data.copying import CopyBatches
        >>> model = Seq2Seq(vocab_size=4, d_hidden=8, attention="dot", generator=torch.Generator().manual_seed(0))
        >>> losses = train(model, CopyBatches(60, max_length=2, num_symbols=3), learning_rate=0.05)
        >>> losses.shape, bool(losses[-1] < 0.5 * losses[0])
        (torch.Size([60]), True)
    """
    ensemble = _check_models(models)
    several = not isinstance(models, nn.Module)
    _check_batches(batches)
    check_size("start", start)
    if padding is not None:
        check_size("padding", padding)

    def loss(model: Callable[..., Any], source: Tensor, target: Tensor) -> Tensor:
        return sequence_loss(model(source, reads(target, start))[0], target, padding=padding)

    def checked() -> Iterator[Batch]:
        for source, target in _progress(batches, description):
            _check_batch(source, target, len(ensemble) if several else None)
            yield (source, target) if several else (source[None], target[None])

    losses = _fit(ensemble, checked(), len(batches), loss, learning_rate, max_norm=max_norm)
    return losses if several else losses[:, 0]


def train_ensemble(
    models: Sequence[nn.Module],
    batches: Iterable[Sequence[Tensor]],
    *,
    learning_rate: float = 1e-2,
    weight_decay: float = 0.0,
) -> list[Any]:
    """Train models of one kind side by side, in place, each as if alone, with AdamW and a one-cycle schedule.

    They differ in their first weights, so that a result can be reported with its spread. A model returns
    ``(logits, weights)``, and its loss is the cross-entropy of the logits.

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

    Example:
        >>> from attention_tutorial.models.tasks.two_lookups import LookUp, draw_rounds
        >>> models, generator = [LookUp(seed, heads=2) for seed in range(3)], torch.Generator().manual_seed(0)
        >>> len(train_ensemble(models, [draw_rounds(3, 8, generator) for _ in range(2)]))
        3
    """
    models, batches = list(models), list(batches)
    if not models or not batches:
        raise ValueError(f"models and batches must not be empty; got {len(models)} and {len(batches)}")

    def loss(model: Callable[..., Any], *batch: Tensor) -> Tensor:
        *inputs, right = batch
        return F.cross_entropy(model(*inputs)[0].flatten(0, -2), right.flatten())

    _fit(models, batches, len(batches), loss, learning_rate, weight_decay=weight_decay)
    return models


def _fit(
    models: Sequence[nn.Module],
    batches: Iterable[Sequence[Tensor]],
    steps: int,
    loss: Callable[..., Tensor],
    learning_rate: float,
    *,
    weight_decay: float = 0.0,
    max_norm: float = math.inf,
) -> Tensor:
    """Take a step for each batch with all models at once, in place; return the losses before each (steps, models)."""
    check_positive(learning_rate=learning_rate, max_norm=max_norm)
    stacked, _ = stack_module_state(models)  # every parameter gets a first axis: the models
    parameters = list(stacked.values())
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=steps)

    def loss_of_one(state: dict[str, Tensor], *batch: Tensor) -> Tensor:
        return loss(lambda *inputs: functional_call(models[0], state, inputs), *batch)

    def loss_of_the_first(state: dict[str, Tensor], *batch: Tensor) -> Tensor:  # of one alone, where vmap costs time
        return loss_of_one({name: x[0] for name, x in state.items()}, *(x[0] for x in batch))[None]

    losses_of = loss_of_the_first if len(models) == 1 else vmap(loss_of_one)
    history = []
    for batch in batches:
        losses = losses_of(stacked, *(x.to(parameters[0].device) for x in batch))  # (models,)
        optimizer.zero_grad()
        losses.sum().backward()
        _clip(parameters, max_norm)
        optimizer.step()
        schedule.step()
        history.append(losses.detach())
    with torch.no_grad():
        for i, model in enumerate(models):
            for name, parameter in model.named_parameters():
                parameter.copy_(stacked[name][i])
    return torch.stack(history).cpu()


def _clip(parameters: Sequence[Tensor], max_norm: float) -> None:
    """Scale each model's gradient (first axis: models) down to a norm of at most ``max_norm``, over all parameters.

    For one model it is ``torch.nn.utils.clip_grad_norm_``.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    squares = torch.stack([gradient.flatten(1).square().sum(dim=1) for gradient in gradients]).sum(dim=0)
    factor = (max_norm / (squares.sqrt() + 1e-6)).clamp(max=1.0)  # (models,)
    for gradient in gradients:
        gradient.mul_(factor.view(-1, *[1] * (gradient.dim() - 1)))


@torch.no_grad()
def token_accuracy(model: Seq2Seq, source: Tensor, target: Tensor) -> Tensor:
    """Let the model decode greedily, and return the share of right tokens at each position.

    Args:
        model: the encoder-decoder; it feeds its own tokens back.
        source: token ids (batch, n).
        target: token ids (batch, m).

    Returns:
        (m,), between 0 and 1, float64 on the CPU; its mean is the token accuracy.

    Raises:
        TypeError: if ``model`` is not a ``Seq2Seq``, or the ids are not int64 tensors.
        ValueError: if the shapes do not fit together.

    Example:
        >>> source = torch.tensor([[1, 2], [3, 1]])
        >>> token_accuracy(Seq2Seq(vocab_size=4), source, source).shape
        torch.Size([2])
    """
    if not isinstance(model, Seq2Seq):
        raise TypeError(f"model must be a Seq2Seq; got {type(model).__name__}")
    check_ids("source", source)
    check_ids("target", target)
    if source.dim() != 2 or target.dim() != 2 or source.size(0) != target.size(0):
        raise ValueError("source and target need two axes (batch, positions) and the same batch size (axis 0); "
                         f"got source {shape_of(source)}, target {shape_of(target)}")  # fmt: skip
    device = next(model.parameters()).device
    tokens, _ = model.generate(source.to(device), target.size(1))
    return (tokens.cpu() == target.cpu()).double().mean(dim=0)


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


def _progress(batches: Batches, description: str) -> Iterable[Batch]:
    """Show a bar to a person at a terminal or in a live notebook; show nothing under tests or where asked not to."""
    asked_not_to = os.environ.get("ATTENTION_TUTORIAL_PROGRESS") == "0"
    tested = "PYTEST_CURRENT_TEST" in os.environ or "PYTEST_VERSION" in os.environ
    live = sys.stderr.isatty() or "ipykernel" in sys.modules
    if asked_not_to or tested or not live:
        return batches
    from tqdm.auto import tqdm  # only here: importing the package needs torch alone

    bar: Iterable[Batch] = tqdm(batches, desc=description, leave=False)
    return bar


def _check_models(models: Any) -> list[nn.Module]:
    """Return a list of the models; require them to be modules of one kind."""
    if isinstance(models, nn.Module):
        return [models]
    if not isinstance(models, Sequence) or not all(isinstance(model, nn.Module) for model in models):
        raise TypeError(f"models must be a module or a sequence of modules; got {type(models).__name__}")
    if len(models) == 0:
        raise ValueError("models must hold at least one model; got none")
    for i, other in enumerate(models):
        if _kind(other) != _kind(models[0]):
            raise ValueError("models must all be of one class and size; "
                             f"expected that of model 0, got another for model {i}")  # fmt: skip
    return list(models)


def _kind(model: nn.Module) -> tuple[Any, ...]:
    """Return what two models must share to be trained side by side."""
    return type(model), repr(model), [(name, shape_of(parameter)) for name, parameter in model.named_parameters()]


def _check_batches(batches: Any) -> None:
    if not isinstance(batches, Iterable) or not isinstance(batches, Sized):
        raise TypeError(f"batches must be a sized collection of (source, target); got {type(batches).__name__}")
    if len(batches) == 0:
        raise ValueError("batches must hold at least one batch; got none")


def _check_batch(source: Any, target: Any, num_models: int | None) -> None:
    for name, ids, axis in (("source", source, "n"), ("target", target, "m")):
        check_ids(name, ids)
        if num_models is None and ids.dim() != 2:
            raise ValueError(f"{name} must be (batch, {axis}); got shape {shape_of(ids)}")
        if num_models is not None and (ids.dim() != 3 or ids.size(0) != num_models):
            raise ValueError(
                f"{name} must be (models, batch, {axis}) with models={num_models}; got shape {shape_of(ids)}"
            )
