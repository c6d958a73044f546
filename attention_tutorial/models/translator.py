"""The translator of chapter 7, trained: its numbers in half precision, for pages, notebooks and tests alike.

`python -m tools.translator` trains it as the chapter does and writes the file; :func:`load_translator` reads it. The
widget :class:`~attention_tutorial.widgets.Translator` computes in the reader's browser with the same numbers.
"""

import base64
import functools
import json
import math
from importlib import resources
from typing import Any

import numpy as np
import torch
from torch import nn

from ..data.translation import (
    ADJECTIVES,
    ENGLISH,
    FUTURE,
    HELD_OUT_OF,
    ITALIAN,
    NOUNS,
    PAST,
    RELATIVES,
    SENTENCE_PATTERN,
    VERBS,
)
from .transformer import Transformer

__all__ = ["load_translator", "pack_translator", "unpack_translator"]

PRECISIONS = ("float16", "float32")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def pack_numbers(numbers: np.ndarray[Any, Any], precision: str) -> str:
    """Write numbers as letters: single precision in base64; half precision in two parts, with a colon between.

    A half number has 16 bits. The first part has a letter of base64's alphabet for the sign and exponent of each, the
    second the ten bits of all fractions in base64. Exponents are much alike, so what a server sends gets smaller.
    """
    if precision == "float32":
        return base64.b64encode(numbers.astype("<f4").tobytes()).decode("ascii")
    bits = numbers.astype("<f2").view("<u2")
    tops = "".join(LETTERS[top] for top in bits >> 10)
    fractions = ((bits[:, None] >> np.arange(9, -1, -1)) & 1).astype(np.uint8)
    return f"{tops}:{base64.b64encode(np.packbits(fractions).tobytes()).decode('ascii')}"


def unpack_numbers(text: str, precision: str) -> np.ndarray[Any, Any]:
    if precision == "float32":
        return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float64)
    tops, _, rest = text.partition(":")
    bits = np.unpackbits(np.frombuffer(base64.b64decode(rest), np.uint8))[: 10 * len(tops)].reshape(-1, 10)
    fractions = bits.astype(np.uint16) @ (1 << np.arange(9, -1, -1)).astype(np.uint16)
    exponents = np.array([LETTERS.index(top) for top in tops], np.uint16) << 10
    return (exponents | fractions).astype("<u2").view("<f2").astype(np.float64)


def pack_translator(model: Transformer, precision: str = "float16") -> dict[str, Any]:
    """Describe a translator of chapter 7's language so that a page can compute with it.

    Args:
        model: for the words of ``ENGLISH`` and ``ITALIAN``, with its norms first.
        precision: ``"float16"`` or ``"float32"``, in which each parameter is kept.

    Returns:
        Plain data for JSON: sizes, both vocabularies, the grammar, and all parameters as letters, in the order in which
        ``parameters`` lists their names and shapes.

    Raises:
        TypeError: if ``model`` is not a ``Transformer``.
        ValueError: if it has other vocabularies, its norms last, no encoder layer, or the precision is another.

    Example:
        >>> model = Transformer(len(ENGLISH), len(ITALIAN), d_model=8, num_heads=2, d_ff=8)
        >>> unpack_translator(pack_translator(model)).readout.weight.shape == model.readout.weight.shape
        True
    """
    if not isinstance(model, Transformer):
        raise TypeError(f"model must be a Transformer; got {type(model).__name__}")
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}")
    words = (model.source_embedding.num_embeddings, model.target_embedding.num_embeddings)
    if words != (len(ENGLISH), len(ITALIAN)):
        raise ValueError(f"model must have {len(ENGLISH)} English and {len(ITALIAN)} Italian ids; got {words}")
    layers: list[Any] = [*model.encoder, *model.decoder]
    if len(model.encoder) == 0 or not all(layer.norm_first for layer in layers):
        raise ValueError("model must have an encoder layer, and norm_first=True")
    return {
        "sizes": {
            "d_model": model.source_embedding.embedding_dim,
            "num_heads": layers[0].attention.num_heads,
            "d_ff": layers[0].feed_forward.w_1.out_features,
            "encoder_layers": len(model.encoder),
            "decoder_layers": len(model.decoder),
        },
        "english": list(ENGLISH),
        "italian": list(ITALIAN),
        "grammar": {
            "pattern": SENTENCE_PATTERN,
            "nouns": [[noun.english, noun.italian, noun.feminine] for noun in NOUNS],
            "verbs": VERBS,
            "adjectives": ADJECTIVES,
            "relatives": RELATIVES,
            "past": list(PAST),
            "future": list(FUTURE),
            "held_out_of": HELD_OUT_OF,
        },
        "precision": precision,
        **pack_state(model, precision),
    }


