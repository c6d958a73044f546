"""Right and wrong answers to the exercises of chapter 2."""

import math

import torch

from attention_tutorial.data.examples import THE_CAT

from . import Answers


def attend(query, key, value, *, scale=None, axis=-1):
    scores = query @ key.mT if query.dim() > 1 else key @ query
    scores = scores * (query.size(-1) ** -0.5 if scale is None else scale)
    return torch.softmax(scores, axis) @ value


BANK = {
    "sat_gives_cat": Answers(right={"two digits": 0.77, "in full": 1 / (1 + 5 * math.exp(-4 / math.sqrt(2)))}),
    "second_query": Answers(
        right={"two digits": 0.22, "in full": torch.tensor([1.0, 1.0, 0.0]).div(3**0.5).softmax(-1)[2]}
    ),
    "weighted_average": Answers(right={"list": [0.75, 0.05, 0.4], "fractions": (3 / 4, 1 / 20, 3 / 8 + 1 / 40)}),
    "the_mat_sat": Answers(
        right={
            "two digits": [0.77, 0.05, 0.41],
            "tensor": attend(THE_CAT.W_Q[2:3], THE_CAT.X @ THE_CAT.W_K, THE_CAT.X @ THE_CAT.W_V)[0],
        }
    ),
    "weights_by_hand": Answers(
        right={"list": [1 / 8, 3 / 8, 4 / 8], "rounded": (0.125, 0.375, 0.5)},
    ),
    "many_queries": Answers(
        right={
            "einsum": lambda q, k, v: torch.einsum(
                "mn,nd->md", torch.softmax(torch.einsum("md,nd->mn", q, k) * q.size(1) ** -0.5, 1), v
            ),
            "float32": lambda q, k, v: attend(q.float(), k.float(), v.float()),
        },
    ),
    "self_attention": Answers(
        right={
            "merged matrices": lambda x, wq, wk, wv, wo: (
                torch.softmax(x @ (wq @ wk.T) @ x.T / wq.size(1) ** 0.5, -1) @ (x @ (wv @ wo))
            ),
            "torch's own": lambda x, wq, wk, wv, wo: (
                torch.nn.functional.scaled_dot_product_attention(*(x[None] @ w for w in (wq, wk, wv)))[0] @ wo
            ),
        },
    ),
    "multiplications": Answers(
        right={
            "sum": lambda m, n, d_k, d_v: m * n * d_k + m * n * d_v,
            "tensor": lambda m, n, d_k, d_v: torch.tensor(m * n) * (d_k + d_v),
        },
    ),
    "aim": Answers(right={"long enough": [0, 10], "a little aslant": torch.tensor([0.5, 20.0])}),
    "debug_the_batch": Answers(
        right={
            "torch's own": torch.nn.functional.scaled_dot_product_attention,
            "einsum": lambda q, k, v: (
                torch.softmax(torch.einsum("...md,...nd->...mn", q, k) / q.shape[-1] ** 0.5, -1) @ v
            ),
        }
    ),
}
