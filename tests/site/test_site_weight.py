"""The weight of the site: what holds up the first text, and what was made smaller.

What a first visit transfers is measured in test_browser.py, where every page is open.
"""

import hashlib
import io
import json
import re
from base64 import b64decode
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from attention_book.figures import pack
from attention_book.formulas import KATEX, set_formula
from attention_book.levels import number_of
from attention_book.theme import ICONS, STATIC, TYPED, write_subset
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont
from PIL import Image
from test_site import TOC
from website import bytes_sent, small_book, soup_of

from attention_tutorial.widgets.encoder import READY
from tools.book import ROOT

BLOCKING = 60_000  # bytes of style sheets and scripts, without which no text is shown
NOTEBOOKS = [name for name in TOC if (ROOT / f"{name}.ipynb").is_file()]


@pytest.mark.parametrize("name", TOC)
def test_little_holds_up_the_first_text(site, name):
    path = site / f"{name}.html"
    soup = soup_of(path)
    sheets = [link["href"] for link in soup.select("link[rel~=stylesheet]")]
    scripts = [script["src"] for script in soup.select("script[src]") if not {"defer", "async"} & set(script.attrs)]
    files = {(path.parent / unquote(urlsplit(url).path)).resolve() for url in sheets + scripts}
    assert sum(map(bytes_sent, files)) <= BLOCKING
    assert [urlsplit(script).path.rpartition("/")[2] for script in scripts] == ["documentation_options.js"]


def test_the_one_style_sheet_has_the_colours_of_code_for_light_and_dark(site):
    sheet = (site / "_static" / "theme.css").read_text(encoding="utf-8")
    assert {'html[data-theme="light"] .highlight', 'html[data-theme="dark"] .highlight'} <= set(
        re.findall(r"(html\S+ \.highlight) \.nb\b", sheet)
    )


def test_a_page_loads_what_extensions_bring_only_where_it_has_a_use_for_it(site):
    for name in TOC:
        head, article, foot = re.split("<article|</article>", (site / f"{name}.html").read_text(encoding="utf-8"))
        loaded = " ".join(re.findall(r'<(?:link|script)\b[^>]* (?:href|src)="([^"]*)"', head + foot))
        marks = {"sphinx-design": "sd-", "design-tabs": "sd-tab-set\\b", "mystnb": "cell\\b(?!_)", "katex": "katex\\b"}
        for part, mark in marks.items():
            there = re.search(rf'class="(?:[^"]* )?{mark}', article)
            assert (part in loaded) == bool(there), (name, part)


ELEMENTS = 13_000  # of a main chapter: a browser lays it out without a pause


@pytest.mark.parametrize("name", [name for name in TOC if re.match(r"notebooks/\d+_", name)])
def test_a_main_chapter_has_not_too_many_elements(site, name):
    assert len(soup_of(site / f"{name}.html").find_all(True)) <= ELEMENTS


START_RAW, START_SENT = 360_000, 95_000  # bytes of the start page with its style sheets and scripts; sent: with gzip


def test_the_start_page_is_light(site):
    page = site / "book" / "index.html"
    loaded = [
        element.get("href") or element["src"] for element in soup_of(page).select("link[rel~=stylesheet], script[src]")
    ]
    files = {page, *((page.parent / unquote(urlsplit(url).path)).resolve() for url in loaded)}
    raw, sent = sum(path.stat().st_size for path in files), sum(map(bytes_sent, files))
    print(f"\nthe start page: {raw / 1000:.0f} kB, {sent / 1000:.0f} kB sent")
    assert raw <= START_RAW and sent <= START_SENT


def test_the_site_holds_nothing_for_developers_only_and_of_style_sheets_what_pages_name(site):
    assert not list((site / "_static").rglob("*.map"))
    assert not (site / "_static" / "vendor").exists()
    sheet, own = ((site / "_static" / f"{name}.css").read_text(encoding="utf-8") for name in ("theme", "custom"))
    assert ".ratio-16x9" not in sheet and ".nboutput" not in sheet and "div.topic" not in sheet
    assert "/*!" in sheet and not re.search(r"/\*(?!!)", sheet + own), "of comments the licences alone"
    assert "--bs-gray-900" not in sheet, "nothing reads it, and no other variable reads it but --bs-gray-dark"
    assert all(
        re.search(rule, sheet)
        for rule in (r"\.navbar *\{", r"\.dropdown-menu\.show *\{", "@media print *{", r"\.container")
    )
    assert all(rule in sheet for rule in (":not(.only-dark,.dark-light)", ".bd-sidebar-primary", ":root"))
    assert ".bd-article .hero .bw {" in own, "a class that a widget's bundle alone names"
    assert all(re.search(rf"{one}\s*:", sheet + own) for one in ("--pst-color-text-base", "--bs-body-color", "--kept"))


# ---- What the start page opens with -------------------------------------------------------------------------------


