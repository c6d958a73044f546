"""Fresh draws: every claim that depends on random numbers was measured again, and holds, or says that it need not."""

import copy
import json
import multiprocessing
import re
import sys

import pytest
import torch
from attention_book.claims import held_in
from attention_book.notebooks import read_replication
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, writes

from attention_tutorial import notebook
from attention_tutorial.notebook import Claim
from tools import computation, replicate
from tools.book import chapters, read
from tools.colab import INSTALL_SOURCE
from tools.computation import fingerprint
from tools.replicate import RESULTS, RUNS, gather, run, run_alone

OFTEN = 0.95  # a claim that holds less often says that it speaks of one draw
ONE_DRAW = re.compile(r"\b(in|of) th(is|ese) runs?\b", re.IGNORECASE)
RECORDS = json.loads(RESULTS.read_text(encoding="utf-8"))

every = pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
recorded = pytest.mark.parametrize(
    "path", [path for path in chapters() if path.stem in RECORDS], ids=lambda path: path.stem
)


def record_of(path):
    """Return the record of a chapter's replication, or fail and say how to make one."""
    if path.stem not in RECORDS:
        pytest.fail(f"{path.name} was never replicated: run `make replicate CHAPTERS=notebooks/{path.name}`")
    return RECORDS[path.stem]


def too_rarely(claims, values):
    """Return in how many fresh runs each claim holds that holds too rarely and does not say that it is of one draw."""
    held = {claim.id: held_in(claim, values[claim.id]) for claim in claims if not ONE_DRAW.search(claim.sentence)}
    return {id: number for id, number in held.items() if number < OFTEN * len(values[id])}


@every
def test_the_replication_is_of_what_the_chapter_computes(path):
    record = record_of(path)
    due = f"{path.name} computes something else now: run `make replicate CHAPTERS=notebooks/{path.name}`"
    assert record["state"] == fingerprint(read(path)), due
    first, last = record["offsets"]
    assert first >= 1, "offset 0 is what the chapter shows"
    assert last - first + 1 >= RUNS


@recorded
def test_every_claim_was_measured_on_fresh_draws_and_holds_or_says_that_it_is_of_one(path):
    claims = Claim.stored_in(read(path))
    assert {claim.id for claim in claims} == RECORDS[path.stem]["claims"].keys()
    assert not too_rarely(claims, read_replication(RESULTS)[path.stem])


def test_no_record_is_of_a_chapter_that_is_no_more():
    assert RECORDS.keys() <= {path.stem for path in chapters()}


@recorded
def test_every_other_statement_holds_on_fresh_draws(path):
    allowed = (1 - OFTEN) * RUNS
    assert not {cell: failure for cell, failure in RECORDS[path.stem]["failed"].items() if failure["runs"] > allowed}


def test_a_new_chapter_is_told_what_is_missing(tmp_path):
    with pytest.raises(pytest.fail.Exception, match="never replicated: run `make replicate CHAPTERS=notebooks/10_new"):
        record_of(tmp_path / "10_new.ipynb")


def test_a_claim_is_judged_by_its_present_bounds_in_each_run():
    claims = [
        Claim("A1a", "A share", "at least 0.9", "1", at_least=0.9),
        Claim("A1b", "So", "True", "True", equals=True),
    ]
    values = {"A1a": [1.0] * 18 + [0.8, None], "A1b": [True] * 20}
    assert too_rarely(claims, values) == {"A1a": 18}
    for repaired in (
        Claim("A1a", "A share", "at least 0.75", "1", at_least=0.75),
        Claim("A1a", "A share in this run", "at least 0.9", "1", at_least=0.9),
    ):
        assert not too_rarely([repaired, claims[1]], values)
    edge = Claim("A1c", "A third", "0.333", "0.333", at_least=1 / 3, at_most=1 / 3)
    assert held_in(edge, [0.333333]) == 1, "six digits are kept"
    assert held_in(edge, [0.33334, float("nan"), None, True, "1/3"]) == 0


# ---- The tool -------------------------------------------------------------------------------------------------------

