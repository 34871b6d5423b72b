from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from classroom_factory import HOSTILE, classroom, hostile_classroom

from cs_transformers.grading import gradescope
from cs_transformers.grading.gradescope import autograder_files
from cs_transformers.grading.model import Classroom
from cs_transformers.grading.scores import sheets

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10: pytest brings the same parser
    import tomli as tomllib

# What Gradescope documents, field by field: https://gradescope-autograders.readthedocs.io/en/latest/specs/
TOP = {
    "score": (int, float),
    "execution_time": (int, float),
    "output": str,
    "output_format": str,
    "test_output_format": str,
    "test_name_format": str,
    "visibility": str,
    "stdout_visibility": str,
    "extra_data": dict,
    "tests": list,
    "leaderboard": list,
}
TEST = {
    "score": (int, float),
    "max_score": (int, float),
    "status": str,
    "name": str,
    "name_format": str,
    "number": str,
    "output": str,
    "output_format": str,
    "tags": list,
    "visibility": str,
    "extra_data": dict,
}
VISIBILITIES = {"hidden", "after_due_date", "after_published", "visible"}
FORMATS = {"text", "html", "simple_format", "md", "ansi"}


def results(id: str, found: Classroom | None = None) -> dict[str, Any]:
    found = found or classroom()
    made = gradescope.results(found.students[id], sheets(found)[id], found)
    return json.loads(json.dumps(made, allow_nan=False))


def by_name(id: str) -> dict[str, dict[str, Any]]:
    return {test["name"]: test for test in results(id)["tests"]}


@pytest.mark.parametrize("id", list(classroom().students))
def test_every_field_is_one_that_gradescope_documents(id: str) -> None:
    made = results(id)
    assert all(isinstance(value, TOP[key]) for key, value in made.items())
    assert {made["visibility"], made["stdout_visibility"]} <= VISIBILITIES
    assert {made[name] for name in ("output_format", "test_output_format", "test_name_format")} <= FORMATS
    for test in made["tests"]:
        assert all(isinstance(value, TEST[key]) for key, value in test.items())
        assert test["visibility"] in VISIBILITIES
        assert test.get("status") in (None, "passed", "failed")
        assert all(isinstance(tag, str) for tag in test.get("tags", []))


def test_the_score_is_the_total_of_the_gradebook() -> None:
    found = classroom()
    assert {id: results(id)["score"] for id in found.students} == {id: one.total for id, one in sheets(found).items()}


def test_the_parts_add_up_to_the_score() -> None:
    for id in ("ada", "bo", "gus"):
        made = results(id)
        assert sum(test.get("score", 0) for test in made["tests"]) == made["score"]


def test_a_text_nobody_read_has_no_score_and_no_maximum() -> None:
    waiting = by_name("bo")["6.2 text"]
    assert not {"score", "max_score", "status"} & set(waiting)
    assert waiting["output"] == "awaiting review\na person still has to read it; up to 4 points"


def test_what_people_decided_appears_when_it_is_published() -> None:
    assert by_name("ada")["6.2 text"]["visibility"] == "after_published"
    assert by_name("ada")["6.2 text"]["score"] == 4
    assert "[x] causes" in by_name("ada")["6.2 text"]["output"]
    assert by_name("bo")["corrections by the instructor"]["visibility"] == "after_published"
    assert by_name("bo")["1.1 attention_scores"]["visibility"] == "visible"


def test_what_is_for_the_instructor_is_hidden_and_worth_nothing() -> None:
    hidden = [test for test in results("cy")["tests"] if test["visibility"] == "hidden"]
    assert [test["name"] for test in hidden] == ["for the instructor"]
    assert "3 processes were left over" in hidden[0]["output"]
    assert not {"score", "max_score"} & set(hidden[0]), "a hidden test with points would hide the total from students"
    shown = json.dumps([test for test in results("cy")["tests"] if test["visibility"] != "hidden"])
    assert "left over" not in shown
    assert results("cy")["stdout_visibility"] == "hidden"


def test_a_wrong_answer_says_why() -> None:
    test = by_name("bo")["1.1 attention_scores"]
    assert (test["score"], test["max_score"], test["status"], test["number"], test["tags"]) == (
        0,
        3,
        "failed",
        "1.1",
        ["wrong"],
    )
    assert test["output"].splitlines() == [
        "not right yet",
        "scores are not divided; divide by the square root of the head width",
        "values: the shape is right",
    ]


@pytest.mark.parametrize(
    ("id", "words"), [("dee", "nothing was handed in"), ("eve", "could not be graded: it is no zip")]
)
def test_who_was_not_graded_gets_no_tests_but_a_reason(id: str, words: str) -> None:
    made = results(id)
    assert [test["name"] for test in made["tests"]] == ["for the instructor"]
    assert made["score"] == 0
    assert words in made["output"] or made["extra_data"]["status"] == "absent"


