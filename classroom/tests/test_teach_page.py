"""The pages for teachers name what there is."""

import re
from pathlib import Path

import pytest
from attention_book.levels import is_deep
from attention_book.notebooks import headings, predictions
from attention_book.plans import session
from notebook_rules import BOOK

from attention_classroom.__main__ import DONE, main
from attention_classroom.quickstart import EXAMPLES

ROOT = Path(__file__).parents[2]
PLANS = (ROOT / "classroom" / "pages" / "plans.md").read_text(encoding="utf-8")
PAGE = (ROOT / "classroom" / "pages" / "teach.md").read_text(encoding="utf-8") + PLANS
SESSIONS = dict(re.findall(r"```\{session\} (\w+)\n(.*?)```", PLANS, re.DOTALL))
MAIN = {path.stem: notebook for path, notebook in BOOK.items() if not is_deep(path.stem)}


def test_every_prediction_is_listed_with_its_section():
    for path, notebook in BOOK.items():
        text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        listed = predictions(notebook)
        assert len(listed) == text.count("**Predict first"), path
        titles = [title for _, title in headings(notebook)]
        assert all(section in titles and re.match(r"\d+[a-z]?\.\d+ ", section) for section, *_ in listed), path
        assert is_deep(path.stem) or (listed and "Questions" in titles), path


def test_every_assignment_and_every_command_of_the_page_exists():
    names = {path.stem for path in (ROOT / "classroom" / "masters" / "hidden").glob("*.py")}
    assert set(re.findall(r"assignment `(\w+)`", PAGE)) == names
    used = set(re.findall(r"attention-classroom (\w+)|`(\w+) NAME", PAGE))
    commands = {first or other for first, other in used} - {"export"}
    assert commands >= {"quickstart", "release", "collect", "grade", "report", "validate", "sheet"}
    for command in commands:
        assert main([command, "--help"]) == DONE
    assert "six made-up students" in PAGE and len(EXAMPLES) == 6


def test_the_exercises_and_sections_of_the_page_exist():
    titles = [title for notebook in BOOK.values() for _, title in headings(notebook)]
    there = {match[1] for title in titles if (match := re.match(r"(?:Exercise )?(\d+[a-z]?\.\d+)\b", title))}
    named = re.findall(r"(?<![\d.])(\d+[a-z]?\.\d+)(?![\d.])", PAGE.split("## Set up")[0] + PLANS)
    assert {number.partition(".")[0] for number in named} >= {str(chapter) for chapter in range(1, 9)}
    assert not [number for number in named if number not in there], "classroom/pages/teach.md names them"


def test_every_chapter_has_a_session():
    assert list(SESSIONS) == sorted(MAIN)
    assert re.findall(r"^## Session (\d+)$", PLANS, re.MULTILINE) == [str(int(name[:2])) for name in SESSIONS]


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_asks_what_its_chapter_asks(name):
    """And what its words name stands in what is shown, or is set as homework."""
    until = (re.findall(r":until: (\S+)", SESSIONS[name]) or [""])[0]
    about = session(MAIN[name], until)
    text = "\n".join(cell.source for cell in MAIN[name].cells if cell.cell_type == "markdown")
    assert f"{about.read} minutes to read" in " ".join(text.split())
    whole = session(MAIN[name])
    assert len(whole.turns) == text.count("**Your turn.**") and len(about.turns) >= 3
    assert set(about.turns) <= set(whole.turns) and set(about.predictions) <= set(whole.predictions)
    assert "demonstration" not in SESSIONS[name] or about.demonstrations
    words = [part for part in ("**Show**", "**Goes wrong:**", "**At home:**") if part not in SESSIONS[name]]
    assert not words, words
    assert all(number.startswith(f"{int(name[:2])}.") for number in re.findall(r"\d+\.\d+", SESSIONS[name]))


def test_a_section_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"until must be a section of the chapter, such as 1\.1; got '1\.99'"):
        session(MAIN["01_bottleneck"], "1.99")
