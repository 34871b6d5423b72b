"""Pictures of notebook 10: drawn from small inputs, with labels, and wrong shapes refused."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from cs_transformers import plots

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def legend_of(figure: plt.Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_maximum_climbs_and_the_parts_sum_to_the_softmax() -> None:
    scores = [1.0, 0.0, 3.0, -1.0, 2.0]
    figure = plots.softmax_in_blocks(scores, 2)
    left, right = figure.axes
    assert [line.get_ydata()[0] for line in left.lines[:3]] == [1.0, 3.0, 3.0]
    heights = [bar.get_height() for bar in right.patches]
    assert len(heights) == 1 + 2 + 3
    np.testing.assert_allclose(sum(heights[3:]), np.exp(np.array(scores) - 3).sum())
    assert left.get_xlabel() == "key"
    assert right.get_ylabel()
    with pytest.raises(ValueError, match="size must be 1 or more, got 0"):
        plots.softmax_in_blocks(scores, 0)


def test_square_maps_share_one_scale_of_colours() -> None:
    figure = plots.square_maps({"a": np.eye(3), "b": np.full((2, 5), 0.2)})
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"]
    assert {axes.images[0].get_clim() for axes in figure.axes} == {(0, 1.0)}
    with pytest.raises(ValueError, match="the panels must be one or more"):
        plots.square_maps({})


def test_cost_curves_name_the_exponent_and_take_shorter_curves() -> None:
    figure = plots.cost_curves([10, 20, 40], {"square": [1, 4, 16], "line": [3, 6]}, ylabel="seconds", title="growth")
    assert legend_of(figure) == ["square: exponent 2.00", "line: exponent 1.00"]
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_ylabel()) == ("log", "log", "seconds")
    for wrong in ([1], [1, 2, 3, 4]):
        with pytest.raises(ValueError, match="'a' must be two points or more, at most 3"):
            plots.cost_curves([10, 20, 40], {"a": wrong}, ylabel="s", title="")


def test_window_grids_write_the_numbers_and_colour_the_windows() -> None:
    numbers = np.arange(6).reshape(2, 3)
    figure = plots.window_grids({"before": numbers}, {"before": numbers // 2})
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == list("012345")
    assert len(np.unique(axes.images[0].get_array())) == 3  # three windows, three shades
    for windows in ({"after": numbers}, {"before": np.zeros((3, 2))}):
        with pytest.raises(ValueError, match="the windows of 'before' must be of shape"):
            plots.window_grids({"before": numbers}, windows)


def test_error_curves_have_a_panel_per_input_and_a_line_per_method() -> None:
    one = {"a": [3, 2, 1], "b": [1, 1, 1]}
    figure = plots.error_curves([1, 2, 4], {"left": one, "right": one}, xlabel="features")
    assert [axes.get_title() for axes in figure.axes] == ["left", "right"]
    assert legend_of(figure) == ["a", "b"]
    assert figure.axes[1].get_xlabel() == "features"
    with pytest.raises(ValueError, match="'a' must be 3 numbers, got 2"):
        plots.error_curves([1, 2, 4], {"left": {"a": [3, 2]}}, xlabel="")
    with pytest.raises(ValueError, match="the panels must be one or more"):
        plots.error_curves([1, 2, 4], {}, xlabel="")


def test_accuracy_and_cost_has_a_point_and_a_range_for_each_method() -> None:
    figure = plots.accuracy_and_cost(
        ["a", "b"], [0.5, 0.7], [1, 2], xlabel="ms", title="t", spreads=[[0.4, 0.6], [0.6, 0.8]]
    )
    axes = figure.axes[0]
    assert legend_of(figure) == ["a", "b"]
    assert [line.get_ydata()[0] for line in axes.lines] == [50.0, 70.0]
    assert axes.collections  # the ranges
    with pytest.raises(ValueError, match="names must be 2 labels, got 1"):
        plots.accuracy_and_cost(["a"], [0.5, 0.7], [1, 2], xlabel="", title="")
    with pytest.raises(ValueError, match="costs must be 2 numbers, got 3"):
        plots.accuracy_and_cost(["a", "b"], [0.5, 0.7], [1, 2, 3], xlabel="", title="")
