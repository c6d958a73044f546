"""What goes elsewhere works there: notebooks and pages of feedback as the platforms take them, and their own tables."""

import csv
import dataclasses
import io
import zipfile

import nbformat
import pytest
from tiny_course import NAME, make_course, release, solved, variant, write_result

from attention_classroom.collect import collect, platform_names, undo
from attention_classroom.course import CourseError, Student, write
from attention_classroom.exports import feedback, fill_in, handout
from attention_classroom.report import GRADED, LOOK, MISSING, NOT_GRADED, WAITING, Mark, Row


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return make_course(tmp_path_factory.mktemp("course") / "c", ("s1", "s2", "s3", "s4", "s5"))


# ---- A file for each student ----------------------------------------------------------------------------------------


def moodle_takes(path):
    """Return for whom Moodle takes a zip's files: of a path in five parts at underscores, the second is the number."""
    with zipfile.ZipFile(path) as archive:
        parts = [name.split("_", 4) for name in archive.namelist()]
        texts = [archive.read(name).decode() for name in archive.namelist()]
    assert all(part[2:4] == ["assignsubmission", "file"] and part[4] for part in parts)
    return {int(part[1]): text for part, text in zip(parts, texts, strict=True)}


def canvas_takes(path):
    """Return for which user and which file of theirs Canvas takes a zip's files: the first two numbers."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return [tuple([part for part in name.split("_") if part.isdigit()][:2]) for name in names]


def test_a_class_gets_its_notebooks_in_one_upload(course, tmp_path):
    for student in course.students:
        write(course.handout(NAME, student), f"of {student}")
    write(tmp_path / "w.csv", MOODLE)
    summary = handout(course, NAME, tmp_path / "w.csv", tmp_path / "h.zip")
    assert moodle_takes(summary[0]) == {11: "of s2", 12: "of s1"}
    assert summary[1] == ["s2", "s1"]
    assert [who for who, _ in summary[2]] == ["s3", "s4", "s5"]
    write(tmp_path / "blind.csv", "Identifier,Status,Grade\nParticipant 11,,\n")
    with pytest.raises(CourseError, match="While submissions are anonymous it has no names"):
        handout(course, NAME, tmp_path / "blind.csv", tmp_path / "h.zip")


def test_feedback_goes_back_where_the_work_came_from(tmp_path):
    """Of a Moodle with names and one without: there somebody says whose it is, and later the number does."""
    course = make_course(tmp_path / "c", ("s1", "s2", "s3"))
    source = tmp_path / "download"
    folder = "Participant_4713_assignsubmission_file_"
    write(source / "First1 Last1_11_assignsubmission_file_" / "a.ipynb", nbformat.writes(solved(course, "s1")))
    write(source / folder / "b.ipynb", nbformat.writes(solved(course, "s2")))
    for number, mark in enumerate(({}, {"variant": []}, "x", variant(course, "s3").mark), start=4714):
        copied = release(course, "s3")
        copied.metadata["attention_tutorial"] = mark if number < 4717 else {"variant": mark}
        write(source / f"Participant_{number}_assignsubmission_file_" / "c.ipynb", nbformat.writes(copied))
    write(source / "Participant_4718_assignsubmission_file_" / "c.ipynb", nbformat.writes(copied))
    collected = collect(course, NAME, source)
    assert [student for student, _ in collected.new] == ["s1"]
    reasons = {file.split("_")[1]: why for file, why in collected.unmatched}
    assert f"it carries s2's variant. If it is theirs: --is '{folder}=s2'" in reasons["4713"]
    assert "2 folders carry s3's variant: Participant_4717_" in reasons["4718"] and "carr" not in reasons["4714"]
    assert [student for student, _ in collect(course, NAME, source, given={folder: "s2"}).new] == ["s2"]
    write(tmp_path / "again" / folder / "b.ipynb", "no notebook any more")
    forged = tmp_path / "again" / folder.replace("4713", "4716") / "b.ipynb"
    write(forged, nbformat.writes(release(course, "s2")))
    collected = collect(course, NAME, tmp_path / "again")
    assert [student for student, _ in collected.new] == ["s2"]
    assert "2 folders carry s2's variant: Moodle's number 4713, Participant_4716_" in collected.unmatched[0][1]
    collect(course, NAME, tmp_path / "again", given={forged.parent.name: "s3"})
    assert platform_names(course, NAME)["s3"] == forged.parent.name
    undo(course, NAME, "s3")
    assert "s3" not in platform_names(course, NAME), "what was taken back teaches no number"
    for student in ("s1", "s2"):
        write(course.rebuilt(NAME, student), nbformat.writes(solved(course, student)))
        write_result(course, student)
    path, there, left = feedback(course, NAME, tmp_path / "f.zip")
    pages = moodle_takes(path)
    assert set(pages) == {11, 4713} and "First1 Last1" in pages[11] and "First2 Last2" in pages[4713]
    assert (there, left) == (["s1", "s2"], [])
    write(source / folder / "b.ipynb", nbformat.writes(release(course, "s2")))
    collect(course, NAME, source)
    assert feedback(course, NAME, tmp_path / "f.zip")[1:] == (["s1"], [("s2", "not graded")]), "never an older page"
    came = {"s2": folder}
    (tmp_path / "in.csv").write_text("Identifier,Status,Grade\nParticipant 4713,,\nParticipant 9,,\n")
    summary = fill_in(course, [row("s2", 3)], tmp_path / "in.csv", tmp_path / "out.csv", came=came)
    assert (tmp_path / "out.csv").read_text().splitlines()[1] == "Participant 4713,,3.5"
    assert summary.left == [("Participant 9", "no submission that was collected has this number")]


def test_canvas_gets_feedback_by_its_own_numbers(tmp_path):
    course = make_course(tmp_path / "c", ("s1", "s2"))
    for name in ("last1first1_77_8899_tiny.ipynb", "last2first2_LATE_78_8900_tiny-1.ipynb"):
        write(tmp_path / "download" / name, "{}")
    assert len(collect(course, NAME, tmp_path / "download").new) == 2
    for student in course.students:
        write(course.rebuilt(NAME, student), nbformat.writes(solved(course, student)))
        write_result(course, student)
    assert canvas_takes(feedback(course, NAME, tmp_path / "f.zip")[0]) == [("77", "8899"), ("78", "8900")]


# ---- The platforms' tables ------------------------------------------------------------------------------------------

CANVAS = (
    "\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Tiny work (991),Other (992),Current Score\r\n"
    "    Points Possible,,,,,6,10,(read only)\r\n"
    '"Last3, First3",903,,,A,,7,70\r\n'
    '"Last1, First1",901,s1,,A,2,8,80\r\n'
    '"=Somebody, Else",999,x9,x9@example.org,A,,9,90\r\n'
    '"Wrong, Name",902,,S2@example.org,A,,1,10\r\n'
    '"Last4, First4",904,s4,,A,5,,\r\n'
    '"Student, Test",905,,,A,,,\r\n'
)
MOODLE = (
    "Identifier;Full name;Email address;Status;Grade;Maximum Grade;Grade can be changed;Feedback comments\n"
    "Participant 11;First2 Last2;s2@example.org;Submitted;;6,00;Yes;\n"
    "Participant 12;First1 Last1;s1@example.org;Submitted;;6,00;Yes;keep\n"
)


def row(student, score, status=GRADED, waiting=False):
    number = student[1]
    marks = {} if score is None else {"times-check": Mark(score, 4), "why": Mark(None if waiting else 0.5, 2)}
    return Row(Student(student, f"Last{number}", f"First{number}", f"{student}@example.org"), status, marks=marks)


ROWS = [
    row("s1", 4), row("s2", 2.25), row("s3", 1), row("s4", None, MISSING), row("s5", 3, WAITING, waiting=True),
]  # fmt: skip


def filled(course, tmp_path, table, rows=ROWS, **options):
    (tmp_path / "in.csv").write_bytes(table.encode())
    summary = fill_in(course, rows, tmp_path / "in.csv", tmp_path / "out.csv", **options)
    return summary, (tmp_path / "out.csv").read_bytes().decode()


def test_canvas_gets_its_identity_columns_back_in_order_and_one_column_filled(course, tmp_path):
    summary, text = filled(course, tmp_path, CANVAS, column="tiny")
    assert text == (
        "\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Tiny work (991)\r\n"
        "    Points Possible,,,,,6\r\n"
        '"Last3, First3",903,,,A,1.5\r\n'
        '"Last1, First1",901,s1,,A,4.5\r\n'
        '"=Somebody, Else",999,x9,x9@example.org,A,\r\n'
        '"Wrong, Name",902,,S2@example.org,A,2.75\r\n'
        '"Last4, First4",904,s4,,A,5\r\n'
        '"Student, Test",905,,,A,\r\n'
    )
    assert summary.given == ["s3", "s1", "s2"]
    assert dict(summary.left) == {
        "=Somebody, Else": "no student of students.csv", "s4": "missing", "s5": "not in Canvas's table",
    }  # fmt: skip


def test_moodle_gets_its_whole_worksheet_back_with_its_own_decimal_sign(course, tmp_path):
    _, text = filled(course, tmp_path, MOODLE)
    assert text.splitlines()[1:] == [
        "Participant 11;First2 Last2;s2@example.org;Submitted;2,75;6,00;Yes;",
        "Participant 12;First1 Last1;s1@example.org;Submitted;4,5;6,00;Yes;keep",
    ]


def test_what_still_waits_is_not_filled_in(course, tmp_path):
    table = MOODLE + "Participant 13;First5 Last5;s5@example.org;Submitted;;6,00;Yes;\n"
    summary, text = filled(course, tmp_path, table)
    assert ("s5", "waits for a mark by hand: why") in summary.left
    assert text.splitlines()[3].split(";")[4] == ""


def test_a_flag_that_nobody_has_looked_at_is_no_silent_nought(course, tmp_path):
    unreadable = row("s1", 0, LOOK)
    unreadable.flags.append({"kind": "unreadable", "task": "", "words": "its JSON is broken"})
    summary, text = filled(course, tmp_path, MOODLE, [unreadable, row("s2", 1)])
    assert ("s1", "look at it first: unreadable") in summary.left
    assert text.splitlines()[2].split(";")[4] == ""


def test_one_on_whom_the_grader_failed_gets_no_grade(course, tmp_path):
    summary, text = filled(course, tmp_path, MOODLE, [row("s1", None, NOT_GRADED), row("s2", 1)])
    assert ("s1", "not graded") in summary.left
    assert text.splitlines()[2].split(";")[4] == ""


def test_points_are_converted_to_the_platforms_maximum_and_that_is_told(course, tmp_path):
    summary, text = filled(course, tmp_path, MOODLE.replace("6,00", "100,00"))
    assert text.splitlines()[2].split(";")[4] == "75"
    assert summary.converted == (6, 100)
    assert filled(course, tmp_path, MOODLE)[0].converted is None


@pytest.mark.parametrize("called", ["tiny_work", "Tiny Work"])
def test_a_column_that_is_called_like_the_assignment_is_found(course, tmp_path, called):
    summary, text = filled(course, tmp_path, CANVAS, called=("none", called))
    assert summary.column == "Tiny work (991)"
    assert (summary, text) == filled(course, tmp_path, CANVAS, column="Tiny")


def test_a_column_that_only_begins_alike_is_not_taken(course, tmp_path):
    table = CANVAS.replace("Tiny work", "Assignment 1").replace("Other", "Assignment 10")
    assert filled(course, tmp_path, table, called=("Assignment 1",))[0].column == "Assignment 1 (991)"


@pytest.mark.parametrize(
    ("table", "options", "says"),
    [
        (CANVAS, {}, r"--column must begin .* \(Tiny work \(991\), Other \(992\)\); got ''"),
        (CANVAS, {"column": "x"}, "got 'x'"),
        (CANVAS.replace("Other", "Tiny work"), {"called": ("tiny",)}, "got ''"),
        ("a,b\n1,2\n", {}, "must be Canvas's gradebook .* got a, b"),
        ("", {}, "is empty or not there"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_in_words(course, tmp_path, table, options, says):
    with pytest.raises(CourseError, match=says):
        filled(course, tmp_path, table, **options)


def test_the_platforms_own_file_is_never_written_over(course, tmp_path):
    (tmp_path / "in.csv").write_text(MOODLE)
    with pytest.raises(CourseError, match="must be another file"):
        fill_in(course, ROWS, tmp_path / "in.csv", tmp_path / "in.csv")
    assert (tmp_path / "in.csv").read_text() == MOODLE


def test_two_students_of_one_name_are_not_guessed(course, tmp_path):
    twins = make_course(tmp_path / "c", ("s1", "s2"))
    (twins.root / "students.csv").write_text("id,last_name,first_name,email\ns1,Kim,Min,\ns2,Kim,Min,\n")
    table = 'Student,ID,SIS User ID,Tiny (1)\n"Kim, Min",1,,\n"Kim, Min",2,s2,\n'
    one = dataclasses.replace(course, root=course.root)
    one.__dict__["students"] = {"s2": Student("s2", "Kim", "Min")}
    summary, _ = filled(one, tmp_path, table, [row("s2", 2)])
    assert summary.given == ["s2"] and ("Kim, Min", "another row may be that of s2, too") in summary.left
    summary, text = filled(twins, tmp_path, table, [row("s1", 1), row("s2", 2)])
    assert summary.given == ["s2"]
    assert ("Kim, Min", "several students fit: s1, s2") in summary.left
    assert [line[-1] for line in csv.reader(io.StringIO(text))] == ["Tiny (1)", "", "2.5"]
