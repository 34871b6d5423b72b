from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cs_transformers import files
from cs_transformers.files import atomic_path, ensure_folder, replace_file


def test_a_block_that_fails_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"old")

    def fail() -> None:
        with atomic_path(tmp_path / "a.npy") as path:
            path.write_bytes(b"half")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fail()
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("a.npy", b"old")]


def test_the_temporary_name_keeps_the_suffix(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "a.npy") as path:
        np.save(path, np.arange(3))
    assert np.load(tmp_path / "a.npy").tolist() == [0, 1, 2]


def test_a_read_only_folder_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match=r"writer: cannot write in .*the folder is read-only.*CST_CACHE_DIR"):
        ensure_folder(tmp_path, who="writer")


def test_a_folder_below_a_file_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(PermissionError, match=r"writer: cannot write in .*CST_CACHE_DIR"):
        ensure_folder(tmp_path / "file" / "below", who="writer")


@pytest.mark.parametrize("data", ["grüße\n", "a\r\nb", b"\x00\xff"])
def test_a_file_holds_exactly_what_was_given(tmp_path: Path, data: str | bytes) -> None:
    path = replace_file(tmp_path / "new" / "page.md", data)
    assert path.read_bytes() == (data.encode("utf-8") if isinstance(data, str) else data)
    assert [entry.name for entry in path.parent.iterdir()] == ["page.md"]


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = replace_file(tmp_path / "page.md", "old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        replace_file(path, "new")
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("page.md", "old")]


def test_what_a_killed_writer_leaves_is_not_taken_for_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.Path, "unlink", lambda *_, **__: None)  # as if killed: nothing is tidied up
    monkeypatch.setattr(files.Path, "replace", lambda *_: None)
    replace_file(tmp_path / "page.md", "half")
    assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.glob("*.md")) == []
