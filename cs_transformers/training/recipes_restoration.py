"""Recipes for restoration: many tasks with one body, one task further, and what came of it on images never seen.

Letters: N batch, C channels, S side of the images the model reads, s scale of a task.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from cs_transformers.data.degradations import as_bytes, as_pixels, degrade
from cs_transformers.data.restoration_sets import PhotoPair, PhotoPatches, training_photos
from cs_transformers.data.scenes import make_scenes, render
from cs_transformers.data.textures import make_textures
from cs_transformers.errors import check_choice, explain
from cs_transformers.restoration import ImageRestorationTransformer, bicubic, contrastive_loss, task_scale
from cs_transformers.training.checkpoints import save_checkpoint
from cs_transformers.training.config import FitConfig
from cs_transformers.training.evaluation import LossFunction
from cs_transformers.training.history import History
from cs_transformers.training.image_scores import luma, psnr
from cs_transformers.training.loop import fit
from cs_transformers.training.stored_models import load_parts, rebuilding

TRAIN_SEED, VAL_SEED, DAMAGE_SEED = 231, 1_000_231, 7
VAL_IMAGES = 60
RESTORER_FILE = "restorer.pt"
DRAWN = ("textures", "scenes")


@dataclass(kw_only=True, frozen=True)
class RestorationRecipe:
    """Sizes of a restoration model and the settings of its training.

    Args:
        tasks: What it learns to repair.
        img_size: Side S of the images it reads, in pixels.
        patch_size: Side of a patch of features.
        features: Channels of the map of features.
        num_heads: Number of heads.
        num_layers: Layers of the encoder, and of the decoder.
        dim_feedforward: Inner width of the feed-forward networks, or None for four times the model width.
        contrastive: Weight of the contrastive loss beside the mean absolute error of pixels from 0 to 1. The paper's
            weight of 0.1 belongs to pixels from 0 to 255.
        train_images: Number of procedural images to learn from.
        fit: Settings of the loop.
    """

    tasks: tuple[str, ...] = ("denoise30", "denoise50", "x2")
    img_size: int = 24
    patch_size: int = 4
    features: int = 16
    num_heads: int = 4
    num_layers: int = 2
    dim_feedforward: int | None = 512
    contrastive: float = 0.1 / 255
    train_images: int = 4000
    fit: FitConfig = field(default_factory=FitConfig)

    def __post_init__(self) -> None:
        if self.contrastive < 0:
            fix = "pass 0 to leave it out, 0.1 / 255 as is usual"
            raise ValueError(explain("RestorationRecipe", "contrastive", "0 or more", self.contrastive, fix))

    def build(self) -> ImageRestorationTransformer:
        """Build the untrained model."""
        return ImageRestorationTransformer(self.tasks, **self.sizes())

    def sizes(self) -> dict[str, Any]:
        """Keywords of the model."""
        names = ("img_size", "patch_size", "features", "num_heads", "num_layers", "dim_feedforward")
        return {name: getattr(self, name) for name in names}

    @property
    def largest(self) -> int:
        """Side in pixels of the good images that every task can be made from."""
        return self.img_size * max(task_scale(task) for task in self.tasks)


def restoration_recipe(tasks: Sequence[str] | None = None, **changes: Any) -> RestorationRecipe:
    """Give the recipe for procedural images: noise of two strengths and enlargement, in 330 steps.

    Args:
        tasks: Other tasks, or None for these three.
        **changes: Fields of :class:`FitConfig` that shall differ.

    Returns:
        The recipe.

    Example:
        >>> restoration_recipe(steps=40).fit.steps
        40
    """
    settings = FitConfig(
        steps=330,
        batch_size=16,
        learning_rate=1e-3,
        weight_decay=0.0,
        schedule="linear",
        warmup=0.15,
        floor=0.03,
        evaluate_every=110,
        monitor="val_gain",
    )
    recipe = RestorationRecipe(fit=replace(settings, **changes))
    return recipe if tasks is None else replace(recipe, tasks=tuple(tasks))


def photo_recipe(tasks: Sequence[str] | None = None, **changes: Any) -> RestorationRecipe:
    """Give the recipe for photos: the same tasks, for longer.

    Args:
        tasks: Other tasks, or None for these three.
        **changes: Fields of :class:`FitConfig` that shall differ.

    Returns:
        The recipe.
    """
    longer = {"steps": 1500, "warmup": 0.05, "evaluate_every": 500, **changes}
    return restoration_recipe(tasks, **longer)


class Damage:
    """Turn good images into a task: draw one for the whole batch, cut, mirror and turn the images, damage them.

    Args:
        tasks: Tasks to draw from.
        img_size: Side S of the damaged images.

    Example:
        >>> images = torch.zeros(5, 3, 48, 48, dtype=torch.uint8)
        >>> damaged, good, task = Damage(("x2",), img_size=24)((images,), torch.Generator())
        >>> damaged.shape, good.shape, task
        (torch.Size([5, 3, 24, 24]), torch.Size([5, 3, 48, 48]), 'x2')
    """

    def __init__(self, tasks: Sequence[str], img_size: int) -> None:
        self.tasks, self.img_size = tuple(tasks), img_size

    def __call__(self, batch: tuple[Tensor], generator: torch.Generator) -> tuple[Tensor, Tensor, str]:
        """Damage a batch.

        Args:
            batch: One tensor, (N, C, H, W) uint8, of at least S times the largest scale a side.
            generator: Source of everything that is drawn.

        Returns:
            Damaged images (N, C, S, S), good ones (N, C, s S, s S), and the task.
        """

        def draw(bound: int) -> int:
            return int(torch.randint(bound, (), generator=generator))

        task = self.tasks[draw(len(self.tasks))]
        side = self.img_size * task_scale(task)
        (images,) = batch
        top, left = draw(images.shape[-2] - side + 1), draw(images.shape[-1] - side + 1)
        good = as_pixels(images[..., top : top + side, left : left + side])
        good = good.flip(-1) if draw(2) else good
        good = torch.rot90(good, draw(4), dims=(-2, -1)).contiguous()
        return degrade(good, task, generator), good, task


def restoration_loss(contrastive: float = 0.1 / 255) -> LossFunction:
    """Make the loss of a restoration model: mean absolute error, and the contrastive loss of its tokens.

    Args:
        contrastive: Weight of the second; it needs batches of two images and is left out for one.

    Returns:
        Function of a model and a batch (damaged, good, task), with PSNR beside the loss.
    """

    def loss(model: nn.Module, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        damaged, good, task = batch
        restored, tokens = model(damaged, task, need_tokens=True)
        total = F.l1_loss(restored, good)
        if contrastive and len(damaged) > 1:
            total = total + contrastive * contrastive_loss(tokens)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            # Processes draw different tasks, and each waits for the gradients of all heads and tails.
            total = total + 0 * sum(parameter.sum() for parameter in model.parameters())
        return total, {"psnr": psnr(restored.detach(), good).mean()}

    return loss


@dataclass
class TrainedRestorer:
    """What a recipe for restoration gives.

    Args:
        model: The trained model.
        history: The course of the training.
        recipe: How it was trained.
    """

    model: ImageRestorationTransformer
    history: History
    recipe: RestorationRecipe

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Keep the model where ``load_restorer`` finds it.

        Args:
            folder: Where to.

        Returns:
            The file.
        """
        path = Path(folder) / RESTORER_FILE
        sizes = {"tasks": list(self.recipe.tasks), **self.recipe.sizes()}
        save_checkpoint(path, {"sizes": sizes, "model": self.model.state_dict()})
        return path


