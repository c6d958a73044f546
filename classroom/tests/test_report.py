"""The report says what came of everybody, hides nobody behind a 0, and runs nothing that a student wrote."""

import csv
import re
from html.parser import HTMLParser
from itertools import combinations

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell
from tiny_course import NAME, hand_in, make_course, solved, variant, write_result

from attention_classroom.course import Student, open_course, write
from attention_classroom.pages import TEMPLATES
from attention_classroom.report import Row, _alike, _flag_pairs, _pass_over_common, read_rows, report
from attention_classroom.similar import Pair, like_the_master, similar_pairs, tokens_of

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Right, half, hanging with a script in it, missing, not graded, waiting for a mark."""
    course = make_course(tmp_path_factory.mktemp("course") / "c", [f"s{i}" for i in range(1, 7)])
    (course.root / "course.toml").write_text(
        f'title = "Test & try"\n[late]\npercent_a_day = 10\n[due]\n{NAME} = 2027-01-02T00:00:00Z\n'
    )
    students = course.root / "students.csv"
    rows = [line.split(",") for line in students.read_text().splitlines()]
    names = [",".join([*row[:2], EVIL if row[0] == "s3" else row[2], *row[3:]]) for row in rows]
    students.write_text("\n".join(names) + "\n")
    course = open_course(course.root)
    empty = "*Your answer here.*"
    hand_in(course, "s1", solved(course, "s1", why=empty), "2027-01-01T000000Z")
    write_result(course, "s1")
    hand_in(course, "s2", solved(course, "s2", why=empty), "2027-01-02T060000Z")
    write_result(course, "s2", (1, 0), mistakes=["mistake:4", "=1+1"])
    evil = solved(course, "s3", times=f"def times(x): return '{EVIL}'", why=EVIL)
    added = {"attention_tutorial": {"extra": True}}  # as `rebuild` lays cells that a student adds
    link = f"{EVIL} [x](javascript:alert(3)) $\\href{{javascript:alert(4)}}{{x}}$"
    evil.cells += [new_markdown_cell(link, metadata=added), new_raw_cell(EVIL, metadata=added)]
    hand_in(course, "s3", evil, "2027-01-01T000000Z")
    flag = {"kind": "timeout", "task": "times", "words": f"stopped {EVIL}"}
    cells = {"times": [{"text": EVIL}, {"error": f"ValueError: {EVIL}"}, {"png": f'x" onload="{EVIL}'}]}
    write_result(course, "s3", (0, 0), flags=[flag], cells=cells, seconds=20.5)
    hand_in(course, "s5", solved(course, "s5"), "2027-01-01T000000Z")
    flag = {"kind": "ungraded", "task": "", "words": "the grader failed"}
    write_result(course, "s5", (0, 0), flags=[flag])
    hand_in(course, "s6", solved(course, "s6"), "2027-01-01T000000Z")
    write_result(course, "s6")
    return course


@pytest.fixture(scope="module")
def folder(course):
    return report(course, NAME)


@pytest.fixture(scope="module")
def grades(folder):
    with (folder / "grades.csv").open(newline="", encoding="utf-8") as file:
        return {row["student_id"]: row for row in csv.DictReader(file)}


def test_everybody_has_a_row_with_a_status(grades):
    assert {student: row["status"] for student, row in grades.items()} == {
        "s1": "graded", "s2": "graded", "s3": "look at it",
        "s4": "missing", "s5": "not graded", "s6": "to mark by hand",
    }  # fmt: skip


def test_no_row_has_a_silent_nought(grades):
    assert (grades["s4"]["score"], grades["s4"]["times (of 4)"]) == ("", "")
    assert (grades["s5"]["score"], grades["s5"]["flags"]) == ("", "ungraded: the grader failed")
    assert (grades["s6"]["score"], grades["s6"]["why (of 2)"], grades["s6"]["waiting"]) == ("4", "", "why")
    assert grades["s3"]["score"] == "0"
    assert grades["s3"]["flags"].startswith("timeout of times: stopped")
    assert (grades["s1"]["score"], grades["s1"]["why (of 2)"]) == ("4", "0"), "not answered is 0, and that is known"


def test_lateness_is_told_and_costs_what_the_course_says(grades):
    assert grades["s2"]["hours_late"] == "6.0"
    assert grades["s2"]["late_penalty"] == "0.1"
    assert grades["s2"]["score"] == "0.9"
    assert "late: 6.0 hours late" in grades["s2"]["flags"]
    assert grades["s1"]["late_penalty"] == ""


def test_the_sandbox_and_the_time_are_told(grades, folder):
    assert (grades["s3"]["sandbox"], grades["s3"]["seconds"]) == ("bubblewrap", "20.5")
    assert "bubblewrap (5)" in (folder / "index.html").read_text()


class Reader(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open, self.text = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "img", "rect", "line", "path"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data):
        self.text += data


def all_pages(folder):
    return [Reader(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))]


def test_no_page_runs_a_script_or_asks_another_server(folder):
    pages_found = all_pages(folder)
    assert len(pages_found) == 7
    for page in pages_found:
        assert not {"script", "iframe", "object", "embed", "form", "link", "base"} & set(page.tags)
        for name, value in page.attributes:
            assert not name.startswith("on")
            if name in {"src", "href"}:
                assert re.match(r"data:image/png;base64,|feedback/|grades\.csv$", value), value
        policy = next(value for name, value in page.attributes if value and "default-src" in value)
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert page.open == [], "every tag is closed"


def test_what_a_student_wrote_is_shown_as_it_is(folder):
    page = Reader((folder / "feedback" / "s3.html").read_text())
    assert page.text.count(EVIL) >= 5  # name, answer, output, error, flag
    assert "img" not in page.tags, "a picture that is none is left out"


def test_feedback_says_points_and_what_each_check_looks_at(folder):
    page = Reader((folder / "feedback" / "s2.html").read_text())
    assert "0.9 of 6 points, 0.1 points less for lateness." in page.text
    assert "A product (1 of 4 points)" in page.text
    assert "0 of 3 a negative number, and zero: off" in page.text
    assert "Late: 6.0 hours late" in page.text
    assert "img" in page.tags, "the figure that the answer drew"
    assert f"product = {variant(open_course(folder), 's2')['factor']}" in page.text, "the answer itself"
    assert "4 of 6 points so far" in Reader((folder / "feedback" / "s6.html").read_text()).text
    assert "Nothing was handed in" in Reader((folder / "feedback" / "s4.html").read_text()).text


def test_feedback_names_no_other_student(folder):
    for path in (folder / "feedback").glob("*.html"):
        text = path.read_text()
        others = {f"s{i}" for i in range(1, 7)} - {path.stem}
        assert not [other for other in others if re.search(rf"\b{other}\b|Last{other[1]}", text)]


def test_the_teachers_page_counts_mistakes_by_their_names(folder):
    text = Reader((folder / "index.html").read_text()).text
    assert "6 students: 2 graded, 1 look at it, 1 to mark by hand, 1 not graded, 1 missing." in text
    assert re.search(r"confusing the factor √d_model on embeddings.*?A product1", text, re.DOTALL)
    assert re.search(r"a negative number, and zeroA product2 of 4", text)
    assert "Mean" in text and "median" in text


def test_figures_are_told_to_those_who_do_not_see_them(folder):
    page = Reader((folder / "index.html").read_text())
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert any(label.startswith("Students by points. 0–0.6: 1;") for label in labels)


def test_no_cell_of_the_table_is_a_formula(folder):
    for row in csv.reader((folder / "grades.csv").read_text(encoding="utf-8").splitlines()):
        assert not [cell for cell in row if cell[:1] in set("=+@\t") or (cell[:1] == "-" and not cell[1:2].isdigit())]


def test_a_mark_and_a_comment_given_by_hand_are_in_the_report(course, folder):
    answer = read_rows(course, NAME)[5].marks["why"].answer
    path = course.root / "marks" / f"{NAME}.csv"
    write(path, f"student,question,points,comment,answer,marker\ns6,why,1.5,Well said {EVIL},{answer},ann\n")
    try:
        report(course, NAME)
        row = next(row for row in csv.DictReader((folder / "grades.csv").open()) if row["student_id"] == "s6")
        assert (row["score"], row["why (of 2)"], row["status"], row["waiting"]) == ("5.5", "1.5", "graded", "")
        page = Reader((folder / "feedback" / "s6.html").read_text())
        assert f"Well said {EVIL}" in page.text
        assert "script" not in page.tags
        assert "says why it commutes" in page.text
    finally:
        path.unlink()


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (f"hidden/{NAME}.py", "points=3", "points=4"),
        ("course.toml", "[late]", f'[questions]\n{NAME} = ["3: Why?"]\n[late]'),
        ("course.toml", "[late]", "[limits]\ncell_s = 30\n[late]"),
        (f"source/{NAME}/{NAME}.ipynb", "Because", "As"),
        ("secret", "0", "1"),
        (f"received/{NAME}/s2/2027-01-02T060000Z/{NAME}.ipynb", "return", "return "),
    ],
)
def test_points_of_other_checks_questions_or_answers_are_not_reported(course, path, old, new):
    path = course.root / path
    before = path.read_bytes()
    try:
        path.write_text(path.read_text().replace(old, new))
        row = read_rows(open_course(course.root), NAME)[1]
        assert (row.status, row.score, row.result) == ("not graded", None, {})
    finally:
        path.write_bytes(before)
    assert read_rows(open_course(course.root), NAME)[1].status == "graded"
    (course.root / "hidden" / "other.py").write_text("")
    write(course.root / "source" / "other" / "other.ipynb", "{}")
    assert read_rows(open_course(course.root), NAME)[1].status == "graded", "another assignment's checks are not these"


# ---- Answers that are alike -----------------------------------------------------------------------------------------

ONE = '''
def attend(query, key, value):
    """Weights by softmax."""
    scores = torch.einsum("md,nd->mn", query, key) / math.sqrt(7)
    weights = []
    for row in scores:
        exp = (row - row.max()).exp()
        weights.append(exp / exp.sum())
    return torch.stack(weights) @ value
'''
RENAMED = """
def attend(q, the_keys, v):
    # all my own work
    s = torch.einsum("md,nd->mn", q, the_keys) / math.sqrt(
        64
    )
    out = []
    for r in s:
        e = (r - r.max()).exp()
        out.append(e / e.sum())
    return torch.stack(out) @ v
