"""Model answers for those who study by themselves: the code of a solution, what it is, and what often goes wrong.

The instructor edition reads them from its sources. An edition for self-study keeps them in ``solutions.zip``, where no
search through the files comes upon them by accident; every other edition has neither.
"""

from __future__ import annotations

import ast
import json
import re
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cs_transformers.checks import EXERCISES, NOTEBOOKS, exercise, tree
from cs_transformers.checks.markers import lift, read_source, remove_reference_only
from cs_transformers.course.cells import inline_answers

STORED = "solutions.zip"


@dataclass(frozen=True)
class Solution:
    """A model answer.

    Args:
        id: The exercise.
        symbol: What is written.
        file: Where.
        code: The functions with their solution, each from its ``def`` on.
        why: What each function is: the words and the formula above its arguments.
        mistakes: What often goes wrong, a sentence each.
        names: What a good text names, with its points.
        text: A model answer to an inline question, in Markdown.
    """

    id: str
    symbol: str
    file: str
    code: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()
    names: dict[str, int] = field(default_factory=dict)
    text: str = ""

    def __str__(self) -> str:
        parts = [f"{self.id} {self.symbol}" + (f" ({self.file})" if self.file else "")]
        parts += [*self.code, *filter(None, [self.text])]
        if self.why:
            parts.append("What it is:\n" + "\n\n".join(self.why))
        if self.mistakes:
            parts.append("What often goes wrong:\n" + "\n".join(f"* {line}" for line in self.mistakes))
        if self.names:
            parts.append("A good text names:\n" + "\n".join(f"* {name} ({n})" for name, n in self.names.items()))
        return "\n\n".join(parts)


def solution(id: str, package: Path = tree.PACKAGE) -> Solution:
    """Return the model answer to an exercise.

    Args:
        id: The exercise, ``"1.6"``.
        package: Folder of the package.

    Returns:
        Its code, what it is, and what often goes wrong.

    Raises:
        ValueError: If there is no such exercise, or this edition holds no solution of it.
    """
    one = exercise(id)
    stored = package / "course" / STORED
    if not stored.is_file():
        return _from_sources(one.id, package)
    with zipfile.ZipFile(stored) as archive:
        name = f"{one.id}.json"
        if name not in archive.namelist():
            raise ValueError(f"solution: expected an exercise to write in this edition, got {one.id}; it is given")
        record = json.loads(archive.read(name))
    return Solution(**{key: tuple(value) if isinstance(value, list) else value for key, value in record.items()})


def gather(package: Path, ids: tuple[str, ...]) -> dict[str, bytes]:
    """Return the model answers of an instructor edition as files.

    Args:
        package: Folder of its package.
        ids: Exercises.

    Returns:
        Content by file name.
    """
    found = {f"{id}.json": asdict(_from_sources(id, package)) for id in ids}
    return {name: json.dumps(record, ensure_ascii=False, indent=1).encode() for name, record in found.items()}


def _from_sources(id: str, package: Path) -> Solution:
    from cs_transformers.checks.refresh import mistakes_of

    one = EXERCISES[id]
    code: list[str] = []
    why: list[str] = []
    if one.file:
        text = remove_reference_only(read_source(package / one.file), one.file)
        regions = [region for region in lift(text, one.file).values() if region.exercise == id]
        if not regions or any(region.kind != "SOLUTION" for region in regions):
            raise ValueError(
                f"solution: expected an edition that holds solutions, got none of {id} in {one.file}; `cst hint {id}` "
                "goes nearly as far"
            )
        code = [_function_around(text, region.first, region.last) for region in regions]
        why = [said for region in regions if (said := _said_above(text, region.first, region.last))]
    mistakes = dict.fromkeys(mistake.diagnosis for mistake in mistakes_of(id, package / "checks" / "mistakes"))
    notebook = package.parent / "notebooks" / f"{NOTEBOOKS[one.notebook].name}.ipynb"
    texts = inline_answers(notebook.read_bytes()) if notebook.is_file() else {}
    return Solution(
        id, one.symbol, one.file, tuple(code), tuple(why), tuple(mistakes), dict(one.rubric), texts.get(id, "")
    )


def _around(text: str, first: int, last: int) -> list[ast.FunctionDef | ast.ClassDef]:
    """Functions and classes that hold a region, the innermost first."""
    around = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and node.lineno < first
        and (node.end_lineno or 0) >= last - 1
    ]
    return sorted(around, key=lambda one: -one.lineno)


def _said_above(text: str, first: int, last: int) -> str:
    """What the docstring around a region says before it comes to the arguments; a method may leave it to its class."""
    said = next(filter(None, map(ast.get_docstring, _around(text, first, last))), "")
    return re.split(r"^(?:Args|Returns|Raises|Example|Source):", said, maxsplit=1, flags=re.MULTILINE)[0].strip()


def _function_around(text: str, first: int, last: int) -> str:
    """The function that holds a region, without its docstring and the marker lines."""
    lines = text.splitlines()
    node = next((one for one in _around(text, first, last) if isinstance(one, ast.FunctionDef)), None)
    if node is None:
        return "\n".join(lines[first : last - 1])
    docstring = node.body[0] if ast.get_docstring(node) is not None else None
    hidden = set(range(docstring.lineno, (docstring.end_lineno or 0) + 1)) if docstring else set()
    shown = [
        line[node.col_offset :]
        for number, line in enumerate(lines[node.lineno - 1 : last - 1], start=node.lineno)
        if number not in hidden and not line.lstrip().startswith("### ")
    ]
    return "\n".join(shown).rstrip()
