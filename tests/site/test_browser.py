"""The site in a real browser: what a reader sees, on a desk and on a phone, by day and by night.

Every page is opened once, and must come whole: what only that page can break. What style sheets and scripts do is
looked at on pages that together hold every kind of element the site has (`pages_of_every_kind`). What can be wrong with
a page is found by page_faults.py, and the last tests show each of its functions a page that is wrong.
"""

import itertools
import re
from urllib.parse import urlsplit

import page_faults
import pytest
from notebook_rules import BOOK
from test_site import TOC
from website import bytes_sent

PAGES = [*(f"{name}.html" for name in TOC), "search.html", "genindex.html", "py-modindex.html"]
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 780}
# The widgets of each chapter, in the order of its cells, and that of the start page
WIDGETS = {
    f"notebooks/{path.stem}": [
        widget
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for widget in re.findall(r'data-widget="(\w+)"', output.get("data", {}).get("text/html", ""))
    ]
    for path, notebook in BOOK.items()
} | {"book/index": ["heads"]}
FIRST_VIEW = 400_000  # bytes of a page as it opens
WHOLE_PAGE = 700_000  # bytes when a reader has seen it to the end, all figures with it
LARGE_TYPE = "html { font-size: 200% !important; }"
UNFOLD = "document.querySelectorAll('details').forEach((fold) => { fold.open = true; })"
ON_SCREEN = """(menu) => {
    const bar = document.querySelector(`.bd-sidebar-${menu}`);
    const box = bar.getBoundingClientRect();
    return bar.checkVisibility({ visibilityProperty: true }) && box.width > 0 && box.right > 0 && box.left < innerWidth;
}"""
# What was changed has had its effects, and these theirs: sizes, fonts needed only now, what the scripts do then.
SETTLE = """async (wanted) => {
    const { theme, width } = wanted || {};
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    if (theme) document.documentElement.dataset.theme = theme;
    while (width && innerWidth !== width) await frame();
    for (const _ of ["effects", "their effects"]) {
        await frame();
        await document.fonts.ready;
        await Promise.allSettled(document.getAnimations().map((each) => each.finished));
    }
    await frame();
}"""


FORMULAS_SENT = """async () => {
    const sent = await (await fetch(location.href)).text();
    return new DOMParser().parseFromString(sent, "text/html").querySelectorAll(".math").length;
}"""


