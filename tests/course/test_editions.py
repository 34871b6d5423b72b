"""Student editions: they hold no solution, give what was asked for, and overwrite nobody's answers."""

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

from cs_transformers.checks import EXERCISES, references
from cs_transformers.checks import edition as editions_of
from cs_transformers.checks.markers import MarkerError, find_regions, is_stub, read_source
from cs_transformers.checks.tree import PACKAGE
from cs_transformers.course import proofs
from cs_transformers.course.editions import (
    INSTRUCTORS,
    Options,
    check_target,
    numbers,
    plan,
    released_notebook,
    without_rubrics,
    write_edition,
)

ROOT = PACKAGE.parent
KEPT = ("release.json", "pristine.zip")  # the edition's own


@pytest.fixture(scope="module")
def edition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_edition(tmp_path_factory.mktemp("student") / "work")


def packaged(folder: Path) -> set[str]:
    package = folder / "cs_transformers"
    return {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}


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
    assert proofs.leaks(edition, *proofs.solutions(ROOT)) == []
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
    assert proofs.public_names(edition, Options()) == proofs.public_names(ROOT, Options())
    assert any("MultiHeadAttention.forward(" in name for name in proofs.public_names(edition, Options()))


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
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": ["%%answer 6.2\n", "Because."], "outputs": [1], "execution_count": 3},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": [2], "execution_count": 4},
    ]
    stripped = json.loads(released_notebook(json.dumps({"cells": cells}), "06.ipynb"))["cells"]
    assert "".join(stripped[1]["source"]) == "%%answer 6.2\n*Your answer, in one to five sentences.*"
    assert stripped[2] == {"cell_type": "code", "source": ["1 + 1"], "outputs": [], "execution_count": None}
    assert stripped[0] == cells[0]


@pytest.mark.parametrize(
    ("sources", "told"),
    [
        (["x = 1", "### BEGIN SOLUTION 1.1\nx = 1"], r"06\.ipynb, cell 1, line 1: SOLUTION 1\.1 has no END marker"),
        (["### BEGIN SOLUTION 1.1\n### BEGIN SOLUTION 1.2\n"], r"cell 0, line 2: SOLUTION 1\.2 begins inside SOLUTION"),
        (["### BEGIN SECRET 1.1\n"], r"06\.ipynb, cell 0, line 1: unknown marker 'SECRET 1\.1'"),
        (["### BEGIN SOLUTION 1.1\n### END SOLUTION 1.1"] * 2, r"cell 1, line 1: .* a second time, first in cell 0"),
    ],
    ids=["unclosed", "nested", "unknown", "repeated"],
)
def test_a_broken_marker_in_a_notebook_is_refused_with_cell_and_line(sources: list[str], told: str) -> None:
    cells = [{"cell_type": "code", "source": source, "outputs": [], "execution_count": None} for source in sources]
    with pytest.raises(MarkerError, match=told):
        released_notebook(json.dumps({"cells": cells}), "06.ipynb")


def test_a_solution_in_a_notebook_becomes_a_stub() -> None:
    source = "def f(x):\n    ### BEGIN SOLUTION 1.1\n    return x + 41\n    ### END SOLUTION 1.1"
    cells = [{"cell_type": "code", "source": source, "outputs": [], "execution_count": None}]
    text = released_notebook(json.dumps({"cells": cells}), "06.ipynb")
    assert "41" not in text
    assert "BEGIN ANSWER 1.1" in text


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


