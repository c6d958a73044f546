"""A kernel of one's own: the forward pass of attention as one program for a GPU, in Triton.

`Triton <https://triton-lang.org>`_ is a language inside Python. It comes with PyTorch's builds for NVIDIA GPUs, and
installs on Linux (``pip install triton``); this package does not ask for it, and imports it when a kernel first runs.
Where there is no GPU, Triton's interpreter runs the same kernel on the CPU, slowly, for its numbers.

:func:`attend_block` is the kernel, written as a plain function: Triton compiles its source. :func:`kernel_attention`
calls it on tensors.
"""

from __future__ import annotations  # the kernel's annotations name Triton, which need not be there

import functools
import importlib.util
import math
import os
import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._validation import (
    check_attention_inputs,
    check_flag,
    check_float_tensor,
    check_mask,
    check_scale,
    check_size,
    shape_of,
)
from .layers import repeat_heads
from .tiled import BlockMask, attention_gradients

if TYPE_CHECKING:
    import triton.language as tl

__all__ = ["attend_block", "has_triton", "kernel_attention"]

KINDS = (torch.float32, torch.float16, torch.bfloat16)


def has_triton() -> bool:
    """Say whether Triton is installed; it is not imported for that.

    Returns:
        Whether ``import triton`` would find it.

    Example:
        >>> has_triton() in (True, False)
        True
    """
    return importlib.util.find_spec("triton") is not None


