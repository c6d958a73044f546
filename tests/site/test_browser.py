"""The site in a real browser: what a reader sees, on a desk and on a phone, by day and by night.

Every page is opened once, and must come whole: what only that page can break. What style sheets and scripts do is
looked at on pages that together hold every kind of element the site has (`pages_of_every_kind`). What can be wrong with
a page is found by page_faults.py, and the last tests show each of its functions a page that is wrong.
"""

import contextlib
import re
from urllib.parse import parse_qs, urljoin, urlsplit

import page_faults
import pytest
from lxml.html import document_fromstring
from notebook_rules import BOOK
from test_site import TOC
from website import bytes_sent

PAGES = [*(f"{name}.html" for name in TOC), "search.html", "genindex.html", "py-modindex.html"]
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 780}
# The widgets of each chapter, in the order of its cells, and those of other pages
WIDGETS = {
    f"notebooks/{path.stem}": [
        widget
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for widget in re.findall(r'data-widget="(\w+)"', output.get("data", {}).get("text/html", ""))
    ]
    for path, notebook in BOOK.items()
} | {"book/index": ["encoder"], "book/laboratory": ["laboratory"], "book/why": ["encoder", "plane"]}
NARROW = {"size": {"width": 320, "height": 800}}
FIRST_VIEW = 277_000  # bytes of a page as it opens, 90,000 of them letters of text and formulas; chapter 3 has the most
WHOLE_PAGE = 700_000  # bytes when a reader has seen it to the end, all figures with it
# Lists that point into chapters, each with the chapter whose links are followed
LISTS = {
    "book/claims.html": "07_the_whole_machine",
    "book/cards.html": "09_real_heads",
    "book/mistakes.html": "06_order",
    "classroom/pages/plans.html": "02_scaled_dot_product",
}
# How far from its place under the header a link's target is once nothing moves any more
OFF = """async () => {
    const there = document.getElementById(location.hash.slice(1));
    const place = () => there.getBoundingClientRect().top;
    for (let still = 0, was; still < 20; still = place() === was ? still + 1 : 0) {
        was = place();
        await new Promise(requestAnimationFrame);
    }
    return Math.round(place() - parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop));
}"""
KEEP_NO_PLACE = """document.addEventListener("readystatechange", () => {
    for (const part of [document.documentElement, document.body]) part.style.overflowAnchor = "none";
})"""
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
        // What is out of sight may end without `finished`: Chromium does not draw it.
        // What goes by a reader's scrolling and not by time runs for ever.
        const timed = () => document.getAnimations().filter((each) => each.timeline === document.timeline);
        while (timed().some((each) => each.playState === "running")) await frame();
    }
    await frame();
}"""


class Visit:
    """A page that is open, and what happened on the way to it."""

    def __init__(self, context):
        self.context, self.page = context, context.new_page()
        self.said, self.asked, self.answers = [], [], []
        self.page.on("console", lambda said: self.said.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("requestfailed", lambda asked: self.said.append(f"error: {asked.url} {asked.failure}"))
        self.page.on("request", lambda asked: self.asked.append(asked.url))
        self.page.on("response", lambda answer: self.answers.append((answer.status, answer.url)))

    def go(self, address, name):
        """Go to a page, also from another: to open a new window costs half as much as the page itself."""
        from tools.browser import READY

        self.page.goto("about:blank")  # or what the page before still waits for fails now
        for noted in (self.said, self.asked, self.answers):
            noted.clear()
        self.name = name
        self.page.goto(f"{address}/{name}")
        self.page.evaluate(SETTLE)
        self.opened = list(self.asked)  # what came before the reader scrolled
        self.page.evaluate(READY)
        return self

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


# ---- Which pages stand for all ---------------------------------------------------------------------------------------

FOCUSABLE = {"a", "button", "input", "select", "summary", "textarea"}
# All but what is set elsewhere: scripts, drawings, formulas, and the letters of code, which every page shows by day
OURS = (
    "//main/descendant-or-self::*"
    "[not(ancestor-or-self::script or ancestor-or-self::svg)]"
    "[not(ancestor::pre or ancestor::*[contains(@class, 'katex')])]"
)


def elements(html):
    """Yield the elements of a page's main part, but what is within formulas and drawings."""
    yield from document_fromstring(html).xpath(OURS)


