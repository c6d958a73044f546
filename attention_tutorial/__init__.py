"""The attention mechanism, from the bottleneck to the Transformer: the code behind the book.

The functions and modules of attention are at the top level. What stands beside them is imported by name, for example
``from attention_tutorial import plotting``, so that ``import attention_tutorial`` stays quick and needs only torch.
"""

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

from .functional import (
    additive_attention,
    additive_scores,
    fused_attention,
    masked_softmax,
    multiplicative_attention,
    scaled_dot_product_attention,
)
from .layers import AdditiveAttention, MultiHeadAttention, merge_heads, repeat_heads, split_heads
from .masks import causal_mask, combine_masks, padding_mask, sliding_window_mask, to_torch_mha_mask

try:
    __version__ = _version("attention-tutorial")  # it is written in pyproject.toml
except _PackageNotFoundError:  # a folder on the path, not installed
    __version__ = "0+unknown"

__all__ = [
    "AdditiveAttention",
    "MultiHeadAttention",
    "additive_attention",
    "additive_scores",
    "causal_mask",
    "combine_masks",
    "fused_attention",
    "masked_softmax",
    "merge_heads",
    "multiplicative_attention",
    "padding_mask",
    "repeat_heads",
    "scaled_dot_product_attention",
    "sliding_window_mask",
    "split_heads",
    "to_torch_mha_mask",
]
