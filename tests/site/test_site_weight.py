"""The weight of the site: what holds up the first text, and what was made smaller.

What a first visit transfers is measured in test_browser.py, where every page is open.
"""

import io
import json
import re
from base64 import b64decode
from urllib.parse import unquote, urlsplit

import numpy as np
import pygments
import pytest
import torch
from attention_book.fonts import write_subset
from attention_book.formulas import FONTS as WHOLE_FONTS
from attention_book.formulas import characters, set_formulas
from attention_book.levels import number_of
from attention_book.listings import lighter
from attention_book.pictures import pack
from attention_book.start_widget import FEATURES, SENTENCES, attend, make_widget
from attention_book.style_sheets import SHEETS, names_in, pruned
from attention_book.theme import FONTS, icons_in
from bs4 import BeautifulSoup, NavigableString
from fontTools.ttLib import TTFont
from PIL import Image
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from test_site import TOC
from website import bytes_sent, small_book, soup_of

from tools.book import ROOT

BLOCKING = 100_000  # bytes of style sheets and scripts, without which no text is shown


@pytest.mark.parametrize("name", TOC)
def test_little_holds_up_the_first_text(site, name):
    path = site / f"{name}.html"
    soup = soup_of(path)
    sheets = [link["href"] for link in soup.select("link[rel~=stylesheet]")]
    scripts = [script["src"] for script in soup.select("script[src]") if not {"defer", "async"} & set(script.attrs)]
    files = {(path.parent / unquote(urlsplit(url).path)).resolve() for url in sheets + scripts}
    assert sum(map(bytes_sent, files)) <= BLOCKING
    assert [urlsplit(script).path.rpartition("/")[2] for script in scripts] == ["documentation_options.js"]


def test_a_page_loads_what_extensions_bring_only_where_it_has_a_use_for_it(site):
    for name in TOC:
        head, article, foot = re.split("<article|</article>", (site / f"{name}.html").read_text(encoding="utf-8"))
        loaded = " ".join(re.findall(r'<(?:link|script)\b[^>]* (?:href|src)="([^"]*)"', head + foot))
        for part, mark in (("sphinx-design", "sd-"), ("design-tabs", "sd-tab-set\\b"), ("mystnb", "cell\\b(?!_)")):
            there = re.search(rf'class="(?:[^"]* )?{mark}', article)
            assert (part in loaded) == bool(there), (name, part)


ELEMENTS = 12_000  # of a main chapter: a browser lays it out without a pause


@pytest.mark.parametrize("name", [name for name in TOC if re.match(r"notebooks/\d+_", name)])
def test_a_main_chapter_has_not_too_many_elements(site, name):
    page = soup_of(site / f"{name}.html")
    assert len(page.find_all(True)) <= ELEMENTS
    assert not page.select("pre span.n, pre span.p, pre span.w")


def test_a_lighter_listing_says_the_same_in_the_same_colours():
    code = 'def f(x, *, y=None):\n    """Text."""\n\n    return x.size(1) ** 2 != f"{y!r} <b>"  # why\n'
    whole = pygments.highlight(code, get_lexer_by_name("python3"), HtmlFormatter())
    made = lighter(whole)
    assert made.count("<span") < 0.6 * whole.count("<span")

    def characters_of(listing):
        parts = BeautifulSoup(listing, "html.parser").pre.descendants
        texts = [(item, (item.parent.get("class") or [""])[0]) for item in parts if isinstance(item, NavigableString)]
        plain = {"n", "nn", "p", "w"}
        return [(c, "" if kind in plain or c in ".=" else kind) for text, kind in texts for c in text]

    assert characters_of(made) == characters_of(whole)


START_RAW, START_SENT = 500_000, 150_000  # bytes of the start page with its style sheets and scripts; sent: with gzip


