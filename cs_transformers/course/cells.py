"""Cells of a notebook as plain JSON: their text, the marked regions in them, the answers to inline questions.

Nothing beyond the standard library is needed, so that it works where nbformat is absent.
"""

from __future__ import annotations

import json
from typing import Any

from cs_transformers.checks.markers import MarkerError, find_regions, make_stubs

ANSWER = "%%answer"


def text_of(cell: dict[str, Any]) -> str:
    """Return the text of a cell, which the format keeps as one text or as lines.

    Args:
        cell: The cell.

    Returns:
        Its text with line feeds alone.
    """
    source = cell.get("source", "")
    text = source if isinstance(source, str) else "".join(map(str, source))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check_markers(notebook: dict[str, Any], name: str) -> None:
    """Hold the markers in a notebook's code cells to the grammar of source files.

    Args:
        notebook: The notebook.
        name: Its file name.

    Raises:
        MarkerError: For a nested, unclosed, repeated or unknown marker; the line is counted within the cell, which the
            message names.
    """
    seen: dict[str, int] = {}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        where = f"{name}, cell {number}"
        for region in find_regions(text_of(cell), where):
            if region.name and region.name in seen:
                raise MarkerError(
                    where,
                    region.first,
                    f"{region.kind} {region.name} is here a second time, first in cell {seen[region.name]}; "
                    "keep one of the two",
                )
            seen[region.name] = number


def stubbed_cells(
    notebook: dict[str, Any], name: str, *, keep: tuple[str, ...] = (), later: tuple[str, ...] = ()
) -> None:
    """Put stubs in place of the solutions in a notebook's code cells.

    Args:
        notebook: The notebook; it is changed in place.
        name: Its file name.
        keep: Exercises that are released solved.
        later: Exercises that are handed out another time.
    """
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code" and "###" in text_of(cell):
            text = make_stubs(text_of(cell), f"{name}, cell {number}", keep=keep, later=later)
            cell["source"] = text.splitlines(keepends=True)


def is_notebook(data: bytes) -> bool:
    """Whether a file can be read as a notebook.

    Args:
        data: Content of the file.
    """
    try:
        return all(isinstance(cell, dict) for cell in json.loads(data.decode("utf-8-sig"))["cells"])
    except (ValueError, KeyError, TypeError):
        return False


def inline_answers(data: bytes) -> dict[str, str]:
    """Return what stands in the answer cells of a notebook file.

    Args:
        data: Content of the file.

    Returns:
        Text by question, the last cell of each; empty where the file is no notebook.
    """
    found: dict[str, str] = {}
    try:
        cells = json.loads(data.decode("utf-8-sig"))["cells"]
        for cell in cells:
            first, _, text = text_of(cell).partition("\n")
            if first.startswith(ANSWER) and cell.get("cell_type") == "code":
                found[first[len(ANSWER) :].strip()] = text.strip()
    except (ValueError, KeyError, TypeError, AttributeError):
        return found
    return found


def with_answers(text: str, answers: dict[str, str]) -> str:
    """Return a notebook's JSON with texts put into its answer cells.

    Args:
        text: The notebook's JSON.
        answers: Text by question.

    Returns:
        The JSON; other cells stay as they are.
    """
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        first = text_of(cell).partition("\n")[0]
        question = first[len(ANSWER) :].strip() if first.startswith(ANSWER) else ""
        if question in answers:
            cell["source"] = f"{first}\n{answers[question]}".splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