def attend_block(  # type: ignore[no-untyped-def]  # its arguments are Triton's
    query, key, value, mask, output, logsumexp,
    stride_b, stride_h, stride_m, stride_n, m, n, scale,
    HEADS: tl.constexpr, GROUP: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr,
    WIDTH_K: tl.constexpr, WIDTH_V: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    IS_CAUSAL: tl.constexpr, HAS_MASK: tl.constexpr,
) -> None:  # fmt: skip
    """Compute one block of queries of one head: the program that runs many times at once.

    Args:
        query: where (batch, heads, m, D_K) begins in memory; the tensors are contiguous.
        key: where (batch, kv_heads, n, D_K) begins.
        value: where (batch, kv_heads, n, D_V) begins.
        mask: where a boolean mask begins, with the strides below.
        output: where (batch, heads, m, D_V) is written.
        logsumexp: where (batch, heads, m) is written.
        stride_b: steps from one batch of the mask to the next; 0 where it is stretched.
        stride_h: the same for heads.
        stride_m: the same for queries.
        stride_n: the same for keys.
        m: number of queries.
        n: number of keys.
        scale: factor on the scores.
        HEADS: heads of the query.
        GROUP: how many of them share one head of keys.
        D_K: features of a query.
        D_V: features of a value.
        WIDTH_K: D_K, rounded up to a power of two of at least 16.
        WIDTH_V: the same for D_V.
        BLOCK_M: queries in a block, a power of two.
        BLOCK_N: keys in a block, a power of two.
        IS_CAUSAL: whether the future is masked.
        HAS_MASK: whether there is a mask.
    """
    program, blocks = tl.program_id(0), tl.cdiv(m, BLOCK_M)
    rows = program % blocks * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]  # which queries: (BLOCK_M, 1)
    head = (program // blocks).to(tl.int64)  # which head, over the batch
    shared = head // HEADS * (HEADS // GROUP) + head % HEADS // GROUP  # whose keys it reads
    at_k, at_v = tl.arange(0, WIDTH_K)[None, :], tl.arange(0, WIDTH_V)[None, :]
    q = tl.load(query + (head * m + rows) * D_K + at_k, mask=(rows < m) & (at_k < D_K), other=0.0)
    m_i = tl.full([BLOCK_M, 1], -float("inf"), tl.float32)  # the largest score so far
    l_i = tl.full([BLOCK_M, 1], 0.0, tl.float32)  # the sum of the exponentials
    acc = tl.full([BLOCK_M, WIDTH_V], 0.0, tl.float32)  # the weighted sum of the values
    seen = tl.full([BLOCK_M, 1], 0, tl.int32)  # how many keys were allowed
    stop = n
    if IS_CAUSAL:  # no query of this block sees further than its last one
        stop = tl.minimum(n, (program % blocks + 1) * BLOCK_M + n - m)
    for start in range(0, stop, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)[:, None]  # which keys: (BLOCK_N, 1)
        across = tl.trans(columns)  # (1, BLOCK_N)
        k = tl.load(key + (shared * n + columns) * D_K + at_k, mask=(columns < n) & (at_k < D_K), other=0.0)
        v = tl.load(value + (shared * n + columns) * D_V + at_v, mask=(columns < n) & (at_v < D_V), other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # (BLOCK_M, BLOCK_N)
        allowed = (rows < m) & (across < n)  # nothing is allowed beyond the ragged end
        if IS_CAUSAL:
            allowed = allowed & (across <= rows + (n - m))
        if HAS_MASK:
            place = head // HEADS * stride_b + head % HEADS * stride_h  # an int64, as a mask may be large
            place = place + rows.to(tl.int64) * stride_m + across.to(tl.int64) * stride_n
            allowed = allowed & (tl.load(mask + place, mask=allowed, other=0) != 0)
        scores = tl.where(allowed, scores, -float("inf"))
        new_m = tl.maximum(m_i, tl.max(scores, axis=1, keep_dims=True))
        shift = tl.where(new_m == -float("inf"), 0.0, new_m)
        weights = tl.exp(scores - shift)  # NaN stays NaN here, whatever the maximum made of it
        old = tl.exp(m_i - shift)
        l_i = old * l_i + tl.sum(weights, axis=1, keep_dims=True)
        acc = old * acc + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        seen += tl.sum(allowed.to(tl.int32), axis=1, keep_dims=True)
        m_i = new_m
    average = tl.where(seen == 0, 0.0, acc / tl.where(seen == 0, 1.0, l_i))  # 0 where no key was allowed
    tl.store(output + (head * m + rows) * D_V + at_v, average.to(q.dtype), mask=(rows < m) & (at_v < D_V))
    tl.store(logsumexp + head * m + rows, m_i + tl.log(tl.where(l_i == 0.0, 1.0, l_i)), mask=rows < m)


def kernel_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> Tensor:
    r"""Compute the output of attention by a Triton kernel: on a GPU, or by Triton's interpreter on the CPU.

    Each program of the kernel takes one block of queries of one head over all blocks of keys, and merges what they
    leave as :func:`~attention_tutorial.tiled.merge_states` does. The backward pass, and what is not supported, are
    those of :func:`~attention_tutorial.tiled.tiled_attention`.

    Triton decides between compiler and interpreter when it is imported. Without a GPU the first call sets
    ``TRITON_INTERPRET=1`` for the whole process, unless the variable is set.

    Args:
        query: Q, (batch, heads, m, d_k), in float32, float16 or bfloat16.
        key: K, (batch, kv_heads, n, d_k); neighbouring heads of the query share one if there are fewer.
        value: V, (batch, kv_heads, n, d_v).
        mask: boolean, True = may attend; broadcasts to (batch, heads, m, n), and is not stretched in memory.
        is_causal: as in :func:`~attention_tutorial.functional.scaled_dot_product_attention`, lower right.
        scale: factor on the scores; 1/sqrt(d_k) when left out.
        block_m: queries in a block, a power of two of at least 16.
        block_n: keys in a block, a power of two of at least 16.

    Returns:
        The output (batch, heads, m, d_v), as that of ``scaled_dot_product_attention`` up to rounding.

    Raises:
        ImportError: if Triton is not installed.
        TypeError: if an input is not a tensor of these kinds, or the mask is not boolean.
        ValueError: if shapes or devices do not fit together, or a block size is none of those.
        RuntimeError: if tensors are on the CPU while Triton compiles for a GPU.

    Example:
        >>> x = torch.rand(1, 2, 5, 8, device="cuda" if torch.cuda.is_available() else "cpu")
        >>> kernel_attention(x, x, x).shape if has_triton() else torch.Size([1, 2, 5, 8])
        torch.Size([1, 2, 5, 8])

    Source:
        Dao (2023), arXiv:2307.08691, algorithm 1; Tillet et al. (2019), Triton.
    """
    _check(query, key, value, mask, is_causal, block_m, block_n)
    scale = check_scale(scale)
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    mask = mask if mask is None else torch.atleast_2d(mask)
    output: Tensor = _Kernel.apply(query, key, value, mask, is_causal, scale, (block_m, block_n))
    return output


def _check(query: Any, key: Any, value: Any, mask: Any, is_causal: Any, block_m: Any, block_n: Any) -> None:
    if not has_triton():
        raise ImportError("kernel_attention needs Triton, which installs on Linux: pip install triton")
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_float_tensor(name, tensor)
        if tensor.dim() != 4:
            raise ValueError(f"{name} must be (batch, heads, positions, features); got shape {shape_of(tensor)}")
        if tensor.dtype not in KINDS:
            raise TypeError(f"{name} must be float32, float16 or bfloat16 for this kernel; got {tensor.dtype}")
    check_attention_inputs(query[:, :1], key[:, :1], value[:, :1])
    sizes, heads = {x.size(0) for x in (query, key, value)}, query.size(1)
    if len(sizes) > 1 or key.size(1) != value.size(1) or key.size(1) == 0 or heads % key.size(1):
        raise ValueError("key and value need the batch size of the query, and as many heads or a divisor of them; "
                         f"got query {shape_of(query)}, key {shape_of(key)}, value {shape_of(value)}")  # fmt: skip
    if mask is not None:
        check_mask(mask, (*shape_of(query)[:3], key.size(2)), query.device)
        if mask.dtype != torch.bool:
            raise TypeError(f"mask must be boolean for this kernel; got {mask.dtype}")
    check_flag("is_causal", is_causal)
    for name, size in (("block_m", block_m), ("block_n", block_n)):
        check_size(name, size, minimum=16)
        if size & (size - 1):
            raise ValueError(f"{name} must be a power of two; got {size}")


@functools.cache
def _compiled() -> Any:
    """Hand the kernel to Triton, at the first use."""
    global tl  # the name by which the kernel knows Triton's language
    if not torch.cuda.is_available() and "triton" not in sys.modules:
        os.environ.setdefault("TRITON_INTERPRET", "1")
    import triton
    import triton.language as tl

    return triton.jit(attend_block)


class _Kernel(torch.autograd.Function):
    """The kernel forward, and backward the tiles of plain PyTorch."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
        is_causal: bool, scale: float, blocks: tuple[int, int],
    ) -> Tensor:  # fmt: skip
        output, logsumexp = _launch(query, key, value, mask, is_causal, scale, blocks)
        ctx.save_for_backward(query, key, value, mask, output, logsumexp)
        ctx.is_causal, ctx.scale = is_causal, scale
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mask, output, logsumexp = ctx.saved_tensors
        kv_heads, times = key.size(1), query.size(1) // key.size(1)
        k, v = (repeat_heads(x, query.size(1)) for x in (key, value))
        block_mask = BlockMask(query.size(2), key.size(2), ctx.is_causal)
        d_query, *shared = attention_gradients(
            grad, query, k, v, mask, output, logsumexp[..., None], block_mask, ctx.scale, size=128
        )
        d_key, d_value = (x.unflatten(1, (kv_heads, times)).sum(dim=2) for x in shared)
        return d_query, d_key, d_value, None, None, None, None


def _launch(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
    is_causal: bool, scale: float, blocks: tuple[int, int],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    batch, heads, m, d_k = query.shape
    n, d_v = value.shape[2:]
    output = query.new_empty(batch, heads, m, d_v)
    logsumexp = query.new_empty(batch, heads, m, dtype=torch.float32)
    if output.numel() == 0:
        return output, logsumexp.fill_(-torch.inf)
    stretched = None if mask is None else mask.expand(batch, heads, m, n).view(torch.uint8)
    kernel = _compiled()
    if query.is_cpu:
        if os.environ.get("TRITON_INTERPRET") != "1":
            raise RuntimeError("tensors on the CPU need Triton's interpreter; "
                               "set TRITON_INTERPRET=1 before Triton is imported")  # fmt: skip
        if query.dtype == torch.bfloat16:  # the interpreter multiplies its bits as if they were whole numbers
            output, logsumexp = _launch(query.float(), key.float(), value.float(), mask, is_causal, scale, blocks)
            return output.to(torch.bfloat16), logsumexp
    kernel[(math.ceil(m / blocks[0]) * batch * heads,)](  # one axis, since CUDA ends the others at 65,535
        query.contiguous(), key.contiguous(), value.contiguous(), output if stretched is None else stretched,
        output, logsumexp, *((0, 0, 0, 0) if stretched is None else stretched.stride()), m, n, scale,
        HEADS=heads, GROUP=heads // key.size(1), D_K=d_k, D_V=d_v, WIDTH_K=_width(d_k), WIDTH_V=_width(d_v),
        IS_CAUSAL=is_causal, HAS_MASK=mask is not None, BLOCK_M=blocks[0], BLOCK_N=blocks[1],
    )  # fmt: skip
    return output, logsumexp


def _width(features: int) -> int:
    """Round up to what a matrix product of Triton takes."""
    return max(16, 1 << (features - 1).bit_length())