def test_the_start_page_is_light(site):
    page = site / "book" / "index.html"
    loaded = [
        element.get("href") or element["src"] for element in soup_of(page).select("link[rel~=stylesheet], script[src]")
    ]
    files = {page, *((page.parent / unquote(urlsplit(url).path)).resolve() for url in loaded)}
    raw, sent = sum(path.stat().st_size for path in files), sum(map(bytes_sent, files))
    print(f"\nthe start page: {raw / 1000:.0f} kB, {sent / 1000:.0f} kB sent")
    assert raw <= START_RAW and sent <= START_SENT


class Everything(set[str]):
    def __contains__(self, name):
        return True


def test_style_sheets_are_pruned_to_what_pages_and_scripts_name(site):
    paths = [path for pattern in SHEETS for path in (site / "_static").glob(pattern)]
    sheets = [path.read_text(encoding="utf-8") for path in paths]
    names = names_in(site)
    assert {"bd-article", "sd-card", "claim-group"} <= names
    for sheet in sheets:
        assert pruned(sheet, names) == pruned(sheet, Everything()), "nothing is left to prune"
    assert ".ratio-16x9" not in "".join(sheets) and ".navbar" in "".join(sheets)


def test_a_rule_stays_where_one_of_its_selectors_can_match():
    assert pruned(".a, .b .a { x: y }", {"a"}) == ".a{x: y}"
    assert pruned("#c { x: y } #a:hover::before { x: y }", {"a"}) == "#a:hover::before{x: y}"
    assert pruned(":root { --x: 1 } html[data-theme=dark] p:not(.b, .c) { x: y }", set()).count("{") == 2
    assert pruned("@media print { @supports (x: y) { .b { x: y } } }", {"a"}) == ""
    assert pruned("@keyframes k { from { x: y } }", set()).startswith("@keyframes")


# ---- What the start page opens with -------------------------------------------------------------------------------


def test_the_start_page_opens_with_bank_in_two_sentences_and_one_step_on(site):
    article = soup_of(site / "book" / "index.html").select_one("article")
    (widget,) = article.select("[data-widget]")
    assert (
        len(" ".join(element.get_text() for element in widget.find_all_previous("p") if element in article.select("p")))
        < 400
    )
    cases = json.loads(widget["data-state"])["cases"]
    assert [case["model"] for case in cases] == list(SENTENCES)
    assert [case["queries"] for case in cases] == [["bank"], ["bank"]]
    steps = [link["href"] for link in article.select("a.sd-btn")]
    assert steps == ["../notebooks/01_bottleneck.html"] * 2, "the same at head and foot"


@pytest.mark.parametrize(("sentence", "looked_at", "more"), [(SENTENCES[0], "river", 0), (SENTENCES[1], "money", 1)])
def test_bank_becomes_what_it_looks_at(sentence, looked_at, more):
    words, weights, out = attend(sentence)
    assert words[weights[0].argmax()] == looked_at
    expected = sum(w * torch.tensor(FEATURES.get(word, (0.0, 0.0))) for w, word in zip(weights[0], words, strict=True))
    assert torch.allclose(out, expected.double())
    assert out[more] > 1.5 and out[1 - more] < 0.5
    (case,) = [case for case in make_widget().cases if case["model"] == sentence]
    assert f"water {out[0]:.2f}, money {out[1]:.2f}" in case["answers"]


def test_the_site_holds_no_file_for_developers_only(site):
    assert not list((site / "_static").rglob("*.map"))
    assert not (site / "_static" / "vendor").exists()


CONF = """
from attention_book import theme
extensions, html_static_path, templates_path = [], ["looks"], []
def setup(app):
    app.add_config_value("book_static_files", "", "html", str)
    app.connect("config-inited", theme.mark_of_static_files)
"""


def test_a_change_of_the_looks_alone_reaches_the_site(tmp_path):
    (tmp_path / "conf.py").write_text(CONF)
    (tmp_path / "index.rst").write_text("Title\n=====\n")
    look = tmp_path / "looks" / "a.css"
    look.parent.mkdir()
    for text in ("p { color: red }", "p { color: blue }"):
        look.write_text(text)
        assert small_book(tmp_path) == (0, "")
        assert (tmp_path / "_out" / "_static" / "a.css").read_text() == text


