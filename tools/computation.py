"""What a chapter computes: its code and what this reaches in the package, without words.

Only that can change what a claim measures, so only that makes the record of a replication old. Names lead from the
chapter's code to the functions, classes and constants of the package (a class counts as a whole), from these to others
that they name, and to the data that they read. Docstrings, comments, layout, annotations, the place of an import and
the text of errors, warnings, prints and claims are left out, and so are the parts of the package that only show things.
"""

import ast
import functools
import hashlib
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from tools.book import ROOT, syntax
from tools.colab import own_code

PACKAGE = ROOT / "attention_tutorial"
SHOWS = {f"attention_tutorial.{part}" for part in ("exercises", "notebook", "plotting", "widgets")}
Binding = tuple[str, str]  # a module and a name in it; an empty name stands for the module itself


def fingerprint(notebook: NotebookNode) -> str:
    """Return a short text that changes where a chapter computes something else."""
    code = chapter_code(notebook)
    imported = _imports(code, "")
    shown = {name for name, (module, _) in imported.items() if _only_shows(module)}
    code = _Wordless(shown - {"claim"}).visit(code)
    imports = {syntax(node) for node in code.body if isinstance(node, ast.Import | ast.ImportFrom)}
    code.body = [node for node in code.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    parts = [syntax(code), *sorted(imports), *sorted(set(reached(code, imported)))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def chapter_code(notebook: NotebookNode) -> ast.Module:
    """Return the statements of a chapter, less the lines that install and the exercises, which measure nothing."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    sources = [own_code(cell) for cell in cells if "exercise" not in cell.metadata.get("tags", [])]
    return ast.parse("\n".join(sources))


class _Wordless(ast.NodeTransformer):
    """Drop what computes nothing: docstrings, annotations, what is said, imports from the package, what only shows."""

    def __init__(self, shown: Set[str] = frozenset()) -> None:
        self.shown = shown

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        return None if node.level or str(node.module).startswith("attention_tutorial") else node

    def visit_Expr(self, node: ast.Expr) -> Any:
        shows = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in self.shown
        return None if shows or isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        return ast.Raise(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)

    def visit_Assert(self, node: ast.Assert) -> Any:
        return self.generic_visit(ast.Assert(node.test))

    def visit_Call(self, node: ast.Call) -> Any:
        name = ast.unparse(node.func)
        if name == "claim":  # its words and bounds are not what is measured
            node.args, node.keywords = [node.args[0], *node.args[2:]], [k for k in node.keywords if k.arg == "measured"]
        if name in {"print", "warnings.warn"}:
            node.args = [part for argument in node.args for part in getattr(argument, "values", [argument])]
            node.args = [argument for argument in node.args if not isinstance(argument, ast.Constant)]
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> Any:
        return ast.arg(node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        return self.generic_visit(ast.AnnAssign(node.target, ast.Constant(None), node.value, node.simple))


# ---- What code reaches in the package -------------------------------------------------------------------------------


def reached(code: ast.Module, imported: dict[str, Binding]) -> Iterator[str]:
    """Yield, as text, each function, class and constant of the package that code leads to, and each file of data."""
    todo = list(_uses(code, {}, imported))
    seen: set[Binding] = set()
    words: set[Any] = set()
    while todo:
        module, name = binding = todo.pop()
        path = _file(module)
        if binding in seen or path is None or _only_shows(module) or _file(f"{module}.{name}"):
            continue
        seen.add(binding)
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        defined, imported = _module(path.read_text(encoding="utf-8"), package)
        if name in imported:
            todo.append(imported[name])
        elif name not in defined:
            raise LookupError(f"{module} defines no {name}")
        for statement in defined.get(name, []):
            todo += _uses(statement, {own: (module, own) for own in defined}, imported)
            yield syntax(_Wordless().visit(ast.parse(ast.unparse(statement))))
            words |= {node.value for node in ast.walk(statement) if isinstance(node, ast.Constant)}
    yield from _data(words)


@functools.cache
def _module(source: str, package: str) -> tuple[dict[str, list[ast.stmt]], dict[str, Binding]]:
    """Return the statements of a module that bind each of its names, and what its imports bind."""
    tree = ast.parse(source)
    defined: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        stored = {
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for name in {statement.name} if isinstance(statement, ast.FunctionDef | ast.ClassDef) else stored:
            defined.setdefault(name, []).append(statement)
    return defined, _imports(tree, package)


def _file(module: str) -> Path | None:
    """Return the file of a module of the package."""
    base = ROOT / module.replace(".", "/")
    files = base.with_name(base.name + ".py"), base / "__init__.py"
    return next((file for file in files if file.is_file()), None) if base.is_relative_to(PACKAGE) else None


def _only_shows(module: str) -> bool:
    return ".".join(module.split(".")[:2]) in SHOWS


def _imports(tree: ast.AST, package: str) -> dict[str, Binding]:
    """Return what the imports in code of a package bind, wherever they stand."""
    bound: dict[str, Binding] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            bound |= {alias.asname or alias.name: (module, alias.name) for alias in node.names}
    return bound


def _uses(code: ast.AST, own: dict[str, Binding], imported: dict[str, Binding]) -> Iterator[Binding]:
    """Yield what the names in code stand for: `f` for an own or imported f, `m.f` for f in an imported module m."""
    for node in ast.walk(code):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            module = ".".join(imported[node.value.id])
            if _file(module):
                yield module, node.attr
        elif isinstance(node, ast.Name) and node.id in imported | own:
            yield (imported | own)[node.id]


def _data(words: Set[Any]) -> Iterator[str]:
    """Yield the files of data that words name: by their folder and name, with or without its ending, or all of it."""
    for folder in {path.parent for path in PACKAGE.rglob("*.json")} | {path.parent for path in PACKAGE.rglob("*.txt")}:
        if folder.name in words:
            files = [file for file in folder.iterdir() if file.suffix in {".json", ".txt"}]
            named = [file for file in files if words & {file.name, file.stem}]
            yield from (file.read_text("utf-8") for file in named or files)
