"""The bottleneck: what two networks wrote, through one vector and with attention, and the weights they returned."""

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Self

import torch
import traitlets
from torch import Tensor

from .._validation import check_float_tensor, check_size
from ..data.copying import copy_examples, spell
from ..data.translation import GLOSSES, split_words
from ..models.seq2seq import Seq2Seq
from ..notebook.display import rounded
from .base import BookWidget, check_one_of, html_table

__all__ = ["Bottleneck"]

TestSets = Mapping[int, tuple[Tensor, Tensor]]
Sentence = tuple[str, str, str, str, Tensor]

EXAMPLES = 4  # sequences of each length that can be looked at

#: What the two networks are called wherever they are shown.
NETWORKS = {"plain": "one vector", "attentive": "attention"}

_UNTRAINED = (
    "Two untrained networks, so whatever is right here is right by chance. "
    "Hand over your own: Bottleneck.of(plain, attentive, test_sets)."
)


class Bottleneck(BookWidget):
    r"""Show what an encoder-decoder writes through one vector, and what it writes with attention, length by length.

    .. math:: c_i = h_n \qquad \text{against} \qquad c_i = \sum_j a_{ij} h_j

    Both networks write by themselves (``Seq2Seq.generate``). Everything on the screen is what they returned: their
    letters, their attention weights :math:`a_{ij}` in thousandths, and the share of right letters over all sequences of
    a length. Beside copies of letters it can show sentences that two translators wrote, word by word, with the English
    of each Italian word below it.

    The class itself shows two untrained networks. :meth:`of` shows your own, and :meth:`recorded`, in a small form,
    what those of chapter 1 wrote when the chapter was last executed.

    Args:
        length: the length to begin with; the greatest one when left out.
        sequence: the sequence to begin with, counted from 1.
        step: the output step to begin with, counted from 1.

    Raises:
        TypeError: if a number is no int.
        ValueError: if there is no such length, sequence or step.

    Example:
        >>> widget = Bottleneck(length=8, sequence=2)
        >>> widget
        Bottleneck(length=8, sequence=2, step=1)
        >>> widget.weights().shape, [round(row, 2) for row in widget.weights().sum(dim=1).tolist()][:3]
        (torch.Size([8, 8]), [1.0, 1.0, 1.0])

    Source:
        Cho et al. (2014), "On the properties of neural machine translation", for the fall with length.
    """

    module = "bottleneck"

    cases: "traitlets.List[dict[str, Any]]" = traitlets.List()
    unit = traitlets.Enum(["letter", "word"], "letter")
    networks: "traitlets.Dict[str, str]" = traitlets.Dict(default_value=NETWORKS)
    trained_to = traitlets.Int(None, allow_none=True)
    note = traitlets.Unicode()
    compact = traitlets.Bool(False)
    length = traitlets.Int()
    sequence = traitlets.Int(1)
    step = traitlets.Int(1)
    rest = traitlets.Bool(True)

    def __init__(self, *, length: int | None = None, sequence: int = 1, step: int = 1) -> None:
        state = _first_state(*_untrained(), _untrained_test_sets(), length=length, sequence=sequence, step=step)
        super().__init__(**state, note=_UNTRAINED)

    @classmethod
    def of(
        cls,
        plain: Seq2Seq,
        attentive: Seq2Seq,
        test_sets: TestSets,
        *,
        sentences: Sequence[Sentence] = (),
        examples: int = EXAMPLES,
        trained_to: int | None = None,
        length: int | None = None,
        sequence: int = 1,
        step: int = 1,
    ) -> Self:
        """Show your own networks.

        Args:
            plain: a network with ``attention="none"``.
            attentive: a network with attention.
            test_sets: source (batch, n) and target (batch, m) token ids by length n, as in chapter 1.
            sentences: of different lengths, each as its text, its right translation of m words, what a translator with
                one vector wrote, what one with attention wrote, and its weights, a row for each word written and a
                column for each word read. Of what is written the first m words are shown.
            examples: how many sequences of each length can be looked at: the first ones of each test set.
            trained_to: the greatest length in training; longer ones are marked.
            length: the length to begin with; the greatest one when left out.
            sequence: the sequence to begin with, counted from 1.
            step: the output step to begin with, counted from 1.

        Raises:
            TypeError: if a model is no ``Seq2Seq``, ``test_sets`` no mapping, a number no int, or the weights of a
                sentence no float tensor.
            ValueError: if a model is of the wrong kind, a test set or a sentence's weights do not fit, two sentences
                are equally long, or there is no such length, sequence or step.

        Example:
            >>> plain, attentive = Seq2Seq(11, d_hidden=8, attention="none"), Seq2Seq(11, d_hidden=8, attention="dot")
            >>> source, target = copy_examples(10, 3, generator=torch.Generator().manual_seed(0))
            >>> Bottleneck.of(plain, attentive, {3: (source, target)})
            Bottleneck(length=3, sequence=1, step=1)
        """
        if trained_to is not None:
            check_size("trained_to", trained_to, minimum=1)
        state = _first_state(plain, attentive, test_sets, examples, length=length, sequence=sequence, step=step)
        state["cases"] += [_sentence(*sentence) for sentence in sentences]
        lengths = [case["length"] for case in state["cases"] if case["unit"] == "word"]
        if len(set(lengths)) < len(lengths):
            raise ValueError(f"sentences must differ in length; got sentences of {lengths} words")
        return cls._showing(**state, trained_to=trained_to)

    @classmethod
    def recorded(cls, *, unit: str = "letter", length: int = 4, step: int = 1, compact: bool = True) -> Self:
        """Show what the trained networks of chapter 1 wrote, one sequence of each length, without training any.

        Args:
            unit: what to begin with, ``"letter"`` or ``"word"``: copies of letters, or sentences.
            length: the length to begin with.
            step: the output step to begin with, counted from 1. All that was written is shown, until one plays it.
            compact: leave out all controls but the unit, the length and the player, and the matrix of weights.

        Raises:
            TypeError: if ``step`` is no int.
            ValueError: if there is no such unit, length or step.

        Example:
            >>> Bottleneck.recorded(length=12)
            Bottleneck(length=12, sequence=1, step=1)
        """
        state = json.loads(resources.files(__package__).joinpath("recorded", "bottleneck.json").read_text("utf-8"))
        check_one_of("unit", unit, ["letter", "word"])
        cases = {case["length"]: case for case in state["cases"] if case["unit"] == unit}
        check_one_of("length", length, list(cases))
        _check_number("step", step, _steps(cases[length]))
        return cls._showing(**state, unit=unit, length=length, step=step, compact=compact)

    def record(self) -> dict[str, Any]:
        """Return what :meth:`recorded` needs of this widget: the first sequence of each length."""
        first = ("read", "wanted", *NETWORKS, "weights")
        cases = [{**case, **{name: case[name][:1] for name in first}} for case in self.cases]
        return {"cases": cases, "trained_to": self.trained_to}

    def __repr__(self) -> str:
        return f"Bottleneck(length={self.length}, sequence={self.sequence}, step={self.step})"

    @traitlets.validate("length")
    def _offered_length(self, proposal: Any) -> int:
        lengths = [case["length"] for case in self._offered()]
        if proposal["value"] not in lengths:
            raise traitlets.TraitError(f"length must be one of {lengths}; got {proposal['value']}")
        return int(proposal["value"])

    def _offered(self) -> list[dict[str, Any]]:
        return [case for case in self.cases if case["unit"] == self.unit]

    def weights(self, length: int | None = None, sequence: int | None = None) -> Tensor:
        """Return the attention weights (m, n) of a sequence, by default of the one shown, to the digits shown.

        Args:
            length: one of the lengths that were handed over.
            sequence: which of its sequences, counted from 1.

        Raises:
            ValueError: if there is no such length or sequence.
        """
        length = self.length if length is None else length
        sequence = self.sequence if sequence is None else sequence
        for case in self._offered():
            if case["length"] == length and 1 <= sequence <= len(case["read"]):
                return torch.tensor(case["weights"][sequence - 1], dtype=torch.float64) / 1000
        raise ValueError(f"no sequence {sequence} of length {length} was handed over")

    def static_html(self) -> str:
        """Return the accuracy by length and the texts of the chosen sequence as tables; in the small form the texts."""
        if self.compact:
            shown = [case for case in self.cases if case["unit"] == "word" or case["length"] in (4, 12, self.length)]
            return "\n".join(map(self._texts, sorted(shown, key=lambda case: case["unit"] != self.unit)))
        offered = self._offered()
        caption = f"Share of {self.unit}s right, by length. {self.note}".strip()
        shares = [list(map(rounded, case["accuracy"])) for case in offered]
        by_length = html_table(caption, [str(case["length"]) for case in offered], list(NETWORKS.values()), shares)
        return f"{by_length}\n{self._texts(next(case for case in offered if case['length'] == self.length))}"

    def _texts(self, case: dict[str, Any]) -> str:
        names = {"read": "read", "wanted": "to be written", **{key: f"{name} wrote" for key, name in NETWORKS.items()}}
        texts = [case[key][self.sequence - 1] for key in names]
        columns = {f"{case['unit']}s": texts}
        if "glosses" in case:
            written = [" ".join(case["glosses"].get(word, word) for word in text.split()) for text in texts[1:]]
            columns["in English, word by word"] = [texts[0], *written]
        title = f"Sequence {self.sequence} of {case['length']} {case['unit']}{'s' * (case['length'] > 1)}"
        return html_table(title, list(names.values()), list(columns), list(zip(*columns.values(), strict=True)))


