"""Claims: a quantitative sentence of the book, measured and asserted where it stands.

A chapter states a claim in a cell. The cell fails if the measurement contradicts it, and the page of claims is made
from what the executed notebooks hold, so neither can drift from the other.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from .display import show

__all__ = ["Claim", "Kind", "claim"]

# What stands before the two values of a claim, in notebooks and on the site.
PREDICTED, ACCEPTED, MEASURED = "predicted", "accepted", "measured"

METADATA_KEY = "attention_tutorial_claim"  # under which a cell's output records a claim
ROUNDING = 1e-5  # a tolerance of at most this share is there for rounding alone, also that of float32


class Kind(StrEnum):
    """What had to be measured: a value, the same up to rounding, or something within bounds, which predict no value."""

    VALUE = "value"
    IDENTITY = "identity"
    BOUND = "bound"


@dataclass(frozen=True)
class Claim:
    """A claim that was measured and held. Notebooks show it; the page of claims collects it.

    Attributes:
        id: the row of the book's list it belongs to and a letter, such as ``"V1a"``.
        sentence: what is claimed.
        predicted: what had to be measured, in words.
        measured: what was measured.
        kind: a value, an identity or a bound.
        stable: whether the digits measured are the same on every machine.
        finding: whether it is one of the few things that a chapter is about.
        unrounded: what was measured, where ``measured`` is rounded to the tolerance; else empty.
        equals: the bool or string that had to be measured; None for a number.
        at_least: the least number that the claim accepts, a tolerance included; None where there is none.
        at_most: the largest.
        fresh: what fresh runs measured, in words, where a page knows it; else empty.
    """

    id: str
    sentence: str
    predicted: str
    measured: str
    kind: Kind = Kind.VALUE
    stable: bool = True
    finding: bool = False
    unrounded: str = ""
    equals: bool | str | None = None
    at_least: float | None = None
    at_most: float | None = None
    fresh: str = ""

    def holds(self, value: Any, rounding: float = 0.0) -> bool:
        """Return whether the claim accepts a measurement, which may have been rounded by this share of itself."""
        if self.equals is not None:
            return type(value) is type(self.equals) and value == self.equals
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return False
        above = self.at_least is None or value + rounding * abs(value) >= self.at_least
        return above and (self.at_most is None or value - rounding * abs(value) <= self.at_most)

    @property
    def accepted(self) -> str:
        """What had to be measured, in words, such as within which bounds.

        Example:
            >>> Claim("X1a", "s", "at least 0.9", "1", Kind.BOUND).accepted
            'accepted if at least 0.9'
            >>> Claim("X1a", "s", "1 ± 0.05", "1").accepted
            'predicted 1 ± 0.05'
            >>> Claim("X1a", "s", "1 ± 1e-12", "1", Kind.IDENTITY).accepted
            'accepted 1 ± 1e-12'
        """
        verb = {Kind.BOUND: f"{ACCEPTED} if", Kind.IDENTITY: ACCEPTED, Kind.VALUE: PREDICTED}[self.kind]
        return f"{verb} {_in_words(self.predicted)}"

    @property
    def _values(self) -> str:
        return f"{MEASURED} {'' if self.stable else '≈ '}{_in_words(self.measured)} ({self.accepted})"

    def __repr__(self) -> str:
        return f"✓ {self.sentence} — {self._values}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        # Markdown is what every front end sets, with formulas and in its own colours; the site makes a line of its own.
        sentence = self.sentence.replace("<", "&lt;")
        sentence = f"**{sentence}**" if self.finding else sentence
        line = f'✓ {sentence} — <small title="claim {self.id}">{self._values}</small>'
        record = {each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default}
        return {"text/plain": repr(self), "text/markdown": line}, {METADATA_KEY: record}

    @classmethod
    def from_output(cls, output: Mapping[str, Any]) -> "Claim | None":
        """Return the claim that a stored output of a notebook records; None if it records none.

        Raises:
            ValueError: if the record lacks a part.
        """
        record = output.get("metadata", {}).get(METADATA_KEY)
        if record is None:
            return None
        missing = [each.name for each in fields(cls) if each.default is MISSING and each.name not in record]
        if missing:
            raise ValueError(f"claim {record.get('id', '?')} has no {', '.join(missing)}")
        return cls(**{**record, "kind": Kind(record.get("kind", Kind.VALUE))})

    @classmethod
    def stored_in(cls, notebook: Mapping[str, Any]) -> "list[Claim]":
        """Return the claims that the outputs of a notebook record, in the order of its cells."""
        outputs = (output for cell in notebook["cells"] for output in cell.get("outputs", []))
        return [claim for claim in map(cls.from_output, outputs) if claim is not None]


def claim(
    id: str,
    sentence: str,
    measured: float | bool | str,
    *,
    equals: float | bool | str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    atol: float = 0.0,
    rtol: float = 0.0,
    digits: int = 3,
    stable: bool = True,
    finding: bool = False,
) -> None:
    r"""Assert a claim and show it as an output of the cell.

    The claim holds if

    .. math:: |\text{measured} - \text{equals}| \le \text{atol} + \text{rtol} \cdot |\text{equals}|

    for ``equals``, and ``at_least <= measured <= at_most`` for bounds; one of them must be given.

    Args:
        id: such as ``"V1a"``; unique in the book.
        sentence: what is claimed, in one sentence.
        measured: a number (a one-element tensor will do), a bool or a string.
        equals: the value predicted, derived before it was measured. What was not derived gets a bound.
        at_least: a lower bound.
        at_most: an upper bound.
        atol: absolute tolerance of ``equals``.
        rtol: relative tolerance of ``equals``.
        digits: significant digits shown. A measurement that should be 0 is shown to the tolerance (and recorded
            as it is).
        stable: False if the digits differ between machines. They are then shown after "≈", and the notebook tests do
            not compare them: what is compared is that the claim held.
        finding: True for the three or four claims that a chapter is about; on the site they stand out.

    Raises:
        AssertionError: if the measurement contradicts the claim, with both in the message.
        ValueError: if neither ``equals`` nor a bound is given, or both.

    Example:
        >>> claim("X1a", "Two and two make four", 2 + 2, equals=4)
        ✓ Two and two make four — measured 4 (predicted 4)
        >>> claim("X1b", "A coin falls on each side about as often", 0.493, equals=0.5, atol=0.05)
        ✓ A coin falls on each side about as often — measured 0.493 (predicted 0.5 ± 0.05)
        >>> claim("X1c", "Ten is small", 10, at_most=5)
        Traceback (most recent call last):
        AssertionError: claim X1c (Ten is small) does not hold: measured 10, accepted if at most 5
    """
    bounded = at_least is not None or at_most is not None
    if (equals is not None) == bounded:
        raise ValueError("give either equals, or at_least and/or at_most; "
                         f"got equals={equals}, at_least={at_least}, at_most={at_most}")  # fmt: skip
    value: Any = measured.item() if hasattr(measured, "item") else measured
    if bounded and isinstance(value, str):
        raise ValueError(f"measured must be a number to be held against a bound; got {value!r}")
    low, high, tolerance, word, kind = at_least, at_most, 0.0, None, Kind.BOUND if bounded else Kind.VALUE
    if isinstance(equals, (bool, str)):
        predicted, word = str(equals), equals
    elif equals is not None:
        tolerance = atol + rtol * abs(equals)
        low, high = equals - tolerance, equals + tolerance
        predicted = _show(equals, digits) + (f" ± {tolerance:.2g}" if tolerance else "")
        if 0 < tolerance <= ROUNDING * max(1.0, abs(equals)):
            kind = Kind.IDENTITY
    else:
        bounds = [("at least", low), ("at most", high)]
        predicted = " and ".join(f"{words} {_show(bound, digits)}" for words, bound in bounds if bound is not None)
    low, high = (None if bound is None else float(bound) for bound in (low, high))
    made = Claim(id, sentence, predicted, _show(value, digits), kind, stable, finding, "", word, low, high)
    if not made.holds(value):
        found = made.measured if isinstance(value, (bool, str)) else f"{value:.9g}"
        raise AssertionError(f"claim {id} ({sentence}) does not hold: {MEASURED} {found}, {made.accepted}")
    if equals == 0 and tolerance:  # what rounding leaves differs between machines: show it as 0
        as_zero = _show(round(value, -math.floor(math.log10(tolerance))), digits)
        made = replace(made, measured=as_zero, unrounded=made.measured)
    show(made)


def _in_words(value: str) -> str:
    return value.lower() if value in {"True", "False"} else value


def _show(value: Any, digits: int) -> str:
    """Show a number with ``digits`` significant digits, and whole numbers in full."""
    if isinstance(value, (bool, str)):
        return str(value)
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 10**9):
        return str(int(value))
    return f"{float(value):.{digits}g}"
