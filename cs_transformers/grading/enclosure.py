"""Where notebooks run: bubblewrap where it is present, else a process group with limits.

Inside, the loopback interface is up (kernels talk over it) and nothing else can be reached; the file system is the
interpreter, the system's libraries and one folder. When the command ends, everything it started ends.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

MEMORY = 8 << 30  # of address space per process: torch alone maps 3.5 GB
FILE_SIZE = 512 << 20
SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/gnu")
USER = 65534
GONE_WITHIN = 10.0  # seconds for killed processes to be gone
_LIMITS = """
import os, resource, sys
for limit, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, {memory}), (resource.RLIMIT_FSIZE, {file_size})):
    try:
        resource.setrlimit(limit, (value, value))
    except (OSError, ValueError):
        pass
os.execvp(sys.argv[1], sys.argv[1:])
"""


@functools.cache
def tier() -> str:
    """How notebooks are isolated on this machine: ``bubblewrap`` or ``process group``; found by trying."""
    if shutil.which("bwrap") is None:
        return "process group"
    command = [*_wrapped(Path("/")), sys.executable, "-c", "import socket; socket.create_server(('127.0.0.1', 0))"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        if subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0:
            return "bubblewrap"
    return "process group"


def run(
    command: list[str],
    folder: Path,
    *,
    seconds: float,
    environment: dict[str, str],
    report: str,
    receive: Callable[[bytes], None],
) -> str:
    """Run a command with one folder that it may write to, and hand on what it writes to a pipe.

    Args:
        command: The command and its arguments.
        folder: Its working folder, the only one it may write to.
        seconds: Wall-clock limit.
        environment: Its environment.
        report: Name of the variable that tells it the number of the pipe.
        receive: Takes what arrives in the pipe, as it comes.

    Returns:
        ``ended`` or ``timeout``.
    """
    read_end, write_end = os.pipe()
    limits = _LIMITS.format(memory=MEMORY, file_size=FILE_SIZE)
    inner = [sys.executable, "-c", limits, *command]
    wrapped = [*_wrapped(folder), *inner] if tier() == "bubblewrap" else inner
    try:
        process = subprocess.Popen(
            wrapped,
            cwd=folder,
            env={**environment, report: str(write_end)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(write_end,),
            start_new_session=True,
        )
    finally:
        os.close(write_end)
    try:
        return _listen(process, read_end, seconds, receive)
    finally:
        os.close(read_end)
        _end(process, folder)


def _listen(process: subprocess.Popen, pipe: int, seconds: float, receive: Callable[[bytes], None]) -> str:
    import selectors

    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if selector.select(min(1.0, max(0.0, deadline - time.monotonic()))):
                part = os.read(pipe, 1 << 16)
                if not part:
                    return "ended"
                receive(part)
            elif process.poll() is not None:
                return "ended"  # a process that escaped may still hold the pipe
    return "timeout"


def _end(process: subprocess.Popen, folder: Path) -> None:
    """End the command with everything it started, and wait until it is gone."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=2)  # what has said all it had to say ends by itself
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    deadline = time.monotonic() + GONE_WITHIN
    while (left := _left_in(folder)) and time.monotonic() < deadline:
        for pid in left:  # again until none is left: one may start another before its end, and an end takes its time
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _left_in(folder: Path) -> list[int]:
    """Processes whose environment names the folder: kernels have a group of their own (Linux only)."""
    found, mark = [], f"CST_ENCLOSURE={folder}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def _wrapped(folder: Path) -> list[str]:
    """The beginning of a command line that encloses what follows."""
    command = [
        "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
        "--uid", str(USER), "--gid", str(USER), "--hostname", "course",
        "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run",
    ]  # fmt: skip
    places = [*SYSTEM, sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent.parent)]
    for place in dict.fromkeys(places):
        if os.path.islink(place):
            command += ["--symlink", os.readlink(place), place]
        elif place != "/" and os.path.isdir(place):
            command += ["--ro-bind", place, place]
    if folder != Path("/"):
        command += ["--bind", str(folder), str(folder), "--chdir", str(folder)]
    return command
