"""Laws of the folds of live notebooks: they follow from the tags alone, and the site shows nothing of them."""

import copy
import json
from types import SimpleNamespace

import pytest
from attention_book.notebooks import read_notebook, show_own_code
from nbformat.v4 import new_code_cell
from notebook_rules import BOOK, CHAPTERS

from tools import folds
from tools.colab import own_code

FIGURE = {"mystnb": {"image": {"alt": "A line rises."}}}
CODE = {"cellView": "form", "_kg_hide-input": True, "is_code_hidden": True}
OUTPUT = {"collapsed": True, "_kg_hide-output": True, "is_output_hidden": True}


def folded(source="draw()", **metadata):
    cell = new_code_cell(source, metadata=copy.deepcopy(metadata))
    folds.fold(cell)
    return cell


@pytest.mark.parametrize(("tags", "live"), [
    ([], {}),
    (["turn"], {}),
    (["hide-input"], {**CODE, "jupyter": {"source_hidden": True}}),
    (["remove-input"], {**CODE, "jupyter": {"source_hidden": True}}),
    (["hide-output"], {**OUTPUT, "jupyter": {"outputs_hidden": True}}),
    (["hide-cell"], {**CODE, **OUTPUT, "jupyter": {"source_hidden": True, "outputs_hidden": True}}),
])  # fmt: skip
def test_the_metadata_follow_from_the_tags_and_go_with_them(tags, live):
    cell = folded(tags=tags)
    assert cell.metadata == {**live, "tags": tags}
    assert cell.source.startswith("# @title") == ("cellView" in live)
    again = copy.deepcopy(cell)
    folds.fold(again)
    assert again == cell
    cell.metadata.tags = ["turn"]
    folds.fold(cell)
    assert cell == folded(tags=["turn"]) | {"id": cell.id}


@pytest.mark.parametrize(("metadata", "title"), [
    ({"tags": ["hide-input", "setup"]}, "Set up"),
    ({"tags": ["claims", "hide-input"]}, "What is claimed here"),
    ({"tags": ["answer", "hide-cell"]}, "Answer"),
    ({"tags": ["remove-input"]}, "Show the demonstration"),
    ({"tags": ["hide-input"], **FIGURE}, "Draw the figure"),
    ({"tags": ["hide-input"]}, "Run the code"),
])  # fmt: skip
def test_a_title_says_what_kind_of_cell_it_is_unless_the_author_says_more(metadata, title):
    assert folded(**metadata).source == f"# @title {title}\ndraw()"
    assert folded("# @title Answer\ndraw()", **metadata).source == f"# @title {title}\ndraw()"
    assert folded("# @title Draw two curves\ndraw()", **metadata).source == "# @title Draw two curves\ndraw()"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_page_shows_a_chapters_own_code_and_a_script_installs_too(path):
    source = [path.read_text(encoding="utf-8")]
    show_own_code(
        SimpleNamespace(env=SimpleNamespace(doc2path=lambda _: str(path), note_dependency=print)), path.stem, source
    )
    for live, page, script in zip(
        BOOK[path].cells, json.loads(source[0])["cells"], read_notebook(path).cells, strict=True
    ):
        code = live.cell_type == "code"
        assert page["source"] == (own_code(live) if code else live.source)
        assert script.source == (folds.split(live.source)[1] if code else live.source)
        assert folds.split(live.source)[0] != folds.OF_ANY_CODE, "give it a title that says what it does"
    assert "@title" not in source[0] and "find_spec" not in source[0]
