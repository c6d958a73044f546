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


def queries(ids, pad):
    return (ids != pad)[:, None, :, None]


# ---- 5.3


def opened(scores, mask):
    some = mask.any(dim=-1, keepdim=True)
    return scores.masked_fill(~(mask | ~some), -torch.inf).softmax(-1).masked_fill(~some, 0.0)


def by_where(scores, mask):
    return torch.where(mask, torch.where(mask, scores, -torch.inf).softmax(-1), 0.0)


def by_exponentials(scores, mask):
    largest = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    exps = torch.where(mask, (torch.where(mask, scores, 0.0) - largest).clamp(max=0.0).exp(), 0.0)
    return exps / exps.sum(-1, keepdim=True).clamp(min=1e-300)


def added(scores, mask):
    return (scores + torch.zeros_like(scores).masked_fill(~mask, -torch.inf)).softmax(-1)


def filled(fill):
    return lambda scores, mask: scores.masked_fill(~mask, fill).softmax(-1)


def renormalised(scores, mask):
    weights = scores.softmax(-1) * mask
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)


def large_fill_then_zero(scores, mask):
    return filled(-1e9)(scores, mask) * mask


def naive_exponentials(scores, mask):
    exps = scores.exp() * mask
    return exps / exps.sum(-1, keepdim=True).clamp(min=1e-300)


def small_fill(scores, mask):
    return filled(scores.min().item() - 100)(scores, mask)


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


def with_numpy(scores, mask):
    return torch.from_numpy(opened(torch.from_numpy(scores.numpy()), mask).numpy())


def four_axes_only(scores, mask):
    batch, heads, m, n = scores.shape
    return opened(scores.view(batch, heads, m, n), mask)


def in_place(scores, mask):
    scores.masked_fill_(~mask, -torch.inf)
    return scores.softmax(-1).masked_fill(~mask, 0.0)


# ---- 5.7


def attend(query, key, value, allowed, *, weigh=opened, scale=None, head_axis=True):
    scores = query @ key.mT * (key.size(-1) ** -0.5 if scale is None else scale)
    return weigh(scores, allowed[:, None] if head_axis else allowed) @ value


def as_given(query, key, value, allowed):
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.size(-1))
    scores = scores.masked_fill(allowed, -1e9)
    return scores.softmax(dim=-1) @ value


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


def only_in_training(mask_of, without):
    """Right while gradients are recorded, and another mask or none in evaluation."""
    return lambda *inputs: (mask_of if torch.is_grad_enabled() else without)(*inputs)


class CausalWhileTraining(torch.nn.Module):
    def forward(self, ids, pad):
        n = ids.size(1)
        return keys(ids, pad) & ones(n, n).tril(0 if self.training else 1)


# ---- 5.6


def by_suffixes(model, x):
    before = model(x)
    for j in range(1, x.size(1)):
        changed = x.clone()
        changed[:, j:] = changed[:, j:].flip(0) + 1.0
        if (model(changed) - before)[:, :j].abs().max() > 1e-9:
            return True
    return False


