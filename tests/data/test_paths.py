from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from cs_transformers.data import paths
from cs_transformers.data.paths import DamagedFileError, cache_dir, data_dir, find_data, open_h5, require_data


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    real, cache = tmp_path / "real", tmp_path / "cache"
    monkeypatch.setenv("CST_DATA_DIR", str(real))
    monkeypatch.setenv("CST_CACHE_DIR", str(cache))
    for folder in (real, cache):
        folder.mkdir()
    return real, cache


def test_an_empty_variable_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CST_DATA_DIR", " ")
    assert data_dir() is None


def test_a_relative_folder_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CST_DATA_DIR", "real")
    monkeypatch.setenv("CST_CACHE_DIR", "cache")
    assert (data_dir(), cache_dir()) == (tmp_path / "real", tmp_path / "cache")


def test_the_cache_lies_in_the_repository_when_the_package_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CST_CACHE_DIR", raising=False)
    (tmp_path / "datasets").mkdir()
    monkeypatch.setattr(paths, "PACKAGE_PARENT", tmp_path)
    assert cache_dir() == tmp_path / "datasets" / "cache"


def test_the_cache_of_an_installed_package_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CST_CACHE_DIR", raising=False)
    monkeypatch.setattr(paths, "PACKAGE_PARENT", tmp_path / "site-packages")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "home"))
    assert cache_dir() == tmp_path / "home" / "cs_transformers"


def test_real_data_is_found_before_the_cache(folders: tuple[Path, Path]) -> None:
    real, cache = folders
    (cache / "a.h5").write_bytes(b"")
    assert find_data("a.h5") == cache / "a.h5"
    (real / "a.h5").write_bytes(b"")
    assert find_data("a.h5") == real / "a.h5"
    assert find_data("missing", "a.h5") == real / "a.h5"
    assert find_data("missing") is None


def test_missing_data_lists_the_folders_searched_and_the_remedy(folders: tuple[Path, Path]) -> None:
    real, cache = folders
    real.rmdir()
    with pytest.raises(FileNotFoundError) as caught:
        require_data("a.h5", "b.h5", who="load_it", remedy="Get it with: cst data get it")
    message = str(caught.value)
    assert message.startswith("load_it: expected a.h5 or b.h5; looked in ")
    assert f"{real} (no such folder), {cache}. Get it with: cst data get it" in message


def test_a_cut_h5_file_says_its_size_and_the_size_it_should_have(tmp_path: Path) -> None:
    path = tmp_path / "features.h5"
    with h5py.File(path, "w") as file:
        file["features"] = np.random.RandomState(0).rand(100, 50)
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes()[: whole // 2])
    expected = rf"reader: .*features\.h5 is incomplete \(size {whole // 2}, expected {whole}\): delete it.*mend me"
    with pytest.raises(DamagedFileError, match=expected):
        open_h5(path, who="reader", remedy="mend me")


@pytest.mark.parametrize("body", [b"", b"<html>"])
def test_a_file_that_is_no_h5_is_named(body: bytes, tmp_path: Path) -> None:
    (tmp_path / "features.h5").write_bytes(body)
    with pytest.raises(DamagedFileError, match=rf"is no HDF5 file \(size {len(body)}\)"):
        open_h5(tmp_path / "features.h5", who="reader", remedy="mend me")


def test_a_missing_h5_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"reader: expected the file .*features\.h5, there is none\. mend me"):
        open_h5(tmp_path / "features.h5", who="reader", remedy="mend me")
