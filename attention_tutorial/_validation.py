"""Checks of arguments. Every message names the argument, the rule, what was expected and what came."""

import math
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, cast

import torch
from torch import Tensor

HALF_PRECISION = (torch.float16, torch.bfloat16)
FLOATS = (torch.float64, torch.float32, *HALF_PRECISION)


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape as a plain tuple, which prints as ``(2, 3)``."""
    return tuple(tensor.shape)


def check_size(name: str, value: Any, minimum: int = 0) -> None:
    """Require an integer of at least ``minimum``."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, (Integral, torch.SymInt))):
        if isinstance(value, Tensor) and torch.jit.is_tracing():  # type: ignore[attr-defined]  # there, sizes are tensors
            return
        raise TypeError(f"{name} must be an int; got {type(value).__name__}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}; got {value}")


def check_flag(name: str, value: Any) -> None:
    """Require a plain ``bool``."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False; got {type(value).__name__}")


def check_tensor(name: str, tensor: Any) -> None:
    """Require a tensor."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor; got {type(tensor).__name__}")
    check_not_nested(name, tensor)


def check_not_nested(name: str, tensor: Tensor) -> None:
    """Require a tensor whose rows have one length."""
    if tensor.is_nested:
        raise TypeError(f"{name} must not be nested; pad it by torch.nested.to_padded_tensor, and hide the padding "
                        "by a mask, padding_mask(lengths)")  # fmt: skip


def check_float_tensor(name: str, tensor: Any) -> None:
    """Require a tensor of real floating-point numbers."""
    check_tensor(name, tensor)
    if tensor.dtype not in FLOATS:
        raise TypeError(f"{name} must hold real floating-point numbers (float64, float32, bfloat16 or float16); "
                        f"got {tensor.dtype}")  # fmt: skip


