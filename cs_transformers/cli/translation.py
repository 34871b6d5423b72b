"""Commands of notebook 07: cst train translate, cst translate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from .common import ACCELERATE, RESUME, STEPS, app, show_outcome, train_app, training_changes

FOLDER = Path("runs/translate")


@train_app.command("translate", epilog="Example: cst train translate --data multi30k --out runs/translate --resume")
def train_translate(
    data: Annotated[
        str, typer.Option(help="scenes, multi30k-short, multi30k, or a folder with train.de, train.en, val.de, val.en.")
    ] = "scenes",
    out: Annotated[Path, typer.Option(help="Folder for the translator, checkpoints, history and curve.")] = FOLDER,
    resume: Annotated[bool, RESUME] = False,
    steps: Annotated[Optional[int], STEPS] = None,  # noqa: UP045
    seed: Annotated[Optional[int], typer.Option(help="Seed of weights and order.")] = None,  # noqa: UP045
    max_length: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Longest sentence in tokens, start and end included; longer pairs are left out and counted."),
    ] = None,
    accelerate: Annotated[bool, ACCELERATE] = False,
    precision: Annotated[str, typer.Option(help="no, fp16 or bf16; needs --accelerate.")] = "no",
) -> None:
    """Train a translator: English scenes into German, or the German captions of Multi30k into English."""
    from cs_transformers.course.translation import train

    changes = training_changes(steps, seed, accelerate, precision)
    show_outcome(train(data, out, max_length=max_length, resume=resume, **changes))


@app.command("translate", epilog='Example: cst translate "ein Hund rennt durch den Schnee" --weights runs/translate')
def translate(
    text: Annotated[list[str], typer.Argument(help="The sentence, in quotes or not.")],
    weights: Annotated[Path, typer.Option(help="A trained translator: its folder or its file translator.pt.")] = FOLDER,
    beams: Annotated[int, typer.Option(help="Number of beginnings that are followed; 1 is greedy.")] = 4,
) -> None:
    """Translate a sentence with a model that cst train translate has trained."""
    from cs_transformers.course import translation

    found = translation.translate(" ".join(text), translation.load_translator(weights), beam_size=beams)
    print(found.text)
    if found.unknown:
        typer.echo(f"never seen in training, or too rarely: {', '.join(found.unknown)}", err=True)
