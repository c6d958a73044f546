"""Hidden side of the assignment on chapter 7: right and wrong answers, hidden checks, variants."""

import math
import random as python_random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_classroom.assignment import Assignment, Check, Task, Variant, answer, draw_tensors, judged_task
from attention_classroom.bug_fix_task import BugFixTask, Fault
from attention_tutorial.exercises import Case, WrongAnswer, mask, numbers, tensor

# ---- The variants ----------------------------------------------------------------------------------------------------

UNITS = {"nats": "", "bits": " / math.log(2)", "decimal digits": " / math.log(10)"}
REMOVED = {"zero": "0", "mean": "parts[k, real].mean(dim=0)", "another": "parts[k].roll(1, dims=0)"}
POSITIONS, TAKEN = 40, 30  # of the trained translator's, in the master's cell `machine-data`


def draw(rng: python_random.Random) -> Mapping[str, Any]:
    return {
        "order": rng.choice(["source", "target"]),
        "reads": rng.choice(["both ways", "backwards"]),
        "padding": rng.choice(range(10)),
        "axes": rng.choice(["parts", "positions"]),
        "rest": rng.choice(["first", "last", "left out"]),
        "sign": rng.choice(["for", "against"]),
        "removed": rng.choice(list(REMOVED)),
        "unit": rng.choice(list(UNITS)),
        "seed": rng.randrange(1, 1000),
        "share": rng.choice([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
        "bug": rng.choice(list(LAYER.faults)),
        "hidden": rng.getrandbits(50),
    }


def cells(variant: Variant) -> Mapping[str, str]:
    v = variant.values
    order = {
        "source": "The source stands **before** the target: rows and columns $0$ to $n-1$ are the source",
        "target": "The target stands **before** the source: rows and columns $0$ to $m-1$ are the target",
    }[v["order"]]
    reads = {
        "both ways": "a source position sees the **whole** source except its padding",
        "backwards": "a source position sees the source **up to itself**, except its padding",
    }[v["reads"]]
    sign = {
        "for": "**for** the right word: logit of `right` less logit of `wrong`",
        "against": "for the **wrong** word: logit of `wrong` less logit of `right`",
    }[v["sign"]]
    shape = {"parts": "(p, m)", "positions": "(m, p)"}[v["axes"]]
    rest = {
        "first": f"The rest, what `shift` and `bias` give, is one more part, the **first**. So the result is {shape} "
        "with one part more, and its parts add up to the margin",
        "last": f"The rest, what `shift` and `bias` give, is one more part, the **last**. So the result is {shape} "
        "with one part more, and its parts add up to the margin",
        "left out": f"The result is {shape}. The rest, what `shift` and `bias` give, is left out",
    }[v["rest"]]
    removed = {
        "zero": "Where a part is taken away, **zeros** take its place",
        "mean": "Where a part is taken away, its **mean over the positions** takes its place at each of them, a vector "
        "(d,); positions with target 0 do not count",
        "another": "Where a part is taken away, **that of the position before** takes its place; at the first position "
        "it is that of the last",
    }[v["removed"]]
    unit = {"nats": "", "bits": " (1 bit is ln 2 nats)", "decimal digits": " (1 decimal digit is ln 10 nats)"}[
        v["unit"]
    ]
    return {
        "allowed-yours": f"**Yours.** {order}. In this task padding has the id **{v['padding']}**, and {reads}.",
        "credit-yours": f"**Yours.** You ask what speaks {sign}. {rest}.",
        "losses-yours": f"**Yours.** {removed}. The loss is in **{v['unit']}**{unit}.",
        "losses-data": LOSSES_DATA.format(positions=POSITIONS, taken=TAKEN, seed=v["seed"]),
        "allowed": _allowed(v),
        "credit": _credit(v),
        "losses": _losses(v),
        "losses-plot": LOSSES_PLOT.format(
            gone={"zero": "part", "mean": "part - part.mean(dim=0)", "another": "part - part.roll(1, dims=0)"}[
                v["removed"]
            ],
            unit=UNITS[v["unit"]],
            name=v["unit"],
        ),
        "layer-yours": f"**Yours.** Each step's output is multiplied by **{v['share']:g}** before it joins the path.",
        "layer": LAYER.cell(v),
    }


LOSSES_DATA = """\
generator = torch.Generator().manual_seed({seed})
mine = torch.randperm({positions}, generator=generator)[:{taken}]  # your positions
trained = machine["parts"][:, mine], *(machine[name] for name in ("gain", "shift", "readout", "bias"))
target = machine["target"][mine]"""


# The master's answers, where they hold a variant's choices.
def _allowed(v: Mapping[str, Any]) -> str:
    return ALLOWED.format(
        padding=v["padding"],
        source="torch.ones(n, n, dtype=torch.bool)" + (".tril()" if v["reads"] == "backwards" else ""),
        rows={"source": "[top, below]", "target": "[below, top]"}[v["order"]],
        pair={"source": "[left, right]", "target": "[right, left]"}[v["order"]],
    )


def _losses(v: Mapping[str, Any]) -> str:
    return LOSSES.format(replacement=REMOVED[v["removed"]], unit=UNITS[v["unit"]])


def _credit(v: Mapping[str, Any]) -> str:
    first, second = {"for": ("right", "wrong"), "against": ("wrong", "right")}[v["sign"]]
    return CREDIT.format(
        margin=f"readout[{first}] - readout[{second}]",
        rest=CREDIT_REST[v["rest"]].format(biases=f"bias[{first}] - bias[{second}]"),
        result="credits" if v["axes"] == "parts" else "credits.T",
    )


ALLOWED = """\
def allowed(source, target):
    ### BEGIN SOLUTION
    n, m = source.size(1), target.size(1)
    real = (source != {padding})[:, None]  # (batch, 1, n)
    past = torch.ones(m, m, dtype=torch.bool).tril()
    left = {source} & real  # the source reads itself, (batch, n, n)
    top = (left, torch.zeros(len(source), n, m, dtype=torch.bool))
    below = (real.expand(-1, m, -1), past.expand(len(source), -1, -1))
    rows = []
    for left, right in {rows}:
        rows.append(torch.cat({pair}, dim=2))
    return torch.cat(rows, dim=1)
    ### END SOLUTION"""

CREDIT = """\
def credit(parts, gain, shift, readout, bias, right, wrong):
    ### BEGIN SOLUTION
    path = parts.sum(dim=0)
    deviation = (path.var(dim=-1, correction=0, keepdim=True) + 1e-5).sqrt()
    margin = {margin}  # (m, d)
    centred = parts - parts.mean(dim=-1, keepdim=True)
    credits = (centred / deviation * gain * margin).sum(dim=-1){rest}
    return {result}
    ### END SOLUTION"""

CREDIT_REST = {
    "left out": "",
    "first": "\n    rest = margin @ shift + {biases}\n    credits = torch.cat([rest[None], credits])",
    "last": "\n    rest = margin @ shift + {biases}\n    credits = torch.cat([credits, rest[None]])",
}

LOSSES = """\
def losses(parts, gain, shift, readout, bias, target):
    ### BEGIN SOLUTION
    real = target != 0

    def loss(path):
        x = torch.nn.functional.layer_norm(path, path.shape[-1:], gain, shift)
        logits = x @ readout.T + bias
        return torch.nn.functional.cross_entropy(logits[real], target[real]).item(){unit}

    path = parts.sum(dim=0)
    return [loss(path)] + [loss(path - parts[k] + {replacement}) for k in range(len(parts))]
    ### END SOLUTION"""

LOSSES_PLOT = """\
### BEGIN SOLUTION
parts, gain, shift, readout, bias = trained
names = ["word", "place", "self-attention", "cross-attention", "feed-forward"]
path = parts.sum(dim=0)
deviation = (path.var(dim=-1, correction=0, keepdim=True) + 1e-5).sqrt()
logits = torch.nn.functional.layer_norm(path, path.shape[-1:], gain, shift) @ readout.T + bias
predicted = []
for part in parts:
    gone = {gone}
    less = (gone - gone.mean(dim=-1, keepdim=True)) / deviation * gain @ readout.T
    predicted.append(torch.nn.functional.cross_entropy(logits - less, target).item(){unit})
measured = losses(*trained, target)
at = torch.arange(len(names))
plt.bar(at - 0.2, predicted, width=0.4, label="predicted: the norm is kept")
plt.bar(at + 0.2, measured[1:], width=0.4, label="measured: the norm is computed again")
plt.axhline(measured[0], color="gray", label="the whole machine")
plt.yscale("log")
plt.xticks(at, names, rotation=15)
plt.ylabel("loss without the part, {name}")
plt.legend()
### END SOLUTION"""


# ---- 1. One row instead of two halves --------------------------------------------------------------------------------


def _sentence_ids(rows: Sequence[str], v: Mapping[str, Any], seed: int) -> Tensor:
    """Ids of rows in which . is padding."""
    others = torch.tensor([i for i in range(30) if i != v["padding"]])
    drawn = others[torch.randint(len(others), (len(rows), len(rows[0])), generator=torch.Generator().manual_seed(seed))]
    padded = torch.tensor([[sign == "." for sign in row] for row in rows])
    return drawn.masked_fill(padded, v["padding"])


def _allowed_case(seed: int, source: Sequence[str], target: Sequence[str], v: Mapping[str, Any]) -> Case:
    return Case((_sentence_ids(source, v, seed), _sentence_ids(target, v, seed + 1)))


def _allowed_task(v: Mapping[str, Any]) -> Task:
    hidden, source = v["hidden"], _allowed(v)
    other_order = {**v, "order": {"source": "target", "target": "source"}[v["order"]]}
    other_reading = {**v, "reads": {"both ways": "backwards", "backwards": "both ways"}[v["reads"]]}
    reading = {
        "both ways": "your source positions see only the source up to themselves; here each sees the whole source",
        "backwards": "your source positions see the whole source; here each sees it up to itself",
    }
    return judged_task(
        name="allowed",
        title="One row in place of two halves",
        kind="code",
        prompt="The mask (batch, n + m, n + m) of one row of source and target, True = may attend.",
        right=answer(source),
        returns=mask("(batch, n + m, n + m)"),
        cases=[_allowed_case(v["seed"], ["abcd", "ab.."], ["abc", "ab."], v)],
        wrong_answers=[
            WrongAnswer(
                'source and target stand in the other order; read under "Yours" which comes first',
                answer(_allowed(other_order)),
            ),
            WrongAnswer(reading[v["reads"]], answer(_allowed(other_reading))),
            WrongAnswer(
                "the target sees its own future; allow the past alone",
                answer(source, ("past = torch.ones(m, m, dtype=torch.bool).tril()", "past = torch.ones(m, m) > 0")),
                mistake=14,
            ),
            WrongAnswer(
                "the target does not see the source: this is where the cross-attention is",
                answer(source, ("(real.expand(-1, m, -1)", "(torch.zeros_like(real).expand(-1, m, -1)")),
            ),
            WrongAnswer(
                "the source's padding is allowed; mask it as keys",
                answer(source, (f"(source != {v['padding']})", "(source == source)")),
            ),
            WrongAnswer(
                "rows of padding are masked as well; only padding among the keys is",
                answer(source, ("& real  #", "& real & real.mT  #")),
                mistake=12,
            ),
        ],
        fallback_message="some places are not right; draw the four blocks of the mask: who asks, and whose keys",
        checks=[
            Check(
                points=4,
                cases=[
                    _allowed_case(hidden, ["abcde", "abc..", "abcd."], ["abcd", "ab..", "abc."], v),
                    _allowed_case(hidden + 5, ["ab", "a."], ["abcdef", "abcd.."], v),
                ],
                says="several sentences",
            ),
            Check(
                points=1,
                cases=[_allowed_case(hidden + 10, ["..abc", "a.b.c"], ["ab", "ab"], v)],
                says="padding at the beginning and between",
            ),
            Check(
                points=1,
                cases=[_allowed_case(hidden + 20, ["a"], ["a"], v), _allowed_case(hidden + 25, ["abc"], ["abcd"], v)],
                says="a single sentence",
            ),
        ],
    )


# ---- 2. The path is a sum --------------------------------------------------------------------------------------------


def _path_inputs(seed: int, p: int, m: int, d: int, ids: int) -> tuple[Tensor, ...]:
    sizes = [(p, m, d), (d,), (d,), (ids, d), (ids,)]
    parts, gain, shift, readout, bias = draw_tensors(seed, *sizes)
    return 8 * parts + 0.5, 1 + 0.3 * gain, shift, readout, bias  # so large that an epsilon outside the root passes


def _credit_cases(seed: int, shapes: Sequence[tuple[int, int, int, int]]) -> list[Case]:
    """Cases of (parts, m, d, ids)."""
    cases = []
    for i, (p, m, d, ids) in enumerate(shapes):
        right = torch.arange(m) * 2 % ids
        cases.append(Case((*_path_inputs(seed + 9 * i, p, m, d, ids), right, (right + 1) % ids)))
    return cases


def _credit_task(v: Mapping[str, Any]) -> Task:
    hidden, source = v["hidden"] + 1000, _credit(v)
    swapped = {"for": "against", "against": "for"}
    return judged_task(
        name="credit",
        title="The path is a sum",
        kind="code",
        prompt="How much each part of the path gives to the margin between two words.",
        right=answer(source),
        returns=tensor("as your rule says", "the credits"),
        cases=_credit_cases(v["seed"], [(3, 4, 7, 6)]),
        wrong_answers=[
            WrongAnswer(
                "your signs are turned around: read again for which word you ask",
                answer(_credit({**v, "sign": swapped[v["sign"]]})),
            ),
            WrongAnswer(
                "each part is divided by its own deviation; divide by that of the whole path",
                answer(source, ("(path.var", "(parts.var")),
            ),
            WrongAnswer(
                "the deviation divides by d - 1; a LayerNorm divides by d (torch's correction=0)",
                answer(source, ("correction=0", "correction=1")),
            ),
            WrongAnswer(
                "you give the logit of the right word; its margin over the wrong one is asked for",
                answer(
                    source.replace("readout[wrong]", "0 * readout[wrong]").replace("bias[wrong]", "0 * bias[wrong]")
                ),
            ),
            *(
                WrongAnswer(
                    f"the rest stands at the other end; put it {v['rest']}", answer(_credit({**v, "rest": other}))
                )
                for other in {"first": ["last"], "last": ["first"], "left out": []}[v["rest"]]
            ),
        ],
        fallback_message="these are not the credits; with the rest, they add up to the margin of the whole machine",
        checks=[
            Check(points=3, cases=_credit_cases(hidden, [(5, 3, 8, 10), (2, 6, 5, 4)]), says="other sizes"),
            Check(points=1, cases=_credit_cases(hidden + 30, [(4, 1, 6, 3)]), says="one position"),
            Check(points=1, cases=_credit_cases(hidden + 60, [(1, 5, 9, 7)]), says="a path of one part"),
        ],
    )


# ---- 3. Predicted, then measured -------------------------------------------------------------------------------------


def _losses_case(seed: int, p: int, m: int, d: int, ids: int, padding: int = 2) -> Case:
    target = torch.randint(1, ids, (m,), generator=torch.Generator().manual_seed(seed))
    target[m - padding :] = 0
    return Case((*_path_inputs(seed, p, m, d, ids), target))


def _losses_task(v: Mapping[str, Any]) -> Task:
    hidden, source = v["hidden"] + 2000, _losses(v)
    words = {
        "zero": "zeros take its place",
        "mean": "its mean over the positions takes its place",
        "another": "that of the position before takes its place",
    }
    theirs = {"zero": "zeros do, or one number for all features, which the norm takes away"}

    return judged_task(
        name="losses",
        title="Predicted, then measured",
        kind="measure",
        prompt="The loss of the whole path, then the loss without each part.",
        right=answer(source),
        returns=numbers("the losses", "there is one for the whole path, and one for each part"),
        cases=[_losses_case(v["seed"] + 3, 3, 6, 7, 5)],
        wrong_answers=[
            WrongAnswer(
                "you kept mean and deviation of the whole path: that is the prediction; compute the norm anew",
                answer(
                    source,
                    (
                        "torch.nn.functional.layer_norm(path, path.shape[-1:], gain, shift)",
                        "(path - path.mean(dim=-1, keepdim=True)) / deviation * gain + shift",
                    ),
                    (
                        "real = target != 0",
                        "real = target != 0\n"
                        "    deviation = (parts.sum(0).var(-1, correction=0, keepdim=True) + 1e-5).sqrt()",
                    ),
                ),
            ),
            WrongAnswer(
                "padding counts in your loss; leave out where the target is 0",
                answer(source, ("logits[real], target[real]", "logits, target")),
            ),
            *(
                WrongAnswer(
                    f"where a part is taken away, {words[v['removed']]}; in yours {theirs.get(other, words[other])}",
                    answer(_losses({**v, "removed": other})),
                )
                for other in REMOVED
                if other != v["removed"]
            ),
            *(
                []
                if v["unit"] == "nats"
                else [
                    WrongAnswer(
                        f"your losses are in nats, as cross_entropy gives them; turn them into {v['unit']}",
                        answer(_losses({**v, "unit": "nats"})),
                    )
                ]
            ),
            WrongAnswer(
                "cross_entropy takes logits; it makes the softmax itself",
                answer(source, ("x @ readout.T + bias", "(x @ readout.T + bias).softmax(dim=-1)")),
            ),
        ],
        fallback_message="some losses are not right; work out the loss without one of two parts by hand",
        checks=[
            Check(
                points=2,
                cases=[_losses_case(hidden, 5, 9, 8, 12, 3), _losses_case(hidden + 9, 2, 5, 6, 4, 1)],
                says="other sizes",
            ),
            Check(points=1, cases=[_losses_case(hidden + 30, 4, 7, 5, 6, 0)], says="no padding"),
            Check(points=1, cases=[_losses_case(hidden + 60, 3, 5, 6, 9, 4)], says="a single word, the rest padding"),
        ],
        rubric=[
            (1, "both losses for each part, predicted and measured, and the loss of the whole machine; axes named"),
            (
                1,
                "the prediction is made as the task says, from the logits of the whole path less the part's credit; "
                "a mean that is kept like the deviation is accepted too",
            ),
            (1, "a scale on which small and large losses can be read, such as a logarithmic one"),
        ],
    )


# ---- 5. Repair the layer ---------------------------------------------------------------------------------------------


LAYER = BugFixTask(
    '''\
def layer(x, memory, real, w_past, w_cross, w_1, w_2):
    """What a writing layer makes of x (m, d)."""

    def norm(y):
        return torch.nn.functional.layer_norm(y, y.shape[-1:])

    def attend(a, b, w, mask):
        q, k, v = a @ w[0], b @ w[1], b @ w[2]
        scores = (q @ k.T / math.sqrt(k.size(-1))).masked_fill(~mask, -torch.inf)
        return torch.softmax(scores, dim=-1) @ v

    past = torch.ones(len(x), len(x), dtype=torch.bool).tril()
    y = norm(x)
    x = x + {share:g} * attend(y, y, w_past, past)
    z = norm(x)
    x = x + {share:g} * attend(z, memory, w_cross, real[None, :])
    hidden = (norm(x) @ w_1).relu()
    return x + {share:g} * hidden @ w_2''',
    {
        "path": Fault(
            "x = x + {share:g} * attend(y",
            "x = {share:g} * attend(y",
            "the path is lost at the first step: its output must be added to x",
        ),
        "future": Fault(".tril()", "", "the first attention sees the future of the target", 14),
        "memory": Fault(
            "attend(z, memory, w_cross, real[None, :])",
            "attend(z, z, w_cross, past)",
            "the cross-attention never looks at the memory",
        ),
        "real": Fault(
            "real[None, :]",
            "torch.ones_like(real)[None, :]",
            "the source's padding is allowed in the cross-attention",
        ),
        "norm": Fault(
            "norm(x) @ w_1",
            "x @ w_1",
            "the feed-forward part reads x itself; here the norm comes first, also at this step",
        ),
        "feed": Fault(
            "return x + {share:g}",
            "return {share:g}",
            "the path is lost at the last step: its output must be added to x",
        ),
        "relu": Fault(".relu()", "", "the feed-forward part lacks its relu"),
        "values": Fault("b @ w[1], b @ w[2]", "b @ w[1], b @ w[1]", "the values are made with the keys' matrix"),
        "scale": Fault(
            "math.sqrt(k.size(-1))",
            "math.sqrt(len(k))",
            "the scores are divided by the root of the number of keys; divide by that of d",
            2,
        ),
    },
    [
        Fault(" / math.sqrt(k.size(-1))", "", "your scores are not scaled; divide them by sqrt(d)", 2),
    ],
)


def _layer_cases(seed: int, shapes: Sequence[tuple[int, str, int, int]]) -> list[Case]:
    """Cases of (m, source, d, wide); in a source . is padding."""
    cases = []
    for i, (m, source, d, wide) in enumerate(shapes):
        sizes = [(m, d), (len(source), d), (3, d, d), (3, d, d), (d, wide), (wide, d)]
        x, memory, *w = draw_tensors(seed + 9 * i, *sizes)
        real = torch.tensor([sign != "." for sign in source])
        cases.append(Case((x, memory, real, *(matrix / math.sqrt(matrix.size(-2)) for matrix in w))))
    return cases


def _layer_task(v: Mapping[str, Any]) -> Task:
    return LAYER.task(
        v,
        title="Repair the layer",
        prompt="What a writing layer makes of x (m, d), with the norm first.",
        returns=tensor("(m, d)", "the result"),
        cases=_layer_cases(v["seed"] + 5, [(3, "abc.", 5, 7)]),
        fallback_message="this is not what the layer makes; give it one word and one source word, and follow the lines",
        checks=[
            Check(
                points=3,
                cases=_layer_cases(v["hidden"] + 3000, [(4, "ab...", 6, 5), (2, "a.bc.d.", 3, 8)]),
                says="other sizes, padding anywhere",
            ),
            Check(points=1, cases=_layer_cases(v["hidden"] + 3050, [(5, "abc.", 4, 4)]), says="a longer target"),
        ],
    )


# ---- All of it -------------------------------------------------------------------------------------------------------


def tasks(variant: Variant) -> Sequence[Task]:
    v = variant.values
    return [
        _allowed_task(v),
        _credit_task(v),
        _losses_task(v),
        Task(
            id="trial",
            title="Is the part needed?",
            kind="written",
            rubric=[
                (1, "names the part that costs most and the one that costs least, with both numbers of each"),
                (1, "names the part whose ratio is farthest from 1, and why: the norm divides by another deviation"),
                (1, "not the same as training without it: later steps have read the part, and the others would adapt"),
            ],
        ),
        _layer_task(v),
    ]


ASSIGNMENT = Assignment(
    name="machine",
    title="The whole machine",
    chapter=7,
    minutes=105,
    tasks=tasks,
    cells=cells,
    draw=draw,
)
