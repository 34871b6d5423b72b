"""What ``cst train detect`` and ``cst detect`` do: train and judge a detector, show on a photo what it finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cs_transformers.course.training import Outcome, keep_curve
from cs_transformers.errors import check_choice, explain


def train_detector(
    data: str, model: str | None, backbone: str, folder: Path, *, resume: bool = False, **changes: Any
) -> Outcome:
    """Train a detector and judge it on pictures that training has not seen.

    Args:
        data: ``"scenes"``, ``"bccd"``, ``"coco"`` or a folder with boxes in COCO's form.
        model: ``"detr"`` or ``"deformable"``; None takes DETR for scenes and the deformable model for photos.
        backbone: ``"small"`` from scratch, or the name of a pretrained network.
        folder: Where checkpoints, the detector, history and curve are kept.
        resume: Go on from the last checkpoint in ``folder``.
        **changes: Fields of ``FitConfig`` that differ from the recipe.

    Returns:
        Average precisions on the test pictures, or on the validation pictures where there are no others.
    """
    from dataclasses import replace

    from cs_transformers.data.detection import load_boxes
    from cs_transformers.training import recipes_detection as recipes

    if model is not None:
        check_choice("train_detector", "model", model, recipes.MODELS)
    if data == "scenes":
        recipe = replace(recipes.scenes_recipe(model or "detr", **changes), backbone=backbone)
    else:
        recipe = recipes.photos_recipe(model or "deformable", backbone, **changes)
    trained = recipes.train_detector(data, recipe, folder=folder, resume=resume)
    split = "test"
    try:
        held_out = load_boxes(data, split)
    except FileNotFoundError:
        split, held_out = "val", load_boxes(data, "val")
    figures = trained.score(held_out)
    shown = {f"{name.upper()} ({split})": f"{100 * figures[name]:.1f} %" for name in ("ap50", "ap75", "ap")}
    return keep_curve(shown, trained.history, folder)


def detect(photo: Path, output: Path, *, weights: Path, threshold: float = 0.5) -> list[str]:
    """Find the objects of a photo and draw them into it.

    Args:
        photo: A picture file.
        output: Where to write the picture with the boxes; its ending names the form, png or jpg.
        weights: A detector's file, or the folder that ``cst train detect`` wrote.
        threshold: Least score of what is shown, 0 to 1.

    Returns:
        One line for each object: class, score and corners in pixels.

    Raises:
        FileNotFoundError: If the photo or the detector is missing.
        ValueError: If ``threshold`` is outside 0 to 1, or the ending of ``output`` is unknown.
    """
    if not 0 <= threshold <= 1:
        raise ValueError(
            explain("detect", "threshold", "from 0 to 1", threshold, "0.5 shows what is likelier than not")
        )
    endings = (".png", ".jpg", ".jpeg", ".pdf", ".svg")
    if output.suffix.lower() not in endings:
        expected = f"a file that ends in {', '.join(endings)}"
        raise ValueError(explain("detect", "output", expected, output.name, "name another file"))
    import matplotlib.pyplot as plt

    from cs_transformers import plots
    from cs_transformers.data.detection import read_photo
    from cs_transformers.training.recipes_detection import load_detector

    image, detector = read_photo(photo), load_detector(weights)
    (found,) = detector.find([image])
    sure = found["scores"] >= threshold
    found = {name: value[sure] for name, value in found.items()}
    plots.use_style()
    output.parent.mkdir(parents=True, exist_ok=True)
    figure = plots.found_objects([image], [found], detector.classes, size=8.0)
    figure.savefig(output)
    plt.close(figure)
    objects = zip(
        found["labels"].tolist(), found["scores"].tolist(), found["boxes"].round().int().tolist(), strict=True
    )
    return [f"{detector.classes[label]} {score:.2f} at {tuple(box)}" for label, score, box in objects]
