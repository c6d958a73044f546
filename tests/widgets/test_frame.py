"""What the kit puts around a widget: a link to what it shows, and a whole screen."""

import itertools
import json
from base64 import urlsafe_b64encode

import pytest
from website import await_widget

# What a reader presses or types, for each widget whose state is worth a link
CHANGES = {
    "attention_steps": lambda page: page.get_by_role("button", name="Next step").click(),
    "heads": lambda page: page.locator(".hds-ask").last.click(),
    "mask_builder": lambda page: page.locator("select").first.select_option(index=1),
    "plane": lambda page: page.get_by_role("button", name="on", exact=True).first.click(),
    "temperature": lambda page: page.locator("input[type=range]").first.press("End"),
    "translator": lambda page: page.locator(".tr-text").fill("the model was trained in 2015"),
}
NO_SUCH = {  # what cannot be read, and states that cannot be
    "mask_builder": [{"cells": ["10", "1"]}, {"cells": []}, {"task": "x"}, {"window": 1.5}, {"padding": ["x"]}],
    "plane": [
        *["", "x", "%E0%A4%A", "0", "1", "2"],
        *[[], None, 3, {"words": ["x"]}, {"note": "x"}, {"word": "cat"}, {"query": [1e9, 0]}, {"keys": [1, 2]}],
    ],
    "temperature": [{"d_k": 5}, {"query": 0}, {"own": 0}, {"along": "x"}],
    "translator": [{"sentence": 7}],
}
LINK = ".bw-tools a[href^='#']"
REFUSED = "The link that led here holds nothing"
FOLLOW = """(fragment) => new Promise((done) => {
    addEventListener("hashchange", () => setTimeout(done), { once: true });
    location.hash = fragment;
})"""


def link(page):
    return page.locator(LINK).get_attribute("href")


def packed(state):
    return urlsafe_b64encode(json.dumps(state).encode()).decode().rstrip("=")


def open_link(page, fragment):
    address = page.url.partition("#")[0] + fragment
    page.goto("about:blank")  # so that the page is opened anew
    page.goto(address)
    await_widget(page)


@pytest.mark.parametrize("module", CHANGES)
def test_a_link_leads_to_what_its_sender_sees(visit_widget, module):
    page = visit_widget(module)
    first = link(page)
    CHANGES[module](page)
    changed = "([link, first]) => document.querySelector(link).getAttribute('href') !== first"
    page.wait_for_function(changed, arg=[LINK, first])
    sent, seen = link(page), page.locator(".bw").inner_text()
    open_link(page, sent)
    assert page.locator(".bw").inner_text() == seen
    assert link(page) == sent


def test_a_link_is_followed_on_the_page_itself_and_a_reload_keeps_what_came_after(visit_widget):
    page = visit_widget("plane")
    sent = f"#plane--{packed({'query': [1, 2]})}"
    page.evaluate("link => { location.hash = link; }", sent)
    page.get_by_text("Query (1, 2)").wait_for()
    CHANGES["plane"](page)
    after = link(page)
    assert after != sent
    page.reload()
    await_widget(page)
    assert link(page) == after


@pytest.mark.parametrize("module", NO_SUCH)
def test_a_link_that_says_nothing_it_knows_is_refused_in_words(visit_widget, module):
    page = visit_widget(module)
    first, refused = link(page), page.locator(".bw [role=status]", has_text=REFUSED)
    texts = [f"#{module}--{said if isinstance(said, str) else packed(said)}" for said in NO_SUCH[module]]
    open_link(page, texts[0])
    refused.wait_for()
    CHANGES[module](page)
    refused.wait_for(state="detached")
    good = itertools.cycle((first, link(page)))
    for text in texts:  # by links on the page itself, now that the widget is there
        shown = next(good)
        page.evaluate(FOLLOW, shown)
        assert refused.count() == 0 and link(page) == shown
        page.evaluate(FOLLOW, text)
        assert refused.count() == 1 and link(page) == shown, text


def test_links_of_other_things_change_nothing(visit_widget):
    page = visit_widget("plane")
    first = link(page)
    open_link(page, "#section-2-1")
    assert link(page) == first and not page.get_by_text(REFUSED).count()


def test_it_fills_the_screen_as_large_as_it_fits_and_comes_back(visit_widget):
    page = visit_widget("plane")
    size = "x => [x.getBoundingClientRect().width, x.getBoundingClientRect().bottom, x.style.zoom]"
    width, _, _ = page.locator(".bw").evaluate(size)
    page.get_by_role("button", name="Fill the screen").click()
    page.wait_for_function("document.querySelector('.bw').style.zoom > 1")
    large, bottom, _ = page.locator(".bw").evaluate(size)
    screen = page.evaluate("[innerWidth, innerHeight]")
    assert width * 1.05 < large <= screen[0] + 1 and bottom <= screen[1] + 1
    page.evaluate("document.exitFullscreen()")
    page.wait_for_function("document.querySelector('.bw').style.zoom === ''")
    assert page.locator(".bw").evaluate(size)[0] == width


def test_a_screen_that_a_browser_refuses_leaves_all_as_it_was(visit_widget):
    page, failures = visit_widget("plane"), []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.evaluate("() => { Element.prototype.requestFullscreen = () => Promise.reject(TypeError('not connected')); }")
    page.get_by_role("button", name="Fill the screen").click()
    page.evaluate("() => new Promise((done) => setTimeout(done))")
    assert page.locator(".bw").get_attribute("style") is None and not failures
