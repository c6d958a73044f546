"""What all widgets share: where their bundle is, and what a cell leaves behind for a page without a kernel."""

import base64
import html
import inspect
import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

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
    normal = torch.randn(count, generator=torch.Generator().manual_seed(seed), device="cpu", dtype=torch.float64)
    places = (normal * _PER_UNIT + _MIDDLE).round().clamp(0, len(LETTERS) - 1)
    return "".join(LETTERS[int(place)] for place in places)


def read_letters(letters: str, width: int) -> Tensor:
    """Return the numbers that the letters stand for, in rows of a given width, float64."""
    places = torch.tensor([LETTERS.index(letter) for letter in letters], dtype=torch.float64)
    return ((places - _MIDDLE) / _PER_UNIT).view(-1, width)


#: Mounts the widget before it in a shadow root, which the front end's styles do not reach, and makes it dark where
#: JupyterLab, Colab or VS Code is. The two texts are the widget's bundle and its style sheet.
MOUNT = """<script>(async (bundle, sheet) => {
  const element = document.currentScript.parentElement.querySelector("[data-widget]:not([data-mounted])");
  element.dataset.mounted = "loading";
  const address = URL.createObjectURL(new Blob([bundle], { type: "text/javascript" }));
  const { default: widget } = await import(address);
  const make = (name, textContent = "") => Object.assign(document.createElement(name), { textContent });
  const dark = ":is(body[data-jp-theme-light=false], html[theme=dark], body.vscode-dark)";
  element.before(make("style", `[data-widget] { color-scheme: light } ${dark} [data-widget] { color-scheme: dark }`));
  const el = make("div");
  element.attachShadow({ mode: "open" }).append(make("style", sheet), el);
  widget.render({ state: JSON.parse(element.dataset.state), el });
  element.dataset.mounted = "yes";
})(%s, %s)</script>"""


class BookWidget(traitlets.HasTraits):
    """A widget with a bundle in ``static``, which shows itself wherever HTML is shown.

    ``module`` is the name of its folder in ``js/widgets`` and of its bundle. Its traits are its state.
    """

    module: ClassVar[str]
    html_class: ClassVar[str] = "attention-widget"  # a demonstration; a question has another
    later: str = ""  # a heavy one is fetched by the site when a reader presses a button that says this

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # What help shows; else it finds the (*args, **kwargs) of traitlets.
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        cls.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        super().__init_subclass__(**kwargs)

    @classmethod
    def _showing(cls, **state: Any) -> Self:
        """Make a widget from a state that has been checked."""
        widget = cls.__new__(cls)
        BookWidget.__init__(widget, **state)
        return widget

    @classmethod
    def bundle(cls, kind: str) -> str:
        """Return the widget's ES module ("js"), or its style sheet ("css")."""
        return (STATIC / f"{cls.module}.{kind}").read_text(encoding="utf-8")

    def state(self) -> dict[str, Any]:
        """Return the state that the ES module needs, as it goes into a page."""
        return {name: getattr(self, name) for name in sorted(self.trait_names())}

    def static_html(self) -> str:
        """Return what a page shows where no script runs."""
        raise NotImplementedError

    def to_html(self) -> str:
        """Return an element that the site's script turns into the widget; without a script it shows a table."""
        return self._element(f'data-offer="{html.escape(self.later)}" data-later-' if self.later else "data-")

    def _element(self, marks: str) -> str:
        state = html.escape(json.dumps(self.state(), ensure_ascii=False, separators=(",", ":"), allow_nan=False))
        opening = f'<div class="{self.html_class}" {marks}widget="{self.module}" data-state="{state}">'
        return f"{opening}\n{self.static_html()}\n</div>"

    def _repr_html_(self) -> str:
        """Return what a cell leaves behind: on the site the element, in a notebook the script that mounts it, too.

        The script holds all that it needs. So the widget works in a frame of its own, as in Colab, and in a saved
        notebook that is opened again without a kernel; where a viewer runs no script, the table stands there.
        """
        if static_widgets():
            return self.to_html()
        parts = (json.dumps(self.bundle(kind), ensure_ascii=False).replace("<", "\\u003c") for kind in ("js", "css"))
        return f"{self._element('data-')}\n{MOUNT % tuple(parts)}"


LETTER, LINE, BOX, LEAST = 9, 38, 22, 0.1  # of a still: a letter, a line, a box, the least weight that has an arc


def still_html(width: int, height: int, shapes: Iterable[str], said: str, scale: float = 1.14) -> str:
    """Draw what a page shows of a heavy widget until it is fetched: letters 9 wide, and below them what they say."""
    ink = 'fill="currentColor" stroke="currentColor" stroke-width="2" font-family="monospace" font-size="15"'
    size = f'viewBox="0 0 {width} {height}" style="width: {round(scale * width)}px"'
    drawn = f'<svg {size} {ink} role="img" aria-label="{html.escape(said)}">{"".join(shapes)}</svg>'
    return f'<div class="attention-widget-still">\n{drawn}\n<p aria-hidden="true">{html.escape(said)}</p>\n</div>'


def still_box(box: tuple[int, int, int], style: str) -> str:
    """Draw the box of a token: left edge, top and width."""
    left, top, width = box
    return f'<rect x="{left}" y="{top}" width="{width}" height="{BOX}" rx="3" {style}/>'


def still_look(start: tuple[int, int, int], end: tuple[int, int, int], weight: float) -> str:
    """Draw an arc from the top of a token's box to below another's, and this box, as strong as the weight."""
    x, y, to, bottom = start[0] + start[2] / 2, start[1], end[0] + end[2] / 2, end[1] + BOX
    box = still_box(end, f'stroke="none" fill-opacity="{weight:.2f}"')
    curve = f"M{x} {y}C{x} {y - 20} {to} {bottom + 20} {to} {bottom}"
    return f'{box}<path d="{curve}" fill="none" stroke-opacity="{0.3 + 0.6 * weight:.2f}"/>'


def still_text(left: float, top: float, text: str) -> str:
    """Write letters into boxes whose line begins at `top`."""
    place = f'x="{left}" y="{top + 16}" textLength="{LETTER * len(text)}"'
    return f'<text {place} stroke="none" style="white-space: pre">{html.escape(text)}</text>' if text else ""


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
