"""Move a word: what a score depends on, under each kind of position, as words move through a text."""

import math
from collections.abc import Sequence
from typing import Any, get_args

import torch
import traitlets
from torch import Tensor

from .._validation import check_flag, check_positive, check_size
from ..notebook.display import rounded
from ..positions import BASE, LearnedPositions, Pairing, alibi_bias, alibi_slopes, apply_rotary, sinusoidal_positions
from .base import LETTERS, BookWidget, check_one_of, draw_letters, html_table, read_letters

__all__ = ["MoveAWord"]

#: The kinds of position, and how the reader sees them named.
KINDS = {"none": "no positions", "sinusoidal": "sinusoidal", "learned": "learned", "rotary": "rotary", "alibi": "ALiBi"}
SENTENCES = ["dog bites man", "dog bites dog"]
WIDTHS = [2, 4, 8, 16, 32, 64]  # what the sliders offer
BASES = [10.0, 100.0, 1000.0, BASE, 100_000.0, 1_000_000.0]
CONTENTS = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0]
LENGTHS = [64, 256]
HEADS = 8
MOST_WORDS, ROWS, SEED = 4, 64, 5  # different words of a sentence; places that have a learned row
LEARNED_SIZE = math.sqrt(0.5)  # so that a learned row is as long as a sinusoidal one


