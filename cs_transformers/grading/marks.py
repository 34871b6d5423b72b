"""What people decide: marks of texts, from saved review pages, and corrections by hand, from adjustments.csv.

Marks are kept in ``marks.json`` with a token of the very answer they were given for: when a student hands in another
text, the old mark no longer counts. Where two graders disagree, neither counts until somebody settles it.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cs_transformers.checks import EXERCISES

from .model import Adjustment, Classroom, Mark
from .texts import inert, number, one_line, write_whole

FORMAT = "cs_transformers marks 1"
KEPT, ADJUSTMENTS = "marks.json", "adjustments.csv"
COLUMNS = ["student", "exercise", "points", "reason"]
LARGEST = 32 * 2**20  # bytes of a saved page: more is no page of ours


@dataclass(frozen=True)
class Saved:
    """One mark in a saved page.

    Args:
        mark: What was given.
        when: When the page was saved: of one grader, the later counts.
        file: Where it came from, for messages.
    """

    mark: Mark
    when: str
    file: str


def answer_token(classroom: Classroom, student: str, exercise: str) -> str:
    """A name for one answer that tells nothing of who wrote it, without the key of the run.

    Args:
        classroom: The class.
        student: Id of the person.
        exercise: The question.
    """
    submission = classroom.students[student].submission
    text = submission.texts.get(exercise, "") if submission else ""
    wanted = "\0".join([student, exercise, hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()])
    return hmac.new(classroom.key.encode(), wanted.encode("utf-8", "replace"), "sha256").hexdigest()[:16]


def tokens(classroom: Classroom, exercise: str) -> dict[str, str]:
    """Students by the token of their answer to one question.

    Args:
        classroom: The class.
        exercise: The question.
    """
    return {answer_token(classroom, student, exercise): student for student in classroom.students}


def merge(paths: Iterable[Path], classroom: Classroom) -> tuple[list[Mark], list[str]]:
    """Put saved review pages together with the marks that the class has.

    Args:
        paths: Saved pages.
        classroom: The class.

    Returns:
        All marks that hold, and a sentence for each that does not: graders who disagree, answers or points that
        cannot be.

    Raises:
        ValueError: If a file is no saved page.
    """
    by_answer, problems = _gathered(paths, classroom)
    marks = []
    for answer in by_answer.values():
        mark, conflict = _agreed(answer, classroom)
        marks += [mark] if mark else []
        problems += [conflict] if conflict else []
    order = {id: place for place, id in enumerate(classroom.students)}
    return sorted(marks, key=lambda mark: (order[mark.student], mark.exercise)), problems


def disputed(paths: Iterable[Path], classroom: Classroom) -> dict[str, list[Saved]]:
    """The answers that graders disagree on, by token, with what each gave.

    Args:
        paths: Saved pages.
        classroom: The class.

    Raises:
        ValueError: If a file is no saved page.
    """
    by_answer, _ = _gathered(paths, classroom)
    found = {answer: saved for answer, saved in by_answer.items() if _agreed(saved, classroom)[0] is None}
    return {answer_token(classroom, *answer): saved for answer, saved in found.items()}


def _gathered(paths: Iterable[Path], classroom: Classroom) -> tuple[dict[tuple[str, str], list[Saved]], list[str]]:
    """Marks by student and exercise: those the class has, then those of saved pages; and what is wrong in the pages."""
    everybody = classroom.students.values()
    found = [Saved(mark, "", KEPT) for one in everybody for _, mark in sorted(one.marks.items())]
    problems: list[str] = []
    for path in paths:
        found += _marks_of(_read(Path(path)), Path(path).name, classroom, problems)
    by_answer: dict[tuple[str, str], list[Saved]] = {}
    for saved in found:
        by_answer.setdefault((saved.mark.student, saved.mark.exercise), []).append(saved)
    return by_answer, problems


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise ValueError(f"marks: expected a file saved by a review page, got {path.name}; give the .json files")
    try:
        page = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError):
        page = None
    if not isinstance(page, dict) or page.get("format") != FORMAT or not isinstance(page.get("marks"), list):
        raise ValueError(f"marks: expected a file saved by a review page, got {path.name}; save the page again")
    if page.get("exercise") not in EXERCISES:
        raise ValueError(f"marks: {path.name}: expected a question of the course, got {one_line(page.get('exercise'))}")
    return page


def _marks_of(page: dict[str, Any], file: str, classroom: Classroom, problems: list[str]) -> list[Saved]:
    exercise, grader = page["exercise"], one_line(page.get("grader") or "nobody", 80)
    students, rubric = tokens(classroom, exercise), EXERCISES[page["exercise"]].rubric
    found = []
    for entry in page["marks"]:
        entry = entry if isinstance(entry, dict) else {}
        token, points, items = entry.get("answer"), entry.get("points"), entry.get("items", [])
        where = f"{file}: answer {one_line(token, 40)}"
        if not isinstance(token, str) or token not in students:
            problems.append(f"{where}: no such answer in this class, or it has changed since; review it again")
        elif not _is_points(points, sum(rubric.values())):
            wanted = f"0 to {sum(rubric.values())} points"
            problems.append(f"{where}: expected {wanted}, got {one_line(points, 40)}; correct it in the page")
        elif not isinstance(items, list) or not all(isinstance(item, str) and item in rubric for item in items):
            problems.append(f"{where}: its rubric items are not those of {exercise}; make the pages again")
        else:
            settled, comment = page.get("settles") is True, inert(entry.get("comment") or "")
            mark = Mark(students[token], exercise, float(points), tuple(items), comment, grader, settled)
            found.append(Saved(mark, str(page.get("saved", "")), file))
    return found


def _is_points(points: object, most: int) -> bool:
    plain = isinstance(points, int | float) and not isinstance(points, bool)
    return plain and math.isfinite(points) and 0 <= points <= most


def _agreed(answer: list[Saved], classroom: Classroom) -> tuple[Mark | None, str]:
    """The mark that several saved ones come to, or why there is none."""
    settling = [saved for saved in answer if saved.mark.settled]
    latest: dict[str, Saved] = {}
    for saved in settling or answer:
        before = latest.get(saved.mark.grader)
        if before is None or saved.when >= before.when:
            latest[saved.mark.grader] = saved
    marks = [saved.mark for _, saved in sorted(latest.items())]
    if len({mark.points for mark in marks}) == 1:
        comments = dict.fromkeys(mark.comment for mark in marks if mark.comment)
        return replace(marks[0], comment="\n".join(comments)), ""
    student, exercise = marks[0].student, marks[0].exercise
    given = ", ".join(f"{mark.grader} {number(mark.points)}" for mark in marks)
    return None, (
        f"{exercise} of {student} (answer {answer_token(classroom, student, exercise)}): graders disagree: {given}; "
        "it counts as not reviewed until the question is settled"
    )


def save(marks: list[Mark], classroom: Classroom, out: Path) -> Path:
    """Keep marks beside the journal.

    Args:
        marks: All marks that hold.
        classroom: The class.
        out: Folder of the grades.
    """
    kept = [{"answer": answer_token(classroom, one.student, one.exercise), **asdict(one)} for one in marks]
    return write_whole(out / KEPT, json.dumps({"format": FORMAT, "marks": kept}, indent=1, ensure_ascii=False) + "\n")


def apply(classroom: Classroom, out: Path) -> list[str]:
    """Put the kept marks and the corrections by hand into a class.

    Args:
        classroom: The class; its marks and adjustments are replaced.
        out: Folder of the grades.

    Returns:
        A sentence for each mark that no longer holds, since the answer changed.

    Raises:
        ValueError: If ``marks.json`` or ``adjustments.csv`` cannot be read.
    """
    for student in classroom.students.values():
        student.marks, student.adjustments = {}, []
    notes = []
    for mark, holds in _kept(classroom, out / KEPT):
        if holds:
            classroom.students[mark.student].marks[mark.exercise] = mark
        else:
            notes.append(f"{mark.exercise} of {mark.student}: its text changed after it was marked; review it again")
    for one in adjustments(out / ADJUSTMENTS, classroom):
        classroom.students[one.student].adjustments.append(one)
    return notes


def _kept(classroom: Classroom, path: Path) -> list[tuple[Mark, bool]]:
    if not path.is_file():
        return []
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["marks"]
        found = []
        for entry in entries:
            token = entry.pop("answer")
            mark = Mark(**{**entry, "items": tuple(entry["items"])})
            known = mark.student in classroom.students
            found.append((mark, known and token == answer_token(classroom, mark.student, mark.exercise)))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f"marks: expected {path.name} as `cst inline --merge` writes it; remove it and merge the saved pages again"
        ) from None
    return found


def adjustments(path: Path, classroom: Classroom) -> list[Adjustment]:
    """Corrections by hand: a CSV with the columns student, exercise, points, reason.

    Args:
        path: The file; none means no corrections.
        classroom: The class.

    Raises:
        ValueError: If a line names nobody of the class, no exercise, no number, or no reason.
    """
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8-sig")
    semicolons = text.partition("\n")[0].count(";") >= len(COLUMNS) - 1
    reader = csv.DictReader(io.StringIO(text), delimiter=";" if semicolons else ",")
    names = [(name or "").strip().lower() for name in reader.fieldnames or []]
    if names != COLUMNS:
        raise ValueError(f"{path.name}: expected the columns {','.join(COLUMNS)}, got {','.join(names)[:80]}")
    reader.fieldnames = names
    return [_adjustment(row, f"{path.name}, line {reader.line_num}", classroom) for row in reader]


def _adjustment(row: dict[str, Any], where: str, classroom: Classroom) -> Adjustment:
    if None in row or None in row.values():
        raise ValueError(f"{where}: expected {len(COLUMNS)} columns; put a reason with commas in double quotes")
    row = {key: value.strip() for key, value in row.items()}
    if row["student"] not in classroom.students:
        raise ValueError(f"{where}: expected the id of a student of this class, got {one_line(row['student'], 60)!r}")
    if row["exercise"] and row["exercise"] not in EXERCISES:
        raise ValueError(f"{where}: expected an exercise, or nothing for the whole, got {row['exercise'][:60]!r}")
    try:
        points = float(row["points"].replace(",", "."))
    except ValueError:
        points = math.nan
    if not math.isfinite(points):
        raise ValueError(f"{where}: expected points such as 2 or -1.5, got {row['points'][:60]!r}")
    if not row["reason"]:
        raise ValueError(f"{where}: expected a reason; the student reads it")
    return Adjustment(row["student"], row["exercise"], points, row["reason"])
