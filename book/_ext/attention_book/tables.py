"""Set tables and sentences that Python makes, for the pages that are not written by hand."""

import re
from collections.abc import Iterable

from docutils import nodes

INLINE = re.compile(r"\$(?P<math>[^$]+)\$|`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\*(?P<emphasis>[^*]+)\*")
KINDS = {"math": nodes.math, "code": nodes.literal, "strong": nodes.strong, "emphasis": nodes.emphasis}


def inline(text: str) -> list[nodes.Node]:
    """Turn a sentence with $math$, `code`, **strong** and *emphasis* into nodes; all else is plain text."""
    result: list[nodes.Node] = []
    end = 0
    for match in INLINE.finditer(text):
        if match.start() > end:
            result.append(nodes.Text(text[end : match.start()]))
        kind = str(match.lastgroup)
        result.append(KINDS[kind](match[kind], match[kind]))
        end = match.end()
    if end < len(text):
        result.append(nodes.Text(text[end:]))
    return result


def make_row(cells: Iterable[list[nodes.Node]]) -> nodes.row:
    """Make a table row, one paragraph in each cell."""
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *content)) for content in cells))


def make_table(head: Iterable[tuple[str, int]], rows: Iterable[nodes.row], name: str) -> nodes.table:
    """Set rows under a head of (name, width); the table's own name is its class in the style sheet."""
    columns = list(head)
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for _, width in columns), cols=len(columns))
    group += nodes.thead("", make_row([[nodes.Text(name)] for name, _ in columns]))
    group += nodes.tbody("", *rows)
    return nodes.table("", group, classes=[name], align="default")
