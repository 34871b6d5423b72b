from __future__ import annotations

import re
from pathlib import Path

from classroom_factory import GRADED, HOSTILE, classroom, hostile_classroom, record, student
from page_reading import assert_harmless

from cs_transformers.grading import report
from cs_transformers.grading.model import Classroom, Person
from cs_transformers.grading.scores import sheets


def text_of(found: Classroom, out: Path) -> str:
    return assert_harmless(report.write(found, out).read_text(encoding="utf-8")).text


def test_the_report_counts_the_class(tmp_path: Path) -> None:
    text = text_of(classroom(), tmp_path)
    for tile in ("10 in the class", "8 graded", "1 handed in nothing", "2 could not be graded", "1 not complete"):
        assert tile in text
    assert "Of 21 points: mean 12.1, median 12, from 6 to 21." in text


def test_the_hardest_exercise_stands_first() -> None:
    graded = [one for one in sheets(classroom()).values() if one.status not in ("absent", "could not be graded")]
    order = report.hardest(graded)
    assert [one.exercise for one in order][:3] == ["1.1", "1.6", "4.6"]
    assert [round(one.share, 4) for one in order] == sorted(round(one.share, 4) for one in order)
    first = order[0]
    assert (first.states["passed"], first.states["wrong"], first.share) == (6, 2, 18 / 24)


def test_the_most_frequent_mistake_stands_first_with_who_made_it() -> None:
    found = classroom()
    found.students["ida"].records["4.6"] = record("ida", "4.6", "wrong", diagnosis=("never steps",))
    assert [(exercise, who) for exercise, _, who in report.mistakes(found)] == [("1.1", ["bo", "cy"]), ("4.6", ["ida"])]


def test_incidents_of_taking_in_and_of_the_sandbox_are_listed(tmp_path: Path) -> None:
    found = report.incidents(classroom())
    assert [(id, exercise) for id, exercise, _ in found] == [("cy", ""), ("cy", "1.6")]
    assert "3 processes were left over and ended" in text_of(classroom(), tmp_path)


def test_a_notebook_that_fails_on_a_mended_tree_is_told(tmp_path: Path) -> None:
    assert report.disagreements(classroom()) == [("gus", "1.1", "the check says passed, nbval says failed")]
    assert "Notebooks and checks disagree" in text_of(classroom(), tmp_path)


def test_what_could_not_be_graded_is_at_the_top(tmp_path: Path) -> None:
    text = text_of(classroom(), tmp_path)
    assert text.index("These are not zeros") < text.index("Of 21 points")
    assert "it is no zip" in text
    assert "stray.txt no submission in it" in text


def test_what_the_grader_failed_on_is_told_to_the_instructor(tmp_path: Path) -> None:
    found = classroom()
    found.ungraded["hal"] = "6.3: SandboxError: the sandbox does not start"
    assert "hal 6.3: SandboxError: the sandbox does not start" in text_of(found, tmp_path)


def test_every_student_links_to_their_page(tmp_path: Path) -> None:
    page = report.write(classroom(), tmp_path).read_text(encoding="utf-8")
    links = set(re.findall(r'href="(feedback/[^"]+)"', page))
    assert len(links) == len(classroom().students)


def test_graders_are_compared(tmp_path: Path) -> None:
    assert "6.2 Tina 1 4.00" in text_of(classroom(), tmp_path)


def test_hostile_texts_are_inert(tmp_path: Path) -> None:
    page = report.write(hostile_classroom(), tmp_path).read_text(encoding="utf-8")
    assert_harmless(page)
    assert not re.search("[\x00\x1b\u202e]", page)
    assert len(page) < 60_000 * len(HOSTILE)


def test_the_same_class_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = (report.write(classroom(), tmp_path / name).read_bytes() for name in "ab")
    assert one == two


def test_a_class_of_nobody_and_a_class_of_one_have_reports(tmp_path: Path) -> None:
    assert "Nothing was graded yet." in text_of(Classroom(GRADED), tmp_path)
    assert "mean 13.0" in text_of(Classroom(GRADED, {"a": student(Person("a"))}), tmp_path)
