"""A small piece of English and Italian, made by a grammar, so that the right translation of every sentence is known.

Sentences such as "the transformer architecture was introduced in 2017", in Italian "l'architettura transformer è stata
introdotta nel 2017". Italian words agree: *architettura* is feminine, so it is *introdotta*; *modello* is masculine, so
it would be *introdotto*. What can stand between the subject and its participle, or before the subject, has a gender
drawn for itself and says nothing about the subject's:

- a leading phrase, "after the program, ..." / "dopo il programma, ...";
- "of the model" / "del modello", or "that the model uses" / "che il modello usa".

Some sentences are answers: "what about the architecture? it was introduced in 2017". The question is context, and the
answer alone is translated: "è stata introdotta nel 2017". It has no subject in Italian, so no word before *stata* or,
in "verrà introdotta", before the participle shows the gender. It must come from the source.

Nouns and genders are drawn independently of all else, and as many nouns are feminine as masculine. The ending does not
give the gender away: *sistema* and *problema* are masculine, *rete* is feminine and *motore* is not. A seventh of the
pairs of a noun and a verb, among them *architecture* and *introduced*, is held out.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .._validation import check_flag, check_generator, check_size
from .copying import SeededBatches, listed_ids
from .sentences import encode

__all__ = [
    "ENGLISH",
    "GLOSSES",
    "ITALIAN",
    "Sentence",
    "TranslationBatches",
    "draw_sentences",
    "encode_english",
    "encode_italian",
    "read_sentence",
    "spell_italian",
]

PAD, BEGIN, END = 0, 1, 2


@dataclass(frozen=True)
class Noun:
    """A noun: its English word, its Italian one, and whether it is feminine."""

    english: str
    italian: str
    feminine: bool

    def the(self, of: bool = False) -> str:
        """Return it with its article, or with "of the": *il modello*, *dell' architettura*."""
        if self.italian[0] in "aeiou":
            article = "l'"
        elif self.feminine:
            article = "la"
        else:
            article = "lo" if re.match("s[^aeiou]|z", self.italian) else "il"
        if of:
            article = {"l'": "dell'", "la": "della", "lo": "dello", "il": "del"}[article]
        return f"{article} {self.italian}"


def _pairs(words: str) -> dict[str, str]:
    return dict(pair.split("/", 1) for pair in words.split())


FEMININE = _pairs(
    """
    architecture/architettura network/rete machine/macchina language/lingua sentence/frase word/parola formula/formula
    theory/teoria rule/regola idea/idea school/scuola library/biblioteca map/mappa letter/lettera law/legge
    image/immagine
    """
)
MASCULINE = _pairs(
    """
    model/modello system/sistema problem/problema program/programma method/metodo algorithm/algoritmo book/libro
    article/articolo example/esempio tool/strumento code/codice project/progetto engine/motore theorem/teorema
    museum/museo experiment/esperimento
    """
)
NOUNS = tuple(
    Noun(english, italian, feminine)
    for nouns, feminine in ((FEMININE, True), (MASCULINE, False))
    for english, italian in nouns.items()
)
# Of these the English word, and the Italian masculine
VERBS = _pairs(
    """
    introduced/introdotto presented/presentato described/descritto published/pubblicato translated/tradotto
    studied/studiato tested/provato built/costruito discovered/scoperto changed/cambiato improved/migliorato
    praised/lodato opened/aperto copied/copiato
    """
)
ADJECTIVES = _pairs(
    """
    transformer/transformer modern/moderno famous/famoso classic/classico complete/completo simple/semplice
    neural/neurale
    """
)
RELATIVES = {"uses": "usa", "needs": "richiede", "contains": "contiene"}
_SMALL_WORDS = {
    "the": "il lo la l'",
    "of the": "del dello della dell'",
    "after": "dopo",
    "that": "che",
    "in": "nel",
    "has": "è",
    "been": "stato stata",
    "will be": "verrà",
}
PAST, FUTURE = tuple(range(2008, 2024)), tuple(range(2027, 2043))

HELD_OUT_OF = 7  # one of so many pairs of noun and verb
_HELD_OUT = {(noun, verb) for i, noun in enumerate(NOUNS) for j, verb in enumerate(VERBS) if (i + j) % HELD_OUT_OF == 0}


def feminine_of(masculine: str) -> str:
    """Return the feminine of a participle or an adjective; one that does not end in -o has one form."""
    return masculine[:-1] + "a" if masculine.endswith("o") else masculine


def is_held_out(noun: Noun, verb: str) -> bool:
    """Say whether a pair of a noun and a verb is held out from training."""
    return (noun, verb) in _HELD_OUT


