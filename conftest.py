"""How the tests run: options, the environment of the notebooks' kernels, and how many processes.

It stands in the root because it is for the notebooks, the packages' doctests and both folders of tests. Fixtures are in
tests/conftest.py.
"""

import contextlib
import os
import re
import sys
from pathlib import Path

import hypothesis
import pytest
from nbval.plugin import IPyNbCell
from xdist.scheduler import LoadScopeScheduling

from tools.book import chapters
from tools.execution import DRAWN, kernel_environment, snap_outputs
from tools.forked_kernels import forked_kernels
from tools.models import TABLE, is_installed

# The same examples on every run. To search further: pytest --hypothesis-profile=search
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("search", max_examples=1000, deadline=None)
hypothesis.settings.load_profile("repeatable")

# Masters are no tests: those of classroom/tests run them.
collect_ignore = ["classroom/masters"]
# A chapter that reads a model of others is left out where that could not be installed, but never with CI=true.
MISSING = {name: model for name, model in TABLE.items() if not is_installed(name)}
for model in MISSING.values() if os.environ.get("CI") != "true" else ():
    collect_ignore += [str(path) for path in chapters() if model["loader"] in path.read_text(encoding="utf-8")]

# What takes longest starts first, so that the processes end together; of the rest, which comes as it stands, each group
# takes seconds. The first two of these build the site and the widgets' pages meanwhile, so that nobody waits for them.
# `pytest --durations=50` says what takes how long.
LONGEST_FIRST = tuple(
    re.compile(start)
    for start in (
        r"tests/site/test_browser\.py$",  # pages of every kind
        r"tests/widgets/test_encoder_widget\.py$",
        r"tests/live/",
        r"notebooks/07",
        r"notebooks/(01|04|06)",
        r"notebooks/",
        r"classroom/tests/",
        r"tests/project/test_(colab_run|wheel)",
        r"tests/(core|models)/",
        r"tests/exercises/",
        r"tests/widgets/",
        r"tests/site/",
        r"tests/chapters/",
        r"tests/project/",
    )
)
# Files whose tests are handed out page by page (their fixtures are made once a page anyway) and widget by widget.
PAGE = re.compile(r"(tests/site/test_browser\.py)::.*\[([\w/-]+\.html)")
# Files that parse every page of the site, which takes a while: one process does it once for all of them.
PARSING = re.compile(r"tests/site/test_(site(_findable|_pdf|_weight)?|claim_lines|figures_page)\.py::")
WIDGET = re.compile(r"(tests/widgets/test_contract\.py)::.*\[(?:[\w-]+-)?(\w+)\]$")


def pytest_addoption(parser):
    """Add the choice of a device."""
    parser.addoption(
        "--device",
        default=os.environ.get("ATTENTION_TUTORIAL_DEVICE", "cpu"),
        help="where the tests and the notebooks compute: cpu (the default), cuda, mps",
    )


def pytest_report_header():
    """Say what is left out."""
    return [f"left out, since the encoder's weights are not installed: {name}" for name in collect_ignore[1:]]


def pytest_configure(config):
    """Prepare the environment of the notebooks' kernels: nbval hands on that of this process."""
    environment = contextlib.ExitStack()
    config.add_cleanup(environment.close)
    os.environ.update(environment.enter_context(kernel_environment()))
    os.environ["ATTENTION_TUTORIAL_DEVICE"] = config.getoption("--device")
    os.environ["ATTENTION_TUTORIAL_FIGURES"] = "rough"  # no picture is compared
    # References are made with hash seed 0. With another one, a cell that prints a set's order fails, and every time.
    os.environ.setdefault("PYTHONHASHSEED", "1")
    if config.getoption("--device") == "cpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is imported, which torch may do any time
        environment.enter_context(forked_kernels())
    # One thread each for processes that share the cores: more cost a sixth more.
    if os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") != "1":
        os.environ.setdefault("OMP_NUM_THREADS", "1")

    if config.option.nbval_sanitize_with:  # so that pytest can be called from any folder
        config.option.nbval_sanitize_with = str(config.rootpath / config.option.nbval_sanitize_with)
    compare_measured_floats_as_numbers()
    # nbval would colour its differences in a log file too; a worker has no terminal to ask.
    if hasattr(config, "workerinput"):
        config.option.color = config.workerinput["color"]
    elif config.option.color == "auto" and not sys.stdout.isatty():
        config.option.color = "no"


def compare_measured_floats_as_numbers():
    """Have nbval compare the measured floats of widgets to 1e-6, and everything else as it does, letter by letter."""
    compare = IPyNbCell.compare_outputs

    def compare_outputs(self, test, ref, skip_compare=None):
        snap_outputs(test, ref)
        return compare(self, test, ref, (*(skip_compare or self.parent.skip_compare), DRAWN))

    IPyNbCell.compare_outputs = compare_outputs


def group(nodeid):
    """Return which tests stay together in one process: those of a notebook, of a page, of a widget, else of a file."""
    if PARSING.match(nodeid):
        return "tests/site/test_site*.py"
    part = PAGE.match(nodeid) or WIDGET.match(nodeid)
    return f"{part[1]}::*[{part[2]}]" if part else nodeid.split("::")[0]


class GroupScheduling(LoadScopeScheduling):
    """Hands out one group after the other, in the order of the tests, to whichever process is free."""

    def _split_scope(self, nodeid):
        return group(nodeid)


def pytest_xdist_make_scheduler(config, log):
    """Hand out tests in groups, unless another way is asked for."""
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadscope" else None


def pytest_configure_node(node):
    """Tell a worker process whether its output may have colours."""
    node.workerinput["color"] = node.config.option.color


def pytest_xdist_auto_num_workers(config):
    """One process where single files are asked for (it starts quickest); else twice as many as cores, up to four.

    A process that waits for a browser, a kernel or a time limit leaves its core to another; half of the time some do.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # xdist reads it
    whole_folders = all(Path(argument).is_dir() for argument in config.args)
    return min(4, 2 * (os.cpu_count() or 1)) if whole_folders else 0


def pytest_runtest_setup(item):
    """Skip what needs a model of others that is not installed; with CI=true that is an error."""
    for mark in item.iter_markers("model"):
        if mark.args[0] in MISSING:
            told = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            told(f"needs the model {MISSING[mark.args[0]]['model']}, which `make` installs")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Where there is no sandbox, skip what needs one, and say why; on Linux one has to start."""
    try:
        return (yield)
    except Exception as error:
        if sys.platform == "linux" or type(error).__name__ != "NoSandbox":
            raise
        pytest.skip(f"needs a sandbox, which only Linux has: {error}")


def place(item):
    """Return a test's place in the order: which of LONGEST_FIRST it belongs to."""
    name = group(item.nodeid)
    return next((i for i, start in enumerate(LONGEST_FIRST) if start.match(name)), len(LONGEST_FIRST))


def pytest_collection_modifyitems(items):
    """Put what takes longest first, and mark what needs the built site or a browser."""
    items.sort(key=place)
    for item in items:
        if {"build", "widget_pages", "browser"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("site")
    if any(item.path.suffix == ".ipynb" for item in items):
        # matplotlib lists its fonts now: the first time it takes long and warns, which would show in a chapter.
        import matplotlib.font_manager  # noqa: F401
