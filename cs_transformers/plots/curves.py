"""The course of a training: its loss step by step, and what validation said meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from cs_transformers.errors import explain
from cs_transformers.plots.arrays import as_array

SMOOTH = 0.02  # share of the steps that one point of the smooth line looks back on


def loss_curve(losses: Any, *, log: bool = False, title: str = "loss of every step") -> Figure:
    """Draw the loss of every step, and its running mean.

    Args:
        losses: (n,) losses.
        log: Whether the scale is logarithmic; all losses are positive then.
        title: What to see.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no loss, or one is not positive on a logarithmic scale.
    """
    y = as_array("loss_curve", "losses", losses, 1)
    if log and not (y > 0).all():
        raise ValueError(explain("loss_curve", "losses", "positive", f"{y.min():.3g}", "pass log=False"))
    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    _draw_losses(axes, y)
    axes.set(title=title, xlabel="step", ylabel="training loss", yscale="log" if log else "linear")
    axes.legend(frameon=False)
    return figure


def training_curves(losses: Any, rows: Sequence[Mapping[str, float]]) -> Figure:
    """Draw training and validation loss, and beside them whatever else validation measured.

    Args:
        losses: (n,) training losses, one per step.
        rows: One dict per evaluation, with "step", perhaps "val_loss", and other figures that begin with "val_".

    Returns:
        The figure.

    Raises:
        ValueError: If there is no loss, or a row has no step.
    """
    y = as_array("training_curves", "losses", losses, 1)
    if not all("step" in row for row in rows):
        raise ValueError(explain("training_curves", "rows", "a step in every row", "none in one", "pass history.rows"))
    others = list(dict.fromkeys(n for row in rows for n in row if n.startswith("val_") and n != "val_loss"))
    figure, panels = plt.subplots(
        1, 2 if others else 1, figsize=(9 if others else 5.5, 3.2), squeeze=False, layout="constrained"
    )
    left = panels[0][0]
    _draw_losses(left, y)
    _draw_column(left, rows, "val_loss", "validation")
    left.set(title="loss", xlabel="step", ylabel="loss")
    left.legend(frameon=False)
    if others:
        right = panels[0][1]
        for name in others:
            _draw_column(right, rows, name, name.removeprefix("val_"))
        right.set(title="on validation data", xlabel="step")
        right.legend(frameon=False)
    return figure


def _draw_losses(axes: Any, losses: np.ndarray) -> None:
    steps = np.arange(1, len(losses) + 1)
    window = max(1, round(SMOOTH * len(losses)))
    sums = np.concatenate([np.zeros(1), np.cumsum(losses)])
    starts = np.maximum(steps - window, 0)
    axes.plot(steps, losses, color="#BBBBBB", linewidth=0.8, label="each step")
    axes.plot(steps, (sums[steps] - sums[starts]) / (steps - starts), label="running mean")


def _draw_column(axes: Any, rows: Sequence[Mapping[str, float]], name: str, label: str) -> None:
    points = [(row["step"], row[name]) for row in rows if name in row]
    if points:
        axes.plot(*zip(*points, strict=True), marker="o", label=label)
