"""Laws of the linear probe."""

import pytest
import torch
import torch.nn.functional as F
from oracles import assert_raises, mistakes

from attention_tutorial.analysis.probe import linear_probe


def test_probe_finds_what_is_linear_and_not_what_is_not(generator):
    labels = torch.randint(0, 3, (600,), generator=generator)
    noise = torch.randn(600, 4, generator=generator)
    planted = torch.cat([noise, F.one_hot(labels).float() @ torch.randn(3, 5, generator=generator)], dim=1)
    assert linear_probe(planted, labels, num_train=400) == 1.0
    assert linear_probe(noise, labels, num_train=400) < 0.45  # chance is 1/3


def test_probe_is_scored_on_examples_it_did_not_see(generator):
    labels = torch.randint(0, 2, (60,), generator=generator)
    features = torch.randn(60, 50, generator=generator)  # 40 examples in 50 dimensions can be learned by heart
    assert linear_probe(features, labels, num_train=40, penalty=1e-9) < 0.9


def test_probe_has_an_offset():
    features = torch.tensor([[5.0], [6.0]]).repeat(10, 1)
    assert linear_probe(features, torch.tensor([0, 1]).repeat(10), num_train=10, penalty=1e-9) == 1.0


def test_probe_agrees_with_gradient_descent(generator):
    labels = torch.randint(0, 4, (600,), generator=generator)
    signal = 0.2 * F.one_hot(labels, 6)  # small next to the noise in two features, so that the penalty counts
    features = signal + torch.randn(600, 6, generator=generator) * torch.tensor([0.1, 0.1, 0.1, 0.1, 2.0, 2.0])
    x = F.pad(features.double(), (0, 1), value=1.0)

    def by_descent(penalty):
        matrix = torch.zeros(7, 4, dtype=torch.float64, requires_grad=True)
        for _ in range(2000):
            fit = (x[:200] @ matrix - F.one_hot(labels[:200])).square().sum() / 200 + penalty * matrix.square().sum()
            (gradient,) = torch.autograd.grad(fit, matrix)
            with torch.no_grad():
                matrix -= 0.08 * gradient
        return ((x[200:] @ matrix).argmax(dim=1) == labels[200:]).double().mean().item()

    weak, strong = (linear_probe(features, labels, num_train=200, penalty=penalty) for penalty in (0.005, 1.0))
    assert weak == pytest.approx(by_descent(0.005), abs=1e-12)
    assert strong == pytest.approx(by_descent(1.0), abs=1e-12)
    assert strong < weak - 0.05


MISTAKES = {
    TypeError: [
        (lambda: linear_probe(torch.zeros(5, 2), torch.zeros(5), num_train=2),
         "labels must hold class ids of dtype torch.int64; got torch.float32"),
    ],
    ValueError: [
        (lambda: linear_probe(torch.zeros(5, 2), torch.zeros(4, dtype=torch.long), num_train=2),
         "features must be (examples, d) and labels (examples,); got features (5, 2), labels (4,)"),
        (lambda: linear_probe(torch.zeros(5, 2), torch.zeros(5, dtype=torch.long), num_train=5),
         "num_train must leave examples for the score; got 5 of 5"),
        (lambda: linear_probe(torch.zeros(5, 2), torch.zeros(5, dtype=torch.long), num_train=2, penalty=0.0),
         "penalty must be above 0; got 0.0"),
    ],
}  # fmt: skip


@mistakes(MISTAKES)
def test_mistakes_are_named(call, error, message):
    assert_raises(call, error, message)
