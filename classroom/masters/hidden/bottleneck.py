"""Hidden side of the assignment on chapter 1: right and wrong answers, hidden checks, variants."""

import random as python_random
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from attention_classroom.assignment import Assignment, Check, Task, Variant, answer, draw_tensors, judged_task
from attention_classroom.bug_fix_task import BugFixTask, Fault
from attention_tutorial.exercises import Case, WrongAnswer, numbers, random, tensor

# ---- The variants ----------------------------------------------------------------------------------------------------


def draw(rng: python_random.Random) -> Mapping[str, Any]:
    # swapped is not the same as shifted
    left, right = rng.choice([(i, j) for i in range(1, 6) for j in range(1, 6) if abs(i - j) > 1])
    few, letters, length = rng.choice([6, 7, 8, 9, 10]), rng.choice(range(8, 14)), rng.choice(range(9, 14))
    return {
        "left": left,
        "right": right,
        "penalty": rng.choice([0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.4, 1.6, 1.7, 1.8, 1.9]),
        "fade": rng.choice([0.74, 0.76, 0.78, 0.8, 0.82, 0.84, 0.86, 0.88, 0.9]),
        "few": few,
        "many": rng.choice([8, 9, 10, 11]) * few,
        "letters": letters,
        "length": length,
        "seed": rng.randrange(1, 1000),
        "start": rng.choice([-0.8, -0.6, -0.4, -0.2, 0.2, 0.4, 0.6, 0.8]),
        "bug": rng.choice(list(BOTH_WAYS.faults)),
        "hidden": rng.getrandbits(50),
    }


def cells(variant: Variant) -> Mapping[str, str]:
    v = variant.values
    return {
        "look-yours": (
            f"**Yours.** The window reaches **{v['left']}** to the left of the centre and **{v['right']}** to the "
            f"right. So it holds at most {v['left'] + v['right'] + 1} positions, the centre among them."
        ),
        "spread-yours": f"**Yours.** The penalty is $c = {v['penalty']}$.",
        "recall-yours": f"""**Yours.** The state fades by $f = {v["fade"]}$ at each step.""",
        "recall-data": f"""letters, length = {v["letters"]}, {v["length"]}


def memory(d, batch=400):
    \"\"\"Draw the vectors of the letters, a rotation, and sequences to be remembered.\"\"\"
    generator = torch.Generator().manual_seed({v["seed"]})
    table = torch.randn(letters, d, generator=generator) / math.sqrt(d)
    turn, _ = torch.linalg.qr(torch.randn(d, d, generator=generator))
    ids = torch.randint(letters, (batch, length), generator=generator)
    return table, turn, ids


small, large = {v["few"]}, {v["many"]}  # numbers in the vector""",
        "look": LOOK.format(**v),
        "spread": SPREAD.format(**v),
        "recall": RECALL.format(**v),
        "both_ways-yours": f"**Yours.** Every entry of $h_0$ is **{v['start']:g}**, for both readers.",
        "both_ways": BOTH_WAYS.cell(v),
    }


# The master's answers, where they hold a variant's numbers.
LOOK = """\
def look(state, states, centre):
    ### BEGIN SOLUTION
    position = torch.arange(len(states))
    inside = (position >= centre - {left}) & (position <= centre + {right})
    scores = (states @ state).masked_fill(~inside, -torch.inf)
    weights = torch.softmax(scores, dim=0)
    return weights @ states, weights
    ### END SOLUTION"""

SPREAD = """\
def spread(decoder, encoder):
    ### BEGIN SOLUTION
    covered = torch.zeros(len(encoder))
    rows = []
    for state in decoder:
        weights = torch.softmax(encoder @ state - {penalty} * covered, dim=0)
        covered = covered + weights
        rows.append(weights)
    return torch.stack(rows)
    ### END SOLUTION"""

RECALL = """\
def recall(table, turn, ids):
    ### BEGIN SOLUTION
    h = torch.zeros(len(ids), table.size(1))
    for step in ids.T:
        h = {fade} * h @ turn.T + table[step]
    shares = []
    for j in reversed(range(ids.size(1))):
        guess = (h @ table.T).argmax(dim=-1)
        shares.append((guess == ids[:, j]).double().mean().item())
        h = h @ turn  # the transpose of the rotation, for rows
    return shares[::-1]
    ### END SOLUTION"""


