"""Laws of the measures of attention patterns."""

import math

import pytest
import torch
from oracles import HEADS, assert_raises, mistakes

from attention_tutorial import masked_softmax
from attention_tutorial.analysis.attention_patterns import (
    block_share,
    describe_heads,
    diagonal_share,
)

N = 7
REAL = torch.tensor([[True] * N, [True] * 5 + [False] * 2, [True] * 6 + [False]])
GROUP = torch.tensor([[0, 0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 1, 2, 2], [0, 1, 1, 1, 2, 2, 2]])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def random_weights(seed=0):
    scores = torch.randn(len(REAL), HEADS, N, N, generator=generator(seed), dtype=torch.float64)
    return masked_softmax(scores, REAL[:, None, None])


def perfect(name):
    """Weights (batch, 1, n, n) of a head that has a pattern exactly, wherever padding allows it."""
    same = (GROUP[:, :, None] == GROUP[:, None, :]) & REAL[:, None, :]
    maps = {
        "diagonal": torch.eye(N, dtype=torch.float64).roll(-2, dims=1).expand(len(REAL), N, N),
        "vertical": torch.eye(N, dtype=torch.float64)[3].expand(len(REAL), N, N),
        "block": same.double() / same.sum(-1, keepdim=True).clamp(min=1),
        "sparse": torch.eye(N, dtype=torch.float64)[torch.tensor([4, 3, 1, 0, 0, 3, 5])].expand(len(REAL), N, N),
        "mixed": (REAL.double() / REAL.sum(1, keepdim=True))[:, None, :].expand(len(REAL), N, N),
    }
    return maps[name][:, None]


@pytest.mark.parametrize("name", ["diagonal", "vertical", "block", "sparse", "mixed"])
def test_a_perfect_pattern_gets_its_name(name):
    (head,) = describe_heads(perfect(name), GROUP, REAL)
    assert head.name == name
    if name in ("diagonal", "vertical", "block"):
        assert getattr(head, name) == pytest.approx(1.0)


def described(weights):
    """The measures of every head, by name."""
    heads = describe_heads(weights, GROUP, REAL)
    return {name: torch.tensor([getattr(head, name) for head in heads]) for name in vars(heads[0]) if name != "name"}


def test_the_place_of_a_pattern_is_found():
    assert diagonal_share(perfect("diagonal"), REAL)[1].item() == -2
    assert described(perfect("vertical"))["column"].item() == 3


def test_diagonal_share_is_the_best_mean_over_real_pairs():
    weights = random_weights()
    share, offset = diagonal_share(weights, REAL)
    for head in range(HEADS):
        means = {}
        for delta in range(1 - N, N):
            cells = [
                weights[b, head, i, i + delta].item()
                for b in range(len(REAL))
                for i in range(N)
                if 0 <= i + delta < N and REAL[b, i] and REAL[b, i + delta]
            ]
            if 2 * len(cells) >= REAL.sum():
                means[delta] = sum(cells) / len(cells)
        assert share[head].item() == pytest.approx(max(means.values()))
        assert offset[head].item() == max(means, key=means.get)


def test_vertical_share_is_the_best_mean_over_real_queries():
    weights = random_weights()
    found = described(weights)
    rows = torch.cat([weights[b, :, REAL[b]] for b in range(len(REAL))], dim=1)  # (heads, real queries, n)
    assert found["vertical"].tolist() == pytest.approx(rows.mean(1).amax(-1).tolist())
    assert found["column"].equal(rows.mean(1).argmax(-1))


def test_block_share_is_the_overlap_with_even_weights_on_the_group():
    weights = random_weights()
    for head in range(HEADS):
        overlaps = []
        for b in range(len(REAL)):
            for i in range(int(REAL[b].sum())):
                members = [j for j in range(N) if REAL[b, j] and GROUP[b, j] == GROUP[b, i]]
                overlaps.append(sum(min(weights[b, head, i, j].item(), 1 / len(members)) for j in members))
        expected = sum(overlaps) / len(overlaps)
        assert block_share(weights, GROUP, REAL)[head].item() == pytest.approx(expected)


