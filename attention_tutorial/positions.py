"""Positions: what tells attention in which order its input stands.

Attention without a mask treats its input as a set: shuffle the rows and the outputs are shuffled alike. Four ways to
say where a row stands:

- :func:`sinusoidal_positions` and :class:`LearnedPositions` give every position a vector, added to the input;
- :func:`apply_rotary` turns queries and keys by an angle that grows with the position, so that their dot product
  depends on the distance only (rotary positions, or RoPE);
- :func:`alibi_bias` takes from every score an amount that grows with the distance.

Positions count from 0. Features come in pairs; pair ``i`` of ``d / 2`` turns by ``base ** (-2 * i / d)`` a position,
the first pair fastest. Two orders of the pairs are in use: pair ``i`` has the features ``2i`` and ``2i + 1``
(``"interleaved"``) or ``i`` and ``i + d / 2`` (``"halves"``).
"""

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from ._validation import (
    FLOATS,
    HALF_PRECISION,
    broadcasts_to,
    check_axes,
    check_generator,
    check_positive,
    check_size,
    check_tensor,
    shape_of,
)
from .layers import MultiHeadAttention

__all__ = [
    "LearnedPositions",
    "RotaryMultiHeadAttention",
    "alibi_bias",
    "alibi_slopes",
    "apply_rotary",
    "permute_rotary",
    "shift_matrix",
    "sinusoidal_positions",
]

BASE = 10_000.0
Pairing = Literal["halves", "interleaved"]
PAIRINGS = get_args(Pairing)


def frequencies(d: int, base: float = BASE) -> Tensor:
    r"""Return by how many radians each pair of features turns from one position to the next.

    .. math:: \omega_i = \text{base}^{-2i/d}, \qquad i = 0, \ldots, d/2 - 1

    Args:
        d: number of features, even.
        base: the slowest pair turns about ``base`` times more slowly than the first.

    Returns:
        (d / 2,), float64 on the CPU.

    Example:
        >>> frequencies(4, base=100.0).tolist()
        [1.0, 0.1]
    """
    exponents = -_counted(0, d, 2) / d
    return torch.tensor(base, dtype=torch.float64, device="cpu") ** exponents


