"""The process in which students' code runs: imports torch and numpy, then one child (or one process) per job.

Started by exec as a plain script, so that it holds nothing of the trusted process: no reference, no open file, no
thread. ``serve FD`` takes jobs from a socket and forks for each a supervisor, which forks the child that runs the
answer. Requests and answers go past this process, over descriptors that came with the job: what one answer was asked
and what it said is never in the memory that the next one is forked from. ``once`` does one job itself and ends, for
systems where forking after torch is not safe. A job names a tree, a check function in it and a seed; the answer is a
frame of arrays (see ``wire.py``).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

IDLE_SECONDS = 0.3
JOBS_BEFORE_PREPARING = 2
LOOK_SECONDS, SOON_SECONDS = 0.1, 0.01
GRACE_SECONDS = 0.3
MESSAGE = 1 << 16


def _load(name: str):
    """A file beside this one as a module, without the package around it."""
    spec = importlib.util.spec_from_file_location(f"cst_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


wire = _load("wire")
confine = _load("confine") if os.name == "posix" else None


def main(mode: str, descriptor: int = -1) -> None:
    """Serve jobs until the socket ends (``serve``) or do a single one from stdin (``once``).

    Args:
        mode: ``serve`` or ``once``.
        descriptor: The socket to serve.
    """
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent]
    # An editable installation would let an answer import the trusted side of the course.
    sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in _home(finder)]
    answers = os.dup(1)
    os.dup2(2, 1)  # what anything prints from here on is not an answer
    import numpy  # noqa: F401
    import torch

    torch.set_num_threads(1)
    if mode == "serve":
        _serve(socket.socket(fileno=descriptor))
        return
    _write_all(answers, wire.pack({"ready": os.getpid()}, {}))
    if _idle(0):
        _prepare()
    job = wire.read(sys.stdin.buffer)
    if job is not None:
        if confine is not None:
            confine.limit(float(job.head["seconds"]), int(job.head["memory"]), "")
        _write_all(answers, _perform(job, job.head["tree"], job.head["scratch"]))
        os._exit(0)


def _home(finder: object) -> str:
    return str(getattr(finder, "__module__", "")) + str(getattr(finder, "__name__", ""))


def _idle(descriptor: int) -> bool:
    """Whether no job arrives for a moment."""
    return os.name != "posix" or not select.select([descriptor], [], [], IDLE_SECONDS)[0]


def _prepare() -> None:
    """Load some 900 modules that torch loads on first use."""
    import torch

    torch.ones(1, 1, device="meta").tril()


def _perform(job, tree: str, scratch: str) -> bytes:
    """Run a job's check function in this process and pack its answer."""
    head = job.head
    os.chdir(scratch)
    sys.path.insert(0, tree)
    probes = importlib.import_module(head["package"] + ".probe")
    probe = probes.Probe(head["seed"], job.arrays, tree)
    with probe.part("import"):
        probe.prepare(head["forbidden"])
        importlib.import_module(f"{head['package']}.{head['module']}")
    if not probe.errors:
        with probe.part("call"):
            probes.CHECKS[head["check"]](probe)
    answer, arrays = probe.answer()
    return wire.pack({"job": head["job"], "state": "answered", **answer}, arrays)


def _serve(control: socket.socket) -> None:
    """Fork a supervisor for every job that arrives, until the other end is closed."""
    confine.become_subreaper()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    jobs, supervisors, prepared = 0, set(), bool(os.environ.pop("CST_PREPARE", ""))
    if prepared:
        _prepare()
    control.send(json.dumps({"ready": os.getpid()}).encode())
    while True:
        if not prepared and (jobs >= JOBS_BEFORE_PREPARING or _idle(control.fileno())):
            _prepare()
            prepared = True
        ready = select.select([control, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            supervisors -= _reaped(supervisors)
        if control not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, MESSAGE, 8)
        if not message:
            return
        child = os.fork()
        if child == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _supervise(json.loads(message), descriptors)  # never returns
        for descriptor in descriptors:
            os.close(descriptor)
        supervisors.add(child)
        jobs += 1


def _reaped(supervisors: set[int]) -> set[int]:
    """Take note of ended children; what no supervisor is lost its own, and is ended."""
    ended = set()
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            ended.add(pid)
    if not ended <= supervisors or _children() - supervisors:
        for pid in _children() - supervisors:
            _kill(pid)
    return ended


def _children() -> set[int]:
    with contextlib.suppress(OSError, ValueError):
        return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}
    return set()


def _supervise(head: dict, descriptors: list[int]) -> None:
    """Fork the child that runs the answer, watch it, end it with all it started, report."""
    request, answer, output, line = descriptors
    level = head["level"]
    report = {"status": None, "late": False, "busy": False, "over": "", "left": 0, "cpu": 0.0,
              "refused": ""}  # fmt: skip
    try:
        os.write(line, b"\n")  # the job is taken: its time begins
        os.setsid()
        confine.become_subreaper()
        confine.die_with_parent()
        user = confine.own_user() if confine.has_own_user(level) else None
        if confine.has_namespaces(level):
            confine.leave_namespaces(level)
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            _child(head, (request, answer, output, tell), user)  # never returns
        for descriptor in (request, answer, output, tell):
            os.close(descriptor)
        report["refused"] = _line_of(told)
        _watch(child, head, line, report)
        inner = confine.has_namespaces(level)
        below = confine.descendants(child) if inner else confine.descendants(os.getpid())
        report["left"] = max(0, len(below) - 1)
        _end(child, level, user, report)
        if inner and (ended := _line_of(told)):
            report["status"], report["left"] = map(int, ended.split())
    except OSError as error:
        report["refused"] = str(error)
    with contextlib.suppress(OSError):
        os.write(line, json.dumps(report).encode())
    os._exit(0)


