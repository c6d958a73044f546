"""Hidden side of the assignment on chapter 3: right and wrong answers, hidden checks, variants."""

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


# The factor on the scores as a function of t: how it is written, its value, its derivative, and both in Python.
FACTORS: dict[str, tuple[str, Callable[[float], float], Callable[[float], float], str, str]] = {
    "over": (r"1 / t", lambda t: 1 / t, lambda t: -1 / t**2, "1 / t", "-1 / t**2"),
    "root": (r"1 / \sqrt{t}", lambda t: t**-0.5, lambda t: -0.5 * t**-1.5, "t**-0.5", "-0.5 * t**-1.5"),
    "square": ("t^2", lambda t: t**2, lambda t: 2 * t, "t**2", "2 * t"),
    "cube": ("t^3", lambda t: t**3, lambda t: 3 * t**2, "t**3", "3 * t**2"),
    "half": (r"\sqrt{t}", lambda t: t**0.5, lambda t: 0.5 * t**-0.5, "t**0.5", "0.5 * t**-0.5"),
    "fourth": ("t^4", lambda t: t**4, lambda t: 4 * t**3, "t**4", "4 * t**3"),
    "far under": (r"1 / t^3", lambda t: t**-3, lambda t: -3 * t**-4, "t**-3", "-3 * t**-4"),
    "under": (r"1 / t^2", lambda t: t**-2, lambda t: -2 * t**-3, "t**-2", "-2 * t**-3"),
}


def draw(rng: python_random.Random) -> Mapping[str, Any]:
    norm = rng.choice(["length", "mean square"])
    return {
        "norm": norm,
        "gain": rng.choice([3.5, 4, 4.5, 5, 5.5, 6, 6.5] if norm == "length" else [0.45, 0.55, 0.65, 0.75, 0.85]),
        "factor": rng.choice(list(FACTORS)),
        "percent": rng.choice([55, 60, 65, 70, 75, 80, 85]),
        "keys": rng.choice([9, 10, 11, 12, 13, 14, 15]),
        "seed": rng.randrange(1, 1000),
        "base": rng.choice([1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5]),
        "bug": rng.choice(list(COOLED.faults)),
        "hidden": rng.getrandbits(50),
    }


def cells(variant: Variant) -> Mapping[str, str]:
    v = variant.values
    written, _, _, factor, slope = FACTORS[v["factor"]]
    norm = {
        "length": "its length $\\lVert x \\rVert = \\sqrt{\\sum_c x_c^2}$",
        "mean square": "its root mean square $\\sqrt{\\frac{1}{d_k} \\sum_c x_c^2}$",
    }[v["norm"]]
    return {
        "normed-yours": f"**Yours.** The size of a vector is {norm}, and $g = {v['gain']:g}$.",
        "slope-yours": f"**Yours.** The factor is $f(t) = {written}$.",
        "saturated-yours": f"**Yours.** A row is saturated if its largest weight is above **{v['percent'] / 100:g}**.",
        "saturated-data": SATURATED_DATA.format(**v),
        "normed": NORMED.format(gain=v["gain"], size={"length": "sum", "mean square": "mean"}[v["norm"]]),
        "slope": SLOPE.format(factor=factor, slope=slope),
        "saturated": SATURATED.format(share=v["percent"] / 100),
        "cooled-yours": f"**Yours.** The temperature is $\\tau = {v['base']:g}^\\text{{dial}}$.",
        "cooled": COOLED.cell(v),
    }


SATURATED_DATA = """\
widths = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]  # d_k
generator = torch.Generator().manual_seed({seed})
queries = [torch.randn(300, d, generator=generator) for d in widths]
keys = [torch.randn({keys}, d, generator=generator) for d in widths]"""

# The master's answers, where they hold a variant's numbers.
NORMED = """\
def normed(query, key):
    ### BEGIN SOLUTION
    def unit(x):
        size = x.square().{size}(dim=-1, keepdim=True).sqrt()
        return x / torch.where(size == 0, 1.0, size)

    return torch.softmax({gain:g} * unit(query) @ unit(key).T, dim=-1)
    ### END SOLUTION"""

SLOPE = """\
def slope(scores, t):
    ### BEGIN SOLUTION
    weights = torch.softmax(({factor}) * scores, dim=-1)
    mean = (weights * scores).sum(dim=-1, keepdim=True)
    return ({slope}) * weights * (scores - mean)
    ### END SOLUTION"""

SATURATED = """\
def saturated(queries, keys, power):
    ### BEGIN SOLUTION
    shares = []
    for query, key in zip(queries, keys, strict=True):
        weights = torch.softmax(query @ key.T / query.size(-1) ** power, dim=-1)
        largest = weights.max(dim=-1).values
        shares.append((largest > {share}).double().mean().item())
    return shares
    ### END SOLUTION"""


