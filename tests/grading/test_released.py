from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from cs_transformers.checks.edition import Edition, encode
from cs_transformers.grading.released import read_release

WEEK = Edition(id="week 1", notebooks=("01",), open=("1.1", "1.2"), solved=("1.3",))


def handed_out(folder: Path) -> Path:
    (folder / "cs_transformers").mkdir(parents=True)
    (folder / "cs_transformers" / "release.json").write_text(encode(WEEK), encoding="utf-8")
    return folder


def test_a_folder_a_zip_and_the_description_say_the_same(tmp_path: Path) -> None:
    folder, archive = handed_out(tmp_path / "out"), tmp_path / "out.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("transformers/README.md", "hello")
        packed.writestr("transformers/cs_transformers/release.json", encode(WEEK))
    for path in (folder, folder / "cs_transformers", archive, folder / "cs_transformers" / "release.json"):
        assert read_release(path) == WEEK


@pytest.mark.parametrize("name", ["missing", "empty", "other.zip", "notes.txt", "damaged.zip"])
def test_anything_else_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("{}")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as packed:
        packed.writestr("a.txt", "a")
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("cs_transformers/release.json", encode(WEEK) * 20)
    start = whole.getvalue().index(b"release.json") + 12
    (tmp_path / "damaged.zip").write_bytes(whole.getvalue()[:start] + b"\xff" * 9 + whole.getvalue()[start + 9 :])
    with pytest.raises(ValueError, match="expected the folder or zip that `cst release` wrote"):
        read_release(tmp_path / name)


def test_grade_asks_for_what_was_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from classroom_factory import classroom
    from typer.testing import CliRunner

    from cs_transformers.cli import app
    from cs_transformers.grading import run

    asked: list[object] = []

    def grade(*_places: Path, only: tuple[str, ...], **_options: object) -> object:
        asked.append(only)
        return classroom()

    monkeypatch.setattr(run, "grade", grade)
    folder = handed_out(tmp_path / "out")
    for options in (["--release", str(folder)], ["--release", str(folder), "--only", "1.2"], []):
        CliRunner().invoke(app, ["grade", str(tmp_path), *options], catch_exceptions=False)
    assert asked == [("1.1", "1.2"), ("1.2",), ()]
