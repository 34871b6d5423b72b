"""How good found boxes are: mean average precision as COCO computes it, by its own pycocotools."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cs_transformers.errors import explain

NAMES = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large")  # the first six figures of COCO's summary


def average_precision(
    found: Sequence[Mapping[str, Tensor]], truths: Sequence[Mapping[str, Tensor]], classes: Sequence[str]
) -> dict[str, float]:
    """Hold found objects against the truth.

    A find is right if its class is, its box overlaps that of an object by an IoU above a threshold, and no surer find
    has taken that object. Precision and recall along the finds, surest first, give the average precision of a class.
    Objects in a crowd need not be found and cost nothing if they are.

    Args:
        found: For each picture "scores" (m,), "labels" (m,) and "boxes" (m, 4) as (x0, y0, x1, y1) in pixels.
        truths: For each picture "labels" (M,) and "boxes" (M, 4) in the same form, and where there are crowds
            "crowd_labels" and "crowd_boxes".
        classes: Names of the classes, by label.

    Returns:
        From 0 to 1: "ap" (mean over IoU thresholds .50, .55 to .95, and over the classes), "ap50", "ap75", "ap_small",
        "ap_medium" and "ap_large" (areas below 32^2, 96^2 and above), and "ap50 of NAME" for each class. NaN where
        there is nothing to find.

    Raises:
        ValueError: If the numbers of pictures differ, or a label lies outside the classes.
        ImportError: If pycocotools is not installed.

    Example:
        >>> truth = {"labels": torch.tensor([0]), "boxes": torch.tensor([[0.0, 0.0, 9.0, 9.0]])}
        >>> round(average_precision([{**truth, "scores": torch.tensor([0.9])}], [truth], ["circle"])["ap50"], 6)
        1.0

    Source:
        Lin et al. 2014, "Microsoft COCO", arXiv:1405.0312; cocodataset.org/#detection-eval.
    """
    who = "average_precision"
    if len(found) != len(truths):
        got = f"{len(found)} finds for {len(truths)} truths"
        raise ValueError(explain(who, "found", "one entry for each truth", got, "score one split at a time"))
    for name, entries in (("found", found), ("truths", truths)):
        labels = torch.cat([entry["labels"].cpu() for entry in entries]) if entries else torch.zeros(0)
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(classes):
            got = [int(labels.min()), int(labels.max())]
            raise ValueError(explain(who, f"labels of {name}", f"0 to {len(classes) - 1}", got, "name every class"))
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints what it does
        evaluation = _evaluate(found, truths, classes)
    figures = {name: _figure(value) for name, value in zip(NAMES, evaluation.stats, strict=False)}
    precision = evaluation.eval["precision"]  # (thresholds, recalls, classes, areas, most finds)
    for index, name in enumerate(classes):
        figures[f"ap50 of {name}"] = _figure(precision[0, :, index, 0, 2].mean())
    return figures


def found_counts(
    found: Sequence[Mapping[str, Tensor]],
    truths: Sequence[Mapping[str, Tensor]],
    *,
    threshold: float = 0.5,
    overlap: float = 0.5,
) -> dict[str, float]:
    """Count what a detector gets right at one threshold, which is easier to read than average precision.

    Surest finds first, each takes an object of its class that it overlaps enough and that none has taken. A find that
    only overlaps a taken one is a duplicate.

    Args:
        found: For each picture "scores" (m,), "labels" (m,) and "boxes" (m, 4) as (x0, y0, x1, y1) in pixels.
        truths: For each picture "labels" (M,) and "boxes" (M, 4) in the same form.
        threshold: Least score of a find that counts.
        overlap: Least IoU with its object.

    Returns:
        "recall" (share of the objects that are found), "precision" (share of the finds that take an object) and
        "duplicates" (duplicates per object), all NaN-free: a share of nothing is 0.

    Raises:
        ValueError: If the numbers of pictures differ.

    Example:
        >>> truth = {"labels": torch.tensor([0]), "boxes": torch.tensor([[0.0, 0.0, 9.0, 9.0]])}
        >>> twice = {name: value.repeat(2, *[1] * (value.dim() - 1)) for name, value in truth.items()}
        >>> found_counts([{**twice, "scores": torch.tensor([0.9, 0.8])}], [truth])
        {'recall': 1.0, 'precision': 0.5, 'duplicates': 1.0}
    """
    from torchvision.ops import box_iou

    if len(found) != len(truths):
        got = f"{len(found)} finds for {len(truths)} truths"
        raise ValueError(explain("found_counts", "found", "one entry for each truth", got, "score one split at a time"))
    objects = finds = right = duplicates = 0
    for entry, truth in zip(found, truths, strict=True):
        sure = entry["scores"] >= threshold
        order = entry["scores"][sure].argsort(descending=True)
        labels, boxes = entry["labels"][sure][order], entry["boxes"][sure][order]
        fits = (box_iou(boxes, truth["boxes"].to(boxes)) >= overlap) & (labels[:, None] == truth["labels"][None])
        free = torch.ones(len(truth["labels"]), dtype=torch.bool)
        for row in fits:
            if bool((row & free).any()):
                free[(row & free).nonzero()[0]] = False
            elif bool(row.any()):
                duplicates += 1
        objects, finds, right = objects + len(free), finds + len(labels), right + int((~free).sum())
    shares = right / max(objects, 1), right / max(finds, 1), duplicates / max(objects, 1)
    return dict(zip(("recall", "precision", "duplicates"), shares, strict=True))


def coco_tools() -> tuple[Any, Any]:
    """Import what average precision is computed with.

    Returns:
        The classes COCO and COCOeval of pycocotools.

    Raises:
        ImportError: If pycocotools is not installed; the message says how to get it.
    """
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise ImportError(
            "average_precision: boxes are scored by pycocotools, which is not installed. Type: pip install "
            '"cs_transformers[score]", or pip install pycocotools'
        ) from error
    return COCO, COCOeval


def _figure(value: float) -> float:
    return float("nan") if value < 0 else float(value)  # COCO writes -1


def _evaluate(
    found: Sequence[Mapping[str, Tensor]], truths: Sequence[Mapping[str, Tensor]], classes: Sequence[str]
) -> Any:
    COCO, COCOeval = coco_tools()
    truth, finds = COCO(), COCO()
    images = [{"id": number} for number in range(len(truths))]
    categories = [{"id": label, "name": name} for label, name in enumerate(classes)]
    objects: list[dict[str, Any]] = []
    for number, entry in enumerate(truths):
        _add(objects, number, entry["labels"], entry["boxes"], iscrowd=0)
        if "crowd_boxes" in entry:
            _add(objects, number, entry["crowd_labels"], entry["crowd_boxes"], iscrowd=1)
    guesses: list[dict[str, Any]] = []
    for number, entry in enumerate(found):
        _add(guesses, number, entry["labels"], entry["boxes"], scores=entry["scores"])
    for side, entries in ((truth, objects), (finds, guesses)):
        side.dataset = {"images": images, "categories": categories, "annotations": entries}
        side.createIndex()
    evaluation = COCOeval(truth, finds, "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return evaluation


def _add(
    annotations: list[dict[str, Any]],
    number: int,
    labels: Tensor,
    boxes: Tensor,
    *,
    scores: Tensor | None = None,
    iscrowd: int = 0,
) -> None:
    """Append boxes in COCO's form; its ids start from 1, as it takes 0 for none."""
    corners = boxes.detach().cpu().double().numpy().reshape(-1, 4)
    widths = np.concatenate((corners[:, :2], corners[:, 2:] - corners[:, :2]), axis=1)
    sure = np.ones(len(corners)) if scores is None else scores.detach().cpu().double().numpy()
    for label, box, score in zip(labels.tolist(), widths, sure, strict=True):
        entry = {"id": len(annotations) + 1, "image_id": number, "category_id": label, "bbox": box.tolist()}
        annotations.append({**entry, "area": float(box[2] * box[3]), "iscrowd": iscrowd, "score": float(score)})
