"""Checks of notebook 05: what is computed on which inputs."""

from __future__ import annotations

import torch
from torch import nn

from cs_transformers import vit

from .probe import FFN, D, H, N, Probe, check

CHANNELS, CLASSES = 3, 7
IMAGE, PATCH = (8, 12), 4


@check("5.1")
def _patch_embedding(probe: Probe) -> None:
    """Squares, then images and patches that are higher or wider."""
    with probe.part("values"):
        square = probe.fill(vit.PatchEmbedding(8, 4, CHANNELS, D))
        probe.record("tokens", square(probe.tensor("square", N, CHANNELS, 8, 8)))
    with probe.part("values: rectangles"):
        wide = probe.fill(vit.PatchEmbedding(IMAGE, PATCH, CHANNELS, D))
        probe.record("tokens of a wide image", wide(probe.tensor("image", N, CHANNELS, *IMAGE)))
        flat = probe.fill(vit.PatchEmbedding((4, 9), (2, 3), CHANNELS, D))
        probe.record("tokens of wide patches", flat(probe.tensor("flat", N, CHANNELS, 4, 9)))
    with probe.part("gradients"):
        images = probe.tensor("image", N, CHANNELS, *IMAGE)
        probe.gradients(wide(images), wide, images=images)


@check("5.2")
def _pooled(probe: Probe) -> None:
    """The mean over the patches, with both kinds of positions."""
    models = [_model(probe, pool="mean"), _model(probe, pool="mean", positions="learned", norm_first=True)]
    _classify(probe, models)


@check("5.3")
def _class_token(probe: Probe) -> None:
    """The class token, with both kinds of positions."""
    models = [_model(probe, pool="cls"), _model(probe, pool="cls", positions="learned", norm_first=True)]
    _classify(probe, models)


def _model(probe: Probe, **options: object) -> nn.Module:
    sizes = {"embed_dim": D, "num_layers": 2, "num_heads": H, "dim_feedforward": FFN, "num_classes": CLASSES}
    return probe.fill(vit.VisionTransformer(IMAGE, PATCH, CHANNELS, **sizes, **options))


def _classify(probe: Probe, models: list[nn.Module]) -> None:
    images = probe.tensor("images", N, CHANNELS, *IMAGE)
    names = ("sinusoids, post-norm", "learned positions, pre-norm")
    with probe.part("values"):
        for name, model in zip(names, models, strict=True):
            probe.record(f"logits with {name}", model(images))
    with probe.part("gradients"):
        probe.gradients(models[1](images), models[1], images=images)
    with probe.part("dropout"):
        probe.dropout_as_factor()
        probe.record("logits in training", models[0].train()(images))
        models[0].eval()
    with probe.part("invariant: order of the patches"):
        left, middle, right = images.chunk(3, dim=3)
        shuffled = torch.cat((right, left, middle), dim=3)
        probe.record("logits of shuffled patches", models[1](shuffled))
        with torch.no_grad():
            models[1].positional_encoding.pe.zero_()
        probe.record("logits without positions", models[1](images))
        probe.record("logits of shuffled patches without positions", models[1](shuffled))
