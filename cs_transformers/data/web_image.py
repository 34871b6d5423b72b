"""One picture from an address, whatever happens: a placeholder and a line of text where there is none."""

from __future__ import annotations

import io
import time
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from cs_transformers.data.scenes import render, scene_from_url

_LARGEST = 32 * 2**20  # bytes; a photo of the data sets has less than a megabyte
_HEADERS = {"User-Agent": "cs_transformers (course material)"}  # some hosts refuse requests without one


def image_from_url(url: str, *, timeout: float = 10.0) -> np.ndarray:
    """Get a picture from the web, from a file, or from the embedded world.

    A picture that cannot be had never stops a notebook: one line says why, and a grey placeholder comes back.

    Args:
        url: ``http(s)://`` address, path of a file, ``file://`` address, or ``scene://`` address of a scene.
        timeout: Seconds after which the attempt is given up.

    Returns:
        (height, width, 3) uint8, RGB.

    Example:
        >>> image_from_url("/no/such/photo.jpg").shape
        no picture (there is no such file): /no/such/photo.jpg
        (120, 160, 3)
    """
    try:
        return _read(str(url), timeout)
    except Exception as error:  # whatever went wrong, the caller wants to go on
        reason = " ".join(str(error).split()) or type(error).__name__
        print(f"no picture ({reason[:120]}): {url}")
        return placeholder()


def placeholder(height: int = 120, width: int = 160) -> np.ndarray:
    """Draw a grey picture with a cross, to stand for one that could not be had.

    Args:
        height: In pixels.
        width: In pixels.

    Returns:
        (height, width, 3) uint8.
    """
    image = Image.new("RGB", (width, height), (225, 225, 225))
    pen = ImageDraw.Draw(image)
    for ends in ((0, 0, width - 1, height - 1), (0, height - 1, width - 1, 0)):
        pen.line(ends, fill=(170, 170, 170), width=2)
    pen.rectangle((0, 0, width - 1, height - 1), outline=(170, 170, 170))
    return np.array(image)


def _read(url: str, timeout: float) -> np.ndarray:
    scheme = url.split("://", 1)[0].lower() if "://" in url else ""
    if scheme == "scene":
        return render(scene_from_url(url))
    if scheme in ("http", "https"):
        content = _download(url, timeout)
    elif scheme in ("", "file"):
        path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path) if scheme else url)
        if not path.is_file():
            raise FileNotFoundError("there is no such file")
        content = path.read_bytes()
    else:
        raise ValueError(f"addresses that start with {scheme}:// are not understood")
    try:
        with Image.open(io.BytesIO(content)) as image:
            return np.array(image.convert("RGB"))
    except (OSError, SyntaxError) as error:  # Pillow's way to say that a file is no picture
        raise ValueError("what came is not a picture, or half of one") from error


def _download(url: str, timeout: float) -> bytes:
    address = urllib.parse.quote(url.strip(), safe="/:?#[]@!$&'()*+,;=%~")  # a blank becomes %20, the rest stays
    give_up = time.monotonic() + timeout
    pieces, size = [], 0
    with urllib.request.urlopen(urllib.request.Request(address, headers=_HEADERS), timeout=timeout) as answer:
        while piece := answer.read1(65536):
            pieces.append(piece)
            size += len(piece)
            if size > _LARGEST or time.monotonic() > give_up:
                raise OSError(f"gave up after {size} bytes in {timeout:g} s")
    return b"".join(pieces)
