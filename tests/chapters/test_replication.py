"""Fresh draws: every claim that depends on random numbers was measured again, and held, or says that it need not."""

import json
import re
import subprocess
import sys

import pytest
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, writes

from attention_tutorial import notebook
from attention_tutorial.notebook import Claim
from tools.book import ROOT, chapters, read
from tools.colab import INSTALL
from tools.replicate import RESULTS, RUNS, code_of, report, run, spread, state_of, summary

OFTEN = 0.95  # a claim that holds less often says that it speaks of one draw
ONE_DRAW = re.compile(r"\b(in|of) th(is|ese) runs?\b", re.IGNORECASE)
FOUND = json.loads(RESULTS.read_text(encoding="utf-8"))

every = pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)


def record_of(path):
    """Return what the replication of a chapter found, or fail and say how to make one."""
    if path.stem not in FOUND:
        pytest.fail(f"{path.name} was never replicated: run `make replicate CHAPTERS=notebooks/{path.name}`")
    return FOUND[path.stem]


@every
def test_the_replication_is_of_the_chapter_as_it_stands(path):
    record = record_of(path)
    due = f"{path.name} has changed: run `make replicate CHAPTERS=notebooks/{path.name}`"
    assert record["state"] == state_of(read(path)), due
    first, last = record["offsets"]
    assert first >= 1, "offset 0 is what the chapter shows"
    assert last - first + 1 >= RUNS


@every
def test_every_claim_was_measured_on_fresh_draws_and_holds_or_says_that_it_is_of_one(path):
    notebook, record = read(path), record_of(path)["claims"]
    claims = {claim.id: claim for claim in Claim.stored_in(notebook)}
    assert claims.keys() == record.keys()
    short = {id: row for id, row in record.items() if row["held"] < OFTEN * row["runs"]}
    assert not {id: row for id, row in short.items() if not ONE_DRAW.search(claims[id].sentence)}


def test_no_record_is_of_a_chapter_that_is_no_more():
    assert FOUND.keys() == {path.stem for path in chapters()}


@every
def test_every_other_statement_holds_on_fresh_draws(path):
    allowed = (1 - OFTEN) * RUNS
    assert not {cell: claim for cell, claim in record_of(path)["failed"].items() if claim["runs"] > allowed}


def test_a_new_chapter_is_told_what_is_missing(tmp_path):
    with pytest.raises(pytest.fail.Exception, match="never replicated: run `make replicate CHAPTERS=notebooks/10_new"):
        record_of(tmp_path / "10_new.ipynb")


# ---- The tool -------------------------------------------------------------------------------------------------------

CHAPTER = """
import torch
from attention_tutorial.notebook import claim
draw = torch.randn(1000, generator=torch.Generator().manual_seed(3)).double().mean()
torch.manual_seed(3)
other = torch.rand(())
claim("X1a", "A mean", draw, equals=0, atol=9)
claim("X1b", "Two and two", 2 + 2, equals=4)
claim("X1c", "A coin", bool(other < 0.5), equals=True)
claim("X1d", "A time", other, at_least=0, stable=False)
assert draw > 99, "never"
after = 1
claim("X1e", "One", after, equals=1)
"""


