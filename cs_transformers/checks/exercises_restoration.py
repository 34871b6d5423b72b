"""Notebook 09: restoration."""

from __future__ import annotations

from .exercise import Exercise, Notebook

NOTEBOOK_ROWS: tuple[Notebook, ...] = (Notebook("09", "09_restoration", "restoration"),)

EXERCISE_ROWS: tuple[Exercise, ...] = (
    Exercise("9.1", "unfold_patches, fold_patches", "restoration.py", 6, 25,
             {"values: unfold_patches": 1, "values: fold_patches": 1, "gradients": 1, "invariant: there and back": 1}),
    Exercise("9.2", "ImageRestorationTransformer._decode", "restoration.py", 5, 30,
             {"values": 2, "values: another task": 1, "gradients": 2, "invariant: the task matters": 0},
             needs=("1.6", "3.1", "3.5")),
    Exercise("9.3", "psnr", "training/image_scores.py", 2, 10,
             {"values": 1, "values: several images": 1}),
    Exercise("9.4", "relevance, hard_index", "texture.py", 5, 35,
             {"values: relevance": 2, "values: hard_index": 1, "gradients": 1,
              "invariant: an image finds itself": 1}),
    Exercise("9.5", "transfer_texture", "texture.py", 5, 40,
             {"values": 2, "values: several pixels per place": 1, "gradients": 1,
              "invariant: constants stay constant": 1}),
    Exercise("9.6", "the wrong reference", "", 0, 20,
             rubric={"why it can be worse than none: the search always returns a place, detail that is not there": 2,
                     "what the soft attention can and cannot do about it": 1,
                     "one remedy: a threshold, negatives in training, several references, a blend with none": 1}),
)  # fmt: skip