def test_what_belongs_to_instructors_is_absent_and_the_commands_are_the_students(edition: Path) -> None:
    assert not [name for name in packaged(edition) if name.startswith(INSTRUCTORS) and not name.endswith(KEPT)]
    code = (
        "from cs_transformers import cli; print(*sorted(one.callback.__name__ for one in cli.app.registered_commands))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=edition, capture_output=True, text=True, check=True)
    commands = set(ran.stdout.split())
    assert {"check", "doctor", "hint", "run", "submit", "update"} <= commands
    assert not commands & {"student", "release", "refresh", "execute", "grade", "explain", "diff", "inline", "solution"}


def test_rubrics_keep_their_points_and_lose_what_a_good_answer_names(edition: Path) -> None:
    code = "from cs_transformers.checks import EXERCISES; print({one.id: one.points for one in EXERCISES.values()})"
    ran = subprocess.run([sys.executable, "-c", code], cwd=edition, capture_output=True, text=True, check=True)
    assert ast.literal_eval(ran.stdout) == {one.id: one.points for one in EXERCISES.values()}
    everything = "".join(text for _, text in proofs._texts(edition))
    assert not [item for one in EXERCISES.values() for item in one.rubric if item in everything]
    split = 'Exercise("6.2",\n  rubric={"größe": 2, ("a "\n "b"): 1}, parts={"values": 1})'
    assert without_rubrics(split).endswith('rubric={"item 1": 2, ("item 2"): 1}, parts={"values": 1})')


# ---------------------------------------------------------------- what can be asked for


def states(folder: Path) -> editions_of.Edition:
    return editions_of.load(folder / "cs_transformers")


def test_other_notebooks_are_given_solved_and_count_nothing(tmp_path: Path) -> None:
    work = write_edition(tmp_path / "work", Options(notebooks=("02", "03"), solved=("02",)))
    one = states(work)
    assert [path.stem[:2] for path in sorted((work / "notebooks").iterdir())] == ["02", "03"]
    assert {id[0] for id in one.open} == {"3"}
    assert one.points == sum(EXERCISES[id].points for id in one.open) == 13
    attention, positional = (read_source(work / "cs_transformers" / name) for name in ("attention.py", "positional.py"))
    assert not find_regions(attention)
    assert not find_regions(positional)
    assert "scores.softmax(dim=-1)" in attention or "softmax(" in attention
    kept = {path.stem for path in (work / "cs_transformers" / "checks" / "references").iterdir()}
    assert kept == {id.replace(".", "_") for id in one.open}
    assert [path.stem[:2] for path in (work / "cs_transformers" / "checks" / "hints").iterdir()] == ["03"]
    code = (
        "from cs_transformers import checks\nchecks.check('1.6')\nfor one in checks.run_all(): print(one)\n"
        "import torch; from cs_transformers.attention import causal_mask; print(causal_mask(2).tolist())"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=work, capture_output=True, text=True, check=True)
    lines = ran.stdout.splitlines()
    assert lines[:2] == [
        "1.6 MultiHeadAttention.forward: given",
        "  this edition gives it: the solution stands in attention.py",
    ]
    assert [line.split()[0] for line in lines[2:-1]] == list(one.open)
    assert all(": not attempted" in line for line in lines[2:-1])
    assert lines[-1] == "[[True, False], [True, True]]"


def test_exercises_of_later_weeks_can_stay_stubs(tmp_path: Path) -> None:
    work = write_edition(tmp_path / "work", Options(notebooks=("01",), later="stubs"))
    text = read_source(work / "cs_transformers" / "positional.py")
    assert 'raise NotImplementedError("exercise 2.1 comes later")' in text
    assert not find_regions(text)
    assert states(work).later[0] == "2.1"
    code = "from cs_transformers.checks import check; check('2.1')"
    ran = subprocess.run([sys.executable, "-c", code], cwd=work, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["2.1 sinusoidal_table: later", "  it is handed out later"]


def test_an_exercise_is_not_blocked_by_one_that_is_given(tmp_path: Path) -> None:
    work = write_edition(tmp_path / "work", Options(notebooks=("03",)))
    path = work / "cs_transformers" / "blocks.py"
    body = "return nn.ModuleList(copy.deepcopy(layer) for _ in range(num_layers))"
    stub = 'raise NotImplementedError("exercise 3.5 is not written yet")'
    path.write_text(read_source(path).replace(stub, body), encoding="utf-8")
    code = "from cs_transformers.checks import check; check('3.5'); check('3.2')"
    ran = subprocess.run([sys.executable, "-c", code], cwd=work, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "3.5 clone_layers: passed (1 of 1 points)",
        "3.2 TransformerEncoderLayer._post_norm: not attempted (0 of 4 points)",
    ]


def test_a_stage_alone_is_said_where_fingerprints_stay_out(edition: Path, tmp_path: Path) -> None:
    work = write_edition(tmp_path / "work", Options(notebooks=("01",), diagnosis="stage"))
    folder = Path("cs_transformers/checks/references")
    with_names, without = (references.load("1.4", root / folder) for root in (edition, work))
    assert with_names.fingerprints
    assert not without.fingerprints
    assert without.expected.kinds == with_names.expected.kinds
    path = work / "cs_transformers" / "attention.py"
    stub = 'raise NotImplementedError("exercise 1.1 is not written yet")'
    path.write_text(read_source(path).replace(stub, "return query @ key.transpose(-2, -1)"), encoding="utf-8")
    code = "from cs_transformers.checks import check; check('1.1')"
    ran = subprocess.run([sys.executable, "-c", code], cwd=work, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("1.1 attention_scores: wrong (0 of 3 points)")
    assert "is the first to differ" in ran.stdout
    assert "not divided" not in ran.stdout


def test_the_policy_is_in_the_edition_and_its_guide_links_it(tmp_path: Path) -> None:
    work = write_edition(tmp_path / "work", Options(notebooks=("01",), policy="Say what you used.\n"))
    assert (work / "AI_POLICY.md").read_text(encoding="utf-8") == "Say what you used.\n"
    assert "](AI_POLICY.md)" in read_source(work / "README.md")
    assert states(work).policy == "Say what you used."


def test_the_address_is_in_every_set_up_cell_and_badge(tmp_path: Path) -> None:
    url = "https://github.com/someone/course/tree/2027/student"
    work = write_edition(tmp_path / "work", Options(url=url))
    for path in (work / "notebooks").glob("*.ipynb"):
        cells = json.loads(read_source(path))["cells"]
        assert (
            f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
            f"(https://colab.research.google.com/github/someone/course/blob/2027/student/notebooks/{path.name})"
        ) in "".join(cells[0]["source"])
        setup = next(cell for cell in cells if cell["cell_type"] == "code")
        line = 'RELEASE_URL, FOLDER = "https://github.com/someone/course/archive/refs/heads/2027.zip", "transformers"'
        assert line in "".join(setup["source"])
        assert path.name in read_source(work / "README.md")
    assert read_source(work / "README.md").count("colab-badge.svg") == len(list((work / "notebooks").iterdir()))


def test_the_guide_has_a_table_of_what_is_handed_out(edition: Path) -> None:
    text = read_source(edition / "README.md")
    assert "| [01_attention.ipynb](notebooks/01_attention.ipynb) | 1.1 to 1.8 | 24 |" in text
    assert "<!--" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ()), ("01-03", ("01", "02", "03")), ("3, 1", ("01", "03")), ("2-2 5", ("02", "05"))],
)
def test_numbers_of_notebooks_are_read_as_people_write_them(text: str, expected: tuple[str, ...]) -> None:
    assert numbers(text) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [("0-3", "got '00'"), ("99", "got '99'"), ("a", "got 'a'"), ("1-", "got '1-'"), ("5-1", "got '5-1'")],
)
def test_a_number_without_a_notebook_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=f"release: expected numbers of notebooks .*{told}"):
        numbers(text)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (Options(diagnosis="none"), "expected --diagnosis to be one of full, stage, got 'none'"),
        (Options(later="gone"), "expected --later to be one of solved, stubs, got 'gone'"),
        (Options(notebooks=("01",), solved=("01",)), "something left to write, got only solved ones"),
        (Options(url="course.zip"), "expected an address such as .*give --url the place"),
        (Options(url="https://host/a b.zip"), "expected an address such as"),
    ],
)
def test_what_cannot_be_asked_for_is_told(options: Options, told: str) -> None:
    with pytest.raises(ValueError, match=f"release: .*{told}"):
        plan(options)


