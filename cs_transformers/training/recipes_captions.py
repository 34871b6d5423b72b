"""Full recipes for captions: scenes with an encoder that learns along, and photos with stored features.

Each is one function that loads the data, trains, keeps checkpoints and gives the trained captioner. Both compare two
ways to show a picture to a captioner: one vector for all of it, or a grid of vectors that know their place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from cs_transformers.blocks import TransformerDecoder, TransformerDecoderLayer
from cs_transformers.captioning import CaptioningTransformer, caption_loss
from cs_transformers.data import (
    CaptionDataset,
    captions_by_image,
    decode_captions,
    describe,
    load_coco_data,
    load_flickr8k,
    make_scenes,
    render,
    scene_vocabulary,
)
from cs_transformers.data.backbones import SceneEncoder, save_scene_encoder
from cs_transformers.data.scene_files import CAPTION_LENGTH
from cs_transformers.data.scenes import Scene
from cs_transformers.errors import check_choice, explain
from cs_transformers.positional import PositionalEncoding2D
from cs_transformers.training.config import FitConfig
from cs_transformers.training.history import History
from cs_transformers.training.loop import fit
from cs_transformers.training.losses import captioning_loss
from cs_transformers.training.metrics import bleu, cider
from cs_transformers.training.muon import Muon
from cs_transformers.training.optimizers import layer_matrices, parameter_groups
from cs_transformers.training.run import Scheduled
from cs_transformers.training.schedules import warmup_cosine

MEMORIES = ("grid", "global")
TRAIN_SEED, VAL_SEED = 231, 1_000_234  # series of scenes of their own


@dataclass(kw_only=True, frozen=True)
class CaptionRecipe:
    """Sizes of a captioner and the settings of its training.

    Args:
        memory: "grid" for a grid of vectors with 2-D positions, "global" for one vector per picture.
        width: Model width D.
        num_heads: Number of heads.
        num_layers: Number of decoder layers.
        dim_feedforward: Hidden width of the feed-forward networks.
        dropout: Probability of dropping in the decoder.
        label_smoothing: Share of the target that is spread over all words.
        captions_per_scene: How many of a scene's five captions one update reads.
        train_scenes: Number of scenes to learn from.
        fit: Settings of the loop.
    """

    memory: str = "grid"
    width: int = 128
    num_heads: int = 4
    num_layers: int = 2
    dim_feedforward: int = 256
    dropout: float = 0.0
    label_smoothing: float = 0.0
    captions_per_scene: int = 5
    train_scenes: int = 6000
    fit: FitConfig = field(default_factory=FitConfig)

    def __post_init__(self) -> None:
        check_choice("CaptionRecipe", "memory", self.memory, MEMORIES)
        if not 1 <= self.captions_per_scene <= 5:
            got, fix = self.captions_per_scene, "a scene has five captions"
            raise ValueError(explain("CaptionRecipe", "captions_per_scene", "from 1 to 5", got, fix))


def scenes_recipe(memory: str = "grid", **changes: Any) -> CaptionRecipe:
    """Give the recipe for scenes.

    Args:
        memory: "grid" or "global".
        **changes: Fields of :class:`FitConfig` that shall differ, ``steps=40`` for instance.

    Returns:
        The recipe.
    """
    settings = FitConfig(
        steps=2000,
        batch_size=32,
        optimizer="muon",
        learning_rate=2e-3,
        muon_rate=0.01,
        weight_decay=0.01,
        betas=(0.9, 0.98),
        warmup=0.05,
        evaluate_every=500,
    )
    return CaptionRecipe(memory=memory, fit=replace(settings, **changes))


def photos_recipe(memory: str = "grid", **changes: Any) -> CaptionRecipe:
    """Give the recipe for photos with stored features, sized for the 4,000 training captions of the prepared Flickr8k.

    Args:
        memory: "grid" or "global".
        **changes: Fields of :class:`FitConfig` that shall differ.

    Returns:
        The recipe.
    """
    settings = FitConfig(
        epochs=12, batch_size=64, learning_rate=1e-3, weight_decay=0.05, schedule="cosine", warmup=0.05, patience=4
    )
    return CaptionRecipe(
        memory=memory,
        width=128,
        dim_feedforward=256,
        dropout=0.3,
        label_smoothing=0.1,
        fit=replace(settings, **changes),
    )


class SceneCaptioner(nn.Module):
    """A captioner with eyes: a small convolutional encoder and a decoder that learn together.

    Args:
        word_to_idx: Id of every word.
        recipe: Sizes; ``memory`` decides what the decoder sees of the picture.

    Attributes:
        encoder: The ``SceneEncoder``.
        captioner: The ``CaptioningTransformer``.
    """

    def __init__(self, word_to_idx: dict[str, int], recipe: CaptionRecipe) -> None:
        super().__init__()
        self.memory = recipe.memory
        self.encoder = SceneEncoder(recipe.width, recipe.width)
        self.captioner = make_captioner(word_to_idx, recipe.width, CAPTION_LENGTH, recipe, feature_size=0.7)

    def features(self, images: Tensor) -> Tensor:
        """Look at pictures.

        Args:
            images: (N, 3, 64, 64) uint8.

        Returns:
            (N, 64, D) with memory "grid", (N, 1, D) with "global".
        """
        pooled, grid = self.encoder(images)
        return grid if self.memory == "grid" else pooled.unsqueeze(1)  # (N, S, D)

    def forward(self, images: Tensor, captions: Tensor) -> Tensor:
        """Score the next words of several captions per picture.

        Args:
            images: (N, 3, 64, 64) uint8.
            captions: (N, R, T) word ids, R captions for each picture.

        Returns:
            (N * R, T, V) scores.
        """
        features = self.features(images).repeat_interleave(captions.shape[1], dim=0)  # (N * R, S, D)
        return self.captioner(features, captions.flatten(0, 1))

    def write(self, images: Tensor, idx_to_word: list[str], *, batch_size: int = 128) -> list[str]:
        """Write a caption for every picture, greedily.

        Args:
            images: (N, 3, 64, 64) uint8.
            idx_to_word: The words by id.
            batch_size: Pictures at a time.

        Returns:
            N sentences without special words.
        """
        with torch.no_grad():
            rows = [self.captioner.sample(self.features(part), CAPTION_LENGTH) for part in images.split(batch_size)]
        return [words_of(row, idx_to_word) for row in np.concatenate(rows)]


class ScenePictures(Dataset):
    """Rendered scenes with their five captions, read a batch at a time.

    Args:
        scenes: The scenes.
    """

    def __init__(self, scenes: list[Scene]) -> None:
        vocabulary = scene_vocabulary()
        self.images = torch.from_numpy(np.stack([render(scene).transpose(2, 0, 1) for scene in scenes]))
        rows = [[vocabulary.encode(text, CAPTION_LENGTH) for text in describe(scene)] for scene in scenes]
        self.captions = torch.from_numpy(np.stack(rows).astype(np.int64))  # (M, 5, T)

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Give some scenes.

        Args:
            indices: (N,) rows.

        Returns:
            (N, 3, 64, 64) uint8 pictures and (N, 5, T) captions.
        """
        return self.images[indices], self.captions[indices]


