"""What a student reads: one page each, and all pages in one archive that Canvas or Moodle hands out."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cs_transformers.files import replace_file

from .gradebook import CANVAS_NAME, MOODLE_NAME
from .model import AWAITING, Classroom, Student
from .pages import markup, render
from .pictures import side_by_side
from .scores import ABSENT, MARKED, NOTHING, Row, Sheet, heading, known, sheets
from .texts import LONGEST_NAME, file_names, one_line
from .withheld import screen

FOLDER, ARCHIVE, PAGE = "feedback", "feedback.zip", "feedback.html"
LINES = 20  # sentences of a verdict that are shown
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same pages make the same archive
WORDS = {
    "passed": "passed", "partly": "partly right", "wrong": "not right yet", NOTHING: "not attempted",
    "forbidden call": "calls what you were to write", "stopped": "stopped", "blocked": "blocked",
    AWAITING: "awaiting review", MARKED: "marked", ABSENT: "nothing handed in",
}  # fmt: skip
SYMBOLS = {
    "passed": "✓", "partly": "◐", "wrong": "✗", NOTHING: "○", "forbidden call": "⊘", "stopped": "■", "blocked": "■",
    AWAITING: "…", MARKED: "✓", ABSENT: "○",
}  # fmt: skip


# What a student would want to look at again; what nobody tried is no news.
UNFINISHED = ("partly", "wrong", "forbidden call", "stopped")


def write(classroom: Classroom, out: Path) -> list[Path]:
    """Write every student's page and the archive of all; pages of an earlier run that nobody has any more go.

    Args:
        classroom: The class.
        out: Folder of the grades.

    Returns:
        The pages, then the archive.
    """
    folder, names, all_sheets = out / FOLDER, file_names(classroom.students), sheets(classroom)
    pages = {}
    for id, student in classroom.students.items():
        pages[id] = page(student, all_sheets[id])
    for old in folder.glob("*.html"):
        if old.stem not in names.values():
            old.unlink()
    files = [replace_file(folder / f"{names[id]}.html", text) for id, text in pages.items()]
    packed = {_place(all_sheets[id], names[id]): text for id, text in pages.items()}
    return [*files, replace_file(out / ARCHIVE, _pack(packed))]


def page(student: Student, sheet: Sheet) -> str:
    """The page of one student.

    Args:
        student: Who.
        sheet: Their points.
    """
    blocks: dict[str, list[dict[str, Any]]] = {}
    submission = student.submission
    for row in sheet.rows:
        text = submission.texts.get(row.exercise, "") if submission else ""
        blocks.setdefault(heading(row.exercise), []).append({**_block(row), "text": text})
    return render(
        "feedback.html.j2",
        person=student.person,
        sheet=sheet,
        percent=round(100 * min(sheet.total / sheet.out_of, 1)) if sheet.out_of else 0,
        open=[row for row in sheet.rows if row.state in UNFINISHED],
        corrections=student.adjustments,
        repairs=_readable(submission.repairs) if submission else [],
        changes=_readable(submission.changes) if submission else [],
        notebooks=list(blocks.items()) if submission and not submission.problem else [],
        words=WORDS,
        symbols=SYMBOLS,
    )


def _block(row: Row) -> dict[str, Any]:
    """What a page shows of one exercise."""
    record, exercise = row.record, known(row.exercise)
    picture = record.picture if record else {}
    label = screen([_label(picture)])[0]
    return {
        "row": row,
        "diagnosis": record.diagnosis if record else (),
        "lines": sentences(row),
        "picture": markup(side_by_side({**picture, "label": label})) if picture else "",
        "label": label,
        "parts": [(part, passed, exercise.parts.get(part, 0)) for part, passed in _parts(row)],
        "rubric": list(exercise.rubric.items()),
    }


def _label(picture: dict[str, Any]) -> str:
    """What a picture shows, and which corner of a larger array it is."""
    starts = picture.get("starts") or []
    corner = f", from [{', '.join(map(str, starts))}]" if any(starts) else ""
    return one_line(f"{picture.get('label', '')}{corner}")


def _parts(row: Row) -> Iterator[tuple[str, bool | None]]:
    """The parts of a check, where they say more than the verdict does."""
    if row.record and row.state in ("partly", "wrong"):
        yield from row.record.parts.items()


def sentences(row: Row) -> list[str]:
    """What a verdict says to the student beside the diagnosis.

    Args:
        row: The exercise.
    """
    if row.record is None:
        return []
    return _readable([line for line in row.record.lines if line not in row.record.diagnosis])


def _readable(lines: Iterable[str]) -> list[str]:
    lines = list(lines)
    more = [f"... and {len(lines) - LINES} more"] if len(lines) > LINES else []
    return [*screen(one_line(line) for line in lines[:LINES]), *more]


def _place(sheet: Sheet, name: str) -> str:
    """Where a page lies in the archive, so that the system the file came from finds its student again."""
    moodle, canvas = MOODLE_NAME.search(sheet.source), CANVAS_NAME.search(sheet.source)
    if moodle:
        return f"{_letters(moodle['name'])}_{moodle['participant']}_assignfeedback_file/{PAGE}"
    if canvas:
        late = "_LATE" if canvas["late"] else ""
        return f"{_letters(canvas['name'])}{late}_{canvas['user']}_{canvas['attachment']}_{PAGE}"
    return f"{name}/{PAGE}"


def _letters(name: str) -> str:
    """A name of letters alone: an underscore or a number in it would be read as what follows the name."""
    return " ".join("".join(char if char.isalpha() else " " for char in name).split())[:LONGEST_NAME] or "student"


def _pack(pages: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for place in sorted(pages):
            entry = zipfile.ZipInfo(place, LONG_AGO)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, pages[place])
    return file.getvalue()
