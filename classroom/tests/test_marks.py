"""Marks are given by question, kept for the answer that was marked, and joined from several markers."""

import csv
import json
import re
import string
from concurrent.futures import ThreadPoolExecutor

import pytest
from tiny_course import NAME, hand_in, make_course, release, solved, write_result
from website import missing

from attention_classroom.course import CourseError, open_course, write
from attention_classroom.marking import join, marking_page
from attention_classroom.marks import FLAGS, Given
from attention_classroom.report import read_rows, report
from tools.browser import BrowserMissing, chromium

EVIL = "</script><script>alert(1)</script>"


@pytest.fixture
def course(tmp_path):
    """A right answer, a flagged one with a script in it, an empty one, one that cannot be read, one that is missing."""
    course = make_course(tmp_path / "c", ("s1", "s2", "s3", "s4", "s5"))
    hand_in(course, "s1", solved(course, "s1"))
    hand_in(course, "s2", solved(course, "s2", why=EVIL))
    hand_in(course, "s3", solved(course, "s3", why="*Your answer here.*"))
    hand_in(course, "s4", solved(course, "s4"))
    write_result(course, "s1")
    write_result(course, "s2", (1, 0), flags=[{"kind": "timeout", "task": "times", "words": "20 s"}])
    write_result(course, "s3", (0, 0))
    write_result(course, "s4", (0, 0), flags=[{"kind": "unreadable", "task": "", "words": "no notebook"}])
    return course


def rows(course):
    return {row.student.id: row for row in read_rows(course, NAME)}


def shown(course):
    """What the page holds, by question and student."""
    text = marking_page(course, NAME).read_text()
    assert text.count("<script") == 2, "what a student wrote ends no script"
    data = json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)[1])
    return {question["id"]: {item["student"]: item for item in question["items"]} for question in data["questions"]}


def save(course, marker, *given, when="1"):
    """Write the file that the page saves for a marker: (student, question, points, and what else is given)."""
    path = course.root / f"{marker}.csv"
    there = shown(course)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, Given._fields, restval="")
        table.writeheader()
        for student, question, points, *more in given:
            answer = there.get(question, {}).get(student, {"answer": ""})["answer"]
            about = {"student": student, "question": question, "points": points, "answer": answer}
            table.writerow({"marker": marker, "when": when, **about, **dict(more)})
    return path


def test_the_page_asks_for_what_a_person_must_see_and_for_no_more(course):
    there = shown(course)
    assert {question: set(items) for question, items in there.items()} == {"why": {"s1", "s2"}, FLAGS: {"s2", "s4"}}
    assert there["why"]["s2"]["text"] == EVIL and there["why"]["s2"]["rubric"] == [[2.0, "says why it commutes"]]
    assert "timeout times: 20 s" in there[FLAGS]["s2"]["note"] and there[FLAGS]["s4"]["text"] == ""


def test_what_cannot_be_read_earns_nothing_whatever_marks_say(course):
    file = save(course, "ann", ("s4", "why", "2"), ("s9", "why", "2"))
    left = ["s4, why: there is nothing to mark; not taken", "s9, why: there is nothing to mark; not taken"]
    assert join(course, NAME, [file]) == (0, left)
    write(course.root / "marks" / f"{NAME}.csv", "student,question,points\ns4,why,2\n")
    assert rows(course)["s4"].score == 0 and rows(course)["s4"].status == "look at it"
    join(course, NAME, [save(course, "ann", ("s4", FLAGS, "0"))])
    assert rows(course)["s4"].status == "graded"


def test_a_mark_stays_when_one_grades_again_and_a_changed_answer_comes_back(course):
    join(course, NAME, [save(course, "ann", ("s1", "why", "1,5", ("comment", "Say more.")), ("s2", FLAGS, "0"))])
    write_result(course, "s1", (1, 0))
    row = rows(course)["s1"]
    assert (row.score, row.status, row.marks["why"].comment) == (2.5, "graded", "Say more.")
    assert rows(course)["s2"].status == "to mark by hand", "its flag was looked at"
    hand_in(course, "s1", solved(course, "s1", why="Because of something else."), "2027-01-03T000000Z")
    write_result(course, "s1")
    write_result(course, "s2", (1, 3), flags=[{"kind": "timeout", "task": "times", "words": "21 s"}])
    assert rows(course)["s1"].waiting == ["why"]
    assert rows(course)["s2"].status == "look at it"
    item = shown(course)["why"]["s1"]
    assert item["given"] == [] and (item["before"][0]["points"], item["before"][0]["comment"]) == ("1.5", "Say more.")


