"""Right and wrong answers to the exercises of chapter 3."""

import math

import torch
from torch import nn

from attention_tutorial import merge_heads, split_heads

from . import Answers, Wrong

# ---- dot_product_variance -------------------------------------------------------------------------------------------


def variance(d, mq, a, mk, b):
    return d * (a**2 * b**2 + mq**2 * b**2 + a**2 * mk**2)


def mean_square(d, mq, a, mk, b):
    return d * (a**2 + mq**2) * (b**2 + mk**2)


# ---- jacobian and through_softmax -----------------------------------------------------------------------------------


def jacobian_in_a_loop(scores):
    a = torch.softmax(scores, dim=0)
    n = len(a)
    result = torch.zeros(n, n)
    for j in range(n):
        for i in range(n):
            result[j, i] = a[j] * ((1.0 if i == j else 0.0) - a[i])
    return result


# ---- output_by_query -------------------------------------------------------------------------------------------------


def covariance(a, keys, values):
    k, v = keys - a @ keys, values - a @ values
    return sum(a[j] * torch.outer(v[j], k[j]) for j in range(len(a))) / math.sqrt(keys.size(1))


def by_autograd(a, keys, values):
    """Start from any query that has these weights: add the change of the scores to their logarithms."""
    return torch.func.jacrev(lambda q: torch.softmax(a.log() + keys @ q / math.sqrt(keys.size(1)), 0) @ values)(
        torch.zeros(keys.size(1), dtype=keys.dtype)
    )


# ---- head_scores ----------------------------------------------------------------------------------------------------


def scores_of_heads(x, w_q, w_k, heads, divide=None):
    q, k = split_heads(x @ w_q, heads), split_heads(x @ w_k, heads)
    return q @ k.mT / (math.sqrt(q.size(-1)) if divide is None else divide)


def in_a_loop(x, w_q, w_k, heads):
    width = w_q.size(1) // heads
    parts = [slice(i * width, (i + 1) * width) for i in range(heads)]
    return torch.stack([(x @ w_q[:, p]) @ (x @ w_k[:, p]).mT * width**-0.5 for p in parts], dim=1)


# ---- repair ---------------------------------------------------------------------------------------------------------


def power(w, d_model, d_head):
    w = w ** math.sqrt(d_model / d_head)
    return w / w.sum(dim=-1, keepdim=True)


# ---- temperature_for ------------------------------------------------------------------------------------------------


def nats(a):
    return torch.special.entr(a).sum().item()


def bisect(scores, wanted, low=1e-6, high=1e6, steps=100, spread=nats):
    for _ in range(steps):
        middle = math.sqrt(low * high)
        if spread(torch.softmax(scores / middle, dim=0)) < wanted:
            low = middle
        else:
            high = middle
    return middle


def newton(scores, wanted):
    """Newton's steps in the inverse temperature, held inside a bracket."""
    low, high, beta = 0.0, 1e6, 1.0
    for _ in range(200):
        a = torch.softmax(beta * scores, dim=0)
        h = torch.special.entr(a).sum()
        low, high = (beta, high) if h > wanted else (low, beta)
        mean = a @ scores
        slope = -beta * (a @ (scores - mean) ** 2)
        step = beta - ((h - wanted) / slope).item() if slope != 0 else math.nan
        beta = step if low < step < high else (low + high) / 2
    return 1 / beta


# ---- debug_the_scales -----------------------------------------------------------------------------------------------


