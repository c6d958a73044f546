"""The profiles see what depends on the processor, and nothing else; `make notebooks` writes nothing that does."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tools import execution, notebooks, profiles
from tools.book import ROOT, chapters

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
    execution.execute(notebook, folder)
    return execution.normalise(notebook), folder


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
    path, seen = tmp_path / "01_one.ipynb", []
    path.write_text(execution.render(new_notebook(cells=[new_code_cell("print(1)", id="one")])), encoding="utf-8")
    before = path.read_bytes()

    def differences(notebook, folder, profile):
        seen.append(profile)
        return [f"{profile}: cell one"]

    monkeypatch.setattr(profiles, "differences", differences)
    assert notebooks.main([str(path), f"--images={tmp_path}"]) == 1
    assert path.read_bytes() == before and set(seen) == set(profiles.distinct(profiles.QUICK)) != set()
    printed = capsys.readouterr().out
    assert "it prints something else under other profiles:" in printed and "sums reversed: cell one" in printed
    assert notebooks.main([str(path), f"--images={tmp_path}", "--draft"]) == 0
    seen.clear()
    assert notebooks.main([str(path), f"--images={tmp_path}"]) == 0 and not seen, "what did not change is not run again"


def test_a_profile_keeps_the_path_that_was_set(monkeypatch):
    for path, wanted in (("", ["reversed_sums"]), (os.pathsep.join("ab"), ["reversed_sums", "a", "b"])):
        monkeypatch.setenv("PYTHONPATH", path)
        parts = profiles.environment("sums reversed")["PYTHONPATH"].split(os.pathsep)
        assert [Path(part).name for part in parts] == wanted
        assert "PYTHONPATH" not in profiles.environment("native")


def test_one_command_runs_every_notebook_and_the_translator_under_every_profile(monkeypatch, capsys):
    runs = []
    monkeypatch.setattr(profiles, "differences", lambda notebook, folder, profile: runs.append(profile) or [])
    monkeypatch.setattr(profiles, "check_translator", lambda: ["native: False"])
    assert profiles.main([]) == 1
    assert Counter(runs) == dict.fromkeys(profiles.distinct(), len(chapters()))
    assert "the translator ... 0 s, DIFFERS\nnative: False" in capsys.readouterr().out
    assert "python -m tools.profiles\n" in (ROOT / "Makefile").read_text().replace("$(PY)", "python")
    assert "run: make test-portable" in (ROOT / ".github" / "workflows" / "profiles.yml").read_text()


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
    command, environment = [sys.executable, "-c", LAWS], {**os.environ, **profiles.environment("sums reversed")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    turned, still_exact = json.loads(done.stdout)
    assert exact == still_exact
    for name in plain[0]:
        pairs = [(first[name], other[name]) for first, other in zip(plain, turned, strict=True)]
        assert all(np.allclose(*pair, rtol=1e-11, atol=1e-11) for pair in pairs), name
        assert any(first != other for first, other in pairs), f"{name} was not turned"
