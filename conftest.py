"""How the tests run: options, the environment of the notebooks' kernels, and how many processes.

It stands in the root because it is for the notebooks and the package's doctests too. Fixtures are in tests/conftest.py.
"""

import os
import sys
from pathlib import Path

from nbval.plugin import IPyNbCell

from tools.notebooks import KERNEL_ENVIRONMENT, settle_outputs


def pytest_addoption(parser):
    """Add the choice of a device."""
    parser.addoption(
        "--device",
        default=os.environ.get("ATTENTION_TUTORIAL_DEVICE", "cpu"),
        help="where the tests and the notebooks compute: cpu (the default), cuda, mps",
    )


def pytest_configure(config):
    """Prepare the environment of the notebooks' kernels: nbval hands on that of this process."""
    os.environ.update(KERNEL_ENVIRONMENT, ATTENTION_TUTORIAL_DEVICE=config.getoption("--device"))
    # References are made with hash seed 0. With another one, a cell that prints a set's order fails, and every time.
    os.environ.setdefault("PYTHONHASHSEED", "1")

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
        settle_outputs(test, ref)
        return compare(self, test, ref, skip_compare)

    IPyNbCell.compare_outputs = compare_outputs


def pytest_configure_node(node):
    """Tell a worker process whether its output may have colours."""
    node.workerinput["color"] = node.config.option.color


def pytest_xdist_auto_num_workers(config):
    """One process where single files are asked for (it starts quickest); else one per core, up to four."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # xdist reads it
    whole_folders = all(Path(argument).is_dir() for argument in config.args)
    return min(4, os.cpu_count() or 1) if whole_folders else 0


def pytest_collection_modifyitems(items):
    """Have matplotlib list its fonts now: the first time it takes long and warns, which would show in a chapter."""
    if any(item.path.suffix == ".ipynb" for item in items):
        import matplotlib.font_manager  # noqa: F401
