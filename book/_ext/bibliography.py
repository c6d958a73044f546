"""A style for the list of references: the plain style, oldest first."""

from typing import Any

from pybtex.plugin import register_plugin
from pybtex.style.formatting.plain import Style as PlainStyle
from pybtex.style.sorting.author_year_title import SortingStyle as AuthorYearTitle
from sphinx.application import Sphinx


class YearFirst(AuthorYearTitle):
    """Sort entries by year, and those of one year by author and title."""

    def sorting_key(self, entry: Any) -> tuple[int, Any]:
        """Return what an entry is sorted by."""
        return int(entry.fields["year"]), super().sorting_key(entry)


class ByYear(PlainStyle):
    """The plain style, oldest first."""

    default_sorting_style = "year_first"


def setup(app: Sphinx) -> dict[str, object]:
    """Make the style known under the name that references.md uses."""
    register_plugin("pybtex.style.sorting", "year_first", YearFirst)
    register_plugin("pybtex.style.formatting", "by_year", ByYear)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
