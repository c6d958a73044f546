"""One call at the top of every chapter: the device, the threads and the look of the figures."""

import os

import torch

__all__ = ["setup"]


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
    from . import plotting

    plotting.use_style()
