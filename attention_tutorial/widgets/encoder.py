"""The encoder in the page: where each head of a published model looks in a sentence, and which sense a word gets."""

import base64
import functools
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
import torch
import traitlets
from torch import Tensor
from torch.nn import functional as F

from .._validation import check_flag
from ..data.senses import SECOND_SENTENCES, SENTENCES
from ..models.encoder import Encoder, Head, load_encoder
from ..models.packed_encoder import pack_encoder
from ..notebook.display import rounded
from .base import BookWidget, encode_floats, html_table

__all__ = ["SentenceReader"]

MOST_PIECES = 40  # of a text, with [CLS] and [SEP]
SENSE_LAYER = 3  # after which chapter 10 measures senses
CARD = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2"  # of the model
#: Sentences whose weights come with the package: two of the chapter's first list, and two of its second.
READY = (
    SENTENCES["bank"].first[0],
    SENTENCES["bank"].second[0],
    SECOND_SENTENCES["bank"].first[1],
    SECOND_SENTENCES["bank"].second[0],
)
#: What the whole model offers to read besides, each with the word that looks.
MORE = (
    (SENTENCES["mouse"].first[0], "mouse"),
    (SENTENCES["mouse"].second[2], "mouse"),
    (SECOND_SENTENCES["spring"].first[0], "spring"),
    (SECOND_SENTENCES["spring"].second[3], "spring"),
    ("The transformer's inventors drank crème brûlée.", "transformer"),
)
#: Heads of the small form, where none are named.
FEW: tuple[Head, ...] = ((1, 5), (1, 11), (1, 3), (5, 6))


