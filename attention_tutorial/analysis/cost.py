"""Measure what a computation costs: time, memory, operations, the shape of its graph.

Memory, operations and graphs are counted, so they come out the same on every machine. Times are only ever compared
with each other, side by side in one run.
"""

import math
import statistics
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

__all__ = [
    "fit_exponent",
    "flops",
    "graph_depth",
    "graph_distance",
    "largest_tensor_bytes",
    "moved_bytes",
    "peak_bytes",
    "saved_bytes",
    "time_ratio",
]


def saved_bytes(fn: Callable[[], Any]) -> int:
    """Count the bytes that autograd keeps for the backward pass of ``fn()``.

    Tensors that share storage are counted once.

    Args:
        fn: runs a forward pass on tensors that require gradients.

    Returns:
        Bytes.

    Example:
        >>> x = torch.ones(1000, requires_grad=True)
        >>> saved_bytes(lambda: x.exp())  # the backward pass needs the 1000 float32 results
        4000
    """
    kept: dict[int, int] = {}
    alive = []  # keeps the storages, so that no address is used twice

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        alive.append(storage)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        alive.append(fn())
    return sum(kept.values())


class _Watch(TorchDispatchMode):
    """Calls ``see(func, inputs, outputs)`` with the tensors of every operation."""

    def __init__(self, see: Callable[[Any, list[Tensor], list[Tensor]], None]) -> None:
        super().__init__()
        self.see = see

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = _tensors((args, kwargs))
        result = func(*args, **(kwargs or {}))
        self.see(func, inputs, _tensors(result))
        return result


def _tensors(values: Any) -> list[Tensor]:
    return [x for x in tree_leaves(values) if isinstance(x, Tensor)]