class MoveAWord(BookWidget):
    r"""Show the score of two words at any two of 64 or 256 places, by distance, under five kinds of position.

    .. math:: s_{ts} = \frac{(x + p_t)^\top (y + p_s)}{\sqrt{d}}, \qquad
        \frac{\operatorname{RoPE}(x, t)^\top \operatorname{RoPE}(y, s)}{\sqrt{d}}, \qquad
        \frac{x^\top y}{\sqrt{d}} - \text{slope} \cdot \lvert t - s \rvert

    A word is its own query and its own key: there are no projections, so that what differs between the kinds is the
    position alone. The features of the words are normal numbers that were drawn once, and so are the learned
    positions: a table of 64 rows before any training.

    Args:
        sentence: two to four words. Equal words have equal features.
        places: where they stand; 8 apart when left out.
        query: which of the words asks, counted from 0.
        key: which of the words is asked.
        d_k: how many features a word has, one of 2, 4, 8, ..., 64.
        base: of the sinusoidal and rotary positions, one of 10, 100, ..., 1,000,000.
        pairing: which features rotary positions turn together, ``"halves"`` or ``"interleaved"``.
        head: which of 8 heads gives ALiBi its slope, from 1 (a half) to 8 (1/256).
        content: what the features of the words are multiplied by, from 0 to 2: at 0 only the places count.
        length: how many places there are, 64 or 256.
        predict: ask the reader for predictions.
        compact: show the words, one slider, and the four kinds that need no training.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if a word, a place or a setting does not exist.

    Example:
        >>> widget = MoveAWord("dog bites man", places=[4, 12, 20])
        >>> widget
        MoveAWord('dog bites man', places=[4, 12, 20], query=1, key=0)
        >>> widget.places, widget.shift = [24, 32, 40], 20  # as a reader moves the sentence on by 20
        >>> {kind: round(change, 2) for kind, change in widget.changes().items()}
        {'none': 0.0, 'sinusoidal': 2.14, 'learned': 2.26, 'rotary': 0.0, 'alibi': 0.0}
    """

    module = "move_a_word"

    kinds = traitlets.Dict(KINDS)
    sentences: "traitlets.List[str]" = traitlets.List(traitlets.Unicode())
    words = traitlets.Unicode()  # features, as letters
    table = traitlets.Unicode()  # of learned positions, as letters
    table_size = traitlets.Float(LEARNED_SIZE)
    letters = traitlets.Unicode(LETTERS)
    widths = traitlets.List(traitlets.Int(), WIDTHS)
    bases = traitlets.List(traitlets.Float(), BASES)
    contents = traitlets.List(traitlets.Float(), CONTENTS)
    lengths = traitlets.List(traitlets.Int(), LENGTHS)
    slopes = traitlets.List(traitlets.Float(), alibi_slopes(HEADS).tolist())
    sentence = traitlets.Unicode()
    places = traitlets.List(traitlets.Int())
    shift = traitlets.Int(0)  # how far the sentence as a whole has been moved
    query = traitlets.Int(1)
    key = traitlets.Int(0)
    d_k = traitlets.Int(32)
    base = traitlets.Float(BASE)
    pairing = traitlets.Enum(get_args(Pairing), default_value="halves")
    head = traitlets.Int(4)
    content = traitlets.Float(1.0)
    length = traitlets.Int(64)
    predict = traitlets.Bool(False)
    compact = traitlets.Bool(False)

    def __init__(
        self,
        sentence: str = SENTENCES[0],
        *,
        places: Sequence[int] | None = None,
        query: int = 1,
        key: int = 0,
        d_k: int = 32,
        base: float = BASE,
        pairing: Pairing = "halves",
        head: int = 4,
        content: float = 1.0,
        length: int = 64,
        predict: bool = False,
        compact: bool = False,
    ) -> None:
        check_flag("predict", predict)
        check_flag("compact", compact)
        _check_offered("d_k", d_k, WIDTHS)
        _check_offered("length", length, LENGTHS)
        check_positive(base=base)
        _check_offered("base", float(base), BASES)
        if isinstance(content, bool) or not isinstance(content, int | float):
            raise TypeError(f"content must be a number; got {type(content).__name__}")
        _check_offered("content", float(content), CONTENTS)
        check_one_of("pairing", pairing, get_args(Pairing))
        check_size("head", head)
        if not 1 <= head <= HEADS:
            raise ValueError(f"head must be from 1 to {HEADS}; got {head}")
        count = len(_words(sentence))
        for name, word in [("query", query), ("key", key)]:
            check_size(name, word)
            if word >= count:
                raise ValueError(f"{name} must be from 0 to {count - 1}; got {word}")
        if query == key:
            raise ValueError(f"query and key must be two words; both are {query}")
        super().__init__(
            sentences=list(dict.fromkeys([sentence, *SENTENCES])),
            words=draw_letters(MOST_WORDS * WIDTHS[-1], SEED),
            table=draw_letters(ROWS * WIDTHS[-1], SEED + 1),
            sentence=sentence,
            places=_places(places, count, length),
            query=query,
            key=key,
            d_k=d_k,
            base=float(base),
            pairing=pairing,
            head=head,
            content=float(content),
            length=length,
            predict=predict,
            compact=compact,
        )

    def __repr__(self) -> str:
        return f"MoveAWord({self.sentence!r}, places={self.places}, query={self.query}, key={self.key})"

    def features(self) -> Tensor:
        """Return the features of the words as they now count, (words, d_k), float64."""
        words = _words(self.sentence)
        kinds = list(dict.fromkeys(words))
        drawn = read_letters(self.words, WIDTHS[-1])[:, : self.d_k]
        return self.content * drawn[[kinds.index(word) for word in words]]

    def scores(self, places: Sequence[int] | None = None) -> dict[str, Tensor]:
        """Compute the scores of every word with every word, with the package's own functions.

        Args:
            places: where the words stand; where the reader has put them when left out.

        Returns:
            (words, words) by kind, each row a query, float64; NaN where a place has no learned row.
        """
        at = torch.tensor(self.places if places is None else list(places))
        x = self.features()
        return self._between(x, at, x, at)

    def curves(self) -> dict[str, Tensor]:
        """Compute the score of the query, where it stands, with the key at every place: (length,) by kind, float64."""
        x, everywhere = self.features(), torch.arange(self.length)
        query, at = x[[self.query]], torch.tensor([self.places[self.query]])
        keys = x[[self.key]].expand(self.length, -1)
        return {kind: scores[0] for kind, scores in self._between(query, at, keys, everywhere).items()}

    def ranges(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Compute the least and the largest score of query and key at each distance, wherever the two stand.

        Returns:
            Two tensors (2 * length - 1,) by kind, for the distances from 1 - length to length - 1.
        """
        x, everywhere = self.features(), torch.arange(self.length)
        queries, keys = (x[[word]].expand(self.length, -1) for word in (self.query, self.key))
        apart = range(1 - self.length, self.length)
        bounds = {}
        for kind, scores in self._between(queries, everywhere, keys, everywhere).items():
            lines = [line[~line.isnan()] for line in (scores.diagonal(distance) for distance in apart)]
            nothing = torch.tensor([math.nan], dtype=torch.float64)
            least, most = ([f(line if len(line) else nothing) for line in lines] for f in (torch.min, torch.max))
            bounds[kind] = (torch.stack(least), torch.stack(most))
        return bounds

    def changes(self) -> dict[str, float]:
        """Return by how much the scores have changed since the sentence as a whole began to move, at most, by kind."""
        now, before = self.scores(), self.scores([place - self.shift for place in self.places])
        return {kind: (now[kind] - before[kind]).abs().nan_to_num(nan=0.0).max().item() for kind in now}

    def _between(self, x: Tensor, at: Tensor, y: Tensor, to: Tensor) -> dict[str, Tensor]:
        """Return the scores of queries x (m, d) at m places with keys y (n, d) at n places, by kind."""
        waves = sinusoidal_positions(self.length, self.d_k, base=self.base, dtype=torch.float64)
        learned = LearnedPositions(ROWS, self.d_k, dtype=torch.float64)
        with torch.no_grad():
            learned.vectors.copy_(self.table_size * read_letters(self.table, WIDTHS[-1])[:, : self.d_k])
            rows = torch.full((self.length, self.d_k), math.nan, dtype=torch.float64)
            rows[:ROWS] = learned(ROWS)
        turned = [apply_rotary(z, places, pairing=self.pairing, base=self.base) for z, places in ((x, at), (y, to))]
        price = alibi_bias(self.length, self.length, HEADS, dtype=torch.float64)[0, self.head - 1][at][:, to]
        pairs = {
            "none": (x, y),
            "sinusoidal": (x + waves[at], y + waves[to]),
            "learned": (x + rows[at], y + rows[to]),
            "rotary": (turned[0], turned[1]),
        }
        scores = {kind: q @ k.mT / math.sqrt(self.d_k) for kind, (q, k) in pairs.items()}
        return scores | {"alibi": scores["none"] + price}

    def static_html(self) -> str:
        """Return scores at three places of the sentence as a table, for pages on which no script runs."""
        query, key = (_words(self.sentence)[word] for word in (self.query, self.key))
        first = min(self.places)
        starts = [0, first, self.length - 1 - max(self.places) + first]
        shown = [(k, name) for k, name in KINDS.items() if not (self.compact and k == "learned")]
        moved = [[place - first + start for place in self.places] for start in starts]
        scores = [self.scores(places) for places in moved]
        pairs = [[place[word] for word in (self.query, self.key)] for place in moved]
        cells = [
            ["no row" if (s := table[kind][self.query, self.key]).isnan() else rounded(s) for table in scores]
            for kind, _ in shown
        ]
        caption = f"The score of {query} (asks) and {key} (is asked), at one distance and three places."
        return html_table(caption, [name for _, name in shown], [f"at {t} and {s}" for t, s in pairs], cells)


def _words(sentence: Any) -> list[str]:
    if not isinstance(sentence, str):
        raise TypeError(f"sentence must be a string; got {type(sentence).__name__}")
    words = sentence.split()
    if not 2 <= len(words) <= MOST_WORDS:
        raise ValueError(f"sentence must have 2 to {MOST_WORDS} words; got {len(words)}: {sentence!r}")
    return words


def _places(places: Sequence[int] | None, count: int, length: int) -> list[int]:
    if places is None:
        return [4 + 8 * word for word in range(count)]
    positions = list(places)
    if len(positions) != count:
        raise ValueError(f"places must say where each of the {count} words stands; got {positions}")
    if not all(isinstance(p, int) and not isinstance(p, bool) and 0 <= p < length for p in positions):
        raise ValueError(f"places must be from 0 to {length - 1}; got {positions}")
    return positions


def _check_offered(name: str, value: Any, offered: Sequence[float]) -> None:
    if isinstance(offered[0], int):
        check_size(name, value)
    if value not in offered:
        raise ValueError(f"{name} must be one of {', '.join(f'{option:g}' for option in offered)}; got {value:g}")
