"""A translator under the knife: every matrix of it for one sentence, with edges closed, heads removed, numbers changed.

:func:`trace` goes through the Transformer step by step and keeps each matrix under a name; :func:`write_touched` lets
it write. What was done to it is described by a :class:`Touch`. The page's own translator, in the widget
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

__all__ = ["ATTENTIONS", "Touch", "trace", "write_touched"]

ATTENTIONS = ("encoder", "decoder", "cross")

Edge = tuple[str, int, int, int, int]
Part = tuple[str, int]
Change = tuple[str, int, int, float]


@dataclass(frozen=True)
class Touch:
    """What is done to a translator; nothing, as it is made.

    Attributes:
        closed: edges (attention, layer, head, row, column) that are closed besides the masks; head 0 stands for all
            heads, row or column -1 for all rows or columns.
        heads_off: heads (attention, layer, head) whose output is zero.
        swapped: attentions (attention, layer) in which keys and values are exchanged.
        shift: the causal mask lets position i see positions up to i + shift.
        padding: the number of padding positions after the source.
        unmasked: attentions, of ``"encoder"`` and ``"cross"``, in which the padding is open.
        changes: numbers (matrix, row, column, value) that are put into a matrix or a parameter before it is used.
    """

    closed: Sequence[Edge] = ()
    heads_off: Sequence[tuple[str, int, int]] = ()
    swapped: Sequence[Part] = ()
    shift: int = 0
    padding: int = 0
    unmasked: Sequence[str] = ()
    changes: Sequence[Change] = ()


class _Notes:
    """Keeps each matrix under its name, with the numbers in it that are changed."""

    def __init__(self, touch: Touch) -> None:
        self.touch, self.kept = touch, dict[str, Tensor]()

    def __call__(self, name: str, x: Tensor) -> Tensor:
        for matrix, row, column, value in self.touch.changes:
            if matrix == name and row < x.size(0) and column < x.size(1):
                x = x.clone()
                x[row, column] = value
        self.kept[name] = x
        return x


def _attend(
    note: _Notes, name: str, kind: str, layer: int, module: MultiHeadAttention, x: Tensor, memory: Tensor, seen: Tensor
) -> Tensor:
    """Attend from ``x`` (m, d_model) to ``memory`` (n, d_model), where the mask ``seen`` (m, n) is open."""
    touch, heads = note.touch, []
    projected = {kind: getattr(module, f"w_{kind}")(given) for kind, given in (("q", x), ("k", memory), ("v", memory))}
    if (kind, layer) in [tuple(part) for part in touch.swapped]:
        projected["k"], projected["v"] = projected["v"], projected["k"]
    for head in range(1, module.num_heads + 1):
        own = slice((head - 1) * module.d_head, head * module.d_head)
        q, k, v = (note(f"{name}.{letter}.{head}", projected[letter][:, own]) for letter in "qkv")
        scores = note(f"{name}.scores.{head}", q @ k.T / math.sqrt(module.d_head))
        mask = seen.clone()
        for which, where, one, row, column in touch.closed:
            if (which, where) == (kind, layer) and one in (0, head):
                rows = slice(None) if row < 0 else slice(row, row + 1)
                mask[rows, slice(None) if column < 0 else slice(column, column + 1)] = False
        weights = note(f"{name}.weights.{head}", masked_softmax(scores, mask))
        off = (kind, layer, head) in [tuple(part) for part in touch.heads_off]
        heads.append(note(f"{name}.heads.{head}", weights @ v * (0.0 if off else 1.0)))
    return note(f"{name}.output", module.w_o(torch.cat(heads, dim=1)))


def _feed(note: _Notes, name: str, part: Any, x: Tensor) -> Tensor:
    """Take the feed-forward step of a layer, (n, d_model) to (n, d_model)."""
    seen = note(f"{name}.feed_forward_norm", part.feed_forward_norm(x))
    before = note(f"{name}.feed_forward.before", part.feed_forward.w_1(seen))
    hidden = note(f"{name}.feed_forward.hidden", before.relu())
    output = note(f"{name}.feed_forward.output", part.feed_forward.w_2(hidden))
    return note(f"{name}.after_feed_forward", x + output)


def _embed(note: _Notes, side: str, table: Tensor, ids: Tensor) -> Tensor:
    words = note(f"{side}.words", table[ids] * math.sqrt(table.size(1)))
    positions = note(f"{side}.positions", sinusoidal_positions(len(ids), table.size(1), dtype=table.dtype))
    return note(f"{side}.embedded", words + positions)


def _with_changed_parameters(model: Transformer, touch: Touch) -> Transformer:
    """Return the translator with the changed numbers among its parameters; a bias has one row."""
    state = model.state_dict()
    if not any(name in state for name, *_ in touch.changes):
        return model
    model = copy.deepcopy(model)
    for name, row, column, value in touch.changes:
        if name in state:
            model.state_dict()[name].view(-1, state[name].size(-1))[row, column] = value
    return model


def _check(model: Any, touch: Any) -> None:
    if not isinstance(model, Transformer):
        raise TypeError(f"model must be a Transformer; got {type(model).__name__}")
    if not isinstance(touch, Touch):
        raise TypeError(f"touch must be a Touch; got {type(touch).__name__}")
    layers: list[Any] = [*model.encoder, *model.decoder]
    if not all(layer.norm_first for layer in layers):
        raise ValueError("model must be one with norm_first=True")


@torch.no_grad()
def trace(model: Transformer, source: Tensor, target_in: Tensor, touch: Touch | None = None) -> dict[str, Tensor]:
    """Compute every matrix of a translator for one sentence.

    Args:
        model: with its norms first.
        source: ids (n,) of the English words.
        target_in: ids (m,) that the decoder has read: 1, then the words so far.
        touch: what is done to the model; nothing if left out.

    Returns:
        Each matrix, (rows, columns), by its name, in the order in which they are computed. The last two are ``logits``
        and ``probabilities`` (m, target_size); padding and the beginning are no words that it may write.

    Raises:
        TypeError: if ``model`` is not a ``Transformer``, ids are not int64, or ``touch`` is not a :class:`Touch`.
        ValueError: if the model has its norms last, or ids have not one axis.

    Example:
        >>> from attention_tutorial.data.translation import encode_english
        >>> from attention_tutorial.models.translator import load_translator
        >>> source = encode_english(["the idea was praised in 2020"])[0]
        >>> found = trace(load_translator(), source, torch.tensor([BEGIN]))
        >>> found["decoder.0.cross_attention.weights.1"].shape, found["logits"].shape
        (torch.Size([1, 6]), torch.Size([1, 125]))
    """
    touch = Touch() if touch is None else touch
    _check(model, touch)
    for name, ids in (("source", source), ("target_in", target_in)):
        check_ids(name, ids)
        if ids.dim() != 1 or len(ids) == 0:
            raise ValueError(f"{name} must have one axis with at least one id; got shape {tuple(ids.shape)}")
    model, note = _with_changed_parameters(model, touch), _Notes(touch)
    source = torch.cat([source, source.new_full((touch.padding,), PAD)])
    n, m = len(source), len(target_in)
    real = source != PAD
    everything = torch.ones_like(real)

    x = _embed(note, "source", model.source_embedding.weight, source)
    seen = (everything if "encoder" in touch.unmasked else real).expand(n, n)
    parts: list[Any] = list(model.encoder)
    for number, part in enumerate(parts):
        name = f"encoder.{number}"
        normed = note(f"{name}.attention_norm", part.attention_norm(x))
        output = _attend(note, f"{name}.attention", "encoder", number, part.attention, normed, normed, seen)
        x = note(f"{name}.after_attention", x + output)
        x = _feed(note, name, part, x)
    memory = note("encoder_norm", model.encoder_norm(x))

    x = _embed(note, "target", model.target_embedding.weight, target_in)
    past = torch.ones(m, m, dtype=torch.bool).tril(touch.shift)
    seen = (everything if "cross" in touch.unmasked else real).expand(m, n)
    parts = list(model.decoder)
    for number, part in enumerate(parts):
        name = f"decoder.{number}"
        normed = note(f"{name}.attention_norm", part.attention_norm(x))
        output = _attend(note, f"{name}.attention", "decoder", number, part.attention, normed, normed, past)
        x = note(f"{name}.after_attention", x + output)
        normed = note(f"{name}.cross_norm", part.cross_norm(x))
        output = _attend(note, f"{name}.cross_attention", "cross", number, part.cross_attention, normed, memory, seen)
        x = note(f"{name}.after_cross_attention", x + output)
        x = _feed(note, name, part, x)
    x = note("decoder_norm", model.decoder_norm(x))
    logits = note("logits", model.readout(x))
    allowed = logits.index_fill(1, torch.tensor([PAD, BEGIN]), -torch.inf)
    note("probabilities", torch.softmax(allowed, dim=1))
    return note.kept


def write_touched(
    model: Transformer, source: Tensor, touch: Touch | None = None, max_length: int = 30
) -> tuple[Tensor, Tensor]:
    """Let a touched translator write the likeliest next word, again and again.

    All words so far are read anew at every step, since a touch may change what was computed for them.

    Args:
        model: with its norms first.
        source: ids (n,) of the English words.
        touch: what is done to the model; nothing if left out.
        max_length: stop here where no end was written.

    Returns:
        The ids (m,) that it wrote, the end (2) among them, and the probability (m,) of each.

    Raises:
        TypeError: as :func:`trace`.
        ValueError: as :func:`trace`, or if ``max_length`` is below 1.

    Example:
        >>> from attention_tutorial.data.translation import encode_english, spell_italian
        >>> from attention_tutorial.models.translator import load_translator
        >>> source = encode_english(["the idea was praised in 2020"])[0]
        >>> spell_italian(write_touched(load_translator(), source)[0])
        "l'idea è stata lodata nel 2020"
        >>> blind = Touch(closed=[("cross", 0, 0, -1, 3)])  # no step may look at "praised"
        >>> "lodata" in spell_italian(write_touched(load_translator(), source, blind)[0])
        False
    """
    check_size("max_length", max_length, minimum=1)
    written, found = [BEGIN], list[float]()
    while len(found) < max_length and (len(written) == 1 or written[-1] != END):
        row = trace(model, source, torch.tensor(written), touch)["probabilities"][-1]
        written.append(int(row.argmax()))
        found.append(float(row.max()))
    return torch.tensor(written[1:]), torch.tensor(found, dtype=torch.float64)
