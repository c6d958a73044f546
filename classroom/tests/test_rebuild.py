"""However a file was mangled, the student's answers come back on the student's own release, or a reason why not."""

import copy
import gzip
import io
import json
import zipfile

import nbformat
import pytest
import toy
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell
from toy import DOUBLE, TEXT, WEIGH, kinds, named, submission, written

from attention_classroom.assignment import Variant
from attention_classroom.rebuild import CELLS, Unreadable, add_modules, is_common, read, rebuild


def laid(received):
    return rebuild(read(received if isinstance(received, bytes) else written(received)), toy.release())


def answers(notebook):
    return [named(notebook, name).source for name in ("weigh", "double", "why")]


def code(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def remove(*names):
    def change(notebook):
        notebook.cells = [cell for cell in notebook.cells if cell.id not in names]

    return change


def strip_metadata(notebook):
    for cell in notebook.cells:
        cell.metadata.clear()
    notebook.metadata.clear()


def new_ids(notebook):
    for i, cell in enumerate(notebook.cells):
        cell.id = f"fresh{i}"


def as_an_old_jupyter(notebook):
    notebook.nbformat_minor = 4
    for cell in notebook.cells:
        del cell["id"]


def as_colab(notebook):
    """No ids but in the metadata, sources as lists of lines."""
    notebook.nbformat_minor = 0
    for cell in notebook.cells:
        cell.metadata["id"] = cell.pop("id")
        cell.source = cell.source.splitlines(keepends=True)


def strip_all(notebook):
    strip_metadata(notebook)
    new_ids(notebook)


def rename(name, to):
    def change(notebook):
        named(notebook, name).metadata["nbgrader"]["grade_id"] = to

    return change


def split(notebook):
    at = notebook.cells.index(named(notebook, "weigh"))
    notebook.cells[at].source = "def scale(k):\n    return math.sqrt(k.size(-1))"
    notebook.cells.insert(at + 1, new_code_cell("def weigh(q, k):\n    return (q @ k.T / scale(k)).softmax(-1)"))


def duplicate(source, *, first=False):
    def change(notebook):
        at = notebook.cells.index(named(notebook, "weigh"))
        other = copy.deepcopy(notebook.cells[at])
        other.id, other.source = "copy", source
        notebook.cells.insert(at if first else at + 1, other)

    return change


def upside_down(notebook):
    notebook.cells.reverse()


def dos(notebook):
    for cell in notebook.cells:
        cell.source = cell.source.replace("\n", " \r\n") + "\r\n"


def test_an_honest_notebook_comes_back_with_nothing_to_say():
    notebook, flags = laid(submission())
    assert flags == [] and answers(notebook) == [WEIGH, DOUBLE, TEXT]
    assert [cell.id for cell in notebook.cells] == [cell.id for cell in toy.release().cells]
    nbformat.validate(notebook)


@pytest.mark.parametrize(
    ("change", "flagged"),
    [
        (as_an_old_jupyter, set()),
        (as_colab, set()),
        (new_ids, set()),
        (strip_metadata, set()),
        (strip_all, {"ids", "guessed"}),
        (upside_down, set()),
        (dos, set()),
        (rename("weigh", "something"), set()),
        (remove("weigh-check", "double-check"), {"tampered"}),
        (remove("setup"), {"tampered"}),
        (remove("title", "weigh-task"), set()),
        (duplicate(WEIGH), {"duplicate"}),
        (duplicate(toy.STUBS["weigh"]), {"duplicate"}),
        (duplicate(toy.STUBS["weigh"], first=True), {"duplicate"}),
        (lambda nb: nb.cells.append(new_markdown_cell("   ")), set()),
        (lambda nb: nb.pop("metadata"), set()),
    ],
)
def test_accidents_leave_the_answers_where_they_belong(change, flagged):
    notebook, flags = laid(toy.changed(change))
    assert kinds(flags) == flagged
    assert [x.rstrip() for x in answers(notebook)] == [
        x.replace("\n", " \n") if change is dos else x for x in (WEIGH, DOUBLE, TEXT)
    ]
    assert len(notebook.cells) == len(toy.release().cells)


def test_a_picture_that_was_pasted_into_an_answer_is_flagged():
    """As Jupyter stores it, and as Colab does: megabytes in the text, which are no reason not to read a notebook."""
    pasted = "see ![x](data:image/png;base64," + "A" * 3_000_000 + ") here"
    for source, attachments in (("see ![x](attachment:x.png)", {"x.png": {"image/png": "AA"}}), (pasted, {})):
        notebook = submission(why=source)
        toy.named(notebook, "why")["attachments"] = attachments
        rebuilt, flags = laid(notebook)
        assert [(flag["kind"], flag["task"]) for flag in flags] == [("picture", "why")]
        assert "see" in answers(rebuilt)[2] and len(answers(rebuilt)[2]) < 100


def test_of_several_answers_the_last_above_the_check_counts_and_all_run_where_they_stand():
    other = "def weigh(q, k):\n    return 1"

    def below(notebook):
        notebook.cells.append(new_code_cell(other, metadata=named(notebook, "weigh").metadata))

    for change, after in ((duplicate(other, first=True), WEIGH), (below, 'check("double", double)')):
        notebook, flags = laid(toy.changed(change))
        assert kinds(flags) == {"duplicate"} and named(notebook, "weigh").source == WEIGH
        there = code(notebook)
        assert there.index(other) == (there.index(after) + 1 if change is below else there.index(after) - 1)


def test_of_several_written_answers_none_is_lost():
    def twice(notebook):
        notebook.cells.append(copy.deepcopy(named(notebook, "why")))
        notebook.cells[-1].update(id="copy", source="And more.")

    notebook, flags = laid(toy.changed(twice))
    assert kinds(flags) == {"duplicate"} and named(notebook, "why").source == f"{TEXT}\n\nAnd more."


def test_a_split_answer_stays_whole():
    notebook, flags = laid(toy.changed(split))
    assert flags == [] and "def scale" in named(notebook, "weigh").source
    at = [cell.id for cell in notebook.cells].index("weigh")
    assert "scale(k)" in notebook.cells[at + 1].source and notebook.cells[at + 1].id == "extra-1"


def test_a_deleted_answer_is_flagged_and_no_stub_stands_in_its_place():
    notebook, flags = laid(toy.changed(remove("weigh")))
    assert [(flag["kind"], flag["task"]) for flag in flags] == [("missing", "weigh")]
    assert named(notebook, "weigh").source == ""


def test_a_text_that_lost_its_ids_is_found_by_its_place_and_said_to_be_a_guess():
    notebook, flags = laid(toy.changed(strip_all, why="Anything at all."))
    assert named(notebook, "why").source == "Anything at all." and "guessed" in kinds(flags)


def beside(*sources, code=False):
    """Leave the written answer as it was handed out, and write it in cells of one's own."""

    def change(notebook):
        make = new_code_cell if code else new_markdown_cell
        notebook.cells += [make(source) for source in sources]

    return change


def test_an_answer_in_a_cell_of_its_own_beside_the_one_for_it_is_found():
    """Else nbgrader takes the cell for empty and gives it 0, and nobody would look."""
    notebook, flags = laid(toy.changed(beside("Because", "it grows."), why=toy.STUBS["why"]))
    assert named(notebook, "why").source == "Because\n\nit grows." and len(notebook.cells) == len(toy.release().cells)
    assert [(flag["kind"], flag["task"]) for flag in flags] == [("guessed", "why")]
    for change, why in ((beside("x = 1", code=True), toy.STUBS["why"]), (beside("More."), TEXT), (beside(), "")):
        notebook, flags = laid(toy.changed(change, why=why))
        assert flags == [] and named(notebook, "why").source == why


LONG = "It grows because each of the products in a score adds as much to the variance of it."
COMMENTS = f"x = 1\n# {LONG}"


def at_the_top(cell):
    return lambda notebook: notebook.cells.insert(0, cell)


def into(name, source, where="{old}\n{new}"):
    def change(notebook):
        cell = named(notebook, name)
        cell.source = where.format(old=cell.source, new=source)

    return change


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (at_the_top(new_markdown_cell("Because it grows.")), "extra-1"),
        (at_the_top(new_raw_cell("Because it grows.")), "extra-1"),
        (at_the_top(new_code_cell(LONG)), "extra-1"),
        (at_the_top(new_code_cell(f"print('{LONG}')")), "extra-1"),
        (beside(COMMENTS, code=True), "extra-1"),
        (into("why-task", "Because it grows."), "extra-1"),
        (into("double-check", f"# {LONG}"), "extra-1"),
        (into("double", f"# {LONG}"), "double"),
    ],
)
def test_a_written_answer_in_another_cell_kind_or_place_is_looked_for(change, place):
    """It cannot be told what is one: where the cell for it is empty, a person is told where to look."""
    _, flags = laid(toy.changed(change, why=toy.STUBS["why"]))
    (flag,) = (flag for flag in flags if flag["kind"] == "guessed")
    assert flag["task"] == "why" and flag["words"].endswith(f"stands in {place}")
    assert "guessed" not in kinds(laid(toy.changed(change))[1]), "there is nothing to look for"


