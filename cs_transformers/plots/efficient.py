"""Pictures of notebook 10: a softmax in blocks, costs on log axes, windows of a grid, accuracy beside cost."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from cs_transformers.efficient import fit_exponent
from cs_transformers.errors import explain
from cs_transformers.plots.arrays import as_array, as_arrays, as_labels
from cs_transformers.plots.style import COLOURS, MARKERS, SEQUENTIAL

# Text stays readable on these.
SHADES = ["#BBD9EA", "#F7DDAE", "#B5E3D3", "#D9D9D9", "#DCEFFA", "#EBD0E0", "#FAF6C4", "#F2C4A8", "#C7CEEA"]


def softmax_in_blocks(scores: Any, size: int) -> Figure:
    """Draw how one query's softmax grows block by block: the maximum climbs, and old sums shrink with it.

    Args:
        scores: (S,) scores of one query.
        size: Keys of one block.

    Returns:
        The figure: the scores with the largest one so far, and what each block holds of the sum after every step.

    Raises:
        ValueError: If ``scores`` has not one axis, or ``size`` is below 1.
    """
    x = as_array("softmax_in_blocks", "scores", scores, 1)
    if size < 1:
        raise ValueError(explain("softmax_in_blocks", "size", "1 or more", size, "give the keys of one block"))
    blocks = [x[start : start + size] for start in range(0, len(x), size)]
    tops = np.maximum.accumulate([block.max() for block in blocks])
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.2), layout="constrained")
    for number, block in enumerate(blocks):
        places = np.arange(len(block)) + number * size
        left.bar(places, block, color=COLOURS[number % 7], edgecolor="white")
        left.plot([places[0] - 0.5, places[-1] + 0.5], [tops[number]] * 2, color="black", linewidth=2)
    left.axhline(0, color="black", linewidth=0.8)
    left.set(xlabel="key", ylabel="score", title="scores, and the largest one so far (black)")
    for step, top in enumerate(tops):
        base = 0.0
        for number, block in enumerate(blocks[: step + 1]):
            part = np.exp(block - top).sum()
            right.bar(step + 1, part, bottom=base, color=COLOURS[number % 7], edgecolor="white", width=0.7)
            base += part
        right.text(step + 1, base, f"m = {top:.1f}", ha="center", va="bottom", fontsize=9)
    right.set(xlabel="blocks read", ylabel="sum of $e^{score - m}$", title="a higher maximum shrinks all earlier parts")
    right.set_xticks(range(1, len(blocks) + 1))
    right.margins(y=0.12)
    return figure


def square_maps(maps: Mapping[str, Any]) -> Figure:
    """Draw who looks at whom, one small picture for each method: the brighter a place, the larger the weight.

    Args:
        maps: Title -> (T, S) weights, or a mask.

    Returns:
        The figure, all pictures in one scale of colours.

    Raises:
        ValueError: If there is no map, or one has not two axes.
    """
    arrays = as_arrays("square_maps", maps, 2)
    figure, panels = plt.subplots(1, len(arrays), figsize=(2.6 * len(arrays), 2.8), squeeze=False, layout="constrained")
    highest = max(array.max() for array in arrays.values())
    for axes, (title, array) in zip(panels[0], arrays.items(), strict=True):
        axes.imshow(array, cmap=SEQUENTIAL, vmin=0, vmax=highest)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("key")
    panels[0][0].set_ylabel("query")
    return figure


def cost_curves(lengths: Any, costs: Mapping[str, Any], *, ylabel: str, title: str) -> Figure:
    """Draw costs over length on log axes, where a power of the length is a straight line, with the line's exponent.

    Args:
        lengths: (n,) numbers of tokens.
        costs: Name -> up to n positive costs, those of the first lengths.
        ylabel: What the costs are.
        title: What to see.

    Returns:
        The figure; the legend names the exponent of the line of least squares through each curve.

    Raises:
        ValueError: If there is no curve, or one has fewer than two points or more than ``lengths``.
    """
    x = as_array("cost_curves", "lengths", lengths, 1)
    figure, axes = plt.subplots(figsize=(7.6, 4.2), layout="constrained")
    styles = itertools.cycle(zip(itertools.cycle(MARKERS), itertools.cycle(COLOURS), strict=False))
    for (marker, colour), (name, y) in zip(styles, as_arrays("cost_curves", costs, 1).items(), strict=False):
        if not 2 <= len(y) <= len(x):
            expected = f"two points or more, at most {len(x)}"
            raise ValueError(explain("cost_curves", repr(name), expected, len(y), "measure each length once"))
        at = x[: len(y)]
        power = fit_exponent(at.tolist(), y.tolist())
        line = np.exp(np.log(y).mean()) * (at / np.exp(np.log(at).mean())) ** power
        axes.plot(at, line, color=colour, linewidth=1)
        axes.plot(at, y, marker, color=colour, markersize=5, label=f"{name}: exponent {power:.2f}")
    axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel=ylabel, title=title)
    axes.set_xticks(x, [f"{length:g}" for length in x])
    axes.minorticks_off()
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    return figure


def window_grids(grids: Mapping[str, Any], windows: Mapping[str, Any]) -> Figure:
    """Draw grids of numbered tokens, coloured by the window that each is in.

    Args:
        grids: Title -> (rows, columns) numbers of the tokens.
        windows: Title -> (rows, columns) number of each token's window, for the same titles.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no grid, or the windows of one are missing or of another shape.
    """
    numbers, colours = as_arrays("window_grids", grids, 2), as_arrays("window_grids", windows, 2)
    figure, panels = plt.subplots(1, len(numbers), figsize=(3.2 * len(numbers), 3.2), squeeze=False)
    for axes, (title, grid) in zip(panels[0], numbers.items(), strict=True):
        window = colours.get(title)
        if window is None or window.shape != grid.shape:
            got = "none" if window is None else window.shape
            fix = "give the window of each token"
            raise ValueError(explain("window_grids", f"the windows of {title!r}", f"of shape {grid.shape}", got, fix))
        order = {value: place for place, value in enumerate(dict.fromkeys(window.ravel().tolist()))}
        shade = np.vectorize(order.get)(window) % len(SHADES)
        axes.imshow(shade, cmap=ListedColormap(SHADES), vmin=-0.5, vmax=len(SHADES) - 0.5)
        for (row, column), value in np.ndenumerate(grid):
            axes.text(column, row, f"{value:g}", ha="center", va="center", fontsize=9)
        axes.set_title(title, fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xticks(np.arange(0.5, grid.shape[1] - 1), minor=True)
        axes.set_yticks(np.arange(0.5, grid.shape[0] - 1), minor=True)
        axes.grid(which="minor", color="white", linewidth=1.5)
        axes.tick_params(which="both", length=0)
        axes.spines[:].set_visible(False)
    return figure


def error_curves(budgets: Any, errors: Mapping[str, Mapping[str, Any]], *, xlabel: str) -> Figure:
    """Draw how far approximations are from exact attention, over what they may spend, side by side for several inputs.

    Args:
        budgets: (n,) what a method may spend on each query.
        errors: Title of a panel -> name of a method -> (n,) relative differences.
        xlabel: What is spent.

    Returns:
        The figure, all panels in one scale.

    Raises:
        ValueError: If there is no panel, or a curve has another length than ``budgets``.
    """
    x = as_array("error_curves", "budgets", budgets, 1)
    if not errors:
        fix = "pass {title: {method: errors}}"
        raise ValueError(explain("error_curves", "the panels", "one or more", "none", fix))
    size = (4.6 * len(errors), 3.4)
    figure, panels = plt.subplots(1, len(errors), figsize=size, squeeze=False, sharey=True, layout="constrained")
    for axes, (title, curves) in zip(panels[0], errors.items(), strict=True):
        named = as_arrays("error_curves", curves, 1)
        for marker, (name, y) in zip(itertools.cycle(MARKERS), named.items(), strict=False):
            if y.shape != x.shape:
                fix = "give one error per budget"
                raise ValueError(explain("error_curves", repr(name), f"{len(x)} numbers", len(y), fix))
            axes.plot(x, y, marker=marker, label=name)
        axes.set(xscale="log", yscale="log", xlabel=xlabel, title=title)
        axes.axhline(1, color="#999999", linewidth=0.8, linestyle=":")  # as far as zero is
        axes.set_xticks(x, [f"{budget:g}" for budget in x])
        axes.minorticks_off()
    panels[0][0].set_ylabel("distance from exact attention")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def accuracy_and_cost(
    names: Sequence[str], accuracies: Any, costs: Any, *, xlabel: str, title: str, spreads: Any = None
) -> Figure:
    """Draw one point for each method: how good it is and what it costs.

    Args:
        names: Methods.
        accuracies: (n,) accuracies from 0 to 1.
        costs: (n,) positive costs.
        xlabel: What the costs are.
        title: What to see.
        spreads: (n, 2) least and largest accuracy of each, or None.

    Returns:
        The figure.

    Raises:
        ValueError: If the numbers of names, accuracies and costs differ.
    """
    y = as_array("accuracy_and_cost", "accuracies", accuracies, 1)
    x = as_array("accuracy_and_cost", "costs", costs, 1)
    labels = as_labels("accuracy_and_cost", "names", names, len(y)) or []
    if x.shape != y.shape:
        fix = "give one cost per accuracy"
        raise ValueError(explain("accuracy_and_cost", "costs", f"{len(y)} numbers", len(x), fix))
    figure, axes = plt.subplots(figsize=(7.6, 4), layout="constrained")
    if spreads is not None:
        low, high = as_array("accuracy_and_cost", "spreads", spreads, 2).T
        axes.vlines(x, 100 * low, 100 * high, color="#999999", linewidth=1.5)
    styles = zip(itertools.cycle(MARKERS), itertools.cycle(COLOURS), strict=False)
    for number, ((marker, colour), name, across, up) in enumerate(zip(styles, labels, x, y, strict=False)):
        size = 9 if number else 13  # a second point at the same place leaves the first one visible
        axes.plot(across, 100 * up, marker, color=colour, markersize=size, label=name)
    axes.set(xlabel=xlabel, ylabel="test accuracy (%)", title=title)
    axes.margins(x=0.1, y=0.12)
    figure.legend(loc="outside right upper", frameon=False)
    return figure
