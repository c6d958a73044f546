"""The page of claims, made from the executed notebooks.

A chapter backs each quantitative sentence with a cell that measures it, asserts it and leaves a record in the cell's
output (`attention_tutorial.notebook.claim`). The directive

    ```{claims}
    ```

collects these records from the notebooks of the book at build time and sets them as tables, one for each chapter. The
page therefore says what the notebooks measured, and nothing else. Each id leads to the cell's result in its chapter.

A claim that depends on random numbers is measured again on fresh ones (`make replicate`); from the values that this
keeps, and the claim's bounds as the notebook has them, the page says in how many of these runs it holds.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from attention_tutorial.notebook.claims import ACCEPTED, MEASURED, Claim, Kind

from .claim_lines import measured_in_words, spread
from .levels import is_deep
from .notebooks import REPLICATION, read_chapters, read_replication, title_of
from .tables import inline, make_row, make_table

NOT_YET = "not yet run"  # for a claim that this file does not know
COLUMNS = (
    ("Claim", 8),
    ("What the chapter says", 44),
    (ACCEPTED.capitalize(), 16),
    (MEASURED.capitalize(), 14),
    ("Fresh runs", 18),
)


def held_in(claim: Claim, values: Sequence[Any]) -> int:
    """Return in how many fresh runs a claim holds, given what each measured, to six digits; None where it did not."""
    return sum(claim.holds(value, rounding=5e-6) for value in values)


def drawn_again(claim: Claim, values: Sequence[Any]) -> str:
    """Say in how many fresh runs a claim holds, and what was measured; nothing where it is the same in all of them.

    Example:
        >>> share = Claim("X1a", "s", "at least 0.45", "0.5", at_least=0.45)
        >>> drawn_again(share, [0.486, 0.43, 0.52])
        'held in 2 of 3; 0.43 to 0.52, median 0.486'
        >>> drawn_again(Claim("X1b", "s", "True", "True", equals=True), [True, False])
        'held in 1 of 2'
        >>> drawn_again(share, [0.5, 0.5])
        ''
    """
    held = held_in(claim, values)
    if held == len(values) and len(set(values)) == 1:
        return ""
    return "; ".join(filter(None, [f"held in {held} of {len(values)}", spread(values)]))


def row_of(claim: Claim, page: str, replication: Mapping[str, list[Any]]) -> nodes.row:
    """Set a claim as a row of the table; its id leads to the claim's place on the chapter's page."""
    anchor = nodes.reference("", claim.id, refuri=f"{page}#claim-{claim.id}", internal=True)
    again = nodes.Text(drawn_again(claim, replication[claim.id]) if claim.id in replication else NOT_YET)
    accepted = claim.accepted.removeprefix(f"{ACCEPTED} ")  # which the column's head says
    values = inline(accepted), inline(measured_in_words(claim))
    kind: list[nodes.Node] = [nodes.emphasis("", "Identity: ")] if claim.kind is Kind.IDENTITY else []
    sentence = [nodes.strong("", "", *inline(claim.sentence))] if claim.finding else inline(claim.sentence)
    return make_row([[anchor], [*kind, *sentence], *values, [again]])


def make_section(
    heading: str, name: str, claims: list[Claim], page: str, replication: Mapping[str, list[Any]]
) -> nodes.section:
    """Set one chapter's claims under its title, which leads to the chapter."""
    link = nodes.title("", "", nodes.reference("", "", *inline(heading), refuri=page, internal=True))
    table = make_table(COLUMNS, [row_of(claim, page, replication) for claim in claims], "claims")
    return nodes.section("", link, table, ids=[nodes.make_id(f"claims-of-{name}")])


class ClaimsDirective(SphinxDirective):
    """Set the claims of all notebooks."""

    def run(self) -> list[nodes.Node]:
        """Read the notebooks and return a line that counts the claims, and a section for each chapter."""
        self.env.note_dependency(self.env.relfn2path("/_toc.yml")[1])  # a new chapter
        path = Path(self.env.relfn2path(f"/{REPLICATION}")[1])
        self.env.note_dependency(str(path))
        replication = read_replication(path)
        sections: list[nodes.Node] = []
        placed: list[str] = []  # the page of each claim
        for docname, notebook in read_chapters(self.env):
            if claims := Claim.stored_in(notebook):
                placed += [docname] * len(claims)
                page = self.env.app.builder.get_relative_uri(self.env.docname, docname)
                name = PurePosixPath(docname).name
                sections.append(
                    make_section(title_of(notebook, docname), name, claims, page, replication.get(name, {}))
                )
        deep = sum(map(is_deep, set(placed)))
        count = f"{len(placed)} claims from {len(set(placed)) - deep} chapters and {deep} deep notebooks."
        return [nodes.paragraph("", count, classes=["claims-count"]), *sections]
