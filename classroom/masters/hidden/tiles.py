"""Hidden side of the assignment on chapter 8: right and wrong answers, hidden checks, variants."""

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
from attention_tutorial.exercises import Case, WrongAnswer, numbers, random, tensor

# ---- The variants ----------------------------------------------------------------------------------------------------

BASES = ("e", "2", "3", "4", "5", "6", "8", "10")
MASKS = {
    "window": "(j <= i) & ((i - j < {near}) | (j < 4))",
    "documents": "(j <= i) & (document[:, None] == document)",
    "stripes": "(j <= i) & ((i - j < {near}) | (j % {stride} == 0))",
}


def draw(rng: python_random.Random) -> Mapping[str, Any]:
    return {
        "holds": rng.choice(["part", "pair"]),
        "base": rng.choice(BASES),
        "shared": rng.choice(["once", "left out"]),
        "sinks": rng.choice([1, 2, 3]),
        "slope": rng.choice([0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6]),
        "distance": rng.choice(["text", "cache"]),
        "counts": rng.choice(["pairs", "tiles"]),
        "wide": rng.choice(range(2, 8)),
        "mask": rng.choice(list(MASKS)),
        "near": rng.choice(range(20, 90, 5)),
        "balance": rng.choice(range(60, 160, 10)),
        "seed": rng.randrange(1, 1000),
        "fall": rng.choice([0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]),
        "bug": rng.choice(list(TILED.faults)),
        "hidden": rng.getrandbits(50),
    }