def test_the_start_page_opens_with_bank_in_two_sentences_and_a_step_on_for_each_reader(site):
    article = soup_of(site / "book" / "index.html").select_one("article")
    (widget,) = article.select("[data-widget]")
    before = [element for element in widget.find_all_previous("p") if element in article.select("p")]
    assert len(" ".join(element.get_text() for element in before)) < 400
    state = json.loads(widget["data-state"])
    assert [slot["text"] for slot in state["slots"]] == list(READY[:2]) and state["compact"]
    assert [one["asks"] for one in state["sentences"]] == ["bank", "bank"]
    leads_to = (site / "book" / state["link"]).resolve()
    assert json.loads(soup_of(leads_to).select_one("[data-widget=encoder]")["data-state"])["compact"] is False
    steps = [Path(link["href"]).stem for link in article.select("a.sd-btn")]
    assert steps == ["why", "01_bottleneck", "00_pytorch", "how_to_use", "symptoms", "teach"]


@pytest.mark.parametrize("name", [name for name in TOC if re.match(r"notebooks/\d+_", name)])
def test_what_a_chapter_needs_and_takes_is_a_quiet_line_above_its_first_section(site, name):
    found = soup_of(site / f"{name}.html").select("article .chapter-facts")
    text = " ".join(line.get_text() for line in found)
    assert re.search(r"\b[Yy]ou need\b", text) and re.search(r"Time[.:]\s\d+\sminutes", text)
    assert not any(line.find_parents("section")[1:] for line in found)


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


