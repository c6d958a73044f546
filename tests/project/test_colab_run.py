"""The trial run for Colab, in small: it finds what it is for. `make test-colab` does all of it with Colab's versions.

The interpreter is one of an environment like that of the tests, less the package. Nothing is downloaded.
"""

import pytest
from clean_environment import build, make_environment
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, writes

from tools import colab, colab_run

ADDRESS = colab.Address.read()
_, INSTALL = colab.own_cells("", ADDRESS)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return str(build(tmp_path_factory.mktemp("published"), "--wheel")[".whl"])


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    folder = tmp_path_factory.mktemp("colab")
    return colab_run.Runtime(make_environment(folder / "environment"), folder)


# ---- Notebooks ---------------------------------------------------------------------------------------------------


def printed(text):
    return [new_output("stream", name="stdout", text=text)]


# name -> (source, stored outputs, whether this is a fault)
CELLS = {
    "the package": ("from attention_tutorial.widgets import AttentionSteps", [], False),
    "the folder is empty": ("import os\nprint(os.listdir(), os.environ['HOME'].startswith(HOME))",
                            printed("[] True\n"), False),
    "stale": ("print('one')", printed("two\n"), True),
    "digits that vary": ("print('measured \u2248 0.123')", printed("measured \u2248 0.456\n"), False),
    "progress": ("import sys\nprint('a bar', file=sys.stderr)", [], False),
    "a picture": ("display({'image/png': 'bmV3'}, raw=True)",
                  [new_output("display_data", data={"image/png": "b2xk"})], False),
    "a widget": ("AttentionSteps()", [new_output("execute_result", execution_count=1, data={
        "text/html": '<div data-widget="attention_steps">', "text/plain": "..."})], False),
    "no widget any more": ("None", [new_output("display_data", data={
        "text/html": '<div data-widget="attention_steps">'})], True),
}  # fmt: skip


@pytest.fixture(scope="module")
def faults(runtime, wheel, tmp_path_factory):
    """Run one notebook with all these cells, the package absent; return what is said, and what had moved afterwards."""
    code = [
        new_code_cell(source.replace("HOME)", f"{str(runtime.scratch)!r})"), id=f"cell-{number}", outputs=outputs)
        for number, (source, outputs, _) in enumerate(CELLS.values())
    ]
    path = tmp_path_factory.mktemp("book") / "01_chapter.ipynb"
    path.write_text(writes(new_notebook(cells=[new_markdown_cell("# A chapter"), *code])))
    reported = list(colab_run.chapter(runtime, path, ADDRESS, wheel))
    there = colab_run.installed(runtime.python)
    return reported, there, runtime.clean()


@pytest.mark.parametrize("number", range(len(CELLS)), ids=CELLS)
def test_what_differs_from_the_stored_results_is_found(faults, number):
    *_, wrong = list(CELLS.values())[number]
    assert any(f"cell cell-{number}" in fault.replace(":", " ") for fault in faults[0]) == wrong, faults[0]


def test_the_first_cell_installs_the_package_and_moves_nothing(faults, runtime):
    _, there, changed = faults
    assert there.keys() - runtime.before.keys() == {colab_run.PACKAGE}
    assert changed == []
    assert colab_run.installed(runtime.python) == runtime.before


def test_a_moved_version_is_found():
    old, new = {"torch": "2.11.0", "numpy": "2.1.3", "tqdm": "4.67.1"}, {"torch": "2.12.0", "numpy": "2.1.3"}
    assert colab_run.moved(old, new) == ["torch: 2.11.0 -> 2.12.0", "tqdm: 4.67.1 -> missing"]


def test_a_cell_that_fails_is_named(runtime, capsys):
    report = colab_run.Report()
    with report.part("a part"):
        colab_run.execute(runtime, new_notebook(cells=[new_code_cell("print(1)\n1 / 0")]))
    assert report.failures == 1
    printed = capsys.readouterr().out
    assert "FAILED" in printed and "ZeroDivisionError: division by zero" in printed and "\x1b" not in printed


# ---- Assignments -------------------------------------------------------------------------------------------------


def test_what_checks_say_of_an_assignment_s_answers_is_read():
    lines = [
        "merge: right on all inputs tried here.",
        "near: not filled in yet.",
        "step: not yet. The heads are scrambled.",
    ]
    notebook = new_notebook(cells=[new_code_cell("check(...)", outputs=printed(line + "\n")) for line in lines])
    assert list(colab_run.unexpected(notebook, "right")) == lines[1:]
    assert list(colab_run.unexpected(notebook, "not")) == lines[:1]
    assert list(colab_run.unexpected(new_notebook(), "right")) == ["no check said anything"]


# ---- Widgets, and no network -------------------------------------------------------------------------------------


def test_widgets_come_up_live_and_controls_answer(runtime, wheel):
    assert list(colab_run.probe(runtime, wheel, INSTALL)) == []
    assert runtime.clean() == []


def test_without_a_network_the_message_is_clear(runtime):
    seen, faults = colab_run.without_network(runtime, INSTALL)
    assert faults == [], seen


def test_without_the_installing_cell_the_message_is_missed(runtime):
    silent = new_code_cell("None")
    assert len(colab_run.without_network(runtime, silent)[1]) == 2


# ---- Versions ----------------------------------------------------------------------------------------------------

FREEZE = """# a comment
torch==2.9.0+cpu
Jinja2==3.1.6
jupyter_client==7.4.9
en_core_web_sm @ https://example.org/en_core_web_sm-3.8.0/en_core_web_sm-3.8.0-py3-none-any.whl#sha256=193
google-colab @ file:///colabtools/dist/google_colab-1.0.0.tar.gz
"""


def test_a_list_of_versions_is_read():
    names = ["torch", "jinja2", "jupyter-client", "en-core-web-sm", "google-colab"]
    assert colab_run.listed(FREEZE) == dict(zip(names, ["2.9.0", "3.1.6", "7.4.9", "3.8.0", "1.0.0"], strict=True))


def test_the_versions_that_are_kept_are_compared(tmp_path, capsys, monkeypatch):
    before = colab_run.VERSIONS.read_text(encoding="utf-8")
    file = tmp_path / "pip-freeze.txt"
    file.write_text(before + "a-newcomer==1.0\n")
    assert colab_run.main(["--compare", str(file)]) == 0
    file.write_text(before.replace("torch==2.11.0", "torch==2.12.0").replace("tqdm==4.67.1\n", ""))
    assert colab_run.main(["--compare", str(file)]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == ["torch: 2.11.0 -> 2.12.0", "tqdm: 4.67.1 -> missing"]
