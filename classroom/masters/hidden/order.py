"""Hidden side of the assignment on chapter 6: right and wrong answers, hidden checks, variants."""

import math
import random as python_random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_classroom.assignment import (
    Assignment,
    Check,
    Task,
    Variant,
    answer,
    distinguishing_cases,
    draw_tensors,
    judged_task,
)
from attention_classroom.bug_fix_task import BugFixTask, Fault
from attention_tutorial.exercises import Case, WrongAnswer, float64_by_default, numbers, random, tensor

# ---- The variants ----------------------------------------------------------------------------------------------------

KINDS = ("none", "bias", "rotary", "added")
BASES = (50, 150, 200, 300, 500, 700, 1000, 2000)
WIDTH = 12  # features in the figure


def draw(rng: python_random.Random) -> Mapping[str, Any]:
    codes = [1, 2, 3, 4]
    # These are the codes of one who has not read on; with bias and rotary exchanged, two mistakes would look alike.
    while codes in ([1, 2, 3, 4], [1, 3, 2, 4]):
        rng.shuffle(codes)
    return {
        "codes": dict(zip(KINDS, codes, strict=True)),
        "pairs": rng.choice(["halves", "neighbours"]),
        "base": rng.choice(BASES),
        "length": rng.choice([2, 3, 4, 5]),
        "scaled": rng.choice(["divided", "as they are"]),
        "back": rng.choice(range(3, 8)),  # so that the shortest text of the figure has such a key
        "seed": rng.randrange(1, 1000),
        "turns": rng.choice([20, 30, 40, 60, 80, 120, 160, 250]),
        "bug": rng.choice(list(NEWEST.faults)),
        "hidden": rng.getrandbits(50),
    }


def cells(variant: Variant) -> Mapping[str, str]:
    v = variant.values
    codes = v["codes"]
    pairs = {
        "halves": "feature $i$ of the first half makes a pair with feature $i$ of the second half",
        "neighbours": "neighbours make a pair: features 0 and 1, then 2 and 3, and so on",
    }[v["pairs"]]
    scaled = {
        "divided": "The scores **are divided** by $\\sqrt{d}$",
        "as they are": "The scores are **not divided** by anything",
    }[v["scaled"]]
    key = random(WIDTH, seed=v["seed"])
    query = (12 if v["scaled"] == "divided" else 4) * _turned(key, -v["back"], v) / key.norm()
    return {
        "kinds-yours": (
            f"**Yours.** Return **{codes['none']}** for no positions, **{codes['bias']}** for a bias, "
            f"**{codes['rotary']}** for rotary positions and **{codes['added']}** for positions that were added."
        ),
        "ask-yours": (
            f"**Yours.** {pairs[0].upper()}{pairs[1:]}. Pair $i$, counted from 0, turns by $\\omega_i = "
            f"{v['base']}^{{-2i/d}}$ radians per position. The query has the length **{v['length']}**."
        ),
        "held-yours": f"**Yours.** Pairs and speeds are those of task 2. {scaled}.",
        "held-data": HELD_DATA.format(back=v["back"], key=_listed(key), query=_listed(query)),
        "kinds": KINDS_ANSWER.format(**codes),
        "ask": _ask(v),
        "held": HELD.format(root=ROOTS[v["scaled"]]),
        "newest-yours": f"**Yours.** The base is **{v['turns']}**, so $\\omega_i = {v['turns']}^{{-2i/d}}$.",
        "newest": NEWEST.cell(v),
    }


def _listed(x: Tensor) -> str:
    return " ".join(f"{number:.4f}" for number in x.tolist())


HELD_DATA = """\
back = {back}
key = "{key}"
query = "{query}"
key, query = (torch.tensor([float(x) for x in row.split()]) for row in (key, query))
lengths = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]"""

