"""Zip files as the course writes and reads them: the same content gives the same bytes, and reading is guarded."""

from __future__ import annotations

import io
import lzma
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from cs_transformers.files import replace_file

DATE = (1980, 1, 1, 0, 0, 0)  # no moment of writing in the bytes
LARGEST = 512 << 20  # bytes a zip may unpack to
MOST = 20_000  # files in it
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


def read_zip(data: bytes, name: str) -> dict[str, bytes]:
    """Return the files of a zip; nothing is unpacked to disk.

    Args:
        data: The zip.
        name: What messages call it.

    Returns:
        Content by path, without what operating systems add.

    Raises:
        ValueError: If it is no zip, damaged, too large, or holds a path that leads out of it.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [one for one in archive.infolist() if not one.is_dir() and not _of_a_system(one.filename)]
            size = sum(one.file_size for one in entries)
            if len(entries) > MOST or size > LARGEST:
                raise ValueError(
                    f"{name}: expected a zip of at most {MOST} files and {LARGEST >> 20} MB, got {len(entries)} files "
                    f"and {size >> 20} MB; is it the right file?"
                )
            for one in entries:
                _refuse_ways_out(one, name)
            return {one.filename.replace("\\", "/"): archive.read(one) for one in entries}
    except DAMAGED as error:
        raise ValueError(f"{name}: expected a whole zip, got a damaged one ({error}); download it again") from None


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
