"""What every widget keeps, whatever it shows. A new widget is tested here as soon as its class is in `widgets.__all__`.

What a cell leaves behind, live and in the book; light and dark, desk and phone; keyboard; a shadow root; no script; a
page that is served and one that is opened as a file. The laws of one widget stand in its own file.
"""

import inspect
import re
from pathlib import Path

import pytest
import traitlets
from attention_book.widgets import HEAVY
from bs4 import BeautifulSoup
from IPython.core.formatters import DisplayFormatter
from website import (
    DESK,
    DRESS,
    PHONE,
    WIDGETS,
    WISHES,
    await_widget,
    phone_faults,
    put,
    serious_findings,
    state_in,
    visiting,
)

from tools.book import ROOT

CLASSES = list(WIDGETS.values())
BENCH = Path(__file__).with_name("mount.js").read_text(encoding="utf-8")

every = pytest.mark.parametrize("widget", CLASSES, ids=lambda widget: widget.module)
# What the kit or the page around a widget does in the same way for all is looked at once.
any_one = pytest.mark.parametrize("widget", CLASSES[:1], ids=lambda widget: widget.module)
# A widget that comes with its page, and one that is fetched when it is asked for
WAYS = [next(widget for widget in CLASSES if bool(widget.later) == later) for later in (False, True)]
one_of_each_way = pytest.mark.parametrize("widget", WAYS, ids=lambda widget: widget.module)


@pytest.fixture
def static(monkeypatch):
    monkeypatch.setenv("ATTENTION_TUTORIAL_WIDGETS", "static")


# ---- What a cell leaves behind ------------------------------------------------------------------------------------


@every
def test_the_books_cells_leave_the_same_html_every_time_with_state_and_table_and_no_script(static, widget):
    first, second = (widget()._repr_html_() for _ in range(2))
    assert first == second == widget().to_html()
    assert state_in(first) == widget().state()
    soup = BeautifulSoup(first, "html.parser")
    assert soup.select("table caption") and not soup.select("script")
    assert re.search(r"\d", soup.table.text)
    assert repr(widget()).startswith(f"{widget.__name__}(") and " at 0x" not in repr(widget())


@every
def test_a_live_cell_leaves_all_that_the_widget_needs_and_nothing_of_a_kernel(live, widget):
    data, metadata = DisplayFormatter().format(widget())
    assert set(data) == {"text/html", "text/plain"} and metadata == {}
    assert data["text/html"] == widget()._repr_html_(), "it is the same every time"
    soup = BeautifulSoup(data["text/html"], "html.parser")
    assert state_in(data["text/html"]) == widget().state() and soup.select("table caption")
    assert len(soup.select("script:not([src])")) == 1
    assert data["text/html"].partition("<script>")[2].count("<") == 1, "nothing in it ends the script"


FRONT_END = """<!doctype html><html lang=en><title>A notebook</title>
<style>.output:not(.x) :is(td, th, tr:nth-child(odd), p) { text-align: right; background: red; margin: 9px }</style>
<body %s><div class=output></div>"""
# What a front end does with the HTML of a trusted output: scripts run only if they are made anew.
TRUSTED = """(page) => {
  const output = document.querySelector(".output");
  output.innerHTML = page;
  for (const old of output.querySelectorAll("script")) {
    old.replaceWith(Object.assign(document.createElement("script"), { textContent: old.textContent }));
  }
}"""


NIGHT = ("class=vscode-dark", "dark")
THEMES = [("", "light"), ("data-jp-theme-light=true", "light"), ("data-jp-theme-light=false", "dark")]
MARKED = [*((*NIGHT, widget) for widget in CLASSES), *((*theme, CLASSES[0]) for theme in THEMES)]


