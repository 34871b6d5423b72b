"""What the pictures are drawn from: tensors, arrays and lists become NumPy arrays of a known rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from cs_transformers.errors import explain


def as_array(who: str, name: str, value: Any, ndim: int) -> np.ndarray:
    """Return a value as a float array, after a look at its rank.

    Args:
        who: The plot that asks, for the message.
        name: The argument, for the message.
        value: Tensor on any device, array or nested list.
        ndim: Number of axes that the plot can draw.

    Returns:
        A float64 array with ``ndim`` axes, none of length zero.

    Raises:
        ValueError: If the value has another number of axes, or an empty one.
    """
    if isinstance(value, torch.Tensor):
        value = value.detach().to("cpu", torch.float64).numpy()
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != ndim or 0 in array.shape:
        expected = f"an array with {ndim} axes, none of them empty"
        raise ValueError(explain(who, name, expected, f"shape {array.shape}", "index or squeeze it first"))
    return array


def as_arrays(who: str, values: Mapping[str, Any], ndim: int) -> dict[str, np.ndarray]:
    """Return named values as float arrays, after a look at each one's rank.

    Args:
        who: The plot that asks, for the message.
        values: Name -> tensor, array or nested list.
        ndim: Number of axes that the plot can draw.

    Returns:
        Name -> float64 array.

    Raises:
        ValueError: If there is no value, or one has another number of axes or an empty one.
    """
    if not values:
        raise ValueError(explain(who, "the panels", "one or more", "none", "pass {title: values}"))
    return {name: as_array(who, repr(name), value, ndim) for name, value in values.items()}


def as_labels(who: str, name: str, labels: Sequence[str] | None, count: int) -> list[str] | None:
    """Return labels as a list, after a look at their number.

    Args:
        who: The plot that asks, for the message.
        name: The argument, for the message.
        labels: The labels, or None for none.
        count: Number of things to label.

    Returns:
        The labels, or None.

    Raises:
        ValueError: If there are more or fewer labels than things.
    """
    if labels is None:
        return None
    found = [str(label) for label in labels]
    if len(found) != count:
        raise ValueError(explain(who, name, f"{count} labels", len(found), "give one for each row or column"))
    return found
