"""A teacher's first hour, by the program alone: every command works, says what it did, and names what is wrong."""

import contextlib
import csv
import json
import os
import stat
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from tiny_course import NAME, make_course
from toy import grade_here

from attention_classroom.__main__ import DONE, LOOK, REFUSED, main
from attention_classroom.course import open_course
from attention_classroom.sandbox import NoSandbox, strongest


def unsafe():
    """Return what the command needs where there is no sandbox; asked late, since every process collects all tests."""
    try:
        strongest()
    except NoSandbox:
        return ["--unsafe"]
    return []


@pytest.fixture(scope="module")
def masters(tmp_path_factory):
    return make_course(tmp_path_factory.mktemp("masters") / "m").root


@pytest.fixture(scope="module")
def course(masters, tmp_path_factory):
    """A course after the first hour, up to the grades."""
    folder = tmp_path_factory.mktemp("course") / "my course"
    assert main(["quickstart", str(folder), "--masters", str(masters)]) == DONE
    settings = (folder / "course.toml").read_text().replace("call_s = 8 ", "call_s = 1 ")
    (folder / "course.toml").write_text(settings)
    assert main(["release", NAME, "--course", str(folder)]) == DONE
    assert main(["collect", NAME, str(folder / "examples" / f"{NAME}.zip"), "--course", str(folder)]) == DONE
    with pytest.MonkeyPatch.context() as monkeypatch:
        grade_here(monkeypatch)
        assert main(["grade", NAME, "--course", str(folder), "--jobs", "1", *unsafe()]) == DONE
    assert main(["report", NAME, "--course", str(folder)]) == DONE
    return open_course(folder)


def grades(course):
    with (course.reports(NAME) / "grades.csv").open(newline="", encoding="utf-8") as file:
        return {row["student_id"]: row for row in csv.DictReader(file)}


def test_the_made_up_students_get_what_they_deserve(course):
    rows = grades(course)
    assert {student: row["times (of 4)"] for student, row in rows.items()} == {
        "rita": "4", "hal": "4", "wanda": "0", "lou": "0", "bo": "0", "mia": "",
    }  # fmt: skip
    assert rows["rita"]["status"] == "to mark by hand"
    assert "timeout of times" in rows["lou"]["flags"]
    assert rows["bo"]["flags"].startswith("unreadable")
    assert rows["mia"]["status"] == "missing"
    assert rows["wanda"]["flags"] == ""


def test_the_secret_is_nobody_elses(course):
    assert stat.S_IMODE((course.root / "secret").stat().st_mode) == 0o600
    assert "secret\n" in (course.root / ".gitignore").read_text()
    for folder in ("release", "handout", "reports"):
        for path in (course.root / folder).rglob("*.*"):
            assert course.secret.decode() not in path.read_text(encoding="utf-8")


def test_a_handout_is_a_students_own(course):
    texts = {student: course.handout(NAME, student).read_text() for student in course.students}
    assert len(set(texts.values())) > 3
    assert "product =" not in "".join(texts.values())


def test_collecting_again_says_so_and_lists_what_fits_nobody(course, tmp_path, capsys):
    assert main(["collect", NAME, str(course.root / "examples" / f"{NAME}.zip"), "--course", str(course.root)]) == DONE
    printed = capsys.readouterr().out
    assert "0 new files of 0 students; 5 were there already." in printed
    assert "Nothing yet from 1 of 6: mia." in printed
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "\x1b[2Jhomework\n.ipynb").write_text("{}")
    assert main(["collect", NAME, str(tmp_path / "in"), "--course", str(course.root)]) == LOOK
    assert "Not taken: �[2Jhomework�.ipynb: no part of its name is a student" in capsys.readouterr().err


def test_a_master_is_tried_and_its_faults_are_named(course, capsys):
    assert main(["validate", NAME, "--variants", "1", "--course", str(course.root)]) == DONE
    printed = capsys.readouterr().out
    assert "tiny: right in 2 variants" in printed and "answers of another variant earn " in printed
    hidden = course.hidden(NAME)
    text = hidden.read_text()
    try:
        hidden.write_text(text.replace("lambda x: n * x", "lambda x: n * x + 1"))
        assert main(["validate", "--variants", "0", "--course", str(course.root)]) == LOOK
    finally:
        hidden.write_text(text)
    assert "the solved notebook earns 0 points for times; expected 4" in capsys.readouterr().out