def largest_tensor_bytes(fn: Callable[[], Any]) -> int:
    """Return the size of the largest tensor that an operation inside ``fn()`` returns.

    Args:
        fn: the computation.

    Returns:
        Bytes.

    Example:
        >>> column, row = torch.ones(100, 1), torch.ones(1, 100)
        >>> largest_tensor_bytes(lambda: (column @ row).sum())  # 100 x 100 float32
        40000
    """
    largest = 0

    def see(func: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        nonlocal largest
        largest = max([largest, *(x.numel() * x.element_size() for x in outputs)])

    with _Watch(see):
        fn()
    return largest


def peak_bytes(fn: Callable[[], Any]) -> int:
    """Return the most memory that tensors made inside ``fn()`` take up at one time.

    Tensors that share storage are counted once, and those that were there before not at all. What one operation uses
    and frees inside itself is not seen.

    Args:
        fn: the computation.

    Returns:
        Bytes.

    Example:
        >>> x = torch.ones(1000)
        >>> peak_bytes(lambda: ((x + 1) + 1) + 1)  # of three sums of 4000 bytes, two live at a time
        8000
    """
    known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()
    in_use = peak = 0

    def count(change: int) -> None:
        nonlocal in_use, peak
        in_use += change
        peak = max(peak, in_use)

    def see(func: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        for x in inputs:  # what was there before does not count
            known.add(x.untyped_storage())
        for x in outputs:
            storage = x.untyped_storage()
            if storage not in known:
                known.add(storage)
                count(storage.nbytes())
                weakref.finalize(storage, count, -storage.nbytes())

    with _Watch(see):
        fn()
    return peak


def _bytes_of(tensor: Tensor) -> int:
    """Return the size of the numbers that are there: one that is stretched over an axis counts once."""
    sizes = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return math.prod(sizes) * tensor.element_size()


def moved_bytes(fn: Callable[[], Any]) -> int:
    """Count the bytes that the operations in ``fn()`` read and write.

    Each operation is taken to read its tensors from memory and to write its result back: what a program does that
    runs one operation after another on tensors too large for the caches. Views move nothing.

    Args:
        fn: the computation.

    Returns:
        Bytes.

    Example:
        >>> x = torch.ones(1000)
        >>> moved_bytes(lambda: x.exp().sum())  # read 4000, write 4000, read them again, write one number
        12004
    """
    moved = 0

    def see(func: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        nonlocal moved
        shared = {x.untyped_storage().data_ptr() for x in inputs} >= {x.untyped_storage().data_ptr() for x in outputs}
        is_view = shared and not func._schema.is_mutable
        if not is_view and "empty" not in func._schema.name:
            moved += sum(map(_bytes_of, inputs + outputs))

    with _Watch(see):
        fn()
    return moved


def flops(fn: Callable[[], Any]) -> int:
    """Count the floating-point operations of the matrix products in ``fn()``.

    Args:
        fn: the computation.

    Returns:
        Operations; a multiplication and an addition count as two.

    Example:
        >>> a, b = torch.ones(2, 3), torch.ones(3, 5)
        >>> flops(lambda: a @ b)  # 2 * (2 * 3 * 5)
        60
    """
    with FlopCounterMode(display=False) as counter:
        fn()
    return counter.get_total_flops()


def graph_depth(output: Tensor) -> int:
    """Count the operations on the longest path through the autograd graph behind ``output``.

    Operations on one path must wait for each other, however many processors there are.

    Args:
        output: a tensor that requires gradients.

    Returns:
        The number of operations on the longest path.

    Raises:
        ValueError: if ``output`` has no graph.

    Example:
        >>> x = torch.ones(1, requires_grad=True)
        >>> graph_depth(x.exp().exp() + x)
        3
    """
    depth: dict[Any, int] = {}
    stack = [_grad_fn(output)]
    while stack:
        node = stack[-1]
        below = [n for n, _ in node.next_functions if n is not None]
        waiting = [n for n in below if n not in depth]
        if waiting:
            stack.extend(waiting)
        else:
            is_leaf = not node.next_functions  # AccumulateGrad: an input, not an operation
            depth[stack.pop()] = 0 if is_leaf else 1 + max((depth[n] for n in below), default=0)
    return depth[_grad_fn(output)]


def graph_distance(output: Tensor, source: Tensor) -> int:
    """Count the operations on the shortest path by which ``output`` depends on ``source``.

    Args:
        output: a tensor that requires gradients.
        source: a leaf, or any tensor of the graph behind ``output``.

    Returns:
        The number of operations on the shortest path.

    Raises:
        ValueError: if ``output`` has no graph, or does not depend on ``source``.

    Example:
        >>> x = torch.ones(1, requires_grad=True)
        >>> graph_distance(x.exp().exp() + x, x)
        1
    """
    goal = source.grad_fn
    level, seen, distance = [_grad_fn(output)], {_grad_fn(output)}, 0
    while level:
        for node in level:
            if (goal is not None and node is goal) or (goal is None and getattr(node, "variable", None) is source):
                return distance
        below = {n for node in level for n, _ in node.next_functions if n is not None} - seen
        seen |= below
        level, distance = list(below), distance + 1
    raise ValueError("output must depend on source; no path leads from one to the other")


def _grad_fn(output: Tensor) -> Any:
    if output.grad_fn is None:
        raise ValueError("output must come from operations on tensors that require gradients; got one without a graph")
    return output.grad_fn


def time_ratio(slow: Callable[[], Any], fast: Callable[[], Any], repeats: int = 5) -> float:
    """Return how many times longer ``slow()`` takes than ``fast()``, measured in turn.

    Args:
        slow: one computation.
        fast: the other.
        repeats: how many pairs of runs are counted.

    Returns:
        The ratio of the medians.

    Example:
        >>> big, small = torch.ones(400, 400), torch.ones(4, 4)
        >>> time_ratio(lambda: big @ big, lambda: small @ small) > 1
        True
    """
    slow(), fast()
    times = [(_time(slow), _time(fast)) for _ in range(repeats)]
    return statistics.median(a for a, _ in times) / statistics.median(b for _, b in times)


def _time(fn: Callable[[], Any]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    fn()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def fit_exponent(x: Sequence[float], y: Sequence[float]) -> float:
    r"""Fit the exponent p of y proportional to x^p.

    .. math:: p = \text{slope of } \log y \text{ against } \log x

    Args:
        x: positive numbers.
        y: as many positive numbers.

    Returns:
        The slope of the least-squares line through the logarithms.

    Example:
        >>> round(fit_exponent([1, 2, 4], [3, 12, 48]), 6)
        2.0
    """
    slope, _ = np.polyfit(np.log(x), np.log(y), deg=1)
    return float(slope)
