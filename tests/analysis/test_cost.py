"""Laws of the measurements. The oracles are counts by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import D_K, D_V, M, N

from attention_tutorial import fused_attention, scaled_dot_product_attention
from attention_tutorial.analysis import cost
from attention_tutorial.analysis.cost import (
    fit_exponent,
    flops,
    graph_depth,
    graph_distance,
    largest_tensor_bytes,
    saved_bytes,
    time_ratio,
)


def leaf(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, requires_grad=True)


def test_saved_bytes_counts_what_backward_needs_and_shared_storage_once():
    x, y, square = leaf(M, D_K), leaf(D_K, N), leaf(M, N)
    assert saved_bytes(lambda: x.exp()) == 4 * M * D_K  # the result
    assert saved_bytes(lambda: x + x) == 0  # nothing
    assert saved_bytes(lambda: x @ y) == 4 * (M * D_K + D_K * N)  # both factors
    assert saved_bytes(lambda: leaf(M, dtype=torch.float64).exp()) == 8 * M
    assert saved_bytes(lambda: square * square) == saved_bytes(lambda: square @ square.T) == 4 * M * N
    assert saved_bytes(lambda: (x.exp().sin(), x.exp().cos())) == 2 * 4 * M * D_K
    with torch.no_grad():
        assert saved_bytes(lambda: x.exp()) == 0
    assert saved_bytes(lambda: x.detach().exp()) == 0


def test_saved_bytes_of_many_steps_counts_each_though_tensors_come_and_go():
    x = leaf(N)

    def steps():
        h = x
        for _ in range(100):
            h = h.sin()  # needs its input
        return h

    assert saved_bytes(steps) == 100 * 4 * N


def test_attention_saves_quadratically_many_bytes_in_the_length_and_the_fused_kernel_linearly():
    lengths = [64, 128, 256]

    def saved(attend, m):
        x = leaf(1, 1, m, 2)
        return saved_bytes(lambda: attend(x, x, x))

    eager = [saved(scaled_dot_product_attention, m) for m in lengths]
    fused = [saved(fused_attention, m) for m in lengths]
    assert 1.9 < fit_exponent(lengths, eager) < 2.0
    assert fit_exponent(lengths, fused) == pytest.approx(1.0)


def test_largest_tensor_is_the_largest_on_the_way():
    column, row = torch.ones(M, 1), torch.ones(1, N)
    assert largest_tensor_bytes(lambda: (column @ row).sum()) == 4 * M * N
    assert largest_tensor_bytes(lambda: (column.double() @ row.double()).sum()) == 8 * M * N
    assert largest_tensor_bytes(lambda: column.bool()) == M
    assert largest_tensor_bytes(lambda: torch.cat([column, column]).sort()) == 8 * 2 * M  # the int64 order
    assert largest_tensor_bytes(lambda: None) == 0


def test_flops_are_two_for_each_product_and_sum():
    query, key, value = torch.ones(M, D_K), torch.ones(N, D_K), torch.ones(N, D_V)
    assert flops(lambda: query @ key.T) == 2 * M * N * D_K
    assert flops(lambda: scaled_dot_product_attention(query, key, value)) == 2 * M * N * (D_K + D_V)
    assert flops(lambda: query.exp()) == 0


@pytest.mark.parametrize("length", [1, 2, 40])
def test_a_chain_is_as_deep_and_as_long_as_its_operations(length):
    x = h = leaf(1)
    for _ in range(length):
        h = h.sin()
    assert graph_depth(h) == graph_distance(h, x) == length


def test_depth_is_the_longest_path_and_distance_the_shortest():
    x = leaf(1)
    near = x.sin()
    far = x.sin().sin().sin()
    joined = near * far
    assert graph_depth(joined) == 4
    assert graph_distance(joined, x) == 2
    assert graph_distance(joined, far) == graph_distance(joined, near) == 1
    assert graph_distance(joined, joined) == 0
    assert graph_depth(x.sin() + x) == 2
    assert graph_distance(x.sin() + x, x) == 1


def test_a_deep_graph_is_walked_in_reasonable_time_and_without_recursion():
    h = leaf(1)
    for _ in range(3000):
        h = h + h  # two paths at every step: 2 ** 3000 in all
    assert graph_depth(h) == 3000


def test_a_graph_is_needed():
    with pytest.raises(ValueError, match="output must come from operations on tensors that require gradients"):
        graph_depth(torch.ones(1))
    with pytest.raises(ValueError, match="output must come from operations on tensors that require gradients"):
        graph_distance(torch.ones(1), leaf(1))
    with pytest.raises(ValueError, match="output must depend on source; no path leads from one to the other"):
        graph_distance(leaf(1).sin(), leaf(1))


class Clock:
    """A clock that only the computations move."""

    def __init__(self, monkeypatch):
        self.now, self.log = 100.0, []
        monkeypatch.setattr(cost.time, "perf_counter", lambda: self.now)

    def takes(self, name, *durations):
        queue = list(durations)

        def run():
            self.log.append(name)
            self.now += queue.pop(0) if len(queue) > 1 else queue[0]

        return run


def test_time_ratio_divides_the_medians_of_runs_in_turn_without_the_first_pair(monkeypatch):
    clock = Clock(monkeypatch)
    slow, fast = clock.takes("slow", 900, 6, 80, 6), clock.takes("fast", 900, 2, 2, 70)
    assert time_ratio(slow, fast, repeats=3) == pytest.approx(3)
    assert clock.log == ["slow", "fast"] * 4


@given(exponent=st.floats(-3, 3), factor=st.floats(0.01, 100))
def test_the_exponent_of_a_power_law_is_found(exponent, factor):
    x = [1.0, 3.0, 10.0, 31.0]
    assert fit_exponent(x, [factor * value**exponent for value in x]) == pytest.approx(exponent, abs=1e-9)
