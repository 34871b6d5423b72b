"""Whose is what: deliveries of a class by the names that platforms and people gave them, attempts in order."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from cs_transformers.checks.tree import PACKAGE_NAME

from .archives import FAULTS_OF_THE_MACHINE, IGNORED, PACKED, Contents, readable, zip_name
from .model import Person
from .names import Named, natural, read_name
from .roster import Roster, slug


@dataclass
class Delivery:
    """What one name brought, read when its turn comes: a whole class does not fit into memory.

    Args:
        source: The name.
        named: What it says.
        fill: Reads the contents.
        notes: Repairs that are known before it is read.
    """

    source: str
    named: Named
    fill: Callable[[Contents], None] | None = None
    notes: list[str] = field(default_factory=list)

    @cached_property
    def contents(self) -> Contents:
        """What is in it."""
        contents = Contents(repairs=[*self.notes, *["the learning platform marked it late"] * self.named.late])
        try:
            if self.fill is not None:
                self.fill(contents)
        except Exception as error:  # folders in folders without end, say: it costs this delivery, not the class
            if isinstance(error, OSError) and error.errno in FAULTS_OF_THE_MACHINE:
                raise
            contents.problems.append(f"{self.source}: cannot be read ({type(error).__name__})")
        return contents


def deliveries_of(submissions: Path) -> Iterator[Delivery]:
    """Everything that was handed in, one delivery for each name, unread.

    Args:
        submissions: A folder or a zip.

    Raises:
        ValueError: If it is a file and no readable zip.
    """
    if submissions.is_file():
        yield from _of_archive(submissions)
        return
    names = sorted((entry for entry in submissions.iterdir() if not IGNORED.match(entry.name)), key=_by_name)
    if any(entry.name == PACKAGE_NAME and entry.is_dir() for entry in names):
        names = [submissions]
    meta = _gradescope_names(submissions / "submission_metadata.yml")
    for path in names:
        if path.is_file() and path.suffix in (".yml", ".csv", ".html"):
            continue
        source = readable(path.name)
        name = source if path.is_file() or path.is_symlink() else ""
        read = partial(Contents.add_path, path=path, name=name)
        yield Delivery(source, read_name(meta.get(source, source)), read)


def _of_archive(path: Path) -> Iterator[Delivery]:
    """A zip of many students, or of one: that one has a folder of the package near its root."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
            names = {id(one): zip_name(one).replace("\\", "/") for one in members}
            members = [one for one in members if not any(map(IGNORED.match, names[id(one)].split("/")))]
            tops = {names[id(one)].split("/")[0] for one in members}
            strip = len(tops) == 1 and all("/" in names[id(one)] for one in members)
            parts = {id(one): names[id(one)].split("/")[strip:] for one in members}
            single = any(PACKAGE_NAME in inside[:1] or inside == ["manifest.json"] for inside in parts.values())
            groups: dict[str, list[str]] = {}
            for one in members:
                groups.setdefault(path.name if single else parts[id(one)][0], []).append(one.filename)
    except (zipfile.BadZipFile, OSError) as error:
        raise ValueError(f"take_in: expected a folder or a readable zip, got {path.name} ({error})") from None
    for source, wanted in sorted(groups.items(), key=lambda group: natural(group[0])):
        yield Delivery(source, read_name(source), partial(_read_members, path=path, wanted=frozenset(wanted)))


def _read_members(contents: Contents, path: Path, wanted: frozenset[str]) -> None:
    with zipfile.ZipFile(path) as archive:
        contents.add_members(archive, [one for one in archive.infolist() if one.filename in wanted], "")


def _by_name(path: Path) -> tuple:
    return natural(path.name)


