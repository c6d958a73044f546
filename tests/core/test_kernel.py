"""The Triton kernel, by Triton's interpreter on the CPU, or on a GPU. Without Triton, only how it says so.

The interpreter is slow, so sizes are small. Whether the kernel compiles for a GPU is tested without one.
"""

import os
import subprocess
import sys

import pytest
import torch
from oracles import draw, draw_bool
from torch.testing import assert_close

from attention_tutorial import kernel, repeat_heads, scaled_dot_product_attention
from attention_tutorial.kernel import has_triton, kernel_attention

triton = pytest.mark.skipif(not has_triton(), reason="needs Triton, which only Linux has: pip install triton")
MASKS = {
    "none": lambda g, m, n: None,
    "every pair": lambda g, m, n: draw_bool(g, 2, 4, m, n),
    "padding": lambda g, m, n: draw_bool(g, 2, 1, 1, n),
    "first block masked": lambda g, m, n: torch.arange(n).expand(m, n) >= 16,
    "rows masked": lambda g, m, n: draw_bool(g, m, 1),
}


def inputs(generator, m, n, device, dtype=torch.float32):
    """Four heads of queries, two of keys and values; no two sizes alike."""
    shapes = (2, 4, m, 9), (2, 2, n, 9), (2, 2, n, 5)
    return [draw(generator, *shape, dtype=dtype, device=device) for shape in shapes]


def naive(q, k, v, mask=None, *, is_causal=False):
    return scaled_dot_product_attention(q, repeat_heads(k, 4), repeat_heads(v, 4), mask, is_causal=is_causal)[0]


@triton
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("m", "n"), [(19, 19), (5, 37), (37, 5), (1, 33)])
def test_the_kernel_is_the_naive_attention(generator, device, kind, m, n):
    q, k, v = inputs(generator, m, n, device)
    mask = MASKS[kind](generator, m, n)
    mask = None if mask is None else mask.to(device)
    is_causal = kind in ("none", "padding")
    result = kernel_attention(q, k, v, mask, is_causal=is_causal, block_m=16, block_n=16)
    assert_close(result, naive(q, k, v, mask, is_causal=is_causal), rtol=1e-5, atol=2e-6)


@triton
@pytest.mark.parametrize(("dtype", "off"), [(torch.float16, 3e-3), (torch.bfloat16, 2e-2)])
def test_half_precision_stays_near(generator, device, dtype, off):
    q, k, v = inputs(generator, 5, 37, device, dtype)
    result = kernel_attention(q, k, v, block_m=16, block_n=16)
    assert result.dtype == dtype
    assert_close(result, naive(q, k, v), rtol=off, atol=off)


@triton
def test_sums_over_many_keys_are_kept_in_float32(generator, device):
    """Sums in float16 would be off by several times what rounding the output is."""
    q, k, v = (draw(generator, 1, 1, n, 16, dtype=torch.float16, device=device) for n in (16, 2048, 2048))
    wanted = scaled_dot_product_attention(q.double(), k.double(), v.double())[0]
    rounded = (wanted - wanted.half().double()).abs().max()
    assert (kernel_attention(q, k, v, block_m=16, block_n=16).double() - wanted).abs().max() < 4 * rounded


@triton
@pytest.mark.parametrize("far", [1e4, -1e4])
def test_scores_far_from_zero_are_no_trouble(generator, device, far):
    """A maximum that began at 0 would lose the second."""
    q, k, v = inputs(generator, 19, 37, device)
    q[..., 0], k[..., 0] = 1.0, far
    actual = kernel_attention(q, k, v, is_causal=True, scale=1.0, block_m=16, block_n=16)
    wanted = scaled_dot_product_attention(q, repeat_heads(k, 4), repeat_heads(v, 4), is_causal=True, scale=1.0)[0]
    assert actual.abs().amax() > 0.1
    assert_close(actual, wanted, rtol=2e-2, atol=2e-2)  # (at 10,000 float32 has steps of a thousandth)


@triton
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # NumPy, in the interpreter
def test_allowed_scores_of_minus_infinity_give_nan_as_in_a_softmax(generator, device):
    q, k, v = inputs(generator, 19, 37, device)
    q, k = q.abs() + 1, torch.full_like(k, -torch.inf)
    assert naive(q, k, v).isnan().all()
    assert kernel_attention(q, k, v, block_m=16, block_n=16).isnan().all()
    nothing = torch.zeros(19, 37, dtype=torch.bool, device=device)
    assert not kernel_attention(q, k, v, nothing, block_m=16, block_n=16).any()


@triton
def test_no_keys_and_no_queries(device):
    q = torch.ones(1, 2, 3, 4, device=device)
    assert not kernel_attention(q, q[:, :, :0], q[:, :, :0]).any()
    assert kernel_attention(q[:, :, :0], q, q).shape == (1, 2, 0, 4)


@triton
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # NumPy, of the NaN that we put in
def test_large_scores_and_nan(generator, device):
    q, k, v = inputs(generator, 3, 20, device)
    result = kernel_attention(1e4 * q, k, v, block_m=16, block_n=16)
    assert_close(result, naive(1e4 * q, k, v), rtol=1e-5, atol=1e-5)
    k[:, :, 17] = torch.nan
    assert kernel_attention(q, k, v, block_m=16, block_n=16).isnan().all()


