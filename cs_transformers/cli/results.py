"""Commands of instructors who review texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from .common import WRONG, app


@app.command(epilog="Example: cst inline GRADES --graders 3 -o review; then: cst inline GRADES --merge review/saved")
def inline(
    grades: Annotated[Path, typer.Argument(help="Folder that cst grade wrote.")],
    out: Annotated[Optional[Path], typer.Option("-o", "--out", help="Folder for the review pages.")] = None,  # noqa: UP045
    graders: Annotated[int, typer.Option(min=1, help="Among how many people each question is split.")] = 1,
    shared: Annotated[int, typer.Option(min=0, help="Answers of each question that everybody marks, to compare.")] = 0,
    again: Annotated[bool, typer.Option(help="Also pages for answers that have a mark.")] = False,
    settle: Annotated[bool, typer.Option(help="Pages only for answers graders disagree on; they decide.")] = False,
    merge: Annotated[Optional[list[Path]], typer.Option(help="A saved page, or a folder of them; repeat it.")] = None,  # noqa: UP045
) -> None:
    """Instructor: review pages for inline answers, and the marks they save.

    Writes a page for each question and grader: anonymous, shuffled, working without a network. With --merge, takes the
    files that the pages saved, writes all results anew, and says where graders disagree.
    """
    from cs_transformers.grading import inline as pages
    from cs_transformers.grading.loading import load
    from cs_transformers.grading.merging import disputes_in, merge_pages

    saved = _saved(merge or [])
    if not saved and out is None:
        raise ValueError("inline: expected -o FOLDER for the pages, or --merge FILE for what they saved, got neither")
    if out is not None:
        pages.check_folder(out)
    classroom, problems = merge_pages(grades, saved) if saved else (load(grades), [])
    if saved:
        for problem in problems:
            print(problem)
        waiting = sum(len(student.awaiting) for student in classroom.students.values())
        held = sum(len(student.marks) for student in classroom.students.values())
        print(f"marks that hold: {held}; texts that await review: {waiting}; the results in {grades} are new")
    if out is not None:
        disputes = disputes_in(grades) if settle else None
        written = pages.write(classroom, out, graders, shared=shared, again=again, disputes=disputes)
        nothing = "" if len(written) > 1 else "; no text of this run is to be read"
        print(f"pages written: {len(written) - 1}; {written[-1]} lists them{nothing}")
    raise typer.Exit(WRONG if problems else 0)


def _saved(given: list[Path]) -> list[Path]:
    """Files as they are, folders as the files in them."""
    return [file for path in given for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