# ---- Look through a window -------------------------------------------------------------------------------------------


def _look_cases(seed: int, shapes: Sequence[tuple[int, int, int]], words: Sequence[str] = ()) -> list[Case]:
    """Cases of (n, d, centre)."""
    templates = [*words, *["{found}"] * len(shapes)]
    return [
        Case((random(d, seed=seed + 2 * i) / 2, random(n, d, seed=seed + 2 * i + 1), centre), templates[i])
        for i, (n, d, centre) in enumerate(shapes)
    ]


def _look_task(v: Mapping[str, Any]) -> Task:
    left, right, hidden = v["left"], v["right"], v["hidden"]
    source = LOOK.format(**v)
    shapes = [(17, 7, 8), (14, 3, 9)]
    return judged_task(
        name="look",
        title="Look through a window",
        kind="code",
        prompt="The context (d,) and the weights (n,) of one decoder state that looks through a window.",
        right=answer(source),
        returns=(tensor("(d,)", "the context"), tensor("(n,)", "the weights")),
        cases=_look_cases(
            v["seed"],
            [(13, 5, 6), (13, 5, 0), (11, 5, 10)],
            [
                "{found}",
                "correct in the middle, but not at the first position: {found}",
                "wrong at the last position: {found}",
            ],
        ),
        wrong_answers=[
            WrongAnswer(
                "your window is the wrong way round: swap left and right", answer(LOOK.format(left=right, right=left))
            ),
            WrongAnswer(
                "the window ends one position too early: in Python a range leaves its end out",
                answer(LOOK.format(left=left, right=right - 1)),
            ),
            WrongAnswer(
                "outside the window the scores are 0, and exp(0) is 1, so those positions get weight; fill with -inf",
                answer(source, ("-torch.inf", "0.0")),
                mistake=6,
            ),
            WrongAnswer(
                "you cut the weights after the softmax, so they no longer sum to 1; cut the scores before it",
                answer(source, (".masked_fill(~inside, -torch.inf)", ""), ("dim=0)", "dim=0) * inside")),
                mistake=6,
            ),
            WrongAnswer(
                "your scores are divided by sqrt(d); this task takes the plain dot product",
                answer(source, ("@ state)", "@ state / math.sqrt(len(state)))")),
            ),
            WrongAnswer(
                "a slice that begins below 0 counts from the end and comes out empty; begin it at 0 at the least",
                answer(
                    source,
                    (
                        f"(position >= centre - {left}) & (position <= centre + {right})",
                        f"position < 0\n    inside[centre - {left} : centre + {right} + 1] = True",
                    ),
                    ("dim=0)", "dim=0).nan_to_num(0.0)"),
                ),
            ),
        ],
        fallback_message="work out a small window by hand",
        checks=[
            Check(points=3, cases=_look_cases(hidden, shapes), says="centres in the middle"),
            Check(
                points=2,
                cases=_look_cases(hidden + 50, [(9, 7, 0), (9, 7, 1), (10, 7, 9), (10, 7, 8)]),
                says="centres at the first and the last positions",
            ),
            Check(
                points=1,
                cases=_look_cases(hidden + 90, [(1, 3, 0), (2, 3, 1), (4, 3, 0), (4, 3, 3)]),
                says="very short sources",
            ),
        ],
    )


# ---- Spread the attention --------------------------------------------------------------------------------------------


def _spread_cases(seed: int, shapes: Sequence[tuple[int, int, int]]) -> list[Case]:
    """Cases of (m, n, d)."""
    return [Case((*draw_tensors(seed + 2 * i, (m, d), (n, d)),)) for i, (m, n, d) in enumerate(shapes)]