def kinds_of_elements(html):
    """Return what a style sheet or a script may treat its own way: tags with classes, roles, styles and colours."""
    kinds = set()
    for element in elements(html):
        rules = [rule.strip() for rule in element.get("style", "").split(";")]
        style = sorted(rule if "color" in rule or "background" in rule else rule.partition(":")[0] for rule in rules)
        classes = sorted(name for name in element.get("class", "").split() if not name.startswith("tag_"))
        kinds.add((element.tag, *classes, element.get("role"), *style))
    return kinds


def focusable_kinds(html):
    """Return the kinds of what the Tab key may reach."""
    return {kind for kind in kinds_of_elements(html) if kind[0] in FOCUSABLE}


LOOKS = re.compile("class|id|style|data-.*")


def parts(html):
    """Return tags with their roles and the names of their attributes: axe asks what an element is, not how it looks."""
    return {
        (element.tag, element.get("role"), *sorted(name for name in element.attrib if not LOOKS.fullmatch(name)))
        for element in elements(html)
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


def used(html):
    """Return the scripts and the widgets of a page: what may fail as a file, or in other colours."""
    scripts = re.findall(r'<script[^>]* src="[^"?]*/([^"?/]+)', html)
    return {*scripts, *re.findall(r'data-(?:later-)?widget="\w+"', html)}


@pytest.fixture(scope="module")
def kinds(site):
    """Return which pages are looked at by day and by night, of these by Tab and by axe, and for every widget one."""
    chosen = pages_of_every_kind(site)
    return {
        "every": PAGES,
        "dress": chosen,
        "focus": pages_of_every_kind(site, chosen, focusable_kinds),
        "axe": pages_of_every_kind(site, chosen, parts),
        "widget": pages_of_every_kind(site, kinds_of=used),
    }


def test_every_kind_of_element_stands_on_a_page_that_is_looked_at(site, kinds):
    there = {name: kinds_of_elements((site / name).read_text(encoding="utf-8")) for name in PAGES}
    assert set().union(*there.values()) == set().union(*(there[name] for name in kinds["dress"]))
    assert len(kinds["dress"]) == len(set(kinds["dress"])) < len(PAGES)
    page = '<main><p class="a b" style="color: red; top: 0">x</p><svg><b></b></svg><i class="tag_x" role="note"></i>'
    expected = {("main", None, ""), ("p", "a", "b", None, "color: red", "top"), ("i", "note", "")}
    assert kinds_of_elements(f"<body>{page}") == expected


# ---- Every page ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def window(context, address):
    """A window for one page after the other."""
    visit = Visit(context)
    yield visit
    visit.page.close()


@pytest.fixture(scope="module", params=PAGES)
def visited(request, window, address):
    """Each page in turn, open on a phone by day; all tests of a page come one after the other."""
    window.show(**NARROW)
    return window.go(address, request.param)


def test_a_page_comes_whole_and_without_complaint(visited, address):
    assert (200, f"{address}/{visited.name}") in visited.answers
    assert not [answer for answer in visited.answers if answer[0] >= 400]
    assert not visited.complaints()


def test_no_other_server_is_asked_and_little_is_stored(visited, address):
    assert not visited.outside(address)
    assert visited.context.cookies() == []
    assert visited.page.evaluate("document.cookie") == ""
    keys = set(visited.page.evaluate("Object.keys(localStorage)"))
    ours = "attention-tutorial"  # what was read and answered: tests/site/test_progress.py
    assert keys <= {"mode", "theme", ours}, "the theme remembers light or dark, and nothing else is stored"


def test_a_first_visit_is_light(visited, site, address):
    weights = []
    for urls in (visited.opened, visited.asked):
        paths = {urlsplit(url).path.lstrip("/") for url in urls if url.startswith(address)}
        weights.append(sum(bytes_sent(site / path) for path in paths))
    print(f"\n{visited.name}: {weights[0] / 1000:.0f} kB as it opens, {weights[1] / 1000:.0f} kB to its end")
    assert weights[0] <= FIRST_VIEW
    assert weights[1] <= WHOLE_PAGE


OPENED_LATE = [name for name in PAGES if re.match(r"book/(index|laboratory)|notebooks/\d+_", name)]
SHIFT = 0.05  # Chromium's measure of how far what is read moves while a page opens; a tenth begins to be poor
SHIFTS = """new PerformanceObserver((list) => {
    for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) window.shifted += value;
}).observe({ type: "layout-shift", buffered: true }); window.shifted = 0;"""
PAINTED = """() => new Promise((done) => new PerformanceObserver((list, observer) => {
    if (list.getEntriesByName("first-contentful-paint").length) done(observer.disconnect());
}).observe({ type: "paint", buffered: true }))"""
AT_REST = """async () => {
    await document.fonts.ready;
    while (document.querySelector("[data-mounted=loading]")) await new Promise((done) => setTimeout(done, 20));
    for (let frame = 0; frame < 20; frame++) await new Promise(requestAnimationFrame);
    return window.shifted;
}"""


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_nothing_moves_while_a_page_opens_though_its_letters_come_late(browser, address, size):
    moved, faces = {}, []
    for name in OPENED_LATE[size is PHONE :: 2]:  # every other page each; the same style sheets make them all
        with contextlib.closing(browser.new_context(viewport=size)) as context:  # it has kept nothing
            page = context.new_page()
            page.add_init_script(SHIFTS)
            page.route("**/*.woff2*", lambda route: faces.append(route))
            page.goto(f"{address}/{name}", wait_until="domcontentloaded")
            page.evaluate(PAINTED)
            assert faces
            while faces:  # and those that are asked for now
                faces.pop().continue_()
            page.unroute("**/*.woff2*")
            moved[name] = page.evaluate(AT_REST)
    print(f"\n{max(moved.values()):.3f} at most: {max(moved, key=moved.get)}")
    assert {name: value for name, value in moved.items() if value >= SHIFT} == {}


FACES = """() => {  // of the letters on the first screen, as their files are called
    const used = new Set();
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const [part, range] = [texts.currentNode.parentElement, document.createRange()];
        range.selectNodeContents(texts.currentNode);
        const { top, bottom, left, right, width } = range.getBoundingClientRect();
        if (!width || bottom <= 0 || top >= innerHeight || right <= 0 || left >= innerWidth) continue;
        if (!texts.currentNode.data.trim() || !part.checkVisibility({ visibilityProperty: true })) continue;
        const { fontFamily, fontWeight, fontStyle } = getComputedStyle(part);
        const family = fontFamily.split(",")[0].replaceAll('"', "").replace(" ", "-").toLowerCase();
        const style = family === "literata" && fontWeight < 550 ? fontStyle : "normal";
        const weight = family === "jetbrains-mono" || fontWeight < 550 ? 400 : 600;
        if (/^(literata|inter|jetbrains-mono)$/.test(family)) used.add(`${family}-latin-${weight}-${style}`);
    }
    const asked = [...document.querySelectorAll("link[rel=preload]")].map((link) => link.href).join();
    return [...used].map((name) => [name, asked.includes(name)]);
}"""


def test_the_faces_of_the_first_screen_are_asked_for_at_once(visited):
    page = visited.show(DESK)
    page.evaluate("scrollTo(0, 0)")
    faces = page.evaluate(FACES)
    assert faces and not [name for name, is_asked_for in faces if not is_asked_for]


def test_every_formula_is_set_and_no_markup_is_left(visited):
    assert not page_faults.raw_markup(visited.page)


def test_headings_are_in_order_and_images_say_what_they_show(visited):
    assert not page_faults.headings(visited.page)
    assert not page_faults.images(visited.page)


HEARD = """() => {
    const all = (selector) => [...document.querySelectorAll(selector)];
    return {
        folds: all("details.hide > summary[aria-label]").length, // a fold is called what is written on it
        regions: all("main section[aria-label]").map((x) => x.ariaLabel),
        code: all(".cell_input:not([role=group][aria-label=Code])").length,
        here: all("nav [aria-current=page]").map((x) => x.getAttribute("href")),
    };
}"""


def test_those_who_hear_the_page_are_told_its_parts_apart(visited):
    heard = visited.page.evaluate(HEARD)
    regions = heard.pop("regions")
    assert len(set(regions)) == len(regions), "widgets of one kind have names of their own"
    assert heard == {"folds": 0, "code": 0, "here": ["#"] * (visited.name.removesuffix(".html") in TOC)}


def test_widgets_are_mounted(visited):
    there = visited.page.eval_on_selector_all(
        "[data-widget]", "all => all.map((x) => [x.dataset.widget, x.dataset.mounted])"
    )
    assert there == [[name, "yes"] for name in WIDGETS.get(visited.name.removesuffix(".html"), [])]


def test_tab_leads_through_the_page_and_the_focus_is_seen(visited, kinds):
    if visited.name in kinds["focus"]:
        assert not page_faults.keyboard(visited.show())
    assert not page_faults.unseen_focus(visited.page)  # a style may hide it on this page alone


def overflow_of_large_letters(page):
    style = page.add_style_tag(content=LARGE_TYPE)
    page.evaluate(SETTLE)
    found = page_faults.overflow(page)
    style.evaluate("element => element.remove()")
    return found


def faults_on_paper(page):
    """List what paper shows of navigation, folds and places for answers, and demonstrations that it may cut in two."""
    page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = false; })")
    kept_off = (
        ".bd-sidebar-primary, .bd-header-article, #jb-print-toc, article details, [data-widget=your_turn], "
        "article :is(.tag_turn, .tag_exercise) > .cell_output"
    )
    found = page.locator(kept_off).locator("visible=true").all()
    page.evaluate("document.querySelector('article details:not(.hide)')?.setAttribute('open', '')")
    opened = page.locator("article details[open]:not(details:not([open]) *)")
    return [
        *found,
        *opened.locator("visible=false").all(),
        *page.evaluate("""() => [...document.querySelectorAll(".attention-widget")].map((widget) =>
            getComputedStyle(widget).breakInside).filter((breaks) => breaks !== "avoid")"""),
    ]


