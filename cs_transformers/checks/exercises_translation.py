"""Notebook 07: translation."""

from __future__ import annotations

from .exercise import Exercise, Notebook

NOTEBOOK_ROWS: tuple[Notebook, ...] = ()

EXERCISE_ROWS: tuple[Exercise, ...] = ()
