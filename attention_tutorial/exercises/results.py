"""Reading what an answer returned: what kind of thing it is, whether it is the same as another, and how far off."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .running import Mistake

Shape = tuple[int, ...]


def random(*shape: int, seed: int = 0) -> Tensor:
    """Draw standard normal numbers, float64, the same at every call."""
    generator = torch.Generator().manual_seed(1000 * seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


# ---- What came back ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Returned:
    """A thing that an answer returns: its name, and how it is read."""

    name: str
    read: Callable[[Any, Any], Tensor]  # read(got, right) returns a tensor, or raises a `Mistake`


def tensor(axes: str, name: str = "the output", *, finite: bool = True) -> Returned:
    """Ask for a tensor of the right result's shape; `axes` names its axes."""
    return Returned(name, lambda got, right: expect_tensor(got, tuple(right.shape), axes, name, finite=finite))


def mask(axes: str) -> Returned:
    """Ask for a boolean mask of the right result's shape."""
    return Returned("the mask", lambda got, right: expect_mask(got, tuple(right.shape), axes))


def number(name: str = "the result") -> Returned:
    """Ask for one number."""
    return Returned(name, lambda got, right: torch.tensor(expect_number(got, name), dtype=torch.float64))


def numbers(name: str, count: str) -> Returned:
    """Ask for a list, tuple, array or tensor of as many numbers as the right result has; `count` says why so many."""

    def read(got: Any, right: Any) -> Tensor:
        result, shape = expect_numbers(got, name), torch.as_tensor(right).shape
        if result.shape != shape:
            got = f"shape {tuple(result.shape)}" if result.dim() else "one number"
            raise Mistake(f"{count}; expected {len(right)}, got {got}")
        return result

    return Returned(name, read)


def expect_tensor(
    result: Any, shape: Shape, axes: str, name: str = "the output", *, finite: bool = True, boolean: bool = False
) -> Tensor:
    """Return a tensor result in float64 (or bool), or raise the `Mistake` that says what kind of thing came back."""
    if isinstance(result, tuple):
        raise Mistake(f"return {name} alone; got a tuple of {len(result)}")
    if not isinstance(result, Tensor):
        raise Mistake(f"{name} must be a tensor; got {_kind(result)}")
    if tuple(result.shape) != shape:
        raise Mistake(f"{name} must have shape {axes}, here {shape}; got {tuple(result.shape)}")
    if boolean:
        if result.dtype != torch.bool:
            raise Mistake(f"{name} must be boolean; got {str(result.dtype).removeprefix('torch.')}")
        return result.detach().cpu()
    result = result.detach().cpu().double()
    if finite and result.isnan().any():
        raise Mistake(f"{_holds(name)} NaN")
    if finite and result.isinf().any():
        raise Mistake(f"{_holds(name)} infinity")
    return result


def _holds(name: str) -> str:
    return f"{name} {'hold' if name.endswith('s') and not name.endswith('ss') else 'holds'}"


def _kind(result: Any) -> str:
    """Say what came in place of a tensor, and how to make a tensor of it."""
    name = type(result).__name__
    if isinstance(result, list) and result:
        inside = type(result[0]).__name__
        return f"{name} of {inside}; {'torch.stack' if inside == 'Tensor' else 'torch.tensor'} makes a tensor of it"
    return f"{name}; torch.from_numpy makes a tensor of it" if name == "ndarray" else name


def expect_number(result: Any, name: str = "the result") -> float:
    """Return a result as a number, or raise the `Mistake` that asks for one."""
    if isinstance(result, str):
        raise Mistake(f"{name} must be one number; got str, a text")
    try:
        number = float(result.detach() if isinstance(result, Tensor) else result)
    except OverflowError as error:
        raise Mistake(f"{name} is too large a number to be right") from error
    except (TypeError, ValueError, RuntimeError) as error:
        shape = f" of shape {tuple(result.shape)}" if isinstance(result, Tensor) else ""
        raise Mistake(f"{name} must be one number; got {type(result).__name__}{shape}") from error
    if math.isnan(number):
        raise Mistake(f"{name} is NaN")
    return number


