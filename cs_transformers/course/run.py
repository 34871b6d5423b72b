"""Running the notebooks as a whole: execute each, keep an HTML copy, gather the verdicts of their check cells."""

from __future__ import annotations

import html
import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cs_transformers import checks
from cs_transformers.checks import EXERCISES, edition, tree
from cs_transformers.checks.front import RECORD
from cs_transformers.checks.verdict import Verdict
from cs_transformers.course import notebooks
from cs_transformers.files import replace_file


@dataclass
class NotebookRun:
    """What became of one notebook.

    Args:
        name: The notebook's stem, ``"01_attention"``.
        page: The HTML copy, or None where the notebook could not be executed.
        problems: One line for each cell that ended in an error.
        verdicts: Verdicts of its check cells by exercise, the last of each.
    """

    name: str
    page: Path | None = None
    problems: list[str] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)


def find_notebooks(folder: Path, numbers: Iterable[str] | None = None) -> list[Path]:
    """Find the course's notebooks.

    Args:
        folder: Where they lie.
        numbers: Which ones, such as ``["01", "4"]``; None takes all.

    Returns:
        Their paths, in order.

    Raises:
        ValueError: If there is no notebook, or none for one of the numbers.
    """
    paths = {path.stem[:2]: path for path in sorted(folder.glob("[0-9][0-9]_*.ipynb"))}
    if not paths:
        raise ValueError(f"expected notebooks such as 01_attention.ipynb in {folder}, found none: pass --folder")
    if not numbers:
        return list(paths.values())
    wanted = [number.zfill(2) for number in numbers]
    missing = [number for number in wanted if number not in paths]
    if missing:
        raise ValueError(f"expected numbers of notebooks in {folder.name}/ ({', '.join(paths)}), got {missing[0]}")
    return [paths[number] for number in wanted]


def count_cells(path: Path) -> int:
    """Count the cells of a notebook, for a progress bar.

    Args:
        path: The notebook.

    Returns:
        Their number, 0 where the file is no notebook.
    """
    try:
        return len(notebooks.read(path).cells)
    except ValueError:
        return 0


def run_notebook(path: Path, out: Path, on_cell: Callable[[int], None] | None = None) -> NotebookRun:
    """Execute one notebook without touching its file, and write an HTML copy.

    Args:
        path: The notebook.
        out: Folder for the page.
        on_cell: Called with the index of each cell when it has run.

    Returns:
        What became of it; a file that is no notebook, a dead kernel or a cell beyond its limit is a problem, not an
        exception.
    """
    run = NotebookRun(path.stem)
    try:
        notebook = notebooks.read(path)
    except ValueError as error:
        run.problems.append(str(error))
        return run
    with tempfile.TemporaryDirectory() as scratch:
        record = Path(scratch) / "verdicts.jsonl"
        try:
            notebooks.execute(notebook, path.parent, environment={RECORD: str(record)}, on_cell=on_cell)
        except notebooks.StoppedError as error:
            run.problems.append(str(error))
        run.verdicts = read_verdicts(record)
    run.problems += notebooks.errors(notebook)
    run.page = replace_file(out / f"{path.stem}.html", notebooks.to_html(notebook, path.stem))
    return run


def read_verdicts(record: Path) -> dict[str, Verdict]:
    """Read what the check cells of one run left; lines that are no verdict are passed over.

    Args:
        record: The file of JSON lines, or a path where there is none.

    Returns:
        The last verdict on each exercise.
    """
    found: dict[str, Verdict] = {}
    if record.is_file():
        for line in record.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                verdict = Verdict(**json.loads(line))
            except (ValueError, TypeError):
                continue
            if verdict.id in EXERCISES:
                found[verdict.id] = verdict
    return found


def write_index(runs: list[NotebookRun], out: Path) -> Path:
    """Write the page that links the copies and shows every verdict.

    Args:
        runs: What became of the notebooks.
        out: Folder of the pages.

    Returns:
        The page.
    """
    rows = []
    for run in runs:
        name = html.escape(run.name)
        title = f'<a href="{name}.html">{name}</a>' if run.page else name
        rows.append(f'<tr><th colspan="4">{title}</th></tr>')
        for verdict in all_verdicts(run):
            cells = (verdict.id, verdict.symbol, verdict.state, points_text(verdict))
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
        rows += [f'<tr><td colspan="4">{html.escape(problem)}</td></tr>' for problem in run.problems]
    return replace_file(out / "index.html", PAGE.replace("ROWS", "\n".join(rows)))


def points_text(verdict: Verdict) -> str:
    """Write the points of a verdict as people read them.

    Args:
        verdict: The verdict.

    Returns:
        Text such as ``"4 of 4"`` or ``"2 of 2, text 3"``.
    """
    code = f"{verdict.points} of {verdict.out_of}" if verdict.out_of else ""
    text = f"text {verdict.review}" if verdict.review else ""
    return ", ".join(part for part in (code, text) if part)


def all_verdicts(run: NotebookRun) -> list[Verdict]:
    """Give a verdict on every exercise of a notebook that ran, in the course's order.

    Args:
        run: What became of the notebook.

    Returns:
        The verdicts of its check cells; a text has no such cell and is looked up; code whose cell left no verdict,
        since the run broke off before it, is *stopped*.
    """
    found = []
    for one in edition.load(tree.PACKAGE).asked([run.name[:2]]):
        if one.id in run.verdicts:
            found.append(run.verdicts[one.id])
        elif one.parts:
            points, review = sum(one.parts.values()), sum(one.rubric.values())
            reason = ["its check cell left no verdict in this run"]
            found.append(Verdict(one.id, one.symbol, "stopped", out_of=points, review=review, lines=reason))
        else:
            found.append(checks.run(one.id))
    return found


def all_solved(runs: list[NotebookRun]) -> bool:
    """Tell whether every automatic exercise of the notebooks that ran has passed and no cell failed.

    Args:
        runs: What became of the notebooks.

    Returns:
        True if so; an exercise whose check cell left no verdict counts as not passed.
    """
    wanted = [verdict for run in runs for verdict in all_verdicts(run) if verdict.out_of]
    return not any(run.problems for run in runs) and all(verdict.passed for verdict in wanted)


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>The course, executed</title><style>
:root { color-scheme: light dark } body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto }
table { border-collapse: collapse; width: 100% } td, th { padding: .2rem .8rem; text-align: left }
th { border-bottom: 1px solid; padding-top: 1rem }
</style></head><body><h1>The course, executed</h1><table>
ROWS
</table></body></html>
"""
