"""The code model in the page: type Python, see what each head looks at and what comes next, and take heads away."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import traitlets

from ..analysis.head_jobs import JOBS, JobScore, copy_score, job_scores
from ..data.byte_pairs import BEGIN
from ..models.code_model import CodeModel, Head, ModelOutput, held_out_files, load_code_model
from ..notebook.display import rounded
from .base import BOX, LETTER, BookWidget, html_table, still_box, still_html, still_text

__all__ = ["CodeReader"]

INVENTED = "def frobnicate(wug, blicket):\n    return frobnicate(w"  # the text of 9.1

#: What a reader may try: a text, or what :class:`CodeReader` takes.
EXAMPLES: dict[str, Any] = {
    "an invented name": INVENTED,
    "nonsense, twice": "gostak_distims[the]{doshes}\ngostak_distims[the]{doshes",
    "brackets in brackets": {"text": "value = outer(first[index", "head": "nearest bracket"},
    "English": "Return the name of the file. If the name is not given, return the name of the f",
}
MOST_CHARACTERS = 10_000  # of a text; no token is so long that more could be within the context
ROWS = 12  # of the table for pages without a script
GAP, ROOM = 2, 40  # of the still: between tokens, and above each line, for arrows and their labels

Example = Mapping[str, Any]


class CodeReader(BookWidget):
    """Read Python with the small language model of chapter 9, look into its heads, and take some away.

    Everything on the screen is computed in the browser, in double precision, with the numbers that
    :func:`~attention_tutorial.models.code_model.load_code_model` returns. Where heads are taken away, what the whole
    model says stands beside.

    Args:
        text: what it reads, at most 255 tokens.
        head: the head whose weights are shown, as ``(layer, head)`` from 1, or a job of
            ``attention_tutorial.analysis.head_jobs.JOBS``: the head that does it best.
        token: the token that is looked at. 0 is the one that begins every text, -1 the last.
        heads_off: heads to take away.
        examples: what is offered to try: for each name a text, or a mapping with ``text`` and any of ``head``,
            ``token`` and ``heads_off``.
        note: a line of text above.

    Raises:
        TypeError: if an argument is of another kind.
        ValueError: if the text has too many tokens, or there is no such head, job or token.

    Example:
        >>> reader = CodeReader("for i in ra", heads_off=[(2, 1)])
        >>> reader
        CodeReader('for i in ra', head=(2, 1), without head 2.1)
        >>> reader.read().logits.shape
        torch.Size([1, 8, 1024])
    """

    module = "code_reader"
    later = "Open the code model (0.5 MB)"

    text = traitlets.Unicode()
    head = traitlets.List(traitlets.Int())
    token = traitlets.Int(-1)
    heads_off: "traitlets.List[list[int]]" = traitlets.List()
    jobs: "traitlets.List[dict[str, Any]]" = traitlets.List()
    examples: "traitlets.List[dict[str, Any]]" = traitlets.List()
    note = traitlets.Unicode()
    temperature = traitlets.Float(1.0, min=0.1, max=2.0)  # of the next token that a reader draws
    top_k = traitlets.Enum([0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500], default_value=0)  # 0 is among all tokens

    def __init__(
        self,
        text: str = INVENTED,
        *,
        head: Head | str = "copy",
        token: int = -1,
        heads_off: Sequence[Head] = (),
        examples: Mapping[str, str | Example] | None = None,
        note: str = "",
    ) -> None:
        offered = []
        for label, example in (EXAMPLES if examples is None else examples).items():
            settings = {"text": example} if isinstance(example, str) else dict(example)
            known = {"text", "head", "token", "heads_off"}
            if unknown := set(settings) - known:
                raise ValueError(f"examples may have {', '.join(sorted(known))}; got {', '.join(sorted(unknown))}")
            offered.append({"label": str(label), **_state_of(**settings)})
        state = _state_of(text, head, token, heads_off)
        super().__init__(**state, jobs=_jobs(), examples=offered, note=note)

    def __repr__(self) -> str:
        without = f", without {_say_heads(self.heads_off)}" if self.heads_off else ""
        return f"CodeReader({self.text!r}, head={tuple(self.head)}{without})"

    def read(self) -> ModelOutput:
        """Return what the model, without the heads that are taken away, makes of the text that is shown, in float64.

        Of a text that is too long, as a reader may type it, the model reads as many tokens as it can.
        """
        model = _model()
        ids = [BEGIN, *model.tokens.encode(_well_formed(self.text)[:MOST_CHARACTERS])][: model.context]
        with torch.no_grad():
            return model(torch.tensor([ids]), [(layer, head) for layer, head in self.heads_off])

    def _still(self) -> str:
        """Draw what a page shows until it has the model: the tokens, where the chosen head looks, and what follows.

        Of a head of layer 2, the step before is drawn as well: where a head of layer 1 looks from the token it finds.
        """
        model, read = _model(), self.read()
        texts = [model.tokens.text(i) for i in model.encode(self.text)[0].tolist()]
        start, length = self.token % len(texts), len(texts)
        chance, likeliest = read.logits[0, -1].softmax(dim=-1).max(dim=0)
        texts += [model.tokens.text(int(likeliest))] * (start == length - 1)
        boxes, left, top = [], -GAP - 5, ROOM  # of each token the part in its last line: left edge, top and width
        for text in texts:
            *above, part = text.split("\n")
            left, top = (1 if above else left + GAP), top + len(above) * (BOX + ROOM)
            boxes.append((left, top, LETTER * len(part) + 4))
            left += boxes[-1][2]
        shapes = [still_box(box, 'fill="none" stroke-opacity="0.25"') for box in boxes[1:length]]
        shapes += [still_text(box[0] + 2, box[1], text.split("\n")[-1]) for text, box in zip(texts, boxes, strict=True)]
        names, said = ["(start)", *map(_visible, texts[1:])], []
        if len(names) > length:
            shapes.append(still_box(boxes[-1], 'fill="none" stroke-dasharray="3"'))
            shapes.append(_still_label(left + 4, top + BOX - 6, f"{chance:.2f}"))
            said.append(f"Next: “{names[-1]}” ({chance:.2f}).")
        for layer, head in [tuple(self.head), _scores()["previous"].best()][: self.head[0]]:
            looks = read.weights[layer - 1][0, head - 1, start].tolist()
            to = max(range(min(1, start), start + 1), key=looks.__getitem__)  # at token 0 a head finds nothing
            shapes += _still_step(boxes[start], boxes[to], f"head {layer}.{head}: {looks[to]:.2f}")
            look = f"head {layer}.{head} looks at “{names[to]}” ({looks[to]:.2f})"
            said.insert(0, f"Layer {layer}: from “{names[start]}”, {look}.")
            start = to
        width = max(left + width for left, _, width in (*boxes, (left, 0, 36)))
        return still_html(width + 2, top + BOX + 4, shapes, " ".join(said), scale=1.7)

    def static_html(self) -> str:
        """Return a table: the last tokens, what the model expects after each, and where the chosen head looks."""
        model, read = _model(), self.read()
        ids = model.encode(self.text)[0].tolist()
        layer, head = self.head
        names = ["(start)", *(_visible(model.tokens.text(i)) for i in ids[1:])]
        guesses = read.logits[0].softmax(dim=-1).max(dim=-1)
        looks = read.weights[layer - 1][0, head - 1].max(dim=-1)
        shown = range(max(len(ids) - ROWS, 0), len(ids))
        cells = [
            [
                f"{_visible(model.tokens.text(int(guesses.indices[i])))} ({rounded(float(guesses.values[i]))})",
                f"{names[int(looks.indices[i])]} ({rounded(float(looks.values[i]))})",
            ]
            for i in shown
        ]
        without = f" without {_say_heads(self.heads_off)}" if self.heads_off else ""
        caption = (
            f"The last {len(shown)} of {len(ids)} tokens that the code model{without} reads: what it expects next, and "
            f"where head {layer}.{head} looks most."
        )
        columns = ["expects (probability)", f"head {layer}.{head} looks at (weight)"]
        return f"{self._still()}\n{html_table(caption, [names[i] for i in shown], columns, cells)}"


def _still_step(start: tuple[int, int, int], end: tuple[int, int, int], label: str) -> list[str]:
    """Draw an arrow from the upper edge of a box to the nearer edge of another, in the same line its upper one."""
    x, y, to = start[0] + start[2] / 2, start[1], end[0] + end[2] / 2
    tip, side = (end[1], -7) if end[1] == y else (end[1] + BOX, 7)
    bend = ROOM if side < 0 else (y - tip) / 2
    curve = f"M{x} {y}C{x} {y - bend} {to} {tip + side / 7 * bend} {to} {tip + side}"
    return [
        *(still_box(box, 'fill="none"') for box in (start, end)),
        f'<path d="{curve}" fill="none"/><path d="M{to - 4} {tip + side}h8L{to} {tip}z" stroke="none"/>',
        _still_label(to - 10, tip + side / 7 * ROOM * 0.6 + 2, label, "end"),
    ]


def _still_label(x: float, y: float, text: str, anchor: str = "start") -> str:
    look = 'stroke="none" style="font-family: var(--book-sans, sans-serif)" font-size="12"'
    return f'<text x="{x}" y="{y:g}" {look} text-anchor="{anchor}">{text}</text>'


@functools.cache
def _model() -> CodeModel:
    return load_code_model(torch.float64)


@functools.cache
def _scores() -> dict[str, JobScore]:
    """Test each head for each job: on two passages of every file that the model never saw, and on random tokens."""
    model = load_code_model(torch.float32)
    length = model.context - 1
    texts = [model.tokens.encode(text) for text in held_out_files().values()]
    rows = [[BEGIN, *ids[at : at + length]] for ids in texts for at in (0, len(ids) - length)]
    copying = copy_score(model, 8, 64, torch.Generator().manual_seed(9))
    return {**job_scores(model, torch.tensor(rows)), "copy": copying}


def _jobs() -> list[dict[str, Any]]:
    """List the jobs that heads hold, with the weight that ``JOBS`` asks for and twice the decoy's, the surest first."""
    found = []
    for job, score in _scores().items():
        looks_at, least = JOBS[job]
        held = (score.target >= least) & (score.target >= 2 * score.decoy)
        for layer, head in held.nonzero().tolist():
            record = {"head": [layer + 1, head + 1], "job": job, "looks_at": looks_at}
            found.append((float(score.target[layer, head]), record))
    return [record for _, record in sorted(found, key=lambda pair: -pair[0])]


