"""Notebook 08: detection."""

from __future__ import annotations

from .exercise import TORCH_ATTENTION, Exercise, Notebook

READY_MADE = (
    "torchvision.ops.box_iou",
    "torchvision.ops.generalized_box_iou",
    "torchvision.ops.generalized_box_iou_loss",
    "torchvision.ops.boxes.box_iou",
    "torchvision.ops.boxes.generalized_box_iou",
)

NOTEBOOK_ROWS: tuple[Notebook, ...] = (Notebook("08", "08_detection", "detection"),)

EXERCISE_ROWS: tuple[Exercise, ...] = (
    Exercise("8.1", "sine_grid", "detection.py", 8, 40,
             {"values": 2, "values: padding": 1, "values: shift and temperature": 1},
             forbidden=(*TORCH_ATTENTION, "PositionalEncoding2D")),
    Exercise("8.2", "generalized_box_iou", "boxes.py", 6, 35,
             {"values": 2, "values: pairs": 1, "values: boxes without an area": 1, "gradients": 1},
             forbidden=(*TORCH_ATTENTION, *READY_MADE)),
    Exercise("8.3", "matching_cost", "matching.py", 4, 30,
             {"values: class": 2, "values: distance": 1, "values: overlap": 1, "values: classes one by one": 1,
              "invariant: the assignment": 0}, needs=("8.2",)),
    Exercise("8.4", "class_loss, box_loss", "matching.py", 10, 45,
             {"values: class_loss": 2, "values: box_loss": 1, "values: nothing to find": 1, "gradients": 1,
              "invariant: the whole set loss": 0}, needs=("8.2", "8.3")),
    Exercise("8.5", "sampling_locations", "deformable.py", 4, 20,
             {"values: around points": 1, "values: around boxes": 1, "gradients": 1}),
    Exercise("8.6", "why no duplicates have to be suppressed", "", 0, 25,
             rubric={"the matching: of two queries on one object, one is told to say no object, at a cost": 1,
                     "the decoder: queries look at each other and can leave an object to another": 1,
                     "the contrast: where many answers to one object are right, or queries do not see each other, "
                     "duplicates come and must be suppressed": 1}),
)  # fmt: skip
