"""The demonstration that the start page opens with: *bank* in two sentences, as a published model looks at them.

    ```{start-widget} notebooks/10_a_model_that_others_use
    ```

stands for the small form of chapter 10's widget, with recorded weights. The argument is the page that has the large
form; a link leads there.
"""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from attention_tutorial.widgets import SentenceReader


class StartWidgetDirective(SphinxDirective):
    """Set the demonstration."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the widget's element, which the host mounts."""
        self.env.note_dependency(__file__)
        widget = SentenceReader(compact=True)
        builder = self.env.app.builder
        widget.link = builder.get_relative_uri(self.env.docname, self.arguments[0])
        return [nodes.raw("", widget.to_html(), format="html")]
