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


def turn_neighbours(x, speeds=omega, start=0, sign=1):
    angles = sign * torch.outer(torch.arange(len(x)).double() + start, speeds(x.size(1)))
    a, b = x[:, 0::2], x[:, 1::2]
    pairs = a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()
    return torch.stack(pairs, dim=-1).flatten(1)


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
        wrong=[
            Wrong(
                "in head 0, at row 0, column 1",
                lambda m, n, slopes: (
                    -2 * slopes[:, None, None] * (torch.arange(n - m, n)[:, None] - torch.arange(n)).abs()
                ),
            )
        ],
    ),
    "turn": Answers(
        right={"complex": turn_by_complex, "float32": lambda x: turn_with_rotated_half(x).float()},
        wrong=[
            Wrong(
                "you turn backwards: the first of a pair becomes a cos - b sin; your exponent is i/d",
                lambda x: turn_neighbours(x, lambda d: 10000.0 ** (-torch.arange(d // 2).double() / d), sign=-1),
            ),
            Wrong("you count positions from 2", lambda x: turn_neighbours(x, start=2)),
            Wrong("you count positions from -1", lambda x: turn_with_rotated_half(x, start=-1)),
            Wrong(
                "a cos - b sin; your speeds are those of a base of 300",
                lambda x: turn_with_rotated_half(x, lambda d: omega(d, 300.0), sign=-1),
            ),
            Wrong(
                "[(0, 9), (1, 8), (2, 7), (3, 6), (4, 5)]",
                lambda x: torch.cat(
                    [
                        (
                            y := turn_with_rotated_half(
                                torch.cat([x[:, : x.size(1) // 2], x[:, x.size(1) // 2 :].flip(1)], 1)
                            )
                        )[:, : x.size(1) // 2],
                        y[:, x.size(1) // 2 :].flip(1),
                    ],
                    1,
                ),
            ),
            Wrong("a turned pair keeps its length", lambda x: 2 * turn_with_rotated_half(x)),
            Wrong(
                "must be the same everywhere",
                lambda x: (
                    turn_with_rotated_half(x)[[*range(len(x) - 1), 0]] * 0
                    + torch.cat([turn_with_rotated_half(x)[:-1], x[-1:]])
                ),
            ),
        ],
    ),
    "clamped_scores": Answers(
        right={"loop": clamped_in_a_loop, "float32": lambda q, k, most: clamped_in_a_loop(q, k, most).float()},
        wrong=[
            Wrong(
                "right up to the distance 3, and wrong beyond: query 0 and key 4",
                lambda q, k, most: torch.where(
                    (torch.arange(len(q)) - torch.arange(len(q))[:, None]).abs() > most,
                    0.0 * q @ k.mT,
                    clamped_in_a_loop(q, k, most),
                ),
            ),
            Wrong("their score must be", lambda q, k, most: 2 * clamped_in_a_loop(q, k, most)),
        ],
    ),
    "convert": Answers(
        right={"index": rows_by_index, "slices": rows_by_slices},
        wrong=[Wrong("only their order may change", lambda w, heads: -w)],
    ),
    "slow": Answers(
        right={
            "loop": lambda n, d, base: len([i for i in range(d // 2) if 2 * math.pi * base ** (2 * i / d) > n]),
            "tensor": lambda n, d, base: (omega(d, base) * n < 2 * math.pi).sum(),
        },
        wrong=[Wrong("another number of pairs", lambda n, d, base: 1000)],
    ),
}
