"""Citations: how to cite the book, from CITATION.cff, and the order of what it cites.

    ```{cite-this-book}
    ```

stands for a sentence to copy and an entry for BibTeX.
"""

import html
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import yaml
from docutils import nodes
from pybtex.style.formatting.plain import Style as PlainStyle
from pybtex.style.sorting.author_year_title import SortingStyle as AuthorYearTitle
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

CITATION = Path(__file__).parents[3] / "CITATION.cff"


def read_citation(path: Path = CITATION) -> dict[str, Any]:
    """Read a citation file."""
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def authors(citation: dict[str, Any]) -> list[str]:
    """Return the names of the authors, persons and groups."""
    return [author.get("name") or f"{author['given-names']} {author['family-names']}" for author in citation["authors"]]


def sentence(citation: dict[str, Any], year: str, address: str) -> str:
    """Return a citation in words."""
    names = ", ".join(authors(citation))
    return f"{names} ({year}). {citation['title']}. Version {citation['version']}. {address}"


def bibtex(citation: dict[str, Any], year: str, address: str) -> str:
    """Return an entry for BibTeX; braces keep the names of groups and the title as they are."""
    names = " and ".join(f"{{{name}}}" for name in authors(citation))
    fields = {
        "author": names,
        "title": f"{{{citation['title']}}}",
        "year": year,
        "version": str(citation["version"]),
        "url": address,
    }
    lines = ",\n".join(f"  {name:7} = {{{value}}}" for name, value in fields.items())
    return f"@misc{{attention-derived-and-measured,\n{lines}\n}}"


class CiteThisBook(SphinxDirective):
    """Set how to cite the book."""

    def run(self) -> list[nodes.Node]:
        """Return the sentence and the entry."""
        self.env.note_dependency(str(CITATION))
        citation = read_citation()
        address = self.config.html_baseurl or self.config.html_theme_options["repository_url"]
        about = (citation, self.config.copyright, address)
        entry = bibtex(*about)
        return [nodes.paragraph("", sentence(*about)), nodes.literal_block(entry, entry, language="bibtex")]


def add_tags(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Tell programs that collect literature what a chapter is."""
    if doctree is None or not pagename.startswith("notebooks/"):
        return
    tags = [
        ("title", app.env.titles[pagename].astext()),
        *(("author", name) for name in authors(read_citation())),
        ("publication_date", app.config.copyright),
        ("language", "en"),
        ("public_url", urljoin(app.config.html_baseurl, app.builder.get_target_uri(pagename))),
    ]
    context["metatags"] += "\n".join(
        f'<meta name="citation_{key}" content="{html.escape(text)}" />' for key, text in tags
    )


class YearFirst(AuthorYearTitle):
    """Sort references by year, and those of one year by author and title."""

    def sorting_key(self, entry: Any) -> tuple[int, Any]:
        """Return what a reference is sorted by."""
        return int(entry.fields["year"]), super().sorting_key(entry)


class ByYear(PlainStyle):
    """The plain style, oldest first."""

    default_sorting_style = "year_first"
