"""All results of a graded class at once."""

from __future__ import annotations

from pathlib import Path

from . import feedback, gradebook, gradescope, report
from .model import Classroom


def write(classroom: Classroom, out: Path) -> list[Path]:
    """Write gradebooks, feedback, Gradescope's files and the class report; the same class gives the same bytes.

    Args:
        classroom: The class.
        out: Folder of the grades.

    Returns:
        The files.
    """
    files = [*gradebook.write(classroom, out), *feedback.write(classroom, out), *gradescope.write(classroom, out)]
    return [*files, report.write(classroom, out)]
