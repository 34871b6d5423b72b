"""What was handed out: only exercises that an edition asks for are graded, and points refer to them alone."""

from __future__ import annotations

import contextlib
import zipfile
from pathlib import Path

from cs_transformers.checks.edition import RELEASE, Edition, parse
from cs_transformers.checks.tree import PACKAGE_NAME
from cs_transformers.course.archives import DAMAGED


def read_release(path: Path) -> Edition:
    """The edition that `cst release` wrote.

    Args:
        path: Its folder, its zip, or its ``release.json``.

    Raises:
        ValueError: If it is none of these.
    """
    data = _description(Path(path))
    if data is None:
        raise ValueError(
            f"release: expected the folder or zip that `cst release` wrote, got {path}; it has no {RELEASE}"
        )
    return parse(data, RELEASE)


def _description(path: Path) -> bytes | None:
    if path.is_dir():
        places = (path / PACKAGE_NAME / RELEASE, path / RELEASE)
        return next((place.read_bytes() for place in places if place.is_file()), None)
    if path.suffix == ".zip" and zipfile.is_zipfile(path):
        with contextlib.suppress(*DAMAGED), zipfile.ZipFile(path) as archive:
            name = min((name for name in archive.namelist() if name.endswith(RELEASE)), key=len, default=None)
            return archive.read(name) if name else None
        return None
    return path.read_bytes() if path.name == RELEASE and path.is_file() else None
