"""The comparison of notebooks itself: with this project's own options, stale outputs fail and right ones pass."""

import os
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from nbval.plugin import get_sanitize_patterns
from notebook_rules import BOOK, sanitising_faults, texts

from attention_tutorial.notebook.claims import Claim, Kind
from attention_tutorial.widgets.base import encode_floats
from tools import execution as tool
from tools.book import ROOT, SANITISING

PORTABLE = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "OMP_NUM_THREADS": "1"}


def printed(text):
    return new_output("stream", name="stdout", text=text)


def claimed(*parts, stable=True):
    data, metadata = Claim(*parts, stable=stable)._repr_mimebundle_()
    return new_output("display_data", data=data, metadata=metadata)


PICTURE = new_output(
    "display_data",
    data={"image/png": "b2xk", "image/svg+xml": "<old/>", "text/plain": "<Figure size 360x240 with 1 Axes>"},
)
PLOT = """import matplotlib.pyplot as plt
from attention_tutorial.notebook import setup
_ = setup()
fig, ax = plt.subplots(figsize=(3, 2))"""
FORMATS = """from matplotlib.figure import Figure
print(*[kind for kind, each in get_ipython().display_formatter.formatters.items() if Figure in each.type_printers])"""
MEMORY = """import resource, sys, torch
large = torch.ones(2**25)
del large
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
half = torch.ones(2**24)  # 64 MB, in 16,384 pages
print(sys.platform != "linux" or resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 1000)"""
UNSTABLE = "claim('X1b', 'It is small', 0.123, at_most=0.5, stable=False)"


def state_of(*numbers):
    """What a widget with measured numbers leaves behind."""
    page = f"<div data-state='{encode_floats(numbers)}'></div>"
    return new_output("display_data", data={"text/html": page, "text/plain": "<IPython.core.display.HTML object>"})


WIDGET = """from IPython.display import HTML, display
from attention_tutorial.widgets.base import encode_floats
display(HTML(f"<div data-state='{encode_floats([0.25, 0.5])}'></div>"))"""
SETTINGS = """c.InteractiveShell.ast_node_interactivity = "all"
c.InlineBackend.figure_formats = {"svg"}"""
ENVIRONMENT = [*PORTABLE, "ATTENTION_TUTORIAL_PROGRESS", "ATTENTION_TUTORIAL_DEVICE", "IPYKERNEL_CELL_NAME"]

