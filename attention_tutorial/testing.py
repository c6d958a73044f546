"""Examine an attention of your own by the laws of this book.

You say what its conventions are; nothing is guessed. What goes wrong is compared with the wrong answers that the
exercises know, and gets their words. ``python -m attention_tutorial.testing module:object mask=masked`` does the same on
the command line; with ``d_model=12`` for a layer.
"""

import ast
import copy
import importlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ._validation import check_flag, check_size
from .exercises.chapter05 import EQUAL_ROWS, HALF_FILL, NAN_GRADIENTS, NAN_ROWS, NO_GRADIENT, OUTSHONE, OVERFLOW
from .exercises.diagnosis import first_wrong_place
from .exercises.parse import random
from .exercises.recognise import Heads, Reading, Step, recognise
from .exercises.table import MISTAKES
from .laws import influence, keeps_order, keeps_texts
from .masks import causal_mask

__all__ = ["BrokenLaws", "Finding", "Law", "check_attention", "check_layer"]

CLOSE = 1e-4  # sound code may compute in float32 inside
WRONG_WAY = "the mask is read the wrong way round: what should be hidden is seen, and nothing else"
Scale = float | Callable[[int], float] | None


# ---- What comes out -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """A law that does not hold.

    Attributes:
        law: its name.
        section: where the book shows it.
        message: what came, what was expected, and what causes it.
        mistake: its number in `MISTAKES`, if it is a common one.
        place: where the smallest input shows it.
        example: that input, as it was handed over, and the output.
    """

    law: str
    section: str
    message: str
    mistake: int | None = None
    place: str = ""
    example: Mapping[str, Tensor] = field(default_factory=dict)

    def __str__(self) -> str:
        cause = f"\n    a common mistake: {MISTAKES[self.mistake]}" if self.mistake else ""
        shown = ", ".join(f"{name} {_numbers(x)}" for name, x in self.example.items())
        return f"{self.message}{cause}\n    smallest input: {shown}{f'; {self.place}' if self.place else ''}"


class BrokenLaws(AssertionError):
    """Raised for an attention that breaks laws; ``findings`` has a :class:`Finding` for each."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        told = [f"{len(findings)} {'law does' if len(findings) == 1 else 'laws do'} not hold"]
        for message in dict.fromkeys(finding.message for finding in findings):
            same = [finding for finding in findings if finding.message == message]
            told.append(f"{', '.join(f'{each.law} ({each.section})' for each in same)}: {same[0]}")
        super().__init__("\n\n".join(told))


def _numbers(x: Tensor) -> str:
    """Write down a tensor, if it has few numbers."""
    if x.numel() > 8:
        return f"of shape {tuple(x.shape)}"
    return str((x if x.dtype == torch.bool else x.double().round(decimals=3)).tolist())


class _Broken(Exception):
    def __init__(self, message: str, mistake: int | None = None, place: str = "") -> None:
        super().__init__(message, mistake, place)


@dataclass(frozen=True, eq=False, repr=False)
class Law:
    """A law of one attention. Call it: it raises :class:`BrokenLaws` if it does not hold.

    Attributes:
        name: of the law.
        section: where the book shows it.
    """

    name: str
    section: str
    _hold: Callable[["_Subject", "_Size"], None]
    _subject: "_Subject"

    def __repr__(self) -> str:
        return self.name

    def __call__(self) -> None:
        """Ask on the largest size, which tells all faults apart; where it fails, again from the smallest size on."""
        broken = self._broken(self._subject.sizes[-1])
        if broken is not None:
            smallest = next(filter(None, map(self._broken, self._subject.sizes)), broken)
            message, mistake, _ = broken.args
            raise BrokenLaws([
                Finding(self.name, self.section, message, mistake, smallest.args[2], self._subject.last)
            ])

    def _broken(self, size: "_Size") -> _Broken | None:
        try:
            with torch.no_grad():
                self._hold(self._subject, size)
        except _Broken as broken:
            return broken
        except Exception as error:
            return _Broken(f"your code raised {type(error).__name__}: {error}")
        return None


# ---- What is examined: it gets inputs in its own conventions, and its output is brought into the book's axes --------


class _Size(NamedTuple):
    batch: int
    heads: int
    n: int
    d: int


@dataclass(frozen=True)
class _Read:
    """What is known of the heads: how they are computed, and where they do not give what PyTorch's function gives."""

    heads: Heads
    scale: float
    reading: Reading | None
    place: str
    small: bool

    @property
    def factor(self) -> float:
        """That of the scores, over the right one."""
        return 1.0 if self.reading is None else self.reading.factor / self.scale

    def blame(self, *steps: str) -> None:
        """Raise for the first step that is wrong; on a small input, which tells no faults apart, if the numbers are."""
        if self.small and self.place:
            raise _Broken("", None, self.place)
        for step in steps:
            told = getattr(self.reading, step, Step())
            if told.words:
                words = WRONG_WAY if told.mistake == 7 else told.words
                raise _Broken(words, told.mistake, self.place)


