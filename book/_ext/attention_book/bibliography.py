"""A style for the list of references: the plain style, oldest first."""

from typing import Any

from pybtex.style.formatting.plain import Style as PlainStyle
from pybtex.style.sorting.author_year_title import SortingStyle as AuthorYearTitle


class YearFirst(AuthorYearTitle):
    """Sort entries by year, and those of one year by author and title."""

    def sorting_key(self, entry: Any) -> tuple[int, Any]:
        """Return what an entry is sorted by."""
        return int(entry.fields["year"]), super().sorting_key(entry)


class ByYear(PlainStyle):
    """The plain style, oldest first."""

    default_sorting_style = "year_first"
