"""A ViT on CIFAR-10 in two epochs: the published sizes, and how far a recipe alone takes them.

The model is that of the course's last exercise on images: patches of 4, width 128, 4 layers of 4 heads, feed-forward
width 256; pre-norm, learned positions, the mean of the tokens, no dropout. What helps when every image is seen only
twice: start values taken from the images (:mod:`cs_transformers.training.vit_init`), Muon, and small batches.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from cs_transformers.data.images import channel_statistics, normalise
from cs_transformers.training.batches import generator_for
from cs_transformers.training.config import FitConfig
from cs_transformers.training.evaluation import LossFunction
from cs_transformers.training.history import History
from cs_transformers.training.loop import evaluate_loss, fit
from cs_transformers.training.losses import classification_loss
from cs_transformers.training.muon import Muon
from cs_transformers.training.optimizers import layer_matrices, parameter_groups
from cs_transformers.training.run import Scheduled
from cs_transformers.training.schedules import warmup_linear
from cs_transformers.training.vit_init import start_from_images
from cs_transformers.vit import VisionTransformer

START, IMAGES_TO_START = 4, 5000  # random stream of the start values; images they are taken from
WARMUP = 0.05  # share of the steps


def cifar_config(**changes: Any) -> FitConfig:
    """Settings of the recipe.

    Args:
        changes: Fields of :class:`FitConfig` that shall differ.

    Returns:
        The settings.

    Example:
        >>> cifar_config(seed=3).total_steps(examples=50_000)
        3124
    """
    recipe = {
        "epochs": 2,
        "batch_size": 32,
        "drop_last": True,
        "optimizer": "muon",
        "learning_rate": 2e-3,
        "muon_rate": 7e-3,
        "weight_decay": 0.01,
        "betas": (0.9, 0.99),
        "schedule": "linear",
        "clip_norm": None,
        "keep_best": False,  # the rate ends at zero: the last weights are the best, and no image is held back to choose
    }
    return FitConfig(**{**recipe, **changes})


def cifar_vit(images: Tensor, *, classes: int = 10, seed: int = 231) -> VisionTransformer:
    """Build the ViT of the recipe with its start values.

    Args:
        images: (M, 3, H, W) uint8 training images, the sides multiples of 4.
        classes: Number of classes.
        seed: Start of the random part of the start values.

    Returns:
        The model, which takes images as :func:`pixel_loss` makes them.

    Raises:
        TypeError: If ``images`` are not uint8.
    """
    mean, std = channel_statistics(images)
    options = {"num_classes": classes, "dropout": 0.0, "positions": "learned", "norm_first": True}
    model = VisionTransformer(images.shape[2:], 4, embed_dim=128, num_layers=4, num_heads=4, **options)
    generator = generator_for(seed, START)
    with torch.no_grad():
        nn.init.normal_(model.head.weight, std=0.02, generator=generator)
    chosen = torch.randperm(len(images), generator=generator)[:IMAGES_TO_START]
    start_from_images(model, normalise(images[chosen], mean, std), generator=generator)
    return model


def cifar_optimizers(model: VisionTransformer, config: FitConfig, examples: int) -> list[Scheduled]:
    """Give the layers' matrices to Muon and everything else to AdamW, both with a short rise and a fall to zero.

    Args:
        model: Model to train.
        config: Rates, decay and length of the training.
        examples: Number of training images.

    Returns:
        Pairs of optimizer and schedule, as :func:`fit` takes them.
    """
    total = config.total_steps(examples)
    schedule = warmup_linear(total, warmup=max(1, round(WARMUP * total)), floor=1e-3)
    matrices = layer_matrices(model)
    rest = parameter_groups(model, config.weight_decay, leave_out=matrices)
    muon = Muon(matrices, lr=config.muon_rate, weight_decay=config.weight_decay)
    adam = torch.optim.AdamW(rest, lr=config.learning_rate, betas=config.betas)
    return [(muon, schedule), (adam, schedule)]


def train_cifar_vit(
    images: Tensor,
    labels: Tensor,
    *,
    classes: int = 10,
    validation: tuple[Tensor, Tensor] | None = None,
    config: FitConfig | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    on_record: Callable[[History], None] | None = None,
) -> tuple[VisionTransformer, History]:
    """Train the ViT of the recipe on images, each seen once per epoch.

    Args:
        images: (M, 3, H, W) uint8 training images.
        labels: (M,) their classes.
        classes: Number of classes.
        validation: Images and labels to watch the training with; it ends with the last weights all the same.
        config: Settings, by default :func:`cifar_config`; the seed also decides the start values.
        folder: Where checkpoints are kept, or None.
        resume: Go on from the last checkpoint in ``folder``.
        on_record: Called with the history after every evaluation.

    Returns:
        The trained model and the history.

    Raises:
        TypeError: If ``images`` are not uint8.
    """
    config = config or cifar_config()
    model = cifar_vit(images, classes=classes, seed=config.seed)
    history = fit(
        model,
        TensorDataset(images, labels),
        None if validation is None else TensorDataset(*validation),
        loss=pixel_loss(images),
        config=config,
        transform=mirror_half,
        optimizers=cifar_optimizers(model, config, len(images)),
        folder=folder,
        resume=resume,
        on_record=on_record,
    )
    return model, history


def cifar_accuracy(model: VisionTransformer, images: Tensor, labels: Tensor, training_images: Tensor) -> float:
    """Measure the share of images that are named rightly.

    Args:
        model: Trained model.
        images: (M, 3, H, W) uint8 images it has not seen.
        labels: (M,) their classes.
        training_images: The images it was trained on, whose mean and spread it expects.

    Returns:
        Accuracy in [0, 1].
    """
    figures = evaluate_loss(model, TensorDataset(images, labels), loss=pixel_loss(training_images))
    return figures["accuracy"]


def pixel_loss(training_images: Tensor) -> LossFunction:
    """Make the loss: bytes become numbers around zero, then cross entropy, with the accuracy beside it.

    Args:
        training_images: (M, C, H, W) uint8 images that give mean and spread of each channel.

    Returns:
        Function of a model and a batch (images (N, C, H, W) uint8, labels (N,)).
    """
    statistics, plain = channel_statistics(training_images), classification_loss()
    return lambda model, batch: plain(model, (normalise(batch[0], *statistics), batch[1]))


def mirror_half(batch: tuple[Tensor, Tensor], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Mirror every second image, left to right, by chance: what a photo shows does not depend on it.

    Args:
        batch: Images (N, C, H, W) and labels (N,).
        generator: Random stream on the CPU.

    Returns:
        The batch, some images mirrored.

    Example:
        >>> images, labels = torch.arange(12).reshape(6, 1, 1, 2), torch.zeros(6)
        >>> mirrored, _ = mirror_half((images, labels), torch.Generator().manual_seed(0))
        >>> 0 < (mirrored != images).any(dim=-1).sum().item() < 6
        True
    """
    images, labels = batch
    chosen = torch.rand(len(images), generator=generator).to(images.device) < 0.5
    return torch.where(chosen[:, None, None, None], images.flip(3), images), labels