def _first_state(
    plain: Seq2Seq,
    attentive: Seq2Seq,
    test_sets: TestSets,
    examples: int = EXAMPLES,
    *,
    length: int | None,
    sequence: int,
    step: int,
) -> dict[str, Any]:
    """Check what is to be shown, let both networks write, and return the traits that hold it."""
    check_size("examples", examples, minimum=1)
    _check_model("plain", plain, attends=False)
    _check_model("attentive", attentive, attends=True)
    cases = [_case(plain, attentive, n, *pairs, examples) for n, pairs in _checked(test_sets, examples)]
    length = cases[-1]["length"] if length is None else length
    check_one_of("length", length, [case["length"] for case in cases])
    chosen = next(case for case in cases if case["length"] == length)
    _check_number("sequence", sequence, examples)
    _check_number("step", step, _steps(chosen))
    return {"cases": cases, "length": length, "sequence": sequence, "step": step}


def _check_number(name: str, number: int, most: int) -> None:
    check_size(name, number, minimum=1)
    if number > most:
        raise ValueError(f"{name} must lie between 1 and {most}; got {number}")


def _steps(case: dict[str, Any]) -> int:
    return len(case["wanted"][0].split())


def _case(
    plain: Seq2Seq, attentive: Seq2Seq, length: int, source: Tensor, target: Tensor, examples: int
) -> dict[str, Any]:
    """Let both networks write every sequence of one length; keep the texts and weights of the first ones."""
    wrote, weights = {}, torch.empty(0)
    for name, model in (("plain", plain), ("attentive", attentive)):
        tokens, returned = model.generate(source.to(next(model.parameters()).device), target.size(1))
        wrote[name] = tokens.cpu()
        weights = returned.cpu() if returned is not None else weights
    texts = {"read": source.cpu(), "wanted": target.cpu(), **wrote}
    return {
        "unit": "letter",
        "length": length,
        "total": len(source),
        "accuracy": [(tokens == texts["wanted"]).double().mean().item() for tokens in wrote.values()],
        **{name: [spell(row) for row in ids[:examples]] for name, ids in texts.items()},
        "weights": _thousandths(weights[:examples]),
    }