def check_same_kind(name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
    """Require one device, and one dtype unless autocast is choosing the dtype."""
    if tensor.device != other.device:
        raise ValueError(f"{name} and {other_name} must be on the same device; "
                         f"got {name} on {tensor.device}, {other_name} on {other.device}")  # fmt: skip
    if tensor.dtype != other.dtype and not autocast_casts(tensor, other):
        raise TypeError(f"{name} and {other_name} must have the same dtype; "
                        f"got {name} {tensor.dtype}, {other_name} {other.dtype}")  # fmt: skip


def autocast_casts(*tensors: Tensor) -> bool:
    """Say whether autocast is on and brings these tensors to one dtype; float64 it leaves alone."""
    kind = tensors[0].device.type
    known = torch.compiler.is_compiling() or torch.amp.is_autocast_available(kind)  # (torch 2.6 cannot compile that)
    return known and torch.is_autocast_enabled(kind) and all(tensor.dtype != torch.float64 for tensor in tensors)


def broadcasts(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Say whether two shapes broadcast with each other."""
    return all(a == b or a == 1 or b == 1 for a, b in _from_the_right(shape, other))


def broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Say whether ``shape`` can be stretched to exactly ``target``."""
    if len(shape) > len(target):
        return False
    for a, b in _from_the_right(shape, target):  # noqa: SIM110  (half the time of `all` over a generator)
        if a != b and a != 1:
            return False
    return True


def _from_the_right(shape: tuple[int, ...], other: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    return zip(reversed(shape), reversed(other))  # noqa: B905  (torch 2.6 to 2.8 cannot compile zip's `strict`)


def check_attention_inputs(query: Any, key: Any, value: Any, mask: Any = None, *, same_features: bool = True) -> None:
    """Require query (..., m, d_k), key (..., n, d_k), value (..., n, d_v) and a mask (or None) that fit together."""
    for name, tensor, axes in (
        ("query", query, "(..., m, d_k)"),
        ("key", key, "(..., n, d_k)"),
        ("value", value, "(..., n, d_v)"),
    ):
        check_axes(name, tensor, axes)
    check_same_kind("query", query, "key", key)
    check_same_kind("query", query, "value", value)
    check_features(query, key, same_features=same_features)
    if key.size(-2) != value.size(-2):
        raise ValueError("key and value need the same number of positions n (axis -2); "
                         f"got key {shape_of(key)}, value {shape_of(value)}")  # fmt: skip
    check_leading(query=query, key=key)
    check_leading(query=query, value=value)
    check_leading(key=key, value=value)
    if mask is not None:
        leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
        check_mask(mask, (*leading, query.size(-2), key.size(-2)), query.device)


def check_pair(query: Any, key: Any) -> None:
    """Require query (..., m, d_q) and key (..., n, d_k) that fit together, whatever their numbers of features."""
    check_axes("query", query, "(..., m, d_q)")
    check_axes("key", key, "(..., n, d_k)")
    check_same_kind("query", query, "key", key)
    check_features(query, key, same_features=False)
    check_leading(query=query, key=key)


def check_axes(name: str, tensor: Any, axes: str) -> None:
    """Require a float tensor of at least two axes."""
    check_float_tensor(name, tensor)
    if tensor.dim() < 2:
        raise ValueError(f"{name} needs at least two axes {axes}; got shape {shape_of(tensor)}")


def check_leading(**pair: Tensor) -> None:
    """Require that the leading axes of two tensors broadcast with each other."""
    (a, x), (b, y) = pair.items()
    if not broadcasts(shape_of(x)[:-2], shape_of(y)[:-2]):
        raise ValueError(f"the leading axes of {a} and {b} must broadcast; got {a} {shape_of(x)}, {b} {shape_of(y)}")


def check_features(query: Tensor, key: Tensor, *, same_features: bool) -> None:
    """Require at least one feature and, for dot products, as many in the query as in the key."""
    if query.size(-1) == 0:
        raise ValueError(f"query needs at least one feature, d_k >= 1 (axis -1); got shape {shape_of(query)}")
    if same_features and query.size(-1) != key.size(-1):
        raise ValueError("query and key need the same number of features d_k (axis -1); "
                         f"got query {shape_of(query)}, key {shape_of(key)}")  # fmt: skip


def check_shape(name: str, tensor: Any, expected: tuple[int, ...], axes: str) -> None:
    """Require a float tensor of exactly the expected shape."""
    check_float_tensor(name, tensor)
    if shape_of(tensor) != expected:
        raise ValueError(f"{name} must have shape {axes}; expected {expected}, got {shape_of(tensor)}")


def check_parameter(name: str, tensor: Any, expected: tuple[int, ...], axes: str, *, query: Tensor) -> None:
    """Require a float tensor of exactly the expected shape, of the query's dtype and on its device."""
    check_shape(name, tensor, expected, axes)
    check_same_kind("query", query, name, tensor)


def check_mask(mask: Any, scores_shape: tuple[int, ...], device: torch.device, *, more_axes: bool = False) -> None:
    """Require a boolean or float mask that can be stretched to the shape of the scores.

    With ``more_axes`` the scores may be stretched too, along their leading axes.
    """
    check_mask_type("mask", mask)
    shape = shape_of(mask)
    fits = broadcasts_to(shape, scores_shape)
    if not fits and more_axes:
        fits = broadcasts_to(shape[-2:], scores_shape[-2:]) and broadcasts(shape[:-2], scores_shape[:-2])
    if not fits:
        raise ValueError("mask must broadcast to the scores (..., m, n); "
                         f"expected something that broadcasts to {scores_shape}, got {shape}")  # fmt: skip
    check_mask_device(mask, device)


def check_module_mask(mask: Any, target: tuple[int, ...]) -> Tensor:
    """Require a mask for the scores (batch, heads, m, n), and give one of three axes its axis for the heads."""
    check_mask_type("mask", mask)
    axes = mask.dim()
    per_head: Tensor = mask.unsqueeze(1) if axes == 3 else mask
    if axes not in (2, 3, 4) or not broadcasts_to(shape_of(per_head), target):
        sizes = ", ".join(f"{axis}={size}" for axis, size in zip(("batch", "heads", "m", "n"), target, strict=True))
        raise ValueError("mask must be (m, n), (batch, m, n) or (batch or 1, heads or 1, m, n), "
                         f"three axes meaning batch, with {sizes}; got {shape_of(mask)}")  # fmt: skip
    return per_head


def check_mask_device(mask: Tensor, device: torch.device) -> None:
    """Require a mask on the device of the query."""
    if mask.device != device:
        raise ValueError(f"mask must be on the device of the query; expected {device}, got {mask.device}")


def check_mask_type(name: str, mask: Any) -> None:
    """Require a tensor that is boolean (True = may attend) or float (added to the scores)."""
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor or None; got {type(mask).__name__}")
    check_not_nested(name, mask)
    if mask.dtype != torch.bool and mask.dtype not in FLOATS:
        raise TypeError(f"{name} must be boolean (True = may attend) or floating point (added to the scores); "
                        f"got {mask.dtype}")  # fmt: skip


def check_scale(scale: Any) -> float | None:
    """Require a finite real number, or None; return it as a float."""
    if scale is None:
        return None
    if isinstance(scale, bool) or not isinstance(scale, (Real, torch.SymFloat)):
        raise TypeError(f"scale must be a real number or None; got {type(scale).__name__}")
    if torch.compiler.is_compiling():  # (what is compiled takes any scale)
        return cast(float, scale)
    if not math.isfinite(scale):
        raise ValueError(f"scale must be finite; got {scale}")
    return float(scale)


def check_ids(name: str, ids: Any, meaning: str = "token ids") -> None:
    """Require an int64 tensor."""
    if not isinstance(ids, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor of {meaning}; got {type(ids).__name__}")
    if ids.dtype != torch.long:
        raise TypeError(f"{name} must hold {meaning} of dtype torch.int64; got {ids.dtype}")


def check_sequences(name: str, ids: Any, axis: str) -> None:
    """Require token ids (batch, positions) with at least one position."""
    check_ids(name, ids)
    if ids.dim() != 2 or ids.size(1) == 0:
        raise ValueError(f"{name} must be (batch, {axis}) with at least one position; got shape {shape_of(ids)}")


def check_generator(generator: Any, *, optional: bool = False) -> None:
    """Require a random generator on the CPU, or, where it is optional, None for torch's global one."""
    if optional and generator is None:
        return
    if not isinstance(generator, torch.Generator):
        expected = "a torch.Generator or None" if optional else "a torch.Generator"
        raise TypeError(f"generator must be {expected}; got {type(generator).__name__}")
    if generator.device.type != "cpu":
        raise ValueError(f"generator must be on the CPU, so that every machine draws the same; got {generator.device}")


def check_positive(**numbers: Any) -> None:
    """Require real numbers above 0, each by the name of its argument."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, Real):
            raise TypeError(f"{name} must be a real number; got {type(number).__name__}")
        if not float(number) > 0:
            raise ValueError(f"{name} must be above 0; got {number}")
