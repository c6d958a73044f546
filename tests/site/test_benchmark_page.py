"""The page of the package's speed, and the measurements that it is made from."""

import json
import re

import pytest
from attention_book.benchmark import MASKS, in_words, pick
from bs4 import BeautifulSoup
from website import ROOT, small_book

MEASURED = json.loads((ROOT / "book" / "benchmark.json").read_text(encoding="utf-8"))
ROWS = MEASURED["rows"]
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


def test_the_page_shows_what_was_measured(tmp_path):
    (tmp_path / "conf.py").write_text(CONF)
    (tmp_path / "index.md").write_text("# Speed\n\n```{benchmark}\n```\n")
    (tmp_path / "benchmark.json").write_text(json.dumps(MEASURED))
    assert small_book(tmp_path) == (0, "")
    page = BeautifulSoup((tmp_path / "_out" / "index.html").read_text(encoding="utf-8"), "html.parser")
    text = page.get_text(" ", strip=True)
    assert MEASURED["date"] in text
    assert MEASURED["machine"] in text
    cells = {cell.get_text(strip=True) for cell in page.select("table.benchmark td")}
    for row in pick(ROWS, name="ours"):
        assert in_words(row["ratio"]) in cells
