"""Translators that run, train, and have something wrong with them, for the clinic of chapter 7.

Who wants to find out by measuring should not read this file first. Every fault is one line of code that people really
write; the rest of a patient is the healthy :class:`~attention_tutorial.models.transformer.Transformer`.
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
from .training import train
from .transformer import BEGIN, PAD, Memory, Transformer

__all__ = ["FAULTS", "Patient", "admit", "exchange", "translators_with"]

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
class Patient:
    """A translator as its owner hands it in.

    Attributes:
        name: who it is.
        network: the network, as it is used.
        losses: the log of its training, (steps,).
        reads: what its decoder reads in training, from the target and the id that begins.
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
        """Return the Italian that it writes by itself, word by word."""
        return [spell_italian(ids) for ids in greedy(self.network, source, max_length).tokens]


# ---- The faults -----------------------------------------------------------------------------------------------------


def _not_moved(target: Tensor, start: int) -> Tensor:
    return target


class _Wide(MultiHeadAttention):
    def attend(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, *, is_causal: bool = False,
        **others: Any,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        if is_causal:
            m, n = query.size(1), keys.size(2)
            triangle = torch.ones(m, n, dtype=torch.bool, device=query.device).tril(n - m + 1)
            mask = triangle if mask is None else mask & triangle
        return super().attend(query, keys, values, mask, **others)


class _Open(Transformer):
    def encode(self, *inputs: Any, **others: Any) -> Memory:
        memory = super().encode(*inputs, **others)
        return memory._replace(mask=torch.ones_like(memory.mask))


def _attentions(network: Transformer) -> list[MultiHeadAttention]:
    return [module for module in network.modules() if isinstance(module, MultiHeadAttention)]


@torch.no_grad()
def exchange(network: Transformer) -> None:
    """Exchange the matrices of keys and values in every attention, in place.

    Args:
        network: a translator.

    Example:
        >>> network = Transformer(9, 9, d_model=8, num_heads=2, d_ff=8)
        >>> before = network.encoder[0].attention.w_k
        >>> exchange(network)
        >>> network.encoder[0].attention.w_v is before
        True
    """
    for attention in _attentions(network):
        attention.w_k, attention.w_v = attention.w_v, attention.w_k


def _build(fault: str, seed: int, sizes: dict[str, Any]) -> Transformer:
    """Return an untrained network with what is wrong in its code."""
    kind = _Open if fault == "padding open" else Transformer
    network = kind(len(ENGLISH), len(ITALIAN), **sizes, generator=torch.Generator().manual_seed(seed))
    if fault == "mask too far":
        for layer in network.decoder:
            layer.attention.__class__ = _Wide
    if fault == "W^O missing":
        for attention in _attentions(network):
            attention.w_o = nn.Identity()  # type: ignore[assignment]
    return network


# ---- Admission ------------------------------------------------------------------------------------------------------


def translators_with(
    fault: str, seeds: Sequence[int] = (0,), *, steps: int = 300, batch_size: int = 32, d_model: int = 32,
    num_heads: int = 4, decoder_layers: int = 1, batches: int = 0, change: Callable[[Transformer], None] | None = None,
) -> list[Patient]:  # fmt: skip
    """Train translators with one fault, side by side from several seeds on the same sentences.

    Args:
        fault: one of ``FAULTS``.
        seeds: where their first weights come from.
        steps: how long they are trained.
        batch_size: sentences in a batch.
        d_model: features; the feed-forward parts have twice as many.
        num_heads: heads of every attention.
        decoder_layers: layers of the decoder.
        batches: the seed that the sentences follow from.
        change: what is done to each network before it is trained.

    Returns:
        A :class:`Patient` for each seed.

    Raises:
        TypeError: if a size is not an int.
        ValueError: if the fault is unknown, or a size too small.

    Example:
        >>> (patient,) = translators_with("healthy", steps=2, batch_size=4, d_model=8, num_heads=2)
        >>> patient.losses.shape
        torch.Size([2])
    """
    if fault not in FAULTS:
        raise ValueError(f"fault must be one of {', '.join(FAULTS)}; got {fault!r}")
    check_size("steps", steps, minimum=1)
    sizes = {"d_model": d_model, "d_ff": 2 * d_model, "num_heads": num_heads, "decoder_layers": decoder_layers}
    team = [_build(fault, seed, sizes) for seed in seeds]
    if change is not None:
        for network in team:
            change(network)
    reads = _not_moved if fault == "no shift" else shift_right
    drawn = [
        (source.expand(len(team), *source.shape), target.expand(len(team), *target.shape))
        for source, target in TranslationBatches(steps, batch_size=batch_size, seed=batches)
    ]
    losses = train(team, drawn, learning_rate=1e-2, start=BEGIN, padding=PAD, reads=reads)
    found = [_scored(Patient(fault, network, log, reads)) for network, log in zip(team, losses.unbind(1), strict=True)]
    if fault == "keys and values exchanged":  # on the way from its training to where it is used
        for patient in found:
            exchange(patient.network)
    return found


def _scored(patient: Patient, size: int = 100) -> Patient:
    """Let its owner measure it."""
    unseen = draw_sentences(size, generator=torch.Generator().manual_seed(5), held_out=True)
    target = encode_italian([each.italian for each in unseen])
    said = patient.step(encode_english([each.english for each in unseen]), target).argmax(dim=-1)
    score = (said == target)[target != PAD].double().mean().item()
    return replace(patient, score=score)


def admit(names: str = "Ada Bruno Carla Dario Elsa Fabio Gina", *, steps: int = 300) -> list[Patient]:
    """Admit the six patients of the clinic, and one who is well; this trains them (20 seconds on one core).

    Args:
        names: seven names, with blanks between them; the last is that of the healthy one.
        steps: of training; some have less.

    Returns:
        The patients, always in the same order, which says nothing.

    Raises:
        ValueError: if there are not seven names.
    """
    called = names.split()
    if len(called) != 7:
        raise ValueError(f"names must be 7; got {len(called)}")
    chosen = (("padding open", 1.0), ("mask too far", 0.6), ("W^O missing", 1.0), ("healthy", 0.6),
              ("healthy", 1.0), ("no shift", 0.4))  # fmt: skip
    found = [translators_with(fault, (seed,), steps=round(share * steps))[0]
             for seed, (fault, share) in enumerate(chosen)]  # fmt: skip
    found.append(replace(found[4], network=deepcopy(found[4].network)))
    exchange(found[4].network)  # one training, and two copies: this one was converted
    return [replace(patient, name=name) for patient, name in zip(found, called, strict=True)]
