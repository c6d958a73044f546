"""Widgets: demonstrations that compute in the reader's browser.

A widget is one class here and one ES module beside it. In JupyterLab and in Colab the widget talks to the kernel. On
the site, which has no kernel, the page mounts the same module from the HTML that the cell left behind; where no script
runs, that HTML still holds the results as a table. The numbers on the screen are those of
:func:`~attention_tutorial.functional.scaled_dot_product_attention`, which the tests hold them against.
"""

try:
    import anywidget  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("attention_tutorial.widgets needs anywidget; install it with: pip install anywidget",
                              name="anywidget") from error  # fmt: skip

from .attention_steps import AttentionSteps
from .bottleneck import Bottleneck
from .code_reader import CodeReader
from .heads import Heads
from .mask_builder import MaskBuilder
from .move_a_word import MoveAWord
from .temperature import TemperatureAndWidth
from .tiles import Tiles
from .translator import Translator
from .your_turn import YourTurn

__all__ = [
    "AttentionSteps",
    "Bottleneck",
    "CodeReader",
    "Heads",
    "MaskBuilder",
    "MoveAWord",
    "TemperatureAndWidth",
    "Tiles",
    "Translator",
    "YourTurn",
]
