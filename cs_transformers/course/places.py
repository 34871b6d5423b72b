"""Where things lie, in words: paths as a person would type them, and which copy of the course a command works on."""

from __future__ import annotations

from pathlib import Path

from cs_transformers.checks import edition, tree
from cs_transformers.course import classroom


def told(path: Path) -> str:
    """A path as it is typed here: from the folder one stands in, from ``~`` where that is home, or in full.

    Args:
        path: A file or folder.

    Example:
        >>> told(Path.cwd()), told(Path.cwd() / "work")
        ('this folder', 'work')
    """
    here, own = Path.cwd(), Path.home()
    if path == here:
        return "this folder"
    if path.is_relative_to(here):
        return str(path.relative_to(here))
    return str(Path("~") / path.relative_to(own)) if path.is_relative_to(own) else str(path)


def is_instructors(home: Path) -> bool:
    """Whether a copy of the course is the instructor edition, which answers with the solutions.

    Args:
        home: Its folder.
    """
    return edition.load(home / tree.PACKAGE_NAME).id == edition.INSTRUCTOR


def which_copy(home: Path | None = None) -> str:
    """What a check or a submission of a copy is about, and where that copy lies.

    Args:
        home: Its folder; default: that of this package.
    """
    home = home or classroom.course_home()
    what = "the solutions of the instructor edition" if is_instructors(home) else "the copy of the course"
    return f"{what} in {told(home)}"
