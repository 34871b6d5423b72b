"""Pictures of notebook 02: sinusoids, their dot products, rotations, positions on a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cs_transformers.errors import explain
from cs_transformers.plots.arrays import as_array, as_arrays, as_labels
from cs_transformers.plots.style import COLOURS, DIVERGING, SEQUENTIAL


def position_table(table: Any, *, title: str = "one row per position") -> Figure:
    """Draw a table of position vectors and the dot product of each two of its rows.

    Args:
        table: (P, D) one vector per position.
        title: Title of the left panel.

    Returns:
        The figure: the table to the left, the (P, P) dot products divided by D to the right.

    Raises:
        ValueError: If ``table`` has not two axes.
    """
    values = as_array("position_table", "table", table, 2)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9), width_ratios=[1.5, 1], layout="constrained")
    limit = np.abs(values).max() or 1.0
    image = left.imshow(values, cmap=DIVERGING, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    left.set(title=title, xlabel="channel", ylabel="position")
    figure.colorbar(image, ax=left, label="value")
    products = values @ values.T / values.shape[1]
    image = right.imshow(products, cmap=SEQUENTIAL, interpolation="nearest")
    right.set(title="how alike two positions are", xlabel="position", ylabel="position")
    figure.colorbar(image, ax=right, label="dot product / D")
    return figure


def sinusoid_columns(table: Any, columns: Sequence[int]) -> Figure:
    """Draw single channels of a sinusoid table, and the wavelength of every pair of channels.

    Args:
        table: (P, D) sinusoid table.
        columns: The channels to draw.

    Returns:
        The figure: waves to the left, wavelengths on a logarithmic scale to the right.

    Raises:
        ValueError: If ``table`` has not two axes, or a channel lies outside it.
    """
    values = as_array("sinusoid_columns", "table", table, 2)
    positions, width = values.shape
    if not columns or min(columns) < 0 or max(columns) >= width:
        expected, fix = f"channels from 0 to {width - 1}", "choose at least one"
        raise ValueError(explain("sinusoid_columns", "columns", expected, list(columns), fix))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), width_ratios=[1.6, 1], layout="constrained")
    for column, style in zip(columns, ["-", "--", "-.", ":"] * len(columns), strict=False):
        left.plot(values[:, column], style, label=f"channel {column}")
    left.set(title="each channel is a wave over the positions", xlabel="position", ylabel="value")
    left.set_xlim(-0.02 * positions, 1.28 * positions)  # room for the legend beside the waves
    left.legend(loc="center right", frameon=False)
    pairs = np.arange(0, width, 2)
    right.semilogy(pairs, 2 * np.pi * 10000.0 ** (pairs / width), "o", markersize=3)
    right.axhline(positions, color=COLOURS[3], linewidth=1)
    right.text(width, positions / 1.2, f"the table's {positions} positions", color=COLOURS[3], ha="right", va="top")
    right.set(title="wavelength of a pair", xlabel="channel 2k", ylabel="positions per turn")
    return figure


def distance_curves(curves: Mapping[str, tuple[Any, Any]], *, ylabel: str, title: str) -> Figure:
    """Draw a quantity against the distance of two positions, one curve per place it was measured at.

    Args:
        curves: Name -> (distances, values), two arrays of one length.
        ylabel: What the values are.
        title: What to see.

    Returns:
        The figure: where only the distance matters, the curves lie on each other.

    Raises:
        ValueError: If a curve's arrays differ in length.
    """
    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    styles = [("-", 5), ("--", 3), (":", 2), ("-.", 1)]  # thick below thin, so that equal curves all show
    for number, (name, (distances, values)) in enumerate(curves.items()):
        x = as_array("distance_curves", f"the distances of {name!r}", distances, 1)
        y = as_array("distance_curves", f"the values of {name!r}", values, 1)
        if x.shape != y.shape:
            expected, fix = f"{len(x)} numbers", "give one value per distance"
            raise ValueError(explain("distance_curves", repr(name), expected, len(y), fix))
        style, width = styles[number % len(styles)]
        axes.plot(x, y, style, linewidth=width, label=name)
    axes.set(title=title, xlabel="distance: query position minus key position", ylabel=ylabel)
    axes.legend(frameon=False, loc="upper right")
    return figure


def rotated_pairs(pairs: Mapping[str, Any]) -> Figure:
    """Draw one pair of channels as an arrow in the plane, at one position after the other.

    Args:
        pairs: Title -> (P, 2) the pair at positions 0 .. P-1.

    Returns:
        The figure: the arrow turns with the position and keeps its length.

    Raises:
        ValueError: If there is no pair, or one is not (P, 2).
    """
    arrays = as_arrays("rotated_pairs", pairs, 2)
    for title, values in arrays.items():
        if values.shape[1] != 2:
            fix = "choose two channels"
            raise ValueError(explain("rotated_pairs", repr(title), "of shape (P, 2)", values.shape, fix))
    figure, panels = plt.subplots(
        1, len(pairs), figsize=(2.8 * len(pairs) + 0.9, 3.2), squeeze=False, layout="constrained"
    )
    for axes, (title, values) in zip(panels[0], arrays.items(), strict=True):
        _draw_arrows(axes, values)
        axes.set(title=title, xlabel="first of the pair")
    panels[0][0].set_ylabel("second of the pair")
    scale = plt.cm.ScalarMappable(plt.Normalize(0, max(1, len(values) - 1)), cmap=SEQUENTIAL)
    figure.colorbar(scale, ax=panels[0].tolist(), label="position")
    return figure


def _draw_arrows(axes: Axes, values: np.ndarray) -> None:
    radius = np.linalg.norm(values, axis=1).max() or 1.0
    axes.add_patch(plt.Circle((0, 0), radius, fill=False, color="#BBBBBB", linestyle=":"))
    for colour, (x, y) in zip(plt.get_cmap(SEQUENTIAL)(np.linspace(0, 1, len(values))), values, strict=True):
        axes.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0})
    axes.set(xlim=(-1.25 * radius, 1.25 * radius), ylim=(-1.25 * radius, 1.25 * radius), aspect="equal")
    axes.axhline(0, color="#DDDDDD", zorder=0)
    axes.axvline(0, color="#DDDDDD", zorder=0)


def score_grids(
    grids: Mapping[str, Any],
    tokens: Sequence[str] | None = None,
    *,
    label: str = "score",
    limit: float | None = None,
) -> Figure:
    """Draw signed (T, S) grids side by side in one scale: scores or similarities of all pairs of positions.

    Args:
        grids: Title -> (T, S) values.
        tokens: Labels of rows and columns; every grid is then square with that many rows.
        label: Name of the colours.
        limit: Largest magnitude of the colours; left out, the largest of the values.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no grid, one has not two axes, or the labels do not fit.
    """
    arrays = as_arrays("score_grids", grids, 2)
    for count in {size for array in arrays.values() for size in array.shape}:
        labels = as_labels("score_grids", "tokens", tokens, count)
    largest = limit or max(np.abs(array).max() for array in arrays.values()) or 1.0
    figure, panels = plt.subplots(
        1, len(arrays), figsize=(3.6 * len(arrays) + 0.8, 3.6), squeeze=False, layout="constrained"
    )
    for number, (axes, (title, array)) in enumerate(zip(panels[0], arrays.items(), strict=True)):
        image = axes.imshow(array, cmap=DIVERGING, vmin=-largest, vmax=largest, interpolation="nearest")
        unit = "position" if tokens is None else "token"
        axes.set(title=title, xlabel=f"key {unit}", ylabel=f"query {unit}" if number == 0 else "")
        if labels is None:
            continue
        axes.set_xticks(range(len(labels)), labels, rotation=60, ha="right")
        axes.set_yticks(range(len(labels)), labels if number == 0 else [""] * len(labels))
        axes.tick_params(length=0)
    figure.colorbar(image, ax=panels[0].tolist(), label=label, shrink=0.85)
    return figure


def grid_positions(encoding: Any, channels: Sequence[int], cell: tuple[int, int]) -> Figure:
    """Draw positions of a two-dimensional grid: some channels as pictures, then how alike one cell is to all others.

    Args:
        encoding: (h, w, D) one vector per cell.
        channels: The channels to draw.
        cell: (row, column) of the cell that is compared with all.

    Returns:
        The figure.

    Raises:
        ValueError: If ``encoding`` has not three axes, or a channel or the cell lies outside it.
    """
    values = as_array("grid_positions", "encoding", encoding, 3)
    height, width, depth = values.shape
    row, column = cell
    if not channels or min(channels) < 0 or max(channels) >= depth:
        expected, fix = f"channels from 0 to {depth - 1}", "choose at least one"
        raise ValueError(explain("grid_positions", "channels", expected, list(channels), fix))
    if not (0 <= row < height and 0 <= column < width):
        expected, fix = f"a (row, column) within {height} rows and {width} columns", "count both from 0"
        raise ValueError(explain("grid_positions", "cell", expected, cell, fix))
    count = len(channels) + 1
    figure, panels = plt.subplots(1, count, figsize=(2.3 * count + 0.6, 2.6), squeeze=False, layout="constrained")
    for axes, channel in zip(panels[0], channels, strict=False):
        axes.imshow(values[:, :, channel], cmap=DIVERGING, vmin=-1, vmax=1, interpolation="nearest")
        axes.set(title=f"channel {channel}", xlabel="column")
    panels[0][0].set_ylabel("row")
    unit = values / np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), 1e-12)
    image = panels[0][-1].imshow(unit @ unit[row, column], cmap=SEQUENTIAL, interpolation="nearest")
    panels[0][-1].plot(column, row, marker="s", color=COLOURS[3], fillstyle="none", markersize=9)
    panels[0][-1].set(title=f"cosine with cell ({row}, {column})", xlabel="column")
    figure.colorbar(image, ax=panels[0][-1], label="cosine")
    return figure
