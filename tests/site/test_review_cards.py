"""Review cards: read from the notebooks, listed on a page with folded answers, and written as a deck for Anki."""

import contextlib
import re
import sqlite3
import zipfile

from attention_book.cards import DECK, cards_of, deck_html, decks
from attention_book.levels import number_of
from attention_book.mistakes import exercises_in
from nbformat.v4 import new_markdown_cell, new_notebook
from notebook_rules import BOOK
from test_site import content
from website import soup_of

from attention_tutorial.exercises import exercises

QUESTION = "**{}. Which?** (a) One; (b) two.\n\n<details><summary>Answer</summary>\n\n(b), $x < y$.\n\n</details>"
PREDICTION = "> **Predict first.** How\n> many?\n\n<details><summary>Answer</summary>\n\nThree.\n\n</details>"


def notebook(*cells):
    return new_notebook(cells=[new_markdown_cell(f"# 1. One\n\n{cells[0]}"), *map(new_markdown_cell, cells[1:])])


def every_card():
    """Return the cards of the book."""
    return [card for path in sorted(BOOK) for card in cards_of(BOOK[path], number_of(path.stem))]


# ---- Reading them -------------------------------------------------------------------------------------------------


def test_predictions_come_in_their_order_and_questions_with_their_numbers():
    questions = f"## Questions\n\n{QUESTION.format(1)}\n\n{QUESTION.format(12)}\n\n## Summary\n\n{QUESTION.format(3)}"
    cards = list(cards_of(notebook(f"## 1.2 Two\n\n{PREDICTION}", "> **Predict first.** And then?", questions), "1"))
    assert [card.id for card in cards] == ["prediction-1-2", "prediction-1-2-2", "question-1-1", "question-1-12"]
    assert [card.front for card in cards[:3]] == ["How\nmany?", "And then?", "**Which?** (a) One; (b) two."]
    assert [card.back for card in cards[:3]] == ["Three.", "", "(b), $x < y$."]
    assert [card.place for card in cards] == ["section-1-2", "section-1-2", "questions", "questions"]


def test_an_answer_belongs_to_the_prediction_right_before_it():
    (card,) = cards_of(notebook("## 1.2 Two\n\n> **Predict first.** How?\n\nWords.\n\n" + PREDICTION[38:]), "1")
    assert card.back == ""


def test_every_question_prediction_and_typed_turn_of_the_book_is_a_card_of_its_own():
    cards = every_card()
    called = {name for stored in BOOK.values() for _, name in exercises_in(stored)}
    turns = sum(exercises()[name].typed for name in called)
    text = "\n".join(
        cell.source for notebook in BOOK.values() for cell in notebook.cells if cell.cell_type == "markdown"
    )
    assert len(cards) - turns == len(re.findall(r"^\*\*\d+\. |^> \*\*Predict first", text, re.MULTILINE)) > 40
    assert len({card.id for card in cards}) == len(cards)
    assert all(card.front.strip() for card in cards)
    assert all(card.back for card in cards if card.id.startswith("question"))
    assert not [card.id for card in cards if "<details" in card.front + card.back]


# ---- The deck -----------------------------------------------------------------------------------------------------


def notes(path):
    """Return {guid: fields} of a deck in a file."""
    with zipfile.ZipFile(path) as package:
        package.extract("collection.anki2", path.parent)
    with contextlib.closing(sqlite3.connect(path.parent / "collection.anki2")) as base:
        return {guid: fields.split("\x1f") for guid, fields in base.execute("select guid, flds from notes")}


def write(path, *cells):
    import genanki

    made = decks(iter([("notebooks/01_a", notebook(*cells))]), "Book", "https://site/")
    genanki.Package(made).write_to_file(str(path))
    return notes(path), [deck.deck_id for deck in made]


def test_a_later_deck_renews_the_cards_and_keeps_their_ids(tmp_path):
    first, ids = write(tmp_path / "a.apkg", "## Questions\n\n" + QUESTION.format(1))
    two, later = write(tmp_path / "b.apkg", "## Questions\n\n" + QUESTION.format(1).replace("Which", "Who"))
    assert ids == later == [1_607_392_500], "Anki knows a reader's deck by its number, so it can never change"
    assert first.keys() == two.keys() and first != two
    three, _ = write(tmp_path / "c.apkg", f"## Questions\n\n{QUESTION.format(1)}\n\n{QUESTION.format(2)}")
    assert first.keys() < three.keys()


def test_a_card_of_the_deck_has_formulas_for_anki_and_links_to_the_site(tmp_path):
    ((front, back, section),) = write(tmp_path / "a.apkg", "## Questions\n\n" + QUESTION.format(1))[0].values()
    assert front.startswith("<p><strong>Which?</strong>")
    assert r"\(x &lt; y\)" in back
    assert 'href="https://site/notebooks/01_a.html#questions"' in section
    assert r"\[" in deck_html("$$\nx\n$$", "notebooks/01_a", "https://site/")
    assert 'href="https://site/book/claims.html"' in deck_html(
        "[c](../book/claims.md)", "notebooks/01_a", "https://site/"
    )


def test_the_deck_of_the_site_has_every_card(site, tmp_path):
    deck = tmp_path / "deck.apkg"
    deck.write_bytes((site / DECK).read_bytes())
    assert len(notes(deck)) == len(every_card())


# ---- The page -----------------------------------------------------------------------------------------------------


def test_the_page_lists_every_card_with_its_answer_folded(site):
    soup = soup_of(site / "book" / "cards.html")
    listed = content(soup).select(".review-card")
    assert [card["id"] for card in listed] == [card.id for card in every_card()]
    assert all(len(card.select("details")) == 1 and not card.details.has_attr("open") for card in listed)
    assert f"{len(listed)} cards" in content(soup).select_one(".cards-count").get_text()
    assert not list(content(soup).select(".system-message"))
