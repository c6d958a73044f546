"""Review cards: read from the notebooks, listed on a page, asked one at a time, and written as a deck for Anki."""

import contextlib
import json
import re
import sqlite3
import zipfile

import page_faults
import pytest
from attention_book.cards import DECK, FOLDER, cards_of, deck_html, decks
from attention_book.levels import chapter_of, number_of
from attention_book.mistakes import exercises_in
from nbformat.v4 import new_markdown_cell, new_notebook
from notebook_rules import BOOK
from test_site import content
from website import hard_to_tap, soup_of

from attention_tutorial.exercises import exercises
from tools.browser import serve

QUESTION = "**{}. Which?** (a) One; (b) two.\n\n<details><summary>Answer</summary>\n\n(b), $x < y$.\n\n</details>"
PREDICTION = "> **Predict first.** How\n> many?\n\n<details><summary>Answer</summary>\n\nThree.\n\n</details>"


def notebook(*cells):
    return new_notebook(cells=[new_markdown_cell(f"# 1. One\n\n{cells[0]}"), *map(new_markdown_cell, cells[1:])])


def every_card(chapter=None):
    """Return the cards of the book, or of one chapter with its deep notebooks."""
    chosen = [path for path in sorted(BOOK) if chapter in (None, chapter_of(path.stem))]
    return [card for path in chosen for card in cards_of(BOOK[path], number_of(path.stem))]


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
    (tmp_path / DECK).write_bytes((site / "_static" / FOLDER / DECK).read_bytes())
    assert len(notes(tmp_path / DECK)) == len(every_card())


# ---- The page -----------------------------------------------------------------------------------------------------


def test_the_page_lists_every_card_with_its_answer_folded(site):
    soup = soup_of(site / "book" / "cards.html")
    listed = content(soup).select(".review-card")
    assert [card["id"] for card in listed] == [card.id for card in every_card()]
    assert all(len(card.select("details")) == 1 and not card.details.has_attr("open") for card in listed)
    assert f"{len(listed)} cards" in content(soup).select_one(".cards-count").get_text()
    assert not list(content(soup).select(".system-message"))


@pytest.fixture(scope="module")
def address(site):
    with serve(site) as url:
        yield f"{url}/book/cards.html"


