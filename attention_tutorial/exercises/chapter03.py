"""The exercises of chapter 3."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..analysis.cost import largest_tensor_bytes
from ..analysis.weights import entropy
from ..analysis.weights import softmax_jacobian as jacobian_of
from ..layers import merge_heads, split_heads
from .parse import expect_number, expect_tensor, number, numbers, random, same, tensor
from .runner import Mistake, call
from .table import Case, Exercise, WrongAnswer, quick_question

COIN_VARIANCE = quick_question(
    "Three features, each ±1 by a coin toss: the dot product is -3, -1, 1 or 3, with the shares 1/8, 3/8, 3/8 and 1/8. "
    "What is its variance?",
    3,
    {
        9: "that is the largest square: all three products would always have the same sign",
        0: "that is the mean; the variance is the average of the squared distances from it",
        3**0.5: "that is the standard deviation; the variance is its square",
        1.5: "that is the average distance from the mean; square each distance before you average",
    },
)

SLOPE_OF_A_WEIGHT = quick_question(
    "Two keys have the weights 0.8 and 0.2. What is the derivative of the first weight with respect to its own score?",
    0.16,
    {
        0.8: "that is the weight itself; multiply it by what is left of 1",
        0.2: "that is the other weight; multiply the two",
        0.64: "that is the square of the weight: the second factor is 1 - a, not a",
        0.25: "that is the largest it can be, for two equal weights",
        -0.16: "that is the derivative with respect to the other score; a score raises its own weight",
    },
)

WRONG_ROOT = quick_question(
    "A model has 768 features and 12 heads of 64 features each. Someone divides the scores of a head by √768. Queries "
    "and keys meet Theorem 1. What is the standard deviation of the divided scores?",
    8 / 768**0.5,
    {
        1: "that is what √64 would give; here the divisor is √768",
        64 / 768: "that is the variance; the standard deviation is its root",
        8: "that is the deviation of the raw scores; divide it by √768",
        64 / 768**0.5: "the raw scores have the variance 64, so their deviation is 8",
        768**0.5 / 8: "upside down: the raw deviation stands above, the divisor below",
    },
)

# Inputs are d_k, mean and standard deviation of the query's entries, and of the key's.


def _variance(d: int, mq: float, a: float, mk: float, b: float) -> float:
    return d * (a**2 * b**2 + mq**2 * b**2 + a**2 * mk**2)


def _mean_square(d: int, mq: float, a: float, mk: float, b: float) -> float:
    return d * (a**2 + mq**2) * (b**2 + mk**2)


def _ask_for_variance(answer: Callable[..., Any], *inputs: float) -> float:
    case = (5, 1.5, 2.0, 0.7, 3.0)
    first, second = (expect_number(call(answer, *case), "the variance") for _ in range(2))
    if first != second:
        raise Mistake("the same inputs gave two different answers: draw no random numbers, compute the variance")
    if math.isclose(first, 5 * 1.5 * 0.7, rel_tol=1e-4):
        raise Mistake("that is the mean of the dot product; the variance is asked for")
    return expect_number(call(answer, *inputs), "the variance")


DOT_PRODUCT_VARIANCE = Exercise(
    prompt="The variance of a dot product of d_k features whose entries have given means and standard deviations.",
    right=_variance,
    returns=number("the variance"),
    call=_ask_for_variance,
    cases=[
        Case((5, 0.0, 2.0, 0.0, 3.0)),
        Case((5, 1.5, 2.0, 0.0, 3.0), "right when both means are 0; {found}"),
        Case((5, 0.0, 3.0, 1.5, 2.0), "right when both means are 0; {found}"),
        Case((5, 1.5, 2.0, 0.7, 3.0), "right when one mean is 0; {found}"),
        Case((7, 0.123, 0.21, 0.07, 0.33), "right for d_k = 5 and large numbers; {found}"),  # small: they show rounding
        Case((7, -0.123, 0.21, -0.07, 0.33), "negative means count like positive ones; {found}"),
    ],
    wrong_answers=[
        WrongAnswer(
            "you used the standard deviations where the variances belong: square them",
            lambda d, mq, a, mk, b: d * a * b,
        ),
        WrongAnswer(
            "that is the standard deviation of the dot product; the variance is its square",
            lambda *inputs: math.sqrt(_variance(*inputs)),
        ),
        WrongAnswer(
            "the variance grows like d_k, not like its square: independent products cancel in part",
            lambda d, mq, a, mk, b: d**2 * a**2 * b**2,
        ),
        WrongAnswer(
            "you left d_k out: each of the d_k products adds its own variance", lambda d, mq, a, mk, b: a**2 * b**2
        ),
        WrongAnswer(
            "you added the two variances; for a product of independent numbers of mean 0 they multiply",
            lambda d, mq, a, mk, b: d * (a**2 + b**2),
        ),
        WrongAnswer(
            "a mean other than 0 makes every product vary more; without means your answer is right",
            lambda d, mq, a, mk, b: _variance(d, 0, a, 0, b),
        ),
        WrongAnswer(
            "these are the mean squares of the products; subtract the square of each product's mean", _mean_square
        ),
        WrongAnswer(
            "draw no random numbers",
            lambda d, mq, a, mk, b: ((mq + a * torch.randn(500, d)) * (mk + b * torch.randn(500, d))).sum(-1).var(),
        ),
    ],
)


def _jacobian(scores: Tensor) -> Tensor:
    return jacobian_of(scores.softmax(0))


def _of_weights(make: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return an answer that makes something of the weights (n,)."""
    return lambda scores: make(scores.softmax(0))


