"""The demonstration that the start page opens with: *bank* in two sentences, and what attention makes of it.

    ```{start-widget}
    ```

stands for the chapter 4 widget with two sentences. Its words have two features each, set by hand: how much a word has
to do with water, and how much with money. Nothing is trained, so that a reader can follow; the weights and the outputs
are computed by the package when the site is built.
"""

import torch
from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from torch import Tensor

from attention_tutorial import scaled_dot_product_attention
from attention_tutorial.widgets import Heads

SENTENCES = ("the bank of the river", "the bank lends us money")
# How much a word has to do with water, and with money; other words nothing.
FEATURES = {"bank": (1.0, 1.0), "river": (3.0, 0.0), "money": (0.0, 3.0), "lends": (0.0, 1.0)}
PAIRS = ", ".join(
    f"{word} ({water:.0f},\u00a0{money:.0f})" for word, (water, money) in FEATURES.items()
)  # with blanks that do not break
NOTE = f"Each word is two numbers, water and money, set by hand: {PAIRS}, all others (0,\u00a00)."


def attend(sentence: str) -> tuple[list[str], Tensor, Tensor]:
    """Return the words, the weights with which *bank* looks at them, (1, n), and what comes out for it, (2,).

    Example:
        >>> words, weights, out = attend("the bank of the river")
        >>> words[weights[0].argmax()], [round(number, 2) for number in out.tolist()]
        ('river', [1.89, 0.27])
    """
    words = sentence.split()
    x = torch.tensor([FEATURES.get(word, (0.0, 0.0)) for word in words], dtype=torch.float64)
    here = words.index("bank")
    out, weights = scaled_dot_product_attention(x[here : here + 1], x, x)
    return words, weights, out[0]


def make_widget() -> Heads:
    """Return the widget, which shows the first sentence."""
    outputs = {sentence: attend(sentence) for sentence in SENTENCES}
    cases = {
        sentence: {"set by hand": (words, weights[None], [words.index("bank")])}
        for sentence, (words, weights, _) in outputs.items()
    }
    widget = Heads.of_cases(cases, choices=("Sentence", "Kind"), note=NOTE)
    outs = [outputs[case["model"]][2].tolist() for case in widget.cases]
    sentences = [
        f"bank goes in as (1, 1) and comes out as water {water:.2f}, money {money:.2f}." for water, money in outs
    ]
    widget.cases = [{**case, "answers": words} for case, words in zip(widget.cases, sentences, strict=True)]
    return widget


class StartWidgetDirective(SphinxDirective):
    """Set the demonstration."""

    def run(self) -> list[nodes.Node]:
        """Return the widget's element, which the host mounts."""
        self.env.note_dependency(__file__)
        return [nodes.raw("", make_widget().to_html(), format="html")]