def test_what_the_grader_failed_on_is_for_the_instructor_alone() -> None:
    found = classroom()
    found.ungraded["hal"] = "6.3: SandboxError: exercise 6.3: the solution does not answer ([{'file': '/srv/key'}])"
    made = results("hal", found)
    hidden = [test for test in made["tests"] if test["visibility"] == "hidden"]
    assert "not graded: 6.3: SandboxError: exercise 6.3: the solution does not answer" in hidden[0]["output"]
    shown = json.dumps({**made, "tests": [test for test in made["tests"] if test["visibility"] != "hidden"]})
    assert "SandboxError" not in shown
    assert "/srv/key" not in shown
    said = "incomplete: no verdict yet on 6.3; that is not your fault, and your instructor sees why"
    assert said in made["output"].splitlines()


def test_one_file_for_everybody_and_the_same_bytes_again(tmp_path: Path) -> None:
    one = gradescope.write(classroom(), tmp_path / "a")
    assert len(one) == len(classroom().students)
    (tmp_path / "a" / "results" / "gone.json").write_text("{}")
    two = gradescope.write(classroom(), tmp_path / "a")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    assert not (tmp_path / "a" / "results" / "gone.json").exists()


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_texts_stay_text(number: int) -> None:
    found = hostile_classroom()
    made = results(list(found.students)[number], found)
    text = json.dumps(made, ensure_ascii=False)
    assert made["output_format"] == made["test_output_format"] == made["test_name_format"] == "text"
    assert not any("format" in key for test in made["tests"] for key in test), "no test changes its own format"
    assert not re.search("[\x00\x1b\u202e]", text)
    text.encode("utf-8")
    assert len(text) < 200_000


def test_the_scripts_are_at_the_root_and_valid_bash(tmp_path: Path) -> None:
    files = autograder_files()
    assert set(files) == {"setup.sh", "run_autograder"}
    for name, text in files.items():
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", newline="\n")
        assert text.startswith("#!/usr/bin/env bash\n")
        assert subprocess.run(["bash", "-n", str(path)], capture_output=True, check=False).returncode == 0


def test_the_image_gets_every_dependency_of_the_course() -> None:
    root = Path(__file__).resolve().parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    grade = [one for one in project["optional-dependencies"]["grade"] if not one.startswith("dask")]
    asked = re.findall(r"'([a-z][^']+>=[^']+)'", autograder_files()["setup.sh"])
    assert sorted(asked) == sorted([*project["dependencies"], *grade])


class _Grade:
    """Stands for the whole run: what it is called with, and a class as it comes back."""

    def __init__(self) -> None:
        self.folders: list[str] = []
        self.options: dict[str, object] = {}
        self.links = 0

    def __call__(self, submissions: Path, _out: Path, **options: object) -> Classroom:
        self.options = options
        self.folders = sorted(path.relative_to(submissions).as_posix() for path in submissions.rglob("*"))
        self.links = sum(path.is_symlink() for path in submissions.rglob("*"))
        found = classroom()
        return Classroom(found.exercises, {"ada": found.students["ada"]}, found.key)


def container(home: Path, metadata: str | None) -> Path:
    (home / "submission").mkdir(parents=True)
    (home / "submission" / "attention.py").write_text("x = 1\n")
    (home / "submission" / "link").symlink_to("/etc/passwd")
    if metadata is not None:
        (home / "submission_metadata.json").write_text(metadata)
    return home


@pytest.mark.parametrize(
    ("metadata", "folder"),
    [
        ('{"id": 1, "users": [{"email": "ada@example.edu", "id": 7, "name": "Ada"}]}', r"ada_example\.edu-[0-9a-f]{8}"),
        ('{"users": [{"id": 7}]}', "7"),
        ('{"users": []}', "student"),
        ("nonsense", "student"),
        (None, "student"),
    ],
)
def test_a_container_is_graded_as_a_class_of_one(
    metadata: str | None, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cs_transformers.grading import run

    grade = _Grade()
    monkeypatch.setattr(run, "grade", grade)
    written = gradescope.run(container(tmp_path / "autograder", metadata))
    assert written == tmp_path / "autograder" / "results" / "results.json"
    assert json.loads(written.read_text())["score"] == 21
    assert re.fullmatch(folder, grade.folders[0])
    assert grade.links == 1, "a link stays one, for taking in to refuse"


def test_only_what_was_released_is_graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cs_transformers.checks import edition
    from cs_transformers.grading import run

    grade, home = _Grade(), container(tmp_path / "autograder", None)
    monkeypatch.setattr(run, "grade", grade)
    gradescope.run(home)
    assert grade.options == {"only": (), "nbval": False}
    (home / "source").mkdir()
    (home / "source" / "release.json").write_text(edition.encode(edition.Edition(id="week 1", open=("1.1", "1.2"))))
    gradescope.run(home)
    assert grade.options["only"] == ("1.1", "1.2")


def test_a_container_without_a_submission_fails_loudly(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gradescope: expected a submission in"):
        gradescope.run(tmp_path)
