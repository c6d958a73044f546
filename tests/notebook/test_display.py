"""Laws of the shown source: what a page shows is the package's code, less its docstrings."""

import ast
import functools
import inspect
import math
import re
import textwrap

import pytest
import torch
from IPython.core.formatters import DisplayFormatter

import attention_tutorial
from attention_tutorial import plotting
from attention_tutorial.analysis import cost, weights
from attention_tutorial.notebook import claims, display
from attention_tutorial.notebook.display import Source, rounded, show_source

PUBLIC = [getattr(module, name) for module in (attention_tutorial, claims, display, cost, weights, plotting)
          for name in module.__all__ if callable(getattr(module, name))]  # fmt: skip
METHODS = [attention_tutorial.MultiHeadAttention.forward, attention_tutorial.MultiHeadAttention.from_torch]


def tree(code, *, docstrings):
    """The syntax of a piece of code, with or without docstrings; layout and comments do not count."""
    parsed = ast.parse(textwrap.dedent(code))
    for node in ast.walk(parsed):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) and not docstrings:
            del node.body[0]
    return ast.dump(parsed)


@pytest.mark.parametrize("obj", [*PUBLIC, *METHODS], ids=lambda obj: obj.__qualname__)
def test_what_is_shown_is_what_is_imported(obj):
    source = inspect.getsource(obj)
    assert tree(show_source(obj).code, docstrings=True) == tree(source, docstrings=False)


@pytest.mark.parametrize("obj", [*PUBLIC, *METHODS], ids=lambda obj: obj.__qualname__)
def test_comments_and_layout_are_kept(obj):
    lines = inspect.getsource(obj).splitlines()
    width = len(lines[0]) - len(lines[0].lstrip())
    shown = show_source(obj).code.splitlines()
    rest = iter(line[width:].rstrip() for line in lines)
    assert all(any(line.rstrip() == other for other in rest) for line in shown)  # the same lines in the same order
    comments = [line.strip() for line in lines if line.strip().startswith("# ")]
    assert [line.strip() for line in shown if line.strip().startswith("# ")] == comments


def test_a_shown_function_runs():
    namespace = {"torch": torch, "Tensor": torch.Tensor, "check_size": lambda name, size: None}
    exec(show_source(attention_tutorial.causal_mask).code, namespace)
    assert torch.equal(namespace["causal_mask"](2, 3), attention_tutorial.causal_mask(2, 3))


def test_the_functions_that_chapters_show_stay_short():
    for name in ("scaled_dot_product_attention", "masked_softmax", "additive_scores", "multiplicative_attention"):
        shown = show_source(getattr(attention_tutorial, name)).code.splitlines()
        assert len(shown) <= 25, name


def test_a_source_renders_as_a_python_listing_under_its_name():
    source = Source("package.module.f", "def f():\n    return 1")
    data, _ = DisplayFormatter().format(source)
    assert data["text/markdown"] == "```python\n# package.module.f\ndef f():\n    return 1\n```"
    assert data["text/plain"] == repr(source) == "def f():\n    return 1"
    assert show_source(attention_tutorial.causal_mask).name == "attention_tutorial.masks.causal_mask"
    method = show_source(attention_tutorial.MultiHeadAttention.forward)
    assert method.name == "attention_tutorial.layers.MultiHeadAttention.forward"
    assert method.code.startswith("def forward(") and '"""' not in method.code


def test_numbers_are_rounded_to_a_fixed_count_of_digits_and_zero_has_no_sign():
    assert rounded(2 / 3) == "0.667"
    assert rounded([[0.5, -1e-17], [2, -1.006]], digits=2) == "[[0.50, 0.00], [2.00, -1.01]]"
    assert rounded(torch.tensor([[1 / 3], [-0.0004]], dtype=torch.float64)) == "[[0.333], [0.000]]"
    assert rounded(torch.tensor(7)) == "7.000"


@pytest.mark.parametrize("obj", [len, torch.softmax, 3, "text", functools.partial(print), math])
def test_what_has_no_source_is_a_type_error(obj):
    got = "the module math" if obj is math else repr(obj)
    with pytest.raises(TypeError, match=re.escape(f"obj must be a function or class written in Python; got {got}")):
        show_source(obj)
