"""The classroom's sheets, printed by a browser."""

import nbformat

from attention_classroom.assignment import load, variant_for
from attention_classroom.oral_exam import page, questions
from attention_classroom.release import answers
from tools.book import ROOT

MASTERS = ROOT / "classroom" / "masters"
SECRET = b"0" * 40


def test_a_sheet_has_at_most_two_pages(browser, tmp_path):
    """The longest of all assignments is that on chapter 1."""
    assignment = load(MASTERS / "hidden" / "bottleneck.py")
    master = nbformat.read(MASTERS / "source" / "bottleneck" / "bottleneck.ipynb", as_version=4)
    solution = answers(master, assignment, variant_for(assignment, "s1", SECRET))
    drawn = questions(master, assignment, "s1", SECRET, solution)
    (tmp_path / "sheet.html").write_text(page("", [("", drawn)] * 2), encoding="utf-8")
    tab = browser.new_page()
    tab.goto((tmp_path / "sheet.html").as_uri())
    assert tab.pdf(prefer_css_page_size=True).count(b"/Type /Page\n") == 4
    tab.close()