class SentenceReader(BookWidget):
    """Show where each head of the encoder of chapter 10 looks in a sentence, and which sense a word gets.

    The widget opens with recorded weights of two sentences, a map of all 72 heads and the cosines of the word's vector
    with each sense: with the mean of its vectors in the sentences of ``attention_tutorial.data.senses``, of the list
    that does not hold the sentence. On the book's site the whole model can be opened, with its numbers rounded
    (:mod:`~attention_tutorial.models.packed_encoder`): then one may type sentences, choose any word, take heads away
    and hide words.

    Args:
        sentences: one or more, read here by :func:`~attention_tutorial.models.encoder.load_encoder`; the second stands
            beside the first. When left out, the recorded ones.
        word: the word that looks; each of the sentences holds it.
        head: the head whose weights are shown, as ``(layer, head)`` from 1.
        heads: those of the small form, beside ``head``.
        compact: show two sentences and a few heads, and nothing else.
        note: a line of text above.

    Raises:
        TypeError: if an argument is of another kind.
        ValueError: if a sentence lacks the word or has more than 40 pieces, or there is no such head.
        FileNotFoundError: if sentences are given and the encoder's weights are not installed.

    Example:
        >>> SentenceReader(head=(1, 11))
        SentenceReader('bank', head=(1, 11))
    """

    module = "encoder"

    sentences: "traitlets.List[dict[str, Any]]" = traitlets.List()
    more: "traitlets.List[list[str]]" = traitlets.List()
    slots: "traitlets.List[dict[str, Any]]" = traitlets.List()
    head = traitlets.List(traitlets.Int())
    heads_off: "traitlets.List[list[int]]" = traitlets.List()
    opened = traitlets.Bool(False)
    compact = traitlets.Bool(False)
    link = traitlets.Unicode()
    card = traitlets.Unicode(CARD)
    note = traitlets.Unicode()

    def __init__(
        self,
        sentences: Sequence[str] | None = None,
        *,
        word: str = "bank",
        head: Head = FEW[0],
        heads: Sequence[Head] = FEW,
        compact: bool = False,
        note: str = "",
    ) -> None:
        if not isinstance(word, str):
            raise TypeError(f"word must be a str; got {type(word).__name__}")
        check_flag("compact", compact)
        if not isinstance(head, Sequence) or isinstance(head, str):
            raise TypeError(f"head must be (layer, head); got {head!r}")
        if not isinstance(heads, Sequence) or not all(isinstance(one, Sequence) for one in heads):
            raise TypeError(f"heads must be a sequence of (layer, head); got {heads!r}")
        if sentences is None:
            records = [record for record in _recorded() if record["asks"] == word]
            if not records:
                raise ValueError(f"word must be 'bank' where no sentences are given; got {word!r}")
        elif isinstance(sentences, str) or not isinstance(sentences, Sequence) or not sentences:
            raise TypeError(f"sentences must be a sequence of one or more texts; got {sentences!r}")
        else:
            records = record_sentences(load_encoder(dtype=torch.float64), sentences, word)
        for name, one in (("head", head), *(("heads", one) for one in heads)):
            if ".".join(map(str, one)) not in records[0]["weights"]:
                raise ValueError(f"{name} must be (layer, head) from (1, 1) to (6, 12); got {one!r}")
        if compact:
            few = dict.fromkeys(f"{layer}.{number}" for layer, number in (head, *heads))
            records = [
                {**one, "weights": {name: one["weights"][name] for name in few}, "between": ""} for one in records[:2]
            ]
        super().__init__(
            sentences=records,
            more=[] if compact else [list(one) for one in MORE],
            slots=[
                {"text": one["text"], "asks": one["asks"], "word": one["word"], "hidden": []} for one in records[:2]
            ],
            head=list(head),
            compact=compact,
            note=note,
        )

    def __repr__(self) -> str:
        return f"SentenceReader({self.sentences[0]['asks']!r}, head={tuple(self.head)})"

    def static_html(self) -> str:
        """Return a table: where the head looks in the sentences that are shown, and which sense is nearest."""
        layer, number = self.head
        rows, cells = [], []
        for record in self.sentences[:2]:
            weights = _numbers(record["weights"][f"{layer}.{number}"])
            best = weights.argsort(descending=True)[:2].tolist()
            looks = ", ".join(f"{record['pieces'][i]} ({rounded(float(weights[i]), 2)})" for i in best)
            nearest = "none stored"
            if record["names"]:
                cosines = dict(zip(record["names"], _path(record)[SENSE_LAYER].tolist(), strict=True))
                names = sorted(cosines, key=cosines.__getitem__, reverse=True)
                nearest = ", ".join(f"{name} ({rounded(cosines[name], 2)})" for name in names)
            rows.append(record["text"])
            cells.append([looks, nearest])
        asks = self.sentences[0]["asks"]
        caption = (
            f"Where head {layer}.{number} of the encoder looks most from {asks!r}, with its weights, and the senses to "
            f"which the vector of {asks!r} is nearest after layer {SENSE_LAYER}, with the cosines."
        )
        return html_table(caption, rows, [f"head {layer}.{number} looks at", "nearest senses"], cells)


def record_sentences(model: Encoder, sentences: Sequence[str], word: str) -> list[dict[str, Any]]:
    """Read sentences with the whole model, and keep what one of their words has of it.

    Returns:
        For each sentence its pieces, the weights with which the word looks at them, by head, its cosines with both
        senses after each layer, and its cosines with the word in every sentence of these.
    """
    asks = "".join(model.pieces.words(word))
    senses = _sense_vectors(model, asks) if asks in SENTENCES else None
    records, vectors = [], []
    for text in sentences:
        pieces = model.pieces.cut(text)
        if len(pieces) > MOST_PIECES:
            raise ValueError(f"sentences must have at most {MOST_PIECES} pieces each; got {len(pieces)} in {text!r}")
        words = group_pieces(pieces)
        spelled = ["".join(pieces[i].removeprefix("##") for i in places) for places in words]
        if asks not in spelled:
            raise ValueError(f"sentences must each hold the word {word!r}; got {text!r}")
        at = spelled.index(asks)
        states, weights = _read(model, text)
        x = states[:, words[at]].mean(dim=1)  # (layers + 1, d_model)
        vectors.append(x)
        looks = weights[:, :, words[at]].mean(dim=2)  # (layers, heads, n)
        path = None if senses is None else _cosines(x, senses, asks, text)
        records.append(
            {
                "text": text,
                "asks": asks,
                "word": at,
                "pieces": pieces,
                "weights": {
                    f"{layer}.{head}": encode_floats(row.tolist())
                    for layer, rows in enumerate(looks, start=1)
                    for head, row in enumerate(rows, start=1)
                },
                "names": list(SENTENCES[asks].names) if path is not None else [],
                "path": encode_floats([] if path is None else path.flatten().tolist()),
            }
        )
    for record, x in zip(records, vectors, strict=True):
        cosines = torch.stack([F.cosine_similarity(x, other, dim=-1) for other in vectors])
        record["between"] = encode_floats(cosines.flatten().tolist())
    return records


