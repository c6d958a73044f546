"""Heads: where each head of a layer looks, a head at a time or all of them together."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
import traitlets
from torch import Tensor

from .._validation import check_float_tensor, check_size, shape_of
from ..layers import MultiHeadAttention
from ..masks import causal_mask
from ..notebook.display import rounded
from .base import BookWidget, encode_floats, html_table

__all__ = ["Heads"]

MOST_HEADS = 8  # as many colours and lines can be told apart
MOST_TOKENS = 40
SUM_TOLERANCE = 0.02  # rows of bfloat16 do not sum to 1 more exactly than that

_BY_HAND = (
    "Nothing is trained here: the matrices of these layers were set by hand, so that we know what each head should do. "
    "Of the three heads, the first looks at the previous word, the second at the same word, the third everywhere alike."
)
_BY_HAND_QUERY = 4  # the second "the" of the first sentence

Queries = Sequence[str] | Sequence[int] | None
Case = tuple[Sequence[str], Tensor] | tuple[Sequence[str], Tensor, Queries]
Names = tuple[str, str]  # of a model and of a sentence


class Heads(BookWidget):
    r"""Show where each head of a layer looks: a sentence with arcs, the weights, and a map for each head.

    .. math:: a^{(h)}_{ij} = \operatorname{softmax}_j\!\big(q^{(h)}_i \cdot k^{(h)}_j / \sqrt{d_{\text{head}}}\big)

    The weights are shown as they are given. Choose a query, and one head or all of them. For all heads together it also
    shows their mean, and how much weight two heads have in common, :math:`\sum_j \min(a_{ij}, b_{ij})`.

    The class itself shows small layers whose heads were set by hand. :meth:`of` shows your own weights, and
    :meth:`of_cases` those of several models and sentences.

    Args:
        query: number of the query that is shown first, from 0.
        head: number of the head that is shown first, from 1, or 0 for all together.

    Raises:
        TypeError: if ``query`` or ``head`` is not an int.
        ValueError: if there is no such query or head.

    Example:
        >>> Heads(query=1)
        Heads('three heads', 'the cat sat on the mat')
    """

    module = "heads"

    cases: "traitlets.List[dict[str, Any]]" = traitlets.List()
    choices = traitlets.List(traitlets.Unicode())
    model = traitlets.Unicode()
    sentence = traitlets.Unicode()
    query = traitlets.Int(0)
    head = traitlets.Int(0)
    note = traitlets.Unicode()

    def __init__(self, *, query: int = _BY_HAND_QUERY, head: int = 0) -> None:
        self._begin(_set_by_hand(), query=query, head=head, note=_BY_HAND)

    @classmethod
    def of(
        cls,
        tokens: Sequence[str],
        weights: Tensor,
        queries: Queries = None,
        *,
        query: int = 0,
        head: int = 0,
        note: str = "",
    ) -> Self:
        """Show your own weights of one sentence.

        Args:
            tokens: the n words that are looked at.
            weights: (heads, m, n), or (1, heads, m, n) as :class:`~attention_tutorial.layers.MultiHeadAttention`
                returns them for one sentence. No weight is negative, and each row sums to 1, or to 0 where no key was
                allowed.
            queries: who looks. Leave it out if each of the n words does; give positions of words if only some do; give
                m texts if it is others, as in cross-attention.
            query: number of the query that is shown first, from 0.
            head: number of the head that is shown first, from 1, or 0 for all together.
            note: a line of text above the figure.

        Raises:
            TypeError: if ``weights`` is not a float tensor, or ``query`` or ``head`` not an int.
            ValueError: if weights, tokens and queries do not fit together, or a row is no weighted average.

        Example:
            >>> weights = torch.tensor([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.5, 0.5]]])
            >>> widget = Heads.of(["good", "morning"], weights)
            >>> widget
            Heads('model', 'good morning')
            >>> widget.weights()[0, 0].tolist() == weights[0, 0].tolist()
            True
        """
        cases = {"model": {" ".join(map(str, tokens)): (tokens, weights, queries)}}
        return cls.of_cases(cases, query=query, head=head, note=note)

    @classmethod
    def of_cases(
        cls,
        cases: Mapping[str, Mapping[str, Case]],
        *,
        answers: Mapping[str, Mapping[str, str]] | None = None,
        choices: tuple[str, str] = ("Model", "Sentence"),
        query: int = 0,
        head: int = 0,
        note: str = "",
    ) -> Self:
        """Show the weights of several models and sentences, between which the reader chooses.

        Args:
            cases: ``{model: {sentence: (tokens, weights)}}`` or ``(tokens, weights, queries)``, each as in :meth:`of`.
            answers: what a model answers, for any of the ``cases``: ``{model: {sentence: text}}``. Its line stands
                below the weights.
            choices: what the two levels of ``cases`` are called.
            query: number of the query that is shown first, from 0.
            head: number of the head that is shown first, from 1, or 0 for all together.
            note: a line of text above the figure.

        Raises:
            TypeError: if a case's ``weights`` is not a float tensor, ``query`` or ``head`` not an int, or an answer not
                a text.
            ValueError: if a case's weights, tokens and queries do not fit together, a row is no weighted average, or an
                answer belongs to none of the ``cases``.

        Example:
            >>> models = {"all alike": torch.full((1, 2, 2), 0.5), "oneself": torch.eye(2)[None]}
            >>> greeting = ["good", "morning"]
            >>> Heads.of_cases({name: {"greeting": (greeting, weights)} for name, weights in models.items()})
            Heads('all alike', 'greeting')
        """
        widget = cls.__new__(cls)
        widget._begin(cases, answers=answers, choices=choices, query=query, head=head, note=note)
        return widget

    def _begin(
        self,
        cases: Mapping[str, Mapping[str, Case]],
        *,
        answers: Mapping[str, Mapping[str, str]] | None = None,
        choices: tuple[str, str] = ("Model", "Sentence"),
        query: int,
        head: int,
        note: str,
    ) -> None:
        """Check what is to be shown, and show it."""
        named = {(str(model), str(name)): case for model, of in cases.items() for name, case in of.items()}
        if not named:
            raise ValueError(f"cases must hold at least one model with one sentence; got {dict(cases)}")
        if len(choices) != 2:
            raise ValueError(f"choices must be two texts, for models and for sentences; got {choices!r}")
        replies = _check_answers(answers or {}, named)
        described = [_describe(*names, case) | replies.get(names, {}) for names, case in named.items()]
        first = described[0]
        _check_number("query", query, len(first["queries"]) - 1)
        _check_number("head", head, first["heads"])
        super().__init__(
            cases=described,
            choices=list(choices),
            model=first["model"],
            sentence=first["sentence"],
            query=query,
            head=head,
            note=note,
        )
        self._given = {names: _one_layer(case[1]) for names, case in named.items()}

    def __repr__(self) -> str:
        return f"Heads({self.model!r}, {self.sentence!r})"

    def weights(self) -> Tensor:
        """Return the weights that the widget now shows, float64, (heads, m, n)."""
        case = self._case()
        return self._given[case["model"], case["sentence"]]

    def static_html(self) -> str:
        """Return the weights of the chosen query as a table, a row for each head, for pages on which no script runs."""
        case = self._case()
        query = self.query if self.query < len(case["queries"]) else 0
        cells = [[rounded(weight) for weight in row[query].tolist()] for row in self.weights()]
        rows = [f"head {number}" for number in range(1, case["heads"] + 1)]
        asked = case["queries"][query]
        where = f"{case['model']}, {case['sentence']}"
        caption = f"Attention weights of “{asked}” ({where}): each row is a head, each column a key."
        if "answers" in case:
            caption += f" {case['answers']}"
        return html_table(caption, rows, case["tokens"], cells)

    def _case(self) -> dict[str, Any]:
        """Return what is shown; where the model lacks the sentence, its first one, as in the browser."""
        of_model = [case for case in self.cases if case["model"] == self.model] or self.cases
        return next((case for case in of_model if case["sentence"] == self.sentence), of_model[0])


def _describe(model: str, sentence: str, case: Case) -> dict[str, Any]:
    """Check what is to be shown, and describe it as the ES module wants it."""
    where = f" (in {model!r}, {sentence!r})"
    tokens, weights = list(map(str, case[0])), _one_layer(case[1])
    if weights.dim() != 3:
        raise ValueError(f"weights must be (heads, m, n), or (1, heads, m, n); got {shape_of(weights)}{where}")
    heads, m, n = weights.shape
    if not 1 <= heads <= MOST_HEADS:
        raise ValueError(f"weights must have 1 to {MOST_HEADS} heads; got {heads}{where}")
    if not (1 <= n <= MOST_TOKENS and 1 <= m <= MOST_TOKENS):
        raise ValueError(f"weights must have 1 to {MOST_TOKENS} queries and keys; got {m} and {n}{where}")
    if len(tokens) != n:
        raise ValueError(f"tokens must name each of the {n} keys; got {len(tokens)}: {tokens}{where}")
    if not weights.isfinite().all() or (weights < 0).any():
        raise ValueError(f"weights must be finite and not negative; got {weights.min().item()}{where}")
    sums = weights.sum(dim=-1)
    wrong = (sums - 1).abs().minimum(sums) > SUM_TOLERANCE
    if wrong.any():
        raise ValueError(f"each row of weights must sum to 1, or to 0; got {sums[wrong][0].item():.4g}{where}")
    labels, positions = _queries(case[2] if len(case) == 3 else None, tokens, m, where)
    return {
        "model": model,
        "sentence": sentence,
        "tokens": tokens,
        "queries": labels,
        "positions": positions,
        "heads": heads,
        "weights": encode_floats(weights.flatten().tolist()),
    }


def _check_answers(
    answers: Mapping[str, Mapping[str, str]], named: Mapping[Names, Case]
) -> dict[Names, dict[str, str]]:
    """Return what the descriptions of cases get: a sentence about the model's answers."""
    texts = {(str(model), str(sentence)): text for model, of in answers.items() for sentence, text in of.items()}
    for names, text in texts.items():
        if names not in named:
            raise ValueError(f"answers must be to cases; got one to {names}, cases are {list(named)}")
        if not isinstance(text, str):
            raise TypeError(f"answers must be texts; got {type(text).__name__} for {names}")
    return {names: {"answers": f"The model answers: {text}."} for names, text in texts.items()}


