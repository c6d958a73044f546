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


def attend_stable(s, h):
    weights = torch.softmax(torch.mv(h, s), dim=0)
    return (weights[:, None] * h).sum(dim=0), weights


def additive_loop(q, k, w, u, v):
    return torch.stack([v @ torch.tanh(w @ q + u @ k_j) for k_j in k])


def edge(model, source, target_in, i, j):
    mask = torch.ones(target_in.size(1), source.size(1), dtype=torch.bool)
    mask[i, j] = False
    with torch.no_grad():
        before = model(source, target_in)[0].argmax(dim=-1)
        after = model(source, target_in, mask)[0].argmax(dim=-1)
    return (before[:, i] != after[:, i]).double().mean().item()


def edge_batch_of_masks(model, source, target_in, i, j):
    """Right, with a mask for each sequence, and numpy at the end."""
    mask = torch.ones(len(source), target_in.size(1), source.size(1), dtype=torch.bool)
    open_everywhere = mask.clone()
    mask[:, i, j] = False
    before, after = (model(source, target_in, keep)[0][:, i].topk(1).indices for keep in (open_everywhere, mask))
    return np.mean((before != after).numpy())


def edge_per_sequence(model, source, target_in, i, j):
    """Right, but one sequence at a time, and as a tensor."""
    return torch.tensor([edge(model, s[None], t[None], i, j) for s, t in zip(source, target_in, strict=True)]).mean()


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
    ),
    "additive_scores": Answers(
        right={
            "variant 2": additive_loop,
            "one matrix": lambda q, k, w, u, v: (
                torch.tanh(torch.cat([q.expand(len(k), -1), k], 1) @ torch.cat([w, u], 1).T) @ v
            ),
        },
    ),
    "effect_of_an_edge": Answers(
        right={"variant 2": edge_per_sequence, "batch of masks": edge_batch_of_masks},
    ),
    "debug_the_contexts": Answers(
        right={
            "softmax": lambda s, h: (torch.softmax(s @ h.mT, -1) @ h, torch.softmax(s @ h.mT, -1)),
            "einsum": lambda s, h: (
                torch.einsum("bmn,bnd->bmd", torch.softmax(torch.einsum("bmd,bnd->bmn", s, h), 2), h),
                torch.einsum("bmd,bnd->bmn", s, h).softmax(dim=2),
            ),
        },
    ),
}
