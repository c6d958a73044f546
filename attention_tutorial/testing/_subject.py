"""What is examined: a layer, or a function with a layer around it, and its conventions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._validation import check_flag
from ..exercises.diagnosis import first_wrong_place
from ..exercises.parse import random
from ..exercises.recognise import Heads, Reading, recognise
from ..masks import causal_mask

CLOSE = 1e-4  # sound code may compute in float32 inside
same = partial(torch.allclose, atol=CLOSE)
WRONG_WAY = "the mask is read the wrong way round: what should be hidden is seen, and nothing else"
Scale = float | Callable[[int], float] | None


class Broken(Exception):
    """A law does not hold: what is said, the number of the mistake, and where the smallest input shows it."""

    def __init__(self, message: str, mistake: int | None = None, place: str = "") -> None:
        super().__init__(message, mistake, place)


class Size(NamedTuple):
    batch: int
    heads: int
    n: int
    d: int  # of a head, if a function is examined; else of the model


def lay_out(x: Tensor, have: str, want: str) -> Tensor:
    """Put axes in another order: one that is not wanted loses all but its first entry, and one more has the size 1."""
    names = have.split()
    for axis in [name for name in names if name not in want.split()]:
        x = x.select(names.index(axis), 0)
        names.remove(axis)
    x = x.permute([names.index(name) for name in want.split() if name in names])
    for i, name in enumerate(want.split()):
        x = x if name in names else x.unsqueeze(i)
    return x.contiguous()


class Turn(nn.Module):
    """A projection that only turns the features."""

    def __init__(self, by: int) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        return x.roll(self.by, -1)


class AroundFunction(nn.Module):
    """A layer around a function of query, key, value and mask, without an output projection."""

    def __init__(self, attention: Callable[..., Any], axes: str, heads: int) -> None:
        super().__init__()
        self.attention, self.axes, self.num_heads = attention, axes, heads
        self.q, self.k, self.v = (Turn(by) for by in range(3))
        self.last: dict[str, Tensor] = {}

    def forward(self, x: Tensor, *mask: Tensor) -> Any:
        parts = [turn(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for turn in (self.q, self.k, self.v)]
        given = [lay_out(part, "batch heads n d", self.axes) for part in parts]
        self.last = dict(zip(("query", "key", "value"), given, strict=True))
        kept = [part.clone() for part in given]
        result = self.attention(*given, *mask)
        if not all(map(torch.equal, given, kept)):
            raise Broken("it changes its arguments; work on new tensors")
        output, *others = result if isinstance(result, tuple | list) else (result,)
        if not isinstance(output, Tensor) or output.shape != given[0].shape:
            return result
        self.last["output"] = output.detach()
        output = lay_out(output, self.axes, "batch heads n d").transpose(1, 2).flatten(2)
        return (output, *others) if others else output


@dataclass(frozen=True)
class Read:
    """What is known of the heads: how they are computed, and where they do not give what PyTorch's function gives."""

    heads: Heads
    scale: float
    reading: Reading | None
    place: str
    small: bool

    def blame(self, *steps: str) -> None:
        """Raise for the first step that is wrong; on a small input, which tells no faults apart, if the numbers are."""
        if self.small and self.place:
            raise Broken("", None, self.place)
        for told in (getattr(self.reading, step) for step in steps if self.reading):
            if told.words:
                raise Broken(WRONG_WAY if told.mistake == 7 else told.words, told.mistake, self.place)

    @property
    def factor(self) -> float:
        """That of the scores, over the right one."""
        return self.reading.factor / self.scale if self.reading else 1.0


