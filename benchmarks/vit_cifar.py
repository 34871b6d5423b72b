"""Vision Transformer: CIFAR-10 in two epochs with the published sizes, by recipe alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.records import Record, Workshop, real_data, record
from cs_transformers.data.images import load_cifar10
from cs_transformers.training.vit_cifar import cifar_accuracy, cifar_config, train_cifar_vit

PUBLISHED = 46.57  # % on the test images after two epochs, Stanford CS231n, assignment 3
GOAL = ">= 72"
CHECKPOINT_EVERY = 200  # steps; an interrupted run goes on from there


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Train on all 50,000 training images for two epochs, then look at the 10,000 test images once per seed.

    Args:
        quick: Train on a few images, to show that it works.
        seeds: Seeds of start values and order.

    Returns:
        The accuracies.
    """
    real_data("cifar10", "cifar10_jpeg.h5")
    workshop = Workshop("vit_cifar", quick)
    found = [workshop.once(f"seed-{seed}", lambda folder, seed=seed: _measure(folder, seed, quick)) for seed in seeds]
    area, name = "vision transformer", "vit_cifar"
    test, train = ([100 * one[part] for one in found] for part in ("test", "train"))
    goal, peer = (None, None) if quick else (GOAL, PUBLISHED)
    return [
        record(area, f"{name}/test_accuracy", test, "%", seeds=seeds, goal=goal, peer=peer),
        record(area, f"{name}/second_epoch_training_accuracy", train, "%", seeds=seeds),
        record(area, f"{name}/training_time", [one["seconds"] for one in found], "s", seeds=seeds),
    ]


def _measure(folder: Path, seed: int, quick: bool) -> dict[str, Any]:
    images, labels, _ = load_cifar10("jpeg", "train", count=320 if quick else None)
    test_images, test_labels, _ = load_cifar10("jpeg", "test", count=100 if quick else None)
    config = cifar_config(seed=seed, checkpoint_every=CHECKPOINT_EVERY)
    model, history = train_cifar_vit(images, labels, config=config, folder=folder, resume=True)
    last = history.rows[-1]
    test = cifar_accuracy(model, test_images, test_labels, images)
    return {"test": test, "train": last["train_accuracy"], "seconds": last["seconds"]}
