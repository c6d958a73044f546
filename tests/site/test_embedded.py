"""A page of its own for each demonstration, in another site's frame and by itself."""

import re

import page_faults
import pytest
from test_site import TOC
from website import soup_of

from tools.browser import serve

PLANE = "demonstrations/02_scaled_dot_product-plane.html"
DARK_PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}


def test_each_demonstration_has_a_page_that_begins_as_it_does(site):
    found = set()
    for name in TOC:
        page = site / f"{name}.html"
        for shown in soup_of(page).select(".attention-widget"):
            file = (page.parent / shown["data-alone"]).resolve()
            alone = soup_of(file)
            assert alone.select_one("[data-widget]")["data-state"] == shown["data-state"]
            back = alone.select_one("a")["href"].rpartition("#")
            assert (file.parent / back[0]).resolve() == page.resolve()
            assert soup_of(page).find(id=back[2]).select_one(f'[data-alone="{shown["data-alone"]}"]')
            assert file not in found
            found.add(file)
    assert len(found) > 15
    assert found == {path.resolve() for path in (site / "demonstrations").iterdir()}


@pytest.mark.parametrize("way", ["http", "file"])
def test_the_line_that_embeds_it_keeps_what_was_set(browser, site, tmp_path, way):
    with serve(site) as served:
        address = served if way == "http" else site.as_uri()
        page = browser.new_page()
        page.goto(f"{address}/notebooks/02_scaled_dot_product.html")
        plane = page.locator("[data-widget=plane][data-mounted=yes]")
        plane.get_by_role("button", name="on", exact=True).click()
        shown = plane.locator(".bw-panel").inner_text()
        plane.locator("a[href*='demonstrations/']").click()
        page.wait_for_url(f"{address}/{PLANE}#plane--*")
        assert plane.locator(".bw-panel").inner_text() == shown
        page.get_by_label("To embed it").focus()
        line = page.get_by_label("To embed it").input_value()
        end = page.locator("body > p").first.evaluate("x => x.getBoundingClientRect().bottom + scrollY")
        assert end <= int(re.search(r'height="(\d+)"', line)[1]) < end + 20
        page.context.close()

        published = soup_of(site / PLANE).select_one("input")["value"].split('"')[1]
        (tmp_path / "course.html").write_text(f"<p>A course</p>{line.replace(published, f'{address}/{PLANE}')}")
        page = browser.new_page(**DARK_PHONE)
        failures = []
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto((tmp_path / "course.html").as_uri())
        frame = page.frame_locator("iframe")
        assert frame.locator(".bw-panel").inner_text() == shown
        assert not frame.get_by_label("To embed it").is_visible()
        assert not frame.locator("a[href*='demonstrations/']").count()
        assert frame.locator(".bw").evaluate("x => getComputedStyle(x).colorScheme") == "dark"
        assert not page_faults.overflow(page.frames[1])
        faces = (
            "async () => { await document.fonts.ready; return [...document.fonts].map((x) => x.family + x.status); }"
        )
        assert {"Interloaded", "Intererror"} & set(page.frames[1].evaluate(faces)) == {"Interloaded"}
        page.context.close()
        assert not failures
