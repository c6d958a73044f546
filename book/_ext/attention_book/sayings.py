"""The page of sayings, made from a table of what people say and from the claims that the notebooks measured.

    ```{sayings}
    ```

sets a section for each topic of `sayings.toml`, beside the page, and in it each saying with its source, the verdict,
and the claims that bear it out, each linked to its place. An unknown claim or verdict stops the build.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attention_tutorial.notebook.claims import Claim

from .claim_lines import measured_in_words
from .notebooks import read_chapters
from .tables import inline

TABLE = "sayings.toml"  # beside the page
VERDICTS = ("so", "not so", "it depends", "not tested by us")


@dataclass(frozen=True)
class Saying:
    """A row of the table."""

    topic: str
    words: str
    by: str
    at: str
    verdict: str
    measured: str
    claims: list[str]


def read_sayings(path: Path) -> list[Saying]:
    """Return the rows of the table, in its order."""
    sayings = [Saying(**row) for row in tomllib.loads(path.read_text(encoding="utf-8"))["saying"]]
    for saying in sayings:
        if saying.verdict not in VERDICTS:
            raise ValueError(f"the verdict must be one of {VERDICTS}; got {saying.verdict!r} for {saying.words!r}")
    return sayings


class SayingsDirective(SphinxDirective):
    """Set the sayings, by topic."""

    def run(self) -> list[nodes.Node]:
        """Read the table and the notebooks, and return a section for each topic."""
        path = Path(self.env.relfn2path(TABLE)[1])
        self.env.note_dependency(str(path))
        self.env.note_dependency(__file__)
        found: dict[str, tuple[Claim, str]] = {}
        for docname, notebook in read_chapters(self.env):
            address = self.env.app.builder.get_relative_uri(self.env.docname, docname)
            found |= {claim.id: (claim, f"{address}#claim-{claim.id}") for claim in Claim.stored_in(notebook)}
        try:
            sayings = read_sayings(path)
        except (TypeError, ValueError) as error:
            raise self.error(f"{TABLE}: {error}") from error
        if unknown := {name for saying in sayings for name in saying.claims} - found.keys():
            raise self.error(f"{TABLE}: no notebook has the claims {', '.join(sorted(unknown))}")
        sections: dict[str, nodes.section] = {}
        for saying in sayings:
            if saying.topic not in sections:
                name = nodes.make_id(saying.topic)
                title = nodes.title("", saying.topic)
                sections[saying.topic] = nodes.section("", title, ids=[name], names=[name], classes=["sayings-topic"])
            sections[saying.topic].append(self._set(saying, found))
        for section in sections.values():
            self.state.document.note_implicit_target(section, section)
        return list(sections.values())

    def _set(self, saying: Saying, found: dict[str, tuple[Claim, str]]) -> nodes.Node:
        source = nodes.reference("", "", *inline(saying.by), refuri=saying.at)
        quote = nodes.block_quote("", nodes.paragraph("", f"“{saying.words}”"), nodes.attribution("", "", source))
        classes = ["verdict", nodes.make_id(saying.verdict)]
        verdict = nodes.strong("", f"{saying.verdict.capitalize()}.", classes=classes)
        told = nodes.paragraph("", "", verdict, nodes.Text(" "), *inline(saying.measured))
        claims = nodes.bullet_list("", classes=["borne-out"])
        for name in saying.claims:
            claim, address = found[name]
            link = nodes.reference("", name, refuri=address, internal=True)
            value = inline(f": {measured_in_words(claim)} ")
            claims.append(nodes.list_item("", nodes.paragraph("", "", *inline(claim.sentence), *value, link)))
        return nodes.container("", quote, told, claims, classes=["saying"])


def note_topics(app: Sphinx, doctree: nodes.document) -> None:
    """Let other pages link to the topics, as to headings; a link to one that does not exist is still an error."""
    for section in doctree.findall(nodes.section):
        if "sayings-topic" in section["classes"]:
            slugs = app.env.metadata[app.env.docname].setdefault("myst_slugs", {})
            slugs.update({name: (0, name, section[0].astext()) for name in section["ids"]})