@dataclass(frozen=True)
class Sentence:
    """What a sentence says, from which both its languages are made.

    Attributes:
        subject: the noun that decides the gender.
        verb: the English participle, such as ``"introduced"``.
        year: in the past or in the future.
        adjective: English, such as ``"transformer"``, or ``None``.
        relation: ``"of"``, an English verb such as ``"uses"``, or ``None``.
        other: the noun that this relation brings.
        leading: the noun of "after the ...", or ``None``.
        is_answer: the subject stands in a question before, and the answer alone is translated.

    Example:
        >>> sentence = Sentence(NOUNS[0], "introduced", 2017, adjective="transformer")
        >>> sentence.english
        'the transformer architecture was introduced in 2017'
        >>> sentence.italian
        "l'architettura transformer è stata introdotta nel 2017"
    """

    subject: Noun
    verb: str
    year: int
    adjective: str | None = None
    relation: str | None = None
    other: Noun | None = None
    leading: Noun | None = None
    is_answer: bool = False
    english: str = field(init=False)
    italian: str = field(init=False)

    def __post_init__(self) -> None:
        if (self.relation is None) != (self.other is None):
            raise ValueError("relation and other must be given together; "
                             f"got relation={self.relation!r}, other={self.other!r}")  # fmt: skip
        if self.year not in (*PAST, *FUTURE):
            raise ValueError(f"year must be {PAST[0]} to {PAST[-1]} or {FUTURE[0]} to {FUTURE[-1]}; got {self.year}")
        object.__setattr__(self, "english", " ".join(self._english()).replace(" ,", ",").replace(" ?", "?"))
        object.__setattr__(self, "italian", join_italian(" ".join(self._italian()).split()))

    @property
    def is_held_out(self) -> bool:
        """Whether its noun and verb were never together in training."""
        return is_held_out(self.subject, self.verb)

    def _english(self) -> Iterator[str]:
        if self.leading:
            yield f"after the {self.leading.english} ,"
        if self.is_answer:
            yield "what about"
        yield f"the {self.adjective} {self.subject.english}" if self.adjective else f"the {self.subject.english}"
        if self.other:
            of = self.relation == "of"
            yield f"of the {self.other.english}" if of else f"that the {self.other.english} {self.relation}"
        if self.is_answer:
            yield "? it"
        yield f"{'was' if self.year in PAST else 'will be'} {self.verb} in {self.year}"

    def _italian(self) -> Iterator[str]:
        def agreeing(word: str) -> str:
            return feminine_of(word) if self.subject.feminine else word

        if not self.is_answer:
            if self.leading:
                yield f"dopo {self.leading.the()} ,"
            yield self.subject.the()
            if self.adjective:
                yield agreeing(ADJECTIVES[self.adjective])
            if self.other and self.relation == "of":
                yield self.other.the(of=True)
            elif self.other and self.relation:
                yield f"che {self.other.the()} {RELATIVES[self.relation]}"
        yield f"è {agreeing('stato')}" if self.year in PAST else "verrà"
        yield f"{agreeing(VERBS[self.verb])} nel {self.year}"


def join_italian(words: Sequence[str]) -> str:
    """Write words as a text: no space after an apostrophe or before a comma.

    Example:
        >>> join_italian(["dopo", "l'", "idea", ",", "la", "rete"])
        "dopo l'idea, la rete"
    """
    return " ".join(words).replace("' ", "'").replace(" ,", ",")


def split_words(text: str) -> list[str]:
    """Cut a text into words, commas and question marks, in small letters; an apostrophe ends its word.

    Example:
        >>> split_words("Dopo l'idea, la rete")
        ['dopo', "l'", 'idea', ',', 'la', 'rete']
    """
    return re.findall(r"[^\W_]+'?|[^\w\s]", text.lower().replace("’", "'"))


def _vocabulary(special: Sequence[str], texts: Sequence[str]) -> tuple[str, ...]:
    return (*special, *dict.fromkeys(word for text in texts for word in split_words(text)))


def _every_word() -> list[Sentence]:
    """Return sentences that hold, together, every word of both languages."""
    other = NOUNS[0]
    found = [
        Sentence(noun, "introduced", year, relation=relation, other=noun, leading=noun)
        for noun in NOUNS
        for year, relation in ((PAST[0], "of"), (FUTURE[0], "uses"))
    ]
    both = (NOUNS[0], NOUNS[-1])
    found += [Sentence(noun, verb, PAST[0]) for verb in VERBS for noun in both]
    found += [Sentence(noun, "introduced", PAST[0], adjective=adjective) for adjective in ADJECTIVES for noun in both]
    found += [Sentence(other, "introduced", PAST[0], relation=verb, other=other) for verb in RELATIVES]
    return found + [Sentence(other, "introduced", year, is_answer=True) for year in (*PAST, *FUTURE)]