def test_markers_are_joined_and_where_they_differ_both_are_shown(course):
    ann = save(course, "ann", ("s1", "why", "2"), ("s2", "why", "1"))
    bob = save(course, "bob", ("s1", "why", "1"), ("s2", "why", "1"))
    number, differ = join(course, NAME, [ann, bob])
    assert (number, differ) == (4, ["s1, why: ann gave 2, bob gave 1"])
    assert join(course, NAME, [bob, ann]) == (number, differ), "in any order, and again"
    assert rows(course)["s1"].waiting == ["why"] and rows(course)["s2"].waiting == []
    assert [row["points"] for row in shown(course)["why"]["s1"]["given"]] == ["2", "1"]
    assert join(course, NAME, [save(course, "bob", ("s1", "why", "1.5", ("over", "ann")), when="2")])[1] == []
    assert rows(course)["s1"].score == 5.5
    assert join(course, NAME, [save(course, "bob", ("s1", "why", "1"))])[1] == [], "an older file takes nothing back"
    assert join(course, NAME, [save(course, "bob", ("s1", "why", "", ("over", "ann")), when="3")])[1] == []
    assert rows(course)["s1"].waiting == ["why"], "taken back"


def test_a_line_of_ones_own_changes_what_the_checks_gave_for_this_attempt(course):
    join(course, NAME, [save(course, "ann", ("s2", "times-check", "3"))])
    assert rows(course)["s2"].marks["times-check"].score == 3
    hand_in(course, "s2", solved(course, "s2"), "2027-01-03T000000Z")
    write_result(course, "s2", (1, 0))
    assert (rows(course)["s2"].marks["times-check"].score, rows(course)["s2"].waiting) == (None, ["times-check", "why"])
    assert "ann gave 3 for what has changed since" in [flag["words"][17:] for flag in rows(course)["s2"].flags]


def change_a_file(path, old, new):
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    "change",
    [
        lambda root: change_a_file(root / "hidden" / f"{NAME}.py", "says why it commutes", "says that it commutes"),
        lambda root: change_a_file(root / "course.toml", "3: What", "3: Why"),
        lambda root: change_a_file(root / "course.toml", "3: What", "2: What"),
    ],
    ids=["rubric", "question", "points"],
)
def test_a_question_of_the_courses_own_is_marked_and_no_mark_counts_for_another_question(course, change):
    with (course.root / "course.toml").open("a") as file:
        file.write(f'[questions]\n{NAME} = ["3: What would you change?"]\n')
    course = open_course(course.root)
    asked = {cell.id: cell.source for cell in release(course, "s5").cells}
    assert "What would you change?" in asked["own-1-task"] and asked["own-1"] == "*Your answer here.*"
    hand_in(course, "s5", solved(course, "s5", **{"own-1": "Everything."}))
    write_result(course, "s5")
    assert shown(course)["own-1"]["s5"]["text"] == "Everything."
    join(course, NAME, [save(course, "ann", ("s5", "own-1", "3"), ("s5", "why", "2"))])
    assert (rows(course)["s5"].score, rows(course)["s5"].most, rows(course)["s5"].waiting) == (9, 9, [])
    change(course.root)
    course = open_course(course.root)
    assert rows(course)["s5"].status == "not graded", "the old points are not those of what is asked now"
    assert join(course, NAME, [save(course, "ann", ("s5", "why", "1"))])[1] == ["s5, why: is not graded yet; not taken"]
    hand_in(course, "s5", solved(course, "s5", **{"own-1": "Everything."}), "2027-01-03T000000Z")
    write_result(course, "s5")
    assert len(rows(course)["s5"].waiting) == 1


@pytest.mark.parametrize(
    ("points", "more", "words"),
    [
        ("3", {}, "points must be from 0 to 2; got 3 for s1, why"),
        ("-1", {}, "points must be from 0 to 2"),
        ("nan", {}, "points must be a number; got 'nan'"),
        ("2", {"marker": ""}, "marker must say who gave the mark"),
    ],
)
def test_what_cannot_be_a_mark_is_refused_and_nothing_is_taken(course, points, more, words):
    file = save(course, "ann", ("s2", "why", "1"), ("s1", "why", points, *more.items()))
    with pytest.raises(CourseError, match=words):
        join(course, NAME, [file])
    assert not (course.root / "marks" / f"{NAME}.csv").exists()


