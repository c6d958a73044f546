"""The checks that a student sees: tables of exercises as plain data, without the code of any answer.

A table for an assignment is made by `table`, from parts that can be written down. `freeze` runs its right answer and
its slips on its inputs and keeps what they give. `thaw` makes a table of that again, which `judge` reads like the
first. So the notebook that is handed out says the same words, and holds no solution.

    load("...")                  # in a release's cell of visible checks
    check("attend", attend)      # after an answer
"""

import base64
import binascii
import contextlib
import hashlib
import itertools
import json
import math
import textwrap
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from .judging import SECONDS, judge, verdict
from .reading import describe_scale, factor_on_scores, sums_to_one
from .results import Returned, alike, close, mask, multiple, name_factor, number, numbers, random, tensor, within
from .running import Mistake
from .running import float64_by_default as float64_by_default  # also for whoever draws inputs
from .table import Case, Exercise, Read, Slip

__all__ = ["Looks", "check", "diagnose", "freeze", "load", "pack", "random", "table", "telling", "thaw", "unpack"]

FORMAT = 1
KINDS: dict[str, Callable[[str, str], Returned]] = {
    "tensor": lambda name, words: tensor(words, name),
    "tensor, infinite too": lambda name, words: tensor(words, name, finite=False),
    "mask": lambda name, words: mask(words),
    "number": lambda name, words: number(name),
    "numbers": numbers,
}
REST = "it is not the right result"
Returns = tuple[str, str, str]  # kind, name, axes (or, of numbers, why so many)


# ---- Tables that can be written down ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Looks:
    """What can be read off a wrong result by comparing it with the right one, whatever the task.

    Attributes:
        names: of the parts of a result.
        sizes: the sizes that an answer may have used, by name, for the inputs of a case.
        divide_by: the name of the size by whose square root scores are divided, where the results are weights.
    """

    names: tuple[str, ...]
    sizes: Callable[..., Mapping[str, int]]
    divide_by: str | None = None

    def __call__(self, got: Any, right: Any, *inputs: Any) -> str | None:
        """Return the words, or None."""
        both = zip(got, right, self.names, strict=True) if isinstance(got, tuple) else [(got, right, *self.names)]
        wrong = [(first, torch.as_tensor(other), name) for first, other, name in both if not close(first, other)]
        return self._look(*wrong[-1], dict(self.sizes(*inputs))) if wrong else None

    def _look(self, got: Tensor, right: Tensor, name: str, sizes: Mapping[str, int]) -> str | None:
        your = f"your {name.removeprefix('the ')}"
        be = "are" if name.endswith("s") and not name.endswith("ss") else "is"
        if got.shape != right.shape or got.dtype == torch.bool or right.numel() == 0:
            return None
        right = right.double()
        if _rows_sum_to_one(right) and _rows_sum_to_one(got):
            words = self._look_at_weights(got, right, f"{your} {be}", sizes)
            if words:
                return words
        factor = multiple(got, right)
        if factor is not None:
            return f"{your} {be} {name_factor(factor, sizes)} times what is right"
        if right.dim() >= 2 and right.size(-1) == right.size(-2) and close(got, right.mT):
            return f"{your} {be} transposed: rows and columns are swapped"
        apart = got - right
        if right.numel() > 1 and close(apart, apart.flatten()[0].expand(apart.shape)):
            return f"{your} {be} off by {apart.flatten()[0]:.4g} everywhere"
        return None

    def _look_at_weights(self, got: Tensor, right: Tensor, yours: str, sizes: Mapping[str, int]) -> str | None:
        if close(got, torch.full_like(got, 1 / got.size(-1))):
            return f"{yours} all equal; they must come from the scores"
        factor = factor_on_scores(got, right)
        if factor is None:
            return None
        if self.divide_by is not None:
            root = sizes[self.divide_by] ** -0.5
            return describe_scale(factor * root, root, sizes, self.divide_by)
        if factor < 0:
            return "the sign of your scores is turned around: the key that matches least gets the most weight"
        side = f"{'sharper' if factor > 1 else 'flatter'} than {'they' if yours.endswith('are') else 'it'} should be"
        return f"{yours} {side}: your scores are {name_factor(factor, sizes)} times what is right"


