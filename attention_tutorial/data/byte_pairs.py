"""Byte-pair encoding: text as tokens, from single bytes and the pairs that stand together most often.

A text is first cut into pieces (words, digits, brackets, line breaks with the indentation after them), and no token
reaches over the edge of one. Inside a piece, pairs of neighbours are joined in the order in which
:func:`learn_merges` found them.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from .._validation import check_size

__all__ = ["BEGIN", "BytePairs", "cut_pieces", "learn_merges"]

BEGIN = 0  # the token that stands before every text
BYTES = 256

Pair = tuple[bytes, bytes]

PIECE = re.compile(
    r"\n *"  # a line break and the indentation of the next line
    r"|[A-Za-z_]+"
    r"|[0-9]"
    r"|[()\[\]{}]"
    r"| +(?=[A-Za-z_0-9()\[\]{}])"  # the spaces before a word: the word has the same tokens with and without them
    r"| *[^A-Za-z_0-9 \n()\[\]{}]+ ?"
    r"| "
)


def cut_pieces(text: str) -> list[str]:
    r"""Cut a text into the pieces that tokens stay within.

    Args:
        text: any text.

    Returns:
        Its pieces; joined, they are the text.

    Raises:
        TypeError: if ``text`` is not a str.

    Example:
        >>> cut_pieces("def f(x):\n    return x + 10")
        ['def', ' ', 'f', '(', 'x', ')', ':', '\n    ', 'return', ' ', 'x', ' + ', '1', '0']
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str; got {type(text).__name__}")
    return PIECE.findall(text)


def learn_merges(counts: Mapping[bytes, int], size: int) -> list[Pair]:
    """Learn which pairs to join: always the pair of neighbours that occurs most often.

    Args:
        counts: how often each piece occurs.
        size: how many pairs to learn; fewer are returned where no two neighbours are left.

    Returns:
        The pairs, in the order in which they are to be joined. Of pairs that occur equally often, the first in
        alphabetical order.

    Raises:
        TypeError: if a piece is not bytes, or ``size`` not an int.
        ValueError: if ``size`` is negative.

    Example:
        >>> learn_merges({b"hug": 10, b"pug": 5, b"hugs": 5}, 2)
        [(b'u', b'g'), (b'h', b'ug')]

    Source:
        Sennrich, Haddow and Birch (2016), algorithm 1.
    """
    check_size("size", size)
    if strange := next((piece for piece in counts if not isinstance(piece, bytes)), None):
        raise TypeError(f"counts must be of pieces of type bytes; got {strange!r}")
    words = {piece: [bytes([byte]) for byte in piece] for piece in counts}
    pairs: Counter[Pair] = Counter()
    for piece, word in words.items():
        _count(pairs, word, counts[piece])
    merges: list[Pair] = []
    while len(merges) < size and (pairs := +pairs):
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        joined = b"".join(best)
        for piece, word in words.items():
            if joined in piece:
                _count(pairs, word, -counts[piece])
                words[piece] = _join(word, best)
                _count(pairs, words[piece], counts[piece])
    return merges


def _count(pairs: Counter[Pair], word: Sequence[bytes], times: int) -> None:
    for pair in pairwise(word):
        pairs[pair] += times


def _join(word: Sequence[bytes], pair: Pair) -> list[bytes]:
    """Join every occurrence of a pair, from the left."""
    joined: list[bytes] = []
    for part in word:
        if joined and (joined[-1], part) == pair:
            joined[-1] += part
        else:
            joined.append(part)
    return joined


class BytePairs:
    """Tokens of byte-pair encoding: token 0 begins a text, 1 to 256 are the bytes, then one a merge.

    Args:
        merges: pairs in the order in which they are joined, as :func:`learn_merges` returns them.

    Raises:
        ValueError: if a pair is not of two tokens that stand before it, or makes one that does.

    Example:
        >>> tokens = BytePairs([(b"u", b"g"), (b"h", b"ug")])
        >>> ids = tokens.encode("hugs")
        >>> ids, [tokens.text(i) for i in ids]
        ([258, 116], ['hug', 's'])
        >>> tokens.decode(ids)
        'hugs'

    Source:
        Sennrich, Haddow and Birch (2016); on bytes, Radford et al. (2019).
    """

    def __init__(self, merges: Iterable[Pair]) -> None:
        self.merges = tuple((left, right) for left, right in merges)
        self.contents = [b"", *(bytes([byte]) for byte in range(BYTES))]
        self._ids = {content: i for i, content in enumerate(self.contents)}
        self._ranks: dict[Pair, int] = {}
        for rank, (left, right) in enumerate(self.merges):
            joined = left + right
            if left not in self._ids or right not in self._ids or joined in self._ids:
                raise ValueError(f"merges must join two earlier tokens to a new one; got {(left, right)} at {rank}")
            self._ids[joined] = len(self.contents)
            self._ranks[left, right] = rank
            self.contents.append(joined)
        self._encode_piece = functools.lru_cache(maxsize=100_000)(self._encode_one)

    def __reduce__(self) -> tuple[type["BytePairs"], tuple[tuple[Pair, ...]]]:
        return BytePairs, (self.merges,)  # a cache cannot be pickled

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.contents)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without the token that begins it."""
        return [i for piece in cut_pieces(text) for i in self._encode_piece(piece)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; bytes that are no character come out as U+FFFD.

        Raises:
            ValueError: if there is no such token.
        """
        ids = list(ids)
        if strange := [i for i in ids if not 0 <= i < len(self)]:
            raise ValueError(f"ids must be from 0 to {len(self) - 1}; got {strange[0]}")
        return b"".join(self.contents[i] for i in ids).decode("utf-8", "replace")

    def text(self, i: int) -> str:
        """Return what one token stands for; the first has no text."""
        return self.decode([i])

    def steps(self, piece: str) -> Iterator[list[bytes]]:
        """Join a piece step by step: first its bytes, then after each merge."""
        word = [bytes([byte]) for byte in piece.encode()]
        yield word
        while found := [pair for pair in pairwise(word) if pair in self._ranks]:
            word = _join(word, min(found, key=self._ranks.__getitem__))
            yield word

    def _encode_one(self, piece: str) -> tuple[int, ...]:
        *_, word = self.steps(piece)
        return tuple(self._ids[part] for part in word)
