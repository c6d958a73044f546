"""Right and wrong answers to the exercises of chapter 1."""

import math

import numpy as np
import torch

from . import Answers, Wrong


def rnn(inputs, w, u):
    h, states = 0.0, []
    for x in inputs:
        h = math.tanh(w * x + u * h)
        states.append(h)
    return states


class Rnn:
    def __call__(self, inputs, w, u, h=0.0):
        states = np.zeros(len(inputs), dtype=np.float32)
        for j, x in enumerate(inputs):
            h = states[j] = np.tanh(w * x + u * h)
        return states


def attend(s, h):
    powers = (h @ s).exp()
    weights = powers / powers.sum()
    return weights @ h, weights


def attend_stable(s, h):
    weights = torch.softmax(torch.mv(h, s), dim=0)
    return (weights[:, None] * h).sum(dim=0), weights


def additive(q, k, w, u, v):
    return torch.tanh(w @ q + k @ u.T) @ v


def additive_loop(q, k, w, u, v):
    return torch.stack([v @ torch.tanh(w @ q + u @ k_j) for k_j in k])


def edge(model, source, target_in, i, j, *, allowed=False, compare=None, dtype=torch.bool):
    mask = torch.full((target_in.size(1), source.size(1)), not allowed).to(dtype)
    mask[i, j] = allowed
    with torch.no_grad():
        before = model(source, target_in)[0].argmax(dim=-1)
        after = model(source, target_in, mask)[0].argmax(dim=-1)
    changed = before != after
    parts = {
        None: changed[:, i],
        "all": changed,
        "any": changed.any(dim=1),
        "later": changed[:, i:],
        "j": changed[:, min(j, changed.size(1) - 1)],
        "last": changed[:, -1],
    }
    return parts[compare].double().mean().item()


def edge_for_one_sequence(model, source, target_in, i, j):
    mask = torch.ones(len(source), target_in.size(1), source.size(1), dtype=torch.bool)
    mask[0, i, j] = False
    return _share(model, source, target_in, mask, i)


def edge_masked_twice(model, source, target_in, i, j):
    mask = torch.ones(target_in.size(1), source.size(1), dtype=torch.bool)
    mask[i, j] = False
    return (model(source, target_in, mask)[0] != model(source, target_in, mask)[0]).double().mean().item()


def edge_batch_of_masks(model, source, target_in, i, j):
    """Right, with a mask for each sequence, and numpy at the end."""
    mask = torch.ones(len(source), target_in.size(1), source.size(1), dtype=torch.bool)
    open_everywhere = mask.clone()
    mask[:, i, j] = False
    before, after = (model(source, target_in, keep)[0][:, i].topk(1).indices for keep in (open_everywhere, mask))
    return np.mean((before != after).numpy())


def _share(model, source, target_in, mask, i):
    with torch.no_grad():
        before = model(source, target_in)[0].argmax(dim=-1)
        after = model(source, target_in, mask)[0].argmax(dim=-1)
    return (before[:, i] != after[:, i]).double().mean().item()


def edge_per_sequence(model, source, target_in, i, j):
    """Right, but one sequence at a time, and as a tensor."""
    return torch.tensor([edge(model, s[None], t[None], i, j) for s, t in zip(source, target_in, strict=True)]).mean()


def batch_attention(s, h, divide=1.0):
    weights = torch.softmax(s @ h.transpose(1, 2), dim=2)
    return weights @ h / divide, weights


BANK = {
    "one_recurrent_step": Answers(right={"two digits": -0.67, "in full": rnn([1.0, 0.0, -1.0], 1.0, 0.5)[2]}),
    "weight_of_h3": Answers(right={"two digits": 0.93, "in full": torch.tensor([4.0, 1.0, 64.0]).div(69)[2]}),
    "rnn_by_hand": Answers(
        right={"variant 2": lambda inputs, w, u: torch.tensor(rnn(inputs, w, u)), "object, numpy, float32": Rnn()},
        wrong=[
            Wrong("right at the first call, but not at a second", lambda inputs, w, u: rnn(inputs, 0.9, 0.6)),
        ],
    ),
    "bits": Answers(
        right={
            "variant 2": lambda length, num_symbols: math.log(num_symbols**length) / math.log(2),
            "numpy, float32": lambda length, num_symbols: np.float32(length) * np.log2(np.float32(num_symbols)),
        },
        wrong=[
            Wrong("but not for 1 from one of 2", lambda length, num_symbols: 12 * math.log2(num_symbols)),
        ],
    ),
    "one_step_of_attention": Answers(
        right={
            "variant 2": attend_stable,
            "list, columns": lambda s, h: [h.T @ torch.softmax(h @ s, 0), torch.softmax(h @ s[:, None], 0)[:, 0]],
        },
        wrong=[Wrong("it is weights @ h", lambda s, h: (s, attend(s, h)[1]))],
    ),
    "additive_scores": Answers(
        right={
            "variant 2": additive_loop,
            "one matrix": lambda q, k, w, u, v: (
                torch.tanh(torch.cat([q.expand(len(k), -1), k], 1) @ torch.cat([w, u], 1).T) @ v
            ),
        },
        wrong=[Wrong("the numbers are not", lambda q, k, w, u, v: additive(2 * q, k, w, u, v))],
    ),
    "effect_of_an_edge": Answers(
        right={"variant 2": edge_per_sequence, "batch of masks": edge_batch_of_masks},
        wrong=[
            Wrong("none of your masks hides anything", lambda *a: 0.123),
            Wrong("hides position 1 from step 0, but not", lambda m, s, t, i, j: edge(m, s, t, i - 1, j - 1)),
            Wrong("in some sequences only", edge_for_one_sequence),
            Wrong("you never called the model without it", edge_masked_twice),
        ],
    ),
    "debug_the_contexts": Answers(
        right={
            "softmax": lambda s, h: (torch.softmax(s @ h.mT, -1) @ h, torch.softmax(s @ h.mT, -1)),
            "einsum": lambda s, h: (
                torch.einsum("bmn,bnd->bmd", torch.softmax(torch.einsum("bmd,bnd->bmn", s, h), 2), h),
                torch.einsum("bmd,bnd->bmn", s, h).softmax(dim=2),
            ),
        },
        wrong=[
            Wrong("the context is not; it is weights @ h", lambda s, h: (s, batch_attention(s, h)[1])),
        ],
    ),
}
