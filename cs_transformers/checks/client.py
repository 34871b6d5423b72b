"""The trusted side of the workers: start one, hand it a job, wait for a bounded time, believe nothing but arrays."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import scratch, wire
from .exchange import LOOP, Ending, Exchange

WORKER = Path(__file__).with_name("worker.py")
DEFINITIONS = "cs_transformers.checks.definitions"
START_SECONDS = 180.0
GRACE_SECONDS = 10.0
PATIENCE = 4  # times its limit that an answer may take by the clock while it is kept from a processor
MEMORY = 6 << 30
KEPT_OUTPUT = 20_000
TIME_IS_UP = getattr(signal, "SIGXCPU", None)
STATES = ("answered", "timeout", "memory", "crashed", "exited early", "no answer")


@dataclass(frozen=True)
class Job:
    """A check function to run on a tree.

    Args:
        tree: Folder that holds the package under test.
        module: File of check functions, ``attention``.
        check: Name of the check in it.
        seed: Seed of inputs and weights.
        seconds: Limit; time in which the machine gave it no processor does not count, up to ``PATIENCE`` times of it.
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
        detail: The signal, the exit status, or what to do about time that was up, for people.
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
        level: How a forked child is confined: one of ``confine.LEVELS``.
        hidden: Folders that a child with a root of its own must not see.
        environment: Variables of the process; default: this one's.
        prepare: Load what torch loads on first use before the first job; default: when there is a quiet moment.
    """

    def __init__(
        self,
        fork: bool | None = None,
        level: str = "",
        hidden: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
        prepare: bool = False,
    ) -> None:
        self.fork = sys.platform.startswith("linux") if fork is None else fork
        self.level, self.hidden, self.environment = level, hidden, dict(environment or os.environ)
        if prepare:
            self.environment["CST_PREPARE"] = "1"
        self._process: _Zygote | _Once | None = None
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._base = scratch.folder("root") if level else None

    def warm_up(self) -> None:
        """Start the process, so that the first check does not wait for torch to be imported."""
        with self._lock:
            self._warm()

    def run(self, job: Job) -> Answer:
        """Run a job and return what is known of its end; never raises for anything the job does.

        Several threads may run jobs at once where children are forked. A worker that dies under a job is replaced and
        the job run once more: the machine may be at fault. When it dies again, the job is.

        Args:
            job: The check to run.
        """
        with scratch.folder("scratch") as place:
            answer, alive = self._once(job, place)
            if self.fork and not alive and answer.state != "timeout":
                answer, alive = self._once(job, place)
            return answer

    def _once(self, job: Job, place: str) -> tuple[Answer, bool]:
        number = next(self._numbers)
        head = {"job": number, "tree": job.tree, "package": DEFINITIONS, "module": job.module, "scratch": place,
                "check": job.check, "seed": job.seed, "seconds": job.seconds, "memory": job.memory,
                "forbidden": list(job.forbidden)}  # fmt: skip
        request = wire.pack(head, job.arrays)
        if self.fork:
            with self._lock:
                process = self._warm()
            order = {key: head[key] for key in ("tree", "scratch", "seconds", "memory")}
            order |= {"longest": PATIENCE * job.seconds}
            order |= {"level": self.level, "hidden": list(self.hidden), "base": self._base.name if self._base else ""}
            answer, alive = process.ask(order, request)
            if not alive:
                with self._lock:
                    self._drop(process)
            return answer, alive
        with self._lock:
            # Nobody but the system watches what this one computes; it ends a loop, however long the clock is let run.
            answer, alive = self._warm().ask(number, request, job.seconds * (PATIENCE if _busy() else 1))
            self._drop(self._process)
            self._warm()
        return answer, alive

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._drop(self._process)
            if self._base is not None:
                self._base.cleanup()
                self._base = None

    def _warm(self) -> _Zygote | _Once:
        if self._process is None or not self._process.alive():
            self._drop(self._process)
            if self.level and self._base is None:
                self._base = scratch.folder("root")
            self._process = (_Zygote if self.fork else _Once)(self.environment)
        return self._process

    def _drop(self, process: _Zygote | _Once | None) -> None:
        if process is not None:
            process.close()
            if self._process is process:
                self._process = None


class _Process:
    """A worker process; a thread reads what it prints, so that no pipe fills up."""

    def __init__(self, environment: dict[str, str], *arguments: str, **options: Any) -> None:
        # A fixed, small set of threads: numbers do not depend on the machine, and forking stays safe.
        variables = {
            **environment,
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "PYTHONIOENCODING": "utf-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }
        self._popen = subprocess.Popen(
            [sys.executable, str(WORKER), *arguments],
            stderr=subprocess.PIPE,
            env=variables,
            start_new_session=os.name == "posix",  # an interrupt meant for the notebook does not reach it
            **options,
        )
        self._output = bytearray()
        self._ready = False
        self._threads = [(self._started(self._read_output), self._popen.stderr)]

    def alive(self) -> bool:
        return self._popen.poll() is None

    def close(self) -> None:
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, 9)
        with contextlib.suppress(OSError):
            self._popen.kill()
        self._popen.wait()
        for thread, stream in self._threads:
            thread.join(timeout=2)
            if not thread.is_alive():  # a process that escaped may hold the other end; then the stream stays open
                stream.close()

    def _started(self, target: Any) -> threading.Thread:
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        return thread

    def _printed(self, start: int = 0) -> str:
        time.sleep(0.02)  # the reading thread may be a moment behind
        return bytes(self._output[start:]).decode("utf-8", "replace")[:KEPT_OUTPUT]

    def _read_output(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while part := self._popen.stderr.read1(1 << 16):
                self._output += part[: max(0, 10 * KEPT_OUTPUT - len(self._output))]

    def _not_started(self) -> tuple[Answer, bool]:
        return Answer("no answer", "the worker did not start", output=self._printed()), False


class _Zygote(_Process):
    """A process that forks a supervised child per job; what is asked and answered goes past it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._exchange = Exchange()
        theirs = self._exchange.theirs
        super().__init__(
            environment, "serve", str(theirs.fileno()), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )  # fmt: skip
        theirs.close()
        self._starting = threading.Lock()

    def ask(self, order: dict[str, Any], request: bytes) -> tuple[Answer, bool]:
        """Send a job and wait; the flag says whether the process can be used again."""
        with self._starting:
            self._ready = self._ready or self._exchange.await_ready(START_SECONDS)
        if not self._ready:
            return self._not_started()
        ending = self._exchange.ask(order, request, GRACE_SECONDS)
        if ending is None:
            return Answer("no answer", "the worker is gone"), False
        if ending.refused:
            return Answer("no answer", f"the answer could not be confined: {ending.refused}"), True
        return _judged(ending), ending.reported

    def close(self) -> None:
        self._exchange.close()
        super().close()


