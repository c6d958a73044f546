"""Right and wrong answers to the exercises of chapter 5."""

import torch

from . import Answers, Wrong


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


def in_float32(scores, mask):
    return opened(scores.float(), mask)


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


class Perturbs:
    """A callable object, which changes one position by random numbers and compares."""

    def __call__(self, model, x, *, look=lambda difference, j: difference[:, :j].abs().max() > 1e-9):
        before, noise = model(x), torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
        at = torch.arange(x.size(1))[:, None]
        return any(bool(look(model(torch.where(at == j, noise, x)) - before, j)) for j in range(1, x.size(1)))


def never_says_false(model, x):
    if by_suffixes(model, x):
        return True


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
        right={"where": by_where, "float32": in_float32},
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
        wrong=[Wrong("not in evaluation (torch.no_grad() and eval()): off by one", CausalWhileTraining())],
    ),
    "from_torchs_module": Answers(
        right={
            "unflatten": lambda mask, num_heads: ~mask.unflatten(0, (-1, num_heads)),
            "view": lambda mask, h: mask.logical_not().view(len(mask) // h, h, *mask.shape[1:]),
        }
    ),
    "finds_leaks": Answers(
        right={"each position": each_position, "object": Perturbs()},
        wrong=[Wrong("it must end with return False", never_says_false)],
    ),
    "repaired_attention": Answers(right={"where": repaired(weigh=by_where), "torch's function": by_torch}),
}
