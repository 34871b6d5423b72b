"""Pictures of notebook 05: images cut into patches, positions on their grid, attention over them, right and wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from cs_transformers.errors import check_count, explain
from cs_transformers.plots.arrays import as_array, as_arrays, as_labels
from cs_transformers.plots.style import COLOURS, DIVERGING, SEQUENTIAL

STRIP = 8  # patches in one line of the sentence
CHANNELS = {"red": COLOURS[3], "green": COLOURS[2], "blue": COLOURS[0]}
LOOK = LinearSegmentedColormap.from_list("look", ["#222222", COLOURS[1]])  # seen on grey pictures
ON_PICTURE = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}


def image_grid(images: Any, titles: Sequence[str] | None = None, *, columns: int = 8) -> Figure:
    """Draw images in rows, each with a line or two of text above it.

    Args:
        images: (M, 3, H, W) bytes, or numbers from 0 to 1.
        titles: One text per image, or None for none.
        columns: Images in one row.

    Returns:
        The figure.

    Raises:
        ValueError: If ``images`` are none, or there are more or fewer titles.
    """
    pictures = _as_pictures("image_grid", images)
    labels = as_labels("image_grid", "titles", titles, len(pictures)) or [""] * len(pictures)
    check_count("image_grid", "columns", columns)
    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    lines = 1 + max(label.count("\n") for label in labels)
    size = (1.5 * columns, (1.4 + 0.2 * lines) * rows)
    figure, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axes in panels.flat:
        axes.axis("off")
    for axes, picture, label in zip(panels.flat, pictures, labels, strict=False):
        axes.imshow(picture)
        axes.set_title(label, fontsize=9)
    return figure


def patch_cut(image: Any, patch_size: tuple[int, int]) -> Figure:
    """Draw an image with its patches numbered, and the same patches as a sentence.

    Args:
        image: (3, H, W) bytes, or numbers from 0 to 1.
        patch_size: (height, width) of a patch in pixels.

    Returns:
        The figure: the grid to the left, the patches in their order to the right.

    Raises:
        ValueError: If the image is not a whole number of patches.
    """
    patches, columns = _cut("patch_cut", image, patch_size)
    height, width = patches.shape[1:3]
    rows, count = len(patches) // columns, len(patches)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 2.9), width_ratios=[1, 2.4], layout="constrained")
    left.imshow(_as_pictures("patch_cut", image[None])[0], extent=(0, columns, rows, 0), aspect=height / width)
    left.vlines(range(1, columns), 0, rows, color="white")
    left.hlines(range(1, rows), 0, columns, color="white")
    lines = -(-count // STRIP)
    for number, patch in enumerate(patches):
        row, column = divmod(number, columns)
        left.text(column + 0.5, row + 0.5, number, ha="center", va="center", fontsize=8, bbox=ON_PICTURE)
        line, place = divmod(number, STRIP)
        tall = 0.9 * height / width
        below = line * (tall + 0.5)
        right.imshow(patch, extent=(place, place + 0.9, below + tall, below))
        right.text(place + 0.45, below + tall + 0.06, number, ha="center", va="top", fontsize=8)
    left.set(title=f"{rows} rows of {columns} patches", xticks=[], yticks=[])
    right.set(title=f"the same image as a sentence of {count} tokens", xlim=(-0.1, min(STRIP, count)), aspect="equal")
    right.set_ylim(lines * (0.9 * height / width + 0.5), -0.1)
    right.axis("off")
    return figure


def patch_vector(image: Any, patch_size: tuple[int, int], number: int) -> Figure:
    """Draw one patch, its three channels, and the vector that it becomes: red first, then green, then blue.

    Args:
        image: (3, H, W) bytes, or numbers from 0 to 1.
        patch_size: (height, width) of a patch in pixels.
        number: Which patch, counted row by row.

    Returns:
        The figure.

    Raises:
        ValueError: If the image is not a whole number of patches, or has no such patch.
    """
    patches, _ = _cut("patch_vector", image, patch_size)
    if not 0 <= number < len(patches):
        fix = "count row by row from 0"
        raise ValueError(explain("patch_vector", "number", f"from 0 to {len(patches) - 1}", number, fix))
    patch = patches[number]  # (height, width, 3)
    size = patch.shape[0] * patch.shape[1]
    figure, panels = plt.subplot_mosaic("pabc\nvvvv", figsize=(8, 3.9), height_ratios=[1.2, 1], layout="constrained")
    panels["p"].imshow(patch)
    panels["p"].set(title=f"patch {number}", xticks=[], yticks=[])
    for place, (key, (name, colour)) in enumerate(zip("abc", CHANNELS.items(), strict=True)):
        panels[key].imshow(patch[:, :, place], cmap="gray", vmin=0, vmax=1)
        panels[key].set(xticks=[], yticks=[])
        panels[key].set_title(name, color=colour)
        values = patch[:, :, place].ravel()
        panels["v"].bar(place * size + np.arange(size), values, width=1.0, color=colour, label=name)
    edges = range(0, 3 * size + 1, size)
    panels["v"].set(title=f"flattened: {3 * size} numbers", xlabel="entry", ylabel="brightness", xticks=edges)
    panels["v"].set(xlim=(-0.5, 3 * size - 0.5), ylim=(0, 1.05))
    return figure


def position_similarity(tables: Mapping[str, Any], grid: tuple[int, int]) -> Figure:
    """Draw how alike the positions of a grid of patches are: for every patch a small map of all others.

    The cosine is taken of what is left without the mean of all positions, which says nothing about any of them.

    Args:
        tables: Title -> (P, D), one vector per patch, row by row.
        grid: Rows and columns of patches.

    Returns:
        The figure: one panel per table; the small map at row r and column c is that of the patch there.

    Raises:
        ValueError: If there is no table, or one has not a row for every patch.
    """
    rows, columns = grid
    arrays = as_arrays("position_similarity", tables, 2)
    for title, table in arrays.items():
        if len(table) != rows * columns:
            expected, fix = f"{rows * columns} rows for a grid of {rows} by {columns}", "leave out the class token"
            raise ValueError(explain("position_similarity", repr(title), expected, len(table), fix))
    figure, panels = plt.subplots(
        1, len(arrays), figsize=(3.6 * len(arrays) + 0.8, 3.9), squeeze=False, layout="constrained"
    )
    for axes, (title, table) in zip(panels[0], arrays.items(), strict=True):
        centred = table - table.mean(axis=0)
        unit = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
        maps = np.full((rows, rows + 1, columns, columns + 1), np.nan)  # one white line around each map
        maps[:, :rows, :, :columns] = (unit @ unit.T).reshape(rows, columns, rows, columns).transpose(0, 2, 1, 3)
        picture = maps.reshape(rows * (rows + 1), columns * (columns + 1))[:-1, :-1]
        image = axes.imshow(picture, cmap=DIVERGING, vmin=-1, vmax=1, interpolation="nearest")
        axes.set(title=title, xlabel="column of the patch")
        axes.set_xticks(np.arange(columns) * (columns + 1) + columns / 2 - 0.5, range(columns))
        axes.set_yticks(np.arange(rows) * (rows + 1) + rows / 2 - 0.5, range(rows))
        axes.tick_params(length=0)
    panels[0][0].set_ylabel("row of the patch")
    figure.colorbar(image, ax=panels[0].tolist(), label="cosine", shrink=0.85)
    return figure


def patch_attention(images: Any, weights: Any, titles: Sequence[str] | None = None) -> Figure:
    """Draw where each head looks, over the image it looks at.

    Args:
        images: (M, 3, H, W) bytes, or numbers from 0 to 1.
        weights: (M, heads, rows, columns) attention weights of one query on the patches.
        titles: One text per image, or None for none.

    Returns:
        The figure: a row per image, with the image first; each map has a scale of its own, from 0 to its largest.

    Raises:
        ValueError: If the shapes do not belong together.
    """
    pictures = _as_pictures("patch_attention", images)
    maps = as_array("patch_attention", "weights", weights, 4)
    if len(maps) != len(pictures):
        fix = "pass the weights of these images"
        raise ValueError(explain("patch_attention", "weights", f"for {len(pictures)} images", len(maps), fix))
    labels = as_labels("patch_attention", "titles", titles, len(pictures)) or [""] * len(pictures)
    height, width = pictures.shape[1:3]
    count, heads = maps.shape[:2]
    figure, panels = plt.subplots(
        count, heads + 1, figsize=(1.7 * heads + 2.6, 1.75 * count + 0.2), squeeze=False, layout="constrained"
    )
    for row, picture, label, looks in zip(panels, pictures, labels, maps, strict=True):
        row[0].imshow(picture)
        row[0].set_title(label, fontsize=9)
        for head, (axes, look) in enumerate(zip(row[1:], looks, strict=True)):
            axes.imshow(picture.mean(axis=-1), cmap="gray", vmin=0, vmax=1, extent=(0, width, height, 0))
            strength = look / (look.max() or 1.0)
            axes.imshow(strength, cmap=LOOK, vmin=0, vmax=1, alpha=0.85 * strength, extent=(0, width, height, 0))
            axes.set_title(f"head {head}: up to {look.max():.2f}", fontsize=9)
    for axes in panels.flat:
        axes.set(xticks=[], yticks=[])
    scale = plt.cm.ScalarMappable(plt.Normalize(0, 1), cmap=LOOK)
    bar = figure.colorbar(scale, ax=panels[:, -1].tolist(), label="weight", ticks=[0, 1])
    bar.set_ticklabels(["0", "largest"])
    return figure


def confusion_grid(counts: Any, classes: Sequence[str]) -> Figure:
    """Draw which class was taken for which; zeros stay empty.

    Args:
        counts: (classes, classes), the right class in the row, the predicted one in the column.
        classes: Their names.

    Returns:
        The figure.

    Raises:
        ValueError: If ``counts`` is not square, or there are more or fewer names.
    """
    values = as_array("confusion_grid", "counts", counts, 2)
    if values.shape[0] != values.shape[1]:
        fix = "count with metrics.confusion_matrix"
        raise ValueError(explain("confusion_grid", "counts", "a square matrix", f"shape {values.shape}", fix))
    names = as_labels("confusion_grid", "classes", classes, len(values))
    figure, axes = plt.subplots(figsize=(2.6 + 0.48 * len(values), 1.9 + 0.42 * len(values)), layout="constrained")
    shares = values / np.maximum(values.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap=SEQUENTIAL, vmin=0, vmax=1)
    for row, column in zip(*np.nonzero(values), strict=True):
        colour = "black" if shares[row, column] > 0.5 else "white"
        axes.text(column, row, f"{values[row, column]:g}", ha="center", va="center", color=colour, fontsize=9)
    axes.set_xticks(range(len(values)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(values)), names)
    axes.set(title="what is taken for what", xlabel="predicted class", ylabel="right class")
    axes.tick_params(length=0)
    figure.colorbar(image, ax=axes, label="share of the row")
    return figure


def lucky_choice(validation: Any, test: Any) -> Figure:
    """Draw the accuracies of many models, and what becomes of the one that validation chose.

    Args:
        validation: (n,) accuracies from 0 to 1 on the images that choose.
        test: (n,) accuracies of the same models on images that were never looked at.

    Returns:
        The figure.

    Raises:
        ValueError: If there are not equally many of both.
    """
    chosen_by = as_array("lucky_choice", "validation", validation, 1)
    fresh = as_array("lucky_choice", "test", test, 1)
    if len(chosen_by) != len(fresh):
        expected, fix = f"{len(chosen_by)} accuracies", "measure the same models twice"
        raise ValueError(explain("lucky_choice", "test", expected, len(fresh), fix))
    best = int(chosen_by.argmax())
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    values, heights = np.unique(chosen_by, return_counts=True)
    gap = np.diff(values).min() if len(values) > 1 else 0.01
    axes.bar(100 * values, heights, width=80 * gap, color="#BBBBBB", label="all models, on validation images")
    lines = {"the chosen one, on the validation images": chosen_by[best], "the chosen one, on new images": fresh[best]}
    for (label, accuracy), colour, style in zip(lines.items(), (COLOURS[3], COLOURS[0]), ("-", "--"), strict=True):
        axes.axvline(100 * accuracy, color=colour, linestyle=style, linewidth=2, label=label)
    axes.set(title="the best of many is lucky too", xlabel="accuracy (%)", ylabel="models")
    figure.legend(loc="outside lower center", frameon=False, fontsize=9)
    return figure


def _as_pictures(who: str, images: Any) -> np.ndarray:
    """Return images as (M, H, W, 3) numbers from 0 to 1."""
    is_bytes = getattr(images, "dtype", None) in (torch.uint8, np.uint8)
    values = as_array(who, "images", images, 4) / (255 if is_bytes else 1)
    if values.shape[1] != 3 or values.min() < 0 or values.max() > 1:
        expected = "of shape (M, 3, H, W), bytes or numbers from 0 to 1"
        got = f"shape {values.shape}, {values.min():.3g} to {values.max():.3g}"
        raise ValueError(explain(who, "images", expected, got, "pass the stored images, not normalised ones"))
    return values.transpose(0, 2, 3, 1)


def _cut(who: str, image: Any, patch_size: tuple[int, int]) -> tuple[np.ndarray, int]:
    """Return the patches of an image, (P, height, width, 3) row by row, and how many stand in one row."""
    picture = _as_pictures(who, image[None])[0]  # (H, W, 3)
    (H, W), (height, width) = picture.shape[:2], patch_size
    if height < 1 or width < 1 or H % height or W % width:
        expected = f"divisors of the image's {H} by {W} pixels"
        raise ValueError(explain(who, "patch_size", expected, patch_size, "choose another patch"))
    rows, columns = H // height, W // width
    cells = picture.reshape(rows, height, columns, width, 3).transpose(0, 2, 1, 3, 4)
    return cells.reshape(rows * columns, height, width, 3), columns
