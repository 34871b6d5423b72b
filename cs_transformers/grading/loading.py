"""From the journal back to the class: who handed in what, what the last verdicts on it are, what people added."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cs_transformers.checks import EXERCISES
from cs_transformers.checks.tree import PACKAGE_NAME, Answers, read_answers

from . import journal, marks
from .model import Classroom, Person, Student, Submission

JOURNAL, COPIES = "journal.jsonl", "submissions"
_SENTENCES = ("repairs", "changes", "incidents")


def load(out: Path) -> Classroom:
    """The class of a folder of grades: verdicts from the journal, marks and corrections by people.

    Args:
        out: The folder that `cst grade` wrote.

    Raises:
        ValueError: If it holds no journal of a run.
    """
    entries = entries_of(out)
    classroom = build(entries, out)
    marks.apply(classroom, out)
    return classroom


def entries_of(out: Path) -> list[dict[str, Any]]:
    """The entries of a folder's journal.

    Args:
        out: The folder.

    Raises:
        ValueError: If it holds no journal of a run.
    """
    path = Path(out) / JOURNAL
    entries = journal.read(path) if path.is_file() else []
    if not entries or entries[0]["kind"] != "run":
        raise ValueError(f"grading: expected a folder that `cst grade` wrote, got {out}; it has no {JOURNAL} of a run")
    return entries


def build(entries: list[dict[str, Any]], out: Path) -> Classroom:
    """The class that a journal tells of, without marks and corrections.

    Args:
        entries: Of the journal.
        out: Folder with the clean copies.
    """
    run = entries[0]
    graded = {id for entry in entries if entry["kind"] == "run" for id in entry["graded"]}
    classroom = Classroom(
        [id for id in EXERCISES if id in graded], key=run["key"], tier=run["tier"], versions=run["versions"]
    )
    for entry in entries:
        if entry["kind"] == "class":
            classroom.students = _students(entry, out)
    for entry in entries:
        student = classroom.students.get(entry.get("student", ""))
        if student is None or student.submission is None or entry.get("submission") != student.submission.digest:
            continue  # of an attempt that counts no more
        if entry["kind"] == "record" and entry["exercise"] in EXERCISES:
            student.records[entry["exercise"]] = journal.to_record(entry)
        elif entry["kind"] == "notebook":
            student.notebooks[entry["notebook"]] = journal.to_run(entry)
    for student in classroom.students.values():
        order = [id for id in classroom.exercises if id in student.records]
        student.records = {id: student.records[id] for id in order}
        student.notebooks = dict(sorted(student.notebooks.items()))
    classroom.ungraded = _ungraded(classroom, entries)
    return classroom


def _ungraded(classroom: Classroom, entries: list[dict[str, Any]]) -> dict[str, str]:
    found = {}
    reasons = {
        (entry["student"], entry["exercise"]): entry["reason"] for entry in entries if entry["kind"] == "trouble"
    }
    for id, student in classroom.students.items():
        if student.submission is None:
            continue
        missing = [exercise for exercise in classroom.exercises if exercise not in student.records]
        if student.submission.problem:
            found[id] = student.submission.problem
        elif missing:
            why = reasons.get((id, missing[0])) or reasons.get((id, "all")) or "the run did not come to it"
            found[id] = f"{', '.join(missing)}: {why}"
    return found


def class_entry(people: Iterable[Person], submissions: Iterable[Submission], out: Path) -> dict[str, Any]:
    """What the journal keeps of a class: people and every attempt, answers aside (those are in the clean copies).

    Args:
        people: Who is in the class, in order.
        submissions: Every attempt.
        out: Folder of the grades.
    """
    return {
        "people": [asdict(person) for person in people],
        "submissions": [
            {
                "person": one.person.id,
                "attempt": one.attempt,
                "source": one.source,
                "digest": one.digest,
                "texts": one.texts,
                **{name: list(getattr(one, name)) for name in _SENTENCES},
                "problem": one.problem,
                "manifest": one.manifest,
                "folder": one.folder.relative_to(out).as_posix() if one.folder else "",
            }
            for one in submissions
        ],
    }


def _students(entry: dict[str, Any], out: Path) -> dict[str, Student]:
    students = {fields["id"]: Student(Person(**fields)) for fields in entry["people"]}
    for fields in entry["submissions"]:
        student = students[fields["person"]]
        student.attempts += 1
        student.submission = _submission(fields, student.person, Path(out))
    return students


def _submission(fields: dict[str, Any], person: Person, out: Path) -> Submission:
    folder = out / fields["folder"] if fields["folder"] else None
    return Submission(
        person, fields["attempt"], fields["source"], fields["digest"],
        answers_in(folder) if folder else Answers(), dict(fields["texts"]),
        *(tuple(fields[name]) for name in _SENTENCES), fields["problem"], fields["manifest"], folder,
    )  # fmt: skip


def answers_in(folder: Path) -> Answers:
    """The answers in a clean copy: of the files that were handed in.

    Args:
        folder: The clean copy of one attempt.
    """
    files = sorted({one.file for one in EXERCISES.values() if one.file})
    package = folder / PACKAGE_NAME
    return read_answers(package, [file for file in files if (package / file).is_file()])
