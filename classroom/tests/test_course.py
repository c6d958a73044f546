"""A course works with nbgrader: its gradebook has the engine's marks, and those given by hand stay."""

import nbformat
import pytest
from nbgrader.apps import NbGraderAPI
from tiny_course import NAME, hand_in, make_course, solved, write_result
from traitlets.config import Config

from attention_classroom import gradebook
from attention_classroom.course import CourseError, open_course

SCRIPT = "Because <script>alert(1)</script> $a<b$ [x](javascript:alert(2)) ![](https://tracker.example/x.png)"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    course = make_course(tmp_path_factory.mktemp("course") / "c", ("s1", "s2", "s3", "s4", "s5"))
    gradebook.register(course, NAME)
    hand_in(course, "s1", solved(course, "s1"))
    hand_in(course, "s2", solved(course, "s2", why=SCRIPT))
    hand_in(course, "s3", solved(course, "s3", why="*Your answer here.*"))
    write_result(course, "s1")
    flag = {"kind": "timeout", "task": "times", "words": "the cell <b>times</b> ran for 20 s"}
    write_result(course, "s2", (1, 0), flags=[flag], cells={"times": [{"error": "ValueError: <script>"}]})
    write_result(course, "s3", (0, 0))
    assert gradebook.record(course, NAME) == {}
    return course


def grades(course, student):
    with gradebook.open_gradebook(course) as book:
        notebook = book.find_submission_notebook(NAME, NAME, student)
        return {g.name: (g.score, g.auto_score, g.manual_score, g.needs_manual_grade) for g in notebook.grades}


def mark(course, student, cell, score):
    """Give a mark as formgrader does."""
    with gradebook.open_gradebook(course) as book:
        grade = book.find_grade(cell, NAME, NAME, student)
        grade.manual_score, grade.needs_manual_grade = score, False
        book.db.commit()


def of_nbgrader(course):
    """nbgrader's configuration, as in the course's nbgrader_config.py."""
    config = Config()
    gradebook.configure(config, course.root)
    return config


def shown(course, student):
    return nbformat.read(course.root / "autograded" / student / NAME / f"{NAME}.ipynb", as_version=4)


def test_the_gradebook_has_the_engines_points(course):
    assert grades(course, "s1")["times-check"] == (4, 4, None, False)
    assert grades(course, "s2")["times-check"][:2] == (1, 1)
    assert grades(course, "s3")["times-check"] == (0, 0, None, False)


def test_a_written_answer_waits_and_one_that_is_not_there_does_not(course):
    assert grades(course, "s1")["why"] == (0, None, None, True)
    assert grades(course, "s3")["why"] == (0, 0, None, False)


def test_a_flag_asks_for_a_look_and_stands_in_the_comment(course):
    assert grades(course, "s2")["times-check"][3]
    with gradebook.open_gradebook(course) as book:
        assert "timeout: the cell < b>times< /b> ran for 20 s" in book.find_comment("times", NAME, NAME, "s2").comment
        assert book.find_comment("times", NAME, NAME, "s1").comment is None


def test_the_gradebook_knows_names_and_when_something_was_handed_in(course):
    with gradebook.open_gradebook(course) as book:
        assert book.find_student("s2").last_name == "Last2"
        assert str(book.find_submission(NAME, "s2").timestamp) == "2027-01-02 03:04:05"


def test_the_release_has_no_solution(course):
    released = nbformat.read(course.release(NAME), as_version=4)
    assert "product" not in nbformat.writes(released)
    assert {cell.id for cell in released.cells} >= {"times", "times-check", "why"}


def test_what_is_shown_runs_no_script(course):
    cells = {cell.id: cell for cell in shown(course, "s2").cells}
    assert cells["why"].source == (
        "Because < script>alert(1)< /script> $a< b$ [x] (javascript:alert(2)) ![] (https://tracker.example/x.png)"
    )
    assert {key for cell in cells.values() for out in cell.get("outputs", []) for key in out.get("data", {})} <= {
        "text/plain", "image/png",
    }  # fmt: skip
    assert NbGraderAPI(config=of_nbgrader(course)).generate_feedback(NAME)["success"]
    page = (course.root / "feedback" / "s2" / NAME / f"{NAME}.html").read_text()
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert 'href="javascript' not in page
    assert "tracker.example/x.png" in page
    assert 'src="https://tracker' not in page
    assert "<b>times" not in page


