"""Vision Transformer: one batch of 64 CIFAR-10 images learnt by heart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.records import Record, Workshop, real_data, record
from cs_transformers.data.images import channel_statistics, load_cifar10, normalise
from cs_transformers.training.metrics import accuracy
from cs_transformers.training.recipes import overfit_batch, predict_classes
from cs_transformers.vit import VisionTransformer

COUNT, STEPS = 64, 200


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Overfit the first 64 training images with the sizes that Stanford's model has by default.

    Args:
        quick: Fewer images and a smaller model, to show that it works.
        seeds: Seeds of the start values and the dropout.

    Returns:
        The accuracy on the batch and the last loss.
    """
    real_data("cifar10", "cifar10_exact_4k1k.h5")
    workshop = Workshop("vit_overfit", quick)
    found = [workshop.once(f"seed-{seed}", lambda _folder, seed=seed: _measure(seed, quick)) for seed in seeds]
    name, area = "vit_overfit", "vision transformer"
    goal, peer = (None, None) if quick else (">= 1.0", 1.0)
    return [
        record(area, f"{name}/accuracy", [one["accuracy"] for one in found], "of 1", seeds=seeds, goal=goal, peer=peer),
        record(area, f"{name}/last_training_loss", [one["loss"] for one in found], "nats an image", seeds=seeds),
    ]


def _measure(seed: int, quick: bool) -> dict[str, Any]:
    count = 8 if quick else COUNT
    images, labels, _ = load_cifar10("exact", "train")
    images, labels = images[:count], labels[:count]
    pixels = normalise(images, *channel_statistics(images))
    torch.manual_seed(seed)
    model = VisionTransformer(num_layers=1, embed_dim=32) if quick else VisionTransformer()
    losses = overfit_batch(model, pixels, labels, steps=10 if quick else STEPS)
    return {"accuracy": accuracy(predict_classes(model, pixels), labels), "loss": losses[-1]}