# ---- Pictures and icons -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_figures_are_those_of_the_notebook_and_have_a_number_and_a_line_and_wait_for_the_reader(site, name):
    notebook = json.loads((ROOT / f"{name}.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    stored = [output["data"] for output in outputs if "image/png" in output.get("data", {})]
    page = soup_of(site / f"{name}.html")
    shown = page.select("article .cell_output img[src*=_images]")
    assert len(shown) == len(stored) == len(page.select(".figure-caption"))
    for place, (data, image) in enumerate(zip(stored, shown, strict=True), start=1):
        file = site / "_images" / image["src"].rpartition("/")[2]
        with Image.open(io.BytesIO(b64decode(data["image/png"]))) as before:
            sizes = before.size, (int(image["width"]), int(image["height"]))
        wider, taller = np.divide(sizes[1], sizes[0])  # a drawing has 120 an inch, a PNG what its chapter chose
        assert wider == pytest.approx(taller, rel=0.01) and wider > 0.99 and image["loading"] == "lazy"
        assert ("image/svg+xml" in data) == (file.suffix == ".svg"), "what is sharp at any size goes first"
        if file.suffix == ".svg":
            assert file.read_text(encoding="utf-8") == "".join(data["image/svg+xml"])
        else:
            with Image.open(io.BytesIO(b64decode(data["image/png"]))) as before, Image.open(file) as after:
                off = np.abs(np.subtract(*(np.asarray(each.convert("RGBA"), dtype=int) for each in (before, after))))
                assert off.max() <= 64 and off.mean() <= 0.5, "256 colours are as good as all"
                assert sizes[1] == after.size
        line = image.find_next("p", class_="figure-caption")
        number, _, words = line.get_text().removeprefix("Figure ").partition(". ")
        assert number == f"{number_of(name)}.{place}" and line["id"] == f"figure-{number.replace('.', '-')}"
        assert image["alt"].startswith(words) and words


def test_packing_keeps_every_pixel_also_under_transparency(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 4, (40, 50, 4), dtype=np.uint8) * 60
    Image.fromarray(pixels).save(tmp_path / "noise.png", compress_level=0)
    assert pack(tmp_path / "noise.png", tmp_path / "noise.webp")
    with Image.open(tmp_path / "noise.webp") as packed:
        assert np.array_equal(np.asarray(packed), pixels)


def test_every_icon_in_use_has_its_rule_and_its_shape(site):
    sheet = (site / "_static" / "icons.css").read_text(encoding="utf-8")
    rules = re.findall(r'^\.(fa-[\w-]+)::before \{ content: "\\(\w+)"; \}$', sheet, re.MULTILINE)
    codes = {name: int(code, 16) for name, code in rules}
    drawn = TTFont(site / "_static" / "icons" / f"{ICONS}.woff2").getBestCmap().keys()
    icons = [icon["class"] for page in TOC for icon in soup_of(site / f"{page}.html").select("i[class*=fa-]")]
    families = set(re.findall(r"\.([\w-]+)", " ".join(re.findall(r"^([^{}\n]+)\{ font-family", sheet, re.MULTILINE))))
    assert all(families.intersection(icon) for icon in icons), "an icon has its font"
    sizes = {"fa-solid", "fa-regular", "fa-brands", "fa-lg", "fa-fw", "fa-sm"}
    used = {name for icon in icons for name in icon if name.startswith("fa-")} - sizes
    assert len(used) >= 5
    assert used <= set(codes)
    assert {codes[name] for name in used} <= drawn


# ---- Type ---------------------------------------------------------------------------------------------------------

AS_PUBLISHED = {  # of Fontsource 5.3.0, and the first letters of their SHA-256
    "inter-latin-400-normal.woff2": "8909904ab6c872eb",
    "inter-latin-600-normal.woff2": "f9a06e79cd3a2a20",
    "jetbrains-mono-latin-400-normal.woff2": "14425ba9c695763c",
    "literata-latin-400-italic.woff2": "1e98bfbbb4eb8177",
    "literata-latin-400-normal.woff2": "a60c193b55766b68",
    "literata-latin-600-normal.woff2": "99284fd89c86b8c5",
}
FACES = 90_000  # bytes of the faces of text, of which a page loads no more than all


def test_the_faces_of_text_are_as_published_light_and_hold_what_is_written_and_typed(site):
    files = sorted((STATIC / "fonts").glob("*.woff2"))
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in files} == AS_PUBLISHED
    cut = [site / "_static" / "fonts" / path.name for path in files]
    print(f"\nthe faces of text: {sum(path.stat().st_size for path in cut) / 1000:.0f} kB")
    assert sum(path.stat().st_size for path in cut) <= FACES
    sheet = (STATIC / "custom.css").read_text(encoding="utf-8")
    assert sorted(re.findall(r'font-display: optional; src: url\("fonts/([^"]+)', sheet)) == sorted(AS_PUBLISHED)
    for path in cut:
        assert set(TYPED).union(map(ord, "èàé’–−×·½")) <= TTFont(path).getBestCmap().keys(), path.name


# ---- Formulas -----------------------------------------------------------------------------------------------------


def test_a_formula_has_letters_in_the_colours_of_the_book_and_mathml_with_its_tex():
    tex = r"W_Q^\top \mathbb{K} + Q K^\top \text{V}"
    formula = BeautifulSoup(set_formula(tex, True), "html.parser")
    assert [(letter["class"], letter.text) for letter in formula.select(".query, .key, .value")] == [
        (["query"], "Q"), (["query"], "Q"), (["key"], "K"),
    ]  # fmt: skip
    assert formula.select_one("math[display=block] annotation").text == tex
    assert formula.select_one(".katex-display > .katex > .katex-html[aria-hidden=true]")


FORMULA_CONF = """
from attention_book import formulas
extensions, html_math_renderer, exclude_patterns = [], "katex", ["_out"]
def setup(app):
    app.add_html_math_renderer("katex", (formulas.visit_math, None), (formulas.visit_math, None))
"""


@pytest.mark.parametrize("tex", [r"\frac{1}", "a & b", r"\unknowncommand", r"\left( x", "x_1_2"])
def test_a_formula_that_is_wrong_fails_the_build_where_it_stands(tmp_path, tex):
    (tmp_path / "conf.py").write_text(FORMULA_CONF)
    (tmp_path / "index.rst").write_text(f"Title\n=====\n\nOne :math:`a < b` and :math:`{tex}`.\n")
    status, said = small_book(tmp_path)
    assert status == 1 and said.count("WARNING") == 1 and "index.rst:4: WARNING: formula" in said


def test_the_style_sheet_of_formulas_is_of_the_version_that_sets_them():
    sheet = (STATIC / "katex" / "katex.min.css").read_text(encoding="utf-8")
    (version,) = re.findall(r'katex-version:after\{content:"([\d.]+)"', sheet)
    assert f'"{version}"' in KATEX.read_text(encoding="utf-8")


def test_fonts_hold_every_letter_of_the_formulas_in_its_shape(site, tmp_path):
    whole_fonts = STATIC / "katex" / "fonts"
    for path in whole_fonts.glob("*.woff2"):
        whole, cut = TTFont(path), TTFont(site / "_static" / "katex" / "fonts" / path.name)
        assert cut.getBestCmap().keys() >= set(map(ord, "QKVdk=")) & whole.getBestCmap().keys(), path.name
    write_subset(whole_fonts / "KaTeX_Math-Italic.woff2", set(map(ord, "QK")), tmp_path / "cut.woff2")
    whole, cut = TTFont(whole_fonts / "KaTeX_Math-Italic.woff2"), TTFont(tmp_path / "cut.woff2")
    assert set(cut.getBestCmap()) == set(map(ord, "QK"))
    for code, glyph in cut.getBestCmap().items():
        assert cut["hmtx"][glyph] == whole["hmtx"][whole.getBestCmap()[code]]


@pytest.mark.parametrize("name", TOC)
def test_every_formula_of_a_page_is_set(site, name):
    soup = soup_of(site / f"{name}.html")
    for formula in soup.article.find_all(class_="math"):
        assert len(formula.select(".katex-html")) == len(formula.find_all("math")) == 1, formula.get_text()[:80]
    assert not re.search(r"\$[^$]+\$", " ".join(card.get_text() for card in soup.find_all(class_="claim")))
