"""What was read and answered, and the short way: kept in the browser alone, shown quietly, exported and erased."""

import json
import re

import pytest
from test_site import TOC
from website import ROOT

KEY = "attention-tutorial"
CHAPTER, SECTION = "notebooks/04_several_heads", "section-4-2"
RECORD = f"JSON.parse(localStorage.getItem('{KEY}'))"
TO_START = f"document.getElementById('{SECTION}').scrollIntoView()"
TO_END = f"document.getElementById('{SECTION}').scrollIntoView({{ block: 'end' }})"
MIDDLE = f"""() => {{
    const {{ top, bottom }} = document.getElementById("{SECTION}").getBoundingClientRect();
    scrollBy(0, (top + bottom - innerHeight) / 2);
}}"""
NO_STORE = "Object.defineProperty(Storage.prototype, 'setItem', { value() { throw new DOMException('full'); } })"


@pytest.fixture(scope="module")
def address(site, browser):
    from tools.browser import serve

    with serve(site) as url:
        yield url


@pytest.fixture
def page(browser):
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    page.failures = []
    page.on("pageerror", lambda error: page.failures.append(str(error)))
    page.clock.install()
    yield page
    page.context.close()
    assert not page.failures


def open_page(page, where, name):
    page.goto(f"{where}/{name}.html")
    page.evaluate("dispatchEvent(new Event('mount-widgets'))")
    page.clock.run_for(50)


def read_section(page, seconds=60):
    """Go through the section as a reader does, who stops at its start, in it, and at its end."""
    for part in (TO_START, MIDDLE, TO_END):
        page.evaluate(part)
        page.clock.run_for(seconds * 1000)


def marks(page):
    return page.evaluate("[...document.querySelectorAll('.bd-toc-nav a.was-read')].map((link) => link.hash.slice(1))")


def begin(page):
    return page.locator(".promise .sd-btn[href*='notebooks/']")


def test_a_section_that_was_read_is_marked_and_the_start_page_leads_on(page, address):
    open_page(page, address, "book/index")
    assert begin(page).inner_text() == "Begin with chapter 1"
    open_page(page, address, CHAPTER)
    assert marks(page) == [] and page.evaluate(f"localStorage.getItem('{KEY}')") is None, "a visit is not yet kept"
    read_section(page)
    own = page.evaluate(RECORD)["pages"][CHAPTER]
    assert own["read"] == [SECTION] == marks(page) and own["sections"] == page.locator("h2 [href^='#section-']").count()
    page.reload()
    assert marks(page) == [SECTION]
    here = page.locator(".bd-docs-nav a[data-read]")
    assert here.evaluate_all("all => all.map((one) => one.dataset.read)") == [f"1/{own['sections']}"]
    left, whole = page.locator(".onthispage").get_attribute("data-left"), 42
    assert 0 < int(left.removesuffix(" min left")) < whole
    open_page(page, address, "book/index")
    assert begin(page).inner_text() == "Continue: 4.2 Two heads: project down, attend, project up"
    begin(page).click()
    page.wait_for_url(f"**/{CHAPTER}.html#{SECTION}")


@pytest.mark.parametrize("way", ["flies past", "sees the end alone", "stays at the start"])
def test_what_was_not_read_is_not_marked(page, address, way):
    open_page(page, address, CHAPTER)
    if way == "flies past":
        read_section(page, seconds=1.2)
    elif way == "sees the end alone":
        page.evaluate(TO_END)
        page.clock.run_for(200_000)
    else:
        page.evaluate(TO_START)
        page.clock.run_for(200_000)
    assert SECTION not in marks(page)


def test_an_answer_is_there_again_and_all_can_be_saved_and_erased(page, address):
    open_page(page, address, CHAPTER)
    field = page.locator("[data-widget=your_turn] input").first
    field.fill("0.123")
    field.press("Enter")
    said = page.locator("[data-widget=your_turn] [role=status]").first.inner_text()
    assert said
    open_page(page, address, "book/how_to_use")
    box = page.locator(".book-record")
    assert box.locator("[role=status]").inner_text() == "Kept: 0 sections read, 1 turn answered."
    with page.expect_download() as download:
        box.get_by_role("button", name="Save as a file").click()
    saved = json.loads(download.value.path().read_text(encoding="utf-8"))
    assert saved == page.evaluate(RECORD)
    assert list(saved["pages"][CHAPTER]["turns"].values()) == ["0.123"]
    open_page(page, address, CHAPTER)  # anew, by a link
    page.wait_for_selector("[data-widget=your_turn][data-mounted=yes]")
    assert page.locator("[data-widget=your_turn] input").first.input_value() == "0.123"
    assert page.locator("[data-widget=your_turn] [role=status]").first.text_content() == said
    open_page(page, address, "book/how_to_use")
    box.get_by_role("button", name="Erase").click()
    assert box.locator("[role=status]").inner_text() == "Nothing is kept."
    assert page.evaluate(f"localStorage.getItem('{KEY}')") is None
    open_page(page, address, CHAPTER)
    assert page.locator("[data-widget=your_turn] input").first.input_value() == ""


