"""Texture transfer: images four times larger with the right, a wrong, and the best reference, after 270 steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.records import Record, Workshop, record, save_picture
from cs_transformers.plots import grouped_bars
from cs_transformers.training.recipes_texture import measure_references, texture_recipe, train_texture

TEST_PAIRS, TEST_SEED = 200, 2_000_003  # a series that training and validation do not draw from
LABELS = {
    "bicubic": "bicubic",
    "wrong_reference": "wrong\nreference",
    "right_reference": "right\nreference",
    "itself": "itself as\nreference",
}


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Train on pairs of images from one dictionary of tiles each; measure PSNR in RGB on pairs never seen.

    Args:
        quick: A few steps, to show that it works.
        seeds: Seeds of start values and order.

    Returns:
        Gains over bicubic enlargement and over a wrong reference, in decibels.
    """
    workshop = Workshop("texture_transfer", quick)
    found = [workshop.once(f"seed-{seed}", lambda folder, seed=seed: _measure(folder, seed, quick)) for seed in seeds]
    gains = {
        "right_over_bicubic": (("right_reference", "bicubic"), ">= 2.5"),
        "right_over_wrong": (("right_reference", "wrong_reference"), ">= 3"),
        "itself_over_bicubic": (("itself", "bicubic"), ">= 8"),
        "wrong_over_bicubic": (("wrong_reference", "bicubic"), None),
    }
    if not quick:
        means = [sum(one[key] for one in found) / len(found) for key in LABELS]
        title = "Detail that only the reference knows"
        figure = grouped_bars(list(LABELS.values()), {"mean over the seeds": means}, ylabel="PSNR (dB)", title=title)
        save_picture("texture_transfer", figure)
    records = [
        record(
            "restoration",
            f"texture_transfer/{name}",
            [one[first] - one[second] for one in found],
            "dB",
            seeds=seeds,
            goal=None if quick else goal,
        )
        for name, ((first, second), goal) in gains.items()
    ]
    times = [one["seconds"] for one in found]
    return [*records, record("restoration", "texture_transfer/training_time", times, "s", seeds=seeds)]


def _measure(folder: Path, seed: int, quick: bool) -> dict[str, Any]:
    recipe = texture_recipe(seed=seed, **({"steps": 2, "batch_size": 2} if quick else {}))
    recipe = replace(recipe, train_pairs=8) if quick else recipe
    trained = train_texture(recipe, folder=folder, resume=True)
    found = measure_references(trained.model, 6 if quick else TEST_PAIRS, TEST_SEED)
    return {**found, "seconds": trained.history.rows[-1]["seconds"]}