# How a page may be shown, and what is looked for then, of which pages. (A change of the width takes longest.)
DRESSES = [
    (NARROW, {"every": [page_faults.overflow, page_faults.loose_marks, page_faults.unreachable_scrollers]}),
    (NARROW, {"every": [page_faults.wide_tables]}),
    ({**NARROW, "theme": "dark"}, {"dress": [page_faults.contrast]}),
    ({"forced_colors": "active"}, {"widget": [page_faults.contrast]}),
    ({}, {"dress": [page_faults.motion, page_faults.contrast], "widget": [overflow_of_large_letters]}),
    ({"media": "print"}, {"focus": [faults_on_paper]}),
]


def test_a_page_can_be_read_in_every_dress(visited, kinds):
    found = []
    for dress, looks in DRESSES:
        if wanted := [look for pages in looks if visited.name in kinds[pages] for look in looks[pages]]:
            visited.page.evaluate(UNFOLD)
            page = visited.show(**dress)
            found += [(dress, look.__name__, look(page)) for look in wanted]
    assert not [each for each in found if each[-1]]


def test_axe_finds_nothing_serious(visited, kinds):  # it changes the page, so it comes last
    if visited.name in kinds["axe"]:
        visited.page.evaluate(UNFOLD)
        assert not page_faults.structure(visited.show())


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opened_as_a_file_is_whole_too(site, kinds, window, name):
    if name in kinds["widget"]:
        window.go(site.as_uri(), name)
        assert not window.complaints()
        assert not window.outside("file:")
        assert not page_faults.images(window.page)
        assert window.page.locator("[data-widget]:not([data-mounted=yes])").count() == 0


