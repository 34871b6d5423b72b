"""Speed and memory of grading a class: against one fresh process per exercise, and against plain nbval."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from benchmarks.records import HERE, Record, record
from cs_transformers.checks.client import Answer, Job, Worker
from cs_transformers.grading import run as grading
from cs_transformers.grading.intake import take_in
from cs_transformers.grading.judging import Judge
from cs_transformers.grading.model import Submission
from cs_transformers.grading.nbval_stage import NotebookStage

CLASS, PEERS = 300, 5  # submissions of the class, and those that the slow ways are measured on
QUICK_CLASS, QUICK_PEERS, QUICK_EXERCISES = 2, 1, ["2.1"]
KEY = b"benchmark"


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Grade a generated class without nbval, then some of it in the two ways that comparable graders go.

    Per submission the ways are compared on the same submissions, one after the other, each on one core's worth of
    work; the class itself is graded with one job per core.

    Args:
        quick: A handful of submissions and two exercises, to show that it works.
        seeds: Seeds of the class; the first one is used.

    Returns:
        Submissions a minute, peak memory, and seconds per submission beside those of each peer.
    """
    classes = _class_maker()
    exercises = QUICK_EXERCISES if quick else classes.QUICK
    count, peers = (QUICK_CLASS, QUICK_PEERS) if quick else (CLASS, PEERS)
    seeds = list(seeds)[:1]
    with tempfile.TemporaryDirectory(prefix="cst-bench-") as folder:
        root = Path(folder)
        people = classes.pupils(count, seed=seeds[0], exercises=exercises)
        classes.write_class(root / "class", people)
        seconds, peak = _class_graded(root, exercises)
        some = list({one.person.id: one for one in take_in(root / "class", root / "again")}.values())[:peers]
        checks, notebooks = partial(_checks, exercises), partial(_plain_nbval, exercises)
        ours = _each(some, checks, Judge(key=KEY))
        fresh = _each(some, checks, Judge(key=KEY, sandbox=_FreshProcesses()), warm=not quick)
        nbval = _each(some, notebooks, Judge(key=KEY), warm=False)
    found = [
        record("grading", "grading/submissions_a_minute", [60 * count / seconds], "submissions/min", seeds=seeds),
        record("grading", "grading/peak_memory", [peak / 2**20], "MB", seeds=seeds),
    ]
    for name, peer in (("a_fresh_process_per_exercise", fresh), ("plain_nbval", nbval)):
        mean = sum(peer) / len(peer)
        found.append(record("grading", f"grading/seconds_against_{name}", ours, "s", seeds=seeds, peer=mean))
    return found


def _class_maker() -> ModuleType:
    """The generated class of the tests."""
    path = HERE.parent / "tests" / "grading" / "classes.py"
    spec = importlib.util.spec_from_file_location("classes", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["classes"] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


def _class_graded(root: Path, exercises: list[str]) -> tuple[float, float]:
    """Seconds to grade the whole class, take-in and results included, and the most memory used meanwhile."""
    with _Memory() as memory:
        started = time.perf_counter()
        classroom = grading.grade(
            root / "class", root / "grades", roster=root / "class.csv", only=exercises, nbval=False,
            jobs=os.cpu_count() or 1,
        )  # fmt: skip
        seconds = time.perf_counter() - started
    if classroom.ungraded:
        raise RuntimeError(f"could not be graded: {classroom.ungraded}")
    return seconds, memory.peak


def _each(submissions: list[Submission], way: Callable[..., None], judge: Judge, *, warm: bool = True) -> list[float]:
    """Seconds of each submission; what is only done once in a run is done before."""
    seconds = []
    with judge:
        for one in [*submissions[:1] * warm, *submissions]:
            started = time.perf_counter()
            way(judge, one)
            seconds.append(time.perf_counter() - started)
    return seconds[warm:]


class _FreshProcesses:
    """In place of the sandbox: every job imports torch in a process of its own."""

    tier = "fresh process"

    def run(self, job: Job) -> Answer:
        worker = Worker(fork=False)
        try:
            return worker.run(job)
        finally:
            worker.close()

    def isolates(self, _what: str) -> bool:
        return False

    def close(self) -> None:
        """Nothing stays."""


def _checks(exercises: list[str], judge: Judge, submission: Submission) -> None:
    for id in exercises:
        judge.grade(submission, id)


def _plain_nbval(exercises: list[str], judge: Judge, submission: Submission) -> None:
    """The notebooks of these exercises on the submission's tree; what trains is left out here too."""
    stage = NotebookStage(judge)
    stage.run(submission, exercises, stage.wanted(exercises, exercises))


class _Memory:
    """The most memory that this process and those it started hold at once: shared pages count once (Linux)."""

    def __init__(self) -> None:
        self.peak, self._over = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self.peak = max(self.peak, sum(_proportional(pid) for pid in _family(os.getpid())))


def _family(pid: int) -> list[int]:
    found = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [one for child in path.read_text(encoding="ascii").split() for one in _family(int(child))]
        except OSError:
            continue
    return found


def _proportional(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return sum(1024.0 * int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
