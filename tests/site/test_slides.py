"""The decks of slides: each holds what its chapter holds, fits its slides, and needs nothing but the site's folder."""

import re

import page_faults
import pytest
from attention_book import slides
from attention_book.cards import questions
from attention_book.mistakes import exercises_in
from attention_book.notebooks import predictions
from bs4 import BeautifulSoup
from test_site import TOC
from website import soup_of

from attention_tutorial.exercises import exercises
from tools.book import ROOT, read

CHAPTERS = [name for name in TOC if re.match(r"notebooks/\d+_", name)]
SCREEN = {"width": 1280, "height": 720}
OVERFLOWING = """() => [...document.querySelectorAll(".page")].flatMap((page) => {
    const body = page.querySelector(".body");
    const { left, right, bottom } = page.getBoundingClientRect();
    const outside = [...body.querySelectorAll("*")].filter((each) => {
        const box = each.getBoundingClientRect();
        return box.height > 1 && !each.closest("aside, .katex-mathml, .katex svg")
            && (box.right > right + 1 || box.left < left - 1 || box.bottom > bottom + 1);
    });
    const high = body.scrollHeight > body.clientHeight + 1;
    return high || outside.length ? [`${page.parentElement.id}: ${outside[0]?.outerHTML.slice(0, 200)}`] : [];
})"""
SMALL = """() => {
    const letters = document.createTreeWalker(document.querySelector(".slides"), NodeFilter.SHOW_TEXT);
    const small = new Set();
    while (letters.nextNode()) {
        const element = letters.currentNode.parentElement;
        if (!letters.currentNode.data.trim() || element.closest("aside, .katex, .demonstration")) continue;
        if (parseFloat(getComputedStyle(element).fontSize) < 24) small.add(element.outerHTML.slice(0, 100));
    }
    return [...small];
}"""
FIGURES = """async () => {
    const figures = [...document.querySelectorAll(".page figure img")];
    await Promise.all(figures.map((each) => each.decode()));
    return figures.map((each) => [each.alt, each.clientWidth > 300]);
}"""
DEMONSTRATIONS = """() => [...document.querySelectorAll(".demonstration")].map((each) => {
    const { widget, mounted } = each.shadowRoot.querySelector("[data-widget]").dataset;
    const letters = each.shadowRoot.querySelector(".bw");
    return [widget, mounted, getComputedStyle(letters).fontFamily.startsWith("Inter")];
})"""


HTML = "all => all.map((each) => each.innerHTML)"
HERE = "document.querySelector('.slides > section > .present').id"
ALL_AT_ONCE = """.reveal .slides, .reveal .slides section { display: block !important; position: static !important;
    visibility: visible !important; opacity: 1 !important; transform: none !important; }
.reveal .fragment { opacity: 1 !important; visibility: visible !important; }"""


def words(element):
    """Return the words of a part of a page without its formulas, which the speaker's notes set otherwise."""
    element = BeautifulSoup(str(element), "lxml")
    for formula in element.select(".math, math, summary, .headerlink"):
        formula.decompose()
    return element.get_text().split()


def is_within(part, whole):
    return " ".join(part) in " ".join(whole)


@pytest.fixture(scope="module")
def show_deck(site, browser):
    """Return `show(chapter, query)`: open a deck as a file; what it asks for or complains of goes to `page.heard`."""
    context = browser.new_context(viewport=SCREEN)

    def show(chapter, query=""):
        page = context.new_page()
        page.heard = []
        page.on("request", lambda asked: page.heard.append(("request", asked.url)))
        page.on("pageerror", lambda error: page.heard.append(("error", str(error))))
        page.on("console", lambda message: page.heard.append((message.type, message.text)))
        page.goto(f"{(site / slides.FOLDER / chapter.rpartition('/')[2]).as_uri()}.html{query}")
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield show
    context.close()


@pytest.fixture(scope="module", params=CHAPTERS)
def deck(request, show_deck):
    """Return a chapter and its deck, opened once."""
    page = show_deck(request.param)
    yield request.param, page
    page.close()


def go_to(page, selector):
    """Show the first slide that has an element."""
    page.evaluate(
        "(one) => { const { h, v } = Reveal.getIndices(document.querySelector(one).closest('.page').parentElement);"
        " Reveal.slide(h, v); }",
        selector,
    )


def test_each_chapter_leads_to_its_deck(site):
    made = {path.stem for path in (site / slides.FOLDER).glob("*.html")}
    assert made == {name.rpartition("/")[2] for name in CHAPTERS}
    for name in CHAPTERS:
        links = [link["href"] for link in soup_of(site / f"{name}.html").select("a.btn-slides-button")]
        assert links == [f"../{slides.FOLDER}/{name.rpartition('/')[2]}.html"]