def _large_scores(answer: Callable[[Tensor], Any]) -> str | None:
    scores = random(7)
    for large in ((1000.0 + scores).round(), 1000.0 * scores):
        got = expect_tensor(call(answer, large), (7, 7), "(n, n)", "the Jacobian", finite=False)
        if not got.isfinite().all():
            return "right for small scores, but large ones overflow: exp(1000) is infinite; torch.softmax avoids it"
        if not same(got, _jacobian(large), 1e-7):
            return (
                "right for small scores, but not for large ones; torch.softmax subtracts the largest score before exp"
            )
    return None


def _naive_softmax(scores: Tensor) -> Tensor:
    return scores.exp() / scores.exp().sum()


JACOBIAN = Exercise(
    prompt="The Jacobian of the softmax at some scores.",
    right=_jacobian,
    returns=tensor("(n, n)", "the Jacobian"),
    cases=[Case((random(7),))],
    tolerance=1e-7,
    wrong_answers=[
        WrongAnswer("the term a aᵀ is missing: every weight falls when another score rises", _of_weights(torch.diag)),
        WrongAnswer("diag(a) is missing: a score must raise its own weight", _of_weights(lambda a: -torch.outer(a, a))),
        WrongAnswer(
            "that is the diagonal alone; the entries -a_j a_l off it are missing",
            _of_weights(lambda a: torch.diag(a * (1 - a))),
        ),
        WrongAnswer("subtract a aᵀ, do not add it", _of_weights(lambda a: torch.diag(a) + torch.outer(a, a))),
        WrongAnswer("you put the scores in place of the weights: the softmax is missing", jacobian_of),
        WrongAnswer("large ones overflow", lambda scores: jacobian_of(_naive_softmax(scores))),
        WrongAnswer("but not for large ones", lambda scores: jacobian_of(_naive_softmax(scores.clamp(max=50)))),
    ],
    extra_checks=[_large_scores],
)


def _through_softmax(a: Tensor, u: Tensor) -> Tensor:
    return a * (u - a @ u)


def _memory(answer: Callable[[Tensor, Tensor], Any]) -> str | None:
    n = 1009
    a, u = random(n).softmax(0), random(n, seed=1)
    memory: list[Any] = []
    largest = largest_tensor_bytes(lambda: memory.append(call(answer, a, u)))
    if not same(memory[0], _through_softmax(a, u), 1e-7):
        return "right for 7 keys, but not for 1009"
    if largest >= 4 * n * n:
        return (
            f"right, but with {n} keys you make a tensor of {largest:,} bytes, an n x n matrix; "
            "a * u and the number aᵀu are all you need"
        )
    return None


