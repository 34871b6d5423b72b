from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from classroom_factory import classroom
from typer.testing import CliRunner

from cs_transformers.cli import app
from cs_transformers.grading import run
from cs_transformers.grading.inline import gather
from cs_transformers.grading.journal import Journal
from cs_transformers.grading.loading import class_entry, load
from cs_transformers.grading.marks import FORMAT, answer_token
from cs_transformers.grading.merging import disputes_in, merge_pages
from cs_transformers.grading.model import Classroom


@pytest.fixture
def grades(tmp_path: Path) -> Path:
    """A folder as `cst grade` leaves it, without the clean copies."""
    found, out = classroom(), tmp_path / "grades"
    submissions = [one.submission for one in found.students.values() if one.submission]
    with Journal(out / "journal.jsonl") as journal:
        start = {"key": found.key, "tier": found.tier, "versions": found.versions, "graded": found.exercises}
        journal.write("run", start)
        journal.write("class", class_entry([one.person for one in found.students.values()], submissions, out))
        for student in found.students.values():
            for record in student.records.values():
                digest = student.submission.digest if student.submission else ""
                journal.write("record", {**asdict(record), "submission": digest})
    run.write_results(load(out), out)
    return out


def saved(path: Path, found: Classroom, points: dict[str, float], grader: str, *, settles: bool = False) -> Path:
    entries = [{"answer": answer_token(found, id, "6.2"), "points": value, "items": []} for id, value in points.items()]
    page = {"format": FORMAT, "exercise": "6.2", "grader": grader, "saved": "1", "settles": settles, "marks": entries}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(page), encoding="utf-8")
    return path


def cell(grades: Path, id: str, column: str) -> str:
    with (grades / "gradebook.csv").open(encoding="utf-8", newline="") as file:
        return next(row[column] for row in csv.DictReader(file) if row["id"] == id)


def test_merged_marks_stand_in_every_result(grades: Path, tmp_path: Path) -> None:
    assert cell(grades, "bo", "6.2 text") == "awaiting review"
    found, problems = merge_pages(grades, [saved(tmp_path / "a.json", load(grades), {"bo": 2.5}, "Tina")])
    assert problems == []
    assert found.students["bo"].marks["6.2"].points == 2.5
    assert cell(grades, "bo", "6.2 text") == "2.5"
    assert "2.5 of 4" in (grades / "feedback" / "bo.html").read_text(encoding="utf-8")
    scores = {
        test["name"]: test.get("score") for test in json.loads((grades / "results" / "bo.json").read_text())["tests"]
    }
    assert scores["6.2 text"] == 2.5


def test_merging_again_changes_no_byte(grades: Path, tmp_path: Path) -> None:
    page = saved(tmp_path / "a.json", load(grades), {"bo": 2.5, "gus": 0}, "Tina")
    merge_pages(grades, [page])
    before = {path: path.read_bytes() for path in sorted(grades.rglob("*")) if path.is_file()}
    merge_pages(grades, [page])
    assert before == {path: path.read_bytes() for path in sorted(grades.rglob("*")) if path.is_file()}


def test_a_dispute_outlives_a_second_merge_until_it_is_settled(grades: Path, tmp_path: Path) -> None:
    found = load(grades)
    tina, udo = (saved(tmp_path / f"{name}.json", found, {"bo": n}, name) for n, name in enumerate(("Tina", "Udo")))
    assert len(merge_pages(grades, [tina, udo])[1]) == 1
    assert len(merge_pages(grades, [udo])[1]) == 1
    assert cell(grades, "bo", "6.2 text") == "awaiting review"
    assert [mark.grader for mark in disputes_in(grades)[answer_token(found, "bo", "6.2")]] == ["Tina", "Udo"]
    merged, problems = merge_pages(grades, [saved(tmp_path / "c.json", found, {"bo": 3}, "Lea", settles=True)])
    assert (problems, disputes_in(grades)) == ([], {})
    assert merged.students["bo"].marks["6.2"].points == 3


def test_a_bad_file_changes_nothing(grades: Path, tmp_path: Path) -> None:
    good = saved(tmp_path / "a.json", load(grades), {"bo": 1}, "Tina")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match=r"got bad\.json"):
        merge_pages(grades, [good, tmp_path / "bad.json"])
    assert not (grades / "marks.json").exists()


def test_corrections_by_hand_reach_the_results(grades: Path) -> None:
    (grades / "adjustments.csv").write_text("student,exercise,points,reason\nbo,1.1,1.5,Unclear.\n", encoding="utf-8")
    merge_pages(grades, [])
    assert cell(grades, "bo", "adjustments") == "1.5"
    assert "Unclear." in (grades / "feedback" / "bo.html").read_text(encoding="utf-8")


def invoke(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["inline", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_the_command_writes_pages_and_merges_what_they_save(grades: Path, tmp_path: Path) -> None:
    code, output = invoke(grades, "--graders", 2, "-o", tmp_path / "review")
    assert code == 0
    assert "pages written: 6" in output
    waiting = len(gather(load(grades), "6.2"))
    saved(tmp_path / "saved" / "a.json", load(grades), {"bo": 4}, "Tina")
    code, output = invoke(grades, "--merge", tmp_path / "saved")
    assert code == 0
    assert "marks that hold: 1" in output
    assert cell(grades, "bo", "6.2 text") == "4"
    assert len(gather(load(grades), "6.2")) == waiting - 1


def test_the_command_reports_disputes_and_writes_pages_to_settle_them(grades: Path, tmp_path: Path) -> None:
    for n, name in enumerate(("Tina", "Udo")):
        saved(tmp_path / "saved" / f"{n}.json", load(grades), {"bo": n}, name)
    code, output = invoke(grades, "--merge", tmp_path / "saved")
    assert code == 1
    assert "graders disagree: Tina 0, Udo 1" in output
    code, output = invoke(grades, "--settle", "-o", tmp_path / "settle")
    assert "pages written: 1" in output
    assert "no text" not in output
    assert (tmp_path / "settle" / "6.2_settle.html").is_file()


def test_the_command_says_when_there_is_no_text_to_read(grades: Path, tmp_path: Path) -> None:
    code, output = invoke(grades, "--settle", "-o", tmp_path / "settle")
    assert code == 0
    assert output.startswith("pages written: 0; ")
    assert output.endswith("; no text of this run is to be read\n")


def test_the_command_says_what_it_needs(grades: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected -o FOLDER for the pages, or --merge FILE"):
        invoke(grades)
    with pytest.raises(ValueError, match="expected a folder that `cst grade` wrote"):
        invoke(tmp_path, "-o", tmp_path / "review")


def test_a_file_in_place_of_the_folder_for_pages_is_told_before_any_merging(grades: Path, tmp_path: Path) -> None:
    saved(tmp_path / "saved" / "a.json", load(grades), {"bo": 4}, "Tina")
    (tmp_path / "review").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match=r"expected a folder for the pages, got .*review, a file; name a folder"):
        invoke(grades, "--merge", tmp_path / "saved", "-o", tmp_path / "review")
    assert not (grades / "marks.json").exists()
    assert (tmp_path / "review").read_text(encoding="utf-8") == "mine"


def test_grade_merges_too(grades: Path, tmp_path: Path) -> None:
    page = saved(tmp_path / "a.json", load(grades), {"bo": 4}, "Tina")
    result = CliRunner().invoke(app, ["grade", "-o", str(grades), "--merge", str(page)])
    assert result.exit_code == 3, "two people could not be graded"
    assert cell(grades, "bo", "6.2 text") == "4"