@dataclass
class TrainedCaptioner:
    """What a captioning recipe gives.

    Args:
        model: The trained model.
        history: The course of the training.
        idx_to_word: The words by id.
    """

    model: nn.Module
    history: History
    idx_to_word: list[str]


def train_captioner(
    data: str | Path = "scenes",
    memory: str = "grid",
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    on_record: Callable[[History], None] | None = None,
    **changes: Any,
) -> TrainedCaptioner:
    """Train a captioner with the recipe that fits the data.

    Args:
        data: "scenes", "flickr8k", "coco", or a folder in the layout of CS231n.
        memory: "grid" or "global".
        folder: Where checkpoints are kept, or None.
        resume: Go on from the last checkpoint in ``folder``.
        on_record: Called with the history after every evaluation.
        **changes: Fields of :class:`FitConfig` that shall differ from the recipe.

    Returns:
        The trained captioner.

    Raises:
        ValueError: If ``memory`` is unknown.
        FileNotFoundError: If the data is not on disk.
    """
    options = {"folder": folder, "resume": resume, "on_record": on_record}
    if str(data) == "scenes":
        return train_scene_captioner(scenes_recipe(memory, **changes), **options)
    return train_photo_captioner(data, photos_recipe(memory, **changes), **options)


def train_scene_captioner(
    recipe: CaptionRecipe | None = None,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    on_record: Callable[[History], None] | None = None,
) -> TrainedCaptioner:
    """Train a captioner and its encoder on scenes.

    The weights with the least loss on 300 scenes of another series are kept. With a folder, the trained encoder is
    stored in it as ``scene_encoder.pt``, from which features can be computed.

    Args:
        recipe: Sizes and settings, or None for :func:`scenes_recipe`.
        folder: Where checkpoints are kept, or None.
        resume: Go on from the last checkpoint in ``folder``.
        on_record: Called with the history after every evaluation.

    Returns:
        The trained captioner.
    """
    recipe = recipe or scenes_recipe()
    vocabulary = scene_vocabulary()
    train = ScenePictures(make_scenes(recipe.train_scenes, TRAIN_SEED))
    val = ScenePictures(make_scenes(min(300, recipe.train_scenes), VAL_SEED))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.fit.seed)
        model = SceneCaptioner(vocabulary.word_to_idx, recipe)
    null = vocabulary.word_to_idx["<NULL>"]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        images, captions = batch
        scores = model(images, captions[:, :, :-1])
        return caption_loss(scores, captions.flatten(0, 1), null=null, label_smoothing=recipe.label_smoothing)

    def choose(batch: Any, generator: torch.Generator) -> Any:
        images, captions = batch
        order = torch.rand(captions.shape[:2], generator=generator).argsort(dim=1)[:, : recipe.captions_per_scene]
        rows = torch.arange(len(captions)).unsqueeze(1)  # (N, 1)
        return images, captions[rows.to(captions.device), order.to(captions.device)]  # (N, R, T)

    history = fit(
        model, train, val, loss=loss, config=recipe.fit, transform=choose, folder=folder, resume=resume,
        optimizers=scene_optimizers(model, recipe.fit, len(train)), on_record=on_record,
    )  # fmt: skip
    if folder is not None:
        save_scene_encoder(model.encoder, Path(folder) / "scene_encoder.pt")
    return TrainedCaptioner(model, history, vocabulary.idx_to_word)


