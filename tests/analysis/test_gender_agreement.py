"""Laws of the measures of agreement. The oracles are the words themselves, and one sentence at a time."""

import pytest
import torch
from oracles import assert_raises, mistakes
from torch.testing import assert_close

from attention_tutorial.analysis.gender_agreement import close, decisions, margins
from attention_tutorial.data.translation import (
    ADJECTIVES,
    ENGLISH,
    ITALIAN,
    VERBS,
    draw_sentences,
    encode_english,
    feminine_of,
    split_words,
)
from attention_tutorial.models.transformer import BEGIN, Transformer


@pytest.fixture(scope="module")
def sentences():
    return draw_sentences(400, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def model():
    generator = torch.Generator().manual_seed(1)
    return Transformer(len(ENGLISH), len(ITALIAN), d_model=12, num_heads=3, d_ff=7, generator=generator).double()


def word_at(words, place):
    return words[place] if place >= 0 else None


def test_places_are_those_of_the_words(sentences):
    cut = decisions(sentences)
    for i, sentence in enumerate(sentences):
        english, italian = split_words(sentence.english), ["<begin>", *split_words(sentence.italian)]
        there = {name: word_at(english, places[i]) for name, places in cut.source_places.items()}
        here = {name: word_at(italian, places[i]) for name, places in cut.target_places.items()}
        for name in ("subject", "other", "leading"):
            noun = getattr(sentence, name)
            assert there[name] == (noun.english if noun else None)
            assert here[name] == (noun.italian if noun and not sentence.is_answer else None)
        assert there["adjective"] == sentence.adjective
        forms = sentence.adjective and (ADJECTIVES[sentence.adjective], feminine_of(ADJECTIVES[sentence.adjective]))
        assert here["adjective"] in forms if forms and not sentence.is_answer else here["adjective"] is None
        if not sentence.is_answer:
            assert f"{here['article']} {sentence.subject.italian}" == sentence.subject.the()


def test_a_decision_comes_before_the_first_form_of_the_verb_that_agrees(sentences):
    cut = decisions(sentences)
    participles = {form for verb in VERBS.values() for form in (verb, feminine_of(verb))} | {"stato", "stata"}
    for i, sentence in enumerate(sentences):
        words = split_words(sentence.italian)
        first = next(at for at, word in enumerate(words) if word in participles)
        read = [ITALIAN[j] for j in cut.target_in[i, : cut.step[i] + 1]]
        assert read == ["<begin>", *words[:first]]
        assert cut.target_in[i, cut.step[i] + 1 :].eq(0).all()
        assert ITALIAN[cut.right[i]] == words[first]
        assert {ITALIAN[cut.right[i]][-1], ITALIAN[cut.wrong[i]][-1]} == {"a", "o"}
        assert ITALIAN[cut.right[i]][:-1] == ITALIAN[cut.wrong[i]][:-1]
        assert ITALIAN[cut.right[i]].endswith("a") == sentence.subject.feminine


def test_a_margin_is_the_difference_of_two_log_probabilities(sentences, model):
    cut = decisions(sentences[:12])
    for sentence, margin, step in zip(sentences, margins(model, cut), cut.step, strict=False):
        words = split_words(sentence.italian)[: step + 1]
        *before, right = (ITALIAN.index(word) for word in words)
        wrong = ITALIAN.index(words[-1][:-1] + ("o" if words[-1].endswith("a") else "a"))
        logits, _ = model(encode_english([sentence.english]), torch.tensor([[BEGIN, *before]]))
        log_p = logits[0, -1].log_softmax(0)
        assert_close(margin, log_p[right] - log_p[wrong])


def test_a_closed_edge_is_closed_for_its_row_alone(sentences, model):
    cut = decisions(sentences[:50])
    m, n = cut.target_in.size(1), cut.source.size(1)
    mask = close(cut.step, cut.source_places["other"], m, n)
    _, weights = model(cut.source, cut.target_in, cross_mask=mask)
    _, free = model(cut.source, cut.target_in)
    for i, (row, column) in enumerate(zip(cut.step.tolist(), cut.source_places["other"].tolist(), strict=True)):
        others = torch.arange(m) != row
        assert torch.equal(weights.cross[0][i][:, others], free.cross[0][i][:, others])
        assert mask[i].logical_not().sum() == (column >= 0)
        if column >= 0:
            assert weights.cross[0][i, :, row, column].eq(0).all()
            assert free.cross[0][i, :, row, column].gt(0).all()
    assert not torch.equal(margins(model, cut, cross_mask=mask), margins(model, cut))


def test_without_rows_every_position_is_kept_from_looking():
    columns = torch.tensor([2, -1])
    every = close(None, columns, m=3, n=4)
    assert every.shape == (2, 3, 4)
    assert every[0].logical_not().nonzero()[:, 1].tolist() == [2, 2, 2]
    assert every[1].all()
    joined = torch.stack([close(torch.full((2,), row), columns, 3, 4) for row in range(3)]).all(0)
    assert torch.equal(every, joined)


@mistakes({
    TypeError: [
        (lambda: decisions("the model"), "sentences must be a sequence of Sentence; got str"),
        (lambda: close(None, torch.tensor([1.0]), 2, 3),
         "columns must hold positions of dtype torch.int64; got torch.float32"),
    ],
    ValueError: [
        (lambda: decisions([]), "texts must hold at least one text; got none"),
    ],
})  # fmt: skip
def test_a_mistake_gets_an_error_that_names_it(call, error, message):
    assert_raises(call, error, message)
