"""Curves of training and pictures of the inline questions; and that no picture of the course is without a test."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")
import matplotlib.pyplot as plt

from cs_transformers import plots

LOSSES = np.random.RandomState(0).rand(120) + 0.5
ROWS = [
    {"step": 40.0, "val_loss": 0.9, "val_bleu": 0.2},
    {"step": 80.0, "val_loss": 0.8},
    {"step": 120.0, "val_loss": 0.7, "val_bleu": 0.4},
]


@pytest.fixture(autouse=True)
def _plain_figures():
    with mpl.rc_context():
        plots.use_style()
        yield
    plt.close("all")


def lines(axes) -> dict[str, tuple[list[float], list[float]]]:
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


FIGURES = {
    "loss_curve": lambda: plots.loss_curve(LOSSES, log=True),
    "training_curves": lambda: plots.training_curves(LOSSES, ROWS),
    "score_spread": lambda: plots.score_spread([4, 16], {"plain": [4, 16]}, {"plain": [1.0, 0.2]}, keys=8),
    "grouped_bars": lambda: plots.grouped_bars(["a", "b"], {"x": [1, 2], "y": [3, 4]}, ylabel="y", title="t", log=True),
    "learning_by_images": lambda: plots.learning_by_images([10, 100], {"cnn": [0.3, 0.9]}, chance=0.1),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_is_painted_without_a_warning_and_says_what_its_axes_are(name: str) -> None:
    figure = FIGURES[name]()
    figure.canvas.draw()
    assert all(axes.get_xlabel() or axes.get_ylabel() for axes in figure.axes)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor, list])
def test_a_loss_curve_draws_every_step_and_the_mean_over_the_steps_before(kind) -> None:
    drawn = lines(plots.loss_curve(kind(LOSSES)).axes[0])
    assert drawn["each step"] == (list(range(1, 121)), pytest.approx(list(LOSSES)))
    means = [LOSSES[max(0, step - 2) : step].mean() for step in range(1, 121)]  # a fiftieth of 120 steps: two
    assert drawn["running mean"] == (list(range(1, 121)), pytest.approx(means))


def test_validation_loss_joins_the_training_loss_and_other_figures_get_their_own_panel() -> None:
    left, right = plots.training_curves(LOSSES, ROWS).axes
    assert lines(left)["validation"] == ([40, 80, 120], [0.9, 0.8, 0.7])
    assert lines(right) == {"bleu": ([40, 120], [0.2, 0.4])}
    assert len(plots.training_curves(LOSSES, []).axes) == 1


def test_the_largest_entropy_and_guessing_are_drawn_as_lines() -> None:
    entropies = FIGURES["score_spread"]().axes[1]
    assert lines(entropies)["equal shares, log 8"][1] == pytest.approx([np.log(8)] * 2)
    accuracy = FIGURES["learning_by_images"]().axes[0]
    assert lines(accuracy)["guessing"][1] == [10, 10]
    assert lines(accuracy)["cnn"] == ([10, 100], [30, 90])


def test_bars_have_their_numbers_above_them() -> None:
    axes = FIGURES["grouped_bars"]().axes[0]
    assert [bar.get_height() for bar in axes.patches] == [1, 2, 3, 4]
    assert [text.get_text() for text in axes.texts] == ["1", "2", "3", "4"]


MANY = {f"curve {number}": [1.0, 2.0] for number in range(9)}
CURVES = {
    "score_spread": lambda: plots.score_spread([4, 16], MANY, MANY, keys=8),
    "learning_by_images": lambda: plots.learning_by_images([10, 100], MANY, chance=0.1),
    "depth_curves": lambda: plots.depth_curves(MANY, ylabel="y", title="t"),
    "activation_curves": lambda: plots.activation_curves([0, 1], MANY),
    "step_size_errors": lambda: plots.step_size_errors([1e-3, 1e-2], MANY),
    "weight_profiles": lambda: plots.weight_profiles({"panel": dict(enumerate(MANY.values()))}),
}


@pytest.mark.parametrize("name", CURVES)
def test_more_curves_than_markers_are_all_drawn(name: str) -> None:
    drawn = [line for line in CURVES[name]().axes[0].lines if list(line.get_ydata())[:2] in ([1, 2], [100, 200])]
    assert len(drawn) == 9


def test_every_path_through_a_word_tree_is_drawn_in_a_colour() -> None:
    words = list("abcd")
    axes = plots.word_tree({(): dict.fromkeys(words, 0.25)}, {f"path {word}": [word] for word in words}).axes[0]
    assert sum(line.get_color() != "#999999" for line in axes.lines) == 4


def test_a_word_that_looks_at_nothing_is_drawn_without_a_warning() -> None:
    axes = plots.word_attention(np.zeros((4, 4, 3)), ["cat"], np.zeros((1, 4)), (2, 2)).axes[0]
    assert axes.get_images()[-1].get_array()[..., 3].max() == 0
    assert axes.get_title() == "cat\n0.00"


REFUSED = {
    "no loss": (lambda: plots.loss_curve([]), "losses must be an array with 1 axes"),
    "a log of zero": (lambda: plots.loss_curve([1.0, 0.0], log=True), "losses must be positive, got 0; pass log=False"),
    "a row without a step": (lambda: plots.training_curves([1.0], [{"val_loss": 1.0}]), "a step in every row"),
    "a short curve": (lambda: plots.score_spread([1, 2], {"x": [1]}, {"x": [1, 2]}, keys=3), "2 numbers, got 1"),
    "a short bar": (lambda: plots.grouped_bars("ab", {"x": [1]}, ylabel="y", title="t"), "must be 2 numbers, got 1"),
    "no bars": (
        lambda: plots.grouped_bars("ab", {}, ylabel="y", title="t"),
        "the panels must be one or more, got none",
    ),
    "a short accuracy": (lambda: plots.learning_by_images([1, 2], {"x": [1]}, chance=0), "2 numbers, got 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_drawn_is_refused_with_the_reason(case: str) -> None:
    draw, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        draw()


def test_no_picture_of_the_course_is_without_a_test() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_plots*.py"))
    assert [name for name in plots.__all__ if not re.search(rf"\b{name}\(", tests)] == []
