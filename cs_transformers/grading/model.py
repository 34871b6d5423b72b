"""What grading works with: submissions, verdicts on them, marks by people, and the class they make up."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cs_transformers.checks.tree import Answers

AWAITING = "awaiting review"


@dataclass(frozen=True)
class Person:
    """A line of the roster, or somebody who handed in without being on it.

    Args:
        id: What the marks are filed under: the roster's id, else one made from the name of what was handed in.
        name: As people write it.
        section: A group of the class, or empty.
        listed: Whether the roster has this person.
    """

    id: str
    name: str = ""
    section: str = ""
    listed: bool = True


@dataclass(frozen=True)
class Submission:
    """What one person handed in, taken in and cleaned: nothing of it was run.

    Args:
        person: Whose it is.
        attempt: Which of several this is, counted from 1; the latest counts.
        source: Name of the file or folder it came in.
        digest: SHA-256 of everything that is graded: answers and texts.
        answers: Answer regions of the package's files.
        texts: Inline answers by exercise (Markdown).
        repairs: What was mended to read it, a sentence each.
        changes: What was changed outside the answer regions and has no effect, a sentence each.
        incidents: What looks like an attack (a path out of the archive, a link, a bomb), a sentence each.
        problem: Why it cannot be graded at all; empty when it can.
        manifest: What `cst submit` wrote, unverified: for display only.
        folder: Where its files were unpacked.
    """

    person: Person
    attempt: int
    source: str
    digest: str
    answers: Answers
    texts: dict[str, str] = field(default_factory=dict)
    repairs: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    incidents: tuple[str, ...] = ()
    problem: str = ""
    manifest: dict = field(default_factory=dict)
    folder: Path | None = None


@dataclass(frozen=True)
class Record:
    """One line of the journal: the verdict on one exercise of one submission.

    Args:
        student: Id of the person.
        exercise: The exercise.
        state: passed, partly, wrong, not attempted, forbidden call, stopped, awaiting review.
        points: Automatic points earned.
        out_of: Automatic points possible.
        review: Points that a person can give for the text.
        lines: Sentences for the student.
        diagnosis: Known mistakes that give exactly these numbers.
        parts: Whether each part of the check passed; None where it was not judged.
        stage: The first stage that fails, or empty.
        detail: Why it was stopped.
        picture: Arrays where a picture helps, ``{"expected": [[...]], "got": [[...]], "label": "..."}``, or empty.
        incident: What the sandbox had to stop, or empty.
        tier: How it was isolated.
        digest: Hash of submission, grader and exercise: what `--resume` compares.
        seconds: Wall time; kept in the journal, never in results.
    """

    student: str
    exercise: str
    state: str
    points: int = 0
    out_of: int = 0
    review: int = 0
    lines: tuple[str, ...] = ()
    diagnosis: tuple[str, ...] = ()
    parts: dict[str, bool | None] = field(default_factory=dict)
    stage: str = ""
    detail: str = ""
    picture: dict = field(default_factory=dict)
    incident: str = ""
    tier: str = ""
    digest: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Mark:
    """Points that a person gave for the text of an exercise.

    Args:
        student: Id of the person marked.
        exercise: The question.
        points: Points given.
        items: Rubric items that were met.
        comment: What the student reads.
        grader: Who gave it.
        settled: Whether it decides between graders who disagreed.
    """

    student: str
    exercise: str
    points: float
    items: tuple[str, ...] = ()
    comment: str = ""
    grader: str = ""
    settled: bool = False


@dataclass(frozen=True)
class Adjustment:
    """A correction by hand: a line of adjustments.csv.

    Args:
        student: Id of the person.
        exercise: The exercise, or empty for the whole.
        points: Points added (negative: taken away).
        reason: What the student reads.
    """

    student: str
    exercise: str
    points: float
    reason: str


@dataclass(frozen=True)
class NotebookRun:
    """What nbval said of one notebook, re-executed on a student's mended tree.

    Args:
        student: Id of the person.
        notebook: ``01_attention``.
        cells: Outcome by cell id: passed, failed, timeout, crashed, xpass, missing.
        verdicts: Outcome by exercise whose check cell stands in the notebook.
        problem: Why the run broke off, or empty.
        digest: Hash of everything it depends on: what `--resume` compares.
    """

    student: str
    notebook: str
    cells: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    digest: str = ""


@dataclass
class Student:
    """Everything known of one person.

    Args:
        person: Who.
        submission: The attempt that counts, or None: absent.
        records: Verdicts by exercise.
        marks: Marks of texts by exercise.
        adjustments: Corrections by hand.
        notebooks: What nbval said, by notebook.
        attempts: How many attempts were taken in.
    """

    person: Person
    submission: Submission | None = None
    records: dict[str, Record] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)
    adjustments: list[Adjustment] = field(default_factory=list)
    notebooks: dict[str, NotebookRun] = field(default_factory=dict)
    attempts: int = 0

    @property
    def automatic(self) -> int:
        """Points given by checks."""
        return sum(record.points for record in self.records.values())

    @property
    def manual(self) -> float:
        """Points given by people, corrections included."""
        return sum(mark.points for mark in self.marks.values()) + sum(one.points for one in self.adjustments)

    @property
    def awaiting(self) -> list[str]:
        """Exercises whose text nobody has marked yet."""
        waiting = (one for one in self.records.values() if one.review and one.exercise not in self.marks)
        return [one.exercise for one in waiting if self.submission and self.submission.texts.get(one.exercise)]


@dataclass
class Classroom:
    """A graded class: the one model that every result is written from.

    Args:
        exercises: Ids that were graded, in order.
        students: By id, in the order of the roster, then of the names.
        key: The run's key, from which the hidden seeds come.
        tier: How children were isolated.
        versions: Python, torch, numpy, course.
        ungraded: Names of what could not be graded, with the reason.
    """

    exercises: list[str]
    students: dict[str, Student] = field(default_factory=dict)
    key: str = ""
    tier: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    ungraded: dict[str, str] = field(default_factory=dict)
