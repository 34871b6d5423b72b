"""What an edition of the course hands out: the exercises to write, those that are given, and what it asks of a student.

``cst release`` leaves ``release.json`` in the package. Without it the package is the instructor edition: every exercise
is there to be written, and everything else is empty.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from pathlib import Path

from cs_transformers import __version__

from .registry import EXERCISES, NOTEBOOKS, Exercise
from .verdict import Verdict

RELEASE = "release.json"
INSTRUCTOR = "instructor"


@dataclass(frozen=True)
class Edition:
    """One edition.

    Args:
        id: Hash of its files, or ``instructor``.
        course: Version of the course it was made from.
        notebooks: Numbers of the notebooks it has.
        open: Exercises to write; points and percentages refer to them alone.
        solved: Exercises whose solution it gives.
        later: Exercises that are handed out another time.
        diagnosis: ``full`` names known mistakes, ``stage`` only says where an answer fails.
        self_study: Whether `cst solution` is there.
        policy: What the course says about the use of AI, or empty.
        url: Where its zip lies, or empty.
        files: SHA-256 of every file as it was handed out, by path.
    """

    id: str = INSTRUCTOR
    course: str = __version__
    notebooks: tuple[str, ...] = tuple(NOTEBOOKS)
    open: tuple[str, ...] = tuple(EXERCISES)
    solved: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    diagnosis: str = "full"
    self_study: bool = False
    policy: str = ""
    url: str = ""
    files: dict[str, str] = field(default_factory=dict)

    @property
    def points(self) -> int:
        """All points that can be earned in it, those of texts included."""
        return sum(EXERCISES[id].points for id in self.open if id in EXERCISES)

    def asks(self, id: str) -> bool:
        """Whether an exercise is to be written in this edition.

        Args:
            id: The exercise.
        """
        return self.id == INSTRUCTOR or id in self.open

    def asked(self, notebooks: Collection[str]) -> list[Exercise]:
        """Exercises of some notebooks that are to be written in this edition, in the course's order.

        Args:
            notebooks: Numbers of two digits.
        """
        return [one for one in EXERCISES.values() if one.notebook in notebooks and self.asks(one.id)]

    def given(self, exercise: Exercise) -> Verdict | None:
        """The verdict on an exercise that is not to be written here, or None.

        Args:
            exercise: An exercise.
        """
        if self.asks(exercise.id):
            return None
        verdict = Verdict(exercise.id, exercise.symbol, "given" if exercise.id in self.solved else "later")
        where = f"the solution stands in {exercise.file}" if exercise.file else "its question is not asked"
        verdict.lines = [f"this edition gives it: {where}" if verdict.state == "given" else "it is handed out later"]
        return verdict


def load(package: Path) -> Edition:
    """The edition that a package belongs to.

    Args:
        package: Folder of the package.

    Raises:
        ValueError: If its description is damaged.
    """
    path = package / RELEASE
    if not path.is_file():
        return Edition()
    return parse(path.read_bytes(), path.name)


def parse(data: bytes, name: str = RELEASE) -> Edition:
    """The edition that a ``release.json`` describes.

    Args:
        data: The file's bytes.
        name: What the message calls it.

    Raises:
        ValueError: If it is damaged.
    """
    try:
        record = json.loads(data)
        known = {one.name: type(one.default) for one in fields(Edition) if one.name != "files"}
        values = {key: record[key] for key in known}
        values = {key: tuple(value) if known[key] is tuple else value for key, value in values.items()}
        texts = [one for value in values.values() if isinstance(value, tuple) for one in value]
        if not all(isinstance(value, known[key]) for key, value in values.items()) or not isinstance(
            record["files"], dict
        ):
            raise TypeError
        if not all(isinstance(one, str) for one in texts):
            raise TypeError
        return Edition(**values, files=dict(record["files"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"release: expected a readable {name}, got {type(error).__name__}; take it again from the zip that you "
            "were given, your answers stay"
        ) from None


def encode(edition: Edition) -> str:
    """The text of ``release.json``.

    Args:
        edition: An edition.
    """
    record = {one.name: getattr(edition, one.name) for one in fields(Edition)}
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"
