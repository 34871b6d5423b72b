"""Commands of notebook 09: cst train restore, cst restore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from .common import ACCELERATE, RESUME, STEPS, app, show_outcome, train_app, training_changes

FOLDER = Path("runs/restore")


@train_app.command("restore", epilog="Example: cst train restore --data photos --out runs/restore --resume")
def train_restore(
    data: Annotated[
        str, typer.Option(help="textures, scenes, photos (COCO and Flickr8k), or a folder of photos.")
    ] = "textures",
    tasks: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Comma-separated: x2, x3, x4, denoise30, denoise50, derain; denoise30,denoise50,x2 if absent."
        ),
    ] = None,
    start: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Go on from a trained restorer (folder or restorer.pt) on the one task of --tasks."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the restorer, checkpoints, history and curve.")] = FOLDER,
    resume: Annotated[bool, RESUME] = False,
    steps: Annotated[Optional[int], STEPS] = None,  # noqa: UP045
    seed: Annotated[Optional[int], typer.Option(help="Seed of weights and order.")] = None,  # noqa: UP045
    accelerate: Annotated[bool, ACCELERATE] = False,
    precision: Annotated[str, typer.Option(help="no, fp16 or bf16; needs --accelerate.")] = "no",
) -> None:
    """Train one restorer for several kinds of damage, or go on with one of them."""
    from cs_transformers.course.restoration import train

    names = None if tasks is None else tuple(name.strip() for name in tasks.split(","))
    changes = training_changes(steps, seed, accelerate, precision)
    show_outcome(train(data, out, tasks=names, start=start, resume=resume, **changes))


@app.command("restore", epilog="Example: cst restore photo.png --task x2 -o out.png")
def restore(
    photo: Annotated[Path, typer.Argument(help="The photo: any size, grey or colour, with or without transparency.")],
    task: Annotated[str, typer.Option(help="Which damage to repair, one that the restorer was trained for.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write; the suffix says the format.")],
    weights: Annotated[Path, typer.Option(help="A trained restorer: its folder or its file restorer.pt.")] = FOLDER,
    overlap: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Pixels that neighbouring tiles share; a third of a tile if absent."),
    ] = None,
) -> None:
    """Repair or enlarge a photo with a model that cst train restore has trained."""
    from cs_transformers.course.restoration import restore as restore_photo

    done = restore_photo(photo, out, task, weights, overlap=overlap)
    print(f"{done.path}: {done.before[0]} x {done.before[1]} pixels became {done.after[0]} x {done.after[1]}")
    if done.note:
        typer.echo(f"{photo.name}: {done.note}", err=True)
