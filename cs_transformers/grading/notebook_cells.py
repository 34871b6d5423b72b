"""Reading a student's notebooks: inline answers are lifted, edits of check cells are noted, nothing is run."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cs_transformers.checks import NOTEBOOKS
from cs_transformers.course.classroom import EMPTY_ANSWER

from .repairs import to_text

_ANSWER = re.compile(r"^\s*%%answer[ \t]+(\d{1,2}\.\d{1,2})[ \t]*\n?")
_CHECK = re.compile(r"^[ \t]*check\(\s*['\"](\d{1,2}\.\d{1,2})['\"]", re.MULTILINE)
_START = re.compile(r"\bstart\(\s*['\"](\d{1,2})['\"]\s*\)")
TEXT_LIMIT = 100_000


@dataclass
class Cell:
    """A cell of a notebook.

    Args:
        kind: ``code``, ``markdown``, ``raw``.
        source: Its text.
        id: Its id, or empty.
    """

    kind: str
    source: str
    id: str = ""


@dataclass
class Sheet:
    """A student's notebook.

    Args:
        name: Its file name.
        number: Which notebook of the course it is, ``06``; empty where nothing says so.
        cells: Its cells.
        texts: Inline answers by question.
        notes: Repairs, a sentence each.
    """

    name: str
    number: str
    cells: list[Cell]
    texts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_sheet(name: str, data: bytes) -> Sheet:
    """Read a notebook as tolerantly as its cells allow.

    Args:
        name: Its file name.
        data: Its bytes.

    Raises:
        ValueError: If it is no notebook.
    """
    text, note = to_text(data, name)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: is no notebook ({type(error).__name__}); it is cut off or damaged") from None
    cells = _cells(content)
    if cells is None:
        raise ValueError(f"{name}: is no notebook (it has no list of cells)")
    sheet = Sheet(name, _number(name, cells), cells, notes=[f"{name}: {note}"] if note else [])
    for cell in cells:
        match = _ANSWER.match(cell.source)
        if match is None:
            continue
        question, answer = match[1], cell.source[match.end() :].strip()[:TEXT_LIMIT]
        if cell.kind != "code":
            sheet.notes.append(f"{name}: the answer cell of {question} had become a {cell.kind} cell")
        if is_written(answer):
            if sheet.texts.get(question, answer) != answer:
                sheet.notes.append(f"{name}: {question} is answered in two cells; the last one counts")
            sheet.texts[question] = answer
    return sheet


def is_written(text: str) -> bool:
    """Whether an inline answer holds anything beyond what the course wrote there.

    Args:
        text: The answer.
    """
    return text.strip() not in ("", EMPTY_ANSWER)


def _cells(content: Any) -> list[Cell] | None:
    if not isinstance(content, dict):
        return None
    raw = content.get("cells")
    if raw is None and isinstance(content.get("worksheets"), list):  # notebooks of format 3
        raw = [cell for sheet in content["worksheets"] if isinstance(sheet, dict) for cell in sheet.get("cells") or []]
    if not isinstance(raw, list):
        return None
    found = []
    for cell in raw:
        if isinstance(cell, dict):
            source = cell.get("source", cell.get("input", ""))
            source = "".join(part for part in source if isinstance(part, str)) if isinstance(source, list) else source
            if isinstance(source, str):
                whole = source.encode("utf-8", "replace").decode("utf-8")  # JSON may hold halves of characters
                plain = whole.replace("\r\n", "\n").replace("\r", "\n")
                found.append(Cell(str(cell.get("cell_type", "")), plain, str(cell.get("id") or "")))
    return found


def _number(name: str, cells: list[Cell]) -> str:
    """Which notebook this is: by its set-up cell, by the ids of its cells and checks, by its name."""
    for cell in cells:
        match = _START.search(cell.source)
        if match and match[1].zfill(2) in NOTEBOOKS:
            return match[1].zfill(2)
    votes = Counter(cell.id[:2] for cell in cells if re.match(r"\d\d-", cell.id))
    votes += Counter(id.partition(".")[0].zfill(2) for cell in cells for id in _CHECK.findall(cell.source))
    for number, _ in votes.most_common(1):
        if number in NOTEBOOKS:
            return number
    match = re.match(r"(\d\d)_", Path(name).name)
    return match[1] if match and match[1] in NOTEBOOKS else ""


def edits(sheet: Sheet, course: list[Cell]) -> list[str]:
    """What was done to the check cells of a notebook; it has no effect, and its author should know.

    Args:
        sheet: The student's notebook.
        course: Cells of the course's own.
    """
    wanted, mine = _checks(course), _checks(sheet.cells)
    counts = Counter(id for id, _ in mine)
    gone = [id for id, _ in wanted if id not in counts]
    doubled = [id for id, count in counts.items() if count > 1]
    sources = dict(wanted)
    changed = [id for id, source in dict(mine).items() if id in sources and source != sources[id]]
    order, theirs = [id for id, _ in wanted if id in counts], list(dict.fromkeys(id for id, _ in mine))
    moved = order != [id for id in theirs if id in sources]
    kinds = [(gone, "deleted or no code any more"), (doubled, "doubled"), (changed, "changed")]
    parts = [f"{', '.join(ids)} {what}" for ids, what in kinds if ids] + ["their order changed"] * moved
    if not parts:
        return []
    return [f"{sheet.name}: check cells of {'; '.join(parts)}; without effect, the course's own notebook is used"]


def _checks(cells: list[Cell]) -> list[tuple[str, str]]:
    found = []
    for cell in cells:
        match = _CHECK.search(cell.source)
        if match and cell.kind == "code":
            found.append((match[1], "\n".join(line.rstrip() for line in cell.source.strip().splitlines())))
    return found