CHAPTER = """
import torch
from attention_tutorial.notebook import claim
draw = torch.randn(1000, generator=torch.Generator().manual_seed(3)).double().mean()
torch.manual_seed(3)
other = torch.rand(())
claim("X1a", "A mean", draw, equals=9)
claim("X1b", "A draw", other, at_least=0, stable=False)
assert draw > 99, "never"
claim("X1c", "A word", "after", equals="after")
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
    found = (folder / "x.ipynb", 2, folder / "x.json", folder / "x.log")
    process = multiprocessing.get_context("spawn").Process(target=run_alone, args=found)
    process.start()
    process.join(1200)
    return [*records, json.loads((folder / "x.json").read_text(encoding="utf-8"))]


def test_offset_0_is_the_chapter_and_others_move_every_seed(runs):
    for record, seed in zip((runs[0], runs[2]), (3, 2003), strict=True):
        mean = torch.randn(1000, generator=torch.Generator().manual_seed(seed)).double().mean().item()
        assert record["claims"]["X1a"] == mean
    assert runs[0]["claims"]["X1b"] == torch.rand((), generator=torch.Generator().manual_seed(3)).item()
    assert len({record["claims"]["X1b"] for record in runs}) == 3, "the global generator moves as well"


def test_what_fails_is_noted_and_the_chapter_goes_on(runs):
    for record in runs:
        assert record["failed"] == {"b": "assert draw > 99, 'never': AssertionError never"}
        assert record["claims"]["X1c"] == "after"


def test_a_record_is_confirmed_by_its_first_and_last_draw_and_by_nothing_else(runs, monkeypatch):
    record = {"offsets": [1, 3], **gather(runs)}
    both = [runs[0], runs[-1]]
    other = copy.deepcopy(both)
    other[1]["claims"]["X1b"] *= 1 + 1e-5
    fewer = copy.deepcopy(both)
    del fewer[1]["claims"]["X1c"]
    failing = copy.deepcopy(both)
    failing[0]["failed"]["c"] = "draw: NameError"
    for measured, confirmed in ((both, True), (both[::-1], False), (other, False), (fewer, False), (failing, False)):
        monkeypatch.setattr(replicate, "run_all", lambda path, offsets, jobs, measured=measured: measured)
        monkeypatch.setattr(replicate, "replicate", lambda path, offsets, jobs: {"offsets": offsets})
        renewed = replicate.renew(None, record, 1)
        assert renewed is record if confirmed else renewed == {"offsets": range(1, 4)}


def test_values_are_gathered_to_six_digits_and_once_where_they_are_the_same():
    values = {"same": [1 / 3, 1 / 3 + 1e-15, 1 / 3], "other": [1 / 3, 0.25, 12345678], "words": ["a", "a", "b"],
              "noise": [0.0, 1e-12, -1e-13], "not reached": [1, 1], "flags": [True, True, True]}  # fmt: skip
    claims = [{id: found[i] for id, found in values.items() if i < len(found)} for i in range(3)]
    gathered = gather([{"claims": found, "failed": {"c": "no"} if i else {}} for i, found in enumerate(claims)])
    assert gathered == {
        "claims": {"same": 0.333333, "other": [0.333333, 0.25, 12345678], "words": ["a", "a", "b"], "noise": 0.0,
                   "not reached": [1, 1, None], "flags": True},
        "failed": {"c": {"runs": 2, "message": "no"}},
    }  # fmt: skip


def test_what_is_written_is_read_with_one_value_for_each_run(tmp_path, monkeypatch):
    results = {name: {"date": "2026-01-31", "state": "abc", "offsets": [1, 3], "claims": claims, "failed": {}}
               for name, claims in (("02", {"A1a": [1, 2, 3], "A1b": True}), ("01", {}))}  # fmt: skip
    monkeypatch.setattr(replicate, "RESULTS", tmp_path / "replication.json")
    replicate.write(results)
    assert json.loads(replicate.RESULTS.read_text(encoding="utf-8")) == results
    assert read_replication(replicate.RESULTS) == {"01": {}, "02": {"A1a": [1, 2, 3], "A1b": [True] * 3}}


# ---- What makes a record old ----------------------------------------------------------------------------------------

CELL = """
from attention_tutorial import attend
from attention_tutorial import plotting
from attention_tutorial.data import load
from attention_tutorial.notebook import claim, show_source
import math
x = attend(load.numbers())
show_source(attend)
drawn = plotting.draw(x)
print(f"found {x}")
claim("A1a", "It is small", x, at_most=5)
assert x < 9, "never"
"""
PACKAGE = {
    "__init__.py": "from .core import attend",
    "_checks.py": 'LEAST = 1\ndef check(x):\n    if x < LEAST:\n        raise ValueError(f"x is {x}, too " + "small")',
    "core.py": '''"""Attention."""
import warnings
from . import _checks
FACTOR = 2
class Base:
    def back(self, x): return x - 1
class Layer(Base):
    """A layer."""
    def forward(self, x: int) -> int:
        return self.back(x)
def attend(x):
    """Attend."""
    _checks.check(x)
    if x > 9: warnings.warn("large")
    return FACTOR * Layer().forward(x)
def other(x):
    return x
''',
    "data/__init__.py": "",
    "data/load.py": 'def read(name):\n    return open("kept", f"{name}.json")\ndef numbers():\n'
    '    return read("numbers")\ndef more():\n    return read("words")',
    "data/kept/numbers.json": "[1]",
    "data/kept/words.json": "[]",
    "plotting.py": "def draw(x): return x",
    "notebook.py": "def claim(*a): ...\ndef show_source(x): ...",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a small package in place of the book's."""
    folder = tmp_path / "attention_tutorial"
    for name, text in PACKAGE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(computation, "ROOT", tmp_path)
    monkeypatch.setattr(computation, "PACKAGE", folder)
    return folder


