"""Style blockquotes that open with a bold word as call-outs.

A chapter writes `> **Predict first.** ...`, which reads well wherever a notebook is opened. On the site the quote gets
the classes `callout` and `callout-predict-first` for the style sheet.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx


def callout_name(quote: nodes.block_quote) -> str | None:
    """Return the name that a quote's bold opening gives it, such as "predict-first"; None if it has no such opening."""
    if not quote.children or not isinstance(quote[0], nodes.paragraph):
        return None
    opening = next((child for child in quote[0] if child.astext()), None)  # the parser leaves empty texts
    if not isinstance(opening, nodes.strong):
        return None
    return re.sub(r"[^a-z0-9]+", "-", opening.astext().lower()).strip("-") or None


def mark_callouts(app: Sphinx, doctree: nodes.document) -> None:
    """Give the call-outs of a page their classes."""
    for quote in doctree.findall(nodes.block_quote):
        name = callout_name(quote)
        if name:
            quote["classes"] += ["callout", f"callout-{name}"]
