"""Writing with a trained Transformer, word by word: the likeliest next token, or several beginnings side by side.

With ``use_cache`` every step reads the newest token alone, and the keys and values of those before it are kept;
without, it reads all of them again. The result is the same, which the tests hold.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .._validation import check_flag, check_size
from .transformer import BEGIN, END, PAD, Kept, Memory, Transformer

__all__ = ["Written", "beam_search", "greedy"]


class Written(NamedTuple):
    """What a model wrote.

    Attributes:
        tokens: ids (batch, m), without the token that begins; 2 ends a sentence, and 0 fills up the rest.
        log_probs: (batch,), the logarithm of the probability of each, with that of the end.
    """

    tokens: Tensor
    log_probs: Tensor


@torch.no_grad()
def greedy(model: Transformer, source: Tensor, max_length: int = 50, *, use_cache: bool = True) -> Written:
    r"""Write the likeliest next token, again and again.

    .. math:: y_i = \arg\max_y\; p(y \mid y_1, \ldots, y_{i-1}, \text{source})

    Args:
        model: the translator.
        source: token ids (batch, n), padded with 0.
        max_length: stop here where no end was written.
        use_cache: keep keys and values.

    Returns:
        What it wrote, as :class:`Written`. It stops when all sentences have ended.

    Raises:
        TypeError: if ``model`` is not a ``Transformer``, ids are not int64, or ``max_length`` is not an int.
        ValueError: if ``max_length`` is below 1, or the source is not (batch, n).

    Example:
        >>> model = Transformer(9, 9, d_model=8, num_heads=2, d_ff=8, generator=torch.Generator().manual_seed(0))
        >>> greedy(model, torch.tensor([[3, 4, 5]]), max_length=4).tokens.shape
        torch.Size([1, 4])
    """
    _check(model, max_length, use_cache)
    memory = model.encode(source, need_weights=False)
    written = source.new_full((source.size(0), 1), BEGIN)
    kept = model.start(memory)
    log_probs = torch.zeros(source.size(0), dtype=memory.states.dtype, device=source.device)
    running = torch.ones_like(written[:, 0], dtype=torch.bool)
    for _ in range(max_length):
        next_log_probs, kept = _step(model, written, memory, kept, use_cache=use_cache)
        best = next_log_probs.max(dim=-1)
        log_probs = log_probs + torch.where(running, best.values, 0.0)
        written = torch.cat([written, torch.where(running, best.indices, PAD)[:, None]], dim=1)
        running = running & (best.indices != END)
        if not running.any():
            break
    return Written(written[:, 1:], log_probs)


@torch.no_grad()
def beam_search(
    model: Transformer,
    source: Tensor,
    num_beams: int = 4,
    max_length: int = 50,
    *,
    length_penalty: float = 0.0,
    use_cache: bool = True,
) -> Written:
    r"""Write several beginnings side by side, and keep those that are likeliest so far.

    At every step each beginning is continued by every token, and the ``num_beams`` likeliest stay. One that has ended
    stays as it is. At the end the one with the highest score is returned:

    .. math:: \text{score} = \frac{\log p(y_1, \ldots, y_m \mid \text{source})}{((5 + m) / 6)^\alpha}

    With one beam this is :func:`greedy`.

    Args:
        model: the translator.
        source: token ids (batch, n), padded with 0.
        num_beams: how many beginnings.
        max_length: stop here where no end was written.
        length_penalty: :math:`\alpha`; 0 compares probabilities, more favours longer sentences.
        use_cache: keep keys and values.

    Returns:
        The best sentence for each source, as :class:`Written`; ``log_probs`` are not divided by anything.

    Raises:
        TypeError: if ``model`` is not a ``Transformer``, ids are not int64, or a size is not an int.
        ValueError: if a size is below 1, or the source is not (batch, n).

    Example:
        >>> model = Transformer(9, 9, d_model=8, num_heads=2, d_ff=8, generator=torch.Generator().manual_seed(0))
        >>> source = torch.tensor([[3, 4, 5]])
        >>> bool(beam_search(model, source, 8, 4).log_probs >= greedy(model, source, 4).log_probs)
        True

    Source:
        Wu et al. (2016), arXiv:1609.08144, equation (14), for the length penalty.
    """
    _check(model, max_length, use_cache)
    check_size("num_beams", num_beams, minimum=1)
    memory = _repeat(model.encode(source, need_weights=False), num_beams)
    batch, beams = source.size(0), num_beams
    kept = model.start(memory)
    written = source.new_full((batch * beams, 1), BEGIN)
    ended = torch.zeros(batch, beams, dtype=torch.bool, device=source.device)
    log_probs = torch.full((batch, beams), -torch.inf, dtype=memory.states.dtype, device=source.device)
    log_probs[:, 0] = 0  # at first all beams are the same one
    stays = torch.full((model.readout.out_features,), -torch.inf, dtype=memory.states.dtype, device=source.device)
    stays[PAD] = 0  # what has ended can only go on with padding, which costs nothing
    first = torch.arange(batch, device=source.device)[:, None] * beams  # where the beams of each sentence begin
    for _ in range(max_length):
        next_log_probs, kept = _step(model, written, memory, kept, use_cache=use_cache)
        steps = torch.where(ended[..., None], stays, next_log_probs.unflatten(0, (batch, beams)))
        best = (log_probs[..., None] + steps).flatten(1).topk(beams, dim=1)  # over beams and tokens
        log_probs, tokens = best.values, best.indices % len(stays)
        parents = best.indices // len(stays)
        rows = (first + parents).flatten()
        written = torch.cat([written[rows], tokens.flatten()[:, None]], dim=1)
        kept = tuple(Kept(*(tensor[rows] for tensor in layer)) for layer in kept)
        ended = ended.gather(1, parents) | (tokens == END)
        if ended.all():
            break
    candidates = written[:, 1:].unflatten(0, (batch, beams))
    lengths = (candidates != PAD).sum(dim=-1)
    best_beam = (log_probs / ((5 + lengths) / 6) ** length_penalty).argmax(dim=1)
    every = torch.arange(batch, device=source.device)
    tokens = candidates[every, best_beam]
    longest = int((tokens != PAD).any(dim=0).sum())  # padding comes last
    return Written(tokens[:, :longest], log_probs[every, best_beam])


def _step(
    model: Transformer, written: Tensor, memory: Memory, kept: tuple[Kept, ...], *, use_cache: bool
) -> tuple[Tensor, tuple[Kept, ...]]:
    """Return the log-probabilities of the next token (batch, target_size), and what to keep.

    Padding and the beginning are no tokens that a model may write.
    """
    if use_cache:
        logits, _, _, kept = model.go_on(written[:, -1:], memory, kept, need_weights=False)
    else:
        logits, _, _, _ = model.go_on(written, memory, model.start(memory), need_weights=False)
    last = logits[:, -1].index_fill(1, torch.tensor([PAD, BEGIN], device=logits.device), -torch.inf)
    return F.log_softmax(last, dim=-1), kept


def _repeat(memory: Memory, times: int) -> Memory:
    return Memory(memory.states.repeat_interleave(times, 0), memory.mask.repeat_interleave(times, 0))


def _check(model: Any, max_length: Any, use_cache: Any) -> None:
    if not isinstance(model, Transformer):
        raise TypeError(f"model must be a Transformer; got {type(model).__name__}")
    check_size("max_length", max_length, minimum=1)
    check_flag("use_cache", use_cache)
