"""Zips of the course: equal bytes for equal files, nothing that leads out, nothing too large."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path

import pytest

from cs_transformers.course import archives
from cs_transformers.course.addresses import parse
from cs_transformers.course.archives import open_folder, open_zip, read_folder, zip_bytes


def packed(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return buffer.getvalue()


def test_equal_files_give_equal_bytes_in_any_order() -> None:
    files = {"b.txt": b"2", "a/größe.txt": b"1"}
    assert zip_bytes(files) == zip_bytes(dict(reversed(files.items())))
    assert dict(open_zip(zip_bytes(files), "x")) == files


def test_what_operating_systems_add_is_left_out() -> None:
    data = packed(("a.txt", b"1"), ("__MACOSX/._a.txt", b"2"), ("x/.DS_Store", b"3"), ("x/", b""), ("Thumbs.db", b"4"))
    assert dict(open_zip(data, "x")) == {"a.txt": b"1"}


LINK = zipfile.ZipInfo("link")
LINK.external_attr = (stat.S_IFLNK | 0o777) << 16


@pytest.mark.parametrize("name", ["../up.txt", "a/../../up.txt", "/etc/x", "C:/x", "..\\up.txt", LINK], ids=str)
def test_a_way_out_of_the_folder_is_refused(name: str | zipfile.ZipInfo) -> None:
    with pytest.raises(ValueError, match=r"x\.zip: expected files that stay in the folder, got .*do not use this file"):
        open_zip(packed((name, b"secret")), "x.zip")


def test_a_bomb_is_refused_before_it_goes_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST", 1 << 20)
    files = open_zip(zip_bytes({"a": bytes(600 << 10), "b": bytes(600 << 10), "c": bytes(2 << 20)}), "x.zip")
    assert len(files["a"]) == 600 << 10
    for name in ("b", "c"):
        with pytest.raises(ValueError, match=rf"expected files of at most 1 MB in all, got \d MB with {name}; is it"):
            files[name]


def test_a_file_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    for name, data in (("a.py", b"1"), ("large.h5", b"2"), (".venv/a.py", b"3"), ("b/c/a.py", b"4")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    files = open_folder(tmp_path, lambda folder: folder.startswith("."))
    assert (list(files), len(files)) == (["a.py", "large.h5", "b/c/a.py"], 3)
    (tmp_path / "large.h5").unlink()
    assert (files["a.py"], files["b/c/a.py"]) == (b"1", b"4")
    with pytest.raises(KeyError):
        files[".venv/a.py"]


def test_a_zip_cut_off_or_damaged_is_told() -> None:
    data = zip_bytes({"a.txt": bytes(range(256)) * 40})
    for broken in (data[:-30], b"", data[:40] + b"\0\0\0\0" + data[44:]):
        with pytest.raises(ValueError, match=r"x\.zip: expected a whole zip, got a damaged one .*download it again"):
            dict(open_zip(broken, "x.zip"))


def test_a_folder_is_read_without_compiled_python(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_bytes(b"x")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.py").write_bytes(b"1")
    assert read_folder(tmp_path) == {"b/a.py": b"1"}


# ---------------------------------------------------------------- addresses

GITHUB, COLAB = "https://github.com/o/r", "https://colab.research.google.com/github/o/r/blob"


@pytest.mark.parametrize(
    ("url", "zipped", "colab"),
    [
        ("", "", ""),
        (GITHUB, f"{GITHUB}/archive/refs/heads/main.zip", f"{COLAB}/main/notebooks"),
        (f"{GITHUB}.git/", f"{GITHUB}/archive/refs/heads/main.zip", f"{COLAB}/main/notebooks"),
        (f"{GITHUB}/tree/v2", f"{GITHUB}/archive/refs/heads/v2.zip", f"{COLAB}/v2/notebooks"),
        (f"{GITHUB}/tree/v2/a/b/", f"{GITHUB}/archive/refs/heads/v2.zip", f"{COLAB}/v2/a/b/notebooks"),
        (
            "https://raw.githubusercontent.com/o/r/main/week1/transformers.zip",
            "https://raw.githubusercontent.com/o/r/main/week1/transformers.zip",
            f"{COLAB}/main/week1/notebooks",
        ),
        (f"{GITHUB}/releases/download/v1/course.zip", f"{GITHUB}/releases/download/v1/course.zip", ""),
        ("https://university.example/course.zip", "https://university.example/course.zip", ""),
    ],
)
def test_an_address_gives_the_zip_and_where_github_has_the_notebooks_colabs(url: str, zipped: str, colab: str) -> None:
    address = parse(url)
    assert (address.zip, address.colab) == (zipped, colab)
    badge = address.badge("01_attention.ipynb")
    assert badge.endswith(f"({colab}/01_attention.ipynb)") if colab else badge == ""


@pytest.mark.parametrize("url", ["course.zip", "ftp://host/x.zip", 'https://host/"x".zip', "https://host/a b.zip"])
def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(ValueError, match=r"release: expected an address such as .*give --url the place"):
        parse(url)


def test_a_zip_whose_compressed_bytes_are_damaged_is_refused() -> None:
    whole = zip_bytes({"a.txt": b"some words, and some words again " * 20})
    start = whole.index(b"a.txt") + 5
    with pytest.raises(ValueError, match=r"x\.zip: expected a whole zip, got a damaged one"):
        dict(open_zip(whole[:start] + b"\xff" * 9 + whole[start + 9 :], "x.zip"))
