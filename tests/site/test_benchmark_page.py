"""The page of the package's speed, and the measurements that it is made from."""

import json
import re

import pytest
from attention_book.benchmark import MASKS, in_words, pick, time_and_memory
from bs4 import BeautifulSoup
from website import ROOT, small_book

MEASURED = json.loads((ROOT / "book" / "benchmark.json").read_text(encoding="utf-8"))
ROWS = MEASURED["rows"]
ON_GPU = json.loads((ROOT / "book" / "benchmark_cuda.json").read_text(encoding="utf-8"))
CONF = """
from attention_book.benchmark import BenchmarkDirective
extensions = ["myst_nb"]
exclude_patterns = ["_out", "jupyter_execute"]
def setup(app):
    app.add_directive("benchmark", BenchmarkDirective)
"""


def test_the_measurements_say_when_where_and_with_what():
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", MEASURED["date"])
    assert {"python", "torch"} <= set(MEASURED["versions"])
    assert all(row["rounds"] >= (201 if row["n"] <= 64 else 9) for row in ROWS)
    assert re.fullmatch(r"one thread on \d+ cores of an [\w ]+ processor \([\w ]+\)", MEASURED["machine"])


def test_every_size_has_every_mask_both_passes_and_both_kinds():
    lengths = {row["n"] for row in ROWS}
    assert len(lengths) >= 6
    for n in lengths:
        for mask in MASKS:
            for which in ("forward", "forward and backward"):
                for weights in (False, True) if n <= 1024 else (False,):
                    names = {r["name"] for r in pick(ROWS, n=n, mask=mask, weights=weights, **{"pass": which})}
                    assert {"ours", "bare", "nn.MultiheadAttention"} <= names


def bar(row):
    """What the page says that a ratio does not exceed."""
    if row["n"] <= 16:
        return 2.6
    if row["n"] <= 64:
        return 1.4
    return 1.5 if row["weights"] else 1.2


@pytest.mark.parametrize(
    "row", pick(ROWS, name="ours"), ids=lambda r: f"{r['n']}-{r['mask']}-{r['weights']}-{r['pass']}-{r['dtype']}"
)
def test_what_is_published_meets_the_bars(row):
    assert row["ratio"][1] <= bar(row)


def test_memory_grows_with_the_length_unless_two_masks_are_joined():
    for mask in MASKS:
        for which in ("forward", "forward and backward"):
            peaks = {r["n"] * r["batch"]: r["peak_bytes"] for r in pick(ROWS, name="ours", weights=False, mask=mask,
                                                                      dtype="float32", **{"pass": which})
                     if r["d_model"] == 256 and r["heads"] == 8}  # fmt: skip
            long = {r["n"]: r["peak_bytes"] / r["batch"] for r in pick(ROWS, name="ours", weights=False, mask=mask,
                                                                     dtype="float32", **{"pass": which})
                    if r["d_model"] == 256 and r["heads"] == 8 and r["n"] >= 1024}  # fmt: skip
            assert peaks
            joined = mask == "both"  # to one of n x n
            assert (long[2048] > 2.3 * long[1024]) == joined


def test_on_a_gpu_tiles_save_memory_and_a_kernel_of_tiles_saves_time_too():
    for n in {row["n"] for row in ON_GPU["attention"]}:
        at = {row["name"]: row for row in pick(ON_GPU["attention"], n=n)}
        naive, tiles, kernel, fused = (
            at[name] for name in ("naive", "tiles in Python", "our kernel", "torch's fused kernel")
        )
        assert tiles["milliseconds"] > 2 * naive["milliseconds"] > 10 * kernel["milliseconds"]
        assert 2 * fused["milliseconds"] <= kernel["milliseconds"] < 3 * fused["milliseconds"]
        assert max(kernel["peak_bytes"], fused["peak_bytes"]) < tiles["peak_bytes"] < naive["peak_bytes"] / 4


def test_on_a_gpu_checks_show_in_small_calls_alone():
    for row in pick(ON_GPU["rows"], name="ours", weights=False):
        assert row["ratio"][1] <= (1.1 if row["d_model"] == 1024 else 2.6)


def test_the_page_shows_what_was_measured(tmp_path):
    (tmp_path / "conf.py").write_text(CONF)
    (tmp_path / "index.md").write_text("# Speed\n\n```{benchmark}\n```\n\n```{benchmark} gpu\n```\n")
    (tmp_path / "benchmark.json").write_text(json.dumps(MEASURED))
    (tmp_path / "benchmark_cuda.json").write_text(json.dumps(ON_GPU))
    assert small_book(tmp_path) == (0, "")
    page = BeautifulSoup((tmp_path / "_out" / "index.html").read_text(encoding="utf-8"), "html.parser")
    text = page.get_text(" ", strip=True)
    assert MEASURED["date"] in text
    assert MEASURED["machine"] in text
    cells = {cell.get_text(strip=True) for cell in page.select("table.benchmark td")}
    for row in pick(ROWS, name="ours") + pick(ON_GPU["rows"], name="ours", weights=False):
        assert in_words(row["ratio"]) in cells
    for row in ON_GPU["attention"]:
        assert time_and_memory(row) in cells
