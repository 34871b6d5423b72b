"""Notebook 08: detection."""

from __future__ import annotations

from .exercise import Exercise, Notebook

NOTEBOOK_ROWS: tuple[Notebook, ...] = ()

EXERCISE_ROWS: tuple[Exercise, ...] = ()
