"""Show results, numbers, and the package's own source, in a page: what is read is what is imported."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Source", "rounded", "show_source"]


@dataclass(frozen=True)
class Source:
    """Python source that a notebook renders as a highlighted listing.

    Attributes:
        name: the importable name of the object.
        code: its source.
    """

    name: str
    code: str

    def __repr__(self) -> str:
        return self.code

    def _repr_markdown_(self) -> str:
        return f"```python\n# {self.name}\n{self.code}\n```"


def show_source(obj: Callable[..., Any] | type) -> Source:
    """Return the source of a function or class of the package without docstrings, which the API reference shows.

    Args:
        obj: a function, method or class.

    Returns:
        A :class:`Source`. As the last expression of a cell it renders as a Python listing.

    Raises:
        TypeError: if ``obj`` has no Python source.

    Example:
        >>> from attention_tutorial import causal_mask
        >>> show_source(causal_mask).code.splitlines()[-1].strip()
        'return torch.ones(m, n, dtype=torch.bool, device=device).tril(n - m)'
    """
    if inspect.ismodule(obj):
        raise TypeError(f"obj must be a function or class written in Python; got the module {obj.__name__}")
    try:
        code = textwrap.dedent(inspect.getsource(obj))
    except (TypeError, OSError) as error:
        raise TypeError(f"obj must be a function or class written in Python; got {obj!r}") from error
    name = f"{obj.__module__}.{obj.__qualname__}"
    return Source(name, _without_docstrings(code).rstrip())


def rounded(values: Any, digits: int = 3) -> str:
    """Write numbers with a fixed count of digits after the point, the same on every machine.

    Args:
        values: a number, or a tensor, array or (nested) list of numbers.
        digits: how many digits after the point.

    Returns:
        The numbers as text, without the "-0.000" that rounding errors leave behind.

    Example:
        >>> rounded([[0.5, -1e-17], [2 / 3, 1]], digits=2)
        '[[0.50, 0.00], [0.67, 1.00]]'
    """
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (list, tuple)):
        return f"[{', '.join(rounded(value, digits) for value in values)}]"
    return f"{round(values, digits) + 0.0:.{digits}f}"


def show(result: object) -> None:
    """Show an object in a notebook, and print it elsewhere, as in a script that was made from one.

    Args:
        result: an object whose ``repr`` is made to be read.

    Example:
        >>> show(Source("two", "def two(): return 2"))
        def two(): return 2
    """
    try:
        get_ipython  # type: ignore[name-defined]  # noqa: B018
    except NameError:
        print(result)
        return
    from IPython.display import display

    display(result)


def _without_docstrings(code: str) -> str:
    """Cut every docstring, and nothing else, out of the source."""
    lines = code.splitlines()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node, clean=False) is not None:
            first, last = node.body[0].lineno - 1, node.body[0].end_lineno
            if isinstance(node, ast.ClassDef) and last is not None and last < len(lines) and not lines[last].strip():
                last += 1  # the blank line after a class's docstring
            lines[first:last] = [None] * ((last or first) - first)  # type: ignore[list-item]
    return "\n".join(line for line in lines if line is not None)
