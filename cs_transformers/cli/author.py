"""Commands of instructors who change the course: refresh, execute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from .common import app, notebooks_folder


@app.command(epilog="Example: cst refresh 1.6")
def refresh(
    exercises: Annotated[Optional[list[str]], typer.Argument(help="Exercises such as 1.6; all by default.")] = None,  # noqa: UP045
) -> None:
    """Instructor: regenerate references, fingerprints and the README's table."""
    from tqdm import tqdm

    from cs_transformers.checks import EXERCISES
    from cs_transformers.checks.refresh import refresh as refresh_one
    from cs_transformers.course.tables import update_readme

    coded = [one.id for one in EXERCISES.values() if one.parts]
    for id in tqdm(exercises or coded, disable=None):
        refresh_one(id)
    update_readme()


@app.command(epilog="Example: cst execute 04")
def execute(
    numbers: Annotated[Optional[list[str]], typer.Argument(help="Notebooks, such as 01 04; all by default.")] = None,  # noqa: UP045
    folder: Annotated[Optional[Path], typer.Option(help="Where the notebooks lie; notebooks/ by default.")] = None,  # noqa: UP045
) -> None:
    """Instructor: execute notebooks in place and write them back in normal form."""
    from tqdm import tqdm

    from cs_transformers.course import notebooks
    from cs_transformers.course.run import find_notebooks

    for path in tqdm(find_notebooks(folder or notebooks_folder(), numbers), disable=None):
        notebook = notebooks.execute(notebooks.read(path), path.parent)
        problems = notebooks.errors(notebook)
        if problems:
            raise ValueError(f"{path.name} was left as it was: {problems[0]}")
        notebooks.write(notebooks.normalise(notebook, path.stem), path)
