"""Web pages of the classroom: one file each, nothing from outside, no script, in light and dark and on paper.

The pages are templates, in which everything is escaped that is no `Markup`.
"""

import base64
import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

__all__ = ["TEMPLATES", "is_png", "points", "uncoloured"]


def points(number: float | None) -> str:
    """Write points for people and spreadsheets; nothing where there are none."""
    return "" if number is None else f"{number:.4g}"


def uncoloured(text: str) -> str:
    """Return a text without the codes of terminals' colours."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)


def is_png(data: Any) -> bool:
    """Whether a text is a PNG in base64."""
    try:
        return base64.b64decode(data, validate=True).startswith(b"\x89PNG\r\n\x1a\n")
    except (TypeError, ValueError):
        return False


TEMPLATES = Environment(
    loader=PackageLoader("attention_classroom"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {"points": points, "uncoloured": uncoloured}
TEMPLATES.tests["png"] = is_png
