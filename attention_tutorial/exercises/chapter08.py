"""The exercises of chapter 8. In two of them kernels and tests of kernels are attacked with the same inputs."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..analysis.cost import largest_tensor_bytes
from ..functional import scaled_dot_product_attention
from ..layers import repeat_heads
from ..masks import causal_mask, sliding_window_mask
from .parse import mask, number, numbers, random, same, tensor
from .runner import Mistake, call
from .table import Case, Exercise, WrongAnswer, quick_question

OPERATIONS_A_BYTE = quick_question(
    "Naive attention, d = 128, numbers of 2 bytes, n very large. How many operations for each byte that is moved?",
    64,
    {
        32: "a number has 2 bytes here, not 4, and both products count",
        16: "that is for d = 64 and numbers of 4 bytes",
        128: "n² numbers are moved four times: scores out and in, weights out and in",
        256: "n² numbers are moved four times, not once: scores out and in, weights out and in",
        1 / 64: "those are bytes for each operation; turn it around",
    },
    fallback_message="divide 4n²d operations by four times n² numbers of 2 bytes",
)

TOTAL_OF_THREE = quick_question(
    "Key after key, three scores: ln 2, ln 4, ln 3. What is the total, measured from the largest, after all three?",
    2.25,
    {
        2.75: "when ln 4 comes, what was summed so far shrinks by 2/4 = 1/2",
        9.0: "that is the sum of the exponentials; the total is measured from the largest score, ln 4",
        4.5: "that is measured from the first score, ln 2; when a larger one comes, the sum is measured from that",
        3.0: "ln 3 is not larger than ln 4, so the reference stays ln 4, and the third key adds 3/4",
        1.5: "that is the total after two keys; the third adds 3/4",
        2.5: "the third key adds e to the power of ln 3 - ln 4, which is 3/4, not 1",
        2.125: "ln 3 is not larger than ln 4, so nothing shrinks; the third key adds 3/4",
    },
    fallback_message="measured from ln 4 the three keys count 2/4, 4/4 and 3/4",
)

CACHE_OF_A_WORD = quick_question(
    "5 layers, 12 heads of queries, 3 of keys and values, 16 features a head, 4 bytes a number: bytes for one word?",
    1920,
    {
        960: "keys and values are both kept; you counted one of them",
        384: "every layer has keys and values of its own; you counted one layer",
        7680: "12 heads ask, but only 3 heads of keys and values are kept",
        480: "that is how many numbers there are; each takes 4 bytes",
        640: "each of the 3 heads of keys and values is kept; you counted one",
        5760: "queries are not kept; only keys and values are asked for again",
        2880: "queries are not kept, and only keys and values are asked for again",
        15360: "that is in bits; a byte has eight",
    },
    fallback_message="multiply 2 for key and value, the layers, the heads of keys, their features, and the bytes of a number",
)

_State = tuple[Tensor, Tensor]
_Factors = tuple[Tensor | int, Tensor | int, Tensor | int, Tensor | int]


def _step(
    change: Callable[[Tensor, Tensor], _Factors] = lambda old, new: (old, new, old, new),
) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], _State]:
    """Return an answer; ``change(shrink, weight)`` gives the factors of total, of 1, of summed and of the value."""

    def answer(top: Tensor, total: Tensor, summed: Tensor, s: Tensor, v: Tensor) -> _State:
        new_top = torch.maximum(top, s)
        a, b, c, d = change((top - new_top).exp(), (s - new_top).exp())
        return a * total + b, c * summed + d * v

    return answer


def _state(top: float, total: float, s: float) -> tuple[Tensor, ...]:
    old, so_far, score = (torch.tensor(x, dtype=torch.float64) for x in (top, total, s))
    return old, so_far, so_far * random(3, seed=1), score, random(3, seed=2)


ONE_MORE_KEY = Exercise(
    prompt="One more key, with score s and value v: the new total and the new sum of values.",
    right=_step(),
    returns=(number("the total"), tensor("(d_v,)", "the new sum")),
    cases=[
        Case(_state(2.0, 1.5, 1.0), "where the new score is smaller than the top: {found}"),
        Case(_state(1.0, 1.5, 2.0), "where the new score is the largest so far: {found}"),
        Case(_state(-math.inf, 0.0, 1.0), "for the first key of all: {found}"),
    ],
    wrong_answers=[
        WrongAnswer("multiply the total by shrink first: it was measured from the old top", _step(lambda a, b: (1, b, a, b))),
        WrongAnswer("multiply the sum of values by shrink first: it was measured from the old top",
             _step(lambda a, b: (a, b, 1, b))),
        WrongAnswer("what you have shrinks: its factor is e to the power of the old top minus the new one",
             _step(lambda a, b: (1 / a, b, 1 / a, b))),
        WrongAnswer("measure the new score from the new top, not from the old one", _step(lambda a, b: (a, b / a, a, b / a))),
        WrongAnswer("shrink is for what you have; the new key comes with weight alone",
             _step(lambda a, b: (a, a * b, a, a * b))),
        WrongAnswer("multiply what you have by shrink, not by weight", _step(lambda a, b: (b, b, b, b))),
        WrongAnswer("measure both from the new top: shrink = e^(top - new top), weight = e^(s - new top)",
             lambda top, total, summed, s, v: (total + s.exp(), summed + s.exp() * v)),
        WrongAnswer("shrink and weight have changed places", _step(lambda a, b: (b, a, b, a))),
        WrongAnswer("add weight to the total, not 1", _step(lambda a, b: (a, 1, a, b))),
        WrongAnswer("multiply the value of the new key by weight", _step(lambda a, b: (a, b, a, 1))),
        WrongAnswer("add the new key to what you have; you keep the new one alone", _step(lambda a, b: (0 * a, b, 0 * a, b))),
    ],
    fallback_message="the new total is shrink * total + weight, and the new sum is shrink * summed + weight * v, with shrink = "
    "e^(top - new top) and weight = e^(s - new top)",
)  # fmt: skip


def _merge(out_a: Tensor, log_a: Tensor, out_b: Tensor, log_b: Tensor) -> tuple[Tensor, Tensor]:
    log = torch.logaddexp(log_a, log_b)
    share_a, share_b = ((part - log).exp().nan_to_num(0.0)[:, None] for part in (log_a, log_b))
    return share_a * out_a + share_b * out_b, log


def _shares(share: Callable[[Tensor, Tensor], Tensor]) -> Any:
    def answer(out_a: Tensor, log_a: Tensor, out_b: Tensor, log_b: Tensor) -> tuple[Tensor, Tensor]:
        return (
            share(log_a, log_b)[:, None] * out_a + share(log_b, log_a)[:, None] * out_b,
            torch.logaddexp(log_a, log_b),
        )

    return answer


def _log(total: Callable[[Tensor, Tensor], Tensor]) -> Any:
    def answer(out_a: Tensor, log_a: Tensor, out_b: Tensor, log_b: Tensor) -> tuple[Tensor, Tensor]:
        return _merge(out_a, log_a, out_b, log_b)[0], total(log_a, log_b)

    return answer


def _from_one_constant(out_a: Tensor, log_a: Tensor, out_b: Tensor, log_b: Tensor) -> tuple[Tensor, Tensor]:
    top = torch.maximum(log_a, log_b).max()
    top = torch.where(top == -math.inf, 0.0, top)
    a, b = (log_a - top).exp(), (log_b - top).exp()
    total = a + b
    return (a[:, None] * out_a + b[:, None] * out_b) / total.masked_fill(total == 0, 1.0)[:, None], top + total.log()


_A, _B, _LOG = random(4, 3, seed=1), random(4, 3, seed=2), random(4, seed=3)
_FAR, _FAR_B = (1e4 * torch.tensor(signs, dtype=torch.float64) for signs in ([1, -1, 0, 1], [1, -1, 3, 0]))
_EMPTY = torch.tensor([0.0, -math.inf, 1.0, -math.inf], dtype=torch.float64)

MERGE = Exercise(
    prompt="The output over all keys, from the outputs and log-totals over two halves of them.",
    right=_merge,
    returns=(tensor("(m, d_v)"), tensor("(m,)", "the log-total", finite=False)),
    cases=[
        Case((_A, _LOG, _B, random(4, seed=4))),
        Case((_A, 1e4 + _LOG, _B, 1e4 - _LOG), "right for small totals, but not for logarithms of 10,000: {found}"),
        Case(
            (_A, _FAR + _LOG, _B, _FAR_B - _LOG),
            "right where all totals are of one size; where those of queries or halves differ by e^10,000: {found}",
        ),
        Case(
            (_A * (_EMPTY[:, None] > -1), _EMPTY, _B * (_EMPTY.flip(0)[:, None] > -1), _EMPTY.flip(0)),
            "right where both halves have allowed keys; where one has none, its log-total is minus infinity: {found}",
        ),
        Case(
            (0 * _A, torch.full((4,), -math.inf, dtype=torch.float64)) * 2,
            "right where some key is allowed; where neither half has one: {found}",
        ),
    ],
    wrong_answers=[
        WrongAnswer("you took the mean of the two outputs; each counts by its share of the total",
             _shares(lambda a, b: 0 * a + 0.5)),
        WrongAnswer("you added the outputs; each is an average already, and counts by its share",
             _shares(lambda a, b: 0 * a + 1)),
        WrongAnswer("the shares are those of the logarithms; take exp of them first", _shares(lambda a, b: a / (a + b))),
        WrongAnswer("the shares are swapped: a's output counts by a's total",
             _shares(lambda a, b: (b - torch.logaddexp(a, b)).exp())),
        WrongAnswer("only the half with the larger total counts in yours", _shares(lambda a, b: (a > b).double())),
        WrongAnswer("totals add, their logarithms do not: logaddexp", _log(lambda a, b: a + b)),
        WrongAnswer("your log-total is the larger of the two; both totals count", _log(torch.maximum)),
        WrongAnswer("your log-total is the total itself; the logarithm is missing", _log(lambda a, b: a.exp() + b.exp())),
        WrongAnswer("your log-total is the mean of the two", _log(lambda a, b: (a + b) / 2)),
        WrongAnswer("you measure all totals from one number; each query has its own largest", _from_one_constant),
    ],
    fallback_message="the log-total is logaddexp(log_a, log_b); the output is the sum of both, each times exp(its log-total - the "
    "new one)",
)  # fmt: skip


def _grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    k, v = repeat_heads(k, q.size(1)), repeat_heads(v, q.size(1))
    return scaled_dot_product_attention(q, k, v)[0]


def _with_heads(choose: Callable[[Tensor, int], Tensor], values: Callable[[Tensor, int], Tensor] | None = None) -> Any:
    def answer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = choose(k, q.size(1)), (values or choose)(v, q.size(1))
        return scaled_dot_product_attention(q, k, v)[0]

    return answer


def _tile(x: Tensor, heads: int) -> Tensor:
    return x.repeat(1, heads // x.size(1), 1, 1)


GROUPED = Exercise(
    prompt="Attention of several heads that share keys and values in groups of neighbours.",
    right=_grouped,
    returns=tensor("(batch, heads, m, d_v)"),
    cases=[
        Case((random(2, 6, 5, 4), random(2, 2, 7, 4), random(2, 2, 7, 3))),
        Case((random(1, 4, 1, 5), random(1, 1, 3, 5), random(1, 1, 3, 2)), "with one head of keys for all: {found}"),
    ],
    wrong_answers=[
        WrongAnswer("heads 1, 3 and 5 share a key in yours, as with tile; neighbours share, as with repeat_interleave",
             _with_heads(_tile)),
        WrongAnswer("keys are shared by neighbours, but values as with tile and repeat", _with_heads(repeat_heads, _tile)),
        WrongAnswer("values are shared by neighbours, but keys as with tile and repeat", _with_heads(_tile, repeat_heads)),
        WrongAnswer("all heads share the first head of keys and values in yours",
             _with_heads(lambda x, heads: x[:, :1].expand(-1, heads, -1, -1))),
        WrongAnswer("you averaged the heads of keys and values; each group has its own",
             _with_heads(lambda x, heads: x.mean(1, keepdim=True).expand(-1, heads, -1, -1))),
        WrongAnswer("the groups come in the wrong order", _with_heads(lambda x, heads: repeat_heads(x.flip(1), heads))),
        WrongAnswer("there must be an output for each head of the query; you made one for each head of keys",
               lambda q, k, v: scaled_dot_product_attention(q[:, :: q.size(1) // k.size(1)], k, v)[0]),
        WrongAnswer("the scores are not divided by the square root of d_k",
             lambda q, k, v: _grouped(q * q.size(-1) ** 0.5, k, v), mistake=2),
    ],
    fallback_message="the numbers are not right: head i reads group i // (heads // kv_heads), scores are divided by sqrt(d), and "
    "the softmax runs over the keys",
)  # fmt: skip


def _by_rule(rule: Callable[[Tensor, Tensor, int, int], Tensor], first: int | None = None) -> Any:
    """Return an answer whose mask is rule(positions of queries (m, 1), of keys (n,), window, sinks)."""

    def answer(m: int, n: int, window: int, sinks: int) -> Tensor:
        return rule(torch.arange(m)[:, None] + (n - m if first is None else first), torch.arange(n), window, sinks)

    return answer


WINDOW = Exercise(
    prompt="The mask of a sliding window with sinks, for m new queries and n keys.",
    right=sliding_window_mask,
    returns=mask("(m, n)"),
    cases=[
        Case((6, 6, 2, 0)),
        Case((6, 6, 2, 3)),
        Case((3, 8, 2, 2), "right without a cache; with fewer queries than keys: {found}"),
        Case((1, 9, 3, 1), "right for several queries; for the newest alone: {found}"),
    ],
    wrong_answers=[
        WrongAnswer("True and False are swapped: True = may attend", lambda *a: ~sliding_window_mask(*a), mistake=7),
        WrongAnswer("aligned upper left: with a cache, query i stands at position i + (n - m)",
             _by_rule(lambda i, j, w, s: (j <= i) & ((i - j < w) | (j < s)), first=0)),
        WrongAnswer("the sinks are missing", lambda m, n, w, s: sliding_window_mask(m, n, w, 0)),
        WrongAnswer("your sinks let queries see the future; the first query sees only itself",
             _by_rule(lambda i, j, w, s: ((j <= i) & (i - j < w)) | (j < s))),
        WrongAnswer("your window has one key too many: its last key is the query's own",
             lambda m, n, w, s: sliding_window_mask(m, n, w + 1, s)),
        WrongAnswer("your window has one key too few: its last key is the query's own",
             _by_rule(lambda i, j, w, s: (j <= i) & ((i - j < w - 1) | (j < s)))),
        WrongAnswer("your window looks ahead as well", _by_rule(lambda i, j, w, s: ((i - j).abs() < w) | (j < s) & (j <= i))),
        WrongAnswer("no key is too old in your mask: that is the causal mask", lambda m, n, w, s: causal_mask(m, n)),
        WrongAnswer("a row for each query and a column for each key: (m, n)",
             lambda *a: sliding_window_mask(*a).T.contiguous()),
        WrongAnswer("there is one sink too many", lambda m, n, w, s: sliding_window_mask(m, n, w, s + 1)),
    ],

)  # fmt: skip

# Kernels, right and broken: what 8.2 asks for and 8.3 has to tell apart

Kernel = Callable[[Tensor, Tensor, Tensor, Tensor, bool, int], Tensor]

# What is wrong, as in "a kernel that ...". The order is that in which they are named.
BUGS = {
    "tail": "leaves out the keys after the last full block",
    "zeros": "counts the empty places after the last key as keys of zeros",
    "queries": "leaves out the queries after the last full block",
    "upper left": "aligns the causal mask at the upper left, so a new query does not see the cache",
    "overflow": "subtracts no maximum before exp",
    "zero": "starts its maximum at 0, so exp of scores far below 0 is always 0",
    "first": "gives NaN where the first block of keys is masked for a query",
    "empty": "gives NaN where no key is allowed",
    "fill": "fills masked scores with -1e9, so that a row without an allowed key averages masked ones",
    "either": "forgets the padding where it is causal",
    "total": "does not rescale the sum when a larger maximum comes",
    "summed": "does not rescale the output when a larger maximum comes",
    "d_v": "divides the scores by the square root of d_v, not d_k",
    "hidden": "hides NaN: a score that is NaN counts as masked",
    "leaks": "masks keys by adding minus infinity, so that NaN at a masked key comes through",
    "rough": "keeps its running sums in half precision",
}


def _block_scores(
    bug: str, q: Tensor, k: Tensor, real: Tensor, places: tuple[Tensor, Tensor], causal: bool, d: int
) -> Tensor:
    scores = q @ k.T / math.sqrt(d)
    is_open = real.expand(scores.shape)
    if causal:
        in_past = places[1] <= places[0]
        is_open = in_past if bug == "either" else is_open & in_past
    if bug == "hidden":
        scores = scores.nan_to_num(-math.inf, math.inf, -math.inf)
    if bug == "leaks":
        return scores + torch.zeros_like(scores).masked_fill(~is_open, -math.inf)
    return scores.masked_fill(~is_open, -1e9 if bug == "fill" else -math.inf)


def _tiles(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    real: Tensor,
    causal: bool,
    block: int,
    *,
    bug: str = "",
    back: bool = False,
) -> Tensor:
    """Attend by tiles, with one thing wrong or none; ``back`` takes the blocks of keys backwards."""
    m, n, d = len(query), len(key), value.size(1) if bug == "d_v" else query.size(1)
    if bug == "zeros" and n % block:
        key, value = (torch.cat([x, x.new_zeros(block - n % block, x.size(1))]) for x in (key, value))
        real = torch.cat([real, real.new_ones(block - n % block)])
    output = torch.zeros(m, value.size(1), dtype=query.dtype)
    for i in range(0, m - m % block if bug == "queries" else m, block):
        q = query[i : i + block]
        top = torch.full((len(q), 1), 0.0 if bug in ("zero", "overflow") else -math.inf, dtype=query.dtype)
        total, summed = torch.zeros_like(top), output[i : i + block] * 0
        starts = range(0, n - n % block if bug == "tail" else n, block)
        for j in reversed(starts) if back else starts:
            rows = torch.arange(i, i + len(q))[:, None] + (0 if bug == "upper left" else n - m)
            columns = torch.arange(j, min(j + block, len(key)))
            scores = _block_scores(bug, q, key[j : j + block], real[j : j + block], (rows, columns), causal, d)
            new = top if bug == "overflow" else torch.maximum(top, scores.amax(1, keepdim=True))
            shift = new if bug == "first" else new.masked_fill(new == -math.inf, 0.0)
            old, weights = (top - shift).exp(), (scores - shift).exp()
            total = (1 if bug == "total" else old) * total + weights.sum(1, keepdim=True)
            summed = (1 if bug == "summed" else old) * summed + weights @ value[j : j + block]
            if bug == "rough":
                total, summed = total.to(torch.bfloat16).to(total), summed.to(torch.bfloat16).to(summed)
            top = new
        if bug == "first":  # rows without any allowed key are looked after
            nothing = ~_open(m, n, real, causal)[i : i + block].any(1, keepdim=True)
            total, summed = total.masked_fill(nothing, 1.0), summed.masked_fill(nothing, 0.0)
        output[i : i + block] = summed / (total if bug == "empty" else total.masked_fill(total == 0, 1.0))
    return output


def _open(m: int, n: int, real: Tensor, causal: bool) -> Tensor:
    return real & causal_mask(m, n) if causal else real.expand(m, n)


def _naive(query: Tensor, key: Tensor, value: Tensor, real: Tensor, causal: bool, block: int) -> Tensor:
    return scaled_dot_product_attention(query, key, value, _open(len(query), len(key), real, causal))[0]


def _broken(bug: str) -> Any:
    return functools.partial(_tiles, bug=bug)


def _input(
    m: int,
    n: int,
    block: int,
    *,
    causal: bool = False,
    padding: Sequence[int] = (),
    top: float = 1.0,
    nan: int | None = None,
) -> tuple[Any, ...]:
    """Make the arguments of a kernel: masked keys at the places of the padding, scores times top, a key of NaN."""
    q, k, v = random(m, 5, seed=1), random(n, 5, seed=2), random(n, 3, seed=3)
    real = torch.ones(n, dtype=torch.bool)
    real[list(padding)] = False
    if abs(top) > 1:  # keys that all have a first feature, so that scores are all large, or all far below 0
        q[:, 0], k[:, 0] = 5**0.5, top + 3 * k[:, 0]
    if nan is not None:
        k[nan] = math.nan
    return q, k, v, real, causal, block


KERNEL_INPUTS = {
    "": _input(8, 8, 4),
    "a ragged end, 10 keys and 7 queries in blocks of 4": _input(7, 10, 4),
    "the causal mask": _input(8, 8, 4, causal=True),
    "the causal mask and a cache, 3 queries and 10 keys": _input(3, 10, 4, causal=True),
    "padding at the end": _input(8, 8, 4, padding=[6, 7]),
    "padding and the causal mask together": _input(8, 8, 4, causal=True, padding=[2, 6]),
    "the first block masked": _input(8, 8, 4, padding=range(4)),
    "no key allowed": _input(8, 8, 4, padding=range(8)),
    "more queries than keys, causal, where the first see nothing": _input(9, 5, 4, causal=True),
    "scores of 10,000": _input(8, 8, 4, top=1e4),
    "scores of -10,000,000": _input(8, 8, 4, top=-1e7),
    "a key that is NaN, where every output must be NaN": _input(8, 8, 4, nan=5),
    "a masked key that is NaN, which changes nothing": _input(8, 8, 4, padding=[2], nan=2),
    "a NaN in the last key, which is masked for all but the last query": _input(8, 8, 4, causal=True, nan=7),
}


def _memory(answer: Any) -> str | None:
    m, n = 96, 1536
    inputs = _input(m, n, 16, causal=True)
    largest = largest_tensor_bytes(lambda: call(answer, *inputs))
    if largest < m * n:  # even a mask of single bytes; that is more than all keys and values take together
        return None
    return "the numbers are right, but a tensor of m x n is made on the way; keep to blocks, for the mask too"


class _Scores(TorchDispatchMode):
    """Notes the largest tensor of scores or weights: what a matrix product returns, or an exponential is taken of."""

    PRODUCTS = ("mm", "bmm", "mv", "addmm", "baddbmm", "addmv", "dot")
    EXPONENTIALS = ("exp", "exp_", "exp2", "expm1", "pow", "_softmax", "logsumexp")

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        looked_at = result if name in self.PRODUCTS else args if name in self.EXPONENTIALS else ()
        if "dot_product" in name:  # torch's own attention: queries and keys
            looked_at = args[:2]
        self.largest = max([self.largest, *(x.numel() for x in tree_leaves(looked_at) if isinstance(x, Tensor))])
        return result


def _blocks_of_keys(answer: Any) -> str | None:
    m, n, block = 4, 480, 4
    with _Scores() as mode:
        call(answer, *_input(m, n, block))
    if mode.largest <= 2 * m * block:  # twice a tile: a block's values may be joined to it
        return None
    return "the numbers are right, but more scores than those of `block` keys are made at a time"


KERNEL = Exercise(
    prompt="Attention in blocks of keys, with padding and the causal mask, and no tensor of m x n.",
    right=_tiles,
    returns=tensor("(m, d_v)", finite=False),
    cases=[Case(inputs, f"with {name}: {{found}}" if name else "{found}") for name, inputs in KERNEL_INPUTS.items()],

    wrong_answers=[
        *(WrongAnswer(f"your kernel {BUGS[bug]}", _broken(bug)) for bug in sorted(BUGS, key=lambda bug: bug == "overflow")),
        WrongAnswer("queries and keys have changed places", lambda q, k, v, *rest: _naive(k, q, v, *rest)),
        WrongAnswer("each block has its own softmax, and you added them", lambda q, k, v, real, causal, b: sum(
            (_naive(q, k[j : j + b], v[j : j + b], real[j : j + b], False, b) for j in range(0, len(k), b)),
            q.new_zeros(1))),
        WrongAnswer("a tensor of m x n is made on the way", _naive),
        WrongAnswer("yours hides it", lambda q, k, v, *rest: _tiles(q, k.nan_to_num(0.0), v, *rest)),
    ],

    extra_checks=[_memory, _blocks_of_keys],
)  # fmt: skip

RIGHT_KERNELS: dict[str, Kernel] = {
    "goes from the first block of keys to the last": _tiles,
    "goes from the last block of keys to the first, so that its last digits differ": (
        functools.partial(_tiles, back=True)
    ),
    "is the naive attention itself": _naive,
}  # fmt: skip


def _plain(kernel: Kernel) -> Kernel:
    """Wrap a kernel in a function from which nothing can be read but its answers."""

    def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor, causal: bool, block: int) -> Tensor:
        return kernel(query, key, value, real, causal, block)

    return attend


KERNELS = [_plain(kernel) for kernel in (*RIGHT_KERNELS.values(), *map(_broken, BUGS))]


def _ask_for_verdicts(test: Any) -> list[bool]:
    """Return what a test says of each kernel, the right ones first. An assertion that fails is a False."""
    verdicts = []
    for kernel in KERNELS:
        try:
            verdict = call(test, kernel)
        except Mistake as mistake:
            if not isinstance(mistake.__cause__, AssertionError):
                raise
            verdict = False
        if not isinstance(verdict, bool | np.bool_) and not (isinstance(verdict, Tensor) and verdict.numel() == 1):
            raise Mistake(f"your test must return True or False; got {type(verdict).__name__}")
        verdicts.append(bool(verdict))
    return verdicts


def _tester(
    *left_out: str,
    also: Sequence[tuple[Any, ...]] = (),
    tolerance: float = 1e-6,
    like: Callable[[Tensor, Tensor], bool] | None = None,
    width: int | None = None,
) -> Any:
    """Make a test of kernels that tries the inputs above but for some of them, and others."""
    tried = [*(inputs for name, inputs in KERNEL_INPUTS.items() if name not in left_out), *also]
    if width is not None:  # as many features of a value
        tried = [(q, k, random(len(k), width), *rest) for q, k, _, *rest in tried]

    def test(kernel: Kernel) -> bool:
        pairs = ((kernel(*inputs), _naive(*inputs)) for inputs in tried)
        if like is not None:
            return all(like(a, b) for a, b in pairs)
        return all(torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True) for a, b in pairs)

    return test


def _zeros_unless_nan(got: Tensor, right: Tensor) -> bool:
    """Compare, but of rows in which nothing is open ask only that they are not NaN."""
    empty = (right == 0).all(dim=1, keepdim=True)
    return same(got.masked_fill(empty & ~got.isnan(), 0.0), right)


_RAGGED, _CACHE, _FIRST, _NONE, _MORE, _LARGE, _SMALL, _NAN, _CLOSED_NAN, _LAST_NAN, _BOTH = (
    next(name for name in KERNEL_INPUTS if words in name)
    for words in ("ragged", "cache", "first block", "no key", "more queries", "of 10,000", "-10,000", "every output",
                  "masked key that", "last key", "together")
)  # fmt: skip
INCOMPLETE_TESTS = {  # by the first broken kernel that gets past
    "tail": _tester(*[name for name in KERNEL_INPUTS if name]),
    "zeros": _tester(_RAGGED),
    "queries": _tester(_RAGGED, _CACHE, _MORE, also=[_input(8, 10, 4)]),
    "upper left": _tester(_CACHE, _MORE),
    "overflow": _tester(_LARGE, _SMALL),
    "zero": _tester(_SMALL),
    "first": _tester(_FIRST),
    "empty": _tester(_NONE, _MORE),
    "fill": _tester(like=_zeros_unless_nan),
    "either": _tester(_BOTH),
    "d_v": _tester(width=5),
    "hidden": _tester(_NAN, _LAST_NAN),
    "leaks": _tester(_CLOSED_NAN, _LAST_NAN),
    "rough": _tester(tolerance=0.05),
}

TEST = Exercise(
    prompt="A test that passes every right kernel and fails every broken one.",
    right=_tester(),
    returns=numbers("the verdicts"),
    call=_ask_for_verdicts,

    wrong_answers=[
        WrongAnswer("your test passes every kernel, all the broken ones too", lambda kernel: True),
        WrongAnswer("your test fails every kernel, the right ones too", lambda kernel: False),
        WrongAnswer("your test says True for the broken kernels and False for the right ones; turn it around",
             lambda kernel: not _tester()(kernel)),
        WrongAnswer("fails a right kernel", _tester(like=lambda a, b: a.nan_to_num().equal(b.nan_to_num()))),
        *(WrongAnswer(f"one of them {BUGS[bug]}", test) for bug, test in INCOMPLETE_TESTS.items()),
    ],

)  # fmt: skip
