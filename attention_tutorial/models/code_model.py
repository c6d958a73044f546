"""The small language model of Python that chapter 9 opens: nothing but attention between tokens and logits.

`python -m tools.code_model` trains it on the source of Python's standard library and writes its numbers in half
precision; :func:`load_code_model` reads them. The widget :class:`~attention_tutorial.widgets.CodeReader` computes with
the same numbers in the reader's browser.

Heads are named as the chapter names them, by layer and place from 1: ``(2, 1)`` is head 2.1.
"""

import functools
import itertools
from collections.abc import Collection
from importlib import resources
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._validation import check_generator, check_ids, check_positive, check_size, shape_of
from ..data.byte_pairs import BEGIN, BytePairs
from ..functional import masked_softmax, upcast
from ..layers import split_heads
from ..masks import causal_mask
from .translator import load_numbers, pack_state, read_trained

__all__ = [
    "CodeModel",
    "DistanceAttention",
    "ModelOutput",
    "code_model_runs",
    "held_out_files",
    "load_code_model",
    "pack_code_model",
    "unpack_code_model",
]

Head = tuple[int, int]
COLDEST = 1e-30  # below this temperature logits would overflow; only the likeliest token is left there


class DistanceAttention(nn.Module):
    r"""Causal self-attention with a learned bias for each distance, added to the scores.

    .. math:: s_{ij} = \frac{(x_i W^Q)(x_j W^K)^\top}{\sqrt{d_{\text{head}}}} + b_{i-j}, \qquad
        \text{output}_i = \sum_{\text{heads}} \sum_{j \le i} a_{ij}\, x_j W^V W^O

    Each head has its own slices of the matrices and its own learned b, one number a distance. The projections have no
    biases.

    Args:
        d_model: features of a position.
        num_heads: number of heads; divides ``d_model``.
        context: the number of distances, 0 to ``context - 1``.

    Example:
        >>> attention = DistanceAttention(d_model=8, num_heads=2, context=16)
        >>> outputs, weights = attention(torch.zeros(1, 5, 8))
        >>> outputs.shape, weights.shape
        (torch.Size([1, 2, 5, 8]), torch.Size([1, 2, 5, 5]))

    Source:
        Raffel et al. (2020), section 2.1: one learned number for each head and distance.
    """

    def __init__(self, d_model: int, num_heads: int, context: int) -> None:
        super().__init__()
        check_size("d_model", d_model, minimum=1)
        check_size("num_heads", num_heads, minimum=1)
        check_size("context", context, minimum=1)
        if d_model % num_heads:
            raise ValueError(f"num_heads must divide d_model={d_model}; got {num_heads}")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_model, bias=False)
        self.w_v = nn.Linear(d_model, d_model, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self.distance = nn.Parameter(torch.zeros(num_heads, context))

    def weights(self, x_query: Tensor, x_key: Tensor) -> Tensor:
        """Return the weights (batch, heads, n, n) of queries and keys made from two inputs (batch, n, d_model).

        Raises:
            ValueError: if there are more positions than known distances.
        """
        n, context = x_key.size(1), self.distance.size(1)
        if n > context:
            raise ValueError(f"x must have at most {context} positions; got {shape_of(x_key)}")
        query = split_heads(self.w_q(x_query), self.num_heads)
        key = split_heads(self.w_k(x_key), self.num_heads)
        places = torch.arange(n, device=query.device)
        back = places.unsqueeze(1) - places  # (n, n): how far back the key stands
        scores = query @ key.mT / query.size(-1) ** 0.5 + self.distance[:, back.clamp(min=0)]
        return masked_softmax(scores, causal_mask(n, device=scores.device))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what each head adds, (batch, heads, n, d_model), and its weights (batch, heads, n, n)."""
        weights = self.weights(x, x)
        mixed = weights @ split_heads(self.w_v(x), self.num_heads)  # (batch, heads, n, d_head)
        w_o = self.w_o.weight.unflatten(1, (self.num_heads, -1)).permute(1, 2, 0)  # (heads, d_head, d_model)
        return mixed @ w_o, weights


class ModelOutput(NamedTuple):
    """What a code model computes from a text.

    Attributes:
        logits: of the next token at every position, (batch, n, tokens).
        weights: of every layer, each (batch, heads, n, n).
        added: what the heads of every layer would add to the residual stream, those that are removed too, each
            (batch, heads, n, d_model).
    """

    logits: Tensor
    weights: tuple[Tensor, ...]
    added: tuple[Tensor, ...]


class CodeModel(nn.Module):
    r"""Predict the next token of Python: token vectors, layers of attention that add to them, logits.

    .. math:: x^{(0)}_t = E_{\text{id}_t}, \qquad x^{(l)} = x^{(l-1)} + \sum_{\text{heads}}
        \operatorname{head}(\operatorname{norm}(x^{(l-1)})), \qquad
        \text{logits} = \operatorname{norm}(x^{(L)})\, E^\top

    Args:
        tokens: what texts are encoded with.
        d_model: features of a token's vector.
        num_heads: heads of every layer.
        num_layers: how many layers.
        context: the largest number of tokens, the one that begins a text included.
        generator: source of the first weights (on the CPU); torch's global one if left out.

    Raises:
        TypeError: if ``tokens`` is not a ``BytePairs``, a size not an int, or ``generator`` not a ``torch.Generator``.
        ValueError: if a size is too small, or ``num_heads`` does not divide ``d_model``.

    Example:
        >>> model = CodeModel(BytePairs([(b"e", b"r")]), d_model=8, num_heads=2, num_layers=2, context=16)
        >>> output = model(model.encode("never"))
        >>> output.logits.shape, output.weights[0].shape
        (torch.Size([1, 5, 258]), torch.Size([1, 2, 5, 5]))

    Source:
        Elhage et al. (2021), "attention-only" Transformers; the parts as in Vaswani et al. (2017).
    """

    def __init__(
        self,
        tokens: BytePairs,
        *,
        d_model: int = 128,
        num_heads: int = 4,
        num_layers: int = 2,
        context: int = 256,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(tokens, BytePairs):
            raise TypeError(f"tokens must be a BytePairs; got {type(tokens).__name__}")
        check_size("num_layers", num_layers, minimum=1)
        check_generator(generator, optional=True)
        self.tokens = tokens
        self.context = context
        self.embedding = nn.Embedding(len(tokens), d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(num_layers))
        self.layers = nn.ModuleList(DistanceAttention(d_model, num_heads, context) for _ in range(num_layers))
        self.last_norm = nn.LayerNorm(d_model)
        self._draw(generator)

    @torch.no_grad()
    def _draw(self, generator: torch.Generator | None) -> None:
        d_model = self.embedding.embedding_dim
        self.embedding.weight.normal_(0, 0.05, generator=generator)
        for layer in self.layers:
            linears: Any = layer.named_children()
            for name, linear in linears:
                smaller = (2 * len(self.layers)) ** -0.5 if name == "w_o" else 1.0  # as in GPT-2
                linear.weight.normal_(0, d_model**-0.5 * smaller, generator=generator)

    def encode(self, text: str) -> Tensor:
        """Return the ids of a text, (1, n), with the token that begins it first.

        Raises:
            TypeError: if ``text`` is not a str.
            ValueError: if it has more tokens than the context.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a str; got {type(text).__name__}")
        ids = [BEGIN, *self.tokens.encode(text)]
        if len(ids) > self.context:
            raise ValueError(f"text must have at most {self.context - 1} tokens; got {len(ids) - 1}")
        return torch.tensor([ids], device=self.embedding.weight.device)

    def forward(self, ids: Tensor, without: Collection[Head] = ()) -> ModelOutput:
        """Read token ids (batch, n).

        Args:
            ids: int64, of at most ``context`` positions.
            without: heads to remove, as ``(layer, head)`` from 1: what they would add is not added.

        Returns:
            The :class:`ModelOutput`.

        Raises:
            TypeError: if ``ids`` is not an int64 tensor.
            ValueError: if ``ids`` has not two axes or too many positions, or there is no such head.
        """
        check_ids("ids", ids)
        if ids.dim() != 2 or ids.size(1) > self.context:
            raise ValueError(f"ids must be (batch, n) with n at most {self.context}; got {shape_of(ids)}")
        last: tuple[int, Any] = len(self.layers), self.layers[0].num_heads
        for head in without:
            if head not in itertools.product(range(1, last[0] + 1), range(1, last[1] + 1)):
                raise ValueError(f"without must hold (layer, head) from (1, 1) to {last}; got {head!r}")
        x = self.embedding(ids)
        weights, added = [], []
        for number, (norm, layer) in enumerate(zip(self.norms, self.layers, strict=True), start=1):
            heads, layer_weights = layer(norm(x))
            kept = [h for h in range(heads.size(1)) if (number, h + 1) not in without]
            x = x + heads[:, kept].sum(dim=1)
            weights.append(layer_weights)
            added.append(heads)
        return ModelOutput(self.last_norm(x) @ self.embedding.weight.T, tuple(weights), tuple(added))

    @torch.no_grad()
    def write(
        self,
        text: str,
        length: int = 40,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        without: Collection[Head] = (),
        generator: torch.Generator | None = None,
    ) -> str:
        r"""Continue a text: draw a token from the model's probabilities, append it, and repeat.

        .. math:: P(i) = \operatorname{softmax}(\text{logits} / T)_i \text{ over the } k \text{ largest logits}

        Args:
            text: the beginning.
            length: the number of tokens to write; the model sees the last ``context`` of all.
            temperature: T; below 1 prefers likely tokens, above 1 evens them out.
            top_k: k; all tokens if left out, 1 for always the most likely.
            without: heads to remove.
            generator: source of the draws (on the CPU); torch's global one if left out.

        Returns:
            The continuation, without ``text``.

        Example:
            >>> load_code_model().write("    def __init__(", 2, top_k=1)
            'self, '
        """
        check_size("length", length)
        check_positive(temperature=temperature)
        check_size("top_k", len(self.tokens) if top_k is None else top_k, minimum=1)
        check_generator(generator, optional=True)
        ids = [BEGIN, *self.tokens.encode(text)]
        start = len(ids)
        for _ in range(length):
            recent = ids if len(ids) <= self.context else [BEGIN, *ids[len(ids) - self.context + 1 :]]
            seen = torch.tensor([recent], device=self.embedding.weight.device)
            logits = upcast(self(seen, without).logits[0, -1].cpu()) / max(temperature, COLDEST)
            best = logits.topk(min(top_k or len(logits), len(logits)))
            choice = torch.multinomial(best.values.softmax(dim=-1), 1, generator=generator)
            ids.append(int(best.indices[choice]))
        return self.tokens.decode(ids[start:])


def pack_code_model(model: CodeModel) -> dict[str, Any]:
    """Describe a model so that a page can compute with it.

    Args:
        model: the model.

    Returns:
        Plain data for JSON: sizes, merges, and all parameters in half precision, as letters.

    Raises:
        TypeError: if ``model`` is not a ``CodeModel``.

    Example:
        >>> model = CodeModel(BytePairs([(b"e", b"r")]), d_model=8, num_heads=2, context=16)
        >>> unpack_code_model(pack_code_model(model)).tokens.merges
        ((b'e', b'r'),)
    """
    if not isinstance(model, CodeModel):
        raise TypeError(f"model must be a CodeModel; got {type(model).__name__}")
    first: Any = model.layers[0]
    return {
        "sizes": {
            "d_model": model.embedding.embedding_dim,
            "num_heads": first.num_heads,
            "num_layers": len(model.layers),
            "context": model.context,
        },
        "merges": [[left.decode("latin-1"), right.decode("latin-1")] for left, right in model.tokens.merges],
        **pack_state(model, "float16"),
    }


def unpack_code_model(record: dict[str, Any], dtype: torch.dtype | None = None) -> CodeModel:
    """Rebuild the model that :func:`pack_code_model` described.

    Args:
        record: the description.
        dtype: of its parameters; torch's default one if left out.

    Returns:
        The model, in evaluation mode.

    Raises:
        KeyError: if a part of the description is missing.

    Example:
        >>> model = CodeModel(BytePairs([]), d_model=8, num_heads=2, context=16)
        >>> unpack_code_model(pack_code_model(model)).context
        16
    """
    merges = [(left.encode("latin-1"), right.encode("latin-1")) for left, right in record["merges"]]
    model = CodeModel(BytePairs(merges), **record["sizes"]).to(dtype or torch.get_default_dtype())
    load_numbers(model, record)
    return model.eval()


@functools.cache
def code_model_record() -> dict[str, Any]:
    """Return the description that the package ships."""
    return read_trained("code_model")


@functools.cache
def code_model_runs() -> dict[str, Any]:
    """Return what `python -m tools.code_model --runs 5` measured in five other trainings.

    Returns:
        Under ``"runs"`` a report of each; beside them ``"baselines"``, a report of the ``"shipped"`` model, and under
        ``"one layer"`` reports of two models with one layer.

    Example:
        >>> [run["seed"] for run in code_model_runs()["runs"]]
        [11, 12, 13, 14, 15]
    """
    return read_trained("code_model_runs")


def load_code_model(dtype: torch.dtype | None = None) -> CodeModel:
    """Return the trained code model of chapter 9.

    Args:
        dtype: of its parameters; torch's default one if left out. Its numbers were rounded to half precision.

    Returns:
        The model; ``model.tokens`` are its tokens.

    Example:
        >>> model = load_code_model()
        >>> logits = model(model.encode("    def __init__(")).logits
        >>> model.tokens.text(int(logits[0, -1].argmax()))
        'self'
    """
    return unpack_code_model(code_model_record(), dtype)


def held_out_files() -> dict[str, str]:
    """Return Python code that the code model has never seen: six files of the standard library of Python 3.11.

    Returns:
        The text of each file, by name: the same on every machine, whatever Python runs there.

    Example:
        >>> files = held_out_files()
        >>> list(files), len(files["sched"])
        (['chunk', 'copyreg', 'html_parser', 'sched', 'secrets', 'trace'], 6351)
    """
    folder = resources.files("attention_tutorial.data").joinpath("python_library")
    names = ("chunk", "copyreg", "html_parser", "sched", "secrets", "trace")
    return {name: folder.joinpath(f"{name}.txt").read_text("utf-8") for name in names}
