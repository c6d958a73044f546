"""A course is graded whole: side by side, the same twice, on from where it was, and never a noop zero."""

import json
import os
import re
import shutil
from dataclasses import replace

import nbformat
import pytest
import toy
from test_sandbox import begin, children, kill, wait_until
from toy import ASSIGNMENT, FULL, VARIANT, kinds, submission, written

from attention_classroom import batch, grading, variant_for
from attention_classroom.batch import grade_all, limits_of, read_result
from attention_classroom.course import open_course
from attention_classroom.grading import grade
from attention_classroom.rebuild import read, rebuild
from attention_classroom.release import beside
from attention_classroom.sandbox import (
    HERE,
    PACKAGES,
    SANDBOXES,
    Died,
    NoSandbox,
    Sandbox,
    TooLong,
    needed_files,
    strongest,
)
from attention_tutorial.exercises import Mistake, Outcome


def points(result):
    return {task: results["points"] for task, results in result["tasks"].items() if results["checks"]}


def stored(course):
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted((course / "results").rglob("*.json"))}


EVERYBODYS = variant_for(ASSIGNMENT, "", b"5" * 40)
HANDED_IN = {
    "gil": ("toy.ipynb", written(submission(variant=EVERYBODYS))),
    "ann": ("Kopie von final (2).ipynb", written(submission(double="import helper\ndouble = helper.double"))),
    "cem": ("toy.ipynb", written(submission())[:700]),
    "dana": ("toy.ipynb", b""),
    "eve": ("essay.pdf", b"%PDF-1.7"),
}
NOTHING = {"weigh": 0, "double": 0}
EXPECTED = {
    "ann": (FULL, {"variant"}),  # the notebook of another student's numbers: ann's are drawn from the secret
    "cem": (NOTHING, {"unreadable"}),
    "dana": (NOTHING, {"unreadable"}),
    "eve": (NOTHING, {"unreadable"}),
    "gil": (FULL, {"common"}),
}


def test_a_course_is_graded_once_and_whole(tmp_path, monkeypatch):
    course = toy.course(tmp_path, HANDED_IN)
    toy.hand_in(course, "ann", "helper.py", toy.DOUBLE.encode())
    received = {path: path.read_bytes() for path in (course / "received").rglob("*") if path.is_file()}
    results = {result["student"]: result for result in grade_all(course, "toy", jobs=2)}
    assert {name: (points(result), kinds(result["flags"])) for name, result in results.items()} == EXPECTED
    assert all(result["sandbox"] == strongest().name and result["key"] for result in results.values())
    assert all("cannot be read" in str(results[name]["tasks"]) for name in ("cem", "dana", "eve"))
    for name in HANDED_IN:
        nbformat.validate(nbformat.read(course / "results" / "toy" / f"{name}.ipynb", as_version=4))
    assert {path: path.read_bytes() for path in received} == received
    gil = nbformat.read(course / "results" / "toy" / "gil.ipynb", as_version=4)
    assert toy.named(gil, "yours").source.endswith(f"{EVERYBODYS['number']}.") and results["gil"]["student"] == "gil"
    first = stored(course)
    assert len(first) == len(HANDED_IN) and not list(course.rglob("*.part"))

    again = grade_all(course, "toy", jobs=2)
    assert again == list(results.values()) and stored(course) == first, "what is graded is not graded again"

    toy.grade_here(monkeypatch)
    toy.hand_in(course, "cem", "toy.ipynb", written(submission()), "2026-11-02T10-00-00")
    (course / "results" / "toy" / "dana.json").write_text("{broken")
    results = {result["student"]: result for result in grade_all(course, "toy", jobs=1)}
    assert points(results["cem"]) == FULL and kinds(results["dana"]["flags"]) == {"unreadable"}
    changed = {path.stem for path, content in stored(course).items() if first[path] != content}
    assert changed == {"cem", "dana"}


