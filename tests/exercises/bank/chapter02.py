"""Right and wrong answers to the exercises of chapter 2."""

import math

import numpy as np
import torch

from . import Wrong


def attend(query, key, value, *, scale=None, axis=-1):
    scores = query @ key.mT if query.dim() > 1 else key @ query
    scores = scores * (query.size(-1) ** -0.5 if scale is None else scale)
    return torch.softmax(scores, axis) @ value


def raw(query, key):
    return query @ key.T / query.size(-1) ** 0.5


RIGHT = {
    "weights_by_hand": {
        "list": [1 / 8, 3 / 8, 4 / 8],
        "rounded": (0.125, 0.375, 0.5),
        "tensor": torch.tensor([1.0, 3.0, 4.0]) / 8,
        "with gradient": torch.tensor([0.0, math.log(3), math.log(4)], requires_grad=True).softmax(0),
        "numpy scalars": [np.float32(0.125), np.float64(0.375), np.float16(0.5)],
    },
    "one_query": {
        "float32": lambda q, k, v: torch.softmax(k.float() @ q.float() / math.sqrt(len(q)), 0) @ v.float(),
        "torch's own": lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q[None], k, v)[0],
        "scaled query": lambda q, k, v: v.T @ torch.softmax(k @ (q / len(q) ** 0.5), 0),
        "loop": lambda q, k, v: sum(
            a * row
            for a, row in zip(torch.softmax(torch.stack([q @ kj for kj in k]) / len(q) ** 0.5, 0), v, strict=True)
        ),
    },
    "many_queries": {
        "einsum": lambda q, k, v: torch.einsum(
            "mn,nd->md", torch.softmax(torch.einsum("md,nd->mn", q, k) * q.size(1) ** -0.5, 1), v
        ),
        "float32": lambda q, k, v: attend(q.float(), k.float(), v.float()),
        "float32, log-sum-exp": lambda q, k, v: (lambda s: (s - s.logsumexp(1, keepdim=True)).exp() @ v.float())(
            raw(q.float(), k.float())
        ),
        "transposed": lambda q, k, v: (v.T @ torch.softmax(k @ q.T / math.sqrt(k.size(1)), 0)).T,
        "largest subtracted": lambda q, k, v: (
            lambda s: (s - s.amax(1, keepdim=True)).exp() / (s - s.amax(1, keepdim=True)).exp().sum(1, keepdim=True) @ v
        )(q @ k.T / q.size(1) ** 0.5),
    },
    "self_attention": {
        "merged matrices": lambda x, wq, wk, wv, wo: (
            torch.softmax(x @ (wq @ wk.T) @ x.T / wq.size(1) ** 0.5, -1) @ (x @ (wv @ wo))
        ),
        "torch's own": lambda x, wq, wk, wv, wo: (
            torch.nn.functional.scaled_dot_product_attention(*(x[None] @ w for w in (wq, wk, wv)))[0] @ wo
        ),
    },
    "multiplications": {
        "sum": lambda m, n, d_k, d_v: m * n * d_k + m * n * d_v,
        "tensor": lambda m, n, d_k, d_v: torch.tensor(m * n) * (d_k + d_v),
    },
    "aim": {"long enough": [0, 10], "a little aslant": torch.tensor([0.5, 20.0])},
}

RIGHT["debug_the_batch"] = {
    "torch's own": torch.nn.functional.scaled_dot_product_attention,
    "einsum": lambda q, k, v: torch.softmax(torch.einsum("...md,...nd->...mn", q, k) / q.shape[-1] ** 0.5, -1) @ v,
}


WRONG = [
    Wrong("debug_the_batch", "(in the line `", lambda q, k, v: torch.softmax(q @ k.T / 5**0.5, -1) @ v),
    Wrong("weights_by_hand", "exp(ln 3) is 3", [0.2, 0.3, 0.5]),
    Wrong(
        "one_query", "weights are right, but rounded", lambda q, k, v: (k @ q / 5**0.5).softmax(0).round(decimals=2) @ v
    ),
    Wrong("one_query", "check the scores", lambda q, k, v: torch.cosine_similarity(k, q[None]).softmax(0) @ v),
    Wrong("one_query", "largest difference is 0.5", lambda q, k, v: attend(q, k, v) + 0.5),
    Wrong(
        "self_attention", "no weights on the values", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv) @ wo + 1
    ),
    Wrong("multiplications", "something else", lambda m, n, d_k, d_v: m * n * (d_k + d_v) - 1),
    Wrong("multiplications", "the count is not 0", lambda m, n, d_k, d_v: 0),
]
