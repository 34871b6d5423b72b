"""A headless Chromium, driven over its DevTools protocol on loopback: what a page does when a person opens it."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
    "--window-size=1100,1500",
    "about:blank",
)


class Page:
    """One open page: everything that went wrong in it or was asked of the network is kept."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._ids = socket, itertools.count(1)
        self.messages: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its reply."""
        id = next(self._ids)
        self._socket.send(json.dumps({"id": id, "method": method, "params": params}))
        while True:
            reply = json.loads(self._socket.recv())
            if reply.get("id") == id:
                assert "error" not in reply, reply
                return reply["result"]
            self._note(reply)

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.messages.append(str(params["exceptionDetails"].get("exception", params["exceptionDetails"])))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.messages.append(params["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.messages.append(f"dialog: {params['message']}")
            self._socket.send(
                json.dumps({"id": next(self._ids), "method": "Page.handleJavaScriptDialog", "params": {"accept": True}})
            )

    def open(self, path: Path) -> None:
        """Load a file and wait until it is there."""
        self.call("Page.navigate", url=path.resolve().as_uri())
        for _ in range(200):
            if self.run("document.readyState") == "complete":
                return
            time.sleep(0.05)
        raise AssertionError(f"{path} did not load")

    def run(self, expression: str) -> Any:
        """Evaluate JavaScript and return what comes out."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def shade(self, scheme: str) -> None:
        """Say what the reader prefers: light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path) -> None:
        """Take a picture of the whole page."""
        height = min(self.run("document.documentElement.scrollHeight"), 6000)
        clip = {"x": 0, "y": 0, "width": 1100, "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def chromium(downloads: Path | None = None) -> Iterator[Page]:
    """Start a browser with one page; skips where there is none."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    websocket = pytest.importorskip("websocket", reason="driving a browser needs the package websocket-client")
    if program is None:
        pytest.skip("no Chromium on this machine")
    with tempfile.TemporaryDirectory(prefix="cst-browser-", ignore_cleanup_errors=True) as home:
        command = [program, *FLAGS[:-1], f"--user-data-dir={home}", FLAGS[-1]]
        environment = {**os.environ, "HOME": home}
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
        )
        try:
            port = _port(process)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as reply:
                target = next(one for one in json.load(reply) if one["type"] == "page")
            socket = websocket.create_connection(target["webSocketDebuggerUrl"], timeout=60)
            page = Page(socket)
            if downloads is not None:
                page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
            yield page
            socket.close()
        finally:
            process.terminate()
            process.wait(timeout=30)
            process.stderr.close()


def _port(process: subprocess.Popen) -> str:
    for line in process.stderr:
        found = re.search(r"DevTools listening on ws://[^:]+:(\d+)/", line)
        if found:
            return found[1]
    raise AssertionError("Chromium did not start")
