"""Pictures of notebook 09: damaged and restored images, what is left of the error, places that were copied from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch, Rectangle

from cs_transformers.errors import explain
from cs_transformers.plots.arrays import as_array, as_arrays
from cs_transformers.plots.style import COLOURS, DIVERGING, SEQUENTIAL


def restoration_grid(rows: Mapping[str, Sequence[Any]], *, limit: float = 0.3) -> Figure:
    """Draw images before and after restoration, with maps of what is wrong in both.

    Args:
        rows: Title -> (given, restored, true) images (3, H, W) of one size with numbers around [0, 1].
        limit: Error at which the maps are brightest, the mean of the absolute differences of the three channels.

    Returns:
        The figure: a row per title; given, restored and true image, then the errors before and after.

    Raises:
        ValueError: If there is no row, or the images of a row do not belong together.
    """
    if not rows:
        raise ValueError(explain("restoration_grid", "rows", "one or more", "none", "pass {title: three images}"))
    heads = ("given", "restored", "true", "error before", "error after")
    size = (1.75 * len(heads) + 0.9, 1.75 * len(rows) + 0.3)
    figure, panels = plt.subplots(len(rows), len(heads), figsize=size, squeeze=False, layout="constrained")
    for number, (title, images) in enumerate(rows.items()):
        given, restored, true = _three("restoration_grid", title, images)
        errors = [np.abs(one.clip(0, 1) - true).mean(axis=-1) for one in (given, restored)]
        for axes, picture in zip(panels[number], (given, restored, true, *errors), strict=True):
            if picture.ndim == 3:
                axes.imshow(picture.clip(0, 1))
            else:
                drawn = axes.imshow(picture, cmap=SEQUENTIAL, vmin=0, vmax=limit)
            axes.set(xticks=[], yticks=[])
        panels[number][0].set_ylabel(title)
    for axes, head in zip(panels[0], heads, strict=True):
        axes.set_title(head, fontsize=10)
    figure.colorbar(drawn, ax=panels[:, -1].tolist(), label="error", ticks=[0, limit], shrink=0.8)
    return figure


def signed_maps(maps: Mapping[str, Any], *, label: str, columns: int = 4) -> Figure:
    """Draw maps of numbers around zero on one scale, white at zero.

    Args:
        maps: Title -> (H, W) numbers.
        label: What the numbers are.
        columns: Maps in one row.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no map, or one has not two axes.
    """
    arrays = as_arrays("signed_maps", maps, 2)
    columns = min(columns, len(arrays))
    rows = -(-len(arrays) // columns)
    largest = max(float(np.abs(one).max()) for one in arrays.values()) or 1.0
    figure, panels = plt.subplots(
        rows, columns, figsize=(2.3 * columns + 0.9, 2.4 * rows), squeeze=False, layout="constrained"
    )
    for axes in panels.flat:
        axes.axis("off")
    for axes, (title, values) in zip(panels.flat, arrays.items(), strict=False):
        drawn = axes.imshow(values, cmap=DIVERGING, vmin=-largest, vmax=largest)
        axes.set_title(title, fontsize=9)
    figure.colorbar(drawn, ax=panels.ravel().tolist(), label=label, shrink=0.8)
    return figure


def overlap_counts(counts: Mapping[str, Any]) -> Figure:
    """Draw how often each pixel is covered, as numbers on a grid.

    Args:
        counts: Title -> (H, W) whole numbers.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no grid, or one has not two axes.
    """
    arrays = as_arrays("overlap_counts", counts, 2)
    figure, panels = plt.subplots(1, len(arrays), figsize=(2.9 * len(arrays), 3.0), squeeze=False, layout="constrained")
    for axes, (title, values) in zip(panels[0], arrays.items(), strict=True):
        axes.imshow(values, cmap=SEQUENTIAL, vmin=0, vmax=9)
        for (row, column), value in np.ndenumerate(values):
            axes.text(column, row, f"{value:g}", ha="center", va="center", color="black" if value > 5 else "white")
        axes.set(title=title, xticks=[], yticks=[])
    return figure


def reference_arrows(
    image: Any, reference: Any, index: Any, grid: tuple[int, int], places: Sequence[tuple[int, int]]
) -> Figure:
    """Draw from where in the reference some places of an image are copied.

    Args:
        image: (3, H, W) image with numbers around [0, 1].
        reference: (3, Hr, Wr) reference.
        index: (P,) for every place of the image the place of the reference, both row by row.
        grid: Rows and columns of places of the reference.
        places: (row, column) of the places to draw; the image has as many places per pixel as the reference.

    Returns:
        The figure: the image to the left, the reference to the right, an arrow from each place to its source.

    Raises:
        ValueError: If the shapes do not belong together, or a place lies outside.
    """
    who = "reference_arrows"
    left = as_array(who, "image", image, 3).transpose(1, 2, 0).clip(0, 1)
    right = as_array(who, "reference", reference, 3).transpose(1, 2, 0).clip(0, 1)
    chosen = as_array(who, "index", index, 1).astype(int)
    step = right.shape[0] // grid[0]
    rows, columns = left.shape[0] // step, left.shape[1] // step
    if len(chosen) != rows * columns or right.shape[1] != step * grid[1] or chosen.max() >= grid[0] * grid[1]:
        expected = f"{rows * columns} places of a grid of {grid[0]} by {grid[1]}"
        got = f"{len(chosen)} up to {chosen.max()}"
        raise ValueError(explain(who, "index", expected, got, "pass what the search in this reference found"))
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 4), layout="constrained")
    for axes, picture, title in zip(panels, (left, right), ("the image", "the reference"), strict=True):
        axes.imshow(picture, extent=(0, picture.shape[1] / step, picture.shape[0] / step, 0))
        axes.set(title=title, xticks=[], yticks=[])
    for number, (row, column) in enumerate(places):
        if not (0 <= row < rows and 0 <= column < columns):
            got, fix = (row, column), "count rows and columns from 0"
            raise ValueError(explain(who, "a place", f"inside {rows} rows and {columns} columns", got, fix))
        source = divmod(int(chosen[row * columns + column]), grid[1])
        colour = COLOURS[number % len(COLOURS)]
        for axes, (y, x) in zip(panels, ((row, column), source), strict=True):
            axes.add_patch(Rectangle((x, y), 1, 1, fill=False, edgecolor="white", linewidth=4))
            axes.add_patch(Rectangle((x, y), 1, 1, fill=False, edgecolor=colour, linewidth=2))
        start, end = (column + 0.5, row + 0.5), (source[1] + 0.5, source[0] + 0.5)
        for width, shade, style in ((4, "white", "-"), (1.6, colour, "-|>")):  # a rim, to be seen on any picture
            arrow = ConnectionPatch(
                start, end, "data", "data", axesA=panels[0], axesB=panels[1], arrowstyle=style,
                color=shade, linewidth=width, mutation_scale=14,
            )  # fmt: skip
            figure.add_artist(arrow)
    return figure


def _three(who: str, title: str, images: Sequence[Any]) -> list[np.ndarray]:
    """Return three images as (H, W, 3)."""
    arrays = [as_array(who, repr(title), image, 3) for image in images]
    shapes = {array.shape for array in arrays}
    if len(arrays) != 3 or len(shapes) != 1 or arrays[0].shape[0] != 3:
        got = ", ".join(str(array.shape) for array in arrays)
        fix = "enlarge the given image to the size of the true one"
        raise ValueError(explain(who, repr(title), "three images (3, H, W) of one size", got, fix))
    return [array.transpose(1, 2, 0) for array in arrays]
