from __future__ import annotations

import functools
import re
import zipfile
from pathlib import Path

import pytest
from classroom_factory import GRADED, HOSTILE, classroom, hostile_classroom, record, student
from page_reading import assert_harmless

from cs_transformers.checks import EXERCISES, tree
from cs_transformers.grading import feedback
from cs_transformers.grading.model import Classroom, Person
from cs_transformers.grading.scores import sheet, sheets


def page_of(id: str, found: Classroom | None = None) -> str:
    found = found or classroom()
    return feedback.page(found.students[id], sheets(found)[id])


@functools.cache
def hostile() -> Classroom:
    return hostile_classroom()


def text_of(id: str) -> str:
    return assert_harmless(page_of(id)).text


def test_everybody_has_a_page_and_a_place_in_the_archive(tmp_path: Path) -> None:
    *pages, archive = feedback.write(classroom(), tmp_path)
    assert len(pages) == len(classroom().students)
    with zipfile.ZipFile(archive) as packed:
        assert len(packed.namelist()) == len(pages)
        assert packed.testzip() is None


def test_the_archive_uses_the_names_that_canvas_and_moodle_find_students_by(tmp_path: Path) -> None:
    with zipfile.ZipFile(feedback.write(classroom(), tmp_path)[-1]) as packed:
        names = packed.namelist()
    assert "Cy Young_4711_assignfeedback_file/feedback.html" in names
    assert "flowang_LATE_123_4567_feedback.html" in names
    assert "ada/feedback.html" in names


def test_the_same_class_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = (feedback.write(classroom(), tmp_path / name) for name in "ab")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_pages_that_nobody_has_any_more_go(tmp_path: Path) -> None:
    feedback.write(classroom(), tmp_path)
    fewer = classroom()
    del fewer.students["ada"]
    feedback.write(fewer, tmp_path)
    assert not (tmp_path / "feedback" / "ada.html").exists()
    assert (tmp_path / "feedback" / "bo.html").exists()


def test_a_page_says_what_is_wrong_and_shows_expected_beside_got() -> None:
    text = text_of("bo")
    assert "1.1 attention_scores ✗ not right yet , 0 of 3" in text
    assert text.count("scores are not divided") == 1, "the diagnosis stands once"
    assert "expected (3 x 5)" in text
    assert "got (3 x 5)" in text
    assert "gradients (1) , not judged yet" in text.replace(", not", " , not") or "not judged yet" in text


def test_a_page_shows_points_corrections_and_what_waits() -> None:
    text = text_of("bo")
    assert "10.5 of 21 points so far" in text
    assert "1.1: +1. The question was unclear." in text
    assert "the whole: -0.5. One day late." in text
    assert "It does not count as 0" in text


def test_a_marked_text_shows_items_comment_and_what_was_written() -> None:
    text = text_of("ada")
    for item in EXERCISES["6.2"].rubric:
        assert f"✓ {item}" in text
    assert "Well said." in text
    assert "Augmentation helps, and pretraining." in text
    assert "21 of 21 points code" not in text
    assert "21 of 21 points" in text


@pytest.mark.parametrize(
    ("id", "sentence"),
    [
        ("dee", "Nothing from you arrived."),
        ("eve", "could not be graded: it is no zip"),
        ("hal", "not finished (no verdict yet on 6.3)"),
        ("cy", "attention.py: read as UTF-16"),
        ("cy", "these changes had no effect"),
        ("cy", "■ stopped"),
        ("gus", "◐ partly right , 2 of 4"),
        ("gus", "✗ gradients (1)"),
        ("gus", "⊘ calls what you were to write"),
        ("flo", "○ not attempted"),
    ],
)
def test_every_status_has_its_sentence(id: str, sentence: str) -> None:
    assert sentence in text_of(id)


def test_what_the_grader_failed_on_is_not_for_students() -> None:
    found = classroom()
    found.ungraded["hal"] = "6.3: SandboxError: the sandbox does not start"
    page = feedback.page(found.students["hal"], sheets(found)["hal"])
    assert "SandboxError" not in page
    assert "not finished (no verdict yet on 6.3); that is not your fault." in page


def test_nothing_of_the_sandbox_reaches_a_student() -> None:
    text = page_of("cy")
    assert "processes were left over" not in text
    assert "a path out of the archive" not in text
    assert "namespaces" not in text


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_texts_are_inert_on_every_page(number: int) -> None:
    found = hostile()
    id = list(found.students)[number]
    page = page_of(id, found)
    assert_harmless(page)
    assert len(page) < 500_000
    page.encode("utf-8")
    assert not re.search("[\x00\x1b\u202e]", page)


def test_no_line_of_a_solution_stands_on_any_page() -> None:
    files = sorted({one.file for one in EXERCISES.values() if one.file})
    regions = tree.read_answers(tree.PACKAGE, files).regions
    bodies = {
        region.exercise: region.body for one in regions.values() for region in one.values() if region.exercise in GRADED
    }
    who = student(Person("a", "A"))
    for id, body in bodies.items():
        who.records[id] = record(
            "a",
            id,
            "wrong",
            lines=(f"RuntimeError: {body}", repr(body)),
            picture={"expected": [[1.0]], "got": [[2.0]], "label": body},
        )
    who.submission = who.submission.__class__(
        **{**vars(who.submission), "repairs": tuple(bodies.values()), "changes": tuple(bodies.values())}
    )
    page = feedback.page(who, sheet(who, GRADED))
    bare = re.sub(r"\s+", "", assert_harmless(page).text)
    lines = {re.sub(r"\s+", "", line.partition("  #")[0]) for body in bodies.values() for line in body.splitlines()}
    told = [line for line in lines if len(line) >= 22 and not line.startswith("#")]
    assert len(told) > 10
    assert not [line for line in told if line in bare]
    assert page.count("(withheld: ") >= len(bodies)
