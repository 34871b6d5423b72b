"""Commands that hand the course out: student, release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from .common import app

if TYPE_CHECKING:
    from cs_transformers.course.release import Release


@app.command(epilog="Example: cst student work")
def student(
    out: Annotated[Path, typer.Argument(help="Folder to write; must be new or an earlier student edition.")],
) -> None:
    """Instructor: write the student edition to try it: the same course with stubs in place of solutions."""
    from cs_transformers.course.editions import write_edition

    print(f"student edition in {write_edition(out)}: open its notebooks, write into its cs_transformers/")


@app.command(epilog="Example: cst release release --url https://github.com/OWNER/REPOSITORY --notebooks 01-04")
def release(
    out: Annotated[Path, typer.Argument(help="Folder to write, with a zip of the same name beside it.")],
    url: Annotated[str, typer.Option(help="Where it will lie: a GitHub repository, or the address of the zip.")] = "",
    notebooks: Annotated[str, typer.Option(help="Notebooks to hand out, such as 01-04; all by default.")] = "",
    solved: Annotated[str, typer.Option(help="Notebooks whose exercises are given, such as 01-02.")] = "",
    later: Annotated[
        str, typer.Option(help="Exercises of other notebooks: solved, or stubs where they are handed out later.")
    ] = "solved",
    diagnosis: Annotated[
        str, typer.Option(help="full names known mistakes; stage only says where an answer fails.")
    ] = "full",
    self_study: Annotated[bool, typer.Option("--self-study", help="Add `cst solution`.")] = False,
    policy: Annotated[Optional[Path], typer.Option(help="File: what you say about the use of AI.")] = None,  # noqa: UP045
    gradescope: Annotated[bool, typer.Option("--gradescope", help="Also write the zip of an autograder.")] = False,
) -> None:
    """Instructor: write the student edition as folder and zip, and prove it.

    It holds no solution, offers the same names, every check fails on its stubs and passes with the solutions put back,
    and written again it has the same bytes. This runs every check once, trainings included: a few minutes.
    """
    from tqdm import tqdm

    from cs_transformers.course import release as course_release
    from cs_transformers.course.editions import Options, numbers
    from cs_transformers.grading.gradescope import autograder_files

    options = Options(
        url=url,
        notebooks=numbers(notebooks),
        solved=numbers(solved),
        later=later,
        diagnosis=diagnosis,
        self_study=self_study,
        policy=policy.read_text(encoding="utf-8-sig") if policy else "",
    )
    with tqdm(desc="proofs", unit=" steps", disable=None) as bar:

        def show(step: str) -> None:
            bar.set_postfix_str(step)
            bar.update()

        scripts = autograder_files() if gradescope else None
        written = course_release.release(out, options, autograder=scripts, progress=show)
    _tell(written, bool(notebooks))


def _tell(written: Release, partly: bool) -> None:
    one = written.edition
    print(f"release {one.id}: {len(one.open)} exercises, {one.points} points, proved")
    if partly and one.solved:
        print(f"{len(one.solved)} exercises are given solved; --later stubs keeps those that you hand out another time")
    print(f"hand out {written.zip} or the folder {written.folder}; nothing else")
    if written.autograder:
        print(f"for Gradescope, with the solutions inside: {written.autograder}")
