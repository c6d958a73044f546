"""Laws of the small piece of English and Italian. The oracle translates the English text by a list made by hand."""

import functools
import re
from collections import Counter

import pytest
import torch
from oracles import assert_raises, mistakes

from attention_tutorial.data.translation import (
    ADJECTIVES,
    BEGIN,
    END,
    ENGLISH,
    FUTURE,
    GLOSSES,
    ITALIAN,
    NOUNS,
    PAD,
    PAST,
    RELATIVES,
    VERBS,
    Sentence,
    TranslationBatches,
    draw_sentences,
    encode_english,
    encode_italian,
    is_held_out,
    read_sentence,
    spell_italian,
    split_words,
)

# Each noun with its article, as a dictionary has it; and what "of the" becomes before it.
DICTIONARY = """
l'architettura f, la rete f, la macchina f, la lingua f, la frase f, la parola f, la formula f, la teoria f,
la regola f, l'idea f, la scuola f, la biblioteca f, la mappa f, la lettera f, la legge f, l'immagine f, il modello m,
il sistema m, il problema m, il programma m, il metodo m, l'algoritmo m, il libro m, l'articolo m, l'esempio m,
lo strumento m, il codice m, il progetto m, il motore m, il teorema m, il museo m, l'esperimento m
"""
OF = {"il": "del", "lo": "dello", "la": "della", "l'": "dell'"}
PARTICIPLES = {
    "introduced": "introdott", "presented": "presentat", "described": "descritt", "published": "pubblicat",
    "translated": "tradott", "studied": "studiat", "tested": "provat", "built": "costruit", "discovered": "scopert",
    "changed": "cambiat", "improved": "migliorat", "praised": "lodat", "opened": "apert", "copied": "copiat",
}  # fmt: skip
ADJECTIVE_FORMS = {
    "transformer": ("transformer", "transformer"), "modern": ("moderna", "moderno"), "famous": ("famosa", "famoso"),
    "classic": ("classica", "classico"), "complete": ("completa", "completo"), "simple": ("semplice", "semplice"),
    "neural": ("neurale", "neurale"),
}  # fmt: skip
THIRD_PERSON = {"uses": "usa", "needs": "richiede", "contains": "contiene"}
WITH_ARTICLE = [entry.strip().rsplit(" ", 1) for entry in DICTIONARY.replace("\n", " ").split(",")]
ENGLISH_NOUNS = [noun.english for noun in NOUNS]


def with_article(english):
    return WITH_ARTICLE[ENGLISH_NOUNS.index(english)][0]


def of_the(english):
    article, noun = re.fullmatch(r"(l'|\w+ )(.+)", with_article(english)).groups()
    joined = OF[article.strip()]
    return f"{joined}{noun}" if joined.endswith("'") else f"{joined} {noun}"


def translate(text):
    """Translate an English text of the grammar, by looking at its words from left to right."""
    words, italian = re.findall(r"\w+|[,?]", text), []
    if words[0] == "after":
        italian.append(f"dopo {with_article(words[2])},")
        words = words[4:]
    answer = words[:2] == ["what", "about"]
    words = words[3 if answer else 1 :]
    adjective = words.pop(0) if words[0] in ADJECTIVE_FORMS else None
    subject = words.pop(0)
    feminine = WITH_ARTICLE[ENGLISH_NOUNS.index(subject)][1] == "f"
    phrase = [with_article(subject)]
    if adjective:
        phrase.append(ADJECTIVE_FORMS[adjective][not feminine])
    if words[0] == "of":
        phrase.append(of_the(words[2]))
        words = words[3:]
    elif words[0] == "that":
        phrase.append(f"che {with_article(words[2])} {THIRD_PERSON[words[3]]}")
        words = words[4:]
    italian = [] if answer else italian + phrase
    if answer:
        assert words[:2] == ["?", "it"]
        words = words[2:]
    letter = "a" if feminine else "o"
    past = words[0] == "was"
    italian.append(f"è stat{letter}" if past else "verrà")
    verb, _, year = words[1 if past else 2 :]
    return " ".join([*italian, PARTICIPLES[verb] + letter, "nel", year])


@functools.cache
def drawn(size=2000, seed=0, **options):
    return draw_sentences(size, generator=torch.Generator().manual_seed(seed), **options)