def _check_number(name: str, number: int, most: int) -> None:
    check_size(name, number)
    if number > most:
        raise ValueError(f"{name} must be from 0 to {most}; got {number}")


def _one_layer(weights: Tensor) -> Tensor:
    """Return float64 weights on the CPU, without the axis of a batch of one."""
    check_float_tensor("weights", weights)
    weights = weights.detach().cpu().double()
    return weights[0] if weights.dim() == 4 and weights.size(0) == 1 else weights


def _queries(queries: Queries, tokens: list[str], m: int, where: str) -> tuple[list[str], list[int] | None]:
    """Return a text for each query, and the positions of the queries if they are words of the sentence."""
    n = len(tokens)
    chosen = list(range(n)) if queries is None else list(queries)
    if len(chosen) != m:
        rule = f"queries must name each of the {m} queries" if queries is not None else "queries must be given if m ≠ n"
        raise ValueError(f"{rule}; got {len(chosen)} for weights with {m} rows and {n} columns{where}")
    if all(isinstance(query, str) for query in chosen):
        return [str(query) for query in chosen], None
    positions = [query for query in chosen if isinstance(query, int) and 0 <= query < n]
    if len(set(positions)) != m:
        raise ValueError(f"queries must be texts, or different positions from 0 to {n - 1}; got {chosen}{where}")
    return [tokens[position] for position in positions], positions


