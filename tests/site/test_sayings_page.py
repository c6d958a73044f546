"""The Sphinx extension that makes the page of sayings from its table and from the claims of the notebooks."""

import json
import re

import pytest
from attention_book.sayings import read_sayings
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from website import small_book

from attention_tutorial.notebook import Claim
from tools.book import ROOT, chapters, read

CONF = """
from attention_book.sayings import SayingsDirective, note_topics
extensions = ["myst_nb"]
nb_execution_mode = "off"
exclude_patterns = ["_out", "jupyter_execute"]
def setup(app):
    app.add_directive("sayings", SayingsDirective)
    app.connect("doctree-read", note_topics)
"""
ROW = """[[saying]]
topic = "Scores"
words = "All is one"
by = "A *book*"
at = "https://example.org/all"
verdict = "@verdict"
measured = "At $d = 4$ it is."
claims = ["X1a"]
"""


@pytest.fixture
def page(tmp_path):
    """Return a function that builds a small book with one saying and one claim, and returns its page and messages."""
    claim = Claim("X1a", "A share of *one*", "at least 0.9", "0.97")
    data, metadata = claim._repr_mimebundle_()
    output = new_output("display_data", data, metadata=metadata)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [
        new_markdown_cell("# 2. Scores\n\n[Said](../index.md#scores)"),
        new_code_cell("claim()", outputs=[output], execution_count=1),
    ]
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "c.ipynb").write_text(json.dumps(notebook))
    (tmp_path / "conf.py").write_text(CONF)
    (tmp_path / "index.md").write_text("# Book\n\n```{toctree}\nnotebooks/c\n```\n\n```{sayings}\n```\n")

    def build(table):
        (tmp_path / "sayings.toml").write_text(table)
        status, said = small_book(tmp_path)
        return status, said, BeautifulSoup((tmp_path / "_out" / "index.html").read_text("utf-8"), "html.parser")

    return build


def test_a_saying_shows_its_words_source_and_verdict_and_leads_to_what_was_measured(page):
    status, said, soup = page(ROW.replace("@verdict", "not tested by us"))
    assert status == 0, said
    (saying,) = soup.select("section#scores .saying")
    words = re.sub(r"\s+", " ", saying.get_text(" ")).strip()
    assert words == "“All is one” — A book Not tested by us. At \\(d = 4\\) it is. A share of one : 0.97 X1a"
    assert saying.select_one(".attribution a")["href"] == "https://example.org/all"
    assert saying.select_one("li a")["href"] == "notebooks/c.html#claim-X1a"


def test_a_chapter_can_link_to_the_sayings_of_a_topic(page, tmp_path):
    status, said, _ = page(ROW.replace("@verdict", "so"))
    assert status == 0, said
    assert 'href="../index.html#scores"' in (tmp_path / "_out" / "notebooks" / "c.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (ROW.replace("@verdict", "so").replace("X1a", "X9z"), "no notebook has the claims X9z"),
        (ROW.replace("@verdict", "true"), "the verdict must be one of"),
        (ROW.replace("@verdict", "so") + "more = 1\n", "more"),
    ],
)
def test_a_claim_or_a_verdict_that_is_unknown_stops_the_build(page, row, words):
    status, said, _ = page(row)
    assert status and words in said


def test_every_saying_of_the_book_rests_on_claims_and_is_told_once():
    sayings = read_sayings(ROOT / "book" / "sayings.toml")
    claims = {claim.id for path in chapters() for claim in Claim.stored_in(read(path))}
    assert len(sayings) >= 25 and len({saying.words for saying in sayings}) == len(sayings)
    for saying in sayings:
        assert saying.claims and set(saying.claims) <= claims, saying.words
        assert saying.at.startswith("https://"), saying.words
