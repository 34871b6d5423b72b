"""What everybody earned, exercise by exercise: the one calculation that every result is written from."""

from __future__ import annotations

from dataclasses import dataclass, field

from cs_transformers.checks import EXERCISES, NOTEBOOKS
from cs_transformers.checks.exercise import Exercise

from .model import AWAITING, Classroom, Mark, Person, Record, Student
from .texts import is_blank

ABSENT, UNGRADED, INCOMPLETE, GRADED = "absent", "could not be graded", "incomplete", "graded"
NOTHING, MARKED = "not attempted", "marked"


@dataclass(frozen=True)
class Row:
    """One exercise of one student.

    Args:
        exercise: Its id.
        symbol: What is written there.
        state: Verdict on the code; ``absent`` where nothing was handed in, empty where only a text is asked for.
        points: Points of the code.
        out_of: Points that code can earn.
        text_state: Of the text: marked, awaiting review, not attempted, or empty where none is asked for.
        text_points: Points of the text.
        text_out_of: Points that a text can earn.
        adjustment: Points added or taken by hand.
        record: The verdict, where there is one.
        mark: The mark of the text, where there is one.
    """

    exercise: str
    symbol: str
    state: str
    points: int = 0
    out_of: int = 0
    text_state: str = ""
    text_points: float = 0
    text_out_of: int = 0
    adjustment: float = 0
    record: Record | None = None
    mark: Mark | None = None


@dataclass(frozen=True)
class Sheet:
    """Everything one student earned.

    Args:
        person: Who.
        status: absent, could not be graded, incomplete, awaiting review, graded.
        reason: Why it is not complete, in words for everybody, or empty.
        rows: By exercise, in order.
        adjustment: All points added or taken by hand.
        attempts: How many attempts were taken in.
        source: Name of what was handed in, or empty.
        trouble: What went wrong with the grader or the machine, for the instructor alone, or empty.
    """

    person: Person
    status: str
    reason: str
    rows: list[Row] = field(default_factory=list)
    adjustment: float = 0
    attempts: int = 0
    source: str = ""
    trouble: str = ""

    @property
    def automatic(self) -> int:
        """Points given by checks."""
        return sum(row.points for row in self.rows)

    @property
    def texts(self) -> float:
        """Points given by people for texts."""
        return sum(row.text_points for row in self.rows)

    @property
    def total(self) -> float:
        """All points, never below zero."""
        return max(0, self.automatic + self.texts + self.adjustment)

    @property
    def automatic_out_of(self) -> int:
        """Points that code can earn."""
        return sum(row.out_of for row in self.rows)

    @property
    def texts_out_of(self) -> int:
        """Points that texts can earn."""
        return sum(row.text_out_of for row in self.rows)

    @property
    def out_of(self) -> int:
        """Points possible without corrections."""
        return self.automatic_out_of + self.texts_out_of

    @property
    def awaiting(self) -> list[str]:
        """Exercises whose text nobody has marked yet."""
        return [row.exercise for row in self.rows if row.text_state == AWAITING]

    @property
    def final(self) -> bool:
        """Whether the total is what it will be: nothing is missing or waits for a person."""
        return self.status in (GRADED, ABSENT)


def sheets(classroom: Classroom) -> dict[str, Sheet]:
    """Everybody's points, by id, in the order of the class.

    Args:
        classroom: The class.
    """
    troubles = classroom.ungraded
    return {id: sheet(one, classroom.exercises, troubles.get(id, "")) for id, one in classroom.students.items()}


def sheet(student: Student, exercises: list[str], trouble: str = "") -> Sheet:
    """One student's points.

    Args:
        student: Who.
        exercises: Ids that were graded.
        trouble: Why there are no verdicts, where the run knows.
    """
    rows = [_row(id, student) for id in exercises]
    status, reason = _status(student, rows)
    trouble = trouble if status == INCOMPLETE else ""
    source = student.submission.source if student.submission else ""
    corrected = sum(one.points for one in student.adjustments)
    return Sheet(student.person, status, reason, rows, corrected, student.attempts, source, trouble)


def known(id: str) -> Exercise:
    """The exercise of an id; for one that the course no longer has, an empty one.

    Args:
        id: The exercise.
    """
    return EXERCISES.get(id) or Exercise(id, "", "", 0, 0)


def heading(exercise: str) -> str:
    """Name of the notebook an exercise stands in, ``01_attention``.

    Args:
        exercise: Its id.
    """
    number = exercise.partition(".")[0].zfill(2)
    return NOTEBOOKS[number].name if number in NOTEBOOKS else number


def _row(id: str, student: Student) -> Row:
    exercise, record, mark = known(id), student.records.get(id), student.marks.get(id)
    out_of = record.out_of if record else sum(exercise.parts.values())
    review = record.review if record else sum(exercise.rubric.values())
    text = student.submission.texts.get(id, "") if student.submission else ""
    text_state = "" if not review else MARKED if mark else NOTHING if is_blank(text) else AWAITING
    state = record.state if record else ABSENT if student.submission is None else ""
    return Row(
        exercise=id,
        symbol=exercise.symbol,
        state=state if out_of or state == ABSENT else "",
        points=record.points if record else 0,
        out_of=out_of,
        text_state=text_state,
        text_points=mark.points if mark and review else 0,
        text_out_of=review,
        adjustment=sum(one.points for one in student.adjustments if one.exercise == id),
        record=record,
        mark=mark if review else None,
    )


def _status(student: Student, rows: list[Row]) -> tuple[str, str]:
    if student.submission is None:
        return ABSENT, "nothing was handed in"
    if student.submission.problem:
        return UNGRADED, student.submission.problem
    missing = [row.exercise for row in rows if row.record is None]
    if missing:
        return INCOMPLETE, f"no verdict yet on {', '.join(missing)}"
    waiting = [row.exercise for row in rows if row.text_state == AWAITING]
    return (AWAITING, f"texts of {', '.join(waiting)}") if waiting else (GRADED, "")
