"""Step through the tiles: softmax of a row that is read block by block, with a running maximum and a running sum."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from .._validation import check_flag, check_size
from ..functional import scaled_dot_product_attention
from ..notebook.display import rounded
from .base import BookWidget, check_one_of, html_table

__all__ = ["Tiles"]

LIMIT = 100_000.0  # the largest score that can be typed

_SCORES = [1.0, 2.0, 0.5, 3.0, -1.0, 2.5, 4.0, 1.5]
_VALUES = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]


def _row(note: str, scores: list[float], masked: Sequence[int] = (), block: int = 2) -> dict[str, Any]:
    return {
        "scores": scores,
        "values": _VALUES[: len(scores)],
        "masked": list(masked),
        "block": block,
        "note": note,
    }


#: The rows that the widget offers, by name.
ROWS: dict[str, dict[str, Any]] = {
    "ordinary": _row(
        "With two keys in a block, the maximum rises twice after the first block. Each time, the sums so far are "
        "scaled down.",
        _SCORES,
    ),
    "largest first": _row(
        "The largest score is in the first block, so the maximum never rises. Forget to rescale, and nobody notices.",
        [4.0, 2.0, 0.5, 3.0, -1.0, 2.5, 1.0, 1.5],
    ),
    "one score of 10,000": _row(
        "The exponential of 10,000 is too large for a computer. Leave out the maximum and see.",
        [1.0, 2.0, 0.5, 10_000.0, -1.0, 2.5, 4.0, 1.5],
    ),
    "all far below zero": _row(
        "Every exponential rounds to 0, unless the maximum is subtracted first.", [s - 1000 for s in _SCORES]
    ),
    "first block masked": _row(
        "With two keys in a block, the first block is masked as a whole and its maximum is minus infinity. Careless "
        "code subtracts minus infinity from minus infinity.",
        _SCORES,
        masked=[0, 1],
    ),
    "ragged tail": _row("Seven keys. In blocks of three, the last block has one.", _SCORES[:7], block=3),
    "all masked": _row("Every key is masked. The package answers with zeros.", _SCORES, masked=range(8)),
}


class Tiles(BookWidget):
    r"""Compute one row of attention block by block, as kernels do that never hold the whole row, one step at a time.

    For each block, with the scores :math:`s_j` and values :math:`v_j` of its keys:

    .. math:: t' = \max(t, \max_j s_j), \quad r = e^{t - t'}, \quad
        l' = r\, l + \sum_j e^{s_j - t'}, \quad u' = r\, u + \sum_j e^{s_j - t'} v_j, \quad o = \frac{u'}{l'}

    with :math:`t = -\infty` and :math:`l = u = 0` before the first. After the last block, :math:`o` is the output of
    the softmax over the whole row, which stands beside it. Three mistakes can be switched on.

    Args:
        row: the name of a row, such as ``"first block masked"``.
        block: how many keys a block has; the row's own number when left out.
        step: how many blocks have been read.
        forget: do not rescale what was summed before when the maximum rises.
        no_maximum: do not subtract the maximum from the scores.
        careless: give no separate treatment to blocks and rows in which every key is masked.
        predict: hide the result until the reader has made a prediction.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if there is no such row, block or step.

    Example:
        >>> widget = Tiles("ordinary", block=4)
        >>> widget
        Tiles('ordinary', block=4, step=0)
        >>> steps = widget.steps()
        >>> [round(t, 2) for t in steps["t"].tolist()], [round(o, 4) for o in steps["o"].tolist()]
        ([3.0, 4.0], [3.228, 5.7577])
        >>> round(steps["naive"].item(), 4)
        5.7577
        >>> Tiles("first block masked", careless=True).steps()["o"].isnan().all().item()
        True
    """

    module = "tiles"

    rows: "traitlets.List[dict[str, Any]]" = traitlets.List()
    limit = traitlets.Float(LIMIT)
    row = traitlets.Unicode()
    scores = traitlets.List(traitlets.Float())
    values = traitlets.List(traitlets.Float())
    masked = traitlets.List(traitlets.Int())
    block = traitlets.Int(2)
    step = traitlets.Int(0)
    forget = traitlets.Bool(False)
    no_maximum = traitlets.Bool(False)
    careless = traitlets.Bool(False)
    predict = traitlets.Bool(False)

    def __init__(
        self,
        row: str = "ordinary",
        *,
        block: int | None = None,
        step: int = 0,
        forget: bool = False,
        no_maximum: bool = False,
        careless: bool = False,
        predict: bool = False,
    ) -> None:
        switches = {"forget": forget, "no_maximum": no_maximum, "careless": careless, "predict": predict}
        for name, flag in switches.items():
            check_flag(name, flag)
        check_one_of("row", row, ROWS)
        chosen = ROWS[row]
        block = chosen["block"] if block is None else block
        check_size("block", block, minimum=1)
        n = len(chosen["scores"])
        if block > n:
            raise ValueError(f"block must be at most the number of scores, {n}; got {block}")
        check_size("step", step)
        blocks = -(-n // block)
        if step > blocks:
            raise ValueError(f"step must be at most the number of blocks, {blocks}; got {step}")
        super().__init__(
            rows=[{"name": name, **offer} for name, offer in ROWS.items()],
            row=row,
            scores=chosen["scores"],
            values=chosen["values"],
            masked=chosen["masked"],
            block=block,
            step=step,
            **switches,
        )

    def __repr__(self) -> str:
        return f"Tiles({self.row!r}, block={self.block}, step={self.step})"

    def steps(self) -> dict[str, Tensor]:
        """Compute what stands in the widget after every block, and with the package's own function the whole row.

        Returns:
            Float64 tensors by name. One number for each block: the running maximum ``t``, the ``factor`` that what
            came before is multiplied by, the running sums ``l`` and ``u`` and the output ``o`` so far. For each block
            and key (blocks, keys): the ``weights`` so far, 0 for keys not yet read. Of the whole row: ``naive_weights``
            (keys,) and the output ``naive``.
        """
        scores = torch.tensor(self.scores, dtype=torch.float64)
        values = torch.tensor(self.values, dtype=torch.float64)
        allowed = torch.ones(len(scores), dtype=torch.bool)
        allowed[list(self.masked)] = False
        masked = scores.masked_fill(~allowed, -torch.inf)
        t, total, u = (torch.tensor(x, dtype=torch.float64) for x in (-torch.inf, 0.0, 0.0))
        parts = torch.zeros(len(scores), dtype=torch.float64)  # what each key has added to l
        steps: dict[str, list[Tensor]] = {name: [] for name in ("t", "factor", "l", "u", "o", "weights")}
        for first in range(0, len(scores), self.block):
            here = slice(first, first + self.block)
            before, t = t, torch.maximum(t, masked[here].max())
            taken_off = torch.zeros_like(t) if self.no_maximum or (t == -torch.inf and not self.careless) else t
            factor = torch.ones_like(t) if self.forget or self.no_maximum else (before - taken_off).exp()
            parts = factor * parts
            parts[here] = (masked[here] - taken_off).exp()
            total = factor * total + parts[here].sum()
            u = factor * u + (parts[here] * values[here]).sum()
            below = torch.ones_like(total) if total == 0 and not self.careless else total
            made = {"t": t, "factor": factor, "l": total, "u": u, "o": u / below, "weights": parts / below}
            for name, tensor in made.items():
                steps[name].append(tensor)
        whole, weights = scaled_dot_product_attention(
            torch.ones(1, 1, dtype=torch.float64), scores[:, None], values[:, None], allowed[None], scale=1.0
        )
        return {name: torch.stack(all_) for name, all_ in steps.items()} | {
            "naive_weights": weights[0],
            "naive": whole[0, 0],
        }

    def static_html(self) -> str:
        """Return what stands after each block as a table, for pages on which no script runs."""
        steps = self.steps()
        names = {"t": "maximum t", "factor": "factor", "l": "sum l", "u": "sum u", "o": "output so far"}
        keys = range(0, len(self.scores), self.block)
        rows = [f"block {b + 1}" for b, _ in enumerate(keys)] + ["whole row"]
        cells = [[_told(steps[name][b]) for name in names] for b, _ in enumerate(keys)]
        cells.append(["", "", "", "", _told(steps["naive"])])
        caption = f"One row of {len(self.scores)} scores ({self.row}), read in blocks of {self.block}."
        return html_table(caption, rows, list(names.values()), cells)


def _told(number: Tensor) -> str:
    """Write a number that may be infinite or none."""
    value = number.item()
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return rounded(number)
