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


def merge_by_totals(out_a, log_a, out_b, log_b):
    top = torch.maximum(log_a, log_b)
    top = torch.where(top.isinf(), 0.0, top)
    a, b = (log_a - top).exp(), (log_b - top).exp()
    total = a + b
    share = (out_a * a[:, None] + out_b * b[:, None]) / total.clamp_min(1e-300)[:, None]
    return share, top + total.log()


def merge_naively(out_a, log_a, out_b, log_b):
    a, b = log_a.exp()[:, None], log_b.exp()[:, None]
    return (a * out_a + b * out_b) / (a + b), (a + b).log()[:, 0]


def merge_by_softmax(out_a, log_a, out_b, log_b):
    logs = torch.stack([log_a, log_b], dim=-1)
    shares = logs.softmax(-1).nan_to_num(0.0)
    return shares[:, :1] * out_a + shares[:, 1:] * out_b, logs.logsumexp(-1)


def merge_from_a(out_a, log_a, out_b, log_b):
    """Measure all from the largest log-total of one half."""
    top = log_a.max()
    top = 0.0 if top == -math.inf else top
    a, b = (log_a - top).exp(), (log_b - top).exp()
    total = a + b
    output = (out_a * a[:, None] + out_b * b[:, None]) / total.masked_fill(total == 0, 1.0)[:, None]
    return output.nan_to_num(0.0), top + total.log()


def grouped_by_axes(q, k, v):
    groups = k.size(1)
    scores = q.unflatten(1, (groups, -1)) @ k[:, :, None].mT / math.sqrt(q.size(-1))
    return (scores.softmax(-1) @ v[:, :, None]).flatten(1, 2)


def grouped_in_a_loop(q, k, v):
    times = q.size(1) // k.size(1)
    heads = [scaled_dot_product_attention(q[:, i], k[:, i // times], v[:, i // times])[0] for i in range(q.size(1))]
    return torch.stack(heads, dim=1)


def window_in_a_loop(m, n, window, sinks):
    mask = torch.zeros(m, n, dtype=torch.bool)
    for i in range(m):
        place = i + n - m
        for j in range(place + 1):
            mask[i, j] = j < sinks or j > place - window
    return mask


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


def query_by_query(query, key, value, real, causal, block, *, size=1):
    """Blocks of queries, and an ordinary softmax over all keys in each."""
    m, n = len(query), len(key)
    output = []
    for i in range(0, m, size):
        rows = torch.arange(i, min(i + size, m))[:, None] + n - m
        mask = real & (torch.arange(n) <= rows) if causal else real.expand(len(rows), n)
        output.append(scaled_dot_product_attention(query[i : i + size], key, value, mask)[0])
    return torch.cat(output)


def queries_along_columns(query, key, value, real, causal, block):
    """The same for single queries, with a column for each, so that no tensor's last axis is that of the keys."""
    m, n = len(query), len(key)
    output = []
    for i in range(m):
        closed = ~real | (causal & (torch.arange(n) > i + n - m))
        scores = (key @ query[i : i + 1].T / math.sqrt(query.size(1))).masked_fill(closed[:, None], -math.inf)
        weights = scores.softmax(0) if not closed.all() else 0 * scores.nan_to_num(0.0, 0.0, 0.0)
        output.append(weights.T @ value)
    return torch.cat(output)


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
    "operations_a_byte": Answers(
        right={"whole": 64, "quotient": 4 * 128 / (4 * 2)}, wrong=[Wrong("four times n² numbers of 2 bytes", 77)]
    ),
    "total_of_three": Answers(
        right={"decimal": 2.25, "fractions": 2 / 4 + 4 / 4 + 3 / 4}, wrong=[Wrong("count 2/4, 4/4 and 3/4", 7.0)]
    ),
    "cache_of_a_word": Answers(
        right={"whole": 1920, "product": 2 * 5 * 3 * 16 * 4}, wrong=[Wrong("multiply 2 for key and value", 12345)]
    ),
    "one_more_key": Answers(
        right={"parts": step_by_parts, "by hand": step_by_hand},
        wrong=[Wrong("the new total is shrink * total", lambda t, a, u, s, v: (a + 7, u - 9 * v))],
    ),
    "merge": Answers(
        right={"totals": merge_by_totals, "softmax": merge_by_softmax},
        wrong=[
            Wrong(
                "each times exp(its log-total",
                lambda out_a, log_a, out_b, log_b: (out_a, torch.logaddexp(log_a, log_b)),
            ),
            Wrong("where those of queries or halves differ by e^10,000", merge_from_a),
            Wrong("right for small totals, but not for logarithms of 10,000: the output holds NaN", merge_naively),
        ],
    ),
    "grouped": Answers(
        right={"axes": grouped_by_axes, "loop": grouped_in_a_loop},
        wrong=[
            Wrong("the numbers are not right: head i reads group", lambda q, k, v: grouped_by_axes(q, k, v) * 2 - 1)
        ],
    ),
    "window": Answers(
        right={"loop": window_in_a_loop, "triangles": window_by_triangles},
    ),
    "kernel": Answers(
        right={"parts": kernel_of_parts, "keys and values joined, and one feature more": joined_blocks},
        wrong=[
            Wrong("your kernel starts its maximum at 0", functools.partial(joined_blocks, start=-1e5)),
            *(
                Wrong("more scores than those of `block` keys", kernel)
                for kernel in (
                    query_by_query,
                    functools.partial(query_by_query, size=4),
                    queries_along_columns,
                    functools.partial(joined_blocks, size=128),
                )
            ),
        ],
    ),
    "test": Answers(
        right={
            "many inputs": test_against_the_package,
            "NumPy's True": lambda attend: np.bool_(test_against_the_package(attend)),
        },
        wrong=[
            Wrong("passes every kernel", lambda attend: not getattr(attend, "keywords", {}).get("bug")),
        ],
    ),
}
