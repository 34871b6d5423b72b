"""Comparison of what an answer gave with what the reference gave: plain arrays, one tolerance with a reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Checks run in float64. Other orders of summation, other processors and a scale kept in float32 move a result by at
# most about 1e-7 of its size; the smallest listed mistake moves it by more than 1e-3. The tolerance lies between.
TOLERANCE = 1e-5
FLOOR = 1e-3  # arrays smaller than this are compared as if they were this large: a difference of 1e-17 is no error


@dataclass(frozen=True)
class Difference:
    """The first entry in which two arrays differ, or a difference of kind or shape.

    Args:
        aspect: ``shape``, ``dtype``, ``values`` or ``text``.
        index: Place of the first entry that differs; empty for scalars and for other aspects.
        expected: What the reference has there, as text.
        got: What the answer has there, as text.
    """

    aspect: str
    index: tuple[int, ...]
    expected: str
    got: str


def compare_kinds(expected: np.ndarray, got: np.ndarray, expected_kind: str, got_kind: str) -> Difference | None:
    """Difference of shape or of dtype, shape first; numbers of Python and numpy count as one kind.

    Args:
        expected: The reference's array.
        got: The answer's array.
        expected_kind: What the reference recorded, ``float64 tensor``.
        got_kind: What the answer recorded.
    """
    if expected.shape != got.shape:
        return Difference("shape", (), str(expected.shape), str(got.shape))
    if _family(expected_kind) != _family(got_kind):
        return Difference("dtype", (), expected_kind, got_kind)
    return None


def compare_values(expected: np.ndarray, got: np.ndarray, scale: float | None = None) -> Difference | None:
    """The first entry that is further off than the tolerance allows, or None.

    Args:
        expected: The reference's array.
        got: The answer's array, of the same shape.
        scale: Size that errors are relative to; default: the largest finite entry of ``expected``.

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> compare_values(np.array([1.0, 2.0]), np.array([1.0, 2.5])).index
        (1,)
    """
    if expected.shape != got.shape:
        raise ValueError(
            f"compare_values: expected an array of shape {expected.shape}, got {got.shape}; compare the shapes first"
        )
    wrong = differing(expected, got, scale)
    if not wrong.any():
        return None
    index = tuple(int(place) for place in np.argwhere(wrong)[0])
    return Difference("values", index, _show(expected[index]), _show(got[index]))


def differing(expected: np.ndarray, got: np.ndarray, scale: float | None = None) -> np.ndarray:
    """Where two arrays of one shape differ: a bool array.

    Args:
        expected: The reference's array.
        got: The answer's array, of the same shape.
        scale: Size that errors are relative to.
    """
    exact = not (np.issubdtype(expected.dtype, np.inexact) or np.issubdtype(got.dtype, np.inexact))
    if exact:
        return expected != got
    wide = np.complex128 if np.iscomplexobj(expected) or np.iscomplexobj(got) else np.float64
    expected, got = expected.astype(wide), got.astype(wide)
    finite = np.isfinite(expected) & np.isfinite(got)
    allowed = TOLERANCE * (size_of(expected) if scale is None else max(scale, FLOOR))
    with np.errstate(invalid="ignore"):
        near = np.abs(expected - got) <= allowed
    same_special = (expected == got) | (np.isnan(expected) & np.isnan(got))
    return ~np.where(finite, near, same_special)


def size_of(array: np.ndarray) -> float:
    """Largest finite magnitude of an array, at least the floor.

    Args:
        array: Any array.
    """
    magnitudes = np.abs(array[np.isfinite(array)])
    return max(float(magnitudes.max()) if magnitudes.size else 0.0, FLOOR)


def _family(kind: str) -> str:
    return {"bool": "number", "int": "number", "float": "number"}.get(kind, kind)


def _show(value: np.generic) -> str:
    return f"{value:.4g}" if np.issubdtype(value.dtype, np.inexact) else str(value)
