"""Bringing saved review pages into a folder of grades, and writing its results anew."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from . import marks
from .loading import build, entries_of, load
from .model import Classroom, Mark


def merge_pages(out: Path, paths: Iterable[Path]) -> tuple[Classroom, list[str]]:
    """Put saved review pages into a folder of grades; its results are written anew.

    Args:
        out: Folder of the grades.
        paths: Saved pages.

    Returns:
        The class with its marks, and a sentence for each mark that does not hold.

    Raises:
        ValueError: If ``out`` holds no grades or a file is no saved page; nothing is changed then.
    """
    from .run import write_results

    classroom = build(entries_of(out), out)
    kept, outdated = marks.read_kept(classroom, out)
    new, problems = marks.read_pages(paths, classroom)
    marks.save([*kept, *new], classroom, out)
    problems = [*outdated, *problems, *marks.apply(classroom, out)]
    classroom = load(out)
    write_results(classroom, out)
    return classroom, problems


def disputes_in(out: Path) -> dict[str, list[Mark]]:
    """The answers that graders disagree on, by token, with what each gave.

    Args:
        out: Folder of the grades.
    """
    classroom = build(entries_of(out), out)
    return marks.disputed(marks.read_kept(classroom, out)[0], classroom)
