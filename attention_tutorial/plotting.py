"""Figures: arrays and an ``ax`` go in, the ``Axes`` come out.

Rows of a heat map are queries and columns are keys. Weights are drawn on a fixed scale from 0 to 1, so that panels
compare; the colour map runs from light to dark and survives grey print and colour blindness.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap, to_rgba
from matplotlib.font_manager import fontManager
from matplotlib.image import AxesImage
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

__all__ = [
    "COLORS",
    "GREY",
    "KEY",
    "QUERY",
    "VALUE",
    "attention_flow",
    "band",
    "draw_matrix",
    "heatmap",
    "mask_map",
    "matrix_chain",
    "use_style",
]

# Okabe and Ito's colours, which people with any kind of colour vision tell apart.
QUERY, KEY, VALUE = "#0072B2", "#D55E00", "#009E73"
COLORS = (QUERY, KEY, VALUE, "#CC79A7", "#E69F00", "#56B4E9")
GREY = "#595959"
INK, LINE = "#1f2328", "#a3a3a3"  # of letters, and of axes
MATHS_STYLES = {"it": "italic", "bf": "bold", "bfit": "bold:italic"}
FONTS = Path(__file__).parent / "fonts"
WEIGHT_MAP = "Blues"
ROUND_CORNERS = "round,pad=0,rounding_size=0.12"
JOINT_WIDTH = 1.1  # between two matrices of a chain, in cells


def use_style() -> None:
    """Give matplotlib the book's style: its faces of text, few lines, and nothing louder than the data.

    The faces come with the package (`fonts`); a sign that they lack, such as an arrow, is taken from matplotlib's own.

    Example:
        >>> use_style()
        >>> plt.rcParams["font.family"]
        ['Book Sans', 'DejaVu Sans']
    """
    known = {font.fname for font in fontManager.ttflist}
    for file in sorted(map(str, FONTS.glob("*.ttf"))):
        if file not in known:
            fontManager.addfont(file)
    settings: dict[Any, Any] = {  # matplotlib types the name of each
        "figure.figsize": (7.0, 4.0),
        "figure.dpi": 120,
        "figure.facecolor": "white",
        "figure.constrained_layout.use": True,
        "axes.facecolor": "white",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": LINE,
        "axes.linewidth": 1.0,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.prop_cycle": cycler(color=list(COLORS)),
        "axes.titlesize": 12.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 12,
        "axes.labelcolor": INK,
        "xtick.color": LINE,
        "xtick.labelcolor": INK,
        "ytick.color": LINE,
        "ytick.labelcolor": INK,
        "grid.color": "#ebebeb",
        "font.family": ["Book Sans", "DejaVu Sans"],
        "font.monospace": ["Book Mono", "DejaVu Sans Mono"],
        "font.size": 12,
        "legend.edgecolor": "none",
        "legend.facecolor": "white",
        "legend.framealpha": 0.9,
        "lines.linewidth": 2.2,
        "mathtext.fontset": "custom",
        **{f"mathtext.{kind}": "Book Sans" for kind in ("cal", "rm", "sf")},
        **{f"mathtext.{kind}": f"Book Sans:{style}" for kind, style in MATHS_STYLES.items()},
        "mathtext.tt": "Book Mono",
        "mathtext.fallback": "stixsans",
        "svg.hashsalt": "attention_tutorial",
        "text.color": INK,
    }
    plt.rcParams.update(settings)


def _array(values: Any) -> np.ndarray:
    """Turn tensors on any device, lists and arrays into a float array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double()  # NumPy has no bfloat16
    return np.asarray(values, dtype=float)


def _axes(ax: Axes | None, **figure: Any) -> Axes:
    return ax if ax is not None else plt.subplots(**figure)[1]


def _check_labels(array: np.ndarray, row_labels: Sequence[str] | None, column_labels: Sequence[str] | None) -> None:
    for name, labels, size in zip(
        ("row_labels", "column_labels"), (row_labels, column_labels), array.shape, strict=True
    ):
        if labels is not None and len(labels) != size:
            raise ValueError(f"{name} must hold one label for each of {size} positions; got {len(labels)}")


