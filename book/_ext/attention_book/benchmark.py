"""The page of the package's speed, made from what `make benchmark` has measured.

    ```{benchmark}
    ```

stands for tables of the file `benchmark.json` beside the page; with `gpu` behind its name, of `benchmark_cuda.json`.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from .tables import inline, make_row, make_table

RESULT, ON_GPU = "benchmark.json", "benchmark_cuda.json"  # beside the page
OURS, REFERENCE = "ours", "bare"
MASKS = ("none", "causal", "padding", "both")
PASSES = ("forward", "forward and backward")
Row = dict[str, Any]


def in_words(ratio: Sequence[float]) -> str:
    """Say a ratio with its spread.

    Example:
        >>> in_words([1.012, 1.038, 1.101])
        '1.04 (1.01 to 1.10)'
    """
    low, middle, high = ratio
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def size_of(row: Row) -> tuple[int, int, int, int]:
    """Return batch, length, d_model and heads of a row."""
    return row["batch"], row["n"], row["d_model"], row["heads"]


def pick(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Return the rows that have these values.

    Example:
        >>> pick([{"n": 5, "name": "ours"}, {"n": 5, "name": "bare"}], name="bare")
        [{'n': 5, 'name': 'bare'}]
    """
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def ratio_table(rows: list[Row]) -> nodes.table:
    """Set the package's ratios: a line for each size and pass, a column for each mask."""
    lines = []
    settings = dict.fromkeys((size_of(row), row["dtype"], row["pass"]) for row in rows)
    for size, dtype, which in settings:
        cells = [", ".join(map(str, size)), dtype, which]
        for mask in MASKS:
            ratios = [
                r for r in pick(rows, name=OURS, mask=mask, dtype=dtype) if size_of(r) == size and r["pass"] == which
            ]
            cells.append(in_words(ratios[0]["ratio"]) if ratios else "")
        lines.append(make_row([inline(cell) for cell in cells]))
    head = [("batch, length, d_model, heads", 20), ("dtype", 10), ("pass", 14), *((mask, 14) for mask in MASKS)]
    return make_table(head, lines, "benchmark")


def peer_table(rows: list[Row], length: int) -> nodes.table:
    """Set the median ratios of everything that was timed at one length, a line for each name and pass."""
    some = pick(rows, n=length, dtype="float32", weights=False)
    some = [row for row in some if row["heads"] == 8]
    lines = []
    for name in dict.fromkeys(row["name"] for row in some):
        for which in PASSES:
            cells = [name if name != OURS else "**this package**", which]
            for mask in MASKS:
                record = pick(some, name=name, mask=mask, **{"pass": which})
                cells.append(f"{record[0]['ratio'][1]:.2f}" if record else "")
            lines.append(make_row([inline(cell) for cell in cells]))
    return make_table([("module", 24), ("pass", 20), *((mask, 14) for mask in MASKS)], lines, "benchmark")


def memory_table(rows: list[Row]) -> nodes.table:
    """Set the peak memory of a causal attention over a padded batch, forward and backward, by length."""
    some = pick(rows, mask="both", dtype="float32", **{"pass": "forward and backward"})
    lines = []
    for size in dict.fromkeys(map(size_of, some)):
        at = [row for row in some if size_of(row) == size]
        cells = [", ".join(map(str, size))]
        for weights in (False, True):
            for name in (OURS, REFERENCE):
                record = pick(at, weights=weights, name=name)
                cells.append(f"{record[0]['peak_bytes'] / 2**20:.2f}" if record else "")
        lines.append(make_row([inline(cell) for cell in cells]))
    head = ["batch, length, d_model, heads", "package", "bare", "package, with weights", "eager, with weights"]
    return make_table([(name, 20) for name in head], lines, "benchmark")


def time_and_memory(row: Row) -> str:
    """Say milliseconds to three digits, and MiB in brackets.

    Example:
        >>> time_and_memory({"milliseconds": 3987.07, "peak_bytes": 38 * 2**20})
        '3,987 (38)'
    """
    time = row["milliseconds"]
    milliseconds = f"{time:,.0f}" if time >= 100 else f"{time:.3g}"
    return f"{milliseconds} ({row['peak_bytes'] / 2**20:,.0f})"


def ways_table(rows: list[Row]) -> nodes.table:
    """Set the four ways of causal attention on a GPU, a line for each length: milliseconds, and MiB in brackets."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    lines = []
    for n in dict.fromkeys(row["n"] for row in rows):
        at = {row["name"]: row for row in pick(rows, n=n)}
        cells = [time_and_memory(at[name]) for name in names]
        lines.append(make_row([inline(cell) for cell in [f"{at[names[0]]['batch']} × {n:,}", *cells]]))
    return make_table([("sequences × positions", 20), *((name, 20) for name in names)], lines, "benchmark")


class BenchmarkDirective(SphinxDirective):
    """Set what was measured: on what, by which versions, the ratios, the peers, the memory; or all that of a GPU."""

    optional_arguments = 1  # gpu

    def measured(self, name: str) -> tuple[dict[str, Any], str]:
        """Return what a file beside the page holds, and in words when, on what and with what it was measured."""
        path = Path(self.env.relfn2path(name)[1])
        self.env.note_dependency(str(path))
        data = json.loads(path.read_text(encoding="utf-8"))
        versions = ", ".join(f"{package} {version}" for package, version in data["versions"].items())
        return data, f"Measured on {data['date']} on {data['machine']}: {versions}."

    def run(self) -> list[nodes.Node]:
        """Return the tables that were asked for."""
        return self.on_a_gpu() if self.arguments else self.on_a_cpu()

    def on_a_gpu(self) -> list[nodes.Node]:
        """Return the GPU's own limits, four ways of attention on it, and the module's ratios."""
        data, measured = self.measured(ON_GPU)
        operations, moved = data["limits"]["operations per second"], data["limits"]["bytes per second"]
        limits = (
            f"{measured} A matrix product in bfloat16 reached {operations / 1e12:.0f} trillion operations per second, "
            f"and a copy moved {moved / 1e12:.1f} trillion bytes per second: a balance of {operations / moved:.0f}."
        )
        ratios = ratio_table([row for row in data["rows"] if not row["weights"]])
        return [nodes.paragraph("", limits), ways_table(data["attention"]), ratios]

    def on_a_cpu(self) -> list[nodes.Node]:
        """Return the tables under their headings."""
        data, measured = self.measured(RESULT)
        rows: list[Row] = data["rows"]

        def section(title: str, text: str, *content: nodes.Node) -> nodes.section:
            paragraph = nodes.paragraph("", "", *inline(text))
            return nodes.section("", nodes.title("", title), paragraph, *content, ids=[nodes.make_id(title)])

        return [
            nodes.paragraph("", measured),
            section(
                "Without weights",
                "Time over that of the bare module: the median of all rounds, with the quartiles in brackets.",
                ratio_table([row for row in rows if not row["weights"]]),
            ),
            section(
                "With weights",
                "Time over that of the leanest eager version, in the same way.",
                ratio_table([row for row in rows if row["weights"]]),
            ),
            section(
                "Beside other packages",
                "At 256 positions, four sequences, 256 features and eight heads, without weights: the median ratio to "
                "the bare module. All were given the same matrices, and their outputs at real positions agreed. What a "
                "mask costs to make counts only where a module makes it in each call.",
                peer_table(rows, 256),
            ),
            section(
                "Memory",
                "Peak memory in MiB of a forward and a backward pass under a causal mask and a padding mask together.",
                memory_table(rows),
            ),
        ]