def expect_numbers(result: Any, name: str = "the result") -> Tensor:
    """Return a list, tuple, array or tensor of numbers in float64, or raise the `Mistake` that asks for numbers."""
    try:
        numbers = torch.as_tensor(result, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        kinds = dict.fromkeys(type(x).__name__ for x in result) if isinstance(result, list | tuple) else ()
        inside = f" of {' and '.join(kinds)}" if kinds else ""
        raise Mistake(f"{name} must be numbers; got {type(result).__name__}{inside}") from error
    if numbers.isnan().any():
        raise Mistake(f"{_holds(name)} NaN")
    return numbers


def expect_pair(result: Any, first: str, second: str) -> tuple[Any, Any]:
    """Return the two parts of a result, or raise the `Mistake` that asks for both."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        got = f"{len(result)} things" if isinstance(result, tuple | list) else type(result).__name__
        raise Mistake(f"return two things, {first} and {second}; got {got}")
    return result[0], result[1]


def expect_mask(result: Any, shape: Shape, axes: str) -> Tensor:
    """Return a boolean mask, or raise the `Mistake` that says of which other kind it is."""
    boolean = getattr(result, "dtype", None) == torch.bool
    got = expect_tensor(result, shape, axes, "the mask", finite=False, boolean=boolean)
    if boolean:
        return got
    values = set(got.unique().tolist())
    if values <= {0.0, 1.0}:
        raise Mistake("the mask holds the numbers 0 and 1; make it boolean, or it will be added to the scores as it is")
    if values <= {0.0, -math.inf}:
        raise Mistake("that is a float mask of 0 and minus infinity, to be added; the exercise asks for a boolean one")
    raise Mistake(f"the mask must be boolean; got {str(result.dtype).removeprefix('torch.')}")


# ---- Whether two results are the same -------------------------------------------------------------------------------


def within(tolerance: float) -> Callable[..., bool]:
    """Return a comparison of results: numbers in any container, or several tensors, that differ by no more."""

    def like(got: Any, other: Any, *inputs: Any) -> bool:
        if _several(got) or _several(other):
            both = _several(got) and _several(other) and len(got) == len(other)
            return both and all(map(like, got, other))
        a, b = _as_numbers(got), _as_numbers(other)
        return a is not None and b is not None and (a.dtype == b.dtype) and close(a, b, tolerance)

    return like


alike = within(1e-5)  # the same up to rounding in float32


def same_shape(got: Any, other: Any, *inputs: Any) -> bool:
    """Whether two results are tensors of the same shape, or the same number of such tensors."""
    if _several(got) and _several(other) and len(got) == len(other):
        return all(map(same_shape, got, other))
    return isinstance(got, Tensor) and isinstance(other, Tensor) and got.shape == other.shape


def _several(result: Any) -> bool:
    return isinstance(result, tuple | list) and any(isinstance(x, Tensor) and x.dim() > 0 for x in result)


def _as_numbers(result: Any) -> Tensor | None:
    """Return numbers as float64, a boolean mask as it is, and None for what is neither."""
    if isinstance(result, Tensor) and result.dtype == torch.bool:
        return result.detach().cpu()
    try:
        return torch.as_tensor(result, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def close(a: Any, b: Any, tolerance: float = 1e-5) -> bool:
    """Whether two tensors or numbers have one shape and the same values, up to rounding in float32."""
    a, b = (torch.as_tensor(x, dtype=torch.float64) for x in (a, b))
    return bool(a.shape == b.shape and torch.allclose(a, b, rtol=tolerance, atol=tolerance))


def explain_rounding(got: Tensor, right: Tensor) -> str | None:
    """Say that the numbers given are the right ones, but rounded or otherwise inexact; None if they are not."""
    got, right = got.detach().double(), right.detach().double()
    if got.shape != right.shape or close(got, right) or got.numel() == 0:
        return None
    off, largest = (got - right).abs().max(), right.abs().max()
    for decimals in range(5):
        half = 0.51 * 10**-decimals  # the most that rounding changes; less than the numbers themselves
        if off < half < 0.5 * largest and (got - got.round(decimals=decimals)).abs().max() < 1e-6:
            places = f"{decimals} decimal{'' if decimals == 1 else 's'}" if decimals else "a whole number"
            return f"right, but rounded to {places}; compute with all digits and round only what is shown"
    if off < 5e-3 * largest:
        return f"nearly right, but off by up to {off:.1g}, more than rounding in float32 explains; keep full precision"
    return None


def times(got: Tensor, right: Tensor, sizes: Mapping[str, int]) -> str | None:
    """Say by which factor, such as "0.2 = 1/n times", numbers differ from the right ones; None if by no single one."""
    factor = multiple(got, right)
    return None if factor is None else f"{name_factor(factor, sizes)} times"


def multiple(got: Tensor, other: Tensor) -> float | None:
    """Find c such that got = c * other; None if no c does it."""
    c = (got * other).sum() / other.square().sum()
    return c.item() if c != 0 and close(got, c * other) else None


def name_factor(factor: float, sizes: Mapping[str, int]) -> str:
    """Write a factor with the size that it is a power of, such as "0.2 = 1/n"."""
    powers = {-0.5: "1/sqrt({})", -1.0: "1/{}", 0.5: "sqrt({})", 1.0: "{}"}
    names = (words.format(x) for x, n in sizes.items() for k, words in powers.items() if near(factor, n**k))
    name = next(names, None)
    return f"{factor:.3g} = {name}" if name else f"{factor:.3g}"


def near(a: float, b: float) -> bool:
    """Whether two numbers are the same, up to what an answer in float32 leaves of a factor."""
    return math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-9)
