"""Hidden side of the assignment on chapter 9: right and wrong answers, hidden checks, variants."""

import math
import random as python_random
from collections.abc import Callable, Mapping, Sequence
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

DECOYS = {
    "left": "weights[:, query, place - 1]",
    "right": "weights[:, query, place + 1]",
    "begin": "weights[:, query, 0]",
    "others": "(1 - on_target) / query",
}
UNITS = {"nats": "", "bits": " / math.log(2)", "decimal digits": " / math.log(10)"}
REMOVED = {"all": "x - part", "half": "x - part / 2", "reversed": "x - part + part.flip(0)"}
PATHS = {"queries": ("changed", "x"), "keys": ("x", "changed"), "both": ("changed", "changed")}
GIVEN = {"lost": "whole - torch.stack(without)", "left": "torch.stack(without) / whole"}
TIMES = {"last": "earlier[-1:]", "first": "earlier[:1]", "any": "earlier"}
PASSAGES, TAKEN = 8, 6  # of the code model's, in the master's cell `heads-data`


def draw(rng: python_random.Random) -> Mapping[str, Any]:
    return {
        "decoy": rng.choice(list(DECOYS)),
        "path": rng.choice(list(PATHS)),
        "removed": rng.choice(list(REMOVED)),
        "given": rng.choice(list(GIVEN)),
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
    decoy = {
        "left": "the weight on the place just before the target",
        "right": "the weight on the place just after the target",
        "begin": "the weight on place 0",
        "others": "the mean of the weights on all the other places that the query sees",
    }[v["decoy"]]
    path = {
        "queries": "The **queries** alone lose it; the keys keep it",
        "keys": "The **keys** alone lose it; the queries keep it",
        "both": "**Queries and keys** lose it, both",
    }[v["path"]]
    removed = {
        "all": "Subtract **all** of the output",
        "half": "Subtract **half** of the output, and leave the other half",
        "reversed": "Subtract the output, and add it again **in the reverse order of the places**: at place 0 what the "
        "head added at the last place",
    }[v["removed"]]
    given = {
        "lost": "the mean weight on the target that is **lost**: with all heads, minus without this one",
        "left": "the share that is **left**: the mean weight on the target without this head, divided by that with all",
    }[v["given"]]
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
        "scored-yours": f"**Yours.** `b` is multiplied by **{v['slope']:g}** before it is added to the scores. The "
        f"**decoy** is {decoy}.",
        "closed-yours": f"**Yours.** {path}. {removed}. Return for each earlier head {given}.",
        "lost-yours": f"**Yours.** A token comes *again* if it {time}. The second column is for {rest}. The loss is "
        f"in **{v['unit']}**.",
        "lost-data": LOST_DATA.format(passages=PASSAGES, taken=TAKEN, seed=v["seed"]),
        "scored": _scored(v),
        "closed": _closed(v),
        "lost": _lost(v),
        "lost-plot": LOST_PLOT.format(rest={"others": "all others", "all": "all tokens"}[v["rest"]], unit=v["unit"]),
        "expected-yours": f"**Yours.** `b` is multiplied by **{v['share']:g}** before it is added to the scores.",
        "expected": EXPECTED.cell(v),
    }


LOST_DATA = """\
generator = torch.Generator().manual_seed({seed})
mine = torch.randperm({passages}, generator=generator)[:{taken}]  # your passages
rows, whole, without = measured["rows"][mine], measured["whole"][mine], measured["without"][:, mine]"""


# The master's answers, where they hold a variant's choices.
def _scored(v: Mapping[str, Any]) -> str:
    return SCORED.format(slope=v["slope"], decoy=DECOYS[v["decoy"]])


def _closed(v: Mapping[str, Any]) -> str:
    queries, keys = PATHS[v["path"]]
    return CLOSED.format(removed=REMOVED[v["removed"]], queries=queries, keys=keys, given=GIVEN[v["given"]])


def _lost(v: Mapping[str, Any]) -> str:
    rest = {"others": "~again", "all": "torch.ones_like(again)"}[v["rest"]]
    return LOST.format(followed=TIMES[v["time"]], rest=rest, unit=UNITS[v["unit"]])