class Visit:
    """A page that is open, and what happened on the way to it."""

    def __init__(self, context, address, name):
        from tools.browser import READY

        self.name, self.context, self.page = name, context, context.new_page()
        self.said, self.asked, self.answers = [], [], []
        self.page.on("console", lambda said: self.said.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("requestfailed", lambda asked: self.said.append(f"error: {asked.url} {asked.failure}"))
        self.page.on("request", lambda asked: self.asked.append(asked.url))
        self.page.on("response", lambda answer: self.answers.append((answer.status, answer.url)))
        self.page.goto(f"{address}/{name}")
        self.page.evaluate(SETTLE)
        self.opened = list(self.asked)  # what came before the reader scrolled
        self.page.evaluate(READY)

    def show(self, size=DESK, theme="light", **media):
        """Give the screen a size, a theme and a reader's wishes; wait until nothing moves. Return the page."""
        self.page.bring_to_front()  # a page behind others draws once a second
        wishes = {"reduced_motion": "reduce", "forced_colors": "none", "media": "screen", **media}
        self.page.emulate_media(**wishes)
        self.page.set_viewport_size(size)
        self.page.evaluate(SETTLE, {"theme": theme, "width": size["width"]})
        return self.page

    def outside(self, home):
        """List the requests that went to another server."""
        return [url for url in self.asked if not url.startswith((home, "data:", "blob:"))]

    def complaints(self):
        """List errors and warnings of the page."""
        return [line for line in self.said if line.startswith(("error", "warning"))]


@pytest.fixture(scope="module")
def address(site, browser):
    from tools.browser import serve

    with serve(site) as url:
        yield url


@pytest.fixture(scope="module")
def context(browser):
    context = browser.new_context(viewport=DESK, reduced_motion="reduce")
    yield context
    context.close()


# ---- Every page ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=PAGES)
def visited(request, context, address):
    """Each page in turn, open; all tests of a page come one after the other."""
    visit = Visit(context, address, request.param)
    yield visit
    visit.page.close()


def test_a_page_comes_whole_and_without_complaint(visited, address):
    assert (200, f"{address}/{visited.name}") in visited.answers
    assert not [answer for answer in visited.answers if answer[0] >= 400]
    assert not visited.complaints()


def test_no_other_server_is_asked_and_nothing_is_stored(visited, address):
    assert not visited.outside(address)
    assert visited.context.cookies() == []
    assert visited.page.evaluate("document.cookie") == ""
    keys = set(visited.page.evaluate("Object.keys(localStorage)"))
    assert keys <= {"mode", "theme"}, "the theme remembers light or dark, and nothing else is stored"


def test_a_first_visit_is_light(visited, site, address):
    weights = []
    for urls in (visited.opened, visited.asked):
        paths = {urlsplit(url).path.lstrip("/") for url in urls if url.startswith(address)}
        weights.append(sum(bytes_sent(site / path) for path in paths))
    print(f"\n{visited.name}: {weights[0] / 1000:.0f} kB as it opens, {weights[1] / 1000:.0f} kB to its end")
    assert weights[0] <= FIRST_VIEW
    assert weights[1] <= WHOLE_PAGE


def test_every_formula_is_set(visited):
    assert visited.page.locator(".math").count() == visited.page.evaluate(FORMULAS_SENT)
    assert not page_faults.raw_markup(visited.page)


def test_headings_are_in_order_and_images_say_what_they_show(visited):
    assert not page_faults.headings(visited.page)
    assert not page_faults.images(visited.page)


def test_those_who_hear_the_page_are_told_its_parts_apart(visited):
    page = visited.page
    assert page.locator("details.hide > summary[aria-label]").count() == 0, "a fold is called what is written on it"
    assert page.locator(".cell_input").count() == page.get_by_role("group", name="Code", include_hidden=True).count()
    here = page.eval_on_selector_all("nav [aria-current=page]", "links => links.map((x) => x.getAttribute('href'))")
    assert here == ["#"] * (visited.name.removesuffix(".html") in TOC)


def test_widgets_are_mounted(visited):
    there = visited.page.eval_on_selector_all(
        "[data-widget]", "all => all.map((x) => [x.dataset.widget, x.dataset.mounted])"
    )
    assert there == [[name, "yes"] for name in WIDGETS.get(visited.name.removesuffix(".html"), [])]


def test_nothing_on_a_small_phone_reaches_beyond_the_screen_or_is_too_faint(visited):
    visited.page.evaluate(UNFOLD)
    page = visited.show({"width": 320, "height": 800})
    assert not page_faults.overflow(page)
    assert not page_faults.unreachable_scrollers(page)
    assert not page_faults.contrast(page)


# ---- Every kind of page ----------------------------------------------------------------------------------------------

ELEMENT = re.compile(r"<([a-z][\w-]*)\b([^>]*)>")
LOOKS = re.compile(r'\b(class|role|style)="([^"]*)"')
FOCUSABLE = {"a", "button", "input", "select", "summary", "textarea"}
SET_ELSEWHERE = re.compile(r"<(script|svg|mjx-container)\b.*?</\1>|\btag_[\w-]+|\bdata-state=\"[^\"]*\"", re.DOTALL)


def kinds_of_elements(html):
    """Return what a style sheet or a script may treat its own way: tags with classes, roles, styles and colours."""
    kinds = set()
    for tag, attributes in ELEMENT.findall(SET_ELSEWHERE.sub("", html[html.index("<main") :])):
        looks = dict(LOOKS.findall(attributes))
        rules = [rule.strip() for rule in looks.get("style", "").split(";")]
        style = sorted(rule if "color" in rule or "background" in rule else rule.partition(":")[0] for rule in rules)
        kinds.add((tag, *sorted(looks.get("class", "").split()), looks.get("role"), *style))
    return kinds


def focusable_kinds(html):
    """Return the kinds of what the Tab key may reach."""
    return {kind for kind in kinds_of_elements(html) if kind[0] in FOCUSABLE}


def parts(html):
    """Return tags with their roles and the names of their attributes: axe asks what an element is, not how it looks."""
    found = ELEMENT.findall(SET_ELSEWHERE.sub("", html[html.index("<main") :]))
    return {
        (tag, dict(LOOKS.findall(attributes)).get("role"), *sorted(re.findall(r"([\w-]+)=", attributes)))
        for tag, attributes in found
    }


def pages_of_every_kind(site, pages=PAGES, kinds_of=kinds_of_elements):
    """Choose pages, light ones first, so that each kind of element stands on one of them; none too many."""
    texts = {name: (site / name).read_text(encoding="utf-8") for name in pages}
    kinds = {name: kinds_of(text) for name, text in texts.items()}
    chosen, left = [pages[0]], set().union(*kinds.values()) - kinds[pages[0]]
    while left:
        chosen.append(max(pages, key=lambda name: len(kinds[name] & left) / len(texts[name])))
        left -= kinds[chosen[-1]]
    for name in chosen[1:]:  # a later page may hold all that an earlier one was chosen for
        others = [other for other in chosen if other != name]
        if kinds[name] <= set().union(*(kinds[other] for other in others)):
            chosen = others
    return chosen


@pytest.fixture(scope="module")
def kinds(site, context, address):
    """Pages of every kind, open."""
    visits = [Visit(context, address, name) for name in pages_of_every_kind(site)]
    yield visits
    for visit in visits:
        visit.page.close()


def faults_of(kinds, find, *shown, **wishes):
    """Return the faults that a function finds on pages of every kind, by page."""
    found = {visit.name: find(visit.show(*shown, **wishes)) for visit in kinds}
    return {name: faults for name, faults in found.items() if faults}


def test_every_kind_of_element_stands_on_a_page_that_is_looked_at(site):
    chosen = pages_of_every_kind(site)
    there = {name: kinds_of_elements((site / name).read_text(encoding="utf-8")) for name in PAGES}
    assert set().union(*there.values()) == set().union(*(there[name] for name in chosen))
    assert len(chosen) == len(set(chosen)) < len(PAGES)
    page = '<main><p class="a b" style="color: red; top: 0">x</p><svg><b></b></svg><i class="tag_x" role="note"></i>'
    expected = {("main", None, ""), ("p", "a", "b", None, "color: red", "top"), ("i", "note", "")}
    assert kinds_of_elements(f"<body>{page}") == expected


def test_tab_leads_through_the_page_and_the_focus_is_seen(site, kinds):
    chosen = pages_of_every_kind(site, [visit.name for visit in kinds], focusable_kinds)
    assert not faults_of([visit for visit in kinds if visit.name in chosen], page_faults.keyboard)


def test_nothing_moves_for_those_who_ask_for_less_motion(kinds):
    assert not faults_of(kinds, page_faults.motion)


# By day every page is looked at on a phone, above.
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (360, "dark")])
def test_the_page_never_scrolls_sideways_and_letters_stand_out_from_their_ground(kinds, width, theme):
    for visit in kinds:
        visit.page.evaluate(UNFOLD)
    for find in (page_faults.overflow, page_faults.unreachable_scrollers, page_faults.contrast):
        assert not faults_of(kinds, find, {"width": width, "height": 800}, theme)


