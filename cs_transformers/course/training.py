"""What ``cst train`` does: choose the recipe for the data, train, judge the result, keep it with its curve."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

HELD_OUT_SCENES, HELD_OUT_SEED = 500, 2_000_003  # a series that neither training nor validation draws from


@dataclass(frozen=True)
class Outcome:
    """What a training run ends with.

    Args:
        figures: Name of each figure and its value, as shown.
        folder: Where weights, history and curve lie.
    """

    figures: dict[str, str]
    folder: Path


def train_captioner(data: str, memory: str, folder: Path, *, resume: bool = False, **changes: Any) -> Outcome:
    """Train a captioner and judge the captions it writes.

    Args:
        data: ``"scenes"``, ``"flickr8k"``, ``"coco"`` or a folder in the layout of CS231n.
        memory: ``"grid"`` or ``"global"``.
        folder: Where checkpoints, history and curve are kept.
        resume: Go on from the last checkpoint in ``folder``.
        **changes: Fields of ``FitConfig`` that differ from the recipe.

    Returns:
        Figures on pictures that training has not seen.
    """
    from cs_transformers.training import recipes_captions as recipes

    trained = recipes.train_captioner(data, memory, folder=folder, resume=resume, **changes)
    if data == "scenes":
        figures = _truth_of_scene_captions(trained)
    else:
        loaded = recipes.load_photo_captions(data, memory)
        scores = recipes.caption_scores(trained, loaded, "test" if "test_features" in loaded else "val")
        figures = {name: f"{value:.3f}" for name, value in scores.items()}
    return keep_curve(figures, trained.history, folder)


def train_vit(data: str, folder: Path, *, resume: bool = False, **changes: Any) -> Outcome:
    """Train a Vision Transformer on images and look at the test images once.

    Args:
        data: ``"scenes"``, ``"cifar10"`` or a folder of class folders.
        folder: Where checkpoints, history and curve are kept.
        resume: Go on from the last checkpoint in ``folder``.
        **changes: Fields of ``FitConfig`` that differ from the recipe.

    Returns:
        Accuracies on validation and test images.
    """
    from cs_transformers.data.images import load_images
    from cs_transformers.training import recipes_vit as recipes

    held_out = {
        f"{name} accuracy": load_images(data, split) for name, split in (("validation", "val"), ("test", "test"))
    }
    config = (recipes.cifar_config if data.startswith("cifar10") else recipes.shapes_config)(**changes)
    trained = recipes.train_vit(data, config, folder=folder, resume=resume)
    figures = {
        name: f"{100 * (trained.predict(part.images) == part.labels).double().mean().item():.1f} %"
        for name, part in held_out.items()
    }
    return keep_curve(figures, trained.history, folder)


def _truth_of_scene_captions(trained: Any) -> dict[str, str]:
    from cs_transformers.data import caption_accuracy, make_scenes
    from cs_transformers.training.recipes_captions import ScenePictures

    scenes = make_scenes(HELD_OUT_SCENES, HELD_OUT_SEED)
    written = trained.model.write(ScenePictures(scenes).images, trained.idx_to_word)
    return {"true captions of held-out scenes": f"{100 * caption_accuracy(written, scenes):.1f} %"}


def keep_curve(figures: dict[str, str], history: Any, folder: Path) -> Outcome:
    """Write the curve of a training beside the history that ``fit`` has written.

    Args:
        figures: What was measured.
        history: The course of the training.
        folder: Where it is kept.

    Returns:
        The outcome.
    """
    import matplotlib.pyplot as plt

    from cs_transformers import plots

    plots.use_style()
    figure = plots.training_curves(history.losses, history.rows)
    figure.savefig(folder / "history.part.png")
    (folder / "history.part.png").replace(folder / "history.png")
    plt.close(figure)
    return Outcome(figures, folder)
