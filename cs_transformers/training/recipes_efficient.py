"""One Vision Transformer, one recipe, one data set: only the attention differs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from cs_transformers.data.images import LabelledImages, channel_statistics, normalise
from cs_transformers.efficient_layers import alternate_shifts
from cs_transformers.efficient_methods import METHODS, builder
from cs_transformers.errors import check_choice, check_count
from cs_transformers.training.config import FitConfig
from cs_transformers.training.loop import fit
from cs_transformers.training.losses import classification_loss
from cs_transformers.training.recipes import predict_classes
from cs_transformers.vit import VisionTransformer


def patch_options(name: str, side: int) -> dict[str, Any]:
    """Choose the options of a method for a square grid of patches, so that a token meets about a quarter of the others.

    Args:
        name: One of ``METHODS``.
        side: Rows and columns of the grid.

    Returns:
        Keywords for ``builder``.

    Raises:
        ValueError: If there is no such method, or ``side`` is below 1.

    Example:
        >>> patch_options("shifted window", side=8)
        {'grid': (8, 8), 'window': 4}
    """
    check_choice("patch_options", "name", name, tuple(METHODS))
    check_count("patch_options", "side", side)
    tokens = side * side
    quarter = max(1, tokens // 4)
    return {
        "explicit": {},
        "chunked": {"chunk_size": quarter},
        "linear": {},
        "random features": {"num_features": quarter},
        "low rank": {"max_len": tokens, "rank": quarter},
        "sliding window": {"window": max(1, quarter // 2)},
        "shifted window": {"grid": (side, side), "window": max(1, side // 2)},
        "buckets": {"num_buckets": 4, "chunk_size": max(1, quarter // 2), "rounds": 2},
    }[name]


def efficient_vit(
    name: str, *, classes: int = 10, size: int = 32, patch_size: int = 4, seed: int = 231
) -> VisionTransformer:
    """Build a small Vision Transformer with one kind of attention.

    Args:
        name: One of ``METHODS``.
        classes: Number of classes.
        size: Height and width of the images, a multiple of ``patch_size``.
        patch_size: Height and width of a patch; smaller patches are more tokens.
        seed: Seed of the start values.

    Returns:
        The model; of window layers every second one is shifted.

    Raises:
        ValueError: If there is no such method, or the sizes do not fit.
    """
    attention = builder(name, **patch_options(name, size // patch_size))
    sizes = {"embed_dim": 64, "num_layers": 2, "num_heads": 4, "dim_feedforward": 128, "dropout": 0.0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = VisionTransformer(
            size, patch_size, num_classes=classes, positions="learned", norm_first=True, attention=attention, **sizes
        )
    return alternate_shifts(model) if name == "shifted window" else model


def swap_attention(model: VisionTransformer, name: str) -> VisionTransformer:
    """Put another attention into a model of ``efficient_vit`` that has been trained, and keep its weights.

    Args:
        model: The trained model; it is not changed.
        name: One of ``METHODS``.

    Returns:
        A new model with the same weights; what a method has beyond them starts anew.

    Raises:
        ValueError: If there is no such method.
    """
    embed = model.patch_embed
    swapped = efficient_vit(name, classes=model.num_classes, size=embed.image_shape[0], patch_size=embed.patch_shape[0])
    swapped.load_state_dict(model.state_dict(), strict=False)
    return swapped.train(model.training)


def efficient_config(**changes: Any) -> FitConfig:
    """Give the settings that all methods share.

    Args:
        **changes: Fields of :class:`FitConfig` that shall differ.

    Returns:
        The settings.

    Example:
        >>> efficient_config(steps=100).steps
        100
    """
    recipe = {
        "steps": 300,
        "batch_size": 64,
        "optimizer": "muon",
        "learning_rate": 3e-3,
        "muon_rate": 0.02,
        "weight_decay": 0.05,
        "warmup": 0.1,
    }
    return FitConfig(**{**recipe, **changes})


def train_efficient_vit(model: VisionTransformer, train: LabelledImages, config: FitConfig) -> float:
    """Train a classifier of images, in place.

    Args:
        model: The model.
        train: Images to learn from.
        config: Settings.

    Returns:
        Seconds of processor time that one step took: other programs on the machine do not count.
    """
    data = TensorDataset(_pixels(train, train), train.labels)
    started = time.process_time()
    fit(model, data, loss=classification_loss(), config=config)
    return (time.process_time() - started) / config.total_steps(len(data))


def image_accuracy(model: VisionTransformer, train: LabelledImages, images: LabelledImages) -> float:
    """Judge a classifier.

    Args:
        model: The model.
        train: What it was trained on; its colours set the scale.
        images: Images to be named.

    Returns:
        The share that is named right, from 0 to 1.
    """
    return (predict_classes(model, _pixels(train, images)) == images.labels).double().mean().item()


def accuracy_by_method(
    names: Sequence[str], train: LabelledImages, test: LabelledImages, *, patch_size: int = 4, **changes: Any
) -> dict[str, dict[str, float]]:
    """Train the same model with one attention after the other and judge each on images it has not seen.

    Args:
        names: Methods, of ``METHODS``.
        train: Images to learn from.
        test: Images to be named.
        patch_size: Height and width of a patch.
        **changes: Fields of :class:`FitConfig` that shall differ.

    Returns:
        For each method "accuracy" from 0 to 1 and "seconds" of processor time per training step.

    Raises:
        ValueError: If there is no such method, or the sizes do not fit.
    """
    config, found = efficient_config(**changes), {}
    sizes = {"classes": len(train.classes), "size": train.images.shape[-1], "patch_size": patch_size}
    for name in names:
        model = efficient_vit(name, **sizes, seed=config.seed)
        seconds = train_efficient_vit(model, train, config)
        found[name] = {"accuracy": image_accuracy(model, train, test), "seconds": seconds}
    return found


def accuracy_after_swap(
    model: VisionTransformer,
    names: Sequence[str],
    train: LabelledImages,
    test: LabelledImages,
    *,
    steps: int = 30,
    **changes: Any,
) -> dict[str, dict[str, float]]:
    """Give a trained model other attentions: what each makes of the weights at once, and after a little more training.

    Args:
        model: A trained model of ``efficient_vit``; it is not changed.
        names: Methods, of ``METHODS``.
        train: Images to learn from.
        test: Images to be named.
        steps: Steps of training after the swap.
        **changes: Fields of :class:`FitConfig` that shall differ.

    Returns:
        For each method "swapped" and "tuned", accuracies from 0 to 1.

    Raises:
        ValueError: If there is no such method.
    """
    config, found = efficient_config(steps=steps, **changes), {}
    for name in names:
        swapped = swap_attention(model, name)
        before = image_accuracy(swapped, train, test)
        train_efficient_vit(swapped, train, config)
        found[name] = {"swapped": before, "tuned": image_accuracy(swapped, train, test)}
    return found


def _pixels(train: LabelledImages, images: LabelledImages) -> Tensor:
    return normalise(images.images, *channel_statistics(train.images))
