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
from .parse import mask, number, numbers, random, tensor
from .runner import Mistake, call
from .table import Case, Exercise, WrongAnswer, quick_question

TWICE_AS_LONG = quick_question(
    "A text becomes twice as long. How many times as many weights does naive attention hold?",
    4,
    {
        2: "there is a weight for every pair of a query and a key, and both become twice as many",
        8: "twice the queries and twice the keys make 2 · 2 times the pairs",
        1: "a longer text has more pairs of a query and a key, and each has a weight",
    },
    fallback_message="there is a weight for every pair of a query and a key",
)

OPERATIONS_A_BYTE = quick_question(
    "Naive attention, d = 128, numbers of 2 bytes, n very large. How many operations for each byte that is moved?",
    64,
    {
        32: "a number has 2 bytes here, not 4, and both products count",
        128: "scores go out and come in again, and so do the weights: n² numbers are moved four times, not twice",
        256: "n² numbers are moved four times, not once: scores out and in, weights out and in",
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
    },
    fallback_message="measured from ln 4 the three keys count 2/4, 4/4 and 3/4",
)

CACHE_OF_A_WORD = quick_question(
    "5 layers, 12 heads of queries, 3 of keys and values, 16 features per head, 4 bytes per number: "
    "bytes for one word?",
    1920,
    {
        960: "keys and values are both kept; you counted one of them",
        384: "every layer has keys and values of its own; you counted one layer",
        7680: "12 heads ask, but only 3 heads of keys and values are kept",
        480: "that is how many numbers there are; each takes 4 bytes",
    },
    fallback_message="multiply 2 for key and value, the layers, the heads of keys, their features and the bytes",
)


def _step(change: Callable[[Any, Any], tuple[Any, ...]] = lambda a, b: (a, b, a, b)) -> Any:
    """Return an answer; change(shrink, weight) gives the factors of total, of 1, of summed and of the value."""

    def answer(top: Tensor, total: Tensor, summed: Tensor, s: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
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
        WrongAnswer(
            "multiply the total by shrink first: it was measured from the old top", _step(lambda a, b: (1, b, a, b))
        ),
        WrongAnswer(
            "multiply the sum of values by shrink first: it was measured from the old top",
            _step(lambda a, b: (a, b, 1, b)),
        ),
        WrongAnswer(
            "measure both from the new top: shrink = e^(top - new top), weight = e^(s - new top)",
            lambda top, total, summed, s, v: (total + s.exp(), summed + s.exp() * v),
        ),
    ],
    fallback_message="the new total is shrink * total + weight, and the new sum is shrink * summed + weight * v, with "
    "shrink = e^(top - new top) and weight = e^(s - new top)",
)


def _merge(out_a: Tensor, log_a: Tensor, out_b: Tensor, log_b: Tensor) -> tuple[Tensor, Tensor]:
    log = torch.logaddexp(log_a, log_b)
    share_a, share_b = ((part - log).exp().nan_to_num(0.0)[:, None] for part in (log_a, log_b))
    return share_a * out_a + share_b * out_b, log


_A, _B, _LOG = random(4, 3, seed=1), random(4, 3, seed=2), random(4, seed=3)
_FAR, _FAR_B = (1e4 * torch.tensor(signs, dtype=torch.float64) for signs in ([1, -1, 0, 1], [1, -1, 3, 0]))
_EMPTY = torch.tensor([0.0, -math.inf, 1.0, -math.inf], dtype=torch.float64)

MERGE = Exercise(
    prompt="The output over all keys, from the outputs and log-totals over two halves of them.",
    right=_merge,
    returns=(tensor("(m, d_v)"), tensor("(m,)", "the log-total", finite=False)),
    cases=[
        Case((_A, _LOG, _B, random(4, seed=4))),
        Case(
            (_A, 1e4 + _LOG, _B, 1e4 - _LOG),
            "right for small totals, but exp of 10,000 is infinite; subtract the new log-total before exp: {found}",
        ),
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
        WrongAnswer(
            "you took the mean of the two outputs; each counts by its share of the total",
            lambda out_a, log_a, out_b, log_b: ((out_a + out_b) / 2, torch.logaddexp(log_a, log_b)),
        ),
        WrongAnswer(
            "you added the outputs; each is an average already, and counts by its share",
            lambda out_a, log_a, out_b, log_b: (out_a + out_b, torch.logaddexp(log_a, log_b)),
        ),
        WrongAnswer(
            "totals add, their logarithms do not: the new one is logaddexp(log_a, log_b)",
            lambda out_a, log_a, out_b, log_b: (_merge(out_a, log_a, out_b, log_b)[0], log_a + log_b),
        ),
    ],
    fallback_message="the log-total is logaddexp(log_a, log_b); the output is the sum of both, each times exp(its "
    "log-total - the new one)",
)


