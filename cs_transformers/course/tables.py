"""The table notebook, module, exercises in the README: written from the registry, never by hand."""

from __future__ import annotations

from pathlib import Path

from cs_transformers.checks import EXERCISES, NOTEBOOKS
from cs_transformers.course.classroom import course_home
from cs_transformers.files import replace_file

BEGIN, END = "<!-- exercises:begin -->", "<!-- exercises:end -->"


def exercise_table() -> str:
    """Write the table of notebooks.

    Returns:
        A Markdown table: notebook, module, exercises, points.
    """
    rows = ["| notebook | module | exercises | points |", "| --- | --- | --- | --- |"]
    for notebook in NOTEBOOKS.values():
        own = [one for one in EXERCISES.values() if one.notebook == notebook.number]
        files = dict.fromkeys(one.file for one in own if one.file)
        modules = ", ".join(f"[`{file}`](cs_transformers/{file})" for file in files) or "-"
        exercises = ", ".join(f"{one.id} `{one.symbol}`" if one.file else f"{one.id} {one.symbol}" for one in own)
        link = f"[{notebook.name}](notebooks/{notebook.name}.ipynb)"
        rows.append(f"| {link} | {modules} | {exercises} | {sum(one.points for one in own)} |")
    return "\n".join(rows)


def update_readme(path: Path | None = None) -> bool:
    """Put the table between its two comments in the README.

    Args:
        path: The README; None takes the course's own.

    Returns:
        Whether the file changed.

    Raises:
        ValueError: If the comments are not there, once each and in order.
    """
    path = path or course_home() / "README.md"
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"update_readme: expected {BEGIN} and {END} once each in {path.name}; put them back")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    updated = f"{before}{BEGIN}\n{exercise_table()}\n{END}{after}"
    if updated != text:
        replace_file(path, updated)
    return updated != text
