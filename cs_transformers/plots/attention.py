"""Pictures of notebook 01: attention maps, masks, heads, scores with and without scale, gradient checks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cs_transformers.errors import explain
from cs_transformers.plots.arrays import as_array, as_arrays, as_labels
from cs_transformers.plots.style import COLOURS, DIVERGING, MARKERS, SEQUENTIAL

BLOCKED, OPEN = "#D9D9D9", COLOURS[0]
MASK_COLOURS = ListedColormap([BLOCKED, OPEN])


def attention_maps(
    weights: Any,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    *,
    titles: Sequence[str] | None = None,
    numbers: bool = False,
) -> Figure:
    """Draw one heat map per head: a row is a query, and its colours tell where it looks.

    Args:
        weights: (H, T, S) attention weights, each in [0, 1]; a NaN is drawn grey and named.
        query_tokens: T labels of the rows.
        key_tokens: S labels of the columns; left out, those of the rows where T equals S.
        titles: H titles; left out, the heads are numbered.
        numbers: Whether the weight is written into each cell.

    Returns:
        The figure.

    Raises:
        ValueError: If ``weights`` has no three axes, or the labels are too many or too few.
    """
    values = as_array("attention_maps", "weights", weights, 3)
    heads, targets, sources = values.shape
    if key_tokens is None and targets == sources:
        key_tokens = query_tokens
    rows = as_labels("attention_maps", "query_tokens", query_tokens, targets)
    columns = as_labels("attention_maps", "key_tokens", key_tokens, sources)
    names = as_labels("attention_maps", "titles", titles, heads) or [f"head {head}" for head in range(heads)]
    size = (1.3 + heads * max(2.2, 0.42 * sources), 1.3 + max(1.6, 0.42 * targets))
    figure, panels = plt.subplots(1, heads, figsize=size, squeeze=False, layout="constrained")
    for head, axes in enumerate(panels[0]):
        image = axes.imshow(np.ma.masked_invalid(values[head]), vmin=0, vmax=1, cmap=SEQUENTIAL)
        axes.set_facecolor(BLOCKED)
        axes.set_title(names[head])
        axes.set_xlabel("key: looked at")
        _label_ticks(axes, rows if head == 0 else [""] * targets if rows else None, columns)
        _write_weights(axes, values[head], only_invalid=not numbers)
    panels[0][0].set_ylabel("query: looks")
    figure.colorbar(image, ax=panels[0].tolist(), label="attention weight", shrink=0.7)
    return figure


def _label_ticks(axes: Axes, rows: Sequence[str] | None, columns: Sequence[str] | None) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))  # positions have no halves
    if columns is not None:
        long = max(map(len, columns)) > 2
        axes.set_xticks(range(len(columns)), columns, rotation=60 if long else 0, ha="right" if long else "center")
    if rows is not None:
        axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)


def _write_weights(axes: Axes, values: np.ndarray, *, only_invalid: bool) -> None:
    for (row, column), value in np.ndenumerate(values):
        if not np.isfinite(value):
            axes.text(column, row, "nan", ha="center", va="center", color="black")
        elif not only_invalid:
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", color="black" if value > 0.5 else "white")


def mask_pictures(
    masks: Mapping[str, Any], *, query_label: str = "query position", key_label: str = "key position"
) -> Figure:
    """Draw masks side by side: blue cells are open, grey ones blocked.

    Args:
        masks: Title -> (T, S) mask, nonzero where the query may attend to the key.
        query_label: Name of the rows.
        key_label: Name of the columns.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no mask, or one has not two axes.
    """
    grids = as_arrays("mask_pictures", masks, 2)
    widths = [max(1.6, 0.3 * grid.shape[1]) for grid in grids.values()]
    tallest = max(grid.shape[0] for grid in grids.values())
    figure, panels = plt.subplots(
        1,
        len(grids),
        figsize=(0.9 + sum(widths) + 0.5 * len(grids), 1.7 + max(1.4, 0.3 * tallest)),
        squeeze=False,
        width_ratios=widths,
        layout="constrained",
    )
    for axes, (title, grid) in zip(panels[0], grids.items(), strict=True):
        _draw_mask(axes, grid != 0)
        axes.set_title(title)
        axes.set_xlabel(key_label)
    panels[0][0].set_ylabel(query_label)
    figure.legend(
        handles=[plt.Rectangle((0, 0), 1, 1, color=OPEN), plt.Rectangle((0, 0), 1, 1, color=BLOCKED)],
        labels=["may attend", "blocked"],
        loc="outside lower center",
        ncols=2,
        frameon=False,
    )
    return figure


def _draw_mask(axes: Axes, may_attend: np.ndarray) -> None:
    targets, sources = may_attend.shape
    axes.imshow(may_attend, vmin=0, vmax=1, cmap=MASK_COLOURS)
    axes.set_xticks(range(0, sources, 1 + sources // 10))
    axes.set_yticks(range(0, targets, 1 + targets // 10))
    axes.set_xticks(np.arange(0.5, sources - 1), minor=True)
    axes.set_yticks(np.arange(0.5, targets - 1), minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="both", length=0)


def mask_conventions(mask: Any) -> Figure:
    """Draw one mask three times, as the three conventions of the field write it.

    Args:
        mask: (T, S), nonzero where the query may attend to the key.

    Returns:
        The figure; the colours say what the mask does, the text in the cells how it is written.

    Raises:
        ValueError: If ``mask`` has not two axes.
    """
    may_attend = as_array("mask_conventions", "mask", mask, 2) != 0
    spellings = {
        "here, and F.scaled_dot_product_attention:\nTrue may attend": ("T", "F"),
        "nn.MultiheadAttention, nn.Transformer*:\nTrue is blocked": ("F", "T"),
        "additive, float:\nadded to the scores": ("0", "-\u221e"),
    }
    figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.2), layout="constrained")
    for axes, (title, (opened, blocked)) in zip(panels, spellings.items(), strict=True):
        _draw_mask(axes, may_attend)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("key position")
        for (row, column), attends in np.ndenumerate(may_attend):
            text, colour = (opened, "white") if attends else (blocked, "black")
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=9)
    panels[0].set_ylabel("query position")
    return figure


def weight_profiles(profiles: Mapping[str, Mapping[int, Any]]) -> Figure:
    """Draw how one query spreads its attention over the keys, the most attended key first.

    Args:
        profiles: Panel title -> {head width K: (S,) sorted weights}.

    Returns:
        The figure: a flat curve looks everywhere, a spike at one key only.

    Raises:
        ValueError: If there is no panel, or a profile has not one axis.
    """
    if not profiles:
        fix = "pass {title: {width: weights}}"
        raise ValueError(explain("weight_profiles", "the panels", "one or more", "none", fix))
    figure, panels = plt.subplots(
        1, len(profiles), figsize=(4.2 * len(profiles), 3.0), squeeze=False, sharey=True, layout="constrained"
    )
    for axes, (title, curves) in zip(panels[0], profiles.items(), strict=True):
        for style, (width, curve) in zip(itertools.cycle(MARKERS), curves.items(), strict=False):
            values = as_array("weight_profiles", f"the weights of width {width}", curve, 1)
            axes.plot(range(1, len(values) + 1), values, marker=style, markersize=4, label=f"K = {width}")
        axes.set_title(title)
        axes.set_xlabel("key, the most attended first")
        axes.set_ylim(-0.03, 1.03)
        axes.legend(frameon=False)
    panels[0][0].set_ylabel("attention weight (mean over queries)")
    return figure


def colour_lookup(
    weights: Any, value_colours: Any, mixed_colours: Any, query_labels: Sequence[str], key_labels: Sequence[str]
) -> Figure:
    """Draw attention as a soft look-up of colours: the weights, the stored colours above, the answers to the right.

    Args:
        weights: (T, S) attention weights.
        value_colours: (S, 3) red, green, blue of the values, in [0, 1].
        mixed_colours: (T, 3) red, green, blue of the outputs, in [0, 1].
        query_labels: T questions.
        key_labels: S stored items.

    Returns:
        The figure.

    Raises:
        ValueError: If a shape or a number of labels does not fit.
    """
    grid = as_array("colour_lookup", "weights", weights, 2)
    targets, sources = grid.shape
    rows = as_labels("colour_lookup", "query_labels", query_labels, targets)
    columns = as_labels("colour_lookup", "key_labels", key_labels, sources)
    stored = as_array("colour_lookup", "value_colours", value_colours, 2)
    answers = as_array("colour_lookup", "mixed_colours", mixed_colours, 2)
    for name, colours, count in (("value_colours", stored, sources), ("mixed_colours", answers, targets)):
        if colours.shape != (count, 3):
            expected, fix = f"of shape ({count}, 3)", "give red, green and blue for each"
            raise ValueError(explain("colour_lookup", name, expected, colours.shape, fix))
    figure, panels = plt.subplots(
        2,
        2,
        figsize=(2.4 + 0.9 * sources, 2.2 + 0.6 * targets),
        width_ratios=[sources, 1],
        height_ratios=[1, targets],
        layout="constrained",
    )
    panels[0, 1].axis("off")
    panels[0, 0].imshow(np.clip(stored, 0, 1)[None], aspect="auto")
    panels[0, 0].set_title("values: the stored colours", fontsize=10)
    panels[0, 0].set(xticks=[], yticks=[])
    panels[1, 0].imshow(grid, vmin=0, vmax=1, cmap=SEQUENTIAL, aspect="auto")
    panels[1, 0].set_xlabel("keys")
    panels[1, 0].set_ylabel("queries")
    _label_ticks(panels[1, 0], rows, columns)
    _write_weights(panels[1, 0], grid, only_invalid=False)
    panels[1, 1].imshow(np.clip(answers, 0, 1)[:, None], aspect="auto")
    panels[1, 1].set_title("outputs", fontsize=10)
    panels[1, 1].set(xticks=[], yticks=[])
    return figure


def numbered_grids(grids: Mapping[str, Any]) -> Figure:
    """Draw small matrices with their entries written out; rows that came from one token share its colour.

    Args:
        grids: Title -> (rows, columns) whole numbers; entry ``10 * token + channel`` takes the token's colour.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no grid, or one has not two axes.
    """
    arrays = as_arrays("numbered_grids", grids, 2)
    widths = [array.shape[1] for array in arrays.values()]
    tallest = max(array.shape[0] for array in arrays.values())
    figure, panels = plt.subplots(
        1,
        len(arrays),
        figsize=(0.42 * sum(widths) + 0.9 * len(arrays), 0.9 + 0.42 * tallest),
        squeeze=False,
        width_ratios=widths,
        layout="constrained",
    )
    palette = ListedColormap(COLOURS[:7])
    for axes, (title, array) in zip(panels[0], arrays.items(), strict=True):
        axes.imshow((array // 10) % 7, cmap=palette, vmin=-0.5, vmax=6.5, alpha=0.55)
        axes.set_title(title, fontsize=9)
        axes.set(xticks=[], yticks=[])
        axes.set_xticks(np.arange(0.5, array.shape[1] - 1), minor=True)
        axes.set_yticks(np.arange(0.5, array.shape[0] - 1), minor=True)
        axes.grid(which="minor", color="white", linewidth=1)
        axes.tick_params(which="minor", length=0)
        for (row, column), entry in np.ndenumerate(array):
            axes.text(column, row, f"{entry:02.0f}", ha="center", va="center", fontsize=8)
    return figure


def stacked_weights(blocks: Mapping[str, Any]) -> Figure:
    """Draw weight matrices one above the other, as one product uses them.

    Args:
        blocks: Name -> (out, D) weight matrix; all of one width D.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no block, one has not two axes, or their widths differ.
    """
    arrays = as_arrays("stacked_weights", blocks, 2)
    if len({array.shape[1] for array in arrays.values()}) != 1:
        shapes = {name: array.shape for name, array in arrays.items()}
        fix = "stack along the output axis"
        raise ValueError(explain("stacked_weights", "the blocks", "matrices of one input width", shapes, fix))
    whole = np.concatenate(list(arrays.values()))
    limit = np.abs(whole).max()
    figure, axes = plt.subplots(
        figsize=(0.22 * whole.shape[1] + 2.4, 0.11 * whole.shape[0] + 0.9), layout="constrained"
    )
    image = axes.imshow(whole, cmap=DIVERGING, vmin=-limit, vmax=limit, aspect="auto")
    edges = np.cumsum([0] + [array.shape[0] for array in arrays.values()]) - 0.5
    for edge in edges[1:-1]:
        axes.axhline(edge, color="black", linewidth=2)
    axes.set_yticks((edges[:-1] + edges[1:]) / 2, list(arrays))
    axes.tick_params(length=0)
    axes.set_xlabel("input channel")
    axes.set_title("one matrix, one product")
    figure.colorbar(image, ax=axes, label="weight")
    return figure


def step_size_errors(steps: Any, errors: Mapping[str, Any]) -> Figure:
    """Draw how far a numeric gradient lies from the exact one, against the step of its differences.

    Args:
        steps: (n,) step sizes, all positive.
        errors: Name -> (n,) relative errors.

    Returns:
        The figure, with both axes logarithmic.

    Raises:
        ValueError: If a curve has another length than ``steps``.
    """
    x = as_array("step_size_errors", "steps", steps, 1)
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    for style, (name, curve) in zip(itertools.cycle(MARKERS), errors.items(), strict=False):
        y = as_array("step_size_errors", f"the errors of {name!r}", curve, 1)
        if y.shape != x.shape:
            expected = f"{len(x)} numbers"
            raise ValueError(explain("step_size_errors", f"{name!r}", expected, len(y), "give one error per step"))
        axes.loglog(x, np.maximum(y, 1e-18), marker=style, markersize=4, label=name)
    axes.set_xlabel("step h of the central difference")
    axes.set_ylabel("relative error")
    axes.set_title("rounding to the left, curvature to the right")
    axes.legend(frameon=False)
    return figure
