"""Pictures of notebook 07: masks with words, wanted distributions, rates, alignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cs_transformers.errors import explain
from cs_transformers.plots.arrays import as_array, as_arrays, as_labels
from cs_transformers.plots.attention import BLOCKED, MASK_COLOURS, OPEN
from cs_transformers.plots.style import COLOURS, MARKERS, SEQUENTIAL


def word_masks(masks: Mapping[str, tuple[Any, Sequence[str], Sequence[str]]]) -> Figure:
    """Draw masks with the words that look beside the rows and the words looked at below the columns.

    Args:
        masks: Title -> (T, S) mask, nonzero where a row may look at a column; T words of the rows; S of the columns.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no mask, one has not two axes, or the words are too many or too few.
    """
    grids = as_arrays("word_masks", {title: mask for title, (mask, _, _) in masks.items()}, 2)
    tallest, widths = max(len(grid) for grid in grids.values()), [grid.shape[1] for grid in grids.values()]
    size = (0.42 * sum(widths) + 1.5 * len(grids), 0.34 * tallest + 1.9)
    figure, panels = plt.subplots(1, len(grids), figsize=size, squeeze=False, width_ratios=widths, layout="constrained")
    for axes, (title, grid) in zip(panels[0], grids.items(), strict=True):
        rows = as_labels("word_masks", "words of the rows", masks[title][1], grid.shape[0])
        columns = as_labels("word_masks", "words of the columns", masks[title][2], grid.shape[1])
        axes.imshow(grid != 0, vmin=0, vmax=1, cmap=MASK_COLOURS)
        _name_words(axes, rows, columns)
        axes.set_title(title, fontsize=10)
    marks = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in (OPEN, BLOCKED)]
    figure.legend(marks, ["may look", "hidden"], loc="outside lower center", ncols=2, frameon=False)
    return figure


def alignment_map(weights: Any, written: Sequence[str], read: Sequence[str], *, titles: Sequence[str] = ()) -> Figure:
    """Draw for each word of a translation which words of the source the decoder looked at when it chose the word.

    Args:
        weights: (H, T, S) cross-attention.
        written: T words of the translation.
        read: S words of the source.
        titles: H titles; left out, the heads are numbered.

    Returns:
        The figure.

    Raises:
        ValueError: If ``weights`` has not three axes, or the words are too many or too few.
    """
    values = as_array("alignment_map", "weights", weights, 3)
    heads, targets, sources = values.shape
    rows = as_labels("alignment_map", "written", written, targets)
    columns = as_labels("alignment_map", "read", read, sources)
    names = as_labels("alignment_map", "titles", titles or None, heads) or [f"head {head}" for head in range(heads)]
    size = (1.9 + heads * max(2.4, 0.22 * sources), 1.4 + 0.24 * targets)
    figure, panels = plt.subplots(1, heads, figsize=size, squeeze=False, sharey=True, layout="constrained")
    for axes, name, grid in zip(panels[0], names, values, strict=True):
        image = axes.imshow(grid, vmin=0, vmax=1, cmap=SEQUENTIAL, aspect="auto")
        _name_words(axes, rows, columns)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("read")
    panels[0][0].set_ylabel("written")
    figure.colorbar(image, ax=panels[0].tolist(), label="attention weight", shrink=0.8)
    return figure


def wanted_bars(distributions: Mapping[str, Any], words: Sequence[str], *, title: str = "") -> Figure:
    """Draw distributions over a few words side by side, on a scale on which small shares can be seen.

    Args:
        distributions: Name -> (V,) probabilities.
        words: V words.
        title: What to see.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no distribution, or one has another number of entries than there are words.
    """
    bars = as_arrays("wanted_bars", distributions, 1)
    figure, axes = plt.subplots(figsize=(7.2, 2.9), layout="constrained")
    width = 0.8 / len(bars)
    for number, (name, values) in enumerate(bars.items()):
        if len(values) != len(words):
            fix = "give one probability per word"
            raise ValueError(explain("wanted_bars", repr(name), f"of length {len(words)}", len(values), fix))
        places = np.arange(len(words)) + (number - (len(bars) - 1) / 2) * width
        drawn = axes.bar(places, values, width, label=name, color=COLOURS[number % len(COLOURS)])
        axes.bar_label(drawn, [f"{value:.3g}" for value in values], fontsize=7, padding=1)
    axes.set_xticks(range(len(words)), words)
    axes.set(ylabel="wanted probability", title=title, ylim=(0, 1.18 * max(values.max() for values in bars.values())))
    axes.legend(frameon=False, loc="upper right")
    return figure


def named_curves(x: Any, curves: Mapping[str, Any], *, xlabel: str, ylabel: str, title: str = "") -> Figure:
    """Draw several curves over one axis, told apart by colour and by their marks.

    Args:
        x: (n,) places.
        curves: Name -> (n,) values.
        xlabel: Name of the horizontal axis.
        ylabel: Name of the vertical axis.
        title: What to see.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no curve, or one has another number of points than there are places.
    """
    places = as_array("named_curves", "x", x, 1)
    lines = as_arrays("named_curves", curves, 1)
    figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
    for number, (name, values) in enumerate(lines.items()):
        if len(values) != len(places):
            fix = "give one value per place"
            raise ValueError(explain("named_curves", repr(name), f"of length {len(places)}", len(values), fix))
        style = {"marker": MARKERS[number % len(MARKERS)], "markevery": max(1, len(places) // 8), "markersize": 5}
        axes.plot(places, values, label=name, color=COLOURS[number % len(COLOURS)], **style)
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    axes.legend(frameon=False)
    return figure


def _name_words(axes: Axes, rows: Sequence[str] | None, columns: Sequence[str] | None) -> None:
    for ticks, words, angle in ((axes.set_yticks, rows, 0), (axes.set_xticks, columns, 60)):
        where = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if angle else {}
        ticks(range(len(words or ())), words or (), fontsize=8, **where)
    axes.set_xticks(np.arange(0.5, len(columns or ()) - 1), minor=True)
    axes.set_yticks(np.arange(0.5, len(rows or ()) - 1), minor=True)
    axes.grid(which="minor", color="white", linewidth=0.8)
    axes.tick_params(which="both", length=0)
