"""Captions of Flickr8k photos never seen: a grid of features with 2-D positions against one vector per photo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import Record, Workshop, real_data, record
from cs_transformers.data.caption_json import read_coco_json
from cs_transformers.data.vocabulary import tokenize
from cs_transformers.training.metrics import bleu, cider
from cs_transformers.training.recipes_captions import (
    TrainedCaptioner,
    load_photo_captions,
    photos_recipe,
    train_photo_captioner,
    words_of,
)

CHECKPOINT_EVERY = 100  # steps; an interrupted run goes on from there
MEMORIES = ("grid", "global")


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Train both captioners with the same recipe on 800 photos; hold greedy captions of 100 others against people's.

    The references keep the words that the vocabulary lacks; both scores split at white space.

    Args:
        quick: A few steps, to show that it works.
        seeds: Seeds of the start values, the order and the dropout.

    Returns:
        BLEU-4 and CIDEr of both.
    """
    real_data("flickr8k_1000", "h5", "features.h5")
    workshop = Workshop("captions_photos", quick)

    def measured(memory: str, seed: int) -> dict[str, Any]:
        return workshop.once(f"{memory}-{seed}", lambda folder: _measure(folder, memory, seed, quick))

    found = {memory: [measured(memory, seed) for seed in seeds] for memory in MEMORIES}
    records = []
    for figure, unit in (("bleu", "BLEU-4"), ("cider", "CIDEr")):
        values = {memory: [one[figure] for one in found[memory]] for memory in MEMORIES}
        peer = sum(values["global"]) / len(values["global"])
        name = f"captions_photos/{figure}"
        records.append(record("captioning", f"{name}_grid", values["grid"], unit, seeds=seeds, peer=peer))
        records.append(record("captioning", f"{name}_global", values["global"], unit, seeds=seeds))
    for memory in MEMORIES:
        times = [one["seconds"] for one in found[memory]]
        records.append(record("captioning", f"captions_photos/{memory}_training_time", times, "s", seeds=seeds))
    return records


def _measure(folder: Path, memory: str, seed: int, quick: bool) -> dict[str, Any]:
    changes = {"steps": 4, "batch_size": 4} if quick else {}
    recipe = photos_recipe(memory, seed=seed, checkpoint_every=CHECKPOINT_EVERY, **changes)
    if quick:
        recipe = replace(recipe, width=16, dim_feedforward=32)
    trained = train_photo_captioner("flickr8k", recipe, folder=folder, resume=True)
    written, references = _written(trained, memory), _references()
    scores = {"bleu": bleu(written, references), "cider": cider(written, references)}
    return {**scores, "seconds": trained.history.rows[-1]["seconds"]}


def _written(trained: TrainedCaptioner, memory: str) -> list[str]:
    data = load_photo_captions("flickr8k", memory)
    rows = trained.model.sample(np.asarray(data["test_features"], dtype=np.float32), trained.model.max_length)
    return [words_of(row, trained.idx_to_word) for row in rows]


def _references() -> list[list[str]]:
    """What people wrote about the test photos, in the order of their features."""
    folder = real_data("flickr8k_1000")
    photos = {photo.name: photo.captions for photo in read_coco_json(folder / "captions.json", split="test")}
    names = (folder / "h5" / "test_images.txt").read_text(encoding="utf-8").split()
    return [[" ".join(tokenize(text)) for text in photos[name]] for name in names]