@pytest.mark.parametrize("kept", ["nothing", "nonsense", "something else", "a page of it"])
def test_where_a_store_is_full_or_spoilt_the_page_works_and_marks_while_it_is_open(page, address, kept):
    if kept == "nothing":
        page.add_init_script(NO_STORE)
    else:
        words = {"nonsense": "{", "something else": "[7]", "a page of it": '{"pages":{"x":5}}'}[kept]
        page.add_init_script(f"if (!sessionStorage.on) localStorage.setItem('{KEY}', '{words}'), sessionStorage.on = 1")
    open_page(page, address, CHAPTER)
    read_section(page)
    assert marks(page) == [SECTION]


def test_it_works_on_pages_that_were_opened_as_files(page, site):
    open_page(page, site.as_uri(), CHAPTER)
    read_section(page)
    assert marks(page) == [SECTION]
    open_page(page, site.as_uri(), "book/index")
    assert begin(page).get_attribute("href") == f"{(site / CHAPTER).as_uri()}.html#{SECTION}"


# ---- The short way ------------------------------------------------------------------------------------------------

MAIN = [name for name in TOC if re.match(r"notebooks/(10|0[1-9])_", name)]
FOLDED = "[...document.querySelectorAll('[data-folded]')].map((section) => section.id)"
FOLDED_HEIGHT = "Math.max(...[...document.querySelectorAll('[data-folded]')].map((section) => section.offsetHeight))"
IN_SIGHT = """[...document.querySelectorAll("article > section > section[id^='section-'] > :not(h2)")].filter((part) =>
    part.checkVisibility()).map((part) => part.parentElement.id)"""
CODE_IN_SIGHT = """[...document.querySelectorAll("article .cell_input pre")].filter((part) =>
    part.checkVisibility()).length"""
ASKS_FOR_CODE = """[...document.querySelectorAll("article p, article .cell")].filter((part) => part.checkVisibility()
    && (/:\\s*$/.test(part.textContent) && part.nextElementSibling?.matches(".cell:not(:has(.cell_output))")
        || part.textContent.includes("then run this cell"))).map((part) => part.textContent)"""
TOP = "(id) => Math.round(document.getElementById(id).getBoundingClientRect().top)"


def short_way(page):
    return page.get_by_role("button", name="Short way")