def train_restorer(
    data: str | os.PathLike[str] = "textures",
    recipe: RestorationRecipe | None = None,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    on_record: Callable[[History], None] | None = None,
) -> TrainedRestorer:
    """Train one model for several tasks.

    Args:
        data: "textures" or "scenes" for drawn images, "photos" for those in the data folders, or a folder of photos.
        recipe: Sizes and settings, or None for those of the data.
        folder: Where checkpoints are kept, or None.
        resume: Go on from the last checkpoint in ``folder``.
        on_record: Called with the history after every evaluation.

    Returns:
        The trained model.

    Raises:
        FileNotFoundError: If the photos are not on disk.
    """
    recipe = recipe or (restoration_recipe() if str(data) in DRAWN else photo_recipe())
    train, held_out = load_good_images(data, recipe)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.fit.seed)
        model = recipe.build()
    history = _fit(model, train, held_out, recipe, folder=folder, resume=resume, on_record=on_record)
    return TrainedRestorer(model, history, recipe)


def finetune_restorer(
    start: TrainedRestorer,
    task: str,
    data: str | os.PathLike[str] = "textures",
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    **changes: Any,
) -> TrainedRestorer:
    """Train a copy of a model further on one of its tasks; its head, its tail and the shared body change.

    Args:
        start: A model that was trained for several tasks; it stays what it is.
        task: The task to go on with.
        data: As for ``train_restorer``.
        folder: Where checkpoints are kept, or None.
        resume: Go on from the last checkpoint in ``folder``.
        **changes: Fields of :class:`FitConfig` that shall differ from 100 steps at a third of the first rate.

    Returns:
        The copy, trained further.

    Raises:
        ValueError: If the model has no such task.
    """
    check_choice("finetune_restorer", "task", task, start.recipe.tasks)
    gentle = {"steps": 100, "warmup": 0.1, "learning_rate": start.recipe.fit.learning_rate / 3, "evaluate_every": 50}
    recipe = replace(start.recipe, fit=replace(start.recipe.fit, **{**gentle, **changes}))
    train, held_out = load_good_images(data, recipe)
    model = recipe.build()
    model.load_state_dict(start.model.state_dict())
    history = _fit(model, train, held_out, recipe, tasks=(task,), folder=folder, resume=resume)
    return TrainedRestorer(model, history, recipe)


