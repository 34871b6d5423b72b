"""What keeps an answer to itself: namespaces, a root of its own, another user, limits, and the end of all it started.

The worker loads this file by its path, so it imports the standard library only. Five levels exist, each with all that
the lower ones have:

* ``""``: a session of its own, limits, an end of the whole group (what `cst check` uses);
* ``processes``: the same with a limit on the number of processes;
* ``own user``: a user of its own, so that it can neither signal nor read other processes (needs root);
* ``user namespaces``: no network, no other process, no other file than the interpreter's, the tree's and a scratch
  folder in memory (Linux, without privileges);
* ``namespaces``: these and a user of its own (Linux, root).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
import time
from pathlib import Path

LEVELS = ("", "processes", "own user", "user namespaces", "namespaces")
TREE, SCRATCH = "/tree", "/scratch"
SCRATCH_SIZE, FILE_SIZE, PROCESSES, FILES = 256 << 20, 64 << 20, 64, 256
NEW_USER, NEW_PID, NEW_NET, NEW_MOUNTS, NEW_IPC = 0x10000000, 0x20000000, 0x40000000, 0x00020000, 0x08000000
READ_ONLY, NO_SETUID, NO_DEVICES, NO_EXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
DETACH, AT_RECURSIVE, HERE = 2, 0x8000, -100
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
CAPSET = {"x86_64": 126, "aarch64": 91}
MOUNT_SETATTR = 442
DEATH_SIGNAL, DUMPABLE, SUBREAPER, NO_NEW_PRIVILEGES, DROP_CAPABILITY = 1, 4, 36, 38, 24
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
DEVICES = ("null", "zero", "full", "random", "urandom")
ETC = ("ld.so.cache", "localtime")
INSIDE = 1000  # user and group in a user namespace


def has_own_user(level: str) -> bool:
    """Whether a level changes the user.

    Args:
        level: One of ``LEVELS``.
    """
    return level in ("own user", "namespaces")


def has_namespaces(level: str) -> bool:
    """Whether a level has namespaces.

    Args:
        level: One of ``LEVELS``.
    """
    return level in ("user namespaces", "namespaces")


def own_user() -> int:
    """A user id that no account has and no other worker of this machine uses."""
    return 60_000 + os.getpid() % 5_000


def leave_namespaces(level: str) -> None:
    """Leave the machine's processes, network and shared memory; the next child is the first of a new world.

    Args:
        level: One of ``LEVELS``.

    Raises:
        OSError: If the system refuses.
    """
    flags = NEW_PID | NEW_NET | NEW_IPC
    user, group = os.getuid(), os.getgid()
    if level == "user namespaces":
        flags |= NEW_USER
    _call("unshare", flags)
    if level == "user namespaces":
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{INSIDE} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{INSIDE} {group} 1")


def enter_root(base: str, tree: str, hidden: list[str], user: int) -> None:
    """Change to a root that holds the interpreter and the system's libraries, the tree, and a scratch folder.

    Args:
        base: An empty folder to build it on.
        tree: Folder of the package under test, to be seen as ``/tree``.
        hidden: Folders that must not be seen, wherever they lie.
        user: Who owns the scratch folder.

    Raises:
        OSError: If the system refuses.
    """
    _call("unshare", NEW_MOUNTS)
    _mount("", "/", "", RECURSIVE | PRIVATE)
    _mount("tmpfs", base, "tmpfs", NO_SETUID | NO_DEVICES, f"size={SCRATCH_SIZE},nr_inodes=20000,mode=755")
    root = f"{base}/root"
    os.mkdir(root)
    os.mkdir(f"{base}/old")
    for path, shown in _plan(hidden):
        if shown:
            _show(path, root + path)
        else:
            _mount("tmpfs", root + path, "tmpfs", NO_SETUID | NO_DEVICES, "size=64k,mode=755")
    for path in SYSTEM:
        if os.path.islink(path) and not os.path.lexists(root + path):
            os.symlink(os.readlink(path), root + path)
    for path in [*(f"/etc/{name}" for name in ETC), *(f"/dev/{name}" for name in DEVICES)]:
        _show_file(path, root + path)
    _show(tree, root + TREE)
    for path in (SCRATCH, "/tmp", "/dev/shm"):
        os.makedirs(root + path, exist_ok=True)
        os.chown(root + path, user, user)
    os.mkdir(f"{root}/proc")
    with contextlib.suppress(OSError):  # refused inside some containers; nothing here needs it
        _mount("proc", f"{root}/proc", "proc", NO_SETUID | NO_DEVICES | NO_EXEC)
    os.chdir(base)
    with contextlib.suppress(OSError, KeyError):  # refused on an initial memory file system; chroot alone must do
        _syscall(PIVOT_ROOT[os.uname().machine], b".", b"old")
        os.chroot(".")
        _call("umount2", b"/old", DETACH)
        root = "/root"
    os.chroot(root)  # inside a chroot nobody can make a user namespace and be root in it
    os.chdir(SCRATCH)


def become(user: int | None) -> None:
    """Give up every privilege, for another user where one is given.

    Args:
        user: A user and group id, or None: stay who one is.
    """
    for capability in range(64):
        _library().prctl(DROP_CAPABILITY, capability, 0, 0, 0)
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    _library().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    number = CAPSET.get(os.uname().machine)
    if number is not None and (user is not None or os.getuid() == INSIDE):
        header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
        _syscall(number, header, nothing)


def limit(seconds: float, memory: int, level: str) -> None:
    """Bound what a process may take: CPU seconds, address space beyond today's, file size, files, processes, no core.

    Args:
        seconds: Limit of the job, beyond what this process has computed before.
        memory: Bytes of address space it may add.
        level: One of ``LEVELS``.
    """
    processor = int(seconds + time.process_time()) + 2
    wanted = {resource.RLIMIT_CORE: 0, resource.RLIMIT_CPU: processor, resource.RLIMIT_FSIZE: FILE_SIZE}
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        wanted[resource.RLIMIT_AS] = pages * resource.getpagesize() + memory
    if level:
        wanted[resource.RLIMIT_NOFILE] = FILES
        # Counted for the user, or for the user within the namespace: others' processes count where there is neither.
        others = 0 if level != "processes" else _tasks_of_user()
        if hasattr(resource, "RLIMIT_NPROC"):
            wanted[resource.RLIMIT_NPROC] = PROCESSES + others
    for what, value in wanted.items():
        with contextlib.suppress(OSError, ValueError):
            # A second of grace, in which the signal of a limit that is up tells why the end comes.
            resource.setrlimit(what, (value, value + (what == resource.RLIMIT_CPU)))


def die_with_parent() -> None:
    """End this process when the one that forked it ends (Linux)."""
    with contextlib.suppress(Exception):
        _library().prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def guard_memory() -> None:
    """Keep other processes of the same user out of this one's memory (Linux)."""
    with contextlib.suppress(Exception):
        _library().prctl(DUMPABLE, 0, 0, 0, 0)


