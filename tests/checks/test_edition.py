"""What an edition hands out: read as it was written, damage told, and what is given is no exercise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cs_transformers.checks import EXERCISES, edition, front
from cs_transformers.checks.edition import Edition, encode, load, parse
from cs_transformers.checks.tree import PACKAGE

WEEK = Edition(id="abc", notebooks=("01", "02"), open=("2.1", "2.2"), solved=("1.1",), later=("3.1",), policy="größe")


def test_this_package_is_the_instructor_edition_and_asks_for_everything() -> None:
    one = load(PACKAGE)
    assert one == Edition()
    assert one.points == sum(exercise.points for exercise in EXERCISES.values())
    assert all(one.asks(id) and one.given(exercise) is None for id, exercise in EXERCISES.items())


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert parse(encode(WEEK).encode()) == WEEK
    (tmp_path / "release.json").write_text(encode(WEEK), encoding="utf-8")
    assert load(tmp_path) == WEEK
    assert WEEK.points == EXERCISES["2.1"].points + EXERCISES["2.2"].points


@pytest.mark.parametrize("key", ["id", "open", "diagnosis", "self_study", "files"])
@pytest.mark.parametrize("value", [None, 3, ["a", 3]], ids=str)
def test_a_damaged_description_is_told(key: str, value: object) -> None:
    record = json.loads(encode(WEEK))
    told = r"release: expected a readable release\.json, got .*take it again from the zip .*your answers stay"
    with pytest.raises(ValueError, match=told):
        parse(json.dumps({**record, key: value}).encode())
    del record[key]
    with pytest.raises(ValueError, match=told):
        parse(json.dumps(record).encode())


def test_given_and_later_exercises_say_so_and_are_worth_nothing() -> None:
    given, later = WEEK.given(EXERCISES["1.1"]), WEEK.given(EXERCISES["3.1"])
    assert str(given) == "1.1 attention_scores: given\n  this edition gives it: the solution stands in attention.py"
    assert str(later) == "3.1 FeedForwardNetwork.forward: later\n  it is handed out later"
    assert (given.points, given.out_of, given.passed) == (0, 0, False)
    text = replace(WEEK, solved=("6.2",)).given(EXERCISES["6.2"])
    assert text.lines == ["this edition gives it: its question is not asked"]


def test_all_means_all_that_are_to_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edition, "load", lambda _: WEEK)
    monkeypatch.setattr(front, "run", lambda id: id)
    assert front.run_all() == ["2.1", "2.2"]
