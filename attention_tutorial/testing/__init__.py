"""Examine an attention of your own by the laws of this book.

You say what its conventions are; nothing is guessed. What goes wrong is compared with the wrong answers that the
exercises know, and gets their words. On the command line, ``python -m attention_tutorial.testing module:object
mask=masked`` does the same; with ``d_model=12`` for a layer.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .._validation import check_flag, check_size
from ..exercises.table import MISTAKES
from ._laws import UNLESS, Broken, Causal, Scale, Size, Subject, askable

__all__ = ["BrokenLaws", "Finding", "Law", "check_attention", "check_layer"]


@dataclass(frozen=True)
class Finding:
    """A law that does not hold.

    Attributes:
        law: its name.
        section: where the book shows it.
        message: what came, what was expected, and what causes it.
        mistake: its number in `MISTAKES`, if it is a common one.
        unless: what to say to the check if the law is not meant to hold.
        place: where the smallest input shows it.
        example: that input, as it was handed over, and the output.
    """

    law: str
    section: str
    message: str
    mistake: int | None = None
    unless: str = ""
    place: str = ""
    example: Mapping[str, Tensor] = field(default_factory=dict)

    def __str__(self) -> str:
        cause = f"\n    a common mistake: {MISTAKES[self.mistake]}" if self.mistake else ""
        unless = f"\n    {self.unless}" if self.unless else ""
        shown = ", ".join(f"{name} {_numbers(x)}" for name, x in self.example.items())
        return f"{self.message}{cause}{unless}\n    smallest input: {shown}{f'; {self.place}' if self.place else ''}"


def _numbers(x: Tensor) -> str:
    if x.numel() > 8:
        return f"of shape {tuple(x.shape)}"
    return str((x if x.dtype == torch.bool else x.double().round(decimals=3)).tolist())


class BrokenLaws(AssertionError):
    """Raised for an attention that breaks laws; ``findings`` has a :class:`Finding` for each."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        told = [f"{len(findings)} {'law does' if len(findings) == 1 else 'laws do'} not hold"]
        for message in dict.fromkeys(finding.message for finding in findings):
            alike = [finding for finding in findings if finding.message == message]
            told.append(f"{', '.join(f'{each.law} ({each.section})' for each in alike)}: {alike[0]}")
        lines = "\n\n".join(told).splitlines()
        super().__init__("\n".join(textwrap.fill(line, 88, subsequent_indent=" " * 4) for line in lines))


@dataclass(frozen=True, eq=False, repr=False)
class Law:
    """A law of one attention. Call it: it raises :class:`BrokenLaws` if it does not hold.

    Attributes:
        name: of the law.
        section: where the book shows it.
    """

    name: str
    section: str
    _hold: Callable[["Subject", "Size"], None]
    _subject: "Subject"

    def __repr__(self) -> str:
        return self.name

    def __call__(self) -> None:
        """Ask on the largest size, which tells all faults apart; where it fails, again from the smallest size on."""
        broken = self._broken(self._subject.sizes[-1])
        if broken is not None:
            smallest = next(filter(None, map(self._broken, self._subject.sizes)), broken)
            message, mistake, _ = broken.args
            unless, place, last = UNLESS.get(self.name, ""), smallest.args[2], self._subject.last
            raise BrokenLaws([Finding(self.name, self.section, message, mistake, unless, place, last)])

    def _broken(self, size: "Size") -> Broken | None:
        try:
            with torch.inference_mode(False), torch.no_grad():
                self._hold(self._subject, size)
        except Broken as broken:
            return broken
        return None


def _call(code: Callable[..., Any], *inputs: Any) -> Any:
    return code(*inputs)


def _check(subject: Subject, cross: bool, collect: bool) -> tuple[Law, ...]:
    """Test the laws that can be tested, unless they are only collected; if there is no output, the first alone."""
    laws = tuple(Law(name, section, hold, subject) for name, section, hold in askable(subject, cross))
    findings: list[Finding] = []
    for law in () if collect else laws:
        try:
            law()
        except BrokenLaws as broken:
            findings += broken.findings
            if law is laws[0]:
                break
    if findings:
        raise BrokenLaws(findings)
    return laws


