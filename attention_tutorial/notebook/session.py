"""What a chapter needs of its notebook: the device and the look of the figures, and controls that run code again."""

import html
import inspect
import os
from collections.abc import Callable
from typing import Any

import torch

from .figures import describe_figures

__all__ = ["controls", "setup"]

WIDGETS = "ATTENTION_TUTORIAL_WIDGETS"  # "static": leave no live widget behind; the book's notebooks are executed so
FIGURES = "ATTENTION_TUTORIAL_FIGURES"  # "rough": draw each figure once, for tests that look at no picture


def setup(device: str | torch.device | None = None) -> torch.device:
    """Prepare a notebook so that it runs the same everywhere, and choose the device.

    One CPU thread is used (the chapters' tensors are too small for more, and sums come out the same everywhere), TF32
    is off, and figures get the book's style.

    Args:
        device: "cpu", "cuda", "mps" or a torch device. When left out, the environment variable
            ``ATTENTION_TUTORIAL_DEVICE``; when that is unset too, CUDA if there is one, else the CPU. MPS is taken only
            when asked for: it has no float64, which the chapters count on.

    Returns:
        The device for models and data. Draw data on the CPU, with a ``torch.Generator``, then move it.

    Raises:
        ValueError: if the device is not to be had on this machine.

    Example:
        >>> setup("cpu")
        device(type='cpu')
    """
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    _style_figures()
    wanted = device or os.environ.get("ATTENTION_TUTORIAL_DEVICE")
    if not wanted:
        return torch.device("cuda" if _available("cuda") else "cpu")
    try:
        chosen = torch.device(wanted)
    except RuntimeError as error:
        raise ValueError(f"device must be the name of a device, such as 'cpu' or 'cuda'; got {wanted!r}") from error
    if not _available(chosen.type):
        raise ValueError(f"device must be available on this machine; got {str(chosen)!r}")
    return chosen


def _available(device_type: str) -> bool:
    if device_type == "cpu":
        return True
    if device_type == "mps":
        return torch.backends.mps.is_available()
    return device_type == "cuda" and torch.cuda.is_available()


def _style_figures() -> None:
    from .. import plotting

    plotting.use_style()
    try:
        shell = get_ipython()  # type: ignore[name-defined]
    except NameError:
        return
    if not static_widgets():
        describe_figures(shell)
        return
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    if os.environ.get(FIGURES) == "rough":
        set_matplotlib_formats("png", bbox_inches=None)  # no search for a tight frame
    else:
        set_matplotlib_formats("png", "svg")  # what is stored has the same bytes everywhere, and the tool describes it


def controls(function: Callable[..., object], /, **choices: Any) -> None:
    """Show controls that call a function again, with the arguments that the reader chooses.

    In a notebook that runs in Jupyter or Colab these are sliders, menus and boxes of ipywidgets; every change calls the
    function, and what it prints or draws stands below them. A sentence says what they are. Without a kernel, on the
    site and in a saved notebook, it stands alone, so a figure of the same thing goes before.

    Args:
        function: what to call. Each of its parameters has a default, at which the controls begin.
        **choices: for each parameter that can be changed, as in ``ipywidgets.interactive``: ``(least, most)`` or
            ``(least, most, step)`` for a slider, a list for a menu, ``True`` or ``False`` for a box. The others keep
            their defaults.

    Raises:
        TypeError: if a name is not one of the function's parameters, or that parameter has no default.
        ModuleNotFoundError: if ipywidgets is not installed and the notebook runs live.

    Example:
        >>> def draw(d_k=64, scaled=True): ...
        >>> controls(draw, d_k=(1, 256), scaled=[True, False])  # doctest: +SKIP
    """
    parameters = inspect.signature(function).parameters
    for name in choices:
        if name not in parameters or parameters[name].default is inspect.Parameter.empty:
            having = ", ".join(key for key, one in parameters.items() if one.default is not inspect.Parameter.empty)
            raise TypeError(f"controls: {name} must be a parameter of the function with a default ({having})")
    _say_what_is_there(choices)
    if static_widgets():
        return
    from IPython.display import display
    from ipywidgets import fixed, interactive

    kept = {name: fixed(one.default) for name, one in parameters.items() if name not in choices}
    panel = interactive(function, **kept, **choices)
    for control in panel.children[:-1]:
        control.style.description_width = "initial"
        if control.has_trait("continuous_update"):
            control.continuous_update = False  # call once the slider is let go
    display(panel)


def static_widgets() -> bool:
    """Say whether cells shall leave only what a page without a kernel can show."""
    return os.environ.get(WIDGETS) == "static"


# Controls that were saved have no kernel to speak with: JupyterLab and Notebook would say that a model was not found.
NO_DEAD_CONTROLS = """<style>
.jp-OutputArea-child:has(.attention-controls) + .jp-OutputArea-child:not(:has(.widget-interact)) { display: none }
</style>"""


def _say_what_is_there(choices: dict[str, Any]) -> None:
    from IPython.display import display

    offers = ", ".join(f"{name} ({_offer(choice)})" for name, choice in choices.items())
    where = "While this notebook runs in Jupyter or in Colab, here are controls for"
    text = f"{where} {offers}. Each change runs the code again."
    page = f'<p class="attention-controls"><em>{html.escape(text)}</em></p>'
    display({"text/html": page if static_widgets() else page + NO_DEAD_CONTROLS, "text/plain": text}, raw=True)


def _offer(choice: Any) -> str:
    if isinstance(choice, bool):
        return "yes or no"
    if isinstance(choice, tuple) and 2 <= len(choice) <= 3:
        return f"{choice[0]} to {choice[1]}"
    return ", ".join(str(value) for value in choice)
