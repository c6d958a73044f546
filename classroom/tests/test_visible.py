"""Laws of visible checks: as plain data a table says what it said, knows no code, and needs nothing but the package."""

import base64
import json
import math
import subprocess
import sys
import zlib
from dataclasses import replace

import other_routes
import pytest
import torch
from masters import ALL, judged, tasks, variant

from attention_tutorial.exercises import Case, Exercise, WrongAnswer, judge, random, tensor, visible
from attention_tutorial.exercises import numbers as several
from attention_tutorial.exercises.visible import check, decode, encode, from_data, load, pack, to_data

TABLES = [task for name in ALL for task in judged(name, "ada")]
WHOLE = {"kinds", "shifted", "translate", "errors"}  # tasks whose results are ids or counts
named = pytest.mark.parametrize("task", TABLES, ids=lambda task: task.id)


# ---- Packed and unpacked tables say the same -------------------------------------------------------------------------


def spoilt(answer, how):
    """Return an answer whose results are changed, wherever they are numbers."""

    def change(x):
        return type(x)(map(change, x)) if isinstance(x, tuple | list) else how(x)

    return lambda *inputs: change(answer(*inputs))


def raises(*inputs):
    raise IndexError("no third row")


def numbers(x):
    return x.double() if torch.is_tensor(x) else x


def odd_answers(right):
    """Return answers that are in no table."""
    return {
        "twice": spoilt(right, lambda x: 2 * numbers(x)),
        "a third": spoilt(right, lambda x: numbers(x) / 3),
        "more": spoilt(right, lambda x: numbers(x) + 1),
        "rounded": spoilt(right, lambda x: torch.round(numbers(torch.as_tensor(x)), decimals=1)),
        "transposed": spoilt(right, lambda x: x.mT if torch.is_tensor(x) and x.dim() > 1 else x),
        "backwards": spoilt(right, lambda x: x.flip(-1) if torch.is_tensor(x) and x.dim() else x),
        "equal": spoilt(right, lambda x: torch.full_like(numbers(x), 1 / x.shape[-1]) if torch.is_tensor(x) else x),
        "not a number": spoilt(right, lambda x: numbers(x) * math.nan),
        "a text": lambda *inputs: "0.5",
        "a part": lambda *inputs: (right(*inputs),),
        "nothing": lambda *inputs: None,
        "prints": lambda *inputs: print(right(*inputs)),
        "dots": lambda *inputs: ...,
        "raises": raises,
        "no function": 3.0,
        "not filled in": ...,
    }


@named
def test_packed_and_unpacked_tables_say_the_same(task):
    """Of every wrong answer this is part of `validate`; here it is asked of answers that nobody foresaw."""
    packed = from_data(to_data(task.table))
    may_be_right = {"transposed", "backwards"} | ({"rounded"} if task.id in WHOLE else set())
    for kind, answer in odd_answers(task.table.right).items():
        first, other = judge(task.table, answer), judge(packed, answer)
        assert (first and first.message) == (other and other.message), kind
        assert first is not None or kind in may_be_right, kind


@named
def test_a_right_answer_may_be_written_in_another_way(task):
    """And the loops are an oracle for what the table holds to be right, on hidden inputs too."""
    if task.kind == "debug":
        return
    (name,) = (name for name in ALL if task.id in tasks(name))
    answer = getattr(other_routes, task.name)(variant(name, "ada").values)
    assert judge(from_data(to_data(task.table)), answer) is None
    for hidden in task.checks:
        assert judge(task.table, answer, cases=hidden.cases, seconds=3 * task.seconds) is None, hidden.says


def test_every_task_that_is_no_repair_has_another_route():
    assert {task.id for task in TABLES if task.kind != "debug"} <= set(vars(other_routes))


# ---- Plain data ------------------------------------------------------------------------------------------------------

VALUES = {
    "nothing": None,
    "flags and numbers": [True, 0, -3, 2.5, 1e300],
    "no numbers": (math.inf, -math.inf),
    "texts": ["", "query · key", ("a",)],
    "empty": [[], (), torch.empty(0, 3), torch.zeros(2, 0, dtype=torch.bool)],
    "one number": torch.tensor(0.1, dtype=torch.float64),
    "float32": random(2, 3).float(),
    "half": random(2, 3).half(),
    "brain": random(2, 3).bfloat16(),
    "whole": torch.arange(6).view(3, 2),
    "transposed": random(2, 3).mT,
    "mask": torch.tensor([[True, False], [False, True]]),
    "infinite": torch.tensor([0.0, -math.inf, 1.0]),
}