def _grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    k, v = repeat_heads(k, q.size(1)), repeat_heads(v, q.size(1))
    return scaled_dot_product_attention(q, k, v)[0]


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
        WrongAnswer(
            "heads 1, 3 and 5 share a key in yours, as with tile; neighbours share, as with repeat_interleave",
            lambda q, k, v: _grouped(q, _tile(k, q.size(1)), _tile(v, q.size(1))),
        ),
        WrongAnswer(
            "you averaged the heads of keys and values; each group has its own",
            lambda q, k, v: _grouped(q, k.mean(1, keepdim=True), v.mean(1, keepdim=True)),
        ),
        WrongAnswer(
            "you did not scale the scores; divide them by the square root of d_k",
            lambda q, k, v: _grouped(q * q.size(-1) ** 0.5, k, v),
            mistake=2,
        ),
    ],
    fallback_message="the numbers are not right: head i reads group i // (heads // kv_heads), scores are divided by "
    "sqrt(d), and the softmax runs over the keys",
)

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
        WrongAnswer(
            "your mask is aligned at the upper left; with a cache, query i stands at position i + (n - m)",
            lambda m, n, window, sinks: sliding_window_mask(n, n, window, sinks)[:m],
        ),
        WrongAnswer(
            "the sinks are missing: every query also sees the first `sinks` keys, as far as they are past",
            lambda m, n, window, sinks: sliding_window_mask(m, n, window, 0),
        ),
        WrongAnswer(
            "your sinks let queries see the future; the first query sees only itself",
            lambda m, n, window, sinks: sliding_window_mask(m, n, window, 0) | (torch.arange(n) < sinks),
        ),
        WrongAnswer(
            "your window has one key too many: its last key is the query's own",
            lambda m, n, window, sinks: sliding_window_mask(m, n, window + 1, sinks),
        ),
    ],
)

# Kernels, right and broken: what 8.2 asks for and 8.3 has to tell apart

Kernel = Callable[[Tensor, Tensor, Tensor, Tensor, bool, int], Tensor]

# What is wrong, as in "a kernel that ...". The order is that in which they are named.
BUGS = {
    "tail": "leaves out the keys after the last full block",
    "upper left": "aligns the causal mask at the upper left, so a new query does not see the cache",
    "zero": "starts its maximum at 0, so exp of scores far below 0 is always 0",
    "overflow": "subtracts no maximum before exp",
    "empty": "gives NaN where no key is allowed",
    "first": "gives NaN where the first block of keys is masked for a query",
    "fill": "fills masked scores with -1e9, so that a row without an allowed key averages masked ones",
    "either": "forgets the padding where it is causal",
    "total": "does not rescale the sum when a larger maximum comes",
    "summed": "does not rescale the output when a larger maximum comes",
    "hidden": "hides NaN: a score that is NaN counts as masked",
    "leaks": "masks keys by adding minus infinity, so that NaN at a masked key comes through",
    "rough": "keeps its running sums in half precision",
}


