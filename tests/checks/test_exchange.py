"""The trusted end of a forking worker: how an end is read, what an incident is."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time

import numpy as np
import pytest

from cs_transformers.checks import exchange as exchange_module
from cs_transformers.checks import wire
from cs_transformers.checks.exchange import BUSY, LOOP, Ending, Exchange

FRAME = wire.pack({"job": 1}, {"x": np.arange(3.0)})
REPORT = {"status": 0, "late": False, "over": "", "left": 0, "refused": ""}


def ending(answer: bytes = b"", **fields: object) -> Ending:
    report = {**REPORT, **{key: value for key, value in fields.items() if key in REPORT}}
    others = {key: value for key, value in fields.items() if key not in REPORT}
    return Ending(bytearray(answer), report=report, **others)


def test_a_frame_is_whole_when_all_of_it_is_there() -> None:
    assert ending(FRAME).whole()
    assert ending(FRAME + b"more").whole()
    assert not any(ending(FRAME[:length]).whole() for length in range(len(FRAME)))


def test_what_begins_no_frame_ends_the_wait() -> None:
    odd = ending(b"passed" * 10)
    assert odd.whole()
    assert odd.malformed
    assert odd.state() == ("no answer", "what came back is no answer of a check")


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"status": signal.SIGSEGV}, ("crashed", "SIGSEGV")),
        ({"status": 40}, ("crashed", "SIG40")),  # of the real-time range, which Python has no names for
        ({"status": signal.SIGXCPU}, ("timeout", LOOP)),
        ({"status": 7 << 8}, ("exited early", "exit status 7")),
        ({"status": 0}, ("exited early", "exit status 0")),
        ({"status": signal.SIGKILL, "over": "memory"}, ("memory", "")),
        ({"status": None}, ("crashed", "the process that watched it was ended")),
        ({"answer": FRAME[:20]}, ("no answer", "what came back is no answer of a check")),
    ],
)
def test_an_end_without_an_answer_has_a_state(fields: dict, state: tuple[str, str]) -> None:
    assert ending(**fields).state() == state


def test_time_that_is_up_comes_before_everything_else() -> None:
    late = Ending(bytearray(FRAME[:5]), report={**REPORT, "status": signal.SIGKILL})
    late.late = late.taken = True
    assert late.state() == ("timeout", LOOP)


def test_a_busy_machine_is_told_from_an_answer_that_used_its_time() -> None:
    kept_waiting = Ending(report={**REPORT, "late": True, "busy": True}, late=True, taken=True)
    assert kept_waiting.state() == ("timeout", BUSY)
    assert Ending(late=True).state() == ("timeout", BUSY), "nobody even took it"
    assert Ending(late=True, taken=True).state() == ("timeout", LOOP)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="hands a job over as only Linux can")
def test_the_time_of_a_job_begins_when_the_worker_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is busy with itself must not cost the job that waits for it."""
    exchange = Exchange()

    def take_it_late() -> None:
        _, descriptors, _, _ = socket.recv_fds(exchange.theirs, 1 << 16, 8)
        answer, line = descriptors[1], descriptors[3]
        time.sleep(0.6)
        os.write(line, b"\n")
        os.write(answer, FRAME)
        os.write(line, json.dumps(REPORT).encode())
        for descriptor in descriptors:
            os.close(descriptor)

    taking = threading.Thread(target=take_it_late)
    taking.start()
    found = exchange.ask({"seconds": 0.1, "longest": 0.3}, FRAME, 0.1)
    taking.join()
    exchange.close()
    assert (found.taken, found.late, found.whole()) == (True, False, True)
    monkeypatch.setattr(exchange_module, "TAKEN_SECONDS", 0.05)
    never = Exchange()
    assert never.ask({"seconds": 0.1, "longest": 0.3}, FRAME, 0.1).state() == ("timeout", BUSY)
    never.close()


@pytest.mark.parametrize(
    ("fields", "incident"),
    [
        ({"answer": FRAME}, ""),
        ({"status": 0}, "it ended its own process"),
        ({"answer": FRAME, "left": 1}, "it left 1 process behind, ended now"),
        (
            {"answer": FRAME, "left": 3, "printed": 5 << 20},
            "it left 3 processes behind, ended now; it printed 5 MB, cut",
        ),
        ({"status": signal.SIGSEGV}, "ended by SIGSEGV"),
        ({"over": "memory"}, "it took too much memory"),
        ({"answer": b"x" * 40}, "it wrote what is no answer of a check"),
        ({"status": None}, "the process that watched it was ended"),
    ],
)
def test_an_incident_is_what_had_to_be_ended_or_refused(fields: dict, incident: str) -> None:
    one = ending(**fields)
    one.whole()
    assert one.incident() == incident


def test_a_worker_that_is_gone_is_noticed_and_nothing_stays_open() -> None:
    exchange = Exchange()
    exchange.theirs.close()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert exchange.ask({"seconds": 1.0}, FRAME, 1.0) is None
    assert not before or len(os.listdir("/proc/self/fd")) == before
    exchange.close()


def test_a_worker_that_never_says_it_is_ready_is_not_waited_for_without_end() -> None:
    exchange = Exchange()
    assert not exchange.await_ready(0.01)
    exchange.close()
