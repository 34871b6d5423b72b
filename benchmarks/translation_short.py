"""Short German captions never seen, into English: sentences of at most ten words and marks, 900 updates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.records import Record, Workshop, real_data, record
from cs_transformers.data.sentence_pairs import PairDataset
from cs_transformers.training.batches import epoch_order
from cs_transformers.training.recipes_translation import (
    make_tokenizers,
    recipe_pairs,
    train_translator,
    translation_recipe,
    translation_scores,
)

CHECKPOINT_EVERY = 100  # steps; an interrupted run goes on from there
BEAMS = 4


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Train on the 6,818 short pairs, translate the 255 short sentences of test_2016_flickr with beams, and greedily.

    Args:
        quick: A few steps, to show that it works.
        seeds: Seeds of the start values, the order and the dropout.

    Returns:
        BLEU (sacrebleu, tokenize="none", lower-cased words and marks), perplexity, and the share of padding in batches
        of like length against shuffled ones.
    """
    real_data("multi30k", "test_2016_flickr.en.gz")
    workshop = Workshop("translation_short", quick)
    found = [workshop.once(f"seed-{seed}", lambda folder, seed=seed: _measure(folder, seed, quick)) for seed in seeds]
    area, name = "translation", "translation_short"
    units = {
        "greedy": "BLEU",
        "beams": "BLEU",
        "perplexity": "on validation",
        "padding": "% of the ids",
        "padding_shuffled": "% of the ids",
        "seconds": "s of training",
    }
    goals = {} if quick else {"beams": ">= 22"}
    return [
        record(area, f"{name}/{figure}", [one[figure] for one in found], unit, seeds=seeds, goal=goals.get(figure))
        for figure, unit in units.items()
    ]


def _measure(folder: Path, seed: int, quick: bool) -> dict[str, Any]:
    changes = {"steps": 4, "batch_size": 8, "evaluate_every": 4} if quick else {}
    recipe = translation_recipe("multi30k-short", seed=seed, checkpoint_every=CHECKPOINT_EVERY, **changes)
    pairs = recipe_pairs(recipe)
    translator = train_translator(recipe, pairs=pairs[:100] if quick else pairs, folder=folder, resume=True)
    test = recipe_pairs(recipe, "test")[: 20 if quick else None]
    data = PairDataset(pairs, *make_tokenizers(recipe, pairs))
    orders = [epoch_order(len(data), recipe.fit, 0, lengths) for lengths in (data.bucket_lengths, None)]
    padding, shuffled = (100 * data.padding_share(order) for order in orders)
    return {
        "greedy": translation_scores(translator, test)["bleu"],
        "beams": translation_scores(translator, test, beam_size=BEAMS)["bleu"],
        "perplexity": translator.history.best("val_loss")["val_perplexity"],
        "padding": padding,
        "padding_shuffled": shuffled,
        "seconds": translator.history.rows[-1]["seconds"],
    }