@pytest.mark.parametrize(
    "cell",
    [
        new_code_cell("torch.ones(3)  # a try"),
        new_code_cell("w = '" + "4ax(b&" * 99 + "'"),
        new_markdown_cell("# My tries"),
        None,
    ],
)
def test_an_answer_that_was_left_out_is_not_looked_for_in_cells_that_say_nothing(cell):
    change = at_the_top(cell) if cell else lambda notebook: None
    assert laid(toy.changed(change, why=toy.STUBS["why"]))[1] == []


def test_a_figure_in_another_cell_is_looked_for():
    notebook = toy.release()
    figure = copy.deepcopy(named(notebook, "double"))
    figure.id = figure.metadata["nbgrader"]["grade_id"] = "double-plot"
    figure.metadata["nbgrader"] |= {"grade": True, "points": 1}
    figure.source = "# YOUR CODE HERE\n..."
    notebook.cells.append(figure)
    draws = "plt.plot([1, 2])"
    for change in (at_the_top(new_code_cell(draws)), into("double", draws), into("setup", draws), into("title", "")):
        received = copy.deepcopy(notebook)
        change(received)
        named(received, "why").source = TEXT
        flags = rebuild(read(written(received)), notebook)[1]
        looked = [flag["task"] for flag in flags if flag["kind"] == "guessed"]
        assert looked == ["double"] * (draws in str(received.cells))


