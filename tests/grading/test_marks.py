from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from classroom_factory import HOSTILE, classroom, hostile_classroom

from cs_transformers.checks import EXERCISES
from cs_transformers.grading import marks
from cs_transformers.grading.marks import FORMAT, Saved, answer_token
from cs_transformers.grading.model import Adjustment, Classroom, Mark

CAUSES, TECHNIQUES = EXERCISES["6.2"].rubric


def saved(path: Path, found: Classroom, points: dict[str, Any], grader: str = "Tina", **fields: Any) -> Path:
    """A file as a review page saves it: points of 6.2 by student."""
    entries = [
        {
            "answer": answer_token(found, id, "6.2"),
            "points": value,
            "items": [CAUSES],
            "comment": f"{grader} says {value}",
        }
        for id, value in points.items()
    ]
    page = {
        "format": FORMAT,
        "exercise": "6.2",
        "grader": grader,
        "saved": "2026-11-30T10:00:00.000Z",
        "settles": False,
    }
    path.write_text(json.dumps({**page, "marks": entries, **fields}), encoding="utf-8")
    return path


@pytest.fixture
def found() -> Classroom:
    made = classroom()
    made.students["ada"].marks = {}
    return made


def by_student(given: list[Mark]) -> dict[str, float]:
    return {mark.student: mark.points for mark in given}


def test_a_saved_page_becomes_marks_of_the_right_students(found: Classroom, tmp_path: Path) -> None:
    given, problems = marks.merge([saved(tmp_path / "a.json", found, {"bo": 3.5, "gus": 0})], found)
    assert problems == []
    assert given == [
        Mark("bo", "6.2", 3.5, (CAUSES,), "Tina says 3.5", "Tina"),
        Mark("gus", "6.2", 0.0, (CAUSES,), "Tina says 0", "Tina"),
    ]


def test_pages_of_several_graders_come_together(found: Classroom, tmp_path: Path) -> None:
    pages = [saved(tmp_path / "a.json", found, {"bo": 1}), saved(tmp_path / "b.json", found, {"gus": 2}, "Udo")]
    given, problems = marks.merge(pages, found)
    assert (by_student(given), problems) == ({"bo": 1, "gus": 2}, [])


def test_graders_who_disagree_are_reported_and_neither_counts(found: Classroom, tmp_path: Path) -> None:
    pages = [
        saved(tmp_path / "a.json", found, {"bo": 1, "gus": 2}),
        saved(tmp_path / "b.json", found, {"bo": 4}, "Udo"),
    ]
    given, (conflict,) = marks.merge(pages, found)
    assert by_student(given) == {"gus": 2}
    for word in ("6.2 of bo", answer_token(found, "bo", "6.2"), "Tina 1, Udo 4", "cst inline --settle"):
        assert word in conflict


def test_the_order_of_the_files_changes_nothing(found: Classroom, tmp_path: Path) -> None:
    pages = [saved(tmp_path / f"{n}.json", found, {"bo": n, "gus": 1}, f"G{n}") for n in (1, 2, 3)]
    assert marks.merge(pages, found)[0] == marks.merge(pages[::-1], found)[0]


def test_graders_who_agree_share_one_mark_with_both_comments(found: Classroom, tmp_path: Path) -> None:
    pages = [saved(tmp_path / "a.json", found, {"bo": 2}), saved(tmp_path / "b.json", found, {"bo": 2.0}, "Udo")]
    (mark,), problems = marks.merge(pages, found)
    assert (mark.points, mark.comment, problems) == (2, "Tina says 2\nUdo says 2.0", [])


def test_of_one_grader_the_page_saved_last_counts(found: Classroom, tmp_path: Path) -> None:
    late = saved(tmp_path / "a.json", found, {"bo": 3}, saved="2026-11-30T11:00:00.000Z")
    early = saved(tmp_path / "b.json", found, {"bo": 1}, saved="2026-11-30T09:00:00.000Z")
    for pages in ([late, early], [early, late]):
        assert by_student(marks.merge(pages, found)[0]) == {"bo": 3}


def test_a_page_that_settles_decides(found: Classroom, tmp_path: Path) -> None:
    pages = [
        saved(tmp_path / "a.json", found, {"bo": 1}),
        saved(tmp_path / "b.json", found, {"bo": 4}, "Udo"),
        saved(tmp_path / "c.json", found, {"bo": 3}, "Lea", settles=True),
    ]
    (mark,), problems = marks.merge(pages, found)
    assert (mark.points, mark.grader, mark.settled, problems) == (3, "Lea", True, [])


