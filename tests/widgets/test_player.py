"""Laws of what is played: one control for all widgets that have a course in time, and it never begins by itself."""

import pytest
from website import hard_to_tap, press, put, slide

from attention_tutorial.widgets import Bottleneck, Tiles, Translator

PACE = {"tiles": 1200}  # milliseconds from one moment to the next; 700 for all others
PLAYED = {
    "tiles": lambda: Tiles(block=2),
    "bottleneck": lambda: Bottleneck.recorded(length=2),
    "bottleneck, words": lambda: Bottleneck.recorded(unit="word", length=7),
    "bottleneck, whole": lambda: Bottleneck(length=2),
    "translator": lambda: Translator("the idea was praised in 2020", compact=True),
}


@pytest.fixture(params=PLAYED, scope="module")
def played(request, pages):
    """A page with one of the widgets, whose clock stands still; with its slider's first and last moment."""
    page = pages.take(viewport={"width": 390, "height": 900}, reduced_motion="reduce")
    put(page, PLAYED[request.param]())
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    page.pace = PACE.get(request.param, 700)
    yield page, *(int(slider(page).get_attribute(end)) for end in ("min", "max"))
    failures = [what for kind, what in page.heard if kind == "failure"]
    pages.give_back(page)
    assert failures == []


def slider(page):
    return page.locator(".bw-player input[type=range]")


def at(page):
    return int(slider(page).input_value())


def button(page):
    return page.text_content(".bw-player [id$='-play']")


def test_it_plays_when_asked_pauses_and_stops_at_the_end(played):
    page, first, last = played
    begun = at(page)
    page.clock.run_for(20_000)
    assert at(page) == begun and button(page) == "Play", "never by itself"
    slide(page, slider(page).get_attribute("id").rpartition("-")[2], last)
    press(page, "play")
    assert at(page) == first and button(page) == "Pause", "once more from the first"
    for moment in range(first + 1, last):
        page.clock.run_for(page.pace + 50)
        assert at(page) == moment, "one at a time"
    press(page, "play")
    page.clock.run_for(20_000)
    assert at(page) == last - 1 and button(page) == "Play", "paused"
    press(page, "play")
    page.clock.run_for(20_000)
    assert at(page) == last and button(page) == "Play"


def test_it_is_stepped_and_dragged_and_a_hand_stops_it(played):
    page, first, last = played
    name = slider(page).get_attribute("id").rpartition("-")[2]
    slide(page, name, first)
    assert page.get_attribute("[id$='-back']", "aria-disabled") == "true"
    press(page, "next")
    assert at(page) == first + 1
    press(page, "play")
    press(page, "next")
    page.clock.run_for(5000)
    assert at(page) == first + 2 and button(page) == "Play"
    press(page, "back")
    assert at(page) == first + 1
    slider(page).focus()
    for key, moment in (("End", last), ("ArrowLeft", last - 1), ("Home", first)):
        page.keyboard.press(key)
        assert at(page) == moment
    page.focus("[id$='-play']")
    page.keyboard.press(" ")
    assert button(page) == "Pause"
    press(page, "play")
    slide(page, name, last)
    assert page.get_attribute("[id$='-next']", "aria-disabled") == "true"
    assert page.get_attribute(".bw-player", "role") == "group" and page.get_attribute(".bw-player", "aria-label")
    assert hard_to_tap(page, ".bw-player .bw-button, .bw-player input") == []