def test_a_chapter_is_shown_in_an_hour_and_without_claims(deck):
    _, page = deck
    assert page.locator(".page:not([id^=questions] *)").count() <= 41
    assert page.locator(".page .claim, .page .finding").count() == 0


def test_a_deck_needs_nothing_but_its_folder(deck):
    _, page = deck
    assert page.heard
    assert [(kind, text) for kind, text in page.heard if kind != "request"] == []
    assert [text for _, text in page.heard if not text.startswith(("file:", "blob:", "data:"))] == []


def test_no_slide_overflows_and_all_letters_are_large(deck):
    _, page = deck
    assert page.evaluate(OVERFLOWING) == []
    assert page.evaluate(SMALL) == []


def test_a_deck_holds_the_figures_formulas_and_demonstrations(deck, site):
    chapter, page = deck
    cells = read(ROOT / f"{chapter}.ipynb").cells
    outputs = [(cell, output.get("data", {})) for cell in cells for output in cell.get("outputs", [])]
    alts = [cell.metadata.mystnb.image.alt for cell, data in outputs if "image/png" in data]
    alts = [re.sub(r"\*([^*]+)\*", r"\1", alt) for alt in alts]  # the caption has italics
    assert page.evaluate(FIGURES) == [[alt, True] for alt in alts]

    shown = re.findall(r'data-(?:later-)?widget="(\w+)"', " ".join(data.get("text/html", "") for _, data in outputs))
    assert page.evaluate(DEMONSTRATIONS) == [[name, "yes", True] for name in shown if name != "your_turn"]

    article = soup_of(site / f"{chapter}.html").select_one("article")
    formulas = article.select("div.math:not(details *, [id^=exercise-] *)")
    assert page.locator(".page div.math").count() == len(formulas)


def test_a_deck_holds_the_sections_turns_predictions_and_questions(deck, site):
    chapter, page = deck
    notebook = read(ROOT / f"{chapter}.ipynb")
    article = soup_of(site / f"{chapter}.html").select_one("article")
    headings = {" ".join(words(title)) for title in article.select("h2:not([id=further-reading] *, [id=exercises] *)")}
    assert headings <= {" ".join(words(f"<p>{title}</p>")) for title in page.eval_on_selector_all(".page h2", HTML)}

    assert page.locator(".page .asked:has-text('Predict first')").count() == len(predictions(notebook))
    assert page.locator("[id^=questions] .poll").count() == len(questions(notebook))
    polls = page.eval_on_selector_all(
        ".page:has(h3):not([id^=questions] *) .poll",
        "all => all.map((poll) => [poll.previousSibling.textContent, poll.querySelector('.right > span').textContent])",
    )
    turns = {name: exercises()[name] for place, name in exercises_in(notebook) if not place.startswith("Exercise ")}
    typed = {name: turn for name, turn in turns.items() if turn.typed}
    assert [asked for asked, _ in polls] == [exercise.prompt for exercise in typed.values()]
    for (_, right), exercise in zip(polls, typed.values(), strict=True):
        numbers = [float(digits) for digits in re.findall(r"[\d.]+", right.replace("−", "-"))]
        want = exercise.right if isinstance(exercise.right, list) else [exercise.right]
        assert right == exercise.right or numbers == pytest.approx([abs(digits) for digits in want], rel=0.005)


def test_the_notes_hold_the_prose_of_the_chapter(deck, site):
    chapter, page = deck
    notes = page.eval_on_selector_all(".page", "pages => pages.map((page) => page.querySelector('aside')?.innerHTML)")
    assert all(notes)
    prose = words(" ".join(page.eval_on_selector_all(".page aside", HTML)))
    article = soup_of(site / f"{chapter}.html").select_one("article")
    for section in article.select("section[id^=section-]"):
        for paragraph in section.select(":scope > p, :scope > details > p"):
            answer = paragraph.parent.name == "details" and "Answer" in paragraph.parent.summary.text
            assert answer or is_within(words(paragraph), prose), paragraph


def test_a_poll_is_answered_at_the_next_step(show_deck):
    page = show_deck(CHAPTERS[2])
    go_to(page, "#section-2-4 ~ section .poll")
    page.wait_for_selector(".present .poll")
    assert page.locator(".present .poll .why:visible").count() == 0
    where = page.evaluate(HERE)
    page.keyboard.press("ArrowRight")
    assert page.evaluate(HERE) == where
    assert page.locator(".present .poll .why:visible").count() == page.locator(".present .poll li").count() == 4
    page.keyboard.press("ArrowRight")
    assert page.evaluate(HERE) != where
    page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_slides_can_be_read_by_day_and_by_night(show_deck, theme):
    page = show_deck(CHAPTERS[5])
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    page.add_style_tag(content=ALL_AT_ONCE)
    assert page_faults.contrast(page, ".slides") == []
    page.close()


