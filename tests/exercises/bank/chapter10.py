"""Right and wrong answers to the exercises of chapter 10."""

import itertools
import math

import torch
import torch.nn.functional as F

from . import Answers


def weights_by_einsum(Q, K):
    return F.softmax(torch.einsum("hid,hjd->hij", Q, K) * Q.size(-1) ** -0.5, dim=2)


def weights_head_by_head(Q, K):
    heads = [((q / math.sqrt(q.size(-1))) @ k.T).exp() for q, k in zip(Q, K, strict=True)]
    return torch.stack([head / head.sum(dim=1, keepdim=True) for head in heads])


def cut_recursively(word, pieces):
    def rest(word, before):
        if not word:
            return []
        for end in range(len(word), 0, -1):
            if before + word[:end] in pieces:
                after = rest(word[end:], "##")
                return None if after is None else [pieces.index(before + word[:end]), *after]
        return None

    found = rest(word, "")
    return [pieces.index("[UNK]")] if found is None else found


def cut_by_sorting(word, pieces):
    found, start = [], 0
    while start < len(word):
        text = ("##" if start else "") + word[start:]
        fits = [p for p in pieces if text.startswith(p) and (len(p) > 2 or not start)]
        if not fits:
            return [pieces.index("[UNK]")]
        longest = max(fits, key=len)
        found.append(pieces.index(longest))
        start += len(longest) - (2 if start else 0)
    return found


def next_score_by_index(weights):
    i = torch.arange(weights.size(-1) - 1)
    return weights[:, i, i + 1].mean(dim=1)


def next_score_in_a_loop(weights):
    return torch.stack([sum(w[i, i + 1] for i in range(len(w) - 1)) / (len(w) - 1) for w in weights])


def gap_by_pairs(first, second):
    def mean(pairs):
        cosines = [F.cosine_similarity(a, b, dim=0) for a, b in pairs]
        return sum(cosines) / len(cosines)

    within = (mean(itertools.combinations(x, 2)) for x in (first, second))
    return sum(within) / 2 - mean(itertools.product(first, second))


def gap_by_one_matrix(first, second):
    x = torch.cat([first, second])
    cosines = x @ x.T / x.norm(dim=1) / x.norm(dim=1)[:, None]
    k = len(first)
    corners = cosines[:k, :k], cosines[k:, k:]
    return (sum(c[~torch.eye(k).bool()].mean() for c in corners) / 2 - cosines[:k, k:].mean()).item()


def between_words_in_loops(weights, words):
    n = max(words) + 1
    places = [[i for i, word in enumerate(words) if word == w] for w in range(n)]
    return torch.stack(
        [torch.stack([weights[rows][:, columns].sum() / len(rows) for columns in places]) for rows in places]
    )


def between_words_by_adding(weights, words):
    to = torch.tensor(words)
    n = len(set(words))
    columns = torch.zeros(len(words), n, dtype=weights.dtype).index_add(1, to, weights)
    rows = torch.zeros(n, n, dtype=weights.dtype).index_add(0, to, columns)
    return rows / to.bincount()[:, None]


def shares_by_einsum(weights, values, w_o):
    lengths = torch.einsum("hnd,hde->hne", values, w_o).square().sum(-1).sqrt()
    carried = torch.einsum("hmn,hn->hmn", weights, lengths)
    return carried / carried.sum(2, keepdim=True)


def shares_edge_by_edge(weights, values, w_o):
    edges = (weights[..., None] * (values @ w_o)[:, None]).norm(dim=-1)  # a v W_O itself, (h, m, n, d_model)
    return F.normalize(edges, p=1, dim=-1)


def by_the_mean_in_a_loop(found, head, other, real):
    kept = [other[text, head, place] for text, place in real.nonzero().tolist()]
    parts = [found[:, h] for h in range(found.size(1))]
    parts[head] = (sum(kept) / len(kept)).expand_as(parts[head])
    return torch.stack(parts, dim=1)


def by_the_mean_by_a_mask(found, head, other, real):
    mean = torch.einsum("thnd,tn->hd", other, real.to(other.dtype)) / real.sum()
    own = F.one_hot(torch.tensor(head), found.size(1)).bool()[:, None, None]
    return torch.where(own, mean[:, None], found)


BANK = {
    "weights_of_heads": Answers(right={"by einsum": weights_by_einsum, "head by head": weights_head_by_head}),
    "cut_a_word": Answers(right={"recursively": cut_recursively, "by sorting": cut_by_sorting}),
    "next_score": Answers(right={"score by index": next_score_by_index, "score in a loop": next_score_in_a_loop}),
    "gap_of_senses": Answers(right={"by pairs": gap_by_pairs, "by one matrix": gap_by_one_matrix}),
    "between_words": Answers(
        right={"words in loops": between_words_in_loops, "words by adding": between_words_by_adding}
    ),
    "shares_of_length": Answers(right={"by einsum": shares_by_einsum, "edge by edge": shares_edge_by_edge}),
    "by_the_mean": Answers(right={"in a loop": by_the_mean_in_a_loop, "by a mask": by_the_mean_by_a_mask}),
}