@pytest.mark.parametrize(("mark", "scheme", "widget"), MARKED, ids=lambda each: getattr(each, "module", each))
def test_in_a_notebook_it_comes_up_without_a_kernel_in_the_front_ends_theme(pages, live, mark, scheme, widget):
    page = pages.take(viewport={"width": DESK, "height": 900})
    page.set_content(FRONT_END % mark)
    page.evaluate(TRUSTED, widget()._repr_html_())
    page.wait_for_selector("[data-mounted=yes]")
    look = page.locator(".bw").evaluate("x => [getComputedStyle(x).colorScheme, x.textContent.length > 10]")
    assert look == [scheme, True]
    reached = ".bw :is(td, th, tr, p)"
    grounds = page.locator(reached).evaluate_all("all => all.map(x => getComputedStyle(x).backgroundColor)")
    assert "rgb(255, 0, 0)" not in grounds, "the front end's styles do not reach it"
    failures = [what for kind, what in page.heard if kind == "failure"]
    pages.give_back(page)
    assert failures == []


def test_several_widgets_of_one_output_each_come_up(pages, live):
    page = pages.take(viewport={"width": DESK, "height": 900})
    page.set_content(FRONT_END % "")
    page.evaluate(TRUSTED, CLASSES[0]()._repr_html_() * 2)
    page.wait_for_function("document.querySelectorAll('[data-mounted=yes]').length === 2", timeout=30_000)
    assert page.locator(".bw").count() == 2
    pages.give_back(page)


@every
def test_every_argument_is_checked_by_name(widget):
    for name, parameter in inspect.signature(widget).parameters.items():
        if not re.search("Sequence|Mapping", str(parameter.annotation)):
            with pytest.raises((TypeError, ValueError, traitlets.TraitError), match=rf"\b{name}\b"):
                widget(**{name: object()})


# ---- The bundle ---------------------------------------------------------------------------------------------------


def fields(name, folder):
    """Return the fields of an interface in the widget's TypeScript, with those that it extends."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.ts*")))
    extends, body = re.search(
        rf"^(?:export )?interface {name} (?:extends (\w+) )?{{\n(.*?)^}}", source, re.M | re.S
    ).groups()
    own = re.findall(r"^  (\w+)\??:", body, re.MULTILINE)
    return {*own, *(fields(extends, folder) if extends else ())}


@every
def test_the_typescript_has_the_names_of_the_state_and_no_other(widget):
    assert fields("State", ROOT / "js" / "widgets" / widget.module) == set(widget().state())


# ---- The state ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=CLASSES, ids=lambda widget: widget.module)
def read(request, pages):
    """Each widget in turn, and a page that has read its bundle, where it can be mounted; no script may fail."""
    page, widget = pages.take(viewport={"width": DESK, "height": 900}), request.param
    page.set_content("<!doctype html><html lang=en><title>bench</title><body>")
    page.add_script_tag(content=BENCH)
    page.evaluate("(given) => bench.read(...given)", [widget.bundle("js"), widget.bundle("css")])
    yield page, widget().state()
    failures = [what for kind, what in page.heard if kind == "failure"]
    pages.give_back(page)
    assert failures == []


@pytest.fixture
def bench(read):
    """Return how to call a function of mount.js, and how to mount the widget once more."""
    page, state = read

    def call(name, *given):
        return page.evaluate("([name, given]) => bench[name](...given)", [name, given])

    yield page, call, lambda shadow=False: call("mount", state, shadow)
    assert not any(call("clear")), "what is taken away leaves nothing"


# Put the texts that one may translate into elements of their own, as Chrome's translator does; return how many.
TRANSLATE = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  const ours = texts.filter((text) => text.parentElement.translate && text.data.trim());
  for (const text of ours) {
    const fonts = [1, 2].map(() => document.createElement("font"));
    text.replaceWith(fonts[0]);
    fonts[0].append(fonts[1]);
    fonts[1].append(text.data);
  }
  return ours.length;
}"""


def test_a_widget_shows_its_state_and_writes_into_it_also_on_a_translated_page(bench, read):
    """Use the controls at random; after each time, one mounted anew with the same state must show the same."""
    (page, call, mount), (_, first) = bench, read
    number, states = mount(), []
    for seed in (1, 2):
        assert page.evaluate(TRANSLATE), "its title can be translated, and what came anew"
        found = call("exercise", number, 8, seed)
        assert found["faults"] == []
        states += found["states"]
    assert all(state.keys() == first.keys() for state in states)
    assert any(state != states[0] for state in states), "something was changed"


