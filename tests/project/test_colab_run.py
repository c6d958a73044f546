"""The trial run for Colab, in small: it finds what it is for. `make test-colab` does all of it with Colab's versions.

The interpreter is one of an environment like that of the tests, less the package. Nothing is downloaded.
"""

import contextlib

from clean_environment import build, make_environment
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, writes

from tools import colab, colab_run
from tools.book import chapters


def printed(text):
    return [new_output("stream", name="stdout", text=text)]


WIDGET = {"text/html": '<div data-widget="attention_steps">', "text/plain": "..."}
# name -> (source, stored outputs, whether this is a fault)
CELLS = {
    "the package": ("from attention_tutorial.widgets import AttentionSteps", [], False),
    "the folder is empty": ("import os\nprint(os.listdir())", printed("[]\n"), False),
    "the home is new": ("print('colab-' in os.environ['HOME'])", printed("True\n"), False),
    "stale": ("print('one')", printed("two\n"), True),
    "digits that vary": ("print('measured \u2248 0.123')", printed("measured \u2248 0.456\n"), False),
    "progress": ("import sys\nprint('a bar', file=sys.stderr)", [], False),
    "a picture": ("display({'image/png': 'bmV3'}, raw=True)",
                  [new_output("display_data", data={"image/png": "b2xk"})], False),
    "a widget": ("AttentionSteps()", [new_output("execute_result", execution_count=1, data=WIDGET)], False),
    "no widget any more": ("None", [new_output("display_data", data=WIDGET)], True),
}  # fmt: skip


def test_what_differs_is_found_and_the_first_cell_moves_nothing_but_the_package(tmp_path):
    python = make_environment(tmp_path / "environment")
    wheel = build(tmp_path / "published", "--wheel")[".whl"]
    before = colab_run.installed(python)
    cells = [new_code_cell(source, id=f"cell-{number}", outputs=outputs)
             for number, (source, outputs, _) in enumerate(CELLS.values())]  # fmt: skip
    path = tmp_path / "01_chapter.ipynb"
    path.write_text(writes(new_notebook(cells=[new_markdown_cell("# A chapter"), *cells])))
    faults = list(colab_run.chapter(path, colab.Address.read(), python, str(wheel)))
    for number, (name, (*_, wrong)) in enumerate(CELLS.items()):
        assert any(f"cell cell-{number} " in f"{fault} ".replace(":", " ") for fault in faults) == wrong, (name, faults)
    there = colab_run.installed(python)
    assert there.keys() - before.keys() == {colab_run.PACKAGE}
    old = before | {"torch": "2.0"}
    assert list(colab_run.take_away(python, old)) == [f"torch was 2.0 and is {before['torch']}"]
    assert colab_run.installed(python) == before


def test_a_cell_that_fails_is_said_without_colours(monkeypatch, capsys):
    def fails(*_):
        raise CellExecutionError("\x1b[31mdivision by zero\x1b[0m", "ZeroDivisionError", "")

    monkeypatch.setattr(colab_run, "sources", lambda *_: contextlib.nullcontext({"wheel": ""}))
    monkeypatch.setattr(colab_run, "installed", lambda _: {})
    monkeypatch.setattr(colab_run, "take_away", lambda *_: [])
    monkeypatch.setattr(colab_run, "execute", fails)
    assert colab_run.main([str(next(iter(chapters())))]) == 1
    said = capsys.readouterr().out
    assert "from wheel: FAILED" in said and "division by zero" in said and "\x1b" not in said