def test_forced_colours_leave_the_page_readable(kinds):
    assert not faults_of(kinds, page_faults.contrast, forced_colors="active")


def test_letters_of_twice_the_size_fit(kinds):
    def overflow(page):
        style = page.add_style_tag(content=LARGE_TYPE)
        page.evaluate(SETTLE)
        found = page_faults.overflow(page)
        style.evaluate("element => element.remove()")
        return found

    assert not faults_of(kinds, overflow)


def test_paper_shows_answers_and_no_navigation(kinds):
    for visit in kinds:
        page = visit.show(media="print")
        page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = false; })")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("article details:not([open], .hide)").count() == 0, visit.name
        assert page.locator(".bd-sidebar-primary, .bd-header-article").locator("visible=true").count() == 0, visit.name
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("article details[open]").count() == 0, visit.name


def test_axe_finds_nothing_serious(site, kinds):  # it changes the pages, so it comes last
    chosen = pages_of_every_kind(site, [visit.name for visit in kinds], parts)
    looked_at = [visit for visit in kinds if visit.name in chosen]
    for visit in looked_at:
        visit.page.evaluate(UNFOLD)
    assert not faults_of(looked_at, page_faults.structure)


def test_a_page_opened_as_a_file_is_whole_too(site, kinds, context):
    widgets = {tuple(widgets): f"{name}.html" for name, widgets in WIDGETS.items() if widgets}
    for name in {*(visit.name for visit in kinds), *widgets.values()}:
        visit = Visit(context, site.as_uri(), name)
        assert not visit.complaints(), name
        assert not visit.outside("file:"), name
        assert not page_faults.images(visit.page), name
        assert visit.page.locator("[data-widget]:not([data-mounted=yes])").count() == 0, name
        visit.page.close()


# ---- Some pages ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("menu", ["primary", "secondary"])
def test_the_menus_of_a_phone_open(browser, address, menu):
    context = browser.new_context(viewport=PHONE, reduced_motion="reduce")
    page = Visit(context, address, PAGES[0]).page
    assert not page.evaluate(ON_SCREEN, menu)
    page.locator(f"button.{menu}-toggle").click()
    page.evaluate(SETTLE)
    assert page.evaluate(ON_SCREEN, menu)
    assert not page_faults.structure(page)
    context.close()


def translator_asked_for(visit):
    return any("widgets/translator" in url for url in visit.asked)


@pytest.mark.parametrize("way", ["http", "file"])
def test_the_start_page_fetches_the_translator_only_when_it_is_asked_to(browser, site, address, way):
    context = browser.new_context(viewport=PHONE, reduced_motion="reduce", has_touch=True)
    visit = Visit(context, address if way == "http" else site.as_uri(), "book/index.html")
    assert not translator_asked_for(visit)
    visit.page.get_by_role("button", name="Load the trained translator").tap()
    visit.page.wait_for_selector(".translator")
    assert translator_asked_for(visit)
    field = visit.page.get_by_label("Type an English sentence")
    field.fill("the museum was opened in 2011")
    assert visit.page.get_attribute("[data-untouched]", "data-untouched") == "il museo è stato aperto nel 2011"
    assert not page_faults.overflow(visit.page)
    assert not visit.complaints()
    context.close()


