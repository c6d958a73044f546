"""Laws of the synthetic tasks: whoever reads the words finds the answers; and of the numbers they are drawn from."""

import math

import pytest
import torch
from oracles import assert_raises

from attention_tutorial.data.synthetic import SYNTHETIC_TASKS, normal_numbers, uniform_numbers


def hash_by_hand(x):
    """Compute the output of mulberry32 with Python's own whole numbers."""
    low = 2**32 - 1
    x = (x ^ x >> 15) * (x | 1) & low
    x ^= (x + ((x ^ x >> 7) * (x | 61) & low)) & low
    return x ^ x >> 14


@pytest.mark.parametrize(("seed", "stream"), [(0, 0), (1, 0), (2**32 - 1, 7), (12345, 3)])
def test_uniform_numbers_are_mulberry32_of_the_hashed_seed(seed, stream):
    state = hash_by_hand((hash_by_hand(seed) + stream) % 2**32)
    expected = [hash_by_hand((state + (i + 1) * 0x6D2B79F5) % 2**32) / 2**32 for i in range(20)]
    assert uniform_numbers(4, 5, seed=seed, stream=stream).flatten().tolist() == expected


def test_mulberry32_is_the_published_one():
    assert hash_by_hand(0x6D2B79F5) / 2**32 == pytest.approx(0.26642920868471265, abs=0)  # its first with seed 0


def test_numbers_have_their_distributions_and_streams_are_independent():
    n = 100_000
    for draw, mean, std in [(uniform_numbers, 0.5, 12**-0.5), (normal_numbers, 0.0, 1.0)]:
        first, second, other = draw(n, seed=3), draw(n, seed=3, stream=1), draw(n, seed=4)
        for x in (first, second, other):
            assert abs(x.mean() - mean) < 4 * std / math.sqrt(n)
            assert abs(x.std() - std) < 4 * std / math.sqrt(n)
        for y in (first.roll(1), second, other):
            assert abs(torch.corrcoef(torch.stack([first, y]))[0, 1]) < 4 / math.sqrt(n)
    assert (normal_numbers(n, seed=3).abs() < 1).double().mean() == pytest.approx(0.6827, abs=0.006)


def test_fewer_numbers_are_the_first_of_more():
    assert normal_numbers(3, 5, seed=8).equal(normal_numbers(7, 5, seed=8)[:3])


def test_what_cannot_be_drawn_is_said():
    assert_raises(lambda: uniform_numbers(2, seed=-1), ValueError, "seed must be at least 0; got -1")
    assert_raises(lambda: normal_numbers(2, seed=0.5), TypeError, "seed must be an int; got float")
    assert_raises(lambda: uniform_numbers(-2, seed=0), ValueError, "shape must be at least 0; got -2")


# ---- The tasks ----------------------------------------------------------------------------------------------------


def read_values(words):
    """Read pairs such as "c=2"."""
    return dict(word.split("=") for word in words)


ORACLES = {
    "look_up": lambda words: [None] * 6 + [read_values(words[:-1])[words[-1][0]]],
    "two_look_ups": lambda words: (
        [None] * 6 + [",".join(read_values(words[:-1])[key] for key in words[-1].removesuffix("=?").split(","))]
    ),
    "bites": lambda words: [None, words[0], None],
    "write_on": lambda words: [*words[1:], None],
}


@pytest.mark.parametrize("name", SYNTHETIC_TASKS)
def test_who_reads_the_words_finds_the_answers(name):
    task = SYNTHETIC_TASKS[name]
    ids, targets = task.make(uniform_numbers(500, task.draws, seed=1))
    assert ids.shape == targets.shape == (500, task.length)
    assert set(ids.flatten().tolist()) == set(range(len(task.words))), "every word is used"
    assert set(targets[targets >= 0].tolist()) == set(range(len(task.answers))), "and every answer"
    for sequence, target in zip(ids.tolist(), targets.tolist(), strict=True):
        answers = [task.answers[t] if t >= 0 else None for t in target]
        assert answers == ORACLES[name]([task.words[i] for i in sequence])


def test_nothing_is_shown_twice():
    """Keys, the two that are asked for, and the two animals."""
    for name, named in [("look_up", 6), ("two_look_ups", 6), ("bites", 3)]:
        task = SYNTHETIC_TASKS[name]
        ids, _ = task.make(uniform_numbers(200, task.draws, seed=2))
        for sequence in ids.tolist():
            assert len({task.words[i].split("=")[0] for i in sequence[:named]}) == named
    asked = [word[:3].split(",") for word in SYNTHETIC_TASKS["two_look_ups"].words if "," in word]
    assert len(asked) == 30 and all(one != other for one, other in asked)


def test_in_a_text_to_write_on_every_round_of_three_is_one_letter_further():
    task = SYNTHETIC_TASKS["write_on"]
    ids, _ = task.make(uniform_numbers(100, task.draws, seed=2))
    assert ids[:, 3:].equal((ids[:, :-3] + 1) % 8)
