"""Laws of the packages' layout: what importing the book's loads, and which module may import which."""

import ast
import doctest
import functools
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import attention_classroom
import attention_tutorial
from attention_tutorial import exercises
from attention_tutorial.exercises import visible
from attention_tutorial.notebook import Claim

PACKAGE = Path(attention_tutorial.__file__).parent
CLASSROOM = Path(attention_classroom.__file__).parent


def modules(package, files):
    """The modules in files of a package, by their names in it; without that of the package itself."""
    names = {path: ".".join(path.relative_to(package).with_suffix("").parts) for path in files}
    return {name.removesuffix(".__init__"): path for path, name in sorted(names.items()) if name != "__init__"}


MODULES = modules(PACKAGE, PACKAGE.rglob("*.py"))
OF_CLASSROOM = modules(CLASSROOM, CLASSROOM.glob("*.py"))
# Each imports from its left.
MATHS = ["_validation", "masks", "functional", "layers", "positions", "data.copying", "models.seq2seq"]
MATHS += ["models.transformer", "models.decoding"]


@functools.cache
def imported(path, package):
    """Return what a module imports anywhere in its code, in full, as (module, name in it)."""
    inside, modules = [package.name, *path.relative_to(package).with_suffix("").parts[:-1]], []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = inside[: len(inside) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            modules += [(module, alias.name) for alias in node.names]
    return modules


def imports(name, package=PACKAGE):
    """The modules of the package that one of them imports, by their names in it, and the other packages."""
    ours, others = set(), set()
    there = MODULES if package == PACKAGE else OF_CLASSROOM
    for module, inside in imported(there[name], package):
        full = f"{module}.{inside}" if module == package.name else module
        if full.split(".")[0] == package.name:
            ours.add(full.removeprefix(package.name).removeprefix("."))
        else:
            others.add(full.split(".")[0])
    return ours, others


FRESH = """
import json, sys
import torch
with_torch, state = set(sys.modules), torch.get_rng_state()
import attention_tutorial
assert torch.equal(state, torch.get_rng_state()), "importing drew random numbers"
assert torch.get_default_dtype() == torch.float32
added = set(sys.modules) - with_torch
from attention_tutorial.notebook import claim
claim("X1a", "One is one", 1, equals=1)
print(json.dumps([sorted(added), sorted(set(sys.modules) - with_torch)]))
"""


def test_importing_the_package_and_stating_a_claim_load_nothing_but_the_package_and_are_quiet():
    command = [sys.executable, "-c", FRESH]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    *printed, names = done.stdout.splitlines()
    assert (printed, done.stderr) == ([repr(Claim("X1a", "One is one", "1", "1"))], "")
    added, with_claim = json.loads(names)
    ours = {name.split(".")[0] for name in with_claim} - set(sys.stdlib_module_names)
    assert ours == {"attention_tutorial"}, "no IPython outside a notebook"
    assert {name.split(".")[1] for name in added if name.startswith("attention_tutorial.")} <= set(MATHS)


@pytest.mark.parametrize("name", MATHS)
def test_the_maths_imports_only_torch_and_the_maths_before_it(name):
    ours, others = imports(name)
    assert ours <= set(MATHS[: MATHS.index(name)])
    assert others <= {"torch"} | set(sys.stdlib_module_names)


@pytest.mark.parametrize(("package", "there"), [(PACKAGE, MODULES), (CLASSROOM, OF_CLASSROOM)])
def test_no_module_is_imported_in_a_circle(package, there):
    left = {name: imports(name, package)[0] & set(there) for name in there}
    while left:
        free = [name for name, needs in left.items() if not needs & set(left)]
        assert free, f"these modules import each other: {sorted(left)}"
        for name in free:
            del left[name]


def test_only_the_drawing_module_imports_matplotlib_and_only_training_a_progress_bar():
    users = {
        library: {name for name in MODULES if library in imports(name)[1]}
        for library in ("matplotlib", "tqdm", "IPython", "ipywidgets")
    }
    assert users["matplotlib"] <= {"notebook.figures", "plotting"}
    assert users["tqdm"] <= {"models.training"}
    assert users["IPython"] <= {"notebook.display", "notebook.figures", "notebook.session"}
    assert users["ipywidgets"] <= {"notebook.session"}


def test_the_classroom_uses_the_book_through_its_exercises_alone():
    """So do the hidden modules of the assignments, from which teachers make their own."""
    masters = sorted(CLASSROOM.parent.glob("masters/hidden/*.py"))
    assert len(masters) > 3
    public = {
        "attention_tutorial.exercises": [*exercises.__all__, "visible"],
        "attention_tutorial.exercises.visible": visible.__all__,
    }
    for path in (*OF_CLASSROOM.values(), *masters, CLASSROOM / "__init__.py"):
        for module, name in imported(path, path.parent if path in masters else CLASSROOM):
            of_the_book = module.split(".")[0] == "attention_tutorial"
            assert not of_the_book or name in public.get(module, []), f"{path.name} imports {name} from {module}"


def test_nothing_in_the_book_knows_of_the_classroom():
    assert not [name for name, path in MODULES.items() if "attention_classroom" in path.read_text(encoding="utf-8")]


def test_the_package_offers_exactly_what_the_maths_modules_offer():
    offered = sorted({name for m in ("functional", "layers", "masks")
                      for name in importlib.import_module(f"attention_tutorial.{m}").__all__})  # fmt: skip
    assert sorted(attention_tutorial.__all__) == offered
    assert all(hasattr(attention_tutorial, name) for name in offered)


def public_objects():
    """Return the functions of the book's package; the classroom's are called by its own commands alone."""
    for info in pkgutil.walk_packages([str(PACKAGE)], prefix=f"{PACKAGE.name}."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            module = importlib.import_module(info.name)
            assert module.__doc__
            for name in getattr(module, "__all__", []):
                obj = getattr(module, name)
                if inspect.isfunction(obj) and obj.__module__ == module.__name__:
                    yield pytest.param(obj, id=f"{info.name.removeprefix('attention_tutorial.')}.{name}")


@pytest.mark.parametrize("function", list(public_objects()))
def test_a_public_function_tells_its_arguments_and_its_result(function):
    text = inspect.getdoc(function)
    assert text.splitlines()[0].endswith(".")
    for parameter in inspect.signature(function).parameters:
        assert any(f"\n    {stars}{parameter}:" in text for stars in ("", "*", "**")), parameter
    returns = inspect.signature(function).return_annotation
    assert returns in (None, "None") or "Returns:" in text


@pytest.mark.parametrize("name", ["functional", "layers", "masks", "positions", "tiled"])
def test_every_public_function_and_module_of_the_maths_has_an_example(name):
    module = importlib.import_module(f"attention_tutorial.{name}")
    for test in doctest.DocTestFinder(exclude_empty=False).find(module):
        if test.name.split(".")[-1] in module.__all__:
            assert test.examples, test.name
