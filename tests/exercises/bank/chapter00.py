"""Right and wrong answers to the turns of chapter 0."""

import torch

from . import Answers

BANK = {
    "shape_of_scores": Answers(
        right={"list": [8, 5, 7], "computed": tuple((torch.zeros(8, 5, 2) @ torch.zeros(8, 7, 2).mT).shape)}
    ),
    "sat_without_cat": Answers(right={"fraction": 1 / 5, "tensor": torch.tensor(0.2)}),
    "rows_to_one": Answers(
        right={
            "by hand": lambda s: s.exp() / s.exp().sum(dim=-1, keepdim=True),
            "float32": lambda s: s.float().softmax(1),
        },
    ),
    "loss_by_hand": Answers(
        right={
            "by hand": lambda z, t: -z.softmax(dim=-1).gather(-1, t[:, None]).log().mean(),
            "two lists of indices": lambda z, t: -z.log_softmax(-1)[torch.arange(len(t)), t].mean(),
        },
    ),
}