USE = """(number) => {
  const { el } = bench.mounted[number];
  const lost = [];
  const controls = "select, input[type=range], input[type=checkbox], button";
  const used = new Set();
  const use = (control) => {
    if (used.has(control) || !control.checkVisibility() || control.closest("[inert]")) return;
    used.add(control);
    control.focus();
    if (control.type === "range") control.dispatchEvent(new Event("input", { bubbles: true }));
    else if (control.tagName === "SELECT") control.dispatchEvent(new Event("change", { bubbles: true }));
    else control.click();
    const root = el.getRootNode();
    const now = root.activeElement;
    if (control.isConnected ? now !== control : !el.contains(now)) lost.push(control.outerHTML);
    for (const named of el.querySelectorAll("[aria-labelledby], label[for]")) {
      const id = named.getAttribute("aria-labelledby") ?? named.htmlFor;
      if (!root.getElementById(id)) lost.push(id);
    }
  };
  // What only a press brings, such as what undoes it, is there in the second round
  for (const _ of [1, 2]) el.querySelectorAll(controls).forEach(use);
  return lost;
}"""


def test_several_of_a_kind_share_no_id_and_no_state_and_in_a_shadow_root_one_keeps_the_focus(bench):
    page, call, mount = bench
    used, quiet, shaded = mount(), mount(), mount(shadow=True)
    first = call("shown", quiet)
    assert call("shown", shaded) == first
    assert page.evaluate(USE, shaded) == []
    call("wander", used, 5, 4)
    assert call("shown", quiet) == first
    ids = page.eval_on_selector_all("[id]", "all => all.map(x => x.id)")
    assert len(ids) == len(set(ids))


# The element with the focus, if its outline is not seen; null outside of widgets
UNSEEN = """() => {
  const x = document.activeElement;
  if (!x.closest(".bw")) return null;
  x.dataset.reached = "yes";
  const { outlineStyle, outlineWidth } = getComputedStyle(x);
  return outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 ? "" : x.outerHTML.slice(0, 200);
}"""


def test_keys_of_a_widget_are_not_heard_by_the_notebook_around_it(bench):
    page, _, mount = bench
    number = mount()
    page.evaluate("window.heard = []; document.addEventListener('keydown', (e) => heard.push(e.key))")
    stops = page.evaluate(
        "(number) => [...bench.mounted[number].el.querySelectorAll('select, input, button, td[tabindex]')]"
        ".filter(x => x.checkVisibility() && x.tabIndex === 0).length",
        number,
    )
    page.evaluate("(number) => bench.mounted[number].el.querySelector('select, input, button').focus()", number)
    for _ in range(min(stops, 6)):
        for key in ("ArrowRight", "ArrowUp", "Home"):
            page.keyboard.press(key)
        page.keyboard.press("Tab")
        assert not page.evaluate(UNSEEN), "the focus is not seen without the site's style sheets"
    assert set(page.evaluate("heard")) == {"Tab"}


# ---- On a page of the book ----------------------------------------------------------------------------------------

FOLD_OUT = "document.querySelectorAll('.bw details').forEach((one) => (one.open = true))"


def states(page):
    """Lead a page through states of its widget: as it begins, everything folded out, every switch turned."""
    yield "first"
    page.evaluate(FOLD_OUT)
    page.evaluate(
        "document.querySelectorAll('.bw input[type=range]').forEach((one) => { one.value = one.max; "
        "one.dispatchEvent(new Event('input', { bubbles: true })); })"
    )
    yield "sliders at their ends"
    for box in page.locator(".bw > * > .bw-toggle input, .bw .bw-head input, .bw .bw-toggles input").all():
        box.click()
    page.evaluate(FOLD_OUT)
    yield "every switch turned"
    for menu in page.locator(".bw select").all():
        menu.select_option(index=menu.locator("option").count() - 1)
    for group in page.locator(".bw [role=group]").all():
        if (buttons := group.locator("button:not([aria-disabled])").locator("visible=true")).count():
            buttons.last.click()
    page.evaluate(FOLD_OUT)
    yield "the last of every choice"


