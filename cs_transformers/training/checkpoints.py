"""Checkpoints: files that hold tensors and plain numbers only, and are either the old one or the new one, never half.

What is stored loads with ``weights_only=True``: opening a checkpoint from somewhere else runs no code of its author.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cs_transformers.files import atomic_path

FORMAT = 1


def save_checkpoint(path: str | Path, state: dict[str, Any]) -> None:
    """Write a checkpoint in one move: whoever reads the path sees the old file or the new one, whatever happens.

    Args:
        path: File to write; its folder is made where it is missing.
        state: Nested dicts, lists and tuples of tensors, numbers, text, True/False and None. NumPy arrays and scalars
            are turned into tensors and numbers.

    Raises:
        TypeError: If something else is in ``state``; the message says where.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> save_checkpoint(folder / "last.pt", {"step": 3, "weights": {"w": torch.ones(2)}})
        >>> load_checkpoint(folder / "last.pt")["step"]
        3
    """
    plain = _plain(state, "state")
    path = Path(path)
    # Into an open file: given a name, torch.save would put that of the temporary file into the archive.
    with atomic_path(path, who="save_checkpoint") as temporary, temporary.open("wb") as file:
        torch.save({**plain, "format": FORMAT}, file)


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU, as tensors and plain values.

    Args:
        path: File written by :func:`save_checkpoint`.

    Returns:
        The dict that was saved.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged, holds other objects, or was written in a newer format.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"load_checkpoint: expected a checkpoint at {path.absolute()}, found none; train first."
        )
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:
        raise ValueError(
            f"load_checkpoint: expected tensors and plain values in {path.absolute()}, but it cannot be read "
            f"({type(problem).__name__}); the file is damaged or not a checkpoint: delete it and train again."
        ) from problem
    found = state.pop("format", None) if isinstance(state, dict) else None
    if found != FORMAT:
        raise ValueError(
            f"load_checkpoint: expected format {FORMAT} in {path.absolute()}, got {found}; "
            "it was written by something else or by another version: use that one, or train again."
        )
    return state


def rng_state(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Take down where the global random streams of torch, NumPy and Python stand.

    Args:
        device: Device whose stream is kept beside the CPU's.

    Returns:
        A plain dict for :func:`set_rng_state`.
    """
    name, keys, position, has_gauss, cached = np.random.get_state()
    state = {
        "torch": torch.get_rng_state(),
        "numpy": [name, torch.from_numpy(keys.astype(np.int64)), int(position), int(has_gauss), float(cached)],
        "python": random.getstate(),
    }
    if torch.device(device).type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_rng_state(state: dict[str, Any], device: torch.device | str = "cpu") -> None:
    """Put the global random streams back to where :func:`rng_state` found them.

    Args:
        state: What :func:`rng_state` returned.
        device: Device whose stream is put back, if the state holds one.
    """
    name, keys, position, has_gauss, cached = state["numpy"]
    torch.set_rng_state(state["torch"])
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    if "cuda" in state and torch.device(device).type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)


@contextlib.contextmanager
def own_rng(device: torch.device | str = "cpu", seed: int | None = None) -> Iterator[None]:
    """Lend the global random streams to a block of code and put them back behind it.

    Args:
        device: Device whose stream is lent beside the CPU's.
        seed: Start of the streams inside the block; None leaves them where they are.

    Returns:
        A context manager.

    Example:
        >>> with own_rng(seed=1):
        ...     first = torch.rand(1)
        >>> with own_rng(seed=1):
        ...     again = torch.rand(1)
        >>> bool(first == again)
        True
    """
    before = rng_state(device)
    try:
        if seed is not None:
            torch.manual_seed(seed)
            np.random.seed(seed % 2**32)
            random.seed(seed)
        yield
    finally:
        set_rng_state(before, device)


def _plain(value: Any, where: str) -> Any:
    """Turn ``value`` into what ``weights_only=True`` accepts, or say which part cannot be."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return torch.from_numpy(value.copy())
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, dict):
        return {_plain(key, f"a key of {where}"): _plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_plain(item, f"{where}[{index}]") for index, item in enumerate(value))
    raise TypeError(
        f"save_checkpoint: expected tensors, numbers, text, dicts, lists or tuples, got {type(value).__name__} "
        f"at {where}; store plain values, so that the file loads with weights_only=True."
    )