# ---- Some pages ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("menu", ["primary", "secondary"])
def test_the_menus_of_a_phone_open(browser, address, menu):
    context = browser.new_context(viewport=PHONE, reduced_motion="reduce")
    page = Visit(context).go(address, "book/how_to_use.html").page
    assert not page.evaluate(ON_SCREEN, menu)
    page.locator(f"button.{menu}-toggle").click()
    page.evaluate(SETTLE)
    assert page.evaluate(ON_SCREEN, menu)
    assert not page_faults.structure(page)
    context.close()


THROUGH = """async () => {
    for (let at = 0; at < document.documentElement.scrollHeight; at += innerHeight / 2) {
        scrollTo(0, at);
        for (const _ of "drawn") await new Promise(requestAnimationFrame);
    }
}"""
LONG = [
    "book/index",
    "book/why",
    *(f"notebooks/{path.stem}" for path in BOOK if path.stem[:3] in ("02_", "05_", "05a")),
]


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("size", [{"width": 1440, "height": 900}, {"width": 390, "height": 844}], ids=["desk", "phone"])
def test_the_scroll_bar_says_how_long_a_page_is_before_all_of_it_is_laid_out(context, address, size, name):
    page = context.new_page()
    page.set_viewport_size(size)
    page.goto(f"{address}/{name}.html")
    page.evaluate(SETTLE)
    height = "document.documentElement.scrollHeight"
    first = page.evaluate(height)
    page.evaluate(THROUGH)
    page.evaluate(SETTLE)
    assert first == pytest.approx(page.evaluate(height), rel=0.1)
    page.close()


