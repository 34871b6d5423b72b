"""Recipes for detection: shapes in scenes, and photos with boxes in COCO's form, for DETR and Deformable DETR.

Muon takes the matrices of the layers and the kernels of a backbone that learns from scratch; offsets and reference
points move at a tenth of the rate, and so does a pretrained backbone, as in the papers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cs_transformers.data.box_augmentation import BoxAugmentation
from cs_transformers.data.detection import DetectionDataset, collate_detections, load_boxes, scale_shorter
from cs_transformers.data.pyramids import load_pyramid
from cs_transformers.deformable import DeformableDetectionTransformer
from cs_transformers.detection import ConvPyramid, DetectionTransformer, post_process
from cs_transformers.errors import check_choice, explain
from cs_transformers.matching import SetCriterion
from cs_transformers.training.batches import to_device
from cs_transformers.training.box_scores import average_precision, coco_tools
from cs_transformers.training.checkpoints import save_checkpoint
from cs_transformers.training.config import FitConfig
from cs_transformers.training.evaluation import LossFunction, eval_mode, mean_loss
from cs_transformers.training.history import History
from cs_transformers.training.loop import fit
from cs_transformers.training.muon import Muon
from cs_transformers.training.optimizers import layer_matrices, parameter_groups
from cs_transformers.training.run import Scheduled
from cs_transformers.training.schedules import make_schedule
from cs_transformers.training.stored_models import load_parts, rebuilding

MODELS = ("detr", "deformable")
SCORING = {"detr": "softmax", "deformable": "sigmoid"}
DETECTOR_FILE = "detector.pt"
SCENE_SIDE = 64  # a photo that a detector of scenes shall look at is scaled to what it has learnt from
SLOW = ("sampling_offsets", "reference_points")  # parameters that move at a tenth of the rate


@dataclass(kw_only=True, frozen=True)
class DetectionRecipe:
    """Sizes of a detector and the settings of its training.

    Args:
        model: "detr" or "deformable".
        backbone: "small" for a ``ConvPyramid`` from scratch, or the name of a pretrained network.
        widths: Channels of the small backbone's steps.
        strides: Strides of these steps.
        num_levels: Feature maps of the deformable model.
        num_queries: Object queries, more than any picture has objects.
        width: Model width D.
        num_heads: Number of heads.
        num_encoder_layers: Layers of the encoder.
        num_decoder_layers: Layers of the decoder.
        dim_feedforward: Inner width of the feed-forward networks.
        dropout: Probability of dropout.
        refine: Whether each decoder layer of the deformable model corrects the boxes of the one before.
        two_stage: Whether the deformable model makes its queries of what its encoder sees; with ``refine`` alone.
        side: Shorter side to which photos are scaled, in pixels; None leaves them as they are.
        augment: Whether training pictures are mirrored, cropped and recoloured.
        upside_down: Whether they may also be turned upside down.
        fit: Settings of the loop.
    """

    model: str = "detr"
    backbone: str = "small"
    widths: tuple[int, ...] = (16, 32, 64, 64)
    strides: tuple[int, ...] = (2, 2, 2, 1)
    num_levels: int = 1
    num_queries: int = 10
    width: int = 64
    num_heads: int = 4
    num_encoder_layers: int = 2
    num_decoder_layers: int = 2
    dim_feedforward: int = 128
    dropout: float = 0.0
    refine: bool = False
    two_stage: bool = False
    side: int | None = None
    augment: bool = False
    upside_down: bool = False
    fit: FitConfig = field(default_factory=FitConfig)

    def __post_init__(self) -> None:
        check_choice("DetectionRecipe", "model", self.model, MODELS)

    def build(self, num_classes: int, *, empty: bool = False) -> nn.Module:
        """Build the detector, untrained but for a pretrained backbone.

        Args:
            num_classes: Number of classes K.
            empty: Leave that backbone without its weights, for a checkpoint that is about to fill them.

        Returns:
            A ``DetectionTransformer`` or a ``DeformableDetectionTransformer``.
        """
        if self.backbone == "small":
            backbone = ConvPyramid(self.widths, self.strides, levels=self.num_levels)
        else:
            backbone = load_pyramid(self.backbone, levels=self.num_levels, empty=empty)
        names = ("num_heads", "num_encoder_layers", "num_decoder_layers", "dim_feedforward", "dropout")
        sizes = {name: getattr(self, name) for name in names}
        if self.model == "detr":
            return DetectionTransformer(num_classes, self.num_queries, self.width, **sizes, backbone=backbone)
        sizes |= {"num_levels": self.num_levels, "refine": self.refine, "two_stage": self.two_stage}
        return DeformableDetectionTransformer(num_classes, self.num_queries, self.width, **sizes, backbone=backbone)

    def criterion(self, num_classes: int) -> SetCriterion:
        """Build the set loss that belongs to the model.

        Args:
            num_classes: Number of classes K.
        """
        return SetCriterion(num_classes, focal=self.model == "deformable")


def scenes_recipe(model: str = "detr", **changes: Any) -> DetectionRecipe:
    """Give the recipe for scenes.

    Args:
        model: "detr" or "deformable".
        **changes: Fields of :class:`FitConfig` that shall differ.

    Returns:
        The recipe: 1,200 updates for DETR, 800 for the deformable model, which learns faster.
    """
    settings = FitConfig(
        steps=1200, batch_size=32, optimizer="muon", learning_rate=2e-3, muon_rate=0.01, weight_decay=1e-4,
        betas=(0.9, 0.98), warmup=0.05, evaluate_every=200, monitor="ap50", keep_best=False,
    )  # fmt: skip
    if model == "deformable":
        settings = replace(settings, steps=800)
        sizes = {"strides": (2, 2, 2, 2), "num_levels": 2, "side": SCENE_SIDE}
        return DetectionRecipe(model=model, **sizes, fit=replace(settings, **changes))
    return DetectionRecipe(model=model, side=SCENE_SIDE, fit=replace(settings, **changes))


def photos_recipe(model: str = "deformable", backbone: str = "small", **changes: Any) -> DetectionRecipe:
    """Give the recipe for photos, sized for the 205 training photos of the blood-cell set.

    Args:
        model: "detr" or "deformable".
        backbone: "small" from scratch, or the name of a pretrained network, "efficientnet-lite0" for instance.
        **changes: Fields of :class:`FitConfig` that shall differ.

    Returns:
        The recipe.
    """
    settings = FitConfig(
        steps=1500, batch_size=4, optimizer="muon", learning_rate=1e-3, muon_rate=0.01, weight_decay=1e-4,
        betas=(0.9, 0.98), warmup=0.05, evaluate_every=250, monitor="ap50", clip_norm=1.0, ema_decay=0.99,
    )  # fmt: skip
    sizes = {"widths": (16, 32, 64, 64, 128), "strides": (2, 2, 2, 2, 2), "num_levels": 3}
    if model == "detr":
        sizes = {"widths": (16, 32, 64, 64, 128), "strides": (2, 2, 2, 2, 1), "num_levels": 1}
    sizes |= {"num_queries": 60, "refine": model == "deformable", "side": 240, "augment": True, "upside_down": True}
    return DetectionRecipe(model=model, backbone=backbone, fit=replace(settings, **changes), **sizes)


@dataclass
class TrainedDetector:
    """A detector with what is needed to use it.

    Args:
        model: The model.
        classes: Names of the classes, by label.
        recipe: Sizes it was built with.
        history: The course of its training.
    """

    model: nn.Module
    classes: tuple[str, ...]
    recipe: DetectionRecipe
    history: History = field(default_factory=History)

    def find(self, images: Sequence[Tensor], *, batch_size: int = 16) -> list[dict[str, Tensor]]:
        """Find the objects of pictures, sure ones first.

        Args:
            images: Pictures (3, H, W) uint8, each of its own size.
            batch_size: Pictures at a time.

        Returns:
            For each picture "scores", "labels", "boxes" as (x0, y0, x1, y1) in its pixels, and "queries".
        """
        found: list[dict[str, Tensor]] = []
        device = next(self.model.parameters()).device
        with eval_mode(self.model), torch.no_grad():
            for start in range(0, len(images), batch_size):
                part = images[start : start + batch_size]
                scaled = [(scale_shorter(image, self.recipe.side), {}) for image in part]
                batch = to_device(collate_detections(scaled), device)
                outputs = self.model(batch["images"], batch["pixel_mask"])
                sizes = [tuple(image.shape[1:]) for image in part]
                found += post_process(outputs, sizes, scoring=SCORING[self.recipe.model])
        return [{name: value.cpu() for name, value in one.items()} for one in found]

    def score(self, data: DetectionDataset) -> dict[str, float]:
        """Measure the average precision on a data set.

        Args:
            data: Pictures with truths, of the same classes.

        Returns:
            The figures of :func:`average_precision`.

        Raises:
            ValueError: If the data has other classes.
        """
        _check_classes("score", data, self.classes)
        found = self.find([data.read(index) for index in range(len(data))])
        return average_precision(found, data.truths, self.classes)

    def save(self, path: str | Path) -> Path:
        """Store the detector, from which :func:`load_detector` makes it again.

        Args:
            path: The file to write.

        Returns:
            The path.
        """
        sizes = {name: value for name, value in asdict(self.recipe).items() if name != "fit"}
        state = {"recipe": sizes, "classes": list(self.classes), "model": self.model.state_dict()}
        save_checkpoint(Path(path), state)
        return Path(path)


def load_detector(path: str | Path) -> TrainedDetector:
    """Load a detector that was stored by ``save``.

    Args:
        path: The file, or the folder that ``cst train detect`` wrote.

    Returns:
        The detector, in eval mode, without the course of its training.

    Raises:
        FileNotFoundError: If there is no such file; the message says how to get one.
        ValueError: If the file is damaged, holds something else, or its weights do not fit.
    """
    path = Path(path)
    path = path / DETECTOR_FILE if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(
            f"load_detector: expected a trained detector at {path.absolute()}, there is none. Train one: "
            "cst train detect, or name its folder."
        )
    state = load_parts(path, "detector", who="load_detector")
    with rebuilding(path, "detector", who="load_detector"):
        sizes = {name: tuple(value) if isinstance(value, list) else value for name, value in state["recipe"].items()}
        recipe = DetectionRecipe(**sizes)
        model = recipe.build(len(state["classes"]), empty=True)
        model.load_state_dict(state["model"])
    return TrainedDetector(model.eval(), tuple(state["classes"]), recipe)


def detection_loss(criterion: SetCriterion) -> LossFunction:
    """Make the loss function of the loop from a set loss.

    Args:
        criterion: The set loss.

    Returns:
        Function of a detector and a batch that gives the loss, and beside it class, box and count errors.
    """
    shown = ("loss_ce", "loss_bbox", "loss_giou", "class_error", "cardinality_error")

    def loss(model: nn.Module, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        losses = criterion(model(batch["images"], batch["pixel_mask"]), batch["targets"])
        return losses["loss"], {name: losses[name].detach() for name in shown}

    return loss


def detection_optimizers(model: nn.Module, config: FitConfig, examples: int) -> list[Scheduled]:
    """Share the parameters out: matrices and kernels to Muon, the rest to AdamW, slow ones at a tenth of the rate.

    Args:
        model: A detector.
        config: Rates, decay, schedule and length of the training.
        examples: Number of training pictures.

    Returns:
        Pairs of optimizer and schedule, as :func:`fit` takes them.
    """
    total = config.total_steps(examples)
    schedule = make_schedule(config.schedule, total, warmup=config.warmup_steps(total), floor=config.floor)
    scratch = isinstance(model.backbone, ConvPyramid)
    named = dict(model.named_parameters())
    slow = [value for name, value in named.items() if name.startswith("backbone.") and not scratch]
    slow += [value for name, value in named.items() if any(part in name for part in SLOW)]
    slow = [value for value in slow if value.requires_grad]
    ids = {id(value) for value in slow}
    matrices = [value for value in layer_matrices(model) if id(value) not in ids]
    kernels = [value for value in model.backbone.parameters() if value.dim() == 4 and id(value) not in ids]
    rest = parameter_groups(model, config.weight_decay, leave_out=[*matrices, *kernels, *slow])
    if slow:
        rest.append({"params": slow, "lr": 0.1 * config.learning_rate, "weight_decay": 0.0})
    groups = [{"params": matrices}] + ([{"params": kernels, "lr": 2 * config.muon_rate}] if kernels else [])
    muon = Muon(groups, lr=config.muon_rate, weight_decay=config.weight_decay)
    return [(muon, schedule), (torch.optim.AdamW(rest, lr=config.learning_rate, betas=config.betas), schedule)]


def train_detector(
    data: str | Path = "scenes",
    recipe: DetectionRecipe | None = None,
    *,
    train: DetectionDataset | None = None,
    val: DetectionDataset | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    on_record: Callable[[History], None] | None = None,
) -> TrainedDetector:
    """Train a detector; validation pictures watch it, and choose the best weights where the recipe says so.

    Args:
        data: "scenes", "bccd", "coco", or a folder with boxes in COCO's form.
        recipe: Sizes and settings, or None for those of the data.
        train: Pictures to learn from, in place of those of ``data``.
        val: Pictures to watch by, in place of those of ``data``.
        folder: Where checkpoints and the finished detector are kept, or None.
        resume: Go on from the last checkpoint in ``folder``.
        on_record: Called with the history after every evaluation.

    Returns:
        The trained detector.

    Raises:
        FileNotFoundError: If the data is not on disk.
        ImportError: If pycocotools, which scores boxes, is not installed.
        ValueError: If training and validation pictures have different classes.
    """
    coco_tools()  # a long training must not fail at its first evaluation
    recipe = recipe or (scenes_recipe() if str(data) == "scenes" else photos_recipe())
    train = train if train is not None else load_boxes(data, "train", side=recipe.side)
    val = val if val is not None else load_boxes(data, "val", side=recipe.side)
    _check_classes("train_detector", val, train.classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.fit.seed)
        model = recipe.build(len(train.classes))
    loss = detection_loss(recipe.criterion(len(train.classes)))
    trained = TrainedDetector(model, train.classes, recipe)

    def evaluate(judged: nn.Module) -> dict[str, float]:
        device = next(judged.parameters()).device
        figures = replace(trained, model=judged).score(val)
        return {**mean_loss_of(judged, val, loss, device), **{name: figures[name] for name in ("ap", "ap50", "ap75")}}

    trained.history = fit(
        model, train, loss=loss, config=recipe.fit, evaluate=evaluate, folder=folder, resume=resume,
        transform=BoxAugmentation(upside_down=recipe.upside_down) if recipe.augment else None,
        optimizers=detection_optimizers(model, recipe.fit, len(train)), on_record=on_record,
    )  # fmt: skip
    model.eval()
    if folder is not None:
        trained.save(Path(folder) / DETECTOR_FILE)
    return trained


def _check_classes(who: str, data: DetectionDataset, classes: tuple[str, ...]) -> None:
    """Labels are numbers: with another list of classes each would silently mean something else."""
    if data.classes != classes:
        expected, fix = f"those of training, {list(classes)}", "list the same categories in every json file"
        raise ValueError(explain(who, "the classes", expected, list(data.classes), fix))


def mean_loss_of(
    model: nn.Module, data: DetectionDataset, loss: LossFunction, device: torch.device
) -> dict[str, float]:
    """Compute the mean loss over pictures, a few at a time: feature maps of photos are large.

    Args:
        model: A detector.
        data: Pictures with truths.
        loss: What :func:`detection_loss` made.
        device: Where the model is.

    Returns:
        "val_loss" and the figures beside it.
    """
    return {f"val_{name}": value for name, value in mean_loss(model, data, loss, device, 16).items()}
