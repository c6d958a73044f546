"""Which answers are the same but for their names: what renaming, comments and layout cannot hide.

Each answer is read as tokens, never parsed or compiled here. Names that it brings along itself become "the first name",
"the second name" and so on, and numbers and texts become "a number" and "a text", since those differ between variants
anyway. What the release held already does not count. Runs of tokens that few students have weigh more than those of
everybody.
"""

import builtins
import contextlib
import itertools
import keyword
import math
import operator
import re
import tokenize
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from nbformat import NotebookNode

__all__ = ["Pair", "like_the_master", "similar_pairs", "tokens_of"]

RUN = 4  # tokens
LONGEST = 100_000  # letters of a text, or tokens of code, that are looked at
CODE, TEXT = 0.9, 0.8  # from here on two students' code, or words, are told
FEWEST_RUNS = {"code": 25, "words": 15}  # shorter answers are alike by chance
KEPT = {*keyword.kwlist, *dir(builtins), "torch", "math", "numpy", "np", "plt"}

MAGIC = re.compile(r"^[ \t]*[%!?].*", re.MULTILINE)  # what IPython reads, not Python

Runs = set[Hashable]


@dataclass(frozen=True)
class Pair:
    """Two students whose answers are alike.

    Attributes:
        first: the id of one.
        second: the id of the other.
        what: ``"code"`` or ``"words"``.
        likeness: 1 where they are the same up to names, comments and layout.
    """

    first: str
    second: str
    what: str
    likeness: float


def similar_pairs(answers: Mapping[str, NotebookNode], release: NotebookNode) -> list[Pair]:
    """Find students whose answers are alike.

    Returns:
        The pairs, the most alike first. A pair is a question to ask, not an answer: a short task has few right answers.
    """
    pairs = []
    for kind, least in (("code", CODE), ("words", TEXT)):
        released = _runs(release, kind)
        runs = {student: _runs(notebook, kind) - released for student, notebook in answers.items()}
        runs = {student: theirs for student, theirs in runs.items() if len(theirs) >= FEWEST_RUNS[kind]}
        has = Counter(run for theirs in runs.values() for run in theirs)
        weight = {run: math.log((len(runs) + 1) / count) for run, count in has.items()}
        whole = {student: math.fsum(weight[run] for run in theirs) for student, theirs in runs.items()}
        for first, second in combinations(sorted(runs), 2):
            if min(whole[first], whole[second]) < least * max(whole[first], whole[second]):
                continue
            both = math.fsum(weight[run] for run in runs[first] & runs[second])
            likeness = both / (whole[first] + whole[second] - both)
            if likeness >= least:
                pairs.append(Pair(first, second, kind, likeness))
    return sorted(pairs, key=lambda pair: (-pair.likeness, pair.first, pair.second, pair.what))


def like_the_master(answers: NotebookNode, master: NotebookNode, release: NotebookNode) -> list[tuple[str, float]]:
    """Compare one student's answers with the master's own for the same variant.

    Returns:
        ``"code"`` and ``"words"``, where these are as alike as two students' would have to be, with their likeness.
    """
    found = []
    for kind, least in (("code", CODE), ("words", TEXT)):
        released = _runs(release, kind)
        ours, theirs = (_runs(notebook, kind) - released for notebook in (master, answers))
        likeness = len(ours & theirs) / max(1, len(ours | theirs))
        if len(theirs) >= FEWEST_RUNS[kind] and likeness >= least:
            found.append((kind, likeness))
    return found


def _runs(notebook: NotebookNode, kind: str) -> Runs:
    runs: Runs = set()
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        if not about.get("solution"):
            continue
        place = about.get("grade_id", "")
        if kind == "code" and cell.cell_type == "code":
            tokens = tokens_of(cell.source)
        elif kind == "words" and cell.cell_type == "markdown":
            tokens = re.findall(r"\w+", cell.source[:LONGEST].lower())
        else:
            continue
        runs |= {(place, *_own(tokens[i : i + RUN])) for i in range(len(tokens) - RUN + 1)}
    return runs


def _own(run: list[str]) -> Iterator[str]:
    """Number the names of a run from 1, so that a name more before it changes nothing."""
    names: dict[str, str] = {}
    return (names.setdefault(token, str(len(names) + 1)) if token.isdigit() else token for token in run)


def tokens_of(code: str) -> list[str]:
    r"""Return the tokens of code with names, numbers and texts made alike; comments and layout are left out.

    Returns:
        The tokens, as far as the code can be read.

    Example:
        >>> tokens_of("def f(x):  # twice\n    return 2 * x")
        ['def', '1', '(', '2', ')', ':', 'return', 'number', '*', '2']
        >>> tokens_of("def g(it): return 3*it") == tokens_of("def f(x):  # twice\n    return 2 * x")
        True
    """
    names: dict[str, str] = {}
    tokens: list[str] = []
    for token in _tokens(code):
        if token.type == tokenize.NAME:
            is_part = bool(tokens) and tokens[-1] == "."
            if is_part or token.string in KEPT:
                tokens.append(token.string)
            else:
                tokens.append(names.setdefault(token.string, str(len(names) + 1)))
        elif token.type == tokenize.NUMBER:
            tokens.append("number")
        elif token.type == tokenize.STRING:
            if tokens and tokens[-1] != ":":  # not a docstring
                tokens.append("text")
        elif token.type == tokenize.OP:
            tokens.append(token.string)
    return tokens


def _tokens(code: str) -> Iterable[tokenize.TokenInfo]:
    """Yield the first tokens. A line that cannot be read, such as one for the shell, hides none of the others."""
    lines = iter(MAGIC.sub("", code).splitlines(keepends=True))
    tokens = itertools.chain.from_iterable(_readable(lines) for _ in iter(lambda: operator.length_hint(lines), 0))
    yield from itertools.islice((token for token in tokens if token.type != tokenize.COMMENT), LONGEST)


def _readable(lines: Iterator[str]) -> Iterator[tokenize.TokenInfo]:
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        yield from tokenize.generate_tokens(lambda: next(lines, ""))