# The master's answers, where they hold a variant's choices.
KINDS_ANSWER = """\
def kinds(content, here, moved):
    ### BEGIN SOLUTION
    found = []
    for c, h, m in zip(content, here, moved, strict=True):
        added = h - c
        n = len(added)
        by_distance = [added.diagonal(k) for k in range(1 - n, n)]
        if (m - h).abs().max() > 1e-6:
            found.append({added})
        elif max(x.max() - x.min() for x in by_distance) > 1e-6:
            found.append({rotary})
        else:
            found.append({bias} if added.abs().max() > 1e-6 else {none})
    return found
    ### END SOLUTION"""

CUT = {"halves": "x.chunk(2, dim=-1)", "neighbours": "x.unflatten(-1, (-1, 2)).unbind(-1)"}
JOINED = {
    "halves": "torch.cat([first, second], dim=-1)",
    "neighbours": "torch.stack([first, second], dim=-1).flatten(-2)",
}
OTHER_PAIRS = {"halves": "neighbours", "neighbours": "halves"}


def _ask(v: Mapping[str, Any], **changed: Any) -> str:
    v = {**v, **changed}
    return ASK.format(base=v["base"], cut=CUT[v["pairs"]], joined=JOINED[v["pairs"]], length=v["length"])


ASK = """\
def ask(key, back):
    ### BEGIN SOLUTION
    return {length} * turned(key, -back) / key.norm()


def turned(x, t):  # x (..., d), and t, one position or one for each row
    d = x.size(-1)
    angles = torch.as_tensor(t)[..., None] * {base}.0 ** (-torch.arange(0, d, 2) / d)
    a, b = {cut}
    first, second = a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()
    return {joined}
    ### END SOLUTION"""

ROOTS = {"divided": "math.sqrt(len(key))", "as they are": "1"}
HELD = """\
def held(query, key, back, lengths):
    ### BEGIN SOLUTION
    weights = []
    for n in lengths:
        distance = torch.arange(n)  # how far before the query a key stands
        scores = turned(key.expand(n, -1), -distance) @ query / {root}
        weights.append(torch.softmax(scores, dim=-1)[back].item() if back < n else 0.0)
    return weights
    ### END SOLUTION"""


# ---- 1. Which positions are these? -----------------------------------------------------------------------------------


def _heads_case(seed: int, n: int, d: int, names: Sequence[str], size: float = 1.0) -> Case:
    """Scores of heads with such positions; ``alibi`` is a bias that is the same on both sides."""
    rows = []
    for i, name in enumerate(names):
        q, k = random(n, d, seed=seed + 9 * i), random(n, d, seed=seed + 9 * i + 1)
        content = q @ k.T / math.sqrt(d)
        apart = torch.arange(n)[:, None] - torch.arange(n)
        noise = 1e-9 * random(2, n, n, seed=seed + 9 * i + 2)

        def scores(
            start: int, name: str = name, q: Tensor = q, k: Tensor = k, i: int = i, apart: Tensor = apart
        ) -> Tensor:
            t = torch.arange(start, start + n)
            if name == "rotary":
                turns = {"pairs": "halves", "base": 100}
                return _turned(q, size * t, turns) @ _turned(k, size * t, turns).T / math.sqrt(d)
            if name == "added":
                angles = t[:, None] * 100.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
                places = size * torch.cat([angles.sin(), angles.cos()], dim=-1)
                return (q + places) @ (k + places).T / math.sqrt(d)
            base = q @ k.T / math.sqrt(d)
            if name == "bias":
                return base + size * random(2 * n, seed=seed + 9 * i + 3)[apart + n]
            return base - size * 0.5 * apart.abs() if name == "alibi" else base

        rows.append((content, scores(0) + noise[0], scores(20) + noise[1]))
    return Case(tuple(torch.stack(part) for part in zip(*rows, strict=True)))


