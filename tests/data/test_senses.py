"""Sentences with a word of two senses: the word is there once, and no list repeats another."""

import itertools
import re

import pytest

from attention_tutorial.data.senses import CLUES, FRESH_SENTENCES, SECOND_SENTENCES, SENTENCES

LISTS = [SENTENCES, SECOND_SENTENCES, FRESH_SENTENCES]


def texts_of(senses):
    return [text for _, *both in senses.values() for texts in both for text in texts]


@pytest.mark.parametrize("senses", LISTS, ids=["first", "second", "fresh"])
def test_each_sentence_has_its_word_once_and_both_senses_have_as_many(senses):
    for word, (names, first, second) in senses.items():
        assert len(set(names)) == 2 and len(first) == len(second) >= 4
        for text in (*first, *second):
            assert re.findall(r"\w+", text.lower()).count(word) == 1, text
            assert text[0].isupper() and text[-1] in ".?" and "*" not in text


def test_no_sentence_comes_twice():
    texts = list(itertools.chain.from_iterable(map(texts_of, LISTS)))
    assert len(set(texts)) == len(texts)


def test_each_fresh_sentence_has_one_clue_which_is_another_word():
    assert list(CLUES) == texts_of(FRESH_SENTENCES)
    for word, (_, *both) in FRESH_SENTENCES.items():
        for text in itertools.chain.from_iterable(both):
            assert re.findall(r"\w+", text.lower()).count(CLUES[text]) == 1 and CLUES[text] != word, text
