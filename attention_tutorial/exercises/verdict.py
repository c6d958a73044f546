"""What is said about an answer: in a notebook a card, as a *Your turn* has on the page, elsewhere a line."""

import html
import re
from dataclasses import dataclass

from .judging import Diagnosis
from .runner import Outcome
from .table import SYMPTOMS

__all__ = ["Verdict"]

# Letters have the colours of the front end; the line at the side can be seen on a light and on a dark page.
RIGHT, WRONG, OPEN = "#2da44e", "#e16f24", "#848d97"
CARD = "margin: 8px 0; padding: 8px 14px; border: 1px solid #848d9766; border-left: 4px solid {}; border-radius: 8px"


@dataclass(frozen=True)
class Verdict:
    """How it stands with an answer.

    Attributes:
        name: the exercise's.
        diagnosis: what is wrong; None if the answer is right.
        ours: whether it is the book's own answer.

    Example:
        >>> Verdict("bits", None), Verdict("bits", None, ours=True), Verdict("bits", Diagnosis("that counts digits"))
        (bits: right., bits: the book's answer is right., bits: not yet. That counts digits.)
    """

    name: str
    diagnosis: Diagnosis | None
    ours: bool = False

    def __repr__(self) -> str:
        if self.diagnosis is None:
            return f"{self.name}: the book's answer is right." if self.ours else f"{self.name}: right."
        if self.diagnosis.kind is Outcome.NOT_FILLED_IN:
            return f"{self.name}: {self.diagnosis.message}."
        return "\n".join([f"{self.name}: not yet. {sentence(self.diagnosis.message)}", *self._symptom()])

    def _repr_html_(self) -> str:
        if self.diagnosis is None:
            return _card(RIGHT, "The book's answer is right." if self.ours else "<strong>Right.</strong>")
        if self.diagnosis.kind is Outcome.NOT_FILLED_IN:
            return _card(OPEN, "Your answer goes in place of the dots; then run this cell.")
        said = [html.escape(words, quote=False) for words in (sentence(self.diagnosis.message), *self._symptom())]
        return _card(WRONG, f"<strong>Not yet.</strong> {'<br>'.join(said)}")

    def _symptom(self) -> list[str]:
        wrong = self.diagnosis and self.diagnosis.wrong_answer
        if not wrong or wrong.mistake not in SYMPTOMS:
            return []
        symptom = SYMPTOMS[wrong.mistake]
        return [f'How to find it in a model of your own: "{symptom}" on the page "My model misbehaves".']


def _card(colour: str, words: str) -> str:
    return f'<div style="{CARD.format(colour)}">{words}</div>'


def sentence(message: str) -> str:
    """Write a diagnosis as a sentence.

    Example:
        >>> sentence("weights sum to 1; yours sum to 1.1")
        'Weights sum to 1; yours sum to 1.1.'
    """
    if re.match(r"(a|[a-z]{2,})([ ,:;'.]|$)", message):  # a word; names of code and symbols stay as they are
        message = message[0].upper() + message[1:]
    return message if message.endswith("?") else f"{message.rstrip('.')}."
