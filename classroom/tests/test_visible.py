"""Laws of visible checks: as plain data a table says what it said, knows no code, and needs nothing but the package."""

import base64
import json
import math
import re
import subprocess
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import other_routes
import pytest
import torch
from masters import ALL, assignment, judged, tasks, variant

from attention_tutorial.exercises import Case, Read, Slip, exercises, judge, visible
from attention_tutorial.exercises.visible import (
    Looks,
    check,
    decode,
    diagnose,
    encode,
    freeze,
    load,
    pack,
    random,
    table,
    thaw,
)

TABLES = [task for name in ALL for task in judged(name, "ada")]
WHOLE = {"kinds", "shifted", "translate", "errors"}  # tasks whose results are ids or counts
named = pytest.mark.parametrize("task", TABLES, ids=lambda task: task.id)


# ---- Frozen and unfrozen say the same --------------------------------------------------------------------------------


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
    """Return answers that are no slip of any table."""
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
def test_frozen_and_unfrozen_tables_say_the_same(task):
    """Of every slip this is part of `validate`; here it is asked of answers that nobody foresaw."""
    frozen = thaw(freeze(task.table))
    may_be_right = {"transposed", "backwards"} | ({"rounded"} if task.id in WHOLE else set())
    for kind, answer in odd_answers(task.table.right).items():
        first, other = judge(task.table, answer), judge(frozen, answer)
        assert (first and first.words) == (other and other.words), kind
        assert first is not None or kind in may_be_right, kind


@named
def test_freezing_a_frozen_table_changes_nothing(task):
    assert freeze(thaw(freeze(task.table))) == freeze(task.table)


@named
def test_a_right_answer_may_be_written_in_another_way(task):
    """And the loops are an oracle for what the table holds to be right, on hidden inputs too."""
    if task.kind == "debug":
        return
    (name,) = (name for name in ALL if task.id in tasks(name))
    answer = getattr(other_routes, task.name)(variant(name, "ada").values)
    assert judge(thaw(freeze(task.table)), answer) is None
    for hidden in task.checks:
        assert judge(task.table, answer, cases=hidden.cases) is None, hidden.says


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
    with pytest.raises(TypeError, match="only numbers, texts, tensors, lists and tuples can be frozen"):
        encode([wrong])


def small(**changes):
    fields = {
        "right": lambda q, k: (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1),
        "cases": [Case((random(3, 7), random(5, 7)), "here: {found}")],
        "slips": [
            Slip(lambda q, k: f"{len(k)} keys, and the softmax over {len(q)}", lambda q, k: (q @ k.mT).softmax(0)),
            Read("you divided by sqrt(d_model)", lambda q, k: (q @ k.mT / math.sqrt(11)).softmax(-1)),
            Slip("it fails", raises),
        ],
        "sizes": lambda q, k: {"d_k": 7, "d_model": 11, "n": len(k)},
        "divide_by": "d_k",
        **changes,
    }
    return table("small", "Weights.", fields.pop("right"), ("tensor", "the weights", "(m, n)"), **fields)


def test_words_that_are_made_and_words_that_are_read_are_kept():
    exercise = small()
    frozen = thaw(freeze(exercise))
    for slip, words in zip(
        exercise.slips[:2], ["5 keys, and the softmax over 3", "you divided by sqrt(d_model)"], strict=True
    ):
        diagnosis = judge(frozen, slip.answer)
        assert (
            words in diagnosis.words
            and diagnosis.words.startswith("here: ")
            and diagnosis.words == judge(exercise, slip.answer).words
        )


def test_an_answer_that_is_a_value_can_be_frozen():
    exercise = table(
        "value",
        "Weights by hand.",
        [0.25, 0.75],
        ("numbers", "your weights", "there are two keys"),
        slips=[Slip("they are swapped", [0.75, 0.25])],
    )
    frozen = thaw(freeze(exercise))
    assert judge(frozen, [0.25, 0.75]) is None
    assert judge(frozen, (0.75, 0.25)).words == "they are swapped"
    assert judge(frozen, [1.0]).words == "there are two keys; expected 2, got shape (1,)"