def _kinds_task(v: Mapping[str, Any]) -> Task:
    codes, hidden = v["codes"], v["hidden"]
    source = KINDS_ANSWER.format(**codes)
    exchanged = codes | {"bias": codes["rotary"], "rotary": codes["bias"]}
    return judged_task(
        name="kinds",
        title="Which positions are these?",
        kind="code",
        prompt="A number for each head that says which positions it has.",
        right=answer(source),
        returns=numbers("the kinds", "there is one for each head"),
        cases=[
            _heads_case(v["seed"], 5, 6, ["rotary", "bias", "added", "none", "alibi"]),
        ],
        wrong_answers=[
            WrongAnswer(
                "these are other numbers than yours: read which number stands for which kind",
                answer(KINDS_ANSWER.format(none=1, bias=2, rotary=3, added=4)),
            ),
            WrongAnswer(
                "you exchanged rotary positions and biases: a bias is the same for all words",
                answer(KINDS_ANSWER.format(**exchanged)),
            ),
            WrongAnswer(
                "you take rotary positions for a bias: a bias is the same all along every diagonal",
                answer(KINDS_ANSWER.format(**codes | {"rotary": codes["bias"]})),
            ),
            WrongAnswer(
                "you say that every head has added positions; scores are rounded, so small differences must not count",
                answer(source.replace("1e-6", "0")),
            ),
            WrongAnswer(
                "you say that heads with added positions have none: compare `moved` with `here`",
                answer(source, (f"found.append({codes['added']})", f"found.append({codes['none']})")),
            ),
            WrongAnswer(
                "you take added positions for rotary ones: those do not change when all words move",
                answer(source, ("if (m - h).abs().max() > 1e-6", "if False")),
            ),
        ],
        fallback_message="some kinds are wrong; print what was added to the content, and follow its diagonals",
        checks=[
            Check(
                points=4,
                cases=[
                    _heads_case(hidden, 7, 4, ["none", "alibi", "added", "rotary", "bias", "none", "added"]),
                    _heads_case(hidden + 100, 5, 8, ["bias", "rotary", "rotary", "alibi", "none", "added"]),
                ],
                says="several heads of each kind",
            ),
            Check(
                points=1,
                cases=[_heads_case(hidden + 200, 6, 4, ["added", "bias", "none", "rotary"], 0.001)],
                says="positions that change little",
            ),
            Check(
                points=1,
                cases=[
                    _heads_case(hidden + 300 + 10 * i, 4, 4, [name])
                    for i, name in enumerate(("rotary", "none", "added", "bias"))
                ],
                says="one head at a time",
            ),
        ],
    )


# ---- 2. A query that looks back --------------------------------------------------------------------------------------


def _turned(x: Tensor, t: Any, v: Mapping[str, Any]) -> Tensor:
    """Turn as the master's answer to task 2 does."""
    turned = answer(_ask({"length": 1, **v}).partition("\n\n\n")[2])
    with float64_by_default():
        return turned(x, t)


def _ask_cases(seed: int, sizes: Sequence[tuple[int, int]]) -> list[Case]:
    """Cases of (d, back)."""
    return [Case((2 * random(d, seed=seed + i), back)) for i, (d, back) in enumerate(sizes)]


def _ask_task(v: Mapping[str, Any]) -> Task:
    hidden = v["hidden"] + 1000
    source = _ask(v)
    words = {"halves": "a feature of each half makes a pair", "neighbours": "neighbours make a pair"}
    return judged_task(
        name="ask",
        title="A query that looks back",
        kind="code",
        prompt="The query (d,) that looks a given number of places back.",
        right=answer(source),
        returns=tensor("(d,)", "the query"),
        cases=_ask_cases(v["seed"], [(6, 3), (4, 11)]),
        wrong_answers=[
            WrongAnswer(
                "your query looks as far ahead: its key stands before it, so s - t is negative",
                answer(source, ("-back)", "back)")),
            ),
            WrongAnswer(
                f"you paired other features; here {words[v['pairs']]}", answer(_ask(v, pairs=OTHER_PAIRS[v["pairs"]]))
            ),
            WrongAnswer("your pairs have the speeds of base 10000; take your own", answer(_ask(v, base=10000))),
            WrongAnswer(
                "your pairs turn too fast or too slow: the exponent is -2i/d", answer(source, (" / d)", " / (2 * d))"))
            ),
            WrongAnswer(
                "the query has the key's length; give it the length that is asked for",
                answer(source, (f"{v['length']} * turned(key, -back) / key.norm()", "turned(key, -back)")),
            ),
        ],
        fallback_message="turned to its place, this query does not point where the turned key points; try d = 4",
        checks=[
            Check(points=3, cases=_ask_cases(hidden, [(8, 5), (12, 2)]), says="other keys and distances"),
            Check(points=1, cases=_ask_cases(hidden + 20, [(2, 4), (32, 9)]), says="one pair, and many"),
            Check(points=1, cases=_ask_cases(hidden + 40, [(6, 1000), (8, 0)]), says="far back, and its own place"),
        ],
    )


