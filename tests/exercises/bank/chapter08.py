"""Right and wrong answers to the exercises of chapter 8."""

import functools
import math

import numpy as np
import torch

from attention_tutorial import causal_mask, scaled_dot_product_attention
from attention_tutorial.tiled import SoftmaxState, merge_states, softmax_state

from . import Answers, Wrong


def step_by_parts(top, total, summed, s, v):
    so_far = SoftmaxState(top.view(1, 1), total.view(1, 1), summed[None])
    merged = merge_states(so_far, softmax_state(s.view(1, 1), v[None]))
    return merged.l[0, 0], merged.acc[0]


def step_by_hand(top, total, summed, s, v):
    new = max(top.item(), s.item())
    shrink, weight = math.exp(top - new), math.exp(s - new)
    return total.item() * shrink + weight, torch.stack(
        [shrink * x + weight * y for x, y in zip(summed, v, strict=True)]
    )


def merge_by_shares(out_a, log_a, out_b, log_b):
    share_a = torch.sigmoid(log_a - log_b).nan_to_num(0.0)[:, None]  # no key is allowed in either half
    return torch.lerp(out_b, out_a, share_a), torch.logaddexp(log_a, log_b)


def merge_by_softmax(out_a, log_a, out_b, log_b):
    logs = torch.stack([log_a, log_b], dim=-1)
    shares = logs.softmax(-1).nan_to_num(0.0)
    return shares[:, :1] * out_a + shares[:, 1:] * out_b, logs.logsumexp(-1)


def merge_from_one_top(out_a, log_a, out_b, log_b, *, largest=True):
    top = torch.maximum(log_a, log_b).max() if largest else 0.0
    a, b = (log_a - top).exp()[:, None], (log_b - top).exp()[:, None]
    return (a * out_a + b * out_b) / (a + b), top + (a + b).log()[:, 0]


def grouped_by_axes(q, k, v):
    groups = k.size(1)
    scores = q.unflatten(1, (groups, -1)) @ k[:, :, None].mT / math.sqrt(q.size(-1))
    return (scores.softmax(-1) @ v[:, :, None]).flatten(1, 2)