def _spread_task(v: Mapping[str, Any]) -> Task:
    c, hidden = v["penalty"], v["hidden"] + 100
    source = SPREAD.format(penalty=c)
    return judged_task(
        name="spread",
        title="Spread the attention",
        kind="code",
        prompt="The weights (m, n) of decoder states that avoid what was looked at before.",
        right=answer(source),
        returns=tensor("(m, n)", "the weights"),
        cases=_spread_cases(v["seed"] + 7, [(5, 7, 3)]),
        wrong_answers=[
            WrongAnswer(
                "the penalty has no effect: add each row of weights to what was looked at",
                answer(SPREAD.format(penalty=0)),
            ),
            WrongAnswer(
                "what was looked at gets more weight; subtract the penalty from the scores",
                answer(SPREAD.format(penalty=-c)),
            ),
            WrongAnswer(
                "only the step before is held against a position; sum the weights of all earlier steps",
                answer(source, ("covered + weights", "weights")),
            ),
            WrongAnswer(
                "the penalty comes after the softmax; take it off the scores, so that each row sums to 1",
                answer(source, (f" - {c} * covered, dim=0)", f", dim=0) - {c} * covered")),
                mistake=6,
            ),
            WrongAnswer(
                "your softmax runs down the columns; each step shares its weight among the source positions",
                lambda decoder, encoder: (decoder @ encoder.T).softmax(0),
                mistake=5,
            ),
        ],
        fallback_message="the first row is that of plain attention; compute the second by hand and compare",
        checks=[
            Check(points=3, cases=_spread_cases(hidden, [(6, 8, 5), (9, 4, 3)]), says="several steps"),
            Check(
                points=2,
                cases=_spread_cases(hidden + 50, [(2, 9, 5), (31, 5, 2)]),
                says="two steps, and far more steps than source positions",
            ),
        ],
    )


# ---- Measure what a vector remembers ---------------------------------------------------------------------------------


def _recall_case(seed: int, letters: int, d: int, batch: int, n: int) -> Case:
    turn, _ = torch.linalg.qr(random(d, d, seed=seed))
    ids = torch.randint(letters, (batch, n), generator=torch.Generator().manual_seed(seed))
    return Case((random(letters, d, seed=seed + 1), turn, ids))


def _recall_task(v: Mapping[str, Any]) -> Task:
    fade, hidden = v["fade"], v["hidden"] + 200
    source = RECALL.format(fade=fade)
    return judged_task(
        name="recall",
        title="Measure what a vector remembers",
        kind="measure",
        prompt="The share of letters that are read back correctly, at each position, (n,).",
        right=answer(source),
        returns=numbers("the shares", "there is one for each position"),
        cases=[_recall_case(v["seed"], 9, 14, 60, 7)],
        wrong_answers=[
            WrongAnswer(
                "the state does not fade; multiply the turned state by f at each step", answer(RECALL.format(fade=1))
            ),
            WrongAnswer(
                "you read every position from the last state as it is; turn it back first, once for each later step",
                answer(source, ("h = h @ turn ", "pass ")),
            ),
            WrongAnswer(
                "you turn the state further where it must be turned back: the transpose undoes a rotation",
                answer(source, ("h = h @ turn ", "h = h @ turn.T ")),
            ),
            WrongAnswer(
                "you turn back once too often: the last letter was not turned at all",
                answer(source, ("(h @ table.T)", "(h @ turn @ table.T)")),
            ),
            WrongAnswer(
                "the letter is added before the state is turned; turn the old state, then add",
                answer(source, (f"{fade} * h @ turn.T + table[step]", f"({fade} * h + table[step]) @ turn.T")),
            ),
            WrongAnswer(
                "your list begins at the end; the first number belongs to the first letter",
                answer(source, ("shares[::-1]", "shares")),
            ),
        ],
        fallback_message="some shares are not right; in a large vector a single letter always comes back",
        checks=[
            Check(points=2, cases=[_recall_case(hidden, 7, 10, 300, 8)], says="a small vector"),
            Check(points=1, cases=[_recall_case(hidden + 5, 11, 60, 150, 9)], says="a large vector"),
            Check(points=1, cases=[_recall_case(hidden + 9, 8, 16, 200, 21)], says="long sequences"),
        ],
        rubric=[
            (1, "both sizes are drawn against the position, and it can be told which is which"),
            (
                1,
                "axes are named, the vertical one runs from 0 to 1, positions are counted from a number that is stated",
            ),
            (1, "chance, one in the number of letters, is drawn or written down"),
        ],
        seconds=20,
    )


