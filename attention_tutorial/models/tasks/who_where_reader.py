"""A reader that answers two questions about a sentence by one attention: who did it, and where.

The smallest model in which queries, keys and values can be *learned*: words become vectors, one attention mixes them,
and a matrix reads the answer from the mix. It is trained on :func:`attention_tutorial.data.sentences.who_where`.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..._validation import check_flag, check_generator, check_size
from ...data.sentences import PAD, VOCABULARY, WhoWhere
from ...functional import scaled_dot_product_attention
from ...masks import padding_mask

__all__ = ["Reader", "reader_accuracy", "train_reader"]


class Reader(nn.Module):
    r"""One attention between an embedding and a matrix that gives the answer.

    .. math:: \text{logits} = \operatorname{Attention}(X W^Q, X W^K, X W^V)\, W^{\text{answer}}

    Args:
        generator: draws the first weights.
        d_model: features of a word, of a query, of a key and of a value.
        equal_weights: mix with equal weights at every position, as a plain average does.
        shared: make queries and keys with one matrix.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if ``d_model`` is below 1.

    Example:
        >>> reader = Reader(torch.Generator().manual_seed(0))
        >>> logits, weights = reader(torch.tensor([[1, 2, 18, 22, 1, 10]]))  # the cat sat on the mat
        >>> tuple(logits.shape), tuple(weights.shape)
        ((1, 6, 34), (1, 6, 6))
    """

    def __init__(
        self, generator: torch.Generator, *, d_model: int = 32, equal_weights: bool = False, shared: bool = False
    ) -> None:
        check_generator(generator)
        check_size("d_model", d_model, minimum=1)
        check_flag("equal_weights", equal_weights)
        check_flag("shared", shared)
        super().__init__()

        def matrix(rows: int, columns: int, size: float) -> nn.Parameter:
            return nn.Parameter(torch.randn(rows, columns, generator=generator) * size)

        self.embedding = matrix(len(VOCABULARY), d_model, 1.0)
        self.w_q, self.w_k, self.w_v = (matrix(d_model, d_model, d_model**-0.5) for _ in range(3))
        self.w_answer = matrix(d_model, len(VOCABULARY), d_model**-0.5)
        self.equal_weights = equal_weights
        if shared:
            self.w_k = self.w_q

    def forward(
        self,
        ids: Tensor,
        asked: Tensor | None = None,
        allowed: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Read sentences.

        Args:
            ids: token ids (batch, n).
            asked: positions (batch, m) of the queries; all of them if left out.
            allowed: bool, False where a query may not attend; it broadcasts to (batch, m, n).

        Returns:
            The logits (batch, m, words) and the weights (batch, m, n).
        """
        x = self.embedding[ids]  # (batch, n, d_model)
        asking = x if asked is None else x.take_along_dim(asked[..., None], dim=1)
        mask = padding_mask(ids, pad_id=PAD)[:, 0]  # False at padding
        mask = mask if allowed is None else mask & allowed
        query = asking @ self.w_q  # (batch, m, d_model)
        key, value = x @ self.w_k, x @ self.w_v
        if self.equal_weights:
            query = torch.zeros_like(query)  # all scores 0, all weights equal
        output, weights = scaled_dot_product_attention(query, key, value, mask)
        return output @ self.w_answer, weights


def train_reader(
    reader: nn.Module, sentences: WhoWhere, generator: torch.Generator, *, steps: int = 300, batch: int = 64
) -> Any:
    """Train a reader to answer both questions, by AdamW with a learning rate of 0.01 and a weight decay of 0.5.

    Args:
        reader: a :class:`Reader`, or any module that is called with ids and the positions that ask.
        sentences: what to learn from.
        generator: draws the sentences of each step.
        steps: how many steps.
        batch: sentences in a step.

    Returns:
        The reader, trained in place.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if a number is below 1.

    Example:
        >>> from attention_tutorial.data.sentences import who_where
        >>> few = who_where(4, generator=torch.Generator().manual_seed(0))
        >>> reader = Reader(torch.Generator().manual_seed(0))
        >>> train_reader(reader, few, torch.Generator().manual_seed(1), steps=1) is reader
        True
    """
    check_generator(generator)
    check_size("steps", steps, minimum=1)
    check_size("batch", batch, minimum=1)
    parameters = list(reader.parameters())
    device = parameters[0].device
    ids, asked, answers = (part.to(device) for part in (sentences.ids, sentences.asked, sentences.answers))
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.5)
    for _ in range(steps):
        rows = torch.randint(len(ids), (batch,), generator=generator).to(device)
        logits, _ = reader(ids[rows], asked[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), answers[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return reader


@torch.no_grad()
def reader_accuracy(reader: nn.Module, sentences: WhoWhere) -> float:
    """Return the share of questions that a reader answers correctly.

    Args:
        reader: a :class:`Reader`, or any module that is called with ids and the positions that ask.
        sentences: sentences with questions and answers.

    Returns:
        A number from 0 to 1.

    Example:
        >>> from attention_tutorial.data.sentences import who_where
        >>> few = who_where(4, generator=torch.Generator().manual_seed(0))
        >>> reader_accuracy(Reader(torch.Generator().manual_seed(0)), few) <= 1
        True
    """
    device = next(reader.parameters()).device
    logits, _ = reader(sentences.ids.to(device), sentences.asked.to(device))
    return (logits.argmax(dim=-1).cpu() == sentences.answers.cpu()).double().mean().item()
