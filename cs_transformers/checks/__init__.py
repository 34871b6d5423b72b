"""Checks: is an exercise solved, and if not, what is wrong with it."""

from .front import check, hint, report, run, run_all
from .registry import EXERCISES, NOTEBOOKS, Exercise, Notebook, exercise
from .verdict import Verdict

__all__ = [
    "EXERCISES",
    "NOTEBOOKS",
    "Exercise",
    "Notebook",
    "Verdict",
    "check",
    "exercise",
    "hint",
    "report",
    "run",
    "run_all",
]