def test_grades_go_into_the_platforms_table_and_sheets_are_printed(course, tmp_path, capsys):
    table = tmp_path / "moodle.csv"
    table.write_text("Identifier,Full name,Email address,Grade\nParticipant 1,Bo Broken,bo@example.org,\n")
    arguments = ["export", "grades", NAME, str(table), "--to", str(tmp_path / "out.csv"), "--course", str(course.root)]
    assert main(arguments) == LOOK
    assert "Participant 1,Bo Broken,bo@example.org,\n" in (tmp_path / "out.csv").read_text()
    printed = capsys.readouterr().err
    assert "Without a grade: bo: look at it first: unreadable" in printed
    assert "Without a grade: rita: not in Moodle's table" in printed
    assert main(["sheet", NAME, "--course", str(course.root)]) == DONE
    assert (course.root / "sheets" / NAME / "answers.html").is_file()
    to = tmp_path / "feedback.zip"
    assert main(["export", "feedback", NAME, "--to", str(to), "--course", str(course.root)]) == DONE
    assert len(zipfile.ZipFile(to).namelist()) == 5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["grade", "tinny"], f"assignment must be one of {NAME}"),
        (["release", NAME, "--student", "nobody"], "got 'nobody'"),
        (["collect", NAME, "nowhere"], "there is no nowhere"),
        (["collect", NAME, "nowhere", "--is", "x"], "--is must be FILE=ID"),
        (["collect", NAME, "nowhere", "--is", "x=bo", "--is", "x/=mia"], "give x to one student; got bo and mia"),
        (["undo", NAME, "mia"], "must have handed in something for tiny; got 'mia'"),
        (["grade", NAME, "--student", "mia"], "students must have handed in something; got mia"),
        (["export", "grades", NAME, "none.csv", "--to", "x.csv"], "is empty or not there"),
        (["quickstart", "."], "folder must be new or empty"),
    ],
)
def test_what_is_wrong_is_named_in_one_message(course, arguments, says, capsys, monkeypatch):
    monkeypatch.chdir(course.root)
    assert main(arguments) == REFUSED
    printed = " ".join(capsys.readouterr().err.split())
    assert says in printed
    assert "Traceback" not in printed


def test_a_name_in_the_settings_that_is_not_known_stops_every_command(course, capsys):
    path = course.root / "course.toml"
    before = path.read_text()
    try:
        path.write_text(f"{before}\n[extensions.{NAME}]\nRita = 2027-02-03T23:59:00+01:00\n")
        assert main(["collect", NAME, "nowhere", "--course", str(course.root)]) == REFUSED
    finally:
        path.write_text(before)
    printed = " ".join(capsys.readouterr().err.split())
    assert "must name an id of students.csv, in quotes if it has a dot; got Rita. Did you mean rita?" in printed


@pytest.mark.parametrize("device", ["full disk", "closed pipe"])
def test_where_nothing_can_be_printed_it_is_said_in_a_sentence(course, device, monkeypatch, capsys):
    if device == "full disk":
        screen = open("/dev/full", "w")  # noqa: SIM115
    else:
        reader, writer = os.pipe()
        os.close(reader)
        screen = open(writer, "w")  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", screen)
    status = main(["collect", NAME, str(course.root / "examples" / f"{NAME}.zip"), "--course", str(course.root)])
    monkeypatch.undo()
    printed = " ".join(capsys.readouterr().err.split())
    cause = {"full disk": "No space left on device", "closed pipe": "Broken pipe"}[device]
    assert status == REFUSED and printed.startswith(f"classroom: {cause}") and "Traceback" not in printed
    with contextlib.suppress(OSError):
        screen.close()


