"""Full recipes for the Vision Transformer: CIFAR-10 in two epochs, and scenes or a folder of photos.

Validation images are held out of the training images to watch or to choose by; the test images are looked at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from cs_transformers.data.images import channel_statistics, load_images, normalise
from cs_transformers.training.config import FitConfig
from cs_transformers.training.history import History
from cs_transformers.training.loop import fit
from cs_transformers.training.recipes import predict_classes
from cs_transformers.training.vit_cifar import cifar_config, pixel_loss, train_cifar_vit
from cs_transformers.vit import VisionTransformer


@dataclass
class TrainedClassifier:
    """What a recipe for images gives.

    Args:
        model: The trained model.
        history: The course of the training.
        classes: Names of the classes.
        statistics: Mean and deviation of each channel, which the model expects to be taken out.
    """

    model: VisionTransformer
    history: History
    classes: tuple[str, ...]
    statistics: tuple[tuple[float, ...], tuple[float, ...]]

    def predict(self, images: Tensor) -> Tensor:
        """Name the most probable class of every image.

        Args:
            images: (N, C, H, W) uint8.

        Returns:
            (N,) int64 classes.
        """
        parts = [predict_classes(self.model, normalise(part, *self.statistics)) for part in images.split(512)]
        return torch.cat(parts)


def shapes_config(**changes: Any) -> FitConfig:
    """Give the settings for scenes and small folders.

    Args:
        **changes: Fields of :class:`FitConfig` that shall differ.

    Returns:
        The settings.

    Example:
        >>> shapes_config(seed=3).total_steps(examples=4000)
        630
    """
    recipe = {
        "epochs": 10,
        "batch_size": 64,
        "optimizer": "muon",
        "learning_rate": 2e-3,
        "muon_rate": 0.01,
        "weight_decay": 0.05,
        "warmup": 0.1,
        "monitor": "val_accuracy",
    }
    return FitConfig(**{**recipe, **changes})


def train_vit(
    data: str | Path = "scenes",
    config: FitConfig | None = None,
    *,
    size: int = 32,
    folder: str | Path | None = None,
    resume: bool = False,
    on_record: Callable[[History], None] | None = None,
) -> TrainedClassifier:
    """Train a Vision Transformer on a set of images.

    Args:
        data: "scenes", "cifar10" (or one of its forms), or a folder with a folder of photos per class.
        config: Settings, or None for those of the data set.
        size: Height and width that scenes and photos get, a multiple of 8.
        folder: Where checkpoints are kept, or None.
        resume: Go on from the last checkpoint in ``folder``.
        on_record: Called with the history after every evaluation.

    Returns:
        The trained model.

    Raises:
        FileNotFoundError: If the data is not on disk.
    """
    images, labels, classes = load_images(data, "train", size=size)
    val_images, val_labels, _ = load_images(data, "val", size=size)
    statistics = channel_statistics(images)
    if str(data).startswith("cifar10"):
        model, history = train_cifar_vit(
            images,
            labels,
            validation=(val_images, val_labels),
            config=config or cifar_config(),
            folder=folder,
            resume=resume,
            on_record=on_record,
        )
        return TrainedClassifier(model, history, classes, statistics)
    config = config or shapes_config()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = shapes_vit(size, len(classes))
    history = fit(
        model,
        TensorDataset(images, labels),
        TensorDataset(val_images, val_labels),
        loss=pixel_loss(images),
        config=config,
        folder=folder,
        resume=resume,
        on_record=on_record,
    )
    return TrainedClassifier(model, history, classes, statistics)


def shapes_vit(size: int, classes: int) -> VisionTransformer:
    """Build a small Vision Transformer: large patches, learned positions, pre-norm.

    Args:
        size: Height and width of the images, a multiple of 8.
        classes: Number of classes.

    Returns:
        The model.
    """
    sizes = {"patch_size": 8, "embed_dim": 64, "num_layers": 3, "num_heads": 4, "dim_feedforward": 128}
    return VisionTransformer(size, num_classes=classes, dropout=0.0, positions="learned", norm_first=True, **sizes)
