"""Hidden side of the assignment on chapter 4: right and wrong answers, hidden checks, variants."""

import math
import random as python_random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_classroom.assignment import (
    Assignment,
    Check,
    Task,
    Variant,
    distinguishing_cases,
    draw_tensors,
    judged_task,
)
from attention_classroom.bug_fix_task import BugFixTask, Fault
from attention_tutorial.exercises import Case, WrongAnswer, numbers, random, tensor

# ---- The variants ----------------------------------------------------------------------------------------------------


def draw(rng: python_random.Random) -> Mapping[str, Any]:
    return {
        "order": rng.choice(["neighbours", "rounds"]),
        "first": rng.choice([1, 2, 3, 4]),
        "own": rng.choice([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
        "place": rng.choice(["before", "after"]),
        "taken": rng.choice(["rows", "columns"]),
        "percent": rng.choice(range(12, 36)),
        "d_model": rng.choice([36, 48, 60, 72]),
        "n": rng.choice([18, 20, 22, 24, 26, 28]),
        "seed": rng.randrange(1, 1000),
        "fall": rng.choice([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]),
        "bug": rng.choice(list(STEP.faults)),
        "hidden": rng.getrandbits(50),
    }


def cells(variant: Variant) -> Mapping[str, str]:
    v = variant.values
    order = {
        "neighbours": "**Neighbours share**: with $r = h / g$, query head $i$ uses key head "
        f"$(\\lfloor i / r \\rfloor + {v['first']}) \\bmod g$.",
        "rounds": f"**They take turns**: query head $i$ uses key head $(i + {v['first']}) \\bmod g$.",
    }[v["order"]]
    place = {
        "before": "the **scores**, after they are scaled and before the softmax",
        "after": "the **weights**, after the softmax (the rows may sum to something other than 1 then)",
    }[v["place"]]
    which, index = {"rows": ("Row", "il"), "columns": ("Column", "li")}[v["taken"]]
    others = f"\\sum_l \\text{{mix}}_{{{index}}}\\, \\text{{old}}_l"
    sum_of_heads = f"$\\text{{new}}_i = {v['own']:g}\\, \\text{{old}}_i + {others}$"
    use = {"neighbours": f"i // (h // g) + {v['first']}", "rounds": f"i + {v['first']}"}[v["order"]]
    mixing = {
        "before": "torch.softmax(talk(scores), dim=-1)",
        "after": "talk(torch.softmax(scores, dim=-1))",
    }[v["place"]]
    return {
        "shared-yours": f"**Yours.** {order}",
        "mixed-yours": (
            f"**Yours.** {which} $i$ of `mix` makes the new head $i$: {sum_of_heads}. What is mixed are {place}."
        ),
        "ranks-yours": f"**Yours.** A singular value counts if it is larger than **{v['percent']} %** of the largest.",
        "ranks-data": RANKS_DATA.format(**v),
        "shared": SHARED.format(use=use),
        "mixed": MIXED.format(own=v["own"], index=index, mixing=mixing),
        "ranks": RANKS.format(share=v["percent"] / 100),
        "step-yours": f"**Yours.** The score of a key falls by **{v['fall']:g}** for each step back.",
        "step": STEP.cell(v),
    }


RANKS_DATA = """\
n, d_model = {n}, {d_model}
generator = torch.Generator().manual_seed({seed})
x = torch.randn(n, d_model, generator=generator)
w_q = torch.randn(d_model, d_model, generator=generator) / math.sqrt(d_model)
w_k = torch.randn(d_model, d_model, generator=generator) / math.sqrt(d_model)
head_counts = [h for h in range(1, d_model + 1) if d_model % h == 0]"""

# The master's answers, where they hold a variant's choices.
SHARED = """\
def shared(query, key, value):
    ### BEGIN SOLUTION
    h, g = query.size(0), key.size(0)
    i = torch.arange(h)
    used = ({use}) % g
    key, value = key[used], value[used]
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights
    ### END SOLUTION"""

MIXED = """\
def mixed(query, key, mix):
    ### BEGIN SOLUTION
    def talk(x):
        return {own:g} * x + torch.einsum("{index},lmn->imn", mix, x)

    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return {mixing}
    ### END SOLUTION"""

RANKS = """\
def ranks(x, w_q, w_k, head_counts):
    ### BEGIN SOLUTION
    means = []
    for h in head_counts:
        q, k = ((x @ w).reshape(len(x), h, -1).transpose(0, 1) for w in (w_q, w_k))
        values = torch.linalg.svdvals(q @ k.transpose(-2, -1))  # (h, n), the largest first
        counted = (values > {share} * values[:, :1]).sum(dim=-1)
        means.append(counted.double().mean().item())
    return means
    ### END SOLUTION"""


# ---- 1. Heads that share their keys ----------------------------------------------------------------------------------

ORDERS: dict[str, Callable[[Tensor, int], Tensor]] = {  # key heads (g, n, d) and h -> one for each query head
    "neighbours": lambda x, h: x.repeat_interleave(h // len(x), dim=0),
    "rounds": lambda x, h: x.repeat(h // len(x), 1, 1),
}


def _shared(order: str, first: int, *, values: str = "", axis: int = -1, scaled: str = "") -> Callable[..., Any]:
    def shared(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        h, d = len(query), query.size(-1)
        key, value = (x.roll(-first, dims=0) for x in (key, value))
        scores = query @ ORDERS[order](key, h).mT / math.sqrt(_width(scaled, d, h))
        weights = scores.softmax(axis)
        return weights @ ORDERS[values or order](value, h), weights

    return shared


def _width(scaled: str, d: int, h: int) -> int:
    """What scores are divided by the root of: d_head, or what people take in its place."""
    return {"d_model": d * h, "not": 1}.get(scaled, d)


def _shared_cases(seed: int, shapes: Sequence[tuple[int, int, int, int, int, int]]) -> list[Case]:
    """Cases of (h, g, m, n, d_head, d_v)."""
    return [
        Case((*draw_tensors(seed + 5 * i, (h, m, d), (g, n, d), (g, n, d_v)),))
        for i, (h, g, m, n, d, d_v) in enumerate(shapes)
    ]


def _shared_task(v: Mapping[str, Any]) -> Task:
    order, hidden = v["order"], v["hidden"]
    other = {"neighbours": "rounds", "rounds": "neighbours"}[order]
    words = {"neighbours": "neighbours share a key head", "rounds": "the key heads are taken in turns"}

    def shared(order: str, first: int = v["first"], **named: Any) -> Callable[..., Any]:
        return _shared(order, first, **named)

    return judged_task(
        name="shared",
        title="Heads that share their keys",
        kind="code",
        prompt="The heads (h, m, d_v) and their weights (h, m, n), where key heads serve several query heads.",
        right=shared(order),
        returns=(tensor("(h, m, d_v)", "the heads"), tensor("(h, m, n)", "the weights")),
        cases=_shared_cases(v["seed"], [(10, 5, 2, 3, 7, 2)]),
        wrong_answers=[
            WrongAnswer(
                f"in your answer {words[other]}; here {words[order]} (repeat and repeat_interleave differ in this)",
                shared(other),
                mistake=10,
            ),
            WrongAnswer(
                f"query head 0 uses key head 0 in your answer; it uses key head {v['first']} mod g", shared(order, 0)
            ),
            WrongAnswer(
                "the weights are right, but the values are taken in another order than the keys",
                shared(order, values=other),
                mistake=10,
            ),
            WrongAnswer(
                "your scores are divided by the root of the width of all heads together; divide by that of d_head",
                shared(order, scaled="d_model"),
                mistake=1,
            ),
            WrongAnswer(
                "your scores are not scaled; divide them by sqrt(d_head)", shared(order, scaled="not"), mistake=2
            ),
            WrongAnswer(
                "your softmax runs over the queries; it must run over the keys", shared(order, axis=-2), mistake=5
            ),
        ],
        fallback_message="write down which key head each query head uses, for keys and for values",
        checks=[
            Check(
                points=4,
                cases=_shared_cases(hidden, [(10, 5, 2, 6, 3, 5), (6, 3, 4, 7, 5, 2)]),
                says="several key heads",
            ),
            Check(points=1, cases=_shared_cases(hidden + 20, [(5, 1, 2, 4, 3, 2)]), says="one key head for all"),
            Check(points=1, cases=_shared_cases(hidden + 40, [(5, 5, 2, 4, 5, 2)]), says="a key head for each"),
        ],
    )


# ---- 2. Heads that talk ----------------------------------------------------------------------------------------------


def _mixed(
    place: str, taken: str, *, own: float, turned: bool = False, axis: int = -1, scaled: str = ""
) -> Callable[..., Tensor]:
    by_rows = (taken == "rows") != turned

    def mixed(query: Tensor, key: Tensor, mix: Tensor) -> Tensor:
        def mixing(x: Tensor) -> Tensor:
            return own * x + torch.einsum("il,lmn->imn", mix if by_rows else mix.T, x)

        scores = query @ key.mT / math.sqrt(_width(scaled, query.size(-1), len(query)))
        return mixing(scores).softmax(axis) if place == "before" else mixing(scores.softmax(axis))

    return mixed


def _mixed_cases(seed: int, shapes: Sequence[tuple[int, int, int, int]]) -> list[Case]:
    """Cases of (h, m, n, d_head)."""
    return [Case((*draw_tensors(seed + 5 * i, (h, m, d), (h, n, d), (h, h)),)) for i, (h, m, n, d) in enumerate(shapes)]


def _mixed_task(v: Mapping[str, Any]) -> Task:
    place, hidden = v["place"], v["hidden"] + 100
    other = {"before": "after", "after": "before"}[place]
    named = {"before": "the scores", "after": "the weights"}
    used, unused = ("row", "columns") if v["taken"] == "rows" else ("column", "rows")

    def mixed(place: str, own: float = v["own"], **named: Any) -> Callable[..., Tensor]:
        return _mixed(place, v["taken"], own=own, **named)

    return judged_task(
        name="mixed",
        title="Heads that talk",
        kind="code",
        prompt="The weights (h, m, n) of heads that are mixed.",
        right=mixed(place),
        returns=tensor("(h, m, n)", "the weights"),
        cases=_mixed_cases(v["seed"] + 3, [(3, 2, 5, 7)]),
        wrong_answers=[
            WrongAnswer(f"you mixed {named[other]}; mix {named[place]}", mixed(other)),
            WrongAnswer(
                f"you used the {unused} of mix: {used} i says what the new head i takes from each old one",
                mixed(place, turned=True),
            ),
            WrongAnswer("you left out the part that each new head keeps of itself", mixed(place, own=0.0)),
            WrongAnswer(
                "your scores are not scaled; divide them by sqrt(d_head)", mixed(place, scaled="not"), mistake=2
            ),
            WrongAnswer(
                "your softmax runs over the queries; it must run over the keys", mixed(place, axis=-2), mistake=5
            ),
        ],
        fallback_message="these are not mixed heads; with zeros for mix every head keeps its own part and nothing else",
        checks=[
            Check(points=4, cases=_mixed_cases(hidden, [(4, 3, 6, 5), (2, 5, 3, 4)]), says="other sizes"),
            Check(
                points=1, cases=_mixed_cases(hidden + 20, [(5, 1, 7, 2), (7, 2, 2, 3)]), says="many heads, few queries"
            ),
        ],
    )


# ---- 3. What narrow heads can hold -----------------------------------------------------------------------------------


def _ranks(share: float, *, kind: str = "") -> Callable[..., Tensor]:
    def ranks(x: Tensor, w_q: Tensor, w_k: Tensor, head_counts: Sequence[int]) -> Tensor:
        means = []
        for h in head_counts:
            q, k = ((x @ w).reshape(len(x), 1 if kind == "whole" else h, -1).transpose(0, 1) for w in (w_q, w_k))
            if kind == "scrambled":
                q, k = ((x @ w).reshape(h, len(x), -1) for w in (w_q, w_k))
            scores = q @ k.mT
            scores = (scores / math.sqrt(q.size(-1))).softmax(-1) if kind == "weights" else scores
            values = torch.linalg.svdvals(scores)
            values = values.square() if kind == "squares" else values
            largest = values.max() if kind == "over all" else values[:, :1]
            means.append((values > share * largest).sum(-1).to(x.dtype).mean())
        return torch.stack(means)

    return ranks


def _ranks_cases(
    seed: int, shapes: Sequence[tuple[int, int, Sequence[int]]], low: int = 0, silent: bool = False
) -> list[Case]:
    """Cases of (n, d_model, head counts); inputs of a low rank, or with a head that has no keys."""
    cases = []
    for i, (n, d, heads) in enumerate(shapes):
        x = (
            random(n, low, seed=seed + 7 * i) @ random(low, d, seed=seed + 7 * i + 1)
            if low
            else random(n, d, seed=seed + 7 * i)
        )
        w_q, w_k = (random(d, d, seed=seed + 7 * i + k) / math.sqrt(d) for k in (2, 3))
        if silent:
            w_k[:, : d // max(heads)] = 0.0
        cases.append(Case((x, w_q, w_k, list(heads))))
    return cases


def _ranks_task(v: Mapping[str, Any]) -> Task:
    share, hidden = v["percent"] / 100, v["hidden"] + 200
    wrong_answers = [
        WrongAnswer(
            "the heads are scrambled: cut the features of each position, do not reshape across positions",
            _ranks(share, kind="scrambled"),
            mistake=9,
        ),
        WrongAnswer(
            "you did not split, or added the heads again: these are the scores of all features at once",
            _ranks(share, kind="whole"),
        ),
        WrongAnswer(
            "you looked at the weights; the softmax changes the rank, look at the scores",
            _ranks(share, kind="weights"),
        ),
        WrongAnswer(
            "you compared the squares of the singular values (eigenvalues?); compare the values themselves",
            _ranks(share, kind="squares"),
        ),
        WrongAnswer(
            "you took one line for all heads; compare with the largest singular value of the same head",
            _ranks(share, kind="over all"),
        ),
    ]

    return judged_task(
        name="ranks",
        title="What narrow heads can hold",
        kind="measure",
        prompt="The mean number of singular values of the heads' scores that count, for each number of heads.",
        right=_ranks(share),
        returns=numbers("the counts", "there is one for each number of heads"),
        cases=distinguishing_cases(
            lambda seed: _ranks_cases(seed, [(19, 24, [2, 3, 4, 6, 8])]), v["seed"] + 7, _ranks(share), wrong_answers
        ),
        wrong_answers=wrong_answers,
        fallback_message="some counts are not right; with as many heads as features every count is 1",
        checks=[
            Check(
                points=2,
                cases=_ranks_cases(hidden, [(17, 30, [1, 2, 3, 5, 6]), (31, 16, [1, 2, 4, 8])]),
                says="other sizes",
            ),
            Check(
                points=1,
                cases=_ranks_cases(hidden + 20, [(15, 24, [1, 2, 4])], low=5),
                says="positions that lie in a space of few dimensions",
            ),
            Check(
                points=1,
                cases=_ranks_cases(hidden + 40, [(13, 24, [2, 4])], silent=True),
                says="a head whose keys are all zero",
            ),
        ],
        rubric=[
            (1, "the count against the number of heads (or against d_head), with named axes and a logarithmic one"),
            (1, "a line shows the most that is possible: the smaller of n and d_head, or n"),
            (1, "it can be seen from which number of heads on the limit falls below n"),
        ],
    )


# ---- 5. Repair the next step -----------------------------------------------------------------------------------------


STEP = BugFixTask(
    '''\
def step(x, w_q, w_k, w_v, past_keys, past_values):
    """What the heads find for the newest position x (d_model,), side by side."""
    h = past_keys.size(0)
    q, k, v = ((x @ w).reshape(h, 1, -1) for w in (w_q, w_k, w_v))
    keys = torch.cat([past_keys, k], dim=1)
    values = torch.cat([past_values, v], dim=1)
    steps_back = torch.arange(keys.size(1)).flip(0)
    scores = q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1)) - {fall:g} * steps_back
    weights = torch.softmax(scores, dim=-1)
    return (weights @ values).reshape(-1)''',
    {
        "scrambled": Fault(
            "reshape(h, 1, -1)",
            "reshape(-1, h).T[:, None]",
            "the heads are scrambled: head 1 owns the first d_head features, not every h-th one",
            mistake=9,
        ),
        "width": Fault(
            "q.size(-1)",
            "w_q.size(-1)",
            "your scores are divided by the root of the width of all heads together; divide by that of one head",
            mistake=1,
        ),
        "heads": Fault(
            "dim=-1",
            "dim=0",
            "your softmax runs over the heads; in each head the keys must share the weight",
            mistake=5,
        ),
        "key": Fault("(w_q, w_k, w_v)", "(w_q, w_q, w_v)", "the newest key is made with w_q; it needs w_k"),
        "merge": Fault(
            "values).reshape(-1)",
            "values).transpose(0, -1).reshape(-1)",
            "the heads are scrambled when they are joined: all features of head 1 come first",
            mistake=9,
        ),
        "old": Fault(
            "torch.cat([past_keys, k], dim=1)\n    values = torch.cat([past_values, v], dim=1)",
            "past_keys\n    values = past_values",
            "the newest position does not look at itself: its own key and value are missing",
        ),
        "turned": Fault(
            ".flip(0)",
            "",
            "the newest position loses most; it must lose nothing, and the oldest most",
        ),
    },
    [
        Fault(" / math.sqrt(q.size(-1))", "", "your scores are not scaled at all; divide them by sqrt(d_head)", 2),
    ],
)


def _step_cases(seed: int, shapes: Sequence[tuple[int, int, int, int]]) -> list[Case]:
    """Cases of (h, n, d_head, d_model)."""
    cases = []
    for i, (h, n, d, d_model) in enumerate(shapes):
        sizes = [(d_model,), *[(d_model, h * d)] * 3, (h, n, d), (h, n, d)]
        x, *w, keys, values = draw_tensors(seed + 9 * i, *sizes)
        cases.append(Case((x, *(matrix / math.sqrt(d_model) for matrix in w), keys, values)))
    return cases


def _step_task(v: Mapping[str, Any]) -> Task:
    return STEP.task(
        v,
        title="Repair the next step",
        prompt="What all heads find for the newest position, side by side, (h * d_head,).",
        returns=tensor("(h * d_head,)", "the result"),
        cases=_step_cases(v["seed"] + 5, [(3, 4, 5, 7)]),
        fallback_message="this is not what the heads find; follow the shapes of q, keys and weights line by line",
        checks=[
            Check(points=3, cases=_step_cases(v["hidden"] + 300, [(2, 6, 3, 5), (4, 3, 2, 8)]), says="other sizes"),
            Check(points=1, cases=_step_cases(v["hidden"] + 350, [(5, 1, 4, 3)]), says="the second position"),
        ],
    )


# ---- All of it -------------------------------------------------------------------------------------------------------


def tasks(variant: Variant) -> Sequence[Task]:
    v = variant.values
    return [
        _shared_task(v),
        _mixed_task(v),
        _ranks_task(v),
        Task(
            id="narrow",
            title="How narrow is too narrow?",
            kind="written",
            rubric=[
                (1, "the scores of a head are a product through d_head features, so their rank is at most d_head"),
                (1, "with d_head below n some scores are out of reach; names the number of heads in the figure"),
                (1, "weighs it: more heads are more averages side by side; d_head need not be d_model / h, at a price"),
            ],
        ),
        _step_task(v),
    ]


ASSIGNMENT = Assignment(
    name="multi_head",
    title="Several heads",
    chapter=4,
    minutes=100,
    tasks=tasks,
    cells=cells,
    draw=draw,
)