# ---- 1. Queries and keys of one size ---------------------------------------------------------------------------------


def _size(x: Tensor, norm: str) -> Tensor:
    squares = x.square()
    return (squares.sum(-1, keepdim=True) if norm == "length" else squares.mean(-1, keepdim=True)).sqrt()


def _normed(norm: str, gain: float, *, kind: str = "", axis: int = -1) -> Callable[[Tensor, Tensor], Tensor]:
    def unit(x: Tensor) -> Tensor:
        size = _size(x, norm)
        return x / (size if kind == "zeros" else torch.where(size == 0, 1.0, size))

    def normed(query: Tensor, key: Tensor) -> Tensor:
        scores = gain * unit(query) @ (key if kind == "queries alone" else unit(key)).T
        return (scores / math.sqrt(query.size(-1)) if kind == "scaled" else scores).softmax(axis)

    return normed


def _normed_cases(seed: int, shapes: Sequence[tuple[int, int, int]], large: float = 1.0) -> list[Case]:
    """Cases of (m, n, d_k), whose vectors have different sizes."""
    cases = []
    for i, (m, n, d) in enumerate(shapes):
        q, k = draw_tensors(seed + 2 * i, (m, d), (n, d))
        stretched = torch.arange(1, n + 1, dtype=torch.float64)[:, None] / 2
        cases.append(Case((large * q, large * k * stretched)))
    return cases


def _zero_case(seed: int, m: int, n: int, d: int, words: str = "{found}") -> Case:
    q, k = _normed_cases(seed, [(m, n, d)])[0].inputs
    q[-1], k[1] = 0.0, 0.0
    return Case((q, k), words)


def _normed_task(v: Mapping[str, Any]) -> Task:
    norm, gain, hidden = v["norm"], v["gain"], v["hidden"]
    other = {"length": "mean square", "mean square": "length"}[norm]
    words = {"length": "sum", "mean square": "mean"}
    return judged_task(
        name="normed",
        title="Queries and keys of one size",
        kind="code",
        prompt="The weights (m, n) of queries and keys that were brought to one size.",
        right=_normed(norm, gain),
        returns=tensor("(m, n)", "the weights"),
        cases=[
            *_normed_cases(v["seed"], [(3, 5, 7)]),
            _zero_case(v["seed"] + 5, 3, 5, 7, "with a vector of zeros: {found}"),
        ],
        wrong_answers=[
            WrongAnswer(
                f"your size is the root of the {words[other]} of the squares; take the root of their {words[norm]}",
                _normed(other, gain),
            ),
            WrongAnswer(
                "only the queries were brought to one size; the keys still differ",
                _normed(norm, gain, kind="queries alone"),
            ),
            WrongAnswer("the factor g is missing; multiply the dot products by it", _normed(norm, 1.0)),
            WrongAnswer(
                "you divided by sqrt(d_k) as well; the factor g takes its place",
                _normed(norm, gain, kind="scaled"),
                mistake=2,
            ),
            WrongAnswer(
                "your softmax runs over the queries (down the columns); it must run over the keys",
                _normed(norm, gain, axis=0),
                mistake=5,
            ),
            WrongAnswer(
                "a vector of zeros divided by its size gives NaN; leave such a vector as it is",
                _normed(norm, gain, kind="zeros"),
            ),
        ],
        fallback_message="these are not the weights of your scores; check that each row of both has size 1",
        checks=[
            Check(points=3, cases=_normed_cases(hidden, [(4, 6, 3), (2, 7, 11)]), says="other sizes"),
            Check(points=1, cases=_normed_cases(hidden + 20, [(3, 4, 5)], large=1e4), says="very long vectors"),
            Check(points=1, cases=[_zero_case(hidden + 40, 2, 6, 5)], says="a query and a key of zeros"),
        ],
    )


# ---- 2. How the weights move -----------------------------------------------------------------------------------------


STEP = 0.0001  # of the difference quotient that a message names


def _slope(name: str, *, kind: str = "") -> Callable[[Tensor, float], Tensor]:
    _, f, derivative, _, _ = FACTORS[name]

    def slope(scores: Tensor, t: float) -> Tensor:
        weights = (f(t) * scores).softmax(-1)
        outer = 1.0 if kind == "no slope" else derivative(t)
        mean = (weights * scores).sum(-1, keepdim=True)
        if kind == "no mean":
            return outer * weights * scores
        if kind == "diagonal":
            return outer * weights * (1 - weights) * scores
        if kind == "quotient":
            return ((f(t + STEP) * scores).softmax(-1) - weights) / STEP
        return torch.zeros_like(weights) if kind == "summed" else outer * weights * (scores - mean)

    return slope


