"""English captions of scenes into German: how many of those never seen come out exactly, and which agreements fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.records import Record, Workshop, record
from cs_transformers.data.scene_german import count_errors
from cs_transformers.training.recipes_translation import recipe_pairs, train_translator, translation_recipe

CHECKPOINT_EVERY = 50  # steps; an interrupted run goes on from there


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Train on the captions of 3,000 scenes, translate captions that do not occur among them, compare word by word.

    Args:
        quick: A few steps on a few scenes, to show that it works.
        seeds: Seeds of the start values and the order.

    Returns:
        Share of exact translations, and of translations with an error of each kind.
    """
    workshop = Workshop("translation_scenes", quick)
    found = [workshop.once(f"seed-{seed}", lambda folder, seed=seed: _measure(folder, seed, quick)) for seed in seeds]
    area, name = "translation", "translation_scenes"
    records = [
        record(
            area, f"{name}/exact", [100 - one["errors"]["wrong"] for one in found], "% of translations", seeds=seeds,
            goal=None if quick else ">= 97",
        )
    ]  # fmt: skip
    for kind in found[0]["errors"]:
        values = [one["errors"][kind] for one in found]
        records.append(record(area, f"{name}/{kind.replace(' ', '_')}", values, "% of translations", seeds=seeds))
    records.append(record(area, f"{name}/held_out", [one["count"] for one in found], "translations", seeds=seeds))
    times = [one["seconds"] for one in found]
    records.append(record(area, f"{name}/training_time", times, "s", seeds=seeds))
    return records


def _measure(folder: Path, seed: int, quick: bool) -> dict[str, Any]:
    changes = {"steps": 4, "batch_size": 8, "evaluate_every": 4} if quick else {}
    recipe = translation_recipe("scenes", seed=seed, checkpoint_every=CHECKPOINT_EVERY, **changes)
    recipe = replace(recipe, scenes=20) if quick else recipe
    val = recipe_pairs(recipe, "val")[: 20 if quick else None]
    translator = train_translator(recipe, val_pairs=val, folder=folder, resume=True)
    test = recipe_pairs(recipe, "test")[: 20 if quick else None]
    errors = count_errors(translator.translate([one for one, _ in test]), [other for _, other in test])
    return {
        "errors": {kind: 100 * count / len(test) for kind, count in errors.items()},
        "count": len(test),
        "seconds": translator.history.rows[-1]["seconds"],
    }
