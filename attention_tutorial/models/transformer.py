"""The Transformer: an encoder that reads a sentence at once, and a decoder that writes another word by word.

Every layer is a list of steps, each added to the residual path: ``x + step(norm(x))``. Id 0 is padding, in
source and target; id 1 stands before a target's first token, id 2 after its last.

Axes: ``n`` source positions, ``m`` target positions. A mask is boolean, True = may attend, of any shape that
:class:`~attention_tutorial.layers.MultiHeadAttention` takes; the masks of padding and of the future are made here, and
joined to it by AND.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._validation import (
    broadcasts,
    check_flag,
    check_generator,
    check_mask_device,
    check_mask_type,
    check_sequences,
    check_size,
    shape_of,
)
from ..layers import MultiHeadAttention
from ..positions import sinusoidal_positions

__all__ = [
    "BEGIN",
    "END",
    "PAD",
    "DecoderLayer",
    "EncoderLayer",
    "FeedForward",
    "KVCache",
    "Memory",
    "Transformer",
    "Weights",
]

PAD, BEGIN, END = 0, 1, 2


class Weights(NamedTuple):
    """The attention weights of all layers, one tensor a layer, in their order.

    Attributes:
        encoder: self-attention of the encoder, each (batch, heads, n, n).
        decoder: self-attention of the decoder, each (batch, heads, m, m).
        cross: attention from the target to the source, each (batch, heads, m, n).
    """

    encoder: tuple[Tensor, ...]
    decoder: tuple[Tensor, ...]
    cross: tuple[Tensor, ...]


class Memory(NamedTuple):
    """What the encoder hands to the decoder.

    Attributes:
        states: (batch, n, d_model), one for each source position.
        mask: boolean (batch, 1, 1, n), False where the source is padding.
        weights: of the encoder's layers, each (batch, heads, n, n), if they were asked for.
    """

    states: Tensor
    mask: Tensor
    weights: tuple[Tensor, ...] = ()


class KVCache(NamedTuple):
    """The keys and values that a decoder layer computes once, each (batch, heads, positions, d_head).

    Attributes:
        keys: of the target positions so far.
        values: of the target positions so far.
        cross_keys: of the source.
        cross_values: of the source.
    """

    keys: Tensor
    values: Tensor
    cross_keys: Tensor
    cross_values: Tensor


class FeedForward(nn.Module):
    r"""Two matrices with a ReLU between, for each position by itself.

    .. math:: \operatorname{FFN}(x) = \max(0,\, x W_1 + b_1)\, W_2 + b_2

    Args:
        d_model: features of a position.
        d_ff: width between the matrices.

    Raises:
        TypeError: if a size is not an int.
        ValueError: if a size is below 1.

    Example:
        >>> FeedForward(8, 32)(torch.zeros(2, 5, 8)).shape
        torch.Size([2, 5, 8])

    Source:
        Vaswani et al. (2017), equation (2).
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        check_size("d_model", d_model, minimum=1)
        check_size("d_ff", d_ff, minimum=1)
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., d_model) for (..., d_model)."""
        out: Tensor = self.w_2(self.w_1(x).relu())
        return out


class EncoderLayer(nn.Module):
    r"""Self-attention, then a feed-forward part, each on the residual path.

    .. math:: x \leftarrow x + \operatorname{step}(\operatorname{norm}(x)) \;\text{(norm first)}, \qquad
        x \leftarrow \operatorname{norm}(x + \operatorname{step}(x)) \;\text{(norm last)}

    Args:
        d_model: features of a position.
        num_heads: number of heads.
        d_ff: width of the feed-forward part.
        norm_first: normalise before each step, or after it as in the paper.

    Raises:
        TypeError: if a size is not an int, or ``norm_first`` not a bool.
        ValueError: if a size is below 1, or ``num_heads`` exceeds ``d_model``.

    Example:
        >>> x, weights = EncoderLayer(8, 2, 32)(torch.zeros(2, 5, 8))
        >>> x.shape, weights.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 2, 5, 5]))

    Source:
        Vaswani et al. (2017), section 3.1 (norm last); Xiong et al. (2020), arXiv:2002.04745 (norm first).
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, *, norm_first: bool = True) -> None:
        super().__init__()
        check_flag("norm_first", norm_first)
        self.norm_first = norm_first
        self.attention = MultiHeadAttention(d_model, num_heads, bias=True)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, need_weights: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """Return the new ``x`` (batch, n, d_model) and the weights (batch, heads, n, n), or ``None`` without."""
        normed = self.attention_norm(x) if self.norm_first else x
        output, weights = self.attention(normed, mask=mask, need_weights=need_weights)
        x = x + output if self.norm_first else self.attention_norm(x + output)
        return _feed(self, x), weights

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer) -> "EncoderLayer":
        """Copy the weights of torch's own layer, which must have a ReLU; its dropout is not copied.

        Raises:
            TypeError: if ``layer`` is not an ``nn.TransformerEncoderLayer``.
            ValueError: if its activation is not the ReLU.

        Example:
            >>> theirs = nn.TransformerEncoderLayer(8, 2, 32, batch_first=True).eval()
            >>> x = torch.rand(2, 5, 8)
            >>> torch.allclose(EncoderLayer.from_torch(theirs)(x)[0], theirs(x), atol=1e-5)
            True
        """
        ours: EncoderLayer = _copy(cls, layer, nn.TransformerEncoderLayer)
        ours.attention = MultiHeadAttention.from_torch(layer.self_attn)
        return ours


