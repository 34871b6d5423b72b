"""Commands that train: cst train caption, vit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from .common import ACCELERATE, RESUME, STEPS, show_outcome, train_app, training_changes


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

    show_outcome(
        train_captioner(data, memory, out, resume=resume, **training_changes(steps, seed, accelerate, precision))
    )


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

    show_outcome(train(data, out, resume=resume, **training_changes(steps, seed, accelerate, precision)))
