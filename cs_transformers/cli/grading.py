"""Commands of instructors who grade: grade, explain, diff."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console
from rich.table import Table

from .common import STATE_STYLE, TROUBLE, USAGE, app

INTERRUPTED = 130
GOES_ON = "the same command with --resume goes on, and nothing is graded twice"
OPEN_NOTEBOOKS = (
    "note: bubblewrap is missing or forbidden here, so while notebooks are re-executed students' code could read and "
    "change your files; install bubblewrap, or pass --no-nbval"
)
GRADES = typer.Argument(help="Folder that `cst grade` wrote.", metavar="GRADES")
SANDBOX = typer.Option("--require-sandbox", help="Refuse to run where students' code cannot be isolated.")


@app.command(epilog="Example: cst grade submissions.zip -o grades --roster roster.csv --jobs 4")
def grade(
    submissions: Annotated[Optional[Path], typer.Argument(help="Folder or zip of what was handed in.")] = None,  # noqa: UP045
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the grades.")] = Path("grades"),
    jobs: Annotated[int, typer.Option(min=1, help="Submissions graded at the same time.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that stands in the folder.")] = False,
    release: Annotated[Optional[Path], typer.Option(help="What was handed out: grade only what it asks for.")] = None,  # noqa: UP045
    only: Annotated[list[str] | None, typer.Option(help="Exercise to grade, such as 1.6; may be given again.")] = None,
    nbval: Annotated[bool, typer.Option(help="Also re-execute the notebooks on each student's mended tree.")] = True,
    roster: Annotated[Optional[Path], typer.Option(help="CSV file of the class: id, name, section.")] = None,  # noqa: UP045
    scheduler: Annotated[Optional[str], typer.Option(help="Address of a Dask scheduler whose cluster works.")] = None,  # noqa: UP045
    require_sandbox: Annotated[bool, SANDBOX] = False,
    merge: Annotated[Optional[list[Path]], typer.Option(help="Saved review page to merge; may be given again.")] = None,  # noqa: UP045
) -> None:
    """Grade a class: take in, run every exercise in a sandbox, write gradebooks, feedback and a report.

    Killed or interrupted, it goes on with --resume. With --merge and no submissions it adds marks of texts to a folder
    of grades and writes the results again.
    """
    from cs_transformers.grading import enclosure, run
    from cs_transformers.grading.merging import merge_pages
    from cs_transformers.grading.released import read_release

    console = Console()
    asked = tuple(only or (read_release(release).open if release else ()))
    if submissions is None:
        if not merge:
            console.print("cst grade: expected a folder or zip of submissions, got none; cst grade --help shows how")
            raise typer.Exit(USAGE)
        classroom, conflicts = merge_pages(out, merge)
    else:
        if nbval and enclosure.tier() != "bubblewrap":
            print(OPEN_NOTEBOOKS, file=sys.stderr)
        with _troubles(console, GOES_ON), _bar(console) as bar:
            task = bar.add_task("taking in", total=None)
            classroom = run.grade(
                submissions, out, jobs=jobs, resume=resume, only=asked, nbval=nbval, scheduler=scheduler,
                require_sandbox=require_sandbox, roster=roster,
                progress=lambda done, total, what: bar.update(task, completed=done, total=total, description=what),
            )  # fmt: skip
        classroom, conflicts = merge_pages(out, merge) if merge else (classroom, [])
    _show(console, classroom, conflicts, out)
    raise typer.Exit(TROUBLE if classroom.ungraded else 0)


@contextlib.contextmanager
def _troubles(console: Console, goes_on: str = "") -> Iterator[None]:
    """Say in a line what stops a run: isolation that is missing, a full disk, or a hand on the keyboard."""
    from cs_transformers.grading.sandbox import SandboxError

    try:
        yield
    except SandboxError as error:
        print(f"cst: {error}", file=sys.stderr)
        raise typer.Exit(TROUBLE) from None
    except OSError as error:
        print(f"cst: {error}{goes_on and f'; mend it, then {goes_on}'}", file=sys.stderr)
        raise typer.Exit(TROUBLE) from None
    except KeyboardInterrupt:
        console.print(f"stopped; {goes_on}" if goes_on else "stopped")
        raise typer.Exit(INTERRUPTED) from None


def _bar(console: Console) -> object:
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    text = TextColumn("{task.description:<32.32}", markup=False)
    columns = (
        text,
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    return Progress(*columns, console=console)


def _show(console: Console, classroom, conflicts: list[str], out: Path) -> None:
    from collections import Counter

    from rich.markup import escape

    table = Table(title="verdicts", title_justify="left")
    records = [record for student in classroom.students.values() for record in student.records.values()]
    states = list(dict.fromkeys(["passed", "partly", "wrong", *sorted(record.state for record in records)]))
    for name in ("id", *states):
        table.add_column(name, justify="right")
    for id in classroom.exercises:
        counts = Counter(record.state for record in records if record.exercise == id)
        cells = (f"[{STATE_STYLE.get(state, 'red')}]{counts[state] or ''}[/]" for state in states)
        table.add_row(id, *cells)
    console.print(table)
    for sentence in conflicts:
        console.print(f"[yellow]conflict[/yellow] {escape(sentence)}", highlight=False)
    for name, reason in classroom.ungraded.items():
        console.print(f"[red]not graded[/red] {escape(name)}: {escape(reason)}", highlight=False)
    absent = sum(student.submission is None for student in classroom.students.values())
    people = f"{len(classroom.students)} people, {absent} absent, {len(classroom.ungraded)} not graded"
    console.print(f"{people}. Gradebook, feedback and report are in {out}", highlight=False)


@app.command(epilog="Example: cst explain grades s1234 1.6")
def explain(
    grades: Annotated[Path, GRADES],
    student: Annotated[str, typer.Argument(help="Id of the person.")],
    exercise: Annotated[str, typer.Argument(help="An exercise such as 1.6.")],
    require_sandbox: Annotated[bool, SANDBOX] = False,
) -> None:
    """Judge one exercise of one student again, with the seeds of the run, and say everything that is known."""
    from cs_transformers.grading.explain import explain_verdict

    with _troubles(Console()):
        found = explain_verdict(grades, student, exercise, require_sandbox=require_sandbox)
    submission, record = found.student.submission, found.again
    print(f"{record.student} {record.exercise}: {record.state}, {record.points} of {record.out_of} points")
    print(f"  handed in as {submission.source}, attempt {submission.attempt} of {found.student.attempts}")
    for part, passed in record.parts.items():
        print(f"  {'not judged' if passed is None else 'passed' if passed else 'not passed':>10}  {part}")
    for line in (*record.lines, *filter(None, [record.incident])):
        print(f"  {line}")
    for name, lines in (("repaired", submission.repairs), ("without effect", submission.changes)):
        for line in lines:
            print(f"  {name}: {line}")
    for name, code in found.code.items():
        print(f"\n{name}, {code}")
    if found.written is None:
        print("the run has no verdict on it yet")
    elif not found.same:
        print(f"the run says: {found.written.state}, {found.written.points} of {found.written.out_of} points")
    else:
        print("the run says the same")
    for line in found.moved:
        print(f"  {line}")
    raise typer.Exit(0 if found.same else TROUBLE)


@app.command(epilog="Example: cst diff grades-monday grades")
def diff(old: Annotated[Path, GRADES], new: Annotated[Path, GRADES]) -> None:
    """List the marks that differ between two folders of grades."""
    from cs_transformers.grading.explain import changes
    from cs_transformers.grading.loading import load

    found = changes(load(old), load(new))
    table = Table("student", "exercise", "old", "new", "points", title="changed marks", title_justify="left")
    for change in found:
        table.add_row(change.student, change.exercise, change.old, change.new, f"{change.points:+g}")
    console = Console()
    console.print(table if found else "no mark has changed")
