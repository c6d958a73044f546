"""Running an answer: on copies of its inputs, for so long, with words for what it raised."""

import contextlib
import contextvars
import ctypes
import inspect
import linecache
import threading
import traceback
from collections.abc import Callable, Iterator
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

__all__ = ["Mistake", "Outcome", "call", "in_time", "raised"]

T = TypeVar("T")


class Outcome(Enum):
    """Of what kind it is, what is wrong with an answer."""

    WRONG = auto()
    NOT_FILLED_IN = auto()
    RAISED = auto()
    TOO_SLOW = auto()


class Mistake(Exception):
    """What is wrong with an answer, in words; its kind; and, if it raised, the name of the exception's class."""

    def __init__(self, words: str, kind: Outcome = Outcome.WRONG, error: str = "") -> None:
        super().__init__(words)
        self.kind, self.error = kind, error


class _Stopped(BaseException):
    """Raised inside an answer that runs too long. ``except Exception`` does not catch it."""


@contextlib.contextmanager
def float64_by_default() -> Iterator[None]:
    """Make float64 on the CPU the default for a while, as the inputs of exercises are."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("cpu"):
            yield
    finally:
        torch.set_default_dtype(default)


def in_time(run: Callable[[], T], seconds: float) -> T:
    """Run in a thread of its own, which can be stopped, and abandoned if it cannot.

    Args:
        run: what to run.
        seconds: how long it may take.

    Returns:
        What it returned.

    Raises:
        Mistake: if it runs longer.
    """
    result: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            result.append(run())
        except BaseException as error:  # also what would end the interpreter
            errors.append(error)

    worker = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
    worker.start()
    try:
        worker.join(seconds)
    except KeyboardInterrupt:
        _stop(worker)
        raise
    if worker.is_alive():
        ended = _stop(worker)
        raise Mistake(
            f"your code was still running after {seconds:g} seconds and was stopped; look for a loop that never "
            f"ends or is very long"
            f"{'' if ended else ' (it does not let itself be stopped: restart the kernel)'}",
            Outcome.TOO_SLOW,
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
    """Say in words what an answer raised, and in which of its lines.

    Args:
        error: what was caught.

    Returns:
        The words.
    """
    words = f"your code raised {type(error).__name__}{f': {error}' if str(error) else ''}"
    package, libraries = Path(__file__).parents[1], Path(torch.__file__).parents[1]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        outside = not any(Path(frame.filename).is_relative_to(folder) for folder in (package, libraries))
        line = linecache.getline(frame.filename, frame.lineno or 0).strip()
        if outside and line and not frame.filename.startswith("<frozen"):
            return f"{words.rstrip('.')} (in the line `{line}`)"
    return words


def call(answer: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
    """Call the answer on copies of the inputs.

    Args:
        answer: a function or a class.
        inputs: the arguments. Tensors and containers are copied; other objects, such as a model, are handed over.
        named: arguments by name, as they are.

    Returns:
        What it returned.

    Raises:
        NotImplementedError: if it returns nothing: a stub.
        Mistake: if it is not callable, raises, or changes a tensor it was given.
    """
    if not callable(answer):
        raise Mistake(f"hand over the function itself; got {type(answer).__name__}")
    copies = [_copy(x) for x in inputs]
    try:
        result = answer(*copies, **named)
    except Mistake:
        raise
    except Exception as error:
        if isinstance(error, NotImplementedError) and _is_stub(error):
            raise
        raise Mistake(raised(error), Outcome.RAISED, type(error).__name__) from error
    if result is None or result is Ellipsis:
        if result is None and does_something(answer):
            raise Mistake("your function returns nothing; hand the result back with return (print only shows it)")
        raise NotImplementedError
    for i, (old, new) in enumerate(zip(inputs, copies, strict=True)):
        if not _same(old, new):
            raise Mistake(f"your function changed its arguments ({_name(answer, i)}); work on new tensors")
    return result


def does_something(answer: Callable[..., Any]) -> bool:
    """Whether a function or module is more than a stub: it uses names, or has variables besides its parameters."""
    code = getattr(inspect.unwrap(getattr(answer, "forward", answer)), "__code__", None)
    if code is None:
        return False
    starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return bool(code.co_names) or code.co_nlocals > code.co_argcount + code.co_kwonlyargcount + starred


def _is_stub(error: NotImplementedError) -> bool:
    """Whether the code itself raises it; PyTorch does too, where it has no such operation for a type."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return "NotImplementedError" in frame.f_code.co_names


def _copy(x: Any) -> Any:
    """Copy tensors and containers of them; a model is handed over as it is."""
    if isinstance(x, Tensor):
        return x.detach().clone().requires_grad_(x.requires_grad)
    return type(x)(map(_copy, x)) if isinstance(x, list | tuple) else x


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        a, b = a.detach().double(), b.detach().double()
        return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return not isinstance(a, int | float) or bool(a == b or a != a)


def _name(answer: Callable[..., Any], position: int) -> str:
    try:
        parameter = list(inspect.signature(answer).parameters.values())[position]
        return parameter.name if parameter.kind != parameter.VAR_POSITIONAL else f"number {position + 1}"
    except (IndexError, TypeError, ValueError):
        return f"number {position + 1}"
