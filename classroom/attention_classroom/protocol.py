"""What crosses between the grader and a student's code: plain data, as bytes.

A message is two lengths, JSON, and the tensors as safetensors. Nothing in it is ever unpickled or run. What is no plain
data crosses as the name of its type, so that a diagnosis can still say what came.

The child loads this file by its path, in a process where the package is not there: it imports nothing of the package.
"""

import json
import re
import struct
from typing import Any

import numpy as np
import safetensors.torch
import torch

__all__ = ["HEADER", "ProtocolError", "lengths", "pack", "type_name", "unpack"]

HEADER = struct.Struct("<QQ")  # the lengths of the JSON and of the tensors
NUMBERS = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool"
DTYPES = frozenset(getattr(torch, name) for name in NUMBERS.split())
DEPTH = 20  # of containers in containers
NODES = 100_000  # in one message
BITS = 4096  # of one integer
MAX_TOKENS = 2_000_000  # commas, brackets and braces: what becomes of each takes fifty times its place


class ProtocolError(ValueError):
    """Bytes or data that must not cross."""


def pack(message: Any, *, strict: bool = True, grads: bool = True) -> bytes:
    """Write None, booleans, numbers, texts, tensors and arrays, in lists, tuples and dictionaries, as bytes.

    ``grads``: whether a tensor that wants a gradient still wants one.

    Raises:
        ProtocolError: if there is too much of it, or anything else and ``strict``; else of that a type's name crosses.
    """
    tensors: dict[str, torch.Tensor] = {}
    count = [0]

    def write(x: Any, depth: int) -> Any:
        count[0] += 1
        if depth > DEPTH or count[0] > NODES:
            raise ProtocolError("containers too deep or too large")
        kind = type(x)
        if x is None or kind is bool:
            return x
        if kind is str:
            return x.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be written
        if kind is int:
            return x if abs(x) < 2**53 else {"i": hex(x)} if x.bit_length() <= BITS else other(x)
        if kind is float:
            return {"f": x.hex()}
        if kind in (list, tuple) or (not strict and isinstance(x, list | tuple)):
            # A named tuple, or what torch returns with names, is a tuple to whoever reads it.
            return {"l" if isinstance(x, list) else "t": [write(item, depth + 1) for item in x]}
        if kind is dict:
            return {"d": [[write(key, depth + 1), write(value, depth + 1)] for key, value in x.items()]}
        if kind is torch.Tensor or (not strict and kind is torch.nn.Parameter):
            return tensor(x, "x")
        if kind is np.ndarray and x.dtype.kind in "fiub":
            return tensor(torch.from_numpy(np.ascontiguousarray(x).copy()).reshape(x.shape), "n")
        if isinstance(x, np.generic) and x.dtype.kind in "fiub":
            return write(x.item(), depth + 1)
        return other(x)

    def tensor(x: torch.Tensor, key: str) -> Any:
        if x.dtype not in DTYPES or x.layout is not torch.strided or x.device.type == "meta":
            return other(x)
        name = str(len(tensors))
        tensors[name] = x.detach().cpu().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        return {key: name, "grad": grads and bool(x.requires_grad)}

    def other(x: Any) -> Any:
        if strict:
            raise ProtocolError(f"only plain data crosses; got {type(x).__name__}")
        return {"o": type_name(x)}

    text = json.dumps(write(message, 0), allow_nan=False).encode()
    blob = safetensors.torch.save(tensors) if tensors else b""
    return HEADER.pack(len(text), len(blob)) + text + blob


def type_name(x: Any) -> str:
    """Name a thing's type, by a word of letters that cannot say anything else."""
    return _word(str(type(x).__name__))


def _word(name: str) -> str:
    return re.sub(r"\W", "", name, flags=re.ASCII)[:40] or "object"


def lengths(header: bytes, limit: int) -> tuple[int, int]:
    """Read the lengths of the JSON and of the tensors; a `ProtocolError` is raised if they are more than the limit."""
    text, blob = HEADER.unpack(header)
    if text + blob > limit:
        raise ProtocolError(f"a message of {text + blob} bytes; {limit} are allowed")
    return text, blob


def unpack(message: bytes) -> Any:
    """Read plain data, of exact types only, from bytes that anybody may have made.

    What was no plain data comes as an object of a class of that name, which does nothing. Where the bytes are anything
    else a `ProtocolError` is raised.
    """
    try:
        text, blob = HEADER.unpack_from(message)
        if len(message) != HEADER.size + text + blob:
            raise ProtocolError("the lengths do not fit")
        words = message[HEADER.size : HEADER.size + text]
        if sum(map(words.count, (b",", b"[", b"{"))) > MAX_TOKENS:
            raise ProtocolError("too many things in one message")
        data = json.loads(words)
        tensors = safetensors.torch.load(message[HEADER.size + text :]) if blob else {}
        return _read(data, tensors, [0])
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(f"no message: {type(error).__name__}") from error


def _read(x: Any, tensors: dict[str, torch.Tensor], count: list[int]) -> Any:
    count[0] += 1
    if count[0] > NODES:
        raise ProtocolError("too many things in one message")
    if x is None or type(x) in (bool, int, str):
        return x
    if type(x) is not dict:
        raise ProtocolError("no plain data")
    kind, value = next(iter(x.items()))
    if kind in ("l", "t") and type(value) is list:
        items = [_read(item, tensors, count) for item in value]
        return items if kind == "l" else tuple(items)
    if kind == "d" and type(value) is list:
        return {_read(key, tensors, count): _read(item, tensors, count) for key, item in value}
    if type(value) is not str:
        raise ProtocolError("no plain data")
    if kind == "f":
        return float.fromhex(value)
    if kind == "i":
        return int(value[: BITS // 4 + 4], 16)
    if kind in ("x", "n"):
        # Taken out: a tensor that is named a thousand times would be copied a thousand times.
        return _read_tensor(tensors.pop(value), array=kind == "n", grad=x.get("grad") is True)
    if kind == "o":
        return type(_word(value), (), {"__slots__": ()})()
    raise ProtocolError("no plain data")


def _read_tensor(x: torch.Tensor, *, array: bool, grad: bool) -> Any:
    if type(x) is not torch.Tensor or x.dtype not in DTYPES:
        raise ProtocolError("no plain tensor")
    if array:
        return x.numpy()
    return x.clone().requires_grad_(grad and x.is_floating_point())
