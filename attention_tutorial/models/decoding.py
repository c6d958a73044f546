"""Greedy decoding with a trained Transformer: the likeliest next token, again and again.

Every step computes the newest token alone, with the cached keys and values of those before it. The result is the same
as without a cache, which the tests hold.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .._validation import check_size
from .transformer import BEGIN, END, PAD, Transformer

__all__ = ["Decoded", "greedy"]


class Decoded(NamedTuple):
    """What a model decoded.

    Attributes:
        tokens: ids (batch, m), without the token that begins; 2 ends a sentence, and 0 fills up the rest.
        log_probs: (batch,), the logarithm of the probability of each sentence, its end included.
    """

    tokens: Tensor
    log_probs: Tensor


@torch.no_grad()
def greedy(model: Transformer, source: Tensor, max_length: int = 50) -> Decoded:
    r"""Decode greedily: take the likeliest next token at every step.

    .. math:: y_i = \arg\max_y\; p(y \mid y_1, \ldots, y_{i-1}, \text{source})

    Args:
        model: the translator.
        source: token ids (batch, n), padded with 0.
        max_length: stop here if the end was not written.

    Returns:
        The sentences, as :class:`Decoded`. It stops when all of them have ended.

    Raises:
        TypeError: if ``model`` is not a ``Transformer``, ids are not int64, or ``max_length`` is not an int.
        ValueError: if ``max_length`` is below 1, or the source is not (batch, n).

    Example:
        >>> model = Transformer(9, 9, d_model=8, num_heads=2, d_ff=8, generator=torch.Generator().manual_seed(0))
        >>> greedy(model, torch.tensor([[3, 4, 5]]), max_length=4).tokens.shape
        torch.Size([1, 4])
    """
    if not isinstance(model, Transformer):
        raise TypeError(f"model must be a Transformer; got {type(model).__name__}")
    check_size("max_length", max_length, minimum=1)
    memory = model.encode(source, need_weights=False)
    written = source.new_full((source.size(0), 1), BEGIN)
    cache = model.init_cache(memory)
    log_probs = torch.zeros(source.size(0), dtype=memory.states.dtype, device=source.device)
    never = torch.tensor([PAD, BEGIN], device=source.device)  # tokens that a model may not write
    running = torch.ones_like(written[:, 0], dtype=torch.bool)
    for _ in range(max_length):
        logits, _, _, cache = model.decode_step(written[:, -1:], memory, cache, need_weights=False)
        best = logits[:, -1].index_fill(1, never, -torch.inf).log_softmax(dim=-1).max(dim=-1)
        log_probs = log_probs + torch.where(running, best.values, 0.0)
        written = torch.cat([written, torch.where(running, best.indices, PAD)[:, None]], dim=1)
        running = running & (best.indices != END)
        if not running.any():
            break
    return Decoded(written[:, 1:], log_probs)