class DecoderLayer(nn.Module):
    r"""Self-attention on what is written, cross-attention to the source, then a feed-forward part.

    Each is a step on the residual path, as in :class:`EncoderLayer`.

    Args:
        d_model: features of a position.
        num_heads: number of heads.
        d_ff: width of the feed-forward part.
        norm_first: normalise before each step, or after it as in the paper.

    Raises:
        TypeError: if a size is not an int, or ``norm_first`` not a bool.
        ValueError: if a size is below 1, or ``num_heads`` exceeds ``d_model``.

    Example:
        >>> x, written, read = DecoderLayer(8, 2, 32)(torch.zeros(2, 3, 8), torch.zeros(2, 5, 8))
        >>> x.shape, written.shape, read.shape
        (torch.Size([2, 3, 8]), torch.Size([2, 2, 3, 3]), torch.Size([2, 2, 3, 5]))

    Source:
        Vaswani et al. (2017), section 3.1.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, *, norm_first: bool = True) -> None:
        super().__init__()
        check_flag("norm_first", norm_first)
        self.norm_first = norm_first
        self.attention = MultiHeadAttention(d_model, num_heads, bias=True)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, bias=True)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.attention_norm, self.cross_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        cross_mask: Tensor | None = None,
        *,
        need_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Decode all positions at once: every position attends to itself and to those before it.

        Args:
            x: (batch, m, d_model).
            memory: what the encoder made, (batch, n, d_model).
            mask: of the self-attention, besides the causal one.
            cross_mask: of the cross-attention, such as the source's padding.
            need_weights: return the weights.

        Returns:
            The new ``x`` (batch, m, d_model), the weights of self-attention (batch, heads, m, m) and of
            cross-attention (batch, heads, m, n); ``None`` without ``need_weights``.
        """
        cache = self.init_cache(memory)
        x, weights, cross_weights, _ = self.decode_step(x, cache, mask, cross_mask, need_weights=need_weights)
        return x, weights, cross_weights

    def init_cache(self, memory: Tensor) -> KVCache:
        """Compute the keys and values of the source, once for a sentence; of the target there are none yet."""
        cross_keys, cross_values = self.cross_attention.project(memory)
        empty = cross_keys[:, :, :0]
        return KVCache(empty, empty, cross_keys, cross_values)

    def decode_step(
        self,
        x: Tensor,
        cache: KVCache,
        mask: Tensor | None = None,
        cross_mask: Tensor | None = None,
        *,
        need_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None, Tensor | None, KVCache]:
        """Do what :meth:`forward` does for new positions, with the cached keys and values of those before them.

        Args:
            x: the new positions (batch, m, d_model).
            cache: from :meth:`init_cache` or from the step before.
            mask: as in :meth:`forward`; its keys are all positions so far.
            cross_mask: as in :meth:`forward`.
            need_weights: return the weights.

        Returns:
            The new ``x``, both weights, and the cache for the next step.
        """
        normed = self.attention_norm(x) if self.norm_first else x
        keys, values = self.attention.project(normed, start=cache.keys.size(2))
        keys, values = torch.cat([cache.keys, keys], dim=2), torch.cat([cache.values, values], dim=2)
        output, weights = self.attention.attend(normed, keys, values, mask, is_causal=True, need_weights=need_weights)
        x = x + output if self.norm_first else self.attention_norm(x + output)

        normed = self.cross_norm(x) if self.norm_first else x
        output, cross_weights = self.cross_attention.attend(
            normed, cache.cross_keys, cache.cross_values, cross_mask, need_weights=need_weights
        )
        x = x + output if self.norm_first else self.cross_norm(x + output)
        return _feed(self, x), weights, cross_weights, cache._replace(keys=keys, values=values)

    @classmethod
    def from_torch(cls, layer: nn.TransformerDecoderLayer) -> "DecoderLayer":
        """Copy the weights of torch's own layer, which must have a ReLU; its dropout is not copied.

        Raises:
            TypeError: if ``layer`` is not an ``nn.TransformerDecoderLayer``.
            ValueError: if its activation is not the ReLU.

        Example:
            >>> theirs = nn.TransformerDecoderLayer(8, 2, 32, batch_first=True).eval()
            >>> x, memory = torch.rand(2, 3, 8), torch.rand(2, 5, 8)
            >>> closed = nn.Transformer.generate_square_subsequent_mask(3)
            >>> torch.allclose(DecoderLayer.from_torch(theirs)(x, memory)[0], theirs(x, memory, closed), atol=1e-5)
            True
        """
        ours: DecoderLayer = _copy(cls, layer, nn.TransformerDecoderLayer)
        ours.attention = MultiHeadAttention.from_torch(layer.self_attn)
        ours.cross_attention = MultiHeadAttention.from_torch(layer.multihead_attn)
        return ours


