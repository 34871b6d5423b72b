"""Releasing the course: the student edition as folder and zip, proved from end to end, and the autograder's zip."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cs_transformers.checks import edition, tree
from cs_transformers.checks.edition import Edition
from cs_transformers.course import editions, proofs
from cs_transformers.course.archives import open_zip, read_folder, write_zip
from cs_transformers.course.editions import Options
from cs_transformers.course.update import student_edition

TOP = "transformers"  # the folder that a release unpacks to
AUTOGRADER = ("pyproject.toml", "README.md", "LICENSE")  # what the package needs beside it to be installed


@dataclass(frozen=True)
class Release:
    """What was written.

    Args:
        folder: The student edition.
        zip: The same as one file.
        edition: What it hands out.
        autograder: The zip for Gradescope, or None.
    """

    folder: Path
    zip: Path
    edition: Edition
    autograder: Path | None = None


def release(
    out: Path | str,
    options: Options | None = None,
    source: Path | None = None,
    *,
    autograder: dict[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Release:
    """Write a student edition as folder and zip, after every proof.

    Args:
        out: Folder to write; the zip lies beside it under the same name.
        options: What the edition shall be like.
        source: Root of the instructor edition; default: the one this package belongs to.
        autograder: Scripts of an autograder by file name: a zip with them and the solutions is written as well.
        progress: Called with the name of each step as it begins.

    Returns:
        What was written.

    Raises:
        ValueError: If a proof fails, or the folder or a zip beside it is not of an earlier release; everything is then
            as it was.
    """
    out = Path(out)
    out = out.resolve() if out.name in ("", "..") else out
    source = tree.PACKAGE.parent if source is None else Path(source)
    zipped, graders = (out.with_name(f"{out.name}{ending}") for ending in (".zip", "-gradescope.zip"))
    editions.check_target(out, source)
    _refuse_to_replace(zipped, _is_release)
    if autograder is not None:
        _refuse_to_replace(graders, _is_autograder)

    def prove_all(fresh: Path, source: Path, options: Options) -> None:
        proofs.prove(fresh, source, options)
        proofs.prove_by_running(fresh, source, progress)
        prove_repeatable(fresh, source, options)

    options = options or Options()
    folder = editions.write_edition(out, options, source, proof=prove_all)
    files = {f"{TOP}/{name}": data for name, data in read_folder(folder).items()}
    written = write_zip(zipped, files)
    grader = write_autograder(graders, source, folder, autograder) if autograder is not None else None
    return Release(folder, written, edition.load(folder / tree.PACKAGE_NAME), grader)


def _refuse_to_replace(path: Path, is_former: Callable[[Mapping[str, bytes], str], bool]) -> None:
    """Refuse a zip that no release wrote: somebody may have no other copy of it."""
    if not path.exists():
        return
    with contextlib.suppress(ValueError, OSError):
        if path.is_file() and is_former(open_zip(path, path.name), path.name):
            return
    raise ValueError(
        f"release: expected {path} to be free or of an earlier release, got another file; move it away, or choose "
        "another folder"
    )


def _is_release(files: Mapping[str, bytes], name: str) -> bool:
    """Whether a zip is a student edition as it was handed out, and nothing else."""
    found, _ = student_edition(files, name)
    return set(files) == {f"{TOP}/{path}" for path in found}


def _is_autograder(files: Mapping[str, bytes], _: str) -> bool:
    return {"setup.sh", "run_autograder", edition.RELEASE} <= set(files)


def prove_repeatable(fresh: Path, source: Path, options: Options) -> None:
    """Write an edition again and compare the bytes.

    Args:
        fresh: Root of the student edition.
        source: Root of the instructor edition.
        options: What the edition is like.

    Raises:
        ValueError: If a file differs.
    """
    with TemporaryDirectory(prefix=".again-", dir=fresh.parent) as folder:
        again = Path(folder) / "edition"
        editions.fill(again, source, options)
        first, second = read_folder(fresh), read_folder(again)
    differ = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    if differ:
        raise ValueError(
            f"release: expected the same bytes when written again, got another {differ[0]}; nothing may be written "
            "into the edition while it is proved, and nothing random or dated may go into it"
        )


def write_autograder(path: Path, source: Path, folder: Path, scripts: dict[str, str]) -> Path:
    """Write the zip that Gradescope takes as an autograder. It holds the solutions: it is for instructors alone.

    Args:
        path: The file to write.
        source: Root of the instructor edition.
        folder: The student edition it grades.
        scripts: What Gradescope runs, by file name.

    Returns:
        The path.
    """
    files = {name: text.encode() for name, text in scripts.items()}
    for name, data in read_folder(source / tree.PACKAGE_NAME).items():
        files[f"{tree.PACKAGE_NAME}/{name}"] = data
    for name, data in read_folder(source / editions.FOLDER).items():
        if ".ipynb_checkpoints" not in name:
            files[f"{editions.FOLDER}/{name}"] = data
    for name in AUTOGRADER:
        if (source / name).is_file():
            files[name] = (source / name).read_bytes()
    files[edition.RELEASE] = (folder / tree.PACKAGE_NAME / edition.RELEASE).read_bytes()
    return write_zip(path, files)