def test_the_key_for_light_and_dark_speaks_to_the_site_as_well(show_deck):
    page = show_deck(CHAPTERS[0])
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-theme=dark]")
    page.keyboard.press("d")
    assert page.evaluate("[document.documentElement.dataset.theme, localStorage.getItem('mode')]") == ["light"] * 2
    page.evaluate("localStorage.clear()")
    page.close()


def test_a_printed_deck_has_every_slide_and_every_answer(show_deck):
    page = show_deck(CHAPTERS[2])
    slides_, steps = (page.locator(selector).count() for selector in (".page", ".page:has(.fragment)"))
    page.close()
    page = show_deck(CHAPTERS[2], "?print-pdf")
    printed = page.pdf(prefer_css_page_size=True, print_background=True)
    page.close()
    assert steps >= 8
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == slides_ + steps


def test_the_speakers_view_opens_without_a_server(show_deck):
    page = show_deck(CHAPTERS[2])
    with page.expect_popup() as opened:
        page.keyboard.press("s")
    notes = opened.value.locator(".speaker-controls-notes .value")
    notes.get_by_text("What you need").wait_for()
    page.keyboard.press("ArrowRight")
    notes.get_by_text("Press on, then turn").wait_for()
    opened.value.close()
    page.close()


def test_a_word_that_is_dragged_on_an_enlarged_slide_stays_under_the_pointer(show_deck):
    page = show_deck(CHAPTERS[6])
    page.set_viewport_size({"width": 1920, "height": 1080})
    go_to(page, ".demonstration")
    word = page.locator(".present .mw-word").first
    lane = page.locator(".present .mw-lane").first.bounding_box()
    start = word.bounding_box()
    there = lane["x"] + 0.8 * lane["width"]
    page.mouse.move(start["x"] + start["width"] / 2, start["y"] + 5)
    page.mouse.down()
    page.mouse.move(there, start["y"] + 5)
    page.mouse.up()
    end = word.bounding_box()
    assert end["x"] + end["width"] / 2 == pytest.approx(there, abs=lane["width"] / 60)
    page.close()


def test_a_clicker_leads_on_from_a_demonstration(show_deck):
    page = show_deck(CHAPTERS[2])
    go_to(page, ".demonstration")
    box = page.locator(".present .demonstration")
    assert box.evaluate("box => box.scrollHeight <= box.clientHeight"), "all of the plane is on its slide"
    where = page.evaluate(HERE)
    page.locator(".present .demonstration button").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(HERE) == where
    page.keyboard.press("PageDown")
    assert page.evaluate(HERE) != where
    page.close()


IN_SIGHT = """async (box) => {
    const part = (selector) => box.shadowRoot.querySelector(selector);
    const boxOf = (selector) => part(selector).getBoundingClientRect();
    const [shares, top] = [[], box.getBoundingClientRect().top];
    part("[id$='-tour']").click();
    for (let card = 0; card < 10; card++) {
        let share = 0;
        for (let times = 0; times < 40 && share < 0.8; times++) { // while it computes, and scrolls
            await new Promise((done) => setTimeout(done, 50));
            const [lit, over] = [boxOf(".bw-lit"), boxOf(".bw-card")];
            share = (Math.min(lit.bottom, over.top) - Math.max(lit.top, top)) / Math.min(lit.height, over.top - top);
        }
        shares.push(share);
        part("[id$='-card-next']").click();
    }
    return shares;
}"""


def test_on_a_slide_the_card_of_a_tour_does_not_cover_what_it_speaks_of(show_deck):
    page = show_deck(CHAPTERS[9])
    page.emulate_media(reduced_motion="reduce")
    go_to(page, ".demonstration")
    assert min(page.locator(".present .demonstration").evaluate(IN_SIGHT)) >= 0.8
    page.close()


def test_without_a_script_the_slides_stand_below_each_other(site, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "slides" / f"{CHAPTERS[2].removeprefix('notebooks/')}.html").as_uri())
    headings = page.locator(".slides > section > h2")
    tops = [headings.nth(place).bounding_box()["y"] for place in range(headings.count())]
    assert len(tops) > 5 and tops == sorted(set(tops))
    assert headings.last.is_visible() and not page.locator("aside.notes").first.is_visible()
    context.close()