def _visible(text: str) -> str:
    return text.replace("\n", "⏎").replace(" ", "·")


def _well_formed(text: str) -> str:
    """Replace halves of surrogate pairs by U+FFFD, as a browser does: they are no text."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _say_heads(heads: Sequence[Sequence[int]]) -> str:
    return f"head{'s' * (len(heads) > 1)} " + ", ".join(f"{layer}.{head}" for layer, head in heads)


def _state_of(text: Any, head: Any = "copy", token: Any = -1, heads_off: Any = ()) -> dict[str, Any]:
    """Check what is to be shown, and return the traits that say so."""
    if not isinstance(text, str):
        raise TypeError(f"text must be a str; got {type(text).__name__}")
    text = _well_formed(text)
    length = _model().encode(text).size(1)
    if isinstance(head, str):
        if head not in JOBS:
            raise ValueError(f"head must be (layer, head) or one of {', '.join(map(repr, JOBS))}; got {head!r}")
        head = _scores()[head].best()
    if not isinstance(token, int) or isinstance(token, bool):
        raise TypeError(f"token must be an int; got {type(token).__name__}")
    if not -length <= token < length:
        raise ValueError(f"token must be from {-length} to {length - 1}; got {token}")
    return {
        "text": text,
        "head": _checked("head", head),
        "token": token if token >= -1 else token + length,
        "heads_off": sorted({tuple(_checked("heads_off", one)) for one in heads_off}),
    }


def _checked(name: str, head: Any) -> list[int]:
    """Return a head as a list."""
    model = _model()
    first: Any = model.layers[0]
    layers, heads = range(1, len(model.layers) + 1), range(1, first.num_heads + 1)
    if not isinstance(head, Sequence) or len(head) != 2 or head[0] not in layers or head[1] not in heads:
        expected = f"(layer, head) from (1, 1) to ({layers[-1]}, {heads[-1]})"
        raise ValueError(f"{name} must be {expected}; got {head!r}")
    return list(head)