FENCED = f"```python\n{WEIGH}\n```"


@pytest.mark.parametrize(
    ("change", "flagged", "runs"),
    [
        (into("visible-checks", "import einops"), {"tampered"}, ["import einops"]),
        (into("visible-checks", "import einops", "{new}\n{old}"), {"tampered"}, ["import einops"]),
        (into("weigh-check", WEIGH, "{new}\n{old}"), {"tampered"}, [WEIGH]),
        (into("setup", WEIGH), {"tampered", "guessed"}, [WEIGH]),
        (at_the_top(new_code_cell(WEIGH)), {"guessed"}, [WEIGH]),
        (at_the_top(new_markdown_cell(FENCED)), {"guessed"}, [WEIGH]),
        (at_the_top(new_code_cell("weigh_it = 1")), set(), ["weigh_it = 1"]),
    ],
)
def test_code_in_a_cell_that_is_not_for_it_runs(change, flagged, runs):
    """And where the cell for it was left as it is, what stands above is taken; `grading` looks at what stands below."""
    notebook, flags = laid(toy.changed(change, weigh=toy.STUBS["weigh"]))
    assert kinds(flags) == flagged
    assert all(any(source in cell for cell in code(notebook)) for source in runs)
    assert named(notebook, "weigh").source.endswith(WEIGH) == ("guessed" in flagged)


def test_an_answer_that_was_merged_with_the_locked_cell_below_it_runs():
    def merge(notebook):
        into("weigh-check", named(notebook, "weigh").source, "{new}\n\n{old}")(notebook)
        remove("weigh")(notebook)

    notebook, flags = laid(toy.changed(merge))
    assert kinds(flags) == {"missing", "tampered"} and WEIGH in [source.strip() for source in code(notebook)]