def _slope_cases(seed: int, shapes: Sequence[tuple[int, ...]], ts: Sequence[float], around: float = 0.0) -> list[Case]:
    return [
        Case((around + random(*shape, seed=seed + i), t)) for i, (shape, t) in enumerate(zip(shapes, ts, strict=True))
    ]


def _slope_task(v: Mapping[str, Any]) -> Task:
    name, hidden = v["factor"], v["hidden"] + 100
    return judged_task(
        name="slope",
        title="How the weights move",
        kind="code",
        prompt="The derivative by t of the weights softmax(f(t) s), of the shape of the scores.",
        right=_slope(name),
        returns=tensor("(..., n)", "the derivatives"),
        cases=_slope_cases(v["seed"] + 3, [(3, 5), (7,)], [1.7, 0.6]),
        tolerance=1e-7,
        wrong_answers=[
            WrongAnswer(
                "the derivative of f is missing: the chain rule multiplies by it", _slope(name, kind="no slope")
            ),
            WrongAnswer(
                "you left out that all weights share one sum: the mean of the scores under the weights is missing",
                _slope(name, kind="no mean"),
            ),
            WrongAnswer(
                "that is the diagonal of the Jacobian alone: every score moves the other weights too",
                _slope(name, kind="diagonal"),
            ),
            WrongAnswer(
                "all of it is 0: the weights of a row sum to 1, so their sum has no derivative (is there a `.sum()` "
                "before your derivative?); take each weight by itself",
                _slope(name, kind="summed"),
            ),
            WrongAnswer(
                "that is a difference quotient, right to a few digits only; work the derivative out",
                _slope(name, kind="quotient"),
            ),
        ],
        fallback_message="these are not the derivatives to all digits; work them out, without a difference quotient",
        checks=[
            Check(points=4, cases=_slope_cases(hidden, [(4, 6), (9,)], [0.8, 2.3]), says="one row and several"),
            Check(points=1, cases=_slope_cases(hidden + 20, [(2, 3, 5)], [1.4]), says="further axes in front"),
            Check(
                points=1,
                cases=_slope_cases(hidden + 40, [(3, 8)], [1.2], around=2000.0),
                says="scores too large for exp",
            ),
        ],
    )


# ---- 3. Saturated rows -----------------------------------------------------------------------------------------------


def _saturated(share: float, *, kind: str = "") -> Callable[..., Any]:
    def saturated(queries: Sequence[Tensor], keys: Sequence[Tensor], power: float) -> Tensor:
        power = {"not scaled": 0.0, "root": 0.5}.get(kind, power)
        shares = []
        for query, key in zip(queries, keys, strict=True):
            width = len(key) if kind == "count" else query.size(-1)
            weights = (query @ key.T / width**power).softmax(0 if kind == "columns" else -1)
            above = (weights if kind == "entries" else weights.amax(-1)) > share
            shares.append(above.to(query.dtype).mean())
        return torch.stack(shares)

    return saturated


def _saturated_case(seed: int, widths: Sequence[int], m: int, n: int, power: float) -> Case:
    queries = [1.6 * random(m, d, seed=seed + d) for d in widths]  # so that enough rows are saturated
    keys = [random(n, d, seed=seed + 1000 + d) for d in widths]
    return Case((queries, keys, power))


def _saturated_task(v: Mapping[str, Any]) -> Task:
    share, hidden = v["percent"] / 100, v["hidden"] + 200
    wrong_answers = [
        WrongAnswer(
            "your scores are not scaled at all; divide them by the power of d_k", _saturated(share, kind="not scaled")
        ),
        WrongAnswer("you always divide by the square root; the power is an argument", _saturated(share, kind="root")),
        WrongAnswer(
            "you divide by a power of n, the number of keys; take d_k, the width",
            _saturated(share, kind="count"),
            mistake=2,
        ),
        WrongAnswer(
            "your softmax runs over the queries; it must run over the keys",
            _saturated(share, kind="columns"),
            mistake=5,
        ),
        WrongAnswer("you count entries; count rows, by their largest weight", _saturated(share, kind="entries")),
    ]

    return judged_task(
        name="saturated",
        title="Saturated rows",
        kind="measure",
        prompt="The share of saturated rows, for each width.",
        right=_saturated(share),
        returns=numbers("the shares", "there is one for each width"),
        cases=distinguishing_cases(
            lambda seed: [_saturated_case(seed, [2, 11, 23], 37, 5, 0.3)],
            v["seed"] + 7,
            _saturated(share),
            wrong_answers,
        ),
        wrong_answers=wrong_answers,
        fallback_message="some shares are not right; with one key every row is saturated, try that",
        checks=[
            Check(
                points=2,
                cases=[_saturated_case(hidden, [3, 9, 27, 81], 83, 11, power) for power in (0.0, 0.4)],
                says="other widths and powers",
            ),
            Check(
                points=2,
                cases=[
                    _saturated_case(hidden + 20, [5, 50], 97, 2, 0.25),
                    _saturated_case(hidden + 40, [200], 61, 40, 0.5),
                ],
                says="two keys, and many",
            ),
        ],
        rubric=[
            (1, "three curves against d_k on a logarithmic axis, and it can be told which power is which"),
            (1, "axes are named, the vertical one runs from 0 to 1"),
            (1, "title or caption says what counts as saturated, with the number of keys"),
        ],
    )


