"""Names that learning platforms give to what students hand in: whose it is, which attempt, late or not."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from .archives import PACKED

_CANVAS = re.compile(r"^(?P<who>[^_\d]+?)(?:_(?P<late>late))?_(?P<user>\d+)_(?P<order>\d+)_(?P<file>.+)$", re.I)
_MOODLE = re.compile(r"^(?P<who>.+?)_(?P<user>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)$", re.I)
_BLACKBOARD = re.compile(
    r"^(?P<task>.+)_(?P<who>[^_]+)_attempt_(?P<order>\d{4}(?:-\d\d){5})(?:[_.](?P<file>.*))?$", re.I
)
_ATTEMPT = re.compile(r"[\s_.(-]+(?:attempt|try|version)[\s_-]*(?P<order>\d+)\)?$", re.I)
_COPY = re.compile(r"\s*\((?P<order>\d+)\)$")
_LATE = re.compile(r"[\s_-]+late$", re.I)
_SOURCES = re.compile(r"\.(py|ipynb|md|txt|json)$", re.IGNORECASE)


@dataclass(frozen=True)
class Named:
    """What a name says.

    Args:
        who: The student, as the name has it.
        platform: ``canvas``, ``moodle``, ``blackboard`` or empty.
        numbers: Ids that the platform wrote.
        order: What attempts are ordered by.
        late: Whether the platform marked it late.
        file: The file's own name, where the platform put something before it.
    """

    who: str
    platform: str = ""
    numbers: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    late: bool = False
    file: str = ""

    @property
    def person(self) -> str:
        """What tells people apart: two of one name have two numbers on a platform."""
        return "_".join([self.who, *self.numbers[:1]])


def read_name(name: str) -> Named:
    """What the name of a file or folder says about whose it is.

    Args:
        name: Name of an entry of a download, its ending included.

    Example:
        >>> read_name("doejane_LATE_123_4567_homework-2.zip").who
        'doejane'
        >>> read_name("Jane Doe_81_assignsubmission_file_").who
        'Jane Doe'
        >>> read_name("jane (attempt 2).zip").order
        (2,)
    """
    name = unicodedata.normalize("NFC", name)
    stem = _SOURCES.sub("", PACKED.sub("", name))
    for platform, pattern in (("moodle", _MOODLE), ("blackboard", _BLACKBOARD), ("canvas", _CANVAS)):
        match = pattern.match(stem if platform == "blackboard" else name)
        if match:
            found = match.groupdict()
            numbers = (found["user"],) if found.get("user") else ()
            order = (*_numbers(found.get("order") or ""), *_resubmission(found.get("file") or ""))
            return Named(found["who"].strip(), platform, numbers, order, bool(found.get("late")), found["file"] or "")
    late = bool(_LATE.search(stem))
    stem = _LATE.sub("", stem)
    order: tuple[int, ...] = ()
    for pattern in (_COPY, _ATTEMPT):
        match = pattern.search(stem)
        if match and stem[: match.start()].strip():
            order, stem = (int(match["order"]),), stem[: match.start()]
    late, stem = late or bool(_LATE.search(stem)), _LATE.sub("", stem)
    return Named(stem.strip(" _-") or stem, order=order, late=late)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _resubmission(file: str) -> tuple[int, ...]:
    """Canvas numbers a file that was handed in again: ``homework-2.zip``."""
    match = re.search(r"-(\d{1,3})$", _SOURCES.sub("", PACKED.sub("", file)))
    return (int(match[1]),) if match else ()


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A key by which names sort as people read them: ``hw2`` before ``hw10``.

    Args:
        text: A name.
    """
    parts = re.split(r"(\d+)", unicodedata.normalize("NFC", text).casefold())
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)  # "²".isdigit() is true