def same(a, b):
    if torch.is_tensor(a):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("kind", VALUES)
def test_what_is_encoded_comes_back(kind):
    assert same(decode(json.loads(json.dumps(encode(VALUES[kind]), allow_nan=False))), VALUES[kind])


def test_nan_comes_back():
    assert math.isnan(decode(encode(math.nan))) and decode(encode(torch.tensor([math.nan]))).isnan().all()


@pytest.mark.parametrize("wrong", [print, {1}, {"a": 1}, object(), 1j, torch.nn.Linear(1, 1)])
def test_only_plain_data_can_be_encoded(wrong):
    with pytest.raises(TypeError, match="only numbers, texts, tensors, lists and tuples can be packed"):
        encode([wrong])


def raised(q, k):
    raise IndexError("no third row")


SMALL = Exercise(
    name="small",
    prompt="Weights.",
    right=lambda q, k: (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1),
    returns=tensor("(m, n)", "the weights"),
    cases=[Case((random(3, 7), random(5, 7)), "here: {found}")],
    wrong_answers=[
        WrongAnswer(lambda q, k: f"{len(k)} keys, and the softmax over {len(q)}", lambda q, k: (q @ k.mT).softmax(0)),
        WrongAnswer("it fails", raised),
        WrongAnswer("no plain data", lambda q, k: {"weights": 1}),
    ],
)


def test_an_answer_that_is_a_value_can_be_packed():
    exercise = Exercise(
        name="value",
        prompt="Weights by hand.",
        right=[0.25, 0.75],
        returns=several("your weights", "there are two keys"),
        wrong_answers=[WrongAnswer("they are swapped", [0.75, 0.25])],
    )
    packed = from_data(to_data(exercise))
    assert judge(packed, [0.25, 0.75]) is None
    assert judge(packed, (0.75, 0.25)).message == "they are swapped"
    assert judge(packed, [1.0]).message == "there are two keys; expected 2, got shape (1,)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"right": raised}, "small: the right answer fails on the table's own inputs: your code raised IndexError"),
        (
            {"call": lambda answer, *inputs: 1},
            "small: a table with call, in_evaluation or extra_checks cannot be packed",
        ),
        ({"extra_checks": [print]}, "small: a table with call, in_evaluation or extra_checks cannot be packed"),
    ],
)
def test_what_cannot_be_packed_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        to_data(replace(SMALL, **changes))


def test_a_packed_table_holds_no_code():
    data = json.dumps(visible.unpack(pack({"small": SMALL})))
    assert not [word for word in ("lambda", "softmax(-1)", "import", "__") if word in data]


# ---- In a notebook ---------------------------------------------------------------------------------------------------


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load(pack({"small": SMALL}))
    yield
    visible._tables.clear()


def checked(capsys, answer, source="", call='check("small", small)'):
    """What the check prints in a notebook where ``small`` is this answer, or what the source makes."""
    names = {"__name__": "__main__", "check": check, "weigh": SMALL.right, **({} if source else {"small": answer})}
    exec(source, names)
    exec(call, names)
    return capsys.readouterr().out.splitlines()


def test_the_check_says_what_it_finds(loaded, capsys):
    assert [checked(capsys, answer) for answer in (SMALL.right, None, SMALL.wrong_answers[0].answer)] == [
        ["small: right on all inputs tried here. Your points come from other inputs."],
        ["small: not filled in yet."],
        ["small: not yet. Here: 5 keys, and the softmax over 3."],
    ]


NAMES = {  # what a notebook defines, what is checked, how it is called if it is refused
    ("def small(q, k): return weigh(q, k)", "small"): "",
    ("small = weigh", "weigh"): "",
    ("import functools\nsmall = functools.partial(weigh)", "small"): "",
    ("import functools\n@functools.wraps(weigh)\ndef timed(q, k): return weigh(q, k)\nsmall = weigh", "timed"): "",
    ("import functools\n@functools.cache\ndef small(q, k): return weigh(q, k)", "small"): "",
    ("class Weigh:\n    def forward(self, q, k): return weigh(q, k)\nw = Weigh()\nsmall = w.forward", "w.forward"): "",
    ("small = 3.0", "3.0"): "",
    ("def look(q, k): return weigh(q, k)", "look"): "`look`",
    ("def small(q, k): ...\ndef look(q, k): return weigh(q, k)", "look"): "`look`",
    ("import functools", "functools.partial(weigh)"): "something else",
    ("class Look:\n    def __call__(self, q, k): return weigh(q, k)", "Look()"): "something else",
    ("x = 1", "3.0"): "something else",
}