def _rows_sum_to_one(x: Tensor) -> bool:
    return x.dim() >= 2 and x.size(-1) > 1 and bool((x >= 0).all()) and sums_to_one(x, -1)


def _place(at: Sequence[int]) -> str:
    return str(at[0]) if len(at) == 1 else f"({', '.join(map(str, at))})"


def _shown(x: Tensor) -> str:
    return str(bool(x)) if x.dtype == torch.bool else f"{x.item():.4g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Table(Exercise):
    """An exercise's table that can be frozen: it knows of what it was made.

    Attributes:
        parts_as_data: what an answer returns.
        tolerance: up to which results are the same.
    """

    parts_as_data: tuple[Returns, ...]
    tolerance: float = 1e-5

    def otherwise(self, got: Tensor, right: Any, name: str, fine: str = "") -> str:
        """Return what is said where nothing else is: what the numbers show, and the first one that is wrong."""
        right = torch.as_tensor(right)
        if got.shape != right.shape or right.dim() == 0:
            return self.rest
        wrong = (
            got != right
            if got.dtype == torch.bool
            else ~torch.isclose(got, right.double(), self.tolerance, self.tolerance)
        )
        at = wrong.nonzero()[0].tolist()
        where = _place(at) + (f" of the {name}" if len(self.parts_as_data) > 1 else "")
        first = f"at {where}, counted from 0, yours has {_shown(got[tuple(at)])}; expected {_shown(right[tuple(at)])}"
        count, words = int(wrong.sum()), self.rest
        if _rows_sum_to_one(right.double()) and not _rows_sum_to_one(got):
            low, high = (f"{x:.3g}" for x in got.sum(dim=-1).aminmax())
            words = f"each row must sum to 1; yours sum to {low if low == high else f'between {low} and {high}'}"
        elif count <= 0.5 * right.numel():
            your = f"your {name.removeprefix('the ')}"
            words = f"{count} of the {right.numel()} entries of {your} {'is' if count == 1 else 'are'} wrong"
        if fine:
            words = f"{fine} {'are' if fine.endswith('s') else 'is'} right, the {name} not: {words}"
        return f"{words}; {first}"


def table(
    name: str,
    asks: str,
    right: Any,
    returns: Returns | Sequence[Returns],
    *,
    cases: Sequence[Case] = (Case(),),
    slips: Sequence[Slip],
    tolerance: float = 1e-5,
    sizes: Callable[..., Mapping[str, int]] = lambda *inputs: {},
    divide_by: str | None = None,
    rest: str = REST,
    rounding: bool = True,
) -> Table:
    """Make a table of parts that can be frozen.

    Args:
        name: the task's id.
        asks: what for, in a sentence.
        right: the right answer: a function, or a value.
        returns: (kind, name, axes) of what an answer returns, or two of them; the kinds are those of `KINDS`.
        cases: visible inputs: tensors, numbers, texts, and lists and tuples of them.
        slips: wrong answers, with their words.
        tolerance: up to which results are the same.
        sizes: the sizes that an answer may have used, by name, from the inputs.
        divide_by: the name of the size by whose square root scores are divided, where a result is weights.
        rest: what is said where nothing else is.
        rounding: whether a result may be called right but rounded.

    Returns:
        The table.
    """
    parts: tuple[Returns, ...] = (returns,) if isinstance(returns[0], str) else tuple(returns)  # type: ignore
    made = tuple(KINDS[kind](name, words) for kind, name, words in parts)
    return Table(
        name=name,
        asks=asks,
        right=right,
        returns=made if len(made) > 1 else made[0],
        cases=tuple(cases),
        slips=tuple(slips),
        explain=Looks(tuple(name for _, name, _ in parts), sizes, divide_by),
        rest=rest,
        same=within(tolerance),
        like=within(tolerance),
        rounding=rounding,
        parts_as_data=parts,
        tolerance=tolerance,
    )