def train_photo_captioner(
    data: str | Path = "flickr8k",
    recipe: CaptionRecipe | None = None,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    on_record: Callable[[History], None] | None = None,
) -> TrainedCaptioner:
    """Train a captioner on stored features of photos.

    Args:
        data: "flickr8k", "coco", or a folder in the layout of CS231n.
        recipe: Sizes and settings, or None for :func:`photos_recipe`.
        folder: Where checkpoints are kept, or None.
        resume: Go on from the last checkpoint in ``folder``.
        on_record: Called with the history after every evaluation.

    Returns:
        The trained captioner.

    Raises:
        FileNotFoundError: If the data is not on disk.
    """
    recipe = recipe or photos_recipe()
    loaded = load_photo_captions(data, recipe.memory)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.fit.seed)
        length = loaded["train_captions"].shape[1]
        features = loaded["train_features"]
        size = float(np.sqrt(np.mean(np.square(features[:1000], dtype=np.float64))))
        model = make_captioner(loaded["word_to_idx"], features.shape[-1], length, recipe, feature_size=size)
    loss = captioning_loss(loaded["word_to_idx"]["<NULL>"], recipe.label_smoothing)
    train, val = CaptionDataset(loaded, "train"), CaptionDataset(loaded, "val")
    history = fit(
        model, train, val, loss=loss, config=recipe.fit, folder=folder, resume=resume, on_record=on_record
    )  # fmt: skip
    return TrainedCaptioner(model, history, loaded["idx_to_word"])


def load_photo_captions(data: str | Path, memory: str) -> dict[str, Any]:
    """Load a captions data set with the features that a kind of memory needs.

    Args:
        data: "flickr8k", "coco", or a folder in the layout of CS231n.
        memory: "grid" or "global".

    Returns:
        The dict of the data set.

    Raises:
        FileNotFoundError: If the data is not on disk.
    """
    if str(data) == "flickr8k":
        return load_flickr8k(features=memory)
    return load_coco_data(None if str(data) == "coco" else data, features=memory)