def asked_for(name):
    """Return the sections that a chapter names for readers in a hurry, and all that it has, as a person reads them."""
    cells = json.loads((ROOT / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    text = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    all_of_it = [int(number) for number in re.findall(r"^## \d+\.(\d+)", "\n".join(text), re.MULTILINE)]
    sentence = " ".join(text[1].split()).partition("**In a hurry:** ")[2].partition(". ")[0].rstrip(".")
    asked = []
    for part in re.split(r",? and |, ", sentence):
        first, _, last = part.partition(" to ")
        asked += range(int(first.split(".")[1]), int((last or first).split(".")[1]) + 1)
    return asked, all_of_it


@pytest.mark.parametrize("name", MAIN)
def test_the_short_way_of_a_chapter_is_what_it_names_without_code_and_saves_half_of_its_time(page, address, name):
    asked, all_of_it = asked_for(name)
    assert asked and set(asked) < set(all_of_it)
    open_page(page, address, name)
    assert page.evaluate(FOLDED) == []
    words = re.fullmatch(r"Short way: (\d+) sections without code, (\d+) minutes", short_way(page).inner_text())
    time = re.search(r"Time[.:]\s+(\d+)\s+minutes", page.locator("article").inner_text())
    assert int(words[1]) == len(asked) and 8 <= int(words[2]) <= 0.5 * int(time[1])
    code = page.evaluate(CODE_IN_SIGHT)
    short_way(page).click()
    number = int(re.search(r"\d+", name)[0])
    assert set(page.evaluate(IN_SIGHT)) == {f"section-{number}-{one}" for one in asked}
    assert set(page.evaluate(FOLDED)) >= {f"section-{number}-{one}" for one in all_of_it if one not in asked}
    assert page.locator("#summary > :not(h2)").first.is_visible()
    assert page.evaluate(CODE_IN_SIGHT) == 0 < code
    assert page.evaluate(FOLDED_HEIGHT) < 100 and page.evaluate(ASKS_FOR_CODE) == []


def test_the_code_of_the_short_way_opens_one_by_one_and_all_at_once_and_is_back_when_one_leaves_it(page, address):
    open_page(page, address, CHAPTER)
    whole, before = page.evaluate(CODE_IN_SIGHT), page.locator("article").inner_text()
    short_way(page).click()
    sign = page.locator("#section-4-1 .of-short-way > summary").first
    sign.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(CODE_IN_SIGHT) == 1
    page.get_by_role("button", name="Show all code").click()
    folds = page.locator("#section-4-1 .of-short-way")
    assert page.locator("#section-4-1 .of-short-way[open]").count() == folds.count() > 1
    page.get_by_role("button", name="Show all code").click()
    assert page.evaluate(CODE_IN_SIGHT) == 0
    short_way(page).click()
    assert page.evaluate(CODE_IN_SIGHT) == whole and page.locator("article").inner_text() == before


def test_the_short_way_is_kept_from_chapter_to_chapter_until_it_is_left_or_erased(page, address):
    open_page(page, address, CHAPTER)
    short_way(page).click()
    assert short_way(page).get_attribute("aria-pressed") == "true"
    page.locator(".right-next").click()
    page.wait_for_url("**/05_masking.html")
    assert "section-5-8" in page.evaluate(FOLDED)
    short_way(page).click()
    assert page.evaluate(FOLDED) == [] and short_way(page).get_attribute("aria-pressed") == "false"
    open_page(page, address, CHAPTER)
    assert page.evaluate(FOLDED) == []
    short_way(page).click()
    open_page(page, address, "book/how_to_use")
    page.locator(".book-record").get_by_role("button", name="Erase").click()
    open_page(page, address, CHAPTER)
    assert page.evaluate(FOLDED) == []


def test_a_folded_section_opens_by_a_tap_a_key_and_a_link_and_is_open_on_the_way_back(page, address):
    open_page(page, address, CHAPTER)
    short_way(page).click()
    folded = page.evaluate(FOLDED)
    page.locator("#section-4-3 > h2").click()  # anywhere on it
    page.get_by_role("button", name="Open 4.7").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('section').id") == "section-4-7"
    page.evaluate("location.hash = 'section-4-6'")
    page.wait_for_function("!document.getElementById('section-4-6').matches('[data-folded]')")
    rest = [id for id in folded if id not in {"section-4-3", "section-4-6", "section-4-7"}]
    assert page.evaluate(FOLDED) == rest
    open_page(page, address, "book/index")
    page.go_back()
    page.clock.run_for(1000)
    assert page.evaluate(FOLDED) == rest


def test_on_the_way_back_a_page_stands_where_it_stood(browser, address):
    """What lies above is not laid out when it comes. The clock is the browser's: no other knows the way to a page."""
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    page.goto(f"{address}/{CHAPTER}.html")
    short_way(page).click()
    page.evaluate("document.getElementById('section-4-8').scrollIntoView()")
    page.mouse.wheel(0, 300)
    page.wait_for_timeout(300)
    was = page.evaluate(TOP, "section-4-8")
    page.goto(f"{address}/book/why.html")
    page.go_back()
    page.wait_for_timeout(300)
    assert page.evaluate(TOP, "section-4-8") == pytest.approx(was, abs=2)
    page.context.close()


def test_a_link_from_elsewhere_lands_in_a_section_that_the_short_way_had_folded(page, address):
    open_page(page, address, CHAPTER)
    short_way(page).click()
    open_page(page, address, "book/index")
    page.goto(f"{address}/{CHAPTER}.html#exercise-4-2")  # as the search leads
    page.clock.run_for(1000)
    assert page.locator("#exercise-4-2 > p").first.is_visible() and 0 <= page.evaluate(TOP, "exercise-4-2") < 300
    open_page(page, address, CHAPTER)
    link = page.locator(".bd-toc-nav a[href='#section-4-7']")
    assert "is-folded" in link.get_attribute("class")
    link.click()
    page.clock.run_for(100)
    assert "section-4-7" not in page.evaluate(FOLDED) and "is-folded" not in link.get_attribute("class")


def test_on_paper_the_short_way_leaves_nothing_out_and_no_buttons(page, address):
    open_page(page, address, CHAPTER)
    asked, all_of_it = asked_for(CHAPTER)
    short_way(page).click()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert len(set(page.evaluate(IN_SIGHT))) == len(all_of_it) > len(asked)
    assert page.locator("#section-4-1 .cell_input").first.is_visible()
    assert not page.locator("article h2 button:visible, .short-way:visible").count()


def test_what_is_folded_does_not_count_as_read_nor_as_left_to_read(page, address):
    open_page(page, address, CHAPTER)
    short_way(page).click()
    page.evaluate("document.getElementById('section-4-3').scrollIntoView()")
    page.clock.run_for(300_000)
    assert not {"section-4-3", "section-4-4"} & set(marks(page))
    read_section(page)
    left = int(page.locator(".onthispage").get_attribute("data-left").removesuffix(" min left"))
    assert 0 < left < int(re.search(r"(\d+) minutes", short_way(page).inner_text())[1])
