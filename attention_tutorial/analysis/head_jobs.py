"""Jobs of heads: a test for each job that has a name, with a decoy in the same text.

A job says where a head should attend: from one position of the text (the query) to another (the target). The decoy is a
position that a head without the job, but with a preference for what is near or frequent, would attend to as well.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..data.byte_pairs import BEGIN
from ..models.code_model import CodeModel, Head

__all__ = ["JOBS", "JobScore", "Look", "copy_score", "job_scores", "list_looks", "repeated_tokens"]

OPENING, CLOSING = "([{", ")]}"

#: Each job in words, and the least mean weight for which the chapter says that a head has it.
JOBS = {
    "previous": ("the token before", 0.5),
    "first": ("the token that begins the text", 0.25),
    "line": ("before a line ends: its first token", 0.25),
    "nearest bracket": ("before a closing bracket: the last opening one", 0.2),
    "matching bracket": ("the same, if that is closed: the one still open", 0.2),
    "indentation": ("at a line's start: the last line as deep", 0.25),
    "copy": ("what followed this token last time", 0.4),
}


class Look(NamedTuple):
    """One prediction of a job: the positions of the query, of its target and of the decoy."""

    job: str
    query: int
    target: int
    decoy: int


def list_looks(texts: Sequence[str]) -> list[Look]:
    """List where each job but ``copy`` predicts that a head attends.

    Args:
        texts: the text of each token, the one that begins the text (which has none) first.

    Returns:
        Every prediction whose decoy exists. It follows from the text alone; jobs that serve to predict the next token
        use that token.

    Example:
        >>> [look for look in list_looks(["", "f", "(", "a", ")", " + ", "g", "(", "b", ")"]) if look.job != "previous"]
        [Look(job='nearest bracket', query=8, target=7, decoy=2)]
    """
    found = [Look("previous", i, i - 1, i - 2) for i in range(8, len(texts))]
    found += [Look("first", i, 0, 1) for i in range(32, len(texts))]
    opened: list[int] = []  # all opening brackets so far
    still_open: list[int] = []
    lines: list[tuple[int, str]] = []  # where each line that is not empty starts, and its line break with indentation
    for i, text in enumerate(texts[:-1]):
        following = texts[i + 1]
        if text.startswith("\n") and not following.startswith("\n"):
            same = [place for place, start in lines if start == text]
            other = [place for place, start in lines if start != text]
            if same and other:
                found.append(Look("indentation", i, same[-1], other[-1]))
            lines.append((i, text))
        elif following.startswith("\n") and len(lines) > 1 and i - lines[-1][0] > 3:
            found.append(Look("line", i, lines[-1][0], lines[-2][0]))
        if text and text in OPENING:
            opened.append(i)
            still_open.append(i)
        elif text and text in CLOSING and still_open:
            still_open.pop()
        if following and following in CLOSING:
            if len(opened) > 1 and opened[-1] < i:
                found.append(Look("nearest bracket", i, opened[-1], opened[-2]))
            if still_open and opened[-1] > still_open[-1]:
                found.append(Look("matching bracket", i, still_open[-1], opened[-1]))
    return found


class JobScore(NamedTuple):
    """Mean weight of every head on a job's targets and on its decoys, both (layers, heads), and how many there were."""

    target: Tensor
    decoy: Tensor
    looks: int

    def best(self) -> Head:
        """Return the head with the most weight on the targets, as ``(layer, head)`` from 1."""
        layer, head = divmod(int(self.target.argmax()), self.target.size(1))
        return layer + 1, head + 1


@torch.no_grad()
def job_scores(model: CodeModel, ids: Tensor) -> dict[str, JobScore]:
    """Score every head of a model at every job but ``copy``.

    Args:
        model: the model.
        ids: token ids (batch, n), each row a text that begins with the token that begins a text.

    Returns:
        A score for each job that has a target in the texts.

    Raises:
        TypeError: if ``ids`` is not an int64 tensor.
        ValueError: if it has not two axes or too many positions.
    """
    weights = torch.stack(model(ids).weights)  # (layers, batch, heads, n, n)
    places: dict[str, list[tuple[int, int, int, int]]] = {}
    for row, tokens in enumerate(ids.tolist()):
        for look in list_looks([model.tokens.text(token) for token in tokens]):
            places.setdefault(look.job, []).append((row, *look[1:]))
    scores = {}
    for job, where in places.items():
        rows, queries, targets, decoys = torch.tensor(where).T
        on_target, on_decoy = (weights[:, rows, :, queries, keys].mean(dim=0) for keys in (targets, decoys))
        scores[job] = JobScore(on_target, on_decoy, len(where))
    return scores


def repeated_tokens(model: CodeModel, rows: int, half: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw random tokens that are repeated once, and others of which only the second half is the same.

    Args:
        model: whose tokens are drawn.
        rows: how many texts.
        half: how many tokens before the text is repeated.
        generator: source of the draws (on the CPU).

    Returns:
        Ids (rows, 1 + 2 * half) of texts ``a a``, and of texts ``b a`` with the same ``a``.
    """
    a, b = torch.randint(1, len(model.tokens), (2, rows, half), generator=generator, device="cpu")
    begin = torch.full((rows, 1), BEGIN)
    return torch.cat([begin, a, a], dim=1), torch.cat([begin, b, a], dim=1)


@torch.no_grad()
def copy_score(model: CodeModel, rows: int, half: int, generator: torch.Generator) -> JobScore:
    """Score every head at copying: from a token of ``a a``'s second half, at what followed it in the first.

    Args:
        model: the model.
        rows: how many texts to draw.
        half: how many tokens before the text is repeated.
        generator: source of the draws (on the CPU).

    Returns:
        The score; its decoy is the same position in ``b a``, where nothing is repeated.

    Source:
        Olsson et al. (2022), "prefix matching score".
    """
    twice, once = repeated_tokens(model, rows, half, generator)
    queries = torch.arange(half + 1, 2 * half + 1)
    on_target, on_decoy = (
        torch.stack([layer[:, :, queries, queries - half + 1].mean(dim=(0, 2)) for layer in model(ids).weights])
        for ids in (twice, once)
    )
    return JobScore(on_target, on_decoy, rows * half)