def test_of_two_results_it_is_said_which_is_right():
    right = (torch.eye(3), torch.arange(3.0))
    exercise = table(
        "pair",
        "A matrix and a vector.",
        right,
        [("tensor", "the output", "(m, n)"), ("tensor", "the totals", "(m,)")],
        slips=[],
        rest="try it",
        rounding=False,
    )
    words = judge(exercise, (right[0], torch.tensor([5.0, 1.0, 7.0]))).words
    assert (
        words
        == "the output is right, the totals not: try it; at 0 of the totals, counted from 0, yours has 5; expected 0"
    )
    assert judge(exercise, (right[0].flip(0), torch.tensor([5.0, 1.0, 7.0]))).words.startswith(
        "try it; at 0 of the totals"
    )


def test_only_tables_made_for_it_can_be_frozen():
    exercise = next(iter(exercises().values()))
    with pytest.raises(TypeError, match=f"{exercise.name}: only what `table` made can be frozen"):
        freeze(exercise)
    with pytest.raises(TypeError, match="only what `table` made"):
        freeze(replace(small(), explain=lambda *anything: "no"))


def test_a_right_answer_that_fails_is_not_frozen():
    with pytest.raises(
        ValueError, match="small: each case needs inputs of its own, and the right answer must take them"
    ):
        freeze(small(right=raises))
    with pytest.raises(ValueError, match="each case needs inputs of its own"):
        freeze(small(cases=2 * [Case((random(3, 7), random(5, 7)))]))


def test_a_packed_table_holds_no_code():
    data = json.dumps(visible.unpack(pack({"small": small()})))
    assert not [word for word in ("lambda", "softmax(-1)", "import", "__") if word in data]


# ---- What is read off a result ---------------------------------------------------------------------------------------

A = random(4, 4, seed=3)
READ = {
    "your output is 3 times what is right": (3 * A, A),
    "your output is 0.5 = 1/n times what is right": (A / 2, A),
    "your output is transposed: rows and columns are swapped": (A.mT, A),
    "your output is off by 2 everywhere": (A + 2, A),
    "your output is all equal; they must come from the scores": (torch.full_like(A, 0.25), A.softmax(-1)),
    "your output is sharper than it should be: your scores are 3 times what is right": (
        (3 * A).softmax(-1),
        A.softmax(-1),
    ),
}


@pytest.mark.parametrize("words", READ)
def test_what_is_wrong_is_read_off_a_result(words):
    wrong, right = READ[words]
    looks = Looks(("the output",), lambda *inputs: {"n": 2})
    assert words in looks(wrong, right)
    assert looks(right, right) is None


def places(x, *at):
    """Return a copy in which some entries are others."""
    x = x.clone()
    for i, j in at:
        x[i, j] = ~x[i, j] if x.dtype == torch.bool else 9.0
    return x


LOWER = torch.ones(4, 4, dtype=torch.bool).tril()
SHOWN = {
    "1 of the 16 entries of your output is wrong; at (1, 2), counted from 0, yours has 9; expected": places(A, (1, 2)),
    "it is not the right result; at (0, 0), counted from 0, yours has 0.5; expected": torch.full_like(A, 0.5),
}


@pytest.mark.parametrize("words", SHOWN)
def test_what_nobody_foresaw_is_told_by_its_first_wrong_entry(words):
    about = table("small", "A result.", A, ("tensor", "the output", "(4, 4)"), slips=[])
    assert words in judge(about, SHOWN[words]).words


def test_rows_that_do_not_sum_to_one_are_told():
    about = table("small", "Weights.", A.softmax(-1), ("tensor", "the weights", "(4, 4)"), slips=[])
    assert judge(about, A.abs() + 1).words.startswith("each row must sum to 1; yours sum to between")


