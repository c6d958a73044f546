"""Web pages of the classroom: one file each, nothing from outside, no script, in light and dark and on paper."""

import base64
import html
import re
from collections.abc import Iterable, Sequence

__all__ = ["bars", "escape", "page", "picture", "pre", "table"]

escape = html.escape

# No script runs in these pages, whatever is written into them, and nothing is fetched.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """
:root { color-scheme: light dark; --line: light-dark(#ccc, #555); --soft: light-dark(#f4f4f4, #262626);
  --bar: light-dark(#2b6cb0, #7fb2e5); --bad: light-dark(#a11, #ff9c9c); --good: light-dark(#17692e, #8fd6a0); }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem;
  background: light-dark(#fff, #181818); color: light-dark(#1a1a1a, #e6e6e6); }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2rem; } h3 { font-size: 1.05rem; }
a { color: light-dark(#1a56a0, #8cbcf0); }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 4px; padding: .6rem; overflow-x: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: .9rem; }
img, svg { max-width: 100%; height: auto; } img { background: #fff; }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.bad { color: var(--bad); } .good { color: var(--good); } .soft { color: light-dark(#555, #b0b0b0); }
.box { border-left: 4px solid var(--bad); background: var(--soft); padding: .4rem .8rem; margin: .8rem 0; }
svg text { fill: currentColor; font: 13px system-ui, sans-serif; } svg .bar { fill: var(--bar); }
svg .axis { stroke: var(--line); }
@media print { body { max-width: none; font-size: 11pt; } .sheet { break-before: page; } a { color: inherit; } }
"""


def page(title: str, body: str, *, style: str = "") -> str:
    """Return a whole page.

    Args:
        title: plain text.
        body: HTML, in which all that people wrote is escaped.
        style: more CSS.
    """
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n<main>\n"
        f"{body}\n</main>\n</body>\n</html>\n"
    )


def pre(text: str) -> str:
    """Return text as it is, with the codes of terminals' colours left out."""
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    return f'<pre tabindex="0">{escape(plain)}</pre>'


def picture(data: str, alternative: str) -> str:
    """Return a PNG given in base64; nothing if it is none."""
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError:
        return ""
    if not raw.startswith(b"\x89PNG\r\n\x1a\n"):
        return ""
    return f'<p><img alt="{escape(alternative)}" src="data:image/png;base64,{base64.b64encode(raw).decode()}"></p>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = ()) -> str:
    """Return a table of cells that are HTML.

    Args:
        head: plain text.
        rows: HTML.
        numbers: the columns that are set to the right.
    """
    right = [' class="n"' if i in set(numbers) else "" for i in range(len(head))]
    top = "".join(f'<th scope="col"{side}>{escape(cell)}</th>' for cell, side in zip(head, right, strict=True))
    body = "\n".join(
        "<tr>" + "".join(f"<td{side}>{cell}</td>" for cell, side in zip(row, right, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide" tabindex="0"><table><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def bars(counts: Sequence[tuple[str, int]], axis: str, what: str) -> str:
    """Return a figure of counts as an inline SVG.

    Args:
        counts: each bar's label and its height.
        axis: what the labels are.
        what: what is counted; said to those who do not see the figure, with all numbers.
    """
    wide, high, step = 640, 150, 640 / max(len(counts), 1)
    most = max([count for _, count in counts] + [1])
    description = "; ".join(f"{label}: {count}" for label, count in counts)
    parts = [
        f'<svg viewBox="0 0 {wide} {high + 60}" role="img" aria-label="{escape(f"{what} by {axis}. {description}")}">'
    ]
    for i, (label, count) in enumerate(counts):
        tall = high * count / most
        middle = (i + 0.5) * step
        x, y = i * step + 2, high + 18 - tall
        parts.append(f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{step - 4:.1f}" height="{tall:.1f}"/>')
        parts.append(f'<text x="{middle:.1f}" y="{y - 4:.1f}" text-anchor="middle">{count or ""}</text>')
        parts.append(f'<text x="{middle:.1f}" y="{high + 34}" text-anchor="middle">{escape(label)}</text>')
    parts.append(f'<line class="axis" x1="0" x2="{wide}" y1="{high + 18}" y2="{high + 18}"/>')
    parts.append(f'<text x="{wide / 2}" y="{high + 54}" text-anchor="middle">{escape(axis)}</text></svg>')
    return "".join(parts)
