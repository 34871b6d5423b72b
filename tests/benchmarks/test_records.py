"""Records of benchmarks: goals, merging, the two files, and going on after an interruption."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from benchmarks import records
from benchmarks.__main__ import main, names
from benchmarks.records import Record, SkippedError, Workshop, record

FIELDS = {
    "area", "name", "ours", "peer", "ratio", "unit", "spread", "goal", "met", "seeds", "machine", "versions", "date",
    "seconds",
}  # fmt: skip


def made(name: str, value: float = 1.0) -> Record:
    return records.complete(record("area", name, [value, value + 1], "points", seeds=[0, 1]), seconds=2.5)


def test_a_record_has_the_mean_the_spread_and_the_ratio() -> None:
    found = record("area", "bench/figure", [0.2, 0.4], "of 1", seeds=[3, 4], goal="< 0.5", peer=0.6)
    assert found.ours == pytest.approx(0.3)
    assert found.spread == (0.2, 0.4)
    assert found.ratio == pytest.approx(0.5)
    assert found.met is True


def test_a_goal_is_met_only_if_every_seed_meets_it() -> None:
    assert record("area", "b/f", [0.2, 0.6], "of 1", seeds=[0, 1], goal="< 0.5").met is False
    assert record("area", "b/f", [0.2, 0.6], "of 1", seeds=[0, 1]).met is None


@pytest.mark.parametrize(
    ("value", "goal", "verdict"),
    [(0.05, "< 0.05", False), (0.05, "<= 0.05", True), (66, ">= 66", True), (66, "> 66", False), (-1, "> -2.5", True)],
)
def test_goals_compare_with_their_number(value: float, goal: str, verdict: bool) -> None:
    assert records.holds(value, goal) is verdict


def test_a_goal_in_other_words_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a goal such as '< 0\.05', got 'small'"):
        records.holds(1.0, "small")


def test_running_one_benchmark_replaces_its_records_alone() -> None:
    old = [made("one/a"), made("one/b"), made("other/a"), made("one_more/a")]
    merged = records.merge(old, "one", [made("one/c", 5.0)])
    assert [found.name for found in merged] == ["one/c", "one_more/a", "other/a"]
    with pytest.raises(ValueError, match="names that begin with 'one/'"):
        records.merge(old, "one", [made("other/a")])


def test_results_are_read_back_and_have_the_agreed_fields(tmp_path: Path) -> None:
    kept = [made("one/a"), made("two/a", 3.0)]
    records.write_results(tmp_path, kept)
    assert records.read_results(tmp_path) == kept
    rows = json.loads((tmp_path / "results.json").read_text())
    assert [set(row) for row in rows] == [FIELDS, FIELDS]
    assert records.read_results(tmp_path / "nowhere") == []


def test_the_table_holds_every_record_and_links_pictures_that_exist(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "one.png").write_bytes(b"")
    records.write_results(tmp_path, [made("one/a"), made("two/a")])
    text = (tmp_path / "results.md").read_text()
    rows = re.findall(r"^\| area \| (?:one|two)/a.*$", text, re.MULTILINE)
    assert len(rows) == 2
    assert "[picture](pictures/one.png)" in rows[0]
    assert "[picture]" not in rows[1]


def test_the_machine_is_a_processor_and_not_a_name() -> None:
    assert re.fullmatch(r".+, \d+ cores", records.machine())
    assert os.uname().nodename not in records.machine()
    assert {"python", "torch", "numpy"} <= set(records.versions())


def test_a_part_is_computed_once_until_the_workshop_is_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path))
    calls = []

    def compute(folder: Path) -> dict:
        assert folder.is_dir()
        calls.append(folder)
        return {"value": len(calls)}

    workshop = Workshop("attention_speed", quick=True)
    assert workshop.once("seed-0", compute) == workshop.once("seed-0", compute) == {"value": 1}
    assert Workshop("attention_speed", quick=True).once("seed-0", compute) == {"value": 1}
    assert Workshop("attention_speed", quick=False).once("seed-0", compute) == {"value": 2}
    workshop.clear()
    assert workshop.once("seed-0", compute) == {"value": 3}


def test_no_part_is_taken_over_from_another_version_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "PACKAGE", tmp_path)
    (tmp_path / "training").mkdir()
    folders = [Workshop("attention_speed", quick=True).folder]
    for name in ("attention.py", "training/loop.py"):
        (tmp_path / name).write_text("1")
        folders.append(Workshop("attention_speed", quick=True).folder)
    (tmp_path / "README.md").write_text("1")
    assert len(set(folders)) == 3
    assert Workshop("attention_speed", quick=True).folder == folders[-1]


def test_an_interrupted_part_keeps_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path))
    workshop = Workshop("attention_speed", quick=True)

    def interrupted(folder: Path) -> None:
        (folder / "last.pt").write_bytes(b"half way")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        workshop.once("seed-0", interrupted)
    assert workshop.once("seed-0", lambda folder: (folder / "last.pt").read_text()) == "half way"


def test_missing_data_is_a_skip_with_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CST_DATA_DIR", raising=False)
    with pytest.raises(SkippedError, match="needs cifar10 in the folder that CST_DATA_DIR names"):
        records.real_data("cifar10")
    monkeypatch.setenv("CST_DATA_DIR", str(tmp_path))
    with pytest.raises(SkippedError, match="needs cifar10/x"):
        records.real_data("cifar10", "x")


def test_every_benchmark_is_listed_with_what_it_claims(capsys: pytest.CaptureFixture) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == names()
    assert all(len(line.split(maxsplit=1)[1]) > 20 for line in lines)


def test_unknown_names_and_impossible_seeds_are_refused(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])
    assert "invalid choice: 'nothing'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--only", "attention_speed", "--seeds", "0"])
    assert "--seeds must be at least 1, got 0" in capsys.readouterr().err


def test_a_failing_benchmark_does_not_stop_the_next_and_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("benchmarks.vit_overfit.run", lambda **_: 1 / 0)
    monkeypatch.setattr("benchmarks.attention_speed.run", lambda **_: [made("attention_speed/a")])
    records.write_results(tmp_path, [made("vit_overfit/old")])
    arguments = ["--only", "vit_overfit", "attention_speed", "--output", str(tmp_path), "--seeds", "1"]
    assert main(arguments) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert [found.name for found in records.read_results(tmp_path)] == ["attention_speed/a", "vit_overfit/old"]


def test_a_full_run_writes_beside_the_scripts_and_a_quick_one_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("benchmarks.__main__.RESULTS", tmp_path)
    monkeypatch.setattr("benchmarks.vit_overfit.run", lambda seeds, **_: [made("vit_overfit/a", len(seeds))])
    assert main(["--only", "vit_overfit", "--quick", "--seeds", "2"]) == 0
    assert not (tmp_path / "results.json").exists()
    assert main(["--only", "vit_overfit"]) == 0
    assert records.read_results(tmp_path)[0].spread == (3.0, 4.0)
    assert "vit_overfit/a" in (tmp_path / "results.md").read_text()
