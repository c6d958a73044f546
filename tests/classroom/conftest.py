"""Where there is no sandbox, what needs one is skipped, and says why."""

import sys

import pytest

from attention_tutorial.classroom.sandbox import NoSandbox

LINUX = sys.platform == "linux"  # there a sandbox has to start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        return (yield)
    except NoSandbox as error:
        if LINUX:
            raise
        pytest.skip(f"needs a sandbox, which only Linux has: {error}")
