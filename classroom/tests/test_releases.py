"""Laws of a release: it holds nothing that it must not, a search finds what is planted, and it runs alone."""

import base64
import json
import re
import zlib

import nbclient
import pytest
import torch
from masters import ALL, FOLDER, assignment, master, release, solved, tasks, variant
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output, writes

from attention_classroom.assignment import TAG
from attention_classroom.release import (
    METADATA,
    STUB,
    TEXT_STUB,
    VISIBLE,
    _lines_of_functions,
    checksum,
    leaks,
    make_release,
    run,
)
from attention_tutorial.exercises import visible


def cell_of(notebook, name):
    return next(cell for cell in notebook.cells if cell.id == name)


def search(notebook, name="scaling", student="ada"):
    return leaks(notebook, master(name), assignment(name), variant(name, student))


# ---- What a release is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_a_release_is_the_master_less_what_is_secret(name):
    released, full = release(name), master(name)
    assert [cell.id for cell in released.cells] == [cell.id for cell in full.cells]
    for cell, before in zip(released.cells, full.cells, strict=True):
        is_answer = before.metadata.get("nbgrader", {}).get("solution")
        if not is_answer and cell.id != VISIBLE:
            assert cell.source == before.source
    answers = {task.id: task for task in tasks(name).values()}
    for task in answers.values():
        source = cell_of(released, task.id).source
        if task.kind == "written":
            assert source == TEXT_STUB
        elif task.kind == "debug":
            assert source.count("def ") >= 1 and "YOUR CODE HERE" not in source
        else:
            assert source.endswith(STUB.replace("\n", "\n    "))


@pytest.mark.parametrize("name", ALL)
def test_the_students_cells_can_be_edited_and_the_others_cannot(name):
    for cell in release(name).cells:
        about = cell.metadata.get("nbgrader")
        if about is not None:
            assert cell.metadata.deletable is False
            assert cell.metadata.get("editable", True) == about["solution"]
            assert about["checksum"] == checksum(cell)


def test_the_visible_checks_are_folded_away_in_colab_and_in_jupyter():
    cell = cell_of(release("masking"), VISIBLE)
    assert cell.source.startswith("# @title ") and cell.metadata.cellView == "form"
    assert cell.metadata.jupyter == {"source_hidden": True}


def test_a_release_says_whose_variant_it_is_without_a_name():
    notebook = release("masking", "ada")
    assert notebook.metadata[METADATA] == {"assignment": "masking", "variant": variant("masking", "ada").mark}
    assert "ada" not in re.findall(r"\w+", writes(notebook))


@pytest.mark.parametrize("name", ALL)
def test_a_release_is_small(name):
    assert len(writes(release(name))) < 100_000


def test_making_a_release_leaves_the_master_alone_and_is_the_same_each_time():
    notebook = master("masking")
    one, again, other = (
        writes(make_release(notebook, assignment("masking"), variant("masking", student)))
        for student in ("ada", "ada", "bob")
    )
    assert one == again != other
    assert notebook == master("masking")


# ---- What is planted in a release is found ---------------------------------------------------------------------------

HIDDEN = tasks("scaling", "ada")["normed"].checks[0].cases[0]
SOLUTION = cell_of(solved("scaling", "ada"), "normed").source
LINE = next(line for line in SOLUTION.splitlines() if "softmax" in line).strip()
SEED = variant("scaling", "ada")["hidden"]
RUBRIC = tasks("scaling", "ada")["power"].rubric[0][1]
WRITTEN = next(line for line in cell_of(master("scaling"), "power").source.splitlines() if "standard deviation" in line)


def packed(data):
    return base64.b64encode(data).decode()


def text_cell(text):
    return lambda notebook: notebook.cells.append(new_markdown_cell(text))


def code_cell(source):
    return lambda notebook: notebook.cells.insert(3, new_code_cell(source))


def in_metadata(value):
    def plant(notebook):
        notebook.cells[2].metadata["author"] = {"note": [value]}

    return plant


def in_the_notebooks_metadata(value):
    def plant(notebook):
        notebook.metadata["kept"] = value

    return plant


def in_the_visible_checks(notebook):
    cell = cell_of(notebook, VISIBLE)
    text = cell.source.split('"""')[1]
    data = json.loads(zlib.decompress(base64.b64decode("".join(text.split()))))
    data["tables"]["normed"]["cases"].append({"inputs": visible.encode(HIDDEN.inputs)})
    cell.source = cell.source.replace(text, "\n" + packed(zlib.compress(json.dumps(data).encode())) + "\n")


