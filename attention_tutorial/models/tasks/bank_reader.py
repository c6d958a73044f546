"""Models that read sentences about a bank and answer which sense it has, or who, when and where."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...data.sentences import BANK_VOCABULARY, DAYS, PAD, PEOPLE, TOWNS, BankSentences
from ...layers import MultiHeadAttention
from ...masks import padding_mask
from ..training import share_right, train_ensemble

__all__ = ["BANK_KINDS", "BankReader", "bank_answers", "bank_scores", "head_profile", "learn_bank", "word_kinds"]

#: The kinds of words in a sentence.
BANK_KINDS = ("who", "when", "where", "activity", "rest")

_GROUPS = (PEOPLE, DAYS, TOWNS)
_KIND = {word: kind for kind, group in enumerate(_GROUPS) for word in group}
_KIND |= dict.fromkeys((BANK_VOCABULARY[PAD], "on", "in", "the", "bank"), BANK_KINDS.index("rest"))
_KIND_OF_ID = torch.tensor([_KIND.get(word, BANK_KINDS.index("activity")) for word in BANK_VOCABULARY])
_BANK, _ON = BANK_VOCABULARY.index("bank"), BANK_VOCABULARY.index("on")


class BankReader(nn.Module):
    """One attention layer, whose query is the vector of *bank*; a linear map reads the answer from its output.

    The queries' matrix starts at zero, so that every head begins as a plain average.

    Args:
        seed: of the start.
        asks: ``"sense"``: which bank is meant. ``"together"``: who, when and where, each read from the output of
            the whole layer. ``"apart"``: the same three, each read from the output of its own head.
        d_model: features of a word.
        heads: number of heads.

    Raises:
        ValueError: if ``asks`` is none of the three.

    Example:
        >>> ids = torch.tensor([[BANK_VOCABULARY.index(word) for word in ("alma", "rested", "beside", "the", "bank")]])
        >>> logits, weights = BankReader(0, "apart")(ids)
        >>> logits.shape, weights.shape
        (torch.Size([1, 3, 8]), torch.Size([1, 3, 5]))
    """

    def __init__(self, seed: int, asks: str, *, d_model: int = 48, heads: int = 3) -> None:
        super().__init__()
        sizes = {"sense": (1, d_model, 2), "together": (3, d_model, 8), "apart": (3, d_model // heads, 8)}
        if asks not in sizes:
            raise ValueError(f"asks must be one of {', '.join(sizes)}; got {asks!r}")
        torch.manual_seed(seed)
        self.asks = asks
        self.embedding = nn.Parameter(torch.randn(len(BANK_VOCABULARY), d_model))
        self.attention = MultiHeadAttention(d_model, heads)
        nn.init.zeros_(self.attention.w_q.weight)
        if asks == "apart":
            self.attention.register_module("w_o", nn.Identity())  # keeps the heads side by side
        questions, width, answers = sizes[asks]
        self.read = nn.Parameter(1.4 * torch.randn(questions, width, answers))
        self.offset = nn.Parameter(torch.zeros(questions, answers))

    def forward(self, ids: Tensor, keep: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the logits and the weights.

        Args:
            ids: words (batch, n), padded.
            keep: (batch, n), False at words that no query may attend to.

        Returns:
            ``(logits, weights)``: (batch, questions, answers) and (batch, heads, n).
        """
        x, mask = self.embedding[ids], padding_mask(ids, pad_id=PAD)
        if keep is not None:
            mask = mask & keep[:, None, None]
        bank = self.embedding[_BANK].expand(len(ids), 1, -1)
        output, weights = self.attention(bank, x, x, mask)
        assert weights is not None
        if self.asks == "apart":
            output = output.unflatten(-1, (3, -1))[:, 0]  # (batch, head, features)
        output = output.expand(-1, len(self.read), -1)
        return torch.einsum("bqd,qda->bqa", output, self.read) + self.offset, weights[:, :, 0]


def bank_answers(data: BankSentences, asks: str) -> Tensor:
    """Return the right answers to the questions of a reader.

    Args:
        data: the sentences.
        asks: as in :class:`BankReader`.

    Returns:
        Their numbers (size, questions).
    """
    if asks == "sense":
        return data.sense[:, None]
    return data.answers - torch.tensor([BANK_VOCABULARY.index(group[0]) for group in _GROUPS])


def learn_bank(
    readers: Sequence[BankReader], taught: BankSentences, *, steps: int = 200, batch: int = 32
) -> list[BankReader]:
    """Train readers of one kind side by side, in place.

    Args:
        readers: readers that differ in their parameters alone.
        taught: the sentences.
        steps: how many.
        batch: sentences at a step.

    Returns:
        The readers.
    """
    generator, right = torch.Generator().manual_seed(0), bank_answers(taught, readers[0].asks)
    rows = torch.randint(len(taught.ids), (steps, len(readers), batch), generator=generator)
    batches = [(taught.ids[r], right[r]) for r in rows]
    return train_ensemble(readers, batches, learning_rate=2e-2, weight_decay=0.5)


def bank_scores(readers: Sequence[BankReader], data: BankSentences) -> Tensor:
    """Measure how often readers of one kind answer correctly.

    Args:
        readers: the readers.
        data: the sentences.

    Returns:
        The share of right answers, (readers, questions).
    """
    right = bank_answers(data, readers[0].asks)
    return torch.stack([share_right(reader, (data.ids,), right) for reader in readers])


def word_kinds(ids: Tensor) -> Tensor:
    """Return the kind of each word.

    "of the river" and "of the merchants" belong to the activity, as does "on", unless it is the first word.

    Args:
        ids: words (size, n), padded.

    Returns:
        Indices into ``BANK_KINDS``, (size, n).
    """
    kinds, is_on = _KIND_OF_ID[ids], ids == _ON
    is_on[:, 0] = False
    return kinds.masked_fill(is_on, BANK_KINDS.index("activity"))


@torch.no_grad()
def head_profile(reader: BankReader, data: BankSentences) -> Tensor:
    """Measure how much the heads of a reader attend to each kind of words.

    Args:
        reader: the reader.
        data: the sentences.

    Returns:
        The mean weight of each head on the words of each kind, (heads, kinds).
    """
    weights = reader(data.ids.to(reader.embedding.device))[1].cpu()
    of_kind = F.one_hot(word_kinds(data.ids), len(BANK_KINDS)).to(weights.dtype)
    return (weights @ of_kind).mean(dim=0)
