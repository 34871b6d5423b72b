"""One file over http: resumed where it broke off, checked, and under its final name only when it is whole."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO

from tqdm import tqdm

from cs_transformers.files import ensure_folder

CHUNK = 1 << 16
AGENT = "cs_transformers (course material; python-urllib)"
# Answers after which asking again makes sense: time-outs, overload, and a server's own passing errors.
PASSING = {408, 425, 429, 500, 502, 503, 504}
# Trouble on this machine's disk, which no further attempt mends.
LOCAL = {errno.ENOSPC, errno.EACCES, errno.EROFS, getattr(errno, "EDQUOT", errno.ENOSPC)}


class DownloadError(OSError):
    """A file that could not be fetched; the message names the addresses, what each answered, and what to do."""


class _RefusedError(Exception):
    """This address will not give the file; the next one may."""


class _ChangedError(Exception):
    """The part on disk belongs to another file than the address now gives."""


def fetch(
    urls: str | Sequence[str],
    target: str | os.PathLike[str],
    *,
    sha256: str | None = None,
    md5: str | None = None,
    size: int | None = None,
    timeout: float = 30.0,
    tries: int = 5,
    pause: float = 0.5,
    progress: bool | None = None,
) -> Path:
    """Download one file, going on where an earlier attempt broke off.

    Bytes are collected in ``<name>.part`` beside the target and move to the target in one step once size and checksum
    agree. A part is continued only if the server vouches that the file is still the same one (``If-Range``), or if a
    checksum will tell; a server that ignores ranges is read from the start.

    Args:
        urls: One http(s) address, or several in order of preference.
        target: The final path. A file that is there already is kept if it agrees with what is known about it.
        sha256: The expected SHA-256 in hexadecimal, or its first digits.
        md5: The expected MD5; used only without ``sha256``.
        size: The expected size in bytes.
        timeout: Seconds without an answer after which an attempt counts as failed.
        tries: Attempts in a row without a single new byte before an address is given up.
        pause: Seconds before the second attempt; doubled for each further one, at most 8.
        progress: True or False shows or hides a bar; None shows it on a terminal only.

    Returns:
        The target as an absolute path.

    Raises:
        ValueError: If an address is not http(s), or ``tries`` or ``timeout`` is not positive.
        DownloadError: If no address gave the file, or what came is damaged; nothing is left under the final name.
        PermissionError: If the folder cannot be written to.
    """
    urls = [urls] if isinstance(urls, str) else list(urls)
    if not urls or any(urllib.parse.urlsplit(url).scheme not in ("http", "https") for url in urls):
        raise ValueError(f"fetch: expected http or https addresses, got {urls}. Name at least one.")
    if tries < 1 or timeout <= 0:
        raise ValueError(f"fetch: expected tries >= 1 and timeout > 0, got {tries} and {timeout}. Leave the defaults.")
    target, expected = Path(target).absolute(), _Expected(size, sha256, md5)
    ensure_folder(target.parent, who="fetch")
    if expected.is_met_by(target):
        return target
    with locked(target.with_name(target.name + ".part"), str(target)) as handle:
        if not expected.is_met_by(target):  # another process may have been faster
            part = _Part(Path(handle.name), handle)
            _Transfer(part, target, expected, timeout, tries, pause, progress).run(urls)
    return target


@contextmanager
def locked(path: Path, what: str) -> Iterator[IO[bytes]]:
    """Open a file for this process alone; where there is no such lock, it goes without.

    Args:
        path: The file to open; it is created where it is missing.
        what: What is being fetched, for the message.

    Yields:
        The open file, readable and writable.

    Raises:
        DownloadError: If another process holds the file.
    """
    with path.open("r+b" if path.exists() else "w+b") as handle:
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DownloadError(
                f"fetch: another process is downloading {what}. Wait for it, then run the command again."
            ) from error
        except (ImportError, OSError):
            pass  # Windows, and mounted drives such as Colab's, have no such lock
        yield handle


@dataclass(frozen=True)
class _Expected:
    """What is known about a finished file."""

    size: int | None
    sha256: str | None
    md5: str | None

    @property
    def has_checksum(self) -> bool:
        return self.sha256 is not None or self.md5 is not None

    def is_met_by(self, path: Path) -> bool:
        return path.is_file() and self.fault(path) is None

    def fault(self, path: Path) -> str | None:
        found = path.stat().st_size
        if self.size is not None and found != self.size:
            return f"size {found:,}, expected {self.size:,}"
        kind, wanted = ("sha256", self.sha256) if self.sha256 is not None else ("md5", self.md5)
        if wanted is None:
            return None
        with path.open("rb") as handle:
            digest = _digest(handle, kind)
        return None if digest.startswith(wanted.lower()) else f"{kind} {digest}, expected {wanted}"


def _digest(handle: IO[bytes], kind: str) -> str:
    digest = hashlib.new(kind, usedforsecurity=False)
    while chunk := handle.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


class _Part:
    """The bytes that have come so far, with a note on where they came from."""

    def __init__(self, path: Path, handle: IO[bytes]) -> None:
        self.path, self.handle = path, handle
        self.notes = path.with_name(path.name + ".json")

    @property
    def size(self) -> int:
        return self.handle.seek(0, os.SEEK_END)

    def restart(self) -> None:
        self.handle.seek(0)
        self.handle.truncate()
        self.notes.unlink(missing_ok=True)

    def note(self, url: str, validator: str | None) -> None:
        self.notes.write_text(json.dumps({"url": url, "validator": validator}), encoding="utf-8")

    def validator(self, url: str) -> str | None:
        """Give what the server named the file by when these bytes came, if they came from this address."""
        try:
            notes = json.loads(self.notes.read_text(encoding="utf-8"))
            return notes["validator"] if notes["url"] == url else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def append(self, chunk: bytes) -> None:
        self.handle.write(chunk)
        self.handle.flush()  # a killed process must not lose what has come

    def become(self, target: Path) -> None:
        os.fsync(self.handle.fileno())
        if os.name == "nt":
            self.handle.close()  # an open file cannot be renamed there
        self.path.replace(target)
        self.notes.unlink(missing_ok=True)

    def vanish(self) -> None:
        self.restart()
        if os.name != "nt":
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Transfer:
    part: _Part
    target: Path
    expected: _Expected
    timeout: float
    tries: int
    pause: float
    progress: bool | None

    def run(self, urls: list[str]) -> None:
        answers = []
        for url in urls:
            try:
                self._get(url)
            except _RefusedError as error:
                answers.append(f"{url}: {error}")
            else:
                return
        kept = self.part.size
        if not kept:
            self.part.vanish()
        later = f"{kept:,} bytes are kept: the same command goes on from there" if kept else "Try again later"
        there = " The file that is there now is damaged as well." if self.target.exists() else ""
        raise DownloadError(
            f"fetch: {self.target.name} could not be downloaded. {'; '.join(answers)}.{there} {later}, or fetch the "
            f"file with a browser and put it at {self.target}."
        )

    def _get(self, url: str) -> None:
        """Fetch and check; a part that was continued and turns out wrong gets a second, fresh chance."""
        for _ in range(2):
            resumed = self.part.size > 0
            self._until_complete(url)
            fault = self.expected.fault(self.part.path)
            if fault is None:
                self.part.become(self.target)
                return
            self.part.restart()
            if not resumed:
                break
        raise _RefusedError(f"what came is damaged ({fault}) and was deleted")

    def _until_complete(self, url: str) -> None:
        failures = 0
        while True:
            before = self.part.size
            try:
                self._request(url)
                return
            except urllib.error.HTTPError as error:
                reason = f"the server answered {error.code} {error.reason}"
                if error.code not in PASSING:
                    raise _RefusedError(reason) from error
            except _ChangedError:
                reason = "the file on the server changed"
                self.part.restart()
            except (HTTPException, OSError) as error:
                if getattr(error, "errno", None) in LOCAL:
                    raise
                reason = f"no answer or a broken one ({getattr(error, 'reason', None) or error})"
            failures = 1 if self.part.size > before else failures + 1
            if failures >= self.tries:
                raise _RefusedError(f"{reason}, {failures} times in a row")
            time.sleep(min(8.0, self.pause * 2 ** (failures - 1)))

    def _request(self, url: str) -> None:
        headers = {"User-Agent": AGENT, "Accept-Encoding": "identity"}
        validator = self.part.validator(url)
        if self.part.size and not (validator or self.expected.has_checksum):
            self.part.restart()  # nothing would tell whether the rest belongs to these bytes
        start = self.part.size
        if start:
            headers |= {"Range": f"bytes={start}-"} | ({"If-Range": validator} if validator else {})
        try:
            request = urllib.request.Request(url, headers=headers)
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                self._receive(response, url, start)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 416:
                raise
            total = (error.headers.get("Content-Range") or "").rpartition("/")[2]
            if total != str(start):  # 416 for a part of full length means that nothing is missing
                raise _ChangedError from error

    def _receive(self, response: HTTPResponse, url: str, start: int) -> None:
        if response.status != 206:
            self.part.restart()  # the whole file comes: ranges are ignored, or the file is another one now
            start = 0
        elif not (response.headers.get("Content-Range") or "").startswith(f"bytes {start}-"):
            raise _ChangedError
        length = response.headers.get("Content-Length")
        total = start + int(length) if length is not None else self.expected.size
        if self.expected.size not in (None, total):
            raise _RefusedError(f"it offers {total:,} bytes, expected {self.expected.size:,}")
        _check_space(self.part.path.parent, (total or 0) - start)
        etag = response.headers.get("ETag") or ""
        strong = etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")
        self.part.note(url, strong)
        self.part.handle.seek(start)
        hide = None if self.progress is None else not self.progress
        look = {"unit": "B", "unit_scale": True, "desc": self.target.name, "leave": False, "disable": hide}
        with tqdm(total=total, initial=start, **look) as bar:
            while chunk := response.read1(CHUNK):
                self.part.append(chunk)
                bar.update(len(chunk))
        if total is not None and self.part.size < total:
            raise ConnectionError(f"the connection ended at byte {self.part.size:,} of {total:,}")


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            errno.ENOSPC,
            f"fetch: {folder} has {free:,} bytes free, the download needs {needed:,}. "
            "Make room or set CST_CACHE_DIR to a folder on a larger disk.",
        )
