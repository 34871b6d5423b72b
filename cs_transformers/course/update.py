"""Moving into a corrected edition, or to another machine: answers travel, everything else is taken from the edition."""

from __future__ import annotations

import hashlib
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cs_transformers.checks import edition, tree
from cs_transformers.checks.edition import INSTRUCTOR, RELEASE, Edition
from cs_transformers.checks.markers import (
    HELPERS,
    MarkerError,
    Region,
    decode_source,
    find_regions,
    is_stub,
    splice,
    stub_line,
)
from cs_transformers.course import classroom
from cs_transformers.course.archives import LARGEST, open_folder, open_zip, write_zip
from cs_transformers.course.cells import inline_answers, with_answers
from cs_transformers.files import replace_file

BACKUPS = "backups"
OTHERS = (BACKUPS, "site-packages", "__pycache__")  # an environment may hold another copy of the package
PACKAGE_PREFIX = f"{tree.PACKAGE_NAME}/"


@dataclass
class Moved:
    """What became of a student's work.

    Args:
        release: Id of the edition the folder holds now.
        answers: Regions and questions that were moved.
        notes: What the student should know, a sentence each.
        written: Files that were written.
        backup: The zip that holds every file as it was before, or None where none was replaced.
    """

    release: str = ""
    answers: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    backup: Path | None = None


def update(new: str | Path | None = None, home: Path | None = None) -> Moved:
    """Turn the folder one works in into a newer edition; answers, own files and own cells stay.

    Args:
        new: Zip or folder of the newer edition, or its address; default: the address this edition came from.
        home: Folder of the course; default: that of this package.

    Returns:
        What became of the work.

    Raises:
        ValueError: If the file is no student edition or damaged, or the markers of an answer are broken; nothing was
            changed then.
    """
    home, old = _student_home(home)
    files, release = student_edition(*fetch(new or old.url, "update"))
    mine, moved = own_files(home, old.files.keys() | release.files.keys()), Moved(release.id)
    regions = regions_of(mine, "update")
    target = {name: data for name, data in files.items() if not name.startswith("notebooks/")}
    for name, data in target.items():
        if name.endswith(".py") and name.startswith(PACKAGE_PREFIX):
            target[name] = _with_regions(name, data, regions, moved)
    target |= _notebooks(files, mine, old, release)
    gone = [name for name in old.files if name.startswith(PACKAGE_PREFIX) and name not in files and name in mine]
    _tell_what_stays_behind(regions, moved, release, mine, old)
    replaced = {name: mine[name] for name in mine if name in gone or target.get(name, mine[name]) != mine[name]}
    if replaced:
        moved.backup = write_zip(_free(home / BACKUPS, f"before-{release.id}"), replaced)
    # The description goes last: broken off, the update can be run again from the start.
    for name in sorted(target, key=lambda name: name.endswith(f"/{RELEASE}")):
        if mine.get(name) != target[name]:
            replace_file(home / name, target[name])
            moved.written.append(name)
    for name in gone:
        (home / name).unlink()
    return moved


def restore(saved: str | Path, home: Path | None = None) -> Moved:
    """Put the answers of a submission, or of another copy of the course, into this one, where nothing is written yet.

    Args:
        saved: Zip or folder.
        home: Folder of the course; default: that of this package.

    Returns:
        What became of the work.

    Raises:
        ValueError: If nothing can be read there, or the folder is no student edition.
    """
    home, release = _student_home(home)
    found, name = fetch(saved, "restore")
    own = (path for path in found if not any(map(_is_of_another_kind, path.split("/")[:-1])))
    places = {_inside(path): path for path in own if path.endswith((".py", ".md"))}
    files = {path: found[place] for path, place in places.items() if path.startswith((PACKAGE_PREFIX, "answers/"))}
    regions, mine, moved = regions_of(files, name), own_files(home), Moved(release.id)
    for path in sorted(mine):
        if path.endswith(".py") and path.startswith(PACKAGE_PREFIX):
            text = _with_regions(path, mine[path], regions, moved, over=False)
            if text != mine[path]:
                replace_file(home / path, text)
                moved.written.append(path)
    for path, content in sorted(files.items()):
        if path.startswith("answers/") and path.endswith(".md"):
            _put_text(Path(path).stem, content.decode("utf-8", "replace"), home, moved)
    if not moved.answers and not moved.notes:
        moved.notes.append(f"{name} holds no answer")
    return moved


