"""Hidden side of the assignment on chapter 2: right and wrong answers, hidden checks, variants."""

import math
import random as python_random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_classroom.assignment import Assignment, Check, Task, Variant, draw_tensors, judged_task
from attention_classroom.bug_fix_task import BugFixTask, Fault
from attention_tutorial.exercises import Case, WrongAnswer, numbers, random, tensor

# ---- The variants ----------------------------------------------------------------------------------------------------

BASES = {"e": math.e, **{str(base): float(base) for base in (2, 3, 4, 5, 6, 7, 8, 9, 10, 16)}}


def draw(rng: python_random.Random) -> Mapping[str, Any]:
    new = rng.choice([0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45])
    return {
        "distance": rng.choice(["squared", "absolute"]),
        "sharpness": rng.choice([0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.55, 0.6, 0.65]),
        "base": rng.choice(list(BASES)),
        "percent": rng.choice([55, 60, 65, 70, 75, 80, 85, 90]),
        "d_k": rng.choice([12, 16, 20, 24, 28, 32]),
        "keys": rng.choice([40, 50, 60, 70, 80, 90]),
        "seed": rng.randrange(1, 1000),
        "new": new,
        "kept": round(1 - new, 2),
        "bug": rng.choice(list(RECOLLECT.faults)),
        "hidden": rng.getrandbits(50),
    }


def cells(variant: Variant) -> Mapping[str, str]:
    v = variant.values
    distance = {
        "squared": r"the squared distance $\sum_c (q_{ic} - k_{jc})^2$",
        "absolute": r"the sum of absolute differences $\sum_c \lvert q_{ic} - k_{jc} \rvert$",
    }
    entry = {"squared": "(query[:, None] - key[None]) ** 2", "absolute": "(query[:, None] - key[None]).abs()"}
    logarithm = "the natural logarithm" if v["base"] == "e" else f"the logarithm to base {v['base']}"
    return {
        "near-yours": f"**Yours.** The distance $D$ is {distance[v['distance']]}, and $c = {v['sharpness']}$.",
        "merge-yours": f"**Yours.** $\\log$ is {logarithm}, in what comes in and in what goes out.",
        "needed-yours": f"**Yours.** The share is {v['percent']} %, that is {v['percent'] / 100:g}.",
        "needed-data": NEEDED_DATA.format(**v),
        "near": NEAR.format(entry=entry[v["distance"]], **v),
        "merge": MERGE.format(log="1.0" if v["base"] == "e" else f"math.log({v['base']})"),
        "needed": NEEDED.format(share=v["percent"] / 100),
        "recollect-yours": (
            f"**Yours.** The share of what is found is **{v['new']:g}**, so **{v['kept']:g}** of $x$ is kept."
        ),
        "recollect": RECOLLECT.cell(v),
    }


NEEDED_DATA = """\
generator = torch.Generator().manual_seed({seed})
query = torch.randn(200, {d_k}, generator=generator)  # d_k = {d_k}
key = torch.randn({keys}, {d_k}, generator=generator)
factors = [2.0**power for power in range(-4, 6)]"""

# The master's answers, where they hold a variant's numbers.
NEAR = """\
def near(query, key, value):
    ### BEGIN SOLUTION
    distance = ({entry}).sum(dim=-1)  # (m, n)
    weights = torch.softmax(-{sharpness} * distance, dim=-1)
    return weights @ value, weights
    ### END SOLUTION"""

MERGE = """\
def merge(output_a, log_a, output_b, log_b):
    ### BEGIN SOLUTION
    a, b = log_a * {log}, log_b * {log}  # natural logarithms
    both = torch.logaddexp(a, b)
    share_a, share_b = (a - both).exp(), (b - both).exp()
    return share_a[:, None] * output_a + share_b[:, None] * output_b, both / {log}
    ### END SOLUTION"""

NEEDED = """\
def needed(query, key, factors):
    ### BEGIN SOLUTION
    scores = query @ key.T / math.sqrt(query.size(-1))
    counts = []
    for factor in factors:
        weights = torch.softmax(factor * scores, dim=-1)
        held = weights.sort(dim=-1, descending=True).values.cumsum(dim=-1)
        missing = (held < {share}).sum(dim=-1)  # keys after which the share is not reached yet
        counts.append((missing + 1).double().mean().item())
    return counts
    ### END SOLUTION"""


# ---- 1. Attention by distance ----------------------------------------------------------------------------------------

DISTANCES: dict[str, Callable[[Tensor], Tensor]] = {
    "squared": lambda apart: apart.square().sum(-1),
    "absolute": lambda apart: apart.abs().sum(-1),
}


