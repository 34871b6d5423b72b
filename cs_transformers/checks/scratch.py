"""Folders for a moment, whose names say who made them: what a killed run left is found, and nothing else is touched."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

IN_MEMORY = "/dev/shm"
_NAME = re.compile(r"cst-[a-z]+-(?P<machine>[0-9a-f]{8})-(?P<pid>\d+)-(?P<born>\d+)-\w+")


def folder(what: str, within: str | None = None) -> tempfile.TemporaryDirectory[str]:
    """A folder that goes with the block it is made in; the first of a process takes what dead ones have left along.

    Args:
        what: What it holds, a word of small letters: ``tree``.
        within: Where it lies; default: where the system keeps such files.
    """
    _sweep_once()
    pid = os.getpid()
    prefix = f"cst-{what}-{_machine()}-{pid}-{_born(pid)}-"
    return tempfile.TemporaryDirectory(prefix=prefix, dir=within, ignore_cleanup_errors=True)


def sweep(places: Iterable[str | Path] | None = None) -> list[Path]:
    """Remove folders of processes that are dead: made by this user, on this machine since it was started.

    Args:
        places: Where to look; default: where ``folder`` makes them.

    Returns:
        What was removed.
    """
    if os.name != "posix":
        return []
    removed = []
    for place in {tempfile.gettempdir(), IN_MEMORY} if places is None else places:
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                match = _NAME.fullmatch(entry.name)
                if match and _is_own(entry) and _is_dead(*match.groups()):
                    shutil.rmtree(entry.path, ignore_errors=True)
                    removed.append(Path(entry.path))
    return removed


@functools.cache
def _sweep_once() -> None:
    sweep()


@functools.cache
def _machine() -> str:
    """A mark of this machine, of its start, and of the world in which its process numbers hold, such as a container."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text(), os.readlink("/proc/self/ns/pid")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def _born(pid: int) -> int:
    """When a process began, counted from the start of the machine; 0 where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return 0


def _is_own(entry: os.DirEntry[str]) -> bool:
    with contextlib.suppress(OSError):
        found = entry.stat(follow_symlinks=False)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return False


def _is_dead(machine: str, pid: str, born: str) -> bool:
    """Whether a process is gone, or its number another's by now; where that cannot be told, it lives."""
    if machine != _machine():
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return _born(int(pid)) not in (0, int(born)) and born != "0"