@pytest.mark.parametrize(
    ("file", "old", "new", "due"),
    [
        ("core.py", "FACTOR = 2", "FACTOR = 3", True),
        ("core.py", "FACTOR *", "FACTOR +", True),
        ("core.py", "x - 1", "x - 2", True),  # of the base class
        ("core.py", "return self.back(x)", "return -self.back(x)", True),
        ("core.py", "x > 9", "x > 8", True),
        ("_checks.py", "LEAST = 1", "LEAST = 0", True),
        ("_checks.py", "ValueError", "TypeError", True),
        ("data/load.py", '"kept"', '"kept", 1', True),
        ("data/kept/numbers.json", "[1]", "[2]", True),
        ("core.py", '"""Attention."""', '"""All of it."""', False),
        ("core.py", '"""Attend."""', '"""Pay attention."""', False),
        ("core.py", "x: int) -> int", "x: float) -> float", False),
        ("core.py", "return FACTOR * Layer()", "# twice\n    return  FACTOR*Layer()", False),
        ("core.py", '"large"', '"very large"', False),
        ("core.py", "    return x\n", "    return 2 * x\n", False),  # another function
        ("_checks.py", "too ", "far too ", False),
        ("_checks.py", '"small"', '"little"', False),
        ("data/load.py", 'read("words")', 'read("numbers")', False),
        ("data/kept/words.json", "[]", "[1]", False),
        ("plotting.py", "return x", "return 2 * x", False),
    ],
)
def test_what_a_chapter_calls_makes_a_record_old_where_it_does_something_else(package, file, old, new, due):
    before = fingerprint(chapter(CELL))
    path = package / file
    text = path.read_text(encoding="utf-8")
    changed = text.replace(old, new)
    assert changed != text
    path.write_text(changed, encoding="utf-8")
    assert (fingerprint(chapter(CELL)) != before) == due


@pytest.mark.parametrize(
    ("old", "new", "due"),
    [
        ("load.numbers()", "2 * load.numbers()", True),
        ("x < 9", "x < 8", True),
        ('small", x', 'small", -x', True),
        ('"A1a"', '"A1b"', True),
        ("from attention_tutorial import attend", "from attention_tutorial.core import other as attend", True),
        ("It is small", "It is little", False),
        ("at_most=5", "at_most=6, finding=True, digits=2", False),
        ("found {x}", "it is {x}", False),
        ('"never"', '"not once"', False),
        ("x = attend", "# a comment\nx  =  attend", False),
        ("show_source(attend)", "", False),
        ("import math", "import cmath as math", True),
        ("import math\nx = attend(load.numbers())", "x = attend(load.numbers())\nimport math", False),
        ("import plotting", "import plotting, attend as unused", False),
    ],
)
def test_a_chapters_own_code_makes_its_record_old_and_its_words_do_not(package, old, new, due):
    changed = CELL.replace(old, new)
    assert changed != CELL
    assert (fingerprint(chapter(changed)) != fingerprint(chapter(CELL))) == due


@pytest.mark.parametrize("cell", [
    new_code_cell(f"# @title Set up\n{INSTALL_SOURCE}\n\n'words'"),
    new_code_cell("mine = None\ncheck('bits', mine)", id="x", metadata={"tags": ["exercise"]}),
], ids=["the lines that install", "an exercise"])  # fmt: skip
def test_a_cell_that_measures_nothing_makes_no_record_old(cell):
    first, more = chapter("x = 1"), chapter("x = 1")
    more.cells.append(cell)
    assert fingerprint(more) == fingerprint(first) != fingerprint(chapter("x = 1\ny = 2"))


def test_a_name_that_the_package_lacks_is_an_error(package):
    with pytest.raises(LookupError, match=r"attention_tutorial\.core defines no heed"):
        fingerprint(chapter("from attention_tutorial.core import heed\nheed(1)"))