def _feed(layer: EncoderLayer | DecoderLayer, x: Tensor) -> Tensor:
    """Take the feed-forward step of a layer."""
    if layer.norm_first:
        return x + layer.feed_forward(layer.feed_forward_norm(x))
    out: Tensor = layer.feed_forward_norm(x + layer.feed_forward(x))
    return out


def _copy(cls: type[Any], layer: Any, kind: Any) -> Any:
    """Copy all but the attentions from a layer of torch's, with its dtype, device and mode."""
    if not isinstance(layer, kind):
        raise TypeError(f"layer must be a torch.nn.{kind.__name__}; got {type(layer).__name__}")
    w_1, w_2 = layer.linear1, layer.linear2
    x = torch.linspace(-100, 100, 99 * w_1.out_features).view(99, -1)
    if not torch.equal(layer.activation(x.clone()), x.relu()):  # it may be a module, or write in place
        raise ValueError("layer must have activation='relu'")
    ours = cls(w_1.in_features, layer.self_attn.num_heads, w_1.out_features, norm_first=layer.norm_first)
    ours.to(w_1.weight.device, w_1.weight.dtype)
    norms = [module for module in ours.children() if isinstance(module, nn.LayerNorm)]
    theirs = [module for module in layer.children() if isinstance(module, nn.LayerNorm)]
    for mine, other in ((ours.feed_forward.w_1, w_1), (ours.feed_forward.w_2, w_2), *zip(norms, theirs, strict=True)):
        mine.bias = None if other.bias is None else mine.bias
        mine.load_state_dict(other.state_dict())
    for mine, other in zip(norms, theirs, strict=True):
        mine.eps = other.eps
    return ours.train(layer.training)


