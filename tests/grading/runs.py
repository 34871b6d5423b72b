"""`cst grade` as a process of its own: begun, killed, resumed, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

MARK = "CST_TEST_RUN"
PATIENCE = 900  # seconds until a step counts as stuck, on a machine that does other things
RESULTS = ("gradebook.csv", "gradebook_canvas.csv", "gradebook_moodle.csv", "report.html", "results/*.json")


begun: list[Run] = []


def end_all() -> None:
    """End what a failed test has left running."""
    while begun:
        run = begun.pop()
        run.process.kill()
        run.process.stdout.close()
        run.process.wait()


class Run:
    """A running `cst grade`.

    Args:
        folder: Folder with ``class`` and ``class.csv``; the grades go beside them.
        grades: Name of the folder of grades.
        *options: Further options.
    """

    def __init__(self, folder: Path, grades: str, *options: str) -> None:
        self.grades, self.mark = folder / grades, uuid.uuid4().hex
        command = [sys.executable, "-m", "cs_transformers", "grade", str(folder / "class"), "-o", str(self.grades)]
        command += ["--roster", str(folder / "class.csv"), "--no-nbval", *options]
        environment = {**os.environ, MARK: self.mark, "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder
        )
        begun.append(self)

    def wait(self) -> str:
        """Wait for its end; it must have been a good one."""
        output = self.process.communicate(timeout=PATIENCE * 4)[0]
        assert self.process.returncode == 0, output
        return output

    def kill(self) -> bool:
        """Kill it without warning, and everything must end with it; says whether it was still running."""
        was_running = self.process.poll() is None
        self.process.send_signal(signal.SIGKILL)
        self.process.stdout.close()
        self.process.wait()
        until(lambda: not left(self.mark), "processes that a killed run leaves behind")
        return was_running

    def records(self) -> int:
        """How many verdicts are in the journal."""
        return count_records(self.grades)


def count_records(grades: Path) -> int:
    """How many verdicts are in a folder's journal."""
    path = grades / "journal.jsonl"
    return path.read_bytes().count(b'{"kind": "record"') if path.is_file() else 0


def verdicts(grades: Path) -> list[tuple[str, str]]:
    """Student and exercise of every verdict in a journal, in order."""
    found = []
    for line in (grades / "journal.jsonl").read_bytes().splitlines():
        entry = json.loads(line)
        if entry["kind"] == "record":
            found.append((entry["student"], entry["exercise"]))
    return found


def left(mark: str) -> list[int]:
    """Processes that bear the mark of a run in their environment."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def until(holds, what: str) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.05)


def results(grades: Path) -> dict[str, bytes]:
    """Every result that must not depend on how often a run was interrupted."""
    paths = sorted(path for pattern in RESULTS for path in grades.glob(pattern))
    assert len(paths) > 4
    return {path.relative_to(grades).as_posix(): path.read_bytes() for path in paths}
