"""A run that was killed goes on where it was, and what comes out is the same to the byte."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from classes import Author, pupils, write_class
from runs import Run, end_all, results, until, verdicts

EXERCISES = ["1.1", "1.4"]
ONLY = [option for id in EXERCISES for option in ("--only", id)]


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    yield
    end_all()


def test_a_killed_run_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    """Killed while it grades: nothing is left running, nothing is graded twice, the results are the same."""
    write_class(tmp_path / "class", pupils(4, exercises=EXERCISES), Author())
    first = Run(tmp_path, "killed", *ONLY)
    until(lambda: first.records() >= 3, "the third verdict")
    assert first.kill()
    known = first.records()
    journal = first.grades / "journal.jsonl"
    journal.write_bytes(
        journal.read_bytes() + b'{"kind": "record", "stud'
    )  # the machine stopped in the middle of a line
    Run(tmp_path, "killed", "--resume", *ONLY).wait()
    Run(tmp_path, "whole", *ONLY).wait()
    assert 3 <= known < 8
    found = verdicts(first.grades)
    assert len(found) == len(set(found)) == 8
    assert results(first.grades) == results(tmp_path / "whole")


@pytest.mark.slow
def test_killed_at_twenty_random_moments_a_run_comes_to_the_same_bytes(tmp_path: Path) -> None:
    exercises = ["1.1", "1.4", "1.5", "2.2"]
    only = [option for id in exercises for option in ("--only", id)]
    write_class(tmp_path / "class", pupils(12, exercises=exercises), Author())
    started = time.monotonic()
    Run(tmp_path, "whole", "--jobs", "2", *only).wait()
    length, expected = time.monotonic() - started, results(tmp_path / "whole")
    draw, kills, turn = random.Random(231), 0, 0
    while kills < 20:
        name, resume = f"killed-{turn}", []
        while True:
            run = Run(tmp_path, name, "--jobs", "2", *resume, *only)
            resume = ["--resume"]
            if kills == 20:
                run.wait()
                break
            deadline = time.monotonic() + draw.uniform(0, length)
            while time.monotonic() < deadline and run.process.poll() is None:
                time.sleep(0.01)
            if not run.kill():
                break  # it was whole before its moment came; the next kill begins a new run
            kills += 1
        assert results(tmp_path / name) == expected
        assert len(verdicts(tmp_path / name)) == len(set(verdicts(tmp_path / name))) == 48
        turn += 1
