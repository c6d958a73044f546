"""Laws of the cards on which models learn the patterns of attention."""

import pytest
import torch

from attention_tutorial.data.cards import LETTERS, QUESTIONS, card_rows


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("fewest", "most"), [(2, 2), (5, 9), (12, 16)])
def test_cards_have_the_answers_that_their_row_gives(fewest, most):
    cards = card_rows(30, generator=generator(), fewest=fewest, most=most)
    assert cards.letter.shape == (30, most) and cards.answers.shape == (30, most, len(QUESTIONS))
    for row in range(30):
        n = int(cards.real[row].sum())
        assert fewest <= n <= most and cards.real[row, :n].all()
        letter, group = cards.letter[row, :n].tolist(), cards.group[row, :n].tolist()
        name, wanted = cards.name[row, :n].tolist(), cards.wanted[row, :n].tolist()
        assert len(set(name)) == n and group == sorted(group) and set(letter) <= set(range(len(LETTERS)))
        for i in range(n):
            left, first, of_group, friend = cards.answers[row, i].tolist()
            members = [letter[j] for j in range(n) if group[j] == group[i]]
            assert i == 0 or left == letter[i - 1]
            assert first == letter[0]
            assert 2 * members.count(of_group) > len(members)
            assert friend == letter[name.index(wanted[i])]
            assert name.index(wanted[i]) == cards.friend[row, i] != i


def test_every_size_of_rows_and_of_groups_is_drawn():
    cards = card_rows(60, generator=generator())
    assert set(cards.real.sum(1).tolist()) == {12, 13, 14, 15, 16}
    sizes = {size for row in cards.group for size in row.unique(return_counts=True)[1][:-1].tolist()}
    assert sizes == {3, 4, 5}  # but for a row's last group, which may be cut short


def test_nothing_is_drawn_more_often_at_one_place_than_at_another():
    cards = card_rows(3000, generator=generator(), fewest=7, most=7)
    steps = (cards.friend - torch.arange(7)) % 7 - 1
    for drawn, count in ((cards.letter, len(LETTERS)), (cards.name, 7), (steps, 6)):
        shares = torch.nn.functional.one_hot(drawn, count).double().mean(0)
        assert torch.allclose(shares, torch.full((7, count), 1 / count, dtype=torch.float64), atol=0.03)
    firsts = (cards.letter == cards.answers[..., 2])[(cards.group == 0).sum(1) == 3, :3].double().mean(0)
    assert torch.allclose(firsts, torch.tensor(2 / 3 + 1 / 3 / 6, dtype=torch.float64), atol=0.05)  # 2 of 3 carry it


def test_every_real_card_is_asked_everything_but_the_first_one_for_its_left():
    cards = card_rows(20, generator=generator())
    expected = cards.real[:, :, None].repeat(1, 1, 4)
    expected[:, 0, 0] = False
    assert cards.asked.equal(expected)


def test_some_rows_and_another_device(device):
    cards = card_rows(5, generator=generator())
    some = cards.at(torch.tensor([4, 1])).to(device)
    assert some.letter.device.type == device.type
    assert some.answers.cpu().equal(cards.answers[[4, 1]])


def test_impossible_rows_are_refused():
    with pytest.raises(ValueError, match="most must be at least fewest; got most=3, fewest=4"):
        card_rows(1, generator=generator(), fewest=4, most=3)
    with pytest.raises(TypeError, match=r"^most must be an int; got float$"):
        card_rows(1, generator=generator(), most=16.0)
    with pytest.raises(ValueError, match="fewest must be at least 2; got 1"):
        card_rows(1, generator=generator(), fewest=1)
    with pytest.raises(ValueError, match="size must be at least 1; got 0"):
        card_rows(0, generator=generator())
