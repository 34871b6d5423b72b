from __future__ import annotations

import io
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cs_transformers.data.scenes import make_scenes, render
from cs_transformers.data.web_image import image_from_url, placeholder


def picture(kind: str = "PNG", mode: str = "RGB") -> tuple[bytes, np.ndarray]:
    image = Image.fromarray(np.random.RandomState(0).randint(0, 256, (12, 20, 3), dtype=np.uint8)).convert(mode)
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue(), np.array(image.convert("RGB"))


def is_placeholder(image: np.ndarray) -> bool:
    return np.array_equal(image, placeholder())


def one_line(capsys: pytest.CaptureFixture) -> str:
    printed = capsys.readouterr().out
    assert printed.endswith("\n")
    assert printed.count("\n") == 1
    return printed


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "LA", "1"])
def test_a_picture_of_any_mode_arrives_as_rgb(shelf, mode: str, capsys: pytest.CaptureFixture) -> None:
    shelf.files["/photo.png"], expected = picture(mode=mode)
    got = image_from_url(shelf.url + "/photo.png")
    assert got.dtype == np.uint8
    assert np.array_equal(got, expected)
    assert capsys.readouterr().out == ""


def test_an_address_with_a_blank_or_a_letter_beyond_ascii_is_asked_for_quoted(shelf) -> None:
    shelf.files["/a%20b/%C3%BC.png"], expected = picture()
    assert np.array_equal(image_from_url(shelf.url + "/a b/ü.png"), expected)
    assert np.array_equal(image_from_url(shelf.url + "/a%20b/%C3%BC.png "), expected), "what is quoted stays as it is"


@pytest.mark.parametrize("code", [403, 404, 500, 503])
def test_an_error_of_the_server_gives_a_placeholder_and_one_line(
    shelf, code: int, capsys: pytest.CaptureFixture
) -> None:
    shelf.answers = [code]
    assert is_placeholder(image_from_url(shelf.url + "/photo.png"))
    line = one_line(capsys)
    assert str(code) in line
    assert shelf.url in line


def test_no_network_gives_a_placeholder_and_one_line(capsys: pytest.CaptureFixture) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert is_placeholder(image_from_url(f"http://127.0.0.1:{port}/photo.png"))
    assert "refused" in one_line(capsys)


@pytest.fixture
def slow_server() -> Iterator[tuple[str, threading.Event]]:
    """Accepts, sends the head of an answer, then one byte at a time, or nothing once the event is set."""
    silent, stop = threading.Event(), threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)

    def serve() -> None:
        while not stop.is_set():
            try:
                line, _ = listener.accept()
            except TimeoutError:
                continue
            with line:
                try:
                    line.recv(4096)
                    line.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 250\r\n\r\n")
                    while not stop.wait(0.02):
                        if not silent.is_set():
                            line.sendall(b"x")
                except OSError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/photo.png", silent
    stop.set()
    thread.join()
    listener.close()


@pytest.mark.parametrize("says_nothing", [True, False])
def test_a_server_that_hangs_or_drips_is_given_up(
    slow_server, says_nothing: bool, capsys: pytest.CaptureFixture
) -> None:
    url, silent = slow_server
    if says_nothing:
        silent.set()
    assert is_placeholder(image_from_url(url, timeout=0.3))
    assert ("timed out" if says_nothing else "gave up after") in one_line(capsys)


@pytest.mark.parametrize("body", [b"", b"<html>not here</html>", picture("JPEG")[0][:300], picture()[0][:100]])
def test_what_is_no_picture_gives_a_placeholder_and_one_line(shelf, body: bytes, capsys: pytest.CaptureFixture) -> None:
    shelf.files["/photo.jpg"] = body
    assert is_placeholder(image_from_url(shelf.url + "/photo.jpg"))
    assert "not a picture, or half of one" in one_line(capsys)


def test_a_line_that_breaks_gives_a_placeholder(shelf, capsys: pytest.CaptureFixture) -> None:
    shelf.files["/photo.png"] = picture()[0]
    shelf.cut_after = [200]
    assert is_placeholder(image_from_url(shelf.url + "/photo.png"))
    one_line(capsys)


def test_files_are_read_by_path_and_by_address(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    content, expected = picture()
    path = tmp_path / "a photo ü.png"
    path.write_bytes(content)
    for url in (str(path), path.as_uri(), path, np.str_(path)):
        assert np.array_equal(image_from_url(url), expected)
    assert is_placeholder(image_from_url(str(tmp_path / "none.png")))
    assert "there is no such file" in one_line(capsys)


def test_scenes_are_drawn_from_their_address() -> None:
    scene = make_scenes(1, 231, first=4)[0]
    assert np.array_equal(image_from_url(scene.url), render(scene))


@pytest.mark.parametrize(
    "url", ["", "scene://x", "ftp://host/a.png", "http://", "http://[", "http://127.0.0.1:99999/", "\0", 3, None]
)
def test_no_address_raises(url: object, capsys: pytest.CaptureFixture) -> None:
    assert is_placeholder(image_from_url(url))
    one_line(capsys)


def test_the_placeholder_has_the_size_asked_for_and_a_mark() -> None:
    image = placeholder(40, 70)
    assert image.shape == (40, 70, 3)
    assert image.dtype == np.uint8
    assert len(np.unique(image)) > 1
