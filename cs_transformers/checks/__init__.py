"""Checks: is an exercise solved, and if not, what is wrong with it."""

from .front import check, details_of, hint, ids_of, next_hint, report, run, run_all
from .registry import EXERCISES, NOTEBOOKS, Exercise, Notebook, exercise
from .verdict import Verdict

__all__ = [
    "EXERCISES",
    "NOTEBOOKS",
    "Exercise",
    "Notebook",
    "Verdict",
    "check",
    "details_of",
    "exercise",
    "hint",
    "ids_of",
    "next_hint",
    "report",
    "run",
    "run_all",
]