def load_restorer(path: str | os.PathLike[str]) -> ImageRestorationTransformer:
    """Read a model that ``TrainedRestorer.save`` has kept.

    Args:
        path: The folder of the training, or the file.

    Returns:
        The model, in eval mode.

    Raises:
        FileNotFoundError: If there is none; the message says how to get one.
        ValueError: If the file is damaged, holds something else, or its weights do not fit.
    """
    path = Path(path)
    path = path / RESTORER_FILE if path.is_dir() or not path.suffix else path
    if not path.is_file():
        raise FileNotFoundError(
            f"load_restorer: expected trained weights at {path.absolute()}, found none. Train some with: "
            f"cst train restore --out {path.parent}"
        )
    state = load_parts(path, "restorer", who="load_restorer")
    with rebuilding(path, "restorer", who="load_restorer"):
        model = ImageRestorationTransformer(**state["sizes"])
        model.load_state_dict(state["model"])
    return model.eval()


def trained_from(model: ImageRestorationTransformer, recipe: RestorationRecipe) -> TrainedRestorer:
    """Take a loaded model as the start of a fine-tuning.

    Args:
        model: The model.
        recipe: Settings; its sizes and tasks are replaced by those of the model.

    Returns:
        The model with a recipe that fits it, and an empty history.
    """
    sizes = {
        "tasks": model.tasks,
        "img_size": model.img_size,
        "patch_size": model.patch_size,
        "features": model.embed_dim // model.patch_size**2,
        "num_heads": model.encoder[0].self_attn.n_head,
        "num_layers": len(model.encoder),
        "dim_feedforward": model.mlp[0].out_features,
    }
    return TrainedRestorer(model, History(), replace(recipe, **sizes))