def test_only_self_study_holds_solutions_and_the_command(tmp_path: Path) -> None:
    work = write_edition(tmp_path / "work", Options(notebooks=("01", "06"), self_study=True))
    assert {"course/solutions.py", "course/solutions.zip"} <= packaged(work)
    for arguments, told in ((["1.4"], ".tril("), (["6.2"], "A good text names:"), (["1.99"], "expected an exercise")):
        command = [sys.executable, "-m", "cs_transformers", "solution", *arguments]
        ran = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        assert told in ran.stdout + ran.stderr
        assert ran.returncode == (2 if arguments == ["1.99"] else 0)


# ---------------------------------------------------------------- what is never overwritten


def test_an_edition_without_answers_is_renewed(edition: Path, tmp_path: Path) -> None:
    shutil.copytree(edition, tmp_path / "work")
    (tmp_path / "work" / "README.md").write_text("old", encoding="utf-8")
    write_edition(tmp_path / "work")
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
        write_edition(tmp_path / "work")
    assert path.read_bytes() == before


def test_inline_answers_are_never_overwritten(edition: Path, tmp_path: Path) -> None:
    shutil.copytree(edition, tmp_path / "work")
    (tmp_path / "work" / "answers").mkdir()
    (tmp_path / "work" / "answers" / "6.2.md").write_text("Because.", encoding="utf-8")
    with pytest.raises(ValueError, match=r"got answers to 6\.2"):
        write_edition(tmp_path / "work")


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(ValueError, match=r"expected a new folder or an earlier student edition, got .*something else"):
        write_edition(tmp_path)
    assert (tmp_path / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_a_git_repository_is_not_replaced_with_its_history(edition: Path, tmp_path: Path) -> None:
    clone = Path(shutil.copytree(edition, tmp_path / "clone"))
    places = clone, ROOT
    check_target(*places)
    (clone / ".git").mkdir()
    with pytest.raises(ValueError, match=r"expected a folder that may be replaced, got .*clone, a git repository"):
        check_target(*places)


def test_the_student_edition_is_no_source_of_another(edition: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected the instructor edition, got no solution of"):
        write_edition(tmp_path / "out", None, edition)
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
        write_edition(tmp_path / "out", None, source_with(tmp_path, LINES, left))
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".student-*"))