def _tiles(q: Tensor, k: Tensor, v: Tensor, real: Tensor, causal: bool, block: int, change: str = "") -> Tensor:
    """Attend by tiles. `change` is one of the bugs, or "back", which takes the blocks of keys backwards."""
    m, n = len(q), len(k)
    output = q.new_zeros(m, v.size(1))
    for i in range(0, m, block):
        top = q.new_full((len(q[i : i + block]), 1), 0.0 if change in ("zero", "overflow") else -math.inf)
        total, summed = torch.zeros_like(top), torch.zeros_like(output[i : i + block])
        starts = range(0, n - n % block if change == "tail" else n, block)
        for j in reversed(starts) if change == "back" else starts:
            scores = q[i : i + block] @ k[j : j + block].T / math.sqrt(q.size(1))
            is_open = real[j : j + block].expand(scores.shape)
            if causal:
                rows = torch.arange(i, i + len(top))[:, None] + (0 if change == "upper left" else n - m)
                in_past = torch.arange(j, j + scores.size(1)) <= rows
                is_open = in_past if change == "either" else is_open & in_past
            if change == "hidden":
                scores = scores.nan_to_num(-math.inf, math.inf, -math.inf)
            if change == "leaks":
                scores = scores + torch.zeros_like(scores).masked_fill(~is_open, -math.inf)
            else:
                scores = scores.masked_fill(~is_open, -1e9 if change == "fill" else -math.inf)
            new = top if change == "overflow" else torch.maximum(top, scores.amax(1, keepdim=True))
            shift = new if change == "first" else new.masked_fill(new == -math.inf, 0.0)
            old, weights = (top - shift).exp(), (scores - shift).exp()
            total = (1 if change == "total" else old) * total + weights.sum(1, keepdim=True)
            summed = (1 if change == "summed" else old) * summed + weights @ v[j : j + block]
            if change == "rough":
                total, summed = total.bfloat16().to(total), summed.bfloat16().to(summed)
            top = new
        output[i : i + block] = summed / (total if change == "empty" else total.masked_fill(total == 0, 1.0))
    return output


BROKEN_KERNELS: dict[str, Kernel] = {does: functools.partial(_tiles, change=bug) for bug, does in BUGS.items()}


def _naive(q: Tensor, k: Tensor, v: Tensor, real: Tensor, causal: bool, block: int) -> Tensor:
    return scaled_dot_product_attention(q, k, v, real & causal_mask(len(q), len(k)) if causal else real)[0]


def _each_block(q: Tensor, k: Tensor, v: Tensor, real: Tensor, causal: bool, block: int) -> Tensor:
    """Add the outputs of attention to each block of keys alone."""
    parts = zip(k.split(block), v.split(block), real.split(block), strict=True)
    return torch.stack([_naive(q, *part, False, block) for part in parts]).sum(0)


def _input(
    m: int, n: int, block: int = 4, causal: bool = False, masked: Sequence[int] = (), top: float = 1.0, nan: int = -1
) -> tuple[Any, ...]:
    """Make the arguments of a kernel: which keys are masked, how large scores are, which key is NaN."""
    q, k, v = random(m, 5, seed=1), random(n, 5, seed=2), random(n, 3, seed=3)
    real = torch.ones(n, dtype=torch.bool)
    real[list(masked)] = False
    if abs(top) > 1:  # keys that all have a first feature, so that scores are all large, or all far below 0
        q[:, 0], k[:, 0] = 5**0.5, top + 3 * k[:, 0]
    if nan >= 0:
        k[nan] = math.nan
    return q, k, v, real, causal, block


KERNEL_INPUTS = {
    "": _input(8, 8),
    "a ragged end, 10 keys and 7 queries in blocks of 4": _input(7, 10),
    "the causal mask": _input(8, 8, causal=True),
    "the causal mask and a cache, 3 queries and 10 keys": _input(3, 10, causal=True),
    "padding and the causal mask together": _input(8, 8, causal=True, masked=[2, 6]),
    "the first block masked": _input(8, 8, masked=range(4)),
    "no key allowed": _input(8, 8, masked=range(8)),
    "more queries than keys, causal, where the first see nothing": _input(9, 5, causal=True),
    "scores of 10,000": _input(8, 8, top=1e4),
    "scores of -10,000,000": _input(8, 8, top=-1e7),
    "a key that is NaN, where every output must be NaN": _input(8, 8, nan=5),
    "a masked key that is NaN, which changes nothing": _input(8, 8, masked=[2], nan=2),
    "a NaN in the last key, which is masked for all but the last query": _input(8, 8, causal=True, nan=7),
}

WHOLE = "the numbers are right, but a tensor of m x n is made on the way; keep to blocks, for the mask too"