def telling(draw: Callable[[int], Sequence[Case]], seed: int, right: Any, slips: Sequence[Slip]) -> Sequence[Case]:
    """Draw cases until the first tells all slips apart, which may be the same or NaN by chance.

    Args:
        draw: makes cases from a seed.
        seed: the first to be tried.
        right: the right answer.
        slips: the wrong ones.

    Returns:
        The cases.

    Raises:
        ValueError: if 200 seeds do not do; then two slips are the same.
    """
    for attempt in range(200):
        cases = draw(seed + 1000 * attempt)
        results = [answer(*cases[0].inputs) for answer in (right, *(slip.answer for slip in slips))]
        apart = not any(alike(first, other) for first, other in itertools.combinations(results, 2))
        if apart and all(alike(result, result) for result in results):  # not NaN
            return cases
    raise ValueError("slips must give results of their own on some inputs; two of these never do")


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
    raise TypeError(f"only numbers, texts, tensors, lists and tuples can be frozen; got {type(x).__name__}")


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


def _key(inputs: Sequence[Any]) -> str:
    """Name inputs by what they hold."""
    return hashlib.sha256(json.dumps(encode(tuple(inputs))).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Known:
    """What an answer gave for inputs that were tried; it raises for those for which the answer did, or unknown ones."""

    results: Mapping[str, Any] = field(repr=False)

    def __call__(self, *inputs: Any) -> Any:
        key = _key(inputs)
        if key not in self.results:
            raise Mistake("nothing is known for these inputs")
        return decode(self.results[key])


def _all_results(exercise: Exercise, answer: Any) -> dict[str, Any]:
    """Return what an answer gives in each case in which it gives anything."""
    results = {}
    for case in exercise.cases:
        try:
            results[_key(case.inputs)] = encode(exercise.result(answer, case))
        except Exception:
            continue
    return results


def freeze(exercise: Exercise) -> dict[str, Any]:
    """Write a table down: its inputs, and what its right answer and its slips give there.

    Args:
        exercise: made by `table`.

    Returns:
        Plain data, as JSON holds them.

    Raises:
        TypeError: if the table was made otherwise.
        ValueError: if its right answer fails on its own inputs, or two cases have the same.
    """
    if not isinstance(exercise, Table) or not isinstance(exercise.explain, Looks):
        raise TypeError(f"{exercise.name}: only what `table` made can be frozen")
    with float64_by_default():
        return _freeze(exercise, exercise.explain)


def _freeze(exercise: Table, looks: Looks) -> dict[str, Any]:
    keys = [_key(case.inputs) for case in exercise.cases]
    is_function = callable(exercise.right)
    right = _all_results(exercise, exercise.right) if is_function else encode(exercise.right)
    if len(set(keys)) != len(keys) or (is_function and len(right) != len(keys)):
        raise ValueError(f"{exercise.name}: each case needs inputs of its own, and the right answer must take them")
    return {
        "name": exercise.name,
        "asks": exercise.asks,
        "function": is_function,
        "right": right,
        "returns": [list(part) for part in exercise.parts_as_data],
        "cases": [{"inputs": encode(tuple(case.inputs)), "words": case.words} for case in exercise.cases],
        "slips": [
            {
                "words": dict(zip(keys, (slip.told(case) for case in exercise.cases), strict=True))
                if callable(slip.words)
                else slip.words,
                "answer": _all_results(exercise, slip.answer) if is_function else encode(slip.answer),
                "mistake": slip.mistake,
                "read": isinstance(slip, Read),
            }
            for slip in exercise.slips
        ],
        "sizes": {key: dict(looks.sizes(*case.inputs)) for key, case in zip(keys, exercise.cases, strict=True)},
        "divide_by": looks.divide_by,
        "tolerance": exercise.tolerance,
        "rest": exercise.rest,
        "rounding": exercise.rounding,
    }


def thaw(data: Mapping[str, Any]) -> Table:
    """Make the table again of which data were frozen.

    Args:
        data: what `freeze` returned.

    Returns:
        A table that says the same, and knows no answer's code.
    """

    def answer(frozen: Any) -> Any:
        return _Known(frozen) if data["function"] else decode(frozen)

    def words(frozen: Any) -> Any:
        return frozen if isinstance(frozen, str) else lambda *inputs: frozen[_key(inputs)]

    return table(
        data["name"],
        data["asks"],
        answer(data["right"]),
        [(part[0], part[1], part[2]) for part in data["returns"]],
        cases=[Case(decode(case["inputs"]), case["words"]) for case in data["cases"]],
        slips=[
            (Read if slip["read"] else Slip)(words(slip["words"]), answer(slip["answer"]), slip["mistake"])
            for slip in data["slips"]
        ],
        tolerance=data["tolerance"],
        sizes=lambda *inputs: data["sizes"].get(_key(inputs), {}),
        divide_by=data["divide_by"],
        rest=data["rest"],
        rounding=data["rounding"],
    )


def pack(tables: Mapping[str, Exercise]) -> str:
    """Freeze tables into a text of lines of 100 signs.

    Args:
        tables: by the ids of their tasks.

    Returns:
        The text.
    """
    frozen = {"format": FORMAT, "tables": {name: freeze(table) for name, table in tables.items()}}
    packed = zlib.compress(json.dumps(frozen, separators=(",", ":")).encode(), 9)
    return "\n".join(textwrap.wrap(base64.b64encode(packed).decode(), 100))


def unpack(text: str) -> dict[str, Any]:
    """Return the frozen tables in a text.

    Args:
        text: what `pack` made.

    Returns:
        What `freeze` made of each table, by the ids of their tasks.

    Raises:
        ValueError: if the text is damaged, or was made for another version of the package.
    """
    try:
        frozen = json.loads(zlib.decompress(base64.b64decode("".join(text.split()), validate=True)))
    except (ValueError, zlib.error, binascii.Error) as error:
        raise ValueError(
            "the text of the visible checks is damaged: copy this cell anew from the notebook you were given"
        ) from error
    if frozen.get("format") != FORMAT:
        raise ValueError(
            "these visible checks were made for another version of attention_tutorial; install the one that your "
            f"course uses (here is format {FORMAT}, there {frozen.get('format')})"
        )
    tables: dict[str, Any] = frozen["tables"]
    return tables


# ---- In a student's notebook -----------------------------------------------------------------------------------------

_tables: dict[str, Table] = {}


def load(text: str) -> None:
    """Take the visible checks of an assignment.

    Args:
        text: what `pack` made.

    Raises:
        ValueError: if it is damaged, or of another version.
    """
    tables = {name: thaw(data) for name, data in unpack(text).items()}
    _tables.clear()
    _tables.update(tables)


def diagnose(task_id: str, answer: Any, *, seconds: float = SECONDS) -> str | None:
    """Say what is wrong with an answer on the visible inputs.

    Args:
        task_id: as in the cell that was handed out.
        answer: the function, or the value.
        seconds: an answer that takes longer is stopped.

    Returns:
        The words; None if nothing is wrong.

    Raises:
        ValueError: if no such task was loaded.
    """
    with _one_thread():
        diagnosis = judge(_table(task_id), answer, seconds=seconds)
    return None if diagnosis is None else diagnosis.words


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let an answer start no thread, as where it is graded; the thread that it runs in is started by the caller's."""
    start, here = threading.Thread.start, threading.current_thread()

    def starts(thread: threading.Thread) -> None:
        if threading.current_thread() is not here:
            raise RuntimeError("can't start new thread: answers are graded in one thread")
        start(thread)

    with mock.patch.object(threading.Thread, "start", starts):
        yield


def _table(task_id: str) -> Table:
    if task_id not in _tables:
        known = ", ".join(_tables) or "none: run the cells above first"
        raise ValueError(f"task_id must be one of the tasks of this notebook ({known}); got {task_id!r}")
    return _tables[task_id]


def check(task_id: str, answer: Any) -> None:
    """Print what there is to say about an answer. It never raises on a wrong one.

    Args:
        task_id: as in the cell that was handed out.
        answer: the function, or the value.

    Raises:
        ValueError: if no such task was loaded.
    """
    with _one_thread():
        diagnosis = judge(_table(task_id), answer)
    if diagnosis is None:
        print(f"{task_id}: right on all inputs tried here. Your points come from other inputs.")
    else:
        print(verdict(task_id, diagnosis))