# ---- 3. How long may the text be? ------------------------------------------------------------------------------------


def _held_case(seed: int, d: int, back: int, lengths: Sequence[int]) -> Case:
    return Case((random(d, seed=seed) / 2, random(d, seed=seed + 1), back, list(lengths)))


def _held_task(v: Mapping[str, Any]) -> Task:
    hidden = v["hidden"] + 2000
    other_scale = {"divided": "as they are", "as they are": "divided"}[v["scaled"]]

    def source(scaled: str = v["scaled"], **changed: Any) -> str:
        return HELD.format(root=ROOTS[scaled]) + "\n\n\n" + _ask(v, **changed)

    scaling = {
        "divided": "your scores are not divided by sqrt(d); here they are",
        "as they are": "your scores are divided by sqrt(d); here they are not",
    }
    wrong_answers = [
        WrongAnswer(scaling[v["scaled"]], answer(source(other_scale)), 2),
        WrongAnswer(
            "your keys stand after the query: for keys before it, s - t is negative",
            answer(source(), ("-distance", "distance")),
        ),
        WrongAnswer(
            "you paired other features; the pairs are those of task 2",
            answer(source(pairs=OTHER_PAIRS[v["pairs"]])),
        ),
        WrongAnswer(
            "the query stands one place too far: its own key is at distance 0",
            answer(source(), ("torch.arange(n) ", "torch.arange(1, n + 1) ")),
        ),
        WrongAnswer(
            "you count from the beginning of the text; count back from the query",
            answer(source(), ("[back]", "[n - 1 - back]")),
        ),
        WrongAnswer(
            "you give a weight where the text is too short for such a key; the weight is 0 there",
            answer(source(), ("[back].item() if back < n else 0.0", "[min(back, n - 1)].item()")),
        ),
    ]
    return judged_task(
        name="held",
        title="How long may the text be?",
        kind="measure",
        prompt="The weight on the key that stands a given number of places back, for each length of the text.",
        right=answer(source()),
        returns=numbers("the weights", "there is one for each length"),
        cases=distinguishing_cases(
            lambda seed: [_held_case(seed, 6, 4, [9, 5, 20, 3, 4])], v["seed"] + 3, answer(source()), wrong_answers
        ),
        wrong_answers=wrong_answers,
        fallback_message="some weights are not right; work a score of a text of three positions out by hand",
        checks=[
            Check(
                points=2,
                cases=[_held_case(hidden, 8, 3, [6, 30, 90]), _held_case(hidden + 5, 4, 7, [8, 50])],
                says="other queries and lengths",
            ),
            Check(points=1, cases=[_held_case(hidden + 10, 6, 6, [1, 6, 7, 400])], says="texts that are too short"),
            Check(points=1, cases=[_held_case(hidden + 20, 10, 0, [1, 2, 12])], says="a query that asks for itself"),
        ],
        rubric=[
            (1, "the weight against the length, the lengths on a logarithmic axis, both axes named"),
            (1, "a second line to compare with, such as 1/n, or the weight if no other key came near"),
            (1, "it can be seen at which length the weight falls below one half, or that it never was above it"),
        ],
    )


# ---- 5. Repair the newest words --------------------------------------------------------------------------------------


