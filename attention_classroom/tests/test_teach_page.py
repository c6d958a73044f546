"""The page for teachers names what there is."""

import re
from pathlib import Path

import pytest
from attention_book.depths import is_deep
from attention_book.notebooks import headings
from attention_book.predictions import predictions
from notebook_rules import BOOK

from attention_classroom.__main__ import main
from attention_classroom.quickstart import EXAMPLES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "book" / "teach.md").read_text(encoding="utf-8")


def test_every_prediction_is_listed_with_its_section():
    for path, notebook in BOOK.items():
        text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        found = predictions(notebook)
        assert len(found) == text.count("**Predict first"), path
        titles = [title for _, title in headings(notebook)]
        assert all(section in titles and re.match(r"\d+[a-z]?\.\d+ ", section) for section, *_ in found), path
        assert is_deep(path.stem) or (found and "Questions" in titles), path


def test_every_assignment_and_every_command_of_the_page_exists(capsys):
    names = {path.stem for path in (ROOT / "attention_classroom" / "masters" / "hidden").glob("*.py")}
    assert set(re.findall(r"assignment `(\w+)`", PAGE)) == names
    used = set(re.findall(r"attention_tutorial\.classroom (\w+)|`(\w+) NAME", PAGE))
    commands = {one or other for one, other in used} - {"export"}
    assert commands >= {"quickstart", "release", "collect", "grade", "report", "validate", "sheet"}
    for command in commands:
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
    assert "six made-up students" in PAGE and len(EXAMPLES) == 6


def test_the_exercises_and_sections_of_the_page_exist():
    titles = [title for notebook in BOOK.values() for _, title in headings(notebook)]
    there = {found[1] for title in titles if (found := re.match(r"(?:Exercise )?(\d+[a-z]?\.\d+)\b", title))}
    named = re.findall(r"(?<![\d.])(\d+[a-z]?\.\d+)(?![\d.])", PAGE.split("## Set up")[0])
    assert {number.partition(".")[0] for number in named} >= {str(chapter) for chapter in range(1, 9)}
    assert not [number for number in named if number not in there], "book/teach.md names them"