# ---- Pictures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in TOC if (ROOT / f"{name}.ipynb").is_file()])
def test_figures_of_the_site_have_the_very_pixels_of_the_notebook(site, name):
    notebook = json.loads((ROOT / f"{name}.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    stored = [b64decode(output["data"]["image/png"]) for output in outputs if "image/png" in output.get("data", {})]
    shown = [image["src"] for image in soup_of(site / f"{name}.html").select("article .cell_output img[src*=_images]")]
    assert len(shown) == len(stored)
    for data, address in zip(stored, shown, strict=True):
        with Image.open(io.BytesIO(data)) as before, Image.open(site / "_images" / address.rpartition("/")[2]) as after:
            assert np.array_equal(np.asarray(before.convert("RGBA")), np.asarray(after.convert("RGBA")))


@pytest.mark.parametrize("name", [name for name in TOC if (ROOT / f"{name}.ipynb").is_file()])
def test_figures_are_numbered_and_their_line_says_what_they_show(site, name):
    images = soup_of(site / f"{name}.html").select("article .cell_output img[src*=_images]")
    for place, image in enumerate(images, start=1):
        line = image.find_next("p", class_="figure-caption")
        number, _, words = line.get_text().removeprefix("Figure ").partition(". ")
        assert number == f"{number_of(name)}.{place}" and line["id"] == f"figure-{number.replace('.', '-')}"
        assert image["alt"].startswith(words) and words
    assert len(soup_of(site / f"{name}.html").select(".figure-caption")) == len(images)


@pytest.mark.parametrize("name", TOC)
def test_pictures_have_their_size_and_wait_for_the_reader(site, name):
    for image in soup_of(site / f"{name}.html").select("article img[src*=_images]"):
        with Image.open(site / "_images" / image["src"].rpartition("/")[2]) as picture:
            assert (int(image["width"]), int(image["height"])) == picture.size
        assert image["loading"] == "lazy"


def test_packing_keeps_every_pixel_also_under_transparency(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 4, (40, 50, 4), dtype=np.uint8) * 60
    Image.fromarray(pixels).save(tmp_path / "noise.png", compress_level=0)
    assert pack(tmp_path / "noise.png", tmp_path / "noise.webp")
    with Image.open(tmp_path / "noise.webp") as packed:
        assert np.array_equal(np.asarray(packed), pixels)


def test_a_picture_that_would_grow_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setitem(Image.SAVE, "WEBP", lambda image, file, name: file.write(bytes(10_000)))
    Image.new("1", (1, 1)).save(tmp_path / "dot.png")
    before = (tmp_path / "dot.png").read_bytes()
    assert not pack(tmp_path / "dot.png", tmp_path / "dot.webp")
    assert (tmp_path / "dot.png").read_bytes() == before


# ---- Icons --------------------------------------------------------------------------------------------------------


def test_every_icon_in_use_has_its_rule_and_its_shape(site):
    sheet = (site / "_static" / "icons.css").read_text(encoding="utf-8")
    rules = re.findall(r'^\.(fa-[\w-]+)::before \{ content: "\\(\w+)"; \}$', sheet, re.MULTILINE)
    codes = {name: int(code, 16) for name, code in rules}
    drawn = set().union(*(TTFont(site / "_static" / "icons" / f"{name}.woff").getBestCmap() for name in FONTS))
    icons = [icon["class"] for page in TOC for icon in soup_of(site / f"{page}.html").select("i[class*=fa-]")]
    families = set(re.findall(r"\.([\w-]+)", " ".join(re.findall(r"^([^{}\n]+)\{ font-family", sheet, re.MULTILINE))))
    assert all(families.intersection(icon) for icon in icons), "an icon has its font"
    sizes = {"fa-solid", "fa-regular", "fa-brands", "fa-lg", "fa-fw", "fa-sm"}
    used = {name for icon in icons for name in icon if name.startswith("fa-")} - sizes
    assert len(used) >= 8
    assert used <= set(codes)
    assert {codes[name] for name in used} <= drawn


def test_icons_are_read_off_a_style_sheet_escaped_or_not():
    assert icons_in('.a::before { content: "\\f185"; } .b{--icon:"\uf186";content:"\\201c\u2192"}') == {0xF185, 0xF186}


# ---- Formulas -----------------------------------------------------------------------------------------------------


RIGHT = [
    r"\operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V",
    r"\begin{aligned} a &= b \\ c &= \underbrace{d + e}_{\text{sum}} \end{aligned}",
    r"\begin{cases} 1 & x > 0 \\ 0 & \text{otherwise} \end{cases} \qquad \mathbb{E}\bigl[\lVert x \rVert^2\bigr]",
    r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} \tilde h \neq \bar h",
]
WRONG = [r"\frac{1}", r"a & b", r"\unknowncommand", r"\left( x", "x_1_2"]


@pytest.fixture(scope="module")
def formulas():
    """Set all of them at once, right and wrong ones in turn."""
    asked = [("a", False), *((tex, False) for tex in WRONG), ("b", True), ("a", False), *((tex, True) for tex in RIGHT)]
    return set_formulas(asked)


@pytest.mark.parametrize("tex", RIGHT)
def test_a_formula_is_set_with_its_spoken_form(formulas, tex):
    soup = BeautifulSoup(formulas[0][tex, True], "html.parser")
    assert soup.select_one("mjx-math[aria-hidden=true] mjx-c")
    assert soup.select_one("mjx-assistive-mml > math")
    assert not soup.select("merror, mjx-merror, [data-mjx-error]")
    assert "\\" not in soup.get_text()


def test_a_formula_that_is_wrong_is_named_and_the_others_are_set(formulas):
    right, wrong, sheet = formulas
    assert list(right) == [("a", False), ("b", True), *((tex, True) for tex in RIGHT)]
    assert list(wrong) == [(tex, False) for tex in WRONG] and all(map(str.strip, wrong.values()))
    assert "mjx-c1D44E" in right["a", False] and ".mjx-c1D44E" in sheet


def test_cut_fonts_hold_every_character_of_the_formulas(site):
    folder = site / "_static" / "formulas"
    wanted = characters((folder / "formulas.css").read_text(encoding="utf-8"))
    assert wanted >= set(map(ord, "QKVdk="))
    for path in folder.glob("*.woff"):
        before, after = TTFont(WHOLE_FONTS / path.name), TTFont(path)
        assert after.getBestCmap().keys() >= wanted & before.getBestCmap().keys(), path.name


def test_a_cut_font_keeps_the_shapes_of_its_characters(tmp_path):
    name = "MathJax_Math-Italic.woff"
    source = WHOLE_FONTS / name
    write_subset(source, {ord("Q"), ord("K")}, tmp_path / name)
    whole, cut = TTFont(source), TTFont(tmp_path / name)
    assert set(cut.getBestCmap()) == {ord("Q"), ord("K")}
    for code, glyph in cut.getBestCmap().items():
        assert cut["hmtx"][glyph] == whole["hmtx"][whole.getBestCmap()[code]]
    assert (tmp_path / name).stat().st_size < source.stat().st_size / 3


@pytest.mark.parametrize("name", TOC)
def test_every_formula_of_a_page_is_set(site, name):
    soup = soup_of(site / f"{name}.html")
    formulas = soup.article.find_all("mjx-container")
    for formula in soup.article.find_all(class_="math"):
        assert len(formula.find_all("mjx-assistive-mml")) == len(formula.find_all("math")) == 1, formula.get_text()[:80]
    assert not re.search(r"\$[^$]+\$", " ".join(card.get_text() for card in soup.find_all(class_="claim")))
    sheets = [link["href"] for link in soup.select("link[rel~=stylesheet]") if "formulas.css" in link["href"]]
    assert len(sheets) == bool(formulas), "a page loads the style sheet of formulas if it has any"