@any_one
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_widget_dresses_as_the_readers_system(visit_widget, widget, theme):
    page = visit_widget(widget.module, color_scheme=theme)
    assert page.get_attribute("html", "data-theme") == theme
    shown = page.evaluate("getComputedStyle(document.querySelector('.bw')).colorScheme")
    assert shown == theme


def test_axe_finds_what_is_wrong(visit_widget):
    page = visit_widget(CLASSES[0].module, "http")
    page.evaluate("document.querySelector('.bw').prepend(Object.assign(new Image(), { src: 'data:,' }))")
    assert "image-alt" in {rule for rule, _ in serious_findings(page, ".bw")}
    page = visit_widget(CLASSES[0].module, "http")
    page.evaluate("document.querySelector('.bw').insertAdjacentHTML('afterbegin', '<p id=faint>faint</p>')")
    for where, rule in {
        "dark, 360": "html[data-theme=dark] #faint { color: #333 }",
        "light, 1280": "html[data-theme=light] #faint { color: #bbb }",
    }.items():
        style = page.add_style_tag(content=rule)
        assert [what.partition(":")[0] for _, what in serious_findings(page, ".bw")] == [where]
        assert len(serious_findings(page, ".bw", thorough=False)) == (where == "dark, 360")
        style.evaluate("element => element.remove()")


# Some laws need no page of their own: they look, in this order, at one that is opened once, on a phone.


@pytest.fixture(scope="module", params=CLASSES, ids=lambda widget: widget.module)
def opened(request, pages, widget_addresses):
    """Return each widget in turn with its page; all tests of a page come one after the other."""
    with visiting(pages, widget_addresses) as visit:
        yield request.param, visit(request.param.module, "http", width=PHONE, reduced_motion="reduce")


def dress(page, width, **wishes):
    page.emulate_media(**{**WISHES, "reduced_motion": "reduce", **wishes})
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(DRESS, ["light", width])  # what follows the width has followed it


STAYS_IN_PLACE = {"code_reader", "heads"}  # below the tokens; a line for each head would cover too much of a phone
NO_PANEL = {"your_turn"}


def test_on_paper_no_control_stands_that_does_nothing_there(opened):
    widget, page = opened
    if widget.module in ("your_turn", "laboratory"):  # one writes into the one, and the other is for a screen
        return
    dress(page, PHONE, media="print")
    seen = page.locator(".bw :is(.bw-button, input[type=range], textarea):visible")
    dead = seen.evaluate_all(
        "all => all.filter(x => !x.matches('.bw-word, [aria-pressed=true], [aria-current]')).map(x => x.outerHTML)"
    )
    dress(page, PHONE, media="screen")
    assert dead == []


def test_the_panel_sticks_to_the_window_while_one_works_and_covers_no_focus(opened):
    widget, page = opened
    if widget.module in NO_PANEL:
        return
    panel = page.locator(".bw-panel")
    assert panel.count() == 1, "use <Panel> of js/kit"
    stays = widget.module in STAYS_IN_PLACE
    page.mouse.move(0, 0)  # the code reader was fetched by a click, and has the focus
    page.evaluate("document.activeElement.blur()")
    position = "x => getComputedStyle(x).position"
    assert panel.evaluate(position) == "static", "before one works with the widget, it covers nothing"
    page.add_style_tag(content="html { scroll-behavior: auto !important; }")  # or it scrolls on while we look
    page.evaluate("document.querySelector('.bw').scrollIntoView()")
    page.locator(".bw :is(button, select, input)").first.evaluate("x => x.focus({ preventScroll: true })")
    assert panel.evaluate(position) == ("static" if stays else "sticky")
    if stays:
        return
    place = panel.bounding_box()
    assert place["y"] + place["height"] <= 901, "it is in sight as soon as one works with the widget"
    hidden = """() => {
      const panel = document.querySelector(".bw-panel");
      const covered = [];
      for (const x of document.querySelectorAll(".bw :is(button, select, input)")) {
        if (!x.checkVisibility() || x.disabled || x.closest(".bw-panel")) continue;
        x.focus();
        const [a, b] = [x.getBoundingClientRect(), panel.getBoundingClientRect()];
        if (a.bottom > b.top + 1 && a.top < b.bottom - 1) covered.push(x.outerHTML.slice(0, 200));
      }
      document.activeElement.blur();
      return covered;
    }"""
    assert page.evaluate(hidden) == []