def _line_of(descriptor: int) -> str:
    """The next line that a child tells, or nothing at its end."""
    said = b""
    while not said.endswith(b"\n") and (part := os.read(descriptor, 1)):
        said += part
    return said.decode("utf-8", "replace").strip()


def _child(head: dict, descriptors: tuple[int, ...], user: int | None) -> None:
    try:
        request, answer, output, tell = descriptors
        level, tree, scratch = head["level"], head["tree"], head["scratch"]
        os.setsid()
        confine.die_with_parent()
        with os.fdopen(os.dup(request), "rb") as stream:
            stream.seek(0)
            job = wire.read(stream)
        _keep(os.open(os.devnull, os.O_RDONLY), output, output, answer, tell)
        try:
            _confine(head, user)
        except OSError as error:
            os.write(4, f"{error}\n".encode())
            os._exit(0)
        os.write(4, b"\n")
        if confine.has_namespaces(level):
            tree, scratch = confine.TREE, confine.SCRATCH
            _first_of_its_world()
        os.close(4)
        os.environ.update(HOME=scratch, TMPDIR=scratch, USER="student", LOGNAME="student")
        tempfile.tempdir = None
        _write_all(3, _perform(job, tree, scratch))
        sys.stdout.flush()
    except BaseException as error:  # the judge sees an answer that never came, and this line
        print(f"{type(error).__name__}: {error}", flush=True)
    finally:
        os._exit(0)


def _keep(*descriptors: int) -> None:
    """Keep these descriptors as 0, 1, 2 ... and close all others."""
    import fcntl

    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 64) for descriptor in descriptors]
    for place, descriptor in enumerate(high):
        os.dup2(descriptor, place)
    os.closerange(len(high), 4096)


def _first_of_its_world() -> None:
    """Fork once more and return in the child; the first process of a namespace cannot be ended from within it.

    It waits for the child and tells how that ended; when it ends itself, the system ends all that is left.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.setsid()
        return
    try:
        confine.guard_memory()
        for descriptor in (1, 2, 3):
            os.close(descriptor)
        pid, status = 0, 0
        while pid != child:
            pid, status = os.waitpid(-1, 0)
        os.write(4, f"{status} {len(confine.descendants(os.getpid()))}\n".encode())
    finally:
        os._exit(0)


def _confine(head: dict, user: int | None) -> None:
    level = head["level"]
    confine.limit(float(head["seconds"]), int(head["memory"]), level)
    if confine.has_namespaces(level):
        confine.enter_root(head["base"], head["tree"], head["hidden"], confine.INSIDE if user is None else user)
    elif user is not None:
        os.chown(head["scratch"], user, user)
    if level not in ("", "processes"):
        confine.become(user)
        confine.die_with_parent()  # forgotten with the user


def _watch(child: int, head: dict, line: int, report: dict) -> None:
    """Wait until the child has ended, time or memory is up, or nobody waits for the answer any more."""
    # Address space is cheap; of memory in use, all processes together may have half as much.
    begun, memory = time.monotonic(), int(head["memory"]) // 2
    deadline = begun + float(head["seconds"])
    start, ended_by_judge, look = confine.own_memory(os.getpid()), False, SOON_SECONDS
    events = select.poll()
    events.register(line, select.POLLIN)
    with contextlib.suppress(OSError, AttributeError):
        events.register(os.pidfd_open(child), select.POLLIN)
        look = LOOK_SECONDS
    while True:
        left = deadline - time.monotonic()
        ready = {descriptor for descriptor, _ in events.poll(1000 * max(0.0, min(left, look)))}
        if line in ready:  # the answer is there: a moment for a quiet end
            deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
            events.unregister(line)
            line, ended_by_judge = -1, True
        if _has_ended(child) or (left <= 0 and ended_by_judge):
            return
        below = (child, *confine.descendants(child))
        if left <= 0:
            passed = time.monotonic() - begun
            left = _left(below, passed, head)
            deadline = time.monotonic() + left
        if left <= 0:
            report["late"], report["busy"] = True, _left(below, passed, {**head, "longest": float("inf")}) > 0
            return
        if sum(max(0, confine.own_memory(pid) - start) for pid in below) > memory:
            report["over"] = "memory"
            return


def _left(below: tuple[int, ...], passed: float, head: dict) -> float:
    """Seconds that an answer still has when its limit has passed by the clock."""
    seconds, longest = float(head["seconds"]), float(head["longest"])
    return confine.time_left(seconds, longest, passed, sum(map(confine.computed, below)),
                             max(map(confine.waited, below)))  # fmt: skip


def _has_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(child: int, level: str, user: int | None, report: dict) -> None:
    """End the child and everything it started, and note how it ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if not _has_ended(child):
            os.killpg(child, signal.SIGKILL)
    _kill(child)
    _, report["status"], usage = os.wait4(child, 0)
    report["cpu"] = usage.ru_utime + usage.ru_stime
    if confine.has_namespaces(level):
        return  # whatever lived in its world ended with it
    if user is not None:
        confine.end_all_of(user)
    for _ in range(1000):
        below = confine.descendants(os.getpid())
        for pid in below:
            _kill(pid)
        try:
            os.waitpid(-1, 0 if below else os.WNOHANG)
        except ChildProcessError:
            return
        if not below:
            return


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
