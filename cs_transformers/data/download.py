"""The data sets of the registry: which are on disk, and fetching those that are not."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cs_transformers.data.archives import unpack
from cs_transformers.data.paths import DamagedFileError, cache_dir, search_dirs
from cs_transformers.data.sources import DATA_SETS, RemoteDataSet, RemoteFile
from cs_transformers.data.transfer import DownloadError, fetch, locked
from cs_transformers.files import ensure_folder


class DataSetState(NamedTuple):
    """What is on disk of a data set: its entry, its folder (None where nothing is), what is missing in there."""

    entry: RemoteDataSet
    folder: Path | None
    missing: tuple[str, ...]

    @property
    def ready(self) -> bool:
        """Whether all of it is there."""
        return self.folder is not None and not self.missing


def data_set_state(name: str) -> DataSetState:
    """Say which of a data set's files are on disk, in the read-only folder or in the cache.

    Args:
        name: A name of the registry, such as ``"cifar10"``.

    Returns:
        The state in the folder that holds most of the set.

    Raises:
        ValueError: If the registry has no such name.

    Example:
        >>> data_set_state("cifar10").entry.folder
        'cifar10'
    """
    if name not in DATA_SETS:
        raise ValueError(f"data_set_state: expected one of {', '.join(DATA_SETS)}, got {name!r}. See: cst data list")
    entry = DATA_SETS[name]
    states = []
    for folder in (base / entry.folder for base in search_dirs()):
        missing = tuple(pattern for pattern, least in entry.leaves if len(list(folder.glob(pattern))) < least)
        partly = len(missing) < len(entry.leaves)
        states.append(DataSetState(entry, folder if partly else None, missing))
    return min(states, key=lambda state: len(state.missing))


def list_data_sets() -> list[DataSetState]:
    """Give every data set of the registry with what is on disk of it, for ``cst data list``.

    Returns:
        One state for each, in the registry's order.

    Example:
        >>> [state.entry.name for state in list_data_sets()][:2]
        ['coco-captions', 'coco-annotations-2014']
    """
    return [data_set_state(name) for name in DATA_SETS]


def get_data_set(name: str, *, force: bool = False, progress: bool | None = None) -> Path:
    """Fetch a data set into the cache, unless it is there already, for ``cst data get NAME``.

    Args:
        name: A name of the registry.
        force: Fetch again although all files are there, which mends a damaged one.
        progress: True or False shows or hides bars; None shows them on a terminal only.

    Returns:
        The folder that holds the set.

    Raises:
        ValueError: If the registry has no such name.
        DownloadError: If a file could not be fetched, or an archive lacks what it should hold.
        DamagedFileError: If an archive cannot be unpacked.
        PermissionError: If the cache cannot be written to.
    """
    state = data_set_state(name)
    if state.ready and not force:
        return state.folder
    folder = ensure_folder(cache_dir() / state.entry.folder, who="get_data_set")
    with locked(folder / ".download.lock", f"the data set {name}"):
        for source in state.entry.sources:
            _get_source(source, folder, name, force, progress)
    missing = data_set_state(name).missing
    if missing:
        raise DownloadError(f"get_data_set: {name} came without {', '.join(missing)}: look into {folder}.")
    return folder


def _get_source(source: RemoteFile, folder: Path, name: str, force: bool, progress: bool | None) -> None:
    target = folder / source.name
    if force:
        target.unlink(missing_ok=True)
    fetch(source.urls, target, sha256=source.sha256, md5=source.md5, size=source.size, progress=progress)
    if not source.unpack:
        return
    try:
        unpack(target, folder, prefix=source.prefix, progress=progress)
    except DamagedFileError as error:
        raise DownloadError(
            f"get_data_set: {error} It was deleted; fetch it again with: cst data get {name}"
        ) from error
    finally:
        target.unlink(missing_ok=True)