ENGLISH = _vocabulary(["<pad>"], [sentence.english for sentence in _every_word()])
ITALIAN = _vocabulary(["<pad>", "<begin>", "<end>"], [sentence.italian for sentence in _every_word()])


def _glosses() -> dict[str, str]:
    """Return the English of every Italian word; a comma or a year is itself."""
    english = {noun.italian: noun.english for noun in NOUNS}
    english |= {
        form: word for word, italian in (VERBS | ADJECTIVES).items() for form in (italian, feminine_of(italian))
    }
    english |= {italian: word for word, italian in RELATIVES.items()}
    english |= {italian: word for word, forms in _SMALL_WORDS.items() for italian in forms.split()}
    return {word: english.get(word, word) for word in ITALIAN if not word.startswith("<")}


#: What each word of ``ITALIAN`` is in English, for readers of what a translator wrote.
#:
#: :meta hide-value:
GLOSSES = _glosses()


def draw_sentences(
    size: int, *, generator: torch.Generator, held_out: bool = False, is_answer: bool | None = None
) -> list[Sentence]:  # fmt: skip
    """Draw sentences, each part independently of the others.

    Half have a leading phrase; a third each have "of the ...", "that the ... uses" or neither; a third has an
    adjective; half are in the future. A quarter are answers, unless ``is_answer`` says that all or none are.

    Args:
        size: how many.
        generator: source of randomness, on the CPU.
        held_out: draw from the pairs of noun and verb that are held out, and only from those; else from the others.
        is_answer: draw answers alone (``True``), or full sentences alone (``False``).

    Returns:
        The sentences.

    Raises:
        TypeError: if ``size`` is not an int, a flag not a bool, or ``generator`` not a ``torch.Generator``.
        ValueError: if ``size`` is below 1, or ``generator`` is not on the CPU.

    Example:
        >>> (sentence,) = draw_sentences(1, generator=torch.Generator().manual_seed(3))
        >>> print(sentence.english, sentence.italian, sep=" / ")
        after the program, the school will be changed in 2030 / dopo il programma, la scuola verrà cambiata nel 2030
    """
    check_size("size", size, minimum=1)
    check_flag("held_out", held_out)
    if is_answer is not None:
        check_flag("is_answer", is_answer)
    check_generator(generator)

    def draw(count: int) -> list[int]:
        return torch.randint(count, (size,), generator=generator, device="cpu").tolist()

    verbs = {noun: [verb for verb in VERBS if is_held_out(noun, verb) == held_out] for noun in NOUNS}
    choices = len(verbs[NOUNS[0]])  # as many for every noun
    adjectives, relatives = list(ADJECTIVES), list(RELATIVES)
    columns = zip(
        draw(len(NOUNS)), draw(choices), draw(2), draw(len(PAST)), draw(3 * len(adjectives)),
        draw(3), draw(len(relatives)), draw(len(NOUNS)), draw(2), draw(len(NOUNS)), draw(4), strict=True,
    )  # fmt: skip
    return [
        Sentence(
            NOUNS[noun],
            verbs[NOUNS[noun]][verb],
            (PAST, FUTURE)[tense][year],
            adjective=adjectives[adjective] if adjective < len(adjectives) else None,
            relation=(None, "of", relatives[relative])[relation],
            other=NOUNS[other] if relation else None,
            leading=NOUNS[leading] if leads else None,
            is_answer=answers == 0 if is_answer is None else is_answer,
        )
        for noun, verb, tense, year, adjective, relation, relative, other, leads, leading, answers in columns
    ]


_NOUN = "|".join(noun.english for noun in NOUNS)
#: The sentences of the grammar, but for years and tenses that must fit, and questions that must be answered.
#:
#: :meta hide-value:
SENTENCE_PATTERN = (
    rf"(?:after the (?P<leading>{_NOUN}) , )?(?P<answer>what about )?the (?:(?P<adjective>{'|'.join(ADJECTIVES)}) )?"
    rf"(?P<subject>{_NOUN})(?: of the (?P<of>{_NOUN})| that the (?P<user>{_NOUN}) (?P<relation>{'|'.join(RELATIVES)}))?"
    rf"(?P<question> \? it)? (?:was|will be) (?P<verb>{'|'.join(VERBS)}) in (?P<year>\d+)"
)
_ENGLISH_SENTENCE = re.compile(SENTENCE_PATTERN)


