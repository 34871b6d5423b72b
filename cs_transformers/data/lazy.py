"""Arrays that stay on disk and are read row by row, in any process.

No file stays open between two reads, so an array can be pickled, and workers that were forked or spawned share nothing
with their parent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from cs_transformers.data.paths import DamagedFileError, open_h5


class LazyArray:
    """A data set of an HDF5 file that looks like a numpy array but is read only where it is indexed.

    Args:
        path: The file.
        key: Name of the data set in it.
        who: The public function that opened it; it opens the messages.
        remedy: What the reader can do when the file is damaged; it ends the messages.
        dtype: What to convert to on reading, or None for the dtype of the file.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFileError: If it is empty, cut off, no HDF5 file, or has no such data set.

    Example:
        >>> import h5py, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "numbers.h5"
        >>> with h5py.File(path, "w") as file:
        ...     file["squares"] = np.arange(6) ** 2
        >>> squares = LazyArray(path, "squares")
        >>> len(squares), squares[[4, 1, 1]].tolist(), int(squares[-1])
        (6, [16, 1, 1], 25)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        key: str,
        *,
        who: str = "LazyArray",
        remedy: str = "",
        dtype: np.dtype | type | None = None,
    ) -> None:
        self.path = Path(path).absolute()
        self.key, self.who, self.remedy = key, who, remedy
        with open_h5(self.path, who=who, remedy=remedy) as file:
            if key not in file:
                raise DamagedFileError(
                    f"{who}: {self.path} has no data set {key!r}, only {sorted(file)}: delete it and get it again. "
                    f"{remedy}".rstrip()
                )
            stored = file[key]
            if not isinstance(stored, h5py.Dataset) or not stored.shape:
                raise DamagedFileError(
                    f"{who}: {key!r} of {self.path} is no array: get the file again. {remedy}".rstrip()
                )
            self.shape: tuple[int, ...] = stored.shape
            self.dtype = np.dtype(dtype or stored.dtype)
            self._stored_dtype: np.dtype = stored.dtype
            # a contiguous data set is a plain block of the file; numpy maps it and knows every kind of index
            self._offset: int | None = stored.id.get_offset() if stored.chunks is None and stored.size else None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes that all entries would take in memory."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"LazyArray(shape={self.shape}, dtype={self.dtype}, file={self.path.name!r}, key={self.key!r})"

    def __getitem__(self, index: Any) -> Any:
        """Read what numpy's own indexing would give, as an array in memory."""
        if self._offset is not None:
            block = np.memmap(self.path, dtype=self._stored_dtype, mode="r", offset=self._offset, shape=self.shape)
            return np.array(block[index], dtype=self.dtype)[
                ()
            ]  # a copy, and a plain scalar where the index names one entry
        return self._read_rows(index)

    def _read_rows(self, index: Any) -> Any:
        first, rest = (index[0], index[1:]) if isinstance(index, tuple) and index else (index, ())
        if first is None or first is Ellipsis or any(part is None or part is Ellipsis for part in rest):
            first, rest = slice(None), index if isinstance(index, tuple) else (index,)
            return self._read_rows(first)[rest]
        rows = np.arange(self.shape[0])[first]  # numpy's rules and messages for any kind of index
        wanted, back = np.unique(rows.ravel(), return_inverse=True)
        with open_h5(self.path, who=self.who, remedy=self.remedy) as file:
            stored = file[self.key]
            if not len(wanted):
                values = np.empty((0, *self.shape[1:]), dtype=self.dtype)
            elif wanted[-1] - wanted[0] < 4 * len(wanted):  # dense: one long read is faster than many short ones
                values = stored[wanted[0] : wanted[-1] + 1][wanted - wanted[0]]
            else:
                values = stored[wanted]
        values = values.astype(self.dtype, copy=False)
        if isinstance(first, slice):
            return values[back][(slice(None), *rest)]
        where = back.reshape(rows.shape) if rows.ndim else int(back[0])
        return values[(where, *rest)]

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Read everything, for ``np.asarray``."""
        if copy is False:
            raise ValueError(
                f"{self.who}: {self.key} lies in a file, an array of it is always a copy; drop copy=False."
            )
        values = np.asarray(self[:])
        return values if dtype is None else values.astype(dtype, copy=False)


def read_array(
    path: str | os.PathLike[str],
    key: str,
    *,
    lazy_above: int,
    who: str,
    remedy: str,
    dtype: np.dtype | type | None = None,
) -> np.ndarray | LazyArray:
    """Read a small data set of an HDF5 file, and leave a large one on disk.

    Args:
        path: The file.
        key: Name of the data set in it.
        lazy_above: Bytes above which the data set stays on disk.
        who: The public function that reads; it opens the messages.
        remedy: What the reader can do when the file is damaged; it ends the messages.
        dtype: What to convert to on reading, or None for the dtype of the file.

    Returns:
        An array in memory or one that is read where it is indexed; both index alike.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFileError: If it is empty, cut off, no HDF5 file, or has no such data set.
    """
    array = LazyArray(path, key, who=who, remedy=remedy, dtype=dtype)
    return array if array.nbytes > lazy_above else np.asarray(array)
