"""A Vision Transformer with each kind of attention on the same scenes: accuracy beside cost, trained or swapped in."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.records import Record, Workshop, record, save_picture
from cs_transformers.data.images import load_scene_images
from cs_transformers.efficient_methods import METHODS
from cs_transformers.plots import accuracy_and_cost
from cs_transformers.training.recipes_efficient import (
    accuracy_after_swap,
    accuracy_by_method,
    efficient_config,
    efficient_vit,
    train_efficient_vit,
)

AREA, SWAP = "efficient attention", {"steps": 30, "learning_rate": 1e-3, "muon_rate": 5e-3}


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Train the model once with each method; and give the one with explicit attention the others' afterwards.

    Args:
        quick: A few steps, to show that it works.
        seeds: Seeds of the start values and the order.

    Returns:
        Test accuracy of each, and milliseconds of processor time per step; accuracy after the swap and 30 steps later.
    """
    workshop, found = Workshop("efficient_vit", quick), []

    def measured(name: str, seed: int) -> dict[str, float]:
        return workshop.once(f"{name.replace(' ', '-')}-{seed}", lambda _: _train(name, seed, quick))

    trained = {name: [measured(name, seed) for seed in seeds] for name in METHODS}
    swapped = [workshop.once(f"swap-{seed}", lambda _, seed=seed: _swap(seed, quick)) for seed in seeds]
    for name, rows in trained.items():
        label = name.replace(" ", "_")
        peer = statistics.mean(100 * row["accuracy"] for row in trained["explicit"])
        accuracies = [100 * row["accuracy"] for row in rows]
        found.append(record(AREA, f"efficient_vit/accuracy_{label}", accuracies, "%", seeds=seeds, peer=peer))
        times = [1000 * row["seconds"] for row in rows]
        found.append(record(AREA, f"efficient_vit/step_{label}", times, "ms", seeds=seeds))
        for figure in ("swapped", "tuned"):
            values = [100 * one[name][figure] for one in swapped]
            found.append(record(AREA, f"efficient_vit/{figure}_{label}", values, "%", seeds=seeds))
    if not quick:
        _draw(trained)
    return found


def _train(name: str, seed: int, quick: bool) -> dict[str, float]:
    train, test = _images(quick)
    return accuracy_by_method([name], train, test, seed=seed, **({"steps": 2} if quick else {}))[name]


def _swap(seed: int, quick: bool) -> dict[str, dict[str, float]]:
    train, test = _images(quick)
    model = efficient_vit("explicit", seed=seed)
    train_efficient_vit(model, train, efficient_config(seed=seed, **({"steps": 2} if quick else {})))
    return accuracy_after_swap(
        model, list(METHODS), train, test, **{**SWAP, "seed": seed, **({"steps": 1} if quick else {})}
    )


def _images(quick: bool) -> tuple[Any, Any]:
    counts = (40, 20) if quick else (4000, 1000)
    return tuple(load_scene_images(split, count=count) for split, count in zip(("train", "test"), counts, strict=True))


def _draw(trained: dict[str, list[dict[str, float]]]) -> None:
    accuracies = [[row["accuracy"] for row in rows] for rows in trained.values()]
    costs = [1000 * statistics.mean(row["seconds"] for row in rows) for rows in trained.values()]
    figure = accuracy_and_cost(
        list(trained),
        [statistics.mean(row) for row in accuracies],
        costs,
        xlabel="processor time of a training step (ms)",
        title="64 tokens: the same model and recipe with each attention",
        spreads=[[min(row), max(row)] for row in accuracies],
    )
    save_picture("efficient_vit", figure)