def test_a_mark_that_the_class_has_takes_part(tmp_path: Path) -> None:
    found = classroom()  # ada has 4 from Tina
    given, problems = marks.merge([saved(tmp_path / "a.json", found, {"ada": 1}, "Udo")], found)
    assert "6.2" not in {mark.exercise for mark in given if mark.student == "ada"}
    assert len(problems) == 1


@pytest.mark.parametrize("points", [-1, 4.5, 1e9, float("nan"), float("inf"), "4", None, True, [4]])
def test_points_that_cannot_be_are_reported_and_left_out(found: Classroom, points: Any, tmp_path: Path) -> None:
    given, (problem,) = marks.merge([saved(tmp_path / "a.json", found, {"bo": points, "gus": 1})], found)
    assert by_student(given) == {"gus": 1}
    assert "expected 0 to 4 points" in problem
    assert "a.json" in problem


def test_an_answer_that_is_not_there_is_reported(found: Classroom, tmp_path: Path) -> None:
    page = saved(tmp_path / "a.json", found, {"bo": 2})
    text = json.loads(page.read_text())
    text["marks"] += [{"answer": "0" * 16, "points": 1}, {"answer": 7, "points": 1}, "nonsense", {}]
    page.write_text(json.dumps(text))
    given, problems = marks.merge([page], found)
    assert by_student(given) == {"bo": 2}
    assert len(problems) == 4
    assert all("no such answer in this class" in problem for problem in problems)


def test_rubric_items_of_another_question_are_reported(found: Classroom, tmp_path: Path) -> None:
    page = saved(tmp_path / "a.json", found, {"bo": 2})
    page.write_text(page.read_text().replace(CAUSES, "make me rich"))
    assert "rubric items are not those of 6.2" in marks.merge([page], found)[1][0]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe\x00", b'{"format": "other"}', b"[" * 100_000, b'{"format": "%s", "marks": 3}'],
)
def test_a_file_that_is_no_saved_page_is_refused(found: Classroom, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content.replace(b"%s", FORMAT.encode()))
    with pytest.raises(ValueError, match=r"expected a file saved by a review page, got x\.json"):
        marks.merge([path], found)


def test_a_missing_or_huge_file_and_a_question_of_no_course_are_refused(
    found: Classroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"got gone\.json"):
        marks.merge([tmp_path / "gone.json"], found)
    with pytest.raises(ValueError, match=r"expected a question of the course, got 99\.9"):
        marks.merge([saved(tmp_path / "b.json", found, {}, exercise="99.9")], found)
    monkeypatch.setattr(marks, "LARGEST", 10)
    with pytest.raises(ValueError, match=r"got c\.json"):
        marks.merge([saved(tmp_path / "c.json", found, {"bo": 1})], found)


def test_a_token_tells_nothing_without_the_key_and_is_new_for_every_question(found: Classroom) -> None:
    tokens = {answer_token(found, id, exercise) for id in found.students for exercise in ("6.1", "6.2", "6.3")}
    assert len(tokens) == 3 * len(found.students)
    found.key = "another"
    assert not tokens & {answer_token(found, id, "6.2") for id in found.students}


def kept(found: Classroom, out: Path, given: dict[str, float], grader: str = "Tina", settled: bool = False) -> None:
    before = marks.read_kept(found, out)[0]
    new = [Saved(Mark(id, "6.2", points, (), "", grader, settled), "2026") for id, points in given.items()]
    marks.save([*before, *new], found, out)


def test_kept_marks_come_back(found: Classroom, tmp_path: Path) -> None:
    kept(found, tmp_path, {"bo": 2.5, "gus": 0})
    assert marks.apply(found, tmp_path) == []
    assert found.students["bo"].marks["6.2"].points == 2.5
    assert found.students["gus"].marks["6.2"].points == 0
    assert found.students["ida"].marks == {}


def test_a_mark_does_not_outlive_the_text_it_was_given_for(found: Classroom, tmp_path: Path) -> None:
    kept(found, tmp_path, {"bo": 2.5})
    found.students["bo"].submission.texts["6.2"] = "another text"
    (note,) = marks.apply(found, tmp_path)
    assert "6.2 of bo: its text changed" in note
    assert found.students["bo"].marks == {}


def test_a_dispute_stays_one_until_it_is_settled(found: Classroom, tmp_path: Path) -> None:
    kept(found, tmp_path, {"bo": 1})
    kept(found, tmp_path, {"bo": 3}, "Udo")
    assert len(marks.apply(found, tmp_path)) == 1
    kept(found, tmp_path, {"bo": 3}, "Udo")  # the same page merged again
    assert len(marks.apply(found, tmp_path)) == 1
    assert found.students["bo"].marks == {}
    kept(found, tmp_path, {"bo": 2}, "Lea", settled=True)
    assert marks.apply(found, tmp_path) == []
    assert found.students["bo"].marks["6.2"].points == 2


