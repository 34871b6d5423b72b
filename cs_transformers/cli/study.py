"""Commands of everybody: run, check, hint, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console
from rich.table import Table

from .common import TROUBLE, WRONG, add_verdict, app, notebooks_folder, sum_line, verdict_table


@app.command(epilog="Example: cst run 01 02")
def run(
    numbers: Annotated[Optional[list[str]], typer.Argument(help="Notebooks, such as 01 04; all by default.")] = None,  # noqa: UP045
    folder: Annotated[Optional[Path], typer.Option(help="Where the notebooks lie; notebooks/ by default.")] = None,  # noqa: UP045
    out: Annotated[Path, typer.Option(help="Where the HTML copies go.")] = Path("run"),
) -> None:
    """Execute the notebooks, show a table of exercises and points, write HTML copies.

    Works on stubs too: what is not written yet is a row in the table.
    """
    from rich.markup import escape
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
    exercise: Annotated[Optional[str], typer.Argument(help="An exercise such as 1.6; all by default.")] = None,  # noqa: UP045
    details: Annotated[bool, typer.Option(help="Also show each part and what the code printed.")] = False,
) -> None:
    """Check one exercise, or all, as grading does."""
    from cs_transformers import checks

    if exercise is not None:
        verdict = checks.run(exercise)
        print(verdict)
        if details:
            for part, passed in verdict.parts.items():
                print(f"  {'passed' if passed else 'not passed':>10}  {part}")
            print(verdict.output, end="")
        raise typer.Exit(0 if verdict.state in ("passed", "awaiting review") else WRONG)
    console = Console()
    with console.status("checking") as status:
        verdicts = checks.run_all(progress=lambda verdict: status.update(f"{verdict.id} {verdict.symbol}"))
    table = verdict_table("exercises")
    for verdict in verdicts:
        add_verdict(table, verdict)
    console.print(table)
    console.print(sum_line(verdicts))
    raise typer.Exit(0 if all(one.passed for one in verdicts if one.out_of) else WRONG)


@app.command(epilog="Example: cst hint 1.6")
def hint(
    exercise: Annotated[str, typer.Argument(help="An exercise such as 1.6.")],
    step: Annotated[Optional[int], typer.Option(help="Which of the three; the next one by default.")] = None,  # noqa: UP045
) -> None:
    """Give the next hint for an exercise: three steps, from a nudge to nearly the answer."""
    from cs_transformers import checks

    checks.hint(exercise, step)


@app.command(epilog="Example: cst doctor")
def doctor() -> None:
    """Look at versions, device, the package that is really imported, and the data; say what to do."""
    from cs_transformers.course.doctor import examine

    table = Table("what", "found", "what to do", title="this machine", title_justify="left")
    findings = examine()
    for finding in findings:
        style = "red" if finding.serious else "yellow" if finding.advice else "green"
        table.add_row(finding.what, f"[{style}]{finding.found}[/{style}]", finding.advice)
    Console().print(table)
    raise typer.Exit(TROUBLE if any(finding.serious for finding in findings) else 0)