@triton
@pytest.mark.parametrize("strides", [(2**30, 1), (1, 2**27)], ids=["far rows", "far columns"])
def test_a_mask_may_be_larger_than_an_int32_counts(generator, device, strides):
    """Of the 2 GiB only the pages that are looked at are ever there, on a processor."""
    mask = torch.zeros(2**31 + 64, dtype=torch.bool, device=device).as_strided((3, 17), strides)
    mask[:, 5:] = True
    q, k, v = inputs(generator, 3, 17, device)
    result = kernel_attention(q, k, v, mask, block_m=16, block_n=16)
    assert_close(result, naive(q, k, v, mask), rtol=1e-5, atol=2e-6)


@triton
def test_gradients_are_those_of_the_naive_attention(generator, device):
    tensors = [x.requires_grad_() for x in inputs(generator, 19, 19, device)]
    mask = draw_bool(generator, 2, 1, 1, 19).to(device)
    actual = kernel_attention(*tensors, mask, is_causal=True, block_m=16, block_n=16)
    wanted = naive(*tensors, mask, is_causal=True)
    upstream = draw(generator, *wanted.shape, dtype=torch.float32, device=device)
    for a, b in zip(torch.autograd.grad(actual, tensors, upstream), torch.autograd.grad(wanted, tensors, upstream),
                    strict=True):  # fmt: skip
        assert_close(a, b, rtol=1e-4, atol=1e-5)


@triton
def test_a_row_without_an_allowed_key_is_zero_whatever_the_values_hold(generator, device):
    q, k, v = inputs(generator, 19, 19, device)
    v[:, :, 7] = torch.nan
    mask = (torch.arange(19, device=device) != 3)[:, None]
    q.requires_grad_()
    output = kernel_attention(q, k, v, mask, block_m=16, block_n=16)
    assert output.isnan().any(dim=-1)[0, 0].tolist() == [row != 3 for row in range(19)] and not output[:, :, 3].any()
    assert not torch.autograd.grad(output[:, :, 3].sum(), q)[0][:, :, 3].any()


@pytest.mark.parametrize("shape", [(65_536, 1, 1, 1), (8_192, 8, 1, 1), (1, 1, 16 * 65_536, 1)], ids=str)
def test_the_grid_is_one_that_cuda_takes(shape, monkeypatch):
    """All axes but the first end at 65,535. No kernel runs here, and no Triton is needed."""
    grids = []

    class Recorder:
        def __getitem__(self, grid):
            return lambda *args, **kwargs: grids.append(grid)

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(kernel, "has_triton", lambda: True)
    monkeypatch.setattr(kernel, "_compiled", Recorder)
    x = torch.zeros(shape)
    kernel_attention(x, x[:, :, :1], x[:, :, :1], block_m=16)
    assert grids == [(65_536,)]


COMPILE = """
import triton, triton.language
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from attention_tutorial import kernel

kernel.tl = triton.language
pointers = dict.fromkeys(["query", "key", "value", "output"], "*fp16") | {"mask": "*u8", "logsumexp": "*fp32"}
numbers = dict.fromkeys(["stride_b", "stride_h", "stride_m", "stride_n", "m", "n"], "i32") | {"scale": "fp32"}
sizes = dict(HEADS=4, GROUP=2, D_K=64, D_V=64, WIDTH_K=64, WIDTH_V=64, BLOCK_M=64, BLOCK_N=64)
sizes |= dict(IS_CAUSAL=True, HAS_MASK=True)
signature = pointers | numbers | dict.fromkeys(sizes, "constexpr")
try:
    source = ASTSource(fn=triton.jit(kernel.attend_block), signature=signature, constexprs=sizes)
except TypeError:  # Triton 3.2
    source = ASTSource(fn=triton.jit(kernel.attend_block), signature=signature, constants=sizes)
print(len(triton.compile(source, target=GPUTarget("cuda", 80, 32)).asm["ptx"]) > 1000)
"""


@triton
def test_it_compiles_for_a_gpu_that_is_not_there(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True, timeout=1200
    )
    assert done.stdout.strip() == "True", done.stderr


@triton
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: kernel_attention(x[0], x, x), ValueError, "query must be (batch, heads, positions, features)"),
        (lambda x: kernel_attention(x.double(), x, x), TypeError, "query must be float32, float16 or bfloat16"),
        (lambda x: kernel_attention(x, x[:, :1].expand(-1, 3, -1, -1), x), ValueError, "a divisor of them"),
        (lambda x: kernel_attention(x, x, x, x @ x.mT), TypeError, "mask must be boolean for this kernel"),
        (lambda x: kernel_attention(x, x, x, block_m=24), ValueError, "block_m must be a power of two; got 24"),
        (lambda x: kernel_attention(x, x, x, block_n=8), ValueError, "block_n must be at least 16; got 8"),
    ],
)
def test_mistakes_are_named(call, error, message):
    with pytest.raises(error) as caught:
        call(torch.ones(1, 2, 3, 4))
    assert message in str(caught.value)


@pytest.mark.skipif(has_triton(), reason="Triton is here")
def test_without_triton_it_says_what_to_install():
    x = torch.ones(1, 2, 3, 4)
    with pytest.raises(ImportError, match="pip install triton"):
        kernel_attention(x, x, x)