def heatmap(
    weights: Any,
    row_labels: Sequence[str] | None = None,
    column_labels: Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
    annotate: bool | str = False,
    title: str | None = None,
    vmin: float = 0.0,
    vmax: float = 1.0,
    cmap: str | Colormap = WEIGHT_MAP,
    row_name: str = "query",
    column_name: str = "key",
) -> Axes:
    """Draw weights as a heat map: one row per query, one column per key.

    Args:
        weights: (m, n), a tensor or an array.
        row_labels: m tokens, the queries.
        column_labels: n tokens, the keys.
        ax: where to draw; a new figure when left out.
        annotate: write the number into each cell; a string is its format, such as ``".3f"``.
        title: above the map.
        vmin: value of the lightest colour; weights keep 0, so that panels compare.
        vmax: value of the darkest colour; weights keep 1.
        cmap: a matplotlib colour map, or its name.
        row_name: label of the vertical axis.
        column_name: label of the horizontal axis.

    Returns:
        The axes.

    Raises:
        ValueError: if ``weights`` has not two axes, or the labels do not match it.

    Example:
        >>> ax = heatmap([[0.25, 0.75]], ["sat"], ["the", "cat"], annotate=True)
        >>> [text.get_text() for text in ax.texts]
        ['0.25', '0.75']
    """
    array = _array(weights)
    if array.ndim != 2:
        raise ValueError(f"weights must be (m, n); got shape {array.shape}")
    _check_labels(array, row_labels, column_labels)
    m, n = array.shape
    ax = _axes(ax, figsize=(1.6 + 0.62 * n, 1.2 + 0.55 * m))
    image = ax.imshow(array, cmap=cmap, vmin=vmin, vmax=vmax, aspect="auto", interpolation="none")
    ax.set_xticks(range(n), [str(j + 1) for j in range(n)] if column_labels is None else column_labels)
    ax.set_yticks(range(m), [str(i + 1) for i in range(m)] if row_labels is None else row_labels)
    if column_labels is not None and max(map(len, column_labels)) > 4:
        plt.setp(ax.get_xticklabels(), rotation=45, ha="right", rotation_mode="anchor")  # a word ends at its column
    ax.set(xlabel=column_name, ylabel=row_name, title=title or "")
    ax.grid(False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if annotate:
        _annotate(ax, image, array, annotate if isinstance(annotate, str) else ".2f")
    return ax


def mask_map(
    mask: Any,
    row_labels: Sequence[str] | None = None,
    column_labels: Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw a boolean mask: a dark cell where the query may attend to the key, a light one with a cross where not.

    A row without any allowed key is framed.

    Args:
        mask: (m, n), boolean, True = may attend.
        row_labels: m tokens, the queries.
        column_labels: n tokens, the keys.
        ax: where to draw; a new figure when left out.
        title: above the map.

    Returns:
        The axes.

    Raises:
        ValueError: if ``mask`` has not two axes or is not boolean, or the labels do not match it.

    Example:
        >>> ax = mask_map([[True, False], [True, True]], ["the", "cat"], ["the", "cat"])
        >>> [text.get_text() for text in ax.texts]
        ['×']
    """
    array = np.asarray(mask.detach().cpu() if hasattr(mask, "detach") else mask)
    if array.dtype != bool:
        raise ValueError(f"mask must be boolean, True = may attend; got {array.dtype}")
    if array.ndim != 2:
        raise ValueError(f"mask must be (m, n); got shape {array.shape}")
    colors = ListedColormap(["#f3f3f3", GREY])
    ax = heatmap(array, row_labels, column_labels, ax=ax, title=title, cmap=colors)
    m, n = array.shape
    ax.set_xticks(np.arange(1, n) - 0.5, minor=True)
    ax.set_yticks(np.arange(1, m) - 0.5, minor=True)
    ax.grid(True, which="minor", color="white", linewidth=2)
    ax.tick_params(which="minor", length=0)
    for i, j in np.argwhere(~array):
        ax.text(j, i, "×", ha="center", va="center", color=GREY)
    for i in np.flatnonzero(~array.any(axis=1)):
        ax.add_patch(Rectangle((-0.47, i - 0.46), n - 0.06, 0.92, fill=False, edgecolor=COLORS[3], linewidth=2.5))
    return ax


def _annotate(ax: Axes, image: AxesImage, array: np.ndarray, form: str) -> None:
    """Write each number into its cell, light on dark cells and dark on light ones."""
    for (i, j), x in np.ndenumerate(array):
        luminance = float(np.dot(image.to_rgba(x)[:3], (0.299, 0.587, 0.114)))
        number = f"{x:{form}}".replace("-", "−")
        number = number if re.search("[1-9]", number) else number.removeprefix("−")
        ax.text(j, i, number, ha="center", va="center", color="white" if luminance < 0.55 else "black")


def band(
    x: Sequence[float],
    runs: Any,
    *,
    ax: Axes | None = None,
    label: str | None = None,
    color: str = QUERY,
    marker: str | None = "o",
    linestyle: str = "-",
) -> Axes:
    """Draw the mean over several runs as a line, and the range from the lowest to the highest run as a band.

    Args:
        x: the n places along the horizontal axis.
        runs: (runs, n), one row for each seed.
        ax: where to draw; a new figure when left out.
        label: the line's name in the legend.
        color: of line and band.
        marker: of the line's points.
        linestyle: of the line.

    Returns:
        The axes.

    Raises:
        ValueError: if ``runs`` is not (runs, n).

    Example:
        >>> ax = band([1, 2], [[0.0, 1.0], [1.0, 1.0]])
        >>> ax.lines[0].get_ydata().tolist()
        [0.5, 1.0]
    """
    array = _array(runs)
    if array.ndim != 2 or array.shape[1] != len(x):
        raise ValueError(f"runs must be (runs, n) with n={len(x)}; got shape {array.shape}")
    ax = _axes(ax)
    ax.plot(x, array.mean(axis=0), color=color, label=label, marker=marker, linestyle=linestyle)
    ax.fill_between(x, array.min(axis=0), array.max(axis=0), color=color, alpha=0.2, linewidth=0)
    return ax


def matrix_chain(
    matrices: Sequence[tuple[str, Any, str]],
    *,
    ax: Axes | None = None,
    joints: Sequence[str] = (),
) -> Axes:
    """Draw several small matrices side by side with their numbers, names and shapes.

    Whole numbers stand without decimals, and a dot stands for zero.

    Args:
        matrices: for each its name, its values (rows, columns) and its colour.
        ax: where to draw; a new figure when left out.
        joints: what stands between two matrices, such as ``"→"``; one fewer than there are matrices.

    Returns:
        The axes.

    Raises:
        ValueError: if a matrix has not two axes, or the joints do not fit between the matrices.

    Example:
        >>> ax = matrix_chain([("Q", [[1.0, 0.0]], QUERY), ("K", [[0.0, 1.0]], KEY)], joints=["·"])
        >>> [text.get_text() for text in ax.texts][:2]
        ['1', '·']
    """
    arrays = [_array(values) for _, values, _ in matrices]
    if any(array.ndim != 2 for array in arrays):
        raise ValueError(f"matrices must have two axes each; got shapes {[array.shape for array in arrays]}")
    if joints and len(joints) != len(matrices) - 1:
        raise ValueError(f"joints must be one fewer than the {len(matrices)} matrices; got {len(joints)}")
    tallest = max(array.shape[0] for array in arrays)
    width = sum(array.shape[1] for array in arrays) + JOINT_WIDTH * (len(arrays) - 1)
    ax = _axes(ax, figsize=(max(0.58 * width, 3), 0.5 * tallest + 1.1))
    left = 0.0
    for (name, _, color), array, joint in zip(matrices, arrays, [*joints, *[""] * len(matrices)], strict=False):
        rows, columns = array.shape
        _matrix(ax, array, name, color, left=left, top=(tallest - rows) / 2)
        left += columns
        if joint:
            ax.text(left + JOINT_WIDTH / 2, tallest / 2, joint, ha="center", va="center", color=GREY,
                    fontsize=17 if len(joint) == 1 else 10.5)  # fmt: skip
        left += JOINT_WIDTH
    ax.set(xlim=(-0.2, left - JOINT_WIDTH + 0.2), ylim=(tallest + 0.75, -0.8), aspect="equal")
    ax.axis("off")
    return ax


def _matrix(ax: Axes, array: np.ndarray, name: str, color: str, *, left: float, top: float) -> None:
    """Draw one matrix of a chain: a box for each number, its name above, its shape below."""
    rows, columns = array.shape
    draw_matrix(array, left, top, color=color, ax=ax)
    centre, below = left + columns / 2, top + rows + 0.35
    ax.text(centre, top - 0.35, name, ha="center", va="center", color=color, weight="bold")
    ax.text(centre, below, f"{rows} × {columns}", ha="center", va="center", fontsize=9, color=GREY)


def draw_matrix(
    values: Any,
    left: float,
    top: float,
    *,
    color: str = GREY,
    size: float = 1.0,
    fontsize: float = 10,
    ax: Axes | None = None,
) -> Axes:
    """Draw a matrix at a place: a box for each number, in axes whose vertical axis runs downwards.

    Whole numbers stand without decimals, and a dot stands for zero.

    Args:
        values: (rows, columns).
        left: the left edge.
        top: the upper edge.
        color: of the boxes.
        size: the side of a box.
        fontsize: of the numbers.
        ax: where to draw; a new figure when left out.

    Returns:
        The axes.

    Raises:
        ValueError: if ``values`` has not two axes.

    Example:
        >>> ax = draw_matrix([[4, 0, -0.5]], 0, 0, color=QUERY)
        >>> [text.get_text() for text in ax.texts]
        ['4', '·', '−0.50']
    """
    array = _array(values)
    if array.ndim != 2:
        raise ValueError(f"values must be (rows, columns); got shape {array.shape}")
    ax = _axes(ax)
    for (i, j), x in np.ndenumerate(array):
        corner, side = (left + (j + 0.04) * size, top + (i + 0.04) * size), 0.92 * size
        ax.add_patch(FancyBboxPatch(corner, side, side, boxstyle=ROUND_CORNERS,
                                    facecolor=to_rgba(color, 0.13), edgecolor=color, linewidth=1))  # fmt: skip
        number = _short(x)
        ax.text(left + (j + 0.5) * size, top + (i + 0.52) * size, number, ha="center", va="center",
                fontsize=fontsize if len(number) < 5 else 0.85 * fontsize)  # fmt: skip
    ax.autoscale_view()
    return ax


def _short(x: float) -> str:
    """Write a number as short as it may be: a dot for zero, no decimals for a whole number, two for any other."""
    whole = abs(x - round(x)) < 1e-9
    if whole and round(x) == 0:
        return "·"
    return (f"{round(x)}" if whole else f"{x:.2f}").replace("-", "−")


def attention_flow(
    query: Any,
    keys: Any,
    values: Any,
    tokens: Sequence[str],
    target: int,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw with all its numbers how one position's output is put together.

    The query of the target position meets every key, softmax turns the scores into weights, and each value flows into
    the output along an arrow as wide as its weight.

    Args:
        query: (d_k,), what the target position looks for.
        keys: (n, d_k).
        values: (n, d_v).
        tokens: n tokens.
        target: index of the position whose output is computed, from 0.
        ax: where to draw; a new figure when left out.

    Returns:
        The axes.

    Raises:
        ValueError: if the shapes of query, keys, values and tokens do not match, or there is no such position.

    Example:
        >>> ax = attention_flow([1.0], [[0.0], [2.0]], [[3.0], [5.0]], ["cat", "sat"], target=1)
        >>> [text.get_text() for text in ax.texts][-1]  # 0.12 times 3 and 0.88 times 5
        '4.76'
    """
    q, K, V, n = _array(query), _array(keys), _array(values), len(tokens)
    if q.ndim != 1 or K.shape != (n, q.size) or V.ndim != 2 or len(V) != n:
        raise ValueError(f"query, keys and values must be (d_k,), (n, d_k) and (n, d_v) for {n} tokens; "
                         f"got {q.shape}, {K.shape} and {V.shape}")  # fmt: skip
    if not 0 <= target < n:
        raise ValueError(f"target must be a position from 0 to {n - 1}; got {target}")
    scores = K @ q / np.sqrt(q.size)
    exponentials = np.exp(scores)
    weights = exponentials / exponentials.sum()
    ax = _axes(ax, figsize=(1.4 * n + 1.2, 7.4))
    places = [2.0 * j for j in range(n)]
    left, right = -2.0, places[-1] + 0.9
    _draw_query(ax, places[target], left, right, q)
    ax.add_patch(FancyBboxPatch((left - 0.4, EXPONENTIALS - 0.46), right - left + 0.4, 0.92, boxstyle=ROUND_CORNERS,
                                facecolor="#f2f2f2", edgecolor=GREY, linewidth=1))  # fmt: skip
    for y, word in (
        (SCORES, f"score\n$q^{{\\top}} k\\,/\\sqrt{{{q.size}}}$"),
        (EXPONENTIALS, "softmax:\n$e^{\\,\\mathrm{score}}$"),
        (WEIGHTS, f"÷ {exponentials.sum():.1f}:\nweight"),
    ):
        ax.text(left - 0.25, y, word, ha="left", va="center", fontsize=11, color=GREY)
    for j, (x, token) in enumerate(zip(places, tokens, strict=True)):
        _draw_key_and_value(ax, x, token, K[j], V[j])
        ax.text(x - ASIDE, SCORES, f"{scores[j]:.2f}", ha="center", va="center", fontsize=10.5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})  # fmt: skip
        ax.text(x - ASIDE, EXPONENTIALS, f"{exponentials[j]:.1f}", ha="center", va="center", fontsize=10.5)
        _draw_weight(ax, x, weights[j], output_at=places[target])
    ax.text(-0.66, 0.72, "key", ha="right", va="center", fontsize=11, color=KEY)
    ax.text(0.6, 0.72, "value", ha="left", va="center", fontsize=11, color=VALUE)
    ax.text(places[target] + 0.75, OUTPUT, "output", ha="left", va="center", fontsize=11, color=VALUE)
    output = "\n".join(f"{x:.2f}" for x in weights @ V)
    _box(ax, places[target], OUTPUT, output, VALUE, width=1.1, height=1.25)
    ax.set(xlim=(left - 0.6, right + 0.2), ylim=(-1.1, OUTPUT + 0.85))
    ax.axis("off")
    return ax


# Heights in the picture of a flow, from the tokens at the bottom to the output at the top
TOKENS, KEYS_AND_VALUES, QUERY_LINE, SCORES, EXPONENTIALS, WEIGHTS, OUTPUT = 0.0, 1.7, 2.9, 3.8, 4.95, 6.1, 8.3
ASIDE = 0.42  # a key stands so far left of its token, a value so far right
TALL = 1.2  # a key or a value, whose numbers stand one below the other


def _draw_query(ax: Axes, x: float, left: float, right: float, query: np.ndarray) -> None:
    """Draw the query's way: from its token around the outside to a line that passes every key."""
    around = TOKENS - 0.85
    _line(ax, [(x, TOKENS - 0.34), (x, around), (left, around), (left, QUERY_LINE - 0.45)], QUERY)
    _line(ax, [(left + 0.4, QUERY_LINE), (right, QUERY_LINE)], QUERY)
    _box(ax, left, QUERY_LINE, _column(query), QUERY, width=0.8, height=0.9)
    ax.text(left + 0.1, around + 0.3, "query", ha="left", va="center", fontsize=11, color=QUERY)


def _draw_key_and_value(ax: Axes, x: float, token: str, key: np.ndarray, value: np.ndarray) -> None:
    """Draw a token with its key, which meets the query and goes into the softmax, and its value, which passes by."""
    key_at, value_at, top, bottom = x - ASIDE, x + ASIDE, KEYS_AND_VALUES + TALL / 2, KEYS_AND_VALUES - TALL / 2
    _box(ax, x, TOKENS, token, GREY, width=1.5)
    _box(ax, key_at, KEYS_AND_VALUES, _column(key), KEY, width=0.72, height=TALL)
    _box(ax, value_at, KEYS_AND_VALUES, _column(value), VALUE, width=0.72, height=TALL)
    _arrow(ax, (x - 0.15, TOKENS + 0.34), (key_at, bottom), KEY)
    _arrow(ax, (x + 0.15, TOKENS + 0.34), (value_at, bottom), VALUE)
    _arrow(ax, (key_at, top), (key_at, EXPONENTIALS - 0.46), KEY)
    ax.plot(key_at, QUERY_LINE, "o", color=QUERY, markersize=7)
    up = [top, WEIGHTS]
    ax.plot([value_at] * 2, up, color="white", linewidth=6, zorder=2)  # the value passes in front
    ax.plot([value_at] * 2, up, color=VALUE, linewidth=1.3, zorder=2)


def _column(numbers: np.ndarray) -> str:
    return "\n".join(f"{x:.3g}" for x in numbers)


def _draw_weight(ax: Axes, x: float, weight: float, output_at: float) -> None:
    """Draw a weight that comes out of the softmax, meets its value, and lets so much of it flow into the output."""
    key, value = x - ASIDE, x + ASIDE
    _arrow(ax, (key, EXPONENTIALS + 0.46), (key, WEIGHTS - 0.22), GREY)
    ax.text(key - 0.02, WEIGHTS, f"{weight:.2f}", ha="center", va="center", fontsize=10.5, weight="bold")
    _arrow(ax, (key + 0.34, WEIGHTS), (value - 0.16, WEIGHTS), GREY, head=6)
    ax.text(value, WEIGHTS, "×", ha="center", va="center", fontsize=12, color=VALUE, zorder=4,
            bbox={"boxstyle": "circle,pad=0.1", "facecolor": "white", "edgecolor": VALUE})  # fmt: skip
    _arrow(ax, (value, WEIGHTS + 0.21), (output_at, OUTPUT - 0.63), VALUE,
           width=0.4 + 11 * weight, alpha=0.3 + 0.7 * weight, head=0)  # fmt: skip


def _box(ax: Axes, x: float, y: float, text: str, color: str, width: float = 1.2, height: float = 0.68) -> None:
    ax.add_patch(FancyBboxPatch((x - width / 2, y - height / 2), width, height, boxstyle=ROUND_CORNERS,
                                facecolor=to_rgba(color, 0.13), edgecolor=color, linewidth=1.2))  # fmt: skip
    ax.text(x, y, text, ha="center", va="center", fontsize=11)


def _line(ax: Axes, points: Sequence[tuple[float, float]], color: str) -> None:
    xs, ys = zip(*points, strict=True)
    ax.plot(xs, ys, color=color, linewidth=1.3, zorder=0.5)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], color: str, *, width: float = 1.2,
           alpha: float = 1.0, head: float = 9.0) -> None:  # fmt: skip
    style = f"-|>,head_length={head / 2},head_width={head / 3.5}" if head else "-"
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle=style, color=color, linewidth=width,
                                 alpha=alpha, shrinkA=0, shrinkB=0, capstyle="butt"))  # fmt: skip
