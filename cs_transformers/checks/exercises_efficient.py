"""Notebook 10: efficient attention."""

from __future__ import annotations

from .exercise import Exercise, Notebook

NOTEBOOK_ROWS: tuple[Notebook, ...] = (Notebook("10", "10_efficient_attention", "efficient"),)

EXERCISE_ROWS: tuple[Exercise, ...] = (
    Exercise("10.1", "online_softmax_step", "efficient.py", 6, 45,
             {"values": 2, "values: queries that have seen nothing": 1, "gradients": 1, "dropout": 1,
              "invariant: any blocks give the softmax": 1}),
    Exercise("10.2", "positive_features, linear_attention", "efficient.py", 4, 25,
             {"values: positive_features": 1, "values: linear_attention": 1, "values: padding": 1, "gradients": 1}),
    Exercise("10.3", "linear_attention_step", "efficient.py", 5, 30,
             {"values": 1, "values: nothing seen yet": 1, "gradients": 1,
              "invariant: steps give what the masked square gives": 1}),
    Exercise("10.4", "window_partition, shift_mask", "windows.py", 8, 50,
             {"values: window_partition": 1, "values: rectangles": 1, "values: shift_mask": 2,
              "values: other shifts in rows and columns": 1, "gradients": 0,
              "invariant: neighbours in the image": 1}, needs=("1.3",)),
    Exercise("10.5", "fit_exponent and three choices", "efficient.py", 3, 40,
             {"values: power laws": 1, "values: measured points": 1},
             rubric={"a method for the first case, with the property that decides": 1,
                     "a method for the second case, with the property that decides": 1,
                     "a method for the third case, with the property that decides": 1}),
)  # fmt: skip
