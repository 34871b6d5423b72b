"""Translations of real captions learnt by heart: 250 German-English pairs within 500 updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.records import Record, Workshop, real_data, record
from cs_transformers.data.sentence_pairs import load_multi30k, short_pairs
from cs_transformers.training.recipes_translation import train_translator, translation_recipe, translation_scores

COUNT, LONGEST = 250, 22  # the first 250 pairs of at most 22 words and marks
SETTINGS = {"steps": 500, "batch_size": 50, "learning_rate": 1e-3, "warmup": 0.1, "evaluate_every": 500}


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Overfit with two layers of width 128 and neither dropout nor smoothing, then translate the same sentences.

    Args:
        quick: Fewer pairs and steps, to show that it works.
        seeds: Seeds of the start values and the order.

    Returns:
        BLEU (sacrebleu, tokenize="none", lower-cased words and marks) and share of exact translations.
    """
    real_data("multi30k", "train.de.gz")
    workshop = Workshop("translation_overfit", quick)
    found = [workshop.once(f"seed-{seed}", lambda folder, seed=seed: _measure(folder, seed, quick)) for seed in seeds]
    area, name = "translation", "translation_overfit"
    exact = [100 * one["exact"] for one in found]
    return [
        record(
            area, f"{name}/bleu", [one["bleu"] for one in found], "BLEU", seeds=seeds, goal=None if quick else ">= 90"
        ),
        record(area, f"{name}/exact", exact, "% of translations", seeds=seeds),
        record(area, f"{name}/training_time", [one["seconds"] for one in found], "s", seeds=seeds),
    ]


def _measure(folder: Path, seed: int, quick: bool) -> dict[str, Any]:
    pairs = short_pairs(load_multi30k("train")[:600], LONGEST)[: 20 if quick else COUNT]
    changes = {**SETTINGS, "steps": 4, "batch_size": 10, "evaluate_every": 4} if quick else SETTINGS
    recipe = translation_recipe("multi30k-short", seed=seed, checkpoint_every=changes["steps"] // 2, **changes)
    recipe = replace(recipe, min_count=1, dropout=0.0, label_smoothing=0.0)
    learnt = train_translator(recipe, pairs=pairs, val_pairs=pairs, folder=folder, resume=True)
    return {**translation_scores(learnt, pairs), "seconds": learnt.history.rows[-1]["seconds"]}