def grouped_in_a_loop(q, k, v):
    times = q.size(1) // k.size(1)
    heads = [scaled_dot_product_attention(q[:, i], k[:, i // times], v[:, i // times])[0] for i in range(q.size(1))]
    return torch.stack(heads, dim=1)


def window_by_triangles(m, n, window, sinks):
    past = torch.ones(m, n).tril(n - m).bool()
    return past & (past.triu(n - m - window + 1) | (torch.arange(n) < sinks))


def kernel_of_parts(query, key, value, real, causal, block):
    m, n = len(query), len(key)
    rows = torch.arange(n - m, n)[:, None]
    outputs = []
    for i in range(0, m, block):
        whole = softmax_state(query.new_zeros(len(query[i : i + block]), 0), value[:0])
        for j in range(0, n, block):
            columns = torch.arange(n)[j : j + block]
            closed = ~real[j : j + block] | (columns > rows[i : i + block] if causal else torch.tensor(False))
            scores = query[i : i + block] @ key[j : j + block].T / math.sqrt(query.size(1))
            whole = merge_states(whole, softmax_state(scores.masked_fill(closed, -torch.inf), value[j : j + block]))
        outputs.append(whole.output)
    return torch.cat(outputs)


def joined_blocks(query, key, value, real, causal, block, *, size=None, start=-math.inf):
    """Take all queries at once, and keys and values joined to one tensor.

    `size` is what is taken for the block, `start` what the maximum starts at.
    """
    m, n, d, block = len(query), len(key), query.size(1), size or block
    query = torch.cat([query / math.sqrt(d), query.new_ones(m, 1)], 1)
    joined = torch.cat([key, key.new_zeros(n, 1), value], 1)
    rows = torch.arange(n - m, n)[:, None]
    top, total, summed = torch.full((m, 1), start), torch.zeros(m, 1), torch.zeros(m, value.size(1))
    for number, (tile, is_real) in enumerate(zip(joined.split(block), real.split(block), strict=True)):
        scores = query @ tile[:, : d + 1].T
        columns = number * block + torch.arange(len(tile))
        scores = scores.masked_fill(~is_real | (causal & (columns > rows)), -math.inf)
        new = torch.maximum(top, scores.amax(1, keepdim=True))
        shift = new.masked_fill(new == -math.inf, 0.0)
        old, weights = (top - shift).exp(), (scores - shift).exp()
        total, summed, top = old * total + weights.sum(1, keepdim=True), old * summed + weights @ tile[:, d + 1 :], new
    return summed / total.masked_fill(total == 0, 1.0)


def query_by_query(query, key, value, real, causal, block):
    """An ordinary softmax over all keys, for one query at a time."""
    m, n = len(query), len(key)
    open_keys = (real & (torch.arange(n) <= i + n - m) if causal else real for i in range(m))
    rows = [
        scaled_dot_product_attention(q, key, value, mask)[0] for q, mask in zip(query.split(1), open_keys, strict=True)
    ]
    return torch.cat(rows)


def test_against_the_package(attend):
    """Random inputs of many kinds, and none of those of the table."""
    g = torch.Generator().manual_seed(5)
    for m, n, block in ((5, 9, 4), (8, 8, 4), (11, 6, 4), (4, 12, 4), (1, 7, 2)):
        for causal in (False, True):
            for factor in (1.0, 1e4, -1e4, 1.0):
                q, k, v = (torch.randn(*size, generator=g) for size in ((m, 6), (n, 6), (n, 2)))
                if abs(factor) > 1:
                    q[:, 0], k[:, 0] = 1.0, factor
                places = torch.arange(n)
                for real in (places >= 0, places >= block, places < 3, places < 0):
                    mask = real & causal_mask(m, n) if causal else real
                    right, _ = scaled_dot_product_attention(q, k, v, mask)
                    if not torch.allclose(attend(q, k, v, real, causal, block), right, atol=1e-6):
                        return False
    k[1] = math.nan
    others = torch.arange(n) != 1
    if attend(q, k, v, others, False, 2).isnan().any():
        return False
    q[:] = math.nan
    return bool(attend(q, k, v, torch.ones(n).bool(), False, 2).isnan().all())


BANK = {
    "one_more_key": Answers(right={"parts": step_by_parts, "by hand": step_by_hand}),
    "merge": Answers(
        right={"shares": merge_by_shares, "softmax": merge_by_softmax},
        wrong=[
            Wrong("exp of 10,000 is infinite", functools.partial(merge_from_one_top, largest=False)),
            Wrong("where those of queries or halves differ by e^10,000", merge_from_one_top),
        ],
    ),
    "grouped": Answers(right={"axes": grouped_by_axes, "loop": grouped_in_a_loop}),
    "window": Answers(
        right={
            "comparisons": lambda m, n, window, sinks: torch.tensor(
                [[j <= p and (j < sinks or p - j < window) for j in range(n)] for p in range(n - m, n)]
            ),
            "triangles": window_by_triangles,
        }
    ),
    "kernel": Answers(
        right={"parts": kernel_of_parts, "keys and values joined, and one feature more": joined_blocks},
        wrong=[
            Wrong("your kernel starts its maximum at 0", functools.partial(joined_blocks, start=-1e5)),
            Wrong("more scores than those of `block` keys", query_by_query),
            Wrong("more scores than those of `block` keys", functools.partial(joined_blocks, size=128)),
        ],
    ),
    "test": Answers(
        right={
            "many inputs": test_against_the_package,
            "NumPy's True": lambda attend: np.bool_(test_against_the_package(attend)),
        },
        wrong=[Wrong("passes every kernel", lambda attend: not getattr(attend, "keywords", {}).get("change"))],
    ),
}
