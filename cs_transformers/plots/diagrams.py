"""Diagrams of whole models: their parts as boxes, with the shape after every part."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from cs_transformers.plots.style import COLOURS

Parts = dict[tuple[float, float], tuple[str, str, str]]  # place -> name, shape that leaves it, colour


def captioner_diagram() -> Figure:
    """Draw the way of an image and of words through the captioner, with the shape after every part.

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(7.6, 3.6), layout="constrained")
    parts = {
        (0.0, 0.0): ("image features", "(N, S, D_in)", "#DDDDDD"),
        (0.0, 1.0): ("visual_projection", "(N, S, D): memory", COLOURS[4]),
        (2.6, 0.0): ("word ids", "(N, T)", "#DDDDDD"),
        (2.6, 1.0): ("embedding", "(N, T, D)", COLOURS[4]),
        (2.6, 2.0): ("+ positional_encoding", "(N, T, D)", COLOURS[6]),
        (2.6, 3.0): ("transformer (decoder)", "(N, T, D)", COLOURS[1]),
        (2.6, 4.0): ("output", "(N, T, V): scores", COLOURS[4]),
    }
    _draw_parts(axes, parts, half_width=0.9, shape_at=1.02)
    axes.annotate("", (1.62, 3.0), (0.0, 1.3), arrowprops={"arrowstyle": "->", "connectionstyle": "angle"})
    axes.text(0.05, 3.08, "cross-attention", ha="left", va="bottom", fontsize=8, color="#444444")
    axes.annotate("", (3.95, 3.0), (4.6, 3.0), arrowprops={"arrowstyle": "->"})
    axes.text(4.65, 3.0, "causal mask (T, T)", ha="left", va="center", fontsize=9)
    axes.set(xlim=(-1.1, 6.3), ylim=(-0.4, 4.8))
    axes.axis("off")
    return figure


def translator_diagram() -> Figure:
    """Draw the way of both sentences through the translator, and the three places where a mask stands.

    Returns:
        The figure.
    """
    figure, axes = plt.subplots(figsize=(8.4, 3.9), layout="constrained")
    parts = {
        (0.0, 0.0): ("source ids", "(N, S)", "#DDDDDD"),
        (0.0, 1.0): ("_embed_src", "(N, S, D)", COLOURS[6]),
        (0.0, 2.0): ("encoder", "(N, S, D): memory", COLOURS[4]),
        (3.4, 0.0): ("target ids", "(N, T)", "#DDDDDD"),
        (3.4, 1.0): ("_embed_tgt", "(N, T, D)", COLOURS[6]),
        (3.4, 2.0): ("decoder: words before", "", COLOURS[1]),
        (3.4, 3.0): ("decoder: memory", "(N, T, D)", COLOURS[1]),
        (3.4, 4.0): ("output", "(N, T, V): scores", COLOURS[4]),
    }
    _draw_parts(axes, parts, half_width=1.0, shape_at=0.08)
    axes.annotate("", (2.34, 3.0), (0.0, 2.3), arrowprops={"arrowstyle": "->", "connectionstyle": "angle"})
    axes.text(0.08, 3.08, "cross-attention", ha="left", va="bottom", fontsize=8, color="#444444")
    for (x, y), mask in {(1.0, 2.0): "source mask", (4.4, 2.0): "target mask", (4.4, 3.0): "source mask"}.items():
        axes.annotate("", (x + 0.05, y), (x + 0.4, y), arrowprops={"arrowstyle": "->", "color": COLOURS[3]})
        axes.text(x + 0.44, y, mask, ha="left", va="center", fontsize=8, color=COLOURS[3])
    axes.set(xlim=(-1.2, 6.3), ylim=(-0.4, 4.8))
    axes.axis("off")
    return figure


def _draw_parts(axes: Axes, parts: Parts, *, half_width: float, shape_at: float) -> None:
    """Draw a box for each part, the shape behind it, and an arrow to the part one step above."""
    left, style = {"ha": "left", "va": "center"}, "round,pad=0.04"
    for (x, y), (name, shape, colour) in parts.items():
        corner, width = (x - half_width, y - 0.24), 2 * half_width
        axes.add_patch(FancyBboxPatch(corner, width, 0.48, boxstyle=style, facecolor=colour, alpha=0.6))
        axes.text(x, y, name, ha="center", va="center", fontsize=9)
        axes.text(x + shape_at, y + 0.5, shape, **left, fontsize=8, color="#444444")
        if (x, y + 1.0) in parts:
            axes.annotate("", (x, y + 0.7), (x, y + 0.3), arrowprops={"arrowstyle": "->"})