# name -> (source, stored outputs, whether the comparison should pass)
CELLS = {
    "setting up": ("import os\nfrom attention_tutorial.notebook import claim", [], True),
    "right text": ("print('one')", [printed("one\n")], True),
    "stale text": ("print('one')", [printed("two\n")], False),
    "stripped output": ("print('one')", [], False),
    "output that is no more": ("pass", [printed("one\n")], False),
    "trailing semicolon, as Jupyter stores it": ("1 + 1;", [], False),
    "right claim": ("claim('X1a', 'It is two', 1 + 1, equals=2)", [claimed("X1a", "It is two", "2", "2")], True),
    "claim that measured something else": (
        "claim('X1a', 'It is small', 0.2, at_most=0.5)",
        [claimed("X1a", "It is small", "at most 0.5", "0.3", Kind.BOUND)],
        False,
    ),
    "claim with another sentence": (
        "claim('X1a', 'It is two', 1 + 1, equals=2)",
        [claimed("X1a", "It was two", "2", "2")],
        False,
    ),
    "unstable claim, other digits": (
        UNSTABLE,
        [claimed("X1b", "It is small", "at most 0.5", "4.56e-02", Kind.BOUND, stable=False)],
        True,
    ),
    "unstable claim, other prediction": (
        UNSTABLE,
        [claimed("X1b", "It is small", "at most 0.4", "0.123", Kind.BOUND, stable=False)],
        False,
    ),
    "claim that does not hold": ("claim('X1c', 'It is one', 1 + 1, equals=1)", [], False),
    "figure": (PLOT, [PICTURE], True),  # a picture is not compared, that there is a figure is
    "figures are drawn once": (FORMATS, [printed("image/png\n")], True),
    "memory of a large tensor is used again": (MEMORY, [printed("True\n")], True),
    "what the first optimizer loads": (
        "import sys\nprint(sys.platform != 'linux' or 'torch._dynamo' in sys.modules)",
        [printed("True\n")],
        True,
    ),
    "measured numbers of a widget": (WIDGET, [state_of(0.25, 0.5)], True),
    "measured numbers of a widget, other last digits": (WIDGET, [state_of(0.25, 0.5000004)], True),
    "measured numbers of a widget, others": (WIDGET, [state_of(0.25, 0.50001)], False),
    "set in another order": (
        "print(*{f'word {i}' for i in range(20)})",
        [printed(" ".join(f"word {i}" for i in range(20)) + "\n")],
        False,
    ),
    "environment of the kernel": (
        f"print(*[os.environ[name] for name in {ENVIRONMENT}])",
        [printed("default COMPATIBLE 1 0 cpu cell\n")],
        True,
    ),
    "nothing of the tests themselves": (
        "import sys\nprint({'pytest', 'nbval', 'conftest'} & {*sys.modules}, sys.argv[0][-21:])",
        [printed("set() ipykernel_launcher.py\n")],
        True,
    ),
    "matplotlib's backend": (
        "import matplotlib\nprint(matplotlib.get_backend() in ('inline', 'module://matplotlib_inline.backend_inline'))",
        [printed("True\n")],
        True,
    ),
    "the last of two expressions": ("1 + 1\n2 + 2", [new_output("execute_result", data={"text/plain": "4"})], True),
}


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """Compare one notebook with this project's options, in one kernel; return each cell's failure, or None."""
    project = tmp_path_factory.mktemp("project")
    tools = [f"tools/{name}.py" for name in ("book", "execution", "folds", "forked_kernels", "models")]
    models = "attention_tutorial/models/published.toml"
    for file in ("pyproject.toml", "conftest.py", "tests/nbval_sanitize.cfg", models, *tools):
        (project / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, project / file)
    cells = [
        new_code_cell(source, execution_count=number, outputs=outputs)
        for number, (source, outputs, _) in enumerate(CELLS.values(), start=1)
    ]
    notebook = project / "notebooks" / "planted.ipynb"
    notebook.parent.mkdir()
    notebook.write_text(tool.render(tool.normalise(new_notebook(cells=cells))), encoding="utf-8")

    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    # What people have set for other work must not reach the kernels.
    surroundings = {"MPLBACKEND": "agg", "ATTENTION_TUTORIAL_PROGRESS": "1", "ATTENTION_TUTORIAL_DEVICE": "cpu"}
    settings = tmp_path_factory.mktemp("ipython") / "profile_default" / "ipython_kernel_config.py"
    settings.parent.mkdir()
    settings.write_text(SETTINGS, encoding="utf-8")
    surroundings["IPYTHONDIR"] = str(settings.parents[1])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "notebooks/planted.ipynb", "--junit-xml=result.xml", "-p", "no:cacheprovider"],
        cwd=project,
        env=inherited | surroundings | PORTABLE | {"PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=3000,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    results = ElementTree.parse(project / "result.xml").iter("testcase")
    failures = {result.get("name"): "".join(part.text or "" for part in result) or None for result in results}
    assert list(failures) == [f"Cell {number}" for number in range(len(CELLS))]
    return dict(zip(CELLS, failures.values(), strict=True))


@pytest.mark.parametrize("name", CELLS)
def test_comparison(comparison, name):
    passes = CELLS[name][-1]
    failure = comparison[name]
    assert (failure is None) == passes, failure


def test_a_failure_shows_both_texts_plainly(comparison):
    failure = comparison["stale text"]
    assert "Cell 2: Cell outputs differ" in failure
    assert "print('one')" in failure
    assert r"'two\n' == 'one\n'" in failure  # stored == fresh
    assert "\x1b" not in failure, "colours belong in a terminal only"


def test_every_chapter_is_compared_strictly():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert "notebooks" in options["testpaths"]
    assert {"--nbval", "--dist=loadscope"} <= set(options["addopts"])


# ---- The sanitising file -----------------------------------------------------------------------------------------


def test_sanitising_rules_all_load_and_fire():
    config = SANITISING.read_text()
    stored = [text for nb in BOOK.values() for c in nb.cells for o in c.get("outputs", []) for text in texts(o)]
    assert not list(sanitising_faults(config, get_sanitize_patterns(config), stored))


GOOD_RULE = "regex: measured [0-9]+\nreplace: measured NUMBER\n"


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (GOOD_RULE.replace("measured NUMBER", ""), "has no replacement"),
        (GOOD_RULE.replace(" measured NUMBER", ""), "nbval loads 0"),
        (GOOD_RULE.replace("\nreplace", "\n\nreplace"), "nbval loads 0"),
        (GOOD_RULE + "regex: alone\n", "2 regex lines and 1 replace lines"),
        (GOOD_RULE + GOOD_RULE, "same regex"),
        (GOOD_RULE.replace("[0-9]", "[a-z]"), "matches nothing"),
    ],
)
def test_a_broken_sanitising_rule_is_found(broken, expected):
    assert not list(sanitising_faults(GOOD_RULE, get_sanitize_patterns(GOOD_RULE), ["measured 3"]))
    findings = list(sanitising_faults(broken, get_sanitize_patterns(broken), ["measured 3"]))
    assert expected in " / ".join(findings)
