"""Right and wrong answers to the exercises of chapter 4."""

import functools
import math

import numpy as np
import torch

from . import Answers, Wrong

# ---- parameters -----------------------------------------------------------------------------------------------------


def count(d_model, num_heads, d_head=None):
    return 4 * d_model * num_heads * (d_model // num_heads if d_head is None else d_head)


def count_float(d_model, num_heads, d_head=None, bias=False):
    d_head = math.floor(d_model / num_heads) if d_head is None else d_head
    return torch.tensor(4.0 * d_model * num_heads * d_head)


# ---- split ----------------------------------------------------------------------------------------------------------


def split_by_chunk(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def split_einsum(x, num_heads):
    return torch.einsum("bnhd->bhnd", x.unflatten(-1, (num_heads, -1)))


# ---- Joining heads --------------------------------------------------------------------------------------------------


def join(heads, w_o):
    return torch.cat(list(heads), dim=-1) @ w_o


# ---- shuffle_test ---------------------------------------------------------------------------------------------------


def keeps_order(layer, x, order):
    return torch.allclose(layer(x[order]), layer(x)[order])


def keeps_order_numpy(layer, x, order, dim=0):
    return np.isclose(layer(x[order]).numpy(), layer(x).numpy()[order.numpy()]).all()


# ---- multi_head -----------------------------------------------------------------------------------------------------


def cut(t, num_heads):
    return t.reshape(t.size(0), num_heads, -1).transpose(0, 1)


def attend(x, w_q, w_k, w_v, w_o, num_heads, *, scale=None):
    q, k, v = (cut(x @ w, num_heads) for w in (w_q, w_k, w_v))
    scale = 1 / math.sqrt(q.size(-1)) if scale is None else scale
    weights = torch.softmax(q @ k.transpose(-2, -1) * scale, dim=-1)
    return (weights @ v).transpose(0, 1).reshape(x.size(0), -1) @ w_o, weights


def attend_head_by_head(x, w_q, w_k, w_v, w_o, num_heads):
    outputs, maps = 0, []
    for q, k, v, o in zip(*(w.chunk(num_heads, dim=1) for w in (w_q, w_k, w_v)), w_o.chunk(num_heads), strict=True):
        maps.append(torch.softmax((x @ q) @ (x @ k).T / q.size(1) ** 0.5, dim=-1))
        outputs = outputs + maps[-1] @ (x @ v) @ o
    return outputs, torch.stack(maps)


# ---- mask_for_torch -------------------------------------------------------------------------------------------------


def interleave(mask, num_heads):
    return ~mask.repeat_interleave(num_heads, dim=0)


def expand(mask, num_heads):
    return mask.logical_not()[:, None].expand(-1, num_heads, -1, -1).flatten(0, 1)


# ---- without_a_head -------------------------------------------------------------------------------------------------


def moved(heads, w_o, i):
    d_v = heads.size(-1)
    return (heads[i] @ w_o[i * d_v : (i + 1) * d_v]).norm(dim=-1)


def moved_by_difference(heads, w_o, i):
    without = heads.clone()
    without[i] = 0
    return torch.linalg.vector_norm(join(heads, w_o) - join(without, w_o), dim=-1)


# ---- debug_the_heads ------------------------------------------------------------------------------------------------


def repaired(x, w_q, w_k, w_v, w_o, num_heads, mask, *, cut=True, fill=-math.inf):
    batch, n, _ = x.shape
    d_head = w_q.size(1) // num_heads

    def heads_of(t):
        if cut:
            return t.reshape(batch, n, num_heads, d_head).transpose(1, 2)
        return t.reshape(batch, num_heads, n, d_head)

    q, k, v = (heads_of(x @ w) for w in (w_q, w_k, w_v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_head)
    weights = torch.softmax(scores.masked_fill(~mask[:, None], fill), dim=-1)
    return (weights @ v).transpose(1, 2).reshape(batch, n, -1) @ w_o


def repaired_renormalised(x, w_q, w_k, w_v, w_o, num_heads, mask):
    q, k, v = ((x @ w).unflatten(-1, (num_heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=-1) * mask[:, None]
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return (weights @ v).transpose(1, 2).flatten(2) @ w_o


BANK = {
    "parameters": Answers(
        right={"plain": count, "float tensor": count_float},
    ),
    "split": Answers(
        right={"chunks": split_by_chunk, "einsum": split_einsum},
    ),
    "head_one_gives_she": Answers(
        right={"fraction": 1 / (1 + 2 * math.exp(-2 / math.sqrt(2))), "tensor": torch.tensor(0.673)}
    ),
    "joined_shape": Answers(right={"list": [2, 10, 296], "shape": torch.empty(2, 10, 8 * 37).shape}),
    "shuffle_test": Answers(
        right={"plain": keeps_order, "NumPy": keeps_order_numpy},
        wrong=[
            Wrong("return True or False; got Tensor", lambda layer, x, order: layer(x[order]) - layer(x)[order]),
            Wrong("for each number", lambda layer, x, order: layer(x[order]).isclose(layer(x)[order])),
        ],
    ),
    "multi_head": Answers(
        right={"plain": attend, "head by head": attend_head_by_head},
    ),
    "mask_for_torch": Answers(right={"plain": interleave, "expand": expand}),
    "without_a_head": Answers(right={"plain": moved, "difference": moved_by_difference}),
    "debug_the_heads": Answers(
        right={"renormalised": repaired_renormalised, "finite fill": functools.partial(repaired, fill=-1e9)},
    ),
}
