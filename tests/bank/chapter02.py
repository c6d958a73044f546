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


def overwrite(query, key, value):
    query /= query.size(-1) ** 0.5
    return attend(query, key, value, scale=1.0)


RIGHT = {
    "2.1": {
        "list": [1 / 8, 3 / 8, 4 / 8],
        "rounded": (0.125, 0.375, 0.5),
        "tensor": torch.tensor([1.0, 3.0, 4.0]) / 8,
        "with gradient": torch.tensor([0.0, math.log(3), math.log(4)], requires_grad=True).softmax(0),
        "numpy scalars": [np.float32(0.125), np.float64(0.375), np.float16(0.5)],
    },
    "2.2": {
        "plain": lambda q, k, v: torch.softmax(k @ q / math.sqrt(len(q)), 0) @ v,
        "float32": lambda q, k, v: torch.softmax(k.float() @ q.float() / math.sqrt(len(q)), 0) @ v.float(),
        "torch's own": lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q[None], k, v)[0],
        "scaled query": lambda q, k, v: v.T @ torch.softmax(k @ (q / len(q) ** 0.5), 0),
        "loop": lambda q, k, v: sum(
            a * row
            for a, row in zip(torch.softmax(torch.stack([q @ kj for kj in k]) / len(q) ** 0.5, 0), v, strict=True)
        ),
    },
    "2.3": {
        "plain": lambda q, k, v: torch.softmax(q @ k.T / math.sqrt(q.size(-1)), -1) @ v,
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
    "2.5": {
        "plain": lambda x, wq, wk, wv, wo: (
            torch.softmax((x @ wq) @ (x @ wk).T / math.sqrt(wk.size(1)), -1) @ (x @ wv) @ wo
        ),
        "merged matrices": lambda x, wq, wk, wv, wo: (
            torch.softmax(x @ (wq @ wk.T) @ x.T / wq.size(1) ** 0.5, -1) @ (x @ (wv @ wo))
        ),
        "torch's own": lambda x, wq, wk, wv, wo: (
            torch.nn.functional.scaled_dot_product_attention(*(x[None] @ w for w in (wq, wk, wv)))[0] @ wo
        ),
    },
    "2.4": {
        "sum": lambda m, n, d_k, d_v: m * n * d_k + m * n * d_v,
        "factored": lambda m, n, d_k, d_v: m * n * (d_k + d_v),
        "tensor": lambda m, n, d_k, d_v: torch.tensor(m * n) * (d_k + d_v),
    },
    "2.6": {"long enough": [0, 10], "a little aslant": torch.tensor([0.5, 20.0])},
}

RIGHT["2.7"] = {
    "repaired": lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1) @ v,
    "torch's own": torch.nn.functional.scaled_dot_product_attention,
    "einsum": lambda q, k, v: torch.softmax(torch.einsum("...md,...nd->...mn", q, k) / q.shape[-1] ** 0.5, -1) @ v,
}


def by_axis_one(query, key, value, *, scale=1, axis=1):
    return torch.softmax(query @ key.mT / math.sqrt(query.size(scale)), dim=axis) @ value


def subtract_column_largest(query, key, value):
    scores = raw(query, key)
    powers = (scores - scores.amax(0)).exp()
    return powers / powers.sum(1, keepdim=True) @ value


def attend_causally(query, key, value):
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)


