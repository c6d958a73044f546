"""Laws of the figures: limits, labels and data are looked at, never pixels."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.font_manager import findfont, fontManager, get_font
from matplotlib.patches import FancyArrowPatch
from oracles import assert_raises, mistakes

from attention_tutorial import plotting
from attention_tutorial.plotting import attention_flow, band, draw_matrix, heatmap, mask_map, matrix_chain, use_style

WEIGHTS = torch.tensor([[0.1, 0.2, 0.7], [0.9, 0.1, 0.0]], dtype=torch.float64)


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """Each test starts without figures, and no function may show one."""
    monkeypatch.setattr(plt, "show", lambda *args, **kwargs: pytest.fail("a figure was shown"))
    plt.close("all")  # what another test of this process may have left
    with plt.rc_context():
        plt.rcdefaults()  # nor a style
        yield
    plt.close("all")


def luminance(color):
    return float(np.dot(to_rgb(color), (0.299, 0.587, 0.114)))


def texts(ax):
    return [text.get_text() for text in ax.texts]


DRAW = {
    "heatmap": lambda ax: heatmap(WEIGHTS, ax=ax),
    "mask_map": lambda ax: mask_map(WEIGHTS > 0.5, ax=ax),
    "band": lambda ax: band([1, 2, 3], WEIGHTS, ax=ax),
    "matrix_chain": lambda ax: matrix_chain([("A", WEIGHTS, plotting.QUERY)], ax=ax),
    "draw_matrix": lambda ax: draw_matrix(WEIGHTS, 0, 0, ax=ax),
    "attention_flow": lambda ax: attention_flow(QUERY, KEYS, VALUES, ["a", "b", "c"], 0, ax=ax),
}


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW.keys())
def test_a_figure_is_drawn_where_asked_and_else_in_a_new_one(draw):
    _, (left, right) = plt.subplots(1, 2)
    assert draw(right) is right
    assert plt.get_fignums() == [1]
    assert not left.has_data()
    assert draw(None) not in (left, right)
    assert plt.get_fignums() == [1, 2]


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW.keys())
def test_a_figure_renders_without_warnings(draw):
    use_style()
    draw(None).figure.canvas.draw()


def test_a_heat_map_has_a_row_for_each_query_and_a_column_for_each_key():
    ax = heatmap(WEIGHTS, ["she", "sat"], ["the", "cat", "sat"], title="Weights")
    assert np.array_equal(ax.images[0].get_array(), WEIGHTS.numpy())
    assert [t.get_text() for t in ax.get_xticklabels()] == ["the", "cat", "sat"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["she", "sat"]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("key", "query", "Weights")
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first query is on top
    unnamed = heatmap(WEIGHTS)
    assert [[t.get_text() for t in labels] for labels in (unnamed.get_xticklabels(), unnamed.get_yticklabels())] == [
        ["1", "2", "3"], ["1", "2"]]  # fmt: skip


def test_weights_are_drawn_on_a_scale_from_zero_to_one_whatever_they_are():
    for weights in (WEIGHTS, WEIGHTS / 100):
        assert heatmap(weights).images[0].get_clim() == (0.0, 1.0)
    assert heatmap(WEIGHTS, vmin=-2.0, vmax=2.0).images[0].get_clim() == (-2.0, 2.0)


def test_each_number_stands_in_its_cell_in_a_colour_that_can_be_read():
    ax = heatmap(WEIGHTS, annotate=True)
    assert texts(ax) == ["0.10", "0.20", "0.70", "0.90", "0.10", "0.00"]
    assert [t.get_position() for t in ax.texts] == [(j, i) for i in range(2) for j in range(3)]
    for cmap in (plotting.WEIGHT_MAP, "Greys", "gray"):
        ax = heatmap(3 * WEIGHTS - 2, annotate=True, vmin=-2.0, vmax=1.0, cmap=cmap)
        for text, weight in zip(ax.texts, WEIGHTS.flatten().tolist(), strict=True):
            background = matplotlib.colormaps[cmap](weight)[:3]
            assert abs(luminance(text.get_color()) - luminance(background)) > 0.4
    assert texts(heatmap(WEIGHTS, annotate=".1f"))[:2] == ["0.1", "0.2"]
    assert texts(heatmap(WEIGHTS)) == []


@pytest.mark.parametrize(
    "values", [WEIGHTS.tolist(), WEIGHTS.numpy(), WEIGHTS.bfloat16(), WEIGHTS.float().requires_grad_()]
)
def test_tensors_arrays_and_lists_are_drawn_alike(values, device):
    values = values.to(device) if isinstance(values, torch.Tensor) else values
    drawn = heatmap(values, np.array(["a", "b"]), np.array(["c", "d", "e"])).images[0].get_array()
    np.testing.assert_allclose(drawn, WEIGHTS.numpy(), rtol=4e-3)


def test_the_colour_map_runs_from_light_to_dark_so_that_it_survives_grey_print():
    colours = matplotlib.colormaps[plotting.WEIGHT_MAP](np.linspace(0, 1, 256))
    grey = colours[:, :3] @ (0.299, 0.587, 0.114)
    assert (np.diff(grey) <= 0).all()
    assert grey[0] - grey[-1] > 0.6


def test_axes_take_other_names_and_long_labels_are_turned():
    ax = heatmap(WEIGHTS, None, ["four", "for", "a"], row_name="target", column_name="source")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("source", "target")
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {0.0}
    turned = heatmap(WEIGHTS, None, ["fiver", "for", "a"])
    assert {label.get_rotation() for label in turned.get_xticklabels()} == {45.0}


def test_query_key_and_value_have_colours_of_their_own_which_the_style_uses():
    assert len({plotting.QUERY, plotting.KEY, plotting.VALUE}) == 3
    use_style()
    assert plt.rcParams["axes.prop_cycle"].by_key()["color"][:3] == [plotting.QUERY, plotting.KEY, plotting.VALUE]
    assert plt.rcParams["font.size"] >= 12  # large enough on a phone


def test_letters_of_any_kind_are_drawn_in_the_books_own_faces_and_nothing_is_missed(caplog):
    use_style()
    use_style()  # a chapter's first cell may run again
    ours = [font for font in fontManager.ttflist if font.name in {"Book Sans", "Book Mono"}]
    assert len(ours) == len(list(plotting.FONTS.glob("*.ttf"))) == 6
    ax = plt.subplots()[1]
    ax.set(title="$\\mathbf{x}$ $x_1$ $\\mathrm{d}$ $\\sqrt{\\omega}$", yscale="log", ylabel="√3 → ½ ≈ 0 − 1")
    kinds = [{"style": style, "weight": weight} for style in ("normal", "italic") for weight in ("normal", "bold")]
    for kind in [*kinds, *({"family": "monospace", "weight": weight} for weight in ("normal", "bold"))]:
        text = ax.text(0.5, 0.5, "è stata", **kind)
        face = get_font(findfont(text.get_fontproperties()))
        assert Path(face.fname).parent == plotting.FONTS
        assert ("Italic" in face.style_name, "Bold" in face.style_name) == (
            kind.get("style") == "italic", kind["weight"] == "bold")  # fmt: skip
    with caplog.at_level("WARNING"):
        ax.figure.canvas.draw()
    assert caplog.messages == []


def test_a_number_has_a_true_minus_and_zero_has_none():
    assert texts(heatmap([[-1.0, -0.001, 0.004]], annotate=True, vmin=-1)) == ["−1.00", "0.00", "0.00"]
    assert texts(heatmap([[-0.3, -12.0]], annotate=".0f", vmin=-12)) == ["0", "−12"]


def test_a_band_runs_from_the_lowest_to_the_highest_run_around_the_mean():
    runs = [[0.0, 2.0, 4.0], [1.0, 2.0, 8.0], [2.0, 5.0, 0.0]]
    ax = band([10, 20, 30], runs, label="three runs", color="#123456")
    line, area = ax.lines[0], ax.collections[0]
    assert line.get_xdata().tolist() == [10, 20, 30]
    assert line.get_ydata().tolist() == [1.0, 3.0, 4.0]
    assert (line.get_label(), line.get_color()) == ("three runs", "#123456")
    vertices = area.get_paths()[0].vertices
    for x, low, high in ((10, 0.0, 2.0), (20, 2.0, 5.0), (30, 0.0, 8.0)):
        at = vertices[vertices[:, 0] == x, 1]
        assert (at.min(), at.max()) == (low, high)


def test_a_chain_shows_every_number_name_shape_and_joint():
    ax = matrix_chain([("Q", [[1.0, 0.0]], plotting.QUERY), ("K", [[-3.0], [4.5]], plotting.KEY)], joints=["→"])
    assert texts(ax) == ["1", "·", "Q", "1 × 2", "→", "−3", "4.50", "K", "2 × 1"]
    assert len(ax.patches) == 4


def test_a_matrix_is_drawn_at_its_place_a_box_for_each_number():
    ax = draw_matrix([[1.0, -0.25, 1e-12]], 2, 3, size=0.5)
    assert texts(ax) == ["1", "−0.25", "·"]
    assert [text.get_position() for text in ax.texts] == [(2.25, 3.26), (2.75, 3.26), (3.25, 3.26)]
    assert [patch.get_x() for patch in ax.patches] == pytest.approx([2.02, 2.52, 3.02])


QUERY, KEYS, VALUES = [2.0, 0.0], [[0.0, 5.0], [1.0, 0.0], [2.0, 1.0]], [[0.0], [1.0], [0.5]]


def test_a_flow_shows_every_number_on_the_way_from_the_query_to_the_output():
    ax = attention_flow(QUERY, KEYS, VALUES, ["a", "b", "c"], 1)
    exponentials = np.exp([0, np.sqrt(2), 2 * np.sqrt(2)])
    weights = exponentials / exponentials.sum()
    shown = texts(ax)
    assert {"2\n0", "0\n5", "1\n0", "2\n1", "0", "1", "0.5"} <= set(shown)
    assert {"0.00", "1.41", "2.83"} <= set(shown)
    assert {"1.0", "4.1", "16.9"} <= set(shown)
    assert f"÷ {exponentials.sum():.1f}:\nweight" in shown
    assert {f"{weight:.2f}" for weight in weights} <= set(shown)
    assert shown[-1] == f"{weights[1] + weights[2] / 2:.2f}"


def test_values_flow_into_the_output_along_arrows_as_wide_as_their_weights():
    ax = attention_flow(QUERY, KEYS, VALUES, ["a", "b", "c"], 1)
    weights = np.exp([0, np.sqrt(2), 2 * np.sqrt(2)])
    weights /= weights.sum()
    arrows = [p for p in ax.patches if isinstance(p, FancyArrowPatch) and p.get_alpha() < 1]
    steps = np.diff([arrow.get_linewidth() for arrow in arrows]) / np.diff(weights)
    assert steps.shape == (2,)
    assert steps[0] == pytest.approx(steps[1])
    assert steps[0] > 1


MASK, LABELS = WEIGHTS > 0.5, "labels must hold one label for each of"
FLOW = "query, keys and values must be (d_k,), (n, d_k) and (n, d_v) for"


@mistakes({ValueError: [
    (lambda: heatmap([0.5, 0.5]), "weights must be (m, n); got shape (2,)"),
    (lambda: heatmap(WEIGHTS[None]), "weights must be (m, n); got shape (1, 2, 3)"),
    (lambda: heatmap(WEIGHTS, ["a"]), f"row_{LABELS} 2 positions; got 1"),
    (lambda: heatmap(WEIGHTS, None, ["a", "b"]), f"column_{LABELS} 3 positions; got 2"),
    (lambda: mask_map(np.array([[1, 0]])), "mask must be boolean, True = may attend; got int64"),
    (lambda: mask_map(MASK[None]), "mask must be (m, n); got shape (1, 2, 3)"),
    (lambda: mask_map(MASK, ["a"]), f"row_{LABELS} 2 positions; got 1"),
    (lambda: band([1, 2], WEIGHTS), "runs must be (runs, n) with n=2; got shape (2, 3)"),
    (lambda: band([1, 2], [1, 2]), "runs must be (runs, n) with n=2; got shape (2,)"),
    (lambda: matrix_chain([("Q", [1.0], "red"), ("K", [[1.0]], "red")]),
     "matrices must have two axes each; got shapes [(1,), (1, 1)]"),
    (lambda: matrix_chain([("Q", [[1.0]], "")], joints=["x"]), "joints must be one fewer than the 1 matrices; got 1"),
    (lambda: draw_matrix([1.0], 0, 0), "values must be (rows, columns); got shape (1,)"),
    (lambda: attention_flow([1.0, 0.0], [[1.0]], [[1.0]], ["a"], 0), f"{FLOW} 1 tokens; got (2,), (1, 1) and (1, 1)"),
    (lambda: attention_flow([1.0], [[1.0]], [[1.0]], ["a", "b"], 0), f"{FLOW} 2 tokens; got (1,), (1, 1) and (1, 1)"),
    (lambda: attention_flow([1.0], [[1.0]], [1.0], ["a"], 0), f"{FLOW} 1 tokens; got (1,), (1, 1) and (1,)"),
    (lambda: attention_flow([1.0], [[1.0]], [[1.0]], ["a"], 1), "target must be a position from 0 to 0; got 1"),
    (lambda: attention_flow([1.0], [[1.0]], [[1.0]], ["a"], -1), "target must be a position from 0 to 0; got -1"),
]})  # fmt: skip
def test_a_wrong_argument_is_named_with_the_rule_and_what_came(call, error, message):
    assert_raises(call, error, message)


def test_a_mask_is_drawn_dark_where_open_with_a_cross_where_closed_and_empty_rows_framed():
    mask = torch.tensor([[True, False, True], [False, False, False]])
    ax = mask_map(mask, ["a", "b"], ["x", "y", "z"], title="mask")
    assert np.array_equal(ax.images[0].get_array(), mask.numpy())
    colors = [luminance(ax.images[0].cmap(ax.images[0].norm(value))[:3]) for value in (0.0, 1.0)]
    assert colors[0] > 0.9 and colors[1] < 0.5
    crosses = {tuple(map(round, text.get_position())) for text in ax.texts}
    assert crosses == {(j, i) for i, j in (~mask).nonzero().tolist()}
    (frame,) = ax.patches
    assert round(frame.get_y() + frame.get_height() / 2) == 1
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("key", "query", "mask")


def test_the_frames_of_a_mask_surround_the_empty_rows_and_lines_part_the_cells():
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[[1, 4]], mask[:, 3] = False, False  # an empty column is not framed
    ax = mask_map(mask)
    boxes = [patch.get_bbox() for patch in ax.patches]
    assert [round(box.y0 + box.y1) / 2 for box in boxes] == [1, 4]
    for box in boxes:
        assert (box.x0, box.x1) == pytest.approx((-0.5, 6.5), abs=0.05)
        assert box.height == pytest.approx(1, abs=0.1)
    assert not any(patch.get_fill() for patch in ax.patches)
    assert ax.get_xticks(minor=True).tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]  # lines part the cells
