"""Grading a whole course: several submissions side by side, each result written as soon as it is there.

A result is a file, put in its place at once and whole, with a key made of all that it depends on. Where the key is
still the same nothing is graded again; so grading twice gives the same, and after a kill it goes on where it was. Each
process that grades dies with the one that started it, and its sandbox with it.
"""

import dataclasses
import functools
import hashlib
import json
import multiprocessing
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from pathlib import Path
from typing import Any, cast

import torch
from pebble import ProcessPool

from .assignment import PLAIN, load, variant_for
from .confinement import set_parent_death_signal
from .course import Course, open_course, write
from .grading import Result, grade, is_ungraded, not_graded
from .rebuild import Flag, Unreadable
from .sandbox import Limits, NoSandbox, Sandbox, needed_files, strongest, sweep

__all__ = ["grade_all", "grade_one", "is_of_now", "limits_of", "read_result"]


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


def _digest(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def _judged(course: Course, name: str, student: str, received: Path | None, limits: Limits) -> str:
    """Return a digest of what a result is about: what was handed in, what was asked, the checks and the limits."""
    parts = [course.master(name).read_bytes(), course.secret, name.encode(), student.encode()]
    others = set(course.assignments) - {name}
    parts += [path.read_bytes() for path in sorted(course.hidden("").parent.glob("*.py")) if path.stem not in others]
    parts += [repr(course.questions(name)).encode(), received.read_bytes() if received else b""]
    for path in sorted(received.parent.iterdir()) if received else ():  # modules come along, other files are named
        parts += [path.name.encode(), path.read_bytes() if path.suffix == ".py" else b""]
    return _digest([*parts, repr(limits).encode()])


def _key(course: Course, name: str, student: str, received: Path | None, sandbox: Sandbox, limits: Limits) -> str:
    """Return digests of all that a result depends on: what it is about, then what it was found with."""
    found_with = _digest([_code(), sandbox.name.encode()])
    return f"{_judged(course, name, student, received, limits)} {found_with}"


def is_of_now(course: Course, name: str, student: str, result: Mapping[str, Any]) -> bool:
    """Whether a result is of a student's newest attempt, and of questions, checks and limits as they are now.

    It may come from another computer or an older version of this program.
    """
    judged = _judged(course, name, student, course.newest(name, student), limits_of(course))
    return str(result.get("key")).split(" ")[0] == judged


# ---- One submission --------------------------------------------------------------------------------------------------


def grade_one(course: Course, name: str, student: str, sandbox: Sandbox) -> Result:
    """Rebuild and grade the newest attempt of one student, and store notebook and result.

    Raises:
        NoSandbox: if no child starts.
        FileNotFoundError: if nothing was handed in.
    """
    import nbformat

    from .release import make_release, overlay

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
        variant, notebook, flags = overlay(received, master, assignment, own, common)
    except Unreadable as error:
        flag: Flag = {"kind": "unreadable", "task": "", "words": f"{received.name} cannot be graded: {error}"}
        notebook = make_release(master, assignment, own)
        result = not_graded(assignment, own, sandbox, flag, "what was handed in cannot be read")
    else:
        private = [course.root]
        result = grade(notebook, assignment, variant, sandbox=sandbox, limits=limits, flags=flags, private=private)
    result["key"] = key
    write(course.rebuilt(name, student), nbformat.writes(notebook))
    write(course.result(name, student), json.dumps(result, indent=1, allow_nan=False))
    return result


# ---- Side by side ----------------------------------------------------------------------------------------------------


def _start_worker(grader: int) -> None:
    set_parent_death_signal(grader)
    torch.set_num_threads(1)


def _grade(course: Course, name: str, student: str, sandbox: Sandbox) -> None:
    grade_one(course, name, student, sandbox)  # the result is in its file


def _grade_these(
    course: Course, name: str, sandbox: Sandbox, students: Sequence[str], jobs: int
) -> Iterator[tuple[str, BaseException | None]]:
    """Grade submissions side by side; yield each student and what went wrong. What fails is tried once more."""
    context = multiprocessing.get_context("spawn")
    workers = min(jobs, len(students))
    with ProcessPool(workers, initializer=_start_worker, initargs=(os.getpid(),), context=context) as pool:
        try:
            for is_last in (False, True):
                graded: dict[Future[None], str] = {
                    pool.schedule(_grade, (course, name, student, sandbox)): student for student in students
                }
                students = []
                for future in as_completed(graded):
                    if (error := future.exception()) is None or is_last:
                        yield graded[future], error
                    else:
                        students.append(graded[future])
        finally:
            pool.stop()


def grade_all(
    course: str | Path,
    name: str,
    *,
    jobs: int | None = None,
    sandbox: Sandbox | None = None,
    students: Iterable[str] | None = None,
) -> list[Result]:
    """Grade all that was handed in for an assignment, or by these students, and is not graded yet.

    Args:
        course: its folder.
        name: of the assignment.
        jobs: how many submissions at a time; None: one for each core.
        sandbox: where the cells run; None: the strongest that works.
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
    not_started: dict[str, str] = {}
    if open_:
        graded = _grade_these(opened, name, sandbox, open_, jobs or cores)
        for student, error in tqdm(graded, desc=name, total=len(open_), unit="submission", disable=None):
            if isinstance(error, NoSandbox):
                not_started[student] = str(error)
            elif error is not None:
                _store_failure(opened, name, student, sandbox, f"{type(error).__name__}: {error}")
    if not_started:
        reasons = "; ".join(sorted(set(not_started.values())))
        raise NoSandbox(f"not graded: {', '.join(not_started)}: {reasons}. All others are graded; run it again")
    results = [read_result(opened, name, student) for student in wanted]
    return [result for result in results if result is not None]


def _is_done(course: Course, name: str, student: str, sandbox: Sandbox, limits: Limits) -> bool:
    result = read_result(course, name, student)
    if result is None or is_ungraded(result) or not course.rebuilt(name, student).is_file():
        return False
    return result.get("key") == _key(course, name, student, course.newest(name, student), sandbox, limits)


def _store_failure(course: Course, name: str, student: str, sandbox: Sandbox, words: str) -> None:
    """Store that the grader failed: no noop zero, and the next run tries again."""
    assignment = load(course.hidden(name))
    variant = variant_for(assignment, student, course.secret)
    flag: Flag = {"kind": "ungraded", "task": "", "words": f"the grader failed: {words}"}
    result = not_graded(assignment, variant, sandbox, flag, "not graded: the grader failed")
    write(course.result(name, student), json.dumps(result, indent=1, allow_nan=False))