def test_modules_beside_a_notebook_come_along_and_of_other_files_it_is_said_that_they_are_there(tmp_path):
    names = ("toy.ipynb", "old.ipynb", "essay.pdf", "helper (1).py", "x-1.py", "k_71_903_rows-2.py", "no name.py")
    for name in names:
        (tmp_path / name).write_bytes(written(submission()))
    (tmp_path / "large.py").write_bytes(b"#" * 300_000)
    modules, others = beside(tmp_path / "toy.ipynb")
    assert {name: path.name for name, path in modules.items()} == {
        "helper.py": "helper (1).py", "x.py": "x-1.py", "rows.py": "k_71_903_rows-2.py",
    }  # fmt: skip
    assert others == ["essay.pdf", "large.py", "no name.py", "old.ipynb"]


RUN = """
import sys
from attention_classroom.batch import grade_all
from attention_classroom.sandbox import SANDBOXES
grade_all(sys.argv[1], "toy", jobs=1, sandbox=SANDBOXES[sys.argv[2]])
"""


def test_killed_in_the_middle_it_leaves_nobody_behind_and_goes_on(tmp_path, monkeypatch):
    slow = submission(extra=["import time\ntime.sleep(9)"])
    course = toy.course(tmp_path, {"s1": ("toy.ipynb", written(submission())), "s2": ("toy.ipynb", written(slow))})
    process, started = begin(RUN, course, strongest().name), []
    try:
        wait_until(lambda: list((course / "results").rglob("*.json")))
        wait_until(lambda: started.extend(children(process.pid)) or started)
    finally:
        kill(process, started)
    before = stored(course)
    assert [path.stem for path in before] == ["s1"]
    for path in before:
        json.loads(path.read_text())
    toy.hand_in(course, "s2", "toy.ipynb", written(submission()), "2026-11-02T10-00-00")
    toy.grade_here(monkeypatch)
    results = grade_all(course, "toy", jobs=1)
    assert [result["student"] for result in results] == ["s1", "s2"]
    assert all(points(result) == FULL for result in results)
    assert {path: content for path, content in stored(course).items() if path in before} == before


def test_a_key_changes_with_all_that_a_result_depends_on(tmp_path, monkeypatch):
    folder = toy.course(tmp_path, {"ann": ("toy.ipynb", b"1")})
    sandbox = SANDBOXES["landlock"]

    def key(sandbox=sandbox, student="ann"):
        course = open_course(folder)
        return batch._key(course, "toy", student, course.newest("toy", "ann"), sandbox, limits_of(course))

    keys = [key(), key(SANDBOXES["limits"]), key(student="ben")]
    assert key() == keys[0]
    for name in ("course.toml", "secret", "hidden/toy.py", "source/toy/toy.ipynb"):
        path = folder / name
        path.write_text(path.read_text().replace("5", "6").replace("3", "4") + "\n" * (path.suffix != ""))
        keys.append(key())
    toy.hand_in(folder, "ann", "toy.ipynb", b"2", "2026-11-02T10-00-00")
    keys.append(key())
    toy.hand_in(folder, "ann", "helper.py", b"3", "2026-11-02T10-00-00")
    keys.append(key())
    monkeypatch.setattr(batch, "_code", lambda: b"other code")
    keys.append(key())
    assert len(set(keys)) == len(keys)


def test_a_key_depends_on_the_code_of_both_packages_but_no_masters_tests_and_widgets(tmp_path, monkeypatch):
    files = needed_files()
    assert {name.split("/")[0] for name in files} == set(PACKAGES)
    assert not [name for name in files if re.search("/(masters|tests|widgets|__pycache__)/", name)]
    for path in HERE.glob("*.py"):
        assert files[f"attention_classroom/{path.name}"] == path
    digest = batch._code.__wrapped__
    changed = tmp_path / "changed.py"
    changed.write_text("other = True")
    digests = {digest()}
    for name in ("attention_classroom/grading.py", "attention_tutorial/exercises/visible.py"):
        monkeypatch.setattr(batch, "needed_files", lambda name=name: {**files, name: changed})
        digests.add(digest())
    assert len(digests) == 3