def test_every_italian_sentence_is_what_the_dictionary_makes_of_the_english_one():
    for sentence in drawn(3000) + drawn(500, held_out=True):
        assert sentence.italian == translate(sentence.english), sentence.english


def test_the_story_s_sentence_is_in_the_language():
    sentence = read_sentence("The transformer architecture was introduced in 2017.")
    assert sentence.italian == "l'architettura transformer è stata introdotta nel 2017"
    assert sentence.is_held_out


def test_nouns_are_those_of_the_dictionary_half_of_them_feminine():
    assert [noun.the().replace("' ", "'") for noun in NOUNS] == [entry for entry, _ in WITH_ARTICLE]
    assert [noun.feminine for noun in NOUNS] == [gender == "f" for _, gender in WITH_ARTICLE]
    assert sum(noun.feminine for noun in NOUNS) == len(NOUNS) / 2
    assert set(VERBS) == set(PARTICIPLES)
    assert set(ADJECTIVES) == set(ADJECTIVE_FORMS)
    assert set(RELATIVES) == set(THIRD_PERSON)


def test_an_answer_shows_its_gender_in_the_verb_alone():
    for sentence in drawn(500, is_answer=True):
        words = sentence.italian.split()
        letter = "a" if sentence.subject.feminine else "o"
        past = sentence.year in PAST
        assert words[0] == ("è" if past else "verrà")
        assert all(word.endswith(letter) for word in words[1 : 3 if past else 2])
        assert len(words) == (5 if past else 4)
        assert sentence.subject.italian not in words


def share(sentences, fact):
    return sum(map(fact, sentences)) / len(sentences)


def test_parts_are_drawn_as_often_as_the_documentation_says():
    sentences = drawn(20_000)
    for expected, fact in [
        (1 / 2, lambda s: s.leading is not None),
        (1 / 3, lambda s: s.relation == "of"),
        (1 / 3, lambda s: s.relation in RELATIVES),
        (1 / 3, lambda s: s.adjective is not None),
        (1 / 2, lambda s: s.year in FUTURE),
        (1 / 4, lambda s: s.is_answer),
        (1 / 2, lambda s: s.subject.feminine),
    ]:
        assert share(sentences, fact) == pytest.approx(expected, abs=0.015)
    assert {s.year for s in sentences} == {*PAST, *FUTURE}
    for column in (lambda s: s.subject, lambda s: s.verb, lambda s: s.year):
        counts = Counter(map(column, sentences)).values()
        assert max(counts) < 1.3 * min(counts)


@pytest.mark.parametrize("part", ["leading", "other"])
def test_another_noun_says_nothing_of_the_subject_s_gender(part):
    sentences = [s for s in drawn(20_000) if getattr(s, part)]
    same = share(sentences, lambda s: getattr(s, part).feminine == s.subject.feminine)
    assert same == pytest.approx(0.5, abs=0.02)
    future = [s for s in sentences if s.year in FUTURE]
    assert share(future, lambda s: s.subject.feminine) == pytest.approx(0.5, abs=0.025)


def test_held_out_pairs_never_come_otherwise_and_are_balanced():
    pairs = [(noun, verb) for noun in NOUNS for verb in VERBS]
    held_out = [pair for pair in pairs if is_held_out(*pair)]
    assert len(held_out) == len(pairs) / 7
    assert sum(noun.feminine for noun, _ in held_out) == len(held_out) / 2
    assert {noun for noun, _ in held_out} == set(NOUNS)
    assert {verb for _, verb in held_out} == set(VERBS)
    assert not any(s.is_held_out for s in drawn(5000))
    assert all(s.is_held_out for s in drawn(500, held_out=True))