def _sentence(read: str, wanted: str, plain: str, attentive: str, weights: Tensor) -> dict[str, Any]:
    """Return a sentence as a case with one sequence; as many words as are wanted are kept of what was written."""
    words, right = split_words(read), split_words(wanted)
    n, m = len(words), len(right)
    check_float_tensor("the weights of a sentence", weights)
    if weights.dim() != 2 or weights.size(1) != n:
        raise ValueError(f"the weights of {read!r} must be (words written, {n}); got {tuple(weights.shape)}")
    rows = torch.zeros(m, n)
    rows[: len(weights)] = weights[:m]
    wrote = {name: [*split_words(text), *"–" * m][:m] for name, text in (("plain", plain), ("attentive", attentive))}
    return {
        "unit": "word",
        "length": n,
        "total": 1,
        "accuracy": [sum(map(str.__eq__, written, right)) / m for written in wrote.values()],
        **{name: [" ".join(text)] for name, text in {"read": words, "wanted": right, **wrote}.items()},
        "weights": _thousandths(rows[None]),
        "glosses": {word: GLOSSES[word] for text in (right, *wrote.values()) for word in text if word in GLOSSES},
    }


def _thousandths(weights: Tensor) -> list[Any]:
    """Return weights in whole thousandths, the digits that are shown, which also fill a page less than floats do."""
    return list((1000 * weights).round().int().tolist())


def _check_model(name: str, model: Any, *, attends: bool) -> None:
    if not isinstance(model, Seq2Seq):
        raise TypeError(f"{name} must be a Seq2Seq; got {type(model).__name__}")
    if (model.attention != "none") != attends:
        wanted = "a network with attention" if attends else "a network without attention"
        raise ValueError(f"{name} must be {wanted}; got attention={model.attention!r}")


def _checked(test_sets: Any, examples: int) -> list[tuple[int, tuple[Tensor, Tensor]]]:
    """Return the test sets by rising length; require sources and targets that fit together."""
    if not isinstance(test_sets, Mapping):
        raise TypeError(f"test_sets must map each length to (source, target); got {type(test_sets).__name__}")
    if not test_sets:
        raise ValueError("test_sets must hold at least one length; got none")
    for n, (source, target) in test_sets.items():
        check_size("a length in test_sets", n, minimum=1)
        if source.dim() != 2 or source.size(1) != n or target.dim() != 2 or len(target) != len(source):
            raise ValueError(f"test_sets[{n}] must be source (batch, {n}) and target (batch, m); "
                             f"got {tuple(source.shape)} and {tuple(target.shape)}")  # fmt: skip
        if len(source) < examples:
            raise ValueError(f"test_sets[{n}] must hold at least {examples} sequences, as many as examples; "
                             f"got {len(source)}")  # fmt: skip
    return sorted(test_sets.items())


def _untrained() -> tuple[Seq2Seq, Seq2Seq]:
    plain, attentive = (
        Seq2Seq(11, d_hidden=32, attention=kind, generator=torch.Generator().manual_seed(0)) for kind in ("none", "dot")
    )
    return plain, attentive


def _untrained_test_sets() -> TestSets:
    return {n: copy_examples(50, n, generator=torch.Generator().manual_seed(n)) for n in (1, 2, 4, 8, 12, 16, 20)}
