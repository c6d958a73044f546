"""The checks that a student sees: tables of exercises as plain data, without the code of any answer.

`pack` runs the right answer and the wrong ones of each table on its inputs, and writes down what they give. `load`
makes tables of that again, which `judge` reads like the first. So the notebook that is handed out says the same, and
holds no solution.

    load("...")                  # in a release's cell of visible checks
    check("attend", attend)      # after an answer
"""

import base64
import binascii
import inspect
import json
import math
import textwrap
import zlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .judging import compile_case, judge
from .missing import missing_when_graded
from .parse import Returned
from .runner import float64_by_default
from .table import Case, Exercise, Known, WrongAnswer
from .verdict import Verdict

__all__ = ["check", "load", "pack", "unpack"]

FORMAT = 2

# ---- Plain data ------------------------------------------------------------------------------------------------------


def encode(x: Any) -> Any:
    """Return what JSON can hold of numbers, texts, tensors, and lists and tuples of them.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(x, Tensor):
        x = x.detach().cpu().contiguous()
        data = x.view(torch.uint8).numpy().tobytes() if x.dim() else x.reshape(1).view(torch.uint8).numpy().tobytes()
        kind = str(x.dtype).removeprefix("torch.")
        return {"tensor": kind, "shape": list(x.shape), "data": base64.b85encode(data).decode()}
    if isinstance(x, float) and not math.isfinite(x):
        return {"float": str(x)}
    if x is None or type(x) in (bool, int, float, str):
        return x
    if type(x) is list:
        return [encode(item) for item in x]
    if type(x) is tuple:
        return {"tuple": [encode(item) for item in x]}
    raise TypeError(f"only numbers, texts, tensors, lists and tuples can be packed; got {type(x).__name__}")


def decode(data: Any) -> Any:
    """Undo `encode`."""
    if isinstance(data, list):
        return [decode(item) for item in data]
    if not isinstance(data, dict):
        return data
    if "tensor" in data:
        raw = bytearray(base64.b85decode(data["data"]))
        dtype: torch.dtype = getattr(torch, data["tensor"])
        if not raw:
            return torch.empty(data["shape"], dtype=dtype)
        return torch.frombuffer(raw, dtype=dtype).clone().reshape(data["shape"])
    return float(data["float"]) if "float" in data else tuple(decode(item) for item in data["tuple"])


# ---- Tables ----------------------------------------------------------------------------------------------------------


def to_data(exercise: Exercise) -> dict[str, Any]:
    """Write a table down: its inputs, and what its right answer and its wrong answers give there.

    Args:
        exercise: a table without `call`, `in_evaluation` and extra checks, which are code.

    Returns:
        Plain data, as JSON holds them.

    Raises:
        ValueError: if the table holds such code, or its right answer fails on its own inputs.
        TypeError: if an input or the right result is no plain data.
    """
    if exercise.call or exercise.in_evaluation or exercise.extra_checks:
        raise ValueError(f"{exercise.name}: a table with call, in_evaluation or extra_checks cannot be packed")
    try:
        with float64_by_default():
            known = [compile_case(exercise, case) for case in exercise.cases]
    except Exception as error:
        raise ValueError(f"{exercise.name}: the right answer fails on the table's own inputs: {error}") from error
    return {
        "name": exercise.name,
        "function": callable(exercise.right),
        "returns": [[part.kind, part.name, part.about] for part in exercise.parts],
        "cases": [
            {
                "inputs": encode(tuple(case.inputs)),
                "message": case.message,
                "expected": encode(results.expected),
                "wrong": [[message, _encode_if_plain(result)] for message, result in results.wrong],
            }
            for case, results in zip(exercise.cases, known, strict=True)
        ],
        "mistakes": [wrong.mistake for wrong in exercise.wrong_answers],
        "tolerance": exercise.tolerance,
        "fallback_message": exercise.fallback_message,
    }


def _encode_if_plain(result: Any) -> Any:
    try:
        return encode(result)
    except TypeError:
        return None


def _taken_out(*inputs: Any) -> Any:
    """Stand for the code of an answer, which is not in a student's notebook."""
    raise NotImplementedError