def as_output(notebook):
    cell = cell_of(notebook, "normed")
    cell.outputs = [new_output("stream", name="stdout", text="hello")]


def a_solved_cell(name):
    def plant(notebook):
        cell_of(notebook, name).source = cell_of(solved("scaling", "ada"), name).source

    return plant


def as_a_key(notebook):
    notebook.metadata[LINE] = 1


PLANTED = {
    "a line of a solution in a text": text_cell(f"Do it like this: `{LINE}`, then go on."),
    "a line of a solution, set otherwise": text_cell(LINE.replace(" ", "\n   ")),
    "a line of a solution in a cell's metadata": in_metadata(LINE),
    "a line of a solution as a name": as_a_key,
    "a solution, compressed": in_metadata(packed(zlib.compress(SOLUTION.encode()))),
    "a marker of a solution": text_cell("### BEGIN SOLUTION"),
    "a cell that is solved": a_solved_cell("slope"),
    "a figure that is solved": a_solved_cell("saturated-plot"),
    "a fault that is repaired": a_solved_cell("cooled"),
    "an answer in words": text_cell(f"It is so: {WRITTEN}"),
    "a rubric": in_metadata(RUBRIC),
    "the seed of the hidden numbers": in_the_notebooks_metadata(SEED),
    "a hidden case among the visible ones": in_the_visible_checks,
    "a line of the hidden module": code_cell("x = 1\nkeys = [random(n,d,seed=seed + 1000 + d) for d in widths]"),
    "an output": as_output,
}


@pytest.mark.parametrize("secret", PLANTED)
def test_what_is_planted_is_found(secret):
    notebook = release("scaling", "ada")
    PLANTED[secret](notebook)
    assert search(notebook), secret


def test_the_variant_of_another_student_may_be_public_but_not_its_hidden_side():
    """A release is searched for its own student's secrets; another's release does not hold them either."""
    assert search(release("scaling", "bob"), student="ada") == []


def test_the_code_of_a_lambda_is_secret_too():
    assert list(_lines_of_functions("root = lambda key: key.size(-1) ** 0.5")) == ["key.size(-1) ** 0.5"]


def test_what_is_visible_anyway_is_no_leak():
    notebook = release("scaling", "ada")
    visible_case = tasks("scaling", "ada")["normed"].table.cases[0]
    notebook.cells.append(new_markdown_cell(str(visible_case.inputs[0].tolist())))
    notebook.cells.append(new_code_cell("import math\n\nscores = query @ key.T\nreturn_value = 1"))
    assert search(notebook) == []


# ---- It runs alone ---------------------------------------------------------------------------------------------------


def printed(cells):
    return {
        cell.id: "".join(output.get("text", "") for output in cell.outputs)
        for cell in cells
        if cell.cell_type == "code"
    }


def test_a_release_runs_alone_in_an_empty_folder_and_with_its_answers_says_right(tmp_path):
    """First as it is, then solved, in one kernel."""
    notebook, answers = release("masking", "ada"), solved("masking", "ada")
    count = len(notebook.cells)
    notebook.cells += answers.cells
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    right = [name for name, text in printed(notebook.cells[count:]).items() if "right on all inputs tried here" in text]
    assert sorted(right) == sorted(cell.id for cell in answers.cells if cell.id.endswith("-check")) and len(right) == 4
    unfilled = printed(notebook.cells[:count])
    checks = {name: text for name, text in unfilled.items() if name.endswith("-check")}
    assert checks.pop("sentence-check").startswith("sentence: not yet. ")
    assert checks == {
        f"{name}-check": f"{name}: not filled in yet.\n" for name in ("window_mask", "packed_mask", "leaked")
    }
    assert not any(text for name, text in unfilled.items() if name not in checks and name != "sentence-check")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ALL)
def test_a_teacher_can_run_the_master_as_it_is(name, monkeypatch):
    monkeypatch.chdir(FOLDER / "source" / name)
    _, printed = run(master(name))
    checks = [text for cell, text in printed.items() if cell.endswith("-check")]
    assert len(checks) >= 3 and all("right on all inputs" in text for text in checks)


def test_running_leaves_torch_as_it_was():
    default = torch.get_default_dtype()
    run(release("masking"))
    assert torch.get_default_dtype() == default


def test_cells_that_vary_are_marked_in_a_release():
    notebook = release("masking", "ada")
    marked = {cell.id for cell in notebook.cells if TAG in cell.metadata.get("tags", [])}
    assert marked == set(assignment("masking").cells(variant("masking", "ada")))
