"""Reading what was handed in: folders, archives, archives in archives. Nothing is unpacked to a disk.

What is wanted is read into memory within limits, under names that were cleaned, so that no path of an archive is ever
used as a path, no link is followed and no bomb goes off.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import lzma
import os
import re
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

FILE_LIMIT = 32 << 20
ARCHIVE_LIMIT = 256 << 20
TOTAL_LIMIT = 128 << 20
ENTRY_LIMIT = 50_000
READ_LIMIT = 1 << 30  # bytes that are unpacked on the way, those left out too: they cost time
DEPTH_LIMIT = 4
WANTED = re.compile(r"\.(py|ipynb|md|json|txt)( ?\(\d+\))?$", re.IGNORECASE)
PACKED = re.compile(r"\.(zip|tar|tgz|tar\.gz|tar\.bz2|tar\.xz)( ?\(\d+\))?$", re.IGNORECASE)
UNREADABLE = re.compile(r"\.(7z|rar)$", re.IGNORECASE)
IGNORED = re.compile(r"^(\..*|__MACOSX|__pycache__|site-packages|node_modules|Thumbs\.db|desktop\.ini)$", re.IGNORECASE)
FAULTS_OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_ZIP, _GZIP = b"PK\x03\x04", b"\x1f\x8b"
_DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, EOFError, OSError,
    NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip


@dataclass
class Contents:
    """What one delivery holds, as far as grading may want it.

    Args:
        files: Bytes by clean relative path.
        repairs: What was done to read it, a sentence each.
        incidents: What looks like an attack, a sentence each.
        problems: What could not be read, a sentence each.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    repairs: list[str] = field(default_factory=list)
    incidents: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _total: int = field(default=0, init=False, repr=False)
    _entries: int = field(default=0, init=False, repr=False)
    _read: int = field(default=0, init=False, repr=False)

    def add_path(self, path: Path, name: str) -> None:
        """Read a file or a folder of a disk; links are not followed.

        Args:
            path: The file or folder.
            name: What it is called in the delivery.
        """
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            self.incidents.append(f"{name}: a link, not followed")
        elif stat.S_ISDIR(mode):
            try:
                inside = sorted(os.listdir(path))
            except OSError as error:
                self.problems.append(f"{name}: cannot be read ({error.strerror})")
                return
            for entry in inside:
                if not IGNORED.match(entry) and self._counted():
                    shown = readable(entry)
                    self.add_path(path / entry, f"{name}/{shown}" if name else shown)
        elif not stat.S_ISREG(mode):
            self.incidents.append(f"{name}: neither a file nor a folder, not opened")
        elif _matters(name):
            try:
                with path.open("rb") as file:
                    self._add(name, file, path.stat().st_size, 0)
            except OSError as error:
                self.problems.append(f"{name}: cannot be read ({error.strerror})")

    def add_bytes(self, name: str, data: bytes, depth: int = 0) -> None:
        """Take a file, or what is in it if it is an archive.

        Args:
            name: Its relative path.
            data: What it holds.
            depth: In how many archives it lay.
        """
        self._add(name, io.BytesIO(data), len(data), depth)

    def add_members(self, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], base: str, depth: int = 1) -> None:
        """Take some members of an open zip archive.

        Args:
            archive: The archive.
            members: Which ones.
            base: What to put before their names, with a slash, or empty.
            depth: In how many archives they lie.
        """
        for member in members:
            name = self._clean(base, zip_name(member))
            if name is None or member.is_dir() or not _matters(name) or not self._counted():
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                self.incidents.append(f"{name}: a link, not followed")
            elif member.flag_bits & 1:
                self.problems.append(f"{name}: locked with a password")
            else:
                try:
                    with archive.open(member) as file:
                        self._add(name, file, member.file_size, depth)
                except _DAMAGED as error:
                    self.problems.append(f"{name}: damaged ({_reason(error)})")

    def _add(self, name: str, file: BinaryIO, size: int, depth: int) -> None:
        start = file.read(4)
        packed = bool(PACKED.search(name)) or start == _ZIP
        limit = ARCHIVE_LIMIT if packed else FILE_LIMIT
        room = min(limit, TOTAL_LIMIT - self._total) if not packed else limit
        data = start + file.read(room + 1 - len(start))
        self._read += len(data)
        if len(data) > room:
            declared = f"{size >> 20} MB declared"
            self.incidents.append(f"{name}: holds more than {max(room, 0) >> 20} MB ({declared}), left out")
        elif packed:
            self._open(name, data, depth + 1)
        elif WANTED.search(name):
            if name in self.files and self.files[name] != data:
                self.repairs.append(f"{name}: there twice in one archive, the later one was taken")
            self._total += len(data)
            self.files[name] = data
        elif UNREADABLE.search(name):
            self.problems.append(f"{name}: this kind of archive is not read; hand in a zip")

    def _open(self, name: str, data: bytes, depth: int) -> None:
        if depth > DEPTH_LIMIT:
            self.incidents.append(f"{name}: archives in archives, deeper than {DEPTH_LIMIT}, left out")
            return
        base = f"{PACKED.sub('', name)}/"
        try:
            if data.startswith(_ZIP) or zipfile.is_zipfile(io.BytesIO(data)):
                with zipfile.ZipFile(io.BytesIO(data)) as archive:
                    self.add_members(archive, archive.infolist(), base, depth)
            else:
                self._open_tar(base, data, depth)
        except _DAMAGED as error:
            self.problems.append(f"{name}: cannot be opened ({_reason(error)}); is the archive whole?")

    def _open_tar(self, base: str, data: bytes, depth: int) -> None:
        with tarfile.open(fileobj=io.BytesIO(_inflated(data)), mode="r:") as archive:
            for member in archive:
                name = self._clean(base, member.name)
                if name is None or member.isdir() or not _matters(name) or not self._counted():
                    continue
                if not member.isreg():
                    self.incidents.append(f"{name}: a link or device, not followed")
                    continue
                self._add(name, archive.extractfile(member), member.size, depth)

    def _clean(self, base: str, name: str) -> str | None:
        """The name joined to its base, or None where it is passed over; a path out of the archive is an incident."""
        path = name.replace("\\", "/")
        if path.startswith("/") or re.match(r"^[A-Za-z]:", path) or ".." in path.split("/"):
            self.incidents.append(f"{_shown(name)}: a path out of the archive, left out")
            return None
        parts = [unicodedata.normalize("NFC", part) for part in PurePosixPath(path).parts]
        if any(IGNORED.match(part) for part in parts) or not parts:
            return None
        return base + _shown("/".join(parts))

    def _counted(self) -> bool:
        self._entries += 1
        if self._entries == ENTRY_LIMIT + 1:
            self.incidents.append(f"more than {ENTRY_LIMIT} entries; the rest was left out")
        if self._read > READ_LIMIT and self._entries <= ENTRY_LIMIT:
            self.incidents.append(f"unpacks to more than {READ_LIMIT >> 20} MB; the rest was left out")
            self._entries = ENTRY_LIMIT + 1
        return self._entries <= ENTRY_LIMIT


