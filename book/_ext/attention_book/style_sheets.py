"""Take out of the style sheets what no page of the site can use.

The theme and its extensions bring style sheets for all that any site may show: Bootstrap alone 209 kB. When all pages
are written, each rule stays whose classes and ids stand on some page, or as a word in some script, which may set them
later. What a selector has in brackets, as in `:not(.a)`, is not asked for.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import tinycss2
from sphinx.application import Sphinx
from tinycss2.ast import AtRule, Node, QualifiedRule

# Sheets of others; the book's own hold nothing that is not used.
SHEETS = (
    "styles/*.css",
    "basic.css",
    "sphinx-design*.css",
    "mystnb*.css",
    "pygments.css",
    "togglebutton.css",
    "copybutton.css",
)
NAMES = re.compile(r"\b(?:class|id)=\"([^\"]*)\"")
WORDS = re.compile(r"[A-Za-z_][\w-]*")
BRACKETS = re.compile(r"\([^()]*\)")
ATTRIBUTES = re.compile(r"\[[^\]]*\]")
ASKED = re.compile(r"[.#]((?:[\w-]|\\.|[^\x00-\x7f])+)")
NESTING = {"media", "supports", "layer", "container"}  # rules that hold rules


def names_in(site: Path) -> set[str]:
    """Return every class and id on a page of the site, and every word in a script."""
    result: set[str] = set()
    for path in site.rglob("*.html"):
        for names in NAMES.findall(path.read_text(encoding="utf-8")):
            result.update(names.split())
    for path in (site / "_static").rglob("*.js"):
        result.update(WORDS.findall(path.read_text(encoding="utf-8")))
    return result


def can_match(selector: str, names: set[str]) -> bool:
    r"""Tell whether a page with these classes and ids may have what a selector asks for.

    Example:
        >>> names = {"a", "b", "w-1/2"}
        >>> [can_match(each, names) for each in (".a > .b", ".a .c", "p:not(.c)", "[class~=c] p", ".w-1\\/2")]
        [True, False, True, True, True]
    """
    while BRACKETS.search(selector):
        selector = BRACKETS.sub("", selector)
    asked = ASKED.findall(ATTRIBUTES.sub("", selector))
    return all(re.sub(r"\\(.)", r"\1", name) in names for name in asked)


def parts_of(prelude: list[Node]) -> Iterator[str]:
    """Yield the selectors of a rule."""
    part: list[Node] = []
    for token in prelude:
        if token == ",":
            yield tinycss2.serialize(part).strip()
            part = []
        else:
            part.append(token)
    yield tinycss2.serialize(part).strip()


def pruned(sheet: str, names: set[str]) -> str:
    """Return a style sheet without rules that no page can use, and without comments.

    Example:
        >>> pruned("/* x */ .a, .c { color: red } .c { x: y } @media print { .c { x: y } .a { x: y } }", {"a"})
        '.a{color: red}@media print{.a{x: y}}'
        >>> pruned("@media print { .c { x: y } } @font-face { font-family: F }", {"a"})
        '@font-face { font-family: F }'
    """
    return _kept(tinycss2.parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True), names)


def _kept(rules: list[Node], names: set[str]) -> str:
    result = []
    for rule in rules:
        if isinstance(rule, QualifiedRule):
            selectors = [part for part in parts_of(rule.prelude) if can_match(part, names)]
            if selectors:
                result.append(f"{','.join(selectors)}{{{tinycss2.serialize(rule.content).strip()}}}")
        elif isinstance(rule, AtRule) and rule.lower_at_keyword in NESTING and rule.content is not None:
            inner = _kept(tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True), names)
            if inner:
                result.append(f"@{rule.at_keyword} {tinycss2.serialize(rule.prelude).strip()}{{{inner}}}")
        else:
            result.append(rule.serialize())
    return "".join(result)


def prune(app: Sphinx) -> None:
    """Prune the style sheets of the site."""
    site = Path(app.outdir)
    names = names_in(site)
    for pattern in SHEETS:
        for path in (site / "_static").glob(pattern):
            path.write_text(pruned(path.read_text(encoding="utf-8"), names), encoding="utf-8")
