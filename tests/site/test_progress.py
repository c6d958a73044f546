"""What a reader has read and answered: kept in the browser alone, shown quietly, exported and erased."""

import json

import pytest

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