def test_only_what_changed_is_recorded_again(course):
    times = {s: (course.root / "autograded" / s / NAME / f"{NAME}.ipynb").stat().st_mtime_ns for s in ("s1", "s2")}
    assert gradebook.record(course, NAME) == {}
    assert times == {
        s: (course.root / "autograded" / s / NAME / f"{NAME}.ipynb").stat().st_mtime_ns for s in ("s1", "s2")
    }


def test_marks_given_by_hand_survive_regrading(course):
    mark(course, "s1", "why", 1.5)
    mark(course, "s2", "times-check", 3)
    assert gradebook.record(course, NAME, everybody=True) == {}
    assert grades(course, "s1")["why"] == (1.5, None, 1.5, False), "looked at, and nothing changed"
    assert grades(course, "s2")["times-check"] == (3, 1, 3, False), "the flag had been looked at"
    # A new result: the mark stays, and asks for another look where what it was for has changed.
    write_result(course, "s2", (1, 3), key="2")
    write_result(course, "s1", (1, 0), key="2")
    assert gradebook.record(course, NAME) == {}
    assert grades(course, "s2")["times-check"] == (3, 4, 3, True)
    assert grades(course, "s1")["times-check"] == (1, 1, None, False)
    assert grades(course, "s1")["why"] == (1.5, None, 1.5, False), "the same answer"


def test_one_that_nbgrader_cannot_take_does_not_stop_the_others(course):
    for student in ("s4", "s5"):
        hand_in(course, student, solved(course, student))
        write_result(course, student)
    write_result(course, "s4", tasks={})
    failed = gradebook.record(course, NAME)
    assert list(failed) == ["s4"]
    assert "says nothing about times-check; grade again" in failed["s4"]
    assert grades(course, "s5")["times-check"][0] == 4
    write_result(course, "s4")
    assert gradebook.record(course, NAME) == {}


def test_formgrader_shows_everybody_and_nbgrader_runs_nothing(course):
    """What a teacher types, or formgrader calls, is nbgrader's own program with the course's configuration."""
    nbgrader = NbGraderAPI(config=of_nbgrader(course))
    there = {submission["student"]: submission["autograded"] for submission in nbgrader.get_submissions(NAME)}
    assert there == dict.fromkeys(("s1", "s2", "s3", "s4", "s5"), True)
    before, files = grades(course, "s2"), shown(course, "s2")
    assert not nbgrader.autograde(NAME, "s2")["success"]
    assert grades(course, "s2") == before and shown(course, "s2") == files
    by_hand = solved(course, "s2", times="open('ran', 'w')")
    nbformat.write(by_hand, course.root / "submitted" / "s2" / NAME / f"{NAME}.ipynb")
    refused = nbgrader.autograde(NAME, "s2")
    assert not refused["success"] and "without a sandbox; use attention-classroom grade" in refused["log"]
    assert grades(course, "s2") == before and not list(course.root.rglob("ran"))
    assert gradebook.record(course, NAME) == {} and shown(course, "s2").cells == files.cells


def test_lateness_costs_what_the_course_says(course):
    (course.root / "course.toml").write_text(
        f"[late]\ngrace_minutes = 10\npercent_a_day = 10\n[due]\n{NAME} = 2027-01-01T04:00:00+01:00\n"
    )
    late = open_course(course.root)
    gradebook.register(late, NAME)
    gradebook.renew_penalties(late, NAME)
    with gradebook.open_gradebook(late) as book:
        submission = book.find_submission(NAME, "s1")
        assert submission.total_seconds_late == 24 * 3600 + 4 * 60 + 5
        assert submission.late_submission_penalty == pytest.approx(submission.score * 0.2)


def test_cells_added_after_students_handed_in_are_refused_in_words(course):
    notebook = nbformat.read(course.master(NAME), as_version=4)
    extra = nbformat.from_dict(notebook.cells[-1])
    extra.id, extra.metadata.nbgrader.grade_id = "more", "more"
    notebook.cells.append(extra)
    nbformat.write(notebook, course.master(NAME))
    with pytest.raises(CourseError, match="Cannot add or remove cells"):
        gradebook.register(course, NAME)
