"""Pictures of notebook 04: captions beside their images, the shifted pair, decoding step by step, where words look."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgba
from matplotlib.figure import Figure

from cs_transformers.errors import explain
from cs_transformers.plots.arrays import as_array, as_labels
from cs_transformers.plots.style import COLOURS

NOTHING, REMEMBERED, COMPUTED = "#FFFFFF", "#BFD9E8", COLOURS[0]
LINE = 29  # letters of a caption in one line


def caption_grid(
    images: Sequence[Any],
    captions: Sequence[str],
    references: Sequence[str] | None = None,
    right: Sequence[bool] | None = None,
    *,
    title: str = "",
    columns: int = 4,
) -> Figure:
    """Draw images with a caption under each, and what people wrote below it.

    Args:
        images: n pictures (height, width, 3) or (height, width), whole numbers up to 255 or fractions up to 1.
        captions: n captions to show first.
        references: n captions of reference, drawn grey.
        right: n verdicts; a right caption gets a blue tick, a wrong one an orange cross.
        title: What to see.
        columns: Pictures in a row.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no image, or the lists differ in length.
    """
    if len(images) == 0:
        raise ValueError(explain("caption_grid", "images", "one or more pictures", "none", "pass some"))
    written = as_labels("caption_grid", "captions", captions, len(images)) or []
    human = as_labels("caption_grid", "references", references, len(images))
    as_labels("caption_grid", "right", right, len(images))
    columns = min(columns, len(images))
    rows = -(-len(images) // columns)
    size = (2.5 * columns, rows * (2.9 if human is None else 3.7))
    figure, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axes in panels.flat[len(images) :]:
        axes.axis("off")
    for index, (axes, image) in enumerate(zip(panels.flat, images, strict=False)):
        axes.imshow(np.asarray(image), interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        for side in axes.spines.values():
            side.set_visible(False)
        mark, colour = "", "black"
        if right is not None:
            mark, colour = ("\u2713 ", COLOURS[0]) if right[index] else ("\u2717 ", COLOURS[3])
        text = textwrap.fill(mark + written[index], LINE)
        _write_below(axes, text, 5, colour)
        if human is not None:
            _write_below(axes, textwrap.fill(human[index], LINE), 19 + 11 * text.count("\n"), "#666666")
    figure.get_layout_engine().set(h_pad=0.1)
    figure.suptitle(title)
    return figure


def _write_below(axes: Axes, text: str, points: float, colour: str) -> None:
    place = {"xycoords": "axes fraction", "xytext": (0, -points), "textcoords": "offset points"}
    axes.annotate(text, (0.5, 0), **place, ha="center", va="top", fontsize=9, color=colour)


def shifted_pair(words: Sequence[str], *, null: str = "<NULL>") -> Figure:
    """Draw what the model reads and, below each word, the word that is asked for.

    Args:
        words: T + 1 words of a whole caption, special words included.
        null: The padding word; where it is asked for, the position costs nothing and is drawn grey.

    Returns:
        The figure.

    Raises:
        ValueError: If there are fewer than two words.
    """
    if len(words) < 2:
        fix = "pass the whole caption, <START> included"
        raise ValueError(explain("shifted_pair", "words", "two or more", len(words), fix))
    figure, axes = plt.subplots(figsize=(0.95 * len(words) + 0.9, 1.9), layout="constrained")
    for place, (read, target) in enumerate(pairwise(words)):
        counts = target != null
        for height, word, colour in ((1, read, COLOURS[4]), (0, target, COLOURS[1])):
            face = colour if counts else "#DDDDDD"
            axes.add_patch(plt.Rectangle((place + 0.04, height), 0.92, 0.62, facecolor=face, alpha=0.6))
            axes.text(place + 0.5, height + 0.31, word, ha="center", va="center", fontsize=8)
        axes.annotate("", (place + 0.5, 0.64), (place + 0.5, 0.98), arrowprops={"arrowstyle": "->"})
    axes.set_title("grey: the target is padding, the position does not count", fontsize=10)
    axes.set(xlim=(0, len(words) - 1), ylim=(-0.05, 1.7), xticks=[])
    axes.set_yticks([1.31, 0.31], ["reads:\ncaptions[:, :-1]", "shall say:\ncaptions[:, 1:]"])
    _bare(axes)
    return figure


def cache_pictures(words: Sequence[str]) -> Figure:
    """Draw for which words keys and values are computed at each step, without a cache and with one.

    Args:
        words: T words that are read, one a step.

    Returns:
        The figure; the titles count the computations.

    Raises:
        ValueError: If there is no word.
    """
    if len(words) == 0:
        raise ValueError(explain("cache_pictures", "words", "one or more", "none", "pass the words of a caption"))
    read, new = np.tri(len(words)), np.eye(len(words))
    grids = {"without a cache": 2 * read, "with a cache": read + new}
    figure, panels = plt.subplots(1, 2, figsize=(6.4, 3.9), sharey=True, layout="constrained")
    for axes, (name, grid) in zip(panels, grids.items(), strict=True):
        axes.imshow(grid, cmap=ListedColormap([NOTHING, REMEMBERED, COMPUTED]), vmin=0, vmax=2)
        axes.set_title(f"{name}: {int((grid == 2).sum())} computed")
        axes.set_xticks(range(len(words)), words, rotation=60, ha="right")
        axes.set_yticks(range(len(words)), range(1, len(words) + 1))
        axes.set_xticks(np.arange(0.5, len(words) - 1), minor=True)
        axes.set_yticks(np.arange(0.5, len(words) - 1), minor=True)
        axes.grid(which="minor", color="white", linewidth=1)
        axes.set_xlabel("key and value of")
        _bare(axes)
    panels[0].set_ylabel("step")
    marks = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in (COMPUTED, REMEMBERED)]
    figure.legend(marks, ["computed", "remembered"], loc="outside lower center", ncols=2, frameon=False)
    return figure


def word_tree(
    branches: Mapping[tuple[str, ...], Mapping[str, float]], paths: Mapping[str, Sequence[str]] | None = None
) -> Figure:
    """Draw sentences as a tree: each branch carries the probability of its word, each leaf that of the sentence.

    Args:
        branches: Beginning (a tuple of words, empty at the root) -> {next word: probability}.
        paths: Name -> sentence to draw in a colour of its own.

    Returns:
        The figure.

    Raises:
        ValueError: If the tree has no root, or a path leaves the tree.
    """
    if () not in branches:
        raise ValueError(explain("word_tree", "branches", "a tree with a root ()", list(branches), "add the root"))
    leaves: list[tuple[tuple[str, ...], float]] = []
    places: dict[tuple[str, ...], float] = {}
    _place(branches, (), 1.0, leaves, places)
    followed: dict[tuple[str, ...], tuple[str, str]] = {}
    colours = cycle((COLOURS[3], COLOURS[0], COLOURS[2]))
    for colour, (name, path) in zip(colours, (paths or {}).items(), strict=False):
        if tuple(path) not in places:
            expected, fix = "a sentence of the tree", "follow the branches from the root"
            raise ValueError(explain("word_tree", f"the path {name!r}", expected, list(path), fix))
        followed |= {tuple(path[:length]): (colour, name) for length in range(1, len(path) + 1)}
    depth = max(map(len, places))
    figure, axes = plt.subplots(figsize=(2.2 * depth + 2.6, 0.46 * len(leaves) + 0.6), layout="constrained")
    for node, height in places.items():
        colour, width = (followed[node][0], 2.6) if node in followed else ("#999999", 1.0)
        if node:
            axes.plot([len(node) - 1, len(node)], [places[node[:-1]], height], color=colour, linewidth=width, zorder=1)
        text = f"{node[-1]}  {branches[node[:-1]][node[-1]]:.2f}" if node else "<START>"
        box = {"facecolor": "white", "edgecolor": colour, "boxstyle": "round,pad=0.25"}
        axes.text(len(node), height, text, ha="center", va="center", fontsize=9, bbox=box, zorder=2)
    for node, probability in leaves:
        colour, name = followed.get(node, ("#444444", ""))
        axes.text(len(node) + 0.42, places[node], f"= {probability:.2f}  {name}", va="center", fontsize=9, color=colour)
    axes.set(xlim=(-0.4, depth + 1.2), ylim=(-len(leaves) + 0.4, 0.6))
    axes.axis("off")
    return figure


def _place(
    branches: Mapping[tuple[str, ...], Mapping[str, float]],
    node: tuple[str, ...],
    probability: float,
    leaves: list[tuple[tuple[str, ...], float]],
    places: dict[tuple[str, ...], float],
) -> None:
    """Give every node a height: leaves stand one below the other, a parent in the middle of its children."""
    following = branches.get(node, {})
    if not following:
        places[node] = -float(len(leaves))
        leaves.append((node, probability))
        return
    for word, share in following.items():
        _place(branches, (*node, word), probability * share, leaves, places)
    heights = [places[(*node, word)] for word in following]
    places[node] = (heights[0] + heights[-1]) / 2


def word_attention(
    image: Any, words: Sequence[str], weights: Any, grid: tuple[int, int], *, columns: int = 8
) -> Figure:
    """Draw, for every word, where in the image the model looked when it chose it.

    Args:
        image: (height, width, 3), whole numbers up to 255 or fractions up to 1.
        words: T words.
        weights: (T, S) attention weights over the places of the grid, row by row.
        grid: Rows and columns of the grid; S is their product.
        columns: Pictures in a row.

    Returns:
        The figure: orange where the model looked; each panel has a scale of its own, its largest weight in the title.

    Raises:
        ValueError: If the number of words or of places does not fit.
    """
    values = as_array("word_attention", "weights", weights, 2)
    labels = as_labels("word_attention", "words", words, len(values))
    if values.shape[1] != grid[0] * grid[1]:
        expected, fix = f"{grid[0] * grid[1]} places of a grid of {grid}", "pass the grid of the features"
        raise ValueError(explain("word_attention", "weights", expected, values.shape[1], fix))
    picture = np.asarray(image)
    height, width = picture.shape[:2]
    columns = min(columns, len(values))
    rows = -(-len(values) // columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(1.55 * columns, 1.95 * rows), squeeze=False, layout="constrained"
    )
    for axes in panels.flat:
        axes.axis("off")
    for axes, word, row in zip(panels.flat, labels or [], values, strict=False):
        axes.imshow(picture, interpolation="nearest")
        heat = np.ones((*grid, 4)) * to_rgba(COLOURS[1])
        heat[..., 3] = 0.8 * row.reshape(grid) / (row.max() or 1.0)
        axes.imshow(heat, extent=(-0.5, width - 0.5, height - 0.5, -0.5), interpolation="nearest")
        axes.set_title(f"{word}\n{row.max():.2f}", fontsize=9)
    return figure


def _bare(axes: Axes) -> None:
    axes.tick_params(which="both", length=0)
    for side in axes.spines.values():
        side.set_visible(False)