@dataclass(kw_only=True, eq=False)
class Subject:
    """A layer and its conventions. Copies of it are examined, one for each type, in evaluation mode."""

    make: Callable[["Size"], Any]
    sizes: Sequence[Size]
    call: Callable[..., Any]
    names: Sequence[str]
    mask: str | None
    axes: str
    mask_axes: str
    causal: bool
    scale: Scale
    returns_weights: bool
    empty_rows: bool
    half: bool
    dtype: torch.dtype
    positions: bool = False
    function: Callable[..., Any] | None = None
    last: dict[str, Tensor] = field(default_factory=dict)
    layers: dict[Any, Any] = field(default_factory=dict)
    heard: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    readings: dict[Any, Reading | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mask not in (None, "allowed", "masked", "added"):
            raise ValueError(f"mask must be 'allowed', 'masked', 'added' or None; got {self.mask!r}")
        if self.dtype not in (torch.float64, torch.float32):
            raise ValueError(f"dtype must be torch.float64 or torch.float32; got {self.dtype}")
        for name in ("causal", "returns_weights", "empty_rows", "half", "positions"):
            check_flag(name, getattr(self, name))
        for name, known, needed in (("axes", "batch n d", "n d"), ("mask_axes", "batch heads 1 m n", "n")):
            check_axes(name, getattr(self, name), known, needed)

    def layer(self, size: Size, dtype: torch.dtype) -> Any:
        """Return a copy of the layer. A matrix of zeros would show nothing, so it is drawn."""
        key = dtype, size if self.function else None
        if key not in self.layers:
            self.layers[key] = layer = self.make(size)
            if isinstance(layer, nn.Module):
                layer.to(dtype).eval()
                for weight in layer.parameters():
                    if weight.dim() > 1 and not weight.any():
                        weight.data = 0.3 * random(*weight.shape).to(dtype)
                for module in layer.modules():
                    if isinstance(module, nn.Dropout):
                        module.p = 0.0  # so that training can be compared
                for name in self.names:
                    layer.get_submodule(name).register_forward_hook(partial(self.hear, name))
        return self.layers[key]

    def hear(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        self.heard[name] = inputs[0].detach(), output.detach()

    def draw(self, size: Size, seed: int = 0) -> Tensor:
        """Draw words (batch, n, features), with one digit after the point."""
        width = size.d * size.heads if self.function else size.d
        return random(size.batch, size.n, width, seed=seed).round(decimals=1)

    def model(self, size: Size, allowed: Tensor | None = None, dtype: torch.dtype | None = None) -> Any:
        """Return what makes outputs (batch, n, features) of words."""
        return lambda x: self.run(size, x, allowed, dtype)[0]

    def run(
        self, size: Size, x: Tensor, allowed: Tensor | None = None, dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output in our axes, and the weights as they come, both in float64."""
        layer, given = self.layer(size, dtype or self.dtype), lay_out(x, "batch n d", self.axes).to(dtype or self.dtype)
        mask = None
        if allowed is not None:
            mask = lay_out(allowed[:, None].expand(-1, size.heads, -1, -1), "batch heads m n", self.mask_axes)
            if self.mask == "added":
                mask = torch.zeros(mask.shape, dtype=given.dtype).masked_fill(~mask, -torch.inf)
            mask = ~mask if self.mask == "masked" else mask
        kept = given.clone()
        try:
            result = self.call(layer, given, *([] if self.mask is None else [mask]))
        except Broken:
            raise
        except Exception as error:
            cause = f"your code raised {type(error).__name__}: {error}"
            if mask is not None and mask.dim() == 3 and "must match" in cause:
                raise Broken(f"{cause}; does the mask's first axis meet the heads? Write mask[:, None]", 15) from error
            raise Broken(cause) from error
        finally:
            self.last = (layer.last if self.function else {"x": kept}) | ({} if mask is None else {"mask": mask})
        if not torch.equal(given, kept):
            raise Broken("it changes its arguments; work on new tensors")
        parts = tuple(result) if isinstance(result, tuple | list) else (result,)
        if len(parts) != 1 + self.returns_weights or not all(isinstance(part, Tensor) for part in parts):
            kinds = ", ".join(type(part).__name__ for part in parts)
            wanted = "output and weights" if self.returns_weights else "a tensor (is it returns_weights=True?)"
            raise Broken(f"it must return {wanted}; got {kinds}")
        if parts[0].shape[:-1] != given.shape[:-1]:
            raise Broken(f"its output must have the shape {tuple(given.shape)}; got {tuple(parts[0].shape)}")
        self.last.setdefault("output", parts[0].detach())
        return lay_out(parts[0], self.axes, "batch n d").double(), parts[1].double() if parts[1:] else None

    def seen(self, size: Size, allowed: Tensor | None = None) -> Tensor:
        """Return who must see whom, (batch, n, n)."""
        everyone = torch.ones(size.batch, size.n, size.n, dtype=torch.bool)
        return (everyone if allowed is None else allowed) & (causal_mask(size.n) if self.causal else everyone)

    def hidden(self, size: Size, first: int) -> Tensor:
        """Hide the words of the first text from this one on; of all texts, if one mask serves all."""
        allowed = self.seen(size) | True
        allowed[: 1 if "batch" in self.mask_axes.split() else None, :, first:] = False
        return allowed

    def heads(self, size: Size, allowed: Tensor | None = None) -> Heads | None:
        """Return queries, keys and values of all heads, and what came of them; None where they are not known."""
        if not self.names or self.positions:
            return None
        self.heard.clear()
        output, _ = self.run(size, self.draw(size), allowed)
        for name in self.names:
            if name not in self.heard:
                raise Broken(f"{name} is never called: is it left out, or is only its weight used?")
        heard = [[self.words(x, size) for x in self.heard[name]] for name in self.names]
        own, width = 3 if len(heard) > 2 else 1, heard[0][1].size(-1)
        if width % (size.heads if own == 3 else 3 * size.heads):
            raise Broken(f"{self.names[0]} gives {width} features, which num_heads={size.heads} cannot share")
        q, k, v = [pair[1] for pair in heard[:3]] if own == 3 else heard[0][1].chunk(3, dim=-1)
        return Heads(q, k, v, heard[-1][0] if len(heard) > own else output, q.size(-1) // size.heads)

    def words(self, x: Tensor, size: Size) -> Tensor:
        """Bring what a projection took or gave into (batch, n, features), also where heads or texts were split."""
        if x.dim() == 4:
            x = (x.transpose(1, 2) if x.size(1) == size.heads else x).flatten(2)
        if x.dim() == 2 and self.axes.split()[0] == "n":
            x = x.view(-1, size.batch, x.size(-1)) if x.size(0) == size.n * size.batch else x
        if x.dim() == 3 and x.shape[:2] == (size.n, size.batch):
            x = x.transpose(0, 1)
        if x.numel() != size.batch * size.n * x.size(-1):
            raise Broken(f"the projections must take and give (batch, n, features); got {tuple(x.shape)}")
        return x.reshape(size.batch, size.n, -1).double()

    def scale_for(self, d_head: int) -> float:
        return float(d_head**-0.5 if self.scale is None else self.scale(d_head) if callable(self.scale) else self.scale)

    def read(self, size: Size, allowed: Tensor | None = None) -> Read | None:
        """Return what is known of the heads; which faults they have, only on the largest size."""
        if (heads := self.heads(size, allowed)) is None:
            return None
        seen, scale, largest = self.seen(size, allowed)[:, None], self.scale_for(heads.d_head), size == self.sizes[-1]
        key = size, None if allowed is None else tuple(allowed.flatten().tolist())
        if key not in self.readings:
            like = None if allowed is None else self.readings.get((size, None))
            known = largest and (allowed is None or like)
            self.readings[key] = recognise(heads, seen, scale, like=like, tolerance=CLOSE) if known else None
        expected, place = heads.expected(seen, scale), ""
        if expected.shape != heads.got.shape or not same(heads.got, expected):
            place = first_wrong_place(heads.got, expected, "output", CLOSE) or f"expected shape {tuple(expected.shape)}"
        return Read(heads, scale, self.readings[key], place, not largest)


def check_axes(name: str, axes: str, known: str, needed: str) -> None:
    if not isinstance(axes, str) or not set(needed.split()) <= set(axes.split()) <= set(known.split()):
        raise ValueError(f"{name} must be some of {known!r}, with {needed!r}; got {axes!r}")
