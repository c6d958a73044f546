"""The trained translator in the page: type a sentence, see every matrix, close edges, remove heads, change numbers."""

import copy
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
import traitlets
from torch import Tensor

from .._validation import check_flag, check_size
from ..analysis.intervention import ATTENTIONS, Intervention, generate_with, trace
from ..data.translation import ENGLISH, ITALIAN, encode_english, join_italian, read_sentence, spell_italian, split_words
from ..models.transformer import BEGIN, END, Transformer
from ..models.translator import load_translator, pack_translator, unpack_translator
from ..notebook.display import rounded
from .base import (
    LEAST,
    LETTER,
    LINE,
    BookWidget,
    check_one_of,
    html_table,
    still_box,
    still_html,
    still_look,
    still_text,
)

__all__ = ["Translator"]

STORY = "the transformer architecture was introduced in 2017"
MOST_WORDS, MOST_PADDING = 40, 8
WIDEST = 56  # letters in a line of the still

#: What a reader may try: a full sentence, an answer, a long sentence, and one that the grammar does not make.
EXAMPLES: dict[str, Any] = {
    "the story": {"sentence": STORY, "step": 5},
    "an answer": "what about the architecture? it was introduced in 2017",
    "two nouns": "the model of the network will be tested in 2030",
    "a long one": "after the theory, the famous machine that the program uses will be improved in 2041",
    "no sentence of its grammar": "in 2017 the famous architecture was the model of the machine",
}

Example = Mapping[str, Any]