def _student_home(home: Path | None) -> tuple[Path, Edition]:
    """The copy that is worked in, and what it is an edition of; the instructor's is none."""
    found = home or classroom.course_home()
    release = edition.load(found / tree.PACKAGE_NAME)
    if release.id == INSTRUCTOR:
        here = f"{found}, which is none" if home else f"{Path.cwd()}; `cst` belongs to {found} there, which is none"
        raise ValueError(f"update: expected to stand in a student edition, got {here}; go to your copy")
    return found, release


def _put_text(id: str, text: str, home: Path, moved: Moved) -> None:
    kept = home / "answers" / f"{id}.md"
    if classroom.is_blank(text) or (kept.is_file() and kept.read_text(encoding="utf-8").strip() == text.strip()):
        return
    if kept.is_file() and not classroom.is_blank(kept.read_text(encoding="utf-8")):
        moved.notes.append(f"{id}: you have an answer here already; it stays")
        return
    classroom.write_answer(id, text, home)
    moved.answers.append(id)


def fetch(new: str | Path, who: str) -> tuple[Mapping[str, bytes], str]:
    """The files of a zip, a folder or an address, and what messages call it.

    Args:
        new: Where it is.
        who: The command, for messages.

    Raises:
        ValueError: If there is none.
    """
    text = str(new)
    if text.startswith(("http://", "https://")):
        with urllib.request.urlopen(text, timeout=60) as reply:
            return open_zip(reply.read(LARGEST), text), text
    if text and Path(text).is_dir():
        return open_folder(Path(text), _is_of_another_kind), Path(text).name
    if not text or not Path(text).is_file():
        raise ValueError(f"{who}: expected a zip or a folder, got {text!r}, where there is none; name the file")
    return open_zip(Path(text), Path(text).name), Path(text).name


def _is_of_another_kind(folder: str) -> bool:
    """Whether a folder beside or below a copy holds nothing that was handed out or answered in it."""
    return folder in OTHERS or folder.startswith(".")


def student_edition(files: Mapping[str, bytes], name: str) -> tuple[dict[str, bytes], Edition]:
    """The files of a student edition by path in it, and what it hands out; every file is held against its hash.

    Args:
        files: Files by path; the edition may lie in a folder.
        name: What messages call them.

    Raises:
        ValueError: If they are no student edition, or damaged.
    """
    tops = [path[: -len(f"{PACKAGE_PREFIX}{RELEASE}")] for path in files if path.endswith(f"{PACKAGE_PREFIX}{RELEASE}")]
    if not tops:
        raise ValueError(f"update: expected a student edition, got {name}, which is none; download the release again")
    top = min(tops, key=len)
    description = files[f"{top}{PACKAGE_PREFIX}{RELEASE}"]
    release, inside = edition.parse(description), {f"{PACKAGE_PREFIX}{RELEASE}": description}
    for path, expected in release.files.items():
        data = files.get(f"{top}{path}")
        if data is None or hashlib.sha256(data).hexdigest() != expected:
            found = "no" if data is None else "another"
            raise ValueError(f"update: expected {path} as it was released, got {found} file; download {name} again")
        inside[path] = data
    return inside, release


def own_files(home: Path, names: Iterable[str] = ()) -> dict[str, bytes]:
    """The files of a copy that an update may change, as they are now; data sets and other files are not looked at.

    Args:
        home: Folder of the course.
        names: Files that an edition holds, beside the sources of the package.
    """
    sources = (path.relative_to(home).as_posix() for path in (home / tree.PACKAGE_NAME).rglob("*.py"))
    wanted = sorted({*sources, *names, f"{PACKAGE_PREFIX}{RELEASE}"})
    kept = (name for name in wanted if ".ipynb_checkpoints" not in name and (home / name).is_file())
    return {name: (home / name).read_bytes() for name in kept}


