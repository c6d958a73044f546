"""Temperature and width: what the number of features and the divisor of the scores do to the softmax."""

import functools
import math
from typing import Any

import torch
import traitlets
from torch import Tensor

from .._validation import check_flag, check_size
from ..analysis.weights import entropy, softmax_jacobian
from ..functional import scaled_dot_product_attention
from ..notebook.display import rounded
from .base import LETTERS, BookWidget, check_one_of, draw_letters, html_table, read_letters

__all__ = ["TemperatureAndWidth"]

#: The widths d_k that the slider offers.
WIDTHS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]
#: What the scores can be divided by: a power of d_k, how it is written, and how a screen reader says it. The name
#: "own" is any other number.
DIVISORS: dict[str, dict[str, Any]] = {
    "none": {"power": 0.0, "text": "1", "spoken": "1"},
    "sqrt(d_k)": {"power": 0.5, "text": "√dₖ", "spoken": "the square root of d k"},
    "d_k": {"power": 1.0, "text": "dₖ", "spoken": "d k"},
}
LEAST, LARGEST = 0.25, 1024.0  # temperatures on the slider, which has four steps to an octave

QUERIES, KEYS, SEED = 49, 16, 1


@functools.cache
def draw_features() -> str:
    """Draw normal numbers for all queries and keys, and write them as letters."""
    return draw_letters((QUERIES + KEYS) * WIDTHS[-1], SEED)


def read_features(letters: str) -> Tensor:
    """Return the features that the letters stand for: the queries, then the keys, one a row."""
    return read_letters(letters, WIDTHS[-1])


class TemperatureAndWidth(BookWidget):
    r"""Show what the width :math:`d_k` and the temperature :math:`\tau` do to scores, weights, entropy and Jacobian.

    .. math:: a = \operatorname{softmax}\!\left(\frac{K q}{\tau}\right), \qquad
        H(a) = -\sum_j a_j \ln a_j, \qquad \lVert J \rVert = \lVert \operatorname{diag}(a) - a\, a^\top \rVert

    49 queries share 16 keys. Their features are normal numbers that were drawn once, so that a browser shows what
    torch computes; the width says how many of the features are used. The norm is the operator norm, the largest
    eigenvalue.

    Args:
        d_k: how many features queries and keys have, one of 1, 2, 3, 4, 6, 8, 12, ..., 256.
        divisor: what the scores are divided by: ``"none"``, ``"sqrt(d_k)"``, ``"d_k"``, or a temperature from 0.25
            to 1024, which then stays the same at every width.
        query: the query whose weights are shown, from 1 to 49.
        predict: ask the reader for predictions.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if there is no such width, divisor or query.

    Example:
        >>> widget = TemperatureAndWidth(256, divisor="none")
        >>> widget
        TemperatureAndWidth(256, divisor='none', query=1)
        >>> round(widget.measure()["largest"].median().item(), 2)
        1.0
        >>> widget.divisor = "sqrt(d_k)"
        >>> round(widget.measure()["largest"].median().item(), 2)
        0.23
    """

    module = "temperature"

    features = traitlets.Unicode()
    letters = traitlets.Unicode(LETTERS)
    query_count = traitlets.Int()
    key_count = traitlets.Int()
    widths = traitlets.List(traitlets.Int())
    divisors: "traitlets.List[dict[str, Any]]" = traitlets.List()
    temperatures = traitlets.List(traitlets.Float(), [LEAST, LARGEST])
    d_k = traitlets.Int(4)
    divisor = traitlets.Enum([*DIVISORS, "own"], default_value="none")
    own = traitlets.Float(1.0)  # the temperature that counts when the divisor is "own"
    query = traitlets.Int(1)
    along = traitlets.Enum(["d_k", "temperature"], default_value="d_k")
    predict = traitlets.Bool(False)

    def __init__(self, d_k: int = 4, *, divisor: str | float = "none", query: int = 1, predict: bool = False) -> None:
        check_flag("predict", predict)
        check_size("d_k", d_k)
        check_one_of("d_k", d_k, WIDTHS)
        check_size("query", query)
        if not 1 <= query <= QUERIES:
            raise ValueError(f"query must be from 1 to {QUERIES}; got {query}")
        own: Any = 1.0 if isinstance(divisor, str) else divisor
        if isinstance(own, bool) or not isinstance(own, int | float):
            raise TypeError(f"divisor must be a name or a number; got {type(own).__name__}")
        if (isinstance(divisor, str) and divisor not in DIVISORS) or not LEAST <= own <= LARGEST:
            raise ValueError(f"divisor must be one of {', '.join(map(repr, DIVISORS))}, or a number from {LEAST} to "
                             f"{LARGEST:g}; got {divisor!r}")  # fmt: skip
        super().__init__(
            features=draw_features(),
            query_count=QUERIES,
            key_count=KEYS,
            widths=WIDTHS,
            divisors=[{"name": name, **fields} for name, fields in DIVISORS.items()],
            d_k=d_k,
            divisor=divisor if isinstance(divisor, str) else "own",
            own=float(own),
            query=query,
            predict=predict,
        )

    def __repr__(self) -> str:
        divisor = self.own if self.divisor == "own" else self.divisor
        return f"TemperatureAndWidth({self.d_k}, divisor={divisor!r}, query={self.query})"

    @property
    def temperature(self) -> float:
        """What the scores are divided by at this width."""
        return self.own if self.divisor == "own" else float(self.d_k ** DIVISORS[self.divisor]["power"])

    def measure(self) -> dict[str, Tensor]:
        """Compute everything that the widget now shows, for all queries, with the package's own functions.

        Returns:
            Float64 tensors by name: the ``raw`` scores, the ``scores`` after the division and the ``weights``, each
            (queries, keys); the ``largest`` weight, the ``entropy`` and the ``norm`` of the Jacobian, each (queries,).
        """
        query, key = read_features(self.features)[:, : self.d_k].split([self.query_count, self.key_count])
        raw = query @ key.mT
        _, weights = scaled_dot_product_attention(query, key, key, scale=1 / self.temperature)
        return {
            "raw": raw,
            "scores": raw / self.temperature,
            "weights": weights,
            "largest": weights.amax(dim=-1),
            "entropy": entropy(weights),
            "norm": torch.linalg.eigvalsh(softmax_jacobian(weights))[..., -1],
        }

    def static_html(self) -> str:
        """Return medians over the queries as a table, for pages on which no script runs."""
        rows, cells = [], []
        for d_k in (4, 16, 64, 256):
            for divisor in DIVISORS:
                measured = TemperatureAndWidth(d_k, divisor=divisor).measure()
                medians = [measured[name].median() for name in ("largest", "entropy", "norm")]
                rows.append(f"d_k = {d_k}, divided by {'1' if divisor == 'none' else divisor}")
                cells.append([rounded(measured["scores"].std(), 2), *(rounded(median) for median in medians)])
        most = f"ln {KEYS} = {math.log(KEYS):.3f}"
        caption = f"Scores of {QUERIES} queries and {KEYS} keys, and medians over the queries ({most})."
        columns = ["standard deviation of the scores", "largest weight", "entropy", "norm of the Jacobian"]
        return html_table(caption, rows, columns, cells)
