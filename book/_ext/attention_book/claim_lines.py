"""Show claims so that they can be found and do not shout.

A notebook shows each claim as a line. On the site the claims of one cell, or of cells with nothing between them, fold
into one line, "✓ 3 claims hold here", over a table of them with their code at its foot; each row links to itself:

- A bound says what was *accepted*. A value is *predicted*, which an author gives where it was derived beforehand.
- An identity, two sides that are equal to rounding, is marked as one.
- A finding (`claim(..., finding=True)`) stays in sight, before the fold.
- What was measured is shown unrounded, also where it should have been 0. Beside it stands what fresh runs measured,
  since the one run of the page may have been lucky.

The words come from the records in the notebook's outputs (`attention_tutorial.notebook.Claim`), as do those of the page
of claims.
"""

import html
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

from attention_tutorial.notebook.claims import ACCEPTED, MEASURED, PREDICTED, Claim, Kind

from .formulas import set_formula
from .notebooks import REPLICATION, read_notebook, read_replication
from .tables import INLINE, power_of_ten

MARK = re.compile(r'<small title="claim ([^"]+)">')  # by which a claim's output is known
CODE = "Code"  # the fold that holds it
TAGS = {"code": "code", "strong": "strong", "emphasis": "em"}

Member = tuple[nodes.Element, list[Claim], bool]  # a cell, its claims, and whether it shows nothing else


