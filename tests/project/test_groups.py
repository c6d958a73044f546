"""How the tests are handed out to processes: conftest.py at the root."""

from types import SimpleNamespace

import pytest

from tools.book import ROOT


@pytest.fixture
def settings(pytestconfig):
    return pytestconfig.pluginmanager.get_plugin(str(ROOT / "conftest.py"))


def test_what_starts_first_is_there(settings):
    folders = ("notebooks/*", "tests/*/*.py", "classroom/tests/*.py")
    files = [path.relative_to(ROOT).as_posix() for folder in folders for path in ROOT.glob(folder)]
    for start in settings.LONGEST_FIRST:
        assert any(map(start.match, files)), start
    places = [settings.place(SimpleNamespace(nodeid=name)) for name in (
        "tests/site/test_browser.py::test_a", "notebooks/07_the_whole_machine.ipynb::Cell 1",
        "notebooks/03_square_root_of_d_k.ipynb::Cell 1", "tests/site/test_browser.py::test_a[book/index.html]",
        "tests/data/test_copying.py::test_a")]  # fmt: skip
    assert places == sorted(set(places))


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


def test_what_needs_a_missing_model_is_skipped_but_is_an_error_in_ci(settings, monkeypatch):
    item = SimpleNamespace(iter_markers=lambda name: [pytest.mark.model("encoder").mark])
    monkeypatch.setattr(settings, "MISSING", {})
    settings.pytest_runtest_setup(item)
    monkeypatch.setattr(settings, "MISSING", {"encoder": {"model": "a/model"}})
    for ci, outcome in (("", pytest.skip.Exception), ("true", pytest.fail.Exception)):
        monkeypatch.setenv("CI", ci)
        with pytest.raises(outcome, match="needs the model a/model"):
            settings.pytest_runtest_setup(item)