def become_subreaper() -> None:
    """Inherit the orphans of one's children, so that a process that left its group is found (Linux)."""
    with contextlib.suppress(Exception):
        _library().prctl(SUBREAPER, 1, 0, 0, 0)


def end_all_of(user: int) -> None:
    """End every process of a user (root alone can).

    Args:
        user: Its id.
    """
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def descendants(pid: int) -> list[int]:
    """Process ids below a process, as far as the system tells.

    Args:
        pid: The process.
    """
    found: list[int] = []
    for task in _listed(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError, ValueError):
            children = Path(f"/proc/{pid}/task/{task}/children").read_text().split()
            found += [below for child in map(int, children) for below in (child, *descendants(child))]
    return found


def computed(pid: int) -> float:
    """Seconds that a process, all its threads and its ended children have computed; 0 for one that is gone.

    Args:
        pid: The process.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def waited(pid: int) -> float:
    """Seconds that a thread of a process was ready to compute and got no processor; 0 where the system does not say.

    Args:
        pid: The process.
    """
    longest = 0.0
    for task in _listed(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            longest = max(longest, int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[1]) / 1e9)
    return longest


def time_left(seconds: float, longest: float, passed: float, computed: float, waited: float) -> float:
    """Seconds that an answer still has: those in which it was kept from a processor do not count.

    A loop is known by what it computes, one that sleeps by not waiting for a processor. On a machine of its own an
    answer has its limit by the clock.

    Args:
        seconds: Its limit.
        longest: The limit by the clock, however busy the machine is.
        passed: Seconds by the clock.
        computed: Seconds that all its processes have computed.
        waited: Seconds that one of them waited for a processor.

    Example:
        >>> time_left(20, 80, passed=20, computed=20, waited=0)  # a loop on a quiet machine
        0
        >>> time_left(20, 80, passed=20, computed=5, waited=15)  # the machine has more to do
        15
    """
    return min(seconds - max(computed, passed - waited), longest - passed)


def own_memory(pid: int) -> int:
    """Bytes that a process has in memory and shares with no file; 0 for one that is gone.

    Args:
        pid: The process.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        _, resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[:3]
        return max(0, int(resident) - int(shared)) * resource.getpagesize()
    return 0