WRONG = [
    Wrong("2.7", "return the output alone", lambda q, k, v: (attend(q, k, v), None)),
    Wrong("2.7", "here (1, 13, 11)", lambda q, k, v: attend(q, k, v).squeeze()),
    Wrong("2.7", "you divided by sqrt(batch)", lambda q, k, v: by_axis_one(q, k, v, scale=0, axis=-1)),
    Wrong("2.7", "over axis 0", lambda q, k, v: by_axis_one(q, k, v, scale=-1, axis=0)),
    Wrong("2.7", "with 1 axis in front, your softmax runs over the queries", by_axis_one, mistake=5),
    Wrong("2.7", "you divided by sqrt(m)", lambda q, k, v: by_axis_one(q, k, v, axis=-1)),
    Wrong("2.7", "IndexError", lambda q, k, v: by_axis_one(q, k, v, scale=-1, axis=2)),
    Wrong("2.7", "with 2 axes in front", lambda q, k, v: by_axis_one(q, k, v, scale=-1, axis=min(2, q.dim() - 1))),
    Wrong("2.7", "you did not scale", lambda q, k, v: (q @ k.mT).softmax(-1) @ v, mistake=2),
    Wrong("2.7", "(in the line `", lambda q, k, v: torch.softmax(q @ k.T / 5**0.5, -1) @ v),
    Wrong("2.1", "divide each by their sum", [1.0, 3.0, 4.0]),
    Wrong("2.1", "take the exponential", (torch.tensor([0.0, math.log(3), math.log(4)]) / math.log(12)).tolist()),
    Wrong("2.1", "yours sum to 1.1", [0.1, 0.4, 0.6]),
    Wrong("2.1", "exp(ln 3) is 3", [0.2, 0.3, 0.5]),
    Wrong("2.1", "three weights", [0.5, 0.5]),
    Wrong("2.1", "rounded to 2 decimals", [0.13, 0.38, 0.5]),
    Wrong("2.1", "in the wrong order", [0.5, 0.375, 0.125]),
    Wrong("2.1", "the exponential of 0 is 1", [0.0, 3 / 7, 4 / 7]),
    Wrong("2.1", "got list of str", ["1/8", "3/8", "4/8"]),
    Wrong("2.2", "too large by a factor of 2.24 = sqrt(5)", lambda q, k, v: attend(q, k, v, scale=1.0), mistake=2),
    Wrong("2.2", "you divided by d_k", lambda q, k, v: attend(q, k, v, scale=1 / len(q)), mistake=3),
    Wrong("2.2", "multiplied by sqrt(d_k)", lambda q, k, v: attend(q, k, v, scale=len(q) ** 0.5)),
    Wrong("2.2", "divided by sqrt(d_v)", lambda q, k, v: attend(q, k, v, scale=v.size(1) ** -0.5)),
    Wrong("2.2", "divided by sqrt(n)", lambda q, k, v: attend(q, k, v, scale=k.size(0) ** -0.5), mistake=2),
    Wrong("2.2", "softmax is missing", lambda q, k, v: (k @ q / len(q) ** 0.5) @ v),
    Wrong("2.2", "all weight to one key", lambda q, k, v: v[(k @ q).argmax()]),
    Wrong("2.2", "averaged evenly", lambda q, k, v: v.mean(0)),
    Wrong("2.2", "divided after the softmax", lambda q, k, v: torch.softmax(k @ q, 0) / len(q) ** 0.5 @ v),
    Wrong("2.2", "all your weights are 1", lambda q, k, v: v.T @ torch.softmax(k @ q[:, None], -1)[:, 0]),
    Wrong("2.2", "each row sums to 0.143 = 1/n", lambda q, k, v: attend(q, k, v) / len(k)),
    Wrong("2.2", "some keys get no weight, such as key 6", lambda q, k, v: attend(q, k[:-1], v[:-1])),
    Wrong("2.2", "the softmax twice", lambda q, k, v: torch.softmax(torch.softmax(k @ q / len(q) ** 0.5, 0), 0) @ v),
    Wrong("2.2", "in effect you divided by 8;", lambda q, k, v: attend(q, k, v, scale=1 / 8)),
    Wrong("2.2", "rounded to 2 decimals", lambda q, k, v: attend(q, k, v).round(decimals=2)),
    Wrong("2.2", "weights are right, but rounded", lambda q, k, v: (k @ q / 5**0.5).softmax(0).round(decimals=2) @ v),
    Wrong("2.2", "nearly right", lambda q, k, v: attend(q.half().double(), k, v)),
    Wrong("2.2", "powers of 2", lambda q, k, v: attend(q, k, v, scale=math.log(2) / len(q) ** 0.5)),
    Wrong("2.2", "check the scores", lambda q, k, v: torch.cosine_similarity(k, q[None]).softmax(0) @ v),
    Wrong("2.2", "shape (d_v,)", lambda q, k, v: attend(q, k, v)[None]),
    Wrong("2.2", "return the output alone", lambda q, k, v: (attend(q, k, v), None)),
    Wrong("2.2", "must be a tensor; got list of float; torch.tensor", lambda q, k, v: attend(q, k, v).tolist()),
    Wrong("2.2", "changed its arguments", overwrite),
    Wrong("2.2", "NaN", lambda q, k, v: attend(q, k, v) * math.nan),
    Wrong("2.2", "largest difference is 0.5", lambda q, k, v: attend(q, k, v) + 0.5),
    Wrong("2.2", "raised RuntimeError", lambda q, k, v: attend(q, v, k)),
    Wrong("2.3", "down the columns", lambda q, k, v: attend(q, k, v, axis=0), mistake=5),
    Wrong("2.3", "too large by a factor of 2.24 = sqrt(5)", lambda q, k, v: attend(q, k, v, scale=1.0), mistake=2),
    Wrong("2.3", "you divided by d_k", lambda q, k, v: attend(q, k, v, scale=1 / q.size(1)), mistake=3),
    Wrong("2.3", "whole matrix", lambda q, k, v: raw(q, k).flatten().softmax(0).view(len(q), len(k)) @ v, mistake=5),
    Wrong("2.3", "all queries get the same weights", lambda q, k, v: attend(q[:1], k, v).expand(len(q), -1)),
    Wrong("2.3", "in effect another number was added to the scores of each key", subtract_column_largest),
    Wrong("2.3", "no key is closed here", attend_causally),
    Wrong("2.3", "large ones give another result", lambda q, k, v: raw(q, k).clamp(max=50).softmax(-1) @ v),
    Wrong("2.3", "torch.stack makes a tensor of it", lambda q, k, v: list(attend(q, k, v))),
    Wrong("2.3", "large ones give NaN", lambda q, k, v: raw(q, k).exp() / raw(q, k).exp().sum(1, keepdim=True) @ v),
    Wrong("2.3", "shape (m, d_v)", lambda q, k, v: attend(q, k, v).T),
    Wrong("2.5", "w_o is missing", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv)),
    Wrong(
        "2.5",
        "sqrt(d_model)",
        lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv, scale=x.size(1) ** -0.5) @ wo,
        mistake=1,
    ),
    Wrong("2.5", "did not scale", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv, scale=1.0) @ wo, mistake=2),
    Wrong(
        "2.5", "divided by d_k", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv, scale=1 / 5) @ wo, mistake=3
    ),
    Wrong("2.5", "w_q for the keys", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wq, x @ wv) @ wo),
    Wrong("2.5", "w_k for the queries", lambda x, wq, wk, wv, wo: attend(x @ wk, x @ wk, x @ wv) @ wo),
    Wrong("2.5", "swapped", lambda x, wq, wk, wv, wo: attend(x @ wk, x @ wq, x @ wv) @ wo),
    Wrong("2.5", "over the queries", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv, axis=0) @ wo, mistake=5),
    Wrong("2.5", "you added x itself", lambda x, wq, wk, wv, wo: x + attend(x @ wq, x @ wk, x @ wv) @ wo),
    Wrong("2.5", "you averaged x itself", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x)),
    Wrong("2.5", "you scored x against itself", lambda x, wq, wk, wv, wo: attend(x, x, x @ wv) @ wo),
    Wrong("2.5", "the positions are never mixed", lambda x, wq, wk, wv, wo: x @ wv @ wo),
    Wrong(
        "2.5",
        "your weights are transposed",
        lambda x, wq, wk, wv, wo: raw(x @ wq, x @ wk).softmax(1).T @ (x @ wv) @ wo,
    ),
    Wrong(
        "2.5", "each row sums to 0.333 = 1/n", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv) @ wo / len(x)
    ),
    Wrong("2.5", "no weights on the values", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv) @ wo + 1),
    Wrong("2.4", "Q Kᵀ alone", lambda m, n, d_k, d_v: m * n * d_k),
    Wrong("2.4", "A V alone", lambda m, n, d_k, d_v: m * n * d_v),
    Wrong("2.4", "twice too many", lambda m, n, d_k, d_v: 2 * m * n * (d_k + d_v)),
    Wrong("2.4", "counts additions too", lambda m, n, d_k, d_v: m * n * (2 * d_k - 1) + m * d_v * (2 * n - 1)),
    Wrong("2.4", "those are the additions", lambda m, n, d_k, d_v: m * n * (d_k - 1) + m * d_v * (n - 1)),
    Wrong("2.4", "costed with d_v", lambda m, n, d_k, d_v: 2 * m * n * d_v),
    Wrong("2.4", "m * n, not m * m", lambda m, n, d_k, d_v: m * m * (d_k + d_v)),
    Wrong("2.4", "not m + n", lambda m, n, d_k, d_v: (m + n) * (d_k + d_v)),
    Wrong("2.4", "do not multiply them", lambda m, n, d_k, d_v: m * n * d_k * m * n * d_v),
    Wrong("2.4", "d_k and d_v never meet", lambda m, n, d_k, d_v: m * n * d_k * d_v),
    Wrong("2.4", "the scaling or the softmax too", lambda m, n, d_k, d_v: m * n * (d_k + 1 + d_v)),
    Wrong("2.4", "A V is not: it has", lambda m, n, d_k, d_v: m * n * d_k + m * d_v),
    Wrong("2.4", "Q Kᵀ is not: it has", lambda m, n, d_k, d_v: m * n * max(d_k, d_v)),
    Wrong("2.4", "something else", lambda m, n, d_k, d_v: m * n * (d_k + d_v) - 1),
    Wrong("2.4", "got str", lambda m, n, d_k, d_v: str(m * n * (d_k + d_v))),
    Wrong("2.4", "whole dot product", lambda m, n, d_k, d_v: m * n + m * d_v),
    Wrong("2.4", "costed with d_k", lambda m, n, d_k, d_v: 2 * m * n * d_k),
    Wrong("2.4", "m * n, not n * n", lambda m, n, d_k, d_v: n * n * (d_k + d_v)),
    Wrong("2.4", "the count is not 0", lambda m, n, d_k, d_v: 0),
    Wrong("2.6", "make the query longer", [0.0, 3.0]),
    Wrong("2.6", "zero query", [0.0, 0.0]),
    Wrong("2.6", "points at another key", [9.0, 1.0]),
    Wrong("2.6", "part of your query", [4.0, 8.0]),
    Wrong("2.6", "must be finite", [0.0, math.inf]),
    Wrong("2.6", "as many features as a key", [0.0, 1.0, 0.0]),
]