def test_a_mask_is_told_where_it_is_wrong():
    about = table("small", "A mask.", LOWER, ("mask", "the mask", "(4, 4)"), slips=[])
    assert judge(about, places(LOWER, (0, 2))).words == (
        "1 of the 16 entries of your mask is wrong; at (0, 2), counted from 0, yours has True; expected False"
    )


# ---- Two mistakes at once --------------------------------------------------------------------------------------------


def test_two_mistakes_in_weights_are_both_told():
    v = variant("dot_product", "ada").values
    kind, c = v["distance"], v["sharpness"]
    other = {"squared": "absolute", "absolute": "squared"}[kind]
    about = tasks("dot_product", "ada")["near"].table
    near = assignment("dot_product").tasks.__globals__["_near"]
    pattern = "you took the (squared|absolute) differences; yours are (squared|absolute) ones"
    for frozen in (about, thaw(freeze(about))):
        for answer, more in (
            (near(other, 3 * c), "the scores are multiplied by 3"),
            (near(other, c, axis=0), "the softmax runs down the columns"),
            (near(other, c, shares=False), "the rows do not sum to 1"),
        ):
            assert re.fullmatch(f"two things: {pattern}; and {more}", judge(frozen, answer).words)


def test_two_mistakes_in_a_mask_are_both_told():
    diagonal, corner = places(LOWER, *((i, i) for i in range(4))), places(LOWER, (3, 0))
    slips = [Slip("oneself is masked", diagonal), Slip("the first key is masked", corner)]
    about = table("small", "A mask.", LOWER, ("mask", "the mask", "(4, 4)"), slips=slips)
    assert judge(about, diagonal & corner).words == "two things: oneself is masked; and the first key is masked"
    assert judge(about, ~diagonal).words == "two things: oneself is masked; and allowed and masked are swapped"
    assert "two things" not in judge(about, places(diagonal & corner, (2, 1))).words


def test_two_mistakes_in_shares_are_both_told():
    about = tasks("scaling", "ada")["saturated"].table
    (unscaled,) = (slip for slip in about.slips if "not divided at all" in slip.words)
    for change, more in (
        (lambda x: 100 * x, "all of it is multiplied by 100"),
        (lambda x: 1 - x, "it is 1 minus that"),
    ):
        assert judge(about, spoilt(unscaled.answer, change)).words == f"two things: {unscaled.words}; and {more}"


# ---- In a notebook ---------------------------------------------------------------------------------------------------


@pytest.fixture
def loaded():
    load(pack({"small": small()}))
    yield
    visible._tables.clear()


def test_the_check_says_what_it_finds(loaded, capsys):
    check("small", small().right)
    check("small", None)
    check("small", small().slips[0].answer)
    assert capsys.readouterr().out.splitlines() == [
        "small: right on all inputs tried here. Your points come from other inputs.",
        "small: not filled in yet.",
        "small: not yet. Here: 5 keys, and the softmax over 3.",
    ]


def test_the_check_starts_no_thread_as_when_graded(loaded, capsys):
    def answer(*inputs):
        with ThreadPoolExecutor() as pool:
            return pool.submit(small().right, *inputs).result()

    check("small", answer)
    assert "can't start new thread: answers are graded in one thread" in capsys.readouterr().out
    threading.Thread(target=print).start()  # after the check they start again


def test_an_unknown_task_is_named(loaded):
    with pytest.raises(ValueError, match=r"one of the tasks of this notebook \(small\); got 'large'"):
        diagnose("large", 1)
    visible._tables.clear()
    with pytest.raises(ValueError, match="none: run the cells above first"):
        diagnose("small", 1)


def test_a_damaged_text_is_refused_and_what_was_loaded_stays(loaded):
    text = pack({"small": small()})
    for wrong in ("", text[:-9], text.replace(text[5], "!"), "abcd"):
        with pytest.raises(ValueError, match="the text of the visible checks is damaged"):
            load(wrong)
    assert diagnose("small", small().right) is None


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