def spread(values: Sequence[Any]) -> str:
    """Return the range and the median of what fresh runs measured; nothing where it is the same in all, or no number.

    Example:
        >>> spread([0.486, 0.43, 0.52])
        '0.43 to 0.52, median 0.486'
        >>> spread([0.5, 0.5]), spread([True, False])
        ('', '')
    """
    numbers = [x for x in values if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(set(numbers)) < 2:
        return ""
    return f"{min(numbers):.3g} to {max(numbers):.3g}, median {statistics.median(numbers):.3g}"


def measured_in_words(claim: Claim) -> str:
    """Return what was measured, with the sign for "about" where its digits differ between machines.

    Example:
        >>> measured_in_words(Claim("X1a", "s", "0 ± 1e-05", "0", Kind.IDENTITY, unrounded="3.8e-06"))
        '3.8e-06'
        >>> measured_in_words(Claim("X1a", "s", "at least 0.9", "0.97", Kind.BOUND, stable=False))
        '≈ 0.97'
        >>> measured_in_words(Claim("X1a", "The two agree", "True", "True"))
        'true'
    """
    if claim.measured in {"True", "False"}:
        return claim.measured.lower()
    return f"{'' if claim.stable else '≈ '}{claim.unrounded or claim.measured}"


def as_html(text: str) -> str:
    """Return a sentence as HTML: its formulas, code and emphasis set, as on the page of claims.

    Example:
        >>> as_html("The *first* of `x` < 2")
        'The <em>first</em> of <code>x</code> &lt; 2'
        >>> as_html("0 ± 1e-12")
        '0 ± 10<sup>−12</sup>'
    """
    return INLINE.sub(_set, html.escape(text, quote=False))


def _set(match: re.Match[str]) -> str:
    kind = str(match.lastgroup)
    text = match[kind]
    if kind == "power":
        return "{}<sup>{}</sup>".format(*power_of_ten(text))
    return set_formula(html.unescape(text)) if kind == "math" else f"<{TAGS[kind]}>{text}</{TAGS[kind]}>"


def attributes(claim: Claim) -> str:
    """Return class and id of a claim's element."""
    kinds = ["claim", *["finding"] * claim.finding, *["identity"] * (claim.kind is Kind.IDENTITY)]
    return f'class="{" ".join(kinds)}" id="claim-{claim.id}"'


def parts(claim: Claim) -> tuple[str, str, str, str]:
    """Return the HTML of a claim's sentence, of what was measured and what accepted, and of the link to itself."""
    kind = "Finding" * claim.finding or "Identity" * (claim.kind is Kind.IDENTITY)
    mark = f'<span class="claim-kind">{kind}</span> ' if kind else ""
    sentence = f'{mark}<span class="claim-sentence">{as_html(claim.sentence)}</span>'
    measured, accepted = as_html(measured_in_words(claim)), as_html(claim.accepted)
    if claim.fresh:
        measured += f" <small>(fresh runs: {as_html(claim.fresh)})</small>"
    link = f'<a class="claim-id" href="#claim-{claim.id}" aria-label="Link to claim {claim.id}">{claim.id}</a>'
    return sentence, measured, accepted, link


def line(claim: Claim) -> str:
    """Set a finding as a line."""
    sentence, measured, accepted, link = parts(claim)
    values = f'{MEASURED} <b class="claim-measured">{measured}</b>, {accepted} {link}'
    return f'<div {attributes(claim)}>{sentence} <span class="claim-values">{values}</span></div>'


def row(claim: Claim) -> str:
    """Set a claim as the row of a table."""
    sentence, measured, accepted, link = parts(claim)
    kind = f" {PREDICTED}" if claim.kind is Kind.VALUE else ""
    words = accepted.removeprefix(f"{ACCEPTED} ")  # which the column's head says
    values = f'<td class="claim-measured">{measured}</td><td class="claim-accepted{kind}">{words}</td>'
    return f"<tr {attributes(claim)}><td>{sentence}</td>{values}<td>{link}</td></tr>"


def counted(claims: list[Claim]) -> str:
    """Say how many claims are folded, and how many of them are identities.

    Example:
        >>> claims = [Claim("X1a", "s", "1 ± 1e-12", "1", Kind.IDENTITY), Claim("X1b", "s", "1", "1")]
        >>> counted(claims), counted(claims[:1] * 2), counted(claims[1:])
        ('2 claims hold here, 1 of them an identity', '2 identities hold here', '1 claim holds here')
    """
    identities = sum(claim.kind is Kind.IDENTITY for claim in claims)
    noun = ("identity", "identities") if identities == len(claims) else ("claim", "claims")
    hold = f"1 {noun[0]} holds here" if len(claims) == 1 else f"{len(claims)} {noun[1]} hold here"
    if not 0 < identities < len(claims):
        return hold
    return f"{hold}, {identities} of them {'an identity' if identities == 1 else 'identities'}"


def shown(claims: list[Claim], code: list[nodes.Node]) -> Iterator[nodes.Node]:
    """Yield what a page shows of claims that stand together: the findings, then a fold with the others and the code."""
    for claim in claims:
        if claim.finding:
            yield raw(line(claim))
    rest = [claim for claim in claims if not claim.finding]
    if not rest:
        yield from code
        return
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Claim", MEASURED.title(), ACCEPTED.title(), "Id"))
    yield raw(
        f'<details class="claim-group"><summary>{counted(rest)}</summary><table class="claim-table">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(map(row, rest))}</tbody></table>"
    )
    yield from code
    yield raw("</details>")


def raw(text: str) -> nodes.raw:
    """Return HTML as a node."""
    return nodes.raw("", text, format="html")


# ---- In the build -------------------------------------------------------------------------------------------------


def id_in(output: nodes.Element) -> str | None:
    """Return the id of the claim that an output shows; None if it shows something else."""
    return next((match[1] for raw in output.findall(nodes.raw) if (match := MARK.search(raw.astext()))), None)


def part(cell: nodes.Element, kind: str) -> list[nodes.Element]:
    """Return the parts of a cell of a kind: its source, or its output."""
    return [node for node in cell.findall(nodes.container) if node.get("nb_element") == f"cell_code_{kind}"]


def code_of(cell: nodes.Element) -> list[nodes.Element]:
    """Return the code of a cell, folded if the author folded it."""
    folds = list(cell.findall(HideCodeCellNode))
    for fold in folds:
        fold["prompt_show"] = fold["prompt_hide"] = CODE
    return folds or part(cell, "source")


def groups_of(doctree: nodes.document, known: dict[str, Claim]) -> Iterator[list[Member]]:
    """Yield the cells whose claims belong together."""
    group: list[Member] = []
    for cell in list(doctree.findall(nodes.container)):
        if cell.get("nb_element") != "cell_code":
            continue
        outputs = [node for output in part(cell, "output") for node in output]
        ids = [name for node in outputs if (name := id_in(node))]
        if not ids or not set(ids) <= known.keys():
            continue
        alone = len(ids) == len(outputs)
        if group and not (alone and group[-1][2] and cell.parent is group[-1][0].parent
                          and cell.parent.index(cell) == cell.parent.index(group[-1][0]) + 1):  # fmt: skip
            yield group
            group = []
        group.append((cell, [known[name] for name in ids], alone))
    if group:
        yield group


def set_group(group: list[Member]) -> None:
    """Put lines and tables in the place of what a group of cells shows."""
    claims = [claim for _, own, _ in group for claim in own]
    first, _, alone = group[0]
    if alone:
        code = [node for cell, _, _ in group for node in code_of(cell)]
        first.children = []
        first.extend(shown(claims, code))
        for cell, _, _ in group[1:]:
            cell.parent.remove(cell)
        first["classes"].append("claim-cell")
        return
    for output in part(first, "output"):
        for shown_claim in [node for node in output if id_in(node)]:
            output.remove(shown_claim)
    holder = nodes.container("", *shown(claims, []), classes=["cell", "claim-cell"])
    first.parent.insert(first.parent.index(first) + 1, holder)


def set_claims(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Set the claims of a page, when myst-nb has chosen which output of a cell to show."""
    path = Path(app.env.doc2path(docname))
    if not isinstance(app.builder, StandaloneHTMLBuilder) or path.suffix != ".ipynb":
        return
    fresh = read_replication(Path(app.srcdir, REPLICATION)).get(path.stem, {})
    claims = Claim.stored_in(read_notebook(path))
    known = {claim.id: replace(claim, fresh=spread(fresh.get(claim.id, []))) for claim in claims}
    for group in list(groups_of(doctree, known)):
        set_group(group)