def from_data(data: Mapping[str, Any]) -> Exercise:
    """Make a table of what `to_data` wrote down: it says the same, and knows no answer's code."""
    returns = tuple(Returned(*part) for part in data["returns"])
    cases = [
        Case(
            decode(case["inputs"]),
            case["message"],
            Known(decode(case["expected"]), [(message, decode(result)) for message, result in case["wrong"]]),
        )
        for case in data["cases"]
    ]
    messages = [message for message, _ in data["cases"][0]["wrong"]]
    return Exercise(
        name=data["name"],
        prompt="",
        right=_taken_out if data["function"] else decode(data["cases"][0]["expected"]),
        returns=returns if len(returns) > 1 else returns[0],  # type: ignore[arg-type]
        cases=cases,
        wrong_answers=[
            WrongAnswer(message, None, mistake) for message, mistake in zip(messages, data["mistakes"], strict=True)
        ],
        tolerance=data["tolerance"],
        fallback_message=data["fallback_message"],
    )


def pack(tables: Mapping[str, Exercise]) -> str:
    """Write tables into a text of lines of 100 characters.

    Args:
        tables: by the ids of their tasks.

    Returns:
        The text.
    """
    data = {"format": FORMAT, "tables": {name: to_data(table) for name, table in tables.items()}}
    packed = zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9)
    return "\n".join(textwrap.wrap(base64.b64encode(packed).decode(), 100))


def unpack(text: str) -> dict[str, Any]:
    """Return the tables in a text, as plain data.

    Args:
        text: what `pack` made.

    Returns:
        What `to_data` made of each table, by the ids of their tasks.

    Raises:
        ValueError: if the text is damaged, or was made for another version of the package.
    """
    try:
        data = json.loads(zlib.decompress(base64.b64decode("".join(text.split()), validate=True)))
    except (ValueError, zlib.error, binascii.Error) as error:
        raise ValueError(
            "the text of the visible checks is damaged: copy this cell anew from the notebook you were given"
        ) from error
    if data.get("format") != FORMAT:
        raise ValueError(
            "these visible checks were made for another version of attention_tutorial; install the one that your "
            f"course uses (here is format {FORMAT}, there {data.get('format')})"
        )
    tables: dict[str, Any] = data["tables"]
    return tables


# ---- In a student's notebook -----------------------------------------------------------------------------------------

_tables: dict[str, Exercise] = {}


def load(text: str) -> None:
    """Take the visible checks of an assignment.

    Args:
        text: what `pack` made.

    Raises:
        ValueError: if it is damaged, or of another version.
    """
    tables = {name: from_data(data) for name, data in unpack(text).items()}
    _tables.clear()
    _tables.update(tables)


def check(task_id: str, answer: Any) -> None:
    """Print what there is to say about an answer. It never raises on a wrong one.

    What has another name than the one that will be graded is refused.

    Args:
        task_id: as in the cell that was handed out.
        answer: the function, or the value.

    Raises:
        ValueError: if no such task was loaded.
    """
    if task_id not in _tables:
        known = ", ".join(_tables) or "none: run the cells above first"
        raise ValueError(f"task_id must be one of the tasks of this notebook ({known}); got {task_id!r}")
    table, frame = _tables[task_id], inspect.currentframe()
    names = frame.f_back.f_globals if frame and frame.f_back else {}
    if callable(answer):
        is_other = names.get(table.name) not in (answer, inspect.unwrap(answer))
    else:
        is_other = table.name not in names
    if is_other:
        other = f"`{answer.__name__}`" if hasattr(answer, "__name__") else "something else"
        print(f"{task_id}: not checked. What is called `{table.name}` will be graded, and this is {other}: rename it.")
        return
    diagnosis = judge(table, answer)
    if diagnosis is None:
        print(f"{task_id}: right on all inputs tried here. Your points come from other inputs.")
    else:
        print(Verdict(task_id, diagnosis))
    for words in missing_when_graded(answer):
        print(f"{task_id}: {words}")
