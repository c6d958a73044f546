"""Fixtures and settings shared by the tests."""

import pytest
import torch

pytest.register_assert_rewrite("oracles", "website")  # failures in fixtures then say what they compared

from website import (  # noqa: E402, F401
    browser,
    build,
    live,
    pages,
    run_in_node,
    site,
    visit,
    visit_widget,
    widget_addresses,
    widget_pages,
)

torch.set_num_threads(1)  # several processes share the cores


@pytest.fixture
def device(request):
    """Where to compute: `pytest --device cuda` runs the same tests on a GPU."""
    return torch.device(request.config.getoption("--device"))


@pytest.fixture
def double():
    """The default type of the chapters."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def generator():
    """A source of random numbers on the CPU: draw from it, then move to the device."""
    return torch.Generator().manual_seed(0)
