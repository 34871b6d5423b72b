"""Grading on more than one machine: each submission is a task of a Dask cluster, and is still run in the sandbox.

The workers need the same course and the same versions; one that differs refuses its tasks. A worker that dies costs
the tasks it held, and another one does them.
"""

from __future__ import annotations

import atexit
import pickle
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from cs_transformers.errors import explain

from .judging import Judge
from .remote import perform_packed
from .sandbox import Sandbox
from .work import Result, Task, Trouble, Workshop, without_files

CONNECT_SECONDS = 30
_idle: dict[tuple[bytes, bool], list[Workshop]] = {}
_lock = threading.Lock()


def grade_on_cluster(
    address: str,
    tasks: Iterable[Task],
    judge: Judge,
    *,
    require: bool,
    done: Callable[[Result], None],
    finished: Callable[[Task], None],
) -> None:
    """Let a cluster do tasks.

    Args:
        address: Of the scheduler, ``tcp://10.0.0.1:8786``.
        tasks: What is to be done.
        judge: The judge of this machine: its key goes along, and the workers must equal it.
        require: Whether workers must isolate.
        done: Called with each result as it comes.
        finished: Called with each task when it is done.

    Raises:
        ValueError: If no scheduler answers there.
        ModuleNotFoundError: If Dask is not installed.
    """
    distributed = _distributed()
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        want = "the address of a Dask scheduler, such as tcp://10.0.0.1:8786"
        got = f"{address}, where none answers ({type(error).__name__})"
        raise ValueError(explain("cst grade", "--scheduler", want, got, "start one with `dask scheduler`")) from None
    with client:
        futures = {
            client.submit(perform_packed, packed(task), judge.key, judge.grader_digest, require, pure=False): task
            for task in tasks
        }
        for future in distributed.as_completed(list(futures)):
            task = futures[future]
            try:
                results = pickle.loads(future.result())
            except Exception as error:  # the task's own results never raise; this is the cluster
                results = [Trouble(task.submission.person.id, "all", f"{type(error).__name__}: {error}")]
            for result in results:
                done(result)
            finished(task)
            future.release()


def packed(task: Task) -> bytes:
    """A task as it travels.

    Args:
        task: The task.
    """
    return pickle.dumps(replace(task, submission=without_files(task.submission)))


def perform(task: Task, key: bytes, grader: str, require: bool) -> list[Result]:
    """What a worker does with a task.

    Args:
        task: What is to be done.
        key: The run's key.
        grader: Digest of the grader that the run was begun with.
        require: Whether this machine must isolate.
    """
    place = (key, require)
    with _lock:
        waiting = _idle.setdefault(place, [])
        workshop = waiting.pop() if waiting else None
        others = [_idle.pop(other) for other in list(_idle) if other != place]
    for old in (one for idle in others for one in idle):  # of a run that is over
        old.close()
    if workshop is None:
        workshop = Workshop(lambda: Judge(key=key, sandbox=Sandbox(require=require)))
        atexit.register(workshop.close)
    if workshop.judge.grader_digest != grader:
        workshop.close()
        reason = "this worker has another version of the course, torch or numpy than the run; install the same"
        return [Trouble(task.submission.person.id, "all", reason)]
    results: list[Result] = []
    workshop.perform(task, results.append)
    with _lock:
        _idle[place].append(workshop)
    return results


def _distributed() -> Any:
    try:
        import distributed
    except ModuleNotFoundError:
        want, got = "Dask for --scheduler", "no module distributed"
        raise ModuleNotFoundError(
            explain("cst grade", "environment", want, got, "pip install 'cs_transformers[grade]'")
        ) from None
    return distributed
