"""Mask builder: allow and mask keys cell by cell, and see the weights, the leaks and the rows that see nothing."""

import functools
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from .._validation import check_flag, check_size
from ..functional import masked_softmax
from ..notebook.display import rounded
from .base import BookWidget, check_one_of, check_places, html_table

__all__ = ["MaskBuilder"]

LARGEST = 8  # queries or keys that still fit on a screen

#: The masks that have a name. ``rule`` says which keys are allowed, in words for :func:`made_mask` and the browser:
#: the positions of ``query`` and ``key``, the number of the ``row``, whether a word is ``real`` (1) or padding (0),
#: which ``text`` it belongs to (1 or 2), and the length of the ``window``. A task below offers a mask by its name.
MASKS: dict[str, dict[str, str]] = {
    "none": {"label": "no mask", "rule": "key = key"},
    "causal": {"label": "causal", "rule": "key <= query"},
    "one_too_far": {"label": "one too far", "rule": "key <= query + 1"},
    "without_self": {"label": "without itself", "rule": "key < query"},
    "upper_left": {"label": "causal, upper left", "rule": "key <= row"},
    "padding": {"label": "padding", "rule": "key_real = 1"},
    "both_tokens": {"label": "both tokens", "rule": "query_real = 1 and key_real = 1"},
    "causal_and_padding": {"label": "causal AND padding", "rule": "key <= query and key_real = 1"},
    "causal_or_padding": {"label": "causal OR padding", "rule": "key <= query or key_real = 1"},
    "window": {"label": "sliding window", "rule": "key <= query and key > query - window"},
    "block": {"label": "one block a text", "rule": "key_text = query_text"},
    "block_and_causal": {"label": "block AND causal", "rule": "key <= query and key_text = query_text"},
    "prefix": {"label": "prefix", "rule": "key <= query or key_text = 1"},
}

#: What the code may do with a row in which no key is allowed.
EMPTY = {
    "zeros": "weights 0 (this package)",
    "nan": "NaN (softmax of −∞)",
    "sentinel": "equal weights (−1e9 for −∞)",
}
#: The masks of the small form, which a chapter opens with.
FEW = ["none", "one_too_far", "causal"]
#: The lengths to begin with, where there is room.
USUAL = {"window": 2, "first": 3}

#: What attention is to do. Each task says by itself which keys a query may see; the masks are what it offers to try.
TASKS: dict[str, dict[str, Any]] = {
    "write": {
        "label": "Write the next word (decoder)",
        "note": "Each word has to predict the word after it. So it may see itself and what came before, "
        "nothing later, and no padding.",
        "keys": ["<start>", "the", "cat", "sat", "on", "the", "mat", "."],
        "masks": ["none", "causal", "one_too_far", "without_self", "upper_left", "padding", "causal_and_padding",
                  "causal_or_padding", "window"],
        "m": 5, "n": 5, "padding": [],
    },
    "read": {
        "label": "Read a whole text (encoder)",
        "note": "The text is known, so each word may see all words, before and after it, but no padding.",
        "keys": ["the", "cat", "sat", "on", "the", "mat", "today", "."],
        "masks": ["none", "padding", "both_tokens", "causal"],
        "m": 5, "n": 5, "padding": [3, 4],
    },
    "translate": {
        "label": "Translate a source (cross)",
        "note": "The queries are words of the translation, the keys are words of the source. The source is known from "
        "the beginning: every query may see all of it, but not its padding.",
        "queries": ["<start>", "the", "black", "cat", "sleeps", "on", "the", "mat"],
        "keys": ["le", "chat", "noir", "dort", "sur", "le", "tapis", "."],
        "masks": ["none", "padding", "causal"],
        "m": 4, "n": 6, "padding": [4, 5],
    },
    "pack": {
        "label": "Two texts in one row (packed)",
        "note": "Two texts share a row, so that no place is lost to padding. Each word may see its own text only.",
        "keys": ["the", "cat", "sat", "it", "rains", "today", "again", "."],
        "masks": ["none", "block", "causal", "block_and_causal"],
        "m": 6, "n": 6, "padding": [],
    },
    "answer": {
        "label": "Answer a question (prefix)",
        "note": "The first words, the question, are given: every query may see them. "
        "The words of the answer have to be predicted, one after the other.",
        "keys": ["who", "sat", "?", "the", "cat", "did", "so", "."],
        "masks": ["none", "causal", "prefix"],
        "m": 6, "n": 6, "padding": [],
    },
}  # fmt: skip

