"""Grading a whole course: several submissions side by side, each result written as soon as it is there.

A result is a file, put in its place at once and whole, with a key made of all that it depends on. Where the key is
still the same nothing is graded again; so grading twice gives the same, and after a kill it goes on where it was. Each
process that grades dies with the one that started it, and its sandbox with it.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, cast

import torch

from .assignment import load, variant_for
from .child import die_with
from .course import Course, open_course
from .grading import Result, grade, is_ungraded, not_graded
from .packages import FOLDERS, needed_files
from .rebuild import Flag, Unreadable
from .sandbox import SANDBOXES, Limits, NoSandbox, Sandbox, strongest, sweep
from .variants import PLAIN

__all__ = ["grade_all", "grade_one", "limits_of", "read_result"]

ATTEMPTS = 2  # at a submission whose grader ended


def limits_of(course: Course) -> Limits:
    """Return the limits that a course.toml sets."""
    return Limits(**course.settings["limits"])


def read_result(course: Course, name: str, student: str) -> Result | None:
    """Return a stored result; None if there is none that can be read."""
    try:
        result = json.loads(course.result(name, student).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return cast(Result, result) if isinstance(result, dict) and "tasks" in result else None


# ---- Keys ------------------------------------------------------------------------------------------------------------


@functools.cache
def _code() -> bytes:
    """Return a digest of all code that has a part in grading."""
    digest = hashlib.sha256(torch.__version__.encode() + sys.version.encode())
    for name, path in needed_files().items():
        if path.suffix == ".py":
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.digest()


def _key(course: Course, name: str, student: str, received: Path | None, sandbox: Sandbox, limits: Limits) -> str:
    """Return a digest of all that a result depends on."""
    parts = [_code(), course.master(name).read_bytes(), course.secret, name.encode(), student.encode()]
    parts += [path.read_bytes() for path in sorted(course.hidden(name).parent.glob("*.py"))]
    parts += [sandbox.name.encode(), repr(limits).encode(), received.read_bytes() if received else b""]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


# ---- One submission --------------------------------------------------------------------------------------------------


def grade_one(course: Course, name: str, student: str, sandbox: Sandbox) -> Result:
    """Rebuild and grade the newest attempt of one student, and store notebook and result.

    Raises:
        NoSandbox: if no child starts.
        FileNotFoundError: if nothing was handed in.
    """
    import nbformat

    from .release import lay, make_release

    received = course.newest(name, student)
    if received is None:
        raise FileNotFoundError(f"{student} has handed in nothing for {name}")
    limits = limits_of(course)
    key = _key(course, name, student, received, sandbox, limits)
    assignment = load(course.hidden(name))
    own = variant_for(assignment, student, course.secret)
    master = nbformat.read(course.master(name), as_version=4)
    common = dataclasses.replace(variant_for(assignment, PLAIN, course.secret), student=student)
    try:
        variant, notebook, flags = lay(received.read_bytes(), master, assignment, own, common)
    except Unreadable as error:
        flag: Flag = {"kind": "unreadable", "task": "", "words": f"{received.name} cannot be graded: {error}"}
        notebook = make_release(master, assignment, own)
        result = not_graded(assignment, own, sandbox, flag, "what was handed in cannot be read")
    else:
        private = [course.root]
        result = grade(notebook, assignment, variant, sandbox=sandbox, limits=limits, flags=flags, private=private)
    result["key"] = key
    text = nbformat.writes(notebook)
    result["rebuilt"] = hashlib.sha256(text.encode()).hexdigest()
    write(course.submitted(name, student), text)
    write(course.result(name, student), json.dumps(result, indent=1, allow_nan=False))
    return result


def write(path: Path, text: str) -> None:
    """Put a file in its place, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=".part")
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


# ---- Side by side ----------------------------------------------------------------------------------------------------


def work() -> None:
    """Grade what is asked for on stdin, one student a line, until there is no more. This is a process of its own."""
    course, name, sandbox, parent = open_course(sys.argv[1]), sys.argv[2], SANDBOXES[sys.argv[3]], int(sys.argv[4])
    die_with(parent)
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        student = json.loads(line)
        reply: dict[str, str] = {"student": student}
        try:
            grade_one(course, name, student, sandbox)
        except NoSandbox as error:
            reply["sandbox"] = str(error)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            reply["error"] = f"{type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})"
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


class _Worker:
    """A process that grades one submission after another."""

    def __init__(self, course: Course, name: str, sandbox: Sandbox) -> None:
        program = "from attention_classroom.batch import work; work()"
        paths = [*(str(folder.parent) for folder in FOLDERS.values()), os.environ.get("PYTHONPATH", "")]
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(course.root), name, sandbox.name, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            text=True,
            encoding="utf-8",
        )

    def grade(self, student: str) -> dict[str, str]:
        """Have one submission graded; say what became of it."""
        asked, answers = cast(IO[str], self.process.stdin), cast(IO[str], self.process.stdout)
        try:
            asked.write(json.dumps(student) + "\n")
            asked.flush()
            line = answers.readline()
        except OSError:
            line = ""
        if not line:
            return {"student": student, "ended": f"its grader ended with {self.process.wait()}"}
        return cast(dict[str, str], json.loads(line))

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            cast(IO[str], self.process.stdin).close()
        self.process.kill()
        self.process.wait()
        cast(IO[str], self.process.stdout).close()


