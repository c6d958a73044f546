"""Laws of the measures of attention weights. The oracles are counts by hand and autograd."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import M, N

from attention_tutorial.analysis.weights import entropy, jacobian_norm, largest_difference, softmax_jacobian


def test_largest_difference_is_the_largest_and_broadcasts_nothing():
    assert largest_difference(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.5, 0.0, 3.0])) == 2.0
    assert largest_difference(torch.ones(M, N), torch.ones(M, N)) == 0.0
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    b = a + torch.tensor([[0.0, -0.5], [0.25, 0.0]])
    assert largest_difference(a, b) == largest_difference(b, a) == 0.5
    with pytest.raises(ValueError, match=r"^a and b must have the same shape; got \(5, 7\) and \(7,\)$"):
        largest_difference(torch.ones(M, N), torch.ones(N))


def test_entropy_is_zero_for_one_hot_and_ln_n_for_equal_weights():
    weights = torch.cat([torch.eye(N), torch.full((1, N), 1 / N)]).double()
    assert entropy(weights).tolist() == pytest.approx([0.0] * N + [math.log(N)], abs=1e-7)


def test_entropy_is_taken_along_the_last_axis():
    weights = torch.rand(2, 3, N, generator=torch.Generator().manual_seed(0)).double().softmax(-1)
    by_hand = [[-sum(a * math.log(a) for a in row) for row in block] for block in weights.tolist()]
    assert torch.allclose(entropy(weights), torch.tensor(by_hand, dtype=torch.float64))
    assert entropy(weights.float()).dtype == torch.float32


def test_gradients_flow_through_entropy_and_the_softmax_jacobian(generator):
    weights = torch.rand(2, N, generator=generator, dtype=torch.float64).softmax(-1).requires_grad_()
    assert torch.autograd.gradcheck(entropy, weights)
    assert torch.autograd.gradcheck(softmax_jacobian, weights)


def test_the_softmax_jacobian_is_what_autograd_finds(generator):
    scores = torch.randn(2, 3, N, generator=generator, dtype=torch.float64)
    one_row = torch.func.jacrev(lambda s: s.softmax(0))
    expected = torch.stack([torch.stack([one_row(s) for s in block]) for block in scores])
    assert torch.allclose(softmax_jacobian(scores.softmax(-1)), expected, atol=1e-12)


@given(logits=st.lists(st.floats(-30, 30), min_size=2, max_size=9))
def test_the_norm_of_the_softmax_jacobian_is_bounded_by_the_largest_weight(logits):
    a = torch.tensor(logits, dtype=torch.float64).softmax(0)
    n, m = len(a), a.max()
    others = a.sort().values[:-1].sum()  # 1 - M, without cancellation
    norm = jacobian_norm(a)
    assert norm == pytest.approx(torch.linalg.matrix_norm(softmax_jacobian(a), ord=2).item(), abs=1e-12)
    assert n / (n - 1) * m * others - 1e-12 <= norm <= 2 * m * others + 1e-12


@pytest.mark.parametrize("function", [entropy, jacobian_norm, softmax_jacobian])
def test_weights_must_be_floats(function):
    with pytest.raises(TypeError, match="weights must hold real floating-point numbers"):
        function(torch.ones(N, dtype=torch.long))
    with pytest.raises(TypeError, match=r"weights must be a torch\.Tensor; got list"):
        function([0.5, 0.5])
