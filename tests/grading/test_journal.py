"""A journal keeps every whole line, whatever happened while it was written, and lets one run write."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from cs_transformers.grading import journal
from cs_transformers.grading.journal import Journal
from cs_transformers.grading.model import NotebookRun, Record

RECORD = Record(
    "s1", "1.6", "partly", 2, 4, lines=("a", "ü\u2028\ud800"), diagnosis=("d",),
    parts={"values": True, "dropout": None},
    picture={"expected": [[1.0, float("nan")]], "got": [[float("inf"), 0.5]], "label": "x"}, tier="t", digest="abc",
)  # fmt: skip


def test_records_and_runs_come_back_as_they_were(tmp_path: Path) -> None:
    run = NotebookRun("s1", "01_attention", {"01-check-1-1": "passed"}, {"1.1": "passed"}, "", "d")
    with Journal(tmp_path / "journal.jsonl") as kept:
        kept.append(RECORD)
        kept.append_run(run)
    first, second = journal.read(tmp_path / "journal.jsonl")
    assert repr(journal.to_record(first)) == repr(RECORD)
    assert journal.to_run(second) == run


def test_a_torn_last_line_is_passed_over_and_cut_off_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as kept:
        kept.append(RECORD)
    whole = path.read_bytes()
    for cut in (1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole + whole[:cut])
        assert len(journal.read(path)) == 1
        with Journal(path) as kept:
            assert len(kept.entries) == 1
            kept.write("class", {"people": []})
        lines = path.read_bytes().splitlines(keepends=True)
        assert lines[0] == whole
        assert json.loads(lines[1]) == {"kind": "class", "people": []}
        path.write_bytes(whole)


def test_every_line_is_on_the_disk_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), real(file)))
    with Journal(tmp_path / "journal.jsonl") as kept:
        for number in range(3):
            kept.append(RECORD)
            assert len(synced) == number + 1
            assert len(journal.read(tmp_path / "journal.jsonl")) == number + 1


def test_a_disk_that_is_full_in_the_middle_of_a_line_leaves_the_journal_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "journal.jsonl", os.write
    with Journal(path) as kept:
        kept.append(RECORD)
        sizes = [10, -1]

        def full(file: int, data: bytes) -> int:
            size = sizes.pop(0)
            if size < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(file, data[:size])

        with monkeypatch.context() as patch:
            patch.setattr(journal.os, "write", full)
            with pytest.raises(OSError, match="No space left"):
                kept.append(RECORD)
        assert len(kept.entries) == len(journal.read(path)) == 1
        with monkeypatch.context() as patch:
            patch.setattr(journal.os, "write", lambda file, data: real(file, data[:7]))
            kept.append(RECORD)
    assert len(journal.read(path)) == 2


def test_a_thread_that_writes_after_the_end_writes_nowhere(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.jsonl") as kept:
        kept.append(RECORD)
    another = (tmp_path / "another.txt").open("wb", buffering=0)  # it gets the number of the journal's file
    with another, pytest.raises(OSError, match="Bad file descriptor"):
        kept.append(RECORD)
    assert (tmp_path / "another.txt").read_bytes() == b""
    assert len(journal.read(tmp_path / "journal.jsonl")) == 1


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"kind": "run"}\n{"kind": \n{"kind": "class"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"journal: expected an entry in line 2 of journal\.jsonl"):
        Journal(path)
    path.write_text('[1]\n{"kind": "class"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="line 1"):
        journal.read(path)


def test_a_second_run_is_refused_while_the_first_writes(tmp_path: Path) -> None:
    path = tmp_path / "grades" / "journal.jsonl"
    with Journal(path), pytest.raises(ValueError, match=r"for this run alone, got a run that is still"):
        Journal(path)
    with Journal(path) as kept:  # the lock goes with the run
        assert kept.entries == []


def test_fields_that_a_later_version_adds_are_passed_over() -> None:
    assert journal.to_record(
        {"kind": "record", "student": "s", "exercise": "1.1", "state": "wrong", "new": 1}
    ) == Record("s", "1.1", "wrong")
