"""`make notebooks`: the same code gives the same bytes, and a notebook that fails is left alone."""

import base64
import io
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from attention_tutorial.widgets.base import encode_floats
from tools import execution
from tools import notebooks as tool

SOURCES = [
    "import os, sys\nprint('a')\nsys.stdout.flush()\nprint('b')\nprint('c', file=sys.stderr)\nprint('d')",
    "print(os.environ['ATTENTION_TUTORIAL_DEVICE'], os.environ['ATTENTION_TUTORIAL_PROGRESS'], os.getcwd() == FOLDER)",
    "print({f'word {i}' for i in range(20)})",
    "from attention_tutorial.notebook import setup\n_ = setup()\n"
    "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(figsize=(1, 1))",
    "import json\njson.loads('{')",
]


@pytest.fixture
def chapter(tmp_path):
    """Write a notebook as an editor would leave it, and return its path."""
    code = [new_code_cell(source.replace("FOLDER", repr(str(tmp_path)))) for source in SOURCES]
    code[0].metadata = {"collapsed": True, "jupyter": {"source_hidden": True}, "tags": ["setup"]}
    code[3].metadata = {"attention_tutorial": {"figure": "square"}}
    code[4].metadata = {"tags": ["raises-exception"]}
    code[2].execution_count = 7
    notebook = new_notebook(cells=[new_markdown_cell("# A chapter"), *code], metadata={"jupytext": {}})
    path = tmp_path / "01_chapter.ipynb"
    path.write_text(execution.render(notebook), encoding="utf-8")
    return path


def run(path, *options):
    return tool.main([str(path), f"--images={path.parent / 'images'}", "--draft", *options])


def test_execution_is_deterministic_and_complete(chapter, monkeypatch, capsys):
    monkeypatch.setenv("ATTENTION_TUTORIAL_DEVICE", "nowhere")
    monkeypatch.setenv("ATTENTION_TUTORIAL_FIGURES", "rough")
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    ids = [cell.id for cell in tool.read(chapter).cells]
    assert run(chapter) == 0
    first = chapter.read_bytes()
    notebook = tool.read(chapter)
    code = notebook.cells[1:]
    assert [cell.id for cell in notebook.cells] == ids
    assert [cell.execution_count for cell in code] == [1, 2, 3, 4, 5]
    assert [(o.name, o.text) for o in code[0].outputs] == [("stdout", "a\nb\nd\n"), ("stderr", "c\n")]
    assert code[1].outputs[0].text == "cpu 0 True\n"
    assert set(code[3].outputs[0].data) == {"image/png", "image/svg+xml", "text/plain"}
    assert code[4].outputs[0].traceback == [f"JSONDecodeError: {code[4].outputs[0].evalue}"]
    assert code[0].metadata == {"tags": ["setup"]}
    assert notebook.metadata == execution.NOTEBOOK_METADATA
    assert (chapter.parent / "images" / "square.svg").read_text() == code[3].outputs[0].data["image/svg+xml"]

    assert run(chapter) == 0
    assert chapter.read_bytes() == first
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(", ")[-1] for line in lines] == ["updated", "unchanged"]
    assert sorted(file.name for file in chapter.parent.iterdir()) == ["01_chapter.ipynb", "images"]


@pytest.mark.parametrize(
    ("source", "reason"), [("1 / 0", "ZeroDivisionError: division by zero"), ("import os\nos._exit(1)", "died")]
)
def test_a_failing_notebook_is_left_as_it_was(chapter, capsys, source, reason):
    notebook = tool.read(chapter)
    notebook.cells = [notebook.cells[0], new_code_cell("print(1)"), new_code_cell(source)]
    chapter.write_text(execution.render(notebook), encoding="utf-8")
    before = chapter.read_bytes()
    assert run(chapter) == 1
    assert chapter.read_bytes() == before
    printed = capsys.readouterr().out
    assert "code cell 2" in printed
    assert f"    {source.splitlines()[-1]}" in printed
    assert reason in printed


