"""Laws of the controls that run a chapter's code again."""

import pytest
from ipywidgets import Checkbox, Dropdown, IntSlider, interactive

from attention_tutorial.notebook.session import controls


@pytest.fixture
def shown(monkeypatch):
    """What is displayed."""
    caught = []
    monkeypatch.setattr("IPython.display.display", lambda shown_object, **options: caught.append(shown_object))
    return caught


@pytest.fixture
def live(monkeypatch):
    monkeypatch.delenv("ATTENTION_TUTORIAL_WIDGETS", raising=False)


def test_every_choice_is_a_control_that_begins_at_the_default_and_calls_again(shown, live):
    calls = []

    def draw(d_k=64, mask="causal", scaled=True, ax=None):
        assert ax is None, "what was not offered keeps its default"
        calls.append((d_k, mask, scaled))

    controls(draw, d_k=(1, 256), mask=["none", "causal"], scaled=True)
    sentence, panel = shown
    assert "scaled (yes or no)" in sentence["text/html"]
    assert isinstance(panel, interactive)
    *chosen, _ = panel.children
    assert [type(control) for control in chosen] == [IntSlider, Dropdown, Checkbox]
    assert (chosen[0].min, chosen[0].max, chosen[0].value) == (1, 256, 64)
    assert not chosen[0].continuous_update, "a slider that is being drawn would call at every step"
    chosen[0].value = 100
    chosen[1].value = "none"
    chosen[2].value = False
    assert calls == [(64, "causal", True), (100, "causal", True), (100, "none", True), (100, "none", False)]


def test_a_page_without_a_kernel_says_what_would_be_there(shown, monkeypatch):
    monkeypatch.setenv("ATTENTION_TUTORIAL_WIDGETS", "static")

    def draw(d_k=64, mask="causal", scaled=True):
        pytest.fail("nothing is computed")

    controls(draw, d_k=(1, 256, 5), mask=["none", "causal"], scaled=True)
    (page,) = shown
    assert set(page) == {"text/html", "text/plain"}
    assert page["text/plain"] in page["text/html"]
    assert "d_k (1 to 256), mask (none, causal), scaled (yes or no)" in page["text/plain"]


@pytest.mark.parametrize("function", [lambda d_k: None, lambda width=1: None], ids=["no default", "other name"])
def test_a_choice_must_be_a_parameter_with_a_default(function):
    with pytest.raises(TypeError, match="d_k must be a parameter of the function with a default"):
        controls(function, d_k=(1, 256))
