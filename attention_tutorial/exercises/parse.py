"""What an answer returned: whether it is what is asked for, and whether it is the same as another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .runner import Mistake

Shape = tuple[int, ...]


def random(*shape: int, seed: int = 0) -> Tensor:
    """Draw standard normal numbers, float64, the same at every call."""
    generator = torch.Generator().manual_seed(1000 * seed + sum(shape))
    return torch.randn(*shape, generator=generator, device="cpu", dtype=torch.float64)


# ---- What came back ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Returned:
    """A thing that an answer returns, as plain data.

    Attributes:
        kind: one of "tensor", "tensor, infinite too", "mask", "number", "numbers" and "choice".
        name: how messages call it.
        about: the names of a tensor's axes, why there are so many numbers, or what can be chosen.
    """

    kind: str
    name: str
    about: str | Sequence[str] = ""

    def read(self, got: Any, expected: Any) -> Any:
        """Return what came back as a tensor (a choice as it is), or raise the `Mistake` that says what it is not."""
        if self.kind == "choice":
            return expect_choice(got, self.about)
        if self.kind == "number":
            return torch.tensor(expect_number(got, self.name), dtype=torch.float64)
        if self.kind == "numbers":
            shape = tuple(torch.as_tensor(expected).shape) if self.about else None
            return expect_numbers(got, self.name, shape, str(self.about))
        if self.kind == "mask":
            return expect_mask(got, tuple(expected.shape), str(self.about))
        return expect_tensor(got, tuple(expected.shape), str(self.about), self.name, finite=self.kind == "tensor")


def tensor(axes: str, name: str = "the output", *, finite: bool = True) -> Returned:
    """Ask for a tensor of the right result's shape; `axes` names its axes."""
    return Returned("tensor" if finite else "tensor, infinite too", name, axes)


def mask(axes: str) -> Returned:
    """Ask for a boolean mask of the right result's shape."""
    return Returned("mask", "the mask", axes)


def number(name: str = "the result") -> Returned:
    """Ask for one number."""
    return Returned("number", name)


def numbers(name: str, count: str = "") -> Returned:
    """Ask for a list, tuple, array or tensor of numbers; `count` says why there are as many as in the right result."""
    return Returned("numbers", name, count)


def expect_tensor(result: Any, shape: Shape, axes: str, name: str = "the output", *, finite: bool = True) -> Tensor:
    """Return a tensor, in float64 if it is no mask, or raise the `Mistake` that says what kind of thing came back."""
    if isinstance(result, tuple):
        raise Mistake(f"return {name} alone; got a tuple of {len(result)}")
    if type(result).__name__ == "ndarray" and result.dtype.kind in "fiub":
        result = torch.from_numpy(result.copy())
    if not isinstance(result, Tensor):
        raise Mistake(f"{name} must be a tensor; got {_kind(result)}")
    if tuple(result.shape) != shape:
        raise Mistake(f"{name} must have shape {axes}, here {shape}; got {tuple(result.shape)}")
    result = result.detach().cpu()
    result = result if result.dtype == torch.bool else result.double()
    if finite and result.isnan().any():
        raise Mistake(f"{_holds(name)} NaN")
    if finite and result.isinf().any():
        raise Mistake(f"{_holds(name)} infinity")
    return result


def _holds(name: str) -> str:
    return f"{name} {'hold' if is_plural(name) else 'holds'}"


def is_plural(name: str) -> bool:
    """Whether a name such as "the weights" stands for several things."""
    return name.endswith("s") and not name.endswith(("ss", "as"))


def _kind(result: Any) -> str:
    """Say what came in place of a tensor, and how to make a tensor of it."""
    name = type(result).__name__
    if isinstance(result, list) and result:
        inside = type(result[0]).__name__
        return f"{name} of {inside}; {'torch.stack' if inside == 'Tensor' else 'torch.tensor'} makes a tensor of it"
    return f"{name} of {result.dtype}" if name == "ndarray" else name


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


def expect_numbers(result: Any, name: str = "the result", shape: Shape | None = None, why: str = "") -> Tensor:
    """Return a list, tuple, array or tensor of numbers in float64, or raise the `Mistake` that asks for numbers."""
    try:
        numbers = torch.as_tensor(result, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        kinds = dict.fromkeys(type(x).__name__ for x in result) if isinstance(result, list | tuple) else ()
        inside = f" of {' and '.join(kinds)}" if kinds else ""
        raise Mistake(f"{name} must be numbers; got {type(result).__name__}{inside}") from error
    if numbers.isnan().any():
        raise Mistake(f"{_holds(name)} NaN")
    if shape is not None and tuple(numbers.shape) != shape:
        got = f"shape {tuple(numbers.shape)}" if numbers.dim() else "one number"
        raise Mistake(f"{why}; expected {shape[0]}, got {got}")
    return numbers


def expect_choice(result: Any, choices: Sequence[str]) -> str:
    """Return one of the choices, or raise the `Mistake` that asks for one."""
    if result not in list(choices):
        raise Mistake(f"choose one of {', '.join(map(repr, choices))}; got {result!r}")
    return str(result)


def expect_pair(result: Any, first: str, second: str) -> tuple[Any, Any]:
    """Return the two parts of a result, or raise the `Mistake` that asks for both."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        got = f"{len(result)} things" if isinstance(result, tuple | list) else type(result).__name__
        raise Mistake(f"return two things, {first} and {second}; got {got}")
    return result[0], result[1]


def expect_mask(result: Any, shape: Shape, axes: str) -> Tensor:
    """Return a boolean mask, or raise the `Mistake` that says of which other kind it is."""
    got = expect_tensor(result, shape, axes, "the mask", finite=False)
    if got.dtype == torch.bool:
        return got
    values = set(got.unique().tolist())
    if values <= {0.0, 1.0}:
        raise Mistake("the mask holds the numbers 0 and 1; make it boolean, or it will be added to the scores as it is")
    if values <= {0.0, -math.inf}:
        raise Mistake("that is a float mask of 0 and minus infinity, to be added; the exercise asks for a boolean one")
    raise Mistake(f"the mask must be boolean; got {str(result.dtype).removeprefix('torch.')}")


# ---- Whether two results are the same -------------------------------------------------------------------------------


def same(got: Any, other: Any, tolerance: float = 1e-5) -> bool:
    """Whether two results are the same up to a tolerance: texts, numbers in any container, or several tensors.

    NaN is the same as NaN in the same place, so that a known wrong answer is known by it.
    """
    if isinstance(got, str) or isinstance(other, str):
        return bool(type(got) is type(other) and got == other)
    if _several(got) or _several(other):
        both = _several(got) and _several(other) and len(got) == len(other)
        return both and all(same(a, b, tolerance) for a, b in zip(got, other, strict=True))
    a, b = _as_numbers(got), _as_numbers(other)
    if a is None or b is None or a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(torch.allclose(a.double(), b.double(), rtol=1e-5, atol=tolerance, equal_nan=True))


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