#: Scores, made up by hand: as if the inputs had gone through two projections.
SCORES = [
    [1.2, 0.4, 1.9, 0.3, -0.5, 0.8, 0.1, 0.6],
    [0.3, 0.9, 2.1, 0.7, -0.2, 0.5, 1.1, -0.4],
    [0.6, 0.2, 1.4, 1.8, 0.1, -0.3, 0.9, 0.4],
    [-0.4, 0.5, 2.2, 0.6, 1.5, 0.2, 1.3, 0.1],
    [0.2, -0.1, 0.7, 1.6, 0.8, 1.2, 2.0, 0.3],
    [0.5, 1.0, 0.4, -0.6, 0.9, 0.7, 1.8, 0.2],
    [0.1, 0.6, 1.5, 0.8, 1.1, 0.3, 0.9, 1.4],
    [0.7, -0.2, 0.8, 1.3, 0.4, 0.1, 1.0, 0.5],
]


def _named(described: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, **fields} for name, fields in described.items()]


def _labelled(labels: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "label": label} for name, label in labels.items()]


class MaskBuilder(BookWidget):
    r"""Show a mask whose cells can be allowed and masked, and the weights that it leaves.

    .. math:: a_{ij} = \frac{\exp s_{ij}}{\sum_{l \text{ allowed}} \exp s_{il}}
        \text{ for allowed } j, \quad 0 \text{ otherwise}

    A task says which keys a query may see. Where an allowed key is not among them, the widget marks a leak and says how
    much weight it takes. All of it is computed in the browser; in a live notebook what a reader changes comes back as
    :attr:`mask` and :attr:`weights`.

    Args:
        task: ``write`` (predict the next word), ``read`` (a whole text), ``translate`` (cross-attention), ``pack`` (two
            texts in a row) or ``answer`` (a given question).
        mask: the name of a mask that the task offers, such as ``"causal"``, or a boolean tensor (m, n), True = may
            attend.
        m: number of queries, 1 to 8. In self-attention with ``m < n`` the queries are the newest m positions, as with a
            cache; only ``write`` has that.
        n: number of keys, 1 to 8.
        padding: positions of keys that are padding; in ``write``, ``read`` and ``translate``.
        window: how many keys, itself included, each query sees under the mask ``"window"``, at most n; usually 2.
        first: how many words belong to the first text (``pack``) or to the question (``answer``), fewer than n;
            usually 3.
        empty: what a row without an allowed key gets: ``zeros`` as in this package, ``nan`` as a softmax of minus
            infinity gives, or equal weights as a ``sentinel`` of -1e9 gives.
        compact: show three masks for ``write`` to choose from, the weights, and the judgement.

    Raises:
        TypeError: if a size is not an int, a name not a text, the padding no sequence, or the mask neither a name nor
            a boolean tensor.
        ValueError: if a name does not exist, or sizes or positions do not fit.

    Example:
        >>> widget = MaskBuilder("write", "causal", m=3, n=3)
        >>> widget
        MaskBuilder('write', mask='causal', m=3, n=3)
        >>> widget.mask.int().tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
        >>> [round(weight, 3) for weight in widget.weights[1].tolist()]
        [0.354, 0.646, 0.0]
    """

    module = "mask_builder"

    tasks: "traitlets.List[dict[str, Any]]" = traitlets.List()
    masks: "traitlets.List[dict[str, str]]" = traitlets.List(_named(MASKS))
    empties: "traitlets.List[dict[str, str]]" = traitlets.List(_labelled(EMPTY))
    largest = traitlets.Int(LARGEST)
    usual: "traitlets.Dict[str, int]" = traitlets.Dict(USUAL)
    task = traitlets.Unicode()
    preset = traitlets.Unicode()  # "hand" once a reader has changed a cell
    cells: "traitlets.List[str]" = traitlets.List(traitlets.Unicode())  # rows of 1 (allowed), 0 (masked)
    padding: "traitlets.List[int]" = traitlets.List(traitlets.Int())
    window = traitlets.Int(2)
    first = traitlets.Int(3)
    scores: "traitlets.List[list[float]]" = traitlets.List(SCORES)  # the mask uses the upper left part
    empty = traitlets.Enum(list(EMPTY), default_value="zeros")
    few: "traitlets.List[str]" = traitlets.List(traitlets.Unicode())  # empty, or the small form's masks

    def __init__(
        self,
        task: str = "write",
        mask: str | Tensor = "none",
        *,
        m: int | None = None,
        n: int | None = None,
        padding: Sequence[int] | None = None,
        window: int | None = None,
        first: int | None = None,
        empty: str = "zeros",
        compact: bool = False,
    ) -> None:
        check_flag("compact", compact)
        _check_name("task", task, TASKS)
        if compact and (task != "write" or not isinstance(mask, str) or mask not in FEW):
            known = f"the task 'write' and the masks {', '.join(FEW)}"
            raise ValueError(f"the compact form has {known}; got {task!r} and {mask!r}")
        _check_name("empty", empty, EMPTY)
        offer = TASKS[task]
        m, n = _sizes(task, mask, m, n)
        padded = [p for p in offer["padding"] if p < n] if padding is None else check_places("padding", padding, n)
        if padded and task in ("pack", "answer"):
            raise ValueError(f"the task {task!r} has no padding; got padding={padded}")
        window = _length("window", window, usual=USUAL["window"], most=n)
        first = _length("first", first, usual=USUAL["first"], most=max(1, n - 1))
        preset = mask if isinstance(mask, str) else "hand"
        if isinstance(mask, str):
            _check_name("mask", mask, offer["masks"])
            mask = made_mask(mask, m, n, padded, window, first)
        super().__init__(
            tasks=_named(TASKS),
            task=task,
            preset=preset,
            cells=["".join("01"[cell] for cell in row) for row in mask.tolist()],
            padding=padded,
            window=window,
            first=first,
            empty=empty,
            few=FEW if compact else [],
        )

    def __repr__(self) -> str:
        m, n = self.mask.shape
        return f"MaskBuilder({self.task!r}, mask={self.preset!r}, m={m}, n={n})"

    @property
    def mask(self) -> Tensor:
        """The boolean mask (m, n) that the widget now shows, True = may attend."""
        return torch.tensor([[cell == "1" for cell in row] for row in self.cells])

    @property
    def weights(self) -> Tensor:
        """The weights under the mask, float64 (m, n); a row without an allowed key is treated as ``empty`` says."""
        mask = self.mask
        m, n = mask.shape
        scores = torch.tensor(self.scores, dtype=torch.float64)[:m, :n]
        if self.empty == "zeros":
            return masked_softmax(scores, mask)
        return scores.masked_fill(~mask, -torch.inf if self.empty == "nan" else -1e9).softmax(dim=-1)

    def static_html(self) -> str:
        """Return the mask and the weights as one table, for pages on which no script runs."""
        offer, (m, n) = TASKS[self.task], self.mask.shape
        keys = ["pad" if j in self.padding else word for j, word in enumerate(offer["keys"][:n])]
        queries = offer["queries"][:m] if "queries" in offer else keys[n - m :]
        cells = [
            [
                rounded(weight) if allowed else "× " + rounded(weight)
                for weight, allowed in zip(weights, row, strict=True)
            ]
            for weights, row in zip(self.weights.tolist(), self.mask.tolist(), strict=True)
        ]
        caption = f"Attention weights. {offer['label']}. Each row is a query, each column a key; × marks a masked key."
        return html_table(caption, queries, keys, cells)


