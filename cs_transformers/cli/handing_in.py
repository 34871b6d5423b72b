"""Commands of students who move between editions and hand in: submit, update, and solution where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from .common import WRONG, add_verdict, app, verdict_table


@app.command(epilog="Example: cst submit")
def submit(
    out: Annotated[Optional[Path], typer.Option("-o", "--out", help="File to write; submission.zip here.")] = None,  # noqa: UP045
    declaration: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="How you used AI, where the course asks for it; otherwise you are asked."),
    ] = None,
    check: Annotated[bool, typer.Option(help="Run the checks first.")] = True,
) -> None:
    """Run the checks and write the zip that you hand in. It is written whatever they say.

    Nothing is sent anywhere. The exit code is 0 if everything is right and answered, else 1.
    """
    from cs_transformers.course import submission

    console = Console()

    def show(verdicts: list) -> None:
        table = verdict_table("what you hand in")
        for verdict in verdicts:
            add_verdict(table, verdict)
        console.print(table)

    status = console.status("checking")
    if check:
        status.start()

    def tell(verdict: object) -> None:
        status.update(f"{verdict.id} {verdict.symbol}")

    try:
        handed = submission.submit(
            out, declaration=declaration, check=check, progress=tell, show=lambda rows: (status.stop(), show(rows))
        )
    finally:
        status.stop()
    print(handed.summary())
    raise typer.Exit(0 if handed.complete else WRONG)


@app.command(epilog="Example: cst update transformers.zip")
def update(
    new: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="Zip, folder or address of the newer edition; where this one came from by default."),
    ] = None,
    answers: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Instead: take the answers of this submission or copy, where yours are still empty."),
    ] = None,
) -> None:
    """Move into a corrected edition: your answers and your own files stay, everything else is renewed.

    What was there before is kept in backups/. With --answers, bring your work to another machine.
    """
    from cs_transformers.course import update as course_update

    moved = course_update.restore(answers) if answers else course_update.update(new)
    for note in moved.notes:
        print(f"note: {note}")
    print(f"answers moved: {', '.join(moved.answers) or 'none'}")
    if moved.backup:
        print(f"as it was before: {moved.backup}")
    print(f"this is release {moved.release}; {len(moved.written)} files were renewed. Restart running notebooks")


# The instructor edition has it, and one for self-study.
if (Path(__file__).parents[1] / "course" / "solutions.py").is_file():

    @app.command(epilog="Example: cst solution 1.6")
    def solution(exercise: Annotated[str, typer.Argument(help="An exercise such as 1.6.")]) -> None:
        """Show the model answer to an exercise, what it is, and what often goes wrong."""
        from cs_transformers.course.solutions import solution as look_up

        print(look_up(exercise))