@pytest.mark.parametrize("marked", [True, False])
def test_what_varies_by_nature_is_no_change(tmp_path, capsys, monkeypatch, marked):
    def execute(notebook, folder):
        """Leave what a cell would that measures a time and draws it."""
        now = str(len(times))
        times.append(now)
        claim = new_output("display_data", data={"text/plain": f"{notebook.cells[0].source} | measured ≈ {now}"},
                           metadata={"attention_tutorial_claim": {"measured": now}})  # fmt: skip
        picture = new_output("display_data", data={"image/svg+xml": now})
        notebook.cells[0].outputs = [claim, picture]

    def verdict(*options):
        before = path.read_bytes()
        run(path, *options)
        printed = capsys.readouterr().out.split(", ")[-1].strip()
        assert (path.read_bytes() == before) == (printed == "unchanged")
        return printed

    times, path = [], tmp_path / "01_times.ipynb"
    timed = {"attention_tutorial": {"figure": "times", "measures_time": True}} if marked else {}
    path.write_text(execution.render(new_notebook(cells=[new_code_cell("fast", metadata=timed)])), encoding="utf-8")
    monkeypatch.setattr(tool, "execute", execute)
    before = path.read_bytes()
    assert run(path, "--check") == 1 and path.read_bytes() == before, "--check writes nothing"
    assert capsys.readouterr().out.endswith(", differs from what is stored\n")
    assert verdict() == "updated"
    assert verdict() == ("unchanged" if marked else "updated")
    assert verdict("--force") == "updated"
    path.write_text(path.read_text(encoding="utf-8").replace('"fast"', '"slow"'), encoding="utf-8")
    assert verdict() == "updated"
    assert "slow | measured" in path.read_text(encoding="utf-8")


def test_ids_are_kept_or_made_from_content():
    def ids(cells):
        notebook = new_notebook()
        notebook.cells = cells  # new_notebook(cells=...) would repair them
        return [cell.id for cell in execution.normalise(notebook).cells]

    cells = [new_code_cell("1"), new_code_cell("1"), new_markdown_cell("1"), new_code_cell("2"), new_code_cell("3")]
    cells[0].id, cells[1].id, cells[3].id = "mine", "mine", "not valid"
    del cells[4]["id"]
    stored = ids(cells)
    assert stored[0] == "mine"
    assert stored[2] == cells[2].id
    assert len(set(stored)) == len(stored)
    assert all(execution.VALID_CELL_ID.fullmatch(cell_id) for cell_id in stored)
    assert ids(cells) == stored


def test_an_older_or_broken_file_is_read_without_repairs(tmp_path):
    path = tmp_path / "old.ipynb"
    cell = {"cell_type": "code", "source": ["1\n", "2"], "metadata": {}, "outputs": [], "execution_count": None}
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    notebook = tool.read(path)
    assert "id" not in notebook.cells[0]
    assert execution.normalise(notebook).nbformat_minor == 5
    assert execution.render(notebook) == execution.render(execution.normalise(tool.read(path)))


def test_a_named_figure_needs_one_picture():
    def drawn(name, pictures):
        outputs = [new_output("display_data", data={"image/svg+xml": "<svg/>"})] * pictures
        return new_code_cell(outputs=outputs, metadata={"attention_tutorial": {"figure": name}})

    assert tool.figures(new_notebook(cells=[drawn("a", 1), new_markdown_cell("b"), new_code_cell("1")])) == {
        "a": b"<svg/>"
    }
    for cells in ([drawn("a", 0)], [drawn("a", 2)], [drawn("a", 1), drawn("a", 1)]):
        with pytest.raises(ValueError, match="figure 'a' needs one cell with one picture"):
            tool.figures(new_notebook(cells=cells))


@pytest.mark.parametrize(("change", "asked"), [
    ({"image/png": "b2xk", "image/svg+xml": "<old/>"}, 0), ({"text/plain": "old"}, 1), ("source", 1),
])  # fmt: skip
def test_other_processors_are_asked_where_more_than_pictures_changed(tmp_path, monkeypatch, change, asked):
    data = {"image/png": "bmV3", "image/svg+xml": "<new/>", "text/plain": "new"}
    old = new_output("display_data", data=data | (change if isinstance(change, dict) else {}))
    path, calls = tmp_path / "01_chapter.ipynb", []
    path.write_text(execution.render(new_notebook(cells=[new_code_cell("draw()", outputs=[old], id="a")])))

    def execute(notebook, folder):
        notebook.cells[0].outputs = [new_output("display_data", data=data)]
        if change == "source":
            notebook.cells[0].source = "draw(again)"

    monkeypatch.setattr(tool, "execute", execute)
    assert tool.refresh(path, tmp_path, verify=lambda notebook, folder: calls.append(folder))
    assert tool.read(path).cells[0].outputs[0].data == data
    assert len(calls) == asked


