"""What commands share: the groups they join, exit codes, tables of verdicts, options of training."""

from __future__ import annotations

import re
from pathlib import Path

import typer
from rich.table import Table

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
data_app = typer.Typer(no_args_is_help=True, help="Data sets: list, get, make, features.")
train_app = typer.Typer(no_args_is_help=True, help="Train a model; each command resumes and says what it measured.")
app.add_typer(data_app, name="data")
app.add_typer(train_app, name="train")

WRONG, USAGE, TROUBLE = 1, 2, 3
STATE_STYLE = {
    "passed": "green",
    "partly": "yellow",
    "not attempted": "dim",
    "blocked": "dim",
    "awaiting review": "cyan",
    "given": "dim",
    "later": "dim",
}


def notebooks_folder() -> Path:
    """Return the notebooks of the folder one stands in, or those beside the package."""
    from cs_transformers.course.classroom import course_home

    here = Path("notebooks")
    return here if here.is_dir() else course_home() / "notebooks"


def verdict_table(title: str) -> Table:
    """Return an empty table of exercises.

    Args:
        title: What stands above it.
    """
    table = Table(title=title, title_justify="left")
    for name in ("id", "exercise", "state", "points"):
        table.add_column(name)
    return table


def add_verdict(table: Table, verdict: object) -> None:
    """Add a row.

    Args:
        table: What ``verdict_table`` returned.
        verdict: A ``checks.verdict.Verdict``.
    """
    from cs_transformers.course.run import points_text

    style = STATE_STYLE.get(verdict.state, "red")
    state = f"{verdict.state} {verdict.detail}" if verdict.state == "blocked" else verdict.state
    table.add_row(verdict.id, verdict.symbol, f"[{style}]{state}[/{style}]", points_text(verdict))


def as_typed(text: str) -> str:
    """Return a text with its calls of a notebook, ``hint("1.2")``, as they are typed in a terminal, ``cst hint 1.2``.

    Args:
        text: What a check or a hint says.
    """
    typed = re.sub(r'\b(check|hint)\("([\d.]+)"\)', r"`cst \1 \2`", text)
    return re.sub(r'\bhint\("([\d.]+)", (\d)\)', r"`cst hint \1 --step \2`", typed)


def sum_line(verdicts: list) -> str:
    """Return the sums of points in one line.

    Args:
        verdicts: The rows of a table.
    """
    earned, possible = sum(one.points for one in verdicts), sum(one.out_of for one in verdicts)
    review = sum(one.review for one in verdicts)
    return f"{earned} of {possible} automatic points" + (f"; {review} more are for texts" if review else "")


RESUME = typer.Option(help="Go on from the last checkpoint in the folder.")
STEPS = typer.Option(help="Number of updates, instead of the recipe's.")
ACCELERATE = typer.Option(help="Let accelerate place model, data and processes.")


def training_changes(steps: int | None, seed: int | None, accelerate: bool, precision: str) -> dict:
    """Return the fields of a recipe that the options of a training command change.

    Args:
        steps: Number of updates, or None.
        seed: Seed, or None.
        accelerate: Whether accelerate places everything.
        precision: ``no``, ``fp16`` or ``bf16``.
    """
    given = {"steps": steps, "seed": seed}
    changes = {name: value for name, value in given.items() if value is not None}
    return {**changes, "accelerate": accelerate, "precision": precision} if accelerate else changes


def show_outcome(outcome: object) -> None:
    """Print what a training measured and where its files are.

    Args:
        outcome: Something with ``figures`` and ``folder``.
    """
    for name, value in outcome.figures.items():
        print(f"{name}: {value}")
    print(f"weights, history.csv and history.png are in {outcome.folder}")
