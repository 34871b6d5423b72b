"""Marked regions of a source file: one grammar for finding, lifting, splicing and stubbing them.

Three kinds of region exist. ``SOLUTION`` holds the model answer of one exercise in the instructor edition, ``ANSWER``
the student's in the student edition, and ``REFERENCE ONLY`` code that the student edition does not have at all.
A region of the first two kinds bears a name: an exercise (``1.6``), an exercise with the function meant where it has
several (``1.5 split_heads``), or ``helpers`` for a module's own imports and functions.
"""

from __future__ import annotations

import ast
import codecs
import functools
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

HELPERS = "helpers"
# What parsing raises for a source that is no Python, or nested deeper than the interpreter can follow.
UNPARSED = (SyntaxError, ValueError, RecursionError, MemoryError)
_MARKER = re.compile(r"^(?P<indent>[ \t]*)###[ \t]*(?P<edge>BEGIN|END)\b[ \t]*(?P<rest>.*?)[ \t]*$", re.IGNORECASE)
_NAMED = re.compile(
    r"^(?P<kind>SOLUTION|ANSWER)[ \t]+(?P<name>helpers|\d+\.\d+(?:[ \t]+[A-Za-z_]\w*)?)$", re.IGNORECASE
)
_REFERENCE_ONLY = re.compile(r"^REFERENCE[ \t]+ONLY$", re.IGNORECASE)


class MarkerError(ValueError):
    """A marker that breaks the grammar; the message names the file and the line.

    Args:
        path: What the message calls the file.
        line: Line number, counted from 1.
        problem: What is wrong and what to do.
    """

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(f"{path}, line {line}: {problem}")
        self.path, self.line, self.problem = path, line, problem


@dataclass(frozen=True)
class Region:
    """One marked region.

    Args:
        kind: ``SOLUTION``, ``ANSWER`` or ``REFERENCE ONLY``.
        name: ``1.6``, ``1.5 split_heads`` or ``helpers``; empty for ``REFERENCE ONLY``.
        first: Line number of the BEGIN marker, counted from 1.
        last: Line number of the END marker.
        indent: Blanks before the BEGIN marker.
        body: The lines between the markers as they stand, each with its line end.
    """

    kind: str
    name: str
    first: int
    last: int
    indent: str
    body: str

    @property
    def exercise(self) -> str:
        """The exercise this region belongs to (``1.5`` for ``1.5 split_heads``)."""
        return self.name.split()[0] if self.name else ""


def read_source(path: Path | str) -> str:
    """Text of a source file with line feeds alone, whatever byte order mark or line ends an editor left in it.

    Args:
        path: The file.
    """
    return decode_source(Path(path).read_bytes(), str(path))


