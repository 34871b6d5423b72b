"""Where data is read and where it is written.

Two folders: ``CST_DATA_DIR`` holds real data and is only ever read, ``CST_CACHE_DIR`` takes everything that is
fetched or generated. A name is looked up in the first, then in the second.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import h5py

PACKAGE_PARENT = Path(__file__).resolve().parents[2]


class DamagedFileError(OSError):
    """A file that is there but cannot be what it should be; the message names it and the command that mends it."""


def data_dir() -> Path | None:
    """Give the read-only folder of real data, if one was named.

    Returns:
        The absolute path in ``CST_DATA_DIR``, whether or not it exists, or None when the variable is unset or empty.

    Example:
        >>> data_dir() is None or data_dir().is_absolute()
        True
    """
    named = os.environ.get("CST_DATA_DIR", "").strip()
    return Path(named).expanduser().absolute() if named else None


def cache_dir() -> Path:
    """Give the folder for everything written: ``CST_CACHE_DIR``, else a sensible place near the package.

    A package that lies in its repository writes to the repository's ``datasets/cache``; one that was installed
    among other packages writes to the user's cache folder. The folder is not created here.

    Returns:
        An absolute path.

    Example:
        >>> cache_dir().is_absolute()
        True
    """
    named = os.environ.get("CST_CACHE_DIR", "").strip()
    if named:
        return Path(named).expanduser().absolute()
    if (PACKAGE_PARENT / "pyproject.toml").is_file() or (PACKAGE_PARENT / "datasets").is_dir():
        return PACKAGE_PARENT / "datasets" / "cache"
    base = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "cs_transformers"


def search_dirs() -> tuple[Path, ...]:
    """Give the folders in which data is looked for, the read-only one first."""
    real = data_dir()
    return (cache_dir(),) if real is None else (real, cache_dir())


def find_data(*names: str) -> Path | None:
    """Look a file or folder up, the read-only folder before the cache.

    Args:
        names: Paths relative to the data folders; the first that exists wins, all of them in one folder before any
            in the next.

    Returns:
        The absolute path, or None when no folder holds any of the names.
    """
    for folder in search_dirs():
        for name in names:
            if (folder / name).exists():
                return folder / name
    return None


def require_data(*names: str, who: str, remedy: str) -> Path:
    """Look a file or folder up and say what to do when it is nowhere.

    Args:
        names: Paths relative to the data folders, the preferred one first.
        who: The public function that needs the data; it opens the message.
        remedy: What the reader can type to get the data or to go on without it.

    Returns:
        The absolute path.

    Raises:
        FileNotFoundError: If none of the names exists; the message lists the folders searched.
    """
    found = find_data(*names)
    if found is not None:
        return found
    searched = ", ".join(f"{folder}{'' if folder.is_dir() else ' (no such folder)'}" for folder in search_dirs())
    raise FileNotFoundError(f"{who}: expected {' or '.join(names)}; looked in {searched}. {remedy}")


def open_h5(path: str | os.PathLike[str], *, who: str, remedy: str) -> h5py.File:
    """Open an HDF5 file for reading and turn the library's error numbers into a sentence.

    Args:
        path: The file.
        who: The public function that reads; it opens the message.
        remedy: The command that fetches or rebuilds the file.

    Returns:
        The open file, to be closed by the caller.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFileError: If it is empty, cut off, or no HDF5 file.
    """
    import h5py

    path = Path(path).absolute()
    if not path.is_file():
        raise FileNotFoundError(f"{who}: expected the file {path}, there is none. {remedy}")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        size = path.stat().st_size
        cut = re.search(r"stored_eof = (\d+)", str(error))
        state = f"is incomplete (size {size}, expected {cut[1]})" if cut else f"is no HDF5 file (size {size})"
        raise DamagedFileError(f"{who}: {path} {state}: delete it and get it again. {remedy}") from error
