"""Notebook 10: efficient attention."""

from __future__ import annotations

from .exercise import Exercise, Notebook

NOTEBOOK_ROWS: tuple[Notebook, ...] = ()

EXERCISE_ROWS: tuple[Exercise, ...] = ()
