"""Set tables and sentences that Python makes, for the pages that are not written by hand."""

import re
from collections.abc import Iterable

from docutils import nodes

INLINE = re.compile(
    r"\$(?P<math>[^$]+)\$|`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\*(?P<emphasis>[^*]+)\*|(?P<power>\b\d[\d.]*e[-+]\d+\b)"
)
KINDS = {"math": nodes.math, "code": nodes.literal, "strong": nodes.strong, "emphasis": nodes.emphasis}


def power_of_ten(number: str) -> tuple[str, str]:
    """Split a number as Python prints it into what is printed on the line, and the exponent of ten.

    Example:
        >>> power_of_ten("8.04e-05"), power_of_ten("1e-12"), power_of_ten("2e+07")
        (('8.04·10', '−5'), ('10', '−12'), ('2·10', '7'))
    """
    factor, exponent = number.split("e")
    return f"{factor}·10" if factor != "1" else "10", str(int(exponent)).replace("-", "−")


def inline(text: str) -> list[nodes.Node]:
    """Turn a sentence with $math$, `code`, **strong**, *emphasis* and powers of ten into nodes; the rest is text."""
    result: list[nodes.Node] = []
    end = 0
    for match in INLINE.finditer(text):
        if match.start() > end:
            result.append(nodes.Text(text[end : match.start()]))
        kind = str(match.lastgroup)
        if kind == "power":
            line, exponent = power_of_ten(match[kind])
            result += [nodes.Text(line), nodes.superscript("", exponent)]
        else:
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
