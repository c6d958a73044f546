"""Review cards: the questions, predictions and short turns of all chapters, on one page and as a deck for Anki.

    ```{review-cards}
    ```

becomes a list of them, chapter by chapter, with folded answers and a link to the deck. Both are made from the notebooks
when the site is built.

A card is known by its chapter and number (`question-1-3`), a prediction by its section (`prediction-1-5`, then
`prediction-1-5-2`), a *Your turn* by its name (`turn-sat-gives-cat`). The ids of the deck's notes are made of these, so
that a later deck renews a card and keeps what Anki knows of its reader.
"""

import html
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin

import genanki
from docutils import nodes
from docutils.statemachine import StringList
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attention_tutorial.exercises import exercises

from .anchors import lasting_id
from .levels import chapter_of, number_of
from .mistakes import exercises_in
from .notebooks import predictions, read_chapters, read_notebook, title_of
from .tables import inline

DECK = "_static/attention.apkg"
# Anki knows its decks and kinds of notes by such numbers; they must stay.
MODEL, FIRST_DECK = 1_607_392_301, 1_607_392_400
QUESTIONS = re.compile(r"^## Questions$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
QUESTION = re.compile(
    r"^\*\*(?P<number>\d+)\. (?P<asked>.*?)\s*<details><summary>Answer</summary>\n\n(?P<answer>.*?)\n\n</details>",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\((?![a-z]+:)([^)\s]*)\)")


class Card(NamedTuple):
    """A card; its sides are Markdown as the chapter has it. `place` is the address of its section within the page."""

    id: str
    section: str
    place: str
    front: str
    back: str


def questions(notebook: NotebookNode) -> list[tuple[int, str, str]]:
    r"""Return (number, question, answer) of each question of a chapter.

    Example:
        >>> from nbformat.v4 import new_markdown_cell, new_notebook
        >>> text = "**1. Which?** (a) One; (b) two.\n\n<details><summary>Answer</summary>\n\n(b).\n\n</details>"
        >>> questions(new_notebook(cells=[new_markdown_cell(f"## Questions\n\n{text}")]))
        [(1, '**Which?** (a) One; (b) two.', '(b).')]
    """
    text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    section = QUESTIONS.search(text)
    matches = QUESTION.finditer(section[1]) if section else ()
    return [(int(match["number"]), f"**{match['asked']}", match["answer"].strip()) for match in matches]


def turns(notebook: NotebookNode) -> Iterator[Card]:
    """Yield a card for each *Your turn* of a chapter whose answer can be typed."""
    for heading, name in exercises_in(notebook):
        exercise = exercises()[name]
        if exercise.typed:
            right = exercise.right
            answer = f"{right:.3g}" if isinstance(right, float) else str(right)
            place = lasting_id(heading) or nodes.make_id(heading)
            yield Card(f"turn-{name}".replace("_", "-"), heading, place, exercise.prompt, answer)


def cards_of(notebook: NotebookNode, number: str) -> Iterator[Card]:
    """Yield the cards of a notebook, whose title has this number: predictions in their order, turns, then questions."""
    seen: Counter[str] = Counter()
    for section, asked, answer in predictions(notebook):
        place = lasting_id(section) or nodes.make_id(section)
        seen[place] += 1
        id = place.replace("section-", "prediction-", 1) + (f"-{seen[place]}" if seen[place] > 1 else "")
        yield Card(id, section, place, asked, answer)
    yield from {card.id: card for card in turns(notebook)}.values()  # its answer calls the check a second time
    for question, asked, answer in questions(notebook):
        yield Card(f"question-{number}-{question}", "Questions", "questions", asked, answer)


def relinked(text: str, docname: str, address: Callable[[str], str]) -> str:
    """Return a chapter's Markdown with links that work elsewhere.

    Example:
        >>> relinked("[1a](01a_b.ipynb#x), [here](#y), [out](https://c.d)", "notebooks/01_a", lambda path: f"../{path}")
        '[1a](../notebooks/01a_b.ipynb#x), [here](../notebooks/01_a.ipynb#y), [out](https://c.d)'
    """

    def moved(match: re.Match[str]) -> str:
        path, hash, anchor = match[1].partition("#")
        own = f"{docname}.ipynb" if not path else posixpath.normpath(posixpath.join(posixpath.dirname(docname), path))
        return f"]({address(own)}{hash}{anchor})"

    return LINK.sub(moved, text)


# ---- The page -----------------------------------------------------------------------------------------------------


class CardsDirective(SphinxDirective):
    """Set all cards, a section for each notebook that has some."""

    def run(self) -> list[nodes.Node]:
        """Return a line with the deck, and the list."""
        here = self.env.docname
        deck = posixpath.relpath(DECK, posixpath.dirname(here) or ".")
        sections: list[nodes.Node] = []
        count = 0
        for docname, notebook in read_chapters(self.env):
            cards = list(cards_of(notebook, number_of(docname)))
            if cards:
                sections.append(self._section(docname, title_of(notebook, docname), cards))
                count += len(cards)
        link = nodes.reference("", "the same cards as a deck for Anki", refuri=deck, internal=True)
        line = nodes.paragraph("", f"{count} cards; ", link, nodes.Text("."), classes=["cards-count"])
        return [line, *sections]

    def _section(self, docname: str, title: str, cards: list[Card]) -> nodes.section:
        page = self.env.app.builder.get_relative_uri(self.env.docname, docname)
        link = nodes.title("", "", nodes.reference("", "", *inline(title), refuri=page, internal=True))
        section = nodes.section("", link, ids=[nodes.make_id(f"cards-of-{posixpath.basename(docname)}")])
        for card in cards:
            from_ = nodes.reference("", "", *inline(card.section), refuri=f"{page}#{card.place}", internal=True)
            section += _raw(f'<div class="review-card" id="{card.id}">')
            section += nodes.paragraph("", "", from_, classes=["review-from"])
            section += self._parsed(card.front, docname)
            section += _raw("<details><summary>Answer</summary>")
            section += self._parsed(card.back, docname) if card.back else [_see(card, page)]
            section += _raw("</details></div>")
        return section

    def _parsed(self, text: str, docname: str) -> list[nodes.Node]:
        """Return a chapter's Markdown as nodes of this page."""
        home = posixpath.dirname(self.env.docname)
        moved = relinked(text, docname, lambda path: posixpath.relpath(path, home or "."))
        holder = nodes.container()
        self.state.nested_parse(StringList(moved.splitlines(), docname), self.content_offset, holder)
        return holder.children


def _see(card: Card, page: str) -> nodes.paragraph:
    """Say where the answer of a prediction is, which the chapter finds out step by step."""
    link = nodes.reference("", "", *inline(card.section), refuri=f"{page}#{card.place}", internal=True)
    return nodes.paragraph("", "The chapter finds out: see ", link, nodes.Text("."))


def _raw(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


# ---- The deck -----------------------------------------------------------------------------------------------------

LOOK = """
.card { font: 1.15rem/1.5 system-ui, sans-serif; max-width: 38rem; margin: 1rem auto; padding: 0 1rem; }
.from { font-size: 0.85rem; opacity: 0.75; }
"""
SIDES = {
    "name": "Card",
    "qfmt": '<p class="from">{{Section}}</p>{{Front}}',
    "afmt": "{{FrontSide}}<hr id=answer>{{Back}}",
}


def _as_anki(tex: str, options: dict[str, bool]) -> str:
    """Return a formula between the marks at which Anki runs its MathJax."""
    opening, closing = (r"\[", r"\]") if options.get("display_mode") else (r"\(", r"\)")
    return f"{opening}{html.escape(tex)}{closing}"


def deck_html(text: str, docname: str, site: str) -> str:
    r"""Return a chapter's Markdown as HTML for Anki; its links lead to the site.

    Example:
        >>> deck_html("Is $a < b$? See [here](#x).", "notebooks/01_a", "https://site/")
        '<p>Is <span class="math inline">\\(a &lt; b\\)</span>? See <a href="https://site/notebooks/01_a.html#x">here</a>.</p>\n'
    """
    moved = relinked(text, docname, lambda path: urljoin(site, re.sub(r"\.(ipynb|md)$", ".html", path)))
    return str(MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, renderer=_as_anki).render(moved))


def decks(chapters: Iterator[tuple[str, NotebookNode]], book: str, site: str) -> list[genanki.Deck]:
    """Return a deck for each notebook that has cards, as parts of one deck of the book."""
    fields = [{"name": name} for name in ("Front", "Back", "Section")]
    model = genanki.Model(MODEL, book, fields=fields, templates=[SIDES], css=LOOK)
    titled = []
    for docname, notebook in chapters:
        number, title = number_of(docname), title_of(notebook, docname)
        cards = list(cards_of(notebook, number))
        if not cards:
            continue
        letter = ord(number[-1]) - ord("a") + 1 if number[-1].isalpha() else 0
        deck = genanki.Deck(FIRST_DECK + 100 * chapter_of(docname) + letter, f"{book}::{title.replace('$', '')}")
        for card in cards:
            page = urljoin(site, f"{docname}.html#{card.place}")
            back = deck_html(card.back or f"The chapter finds out: see [{card.section}](#{card.place}).", docname, site)
            front = deck_html(card.front, docname, site)
            section = f'<a href="{html.escape(page)}">{deck_html(card.section, docname, site)[3:-5]}</a>'
            guid = genanki.guid_for("attention-tutorial", card.id)
            tags = [f"chapter-{chapter_of(docname)}"]
            deck.add_note(genanki.Note(model, [front, back, section], guid=guid, tags=tags))
        titled.append(deck)
    return titled


def write_deck(app: Sphinx) -> None:
    """Write the deck into the site's static folder."""
    names = sorted(name for name in app.env.found_docs if name.startswith("notebooks/"))
    paths = [(name, Path(app.env.doc2path(name))) for name in names]
    chapters = ((name, read_notebook(path)) for name, path in paths if path.suffix == ".ipynb")
    made = decks(chapters, app.config.project, app.config.html_baseurl)
    genanki.Package(made).write_to_file(str(Path(app.outdir) / DECK))
