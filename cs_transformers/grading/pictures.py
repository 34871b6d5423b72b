"""Pictures in a page, as SVG: what was expected beside what came, and how the points are spread.

Small, the same on every machine, readable on light and dark pages and by colour-blind people.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from .texts import one_line

LARGEST = 12  # rows and columns shown: a picture helps as long as single entries can be seen
CELL, GAP, TOP = 22, 34, 24
# ColorBrewer's PuOr for signed values and matplotlib's cividis for magnitudes, in nine steps each. Few steps on
# purpose: a picture is to show a pattern, and what a student's process sends is not to travel far through it.
SIGNED = ["#b35806", "#e08214", "#fdb863", "#fee0b6", "#f7f7f7", "#d8daeb", "#b2abd2", "#8073ac", "#542788"]
MAGNITUDES = ["#00224e", "#1d3c6d", "#42506c", "#61646f", "#7d7c78", "#9b9476", "#bbaf71", "#ddcb5d", "#fee838"]


def side_by_side(picture: dict[str, Any]) -> str:
    """Two heat maps in one scale, the entries that differ marked by a dot; nothing where there is no picture to make.

    Args:
        picture: ``expected`` and ``got`` (rows of numbers) and ``label``.
    """
    grids = [_grid(picture.get(name)) for name in ("expected", "got")]
    if any(grid is None for grid in grids):
        return ""
    expected, got = grids
    colours, low, high = _scale(expected)
    differs = _differences(expected, got)
    left, parts, height = 0, [], 0
    for name, grid in (("expected", expected), ("got", got)):
        shown = grid[:LARGEST, :LARGEST]
        parts.append(f'<text x="{left}" y="14">{name} {_shape(grid)}</text>')
        for row, values in enumerate(shown):
            for column, value in enumerate(values):
                marked = name == "got" and (differs is None or differs[row, column])
                parts.append(_cell(left + column * CELL, TOP + row * CELL, value, colours, low, high, marked))
        left += max(shown.shape[1] * CELL, 130) + GAP
        height = max(height, TOP + shown.shape[0] * CELL, TOP + 32)
    parts.append(_legend(left, colours, low, high))
    left += 14 * len(colours) + GAP
    label = html.escape(one_line(picture.get("label", "")))
    return (
        f'<svg class="heat" role="img" viewBox="0 0 {left - GAP} {height + 2}" width="{left - GAP}">'
        f"<title>{label}</title>{''.join(parts)}</svg>"
    )


def _grid(values: Any) -> np.ndarray | None:
    """The numbers as a matrix: more axes are cut to their first entry."""
    if not isinstance(values, list):
        return None
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    while array.ndim > 2:
        array = array[0] if array.shape[0] else array.reshape(0, 0)
    array = np.atleast_2d(array)
    return array if array.size else None


def _scale(expected: np.ndarray) -> tuple[list[str], float, float]:
    """Colours and limits, from what was expected alone: the other grid cannot stretch them."""
    finite = expected[np.isfinite(expected)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low < 0:
        most = max(-low, high)
        return SIGNED, -most, most
    return MAGNITUDES, low, high


def _differences(expected: np.ndarray, got: np.ndarray) -> np.ndarray | None:
    if expected.shape != got.shape:
        return None
    finite = np.abs(expected[np.isfinite(expected)])
    size = float(finite.max()) if finite.size else 1.0
    with np.errstate(invalid="ignore"):
        return ~((expected == got) | (np.abs(expected - got) <= 1e-6 * max(size, 1e-30)))


def _cell(x: int, y: int, value: float, colours: list[str], low: float, high: float, marked: bool) -> str:
    box = f'x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}"'
    if np.isfinite(value):
        place = (value - low) / (high - low) if high > low else 0.5
        step = int(np.clip(place * len(colours), 0, len(colours) - 1))
        drawn = f'<rect {box} fill="{colours[step]}" class="box"/>'
    else:
        name = "NaN" if np.isnan(value) else "∞" if value > 0 else "-∞"
        drawn = f'<rect {box} class="none"/><text x="{x + 10}" y="{y + 13}" class="small">{name}</text>'
        marked = False  # its name says enough
    return drawn + (f'<circle cx="{x + 10}" cy="{y + 10}" r="3.5" class="mark"/>' if marked else "")


def _legend(x: int, colours: list[str], low: float, high: float) -> str:
    steps = "".join(
        f'<rect x="{x + 14 * place}" y="{TOP}" width="13" height="13" fill="{colour}" class="box"/>'
        for place, colour in enumerate(colours)
    )
    ends = ((x, "start", low), (x + 14 * len(colours), "end", high))
    labels = (f'<text x="{at}" y="{TOP + 28}" text-anchor="{side}">{value:.2g}</text>' for at, side, value in ends)
    return f'<text x="{x}" y="14">value</text>{steps}{"".join(labels)}'


def _shape(grid: np.ndarray) -> str:
    rows, columns = grid.shape
    cut = f", first {min(rows, LARGEST)} x {min(columns, LARGEST)} shown" if max(grid.shape) > LARGEST else ""
    return f"({rows} x {columns}{cut})"


def histogram(shares: Sequence[float], bins: int = 10) -> str:
    """How many students earned which share of the points.

    Args:
        shares: One share for each student, 0 to 1; above 1 counts as 1.
        bins: Number of bars.
    """
    counts = [0] * bins
    for share in shares:
        counts[min(int(max(share, 0.0) * bins + 1e-9), bins - 1)] += 1
    most, width, height = max([*counts, 1]), 56, 160
    parts = []
    for bar, count in enumerate(counts):
        size, x = round(count / most * height), bar * width
        parts.append(f'<rect x="{x + 3}" y="{20 + height - size}" width="{width - 6}" height="{size}" class="bar"/>')
        if count:
            parts.append(f'<text x="{x + width / 2:g}" y="{14 + height - size}" class="middle">{count}</text>')
    for edge in range(bins + 1):
        parts.append(f'<text x="{edge * width}" y="{height + 38}" class="middle">{round(100 * edge / bins)}</text>')
    return (
        f'<svg class="histogram" role="img" viewBox="-16 0 {bins * width + 32} {height + 62}">'
        f"<title>{len(shares)} students by share of the points</title>"
        f'<line x1="0" x2="{bins * width}" y1="{height + 20}" y2="{height + 20}" class="axis"/>{"".join(parts)}'
        f'<text x="{bins * width / 2:g}" y="{height + 58}" class="middle">percent of the points</text></svg>'
    )
