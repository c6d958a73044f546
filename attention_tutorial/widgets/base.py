"""What all widgets share: where their bundle is, and what a cell leaves behind for a page without a kernel."""

import base64
import html
import inspect
import json
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import anywidget
import numpy as np
import torch
import traitlets
from torch import Tensor

from ..notebook.session import static_widgets

#: What `js/` is built into: NAME.js and NAME.css for each widget.
STATIC = Path(__file__).parent / "static"


def encode_floats(numbers: Iterable[float]) -> str:
    """Write measured numbers as ``f32:`` and little-endian float32 in base64, for ``decodeFloats`` in ``js/kit``.

    The tests compare such numbers as numbers, to 1e-6, since their last digits differ between machines.
    """
    return "f32:" + base64.b64encode(np.fromiter(numbers, "<f4").tobytes()).decode("ascii")


#: One letter stands for one number: the 64 letters, in order, are -63/16, -61/16, ..., 63/16.
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_MIDDLE, _PER_UNIT = (len(LETTERS) - 1) / 2, 8


def draw_letters(count: int, seed: int) -> str:
    """Draw normal numbers and write each, rounded to odd sixteenths, as a letter.

    Rounded so, products and their sums are exact, in a browser as in torch, and a number has variance 1.001.
    """
    normal = torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    places = (normal * _PER_UNIT + _MIDDLE).round().clamp(0, len(LETTERS) - 1)
    return "".join(LETTERS[int(place)] for place in places)


def read_letters(letters: str, width: int) -> Tensor:
    """Return the numbers that the letters stand for, in rows of a given width, float64."""
    places = torch.tensor([LETTERS.index(letter) for letter in letters], dtype=torch.float64)
    return ((places - _MIDDLE) / _PER_UNIT).view(-1, width)


class BookWidget(anywidget.AnyWidget):
    """A widget with a bundle in ``static``, which also shows on a page without a kernel.

    ``module`` is the name of its folder in ``js/widgets`` and of its bundle. Its synchronised traits are its state.
    """

    module: ClassVar[str]
    html_class: ClassVar[str] = "attention-widget"  # a demonstration; a question has another
    later: ClassVar[str] = ""  # a heavy one is fetched by the site when a reader presses a button that says this

    _keys = traitlets.List(traitlets.Unicode()).tag(sync=True)  # the names of the state, which the module asks for

    # ipywidgets 7, which Colab has, would otherwise go past the mime bundle.
    _ipython_display_ = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "module" in cls.__dict__:  # not in the classes that traitlets derives for its own use
            cls._esm, cls._css = STATIC / f"{cls.module}.js", STATIC / f"{cls.module}.css"
            # What help shows; else it finds the (*args, **kwargs) of traitlets.
            parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
            cls.__signature__ = inspect.Signature(parameters)
        super().__init_subclass__(**kwargs)

    @classmethod
    def _showing(cls, **state: Any) -> Self:
        """Make a widget from a state that has been checked."""
        widget = cls.__new__(cls)
        BookWidget.__init__(widget, **state)
        return widget

    @traitlets.default("_keys")
    def _names_of_the_state(self) -> list[str]:
        names = set(self.traits(sync=True)) - set(anywidget.AnyWidget.class_traits())
        return sorted(name for name in names if not name.startswith("_"))

    def open(self) -> None:
        """Open the channel to the browser; not where only HTML is wanted, since its messages hold random ids."""
        if not static_widgets():
            super().open()

    def state(self) -> dict[str, Any]:
        """Return the state that the ES module needs, as it goes into a page."""
        return {name: getattr(self, name) for name in self._keys}

    def static_html(self) -> str:
        """Return what a page shows where no script runs."""
        raise NotImplementedError

    def to_html(self) -> str:
        """Return an element that the site's script turns into the widget; without a script it shows a table."""
        state = html.escape(json.dumps(self.state(), ensure_ascii=False, separators=(",", ":"), allow_nan=False))
        offer = f'data-offer="{html.escape(self.later)}" data-later-' if self.later else "data-"
        opening = f'<div class="{self.html_class}" {offer}widget="{self.module}" data-state="{state}">'
        return f"{opening}\n{self.static_html()}\n</div>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **kwargs: Any) -> Any:
        page = {"text/plain": repr(self), "text/html": self.to_html()}
        if static_widgets():
            return page, {}
        live = super()._repr_mimebundle_()
        data, metadata = live if isinstance(live, tuple) else (live or {}, {})
        if "google.colab" in sys.modules:  # it may prefer HTML to a widget, and has always a kernel
            del page["text/html"]
        return {**data, **page}, metadata


def check_one_of(name: str, value: Any, offered: Collection[Any]) -> None:
    """Require one of the values that are offered."""
    if value not in offered:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, offered))}; got {value!r}")


def check_places(name: str, places: Any, n: int) -> list[int]:
    """Require places from 0 to n - 1, and return them in order."""
    if not isinstance(places, Sequence) or isinstance(places, str):
        raise TypeError(f"{name} must be a sequence of positions; got {places!r}")
    if not all(isinstance(p, int) and not isinstance(p, bool) and 0 <= p < n for p in places):
        raise ValueError(f"{name} must hold positions from 0 to {n - 1}; got {list(places)}")
    return sorted(set(places))


def html_table(caption: str, rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Write a table with headers for its rows and columns."""
    lines = ["<table>", f"<caption>{html.escape(caption)}</caption>"]
    heads = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in columns)
    lines.append(f"<thead><tr><td></td>{heads}</tr></thead>")
    lines.append("<tbody>")
    for row, values in zip(rows, cells, strict=True):
        lines.append(
            f'<tr><th scope="row">{html.escape(row)}</th>'
            + "".join(f"<td>{html.escape(v)}</td>" for v in values)
            + "</tr>"
        )
    return "\n".join([*lines, "</tbody>", "</table>"])
