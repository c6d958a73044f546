"""Right and wrong answers to the exercises of chapter 6."""

import math

import torch

from . import Answers


def omega(d, base=10000.0):
    return base ** (-torch.arange(0, d, 2).double() / d)


def column(start, end):
    return torch.arange(start, end).double()[:, None]


def turn_by_complex(x):
    a, b = x.chunk(2, dim=1)
    angles = torch.outer(torch.arange(len(x)).double(), omega(x.size(1)))
    turned = torch.complex(a.double(), b.double()) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], dim=1)


def turn_with_rotated_half(x, start=0):
    angles = torch.outer(torch.arange(len(x)).double() + start, omega(x.size(1))).repeat(1, 2)
    a, b = x.chunk(2, dim=1)
    return x * angles.cos() + torch.cat([-b, a], dim=1) * angles.sin()


def clamped_in_a_loop(q, k, most):
    n = range(len(q))
    keys = [[turn_with_rotated_half(k[[s]], max(-most, min(most, s - t)))[0] for s in n] for t in n]
    return torch.stack([torch.stack([q[t] @ keys[t][s] for s in n]) for t in n])


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
    ),
    "price": Answers(
        right={
            "cdist": lambda m, n, slopes: -slopes.view(-1, 1, 1) * torch.cdist(column(n - m, n), column(0, n)),
            "loops": lambda m, n, slopes: (
                -slopes.view(-1, 1, 1) * torch.tensor([[abs(n - m + i - j) for j in range(n)] for i in range(m)])
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
    ),
}