@pytest.mark.parametrize(("size", "keeps_places"), [(DESK, True), (PHONE, False)], ids=["desk", "phone"])
def test_a_link_lands_where_it_points(browser, site, address, size, keeps_places):
    context = browser.new_context(viewport=size)  # of a reader who did not ask for less motion
    if not keeps_places:  # as Safari
        context.add_init_script(KEEP_NO_PLACE)
    off = {}
    for name, chapter in list(LISTS.items())[:: 2 if keeps_places else 1]:
        page = document_fromstring((site / name).read_text(encoding="utf-8"))
        links = page.xpath(f"//article//a/@href[contains(., '{chapter}.html#')]")
        link = urljoin(f"{address}/{name}", links[len(links) // 2])
        off[link] = Visit(context).go(address, link.removeprefix(f"{address}/")).page.evaluate(OFF)
    context.close()
    assert off and not any(off.values()), off


def translator_asked_for(visit):
    return any("widgets/translator" in url for url in visit.asked)


@pytest.mark.parametrize("way", ["http", "file"])
def test_the_start_page_fetches_the_translator_only_when_it_is_asked_to(browser, site, address, way):
    context = browser.new_context(viewport=PHONE, reduced_motion="reduce", has_touch=True)
    visit = Visit(context).go(address if way == "http" else site.as_uri(), "book/index.html")
    assert not translator_asked_for(visit)
    asks = {"http": "Open the translator", "file": "Guided tour"}
    tops = [visit.page.get_by_role("button", name=name).bounding_box()["y"] for name in asks.values()]
    assert tops[0] == tops[1], "both in a row"
    visit.page.get_by_role("button", name=asks[way]).tap()
    visit.page.wait_for_selector(".translator")
    assert visit.page.locator(".bw-card").count() == (way == "file"), "begun by the one press"
    assert translator_asked_for(visit)
    field = visit.page.get_by_label("Type an English sentence")
    field.fill("the museum was opened in 2011")
    assert visit.page.get_attribute("[data-untouched]", "data-untouched") == "il museo è stato aperto nel 2011"
    assert not page_faults.overflow(visit.page)
    assert not visit.complaints()
    context.close()


@pytest.mark.parametrize(("way", "sign"), [("http", "Tab"), ("http", "reload"), ("file", "scroll")])
def test_a_widget_below_the_first_screen_comes_with_its_reader(browser, site, address, way, sign):
    context = browser.new_context(viewport=DESK, reduced_motion="reduce")
    page, asked, failures = context.new_page(), [], []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path.rpartition("/")[2]))
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.goto(f"{address if way == 'http' else site.as_uri()}/notebooks/02_scaled_dot_product.html")
    page.wait_for_selector("[data-widget=plane][data-mounted=yes]")
    later = page.locator("[data-widget=attention_steps]")
    assert later.get_attribute("data-mounted") is None and later.locator("table").count()
    page.evaluate("dispatchEvent(new PointerEvent('pointermove'))")  # as of one that rests where the page opens
    assert not page.locator("script[src*='attention_steps.js'], script[src*='bootstrap.js']").count()
    assert "attention_steps.js" not in asked and "bootstrap.js" not in asked
    if sign == "Tab":
        page.keyboard.press("Tab")
    else:
        later.scroll_into_view_if_needed()
    page.wait_for_selector("[data-widget=attention_steps][data-mounted=yes]")
    assert {"attention_steps.js", "attention_steps.css"} <= set(asked)
    if sign == "reload":
        page.evaluate("scrollTo(0, 0)")
        page.reload()
        page.wait_for_selector("[data-widget=attention_steps][data-mounted=yes]")  # it was there, so it is
    context.close()
    assert not failures


