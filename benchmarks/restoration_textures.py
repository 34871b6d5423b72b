"""Restoration of procedural images: one model for two strengths of noise and for enlargement, in 330 steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.records import Record, Workshop, record, save_picture
from cs_transformers.data.textures import make_textures
from cs_transformers.plots import grouped_bars
from cs_transformers.training.recipes_restoration import (
    RestorationRecipe,
    TrainedRestorer,
    finetune_restorer,
    measure_gains,
    restoration_recipe,
    train_restorer,
)

TEST_IMAGES, TEST_SEED = 200, 2_000_003  # a series that training and validation do not draw from
GOALS = {"denoise30": ">= 6", "denoise50": ">= 7.5", "x2": ">= 0.4"}
FINE_TUNED = "x2"


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Train, then measure PSNR in RGB on images never seen, before and after, for each task.

    Args:
        quick: A few steps, to show that it works.
        seeds: Seeds of start values and order.

    Returns:
        Gains in decibels, the change at step 0, and what 100 more steps on one task bring.
    """
    workshop = Workshop("restoration_textures", quick)
    found = [workshop.once(f"seed-{seed}", lambda folder, seed=seed: _measure(folder, seed, quick)) for seed in seeds]
    area, name = "restoration", "restoration_textures"
    records = [
        record(area, f"{name}/gain_{task}", [one["gains"][task] for one in found], "dB", seeds=seeds,
               goal=None if quick else goal)
        for task, goal in GOALS.items()
    ]  # fmt: skip
    before = sum(one["gains"][FINE_TUNED] for one in found) / len(found)
    records += [
        record(area, f"{name}/largest_change_at_step_0", [one["start"] for one in found], "dB", seeds=seeds,
               goal="<= 1e-4"),
        record(area, f"{name}/gain_{FINE_TUNED}_fine_tuned", [one["tuned"] for one in found], "dB", seeds=seeds,
               peer=before),
        record(area, f"{name}/training_time", [one["seconds"] for one in found], "s", seeds=seeds),
    ]  # fmt: skip
    if not quick:
        _draw(found)
    return records


def _measure(folder: Path, seed: int, quick: bool) -> dict[str, Any]:
    recipe = restoration_recipe(seed=seed, **({"steps": 3, "batch_size": 2} if quick else {}))
    recipe = replace(recipe, train_images=8) if quick else recipe
    images = make_textures(8 if quick else TEST_IMAGES, recipe.largest, TEST_SEED)
    untrained = measure_gains(recipe.build(), images)
    trained = train_restorer("textures", recipe, folder=folder / "many", resume=True)
    gains = measure_gains(trained.model, images)
    tuned = _tuned(trained, recipe, folder / "one", quick)
    tuned_before, tuned_after = measure_gains(tuned.model, images, (FINE_TUNED,))[FINE_TUNED]
    return {
        "start": max(abs(after - before) for before, after in untrained.values()),
        "decibels": gains,
        "gains": {task: after - before for task, (before, after) in gains.items()},
        "tuned": tuned_after - tuned_before,
        "seconds": trained.history.rows[-1]["seconds"],
    }


def _tuned(trained: TrainedRestorer, recipe: RestorationRecipe, folder: Path, quick: bool) -> TrainedRestorer:
    steps = {"steps": 2} if quick else {}
    return finetune_restorer(trained, FINE_TUNED, folder=folder, resume=True, seed=recipe.fit.seed, **steps)


def _draw(found: list[dict[str, Any]]) -> None:
    tasks = list(GOALS)
    means = [[sum(one["decibels"][task][side] for one in found) / len(found) for task in tasks] for side in (0, 1)]
    bars = {"damaged, or enlarged bicubically": means[0], "restored": means[1]}
    figure = grouped_bars(tasks, bars, ylabel="PSNR (dB)", title="One model for three tasks, on images never seen")
    save_picture("restoration_textures", figure)
