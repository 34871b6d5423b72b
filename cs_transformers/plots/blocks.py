"""Pictures of notebook 03: block diagrams, what depends on what, signals and gradients through a deep stack."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import MaxNLocator

from cs_transformers.errors import explain
from cs_transformers.plots.arrays import as_array, as_arrays
from cs_transformers.plots.style import COLOURS, MARKERS, SEQUENTIAL

FORK, JOIN = "fork", "join"  # where the residual leaves the stream, and where it is added again
DIAGRAMS = {
    "encoder, post-norm": [FORK, "self-attention", JOIN, "LayerNorm", FORK, "feed-forward", JOIN, "LayerNorm"],
    "encoder, pre-norm": [FORK, "LayerNorm", "self-attention", JOIN, FORK, "LayerNorm", "feed-forward", JOIN],
    "decoder, post-norm": [
        *(FORK, "masked self-attention", JOIN, "LayerNorm"),
        *(FORK, "cross-attention", JOIN, "LayerNorm"),
        *(FORK, "feed-forward", JOIN, "LayerNorm"),
    ],
}
BOX_COLOURS = {"attention": COLOURS[4], "feed-forward": COLOURS[1], "LayerNorm": COLOURS[6]}


def block_diagrams(*names: str) -> Figure:
    """Draw layers as boxes, read from the bottom up; the line beside them is the residual.

    Args:
        names: Keys of ``DIAGRAMS``, drawn side by side.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no name, or an unknown one.
    """
    unknown = [name for name in names if name not in DIAGRAMS]
    if unknown or not names:
        fix = "name at least one"
        raise ValueError(explain("block_diagrams", "names", f"out of {sorted(DIAGRAMS)}", list(names), fix))
    tallest = max(len(DIAGRAMS[name]) for name in names)
    figure, panels = plt.subplots(
        1, len(names), figsize=(3.6 * len(names), 0.75 + 0.5 * tallest), squeeze=False, layout="constrained"
    )
    for axes, name in zip(panels[0], names, strict=True):
        _draw_layer(axes, DIAGRAMS[name])
        axes.set(title=name, xlim=(-2.1, 2.9), ylim=(-0.9, tallest + 0.5), aspect="equal")
        axes.axis("off")
    return figure


def _draw_layer(axes: Axes, steps: list[str]) -> None:
    below, left = -0.4, 0.0
    axes.text(0, -0.5, "input", ha="center", va="top")
    for height, step in enumerate(steps):
        if step == FORK:
            left = height + 0.1
            axes.plot(0, left, "o", color="black", markersize=4, zorder=3)
            continue
        joins = step == JOIN
        axes.annotate("", (0, height - 0.3 if not joins else height - 0.2), (0, below), arrowprops={"arrowstyle": "->"})
        if joins:
            axes.plot(0, height, "o", color="white", markeredgecolor="black", markersize=13, zorder=3)
            axes.text(0, height, "+", ha="center", va="center", zorder=4)
            axes.plot([0, -1.75, -1.75], [left, left, height], color=COLOURS[3], linewidth=1.6, zorder=0)
            axes.annotate(
                "", (-0.22, height), (-1.75, height), arrowprops={"arrowstyle": "->", "color": COLOURS[3], "lw": 1.6}
            )
        else:
            _draw_box(axes, step, height)
        below = height + (0.2 if joins else 0.3)
    axes.annotate("", (0, len(steps) + 0.05), (0, below), arrowprops={"arrowstyle": "->"})
    axes.text(0, len(steps) + 0.08, "output", ha="center", va="bottom")


def _draw_box(axes: Axes, name: str, height: float) -> None:
    colour = next(colour for word, colour in BOX_COLOURS.items() if word in name)
    axes.add_patch(
        FancyBboxPatch((-1.4, height - 0.25), 2.8, 0.5, boxstyle="round,pad=0.05", facecolor=colour, alpha=0.6)
    )
    axes.text(0, height, name, ha="center", va="center", fontsize=9)
    if name == "cross-attention":
        axes.annotate("", (1.45, height), (2.1, height), arrowprops={"arrowstyle": "->"})
        axes.text(2.12, height, "memory", va="center", fontsize=9)


def influence_maps(
    grids: Mapping[str, Any], *, ylabel: str = "output token", xlabel: str = "input token", label: str = "influence"
) -> Figure:
    """Draw how much each output depends on each input, or any other non-negative grid; zeros are white.

    Args:
        grids: Title -> (rows, columns) non-negative values; each panel has a scale of its own.
        ylabel: Name of the rows.
        xlabel: Name of the columns.
        label: Name of the colours.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no grid, one has not two axes, or a value is negative.
    """
    arrays = as_arrays("influence_maps", grids, 2)
    for title, array in arrays.items():
        if (array < 0).any():
            got, fix = f"{array.min():.3g}", "take absolute values"
            raise ValueError(explain("influence_maps", repr(title), "at least 0 everywhere", got, fix))
    figure, panels = plt.subplots(
        1, len(arrays), figsize=(3.0 * len(arrays) + 0.6, 3.0), squeeze=False, layout="constrained"
    )
    palette = plt.get_cmap(SEQUENTIAL).with_extremes(bad="white")
    for axes, (title, array) in zip(panels[0], arrays.items(), strict=True):
        axes.imshow(np.ma.masked_equal(array, 0.0), vmin=0, vmax=array.max() or 1.0, cmap=palette)
        axes.set(title=title, xlabel=xlabel)
        axes.set_xticks(range(array.shape[1]))
        axes.set_yticks(range(array.shape[0]))
        for side in axes.spines.values():
            side.set_visible(True)
    panels[0][0].set_ylabel(ylabel)
    scale = plt.cm.ScalarMappable(plt.Normalize(0, 1), cmap=palette)
    figure.colorbar(scale, ax=panels[0].tolist(), label=f"{label} (white: none)", shrink=0.9)
    return figure


def depth_curves(curves: Mapping[str, Any], *, ylabel: str, title: str, first: int = 1, log: bool = True) -> Figure:
    """Draw a quantity layer by layer through a stack.

    Args:
        curves: Name -> (L,) values, one per layer.
        ylabel: What the values are.
        title: What to see.
        first: Number of the first layer on the axis (0 where the input counts).
        log: Whether the scale is logarithmic; all values are positive then.

    Returns:
        The figure.

    Raises:
        ValueError: If a curve has not one axis, or is not positive on a logarithmic scale.
    """
    arrays = as_arrays("depth_curves", curves, 1)
    for name, values in arrays.items():
        if log and not (values > 0).all():
            got, fix = f"{values.min():.3g}", "pass log=False"
            raise ValueError(explain("depth_curves", repr(name), "positive everywhere", got, fix))
    figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
    for style, (name, values) in zip(itertools.cycle(MARKERS), arrays.items(), strict=False):
        axes.plot(range(first, first + len(values)), values, marker=style, markersize=4, label=name)
    if log:
        axes.set_yscale("log")
    elif min(values.min() for values in arrays.values()) >= 0:
        axes.set_ylim(bottom=0)
    axes.set(title=title, xlabel="layer (the last is nearest to the loss)", ylabel=ylabel)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside right center", frameon=False)  # curves may run anywhere
    return figure


def activation_curves(inputs: Any, curves: Mapping[str, Any]) -> Figure:
    """Draw activation functions over one axis.

    Args:
        inputs: (n,) inputs.
        curves: Name -> (n,) outputs.

    Returns:
        The figure.

    Raises:
        ValueError: If a curve has another length than ``inputs``.
    """
    x = as_array("activation_curves", "inputs", inputs, 1)
    figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
    styles = itertools.cycle(["-", "--", "-."])
    for style, (name, y) in zip(styles, as_arrays("activation_curves", curves, 1).items(), strict=False):
        if y.shape != x.shape:
            expected = f"{len(x)} numbers"
            raise ValueError(explain("activation_curves", repr(name), expected, len(y), "give one output per input"))
        axes.plot(x, y, style, linewidth=2, label=name)
    axes.axhline(0, color="#BBBBBB", linewidth=0.8, zorder=0)
    axes.axvline(0, color="#BBBBBB", linewidth=0.8, zorder=0)
    axes.set(title="what the feed-forward network bends with", xlabel="input", ylabel="output")
    axes.legend(frameon=False)
    return figure
