"""German captions of any length into English: byte pairs, all 29,000 pairs, 25 minutes of two processor cores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.records import Record, Workshop, real_data, record, save_picture
from cs_transformers.plots import training_curves
from cs_transformers.training.recipes_translation import (
    recipe_pairs,
    train_translator,
    translation_recipe,
    translation_scores,
)

CHECKPOINT_EVERY = 50  # steps; an interrupted run goes on from there
BEAMS = 4


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Train with one seed as long as the recipe says, translate the 1,000 sentences of test_2016_flickr.

    Args:
        quick: A few steps, to show that it works.
        seeds: The first is the seed of the start values, the order and the dropout.

    Returns:
        BLEU, greedy and with beams: sacrebleu, tokenize="none" on lower-cased words and marks, and by its tokenizer 13a
        on lower-cased text; perplexity; seconds of training.
    """
    real_data("multi30k", "test_2016_flickr.en.gz")
    seed = seeds[0]
    found = Workshop("translation_full", quick).once(f"seed-{seed}", lambda folder: _measure(folder, seed, quick))
    area, name = "translation", "translation_full"
    units = {
        "beams": "BLEU",
        "greedy": "BLEU",
        "beams_13a": "BLEU",
        "perplexity": "on validation",
        "parameters": "million",
        "updates": "steps",
        "seconds": "s of training",
    }
    # The 36.5 of the tutorials' model (9 million parameters, ten epochs on a GPU) is on other tokens: not comparable.
    return [record(area, f"{name}/{figure}", [found[figure]], unit, seeds=[seed]) for figure, unit in units.items()]


def _measure(folder: Path, seed: int, quick: bool) -> dict[str, Any]:
    changes = {"steps": 2, "batch_size": 4, "evaluate_every": 2} if quick else {}
    recipe = translation_recipe("multi30k", seed=seed, checkpoint_every=CHECKPOINT_EVERY, **changes)
    pairs, val, test = ((recipe_pairs(recipe, split)) for split in ("train", "val", "test"))
    if quick:
        pairs, val, test = pairs[:50], val[:10], test[:5]
    translator = train_translator(recipe, pairs=pairs, val_pairs=val, folder=folder, resume=True)
    history = translator.history
    if not quick:
        save_picture("translation_full", training_curves(history.losses, history.rows))
    beams = translation_scores(translator, test, beam_size=BEAMS)
    return {
        "beams": beams["bleu"],
        "greedy": translation_scores(translator, test)["bleu"],
        "beams_13a": beams["bleu_13a"],
        "perplexity": history.best("val_loss")["val_perplexity"],
        "parameters": sum(one.numel() for one in translator.model.parameters()) / 1e6,
        "updates": len(history.losses),
        "seconds": history.rows[-1]["seconds"],
    }
