"""Laws of the bundles: they are what `js/` builds, load nothing, set text as text, and have the figures' colours."""

import os
import re
import subprocess
from pathlib import Path

import matplotlib
import pytest
from website import HOST, WIDGETS, contrast, luminance

from attention_tutorial import plotting
from attention_tutorial.widgets.base import STATIC
from tools.node import node

ROOT = Path(__file__).parents[2]
JS = ROOT / "js"
SOURCES = sorted(path for folder in ("kit", "widgets") for path in (JS / folder).rglob("*.*"))
MODULES = sorted(WIDGETS)


def test_there_is_one_bundle_for_each_widget_and_one_folder():
    assert sorted(folder.name for folder in (JS / "widgets").iterdir()) == MODULES
    assert sorted(path.name for path in STATIC.iterdir()) == sorted(
        f"{m}.{kind}" for m in MODULES for kind in ("css", "js")
    )


def test_the_bundles_are_what_the_sources_build(tmp_path):
    if not (JS / "node_modules").is_dir():
        message = "js/node_modules is not there: run `make widgets` (it needs npm), or `npm ci` in js/"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{message}; with CI=true this test must run")
        pytest.skip(message)
    subprocess.run([node(), str(JS / "build.mjs"), str(tmp_path)], check=True, timeout=600)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == sorted(path.name for path in STATIC.iterdir())
    for name in made:
        assert (tmp_path / name).read_bytes() == (STATIC / name).read_bytes(), f"{name} is stale: run `make widgets`"


# A picture that stands in the sheet itself, as data:, is not fetched.
LOADS = r"""https?:|//cdn|\bfetch\(|XMLHttpRequest|\beval\(|new Function|\bimport\(|@import|url\((?!["']?data:image)"""
COLOURS = '@import "../../book/_static/colours.css";'  # which the bundle then holds
SVG = "http://www.w3.org/2000/svg"
MATHML = "http://www.w3.org/1998/Math/MathML"
XHTML = "http://www.w3.org/1999/xhtml"


def without_names(source):
    """A source without the names of XML's languages, which look like addresses; nobody fetches them."""
    for name in (SVG, MATHML, XHTML):
        source = source.replace(name, "")
    return source


@pytest.mark.parametrize("path", sorted(STATIC.iterdir()), ids=lambda path: path.name)
def test_a_bundle_asks_for_nothing(path):
    source = without_names(path.read_text(encoding="utf-8"))
    assert not re.findall(LOADS, source)
    assert not re.findall(r"(?:^|;)import\b", source), "it holds all it needs"


@pytest.mark.parametrize("path", [*SOURCES, HOST], ids=lambda path: path.name)
def test_sources_set_text_as_text_and_know_of_shadow_roots(path):
    source = path.read_text(encoding="utf-8")
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML", source)
    assert not re.findall(r"document\.(?:activeElement|getElementById|querySelector\()", source)
    if path != HOST:  # it imports the bundles
        assert not re.findall(LOADS, without_names(source.replace(COLOURS, "")))


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.css")), ids=lambda path: path.stem)
def test_the_colours_are_those_of_the_figures(path):
    sheet = path.read_text(encoding="utf-8")
    for name, colour in [("query", plotting.QUERY), ("key", plotting.KEY), ("value", plotting.VALUE)]:
        assert f"--book-{name}: light-dark({colour.lower()}, " in sheet


# ---- The colours of weights ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def colours(run_in_node):
    body = "return Array.from({ length: 101 }, (_, i) => widget.weightColours(i / 100));"
    return run_in_node("attention_steps", body)


def test_on_a_light_page_weights_have_the_colours_of_the_heat_maps(colours):
    scale = matplotlib.colormaps[plotting.WEIGHT_MAP]
    for i, both in enumerate(colours):
        shown = [int(channel) / 255 for channel in re.findall(r"\d+", both["onLight"]["ground"])]
        assert shown == pytest.approx(scale(i / 100)[:3], abs=0.02)


def test_on_a_dark_page_nothing_is_dark_and_all_is_bright(colours):
    lights = [luminance(both["onDark"]["ground"]) for both in colours]
    assert lights == sorted(lights)
    assert lights[0] < 0.02 and lights[-1] > 0.7


@pytest.mark.parametrize("page", ["onLight", "onDark"])
def test_a_weight_can_be_read_on_its_ground(colours, page):
    for both in colours:
        assert contrast(both[page]["ground"], both[page]["ink"]) >= 4.5
