"""What goes elsewhere works there: an autograder, and the platforms' own tables."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from tiny_course import NAME, make_course, solved, variant

from attention_classroom import gradescope as inside
from attention_classroom import sandbox
from attention_classroom.course import CourseError, Student
from attention_classroom.exports import fill_in, gradescope
from attention_classroom.report import GRADED, LOOK, MISSING, NOT_GRADED, WAITING, Mark, Row

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return make_course(tmp_path_factory.mktemp("course") / "c", ("s1", "s2", "s3", "s4", "s5"))


def run(command, folder, **environment):
    """Run a command with no more of this environment than it needs."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    environment = {
        **inherited,
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
        **environment,
    }
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=3000, check=False
    )


# ---- Gradescope -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def autograder(course, tmp_path_factory):
    """Gradescope's folder, with what is in the zip and nothing else."""
    root = tmp_path_factory.mktemp("autograder")
    with zipfile.ZipFile(gradescope(course, NAME, root / "out", unsafe=True)) as archive:
        archive.extractall(root / "source")
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}
    assert modes["run_autograder"] == modes["setup.sh"] == 0o755
    (root / "source" / "run_autograder").chmod(0o755)
    (root / "submission").mkdir()
    return root


def hand_in(root, contents, user):
    for path in (root / "submission").iterdir():
        path.unlink()
    for name, data in contents.items():
        (root / "submission" / name).write_text(data)
    (root / "submission_metadata.json").write_text(json.dumps({"users": [user]}))


def graded(root, contents, user, *, apart=False):
    """Have a submission graded and return what Gradescope would show; ``apart``: as it does, by the script."""
    hand_in(root, contents, user)
    if apart:
        environment = {"AUTOGRADER_ROOT": str(root), "AUTOGRADER_PYTHON": sys.executable}
        done = run(["./run_autograder"], root / "source", **environment)
        assert done.returncode == 0, done.stderr
    else:
        assert inside.main(root) == 0
    return json.loads((root / "results" / "results.json").read_text())


def test_the_autograder_grades_in_a_clean_folder(course, autograder):
    text = nbformat.writes(solved(course, "s2"))
    result = graded(
        autograder, {"my work.ipynb": text, "notes.txt": "x"}, {"email": "S2@example.org", "sid": "77"}, apart=True
    )
    assert result["score"] == 4
    assert [(test["score"], test["max_score"]) for test in result["tests"]] == [(1, 1), (3, 3)]
    assert result["tests"][0]["name"] == "A product: a positive number"
    assert "2 more points are given by hand" in result["output"]
    assert result["extra_data"]["student"] == "s2"
    assert result["extra_data"]["sandbox"] in {"bubblewrap", "landlock", "limits"}
    assert result["stdout_visibility"] == "hidden"


def test_the_autograder_says_what_is_wrong(course, autograder):
    wrong = nbformat.writes(solved(course, "s1", times="def times(x):\n    return x + FACTOR"))
    result = graded(autograder, {f"{NAME}.ipynb": wrong}, {"sid": "s1"})
    assert result["score"] == 0
    assert result["tests"][0]["output"] == "that adds the factor; multiply by it"
    nothing = graded(autograder, {"essay.pdf": "x"}, {"sid": "s1"})
    assert (nothing["score"], "no notebook" in nothing["output"]) == (0, True)
    broken = graded(autograder, {"a.ipynb": wrong[:300]}, {"sid": "s1"})
    assert (broken["score"], "cannot be read" in broken["output"]) == (0, True)


def test_where_the_autograder_fails_there_is_no_score(course, autograder):
    hidden = autograder / "source" / "hidden" / f"{NAME}.py"
    text = hidden.read_text()
    hidden.write_text("raise OSError('no disk')")
    try:
        result = graded(autograder, {f"{NAME}.ipynb": nbformat.writes(solved(course, "s1"))}, {"sid": "s1"})
    finally:
        hidden.write_text(text)
    assert "score" not in result
    assert "not your fault" in result["output"]
    assert "no disk" not in json.dumps(result)


def test_without_a_sandbox_nothing_runs_there_unless_asked(course, autograder, monkeypatch):
    def none():
        raise sandbox.NoSandbox("none starts")

    monkeypatch.setattr(sandbox, "strongest", none)
    settings = autograder / "source" / "settings.json"
    options = json.loads(settings.read_text())
    settings.write_text(json.dumps({**options, "unsafe": False}))
    try:
        result = graded(autograder, {"x.ipynb": nbformat.writes(solved(course, "s1"))}, {"sid": "s1"})
    finally:
        settings.write_text(json.dumps(options))
    assert "score" not in result
    assert "No sandbox starts here" in result["output"]


def test_the_autograder_holds_variants_and_no_secret(course, tmp_path):
    path = gradescope(course, NAME, tmp_path)
    assert path.name == f"{NAME}-gradescope.zip"
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert not [name for name, data in contents.items() if course.secret in data]
    assert json.loads(contents["settings.json"])["variants"]["s1"] == dict(variant(course, "s1").values)
    assert json.loads(contents["settings.json"])["unsafe"] is False
    assert {"attention_classroom/protocol.py", "attention_tutorial/exercises/judging.py"} <= set(contents)
    left_out = "attention_tutorial/widgets|.*__pycache__|(hidden|source)/(?!tiny)"
    assert not [name for name in contents if re.match(left_out, name)]
    before = path.read_bytes()
    assert gradescope(course, NAME, path).read_bytes() == before, "the same course gives the same bytes"


def test_the_scripts_are_shell_and_ask_for_what_the_package_needs(course, tmp_path):
    with zipfile.ZipFile(gradescope(course, NAME, tmp_path)) as archive:
        archive.extractall(tmp_path)
    for script in ("setup.sh", "run_autograder"):
        assert run(["bash", "-n", script], tmp_path).returncode == 0
    apt = tmp_path / "bin" / "apt-get"
    apt.parent.mkdir()
    apt.write_text('#!/bin/sh\ncase "$*" in *python*) exit 1;; esac\n')
    apt.chmod(0o755)
    done = run(["bash", "setup.sh"], tmp_path, PATH=f"{apt.parent}:/usr/bin:/bin")
    assert done.returncode == 1 and "choose a newer Ubuntu" in done.stderr
    needed = (tmp_path / "requirements.txt").read_text().split()
    project = (ROOT / "pyproject.toml").read_text()
    for requirement in re.findall(r'"((?:torch|numpy|matplotlib|tqdm)>=[\d.]+)"', project):
        assert requirement in needed, "pyproject.toml has other ranges: attention_classroom/exports.py"


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


def test_what_still_waits_is_not_filled_in_unless_asked(course, tmp_path):
    table = MOODLE + "Participant 13;First5 Last5;s5@example.org;Submitted;;6,00;Yes;\n"
    summary, text = filled(course, tmp_path, table)
    assert ("s5", "waits for a mark by hand: why") in summary.left
    assert text.splitlines()[3].split(";")[4] == ""
    summary, text = filled(course, tmp_path, table, so_far=True)
    assert text.splitlines()[3].split(";")[4] == "3"
    assert "s5" in summary.given


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
    summary, text = filled(twins, tmp_path, table, [row("s1", 1), row("s2", 2)])
    assert summary.given == ["s2"]
    assert ("Kim, Min", "several students fit: s1, s2") in summary.left
    assert [line[-1] for line in csv.reader(io.StringIO(text))] == ["Tiny (1)", "", "2.5"]