def each_position(model, x):
    before = model(x)
    return any(
        not torch.equal(model(x + (torch.arange(x.size(1)) == j)[:, None] * 1.7)[:, :j], before[:, :j])
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


def by_gradients(model, x):
    jacobian = torch.autograd.functional.jacobian(model, x)  # (batch, n, d, batch, n, d)
    influence = jacobian.abs().sum(dim=(0, 2, 3, 5))
    return bool((influence.triu(1) > 0).any())


def last_changed(model, x):
    changed = x.clone()
    changed[:, -1] += 1.0
    return bool((model(changed) - model(x))[:, :-1].abs().max() > 1e-9)


def neighbours_only(model, x):
    before = model(x)
    for j in range(1, x.size(1)):
        changed = x.clone()
        changed[:, j] += 1.0
        if (model(changed) - before)[:, j - 1].abs().max() > 1e-9:
            return True
    return False


def coarse(model, x):
    before = model(x)
    for j in range(1, x.size(1)):
        changed = x.clone()
        changed[:, j] += 1.0
        if (model(changed) - before)[:, :j].abs().max() > 1e-2:
            return True
    return False


def own_output_too(model, x):
    before = model(x)
    for j in range(1, x.size(1)):
        changed = x.clone()
        changed[:, j] += 1.0
        if (model(changed) - before)[:, : j + 1].abs().max() > 1e-9:
            return True
    return False


class Perturbs:
    """A callable object, which changes one position by random numbers and compares."""

    def __call__(self, model, x, *, look=lambda difference, j: difference[:, :j].abs().max() > 1e-9):
        before, noise = model(x), torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
        at = torch.arange(x.size(1))[:, None]
        return any(bool(look(model(torch.where(at == j, noise, x)) - before, j)) for j in range(1, x.size(1)))


def perturbs(**settings):
    return lambda model, x: Perturbs()(model, x, **settings)


def one_feature_only(model, x):
    before = model(x)
    for j in range(1, x.size(1)):
        changed = x.clone()
        changed[:, j, 0] += 1.0
        if (model(changed) - before)[:, :j].abs().max() > 1e-9:
            return True
    return False


def puts_in_nan(model, x):
    at = torch.arange(x.size(1))[:, None]
    return any(bool(model(x.masked_fill(at == j, torch.nan))[:, :j].isnan().any()) for j in range(1, x.size(1)))


def never_says_false(model, x):
    if by_suffixes(model, x):
        return True


def skips_neighbours(model, x):
    before = model(x)
    for j in range(2, x.size(1)):
        changed = x.clone()
        changed[:, j] += 1.0
        if (model(changed) - before)[:, : j - 1].abs().max() > 1e-9:
            return True
    return False


def changes_x(model, x):
    before = model(x)
    for j in range(1, x.size(1)):
        x[:, j] += 1.0
        if (model(x) - before)[:, :j].abs().max() > 1e-9:
            return True
    return False


RIGHT = {
    "5.1": {
        "plain": lambda ids, pad_id: (ids != pad_id)[:, None, None, :],
        "unsqueeze": lambda ids, pad_id: ids.ne(pad_id).unsqueeze(1).unsqueeze(2),
        "view": lambda ids, pad_id: ~(ids == pad_id).view(len(ids), 1, 1, -1),
        "numbers": lambda ids, pad_id, device=None: (ids - pad_id).bool()[:, None, None],
        "loop": lambda ids, pad_id: torch.tensor([[[[t != pad_id for t in row]]] for row in ids.tolist()]),
    },
    "5.2": {
        "positions": lambda m, n: torch.arange(n)[None, :] <= torch.arange(m)[:, None] + (n - m),
        "tril": lambda m, n: ones(m, n).tril(n - m),
        "triu": lambda m, n: ~torch.triu(torch.ones(m, n), diagonal=n - m + 1).bool(),
        "lists": lambda m, n: torch.tensor([[j <= i + n - m for j in range(n)] for i in range(m)]),
        "from the end": lambda m, n: torch.arange(n - 1, -1, -1) >= torch.arange(m - 1, -1, -1)[:, None],
    },
    "5.3": {
        "opened": opened,
        "where": by_where,
        "exponentials": by_exponentials,
        "float32": in_float32,
        "row by row": row_by_row,
        "logsumexp": by_logsumexp,
        "NaN overwritten where masked_fill stops it": lambda s, mask: filled(-torch.inf)(s, mask).nan_to_num(0.0),
        "lowest finite number": lambda s, mask: filled(torch.finfo(s.dtype).min)(s, mask) * mask,
    },
    "5.4": {
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
    "5.5": {
        "in place": lambda mask, num_heads: (~mask).repeat_interleave(num_heads, dim=0),
        "expand": lambda mask, num_heads: ~mask[:, None].expand(-1, num_heads, -1, -1).flatten(0, 1),
        "stack": lambda mask, num_heads: torch.stack([mask] * num_heads, dim=1).logical_not().flatten(0, 1),
        "index": lambda mask, num_heads: ~mask[torch.arange(len(mask) * num_heads) // num_heads],
        "kron": lambda mask, num_heads: torch.kron(~mask, ones(num_heads, 1)[:, None]),
        "repeat along m": lambda mask, num_heads: (~mask).repeat(1, num_heads, 1).reshape(-1, *mask.shape[1:]),
    },
    "5.6": {
        "suffixes": by_suffixes,
        "each position": each_position,
        "prefixes": by_prefixes,
        "shorter": by_shorter_inputs,
        "object": Perturbs(),
        "NumPy's True": lambda model, x: np.bool_(by_suffixes(model, x)),
        "as a tensor": lambda model, x: torch.tensor(by_suffixes(model, x)),
        "first text only": perturbs(look=lambda difference, j: (difference[0, :j] != 0).any()),
    },
    "5.7": {
        "plain": repaired(),
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
    # 5.1
    Wrong("5.1", "your mask is the wrong way round", lambda ids, pad: ~keys(ids, pad), mistake=7),
    Wrong("5.1", "two axes are missing", lambda ids, pad: ids != pad),
    Wrong("5.1", "this closes queries", queries),
    Wrong("5.1", "closed the padding as queries too", lambda ids, pad: keys(ids, pad) & queries(ids, pad), mistake=12),
    Wrong("5.1", "written out for every query", lambda ids, pad: keys(ids, pad).expand(-1, 1, ids.size(1), -1)),
    Wrong("5.1", "you compared with 0", lambda ids, pad: keys(ids, 0)),
    Wrong("5.1", "you compared with >", lambda ids, pad: (ids > pad)[:, None, None]),
    Wrong("5.1", "you compared with <", lambda ids, pad: (ids < pad)[:, None, None]),
    Wrong(
        "5.1",
        "you counted the tokens",
        lambda ids, pad: (torch.arange(ids.size(1)) < (ids != pad).sum(1, keepdim=True))[:, None, None],
    ),
    Wrong("5.1", "holds the numbers 0 and 1", lambda ids, pad: keys(ids, pad).double()),
    Wrong(
        "5.1",
        "a float mask of 0 and minus infinity",
        lambda ids, pad: torch.zeros(len(ids), 1, 1, ids.size(1)).masked_fill(~keys(ids, pad), -torch.inf),
    ),
    Wrong("5.1", "closes nothing", lambda ids, pad: torch.ones_like(keys(ids, pad))),
    Wrong("5.1", "must have shape (batch, 1, 1, n)", lambda ids, pad: (ids != pad)[None, None]),
    Wrong("5.1", "the padding of the first", lambda ids, pad: keys(ids[:1], pad).expand(len(ids), 1, 1, -1)),
    Wrong("5.1", "invalid for input of size", lambda ids, pad: (ids != pad).reshape(3, 1, 1, 5)),
    # 5.2
    Wrong("5.2", "one key of the future", lambda m, n: ones(m, n).tril(n - m + 1), mistake=14),
    Wrong("5.2", "does not see its own position", lambda m, n: ones(m, n).tril(n - m - 1)),
    Wrong("5.2", "wrong way round", lambda m, n: ones(m, n).triu(n - m + 1), mistake=7),
    Wrong("5.2", "you kept the upper triangle", lambda m, n: ones(m, n).triu(n - m)),
    Wrong("5.2", "aligned upper left: query i stands at", lambda m, n: ones(m, n).tril()),
    Wrong("5.2", "the shift has the wrong sign", lambda m, n: ones(m, n).tril(m - n)),
    Wrong("5.2", "queries and keys are swapped", lambda m, n: ones(n, m).tril(m - n)),
    Wrong("5.2", "closes nothing", ones, mistake=14),
    Wrong("5.2", "closes everything", lambda m, n: ~ones(m, n)),
    Wrong("5.2", "holds the numbers 0 and 1", lambda m, n: torch.ones(m, n).tril(n - m)),
    Wrong("5.2", "must have shape (m, n)", lambda m, n: ones(m, m).tril()),
    Wrong("5.2", "come before all keys", lambda m, n: ones(m, n).tril(n - m) | (torch.arange(m)[:, None] < m - n)),
    Wrong("5.2", "m=7, n=3", lambda m, n: ones(m, n).tril(max(n - m, 0))),
    Wrong("5.2", "cells are not", lambda m, n: torch.eye(m, n, dtype=torch.bool)),
    # 5.3
    Wrong("5.3", "came out as NaN", added, mistake=11),
    Wrong("5.3", "got equal weights", filled(-1e9)),
    Wrong("5.3", "score 0, and exp(0) is 1", filled(1e-9), mistake=13),
    Wrong("5.3", "zero after the softmax", lambda s, mask: s.softmax(-1) * mask, mistake=6),
    Wrong("5.3", "runs over the queries", lambda s, mask: s.masked_fill(~mask, -torch.inf).softmax(-2), mistake=5),
    Wrong("5.3", "the wrong way round", lambda s, mask: opened(s, ~mask), mistake=7),
    Wrong("5.3", "True counts as 1", lambda s, mask: (s + mask).softmax(-1), mistake=8),
    Wrong("5.3", "adds 1 to the closed keys", lambda s, mask: (s + ~mask).softmax(-1)),
    Wrong("5.3", "your mask has no effect", lambda s, mask: s.softmax(-1)),
    Wrong("5.3", "the gradients are NaN", lambda s, mask: added(s, mask).nan_to_num(), mistake=11),
    Wrong("5.3", "your fill is a finite number", large_fill_then_zero),
    Wrong("5.3", "large ones overflow", naive_exponentials),
    Wrong("5.3", "where one is 2000 above", renormalised, mistake=6),
    Wrong("5.3", "no gradient gets through", lambda s, mask: opened(s.detach(), mask)),
    Wrong("5.3", "changed its arguments (scores)", in_place),
    Wrong("5.3", "too small by a factor", lambda s, mask: opened(s / math.sqrt(s.size(-1)), mask)),
    Wrong("5.3", "these are the scores, the softmax is missing", lambda s, mask: s),
    Wrong("5.3", "zeros at the closed keys", lambda s, mask: s * mask, mistake=6),
    Wrong("5.3", "closed keys must get exactly 0", small_fill),
    Wrong("5.3", "NaN everywhere", lambda s, mask: (s + ~mask * -torch.inf).softmax(-1), mistake=11),
    Wrong("5.3", "runs over the second axis", lambda s, mask: s.masked_fill(~mask, -torch.inf).softmax(1), mistake=5),
    Wrong("5.3", "runs over the first axis", lambda s, mask: s.masked_fill(~mask, -torch.inf).softmax(0), mistake=5),
    Wrong("5.3", "these are the masked scores", lambda s, mask: s.masked_fill(~mask, -torch.inf)),
    Wrong("5.3", "logarithms of the weights", lambda s, mask: s.masked_fill(~mask, -torch.inf).log_softmax(-1)),
    Wrong("5.3", "Can't call numpy()", with_numpy),
    Wrong("5.3", "raised NotImplementedError", lambda s, mask: opened(s, mask.double())),
    Wrong("5.3", "not enough values to unpack", four_axes_only),
    Wrong(
        "5.3", "not for a single matrix", lambda s, mask: opened(s, mask) if s.dim() > 2 else opened(s.mT, mask.mT).mT
    ),
    # 5.4
    Wrong("5.4", "you joined the two by OR", lambda ids, pad: keys(ids, pad) | past(ids.size(1))),
    Wrong(
        "5.4",
        "the future is open",
        lambda ids, pad: keys(ids, pad).expand(-1, 1, ids.size(1), -1),
        mistake=14,
    ),
    Wrong("5.4", "padding is open", lambda ids, pad: past(ids.size(1)).expand(len(ids), 1, -1, -1)),
    Wrong("5.4", "differ from text to text", lambda ids, pad: past(ids.size(1))),
    Wrong(
        "5.4",
        "closed the padding as queries too",
        lambda ids, pad: keys(ids, pad) & queries(ids, pad) & past(ids.size(1)),
        mistake=12,
    ),
    Wrong("5.4", "the padding's queries in place of", lambda ids, pad: queries(ids, pad) & past(ids.size(1))),
    Wrong("5.4", "only padding is open", lambda ids, pad: ~keys(ids, pad) & past(ids.size(1)), mistake=7),
    Wrong("5.4", "only the future is open", lambda ids, pad: keys(ids, pad) & ~past(ids.size(1)), mistake=7),
    Wrong("5.4", "you kept the upper triangle", lambda ids, pad: keys(ids, pad) & past(ids.size(1)).mT),
    Wrong(
        "5.4",
        "sees one key of the future",
        lambda ids, pad: keys(ids, pad) & ones(ids.size(1), ids.size(1)).tril(1),
        mistake=14,
    ),
    Wrong("5.4", "does not see its own position", lambda ids, pad: keys(ids, pad) & past(ids.size(1)).tril(-1)),
    Wrong("5.4", "your mask is the wrong way round", lambda ids, pad: ~(keys(ids, pad) & past(ids.size(1)))),
    Wrong("5.4", "you compared with 0", lambda ids, pad: keys(ids, 0) & past(ids.size(1))),
    Wrong("5.4", "the axis of the heads is missing", lambda ids, pad: keys(ids, pad)[:, 0] & past(ids.size(1))),
    Wrong("5.4", "must have shape (batch, 1, n, n)", keys),
    Wrong("5.4", "you compared with >", lambda ids, pad: (ids > pad)[:, None, None] & past(ids.size(1))),
    Wrong(
        "5.4",
        "you counted the tokens",
        lambda ids, pad: (
            (torch.arange(ids.size(1)) < (ids != pad).sum(1, keepdim=True))[:, None, None] & past(ids.size(1))
        ),
    ),
    Wrong(
        "5.4",
        "the padding of the first",
        lambda ids, pad: (keys(ids[:1], pad) & past(ids.size(1))).repeat(len(ids), 1, 1, 1),
    ),
    Wrong("5.4", "queries and keys are swapped", lambda ids, pad: (keys(ids, pad) & past(ids.size(1))).mT),
    Wrong(
        "5.4",
        "you opened the diagonal",
        lambda ids, pad: keys(ids, pad) & past(ids.size(1)) | torch.eye(ids.size(1), dtype=torch.bool),
    ),
    Wrong(
        "5.4",
        "rows without any open key",
        lambda ids, pad: keys(ids, pad) & past(ids.size(1)) | (keys(ids, pad).cumsum(-1) == 0).mT,
    ),
    Wrong("5.4", "must match the size", lambda ids, pad: keys(ids, pad) & past(5)),
    # 5.5
    Wrong("5.5", "the texts stand in the wrong order", lambda mask, h: (~mask).repeat(h, 1, 1), mistake=10),
    Wrong("5.5", "not inverted: torch's module", lambda mask, h: mask.repeat_interleave(h, 0), mistake=7),
    Wrong("5.5", "two faults at once", lambda mask, h: mask.repeat(h, 1, 1)),
    Wrong("5.5", "the heads are missing", lambda mask, h: ~mask),
    Wrong("5.5", "must share one axis", lambda mask, h: ~mask[:, None].expand(-1, h, -1, -1)),
    Wrong("5.5", "repeat each text's mask", lambda mask, h: ~mask[:, None]),
    Wrong("5.5", "holds the numbers 0 and 1", lambda mask, h: (~mask).repeat_interleave(h, 0).double()),
    Wrong(
        "5.5",
        "a float mask of 0 and minus infinity",
        lambda mask, h: torch.zeros(mask.shape).masked_fill(~mask, -torch.inf).repeat_interleave(h, 0),
    ),
    Wrong("5.5", "must have shape (batch * heads, m, n)", lambda mask, h: (~mask).mT.repeat_interleave(h, 0)),
    # 5.6
    Wrong("5.6", "finds no leak in any model", lambda model, x: False),
    Wrong("5.6", "finds a leak in every model", lambda model, x: True),
    Wrong("5.6", "turn it around", lambda model, x: not by_suffixes(model, x)),
    Wrong("5.6", "it misses a leak that passes through detach()", by_gradients),
    Wrong("5.6", "it misses a leak between two positions in the middle", last_changed),
    Wrong("5.6", "only from the last position to the first", neighbours_only),
    Wrong("5.6", "it misses a weak leak", coarse),
    Wrong("5.6", "it calls a running sum leaky", own_output_too),
    Wrong("5.6", "it calls attention with a causal mask leaky", puts_in_nan),
    Wrong("5.6", "through one of the d features", one_feature_only),
    Wrong("5.6", "cancel in a sum", perturbs(look=lambda difference, j: difference[:, :j].sum() > 1e-9)),
    Wrong("5.6", "it must end with return False", never_says_false),
    Wrong("5.6", "it misses a causal mask that is one diagonal too wide", skips_neighbours),
    Wrong("5.6", "changed its arguments (x)", changes_x),
    Wrong("5.6", "return True or False", lambda model, x: "no"),
    # 5.7
    Wrong("5.7", "two faults at once", as_given),
    Wrong("5.7", "the mask's first axis meets the heads", repaired(head_axis=False), mistake=15),
    Wrong("5.7", "your mask is the wrong way round", lambda q, k, v, a: attend(q, k, v, ~a), mistake=7),
    Wrong("5.7", "averages all values", repaired(weigh=filled(-1e9)), mistake=13),
    Wrong("5.7", "came out as NaN", repaired(weigh=filled(-torch.inf)), mistake=11),
    Wrong("5.7", "does not fit into float16", repaired(weigh=large_fill_then_zero), mistake=13),
    Wrong("5.7", "the gradients are NaN", lambda q, k, v, a: attend(q, k, v, a, weigh=added).nan_to_num(), mistake=11),
    Wrong("5.7", "you did not scale them", repaired(scale=1.0)),
    Wrong("5.7", "zero after the softmax", repaired(weigh=lambda s, mask: s.softmax(-1) * mask), mistake=6),
    Wrong("5.7", "large ones overflow", repaired(weigh=naive_exponentials)),
    Wrong("5.7", "where one is 2000 above", repaired(weigh=renormalised), mistake=6),
    Wrong("5.7", "NaN everywhere", repaired(weigh=lambda s, mask: (s + ~mask * -torch.inf).softmax(-1)), mistake=11),
    Wrong("5.7", "no gradient gets through", torch.no_grad()(repaired())),
    Wrong("5.7", "nearly right", lambda q, k, v, a: attend(q.half(), k.half(), v.half(), a)),
    Wrong("5.7", "must have shape (batch, heads, m, d_v)", lambda q, k, v, a: opened(q @ k.mT, a[:, None])),
    Wrong("5.2", "not in evaluation", only_in_training(lambda m, n: ones(m, n).tril(n - m), ones), mistake=14),
    Wrong(
        "5.3",
        "right in training, but not in evaluation",
        only_in_training(opened, lambda scores, mask: scores.softmax(-1)),
    ),
    Wrong(
        "5.4",
        "not in evaluation (torch.no_grad() and eval()): the future is open",
        only_in_training(
            lambda ids, pad: keys(ids, pad) & past(ids.size(1)),
            lambda ids, pad: keys(ids, pad).expand(-1, -1, ids.size(1), -1),
        ),
        mistake=14,
    ),
    Wrong("5.4", "not in evaluation (torch.no_grad() and eval()): off by one", CausalWhileTraining(), mistake=14),
    Wrong(
        "5.7",
        "not in evaluation (torch.no_grad() and eval()): your mask has no effect",
        only_in_training(repaired(), lambda q, k, v, allowed: attend(q, k, v, torch.ones_like(allowed))),
    ),
    Wrong("5.7", "you added a boolean mask", repaired(weigh=lambda s, mask: (s + mask).softmax(-1)), mistake=8),
]