# ---- 5. Repair the thermostat ----------------------------------------------------------------------------------------

COOLED = BugFixTask(
    '''\
def cooled(query, key, value, dial):
    """Attention at the temperature that a dial sets: output (m, d_v)."""
    tau = {base:g}**dial
    scores = query @ key.T / (tau * math.sqrt(key.size(-1)))
    weights = torch.softmax(scores, dim=-1)
    return weights @ value''',
    {
        "count": Fault(
            "key.size(-1)",
            "key.size(0)",
            "your scores are divided by the root of the number of keys; divide by that of their width d_k",
            mistake=2,
        ),
        "warm": Fault(
            "query @ key.T / (tau * math.sqrt(key.size(-1)))",
            "tau * query @ key.T / math.sqrt(key.size(-1))",
            "you multiply by the temperature, so a warm softmax gets sharper; divide by it",
        ),
        "under": Fault(
            "(tau * math.sqrt(key.size(-1)))",
            "math.sqrt(tau * key.size(-1))",
            "the temperature stands under the root; only d_k belongs there",
        ),
        "square": Fault(
            "math.sqrt(key.size(-1))",
            "key.size(-1)",
            "your scores are divided by d_k; divide by its square root",
            mistake=3,
        ),
        "after": Fault(
            "(tau * math.sqrt(key.size(-1)))\n    weights = torch.softmax(scores, dim=-1)",
            "math.sqrt(key.size(-1))\n    weights = torch.softmax(scores, dim=-1) ** (1 / tau)",
            "you took a power of the weights after the softmax, and the rows no longer sum to 1; the temperature "
            "belongs to the scores",
        ),
        "dial": Fault(
            "{base:g}**dial\n    scores",
            "{base:g} * dial\n    scores",
            "you multiply by the dial; the temperature is a power, which is 1 where the dial is at 0",
        ),
        "columns": Fault(
            "dim=-1",
            "dim=0",
            "each key shares its weight among the queries; each query must share it among the keys",
            mistake=5,
        ),
    },
    [
        Fault(
            " * math.sqrt(key.size(-1))",
            "",
            "your scores are not divided by sqrt(d_k); the temperature comes on top",
            2,
        ),
    ],
)


def _cooled_cases(seed: int, shapes: Sequence[tuple[int, int, int, int]], dials: Sequence[float]) -> list[Case]:
    """Cases of (m, n, d_k, d_v)."""
    return [
        Case((*draw_tensors(seed + 5 * i, (m, d_k), (n, d_k), (n, d_v)), dial))
        for i, ((m, n, d_k, d_v), dial) in enumerate(zip(shapes, dials, strict=True))
    ]


def _cooled_task(v: Mapping[str, Any]) -> Task:
    return COOLED.task(
        v,
        title="Repair the thermostat",
        prompt="The output (m, d_v) of attention at the temperature of a dial.",
        returns=tensor("(m, d_v)", "the output"),
        cases=_cooled_cases(v["seed"] + 9, [(3, 5, 7, 4)], [1.5]),
        fallback_message="this is not attention at that temperature; where the dial is at 0 it must be ordinary attention",
        checks=[
            Check(
                points=3,
                cases=_cooled_cases(v["hidden"] + 300, [(4, 6, 3, 2), (2, 9, 5, 3)], [-0.8, 1.4]),
                says="a dial below 0 and one above",
            ),
            Check(points=1, cases=_cooled_cases(v["hidden"] + 350, [(3, 7, 11, 2)], [3.0]), says="a very warm dial"),
        ],
    )


# ---- All of it -------------------------------------------------------------------------------------------------------


def tasks(variant: Variant) -> Sequence[Task]:
    v = variant.values
    return [
        _normed_task(v),
        _slope_task(v),
        _saturated_task(v),
        Task(
            id="power",
            title="Which power?",
            kind="written",
            rubric=[
                (1, "says which curve stays level, and that scores then keep one variance at every width"),
                (1, "for independent entries the standard deviation of a dot product grows like the root of d_k"),
                (1, "names a case in which another power would be right, such as queries and keys that agree"),
            ],
        ),
        _cooled_task(v),
    ]


ASSIGNMENT = Assignment(
    name="scaling",
    title="Why the square root of d_k",
    chapter=3,
    minutes=90,
    tasks=tasks,
    cells=cells,
    draw=draw,
)
