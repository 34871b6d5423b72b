"""Notebook 07: translation."""

from __future__ import annotations

from .exercise import Exercise, Notebook

NOTEBOOK_ROWS: tuple[Notebook, ...] = (Notebook("07", "07_translation", "translation"),)

EXERCISE_ROWS: tuple[Exercise, ...] = (
    Exercise("7.1", "make_src_mask, make_tgt_mask", "translation.py", 5, 25,
             {"values: make_src_mask": 2, "values: make_tgt_mask": 2, "values: another padding": 1}, needs=("1.4",)),
    Exercise("7.2", "TranslationTransformer.forward", "translation.py", 6, 40,
             {"values": 2, "values: padding": 1, "values: two kinds of padding": 1, "gradients": 1, "dropout": 0,
              "invariant: the future stays without effect": 1, "invariant: the source matters": 0},
             needs=("7.1", "2.2", "3.2", "3.3", "3.5")),
    Exercise("7.3", "label_smoothing_loss", "translation.py", 8, 35,
             {"values": 2, "values: padding": 1, "values: a probability of zero": 1, "gradients": 1}),
    Exercise("7.4", "noam_rate", "translation.py", 2, 15, {"values": 2, "values: the first step": 1}),
    Exercise("7.5", "length_penalty", "translation.py", 1, 10, {"values": 2}),
    Exercise("7.6", "teacher forcing against generation", "", 0, 25,
             rubric={"what each reads: the right words of the target in training, its own words when it translates": 1,
                     "what follows: a mistake is read back and the model is where training never led it": 1,
                     "why it is done all the same: all places in one pass, in parallel, with a signal at each": 1,
                     "a consequence for measuring: loss and token accuracy against BLEU of what is written": 1}),
)  # fmt: skip
