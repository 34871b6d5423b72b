"""The trusted side of the workers: start one, hand it a job, wait for a bounded time, believe nothing but arrays."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import wire

WORKER = Path(__file__).with_name("worker.py")
DEFINITIONS = "cs_transformers.checks.definitions"
START_SECONDS = 180.0
GRACE_SECONDS = 10.0
MEMORY = 6 << 30
KEPT_OUTPUT = 20_000
STATES = ("answered", "timeout", "memory", "crashed", "exited early", "no answer")


@dataclass(frozen=True)
class Job:
    """A check function to run on a tree.

    Args:
        tree: Folder that holds the package under test.
        module: File of check functions, ``attention``.
        check: Name of the check in it.
        seed: Seed of inputs and weights.
        seconds: Wall-clock limit.
        forbidden: Dotted names of torch that raise when they are called.
        arrays: Arrays handed to the function.
        memory: Bytes of address space the child may add to the worker's own.
    """

    tree: str
    module: str
    check: str
    seed: int
    seconds: float = 20.0
    forbidden: tuple[str, ...] = ()
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    memory: int = MEMORY


@dataclass
class Answer:
    """What a job gave: its state and, when answered, what the check recorded.

    Args:
        state: ``answered``, ``timeout``, ``memory``, ``crashed``, ``exited early`` or ``no answer``.
        detail: The signal or exit status, for people.
        arrays: Recorded arrays by ``part/name``.
        kinds: What each recorded value was (``float64 tensor``), by the same names.
        texts: Recorded texts by the same names.
        errors: Exceptions by part: ``part, type, bases, message, file, line``.
        output: The beginning of what the code printed.
        incident: What had to be ended or refused on the way, for people; empty for a quiet run.
    """

    state: str
    detail: str = ""
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)
    output: str = ""
    incident: str = ""


class Worker:
    """One warm worker process; a job that kills it costs one job and a restart.

    Args:
        fork: Fork a child per job in a long-lived process. Default: on Linux, where that is safe after importing
            torch. Otherwise each job takes a process of its own, and the next one warms up meanwhile.
    """

    def __init__(self, fork: bool | None = None) -> None:
        self.fork = sys.platform.startswith("linux") if fork is None else fork
        self._process: _Process | None = None
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def warm_up(self) -> None:
        """Start the process, so that the first check does not wait for torch to be imported."""
        if self._process is None or not self._process.alive():
            self._process = _Process("serve" if self.fork else "once")

    def run(self, job: Job) -> Answer:
        """Run a job and return what is known of its end; never raises for anything the job does.

        A worker that dies under a job is replaced and the job run once more: the machine may be at fault. When it dies
        again, the job is.

        Args:
            job: The check to run.
        """
        with self._lock, tempfile.TemporaryDirectory(prefix="cst-scratch-", ignore_cleanup_errors=True) as scratch:
            answer, alive = self._once(job, scratch)
            if self.fork and not alive and answer.state != "timeout":
                answer, alive = self._once(job, scratch)
            return answer

    def _once(self, job: Job, scratch: str) -> tuple[Answer, bool]:
        number = next(self._numbers)
        head = {"job": number, "tree": job.tree, "package": DEFINITIONS, "module": job.module, "scratch": scratch,
                "check": job.check, "seed": job.seed, "seconds": job.seconds, "memory": job.memory,
                "forbidden": list(job.forbidden)}  # fmt: skip
        self.warm_up()
        answer, alive = self._process.ask(number, wire.pack(head, job.arrays), job.seconds, forked=self.fork)
        if not (alive and self.fork):
            self.close()
        if not self.fork:
            self.warm_up()
        return answer, alive

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None


class _Process:
    """A worker process with its pipes; threads read them, so that waiting is bounded on every system."""

    def __init__(self, mode: str) -> None:
        # A fixed, small set of threads: numbers do not depend on the machine, and forking stays safe.
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "PYTHONIOENCODING": "utf-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }
        self._popen = subprocess.Popen(
            [sys.executable, str(WORKER), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=os.name == "posix",  # an interrupt meant for the notebook does not reach it
        )
        self._frames: queue.Queue[wire.Frame | None] = queue.Queue()
        self._output = bytearray()
        self._ready = False
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._read_frames, self._read_output)
        ]
        for thread in self._threads:
            thread.start()

    def alive(self) -> bool:
        return self._popen.poll() is None

    def ask(self, number: int, request: bytes, seconds: float, *, forked: bool) -> tuple[Answer, bool]:
        """Send a job and wait; the flag says whether the process can be used again."""
        if not self._await_ready():
            return Answer("no answer", "the worker did not start", output=self._printed()), False
        start = len(self._output)
        try:
            self._popen.stdin.write(request)
            self._popen.stdin.flush()
        except OSError:
            return Answer("no answer", "the worker is gone"), False
        frame = self._next_frame(seconds + (GRACE_SECONDS if forked else 0.0))
        if frame == "late":
            return Answer("timeout", output=self._printed(start)), False
        if frame is None or frame.head.get("job") != number:
            return Answer(*self._death(), output=self._printed(start)), False
        answer = _answer(frame)
        answer.output = answer.output or self._printed(start)
        return answer, True

    def close(self) -> None:
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, 9)
        with contextlib.suppress(OSError):
            self._popen.kill()
        self._popen.wait()
        with contextlib.suppress(OSError):
            self._popen.stdin.close()
        for thread, stream in zip(self._threads, (self._popen.stdout, self._popen.stderr), strict=True):
            thread.join(timeout=2)
            if not thread.is_alive():  # a process that escaped may hold the other end; then the stream stays open
                stream.close()

    def _await_ready(self) -> bool:
        if not self._ready:
            frame = self._next_frame(START_SECONDS)
            self._ready = isinstance(frame, wire.Frame) and "ready" in frame.head
        return self._ready

    def _next_frame(self, seconds: float) -> wire.Frame | str | None:
        try:
            return self._frames.get(timeout=seconds)
        except queue.Empty:
            return "late"

    def _death(self) -> tuple[str, str]:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout=2)
        status = self._popen.poll()
        if status is None:
            return "no answer", "what came back is no answer of a check"
        if status < 0:
            return "crashed", f"signal {-status}"
        return "exited early", f"exit status {status}"

    def _printed(self, start: int = 0) -> str:
        time.sleep(0.02)  # the reading thread may be a moment behind
        return bytes(self._output[start:]).decode("utf-8", "replace")[:KEPT_OUTPUT]

    def _read_frames(self) -> None:
        with contextlib.suppress(wire.WireError, OSError, ValueError):
            while (frame := wire.read(self._popen.stdout)) is not None:
                self._frames.put(frame)
        self._frames.put(None)

    def _read_output(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while part := self._popen.stderr.read1(1 << 16):
                self._output += part[: max(0, 10 * KEPT_OUTPUT - len(self._output))]


def _answer(frame: wire.Frame) -> Answer:
    """The answer in a frame: fields of the wrong type are dropped, since students' code may have written them."""
    head = frame.head
    state = head.get("state") if head.get("state") in STATES else "no answer"
    answer = Answer(state, _text(head.get("detail")), frame.arrays, output=_text(head.get("output")))
    answer.kinds, answer.texts = _texts(head.get("kinds")), _texts(head.get("texts"))
    for entry in head.get("errors") if isinstance(head.get("errors"), list) else []:
        if isinstance(entry, dict):
            error: dict[str, Any] = {key: _text(entry.get(key)) for key in ("part", "type", "message", "file")}
            error["line"] = entry["line"] if type(entry.get("line")) is int else 0
            bases = entry.get("bases")
            error["bases"] = [_text(base) for base in bases] if isinstance(bases, list) else []
            answer.errors.append(error)
    return answer


def _text(value: Any) -> str:
    return value[:KEPT_OUTPUT] if isinstance(value, str) else ""


def _texts(value: Any) -> dict[str, str]:
    return {key: _text(text) for key, text in value.items()} if isinstance(value, dict) else {}


_shared: Worker | None = None


def shared_worker() -> Worker:
    """The one worker of this process, made on first use and ended with the process."""
    global _shared
    if _shared is None:
        _shared = Worker()
        atexit.register(_shared.close)
    return _shared