@pytest.mark.parametrize("kind", ["attention_steps", "your_turn", "translator"])
@pytest.mark.parametrize("failure", ["no connection", "a page to log in"])
def test_a_widget_that_does_not_come_leaves_its_table_says_so_and_is_offered_again(browser, address, kind, failure):
    with contextlib.closing(browser.new_context(viewport=DESK)) as context:
        page = context.new_page()

        def fail(route):
            route.abort() if failure == "no connection" else route.fulfill(
                body="<p>Log in</p>", content_type="text/html"
            )

        page.route(f"**/{kind}.js", fail)
        name = "07_the_whole_machine" if kind == "translator" else "02_scaled_dot_product"
        page.goto(f"{address}/notebooks/{name}.html")
        widget = page.locator(f"[data-widget={kind}], [data-later-widget={kind}]").first
        widget.scroll_into_view_if_needed()
        if kind == "translator":
            widget.get_by_role("button", name="Guided tour").click()
        again = widget.get_by_role("button", name="Try again")
        again.wait_for()
        what = "box for your answer" if kind == "your_turn" else "demonstration"
        assert widget.get_by_role("status").inner_text().startswith(f"The {what} did not load.")
        assert widget.locator("table").first.is_visible()
        again.click()
        again.wait_for()  # it failed again
        page.unroute(f"**/{kind}.js")
        again.click()
        page.wait_for_selector(f"[data-widget={kind}][data-mounted=yes]")
        assert not again.count() and widget.evaluate("widget => widget.contains(document.activeElement)")
        assert widget.locator(".bw-card").count() == (kind == "translator"), "the tour that was asked for"


def test_the_menu_opens_at_the_first_click_whether_its_script_comes_with_it_or_not(browser, address):
    with contextlib.closing(browser.new_context(viewport=NARROW["size"])) as context:
        page = context.new_page()
        page.goto(f"{address}/book/notation.html")
        assert page.evaluate("window.bootstrap") is None
        context.set_offline(True)
        page.mouse.move(100, 100)
        page.mouse.move(110, 120)  # asks for it
        opener, menu = page.locator(".dropdown-page-menu > button"), page.locator(".dropdown-page-menu .dropdown-menu")
        opener.click()
        menu.locator("a").last.wait_for()
        assert not page_faults.overflow(page)
        opener.click()
        menu.wait_for(state="hidden")
        context.set_offline(False)
        page.evaluate("document.querySelector('[data-bs-toggle=dropdown]').click()")  # without a movement before it
        page.wait_for_selector(".dropdown-page-menu .dropdown-menu.show")
        assert page.evaluate("window.bootstrap") is not None


def test_without_a_script_the_start_page_shows_a_translation_and_its_weights(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "book" / "index.html").as_uri())
    table = page.locator("[data-later-widget=translator] table")
    assert table.is_visible() and "architettura" in table.inner_text()
    assert page.get_by_role("button", name="Open the translator").count() == 0
    context.close()


