"""The journal of a grading run: one line of JSON for each thing that is known, on the disk before it counts.

The first line says how the run was set up (its key, versions). A line that was torn when the machine stopped is passed
over and cut off before the next one is written; every other line stays as it is for ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .model import NotebookRun, Record

VERSION = 1
_TUPLES = ("lines", "diagnosis")


class Journal:
    """Appends lines to a file, each written and synced as a whole; one run at a time may hold it.

    Args:
        path: The file; made if it is not there.

    Raises:
        ValueError: If another run holds it, or a line other than the last cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            _hold(self._file, path)
            self.entries = read(path)
            whole = sum(len(line) for line in _lines(path)[: len(self.entries)])
            os.truncate(self._file, whole) if os.name == "posix" else os.truncate(path, whole)
        except ValueError:
            os.close(self._file)
            raise

    def __enter__(self) -> Journal:
        """The journal itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file and let other runs have it."""
        with self._lock:
            os.close(self._file)
            self._file = -1  # a thread that writes late must not reach whatever file gets this number next

    def append(self, record: Record) -> None:
        """Keep the verdict on one exercise.

        Args:
            record: The verdict.
        """
        self.write("record", asdict(record))

    def append_run(self, run: NotebookRun) -> None:
        """Keep what nbval said of one notebook.

        Args:
            run: The notebook's run.
        """
        self.write("notebook", asdict(run))

    def write(self, kind: str, content: dict[str, Any]) -> None:
        """Write one line and wait until it is on the disk.

        Args:
            kind: What the line holds: ``run``, ``class``, ``record``, ``notebook``, ``trouble``.
            content: Plain JSON values.

        Raises:
            OSError: If it cannot be written; the journal is as it was then.
        """
        entry = {"kind": kind, **content}
        line = json.dumps(entry, ensure_ascii=True).encode() + b"\n"
        with self._lock:
            whole = os.fstat(self._file).st_size
            try:
                _write_all(self._file, line)
                os.fsync(self._file)
            except BaseException:  # a full disk takes a part of a line, and the next one would be joined to it
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, whole)
                raise
            self.entries.append(json.loads(line))


def read(path: Path) -> list[dict[str, Any]]:
    """The entries of a journal; a torn last line is passed over.

    Args:
        path: The file.

    Raises:
        ValueError: If another line is damaged.
    """
    found = []
    lines = _lines(path)
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            if not isinstance(entry, dict) or "kind" not in entry or not line.endswith(b"\n"):
                raise ValueError("no entry")
        except ValueError:
            if number == len(lines):
                break
            raise ValueError(
                f"journal: expected an entry in line {number} of {path.name}, got a damaged line; "
                "remove that line to go on, what it held is graded again"
            ) from None
        found.append(entry)
    return found


def to_record(entry: dict[str, Any]) -> Record:
    """The verdict in an entry.

    Args:
        entry: An entry of kind ``record``.
    """
    fields = {key: value for key, value in entry.items() if key in Record.__dataclass_fields__}
    return Record(**{key: tuple(value) if key in _TUPLES else value for key, value in fields.items()})


def to_run(entry: dict[str, Any]) -> NotebookRun:
    """The notebook's run in an entry.

    Args:
        entry: An entry of kind ``notebook``.
    """
    return NotebookRun(**{key: value for key, value in entry.items() if key in NotebookRun.__dataclass_fields__})


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def _hold(file: int, path: Path) -> None:
    """Let no second run write into the same folder (where the system can say so)."""
    with contextlib.suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"journal: expected {path.parent} for this run alone, got a run that is still writing there; wait for "
                "it, or choose another folder"
            ) from None
