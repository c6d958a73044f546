"""The encoder of chapter 10 in some 20 MB, for a reader's browser: all its layers, rounded, for short texts.

The site's build writes the bytes of :func:`pack_encoder` where the weights are installed; the widget
:class:`~attention_tutorial.widgets.SentenceReader` computes with them. :func:`unpack_encoder` gives the same rounded
numbers to PyTorch, which the tests hold the page against.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .encoder import Encoder, WordPieces

__all__ = ["pack_encoder", "unpack_encoder"]

# How matrices are rounded, by the beginnings of their names: the largest whole number, and how many share a scale.
LEVELS = {"layers.": (127, 32), "embedding.": (31, 64)}
CONTEXT = 64  # positions that are kept


def pack_encoder(model: Encoder, *, more: Mapping[str, Tensor] | None = None, about: Any = None) -> bytes:
    r"""Write an encoder as a line of JSON and rounded numbers.

    A matrix becomes whole numbers with a scale for every few of a row, in half precision:

    .. math:: w \approx s\, k, \qquad s = \tfrac{1}{m} \max |w|, \qquad k \in \{-m, \dots, m\}

    with m = 127 and 32 numbers to a scale in the layers, and 31 and 64 in the embedding (fewer where rows are short).
    All else is kept in half precision. The pieces that no text has (``[unused0]`` and so on) are left out, and all
    positions but the first 64.

    Args:
        model: the encoder.
        more: tensors that are added in half precision.
        about: plain data that is added to the line of JSON.

    Returns:
        Bytes that gzip makes smaller.

    Example:
        >>> pieces = WordPieces([*WordPieces.SPECIAL, "a", "bank"])
        >>> model = Encoder(pieces, d_model=8, num_heads=2, num_layers=1, d_ff=16, context=10)
        >>> unpack_encoder(pack_encoder(model)).pieces.cut("a bank")
        ['[CLS]', 'a', 'bank', '[SEP]']
    """
    used = [id for piece, id in model.pieces.ids.items() if not piece.startswith("[unused")]
    state = {name: x.detach().cpu().double() for name, x in model.state_dict().items()}
    state["embedding.weight"] = state["embedding.weight"][used]
    state["positions.weight"] = state["positions.weight"][:CONTEXT]
    tensors, parts = [], []
    for name, x in {**state, **(more or {})}.items():
        top, share = _levels(name, x.shape)
        tensors.append([name, list(x.shape), top, share])
        if top:
            levels, scales = _round(x.numpy(), top, share)
            parts += [levels.tobytes(), scales.tobytes()]
        else:
            parts.append(x.double().numpy().astype("<f2").tobytes())
    layers: Any = model.layers
    names = list(model.pieces.ids)
    head = {
        "heads": model.num_heads,
        "layers": len(layers),
        "pieces": [names[id] for id in used],
        "tensors": tensors,
        "about": about,
    }
    return json.dumps(head, ensure_ascii=False).encode() + b"\n" + b"".join(parts)


def unpack_encoder(packed: bytes, dtype: torch.dtype | None = None) -> Encoder:
    """Return the encoder whose numbers :func:`pack_encoder` rounded.

    Args:
        packed: what that function returned.
        dtype: of its parameters; torch's default one if left out.

    Returns:
        The model with the rounded numbers, in evaluation mode.

    Example:
        >>> pieces = WordPieces([*WordPieces.SPECIAL, "bank"])
        >>> model = Encoder(pieces, d_model=8, num_heads=2, num_layers=1, d_ff=16, context=10)
        >>> rounded = unpack_encoder(pack_encoder(model))
        >>> difference = (rounded.layers[0].attention.w_q.weight - model.layers[0].attention.w_q.weight).abs().max()
        >>> 0 < difference.item() < 0.01
        True
    """
    line, _, numbers = packed.partition(b"\n")
    head = json.loads(line)
    state, at = {}, 0
    for name, shape, top, share in head["tensors"]:
        count = math.prod(shape)
        halves = count // share if top else count
        levels = np.frombuffer(numbers, np.int8, count if top else 0, at)
        at += len(levels)
        values = np.frombuffer(numbers, "<f2", halves, at).astype(np.float64)
        at += 2 * halves
        if top:
            values = (values[:, None] * levels.reshape(-1, share)).ravel()
        state[name] = torch.from_numpy(values.reshape(shape))
    d_ff, d_model = state["layers.0.feed_forward.w_1.weight"].shape
    sizes = {"d_model": d_model, "d_ff": d_ff, "context": len(state["positions.weight"])}
    model = Encoder(WordPieces(head["pieces"]), num_heads=head["heads"], num_layers=head["layers"], **sizes)
    model.load_state_dict({name: state[name] for name in model.state_dict()})
    return model.to(dtype or torch.get_default_dtype()).eval()


def _levels(name: str, shape: Sequence[int]) -> tuple[int, int]:
    """Return how a tensor is rounded: the largest whole number and how many share a scale; (0, 0) in half precision."""
    for start, (top, share) in LEVELS.items():
        if name.startswith(start) and len(shape) == 2:
            return top, math.gcd(share, shape[1])
    return 0, 0


def _round(x: np.ndarray[Any, Any], top: int, share: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rows = x.reshape(-1, share)
    scales = (np.abs(rows).max(axis=1) / top).astype("<f2")
    whole = scales.astype(np.float64)[:, None]
    levels = np.divide(rows, whole, out=np.zeros_like(rows), where=whole > 0).round()
    return levels.clip(-top, top).astype(np.int8), scales