def test_every_control_is_reached_by_tab_and_shows_the_focus(opened):
    _, page = opened
    dress(page, DESK)
    page.evaluate(FOLD_OUT)
    page.locator(".bw :is(select, input, button)").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    for _ in range(200):
        unseen = page.evaluate(UNSEEN)
        if unseen is None:
            break
        assert unseen == "", "the focus is not seen"
        page.keyboard.press("Tab")
    left = page.eval_on_selector_all(
        ".bw :is(button, select, input, textarea, summary, [tabindex='0'])",
        "all => all.filter(x => x.checkVisibility() && !x.disabled && !x.dataset.reached && x.tabIndex === 0)"
        ".map(x => x.outerHTML.slice(0, 200))",
    )
    assert left == []
    by_arrows = page.eval_on_selector_all(
        ".bw :is(button, select, input, textarea)",
        "all => all.filter(x => x.checkVisibility() && !x.disabled && x.tabIndex < 0 && "
        "!x.closest('[role=grid], [data-roving]')).map(x => x.outerHTML.slice(0, 200))",
    )
    assert by_arrows == [], "what Tab does not reach, arrow keys do"


def test_what_is_pressed_is_told_apart_where_the_system_sets_the_colours(opened):
    _, page = opened
    dress(page, DESK, forced_colors="active")
    grounds = page.eval_on_selector_all(
        ".bw .bw-button[aria-pressed]", "all => all.map(x => [x.ariaPressed, getComputedStyle(x).backgroundColor])"
    )
    pressed, other = ({ground for on, ground in grounds if on == is_on} for is_on in ("true", "false"))
    assert not pressed & other


def test_nothing_moves_for_those_who_ask_for_less_motion(opened):
    _, page = opened
    dress(page, DESK)
    assert page.evaluate(
        "[...document.querySelectorAll('.bw, .bw *')].flatMap(x => [getComputedStyle(x).transitionDuration, "
        "getComputedStyle(x).animationDuration]).filter(d => !/^0s(, 0s)*$/.test(d) && d !== 'auto')"
    ) == []  # fmt: skip


def test_in_every_state_axe_finds_nothing_serious_and_nothing_is_wider_than_a_phone_or_hard_to_tap(opened):
    _, page = opened
    dress(page, DESK)
    found = {}
    for state in states(page):
        dress(page, 320)
        found[state] = phone_faults(page)
        if state in ("sliders at their ends", "the last of every choice"):  # together they show what the others do
            found[state] += serious_findings(page, ".bw", thorough=state == "the last of every choice")
    assert found == {state: [] for state in found}


SMALL = [widget for widget in CLASSES if "compact" in widget.class_trait_names() and widget.module != "translator"]


@pytest.mark.parametrize(("width", "height"), [(DESK, 560), (PHONE, 940)])
@pytest.mark.parametrize("widget", SMALL, ids=lambda widget: widget.module)
def test_a_small_form_has_few_controls_and_keeps_its_height(pages, widget, width, height):
    page = pages.take(viewport={"width": width, "height": 900})
    put(page, widget.recorded() if hasattr(widget, "recorded") else widget(compact=True))
    controls = page.locator(".bw :is(input, select, button):not(.bw-tools *)").all()
    assert len(controls) <= 7
    heights = {page.locator(".bw").bounding_box()["height"]}
    for control in controls:
        control.evaluate("""x => {
          if (x.type === "range") x.value = x.max;
          x.dispatchEvent(new Event("input", { bubbles: true }));
          x.click();
        }""")
        heights.add(page.locator(".bw").bounding_box()["height"])
    assert len(heights) == 1 and heights.pop() <= height
    pages.give_back(page)


