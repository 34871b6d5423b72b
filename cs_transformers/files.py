"""Files are written whole or not at all: under a temporary name first, which then replaces the old file."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def ensure_folder(folder: str | os.PathLike[str], *, who: str) -> Path:
    """Create a folder for writing, with its parents.

    Args:
        folder: The folder to create; nothing happens when it is there.
        who: The public function that wants to write; it opens the message.

    Returns:
        The folder as an absolute path.

    Raises:
        PermissionError: If the folder cannot be created or written to; the message says how to name another.
    """
    folder = Path(folder).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
        reason = "the folder is read-only"
    except OSError as error:
        reason = str(error)
    raise PermissionError(
        errno.EACCES,
        f"{who}: cannot write in {folder} ({reason}); choose a folder that you may write to. "
        "For data, set CST_CACHE_DIR to one, for example: export CST_CACHE_DIR=~/cst-cache",
    )


@contextmanager
def atomic_path(target: str | os.PathLike[str], *, who: str = "atomic_path") -> Iterator[Path]:
    """Write a file under a temporary name that becomes the real one only when the block ends well.

    Args:
        target: The final path; its folder is created.
        who: The public function that writes, for the message when the folder is read-only.

    Yields:
        A path beside the target with the same suffix. Write and close it inside the block.

    Raises:
        PermissionError: If the folder cannot be written to.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with atomic_path(folder / "words.txt") as path:
        ...     _ = path.write_text("a dog", encoding="utf-8")
        >>> [entry.name for entry in folder.iterdir()]
        ['words.txt']
    """
    target = Path(target)
    with _replacing(target, f".{target.stem}.{secrets.token_hex(4)}.tmp{target.suffix}", who) as temporary:
        yield temporary


def replace_file(path: str | os.PathLike[str], data: bytes | str, *, who: str = "replace_file") -> Path:
    """Write one whole file, new or in place of an old one.

    Args:
        path: The file; its folder is created.
        data: Its content; text is written in UTF-8 with the line ends that it has.
        who: The public function that writes, for the message when the folder is read-only.

    Returns:
        The path.

    Raises:
        PermissionError: If the folder cannot be written to.
    """
    path = Path(path)
    # Another suffix: whoever looks for "*.md" must not find what a killed process left.
    with _replacing(path, f".{path.name}.{secrets.token_hex(4)}.part", who) as temporary:
        temporary.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    return path


@contextmanager
def _replacing(target: Path, name: str, who: str) -> Iterator[Path]:
    ensure_folder(target.parent, who=who)
    temporary = target.with_name(name)
    try:
        yield temporary
        with temporary.open("rb+") as handle:
            os.fsync(handle.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