def _memory(answer: Any) -> str | None:
    m, n = 96, 1536
    inputs = _input(m, n, block=16, causal=True)
    largest = largest_tensor_bytes(lambda: call(answer, *inputs))
    return None if largest < m * n else WHOLE  # even a mask of single bytes; all keys and values take less together


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
        call(answer, *_input(m, n, block=block))
    if mode.largest <= 2 * m * block:  # twice a tile: a block's values may be joined to it
        return None
    return "the numbers are right, but more scores than those of `block` keys are made at a time"


KERNEL = Exercise(
    prompt="Attention in blocks of keys, with padding and the causal mask, and no tensor of m x n.",
    right=_tiles,
    returns=tensor("(m, d_v)", finite=False),
    cases=[Case(inputs, f"with {name}: {{found}}" if name else "{found}") for name, inputs in KERNEL_INPUTS.items()],
    wrong_answers=[
        *(WrongAnswer(f"your kernel {does}", kernel) for does, kernel in BROKEN_KERNELS.items()),
        WrongAnswer("each block has a softmax of its own, and you added them; merge them by their totals", _each_block),
        WrongAnswer(WHOLE, _naive),
    ],
    extra_checks=[_memory, _blocks_of_keys],
)

RIGHT_KERNELS: dict[str, Kernel] = {
    "goes from the first block of keys to the last": _tiles,
    "goes from the last block of keys to the first": functools.partial(_tiles, change="back"),
    "is the naive attention itself": _naive,
}


def _plain(kernel: Kernel) -> Kernel:
    """Wrap a kernel in a function from which nothing can be read but its answers."""
    return lambda query, key, value, real, causal, block: kernel(query, key, value, real, causal, block)


KERNELS = [_plain(kernel) for kernel in (*RIGHT_KERNELS.values(), *BROKEN_KERNELS.values())]

PASSES_ALL = "your test passes every kernel, all the broken ones too"
FAILS_ALL = "your test fails every kernel, the right ones too; compare up to rounding, and let NaN equal NaN"
FAILS_RIGHT = "your test fails a right kernel, which"


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
    if all(verdicts) or not any(verdicts):
        raise Mistake(PASSES_ALL if all(verdicts) else FAILS_ALL)
    failed = [name for name, passed in zip(RIGHT_KERNELS, verdicts, strict=False) if not passed]
    if failed:
        raise Mistake(f"{FAILS_RIGHT} {failed[0]}; compare up to rounding, and let NaN equal NaN")
    past = [words for words, passed in zip(BUGS.values(), verdicts[len(RIGHT_KERNELS) :], strict=True) if passed]
    if past:
        raise Mistake(f"your test lets {len(past)} of {len(BUGS)} broken kernels pass; one of them {past[0]}")
    return verdicts


_INPUTS = list(KERNEL_INPUTS.values())
_WITHOUT_NAN = [x for x in _INPUTS if x[1].isfinite().all()]


def _tester(inputs: Sequence[tuple[Any, ...]] = _INPUTS, tolerance: float = 1e-6) -> Callable[[Kernel], bool]:
    """Return a test that compares a kernel with the naive attention on the inputs."""
    return lambda kernel: all(
        torch.allclose(kernel(*x), _naive(*x), rtol=tolerance, atol=tolerance, equal_nan=True) for x in inputs
    )


TEST = Exercise(
    prompt="A test that passes every right kernel and fails every broken one.",
    right=_tester(),
    returns=numbers("the verdicts"),
    call=_ask_for_verdicts,
    wrong_answers=[
        WrongAnswer(PASSES_ALL, lambda kernel: True),
        WrongAnswer(FAILS_ALL, lambda kernel: False),
        WrongAnswer(FAILS_RIGHT, lambda kernel: all(kernel(*x).equal(_naive(*x)) for x in _WITHOUT_NAN)),
        WrongAnswer(f"one of them {BUGS['tail']}", _tester(_INPUTS[:1])),
        WrongAnswer(f"one of them {BUGS['hidden']}", _tester(_WITHOUT_NAN)),
        WrongAnswer(f"one of them {BUGS['rough']}", _tester(tolerance=0.05)),
    ],
)
