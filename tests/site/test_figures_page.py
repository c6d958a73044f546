"""The page of figures: every figure of the chapters, under its number and caption, with the picture to take away."""

import base64
import re

import pytest
from attention_book.levels import is_deep
from PIL import Image
from website import soup_of

from tools.book import chapters, read

STRAIGHT = str.maketrans("‘’“”", "''\"\"")


def test_every_figure_is_listed_as_it_stands_under_it(site):
    listed = soup_of(site / "book" / "figures.html").select("article section section li")
    captions = [
        (caption, f"../notebooks/{notebook.stem}.html#{caption['id']}")
        for notebook in chapters()
        for caption in soup_of(site / "notebooks" / f"{notebook.stem}.html").select("article .figure-caption")
    ]
    assert len(captions) > 50
    said = [item.get_text().strip().translate(STRAIGHT) for item in listed]
    words = [re.sub("( SVG)? PNG$", "", line) for line in said]
    assert words == [caption.get_text().translate(STRAIGHT) for caption, _ in captions]
    assert [item.a["href"] for item in listed] == [place for _, place in captions]
    drawn = [
        link["href"].removesuffix(".png")
        for link in soup_of(site / "book" / "figures.html").select("article a[href$='.png']")
    ]
    assert [item.img["src"].removesuffix(".webp") for item in listed] == drawn, "each beside its picture"


@pytest.mark.parametrize(("ending", "kind", "bytes_of"), [
    ("png", "image/png", base64.b64decode), ("svg", "image/svg+xml", str.encode),
])  # fmt: skip
def test_each_picture_is_the_one_that_its_notebook_stores(site, ending, kind, bytes_of):
    links = [link["href"] for link in soup_of(site / "book" / "figures.html").select(f"article a[href$='.{ending}']")]
    stored = [
        bytes_of(output.data[kind])
        for notebook in chapters()
        for cell in read(notebook).cells
        for output in cell.get("outputs", [])
        if kind in output.get("data", {})
    ]
    assert len(stored) > 50
    assert [(site / "book" / link).read_bytes() for link in links] == stored


def test_each_chapter_has_a_small_picture_on_its_card(site):
    cards = soup_of(site / "book" / "index.html").select("article .sd-card")
    pictures = [card.select_one("img.thumbnail") for card in cards]
    assert len(pictures) == len([chapter for chapter in chapters() if not is_deep(chapter.stem)]) and all(pictures)
    for picture in pictures:
        file = site / "book" / picture["src"]
        with Image.open(file) as small:
            assert (small.width, small.height) == (int(picture["width"]), int(picture["height"]))
        assert file.stat().st_size < 25_000 and picture["loading"] == "lazy"