def chapter(*sources):
    return new_notebook(cells=[new_markdown_cell("# One", id="a"), *(new_code_cell(x, id="b") for x in sources)])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What three runs of a small chapter found, the first without an offset, the last in a process of its own."""
    folder = tmp_path_factory.mktemp("chapter")
    (folder / "x.ipynb").write_text(writes(chapter(CHAPTER)), encoding="utf-8")
    records = []
    for offset in (0, 1):
        with pytest.MonkeyPatch.context() as patch, torch.random.fork_rng():
            patch.setitem(sys.modules, "__main__", sys.modules["__main__"])
            for where, name in ((torch, "Generator"), (torch, "manual_seed"), (notebook, "claim")):
                patch.setattr(where, name, getattr(where, name))  # so that it comes back
            records.append(run(chapter(CHAPTER), offset))
    command = [sys.executable, "-m", "tools.replicate", "--one", f"{folder}/x.ipynb", "2", f"{folder}/x.json"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=1200)
    return [*records, json.loads((folder / "x.json").read_text(encoding="utf-8"))]


def test_offset_0_is_the_chapter_and_others_move_every_seed(runs):
    mean = torch.randn(1000, generator=torch.Generator().manual_seed(3)).double().mean().item()
    moved = torch.randn(1000, generator=torch.Generator().manual_seed(2003)).double().mean().item()
    assert runs[0]["claims"]["X1a"][0] == mean
    assert runs[2]["claims"]["X1a"][0] == moved
    assert runs[0]["claims"]["X1d"][0] == torch.rand((), generator=torch.Generator().manual_seed(3)).item()
    assert len({record["claims"]["X1d"][0] for record in runs}) == 3, "the global generator moves as well"


def test_what_fails_is_noted_and_the_chapter_goes_on(runs):
    for record in runs:
        assert record["failed"] == {"b": "assert draw > 99, 'never': AssertionError never"}
        assert record["claims"]["X1e"] == [1, True]


def test_a_summary_tells_what_varies_and_how_often_it_held(runs):
    record = summary(runs)
    means = sorted(run["claims"]["X1a"][0] for run in runs)
    numbers = dict(zip(("least", "median", "most"), (float(f"{x:.4g}") for x in means), strict=True))
    assert record["claims"]["X1a"] == {"runs": 3, "held": 3, **numbers}
    assert record["claims"]["X1b"] == {"runs": 3, "held": 3}
    coins = [run["claims"]["X1c"][0] for run in runs]
    assert record["claims"]["X1c"]["held"] == coins.count(True)
    assert record["claims"]["X1d"]["least"] < record["claims"]["X1d"]["most"]
    assert record["failed"]["b"]["runs"] == 3


def test_a_claim_that_a_run_did_not_reach_did_not_hold_in_it():
    record = summary([{"claims": {"A": [1, True]}, "failed": {}}, {"claims": {}, "failed": {"c": "no"}}])
    assert record["claims"]["A"] == {"runs": 2, "held": 1}
    assert "A: held in 1 of 2 runs" in report("x", record)


def test_rounding_is_no_spread():
    assert spread([0.1 + 0.2, 0.3]) == spread([0.0, 1e-12]) == spread([True, True]) == {}
    assert spread([1.0, 1.00001]) == {"median": 1.0, "least": 1.0, "most": 1.0}
    assert spread(["a", "b", "a"]) == {"values": {"a": 2, "b": 1}}


def test_code_and_bounds_make_a_replication_old_and_words_do_not():
    first = chapter("# a comment\nclaim('A', 'words', x, equals=1)")
    assert code_of(first) == code_of(chapter("claim('A', 'other words', x,  equals=1)"))
    assert code_of(first) == code_of(chapter("claim('A', 'words', x, equals=1, finding=True, stable=False, digits=2)"))
    others = [
        "claim('A', 'words', x, equals=2)",
        "claim('B', 'words', x, equals=1)",
        "claim('A', 'words', y, equals=1)",
    ]
    assert len({code_of(first), *(code_of(chapter(cells)) for cells in others)}) == 4
    assert state_of(first) != state_of(chapter(others[0]))


@pytest.mark.parametrize(
    "cell",
    [
        new_code_cell("import os", id=INSTALL),
        new_code_cell("mine = None\ncheck('bits', mine)", id="x", metadata={"tags": ["exercise"]}),
        new_code_cell("show_source(a)\nshow_source(b)", id="x"),
        new_code_cell("Heads(labels, maps)", id="x"),
    ],
    ids=["the installing cell", "an exercise", "a listing", "a widget"],
)
def test_what_measures_nothing_makes_no_replication_old(cell):
    first, more = chapter("x = 1"), chapter("x = 1")
    more.cells.append(cell)
    assert code_of(more) == code_of(first)
    more.cells[-1] = new_code_cell("show_source(a)\ny = 2", id="x")
    assert code_of(more) != code_of(first)


def test_the_import_of_a_widget_makes_no_replication_old():
    imported = chapter("import torch\nfrom attention_tutorial.widgets import Heads\nx = 1")
    assert code_of(imported) == code_of(chapter("import torch\nx = 1")) != code_of(chapter("x = 1"))