def load_good_images(data: str | os.PathLike[str], recipe: RestorationRecipe) -> tuple[Dataset, Tensor]:
    """Load undamaged images to learn from, and others to watch with.

    Args:
        data: As for ``train_restorer``.
        recipe: Says how large the images are.

    Returns:
        Training set of one-tuples of (3, S, S) uint8, and held-out images (M, 3, S, S) uint8.

    Raises:
        FileNotFoundError: If the photos are not on disk, or fewer than two.
    """
    size = recipe.largest
    if str(data) in DRAWN:
        images = draw_images(str(data), recipe.train_images, size, TRAIN_SEED)
        return TensorDataset(images), draw_images(str(data), VAL_IMAGES, size, VAL_SEED)
    photos = training_photos(data, least=size)
    held = max(1, len(photos) // 20)
    if len(photos) <= held:
        raise FileNotFoundError(f"load_good_images: expected two photos or more, got {len(photos)}. Add some.")
    watched = PhotoPatches(photos[:: len(photos) // held][:held], size, stride=size)
    rows = torch.linspace(0, len(watched) - 1, min(VAL_IMAGES, len(watched))).long()
    learned = [photo for number, photo in enumerate(photos) if number % (len(photos) // held)]
    return PhotoPatches(learned or photos[1:], size), watched.batch(rows)[0]


def draw_images(kind: str, count: int, size: int, seed: int) -> Tensor:
    """Draw undamaged images.

    Args:
        kind: "textures", or "scenes" of the embedded world, cut to their middle.
        count: How many.
        size: Height and width in pixels.
        seed: Seed of the series.

    Returns:
        (count, 3, size, size) uint8.

    Raises:
        ValueError: If ``kind`` is another one.
    """
    check_choice("draw_images", "kind", kind, DRAWN)
    if kind == "textures":
        return make_textures(count, size, seed)
    side = max(64, size)
    first = (side - size) // 2
    pictures = [torch.from_numpy(render(scene)).permute(2, 0, 1) for scene in make_scenes(count, seed, side=side)]
    return torch.stack(pictures)[:, :, first : first + size, first : first + size].contiguous()


def measure_gains(
    model: ImageRestorationTransformer, images: Tensor, tasks: Sequence[str] | None = None
) -> dict[str, tuple[float, float]]:
    """Measure PSNR of the (bicubically enlarged) damaged images and of the restored ones, task by task.

    Args:
        model: The model.
        images: (M, 3, H, W) good images, uint8, of at least S times the largest scale a side.
        tasks: Some of its tasks, or None for all.

    Returns:
        For each task the mean decibels before and after; the damage is the same at every call.

    Raises:
        ValueError: If the model has no such task.
    """
    found = {}
    device = next(model.parameters()).device
    for task in model.tasks if tasks is None else tasks:
        side = model.img_size * task_scale(task)
        good = as_pixels(images[..., :side, :side])
        damaged = degrade(good, task, torch.Generator().manual_seed(DAMAGE_SEED))
        before = psnr(bicubic(damaged, (side, side)), good)
        with torch.no_grad():
            restored = torch.cat([model(part.to(device), task) for part in damaged.split(50)]).cpu()
        found[task] = (before.mean().item(), psnr(restored, good).mean().item())
    return found


def score_photos(
    restore: Callable[[Tensor], Tensor], pairs: Sequence[PhotoPair], *, border: int = 2
) -> dict[str, tuple[float, float]]:
    """Measure PSNR on the brightness Y of restored photos, as published figures are measured, photo by photo.

    Args:
        restore: Function of (1, 3, H, W) pixels that gives (1, 3, s H, s W).
        pairs: Damaged and good photos.
        border: Pixels on each side that do not count.

    Returns:
        For each photo the decibels of bicubic enlargement and of the restored photo, both rounded to bytes.
    """
    found = {}
    for name, small, large in pairs:
        x, good = as_pixels(small)[None], luma(as_pixels(large)[None])
        results = (bicubic(x, tuple(large.shape[1:])), restore(x).cpu())
        scores = [psnr(luma(as_pixels(as_bytes(result))), good, border=border).item() for result in results]
        found[name] = (scores[0], scores[1])
    return found


def _fit(
    model: ImageRestorationTransformer,
    train: Dataset,
    held_out: Tensor,
    recipe: RestorationRecipe,
    *,
    tasks: Sequence[str] | None = None,
    **options: Any,
) -> History:
    tasks = recipe.tasks if tasks is None else tasks

    def evaluate(judged: nn.Module) -> dict[str, float]:
        gains = {task: after - before for task, (before, after) in measure_gains(judged, held_out, tasks).items()}
        mean = sum(gains.values()) / len(gains)
        return {"val_gain": mean, **{f"val_gain_{task}": gain for task, gain in gains.items()}}

    return fit(
        model,
        train,
        loss=restoration_loss(recipe.contrastive),
        config=recipe.fit,
        evaluate=evaluate,
        transform=Damage(tasks, recipe.img_size),
        **options,
    )
