"""Mending a student's file: encodings, marker lines that were lost, doubled or bent, and what was changed for nothing.

A region is found by its markers; where they are gone, by the function it is the tail of. Nothing is guessed beyond
that, and every repair is a sentence.
"""

from __future__ import annotations

import ast
import codecs
import difflib
import re
from dataclasses import dataclass

from cs_transformers.checks.markers import HELPERS, UNPARSED, Region, decode_source, is_stub, lift

_BENT = re.compile(
    r"^(?P<indent>[ \t]*)#+[ \t]*(?P<edge>BEGIN|END)[ \t]+(?P<kind>SOLUTION|ANSWER)[ \t]+"
    r"(?P<name>helpers|\d+\.\d+(?:[ \t]+[A-Za-z_]\w*)?)[ \t]*$",
    re.IGNORECASE,
)
_ANY = re.compile(r"^[ \t]*###[ \t]*(BEGIN|END)\b", re.IGNORECASE)
_SHOWN = 3
LONGEST_SOURCE = 500_000  # letters: the files of the course have a twentieth of that


def to_text(data: bytes, name: str) -> tuple[str, str]:
    """The text of some bytes and, where it was not plain UTF-8 with line feeds, what was done.

    Args:
        data: Bytes of a file.
        name: What an error calls it.

    Raises:
        ValueError: If the bytes are no text.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return decode_source(data, name), "read as UTF-16"
    if data.startswith(codecs.BOM_UTF8):
        return decode_source(data, name), "a byte order mark was taken away"
    for zeros, encoding in ((data[1:200:2], "utf-16-le"), (data[:200:2], "utf-16-be")):
        if len(zeros) > 3 and zeros.count(0) > len(zeros) * 0.8:
            return _line_feeds(data.decode(encoding, "replace")), "read as UTF-16"
    if b"\0" in data:
        raise ValueError(f"{name}: expected text, got bytes that are none; save the file as UTF-8")
    try:
        text = decode_source(data, name)
        return text, "line ends of another system were changed" if b"\r" in data else ""
    except ValueError:
        return _line_feeds(data.decode("cp1252", "replace")), "read as Windows text, it is not UTF-8"


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass
class Mended:
    """A file that :func:`lift` can read.

    Args:
        text: The file.
        repairs: What was done, a sentence each.
        changes: What was changed outside the regions, a sentence each.
    """

    text: str
    repairs: list[str]
    changes: list[str]


def mend(text: str, pristine: str, file: str) -> Mended:
    """Make every region of a student's file readable, as far as it can be found.

    Args:
        text: The student's file.
        pristine: The course's file with stubs.
        file: Its name.

    Raises:
        ValueError: If it is far too long to be a source of the course.
    """
    if len(text) > LONGEST_SOURCE:
        raise ValueError(f"it is longer than {LONGEST_SOURCE // 1000},000 letters; hand in the code alone")
    wanted = lift(pristine, file)
    lines, repairs = text.splitlines(), []
    good, marker_lines = _regions(lines, file, wanted, repairs)
    blank = {number for number in marker_lines if number not in _kept(good)}
    # A line of markers that count no more keeps its place, so that line numbers stay the student's own.
    lines = ["" if number in blank else line for number, line in enumerate(lines)]
    places = {name: (first, last, _indent(lines[first])) for name, (first, last) in good.items()}
    for name in wanted:
        if name not in places:
            span = None if name == HELPERS else _tail(lines, pristine, wanted[name])
            if span is not None and not _crosses(span, places):
                places[name] = span
                repairs.append(f"{file}: the marker lines of {name} were lost; its answer was found by its place")
            elif name != HELPERS:
                repairs.append(f"{file}: the marker lines of {name} were lost and its answer was not found")
    written, helpers = _written(lines, places, good), ""
    if HELPERS in wanted and HELPERS not in places:
        helpers = _lost_helpers("\n".join(lines), pristine)
    if helpers:
        repairs.append(f"{file}: the marker lines of helpers were lost; imports and functions of yours were gathered")
        written += f"### BEGIN ANSWER {HELPERS}\n{helpers}\n### END ANSWER {HELPERS}\n"
    return Mended(written, repairs, _changes(lines, places, good, pristine, file))


def _regions(
    lines: list[str], file: str, wanted: dict[str, Region], repairs: list[str]
) -> tuple[dict[str, tuple[int, int]], set[int]]:
    """Well-formed regions by name, (line of BEGIN, line of END), and the numbers of all marker lines."""
    pairs: list[tuple[str, int, int]] = []
    markers, opened = set(), None
    for number, line in enumerate(lines):
        match = _BENT.match(line)
        if match is None:
            if _ANY.match(line):
                markers.add(number)
            continue
        markers.add(number)
        name = " ".join(match["name"].split())
        name = HELPERS if name.lower() == HELPERS else name
        if match["edge"].upper() == "BEGIN":
            opened = (name, number)
        else:
            if opened is not None and opened[0] == name:
                pairs.append((name, opened[1], number))
            opened = None
    good: dict[str, tuple[int, int]] = {}
    for name, first, last in pairs:
        if name not in wanted:
            repairs.append(f"{file}, line {first + 1}: there is no exercise {name} in this file; passed over")
        elif name not in good:
            good[name] = (first, last)
        else:
            old, new = ("\n".join(lines[a + 1 : b]) for a, b in (good[name], (first, last)))
            if old != new:
                repairs.append(
                    f"{file}, line {first + 1}: {name} is there twice, first in line {good[name][0] + 1}; "
                    "the last one that is no stub counts, as in Python"
                )
            if not is_stub(new) or is_stub(old):
                good[name] = (first, last)
    return good, markers


def _kept(good: dict[str, tuple[int, int]]) -> set[int]:
    return {number for pair in good.values() for number in pair}


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _crosses(span: tuple[int, int, str], places: dict[str, tuple[int, int, str]]) -> bool:
    return any(span[0] <= last and first <= span[1] for first, last, _ in places.values())


def _written(lines: list[str], places: dict[str, tuple[int, int, str]], good: dict[str, tuple[int, int]]) -> str:
    """The lines with markers in the one form that is read. A restored region's span holds its own lines."""
    found = []
    begins = {first: name for name, (first, _, _) in places.items()}
    ends = {last: name for name, (_, last, _) in places.items()}
    for number, line in enumerate(lines):
        name = begins.get(number)
        if name is not None:
            found.append(f"{places[name][2]}### BEGIN ANSWER {name}")
        if number not in _kept(good):
            found.append(line)
        name = ends.get(number)
        if name is not None:
            found.append(f"{places[name][2]}### END ANSWER {name}")
    return "\n".join(found) + "\n"


