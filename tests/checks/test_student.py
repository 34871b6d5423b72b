"""The student edition: it proves itself, holds no solution, overwrites no answers; its checks are red, then green."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cs_transformers.checks import EXERCISES, student
from cs_transformers.checks.client import Worker
from cs_transformers.checks.markers import find_regions, is_stub, read_source
from cs_transformers.checks.runner import Runner
from cs_transformers.checks.tree import PACKAGE

ROOT = PACKAGE.parent


@pytest.fixture(scope="module")
def edition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return student.student_tree(tmp_path_factory.mktemp("student") / "work")


def test_every_region_is_a_stub_and_everything_parses(edition: Path) -> None:
    names = []
    for path in edition.rglob("*.py"):
        ast.parse(read_source(path))
        for region in find_regions(read_source(path), path.name):
            assert region.kind == "ANSWER"
            assert is_stub(region.body)
            names.append(region.exercise)
    assert set(names) - {"helpers"} == {one.id for one in EXERCISES.values() if one.file}


def test_mistakes_and_solutions_are_absent(edition: Path) -> None:
    assert not (edition / "cs_transformers" / "checks" / "mistakes").exists()
    assert student.leaks(edition, student.solutions(ROOT)) == []
    with zipfile.ZipFile(edition / "cs_transformers" / "checks" / "pristine.zip") as archive:
        for name in archive.namelist():
            assert archive.read(name) == (edition / "cs_transformers" / name).read_bytes()
        assert "attention.py" in archive.namelist()


def test_the_edition_has_a_guide_of_its_own(edition: Path) -> None:
    text = read_source(edition / "README.md")
    assert text.startswith("# For students")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (edition / target).exists(), f"README links {target}, which the edition lacks"
    assert "make " not in text, "the edition has no Makefile"


def test_both_editions_offer_the_same_names(edition: Path) -> None:
    assert student.public_names(edition) == student.public_names(ROOT)
    assert any("MultiHeadAttention.forward(" in name for name in student.public_names(edition))


def test_notebooks_carry_no_outputs_and_no_answers(edition: Path) -> None:
    notebooks = sorted((edition / "notebooks").glob("*.ipynb"))
    assert notebooks
    for path in notebooks:
        for cell in json.loads(read_source(path))["cells"]:
            if cell["cell_type"] == "code":
                assert cell["outputs"] == []
                assert cell["execution_count"] is None


def test_an_inline_answer_is_emptied_and_other_cells_stay() -> None:
    cells = [
        {"cell_type": "code", "source": ["%%answer 6.2\n", "Because."], "outputs": [1], "execution_count": 3},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": [2], "execution_count": 4},
        {"cell_type": "markdown", "source": ["text"]},
    ]
    stripped = json.loads(student.stripped_notebook(json.dumps({"cells": cells}), "Yours."))["cells"]
    assert "".join(stripped[0]["source"]) == "%%answer 6.2\nYours."
    assert stripped[1] == {"cell_type": "code", "source": ["1 + 1"], "outputs": [], "execution_count": None}
    assert stripped[2] == cells[2]


def test_the_stubs_import_and_raise(edition: Path) -> None:
    code = (
        "import torch, cs_transformers\nfrom cs_transformers import attention, blocks, captioning, vit, decoding\n"
        "from cs_transformers.checks import check, hint\nfrom cs_transformers.training import recipes\n"
        "try:\n    attention.causal_mask(3)\nexcept NotImplementedError as error:\n    print(error)\n"
        "print(cs_transformers.__file__)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=edition, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("exercise 1.4 is not written yet")
    assert str(edition) in ran.stdout


@pytest.mark.parametrize("id", [id for id, one in EXERCISES.items() if one.parts])
def test_every_check_is_red_on_the_stubs(edition: Path, worker: Worker, id: str) -> None:
    verdict = Runner(package=edition / "cs_transformers", worker=worker).verdict(id)
    assert verdict.state == "not attempted"
    assert verdict.points == 0


def test_checks_are_green_again_with_the_solutions_spliced_back(
    edition: Path, worker: Worker, solved, tmp_path: Path
) -> None:
    shutil.copytree(edition, tmp_path / "work")
    package = tmp_path / "work" / "cs_transformers"
    for file, regions in solved.regions.items():
        text = read_source(package / file)
        bodies = {name: region.body for name, region in regions.items()}
        (package / file).write_text(student.tree.splice(text, bodies, file), encoding="utf-8")
    runner = Runner(package=package, worker=worker)
    for id in ("1.6", "2.3", "3.4", "4.3", "4.5", "5.3", "6.5"):
        assert runner.verdict(id).passed, id


def test_a_second_run_gives_the_same_bytes(edition: Path, tmp_path: Path) -> None:
    again = student.student_tree(tmp_path / "again")
    files = sorted(path.relative_to(edition) for path in edition.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    assert all((edition / name).read_bytes() == (again / name).read_bytes() for name in files)


def test_an_edition_without_answers_is_renewed(edition: Path, tmp_path: Path) -> None:
    shutil.copytree(edition, tmp_path / "work")
    (tmp_path / "work" / "README.md").write_text("old", encoding="utf-8")
    student.student_tree(tmp_path / "work")
    assert (tmp_path / "work" / "README.md").read_text(encoding="utf-8") != "old"


def test_answers_are_never_overwritten(edition: Path, tmp_path: Path) -> None:
    shutil.copytree(edition, tmp_path / "work")
    path = tmp_path / "work" / "cs_transformers" / "attention.py"
    path.write_text(
        read_source(path).replace('raise NotImplementedError("exercise 1.4 is not written yet")', "return 7"),
        encoding="utf-8",
    )
    before = path.read_bytes()
    with pytest.raises(
        ValueError, match=r"a student edition without answers, got answers to 1\.4 in .*choose another folder"
    ):
        student.student_tree(tmp_path / "work")
    assert path.read_bytes() == before


def test_inline_answers_are_never_overwritten(edition: Path, tmp_path: Path) -> None:
    shutil.copytree(edition, tmp_path / "work")
    (tmp_path / "work" / "answers").mkdir()
    (tmp_path / "work" / "answers" / "6.2.md").write_text("Because.", encoding="utf-8")
    with pytest.raises(ValueError, match=r"got answers to 6\.2"):
        student.student_tree(tmp_path / "work")


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(ValueError, match=r"expected a new folder or an earlier student edition, got .*something else"):
        student.student_tree(tmp_path)
    assert (tmp_path / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_the_student_edition_is_no_source_of_another(edition: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected the instructor edition, got no solution of"):
        student.student_tree(tmp_path / "out", source=edition)
    assert not (tmp_path / "out").exists()


def source_with(tmp_path: Path, solution: str, extra: str = "", public: str = "") -> Path:
    package = tmp_path / "source" / "cs_transformers"
    (package / "checks").mkdir(parents=True)
    (package / "checks" / "__init__.py").write_text("", encoding="utf-8")
    text = f"def f(x):\n    ### BEGIN SOLUTION 1.1\n{solution}    ### END SOLUTION 1.1\n{public}"
    (package / "attention.py").write_text(text, encoding="utf-8")
    (tmp_path / "source" / "docs").mkdir()
    (tmp_path / "source" / "docs" / "student.md").write_text(extra, encoding="utf-8")
    return tmp_path / "source"


LINES = "    first = x + 1\n    second = first * 2  # why\n    return second - 3\n"


def test_three_lines_of_a_solution_left_in_a_text_are_found(tmp_path: Path) -> None:
    left = "\n".join(["Do this:", "", "first  =  x + 1", "# think", "second = first * 2", "", "return second - 3"])
    with pytest.raises(ValueError, match=r"expected no solution in it, got README\.md: first = x \+ 1 / second"):
        student.student_tree(tmp_path / "out", source=source_with(tmp_path, LINES, left))
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".student-*"))


def test_two_lines_are_not_yet_a_leak(tmp_path: Path) -> None:
    source = source_with(tmp_path, LINES, "first = x + 1\nsecond = first * 2\n")
    assert student.student_tree(tmp_path / "out", source=source).is_dir()


def test_one_long_line_of_a_solution_is_a_leak(tmp_path: Path) -> None:
    line = "return x.reshape(1, 2, 3).transpose(1, 2).contiguous()"
    with pytest.raises(ValueError, match=r"got README\.md: return x\.reshape"):
        student.student_tree(tmp_path / "out", source=source_with(tmp_path, f"    {line}\n", f"Hint:\n    {line}\n"))


def test_a_public_name_that_only_one_edition_has_is_refused(tmp_path: Path) -> None:
    public = "\n\n### BEGIN REFERENCE ONLY\ndef fast(x):\n    return x\n### END REFERENCE ONLY\n"
    with pytest.raises(
        ValueError, match=r"got attention\.py: fast\(x\) in only one; keep public names out of REFERENCE ONLY"
    ):
        student.student_tree(tmp_path / "out", source=source_with(tmp_path, LINES, "", public))


def test_code_that_does_not_parse_without_its_regions_is_refused(tmp_path: Path) -> None:
    inner = "        ### BEGIN REFERENCE ONLY\n        return 1\n        ### END REFERENCE ONLY\n"
    public = f"\n\ndef g(x):\n    if x:\n{inner}    return 2\n"
    with pytest.raises(ValueError, match=r"expected cs_transformers/attention\.py to parse, got .*tail of a function"):
        student.student_tree(tmp_path / "out", source=source_with(tmp_path, LINES, "", public))
