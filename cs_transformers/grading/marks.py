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
from cs_transformers.files import replace_file

from .model import Adjustment, Classroom, Mark
from .repairs import to_text
from .texts import inert, number, one_line

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
    """

    mark: Mark
    when: str


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
    everybody = classroom.students.values()
    held = [Saved(mark, "") for one in everybody for _, mark in sorted(one.marks.items())]
    new, problems = read_pages(paths, classroom)
    marks, conflicts = agree([*held, *new], classroom)
    return marks, [*problems, *conflicts]


def read_pages(paths: Iterable[Path], classroom: Classroom) -> tuple[list[Saved], list[str]]:
    """The marks in saved pages, and a sentence for each that cannot be.

    Args:
        paths: Saved pages.
        classroom: The class.

    Raises:
        ValueError: If a file is no saved page.
    """
    found: list[Saved] = []
    problems: list[str] = []
    for path in paths:
        found += _marks_of(_read(Path(path)), Path(path).name, classroom, problems)
    return found, problems


def agree(saved: Iterable[Saved], classroom: Classroom) -> tuple[list[Mark], list[str]]:
    """What several graders' marks come to: one for each answer, unless they disagree.

    Args:
        saved: Every mark; of one grader the latest counts, and one that settles beats all that do not.
        classroom: The class.

    Returns:
        The marks that hold, and a sentence for each answer on which graders disagree.
    """
    marks, conflicts = [], []
    for answer in _by_answer(saved).values():
        one = _agreed(answer)
        if one is not None:
            marks.append(one)
        else:
            conflicts.append(_conflict(answer, classroom))
    order = {id: place for place, id in enumerate(classroom.students)}
    return sorted(marks, key=lambda mark: (order[mark.student], mark.exercise)), conflicts


def disputed(saved: Iterable[Saved], classroom: Classroom) -> dict[str, list[Mark]]:
    """The answers that graders disagree on, by token, with what each gave.

    Args:
        saved: Every mark.
        classroom: The class.
    """
    found = {answer: each for answer, each in _by_answer(saved).items() if _agreed(each) is None}
    return {answer_token(classroom, *answer): _latest(each) for answer, each in found.items()}


def _by_answer(saved: Iterable[Saved]) -> dict[tuple[str, str], list[Saved]]:
    found: dict[tuple[str, str], list[Saved]] = {}
    for one in saved:
        found.setdefault((one.mark.student, one.mark.exercise), []).append(one)
    return found


def _latest(answer: list[Saved]) -> list[Mark]:
    """Of each grader the latest mark; only those that settle, where some do."""
    latest: dict[str, Saved] = {}
    for saved in [one for one in answer if one.mark.settled] or answer:
        before = latest.get(saved.mark.grader)
        if before is None or saved.when >= before.when:
            latest[saved.mark.grader] = saved
    return [saved.mark for _, saved in sorted(latest.items())]


def _agreed(answer: list[Saved]) -> Mark | None:
    marks = _latest(answer)
    comments = dict.fromkeys(mark.comment for mark in marks if mark.comment)
    same = len({mark.points for mark in marks}) == 1
    return replace(marks[0], comment="\n".join(comments)) if same else None


def _conflict(answer: list[Saved], classroom: Classroom) -> str:
    marks = _latest(answer)
    student, exercise = marks[0].student, marks[0].exercise
    given = ", ".join(f"{mark.grader} {number(mark.points)}" for mark in marks)
    return (
        f"{exercise} of {student} (answer {answer_token(classroom, student, exercise)}): graders disagree: {given}; "
        "it counts as not reviewed until `cst inline --settle` decides"
    )


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
            found.append(Saved(mark, one_line(page.get("saved", ""), 40)))
    return found


def _is_points(points: object, most: int) -> bool:
    plain = isinstance(points, int | float) and not isinstance(points, bool)
    return plain and math.isfinite(points) and 0 <= points <= most


def save(saved: Iterable[Saved], classroom: Classroom, out: Path) -> Path:
    """Keep every grader's marks beside the journal, those in dispute too.

    Args:
        saved: Every mark.
        classroom: The class.
        out: Folder of the grades.
    """
    latest: dict[tuple[str, str, str, bool], Saved] = {}
    for one in saved:
        key = one.mark.student, one.mark.exercise, one.mark.grader, one.mark.settled
        if key not in latest or one.when >= latest[key].when:
            latest[key] = one
    kept = [
        {"answer": answer_token(classroom, one.mark.student, one.mark.exercise), "when": one.when, **asdict(one.mark)}
        for _, one in sorted(latest.items())
    ]
    return replace_file(out / KEPT, json.dumps({"format": FORMAT, "kept": kept}, indent=1) + "\n")


def apply(classroom: Classroom, out: Path) -> list[str]:
    """Put the kept marks and the corrections by hand into a class.

    Args:
        classroom: The class; its marks and adjustments are replaced.
        out: Folder of the grades.

    Returns:
        A sentence for each mark that does not hold: the answer changed, or graders disagree.

    Raises:
        ValueError: If ``marks.json`` or ``adjustments.csv`` cannot be read.
    """
    for student in classroom.students.values():
        student.marks, student.adjustments = {}, []
    kept, outdated = read_kept(classroom, out)
    marks, conflicts = agree(kept, classroom)
    for mark in marks:
        classroom.students[mark.student].marks[mark.exercise] = mark
    for one in adjustments(out / ADJUSTMENTS, classroom):
        classroom.students[one.student].adjustments.append(one)
    return [*outdated, *conflicts]


def read_kept(classroom: Classroom, out: Path) -> tuple[list[Saved], list[str]]:
    """Every grader's marks that were merged before, and a sentence for each whose answer changed since.

    Args:
        classroom: The class.
        out: Folder of the grades.

    Raises:
        ValueError: If ``marks.json`` cannot be read.
    """
    path, found, outdated = out / KEPT, [], []
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["kept"] if path.is_file() else []
        for entry in entries:
            token, when = entry.pop("answer"), entry.pop("when")
            mark = Mark(**{**entry, "items": tuple(entry["items"])})
            known = mark.student in classroom.students
            if known and token == answer_token(classroom, mark.student, mark.exercise):
                found.append(Saved(mark, when))
            else:
                outdated.append(
                    f"{mark.exercise} of {mark.student}: its text changed after it was marked; review it again"
                )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f"marks: expected {path.name} as `cst inline --merge` writes it; remove it and merge the saved pages again"
        ) from None
    return found, outdated


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
    text = to_text(path.read_bytes(), path.name)[0]  # spreadsheets write other encodings too
    semicolons = text.partition("\n")[0].count(";") >= len(COLUMNS) - 1
    reader = csv.DictReader(io.StringIO(text), delimiter=";" if semicolons else ",")
    names = [(name or "").strip().lower() for name in reader.fieldnames or []]
    if names != COLUMNS:
        raise ValueError(f"{path.name}: expected the columns {','.join(COLUMNS)}, got {','.join(names)[:80]}")
    reader.fieldnames = names
    try:
        rows = [(row, f"{path.name}, line {reader.line_num}") for row in reader]
    except csv.Error as error:
        raise ValueError(f"{path.name}, line {reader.line_num}: {error}; save it as CSV again") from None
    return [_adjustment(row, where, classroom) for row, where in rows if any(row.values())]


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
