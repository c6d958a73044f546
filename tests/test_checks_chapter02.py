"""Every wrong answer to an exercise of chapter 2 is told what is wrong with it, and every right one is accepted."""

import math

import pytest
import torch

from attention_tutorial.checks import diagnose

RIGHT = {
    "2.1": {
        "list": [1 / 8, 3 / 8, 4 / 8],
        "rounded": (0.125, 0.375, 0.5),
        "tensor": torch.tensor([1.0, 3.0, 4.0]) / 8,
    },
    "2.2": {
        "plain": lambda q, k, v: torch.softmax(k @ q / math.sqrt(len(q)), 0) @ v,
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
        "largest subtracted": lambda q, k, v: (
            lambda s: (s - s.amax(1, keepdim=True)).exp() / (s - s.amax(1, keepdim=True)).exp().sum(1, keepdim=True) @ v
        )(q @ k.T / q.size(1) ** 0.5),
    },
    "2.5": {
        "plain": lambda x, wq, wk, wv, wo: (
            torch.softmax((x @ wq) @ (x @ wk).T / math.sqrt(wk.size(1)), -1) @ (x @ wv) @ wo
        ),
        "torch's own": lambda x, wq, wk, wv, wo: (
            torch.nn.functional.scaled_dot_product_attention(*(x[None] @ w for w in (wq, wk, wv)))[0] @ wo
        ),
    },
    "2.4": {
        "sum": lambda m, n, d_k, d_v: m * n * d_k + m * n * d_v,
        "factored": lambda m, n, d_k, d_v: m * n * (d_k + d_v),
    },
    "2.6": {"long enough": [0, 10], "a little aslant": torch.tensor([0.5, 20.0])},
}


def attend(query, key, value, *, scale=None, axis=-1):
    scores = query @ key.mT if query.dim() > 1 else key @ query
    scores = scores * (query.size(-1) ** -0.5 if scale is None else scale)
    return torch.softmax(scores, axis) @ value


def raw(query, key):
    return query @ key.T / query.size(-1) ** 0.5


def overwrite(query, key, value):
    query /= query.size(-1) ** 0.5
    return attend(query, key, value, scale=1.0)


