"""The solutions that the chapters fold away are right, as they stand on the page."""

import ast
import re

import pytest
from notebook_rules import cells, parsed, tags

from attention_tutorial.exercises import check, exercises
from tools.book import chapters, read

DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def solutions(notebook):
    """Yield (name of an exercise, code of its solution, code of its cell)."""
    for where, after in zip(notebook.cells, notebook.cells[1:], strict=False):
        if "exercise" in tags(after):
            folded = where.source.split("<summary>Solution</summary>")[1]
            code = "\n".join(re.findall(r"^```python\n(.*?)^```", folded, re.MULTILINE | re.DOTALL))
            yield re.search(r'^check\("(\w+)", ', after.source, re.MULTILINE).group(1), code, after.source


def definitions(notebook):
    """Return the chapter's imports, functions and classes, without the cells to fill in."""
    trees = (parsed(cell) for _, cell in cells(notebook, "code") if "exercise" not in tags(cell))
    return ast.Module([node for tree in trees for node in tree.body if isinstance(node, DEFINITIONS)], type_ignores=[])


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_the_solutions_on_the_page_pass_their_checks(path, double, capsys):
    notebook = read(path)
    names = {}
    exec(compile(definitions(notebook), path.name, "exec"), names)
    printed = {}
    for exercise, solution, cell in solutions(notebook):
        assert solution, f"exercise {exercise} has no code in its solution"
        exec(solution, names)
        call = next(node for node in ast.parse(cell).body if "check(" in ast.unparse(node))
        exec(compile(ast.Module([call], []), cell, "exec"), names | {"check": check})
        printed[exercise] = capsys.readouterr().out
    assert printed == {exercise: f"{exercise}: right.\n" for exercise in printed}


def test_every_exercise_stands_on_one_page():
    placed = [exercise for path in chapters() for exercise, _, _ in solutions(read(path))]
    turns = [cell for path in chapters() for _, cell in cells(read(path), "code") if "turn" in tags(cell)]
    placed += [re.search(r'^check\("(\w+)", ', cell.source, re.MULTILINE).group(1) for cell in turns]
    assert sorted(placed) == sorted(exercises())
