"""The made-up languages: every sentence obeys its grammar, and its answers are the right ones."""

import pytest
import torch

from attention_tutorial.sentences import ANIMALS, PAD, PLACES, VOCABULARY, encode, who_where


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


def test_the_same_generator_draws_the_same_sentences():
    first, second = (who_where(5, generator=torch.Generator().manual_seed(7)) for _ in range(2))
    assert first.ids.equal(second.ids) and first.answers.equal(second.answers)


def test_encode_pads_on_the_right_and_knows_only_its_words():
    ids = encode([["the", "cat", "sat"], ["the"]])
    assert ids.tolist() == [[1, VOCABULARY.index("cat"), VOCABULARY.index("sat")], [1, PAD, PAD]]
    with pytest.raises(ValueError, match="sentences must use the words of VOCABULARY; got zebra"):
        encode([["the", "zebra"]])


def test_adjectives_must_have_room():
    with pytest.raises(ValueError, match="max_adjectives must be at least min_adjectives; got max_adjectives=1"):
        who_where(1, generator=torch.Generator(), min_adjectives=2, max_adjectives=1)
    with pytest.raises(TypeError, match="size must be an int; got float"):
        who_where(1.0, generator=torch.Generator())
