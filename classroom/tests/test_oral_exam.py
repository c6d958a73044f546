"""A sheet asks what its student's variant says, and its answers stand apart."""

import re
from pathlib import Path

import nbformat
import pytest
from tiny_course import NAME, hand_in, make_course, solved, variant

from attention_classroom.assignment import load, variant_for
from attention_classroom.course import CourseError
from attention_classroom.oral_exam import _other, formula, questions, sheets
from attention_classroom.release import answers

MASTERS = Path(__file__).parents[1] / "masters"
SECRET = b"0" * 40


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    course = make_course(tmp_path_factory.mktemp("course") / "c")
    hand_in(course, "s2", solved(course, "s2", times="def times(x):\n    <b>mine</b> = x + FACTOR\n    return x"))
    return course


def text_of(path):
    return path.read_text(encoding="utf-8")


def test_a_sheet_asks_with_numbers_of_its_own_and_the_answers_are_right(course):
    folder = sheets(course, NAME, ["s1", "s2"])
    asked, answered = text_of(folder / "sheets.html"), text_of(folder / "answers.html")
    for part, told, student in zip(
        asked.split("<section")[1:], answered.split("<tr><td")[1:], ["s1", "s2"], strict=True
    ):
        factor = int(re.search(r"returns (\d+) times a number", part)[1])
        assert factor != variant(course, student)["factor"], "homework asked that"
        x = int(re.search(r"<code>x</code><p>(\d+)</p>", part)[1])
        assert f"</strong> {x * factor}" in told
    assert "Last2" in asked and "break-before: page" in asked


def test_a_sheet_asks_about_a_line_of_ones_own_and_shows_it_harmless(course):
    asked = text_of(sheets(course, NAME, ["s2"]) / "sheets.html")
    assert "A line of your own" in asked
    assert "&lt;b&gt;mine&lt;/b&gt; = x +" in asked
    assert "A line of your own" not in text_of(sheets(course, NAME, ["s1"]) / "sheets.html"), "nothing handed in yet"


def test_a_sheet_asks_about_two_lines_of_ones_own(course):
    lines = "\n".join(f"    y{i} = x + FACTOR * {i}" for i in range(5))
    hand_in(course, "s3", solved(course, "s3", times=f"def times(x):\n{lines}\n    return y0"))
    assert text_of(sheets(course, NAME, ["s3"]) / "sheets.html").count("has this line") == 2


def test_the_same_sheet_is_drawn_every_time(course):
    assert text_of(sheets(course, NAME, ["s1"]) / "sheets.html") == text_of(
        sheets(course, NAME, ["s1"]) / "sheets.html"
    )


def test_a_student_who_is_not_listed_is_named(course):
    with pytest.raises(CourseError, match="got 'nobody'"):
        sheets(course, NAME, ["nobody"])


@pytest.mark.parametrize("name", sorted(path.stem for path in (MASTERS / "hidden").glob("*.py")))
def test_every_assignment_has_a_sheet_without_its_solutions(name):
    student = "s1"
    assignment = load(MASTERS / "hidden" / f"{name}.py")
    master = nbformat.read(MASTERS / "source" / name / f"{name}.ipynb", as_version=4)
    drawn = questions(master, assignment, student, SECRET)
    assert name == "project" or 2 <= len(drawn) <= 3, "ten minutes"
    if name == "masking":
        solution = answers(master, assignment, variant_for(assignment, student, SECRET))
        of_their_own = questions(master, assignment, student, SECRET, solution)
        assert len(drawn) == 3 and len(of_their_own) == 4, "one to compute, one to repair, two lines"
    for question in drawn:
        text = re.sub(r"<pre.*?</pre>|<code>.*?</code>|aria-label=\".*?\"", "", question.asks, flags=re.DOTALL)
        assert not re.search(r"\\|\$|\*\*|\bWrite\b|-0</td>", text), text
        assert question.answer not in question.asks
        assert len(re.findall("<td>", question.asks)) <= 40, "small enough to be computed by hand"
        if "Compute" in question.asks:
            assert question.answer.count("<br>") >= 1, "it tells a wrong answer from the right one"
    for cell in master.cells:
        if cell.cell_type == "markdown" and cell.metadata.get("nbgrader", {}).get("solution"):
            for line in cell.source.splitlines():
                assert len(line) < 20 or not any(line in question.asks for question in drawn), "a model answer"


def test_the_fault_of_a_sheet_is_another_than_that_of_the_homework():
    assignment = load(MASTERS / "hidden" / "masking.py")
    for student in "abcdefgh":
        home = variant_for(assignment, student, SECRET)
        assert _other(assignment, home, SECRET)["bug"] != home["bug"]


@pytest.mark.parametrize(
    "tex", [r"\big(\tfrac12\big)", r"\lVert x \rVert \le \sqrt 2", r"\operatorname{softmax}(s)_{ij}"]
)
def test_a_formula_is_drawn(tex):
    assert re.search(r'<svg class="formula" role="img" aria-label="[^"]+" .*<path .*d="M[^"]{200,}"', formula(tex))


def test_a_formula_that_cannot_be_set_is_named():
    with pytest.raises(ValueError, match=r"a formula of a task must be one that matplotlib can set; got '.*nothing'"):
        formula(r"\nothing")
