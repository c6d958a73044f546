"""Have torch take its sums in another order, as a processor might that this machine is not.

    PYTHONPATH=tools/reversed_sums python ...

Python imports a module of this name before anything else (tools/profiles.py says when it is on the path). From then on
matrix products, sums, means, variances, norms and softmaxes add their terms in another order: the same numbers but for
what rounding makes of them. Whole numbers and zeros stay what they were. What is not in TURNED stays as it is: torch's
fused attention and layer norm, running sums, scattered ones.
"""

import functools
import warnings
from typing import Any

import torch
from torch import Tensor


@functools.cache
def _order(n: int) -> Tensor:
    """Return the places of n terms backwards from the first one on: 0, n - 1, n - 2 ... 1; twice it is as before."""
    return torch.tensor([0, *range(n - 1, 0, -1)][:n], dtype=torch.long)


def _turn(x: Tensor, dims: Any = None) -> Tensor:
    """Put what is summed in another order."""
    for dim in [dims] if isinstance(dims, int) else dims or range(x.dim()):
        x = x if x.dim() == 0 else x.index_select(dim, _order(x.size(dim)))
    return x


def _product(left: int) -> Any:
    """Return how a matrix product is turned whose left factor is the argument at this place."""

    def turned(function: Any, *args: Any, **named: Any) -> Any:
        one, other = args[left], args[left + 1]
        factors = _turn(one, -1), _turn(other, -2 if other.dim() > 1 else -1)
        return function(*args[:left], *factors, *args[left + 2 :], **named)

    return turned


def _sum(function: Any, x: Tensor, dims: Any = None, *args: Any, **named: Any) -> Any:
    return function(_turn(x, dims), *(() if dims is None else (dims, *args)), **named)


def _norm(function: Any, x: Tensor, order: Any = 2, dims: Any = None, *args: Any, **named: Any) -> Tensor:
    return function(_turn(x, dims), order, dims, *args, **named)


def _softmax(function: Any, x: Tensor, dim: int, *args: Any) -> Tensor:
    return _turn(function(_turn(x, dim), dim, *args), dim)


def _softmax_backward(function: Any, gradient: Tensor, output: Tensor, dim: int, *args: Any) -> Tensor:
    return _turn(function(_turn(gradient, dim), _turn(output, dim), dim, *args), dim)


# A sum or mean over everything is one over all dimensions; turned here as well, it would be turned twice.
TURNED = {
    "aten::mm": _product(0),
    "aten::bmm": _product(0),
    "aten::mv": _product(0),
    "aten::dot": _product(0),
    "aten::addmm": _product(1),
    "aten::baddbmm": _product(1),
    "aten::addmv": _product(1),
    "aten::sum.dim_IntList": _sum,
    "aten::mean.dim": _sum,
    "aten::var.correction": _sum,
    "aten::std.correction": _sum,
    "aten::_softmax": _softmax,
    "aten::_log_softmax": _softmax,
    "aten::_softmax_backward_data": _softmax_backward,
    "aten::_log_softmax_backward_data": _softmax_backward,
    "aten::linalg_vector_norm": _norm,
}


def _turned(turn: Any, kernel: Any) -> Any:
    """Return a kernel that turns what an operation sums, for floating-point numbers, and calls the old kernel."""

    def compute(keys: Any, x: Tensor, *args: Any, **named: Any) -> Tensor:
        call = functools.partial(kernel.call_boxed, keys)
        return turn(call, x, *args, **named) if x.is_floating_point() else call(x, *args, **named)

    return compute


library = torch.library.Library("aten", "IMPL")
with warnings.catch_warnings(action="ignore"):  # it is on purpose that these kernels are replaced
    for operation, turn in TURNED.items():
        kernel = torch.library.get_kernel(operation, "CPU")
        library.impl(operation, _turned(turn, kernel), "CPU", with_keyset=True)
