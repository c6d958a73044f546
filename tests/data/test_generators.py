"""Laws of everything that draws: it asks for a generator, and leaves torch's global one alone."""

import importlib
import inspect
import pkgutil

import pytest
import torch
from oracles import assert_raises

from attention_tutorial import data
from attention_tutorial.data.byte_pairs import BytePairs
from attention_tutorial.models.code_model import CodeModel
from attention_tutorial.models.seq2seq import GRU, RNN, Seq2Seq
from attention_tutorial.models.transformer import Transformer
from attention_tutorial.positions import LearnedPositions

SIZES = {"copy_examples": (3, 4), "who_where": (3,), "bank_sentences": (3,), "card_rows": (3,), "draw_sentences": (3,)}
MODELS = {
    "RNN": lambda **more: RNN(2, 3, **more),
    "GRU": lambda **more: GRU(2, 3, **more),
    "Transformer": lambda **more: Transformer(5, 6, d_model=4, num_heads=2, d_ff=3, **more),
    "LearnedPositions": lambda **more: LearnedPositions(5, 6, **more),
    "Seq2Seq": lambda **more: Seq2Seq(5, attention="additive", **more),
    "CodeModel": lambda **more: CodeModel(BytePairs([]), d_model=8, num_heads=2, context=9, **more),
}


class OnAGpu(torch.Generator):
    """As good as a generator on a GPU, where there is none."""

    device = torch.device("cuda:0")


def drawing_functions():
    modules = [importlib.import_module(f"{data.__name__}.{m.name}") for m in pkgutil.iter_modules(data.__path__)]
    functions = {name: getattr(module, name) for module in modules for name in module.__all__}
    functions = {name: f for name, f in functions.items() if inspect.isfunction(f)}
    return {name: f for name, f in functions.items() if "generator" in inspect.signature(f).parameters}


def test_all_functions_that_draw_are_tested_here():
    assert drawing_functions().keys() == SIZES.keys()


@pytest.mark.parametrize("name", SIZES)
def test_a_function_that_draws_needs_a_generator_on_the_cpu(name):
    draw = drawing_functions()[name]
    for wrong, kind in ((None, "NoneType"), (7, "int"), ("cpu", "str")):
        message = f"generator must be a torch.Generator; got {kind}"
        assert_raises(lambda wrong=wrong: draw(*SIZES[name], generator=wrong), TypeError, message)
    message = "generator must be on the CPU, so that every machine draws the same; got cuda:0"
    assert_raises(lambda: draw(*SIZES[name], generator=OnAGpu()), ValueError, message)


@pytest.mark.parametrize("name", SIZES)
def test_a_function_that_draws_uses_its_generator_alone(name):
    draw, state = drawing_functions()[name], torch.get_rng_state()
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    before = generators[0].get_state()
    first, again = (draw(*SIZES[name], generator=generator) for generator in generators)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(generators[0].get_state(), before)
    assert repr(first) == repr(again)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_a_model_takes_a_generator_on_the_cpu_or_none(make):
    for wrong, kind in ((7, "int"), ("0", "str")):
        message = f"generator must be a torch.Generator or None; got {kind}"
        assert_raises(lambda wrong=wrong: make(generator=wrong), TypeError, message)
    message = "generator must be on the CPU, so that every machine draws the same; got cuda:0"
    assert_raises(lambda: make(generator=OnAGpu()), ValueError, message)
    torch.manual_seed(3)
    first = [*make().parameters()]  # from torch's global generator
    torch.manual_seed(3)
    assert all(map(torch.equal, first, make(generator=None).parameters()))


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_a_generator_decides_all_first_weights(make):
    def first(seed, global_seed):
        torch.manual_seed(global_seed)  # must not matter
        return [*make(generator=torch.Generator().manual_seed(seed)).parameters()]

    mine, again, other = first(5, 1), first(5, 2), first(6, 1)
    assert all(map(torch.equal, mine, again))
    drawn = [(a, b) for a, b in zip(mine, other, strict=True) if a.unique().numel() > 1]  # not those of norms
    assert drawn and not any(torch.equal(a, b) for a, b in drawn)
