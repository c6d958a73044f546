"""The plane: one query among keys, and its output among values, with two features each."""

from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from ..data.examples import THE_CAT
from ..functional import scaled_dot_product_attention
from ..notebook.display import rounded
from .base import BookWidget, check_one_of, check_places, html_table
from .temperature import DIVISORS

__all__ = ["AttentionPlane"]

FEATURES = 2  # that a plane can show


class AttentionPlane(BookWidget):
    r"""Show a query and keys as arrows, values and output as points: a query is turned, and all the rest follows.

    .. math:: s_j = \frac{q^\top k_j}{\tau}, \qquad a = \operatorname{softmax}(s), \qquad o = \sum_j a_j v_j

    The words are those of *the cat sat on the mat*. Queries and keys have the features *animal* and *place*; of their
    values the first two are shown, *furry* and *flat*. A reader drags the query, keys and values, masks words and
    chooses the divisor :math:`\tau`.

    Args:
        asks: the word whose query is shown first.
        divisor: what the scores are divided by: ``"none"``, ``"sqrt(d_k)"`` or ``"d_k"``.
        masked: positions of words that are masked.

    Raises:
        TypeError: if ``masked`` is not a sequence.
        ValueError: if there is no such word, divisor or position.

    Example:
        >>> widget = AttentionPlane("sat")
        >>> widget
        AttentionPlane('sat', divisor='sqrt(d_k)')
        >>> output, weights = widget.attend()
        >>> [round(weight, 2) for weight in weights.tolist()], [round(number, 2) for number in output.tolist()]
        ([0.05, 0.77, 0.05, 0.05, 0.05, 0.05], [0.77, 0.05])
    """

    module = "plane"

    words = traitlets.List(traitlets.Unicode(), list(THE_CAT.words))
    wanted = traitlets.List(traitlets.Unicode(), list(THE_CAT.wanted))
    learned = traitlets.List(traitlets.Unicode(), list(THE_CAT.learned[:FEATURES]))
    note = traitlets.Unicode()
    first: "traitlets.Dict[str, Any]" = traitlets.Dict()
    query = traitlets.List(traitlets.Float())
    keys: "traitlets.List[list[float]]" = traitlets.List()
    values: "traitlets.List[list[float]]" = traitlets.List()
    divisors: "traitlets.List[dict[str, Any]]" = traitlets.List()
    divisor = traitlets.Enum([*DIVISORS], default_value="sqrt(d_k)")
    masked = traitlets.List(traitlets.Int())
    word = traitlets.Int(0)

    def __init__(self, asks: str = "sat", *, divisor: str = "sqrt(d_k)", masked: Sequence[int] = ()) -> None:
        check_one_of("asks", asks, THE_CAT.words)
        check_one_of("divisor", divisor, DIVISORS)
        queries, keys, values = (THE_CAT.X @ w for w in (THE_CAT.W_Q, THE_CAT.W_K, THE_CAT.W_V))
        first = {"queries": queries.tolist(), "keys": keys.tolist(), "values": values[:, :FEATURES].tolist()}
        (left_out,) = THE_CAT.learned[FEATURES:]
        super().__init__(
            first=first,
            query=first["queries"][THE_CAT.words.index(asks)],
            keys=first["keys"],
            values=first["values"],
            divisors=[{"name": name, **fields} for name, fields in DIVISORS.items()],
            divisor=divisor,
            masked=check_places("masked", masked, len(THE_CAT.words)),
            note=f"“{left_out.capitalize()}” is left out.",
            word=THE_CAT.words.index("cat"),
        )

    def __repr__(self) -> str:
        asking = next(
            (w for w, q in zip(self.words, self.first["queries"], strict=True) if q == self.query), self.query
        )
        return f"AttentionPlane({asking!r}, divisor={self.divisor!r})"

    def attend(self) -> tuple[Tensor, Tensor]:
        """Return the output (2,) and the weights (n,) of what is shown, by the package's function, float64."""
        query, keys, values = (torch.tensor(x, dtype=torch.float64) for x in ([self.query], self.keys, self.values))
        mask = torch.ones(1, len(self.words), dtype=torch.bool)
        mask[:, list(self.masked)] = False
        scale = float(len(self.query) ** -DIVISORS[self.divisor]["power"])
        output, weights = scaled_dot_product_attention(query, keys, values, mask, scale=scale)
        return output[0], weights[0]

    def static_html(self) -> str:
        """Return keys, weights and values as a table, for pages on which no script runs."""
        output, weights = self.attend()
        columns = [*(f"key: {name}" for name in self.wanted), "weight", *(f"value: {name}" for name in self.learned)]
        cells = [
            [*map(rounded, key), rounded(weight), *map(rounded, value)]
            for key, weight, value in zip(self.keys, weights.tolist(), self.values, strict=True)
        ]
        told = ", ".join(f"{name} {rounded(x)}" for name, x in zip(self.learned, output.tolist(), strict=True))
        asked = ", ".join(f"{name} {rounded(x)}" for name, x in zip(self.wanted, self.query, strict=True))
        return html_table(f"A query ({asked}) among six words. Output: {told}.", self.words, columns, cells)