def test_where_no_sandbox_starts_nothing_is_graded_and_it_is_said(tmp_path, monkeypatch):
    course = toy.course(tmp_path, {"ann": ("toy.ipynb", written(submission()))})
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "bwrap").symlink_to(shutil.which("false"))
    monkeypatch.setenv("PATH", f"{broken}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(NoSandbox, match=r"not graded: ann: bubblewrap does not start"):
        grade_all(course, "toy", jobs=1, sandbox=SANDBOXES["bubblewrap"])
    assert not stored(course)


def test_a_failure_of_the_grader_is_flagged_and_tried_again(tmp_path, monkeypatch):
    course = toy.course(tmp_path, {"ann": ("toy.ipynb", written(submission()))})
    monkeypatch.setattr(batch, "_grade_these", lambda *args: [("ann", ValueError("oh"))])
    sandbox = SANDBOXES["landlock"]
    (result,) = grade_all(course, "toy", sandbox=sandbox)
    assert (
        points(result) == NOTHING
        and kinds(result["flags"]) == {"ungraded"}
        and "ValueError: oh" in str(result["flags"])
    )
    assert result["tasks"]["weigh"]["words"] == ["not graded: the grader failed"]
    opened = open_course(course)
    assert not batch._is_done(opened, "toy", "ann", sandbox, limits_of(opened))
    assert read_result(opened, "toy", "ben") is None
    with pytest.raises(ValueError, match="handed in something; got ben"):
        grade_all(course, "toy", sandbox=sandbox, students=["ben"])


# ---- Without a child -------------------------------------------------------------------------------------------------


class Answers:
    """A session in which the child says what the test says."""

    def __init__(self, **reply):
        self.reply, self.child, self.limits = reply, object(), grading.Limits()

    def request(self, seconds, **request):
        if "raises" in self.reply:
            raise self.reply["raises"]
        return self.reply


def remote(does=True, **reply):
    task = ASSIGNMENT.tasks(VARIANT)[0]
    answer = grading.Remote(Answers(**reply), task, ["q", "k"], does)
    answer.until = grading.time.monotonic() + 5
    return answer


@pytest.mark.parametrize(
    ("reply", "words", "flagged"),
    [
        (
            {"error": {"type": "ValueError", "message": "no", "line": "x = 1"}},
            r"raised ValueError: no \(in the line `x = 1`\)",
            set(),
        ),
        ({"error": {"type": 3, "message": None}}, "your code raised an error", set()),
        ({"error": {"type": "MemoryError", "memory": True}}, "raised MemoryError", {"memory"}),
        ({"exit": True}, r"exit\(\)", set()),
        ({"value": None}, "returns nothing", set()),
        ({"value": 1, "args": [1, 3]}, r"changed its arguments \(k\)", set()),
        ({"value": 1, "args": [[], object(), 4]}, r"changed its arguments \(q\)", set()),
        ({"value": None, "too_much": True}, "returns nothing", {"output"}),
        (
            {"raises": TooLong()},
            "after 5 seconds .* one call may take 8 seconds, all calls of one check together 10",
            {"timeout"},
        ),
        ({"raises": Died("gone", "files")}, "ended Python itself while it was judged: gone", {"files"}),
    ],
)
def test_what_a_child_says_becomes_words(reply, words, flagged):
    answer = remote(**reply)
    with pytest.raises(Mistake, match=words) as raised:
        answer(1, 2)
    assert set(answer.flags) == flagged
    assert (raised.value.kind is Outcome.TOO_SLOW) == ("timeout" in flagged)
    named = reply.get("error", {}).get("type")
    assert raised.value.error == (named if isinstance(named, str) else "")


@pytest.mark.parametrize("reply", [{"value": None}, {"error": {"type": "NotImplementedError", "stub": True}}])
def test_a_stub_elsewhere_is_a_stub_here(reply):
    with pytest.raises(NotImplementedError):
        remote(does=False, **reply)(1)


class Mortal:
    """A child that dies of some cells, and of one answer."""

    def request(self, do, seconds, **rest):
        if rest.get("task") == "weigh" and do == "call":
            raise Died("gone")
        if do == "run" and "die" in rest["source"]:
            raise TooLong
        if do == "run" and "loud" in rest["source"]:
            return {"shown": [{"text": "x" * 200_000}]}
        function = {"kind": "function", "does": True, "parameters": []}
        return {"take": function, "call": {"value": 2 * rest["args"][0]} if do == "call" else {}}.get(do, {})

    def close(self):
        pass


def test_an_answer_that_must_be_stopped_again_and_again_leaves_the_others_their_points(monkeypatch):
    started = []
    monkeypatch.setattr(Sandbox, "start", lambda *args, **named: started.append(Mortal()) or started[-1])
    result = grade(submission(extra=["die()"] * 5), ASSIGNMENT, VARIANT, sandbox=SANDBOXES["landlock"])
    assert points(result) == {"weigh": 0, "double": 2} and len(started) == 1 + 5 + 2
    task = ASSIGNMENT.tasks(VARIANT)[0]
    task = replace(task, checks=[*task.checks, replace(task.checks[0], points=3)])
    session = grading._Session(SANDBOXES["landlock"], grading.Limits())
    judging = grading._Grading([task], session, session.limits)
    judging.judge(task, last=True)
    assert session.starts == 2
    assert "had to be stopped before" in judging.results["weigh"]["checks"][2]["words"]


@pytest.mark.parametrize(("half", "earns"), [(0.5, 2), (1.0, 0), (None, 0)])
def test_an_answer_may_be_judged_with_numbers_of_its_notebook(monkeypatch, half, earns):
    class Child(Mortal):
        def request(self, do, seconds, **rest):
            if rest.get("name") == "HALF":
                return {"kind": "value", "value": half}
            return super().request(do, seconds, **rest)

    monkeypatch.setattr(Sandbox, "start", lambda *args, **named: Child())
    task = replace(
        ASSIGNMENT.tasks(VARIANT)[1], numbers="HALF", with_numbers=lambda answer, half: lambda x: 2 * half * answer(x)
    )
    assignment = replace(ASSIGNMENT, tasks=lambda variant: [task])
    result = grade(submission(), assignment, VARIANT, sandbox=SANDBOXES["landlock"])
    assert points(result) == {"double": earns} and "ungraded" not in kinds(result["flags"])


def test_what_a_notebook_shows_in_all_is_limited(monkeypatch):
    monkeypatch.setattr(Sandbox, "start", lambda *args, **named: Mortal())
    loud = submission(extra=[f"loud({i})" for i in range(200)])
    result = grade(loud, ASSIGNMENT, VARIANT, sandbox=SANDBOXES["landlock"])
    assert points(result)["double"] == 2 and len(json.dumps(result["cells"])) < 1.1 * grading.KEPT
    assert [flag["kind"] for flag in result["flags"]].count("output") == 1
    assert "not kept" in json.dumps(list(result["cells"].values())[-3])


def test_an_error_of_the_grader_itself_never_looks_like_a_zero(monkeypatch):
    def broken(self, *args, **named):
        raise KeyError("oh")

    monkeypatch.setattr(grading._Session, "request", broken)
    result = grade(submission(), ASSIGNMENT, VARIANT, sandbox=SANDBOXES["landlock"])
    assert points(result) == NOTHING and kinds(result["flags"]) == {"ungraded"}
    assert result["tasks"]["weigh"]["words"] == ["not judged"]


def test_a_submission_has_no_more_than_its_time(monkeypatch):
    now, waited = [0.0], []

    class Slow(Mortal):
        def request(self, do, seconds, **rest):
            waited.append(seconds)
            now[0] += min(seconds, 0.9)
            if seconds < 0.9:
                raise TooLong
            return super().request(do, seconds, **rest)

    monkeypatch.setattr(Sandbox, "start", lambda *args, **named: Slow())
    monkeypatch.setattr(grading.time, "monotonic", lambda: now[0])
    limits = grading.Limits(total_s=3.0, cell_s=2.0)
    result = grade(submission(), ASSIGNMENT, VARIANT, sandbox=SANDBOXES["landlock"], limits=limits)
    assert points(result) == NOTHING and "timeout" in kinds(result["flags"])
    assert sum(min(seconds, 0.9) for seconds in waited) == pytest.approx(3.0) and max(waited) == 2.0 + grading.GRACE
    assert "not judged" in " ".join(result["tasks"]["weigh"]["words"])


SLEEP, DIES = "import time\ntime.sleep(30)", "die()"
EXPERIMENTS = {  # added cells, those of them that `double` needs, where they stand
    "behind the answer": ([SLEEP] * 6, (), "double-check"),
    "above the answers": ([SLEEP] * 6, (), "setup"),
    "a hundred": ([SLEEP] * 100, (), "setup"),
    "crashes": (["two = 2", *["crash()"] * 30], ("two",), "setup"),
    "with a helper": (["one = 1", *[SLEEP] * 6, "two = 2"], ("one", "two"), "setup"),
    "with a helper that takes long, for another": (
        ["two = uses_one", *[SLEEP] * 4, "one = sleep(3)"],
        ("one", "two"),
        "setup",
    ),
    "with a helper that takes long": ([*[SLEEP] * 4, "two = sleep(3)"], ("two",), "setup"),
    "endless, again and again": ([SLEEP.replace("30", "9")] * 5 + ["two = 2", DIES, DIES, DIES], ("two",), "setup"),
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_students_experiments_leave_the_answers_their_time(monkeypatch, name):
    extra, needed, behind = EXPERIMENTS[name]
    now = [0.0]

    class Sleeper(Mortal):
        def __init__(self):
            self.there = set()

        def request(self, do, seconds, **rest):
            if do == "call":
                now[0] += 2
                missing = rest["task"] == "double" and not self.there.issuperset(needed)
                result = toy._weights(*rest["args"]) if rest["task"] == "weigh" else 2 * rest["args"][0]
                return {"error": {"type": "NameError"}} if missing else {"value": result}
            source = rest.get("source", "")
            takes = seconds if "die" in source else sum(map(float, re.findall(r"sleep\((\d+)", source)))
            now[0] += min(takes, seconds if "die" in source else rest.get("stop_s", seconds))
            if takes > rest.get("stop_s", takes) and "die" not in source:
                return {"error": {"type": "TimeUp"}}
            if "crash" in source:
                raise Died("gone")
            if "uses_one" in source and "one" not in self.there:
                return {"error": {"type": "NameError"}}
            self.there |= set(re.findall(r"^(one|two) =", source))
            return super().request(do, seconds, **rest)

    monkeypatch.setattr(Sandbox, "start", lambda *args, **named: Sleeper())
    monkeypatch.setattr(grading.time, "monotonic", lambda: now[0])
    notebook, _ = rebuild(read(written(submission(extra=extra, behind=behind))), toy.release())
    result = grade(notebook, ASSIGNMENT, VARIANT, sandbox=SANDBOXES["landlock"])
    assert points(result) == FULL and now[0] <= grading.Limits().total_s, (result["tasks"], result["flags"])
    assert kinds(result["flags"], "error", "crash") == {"timeout"}


def test_texts_from_a_child_hold_nothing_that_a_terminal_obeys():
    assert grading._text("a\x1b[31mb\x00\n\tc" + "x" * 100, 10) == "a�[31mb�\n\t"
    assert grading._text(["no"], 10) == "" and grading._texts("no") == []