def _tail(lines: list[str], pristine: str, region: Region) -> tuple[int, int, str] | None:
    """Where the answer stands in a function whose markers are gone: after the lines that were given."""
    given = pristine.splitlines()
    path = _function_around(pristine, region)
    span = _extent(lines, path)
    start = _extent(given, path)
    if span is None or start is None:
        return None
    prefix = [line.strip() for line in given[start[0] : region.first - 1] if line.strip()]
    at, first = 0, span[0] + 1
    for number in range(span[0], span[1] + 1):
        if at < len(prefix) and lines[number].strip() in prefix[at:]:
            at += prefix[at:].index(lines[number].strip()) + 1
            first = number + 1
    last = span[1]
    while first <= last and not lines[first].strip():
        first += 1
    while last >= first and not lines[last].strip():
        last -= 1
    return (first, last, _indent(lines[first])) if first <= last else None


def _function_around(pristine: str, region: Region) -> tuple[str, ...]:
    """Names of the classes and the function that a region of the pristine source lies in."""
    path: tuple[str, ...] = ()
    level = ast.parse(pristine).body
    while True:
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        around = [
            node for node in level if isinstance(node, kinds) and node.lineno < region.first <= node.end_lineno + 1
        ]
        if not around:
            return path
        path, level = (*path, around[-1].name), around[-1].body


def _extent(lines: list[str], path: tuple[str, ...]) -> tuple[int, int] | None:
    """First and last line of a function by the names around it; found by indents, so the file need not parse."""
    first, last, depth = -1, len(lines) - 1, -1
    for name in path:
        pattern = re.compile(rf"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+{re.escape(name)}\b")
        starts = [
            number
            for number in range(first + 1, last + 1)
            if pattern.match(lines[number]) and len(_indent(lines[number])) > depth
        ]
        if not starts:
            return None
        first = starts[-1]  # in Python the last definition counts
        depth = len(_indent(lines[first]))
        last = _end_of_block(lines, first, last, depth)
    return (first, last) if path else None


def _end_of_block(lines: list[str], first: int, last: int, depth: int) -> int:
    head = first
    while head < last and not lines[head].split("#")[0].rstrip().endswith(":"):
        head += 1  # a signature over several lines ends at the margin of its def
    for number in range(head + 1, last + 1):
        if lines[number].strip() and len(_indent(lines[number])) <= depth:
            return number - 1
    return last


def _lost_helpers(text: str, pristine: str) -> str:
    """Imports and functions at the margin that the course's file does not have: what the region of helpers held."""
    try:
        mine, given = ast.parse(text).body, ast.parse(pristine).body
        known = {ast.dump(node) for node in given} | {node.name for node in given if hasattr(node, "name")}
        found = [node for node in mine if ast.dump(node) not in known and getattr(node, "name", "") not in known]
    except UNPARSED:
        return ""
    wanted = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef | ast.Assign
    return "\n\n".join(ast.get_source_segment(text, node) or "" for node in found if isinstance(node, wanted))


def _changes(
    lines: list[str],
    places: dict[str, tuple[int, int, str]],
    good: dict[str, tuple[int, int]],
    pristine: str,
    file: str,
) -> list[str]:
    """What differs outside the regions from the course's file: it has no effect, and its author should know."""
    inside = {number for first, last, _ in places.values() for number in range(first, last + 1)} | _kept(good)
    numbers = [number for number, line in enumerate(lines) if number not in inside and line.strip()]
    mine = [" ".join(lines[number].split()) for number in numbers]
    given, skip = [], {
        line for region in lift(pristine, file).values() for line in range(region.first, region.last + 1)
    }  # fmt: skip
    given = [" ".join(line.split()) for at, line in enumerate(pristine.splitlines(), 1) if at not in skip]
    matcher = difflib.SequenceMatcher(None, [line for line in given if line], mine, autojunk=False)
    steps = [step for step in matcher.get_opcodes() if step[0] != "equal"]
    # Lines that are gone are put back and cost nobody anything; `cst submit` leaves out most of them.
    added = [number for _, _, _, low, high in steps for number in numbers[low:high]]
    if not added:
        return []
    shown = "; ".join(f"line {number + 1}: {lines[number].strip()[:60]}" for number in added[:_SHOWN])
    more = f" and {len(added) - _SHOWN} more" if len(added) > _SHOWN else ""
    return [f"{file}: changes outside the answer regions have no effect ({shown}{more})"]
