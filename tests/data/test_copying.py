"""Laws of the data sets: what is drawn, with which chances, and that it is the same everywhere."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_raises, mistakes

from attention_tutorial.data.copying import START, CopyBatches, copy_examples, shift_right, spell


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@given(
    num_examples=st.integers(1, 7),
    length=st.integers(1, 11),
    num_symbols=st.integers(1, 13),
    reverse=st.booleans(),
    num_models=st.none() | st.integers(1, 3),
    seed=st.integers(0, 10**6),
)
def test_target_is_the_source_or_its_mirror_image(num_examples, length, num_symbols, reverse, num_models, seed):
    source, target = copy_examples(
        num_examples, length, num_symbols=num_symbols, reverse=reverse, num_models=num_models, generator=seeded(seed)
    )
    shape = (num_examples, length) if num_models is None else (num_models, num_examples, length)
    assert source.shape == target.shape == shape
    assert source.dtype == target.dtype == torch.int64
    assert source.min() >= 1 and source.max() <= num_symbols
    rows = source.flatten(0, -2).tolist()
    assert target.flatten(0, -2).tolist() == [row[::-1] if reverse else row for row in rows]


def test_source_and_target_do_not_share_memory():
    for reverse in (False, True):
        source, target = copy_examples(2, 3, reverse=reverse, generator=seeded())
        before = target.clone()
        source.zero_()
        assert torch.equal(target, before)


def test_symbols_are_equally_likely_and_independent():
    source, _ = copy_examples(20_000, 2, num_symbols=5, generator=seeded())
    pairs = torch.bincount(5 * (source[:, 0] - 1) + source[:, 1] - 1, minlength=25)
    # 25 pairs, 800 expected of each, standard deviation 28
    assert pairs.min() > 800 - 5 * 28 and pairs.max() < 800 + 5 * 28


def test_the_bits_are_the_same_everywhere():
    source, _ = copy_examples(2, 6, generator=seeded(7))
    assert source.tolist() == EXPECTED_BITS


def test_batches_draw_every_length_about_equally_often():
    lengths = [source.size(1) for source, _ in CopyBatches(3000, batch_size=1, min_length=2, max_length=7, seed=1)]
    counts = [lengths.count(length) for length in range(2, 8)]
    assert sum(counts) == 3000
    assert min(counts) > 400 and max(counts) < 600  # 500 expected, standard deviation 20


def test_batches_are_repeatable_and_depend_on_the_seed():
    batches = CopyBatches(4, num_models=3, max_length=5, seed=2)
    assert len(batches) == 4
    once, twice = list(batches), list(batches)
    assert all(
        torch.equal(a, b) for first, two in zip(once, twice, strict=True) for a, b in zip(first, two, strict=True)
    )
    other = list(CopyBatches(4, num_models=3, max_length=5, seed=3))
    assert any(a.shape != b.shape or not torch.equal(a, b) for (a, _), (b, _) in zip(once, other, strict=True))


def test_every_model_gets_its_own_data():
    for source, target in CopyBatches(3, batch_size=8, min_length=6, max_length=6, num_models=2, reverse=True):
        assert source.shape == (2, 8, 6)
        assert not torch.equal(source[0], source[1])
        assert torch.equal(target, source.flip(-1))


def test_shift_right_by_hand():
    target = torch.tensor([[3, 1, 2], [4, 4, 5]])
    assert shift_right(target).tolist() == [[START, 3, 1], [START, 4, 4]]
    assert shift_right(target, start=9).tolist() == [[9, 3, 1], [9, 4, 4]]
    assert target.tolist() == [[3, 1, 2], [4, 4, 5]]


def test_shift_right_takes_leading_axes():
    target = torch.arange(1, 25).reshape(2, 3, 4)
    assert shift_right(target)[1, 2].tolist() == [0, 21, 22, 23]


def test_spell_by_hand():
    assert spell(torch.tensor([0, 1, 26])) == "· a z"


EXPECTED_BITS = [[6, 3, 2, 7, 4, 8], [8, 10, 9, 2, 9, 2]]

MISTAKES = {
    TypeError: [
        (lambda: copy_examples(3, 2.0, generator=seeded()), "length must be an int; got float"),
        (lambda: copy_examples(3, 2, reverse=1, generator=seeded()), "reverse must be True or False; got int"),
        (lambda: CopyBatches(1, reverse="yes"), "reverse must be True or False; got str"),
        (lambda: shift_right([1, 2]), "target must be a torch.Tensor of token ids; got list"),
        (lambda: shift_right(torch.zeros(2, 3)), "target must hold token ids of dtype torch.int64; got torch.float32"),
    ],
    ValueError: [
        (lambda: copy_examples(0, 3, generator=seeded()), "num_examples must be at least 1; got 0"),
        (lambda: copy_examples(3, 2, num_models=0, generator=seeded()), "num_models must be at least 1; got 0"),
        (lambda: CopyBatches(0), "num_batches must be at least 1; got 0"),
        (lambda: CopyBatches(1, seed=-1), "seed must be at least 0; got -1"),
        (lambda: CopyBatches(1, min_length=5, max_length=4),
         "max_length must be at least min_length; got max_length=4, min_length=5"),
        (lambda: shift_right(torch.zeros(2, 0, dtype=torch.long)),
         "target must be (..., m) with at least one position; got shape (2, 0)"),
        (lambda: spell(torch.zeros(1, 2, dtype=torch.long)), "ids must have one axis (n,); got shape (1, 2)"),
        (lambda: spell(torch.tensor([3, 27])), "ids must lie between 0 and 26; got [3, 27]"),
    ],
}  # fmt: skip


@mistakes(MISTAKES)
def test_mistakes_are_named(call, error, message):
    assert_raises(call, error, message)