"""
OTHER = """
def attend(query, key, value):
    m, n = len(query), len(key)
    result = torch.zeros(m, value.shape[1])
    for i in range(m):
        scores = torch.tensor([float(query[i] @ key[j]) for j in range(n)])
        result[i] = torch.softmax(scores / query.shape[1] ** 0.5, dim=0) @ value
    return result
"""


def notebook(code, words="*Your answer here.*"):
    def about(grade_id):
        return {"nbgrader": {"grade_id": grade_id, "solution": True, "grade": False}}

    return new_notebook(
        cells=[
            new_code_cell("import torch", id="setup"),
            new_code_cell(code, id="attend", metadata=about("attend")),
            new_markdown_cell(words, id="why", metadata=about("why")),
        ]
    )


RELEASE = notebook("# YOUR CODE HERE\n...")


def test_a_file_that_differs_only_in_names_is_found():
    pairs = similar_pairs({"a": notebook(ONE), "b": notebook(RENAMED), "c": notebook(OTHER)}, RELEASE)
    assert [(pair.first, pair.second, pair.what, pair.likeness) for pair in pairs] == [("a", "b", "code", 1.0)]


def test_the_published_solution_is_known_under_other_names_and_honest_work_is_not_taken_for_it():
    master = notebook(ONE)
    assert like_the_master(notebook(RENAMED), master, RELEASE) == [("code", 1.0)]
    assert like_the_master(notebook(OTHER), master, RELEASE) == like_the_master(RELEASE, master, RELEASE) == []


def test_answers_of_their_own_and_empty_ones_are_not_alike():
    assert similar_pairs({"a": notebook(ONE), "b": notebook(OTHER)}, RELEASE) == []
    assert similar_pairs({"a": RELEASE, "b": RELEASE}, RELEASE) == []
    short = notebook("def attend(q, k, v):\n    return v")
    assert similar_pairs({"a": short, "b": short}, RELEASE) == [], "short answers are alike by chance"


def test_the_same_words_are_found_whatever_the_code():
    words = (
        "The scores grow with the number of features, so the spread is divided out and softmax keeps a slope to learn."
    )
    other = (
        "Without the factor the softmax saturates early, and the gradient of every single score is close to zero then."
    )
    three = {"a": notebook(ONE, words), "b": notebook(OTHER, words.upper()), "c": notebook("1", other)}
    assert [(p.first, p.second, p.what) for p in similar_pairs(three, RELEASE)] == [("a", "b", "words")]


def test_a_whole_class_that_is_alike_is_told_in_one_line():
    ids = [f"s{i}" for i in range(40)]
    pairs = [Pair(a, b, "code", 1.0) for a, b in combinations(ids, 2)] + [Pair("s1", "x", "code", 0.95)]
    rows = _alike(pairs)
    assert [row[2] for row in rows] == ["the same", "95%"] and rows[1][0] == "s1, x"
    row = Row(Student("s0"))
    _flag_pairs([row], pairs)
    assert row.flags[0]["words"] == "code like s1 (100%), s10 (100%), s11 (100%), s12 (100%) and 35 more"


def test_code_that_cannot_be_read_is_no_obstacle():
    for code in ("def f(:\n  'x", "\x00", "((((" * 3000, "if x:\n    a\n  b", "\t x = 'é"):
        assert isinstance(tokens_of(code), list)
        similar_pairs({"a": notebook(code), "b": notebook(ONE)}, RELEASE)


@pytest.mark.parametrize("before", ['!echo "', "%%time", "#" * 200_000, "unused = 0"], ids=["!", "%", "#", "name"])
def test_what_stands_before_the_code_does_not_hide_it(before):
    """A line that is no Python, a very long one, or one more name in front of a copy."""
    others = {f"o{number}": notebook(OTHER) for number in range(8)}
    pairs = similar_pairs({"a": notebook(ONE), "b": notebook(f"{before}\n{RENAMED}"), **others}, RELEASE)
    assert ("a", "b") in {(pair.first, pair.second) for pair in pairs}


def test_copies_are_flagged_in_the_table_for_both(tmp_path, course, monkeypatch):
    for student, code in (("s1", ONE), ("s6", RENAMED)):
        path = course.rebuilt(NAME, student)
        path.write_text(nbformat.writes(solved(course, student, times=code)))
    folder = report(course, NAME)
    rows = {row["student_id"]: row["flags"] for row in csv.DictReader((folder / "grades.csv").open())}
    assert "similar: code like s6 (100%)" in rows["s1"]
    assert "similar: code like s1 (100%)" in rows["s6"]
    assert "s1, s6codethe same" in Reader((folder / "index.html").read_text()).text
    assert "similar" not in rows["s2"] + (folder / "feedback" / "s1.html").read_text()


def test_the_notebook_for_everybody_is_told_where_it_is_an_exception():
    def rows(*common):
        flag = {"kind": "common", "task": "", "words": "everybody's"}
        return [Row(Student(str(i)), result={"tasks": {}}, flags=[flag] * has) for i, has in enumerate(common)]

    for class_rows, left in ((rows(True, False, False), 1), (rows(True, True, False), 0), (rows(False), 0)):
        _pass_over_common(class_rows)
        assert sum(bool(row.flags) for row in class_rows) == left


def test_pages_read_in_light_and_dark():
    """Every colour of text has the contrast that WCAG asks for, on the backgrounds it stands on."""

    def light(colour):
        digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    style = TEMPLATES.get_template("base.html").render(title="")

    def colours(pattern):
        pairs = re.findall(pattern + r"light-dark\((#\w+), (#\w+)\)", style)
        assert pairs
        return pairs

    for i in (0, 1):
        grounds = [light(pair[i]) for pair in colours("background: ") + colours("--soft: ")]
        for pair in colours("[ ;{]color: ") + colours("--bad: ") + colours("--good: "):
            for ground in grounds:
                low, high = sorted((light(pair[i]), ground))
                assert (high + 0.05) / (low + 0.05) >= 4.5, pair
