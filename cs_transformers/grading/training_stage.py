"""The training exercises: each recipe is run once, on the student's mended tree, and its trained weights are judged.

They come after all others, since the mended tree is made of what has passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .judging import Judge, trains
from .model import Record, Submission


def split(ids: Iterable[str]) -> tuple[list[str], list[str]]:
    """Exercises whose check is quick, and those that train.

    Args:
        ids: Exercises.

    Example:
        >>> split(["1.1", "4.6"])
        (['1.1'], ['4.6'])
    """
    wanted = list(ids)
    return [id for id in wanted if not trains(id)], [id for id in wanted if trains(id)]


def grade_recipes(judge: Judge, submission: Submission, ids: Iterable[str], passed: Iterable[str]) -> Iterator[Record]:
    """The verdicts on recipes.

    Args:
        judge: The judge.
        submission: What was handed in.
        ids: Recipes, in order.
        passed: Exercises whose own answer stands in the tree.
    """
    own = [id for id in passed if not trains(id)]
    for id in ids:
        yield judge.grade(submission, id, own)
