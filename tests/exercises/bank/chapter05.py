"""Right and wrong answers to the exercises of chapter 5."""

import math

import numpy as np
import torch

from . import Wrong


def ones(m, n):
    return torch.ones(m, n, dtype=torch.bool)


def past(n):
    return ones(n, n).tril()


def keys(ids, pad):
    return (ids != pad)[:, None, None, :]


# ---- surviving_softmax ----------------------------------------------------------------------------------------------


def opened(scores, mask):
    some = mask.any(dim=-1, keepdim=True)
    return scores.masked_fill(~(mask | ~some), -torch.inf).softmax(-1).masked_fill(~some, 0.0)


def by_where(scores, mask):
    return torch.where(mask, torch.where(mask, scores, -torch.inf).softmax(-1), 0.0)


def by_exponentials(scores, mask):
    largest = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    exps = torch.where(mask, (torch.where(mask, scores, 0.0) - largest).clamp(max=0.0).exp(), 0.0)
    return exps / exps.sum(-1, keepdim=True).clamp(min=1e-300)


def filled(fill):
    return lambda scores, mask: scores.masked_fill(~mask, fill).softmax(-1)


def in_float32(scores, mask):
    return opened(scores.float(), mask)


def row_by_row(scores, mask):
    weights = torch.zeros_like(scores)
    mask = mask.expand(scores.shape)
    for place in mask.any(-1).nonzero().tolist():
        row = tuple(place)
        weights[row] = weights[row].masked_scatter(mask[row], scores[row][mask[row]].softmax(0))
    return weights + 0 * scores


def by_logsumexp(scores, mask):
    some = mask.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~mask & some, -torch.inf)
    return (scores - scores.logsumexp(-1, keepdim=True)).exp() * some


# ---- repaired_attention ---------------------------------------------------------------------------------------------


def attend(query, key, value, allowed, *, weigh=opened, scale=None, head_axis=True):
    scores = query @ key.mT * (key.size(-1) ** -0.5 if scale is None else scale)
    return weigh(scores, allowed[:, None] if head_axis else allowed) @ value


def repaired(**settings):
    return lambda query, key, value, allowed: attend(query, key, value, allowed, **settings)


def by_torch(query, key, value, allowed):
    some = allowed.any(-1, keepdim=True)[:, None]
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed[:, None] | ~some)
    return out * some


def one_query_at_a_time(query, key, value, allowed):
    out = query.new_zeros(*query.shape[:3], value.size(-1))
    for b, i in allowed.any(-1).nonzero().tolist():
        keep = allowed[b, i]
        scores = torch.einsum("hd,hnd->hn", query[b, :, i], key[b][:, keep]) * key.size(-1) ** -0.5
        out[b, :, i] = torch.einsum("hn,hnv->hv", scores.softmax(-1), value[b][:, keep])
    return out


class CausalWhileTraining(torch.nn.Module):
    def forward(self, ids, pad):
        n = ids.size(1)
        return keys(ids, pad) & ones(n, n).tril(0 if self.training else 1)


# ---- finds_leaks ----------------------------------------------------------------------------------------------------


def by_suffixes(model, x):
    before = model(x)
    for j in range(1, x.size(1)):
        changed = x.clone()
        changed[:, j:] = torch.randn_like(changed[:, j:])
        if (model(changed) - before)[:, :j].abs().max() > 1e-9:
            return True
    return False


def each_position(model, x):
    before, much = model(x), torch.linspace(1, 2, x.size(2))
    return any(
        not torch.equal(model(x + (torch.arange(x.size(1)) == j)[:, None] * much)[:, :j], before[:, :j])
        for j in range(1, x.size(1))
    )


def by_prefixes(model, x):
    whole = model(x)
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    worst = torch.tensor(0.0)
    for i in range(x.size(1) - 1):
        mixed = torch.where((torch.arange(x.size(1)) <= i)[:, None], x, noise)
        worst = torch.maximum(worst, (model(mixed) - whole)[:, i].abs().max())
    return worst > 1e-8


def by_shorter_inputs(model, x):
    whole = model(x)
    return any(not torch.allclose(model(x[:, :n]), whole[:, :n]) for n in range(1, x.size(1)))


class Perturbs:
    """A callable object, which changes one position by random numbers and compares."""

    def __call__(self, model, x, *, look=lambda difference, j: difference[:, :j].abs().max() > 1e-9):
        before, noise = model(x), torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
        at = torch.arange(x.size(1))[:, None]
        return any(bool(look(model(torch.where(at == j, noise, x)) - before, j)) for j in range(1, x.size(1)))


def perturbs(**settings):
    return lambda model, x: Perturbs()(model, x, **settings)


def never_says_false(model, x):
    if by_suffixes(model, x):
        return True


