"""One place for one fact: what stands in several files for a good reason is the same in all of them.

Each message says which file to change. CONTRIBUTING.md, "Usual changes", lists the places.
"""

import colorsys
import re
import tomllib
from itertools import pairwise

import pytest
import yaml
from attention_book.address import pythons
from attention_book.levels import is_deep, number_of
from attention_book.notebooks import title_of
from matplotlib.colors import to_hex, to_rgb
from notebook_rules import BOOK

from attention_tutorial import plotting
from attention_tutorial.models.code_model import code_model_runs
from attention_tutorial.notebook.claims import ACCEPTED, MEASURED, PREDICTED
from tools.book import ROOT, chapters, files_of_the_working_tree, pages, settings


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


PYPROJECT = tomllib.loads(text("pyproject.toml"))


# ---- The supported Pythons: `classifiers` in pyproject.toml -------------------------------------------------------

PYTHONS = pythons()
COLABS = re.search(r"for Python (3\.\d+)", text("tools/colab_versions.txt"))[1]
CODE_MODELS = re.match(r"3\.\d+", code_model_runs()["origin"]["python"])[0]  # whose library it learned from


def test_pythons_are_listed_in_order_without_a_gap():
    numbers = [int(version.removeprefix("3.")) for version in PYTHONS]
    assert all(after == before + 1 for before, after in pairwise(numbers)), "pyproject.toml: classifiers"


def test_pyproject_asks_for_the_oldest_python():
    for project in (PYPROJECT, tomllib.loads(text("classroom/pyproject.toml"))):
        assert project["project"]["requires-python"] == f">={PYTHONS[0]}", "run make pythons"
    assert "target-version" not in PYPROJECT["tool"]["ruff"], "pyproject.toml: ruff reads requires-python"