WRONG = [
    # exercise, the wrong answer, a part of the right diagnosis
    ("2.1", [1.0, 3.0, 4.0], "divide each by their sum"),
    ("2.1", (torch.tensor([0.0, math.log(3), math.log(4)]) / math.log(12)).tolist(), "take the exponential"),
    ("2.1", [0.1, 0.4, 0.6], "yours sum to 1.1"),
    ("2.1", [0.2, 0.3, 0.5], "exp(ln 3) is 3"),
    ("2.1", [0.5, 0.5], "three weights"),
    ("2.2", lambda q, k, v: attend(q, k, v, scale=1.0), "too large by a factor of sqrt(d_k)"),
    ("2.2", lambda q, k, v: attend(q, k, v, scale=1 / len(q)), "you divided by d_k"),
    ("2.2", lambda q, k, v: attend(q, k, v, scale=len(q) ** 0.5), "multiplied by sqrt(d_k)"),
    ("2.2", lambda q, k, v: attend(q, k, v, scale=v.size(1) ** -0.5), "divided by sqrt(d_v)"),
    ("2.2", lambda q, k, v: attend(q, k, v, scale=k.size(0) ** -0.5), "number of keys"),
    ("2.2", lambda q, k, v: (k @ q / len(q) ** 0.5) @ v, "softmax is missing"),
    ("2.2", lambda q, k, v: v[(k @ q).argmax()], "the one best value"),
    ("2.2", lambda q, k, v: v.mean(0), "averaged the values evenly"),
    ("2.2", lambda q, k, v: torch.softmax(k @ q, 0) / len(q) ** 0.5 @ v, "divided after the softmax"),
    ("2.2", lambda q, k, v: attend(q, k, v)[None], "shape (d_v,)"),
    ("2.2", lambda q, k, v: (attend(q, k, v), None), "not a tuple"),
    ("2.2", lambda q, k, v: attend(q, k, v).tolist(), "return a tensor; got list"),
    ("2.2", overwrite, "changed its arguments"),
    ("2.2", lambda q, k, v: attend(q, k, v) * math.nan, "NaN"),
    ("2.2", lambda q, k, v: attend(q, k, v) + 0.5, "largest difference is 0.5"),
    ("2.2", lambda q, k, v: attend(q, v, k), "raised RuntimeError"),
    ("2.3", lambda q, k, v: attend(q, k, v, axis=0), "down the columns"),
    ("2.3", lambda q, k, v: attend(q, k, v, scale=1.0), "too large by a factor of sqrt(d_k)"),
    ("2.3", lambda q, k, v: attend(q, k, v, scale=1 / q.size(1)), "you divided by d_k"),
    ("2.3", lambda q, k, v: raw(q, k).flatten().softmax(0).view(len(q), len(k)) @ v, "whole matrix"),
    ("2.3", lambda q, k, v: raw(q, k).exp() / raw(q, k).exp().sum(1, keepdim=True) @ v, "overflow"),
    ("2.3", lambda q, k, v: attend(q, k, v).T, "shape (m, d_v)"),
    ("2.5", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv), "w_o is missing"),
    ("2.5", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv, scale=x.size(1) ** -0.5) @ wo, "sqrt(d_model)"),
    ("2.5", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv, scale=1.0) @ wo, "did not divide"),
    ("2.5", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv, scale=1 / 3) @ wo, "divided by d_k"),
    ("2.5", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wq, x @ wv) @ wo, "w_q for the keys"),
    ("2.5", lambda x, wq, wk, wv, wo: attend(x @ wk, x @ wk, x @ wv) @ wo, "w_k for the queries"),
    ("2.5", lambda x, wq, wk, wv, wo: attend(x @ wk, x @ wq, x @ wv) @ wo, "swapped"),
    ("2.5", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv, axis=0) @ wo, "over the queries"),
    ("2.5", lambda x, wq, wk, wv, wo: attend(x @ wq, x @ wk, x @ wv) @ wo + 1, "check each projection"),
    ("2.4", lambda m, n, d_k, d_v: m * n * d_k, "Q Kᵀ alone"),
    ("2.4", lambda m, n, d_k, d_v: m * n * d_v, "A V alone"),
    ("2.4", lambda m, n, d_k, d_v: 2 * m * n * (d_k + d_v), "counts additions too"),
    ("2.4", lambda m, n, d_k, d_v: m * n + m * d_v, "whole dot product"),
    ("2.4", lambda m, n, d_k, d_v: 2 * m * n * d_k, "costed with d_k"),
    ("2.4", lambda m, n, d_k, d_v: n * n * (d_k + d_v), "m * n, not n * n"),
    ("2.4", lambda m, n, d_k, d_v: 0, "the count is not 0"),
    ("2.6", [0.0, 3.0], "make the query longer"),
    ("2.6", [0.0, 0.0], "zero query"),
    ("2.6", [9.0, 1.0], "points at another key"),
    ("2.6", [4.0, 8.0], "part of your query"),
    ("2.6", [0.0, math.inf], "must be finite"),
    ("2.6", [0.0, 1.0, 0.0], "as many features as a key"),
]  # fmt: skip


@pytest.mark.parametrize(("exercise_id", "name"), [(i, name) for i, answers in RIGHT.items() for name in answers])
def test_right_answers_are_accepted(exercise_id, name):
    assert diagnose(exercise_id, RIGHT[exercise_id][name]) is None


@pytest.mark.parametrize(("exercise_id", "answer", "diagnosis"), WRONG, ids=[f"{i} {words}" for i, _, words in WRONG])
def test_wrong_answers_are_told_what_is_wrong(exercise_id, answer, diagnosis):
    found = diagnose(exercise_id, answer)
    assert found is not None and diagnosis in found, found


@pytest.mark.parametrize("exercise_id", [i for i in RIGHT if i not in ("2.1", "2.6")])
def test_stubs_are_told_to_be_filled_in(exercise_id):
    assert diagnose(exercise_id, lambda *inputs: ...) == "not filled in yet"
    assert diagnose(exercise_id, lambda *inputs: None) == "not filled in yet"
