"""What is timed: each contender makes a self-attention of given sizes, ready to be called on x (batch, n, d_model).

A contender returns None where it cannot do what is asked; one whose package is not installed is left out.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_tutorial import MultiHeadAttention, padding_mask, to_torch_mha_mask

MASKS = ("none", "causal", "padding", "both")


class Case(NamedTuple):
    """One self-attention: its sizes, and what is asked of it."""

    batch: int
    n: int
    d_model: int
    heads: int
    dtype: torch.dtype
    mask: str
    weights: bool

    @property
    def is_causal(self) -> bool:
        """Whether the future is hidden."""
        return self.mask in ("causal", "both")

    def padding(self, device: torch.device) -> Tensor | None:
        """Return a padding mask (batch, 1, 1, n), True = real: the last sentence is half as long as the others."""
        if self.mask not in ("padding", "both"):
            return None
        lengths = [self.n] * (self.batch - 1) + [max(1, self.n // 2)]
        return padding_mask(lengths, n=self.n).to(device)


Call = Callable[[Tensor], Tensor]
Maker = Callable[[Case, torch.device, dict[str, Tensor]], tuple[nn.Module, Call] | None]


class Bare(nn.Module):
    """The four projections around torch's function, and nothing else: what one writes by hand, unchecked."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """Attend; torch's function takes a mask or ``is_causal``, so the two are joined."""
        batch, n, d_model = x.shape
        q, k, v = (w(x).view(batch, n, self.heads, -1).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        if mask is not None and is_causal:
            mask, is_causal = mask & torch.ones(n, n, dtype=torch.bool, device=x.device).tril(), False
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)
        return self.w_o(heads.transpose(1, 2).reshape(batch, n, d_model))


class Eager(Bare):
    """What one writes by hand for the weights, unchecked: scores, minus infinity at masked keys, softmax, average."""

    def forward(self, x: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> tuple[Tensor, Tensor]:
        """Attend, and return the weights too."""
        batch, n, d_model = x.shape
        q, k, v = (w(x).view(batch, n, self.heads, -1).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = (q * (1.0 / math.sqrt(q.size(-1)))) @ k.transpose(-2, -1)
        if is_causal:
            past = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
            mask = past if mask is None else mask & past
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.w_o((weights @ v).transpose(1, 2).reshape(batch, n, d_model)), weights


def ours(case: Case, device: torch.device, state: dict[str, Tensor]) -> tuple[nn.Module, Call]:
    """Make the package's module."""
    module = MultiHeadAttention(case.d_model, case.heads, device=device, dtype=case.dtype)
    module.load_state_dict(state)
    options = {"mask": case.padding(device), "is_causal": case.is_causal, "need_weights": case.weights}
    return module, lambda x: module(x, **options)[0]


def bare(case: Case, device: torch.device, state: dict[str, Tensor]) -> tuple[nn.Module, Call]:
    """Make the reference: without weights the bare module, with them the eager one."""
    module = (Eager if case.weights else Bare)(case.d_model, case.heads).to(device, case.dtype)
    module.load_state_dict(state)
    mask, is_causal = case.padding(device), case.is_causal
    if case.weights:
        return module, lambda x: module(x, mask, is_causal)[0]
    return module, lambda x: module(x, mask, is_causal)


def torchs_module(case: Case, device: torch.device, state: dict[str, Tensor]) -> tuple[nn.Module, Call]:
    """Make `nn.MultiheadAttention` with the same weights."""
    module = nn.MultiheadAttention(case.d_model, case.heads, bias=False, batch_first=True).to(device, case.dtype)
    joint = torch.cat([state[f"{name}.weight"] for name in ("w_q", "w_k", "w_v")])
    module.load_state_dict({"in_proj_weight": joint, "out_proj.weight": state["w_o.weight"]})
    options: dict[str, Any] = {"need_weights": case.weights, "average_attn_weights": False}
    padding = case.padding(device)
    if padding is not None:
        options["key_padding_mask"] = to_torch_mha_mask(padding)[:, 0, 0]
    if case.is_causal:
        causal = torch.ones(case.n, case.n, dtype=torch.bool, device=device).tril()
        options |= {"attn_mask": to_torch_mha_mask(causal), "is_causal": padding is None}
    return module, lambda x: module(x, x, x, **options)[0]


def x_transformers(case: Case, device: torch.device, state: dict[str, Tensor]) -> tuple[nn.Module, Call] | None:
    """Make x-transformers' module on torch's fused kernels."""
    from x_transformers.x_transformers import Attention

    if case.weights:
        return None
    module = Attention(case.d_model, dim_head=case.d_model // case.heads, heads=case.heads, causal=case.is_causal,
                       flash=True).to(device, case.dtype)  # fmt: skip
    module.load_state_dict({f"{theirs}.weight": state[f"{name}.weight"] for theirs, name in (
        ("to_q", "w_q"), ("to_k", "w_k"), ("to_v", "w_v"), ("to_out", "w_o"))})  # fmt: skip
    padding = case.padding(device)
    mask = None if padding is None else padding[:, 0, 0]
    return module, lambda x: module(x, mask=mask)


def transformers_bert(case: Case, device: torch.device, state: dict[str, Tensor]) -> tuple[nn.Module, Call] | None:
    """Make the attention of transformers' BERT, on torch's function or, for the weights, step by step."""
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertSelfAttention

    config: Any = BertConfig(hidden_size=case.d_model, num_attention_heads=case.heads, attention_probs_dropout_prob=0.0)
    config._attn_implementation = "eager" if case.weights else "sdpa"
    module = nn.ModuleList([BertSelfAttention(config), nn.Linear(case.d_model, case.d_model, bias=False)])
    module = module.to(device, case.dtype)
    with torch.no_grad():
        for theirs, name in ((module[0].query, "w_q"), (module[0].key, "w_k"), (module[0].value, "w_v")):
            theirs.weight.copy_(state[f"{name}.weight"])
            theirs.bias.zero_()
        module[1].weight.copy_(state["w_o.weight"])
    mask, causal = case.padding(device), torch.ones(case.n, case.n, dtype=torch.bool, device=device).tril()
    if case.is_causal:
        mask = causal if mask is None else mask & causal
    if mask is not None:
        mask = torch.zeros(mask.shape, dtype=case.dtype, device=device).masked_fill(~mask, torch.finfo(case.dtype).min)
        mask = mask.expand(case.batch, 1, case.n, case.n)
    return module, lambda x: module[1](module[0](x, attention_mask=mask)[0])


REFERENCE, OURS = "bare", "ours"
CONTENDERS: dict[str, Maker] = {
    REFERENCE: bare,
    OURS: ours,
    "nn.MultiheadAttention": torchs_module,
    "x-transformers": x_transformers,
    "transformers (BERT)": transformers_bert,
}