def _lay_out(x: Tensor, have: str, want: str) -> Tensor:
    """Put axes in another order: one that is not wanted loses all but its first entry, and one more has the size 1."""
    names = have.split()
    for axis in [name for name in names if name not in want.split()]:
        x = x.select(names.index(axis), 0)
        names.remove(axis)
    x = x.permute([names.index(name) for name in want.split() if name in names])
    for i, name in enumerate(want.split()):
        x = x if name in names else x.unsqueeze(i)
    return x.contiguous()


@dataclass(kw_only=True, eq=False)
class _Subject:
    """A function of query, key, value and mask, and its conventions."""

    code: Callable[..., Any]
    mask: str | None
    axes: str
    mask_axes: str
    causal: bool
    scale: Scale
    returns_weights: bool
    empty_rows: bool
    half: bool
    dtype: torch.dtype
    cross: bool = False
    positions: bool = False
    inputs: tuple[str, ...] = ("query", "key", "value")
    standard: str = "batch heads n d"
    last: dict[str, Tensor] = field(default_factory=dict)
    readings: dict[Any, Reading | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not callable(self.code):
            raise TypeError(f"what is examined must be callable; got {type(self.code).__name__}")
        if self.mask not in (None, "allowed", "masked", "added"):
            raise ValueError(f"mask must be 'allowed', 'masked', 'added' or None; got {self.mask!r}")
        for name in ("causal", "returns_weights", "empty_rows", "half", "cross", "positions"):
            check_flag(name, getattr(self, name))
        for name, known, needed in (("axes", self.standard, "n d"), ("mask_axes", "batch heads 1 m n", "n")):
            axes = getattr(self, name).split()
            if not set(needed.split()) <= set(axes) <= set(known.split()):
                raise ValueError(f"{name} must be some of {known!r}, with {needed!r}; got {getattr(self, name)!r}")

    @property
    def sizes(self) -> list[_Size]:
        """Sizes from the smallest on. In the last, each axis has a size of its own."""
        sizes = [(1, 1, 1, 1), (1, 1, 2, 1), (1, 1, 2, 2), (1, 2, 2, 2), (2, 2, 2, 2), (2, 2, 3, 2), (2, 3, 5, 4)]
        own = self.axes.split()
        return [_Size(b if "batch" in own else 1, h if "heads" in own else 1, n, d) for b, h, n, d in sizes]

    def draw(self, size: _Size, seed: int = 0) -> Tensor:
        """Draw vectors with one digit after the point."""
        return random(*(getattr(size, axis) for axis in self.standard.split()), seed=seed).round(decimals=1)

    def model(self, allowed: Tensor | None = None, dtype: torch.dtype | None = None) -> Callable[[Tensor], Tensor]:
        """Return it as self-attention of vectors, to (batch, n, features); for a function, these are turned for keys."""
        return lambda x: self.run([x, x.roll(1, -1), x], allowed, dtype)[0].transpose(1, 2).flatten(2)

    def run(
        self, inputs: Sequence[Tensor], allowed: Tensor | None = None, dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return its output in the book's axes, and its weights as they come, both in float64."""
        given = [_lay_out(x, self.standard, self.axes).to(dtype or self.dtype) for x in inputs]
        mask = None if allowed is None else self.own_mask(allowed, inputs[0].size(1), given[0].dtype)
        self.last = dict(zip(self.inputs, given, strict=True)) | ({} if mask is None else {"mask": mask})
        copies = [x.clone() for x in given]
        try:
            result = self.call(*copies, *([] if self.mask is None else [mask]))
        except RuntimeError as error:
            if mask is None or mask.dim() != 3 or "must match" not in str(error):
                raise
            raise _Broken(f"a mask of shape {tuple(mask.shape)} does not fit: does its first axis meet the heads? Write "
                          f"mask[:, None] ({error})", 15) from error  # fmt: skip
        if not all(map(torch.equal, copies, given)):
            raise _Broken("it changes its arguments; work on new tensors")
        weights = None
        if self.returns_weights:
            if not isinstance(result, tuple | list) or len(result) < 2 or not isinstance(result[1], Tensor):
                raise _Broken(f"it must return (output, weights); got {type(result).__name__}")
            result, weights = result[0], result[1].double()
        expected = (*given[0].shape[:-1], result.size(-1) if isinstance(result, Tensor) and result.dim() else 0)
        if not isinstance(result, Tensor) or result.shape != expected:
            got = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise _Broken(f"its output must be a tensor of shape {(*given[0].shape[:-1], given[-1].size(-1))}; got {got}")
        self.last["output"] = result.detach()
        return _lay_out(result, self.axes, self.standard).double(), weights

    def call(self, *arguments: Any) -> Any:
        return self.code(*arguments)

    def own_mask(self, allowed: Tensor, heads: int, dtype: torch.dtype) -> Tensor:
        """Write down who may look at whom, (batch, m, n), as it takes masks."""
        mask = _lay_out(allowed[:, None].expand(-1, heads, -1, -1), "batch heads m n", self.mask_axes)
        if self.mask == "added":
            return torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -torch.inf)
        return ~mask if self.mask == "masked" else mask

    def seen(self, size: _Size, allowed: Tensor | None = None) -> Tensor:
        """Return who must see whom, (batch, n, n)."""
        everyone = torch.ones(size.batch, size.n, size.n, dtype=torch.bool)
        return (everyone if allowed is None else allowed) & (causal_mask(size.n) if self.causal else everyone)

    def heads(self, size: _Size, allowed: Tensor | None = None) -> Heads | None:
        """Return queries, keys and values of all heads, and what came of them; None where they are not known."""
        q, k, v = (self.draw(size, seed) for seed in range(3))
        return Heads(q, k, v, self.run([q, k, v], allowed)[0], size.d)

    def scale_for(self, d_head: int) -> float:
        return 1 / math.sqrt(d_head) if self.scale is None else self.scale(d_head) if callable(self.scale) else self.scale

    def read(self, size: _Size, allowed: Tensor | None = None) -> "_Read | None":
        """Return what is known of the heads: whether they give what PyTorch's function gives, and if not, why."""
        heads = self.heads(size, allowed)
        if heads is None:
            return None
        seen, scale = self.seen(size, allowed)[:, None], self.scale_for(heads.d_head)
        expected = heads.expected(seen, scale)
        fits = heads.got.shape == expected.shape and torch.allclose(heads.got, expected, atol=CLOSE)
        key = size, None if allowed is None else tuple(allowed.flatten().tolist())
        if key not in self.readings:
            like = None if allowed is None else self.readings.get((size, None))
            known = size == self.sizes[-1] and (allowed is None or like is not None)
            self.readings[key] = recognise(heads, seen, scale, like=like, tolerance=CLOSE) if known else None
        place = "" if fits else first_wrong_place(heads.got, expected, "output", CLOSE) or f"expected shape {tuple(expected.shape)}"
        return _Read(heads, scale, self.readings[key], place, size != self.sizes[-1])


@dataclass(kw_only=True, eq=False)
class _Layer(_Subject):
    """A layer, of which a copy is examined in evaluation mode; its projections are heard as they are called."""

    d_model: int
    num_heads: int
    projections: str
    call_layer: Callable[..., Any] | None
    inputs: tuple[str, ...] = ("x",)
    standard: str = "batch n d"
    copies: dict[torch.dtype, Any] = field(default_factory=dict)
    heard: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size("d_model", self.d_model, minimum=1)
        check_size("num_heads", self.num_heads, minimum=1)
        self.names = self.projections.split()
        known = dict(self.code.named_modules()) if isinstance(self.code, nn.Module) else {}
        if len(self.names) > 4 or not set(self.names) <= set(known):
            raise ValueError(
                "projections must name the layer's modules for queries, keys, values (or all three in one) and output; "
                f"expected some of {', '.join(filter(None, known)) or 'no modules'}; got {self.projections!r}"
            )

    def copy(self, dtype: torch.dtype) -> Any:
        """Return the layer in a type, for evaluation. Matrices that are all zeros would show nothing, so they are drawn."""
        if dtype not in self.copies and isinstance(self.code, nn.Module):
            self.copies[dtype] = layer = copy.deepcopy(self.code).to(dtype).eval()
            for weight in layer.parameters():
                if weight.dim() > 1 and not weight.any():
                    weight.data = 0.3 * random(*weight.shape).to(dtype)
            for name in self.names:
                layer.get_submodule(name).register_forward_hook(partial(self.hear, name))
        return self.copies.get(dtype, self.code)

    def hear(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        self.heard[name] = inputs[0].detach(), output.detach()

    def call(self, *arguments: Any) -> Any:
        layer = self.copy(arguments[0].dtype)
        return self.call_layer(layer, *arguments) if self.call_layer else layer(*arguments)

    @property
    def sizes(self) -> list[_Size]:
        texts = 2 if "batch" in self.axes.split() else 1
        sizes = [(1, 1), (1, 2), (texts, 2), (texts, 3), (texts, 6 if self.num_heads == 5 else 5)]
        return [_Size(b, self.num_heads, n, self.d_model) for b, n in sizes]

    def model(self, allowed: Tensor | None = None, dtype: torch.dtype | None = None) -> Callable[[Tensor], Tensor]:
        return lambda x: self.run([x], allowed, dtype)[0]

    def own_mask(self, allowed: Tensor, heads: int, dtype: torch.dtype) -> Tensor:
        return super().own_mask(allowed, self.num_heads, dtype)

    def heads(self, size: _Size, allowed: Tensor | None = None) -> Heads | None:
        if not self.names or self.positions:
            return None
        self.heard.clear()
        output, _ = self.run([self.draw(size)], allowed)
        for name in self.names:
            if name not in self.heard:
                raise _Broken(f"{name} is never called: is it left out, or is only its weight used?")
        heard = [[self.words(x) for x in self.heard[name]] for name in self.names]
        own = 3 if len(heard) > 2 else 1
        q, k, v = [pair[1] for pair in heard[:3]] if own == 3 else heard[0][1].chunk(3, dim=-1)
        got = heard[-1][0] if len(heard) > own else output
        return Heads(q, k, v, got, q.size(-1) // self.num_heads, joined=True)

    def words(self, x: Tensor) -> Tensor:
        """Bring what a projection took or gave into (batch, n, features), also where it was split into heads."""
        if x.dim() == 4:
            x = (x.transpose(1, 2) if x.size(1) == self.num_heads else x).flatten(2)
        return _lay_out(x, self.axes, self.standard).double()


# ---- The laws -------------------------------------------------------------------------------------------------------


def _output(subject: _Subject, size: _Size) -> None:
    if not subject.model()(subject.draw(size)).isfinite().all():
        raise _Broken("the output holds NaN or infinity, for ordinary numbers and without a mask: is 0 multiplied by infinity?", 11)


def _rows(subject: _Subject, size: _Size) -> None:
    if read := subject.read(size):
        read.blame("weighing", "roles")
    x, function = subject.draw(size), not isinstance(subject, _Layer)
    output, weights = subject.run([x, x.roll(1, -1), torch.ones_like(x)] if function else [x])
    if weights is None and not function:
        return
    sums = output if weights is None else weights.sum(dim=-1)  # a weighted mean of ones
    if (sums - 1).abs().max() > CLOSE or (weights is not None and weights.min() < -CLOSE):
        raise _Broken("rows of weights must be positive and sum to 1 over the keys; yours do not", 5,
                      f"sums from {sums.min():.3g} to {sums.max():.3g}")  # fmt: skip


def _divisor(subject: _Subject, size: _Size) -> None:
    if (read := subject.read(size)) is None:
        return
    read.blame()
    if abs(read.factor - 1) < 1e-3:
        return
    if read.factor < 1e-3:
        raise _Broken("the key that matches least gets most: the sign of your scores is turned around" if read.factor < -1e-3
                      else "all keys get the same weight; weights must come from the scores", None, read.place)  # fmt: skip
    d, divisor = read.heads.d_head, 1 / (read.factor * read.scale)
    d_model = size.d if isinstance(subject, _Layer) else size.heads * d
    names = (("√d_model", d_model**0.5, 1), ("they are not scaled", 1.0, 2), ("d_k", d, 3), ("d_model", d_model, 1),
             ("√d_k", d**0.5, None), ("the number of heads", size.heads, 2), ("the number of keys", size.n, 2),
             ("multiplied by √d_k", d**-0.5, 4), ("multiplied by √d_model", d_model**-0.5, 4))  # fmt: skip
    found = [(name, mistake) for name, number, mistake in names if abs(number / divisor - 1) < 2e-3]
    by = f" ({' or '.join(name for name, _ in found[:2])})" if found else ""
    factor = f"{1 / read.factor:.3g} times too small" if read.factor < 1 else f"{read.factor:.3g} times too large"
    right = " (√d_k)" if subject.scale is None else ""
    raise _Broken(f"your scores are {factor}: divided by {divisor:.3g}{by}, expected {1 / read.scale:.3g}{right}",
                  found[0][1] if found else None, read.place)  # fmt: skip


def _joined(subject: _Subject, size: _Size) -> None:
    if read := subject.read(size):
        read.blame("heads")
    if isinstance(subject, _Layer) and subject.heard:
        (x, _), (taken, given) = (subject.heard[subject.names[i]] for i in (0, -1))
        if x.dim() == 4:
            raise _Broken("all heads share one small projection, and each sees only its own part of the features; project "
                          "first, then split")  # fmt: skip
        if len(subject.names) in (2, 4) and taken.any() and taken.equal(given):
            raise _Broken(f"{subject.names[-1]} returns what it takes: the joined heads are not mixed by W^O")


def _agreement(subject: _Subject, size: _Size) -> None:
    if read := subject.read(size):
        read.blame("heads", "roles", "weighing")
        if not read.small and (read.reading is None or abs(read.factor - 1) > 1e-3):
            why = "no fault that this book knows explains it" if read.reading is None else "its divisor is another"
            raise _Broken(f"F.scaled_dot_product_attention gives something else; {why}", None, read.place)


def _order(subject: _Subject, size: _Size) -> None:
    kept = keeps_order(subject.model(), subject.draw(size), torch.arange(size.n).roll(1), tolerance=CLOSE)
    if subject.positions and kept and size.n > 1:
        raise _Broken("shuffled words get the same outputs, shuffled, so they have no positions: are these added along the "
                      "batch, x.size(0) in place of x.size(1)?")  # fmt: skip
    if not subject.positions and not kept:
        if read := subject.read(size):
            read.blame("heads", "weighing")
        raise _Broken("shuffled words must get the same outputs, shuffled; yours differ: is something reshaped without a "
                      "transpose, or are there positions (then say positions=True)?", 9)  # fmt: skip


def _texts(subject: _Subject, size: _Size) -> None:
    if size.batch == 1:
        return
    model, x = subject.model(), subject.draw(size)
    if not torch.allclose(model(torch.stack([x[0], 3 * x[1]]))[0], model(x)[0], atol=CLOSE):
        if read := subject.read(size):
            read.blame("weighing", "heads")
        if influence(model, x)[0].equal(torch.eye(size.n, dtype=torch.bool)):
            raise _Broken("a word acts on the other text of the batch, and not on its own: which axis is the batch?", 15)
        raise _Broken("a text's output changes when the other text of the batch does: is a softmax or a reshape taken over "
                      "the batch?")  # fmt: skip
    if not keeps_texts(model, x, tolerance=CLOSE):
        raise _Broken("texts that change places in the batch must take their outputs along; yours do not: are positions "
                      "added along the batch, x.size(0) in place of x.size(1)?")  # fmt: skip


def _hold_to_mask(subject: _Subject, size: _Size, allowed: Tensor | None) -> None:
    """Hold who acts on whom to the mask: what is masked must not, what is allowed must. On itself, a word may."""
    model, x, expected = subject.model(allowed), subject.draw(size), subject.seen(size, allowed)
    counts = ~torch.eye(size.n, dtype=torch.bool).expand(size.batch, -1, -1)
    if allowed is not None and "m" not in subject.mask_axes.split() and isinstance(subject, _Layer):
        counts = counts & allowed.mT  # what such a layer does at padding, nobody reads
    before = model(x)
    if not before[counts.any(dim=-1)].isfinite().all():
        _blame_steps(subject, size, None)
        raise _Broken("the output holds NaN, although each word may see some key: is 0 times infinity taken? Use masked_fill "
                      "before the softmax", 11)  # fmt: skip
    seen = influence(model, x, tolerance=1e-5)
    wrong = (seen != expected) & counts
    if not wrong.any():
        return
    b, i, j = wrong.nonzero()[0].tolist()
    place = f"in text {b + 1}, word {j + 1} must {'not ' if seen[b, i, j] else ''}change the output at word {i + 1}"
    try:
        _blame_mask(subject, size, allowed, seen, counts)
    except _Broken as broken:
        model(x)  # that is the example
        raise _Broken(*broken.args[:2], place) from None


def _blame_steps(subject: _Subject, size: _Size, allowed: Tensor | None) -> None:
    """Raise for a step that is wrong, or for words that are mixed without any mask."""
    for mask in (None, allowed):
        if (read := subject.read(size, mask)) and not read.small:
            read.blame("heads", "roles", "weighing")
    if not subject.causal and not subject.positions:
        _order(subject, size)


def _blame_mask(subject: _Subject, size: _Size, allowed: Tensor | None, seen: Tensor, counts: Tensor) -> None:
    """Raise for what explains that words act on others than they should."""
    x, expected = subject.draw(size), subject.seen(size, allowed)
    causal, ones = expected.equal(causal_mask(size.n).expand_as(expected)), torch.ones_like(seen)
    if ((seen != expected) | ~counts).all():
        raise _Broken(WRONG_WAY, 7)
    _blame_steps(subject, size, allowed)
    if causal and not ((seen != ones.tril(1)) & counts).any():
        raise _Broken("the triangle is one diagonal too wide: each word sees one of the future", 14)
    if not (seen & ~expected & counts).any():
        raise _Broken("the mask hides more than it should")
    if allowed is None:
        raise _Broken("the future is seen: is the triangle missing, or set after the softmax?", 14)
    bare, dark = subject.model()(x), torch.zeros_like(allowed)
    if torch.allclose(subject.model(allowed)(x), bare, atol=CLOSE):
        raise _Broken("the mask has no effect", 14 if causal else None)
    empty = subject.model(dark)(x)
    if empty.isnan().any():
        raise _Broken("masked keys act on others: does the softmax run over the queries?", 5)
    if torch.allclose(empty, bare, atol=CLOSE):
        raise _Broken("masked keys keep some weight: is a boolean mask added to the scores?", 8)
    if (influence(subject.model(dark), x, tolerance=1e-5) & counts).any():
        raise _Broken("masked keys keep some weight: is their score 0, or a number that is not very low?", 13)
    raise _Broken("masked keys keep some weight: are they masked after the softmax, or does it run over the queries?", 6)


def _future(subject: _Subject, size: _Size) -> None:
    allowed = None if subject.causal else causal_mask(size.n).expand(size.batch, -1, -1)
    _hold_to_mask(subject, size, allowed)
    with torch.enable_grad():
        x = subject.draw(size).requires_grad_()
        output = subject.model(allowed)(x)
        for i in range(size.n - 1 if output.requires_grad else 0):
            row = (output[:, i] * random(output.size(-1))).sum()
            if torch.autograd.grad(row, x, retain_graph=True)[0][..., i + 1 :, :].abs().max() > 1e-6:
                raise _Broken(f"a later word must not get a gradient from word {i + 1}; here one does")


def _hidden(subject: _Subject, size: _Size, first: int) -> Tensor:
    """Hide the words of the first text from this one on; of all texts, if there is one mask for all."""
    allowed = torch.ones(size.batch, size.n, size.n, dtype=torch.bool)
    allowed[: 1 if "batch" in subject.mask_axes.split() else None, :, first:] = False
    return allowed


def _padding(subject: _Subject, size: _Size) -> None:
    _hold_to_mask(subject, size, _hidden(subject, size, max(1, size.n - 2)))


def _empty(subject: _Subject, size: _Size) -> Tensor:
    """Hide all from the middle word, or, where a mask is the same for all words, from each word of a text."""
    allowed = _hidden(subject, size, 0)
    if "m" in subject.mask_axes.split():
        allowed[:, torch.arange(size.n) != size.n // 2] = True
    return allowed


def _empty_rows(subject: _Subject, size: _Size) -> None:
    allowed, x = _empty(subject, size), subject.draw(size)
    model, empty = subject.model(allowed), ~allowed.any(dim=-1)
    before = model(x)
    if not before[empty].isfinite().all():
        raise _Broken(NAN_ROWS, 11)
    if (influence(model, x, tolerance=1e-5) & empty[..., None] & ~torch.eye(size.n, dtype=torch.bool)).any():
        try:
            bare, padded = subject.model()(x), subject.model(_hidden(subject, size, max(1, size.n - 2)))(x)
            if torch.allclose(before[empty], bare[empty], atol=CLOSE):
                raise _Broken("the mask has no effect" if torch.allclose(bare, padded, atol=CLOSE) else
                              "a row that may see no key sees all: is a boolean mask added to the scores?", 8)  # fmt: skip
            _blame_steps(subject, size, allowed)
            raise _Broken(EQUAL_ROWS, 13)
        finally:
            model(x)  # that is the example


def _lengths(subject: _Subject, size: _Size) -> None:
    read = subject.read(size)
    for m, n in ((size.n, size.n + 2), (size.n + 2, size.n)):
        q, k, v = (subject.draw(size._replace(n=length), seed) for seed, length in enumerate((m, n, n)))
        got, everyone = subject.run([q, k, v])[0], torch.ones(m, n, dtype=torch.bool)
        expected = Heads(q, k, v, got, size.d).expected(everyone, subject.scale_for(size.d))
        if read and not read.place and not torch.allclose(got, expected, atol=CLOSE):
            raise _Broken("right where queries are as many as keys, but not where they are more or fewer", None,
                          f"m = {m}, n = {n}")  # fmt: skip


def _large_scores(subject: _Subject, size: _Size) -> None:
    x, first = subject.draw(size), max(1, size.n - 2)
    if not subject.model()(500 * x).isfinite().all():
        raise _Broken(OVERFLOW)
    if subject.mask is not None:
        model, loud = subject.model(_hidden(subject, size, first)), x.clone()
        loud[..., first:, :] *= 500
        quiet, got = model(x)[0, :first], model(loud)[0, :first]
        if quiet.isfinite().all() and not torch.allclose(got, quiet, atol=CLOSE):
            raise _Broken(OUTSHONE, 6)


def _half_precision(subject: _Subject, size: _Size) -> None:
    allowed = None if subject.mask is None else _hidden(subject, size, max(1, size.n - 2))
    for dtype in (torch.float16, torch.bfloat16):
        x, name = subject.draw(size).to(dtype).double(), str(dtype).removeprefix("torch.")
        try:
            got = subject.model(allowed, dtype)(x)[:, 0]
        except RuntimeError as error:
            if "not implemented" in str(error):
                continue  # nor is it your fault
            raise (_Broken(HALF_FILL, 13) if "overflow" in str(error) else _Broken(f"in {name}: {error}")) from error
        expected = subject.model(allowed)(x)[:, 0]
        if expected.isfinite().all() and not (got - expected).abs().max() <= 0.1 * expected.abs().max():
            raise _Broken(f"in {name} the output {'holds NaN' if got.isnan().any() else 'is another'}: do numbers go beyond "
                          "65504, or is a fill too large?", 13)  # fmt: skip


def _gradients(subject: _Subject, size: _Size) -> None:
    x, direction, model = subject.draw(size), 1e-3 * subject.draw(size, seed=5), subject.model()
    with torch.enable_grad():
        leaf = x.clone().requires_grad_()
        output = model(leaf)
        if not output.requires_grad:
            raise _Broken(NO_GRADIENT)
        mix = random(*output.shape)
        got = (torch.autograd.grad((output * mix).sum(), leaf)[0] * direction).sum()
        wanted = ((model(x + direction) - model(x - direction)) * mix).sum() / 2
        if not (got - wanted).abs() <= 0.02 * max(wanted.abs(), direction.norm()):
            raise _Broken(f"a small step changes the output by {wanted:.3g}, but by the gradient it should by {got:.3g}: is "
                          "something detached, or a backward pass written by hand?")  # fmt: skip
        if subject.mask is not None and subject.empty_rows:
            output = subject.model(_empty(subject, size))(leaf)
            if not torch.autograd.grad((output * mix).sum(), leaf)[0].isfinite().all():
                raise _Broken(NAN_GRADIENTS, 11)


def _evaluation(subject: _Subject, size: _Size) -> None:
    x, allowed = subject.draw(size), None if subject.mask is None else _hidden(subject, size, max(1, size.n - 2))
    model = subject.model(allowed)
    same = partial(torch.allclose, atol=CLOSE, equal_nan=True)
    first, second = model(x), model(x)
    if not same(first, second):
        raise _Broken("two calls with one input differ: is there dropout in evaluation? Call F.dropout(..., "
                      "training=self.training)")  # fmt: skip
    with torch.enable_grad():
        recorded = model(x.clone().requires_grad_()).detach()
    layer = subject.copy(subject.dtype) if isinstance(subject, _Layer) else None
    trained = first
    if isinstance(layer, nn.Module):
        with torch.random.fork_rng():
            layer.train()
            trained, again = model(x), model(x)
            layer.eval()
        trained = trained if same(trained, again) else first  # with dropout, they cannot be compared
    if not (same(first, recorded) and same(first, trained)):
        raise _Broken("it computes something else in evaluation (eval() and no_grad()) than in training: is the mask left "
                      "out there?", 14)  # fmt: skip


def _laws(subject: _Subject) -> tuple[Law, ...]:
    """Return the laws that can be asked under its conventions."""
    layer = subject if isinstance(subject, _Layer) else None
    heads = not layer or bool(layer.names) and not layer.positions
    laws = (
        ("output", "2.6", _output, True),
        ("rows", "2.4", _rows, heads or subject.returns_weights),
        ("divisor", "3.2", _divisor, heads),
        ("heads", "4.4", _joined, heads and layer),
        ("agreement", "2.6", _agreement, heads),
        ("order", "2.10", _order, not subject.causal or subject.positions),
        ("texts", "5b.3", _texts, "batch" in subject.axes.split()),
        ("future", "5.3", _future, subject.causal or (subject.mask and "m" in subject.mask_axes.split())),
        ("padding", "5.4", _padding, subject.mask),
        ("empty rows", "5.7", _empty_rows, subject.mask and subject.empty_rows),
        ("lengths", "5.6", _lengths, subject.cross and not subject.causal),
        ("large scores", "2a.1", _large_scores, True),
        ("half precision", "5a.8", _half_precision, subject.half),
        ("gradients", "2a.1", _gradients, True),
        ("evaluation", "0.8", _evaluation, True),
    )
    return tuple(Law(name, section, hold, subject) for name, section, hold, asked in laws if asked)


def _check(subject: _Subject, collect: bool) -> tuple[Law, ...]:
    """Ask each law, unless they are only collected; if there is no output, the first alone."""
    laws, findings = _laws(subject), []
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
    causal: bool = False,
    cross: bool = True,
    scale: Scale = None,
    returns_weights: bool = False,
    empty_rows: bool = True,
    half: bool = True,
    dtype: torch.dtype = torch.float64,
    collect: bool = False,
) -> tuple[Law, ...]:
    """Ask a function of query, key, value and mask the laws of attention.

    Args:
        attention: ``attention(query, key, value, mask)``. The mask is sometimes None.
        mask: what True means in a mask, ``"allowed"`` or ``"masked"``; ``"added"`` for numbers, 0 and minus infinity,
            that are added to the scores; None for a function of query, key and value alone.
        axes: of query, key and value, such as ``"batch n heads d"`` or ``"n d"``.
        mask_axes: of masks; "1" is an axis of that size, as in ``"batch 1 m n"``.
        causal: whether it hides the future by itself.
        cross: whether queries may be more or fewer than keys.
        scale: the factor of the scores, or a function of d_k; 1/√d_k if left out.
        returns_weights: whether it returns output and weights.
        empty_rows: whether a query may have no key. Where none ever has, say False: many sound functions then give NaN.
        half: whether it must also compute in float16 and bfloat16.
        dtype: in which it is examined else.
        collect: return the laws without asking them, for ``pytest.mark.parametrize("law", ..., ids=str)``.

    Returns:
        The laws; all hold, unless they are only collected.

    Raises:
        BrokenLaws: if some do not hold.
        TypeError: if an argument is of another type.
        ValueError: if a convention is unknown.

    Example:
        >>> from torch.nn.functional import scaled_dot_product_attention
        >>> len(check_attention(scaled_dot_product_attention))
        14
    """
    return _check(_Subject(code=attention, mask=mask, axes=axes, mask_axes=mask_axes, causal=causal, cross=cross, scale=scale,
                           returns_weights=returns_weights, empty_rows=empty_rows, half=half, dtype=dtype), collect)  # fmt: skip


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
    causal: bool = False,
    scale: Scale = None,
    returns_weights: bool = False,
    empty_rows: bool = True,
    half: bool = True,
    dtype: torch.dtype = torch.float64,
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
        causal: whether it hides the future by itself.
        scale: as in :func:`check_attention`.
        returns_weights: whether it returns output and weights, of all heads or of their mean.
        empty_rows: as in :func:`check_attention`.
        half: whether it must also compute in float16 and bfloat16.
        dtype: in which it is examined else.
        collect: as in :func:`check_attention`.

    Returns:
        The laws; all hold, unless they are only collected.

    Raises:
        BrokenLaws: if some do not hold.
        TypeError: if an argument is of another type.
        ValueError: if a convention or a projection is unknown.

    Example:
        >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> check_layer(layer, 8, mask="masked", mask_axes="m n", empty_rows=False)
        (output, order, texts, future, padding, large scores, half precision, gradients, evaluation)
    """
    return _check(_Layer(code=layer, d_model=d_model, num_heads=num_heads, projections=projections, positions=positions,
                         call_layer=call, mask=mask, axes=axes, mask_axes=mask_axes, causal=causal, scale=scale,
                         returns_weights=returns_weights, empty_rows=empty_rows, half=half, dtype=dtype), collect)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Examine what ``module:object`` names, with conventions as ``name=value``.

    Args:
        arguments: of the command line.

    Returns:
        0 if all laws hold, 1 if some do not.
    """
    sys.path.insert(0, "")
    try:
        name, *conventions = arguments
        module, _, attribute = name.partition(":")
        code = getattr(importlib.import_module(module), attribute)
        named = dict(convention.split("=", 1) for convention in conventions)
    except (ValueError, AttributeError, ImportError) as error:
        raise SystemExit(f"usage: python -m attention_tutorial.testing module:object [name=value ...]\n{error}") from None

    def value(text: str) -> Any:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text

    try:
        laws = (check_layer if "d_model" in named else check_attention)(code, **{k: value(v) for k, v in named.items()})
    except BrokenLaws as broken:
        print(broken)
        return 1
    print(f"{len(laws)} laws hold: {', '.join(map(str, laws))}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
