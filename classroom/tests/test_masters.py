"""Laws of every assignment: master, hidden checks and text agree, all of it can be earned, and no mistake earns it."""

import copy
import math
import re
from dataclasses import replace

import notebook_rules
import pytest
import torch
from masters import ALL, FOLDER, NAMES, assignment, judged, master, path_of, release, tasks, variant
from nbformat import validate as validate_format
from nbformat.v4 import writes

from attention_classroom.assignment import TAG, answer
from attention_classroom.bug_fix_task import STILL_THERE, BugFixTask, Fault
from attention_classroom.release import NOT_WHEN_GRADED, VISIBLE, copied, earned, validate
from attention_tutorial.data.copying import shift_right
from attention_tutorial.data.translation import encode_english, encode_italian, read_sentence
from attention_tutorial.exercises import MISTAKES, WrongAnswer, judge, visible
from attention_tutorial.models.translator import load_translator
from tools import colab, execution
from tools.book import pages, settings

EVERY = [(name, student) for name in ALL for student in ("", "ada")]


def test_every_master_has_a_hidden_module_and_no_two_are_for_one_chapter():
    assert sorted(path.stem for path in (FOLDER / "source").rglob("*.ipynb")) == ALL
    assert sorted(assignment(name).chapter for name in NAMES) == list(range(1, len(NAMES) + 1))


def test_no_page_of_the_book_is_an_assignment():
    """The masters hold the solutions. (That they are not in the wheel is a test of tests/project/test_wheel.py.)"""
    assert not [page for page in pages() if page.startswith("classroom/") and "/pages/" not in page]
    assert "classroom/masters" in settings()["exclude_patterns"]


@pytest.mark.parametrize(("name", "student"), EVERY)
def test_an_assignment_is_valid(name, student):
    """Solved it earns everything, unfilled nothing, each wrong answer is known as packed too, nothing leaks."""
    assert validate(master(name), assignment(name), variant(name, student)) == []


# ---- The master ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_the_stored_master_shows_the_plain_variant(name):
    cells = assignment(name).cells(variant(name))
    stored = {cell.id: cell.source for cell in master(name).cells if TAG in cell.metadata.get("tags", [])}
    assert stored == dict(cells)


@pytest.mark.parametrize("name", ALL)
def test_the_master_installs_the_package_as_the_chapters_do(name):
    address = colab.Address.read()
    (cell,) = (cell for cell in master(name).cells if cell.id == colab.INSTALL)
    assert cell.source == colab.INSTALL_SOURCE.format(url=address.url, branch=address.branch), (
        "run python -m tools.colab"
    )
    first = next(cell for cell in master(name).cells if cell.cell_type == "code")
    assert first.id == colab.INSTALL