def decode_source(data: bytes, path: str = "<bytes>") -> str:
    """Text of a source file's bytes: UTF-8 with or without its mark, or UTF-16 with its mark.

    Args:
        data: Bytes of the file.
        path: What the message calls it.

    Raises:
        ValueError: If the bytes are not text of these encodings.
    """
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: expected Python source in UTF-8, got other bytes ({error.reason} at byte "
            f"{error.start}); save the file as UTF-8"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def find_regions(text: str, path: str = "<source>") -> list[Region]:
    r"""All regions of a source, in order.

    Args:
        text: A source.
        path: What messages call it.

    Raises:
        MarkerError: For a marker that is nested, unclosed, repeated, unknown or closes what is not open.

    Example:
        >>> [(r.name, r.body) for r in find_regions("### BEGIN ANSWER 1.4\nreturn 1\n### END ANSWER 1.4\n")]
        [('1.4', 'return 1\n')]
    """
    return list(_regions(text, path))


@functools.lru_cache(maxsize=256)
def _regions(text: str, path: str) -> tuple[Region, ...]:
    """The regions of a text; grading asks for those of the same few texts again and again."""
    regions: list[Region] = []
    opened: tuple[str, str, int, str] | None = None
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        match = _MARKER.match(line.rstrip("\n")) if "###" in line else None
        if match is None:
            continue
        kind, name = _parse_marker(match["rest"], path, number)
        if match["edge"].upper() == "BEGIN":
            if opened is not None:
                raise MarkerError(
                    path,
                    number,
                    f"{_label(kind, name)} begins inside {_label(*opened[:2])}, "
                    f"begun in line {opened[2]}; close that one first",
                )
            twin = next((region for region in regions if name and region.name == name), None)
            if twin is not None:
                raise MarkerError(
                    path,
                    number,
                    f"{_label(kind, name)} is here a second time, first in line {twin.first}; keep one of the two",
                )
            opened = (kind, name, number, match["indent"])
        else:
            if opened is None or opened[:2] != (kind, name):
                expected = "no open region" if opened is None else f"{_label(*opened[:2])} open since line {opened[2]}"
                raise MarkerError(
                    path, number, f"END of {_label(kind, name)} meets {expected}; restore the marker lines"
                )
            body = "".join(lines[opened[2] : number - 1])
            regions.append(Region(kind, name, opened[2], number, opened[3], body))
            opened = None
    if opened is not None:
        raise MarkerError(path, opened[2], f"{_label(*opened[:2])} has no END marker; restore it")
    return tuple(regions)


def _parse_marker(rest: str, path: str, number: int) -> tuple[str, str]:
    if _REFERENCE_ONLY.match(rest):
        return "REFERENCE ONLY", ""
    match = _NAMED.match(rest)
    if match is None:
        raise MarkerError(
            path,
            number,
            f"unknown marker {rest!r}; expected SOLUTION or ANSWER with an exercise "
            "such as 1.6 or the word helpers, or REFERENCE ONLY",
        )
    name = " ".join(match["name"].split())
    return match["kind"].upper(), HELPERS if name.lower() == HELPERS else name


def _label(kind: str, name: str) -> str:
    return f"{kind} {name}".strip()


def lift(text: str, path: str = "<source>") -> dict[str, Region]:
    """The named regions of a source by name.

    Args:
        text: A source.
        path: What messages call it.
    """
    return {region.name: region for region in find_regions(text, path) if region.name}


def splice(text: str, bodies: dict[str, str], path: str = "<source>") -> str:
    """The source with the bodies of some regions replaced; everything else stays as it is.

    Args:
        text: A source with markers.
        bodies: Raw lines by region name, indented as they shall stand (see :func:`indented`).
        path: What messages call the source.

    Raises:
        ValueError: If the source has no region of a name.
    """
    regions = lift(text, path)
    missing = sorted(set(bodies) - set(regions))
    if missing:
        raise ValueError(
            f"{path}: expected a region {missing[0]}, got only {', '.join(regions) or 'none'}; restore the marker lines"
        )
    lines = text.splitlines(keepends=True)
    for region in sorted((regions[name] for name in bodies), key=lambda region: -region.first):
        body = bodies[region.name]
        if body and not body.endswith("\n"):
            body += "\n"
        lines[region.first : region.last - 1] = body.splitlines(keepends=True)
    return "".join(lines)


def indented(body: str, indent: str) -> str:
    """A body written at the left margin, moved to where a region stands.

    Args:
        body: Lines at the left margin.
        indent: Blanks to put before each.
    """
    return textwrap.indent(textwrap.dedent(body), indent)


def remove_reference_only(text: str, path: str = "<source>") -> str:
    """The source without its REFERENCE ONLY regions.

    Args:
        text: A source.
        path: What messages call it.
    """
    lines = text.splitlines(keepends=True)
    for region in reversed(find_regions(text, path)):
        if region.kind == "REFERENCE ONLY":
            del lines[region.first - 1 : region.last]
    return "".join(lines)


def make_stubs(text: str, path: str = "<source>", *, keep: tuple[str, ...] = (), later: tuple[str, ...] = ()) -> str:
    r"""The student edition of a source: solutions become stubs that raise, REFERENCE ONLY regions vanish.

    The helpers of a model answer go with it: they stay, outside the markers, where the file keeps a solution, and the
    student finds an empty region of that name where the file has something to write.

    Args:
        text: Source of the instructor edition.
        path: What messages call the source.
        keep: Exercises that are released solved; their marker lines vanish and their code stays.
        later: Exercises that are handed out another time: a stub stays, without markers.

    Example:
        >>> make_stubs("### BEGIN SOLUTION 1.4\nreturn 1\n### END SOLUTION 1.4").splitlines()[1]
        'raise NotImplementedError("exercise 1.4 is not written yet")'
    """
    text = remove_reference_only(text, path)
    lines, regions = text.splitlines(keepends=True), find_regions(text, path)
    exercises = {region.exercise for region in regions if region.name != HELPERS}
    to_write = exercises - set(keep) - set(later)
    for region in reversed(regions):
        end = "\n" if lines[region.last - 1].endswith("\n") else ""
        stub = region.indent + stub_line(region.name) + "\n"
        answer = [
            f"{region.indent}### BEGIN ANSWER {region.name}\n",
            stub,
            f"{region.indent}### END ANSWER {region.name}{end}",
        ]
        if region.name == HELPERS:
            kept = region.body.splitlines(keepends=True) if exercises & set(keep) and not is_stub(region.body) else []
            stands = [*kept, *(answer if to_write or not exercises else [])]
        elif region.exercise in keep:
            stands = region.body.splitlines(keepends=True)
        else:
            stands = [stub.replace("is not written yet", "comes later")] if region.exercise in later else answer
        lines[region.first - 1 : region.last] = stands
    return "".join(lines)


def stub_line(name: str) -> str:
    """What an unanswered region holds, without its indent.

    Args:
        name: Name of the region.
    """
    if name == HELPERS:
        return "# Your own imports and functions, for the answers of this file."
    return f'raise NotImplementedError("exercise {name} is not written yet")'


def is_stub(body: str) -> bool:
    """Whether a body only raises NotImplementedError (or holds nothing): there is no answer yet.

    Args:
        body: Lines of a region.
    """
    try:
        statements = ast.parse(textwrap.dedent(body)).body
    except UNPARSED:
        return False
    return all(_says_nothing(statement) for statement in statements)


def _says_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Raise):
        raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
        return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return constant or isinstance(statement, ast.Pass)


def body_problem(region: Region) -> tuple[int, str] | None:
    """What makes a body impossible to splice: (line in the file, sentence), or None.

    An answer must be Python and must stay inside its function; it may not end the function and go on at the margin.

    Args:
        region: A region.
    """
    in_function = region.name != HELPERS and bool(region.indent)
    header = f"def _answer():\n{region.indent}0\n" if in_function else "0\n0\n"
    try:
        tree = ast.parse(header + region.body)
    except UNPARSED as error:
        line = region.first + (getattr(error, "lineno", None) or 3) - 2
        return min(max(line, region.first), region.last), f"not valid Python ({getattr(error, 'msg', error)})"
    if in_function and len(tree.body) != 1:
        line = region.first + tree.body[1].lineno - 2
        return line, f"the answer to {region.name} leaves its function; keep every line indented like its marker"
    return None
