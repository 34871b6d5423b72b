"""The trusted end of a forking worker: hand a job over with its own pipes, read until it ends, believe nothing.

The socket to the worker carries orders alone. What is asked and what is answered goes through descriptors that travel
with the order, so that neither is ever in the memory that later children are forked from.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from . import wire

KEPT, FLOOD = 20_000, 1 << 20  # bytes of output that are kept, and beyond which it is told
CHUNK = 1 << 16
TAKEN_SECONDS = 180.0  # until the worker takes a job: it may be loading what torch loads on first use
LOOP = "look for a loop that never ends"
BUSY = "the machine was too busy to give it that time: try again when less runs there"


@dataclass
class Ending:
    """How a job ended.

    Args:
        answer: The first frame it wrote, or what there is of it.
        output: The beginning of what it printed.
        printed: How many bytes it printed.
        malformed: Whether it wrote what begins no frame.
        report: What its supervisor says; empty when that was ended, too.
        late: Whether it had to be ended because time was up.
        taken: Whether the worker took it, which is when its time began.
    """

    answer: bytearray = field(default_factory=bytearray)
    output: bytearray = field(default_factory=bytearray)
    printed: int = 0
    malformed: bool = False
    report: dict[str, Any] = field(default_factory=dict)
    late: bool = False
    taken: bool = False

    @property
    def reported(self) -> bool:
        """Whether its supervisor lived to report."""
        return bool(self.report)

    @property
    def refused(self) -> str:
        """Why the child could not be confined, or empty."""
        return str(self.report.get("refused", ""))

    def whole(self) -> bool:
        """Whether a whole frame has arrived."""
        if len(self.answer) < wire.FIXED_SIZE or self.malformed:
            return self.malformed
        try:
            return len(self.answer) >= wire.FIXED_SIZE + sum(wire.sizes(bytes(self.answer[: wire.FIXED_SIZE])))
        except wire.WireError:
            self.malformed = True
            return True

    def state(self) -> tuple[str, str]:
        """State and detail of a job that gave no answer."""
        status = self.report.get("status")
        if self.late:
            return "timeout", BUSY if self.report.get("busy") or not self.taken else LOOP
        if self.report.get("over") == "memory":
            return "memory", ""
        if status is None:
            return "crashed", "the process that watched it was ended"
        if self.answer:
            return "no answer", "what came back is no answer of a check"
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return ("timeout", LOOP) if number == signal.SIGXCPU else ("crashed", _name_of(number))
        return "exited early", f"exit status {os.WEXITSTATUS(status)}"

    def incident(self) -> str:
        """What had to be ended or refused, for people."""
        quiet = self.reported and self.whole() and not self.malformed
        state, detail = ("", "") if quiet else self.state()
        found = [f"ended by {detail}" if detail.startswith("SIG") else detail] if state == "crashed" else []
        found += ["it ended its own process"] if state == "exited early" else []
        found += ["it took too much memory"] if state == "memory" else []
        found += ["it wrote what is no answer of a check"] if self.malformed else []
        left = self.report.get("left", 0)
        found += [f"it left {left} process{'es' * (left > 1)} behind, ended now"] if left else []
        found += [f"it printed {self.printed >> 20} MB, cut"] if self.printed > FLOOD else []
        return "; ".join(found)


def _name_of(number: int) -> str:
    """The name of a signal; those in the real-time range have none."""
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"SIG{number}"


class Exchange:
    """The socket to a worker that forks."""

    def __init__(self) -> None:
        self._mine, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def await_ready(self, seconds: float) -> bool:
        """Whether the worker says in time that it has started.

        Args:
            seconds: How long to wait.
        """
        self._mine.settimeout(seconds)
        try:
            return b"ready" in self._mine.recv(CHUNK)
        except OSError:
            return False
        finally:
            with contextlib.suppress(OSError):
                self._mine.settimeout(None)

    def ask(self, order: dict[str, Any], request: bytes, grace: float) -> Ending | None:
        """Hand a job over and wait for its end; None when the worker is gone.

        Args:
            order: What the worker needs to know: folders, limits, level.
            request: The job, for the child alone.
            grace: Seconds beyond its longest time after which nobody waits for a report any more.
        """
        answer, answer_in = os.pipe()
        output, output_in = os.pipe()
        line, far = socket.socketpair()
        try:
            with _file_of(request) as asked:
                socket.send_fds(
                    self._mine, [json.dumps(order).encode()], [asked.fileno(), answer_in, output_in, far.fileno()]
                )
        except OSError:
            for descriptor in (answer, output):
                os.close(descriptor)
            line.close()
            return None
        finally:
            os.close(answer_in)
            os.close(output_in)
            far.close()
        try:
            return _read(answer, output, line, order["longest"] + grace)
        finally:
            os.close(answer)
            os.close(output)
            line.close()  # whoever still waits for the answer learns that nobody wants it any more

    def close(self) -> None:
        """Close both ends; the worker ends when it sees that."""
        self._mine.close()
        self.theirs.close()


def _read(answer: int, output: int, line: socket.socket, seconds: float) -> Ending:
    """Read all three until the supervisor has reported; a whole answer ends the wait for the child."""
    ending, report, deadline = Ending(), bytearray(), time.monotonic() + TAKEN_SECONDS
    with selectors.DefaultSelector() as events:
        for source in (answer, output, line):
            events.register(source, selectors.EVENT_READ)
        while line in events.get_map():
            ready = events.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                ending.late = True
                return ending
            for key, _ in ready:
                if key.fileobj is line:
                    part = line.recv(CHUNK)
                    report += part
                    if part and not ending.taken:  # its supervisor has begun; time before that is not its own
                        ending.taken, deadline = True, time.monotonic() + seconds
                else:
                    part = _take(key.fd, answer, ending)
                if not part:
                    events.unregister(key.fileobj)
                elif key.fd == answer and ending.whole():
                    events.unregister(answer)
                    line.shutdown(socket.SHUT_WR)
    with contextlib.suppress(ValueError):
        ending.report = json.loads(report)
    ending.late = bool(ending.report.get("late")) and not ending.whole()
    _drain(answer, output, ending)
    return ending


def _take(source: int, answer: int, ending: Ending) -> bytes:
    part = os.read(source, CHUNK)
    if source == answer:
        ending.answer += part
    else:
        ending.printed += len(part)
        ending.output += part[: KEPT - len(ending.output)]
    return part


def _drain(answer: int, output: int, ending: Ending) -> None:
    """Take what the pipes still hold; nobody writes to them any more."""
    for source in (answer, output):
        os.set_blocking(source, False)
        with contextlib.suppress(BlockingIOError):
            while not (source == answer and ending.whole()) and _take(source, answer, ending):
                pass
    if ending.whole() and not ending.malformed:
        del ending.answer[wire.FIXED_SIZE + sum(wire.sizes(bytes(ending.answer[: wire.FIXED_SIZE]))) :]


def _file_of(request: bytes) -> Any:
    """The request in a file without a name, so that nobody waits for somebody to read it."""
    file = os.fdopen(os.memfd_create("request"), "w+b")
    file.write(request)
    file.flush()
    return file