THROUGH_SOFTMAX = Exercise(
    prompt="The gradient of the scores from the weights a and the gradient u of the weights, in linear memory.",
    right=_through_softmax,
    returns=tensor("(n,)", "the gradient"),
    cases=[Case((random(7).softmax(0), random(7, seed=1)))],
    tolerance=1e-7,
    wrong_answers=[
        WrongAnswer("that is diag(a) u alone; subtract a (aᵀu)", lambda a, u: a * u),
        WrongAnswer("multiply by the weights once more: J u = a (u - aᵀu)", lambda a, u: u - a @ u),
        WrongAnswer(
            "subtract the average under the weights, aᵀu, not the plain average", lambda a, u: a * (u - u.mean())
        ),
        WrongAnswer("subtract aᵀu, do not add it", lambda a, u: a * (u + a @ u)),
        WrongAnswer(
            "the weights are given already: there is no softmax to apply",
            lambda a, u: _through_softmax(a.softmax(0), u),
        ),
        WrongAnswer("an n x n matrix", lambda a, u: jacobian_of(a) @ u),
    ],
    extra_checks=[_memory],
)


def _output_by_query(weights: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return values.mT @ jacobian_of(weights) @ keys / math.sqrt(keys.size(-1))


OUTPUT_BY_QUERY = Exercise(
    prompt="The derivative of an output of attention with respect to its query, from weights, keys and values.",
    right=_output_by_query,
    returns=tensor("(d_v, d_k)", "the derivative"),
    cases=[Case((random(7).softmax(0), random(7, 5, seed=1), random(7, 3, seed=2)))],
    tolerance=1e-7,
    wrong_answers=[
        WrongAnswer(
            "the scores are divided by sqrt(d_k), so their derivative k_j / sqrt(d_k) is, too",
            lambda a, k, v: _output_by_query(a, k, v) * math.sqrt(k.size(-1)),
        ),
        WrongAnswer(
            "that is the mean of the products; subtract the product of the means: when one weight rises, others fall",
            lambda a, k, v: (a[:, None] * v).mT @ k / math.sqrt(k.size(-1)),
        ),
        WrongAnswer(
            "the weights are given already: there is no softmax to apply",
            lambda a, k, v: _output_by_query(a.softmax(0), k, v),
        ),
    ],
)

Split = Callable[[Tensor, int], Tensor]  # (batch, n, heads * d_head), heads -> (batch, heads, n, d_head)
Divisor = Callable[[int, int, int, int], float]  # of d_head, d_model, heads, n

SCALES: list[tuple[str, Divisor, int | None]] = [  # what people divide by, what is said then, and the common mistake
    ("you divided by sqrt(d_model)", lambda d, m, h, n: math.sqrt(m), 1),
    ("you did not scale the scores: divide them by sqrt(d_head)", lambda d, m, h, n: 1.0, 2),
    ("you divided by num_heads", lambda d, m, h, n: h, 2),
    ("you divided by d_head, not by its square root", lambda d, m, h, n: d, 3),
    ("you multiplied by sqrt(d_model)", lambda d, m, h, n: m**-0.5, 4),
]


def _by_head(d: int, m: int, h: int, n: int) -> float:
    return math.sqrt(d)


def _head_scores(
    x: Tensor, w_q: Tensor, w_k: Tensor, heads: int, split: Split = split_heads, divisor: Divisor = _by_head
) -> Tensor:
    q, k = split(x @ w_q, heads), split(x @ w_k, heads)
    return q @ k.mT / divisor(q.size(-1), x.size(-1), heads, x.size(1))


def _by_view(x: Tensor, heads: int) -> Tensor:
    return x.reshape(len(x), heads, x.size(1), -1)


def _by_stride(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)


def _with(split: Split = split_heads, divisor: Divisor = _by_head) -> Callable[..., Tensor]:
    return lambda x, w_q, w_k, heads: _head_scores(x, w_q, w_k, heads, split, divisor)


def _not_split(x: Tensor, w_q: Tensor, w_k: Tensor, heads: int) -> Tensor:
    scores = (x @ w_q) @ (x @ w_k).mT / math.sqrt(w_q.size(1) // heads)
    return scores[:, None].expand(-1, heads, -1, -1)


OTHER_SCORES = [
    WrongAnswer(
        "queries and keys are swapped: row i of the scores belongs to query i",
        lambda x, w_q, w_k, heads: _head_scores(x, w_k, w_q, heads),
    ),
    WrongAnswer(
        "you used w_q for the keys too; keys need w_k", lambda x, w_q, w_k, heads: _head_scores(x, w_q, w_q, heads)
    ),
    WrongAnswer(
        "the heads are scrambled: a reshape straight to (batch, num_heads, n, d_head) mixes positions and features; "
        "make (batch, n, num_heads, d_head) first, then swap the two axes",
        _with(split=_by_view),
        mistake=9,
    ),
    WrongAnswer(
        "head 1 owns the first d_head features, head 2 the next, and so on; you gave each head every num_heads-th "
        "feature",
        _with(split=_by_stride),
    ),
    WrongAnswer("each head gets the same scores, those of all features together", _not_split),
]

HEAD_SCORES = Exercise(
    prompt="The scaled scores of all heads, (batch, num_heads, n, n).",
    right=_head_scores,
    returns=tensor("(batch, num_heads, n, n)"),
    cases=[Case((random(2, 13, 37), random(37, 55) / math.sqrt(37), random(37, 55, seed=1) / math.sqrt(37), 5))],
    wrong_answers=[
        *OTHER_SCORES,
        *(WrongAnswer(words, _with(divisor=divisor), mistake) for words, divisor, mistake in SCALES),
    ],
    fallback_message="the shape is right, but the numbers are not; check the projections, then the split into heads",
)


INITIAL_STD = Exercise(
    prompt="The standard deviation of the entries of W^Q and W^K for which scaled scores have variance 1.",
    right=lambda m, d, s: m**-0.5 / s,
    returns=numbers("the standard deviations", "there is one number for each case"),
    call=lambda answer, *cases: [expect_number(call(answer, *case), "the standard deviation") for case in cases],
    cases=[Case(((101, 7, 1.0), (59, 13, 3.0), (211, 5, 0.25)))],  # (d_model, d_k, std_x), told together
    wrong_answers=[
        WrongAnswer("that is the variance; the standard deviation is its square root", lambda m, d, s: 1 / (m * s * s)),
        WrongAnswer(
            "the size of the input counts too: larger inputs need smaller matrices (you did not use std_x)",
            lambda m, d, s: m**-0.5,
        ),
        WrongAnswer(
            "that gives the raw scores variance 1; dividing by sqrt(d_k) takes care of d_k already",
            lambda m, d, s: m**-0.5 / s * d**-0.25,
        ),
        WrongAnswer("each entry of a query is a sum of d_model terms, not of d_k", lambda m, d, s: d**-0.5 / s),
        WrongAnswer(
            "one number does not fit every width",
            lambda m, d, s: 0.02,
        ),
    ],
)


def _logs_times(factor: Callable[[int, int], float], axis: int = -1) -> Callable[[Tensor, int, int], Tensor]:
    """Return an answer that multiplies the logarithms of the weights by factor(d_model, d_head)."""
    return lambda weights, d_model, d_head: (factor(d_model, d_head) * weights.log()).softmax(axis)


def _root(d_model: int, d_head: int) -> float:
    return math.sqrt(d_model / d_head)


def _case_to_repair(*leading: int) -> Case:
    n, d_model, d_head = 7, 13, 5
    return Case(((3 * random(*leading, n) / math.sqrt(d_model)).softmax(-1), d_model, d_head))


REPAIR = Exercise(
    prompt="The weights for scores divided by sqrt(d_head), from the weights for scores divided by sqrt(d_model).",
    right=_logs_times(_root),
    returns=tensor("(..., n)", "the repaired weights"),
    cases=[_case_to_repair(2, 3), _case_to_repair()],
    wrong_answers=[
        WrongAnswer(
            "the logarithms of the weights are the scores; you used the weights themselves",
            lambda w, m, d: (_root(m, d) * w).softmax(-1),
        ),
        WrongAnswer("these are scores; turn them into weights with a softmax", lambda w, m, d: _root(m, d) * w.log()),
        WrongAnswer(
            "your softmax runs over the first axis; it must run over the keys, the last",
            _logs_times(_root, 0),
            mistake=5,
        ),
        WrongAnswer(
            "the divisors are square roots: multiply the logarithms by sqrt(d_model / d_head), not by d_model / d_head",
            _logs_times(lambda m, d: m / d),
        ),
    ],
)

SCORES = 3 * random(11)
WANTED = (1.5, 0.7, 2.2)


def _entropy_at(tau: float) -> float:
    return entropy((SCORES / tau).softmax(0)).item()


def _temperature_for(scores: Tensor, wanted: float) -> float:
    """Bisect, on a logarithmic scale."""
    low, high = 1e-9, 1e9
    for _ in range(100):
        middle = math.sqrt(low * high)
        weights = (scores / middle).softmax(0)
        too_sharp = entropy(weights).item() < wanted
        low, high = (middle, high) if too_sharp else (low, middle)
    return math.sqrt(low * high)


def _reaches(tau: float, wanted: float, tolerance: float = 2e-3) -> bool:
    return 0 < tau < math.inf and abs(_entropy_at(tau) - wanted) <= tolerance


def _other_scores(answer: Callable[[Tensor, float], Any]) -> str | None:
    """Right in the middle; also near the ends, and for scores that are shifted or scaled?"""

    def wrong(wanted: float, scale: float = 1.0, shift: float = 0.0) -> bool:
        tau = expect_number(call(answer, scale * SCORES + shift, wanted), "the temperature") / scale
        return not _reaches(tau, wanted)

    search = "search from much colder to much warmer, and long enough"
    for wanted, end in ((0.05, "lower"), (math.log(len(SCORES)) - 0.01, "upper")):
        if wrong(wanted):
            return f"right in the middle, but not for a wanted entropy of {wanted:.3g}, near the {end} end: {search}"
    if wrong(1.5, shift=50.0):
        return "right for these scores, but adding 50 to all of them changed your answer; only differences count"
    for scale in (100.0, 0.01):
        if wrong(1.5, scale):
            return (
                f"right for these scores, but not for {scale:g} times them, which need {scale:g} times the "
                f"temperature: {search}"
            )
    return None


def _ask_for_entropies(answer: Callable[..., Any], *wanted: float) -> list[float]:
    """The entropies at the temperatures that the answer gives for the wanted ones."""
    temperatures = [expect_number(call(answer, SCORES, h), "the temperature") for h in wanted]
    if not all(0 < tau < math.inf for tau in temperatures):
        raise Mistake(f"a temperature is finite and above 0; yours are {temperatures}")
    return [_entropy_at(tau) for tau in temperatures]


TEMPERATURE_FOR = Exercise(
    prompt="The temperature at which the softmax of some scores has a wanted entropy.",
    right=_temperature_for,
    returns=numbers("the entropies at your temperatures"),
    call=_ask_for_entropies,
    cases=[Case(WANTED)],
    tolerance=2e-3,
    wrong_answers=[
        WrongAnswer(
            "you returned the factor 1/temperature: divide the scores by the temperature",
            lambda s, h: 1 / _temperature_for(s, h),
        ),
        WrongAnswer(
            "your entropy is in bits (logarithm to base 2); it is wanted in nats (natural logarithm)",
            lambda s, h: _temperature_for(s, h * math.log(2)),
        ),
        WrongAnswer("100 times the temperature", lambda s, h: min(_temperature_for(s, h), 100.0)),
    ],
    extra_checks=[_other_scores],
)

VOCAB_SIZE, D_MODEL, HEADS, D_HEAD = 23, 17, 3, 7
WIDTH = HEADS * D_HEAD
EMBEDDING = random(VOCAB_SIZE, D_MODEL) / math.sqrt(D_MODEL)
MATRICES = {name: random(WIDTH, D_MODEL, seed=i) for i, name in enumerate(("w_q", "w_k", "w_v"), start=1)}


def _attention(
    factor: Callable[[int], float] = math.sqrt,
    divisor: Divisor = _by_head,
    *,
    keys: str = "w_k",
    merge: Callable[[Tensor], Tensor] = merge_heads,
) -> type[nn.Module]:
    """A class with the embedding times factor(d_model), scores divided by divisor(...), and other parts as told."""

    class Attention(nn.Module):
        def __init__(self, vocab_size: int, d_model: int, num_heads: int, d_head: int) -> None:
            super().__init__()
            self.num_heads, width = num_heads, num_heads * d_head
            self.embedding = nn.Embedding(vocab_size, d_model)
            nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
            self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, width, bias=False) for _ in range(3))

        def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
            x = self.embedding(ids) * factor(self.embedding.embedding_dim)
            q, k = (split_heads(getattr(self, name)(x), self.num_heads) for name in ("w_q", keys))
            v = split_heads(self.w_v(x), self.num_heads)
            scores = q @ k.mT / divisor(q.size(-1), x.size(-1), self.num_heads, ids.size(1))
            weights = scores.softmax(-1)
            return merge(weights @ v), weights

    return Attention


