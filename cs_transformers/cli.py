"""The command line: ``cst``, also ``python -m cs_transformers``.

Exit codes: 0 done, 1 some answers are not right yet, 2 wrong usage, 3 the machine or the data failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
data_app = typer.Typer(no_args_is_help=True, help="Data sets: list, get, make, features.")
train_app = typer.Typer(no_args_is_help=True, help="Train a model: caption, vit.")
app.add_typer(data_app, name="data")
app.add_typer(train_app, name="train")

PACKAGE, RESTARTED = "cs_transformers", "CST_RESTARTED"
WRONG, USAGE, TROUBLE = 1, 2, 3
STATE_STYLE = {
    "passed": "green",
    "partly": "yellow",
    "not attempted": "dim",
    "blocked": "dim",
    "awaiting review": "cyan",
}


def main() -> None:
    """Run the command line; errors that a caller can mend are one line, not a traceback."""
    _prefer_the_copy_here()
    try:
        app()
    except (ValueError, TypeError) as error:
        _leave(error, USAGE)
    except (OSError, FloatingPointError, ModuleNotFoundError) as error:
        _leave(error, TROUBLE)


def _prefer_the_copy_here() -> None:
    """Start again with the package of the folder one stands in, where that is another copy than the installed one.

    A student edition lies beside the environment of the instructor edition; checking the wrong one would mislead.
    """
    here = Path.cwd()
    home = next((folder for folder in (here, *here.parents) if (folder / PACKAGE / "__main__.py").is_file()), None)
    if home is None or home == Path(__file__).resolve().parent.parent or os.environ.get(RESTARTED) == str(home):
        return
    paths = [str(home), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ.update({"PYTHONPATH": os.pathsep.join(paths), RESTARTED: str(home)})
    command = [sys.executable, "-m", PACKAGE, *sys.argv[1:]]
    raise SystemExit(subprocess.run(command, check=False).returncode)


def _leave(error: Exception, code: int) -> None:
    print(f"cst: {error}", file=sys.stderr)
    raise SystemExit(code)


@app.callback()
def course() -> None:
    """A course on transformers that runs.

    `cst run` executes the notebooks, `cst check 1.6` checks one exercise, `cst doctor` looks at this machine.
    Every command shows an example in its own --help.
    """


def _notebooks() -> Path:
    """Return the notebooks of the folder one stands in, or those beside the package."""
    from cs_transformers.course.classroom import course_home

    here = Path("notebooks")
    return here if here.is_dir() else course_home() / "notebooks"


def _verdict_table(title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("id", "exercise", "state", "points"):
        table.add_column(name)
    return table


def _add_verdict(table: Table, verdict: object) -> None:
    from cs_transformers.course.run import points_text

    style = STATE_STYLE.get(verdict.state, "red")
    state = f"{verdict.state} {verdict.detail}" if verdict.state == "blocked" else verdict.state
    table.add_row(verdict.id, verdict.symbol, f"[{style}]{state}[/{style}]", points_text(verdict))


def _sum_line(verdicts: list) -> str:
    earned, possible = sum(one.points for one in verdicts), sum(one.out_of for one in verdicts)
    review = sum(one.review for one in verdicts)
    return f"{earned} of {possible} automatic points" + (f"; {review} more are for texts" if review else "")


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

    paths = course_run.find_notebooks(folder or _notebooks(), numbers)
    console, runs = Console(), []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        for path in paths:
            task = progress.add_task(path.stem, total=course_run.count_cells(path))
            runs.append(course_run.run_notebook(path, out, lambda _, task=task: progress.advance(task)))
            progress.update(task, completed=progress.tasks[task].total)
    table = _verdict_table("exercises")
    verdicts = [verdict for one in runs for verdict in one.verdicts.values()]
    for verdict in verdicts:
        _add_verdict(table, verdict)
    console.print(table)
    for one in runs:
        for problem in one.problems:
            console.print(f"[red]{one.name}[/red] {escape(problem)}", highlight=False)
    console.print(f"{_sum_line(verdicts)}. Pages: {course_run.write_index(runs, out)}")
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
    table = _verdict_table("exercises")
    for verdict in verdicts:
        _add_verdict(table, verdict)
    console.print(table)
    console.print(_sum_line(verdicts))
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


@app.command(epilog="Example: cst student work")
def student(
    out: Annotated[Path, typer.Argument(help="Folder to write; must be new or an earlier student edition.")],
) -> None:
    """Write the student edition: the same course with stubs in place of solutions."""
    from cs_transformers.checks.student import student_tree

    print(f"student edition in {student_tree(out)}: open its notebooks, write into its cs_transformers/")


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

    for path in tqdm(find_notebooks(folder or _notebooks(), numbers), disable=None):
        notebook = notebooks.execute(notebooks.read(path), path.parent)
        problems = notebooks.errors(notebook)
        if problems:
            raise ValueError(f"{path.name} was left as it was: {problems[0]}")
        notebooks.write(notebooks.normalise(notebook, path.stem), path)


@data_app.command("list", epilog="Example: cst data list")
def data_list() -> None:
    """Show the data sets: what they hold, size, terms, what is here."""
    from cs_transformers.data.download import list_data_sets

    table = Table("name", "what", "download", "here", "terms", title="data sets", title_justify="left")
    for state in list_data_sets():
        entry = state.entry
        here = str(state.folder) if state.ready else "partly" if state.folder else "no"
        table.add_row(entry.name, entry.what, f"{entry.download / 1e6:,.0f} MB", here, entry.licence)
    Console().print(table)


@data_app.command("get", epilog="Example: cst data get cifar10")
def data_get(
    name: Annotated[str, typer.Argument(help="A name from `cst data list`.")],
    force: Annotated[bool, typer.Option(help="Fetch again, to mend a damaged copy.")] = False,
) -> None:
    """Fetch a data set: resumes, checks sums, keeps whole files only."""
    from cs_transformers.data.download import get_data_set

    print(get_data_set(name, force=force))


@data_app.command("make", epilog="Example: cst data make scenes")
def data_make(
    name: Annotated[str, typer.Argument(help="What to make: scenes.")] = "scenes",
    folder: Annotated[Optional[Path], typer.Option(help="Where to; the cache by default.")] = None,  # noqa: UP045
    train: Annotated[int, typer.Option(help="Training scenes, five captions each.")] = 2000,
    val: Annotated[int, typer.Option(help="Validation scenes, of another series.")] = 500,
    seed: Annotated[int, typer.Option(help="Seed of both series.")] = 231,
) -> None:
    """Make the embedded world as files in the layout of CS231n, which the loader of the real data reads."""
    from cs_transformers.data import write_scenes
    from cs_transformers.data.paths import cache_dir
    from cs_transformers.errors import check_choice

    check_choice("cst data make", "name", name, ("scenes",))
    print(write_scenes(folder or cache_dir() / "scenes", train=train, val=val, seed=seed))


@data_app.command("features", epilog="Example: cst data features FOLDER --backbone efficientnet-lite0")
def data_features(
    folder: Annotated[Path, typer.Argument(help="Captions folder in the layout of CS231n; gets the feature files.")],
    backbone: Annotated[str, typer.Option(help="efficientnet-lite0, resnet18, resnet50, ...")] = "efficientnet-lite0",
    weights: Annotated[Optional[Path], typer.Option(help="File of the backbone's weights.")] = None,  # noqa: UP045
    photos: Annotated[Optional[Path], typer.Option(help="Folder of the photos; found in the data by default.")] = None,  # noqa: UP045
    overwrite: Annotated[bool, typer.Option(help="Replace features that are there.")] = False,
) -> None:
    """Compute image features, one vector and a grid per photo. Resumes where it was interrupted."""
    from cs_transformers.data.backbones import load_backbone
    from cs_transformers.data.features import caption_photos, write_features

    model = load_backbone(backbone, weights=weights)
    pictures = caption_photos(folder, photos, size=model.image_size)
    write_features(folder, model, pictures, overwrite=overwrite)
    print(folder)


RESUME = typer.Option(help="Go on from the last checkpoint in the folder.")
STEPS = typer.Option(help="Number of updates, instead of the recipe's.")
ACCELERATE = typer.Option(help="Let accelerate place model, data and processes.")


def _changes(steps: int | None, seed: int | None, accelerate: bool, precision: str) -> dict:
    given = {"steps": steps, "seed": seed}
    changes = {name: value for name, value in given.items() if value is not None}
    return {**changes, "accelerate": accelerate, "precision": precision} if accelerate else changes


def _show(outcome: object) -> None:
    for name, value in outcome.figures.items():
        print(f"{name}: {value}")
    print(f"weights, history.csv and history.png are in {outcome.folder}")


@train_app.command("caption", epilog="Example: cst train caption --data scenes --out runs/caption --resume")
def train_caption(
    data: Annotated[str, typer.Option(help="scenes, flickr8k, coco, or a folder in the layout of CS231n.")] = "scenes",
    memory: Annotated[str, typer.Option(help="What the decoder sees: grid or global.")] = "grid",
    out: Annotated[Path, typer.Option(help="Folder for checkpoints, history and curve.")] = Path("runs/caption"),
    resume: Annotated[bool, RESUME] = False,
    steps: Annotated[Optional[int], STEPS] = None,  # noqa: UP045
    seed: Annotated[Optional[int], typer.Option(help="Seed of weights and order.")] = None,  # noqa: UP045
    accelerate: Annotated[bool, ACCELERATE] = False,
    precision: Annotated[str, typer.Option(help="no, fp16 or bf16; needs --accelerate.")] = "no",
) -> None:
    """Train a captioner, then judge what it writes about pictures it has not seen."""
    from cs_transformers.course.training import train_captioner

    _show(train_captioner(data, memory, out, resume=resume, **_changes(steps, seed, accelerate, precision)))


@train_app.command("vit", epilog="Example: cst train vit --data cifar10 --out runs/vit --resume")
def train_vit(
    data: Annotated[str, typer.Option(help="scenes, cifar10, or a folder of class folders.")] = "scenes",
    out: Annotated[Path, typer.Option(help="Folder for checkpoints, history and curve.")] = Path("runs/vit"),
    resume: Annotated[bool, RESUME] = False,
    steps: Annotated[Optional[int], STEPS] = None,  # noqa: UP045
    seed: Annotated[Optional[int], typer.Option(help="Seed of weights and order.")] = None,  # noqa: UP045
    accelerate: Annotated[bool, ACCELERATE] = False,
    precision: Annotated[str, typer.Option(help="no, fp16 or bf16; needs --accelerate.")] = "no",
) -> None:
    """Train a Vision Transformer; validation images watch, test images are looked at once."""
    from cs_transformers.course.training import train_vit as train

    _show(train(data, out, resume=resume, **_changes(steps, seed, accelerate, precision)))
