"""Make the HTML of listings smaller: no element for what has the colour of plain text, one for neighbours of one kind.

Pygments puts a ``<span>`` round every name and comma. A third of a chapter's elements were such spans, though the style
sheet gives them the colour that they would have without; dots and equal signs get it too. A browser lays a page out
faster without them.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

PLAIN = re.compile(  # names, punctuation and white space; dots and equal signs; nothing
    r'<span class="(?:n|nn|p|w)">([^<]*)</span>|<span class="o">([.=])</span>|<span></span>'
)
NEIGHBOURS = re.compile(r'<span class="([a-z]\w?)">([^<]*)</span><span class="\1">')
LISTING = re.compile(r"<pre>.*?</pre>", re.DOTALL)


def lighter(listing: str) -> str:
    """Return the HTML of listings that looks the same and has fewer elements.

    Example:
        >>> lighter('<span class="n">x</span><span class="p">,</span> <span class="o">*</span><span class="n">y</span>')
        'x, <span class="o">*</span>y'
        >>> lighter('<span class="s2">"</span><span class="s2">a</span><span class="s2">"</span>')
        '<span class="s2">"a"</span>'
    """
    listing = PLAIN.sub(r"\1\2", listing)
    joined = 1
    while joined:
        listing, joined = NEIGHBOURS.subn(r'<span class="\1">\2', listing)
    return listing


def lighten_page(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.Node | None) -> None:
    """Make the listings of a page lighter."""
    if "body" in context:
        context["body"] = LISTING.sub(lambda match: lighter(match[0]), context["body"])
