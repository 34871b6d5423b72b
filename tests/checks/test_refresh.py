"""Refreshing: what it writes, and what it refuses to store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cs_transformers.checks import EXERCISES, references, refresh
from cs_transformers.checks.refresh import Mistake, fingerprint, mistakes_of, recorded, reference_answers, with_mistake
from cs_transformers.checks.registry import EXERCISES as REGISTRY
from cs_transformers.checks.runner import Runner
from cs_transformers.checks.tree import Answers
from cs_transformers.course.editions import write_edition


def test_refreshing_writes_what_is_stored(runner: Runner, tmp_path: Path) -> None:
    path = refresh.refresh("1.4", tmp_path, runner)
    new, old = references.load("1.4", tmp_path), references.load("1.4")
    assert path.name == "1_4.npz"
    assert new.fingerprints == old.fingerprints
    assert new.expected.kinds == old.expected.kinds
    assert new.seed == old.seed


def test_only_the_instructor_edition_can_be_refreshed(tmp_path: Path) -> None:
    work = write_edition(tmp_path / "work")
    with pytest.raises(
        ValueError, match=r"expected a package with all solutions, got stubs for .*refresh in the instructor"
    ):
        reference_answers(work / "cs_transformers")


def test_a_part_that_the_check_never_records_is_refused(runner: Runner, tmp_path: Path, monkeypatch) -> None:
    one = EXERCISES["1.4"]
    monkeypatch.setitem(REGISTRY, "1.4", replace(one, parts={**one.parts, "invariant: nothing": 0}))
    with pytest.raises(ValueError, match=r"refresh 1\.4: the check function records nothing for 'invariant: nothing'"):
        refresh.refresh("1.4", tmp_path, runner)
    assert not list(tmp_path.iterdir())


def test_a_solution_that_fails_is_not_stored(runner: Runner, tmp_path: Path, monkeypatch) -> None:
    wrong = Mistake("crash", "It crashes.", "1.4", "raise ValueError('broken')\n")
    answers = with_mistake(reference_answers(), "attention.py", wrong)
    monkeypatch.setattr(refresh, "reference_answers", lambda _: answers)
    with pytest.raises(ValueError, match=r"refresh 1\.4: expected an answer of the solution, got answered .*broken"):
        refresh.refresh("1.4", tmp_path, runner)


def test_a_training_that_misses_its_goal_is_not_stored(runner: Runner, tmp_path: Path, monkeypatch) -> None:
    zeros = next(mistake for mistake in mistakes_of("6.5") if mistake.name == "zeros_everywhere")
    answers = with_mistake(reference_answers(), "analysis.py", zeros)
    monkeypatch.setattr(refresh, "reference_answers", lambda _: answers)
    with pytest.raises(
        ValueError, match=r"refresh 6\.5: expected the solution to reach its goal, got 'the function agrees"
    ):
        refresh.refresh("6.5", tmp_path, runner)


def test_a_mistake_that_gives_what_the_solution_gives_is_refused(runner: Runner, solved: Answers) -> None:
    one = EXERCISES["1.4"]
    same = Mistake("same", "It is right.", "1.4", solved.regions["attention.py"]["1.4"].body)
    expected = recorded(runner, one, solved, 5)
    with pytest.raises(ValueError, match=r"mistake 1\.4 same: it gives what the solution gives; no check can see it"):
        fingerprint(runner, one, solved, same, expected, 5)


def test_a_mistake_that_does_not_answer_is_refused(runner: Runner, solved: Answers) -> None:
    one = EXERCISES["1.4"]
    gone = Mistake("gone", "It is gone.", "1.4", "import os\nos._exit(3)\n")
    with pytest.raises(ValueError, match=r"mistake 1\.4 gone: expected an answer, got exited early exit status 3"):
        fingerprint(runner, one, solved, gone, recorded(runner, one, solved, 5), 5)


def test_a_mistake_needs_its_diagnosis_a_region_and_a_body_that_stands(solved: Answers, tmp_path: Path) -> None:
    (tmp_path / "1_1").mkdir()
    (tmp_path / "1_1" / "silent.py").write_text("return 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"silent\.py: expected a comment with the diagnosis in the first line"):
        mistakes_of("1.1", tmp_path)
    with pytest.raises(ValueError, match=r"mistake m: expected a region of attention\.py, got '1\.99'"):
        with_mistake(solved, "attention.py", Mistake("m", "M.", "1.99", "return 1\n"))
    with pytest.raises(ValueError, match=r"mistake m: not valid Python"):
        with_mistake(solved, "attention.py", Mistake("m", "M.", "1.1", "return (\n"))


def test_the_second_line_of_a_mistake_may_name_its_region() -> None:
    regions = {mistake.name: mistake.region for mistake in mistakes_of("1.5")}
    assert regions["split_without_transpose"] == "1.5 split_heads"
    assert regions["join_without_transpose"] == "1.5 join_heads"
