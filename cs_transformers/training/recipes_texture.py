"""Recipe for texture transfer: images from dictionaries of tiles, whose detail only the reference can tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from cs_transformers.data.degradations import as_pixels, shrink
from cs_transformers.data.textures import make_tile_pairs
from cs_transformers.errors import explain
from cs_transformers.restoration import bicubic
from cs_transformers.texture import SCALE, TextureTransformer, perceptual_loss
from cs_transformers.training.config import FitConfig
from cs_transformers.training.evaluation import LossFunction
from cs_transformers.training.history import History
from cs_transformers.training.image_scores import psnr
from cs_transformers.training.loop import fit

TRAIN_SEED, VAL_SEED = 231, 1_000_231
VAL_PAIRS = 48


@dataclass(kw_only=True, frozen=True)
class TextureRecipe:
    """Sizes of a texture transformer and the settings of its training.

    Args:
        features: Channels of the branches.
        res_blocks: Residual blocks of the first features, and at quarter, half and full size.
        extractor_channels: Channels of the texture extractor at full, half and quarter size.
        perceptual: Weight of the difference between extracted features of result and truth.
        texture: Weight of the difference between extracted features of the result and the copied ones.
        train_pairs: Number of pairs to learn from.
        fit: Settings of the loop.
    """

    features: int = 24
    res_blocks: tuple[int, int, int, int] = (1, 1, 1, 1)
    extractor_channels: tuple[int, int, int] = (16, 24, 32)
    perceptual: float = 0.0
    texture: float = 0.0
    train_pairs: int = 2160
    fit: FitConfig = field(default_factory=FitConfig)

    def build(self) -> TextureTransformer:
        """Build the untrained model."""
        return TextureTransformer(self.features, res_blocks=self.res_blocks, extractor_channels=self.extractor_channels)


def texture_recipe(**changes: Any) -> TextureRecipe:
    """Give the recipe for tile dictionaries: 270 steps.

    Args:
        **changes: Fields of :class:`FitConfig` that shall differ.

    Returns:
        The recipe.

    Example:
        >>> texture_recipe(steps=20).fit.steps
        20
    """
    settings = FitConfig(
        steps=270,
        batch_size=8,
        learning_rate=1e-3,
        weight_decay=0.0,
        schedule="linear",
        warmup=0.1,
        floor=0.03,
        evaluate_every=90,
        monitor="val_right_reference",
    )
    return TextureRecipe(fit=replace(settings, **changes))


def texture_loss(*, perceptual: float = 0.0, texture: float = 0.0) -> LossFunction:
    """Make the loss of a texture transformer: mean absolute error, and where wanted two comparisons of features.

    Args:
        perceptual: Weight of the difference between what the extractor says of the result and of the true image.
        texture: Weight of the difference between what it says of the result and what was copied.

    Returns:
        Function of a model and a batch (small, reference, good), with PSNR beside the loss.

    Raises:
        ValueError: If a weight is negative.
    """
    for name, weight in (("perceptual", perceptual), ("texture", texture)):
        if weight < 0:
            raise ValueError(explain("texture_loss", name, "0 or more", weight, "pass 0 to leave it out"))

    def loss(model: nn.Module, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        small, reference, good = batch
        restored, found = model(small, reference, need_transfer=True)
        total = F.l1_loss(restored, good)
        if perceptual or texture:
            described = model.extractor(restored)
        if perceptual:
            with torch.no_grad():
                truth = model.extractor(good)
            total = total + perceptual * perceptual_loss(described, truth)
        if texture:
            copied = tuple(level.detach() for level in reversed(found.textures))
            total = total + texture * perceptual_loss(described, copied)
        return total, {"psnr": psnr(restored.detach(), good).mean()}

    return loss


@dataclass
class TrainedTexture:
    """What the recipe for texture transfer gives.

    Args:
        model: The trained model.
        history: The course of the training.
        recipe: How it was trained.
    """

    model: TextureTransformer
    history: History
    recipe: TextureRecipe


def train_texture(
    recipe: TextureRecipe | None = None,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    on_record: Callable[[History], None] | None = None,
) -> TrainedTexture:
    """Train a texture transformer on pairs of images from one dictionary of tiles each.

    Args:
        recipe: Sizes and settings, or None for ``texture_recipe()``.
        folder: Where checkpoints are kept, or None.
        resume: Go on from the last checkpoint in ``folder``.
        on_record: Called with the history after every evaluation.

    Returns:
        The trained model.
    """
    recipe = recipe or texture_recipe()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.fit.seed)
        model = recipe.build()
    history = fit(
        model,
        TensorDataset(*make_tile_pairs(recipe.train_pairs, TRAIN_SEED)),
        loss=texture_loss(perceptual=recipe.perceptual, texture=recipe.texture),
        config=recipe.fit,
        evaluate=_evaluate,
        transform=lambda batch, _generator: small_reference_good(*batch),
        folder=folder,
        resume=resume,
        on_record=on_record,
    )
    return TrainedTexture(model, history, recipe)


def _evaluate(model: nn.Module) -> dict[str, float]:
    return {f"val_{name}": value for name, value in measure_references(model, VAL_PAIRS, VAL_SEED).items()}


def small_reference_good(images: Tensor, references: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Make the input of a texture transformer.

    Args:
        images: (N, 3, H, W) uint8, H and W multiples of 4.
        references: (N, 3, Hr, Wr) uint8.

    Returns:
        Small images (N, 3, H/4, W/4), references and good images, from 0 to 1.

    Example:
        >>> [part.shape[-1] for part in small_reference_good(*make_tile_pairs(2, seed=1))]
        [9, 36, 36]
    """
    good = as_pixels(images)
    return shrink(good, SCALE), as_pixels(references), good


def measure_references(model: TextureTransformer, count: int, seed: int) -> dict[str, float]:
    """Measure PSNR of bicubic enlargement and of the model with the right, a wrong, and the best reference there is.

    Args:
        model: The model.
        count: Number of pairs, two or more.
        seed: Seed of their series.

    Returns:
        Mean decibels: "bicubic", "right_reference" (the same tiles in another order), "wrong_reference" (another
        pair's tiles) and "itself" (the true image as its own reference).
    """
    device = next(model.parameters()).device
    small, reference, good = (part.to(device) for part in small_reference_good(*make_tile_pairs(count, seed)))
    found = {"bicubic": psnr(bicubic(small, tuple(good.shape[-2:])), good).mean().item()}
    with torch.no_grad():
        for name, used in (
            ("right_reference", reference),
            ("wrong_reference", reference.roll(1, dims=0)),
            ("itself", good),
        ):
            found[name] = psnr(model(small, used), good).mean().item()
    return found