RIGHT = {
    "padding_from_ids": {
        "unsqueeze": lambda ids, pad_id: ids.ne(pad_id).unsqueeze(1).unsqueeze(2),
        "view": lambda ids, pad_id: ~(ids == pad_id).view(len(ids), 1, 1, -1),
        "numbers": lambda ids, pad_id, device=None: (ids - pad_id).bool()[:, None, None],
        "loop": lambda ids, pad_id: torch.tensor([[[[t != pad_id for t in row]]] for row in ids.tolist()]),
    },
    "causal": {
        "positions": lambda m, n: torch.arange(n)[None, :] <= torch.arange(m)[:, None] + (n - m),
        "tril": lambda m, n: ones(m, n).tril(n - m),
        "triu": lambda m, n: ~torch.triu(torch.ones(m, n), diagonal=n - m + 1).bool(),
        "lists": lambda m, n: torch.tensor([[j <= i + n - m for j in range(n)] for i in range(m)]),
        "from the end": lambda m, n: torch.arange(n - 1, -1, -1) >= torch.arange(m - 1, -1, -1)[:, None],
    },
    "surviving_softmax": {
        "where": by_where,
        "exponentials": by_exponentials,
        "float32": in_float32,
        "row by row": row_by_row,
        "logsumexp": by_logsumexp,
        "NaN overwritten where masked_fill stops it": lambda s, mask: filled(-torch.inf)(s, mask).nan_to_num(0.0),
        "lowest finite number": lambda s, mask: filled(torch.finfo(s.dtype).min)(s, mask) * mask,
    },
    "decoder_mask": {
        "and": lambda ids, pad_id: keys(ids, pad_id) & past(ids.size(1)),
        "product": lambda ids, pad_id: keys(ids, pad_id) * past(ids.size(1)),
        "de Morgan": lambda ids, pad_id: ~(~keys(ids, pad_id) | ones(ids.size(1), ids.size(1)).triu(1)),
        "einsum": lambda ids, pad_id: torch.einsum(
            "bj,ij->bij", (ids != pad_id).float(), past(ids.size(1)).float()
        ).bool()[:, None],
        "tril of the repeated": lambda ids, pad_id: keys(ids, pad_id).repeat(1, 1, ids.size(1), 1).tril(),
        "loop": lambda ids, pad_id: torch.tensor(
            [[[[bool(row[j] != pad_id) and j <= i for j in range(len(row))] for i in range(len(row))]] for row in ids]
        ),
    },
    "from_torchs_module": {
        "unflatten": lambda mask, num_heads: ~mask.unflatten(0, (-1, num_heads)),
        "view": lambda mask, h: mask.logical_not().view(len(mask) // h, h, *mask.shape[1:]),
        "index": lambda mask, h: ~mask[torch.arange(len(mask) // h)[:, None] * h + torch.arange(h)],
        "stack": lambda mask, num_heads: torch.stack([~mask[head::num_heads] for head in range(num_heads)], dim=1),
        "split": lambda mask, num_heads: torch.stack(mask.split(num_heads)) == 0,
    },
    "finds_leaks": {
        "each position": each_position,
        "prefixes": by_prefixes,
        "shorter": by_shorter_inputs,
        "object": Perturbs(),
        "NumPy's True": lambda model, x: np.bool_(by_suffixes(model, x)),
        "as a tensor": lambda model, x: torch.tensor(by_suffixes(model, x)),
        "first text only": perturbs(look=lambda difference, j: (difference[0, :j] != 0).any()),
    },
    "repaired_attention": {
        "where": repaired(weigh=by_where),
        "zero after": lambda q, k, v, allowed: (
            attend(q, k, v, allowed | ~allowed.any(-1, keepdim=True)) * allowed.any(-1)[:, None, :, None]
        ),
        "torch's function": by_torch,
        "one query at a time": one_query_at_a_time,
        "float32": lambda q, k, v, allowed: attend(q.float(), k.float(), v.float(), allowed).to(v.dtype),
    },
}

WRONG = [
    Wrong("causal", "cells are not", lambda m, n: torch.eye(m, n, dtype=torch.bool)),
    Wrong("surviving_softmax", "too small by a factor", lambda s, mask: opened(s / math.sqrt(s.size(-1)), mask)),
    Wrong("surviving_softmax", "raised NotImplementedError", lambda s, mask: opened(s, mask.double())),
    Wrong(
        "surviving_softmax",
        "not for a single matrix",
        lambda s, mask: opened(s, mask) if s.dim() > 2 else opened(s.mT, mask.mT).mT,
    ),
    Wrong("from_torchs_module", "holds the numbers 0 and 1", lambda mask, h: (~mask).unflatten(0, (-1, h)).double()),
    Wrong("finds_leaks", "it must end with return False", never_says_false),
    Wrong("decoder_mask", "not in evaluation (torch.no_grad() and eval()): off by one", CausalWhileTraining()),
]
