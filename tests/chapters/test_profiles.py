"""Every notebook printed the same as other processors would run it; so did the translator that is shipped."""

import ast
import json
import os
import subprocess
import sys

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import notebooks as tool
from tools import profiles
from tools.book import ROOT, chapters, read, syntax

REVERSED = profiles.PROFILES["sums reversed"]


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_a_notebook_passed_under_all_profiles_as_it_stands(path):
    due = f"{path.name}, or what it imports, has changed: run `make profiles`"
    assert profiles.recorded().get(path.stem) == profiles.mark_of(read(path)), due


def test_the_translator_passed_under_all_profiles_as_it_stands():
    assert profiles.recorded().get(profiles.TRANSLATOR) == profiles.mark_of_translator(), "run `make profiles`"


def test_nothing_else_is_recorded():
    assert profiles.recorded().keys() == {*(path.stem for path in chapters()), profiles.TRANSLATOR}


def test_a_record_of_other_profiles_is_none(monkeypatch):
    assert profiles.recorded()
    monkeypatch.setattr(profiles, "PROFILES", {**profiles.PROFILES, "another": {}})
    assert not profiles.recorded()


# ---- What makes a record old ----------------------------------------------------------------------------------------


def chapter(*sources, output="1\n"):
    cells = [new_code_cell(source, id=f"c{number}") for number, source in enumerate(sources)]
    cells[-1].outputs = [new_output("stream", name="stdout", text=output)]
    return new_notebook(cells=[new_markdown_cell("# One", id="t"), *cells])


def test_code_and_outputs_make_a_record_old_and_prose_does_not():
    first = profiles.mark_of(chapter("print(1)"))
    reworded = chapter("print(1)")
    reworded.cells[0].source = "# Another title"
    assert profiles.mark_of(reworded) == first
    others = [chapter("print(1) # one"), chapter("print(1)", output="2\n"), chapter("import math", "print(1)")]
    assert first not in {profiles.mark_of(other) for other in others}


def test_a_module_counts_for_those_who_import_it_by_whatever_way():
    def modules(source):
        return {path.relative_to(ROOT / "attention_tutorial").as_posix() for path in profiles.imported_by(source)}

    assert {"masks.py", "functional.py", "layers.py", "_validation.py"} <= modules("import attention_tutorial")
    recall = modules("from attention_tutorial.models.tasks.associative_recall import Recall")
    assert "models/recall.py" in recall and "tiled.py" not in recall and "models/decoding.py" not in recall
    assert "models/decoding.py" in modules("from attention_tutorial.models import decoding")
    assert "models/transformer.py" in modules("from attention_tutorial.models.translator import load_translator")
    everything = modules("\n".join(cell.source for path in chapters() for cell in read(path).cells
                                   if cell.cell_type == "code" and "import" in cell.source))  # fmt: skip
    assert {"positions.py", "tiled.py", "kernel.py", "models/decoding.py"} <= everything
    assert not {name for name in everything if name.startswith(profiles.WITHOUT_NUMBERS)}


def test_what_a_module_computes_counts_and_what_it_says_does_not(tmp_path):
    def code(text):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text, encoding="utf-8")
        return profiles.code_of(path)

    first = code('"""A module."""\ndef f(x):\n    """Add one."""\n    return x + 1\n')
    assert first == code('"""Another."""\n\n\ndef f(x):\n    """Add."""\n    return (x + 1)  # one\n')
    assert first != code('"""A module."""\ndef f(x):\n    """Add one."""\n    return x + 2\n')
    assert first != code("def f(x):\n    'kept' + 'ed'\n    return x + 1\n")


def test_the_text_of_a_syntax_tree_says_all_that_counts_and_nothing_that_is_empty():
    texts = [
        syntax(ast.parse(code)) for code in ("f(x)", "f(y)", "f('')", "f()", "f(x=x)", "f'{x:{y}}'", "def f(): ...")
    ]
    assert len(set(texts)) == len(texts)
    assert texts[0] == syntax(ast.parse("f( x ) # call"))
    python_312 = ast.JoinedStr([ast.Name("x"), ast.Constant("")])
    assert syntax(python_312) == syntax(ast.JoinedStr([ast.Name("x")]))
    assert "type_params" not in texts[-1] and "[]" not in "".join(texts)


def test_the_pinned_versions_and_the_data_count(monkeypatch):
    package = ROOT / "attention_tutorial"
    data = {name: (package / name).read_text(encoding="utf-8") for name in profiles.DATA}
    notebook = chapter(
        "from attention_tutorial.models.code_model import code_model_runs",
        "from attention_tutorial.widgets import Bottleneck",
    )
    sources = profiles.sources_of(notebook)
    assert {"torch==", "numpy=="} == {line.partition("==")[0] + "==" for line in profiles.pinned()}
    assert set(profiles.pinned()) <= set(sources)
    assert set(data.values()) <= set(sources)
    for reads, names in {
        "from attention_tutorial.widgets import Heads": {"models/trained/translator.json"},
        "from attention_tutorial.models.code_model import load_code_model": {
            "models/trained/translator.json",
            "models/trained/code_model.json",
        },
    }.items():
        sources = profiles.sources_of(chapter(reads))
        assert {name for name, text in data.items() if text in sources} == names


# ---- The profiles see what they are for -----------------------------------------------------------------------------