def sinusoidal_positions(
    n: int,
    d_model: int,
    *,
    base: float = BASE,
    start: int = 0,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Make the position vectors of sines and cosines, to be added to the input.

    .. math:: p_{t, 2i} = \sin(t\,\omega_i), \qquad p_{t, 2i+1} = \cos(t\,\omega_i), \qquad
        \omega_i = \text{base}^{-2i/d_{\text{model}}}

    Args:
        n: number of positions.
        d_model: features of a vector, even.
        base: see :func:`frequencies`.
        start: the first position.
        device: where to make them.
        dtype: their floating-point type; torch's default when left out. The angles are computed in float64.

    Returns:
        (n, d_model); row t belongs to position ``start + t``.

    Raises:
        TypeError: if a size is not an int, ``base`` not a number, or ``dtype`` not a floating-point type.
        ValueError: if ``n`` or ``start`` is negative, ``d_model`` odd or below 2, or ``base`` not above 0.

    Example:
        >>> positions = sinusoidal_positions(3, 4)
        >>> [[round(x, 2) for x in row] for row in positions.tolist()]
        [[0.0, 1.0, 0.0, 1.0], [0.84, 0.54, 0.01, 1.0], [0.91, -0.42, 0.02, 1.0]]

    Source:
        Vaswani et al. (2017), section 3.5.
    """
    check_size("n", n)
    check_size("start", start)
    _check_even("d_model", d_model)
    check_positive(base=base)
    dtype = _check_dtype(dtype)
    angles = torch.outer(_counted(start, start + n), frequencies(d_model, base))  # (n, d/2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).to(_where(device), dtype)  # (n, d_model)


def shift_matrix(steps: float, d_model: int, *, base: float = BASE, dtype: torch.dtype | None = None) -> Tensor:
    r"""Return the matrix that moves every sinusoidal position vector on by the same number of positions.

    .. math:: p_{t + s} = p_t\, R_s \quad \text{for every } t, \qquad R_s = \operatorname{diag}(B_0, B_1, \ldots),
        \qquad B_i = \begin{pmatrix} \cos s\omega_i & -\sin s\omega_i \\ \sin s\omega_i & \cos s\omega_i \end{pmatrix}

    Each block turns one pair of features, (sin, cos), by an angle that depends on ``steps`` and not on t.

    Args:
        steps: s, how far to move on; negative moves back.
        d_model: features of a vector, even.
        base: see :func:`frequencies`.
        dtype: the floating-point type of the matrix; torch's default when left out.

    Returns:
        (d_model, d_model), orthogonal.

    Raises:
        TypeError: if ``d_model`` is not an int, or ``steps`` or ``base`` not a number.
        ValueError: if ``d_model`` is odd or below 2, or ``base`` not above 0.

    Example:
        >>> p = sinusoidal_positions(8, 6, dtype=torch.float64)
        >>> torch.allclose(p[:5] @ shift_matrix(3, 6, dtype=torch.float64), p[3:])
        True

    Source:
        Vaswani et al. (2017), section 3.5: "for any fixed offset k, PE_{pos+k} can be represented as a linear function
        of PE_{pos}".
    """
    if isinstance(steps, bool) or not isinstance(steps, (int, float)):
        raise TypeError(f"steps must be a real number; got {type(steps).__name__}")
    _check_even("d_model", d_model)
    check_positive(base=base)
    angles = steps * frequencies(d_model, base)
    cos, sin = angles.cos(), angles.sin()
    blocks = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)  # (d/2, 2, 2)
    return torch.block_diag(*blocks).to(torch.get_default_device(), _check_dtype(dtype))


class LearnedPositions(nn.Module):
    r"""A learned vector for each position, to be added to the input.

    Args:
        max_length: how many positions have a vector. There is none beyond.
        d_model: features of a vector.
        std: standard deviation of the entries at the start.
        generator: source of randomness of the start, on the CPU; torch's global one when left out.
        dtype: floating-point type of the vectors.

    Raises:
        TypeError: if a size is not an int.
        ValueError: if a size is below 1, or ``std`` not above 0.

    Example:
        >>> positions = LearnedPositions(max_length=10, d_model=4)
        >>> positions(3).shape, positions(2, start=8).shape
        (torch.Size([3, 4]), torch.Size([2, 4]))
        >>> positions(3, start=8)
        Traceback (most recent call last):
        ValueError: positions must be below max_length=10; got positions 8 to 10

    Source:
        Gehring et al. (2017), arXiv:1705.03122, section 3.1; Devlin et al. (2019).
    """

    def __init__(
        self,
        max_length: int,
        d_model: int,
        *,
        std: float = 0.02,
        generator: torch.Generator | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_size("max_length", max_length, minimum=1)
        check_size("d_model", d_model, minimum=1)
        check_positive(std=std)
        check_generator(generator, optional=True)
        vectors = torch.randn(max_length, d_model, generator=generator, dtype=dtype, device="cpu")
        self.vectors = nn.Parameter(std * vectors.to(torch.get_default_device()))

    def forward(self, n: int, *, start: int = 0) -> Tensor:
        """Return the vectors (n, d_model) of the positions from ``start`` on."""
        check_size("n", n)
        check_size("start", start)
        max_length = self.vectors.size(0)
        if start + n > max_length:
            raise ValueError(
                f"positions must be below max_length={max_length}; got positions {start} to {start + n - 1}"
            )
        return self.vectors[start : start + n]

    def extra_repr(self) -> str:
        """Name the sizes when the module is printed."""
        max_length, d_model = self.vectors.shape
        return f"max_length={max_length}, d_model={d_model}"


def apply_rotary(
    x: Tensor, positions: Tensor | None = None, *, pairing: Pairing = "halves", base: float = BASE
) -> Tensor:  # fmt: skip
    r"""Apply rotary positions (RoPE): turn each pair of features by an angle that grows with the position.

    .. math:: \begin{pmatrix} a' \\ b' \end{pmatrix} =
        \begin{pmatrix} \cos t\omega_i & -\sin t\omega_i \\ \sin t\omega_i & \cos t\omega_i \end{pmatrix}
        \begin{pmatrix} a \\ b \end{pmatrix}, \qquad \omega_i = \text{base}^{-2i/d}

    Queries and keys are turned, values are not. Then a score depends on positions by their distance only:
    ``apply_rotary(q, t) @ apply_rotary(k, s)`` is the same wherever ``t - s`` is.

    Args:
        x: queries or keys (..., n, d), d even.
        positions: integers or floats that broadcast to (..., n), such as (n,), on the device of x or on the CPU, where
            the angles are computed; 0 to n - 1 when left out.
        pairing: ``"halves"`` pairs feature i with i + d/2, ``"interleaved"`` 2i with 2i + 1. Weights trained with one
            give nonsense with the other; :func:`permute_rotary` converts them.
        base: see :func:`frequencies`.

    Returns:
        The turned queries or keys (..., n, d), of the same lengths and dtype. The angles are computed in float64, half
        precision is turned in float32.

    Raises:
        TypeError: if ``x`` is not a float tensor, or ``positions`` not a tensor of numbers.
        ValueError: if d is odd, the positions do not fit, or ``pairing`` is unknown.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0]])  # at position 0, and at position 1: turned by one radian
        >>> [[round(v, 2) for v in row] for row in apply_rotary(x).tolist()]
        [[1.0, 0.0], [0.54, 0.84]]

    Source:
        Su et al. (2021), arXiv:2104.09864, equations (14) and (15) ("interleaved", as in Meta's Llama); "halves" as in
        GPT-NeoX and in Hugging Face's Llama, whose rows of W^Q and W^K were reordered for it.
    """
    check_axes("x", x, "(..., n, d)")
    if x.size(-1) == 0 or x.size(-1) % 2:
        raise ValueError(f"x needs an even number of features d, at least 2 (axis -1); got shape {shape_of(x)}")
    _check_pairing("pairing", pairing)
    check_positive(base=base)
    if positions is None:
        positions = torch.arange(x.size(-2), device="cpu")
    else:
        _check_positions(positions, x)
    here = positions if positions.is_meta else positions.cpu()  # not every device has float64
    angles = here.double().unsqueeze(-1) * frequencies(x.size(-1), base).to(here.device)  # (..., n, d/2)
    dtype = torch.float32 if x.dtype in HALF_PRECISION else x.dtype
    cos, sin = angles.cos().to(dtype).to(x.device), angles.sin().to(dtype).to(x.device)
    pairs = x.to(dtype).unflatten(-1, (-1, 2) if pairing == "interleaved" else (2, -1))
    a, b = pairs.unbind(-1 if pairing == "interleaved" else -2)  # (..., n, d/2) each
    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1 if pairing == "interleaved" else -2)
    return turned.flatten(-2).to(x.dtype)


def permute_rotary(weight: Tensor, num_heads: int, *, to: Pairing) -> Tensor:
    """Reorder the rows of W^Q or W^K, so that weights trained with one pairing of rotary positions serve the other.

    In each head, ``to="halves"`` puts the features 0, 2, 4, ... before 1, 3, 5, ...; ``to="interleaved"`` undoes it.
    With the rows of both matrices reordered, all scores stay what they were.

    Args:
        weight: (heads * d_head, d_in), as ``nn.Linear`` stores it: a row makes a feature. A bias (heads * d_head,) too.
        num_heads: number of heads.
        to: the pairing with which the result is to be used.

    Returns:
        A tensor of the same shape.

    Raises:
        TypeError: if ``weight`` is not a tensor, or ``num_heads`` not an int.
        ValueError: if the rows do not divide into heads of an even number of features, or ``to`` is unknown.

    Example:
        >>> permute_rotary(torch.arange(6), 1, to="halves").tolist()
        [0, 2, 4, 1, 3, 5]
        >>> permute_rotary(torch.tensor([0, 2, 4, 1, 3, 5]), 1, to="interleaved").tolist()
        [0, 1, 2, 3, 4, 5]
    """
    check_tensor("weight", weight)
    check_size("num_heads", num_heads, minimum=1)
    _check_pairing("to", to)
    if weight.dim() == 0 or weight.size(0) == 0 or weight.size(0) % (2 * num_heads):
        raise ValueError("weight must have heads * d_head rows with an even d_head; "
                         f"got num_heads={num_heads} and shape {shape_of(weight)}")  # fmt: skip
    apart = (num_heads, -1, 2) if to == "halves" else (num_heads, 2, -1)
    return weight.unflatten(0, apart).transpose(1, 2).flatten(0, 2)


class RotaryMultiHeadAttention(MultiHeadAttention):
    r"""Multi-head self-attention whose queries and keys are turned by their positions.

    .. math:: s_{ts} = \frac{\operatorname{RoPE}(q_t, t)^\top \operatorname{RoPE}(k_s, s)}{\sqrt{d_k}}

    Keys count from 0; the last query has the position of the last key, as in
    :func:`~attention_tutorial.masks.causal_mask`. Everything else is as in
    :class:`~attention_tutorial.layers.MultiHeadAttention`.

    Args:
        d_model: features of every input and of the output.
        num_heads: number of heads h.
        d_head: features of one head, even; ``d_model // num_heads`` when left out.
        bias: give each of the four projections a bias.
        num_kv_heads: as in :class:`~attention_tutorial.layers.MultiHeadAttention`.
        pairing: see :func:`apply_rotary`.
        base: see :func:`frequencies`.
        device: where the parameters live.
        dtype: their floating-point type.

    Raises:
        TypeError: if a size is not an int, or ``bias`` not a bool.
        ValueError: if a size is below 1, d_head odd, ``pairing`` unknown, or ``base`` not above 0.

    Example:
        >>> attention = RotaryMultiHeadAttention(d_model=8, num_heads=2)
        >>> output, weights = attention(torch.zeros(1, 3, 8), is_causal=True)
        >>> output.shape, weights.shape
        (torch.Size([1, 3, 8]), torch.Size([1, 2, 3, 3]))

    Source:
        Su et al. (2021), arXiv:2104.09864, section 3.2.2.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_head: int | None = None,
        *,
        bias: bool = False,
        num_kv_heads: int | None = None,
        pairing: Pairing = "halves",
        base: float = BASE,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(d_model, num_heads, d_head, bias=bias, num_kv_heads=num_kv_heads, device=device, dtype=dtype)
        _check_even("d_head", self.d_head)
        _check_pairing("pairing", pairing)
        check_positive(base=base)
        self.pairing: Pairing = pairing
        self.base = float(base)

    def apply_positions(self, x: Tensor, first: int) -> Tensor:
        """Turn queries or keys (batch, heads, n, d_head) by their positions, from ``first`` on."""
        positions = torch.arange(first, first + x.size(-2), device="cpu")
        return apply_rotary(x, positions, pairing=self.pairing, base=self.base)

    def extra_repr(self) -> str:
        """Name the sizes when the module is printed."""
        return f"{super().extra_repr()}, pairing={self.pairing!r}, base={self.base:g}"


def alibi_slopes(num_heads: int) -> Tensor:
    r"""Return how much each head takes from a score for a step of distance.

    .. math:: \text{slope}_i = 2^{-8i/h}, \qquad i = 1, \ldots, h \quad \text{for } h \text{ a power of two}

    For another number, the slopes of the next smaller power of two come first, then every other one of the next larger.

    Args:
        num_heads: number of heads h.

    Returns:
        (h,), float64.

    Raises:
        TypeError: if ``num_heads`` is not an int.
        ValueError: if it is below 1.

    Example:
        >>> alibi_slopes(4).tolist()
        [0.25, 0.0625, 0.015625, 0.00390625]

    Source:
        Press et al. (2022), arXiv:2108.12409, section 3 (other numbers: the code published with it).
    """
    check_size("num_heads", num_heads, minimum=1)
    power = 1 << (num_heads.bit_length() - 1)
    smaller = 2.0 ** (-8.0 * _counted(1, power + 1) / power)
    between = 2.0 ** (-8.0 * _counted(1, 2 * power, 2) / (2 * power))
    return torch.cat([smaller, between[: num_heads - power]])


def alibi_bias(
    m: int,
    n: int,
    num_heads: int,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Make the float mask that takes from every score its distance times the head's slope.

    .. math:: \text{mask}_{hij} = -\text{slope}_h \cdot \lvert i + (n - m) - j \rvert

    Like :func:`~attention_tutorial.masks.causal_mask` it is aligned to the lower right: the last query stands where the
    last key stands. Give it as ``mask``, with ``is_causal=True`` where the future is masked.

    Args:
        m: number of queries.
        n: number of keys.
        num_heads: number of heads.
        device: where to make the mask.
        dtype: its floating-point type; torch's default when left out.

    Returns:
        (1, heads, m, n).

    Raises:
        TypeError: if a size is not an int.
        ValueError: if ``m`` or ``n`` is negative, or ``num_heads`` below 1.

    Example:
        >>> alibi_bias(1, 3, num_heads=8)[0, 0].tolist()  # the first head's slope is 1/2
        [[-1.0, -0.5, -0.0]]

    Source:
        Press et al. (2022), arXiv:2108.12409, section 3.
    """
    check_size("m", m)
    check_size("n", n)
    distance = (_counted(n - m, n)[:, None] - _counted(0, n)).abs()  # (m, n)
    return (-alibi_slopes(num_heads)[:, None, None] * distance)[None].to(_where(device), _check_dtype(dtype))


def _counted(first: int, end: int, step: int = 1) -> Tensor:
    """Count in float64 on the CPU, since not every device has it."""
    return torch.arange(first, end, step, dtype=torch.float64, device="cpu")


def _where(device: torch.device | str | None) -> torch.device | str:
    return torch.get_default_device() if device is None else device


# ---- Checks of arguments --------------------------------------------------------------------------------------------


def _check_even(name: str, d: Any) -> None:
    check_size(name, d, minimum=2)
    if d % 2:
        raise ValueError(f"{name} must be even, since features come in pairs; got {d}")


def _check_pairing(name: str, pairing: Any) -> None:
    if pairing not in PAIRINGS:
        raise ValueError(f"{name} must be 'halves' or 'interleaved'; got {pairing!r}")


def _check_dtype(dtype: Any) -> torch.dtype:
    if dtype is None:
        return torch.get_default_dtype()
    if dtype not in FLOATS:
        raise TypeError(f"dtype must be a floating-point type (float64, float32, bfloat16 or float16); got {dtype}")
    chosen: torch.dtype = dtype
    return chosen


def _check_positions(positions: Any, x: Tensor) -> None:
    check_tensor("positions", positions)
    if positions.dtype == torch.bool or positions.is_complex():
        raise TypeError(f"positions must hold integers or real numbers; got {positions.dtype}")
    if not broadcasts_to(shape_of(positions), shape_of(x)[:-1]):
        raise ValueError("positions must broadcast to (..., n); expected something that broadcasts to "
                         f"{shape_of(x)[:-1]}, got {shape_of(positions)}")  # fmt: skip
    if positions.device not in (x.device, torch.device("cpu")):
        raise ValueError(f"positions must be on the CPU or the device of x, {x.device}; got {positions.device}")