def test_what_was_added_to_a_cell_of_ones_own_numbers_runs_and_anothers_numbers_do_not():
    def release(number):
        notebook = toy.release(Variant("toy", "bob", {"number": number}))
        cell = new_code_cell(f"number = {number}")
        cell.id, cell.metadata = "numbers", {"tags": ["variant"], "nbgrader": {"grade_id": "numbers"}}
        notebook.cells.insert(3, cell)
        return notebook

    for number, kept in ((8, True), (9, False)):
        received = release(number)
        into("numbers", "import einops")(received)
        notebook, flags = rebuild(read(written(received)), release(8))
        assert any("einops" in source for source in code(notebook)) == kept
        assert kinds(flags) == {"variant"} and "number = 9" not in code(notebook)


def test_modules_that_were_handed_in_beside_are_written_first():
    notebook, _ = laid(submission())
    add_modules(notebook, {"helper.py": "\ufeffK = 'ä'\r\n".encode()})
    assert notebook.cells[0].source == "%%writefile helper.py\nK = 'ä'\n"
    nbformat.validate(notebook)
    assert laid(notebook)[0].cells[0].source == notebook.cells[0].source


def test_the_notebook_for_everybody_is_known_by_its_mark_or_by_what_varies():
    common = toy.release(Variant("toy", "", {"number": 8}))
    another = toy.release(Variant("toy", "bob", {"number": 9}))
    for handed_in, is_it in ((common, True), (submission(), False), (another, False)):
        for change in (lambda nb: None, as_colab, lambda nb: nb.metadata.clear(), strip_all):
            notebook = copy.deepcopy(handed_in)
            change(notebook)
            assert is_common(read(written(notebook)), toy.release(), lambda: common) is is_it


def test_locked_cells_are_those_of_the_release_and_what_stood_there_is_not_lost():
    def change(notebook):
        named(notebook, "weigh-check").source = "check = print"
        named(notebook, "setup").source += "\nimport random"
        named(notebook, "weigh-task").source += " I wrote here."

    notebook, flags = laid(toy.changed(change))
    assert kinds(flags) == {"tampered", "edited"}
    for name in ("weigh-check", "setup", "weigh-task"):
        assert named(notebook, name).source == named(toy.release(), name).source
    added = [cell.source for cell in notebook.cells if cell.id.startswith("extra")]
    assert any("import random" in source for source in added) and any("I wrote here" in source for source in added)
    assert code(notebook).index("check = print") > code(notebook).index('check("weigh", weigh)')


def test_added_cells_have_no_rights_and_stay_in_place():
    def change(notebook):
        cell = new_code_cell("helper = 1")
        cell.metadata["nbgrader"] = {"grade_id": "invented", "grade": True, "points": 100, "solution": False}
        cell.metadata["tags"] = ["not-when-graded"]
        notebook.cells.insert(3, cell)

    notebook, flags = laid(toy.changed(change))
    assert flags == [] and notebook.cells[3].source == "helper = 1"
    assert notebook.cells[3].metadata == {"attention_tutorial": {"extra": True}}


def test_another_students_variant_is_flagged():
    other = Variant("toy", "bob", {"number": 8})
    _, flags = laid(submission(variant=other))
    assert kinds(flags) == {"variant"} and "another student's" in flags[0]["words"]
    stripped = submission(variant=other)
    stripped.metadata.clear()
    notebook, flags = laid(stripped)
    assert kinds(flags) == {"variant"} and "yours" in flags[0]["words"]
    assert "7" in named(notebook, "yours").source


def test_outputs_and_metadata_of_what_was_handed_in_are_left_behind():
    notebook = submission()
    named(notebook, "weigh").outputs = [{"output_type": "stream", "name": "stdout", "text": "<script>"}]
    named(notebook, "weigh").metadata["evil"] = "<script>"
    named(notebook, "weigh").metadata["nbgrader"]["points"] = 1000
    notebook.metadata["kernelspec"] = {"name": "evil", "display_name": "evil"}
    rebuilt, _ = laid(notebook)
    assert (
        "<script>" not in json.dumps(rebuilt)
        and "evil" not in json.dumps(rebuilt)
        and "1000" not in json.dumps(rebuilt)
    )


