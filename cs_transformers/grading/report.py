"""What an instructor reads of the class: how it went, what was hard, what was mistaken, what was stopped."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cs_transformers.files import replace_file

from .feedback import FOLDER, SYMBOLS, WORDS
from .gradebook import unclaimed
from .model import AWAITING, Classroom
from .pages import markup, render
from .pictures import histogram
from .scores import ABSENT, INCOMPLETE, NOTHING, UNGRADED, Sheet, sheets
from .texts import file_names

PAGE = "report.html"
MOST = 40  # mistakes in the table
STATES = ("passed", "partly", "wrong", "stopped", "forbidden call", NOTHING)


@dataclass
class Difficulty:
    """How one exercise went.

    Args:
        exercise: Its id.
        symbol: What is written there.
        out_of: Points that code can earn.
        states: How many submissions came to which state.
        points: Points earned, one number for each submission.
    """

    exercise: str
    symbol: str
    out_of: int
    states: Counter = field(default_factory=Counter)
    points: list[int] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Share of the points that the class earned."""
        return sum(self.points) / (self.out_of * len(self.points)) if self.points and self.out_of else 0.0


def write(classroom: Classroom, out: Path) -> Path:
    """Write the class report.

    Args:
        classroom: The class.
        out: Folder of the grades.

    Returns:
        The page.
    """
    all_sheets = sheets(classroom)
    handed_in = [sheet for sheet in all_sheets.values() if sheet.status not in (ABSENT, UNGRADED)]
    shares = [sheet.total / sheet.out_of for sheet in handed_in if sheet.out_of]
    page = render(
        PAGE + ".j2",
        classroom=classroom,
        tiles=_tiles(classroom, list(all_sheets.values()), handed_in),
        histogram=markup(histogram(shares)) if shares else "",
        spread=_spread([sheet.total for sheet in handed_in]),
        out_of=max((sheet.out_of for sheet in all_sheets.values()), default=0),
        sections=_sections(handed_in),
        hardest=hardest(handed_in),
        states=STATES,
        words=WORDS,
        symbols=SYMBOLS,
        mistakes=mistakes(classroom)[:MOST],
        incidents=incidents(classroom),
        ungraded=_ungraded(classroom, all_sheets),
        disagreements=disagreements(classroom),
        waiting=_waiting(handed_in),
        graders=_graders(classroom),
        sheets=list(all_sheets.values()),
        pages={id: f"{FOLDER}/{name}.html" for id, name in file_names(classroom.students).items()},
        repaired=[(student.person.id, student.submission.repairs + student.submission.changes)
                  for student in classroom.students.values()
                  if student.submission and student.submission.repairs + student.submission.changes],
    )  # fmt: skip
    return replace_file(out / PAGE, page)


def _tiles(classroom: Classroom, all_sheets: list[Sheet], handed_in: list[Sheet]) -> list[tuple[int, str]]:
    counts = Counter(sheet.status for sheet in all_sheets)
    ungraded = counts[UNGRADED] + len(unclaimed(classroom))
    return [
        (len(all_sheets), "in the class"),
        (len(handed_in), "graded"),
        (counts[ABSENT], "handed in nothing"),
        (ungraded, "could not be graded"),
        *([(counts[INCOMPLETE], "not complete")] if counts[INCOMPLETE] else []),
        (sum(len(sheet.awaiting) for sheet in all_sheets), "texts await review"),
    ]


def _spread(totals: list[float]) -> dict[str, float]:
    if not totals:
        return {}
    return {
        "mean": statistics.fmean(totals),
        "median": statistics.median(totals),
        "min": min(totals),
        "max": max(totals),
    }


def _sections(handed_in: list[Sheet]) -> list[tuple[str, int, float]]:
    totals: dict[str, list[float]] = defaultdict(list)
    for sheet in handed_in:
        totals[sheet.person.section].append(sheet.total)
    return [(name, len(all), statistics.fmean(all)) for name, all in sorted(totals.items())] if len(totals) > 1 else []


def hardest(handed_in: list[Sheet]) -> list[Difficulty]:
    """How each exercise went, the hardest first.

    Args:
        handed_in: Points of those who handed in.
    """
    found: dict[str, Difficulty] = {}
    for sheet in handed_in:
        for row in sheet.rows:
            if row.out_of and row.record:
                one = found.setdefault(row.exercise, Difficulty(row.exercise, row.symbol, row.out_of))
                one.states[row.state] += 1
                one.points.append(row.points)
    return sorted(found.values(), key=lambda one: one.share)


def mistakes(classroom: Classroom) -> list[tuple[str, str, list[str]]]:
    """Known mistakes that were made: exercise, diagnosis, who; the most frequent first.

    Args:
        classroom: The class.
    """
    who: dict[tuple[str, str], list[str]] = defaultdict(list)
    for id, student in classroom.students.items():
        for record in student.records.values():
            for diagnosis in record.diagnosis:
                who[record.exercise, diagnosis].append(id)
    place = {exercise: number for number, exercise in enumerate(classroom.exercises)}
    ordered = sorted(who.items(), key=lambda item: (-len(item[1]), place.get(item[0][0], len(place)), item[0][1]))
    return [(exercise, diagnosis, students) for (exercise, diagnosis), students in ordered]


def incidents(classroom: Classroom) -> list[tuple[str, str, str]]:
    """What the sandbox or taking in had to stop: student, exercise or empty, what.

    Args:
        classroom: The class.
    """
    found = []
    for id, student in classroom.students.items():
        found += [(id, "", one) for one in (student.submission.incidents if student.submission else ())]
        found += [(id, one.exercise, one.incident) for one in student.records.values() if one.incident]
    return found


def disagreements(classroom: Classroom) -> list[tuple[str, str, str]]:
    """Where nbval and the checks differ, and notebooks that broke off: student, exercise or notebook, what.

    Args:
        classroom: The class.
    """
    found = []
    for id, student in classroom.students.items():
        for run in student.notebooks.values():
            if run.problem:
                found.append((id, run.notebook, run.problem))
            for exercise, outcome in run.verdicts.items():
                record = student.records.get(exercise)
                # A notebook runs with solutions where the student's answers failed: it should pass in any case.
                if record is not None and outcome != "passed":
                    found.append((id, exercise, f"the check says {record.state}, nbval says {outcome}"))
    return found


def _ungraded(classroom: Classroom, all_sheets: dict[str, Sheet]) -> list[tuple[str, str]]:
    found = [(id, one.trouble or one.reason) for id, one in all_sheets.items() if one.status in (UNGRADED, INCOMPLETE)]
    return found + sorted(unclaimed(classroom).items())


def _waiting(handed_in: list[Sheet]) -> list[tuple[str, int, int]]:
    """For each question how many texts wait, and how many were marked."""
    waiting: Counter = Counter()
    marked: Counter = Counter()
    for sheet in handed_in:
        for row in sheet.rows:
            waiting[row.exercise] += row.text_state == AWAITING
            marked[row.exercise] += row.mark is not None
    return [(id, waiting[id], marked[id]) for id in waiting if waiting[id] or marked[id]]


def _graders(classroom: Classroom) -> list[dict[str, Any]]:
    """What each grader gave on average, question by question: who is much kinder than the others shows here."""
    given: dict[tuple[str, str], list[float]] = defaultdict(list)
    for student in classroom.students.values():
        for mark in student.marks.values():
            given[mark.exercise, mark.grader].append(mark.points)
    return [
        {"exercise": exercise, "grader": grader, "count": len(points), "mean": statistics.fmean(points)}
        for (exercise, grader), points in sorted(given.items())
    ]
