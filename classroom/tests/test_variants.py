"""Laws of variants: drawn from secret and student alone, and hardly ever the same."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from masters import ALL, FOLDER, SECRET, assignment, master, tasks, variant

from attention_classroom import load, variant_for
from attention_classroom.assignment import TAG, TEMPLATE_SECRET, fill, plain_variant

CLASS = [f"student-{number}" for number in range(100)]


def shown(name, student):
    return tuple(sorted(assignment(name).cells(variant_for(assignment(name), student, SECRET)).items()))


@pytest.mark.parametrize("name", ALL)
def test_hardly_any_two_of_a_hundred_students_share_a_variant(name):
    """In what they see: the hidden numbers differ anyway."""
    assert len({shown(name, student) for student in CLASS}) >= 99


@pytest.mark.parametrize("name", ALL)
def test_a_variant_follows_from_secret_student_and_assignment(name):
    about = assignment(name)
    first = variant_for(about, "ada", SECRET)
    assert first == variant_for(about, "ada", SECRET)
    assert first.values != variant_for(about, "bob", SECRET).values
    assert first.values != variant_for(about, "ada", b"another").values
    assert first.values != variant_for(replace(about, name="other"), "ada", SECRET).values
    assert plain_variant(about) == variant_for(about, "", TEMPLATE_SECRET)


def test_a_variant_is_the_same_in_every_process_and_on_every_machine():
    code = (
        "from pathlib import Path; from attention_classroom import load, variant_for;"
        f"paths = sorted(Path({str(FOLDER / 'hidden')!r}).glob('*.py'));"
        "print(*[variant_for(load(path), 'ada', b'secret').mark for path in paths])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "2"}  # so that sets have another order
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == [variant_for(assignment(name), "ada", b"secret").mark for name in ALL]
    drawn = variant_for(replace(assignment("masking"), draw=lambda rng: {"x": rng.random()}), "ada", b"secret")
    assert drawn["x"] == 0.9548639639871911  # CPython promises that a seeded random() stays


@pytest.mark.parametrize("name", ALL)
def test_every_bug_and_every_choice_is_drawn(name):
    """Each choice occurs, and none in more than its share and a half again."""
    drawn = [variant_for(assignment(name), f"student-{number}", SECRET).values for number in range(600)]
    for key in drawn[0]:
        counts = Counter(json.dumps(values[key]) for values in drawn)
        if len(counts) <= 6:
            assert len(counts) >= 2 and max(counts.values()) <= 1.5 * len(drawn) / len(counts), (key, counts)


@pytest.mark.parametrize("name", ALL)
def test_all_variants_have_the_same_tasks_and_points(name):
    def outline(student):
        return [
            (task.id, task.kind, task.points, task.by_hand, [check.points for check in task.checks])
            for task in tasks(name, student).values()
        ]

    assert all(outline(student) == outline("") for student in CLASS[:8])


def test_a_mark_is_that_of_the_values():
    first = variant("scaling", "ada")
    assert first.mark == replace(first, student="another").mark != variant("scaling", "bob").mark
    assert len(first.mark) == 12 and set(first.mark) <= set("0123456789abcdef")


@pytest.mark.parametrize("name", ALL)
def test_no_hidden_number_can_be_searched_for_by_the_mark(name):
    first = variant(name, "ada")
    assert first.mark == replace(first, values={**first.values, "hidden": 1}).mark
    assert {key for key in first.values if key.startswith("hidden")} == {"hidden"}


# ---- Faults ----------------------------------------------------------------------------------------------------------


def test_only_plain_data_can_be_drawn():
    for wrong in ({"x": {1, 2}}, {"x": float("nan")}, {"x": object()}):
        with pytest.raises(TypeError, match="draw of masking must return plain data"):
            variant_for(replace(assignment("masking"), draw=lambda rng, wrong=wrong: wrong), "ada", SECRET)


def test_the_secret_is_bytes():
    with pytest.raises(TypeError, match="secret must be bytes; got str"):
        variant_for(assignment("masking"), "ada", "secret")


def test_cells_must_be_those_that_are_marked():
    about = assignment("masking")
    notebook = master("masking")
    next(cell for cell in notebook.cells if cell.id == "leaked-data").metadata.tags.remove(TAG)
    with pytest.raises(ValueError, match="masking: the cells tagged variant must be those that `cells` fills"):
        fill(notebook, about, variant("masking"))


def test_filling_leaves_the_master_alone():
    notebook = master("masking")
    filled = fill(notebook, assignment("masking"), variant("masking", "ada"))
    assert notebook == master("masking") != filled


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no assignment at"),
        ("1 / 0", "broken.py cannot be loaded: ZeroDivisionError: division by zero"),
        ("x = 1", "broken.py must set ASSIGNMENT to an Assignment; got NoneType"),
        ("{masking}", "broken.py holds the assignment 'masking'; file and name must be the same"),
    ],
)
def test_a_file_that_holds_no_assignment_is_refused(text, words, tmp_path):
    path = tmp_path / "broken.py"
    if text is not None:
        path.write_text(text.format(masking=(FOLDER / "hidden" / "masking.py").read_text()) if "{" in text else text)
    with pytest.raises(FileNotFoundError if text is None else ValueError, match=words):
        load(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "essay"}, "kind must be one of code, debug, measure, written; got 'essay'"),
        ({"table": None}, "what is judged needs a table and checks"),
        ({"checks": ()}, "what is judged needs a table and checks"),
        ({"kind": "written"}, "a written answer is marked by hand"),
    ],
)
def test_a_task_that_does_not_add_up_is_refused(change, words):
    with pytest.raises(ValueError, match=f"task leaked: {words}"):
        replace(tasks("masking")["leaked"], **change)


def test_drawing_leaves_the_common_generator_alone():
    random.seed(1)
    before = random.getstate()
    variant("masking", "ada")
    assert random.getstate() == before
