"""Unpacking what came from elsewhere: only plain files, only inside the folder, only as much as was announced."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import IO

from tqdm import tqdm

from cs_transformers.data.paths import DamagedFileError
from cs_transformers.files import ensure_folder

GIGABYTE = 1024**3
CHUNK = 1024**2
# An archive below this size on disk is harmless however well it was packed; above it, text rarely shrinks a
# hundredfold, so a larger factor means a bomb.
HARMLESS = CHUNK * 256
LARGEST_FACTOR = 200
# Resource forks and folder views that macOS and Windows leave in archives.
LITTER = ("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini")
BROKEN = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, NotImplementedError)


class UnsafeArchiveError(DamagedFileError):
    """An archive that asks for something no data set needs: a path outside, a link, a device, a flood of bytes."""


def unpack(
    archive: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    prefix: str = "",
    max_bytes: int = 64 * GIGABYTE,
    max_files: int = 500_000,
    progress: bool | None = None,
) -> list[Path]:
    """Unpack a zip or tar file without trusting it.

    Every entry is judged before its first byte is written: absolute paths, ``..``, drive letters, links, devices and
    encrypted entries are refused, and so is an archive that unfolds to more than it may. Nothing is unpacked from an
    archive that is refused or damaged: files move to their places only when all of them are out.

    Args:
        archive: A zip, tar or gzipped tar file, told apart by content.
        folder: Where the entries go; existing files of the same names are replaced, others are left.
        prefix: A folder at the top of the archive whose entries go to ``folder`` directly.
        max_bytes: The most bytes that all entries may have together.
        max_files: The most entries that there may be.
        progress: True or False shows or hides a bar; None shows it on a terminal only.

    Returns:
        The files written, in the archive's order. macOS and Windows litter is left out.

    Raises:
        FileNotFoundError: If there is no such archive.
        UnsafeArchiveError: If an entry is refused or the limits are passed.
        DamagedFileError: If the archive is cut off, has a wrong checksum inside, or is of no known kind.
    """
    archive, folder = Path(archive).absolute(), ensure_folder(folder, who="unpack")
    if not archive.is_file():
        raise FileNotFoundError(f"unpack: expected an archive at {archive}, there is none. Download it first.")
    staging = folder / f".unpacking-{archive.name}"
    shutil.rmtree(staging, ignore_errors=True)  # left over from a run that was killed
    try:
        names = _write_entries(archive, staging, max_bytes, max_files, progress)
        return [_move_into_place(staging / name, folder / _without(prefix, name)) for name in names]
    except BROKEN as error:
        raise DamagedFileError(f"unpack: {archive} is damaged ({error}): delete it and download it again.") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _without(prefix: str, name: PurePosixPath) -> PurePosixPath:
    return name.relative_to(prefix) if prefix and name.is_relative_to(prefix) else name


def _write_entries(
    archive: Path, staging: Path, max_bytes: int, max_files: int, progress: bool | None
) -> list[PurePosixPath]:
    allowed = min(max_bytes, max(HARMLESS, LARGEST_FACTOR * archive.stat().st_size))
    names: list[PurePosixPath] = []
    written = 0
    hide = None if progress is None else not progress
    with (
        tqdm(unit="B", unit_scale=True, desc=f"unpacking {archive.name}", disable=hide, leave=False) as bar,
        closing(_entries(archive)) as entries,
    ):
        for count, (name, size, open_entry) in enumerate(entries, start=1):
            if count > max_files or written + size > allowed:
                raise UnsafeArchiveError(
                    f"unpack: {archive} unfolds to more than {allowed:,} bytes or {max_files:,} files. "
                    "Nothing was unpacked; check where the archive came from."
                )
            if name is None:
                continue
            target = staging / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with open_entry() as source, target.open("wb") as sink:
                written += _copy(source, sink, allowed - written, archive, bar)
            names.append(name)
    return list(dict.fromkeys(names))


def _copy(source: IO[bytes], sink: IO[bytes], allowed: int, archive: Path, bar: tqdm) -> int:
    """Copy an entry, counting what really comes out: the size in a header may lie."""
    total = 0
    while chunk := source.read(CHUNK):
        total += len(chunk)
        if total > allowed:
            raise UnsafeArchiveError(
                f"unpack: {archive} holds more bytes than it announces (over {allowed:,}). "
                "Nothing was unpacked; check where the archive came from."
            )
        sink.write(chunk)
        bar.update(len(chunk))
    return total


Entry = tuple[PurePosixPath | None, int, Callable[[], IO[bytes]]]


def _entries(archive: Path) -> Iterator[Entry]:
    """Yield name, announced size and opener of each file; the name is None for folders and litter."""
    if zipfile.is_zipfile(archive):
        yield from _zip_entries(archive)
    elif tarfile.is_tarfile(archive):
        yield from _tar_entries(archive)
    else:
        raise DamagedFileError(
            f"unpack: {archive} is neither a zip nor a tar file (size {archive.stat().st_size}): it is incomplete or "
            "a web page in its place. Delete it and download it again."
        )


def _zip_entries(archive: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(archive) as bundle:
        for info in bundle.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            plain = kind in (0, stat.S_IFREG, stat.S_IFDIR) and not info.flag_bits & 1
            name = _safe_name(info.filename, plain, archive)
            yield (None if info.is_dir() else name), info.file_size, lambda info=info: bundle.open(info)


def _tar_entries(archive: Path) -> Iterator[Entry]:
    with archive.open("rb") as handle:
        gzipped = handle.read(2) == b"\x1f\x8b"
    with tarfile.open(archive, "r:gz" if gzipped else "r:") as bundle:
        for member in bundle:
            name = _safe_name(member.name, member.isreg() or member.isdir(), archive)
            yield (None if member.isdir() else name), member.size, lambda member=member: bundle.extractfile(member)


def _safe_name(raw: str, plain: bool, archive: Path) -> PurePosixPath | None:
    name = PurePosixPath(raw.replace("\\", "/"))
    outside = name.is_absolute() or ".." in name.parts or ":" in raw or "\0" in raw
    if outside or not plain:
        what = "lies outside the folder" if outside else "is a link, a device or encrypted"
        raise UnsafeArchiveError(
            f"unpack: the entry {raw!r} of {archive} {what}. Nothing was unpacked; check where the archive came from."
        )
    litter = any(part in LITTER or part.startswith("._") for part in name.parts)
    return None if litter or not name.parts else name


def _move_into_place(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
    return target