def _length(name: str, length: int | None, usual: int, most: int) -> int:
    """Check a length that the keys limit; when left out it is the usual one, or the most there is room for."""
    if length is None:
        return min(usual, most)
    check_size(name, length, minimum=1)
    if length > most:
        raise ValueError(f"{name} must be at most {most} with so many keys; got {length}")
    return length


def made_mask(name: str, m: int, n: int, padding: Sequence[int], window: int, first: int) -> Tensor:
    """Make a mask (m, n) by its rule in :data:`MASKS`; self-attention has its queries at the end.

    Example:
        >>> made_mask("window", m=3, n=3, padding=[], window=2, first=1).int().tolist()
        [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    position = torch.arange(n)
    real = torch.tensor([int(j not in padding) for j in range(n)])
    text = torch.where(position < first, 1, 2)
    query = torch.arange(n - m, n)[:, None]
    place = query.clamp(min=0)  # cross-attention may have more queries than keys; what they are is in no rule of it
    values = {
        "query": query, "query_real": real[place], "query_text": text[place],
        "key": position, "key_real": real, "key_text": text,
        "row": torch.arange(m)[:, None], "window": torch.tensor(window),
    }  # fmt: skip
    alternatives = (
        functools.reduce(operator.and_, (_compare(condition, values) for condition in alternative.split(" and ")))
        for alternative in MASKS[name]["rule"].split(" or ")
    )
    return functools.reduce(operator.or_, alternatives).expand(m, n).clone()


_SIGNS = {"<": operator.lt, "<=": operator.le, "=": operator.eq, ">": operator.gt}


def _compare(condition: str, values: Mapping[str, Tensor]) -> Tensor:
    """Work out a condition such as ``key > query - window``."""
    left, sign, right = re.split(r" (<=|<|=|>) ", condition)
    result: Tensor = _SIGNS[sign](_total(left, values), _total(right, values))
    return result


def _total(text: str, values: Mapping[str, Tensor]) -> Tensor:
    """Work out a sum such as ``query - window + 1``."""
    first, *rest = text.split()
    total = _term(first, values)
    for sign, word in zip(rest[::2], rest[1::2], strict=True):
        total = total + _term(word, values) if sign == "+" else total - _term(word, values)
    return total


def _term(word: str, values: Mapping[str, Tensor]) -> Tensor:
    return values[word] if word in values else torch.tensor(int(word))


def _check_name(argument: str, name: Any, names: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{argument} must be a name; got {type(name).__name__}")
    check_one_of(argument, name, names)


def _sizes(task: str, mask: str | Tensor, m: int | None, n: int | None) -> tuple[int, int]:
    """Settle the numbers of queries and keys, from what is given, from the mask, or from the task."""
    if not isinstance(mask, str):
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
            raise TypeError(f"mask must be a name or a boolean tensor, True = may attend; got {got}")
        if mask.dim() != 2:
            raise ValueError(f"mask must have two axes (m, n); got shape {tuple(mask.shape)}")
        if m not in (None, mask.size(0)) or n not in (None, mask.size(1)):
            raise ValueError(f"m and n must be those of the mask, {tuple(mask.shape)}; got m={m}, n={n}")
        m, n = mask.shape
    for name, size in [("m", m), ("n", n)]:
        if size is not None:
            check_size(name, size, minimum=1)
            if size > LARGEST:
                raise ValueError(f"{name} must be at most {LARGEST}; got {size}")
    offer = TASKS[task]
    if task != "translate" and n is None and m is not None:
        n = max(m, offer["n"]) if task == "write" else m
    n = offer["n"] if n is None else n
    m = (offer["m"] if task == "translate" else n) if m is None else m
    if task == "write" and m > n:
        raise ValueError(f"the queries of {task!r} are among its keys, so m must be at most n; got m={m}, n={n}")
    if task not in ("write", "translate") and m != n:
        raise ValueError(f"the task {task!r} is self-attention over a whole row, so m must equal n; got m={m}, n={n}")
    return m, n
