"""Small made-up languages: sentences drawn by a grammar, whose right answers are known.

Words are drawn with a CPU ``torch.Generator`` and only integers are drawn, so the sentences are the same everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ._validation import check_size

__all__ = ["ANIMALS", "PAD", "PLACES", "VOCABULARY", "WhoWhere", "encode", "who_where"]

PAD = 0
ANIMALS = ("cat", "dog", "fox", "owl", "hen", "cow", "pig", "bee")
PLACES = ("mat", "roof", "hill", "box", "wall", "bed", "road", "log")
_VERBS = ("sat", "slept", "stood", "hid")
_PREPOSITIONS = ("on", "under", "near", "behind")
_ADJECTIVES = ("old", "grey", "small", "quiet", "soft", "big", "new", "red")
VOCABULARY = ("<pad>", "the", *ANIMALS, *PLACES, *_VERBS, *_PREPOSITIONS, *_ADJECTIVES)


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
        TypeError: if a size is not an int.
        ValueError: if a size is negative, or ``max_adjectives`` is below ``min_adjectives``.

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
    if max_adjectives < min_adjectives:
        raise ValueError("max_adjectives must be at least min_adjectives; "
                         f"got max_adjectives={max_adjectives}, min_adjectives={min_adjectives}")  # fmt: skip

    def draw(words: Sequence[str]) -> str:
        return words[int(torch.randint(len(words), (), generator=generator))]

    def noun_phrase(nouns: Sequence[str]) -> list[str]:
        count = int(torch.randint(min_adjectives, max_adjectives + 1, (), generator=generator))
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


def encode(sentences: Sequence[Sequence[str]]) -> Tensor:
    """Turn sentences of known words into token ids, padded on the right to the longest.

    Args:
        sentences: each a sequence of words.

    Returns:
        Token ids (batch, n), int64.

    Raises:
        ValueError: if a word is not in the vocabulary.

    Example:
        >>> encode([["the", "cat"], ["the"]]).tolist()
        [[1, 2], [1, 0]]
    """
    unknown = sorted({word for sentence in sentences for word in sentence} - set(VOCABULARY))
    if unknown:
        raise ValueError(f"sentences must use the words of VOCABULARY; got {', '.join(unknown)}")
    rows = [torch.tensor([VOCABULARY.index(word) for word in sentence], dtype=torch.long) for sentence in sentences]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
