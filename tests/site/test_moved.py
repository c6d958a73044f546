"""Addresses of the first edition: each leads to a place that is there."""

import pytest
from attention_book.moved import ids_of, old_places, place, places_now, read_moved, read_old
from test_site import TOC
from website import soup_of

from tools.book import ROOT, chapters

BOOK = ROOT / "book"
OLD = read_old(BOOK)
MOVED = read_moved(BOOK)
NOW = places_now({f"notebooks/{path.stem}": path for path in chapters()})


@pytest.fixture(scope="module")
def there(site):
    """Return every id of every page: {page: ids}."""
    return {name: {element["id"] for element in soup_of(site / f"{name}.html").find_all(id=True)} for name in TOC}


def test_the_list_is_of_the_first_edition():
    assert len(OLD) == 5
    assert sum(len(page["claims"]) for page in OLD.values()) == 366
    assert "3.9 What real initialisations make of the premise" in OLD["notebooks/03_square_root_of_d_k"]["headings"]


@pytest.mark.parametrize("page", OLD)
def test_every_old_address_leads_to_a_place_that_is_there(page, there):
    lost = {
        name: target
        for name, target, _ in old_places(page, OLD[page], MOVED, NOW)
        if target[1] not in there.get(target[0], ()) and not (target == (page, ids_of(name)[0]) and name in there[page])
    }
    assert not lost, f"say in book/moved.yml where these went: {lost}"


def test_what_is_said_to_have_moved_had_an_address():
    known = {(page, name) for page in OLD for name, _, _ in old_places(page, OLD[page], MOVED, NOW)}
    assert not MOVED.keys() - known


def test_exercises_and_claims_are_found_by_themselves():
    assert NOW["exercise-3-1"].startswith("notebooks/03")
    moved = {("a", "section-1-1"): ("b", "section-2-1")}
    old = {"headings": ["1.1 One", "Exercise 1.2 ★ Two", "Notes"], "claims": ["A1a", "A1b"]}
    found = old_places("a", old, moved, {"exercise-1-2": "c", "claim-A1a": "d"})
    assert [(name, target) for name, target, _ in found] == [
        ("section-1-1", ("b", "section-2-1")),
        ("one", ("b", "section-2-1")),
        ("exercise-1-2", ("c", "exercise-1-2")),
        ("exercise-1-2-two", ("c", "exercise-1-2")),
        ("notes", ("a", "notes")),
        ("claim-A1a", ("d", "claim-A1a")),
        ("claim-A1b", ("a", "claim-A1b")),
    ]


def gone(page, there):
    """Return (old id, where it leads) of a page, for ids that the page no longer has."""
    return [
        (name, target)
        for name, target, _ in old_places(page, OLD[page], MOVED, NOW)
        if name not in there[page] and target[1] in there[target[0]]
    ]


@pytest.mark.parametrize("way", ["http", "file"])
def test_a_browser_is_led_there(site, browser, there, way):
    from tools.browser import serve

    with serve(site) as served:
        home = served if way == "http" else site.as_uri()
        page = browser.new_page()
        for old in OLD:
            for name, (target, place_of_it) in gone(old, there)[::10]:  # (that each leads somewhere is tested above)
                page.goto("about:blank")
                page.goto(f"{home}/{old}.html#{name}", wait_until="domcontentloaded")
                page.wait_for_url(f"{home}/{target}.html#{place_of_it}", wait_until="domcontentloaded")
        page.close()


def renumbered(there):
    """Return (page, old id, where it leads, the old heading) for numbers that another section has now."""
    return [
        (page, name, target, heading)
        for page in OLD
        for name, target, heading in old_places(page, OLD[page], MOVED, NOW)
        if name in there[page] and target != (page, name) and (page, name) in MOVED
    ]


def test_who_comes_by_an_old_number_is_told_where_it_went(site, browser, there):
    found = renumbered(there)
    for page, name, target, heading in found[:3]:
        tab = browser.new_page()
        tab.goto(f"{site.as_uri()}/{page}.html#{name}")
        line = tab.locator(f"#{name} > .moved")
        assert heading.partition("$")[0] in line.inner_text()
        line.locator("a").click()
        tab.wait_for_url(f"**/{target[0]}.html#{target[1]}")
        assert tab.locator(".moved").count() == 0, "a link of this edition means the number of this edition"
        tab.close()


def test_an_address_is_taken_apart():
    assert place("a/b.html#c") == ("a/b", "c")
    assert place("a/b.html") == ("a/b", "")