def group_pieces(pieces: Sequence[str]) -> list[list[int]]:
    """Return the places of the pieces of each word; those that begin or end a text are words of their own.

    Example:
        >>> group_pieces(["[CLS]", "transform", "##er", "!", "[SEP]"])
        [[0], [1, 2], [3], [4]]
    """
    words: list[list[int]] = []
    for place, piece in enumerate(pieces):
        if piece.startswith("##"):
            words[-1].append(place)
        else:
            words.append([place])
    return words


def page_model(model: Encoder | None = None) -> bytes:
    """Return the whole model as the page gets it, with the vectors of the senses.

    Args:
        model: another one, whose pieces hold the words with senses.

    Raises:
        FileNotFoundError: if none is given and the encoder's weights are not installed.
    """
    model = load_encoder(dtype=torch.float32) if model is None else model
    vectors = torch.stack([_sense_vectors(model, word) for word in SENTENCES])
    about = {
        "most": MOST_PIECES,
        "words": {
            word: {
                "names": senses.names,
                "lists": [[*of.first, *of.second] for of in (senses, SECOND_SENTENCES[word])],
            }
            for word, senses in SENTENCES.items()
        },
    }
    return pack_encoder(model, more={"senses": vectors}, about=about)


@functools.cache
def _recorded() -> list[dict[str, Any]]:
    text = resources.files(__package__).joinpath("recorded", "encoder.json").read_text("utf-8")
    records: list[dict[str, Any]] = json.loads(text)
    return records


def _numbers(text: str) -> Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text.removeprefix("f32:")), "<f4").astype(np.float64))


def _path(record: Mapping[str, Any]) -> Tensor:
    return _numbers(record["path"]).view(-1, 2)


@torch.no_grad()
def _read(model: Encoder, text: str) -> tuple[Tensor, Tensor]:
    """Return the states (layers + 1, n, d_model) and the weights (layers, heads, n, n) of a text."""
    output = model(model.pieces.encode(text))
    return torch.stack(output.states)[:, 0], torch.stack(output.weights)[:, 0]


def _sense_vectors(model: Encoder, word: str) -> Tensor:
    """Return the mean vectors of a word, (lists, senses, layers + 1, d_model)."""

    def vector(text: str) -> Tensor:
        return _read(model, text)[0][:, model.pieces.cut(text).index(word)]

    lists = [(of.first, of.second) for of in (SENTENCES[word], SECOND_SENTENCES[word])]
    return torch.stack(
        [torch.stack([torch.stack(list(map(vector, texts))).mean(dim=0) for texts in senses]) for senses in lists]
    )


def _cosines(x: Tensor, senses: Tensor, word: str, text: str) -> Tensor:
    """Return a word's cosines (layers + 1, 2) with both senses, whose means leave out the list that holds the text."""
    lists = (SENTENCES[word], SECOND_SENTENCES[word])
    others = [place for place, of in enumerate(lists) if text not in (*of.first, *of.second)]
    return F.cosine_similarity(x, senses[others].mean(dim=0), dim=-1).mT