def cells(variant: Variant) -> Mapping[str, str]:
    v = variant.values
    base = "{10}" if v["base"] == "10" else v["base"]
    log = "\\ln" if v["base"] == "e" else f"\\log_{{{v['base']}}}"
    holds = {
        "part": f"A part is a tuple of $t$ (m, 1), $\\ell$ (m, 1) and $u$ (m, d_v), with powers of **{v['base']}**: "
        f"$\\ell = \\sum_j {base}^{{s_j - t}}$ and $u = \\sum_j {base}^{{s_j - t}}\\, v_j$. Without keys it is "
        "$-\\infty$, 0 and 0.",
        "pair": f"A part is a tuple of $\\lambda$ (m, 1) and its output $o$ (m, d_v), with powers of **{v['base']}**: "
        f"$\\lambda = {log} \\sum_j {base}^{{s_j}}$, and $o$ is the average of the values with weights "
        f"${base}^{{s_j - \\lambda}}$. Without keys it is $-\\infty$ and 0.",
    }[v["holds"]]
    shared = {
        "once": "A key on both machines counts **once**",
        "left out": "A key on both machines counts **not at all**: it is in doubt, and left out. No query has all "
        "of its keys on both",
    }[v["shared"]]
    first = "The first word stays" if v["sinks"] == 1 else f"The first {v['sinks']} words stay"
    distance = {
        "text": "The distance is counted **in the text**: how many words back the word stands",
        "cache": "The distance is counted **in the cache**: how many of the words that are *kept* are newer",
    }[v["distance"]]
    counts = {
        "pairs": "the share of all **pairs** that lie in tiles that need work",
        "tiles": "the share of all **tiles** that need work",
    }[v["counts"]]
    return {
        "joined-yours": f"**Yours.** {holds} {shared}. Return $\\lambda$ with powers of {v['base']} too.",
        "recent-yours": f"**Yours.** {first}. The slope is **{v['slope']:g}**. {distance}.",
        "visited-yours": (f"**Yours.** A tile has $B$ queries and **{v['wide']}** $B$ keys. Return {counts}."),
        "visited-data": VISITED_DATA.format(
            **{key: v[key] for key in ("wide", "seed", "balance")},
            times=max(1, 6 // v["wide"]),
            rule=MASKS[v["mask"]].format(near=v["near"], stride=4 * v["near"]),
        ),
        "joined": _joined(v),
        "recent": _recent(v),
        "visited": _visited(v),
        "tiled-yours": f"**Yours.** The score of a key falls by **{v['fall']:g}** for each step back.",
        "tiled": TILED.cell(v),
    }


VISITED_DATA = """\
n, balance = {times} * {wide} * 384, {balance}  # positions; operations a byte
document = (torch.rand(n, generator=torch.Generator().manual_seed({seed})) < 0.02).cumsum(0)
i, j = torch.arange(n)[:, None], torch.arange(n)
mask = {rule}
sizes = [8, 16, 24, 32, 48, 64, 96, 128, 192, 384]"""


# The master's answers, where they hold a variant's choices.
def _joined(v: Mapping[str, Any]) -> str:
    return JOINED[v["holds"]].format(
        base="math.e" if v["base"] == "e" else v["base"],
        log="total.log()" if v["base"] == "e" else f"total.log() / math.log({v['base']})",
        times={"once": 1, "left out": 2, "twice": 0}[v["shared"]],
    )


def _recent(v: Mapping[str, Any]) -> str:
    in_cache = f"torch.where(slot < {v['sinks']}, kept.sum() - 1 - slot, last - word)"
    distance = {"text": "last - word", "cache": in_cache}[v["distance"]]
    return RECENT.format(sinks=v["sinks"], slope=v["slope"], distance=distance)


def _visited(v: Mapping[str, Any]) -> str:
    every, work = {"pairs": ("mask.numel()", "tile.numel()"), "tiles": ("len(tiles)", "1")}[v["counts"]]
    return VISITED.format(wide=v["wide"], all=every, work=work)


JOINED = {
    "part": """\
def joined(a, b, both):
    ### BEGIN SOLUTION
    top = torch.maximum(a[0], b[0])
    total, summed = 0, 0
    for (t, ell, u), times in ((a, 1), (b, 1), (both, -{times})):
        shrink = ({base} ** (t - top)).nan_to_num(0.0)  # where no machine has a key
        total, summed = total + times * shrink * ell, summed + times * shrink * u
    return torch.where(total > 0, summed / total, 0), top + {log}
    ### END SOLUTION""",
    "pair": """\
def joined(a, b, both):
    ### BEGIN SOLUTION
    top = torch.maximum(a[0], b[0])
    total, summed = 0, 0
    for (log, output), times in ((a, 1), (b, 1), (both, -{times})):
        share = ({base} ** (log - top)).nan_to_num(0.0)  # where no machine has a key
        total, summed = total + times * share, summed + times * share * output
    return torch.where(total > 0, summed / total, 0), top + {log}
    ### END SOLUTION""",
}

RECENT = """\
def recent(query, keys, values, count):
    ### BEGIN SOLUTION
    slot, last = torch.arange(len(keys)), count - 1
    ring = len(keys) - {sinks}
    word = torch.where(slot < {sinks}, slot, last - (last - slot) % ring)  # the newest word that this slot can hold
    kept = (word <= last) & ((slot < {sinks}) | (word >= {sinks}))
    distance = {distance}
    scores = keys @ query / math.sqrt(len(query)) - {slope} * distance
    weights = torch.softmax(scores.masked_fill(~kept, -torch.inf), dim=-1)
    return weights @ values
    ### END SOLUTION"""

VISITED = """\
def visited(mask, sizes):
    ### BEGIN SOLUTION
    shares = []
    for size in sizes:
        tiles = [tile for rows in mask.split(size) for tile in rows.split({wide} * size, dim=1)]
        work = sum({work} for tile in tiles if tile.any())
        shares.append(work / {all})
    return shares
    ### END SOLUTION"""


# ---- 1. Two machines that share keys ---------------------------------------------------------------------------------


def _log_base(v: Mapping[str, Any]) -> float:
    return 1.0 if v["base"] == "e" else math.log(int(v["base"]))


def _joined_case(
    seed: int,
    m: int,
    sizes: Sequence[int],
    d: int,
    v: Mapping[str, Any],
    size: float = 1.0,
    closed: Sequence[tuple[int, int]] = (),
) -> Case:
    """A case of keys on the first machine alone, on both, on the second alone; ``closed`` are (query, group)."""
    log_base = _log_base(v)
    values = [random(n, d, seed=seed + i) for i, n in enumerate(sizes)]
    scores = [size * random(m, n, seed=seed + 5 + i) for i, n in enumerate(sizes)]
    scores[1] = scores[1] - (0 if size == 1 else size)  # what is taken away must not be nearly everything
    for query, group in closed:
        scores[group][query] = -torch.inf

    def part(*groups: int) -> tuple[Tensor, ...]:
        s = torch.cat([scores[i] for i in groups], 1)
        x = torch.cat([values[i] for i in groups])
        t = s.amax(1, keepdim=True)
        weights = ((s - torch.where(t.isinf(), 0, t)) * log_base).exp()
        total, summed = weights.sum(1, keepdim=True), weights @ x
        if v["holds"] == "part":
            return t, total, summed
        return t + total.log() / log_base, torch.where(total > 0, summed / total, 0)

    return Case((part(0, 1), part(1, 2), part(1)))


def _joined_task(v: Mapping[str, Any]) -> Task:
    hidden = v["hidden"]
    source, swapped = _joined(v), {"once": "left out", "left out": "once"}
    shrink = {
        "part": ("shrink = ({base} ** (t - top)).nan_to_num(0.0)", "shrink = torch.ones_like(t)"),
        "pair": ("share = ({base} ** (log - top)).nan_to_num(0.0)", "share = torch.ones_like(log)"),
    }[v["holds"]]
    shrink = shrink[0].format(base="math.e" if v["base"] == "e" else v["base"]), shrink[1]
    other = {
        "once": "keys on both machines are left out; count each of them once",
        "left out": "keys on both machines count once; here they are left out of both",
    }
    unscaled = {
        "part": "totals and sums are measured from different tops; bring them to one before you add",
        "pair": "each machine counts the same, whatever its total; the larger total must count more",
    }

    def cases(seed: int) -> list[Case]:
        no_key = [(0, 1), (1, 0), (1, 1), (1, 2)]
        large = _joined_case(seed + 20, 3, (2, 2, 2), 2, v, 20_000.0, no_key)
        words = "correct for small scores, but not for very large ones or for queries without a key: {found}"
        return [_joined_case(seed, 3, (4, 2, 3), 2, v), Case(large.inputs, words)]

    wrong_answers = [
        WrongAnswer(
            "keys on both machines count twice; take the shared part away", answer(_joined({**v, "shared": "twice"}))
        ),
        WrongAnswer(other[v["shared"]], answer(_joined({**v, "shared": swapped[v["shared"]]}))),
        WrongAnswer(
            f"your powers have another base; here it is {v['base']}",
            answer(_joined({**v, "base": "2" if v["base"] == "e" else "e"})),
        ),
        WrongAnswer(unscaled[v["holds"]], answer(source, shrink, ("top + total.log()", "total.log()"))),
        WrongAnswer(
            "your log-total is measured from the top; add the top again",
            answer(source, ("top + total.log()", "total.log()")),
        ),
    ]
    return judged_task(
        name="joined",
        title="Two machines that share keys",
        kind="code",
        prompt="The output over the keys of two machines, and its log-total.",
        right=answer(source),
        returns=(tensor("(m, d_v)", "the output"), tensor("(m, 1)", "the log-totals", finite=False)),
        cases=distinguishing_cases(cases, v["seed"], answer(source), wrong_answers),
        wrong_answers=wrong_answers,
        fallback_message="try three keys, one on each machine alone and one on both",
        checks=[
            Check(
                points=3,
                cases=[_joined_case(hidden, 5, (3, 4, 6), 3, v), _joined_case(hidden + 30, 2, (7, 1, 2), 4, v)],
                says="other sizes",
            ),
            Check(
                points=2,
                cases=[
                    _joined_case(
                        hidden + 60,
                        6,
                        (3, 2, 3),
                        2,
                        v,
                        closed=[(0, 1), (1, 0), (2, 2), (3, 1), (3, 2), (4, 0), (4, 1), (4, 2)],
                    )
                ],
                says="queries without a key on a machine, or on any",
            ),
            Check(
                points=1,
                cases=[_joined_case(hidden + 90, 4, (3, 2, 4), 2, v, 20_000.0)],
                says="scores of many thousands",
            ),
        ],
    )


# ---- 2. A cache that forgets -----------------------------------------------------------------------------------------


def _recent_cases(seed: int, shapes: Sequence[tuple[int, int, int, int]]) -> list[Case]:
    """Cases of (size, count, d, d_v)."""
    cases = []
    for i, (size, count, d, d_v) in enumerate(shapes):
        query, keys, values = draw_tensors(seed + 5 * i, (d,), (size, d), (size, d_v))
        values[count:] *= 100  # rubbish
        cases.append(Case((query, keys, values, count)))
    return cases


def _recent_task(v: Mapping[str, Any]) -> Task:
    hidden = v["hidden"] + 1000
    source, swapped = _recent(v), {"text": "cache", "cache": "text"}
    other = {
        "text": "you count the distance in the cache; here it is counted in the text, also to the first words",
        "cache": "you count the distance in the text; here it is counted in the cache, where nothing lies between",
    }
    return judged_task(
        name="recent",
        title="A cache that forgets",
        kind="code",
        prompt="What the newest word finds in a cache that keeps the first words and the latest.",
        right=answer(source),
        returns=tensor("(d_v,)", "the output"),
        cases=[
            *_recent_cases(
                v["seed"], [(8, 11 if v["sinks"] < 3 else 10, 4, 3)]
            ),  # the ring has gone round once and a half
            Case(
                _recent_cases(v["seed"] + 9, [(8, 5, 4, 3)])[0].inputs,
                "correct for a full cache, but not for one that is not full yet: {found}",
            ),
        ],
        wrong_answers=[
            WrongAnswer(
                "slots that no word has reached yet hold rubbish; leave them out",
                answer(source, ("scores.masked_fill(~kept, -torch.inf)", "scores")),
            ),
            WrongAnswer(other[v["distance"]], answer(_recent({**v, "distance": swapped[v["distance"]]}))),
            WrongAnswer(
                "the slots are not in the order of the words: a full ring begins again",
                answer(source, ("* distance", "* (len(keys) - 1 - slot)")),
            ),
            WrongAnswer(
                "far words get more weight than near ones; subtract the penalty",
                answer(_recent({**v, "slope": -v["slope"]})),
            ),
            WrongAnswer(
                "the ring begins after the first words, which are never overwritten", answer(_recent({**v, "sinks": 0}))
            ),
            WrongAnswer(
                "your scores are not scaled; divide them by sqrt(d)",
                answer(source, (" / math.sqrt(len(query))", "")),
                mistake=2,
            ),
        ],
        fallback_message="this is not what the newest word finds; write down for each slot which word it holds",
        checks=[
            Check(points=3, cases=_recent_cases(hidden, [(8, 21, 3, 2), (6, 40, 5, 4)]), says="caches that are full"),
            Check(
                points=1,
                cases=_recent_cases(hidden + 20, [(9, 5, 3, 2), (6, 1, 2, 3)]),
                says="caches that are not full yet",
            ),
            Check(
                points=1,
                cases=_recent_cases(hidden + 40, [(7, 7, 4, 2), (7, 8, 4, 2)]),
                says="a cache that is just full, and one word more",
            ),
        ],
    )


# ---- 3. Which tiles need work? ---------------------------------------------------------------------------------------


def _visited_case(seed: int, m: int, n: int, sizes: Sequence[int]) -> Case:
    mask = random(m, n, seed=seed).abs() > 2.1
    i, j = torch.arange(m)[:, None], torch.arange(n)
    return Case((mask | ((j <= i + 1) & (i - j < 4)), list(sizes)))


def _visited_task(v: Mapping[str, Any]) -> Task:
    hidden = v["hidden"] + 2000
    other = {
        "pairs": "you give the share of the tiles; give that of the pairs in them: tiles at the edges are smaller",
        "tiles": "you give the share of the pairs; give that of the tiles: those at the edges count as one too",
    }
    source, swapped = _visited(v), {"pairs": "tiles", "tiles": "pairs"}
    size = f"{v['wide']} * size"
    return judged_task(
        name="visited",
        title="Which tiles need work?",
        kind="measure",
        prompt="The share that needs work, for each block size.",
        right=answer(source),
        returns=numbers("the shares", "there is one for each size"),
        cases=[_visited_case(v["seed"] + 3, 23, 31, [1, 2, 3])],
        wrong_answers=[
            WrongAnswer(other[v["counts"]], answer(_visited({**v, "counts": swapped[v["counts"]]}))),
            WrongAnswer(
                "the smaller tiles at the edges are left out; they count too",
                answer(source, ("dim=1)]", f"dim=1) if tile.shape == (size, {size})] or [torch.tensor(False)]")),
            ),
            WrongAnswer(
                "the smaller tiles at the edges count as if they were full; count what they hold",
                answer(_visited({**v, "counts": "pairs"}), ("tile.numel() for", f"size * {size} for")),
            ),
            WrongAnswer(
                "a tile needs work if any of its pairs is allowed, not only if all are",
                answer(source, ("tile.any()", "tile.all()")),
            ),
            WrongAnswer(
                "your tiles are turned; they have B queries, and more keys than that",
                answer(source, ("split(size)", f"split({size})"), (f"split({size}, dim=1)", "split(size, dim=1)")),
            ),
        ],
        fallback_message="some shares are not right; draw a mask of 5 x 17 pairs, and cut it by hand with B = 1",
        checks=[
            Check(
                points=2,
                cases=[_visited_case(hidden, 47, 59, [4, 6, 11]), _visited_case(hidden + 5, 37, 41, [3, 7])],
                says="other sizes",
            ),
            Check(
                points=1, cases=[_visited_case(hidden + 20, 11, 50, [2, 20, 64])], says="blocks longer than the text"
            ),
            Check(
                points=1,
                cases=[
                    Case((torch.zeros(9, 12, dtype=torch.bool), [2, 4])),
                    Case((torch.ones(10, 9, dtype=torch.bool), [3, 1])),
                ],
                says="nothing allowed, and everything",
            ),
        ],
        rubric=[
            (1, "the share against the block size, with named axes and a logarithmic one for the sizes"),
            (1, "the share of the allowed pairs as a line below, which no block size can reach or pass"),
            (1, "the bound on the time, share times max(1, balance / B), or the size at which it is lowest"),
        ],
    )


# ---- 5. Repair the tiles ---------------------------------------------------------------------------------------------


TILED = BugFixTask(
    '''\
def tiled(query, key, value, size):
    """Causal attention by tiles, (m, d_v)."""
    m, n = len(query), len(key)
    outputs = []
    for i in range(0, m, size):
        q = query[i : i + size]
        place = torch.arange(i, i + len(q))[:, None] + n - m
        top = torch.full((len(q), 1), -torch.inf)
        total, summed = torch.zeros(len(q), 1), torch.zeros(len(q), value.size(-1))
        for j in range(0, n, size):
            k, v = key[j : j + size], value[j : j + size]
            steps_back = place - torch.arange(j, j + len(k))
            scores = q @ k.T / math.sqrt(k.size(-1)) - {fall:g} * steps_back
            scores = scores.masked_fill(steps_back < 0, -torch.inf)
            new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
            shrink, weights = (top - new_top).exp(), (scores - new_top).exp()
            total = shrink * total + weights.sum(dim=-1, keepdim=True)
            summed = shrink * summed + weights @ v
            top = new_top
        outputs.append(summed / total)
    return torch.cat(outputs)''',
    {
        "total": Fault("shrink * total", "total", "the total is not rescaled when the top rises"),
        "summed": Fault("shrink * summed", "summed", "the sum is not rescaled when the top rises"),
        "last": Fault(
            "(0, n, size)", "(0, n - size + 1, size)", "the last block of keys is left out where it is shorter"
        ),
        "corner": Fault(
            "[:, None] + n - m",
            "[:, None]",
            "the queries stand at the beginning; the last one stands where the last key stands, and sees all keys",
            14,
        ),
        "skip": Fault(
            "(0, n, size)",
            "(0, i + 1, size)",
            "blocks are skipped that the queries may see: the last query stands where the last key stands",
        ),
        "place": Fault(
            "place - torch.arange(j, j + len(k))",
            "place - torch.arange(len(k))",
            "in each block the keys are counted from 0 again",
        ),
        "scale": Fault(
            "math.sqrt(k.size(-1))",
            "math.sqrt(size)",
            "the scores are divided by the root of the block size; divide by that of d",
            2,
        ),
        "undivided": Fault("summed / total", "summed", "the sum is not divided by the total at the end"),
    },
    [
        Fault(
            " - {fall:g} * steps_back\n            scores = scores.masked_fill(steps_back < 0, -torch.inf)",
            "",
            "nothing is masked, and no score falls",
            14,
        ),
        Fault(" / math.sqrt(k.size(-1))", "", "your scores are not scaled; divide them by sqrt(d)", 2),
    ],
)


def _tiled_cases(seed: int, shapes: Sequence[tuple[int, int, int, int]]) -> list[Case]:
    """Cases of (m, n, d, block size)."""
    cases = []
    for i, (m, n, d, block) in enumerate(shapes):
        q, k, x = draw_tensors(seed + 5 * i, (m, d), (n, d), (n, d + 2))
        cases.append(Case((2 * q, k, x, block)))
    return cases


def _tiled_task(v: Mapping[str, Any]) -> Task:
    return TILED.task(
        v,
        title="Repair the tiles",
        prompt="Causal attention (m, d_v) by tiles, where the last query stands where the last key stands.",
        returns=tensor("(m, d_v)", "the output"),
        cases=_tiled_cases(v["seed"] + 5, [(5, 11, 4, 3)]),
        fallback_message="this is not the output; follow every line with one query and three keys in blocks of 2",
        checks=[
            Check(points=3, cases=_tiled_cases(v["hidden"] + 3000, [(6, 11, 3, 4), (3, 10, 6, 4)]), says="other sizes"),
            Check(
                points=1,
                cases=_tiled_cases(v["hidden"] + 3050, [(1, 11, 5, 2), (4, 13, 3, 2), (2, 9, 4, 2)]),
                says="few queries, many small blocks",
            ),
        ],
    )


# ---- All of it -------------------------------------------------------------------------------------------------------


def tasks(variant: Variant) -> Sequence[Task]:
    v = variant.values
    return [
        _joined_task(v),
        _recent_task(v),
        _visited_task(v),
        Task(
            id="choice",
            title="Which block size?",
            kind="written",
            rubric=[
                (1, "names a size, and its share and bound on the time, as read off the figure"),
                (1, "a higher intensity helps up to the balance, but larger blocks visit more masked pairs"),
                (1, "random pairs of the same number: nearly every tile has an allowed pair, so hardly one is skipped"),
            ],
        ),
        _tiled_task(v),
    ]


ASSIGNMENT = Assignment(
    name="tiles",
    title="Attention made fast",
    chapter=8,
    minutes=90,
    tasks=tasks,
    cells=cells,
    draw=draw,
)
