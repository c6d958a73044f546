"""Right and wrong answers to the exercises of chapter 7."""

import torch
import torch.nn.functional as F

from attention_tutorial.analysis.agreement import close
from attention_tutorial.data.copying import shift_right

from . import Wrong


def in_place(target, begin):
    ids = target.clone()
    ids[:, 1:] = target[:, :-1]
    ids[:, 0] = begin
    return ids


def by_lists(written, asked):
    def cut(row):
        return row[: row.index(2) + 1] if 2 in row else row

    pairs = zip(written.tolist(), asked.tolist(), strict=True)
    return sum(cut(a) == cut(b) for a, b in pairs) / len(written)


def as_tensor(written, asked):
    return torch.tensor(by_lists(written, asked))


def cross(x, memory, w_q, w_k):
    return torch.softmax(torch.einsum("bmk,bnk->bmn", x @ w_q, memory @ w_k) * w_q.size(1) ** -0.5, -1)


def edge_in_a_loop(rows, columns, m, n):
    mask = torch.ones(len(rows), m, n, dtype=torch.bool)
    for b, (i, j) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        if j >= 0:
            mask[b, i, j] = False
    return mask


RIGHT = {
    "7.1": {
        "the package's": shift_right,
        "in place": in_place,
        "padded": lambda target, begin: F.pad(target[:, :-1], (1, 0), value=begin),
    },
    "7.2": {
        "two parts": lambda layers, d, n, m: layers * (2 * n * d + 2 * m * d),
        "tensor": lambda layers, d, n, m: torch.tensor(2 * layers * d * (n + m)),
    },
    "7.3": {"einsum": cross, "float32": lambda *inputs: cross(*(x.float() for x in inputs))},
    "7.4": {
        "by hand": lambda x, a, b: x
        + ((x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt() @ a).clamp(min=0) @ b,
        "float32": lambda x, a, b: (x + F.relu(F.layer_norm(x, (x.size(-1),)) @ a) @ b).float(),
    },
    "7.5": {"lists": by_lists, "tensor": as_tensor},
    "7.6": {"the package's": close, "loop": edge_in_a_loop},
}  # fmt: skip

WRONG = [
    Wrong("7.1", "it is not the right result", lambda target, begin: torch.full_like(target, begin)),
    Wrong("7.2", "it is not the right result", lambda layers, d, n, m: 7),
    Wrong("7.3", "sum", lambda x, memory, w_q, w_k: 2 * cross(x, memory, w_q, w_k)),
    Wrong("7.4", "it is not the right result", lambda x, a, b: x),
    Wrong("7.5", "it is not the right result", lambda written, asked: 0.123),
    Wrong("7.6", "cells are not right", lambda rows, columns, m, n: torch.ones(len(rows), m, n, dtype=torch.bool)),
]
