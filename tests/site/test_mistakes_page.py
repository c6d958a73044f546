"""The Sphinx extension that makes the page of mistakes by running the checks on the wrong answers of their tables."""

import json

import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell
from website import small_book

from attention_tutorial import exercises
from attention_tutorial.exercises.verdict import sentence

CONF = """
from dataclasses import replace
from attention_book.mistakes import MistakesDirective
from attention_tutorial import exercises as package
from attention_tutorial.exercises import WrongAnswer
extensions = ["myst_nb"]
nb_execution_mode = "off"
exclude_patterns = ["_out", "jupyter_execute"]
hand = package.exercises()["weights_by_hand"]
first, second = WrongAnswer("yours sum to 1.1", [0.1, 0.4, 0.6], mistake=5), WrongAnswer("two", @answer)
tables = [replace(hand, wrong_answers=[first, second]), @more]
package.exercises = lambda: {table.name: table for table in tables}
package.MISTAKES, package.SYMPTOMS = {5: "softmax over the wrong axis"}, {5: "All is one"}
def setup(app):
    app.add_directive("mistakes", MistakesDirective)
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    """Return a function that builds a small book whose table holds a second wrong answer."""
    for name in ("exercises", "MISTAKES", "SYMPTOMS"):  # the book puts its own in their place
        monkeypatch.setattr(exercises, name, getattr(exercises, name))
    pages = "mistakes\nbook/symptoms\nnotebooks/about\nnotebooks/c"
    (tmp_path / "index.md").write_text(f"# Book\n\n```{{toctree}}\n{pages}\n```\n")
    (tmp_path / "mistakes.md").write_text("# Mistakes\n\n```{mistakes}\n```\n")
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "symptoms.md").write_text("# Symptoms\n\n## All is one\n")
    cells = [new_markdown_cell("# 2. Scores\n\n## Exercises")]
    asked = {"weights_by_hand": "2.1 ★ Weights by hand", "second": "2.2 ★★ A second", "third": "2.3 ★★★ A third"}
    for name, heading in asked.items():
        cells += [new_markdown_cell(f"### Exercise {heading}\n\nDo it."), new_code_cell(f'check("{name}", ...)')]
    cells += [new_markdown_cell("## 2.9 At once\n\n**Your turn.** Do it."), new_code_cell('check("turned", ...)')]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "about.md").write_text("# About\n\n## Exercise 2.1 is not here\n")
    (tmp_path / "notebooks" / "c.ipynb").write_text(json.dumps(notebook))

    def build(answer, more=""):
        conf = CONF.replace("@answer", answer).replace("@more", more)
        (tmp_path / "conf.py").write_text(conf)
        done = small_book(tmp_path)
        return done, BeautifulSoup((tmp_path / "_out" / "mistakes.html").read_text(encoding="utf-8"), "html.parser")

    return build


def test_the_page_says_what_the_checks_say(book, tmp_path):
    (status, log), page = book("[1, 3, 4]")
    assert status == 0, log
    (table,) = page.select("table.mistakes")
    (row,) = table.select("tbody tr")
    assert [cell.get_text(strip=True) for cell in row.find_all("td")] == [
        "5",
        "softmax over the wrong axis",
        "All is one",
        "2.1",
    ]
    assert [link["href"] for link in row.select("a")] == [
        "book/symptoms.html#all-is-one",
        "notebooks/c.html#exercise-2-1-weights-by-hand",
    ]
    target = BeautifulSoup((tmp_path / "_out" / "notebooks" / "c.html").read_text(encoding="utf-8"), "html.parser")
    assert target.find(id="exercise-2-1-weights-by-hand")
    assert [item.get_text(strip=True) for item in page.select("details li")] == [
        "Yours sum to 1.1. (Mistake 5.)",
        "Two.",
    ]
    assert page.select_one("details").summary.get_text() == "What the check says about 2 wrong answers"
    count = "1 checks, 2 wrong answers, each told what is wrong with it."
    assert page.select_one(".mistakes-count").get_text() == count


def test_each_exercise_has_its_own_list_and_each_mistake_the_exercises_whose_checks_name_it(book):
    more = 'replace(hand, name="second", wrong_answers=[WrongAnswer("seven", 7, 5)]),'
    more += 'replace(hand, name="third", wrong_answers=[WrongAnswer("b", 2)])'
    (status, log), page = book("[2, 3, 4]", more=more)
    assert status == 0, log
    assert page.select("table.mistakes tbody td")[3].get_text().strip() == "2.1, 2.2"
    (section,) = page.select("#mistakes-of-2-scores")
    assert [p.get_text() for p in section.find_all("p", recursive=False)] == [
        "2.1 Weights by hand",
        "2.2 A second",
        "2.3 A third",
    ]
    assert [len(fold.select("li")) for fold in section.select("details")] == [2, 1, 1]
    assert section.select("li")[2].get_text(strip=True) == "Seven. (Mistake 5.)"


def test_a_turn_is_told_from_an_exercise_of_the_same_number(book):
    _, page = book("[1, 3, 4]", more='replace(hand, name="turned", wrong_answers=[WrongAnswer("seven", 7, 5)])')
    assert page.select("table.mistakes tbody td")[3].get_text().strip() == "2.1, turn in 2.9"


def test_a_diagnosis_is_written_as_check_prints_it():
    assert {sentence(words) for words in ("your weights hold NaN.", "your weights hold NaN")} == {
        "Your weights hold NaN."
    }
