"""The same class on a Dask cluster on loopback: the same gradebook, also when a worker is killed on the way."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from classes import QUICK, Author, pupils, write_class
from runs import MARK, Run, end_all, left, results, until, verdicts

from cs_transformers.grading.cluster import perform
from cs_transformers.grading.model import Person, Submission
from cs_transformers.grading.work import Task, Trouble

pytest.importorskip("distributed", reason="grading on a cluster needs the extra grade")


class Cluster:
    """A scheduler and two workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.address, self.folder = f"tcp://127.0.0.1:{port}", folder
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--memory-limit", "0",
                   "--local-directory", str(folder / "dask")]  # fmt: skip
        self.workers = [self._start("worker", self.address, *options) for _ in range(2)]

    def _start(self, *command: str) -> subprocess.Popen:
        environment = {**os.environ, MARK: f"dask-{self.folder.name}", "OMP_NUM_THREADS": "1"}
        with (self.folder / "dask.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *command], env=environment, stdout=log, stderr=log, cwd=self.folder
            )

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.send_signal(signal.SIGKILL)
            process.wait()
        until(lambda: not left(f"dask-{self.folder.name}"), "processes that a cluster leaves behind")


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    yield
    end_all()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def graded_alike(folder: Path, cluster: Cluster, count: int, exercises: list[str]) -> None:
    """Grade a class here and on the cluster, whose first worker dies when some verdicts are there."""
    only = [option for id in exercises for option in ("--only", id)]
    write_class(folder / "class", pupils(count, exercises=exercises), Author())
    run = Run(folder, "cluster", "--scheduler", cluster.address, *only)
    until(lambda: run.records() >= 2 * len(exercises) or run.process.poll() is not None, "verdicts of the cluster")
    assert run.process.poll() is None, run.process.communicate()[0]
    cluster.workers[0].send_signal(signal.SIGKILL)
    run.wait()
    Run(folder, "here", *only).wait()
    assert len(verdicts(run.grades)) == len(set(verdicts(run.grades))) == count * len(exercises)
    assert results(run.grades) == results(folder / "here")


def test_a_cluster_gives_the_same_gradebook_though_a_worker_is_killed(tmp_path: Path, cluster: Cluster) -> None:
    graded_alike(tmp_path, cluster, 6, ["1.1", "1.4"])


@pytest.mark.slow
def test_sixty_submissions_on_a_cluster_give_the_same_gradebook(tmp_path: Path, cluster: Cluster) -> None:
    graded_alike(tmp_path, cluster, 60, QUICK[:8])


def test_a_worker_with_another_course_refuses_its_task() -> None:
    submission = Submission(Person("s1"), 1, "s1.zip", "d", Author().solved)
    task = Task(submission, ("1.1",), (), ("1.1",))
    reason = "this worker has another version of the course, torch or numpy than the run; install the same"
    assert perform(task, b"key", "another digest", False) == [Trouble("s1", "all", reason)]