def test_measured_floats_count_as_the_stored_ones_only_where_they_agree():
    def page(*numbers):
        return f"state: {encode_floats(numbers)}, {encode_floats([1.0])}."

    stored = page(0.25, 1e-3)
    assert execution.snap_floats(page(0.25 + 4e-7, 1e-3), stored) == stored
    for other in (page(0.2501, 1e-3), page(0.25), page(0.25, 1e-3).replace("state", "stale"), page(float("nan"), 1e-3)):
        assert execution.snap_floats(other, stored) == other


NUMBER = re.compile(r"-?\d+\.?\d*")


def drawing(points=50):
    """Return an SVG as matplotlib writes it."""
    ax = Figure(figsize=(4, 3)).subplots()
    ax.plot(np.linspace(0, 1, points), np.random.default_rng(0).normal(size=points), "o")
    ax.imshow([[0.1, 0.9]], extent=(0.2, 0.5, 0.1, 0.4), interpolation="none")
    ax.set(title="a title", ylabel="$x_1$", xlim=(0, 1), ylim=(-4, 4))
    written = io.StringIO()
    ax.figure.savefig(written, format="svg")
    return written.getvalue()


def parts(svg):
    """Yield each element of an SVG that draws, with the names of its attributes, and the numbers in them."""
    for element in ElementTree.fromstring(svg).iter():
        if "www.w3.org/2000/svg" in element.tag and not element.tag.endswith("metadata"):
            said = {name: value for name, value in element.attrib.items() if not name.endswith(("id", "href"))}
            yield element.tag, set(said), [float(number) for value in said.values() for number in NUMBER.findall(value)]


def test_a_stored_drawing_is_light_and_nothing_in_it_has_moved():
    whole = drawing()
    light = execution.lighter(whole)
    assert len(light) < 0.9 * len(whole) and len(light.splitlines()) == 1
    assert not re.search(r"<!|metadata|<dc:date", light)
    assert set(re.findall(r"(?:href=\"|url\()#([^)\"]+)", light)) <= set(re.findall(r' id="([^"]*)"', light))
    for (tag, names, numbers), (kept, kept_names, kept_numbers) in zip(parts(whole), parts(light), strict=True):
        assert (tag, names) == (kept, kept_names)
        np.testing.assert_allclose(kept_numbers, numbers, atol=0.0101)
    assert re.findall(r"scale\([^)]*\)|matrix\([^)]*\)", light) == re.findall(r"scale\([^)]*\)|matrix\([^)]*\)", whole)


def test_a_stored_picture_is_light_and_looks_the_same():
    written = io.BytesIO()
    ax = Figure(figsize=(5, 4), dpi=120).subplots()
    ax.imshow(np.linspace(0, 1, 600).reshape(20, 30), cmap="Blues", aspect="auto")
    ax.text(5, 5, "a number of letters", color="navy")
    ax.figure.savefig(written, format="png")
    whole = base64.b64encode(written.getvalue()).decode()
    light = execution.packed(whole)
    assert len(light) < 0.6 * len(whole) and execution.packed(light) == light
    before, after = (
        np.asarray(Image.open(io.BytesIO(base64.b64decode(each))).convert("RGB"), dtype=int) for each in (whole, light)
    )
    off = np.abs(before - after)
    assert off.max() <= 64 and off.mean() <= 1


@pytest.mark.parametrize(("points", "stays"), [(50, True), (9_000, False)])
def test_a_drawing_of_too_many_points_is_left_to_its_pixels(points, stays):
    data = {"image/png": "aGk=", "image/svg+xml": drawing(points)}
    cell = new_code_cell("draw()", outputs=[new_output("display_data", data=data)])
    (cell,) = execution.normalise(new_notebook(cells=[cell])).cells
    assert ("image/svg+xml" in cell.outputs[0].data) == stays and "image/png" in cell.outputs[0].data
