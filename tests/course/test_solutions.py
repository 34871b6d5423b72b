"""Model answers: code, words on it and frequent mistakes of every exercise; only where an edition may show them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cs_transformers import cli
from cs_transformers.checks import EXERCISES, NOTEBOOKS
from cs_transformers.checks.front import hints_of
from cs_transformers.checks.refresh import mistakes_of
from cs_transformers.checks.tree import PACKAGE
from cs_transformers.course.editions import Options, write_edition
from cs_transformers.course.solutions import gather, solution

ROOT = PACKAGE.parent


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studied") / "work"
    return write_edition(folder, Options(notebooks=("01", "06"), self_study=True)) / "cs_transformers"


@pytest.mark.parametrize("id", EXERCISES)
def test_every_exercise_has_code_with_words_or_a_text_and_no_hint_again(id: str) -> None:
    one, answer = EXERCISES[id], solution(id)
    assert bool(answer.code) == bool(one.file) == bool(answer.why)
    assert len(answer.why) <= len(answer.code)
    assert all(len(said) > 20 and "Args:" not in said and "Returns:" not in said for said in answer.why)
    assert not [hint for hint in hints_of(id) if hint in " ".join(str(answer).split())]
    assert all("###" not in text and '"""' not in text for text in answer.code)
    assert set(answer.mistakes) == {mistake.diagnosis for mistake in mistakes_of(id)}
    assert answer.names == one.rubric
    if (ROOT / "notebooks" / f"{NOTEBOOKS[one.notebook].name}.ipynb").is_file():
        assert bool(answer.text) == bool(one.rubric)


def test_the_code_starts_with_its_function_and_ends_with_its_return() -> None:
    split, join = solution("1.5").code
    assert split.startswith("def split_heads(x: Tensor, num_heads: int) -> Tensor:\n")
    assert join.splitlines()[-1].strip().startswith("return ")
    method = solution("1.6").code[0]
    assert method.startswith("def forward(\n"), "moved to the margin"
    assert "# Exercise 1.6" in method


def test_it_reads_well(capsys: pytest.CaptureFixture) -> None:
    print(solution("1.1"))
    printed = capsys.readouterr().out
    headings = ["1.1 attention_scores (attention.py)", "def attention_scores(", "What it is:", "What often goes wrong:"]
    places = [printed.index(heading) for heading in headings]
    assert places == sorted(places)
    assert "A good text names" not in printed
    assert "A good text names:\n* causes: " in str(solution("6.2"))


def test_an_edition_for_self_study_keeps_them_in_one_file(studied: Path) -> None:
    assert solution("1.4", studied) == solution("1.4")
    assert solution("6.2", studied) == solution("6.2")
    with pytest.raises(ValueError, match=r"expected an exercise to write in this edition, got 2\.1; it is given"):
        solution("2.1", studied)
    with zipfile.ZipFile(studied / "course" / "solutions.zip") as archive:
        assert {name.removesuffix(".json").partition(".")[0] for name in archive.namelist()} == {"1", "6"}


def test_a_plain_student_edition_has_none(tmp_path: Path) -> None:
    package = write_edition(tmp_path / "work", Options(notebooks=("01",))) / "cs_transformers"
    assert not (package / "course" / "solutions.zip").exists()
    with pytest.raises(ValueError, match=r"expected an edition that holds solutions, got none of 1\.4 in attention"):
        solution("1.4", package)


def test_what_is_stored_is_json_and_nothing_else() -> None:
    files = gather(PACKAGE, ("1.4", "6.2"))
    assert list(files) == ["1.4.json", "6.2.json"]
    assert json.loads(files["1.4.json"])["symbol"] == "causal_mask"


def test_the_command_prints_it_and_refuses_what_there_is_not() -> None:
    result = CliRunner().invoke(cli.app, ["solution", "1.4"], catch_exceptions=False)
    assert result.exit_code == 0
    assert ".tril(" in result.output
    with pytest.raises(ValueError, match="expected an exercise such as"):
        solution("1.99")
