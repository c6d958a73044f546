"""Have torch take its sums in another order, as a processor might that this machine is not.

    PYTHONPATH=tools/reversed_sums python ...

Python imports a module of this name before anything else (tools/profiles.py says when it is on the path). From then on
matrix products, sums, means, variances, norms and softmaxes add their terms in another order: the same numbers but for
what rounding makes of them. Whole numbers and zeros stay what they were. What is not in TURNED stays as it is: torch's
fused attention and layer norm, running sums, scattered ones, FlexAttention.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import bias, flex_attention
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

aten = torch.ops.aten


def _turn(x: Tensor, dims: Any = None) -> Tensor:
    """Put what is summed in another order, backwards from the first one on: 1, n, n - 1 ... 2."""
    dims = [dims] if isinstance(dims, int) else list(dims or range(x.dim()))
    return x.flip(dims).roll([1] * len(dims), dims) if x.dim() else x


def _turn_back(x: Tensor, dim: int) -> Tensor:
    return x.roll(-1, dim).flip(dim) if x.dim() else x


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
    return _turn_back(function(_turn(x, dim), dim, *args), dim)


def _softmax_backward(function: Any, gradient: Tensor, output: Tensor, dim: int, *args: Any) -> Tensor:
    return _turn_back(function(_turn(gradient, dim), _turn(output, dim), dim, *args), dim)


TURNED = {
    aten.mm.default: _product(0),
    aten.bmm.default: _product(0),
    aten.mv.default: _product(0),
    aten.dot.default: _product(0),
    aten.addmm.default: _product(1),
    aten.baddbmm.default: _product(1),
    aten.addmv.default: _product(1),
    aten.sum.default: _sum,
    aten.sum.dim_IntList: _sum,
    aten.mean.default: _sum,
    aten.mean.dim: _sum,
    aten.var.correction: _sum,
    aten.std.correction: _sum,
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _softmax,
    aten._softmax_backward_data.default: _softmax_backward,
    aten._log_softmax_backward_data.default: _softmax_backward,
    aten.linalg_vector_norm.default: _norm,
}


class ReversedSums(TorchDispatchMode):
    """Turns the order of the sums in TURNED, forwards and backwards, for floating-point numbers."""

    supports_higher_order_operators = True  # they come by as they are

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch, with what it sums turned."""
        turned = TURNED.get(function)
        if turned is None or not args[0].is_floating_point():
            return function(*args, **(kwargs or {}))
        return turned(function, *args, **(kwargs or {}))


def plain(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a function do without the mode, where torch refuses to work with one."""

    def made(*args: Any, **named: Any) -> Tensor:
        with _disable_current_modes():
            return make(*args, **named)

    return made


flex_attention.flex_attention = plain(flex_attention.flex_attention)  # it compiles itself
bias.causal_lower_right, bias.causal_upper_left = map(plain, (bias.causal_lower_right, bias.causal_upper_left))
ReversedSums().__enter__()
