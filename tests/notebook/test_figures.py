"""Laws of the figures of a live notebook."""

import base64
import io
import re

import matplotlib.pyplot as plt
import pytest
from bs4 import BeautifulSoup
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import select_figure_formats
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image

from attention_tutorial.notebook.figures import describe_figures
from tools.execution import normalise

ALT = 'Two "lines" & a dot. The upper one falls.'


def a_line():
    figure, ax = plt.subplots(figsize=(3, 2), dpi=100)
    ax.plot([1, 2])
    return figure


@pytest.fixture
def shown():
    """Return what a shell shows of a figure, given the metadata that the front end sent with the cell."""

    def show(metadata, make=a_line):
        shell = InteractiveShell()
        shell.get_parent = lambda: {"metadata": metadata}
        select_figure_formats(shell, {"png"})
        describe_figures(shell)
        figure = make()
        bundle = shell.display_formatter.format(figure)
        plt.close(figure)
        return bundle

    return show


def picture_in(data):
    element = BeautifulSoup(data["text/html"], "html.parser").img
    pixels = Image.open(io.BytesIO(base64.b64decode(element["src"].removeprefix("data:image/webp;base64,"))))
    return element, pixels


def test_a_figure_has_its_cells_description_in_every_way_that_a_front_end_reads(shown):
    data, metadata = shown({"cellId": "a", "mystnb": {"image": {"alt": ALT}}})
    assert picture_in(data)[0]["alt"] == data["text/plain"] == metadata["image/png"]["alt"] == ALT


def test_a_figure_has_twice_its_pixels_and_fits_a_narrow_cell(shown):
    element, pixels = picture_in(shown({})[0])
    assert (pixels.width // 2, pixels.height // 2) == (int(element["width"]), int(element["height"]))
    assert pixels.width > 500
    assert element["style"] == "max-width: 100%; height: auto"


def test_a_figure_without_a_description_claims_none(shown):
    data, metadata = shown({})
    assert not picture_in(data)[0].has_attr("alt") and metadata == {}
    assert re.match("<Figure size", data["text/plain"])


def cleared():
    figure = a_line()
    figure.clf()
    return figure


def with_a_title_alone():
    figure = plt.figure()
    figure.suptitle("Nothing yet")
    return figure


def wrong_formula():
    figure = a_line()
    figure.axes[0].set_title(r"$\frac$")
    return figure


@pytest.mark.parametrize("make", [plt.figure, Figure, cleared, with_a_title_alone])
def test_an_empty_figure_is_a_line_of_text_without_a_traceback(make, shown, capsys):
    data, metadata = shown({"mystnb": {"image": {"alt": ALT}}}, make)
    assert list(data) == ["text/plain"] and re.fullmatch(r"<Figure size .* with 0 Axes>", data["text/plain"])
    assert (metadata, *capsys.readouterr()) == ({}, "", "")


def test_a_figure_that_cannot_be_drawn_gives_one_traceback_and_none_of_ours(shown, capsys):
    shown({}, wrong_formula)
    said = "".join(capsys.readouterr())
    assert said.count("Traceback") == 1 and "Expected \\frac" in said and "attention_tutorial" not in said


def test_what_is_stored_says_beside_the_picture_what_it_shows():
    output = new_output("display_data", data={"image/png": "aGk=", "image/svg+xml": "<svg/>"})
    cell = new_code_cell("draw()", outputs=[output], metadata={"mystnb": {"image": {"alt": ALT}}})
    (cell,) = normalise(new_notebook(cells=[cell])).cells
    assert cell.outputs[0].metadata == {kind: {"alt": ALT} for kind in ("image/png", "image/svg+xml")}
