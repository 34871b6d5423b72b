"""Commands of notebook 08: cst train detect, cst detect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from .common import ACCELERATE, RESUME, STEPS, app, show_outcome, train_app, training_changes


@train_app.command("detect", epilog="Example: cst train detect --data scenes --out runs/detect --resume")
def train_detect(
    data: Annotated[str, typer.Option(help="scenes, bccd, coco, or a folder with boxes in COCO's form.")] = "scenes",
    model: Annotated[Optional[str], typer.Option(help="detr (default for scenes) or deformable (for photos).")] = None,  # noqa: UP045
    backbone: Annotated[
        str, typer.Option(help="small, or a pretrained network: efficientnet-lite0, resnet18, ...")
    ] = "small",
    out: Annotated[Path, typer.Option(help="Folder for checkpoints, detector, history and curve.")] = Path(
        "runs/detect"
    ),
    resume: Annotated[bool, RESUME] = False,
    steps: Annotated[Optional[int], STEPS] = None,  # noqa: UP045
    seed: Annotated[Optional[int], typer.Option(help="Seed of weights and order.")] = None,  # noqa: UP045
    accelerate: Annotated[bool, ACCELERATE] = False,
    precision: Annotated[str, typer.Option(help="no, fp16 or bf16; needs --accelerate.")] = "no",
) -> None:
    """Train a detector (DETR or Deformable DETR), then score it on pictures it has not seen."""
    from cs_transformers.course.detection import train_detector

    changes = training_changes(steps, seed, accelerate, precision)
    show_outcome(train_detector(data, model, backbone, out, resume=resume, **changes))


@app.command("detect", epilog="Example: cst detect photo.jpg -o out.png")
def detect(
    photo: Annotated[Path, typer.Argument(help="A picture file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to draw the boxes: png, jpg, pdf or svg.")],
    weights: Annotated[Path, typer.Option(help="What `cst train detect` wrote.")] = Path("runs/detect"),
    threshold: Annotated[float, typer.Option(help="Least score of what is shown, 0 to 1.")] = 0.5,
) -> None:
    """Find the objects of a photo with a trained detector and draw them."""
    from cs_transformers.course.detection import detect as find

    lines = find(photo, output, weights=weights, threshold=threshold)
    print("\n".join(lines) or f"nothing with a score of {threshold} or more")
    print(f"drawn in {output}")