# ---- Repair the two-way reader ---------------------------------------------------------------------------------------

BOTH_WAYS = BugFixTask(
    '''\
def both_ways(x, w, u, w_back, u_back):
    """Read x (n, d) from left to right and from right to left; states (n, 2 d_h)."""

    def read(x, w, u):
        h, states = torch.full((len(u),), {start:g}), []
        for x_j in x:
            h = torch.tanh(w @ x_j + u @ h)
            states.append(h)
        return torch.stack(states)

    forward = read(x, w, u)
    backward = read(x.flip(0), w_back, u_back).flip(0)
    return torch.cat([forward, backward], dim=-1)''',
    {
        "turned": Fault(
            "u_back).flip(0)",
            "u_back)",
            "the states of the second reading are in the order in which they were made, the last position first; row j "
            "must belong to position j in both halves",
        ),
        "direction": Fault(
            "read(x.flip(0), w_back, u_back).flip(0)",
            "read(x, w_back, u_back)",
            "the second half reads from left to right as well; it must begin at the end",
        ),
        "matrices": Fault(
            "w_back, u_back).flip",
            "w, u).flip",
            "the second reading uses the matrices of the first; it has w_back and u_back",
        ),
        "late": Fault(
            "h = torch.tanh(w @ x_j + u @ h)\n            states.append(h)",
            "states.append(h)\n            h = torch.tanh(w @ x_j + u @ h)",
            "each state is kept before its token was read: row j must know x_j",
        ),
        "order": Fault(
            "[forward, backward]",
            "[backward, forward]",
            "the two halves are swapped: left to right comes first",
        ),
        "features": Fault(
            "u_back).flip(0)",
            "u_back).flip(-1)",
            "you turned the features of the second half around where its positions must be turned",
        ),
        "forgets": Fault(
            "torch.tanh(w @ x_j + u @ h)",
            "torch.tanh(w @ x_j + u @ torch.full((len(u),), {start:g}))",
            "each step begins again at the first state; it must go on from the state before",
        ),
    },
)


def _both_cases(seed: int, shapes: Sequence[tuple[int, int, int]]) -> list[Case]:
    """Cases of (n, d, d_h)."""
    cases = []
    for i, (n, d, d_h) in enumerate(shapes):
        matrices = [random(d_h, size, seed=seed + 9 * i + k) / 2 for k, size in enumerate((d, d_h, d, d_h), start=1)]
        cases.append(Case((random(n, d, seed=seed + 9 * i), *matrices)))
    return cases


def _both_ways_task(v: Mapping[str, Any]) -> Task:
    return BOTH_WAYS.task(
        v,
        title="Repair the two-way reader",
        prompt="The states (n, 2 d_h) of a reader from left to right and one from right to left, side by side.",
        returns=tensor("(n, 2 d_h)", "the states"),
        cases=_both_cases(v["seed"] + 3, [(6, 3, 4)]),
        fallback_message="these are not the states of both readings; look at each half by itself",
        checks=[
            Check(points=3, cases=_both_cases(v["hidden"] + 300, [(7, 5, 3), (4, 2, 6)]), says="other sizes"),
            Check(
                points=1, cases=_both_cases(v["hidden"] + 350, [(2, 3, 3), (23, 3, 2)]), says="short and long inputs"
            ),
        ],
    )


# ---- All of it -------------------------------------------------------------------------------------------------------


def tasks(variant: Variant) -> Sequence[Task]:
    v = variant.values
    return [
        _look_task(v),
        _spread_task(v),
        _recall_task(v),
        Task(
            id="reason",
            title="Room or access?",
            kind="written",
            rubric=[
                (1, "counts the bits of the sequence (length times log2 of the letters) and of the vector"),
                (1, "concludes that room is not what is missing: letters overlap or fade, and cannot be told apart"),
                (1, "points to the student's curves: where letters are lost, and what the larger vector changes"),
            ],
        ),
        _both_ways_task(v),
    ]


ASSIGNMENT = Assignment(
    name="bottleneck",
    title="The bottleneck",
    chapter=1,
    minutes=100,
    tasks=tasks,
    cells=cells,
    draw=draw,
)
