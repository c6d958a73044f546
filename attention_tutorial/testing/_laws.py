"""The laws, and their subject: a layer or a function with its conventions. A law raises what is broken."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from .._validation import check_flag
from ..analysis.influence import find_influence, follows_order
from ..exercises.chapter05 import HALF_FILL, NAN_GRADIENTS, NAN_ROWS, NO_GRADIENT
from ..exercises.diagnosis import first_wrong_place
from ..exercises.parse import random
from ..exercises.recognise import WRONG_WAY, Heads, Reading, recognise
from ..masks import causal_mask

CLOSE = 1e-4  # sound code may compute in float32 inside
same = partial(torch.allclose, atol=CLOSE)
Scale = float | Callable[[int], float] | None
Causal = bool | Callable[[int, int], Tensor]
CONVERT = {torch.float64: nn.Module.double, torch.float16: nn.Module.half, torch.bfloat16: nn.Module.bfloat16}


UNLESS = {  # what to say where the law is not meant to hold
    "empty rows": "if no query is ever without a key, say empty_rows=False",
    "lengths": "if there are always as many queries as keys, say cross=False",
    "half precision": "if it never computes in 16 bits, say half=False",
}
HIDES = "Does it hide the future by itself? Then say causal=True"


class Broken(Exception):
    """A law does not hold: what is said, the number of the mistake, and where the smallest input shows it."""

    def __init__(self, message: str, mistake: int | None = None, place: str = "") -> None:
        super().__init__(message, mistake, place)


class _Detach(TorchFunctionMode):
    """Lets deepcopy copy tensors that were computed, such as weights that a layer keeps, without their history."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is Tensor.__deepcopy__ and not args[0].is_leaf:
            args = (args[0].detach(), *args[1:])
        return function(*args, **(kwargs or {}))


class Size(NamedTuple):
    batch: int
    heads: int
    n: int
    d: int  # features of a word


def lay_out(x: Tensor, have: str, want: str) -> Tensor:
    """Put axes in another order: one that is not wanted loses all but its first entry, and one more has the size 1."""
    names = have.split()
    for axis in set(names) - set(want.split()):
        x = x.select(names.index(axis), 0)
        names.remove(axis)
    x = x.permute([names.index(name) for name in want.split() if name in names])
    for i, name in enumerate(want.split()):
        x = x if name in names else x.unsqueeze(i)
    return x.contiguous()