def _gradescope_names(path: Path) -> dict[str, str]:
    """Folder to student in the file that Gradescope puts beside the folders of an export."""
    found: dict[str, str] = {}
    if path.is_file():
        folder = ""
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if match := re.match(r"^(submission_\d+):", line):
                folder = match[1]
            match = re.match(r"^\s+-?\s*:(sid|name):\s*['\"]?(.*?)['\"]?\s*$", line)
            if match and folder and match[2] and (match[1] == "sid" or folder not in found):
                found[folder] = match[2]
    return found


def owned(delivery: Delivery, roster: Roster) -> tuple[Person, Delivery]:
    """Whose a delivery is, by its name: somebody of the roster, else a person of that name.

    Args:
        delivery: A delivery; a doubt is noted in it.
        roster: The class.
    """
    named = delivery.named
    person, doubt = roster.find(named.who, named.numbers)
    if doubt:
        delivery.notes.append(f"{doubt}; filed under its own name")
    if person is None:
        person = Person(slug(named.person), named.who, listed=False)
    return person, delivery


def by_person(found: list[tuple[Person, Delivery]], roster: Roster) -> Iterator[tuple[Person, list[Delivery]]]:
    """Deliveries by person, in the order of the roster, then of the ids.

    Args:
        found: Every delivery with its person.
        roster: The class.
    """
    groups: dict[str, tuple[Person, list[Delivery]]] = {}
    for person, delivery in found:
        groups.setdefault(person.id, (person, []))[1].append(delivery)
    for person in roster.people:
        if person.id in groups:
            yield groups.pop(person.id)
    yield from sorted(groups.values(), key=lambda group: natural(group[0].id))


def attempts(deliveries: list[Delivery]) -> list[Delivery]:
    """Attempts of one person, the latest last: loose files become one, attempts inside one delivery are split.

    Args:
        deliveries: What came from this person.
    """
    whole, loose = [], []
    for delivery in deliveries:
        (loose if _is_loose(delivery) else whole).extend(_split(delivery))
    groups: dict[tuple[int, ...], list[Delivery]] = {}
    for delivery in loose:
        # Canvas gives every file of a submission a number of its own: what was handed in together stays together.
        order = () if delivery.named.platform == "canvas" else delivery.named.order
        groups.setdefault(order, []).append(delivery)
    for order, group in groups.items():
        whole.append(_joined(group, order))
    return sorted(whole, key=lambda one: (one.named.order, natural(one.source)))


def _is_loose(delivery: Delivery) -> bool:
    return set(delivery.contents.files) == {delivery.source} and not PACKED.search(delivery.source)


def _split(delivery: Delivery) -> list[Delivery]:
    """A folder may hold several attempts, each a whole copy of its own in a folder or archive below."""
    tops: dict[str, list[str]] = {}
    for name in delivery.contents.files:
        tops.setdefault(name.split("/")[0], []).append(name)
    copies = [top for top, names in tops.items() if any(f"/{PACKAGE_NAME}/" in f"/{name}" for name in names)]
    marked = [top for top in copies if re.search(r"(attempt|try|version|\bv)[\s_-]*\d+|\(\d+\)$", top, re.I)]
    if len(copies) < 2 or len(marked) < len(copies) - 1:
        return [delivery]
    found = []
    for top in sorted(copies, key=natural):
        numbers = re.findall(r"\d+", top)
        order = (*delivery.named.order, int(numbers[-1]) if numbers and top in marked else 0)
        part = Delivery(f"{delivery.source}/{top}", replace(delivery.named, order=order))
        files = {name: delivery.contents.files[name] for name in tops[top]}
        part.contents = replace(delivery.contents, files=files)
        found.append(part)
    return found


def _joined(group: list[Delivery], order: tuple[int, ...]) -> Delivery:
    first = group[0]
    joined = Delivery(first.source, replace(first.named, order=order))
    for one in group:
        for name, data in one.contents.files.items():
            joined.contents.files[one.named.file or name] = data
        for kind in ("repairs", "incidents", "problems"):
            getattr(joined.contents, kind).extend(getattr(one.contents, kind))
    return joined
