"""Captions of real photos learnt by heart: 50 captions of 50 photos within 200 steps of batch 25."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.records import Record, Workshop, real_data, record
from cs_transformers.captioning import CaptioningTransformer
from cs_transformers.data.captions import load_flickr8k
from cs_transformers.training.recipes import captions_by_heart, overfit_captions

COUNT, STEPS, BATCH_SIZE = 50, 200, 25
PUBLISHED = 0.05  # the bound of Stanford CS231n, assignment 3, for 50 captions of COCO in as many steps


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Overfit with Stanford's sizes (width 256, 2 heads, 2 layers), then ask for every caption.

    Args:
        quick: Fewer captions and a smaller model, to show that it works.
        seeds: Seeds of the choice of captions, the start values and the order.

    Returns:
        Loss by Stanford's mean, loss over real words, number of captions reproduced.
    """
    real_data("flickr8k_1000", "h5", "features.h5")
    workshop = Workshop("captions_overfit", quick)
    found = [workshop.once(f"seed-{seed}", lambda _folder, seed=seed: _measure(seed, quick)) for seed in seeds]
    count = 5 if quick else COUNT
    goals = {"loss": f"< {PUBLISHED}", "last_training_loss": f"< {PUBLISHED}", "reproduced": ">= 48"}
    units = {
        "loss": "nats a position",
        "last_training_loss": "nats a position",
        "word_loss": "nats a word",
        "reproduced": f"of {count} captions",
    }
    peers = {"loss": PUBLISHED, "last_training_loss": PUBLISHED}
    return [
        record(
            "captioning",
            f"captions_overfit/{figure}",
            [one[figure] for one in found],
            unit,
            seeds=seeds,
            goal=None if quick else goals.get(figure),
            peer=None if quick else peers.get(figure),
        )
        for figure, unit in units.items()
    ]


def _measure(seed: int, quick: bool) -> dict[str, Any]:
    data = load_flickr8k(max_train=5 if quick else COUNT, seed=seed)
    rows = data["train_image_idxs"]
    features = torch.from_numpy(np.asarray(data["train_features"][rows], dtype=np.float32))
    captions = torch.from_numpy(data["train_captions"].astype(np.int64))
    if len(set(rows.tolist())) != len(rows):
        raise ValueError("captions_overfit: expected captions of different photos, got some of one; change the choice.")
    torch.manual_seed(seed)
    width = 64 if quick else 256
    model = CaptioningTransformer(data["word_to_idx"], features.shape[1], width, num_heads=2, max_length=30)
    steps, batch_size = (20, 5) if quick else (STEPS, BATCH_SIZE)
    losses = overfit_captions(model, features, captions, steps=steps, batch_size=batch_size, seed=seed)
    return {**captions_by_heart(model, features, captions), "last_training_loss": losses[-1]}
