"""Translators that run, train, and have a fault, for the clinic of chapter 7b.

To find the faults by measuring, do not read this file first. Every fault is one line of code that people really write;
the rest is the healthy :class:`~attention_tutorial.models.transformer.Transformer`.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from .._validation import check_size
from ..data.copying import shift_right
from ..data.translation import (
    ENGLISH,
    ITALIAN,
    TranslationBatches,
    draw_sentences,
    encode_english,
    encode_italian,
    spell_italian,
)
from ..layers import MultiHeadAttention
from .decoding import greedy
from .training import sequence_loss
from .transformer import BEGIN, PAD, Memory, Transformer

__all__ = ["FAULTS", "FaultyModel", "load_faulty", "swap_keys_and_values", "train_faulty"]

FAULTS = (
    "healthy",
    "no shift",
    "mask too far",
    "padding open",
    "W^O missing",
    "keys and values exchanged",
)
Reads = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True, eq=False)
class FaultyModel:
    """A translator with at most one fault, as its owner hands it in: a patient of the clinic.

    Attributes:
        name: of the patient.
        network: the network, as it is used.
        losses: of its training, (steps,).
        reads: makes what its decoder reads in training, from the target and the id that begins.
        score: what its owner measured: the share of words of unseen sentences that its training step predicts.
    """

    name: str
    network: Transformer
    losses: Tensor
    reads: Reads = shift_right
    score: float = float("nan")

    @torch.no_grad()
    def step(self, source: Tensor, target: Tensor) -> Tensor:
        """Return what a training step predicts for each word of the target: logits (batch, m, ids)."""
        logits: Tensor = self.network(source, self.reads(target, BEGIN), need_weights=False)[0]
        return logits

    def write(self, source: Tensor, max_length: int = 20) -> list[str]:
        """Return its greedy translations."""
        return [spell_italian(ids) for ids in greedy(self.network, source, max_length).tokens]


# ---- The faults -----------------------------------------------------------------------------------------------------


def _not_shifted(target: Tensor, start: int) -> Tensor:
    return target


class _MaskTooFar(MultiHeadAttention):
    def attend(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, *, is_causal: bool = False,
        **others: Any,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        if is_causal:
            m, n = query.size(1), keys.size(2)
            triangle = torch.ones(m, n, dtype=torch.bool, device=query.device).tril(n - m + 1)
            mask = triangle if mask is None else mask & triangle
        return super().attend(query, keys, values, mask, **others)


class _PaddingOpen(Transformer):
    def encode(self, *inputs: Any, **others: Any) -> Memory:
        memory = super().encode(*inputs, **others)
        return memory._replace(mask=torch.ones_like(memory.mask))


def _attentions(network: Transformer) -> list[MultiHeadAttention]:
    return [module for module in network.modules() if isinstance(module, MultiHeadAttention)]


def swap_keys_and_values(network: Transformer) -> None:
    """Swap the matrices of keys and values in every attention, in place.

    Args:
        network: a translator.

    Example:
        >>> network = Transformer(9, 9, d_model=8, num_heads=2, d_ff=8)
        >>> before = network.encoder[0].attention.w_k
        >>> swap_keys_and_values(network)
        >>> network.encoder[0].attention.w_v is before
        True
    """
    for attention in _attentions(network):
        attention.w_k, attention.w_v = attention.w_v, attention.w_k


def _build(fault: str, seed: int, sizes: dict[str, Any]) -> Transformer:
    """Return an untrained network with the faults that are in its code."""
    kind = _PaddingOpen if fault == "padding open" else Transformer
    network = kind(len(ENGLISH), len(ITALIAN), **sizes, generator=torch.Generator().manual_seed(seed))
    if fault == "mask too far":
        for layer in network.decoder:
            layer.attention.__class__ = _MaskTooFar
    if fault == "W^O missing":
        for attention in _attentions(network):
            attention.w_o = nn.Identity()  # type: ignore[assignment]
    return network


# ---- Training -------------------------------------------------------------------------------------------------------


def train_faulty(
    fault: str, seeds: Sequence[int] = (0,), *, steps: int = 300, batch_size: int = 32, d_model: int = 32,
    num_heads: int = 4, decoder_layers: int = 1, batches: int = 0, change: Callable[[Transformer], None] | None = None,
) -> list[FaultyModel]:  # fmt: skip
    """Train translators with one fault, from several seeds on the same sentences.

    Args:
        fault: one of ``FAULTS``.
        seeds: where their first weights come from.
        steps: how long they are trained.
        batch_size: sentences in a batch.
        d_model: features; the feed-forward parts have twice as many.
        num_heads: heads of every attention.
        decoder_layers: layers of the decoder.
        batches: the seed that the sentences follow from.
        change: applied to each network before it is trained.

    Returns:
        A :class:`FaultyModel` for each seed.

    Raises:
        TypeError: if a size is not an int.
        ValueError: if the fault is unknown, or a size too small.

    Example:
        >>> (model,) = train_faulty("healthy", steps=2, batch_size=4, d_model=8, num_heads=2)
        >>> model.losses.shape
        torch.Size([2])
    """
    if fault not in FAULTS:
        raise ValueError(f"fault must be one of {', '.join(FAULTS)}; got {fault!r}")
    check_size("steps", steps, minimum=1)
    sizes = {"d_model": d_model, "d_ff": 2 * d_model, "num_heads": num_heads, "decoder_layers": decoder_layers}
    reads = _not_shifted if fault == "no shift" else shift_right
    models = []
    for seed in seeds:
        network = _build(fault, seed, sizes)
        if change is not None:
            change(network)
        log = _train(network, TranslationBatches(steps, batch_size=batch_size, seed=batches), reads)
        models.append(_with_score(FaultyModel(fault, network, log, reads)))
    if fault == "keys and values exchanged":  # after the training, where the model is converted for use
        for model in models:
            swap_keys_and_values(model.network)
    return models


def _train(network: Transformer, batches: TranslationBatches, reads: Reads) -> Tensor:
    """Train one network as `train` does, in less time; return the losses, (steps,)."""
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=len(batches))
    losses = []
    for source, target in batches:
        logits, _ = network(source, reads(target, BEGIN), need_weights=False)
        loss = sequence_loss(logits, target, padding=PAD)
        losses.append(loss.detach())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return torch.stack(losses)


def _with_score(model: FaultyModel, size: int = 100) -> FaultyModel:
    """Measure a model as its owner does."""
    unseen = draw_sentences(size, generator=torch.Generator().manual_seed(5), held_out=True)
    target = encode_italian([each.italian for each in unseen])
    predicted = model.step(encode_english([each.english for each in unseen]), target).argmax(dim=-1)
    return replace(model, score=(predicted == target)[target != PAD].double().mean().item())


def load_faulty(names: str = "Ada Bruno Carla Dario Elsa Fabio Gina", *, steps: int = 300) -> list[FaultyModel]:
    """Train the six patients of the clinic, and one who is healthy (20 seconds on one core).

    Args:
        names: seven names, with blanks between them; the last is that of the healthy one.
        steps: of training; some have less.

    Returns:
        The patients, always in the same order, which says nothing.

    Raises:
        ValueError: if there are not seven names.
    """
    split = names.split()
    if len(split) != 7:
        raise ValueError(f"names must be 7; got {len(split)}")
    chosen = (("padding open", 1.0), ("mask too far", 0.6), ("W^O missing", 1.0), ("healthy", 0.6),
              ("healthy", 1.0), ("no shift", 0.4))  # fmt: skip
    models = [train_faulty(fault, (seed,), steps=round(share * steps))[0]
              for seed, (fault, share) in enumerate(chosen)]  # fmt: skip
    models.append(replace(models[4], network=deepcopy(models[4].network)))
    swap_keys_and_values(models[4].network)  # one training, and two copies: this one was converted
    return [replace(model, name=name) for model, name in zip(models, split, strict=True)]