class Transformer(nn.Module):
    r"""Encoder and decoder: reads source ids, predicts each next target id.

    .. math:: x_t = \sqrt{d_{\text{model}}}\, E_{\text{id}_t} + p_t

    Token vectors are drawn with variance :math:`1/d_{\text{model}}`, so that they have the size of the sinusoidal
    position vectors :math:`p_t` after the factor. All other matrices are drawn by Glorot and Bengio's uniform rule.

    Args:
        source_size: number of different source ids, among them 0 (padding).
        target_size: number of different target ids, among them 0 (padding), 1 (begin) and 2 (end).
        d_model: features of a position, even.
        num_heads: number of heads of every attention.
        d_ff: width of the feed-forward parts.
        encoder_layers: how many; with 0, the decoder reads the source's vectors themselves.
        decoder_layers: how many.
        norm_first: normalise before each step, and once at the end of encoder and decoder; or after each step.
        generator: source of the first weights (on the CPU); torch's global one if left out.

    Raises:
        TypeError: if a size is not an int, ``norm_first`` not a bool, or ``generator`` not a ``torch.Generator``.
        ValueError: if a size is too small, ``d_model`` odd, or ``num_heads`` above ``d_model``.

    Example:
        >>> model = Transformer(source_size=11, target_size=13, d_model=8, num_heads=2, d_ff=16)
        >>> source, target_in = torch.ones(2, 7, dtype=torch.long), torch.ones(2, 5, dtype=torch.long)
        >>> logits, weights = model(source, target_in)
        >>> logits.shape, weights.cross[0].shape
        (torch.Size([2, 5, 13]), torch.Size([2, 2, 5, 7]))

    Source:
        Vaswani et al. (2017), section 3.
    """

    def __init__(
        self,
        source_size: int,
        target_size: int,
        *,
        d_model: int = 64,
        num_heads: int = 4,
        d_ff: int = 128,
        encoder_layers: int = 1,
        decoder_layers: int = 1,
        norm_first: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_size("source_size", source_size, minimum=1)
        check_size("target_size", target_size, minimum=3)
        check_size("d_model", d_model, minimum=2)
        if d_model % 2:
            raise ValueError(f"d_model must be even, for sines and cosines; got {d_model}")
        check_size("encoder_layers", encoder_layers)
        check_size("decoder_layers", decoder_layers, minimum=1)
        check_generator(generator, optional=True)
        self.source_embedding = nn.Embedding(source_size, d_model)
        self.target_embedding = nn.Embedding(target_size, d_model)
        self.encoder = nn.ModuleList(
            EncoderLayer(d_model, num_heads, d_ff, norm_first=norm_first) for _ in range(encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(d_model, num_heads, d_ff, norm_first=norm_first) for _ in range(decoder_layers)
        )
        last_norm = nn.LayerNorm if norm_first else nn.Identity
        self.encoder_norm, self.decoder_norm = last_norm(d_model), last_norm(d_model)
        self.readout = nn.Linear(d_model, target_size)
        self._draw(generator)

    @torch.no_grad()
    def _draw(self, generator: torch.Generator | None) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight, generator=generator)
                if module.bias is not None:
                    module.bias.zero_()
            elif isinstance(module, nn.Embedding):
                module.weight.normal_(0, module.embedding_dim**-0.5, generator=generator)

    def forward(
        self,
        source: Tensor,
        target_in: Tensor,
        *,
        encoder_mask: Tensor | None = None,
        decoder_mask: Tensor | None = None,
        cross_mask: Tensor | None = None,
        need_weights: bool = True,
    ) -> tuple[Tensor, Weights]:
        """Predict every target token from the source and the target tokens before it.

        Args:
            source: token ids (batch, n), padded with 0.
            target_in: token ids (batch, m): 1, then the target without its last token.
            encoder_mask: what the encoder's self-attention may see, besides the padding mask, in all layers.
            decoder_mask: what the decoder's self-attention may see, besides the causal mask.
            cross_mask: what the decoder may see of the source, besides the padding mask.
            need_weights: return the weights; otherwise ``Weights`` is empty, and torch's fused kernels are used.

        Returns:
            ``(logits, weights)``: logits (batch, m, target_size), and :class:`Weights`.

        Raises:
            TypeError: if ids are not int64, or a mask is neither boolean nor float.
            ValueError: if shapes do not fit together.
        """
        memory = self.encode(source, encoder_mask, need_weights=need_weights)
        check_sequences("target_in", target_in, "m")
        if source.size(0) != target_in.size(0):
            raise ValueError("source and target_in need the same batch size (axis 0); "
                             f"got source {shape_of(source)}, target_in {shape_of(target_in)}")  # fmt: skip
        logits, decoder, cross, _ = self.decode_step(
            target_in, memory, self.init_cache(memory),
            decoder_mask=decoder_mask, cross_mask=cross_mask, need_weights=need_weights,
        )  # fmt: skip
        return logits, Weights(memory.weights, decoder, cross)

    def encode(self, source: Tensor, mask: Tensor | None = None, *, need_weights: bool = True) -> Memory:
        """Read the source ids (batch, n)."""
        check_sequences("source", source, "n")
        padding = (source != PAD)[:, None, None]  # (batch, 1, 1, n)
        mask = _join("encoder_mask", padding, mask)
        x = self._embed(self.source_embedding, source, 0)
        all_weights = []
        for layer in self.encoder:
            x, weights = layer(x, mask, need_weights=need_weights)
            all_weights.append(weights)
        return Memory(self.encoder_norm(x), padding, tuple(all_weights) if need_weights else ())

    def init_cache(self, memory: Memory) -> tuple[KVCache, ...]:
        """Return the cache of every decoder layer before the first target token, for :meth:`decode_step`."""
        return tuple(layer.init_cache(memory.states) for layer in self.decoder)  # type: ignore[operator]

    def decode_step(
        self,
        target_in: Tensor,
        memory: Memory,
        cache: tuple[KVCache, ...],
        *,
        decoder_mask: Tensor | None = None,
        cross_mask: Tensor | None = None,
        need_weights: bool = True,
    ) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...], tuple[KVCache, ...]]:
        """Decode new target ids (batch, m) after those whose keys and values are in the cache.

        Returns:
            The logits (batch, m, target_size), the weights of self- and of cross-attention, one tensor a layer, and
            the cache for the next step.
        """
        cross_mask = _join("cross_mask", memory.mask, cross_mask)
        x = self._embed(self.target_embedding, target_in, cache[0].keys.size(2))
        weights, cross_weights, new_cache = [], [], []
        for layer, cached in zip(self.decoder, cache, strict=True):
            x, *maps, cached = layer.decode_step(  # type: ignore[operator]
                x, cached, decoder_mask, cross_mask, need_weights=need_weights
            )
            weights.append(maps[0])
            cross_weights.append(maps[1])
            new_cache.append(cached)
        logits = self.readout(self.decoder_norm(x))
        both = (tuple(weights), tuple(cross_weights)) if need_weights else ((), ())
        return logits, *both, tuple(new_cache)

    def _embed(self, embedding: nn.Embedding, ids: Tensor, start: int) -> Tensor:
        """Give every token its vector and its position."""
        d_model = embedding.embedding_dim
        vectors = embedding(ids) * math.sqrt(d_model)
        out: Tensor = vectors + sinusoidal_positions(
            ids.size(1), d_model, start=start, device=vectors.device, dtype=vectors.dtype
        )
        return out


def _join(name: str, padding: Tensor, mask: Tensor | None) -> Tensor:
    """Join a mask (m, n), (batch, m, n) or (batch, heads, m, n) to that of padding (batch, 1, 1, n)."""
    if mask is None:
        return padding
    check_mask_type(name, mask)
    check_mask_device(mask, padding.device)
    given = shape_of(mask)
    if mask.dim() == 3:
        mask = mask[:, None]
    if not broadcasts(shape_of(padding), shape_of(mask)):
        raise ValueError(f"{name} must fit the padding (batch, 1, 1, n); "
                         f"expected something that broadcasts with {shape_of(padding)}, got {given}")  # fmt: skip
    if mask.dtype == torch.bool:
        return padding & mask
    return torch.where(padding, mask, -torch.inf)
