"""The exercises of chapter 7."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from .reading import explain_weights
from .results import mask, number, random, same_shape, tensor
from .table import Case, Exercise, Read, Slip

# ---- 7.1 ------------------------------------------------------------------------------------------------------------


def _begun(target: Tensor, begin: int) -> Tensor:
    return torch.cat([torch.full_like(target[:, :1], begin), target[:, :-1]], dim=1)


DECODER_INPUT = Exercise(
    number="7.1",
    asks="What a decoder reads in training: the target (batch, m) moved by one, with an id before it.",
    right=_begun,
    returns=tensor("(batch, m)", "the ids"),
    rounding=False,
    cases=[
        Case((torch.tensor([[5, 7, 4, 2, 0], [6, 8, 9, 3, 2]]), 1)),
        Case((torch.tensor([[3, 9, 2], [4, 2, 0]]), 11)),
    ],
    slips=[
        Slip(
            "that is the target itself: at each position the decoder would read the very word it must say",
            lambda target, begin: target,
            mistake=14,
        ),
        Slip(
            "nothing was dropped: with an id before it the target is one too long; leave its last id out",
            lambda target, begin: torch.cat([torch.full_like(target[:, :1], begin), target], dim=1),
            like=same_shape,
        ),
        Slip(
            "you moved the other way: the decoder would read the word after the one it must say",
            lambda target, begin: torch.cat([target[:, 1:], torch.full_like(target[:, :1], begin)], dim=1),
        ),
        Slip(
            "moved round: the last id came back to the front; put the id `begin` there",
            lambda target, begin: target.roll(1, 1),
        ),
        Slip(
            "0 stands before the target, which is padding; put the id `begin` there",
            lambda target, begin: _begun(target, 0),
        ),
        Slip(
            "nothing was moved: `begin` took the place of the first word",
            lambda target, begin: torch.cat([torch.full_like(target[:, :1], begin), target[:, 1:]], dim=1),
        ),
    ],
)

# ---- 7.2 ------------------------------------------------------------------------------------------------------------

CACHED_NUMBERS = Exercise(
    number="7.2",
    asks="How many numbers a decoder keeps for a source of n positions and m words written.",
    right=lambda layers, d_model, n, m: layers * 2 * d_model * (n + m),
    returns=number("the count"),
    rounding=False,
    cases=[Case((1, 64, 7, 3)), Case((6, 512, 11, 5)), Case((2, 48, 9, 0))],
    slips=[
        Slip("keys and values are kept, two vectors a position", lambda a, d, n, m: a * d * (n + m)),
        Slip("every layer keeps its own", lambda a, d, n, m: 2 * d * (n + m)),
        Slip("the keys and values of the source are kept too, n positions", lambda a, d, n, m: a * 2 * d * m),
        Slip(
            "the keys and values of the words written are kept too, m positions, and change with each step",
            lambda a, d, n, m: a * 2 * d * n,
        ),
        Slip("queries are not kept: nobody asks again", lambda a, d, n, m: a * d * (2 * n + 3 * m)),
        Slip(
            "weights (m, n) are not kept; keys and values are vectors of d_model numbers, n + m of each",
            lambda a, d, n, m: a * 2 * d * n * m,
        ),
    ],
)

# ---- 7.3 ------------------------------------------------------------------------------------------------------------


def _cross_scores(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor) -> Tensor:
    return (x @ w_q) @ (memory @ w_k).mT


def _weights(
    scores: Callable[..., Tensor] = _cross_scores, dim: int = -1, power: float = 0.5
) -> Callable[..., Tensor]:  # fmt: skip
    return lambda x, memory, w_q, w_k: torch.softmax(scores(x, memory, w_q, w_k) / w_k.size(1) ** power, dim=dim)


def _explain_cross(given: Tensor, right: Tensor, x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor) -> str | None:
    scores = _cross_scores(x, memory, w_q, w_k)
    sizes = {"batch": x.size(0), "m": x.size(1), "n": memory.size(1), "d": x.size(2), "d_k": w_k.size(1)}
    return explain_weights(given, scores, sizes=sizes)


CROSS_WEIGHTS = Exercise(
    number="7.3",
    asks="The weights of cross-attention, (batch, m, n), one head without a mask.",
    right=_weights(),
    returns=tensor("(batch, m, n)", "the weights"),
    cases=[Case((random(2, 5, 11), random(2, 7, 11, seed=1), random(11, 3, seed=2), random(11, 3, seed=3)))],
    slips=[
        Slip(
            "the source asked and the target answered: queries come from x, keys from memory",
            _weights(lambda x, memory, w_q, w_k: _cross_scores(memory, x, w_q, w_k)),
            like=same_shape,
        ),
        Slip(
            "that is self-attention of the target: keys come from memory",
            _weights(lambda x, memory, w_q, w_k: _cross_scores(x, x, w_q, w_k)),
            like=same_shape,
        ),
        Slip(
            "that is self-attention of the source: queries come from x",
            _weights(lambda x, memory, w_q, w_k: _cross_scores(memory, memory, w_q, w_k)),
            like=same_shape,
        ),
        Slip(
            "w_q and w_k are exchanged: w_q makes the queries, of x",
            _weights(lambda x, memory, w_q, w_k: _cross_scores(x, memory, w_k, w_q)),
        ),
        Read("your softmax runs over the queries", _weights(dim=-2), mistake=5),
        Read("you did not scale", _weights(power=0), mistake=2),
        Read("you divided by d_k", _weights(power=1), mistake=3),
    ],
    explain=_explain_cross,
)

# ---- 7.4 ------------------------------------------------------------------------------------------------------------


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


FEED_FORWARD_STEP = Exercise(
    number="7.4",
    asks="A feed-forward step on the residual path, with the norm first.",
    right=lambda x, w_1, w_2: x + (_norm(x) @ w_1).relu() @ w_2,
    returns=tensor("(batch, n, d)"),
    cases=[Case((random(2, 3, 5), random(5, 7, seed=1), random(7, 5, seed=2)))],
    slips=[
        Slip(
            "the path is missing: x must be added to what the step gives", lambda x, a, b: (_norm(x) @ a).relu() @ b
        ),
        Slip("the norm is missing: the step reads norm(x)", lambda x, a, b: x + (x @ a).relu() @ b),
        Slip(
            "that is the norm last, as in the paper; here the step reads norm(x), and the sum is left as it is",
            lambda x, a, b: _norm(x + (x @ a).relu() @ b),
        ),
        Slip(
            "you normalised the path too: what goes past the step is x itself",
            lambda x, a, b: _norm(x) + (_norm(x) @ a).relu() @ b,
        ),
        Slip("the ReLU is missing: without it the two matrices are one", lambda x, a, b: x + _norm(x) @ a @ b),
        Slip(
            "the ReLU stands behind the second matrix; it belongs between",
            lambda x, a, b: x + (_norm(x) @ a @ b).relu(),
        ),
        Slip("you normalised the sum as well", lambda x, a, b: _norm(x + (_norm(x) @ a).relu() @ b)),
    ],
)  # fmt: skip

# ---- 7.5 ------------------------------------------------------------------------------------------------------------


def _cut(ids: Tensor) -> Tensor:
    ended_before = (ids == 2).cumsum(dim=1) - (ids == 2).long() > 0
    return ids.masked_fill(ended_before, 0)


SHARE_RIGHT = Exercise(
    number="7.5",
    asks="The share of sentences written right up to their end, the id 2.",
    right=lambda written, asked: (_cut(written) == _cut(asked)).all(dim=1).double().mean().item(),
    returns=number("the share"),
    cases=[
        Case(
            (
                torch.tensor([[5, 7, 2, 9, 9], [4, 6, 8, 2, 0], [5, 2, 0, 0, 0]]),
                torch.tensor([[5, 7, 2, 0, 0], [4, 6, 8, 2, 7], [4, 2, 0, 0, 0]]),
            )
        ),
        Case(
            (
                torch.tensor([[5, 7, 4, 2], [6, 2, 0, 0], [6, 6, 8, 2]]),
                torch.tensor([[5, 7, 4, 3], [6, 2, 0, 3], [9, 6, 8, 2]]),
            )
        ),
    ],
    slips=[
        Slip(
            "you compared what stands behind the end too; it does not count",
            lambda written, asked: (written == asked).all(dim=1).double().mean().item(),
        ),
        Slip(
            "that is the share of ids; a sentence with one wrong id is wrong",
            lambda written, asked: (written == asked).double().mean().item(),
        ),
        Slip(
            "that is the share of ids up to the ends; a sentence with one wrong id is wrong",
            lambda written, asked: (_cut(written) == _cut(asked)).double().mean().item(),
        ),
        Slip(
            "one id that is right is not enough: all must be",
            lambda written, asked: (_cut(written) == _cut(asked)).any(dim=1).double().mean().item(),
        ),
        Slip(
            "that counts the right sentences; divide by their number",
            lambda written, asked: (_cut(written) == _cut(asked)).all(dim=1).double().sum().item(),
        ),
        Slip(
            "only the first ids were compared",
            lambda written, asked: (written[:, 0] == asked[:, 0]).double().mean().item(),
        ),
    ],
)

# ---- 7.6 ------------------------------------------------------------------------------------------------------------


def _marked(places: Tensor, size: int) -> Tensor:
    return torch.arange(size) == places[:, None]


def _explain_edges(given: Tensor, right: Tensor, *inputs: object) -> str:
    wrong = tuple((given != right).nonzero()[0].tolist())
    return f"{int((given != right).sum())} cells are not right; at {wrong}, counted from 0, it must be {right[wrong]}"


CLOSED_EDGE = Exercise(
    number="7.6",
    asks="A mask (batch, m, n) that closes one edge in each sentence.",
    right=lambda rows, columns, m, n: ~(_marked(rows, m)[:, :, None] & _marked(columns, n)[:, None, :]),
    returns=mask("(batch, m, n)"),
    cases=[Case((torch.tensor([1, 4, 0]), torch.tensor([5, 0, -1]), 5, 7))],
    slips=[
        Slip(
            "your mask is the wrong way round: it is True where the edge is; here True means may attend",
            lambda rows, columns, m, n: _marked(rows, m)[:, :, None] & _marked(columns, n)[:, None, :],
            mistake=7,
        ),
        Slip(
            "rows and columns are exchanged: a row is a position that looks",
            lambda rows, columns, m, n: ~(_marked(columns, m)[:, :, None] & _marked(rows, n)[:, None, :]),
        ),
        Slip(
            "you closed the whole column: every position lost the word, not only the one in the row",
            lambda rows, columns, m, n: ~_marked(columns, n)[:, None, :].expand(-1, m, -1),
        ),
        Slip(
            "you closed the whole row: the position lost every word, and a row without an open key has no weights",
            lambda rows, columns, m, n: ~_marked(rows, m)[:, :, None].expand(-1, -1, n),
            mistake=11,
        ),
        Slip(
            "row and column are joined by OR: a whole row and a whole column are closed",
            lambda rows, columns, m, n: ~(_marked(rows, m)[:, :, None] | _marked(columns, n)[:, None, :]),
        ),
        Slip(
            "-1 closed the last column; it says that there is nothing to close",
            lambda rows, columns, m, n: ~(_marked(rows, m)[:, :, None] & _marked(columns % n, n)[:, None, :]),
        ),
        Slip(
            "every sentence got the edge of the first",
            lambda rows, columns, m, n: ~(
                _marked(rows, m)[:1, :, None] & _marked(columns, n)[:1, None, :]
            ).expand(len(rows), -1, -1),
        ),
    ],
    explain=_explain_edges,
)  # fmt: skip
