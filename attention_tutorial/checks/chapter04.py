"""Checkers of chapter 4's exercises. Each returns None for a right answer, else a diagnosis in words."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import exercise
from ._tools import (
    Mistake,
    also_in_evaluation,
    call,
    close,
    expect_number,
    expect_pair,
    expect_tensor,
    explain_weights,
    first_match,
    random,
    recover_weights,
    rounded,
)

Answer = Callable[..., Any]
Cut = Callable[[Tensor, int], Tensor]  # (..., n, h * d_head), h -> (..., h, n, d_head)


@exercise("4.1")
def count_parameters(answer: Answer) -> str | None:
    """Parameters of multi-head attention without biases: four matrices between d_model and h * d_head."""
    for d, h, given in ((11, 3, 5), (7, 2, 13), (24, 4, None), (50, 8, None), (55, 8, None)):
        result = expect_number(call(answer, d, h, given), "the number of parameters")
        d_head = d // h if given is None else given
        if result != 4 * d * h * d_head:
            sizes = f"d_model={d}, num_heads={h}, d_head={given}"
            return _explain_count(result, d, h, d_head, given) or (
                f"for {sizes} there are four matrices of {d} times {h * d_head} numbers; yours makes {result:.10g}"
            )
    return None


def _explain_count(result: float, d: int, h: int, d_head: int, given: int | None) -> str | None:
    inner = h * d_head
    right = 4 * d * inner
    if any(result == right + biases for biases in (3 * inner + d, 3 * inner, d, 4 * inner, 4 * d)):
        return "you counted biases; there are none here"
    default = {
        f"d_head is rounded down when it is not given: {d} // {h} is {d_head}": 4 * d * d,
        f"you rounded d_head up to {d_head + 1}; {d} // {h} rounds down to {d_head}": right + 4 * d * h,
        f"without a d_head each head is d_model // num_heads wide, here {d_head}, not d_model": 4 * d * h * d,
    }
    mistakes = (default if given is None else {}) | {
        "you left d_head out: the matrices map to h * d_head features, which need not be d_model": 4 * d * d,
        "you ignore the d_head that is given": 4 * d * h * (d // h),
        "you counted w_q, w_k and w_v; the output projection w_o is missing": 3 * d * inner,
        "you counted w_o alone; w_q, w_k and w_v are missing": d * inner,
        "you counted two matrices; there are four: w_q, w_k, w_v and w_o": 2 * d * inner,
        "you counted one head; there are num_heads of them": 4 * d * d_head,
        "you counted w_o once for each head; it is one matrix for all, (h * d_head, d_model)": 3 * d * inner
        + h * d * inner,
        "each head's projections start from all d_model features, not from d_head of them": 3 * h * d_head**2
        + d * inner,
        "all heads share one d_head x d_head projection in your count; each has its own, from d_model features": (
            3 * d_head**2 + d * inner
        ),
        "w_o maps from h * d_head features to d_model; yours is d_model by d_model": 3 * d * inner + d * d,
        "that is a sum of sizes; a matrix has rows times columns numbers": 4 * (d + inner),
    }
    return next((words for words, wrong in mistakes.items() if result == wrong), None)


# ---- Where did each number come from? ------------------------------------------------------------------------------


def _origins(given: Tensor, source: Tensor) -> Tensor | None:
    """For each number of `given`, the indices (..., axes of source) of the one of `source` that it is; None if not all.

    The numbers of `source` must all be different.
    """
    flat = source.flatten()
    order = flat.argsort()
    place = torch.searchsorted(flat[order], given.flatten()).clamp(max=flat.numel() - 1)
    nearest = torch.stack([place, (place - 1).clamp(min=0)])
    off = (flat[order][nearest] - given.flatten()).abs()
    if (off.amin(dim=0) > 1e-6).any():
        return None
    index = order[nearest.gather(0, off.argmin(dim=0, keepdim=True))[0]]
    return torch.stack(torch.unravel_index(index, source.shape), dim=-1).reshape(*given.shape, source.dim())


@exercise("4.2")
def split(answer: Answer) -> str | None:
    """Split x (batch, n, h * d_head) into heads: (batch, h, n, d_head)."""
    batch, n, h, d_head = 2, 5, 3, 7
    x = random(batch, n, h * d_head)
    result = call(answer, x, h)
    _explain_split_shape(result, batch, n, h, d_head)
    given = expect_tensor(result, (batch, h, n, d_head), "(batch, h, n, d_head)")
    if close(given, x.reshape(batch, n, h, d_head).transpose(1, 2)):
        return None
    return _explain_split(given, x) or "the shape is right, but the numbers are not those of x, rearranged"


def _explain_split_shape(result: Any, batch: int, n: int, h: int, d_head: int) -> None:
    if isinstance(result, tuple | list) and len(result) == h:
        raise Mistake(f"you return {h} pieces; make one tensor of them, with an axis for the heads (torch.stack)")
    if not isinstance(result, Tensor):
        return
    parts = "you cut the features into d_head parts of h; cut them into h parts, then swap axes"
    found = {
        (batch, n, h, d_head): "the features are cut, but the heads must stand before the positions: swap axes 1 and 2",
        (batch, n, d_head, h): parts,
        (batch, d_head, n, h): parts,
        (batch, h * n, d_head): "you joined the heads along the positions; give them an axis of their own, the second",
        (batch, h, n, h * d_head): "every head holds all features; each owns d_head of them",
        (batch, h, d_head, n): "positions and features are swapped: the last axis must be d_head",
        (h, batch, n, d_head): "the batch must stay first: (batch, h, n, d_head)",
        (batch * h, n, d_head): "keep batch and heads as two axes: (batch, h, n, d_head)",
    }.get(tuple(result.shape))
    if found:
        raise Mistake(found)


def _explain_split(given: Tensor, x: Tensor) -> str | None:
    batch, h, n, d_head = given.shape
    origins = _origins(given, x)
    if origins is None:
        return None
    from_batch, from_position, from_feature = origins.unbind(-1)
    head = torch.arange(h)[:, None, None]
    position, feature = torch.arange(n)[:, None], torch.arange(d_head)
    if close(given, x.reshape(given.shape)):
        return (
            "your heads are scrambled: one reshape to (batch, h, n, d_head) cuts words into pieces; "
            "cut the features first, then transpose"
        )
    if (from_batch != torch.arange(batch)[:, None, None, None]).any():
        return "sentences of the batch are mixed up: numbers of one sentence stand in another"
    if (from_position != position).any():
        b, i, p, f = (from_position != position).nonzero()[0].tolist()
        where = int(from_position[b, i, p, f])
        return f"words are mixed up: head {i} holds features of word {where} in the row of word {p} (counted from 0)"
    if (from_feature == feature * h + head).all():
        return (
            "you dealt the features out in turn (head 0 gets features 0, 3, 6, ...); "
            "head 0 owns the first d_head features, head 1 the next"
        )
    if (from_feature == from_feature[:, :1]).all():
        return "all your heads hold the same features; each owns d_head features of its own"
    if (from_feature % d_head == feature).all() and (from_feature // d_head == from_feature[..., :1] // d_head).all():
        first = int(from_feature[0, 0, 0, 0]) // d_head
        return f"your heads are in the wrong order: head 0 owns the first features, yours holds those of head {first}"
    return "rows and words are right, but the features are in the wrong order inside the heads"


@exercise("4.3")
def join(answer: Answer) -> str | None:
    """Join the heads (h, n, d_v) along the features and multiply by w_o (h * d_v, d_model)."""
    heads, w_o = random(3, 5, 2), random(6, 7)
    h, n, d_v = heads.shape
    right = heads.transpose(0, 1).reshape(n, h * d_v)
    result = call(answer, heads, w_o)
    if isinstance(result, Tensor) and tuple(result.shape) == (n, h * d_v):
        multiplied = "; the numbers are in the wrong order, too" if not close(result, right) else ""
        return f"you joined the heads, (n, h * d_v); the product with w_o is missing{multiplied}"
    if isinstance(result, Tensor) and tuple(result.shape) == (h, n, w_o.size(1)):
        return "that is one output for each head; the heads' terms must be added up"
    given = expect_tensor(result, (n, w_o.size(1)), "(n, d_model)")
    if close(given, right @ w_o):
        return None
    return (
        _explain_join(given, heads, w_o)
        or "the shape is right, but the numbers are not; join along the features, then multiply by w_o"
    )


def _explain_join(given: Tensor, heads: Tensor, w_o: Tensor) -> str | None:
    """Say how an output differs from the joined heads times w_o, if it was made of these heads."""
    return (
        _explain_blocks(given, heads, w_o)
        or _explain_order(given @ torch.linalg.pinv(w_o), heads)
        or _explain_near(given, _join(heads) @ w_o)
    )


def _explain_blocks(given: Tensor, heads: Tensor, w_o: Tensor) -> str | None:
    """Solve output = the sum of c[i, j] * head i @ block j of w_o, where c should be the identity, and look at c."""
    h, _, d_v = heads.shape
    terms = torch.einsum("ind,jdm->nmij", heads, w_o.reshape(h, d_v, -1)).flatten(2).flatten(0, 1)
    solution = torch.linalg.lstsq(terms, given.reshape(-1, 1)).solution
    if not close(terms @ solution, given.reshape(-1, 1)):
        return None
    met, own = solution.reshape(h, h).abs() > 1e-4, torch.eye(h, dtype=torch.bool)
    rows = "head i has rows i * d_v to (i + 1) * d_v"
    if torch.equal(met, own):
        averaged = close(solution.reshape(h, h), torch.eye(h) / h)
        return "you averaged the heads; they are joined, and w_o adds them up" if averaged else None
    if not (met & ~own).any():
        return f"these heads are missing from your output: {(~met.diagonal()).nonzero().flatten().tolist()} (from 0)"
    if met[:, 0].all() and not met[:, 1:].any():
        return f"every head goes through the first block of w_o; {rows}"
    if met.all():
        return f"every head goes through all blocks of w_o; {rows}"
    if (met.sum(0) == 1).all() and (met.sum(1) == 1).all():
        return "you joined the heads in the wrong order: head 0 comes first"
    i, j = (met & ~own).nonzero()[0].tolist()
    return f"head {i} goes through block {j} of w_o (counted from 0); {rows}"


def _explain_near(given: Tensor, right: Tensor) -> str | None:
    """Say so if a result is right up to one factor, one added number or rounding."""
    factor = float((given * right).sum() / right.square().sum())
    if close(given, factor * right) and abs(factor) > 1e-6:
        return f"your numbers are {factor:.4g} times what they should be"
    if close(given - right, (given - right).flatten()[0].expand_as(given)):
        return f"every number is too large by {(given - right).flatten()[0]:.4g}"
    inexact = rounded(given, right)
    return inexact and f"your numbers are {inexact}"


def _explain_order(joined: Tensor, heads: Tensor) -> str | None:
    """Say what is wrong with joined heads (n, h * d_v), if they are the numbers of the heads in another order."""
    h, n, d_v = heads.shape
    origins = _origins(joined, heads)
    if origins is None:
        return None
    from_head, from_word, from_feature = origins.unbind(-1)
    if close(joined, heads.reshape(n, h * d_v)):
        return (
            "a reshape alone puts several words into one row (it is the same as joining along the positions); "
            "move the heads behind the positions first, or join along the features"
        )
    if (from_word != torch.arange(n)[:, None]).any():
        i, j = (from_word != torch.arange(n)[:, None]).nonzero()[0].tolist()
        return f"words are mixed up: the row of word {i} holds a feature of word {int(from_word[i, j])} (from 0)"
    column = torch.arange(h * d_v)
    if (from_head == column % h).all() and (from_feature == column // h).all():
        return (
            "you joined feature by feature (or took every h-th row of w_o); "
            "all features of head 0 come first, then those of head 1"
        )
    return "each row holds the right word, but heads or features are in the wrong order; head 0 comes first"


# ---- Multi-head attention ------------------------------------------------------------------------------------------


def _split(x: Tensor, h: int) -> Tensor:
    return x.unflatten(-1, (h, -1)).transpose(-3, -2)  # (..., h, n, d_head)


def _join(heads: Tensor) -> Tensor:
    return heads.transpose(-3, -2).flatten(-2)  # (..., n, h * d_head)


def _scrambled(x: Tensor, h: int) -> Tensor:
    n, width = x.shape[-2:]
    return x.reshape(*x.shape[:-2], h, n, width // h)


def _dealt(x: Tensor, h: int) -> Tensor:
    return x.unflatten(-1, (-1, h)).movedim(-1, -3)


SCRAMBLED = (
    "your heads are scrambled: a reshape to (h, n, d_head) cuts words into pieces; "
    "reshape to (n, h, d_head) first, then transpose"
)
NOT_D_HEAD = "d_model // num_heads, which is not d_head here"
DEALT = "you dealt the features out to the heads in turn; head 0 owns the first d_head of them, head 1 the next"


@exercise("4.4")
def multi_head(answer: Answer) -> str | None:
    """Multi-head attention of x (n, d_model), with weights: sizes that do not divide, two ways."""
    for n, d_model, h, d_head in ((5, 7, 3, 2), (7, 11, 2, 3)):
        x, w_o = random(n, d_model), random(h * d_head, d_model)
        w_q, w_k, w_v = (random(d_model, h * d_head, seed=i) for i in (1, 2, 3))
        result = call(answer, x, w_q, w_k, w_v, w_o, h)
        output, weights = expect_pair(result, "the output (n, d_model)", "the weights (h, n, n)")
        _explain_pair_shapes(output, weights, n, d_model, h, d_head)
        weights = expect_tensor(weights, (h, n, n), "(h, n, n)", "the weights")
        output = expect_tensor(output, (n, d_model), "(n, d_model)")
        found = _explain_heads(output, weights, x, (w_q, w_k, w_v, w_o), h)
        if found:
            return found
    return None


def _explain_pair_shapes(output: Any, weights: Any, n: int, d_model: int, h: int, d_head: int) -> None:
    shapes = [tuple(t.shape) if isinstance(t, Tensor) else None for t in (output, weights)]
    if shapes == [(h, n, n), (n, d_model)]:
        raise Mistake("return the output first, then the weights")
    if shapes[0] == (n, h * d_head):
        raise Mistake("the heads are joined, (n, h * d_head), but the product with w_o is missing")
    if shapes[1] == (n, n):
        raise Mistake("return each head's own weights, (h, n, n); yours are one matrix, as if averaged over the heads")


def _explain_heads(output: Tensor, weights: Tensor, x: Tensor, w: Sequence[Tensor], h: int) -> str | None:
    w_q, w_k, w_v, w_o = w
    n, d_model, inner = *x.shape, w_q.size(1)
    q, k, v = x @ w_q, x @ w_k, x @ w_v

    def scores_of(query: Tensor, key: Tensor, cut: Cut = _split) -> Tensor:
        return cut(query, h) @ cut(key, h).mT

    scores = scores_of(q, k)
    slices = [slice(i * (d_model // h), (i + 1) * (d_model // h)) for i in range(h)]
    found = explain_weights(
        weights,
        scores,
        sizes={
            "d_head": inner // h,
            "d_model": d_model,
            "num_heads": h,
            "n": n,
            NOT_D_HEAD: d_model // h,
        },
        divide_by="d_head",
        instead={
            SCRAMBLED: scores_of(q, k, _scrambled),
            DEALT: scores_of(q, k, _dealt),
            "you used w_q for the keys too; keys need w_k": scores_of(q, q),
            "you used w_k for the queries too; queries need w_q": scores_of(k, k),
            "your keys were made with w_v; keys need w_k": scores_of(q, v),
            "every head got the scores of all features; each has features of its own": (q @ k.mT).expand(h, n, n),
            "all your heads use the features of head 0; each has features of its own": scores[:1].expand(h, n, n),
            "your heads are d_model // num_heads wide; the width of w_q is h * d_head, so d_head is w_q.size(1) // "
            "num_heads": torch.stack([q[:, own] @ k[:, own].mT for own in slices]),
        },
    )
    if found:
        return found
    values = _split(v, h)
    heads = weights @ values
    if close(output, _join(heads) @ w_o):
        return None
    made = {  # heads, by what is wrong with them
        "your values are scrambled: cut the features first, then transpose": weights @ _scrambled(v, h),
        "you averaged the keys; the values are made with w_v": weights @ _split(k, h),
        "you averaged the queries; the values are made with w_v": weights @ _split(q, h),
        "you averaged the values over the queries: weights @ v, not weights.T @ v": weights.mT @ values,
        "the heads were averaged before their features were taken apart (the weights, or weights @ v with all "
        "features of v); split the values, too, and let each head use its own weights": weights.mean(0) @ values,
        "all heads use the weights of head 0; each uses its own": weights[:1] @ values,
        "all heads use the values of head 0; each uses its own": weights @ values[:1],
    }
    outputs = {words: _join(wrong) @ w_o for words, wrong in made.items()} | {
        "the weights are not used: it must be weights @ v, head by head": v @ w_o,
        "you added x to it; that comes outside of attention": _join(heads) @ w_o + x,
        "you joined the heads without transposing back, so each row holds pieces of several words": (
            heads.reshape(n, inner) @ w_o
        ),
        "values and output are scrambled: transpose when you split and when you join": (
            (weights @ _scrambled(v, h)).reshape(n, inner) @ w_o
        ),
        "every head averaged all features of v, and the heads were summed; split the values, too": (
            (weights @ v).sum(0) @ w_o
        ),
    }
    return "the weights are right, the output is not: " + (
        first_match(output, outputs)
        or _explain_join(output, heads, w_o)
        or "check the values, and how the heads are joined"
    )


# ---- Masks ---------------------------------------------------------------------------------------------------------


@exercise("4.5")
def mask_for_torch(answer: Answer) -> str | None:
    """Turn a boolean mask (batch, m, n), True = may attend, into torch's (batch * h, m, n), True = blocked."""
    batch, h, m, n = 2, 3, 5, 7
    mask = random(batch, m, n) > 0
    result = call(answer, mask, h)
    if isinstance(result, Tensor) and result.dim() == 4:
        return "batch and heads must share one axis, (batch * num_heads, m, n); yours has four axes"
    if isinstance(result, Tensor) and result.is_floating_point():
        return "the mask must be boolean, True = blocked; yours holds floating-point numbers"
    given = expect_tensor(result, (batch * h, m, n), "(batch * num_heads, m, n)", "the mask", boolean=True)
    if torch.equal(given, ~mask.repeat_interleave(h, dim=0)):
        return None
    known = torch.cat([~mask, mask])  # each sentence's mask, inverted as it should be, and as it was
    same = (given[:, None] == known).flatten(2).all(-1)  # (batch * h, 2 * batch)
    if not same.any(dim=1).all():
        return "some of your masks are those of no sentence: repeat whole (m, n) masks, and invert them"
    found = same.int().argmax(dim=1)
    order = (found % batch).tolist()
    turned = "the mask is the wrong way round: in torch's module True means blocked"
    if order == [i // h for i in range(batch * h)]:
        return f"the order is right, but {turned}"
    also = "" if (found < batch).all() else f", and {turned}"
    if order == [i % batch for i in range(batch * h)]:
        return (
            "your masks are repeated in the wrong order (sentences 0, 1, 0, 1, 0, 1): "
            f"the heads of one sentence follow each other{also}"
        )
    return f"your masks belong to the sentences {order}; they should belong to [0, 0, 0, 1, 1, 1]{also}"


# ---- Removing a head -----------------------------------------------------------------------------------------------


@exercise("4.6")
def moved_without(answer: Answer) -> str | None:
    """How far each word's output moves when head i is removed: the norm of its term."""
    heads, w_o = random(3, 5, 2), random(6, 7)
    h, n, _ = heads.shape
    for i in range(h):
        result = call(answer, heads, w_o, i)
        if isinstance(result, Tensor) and tuple(result.shape) == (n, w_o.size(1)):
            return "return one number for each word: the length of the difference, not the output or the difference"
        if isinstance(result, Tensor) and tuple(result.shape) == (w_o.size(1),):
            return "you took the norm over the words; take it over the features, one number for each word"
        if isinstance(result, Tensor) and result.dim() == 0:
            return "that is one number for all words; return one for each"
        given = expect_tensor(result, (n,), "(n,)", "the result")
        found = _explain_moved(given, heads, w_o, i)
        if found:
            return found
    return None


def _explain_moved(given: Tensor, heads: Tensor, w_o: Tensor, i: int) -> str | None:
    h, n, d_v = heads.shape
    blocks = w_o.reshape(h, d_v, -1)
    terms = heads @ blocks  # (h, n, d_model)
    term, output = terms[i], terms.sum(0)
    if close(given, term.norm(dim=-1)):
        return None
    joined, others = _join(heads), heads[torch.arange(h) != i]
    no_word, no_feature = heads.clone(), heads.clone()
    no_word[:, i], no_feature[:, :, i % d_v] = 0, 0
    moved = {
        "you took every h-th row of w_o; the block of head i is rows i * d_v to (i + 1) * d_v": heads[i] @ w_o[i::h],
        "you scaled up the other heads to make up for the missing one; leave them as they are": (
            output - (output - term) * h / (h - 1)
        ),
        "you removed word i from every head; remove head i": output - (no_word @ blocks).sum(0),
        "you removed one feature of every head; remove head i, all of its features": (
            output - (no_feature @ blocks).sum(0)
        ),
        "you joined the heads by a reshape, which mixes words; move the heads behind the positions first": (
            _moved_in(heads.reshape(n, -1), heads, w_o, i)
        ),
        "you removed columns of the output, where w_o has mixed the heads; remove head i before w_o": (
            output[:, i * d_v : (i + 1) * d_v]
        ),
        "you removed one row of w_o; those of head i are i * d_v to (i + 1) * d_v": joined[:, [i]] @ w_o[[i]],
        "the heads behind head i moved up to other rows of w_o; each keeps its own": (
            output - (others @ blocks[:-1]).sum(0)
        ),
        "you put the average of the heads in the place of head i; put zero": (heads[i] - heads.mean(0)) @ blocks[i],
        "you put head i's average over the words in its place; put zero": (heads[i] - heads[i].mean(0)) @ blocks[i],
        **{
            f"you took the rows of head {j} in w_o for head {i}; head i has rows i * d_v to (i + 1) * d_v": (
                heads[i] @ blocks[j]
            )
            for j in range(h)
            if j != i
        },
        "that is the length of head i's own output; multiply by its block of w_o first": heads[i],
        "that is the length of what is left without head i; the difference is asked for": output - term,
        "that is the length of the whole output; the difference without head i is asked for": output,
        **{
            f"that is the effect of head {j}; asked for head {i} (counted from 0)": terms[j] for j in range(h) if j != i
        },
    }
    change = output.norm(dim=-1) - (output - term).norm(dim=-1)
    root = "the Euclidean norm is the root of the sum of squares"
    numbers = {
        "that is the square of the length; take its square root": term.square().sum(-1),
        f"that is the sum of absolute values; {root}": term.abs().sum(-1),
        f"that is the mean of absolute values; {root}": term.abs().mean(-1),
        f"that is the largest change of a feature; {root}": term.abs().amax(-1),
        f"you took the mean of the squares; {root}": term.square().mean(-1),
        f"you took the root of the mean of the squares; {root}": term.square().mean(-1).sqrt(),
        f"that is the sum of the changes; {root}": term.sum(-1),
        "that is the change of the length; take the length of the change": change,
        "that is the change of the length, with its sign turned; take the length of the change": -change,
        "that is the change of the length, without its sign; take the length of the change": change.abs(),
        "that is the change relative to the output; do not divide": term.norm(dim=-1) / output.norm(dim=-1),
    }
    numbers |= {words: difference.norm(dim=-1) for words, difference in moved.items()}
    rest = "one number for each word, but not the right ones: the difference is head i times its block of w_o"
    return first_match(given, numbers) or _explain_near(given, term.norm(dim=-1)) or rest


def _moved_in(joined: Tensor, heads: Tensor, w_o: Tensor, i: int) -> Tensor:
    without = heads.clone()
    without[i] = 0
    return (joined - without.reshape(joined.shape)) @ w_o


# ---- Debugging -----------------------------------------------------------------------------------------------------

BUGS = {
    "split": "the heads are still scrambled by the reshape",
    "scale": "the scores are still divided by sqrt(d_model)",
    "mask": "the mask still comes after the softmax",
}
CUTS: dict[Cut, str] = {
    _split: "cut rightly",
    _scrambled: "still scrambled by the reshape",
    _dealt: "dealt out feature by feature (head 0 owns the first d_head of them)",
}
JOINS: dict[Cut, str] = {  # by the cut that undoes it
    _split: "",
    _scrambled: "the heads are joined without transposing back: a row holds pieces of several words",
    _dealt: "the heads are joined feature by feature; all features of head 0 come first",
}


def _attend(x: Tensor, w: Sequence[Tensor], h: int, mask: Tensor, bugs: Sequence[str] = ()) -> Tensor:
    """The attention of exercise 4.7 with some of its bugs left in."""
    cut = _scrambled if "split" in bugs else _split
    q, k, v = (cut(x @ matrix, h) for matrix in w[:3])
    scores = q @ k.mT / math.sqrt(x.size(-1) if "scale" in bugs else q.size(-1))
    if "mask" in bugs:
        weights = torch.softmax(scores, dim=-1) * mask[:, None]
    else:
        weights = torch.softmax(scores.masked_fill(~mask[:, None], -math.inf), dim=-1)
    return _join(weights @ v) @ w[3]


@exercise("4.7")
@also_in_evaluation
def debug_heads(answer: Answer) -> str | None:
    """Repair multi-head attention with scrambled heads, the wrong scale and a mask after the softmax."""
    batch, n, d_model, h, d_head = 7, 3, 13, 2, 5
    x, w_o = random(batch, n, d_model), random(h * d_head, d_model)
    w = (*(0.2 * random(d_model, h * d_head, seed=i) for i in (1, 2, 3)), w_o)
    away = (torch.arange(n) - torch.arange(n)[:, None]) % n  # how far key j stands from query i
    mask = torch.stack([away < 2 - b % 2 if b < 3 else away != 1 + b % 2 for b in range(batch)])  # no row all open
    result = call(answer, x, *w, h, mask)
    if isinstance(result, Tensor) and result.isnan().any():
        return (
            "the output holds NaN; every query has an open key, so an infinity is in the wrong place: "
            "closed keys get the score minus infinity (masked_fill), then comes a softmax over the keys"
        )
    given = expect_tensor(result, (batch, n, d_model), "(batch, n, d_model)")
    if close(given, _attend(x, w, h, mask)):
        return None
    for count in (1, 2, 3):
        for bugs in itertools.combinations(BUGS, count):
            if close(given, _attend(x, w, h, mask, bugs)):
                words = [BUGS[bug] for bug in bugs]
                left = ("one bug is left", "two bugs are left", "all three bugs are still there")[count - 1]
                return f"{left}: {'; '.join(words)}"
    return _explain_attention(given, x, w, h, mask)


def _explain_attention(given: Tensor, x: Tensor, w: Sequence[Tensor], h: int, mask: Tensor) -> str:
    """Work back from the output to the heads, and from them to the weights."""
    right, (w_q, w_k, _, w_o) = _attend(x, w, h, mask), w
    mistakes = {
        "your mask is transposed: row i of it belongs to query i": lambda: _attend(x, w, h, mask.mT),
        "you used the mask of the first sentence for all": lambda: _attend(x, w, h, mask[:1].expand_as(mask)),
        "you averaged the keys; the values are made with w_v": lambda: _attend(x, (w_q, w_k, w_k, w_o), h, mask),
        "you added x to the output; that comes outside of attention": lambda: right + x,
    }
    found = first_match(given, mistakes)
    if found:
        return found
    value, joined = x @ w[2], given @ torch.linalg.pinv(w[3])  # (batch, n, h * d_head)
    for cut, uncut in itertools.product(CUTS, JOINS) if close(joined @ w[3], given) else ():
        weights = recover_weights(uncut(joined, h), cut(value, h))
        if weights is not None:
            weights = weights.masked_fill(weights.abs() < 1e-9, 0.0)  # what rounding left
            found = "; ".join(filter(None, [_explain_cuts(weights, x, w, h, mask, cut), JOINS[uncut]]))
            break
    rest = "the shape is right, but the numbers are not; compare each tensor's shape with the table of section 4.4"
    return found or _explain_near(given, right) or rest


def _explain_cuts(weights: Tensor, x: Tensor, w: Sequence[Tensor], h: int, mask: Tensor, cut: Cut) -> str | None:
    """Say how queries and keys were cut into heads, when the values were cut so, and what else the weights show."""
    q, k, d_model, d_head = x @ w[0], x @ w[1], x.size(-1), w[0].size(1) // h
    sizes = {"d_head": d_head, "d_model": d_model, "num_heads": h, NOT_D_HEAD: d_model // h}

    def explain(scores: Tensor, instead: dict[str, Tensor] | None = None) -> str | None:
        return explain_weights(weights, scores, sizes=sizes, divide_by="d_head", mask=mask[:, None], instead=instead)

    scrambled = None if cut is _split else f"the heads are {CUTS[cut]}"
    for cut_q, cut_k in itertools.product(CUTS, repeat=2):
        if explain(cut_q(q, h) @ cut_k(k, h).mT) is None:
            names = f"the queries are {CUTS[cut_q]}, the keys {CUTS[cut_k]}, the values {CUTS[cut]}"
            return scrambled if cut_q is cut_k is cut else names
    query, key = cut(q, h), cut(k, h)
    found = explain(
        query @ key.mT,
        {
            "you used w_q for the keys too; keys need w_k": query @ query.mT,
            "you used w_k for the queries too; queries need w_q": key @ key.mT,
            "you took the softmax twice; mask the scores, then take it once": (
                torch.softmax(query @ key.mT / math.sqrt(d_head), dim=-1)
            ),
        },
    )
    return found if scrambled is None else f"{scrambled}; besides, {found}"