@pytest.fixture
def review(browser, address, site):
    """Return `open_page(way, ...)`: the page of cards in a browser that has kept nothing. No script may have failed."""
    contexts, failures = [], []

    def open_page(way="http", kept=None, **options):
        context = browser.new_context(reduced_motion="reduce", **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: failures.append(str(error)))
        place = address if way == "http" else (site / "book" / "cards.html").as_uri()
        page.goto(place)
        if kept is not None:
            page.evaluate("kept => localStorage.setItem('review cards', kept)", kept)
            again(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert failures == []


def current(page):
    """Return the ids of the cards that are in sight."""
    return page.eval_on_selector_all(".review-card", "all => all.filter(x => x.checkVisibility()).map(x => x.id)")


def press(page, name):
    page.get_by_role("button", name=re.compile(f"^{name}")).click()


def again(page):
    """Load the page once more; a file a moment later: under load one that was loaded at once had lost an answer."""
    if page.url.startswith("file:"):
        page.wait_for_timeout(250)
    page.reload()


def kept(page):
    return json.loads(page.evaluate("localStorage.getItem('review cards')") or "{}")


def reply(page, name):
    press(page, "Show the answer")
    press(page, name)


IDS = [card.id for card in every_card()]
IDS_OF_1, IDS_OF_2 = ([card.id for card in every_card(chapter)] for chapter in (1, 2))


@pytest.mark.parametrize("way", ["http", "file"])
def test_cards_are_asked_one_at_a_time_and_the_place_is_kept(review, way):
    page = review(way)
    assert current(page) == IDS[:1]
    assert kept(page) == {}, "nothing is kept before the first answer"
    assert not page.locator(".review-current details").evaluate("fold => fold.open")
    reply(page, "I knew it")
    assert current(page) == IDS[1:2]
    reply(page, "Not yet")
    assert current(page) == IDS[2:3]
    again(page)
    assert current(page) == IDS[2:3]
    assert {id: answered["box"] for id, answered in kept(page)["answered"].items()} == {IDS[0]: 1, IDS[1]: 0}


def test_a_card_that_was_not_known_comes_back_after_six_others(review):
    page = review()
    reply(page, "Not yet")
    seen = []
    for _ in range(7):
        seen += current(page)
        reply(page, "I knew it")
    assert seen == [*IDS[1:7], IDS[0]]


def test_going_back_takes_an_answer_back(review):
    page = review()
    assert not page.get_by_role("button", name="Go back").is_visible()
    reply(page, "I knew it")
    reply(page, "Not yet")
    press(page, "Go back")
    assert current(page) == IDS[1:2] and list(kept(page)["answered"]) == IDS[:1]
    press(page, "Go back")
    assert current(page) == IDS[:1] and kept(page)["answered"] == {}
    assert not page.get_by_role("button", name="Go back").is_visible()


def test_a_chapter_is_asked_alone_and_stays_chosen(review):
    page = review()
    titles = page.get_by_role("combobox", name="Ask").locator("option").all_inner_texts()
    assert titles[:2] == ["All chapters", "0. The PyTorch you need"] and not any("#" in title for title in titles)
    page.get_by_role("combobox", name="Ask").select_option("2")
    assert current(page) == IDS_OF_2[:1]
    reply(page, "I knew it")
    again(page)
    assert current(page) == IDS_OF_2[1:2]
    assert page.get_by_role("combobox", name="Ask").input_value() == "2"
    page.get_by_role("combobox", name="Ask").select_option("")
    assert current(page) == IDS[:1]


def test_when_all_are_known_the_page_says_when_the_next_comes_and_asks_all_the_same(review):
    page = review()
    page.get_by_role("combobox", name="Ask").select_option("1")
    for _ in IDS_OF_1:
        reply(page, "I knew it")
    assert current(page) == []
    assert page.locator(".review-done").inner_text() == (
        "Nothing is to be asked now. The next card comes back tomorrow."
    )
    press(page, "Ask me all the same")
    assert current(page) == IDS_OF_1[:1]
    reply(page, "I knew it")
    assert kept(page)["answered"][IDS_OF_1[0]]["box"] == 1, "a card asked before its time stays in its box"


def test_a_card_rests_longer_each_time_and_comes_back_when_it_is_due(review):
    page = review()
    page.clock.install(time="2026-03-01T12:00:00")
    again(page)
    page.get_by_role("combobox", name="Ask").select_option("1")
    for day, box in [(1, 1), (2, 2), (4, 3)]:
        page.clock.set_system_time(f"2026-03-0{day}T12:00:00")
        again(page)
        assert current(page) == IDS_OF_1[:1]
        reply(page, "I knew it")
        assert kept(page)["answered"][IDS_OF_1[0]]["box"] == box
    page.clock.set_system_time("2026-03-07T12:00:00")
    again(page)
    assert current(page) == IDS_OF_1[1:2]


def test_the_keyboard_is_enough(review):
    page = review()
    page.get_by_role("button", name="Show the answer").focus()
    page.keyboard.press("Enter")
    assert page.locator(".review-current details").evaluate("fold => fold.open")
    page.keyboard.press("2")
    assert current(page) == IDS[1:2]
    page.keyboard.press("1")
    assert current(page) == IDS[1:2], "no reply before the answer was seen"
    page.keyboard.press("Space")
    page.keyboard.press("1")
    assert current(page) == IDS[2:3]
    page.keyboard.press("ArrowLeft")
    assert current(page) == IDS[1:2]
    page.locator("body").evaluate("() => document.activeElement.blur()")
    page.keyboard.press("Space")
    assert not page.locator(".review-current details").evaluate("fold => fold.open"), "typed elsewhere"


def test_the_list_shows_all_and_forgets_when_one_is_sure(review):
    page = review()
    reply(page, "I knew it")
    press(page, "Show all as a list")
    assert current(page) == IDS
    press(page, "Forget my answers")
    assert kept(page)["answered"]
    press(page, "Forget them")
    assert kept(page)["answered"] == {}
    press(page, "Ask one at a time")
    assert current(page) == IDS[:1]


CORRUPT = [
    "",
    "{",
    "null",
    "[1]",
    '"word"',
    '{"chapter": 7, "count": -1, "answered": [1]}',
    '{"chapter": "99", "count": "x", "answered": {"a": null}}',
    json.dumps({"answered": {IDS[0]: {"box": 99, "due": 0, "at": 0}}}),
    json.dumps({"answered": {IDS[0]: {"box": 1, "due": "never", "at": 0}}}),
    json.dumps({"answered": {"__proto__": {"box": 1, "due": 1, "at": 1}}}),
]


def test_what_was_kept_wrongly_is_overlooked(review):
    page = review()
    for stored in CORRUPT:
        page.evaluate("kept => localStorage.setItem('review cards', kept)", stored)
        again(page)
        assert current(page) == IDS[:1], stored
        reply(page, "I knew it")
        assert current(page) == IDS[1:2] and IDS[0] in kept(page)["answered"], stored


def test_of_what_was_kept_only_the_wrong_part_is_lost(review):
    good = {"box": 1, "due": 99_999_999, "at": 1}
    page = review(
        kept=json.dumps(
            {"count": 1, "answered": {IDS[0]: good, IDS[1]: {**good, "box": 99}, IDS[2]: {**good, "at": -1}}}
        )
    )
    assert current(page) == IDS[1:2]


FORBIDS = """for (const name of ["getItem", "setItem"]) {
    const method = Storage.prototype[name];
    Storage.prototype[name] = function (key, ...rest) {
        if (key === "review cards") throw new Error("forbidden");
        return method.call(this, key, ...rest);
    };
}"""


def test_a_browser_that_keeps_nothing_asks_all_the_same(review):
    page = review()
    page.add_init_script(FORBIDS)
    again(page)
    reply(page, "I knew it")
    assert current(page) == IDS[1:2]


def test_without_a_script_all_cards_are_listed(review):
    page = review(java_script_enabled=False)
    assert page.locator(".review-card").locator("visible=true").count() == len(IDS)
    assert page.get_by_role("button", name="Show the answer").count() == 0


def test_paper_has_all_cards_and_no_buttons(review):
    page = review()
    page.emulate_media(media="print")
    assert current(page) == IDS
    assert page.locator(".review-button, .review-bar").locator("visible=true").count() == 0


def test_a_link_to_a_card_or_a_chapter_shows_it(review):
    page = review()
    page.evaluate("id => { location.hash = id; }", IDS[-1])
    page.wait_for_selector(f"#{IDS[-1]}.review-current")
    page.evaluate("location.hash = 'cards-of-02-scaled-dot-product'")
    page.wait_for_function("document.querySelector('.review-bar select').value === '2'")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_can_be_pressed_is_large_enough_for_a_finger_and_all_can_be_read(review, theme):
    page = review(viewport={"width": 360, "height": 780}, color_scheme=theme, has_touch=True)
    press(page, "Show the answer")
    assert hard_to_tap(page, ".review-button, .review-bar select") == []
    assert not page_faults.overflow(page)
    assert not page_faults.contrast(page)
