"""Give numbered sections and exercises an address that stays when their words change.

The address of "3.4 What survives when an assumption is dropped?" is #section-3-4, that of "3a.2 ..." in a deep notebook
#section-3a-2, and that of "Exercise 3.2 ..." #exercise-3-2. The address made of the heading's words works as well.
"""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

NUMBERED = re.compile(r"(?P<kind>Exercise )?(?P<number>\d+[a-z]?\.\d+)\b")


def lasting_id(heading: str) -> str | None:
    """Return the lasting id of a section from its heading; None if it has no number.

    Example:
        >>> lasting_id("3.4 What survives"), lasting_id("3a.2 Deeper"), lasting_id("Exercise 3.2 ★ Bounds")
        ('section-3-4', 'section-3a-2', 'exercise-3-2')
        >>> lasting_id("1. The bottleneck"), lasting_id("Summary"), lasting_id("16 heads")
        (None, None, None)
    """
    match = NUMBERED.match(heading)
    if match is None:
        return None
    return f"{'exercise' if match['kind'] else 'section'}-{match['number'].replace('.', '-')}"


class LastingIds(SphinxTransform):
    """Put the lasting id of each section before the others, so that every link of the site uses it."""

    default_priority = 400

    def apply(self, **arguments: object) -> None:
        """Add the ids of a page."""
        for section in self.document.findall(nodes.section):
            name = lasting_id(section[0].astext())
            if name:
                section["ids"].insert(0, name)