def test_enter_leaves_a_field_and_never_gives_a_mark(course):
    def mark():
        try:
            with chromium() as browser:
                mark_with_keys(course, browser.new_page())
        except BrowserMissing as error:
            missing(str(error))

    with ThreadPoolExecutor(1) as thread:  # another test may have its browser in this one
        thread.submit(mark).result()


def mark_with_keys(course, page):
    page.goto(marking_page(course, NAME).as_uri())
    page.locator("#marker").fill("ann")
    page.keyboard.press("Enter")

    def press(*keys):
        """Return the points that were given since then, the card one is at, and what has the focus."""
        for key in keys:
            page.keyboard.type(key[1:]) if key[0] == "'" else page.keyboard.press(key)
        return page.evaluate("[Object.values(mine).map((row) => row.points), at, document.activeElement.tagName]")

    assert press("q") == [[], 0, "BODY"]
    assert press("c", "'see me", "Enter") == [[""], 0, "BODY"], "a comment alone is no mark"
    assert press("Enter") == [[""], 1, "BODY"], "on, without a mark"
    assert press("Enter") == [[""], 1, "BODY"]
    assert press("k", "f") == [["2"], 0, "BODY"]
    page.locator(".points").nth(1).click()
    assert press("'0.5", "Enter") == [["2", "0.5"], 1, "BODY"]
    page.locator(".comment").nth(1).click()
    assert press("'0 f", "Escape") == [["2", "0.5"], 1, "BODY"], "letters in a field are no keys"
    page.locator("#save").focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    _, differ = join(course, NAME, [download.value.path()])
    assert differ == [] and {student: row.waiting for student, row in rows(course).items() if row.marks}["s1"] == []
    assert sorted(row.marks["why"].score for row in rows(course).values() if row.student.id in {"s1", "s2"}) == [0.5, 2]


def test_nothing_that_a_marker_reads_is_hidden_or_reversed(course):
    tricks = "return x \u202e\u2066+ 1\u2069 \u200b\U000e0041"
    students = course.root / "students.csv"
    students.write_text(students.read_text().replace("First1", "First\u202e1"))
    course = open_course(course.root)
    hand_in(course, "s1", solved(course, "s1", times=f"def times(x): {tricks}", why=tricks), "2027-01-03T000000Z")
    flags = [{"kind": "timeout", "task": "times", "words": tricks}]
    write_result(course, "s1", (0, 0), flags=flags, cells={"times": [{"text": tricks}]})
    join(course, NAME, [save(course, "ann", ("s1", "why", "2", ("comment", tricks)))])
    folder = report(course, NAME)
    for path in (marking_page(course, NAME), *folder.rglob("*.*")):
        text = path.read_text(encoding="utf-8")
        assert not set(tricks) & set(text) - set(string.printable), path
        assert path.stem in {"s2", "s3", "s4", "s5"} or "�" in text


def test_the_sheet_is_marked_in_the_same_way(course):
    write(course.root / "sheets" / NAME / "asked.json", json.dumps({"s5": {"sheet-1": "<p>2 + 2?</p>4"}}))
    assert shown(course)["sheet-1"]["s5"]["html"] == "<p>2 + 2?</p>4"
    assert rows(course)["s5"].of_sheet().status == "to mark by hand"
    join(course, NAME, [save(course, "ann", ("s5", "sheet-1", "1"))])
    sheet = rows(course)["s5"].of_sheet()
    assert (sheet.score, sheet.most, sheet.status) == (1, 2, "graded")


def test_one_student_may_have_more_time(course):
    (course.root / "course.toml").write_text(
        f"[late]\npercent_a_day = 10\n[due]\n{NAME} = 2027-01-01T03:00:00Z\n"
        f"[extensions]\n{NAME}.s1 = 2027-01-03T00:00:00Z\n"
    )
    late = rows(open_course(course.root))
    assert (late["s1"].penalty, late["s1"].hours_late) == (0, 0)
    assert late["s2"].penalty == pytest.approx(0.2) and late["s2"].hours_late == pytest.approx(24 + 245 / 3600)


def test_who_leaves_the_list_leaves_the_report(course):
    students = course.root / "students.csv"
    students.write_text("".join(line for line in students.read_text().splitlines(True) if not line.startswith("s1,")))
    assert "s1" not in rows(open_course(course.root))