def test_two_lines_are_not_yet_a_leak(tmp_path: Path) -> None:
    source = source_with(tmp_path, LINES, "first = x + 1\nsecond = first * 2\n")
    assert write_edition(tmp_path / "out", None, source).is_dir()


def test_one_long_line_of_a_solution_is_a_leak(tmp_path: Path) -> None:
    line = "return x.reshape(1, 2, 3).transpose(1, 2).contiguous()"
    with pytest.raises(ValueError, match=r"got README\.md: return x\.reshape"):
        write_edition(tmp_path / "out", None, source_with(tmp_path, f"    {line}\n", f"Hint:\n    {line}\n"))


def test_a_public_name_that_only_one_edition_has_is_refused(tmp_path: Path) -> None:
    public = "\n\n### BEGIN REFERENCE ONLY\ndef fast(x):\n    return x\n### END REFERENCE ONLY\n"
    with pytest.raises(
        ValueError, match=r"got attention\.py: fast\(x\) in only one; keep public names out of REFERENCE ONLY"
    ):
        write_edition(tmp_path / "out", None, source_with(tmp_path, LINES, "", public))


def test_code_that_does_not_parse_without_its_regions_is_refused(tmp_path: Path) -> None:
    inner = "        ### BEGIN REFERENCE ONLY\n        return 1\n        ### END REFERENCE ONLY\n"
    public = f"\n\ndef g(x):\n    if x:\n{inner}    return 2\n"
    with pytest.raises(ValueError, match=r"expected cs_transformers/attention\.py to parse, got .*tail of a function"):
        write_edition(tmp_path / "out", None, source_with(tmp_path, LINES, "", public))