def _plan(hidden: list[str]) -> list[tuple[str, bool]]:
    """What to show (True) and what to cover (False), outer folders first, nothing twice."""
    shown = {path for path in SYSTEM if os.path.isdir(path) and not os.path.islink(path)}
    shown |= {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    shown |= {os.path.dirname(os.path.realpath(sys.executable))}
    covers = {os.path.realpath(path) for path in hidden}
    loaded = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    for entry in filter(None, sys.path):
        real = os.path.realpath(entry)
        if any(_within(file, entry) for file in loaded) and not any(
            real == one or _within(real, one) for one in covers
        ):
            shown.add(entry)
    steps: list[tuple[str, bool]] = []
    every = {(os.path.abspath(path), True) for path in shown} | {(path, False) for path in covers}
    for path, show in sorted(every, key=lambda step: (step[0].count("/"), step)):
        outer = [kind for other, kind in steps if _within(path, other) or path == other]
        if path != "/" and (outer[-1] if outer else False) != show:
            steps.append((path, show))
    return steps


def _within(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _show(source: str, target: str) -> None:
    if not os.path.isdir(source):
        _show_file(source, target)
        return
    os.makedirs(target, exist_ok=True)
    _mount(source, target, "", BIND | RECURSIVE)
    _protect(target)


def _show_file(source: str, target: str) -> None:
    if not os.path.exists(source):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    Path(target).touch()
    _mount(source, target, "", BIND)


def _protect(target: str) -> None:
    """Make a mount, and those below it, read-only."""
    attributes = struct.pack("QQQQ", READ_ONLY | NO_SETUID, 0, 0, 0)
    try:
        _syscall(MOUNT_SETATTR, HERE, os.fsencode(target), AT_RECURSIVE, attributes, len(attributes))
    except OSError:  # before Linux 5.12
        kept = os.statvfs(target).f_flag & (READ_ONLY | NO_SETUID | NO_DEVICES | NO_EXEC)
        _mount("", target, "", BIND | REMOUNT | READ_ONLY | kept)


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    texts = [os.fsencode(text) or None for text in (source, target, kind)]
    _call("mount", *texts, ctypes.c_ulong(flags), os.fsencode(options) or None)


def _call(name: str, *arguments: object) -> None:
    if getattr(_library(), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _syscall(number: int, *arguments: object) -> None:
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    _call("syscall", ctypes.c_long(number), *wide)


_loaded: ctypes.CDLL | None = None


def _library() -> ctypes.CDLL:
    global _loaded
    if _loaded is None:
        _loaded = ctypes.CDLL(None, use_errno=True)
    return _loaded


def _tasks_of_user() -> int:
    mine, count = os.getuid(), 0
    for entry in _listed("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit() and os.stat(f"/proc/{entry}").st_uid == mine:
                count += len(_listed(f"/proc/{entry}/task"))
    return count


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
