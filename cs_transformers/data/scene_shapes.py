"""The shapes and colours of the embedded world, drawn in integers so that no machine rounds differently."""

from __future__ import annotations

from functools import cache

import numpy as np

SHAPES = ("circle", "square", "triangle", "cross", "diamond")
SIZES = ("small", "large")
COLOURS = {  # far apart in CIELAB also for protan, deutan and tritan eyes; a test simulates all three
    "red": (205, 40, 15),
    "yellow": (236, 226, 80),
    "green": (15, 163, 117),
    "blue": (43, 93, 226),
    "purple": (158, 130, 214),
    "white": (250, 250, 250),
}
_SUB = 8  # an edge is placed in eighths of a pixel and sampled four times per axis
_UNIT = 60  # outlines below are in sixtieths of the radius
_OUTLINES = {
    "square": ((-51, -51), (51, -51), (51, 51), (-51, 51)),
    "triangle": ((0, -60), (60, 52), (-60, 52)),
    "diamond": ((0, -60), (38, 0), (0, 60), (-38, 0)),
    "cross": (
        (-20, -60), (20, -60), (20, -20), (60, -20), (60, 20), (20, 20),
        (20, 60), (-20, 60), (-20, 20), (-60, 20), (-60, -20), (-20, -20),
    ),
}  # fmt: skip


@cache
def coverage(shape: str, radius: int) -> np.ndarray:
    """Count, for each pixel around the centre of a shape, how many of its 4 x 4 sample points lie inside.

    Args:
        shape: One of ``SHAPES``.
        radius: R, in pixels.

    Returns:
        (2R+1, 2R+1) of 0..16, read-only.
    """
    steps = np.arange(-radius * _SUB - _SUB // 2 + 1, radius * _SUB + _SUB // 2, 2, dtype=np.int64)  # 4 a pixel
    x, y = steps[None, :] * _UNIT, steps[:, None] * _UNIT
    reach = radius * _SUB
    if shape == "circle":
        inside = x * x + y * y <= (reach * _UNIT) ** 2
    else:
        inside = np.zeros((len(steps), len(steps)), dtype=bool)
        corners = _OUTLINES[shape]
        for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):  # even-odd rule
            spans = (y0 * reach <= y) != (y1 * reach <= y)
            side_of = (x - x0 * reach) * (y1 - y0) - (y - y0 * reach) * (x1 - x0)
            inside ^= spans & ((side_of < 0) == (y1 > y0))
    size = 2 * radius + 1
    covered = inside.reshape(size, 4, size, 4).sum(axis=(1, 3))
    covered.setflags(write=False)
    return covered


def bounding_box(shape: str, x: int, y: int, radius: int) -> tuple[int, int, int, int]:
    """Give the smallest box around the pixels that a shape touches.

    Args:
        shape: One of ``SHAPES``.
        x: Column of the centre, in pixels.
        y: Row of the centre, in pixels.
        radius: R, in pixels.

    Returns:
        (x0, y0, x1, y1): columns x0..x1-1 and rows y0..y1-1.
    """
    covered = coverage(shape, radius) > 0
    rows, columns = np.flatnonzero(covered.any(axis=1)), np.flatnonzero(covered.any(axis=0))
    left, top = x - radius, y - radius
    return (left + int(columns[0]), top + int(rows[0]), left + int(columns[-1]) + 1, top + int(rows[-1]) + 1)