@pytest.mark.parametrize(("source", "answer"), NAMES)
def test_what_has_another_name_than_the_one_that_will_be_graded_is_not_checked(loaded, capsys, source, answer):
    (said,) = checked(capsys, None, source, f'check("small", {answer})')
    refused = NAMES[source, answer]
    words = f"small: not checked. What is called `small` will be graded, and this is {refused}: rename it."
    assert said == words if refused else "not checked" not in said


BORROWS = {  # what an answer uses: the name of what will be missing
    "from attention_tutorial import causal_mask as scale\ndef weigh(q): return scale(q)": "attention_tutorial",
    "import attention_tutorial.masks as masks\ndef weigh(q): return masks.causal_mask(q)": "attention_tutorial",
    "def weigh(q):\n    from attention_tutorial import causal_mask as scale\n    return scale(q)": "attention_tutorial",
    "from attention_tutorial import causal_mask as scale\ndef rows(q): return [scale(x) for x in q]\n"
    "class Weigh:\n    def forward(self, q): return rows(q)\nweigh = Weigh().forward": "attention_tutorial",
    "import functools\nfrom attention_tutorial import causal_mask\nweigh = functools.partial(causal_mask, 2)": (
        "attention_tutorial"
    ),
    "from helper import weigh": "helper",
    "import helper\ndef weigh(q): return weigh(q) + helper.weigh(q)": "helper",
    "import math, torch\nscale = 2\ndef outer(scale):\n    def weigh(q): return math.sqrt(scale) * torch.ones(q)\n"
    "    return weigh\nweigh = outer(3)": "",
    "weigh = 3.0": "",
    "import pytest\ndef weigh(q): return pytest.approx(q)": "pytest",
    "import numpy as np, matplotlib.pyplot as plt\ndef weigh(q): return np.ones(plt.isinteractive())": "",
    "def weigh(q): return q.cuda()": "GPU",
    "def weigh(q): return [q.to('cuda:1')]": "GPU",
    "import torch\nd = torch.device('mps')\ndef weigh(q):\n    def move(): return q.to(d)\n    return move()": "GPU",
    "import torch\nclass Weigh:\n    def forward(self, q): return torch.ones(q, device='cuda')\n"
    "weigh = Weigh().forward": "GPU",
    "device = 'cuda' if 1 > 2 else 'cpu'\ndef weigh(q): return q.to(device)": "",
}


@pytest.mark.parametrize("source", BORROWS)
def test_what_would_cost_points_is_said_in_the_notebook(loaded, capsys, monkeypatch, tmp_path, source):
    (tmp_path / "helper.py").write_text("def weigh(q): return q")
    monkeypatch.syspath_prepend(tmp_path)
    lines = checked(capsys, None, f"{source}\nsmall = weigh")
    sys.modules.pop("helper", None)
    said = [line for line in lines if ": it uses" in line or ": it names" in line]
    assert len(said) == (BORROWS[source] != "") and all(BORROWS[source] in line for line in said)


def test_an_unknown_task_is_named(loaded):
    with pytest.raises(ValueError, match=r"one of the tasks of this notebook \(small\); got 'large'"):
        check("large", 1)
    visible._tables.clear()
    with pytest.raises(ValueError, match="none: run the cells above first"):
        check("small", 1)


def test_a_damaged_text_is_refused_and_what_was_loaded_stays(loaded, capsys):
    text = pack({"small": SMALL})
    for wrong in ("", text[:-9], text.replace(text[5], "!"), "abcd"):
        with pytest.raises(ValueError, match="the text of the visible checks is damaged"):
            load(wrong)
    assert "right" in checked(capsys, SMALL.right)[0]


def test_a_text_of_another_version_is_refused():
    text = base64.b64encode(zlib.compress(json.dumps({"format": 99, "tables": {}}).encode())).decode()
    with pytest.raises(ValueError, match="made for another version of attention_tutorial"):
        load(text)


def test_a_students_notebook_loads_nothing_but_torch_and_the_package():
    code = """
import sys
import torch
before = set(sys.modules)
import attention_tutorial.exercises.visible
print({name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{'attention_tutorial'}"
