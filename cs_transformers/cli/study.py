"""Commands of everybody: run, check, hint, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from .common import TROUBLE, WRONG, add_verdict, app, as_typed, notebooks_folder, sum_line, verdict_table


@app.command(epilog="Example: cst run 01 02")
def run(
    numbers: Annotated[Optional[list[str]], typer.Argument(help="Notebooks, such as 01 04; all by default.")] = None,  # noqa: UP045
    folder: Annotated[Optional[Path], typer.Option(help="Where the notebooks lie; notebooks/ by default.")] = None,  # noqa: UP045
    out: Annotated[Path, typer.Option(help="Where the HTML copies go.")] = Path("run"),
) -> None:
    """Execute the notebooks, show a table of exercises and points, write HTML copies.

    Works on stubs too: what is not written yet is a row in the table.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from cs_transformers.course import run as course_run

    paths = course_run.find_notebooks(folder or notebooks_folder(), numbers)
    console, runs = Console(), []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        for path in paths:
            if not console.is_terminal:  # no bar there: a line says how far it is
                console.print(path.stem)
            task = progress.add_task(path.stem, total=course_run.count_cells(path))
            runs.append(course_run.run_notebook(path, out, lambda _, task=task: progress.advance(task)))
            progress.update(task, completed=progress.tasks[task].total)
    table = verdict_table("exercises")
    verdicts = [verdict for one in runs for verdict in course_run.all_verdicts(one)]
    for verdict in verdicts:
        add_verdict(table, verdict)
    console.print(table)
    for one in runs:
        for problem in one.problems:
            console.print(f"[red]{one.name}[/red] {escape(problem)}", highlight=False)
    console.print(f"{sum_line(verdicts)}. Pages: {course_run.write_index(runs, out)}")
    raise typer.Exit(0 if course_run.all_solved(runs) else WRONG)


@app.command(epilog="Example: cst check 1.6")
def check(
    exercises: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(help="Exercises such as 1.6, or whole notebooks such as 01; all by default."),
    ] = None,
    details: Annotated[bool, typer.Option(help="Also show each part and what the code printed.")] = False,
) -> None:
    """Check exercises, those of a notebook, or all, as grading does."""
    from cs_transformers import checks
    from cs_transformers.course.places import which_copy

    if exercises:
        right = _check_one_by_one(exercises, details)
    else:
        console = Console()
        with console.status("checking") as status:
            verdicts = checks.run_all(progress=lambda verdict: status.update(f"{verdict.id} {verdict.symbol}"))
        table = verdict_table("exercises")
        for verdict in verdicts:
            add_verdict(table, verdict)
        console.print(table)
        console.print(sum_line(verdicts))
        right = all(one.passed for one in verdicts if one.out_of)
    print(f"checked: {which_copy()}")
    raise typer.Exit(0 if right else WRONG)


def _check_one_by_one(names: list[str], details: bool) -> bool:
    from cs_transformers import checks

    verdicts = []
    for id in checks.ids_of(names):
        verdicts.append(checks.run(id))
        print(as_typed(str(verdicts[-1])))
        for line in checks.details_of(verdicts[-1]) if details else []:
            print(line)
    if len(verdicts) > 1:
        print(sum_line(verdicts))
    return all(one.state in ("passed", "awaiting review") for one in verdicts)


@app.command(epilog="Example: cst hint 1.6")
def hint(
    exercises: Annotated[list[str], typer.Argument(help="An exercise such as 1.6, or several.")],
    step: Annotated[Optional[int], typer.Option(help="Which of the three; the next one by default.")] = None,  # noqa: UP045
) -> None:
    """Give the next hint for an exercise: three steps, from a nudge to nearly the answer."""
    from cs_transformers import checks

    for exercise in exercises:
        print(as_typed(checks.next_hint(exercise, step)))


@app.command(epilog="Example: cst doctor")
def doctor() -> None:
    """Look at versions, device, the package that is really imported, and the data; say what to do."""
    from cs_transformers.course.doctor import examine

    columns = "what", Column("found", overflow="fold"), Column("what to do", overflow="fold")
    table = Table(*columns, title="this machine", title_justify="left")
    findings = examine()
    for finding in findings:
        style = "red" if finding.serious else "yellow" if finding.advice else "green"
        table.add_row(finding.what, f"[{style}]{escape(finding.found)}[/{style}]", escape(finding.advice))
    Console().print(table)
    raise typer.Exit(TROUBLE if any(finding.serious for finding in findings) else 0)
