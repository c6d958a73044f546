"""Number the figures of a chapter, and say under each what it shows: the first sentence of its description.

An author writes the description for those who do not see the figure, in the metadata of the cell that draws it. A deep
notebook counts its own: "Figure 3a.1".
"""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

from .levels import number_of

SENTENCE_END = re.compile(r"(?<=[.?!])\s+(?=[A-Z])")


def caption(number: str, description: str) -> nodes.paragraph:
    """Return the line under a figure.

    Example:
        >>> line = caption("3.2", "Two curves. The upper one falls.")
        >>> line.astext(), line["ids"]
        ('Figure 3.2. Two curves.', ['figure-3-2'])
    """
    words = SENTENCE_END.split(description.strip())[0]
    name = nodes.strong("", f"Figure {number}.")
    return nodes.paragraph(
        "", "", name, nodes.Text(f" {words}"), ids=[f"figure-{number.replace('.', '-')}"], classes=["figure-caption"]
    )


def number_figures(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put a line under each figure that a cell of a chapter draws."""
    number = number_of(docname)
    if not number or not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    outputs = [node for node in doctree.findall(nodes.container) if node.get("nb_element") == "cell_code_output"]
    figures = [image for output in outputs for image in output.findall(nodes.image) if image.get("alt")]
    for place, image in enumerate(figures, start=1):
        image.parent.insert(image.parent.index(image) + 1, caption(f"{number}.{place}", image["alt"]))