class Translator(BookWidget):
    r"""Translate in the page with the trained translator of chapter 7, and operate on it.

    Everything on the screen is computed in the browser, in double precision, with the numbers that
    :func:`~attention_tutorial.models.translator.load_translator` returns;
    :func:`~attention_tutorial.analysis.intervention.trace` computes the same matrices in PyTorch. Beside what the
    changed machine writes always stands what the unchanged one writes.

    Edges are given as ``(attention, row, column)`` or ``(attention, head, row, column)``, with the attentions
    ``"encoder"``, ``"decoder"`` (its self-attention) and ``"cross"``. A row or column is a position from 0, -1 for all,
    or a word: English for what is read, Italian for what the unchanged machine writes. A row of the decoder is the word
    that it is about to write. Without a head an edge is closed in all of them.

    Args:
        sentence: in words of ``ENGLISH``; it need not be one of the grammar.
        closed: edges to close.
        heads_off: heads ``(attention, head)`` to remove, counted from 1.
        swapped: attentions in which keys and values are exchanged.
        shift: -1, 0 or 1: how far the decoder's causal mask is shifted.
        padding: the number of padding positions after the sentence.
        unmasked: of ``"encoder"`` and ``"cross"``, where the padding is open.
        changes: numbers ``(matrix, row, column, value)`` to put into a matrix or a parameter.
        step: the word that is looked at first, counted from 1, or a word that the unchanged machine writes.
        attention: whose weights are shown first.
        head: whose weights are shown first, from 1, or 0 for the mean of all.
        examples: what is offered to try: for each name a sentence, or a mapping with ``sentence`` and any of
            ``closed``, ``heads_off``, ``swapped``, ``shift``, ``padding``, ``unmasked``, ``step``, ``attention``
            and ``head``.
        compact: the small form: the sentence, what is written, and words that may not be looked at.
        note: a line of text above.

    Raises:
        TypeError: if an argument is of another kind.
        ValueError: if a word is unknown, or there is no such place, head, attention or matrix.

    Example:
        >>> widget = Translator(closed=[("cross", "stata", "architecture")])
        >>> widget
        Translator('the transformer architecture was introduced in 2017', 1 intervention)
        >>> widget.written()
        "l'architettura transformer è stata introdotta nel 2017"
        >>> Translator("the idea was praised in 2020", closed=[("cross", -1, "praised")]).written(changed=False)
        "l'idea è stata lodata nel 2020"
    """

    module = "translator"

    text = traitlets.Unicode()
    sentence = traitlets.Unicode()
    closed: "traitlets.List[list[Any]]" = traitlets.List()
    heads_off: "traitlets.List[list[Any]]" = traitlets.List()
    swapped: "traitlets.List[list[Any]]" = traitlets.List()
    shift = traitlets.Int(0)
    padding = traitlets.Int(0)
    unmasked = traitlets.List(traitlets.Unicode())
    changes: "traitlets.List[list[Any]]" = traitlets.List()
    step = traitlets.Int(0)
    rest = traitlets.Bool(True)
    attention = traitlets.Unicode("cross")
    layer = traitlets.Int(0)
    head = traitlets.Int(0)
    matrix = traitlets.Unicode()
    corner = traitlets.List(traitlets.Int(), default_value=[0, 0])
    examples: "traitlets.List[dict[str, Any]]" = traitlets.List()
    compact = traitlets.Bool(False)
    note = traitlets.Unicode()
    machine = traitlets.Unicode()

    def __init__(
        self,
        sentence: str = STORY,
        *,
        closed: Sequence[Sequence[Any]] = (),
        heads_off: Sequence[tuple[str, int]] = (),
        swapped: Sequence[str] = (),
        shift: int = 0,
        padding: int = 0,
        unmasked: Sequence[str] = (),
        changes: Sequence[tuple[str, int, int, float]] = (),
        step: int | str | None = None,
        attention: str = "cross",
        head: int = 0,
        examples: Mapping[str, str | Example] | None = None,
        compact: bool = False,
        note: str = "",
    ) -> None:
        chosen = {
            "closed": closed,
            "heads_off": heads_off,
            "swapped": swapped,
            "shift": shift,
            "padding": padding,
            "unmasked": unmasked,
            "changes": changes,
            "step": step,
            "attention": attention,
            "head": head,
        }
        self._begin(None, sentence, chosen, examples=examples, compact=compact, note=note)

    @classmethod
    def of(cls, model: Transformer, sentence: str = STORY, **options: Any) -> Self:
        """Show your own translator, trained on the same language.

        Args:
            model: for the words of ``ENGLISH`` and ``ITALIAN``, with its norms first. The page gets its parameters in
                single precision.
            sentence: as for the class.
            **options: as for the class.

        Raises:
            TypeError: if ``model`` is not a ``Transformer``, or another argument of another kind.
            ValueError: as for the class, or if the model is for other words, has its norms last or no encoder.

        Example:
            >>> model = Transformer(len(ENGLISH), len(ITALIAN), d_model=8, num_heads=2, d_ff=8)
            >>> Translator.of(model, "the idea was praised in 2020")
            Translator('the idea was praised in 2020')
        """
        widget = cls.__new__(cls)
        apart = {name: options.pop(name) for name in ("examples", "compact", "note") if name in options}
        widget._begin(pack_translator(model, "float32"), sentence, options, **apart)
        return widget

    def _begin(
        self,
        record: Mapping[str, Any] | None,
        sentence: str,
        chosen: Mapping[str, Any],
        *,
        examples: Mapping[str, str | Example] | None = None,
        compact: bool = False,
        note: str = "",
    ) -> None:
        """Check what is to be shown, and show it."""
        check_flag("compact", compact)
        self.later = "Open the translator (0.2 MB)" if compact else ""  # the first screen does not wait for it
        machine = "" if record is None else json.dumps(record, ensure_ascii=False)
        model = _model(machine)
        offered = []
        for name, example in (EXAMPLES if examples is None else examples).items():
            settings = {"sentence": example} if isinstance(example, str) else dict(example)
            offered.append({"label": str(name), **_state_of(model, settings.pop("sentence", STORY), settings)})
        super().__init__(
            **_state_of(model, sentence, chosen),
            text=sentence,
            examples=offered,
            compact=compact,
            note=note,
            machine=machine,
        )

    def __repr__(self) -> str:
        done = self.intervention()
        count = len([*done.closed, *done.heads_off, *done.swapped, *done.unmasked, *done.changes])
        count += (done.shift != 0) + (done.padding != 0)
        interventions = f", {count} intervention{'s' * (count > 1)}" if count else ""
        return f"Translator({self.sentence!r}{interventions})"

    def intervention(self) -> Intervention:
        """Return what is done to the shown machine, for :func:`~attention_tutorial.analysis.intervention.trace`."""
        lists = {name: tuple(tuple(entry) for entry in getattr(self, name)) for name in _LISTS}
        return Intervention(**lists, shift=self.shift, padding=self.padding, unmasked=tuple(self.unmasked))

    def model(self) -> Transformer:
        """Return the translator that is shown, unchanged, in double precision."""
        return copy.deepcopy(_model(self.machine))

    def written(self, *, changed: bool = True) -> str:
        """Return what the shown machine writes; with ``changed=False``, what it would write unchanged."""
        ids, _ = generate_with(_model(self.machine), _ids(self.sentence), self.intervention() if changed else None)
        return spell_italian(ids)

    def matrices(self) -> dict[str, Tensor]:
        """Return every matrix of the shown machine when it has written its sentence, by name, float64."""
        return self._traced()[1]

    def _traced(self) -> tuple[Tensor, dict[str, Tensor]]:
        """Return what the shown machine writes, and every matrix when it has."""
        model, source, intervention = _model(self.machine), _ids(self.sentence), self.intervention()
        ids, _ = generate_with(model, source, intervention)
        return ids, trace(model, source, torch.cat([torch.tensor([BEGIN]), ids[:-1]]), intervention)

    def static_html(self) -> str:
        """Return what is written and the mean weights of cross-attention as a table."""
        ids, traced = self._traced()
        heads = [traced[name] for name in traced if name.startswith("decoder.0.cross_attention.weights.")]
        looks = torch.stack(heads).mean(dim=0)
        rows = ["(end)" if i == END else ITALIAN[i] for i in ids.tolist()]
        columns = [ENGLISH[i] for i in _ids(self.sentence).tolist()] + ["(padding)"] * self.padding
        caption = f"“{self.sentence}” becomes “{spell_italian(ids)}”."
        if self.intervention() != Intervention():
            caption += f" Unchanged, the machine writes “{self.written(changed=False)}”."
        caption += " How much each step looks at each English word: cross-attention, mean of the heads."
        table = html_table(caption, rows, columns, [[rounded(weight) for weight in row.tolist()] for row in looks])
        return f"{self._still(columns, rows, looks)}\n{table}" if self.compact else table

    def _still(self, english: list[str], italian: list[str], looks: Tensor) -> str:
        """Draw both sentences, with arcs from the chosen word to those that it looks at."""
        italian = [word for i, word in enumerate(italian, 1) if word != "(end)" or i == self.step]
        above, depth = _set_words(english, 0)
        below, height = _set_words(italian, depth + LINE)
        at = min(self.step, len(italian)) - 1
        weights = looks[at].tolist()
        shapes = [still_box(below[at], 'fill="none"')]
        seen = [j for j, weight in enumerate(weights) if weight >= LEAST]
        shapes += [still_look(below[at], above[j], weights[j]) for j in seen]
        words = zip([*english, *italian], [*above, *below], strict=True)
        shapes += [still_text(left, top, word) for word, (left, top, _) in words]
        looked = ", ".join(f"“{english[j]}” {weights[j]:.2f}" for j in seen) or f"none above {LEAST}"
        said = f"The trained machine translates. Where it looks when it writes “{italian[at]}”: {looked}."
        return still_html(max(left + width for left, _, width in [*above, *below]) + 2, height, shapes, said)