@dataclass(kw_only=True, eq=False)
class Subject:
    """What is examined. Copies of it are, one for each type, in evaluation mode."""

    code: Any  # a function or a module
    call: Callable[..., Any]
    sizes: Sequence[Size]
    names: Sequence[str]  # of the projections
    function: bool  # of query, key and value
    mask: str | None
    axes: str
    mask_axes: str
    causal: Causal
    scale: Scale
    returns_weights: bool
    empty_rows: bool
    half: bool
    positions: bool = False
    last: dict[str, Tensor] = field(default_factory=dict)
    copies: dict[torch.dtype, Any] = field(default_factory=dict)
    heard: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    readings: dict[Any, Reading | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mask not in (None, "allowed", "masked", "added"):
            raise ValueError(f"mask must be 'allowed', 'masked', 'added' or None; got {self.mask!r}")
        for name in ("causal", "returns_weights", "empty_rows", "half", "positions"):
            if not (name == "causal" and callable(self.causal)):
                check_flag(name, getattr(self, name))
        own = ("batch heads n d", "n d") if self.function else ("batch n d", "n d")
        for name, known, needed in (("axes", *own), ("mask_axes", "batch heads 1 m n", "n")):
            axes = getattr(self, name)
            if not isinstance(axes, str) or not set(needed.split()) <= set(axes.split()) <= set(known.split()):
                raise ValueError(f"{name} must be some of {known!r}, with {needed!r}; got {axes!r}")
        kept = [axis in self.axes.split() for axis in ("batch", "heads")]
        self.sizes = [
            Size(b if kept[0] else 1, h if kept[1] or not self.function else 1, n, d) for b, h, n, d in self.sizes
        ]

    def copy(self, dtype: torch.dtype) -> Any:
        """Return a copy. A matrix of zeros would show nothing, so it is drawn."""
        if dtype not in self.copies:
            if isinstance(self.code, nn.Module) and any(map(is_lazy, (*self.code.parameters(), *self.code.buffers()))):
                raise RuntimeError("layer has lazy modules, which have no weights yet: call it once, then check it")
            step = "a copy"
            try:
                with _Detach():
                    layer = copy.deepcopy(self.code)
                step = f"that copy to the CPU and to {dtype}"
                if isinstance(layer, nn.Module):
                    CONVERT[dtype](layer.cpu()).eval()
            except Exception as error:
                told = f"{type(error).__name__}: {error}".rstrip(".")
                raise RuntimeError(
                    f"the check tests a copy of your layer, but could not make it: {told}. Remove what cannot be "
                    "copied, such as a lock or an open file, before the check" if step == "a copy" else
                    f"the check could not move {step}: {told}. Hand over a layer that can be moved there"
                ) from error  # fmt: skip
            self.copies[dtype] = layer
            if isinstance(layer, nn.Module):
                for weight in layer.parameters():
                    if weight.dim() > 1 and not weight.any():
                        weight.data = 0.3 * random(*weight.shape).to(dtype)
                for module in layer.modules():
                    if isinstance(module, nn.Dropout):
                        module.p = 0.0  # so that training can be compared
                for name in self.names:
                    layer.get_submodule(name).register_forward_hook(partial(self.hear, name), with_kwargs=True)
        return self.copies[dtype]

    def hear(self, name: str, module: nn.Module, inputs: Any, named: Any, output: Any) -> None:
        self.heard[name] = (*inputs, *named.values())[0], output

    def draw(self, size: Size, seed: int = 0) -> Tensor:
        """Draw words (batch, n, features), with one digit after the point."""
        return random(size.batch, size.n, size.heads * size.d if self.function else size.d, seed=seed).round(decimals=1)

    def model(self, size: Size, allowed: Tensor | None = None, dtype: torch.dtype = torch.float64) -> Any:
        """Return what makes outputs (batch, n, features) of words."""
        return lambda x: self.run(size, (x,), allowed, dtype)[0]

    def run(
        self, size: Size, words: tuple[Tensor, ...], allowed: Tensor | None = None, dtype: torch.dtype = torch.float64
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output (batch, n, features), and the weights as they come, both in float64."""
        ours = "batch heads n d" if self.function else "batch n d"
        if self.function:  # whose query, key and value are the words, with their features turned
            words = words if len(words) == 3 else tuple(words[0].roll(by, -1) for by in range(3))
            words = tuple(x.unflatten(-1, (size.heads, -1)).transpose(1, 2) for x in words)
        given = [lay_out(x, ours, self.axes).to(dtype) for x in words]
        kept = dict(zip(("query", "key", "value") if self.function else ("x",), map(torch.clone, given), strict=True))
        self.last = dict(kept)
        masks: list[Any] = [] if self.mask is None else [None]
        if allowed is not None:
            mask = lay_out(allowed[:, None].expand(-1, size.heads, -1, -1), "batch heads m n", self.mask_axes)
            if self.mask == "added":
                mask = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -torch.inf)
            self.last["mask"] = ~mask if self.mask == "masked" else mask
            masks = [self.last["mask"]]
        code = self.copy(dtype)
        try:
            result = self.call(code, *given, *masks)
        except Exception as error:
            self.tell(error, size, code, given, masks)
        if not all(map(torch.equal, given, kept.values())):
            raise Broken("it changes its arguments; work on new tensors")
        parts = tuple(result) if isinstance(result, tuple | list) else (result,)
        if len(parts) != 1 + self.returns_weights or not all(isinstance(part, Tensor) for part in parts):
            wanted = "output and weights" if self.returns_weights else "a tensor (is it returns_weights=True?)"
            raise Broken(f"it must return {wanted}; got {', '.join(type(part).__name__ for part in parts)}")
        if parts[0].shape[:-1] != given[0].shape[:-1]:
            raise Broken(f"its output must have the shape {tuple(given[0].shape)}; got {tuple(parts[0].shape)}: "
                         f"{self.doubt(size, masks[0] if masks else None)}")  # fmt: skip
        self.last["output"] = parts[0].detach()
        output = lay_out(parts[0], self.axes, ours).double()
        weights = parts[1].double() if parts[1:] else None
        return output.transpose(1, 2).flatten(2) if self.function else output, weights

    def tell(self, error: Exception, size: Size, code: Any, given: list[Tensor], masks: list[Any]) -> NoReturn:
        """Say whose fault an error is: that of the types or the device of the check, of a flag, or of the code."""
        cause, (mask, *_) = f"{type(error).__name__}: {error}".rstrip("."), (*masks, None)
        module = isinstance(self.code, nn.Module)
        if given[0].dtype == torch.float64:
            del self.copies[torch.float64]
            with _Detach():
                fresh, untouched = self.copy(torch.float64), copy.deepcopy(self.code)
            for each in (fresh, untouched) if module else ():
                each.train(code.training)
            if self.runs(fresh, *given, *masks):
                raise Broken(f"your code raised {cause}, but not when it is called for the first time: does it keep "
                             "something from call to call, such as a cache?") from error  # fmt: skip
            parameters = untouched.parameters() if module else ()
            like = next((p for p in parameters if p.is_floating_point()), torch.ones(0, dtype=torch.float32))
            if self.runs(untouched, *(x if x is None or x.dtype == torch.bool else x.to(like) for x in given + masks)):
                raise RuntimeError(
                    f"the check computes in float64 on the CPU, and there your code raised {cause}. As it is, it runs: "
                    + ("make tensors inside it with the dtype and the device of x, and check a layer before it is "
                       "quantized" if module else "hand over the layer itself, not a function of it, with call=...")
                ) from error  # fmt: skip
        if mask is not None and mask.dim() == 3 and self.runs(code, *given, mask[:, None]):
            raise Broken(f"your code raised {cause}; does the mask's first axis meet the heads? Write mask[:, None], "
                         "or is it mask_axes='batch 1 m n'?", 15) from error  # fmt: skip
        shapes = f"{tuple(given[0].shape)}" + ("" if mask is None else f" and a mask {tuple(mask.shape)}")
        raise Broken(f"your code raised {cause}. It was called with {shapes}: {self.doubt(size, mask)}") from error

    def doubt(self, size: Size, mask: Tensor | None) -> str:
        """Ask whether the flags that give the shapes are right."""
        flags: dict[str, Any] = {"axes": self.axes}
        if mask is not None:
            flags["mask_axes"] = self.mask_axes
        elif not self.function:
            flags |= {"d_model": size.d, "num_heads": size.heads}
        return f"is {' or '.join(f'{name}={value!r}' for name, value in flags.items())} wrong?"

    def runs(self, code: Any, *inputs: Any) -> bool:
        try:
            self.call(code, *inputs)
        except Exception:
            return False
        return True

    def own_mask(self, m: int, n: int) -> Tensor:
        """Return what it lets its queries see by itself, (m, n)."""
        if callable(self.causal):
            return self.causal(m, n)
        return causal_mask(m, n) if self.causal else torch.ones(m, n, dtype=torch.bool)

    def seen(self, size: Size, allowed: Tensor | None = None) -> Tensor:
        """Return who must see whom, (batch, n, n)."""
        everyone = torch.ones(size.batch, size.n, size.n, dtype=torch.bool)
        return (everyone if allowed is None else allowed) & self.own_mask(size.n, size.n)

    def hidden(self, size: Size, first: int | None = None) -> Tensor:
        """Hide the last words of the first text, or from ``first`` on; of all texts, if one mask serves all."""
        allowed = self.seen(size) | True
        start = max(1, size.n - 2) if first is None else first
        allowed[: 1 if "batch" in self.mask_axes.split() else None, :, start:] = False
        return allowed

    def padded(self, size: Size) -> Tensor | None:
        """Hide the last words if it takes a mask."""
        return None if self.mask is None else self.hidden(size)

    def heads(self, size: Size, allowed: Tensor | None = None, seed: int = 0) -> Heads | None:
        """Return queries, keys and values of all heads, and what came of them; None where they are not known."""
        if self.positions or not (self.names or self.function):
            return None
        self.heard.clear()
        x = self.draw(size, seed)
        output, _ = self.run(size, (x,), allowed)
        if self.function:
            return Heads(x, x.roll(1, -1), x.roll(2, -1), output, size.d)
        for name in self.names:
            if name not in self.heard:
                raise Broken(f"{name} is never called: is it left out, or is only its weight used?")
            if not all(isinstance(x, Tensor) for x in self.heard[name]):
                raise ValueError(f"projections must name modules from a tensor to a tensor; {name} is another")
        heard = [[self.words(y, size) for y in self.heard[name]] for name in self.names]
        own = 3 if len(heard) > 2 else 1
        q, k, v = [pair[1] for pair in heard[:3]] if own == 3 else heard[0][1].tensor_split(3, dim=-1)
        width, *others = widths = [x.size(-1) for x in (q, k, v)]
        shared = others[0] == others[1] and not width % size.heads and not width % others[0]
        if not shared or others[0] % (width // size.heads):
            raise Broken(f"queries, keys and values of {widths} features do not give num_heads={size.heads} heads: do "
                         "projections name those of queries, keys, values and output, in this order?")  # fmt: skip
        return Heads(q, k, v, heard[-1][0] if len(heard) > own else output, q.size(-1) // size.heads)

    def words(self, x: Tensor, size: Size) -> Tensor:
        """Bring what a projection took or gave into (batch, n, features), also where heads or texts were split."""
        if x.dim() == 4:
            x = (x.transpose(1, 2) if x.size(1) == size.heads else x).flatten(2)
        axes = (size.n, size.batch) if self.axes.split()[0] == "n" else (size.batch, size.n)
        if x.numel() != size.batch * size.n * x.size(-1):
            raise Broken(f"the projections must take and give (batch, n, features); got {tuple(x.shape)}")
        x = x.reshape(*axes, -1) if x.shape[:2] != (size.batch, size.n) else x
        return (x.transpose(0, 1) if x.shape[:2] != (size.batch, size.n) else x).detach().double()

    def scale_for(self, d_head: int) -> float:
        return float(d_head**-0.5 if self.scale is None else self.scale(d_head) if callable(self.scale) else self.scale)

    def reading(self, size: Size, allowed: Tensor | None = None) -> Reading | None:
        """Return how the heads are computed, as far as it is known: on the largest size, which tells faults apart."""
        key, last = None if allowed is None else tuple(allowed.flatten().tolist()), self.last
        if size != self.sizes[-1] or (heads := self.heads(size, allowed)) is None:
            return None
        if key not in self.readings:
            plain = None if allowed is None else self.readings.get(None)
            seen, scale = self.seen(size, allowed)[:, None], self.scale_for(heads.d_head)
            again = self.heads(size, allowed, seed=7)
            self.readings[key] = None if key and not plain else recognise(heads, seen, scale, again=again, like=plain)
        self.last = last
        return self.readings[key]

    def blame(self, size: Size, message: str, mistake: int | None = None, place: str = "", mask: Any = None) -> None:
        """Raise what is known to be wrong, without a mask or with it; if nothing is, what is said here."""
        readings = [self.reading(size, allowed) for allowed in (None, mask)]
        wrong = [step for reading in readings if reading for step in reading.steps if step.words]
        raise Broken(wrong[0].words, wrong[0].mistake, place) if wrong else Broken(message, mistake, place)

    def other_flags(self, size: Size) -> str:
        """Name the flags under which the same code agrees with PyTorch's function, on two inputs; else nothing."""
        drawn = [heads for seed in (0, 7) if (heads := self.heads(size, seed=seed))]
        width = drawn[0].q.size(-1)
        for own, flag in ((self.causal, ""), (True, "causal=True"), (False, "causal=False")):
            seen = replace(self, causal=own).seen(size)[:, None]
            for d_head in range(width, 0, -1):
                if width % d_head or drawn[0].k.size(-1) % d_head:
                    continue
                likes = [heads._replace(d_head=d_head) for heads in drawn]
                if all(same(like.got, like.expected(seen, self.scale_for(d_head))) for like in likes):
                    return " and ".join(filter(None, [flag, f"num_heads={width // d_head}"
                                                      if width // d_head != size.heads else ""]))  # fmt: skip
        return ""


def output(subject: Subject, size: Size) -> None:
    model, x = subject.model(size), subject.draw(size)
    if not model(x).isfinite().all():
        raise Broken("the output holds NaN or infinity, without any mask: is 0 multiplied by infinity, or is all "
                     "masked along the axis of a softmax?")  # fmt: skip
    if not same(model(x), model(x)):
        raise Broken("two calls differ in evaluation: is dropout on (say F.dropout(..., training=self.training)), or "
                     "does it keep something from call to call, such as a cache?")  # fmt: skip


def rows(subject: Subject, size: Size) -> None:
    agreement(subject, size, "weighing", "roles")
    x = subject.draw(size)
    output, weights = subject.run(size, (x, x.roll(1, -1), torch.ones_like(x)) if subject.function else (x,))
    sums = weights.sum(dim=-1) if weights is not None else output  # a mean of ones is one
    if (sums - 1).abs().max() > CLOSE or (weights is not None and weights.min() < -CLOSE):
        sink = " (with a sink they sum to less, and this check does not know sinks)" if sums.max() < 1 + CLOSE else ""
        raise Broken(f"rows of weights must be positive and sum to 1 over the keys; yours do not{sink}", None,
                     f"sums from {sums.min():.3g} to {sums.max():.3g}")  # fmt: skip


def divisor(subject: Subject, size: Size) -> None:
    agreement(subject, size, "factor")


def tell_factor(subject: Subject, size: Size, factor: float, d: int) -> tuple[str, int | None]:
    """Say what the scores are divided by in place of what they should be."""
    right = subject.scale_for(d)
    if factor / right < 1e-3:
        turned = "the sign of the scores is turned: the key that matches least gets the most weight"
        return turned if factor / right < -1e-3 else "all keys get the same weight; weights must come from scores", None
    width = subject.draw(size).size(-1)
    names = (("√d_model", width**0.5, 1), ("they are not scaled", 1.0, 2), ("d_k", d, 3), ("d_model", width, 1),
             ("√d_k", d**0.5, None), ("the number of heads", size.heads, 2), ("the number of keys", size.n, 2),
             ("multiplied by √d_k", d**-0.5, 4), ("multiplied by √d_model", width**-0.5, 4))  # fmt: skip
    found = [(name, mistake) for name, number, mistake in names if abs(number * factor - 1) < 2e-3]
    fewer = size._replace(n=size.n - 1)
    if (heads := subject.heads(fewer)) and (less := recognise(heads, subject.seen(fewer)[:, None], right)):
        found = [each for each in found if ("keys" in each[0]) != (abs(less.factor / factor - 1) < 2e-3)]
    by = f" ({' or '.join(name for name, _ in found[:2])})" if found else ""
    told = f"{right / factor:.3g} times too small" if factor < right else f"{factor / right:.3g} times too large"
    root = " (√d_k)" if subject.scale is None else ""
    message = (f"your scores are {told}: divided by {1 / factor:.3g}{by}, expected {1 / right:.3g}{root}; if that is "
               "meant, say scale=...")  # fmt: skip
    return message, found[0][1] if found else None


def joined(subject: Subject, size: Size) -> None:
    agreement(subject, size, "heads")
    (x, _), (taken, given) = (subject.heard[subject.names[i]] for i in (0, -1))
    if x.dim() == 4 and isinstance(subject.copy(torch.float64).get_submodule(subject.names[0]), nn.Linear):
        raise Broken("all heads share one small projection and see parts of the features: project before you split")
    if len(subject.names) % 2 == 0 and taken.any() and taken.equal(given):
        raise Broken(f"{subject.names[-1]} returns what it takes: the joined heads are not mixed by W^O")


def agreement(subject: Subject, size: Size, *steps: str) -> None:
    """Hold the heads to PyTorch's function; or only these steps of them."""
    if (heads := subject.heads(size)) is None:
        return
    seen, scale = subject.seen(size)[:, None], subject.scale_for(heads.d_head)
    expected = heads.expected(seen, scale)
    if heads.got.shape == expected.shape and same(heads.got, expected):
        return
    place = first_wrong_place(heads.got, expected, "output", CLOSE) or f"expected shape {tuple(expected.shape)}"
    if size != subject.sizes[-1]:
        raise Broken("", None, place)  # too small to tell faults apart
    reading = subject.reading(size)
    for step in steps or ("heads", "roles", "weighing"):
        if reading and step != "factor" and (wrong := getattr(reading, step)).words:
            raise Broken(wrong.words, wrong.mistake, place)
    if reading and steps == ("factor",) and abs(reading.factor / scale - 1) > 1e-3:
        message, mistake = tell_factor(subject, size, reading.factor, heads.d_head)
        raise Broken(message, mistake, place)
    if not steps:
        if reading:
            why = "its divisor is another"
        elif flags := subject.other_flags(size):
            why = f"it gives what yours does with {flags}. Is that meant? Then say so"
        else:
            why = ("none of the mistakes that this check tries explains it. Attention of another kind, as with a sink, "
                   "a cap or normalised queries, does not agree, nor need it")  # fmt: skip
            alone = find_influence(subject.model(size), subject.draw(size), tolerance=1e-5)
            if not subject.function and alone.equal(subject.seen(size)) and knows_order(subject, size):
                why += ". The order of words counts: are there positions? Then say positions=True"
        raise Broken(f"F.scaled_dot_product_attention gives something else; {why}", None, place)


def knows_order(subject: Subject, size: Size) -> bool:
    """Say whether the last output changes when the other words that it sees change places."""
    model, x = subject.model(size), subject.draw(size)
    others = subject.seen(size)[0, -1, :-1].nonzero().flatten()
    shuffled, before = x.clone(), model(x)[:, -1]
    shuffled[:, others] = x[:, others.roll(1)]
    return bool((model(shuffled)[:, -1] - before).abs().max() > 1e-6 * before.abs().max())


def order(subject: Subject, size: Size) -> None:
    if subject.positions:
        if subject.seen(size)[0, -1, :-1].sum() > 1 and not knows_order(subject, size):
            raise Broken("where other words change places, the last output stays: words have no order. Are positions "
                         "added along the batch (x.size(0) for x.size(1)), turned along the axis of heads, or the same "
                         "for all words?")  # fmt: skip
    elif not follows_order(subject.model(size), subject.draw(size), torch.arange(size.n).roll(1), tolerance=CLOSE):
        seen = find_influence(subject.model(size), subject.draw(size), tolerance=1e-5)
        subject.blame(size, "shuffled words must get the same outputs, shuffled: are there positions (then say "
                      "positions=True), or is something reshaped without a transpose?" if seen.triu(1).any() else
                      f"words see nothing of the future. {HIDES}")  # fmt: skip


def texts(subject: Subject, size: Size) -> None:
    if size.batch == 1:
        return
    model, x = subject.model(size), subject.draw(size)
    if not same(model(torch.stack([x[0], 3 * x[1]]))[0], model(x)[0]):
        turned = replace(subject, axes="n batch d", copies=subject.copies).model(size)
        second = not subject.function and same(turned(torch.stack([x[0], 3 * x[1]]))[0], turned(x)[0])
        told = (
            "is batch_first=True missing? (If it is meant, say axes='n batch d'.)"
            if second
            else "does a softmax, a norm or a reshape run over it?"
        )
        subject.blame(size, f"a text changes with the other text of the batch: {told}", 15 if second else None)
    if not same(model(x.flip(0)), model(x).flip(0)):
        raise Broken("texts that change places must take their outputs along: are positions added along the batch, "
                     "x.size(0) in place of x.size(1)?")  # fmt: skip


def _hold_to_mask(subject: Subject, size: Size, allowed: Tensor | None) -> None:
    """Hold who acts on whom to the mask: what is masked must not, what is allowed must."""
    model, x, expected = subject.model(size, allowed), subject.draw(size), subject.seen(size, allowed)
    counts = ~torch.eye(size.n, dtype=torch.bool).expand(size.batch, -1, -1)  # not what a word does to itself
    if allowed is not None and "m" not in subject.mask_axes.split():
        counts = counts & allowed.mT  # what happens at padding, nobody reads
    seen, ones = find_influence(model, x, tolerance=1e-5), torch.ones_like(expected)
    wrong, got = (seen != expected) & counts, model(x)
    if not wrong.any():
        return
    b, i, j = wrong.nonzero()[0].tolist()
    place = f"in text {b + 1}, word {j + 1} must {'not ' if seen[b, i, j] else ''}change the output at word {i + 1}"
    turned = (~expected).any(dim=-1, keepdim=True) & counts  # where the mask, turned round, would leave a key
    if allowed is not None and turned.any() and not ((seen == expected) & turned).any():
        subject.blame(size, WRONG_WAY, 7, place, allowed)
    if not got[counts.any(dim=-1)].isfinite().all():
        subject.blame(size, "the output holds NaN, although each word may see some key: is 0 multiplied by infinity?",
                      None, place)  # fmt: skip
    causal, last = expected.equal(causal_mask(size.n).expand_as(expected)), subject.last
    own, next_one = allowed is None, ones.triu(1).tril(1)
    bare = not own and not subject.causal and same(got, subject.model(size)(x))
    unmasked = subject.positions or follows_order(model, x, torch.arange(size.n).roll(1), tolerance=CLOSE)
    subject.last = last
    told = [
        (causal, ones.triu(), "each word sees the future in place of the past: the triangle is turned round", None),
        (causal or own, seen & expected | next_one,
         "the triangle is one diagonal too wide: each word sees one of the future", 14),
        (not causal, expected.mT, "the mask hides words as queries, not as keys: its last axis is that of keys", 12),
        (own and unmasked, ones, "the future is seen: is the triangle missing, or set after the softmax?", None),
        (own, ones, "the future is seen, though words are not treated alike: is the triangle set after the softmax, or "
         "does another sum, such as a normaliser, run over all keys?", None),
        (bare, ones, "the mask has no effect", 14 if causal else None),
        (own, seen & expected, "words of the past are hidden, too. Is that meant, as in a window? Then say "
         "causal=lambda m, n: sliding_window_mask(m, n, 3), or what it is", None),
        (not subject.causal, expected.tril(), f"besides the mask the future is hidden. {HIDES}", None),
        (True, seen & expected, "the mask hides more than it should", None),
        (True, seen, "masked keys keep some weight: are they masked after the softmax, is their score a number that "
         "is not very low, or does something run over the queries or words that should not?", None),
    ]  # fmt: skip
    message, mistake = next((told, m) for asked, acts, told, m in told if asked and not ((seen != acts) & counts).any())
    if not subject.causal and not subject.positions:
        order(subject, size)  # are words mixed without any mask?
    subject.blame(size, message, mistake, place, allowed)


def future(subject: Subject, size: Size) -> None:
    allowed = None if subject.causal else causal_mask(size.n).expand(size.batch, -1, -1)
    _hold_to_mask(subject, size, allowed)
    with torch.enable_grad():
        x = subject.draw(size).requires_grad_()
        output, hidden = subject.model(size, allowed)(x), ~subject.seen(size, allowed)
        for i in range(size.n if output.requires_grad else 0):
            row = (output[:, i] * random(output.size(-1))).sum()
            if (torch.autograd.grad(row, x, retain_graph=True)[0].abs() * hidden[:, i, :, None]).max() > 1e-6:
                raise Broken("a word gets a gradient from an earlier one's output, which must not depend on it")


def padding(subject: Subject, size: Size) -> None:
    _hold_to_mask(subject, size, subject.hidden(size))


def _empty(subject: Subject, size: Size) -> Tensor:
    """Hide all from the middle word, or, where a mask is the same for all words, from each word of a text."""
    allowed = subject.hidden(size, 0)
    if "m" in subject.mask_axes.split():
        allowed[:, torch.arange(size.n) != size.n // 2] = True
    return allowed


def empty_rows(subject: Subject, size: Size) -> None:
    allowed, x = _empty(subject, size), subject.draw(size)
    model, empty = subject.model(size, allowed), ~allowed.any(dim=-1)
    if not model(x)[empty].isfinite().all():
        raise Broken(NAN_ROWS, 11)
    if (find_influence(model, x, tolerance=1e-5) & empty[..., None] & ~torch.eye(size.n, dtype=torch.bool)).any():
        padding(subject, size)  # does the mask work elsewhere?
        model(x)  # that is the example
        subject.blame(size, "a row that may see no key still changes with masked words, as it does with any finite "
                      "fill; set the weights of such a row to zero", mask=allowed)  # fmt: skip


def _holds(law: Callable[[Subject, Size], None], subject: Subject, size: Size) -> bool:
    try:
        law(subject, size)
    except Broken:
        return False
    return True


def lengths(subject: Subject, size: Size) -> None:
    if not _holds(agreement, subject, size):
        return  # it is wrong anyway
    for m, n in ((size.n, size.n + 2), (size.n + 2, size.n))[: 1 if subject.causal else 2]:
        q, k, v = (random(size.batch, x, size.heads * size.d, seed=i) for i, x in enumerate((m, n, n)))
        got, place = subject.run(size, (q, k, v))[0], f"m = {m}, n = {n}"
        heads, upper = Heads(q, k, v, got, size.d), torch.ones(m, n, dtype=torch.bool).tril()
        right, upper_left = (
            same(got, heads.expected(seen, subject.scale_for(size.d))) for seen in (subject.own_mask(m, n), upper)
        )
        if not right:
            raise Broken("the triangle is aligned upper left: query i stands at position i + (n - m), as with a cache, "
                         "not at i" if subject.causal and upper_left else
                         "wrong where there are more queries than keys, or fewer", None, place)  # fmt: skip


def large_scores(subject: Subject, size: Size) -> None:
    x, allowed = subject.draw(size), subject.padded(size)
    if not subject.model(size)(2000 * x).isfinite().all():
        raise Broken("with scores in the thousands the output holds NaN or infinity: does exp overflow (torch.softmax "
                     "avoids it), or is 0 divided by 0?")  # fmt: skip
    if allowed is not None or subject.causal:
        kept = subject.hidden(size)[:, 0]
        loud = torch.where(kept[..., None], x, 2000 * x)
        quiet, got = (subject.model(size, allowed)(words)[kept] for words in (x, loud))
        changed, law = quiet.isfinite().all() and not same(got, quiet), padding if subject.mask else future
        if changed and _holds(law, subject, size):
            raise Broken("where the score of a masked key is 2000 above the allowed ones, the output changes: is a low "
                         "number put there in place of minus infinity, or is it masked after the softmax?")  # fmt: skip


def half_precision(subject: Subject, size: Size) -> None:
    allowed = subject.padded(size)
    for dtype in (torch.float16, torch.bfloat16):
        x = subject.draw(size).to(dtype).double()
        try:
            got = subject.model(size, allowed, dtype)(x)[:, 0]
        except Broken as broken:
            if "not implemented" in str(broken):
                continue  # nor is that your fault
            raise Broken(HALF_FILL, 13) if "overflow" in str(broken) else broken from None
        expected = subject.model(size, allowed)(x)[:, 0]
        if expected.isfinite().all() and not (got - expected).abs().max() <= 0.1 * expected.abs().max():
            raise Broken(f"in {dtype} the output is another: do numbers go beyond 65504, or is a fill too large?")


def gradients(subject: Subject, size: Size) -> None:
    x, step, model = subject.draw(size), 1e-4 * subject.draw(size, seed=5), subject.model(size)
    with torch.enable_grad():
        leaf = x.clone().requires_grad_()
        output = model(leaf)
        if not output.requires_grad:
            raise Broken(NO_GRADIENT)
        mix = random(*output.shape)
        got = (torch.autograd.grad((output * mix).sum(), leaf)[0] * step).sum()
        wanted = ((model(x + step) - model(x - step)) * mix).sum() / 2
        if not (got - wanted).abs() <= 0.003 * max(wanted.abs(), step.norm()):
            raise Broken("the gradient does not say how a small step changes the output: is something detached?", None,
                         f"the output changes by {wanted:.3g}, by the gradient {got:.3g}")  # fmt: skip
        if subject.mask is not None and subject.empty_rows:
            output = subject.model(size, _empty(subject, size))(leaf)
            if not torch.autograd.grad((output * mix).sum(), leaf)[0].isfinite().all():
                raise Broken(NAN_GRADIENTS, 11)


def evaluation(subject: Subject, size: Size) -> None:
    x, model, layer = subject.draw(size), subject.model(size, subject.padded(size)), subject.copy(torch.float64)
    first = model(x)
    with torch.enable_grad():
        others = [model(x.clone().requires_grad_()).detach()]
    if isinstance(layer, nn.Module):
        with torch.random.fork_rng():
            before = torch.get_rng_state()
            layer.train()
            trained, again = model(x), model(x)
            layer.eval()
            drawn = not torch.equal(before, torch.get_rng_state())  # as dropout does
        others += [] if drawn or not same(trained, again, equal_nan=True) else [trained]
    padding = subject.mask is not None and "m" not in subject.mask_axes.split()
    read = subject.hidden(size)[:, 0] if padding else slice(None)  # nobody reads what comes out at padding
    if not all(same(first[read], other[read], equal_nan=True) for other in others):
        bare = subject.model(size)(x)
        if subject.mask is not None and any(same(output[read], bare[read]) for output in (first, *others)):
            raise Broken("the mask is left out in evaluation, eval() and no_grad(), or in training", 14)
        raise Broken("it computes something else in evaluation, eval() and no_grad(): is the mask left out there, or "
                     "is something counted over the batch, as in BatchNorm?")  # fmt: skip


def askable(subject: Subject, cross: bool) -> list[tuple[str, str, Callable[[Subject, Size], None]]]:
    """Return the laws that can be tested under its conventions: their names, sections and functions."""
    heads, mask = (subject.function or bool(subject.names)) and not subject.positions, subject.mask is not None
    possible = (
        ("output", "2.6", output, True),
        ("rows", "2.4", rows, subject.function or subject.returns_weights),
        ("divisor", "3.2", divisor, heads),
        ("heads", "4.4", joined, heads and not subject.function),
        ("agreement", "2.6", agreement, heads),
        ("order", "2.10", order, not subject.causal or subject.positions),
        ("texts", "6.4", texts, subject.sizes[-1].batch > 1),
        ("future", "5.3", future, subject.causal or (mask and "m" in subject.mask_axes.split())),
        ("padding", "5.4", padding, mask),
        ("empty rows", "5.7", empty_rows, mask and subject.empty_rows),
        ("lengths", "5.6", lengths, subject.function and cross),
        ("large scores", "2a.1", large_scores, True),
        ("half precision", "5a.8", half_precision, subject.half),
        ("gradients", "2a.1", gradients, True),
        ("evaluation", "0.8", evaluation, True),
    )
    return [(name, section, law) for name, section, law, asked in possible if asked]
