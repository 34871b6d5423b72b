"""Shapes in scenes found by DETR and by Deformable DETR: average precision on scenes never seen, and along training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from benchmarks.records import Record, Workshop, record, save_picture
from cs_transformers.data.detection import load_boxes, scene_boxes
from cs_transformers.plots.style import COLOURS, use_style
from cs_transformers.training.recipes_detection import MODELS, scenes_recipe, train_detector

GOALS = {"detr": {"ap50": ">= 90", "ap75": ">= 70"}, "deformable": {"ap50": ">= 80", "ap75": ">= 70"}}
STEPS = {"detr": 1200, "deformable": 800}
CHECKPOINT_EVERY = 100  # steps; an interrupted run goes on from there
WATCHED = 128  # validation scenes for the curve


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Train both detectors from scratch on 4,000 scenes of 64 x 64 pixels with one to three shapes, batches of 32.

    Args:
        quick: A few steps on a few scenes, to show that it works.
        seeds: Seeds of the start values and the order.

    Returns:
        AP50 and AP75 on 500 scenes of another series, after 1,200 updates (DETR) and 800 (Deformable DETR).
    """
    workshop = Workshop("detection_shapes", quick)

    def measured(model: str, seed: int) -> dict[str, Any]:
        return workshop.once(f"{model}-{seed}", lambda folder: _measure(folder, model, seed, quick))

    found = {model: [measured(model, seed) for seed in seeds] for model in MODELS}
    records = []
    for model in MODELS:
        for figure in ("ap50", "ap75", "ap"):
            values = [100 * one[figure] for one in found[model]]
            goal = None if quick else GOALS[model].get(figure)
            records.append(
                record("detection", f"detection_shapes/{model}_{figure}", values, "%", seeds=seeds, goal=goal)
            )
        times = [one["seconds"] for one in found[model]]
        records.append(record("detection", f"detection_shapes/{model}_training_time", times, "s", seeds=seeds))
    if not quick:
        _draw(found)
    return records


def _measure(folder: Path, model: str, seed: int, quick: bool) -> dict[str, Any]:
    changes = {"steps": 4, "batch_size": 4, "evaluate_every": 2} if quick else {"steps": STEPS[model]}
    recipe = scenes_recipe(model, seed=seed, checkpoint_every=CHECKPOINT_EVERY, **changes)
    if quick:
        recipe = replace(recipe, widths=(4, 8), strides=(2, 2), width=16, dim_feedforward=16)
    train = scene_boxes(16, seed=1) if quick else None
    val = load_boxes("scenes", "val", count=4 if quick else WATCHED)
    trained = train_detector("scenes", recipe, train=train, val=val, folder=folder, resume=True)
    figures = trained.score(load_boxes("scenes", "test", count=8 if quick else None))
    rows = [[row["step"], row["ap50"], row["ap75"]] for row in trained.history.rows]
    kept = {name: figures[name] for name in ("ap", "ap50", "ap75")}
    return {**kept, "curve": rows, "seconds": trained.history.rows[-1]["seconds"]}


def _draw(found: dict[str, list[dict[str, Any]]]) -> None:
    use_style()
    figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    names = {"detr": "DETR", "deformable": "Deformable DETR"}
    for model, colour in zip(MODELS, COLOURS, strict=False):
        for seed, one in enumerate(found[model]):
            steps, ap50, ap75 = zip(*one["curve"], strict=True)
            for values, style, name in ((ap50, "-", "AP50"), (ap75, ":", "AP75")):
                label = None if seed else f"{names[model]}, {name}"
                axes.plot(steps, values, style, color=colour, label=label, linewidth=1.6)
    axes.set(xlabel="updates of 32 scenes", ylabel="average precision", ylim=(0, 1.02))
    axes.set_title("Shapes in scenes: every seed, from scratch")
    axes.legend(loc="lower right")
    save_picture("detection_shapes", figure)