def _ask_model(answer: Callable[..., Any], ids: Tensor) -> Any:
    """Make a model, give it weights that are known, and call it."""
    if isinstance(answer, nn.Module):
        raise Mistake("hand over the class itself, not an object of it")
    with torch.random.fork_rng(devices=[]):
        model = call(answer, VOCAB_SIZE, D_MODEL, HEADS, D_HEAD)
    if not isinstance(model, nn.Module):
        raise Mistake(f"hand over a class made from nn.Module; calling it gave {type(model).__name__}")
    _give_weights(model)
    result, again = call(model, ids), call(model, ids)
    if not same(result, again):
        raise Mistake(
            "a second call on the same words gives something else: forward must change nothing and draw nothing"
        )
    return result


def _give_weights(model: nn.Module) -> None:
    """Put known numbers into the parts of the model, after a look at how its embedding was drawn."""
    for name, got in {"embedding": EMBEDDING, **MATRICES}.items():
        part = getattr(model, name, None)
        weight = getattr(part, "weight", None)
        if not isinstance(weight, Tensor):
            raise Mistake(f"keep the names of the parts: there is no {name} with a weight")
        if weight.shape != got.shape:
            raise Mistake(
                f"leave __init__ as it is: {name}.weight must have shape {tuple(got.shape)}; got {tuple(weight.shape)}"
            )
        if getattr(part, "bias", None) is not None:
            raise Mistake(f"leave __init__ as it is: {name} had no bias")
        drawn = weight.detach().std().item() * math.sqrt(D_MODEL)
        if name == "embedding" and not 0.8 < drawn < 1.2:
            raise Mistake(
                "leave __init__ as it is: the embedding was drawn with standard deviation 1/sqrt(d_model), yours has "
                f"{drawn:.2g} times that"
            )
    model.double()
    with torch.no_grad():
        for name, got in {"embedding": EMBEDDING, **MATRICES}.items():
            getattr(model, name).weight.copy_(got)


DEBUG_THE_SCALES = Exercise(
    prompt="A class: attention from word ids, with the embedding's factor and the scores' divisor put right.",
    right=_attention(),
    returns=(tensor("(batch, n, num_heads * d_head)"), tensor("(batch, num_heads, n, n)", "the weights")),
    call=_ask_model,
    cases=[Case(((torch.arange(22) * 5 % VOCAB_SIZE).view(2, 11),))],
    wrong_answers=[
        WrongAnswer("you used w_q for the keys too; keys need w_k", _attention(keys="w_q")),
        WrongAnswer(
            "the heads are scrambled: merge_heads was right, a reshape without the transpose is not",
            _attention(merge=lambda x: x.reshape(len(x), x.size(2), -1)),
            mistake=9,
        ),
        WrongAnswer("the embedding is still divided by sqrt(d_model)", _attention(lambda m: m**-0.5), mistake=4),
        *(WrongAnswer(words, _attention(divisor=divisor), mistake) for words, divisor, mistake in SCALES),
    ],
    fallback_message="the output is not the weighted average of the values under the weights you returned",
)
