"""Right and wrong answers to the exercises of chapter 6."""

import math

import torch

from . import Answers, Wrong


def omega(d, base=10000.0):
    return base ** (-torch.arange(0, d, 2).double() / d)


def turn_by_complex(x):
    a, b = x.chunk(2, dim=1)
    angles = torch.outer(torch.arange(len(x)).double(), omega(x.size(1)))
    turned = torch.complex(a.double(), b.double()) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], dim=1)


def turn_with_rotated_half(x, speeds=omega, start=0, sign=1):
    angles = torch.outer(torch.arange(len(x)).double() + start, speeds(x.size(1))).repeat(1, 2)
    a, b = x.chunk(2, dim=1)
    return x * angles.cos() + sign * torch.cat([-b, a], dim=1) * angles.sin()


def clamped_in_a_loop(q, k, most):
    n = len(q)
    scores = torch.zeros(n, n, dtype=torch.float64)
    for t in range(n):
        for s in range(n):
            distance = max(-most, min(most, s - t))
            key = turn_with_rotated_half(k[s : s + 1], start=distance)
            scores[t, s] = q[t] @ key[0]
    return scores


def rows_by_index(weight, heads):
    d = len(weight) // heads
    order = [h * d + i for h in range(heads) for i in [*range(0, d, 2), *range(1, d, 2)]]
    return weight[order]


def rows_by_slices(weight, heads):
    return torch.cat([torch.cat([w[0::2], w[1::2]]) for w in weight.chunk(heads)])


BANK = {
    "dot": Answers(
        right={
            "loop": lambda s, d: sum(math.cos(s * 10000 ** (-2 * i / d)) for i in range(d // 2)),
            "tensor": lambda s, d: (s * omega(d)).cos().sum(),
        },
        wrong=[Wrong("that is another number", lambda s, d: 0.25)],
    ),
    "price": Answers(
        right={
            "einsum": lambda m, n, slopes: (
                -torch.einsum("h,mn->hmn", slopes, (torch.arange(n - m, n)[:, None] - torch.arange(n)).abs().double())
            ),
            "cdist": lambda m, n, slopes: (
                -slopes.view(-1, 1, 1)
                * torch.cdist(torch.arange(n - m, n).double()[:, None], torch.arange(n).double()[:, None])
            ),
        },
    ),
    "turn": Answers(
        right={"complex": turn_by_complex, "float32": lambda x: turn_with_rotated_half(x).float()},
    ),
    "clamped_scores": Answers(
        right={"loop": clamped_in_a_loop, "float32": lambda q, k, most: clamped_in_a_loop(q, k, most).float()},
    ),
    "convert": Answers(
        right={"index": rows_by_index, "slices": rows_by_slices},
    ),
    "slow": Answers(
        right={
            "loop": lambda n, d, base: len([i for i in range(d // 2) if 2 * math.pi * base ** (2 * i / d) > n]),
            "tensor": lambda n, d, base: (omega(d, base) * n < 2 * math.pi).sum(),
        },
        wrong=[Wrong("another number of pairs", lambda n, d, base: 1000)],
    ),
}
