"""A page of its own for each demonstration, which another site can show in a frame.

`demonstrations/02_scaled_dot_product-plane.html` holds the demonstration alone, as its chapter begins it, with a link
back to its section. Opened by itself it also offers the line that embeds it, with the state that its address carries.
"""

import html
import re
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from docutils import nodes
from sphinx.application import Sphinx

from .theme import STATIC

FOLDER = "demonstrations"
DEMONSTRATION = re.compile(r'<div class="attention-widget"(?: data-offer="[^"]*")? data-(?:later-)?widget="(\w+)"')
LINE = (
    '<iframe src="{address}" title="{title}" width="100%" height="700" style="border: 0" loading="lazy" '
    'allow="fullscreen; clipboard-write"></iframe>'
)
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="canonical" href="../{page}.html">
<link rel="icon" href="../_static/favicon.svg">
<link rel="stylesheet" href="../_static/widgets/{widget}.css">
<style>
{faces}
html {{ color-scheme: light dark; background: light-dark(#fff, #14181e); }}
body {{ max-width: 52rem; margin: 0 auto; padding: 0 0.5rem; }}
body {{ color: light-dark(#57606a, #a3adb8); font: 0.8rem/1.5 var(--book-sans); }}
p {{ margin: 0.5rem 0; }}
a {{ color: inherit; }}
input {{ box-sizing: border-box; width: 100%; font: inherit; }}
</style>
<script>
const dark = matchMedia("(prefers-color-scheme: dark)");
(dark.onchange = () => {{ document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; }})();
</script>
</head>
<body>
<main>{shown}</main>
<p>From <a href="../{page}.html#{id}" target="_blank">{title}</a></p>
<p hidden><label>To embed it: <input readonly value="{line}"></label></p>
<script>
const [from, offer] = document.querySelectorAll("body > p");
const field = offer.querySelector("input"), line = field.value;
offer.hidden = window !== top;
field.onfocus = () => {{
  const height = Math.ceil(from.getBoundingClientRect().bottom + scrollY) + 8;
  field.value = line.replace('" title', `${{location.hash}}" title`).replace("700", height);
  field.select();
}};
</script>
<script src="../_static/widgets/{widget}.js"></script>
<script src="../_static/widgets/host.js"></script>
</body>
</html>
"""


def faces() -> str:
    """Return the rules of the book's faces of labels and code, as a page beside the static files has them."""
    sheet = (STATIC / "custom.css").read_text(encoding="utf-8")
    rules = re.findall(
        r'^@font-face \{ font-family: "?(?:Inter|like Inter|then Inter|JetBrains Mono).*', sheet, re.MULTILINE
    )
    names = re.findall(r"--book-(?:sans|mono): .*", sheet)
    fonts = "\n".join(rules).replace('url("', 'url("../_static/').replace("optional", "swap")
    return f"{fonts}\n:root {{ {' '.join(names)} }}"


def write_pages(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Write a page for each demonstration of a page, and tell the demonstration where it is."""
    addresses = []
    alike: Counter[str] = Counter()
    for raw in doctree.findall(nodes.raw) if doctree else ():
        if not (found := DEMONSTRATION.search(raw.astext())):
            continue
        widget = found[1]
        alike[widget] += 1
        number = f"-{alike[widget]}" if alike[widget] > 1 else ""
        file = f"{FOLDER}/{pagename.rpartition('/')[2]}-{widget}{number}.html"
        section = raw.parent
        while not isinstance(section, nodes.section):
            section = section.parent
        titles = app.env.titles[pagename].astext(), app.config.project
        title = html.escape(" · ".join(dict.fromkeys(titles)))
        page = PAGE.format(
            faces=faces(),
            title=title,
            page=pagename,
            widget=widget,
            shown=DEMONSTRATION.sub(f'<div data-widget="{widget}"', raw.astext()),
            id=section["ids"][0],
            line=html.escape(LINE.format(address=urljoin(app.config.html_baseurl, file), title=title)),
        )
        path = Path(app.outdir) / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(page, encoding="utf-8")
        addresses.append(f"{'../' * pagename.count('/')}{file}")
    if addresses:
        left = iter(addresses)
        context["body"] = DEMONSTRATION.sub(lambda found: f'{found[0]} data-alone="{next(left)}"', context["body"])