def zip_name(member: zipfile.ZipInfo) -> str:
    """A member's name as it was meant: without the flag for UTF-8 most tools write UTF-8 all the same.

    Args:
        member: A member of a zip archive.
    """
    if not member.flag_bits & 0x800:
        with contextlib.suppress(UnicodeError):
            return member.filename.encode("cp437").decode("utf-8")
    return member.filename


def readable(name: str) -> str:
    r"""A name of a disk as text: bytes that are not UTF-8 are read as Windows writes them.

    Args:
        name: The name, as Python gives it.

    Example:
        >>> readable("J\udcfcrgen")
        'Jürgen'
    """
    data = os.fsencode(name) if os.name == "posix" else name.encode("utf-8", "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _matters(name: str) -> bool:
    return bool(WANTED.search(name) or PACKED.search(name) or UNREADABLE.search(name))


def _shown(name: str) -> str:
    """A name without control characters, not longer than a line; its end says what it is."""
    name = "".join(letter if letter.isprintable() else "?" for letter in name)
    return name if len(name) <= 300 else f"{name[:140]}...{name[-150:]}"


def _inflated(data: bytes) -> bytes:
    """The bytes of a tar archive, its compression undone within the limit."""
    for start, module in ((_GZIP, gzip), (b"BZh", bz2), (b"\xfd7zXZ", lzma)):
        if data.startswith(start):
            with module.open(io.BytesIO(data)) as file:
                data = file.read(ARCHIVE_LIMIT + 1)
            if len(data) > ARCHIVE_LIMIT:
                raise ValueError(f"unpacks to more than {ARCHIVE_LIMIT >> 20} MB")
            return data
    return data


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
