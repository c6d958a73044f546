"""What an answer uses that is there in a student's notebook, and is missing when it is graded."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import torch

__all__ = ["missing_when_graded"]

PACKAGE = __name__.split(".")[0]
INSTALLED = {"site-packages", "dist-packages"}
THERE = {"IPython", "PIL", "functorch", "matplotlib", "mpl_toolkits", "numpy", "torch", "tqdm", "typing_extensions"}
GPUS = ("cuda", "mps", "xpu")
GPU = "it names a GPU. Grading has none: there, it means the CPU."


def missing_when_graded(answer: Any) -> list[str]:
    """Say what will be missing: this package, others that are installed here, modules beside the notebook, a GPU.

    Args:
        answer: a function, a class or a value of the notebook.

    Returns:
        What there is to say, a sentence or two for each.

    Example:
        >>> from attention_tutorial import causal_mask
        >>> missing_when_graded(causal_mask)
        ['it uses attention_tutorial, which is missing when you are graded. Write that part yourself.']
    """
    return sorted(set(_missing(answer, [])))


def _missing(x: Any, seen: list[Any]) -> Iterator[str]:
    """Yield a sentence for all that will be missing of what a thing needs through all that it names."""
    if isinstance(x, str | torch.device | torch.Tensor):
        if str(getattr(x, "device", x)).split(":")[0] in GPUS:
            yield GPU
        return
    x = getattr(x, "__func__", getattr(x, "func", x))  # of a method, of a partial function
    x = x if isinstance(x, FunctionType | ModuleType | type) else type(x)
    if any(x is other for other in seen):
        return
    seen.append(x)
    name = (x.__name__ if isinstance(x, ModuleType) else str(x.__module__)).split(".")[0]
    words = _why_missing(name)
    if words:
        yield f"it uses {name}, {words}"
    elif name == "__main__" and isinstance(x, type):
        for part in (*x.__bases__, *vars(x).values()):
            yield from _missing(part, seen)
    elif name == "__main__" and isinstance(x, FunctionType):
        parts = [cell.cell_contents for cell in x.__closure__ or () if cell != CellType()]
        for code in _codes(x.__code__):
            parts += [x.__globals__.get(name, sys.modules.get(name)) for name in code.co_names]
            parts += [*code.co_names, *code.co_consts]
        for part in parts:
            yield from _missing(part, seen)


def _why_missing(name: str) -> str:
    """Say why a module will be missing, or nothing if it will be there."""
    if name == PACKAGE:
        return "which is missing when you are graded. Write that part yourself."
    file = Path(getattr(sys.modules.get(name), "__file__", None) or "/")
    if name == "__main__" or name in THERE or name in sys.stdlib_module_names:
        return ""
    if INSTALLED & {*file.parts}:
        return "which may be missing when you are graded. Write that part yourself."
    beside = file.is_relative_to(Path.cwd()) and file.is_file()
    return "a module beside the notebook. Copy its code into the notebook." if beside else ""


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield code, and that of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