def test_one_switch_shows_and_hides_all_code_that_is_folded(context, address):
    page = Visit(context).go(address, "notebooks/04_several_heads.html").page
    folded = page.locator(".cell:not(.tag_hide-cell) > details.hide > .cell_input")
    shown = [folded.locator("visible=true").count()]
    for _ in range(2):
        page.get_by_role("button", name="Show all code").click()
        shown.append(folded.locator("visible=true").count())
    assert shown == [0, folded.count(), 0] and folded.count() > 3
    assert page.locator(".tag_turn > details.hide > summary").locator("visible=true").count() == 0
    page.close()


COPY = """() => {
    const paragraph = document.querySelector("article p:has(.katex)");
    const clipboardData = new DataTransfer();
    getSelection().selectAllChildren(paragraph);
    document.dispatchEvent(new ClipboardEvent("copy", { clipboardData }));
    const formulas = [...paragraph.querySelectorAll("annotation")].map((formula) => formula.textContent);
    return [clipboardData.getData("text/plain"), formulas];
}"""


def test_a_paragraph_is_copied_with_its_formulas_as_tex(context, site):
    page = Visit(context).go(site.as_uri(), "notebooks/02_scaled_dot_product.html").page
    copied, formulas = page.evaluate(COPY)
    assert formulas and copied.split("$")[1::2] == formulas
    page.close()


def test_an_example_of_the_api_is_copied_as_it_is_typed(browser, address):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = Visit(context).go(address, "book/package/masks.html").page
    example = page.locator("dl.py div.highlight", has_text=">>> ").first
    example.hover()
    example.locator("button.copybtn").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    shown = example.locator("pre").inner_text().splitlines()
    assert copied.splitlines() == [line[4:] for line in shown if line.startswith((">>> ", "... "))] != shown
    context.close()


def test_the_form_for_an_error_names_the_section_in_sight(context, address):
    page = Visit(context).go(address, "notebooks/05_masking.html#section-5-4").page
    page.locator("#section-5-4").scroll_into_view_if_needed()
    page.evaluate("document.addEventListener('click', (event) => event.preventDefault())")
    link = page.locator("a.btn-source-issues-button").first
    link.evaluate("link => link.click()")
    asked = parse_qs(urlsplit(link.get_attribute("href")).query)
    assert asked["template"] == ["chapter.yml"]
    assert asked["place"][0].endswith("/notebooks/05_masking.html#section-5-4")
    page.close()


def test_the_theme_follows_the_readers_system(browser, address):
    for theme in ("light", "dark"):
        context = browser.new_context(color_scheme=theme)
        page = Visit(context).go(address, PAGES[0]).page
        assert page.get_attribute("html", "data-theme") == theme
        context.close()


@pytest.mark.parametrize(
    "store",
    [
        "Object.defineProperty(window, 'localStorage', { configurable: true, get() { throw new Error('refused'); } })",
        "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }",
    ],
    ids=["refused", "full"],
)
def test_the_theme_can_be_chosen_where_nothing_can_be_kept(browser, address, store):
    context = browser.new_context(viewport=DESK, color_scheme="light")
    context.add_init_script(store)
    visit = Visit(context).go(address, "book/how_to_use.html")
    shown = [visit.page.get_attribute("html", "data-theme")]
    for _ in range(3):
        visit.page.locator("button.theme-switch-button:visible").click()
        shown.append(visit.page.get_attribute("html", "data-theme"))
    assert sorted(shown) == ["dark", "light", "light", "light"] and not visit.complaints()
    context.close()


# ---- The tests see what is wrong ------------------------------------------------------------------------------------

