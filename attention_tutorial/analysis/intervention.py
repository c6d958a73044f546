"""Interventions in a translator: all its matrices for one sentence, with edges masked, heads removed, numbers changed.

:func:`trace` computes the Transformer step by step and records each matrix under a name; :func:`generate_with` lets it
translate. What is done to it is described by an :class:`Intervention`. The page's own translator, in the widget
:class:`~attention_tutorial.widgets.Translator`, does the same in the reader's browser, and the tests compare the two
number by number.

Names: `encoder.0.attention.weights.2` are the weights of head 2 in the encoder's first layer. Heads count from 1;
layers, rows and columns from 0. An attention is called `"encoder"`, `"decoder"` (the decoder's self-attention) or
`"cross"`.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._validation import check_ids, check_size
from ..functional import masked_softmax
from ..layers import MultiHeadAttention
from ..models.transformer import BEGIN, END, PAD, Transformer
from ..positions import sinusoidal_positions

__all__ = ["ATTENTIONS", "Intervention", "generate_with", "trace"]

ATTENTIONS = ("encoder", "decoder", "cross")

Edge = tuple[str, int, int, int, int]
Part = tuple[str, int]
Change = tuple[str, int, int, float]


@dataclass(frozen=True)
class Intervention:
    """What is done to a translator; by default nothing.

    Attributes:
        closed: edges (attention, layer, head, row, column) that are masked besides the usual masks; head 0 stands
            for all heads, row or column -1 for all rows or columns.
        heads_off: heads (attention, layer, head) whose output is zero.
        swapped: attentions (attention, layer) in which keys and values are exchanged.
        shift: the causal mask lets position i see positions up to i + shift.
        padding: the number of padding positions after the source.
        unmasked: attentions, of ``"encoder"`` and ``"cross"``, whose padding mask is left out.
        changes: numbers (matrix, row, column, value) that are put into a matrix or a parameter before it is used.
    """

    closed: Sequence[Edge] = ()
    heads_off: Sequence[tuple[str, int, int]] = ()
    swapped: Sequence[Part] = ()
    shift: int = 0
    padding: int = 0
    unmasked: Sequence[str] = ()
    changes: Sequence[Change] = ()


class _Recorder:
    """Records each matrix under its name, and changes numbers in it."""

    def __init__(self, intervention: Intervention) -> None:
        self.intervention, self.matrices = intervention, dict[str, Tensor]()

    def __call__(self, name: str, x: Tensor) -> Tensor:
        for matrix, row, column, value in self.intervention.changes:
            if matrix == name and row < x.size(0) and column < x.size(1):
                x = x.clone()
                x[row, column] = value
        self.matrices[name] = x
        return x


def _attend(
    record: _Recorder, name: str, kind: str, layer: int, module: MultiHeadAttention, x: Tensor, memory: Tensor,
    allowed: Tensor,
) -> Tensor:  # fmt: skip
    """Attend from ``x`` (m, d_model) to ``memory`` (n, d_model), where the mask ``allowed`` (m, n) is True."""
    intervention, heads = record.intervention, []
    projected = {kind: getattr(module, f"w_{kind}")(given) for kind, given in (("q", x), ("k", memory), ("v", memory))}
    if (kind, layer) in [tuple(part) for part in intervention.swapped]:
        projected["k"], projected["v"] = projected["v"], projected["k"]
    for head in range(1, module.num_heads + 1):
        own = slice((head - 1) * module.d_head, head * module.d_head)
        q, k, v = (record(f"{name}.{letter}.{head}", projected[letter][:, own]) for letter in "qkv")
        scores = record(f"{name}.scores.{head}", q @ k.T / math.sqrt(module.d_head))
        mask = allowed.clone()
        for which, where, one, row, column in intervention.closed:
            if (which, where) == (kind, layer) and one in (0, head):
                rows = slice(None) if row < 0 else slice(row, row + 1)
                mask[rows, slice(None) if column < 0 else slice(column, column + 1)] = False
        weights = record(f"{name}.weights.{head}", masked_softmax(scores, mask))
        off = (kind, layer, head) in [tuple(part) for part in intervention.heads_off]
        heads.append(record(f"{name}.heads.{head}", weights @ v * (0.0 if off else 1.0)))
    return record(f"{name}.output", module.w_o(torch.cat(heads, dim=1)))


def _feed(record: _Recorder, name: str, layer: Any, x: Tensor) -> Tensor:
    """Take the feed-forward step of a layer, (n, d_model) to (n, d_model)."""
    normed = record(f"{name}.feed_forward_norm", layer.feed_forward_norm(x))
    before = record(f"{name}.feed_forward.before", layer.feed_forward.w_1(normed))
    hidden = record(f"{name}.feed_forward.hidden", before.relu())
    output = record(f"{name}.feed_forward.output", layer.feed_forward.w_2(hidden))
    return record(f"{name}.after_feed_forward", x + output)


def _embed(record: _Recorder, side: str, table: Tensor, ids: Tensor) -> Tensor:
    words = record(f"{side}.words", table[ids] * math.sqrt(table.size(1)))
    positions = record(f"{side}.positions", sinusoidal_positions(len(ids), table.size(1), dtype=table.dtype))
    return record(f"{side}.embedded", words + positions)


def _with_changed_parameters(model: Transformer, intervention: Intervention) -> Transformer:
    """Return the translator with the changed numbers among its parameters; a bias has one row."""
    state = model.state_dict()
    if not any(name in state for name, *_ in intervention.changes):
        return model
    model = copy.deepcopy(model)
    for name, row, column, value in intervention.changes:
        if name in state:
            model.state_dict()[name].view(-1, state[name].size(-1))[row, column] = value
    return model


def _check(model: Any, intervention: Any) -> None:
    if not isinstance(model, Transformer):
        raise TypeError(f"model must be a Transformer; got {type(model).__name__}")
    if not isinstance(intervention, Intervention):
        raise TypeError(f"intervention must be an Intervention; got {type(intervention).__name__}")
    layers: list[Any] = [*model.encoder, *model.decoder]
    if not all(layer.norm_first for layer in layers):
        raise ValueError("model must be one with norm_first=True")


@torch.no_grad()
def trace(
    model: Transformer, source: Tensor, target_in: Tensor, intervention: Intervention | None = None
) -> dict[str, Tensor]:
    """Compute every matrix of a translator for one sentence.

    Args:
        model: with its norms first.
        source: ids (n,) of the English words.
        target_in: ids (m,) that the decoder has read: 1, then the words so far.
        intervention: what is done to the model; nothing if left out.

    Returns:
        Each matrix, (rows, columns), by its name, in the order in which they are computed. The last two are ``logits``
        and ``probabilities`` (m, target_size); padding and the beginning are no words that it may write.

    Raises:
        TypeError: if ``model`` is not a ``Transformer``, ids are not int64, or ``intervention`` is of another type.
        ValueError: if the model has its norms last, or ids have not one axis.

    Example:
        >>> from attention_tutorial.data.translation import encode_english
        >>> from attention_tutorial.models.translator import load_translator
        >>> source = encode_english(["the idea was praised in 2020"])[0]
        >>> found = trace(load_translator(), source, torch.tensor([BEGIN]))
        >>> found["decoder.0.cross_attention.weights.1"].shape, found["logits"].shape
        (torch.Size([1, 6]), torch.Size([1, 125]))
    """
    intervention = Intervention() if intervention is None else intervention
    _check(model, intervention)
    for name, ids in (("source", source), ("target_in", target_in)):
        check_ids(name, ids)
        if ids.dim() != 1 or len(ids) == 0:
            raise ValueError(f"{name} must have one axis with at least one id; got shape {tuple(ids.shape)}")
    model, record = _with_changed_parameters(model, intervention), _Recorder(intervention)
    source = torch.cat([source, source.new_full((intervention.padding,), PAD)])
    n, m = len(source), len(target_in)
    real = source != PAD
    everything = torch.ones_like(real)

    x = _embed(record, "source", model.source_embedding.weight, source)
    visible = (everything if "encoder" in intervention.unmasked else real).expand(n, n)
    layers: list[Any] = list(model.encoder)
    for number, layer in enumerate(layers):
        name = f"encoder.{number}"
        normed = record(f"{name}.attention_norm", layer.attention_norm(x))
        output = _attend(record, f"{name}.attention", "encoder", number, layer.attention, normed, normed, visible)
        x = record(f"{name}.after_attention", x + output)
        x = _feed(record, name, layer, x)
    memory = record("encoder_norm", model.encoder_norm(x))

    x = _embed(record, "target", model.target_embedding.weight, target_in)
    past = torch.ones(m, m, dtype=torch.bool).tril(intervention.shift)
    visible = (everything if "cross" in intervention.unmasked else real).expand(m, n)
    layers = list(model.decoder)
    for number, layer in enumerate(layers):
        name = f"decoder.{number}"
        normed = record(f"{name}.attention_norm", layer.attention_norm(x))
        output = _attend(record, f"{name}.attention", "decoder", number, layer.attention, normed, normed, past)
        x = record(f"{name}.after_attention", x + output)
        normed = record(f"{name}.cross_norm", layer.cross_norm(x))
        output = _attend(
            record, f"{name}.cross_attention", "cross", number, layer.cross_attention, normed, memory, visible
        )
        x = record(f"{name}.after_cross_attention", x + output)
        x = _feed(record, name, layer, x)
    x = record("decoder_norm", model.decoder_norm(x))
    logits = record("logits", model.readout(x))
    allowed = logits.index_fill(1, torch.tensor([PAD, BEGIN]), -torch.inf)
    record("probabilities", torch.softmax(allowed, dim=1))
    return record.matrices


def generate_with(
    model: Transformer, source: Tensor, intervention: Intervention | None = None, max_length: int = 30
) -> tuple[Tensor, Tensor]:
    """Translate greedily with a translator that is intervened on.

    All words so far are read anew at every step, since an intervention may change what was computed for them.

    Args:
        model: with its norms first.
        source: ids (n,) of the English words.
        intervention: what is done to the model; nothing if left out.
        max_length: stop here if the end was not written.

    Returns:
        The ids (m,) of the translation, the end (2) among them, and the probability (m,) of each.

    Raises:
        TypeError: as :func:`trace`.
        ValueError: as :func:`trace`, or if ``max_length`` is below 1.

    Example:
        >>> from attention_tutorial.data.translation import encode_english, spell_italian
        >>> from attention_tutorial.models.translator import load_translator
        >>> source = encode_english(["the idea was praised in 2020"])[0]
        >>> spell_italian(generate_with(load_translator(), source)[0])
        "l'idea è stata lodata nel 2020"
        >>> blind = Intervention(closed=[("cross", 0, 0, -1, 3)])  # no step may look at "praised"
        >>> "lodata" in spell_italian(generate_with(load_translator(), source, blind)[0])
        False
    """
    check_size("max_length", max_length, minimum=1)
    written, found = [BEGIN], list[float]()
    while len(found) < max_length and (len(written) == 1 or written[-1] != END):
        row = trace(model, source, torch.tensor(written), intervention)["probabilities"][-1]
        written.append(int(row.argmax()))
        found.append(float(row.max()))
    return torch.tensor(written[1:]), torch.tensor(found, dtype=torch.float64)
