from __future__ import annotations

import errno
import hashlib
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cs_transformers.data import transfer
from cs_transformers.data.transfer import DownloadError, fetch

if TYPE_CHECKING:
    from tests.data.conftest import Shelf

BODY = bytes(range(256)) * 1200  # 307,200 bytes: several chunks
SHA256 = hashlib.sha256(BODY).hexdigest()
MD5 = hashlib.md5(BODY, usedforsecurity=False).hexdigest()
QUICK = {"pause": 0.0, "timeout": 5.0, "progress": False}


@pytest.fixture
def shelf(shelf: Shelf) -> Shelf:
    shelf.files["/a.bin"] = BODY
    return shelf


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_plain_download_is_whole_and_leaves_nothing_else(shelf: Shelf, tmp_path: Path) -> None:
    target = fetch(f"{shelf.url}/a.bin", tmp_path / "sub" / "a.bin", sha256=SHA256, size=len(BODY), **QUICK)
    assert target == tmp_path / "sub" / "a.bin"
    assert target.read_bytes() == BODY
    assert names(tmp_path) == {"sub/a.bin"}


def test_a_file_that_is_there_and_right_is_not_fetched_again(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(BODY)
    fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", sha256=SHA256, **QUICK)
    assert shelf.requests == []


def test_a_damaged_file_in_place_is_replaced(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(BODY[: len(BODY) // 2])
    assert fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", md5=MD5, **QUICK).read_bytes() == BODY


def test_the_first_digits_of_a_checksum_are_enough(shelf: Shelf, tmp_path: Path) -> None:
    assert fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", sha256=SHA256[:8].upper(), **QUICK).is_file()


def test_a_broken_line_is_taken_up_where_it_broke(shelf: Shelf, tmp_path: Path) -> None:
    shelf.etags["/a.bin"] = '"v1"'
    shelf.cut_after = [100_000, 50_000]
    target = fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", **QUICK)
    assert target.read_bytes() == BODY
    assert [asked for _, asked, _ in shelf.requests] == [None, "bytes=100000-", "bytes=150000-"]
    assert [condition for *_, condition in shelf.requests] == [None, '"v1"', '"v1"']
    assert names(tmp_path) == {"a.bin"}


def test_a_later_call_goes_on_from_the_part_of_an_earlier_one(shelf: Shelf, tmp_path: Path) -> None:
    shelf.etags["/a.bin"] = '"v1"'
    shelf.cut_after = [120_000]
    with pytest.raises(DownloadError, match=r"120,000 bytes are kept: the same command goes on from there"):
        fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", tries=1, **QUICK)
    assert names(tmp_path) == {"a.bin.part", "a.bin.part.json"}
    fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", tries=1, **QUICK)
    assert (tmp_path / "a.bin").read_bytes() == BODY
    assert shelf.requests[-1][1] == "bytes=120000-"


def test_the_bytes_of_a_killed_process_are_used(shelf: Shelf, tmp_path: Path) -> None:
    shelf.etags["/a.bin"], shelf.stalls_after = '"v1"', 130_000
    target = tmp_path / "a.bin"
    code = f"from cs_transformers.data.transfer import fetch; fetch({shelf.url + '/a.bin'!r}, {str(target)!r})"
    process = subprocess.Popen([sys.executable, "-c", code])
    part = tmp_path / "a.bin.part"
    deadline = time.monotonic() + 120
    while not (part.exists() and part.stat().st_size == 130_000) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert names(tmp_path) == {"a.bin.part", "a.bin.part.json"}
    shelf.stalls_after = None
    assert fetch(f"{shelf.url}/a.bin", target, **QUICK).read_bytes() == BODY
    assert shelf.requests[-1][1] == "bytes=130000-"


def test_a_drive_without_locks_is_written_without(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    assert fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", **QUICK).read_bytes() == BODY


def test_a_part_is_not_glued_to_a_newer_file(shelf: Shelf, tmp_path: Path) -> None:
    shelf.etags["/a.bin"] = '"v1"'
    shelf.cut_after = [120_000]
    with pytest.raises(DownloadError):
        fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", tries=1, **QUICK)
    newer = b"n" * len(BODY)
    shelf.files["/a.bin"], shelf.etags["/a.bin"] = newer, '"v2"'
    assert fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", **QUICK).read_bytes() == newer


def test_without_a_validator_or_checksum_a_part_is_dropped(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(b"of unknown origin")
    assert fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", **QUICK).read_bytes() == BODY
    assert shelf.requests[0][1] is None


def test_a_server_that_ignores_ranges_is_read_from_the_start(shelf: Shelf, tmp_path: Path) -> None:
    shelf.ranges = False
    (tmp_path / "a.bin.part").write_bytes(BODY[:1000])
    assert fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", sha256=SHA256, **QUICK).read_bytes() == BODY
    assert [asked for _, asked, _ in shelf.requests] == ["bytes=1000-"]


def test_a_part_that_is_already_complete_needs_no_more_bytes(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BODY)
    assert fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", sha256=SHA256, **QUICK).read_bytes() == BODY


def test_a_part_with_wrong_bytes_gets_one_fresh_chance(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(b"x" * 5000)
    assert fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", sha256=SHA256, **QUICK).read_bytes() == BODY
    assert [asked for _, asked, _ in shelf.requests] == ["bytes=5000-", None]


def test_a_part_longer_than_the_file_is_dropped(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BODY + b"more")
    assert fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", sha256=SHA256, **QUICK).read_bytes() == BODY


def test_a_wrong_checksum_leaves_nothing_under_any_name(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"a\.bin.*what came is damaged \(sha256 .* expected 0000.*was deleted"):
        fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", sha256="0" * 64, **QUICK)
    assert names(tmp_path) == set()


def test_a_damaged_file_in_place_is_mentioned_when_it_cannot_be_replaced(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"half")
    with pytest.raises(DownloadError, match="The file that is there now is damaged as well"):
        fetch(f"{shelf.url}/nowhere", tmp_path / "a.bin", md5=MD5, **QUICK)


def test_another_size_than_announced_is_refused_before_the_transfer(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"it offers 307,200 bytes, expected 5"):
        fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", size=5, **QUICK)
    assert names(tmp_path) == set()


def test_a_transfer_without_announced_length_is_checked_by_size(shelf: Shelf, tmp_path: Path) -> None:
    shelf.lengths = False
    shelf.cut_after = [10]
    target = fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", sha256=SHA256, size=len(BODY), **QUICK)
    assert target.read_bytes() == BODY


def test_a_refusal_is_final_and_names_the_address_and_the_way_out(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(DownloadError) as caught:
        fetch(f"{shelf.url}/nowhere", tmp_path / "a.bin", **QUICK)
    message = str(caught.value)
    assert f"{shelf.url}/nowhere: the server answered 404" in message
    assert f"put it at {tmp_path / 'a.bin'}" in message
    assert len(shelf.requests) == 1
    assert names(tmp_path) == set()


def test_a_passing_trouble_of_the_server_is_waited_out(shelf: Shelf, tmp_path: Path) -> None:
    shelf.answers = [500, 503, 429]
    assert fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", **QUICK).read_bytes() == BODY
    assert len(shelf.requests) == 4


def test_a_lasting_trouble_of_the_server_is_given_up(shelf: Shelf, tmp_path: Path) -> None:
    shelf.answers = [500] * 9
    with pytest.raises(DownloadError, match=r"the server answered 500 .*, 3 times in a row"):
        fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", tries=3, **QUICK)
    assert len(shelf.requests) == 3


def test_the_next_address_is_tried_when_one_refuses(shelf: Shelf, tmp_path: Path) -> None:
    shelf.files["/mirror.bin"] = BODY
    urls = [f"{shelf.url}/nowhere", f"{shelf.url}/mirror.bin"]
    assert fetch(urls, tmp_path / "a.bin", sha256=SHA256, **QUICK).read_bytes() == BODY


def test_nobody_at_the_address_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(DownloadError, match=r"no answer or a broken one \(.*\), 2 times in a row"):
        fetch("http://127.0.0.1:9/a.bin", tmp_path / "a.bin", tries=2, **QUICK)


def test_a_silent_server_is_left_after_the_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/a.bin"
        with pytest.raises(DownloadError, match="timed out"):
            fetch(url, tmp_path / "a.bin", tries=1, timeout=0.2, pause=0.0, progress=False)


def test_a_full_disk_is_not_taken_for_trouble_on_the_line(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(OSError, match=r"has 1,000 bytes free, the download needs 307,200.*CST_CACHE_DIR"):
        fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", **QUICK)
    assert len(shelf.requests) == 1


def test_two_processes_do_not_write_the_same_part(shelf: Shelf, tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with (
        transfer.locked(tmp_path / "a.bin.part", "a.bin"),
        pytest.raises(DownloadError, match=r"another process is downloading .*a\.bin"),
    ):
        fetch(f"{shelf.url}/a.bin", tmp_path / "a.bin", **QUICK)


@pytest.mark.parametrize("urls", [[], "ftp://127.0.0.1/a", "file:///etc/hosts", "a.bin"])
def test_only_http_addresses_are_taken(urls: str | list[str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"fetch: expected http or https addresses, got"):
        fetch(urls, tmp_path / "a.bin")


@pytest.mark.parametrize("wrong", [{"tries": 0}, {"timeout": 0.0}])
def test_a_download_without_attempts_or_time_is_a_mistake(wrong: dict[str, float], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"fetch: expected tries >= 1 and timeout > 0"):
        fetch("http://127.0.0.1/a", tmp_path / "a.bin", **wrong)
