"""Trees: only answer regions travel, everything else is the pristine source."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cs_transformers.checks import tree
from cs_transformers.checks.markers import lift, make_stubs, read_source


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    return tree.pristine_sources()


def test_the_tree_holds_no_reference_only_code_no_mistake_and_no_trusted_side(sources: dict[str, str]) -> None:
    assert all("REFERENCE ONLY" not in text for text in sources.values())
    assert not [path for path in sources if "mistakes" in path or path.startswith(("course/", "grading/", "cli"))]
    in_checks = {path for path in sources if path.startswith("checks/")}
    assert in_checks
    assert all(path.startswith("checks/definitions/") for path in in_checks)


def test_a_rebuilt_tree_imports_and_works(sources: dict[str, str], tmp_path: Path) -> None:
    answers = tree.read_answers(tree.PACKAGE, ["attention.py"])
    tree.rebuild(tmp_path, sources, answers)
    code = (
        "import torch, cs_transformers.attention as a, cs_transformers.checks.definitions.attention as d\n"
        "print(a.__file__, tuple(a.MultiHeadAttention(8, 2)(*[torch.zeros(1, 3, 8)] * 3).shape), d.__file__)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert str(tmp_path) in ran.stdout
    assert "(1, 3, 8)" in ran.stdout


def student_copy(tmp_path: Path, change: dict[str, str]) -> Path:
    """A package of stubs with some replacements of text in attention.py."""
    package = tmp_path / "student"
    package.mkdir()
    text = make_stubs(read_source(tree.PACKAGE / "attention.py"))
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    (package / "attention.py").write_text(text, encoding="utf-8")
    return package


STUB_11 = 'raise NotImplementedError("exercise 1.1 is not written yet")'


def test_answers_travel_and_changes_outside_them_do_not(sources: dict[str, str], tmp_path: Path) -> None:
    package = student_copy(
        tmp_path,
        {
            STUB_11: "return 'mine'",
            "def causal_mask(": "import os\n\n\ndef causal_mask(",
            '_check_heads("attention_scores", query, key)': "pass  # I know better",
        },
    )
    answers = tree.read_answers(package, ["attention.py"])
    tree.rebuild(tmp_path / "tree", sources, answers)
    text = read_source(tmp_path / "tree" / "cs_transformers" / "attention.py")
    assert "return 'mine'" in text
    assert "I know better" not in text
    assert "import os" not in text
    assert '_check_heads("attention_scores", query, key)' in text


def test_a_line_of_the_tree_is_found_again_in_the_students_file(sources: dict[str, str], tmp_path: Path) -> None:
    package = student_copy(
        tmp_path, {STUB_11: "x = 1\n    return x / 0", '"""Attention: every': '"""More\nlines.\n\nAttention: every'}
    )
    answers = tree.read_answers(package, ["attention.py"])
    tree.rebuild(tmp_path / "tree", sources, answers)
    built = read_source(tmp_path / "tree" / "cs_transformers" / "attention.py").splitlines()
    here = next(number for number, line in enumerate(built, start=1) if "x / 0" in line)
    home = tree.student_line("attention.py", here, tmp_path / "tree", answers)
    assert "x / 0" in read_source(package / "attention.py").splitlines()[home - 1]
    assert home != here


def test_a_region_that_cannot_be_used_becomes_a_stub_and_never_the_solution(
    sources: dict[str, str], tmp_path: Path
) -> None:
    package = student_copy(tmp_path, {STUB_11: "return ("})
    answers = tree.read_answers(package, ["attention.py"])
    assert "not valid Python" in answers.problems["attention.py", "1.1"][1]
    tree.rebuild(tmp_path / "tree", sources, answers)
    built = lift(read_source(tmp_path / "tree" / "cs_transformers" / "attention.py"))
    assert "raise NotImplementedError" in built["1.1"].body
    assert "transpose" not in built["1.1"].body


def test_an_answer_whose_markers_were_indented_otherwise_is_moved_to_its_place(
    sources: dict[str, str], tmp_path: Path
) -> None:
    package = tmp_path / "student"
    package.mkdir()
    text = (
        "def f():\n  ### BEGIN ANSWER 1.1\n  if query is key:\n    return 'mine'\n\n  return 1\n  ### END ANSWER 1.1\n"
    )
    (package / "attention.py").write_text(text, encoding="utf-8")
    answers = tree.read_answers(package, ["attention.py"])
    assert answers.problems == {}
    tree.rebuild(tmp_path / "tree", sources, answers)
    built = lift(read_source(tmp_path / "tree" / "cs_transformers" / "attention.py"))
    assert built["1.1"].body == "    if query is key:\n      return 'mine'\n\n    return 1\n"


def test_broken_markers_missing_files_and_bytes_are_noted_not_raised(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("### BEGIN ANSWER 1.1\n", encoding="utf-8")
    (tmp_path / "b.py").write_bytes(b"\xff\x00\x00")
    answers = tree.read_answers(tmp_path, ["a.py", "b.py", "c.py"])
    assert answers.problems["a.py", ""] == (1, "ANSWER 1.1 has no END marker; restore it")
    assert "save the file as UTF-8" in answers.problems["b.py", ""][1]
    assert answers.problems["c.py", ""][0] == 0
    assert answers.regions == {}


def test_helpers_can_be_left_out(sources: dict[str, str], tmp_path: Path) -> None:
    package = student_copy(
        tmp_path, {"# Your own imports and functions, for the answers of this file.": "import nowhere"}
    )
    answers = tree.read_answers(package, ["attention.py"])
    tree.rebuild(tmp_path / "with", sources, answers)
    tree.rebuild(tmp_path / "without", sources, answers, without_helpers=frozenset({"attention.py"}))
    assert "import nowhere" in read_source(tmp_path / "with" / "cs_transformers" / "attention.py")
    assert "import nowhere" not in read_source(tmp_path / "without" / "cs_transformers" / "attention.py")


def test_a_stored_pristine_copy_is_taken_before_the_package(tmp_path: Path) -> None:
    (tmp_path / "checks").mkdir()
    (tmp_path / "attention.py").write_text("changed", encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "checks" / "pristine.zip", "w") as archive:
        archive.writestr("attention.py", "pristine")
    assert tree.pristine_sources(tmp_path) == {"attention.py": "pristine"}


def test_the_digest_follows_the_answer_and_its_helpers_only(tmp_path: Path) -> None:
    wanted = [("attention.py", "1.1")]

    def digest(change: dict[str, str], name: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        return tree.digest(tree.read_answers(student_copy(folder, change), ["attention.py"]), wanted)

    plain = digest({}, "a")
    assert digest({"import math\n": "import math  # other\n"}, "b") == plain
    assert digest({STUB_11: "return 1"}, "c") != plain
    assert digest({"# Your own imports": "# My own imports"}, "d") != plain
    assert digest({STUB_11.replace("1.1", "1.2"): "return 1"}, "e") == plain


def test_a_damaged_pristine_copy_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "pristine.zip").write_bytes(b"PK damaged")
    with pytest.raises(
        ValueError, match=r"expected a readable pristine\.zip, got BadZipFile; copy it again .*your answers stay"
    ):
        tree.pristine_sources(tmp_path)