def regions_of(files: dict[str, bytes], who: str) -> dict[tuple[str, str], Region]:
    """Answers in the package's files, by file and name.

    Args:
        files: Files by path.
        who: What messages call them.

    Raises:
        ValueError: If a marker is broken; the message names the file and the line.
    """
    found = {}
    for name, data in files.items():
        if name.endswith(".py") and name.startswith(PACKAGE_PREFIX) and b"###" in data:
            try:
                regions = find_regions(decode_source(data, name), name)
            except MarkerError as error:
                raise ValueError(f"{who}: {error}; mend it first, nothing was changed") from None
            found |= {(name, one.name): one for one in regions if one.kind == "ANSWER" and not is_stub(one.body)}
    return found


def _with_regions(
    name: str, data: bytes, regions: dict[tuple[str, str], Region], moved: Moved, *, over: bool = True
) -> bytes:
    text = decode_source(data, name)
    bodies = {}
    for place in find_regions(text, name):
        one = regions.get((name, place.name))
        if one is None and place.name != HELPERS:  # an exercise may move to another file
            one = next((region for (_, region_name), region in regions.items() if region_name == place.name), None)
        if one is None or place.kind != "ANSWER" or one.body == place.body:
            continue
        if not over and not is_stub(place.body):
            moved.notes.append(f"{place.name} in {name}: you have an answer here already; it stays")
            continue
        bodies[place.name] = tree.moved(one, place.indent)
    moved.answers += [f"{one} in {name}" if one == HELPERS else one for one in bodies]
    return splice(text, bodies, name).encode() if bodies else data


def _notebooks(files: dict[str, bytes], mine: dict[str, bytes], old: Edition, new: Edition) -> dict[str, bytes]:
    """Notebooks to write: new ones, and changed ones with the student's answers in their cells."""
    found = {}
    for name, data in files.items():
        if not name.startswith("notebooks/") or (name in mine and old.files.get(name) == new.files[name]):
            continue  # the student's own file goes on: the edition did not change it
        answers = {id: text for id, text in inline_answers(mine.get(name, b"")).items() if not classroom.is_blank(text)}
        found[name] = with_answers(data.decode(), answers).encode() if answers else data
    return found


def _tell_what_stays_behind(
    regions: dict[tuple[str, str], Region], moved: Moved, new: Edition, mine: dict[str, bytes], old: Edition
) -> None:
    for file, name in regions:
        label = f"{name} in {file}" if name == HELPERS else name
        if label not in moved.answers:
            exercise = regions[file, name].exercise
            why = (
                "the new edition gives its solution"
                if exercise in new.solved
                else "the new edition has no place for it"
            )
            moved.notes.append(f"{label}: {why}; your answer is in {BACKUPS}/")
    changed = [
        name
        for name, expected in old.files.items()
        if name.endswith(".py") and name in mine and hashlib.sha256(_emptied(name, mine[name])).hexdigest() != expected
    ]
    moved.notes += [f"{name}: what you changed outside the answer regions is in {BACKUPS}/ only" for name in changed]


def _emptied(name: str, data: bytes) -> bytes:
    """A file as it was handed out, if nothing but its answers was changed."""
    text = decode_source(data, name)
    bodies = {one.name: one.indent + stub_line(one.name) + "\n" for one in find_regions(text, name)}
    return splice(text, bodies, name).encode()


def _inside(path: str) -> str:
    """A path in a copy of the course, whatever folder the copy lies in."""
    parts = path.split("/")
    for top in (tree.PACKAGE_NAME, "answers", "notebooks"):
        if top in parts[:-1]:
            return "/".join(parts[parts.index(top) :])
    return path


def _free(folder: Path, stem: str) -> Path:
    path, number = folder / f"{stem}.zip", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}.zip", number + 1
    return path
