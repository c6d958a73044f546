"""What the tests compare with: slow and simple versions of attention, and the error that a mistake must raise.

The versions loop over single numbers and use nothing of the package and nothing of torch but its container.
"""

import itertools
import math

import pytest
import torch

# Every axis has a prime of its own, so that no two axes can be taken for each other.
BATCH, HEADS, M, N, D_K, D_V, D_HIDDEN, D_Q = 2, 3, 5, 7, 11, 13, 17, 19


def draw(generator, *shape, dtype=torch.float64, device="cpu"):
    """Standard normal numbers, drawn in float64 on the CPU."""
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)


def draw_bool(generator, *shape, device="cpu", share=0.6):
    """Booleans, True in about the given share of places."""
    return (torch.rand(shape, generator=generator) < share).to(device)


def fill(module, generator, std=0.5):
    """Give every parameter, biases too, a random value that does not depend on the machine."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(std * draw(generator, *parameter.shape))
    return module


def assert_raises(call, error, message):
    """Call with a mistake in it: it must raise this very error, with this very message."""
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert str(caught.value) == message


def mistakes(table):
    """Give a test ``call``, ``error`` and ``message`` of every row of a table {error: [(call, message), ...]}."""
    rows = [(call, error, message) for error, calls in table.items() for call, message in calls]
    return pytest.mark.parametrize(("call", "error", "message"), rows, ids=[message for *_, message in rows])


def loop_softmax(row):
    """Weights of one row of scores, where minus infinity means masked; zeros where every key is."""
    highest = max(row, default=-math.inf)
    if highest == -math.inf:
        return [0.0] * len(row)
    exponentials = [math.exp(score - highest) for score in row]
    return [e / math.fsum(exponentials) for e in exponentials]


def loop_masked(score, mask, i, j, m, n, is_causal):
    """One score after the masks: ``mask`` is a matrix of bools or floats, or None."""
    if is_causal and j > i + n - m:
        return -math.inf
    if mask is None:
        return score
    if isinstance(mask[i][j], bool):
        return score if mask[i][j] else -math.inf
    return score + mask[i][j]


def loop_attention(query, key, value, mask=None, *, is_causal=False, scale=None, score=None):
    """Attention over any leading axes; ``score`` takes a query's and a key's numbers, by default their dot product.

    Returns output and weights in float64 on the CPU, both with all the leading axes.
    """
    m, n, d_k, d_v = query.size(-2), key.size(-2), query.size(-1), value.size(-1)
    scale = scale if scale is not None else 1 / math.sqrt(d_k) if score is None else 1.0
    score = score or (lambda q, k: math.fsum(a * b for a, b in zip(q, k, strict=True)))
    leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query, key, value = (x.detach().double().cpu().expand(*leading, *x.shape[-2:]) for x in (query, key, value))
    if mask is not None:
        mask = mask.detach().cpu() if mask.dtype == torch.bool else mask.detach().double().cpu()
        mask = mask.expand(*leading, m, n)
    output = torch.zeros(*leading, m, d_v, dtype=torch.float64)
    weights = torch.zeros(*leading, m, n, dtype=torch.float64)
    for at in itertools.product(*map(range, leading)):
        q, k, v = query[at].tolist(), key[at].tolist(), value[at].tolist()
        allowed = None if mask is None else mask[at].tolist()
        for i in range(m):
            row = [loop_masked(scale * score(q[i], k[j]), allowed, i, j, m, n, is_causal) for j in range(n)]
            a = loop_softmax(row)
            for j in range(n):
                weights[at][i, j] = a[j]
            for c in range(d_v):
                output[at][i, c] = math.fsum(a[j] * v[j][c] for j in range(n))
    return output, weights


def loop_gradients(query, key, value, weights, upstream, scale):
    """Gradients of ``(output * upstream).sum()`` by the chain rule, number by number, for plain matrices.

    With g the upstream gradient and a the weights: da_ij = g_i . v_j, ds_ij = a_ij (da_ij - sum_l a_il da_il).
    """
    (m, d_k), (n, d_v) = query.shape, value.shape
    q, k, v, a, g = (x.detach().double().cpu().tolist() for x in (query, key, value, weights, upstream))
    da = [[math.fsum(g[i][c] * v[j][c] for c in range(d_v)) for j in range(n)] for i in range(m)]
    ds = [[0.0] * n for _ in range(m)]
    for i in range(m):
        mean = math.fsum(a[i][j] * da[i][j] for j in range(n))
        for j in range(n):
            ds[i][j] = a[i][j] * (da[i][j] - mean)
    d_query = [[scale * math.fsum(ds[i][j] * k[j][c] for j in range(n)) for c in range(d_k)] for i in range(m)]
    d_key = [[scale * math.fsum(ds[i][j] * q[i][c] for i in range(m)) for c in range(d_k)] for j in range(n)]
    d_value = [[math.fsum(a[i][j] * g[i][c] for i in range(m)) for c in range(d_v)] for j in range(n)]
    return tuple(torch.tensor(x, dtype=torch.float64) for x in (d_query, d_key, d_value, ds))
