"""What an answer uses that is there in a student's notebook, and is missing when it is graded."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

__all__ = ["missing_when_graded"]

PACKAGE = __name__.split(".")[0]
INSTALLED = {"site-packages", "dist-packages"}


def missing_when_graded(answer: Any) -> list[str]:
    """Say what will be missing: this package, and modules that lie beside the notebook.

    Args:
        answer: a function, a class or a value of the notebook.

    Returns:
        What there is to say, a sentence or two for each.

    Example:
        >>> from attention_tutorial import causal_mask
        >>> missing_when_graded(causal_mask)
        ['it uses attention_tutorial, which is missing when you are graded. Write that part yourself.']
    """
    return [
        f"it uses {PACKAGE}, which is missing when you are graded. Write that part yourself."
        if name == PACKAGE
        else f"it uses {name}, a module beside the notebook. Copy its code into the notebook."
        for name in sorted(set(_missing(answer, [])))
    ]


def _missing(x: Any, seen: list[Any]) -> Iterator[str]:
    """Yield this package, and modules beside the notebook, that a thing needs through all that it names."""
    x = getattr(x, "__func__", getattr(x, "func", x))  # of a method, of a partial function
    x = x if isinstance(x, FunctionType | ModuleType | type) else type(x)
    if any(x is other for other in seen):
        return
    seen.append(x)
    name = (x.__name__ if isinstance(x, ModuleType) else str(x.__module__)).split(".")[0]
    if name == PACKAGE or _is_beside(name):
        yield name
    elif name == "__main__" and isinstance(x, type):
        for part in (*x.__bases__, *vars(x).values()):
            yield from _missing(part, seen)
    elif name == "__main__" and isinstance(x, FunctionType):
        parts = [cell.cell_contents for cell in x.__closure__ or () if cell != CellType()]
        parts += [x.__globals__.get(name, sys.modules.get(name)) for name in _names(x.__code__)]
        for part in parts:
            yield from _missing(part, seen)


def _is_beside(name: str) -> bool:
    """Whether a module is a file in the notebook's folder."""
    file = Path(getattr(sys.modules.get(name), "__file__", None) or "/")
    installed = name == "__main__" or name in sys.stdlib_module_names or INSTALLED & {*file.parts}
    return not installed and file.is_relative_to(Path.cwd()) and file.is_file()


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that code reads or imports, with those of the functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