def test_every_sentence_can_be_read_back():
    for sentence in drawn(1500) + drawn(200, held_out=True):
        assert read_sentence(sentence.english) == sentence
        assert read_sentence(f"  {sentence.english.capitalize()} . ") == sentence


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the netwrk was tested in 2020", "text must use the words of the grammar; got 'netwrk'; near: network"),
        ("the zebra was tested in 2020", "text must use the words of the grammar; got 'zebra'"),
        ("<pad>", "text must use the words of the grammar; got '<'"),
        *(
            (wrong, "text must be a sentence of the grammar, such as 'the network of the model was tested in 2020'; "
                    f"got {wrong!r}")
            for wrong in (
                "", "the network", "network was tested in 2020", "the network was tested in 2030",
                "the network will be tested in 2020", "what about the network was tested in 2020",
                "the network? it was tested in 2020", "the network was tested in 2020 in 2020",
            )
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(text, message):
    assert_raises(lambda: read_sentence(text), ValueError, message)


def test_ids_and_texts_come_back_from_each_other():
    sentences = drawn(300)
    ids = encode_italian([s.italian for s in sentences])
    assert [spell_italian(row) for row in ids] == [s.italian for s in sentences]
    assert ids.eq(END).sum(1).eq(1).all()
    source = encode_english([s.english for s in sentences])
    for sentence, row in zip(sentences, source, strict=True):
        words = [ENGLISH[i] for i in row if i != PAD]
        assert " ".join(words).replace(" ,", ",").replace(" ?", "?") == sentence.english
        assert row[len(words) :].eq(PAD).all()
    assert spell_italian(torch.tensor([BEGIN, *ids[0].tolist(), 7, PAD])) == sentences[0].italian


def test_the_vocabularies_are_all_words_and_no_more():
    sentences = drawn(20_000)
    assert {int(i) for i in encode_english([s.english for s in sentences]).unique()} == set(range(len(ENGLISH)))
    used = {int(i) for i in encode_italian([s.italian for s in sentences]).unique()}
    assert used == set(range(len(ITALIAN))) - {BEGIN}
    assert (ENGLISH[PAD], ITALIAN[PAD], ITALIAN[BEGIN], ITALIAN[END]) == ("<pad>", "<pad>", "<begin>", "<end>")
    assert len(set(ENGLISH)) == len(ENGLISH)
    assert len(set(ITALIAN)) == len(ITALIAN)


def test_word_by_word_a_translation_is_the_english_sentence_in_another_order():
    assert list(GLOSSES) == [word for word in ITALIAN if not word.startswith("<")]
    for sentence in drawn(is_answer=False):
        english = " ".join(GLOSSES[word] for word in split_words(sentence.italian)).replace("has been", "was")
        assert sorted(english.split()) == sorted(split_words(sentence.english))


def test_batches_come_again_and_follow_from_the_seed():
    batches = TranslationBatches(3, batch_size=5, seed=4)
    first, again = list(batches), list(batches)
    assert len(first) == len(batches) == 3
    assert all(torch.equal(a, b) for x, y in zip(first, again, strict=True) for a, b in zip(x, y, strict=True))
    other = next(iter(TranslationBatches(3, batch_size=5, seed=5)))
    assert not torch.equal(other[0][:, :4], first[0][0][:, :4])
    for source, target in first:
        texts = [spell_italian(row) for row in target]
        english = [" ".join(ENGLISH[i] for i in row if i != PAD).replace(" ,", ",") for row in source]
        assert [read_sentence(text).italian for text in english] == texts


@mistakes({
    TypeError: [
        (lambda: drawn(1, held_out=1), "held_out must be True or False; got int"),
        (lambda: drawn(1, is_answer="no"), "is_answer must be True or False; got str"),
        (lambda: read_sentence(3), "text must be a str; got int"),
        (lambda: encode_english("the model"), "texts must be a sequence of str; got str"),
    ],
    ValueError: [
        (lambda: drawn(0), "size must be at least 1; got 0"),
        (lambda: encode_english([]), "texts must hold at least one text; got none"),
        (lambda: encode_italian(["la zebra"]), "sentences must use the words of the vocabulary; got zebra"),
        (lambda: spell_italian(torch.ones(2, 2).long()), "ids must have one axis (n,); got shape (2, 2)"),
        (lambda: spell_italian(torch.tensor([999])), f"ids must lie between 0 and {len(ITALIAN) - 1}; got [999]"),
        (lambda: Sentence(NOUNS[0], "introduced", 1999), "year must be 2008 to 2023 or 2027 to 2042; got 1999"),
        (lambda: Sentence(NOUNS[0], "introduced", 2010, relation="of"),
         "relation and other must be given together; got relation='of', other=None"),
        (lambda: TranslationBatches(0), "num_batches must be at least 1; got 0"),
    ],
})  # fmt: skip
def test_a_mistake_gets_an_error_that_names_it(call, error, message):
    assert_raises(call, error, message)