def made(embedding, divisor, *, std=None):
    """A class with the embedding times embedding(d_model), the scores divided by divisor(d_head, d_model, heads, n)."""

    class Attention(nn.Module):
        def __init__(self, vocab_size, d_model, num_heads, d_head):
            super().__init__()
            self.num_heads, width = num_heads, num_heads * d_head
            self.embedding = nn.Embedding(vocab_size, d_model)
            nn.init.normal_(self.embedding.weight, std=d_model**-0.5 if std is None else std)
            self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, width, bias=False) for _ in range(3))

        def forward(self, ids):
            d_model = self.embedding.embedding_dim
            x = self.embedding(ids) * embedding(d_model)
            q, k, v = (split_heads(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
            weights = torch.softmax(q @ k.mT / divisor(q.size(-1), d_model, self.num_heads, ids.size(1)), dim=-1)
            return merge_heads(weights @ v), weights

    return Attention


def root(x):
    return math.sqrt(x)


def by_head(d, m, h, n):
    return math.sqrt(d)


class WithBias(made(root, by_head)):
    def __init__(self, vocab_size, d_model, num_heads, d_head):
        super().__init__(vocab_size, d_model, num_heads, d_head)
        self.w_q = nn.Linear(d_model, num_heads * d_head)


class Renamed(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_head):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, d_model)

    def forward(self, ids):
        return self.emb(ids), ids


class ByPytorch(made(math.sqrt, lambda d, m, h, n: math.sqrt(d))):
    def forward(self, ids):
        x = self.embedding(ids) * self.embedding.weight.size(1) ** 0.5
        q, k, v = (split_heads(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
        weights = torch.softmax(torch.einsum("bhmd,bhnd->bhmn", q, k) * q.size(-1) ** -0.5, -1)
        return merge_heads(nn.functional.scaled_dot_product_attention(q, k, v)), weights


class ScalingItsEmbedding(made(lambda m: 1.0, by_head)):
    def forward(self, ids):
        with torch.no_grad():
            self.embedding.weight.mul_(math.sqrt(self.embedding.embedding_dim))
        return super().forward(ids)


BANK = {
    "dot_product_variance": Answers(
        right={
            "mean square less squared mean": lambda d, mq, a, mk, b: mean_square(d, mq, a, mk, b) - d * (mq * mk) ** 2,
            "tensor": lambda d, mq, a, mk, b: torch.tensor(variance(d, mq, a, mk, b)),
        },
        wrong=[
            Wrong("right for d_k = 5", lambda d, mq, a, mk, b: variance(5, mq, a, mk, b)),
            Wrong("negative means count", lambda d, *x: variance(d, *(max(y, 0) for y in x))),
        ],
    ),
    "jacobian": Answers(
        right={"loop": jacobian_in_a_loop, "autograd": torch.func.jacrev(lambda s: torch.softmax(s, 0))}
    ),
    "through_softmax": Answers(
        right={
            "pytorch's own": lambda a, u: torch.ops.aten._softmax_backward_data(u, a, 0, a.dtype),
            "row by row": lambda a, u: torch.stack([a[j] * (u[j] - a @ u) for j in range(len(a))]),
        },
    ),
    "output_by_query": Answers(right={"covariance": covariance, "autograd": by_autograd}),
    "head_scores": Answers(
        right={"loop": in_a_loop, "float32": lambda x, q, k, h: scores_of_heads(x.float(), q.float(), k.float(), h)},
    ),
    "initial_std": Answers(
        right={
            "from the variance": lambda m, d, s: (1 / (m * s**2)) ** 0.5,
            "tensor": lambda m, d, s: torch.tensor(m).double().rsqrt() / s,
        },
    ),
    "repair": Answers(
        right={"power": power, "float32": lambda w, m, d: power(w.float(), m, d)},
    ),
    "temperature_for": Answers(
        right={"bisection": bisect, "newton": newton},
        wrong=[
            Wrong("search from much colder", lambda s, h: bisect(s, h, low=0.5, high=50)),
            Wrong("above 0", lambda s, h: -bisect(s, h)),
            Wrong("only differences count", lambda s, h: bisect(s, h) + max(0.0, s.max().item() - 20)),
        ],
    ),
    "debug_the_scales": Answers(
        right={"plain": made(root, by_head), "torch": ByPytorch},
        wrong=[
            Wrong("drawn with standard deviation", made(lambda m: 1.0, by_head, std=1.0)),
            Wrong("keep the names of the parts", Renamed),
            Wrong("the class itself", made(root, by_head)(5, 4, 2, 3)),
            Wrong("change nothing", ScalingItsEmbedding),
            Wrong("had no bias", WithBias),
        ],
    ),
}
