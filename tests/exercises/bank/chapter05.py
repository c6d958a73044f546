"""Right and wrong answers to the exercises of chapter 5."""

import numpy as np
import torch

from . import Answers, Wrong


def past(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


def keys(ids, pad):
    return (ids != pad)[:, None, None, :]


# ---- surviving_softmax ----------------------------------------------------------------------------------------------


def opened(scores, mask):
    some = mask.any(dim=-1, keepdim=True)
    return scores.masked_fill(~(mask | ~some), -torch.inf).softmax(-1).masked_fill(~some, 0.0)


def by_where(scores, mask):
    return torch.where(mask, torch.where(mask, scores, -torch.inf).softmax(-1), 0.0)


# ---- repaired_attention ---------------------------------------------------------------------------------------------


def repaired(query, key, value, allowed):
    return by_where(query @ key.mT * key.size(-1) ** -0.5, allowed[:, None]) @ value


def by_torch(query, key, value, allowed):
    some = allowed.any(-1, keepdim=True)[:, None]
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed[:, None] | ~some)
    return out * some


# ---- finds_leaks ----------------------------------------------------------------------------------------------------


def by_suffixes(model, x):
    before = model(x)
    for j in range(1, x.size(1)):
        changed = x.clone()
        changed[:, j:] = torch.randn_like(changed[:, j:])
        if (model(changed) - before)[:, :j].abs().max() > 1e-9:
            return True
    return False


class Perturbs:
    """A callable object, which changes one position by random numbers and compares; NumPy's True and False."""

    def __call__(self, model, x):
        at = torch.arange(x.size(1))[:, None]
        changes = (model(torch.where(at == j, torch.randn_like(x), x)) - model(x) for j in range(1, x.size(1)))
        return np.any([(change[:, :j].abs() > 1e-9).any().item() for j, change in enumerate(changes, 1)])


BANK = {
    "padding_from_ids": Answers(
        right={
            "unsqueeze": lambda ids, pad_id: ids.ne(pad_id).unsqueeze(1).unsqueeze(2),
            "view": lambda ids, pad_id: ~(ids == pad_id).view(len(ids), 1, 1, -1),
        }
    ),
    "causal": Answers(
        right={
            "positions": lambda m, n: torch.arange(n)[None, :] <= torch.arange(m)[:, None] + (n - m),
            "lists": lambda m, n: torch.tensor([[j <= i + n - m for j in range(n)] for i in range(m)]),
        },
    ),
    "surviving_softmax": Answers(
        right={"where": by_where, "float32": lambda scores, mask: opened(scores.float(), mask)},
        wrong=[
            Wrong(
                "not for a single matrix", lambda s, mask: opened(s, mask) if s.dim() > 2 else opened(s.mT, mask.mT).mT
            )
        ],
    ),
    "decoder_mask": Answers(
        right={
            "and": lambda ids, pad_id: keys(ids, pad_id) & past(ids.size(1)),
            "product": lambda ids, pad_id: keys(ids, pad_id) * past(ids.size(1)),
        },
    ),
    "from_torchs_module": Answers(
        right={
            "unflatten": lambda mask, num_heads: ~mask.unflatten(0, (-1, num_heads)),
            "view": lambda mask, h: mask.logical_not().view(len(mask) // h, h, *mask.shape[1:]),
        }
    ),
    "finds_leaks": Answers(
        right={"suffixes": by_suffixes, "object": Perturbs()},
        wrong=[Wrong("return True or False; got str", lambda model, x: "leaky")],
    ),
    "repaired_attention": Answers(right={"where": repaired, "torch's function": by_torch}),
}
