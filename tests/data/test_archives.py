from __future__ import annotations

import io
import random
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tqdm import tqdm

from cs_transformers.data import archives
from cs_transformers.data.archives import UnsafeArchiveError, unpack
from cs_transformers.data.paths import DamagedFileError

BODY = bytes(range(256)) * 1200  # 307,200 bytes: several chunks


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def make_zip(path: Path, entries: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, body in entries.items():
            bundle.writestr(name, body)
    return path


def make_tar(path: Path, entries: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as bundle:
        for name, body in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            bundle.addfile(info, io.BytesIO(body))
    return path


MAKERS: list[Callable[[Path, dict[str, bytes]], Path]] = [make_zip, make_tar]
GOOD = {"set/words.txt": b"a dog", "set/deep/er/features.bin": BODY, "set/empty": b""}


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("prefix", ["", "set"])
def test_an_archive_unfolds_to_its_files(make: Callable, prefix: str, tmp_path: Path) -> None:
    archive = make(tmp_path / "archive", GOOD)
    written = unpack(archive, tmp_path / "out", prefix=prefix, progress=False)
    top = tmp_path / "out" if prefix else tmp_path / "out" / "set"
    assert written == [top / name.removeprefix("set/") for name in GOOD]
    assert (top / "words.txt").read_bytes() == b"a dog"
    assert (top / "deep" / "er" / "features.bin").read_bytes() == BODY
    assert len(names(tmp_path / "out")) == 3


@pytest.mark.parametrize("make", MAKERS)
def test_litter_of_other_systems_stays_in_the_archive(make: Callable, tmp_path: Path) -> None:
    archive = make(
        tmp_path / "a", {"__MACOSX/set/._a.txt": b"x", "set/.DS_Store": b"x", "._b": b"x", "set/a.txt": b"y"}
    )
    unpack(archive, tmp_path / "out", progress=False)
    assert names(tmp_path / "out") == {"set/a.txt"}


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("evil", ["../out.txt", "/etc/out.txt", "a/../../out.txt", "..\\out.txt", "C:\\out.txt"])
def test_nothing_leaves_the_folder(make: Callable, evil: str, tmp_path: Path) -> None:
    archive = make(tmp_path / "archive", {"good.txt": b"fine", evil: b"evil"})
    with pytest.raises(UnsafeArchiveError, match=r"lies outside the folder\. Nothing was unpacked"):
        unpack(archive, tmp_path / "out" / "in", progress=False)
    assert names(tmp_path) == {"archive"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_file_are_refused(kind: bytes, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as bundle:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = kind, "/etc/passwd"
        bundle.addfile(info)
    with pytest.raises(UnsafeArchiveError, match=r"'link' of .* is a link, a device or encrypted"):
        unpack(tmp_path / "a.tar", tmp_path / "out", progress=False)


def test_a_symbolic_link_in_a_zip_file_is_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as bundle:
        bundle.writestr(info, "/etc/passwd")
    with pytest.raises(UnsafeArchiveError, match="is a link"):
        unpack(tmp_path / "a.zip", tmp_path / "out", progress=False)


@pytest.mark.parametrize("make", MAKERS)
def test_a_bomb_is_not_unfolded(make: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "HARMLESS", 1000)
    archive = make(tmp_path / "archive", {"good.txt": b"fine", "zeros": bytes(3_000_000)})
    assert archive.stat().st_size < 10_000
    with pytest.raises(UnsafeArchiveError, match=r"unfolds to more than [\d,]+ bytes"):
        unpack(archive, tmp_path / "out", progress=False)
    assert names(tmp_path) == {"archive"}


def test_a_zip_that_lies_about_its_sizes_is_stopped(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "archive", {"zeros": bytes(3_000_000)})
    raw = bytearray(archive.read_bytes())
    size = raw.index(b"PK\x01\x02") + 24  # the unpacked size in the central directory
    raw[size : size + 4] = (10).to_bytes(4, "little")
    archive.write_bytes(raw)
    with pytest.raises(DamagedFileError, match="CRC"):
        unpack(archive, tmp_path / "out", progress=False)
    assert names(tmp_path) == {"archive"}


def test_bytes_beyond_the_limit_are_counted_as_they_come(tmp_path: Path) -> None:
    with pytest.raises(UnsafeArchiveError, match=r"holds more bytes than it announces \(over 10\)"):
        archives._copy(io.BytesIO(bytes(11)), io.BytesIO(), 10, tmp_path, tqdm(disable=True))


@pytest.mark.parametrize("make", MAKERS)
def test_limits_count_files_and_bytes(make: Callable, tmp_path: Path) -> None:
    archive = make(tmp_path / "archive", GOOD)
    with pytest.raises(UnsafeArchiveError, match="or 2 files"):
        unpack(archive, tmp_path / "out", max_files=2, progress=False)
    with pytest.raises(UnsafeArchiveError, match="more than 1,000 bytes"):
        unpack(archive, tmp_path / "out", max_bytes=1000, progress=False)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_cut_archive_is_named_and_leaves_nothing(make: Callable, share: float, tmp_path: Path) -> None:
    archive = make(tmp_path / "archive", {"a": random.Random(0).randbytes(200_000), "b": random.Random(1).randbytes(9)})
    whole = archive.read_bytes()
    archive.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(DamagedFileError, match=r"[Dd]elete it and download it again") as caught:
        unpack(archive, tmp_path / "out", progress=False)
    assert str(archive) in str(caught.value)
    assert names(tmp_path) == {"archive"}


def test_a_flipped_byte_inside_a_zip_is_found(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "archive", {"a": b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab" * 50})
    damaged = bytearray(archive.read_bytes())
    damaged[45] ^= 0xFF
    archive.write_bytes(damaged)
    with pytest.raises(DamagedFileError, match="is damaged"):
        unpack(archive, tmp_path / "out", progress=False)


def test_a_web_page_in_place_of_an_archive_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("<html>please log in</html>", encoding="utf-8")
    with pytest.raises(DamagedFileError, match=r"neither a zip nor a tar file .*a web page"):
        unpack(tmp_path / "a.zip", tmp_path / "out", progress=False)


def test_an_archive_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected an archive at .*a\.zip"):
        unpack(tmp_path / "a.zip", tmp_path / "out", progress=False)
