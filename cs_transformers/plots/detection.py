"""Pictures of notebook 08: boxes on pictures, who answers for what, where queries look, what each specialises in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from cs_transformers.errors import check_count, explain
from cs_transformers.plots.arrays import as_array, as_labels
from cs_transformers.plots.style import COLOURS, SEQUENTIAL

ON_DARK = [patheffects.withStroke(linewidth=2.5, foreground="black")]  # readable on any picture
TRUE, LETTERS = "white", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
BRIGHT = ["#56B4E9", "#E69F00", "#00C896", "#F0E442", "#FF8C5A", "#E58FC4", "#FFFFFF"]  # the course's, lightened


def found_objects(
    images: Sequence[Any],
    found: Sequence[Mapping[str, Any]],
    classes: Sequence[str],
    *,
    truths: Sequence[Mapping[str, Any]] | None = None,
    titles: Sequence[str] | None = None,
    columns: int = 4,
    size: float = 2.4,
) -> Figure:
    """Draw pictures with the objects found in them, one colour a class, and the true boxes dashed.

    Args:
        images: Pictures (3, H, W), bytes or numbers from 0 to 1.
        found: For each picture "labels" (m,), "boxes" (m, 4) as (x0, y0, x1, y1) in pixels, and "scores" (m,) or none.
        classes: Names of the classes, by label.
        truths: For each picture "boxes" (M, 4) in pixels, or None.
        titles: One text for each picture, or None.
        columns: Pictures in a row.
        size: Width of a picture in inches.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no picture, or the lists differ in length.
    """
    who = "found_objects"
    pictures = [_picture(who, image) for image in images]
    if not pictures:
        raise ValueError(explain(who, "images", "one or more", "none", "pass some pictures"))
    check_count(who, "columns", columns)
    for name, entries in (("found", found), ("truths", truths)):
        if entries is not None and len(entries) != len(pictures):
            raise ValueError(explain(who, name, f"{len(pictures)}, one per picture", len(entries), "pass both alike"))
    names = as_labels(who, "titles", titles, len(pictures)) or [""] * len(pictures)
    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    tall = max(picture.shape[0] / picture.shape[1] for picture in pictures)
    figsize = (size * columns, (size * tall + 0.25 * any(names)) * rows)
    figure, panels = plt.subplots(rows, columns, figsize=figsize, squeeze=False, layout="constrained")
    for axes in panels.flat:
        axes.axis("off")
    for index, (axes, picture, name) in enumerate(zip(panels.flat, pictures, names, strict=False)):
        axes.imshow(picture)
        axes.set_title(name, fontsize=9)
        if truths is not None:
            for box in _boxes(truths[index]["boxes"]):
                _frame(axes, box, TRUE, linestyle=":")
        _draw_found(axes, found[index], classes, large=size > 4)
    return figure


def _draw_found(axes: Axes, found: Mapping[str, Any], classes: Sequence[str], *, large: bool) -> None:
    scores = found.get("scores")
    for index, (label, box) in enumerate(zip(np.asarray(found["labels"]), _boxes(found["boxes"]), strict=True)):
        colour = BRIGHT[int(label) % len(BRIGHT)]
        _frame(axes, box, colour)
        text = classes[int(label)] + ("" if scores is None else f" {float(scores[index]):.2f}")
        style = {"color": colour, "fontsize": 10 if large else 7, "path_effects": ON_DARK, "va": "bottom"}
        axes.text(box[0], box[1] - 0.5, text, clip_on=True, **style)


def _frame(axes: Axes, box: np.ndarray, colour: str, **style: Any) -> None:
    corner, width, height = (box[0] - 0.5, box[1] - 0.5), box[2] - box[0], box[3] - box[1]
    options = {"fill": False, "edgecolor": colour, "linewidth": 1.8, "path_effects": ON_DARK, **style}
    axes.add_patch(Rectangle(corner, width, height, **options))


def matching(
    image: Any, boxes: Any, true_boxes: Any, cost: Any, pairs: tuple[Any, Any], *, names: Sequence[str] | None = None
) -> Figure:
    """Draw predictions and objects of a picture, and the cost of every pair with the chosen ones ringed.

    Args:
        image: (3, H, W) bytes, or numbers from 0 to 1.
        boxes: (Q, 4) predictions as (x0, y0, x1, y1) in pixels, numbered from 0.
        true_boxes: (M, 4) objects in the same form, called A, B, C.
        cost: (Q, M) what it costs to let a query answer for an object.
        pairs: Queries and the objects they answer for, as the matcher gives them.
        names: Classes of the objects, or None.

    Returns:
        The figure: the picture to the left, the table to the right.

    Raises:
        ValueError: If the sizes do not fit.
    """
    who = "matching"
    predicted, true = _boxes(boxes), _boxes(true_boxes)
    table = as_array(who, "cost", cost, 2)
    if table.shape != (len(predicted), len(true)):
        expected, fix = f"of shape (Q, M) = {(len(predicted), len(true))}", "one row per query, one column per object"
        raise ValueError(explain(who, "cost", expected, table.shape, fix))
    labels = as_labels(who, "names", names, len(true)) or [""] * len(true)
    chosen = dict(zip(np.asarray(pairs[0]).tolist(), np.asarray(pairs[1]).tolist(), strict=True))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), width_ratios=[1, 1], layout="constrained")
    left.imshow(_picture(who, image))
    left.axis("off")
    for entry, box in enumerate(true):
        _frame(left, box, TRUE, linestyle=":")
        left.text(box[2], box[1], LETTERS[entry], color=TRUE, fontsize=12, path_effects=ON_DARK, weight="bold")
    for query, box in enumerate(predicted):
        colour = BRIGHT[chosen[query] % len(BRIGHT)] if query in chosen else "#D0D0D0"
        _frame(left, box, colour, linewidth=2.4 if query in chosen else 1.2)
        style = {"fontsize": 10, "path_effects": ON_DARK, "va": "top", "clip_on": True}
        left.text(box[0] + 0.5, box[1] + 0.5, str(query), color=colour, **style)
    left.set_title("queries 0, 1, ... and objects A, B, ...")
    picture = right.imshow(table, cmap=SEQUENTIAL, aspect="auto")
    middle = (table.min() + table.max()) / 2
    for (query, entry), value in np.ndenumerate(table):
        ink = "white" if value < middle else "black"
        right.text(entry, query, f"{value:.1f}", ha="center", va="center", color=ink, fontsize=8)
    for query, entry in chosen.items():
        ring = Rectangle((entry - 0.5, query - 0.5), 1, 1, fill=False, edgecolor=COLOURS[3], linewidth=3)
        right.add_patch(ring)
    ticks = [f"{LETTERS[entry]}\n{label}" for entry, label in enumerate(labels)]
    right.set(xlabel="object", ylabel="query", title="cost of each pair; ringed: the cheapest assignment")
    right.set_xticks(range(len(true)), ticks)
    right.set_yticks(range(len(predicted)))
    figure.colorbar(picture, ax=right, label="cost")
    return figure


def overlap_curves(shifts: Any, curves: Mapping[str, Any], *, title: str = "") -> Figure:
    """Draw measures of overlap against the distance of two boxes.

    Args:
        shifts: (n,) distances.
        curves: Name of each measure and its (n,) values.
        title: What to see.

    Returns:
        The figure.

    Raises:
        ValueError: If a curve has another length.
    """
    who = "overlap_curves"
    places = as_array(who, "shifts", shifts, 1)
    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    for index, (name, values) in enumerate(curves.items()):
        heights = as_array(who, name, values, 1)
        if len(heights) != len(places):
            raise ValueError(explain(who, name, f"of length {len(places)}", len(heights), "one value per shift"))
        axes.plot(places, heights, label=name, linestyle="-" if index else "--", linewidth=2)
    axes.axhline(0, color="0.6", linewidth=0.8)
    axes.set(xlabel="distance of the boxes in widths", ylabel="overlap", title=title)
    axes.legend()
    return figure


def query_specialities(centres: Any, sizes: Any, shown: Sequence[int] | None = None, *, columns: int = 5) -> Figure:
    """Draw, for each query, where the boxes lie that it predicts for many pictures.

    Args:
        centres: (M, Q, 2) centres (x, y) as fractions of the picture.
        sizes: (M, Q, 2) widths and heights as fractions.
        shown: Which queries, or None for all.
        columns: Panels in a row.

    Returns:
        The figure; large boxes are dark dots, small ones light.

    Raises:
        ValueError: If the shapes differ.
    """
    who = "query_specialities"
    places, extents = as_array(who, "centres", centres, 3), as_array(who, "sizes", sizes, 3)
    if places.shape != extents.shape:
        raise ValueError(explain(who, "sizes", f"of shape {places.shape}", extents.shape, "as many as centres"))
    queries = list(range(places.shape[1])) if shown is None else list(shown)
    columns = min(columns, len(queries))
    rows = -(-len(queries) // columns)
    size = (1.6 * columns + 0.8, 1.75 * rows)
    figure, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    large = np.sqrt(extents.prod(axis=-1))
    for axes in panels.flat:
        axes.axis("off")
    for axes, query in zip(panels.flat, queries, strict=False):
        axes.axis("on")
        dots = axes.scatter(
            *places[:, query].T, c=large[:, query], s=5, cmap=f"{SEQUENTIAL}_r", vmin=large.min(), vmax=large.max()
        )
        axes.set(xlim=(0, 1), ylim=(1, 0), xticks=[], yticks=[], aspect="equal")
        axes.set_title(f"query {query}", fontsize=9)
    figure.colorbar(dots, ax=panels, label="side of the box (fraction)", shrink=0.8)
    return figure


def query_attention(image: Any, maps: Any, boxes: Any, titles: Sequence[str]) -> Figure:
    """Draw where queries look in a picture, each beside the box that it predicts.

    Args:
        image: (3, H, W) bytes, or numbers from 0 to 1.
        maps: (n, h, w) attention of n queries over the cells of the feature map.
        boxes: (n, 4) their boxes as (x0, y0, x1, y1) in pixels.
        titles: One text for each.

    Returns:
        The figure.

    Raises:
        ValueError: If the numbers differ.
    """
    who = "query_attention"
    picture, looks, frames = _picture(who, image), as_array(who, "maps", maps, 3), _boxes(boxes)
    names = as_labels(who, "titles", titles, len(looks)) or []
    if len(frames) != len(looks):
        raise ValueError(explain(who, "boxes", f"{len(looks)}, one per map", len(frames), "pass both alike"))
    height, width = picture.shape[:2]
    figure, panels = plt.subplots(1, len(looks), figsize=(2.5 * len(looks), 2.8), squeeze=False, layout="constrained")
    grey = picture.mean(axis=-1)
    for axes, look, box, name in zip(panels[0], looks, frames, names, strict=True):
        axes.imshow(grey, cmap="gray", vmin=0, vmax=1)
        extent = (-0.5, width - 0.5, height - 0.5, -0.5)
        axes.imshow(look, extent=extent, cmap="inferno", alpha=0.6, interpolation="bilinear")
        _frame(axes, box, BRIGHT[0])
        axes.set_title(name, fontsize=9)
        axes.axis("off")
    return figure


def sampling_points(image: Any, references: Any, places: Any, shares: Any, titles: Sequence[str]) -> Figure:
    """Draw the points at which deformable attention reads, one panel a query; large dots have a large share.

    Args:
        image: (3, H, W) bytes, or numbers from 0 to 1.
        references: (n, 2) reference points (x, y) as fractions.
        places: (n, L, m, 2) the points of each level, all heads together, as fractions.
        shares: (n, L, m) their shares.
        titles: One text for each query.

    Returns:
        The figure.

    Raises:
        ValueError: If the sizes do not fit.
    """
    who = "sampling_points"
    picture, points, weights = (
        _picture(who, image),
        as_array(who, "places", places, 4),
        as_array(who, "shares", shares, 3),
    )
    centres = as_array(who, "references", references, 2)
    if points.shape[:3] != weights.shape or len(centres) != len(points):
        got = f"{points.shape}, {weights.shape} and {centres.shape}"
        raise ValueError(explain(who, "places, shares and references", "of fitting shapes", got, "check the axes"))
    names = as_labels(who, "titles", titles, len(points)) or []
    height, width = picture.shape[:2]
    scale = np.array([width, height])
    figure, panels = plt.subplots(1, len(points), figsize=(2.8 * len(points), 3.2), squeeze=False, layout="constrained")
    for axes, centre, spots, share, name in zip(panels[0], centres, points, weights, names, strict=True):
        axes.imshow(picture * 0.75)
        for level, (spot, weight) in enumerate(zip(spots, share, strict=True)):
            label = f"level {level}" if axes is panels[0][0] else None
            style = {"color": BRIGHT[level], "edgecolors": "black", "linewidths": 0.5, "label": label}
            axes.scatter(*(spot * scale - 0.5).T, s=6 + 400 * weight, **style)
        axes.plot(*(centre * scale - 0.5), marker="+", color="white", markersize=14, markeredgewidth=2.5)
        axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5), xticks=[], yticks=[])
        axes.set_title(name, fontsize=9)
    figure.legend(loc="outside lower center", ncols=points.shape[1])
    return figure


def _picture(who: str, image: Any) -> np.ndarray:
    """(H, W, 3) from 0 to 1."""
    array = as_array(who, "image", image, 3)
    if array.shape[0] != 3:
        raise ValueError(explain(who, "image", "of shape (3, H, W)", array.shape, "channels come first"))
    return array.transpose(1, 2, 0) / (255 if array.max() > 1 else 1)


def _boxes(boxes: Any) -> np.ndarray:
    values = boxes.detach().cpu() if hasattr(boxes, "detach") else boxes
    return np.asarray(values, dtype=np.float64).reshape(-1, 4)
