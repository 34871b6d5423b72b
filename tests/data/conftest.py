"""A small web server on loopback whose manners a test can choose."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Shelf:
    """What the little server gives, how it misbehaves, and what it was asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.etags: dict[str, str] = {}
        self.requests: list[tuple[str, str | None, str | None]] = []
        self.answers: list[int] = []  # status codes to give before behaving
        self.cut_after: list[int] = []  # bytes after which the line breaks, one request each
        self.stalls_after: int | None = None  # bytes after which the server sends no more, but keeps the line
        self.released = threading.Event()
        self.ranges = True
        self.lengths = True
        self.url = ""


class Handler(BaseHTTPRequestHandler):
    shelf: Shelf

    def do_GET(self) -> None:
        shelf = self.shelf
        asked, condition = self.headers.get("Range"), self.headers.get("If-Range")
        shelf.requests.append((self.path, asked, condition))
        if shelf.answers:
            self.send_error(shelf.answers.pop(0))
            return
        if self.path not in shelf.files:
            self.send_error(404)
            return
        body, etag = shelf.files[self.path], shelf.etags.get(self.path)
        start = 0
        if asked and shelf.ranges and (condition is None or condition == etag):
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if shelf.lengths:
            self.send_header("Content-Length", str(len(body) - start))
        if etag:
            self.send_header("ETag", etag)
        self.end_headers()
        if shelf.stalls_after is not None:
            self.wfile.write(body[start : shelf.stalls_after])
            self.wfile.flush()
            shelf.released.wait(timeout=60)
            return
        end = start + shelf.cut_after.pop(0) if shelf.cut_after else len(body)
        self.wfile.write(body[start:end])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    shelf = Shelf()
    handler = type("ShelfHandler", (Handler,), {"shelf": shelf})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        shelf.url = f"http://127.0.0.1:{server.server_port}"
        yield shelf
        shelf.released.set()
        server.shutdown()
        thread.join()