class _Once(_Process):
    """A process for one job, for systems where forking after torch is not safe."""

    def __init__(self, environment: dict[str, str]) -> None:
        super().__init__(environment, "once", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._frames: queue.Queue[wire.Frame | None] = queue.Queue()
        self._threads.append((self._started(self._read_frames), self._popen.stdout))

    def ask(self, number: int, request: bytes, seconds: float) -> tuple[Answer, bool]:
        """Send the job and wait; the flag says whether the process can be used again, which it cannot."""
        if not self._ready:
            frame = self._next_frame(START_SECONDS)
            if not isinstance(frame, wire.Frame) or "ready" not in frame.head:
                return self._not_started()
        start = len(self._output)
        try:
            self._popen.stdin.write(request)
            self._popen.stdin.flush()
        except OSError:
            return Answer("no answer", "the worker is gone"), False
        frame = self._next_frame(seconds)
        if frame == "late":
            return Answer("timeout", LOOP, output=self._printed(start)), False
        if frame is None or frame.head.get("job") != number:
            return Answer(*self._death(), output=self._printed(start)), False
        answer = _answer(frame)
        answer.output = self._printed(start)
        return answer, False

    def close(self) -> None:
        super().close()
        with contextlib.suppress(OSError):
            self._popen.stdin.close()

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
            return ("timeout", LOOP) if -status == TIME_IS_UP else ("crashed", f"signal {-status}")
        return "exited early", f"exit status {status}"

    def _read_frames(self) -> None:
        with contextlib.suppress(wire.WireError, OSError, ValueError):
            while (frame := wire.read(self._popen.stdout)) is not None:
                self._frames.put(frame)
        self._frames.put(None)


def _busy() -> bool:
    """Whether more wants to run on this machine than it has processors."""
    with contextlib.suppress(OSError, AttributeError):
        return os.getloadavg()[0] > (os.cpu_count() or 1)
    return False


def _judged(ending: Ending) -> Answer:
    """The answer that a forked child gave, or how it ended instead."""
    answer = None
    if ending.reported and not ending.late:  # who ends the process that watches it has no answer
        with contextlib.suppress(wire.WireError):
            answer = _answer(wire.unpack(ending.answer))
    if answer is None:
        answer = Answer(*ending.state())
    answer.output, answer.incident = ending.output.decode("utf-8", "replace")[:KEPT_OUTPUT], ending.incident()
    return answer


def _answer(frame: wire.Frame) -> Answer:
    """The answer in a frame: fields of the wrong type are dropped, since students' code may have written them."""
    head = frame.head
    answer = Answer("answered", arrays=frame.arrays)
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
