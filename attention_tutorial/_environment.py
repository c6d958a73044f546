"""How a notebook is being run, as the environment says."""

import os

WIDGETS = "ATTENTION_TUTORIAL_WIDGETS"  # "static": leave no live widget behind; the book's notebooks are executed so


def static_widgets() -> bool:
    """Whether cells shall leave only what a page without a kernel can show."""
    return os.environ.get(WIDGETS) == "static"
