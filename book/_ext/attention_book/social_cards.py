"""Draw the picture that stands for a page where its address is shared.

It shows the page's title and description beside a map of attention: weights that the package computes, each row a query
that may look at nothing behind it.
"""

import textwrap
from pathlib import Path
from typing import Any

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from attention_tutorial import causal_mask, scaled_dot_product_attention

SIZE = (1200, 630)  # pixels; what social networks ask for
INK, QUIET, GROUND = "#1b2129", "#57606a", "#ffffff"


def example_weights(words: int = 8) -> torch.Tensor:
    """Return attention weights of a short sequence under a causal mask."""
    vectors = torch.randn(words, 4, generator=torch.Generator().manual_seed(0))
    return scaled_dot_product_attention(vectors, vectors, vectors, causal_mask(words))[1]


def draw_card(path: Path, title: str, words: str, book: str, place: str) -> None:
    """Write a page's card.

    Args:
        path: The PNG file to write.
        title: The title of the page.
        words: Its description.
        book: The title of the book, which stands above.
        place: The host of the site, which stands below.
    """
    figure = Figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=100, facecolor=GROUND)
    FigureCanvasAgg(figure)
    text: dict[str, Any] = {"family": "DejaVu Sans", "va": "top", "parse_math": False}
    figure.text(0.05, 0.92, "" if book == title else book, size=20, color=QUIET, **text)
    figure.text(0.05, 0.81, textwrap.fill(title, 20), size=38, color=INK, weight="bold", linespacing=1.15, **text)
    figure.text(0.05, 0.46, textwrap.fill(words, 44), size=19, color=INK, linespacing=1.4, **text)
    figure.text(0.05, 0.08, place, size=18, color=QUIET, **text)
    axes = figure.add_axes((0.64, 0.16, 0.357, 0.68))
    axes.imshow(example_weights().numpy(), cmap="Blues", vmin=0, vmax=1)
    axes.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