def test_the_workflow_runs_the_tests_on_every_supported_python():
    jobs = yaml.safe_load(text(".github/workflows/tests.yml"))["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == PYTHONS[::-1], "run make pythons"
    told = {job["python"] for job in jobs["test"]["strategy"]["matrix"]["include"]}
    assert told <= set(PYTHONS), ".github/workflows/tests.yml: `include` of `test`"
    (colabs,) = [step["with"]["python-version"] for step in jobs["colab"]["steps"] if "setup-python" in str(step)]
    assert colabs == COLABS, ".github/workflows/tests.yml: `colab` must have the Python of tools/colab_versions.txt"


def test_no_other_python_is_named():
    allowed = {*PYTHONS, COLABS, CODE_MODELS}
    pattern = re.compile(r"[Pp]ython *(?:-version: *\")?(3\.\d\d)(?!\.?\d)")
    named = {
        (name, version)
        for name in files_of_the_working_tree()
        if re.search(r"(^|/)(Makefile|run)$|\.(md|yml|toml|cff|sh)$", name) and name != "CHANGELOG.md"
        for version in pattern.findall(text(name))
    }
    assert len(named) > 3
    wrong = {place for place in named if place[1] not in allowed}
    assert not wrong, f"these files name a Python that pyproject.toml does not list: {sorted(wrong)}"


# ---- Chapters: the notebook's first heading, and its place in _toc.yml ----------------------------------------------

ALL_TITLES = {path.stem: title_of(BOOK[path], "") for path in chapters()}
TITLES = {name: title for name, title in ALL_TITLES.items() if not is_deep(name)}


def test_the_contents_list_every_chapter_and_page_there_is():
    listed = pages()
    notebooks = [name.removeprefix("notebooks/") for name in listed if name.startswith("notebooks/")]
    assert notebooks == [path.stem for path in chapters()], "_toc.yml must list the notebooks, in their order"
    written = [path for folder in ("book", "classroom/pages") for path in (ROOT / folder).rglob("*.md")]
    others = {path.relative_to(ROOT).with_suffix("").as_posix() for path in written}
    assert set(listed) - {f"notebooks/{name}" for name in notebooks} == others, "_toc.yml must list all pages"


def test_deep_notebooks_are_sections_of_their_chapter_in_the_contents():
    parts = yaml.safe_load(text("_toc.yml"))["parts"]
    entries = [entry for part in parts for entry in part["chapters"] if entry["file"].startswith("notebooks/")]
    assert [entry["file"].removeprefix("notebooks/") for entry in entries] == list(TITLES)
    for entry in entries:
        number = number_of(entry["file"])
        deep = [f"notebooks/{name}" for name in ALL_TITLES if is_deep(name) and number_of(name)[:-1] == number]
        assert [below["file"] for below in entry.get("sections", [])] == deep, f"_toc.yml: sections of {entry['file']}"


def test_chapters_are_numbered_in_their_order():
    assert [number_of(name) for name in TITLES] == [str(number) for number, _ in enumerate(TITLES)], "from 0"
    for chapter in TITLES:
        deep = [name for name in ALL_TITLES if is_deep(name) and number_of(name)[:-1] == number_of(chapter)]
        assert "abcdefgh".startswith("".join(number_of(name)[-1] for name in deep)), f"deep notebooks of {chapter}"
    for name, title in ALL_TITLES.items():
        number = number_of(name)
        assert title.startswith(f"{number}. "), f"notebooks/{name}.ipynb: its title must begin with '{number}. '"


def test_the_readme_has_a_row_for_each_chapter():
    rows = re.findall(r"^\| \[(.+?)\]\(notebooks/(\w+)\.ipynb\) \|", text("README.md"), re.MULTILINE)
    assert rows == [(title, name) for name, title in TITLES.items()], "README.md: the table of chapters"


def test_the_start_page_has_a_card_for_each_chapter():
    cards = re.findall(
        r"^:::\{grid-item-card\} (.+)\n:link: \.\./notebooks/(\w+)$", text("book/index.md"), re.MULTILINE
    )
    assert cards == [(title, name) for name, title in TITLES.items()], "book/index.md: the cards of the chapters"


def test_a_link_to_a_chapter_names_its_number_and_not_its_title():
    names = {title.partition(". ")[2].lower() for title in ALL_TITLES.values()}
    for path, notebook in BOOK.items():
        for cell in notebook.cells:
            words = re.findall(r"\[([^\]]+)\]\([^)]*\.ipynb", cell.source) if cell.cell_type == "markdown" else []
            assert not {word.lower() for word in words} & names, f"{path.name} repeats a title: write [chapter N]"


# ---- The labels of a claim: attention_tutorial/notebook/claims.py ---------------------------------------------------


def test_the_style_sheet_has_the_labels_of_a_claim():
    labels = re.findall(r'table\.claims td.*content: "(\w+): "', text("book/_static/custom.css"))
    assert labels == [ACCEPTED.capitalize(), MEASURED.capitalize()], "book/_static/custom.css: the claims on a phone"


@pytest.mark.parametrize("name", ["book/claims.md", "notebooks/01_bottleneck.ipynb"])
def test_where_claims_are_explained_their_labels_stand(name):
    words = text(name) if name.endswith(".md") else "\n".join(
        cell.source for cell in BOOK[ROOT / name].cells if cell.cell_type == "markdown"
    )  # fmt: skip
    for label in (PREDICTED, ACCEPTED, MEASURED):
        assert re.search(rf"\b{label}\b", words, re.IGNORECASE), f"{name} must say what {label!r} means"


# ---- The colours of queries, keys and values: book/_static/colours.css ----------------------------------------------

SHEET = "book/_static/colours.css"
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--book-([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", text(SHEET))
}
FIGURES = {"query": plotting.QUERY, "key": plotting.KEY, "value": plotting.VALUE}


def test_figures_have_the_colours_of_the_light_page():
    for name, colour in FIGURES.items():
        assert colour.lower() == COLOURS[name][0], f"attention_tutorial/plotting.py and {SHEET}: the colour of a {name}"


def test_no_other_style_writes_these_colours_again():
    theirs = {colour for pair in COLOURS.values() for colour in pair}
    sources = {name for name in files_of_the_working_tree() if re.search(r"\.(css|tsx?|js|svg|html|py)$", name)}
    sources -= {SHEET, "attention_tutorial/plotting.py"}
    again = {
        name
        for name in sources
        if not name.startswith("attention_tutorial/widgets/static/")  # made from sources
        and theirs & set(re.findall(r"#[0-9a-f]{6}\b", text(name).lower()))
    }
    assert not again, f"{sorted(again)}: write var(--book-...) of {SHEET}, or plotting's name, in place of the colour"


def hue(colour):
    return colorsys.rgb_to_hsv(*to_rgb(colour))[0] * 360


# name -> from which hue to which
HUES = {"red": (345, 375), "orange": (15, 45), "yellow": (45, 70), "green": (80, 170), "blue": (180, 255),
        "purple": (255, 300), "pink": (300, 345)}  # fmt: skip


def test_words_name_the_colours_as_they_are():
    words = {role: {name for name, (low, high) in HUES.items() if low <= hue(colour) < high}
             for role, colour in FIGURES.items()}  # fmt: skip
    assert all(words.values()), "the colour has no name in this test"
    written = {name: text(name) for name in ("book/notation.md", "docs/maintaining.md")}
    for path, notebook in BOOK.items():
        alts = [cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "") for cell in notebook.cells]
        written[path.name] = "\n".join(alts)
    notation = dict(re.findall(r'<span class="(query|key|value)">(\w+)</span>', written["book/notation.md"]))
    assert {role: {name} for role, name in notation.items()} == words, "book/notation.md: the names of the colours"
    pattern = re.compile(rf"\b({'|'.join(HUES)}) (quer|key|value)|(quer|key|value)\w* (?:are )?({'|'.join(HUES)})\b")
    for name, where in written.items():
        for before, role_after, role_before, after in pattern.findall(where.lower()):
            role = {"quer": "query"}.get(role_after or role_before, role_after or role_before)
            assert {before or after} == words[role], f"{name} calls a {role} {before or after}"


def test_stored_figures_have_these_colours():
    (path,) = [path for path in BOOK if path.name.startswith("02_")]
    drawn = [output.get("data", {}) for cell in BOOK[path].cells for output in cell.get("outputs", [])]
    seen = set(re.findall("#[0-9a-f]{6}", " ".join(data.get("image/svg+xml", "") for data in drawn)))
    for name, colour in FIGURES.items():
        assert to_hex(colour) in seen, f"no figure of {path.name} shows the colour of a {name}: run make notebooks"


# ---- The title and the authors of the book: CITATION.cff ------------------------------------------------------------

CITATION = yaml.safe_load(text("CITATION.cff"))


def test_the_book_has_one_title():
    assert settings()["title"] == CITATION["title"], "_config.yml: title"
    for name in ("README.md", "book/index.md"):
        title = next(line for line in text(name).splitlines() if line.startswith("# "))
        assert title == f"# {CITATION['title']}", f"{name}: the first title"


def test_the_book_has_the_same_authors_everywhere():
    authors = [author["name"] for author in CITATION["authors"]]
    assert settings()["author"] == ", ".join(authors), "_config.yml: author"
    assert PYPROJECT["project"]["authors"] == [{"name": name} for name in authors], "pyproject.toml: authors"


# ---- What chapter 7's machine writes: what its cell `train` prints --------------------------------------------------


def test_chapter_7_opens_with_what_its_machine_writes():
    (path,) = [path for path in BOOK if path.name.startswith("07_")]
    by_id = {cell.id: cell for cell in BOOK[path].cells}
    shown = re.findall(r"^\|(?:no|\d+) steps?\|\*(.+?)(?: …)?\*\|$", by_id["first-screen-says"].source, re.MULTILINE)
    written = [line.split(":", 1)[1].strip() for line in by_id["train"].outputs[0].text.splitlines()]
    assert len(shown) == len(written) == 4, "07: the table in first-screen-says has four rows"
    for told, line in zip(shown, written, strict=True):
        assert line.startswith(told), f"07: first-screen-says tells {told!r}, the cell `train` prints {line!r}"
