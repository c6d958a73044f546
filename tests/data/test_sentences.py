"""The made-up languages: every sentence obeys its grammar, and its answers are the right ones."""

import pytest
import torch

from attention_tutorial.data.sentences import (
    ANIMALS,
    BANK_VOCABULARY,
    DAYS,
    PAD,
    PEOPLE,
    PLACES,
    TOWNS,
    VOCABULARY,
    bank_sentences,
    encode,
    who_where,
)


def words_of(ids):
    return [VOCABULARY[i] for i in ids if i != PAD]


@pytest.mark.parametrize(("fewest", "most"), [(0, 0), (0, 3), (2, 5)])
def test_who_where_sentences_obey_their_grammar(fewest, most):
    drawn = who_where(50, generator=torch.Generator().manual_seed(0), min_adjectives=fewest, max_adjectives=most)
    for ids, asked, answers in zip(drawn.ids, drawn.asked, drawn.answers, strict=True):
        words = words_of(ids)
        (animal,), (place,) = set(words) & set(ANIMALS), set(words) & set(PLACES)
        assert [VOCABULARY[i] for i in answers] == [animal, place]
        assert words[asked[0]] in ("sat", "slept", "stood", "hid")
        assert words[asked[1]] in ("on", "under", "near", "behind")
        assert asked[0] == words.index(animal) + 1 and asked[1] == asked[0] + 1 and words[-1] == place
        assert words.count("the") == 2
        assert 2 * fewest <= len(words) - 6 <= 2 * most


def test_every_word_of_the_grammar_is_drawn():
    drawn = who_where(500, generator=torch.Generator().manual_seed(0))
    assert set(drawn.ids.unique().tolist()) == set(range(len(VOCABULARY)))


def test_encode_pads_on_the_right_and_knows_only_its_words():
    ids = encode([["the", "cat", "sat"], ["the"]])
    assert ids.tolist() == [[1, VOCABULARY.index("cat"), VOCABULARY.index("sat")], [1, PAD, PAD]]
    assert ids.dtype == torch.int64
    assert encode([["bank"]], BANK_VOCABULARY).tolist() == [[BANK_VOCABULARY.index("bank")]]
    with pytest.raises(ValueError, match=r"^sentences must use the words of the vocabulary; got gnu, yak, zebra$"):
        encode([["the", "zebra", "yak"], ["gnu", "zebra"]])


def test_adjectives_must_have_room():
    with pytest.raises(ValueError, match="max_adjectives must be at least min_adjectives; got max_adjectives=1"):
        who_where(1, generator=torch.Generator(), min_adjectives=2, max_adjectives=1)
    with pytest.raises(TypeError, match="size must be an int; got float"):
        who_where(1.0, generator=torch.Generator())


def bank_words(ids):
    return [BANK_VOCABULARY[i] for i in ids if i != PAD]


RIVER = {"is lying on", "was fishing from", "rested beside", "needed to gather reeds along"}
MONEY = {"is saving at", "was borrowing from", "paid into", "needed to transfer money to"}


@pytest.mark.parametrize("held_out", [False, True])
def test_bank_sentences_obey_their_grammar(held_out):
    drawn = bank_sentences(200, generator=torch.Generator().manual_seed(0), held_out=held_out)
    for ids, sense, answers in zip(drawn.ids, drawn.sense, drawn.answers, strict=True):
        words = bank_words(ids)
        who, day, town = (BANK_VOCABULARY[i] for i in answers)
        assert who in PEOPLE and day in DAYS and town in TOWNS
        assert words[:3] == ["on", day, who] and words[-2:] == ["in", town]
        bank = words.index("bank")
        activity, owner = " ".join(words[3 : bank - 1]), words[bank + 1 : -2]
        assert activity in (RIVER, MONEY)[sense]
        assert owner in ([], ["of", "the", ("river", "merchants")[sense]])


def test_who_when_where_and_what_are_drawn_independently():
    drawn = bank_sentences(6000, generator=torch.Generator().manual_seed(0))
    owned = (drawn.ids == BANK_VOCABULARY.index("of")).sum(1)
    assert abs(owned.double().mean() - 0.5) < 0.03
    who, day, town = (drawn.answers - drawn.answers.amin(0)).T
    meanings = [drawn.sense, owned]
    for a, b in [(who, day), (who, town), (day, town), *((x, y) for x in (who, day, town) for y in meanings), meanings]:
        counts = torch.zeros(int(a.max()) + 1, int(b.max()) + 1).index_put((a, b), torch.ones(()), accumulate=True)
        assert (counts / len(a) * counts.numel() - 1).abs().max() < 0.35  # all pairs are equally frequent


def test_no_held_out_pair_of_person_and_activity_is_taught():
    pairs = []
    for held_out in (False, True):
        drawn = bank_sentences(3000, generator=torch.Generator().manual_seed(1), held_out=held_out)
        words = [bank_words(ids) for ids in drawn.ids]
        pairs.append({(w[2], " ".join(w[3 : w.index("bank") - 1])) for w in words})
    taught, unseen = pairs
    assert not taught & unseen and len(taught) == 48 and len(unseen) == 16
    assert {("sherry", "is lying on"), ("ryan", "needed to transfer money to")} <= unseen
    for who in PEOPLE:  # in neither set does the person give the sense away
        assert sum((who, a) in unseen for a in RIVER) == sum((who, a) in unseen for a in MONEY) == 1


def test_every_word_of_the_bank_grammar_is_drawn_and_the_senses_are_balanced():
    drawn = bank_sentences(2000, generator=torch.Generator().manual_seed(0))
    assert set(drawn.ids.unique().tolist()) == set(range(len(BANK_VOCABULARY)))
    assert len(set(BANK_VOCABULARY)) == len(BANK_VOCABULARY)
    assert abs(drawn.sense.double().mean() - 0.5) < 0.05


def test_each_sense_has_as_many_words_that_the_other_lacks():
    drawn = bank_sentences(3000, generator=torch.Generator().manual_seed(0))
    words = [{word for ids in drawn.ids[drawn.sense == sense] for word in bank_words(ids)[2:]} for sense in (0, 1)]
    river, money = words[0] - words[1] - {"on"}, words[1] - words[0]  # "on" stands before every day as well
    assert len(river) == len(money) == 8


def test_bank_sentences_check_their_arguments():
    with pytest.raises(ValueError, match="size must be at least 1; got 0"):
        bank_sentences(0, generator=torch.Generator())
    with pytest.raises(TypeError, match="held_out must be True or False; got int"):
        bank_sentences(1, generator=torch.Generator(), held_out=1)
