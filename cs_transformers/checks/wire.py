"""Frames and arrays between the trusted process and the workers: bytes with a JSON head, never a pickle.

The worker process loads this file by its path, so it imports the standard library and numpy only. Whatever arrives
here may have been written by a hostile program: every field is checked before it is used.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

MAGIC = b"CST1"
HEAD_LIMIT = 4 << 20
DATA_LIMIT = 256 << 20
DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
_FIXED = struct.Struct(">4sIQ")
FIXED_SIZE = _FIXED.size


class WireError(ValueError):
    """Bytes that are no frame of this protocol."""


@dataclass
class Frame:
    """A head of plain JSON values and named arrays.

    Args:
        head: Plain JSON values.
        arrays: Arrays by name.
    """

    head: dict[str, Any]
    arrays: dict[str, np.ndarray]


def pack(head: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """One frame as bytes.

    Args:
        head: Plain JSON values.
        arrays: Arrays by name.
    """
    listed, blobs = [], []
    for name, array in arrays.items():
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        if array.dtype.name not in DTYPES:
            raise WireError(f"array {name!r}: expected one of {', '.join(DTYPES)}, got {array.dtype}")
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        blobs.append(little.tobytes())
        listed.append([name, array.dtype.name, list(array.shape)])
    text = json.dumps({"head": head, "arrays": listed}).encode()
    data = b"".join(blobs)
    return _FIXED.pack(MAGIC, len(text), len(data)) + text + data


def unpack(frame: bytes) -> Frame:
    """The frame in some bytes.

    Args:
        frame: Bytes that should be a frame.

    Raises:
        WireError: If they are anything but exactly one well-formed frame.
    """
    if len(frame) < _FIXED.size:
        raise WireError(f"expected a frame, got {len(frame)} bytes")
    text_size, data_size = sizes(frame[: _FIXED.size])
    if len(frame) != _FIXED.size + text_size + data_size:
        raise WireError("the frame's length disagrees with its head")
    text, data = frame[_FIXED.size : _FIXED.size + text_size], frame[_FIXED.size + text_size :]
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise WireError("the frame's head is not JSON") from None
    head = record.get("head") if isinstance(record, dict) else None
    if not isinstance(head, dict) or not isinstance(record.get("arrays"), list):
        raise WireError("the frame's head lacks its fields")
    return Frame(head, _arrays(record["arrays"], data))


def sizes(fixed: bytes) -> tuple[int, int]:
    """Length of the head and of the data that follow a frame's first bytes.

    Args:
        fixed: The first 16 bytes of a frame.
    """
    magic, text_size, data_size = _FIXED.unpack(fixed)
    if magic != MAGIC or text_size > HEAD_LIMIT or data_size > DATA_LIMIT:
        raise WireError("these bytes do not begin a frame, or one beyond the limits")
    return text_size, data_size


def read(stream: BinaryIO) -> Frame | None:
    """The next frame of a stream, or None at its end.

    Args:
        stream: A binary stream.
    """
    fixed = _exactly(stream, _FIXED.size)
    if not fixed:
        return None
    return unpack(fixed + _exactly(stream, sum(sizes(fixed))))


def _exactly(stream: BinaryIO, count: int) -> bytes:
    parts, left = [], count
    while left:
        part = stream.read(left)
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _arrays(listed: list[Any], data: bytes) -> dict[str, np.ndarray]:
    arrays, position = {}, 0
    for entry in listed:
        name, dtype, shape = _checked(entry)
        size = np.dtype(dtype).itemsize * math.prod(shape)
        if position + size > len(data) or name in arrays:
            raise WireError("an array is longer than the frame or listed twice")
        raw = np.frombuffer(data, dtype=np.dtype(dtype).newbyteorder("<"), count=math.prod(shape), offset=position)
        arrays[name] = raw.reshape(shape).astype(dtype)
        position += size
    if position != len(data):
        raise WireError("the frame holds bytes that belong to no array")
    return arrays


def _checked(entry: Any) -> tuple[str, str, tuple[int, ...]]:
    if not isinstance(entry, list) or len(entry) != 3:
        raise WireError("an array's entry is malformed")
    name, dtype, shape = entry
    if not isinstance(name, str) or not 0 < len(name) <= 200 or dtype not in DTYPES or not isinstance(shape, list):
        raise WireError("an array's entry is malformed")
    sized = all(type(side) is int and 0 <= side <= DATA_LIMIT for side in shape)
    if len(shape) > 16 or not sized or math.prod(shape) > DATA_LIMIT:
        raise WireError("an array's shape is malformed")
    return name, dtype, tuple(shape)
