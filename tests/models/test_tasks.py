"""Laws of models trained side by side: each as if alone, and the two tasks of chapter 4."""

import pytest
import torch

from attention_tutorial.data.sentences import BANK_VOCABULARY, bank_sentences
from attention_tutorial.models.tasks.bank_reader import (
    BANK_KINDS,
    BankReader,
    bank_answers,
    bank_scores,
    head_profile,
    learn_bank,
    word_kinds,
)
from attention_tutorial.models.tasks.two_lookups import LookUp, draw_rounds, learn_look_up, look_up_scores
from attention_tutorial.models.training import share_right, train_ensemble

pytestmark = pytest.mark.usefixtures("double")


def rounds(size=20, kinds=1, models=1, seed=0):
    return draw_rounds(models, size, torch.Generator().manual_seed(seed), kinds=kinds)


def test_rounds_ask_for_two_different_persons_and_know_what_they_hold():
    held, asked, right = rounds(500, models=2)
    assert held.shape == (2, 500, 8) and held.max() < 6
    assert (asked[..., 0] != asked[..., 1]).all()
    assert held.gather(-1, asked).equal(right)


def test_rounds_of_two_kinds_hold_other_things_on_the_second_table():
    held, asked, right = rounds(500, kinds=2)
    assert held[..., :8].max() < 6 <= held[..., 8:].min()
    second = held.gather(-1, asked + torch.tensor([0, 8]))
    assert second.equal(right + torch.tensor([0, 6]))


@pytest.mark.parametrize("arguments", [{"kinds": 3}, {"size": 0}, {"models": 0}])
def test_rounds_check_their_arguments(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        draw_rounds(**{"models": 1, "size": 1, "generator": torch.Generator()} | arguments)


def test_heads_of_a_look_up_begin_as_plain_averages():
    held, asked, _ = (part[0] for part in rounds())
    logits, weights = LookUp(0, 4)(held, asked)
    assert logits.shape == (20, 2, 6)
    assert torch.allclose(weights, torch.full((20, 4, 8), 1 / 8))


def test_a_model_in_a_team_is_trained_as_if_alone():
    models = [LookUp(seed, 2) for seed in range(3)]
    batches = [rounds(8, models=3, seed=seed) for seed in range(5)]
    team = train_ensemble(models, batches)
    (alone,) = train_ensemble([LookUp(1, 2)], [[part[1:2] for part in batch] for batch in batches])
    for first, other in zip(team[1].parameters(), alone.parameters(), strict=True):
        assert torch.allclose(first, other, atol=1e-6)


def test_a_team_needs_models_and_batches():
    with pytest.raises(ValueError, match="got 0 and 1"):
        train_ensemble([], [rounds()])
    with pytest.raises(ValueError, match="learning_rate"):
        train_ensemble([LookUp(0, 1)], [rounds()], learning_rate=0.0)


def test_two_heads_learn_both_look_ups_and_one_does_not():
    both = look_up_scores(learn_look_up([LookUp(0, 2)]))
    single = look_up_scores(learn_look_up([LookUp(0, 1)]))
    assert both.shape == (1, 2) and both.min() > 0.95
    assert single.max() > 0.9 > 0.5 > single.min()


@pytest.mark.parametrize(("asks", "questions", "answers"), [("sense", 1, 2), ("together", 3, 8), ("apart", 3, 8)])
def test_readers_answer_what_they_are_asked(asks, questions, answers):
    data = bank_sentences(9, generator=torch.Generator().manual_seed(0))
    logits, weights = BankReader(0, asks)(data.ids)
    assert logits.shape == (9, questions, answers)
    assert weights.shape == (9, 3, data.ids.size(1))
    right = bank_answers(data, asks)
    assert right.shape == (9, questions) and right.min() >= 0 and right.max() < answers
    assert share_right(BankReader(0, asks), (data.ids,), right).shape == (questions,)


def test_a_reader_does_not_look_at_what_is_not_kept():
    data = bank_sentences(5, generator=torch.Generator().manual_seed(0))
    keep = word_kinds(data.ids) != 3
    _, weights = BankReader(0, "sense")(data.ids, keep)
    assert weights.transpose(1, 2)[~keep].abs().max() == 0


def test_a_reader_must_be_asked_something_known():
    with pytest.raises(ValueError, match="asks must be one of sense, together, apart; got 'why'"):
        BankReader(0, "why")


def test_readers_learn_and_their_heads_have_profiles():
    taught = bank_sentences(300, generator=torch.Generator().manual_seed(0))
    (reader,) = learn_bank([BankReader(0, "sense")], taught, steps=120)
    assert bank_scores([reader], taught).item() > 0.95
    profile = head_profile(reader, taught)
    assert profile.shape == (3, len(BANK_KINDS))
    assert torch.allclose(profile.sum(dim=1), torch.ones(3))


def test_on_belongs_to_the_day_at_the_start_and_to_the_activity_elsewhere():
    words = ["on", "monday", "sherry", "is", "lying", "on", "the", "bank", "of", "the", "river", "in", "oxford"]
    ids = torch.tensor([[BANK_VOCABULARY.index(word) for word in words]])
    kinds = [BANK_KINDS[kind] for kind in word_kinds(ids)[0]]
    assert kinds[:6] == ["rest", "when", "who", "activity", "activity", "activity"]
    assert kinds[6:] == ["rest", "rest", "activity", "rest", "activity", "rest", "where"]