def caption_scores(
    trained: TrainedCaptioner, data: dict[str, Any], split: str = "val", *, batch_size: int = 128
) -> dict[str, float]:
    """Hold the captions of a model for the photos of a split against what people wrote.

    Args:
        trained: Model with its words.
        data: Dict of a captions data set with the features the model was trained on.
        split: Which photos.
        batch_size: Photos at a time.

    Returns:
        "bleu" (BLEU-4, 0 to 100) and "cider".
    """
    features = data[f"{split}_features"]
    length = trained.model.max_length
    starts = range(0, len(features), batch_size)
    rows = [trained.model.sample(np.asarray(features[start : start + batch_size]), length) for start in starts]
    written = [words_of(row, trained.idx_to_word) for row in np.concatenate(rows)]
    references = captions_by_image(data, split)
    return {"bleu": bleu(written, references), "cider": cider(written, references)}


def make_captioner(
    word_to_idx: dict[str, int], input_dim: int, length: int, recipe: CaptionRecipe, *, feature_size: float = 1.0
) -> CaptioningTransformer:
    """Build a captioner with the decoder of a recipe: pre-norm, narrower than Stanford's, and with other start values.

    Stanford's start values (deviation 0.02) leave words and features far smaller than positions, and attention uniform,
    for hundreds of steps. Here all three are about equally large from the start. The wavelengths of the 2-D positions
    go up to ``2 pi * 20`` grids instead of 10,000, so that more channels tell neighbouring cells apart.

    Args:
        word_to_idx: Id of every word.
        input_dim: Width of the features.
        length: Longest caption, special words included.
        recipe: Sizes.
        feature_size: Root mean square of the features' entries.

    Returns:
        The captioner.
    """
    positions = PositionalEncoding2D(recipe.width, temperature=20.0) if recipe.memory == "grid" else None
    sizes = {"wordvec_dim": recipe.width, "num_heads": recipe.num_heads, "num_layers": recipe.num_layers}
    model = CaptioningTransformer(word_to_idx, input_dim, **sizes, max_length=length, memory_positions=positions)
    layer = TransformerDecoderLayer(
        recipe.width, recipe.num_heads, recipe.dim_feedforward, recipe.dropout, norm_first=True
    )
    model.transformer = TransformerDecoder(layer, recipe.num_layers)
    model.positional_encoding.dropout.p = recipe.dropout
    for module in model.transformer.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
    nn.init.normal_(model.embedding.weight, std=0.7)  # the root mean square of a sinusoid
    nn.init.normal_(model.visual_projection.weight, std=1 / (feature_size * input_dim**0.5))
    return model


def scene_optimizers(model: SceneCaptioner, config: FitConfig, examples: int) -> list[Scheduled]:
    """Give matrices and convolution kernels to Muon, the kernels at twice the rate, and everything else to AdamW.

    Args:
        model: Model to train.
        config: Rates, decay, warm-up and length of the training.
        examples: Number of training scenes.

    Returns:
        Pairs of optimizer and schedule, as :func:`fit` takes them.
    """
    total = config.total_steps(examples)
    schedule = warmup_cosine(total, warmup=config.warmup_steps(total), floor=config.floor)
    matrices = layer_matrices(model)
    kernels = [parameter for parameter in model.encoder.parameters() if parameter.dim() == 4]
    rest = parameter_groups(model, config.weight_decay, leave_out=[*matrices, *kernels])
    groups = [{"params": matrices}, {"params": kernels, "lr": 2 * config.muon_rate}]
    muon = Muon(groups, lr=config.muon_rate, weight_decay=config.weight_decay)
    return [(muon, schedule), (torch.optim.AdamW(rest, lr=config.learning_rate, betas=config.betas), schedule)]


def words_of(row: np.ndarray, idx_to_word: list[str]) -> str:
    """Turn ids into a sentence without special words.

    Args:
        row: (T,) ids as ``sample`` gives them.
        idx_to_word: The words by id.

    Returns:
        The words up to ``<END>``, one blank between them.

    Example:
        >>> words_of(np.array([4, 5, 2, 0]), ["<NULL>", "<START>", "<END>", "<UNK>", "a", "dog"])
        'a dog'
    """
    return decode_captions(row, idx_to_word).removesuffix("<END>").rstrip()
