"""Attention as modules, which hold the learned matrices and call the functions of ``attention_tutorial.functional``."""

from typing import Any

import torch
from torch import Tensor, nn

from ._validation import (
    check_flag,
    check_float_tensor,
    check_mask_device,
    check_module_mask,
    check_same_kind,
    check_shape,
    check_size,
    check_tensor,
    shape_of,
)
from .functional import additive_attention, unchecked_attention, unchecked_fused_attention

__all__ = ["AdditiveAttention", "MultiHeadAttention", "merge_heads", "repeat_heads", "split_heads"]


class AdditiveAttention(nn.Module):
    r"""Bahdanau's additive attention with its learned matrices.

    .. math:: s_{ij} = v^\top \tanh(W q_i + U k_j)

    Args:
        d_query: features of a query.
        d_key: features of a key.
        d_hidden: width of the small network that scores a pair.
        device: where the parameters live.
        dtype: their floating-point type.

    Raises:
        TypeError: if a size is not an int.
        ValueError: if a size is below 1.

    Example:
        >>> attention = AdditiveAttention(d_query=5, d_key=4, d_hidden=6)
        >>> output, weights = attention(torch.zeros(2, 3, 5), torch.zeros(2, 7, 4))
        >>> output.shape, weights.shape
        (torch.Size([2, 3, 4]), torch.Size([2, 3, 7]))

    Source:
        Bahdanau et al. (2015), section 3.1 and appendix A.1.2 (W, U, v are W_a, U_a, v_a there).
    """

    def __init__(
        self,
        d_query: int,
        d_key: int,
        d_hidden: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, size in (("d_query", d_query), ("d_key", d_key), ("d_hidden", d_hidden)):
            check_size(name, size, minimum=1)
        self.w_query = nn.Parameter(torch.empty(d_hidden, d_query, device=device, dtype=dtype))
        self.w_key = nn.Parameter(torch.empty(d_hidden, d_key, device=device, dtype=dtype))
        self.v = nn.Parameter(torch.empty(d_hidden, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the matrices anew (Glorot & Bengio, 2010)."""
        nn.init.xavier_uniform_(self.w_query)
        nn.init.xavier_uniform_(self.w_key)
        nn.init.xavier_uniform_(self.v.unsqueeze(0))

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return ``(output, weights)`` for query (..., m, d_query), key (..., n, d_key), value (default: the key)."""
        value = key if value is None else value
        return additive_attention(query, key, value, self.w_query, self.w_key, self.v, mask)

    def extra_repr(self) -> str:
        """Name the sizes when the module is printed."""
        d_hidden, d_query = self.w_query.shape
        return f"d_query={d_query}, d_key={self.w_key.size(1)}, d_hidden={d_hidden}"


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut the features into heads and move the heads before the positions.

    Args:
        x: (batch, n, heads * d_head); head 1 owns the first ``d_head`` features, head 2 the next, and so on.
        num_heads: number of heads; must divide the number of features.

    Returns:
        (batch, heads, n, d_head).

    Raises:
        TypeError: if ``x`` is not a tensor, or ``num_heads`` not an int.
        ValueError: if ``x`` has not three axes or its features do not divide into the heads.

    Example:
        >>> split_heads(torch.arange(8).reshape(1, 2, 4), num_heads=2).tolist()
        [[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]

    Source:
        Vaswani et al. (2017), section 3.2.2.
    """
    check_tensor("x", x)
    check_size("num_heads", num_heads, minimum=1)
    if x.dim() != 3 or x.size(-1) % num_heads:
        raise ValueError(f"x must be (batch, n, heads * d_head) with heads={num_heads}; got {shape_of(x)}")
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """Undo :func:`split_heads`: lay the heads side by side along the feature axis.

    Args:
        x: (batch, heads, n, d_head).

    Returns:
        (batch, n, heads * d_head).

    Raises:
        TypeError: if ``x`` is not a tensor.
        ValueError: if ``x`` has not four axes.

    Example:
        >>> x = torch.arange(8).reshape(1, 2, 4)
        >>> merge_heads(split_heads(x, num_heads=2)).equal(x)
        True

    Source:
        Vaswani et al. (2017), section 3.2.2, "Concat".
    """
    check_tensor("x", x)
    if x.dim() != 4:
        raise ValueError(f"x must be (batch, heads, n, d_head); got {shape_of(x)}")
    return x.transpose(1, 2).flatten(2)


def repeat_heads(x: Tensor, num_heads: int) -> Tensor:
    r"""Give every query head the keys, or values, of its group.

    .. math:: \text{result}_i = x_{\lfloor i / g \rfloor}, \qquad g = h / h_{kv}, \qquad i = 0, \ldots, h - 1

    Neighbouring query heads share: 1 and 2 the first, 3 and 4 the second, if four share two.

    Args:
        x: (batch, kv_heads, n, d_head).
        num_heads: number of query heads h, a multiple of ``kv_heads``.

    Returns:
        (batch, heads, n, d_head).

    Raises:
        TypeError: if ``x`` is not a tensor, or ``num_heads`` not an int.
        ValueError: if ``x`` has not four axes, or its heads do not divide ``num_heads``.

    Example:
        >>> repeat_heads(torch.tensor([10, 20]).reshape(1, 2, 1, 1), num_heads=4).flatten().tolist()
        [10, 10, 20, 20]

    Source:
        Ainslie et al. (2023), arXiv:2305.13245; one head for all: Shazeer (2019), arXiv:1911.02150.
    """
    check_tensor("x", x)
    check_size("num_heads", num_heads, minimum=1)
    if x.dim() != 4 or x.size(1) == 0 or num_heads % x.size(1):
        raise ValueError(f"x must be (batch, kv_heads, n, d_head), its heads dividing heads={num_heads}; "
                         f"got {shape_of(x)}")  # fmt: skip
    times = num_heads // x.size(1)
    return x if times == 1 else x.repeat_interleave(times, dim=1)


class MultiHeadAttention(nn.Module):
    r"""Several attentions side by side, each on its own learned projections.

    .. math::

        \operatorname{MultiHead}(Q, K, V) = \operatorname{Concat}(\text{head}_1, \ldots, \text{head}_h)\, W^O, \qquad
        \text{head}_i = \operatorname{Attention}(Q W_i^Q, K W_i^K, V W_i^V)

    The matrices of all heads are stored together: ``w_q``, ``w_k`` and ``w_v`` map d_model to heads * d_head
    features, ``w_o`` maps back. They are drawn by Glorot and Bengio's uniform rule, each by itself, which gives
    queries and keys of about the variance of their input; biases start at zero.

    With ``num_kv_heads`` there are fewer keys and values than queries, and groups of neighbouring query heads share
    them (:func:`repeat_heads`): grouped heads, or, with one, multi-query attention.

    Args:
        d_model: features of every input and of the output.
        num_heads: number of heads h.
        d_head: features of one head, d_k = d_v; ``d_model // num_heads`` when left out. It need not divide.
        bias: give each of the four projections a bias.
        num_kv_heads: number of heads of keys and values; ``num_heads`` when left out, else a divisor of it.
        device: where the parameters live.
        dtype: their floating-point type.

    Raises:
        TypeError: if a size is not an int, or ``bias`` not a bool.
        ValueError: if a size is below 1, ``num_heads`` exceeds ``d_model`` while ``d_head`` is left out, or
            ``num_kv_heads`` does not divide ``num_heads``.

    Example:
        >>> attention = MultiHeadAttention(d_model=50, num_heads=8)  # 50 // 8 = 6 features a head
        >>> output, weights = attention(torch.zeros(2, 7, 50))
        >>> output.shape, weights.shape
        (torch.Size([2, 7, 50]), torch.Size([2, 8, 7, 7]))

    Source:
        Vaswani et al. (2017), section 3.2.2.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_head: int | None = None,
        *,
        bias: bool = False,
        num_kv_heads: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_size("d_model", d_model, minimum=1)
        check_size("num_heads", num_heads, minimum=1)
        check_flag("bias", bias)
        if d_head is None:
            d_head = d_model // num_heads
            if d_head == 0:
                raise ValueError("num_heads must not exceed d_model unless d_head is given; "
                                 f"got num_heads={num_heads}, d_model={d_model}")  # fmt: skip
        check_size("d_head", d_head, minimum=1)
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_size("num_kv_heads", num_kv_heads, minimum=1)
        if num_heads % num_kv_heads:
            raise ValueError(f"num_kv_heads must divide num_heads={num_heads}; got {num_kv_heads}")
        self.d_model, self.num_heads, self.d_head, self.num_kv_heads = d_model, num_heads, d_head, num_kv_heads
        width, kv_width = num_heads * d_head, num_kv_heads * d_head
        self.w_q = nn.Linear(d_model, width, bias=bias, device=device, dtype=dtype)
        self.w_k = nn.Linear(d_model, kv_width, bias=bias, device=device, dtype=dtype)
        self.w_v = nn.Linear(d_model, kv_width, bias=bias, device=device, dtype=dtype)
        self.w_o = nn.Linear(width, d_model, bias=bias, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the matrices anew (Glorot & Bengio, 2010) and set the biases to zero."""
        for projection in (self.w_q, self.w_k, self.w_v, self.w_o):
            nn.init.xavier_uniform_(projection.weight)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        is_causal: bool = False,
        need_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from the query's positions to the key's.

        Args:
            query: (batch, m, d_model).
            key: (batch, n, d_model); the query when left out (self-attention).
            value: (batch, n, d_model); the key when left out.
            mask: (m, n), (batch, m, n) or (batch or 1, heads or 1, m, n), and 1 in place of m or n; boolean, True =
                may attend, or float, added to the scores. Three axes always mean batch, never heads.
            is_causal: also apply the causal mask (lower right), joined to ``mask`` by AND.
            need_weights: return the weights; otherwise torch's fused kernels give the same output without them.

        Returns:
            ``(output, weights)``: output (batch, m, d_model); weights (batch, heads, m, n), or ``None`` without
            ``need_weights``.

        Raises:
            TypeError: if an input is not a float tensor, or dtypes differ.
            ValueError: if shapes do not fit together.
        """
        if key is None and value is not None:
            raise ValueError("value was given without key; give both, or neither for self-attention")
        key = query if key is None else key
        value = key if value is None else value
        self._check_input("query", query, "m")
        keys, values = self.project(key, value)
        if query.size(0) != key.size(0):
            shapes = f"query {shape_of(query)}, key {shape_of(key)}, value {shape_of(value)}"
            raise ValueError(f"query, key and value need the same batch size (axis 0); got {shapes}")
        return self.attend(query, keys, values, mask, is_causal=is_causal, need_weights=need_weights)

    def project(self, key: Tensor, value: Tensor | None = None, *, start: int = 0) -> tuple[Tensor, Tensor]:
        """Make the keys and values of all heads, to be kept for queries to come (a key/value cache).

        ``attention.attend(query, *attention.project(key, value))`` is ``attention(query, key, value)``. What comes
        later is joined along the axis of the positions, axis 2.

        Args:
            key: (batch, n, d_model).
            value: (batch, n, d_model); the key when left out.
            start: how many positions came before; only positions that turn the keys ask for it.

        Returns:
            Keys and values, each (batch, kv_heads, n, d_head); ``num_kv_heads`` of them are kept.

        Raises:
            TypeError: if an input is not a float tensor, or dtypes differ.
            ValueError: if shapes do not fit together.

        Example:
            >>> attention, x = MultiHeadAttention(8, 2), torch.rand(1, 4, 8)
            >>> k, v = attention.project(x[:, :3])  # three positions are there already
            >>> new_k, new_v = attention.project(x[:, 3:], start=3)  # and one is new
            >>> output, _ = attention.attend(x[:, 3:], torch.cat([k, new_k], 2), torch.cat([v, new_v], 2))
            >>> torch.allclose(output, attention(x, is_causal=True)[0][:, 3:], atol=1e-6)
            True
        """
        value = key if value is None else value
        self._check_pair(key, value)
        check_size("start", start)
        k = split_heads(self.w_k(key), self.num_kv_heads)  # (batch, kv_heads, n, d_head)
        v = split_heads(self.w_v(value), self.num_kv_heads)  # (batch, kv_heads, n, d_head)
        return self.apply_positions(k, start), v

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        *,
        is_causal: bool = False,
        need_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend to keys and values that :meth:`project` made.

        Args:
            query: (batch, m, d_model); with the last query at the position of the last key where positions matter.
            keys: (batch, kv_heads, n, d_head).
            values: (batch, kv_heads, n, d_head).
            mask: as in :meth:`forward`.
            is_causal: as in :meth:`forward`: lower right, so the newest of a cache's queries see all of it.
            need_weights: as in :meth:`forward`.

        Returns:
            ``(output, weights)`` as :meth:`forward`.

        Raises:
            TypeError: if an input is not a float tensor, or dtypes differ.
            ValueError: if shapes do not fit together.
        """
        self._check_input("query", query, "m")
        check_float_tensor("keys", keys)
        n = keys.size(2) if keys.dim() == 4 else 0
        for name, tensor in (("keys", keys), ("values", values)):
            expected = (query.size(0), self.num_kv_heads, n, self.d_head)
            axes = "heads" if self.num_kv_heads == self.num_heads else "kv_heads"
            check_shape(name, tensor, expected, f"(batch, {axes}, n, d_head)")
            check_same_kind("query", query, name, tensor)
        mask = self._checked_mask(mask, query, n)
        check_flag("is_causal", is_causal)
        check_flag("need_weights", need_weights)
        q = split_heads(self.w_q(query), self.num_heads)  # (batch, heads, m, d_head)
        q = self.apply_positions(q, n - q.size(2))
        k, v = repeat_heads(keys, self.num_heads), repeat_heads(values, self.num_heads)
        weights = None
        if need_weights:
            heads, weights = unchecked_attention(q, k, v, mask, is_causal=is_causal, scale=None)
        else:
            heads = unchecked_fused_attention(q, k, v, mask, is_causal=is_causal, scale=None)
        return self.w_o(merge_heads(heads)), weights  # (batch, m, d_model), (batch, heads, m, n)

    def apply_positions(self, x: Tensor, first: int) -> Tensor:
        """Put positions, from ``first`` on, into queries or keys (batch, heads, n, d_head); here they have none."""
        return x

    def _checked_mask(self, mask: Tensor | None, query: Tensor, n: int) -> Tensor | None:
        """Check a mask, and give one of three axes its axis for the heads."""
        if mask is None:
            return None
        per_head = check_module_mask(mask, (query.size(0), self.num_heads, query.size(1), n))
        check_mask_device(mask, query.device)
        return per_head

    def _check_pair(self, key: Any, value: Any) -> None:
        """Require keys and values of one batch size, and as many of the ones as of the others."""
        self._check_input("key", key, "n")
        if value is key:
            return
        self._check_input("value", value, "n")
        if key.size(0) != value.size(0):
            raise ValueError("key and value need the same batch size (axis 0); "
                             f"got key {shape_of(key)}, value {shape_of(value)}")  # fmt: skip
        if key.size(1) != value.size(1):
            raise ValueError("key and value need the same number of positions n (axis 1); "
                             f"got key {shape_of(key)}, value {shape_of(value)}")  # fmt: skip

    def _check_input(self, name: str, tensor: Any, positions: str) -> None:
        """Require (batch, positions, d_model), of the dtype and on the device of the weights.

        What was put in the place of a projection (quantized, LoRA, parametrized) checks its dtype and device itself.
        """
        check_float_tensor(name, tensor)
        if tensor.dim() != 3 or tensor.size(-1) != self.d_model:
            raise ValueError(f"{name} must be (batch, {positions}, d_model) with d_model={self.d_model}; "
                             f"got {shape_of(tensor)}")  # fmt: skip
        weight = self.w_q.weight if type(self.w_q) is nn.Linear else None
        if isinstance(weight, nn.Parameter) and (tensor.dtype != weight.dtype or tensor.device != weight.device):
            check_same_kind(name, tensor, "the module's weights", weight)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """Copy the weights of torch's own module.

        Our input is always batch first, whatever ``module.batch_first`` says, and masks follow our convention
        (:func:`~attention_tutorial.masks.to_torch_mha_mask` converts). Torch's dropout is not copied, so outputs
        agree with ``module.eval()``.

        Args:
            module: one whose keys and values have ``embed_dim`` features, without ``add_bias_kv`` or
                ``add_zero_attn``.

        Returns:
            A module of the same sizes, dtype, device and training mode, with its own copy of the weights.

        Raises:
            TypeError: if ``module`` is not an ``nn.MultiheadAttention``.
            ValueError: if it uses one of the options named above.

        Example:
            >>> theirs = nn.MultiheadAttention(8, 2, batch_first=True)
            >>> ours = MultiHeadAttention.from_torch(theirs)
            >>> x = torch.rand(1, 3, 8)
            >>> torch.allclose(ours(x)[0], theirs(x, x, x)[0], atol=1e-6)
            True
        """
        if not isinstance(module, nn.MultiheadAttention):
            raise TypeError(f"module must be a torch.nn.MultiheadAttention; got {type(module).__name__}")
        d_model = module.embed_dim
        if (module.kdim, module.vdim) != (d_model, d_model):
            raise ValueError("module must have kdim and vdim equal to embed_dim; "
                             f"expected {d_model}, got kdim={module.kdim}, vdim={module.vdim}")  # fmt: skip
        if module.bias_k is not None or module.bias_v is not None or module.add_zero_attn:
            raise ValueError("module must not use add_bias_kv or add_zero_attn")
        has_bias = module.in_proj_bias is not None
        weight = module.out_proj.weight
        ours = cls(d_model, module.num_heads, bias=has_bias, device=weight.device, dtype=weight.dtype)
        tensors = {"weight": (*module.in_proj_weight.chunk(3), weight)}
        if has_bias:
            tensors["bias"] = (*module.in_proj_bias.chunk(3), module.out_proj.bias)
        names = ("w_q", "w_k", "w_v", "w_o")
        ours.load_state_dict(
            {f"{w}.{kind}": x for kind, all_four in tensors.items() for w, x in zip(names, all_four, strict=True)}
        )
        return ours.train(module.training)

    def extra_repr(self) -> str:
        """Name the sizes when the module is printed."""
        shared = "" if self.num_kv_heads == self.num_heads else f", num_kv_heads={self.num_kv_heads}"
        return f"d_model={self.d_model}, num_heads={self.num_heads}, d_head={self.d_head}{shared}"
