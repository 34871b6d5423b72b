"""Every test runs on one torch thread and reaches nothing outside this machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)
LOOPBACK = ("127.", "localhost", "::1")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection that leaves the loopback interface."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> object:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not str(address[0]).startswith(LOOPBACK):
            raise OSError(f"a test tried to reach {address}: tests use loopback only")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def data_dir() -> Path:
    """Give the folder of real data, or skip and say so."""
    folder = os.environ.get("CST_DATA_DIR")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data: CST_DATA_DIR names no folder here")
    return Path(folder)