def test_a_row_that_looks_at_one_member_overlaps_by_one_over_the_size():
    own = torch.eye(4, dtype=torch.float64)[None, None]
    real = torch.ones(1, 4, dtype=torch.bool)
    assert block_share(own, torch.zeros(1, 4, dtype=torch.long), real).item() == pytest.approx(1 / 4)


def test_the_largest_weight_and_the_number_of_keys_of_even_weights():
    even = perfect("mixed")
    sizes = REAL.sum(1).double()
    rows = sizes / sizes.sum()  # share of the queries that belong to each example
    found = described(even)
    assert found["largest"].item() == pytest.approx((rows / sizes).sum().item())
    assert found["keys"].item() == pytest.approx((rows * sizes).sum().item())


def test_rows_of_padding_count_for_nothing_and_a_description_holds_the_measures():
    weights, other = random_weights(), random_weights(1)
    changed = torch.where(REAL[:, None, :, None], weights, other)
    assert describe_heads(weights, GROUP, REAL) == describe_heads(changed, GROUP, REAL)
    heads, (diagonal, offset) = describe_heads(weights, GROUP, REAL), diagonal_share(weights, REAL)
    assert [(head.diagonal, head.offset) for head in heads] == list(
        zip(diagonal.tolist(), offset.tolist(), strict=True)
    )
    assert [head.block for head in heads] == block_share(weights, GROUP, REAL).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_a_head_is_named_after_what_reaches_the_threshold(seed):
    weights = random_weights(seed) ** 1.5
    weights /= weights.sum(-1, keepdim=True)
    for number, head in enumerate(describe_heads(weights, GROUP, REAL)):
        shares = {"diagonal": head.diagonal, "vertical": head.vertical, "block": head.block}
        best = max(shares, key=shares.get)
        assert head.largest > shares[best] and head.keys > 2
        for threshold, name in (
            (shares[best], best),
            (math.nextafter(shares[best], 1), "sparse"),
            (head.largest, "sparse"),
            (math.nextafter(head.largest, 1), "mixed"),
        ):
            assert describe_heads(weights, GROUP, REAL, threshold)[number].name == name


def test_the_threshold_is_one_half_unless_given():
    assert describe_heads(0.55 * perfect("vertical"), GROUP, REAL)[0].name == "vertical"
    assert describe_heads(0.45 * perfect("vertical"), GROUP, REAL)[0].name == "mixed"


MAPS, EVERY = torch.ones(2, 1, 3, 3), torch.ones(2, 3, dtype=torch.bool)


@mistakes({
    TypeError: [
        (lambda: diagonal_share(MAPS, True), "real must be a boolean tensor; got bool"),
        (lambda: diagonal_share(MAPS, torch.ones(2, 3)), "real must be a boolean tensor; got torch.float32"),
        (lambda: diagonal_share(MAPS.long(), EVERY),
         "weights must hold real floating-point numbers (float64, float32, bfloat16 or float16); got torch.int64"),
        (lambda: diagonal_share([[1.0]], EVERY), "weights must be a torch.Tensor; got list"),
    ],
    ValueError: [
        (lambda: diagonal_share(MAPS[0], EVERY), "weights must be (batch, heads, n, n); got (1, 3, 3)"),
        (lambda: diagonal_share(MAPS[..., :2], EVERY), "weights must be (batch, heads, n, n); got (2, 1, 3, 2)"),
        (lambda: diagonal_share(MAPS, EVERY.T), "real must be (batch, n) = (2, 3); got (3, 2)"),
        (lambda: diagonal_share(MAPS, ~EVERY), "real must have at least one real position; got none"),
        (lambda: block_share(MAPS, GROUP, EVERY), "group must be (batch, n) like real, (2, 3); got (3, 7)"),
    ],
})  # fmt: skip
def test_bad_input_is_named(call, error, message):
    assert_raises(call, error, message)
