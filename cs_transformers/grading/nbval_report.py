"""A pytest plugin for nbval: says what became of each cell, and notices a kernel that has died.

It runs in the enclosure beside the notebooks, as a file of its own: it imports pytest and the standard library only.
nbval itself waits its whole limit for a dead kernel and counts the cells behind a timeout as expected failures.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from queue import Empty
from typing import Any

REPORT = "CST_NBVAL_REPORT"  # names the open file that takes the report
SLICE = 0.5
_report = -1


def pytest_configure(config: Any) -> None:
    """Take over the report's file and nbval's waiting.

    Args:
        config: pytest's.
    """
    global _report
    _report = int(os.environ.pop(REPORT))  # kernels need not know of it
    os.set_inheritable(_report, False)
    from nbval import kernel

    patient = kernel.RunningKernel.get_message

    def attentive(self: Any, stream: str, timeout: float | None = None) -> dict:
        deadline = time.monotonic() + (timeout if timeout is not None else 1e9)
        while True:
            try:
                return patient(self, stream, timeout=max(0.0, min(SLICE, deadline - time.monotonic())))
            except Empty:
                self.died = not self.is_alive()
                if self.died or time.monotonic() >= deadline:
                    raise

    kernel.RunningKernel.get_message = attentive
    config.pluginmanager.register(_reports_of_cells())


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note that a cell begins, so that its name is known if everything ends with it.

    Args:
        nodeid: pytest's name of the cell.
    """
    _say(event="starts", node=nodeid)


def pytest_sessionfinish() -> None:
    """Say that the report is whole."""
    _say(event="whole")


def _reports_of_cells() -> object:
    """The hook that sees cells; pytest is there when this is called, but not wherever the course is imported."""
    import pytest

    class Cells:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
            report = yield
            if hasattr(item, "cell") and (call.when == "call" or report.failed):
                path, cell = Path(str(item.parent.path)).stem, item.cell
                _say(event="ends", notebook=path, cell=cell.get("id", ""), outcome=_outcome(item, call, report))
            return report

    return Cells()


def _outcome(item: Any, call: Any, report: Any) -> str:
    if hasattr(report, "wasxfail"):
        return "xpass" if report.passed else "after timeout"
    if report.passed:
        return "passed"
    kernel = getattr(item.parent, "kernel", None)
    if kernel is None or getattr(kernel, "died", False) or call.when != "call":
        return "crashed"
    return "timeout" if str(call.excinfo.value).startswith("Timeout") else "failed"


def _say(**event: str) -> None:
    os.write(_report, json.dumps(event).encode() + b"\n")