class _Pool:
    """Workers side by side, each fed by a thread of its own, until nothing waits any more.

    A worker is started by the thread that feeds it, since Linux ends a process with the thread that started it.
    """

    def __init__(self, course: Course, name: str, sandbox: Sandbox, students: Sequence[str], jobs: int) -> None:
        self.start = functools.partial(_Worker, course, name, sandbox)
        self.waiting: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self.done: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
        self.workers: dict[int, _Worker] = {}
        self.closed = False
        for student in students:
            self.waiting.put((student, 1))
        for number in range(min(jobs, len(students))):
            threading.Thread(target=self.feed, args=(number,), daemon=True).start()

    def feed(self, number: int) -> None:
        """Hand a worker one submission after another; what fails comes to the end of the queue, once."""
        while not self.closed:
            try:
                student, attempt = self.waiting.get_nowait()
            except queue.Empty:
                return
            try:
                if number not in self.workers:
                    self.workers[number] = self.start()
                reply = self.workers[number].grade(student)
            except Exception as error:
                reply = {"student": student, "ended": f"its grader does not start: {error}"}
            if "ended" in reply and number in self.workers:
                self.workers.pop(number).close()
            if len(reply) > 1 and attempt < ATTEMPTS and not self.closed:
                self.waiting.put((student, attempt + 1))
            else:
                self.done.put(reply)

    def close(self) -> None:
        """End all workers."""
        self.closed = True
        for worker in list(self.workers.values()):
            worker.close()


def _grade_these(
    course: Course, name: str, sandbox: Sandbox, students: Sequence[str], jobs: int, told: Callable[[str], None]
) -> dict[str, dict[str, str]]:
    """Grade submissions side by side; return what went wrong, by student."""
    failed = {}
    pool = _Pool(course, name, sandbox, students, jobs)
    try:
        for _ in students:
            reply = pool.done.get()
            told(reply["student"])
            if len(reply) > 1:
                failed[reply["student"]] = reply
    finally:
        pool.close()
    return failed


def grade_all(
    course: str | Path,
    name: str,
    *,
    jobs: int | None = None,
    sandbox: Sandbox | None = None,
    progress: bool = True,
    students: Iterable[str] | None = None,
) -> list[Result]:
    """Grade all that was handed in for an assignment, or by these students, and is not graded yet.

    Args:
        course: its folder.
        name: of the assignment.
        jobs: how many submissions at a time; None: one for each core.
        sandbox: where the cells run; None: the strongest that works.
        progress: whether to show a bar.
        students: their ids.

    Returns:
        The results of all who handed something in, in the order of the list of students.

    Raises:
        NoSandbox: if none works, or it did not start for some submissions. All others are graded then.
        ValueError: if a student of ``students`` has handed in nothing.
    """
    from tqdm import tqdm

    opened = open_course(course)
    opened.named(name)
    sandbox = sandbox or strongest()
    sweep()
    there = opened.received_from(name)
    wanted = there if students is None else list(students)
    if unknown := [student for student in wanted if student not in there]:
        raise ValueError(f"students must have handed in something; got {', '.join(unknown)}")
    load(opened.hidden(name))  # what is wrong with it is better said once
    limits = limits_of(opened)
    open_ = [student for student in wanted if not _is_done(opened, name, student, sandbox, limits)]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    failed: dict[str, dict[str, str]] = {}
    if open_:
        with tqdm(
            total=len(wanted), initial=len(wanted) - len(open_), desc=name, unit="submission", disable=not progress
        ) as bar:

            def told(student: str) -> None:
                bar.set_postfix_str(student, refresh=False)
                bar.update()

            failed = _grade_these(opened, name, sandbox, open_, jobs or cores, told)
    not_started = {student: reply["sandbox"] for student, reply in failed.items() if "sandbox" in reply}
    for student, reply in failed.items():
        if student not in not_started:
            _store_failure(opened, name, student, sandbox, reply.get("error") or reply["ended"])
    if not_started:
        reasons = "; ".join(sorted(set(not_started.values())))
        raise NoSandbox(f"not graded: {', '.join(not_started)}: {reasons}. All others are graded; run it again")
    results = [read_result(opened, name, student) for student in wanted]
    return [result for result in results if result is not None]


def _is_done(course: Course, name: str, student: str, sandbox: Sandbox, limits: Limits) -> bool:
    result = read_result(course, name, student)
    if result is None or is_ungraded(result) or not course.submitted(name, student).is_file():
        return False
    return result.get("key") == _key(course, name, student, course.newest(name, student), sandbox, limits)


def _store_failure(course: Course, name: str, student: str, sandbox: Sandbox, words: str) -> None:
    """Store that the grader failed: no silent zero, and the next run tries again."""
    assignment = load(course.hidden(name))
    variant = variant_for(assignment, student, course.secret)
    flag: Flag = {"kind": "ungraded", "task": "", "words": f"the grader failed: {words}"}
    result = not_graded(assignment, variant, sandbox, flag, "not graded: the grader failed")
    write(course.result(name, student), json.dumps(result, indent=1, allow_nan=False))
