"""Frames: what goes in comes out, and nothing malformed is believed."""

from __future__ import annotations

import io
import json
import struct

import numpy as np
import pytest

from cs_transformers.checks import wire


def test_arrays_of_every_kind_come_back_as_they_were() -> None:
    arrays = {name: np.arange(6).reshape(2, 3).astype(name) for name in wire.DTYPES} | {
        "scalar": np.array(3.5),
        "empty": np.zeros((0, 4)),
        "transposed": np.arange(6.0).reshape(2, 3).T,
    }
    frame = wire.unpack(wire.pack({"a": 1}, arrays))
    assert frame.head == {"a": 1}
    assert list(frame.arrays) == list(arrays)
    for name, array in arrays.items():
        assert frame.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(frame.arrays[name], array)


def test_a_big_endian_array_is_the_same_array() -> None:
    array = np.arange(3, dtype=">f8")
    np.testing.assert_array_equal(wire.unpack(wire.pack({}, {"x": array})).arrays["x"], array)


def test_objects_are_never_packed() -> None:
    with pytest.raises(wire.WireError, match=r"array 'x': expected one of .*got object"):
        wire.pack({}, {"x": np.array([object()])})


def frame(record: object, data: bytes = b"", magic: bytes = wire.MAGIC) -> bytes:
    text = json.dumps(record).encode() if not isinstance(record, bytes) else record
    return struct.pack(">4sIQ", magic, len(text), len(data)) + text + data


def listing(*entry: object, data: bytes = b"\0" * 8) -> bytes:
    return frame({"head": {}, "arrays": [list(entry)]}, data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"CST1",
        frame({"head": {}, "arrays": []}, magic=b"PK\x03\x04"),
        frame({"head": {}, "arrays": []})[:-1],
        frame({"head": {}, "arrays": []}) + b"x",
        frame(b"not json"),
        frame(b"[" * 100_000),
        frame([]),
        frame({"head": [], "arrays": []}),
        frame({"head": {}}),
        frame({"head": {}, "arrays": [1]}),
        listing("x", "float64"),
        listing("x", "object", [1]),
        listing("x", "V8", [1]),
        listing("x", "float64", [2]),
        listing("x", "float64", [-1]),
        listing("x", "float64", [1.0]),
        listing("x", "float64", [True]),
        listing("x", "float64", [10**9, 10**9, 10**9]),
        listing("x", "float64", "1"),
        listing("", "float64", [1]),
        listing("x" * 300, "float64", [1]),
        listing(7, "float64", [1]),
        listing("x", "float64", [0]),
        frame({"head": {}, "arrays": [["x", "float64", [1]], ["x", "float64", [0]]]}, b"\0" * 8),
        struct.pack(">4sIQ", wire.MAGIC, wire.HEAD_LIMIT + 1, 0),
        struct.pack(">4sIQ", wire.MAGIC, 2, wire.DATA_LIMIT + 1) + b"{}",
    ],
)
def test_a_malformed_frame_is_refused(data: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.unpack(data)


def test_a_stream_gives_its_frames_one_by_one_and_then_none() -> None:
    stream = io.BytesIO(wire.pack({"n": 1}, {}) + wire.pack({"n": 2}, {"x": np.ones(2)}))
    assert [wire.read(stream).head["n"], wire.read(stream).head["n"], wire.read(stream)] == [1, 2, None]


def test_a_stream_that_ends_within_a_frame_is_refused() -> None:
    with pytest.raises(wire.WireError):
        wire.read(io.BytesIO(wire.pack({"n": 1}, {"x": np.ones(2)})[:-3]))
