"""Small made-up languages: sentences drawn by a grammar, whose right answers are known.

Words are drawn with a CPU ``torch.Generator`` and only integers are drawn, so the sentences are the same everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._validation import check_flag, check_generator, check_size

__all__ = [
    "ANIMALS",
    "BANK_VOCABULARY",
    "DAYS",
    "PAD",
    "PEOPLE",
    "PLACES",
    "TOWNS",
    "VOCABULARY",
    "BankSentences",
    "WhoWhere",
    "bank_sentences",
    "encode",
    "who_where",
]

PAD = 0
ANIMALS = ("cat", "dog", "fox", "owl", "hen", "cow", "pig", "bee")
PLACES = ("mat", "roof", "hill", "box", "wall", "bed", "road", "log")
_VERBS = ("sat", "slept", "stood", "hid")
_PREPOSITIONS = ("on", "under", "near", "behind")
_ADJECTIVES = ("old", "grey", "small", "quiet", "soft", "big", "new", "red")
VOCABULARY = ("<pad>", "the", *ANIMALS, *PLACES, *_VERBS, *_PREPOSITIONS, *_ADJECTIVES)

PEOPLE = ("sherry", "ryan", "alma", "boris", "chloe", "david", "emma", "felix")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
TOWNS = ("oxford", "leeds", "durham", "york", "bath", "wells")
# Both senses have as many words that the other lacks: eight, with "river" and "merchants".
_ACTIVITIES = (
    "is lying on", "was fishing from", "rested beside", "needed to gather reeds along",
    "is saving at", "was borrowing from", "paid into", "needed to transfer money to",
)  # fmt: skip
_PER_SENSE = len(_ACTIVITIES) // 2
_OWNERS = ("of the river", "of the merchants")
_BANK_WORDS = dict.fromkeys(" ".join(("bank in on the", *_ACTIVITIES, *_OWNERS)).split())  # each once, in this order
BANK_VOCABULARY = ("<pad>", *PEOPLE, *DAYS, *TOWNS, *_BANK_WORDS)


@dataclass(frozen=True)
class WhoWhere:
    """Sentences with two questions each.

    Attributes:
        ids: token ids (size, n), padded on the right with 0.
        asked: positions (size, 2): the verb, which asks *who?*, and the preposition, which asks *where?*.
        answers: token ids (size, 2): the animal and the place.
    """

    ids: Tensor
    asked: Tensor
    answers: Tensor


def who_where(
    size: int, *, generator: torch.Generator, min_adjectives: int = 0, max_adjectives: int = 3
) -> WhoWhere:  # fmt: skip
    """Draw sentences such as "the old cat sat on the soft red mat", with the animal and the place as answers.

    Every noun gets between ``min_adjectives`` and ``max_adjectives`` adjectives, so the length varies from sentence
    to sentence and the words that matter stand at no fixed position.

    Args:
        size: number of sentences.
        generator: source of randomness, on the CPU.
        min_adjectives: fewest adjectives before a noun.
        max_adjectives: most adjectives before a noun.

    Returns:
        The sentences as :class:`WhoWhere`.

    Raises:
        TypeError: if a size is not an int, or ``generator`` not a ``torch.Generator``.
        ValueError: if a size is negative, ``max_adjectives`` below ``min_adjectives``, or ``generator`` not on the CPU.

    Example:
        >>> drawn = who_where(1, generator=torch.Generator().manual_seed(3), max_adjectives=1)
        >>> " ".join(VOCABULARY[i] for i in drawn.ids[0])
        'the cat sat on the quiet mat'
        >>> [VOCABULARY[i] for i in drawn.answers[0]]
        ['cat', 'mat']
    """
    check_size("size", size, minimum=1)
    check_size("min_adjectives", min_adjectives)
    check_size("max_adjectives", max_adjectives)
    check_generator(generator)
    if max_adjectives < min_adjectives:
        raise ValueError("max_adjectives must be at least min_adjectives; "
                         f"got max_adjectives={max_adjectives}, min_adjectives={min_adjectives}")  # fmt: skip

    def draw(words: Sequence[str]) -> str:
        return words[int(torch.randint(len(words), (), generator=generator, device="cpu"))]

    def noun_phrase(nouns: Sequence[str]) -> list[str]:
        count = int(torch.randint(min_adjectives, max_adjectives + 1, (), generator=generator, device="cpu"))
        return ["the", *(draw(_ADJECTIVES) for _ in range(count)), draw(nouns)]

    sentences, asked = [], []
    for _ in range(size):
        who, where = noun_phrase(ANIMALS), noun_phrase(PLACES)
        sentences.append([*who, draw(_VERBS), draw(_PREPOSITIONS), *where])
        asked.append([len(who), len(who) + 1])
    ids = encode(sentences)
    positions = torch.tensor(asked)
    last_word = (ids != PAD).sum(dim=1, keepdim=True) - 1
    answers = ids.gather(1, torch.cat([positions[:, :1] - 1, last_word], dim=1))
    return WhoWhere(ids, positions, answers)


@dataclass(frozen=True)
class BankSentences:
    """Sentences about one of two kinds of bank.

    Attributes:
        ids: token ids (size, n) in ``BANK_VOCABULARY``, padded on the right with 0.
        sense: (size,), 0 for the bank of a river, 1 for the bank that keeps money.
        answers: token ids (size, 3): who, when and where.
    """

    ids: Tensor
    sense: Tensor
    answers: Tensor


def bank_sentences(size: int, *, generator: torch.Generator, held_out: bool = False) -> BankSentences:
    """Draw sentences such as "on monday sherry is lying on the bank of the river in oxford".

    Who, when, where and the activity are drawn independently of each other, and the activity decides which bank is
    meant. Half of the sentences also say whose bank it is ("of the river", "of the merchants"). Eight words occur with
    one sense only, eight with the other. A quarter of the pairs of a person and an activity is held out, as many of
    either sense.

    Args:
        size: number of sentences.
        generator: source of randomness, on the CPU.
        held_out: draw from the pairs that are held out, and only from those; otherwise from all others.

    Returns:
        The sentences as :class:`BankSentences`.

    Raises:
        TypeError: if ``size`` is not an int, ``held_out`` not a bool, or ``generator`` not a ``torch.Generator``.
        ValueError: if ``size`` is below 1, or ``generator`` is not on the CPU.

    Example:
        >>> drawn = bank_sentences(1, generator=torch.Generator().manual_seed(3))
        >>> " ".join(BANK_VOCABULARY[i] for i in drawn.ids[0]), drawn.sense.tolist()
        ('on tuesday alma is lying on the bank in york', [0])
        >>> [BANK_VOCABULARY[i] for i in drawn.answers[0]]
        ['alma', 'tuesday', 'york']
    """
    check_size("size", size, minimum=1)
    check_flag("held_out", held_out)
    check_generator(generator)

    def draw(count: int) -> int:
        return int(torch.randint(count, (), generator=generator, device="cpu"))

    sentences, senses, answers = [], [], []
    for _ in range(size):
        who, activity = draw(len(PEOPLE)), draw(len(_ACTIVITIES))
        while held_out != ((who + activity) % 4 == 0):
            who, activity = draw(len(PEOPLE)), draw(len(_ACTIVITIES))
        sense = activity // _PER_SENSE
        day, town, with_owner = draw(len(DAYS)), draw(len(TOWNS)), draw(2)
        middle = [PEOPLE[who], *_ACTIVITIES[activity].split(), "the", "bank", *_OWNERS[sense].split() * with_owner]
        sentences.append(["on", DAYS[day], *middle, "in", TOWNS[town]])
        senses.append(sense)
        answers.append([PEOPLE[who], DAYS[day], TOWNS[town]])
    ids = encode(sentences, BANK_VOCABULARY)
    return BankSentences(ids, torch.tensor(senses), encode(answers, BANK_VOCABULARY))


def encode(sentences: Sequence[Sequence[str]], vocabulary: Sequence[str] = VOCABULARY) -> Tensor:
    """Turn sentences of known words into token ids, padded on the right to the longest.

    Args:
        sentences: each a sequence of words.
        vocabulary: all words; a word's place is its id, and place 0 is the padding's.

    Returns:
        Token ids (batch, n), int64.

    Raises:
        ValueError: if a word is not in the vocabulary.

    Example:
        >>> encode([["the", "cat"], ["the"]]).tolist()
        [[1, 2], [1, 0]]
    """
    id_of = {word: i for i, word in enumerate(vocabulary)}
    unknown = sorted({word for sentence in sentences for word in sentence} - set(id_of))
    if unknown:
        raise ValueError(f"sentences must use the words of the vocabulary; got {', '.join(unknown)}")
    rows = [torch.tensor([id_of[word] for word in sentence], dtype=torch.long) for sentence in sentences]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