def _set_words(words: Sequence[str], top: int) -> tuple[list[tuple[int, int, int]], int]:
    """Return the box of each word, in lines of at most WIDEST letters: left edge, top and width. And where they end."""
    boxes, column = [], 0
    for word in words:
        if column and column + len(word) > WIDEST:
            top, column = top + LINE, 0
        boxes.append((LETTER * column, top, LETTER * len(word)))
        column += len(word) + 1
    return boxes, top + LINE


_LISTS = ("closed", "heads_off", "swapped", "changes")


@functools.lru_cache(maxsize=2)
def _model(machine: str) -> Transformer:
    return unpack_translator(json.loads(machine), torch.float64) if machine else load_translator(torch.float64)


def _words(sentence: str) -> list[str]:
    return [word for word in split_words(sentence) if word not in ".!"]


def _ids(sentence: str) -> Tensor:
    return encode_english([" ".join(_words(sentence))])[0]


def _state_of(model: Transformer, sentence: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check a sentence and what is done to the machine, and return the traits that say so."""
    if not isinstance(sentence, str):
        raise TypeError(f"sentence must be a str; got {type(sentence).__name__}")
    words = _words(sentence)
    if not 1 <= len(words) <= MOST_WORDS:
        raise ValueError(f"sentence must have 1 to {MOST_WORDS} words; got {len(words)}")
    for word in words:
        if word not in ENGLISH[1:]:
            read_sentence(sentence)  # it says which word is unknown, and what is near
    known = {*_LISTS, "shift", "padding", "unmasked", "step", "attention", "head"}
    if unknown := set(settings) - known:
        raise ValueError(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(sorted(known))}")
    padding, shift = settings.get("padding", 0), settings.get("shift", 0)
    check_size("padding", padding)
    if padding > MOST_PADDING:
        raise ValueError(f"padding must be at most {MOST_PADDING}; got {padding}")
    if shift not in (-1, 0, 1):
        raise ValueError(f"shift must be -1, 0 or 1; got {shift!r}")

    @functools.cache
    def italian() -> list[str]:
        """What the unchanged machine writes; it is worked out where a word of it is named."""
        return [ITALIAN[i] for i in generate_with(model, _ids(sentence))[0].tolist()]

    first: Any = model.decoder[0]
    heads = first.attention.num_heads
    step = settings.get("step")
    if isinstance(step, str):
        step = _place("step", step, italian) + 1
    elif step is not None:
        check_size("step", step, minimum=1)
    return {
        "sentence": sentence,
        "closed": [_edge(edge, words, italian, heads) for edge in settings.get("closed", ())],
        "heads_off": [_head(entry, heads) for entry in settings.get("heads_off", ())],
        "swapped": [[_one_of("swapped", name, ATTENTIONS), 0] for name in settings.get("swapped", ())],
        "shift": shift,
        "padding": padding,
        "unmasked": [_one_of("unmasked", name, ("encoder", "cross")) for name in settings.get("unmasked", ())],
        "changes": [_change(model, sentence, change) for change in settings.get("changes", ())],
        "step": step or min(2, len(words)),
        "attention": _one_of("attention", settings.get("attention", "cross"), ATTENTIONS),
        "head": _head_number(settings.get("head", 0), heads, least=0),
    }


def _one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    check_one_of(name, value, allowed)
    return str(value)


def _head_number(head: Any, heads: int, least: int) -> int:
    check_size("head", head, minimum=least)
    if head > heads:
        raise ValueError(f"head must be from {least} to {heads}; got {head}")
    return int(head)


def _place(name: str, value: Any, words_of: Callable[[], Sequence[str]]) -> int:
    """Return the position that a number or a word stands for; -1 stands for all."""
    if isinstance(value, str):
        words = list(words_of())
        if value not in words:
            raise ValueError(f"{name} must be a word of {join_italian(words)!r}; got {value!r}")
        return words.index(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int or a word; got {type(value).__name__}")
    if value < -1:
        raise ValueError(f"{name} must be at least -1; got {value}")
    return value


def _edge(edge: Sequence[Any], words: Sequence[str], italian: Callable[[], Sequence[str]], heads: int) -> list[Any]:
    if len(edge) not in (3, 4):
        raise ValueError(f"an edge must be (attention, row, column) or (attention, head, row, column); got {edge!r}")
    kind = _one_of("attention", edge[0], ATTENTIONS)
    head = _head_number(edge[1] if len(edge) == 4 else 0, heads, least=0)
    row = _place("row", edge[-2], (lambda: words) if kind == "encoder" else italian)
    column = _place("column", edge[-1], (lambda: ["<begin>", *italian()]) if kind == "decoder" else lambda: words)
    return [kind, 0, head, row, column]


def _head(entry: Sequence[Any], heads: int) -> list[Any]:
    kind, head = entry
    return [_one_of("attention", kind, ATTENTIONS), 0, _head_number(head, heads, least=1)]


def _change(model: Transformer, sentence: str, change: Sequence[Any]) -> list[Any]:
    name, row, column, value = change
    known = {**model.state_dict(), **trace(model, _ids(sentence), torch.tensor([BEGIN]))}
    if name not in known:
        raise ValueError(f"changes must be of a matrix such as 'encoder_norm' or a parameter; got {name!r}")
    check_size("row", row)
    check_size("column", column)
    if column >= known[name].size(-1):
        raise ValueError(f"column must be below {known[name].size(-1)}, the columns of {name}; got {column}")
    return [name, row, column, float(value)]