def test_without_a_script_the_start_page_shows_a_translation_and_its_weights(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "book" / "index.html").as_uri())
    table = page.locator("[data-later-widget=translator] table")
    assert table.is_visible() and "architettura" in table.inner_text()
    assert page.get_by_role("button", name="Load the trained translator").count() == 0
    context.close()


def test_the_theme_follows_the_readers_system(browser, address):
    for theme in ("light", "dark"):
        context = browser.new_context(color_scheme=theme)
        page = Visit(context, address, PAGES[0]).page
        assert page.get_attribute("html", "data-theme") == theme
        context.close()


# ---- The tests see what is wrong ------------------------------------------------------------------------------------

WRONG = [
    ("raw_markup", "<p>An unclosed formula: $x + 1</p>"),
    ("overflow", '<div style="width: 3000px">wide</div>'),
    ("unreachable_scrollers", '<div style="overflow-x: auto"><div style="width: 3000px">wide</div></div>'),
    ("headings", "<h5>Two levels down</h5>"),
    ("images", '<img src="../_static/favicon.svg" alt="favicon.svg">'),
    ("motion", '<p style="transition: color 3s !important">slow</p>'),
    ("contrast", '<p style="color: #999; background: #eee">faint</p>'),
    ("contrast", '<div style="opacity: 0.4"><p>faint</p></div>'),
    ("contrast", '<input aria-label="a field" value="faint" style="color: #aaa; background: #fff">'),
    ("structure", '<button type="button"></button>'),
    ("keyboard", '<button style="outline: none !important; box-shadow: none">unseen</button>'),
    ("keyboard", '<button onkeydown="event.preventDefault()">a trap</button>'),
    ("keyboard", '<button tabindex="1">before the link that skips to the text</button>'),
]


@pytest.fixture(scope="module")
def tampered(site, browser, tmp_path_factory):
    """Return `open_page(html)`: a page of the site with something added to its text."""
    from tools.browser import serve

    folder = tmp_path_factory.mktemp("tampered")
    (folder / "_static").symlink_to(site / "_static")
    (folder / "book").mkdir()
    original = (site / "book/how_to_use.html").read_text(encoding="utf-8")
    context = browser.new_context(viewport=PHONE, reduced_motion="reduce")
    numbers = itertools.count()
    with serve(folder) as url:

        def open_page(added):
            changed = original.replace("</article>", f"{added}</article>")
            assert changed.count(added) == 1
            page = folder / "book" / f"page-{next(numbers)}.html"  # a new name, so that none comes from the cache
            page.write_text(changed, encoding="utf-8")
            return Visit(context, url, f"book/{page.name}"), url

        yield open_page
    context.close()


@pytest.mark.parametrize("name", sorted({name for name, _ in WRONG}))
def test_a_sound_page_has_no_fault(tampered, name):
    sound, _ = tampered("<p>Nothing wrong.</p>")
    assert getattr(page_faults, name)(sound.page) == []


@pytest.mark.parametrize(("name", "added"), WRONG)
def test_each_kind_of_fault_is_found(tampered, name, added):
    wrong, _ = tampered(added)
    assert getattr(page_faults, name)(wrong.page)


def test_complaints_failures_and_outside_requests_are_found(tampered):
    visit, home = tampered('<script>console.warn("no")</script><img src="missing.png" alt="a picture"><img '
                           'src="http://127.0.0.1:9/outside.png" alt="a picture">')  # fmt: skip
    assert "warning: no" in visit.complaints()
    assert any(re.search("404", line) for line in visit.complaints())
    assert [urlsplit(url).path for url in visit.outside(home)] == ["/outside.png"]


def test_contrast_is_found_as_axe_finds_it(tampered):
    """The two go different ways about it; they must agree on what is too faint."""
    from axe_playwright_python.sync_playwright import Axe

    shades = "".join(f'<p id="shade-{c}" style="color: #{c}{c}{c}; background: #fff">shade</p>' for c in "689a")
    visit, _ = tampered(shades)
    page = visit.show(theme="light")
    options = {"preload": False, "runOnly": ["color-contrast"]}
    (violation,) = Axe().run(page, options=options).response["violations"]
    by_axe = {node["html"][7:14] for node in violation["nodes"]}
    ours = " ".join(page_faults.contrast(page))
    levels = {f"shade-{c}" for c in "689a" if f"rgb({int(c * 2, 16)}, " in ours}
    assert levels == by_axe == {"shade-8", "shade-9", "shade-a"}
