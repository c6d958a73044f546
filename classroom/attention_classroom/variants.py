"""Variants: what differs between the students of one assignment, drawn from a course's secret and a student's id."""

import copy
import hashlib
import hmac
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from nbformat import NotebookNode

__all__ = ["PLAIN", "TAG", "TEMPLATE_SECRET", "Variant", "fill", "plain_variant", "variant_for"]

PLAIN = ""  # the student whose variant is the common release
TEMPLATE_SECRET = b"the masters as stored"  # no secret at all: the variant that the masters of the repository show
TAG = "variant"  # on the master's cells that vary


@dataclass(frozen=True)
class Variant:
    """One student's numbers, shapes, tokens and planted bug.

    Attributes:
        assignment: its name.
        student: the id; `PLAIN` for the common release.
        values: plain data, as JSON holds them.
    """

    assignment: str
    student: str
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def mark(self) -> str:
        """Return a short name for the values that a student sees. It is the same for the same, and made of them alone.

        Values called ``hidden...`` have no part in it. A hash of them could be searched through: a student knows all
        the others.
        """
        shown = {name: value for name, value in self.values.items() if not name.startswith("hidden")}
        text = json.dumps([self.assignment, shown], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class Varies(Protocol):
    """What is asked of an assignment here."""

    @property
    def name(self) -> str: ...
    @property
    def draw(self) -> Callable[[random.Random], Mapping[str, Any]]: ...
    @property
    def cells(self) -> Callable[[Variant], Mapping[str, str]]: ...


def variant_for(assignment: Varies, student: str, secret: bytes) -> Variant:
    """Draw a student's variant; the same for the same assignment, student and secret, on every machine.

    Args:
        assignment: whose `draw` is called.
        student: the id, as in the list of students.
        secret: the course's. Whoever has it can draw every variant.

    Returns:
        The variant.

    Raises:
        TypeError: if ``secret`` is no bytes, or ``draw`` returns other than plain data.
    """
    if not isinstance(secret, bytes):
        raise TypeError(f"secret must be bytes; got {type(secret).__name__}")
    seed = hmac.new(secret, f"{assignment.name}\0{student}".encode(), hashlib.sha256).digest()
    drawn = assignment.draw(random.Random(seed))
    try:
        values = json.loads(json.dumps(dict(drawn), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(f"draw of {assignment.name} must return plain data, as JSON holds them: {error}") from error
    return Variant(assignment.name, student, values)


def plain_variant(assignment: Varies) -> Variant:
    """Return the variant that the master shows as it is stored."""
    return variant_for(assignment, PLAIN, TEMPLATE_SECRET)


def fill(master: "NotebookNode", assignment: Varies, variant: Variant) -> "NotebookNode":
    """Return a copy of a master whose cells marked ``variant`` hold what a variant says.

    Raises:
        ValueError: if the cells marked in the master are not those that the assignment fills.
    """
    filled = copy.deepcopy(master)
    sources = dict(assignment.cells(variant))
    marked = {cell.id for cell in filled.cells if TAG in cell.metadata.get("tags", [])}
    if marked != set(sources):
        raise ValueError(
            f"{assignment.name}: the cells tagged {TAG} must be those that `cells` fills; tagged "
            f"{', '.join(sorted(marked)) or 'none'}, filled {', '.join(sorted(sources)) or 'none'}"
        )
    for cell in filled.cells:
        cell.source = sources.get(cell.id, cell.source)
    return filled