FORMULA = '<b class="katex"><b class="katex-html"><b class="base">x</b></b></b>'
WRONG = [
    ("raw_markup", "<p>An unclosed formula: $x + 1</p>"),
    ("raw_markup", "<p>A link that is none: [here](there.html)</p>"),
    ("raw_markup", '<p>Small: <span class="katex" style="font-size: 60%">x</span></p>'),
    ("loose_marks", f'<p style="width: 1px; line-break: anywhere">{FORMULA}.</p>'),
    ("overflow", '<div style="width: 3000px">wide</div>'),
    ("wide_tables", '<div style="overflow: auto"><table class="table" style="width: 3000px"><td>wide</table></div>'),
    ("unreachable_scrollers", '<div style="overflow-x: auto"><div style="width: 3000px">wide</div></div>'),
    ("headings", "<h5>Two levels down</h5>"),
    ("images", '<img src="../_static/favicon.svg" alt="favicon.svg">'),
    ("motion", '<p style="transition: color 3s !important">slow</p>'),
    ("contrast", '<p style="color: #999; background: #eee">faint</p>'),
    ("contrast", '<div style="opacity: 0.4"><p>faint</p></div>'),
    ("contrast", '<input aria-label="a field" value="faint" style="color: #aaa; background: #fff">'),
    ("contrast", '<div><template shadowrootmode="open"><p style="color: #999">faint</p></template></div>'),
    ("structure", '<button type="button"></button>'),
    ("unseen_focus", '<a href="#" style="outline: none !important; box-shadow: none">unseen</a>'),
    ("keyboard", '<button style="outline: none !important; box-shadow: none">unseen</button>'),
    ("keyboard", '<button onkeydown="event.preventDefault()">a trap</button>'),
    ("keyboard", '<button tabindex="1">before the link that skips to the text</button>'),
]


@pytest.fixture(scope="module")
def page_to_spoil(context, address):
    visit = Visit(context).go(address, "book/how_to_use.html")
    yield visit
    visit.page.close()


ADD = """(html) => {
    const added = Object.assign(document.createElement("div"), { id: "added" });
    added.setHTMLUnsafe(html); // which takes shadow roots as well
    document.querySelector("article").append(added);
}"""


@contextlib.contextmanager
def added(visit, html):
    """Add something to the text of a page, for a while; return the page."""
    page = visit.show(PHONE)
    page.evaluate(ADD, html)
    page.evaluate(SETTLE)
    yield page
    page.evaluate("document.getElementById('added').remove()")


@pytest.mark.parametrize("name", sorted({name for name, _ in WRONG}))
def test_each_kind_of_fault_is_found_and_a_sound_page_has_none(page_to_spoil, name):
    for html in ("<p>Nothing wrong.</p>", *(html for kind, html in WRONG if kind == name)):
        with added(page_to_spoil, html) as page:
            assert bool(getattr(page_faults, name)(page)) == ("Nothing wrong" not in html), html
        if name in ("keyboard", "structure"):  # which leave their marks
            page.reload()


def test_complaints_failures_and_outside_requests_are_found(context, address):
    visit = Visit(context).go(address, "book/how_to_use.html")
    visit.page.evaluate("console.warn('no')")
    with added(visit, '<img src="missing.png" alt="x"><img src="http://127.0.0.1:9/outside.png" alt="x">'):
        visit.page.wait_for_function("[...document.querySelectorAll('#added img')].every((image) => image.complete)")
    visit.page.close()
    assert "warning: no" in visit.complaints()
    assert any(re.search("404", line) for line in visit.complaints())
    assert [urlsplit(url).path for url in visit.outside(address)] == ["/outside.png"]


def test_contrast_is_found_as_axe_finds_it(page_to_spoil):
    """The two go different ways about it; they must agree on what is too faint."""
    from axe_playwright_python.sync_playwright import Axe

    shades = "".join(f'<p id="shade-{c}" style="color: #{c}{c}{c}; background: #fff">shade</p>' for c in "689a")
    with added(page_to_spoil, shades) as page:
        options = {"preload": False, "runOnly": ["color-contrast"]}
        (violation,) = Axe().run(page, options=options).response["violations"]
        by_axe = {node["html"][7:14] for node in violation["nodes"]}
        ours = " ".join(page_faults.contrast(page))
    levels = {f"shade-{c}" for c in "689a" if f"rgb({int(c * 2, 16)}, " in ours}
    assert levels == by_axe == {"shade-8", "shade-9", "shade-a"}