def unpack_translator(record: dict[str, Any], dtype: torch.dtype | None = None) -> Transformer:
    """Rebuild the translator that :func:`pack_translator` described.

    Args:
        record: the description.
        dtype: of its parameters; torch's default one if left out.

    Returns:
        The model, in evaluation mode.

    Raises:
        ValueError: if it is of other vocabularies than the package has now.

    Example:
        >>> model = Transformer(len(ENGLISH), len(ITALIAN), d_model=8, num_heads=2, d_ff=8)
        >>> again = unpack_translator(pack_translator(model, "float32"))
        >>> bool((again.readout.weight == model.readout.weight).all())
        True
    """
    if record["english"] != list(ENGLISH) or record["italian"] != list(ITALIAN):
        raise ValueError("record must have the vocabularies of attention_tutorial.data.translation")
    model = Transformer(len(ENGLISH), len(ITALIAN), **record["sizes"]).to(dtype or torch.get_default_dtype())
    load_numbers(model, record)
    return model.eval()


def pack_state(model: nn.Module, precision: str) -> dict[str, Any]:
    """Describe the parameters of a model: their names and shapes, and all numbers in this order, as letters."""
    state = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    numbers = np.concatenate([tensor.double().numpy().ravel() for tensor in state.values()])
    return {
        "parameters": [[name, list(tensor.shape)] for name, tensor in state.items()],
        "numbers": pack_numbers(numbers, precision),
    }


def load_numbers(model: nn.Module, record: dict[str, Any]) -> None:
    """Give a model the parameters of a description; they stand one after the other in its numbers."""
    numbers = unpack_numbers(record["numbers"], record.get("precision", "float16"))
    state, at = {}, 0
    for name, shape in record["parameters"]:
        count = math.prod(shape)
        state[name] = torch.from_numpy(numbers[at : at + count].reshape(shape))
        at += count
    model.load_state_dict(state)


def read_trained(name: str) -> dict[str, Any]:
    """Read a file of the trained models that the package ships."""
    text = resources.files(__package__).joinpath("trained", f"{name}.json").read_text("utf-8")
    record: dict[str, Any] = json.loads(text)
    return record


@functools.cache
def trained_record() -> dict[str, Any]:
    """Return the description that the package ships, of the translator that chapter 7 trains."""
    return read_trained("translator")


def load_translator(dtype: torch.dtype | None = None) -> Transformer:
    """Return the trained translator of chapter 7, without training it.

    Its numbers were rounded to half precision for the page; they are returned in the dtype that is asked for.

    Args:
        dtype: of its parameters; torch's default one if left out.

    Returns:
        The translator, from ``ENGLISH`` to ``ITALIAN``.

    Example:
        >>> from attention_tutorial.data.translation import encode_english, spell_italian
        >>> from attention_tutorial.models.decoding import greedy
        >>> source = encode_english(["the transformer architecture was introduced in 2017"])
        >>> spell_italian(greedy(load_translator(), source).tokens[0])
        "l'architettura transformer è stata introdotta nel 2017"
    """
    return unpack_translator(trained_record(), dtype)
