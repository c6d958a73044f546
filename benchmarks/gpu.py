"""What chapters 8 and 8a cannot measure on a CPU: causal attention in four ways on a GPU, and the GPU's limits."""

import functools
import statistics
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_tutorial.kernel import kernel_attention
from attention_tutorial.tiled import tiled_attention

from .measure import in_turns, peak_bytes

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
TOKENS, HEADS, D_K = 16384, 16, 64  # tokens in a batch, whatever the length


def naive(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attend step by step, in the dtype of the input: all scores, all weights, then the averages."""
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1) @ value


WAYS = {
    "naive": naive,
    "tiles in Python": functools.partial(tiled_attention, is_causal=True),
    "our kernel": functools.partial(kernel_attention, is_causal=True),
    "torch's fused kernel": functools.partial(F.scaled_dot_product_attention, is_causal=True),
}


def attention_rows(device: torch.device, rounds: int = 9) -> list[dict[str, Any]]:
    """Return, for each length and way, the milliseconds of a forward pass and by how much the memory grew."""
    rows = []
    for n in LENGTHS:
        shape = (TOKENS // n, HEADS, n, D_K)
        q, k, v = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3))
        with torch.inference_mode():
            expected = WAYS["torch's fused kernel"](q, k, v)
            for name, way in WAYS.items():
                same = torch.testing.assert_close
                same(way(q, k, v), expected, rtol=0.02, atol=0.02, msg=lambda m, w=name: f"{w}: {m}")
            runs = {name: functools.partial(torch.inference_mode()(way), q, k, v) for name, way in WAYS.items()}
            times = in_turns(runs, rounds, 0.02, device)
            rows += [
                {"batch": shape[0], "n": n, "name": name,
                 "milliseconds": round(statistics.median(times[name]) * 1e3, 3),
                 "peak_bytes": peak_bytes(runs[name], device)}
                for name in runs
            ]  # fmt: skip
    return rows


def limits(device: torch.device, size: int = 8192) -> dict[str, float]:
    """Return operations per second of a product in bfloat16, and bytes per second, read and written, of a copy."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    large = torch.empty(2**30, device=device, dtype=torch.float32)
    times = in_turns({"product": lambda: a @ b, "copy": large.clone}, 9, 0.05, device)
    product, copy = (statistics.median(times[name]) for name in ("product", "copy"))
    return {"operations per second": 2 * size**3 / product, "bytes per second": 2 * large.nbytes / copy}