def test_a_choice_that_needs_less_room_leaves_what_stands_below_where_it_is(pages):
    page = pages.take(viewport={"width": DESK, "height": 900})
    put(page, WIDGETS["mask_builder"]())
    height = lambda: round(page.locator(".bw").bounding_box()["height"], 1)  # noqa: E731
    menu = page.locator(".bw select").first
    heights = [height()]
    for index in range(menu.locator("option").count()):
        menu.select_option(index=index)
        heights.append(height())
    assert heights == sorted(heights)
    fold = page.locator(".bw details > summary").first
    fold.click()
    fold.click()
    page.wait_for_function("!document.querySelector('.bw').style.minHeight")
    assert height() < heights[-1]
    pages.give_back(page)


@one_of_each_way
def test_without_a_script_a_table_stands_there(visit_widget, widget):
    page = visit_widget(widget.module, java_script_enabled=False)
    assert page.locator("[data-state] table").first.is_visible()


@any_one
def test_a_bundle_that_fails_leaves_the_table(browser, widget_pages, widget):
    def script(name):
        return (widget_pages / "_static" / "widgets" / f"{name}.js").read_text(encoding="utf-8")

    page = browser.new_page()
    page.set_content(widget().to_html())
    page.add_script_tag(
        content=f"window.attentionWidgets = {{ {widget.module}: "
        "`export default { render({ el }) { el.replaceChildren(); throw new Error('no'); } }` };"
    )
    page.add_script_tag(content=script("host"))
    page.wait_for_selector("[data-mounted=failed]")
    assert page.locator("table").first.is_visible()
    page.close()


@one_of_each_way
def test_after_a_reload_a_widget_is_where_its_reader_left_it(visit_widget, widget):
    page = visit_widget(widget.module, "http")
    state = "document.querySelector('[data-widget]').textContent"
    first = page.evaluate(state)
    moving = ".bw input[type=range], .bw .bw-button[aria-pressed=false], .bw li:nth-child(3) button, .bw form input"
    for control in page.locator(moving).all():
        if control.is_visible() and control.is_enabled():
            control.evaluate(
                "x => { if (x.type === 'range') { x.value = x.value === x.max ? x.min : x.max; "
                "x.dispatchEvent(new Event('input', { bubbles: true })); } "
                "else if (x.form) { x.value = '1'; x.form.requestSubmit(); } else x.click(); }"
            )
            break
    left = page.evaluate(state)
    assert left != first
    page.reload()
    page.wait_for_selector("[data-widget][data-mounted=yes]")
    assert page.evaluate(state) == left
    page.goto(page.url.replace(f"{widget.module}.html", "more/plain.html"))
    page.go_back()
    page.wait_for_selector("[data-widget][data-mounted=yes]")
    assert page.evaluate(state) == left
    page.goto(page.url)
    await_widget(page)
    assert page.evaluate(state) == first, "who comes anew begins at the beginning"


@every
def test_a_page_loads_the_widgets_it_has_and_no_other(widget_pages, widget):
    def loaded(page):
        soup = BeautifulSoup((widget_pages / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
        found = [tag.get("src") or tag.get("href") for tag in soup.select("script[src], link[href]")]
        return {name.split("?")[0].rsplit("/", 1)[1] for name in found if "/widgets/" in name}

    own = set() if widget.later else {f"{widget.module}.js", f"{widget.module}.css"}
    if len(widget.bundle("js")) >= HEAVY:  # it waits for a sign of a reader
        own.discard(f"{widget.module}.js")
    assert loaded(widget.module) == {*own, "host.js"}
    assert loaded("more/plain") == set()
