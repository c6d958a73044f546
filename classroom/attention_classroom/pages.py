"""Web pages of the classroom: one file each, nothing from outside, no script, in light and dark and on paper.

The pages are templates, in which everything is escaped that is no `Markup`.
"""

import base64
import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

__all__ = ["TEMPLATES", "is_png", "points", "uncoloured", "unhidden"]

# What nobody sees: what reverses the order of letters, blanks without width, letters for programs alone.
HIDDEN = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")


def points(number: float | None) -> str:
    """Write points for people and spreadsheets; nothing where there are none."""
    return "" if number is None else f"{number:.4g}"


def uncoloured(text: str) -> str:
    """Return a text without the codes of terminals' colours."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)


def unhidden(text: Any) -> Any:
    """Return a text with what nobody sees made visible, so that it reads as it is; anything else as it came."""
    return type(text)(HIDDEN.sub("�", text)) if isinstance(text, str) else text


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
    finalize=unhidden,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {"points": points, "uncoloured": uncoloured}
TEMPLATES.tests["png"] = is_png