def check_attention(
    attention: Callable[..., Any],
    *,
    mask: str | None = "allowed",
    axes: str = "batch heads n d",
    mask_axes: str = "batch heads m n",
    causal: Causal = False,
    cross: bool = True,
    scale: Scale = None,
    returns_weights: bool = False,
    empty_rows: bool = True,
    half: bool = True,
    collect: bool = False,
) -> tuple[Law, ...]:
    """Ask a function of query, key, value and mask the laws of attention.

    Args:
        attention: ``attention(query, key, value, mask)``. The mask is sometimes None.
        mask: what True means in a mask, ``"allowed"`` or ``"masked"``; ``"added"`` for numbers, 0 and minus infinity,
            that are added to the scores; None for a function of query, key and value alone.
        axes: of query, key and value, such as ``"batch n heads d"`` or ``"n d"``.
        mask_axes: of masks; "1" is an axis of that size, as in ``"batch 1 m n"``.
        causal: whether it hides the future by itself; or the mask that it has by itself, as a function of m and n.
        cross: whether queries may be more or fewer than keys.
        scale: the factor of the scores, or a function of d_k; 1/√d_k if left out.
        returns_weights: whether it returns output and weights.
        empty_rows: whether a query may have no key. Where none ever has, say False: many sound functions then give NaN.
        half: whether it must also compute in float16 and bfloat16.
        collect: return the laws without testing them, for ``pytest.mark.parametrize("law", ..., ids=str)``.

    Returns:
        The laws; all hold, unless they are only collected.

    Raises:
        BrokenLaws: if some do not hold.
        RuntimeError: if the check cannot copy the code, or cannot call it in float64 on the CPU.
        TypeError: if an argument is of another type.
        ValueError: if a convention is unknown.

    Example:
        >>> from torch.nn.functional import scaled_dot_product_attention
        >>> len(check_attention(scaled_dot_product_attention))
        14
    """
    if not callable(attention):
        raise TypeError(f"attention must be callable; got {type(attention).__name__}")
    check_flag("cross", cross)
    sizes = [(1, 1, 1, 1), (1, 1, 2, 1), (1, 1, 2, 2), (1, 2, 2, 2), (2, 2, 2, 2), (2, 2, 3, 2), (2, 3, 5, 4)]
    subject = Subject(
        code=attention, call=_call, sizes=[Size(*size) for size in sizes], names=(), function=True, mask=mask,
        axes=axes, mask_axes=mask_axes, causal=causal, scale=scale, returns_weights=returns_weights,
        empty_rows=empty_rows, half=half,
    )  # fmt: skip
    return _check(subject, cross, collect)


def check_layer(
    layer: Callable[..., Any],
    d_model: int,
    *,
    num_heads: int = 1,
    projections: str = "",
    positions: bool = False,
    call: Callable[..., Any] | None = None,
    mask: str | None = None,
    axes: str = "batch n d",
    mask_axes: str = "batch m n",
    causal: Causal = False,
    scale: Scale = None,
    returns_weights: bool = False,
    empty_rows: bool = True,
    half: bool = True,
    collect: bool = False,
) -> tuple[Law, ...]:
    """Ask a layer of self-attention, or one that contains it, the laws of attention.

    A copy of the layer is examined, in evaluation mode. Its scores and heads are known only with ``projections``.

    Args:
        layer: a module or function of x (batch, n, d_model), and of a mask if it takes one.
        d_model: the features of x.
        num_heads: how many heads it has.
        projections: the names of its modules for queries, keys, values and output, such as ``"w_q w_k w_v w_o"``, or
            ``"qkv out"`` where one gives all three in a row; without an output projection, three names or one.
        positions: whether it tells the order of words.
        call: ``call(layer, x)``, with a mask ``call(layer, x, mask)``, where it is called otherwise.
        mask: as in :func:`check_attention`; None if it takes none.
        axes: of x: ``"n batch d"`` where the batch comes second.
        mask_axes: of masks: ``"m n"`` for one that is the same for all texts, ``"batch n"`` for one of padding.
        causal: whether it hides the future by itself; or the mask that it has by itself, as a function of m and n.
        scale: as in :func:`check_attention`.
        returns_weights: whether it returns output and weights, of all heads or of their mean.
        empty_rows: as in :func:`check_attention`.
        half: whether it must also compute in float16 and bfloat16.
        collect: as in :func:`check_attention`.

    Returns:
        The laws; all hold, unless they are only collected.

    Raises:
        BrokenLaws: if some do not hold.
        RuntimeError: if the check cannot copy the code, or cannot call it in float64 on the CPU.
        TypeError: if an argument is of another type.
        ValueError: if a convention or a projection is unknown.

    Example:
        >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> check_layer(layer, 8, mask="masked", mask_axes="m n", empty_rows=False)
        (output, order, texts, future, padding, large scores, half precision, gradients, evaluation)
    """
    if not callable(layer):
        raise TypeError(f"layer must be callable; got {type(layer).__name__}")
    check_size("d_model", d_model, minimum=1)
    check_size("num_heads", num_heads, minimum=1)
    names = projections.split()
    known = [name for name, _ in layer.named_modules() if name] if isinstance(layer, nn.Module) else []
    if len(names) > 4 or not set(names) <= set(known):
        raise ValueError("projections must name up to four modules of the layer, for queries, keys, values, output; "
                         f"expected some of {', '.join(known)}; got {projections!r}")  # fmt: skip
    sizes = [(1, 1), (1, 2), (2, 3), (2, 6 if num_heads == 5 else 5)]
    subject = Subject(
        code=layer, call=call or _call, sizes=[Size(b, num_heads, n, d_model) for b, n in sizes], names=names,
        function=False, positions=positions, mask=mask, axes=axes, mask_axes=mask_axes, causal=causal, scale=scale,
        returns_weights=returns_weights, empty_rows=empty_rows, half=half,
    )  # fmt: skip
    return _check(subject, cross=False, collect=collect)
