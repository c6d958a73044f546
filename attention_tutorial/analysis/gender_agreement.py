"""Gender agreement: where a translator finds the gender of the word that it predicts next.

A sentence is cut off before the first word of its verb that shows a gender: *stata* or *stato*, or after *verrà* the
participle. The translator reads the Italian words up to there, and we compare the probabilities of the right form and
the wrong one. Then edges of its attention are masked, or words are exchanged, and we compare again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from .._validation import check_ids
from ..data.copying import shift_right
from ..data.translation import ITALIAN, Sentence, encode_english, encode_italian
from ..models.transformer import BEGIN, Transformer

__all__ = ["Decisions", "close", "decisions", "margins"]

ABSENT = -1


@dataclass(frozen=True)
class Decisions:
    """Sentences cut off before a word that must agree, one a row.

    Attributes:
        source: English ids (batch, n).
        target_in: what the decoder reads, (batch, m); at ``step`` it has read all words before the one in question.
        step: (batch,), the position in ``target_in`` from which that word is predicted.
        right: (batch,), the id of the form that agrees.
        wrong: (batch,), the id of the same word in the other gender.
        source_places: positions (batch,) in the source by name: ``subject``, ``other``, ``leading``, ``adjective``; -1
            where a sentence has none.
        target_places: positions (batch,) in ``target_in`` by name: ``article`` (the subject's), ``subject``,
            ``adjective``, ``other``, ``leading``; -1 where a sentence has none.
    """

    source: Tensor
    target_in: Tensor
    step: Tensor
    right: Tensor
    wrong: Tensor
    source_places: dict[str, Tensor]
    target_places: dict[str, Tensor]


def _source_places(sentence: Sentence) -> dict[str, int]:
    """Return the positions of nouns and adjective among the English words."""
    # behind "after the X ,", "what about" and "the"
    first = (4 if sentence.leading else 0) + (2 if sentence.is_answer else 0) + 1
    subject = first + bool(sentence.adjective)
    return {
        "adjective": first if sentence.adjective else ABSENT,
        "subject": subject,
        "other": subject + 3 if sentence.other else ABSENT,
        "leading": 2 if sentence.leading else ABSENT,
    }


def _target_places(sentence: Sentence) -> dict[str, int]:
    """Return positions among the Italian words; ``agrees`` is the first word of the verb that shows the gender."""
    if sentence.is_answer:
        return dict.fromkeys(("article", "subject", "adjective", "other", "leading"), ABSENT) | {"agrees": 1}
    article = 4 if sentence.leading else 0
    behind = article + 2 + bool(sentence.adjective)
    of = sentence.relation == "of"
    return {
        "article": article,
        "subject": article + 1,
        "adjective": article + 2 if sentence.adjective else ABSENT,
        "other": behind + (1 if of else 2) if sentence.other else ABSENT,
        "leading": 2 if sentence.leading else ABSENT,
        "agrees": behind + (0 if not sentence.other else 2 if of else 4) + 1,
    }


def decisions(sentences: Sequence[Sentence]) -> Decisions:
    """Cut sentences off before the word that must agree.

    Args:
        sentences: at least one.

    Returns:
        The :class:`Decisions`.

    Raises:
        TypeError: if ``sentences`` is not a sequence of :class:`~attention_tutorial.data.translation.Sentence`.
        ValueError: if there is none.

    Example:
        >>> from attention_tutorial.data.translation import read_sentence
        >>> cut = decisions([read_sentence("the network will be tested in 2030")])
        >>> [ITALIAN[i] for i in cut.target_in[0]], ITALIAN[cut.right[0]], ITALIAN[cut.wrong[0]]
        (['<begin>', 'la', 'rete', 'verrà'], 'provata', 'provato')
    """
    if not isinstance(sentences, Sequence) or not all(isinstance(each, Sentence) for each in sentences):
        raise TypeError(f"sentences must be a sequence of Sentence; got {type(sentences).__name__}")
    source = encode_english([each.english for each in sentences])
    target = encode_italian([each.italian for each in sentences])
    found = [_target_places(each) for each in sentences]
    step = torch.tensor([each["agrees"] for each in found])
    right = target.gather(1, step[:, None])[:, 0]
    wrong = torch.tensor([_other_gender(i) for i in right.tolist()])
    prefixes = [row[: at + 1] for row, at in zip(shift_right(target, BEGIN), step.tolist(), strict=True)]
    names = [name for name in found[0] if name != "agrees"]
    # The decoder reads the beginning first: a word of the target stands one place later in what it reads.
    in_target = {name: torch.tensor([at[name] + 1 if at[name] >= 0 else ABSENT for at in found]) for name in names}
    in_source = [_source_places(each) for each in sentences]
    return Decisions(
        source,
        pad_sequence(prefixes, batch_first=True),
        step,
        right,
        wrong,
        {name: torch.tensor([at[name] for at in in_source]) for name in in_source[0]},
        in_target,
    )


def _other_gender(word: int) -> int:
    """Return the id of a word in the other gender."""
    italian = ITALIAN[word]
    return ITALIAN.index(italian[:-1] + ("o" if italian.endswith("a") else "a"))


def close(rows: Tensor | None, columns: Tensor, m: int, n: int) -> Tensor:
    """Make a mask that forbids one edge in each sentence, and allows all others.

    Args:
        rows: the queries' positions, (batch,), or ``None`` for all of them.
        columns: the keys that they must not attend to, (batch,); where it is -1, nothing is masked.
        m: number of queries.
        n: number of keys.

    Returns:
        Boolean (batch, m, n), True = may attend.

    Raises:
        TypeError: if rows or columns are not int64.

    Example:
        >>> close(torch.tensor([0]), torch.tensor([1]), m=2, n=3).int().tolist()
        [[[1, 0, 1], [1, 1, 1]]]
    """
    check_ids("columns", columns, "positions")
    closed = torch.arange(n) == columns[:, None]  # (batch, n)
    if rows is None:
        return ~closed[:, None].expand(-1, m, -1)
    check_ids("rows", rows, "positions")
    return ~((torch.arange(m) == rows[:, None])[:, :, None] & closed[:, None])


@torch.no_grad()
def margins(model: Transformer, cut: Decisions, **masks: Any) -> Tensor:
    r"""Measure by how much a translator prefers the form that agrees.

    .. math:: \ln \frac{p(\text{right} \mid \text{source}, y_1, \ldots, y_{i-1})}
        {p(\text{wrong} \mid \text{source}, y_1, \ldots, y_{i-1})}

    Args:
        model: the translator.
        cut: the sentences, cut off.
        **masks: ``encoder_mask``, ``decoder_mask`` and ``cross_mask``, as the model takes them.

    Returns:
        (batch,), in nats; above 0 where the right form is the likelier one.

    Example:
        >>> from attention_tutorial.data.translation import ENGLISH, draw_sentences
        >>> model = Transformer(len(ENGLISH), len(ITALIAN), d_model=8, num_heads=2, d_ff=8)
        >>> margins(model, decisions(draw_sentences(3, generator=torch.Generator().manual_seed(0)))).shape
        torch.Size([3])
    """
    logits, _ = model(cut.source, cut.target_in, need_weights=False, **masks)
    at_step = logits[torch.arange(len(cut.step)), cut.step]
    chosen = at_step.gather(1, torch.stack([cut.right, cut.wrong], dim=1))
    return chosen[:, 0] - chosen[:, 1]
