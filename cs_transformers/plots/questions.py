"""Pictures of notebook 06: how scores spread, what attention costs, how models fare on few images."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from cs_transformers.errors import explain
from cs_transformers.plots.arrays import as_array, as_arrays
from cs_transformers.plots.style import MARKERS


def score_spread(widths: Any, variances: Mapping[str, Any], entropies: Mapping[str, Any], *, keys: int) -> Figure:
    """Draw variance of the scores and entropy of their softmax over the width of a head.

    Args:
        widths: (n,) head widths, all positive.
        variances: Name -> (n,) variances.
        entropies: Name -> (n,) entropies in nats.
        keys: Number of keys S; the largest entropy, log S, is drawn as a line.

    Returns:
        The figure.

    Raises:
        ValueError: If a curve has another length than ``widths``.
    """
    x = as_array("score_spread", "widths", widths, 1)
    figure, panels = plt.subplots(1, 2, figsize=(8.5, 3.2), layout="constrained")
    for axes, curves in zip(panels, (variances, entropies), strict=True):
        for marker, (name, y) in zip(
            itertools.cycle(MARKERS), as_arrays("score_spread", curves, 1).items(), strict=False
        ):
            if y.shape != x.shape:
                fix = "give one number per width"
                raise ValueError(explain("score_spread", repr(name), f"{len(x)} numbers", len(y), fix))
            axes.plot(x, y, marker=marker, label=name)
        axes.set(xscale="log", xlabel="head width K")
        axes.set_xticks(x, [f"{width:g}" for width in x])
        axes.minorticks_off()
    panels[0].set(yscale="log", ylabel="variance of the scores", title="undivided scores spread with the width")
    panels[0].legend(frameon=False)
    panels[1].axhline(np.log(keys), color="#888888", linestyle=":", label=f"equal shares, log {keys}")
    panels[1].set(ylabel="entropy of the softmax (nats)", title="and their softmax settles on one key")
    panels[1].set_ylim(bottom=0)
    panels[1].legend(frameon=False)
    return figure


def grouped_bars(
    groups: Sequence[str], bars: Mapping[str, Any], *, ylabel: str, title: str, log: bool = False
) -> Figure:
    """Draw a few numbers side by side, each written above its bar.

    Args:
        groups: Names along the axis.
        bars: Name -> one positive number per group.
        ylabel: What the numbers are.
        title: What to see.
        log: Whether the scale is logarithmic, to the base 2.

    Returns:
        The figure.

    Raises:
        ValueError: If there are no bars, or a row of them has another length than ``groups``.
    """
    arrays = as_arrays("grouped_bars", bars, 1)
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    width = 0.8 / len(arrays)
    for place, (name, heights) in enumerate(arrays.items()):
        if len(heights) != len(groups):
            fix = "give one number per group"
            raise ValueError(explain("grouped_bars", repr(name), f"{len(groups)} numbers", len(heights), fix))
        at = np.arange(len(groups)) + (place - (len(bars) - 1) / 2) * width
        drawn = axes.bar(at, heights, width * 0.9, label=name, hatch=(None, "//", "..")[place % 3], edgecolor="white")
        axes.bar_label(drawn, [f"{height:.3g}" for height in heights], fontsize=9)
    if log:
        axes.set_yscale("log", base=2)
        axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(groups)), groups)
    axes.set(ylabel=ylabel, title=title)
    axes.margins(y=0.15)
    if len(bars) > 1:
        figure.legend(loc="outside lower center", ncols=len(bars), frameon=False)  # bars may reach anywhere
    return figure


def learning_by_images(counts: Any, accuracies: Mapping[str, Any], *, chance: float) -> Figure:
    """Draw test accuracy over the number of training images.

    Args:
        counts: (n,) numbers of images.
        accuracies: Name -> (n,) accuracies from 0 to 1.
        chance: Accuracy of guessing.

    Returns:
        The figure.

    Raises:
        ValueError: If a curve has another length than ``counts``.
    """
    x = as_array("learning_by_images", "counts", counts, 1)
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    for marker, (name, y) in zip(
        itertools.cycle(MARKERS), as_arrays("learning_by_images", accuracies, 1).items(), strict=False
    ):
        if y.shape != x.shape:
            fix = "give one accuracy per number of images"
            raise ValueError(explain("learning_by_images", repr(name), f"{len(x)} numbers", len(y), fix))
        axes.plot(x, 100 * y, marker=marker, label=name)
    axes.axhline(100 * chance, color="#888888", linestyle=":", label="guessing")
    axes.set(xscale="log", xlabel="training images", ylabel="test accuracy (%)", ylim=(0, 100))
    axes.set_xticks(x, [f"{count:g}" for count in x])
    axes.minorticks_off()
    axes.set_title("the same number of steps, more and more images")
    axes.legend(frameon=False)
    return figure
