"""Laws of the folds of live notebooks: they follow from the tags alone, and the site shows nothing of them."""

import copy
import json

import pytest
from attention_book.notebooks import read_notebook
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
def test_the_site_reads_a_chapters_own_code_and_no_titles(path):
    on_the_site = read_notebook(path)
    assert not any(words in json.dumps(on_the_site) for words in ("@title", "find_spec"))
    for cell, live in zip(on_the_site.cells, BOOK[path].cells, strict=True):
        assert cell == (live | {"source": own_code(live)} if cell.cell_type == "code" else live)
        assert folds.split(live.source)[0] != folds.OF_ANY_CODE, "give it a title that says what it does"
