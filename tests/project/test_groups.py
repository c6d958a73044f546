"""How the tests are handed out to processes: conftest.py at the root."""

import pytest

from tools.book import ROOT


@pytest.fixture
def settings(pytestconfig):
    return pytestconfig.pluginmanager.get_plugin(str(ROOT / "conftest.py"))


def test_what_starts_first_is_there(settings):
    for start in settings.LONGEST_FIRST:
        assert list(ROOT.glob(f"{start.split('::')[0]}*")), start


def test_a_page_a_widget_a_notebook_and_a_file_stay_together(settings):
    page = "tests/site/test_browser.py::test_{}[notebooks/01_bottleneck.html{}]"
    assert settings.group(page.format("a", "")) == settings.group(page.format("b", "-desk-light"))
    assert settings.group(page.format("a", "")) != settings.group(page.format("a", "").replace("01", "02"))
    widget = "tests/widgets/test_contract.py::test_{}[{}]"
    assert settings.group(widget.format("a", "360-dark-bottleneck")) == settings.group(widget.format("b", "bottleneck"))
    assert settings.group(widget.format("a", "mask_builder")) != settings.group(widget.format("a", "bottleneck"))
    assert settings.group("notebooks/01_bottleneck.ipynb::Cell 1") == "notebooks/01_bottleneck.ipynb"
    parsing = [
        settings.group(f"tests/site/{name}.py::test_a") for name in ("test_site", "test_site_findable", "test_browser")
    ]
    assert parsing[0] == parsing[1] != parsing[2]
    assert settings.group("tests/core/test_masks.py::test_a[x::y.html]") == "tests/core/test_masks.py"
