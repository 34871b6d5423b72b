"""One verdict again, and what changed between two runs: what an instructor needs to answer a complaint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cs_transformers.checks import exercise

from .judging import Judge, trains
from .loading import load
from .model import Classroom, Record, Student
from .sandbox import Sandbox


@dataclass(frozen=True)
class Explained:
    """One verdict, as it was written and as it comes out again.

    Args:
        student: Whose.
        written: The record in the journal, or None.
        again: The record of the same judgement made now.
        code: The student's regions of this exercise, as they were graded, by name.
        same: Whether both agree in state, points and parts.
        moved: What is another now than in the run: the course, the versions.
    """

    student: Student
    written: Record | None
    again: Record
    code: dict[str, str]
    same: bool
    moved: tuple[str, ...]


def explain_verdict(out: Path, student: str, id: str, *, require_sandbox: bool = False) -> Explained:
    """Judge one exercise of one student again, with the seeds of the run.

    Args:
        out: Folder of the grades.
        student: Id of the person, in letters of any case where only one fits.
        id: The exercise.
        require_sandbox: Refuse to run where students' code cannot be isolated.

    Raises:
        ValueError: If there is no such run, student or exercise, or nothing was handed in.
    """
    one, classroom = exercise(id), load(out)
    found = _student(classroom, student)
    if found.submission is None:
        raise ValueError(f"cst explain: expected somebody who handed in, got {student}, who is absent")
    if one.id not in classroom.exercises:
        graded = ", ".join(classroom.exercises)
        raise ValueError(f"cst explain: expected an exercise that this run graded ({graded}), got {one.id}")
    with Judge(key=bytes.fromhex(classroom.key), sandbox=Sandbox(require=require_sandbox)) as judge:
        try:
            passed = [ex for ex, record in found.records.items() if record.state == "passed" and not trains(ex)]
            again = judge.grade(found.submission, one.id, passed if trains(one.id) else ())
        finally:
            judge.sandbox.close()
        written = found.records.get(one.id)
        regions = found.submission.answers.of(one.file, one.id) if one.file else {}
        code = {name: f"line {region.first}\n{region.body}" for name, region in regions.items()}
        same = written is not None and _core(written) == _core(again)
        moved = _moved(classroom, written, again)
    return Explained(found, written, again, code, same, moved)


def _student(classroom: Classroom, student: str) -> Student:
    if student not in classroom.students:
        alike = [id for id in classroom.students if id.casefold() == student.strip().casefold()]
        if len(alike) == 1:
            return classroom.students[alike[0]]
        near = [id for id in classroom.students if student.casefold() in id.casefold()] or list(classroom.students)
        raise ValueError(f"cst explain: expected an id of the class such as {', '.join(near[:5])}, got {student!r}")
    return classroom.students[student]


def _core(record: Record) -> tuple:
    return record.state, record.points, record.out_of, record.parts, record.diagnosis


def _moved(classroom: Classroom, written: Record | None, again: Record) -> tuple[str, ...]:
    import numpy
    import torch

    now = {"torch": torch.__version__, "numpy": numpy.__version__}
    found = [
        f"{name} was {classroom.versions.get(name)} and is {version}"
        for name, version in now.items()
        if classroom.versions.get(name) != version
    ]
    if written is not None and written.digest != again.digest:
        found.append("the course, the versions or what was handed in are not those of the run any more")
    if written is not None and written.tier != again.tier:
        found.append(f"answers were isolated by {written.tier or 'nothing'}, now by {again.tier or 'nothing'}")
    return tuple(found)


@dataclass(frozen=True)
class Change:
    """A mark that is another now.

    Args:
        student: Id of the person.
        exercise: The exercise; empty for a person who came or went.
        old: What it was, in words.
        new: What it is.
        points: How many points more.
    """

    student: str
    exercise: str
    old: str
    new: str
    points: float


def changes(old: Classroom, new: Classroom) -> list[Change]:
    """Marks that differ between two runs of a class, by student and exercise.

    Args:
        old: The one.
        new: The other.
    """
    found: list[Change] = []
    for id in dict.fromkeys([*old.students, *new.students]):
        before, after = old.students.get(id), new.students.get(id)
        if before is None or after is None:
            points = (after.automatic + after.manual if after else 0) - (
                before.automatic + before.manual if before else 0
            )
            words = ("not in the class", "in the class")
            found.append(Change(id, "", words[before is not None], words[after is not None], points))
            continue
        for exercise_id in dict.fromkeys([*old.exercises, *new.exercises]):
            one, other = _mark(before, exercise_id), _mark(after, exercise_id)
            if one != other:
                found.append(Change(id, exercise_id, one[0], other[0], other[1] - one[1]))
        one, other = (sum(a.points for a in student.adjustments if not a.exercise) for student in (before, after))
        if one != other:
            found.append(Change(id, "all", f"adjusted by {one:g}", f"adjusted by {other:g}", other - one))
    return found


def _mark(student: Student, id: str) -> tuple[str, float]:
    """State and points of one exercise, those of its text and corrections included."""
    record, mark = student.records.get(id), student.marks.get(id)
    extra = sum(one.points for one in student.adjustments if one.exercise == id)
    points = (record.points if record else 0) + (mark.points if mark else 0) + extra
    words = f"{record.state if record else 'not graded'}, {record.points if record else 0}"
    words += f", text {mark.points:g}" if mark else ""
    words += f", adjusted by {extra:g}" if extra else ""
    return words, points