# ---- Heads set by hand -------------------------------------------------------------------------------------------

_STRENGTH = 4.0  # large enough that what a head looks for wins clearly


def _set_by_hand() -> dict[str, dict[str, Case]]:
    """Make small layers whose heads do known things, and compute their weights for two sentences."""
    sentences = ["the cat sat on the mat", "the bank of the river"]
    cases: dict[str, dict[str, Case]] = {}
    for model, causal in [("three heads", False), ("one head", False), ("three heads, causal", True)]:
        cases[model] = {}
        for sentence in sentences:
            tokens = sentence.split()
            x, words = _one_hot(tokens)
            layer = _one_head(x, words) if model == "one head" else _three_heads(x, words)
            mask = causal_mask(len(tokens)) if causal else None
            with torch.no_grad():
                _, weights = layer(x[None], mask=mask)
            cases[model][sentence] = (tokens, weights)
    return cases


def _one_hot(tokens: list[str]) -> tuple[Tensor, int]:
    """Return words and positions, one-hot and side by side, (n, words + n), and the number of different words."""
    vocabulary = sorted(set(tokens))
    words = torch.eye(len(vocabulary), dtype=torch.float64)[[vocabulary.index(token) for token in tokens]]
    return torch.cat([words, torch.eye(len(tokens), dtype=torch.float64)], dim=1), len(vocabulary)


def _looking(x: Tensor, words: int) -> tuple[Tensor, Tensor]:
    """Return two matrices W^Q, (d_model, d_model): one asks for the previous position, one for the same word."""
    previous, same = torch.zeros(2, x.size(1), x.size(1), dtype=torch.float64)
    for position in range(len(x)):
        previous[words + position, words + max(position - 1, 0)] = 1.0
    same[:words, :words] = torch.eye(words)
    return previous, same


def _layer(x: Tensor, per_head: list[Tensor]) -> MultiHeadAttention:
    """Make a layer whose heads have the given W^Q, and all the identity as W^K."""
    d_model = x.size(1)
    layer = MultiHeadAttention(d_model, len(per_head), d_head=d_model, dtype=torch.float64)
    with torch.no_grad():  # an nn.Linear keeps its matrix transposed
        layer.w_q.weight.copy_(_STRENGTH * d_model**0.5 * torch.cat([w_q.T for w_q in per_head]))
        layer.w_k.weight.copy_(torch.eye(d_model).repeat(len(per_head), 1))
    return layer


def _three_heads(x: Tensor, words: int) -> MultiHeadAttention:
    previous, same = _looking(x, words)
    return _layer(x, [previous, same, torch.zeros_like(same)])


def _one_head(x: Tensor, words: int) -> MultiHeadAttention:
    previous, same = _looking(x, words)
    return _layer(x, [previous + same])
