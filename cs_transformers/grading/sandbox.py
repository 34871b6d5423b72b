"""Where students' code runs: the strongest isolation that this machine allows, found by trying it.

A tier counts only when a probe has run in it: a child that tries to read the references, to reach a listener on
loopback, to see and to signal the processes around it, and that computes with torch at the end.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cs_transformers.checks import scratch, tree
from cs_transformers.checks.client import Answer, Job, Worker

FRESH = "fresh processes"
TIERS = ("namespaces", "user namespaces", "own user", "processes", FRESH)  # strongest first
PROPERTIES = ("files", "network", "processes", "user")
OWN_USER = ("namespaces", "own user")
REQUIRED = ("files", "network", "processes")
MISSING = {
    "files": "files outside of the answer's tree can be read",
    "network": "the network can be reached",
    "processes": "other processes can be seen",
}
MEMORY = 3 << 30
PASSED_ON = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LD_LIBRARY_PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "SYSTEMROOT",
    "TMPDIR",
)
PROBE = """
import errno, os, pathlib, socket
import torch
from .probe import check

@check("sandbox")
def _sandbox(probe):
    with probe.part("values"):
        for name in ("package", "canary"):
            path = pathlib.Path(probe.given[f"given/{name}"].tobytes().decode())
            try:
                probe.record(name, len(list(path.iterdir()) if path.is_dir() else path.read_bytes()) > 0)
            except OSError:
                probe.record(name, False)
        try:
            socket.create_connection(("127.0.0.1", int(probe.given["given/port"])), timeout=2).close()
            probe.record("network", True)
        except OSError:
            probe.record("network", False)
        watcher = int(probe.given["given/watcher"])
        try:
            os.kill(watcher, 0)
            probe.record("signal", True)
        except PermissionError:
            probe.record("signal", False)
        except OSError:
            probe.record("signal", False)
        probe.record("seen", os.path.isdir(f"/proc/{watcher}") and os.getppid() != 1)
        probe.record("user", os.getuid() if hasattr(os, "getuid") else -1)
        pathlib.Path("note").write_text("kept")
        probe.record("scratch", pathlib.Path("note").read_text())
        x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
        torch.nn.functional.softmax(x @ x.transpose(0, 1), -1).sum().backward()
        probe.record("sum", float(x.detach().sum()))
"""


class SandboxError(RuntimeError):
    """The sandbox itself does not work: nobody's fault who is graded."""


@dataclass(frozen=True)
class Probed:
    """What the probe found in a tier.

    Args:
        works: Whether an answer can run in it at all.
        properties: What is isolated.
        why: Why it does not work, or empty.
    """

    works: bool
    properties: frozenset[str] = frozenset()
    why: str = ""


class Sandbox:
    """Runs jobs of students' code, each in a child of its own. Several threads may share one.

    Args:
        tier: ``auto``, or the name of a tier to use and no other.
        require: Refuse to work where files, network and processes are not isolated.
        hidden: Folders, besides the course's own, that answers must not see (the submissions, the marks).

    Raises:
        ValueError: If there is no such tier.
        SandboxError: If no tier works, or isolation is required and missing; the message names what is.
    """

    def __init__(self, tier: str = "auto", *, require: bool = False, hidden: tuple[Path, ...] = ()) -> None:
        if tier != "auto" and tier not in TIERS:
            raise ValueError(f"Sandbox: expected a tier from auto, {', '.join(TIERS)}, got {tier!r}")
        self.hidden = (*course_folders(), *(str(Path(folder).resolve()) for folder in hidden))
        self.tier, self.properties, refused = "", frozenset(), []
        for candidate in TIERS if tier == "auto" else (tier,):
            why = _impossible(candidate)
            self._worker = None if why else _worker_of(candidate, self.hidden)
            probed = Probed(False, why=why) if why else probe(self._worker)
            if probed.works:
                self.tier, self.properties = candidate, probed.properties
                break
            refused.append(f"{candidate}: {probed.why}")
            if self._worker is not None:
                self._worker.close()
        if not self.tier:
            raise SandboxError(f"no way to run answers works here ({'; '.join(refused)})")
        missing = [MISSING[name] for name in REQUIRED if name not in self.properties]
        if require and missing:
            self.close()
            raise SandboxError(
                f"a sandbox is required and the best here ({self.tier}) is none: {', '.join(missing)}; run as root, "
                "allow user namespaces, or leave out --require-sandbox"
            )

    def __enter__(self) -> Sandbox:
        """The sandbox itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End its processes."""
        self.close()

    def isolates(self, what: str) -> bool:
        """Whether something is kept from students' code here.

        Args:
            what: ``files``, ``network``, ``processes`` or ``user``.
        """
        return what in self.properties

    def describe(self) -> str:
        """The tier and what it keeps apart, in one line."""
        kept = [name for name in PROPERTIES if name in self.properties]
        return f"{self.tier} (isolated: {', '.join(kept) or 'nothing but time and memory'})"

    def run(self, job: Job) -> Answer:
        """Run a job; never raises for anything it does.

        Args:
            job: The job.
        """
        job = replace(job, memory=min(job.memory, MEMORY))
        if self.tier in OWN_USER:
            _let_read(job.tree)
        return self._worker.run(job)

    def close(self) -> None:
        """End the processes."""
        self._worker.close()


