"""Captions of scenes never seen: a grid of features with 2-D positions against one vector for the whole picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.records import Record, Workshop, record, save_picture
from cs_transformers.data.scene_language import caption_accuracy
from cs_transformers.data.scenes import make_scenes
from cs_transformers.plots import grouped_bars
from cs_transformers.training.recipes_captions import ScenePictures, scenes_recipe, train_scene_captioner

TEST_SEED, TEST_SCENES = 2_000_001, 1000  # a series that neither training nor choosing has seen
CHECKPOINT_EVERY = 50  # steps; an interrupted run goes on from there
MEMORIES = ("grid", "global")


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Train both captioners with the same recipe, write captions greedily, read them back, hold them against scenes.

    A caption is right if it names every object and everything that it says is true.

    Args:
        quick: A few steps on a few scenes, to show that it works.
        seeds: Seeds of the start values and the order.

    Returns:
        Shares of right captions, for all scenes and by the number of objects, and the lead of the grid.
    """
    workshop = Workshop("captions_scenes", quick)

    def measured(memory: str, seed: int) -> dict[str, Any]:
        return workshop.once(f"{memory}-{seed}", lambda folder: _measure(folder, memory, seed, quick))

    found = {memory: [measured(memory, seed) for seed in seeds] for memory in MEMORIES}
    area, name, unit = "captioning", "captions_scenes", "% of captions"
    right = {memory: [100 * one["all"] for one in found[memory]] for memory in MEMORIES}
    lead = [grid - whole for grid, whole in zip(right["grid"], right["global"], strict=True)]
    peer = sum(right["global"]) / len(right["global"])
    goals = ("", "") if quick else (">= 85", ">= 10")
    records = [
        record(area, f"{name}/grid", right["grid"], unit, seeds=seeds, goal=goals[0] or None, peer=peer),
        record(area, f"{name}/global", right["global"], unit, seeds=seeds),
        record(area, f"{name}/lead_of_the_grid", lead, "points", seeds=seeds, goal=goals[1] or None),
    ]
    for memory in MEMORIES:
        for count in sorted(found[memory][0]["by_objects"]):
            values = [100 * one["by_objects"][count] for one in found[memory]]
            records.append(record(area, f"{name}/{memory}_{count}_objects", values, unit, seeds=seeds))
        times = [one["seconds"] for one in found[memory]]
        records.append(record(area, f"{name}/{memory}_training_time", times, "s", seeds=seeds))
    if not quick:
        _draw(records)
    return records


def _draw(records: list[Record]) -> None:
    by_name = {found.name.split("/")[1]: found.ours for found in records}
    counts = sorted(name.split("_")[1] for name in by_name if name.startswith("grid_") and name.endswith("_objects"))
    bars = {
        label: [*(by_name[f"{memory}_{count}_objects"] for count in counts), by_name[memory]]
        for memory, label in (("grid", "grid with 2-D positions"), ("global", "one vector"))
    }
    groups = [*(f"{count} object{'s' if count != '1' else ''}" for count in counts), "all scenes"]
    figure = grouped_bars(groups, bars, ylabel="right captions (%)", title="Captions of scenes never seen")
    save_picture("captions_scenes", figure)


def _measure(folder: Path, memory: str, seed: int, quick: bool) -> dict[str, Any]:
    changes = {"steps": 6, "batch_size": 4, "evaluate_every": 3} if quick else {}
    recipe = scenes_recipe(memory, seed=seed, checkpoint_every=CHECKPOINT_EVERY, **changes)
    if quick:
        recipe = type(recipe)(memory=memory, train_scenes=20, fit=recipe.fit)
    trained = train_scene_captioner(recipe, folder=folder, resume=True)
    scenes = make_scenes(30 if quick else TEST_SCENES, TEST_SEED)
    written = trained.model.write(ScenePictures(scenes).images, trained.idx_to_word)
    counts = torch.tensor([len(scene.objects) for scene in scenes])
    by_objects = {}
    for count in counts.unique().tolist():
        rows = (counts == count).nonzero().flatten().tolist()
        by_objects[str(count)] = caption_accuracy([written[row] for row in rows], [scenes[row] for row in rows])
    return {
        "all": caption_accuracy(written, scenes),
        "by_objects": by_objects,
        "seconds": trained.history.rows[-1]["seconds"],
    }
