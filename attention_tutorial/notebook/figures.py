"""Figures of a live notebook: sharp on dense screens, and with the description that their author wrote."""

import base64
import html
import io
from typing import Any

__all__ = ["describe_figures"]


def describe_figures(shell: Any) -> None:
    """Have a notebook's shell show figures with twice the pixels, and with their cell's description.

    JupyterLab and Notebook send a cell's metadata with its code, and so the description, which the site reads there too
    (``mystnb.image.alt``). They give a PNG no alternative text, so the figure is shown as HTML; VS Code takes the plain
    text for one. The PNG stays beside them, for what cannot show HTML.

    Args:
        shell: of IPython, such as ``get_ipython()``.
    """
    from matplotlib.figure import Figure

    def bundle(figure: Figure) -> tuple[dict[str, str], dict[str, Any]] | None:
        alt = _description(shell)
        try:
            shown = {"text/html": _image(figure, alt), "text/plain": alt or repr(figure)}
        except Exception:  # it is empty or cannot be drawn: IPython's own formatter says so, once
            return None
        return shown, {"image/png": {"alt": alt}} if alt else {}

    shell.display_formatter.mimebundle_formatter.for_type(Figure, bundle)


def _description(shell: Any) -> str:
    sent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return str(sent.get("metadata", {}).get("mystnb", {}).get("image", {}).get("alt", ""))


def _image(figure: Any, alt: str) -> str:
    from IPython.core.pylabtools import retina_figure
    from PIL import Image

    png, size = retina_figure(figure)
    webp = io.BytesIO()  # lossless, in less than half the bytes
    Image.open(io.BytesIO(png)).save(webp, "webp", lossless=True, quality=0, method=1)
    words = f'alt="{html.escape(alt)}" ' if alt else ""
    sized = f'width="{size["width"]}" height="{size["height"]}" style="max-width: 100%; height: auto"'
    return f'<img {words}{sized} src="data:image/webp;base64,{base64.b64encode(webp.getvalue()).decode("ascii")}">'
