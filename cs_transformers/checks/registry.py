"""The exercises: what is written where, what it is worth, what it needs, what it may not call.

To add an exercise (or a notebook):

1. Mark its region in the package: ``BEGIN SOLUTION 7.3`` ... ``END SOLUTION 7.3`` as the tail of a function body.
2. Add a row to ``exercises_<topic>.py``. ``parts`` are the parts of its check in the order of ``stages.STAGES``, with
   the points each gives; a part called ``values: with a mask`` belongs to the stage ``values``, and where there is a
   part ``values`` too, counts only if that one passes. A part of 0 points guards the part before it: the points come
   only if both pass. ``needs`` are exercises it cannot run without.
3. Write its check, a function under ``@check("7.3")`` in ``definitions/<definitions of the notebook>.py``: build, fill,
   call, record, with ``probe.part(...)`` for each part. It holds no expected value.
4. Put wrong bodies in ``mistakes/7_3/*.py``, at least three; the first line is a comment with the diagnosis. Where the
   exercise has several regions, the second line says which: ``# region: 1.5 split_heads``.
5. Write three steps of hints in ``hints/<notebook>.md``.
6. ``cst refresh 7.3`` stores the reference's numbers and the mistakes' fingerprints. The tests in ``tests/checks``
   find the rest by themselves.
"""

from __future__ import annotations

from . import exercises_core, exercises_detection, exercises_efficient, exercises_restoration, exercises_translation
from .exercise import AUTOGRAD, TORCH_ATTENTION, Exercise, Notebook

__all__ = [
    "AUTOGRAD",
    "EXERCISES",
    "NOTEBOOKS",
    "TORCH_ATTENTION",
    "Exercise",
    "Notebook",
    "closure",
    "definitions_of",
    "exercise",
]

_TOPICS = (exercises_core, exercises_translation, exercises_detection, exercises_restoration, exercises_efficient)
NOTEBOOKS = {notebook.number: notebook for topic in _TOPICS for notebook in topic.NOTEBOOK_ROWS}
EXERCISES = {exercise.id: exercise for topic in _TOPICS for exercise in topic.EXERCISE_ROWS}


def exercise(id: str) -> Exercise:
    """The exercise of an id.

    Args:
        id: The exercise, ``1.6``.

    Raises:
        ValueError: If there is none.
        TypeError: If the id is no text (1.10 and 1.1 are one number, but two exercises).
    """
    if not isinstance(id, str):
        raise TypeError(f'exercise: expected an id as text, got {id!r}; write it in quotes, check("{id}")')
    if id.strip() not in EXERCISES:
        number = id.strip().partition(".")[0].lstrip("0")
        near = [known for known in EXERCISES if known.partition(".")[0] == number]
        raise ValueError(
            f"exercise: expected an exercise such as {', '.join(near or list(EXERCISES)[:4])}, got {id!r}; "
            "`cst check` lists them all"
        )
    return EXERCISES[id.strip()]


def definitions_of(exercise: Exercise) -> str:
    """File of check functions, without its ending, that holds an exercise's check.

    Args:
        exercise: An exercise.
    """
    return NOTEBOOKS[exercise.notebook].definitions


def closure(id: str) -> list[str]:
    """An exercise and everything it needs, needed ones first.

    Args:
        id: The exercise.
    """
    found: list[str] = []
    for needed in EXERCISES[id].needs:
        found += [one for one in closure(needed) if one not in found]
    return [*found, id]
