"""Attention step by step: every number of a small example, and the arithmetic that made it."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from .._validation import check_flag
from ..data.examples import THE_CAT
from ..functional import scaled_dot_product_attention
from ..masks import causal_mask
from ..notebook.display import rounded
from .base import BookWidget, check_one_of, check_places, html_table

__all__ = ["AttentionSteps"]

#: The names of the steps, in order.
STEPS = ("x", "projections", "scores", "scaled", "masked", "softmax", "output")

Matrix = list[list[float]]


_IDENTITY: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def _sentence(
    words: dict[str, list[float]],
    text: str,
    features: list[str],
    w_q: Matrix,
    focus: int,
    note: str,
) -> Any:
    """Describe a sentence whose words have given features, and whose keys and values are the words themselves."""
    tokens = text.split()
    return {
        "queries": tokens,
        "keys": tokens,
        "features": features,
        "x": [words[token] for token in tokens],
        "w_q": w_q,
        "w_k": _IDENTITY,
        "w_v": _IDENTITY,
        "focus": focus,
        "note": note,
    }


_CAT = {
    "the": [0.0, 0.0, 0.0],
    "cat": [1.0, 0.0, 0.0],
    "sat": [0.0, 1.0, 0.0],
    "down": [0.0, 0.0, 0.5],
    "here": [0.0, 0.0, 1.0],
}
_BANK = {
    "the": [0.0, 0.0, 1.0],
    "of": [0.0, 0.0, 1.0],
    "us": [0.0, 0.0, 1.0],
    "bank": [1.0, 1.0, 0.0],
    "river": [3.0, 0.0, 0.0],
    "lends": [0.0, 1.0, 0.0],
    "money": [0.0, 3.0, 0.0],
}
_BANK_FEATURES = ["water", "money", "other"]
_BANK_QUERY = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
_BANK_NOTE = (
    "In both bank sentences the word bank begins with the same row of X. Compare its output. Then switch on the causal "
    "mask: bank can no longer see the words after it."
)

#: The examples that the widget offers, by name. The numbers are made up by hand, for clean arithmetic.
SENTENCES: dict[str, dict[str, Any]] = {
    "the cat sat down here": _sentence(
        _CAT,
        "the cat sat down here",
        ["noun", "verb", "place"],
        [[1.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
        focus=2,
        note="Keys and values are the words themselves. A verb looks for a noun: follow the row of sat.",
    ),
    " ".join(THE_CAT.words): {
        "queries": list(THE_CAT.words),
        "keys": list(THE_CAT.words),
        "features": list(THE_CAT.features),
        "wanted": list(THE_CAT.wanted),
        "learned": list(THE_CAT.learned),
        "x": THE_CAT.X.tolist(),
        "w_q": THE_CAT.W_Q.tolist(),
        "w_k": THE_CAT.W_K.tolist(),
        "w_v": THE_CAT.W_V.tolist(),
        "focus": 2,
        "note": "The sentence of chapter 2: sat asks for an animal, on asks for a place. Follow their rows.",
    },
    "the bank of the river": _sentence(
        _BANK, "the bank of the river", _BANK_FEATURES, _BANK_QUERY, focus=1, note=_BANK_NOTE
    ),
    "the bank lends us money": _sentence(
        _BANK, "the bank lends us money", _BANK_FEATURES, _BANK_QUERY, focus=1, note=_BANK_NOTE
    ),
    "worked example of chapter 2": {
        "queries": ["q"],
        "keys": ["k₁", "k₂", "k₃"],
        "values": ["v₁", "v₂", "v₃"],
        "features": ["1", "2", "3"],
        "q": [[1.0, 0.0, 1.0]],
        "k": [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]],
        "v": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        "focus": 0,
        "note": "One query and three keys: the example of section 2.5, where each step is done by hand.",
    },
}

_MATRICES = ("x", "w_q", "w_k", "w_v", "q", "k", "v")


class AttentionSteps(BookWidget):
    r"""Show attention on a small example, one step at a time, with numbers that can be changed.

    .. math:: X \to Q, K, V \to Q K^\top \to \frac{Q K^\top}{\sqrt{d_k}} \to \text{mask} \to A \to A V

    Every cell tells the arithmetic that made it. All of it is computed in the browser; in a live notebook the numbers
    that a reader changes come back, and :meth:`steps` gives them to the package.

    Args:
        sentence: the name of an example, such as ``"the bank of the river"``.
        step: the step to begin with: ``x``, ``projections``, ``scores``, ``scaled``, ``masked``, ``softmax`` or
            ``output``.
        scaling: divide the scores by the square root of d_k.
        causal: mask every key that comes after its query.
        padding: positions of keys that are padding, and therefore masked.
        predict: hide each step's result until the reader has made a prediction.

    Raises:
        TypeError: if a switch is not a bool.
        ValueError: if there is no such sentence, step or position.

    Example:
        >>> widget = AttentionSteps("worked example of chapter 2")
        >>> widget
        AttentionSteps('worked example of chapter 2', step='projections')
        >>> [round(weight, 3) for weight in widget.steps()["weights"][0].tolist()]
        [0.264, 0.264, 0.471]
    """

    module = "attention_steps"

    sentences: "traitlets.List[dict[str, Any]]" = traitlets.List()
    step_names = traitlets.List(traitlets.Unicode(), list(STEPS))
    sentence = traitlets.Unicode()
    source = traitlets.Enum(["x", "qkv"], default_value="x")
    numbers = traitlets.Dict()
    step = traitlets.Enum(STEPS, default_value="x")
    scaling = traitlets.Bool(True)
    causal = traitlets.Bool(False)
    padding = traitlets.List(traitlets.Int())
    predict = traitlets.Bool(False)

    def __init__(
        self,
        sentence: str = next(iter(SENTENCES)),
        *,
        step: str | None = None,
        scaling: bool = True,
        causal: bool = False,
        padding: Sequence[int] = (),
        predict: bool = False,
    ) -> None:
        switches = {"scaling": scaling, "causal": causal, "predict": predict}
        for name, flag in switches.items():
            check_flag(name, flag)
        check_one_of("sentence", sentence, SENTENCES)
        chosen = SENTENCES[sentence]
        first = "x" if "x" in chosen else "projections"
        step = first if step is None else step
        check_one_of("step", step, STEPS)
        super().__init__(
            sentences=[{"name": name, **offer} for name, offer in SENTENCES.items()],
            sentence=sentence,
            source="x" if "x" in chosen else "qkv",
            numbers={name: chosen[name] for name in _MATRICES if name in chosen},
            step=first if step == "x" else step,
            padding=check_places("padding", padding, len(chosen["keys"])),
            **switches,
        )

    def __repr__(self) -> str:
        return f"AttentionSteps({self.sentence!r}, step={self.step!r})"

    def steps(self) -> dict[str, Tensor]:
        """Compute every matrix of the widget from the numbers it now shows, with the package's own functions.

        Returns:
            Float64 tensors by name: ``q``, ``k``, ``v``, the ``raw`` scores, the ``scaled`` ones, the ``masked`` ones
            (minus infinity where a key is masked), the ``weights`` and the ``output``.
        """
        tensors = {name: torch.tensor(rows, dtype=torch.float64) for name, rows in self.numbers.items()}
        if self.source == "x":
            query, key, value = (tensors["x"] @ tensors[w] for w in ("w_q", "w_k", "w_v"))
        else:
            query, key, value = tensors["q"], tensors["k"], tensors["v"]
        m, n = query.size(0), key.size(0)
        mask = torch.ones(m, n, dtype=torch.bool)
        mask[:, list(self.padding)] = False
        if self.causal:
            mask = mask & causal_mask(m, n)
        output, weights = scaled_dot_product_attention(query, key, value, mask, scale=None if self.scaling else 1.0)
        raw = query @ key.mT
        scaled = raw / math.sqrt(key.size(1)) if self.scaling else raw
        return {
            "q": query,
            "k": key,
            "v": value,
            "raw": raw,
            "scaled": scaled,
            "masked": scaled.masked_fill(~mask, -torch.inf),
            "weights": weights,
            "output": output,
        }

    def static_html(self) -> str:
        """Return the weights as a table, for pages on which no script runs."""
        weights = self.steps()["weights"]
        chosen = next(offer for offer in self.sentences if offer["name"] == self.sentence)
        cells = [[rounded(weight) for weight in row] for row in weights.tolist()]
        caption = f"Attention weights, {self.sentence}: each row is a query, each column a key."
        return html_table(caption, chosen["queries"], chosen["keys"], cells)
