"""Files of trained models: what a file holds, and a clear word where that is something else or does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cs_transformers.errors import explain
from cs_transformers.training.checkpoints import load_checkpoint

PARTS = {  # more telling ones first
    "translator": {"recipe", "model", "source", "target", "known"},
    "detector": {"recipe", "model", "classes"},
    "restorer": {"sizes", "model"},
    "training that is to be resumed": {"step", "config", "optimizers", "model"},
    "training's best weights": {"step", "row", "model"},
}
COMMANDS = {"translator": "cst train translate", "detector": "cst train detect", "restorer": "cst train restore"}


def kind_of(state: dict[str, Any]) -> str:
    """Name what a checkpoint holds.

    Args:
        state: What ``load_checkpoint`` gave.

    Returns:
        "a" and the kind, or the names of its entries.

    Example:
        >>> kind_of({"sizes": {}, "model": {}}), kind_of({"weights": 1, "bias": 2})
        ('a restorer', 'bias, weights')
    """
    for kind, parts in PARTS.items():
        if parts <= set(state):
            return f"a {kind}"
    names = sorted(map(str, state))
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more entries" if len(names) > 6 else "") or "nothing"


def load_parts(path: Path, kind: str, *, who: str) -> dict[str, Any]:
    """Read the file of a trained model.

    Args:
        path: The file.
        kind: "translator", "detector" or "restorer".
        who: The function the caller used.

    Returns:
        Its parts.

    Raises:
        ValueError: If the file is damaged, or holds something else; the message says what.
    """
    state = load_checkpoint(path)
    found = kind_of(state)
    if found != f"a {kind}":
        got = f"{path.absolute()}, which holds {found}"
        fix = f"name the file {kind}.pt, or the folder, of a training by {COMMANDS[kind]}"
        raise ValueError(explain(who, "path", f"the file of a {kind}", got, fix))
    return state


@contextmanager
def rebuilding(path: Path, kind: str, *, who: str) -> Iterator[None]:
    """Turn what goes wrong while a model is built from a file's parts into one error that names the file.

    Args:
        path: The file.
        kind: "translator", "detector" or "restorer".
        who: The function the caller used.

    Raises:
        ValueError: If sizes or weights do not fit each other.
    """
    try:
        yield
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as problem:
        reason = " ".join(str(problem).split())
        reason = reason if len(reason) <= 300 else f"{reason[:300]} ..."
        got = f"{path.absolute()}, in which they do not ({type(problem).__name__}: {reason})"
        expected = f"the file of a {kind} whose weights fit its sizes"
        fix = f"it was changed or is of another version: train again with {COMMANDS[kind]}"
        raise ValueError(explain(who, "path", expected, got, fix)) from problem
