"""The laboratory on its page, and the addresses of its tasks.

    ```{laboratory}
    divisor: notebooks/03_square_root_of_d_k#section-3-6
    ```

Each line says where the book tells of a switch. A link to the page with `#look-it-up`, the title of a task, leads to
the laboratory with this task and its usual switch.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attention_tutorial.widgets import Laboratory


class LaboratoryDirective(SphinxDirective):
    """Set the widget, with the links that stand in the content."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the widget's element, which the host mounts, in one that has an id for each task."""
        self.env.note_dependency(__file__)
        widget = Laboratory()
        links = dict(line.split(": ") for line in self.content)
        if unknown := links.keys() - widget.switches.keys():
            raise self.error(f"the laboratory has no switch {', '.join(sorted(unknown))}")
        for switch, target in links.items():
            page, mark, section = target.partition("#")
            address = self.env.app.builder.get_relative_uri(self.env.docname, page)
            widget.links = {**widget.links, switch: f"{address}{mark}{section}"}
        place = nodes.container("", nodes.raw("", widget.to_html(), format="html"), classes=["laboratory-place"])
        place["ids"] = [one["id"] for one in widget.experiments]
        return [place]


def note_tasks(app: Sphinx, doctree: nodes.document) -> None:
    """Let other pages link to the tasks, as to headings; a link to one that does not exist is still an error."""
    for place in doctree.findall(nodes.container):
        if "laboratory-place" in place["classes"]:
            slugs = app.env.metadata[app.env.docname].setdefault("myst_slugs", {})
            slugs.update({name: (0, name, name) for name in place["ids"]})
