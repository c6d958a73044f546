"""The chapters as a reader has them in JupyterLab and in Notebook 7: folded, run, answered, saved and opened again.

One chapter is run in JupyterLab; that its tags fold it as the site does holds for every chapter that keeps the rules of
tests/chapters. Before a release, ATTENTION_TUTORIAL_LIVE=all has every chapter run in both.
"""

import contextlib
import functools
import itertools
import os
import re

import page_faults
import pytest
from front_ends import FRONT_ENDS, Notebook, jupyter

from attention_tutorial.exercises import exercises
from tools.book import chapters, read

FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell"}  # the tags of cells whose code the site folds
MAIN = {path.stem: read(path) for path in chapters() if path.stem[2] == "_"}  # chapters; a deep notebook is "02a_..."
RUN = [("lab", "02_scaled_dot_product")]
if os.environ.get("ATTENTION_TUTORIAL_LIVE") == "all":
    RUN = list(itertools.product(FRONT_ENDS, MAIN))
DESK, NARROW = 1366, 800
FRAME = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Return a function that starts a front end, unless it runs, and returns its address."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(
            lambda front_end: stack.enter_context(jupyter(front_end, tmp_path_factory.mktemp("live") / front_end))
        )


@contextlib.contextmanager
def opened(browser, address, name):
    """Open a notebook in a window of its own, which remembers what it asks for."""
    context = browser.new_context(viewport={"width": DESK, "height": 900})
    asked = []
    context.on("request", lambda request: asked.append(request.url))
    notebook = Notebook(context.new_page(), address, name)
    notebook.asked = asked
    yield notebook
    context.close()


def folded_otherwise(cells):
    """List the cells whose code is in sight where the site folds it, or folded where the site shows it."""
    return [cell["id"] for cell in cells if cell["code"] == bool(FOLDED & set(cell["tags"]))]


def answers_in_sight(cells):
    return [cell["id"] for cell in cells if "answer" in cell["tags"] and (cell["code"] or cell["output"])]


# ---- Run -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=RUN, ids="-".join)
def notebook(browser, start, request):
    """A chapter that a reader has run from top to bottom."""
    front_end, name = request.param
    with opened(browser, start(front_end), name) as notebook:
        notebook.stored, notebook.before = MAIN[name], notebook.cells()
        notebook.run_all()
        yield notebook


@pytest.fixture
def turn(notebook):
    """The first turn whose answer can be typed: its cell, and its exercise."""
    for cell in notebook.cells():
        if "turn" in cell["tags"]:
            exercise = exercises()[re.search(r'check\("(\w+)"', cell["source"])[1]]
            if exercise.typed and not exercise.choices:
                return cell, exercise
    pytest.fail("there is none")


def test_every_cell_runs(notebook):
    assert not [cell["id"] for cell in notebook.cells() if cell["failed"] or not cell["executed"]]


def test_both_front_ends_fold_alike_and_a_run_unfolds_no_code(notebook):
    assert any("answer" in cell["tags"] for cell in notebook.before)
    assert not folded_otherwise(notebook.before)
    assert not answers_in_sight(notebook.before)
    assert not folded_otherwise(notebook.cells())  # they do show again whatever a cell says when it runs


def test_the_first_widget_answers_a_hand(notebook):
    demonstrations = [cell.id for cell in notebook.stored.cells if "attention-widget" in str(cell.get("outputs"))]
    if not demonstrations:
        pytest.skip("this chapter has none")
    widget = notebook.show(demonstrations[0]).locator(".bw")

    def numbers():
        notebook.page.evaluate(FRAME)
        return re.findall(r"\d[\d.]*", widget.text_content())

    before = numbers()
    for control in widget.locator("button:enabled, input[type=range]").all():
        control.press("ArrowRight") if control.get_attribute("type") == "range" else control.click()
        if numbers() != before:
            return
    pytest.fail(f"nothing that one can press changes {before}")


def test_a_turn_says_of_a_typed_answer_what_is_wrong(notebook, turn):
    cell, exercise = turn
    wrong = exercise.wrong_answers[0]
    card = notebook.show(cell["id"]).locator(".bw.your_turn")
    for answer, words in [(wrong.answer, wrong.message_for(exercise.cases[0])), (exercise.right, "right")]:
        typed = ", ".join(map(str, answer)) if isinstance(answer, list | tuple) else str(answer)
        card.locator("input").fill(typed)
        card.get_by_role("button", name="Check").click()
        notebook.page.evaluate(FRAME)
        assert words.lower() in card.get_by_role("status").text_content().lower()


def test_a_turn_says_of_an_answer_in_its_cell_what_is_wrong(notebook, turn):
    cell, exercise = turn
    wrong = exercise.wrong_answers[0]
    said = notebook.write(cell["id"], cell["source"].replace("...", repr(wrong.answer), 1))
    assert wrong.message_for(exercise.cases[0]).lower() in said.lower()
    said = notebook.write(cell["id"], cell["source"].replace("...", repr(exercise.right), 1))
    assert re.search(r"\bright\.", said.lower())
    assert "not yet" not in said.lower()


@pytest.mark.parametrize("width", [NARROW, DESK])
def test_no_output_is_wider_than_its_cell(notebook, width):
    assert not notebook.too_wide(width)


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_outputs_can_be_read_by_day_and_by_night(notebook, theme):
    notebook.command("apputils:change-theme", theme=theme)
    assert not page_faults.contrast(notebook.page, ".jp-OutputArea-output")


def test_nothing_is_sent_to_another_server(notebook):
    home = (notebook.address.split("/lab/")[0].split("/notebooks/")[0], "data:", "blob:", "about:")
    assert not [url for url in notebook.asked if not url.startswith(home)]


def test_a_saved_copy_shows_every_widget_or_its_table(notebook):
    """It comes last, since it ends the kernel."""
    had = [cell["id"] for cell in notebook.cells() if cell["widget"]]
    notebook.open_again()
    dead = re.compile(r"Error displaying widget|[Mm]odel not found")
    for cell in notebook.cells():
        if dead.search(cell["text"]):  # what a style hides is there all the same
            assert not notebook.show(cell["id"]).locator(".jp-OutputArea-child:visible", has_text=dead).count()
    assert had
    for name in had:
        assert notebook.show(name).locator(".jp-OutputArea-output :is(.bw, table):visible").count(), name
