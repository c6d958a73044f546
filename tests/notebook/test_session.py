"""Laws of the call at the top of every chapter."""

import matplotlib as mpl
import pytest
import torch

from attention_tutorial import plotting
from attention_tutorial.notebook.session import setup


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """Every test starts without the environment variable and leaves the global settings as they were."""
    monkeypatch.delenv("ATTENTION_TUTORIAL_DEVICE", raising=False)
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = torch.get_num_threads(), matmul.allow_tf32, cudnn.allow_tf32
    with mpl.rc_context():
        yield
    torch.set_num_threads(before[0])
    matmul.allow_tf32, cudnn.allow_tf32 = before[1:]


@pytest.fixture
def machine(monkeypatch):
    """Say which accelerators this machine has."""

    def has(*kinds):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in kinds)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in kinds)

    return has


def test_the_argument_decides_then_the_environment_then_the_machine(machine, monkeypatch):
    machine("cuda", "mps")
    assert setup() == torch.device("cuda")
    monkeypatch.setenv("ATTENTION_TUTORIAL_DEVICE", "mps")
    assert setup() == torch.device("mps")
    assert setup("cpu") == torch.device("cpu")
    assert setup(torch.device("cuda", 0)) == torch.device("cuda:0")
    monkeypatch.setenv("ATTENTION_TUTORIAL_DEVICE", "")
    assert setup() == torch.device("cuda")


@pytest.mark.parametrize(("kinds", "chosen"), [((), "cpu"), (("mps",), "cpu"), (("cuda",), "cuda")])
def test_the_machine_decides_only_between_cuda_and_the_cpu(machine, kinds, chosen):
    machine(*kinds)
    assert setup() == torch.device(chosen)


def test_a_device_that_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match="device must be the name of a device, such as 'cpu' or 'cuda'; got 'banana'"):
        setup("banana")


@pytest.mark.parametrize("wanted", ["cuda", "cuda:0", "mps", "meta", "xpu"])
def test_a_device_that_is_not_there_is_an_error(machine, monkeypatch, wanted):
    machine()
    message = f"device must be available on this machine; got '{wanted}'"
    with pytest.raises(ValueError, match=message):
        setup(wanted)
    monkeypatch.setenv("ATTENTION_TUTORIAL_DEVICE", wanted)
    with pytest.raises(ValueError, match=message):
        setup()


def test_one_thread_no_tf32_and_the_books_style():
    torch.set_num_threads(2)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    setup("cpu")
    assert torch.get_num_threads() == 1
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32
    assert mpl.rcParams["axes.prop_cycle"].by_key()["color"] == list(plotting.COLORS)


def test_nothing_is_seeded():
    state = torch.get_rng_state()
    setup("cpu")
    assert torch.equal(torch.get_rng_state(), state)