def test_what_cannot_be_written_is_named_with_its_cause(masters, tmp_path, capsys):
    """Root may write anywhere, so here a file is where a folder must be."""
    folder = tmp_path / "c"
    main(["quickstart", str(folder), "--masters", str(masters)])
    (folder / "received").write_text("")
    capsys.readouterr()
    assert main(["collect", NAME, str(folder / "examples" / f"{NAME}.zip"), "--course", str(folder)]) == REFUSED
    printed = " ".join(capsys.readouterr().err.split())
    assert f"{folder}/received" in printed and "Not a directory. What was finished is kept" in printed
    (folder / "marks").write_text("")
    assert main(["marks", NAME, "--course", str(folder)]) == REFUSED
    assert f"{folder}/marks: File exists" in " ".join(capsys.readouterr().err.split())


def test_a_course_without_students_says_where_they_go(masters, tmp_path, capsys):
    folder = tmp_path / "empty"
    assert main(["quickstart", str(folder), "--empty", "--masters", str(masters)]) == DONE
    assert "Put your list into" in capsys.readouterr().out
    for command in ("report", "sheet"):
        assert main([command, NAME, "--course", str(folder)]) == REFUSED
        assert "lists nobody yet" in " ".join(capsys.readouterr().err.split())


def test_without_the_masters_it_is_said_where_they_are(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("attention_classroom.quickstart.MASTERS", tmp_path / "masters")
    assert main(["quickstart", str(tmp_path / "c")]) == REFUSED
    assert "come with a copy of the repository and not with `pip install`" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "c").exists()


def test_without_a_sandbox_it_refuses_and_never_scores(course, monkeypatch, capsys):
    def none():
        raise NoSandbox("no sandbox starts here")

    monkeypatch.setattr("attention_classroom.sandbox.strongest", none)
    before = (course.result(NAME, "rita")).read_bytes()
    assert main(["grade", NAME, "--course", str(course.root)]) == REFUSED
    assert "no sandbox starts here" in capsys.readouterr().err
    assert course.result(NAME, "rita").read_bytes() == before


def test_every_command_has_help(capsys):
    assert main(["--help"]) == DONE
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    for command in (
        "quickstart",
        "release",
        "validate",
        "collect",
        "undo",
        "grade",
        "report",
        "export",
        "marks",
        "sheet",
    ):
        assert [line for line in lines if line.startswith(f"{command} ")]
        assert main([command, "--help"]) == DONE


def test_the_kept_settings_are_those_that_are_read(course):
    """The course.toml that quickstart writes names settings that exist, at their defaults."""
    from attention_classroom import quickstart
    from attention_classroom.course import SETTINGS, _settings

    path = Path(course.root) / "as-written.toml"
    path.write_text(quickstart.SETTINGS)
    read = _settings(path)
    assert {**read, "title": ""} == {**SETTINGS, "title": ""}


def test_what_was_handed_in_is_as_it_came(course):
    notebook = course.newest(NAME, "bo")
    with pytest.raises(json.JSONDecodeError):
        json.loads(notebook.read_text())
    assert nbformat.read(course.rebuilt(NAME, "bo"), as_version=4).cells


def test_what_was_taken_back_leaves_the_report(course, capsys):
    assert main(["undo", NAME, "lou", "--course", str(course.root)]) == DONE
    assert "0 earlier ones are left" in capsys.readouterr().out
    assert main(["report", NAME, "--course", str(course.root)]) == DONE
    assert grades(course)["lou"]["status"] == "missing" and not course.rebuilt(NAME, "lou").exists()


def test_a_newer_attempt_has_no_points_until_it_is_graded(course, tmp_path, capsys):
    """The last test of this course."""
    newer = tmp_path / "rita.ipynb"
    newer.write_text(course.handout(NAME, "rita").read_text())
    assert main(["collect", NAME, str(newer), "--course", str(course.root)]) == DONE
    assert capsys.readouterr().out.endswith(f"Next: attention-classroom grade {NAME}\n")
    assert main(["report", NAME, "--course", str(course.root)]) == LOOK
    assert "Not graded as they are now: rita. Next: attention-classroom grade" in capsys.readouterr().err
    assert (grades(course)["rita"]["status"], grades(course)["rita"]["score"]) == ("not graded", "")
