"""Widgets: demonstrations that compute in the reader's browser.

A widget is one class here and one ES module beside it. A cell leaves HTML behind that holds the state. In a notebook it
holds the module, too, and needs no kernel: it works in JupyterLab, in Colab and in a saved notebook. On the site the
page brings the modules. Where no script runs, the HTML has the results as a table. The numbers on screen are those of
:func:`~attention_tutorial.functional.scaled_dot_product_attention`, which the tests hold them against.
"""

from .attention_steps import AttentionSteps
from .bottleneck import Bottleneck
from .code_reader import CodeReader
from .encoder import SentenceReader
from .heads import Heads
from .laboratory import Laboratory
from .mask_builder import MaskBuilder
from .move_a_word import MoveAWord
from .plane import AttentionPlane
from .temperature import TemperatureAndWidth
from .tiles import Tiles
from .translator import Translator
from .your_turn import YourTurn

__all__ = [
    "AttentionPlane",
    "AttentionSteps",
    "Bottleneck",
    "CodeReader",
    "Heads",
    "Laboratory",
    "MaskBuilder",
    "MoveAWord",
    "SentenceReader",
    "TemperatureAndWidth",
    "Tiles",
    "Translator",
    "YourTurn",
]