def zipped():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("toy.ipynb", written(submission()))
    return file.getvalue()


UNREADABLE = {
    "empty": (b"", "empty"),
    "blank": (b" \n\n", "empty"),
    "half": (written(submission())[:500], "broken"),
    "program": (b"import torch\n\ndef weigh(q, k): ...\n", "no notebook"),
    "zip": (zipped(), "zip"),
    "gzip": (gzip.compress(b"x"), "packed"),
    "pdf": (b"%PDF-1.7 ...", "PDF"),
    "page": (b"<!doctype html><title>Sign in</title>", "web page"),
    "bytes": (bytes(range(128, 256)), "no text"),
    "list": (b"[1, 2]", "no notebook"),
    "number": (b"1", "no notebook"),
    "object": (b'{"a": 1}', "no cells"),
    "cells": (b'{"cells": {"a": 1}}', "no cells"),
    "deep": (b'{"cells": ' + b"[" * 200_000, "nested"),
    "no cells": (b'{"cells": []}', "it has no cells"),
    "other": (json.dumps({"cells": [{"cell_type": "code", "source": "x = 1"}]}).encode(), "none of its answers"),
    "many": (json.dumps({"cells": [{"cell_type": "code", "source": "x"}] * (CELLS + 1)}).encode(), "more than"),
    "lists": (b'{"cells": [' + b"[]," * 600_000 + b"[]]}", "more than 1000000 lists"),
    "large": (b"{" + b" " * (21 << 20), "21 MB; at most 20 are read"),
    "long": (json.dumps({"cells": [{"cell_type": "code", "source": "x" * 3_000_000}]}).encode(), "more than"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_notebook_is_refused_with_a_reason(name):
    received, words = UNREADABLE[name]
    with pytest.raises(Unreadable, match=words):
        rebuild(read(received), toy.release())


def test_the_notebook_of_another_assignment_is_refused_by_its_name():
    notebook = submission("def other(q):\n    return q", "def another(q):\n    return 2 * q")
    notebook.metadata["attention_tutorial"]["assignment"] = "masking"
    for cell in notebook.cells:
        if cell.id in ("weigh", "double", "why"):
            cell.id, cell.metadata = f"other-{cell.id}", {}
    with pytest.raises(Unreadable, match="notebook of 'masking'"):
        laid(notebook)
    notebook.cells.append(new_code_cell(WEIGH))
    assert "variant" in kinds(laid(notebook)[1])  # here an answer is of this assignment


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_other_encodings_are_read(encoding):
    received = json.dumps(submission(why="Größer."), ensure_ascii=False).encode(encoding)
    notebook, flags = laid(received)
    assert kinds(flags) == ({"edited"} if encoding == "cp1252" else set())
    assert answers(notebook) == [WEIGH, DOUBLE, "Größer."]


@pytest.mark.parametrize(
    "cell",
    [
        None,
        1,
        {},
        {"cell_type": 3, "source": 4, "metadata": 5, "id": 6},
        {"cell_type": "code", "source": ["x = 1", 2], "metadata": {"nbgrader": []}},
        {"cell_type": "code", "source": "\0 \ud800", "metadata": {"nbgrader": {"grade_id": ["weigh"]}}},
        {"cell_type": "weird", "source": "text", "id": {"a": 1}, "outputs": 3},
    ],
)
def test_cells_of_any_shape_are_survived(cell):
    notebook = json.loads(written(submission()))
    notebook["cells"].insert(2, cell)
    rebuilt, _ = laid(json.dumps(notebook).encode())
    assert answers(rebuilt) == [WEIGH, DOUBLE, TEXT]
    nbformat.validate(rebuilt)
    nbformat.writes(rebuilt).encode()


@pytest.mark.parametrize(
    "change", [split, strip_all, duplicate("def weigh(q, k):\n    return 1", first=True), upside_down]
)
def test_rebuilding_what_was_rebuilt_changes_nothing(change):
    once, _ = laid(toy.changed(change))
    twice, _ = laid(once)
    assert once == twice


def test_the_release_itself_is_not_changed():
    release = toy.release()
    before = copy.deepcopy(release)
    rebuild(read(written(submission())), release)
    assert release == before
