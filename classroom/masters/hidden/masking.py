"""Hidden side of the assignment on chapter 5: right answers, slips, the checks that give the points, the variants."""

import math
import random as python_random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_classroom.assignment import Assignment, Check, Task, Variant, judged_task
from attention_classroom.bug_fix_task import BugFixTask, Fault
from attention_tutorial.exercises import Case, WrongAnswer, mask, numbers, random, tensor

# ---- The variants ----------------------------------------------------------------------------------------------------


def draw(rng: python_random.Random) -> Mapping[str, Any]:
    return {
        "window": rng.choice([3, 4, 5, 6, 7, 8]),
        "sinks": rng.choice([1, 2, 3, 4]),
        "separator": rng.choice(range(2, 30)),
        "side": rng.choice(["ends", "begins"]),
        "how": rng.choice(["put", "added"]),
        "divisor": rng.choice([1.25, 1.5, 1.75, 2.25, 2.5, 2.75, 3.25, 3.5]),
        "spread": rng.choice([1.5, 2, 2.5, 3, 3.5, 4]),
        "keys": rng.choice([20, 24, 28, 32, 36, 40]),
        "seed": rng.randrange(1, 1000),
        "share": rng.choice([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
        "bug": rng.choice(list(SENTENCE.faults)),
        "hidden": rng.getrandbits(50),
    }


def cells(variant: Variant) -> Mapping[str, str]:
    v = variant.values
    first = "the very first position stays" if v["sinks"] == 1 else f"the first {v['sinks']} positions stay"
    side = {
        "ends": "is the **last** token of its document: the next token begins a new one",
        "begins": "is the **first** token of its document: the token before it belongs to the document before",
    }[v["side"]]
    how = {
        "put": "is **put in place of** the scores of masked keys",
        "added": "is **added to** the scores of masked keys",
    }[v["how"]]
    return {
        "window_mask-yours": (
            f"**Yours.** The window holds the **{v['window']}** latest positions, the query's own among them, "
            f"and {first} allowed for good."
        ),
        "packed_mask-yours": f"**Yours.** The separator has the id **{v['separator']}**, and it {side}.",
        "leaked-yours": (
            f"**Yours.** Divide all scores by **{v['divisor']:g}** first, and by nothing else. Then the fill {how}."
        ),
        "leaked-data": LEAKED_DATA.format(**v),
        "window_mask": WINDOW_MASK.format(**v),
        "packed_mask": PACKED_MASK.format(
            number={"ends": "is_end.cumsum(0) - is_end", "begins": "is_end.cumsum(0)"}[v["side"]], **v
        ),
        "leaked": LEAKED.format(divisor=v["divisor"], filled={"put": "fill", "added": "scores + fill"}[v["how"]]),
        "sentence-yours": f"**Yours.** To each output **{v['share']:g}** times the word's own row of `x` is added.",
        "sentence": SENTENCE.cell(v),
    }


LEAKED_DATA = """\
generator = torch.Generator().manual_seed({seed})
scores = {spread:g} * torch.randn(500, {keys}, generator=generator)
mask = torch.rand(500, {keys}, generator=generator) < 0.5
fills = [0, -1, -2, -4, -6, -8, -10, -15, -20, -25, -30]"""

# The master's answers, where they hold a variant's numbers.
WINDOW_MASK = """\
def window_mask(n):
    ### BEGIN SOLUTION
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    return (j <= i) & ((i - j < {window}) | (j < {sinks}))
    ### END SOLUTION"""

PACKED_MASK = """\
def packed_mask(ids):
    ### BEGIN SOLUTION
    is_end = (ids == {separator}).long()
    document = {number}
    same = document[:, None] == document[None, :]
    return same & torch.ones_like(same).tril()
    ### END SOLUTION"""

LEAKED = """\
def leaked(scores, mask, fills):
    ### BEGIN SOLUTION
    scores, some = scores / {divisor:g}, mask.any(dim=-1)
    shares = []
    for fill in fills:
        filled = torch.where(mask, scores, {filled})
        weights = torch.softmax(filled, dim=-1)
        closed = (weights * ~mask).sum(dim=-1)
        shares.append(closed[some].mean().item())
    return shares
    ### END SOLUTION"""


# ---- 1. A window that keeps the beginning ----------------------------------------------------------------------------


def _window(window: int, sinks: int, *, ahead: bool = False, both: bool = False) -> Callable[[int], Tensor]:
    def window_mask(n: int) -> Tensor:
        i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
        near = (i - j).abs() < window if both else (j <= i) & (i - j < window)
        return near | ((j < sinks) & ((j <= i) | ahead))

    return window_mask


def _window_mask_task(v: Mapping[str, Any]) -> Task:
    window, sinks = v["window"], v["sinks"]
    return judged_task(
        name="window_mask",
        title="A window that keeps the beginning",
        kind="code",
        prompt="The mask (n, n) of a window that keeps the first positions allowed, True = may attend.",
        right=_window(window, sinks),
        returns=mask("(n, n)"),
        cases=[Case((15,)), Case((2,), "correct for 15 positions, but not for 2: {found}")],
        wrong_answers=[
            WrongAnswer(
                "your window is one too long: the query's own position is one of those it holds",
                _window(window + 1, sinks),
                mistake=14,
            ),
            WrongAnswer(
                "your window is one too short; count the query's own position and those before it",
                _window(window - 1, sinks),
                mistake=14,
            ),
            WrongAnswer(
                "the first positions are allowed to queries that come before them: nobody may see the future",
                _window(window, max(sinks, 2), ahead=True),
                mistake=14,
            ),
            WrongAnswer("the first positions are not kept; they stay allowed for good", _window(window, 0)),
            WrongAnswer(
                "one position too many stays allowed at the beginning; they are counted from 0",
                _window(window, sinks + 1),
            ),
            WrongAnswer(
                "the window reaches into the future as well; let j be at most i",
                _window(window, sinks, both=True),
                mistake=14,
            ),
        ],
        fallback_message="some places are not right; draw the mask for n = 8 on paper and compare row by row",
        checks=[
            Check(points=3, cases=[Case((17,)), Case((24,))], says="long rows"),
            Check(
                points=1,
                cases=[Case((n,)) for n in (window, window + 1, window + sinks + 2)],
                says="rows about as long as the window",
            ),
            Check(points=1, cases=[Case((1,)), Case((3,))], says="very short rows"),
        ],
    )


# ---- 2. Several documents in one row ---------------------------------------------------------------------------------


def _packed(separator: int, side: str, *, kind: str = "") -> Callable[[Tensor], Tensor]:
    def packed_mask(ids: Tensor) -> Tensor:
        is_separator = (ids == separator).long()
        document = is_separator.cumsum(0) - (is_separator if side == "ends" else 0)
        same = document[:, None] == document[None, :]
        past = torch.ones_like(same).tril(-1 if kind == "not itself" else 0)
        if kind == "both ways":
            return same
        if kind == "one document":
            return past
        return same & past & (ids != separator)[None, :] if kind == "no keys" else same & past

    return packed_mask


def _row(text: str, separator: int, seed: int = 0) -> Case:
    """A row of ids: | is the separator, every other sign some other id."""
    generator = torch.Generator().manual_seed(seed)
    others = torch.tensor([i for i in range(1, 40) if i != separator])
    drawn = others[torch.randint(len(others), (len(text),), generator=generator)]
    return Case((torch.where(torch.tensor([sign == "|" for sign in text]), separator, drawn),))


def _packed_mask_task(v: Mapping[str, Any]) -> Task:
    separator, side, hidden = v["separator"], v["side"], v["hidden"] + 100
    other = {"ends": "begins", "begins": "ends"}[side]
    words = {"ends": "ends a document and belongs to it", "begins": "begins a document and belongs to it"}[side]
    rows = ["abcd|ef|ghijk|lm", "a|b|c|d|e|f|g"]
    return judged_task(
        name="packed_mask",
        title="Several documents in one row",
        kind="code",
        prompt="The mask (n, n) of a row of several documents, True = may attend.",
        right=_packed(separator, side),
        returns=mask("(n, n)"),
        cases=[_row("ab|cde|fg|h", separator, v["seed"])],
        wrong_answers=[
            WrongAnswer(
                f"the separators are on the wrong side: each {words}",
                _packed(separator, other),
            ),
            WrongAnswer(
                "the documents are told apart, but each position sees its future; allow the past alone",
                _packed(separator, side, kind="both ways"),
                14,
            ),
            WrongAnswer(
                "the past is allowed across all documents; only that of its own may be",
                _packed(separator, side, kind="one document"),
            ),
            WrongAnswer(
                "your mask hides each position from itself; a position may attend to itself",
                _packed(separator, side, kind="not itself"),
                14,
            ),
            WrongAnswer(
                "with your mask nobody sees the separators; they are part of their documents",
                _packed(separator, side, kind="no keys"),
            ),
        ],
        fallback_message="some places are not right; print the number of the document of each position first",
        checks=[
            Check(
                points=4,
                cases=[_row(row, separator, hidden + i) for i, row in enumerate(rows)],
                says="several documents",
            ),
            Check(
                points=1,
                cases=[_row(row, separator, hidden + 20 + i) for i, row in enumerate(["|ab||cd|", "||||"])],
                says="separators at the ends and side by side",
            ),
            Check(
                points=1,
                cases=[_row(row, separator, hidden + 40 + i) for i, row in enumerate(["abcdefghi", "a"])],
                says="a row without a separator",
            ),
        ],
    )


# ---- 3. How much leaks? ----------------------------------------------------------------------------------------------


def _leaked(how: str, divisor: float, *, kind: str = "") -> Callable[..., Tensor]:
    def leaked(scores: Tensor, mask: Tensor, fills: Sequence[float]) -> Tensor:
        scores, mask = scores / divisor, ~mask if kind == "polarity" else mask
        some = torch.ones_like(mask[:, 0]) if kind == "all rows" else mask.any(-1)
        shares = []
        for fill in [-math.inf] * len(fills) if kind == "infinite" else fills:
            filled = torch.where(mask, scores, torch.full_like(scores, fill) if how == "put" else scores + fill)
            weights = filled.softmax(0 if kind == "columns" else -1)
            shares.append((weights * ~mask).sum(-1)[some].mean())
        return torch.stack(shares)

    return leaked


def _leaked_case(seed: int, m: int, n: int, spread: float, fills: Sequence[float], empty: int = 1) -> Case:
    scores, mask = spread * random(m, n, seed=seed), random(m, n, seed=seed + 1) < 0.3
    mask[:, 0] = True
    mask[:empty] = False
    mask[-1] = True
    return Case((scores, mask, list(fills)))


def _leaked_task(v: Mapping[str, Any]) -> Task:
    how, divisor, hidden = v["how"], v["divisor"], v["hidden"] + 200
    other = {"put": "added", "added": "put"}[how]
    words = {"put": "put in place of the scores", "added": "added to the scores"}
    return judged_task(
        name="leaked",
        title="How much leaks?",
        kind="measure",
        prompt="The mean weight that leaks to masked keys, for each fill.",
        right=_leaked(how, divisor),
        returns=numbers("the shares", "there is one for each fill"),
        cases=[_leaked_case(v["seed"] + 3, 13, 7, 2.0, [-0.5, -3.0, -8.0])],
        wrong_answers=[
            WrongAnswer(f"your scores are not divided by {divisor:g}; divide them before the mask", _leaked(how, 1.0)),
            WrongAnswer(f"in your answer the fill is {words[other]}; here it is {words[how]}", _leaked(other, divisor)),
            WrongAnswer(
                "you read the mask the wrong way round: True means may attend",
                _leaked(how, divisor, kind="polarity"),
                mistake=7,
            ),
            WrongAnswer(
                "your softmax runs over the queries; it must run over the keys",
                _leaked(how, divisor, kind="columns"),
                mistake=5,
            ),
            WrongAnswer(
                "rows in which no key is allowed must be left out: all their weight lies on masked keys",
                _leaked(how, divisor, kind="all rows"),
                mistake=11,
            ),
            WrongAnswer(
                "nothing leaks: your masked keys get minus infinity; give them the fill",
                _leaked(how, divisor, kind="infinite"),
            ),
        ],
        fallback_message="some numbers are not right; with a fill of minus infinity nothing leaks",
        checks=[
            Check(points=2, cases=[_leaked_case(hidden, 23, 11, 1.0, [0.0, -1.5, -4.0, -7.0])], says="moderate fills"),
            Check(
                points=1,
                cases=[_leaked_case(hidden + 20, 17, 5, 4.0, [-2.0, -1e9], empty=3)],
                says="large scores, several rows without an allowed key",
            ),
            Check(
                points=1,
                cases=[_leaked_case(hidden + 40, 11, 6, 1.0, [2.0, -math.inf], empty=0)],
                says="a fill above 0, and minus infinity",
            ),
        ],
        rubric=[
            (1, "the leak against the fill with a logarithmic vertical axis, both axes named"),
            (1, "a second line shows what is expected, such as a constant times exp(fill), or the slope is given"),
            (1, "the caption or title says how large the scores are and how many keys are masked"),
        ],
    )


# ---- 5. Repair the sentence vector -----------------------------------------------------------------------------------


SENTENCE = BugFixTask(
    '''\
def sentence(x, real):
    """One vector (d,) for a padded sentence x (n, d)."""
    scores = x @ x.T / math.sqrt(x.size(-1))
    scores = scores.masked_fill(~real[None, :], -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    output = weights @ x + {share:g} * x
    return output[real].mean(dim=0)''',
    {
        "queries": Fault(
            "real[None, :]",
            "real[:, None]",
            "the mask hides the rows of padding, which nobody reads, and allows its columns",
            mistake=12,
        ),
        "polarity": Fault(
            "~real",
            "real",
            "the real positions are masked and the padding is allowed: masked_fill fills where its mask is True",
            mistake=7,
        ),
        "mean": Fault(
            "output[real]",
            "output",
            "the mean runs over the padding as well; its rows are no part of the sentence",
        ),
        "count": Fault(
            "mean(dim=0)",
            "sum(dim=0) / len(x)",
            "you divide by the length with padding; divide by the number of real positions",
        ),
        "fill": Fault(
            "-torch.inf",
            "-1e-9",
            "masked keys get a score of nearly 0 (1e-9 in place of 1e9), so they still get weight",
            mistake=13,
        ),
        "after": Fault(
            "scores = scores.masked_fill(~real[None, :], -torch.inf)\n    weights = torch.softmax(scores, dim=-1)",
            "weights = torch.softmax(scores, dim=-1)\n    weights = weights * real[None, :]",
            "the weights of masked keys are set to 0 after the softmax, so the rows no longer sum to 1",
            mistake=6,
        ),
    },
    [
        Fault(" / math.sqrt(x.size(-1))", "", "your scores are not scaled; divide them by sqrt(d)", 2),
    ],
)


def _sentence_cases(seed: int, rows: Sequence[str], d: int) -> list[Case]:
    """Cases of texts in which . is padding."""
    return [
        Case((random(len(row), d, seed=seed + i), torch.tensor([sign != "." for sign in row])))
        for i, row in enumerate(rows)
    ]


def _sentence_task(v: Mapping[str, Any]) -> Task:
    return SENTENCE.task(
        v,
        title="Repair the sentence vector",
        prompt="One vector (d,) for a padded sentence; padding must not change it.",
        returns=tensor("(d,)", "the vector", finite=False),
        cases=_sentence_cases(v["seed"] + 5, ["abcd.."], 5),
        fallback_message="this is not the vector of the sentence alone; cut the padding off by hand and compare",
        checks=[
            Check(
                points=3, cases=_sentence_cases(v["hidden"] + 300, ["ab...", "abcdefg.."], 7), says="padding at the end"
            ),
            Check(
                points=1,
                cases=_sentence_cases(v["hidden"] + 350, ["..abc", "a.b.c.."], 3),
                says="padding at the beginning and between",
            ),
        ],
    )


# ---- All of it -------------------------------------------------------------------------------------------------------


def tasks(variant: Variant) -> Sequence[Task]:
    v = variant.values
    return [
        _window_mask_task(v),
        _packed_mask_task(v),
        _leaked_task(v),
        Task(
            id="infinity",
            title="Is minus a billion enough?",
            kind="written",
            rubric=[
                (1, "reads the law off the figure: each step of 1 in the fill divides the leak by e, once it is small"),
                (1, "float64 and float32 round exp(-1e9) to 0, so nothing leaks while allowed scores are ordinary"),
                (
                    1,
                    "names a place where it fails: float16 cannot hold it, a row that sees nothing, or very low scores",
                ),
            ],
        ),
        _sentence_task(v),
    ]


ASSIGNMENT = Assignment(
    name="masking",
    title="Masking",
    chapter=5,
    minutes=90,
    tasks=tasks,
    cells=cells,
    draw=draw,
)
