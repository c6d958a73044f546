"""Hidden side of the assignment on chapter 9: right and wrong answers, hidden checks, variants."""

import math
import random as python_random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

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
from attention_tutorial.exercises import Case, WrongAnswer, random, tensor

# ---- The variants ----------------------------------------------------------------------------------------------------

TARGETS = {"open": "still_open[-1]", "last": "opened[-1]", "outer": "still_open[0]"}
DECOYS = {"left": "target - 1", "right": "target + 1", "begin": "0"}
UNITS = {"nats": "", "bits": " / math.log(2)", "decimal digits": " / math.log(10)"}
REMOVED = {"zero": "0", "mean": "part.mean(dim=0)", "before": "part.roll(1, dims=0)"}
PATHS = ("queries", "keys", "values")
TIMES = {"last": "earlier[-1:]", "first": "earlier[:1]", "any": "earlier"}
PASSAGES, TAKEN = 8, 6  # of the code model's, in the master's cell `heads-data`


def draw(rng: python_random.Random) -> Mapping[str, Any]:
    return {
        "target": rng.choice(list(TARGETS)),
        "query": rng.choice(["before", "at"]),
        "decoy": rng.choice(list(DECOYS)),
        "path": rng.choice(PATHS),
        "removed": rng.choice(list(REMOVED)),
        "slope": rng.choice([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
        "time": rng.choice(list(TIMES)),
        "rest": rng.choice(["others", "all"]),
        "unit": rng.choice(list(UNITS)),
        "seed": rng.randrange(1, 1000),
        "share": rng.choice([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
        "bug": rng.choice(list(EXPECTED.faults)),
        "hidden": rng.getrandbits(50),
    }


def cells(variant: Variant) -> Mapping[str, str]:
    v = variant.values
    target = {
        "open": "The **target** is the bracket that it closes: the innermost one that is still open",
        "last": "The **target** is the last opening bracket before it, closed already or not",
        "outer": "The **target** is the outermost bracket that is still open",
    }[v["target"]]
    query = {
        "before": "The **query** is the token before the closing bracket, which has to predict it",
        "at": "The **query** is the closing bracket itself",
    }[v["query"]]
    decoy = {
        "left": "the place just before the target",
        "right": "the place just after the target",
        "begin": "the token that begins the text, place 0",
    }[v["decoy"]]
    removed = {
        "zero": "**Zeros** take the place of what is taken out, so just subtract it",
        "mean": "Its **mean over the places** takes the place of what is taken out",
        "before": "What the same head added **one place before** takes its place; at place 0, that of the last place",
    }[v["removed"]]
    time = {
        "last": "followed these $k$ tokens the **last** time",
        "first": "followed these $k$ tokens the **first** time",
        "any": "followed these $k$ tokens at **any** earlier time",
    }[v["time"]]
    rest = {
        "others": "**all other tokens**",
        "all": "**all tokens**, these among them, so it is the same for every $k$",
    }[v["rest"]]
    return {
        "scored-yours": f"**Yours.** {target}. {query}. The **decoy** is {decoy}.",
        "closed-yours": f"**Yours.** It is taken out of the **{v['path']}**. {removed}. The numbers of the distances "
        f"are multiplied by **{v['slope']:g}** before they are added to the scores.",
        "lost-yours": f"**Yours.** A token comes *again* if it {time}. The second column is for {rest}. The loss is "
        f"in **{v['unit']}**.",
        "lost-data": LOST_DATA.format(passages=PASSAGES, taken=TAKEN, seed=v["seed"]),
        "scored": _scored(v),
        "closed": _closed(v, {v["path"]}),
        "lost": _lost(v),
        "lost-plot": LOST_PLOT.format(rest={"others": "all others", "all": "all tokens"}[v["rest"]], unit=v["unit"]),
        "expected-yours": f"**Yours.** The numbers of the distances are multiplied by **{v['share']:g}** before "
        "they are added.",
        "expected": EXPECTED.cell(v),
    }


LOST_DATA = """\
generator = torch.Generator().manual_seed({seed})
mine = torch.randperm({passages}, generator=generator)[:{taken}]  # your passages
rows, whole, without = measured["rows"][mine], measured["whole"][mine], measured["without"][:, mine]"""


# The master's answers, where they hold a variant's choices.
def _scored(v: Mapping[str, Any]) -> str:
    query = {"before": "i - 1", "at": "i"}[v["query"]]
    return SCORED.format(target=TARGETS[v["target"]], query=query, decoy=DECOYS[v["decoy"]])


def _closed(v: Mapping[str, Any], paths: Collection[str]) -> str:
    streams = ", ".join("changed" if path in paths else "x" for path in PATHS)
    return CLOSED.format(instead=REMOVED[v["removed"]], streams=streams, slope=v["slope"])


def _lost(v: Mapping[str, Any]) -> str:
    rest = {"others": "~again", "all": "torch.ones_like(again)"}[v["rest"]]
    return LOST.format(followed=TIMES[v["time"]], rest=rest, unit=UNITS[v["unit"]])


SCORED = """\
def scored(texts, weights):
    ### BEGIN SOLUTION
    opened, still_open, looks = [], [], []
    for i, text in enumerate(texts):
        if text in ("(", "[", "{{"):
            opened.append(i)
            still_open.append(i)
        elif text in (")", "]", "}}") and still_open:
            target = {target}
            still_open.pop()
            if i - target >= 3:
                looks.append(({query}, target, {decoy}))
    query, target, decoy = torch.tensor(looks).T
    return torch.stack([weights[:, query, target], weights[:, query, decoy]]).mean(dim=2).T
    ### END SOLUTION"""

CLOSED = """\
def closed(x, added, w_q, w_k, w_v, b):
    ### BEGIN SOLUTION
    def norm(y):
        return torch.nn.functional.layer_norm(y, y.shape[-1:])

    i = torch.arange(len(x))
    back = i[:, None] - i
    outputs = []
    for part in added:
        changed = x - part + {instead}
        for_queries, for_keys, for_values = {streams}
        q, k, v = norm(for_queries) @ w_q, norm(for_keys) @ w_k, norm(for_values) @ w_v
        scores = q @ k.T / math.sqrt(k.size(-1)) + {slope:g} * b[back.clamp(min=0)]
        outputs.append(torch.softmax(scores.masked_fill(back < 0, -torch.inf), dim=-1) @ v)
    return torch.stack(outputs)
    ### END SOLUTION"""

LOST = """\
def lost(rows, whole, without, k):
    ### BEGIN SOLUTION
    again = torch.zeros(whole.shape, dtype=torch.bool)
    for row, marks in zip(rows.tolist(), again, strict=True):
        followed = {{}}
        for i in range(k, len(row)):
            earlier = followed.setdefault(tuple(row[i - k : i]), [])
            marks[i - 1] = row[i] in {followed}
            earlier.append(row[i])
    extra = without - whole
    return torch.stack([extra[:, again].mean(dim=1), extra[:, {rest}].mean(dim=1)], dim=1){unit}
    ### END SOLUTION"""

LOST_PLOT = """\
### BEGIN SOLUTION
ks = range(1, 7)
curves = torch.stack([lost(rows, whole, without, k) for k in ks])  # (6, heads, 2)
each = torch.eye(whole.numel()).reshape(-1, *whole.shape)  # a loss of 1 at one token alone: which of them count?
counts = [int((lost(rows, 0 * whole, each, k)[:, 0] > 0).sum()) for k in ks]
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
names = [f"{{layer}}.{{head}}" for layer in (1, 2) for head in (1, 2, 3, 4)]
for column, title in enumerate(("again", "{rest}")):
    for h, name in enumerate(names):
        axes[column].plot(ks, curves[:, h, column], "o-" if h < 4 else "s--", label=name)
    axes[column].set(title=title, xlabel="k, tokens that must be the same\\n(how many tokens come again)")
axes[0].set_xticks(ks, [f"{{k}}\\n({{count}})" for k, count in zip(ks, counts, strict=True)])
axes[0].set_ylabel("lost without the head, {unit}")
figure.legend(*axes[1].get_legend_handles_labels(), title="without", loc="center right")
### END SOLUTION"""


# ---- 1. A score and its decoy ----------------------------------------------------------------------------------------


def _scored_case(seed: int, text: str, heads: int) -> Case:
    texts = ["", *text]
    future = torch.ones(len(texts), len(texts)).triu(1) > 0
    scores = 2 * random(heads, len(texts), len(texts), seed=seed)
    return Case((texts, scores.masked_fill(future, -torch.inf).softmax(-1)))


def _scored_task(v: Mapping[str, Any]) -> Task:
    hidden, source = v["hidden"], _scored(v)
    targets = {
        "open": "your target is the bracket that is closed, the innermost one that is still open",
        "last": "your target is the last opening bracket, also where that is closed already",
        "outer": "your target is the outermost bracket that is still open",
    }
    queries = {
        "before": "your query is the closing bracket itself; read your rule again",
        "at": "your query stands before the bracket; read your rule again",
    }
    swapped = {"before": "at", "at": "before"}
    return judged_task(
        name="scored",
        title="A score and its decoy",
        kind="code",
        prompt="Each head's mean weight on the target and on the decoy.",
        right=answer(source),
        returns=tensor("(heads, 2)", "the weights"),
        cases=[
            _scored_case(v["seed"], ")f(ab[cde]{ij,}k)(p(qrs)t)", 2),
            _scored_case(v["seed"] + 1, "(ab)c)[]ov)(mnop)", 2),
        ],
        wrong_answers=[
            *(
                WrongAnswer(f"{targets[t]}; read your rule again", answer(_scored({**v, "target": t})))
                for t in TARGETS
                if t != v["target"]
            ),
            WrongAnswer(queries[v["query"]], answer(_scored({**v, "query": swapped[v["query"]]}))),
            WrongAnswer(
                "you count brackets less than three places after their target; leave them out",
                answer(source, ("if i - target >= 3", "if True")),
            ),
            WrongAnswer(
                "rows and columns of the weights are exchanged: rows are queries",
                answer(source, ("= torch.tensor(looks).T", "= torch.tensor(looks).T\n    weights = weights.mT")),
            ),
            WrongAnswer(
                "all heads get one number; each has its own",
                answer(source, ("mean(dim=2).T", "mean(dim=2).T.mean(dim=0).expand(len(weights), 2)")),
                mistake=15,
            ),
        ],
        fallback_message="these are not the mean weights; find the three places where there is one pair of brackets",
        checks=[
            Check(
                points=3,
                cases=[
                    _scored_case(hidden, "(abc[de]fg(hi)jk)lm[nop{q}rs]", 4),
                    _scored_case(hidden + 1, "a(b(c(d)ef)gh)(ijk)l", 2),
                ],
                says="brackets in brackets",
            ),
            Check(
                points=1,
                cases=[
                    _scored_case(hidden + 2, "]a)b(cde)f()g[](hij)[kl", 3),
                    _scored_case(hidden + 4, "{abcd}ef()ghi)[jk]lm)n(op]q", 2),
                ],
                says="brackets without a partner",
            ),
            Check(points=1, cases=[_scored_case(hidden + 3, "xy(abcd)z", 5)], says="a single pair"),
        ],
    )


# ---- 2. One path between two heads -----------------------------------------------------------------------------------


def _closed_case(seed: int, n: int, heads: int, d: int, d_head: int) -> Case:
    sizes = [(n, d), (heads, n, d), (d, d_head), (d, d_head), (d, d_head), (n,)]
    x, added, *w, b = draw_tensors(seed, *sizes)
    return Case((x + added.sum(0) + 0.5, added + 0.3, *(matrix / math.sqrt(d / 3) for matrix in w), 2 * b))


def _closed_task(v: Mapping[str, Any]) -> Task:
    hidden, source = v["hidden"] + 1000, _closed(v, {v["path"]})
    changed = f"changed = x - part + {REMOVED[v['removed']]}"
    return judged_task(
        name="closed",
        title="One path between two heads",
        kind="code",
        prompt="What a head gives where one path from each earlier head is closed.",
        right=answer(source),
        returns=tensor("(heads, n, d_head)", "the outputs"),
        cases=[_closed_case(v["seed"], 5, 3, 6, 4)],
        wrong_answers=[
            *(
                WrongAnswer(f"you take it out of the {path}; here it is the {v['path']}", answer(_closed(v, {path})))
                for path in PATHS
                if path != v["path"]
            ),
            WrongAnswer(
                f"it is gone from queries, keys and values; only the {v['path']} lose it", answer(_closed(v, PATHS))
            ),
            WrongAnswer(
                "it is taken out after the norm; the norm must see what is left",
                answer(
                    source,
                    (changed, changed.replace("x", "norm(x)", 1)),
                    (f"norm(for_{v['path']})", f"for_{v['path']}"),
                ),
            ),
            WrongAnswer(
                "you take out more and more heads; put each back before the next",
                answer(source, (changed, f"x = {changed}")),
            ),
            WrongAnswer(
                "your scores are not scaled; divide them by sqrt(d_head)",
                answer(source, (" / math.sqrt(k.size(-1))", "")),
                mistake=2,
            ),
        ],
        fallback_message="these are not the outputs; if they are right with `added` at 0, look at what you take out",
        checks=[
            Check(
                points=4,
                cases=[_closed_case(hidden, 7, 2, 5, 3), _closed_case(hidden + 10, 4, 4, 9, 2)],
                says="other sizes",
            ),
            Check(points=1, cases=[_closed_case(hidden + 20, 6, 1, 7, 5)], says="one earlier head"),
            Check(points=1, cases=[_closed_case(hidden + 30, 2, 3, 8, 8)], says="two places"),
        ],
    )


# ---- 3. Which tokens miss the head -----------------------------------------------------------------------------------


def _lost_case(seed: int, texts: int, n: int, ids: int, heads: int, k: int) -> Case:
    rows = torch.randint(1, ids, (texts, n), generator=torch.Generator().manual_seed(seed))
    rows[:, n - n // 3 :] = rows[:, 1 : 1 + n // 3]  # so that longer pieces come again
    rows[:, 0] = 0
    whole, without = (random(*size, seed=seed + 1).abs() for size in ((texts, n - 1), (heads, texts, n - 1)))
    return Case((rows, whole, without + 0.5, k))


def _lost_with_both(v: Mapping[str, Any], seed: int, *sizes: int) -> Case:
    """The first such case in which some tokens come again, and others do not."""
    cases = (_lost_case(seed + 1000 * attempt, *sizes) for attempt in range(200))
    measure = answer(_lost({**v, "rest": "others"}))
    return next(case for case in cases if measure(*case.inputs).isfinite().all())


def _lost_task(v: Mapping[str, Any]) -> Task:
    hidden = v["hidden"] + 2000
    words = {
        "last": "your token is what followed the last time",
        "first": "your token is what followed the first time",
        "any": "your token is what followed at any earlier time",
    }
    source = _lost(v)
    others = {"others": "all tokens", "all": "all other tokens"}
    swapped = {"others": "all", "all": "others"}

    wrong_answers = [
        *(
            WrongAnswer(f"{words[t]}; read your rule again", answer(_lost({**v, "time": t})))
            for t in TIMES
            if t != v["time"]
        ),
        WrongAnswer(
            f"your second column is for {others[v['rest']]}; read your rule again",
            answer(_lost({**v, "rest": swapped[v["rest"]]})),
        ),
        WrongAnswer(
            "the k tokens came before, but the token after them need not be the same in your answer",
            answer(source, (f"row[i] in {TIMES[v['time']]}", "bool(earlier)")),
        ),
        WrongAnswer(
            "your marks stand one place too far on: column 0 of the losses is that of token 1",
            answer(source, ("    extra =", "    again = again.roll(1, dims=1)\n    extra =")),
        ),
    ]
    return judged_task(
        name="lost",
        title="Which tokens miss the head",
        kind="measure",
        prompt="What each head's absence costs at tokens that come again, and elsewhere.",
        right=answer(source),
        returns=tensor("(heads, 2)", "the losses"),
        cases=distinguishing_cases(
            lambda seed: [_lost_case(seed, 2, 36, 4, 3, 2)], v["seed"], answer(source), wrong_answers
        ),
        wrong_answers=wrong_answers,
        fallback_message="these are not the mean losses; mark the tokens of a text of six ids by hand first",
        checks=[
            Check(
                points=2,
                cases=[_lost_with_both(v, hidden, 3, 30, 5, 2, 2), _lost_with_both(v, hidden + 5, 1, 45, 4, 5, 3)],
                says="other texts, and other k",
            ),
            Check(points=1, cases=[_lost_with_both(v, hidden + 10, 2, 24, 6, 3, 1)], says="one token before"),
            Check(points=1, cases=[_lost_with_both(v, hidden + 15, 2, 60, 3, 4, 4)], says="four tokens before"),
        ],
        rubric=[
            (1, "all eight heads over k from 1 to 6, at tokens that come again and elsewhere; axes and unit named"),
            (1, "says how many tokens each mean covers"),
            (1, "heads and layers can be told apart without guessing"),
        ],
    )


# ---- 5. Repair the model ---------------------------------------------------------------------------------------------


EXPECTED = BugFixTask(
    '''\
def expected(ids, embedding, w_q, w_k, w_v, w_o, b):
    """What a layer of heads and nothing else expects next: logits (n, tokens)."""

    def norm(y):
        return torch.nn.functional.layer_norm(y, y.shape[-1:])

    x = embedding[ids]
    y = norm(x)
    i = torch.arange(len(ids))
    back = i[:, None] - i
    for h in range(len(w_q)):
        q, k, v = y @ w_q[h], y @ w_k[h], y @ w_v[h]
        distance = {share:g} * b[h][back.clamp(min=0)]
        scores = q @ k.T / math.sqrt(k.size(-1)) + distance
        scores = scores.masked_fill(back < 0, -torch.inf)
        x = x + torch.softmax(scores, dim=-1) @ v @ w_o[h]
    return norm(x) @ embedding.T''',
    {
        "path": Fault("x = x + torch", "x = torch", "a head replaces the residual stream: it must be added to it"),
        "future": Fault(
            "scores.masked_fill(back < 0, -torch.inf)", "scores.clone()", "a token sees those that come after it", 14
        ),
        "heads": Fault("b[h]", "b[0]", "all heads use the distances of the first one"),
        "back": Fault(
            "back.clamp(min=0)",
            "(-back).clamp(min=0)",
            "the distance is counted forward; a key stands i - j places back",
        ),
        "scale": Fault(
            "math.sqrt(k.size(-1))", "math.sqrt(len(k))", "the scores are divided by the root of the number of keys", 2
        ),
        "values": Fault("y @ w_v[h]", "y @ w_k[h]", "the values are made with the keys' matrix"),
        "stream": Fault(
            "    for h in range(len(w_q)):\n",
            "    for h in range(len(w_q)):\n        y = norm(x)\n",
            "a head reads what heads of its own layer have added; all of them read the same stream",
        ),
        "last": Fault("return norm(x)", "return x", "the last norm is missing"),
        "axis": Fault("dim=-1", "dim=0", "the softmax runs over the queries", 5),
    },
    [
        Fault(
            "norm(x) @ embedding.T",
            "(norm(x) @ embedding.T).softmax(dim=-1)",
            "logits are asked for, without a softmax",
        ),
        Fault(" / math.sqrt(k.size(-1))", "", "your scores are not scaled; divide them by sqrt(d_head)", 2),
    ],
)


def _expected_cases(seed: int, shapes: Sequence[tuple[int, int, int, int, int]]) -> list[Case]:
    """Cases of (n, tokens, heads, d, d_head)."""
    cases = []
    for number, (n, tokens, heads, d, d_head) in enumerate(shapes):
        ids = torch.randint(tokens, (n,), generator=torch.Generator().manual_seed(seed + number))
        sizes = [(tokens, d), *[(heads, d, d_head)] * 3, (heads, d_head, d), (heads, n)]
        embedding, *w, b = draw_tensors(seed + 9 * number, *sizes)
        cases.append(Case((ids, embedding, *(matrix / math.sqrt(matrix.size(-2)) for matrix in w), 2 * b)))
    return cases


def _expected_task(v: Mapping[str, Any]) -> Task:
    return EXPECTED.task(
        v,
        title="Repair the model",
        prompt="The logits (n, tokens) of a layer of heads and nothing else.",
        returns=tensor("(n, tokens)", "the logits"),
        cases=_expected_cases(v["seed"] + 5, [(5, 7, 3, 6, 4)]),
        fallback_message="these are not the logits; give it one head and two tokens, and follow the lines",
        checks=[
            Check(
                points=3,
                cases=_expected_cases(v["hidden"] + 3000, [(6, 9, 2, 5, 3), (4, 5, 4, 8, 2)]),
                says="other sizes",
            ),
            Check(points=1, cases=_expected_cases(v["hidden"] + 3050, [(9, 6, 2, 4, 4)]), says="a longer text"),
        ],
    )


# ---- All of it -------------------------------------------------------------------------------------------------------


def tasks(variant: Variant) -> Sequence[Task]:
    v = variant.values
    return [
        _scored_task(v),
        _closed_task(v),
        _lost_task(v),
        Task(
            id="worth",
            title="What is a head worth?",
            kind="written",
            rubric=[
                (
                    1,
                    "names the head of each layer that costs most at k = 2 in the student's own passages, with both "
                    "its numbers, again and in the second column",
                ),
                (1, "says how the cost changes with k, how few tokens are left, and which changes such means can show"),
                (
                    1,
                    "no proof that two heads work together: that takes the path between them closed, in the keys, say, "
                    "and copying that ends; which pair is named does not matter",
                ),
            ],
        ),
        _expected_task(v),
    ]


ASSIGNMENT = Assignment(
    name="heads",
    title="Real heads",
    chapter=9,
    minutes=165,
    tasks=tasks,
    cells=cells,
    draw=draw,
)
