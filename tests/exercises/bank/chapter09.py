"""Right and wrong answers to the exercises of chapter 9."""

import itertools
import math

import torch

from . import Answers


def probabilities_by_sorting(logits, temperature, top_k):
    order = logits.argsort(descending=True)[:top_k]
    odds = ((logits[order] - logits.max()) / temperature).exp()
    return torch.zeros_like(logits).index_copy(0, order, odds / odds.sum())


def probabilities_by_topk(logits, temperature, top_k):
    best = logits.topk(top_k)
    return torch.zeros_like(logits).scatter(0, best.indices, (best.values / temperature).softmax(-1))


def pair_loss_by_matrix(train, test, size):
    counts = torch.ones(size, size)
    for a, b in itertools.pairwise(train):
        counts[a, b] += 1
    p = counts / counts.sum(dim=1, keepdim=True)
    return -p[test[:-1], test[1:]].log2().mean()


def pair_loss_in_a_loop(train, test, size):
    bits = 0.0
    for a, b in itertools.pairwise(test):
        follows = [y for x, y in itertools.pairwise(train) if x == a]
        bits -= math.log2((follows.count(b) + 1) / (len(follows) + size))
    return bits / (len(test) - 1)


def bracket_score_by_search(texts, weights):
    total, count = 0, 0
    for i, text in enumerate(texts[1:]):  # the next token
        if text in (")", "]", "}"):
            j = i
            while texts[j] not in ("(", "[", "{"):
                j -= 1
            total, count = total + weights[:, i, j], count + 1
    return total / count


def bracket_score_by_lists(texts, weights):
    queries = [i - 1 for i, text in enumerate(texts) if text in {*")]}"}]
    keys = [max(j for j in range(i + 1) if texts[j] in {*"([{"}) for i in queries]
    return weights[:, queries, keys].mean(dim=-1)


def copying_in_a_loop(weights):
    half = weights.size(-1) // 2
    return sum(weights[:, i, i - half + 1] for i in range(half + 1, 2 * half + 1)) / half


def keys_without_in_a_loop(x, added, w_q, w_k):
    q, k = x @ w_q, (x - added) @ w_k
    weights = torch.zeros(len(x), len(x))
    for i in range(len(x)):
        weights[i, : i + 1] = (k[: i + 1] @ q[i] / math.sqrt(k.size(1))).softmax(-1)
    return weights


def keys_without_by_parts(x, added, w_q, w_k):
    q = x @ w_q / w_k.size(-1) ** 0.5
    scores = q @ (x @ w_k).T - q @ (added @ w_k).T
    return (scores + torch.full_like(scores, -torch.inf).triu(1)).softmax(dim=-1)


def parts_by_direction(parts, gain, token):
    direction = gain * token
    stream = parts.sum(dim=0)
    return parts @ (direction - direction.mean()) / stream.var(correction=0).sqrt()


def parts_in_a_loop(parts, gain, token):
    stream = sum(parts)
    deviation = ((stream - stream.mean()) ** 2).mean() ** 0.5
    return torch.stack([((part - part.mean()) / deviation * gain * token).sum() for part in parts])


BANK = {
    "bits_a_byte": Answers(right={"computed": 2.77 / 0.693 / 2.5}),
    "vectors_in_the_stream": Answers(right={"computed": 1 + 2 * 4}),
    "factor_of_nats": Answers(right={"computed": math.e**-1.6, "two digits": 0.2}),
    "next_probabilities": Answers(right={"sorting": probabilities_by_sorting, "topk": probabilities_by_topk}),
    "previous_score": Answers(
        right={
            "places": lambda weights: weights[:, range(1, weights.size(1)), range(weights.size(1) - 1)].mean(dim=1),
            "loop": lambda weights: torch.stack([head.diagonal(-1).mean() for head in weights]),
        }
    ),
    "temperature_of_odds": Answers(
        right={
            "base 10": lambda difference, times: difference * math.log10(math.e) / math.log10(times),
            "tensor": lambda difference, times: difference / torch.tensor(times, dtype=torch.float64).log(),
        },
    ),
    "pair_loss": Answers(right={"matrix": pair_loss_by_matrix, "loop": pair_loss_in_a_loop}),
    "bracket_score": Answers(right={"search": bracket_score_by_search, "lists": bracket_score_by_lists}),
    "copying_score": Answers(
        right={
            "diagonal": lambda weights: weights.diagonal(1 - weights.size(-1) // 2, -2, -1)[:, 2:].mean(dim=-1),
            "loop": copying_in_a_loop,
        }
    ),
    "keys_without": Answers(right={"loop": keys_without_in_a_loop, "parts": keys_without_by_parts}),
    "parts_of_logit": Answers(right={"direction": parts_by_direction, "loop": parts_in_a_loop}),
}