def test_kept_marks_are_the_same_bytes_whatever_the_order(found: Classroom, tmp_path: Path) -> None:
    both = [Saved(Mark(id, "6.2", 1.0, (), "", "T"), "1") for id in ("bo", "gus")]
    one, two = marks.save(both, found, tmp_path / "a"), marks.save(both[::-1], found, tmp_path / "b")
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    "content", ["", "[]", '{"kept": [{}]}', '{"kept": [{"answer": "a", "when": "", "student": "bo"}]}']
)
def test_damaged_marks_are_refused(found: Classroom, content: str, tmp_path: Path) -> None:
    (tmp_path / "marks.json").write_text(content)
    with pytest.raises(ValueError, match=r"expected marks\.json as `cst inline --merge` writes it"):
        marks.apply(found, tmp_path)


def corrections(text: str, tmp_path: Path, encoding: str = "utf-8") -> list[Adjustment]:
    path = tmp_path / "adjustments.csv"
    path.write_bytes(text.encode(encoding))
    return marks.adjustments(path, classroom())


def test_corrections_are_read(tmp_path: Path) -> None:
    text = 'student,exercise,points,reason\nbo,1.1,+1,"unclear, sorry"\n\nada,,-0.5,late\n'
    assert corrections(text, tmp_path) == [
        Adjustment("bo", "1.1", 1.0, "unclear, sorry"),
        Adjustment("ada", "", -0.5, "late"),
    ]


def test_corrections_from_a_european_spreadsheet_are_read(tmp_path: Path) -> None:
    text = "Student;Exercise;Points;Reason\r\nbo; 1.1 ;1,5;größer\r\n"
    assert corrections(text, tmp_path, "utf-8-sig") == [Adjustment("bo", "1.1", 1.5, "größer")]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_corrections_are_read_in_the_encodings_that_spreadsheets_write(tmp_path: Path, encoding: str) -> None:
    text = "student;exercise;points;reason\r\nbo;1.1;1;gr\u00f6\u00dfer\r\n;;;\r\n"
    assert corrections(text, tmp_path, encoding) == [Adjustment("bo", "1.1", 1.0, "gr\u00f6\u00dfer")]


def test_corrections_that_are_no_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"adjustments\.csv, line \d: field larger than field limit"):
        corrections(f"student,exercise,points,reason\nbo,1.1,1,{'x' * 200_000}\n", tmp_path)


def test_no_file_means_no_corrections(tmp_path: Path) -> None:
    assert marks.adjustments(tmp_path / "adjustments.csv", classroom()) == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("nobody,1.1,1,why", "line 2: expected the id of a student of this class, got 'nobody'"),
        ("bo,99.9,1,why", "line 2: expected an exercise, or nothing for the whole, got '99.9'"),
        ("bo,1.1,many,why", "line 2: expected points such as 2 or -1.5, got 'many'"),
        ("bo,1.1,nan,why", "expected points such as"),
        ("bo,1.1,inf,why", "expected points such as"),
        ("bo,1.1,1,", "line 2: expected a reason; the student reads it"),
        ("bo,1.1,1", "line 2: expected 4 columns"),
        ("bo,1.1,1,so,much", "line 2: expected 4 columns"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(line: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=complaint):
        corrections(f"student,exercise,points,reason\n{line}\n", tmp_path)


def test_other_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected the columns student,exercise,points,reason, got id,points"):
        corrections("id,points\nbo,1\n", tmp_path)


def test_corrections_are_applied_once_however_often(tmp_path: Path) -> None:
    found = classroom()
    (tmp_path / "adjustments.csv").write_text("student,exercise,points,reason\nbo,1.1,2,why\n")
    for _ in range(2):
        marks.apply(found, tmp_path)
    assert found.students["bo"].adjustments == [Adjustment("bo", "1.1", 2.0, "why")]
    assert found.students["ada"].adjustments == []


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_comments_and_names_of_graders_come_through_as_plain_text(number: int, tmp_path: Path) -> None:
    found, text = hostile_classroom(), HOSTILE[number]
    id = list(found.students)[number]
    for student in found.students.values():
        student.marks = {}
    page = saved(tmp_path / "a.json", found, {id: 1.0}, text[:90])
    content = json.loads(page.read_text())
    content["marks"][0]["comment"] = text
    page.write_text(json.dumps(content))
    (mark,), _ = marks.merge([page], found)
    assert mark.student == id
    assert not set(mark.comment + mark.grader) & set("\x00\x1b\u202e\r")
    assert len(mark.comment) < 21_000
    marks.save([Saved(mark, "")], found, tmp_path)
    assert marks.apply(found, tmp_path) == []
    assert found.students[id].marks["6.2"] == mark
