"""Masks: which query may attend to which key.

One convention holds in this package. A boolean mask says **True = may attend**: ``mask[i, j]`` is True when query
``i`` may attend to key ``j``; such a key is *allowed*. A float mask is added to the scores, so 0 leaves a score alone,
and a key at minus infinity is not allowed. Masks broadcast to the shape of the scores, ``(..., m, n)``.

``torch.nn.functional.scaled_dot_product_attention`` has the same convention. ``torch.nn.MultiheadAttention`` has the
opposite one, True = not allowed; :func:`to_torch_mha_mask` converts.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ._validation import broadcasts, check_mask_type, check_module_mask, check_not_nested, check_size, shape_of

__all__ = ["causal_mask", "combine_masks", "padding_mask", "sliding_window_mask", "to_torch_mha_mask"]


def causal_mask(m: int, n: int | None = None, device: torch.device | str | None = None) -> Tensor:
    r"""Let each query attend to its own position and to what comes before it.

    .. math:: \text{mask}_{ij} = [\, j \le i + (n - m) \,]

    The mask is aligned to the *lower right*: the last query meets the last key. With ``n > m`` this is what decoding
    with a cache needs, where the ``m`` newest queries see all ``n`` keys so far. With ``n < m`` the first ``m - n``
    queries see no key at all.

    Args:
        m: number of queries.
        n: number of keys; ``m`` when left out.
        device: where to make the mask.

    Returns:
        Boolean tensor (m, n), True = may attend.

    Raises:
        TypeError: if ``m`` or ``n`` is not an int.
        ValueError: if ``m`` or ``n`` is negative.

    Example:
        >>> causal_mask(3).int().tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
        >>> causal_mask(2, 4).int().tolist()
        [[1, 1, 1, 0], [1, 1, 1, 1]]

    Source:
        Vaswani et al. (2017), section 3.2.3 (masked self-attention of the decoder).
    """
    n = m if n is None else n
    check_size("m", m)
    check_size("n", n)
    return torch.ones(m, n, dtype=torch.bool, device=device).tril(n - m)


def sliding_window_mask(
    m: int, n: int | None = None, window: int = 1, sinks: int = 0, device: torch.device | str | None = None
) -> Tensor:
    r"""Let each query attend to the last few keys up to its own position, and to the first few of all.

    .. math:: \text{mask}_{ij} = [\, j \le p \,] \cdot [\, p - j < \text{window} \ \text{ or }\ j < \text{sinks} \,],
        \qquad p = i + (n - m)

    It is :func:`causal_mask`, aligned to the *lower right* like it, with the keys masked that are too far back.

    Args:
        m: number of queries.
        n: number of keys; ``m`` when left out.
        window: how many keys each query sees, the last at its own position.
        sinks: how many keys at the beginning stay allowed, however far back.
        device: where to make the mask.

    Returns:
        Boolean tensor (m, n), True = may attend.

    Raises:
        TypeError: if a number is not an int.
        ValueError: if ``window`` is below 1, or another number negative.

    Example:
        >>> sliding_window_mask(4, window=2).int().tolist()
        [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
        >>> sliding_window_mask(2, 5, window=2, sinks=1).int().tolist()
        [[1, 0, 1, 1, 0], [1, 0, 0, 1, 1]]

    Source:
        Beltagy et al. (2020), arXiv:2004.05150, section 3.1, on one side; sinks: Xiao et al. (2023), arXiv:2309.17453.
    """
    past = causal_mask(m, n, device)
    check_window(window, sinks)
    rows, columns = past.shape
    recent = past.triu(columns - rows - window + 1)
    recent[:, :sinks] = past[:, :sinks]
    return recent


def check_window(window: Any, sinks: Any) -> None:
    """Require a window of at least 1, or none, and sinks with a window only."""
    check_size("sinks", sinks)
    if window is not None:
        check_size("window", window, minimum=1)
    elif sinks:
        raise ValueError(f"sinks go with a window; got sinks={sinks} and no window")


def padding_mask(
    ids_or_lengths: Tensor | Sequence[int] | Sequence[Sequence[int]],
    pad_id: int | None = None,
    n: int | None = None,
) -> Tensor:
    r"""Hide the padding of a batch, for every query alike.

    From token ids, :math:`\text{mask}_{b,1,1,j} = [\, \text{ids}_{bj} \ne \text{pad\_id} \,]`; from lengths,
    :math:`\text{mask}_{b,1,1,j} = [\, j < \text{lengths}_b \,]` with :math:`j` counted from 0. Only keys are
    masked. The rows of padded queries are left alone: their outputs are not used, and masking them would leave rows
    with nothing to attend to.

    Args:
        ids_or_lengths: token ids (batch, n) together with ``pad_id``, or lengths (batch,) together with ``n``.
        pad_id: the id that stands for padding; with token ids only.
        n: number of key positions, the padded length; with lengths only. The longest length when left out.

    Returns:
        Boolean tensor (batch, 1, 1, n), True = a real token. It broadcasts over heads and queries.

    Raises:
        TypeError: if the ids or lengths are not integers.
        ValueError: if the number of axes is not 1 or 2, if ``pad_id`` is missing for ids or given for lengths, if
            ``n`` is given for ids, or if a length lies outside 0 to ``n``.

    Example:
        >>> padding_mask([[7, 8, 9], [7, 0, 0]], pad_id=0).int().tolist()
        [[[[1, 1, 1]]], [[[1, 0, 0]]]]
        >>> padding_mask([3, 1], n=4).int().tolist()
        [[[[1, 1, 1, 0]]], [[[1, 0, 0, 0]]]]
    """
    given = _as_tensor(ids_or_lengths)
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise TypeError(f"ids_or_lengths must hold integers; got {given.dtype}")
    if given.dim() == 2:
        if n is not None:
            raise ValueError(f"n goes with lengths (batch,); got n={n} with ids of shape {shape_of(given)}")
        if pad_id is None:
            raise ValueError(f"pad_id is needed with ids (batch, n); got ids of shape {shape_of(given)} and no pad_id")
        check_size("pad_id", pad_id, minimum=torch.iinfo(torch.int64).min)
        limits = torch.iinfo(given.dtype)
        if not limits.min <= pad_id <= limits.max:  # compared in their own dtype, which would wrap it round
            return torch.ones_like(given, dtype=torch.bool)[:, None, None, :]
        return (given != pad_id)[:, None, None, :]
    if given.dim() != 1:
        raise ValueError(f"ids_or_lengths must be ids (batch, n) or lengths (batch,); got shape {shape_of(given)}")
    if pad_id is not None:
        raise ValueError(f"pad_id goes with ids (batch, n); got pad_id={pad_id} with lengths {shape_of(given)}")
    lengths = given.long()  # a narrow type would wrap n round
    n = int(lengths.max()) if n is None and given.numel() else n or 0
    check_size("n", n)
    if _some_lie_outside(lengths, n):
        raise ValueError(f"lengths must lie between 0 and n={n}; got {given.tolist()}")
    return (torch.arange(n, device=given.device) < lengths[:, None])[:, None, None, :]


def _some_lie_outside(lengths: Tensor, n: int) -> bool:
    """Say whether a length is not from 0 to n. Where there are no numbers to look at, none is."""
    if torch.compiler.is_compiling():
        return False
    try:
        return bool(((lengths < 0) | (lengths > n)).any())
    except RuntimeError:  # `vmap`, meta tensors and fake ones
        return False


def _as_tensor(ids_or_lengths: Any) -> Tensor:
    try:
        given = torch.as_tensor(ids_or_lengths)
    except ValueError as error:
        raise ValueError(f"ids_or_lengths must have rows of equal length; {error}") from error
    except (RuntimeError, TypeError) as error:
        raise TypeError(f"ids_or_lengths must hold integers; got {type(ids_or_lengths).__name__}") from error
    check_not_nested("ids_or_lengths", given)
    return given


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    r"""Join masks so that a key is allowed only where every mask allows it.

    Boolean masks are joined by AND and float masks by addition. A boolean mask joined to a float mask puts minus
    infinity where the boolean mask is False.

    Args:
        *masks: boolean or float tensors that broadcast with each other; ``None`` stands for "no restriction".

    Returns:
        The joined mask: boolean if all are boolean, otherwise float; ``None`` if there is nothing to join.

    Raises:
        TypeError: if a mask is neither boolean nor floating point.
        ValueError: if the shapes do not broadcast, or the devices differ.

    Example:
        >>> real = padding_mask([2], n=3)
        >>> combine_masks(causal_mask(3), real).int().tolist()
        [[[[1, 0, 0], [1, 1, 0], [1, 1, 0]]]]
    """
    joined: Tensor | None = None
    for i, mask in enumerate(masks):
        if mask is None:
            continue
        check_mask_type(f"masks[{i}]", mask)
        if joined is None:
            joined = mask
            continue
        if not broadcasts(shape_of(joined), shape_of(mask)):
            raise ValueError(f"masks must broadcast with each other; got {shape_of(joined)} and {shape_of(mask)}")
        if joined.device != mask.device:
            raise ValueError(f"masks must be on the same device; got {joined.device} and {mask.device}")
        joined = _combine_two(joined, mask)
    return joined


def with_causal_mask(mask: Tensor | None, m: int, n: int, device: torch.device) -> Tensor:
    """Combine the causal mask with a mask that has been checked, or with none."""
    past = causal_mask(m, n, device)
    return past if mask is None else _combine_two(mask, past)


def _combine_two(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == torch.bool and b.dtype == torch.bool:
        return a & b
    if a.is_floating_point() and b.is_floating_point():
        return a + b
    allowed, added = (a, b) if a.dtype == torch.bool else (b, a)
    return torch.where(allowed, added, -torch.inf)


def allowed_keys(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return which keys a mask allows, and which rows are empty, without an allowed key (..., m or 1, 1)."""
    allowed = mask if mask.dtype == torch.bool else mask != -torch.inf
    return allowed, ~allowed.any(dim=-1, keepdim=True)


def cast_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Give a float mask the dtype of the scores. What was finite stays so: float16 makes minus infinity of -1e9."""
    limit = min(torch.finfo(dtype).max, torch.finfo(mask.dtype).max)
    return torch.where(mask.isinf(), mask, mask.clamp(-limit, limit)).to(dtype)


def to_torch_mha_mask(mask: Tensor | None, shape: tuple[int, int, int, int] | None = None) -> Tensor | None:
    r"""Turn a mask of this package into one for ``torch.nn.MultiheadAttention``.

    There, True means *not allowed*, so a boolean mask is inverted. A float mask is added to the scores in both and
    stays as it is. The result does not share memory with ``mask`` when it had to change.

    Args:
        mask: boolean or float mask in this package's convention, or ``None``.
        shape: (batch, heads, m, n) of the scores. When given, a mask as
            :class:`~attention_tutorial.layers.MultiHeadAttention` takes it becomes (batch * heads, m, n), which
            torch's ``attn_mask`` accepts; else the axes stay as they are.

    Returns:
        The mask in torch's module convention.

    Raises:
        TypeError: if ``mask`` is neither boolean nor floating point, or ``shape`` not four sizes.
        ValueError: if the mask does not fit ``shape``.

    Example:
        >>> to_torch_mha_mask(causal_mask(3)).int().tolist()
        [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
        >>> to_torch_mha_mask(padding_mask([2, 1]), shape=(2, 8, 5, 2)).shape
        torch.Size([16, 5, 2])
    """
    if mask is None:
        return None
    check_mask_type("mask", mask)
    flipped = ~mask if mask.dtype == torch.bool else mask
    if shape is None:
        return flipped
    if not isinstance(shape, tuple) or len(shape) != 4:
        raise TypeError(f"shape must be a tuple (batch, heads, m, n); got {shape}")
    return check_module_mask(flipped, shape).expand(shape).flatten(0, 1)
