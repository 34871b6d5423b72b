"""Zip files as the course writes and reads them: the same content gives the same bytes, and reading is guarded."""

from __future__ import annotations

import io
import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from cs_transformers.files import replace_file

DATE = (1980, 1, 1, 0, 0, 0)  # no moment of writing in the bytes
LARGEST = 512 << 20  # bytes that are taken out of a zip
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, EOFError, RuntimeError)


def zip_bytes(files: dict[str, bytes]) -> bytes:
    """Return a zip of some files, in the order of their names.

    Args:
        files: Content by path.

    Returns:
        The zip; equal files give equal bytes.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            entry.external_attr = (stat.S_IFREG | (0o755 if name.endswith("run_autograder") else 0o644)) << 16
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    """Write a zip, whole or not at all.

    Args:
        path: The file to write.
        files: Content by path.

    Returns:
        The path.
    """
    return replace_file(path, zip_bytes(files))


class Files(Mapping[str, bytes]):
    """Files by path, each read when it is asked for: of a copy with data sets beside it, few are wanted.

    Args:
        names: The paths.
        read: Reads one.
    """

    def __init__(self, names: Iterable[str], read: Callable[[str], bytes]) -> None:
        self._names, self._read = dict.fromkeys(names), read

    def __getitem__(self, name: str) -> bytes:
        """Content of a file."""
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        """The paths."""
        return iter(self._names)

    def __len__(self) -> int:
        """How many files there are."""
        return len(self._names)


def open_zip(source: Path | bytes, name: str) -> Files:
    """Return the files of a zip, read when they are asked for; nothing is unpacked to disk.

    Args:
        source: The zip.
        name: What messages call it.

    Returns:
        Files, without what operating systems add. To read one that is damaged, or more than the limit, is a ValueError.

    Raises:
        ValueError: If it is no zip, damaged, or holds a path that leads out of it.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source)
    except DAMAGED as error:
        raise _damaged(name, error) from None
    entries = {}
    for one in archive.infolist():
        if not one.is_dir() and not _of_a_system(one.filename):
            _refuse_ways_out(one, name)
            entries[one.filename.replace("\\", "/")] = one
    given = [0]

    def read(path: str) -> bytes:
        given[0] += entries[path].file_size
        if given[0] > LARGEST:
            raise ValueError(
                f"{name}: expected files of at most {LARGEST >> 20} MB in all, got {given[0] >> 20} MB with {path}; "
                "is it the right file?"
            )
        try:
            return archive.read(entries[path])
        except DAMAGED as error:
            raise _damaged(name, error) from None

    return Files(entries, read)


def _damaged(name: str, error: Exception) -> ValueError:
    return ValueError(f"{name}: expected a whole zip, got a damaged one ({error}); download it again")


def _of_a_system(name: str) -> bool:
    return "__MACOSX/" in name or name.rpartition("/")[2] in (".DS_Store", "Thumbs.db", "desktop.ini")


def _refuse_ways_out(entry: zipfile.ZipInfo, name: str) -> None:
    path = PurePosixPath(entry.filename.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0] or stat.S_ISLNK(entry.external_attr >> 16):
        raise ValueError(
            f"{name}: expected files that stay in the folder, got {entry.filename!r}; do not use this file"
        )


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by path, compiled Python left out.

    Args:
        folder: The folder.

    Returns:
        Content by path, in order.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def open_folder(folder: Path, skip: Callable[[str], bool]) -> Files:
    """Return the files of a folder, read when they are asked for.

    Args:
        folder: The folder.
        skip: Whether a folder of this name is passed over.
    """
    names = []
    for place, inside, files in os.walk(folder):
        inside[:] = sorted(name for name in inside if not skip(name))
        names += [(Path(place) / name).relative_to(folder).as_posix() for name in sorted(files)]
    return Files(names, lambda name: (folder / name).read_bytes())
