"""Pictures: they show what they were given, carry labels, and refuse what they cannot draw."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")
import matplotlib.pyplot as plt

from cs_transformers import plots
from cs_transformers.plots.arrays import as_array, as_labels
from cs_transformers.plots.blocks import DIAGRAMS, JOIN

WORDS = ["a", "red", "circle"]


@pytest.fixture(autouse=True)
def _plain_figures():
    with mpl.rc_context():
        plots.use_style()
        yield
    plt.close("all")


def image_of(axes) -> np.ndarray:
    return np.ma.getdata(axes.get_images()[0].get_array())


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def ticks(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def drawn(figure) -> None:
    """Lay the figure out and paint it; a warning (a label that does not fit, a missing glyph) is an error."""
    figure.canvas.draw()


FIGURES = {
    "attention_maps": lambda: plots.attention_maps(torch.rand(2, 3, 4), WORDS, list("abcd")),
    "mask_pictures": lambda: plots.mask_pictures({"causal": np.tri(3), "wide": np.tri(2, 12)}),
    "mask_conventions": lambda: plots.mask_conventions(np.tri(3)),
    "weight_profiles": lambda: plots.weight_profiles({"raw": {4: [0.9, 0.1]}, "scaled": {4: [0.6, 0.4]}}),
    "colour_lookup": lambda: plots.colour_lookup(np.eye(2, 3), np.eye(3), np.eye(2, 3), ["a", "b"], WORDS),
    "numbered_grids": lambda: plots.numbered_grids({"tokens": [[0, 1], [10, 11]]}),
    "stacked_weights": lambda: plots.stacked_weights({"query": np.eye(4), "key": np.eye(3, 4)}),
    "step_size_errors": lambda: plots.step_size_errors([1e-3, 1e-2], {"float64": [1e-6, 0.0]}),
    "position_table": lambda: plots.position_table(np.eye(5, 4)),
    "sinusoid_columns": lambda: plots.sinusoid_columns(np.zeros((9, 6)), [0, 4]),
    "distance_curves": lambda: plots.distance_curves({"key at 3": ([0, 1], [2, 3])}, ylabel="score", title="t"),
    "rotated_pairs": lambda: plots.rotated_pairs({"pair 0": [[1, 0], [0, 1]]}),
    "score_grids": lambda: plots.score_grids({"before": np.eye(3), "after": -np.eye(3)}, WORDS),
    "grid_positions": lambda: plots.grid_positions(np.random.RandomState(0).rand(3, 4, 8), [0, 4], (2, 3)),
    "block_diagrams": lambda: plots.block_diagrams(*DIAGRAMS),
    "influence_maps": lambda: plots.influence_maps({"feed-forward": np.eye(3)}),
    "depth_curves": lambda: plots.depth_curves({"pre-norm": [1.0, 2.0]}, ylabel="norm", title="t"),
    "activation_curves": lambda: plots.activation_curves([0, 1], {"GELU": [0, 1]}),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_is_painted_without_a_warning_and_says_what_its_axes_are(name: str) -> None:
    figure = FIGURES[name]()
    drawn(figure)
    assert all(axes.get_title() or axes.get_xlabel() or axes.get_ylabel() for axes in figure.axes if axes.axison)
    if name not in ("block_diagrams", "numbered_grids"):
        assert any(axes.get_xlabel() for axes in figure.axes)


def test_attention_maps_show_the_weights_on_one_scale_with_the_tokens_beside_them() -> None:
    weights = torch.rand(2, 3, 3, requires_grad=True)
    figure = plots.attention_maps(weights, WORDS, titles=["before", "same"])
    first, second = figure.axes[:2]
    np.testing.assert_allclose(image_of(second), weights[1].detach().numpy())
    assert first.get_images()[0].get_clim() == second.get_images()[0].get_clim() == (0, 1)
    assert (first.get_title(), second.get_title()) == ("before", "same")
    assert ticks(first.yaxis) == ticks(second.xaxis) == WORDS


def test_attention_maps_name_an_entry_that_is_no_number_and_write_the_others_on_request() -> None:
    weights = [[[np.nan, 0.25]]]
    assert texts(plots.attention_maps(weights).axes[0]) == ["nan"]
    assert texts(plots.attention_maps(weights, numbers=True).axes[0]) == ["nan", "0.25"]


def test_mask_pictures_open_exactly_the_nonzero_cells() -> None:
    mask = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 1]])
    axes = plots.mask_pictures({"T = 2, S = 4": mask}).axes[0]
    assert (image_of(axes) == mask.bool().numpy()).all()
    assert axes.get_title() == "T = 2, S = 4"


def test_the_three_mask_conventions_write_one_mask_in_opposite_signs() -> None:
    ours, torchs, additive = plots.mask_conventions([[1, 0]]).axes
    assert texts(ours) == ["T", "F"]
    assert texts(torchs) == ["F", "T"]
    assert texts(additive) == ["0", "-\u221e"]
    for axes in (ours, torchs, additive):
        assert (image_of(axes) == [[True, False]]).all()


def test_colour_lookup_paints_the_stored_and_the_mixed_colours() -> None:
    values, mixed = np.eye(3), np.array([[0.5, 0.5, 0.0]])
    figure = plots.colour_lookup([[0.5, 0.5, 0.0]], values, mixed, ["circle?"], WORDS)
    stored, _, weights, answers = figure.axes
    np.testing.assert_allclose(image_of(stored)[0], values)
    np.testing.assert_allclose(image_of(answers)[:, 0], mixed)
    assert texts(weights) == ["0.50", "0.50", "0.00"]


def test_numbered_grids_give_the_entries_of_one_token_one_colour() -> None:
    axes = plots.numbered_grids({"tokens": [[20, 21], [3, 30]]}).axes[0]
    assert image_of(axes).tolist() == [[2, 2], [0, 3]]
    assert texts(axes) == ["20", "21", "03", "30"]


def test_stacked_weights_keep_the_order_of_the_blocks() -> None:
    axes = plots.stacked_weights({"query": [[1.0, 2.0]], "key": [[3.0, 4.0], [5.0, 6.0]]}).axes[0]
    assert image_of(axes).tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert ticks(axes.yaxis) == ["query", "key"]


def test_position_table_shows_the_dot_products_of_the_rows() -> None:
    table = np.random.RandomState(1).rand(5, 4)
    left, right = plots.position_table(table).axes[:2]
    np.testing.assert_allclose(image_of(left), table)
    np.testing.assert_allclose(image_of(right), table @ table.T / 4)


def test_sinusoid_columns_draw_the_channels_and_the_wavelength_of_each_pair() -> None:
    table = np.random.RandomState(2).rand(9, 6)
    left, right = plots.sinusoid_columns(table, [0, 4]).axes
    np.testing.assert_allclose(left.lines[1].get_ydata(), table[:, 4])
    np.testing.assert_allclose(right.lines[0].get_ydata(), 2 * np.pi * 10000 ** (np.array([0, 2, 4]) / 6))


def test_rotated_pairs_draw_an_arrow_to_every_position() -> None:
    figure = plots.rotated_pairs({"pair 0": [[1, 0], [0, 1], [-1, 0]], "pair 1": [[1, 0], [1, 0], [1, 0]]})
    assert [note.xy for note in figure.axes[0].texts] == [(1, 0), (0, 1), (-1, 0)]
    assert figure.axes[1].get_title() == "pair 1"


def test_score_grids_share_one_scale_that_is_even_around_zero() -> None:
    first, second = plots.score_grids({"small": [[1.0, -2.0]], "large": [[3.0, 4.0]]}).axes[:2]
    assert first.get_images()[0].get_clim() == second.get_images()[0].get_clim() == (-4, 4)


def test_grid_positions_compare_every_cell_with_the_chosen_one() -> None:
    encoding = np.random.RandomState(3).rand(3, 4, 8)
    last = plots.grid_positions(encoding, [5], (2, 1)).axes[1]
    unit = encoding / np.linalg.norm(encoding, axis=-1, keepdims=True)
    np.testing.assert_allclose(image_of(last), (unit * unit[2, 1]).sum(-1))
    assert image_of(last)[2, 1] == pytest.approx(1.0)


@pytest.mark.parametrize("name", DIAGRAMS)
def test_block_diagrams_hold_one_box_per_part_and_one_residual_per_sum(name: str) -> None:
    axes = plots.block_diagrams(name).axes[0]
    boxes = [step for step in DIAGRAMS[name] if step not in ("fork", "join")]
    written = texts(axes)
    assert [text for text in written if text in boxes] == boxes
    assert written.count("+") == DIAGRAMS[name].count(JOIN) == boxes.count("LayerNorm")
    assert ("memory" in written) == ("cross-attention" in boxes)


def test_influence_maps_leave_an_exact_zero_white() -> None:
    array = plots.influence_maps({"causal": [[0.5, 0.0], [0.2, 0.1]]}).axes[0].get_images()[0].get_array()
    assert np.ma.getmaskarray(array).tolist() == [[False, True], [False, False]]


def test_depth_curves_count_the_layers_from_the_given_number() -> None:
    axes = plots.depth_curves({"left": [1.0, 0.5, -0.1]}, ylabel="cosine", title="t", first=0, log=False).axes[0]
    assert axes.lines[0].get_xdata().tolist() == [0, 1, 2]
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")


@pytest.mark.parametrize(
    "value", [torch.ones(2, 3, dtype=torch.bfloat16), [[1, 1, 1], [1, 1, 1]], np.ones((2, 3), bool)]
)
def test_tensors_lists_and_bools_become_float_arrays(value) -> None:
    array = as_array("demo", "weights", value, 2)
    assert (array.dtype, array.tolist()) == (np.float64, [[1.0] * 3] * 2)


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (0, 3)])
def test_a_value_of_another_rank_or_an_empty_one_is_refused(shape) -> None:
    with pytest.raises(ValueError, match=r"demo: weights must be an array with 2 axes.*got shape"):
        as_array("demo", "weights", torch.zeros(shape), 2)


def test_labels_must_be_as_many_as_the_things_they_label() -> None:
    assert as_labels("demo", "tokens", None, 3) is None
    with pytest.raises(ValueError, match="demo: tokens must be 3 labels, got 2"):
        as_labels("demo", "tokens", ["a", "b"], 3)


REFUSED = {
    "maps need three axes": (lambda: plots.attention_maps(np.eye(3)), "weights must be an array with 3 axes"),
    "too few titles": (lambda: plots.attention_maps(np.ones((2, 1, 1)), titles=["one"]), "titles must be 2 labels"),
    "no mask": (lambda: plots.mask_pictures({}), "the panels must be one or more, got none"),
    "no profile": (lambda: plots.weight_profiles({}), "the panels must be one or more, got none"),
    "mask of a batch": (lambda: plots.mask_conventions(np.ones((2, 3, 3))), "mask must be an array with 2 axes"),
    "colours without blue": (
        lambda: plots.colour_lookup(np.eye(2), np.ones((2, 2)), np.ones((2, 3)), ["a", "b"], ["c", "d"]),
        r"value_colours must be of shape \(2, 3\)",
    ),
    "blocks of two widths": (
        lambda: plots.stacked_weights({"query": np.eye(2), "key": np.eye(3)}),
        "the blocks must be matrices of one input width",
    ),
    "a step without an error": (lambda: plots.step_size_errors([1, 2], {"float32": [1]}), "must be 2 numbers, got 1"),
    "a channel too far": (lambda: plots.sinusoid_columns(np.eye(4), [4]), "columns must be channels from 0 to 3"),
    "a distance without a value": (
        lambda: plots.distance_curves({"x": ([0, 1], [0])}, ylabel="y", title="t"),
        "must be 2 numbers, got 1",
    ),
    "triples": (lambda: plots.rotated_pairs({"pair 0": np.ones((2, 3))}), r"must be of shape \(P, 2\)"),
    "wrong tokens": (lambda: plots.score_grids({"x": np.eye(2)}, WORDS), "tokens must be 2 labels, got 3"),
    "a cell outside": (
        lambda: plots.grid_positions(np.ones((2, 3, 4)), [0], (2, 0)),
        r"cell must be a \(row, column\) within 2 rows and 3 columns",
    ),
    "a grid channel too far": (
        lambda: plots.grid_positions(np.ones((2, 3, 4)), [4], (0, 0)),
        "channels must be channels from 0 to 3",
    ),
    "an unknown layer": (lambda: plots.block_diagrams("recurrent"), "names must be out of"),
    "no layer": (lambda: plots.block_diagrams(), "names must be out of"),
    "a negative influence": (lambda: plots.influence_maps({"x": [[-1.0]]}), "must be at least 0 everywhere, got -1"),
    "zero on a log scale": (
        lambda: plots.depth_curves({"x": [1.0, 0.0]}, ylabel="y", title="t"),
        "must be positive everywhere, got 0; pass log=False",
    ),
    "an input without an output": (lambda: plots.activation_curves([0, 1], {"ReLU": [0]}), "must be 2 numbers, got 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_drawn_is_refused_with_the_reason(case: str) -> None:
    draw, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        draw()
