from __future__ import annotations

import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest

from cs_transformers.data.lazy import LazyArray, read_array
from cs_transformers.data.paths import DamagedFileError

VALUES = np.arange(23 * 5 * 3, dtype=np.int32).reshape(23, 5, 3)
INDICES = [
    0, -1, np.int64(7), slice(None), slice(4, 9), slice(20, 2, -3), slice(5, 5), [3, 1, 1, -2], [],
    np.array([[1, 2], [9, 0]]), np.arange(23) % 3 == 0, (2, 4), (slice(2, 9, 3), 1), ([4, 4, 0], 2),
    ([4, 0], slice(1, 3)), (..., 1), (4, ..., 2), Ellipsis, (slice(None), None, 2), ([1, 2], [3, 4]),
    (np.array([5, 3]), [0, 1], [2, 2]), (7, [4, 0, 0]), (slice(3, 9), [1, 2], [0, 1]), ([0, 22], [[1], [2]]),
]  # fmt: skip


@pytest.fixture(params=["contiguous", "chunked", "compressed"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    options = {"contiguous": {}, "chunked": {"chunks": (4, 5, 3)}, "compressed": {"compression": "gzip"}}[request.param]
    with h5py.File(tmp_path / "numbers.h5", "w") as file:
        file.create_dataset("numbers", data=VALUES, **options)
    return tmp_path / "numbers.h5"


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_every_index_gives_what_numpy_gives(path: Path, index: object) -> None:
    expected = VALUES[index]
    got = LazyArray(path, "numbers")[index]
    assert np.array_equal(got, expected)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype


def test_what_is_read_belongs_to_the_caller(path: Path) -> None:
    array = LazyArray(path, "numbers")
    rows = array[2:4]
    rows += 1
    assert np.array_equal(array[2:4], VALUES[2:4])


def test_it_describes_itself_like_an_array(path: Path) -> None:
    array = LazyArray(path, "numbers")
    assert (array.shape, array.ndim, array.size, array.nbytes, len(array)) == ((23, 5, 3), 3, 345, 1380, 23)
    assert array.dtype == np.int32
    assert np.array_equal(np.asarray(array), VALUES)
    assert np.asarray(array, dtype=np.float64).dtype == np.float64
    assert np.mean(array) == VALUES.mean()
    assert np.array_equal(np.stack(list(array)), VALUES)
    assert repr(array) == "LazyArray(shape=(23, 5, 3), dtype=int32, file='numbers.h5', key='numbers')"


def test_an_index_outside_is_numpys_error(path: Path) -> None:
    array = LazyArray(path, "numbers")
    for index in (23, -24, [0, 30]):
        with pytest.raises(IndexError, match="out of bounds"):
            array[index]


def test_a_pickled_copy_reads_the_same_and_carries_no_values(path: Path) -> None:
    array = LazyArray(path, "numbers")
    array[3]
    text = pickle.dumps(array)
    assert len(text) < 1000
    assert np.array_equal(pickle.loads(text)[:], VALUES)


def test_no_file_stays_open(path: Path) -> None:
    array = LazyArray(path, "numbers")
    array[[5, 1]]
    with h5py.File(path, "r+") as file:  # would fail while a reader holds it
        file["numbers"][5] = -1
    assert (array[5] == -1).all()


def test_a_dtype_asked_for_is_what_is_read(path: Path) -> None:
    array = LazyArray(path, "numbers", dtype=np.float32)
    assert array.dtype == array[3].dtype == array[[1, 0]].dtype == np.asarray(array).dtype == np.float32
    assert array.nbytes == 1380


def test_small_arrays_are_read_and_large_ones_stay(path: Path) -> None:
    options = {"who": "test", "remedy": ""}
    assert isinstance(read_array(path, "numbers", lazy_above=1380, **options), np.ndarray)
    assert isinstance(read_array(path, "numbers", lazy_above=1379, **options), LazyArray)


def test_an_empty_data_set_is_an_empty_array(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "empty.h5", "w") as file:
        file.create_dataset("numbers", data=np.zeros((0, 4), dtype=np.float32))
    array = LazyArray(tmp_path / "empty.h5", "numbers")
    assert len(array) == 0
    assert array[:].shape == (0, 4)


def test_a_wrong_or_damaged_file_is_named_with_what_mends_it(path: Path, tmp_path: Path) -> None:
    with pytest.raises(
        DamagedFileError, match=r"reader: .*numbers\.h5 has no data set 'x', only \['numbers'\].*Fetch it\."
    ):
        LazyArray(path, "x", who="reader", remedy="Fetch it.")
    with h5py.File(tmp_path / "group.h5", "w") as file:
        file.create_group("numbers")
    with pytest.raises(DamagedFileError, match=r"'numbers' of .*group\.h5 is no array"):
        LazyArray(tmp_path / "group.h5", "numbers")
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2])
    with pytest.raises(DamagedFileError, match=rf"is incomplete \(size {size // 2}, expected {size}\).*Fetch it\."):
        LazyArray(path, "numbers", who="reader", remedy="Fetch it.")


def test_an_array_without_a_copy_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="an array of it is always a copy"):
        LazyArray(path, "numbers").__array__(copy=False)