SCORED = """\
def scored(q, k, b, target):
    ### BEGIN SOLUTION
    i = torch.arange(len(target))
    back = i[:, None] - i  # how far back each key stands
    scores = q @ k.mT / math.sqrt(k.size(-1)) + {slope:g} * b[:, back.clamp(min=0)]
    weights = scores.masked_fill(back < 0, -torch.inf).softmax(dim=-1)
    query = i[target >= 0]
    place = target[query]
    on_target = weights[:, query, place]
    on_decoy = {decoy}
    return torch.stack([on_target.mean(dim=1), on_decoy.mean(dim=1)], dim=1)
    ### END SOLUTION"""

CLOSED = """\
def closed(x, added, w_q, w_k, target):
    ### BEGIN SOLUTION
    i = torch.arange(len(x))
    query = i[target >= 0]

    def on_target(for_queries, for_keys):
        scores = (for_queries @ w_q) @ (for_keys @ w_k).T / math.sqrt(w_k.size(1))
        weights = scores.masked_fill(i > i[:, None], -torch.inf).softmax(dim=-1)
        return weights[query, target[query]].mean()

    whole = on_target(x, x)
    without = []
    for part in added:
        changed = {removed}
        without.append(on_target({queries}, {keys}))
    return {given}
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


def _targets(seed: int, n: int, *, only_last: bool = False) -> torch.Tensor:
    """Return a target for some of n queries, neither place 0 nor the query itself; -1 for the others."""
    rng = python_random.Random(seed)
    named = [i == n - 1 or (i > 1 and not only_last and rng.random() < 0.7) for i in range(n)]
    return torch.tensor([rng.randrange(1, i) if has_one else -1 for i, has_one in enumerate(named)])


def _refusing(right: Callable[..., Any]) -> Callable[..., Any]:
    """Return a right answer that takes no targets but such as these: the printed sheet tries parts of the inputs."""

    def refusing(*inputs: Any) -> Any:
        target = inputs[-1].tolist()
        if max(target) < 1 or any(t == 0 or t >= i for i, t in enumerate(target)):
            raise ValueError(f"target must be -1, or from 1 to the place before the query's; got {target}")
        return right(*inputs)

    return refusing


def _scored_case(seed: int, heads: int, n: int, d_head: int, *, only_last: bool = False) -> Case:
    q, k, b = draw_tensors(seed, (heads, n, d_head), (heads, n, d_head), (heads, n))
    return Case((q, k, 2 * b, _targets(seed, n, only_last=only_last)))


def _scored_task(v: Mapping[str, Any]) -> Task:
    hidden, source = v["hidden"], _scored(v)
    decoys = {
        "left": "the place just before the target",
        "right": "the place just after the target",
        "begin": "place 0",
        "others": "the mean of all other places",
    }
    wrong_answers = [
        *(
            WrongAnswer(f"your decoy is {decoys[d]}; read your rule again", answer(_scored({**v, "decoy": d})))
            for d in DECOYS
            if d != v["decoy"]
        ),
        WrongAnswer(
            "your scores are not scaled; divide them by sqrt(d_head)",
            answer(source, (" / math.sqrt(k.size(-1))", "")),
            mistake=2,
        ),
        WrongAnswer(
            "a query sees places that come after it; close them before the softmax",
            answer(source, (".masked_fill(back < 0, -torch.inf)", "")),
            mistake=14,
        ),
        WrongAnswer("the softmax runs over the queries", answer(source, ("dim=-1", "dim=-2")), mistake=5),
        WrongAnswer(
            "b is counted from the beginning of the text; it goes by how far back the key stands",
            answer(source, ("b[:, back.clamp(min=0)]", "b[:, None, :]")),
        ),
        WrongAnswer("b is not multiplied by your number", answer(source, (f"{v['slope']:g} * b", "b"))),
        WrongAnswer(
            "queries without a target count in your means; leave them out",
            answer(source, ("query = i[target >= 0]", "query = i[1:]")),
        ),
        WrongAnswer(
            "all heads get one number; each has its own",
            answer(
                source, ("on_decoy.mean(dim=1)], dim=1)", "on_decoy.mean(dim=1)], dim=1).mean(0).expand(len(q), 2)")
            ),
            mistake=15,
        ),
    ]
    return judged_task(
        name="scored",
        title="A score and its decoy",
        kind="code",
        prompt="Each head's mean weight on the target and on the decoy.",
        right=_refusing(answer(source)),
        returns=tensor("(heads, 2)", "the weights"),
        cases=distinguishing_cases(
            lambda seed: [_scored_case(seed, 2, 7, 3), _scored_case(seed + 10, 3, 5, 4)],
            v["seed"],
            answer(source),
            wrong_answers,
        ),
        wrong_answers=wrong_answers,
        fallback_message="these are not the mean weights; compute one head's weights for two places by hand first",
        checks=[
            Check(
                points=3,
                cases=[_scored_case(hidden, 4, 9, 5), _scored_case(hidden + 10, 2, 6, 2)],
                says="other sizes",
            ),
            Check(points=1, cases=[_scored_case(hidden + 20, 1, 30, 8)], says="one head and a longer text"),
            Check(points=1, cases=[_scored_case(hidden + 30, 3, 6, 4, only_last=True)], says="one query with a target"),
        ],
    )


# ---- 2. One path between two heads -----------------------------------------------------------------------------------


def _closed_case(seed: int, n: int, heads: int, d: int, d_head: int) -> Case:
    x, added, *w = draw_tensors(seed, (n, d), (heads, n, d), (d, d_head), (d, d_head))
    w_q, w_k = (matrix / math.sqrt(d / 3) for matrix in w)
    return Case((x + added.sum(0), added, w_q, w_k, _targets(seed, n)))


def _closed_task(v: Mapping[str, Any]) -> Task:
    hidden, source = v["hidden"] + 1000, _closed(v)
    paths = {"queries": "the queries alone", "keys": "the keys alone", "both": "queries and keys"}
    other = {"lost": "left", "left": "lost"}[v["given"]]
    tried = f"without.append(on_target({', '.join(PATHS[v['path']])}))"
    wrong_answers = [
        *(
            WrongAnswer(
                f"in your answer {words} lose the output; here {paths[v['path']]} lose it",
                answer(_closed({**v, "path": path})),
            )
            for path, words in paths.items()
            if path != v["path"]
        ),
        WrongAnswer(
            f"you return what is {other}; what is {v['given']} is asked for", answer(_closed({**v, "given": other}))
        ),
        WrongAnswer(
            "you take out more and more heads; put each back before the next",
            answer(source, (tried, f"{tried}\n        x = changed")),
        ),
        WrongAnswer(
            "your scores are not scaled; divide them by sqrt(d_head)",
            answer(source, (" / math.sqrt(w_k.size(1))", "")),
            mistake=2,
        ),
        WrongAnswer(
            "a query sees places that come after it; close them before the softmax",
            answer(source, (".masked_fill(i > i[:, None], -torch.inf)", "")),
            mistake=14,
        ),
    ]
    if v["given"] == "lost":  # a share is the same
        words = "queries without a target count in your means; leave them out"
        wrong_answers.append(WrongAnswer(words, answer(source, ("query = i[target >= 0]", "query = i"))))
    return judged_task(
        name="closed",
        title="One path between two heads",
        kind="code",
        prompt="What each earlier head is worth to a later head's weight on the target.",
        right=_refusing(answer(source)),
        returns=tensor("(heads,)", "the values"),
        cases=distinguishing_cases(
            lambda seed: [_closed_case(seed, 6, 3, 6, 4)], v["seed"], answer(source), wrong_answers
        ),
        wrong_answers=wrong_answers,
        fallback_message="these are not the values; without any change, is your mean weight on the target right?",
        checks=[
            Check(
                points=4,
                cases=[_closed_case(hidden, 7, 2, 5, 3), _closed_case(hidden + 10, 5, 4, 9, 2)],
                says="other sizes",
            ),
            Check(points=1, cases=[_closed_case(hidden + 20, 6, 1, 7, 5)], says="one earlier head"),
            Check(points=1, cases=[_closed_case(hidden + 30, 3, 3, 8, 8)], says="one query with a target"),
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
            "a head reads what heads of its own layer have added; all of them read the same vectors",
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
    minutes=135,
    tasks=tasks,
    cells=cells,
    draw=draw,
)
