"""Every benchmark runs in its quick form, and a quick form never touches the results."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import records
from benchmarks.__main__ import main, names


@pytest.mark.parametrize("name", names())
def test_the_quick_form_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("benchmarks.__main__.RESULTS", tmp_path / "full")
    assert main(["--only", name, "--quick", "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    if "skipped: needs" in printed:
        pytest.skip(f"real data: {printed.split('skipped: ')[1].strip()}")
    found = records.read_results(tmp_path / "out")
    assert found
    assert all(row.name.startswith(f"{name}/") and row.seconds > 0 and row.seeds for row in found)
    assert main(["--only", name, "--quick"]) == 0
    assert not (tmp_path / "full").exists()
    assert not list((tmp_path / "cache" / "benchmarks").glob("*"))
