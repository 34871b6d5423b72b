"""The process in which students' code runs: imports torch and numpy, then one child (or one process) per job.

Started by exec as a plain script, so that it holds nothing of the trusted process: no reference, no open file, no
thread. Modes: ``serve`` reads jobs from stdin and forks a child for each; ``once`` does one job itself and ends, for
systems where forking after torch is not safe. A job names a tree, a check function in it and a seed; the answer is a
frame of arrays (see ``wire.py``). The child is its own session: whatever it started dies with it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import select
import signal
import sys
import time
from pathlib import Path

OUTPUT_LIMIT = 20_000
IDLE_SECONDS = 0.3
JOBS_BEFORE_PREPARING = 2


def _load_wire():
    spec = importlib.util.spec_from_file_location("cst_wire", Path(__file__).with_name("wire.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules["cst_wire"] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


wire = _load_wire()


def main(mode: str) -> None:
    """Serve jobs until stdin ends (``serve``) or do a single one (``once``).

    Args:
        mode: ``serve`` or ``once``.
    """
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent]
    answers = os.dup(1)
    os.dup2(2, 1)  # what anything prints from here on is not an answer
    import numpy  # noqa: F401
    import torch

    torch.set_num_threads(1)
    if mode == "serve":
        _become_subreaper()
    _write_all(answers, wire.pack({"ready": os.getpid()}, {}))
    jobs, prepared = 0, False
    while True:
        if not prepared and (jobs >= JOBS_BEFORE_PREPARING or _idle()):
            torch.ones(1, 1, device="meta").tril()  # loads some 900 modules that torch loads on first use
            prepared = True
        job = wire.read(sys.stdin.buffer)
        if job is None:
            return
        if mode == "once":
            with contextlib.suppress(ImportError):
                _limit(job.head)
            _write_all(answers, _perform(job))
            os._exit(0)
        _write_all(answers, _forked(job))
        jobs += 1


def _idle() -> bool:
    """Whether no job arrives for a moment."""
    return os.name != "posix" or not select.select([0], [], [], IDLE_SECONDS)[0]


def _perform(job) -> bytes:
    """Run a job's check function in this process and pack its answer."""
    head = job.head
    os.chdir(head["scratch"])
    sys.path.insert(0, head["tree"])
    probes = importlib.import_module(head["package"] + ".probe")
    probe = probes.Probe(head["seed"], job.arrays, head["tree"])
    with probe.part("import"):
        probe.prepare(head["forbidden"])
        importlib.import_module(f"{head['package']}.{head['module']}")
    if not probe.errors:
        with probe.part("call"):
            probes.CHECKS[head["check"]](probe)
    answer, arrays = probe.answer()
    return wire.pack({"job": head["job"], "state": "answered", **answer}, arrays)


def _forked(job) -> bytes:
    """Run a job in a child of its own, within its limits; what comes back is a frame in any case."""
    seconds = float(job.head["seconds"])
    answer_end, answer_in = os.pipe()
    output_end, output_in = os.pipe()
    child = os.fork()
    if child == 0:
        _child(job, answer_in, output_in)  # never returns
    os.close(answer_in)
    os.close(output_in)
    data, output, late = _collect(answer_end, output_end, time.monotonic() + seconds)
    _kill_group(child)
    _, status = os.waitpid(child, 0)
    _sweep()
    return _verified(job.head["job"], data, output, late, status)


def _child(job, answer: int, output: int) -> None:
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(answer, 3)
        os.closerange(4, 4096)
        _limit(job.head)
        _write_all(3, _perform(job))
        sys.stdout.flush()
    except BaseException as error:  # the parent sees an answer that never came, and this line
        print(f"{type(error).__name__}: {error}", flush=True)
    finally:
        os._exit(0)


def _collect(answer_end: int, output_end: int, deadline: float) -> tuple[bytes, bytes, bool]:
    """Read both pipes of a child until the answer is whole or time is up; output beyond its limit is dropped."""
    answer, output, late = bytearray(), bytearray(), False
    waiting = {answer_end: answer, output_end: output}
    limit = wire.HEAD_LIMIT + wire.DATA_LIMIT
    while answer_end in waiting:
        left = deadline - time.monotonic()
        ready = select.select(list(waiting), [], [], max(left, 0))[0]
        if not ready:
            late = True
            break
        for end in ready:
            part = os.read(end, 1 << 16)
            if not part:
                del waiting[end]
            elif end == answer_end:
                answer += part
            elif len(output) < OUTPUT_LIMIT:
                output += part[: OUTPUT_LIMIT - len(output)]
        if len(answer) > limit or time.monotonic() > deadline:
            late = time.monotonic() > deadline
            break
    while output_end in waiting and select.select([output_end], [], [], 0)[0] and len(output) < OUTPUT_LIMIT:
        part = os.read(output_end, OUTPUT_LIMIT - len(output))
        if not part:
            break
        output += part
    os.close(answer_end)
    os.close(output_end)
    return bytes(answer), bytes(output), late


def _verified(number: int, data: bytes, output: bytes, late: bool, status: int) -> bytes:
    """The child's frame with its output added, or a frame that says how the child ended instead."""
    text = output.decode("utf-8", "replace")
    if not late:
        with contextlib.suppress(wire.WireError):
            frame = wire.unpack(data)
            return wire.pack({**frame.head, "job": number, "state": "answered", "output": text}, frame.arrays)
    if late:
        state, detail = "timeout", ""
    elif os.WIFSIGNALED(status):
        number_of_signal = os.WTERMSIG(status)
        cpu = getattr(signal, "SIGXCPU", None)
        state = "timeout" if number_of_signal == cpu else "crashed"
        detail = signal.Signals(number_of_signal).name
    elif data:
        state, detail = "no answer", "what came back is no answer of a check"
    else:
        state, detail = "exited early", f"exit status {os.WEXITSTATUS(status)}"
    return wire.pack({"job": number, "state": state, "detail": detail, "output": text}, {})


def _limit(head: dict) -> None:
    """Bound what the child may take: CPU seconds, address space beyond today's, file size, no core files."""
    import resource

    seconds = int(float(head["seconds"])) + 2
    wanted = {resource.RLIMIT_CORE: 0, resource.RLIMIT_CPU: seconds, resource.RLIMIT_FSIZE: 64 << 20}
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        wanted[resource.RLIMIT_AS] = pages * resource.getpagesize() + int(head["memory"])
    for limit, value in wanted.items():
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (value, value))


def _kill_group(child: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)


def _become_subreaper() -> None:
    """Inherit orphans of the children, so that a process that left its group is found and ended too (Linux)."""
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _sweep() -> None:
    """End and reap everything that is still a child of this process."""
    for _ in range(1000):
        listed = []
        with contextlib.suppress(OSError, ValueError):
            listed = [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
        for pid in listed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0 if listed else os.WNOHANG)
        except ChildProcessError:
            return
        if not listed:
            return


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    main(sys.argv[1])
