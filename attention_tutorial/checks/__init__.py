"""Exercises that are checked on the spot.

``check("2.1", my_answer)`` runs the learner's answer on inputs that tell right from wrong, and says in words what it
found. It never raises on a wrong answer and never hangs: a notebook with open exercises still runs from top to bottom.
"""

import contextvars
import ctypes
import importlib
import linecache
import pkgutil
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

__all__ = ["Mistake", "check", "diagnose", "exercise", "exercises"]

Checker = Callable[[Any], str | None]

NOT_FILLED_IN = "not filled in yet"
SECONDS = 10.0  # for one answer, on all inputs; right answers take a fraction of a second
_CHECKERS: dict[str, Checker] = {}


class Mistake(Exception):
    """What is wrong with an answer, in words. A checker may raise it in place of returning the words."""


class _Stopped(BaseException):
    """Raised inside an answer that runs too long. ``except Exception`` does not catch it."""


def exercise(exercise_id: str) -> Callable[[Checker], Checker]:
    """Register a checker: a function of the answer that returns None when it is right, else a diagnosis in words.

    Args:
        exercise_id: such as ``"2.1"``, the exercise's number in the book.

    Returns:
        A decorator of the checker.
    """

    def register(checker: Checker) -> Checker:
        _CHECKERS[exercise_id] = checker
        return checker

    return register


def exercises() -> list[str]:
    """List the exercises that have a check.

    Returns:
        Their numbers, in the order of the book.

    Example:
        >>> exercises()[:3]
        ['1.1', '1.2', '1.3']
    """
    for chapter in pkgutil.iter_modules(__path__, prefix=f"{__name__}."):
        importlib.import_module(chapter.name)
    return sorted(_CHECKERS, key=lambda name: [int(part) for part in name.split(".")])


def diagnose(exercise_id: str, answer: Any) -> str | None:
    """Run the checker of an exercise on an answer.

    The inputs are float64, so float64 is the default type while it runs. An answer that takes longer than ten seconds
    is stopped.

    Args:
        exercise_id: such as ``"2.1"``, the exercise's number in the book.
        answer: what the exercise asks for: a value, a function or a class.

    Returns:
        ``None`` if the answer is right, ``"not filled in yet"`` for a stub, else a diagnosis in words.

    Raises:
        ValueError: if there is no such exercise.
    """
    known = exercises()
    if exercise_id not in known:
        raise ValueError(f"exercise_id must be one of {', '.join(known)}; got {exercise_id!r}")
    if answer is None or answer is Ellipsis:
        return NOT_FILLED_IN
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        return _in_time(lambda: _CHECKERS[exercise_id](answer))
    except NotImplementedError:
        return NOT_FILLED_IN
    except Mistake as mistake:
        return str(mistake)
    except SystemExit:
        return "your code called exit(); return the result instead"
    except Exception as error:  # not from calling the answer: that is told in `call`
        kind = f"{type(error).__name__}: {error}".rstrip(".: ")
        return f"the check cannot make sense of this answer ({kind}); compare what you return with what is asked for"
    finally:
        torch.set_default_dtype(default)


def _in_time(run: Callable[[], str | None]) -> str | None:
    """Run in a thread of its own, which can be stopped, and abandoned if it cannot."""
    result: list[str | None] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            result.append(run())
        except BaseException as error:  # also what would end the interpreter
            errors.append(error)

    worker = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
    worker.start()
    try:
        worker.join(SECONDS)
    except KeyboardInterrupt:
        _stop(worker)
        raise
    if worker.is_alive():
        ended = _stop(worker)
        return (
            f"your code was still running after {SECONDS:g} seconds and was stopped; look for a loop that never ends"
            f"{'' if ended else ' (it does not let itself be stopped: restart the kernel)'}"
        )
    if errors:
        raise errors[0]
    return result[0]


def _stop(worker: threading.Thread) -> bool:
    """Raise `_Stopped` inside a thread; return whether that ended it."""
    for _ in range(5):  # an `except:` without a type may swallow one
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident or 0), ctypes.py_object(_Stopped))
        worker.join(0.2)
        if not worker.is_alive():
            return True
    return False


def raised(error: Exception) -> str:
    """Say in words what an answer raised, and in which of its lines."""
    words = f"your code raised {type(error).__name__}{f': {error}' if str(error) else ''}"
    package, libraries = Path(__file__).parents[1], Path(torch.__file__).parents[1]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        outside = not any(Path(frame.filename).is_relative_to(folder) for folder in (package, libraries))
        line = linecache.getline(frame.filename, frame.lineno or 0).strip()
        if outside and line and not frame.filename.startswith("<frozen"):
            return f"{words.rstrip('.')} (in the line `{line}`)"
    return words


def check(exercise_id: str, answer: Any) -> None:
    """Print what the checker of an exercise has to say about an answer.

    Args:
        exercise_id: such as ``"2.1"``, the exercise's number in the book.
        answer: what the exercise asks for: a value, a function or a class.

    Raises:
        ValueError: if there is no such exercise.

    Example:
        >>> check("2.1", None)
        Exercise 2.1: not filled in yet.
        >>> check("2.1", [0.1, 0.4, 0.6])
        Exercise 2.1: not yet. Weights sum to 1; yours sum to 1.100.
    """
    found = diagnose(exercise_id, answer)
    if found is None:
        print(f"Exercise {exercise_id}: right.")
    elif found == NOT_FILLED_IN:
        print(f"Exercise {exercise_id}: {found}.")
    else:
        print(f"Exercise {exercise_id}: not yet. {found[0].upper()}{found[1:].rstrip('.')}.")