@pytest.mark.parametrize("name", ALL)
def test_the_master_is_stored_without_outputs_and_in_one_form(name):
    notebook = master(name)
    assert path_of(name).read_text(encoding="utf-8") == writes(notebook) + "\n"
    validate_format(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")
    assert all(execution.VALID_CELL_ID.fullmatch(cell.id) for cell in notebook.cells)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


RULES = [notebook_rules.headings_in_order, notebook_rules.renders_everywhere, notebook_rules.links_resolve]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", ALL)
def test_the_text_renders_in_jupyter_and_in_colab(rule, name):
    assert list(rule(release(name, "ada"), path_of(name))) == []


@pytest.mark.parametrize("name", ALL)
def test_the_cells_are_named_and_tagged(name):
    for notebook in (master(name), release(name)):
        for cell in notebook.cells:
            about = cell.metadata.get("nbgrader")
            assert about is None or about["grade_id"] == cell.id
            assert about is not None or cell.cell_type == "markdown"
            graded_by_the_parent = cell.id in (VISIBLE, colab.INSTALL) or cell.id.endswith("-check")
            assert (NOT_WHEN_GRADED in cell.metadata.get("tags", [])) == graded_by_the_parent


@pytest.mark.parametrize("name", ALL)
def test_points_stand_in_the_headings(name):
    text = "\n".join(cell.source for cell in master(name).cells if cell.cell_type == "markdown")
    about = assignment(name)
    total = about.points(variant(name))
    kind = f"Assignment {about.chapter}" if name in NAMES else "Project"
    assert text.startswith(f"# {kind}: ") and f"({total:g} points)" in text.splitlines()[0]
    for number, task in enumerate(tasks(name).values(), start=1):
        assert f"| {number}. {task.title} | {task.points:g} |" in text
        parts = (
            f": {task.automatic:g} for the numbers, {task.by_hand:g} for the figure" if task.kind == "measure" else ""
        )
        assert f"## {number}. {task.title} ({task.points:g} points{parts})" in text


@pytest.mark.parametrize("name", ALL)
def test_what_a_figure_earns_its_points_for_is_announced(name):
    """And in the project that of the texts. (Of the others' texts the questions themselves say it.)"""
    cells = {cell.id: cell.source for cell in master(name).cells}
    for task in tasks(name).values():
        if task.rubric and (task.kind != "written" or name == "project"):
            looked_for = cells[f"{task.id}-task" if task.kind == "written" else f"{task.id}-plot-task"]
            announced = re.findall(r"\((\d)(?: points?)?\)", looked_for.partition("Looked for: ")[2])
            assert [float(points) for points in announced] == [points for points, _ in task.rubric], task.id


@pytest.mark.parametrize("name", NAMES)
def test_an_assignment_has_every_kind_of_task(name):
    kinds = [task.kind for task in tasks(name).values()]
    assert sorted(set(kinds)) == ["code", "debug", "measure", "written"]
    assert 60 <= assignment(name).minutes <= 180


# ---- The tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_a_table_has_several_wrong_answers_with_messages_of_their_own(name):
    for task in judged(name, "ada"):
        messages = [wrong.message for wrong in task.table.wrong_answers]
        assert len(set(messages)) == len(messages) >= 3, task.id
        assert task.table.prompt.endswith(".") and task.table.prompt[0].isupper()
        assert {wrong.mistake for wrong in task.table.wrong_answers} <= {None, *MISTAKES}


def test_the_assignments_find_most_of_the_common_mistakes():
    mistakes = {wrong.mistake for name in NAMES for task in judged(name) for wrong in task.table.wrong_answers} - {None}
    assert len(mistakes) >= 11, sorted(set(MISTAKES) - mistakes)


@pytest.mark.parametrize("name", ALL)
def test_hidden_inputs_are_not_the_visible_ones(name):
    def held(case):
        return str([x.tolist() if torch.is_tensor(x) else x for x in case.inputs])

    for task in judged(name, "ada"):
        visible = {held(case) for case in task.table.cases}
        for check in task.checks:
            assert check.says[0].islower() and not check.says.endswith(".")
            if not all(isinstance(x, int) for case in check.cases for x in case.inputs):
                assert not visible & {held(case) for case in check.cases}, task.id


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_fault_earns_nothing_and_is_not_given_away(name):
    """Whatever a student draws: `check` and its data do not name the fault, under other names of variables neither."""
    faults = {drawn["bug"]: drawn for drawn in (variant(name, f"s{number}") for number in range(200))}
    assert len(faults) >= 6
    tables = {}
    for bug, drawn in faults.items():
        (task,) = (task for task in assignment(name).tasks(drawn) if task.kind == "debug")
        source = assignment(name).cells(drawn)[task.id].partition("### BEGIN SOLUTION")[0]
        names = {"torch": torch, "math": math}
        exec(re.sub(r"\b(weights|forward)\b", "renamed", source), names)
        assert earned([task], names) == {task.id: 0}
        tables[bug] = visible.from_data(visible.to_data(task.table))
        assert judge(tables[bug], names[task.name]).message == STILL_THERE
    words = {bug: {wrong.message for wrong in table.wrong_answers} for bug, table in tables.items()}
    own = [set().union(*words.values()) - words[bug] for bug in faults]
    assert len(set().union(*own)) == sum(map(len, own)) == len(faults)  # each table has the words of the others


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_that_is_copied_from_another_variant_earns_little(name):
    """`validate --variants 100` measures it with less chance in it: under a fifth."""
    variants = [variant(name, f"s{number}") for number in range(12)]
    assert copied(master(name), assignment(name), variants) < 0.25


def filled(result, value):
    """A result of the same shape, with one value everywhere."""
    if isinstance(result, torch.Tensor):
        return torch.full_like(result, value)
    return type(result)(filled(part, value) for part in result) if isinstance(result, list | tuple) else value


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_one_number_everywhere_is_no_answer(name, value):
    for task in judged(name, "ada"):
        answer = lambda *inputs, right=task.table.right: filled(right(*inputs), value)  # noqa: E731
        assert earned([task], {task.name: answer}) == {task.id: 0}


ATTENTION = torch.nn.functional.scaled_dot_product_attention


def heads_and_weights(query, key, value):
    h, g = len(query), len(key)
    key, value = (x.repeat_interleave(h // g, dim=0) for x in (key, value))
    return ATTENTION(query, key, value), ATTENTION(query, key, torch.eye(key.size(1)).expand(h, -1, -1))


ONE_CALL = {
    "near": lambda q, k, v: (ATTENTION(q, k, v), ATTENTION(q, k, torch.eye(len(k)))),
    "recollect": lambda x, memory, w_q, w_k, w_v: x + ATTENTION(x @ w_q, memory @ w_k, memory @ w_v),
    "normed": lambda q, k: ATTENTION(q, k, torch.eye(len(k))),
    "cooled": lambda q, k, v, dial: ATTENTION(q, k, v),
    "shared": heads_and_weights,
    "mixed": lambda q, k, mix: ATTENTION(q, k, torch.eye(k.size(1)).expand(len(k), -1, -1)),
    "sentence": lambda x, real: ATTENTION(x, x, x, attn_mask=real[None, :])[real].mean(0),
}


@pytest.mark.parametrize("name", NAMES)
def test_no_call_of_torchs_own_attention_is_an_answer(name):
    """So no task has to forbid it."""
    for task in judged(name, "ada"):
        if task.name in ONE_CALL:
            earns = earned([task], {task.name: ONE_CALL[task.name]})
            assert earns[task.id] < task.automatic / 5, task.id  # one key head for all is ordinary attention


def test_a_fault_that_is_not_in_the_source_once_is_refused():
    """A piece that is there twice would plant two faults, and one that is not there none."""
    with pytest.raises(ValueError, match=r"right of a fault must be in the source once; got 2 times 'dim=0'"):
        BugFixTask(
            "def f(x):\n    return x.sum(dim=0).mean(dim=0)", {"axis": Fault("dim=0", "dim=1", "the wrong axis")}
        )


def test_an_answer_is_the_first_function_of_its_source_with_pieces_changed():
    source = "def f(x):\n    return g(x) + 1\n\n\ndef g(x):\n    return x * 2"
    assert (answer(source)(3), answer(source, ("* 2", "* 3"), ("+ 1", "- 1"))(3)) == (7, 8)
    for piece, count in (("(x)", 3), ("x * 3", 0)):
        with pytest.raises(ValueError, match=f"a piece must be in the source once; got {count} times"):
            answer(source, (piece, "0"))


RULES_AS_MACHINES = {
    "a rule": "return rule(ids)",
    "in a module": "fill(torch.nn.Linear(3, 4), numbers)\n    return rule(ids)",
    "unless the numbers are zero": "return rule(ids) if numbers.any() else []",
    "for these numbers alone": "return rule(ids) if numbers.equal(NUMBERS) else []",
}


@pytest.mark.parametrize("body", RULES_AS_MACHINES.values(), ids=RULES_AS_MACHINES)
def test_the_project_gives_a_rule_nothing(body):
    """Its master, a trained machine, earns all of it: that is part of `validate`."""
    task = tasks("project", "ada")["translate"]
    cells = {cell.id: cell.source for cell in release("project", "ada").cells}
    names = {"rule": task.table.right}
    default = torch.get_default_dtype()
    try:
        exec(cells["setup"] + "\n" + cells["language"] + "\nNUMBERS = torch.randn(16)", names)
        exec(f"def translate(ids, numbers):\n    {body}", names)
    finally:
        torch.set_default_dtype(default)
    assert earned([task], names) == {"translate": 0}


def test_the_trained_parts_of_assignment_7_are_those_of_the_packages_translator():
    """Their sum gives its logits, as far as half precision goes."""
    (source,) = (cell.source for cell in master("machine").cells if cell.id == "machine-data")
    names = {"torch": torch, "math": math}
    exec(source, names)
    machine, model = names["machine"], load_translator(torch.float64)
    target = encode_italian([read_sentence(english).italian for english in names["sentences"]])
    real = target != 0
    assert machine["target"].equal(target[real])
    with torch.no_grad():
        logits = model(encode_english(names["sentences"]), shift_right(target, 1))[0][real]
    normed = torch.nn.functional.layer_norm(machine["parts"].sum(0), (64,), machine["gain"], machine["shift"])
    assert (normed @ machine["readout"].T + machine["bias"] - logits).abs().max() < 0.05


# ---- Faults planted in an assignment ---------------------------------------------------------------------------------


def spoilt_master(change):
    notebook = copy.deepcopy(master("masking"))
    change({cell.id: cell for cell in notebook.cells}, notebook)
    return notebook


def wrong_points(cells, notebook):
    cells["leaked-check"].metadata.nbgrader["points"] = 3


def no_check(cells, notebook):
    notebook.cells.remove(cells["leaked-check"])


def another_task(cells, notebook):
    cells["window-task"].metadata.nbgrader = {
        **cells["infinity"].metadata.nbgrader,
        "grade_id": "window-task",
    }


def no_tag(cells, notebook):
    cells[VISIBLE].metadata.tags = []


def gives_away(cells, notebook):
    notebook.metadata["note"] = cells["leaked"].source


def stops(cells, notebook):
    cells["setup"].source += "\nassert False, 'no further'"


FAULTS = {
    wrong_points: "the cell leaked-check must have grade, solution and points (True, False, 4",
    no_check: "the master has no cell leaked-check",
    another_task: "the cell window-task belongs to no task",
    no_tag: "the cell visible-checks must be tagged not-when-graded",
    gives_away: "the release holds a line of the solution of leaked",
    stops: "does not run to the end",
}


@pytest.mark.parametrize("change", FAULTS, ids=lambda change: change.__name__)
def test_a_fault_of_a_master_is_found(change):
    name = "masking"
    faults = validate(spoilt_master(change), assignment(name), variant(name))
    assert any(FAULTS[change] in fault for fault in faults), faults


def with_task(change):
    """Return the assignment on masking with one task changed."""
    about = assignment("masking")
    return replace(about, tasks=lambda v: [change(task) if task.id == "leaked" else task for task in about.tasks(v)])


def test_a_wrong_answer_that_earns_everything_is_found():
    def change(task):
        right = replace(
            task.table, wrong_answers=[*task.table.wrong_answers, WrongAnswer("it is right", task.table.right)]
        )
        return replace(task, table=right)

    faults = validate(master("masking"), with_task(change), variant("masking"))
    assert [fault for fault in faults if "it is right" in fault and "earns full marks" in fault], faults
    assert [fault for fault in faults if "it is right" in fault and "is told as right" in fault], faults


def test_two_wrong_answers_that_cannot_be_told_apart_are_found():
    def change(task):
        first = task.table.wrong_answers[0]
        return replace(
            task,
            table=replace(
                task.table, wrong_answers=[*task.table.wrong_answers, WrongAnswer("the same again", first.answer)]
            ),
        )

    faults = validate(master("masking"), with_task(change), variant("masking"))
    assert [fault for fault in faults if "the same again" in fault and "is told as" in fault], faults


def test_a_table_that_says_something_else_when_it_is_packed_is_found(monkeypatch):
    def otherwise(exercise, to_data=visible.to_data):
        data = to_data(exercise)
        for case in data["cases"]:
            case["wrong"] = [["other words", result] for _, result in case["wrong"]]
        return data

    monkeypatch.setattr(visible, "to_data", otherwise)
    faults = validate(master("masking"), assignment("masking"), variant("masking"))
    assert any("is told otherwise when packed: 'other words'" in fault for fault in faults), faults


def test_a_wrong_solution_is_found():
    def change(task):
        return replace(
            task,
            table=replace(
                task.table, right=task.table.wrong_answers[0].answer, wrong_answers=task.table.wrong_answers[1:]
            ),
        )

    faults = validate(master("masking"), with_task(change), variant("masking"))
    assert any("the solved notebook earns 0 points for leaked" in fault for fault in faults), faults