NEWEST = BugFixTask(
    '''\
def newest(query, keys, values):
    """What the last m positions find among n keys, (m, d)."""
    m, n, d = len(query), len(keys), keys.size(-1)
    omega = {turns}.0 ** (-torch.arange(0, d, 2) / d)

    def turn(x, t):
        angles = t[:, None] * omega
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)

    t, s = torch.arange(n - m, n), torch.arange(n)
    scores = turn(query, t) @ turn(keys, s).T / math.sqrt(d)
    weights = torch.softmax(scores.masked_fill(s > t[:, None], -torch.inf), dim=-1)
    return weights @ values''',
    {
        "start": Fault(
            "t, s = torch.arange(n - m, n)",
            "t, s = torch.arange(m)",
            "the queries stand at the beginning; the last query stands where the last key stands",
        ),
        "sign": Fault(
            "turn(query, t)",
            "turn(query, -t)",
            "queries and keys are turned in opposite directions; turn both the same way",
        ),
        "corner": Fault(
            "s > t[:, None]",
            "s > torch.arange(m)[:, None]",
            "the mask thinks that the queries stand at the beginning; the last one sees all keys",
            14,
        ),
        "key": Fault("turn(keys, s).T", "keys.T", "the keys are not turned"),
        "speeds": Fault(
            "torch.arange(0, d, 2) / d",
            "torch.arange(0, d, 2) / n",
            "the speeds depend on the number of keys; they depend on d",
        ),
        "rotation": Fault(
            "a * angles.sin() + b",
            "a * angles.sin() - b",
            "your turn is no rotation: look at the signs of its second half",
        ),
        "values": Fault(
            "weights @ values",
            "weights @ turn(values, s)",
            "do not turn the values: they would then depend on where the text stands",
        ),
        "scale": Fault(
            "math.sqrt(d)",
            "math.sqrt(n)",
            "the scores are divided by the root of the number of keys; divide by that of d",
            2,
        ),
    },
    [
        Fault(
            ".masked_fill(s > t[:, None], -torch.inf)",
            ".clone()",
            "nothing is masked: a query sees keys that come later",
            14,
        ),
        Fault(" / math.sqrt(d)", "", "your scores are not scaled; divide them by sqrt(d)", 2),
    ],
)


def _newest_cases(seed: int, shapes: Sequence[tuple[int, int, int]]) -> list[Case]:
    """Cases of (m, n, d)."""
    return [Case((*draw_tensors(seed + 5 * i, (m, d), (n, d), (n, d)),)) for i, (m, n, d) in enumerate(shapes)]


def _newest_task(v: Mapping[str, Any]) -> Task:
    return NEWEST.task(
        v,
        title="Repair the newest words",
        prompt="What the last positions find among all keys so far, with rotary positions and a causal mask.",
        returns=tensor("(m, d)", "the output"),
        cases=_newest_cases(v["seed"] + 5, [(2, 5, 4)]),
        fallback_message="this is not what the last positions find; follow the lines with one query and two keys",
        checks=[
            Check(points=3, cases=_newest_cases(v["hidden"] + 3000, [(3, 7, 6), (2, 9, 4)]), says="other sizes"),
            Check(
                points=1,
                cases=_newest_cases(v["hidden"] + 3050, [(5, 5, 2), (1, 6, 8)]),
                says="all positions at once, and one alone",
            ),
        ],
    )


# ---- All of it -------------------------------------------------------------------------------------------------------


def tasks(variant: Variant) -> Sequence[Task]:
    v = variant.values
    return [
        _kinds_task(v),
        _ask_task(v),
        _held_task(v),
        Task(
            id="dilution",
            title="What competes?",
            kind="written",
            rubric=[
                (1, "gives the first length whose weight is below one half, and that of the largest, from the figure"),
                (
                    1,
                    "the score at this distance stays; each further key adds to the sum, most where fast pairs come "
                    "round; a longer query or a mask over distant keys would keep the weight up",
                ),
                (
                    1,
                    "speeds four times smaller: the query finds the key four times further back; a penalty that grows "
                    "with the distance always prefers the nearest of equal keys",
                ),
            ],
        ),
        _newest_task(v),
    ]


ASSIGNMENT = Assignment(
    name="order",
    title="Order",
    chapter=6,
    minutes=90,
    tasks=tasks,
    cells=cells,
    draw=draw,
)
