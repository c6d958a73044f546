"""The laboratory: two small models that differ in one switch, trained in the reader's browser, side by side."""

from typing import Any

import traitlets

from .._validation import check_size
from .base import BookWidget, check_one_of, html_table

__all__ = ["Laboratory"]

#: What can be switched, and its values.
SWITCHES: dict[str, list[Any]] = {
    "divisor": ["one", "root", "width"],
    "heads": [1, 2, 4],
    "d_head": [4, 8, 16, 32, 64],
    "causal": [False, True],
    "positions": ["none", "sines", "learned"],
    "rate": [0.003, 0.01, 0.03, 0.1],
    "seed": list(range(10)),
}
_BOTH = {
    "divisor": "root",
    "heads": 1,
    "d_head": 16,
    "causal": False,
    "positions": "none",
    "rate": 0.01,
    "seed": 1,
}


def _experiment(task: str, title: str, differ: str, values: tuple[Any, Any], **both: Any) -> dict[str, Any]:
    both = _BOTH | {differ: values[0]} | both
    place = title.lower().replace(" ", "-")  # in an address
    return {"task": task, "title": title, "id": place, "differ": differ, "values": list(values), "both": both}


#: The tasks, each with the switch that its chapter is about.
EXPERIMENTS = {
    one["task"]: one
    for one in (
        _experiment("look_up", "Look it up", "divisor", ("root", "one"), d_head=64),
        _experiment("two_look_ups", "Two look-ups", "heads", (2, 1)),
        _experiment("bites", "Who bites whom", "positions", ("learned", "none")),
        _experiment("write_on", "Write on", "causal", (True, False), positions="sines"),
    )
}


def _one_of(name: str, value: Any) -> Any:
    """Return the offered value that equals this one: True for 1."""
    check_one_of(name, value, SWITCHES[name])
    return next(one for one in SWITCHES[name] if one == value)


class Laboratory(BookWidget):
    """Train two models of one layer that differ in one switch, on the same data and from the same start.

    Both are :class:`~attention_tutorial.models.one_layer.OneLayer`, computed in the reader's browser with the same
    numbers as in PyTorch. The argument that differs is given as a pair: what A has, and what B has. An argument that is
    left out has the value with which the book asks the task's question; so has the pair, if none is given.

    Args:
        task: ``"look_up"``, ``"two_look_ups"``, ``"bites"`` or ``"write_on"``, of
            :data:`~attention_tutorial.data.synthetic.SYNTHETIC_TASKS`.
        divisor: what the scores are divided by: ``"one"``, ``"root"`` (of the features of a head) or ``"width"``
            (their number).
        heads: 1, 2 or 4.
        d_head: features of a query, a key and a value of one head: 4, 8, 16, 32 or 64.
        causal: whether a token attends to itself and earlier ones alone.
        positions: ``"none"``, ``"sines"`` or ``"learned"``.
        rate: Adam's learning rate: 0.003, 0.01, 0.03 or 0.1.
        seed: of the first weights and of the data, from 0 to 9.
        steps: how many steps a run has.

    Raises:
        TypeError: if ``seed`` or ``steps`` is not an int.
        ValueError: if there is no such task or value, or not exactly one argument is a pair.

    Example:
        >>> widget = Laboratory("look_up", d_head=(4, 64), divisor="one")
        >>> widget.differ, widget.values
        ('d_head', [4, 64])
    """

    module = "laboratory"

    experiments: "traitlets.List[dict[str, Any]]" = traitlets.List(list(EXPERIMENTS.values()))
    switches: "traitlets.Dict[str, list[Any]]" = traitlets.Dict(SWITCHES)
    task = traitlets.Unicode()
    differ = traitlets.Unicode()
    values: "traitlets.List[Any]" = traitlets.List()
    both: "traitlets.Dict[str, Any]" = traitlets.Dict()
    steps = traitlets.Int(400)
    predicted = traitlets.Unicode()
    linked = traitlets.Unicode()
    links: "traitlets.Dict[str, str]" = traitlets.Dict()

    def __init__(
        self,
        task: str = "look_up",
        *,
        divisor: str | tuple[str, str] | None = None,
        heads: int | tuple[int, int] | None = None,
        d_head: int | tuple[int, int] | None = None,
        causal: bool | tuple[bool, bool] | None = None,
        positions: str | tuple[str, str] | None = None,
        rate: float | tuple[float, float] | None = None,
        seed: int = 1,
        steps: int = 400,
    ) -> None:
        check_one_of("task", task, list(EXPERIMENTS))
        check_size("steps", steps, 1)
        check_size("seed", seed)
        arguments = {
            "divisor": divisor,
            "heads": heads,
            "d_head": d_head,
            "causal": causal,
            "positions": positions,
            "rate": rate,
            "seed": seed,
        }
        given = {
            name: tuple(_one_of(name, one) for one in value) if isinstance(value, tuple) else _one_of(name, value)
            for name, value in arguments.items()
            if value is not None
        }
        usual = EXPERIMENTS[task]
        pair = {} if any(isinstance(value, tuple) for value in given.values()) else {usual["differ"]: usual["values"]}
        given = usual["both"] | {name: tuple(values) for name, values in pair.items()} | given
        pairs = [name for name, value in given.items() if isinstance(value, tuple)]
        if len(pairs) != 1:
            raise ValueError(
                f"one argument must be a pair, what A has and what B has; got {' and '.join(pairs) or 'none'}"
            )
        differ = pairs[0]
        values = list(given[differ])
        if len(values) != 2 or values[0] == values[1]:
            raise ValueError(f"{differ} must be two values that differ, or one value; got {given[differ]!r}")
        both = given | {differ: values[0]}
        super().__init__(task=task, differ=differ, values=values, both=both, steps=steps)

    def __repr__(self) -> str:
        parts = self.both | {self.differ: tuple(self.values)}
        return f"Laboratory({self.task!r}, {', '.join(f'{name}={value!r}' for name, value in parts.items())})"

    def static_html(self) -> str:
        """Return what A and B are as a table, for pages on which no script runs."""
        names = list(self.both)
        cells = [[str((self.both | {self.differ: value})[name]) for name in names] for value in self.values]
        title = EXPERIMENTS[self.task]["title"]
        caption = (
            f"The laboratory trains two models of one layer in the page, where scripts may run. Task: {title}. "
            f"A and B differ in {self.differ}; both take {self.steps} steps with the same data."
        )
        return html_table(caption, ["A", "B"], names, cells)