def read_sentence(text: str) -> Sentence:
    """Read an English sentence of this grammar.

    Args:
        text: such as "The transformer architecture was introduced in 2017."; case and a full stop do not matter.

    Returns:
        What it says, with its Italian.

    Raises:
        TypeError: if ``text`` is not a str.
        ValueError: if a word is unknown (the message has those most like it), or the words do not make a sentence.

    Example:
        >>> read_sentence("The network of the model will be tested in 2030.").italian
        'la rete del modello verrà provata nel 2030'
        >>> read_sentence("the netwrk was tested in 2020")
        Traceback (most recent call last):
        ValueError: text must use the words of the grammar; got 'netwrk'; near: network
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str; got {type(text).__name__}")
    words = [word for word in split_words(text) if word != "."]
    for word in words:
        if word not in ENGLISH[1:]:
            near = ", ".join(difflib.get_close_matches(word, ENGLISH[1:]))
            raise ValueError(f"text must use the words of the grammar; got {word!r}{f'; near: {near}' * bool(near)}")
    found = _ENGLISH_SENTENCE.fullmatch(" ".join(words))
    year = int(found["year"]) if found else 0
    tense = "will be" if year in FUTURE else "was"
    if not found or bool(found["answer"]) != bool(found["question"]) or f" {tense} " not in f" {' '.join(words)} ":
        example = "the network of the model was tested in 2020"
        raise ValueError(f"text must be a sentence of the grammar, such as {example!r}; got {text!r}")
    nouns: dict[str | None, Noun | None] = {noun.english: noun for noun in NOUNS}
    subject = nouns[found["subject"]]
    assert subject is not None
    return Sentence(
        subject,
        found["verb"],
        year,
        adjective=found["adjective"],
        relation="of" if found["of"] else found["relation"],
        other=nouns.get(found["of"] or found["user"]),
        leading=nouns.get(found["leading"]),
        is_answer=bool(found["answer"]),
    )


def _encode(texts: Sequence[str], vocabulary: Sequence[str], last: Sequence[str] = ()) -> Tensor:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"texts must be a sequence of str; got {type(texts).__name__}")
    if not texts:
        raise ValueError("texts must hold at least one text; got none")
    return encode([[*split_words(text), *last] for text in texts], vocabulary)


def encode_english(texts: Sequence[str]) -> Tensor:
    """Turn English texts into token ids, padded on the right with 0 to the longest.

    Args:
        texts: in words of ``ENGLISH``.

    Returns:
        (batch, n), int64.

    Raises:
        TypeError: if ``texts`` is not a sequence of str.
        ValueError: if there is none, or a word is not in the vocabulary.

    Example:
        >>> encode_english(["the model was tested in 2020", "the model"]).shape
        torch.Size([2, 6])
    """
    return _encode(texts, ENGLISH)


def encode_italian(texts: Sequence[str]) -> Tensor:
    """Turn Italian texts into token ids, each with 2 (the end) after it, padded on the right with 0 to the longest.

    Args:
        texts: in words of ``ITALIAN``.

    Returns:
        (batch, m), int64.

    Raises:
        TypeError: if ``texts`` is not a sequence of str.
        ValueError: if there is none, or a word is not in the vocabulary.

    Example:
        >>> spell_italian(encode_italian(["l'idea è stata lodata nel 2020"])[0])
        "l'idea è stata lodata nel 2020"
    """
    return _encode(texts, ITALIAN, ["<end>"])


def spell_italian(ids: Tensor) -> str:
    """Write token ids as an Italian text, up to the end.

    Args:
        ids: (m,).

    Returns:
        The text, without what begins, ends and fills up.

    Raises:
        TypeError: if ``ids`` is not an int64 tensor.
        ValueError: if it has not one axis, or an id has no word.

    Example:
        >>> spell_italian(torch.tensor([1, ITALIAN.index("la"), ITALIAN.index("rete"), 2, 0]))
        'la rete'
    """
    listed = listed_ids(ids, len(ITALIAN))
    listed = listed[: listed.index(END)] if END in listed else listed
    return join_italian([ITALIAN[i] for i in listed if i not in (PAD, BEGIN)])


class TranslationBatches(SeededBatches):
    """A run of training batches; each batch is padded to its longest sentence.

    Going through it twice gives the same batches twice, since the generator is made from ``seed`` each time.

    Args:
        num_batches: how many batches to give.
        batch_size: sentences in a batch.
        seed: what the batches follow from.

    Raises:
        TypeError: if an argument is not an int.
        ValueError: if a size is below 1, or the seed negative.

    Example:
        >>> [source.size(0) for source, target in TranslationBatches(3, batch_size=5)]
        [5, 5, 5]
    """

    def __init__(self, num_batches: int, *, batch_size: int = 64, seed: int = 0) -> None:
        super().__init__(num_batches, seed)
        check_size("batch_size", batch_size, minimum=1)
        self.batch_size = batch_size

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw one batch."""
        sentences = draw_sentences(self.batch_size, generator=generator)
        return (
            encode_english([sentence.english for sentence in sentences]),
            encode_italian([sentence.italian for sentence in sentences]),
        )
