"""Fixtures and settings shared by the tests."""

import sys

import hypothesis
import pytest
import torch

pytest.register_assert_rewrite("oracles", "website")  # failures in fixtures then say what they compared

from website import (  # noqa: E402, F401
    browser,
    build,
    pages,
    run_in_node,
    site,
    visit_widget,
    widget_addresses,
    widget_pages,
)

# The same examples on every run. To search further: pytest --hypothesis-profile=search
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("search", max_examples=1000, deadline=None)
hypothesis.settings.load_profile("repeatable")

torch.set_num_threads(1)  # several processes share the cores


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Where there is no sandbox, skip what needs one, and say why; on Linux one has to start."""
    try:
        return (yield)
    except Exception as error:
        if sys.platform == "linux" or type(error).__name__ != "NoSandbox":
            raise
        pytest.skip(f"needs a sandbox, which only Linux has: {error}")


@pytest.fixture
def device(request):
    """Where to compute: `pytest --device cuda` runs the same tests on a GPU."""
    return torch.device(request.config.getoption("--device"))


@pytest.fixture
def generator():
    """A source of random numbers on the CPU: draw from it, then move to the device."""
    return torch.Generator().manual_seed(0)