def course_folders() -> tuple[str, ...]:
    """Folders that hold solutions and mistakes: the checkout, or the installed package alone."""
    home = tree.PACKAGE.parent
    return (str(home if (home / "pyproject.toml").is_file() else tree.PACKAGE),)


def probe(worker: Worker) -> Probed:
    """Run the probe in a worker.

    Args:
        worker: The worker to look at.
    """
    with scratch.folder("probe") as folder, _listener() as port:
        root, canary = Path(folder).resolve() / "tree", Path(folder).resolve() / "canary"
        canary.write_bytes(b"secret")
        canary.chmod(0o600)
        os.chmod(folder, 0o711)
        package = root / tree.PACKAGE_NAME
        definitions = package / "checks" / "definitions"
        definitions.mkdir(parents=True)
        for empty in (package, definitions.parent, definitions):
            (empty / "__init__.py").write_text("", encoding="utf-8")
        source = tree.PACKAGE / "checks" / "definitions" / "probe.py"
        (definitions / "probe.py").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
        (definitions / "sandbox.py").write_text(PROBE, encoding="utf-8")
        given = {"port": np.asarray(port), "watcher": np.asarray(os.getpid()), "canary": _text(canary)}
        given = {
            f"given/{name}": array for name, array in (*given.items(), ("package", _text(tree.PACKAGE / "checks")))
        }
        answer = worker.run(Job(str(root), "sandbox", "sandbox", 1, 60.0, arrays=given))
    return _read(answer, worker.level)


def _read(answer: Answer, level: str) -> Probed:
    if answer.state != "answered" or answer.errors:
        why = answer.detail or answer.state
        return Probed(False, why=f"{why} {answer.errors[:1] or answer.output[-300:]}".strip())
    found = {key.partition("/")[2]: value for key, value in answer.arrays.items()}
    kept = {
        "files": not (found["package"] or found["canary"]),
        "network": not found["network"],
        "processes": not found["seen"] and not found["signal"],
        "user": level in OWN_USER and int(found["user"]) != os.getuid(),
    }
    return Probed(True, frozenset(name for name, is_kept in kept.items() if is_kept))


def _impossible(tier: str) -> str:
    """Why a tier need not be tried here, or empty."""
    if tier == FRESH:
        return ""
    if not sys.platform.startswith("linux"):
        return "it needs Linux"
    if tier in OWN_USER and os.getuid() != 0:
        return "it needs root"
    return ""


def _worker_of(tier: str, hidden: tuple[str, ...]) -> Worker:
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return Worker(
        fork=tier != FRESH, level="" if tier == FRESH else tier, hidden=hidden, environment=environment, prepare=True
    )


def _let_read(folder: str) -> None:
    """Let another user read a tree, whatever the mask of this one."""
    for place, _, files in os.walk(folder):
        os.chmod(place, 0o755)
        for file in files:
            os.chmod(os.path.join(place, file), 0o644)


@contextlib.contextmanager
def _listener() -> Iterator[int]:
    """A port on loopback that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _text(path: Path) -> np.ndarray:
    return np.frombuffer(os.fsencode(path), dtype=np.uint8)
