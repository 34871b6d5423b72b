"""The core course: notebooks 01 to 06, 100 points."""

from __future__ import annotations

from .exercise import AUTOGRAD, TORCH_ATTENTION, Exercise, Notebook

NOTEBOOK_ROWS = (
    Notebook("01", "01_attention", "attention"),
    Notebook("02", "02_positional_encoding", "positional"),
    Notebook("03", "03_transformer_blocks", "blocks"),
    Notebook("04", "04_image_captioning", "captioning"),
    Notebook("05", "05_vision_transformer", "vit"),
    Notebook("06", "06_inline_questions", "questions"),
)

_ATTENTION = (
    Exercise("1.1", "attention_scores", "attention.py", 2, 15,
             {"values": 2, "gradients": 1, "invariant: spread at every width": 0}),
    Exercise("1.2", "attention_weights", "attention.py", 4, 25,
             {"values: no mask": 1, "values: with a mask": 1, "values: rows that see nothing": 1, "gradients": 1,
              "invariant: rows sum to 1": 0}),
    Exercise("1.3", "scaled_dot_product_attention", "attention.py", 3, 10,
             {"values": 1, "gradients": 0, "dropout": 1, "invariant: order of the keys": 0}, needs=("1.1", "1.2")),
    Exercise("1.4", "causal_mask", "attention.py", 1, 10, {"values": 1, "values: the device asked for": 1}),
    Exercise("1.5", "split_heads, join_heads", "attention.py", 4, 20,
             {"values: split_heads": 1, "values: join_heads": 1, "gradients": 0, "invariant: there and back": 1}),
    Exercise("1.6", "MultiHeadAttention.forward", "attention.py", 6, 30,
             {"values": 1, "values: masks and weights": 1, "gradients": 1, "dropout": 1}, needs=("1.3", "1.5")),
    Exercise("1.7", "fused_projection", "attention.py", 3, 15,
             {"values": 1, "values: one product": 0, "gradients": 1}),
    Exercise("1.8", "attention_backward", "attention.py", 6, 45,
             {"values: by value": 1, "values: by query": 1, "values: by key": 1, "values: with a mask": 1},
             needs=("1.1", "1.2"), forbidden=(*TORCH_ATTENTION, *AUTOGRAD)),
)  # fmt: skip

_POSITIONS = (
    Exercise("2.1", "sinusoidal_table", "positional.py", 5, 30,
             {"values": 2, "values: far positions": 1, "invariant: distance alone decides": 1}),
    Exercise("2.2", "PositionalEncoding.forward", "positional.py", 2, 10,
             {"values": 1, "values: a later start": 0, "gradients": 0, "dropout": 1}, needs=("2.1",)),
    Exercise("2.3", "apply_rotary", "positional.py", 5, 30,
             {"values": 1, "gradients": 1, "invariant: distance alone decides": 1}, needs=("2.1",)),
)  # fmt: skip

_LAYER = {"values": 1, "values: padding and positions": 1, "gradients": 1, "dropout": 1}
_BLOCKS = (
    Exercise("3.1", "FeedForwardNetwork.forward", "blocks.py", 1, 5,
             {"values": 1, "gradients": 0, "dropout": 0, "invariant: each token by itself": 0}),
    Exercise("3.2", "TransformerEncoderLayer._post_norm", "blocks.py", 4, 20,
             {**_LAYER, "invariant: order of the tokens": 0}, needs=("1.6", "3.1")),
    Exercise("3.3", "TransformerDecoderLayer._post_norm", "blocks.py", 4, 20,
             {"values": 1, "values: masks and positions": 1, "gradients": 1, "dropout": 1,
              "invariant: the future stays without effect": 0}, needs=("1.6", "3.1")),
    Exercise("3.4", "TransformerEncoderLayer._pre_norm", "blocks.py", 4, 20,
             {"values": 1, "values: padding and positions": 1, "gradients": 0, "dropout": 1,
              "invariant: zero sublayers change nothing": 0}, needs=("1.6", "3.1")),
    Exercise("3.5", "clone_layers", "blocks.py", 2, 5, {"values": 1}),
)  # fmt: skip

