"""Gradebooks as CSV: everything we know, and the columns that Canvas and Moodle read.

Automatic points, points of texts and corrections stay apart. A text nobody has read is *awaiting review*, never 0; a
system of records gets an empty cell there, since it would take any number as final.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable
from pathlib import Path

from cs_transformers.files import replace_file

from .model import AWAITING, Classroom
from .scores import ABSENT, UNGRADED, Row, Sheet, sheets
from .texts import cell, number

ALL, CANVAS, MOODLE = "gradebook.csv", "gradebook_canvas.csv", "gradebook_moodle.csv"
COURSE = "cs_transformers"
POSSIBLE = "    Points Possible"  # with the blanks that Canvas writes itself
# How both systems name the files of an assignment that an instructor downloads.
MOODLE_NAME = re.compile(r"(?:^|[/\\])(?P<name>[^/\\_]*)_(?P<participant>\d+)_assignsubmission_", re.IGNORECASE)
CANVAS_NAME = re.compile(
    r"(?:^|[/\\])(?P<name>[^/\\_]*)(?P<late>_LATE)?_(?P<user>\d+)_(?P<attachment>\d+)_", re.IGNORECASE
)
MOODLE_COLUMNS = (
    "Identifier", "Full name", "ID number", "Email address", "Status", "Grade", "Maximum Grade",
    "Grade can be changed", "Last modified (grade)", "Feedback comments",
)  # fmt: skip


def write(classroom: Classroom, out: Path) -> list[Path]:
    """Write the gradebook in three layouts.

    Args:
        classroom: The class.
        out: Folder of the grades.

    Returns:
        The files.
    """
    tables = {ALL: everything(classroom), CANVAS: canvas(classroom), MOODLE: moodle(classroom)}
    return [replace_file(out / name, _csv(rows)) for name, rows in tables.items()]


def _csv(rows: list[list[object]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(
        [value if value == POSSIBLE else cell(value) for value in row] for row in rows
    )
    return file.getvalue()


def everything(classroom: Classroom) -> list[list[object]]:
    """The whole gradebook: a line of names, then a line for each student.

    Args:
        classroom: The class.
    """
    all_sheets = sheets(classroom)
    columns = _exercise_columns(all_sheets)
    start = ["id", "name", "section", "status", "attempts", "total", "out_of", "automatic", "texts", "adjustments"]
    rows: list[list[object]] = [[*start, "awaiting", "note", *columns]]
    for sheet in all_sheets.values():
        person, by_id = sheet.person, {row.exercise: row for row in sheet.rows}
        points = [sheet.total, sheet.out_of, sheet.automatic, sheet.texts, sheet.adjustment]
        rows.append([person.id, person.name, person.section, sheet.status, sheet.attempts, *points])
        note = sheet.trouble or sheet.reason
        rows[-1] += [" ".join(sheet.awaiting), note, *(value(by_id) for value in columns.values())]
    rows += [
        [name, "", "", UNGRADED, *[""] * 7, reason, *[""] * len(columns)]
        for name, reason in unclaimed(classroom).items()
    ]
    return rows


def unclaimed(classroom: Classroom) -> dict[str, str]:
    """What could not be graded and belongs to no student of the class, with the reason.

    Args:
        classroom: The class.
    """
    people = [student.person for student in classroom.students.values()]
    sources = {student.submission.source for student in classroom.students.values() if student.submission}
    names = {person.id for person in people} | {person.name for person in people} | sources
    return {name: reason for name, reason in classroom.ungraded.items() if name not in names}


def _exercise_columns(all_sheets: dict[str, Sheet]) -> dict[str, Callable[[dict[str, Row]], object]]:
    """For each column its name and what stands in it: points of code, then those of the text where one is asked for."""
    columns: dict[str, Callable[[dict[str, Row]], object]] = {}
    for row in next(iter(all_sheets.values())).rows if all_sheets else []:
        id = row.exercise
        if row.out_of:
            columns[id] = lambda rows, id=id: _code(rows[id])
        if row.text_out_of:
            columns[f"{id} text"] = lambda rows, id=id: _text(rows[id])
    return columns


def _code(row: Row) -> object:
    missing = row.record is None and row.state != ABSENT
    return "" if missing else row.points


def _text(row: Row) -> object:
    return AWAITING if row.text_state == AWAITING else row.text_points


def canvas(classroom: Classroom) -> list[list[object]]:
    """The layout of Canvas: one column for the code, one for the texts and corrections.

    Canvas finds a student by its own id, which the names of downloaded files carry, else by SIS id or login.

    Args:
        classroom: The class.
    """
    all_sheets = sheets(classroom)
    first = next(iter(all_sheets.values()), None)
    texts = bool(first and first.texts_out_of) or any(sheet.adjustment for sheet in all_sheets.values())
    head: list[object] = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", f"{COURSE}: code"]
    possible: list[object] = [POSSIBLE, "", "", "", "", first.automatic_out_of if first else 0]
    if texts:
        head, possible = [*head, f"{COURSE}: texts"], [*possible, first.texts_out_of if first else 0]
    rows = [head, possible]
    for sheet in all_sheets.values():
        person, found = sheet.person, CANVAS_NAME.search(sheet.source)
        numbers: list[object] = [sheet.automatic if sheet.final or sheet.status == AWAITING else ""]
        numbers += [sheet.texts + sheet.adjustment if sheet.final else ""] if texts else []
        login = person.id if person.listed else ""
        ids = [found["user"] if found else "", "" if "@" in login else login, login]
        rows.append([person.name or person.id, *ids, person.section, *numbers])
    return rows


def moodle(classroom: Classroom) -> list[list[object]]:
    """The layout of Moodle's grading worksheet; also its gradebook takes it, mapped by ID number.

    Args:
        classroom: The class.
    """
    rows: list[list[object]] = [list(MOODLE_COLUMNS)]
    for sheet in sheets(classroom).values():
        person, found = sheet.person, MOODLE_NAME.search(sheet.source)
        email = person.id if "@" in person.id else ""
        identifier = f"Participant {found['participant']}" if found else ""
        grade = sheet.total if sheet.final else ""
        rows.append([identifier, person.name, "" if email else person.id, email, sheet.status, grade, sheet.out_of])
        rows[-1] += ["Yes", "-", html.escape(summary(sheet))]  # Moodle shows comments as HTML
    return rows


def summary(sheet: Sheet) -> str:
    """One line on what a student earned.

    Args:
        sheet: Their points.
    """
    parts = [f"code {number(sheet.automatic)} of {sheet.automatic_out_of}"]
    if sheet.texts_out_of:
        waiting = f", {AWAITING}: {' '.join(sheet.awaiting)}" if sheet.awaiting else ""
        parts.append(f"texts {number(sheet.texts)} of {sheet.texts_out_of}{waiting}")
    if sheet.adjustment:
        parts.append(f"corrections {number(sheet.adjustment)}")
    return "; ".join(parts)
