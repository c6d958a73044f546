"""The page of claims, made from the executed notebooks.

A chapter backs each quantitative sentence with a cell that measures it, asserts it and leaves a record in the cell's
output (`attention_tutorial.notebook.claim`). The directive

    ```{claims}
    ```

collects these records from the notebooks of the book at build time and sets them as tables, one for each chapter. The
page therefore says what the notebooks measured, and nothing else. Each id leads to the cell's result in its chapter.
Two claims with one id, or a record that lacks a part, are warnings, which fail a strict build.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.matching import patmatch

from attention_tutorial.notebook.claims import MEASURED, PREDICTED

logger = logging.getLogger(__name__)

METADATA_KEY = "attention_tutorial_claim"
FIELDS = ("id", "sentence", "predicted", "measured")
COLUMNS = (("Claim", 8), ("What the chapter says", 52), (PREDICTED.capitalize(), 20), (MEASURED.capitalize(), 20))
INLINE = re.compile(r"\$(?P<math>[^$]+)\$|`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\*(?P<emphasis>[^*]+)\*")


@dataclass(frozen=True)
class Claim:
    """One measured claim, as its cell recorded it."""

    id: str
    sentence: str
    predicted: str
    measured: str


class ClaimError(ValueError):
    """A record of a claim that cannot be shown."""


def read_claims(notebook: dict[str, Any]) -> Iterator[Claim]:
    """Yield the claims that a notebook's outputs hold, in the order of its cells."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            record = output.get("metadata", {}).get(METADATA_KEY)
            if record is None:
                continue
            missing = [field for field in FIELDS if not str(record.get(field, "")).strip()]
            if missing:
                raise ClaimError(f"claim {record.get('id', '?')} has no {', '.join(missing)}")
            yield Claim(**{field: str(record[field]) for field in FIELDS})


def headings(notebook: dict[str, Any]) -> Iterator[str]:
    """Yield the notebook's headings, without their marks."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            for heading in re.finditer(r"^#+\s+(.+?)\s*$", "".join(cell["source"]), re.MULTILINE):
                yield heading.group(1)


def chapter_title(notebook: dict[str, Any], default: str) -> str:
    """Return the notebook's first heading, without its marks."""
    return next(headings(notebook), default)


def find_duplicates(claims: Iterable[tuple[str, Claim]]) -> Iterator[str]:
    """Yield a message for each id that stands more than once; the pairs are (place, claim)."""
    first: dict[str, str] = {}
    for place, claim in claims:
        if claim.id in first:
            yield f"claim {claim.id} stands twice: in {first[claim.id]} and in {place}; ids are unique over the book"
        else:
            first[claim.id] = place


def inline(text: str) -> list[nodes.Node]:
    """Turn a sentence with $math$, `code`, **strong** and *emphasis* into nodes; all else is plain text."""
    kinds = {"math": nodes.math, "code": nodes.literal, "strong": nodes.strong, "emphasis": nodes.emphasis}
    result: list[nodes.Node] = []
    end = 0
    for match in INLINE.finditer(text):
        if match.start() > end:
            result.append(nodes.Text(text[end : match.start()]))
        kind = str(match.lastgroup)
        result.append(kinds[kind](match[kind], match[kind]))
        end = match.end()
    if end < len(text):
        result.append(nodes.Text(text[end:]))
    return result


def make_row(cells: Iterable[list[nodes.Node]]) -> nodes.row:
    """Make a table row, one paragraph in each cell."""
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *content)) for content in cells))


def make_table(claims: list[Claim], page: str) -> nodes.Node:
    """Set one chapter's claims as a table; each id leads to the claim's place on the chapter's page."""
    rows = []
    for claim in claims:
        anchor = nodes.reference("", claim.id, refuri=f"{page}#claim-{claim.id}", internal=True)
        rows.append(make_row([[anchor], inline(claim.sentence), inline(claim.predicted), inline(claim.measured)]))
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for _, width in COLUMNS), cols=len(COLUMNS))
    group += nodes.thead("", make_row([[nodes.Text(name)] for name, _ in COLUMNS]))
    group += nodes.tbody("", *rows)
    return nodes.table("", group, classes=["claims"], align="default")


def make_section(title: str, name: str, claims: list[Claim], page: str) -> nodes.section:
    """Set one chapter's claims under its title, which leads to the chapter."""
    heading = nodes.title("", "", nodes.reference("", "", *inline(title), refuri=page, internal=True))
    return nodes.section("", heading, make_table(claims, page), ids=[nodes.make_id(f"claims-of-{name}")])


class ClaimsDirective(SphinxDirective):
    """Set the claims of all notebooks that match a pattern (`notebooks/*` unless another is given)."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Read the notebooks and return a line that counts the claims, and a section for each chapter."""
        pattern = self.arguments[0] if self.arguments else "notebooks/*"
        self.env.note_dependency(self.env.relfn2path("/_toc.yml")[1])  # a new chapter
        sections: list[nodes.Node] = []
        placed: list[tuple[str, Claim]] = []
        for docname in sorted(name for name in self.env.found_docs if patmatch(name, pattern)):
            path = Path(self.env.doc2path(docname))
            if path.suffix != ".ipynb":
                continue
            self.env.note_dependency(str(path))
            try:
                notebook = json.loads(path.read_text(encoding="utf-8"))
                claims = list(read_claims(notebook))
            except (ClaimError, KeyError, json.JSONDecodeError) as error:
                logger.warning("%s: %s", docname, error, location=self.get_location(), type="claims")
                continue
            placed += [(docname, claim) for claim in claims]
            if claims:
                page = self.env.app.builder.get_relative_uri(self.env.docname, docname)
                sections.append(make_section(chapter_title(notebook, default=docname), path.stem, claims, page))
        for message in find_duplicates(placed):
            logger.warning(message, location=self.get_location(), type="claims")
        if not placed:
            return [nodes.paragraph("", "No chapter has made a claim yet.")]
        many, chapters = "s" * (len(placed) > 1), "s" * (len(sections) > 1)
        count = f"{len(placed)} claim{many} from {len(sections)} chapter{chapters}."
        return [nodes.paragraph("", count, classes=["claims-count"]), *sections]


def setup(app: Sphinx) -> dict[str, object]:
    """Register the directive with Sphinx."""
    app.add_directive("claims", ClaimsDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
