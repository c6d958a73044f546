"""The turns of chapter 0."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .parse import number, random, tensor
from .table import Case, Exercise, WrongAnswer, quick_question

SHAPE_OF_SCORES = quick_question(
    "Q has shape (8, 5, 2) and K has shape (8, 7, 2). Give the shape of Q @ K.mT.",
    (8, 5, 7),
    {
        (8, 7, 5): "that is K @ Q.mT; the rows of a product come from its first matrix, here Q",
        (8, 5, 2): "the size 2 is summed over and vanishes; K.mT has shape (8, 2, 7), and its 7 comes last",
        (8, 7, 2): "that is the shape of K itself",
        (8, 2, 7): "that is the shape of K.mT; its axis of size 2 meets that of Q, and both vanish",
        (5, 7): "that is one of the 8 products; the axis of size 8 stays in front",
    },
)

SAT_WITHOUT_CAT = quick_question(
    "The scores of sat are 2.83 for cat and 0 for five other words. Mask cat and give the weight of each other word.",
    0.2,
    {
        0.046: "that is their weight before the mask; now the five share what cat had",
        1 / 6: "cat would still get a share with the score 0; with minus infinity its exponential is 0",
        0.25: "five words are left, since 'the' stands twice in the sentence",
        0.0: "that is the weight of cat itself",
        1.0: "that is what the five words share; each gets the same part of it",
    },
)

ROWS_TO_ONE = Exercise(
    prompt="The exponentials of the scores (m, n), each divided by the sum of its row.",
    right=lambda s: s.softmax(-1),
    returns=tensor("(m, n)"),
    cases=[Case((random(5, 5),)), Case((random(3, 5),))],
    wrong_answers=[
        WrongAnswer(
            "sum(dim=-1) has shape (5,), which is repeated down the rows, so column j was divided by the sum of row j; "
            "keepdim=True makes it (5, 1)",
            lambda s: s.exp() / s.exp().sum(-1),
        ),
        WrongAnswer(
            "you divided the exponentials by the sums of the columns; dim=-1 sums along the rows",
            lambda s: s.exp() / s.exp().sum(-2, keepdim=True),
        ),
        WrongAnswer(
            "you divided the exponentials by the sum of the whole matrix; sum(dim=-1, keepdim=True) sums each row",
            lambda s: s.exp() / s.exp().sum(),
        ),
        WrongAnswer(
            "you divided the scores by the sum of the scores; take the exponentials first",
            lambda s: s / s.sum(-1, keepdim=True),
        ),
    ],
)

TARGET = torch.tensor([2, 0, 1, 2, 2])


def _chosen(logits: Tensor, target: Tensor) -> Tensor:
    return logits.softmax(-1).gather(-1, target[:, None])


LOSS_BY_HAND = Exercise(
    prompt="The mean of -ln p, where p is the probability that a row of the logits (n, k) gives to the target (n,).",
    right=F.cross_entropy,
    returns=number("the loss"),
    cases=[Case((random(5, 3), TARGET))],
    wrong_answers=[
        WrongAnswer("the minus is missing: ln p is negative for p below 1", lambda z, t: _chosen(z, t).log().mean()),
        WrongAnswer(
            "you took the logarithm of the mean; take the mean of the logarithms",
            lambda z, t: -_chosen(z, t).mean().log(),
        ),
        WrongAnswer("that is the sum over the rows; take the mean", lambda z, t: -_chosen(z, t).log().sum()),
        WrongAnswer(
            "p[:, target] takes the columns of all targets from every row, (n, n) numbers; "
            "gather(-1, target[:, None]) takes one from each row",
            lambda z, t: -z.softmax(-1)[:, t].log().mean(),
        ),
        WrongAnswer(
            "your softmax runs down the columns; with dim=-1 each row sums to 1",
            lambda z, t: -z.softmax(0).gather(-1, t[:, None]).log().mean(),
            mistake=5,
        ),
        WrongAnswer(
            "these are the logits of the targets; a softmax makes them probabilities, then comes -ln",
            lambda z, t: -z.gather(-1, t[:, None]).mean(),
        ),
    ],
)