_CAPTIONS = (
    Exercise("4.1", "CaptioningTransformer.forward", "captioning.py", 6, 40,
             {"values": 2, "values: several features": 1, "gradients": 1, "dropout": 0,
              "invariant: the future stays without effect": 1, "invariant: the image matters": 0},
             needs=("1.4", "2.2", "3.3", "3.5")),
    Exercise("4.2", "caption_loss", "captioning.py", 4, 20,
             {"values": 1, "values: options": 1, "gradients": 1, "invariant: padding without effect": 0}),
    Exercise("4.3", "extend_cache", "cache.py", 4, 20,
             {"values": 1, "gradients": 0, "invariant: steps give what the whole gives": 1}, needs=("1.6",)),
    Exercise("4.4", "greedy_decode", "decoding.py", 8, 40,
             {"values": 2, "values: the end, then nothing": 1, "invariant: it stops when all have ended": 1}),
    Exercise("4.5", "beam_step", "decoding.py", 5, 35,
             {"values": 1, "values: finished and forbidden": 1, "invariant: whole searches": 1}),
    Exercise("4.6", "overfit_captions", "training/recipes.py", 9, 15, {"score: the loss falls below 0.05": 2},
             needs=("4.1", "4.2"), seconds=120.0, scoring="score 4.6"),
)  # fmt: skip

_IMAGES = (
    Exercise("5.1", "PatchEmbedding.forward", "vit.py", 3, 30,
             {"values": 2, "values: rectangles": 1, "gradients": 1}),
    Exercise("5.2", "VisionTransformer._pooled", "vit.py", 4, 15,
             {"values": 1, "gradients": 1, "dropout": 0, "invariant: order of the patches": 1},
             needs=("2.2", "3.2", "3.4", "3.5", "5.1")),
    Exercise("5.3", "VisionTransformer._class_token", "vit.py", 4, 20,
             {"values": 2, "gradients": 1, "dropout": 0, "invariant: order of the patches": 0},
             needs=("2.2", "3.2", "3.4", "3.5", "5.1")),
    Exercise("5.4", "overfit_batch", "training/recipes.py", 9, 15, {"score: every image is named right": 2},
             needs=("5.2",), seconds=120.0, scoring="score 5.4"),
    Exercise("5.5", "vit_recipe", "training/recipes.py", 10, 60,
             {"score: three of four classes are right": 2, "score: nine of ten classes are right": 2},
             needs=("5.2",), seconds=400.0, scoring="score 5.5", inputs="inputs 5.5"),
)  # fmt: skip

_QUESTIONS = (
    Exercise("6.1", "score_statistics and three reasons", "analysis.py", 4, 40, {"values": 2}, needs=("1.5",),
             rubric={"several heads: what one softmax per query cannot do": 1,
                     "the scale: variance of the scores, saturated softmax, vanishing gradients": 1,
                     "the output projection: heads are mixed, and not only set side by side": 1}),
    Exercise("6.2", "ViT against CNN on small data", "", 0, 30,
             rubric={"causes: locality and translation are built into a CNN and must be learned by a ViT": 2,
                     "techniques: two that add data or bias (augmentation, pretraining, distillation, ...)": 2}),
    Exercise("6.3", "cost_ratios and a reason", "analysis.py", 4, 25,
             {"values: width and depth": 1, "values: image and patch": 1},
             forbidden=(*TORCH_ATTENTION, "attention_flops", "measured_cost_ratios"),
             rubric={"why the side of the image enters with its fourth power and the width once": 1}),
    Exercise("6.4", "predict_one_token", "analysis.py", 3, 20,
             {"values": 1, "values: gradients": 2}, forbidden=(*TORCH_ATTENTION, "measure_one_token")),
    Exercise("6.5", "find_the_fault", "analysis.py", 8, 40,
             {"score: a": 1, "score: b": 1, "score: c": 1, "score: d": 1}, needs=("1.3",), scoring="score 6.5"),
)  # fmt: skip

EXERCISE_ROWS = (*_ATTENTION, *_POSITIONS, *_BLOCKS, *_CAPTIONS, *_IMAGES, *_QUESTIONS)
