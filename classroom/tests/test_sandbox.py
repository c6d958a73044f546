"""A sandbox confines or it does not start; there is no third way, and what it started ends with whoever started it."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import torch
from toy import ASSIGNMENT, VARIANT, needs, submission

from attention_classroom import confinement, protocol, sandbox
from attention_classroom.grading import grade
from attention_classroom.sandbox import SANDBOXES, Child, Died, Limits, NoSandbox, TooLong


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no sandbox")
def test_some_sandbox_works_on_linux():
    assert sandbox.strongest().name in ("bubblewrap", "landlock")


def test_the_strongest_sandbox_that_works_is_chosen_and_limits_only_where_asked_for(monkeypatch):
    monkeypatch.setattr(sandbox, "strongest", sandbox.strongest.__wrapped__)  # not what was found before
    monkeypatch.setattr(sandbox, "why_not", lambda tried: "no")
    with pytest.raises(NoSandbox, match=r"bubblewrap: no; landlock: no.*--unsafe"):
        sandbox.choose(unsafe=False)
    assert sandbox.choose(unsafe=True).name == "limits"
    monkeypatch.setattr(sandbox, "why_not", lambda tried: "no" if tried.name == "bubblewrap" else "")
    assert sandbox.choose(unsafe=True).name == "landlock"
    monkeypatch.setattr(sandbox, "why_not", lambda tried: "")
    assert sandbox.choose(unsafe=False).name == "bubblewrap"


def test_a_sandbox_that_does_not_start_raises_and_nobody_gets_zero(monkeypatch):
    needs("bubblewrap")
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: "/bin/false")
    with pytest.raises(NoSandbox, match="does not start: it ended with exit status 1"):
        grade(submission(), ASSIGNMENT, VARIANT, sandbox=SANDBOXES["bubblewrap"])
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    with pytest.raises(NoSandbox, match="apt install bubblewrap"):
        grade(submission(), ASSIGNMENT, VARIANT, sandbox=SANDBOXES["bubblewrap"])


def test_a_child_that_is_not_confined_gets_no_code(monkeypatch):
    needs("landlock")
    settings = Child._settings
    monkeypatch.setattr(Child, "_settings", lambda self, home: {**settings(self, home), "landlock": None})
    with pytest.raises(NoSandbox, match="does not confine: it still has files"):
        SANDBOXES["landlock"].start()


READY = {"done": ["landlock", "seccomp"], "can": [], "threads": 1, "fault": ""}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"can": ["network"]}, "it still has network"),
        ({"threads": 2}, "2 threads"),
        ({"done": ["landlock"], "fault": "no libseccomp"}, "no libseccomp"),
        ({"done": ["seccomp"]}, "no reason given"),
        ({}, None),
    ],
)
def test_a_child_that_is_not_confined_as_promised_is_refused(told, words, monkeypatch):
    monkeypatch.setattr(Child, "_receive", lambda *args: {**READY, **told})
    begun = object.__new__(Child)
    begun.sandbox, begun.limits = SANDBOXES["landlock"], Limits()
    with pytest.raises(NoSandbox, match=f"does not confine: {words}") if words else contextlib.nullcontext():
        begun.wait_until_ready()


def test_a_missing_libseccomp_is_said(monkeypatch):
    def gone(name, *args, **named):
        raise OSError("no such file")

    monkeypatch.setattr(confinement.ctypes, "CDLL", gone)
    with pytest.raises(OSError, match="apt install libseccomp2"):
        confinement.seccomp()


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
def test_a_course_or_masters_that_lie_where_students_code_may_read_are_refused(name, tmp_path, monkeypatch):
    with pytest.raises(NoSandbox, match=r"/usr/lib/course lies in /usr/lib, .* move it elsewhere"):
        SANDBOXES[name].start(private=[Path("/usr/lib/course")])
    masters = tmp_path / "clone" / "masters"
    masters.mkdir(parents=True)
    monkeypatch.setattr(sandbox, "MASTERS", masters)
    monkeypatch.setattr(sandbox, "SYSTEM", (*sandbox.SYSTEM, str(tmp_path)))
    with pytest.raises(NoSandbox, match=r"masters lies in .* move it elsewhere"):
        SANDBOXES[name].start()


def test_a_child_that_hangs_or_ends_is_dead_and_leaves_nothing():
    needs("landlock")
    begun = SANDBOXES["landlock"].start()
    with pytest.raises(TooLong):
        begun.request("run", 0.5, cell="c", source="while True: pass", stop_s=600)
    assert begun.process.poll() is not None
    with SANDBOXES["landlock"].start(Limits(memory_mb=300)) as other, pytest.raises(Died, match="SIGSEGV"):
        other.request("run", 10, cell="c", source="import ctypes\nctypes.string_at(0)", stop_s=600)
    assert not list(Path(tempfile.gettempdir()).glob(f"{sandbox.HOMES}{os.getpid()}-*"))


def test_a_child_that_answers_in_place_of_the_worker_is_dead(monkeypatch):
    """A number that is a tensor is no number; to compare it would fail in the grader."""
    for number in (torch.ones(2), True, "1", 2):
        forged = object.__new__(Child)
        forged.number, dead = 0, []
        monkeypatch.setattr(Child, "_receive", lambda *args, number=number: {"number": number})
        monkeypatch.setattr(Child, "_dead", lambda self, *args, dead=dead: dead.append(args) or Died(*args))
        with pytest.raises(Died, match="what was not asked"):
            forged.request("read", 1.0)
        assert dead
    forged._got = bytearray(protocol.HEADER.pack(10, sandbox.MESSAGE))
    with pytest.raises(Died, match=r"no plain data \(a message of \d+ bytes"):  # before it is read
        forged._message()


def test_a_folder_is_removed_however_deep_it_is(tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    place = os.open(made, os.O_RDONLY)
    for _ in range(1500):  # deeper than Python recurses, longer than a path may be
        os.mkdir("d" * 50, dir_fd=place)
        inner = os.open("d" * 50, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    try:
        sandbox._remove(made)
        assert not made.exists()
    finally:
        subprocess.run(["rm", "-rf", str(made)], check=True)  # pytest could not


def test_folders_of_graders_that_were_killed_are_swept():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folder = Path(tempfile.mkdtemp(prefix=f"{sandbox.HOMES}{ended.pid}-"))
    own = Path(tempfile.mkdtemp(prefix=f"{sandbox.HOMES}{os.getpid()}-"))
    sandbox.sweep()
    assert not folder.exists() and own.exists()
    own.rmdir()


def begin(code, *arguments):
    """Have a process of its own run code, as a grader that can be killed."""
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stderr=subprocess.DEVNULL)


def kill(process, its=()):
    """Kill a process, and see that those of its own end with it."""
    process.kill()
    process.wait()
    try:
        wait_until(lambda: not any(map(lives, its)), seconds=20)
    finally:
        for other in filter(lives, its):
            os.kill(other, signal.SIGKILL)


def children(process):
    """Return the ids of a process's children, theirs, and so on."""
    own = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == process:
            own.append(int(path.parent.name))
    return [*own, *(other for child_id in own for other in children(child_id))]


def lives(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(true, seconds=300):
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.05)
    assert true()


STARTS = """
import sys
from pathlib import Path
from attention_classroom.sandbox import SANDBOXES
with SANDBOXES[sys.argv[1]].start() as child:
    Path(sys.argv[2]).touch()
    child.request("run", 600, cell="c", source="while True: pass", stop_s=600)
"""


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
def test_a_child_dies_with_its_grader(name, tmp_path):
    needs(name)
    begun, started = tmp_path / "begun", []
    process = begin(STARTS, name, begun)
    try:
        wait_until(begun.exists)
        started = children(process.pid)
        assert started and all(map(lives, started))
    finally:
        kill(process, started)
    sandbox.sweep()
