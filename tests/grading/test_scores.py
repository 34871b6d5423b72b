from __future__ import annotations

from classroom_factory import GRADED, classroom, student

from cs_transformers.checks import EXERCISES
from cs_transformers.grading.model import AWAITING, Adjustment, Mark, Person, Student
from cs_transformers.grading.scores import GRADED as DONE
from cs_transformers.grading.scores import heading, sheet, sheets


def test_status_says_what_is_missing() -> None:
    assert {id: one.status for id, one in sheets(classroom()).items()} == {
        "ada": "graded",
        "bo": "awaiting review",
        "cy": "awaiting review",
        "dee": "absent",
        "eve": "could not be graded",
        "flo": "graded",
        "gus": "awaiting review",
        "hal": "incomplete",
        "ida": "awaiting review",
        "joe@example.edu": "awaiting review",
    }


def test_everybody_is_out_of_the_same_whatever_is_missing() -> None:
    possible = sum(EXERCISES[id].points for id in GRADED)
    assert {one.out_of for one in sheets(classroom()).values()} == {possible}


def test_an_unread_text_waits_and_a_blank_one_is_not_attempted() -> None:
    waiting, blank = sheets(classroom())["bo"], sheets(classroom())["flo"]
    assert waiting.awaiting == ["6.1", "6.2", "6.3"]
    assert waiting.texts == 0
    assert blank.awaiting == []
    assert [row.text_state for row in blank.rows if row.text_out_of] == ["not attempted"] * 3


def test_a_total_is_code_and_texts_and_corrections() -> None:
    one = student(Person("a"))
    one.marks = {"6.2": Mark("a", "6.2", 2.5)}
    one.adjustments = [Adjustment("a", "1.1", -1, "late"), Adjustment("a", "", 0.5, "kind")]
    result = sheet(one, GRADED)
    code = sum(sum(EXERCISES[id].parts.values()) for id in GRADED)
    assert (result.automatic, result.texts, result.adjustment, result.total) == (code, 2.5, -0.5, code + 2.0)
    assert next(row for row in result.rows if row.exercise == "1.1").adjustment == -1


def test_a_total_never_falls_below_zero() -> None:
    one = Student(Person("a"), adjustments=[Adjustment("a", "", -50, "copied")])
    assert sheet(one, GRADED).total == 0


def test_a_mark_for_an_exercise_without_a_text_counts_nothing() -> None:
    one = student(Person("a"))
    one.marks = {"1.1": Mark("a", "1.1", 3.0)}
    assert sheet(one, GRADED).texts == 0


def test_why_a_run_has_no_verdict_comes_from_the_run() -> None:
    found = classroom()
    found.ungraded["hal"] = "6.3: the sandbox does not start"
    hal, ada = sheets(found)["hal"], sheets(found)["ada"]
    assert (hal.trouble, hal.reason) == ("6.3: the sandbox does not start", "no verdict yet on 6.3")
    assert (ada.trouble, ada.reason) == ("", "")


def test_an_exercise_the_course_no_longer_has_keeps_its_points() -> None:
    one = student(Person("a"))
    record = one.records["1.1"]
    one.records["0.9"] = record.__class__("a", "0.9", "passed", 2, 2)
    row = sheet(one, ["0.9"]).rows[0]
    assert (row.symbol, row.points, row.out_of, heading("0.9")) == ("", 2, 2, "00")


def test_a_student_with_everything_read_is_graded() -> None:
    one = student(Person("a"))
    one.marks = {id: Mark("a", id, 0.0) for id in ("6.1", "6.2", "6.3")}
    result = sheet(one, GRADED)
    assert result.status == DONE
    assert result.final
    assert AWAITING not in [row.text_state for row in result.rows]