SETUP = "import torch\ng = torch.Generator().manual_seed(0)\nx = torch.rand(999, generator=g, dtype=torch.float64)"
SOUND = "print(f'{x.sum():.6f}', (x > 0.5).sum().item())"
FRAGILE = "print(repr((x @ x.flip(0)).item()), repr(x.sum().item()))"
DRAWN = "print(torch.randn(64, generator=torch.Generator().manual_seed(0)).tolist())"
CLAIMED = """from attention_tutorial.notebook import claim
claim("X1a", "A sum", x.sum() - x.sum().round(), at_least=-1, digits=15, stable=False)"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small notebook as `make notebooks` leaves it, and its folder."""
    folder = tmp_path_factory.mktemp("profiles")
    notebook = new_notebook(cells=[new_code_cell(source) for source in (SETUP, SOUND, FRAGILE, DRAWN, CLAIMED)])
    for cell, name in zip(notebook.cells, ("setup", "sound", "fragile", "drawn", "claimed"), strict=True):
        cell.id = name
    tool.execute(notebook, folder)
    return tool.normalise(notebook), folder


@pytest.mark.parametrize(("profile", "seen"), [("sums reversed", "fragile"), ("no vector instructions", "drawn")])
def test_what_depends_on_the_processor_is_seen_and_nothing_else(made, profile, seen):
    notebook, folder = made
    differences = profiles.differences(notebook, folder, profile)
    cells = {line.split("\n")[0] for line in differences}
    assert f"{profile}: cell {seen}" in cells
    assert not cells & {f"{profile}: cell {name}" for name in ("setup", "sound", "claimed")}
    assert all("- " in line and "+ " in line for line in differences), "it says what was printed, and what is stored"


def test_a_cell_that_fails_under_a_profile_is_seen(tmp_path):
    (difference,) = profiles.differences(new_notebook(cells=[new_code_cell("assert 1 > 2")]), tmp_path, "native")
    assert difference.startswith("native: code cell 1") and "AssertionError" in difference


def test_make_notebooks_writes_nothing_that_depends_on_the_processor(tmp_path, monkeypatch, capsys):
    path, sound = tmp_path / "01_one.ipynb", new_notebook(cells=[new_code_cell("print(1)", id="one")])
    path.write_text(tool.render(sound), encoding="utf-8")
    before = path.read_bytes()
    monkeypatch.setattr(profiles, "chapters", lambda: [path])
    monkeypatch.setattr(profiles, "RECORD", tmp_path / "profiles.json")
    monkeypatch.setattr(profiles, "PROFILES", {name: profiles.PROFILES[name] for name in ("native", "sums reversed")})
    monkeypatch.setattr(profiles, "differences", lambda notebook, folder, profile: [f"{profile}: cell one"])
    assert tool.main([str(path), f"--images={tmp_path}"]) == 1
    assert path.read_bytes() == before and not profiles.RECORD.exists()
    printed = capsys.readouterr().out
    assert "it prints something else under other profiles:" in printed and "sums reversed: cell one" in printed
    assert "native" not in printed

    monkeypatch.setattr(profiles, "differences", lambda *_: [])
    profiles.accept(sound, path)
    assert profiles.recorded() == {path.stem: profiles.mark_of(sound)}
    monkeypatch.setattr(profiles, "differences", lambda *_: pytest.fail("what has passed is not run again"))
    profiles.accept(sound, path)


LAWS = """
import json, torch

def results(seed):
    generator = torch.Generator().manual_seed(seed)
    a, b, c = torch.rand(3, 40, 40, generator=generator, dtype=torch.float64).requires_grad_().unbind()
    found = {
        "mm": a @ b, "bmm": a[None] @ b[None], "mv": a @ b[0], "dot": a[0] @ b[0], "addmm": torch.addmm(c, a, b),
        "baddbmm": torch.baddbmm(c[None], a[None], b[None]), "addmv": torch.addmv(c[0], a, b[0]), "sum": a.sum(),
        "sum of rows": a.sum(1), "mean": a.mean(), "mean of rows": a.mean(0), "variance": a.var(),
        "deviation": a.std(1), "softmax": a.softmax(0), "log_softmax": a.log_softmax(1), "norm": a.norm(),
        "norm of rows": a.norm(dim=1),
    }
    for name in ("mm", "softmax", "log_softmax"):
        found[f"gradient of {name}"] = torch.autograd.grad((found[name] * c).sum(), a)[0]
    return {name: result.tolist() for name, result in found.items()}

whole = torch.arange(12).view(3, 4)
exact = [whole.sum(1).tolist(), torch.eye(3).mm(torch.eye(3)).tolist(), torch.zeros(3).softmax(0).tolist()]
print(json.dumps([[results(seed) for seed in range(5)], exact]))
"""


def test_every_sum_is_turned_and_stays_the_same_but_for_rounding(capsys):
    exec(LAWS, {})
    plain, exact = json.loads(capsys.readouterr().out)
    command, environment = [sys.executable, "-c", LAWS], {**os.environ, **REVERSED}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    turned, still_exact = json.loads(done.stdout)
    assert exact == still_exact
    for name in plain[0]:
        pairs = [(first[name], other[name]) for first, other in zip(plain, turned, strict=True)]
        assert all(tool.np.allclose(*pair, rtol=1e-11, atol=1e-11) for pair in pairs), name
        assert any(first != other for first, other in pairs), f"{name} was not turned"