def _near(distance: str, c: float, *, axis: int = -1, power: float = 0.0) -> Callable[..., Any]:
    def near(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        scores = -c * DISTANCES[distance](query[:, None] - key[None]) / key.size(-1) ** power
        weights = scores.softmax(axis)
        return weights @ value, weights

    return near


def _dot_products(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = (query @ key.T / math.sqrt(key.size(-1))).softmax(-1)
    return weights @ value, weights


def _near_cases(seed: int, shapes: Sequence[tuple[int, int, int, int]], large: float = 1.0) -> list[Case]:
    """Cases of (m, n, d_k, d_v)."""
    cases = []
    for i, (m, n, d_k, d_v) in enumerate(shapes):
        query, key, value = draw_tensors(seed + 3 * i, (m, d_k), (n, d_k), (n, d_v))
        cases.append(Case((large * query, large * key, value)))
    return cases


def _near_task(v: Mapping[str, Any]) -> Task:
    kind, c, hidden = v["distance"], v["sharpness"], v["hidden"]
    other = {"squared": "absolute", "absolute": "squared"}[kind]
    differences = {"squared": "squared differences", "absolute": "absolute differences"}
    return judged_task(
        name="near",
        title="Attention by distance",
        kind="code",
        prompt="The output (m, d_v) and the weights (m, n) of attention whose scores fall with the distance.",
        right=_near(kind, c),
        returns=(tensor("(m, d_v)", "the output"), tensor("(m, n)", "the weights")),
        cases=_near_cases(v["seed"], [(3, 5, 7, 2)]),
        wrong_answers=[
            WrongAnswer(
                "the key that is farthest away gets the most weight; put a minus in front of c", _near(kind, -c)
            ),
            WrongAnswer(
                "this is ordinary scaled dot-product attention; here the score is the distance, times -c",
                _dot_products,
            ),
            WrongAnswer(f"your distance sums up {differences[other]}; sum up {differences[kind]}", _near(other, c)),
            WrongAnswer("the factor c is missing; multiply the distance by it", _near(kind, 1.0)),
            WrongAnswer(
                "you divided by sqrt(d_k) as well; the factor c takes its place here",
                _near(kind, c, power=0.5),
                mistake=2,
            ),
            WrongAnswer(
                "your softmax runs over the queries (down the columns); it must run over the keys",
                _near(kind, c, axis=0),
                mistake=5,
            ),
        ],
        fallback_message="work out one row by hand",
        checks=[
            Check(points=3, cases=_near_cases(hidden, [(4, 6, 3, 5), (2, 9, 5, 1)]), says="other sizes"),
            Check(points=1, cases=_near_cases(hidden + 20, [(1, 1, 2, 3), (5, 2, 1, 3)]), says="one key, one feature"),
            Check(
                points=1,
                cases=_near_cases(hidden + 40, [(3, 4, 6, 2)], large=40.0),
                says="vectors so far apart that each exponential by itself is 0",
            ),
        ],
    )


# ---- 2. Two halves make a whole --------------------------------------------------------------------------------------


def _merge(base: float, *, kind: str = "") -> Callable[..., Any]:
    unit = math.log(base)

    def merge(output_a: Tensor, log_a: Tensor, output_b: Tensor, log_b: Tensor) -> tuple[Tensor, Tensor]:
        a, b = log_a * unit, log_b * unit
        both = (a.exp() + b.exp()).log() if kind == "naive" else torch.logaddexp(a, b)
        share_a, share_b = (a - both).exp(), (b - both).exp()
        if kind == "naive":
            share_a, share_b = a.exp() / (a.exp() + b.exp()), b.exp() / (a.exp() + b.exp())
        if kind == "swapped":
            share_a, share_b = share_b, share_a
        if kind == "even":
            share_a = share_b = torch.full_like(both, 0.5)
        output = share_a[:, None] * output_a + share_b[:, None] * output_b
        return output, log_a + log_b if kind == "added logs" else both / unit

    return merge


def _merge_cases(
    seed: int, base: float, shapes: Sequence[tuple[int, int]], around: float = 0.0, empty: bool = False
) -> list[Case]:
    """Cases of (m, d_v), with logarithms around a number."""
    cases = []
    for i, (m, d_v) in enumerate(shapes):
        a, b = (random(m, d_v, seed=seed + 4 * i + k) for k in range(2))
        log_a, log_b = ((2.0 + around + random(m, seed=seed + 4 * i + k)) / math.log(base) for k in (2, 3))
        if empty:
            a[0], log_a[0] = 0.0, -math.inf
        cases.append(Case((a, log_a, b, log_b)))
    return cases


def _merge_task(v: Mapping[str, Any]) -> Task:
    base, hidden = BASES[v["base"]], v["hidden"] + 100
    other = "2" if v["base"] == "e" else "e"
    visible = _merge_cases(v["seed"] + 5, base, [(4, 3)])
    large = _merge_cases(v["seed"] + 9, base, [(3, 2)], around=900.0)
    return judged_task(
        name="merge",
        title="Two halves make a whole",
        kind="code",
        prompt="The output (m, d_v) and the logarithms (m,) for all keys, from those for two parts of them.",
        right=_merge(base),
        returns=(tensor("(m, d_v)", "the output", finite=False), tensor("(m,)", "the logarithms", finite=False)),
        cases=[*visible, Case(large[0].inputs, "correct for small logarithms, but not for large ones: {found}")],
        wrong_answers=[
            WrongAnswer(
                "exp overflows, so the sums are lost; take the larger logarithm off both before exp, and add it "
                "again at the end",
                _merge(base, kind="naive"),
                mistake=13,
            ),
            WrongAnswer(
                f"you computed with powers of {other}; your logarithms have base {v['base']}", _merge(BASES[other])
            ),
            WrongAnswer("the shares are swapped: part a has got the share of part b", _merge(base, kind="swapped")),
            WrongAnswer(
                "you averaged the two evenly; the part with the larger sum weighs more", _merge(base, kind="even")
            ),
            WrongAnswer(
                "the logarithm of a sum is not the sum of the logarithms (that is the one of a product)",
                _merge(base, kind="added logs"),
            ),
        ],
        fallback_message="try it with two keys by hand",
        checks=[
            Check(points=3, cases=_merge_cases(hidden, base, [(5, 2), (1, 7)]), says="ordinary numbers"),
            Check(
                points=2,
                cases=[
                    *_merge_cases(hidden + 20, base, [(3, 4)], around=1500.0),
                    *_merge_cases(hidden + 30, base, [(3, 4)], around=-1500.0),
                ],
                says="sums too large or too small for exp",
            ),
            Check(
                points=1,
                cases=_merge_cases(hidden + 40, base, [(4, 3)], empty=True),
                says="a part without any key (output 0, logarithm minus infinity)",
            ),
        ],
    )


# ---- 3. How many keys does it take? ----------------------------------------------------------------------------------


def _needed(share: float, *, kind: str = "", power: float = 0.5) -> Callable[..., Tensor]:
    def needed(query: Tensor, key: Tensor, factors: Sequence[float]) -> Tensor:
        scores = query @ key.T / key.size(-1) ** power
        counts = []
        for factor in factors:
            weights = (factor * scores).softmax(0 if kind == "columns" else -1)
            held = weights.sort(dim=-1, descending=kind != "smallest").values.cumsum(-1)
            count = (held < share).sum(-1).to(scores.dtype) + (kind != "one too few")
            counts.append(count.mean())
        return torch.stack(counts)

    return needed


def _needed_cases(seed: int, shapes: Sequence[tuple[int, int, int]], factors: Sequence[float]) -> list[Case]:
    """Cases of (m, n, d_k)."""
    return [
        Case((*draw_tensors(seed + 2 * i, (m, d_k), (n, d_k)), list(factors))) for i, (m, n, d_k) in enumerate(shapes)
    ]


def _needed_task(v: Mapping[str, Any]) -> Task:
    share, hidden = v["percent"] / 100, v["hidden"] + 200
    return judged_task(
        name="needed",
        title="How many keys does it take?",
        kind="measure",
        prompt="The mean number of keys that hold a share of a query's weight, for each factor on the scores.",
        right=_needed(share),
        returns=numbers("the counts", "there is one for each factor"),
        cases=_needed_cases(v["seed"] + 11, [(31, 61, 7)], [0.2, 0.5, 1.0, 2.5]),
        wrong_answers=[
            WrongAnswer(
                "you count one key too few: the key that reaches the share belongs to them",
                _needed(share, kind="one too few"),
            ),
            WrongAnswer("you begin with the smallest weights; begin with the largest", _needed(share, kind="smallest")),
            WrongAnswer("your scores are not scaled; divide them by sqrt(d_k)", _needed(share, power=0.0), mistake=2),
            WrongAnswer("your scores are divided by d_k; divide by its root", _needed(share, power=1.0), mistake=3),
            WrongAnswer(
                "your softmax runs over the queries; it must run over the keys",
                _needed(share, kind="columns"),
                mistake=5,
            ),
        ],
        fallback_message="some counts are not right; with factor 0 all weights are equal, and you can count by hand",
        checks=[
            Check(
                points=2, cases=_needed_cases(hidden, [(40, 30, 11), (25, 50, 3)], [0.1, 0.7, 1.4]), says="other sizes"
            ),
            Check(
                points=2,
                cases=_needed_cases(hidden + 20, [(37, 29, 5)], [0.0, 0.01, 6.0, 60.0]),
                says="factors so small that all weights are equal, and so large that one key has all",
            ),
        ],
        rubric=[
            (1, "the count against the factor, the factor on a logarithmic axis, axes named"),
            (1, "both limits can be seen or are drawn: one key on the right, the share of all keys on the left"),
            (1, "a mark or a line shows where ordinary attention is, at factor 1"),
        ],
    )


# ---- 5. Repair the recollection --------------------------------------------------------------------------------------

RECOLLECT = BugFixTask(
    '''\
def recollect(x, memory, w_q, w_k, w_v):
    """Put what each row of x (m, d_model) finds in the memory (n, d_memory) in place of a part of it."""
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    scores = q @ k.T / math.sqrt(k.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return {kept:g} * x + {new:g} * (weights @ v)''',
    {
        "columns": Fault(
            "dim=-1",
            "dim=0",
            "each key shares its weight among the rows of x; each row of x must share it among the keys",
            mistake=5,
        ),
        "model": Fault(
            "k.size(-1)",
            "x.size(-1)",
            "your scores are divided by sqrt(d_model); they sum up d_k products",
            mistake=1,
        ),
        "count": Fault(
            "k.size(-1)",
            "k.size(0)",
            "your scores are divided by the root of the number of keys; divide by that of their width",
            mistake=2,
        ),
        "square": Fault(
            "math.sqrt(k.size(-1))",
            "k.size(-1)",
            "your scores are divided by d_k; divide by its square root",
            mistake=3,
        ),
        "whole": Fault(
            "torch.softmax(scores, dim=-1)",
            "torch.softmax(scores.flatten(), dim=0).reshape(scores.shape)",
            "one softmax runs over the whole matrix; each row must sum to 1 by itself",
            mistake=5,
        ),
        "shares": Fault(
            "{kept:g} * x + {new:g} *",
            "{new:g} * x + {kept:g} *",
            "the two shares are swapped: the larger one belongs to x",
        ),
        "inside": Fault(
            "{kept:g} * x + {new:g} * (weights @ v)",
            "{kept:g} * (x + {new:g} * (weights @ v))",
            "what was found is multiplied by both shares; the share of x belongs to x alone",
        ),
    },
    [
        Fault(" / math.sqrt(k.size(-1))", "", "your scores are not scaled at all; divide them by sqrt(d_k)", 2),
    ],
)


def _recollect_cases(seed: int, shapes: Sequence[tuple[int, int, int, int, int]]) -> list[Case]:
    """Cases of (m, n, d_model, d_memory, d_k)."""
    cases = []
    for i, (m, n, d_model, d_memory, d_k) in enumerate(shapes):
        sizes = [(m, d_model), (n, d_memory), (d_model, d_k), (d_memory, d_k), (d_memory, d_model)]
        cases.append(Case((*draw_tensors(seed + 9 * i, *sizes),)))
    return cases


def _recollect_task(v: Mapping[str, Any]) -> Task:
    return RECOLLECT.task(
        v,
        title="Repair the recollection",
        prompt="Each row of x with its share of what it found in the memory, (m, d_model).",
        returns=tensor("(m, d_model)", "the result"),
        cases=_recollect_cases(v["seed"] + 3, [(4, 6, 5, 3, 2)]),
        fallback_message="these are not the shares of x and of what attention finds; print the sums of the weights along each axis",
        checks=[
            Check(
                points=3,
                cases=_recollect_cases(v["hidden"] + 300, [(5, 7, 6, 4, 3), (3, 8, 2, 5, 11)]),
                says="other sizes",
            ),
            Check(points=1, cases=_recollect_cases(v["hidden"] + 350, [(2, 17, 3, 3, 5)]), says="a long memory"),
        ],
    )


# ---- All of it -------------------------------------------------------------------------------------------------------


def tasks(variant: Variant) -> Sequence[Task]:
    v = variant.values
    return [
        _near_task(v),
        _merge_task(v),
        _needed_task(v),
        Task(
            id="reading",
            title="Read your curve",
            kind="written",
            rubric=[
                (1, "explains the left end: scores near 0 give equal weights, so the share of all keys is needed"),
                (1, "explains the right end: the largest score wins; its exponential outgrows all others together"),
                (1, "queries twice as long are factor 2; reads both numbers off the student's curve"),
            ],
        ),
        _recollect_task(v),
    ]


ASSIGNMENT = Assignment(
    name="dot_product",
    title="Scaled dot-product attention",
    chapter=2,
    minutes=90,
    tasks=tasks,
    cells=cells,
    draw=draw,
)
